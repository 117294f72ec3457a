"""How rules with a rate have fared, as the journal tells: what moves their quantiles (`kinband.policies.calibration`).

A reward is held against what was predicted, when asking, of what the station ran: of what was decided, or of what a
rail, a person or the shadow mode put in its place, as far as that prediction was kept. So rewards of a controller that
only watches count as well. It counts as a trial where what ran is not what the station ran when asking. A correction
changes what that reward counted for. All of it follows from setup and journal, so that a replay stands where the
original stood.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kinband.controller.events import Corrected, Entry, Told
from kinband.controller.journal import Journal
from kinband.controller.setup import Setup
from kinband.drift import residual
from kinband.policies.calibration import NOTE, Calibration
from kinband.policies.constraints import FLOOR
from kinband.policies.kpi_floors import KPI
from kinband.policies.kpi_floors import NOTE as KPIS
from kinband.policies.safety import calibrations


class Calibrated:
    """What is known of rates, kept up with a journal entry by entry.

    Args:
        setup: The fixed setup of the controller; where no rule has a rate, nothing is kept.

    Attributes:
        rules: How each has fared, by "floor", "budget" and "kpi: <name>".

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.policies import Floor
        >>> space, running = ConfigurationSpace(tilt=[2, 4]), {"tilt": 2}
        >>> controller = Controller(space, ["a"], noise=0.01, mean=0.5, safety=Floor(0.1, delta=0.05), running=running)
        >>> for reward in (0.5, -9.0):
        ...     controller.tell(controller.ask("a").id, reward)
        >>> rate = Calibrated(controller.setup)
        >>> for entry in controller.journal:
        ...     rate.note(entry, controller.journal)
        >>> rate.rules["floor"].every.missed, rate.tried(0)
        (1, frozenset({0}))
    """

    def __init__(self, setup: Setup) -> None:
        self.rules: dict[str, Calibration] = calibrations(setup.rules, setup.kpis)
        self._noise, self._kpis = setup.noise, {f"{KPI}{kpi.name}": kpi for kpi in setup.kpis}
        self._tried, start = dict[int, set[int]](), setup.start
        if self.rules and start is not None and start.arms is not None:
            for task, arm in zip(start.tasks.tolist(), start.arms.tolist(), strict=True):
                self._tried.setdefault(task, set()).add(arm)

    @property
    def seeded(self) -> bool:
        """Whether every rule knows enough rewards; from then on nobody asks what has run."""
        return all(one.seeded for one in self.rules.values())

    def tried(self, task: int) -> frozenset[int]:
        """Return what has run at a station, in the log it started from and since, as far as its rewards are known."""
        return frozenset() if self.seeded else frozenset(self._tried.get(task, ()))

    def note(self, entry: Entry, journal: Journal) -> None:
        """Take in an entry, which the journal may hold already, but for a correction."""
        if not self.rules:
            return
        match entry:
            case Told():
                self._tried.setdefault(journal.find(entry.id).task, set()).add(journal.ran(entry.id))
                for rule, missed in self._judged(entry, journal).items():
                    self.rules[rule] = self.rules[rule].told(missed, trial=_is_trial(entry, journal))
            case Corrected():
                for right in journal.put_right(entry).values():
                    self._correct(journal.find_told(right.id), right, journal)

    def _correct(self, was: Told, right: Told, journal: Journal) -> None:
        """Count a reward for what it is now; a KPI that comes late is counted as if it had come."""
        before, trial = self._judged(was, journal), _is_trial(was, journal)
        for rule, missed in self._judged(right, journal).items():
            known = self.rules[rule]
            if rule not in before:
                self.rules[rule] = known.told(missed, trial=trial)
            elif missed != before[rule]:
                self.rules[rule] = known.corrected(1 if missed else -1, trial=trial)

    def _judged(self, told: Told, journal: Journal) -> dict[str, bool]:
        """Return which bounds a reward missed, of those that it can be held against."""
        noted = journal.find(told.id).decision.policy_state.get(NOTE, {}).get("rules", {})
        scores = {rule: self._score(rule, told, journal) for rule in noted}
        return {rule: z > noted[rule]["quantile"] for rule, z in scores.items() if z is not None}

    def _score(self, rule: str, told: Told, journal: Journal) -> float | None:
        """Return how far a measurement lies on the wrong side of its prediction, in standard deviations of both."""
        if rule in self._kpis:
            return self._kpi_score(rule, told, journal)
        predicted = _predicted(told.id, journal)
        if predicted is None:
            return None
        z = residual(told.reward, mean=predicted[0], std=predicted[1], noise=self._noise + (told.noise or 0.0))
        return -z if rule == FLOOR else abs(z)

    def _kpi_score(self, rule: str, told: Told, journal: Journal) -> float | None:
        kpi, note = self._kpis[rule], journal.find(told.id).decision.policy_state.get(KPIS, {})
        arms, ran = note.get("arms", ()), journal.ran(told.id)
        if kpi.name not in told.kpis or ran not in arms:
            return None
        value, variance = told.kpis[kpi.name]
        at, noise = arms.index(ran), (kpi.floor.noise or 0.0) + (variance or 0.0)
        z = residual(value, mean=note["means"][kpi.name][at], std=note["widths"][kpi.name][at], noise=noise)
        sides = (-z if kpi.floor.at_least is not None else z, z if kpi.floor.at_most is not None else -z)
        return max(sides)

    def stored(self) -> dict[str, Any]:
        """Return JSON-able values that `take_up` takes."""
        tried = [] if self.seeded else [[task, sorted(arms)] for task, arms in self._tried.items()]
        return {"rules": {name: one.stored() for name, one in self.rules.items()}, "tried": tried}

    def take_up(self, values: Mapping[str, Any]) -> None:
        """Go on where another one was."""
        known: Mapping[str, Sequence[Any]] = values["rules"]
        self.rules = {name: one.taken_up(known[name]) if name in known else one for name, one in self.rules.items()}
        self._tried = {int(task): set(arms) for task, arms in values["tried"]}


def _is_trial(told: Told, journal: Journal) -> bool:
    """Whether a station ran something else than it ran when asking."""
    running = journal.find(told.id).decision.policy_state.get(NOTE, {}).get("running")
    return running is not None and journal.ran(told.id) != running


def _predicted(decision_id: str, journal: Journal) -> tuple[float, float] | None:
    """Return mean and std that were predicted of what ran, None where none were kept."""
    found = journal.predicted(decision_id)
    note = journal.find(decision_id).decision.policy_state.get(NOTE, {})
    if found is None and "predicted" in note and journal.ran(decision_id) == note["running"]:
        mean, std = note["predicted"]
        return mean, std
    return found
