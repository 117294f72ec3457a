"""What follows from the journal: what runs, what time it is, and a policy that has learned all of it."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, fsum, inf
from typing import Any

import numpy as np

from kinband.controller.calibrating import Calibrated
from kinband.controller.events import (
    Asked,
    CalledOff,
    ChangePoint,
    Corrected,
    Entry,
    Estimated,
    Joined,
    Ran,
    Shaping,
    Told,
)
from kinband.controller.journal import Journal, Past, check_entry
from kinband.controller.setup import Setup
from kinband.controller.stations import CurrentSetup
from kinband.drift import ChangeDetector, log_end, read_time, residual, row_after_change
from kinband.errors import BadInputError, CannotCorrectError
from kinband.kpis import NeighbourReward
from kinband.policies import Policy, PolicyFactory, PolicySpec
from kinband.policies.base import KeepsState, correct, extend_tasks, learn_log
from kinband.policies.budget import held_lower
from kinband.policies.safety import Constrained
from kinband.records import Observation, Samples

# --- The watch over drift: what time it is, and which stations have changed, kept up with a journal entry by entry
#
# The clock must not run back: a decision made at an earlier time than the one before would count as old from the
# start. Nor may it leap ahead by more than `LEAP` half-lives, after which nothing that fades counts: a mistyped year
# would be recorded, and every right time after it refused. A reward may come as late as it likes, it counts at the
# time of its decision. Stations are judged by the predictions that were stored when asking, of what they ran, and by
# rewards as they were first told, so that a replay stands where the original stood; a correction does not undo a
# reset.
#
# A station that has changed is a newcomer: it gets a new task, whose row of the task matrix `kinband.drift`
# finds. Nothing is learned anew, its old rewards stay evidence for those it resembled, and its past is called
# "<station> until <decision>".

LEAP = 50.0
"""Half-lives that a clock may move on from one decision to the next; after so many, a reward counts 2⁻⁵⁰."""

_log = logging.getLogger(__name__)


class Watch:
    """What drift asks of the journal.

    Args:
        setup: The fixed setup of the controller; without `drift` nothing is watched.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.drift import Drift
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> controller = Controller(space, ["a"], noise=0.01, mean=0.5, reward_range=(0, 1), drift=Drift())
        >>> for reward in [0.5] * 20 + [0.1] * 6:
        ...     controller.tell(controller.ask("a", allowed=[0]).id, reward)
        >>> controller.current.stations
        ('a until d000022', 'a')
    """

    def __init__(self, setup: Setup) -> None:
        drift, self._noise = setup.config.drift, setup.noise
        self._rule = None if drift is None else drift.resets
        self._kind = drift.clock if drift is not None and drift.forgets else None
        self._column = setup.clock_column
        half_life = None if drift is None else drift.half_life
        self._half_life = half_life if isinstance(half_life, float) else inf
        self._latest: float | None = None
        self._evidence: dict[int, ChangeDetector] = {}

    def read(self, time: Any, current: Setup, journal: Journal) -> float | None:
        """Return what the clock shows when deciding, None without one; refuse a clock that runs back or leaps."""
        if self._kind in (None, "decisions"):
            if time is not None:
                raise BadInputError(
                    "this controller has no clock that can be set",
                    hint="leave time= out, or declare one by drift=Drift(half_life=..., clock=...)",
                    code="no_clock",
                    argument="time",
                )
            return None if self._kind is None else float(len(journal.asked))
        if time is None:
            hint = "say the time of a decision by time="
            raise BadInputError(
                f"this controller's clock counts {self._kind}", hint=hint, code="time_missing", argument="time"
            )
        now = read_time(time, self._kind)
        last = self._latest if self._latest is not None else log_end(current.start, self._column or 0)
        self._check_step(now, last)
        return now

    def _check_step(self, now: float, last: float) -> None:
        """Refuse a time before the last one, or so far behind it that nothing would count any more."""
        whose = "the last decision" if self._latest is not None else "the log"
        if now < last:
            raise BadInputError(
                f"the clock jumped back: time {self._shown(now)} lies before {self._shown(last)} of {whose}; nothing "
                "was recorded: set the clock right and ask again"
            )
        ahead = 0.0 if last == -inf else (now - last) / self._half_life
        if ahead > LEAP:
            raise BadInputError(
                f"the clock jumped ahead by {ahead:.3g} half-lives, from {self._shown(last)} of {whose} to "
                f"{self._shown(now)}: nothing that fades would count any more; nothing was recorded: set the clock "
                "right and ask again, or ask at a time in between first if so much time has passed"
            )

    def note(self, entry: Entry, journal: Journal) -> None:
        """Take in an entry that has been added to the journal."""
        match entry:
            case Asked() if self._column is not None:
                self._latest = float(entry.x[self._column])
            case Told() if self._rule is not None:
                self._judge(entry, journal)

    def take_back(self, journal: Journal) -> None:
        """Show the time of the journal's last decision: those after it were taken back."""
        last = journal.last
        self._latest = None if last is None or self._column is None else float(last.x[self._column])

    def stored(self) -> dict[str, Any]:
        """Return JSON-able values that `take_up` takes."""
        return {"latest": self._latest, "evidence": [[task, one.stored()] for task, one in self._evidence.items()]}

    def take_up(self, values: Mapping[str, Any]) -> None:
        """Go on where another one was."""
        self._latest = values["latest"]
        self._evidence = {int(task): ChangeDetector.taken_up(one) for task, one in values["evidence"]}

    def change_points(self, told: Told, current: CurrentSetup, journal: Journal) -> Sequence[ChangePoint]:
        """Return the entry with which the station of a reward starts anew, if it has changed."""
        asked = journal.asked[told.id]
        evidence = self._evidence.get(asked.task)
        if self._rule is None or evidence is None or evidence.value < self._rule.run_length:
            return ()
        station = current.stations[asked.task]
        if station not in current.active:  # it has left, or has started anew already
            return ()
        row = row_after_change(current.K_Z, asked.task, former=current.former, kept=self._rule.kept)
        _log.info("station %s has changed: it starts anew after decision %s", station, told.id)
        return (ChangePoint(station, len(current.stations), tuple(row.tolist()), told.id, evidence.value),)

    def _judge(self, told: Told, journal: Journal) -> None:
        predicted = journal.predicted(told.id)
        if predicted is None:  # a policy without a model, or something ran that was far from the best
            return
        mean, std = predicted
        z = residual(told.reward, mean=mean, std=std, noise=self._noise + (told.noise or 0.0))
        self._evidence.setdefault(journal.asked[told.id].task, ChangeDetector()).add(z)

    def _shown(self, time: float) -> str:
        return f"{time:.15g}" if self._kind == "numbers" else str(np.datetime64(floor(time), "s")).replace("T", " ")


# --- What is deployed at every station, as the journal tells: what it runs, and what its pending decisions count for
#
# A station runs what its caller says when asking; else what ran for it last, which is what was decided and not called
# off unless somebody said that something else ran; else what was declared for it. All of it follows from setup and
# journal, so that a replay stands where the original stood.
#
# A decision that was called off is not what runs. Whether it ever ran is not known, so in a budget it keeps what it may
# have cost and loses what it may have earned. Where somebody said what ran in its place, that did run, whether or not a
# reward will come; in a budget it counts as `kinband.policies.budget` says.


class DeployedState:
    """What is deployed at every station, kept up with a journal entry by entry.

    Args:
        budget: Whether pending decisions count in a budget; if not, policy states are not looked into.

    Example:
        >>> import numpy as np
        >>> from kinband.records import Decision
        >>> deployed, journal = DeployedState(budget=False), Journal()
        >>> for number, arm in enumerate([3, 5]):
        ...     asked = Asked(Decision(f"d{number}", "a", arm, None, None, None, None), 0, np.zeros(1), None)
        ...     journal.add(asked)
        ...     deployed.note(asked, journal)
        >>> deployed.running(0, journal)
        5
        >>> deployed.note(CalledOff("d1"), journal)
        >>> deployed.running(0, journal)
        3
    """

    def __init__(self, *, budget: bool) -> None:
        self._budget = budget
        self._made: dict[int, list[str]] = {}  # ids of decisions by task
        self._called_off: set[str] = set()
        self._open: dict[str, tuple[int, float]] = {}  # task and bound of decisions without reward

    def note(self, entry: Entry, journal: Journal) -> None:
        """Take in an entry that has been added to the journal."""
        match entry:
            case Asked(decision=decision):
                self._made.setdefault(entry.task, []).append(decision.id)
                self._count(decision.id, journal)
            case Told():
                self._called_off.discard(entry.id)
                self._open.pop(entry.id, None)
            case CalledOff():
                self._called_off.add(entry.id)
                self._count(entry.id, journal)
            case Ran():
                self._count(entry.id, journal)

    def take_back(self, gone: Iterable[Entry], journal: Journal) -> None:
        """Forget entries that the journal has taken back, the last first."""
        for entry in gone:
            match entry:
                case Asked(decision=decision):
                    self._made[entry.task].pop()
                    self._open.pop(decision.id, None)
                case CalledOff() | Ran():
                    self._called_off -= {entry.id} if isinstance(entry, CalledOff) else set()
                    if entry.id in journal.asked:
                        self._count(entry.id, journal)

    def trim(self, journal: Journal) -> None:
        """Forget decisions before one whose reward is known: that is not called off any more."""
        for task, made in self._made.items():
            known = (n for n in reversed(range(len(made))) if journal.is_told(made[n]))
            self._made[task] = made[next(known, 0) :]
        self._called_off &= {key for made in self._made.values() for key in made}

    def stored(self) -> dict[str, Any]:
        """Return JSON-able values that `take_up` takes."""
        counted = [[key, task, lower] for key, (task, lower) in self._open.items()]
        return {"made": list(self._made.items()), "called_off": sorted(self._called_off), "open": counted}

    def take_up(self, values: Mapping[str, Any]) -> None:
        """Go on where another one was."""
        self._made = {int(task): list(made) for task, made in values["made"]}
        self._called_off = set(values["called_off"])
        self._open = {key: (int(task), lower) for key, task, lower in values["open"]}

    def _count(self, key: str, journal: Journal) -> None:
        lower = held_lower(journal.policy_state(key)) if self._budget else None
        if lower is not None:
            self._open[key] = journal.find(key).task, min(lower, 0.0) if key in self._called_off else lower

    def running(self, task: int, journal: Journal) -> int | None:
        """Return the arm that ran last for a task, None if there is none."""
        for key in reversed(self._made.get(task, ())):
            arm = journal.ran(key)
            if key not in self._called_off or arm != journal.find(key).decision.arm:
                return arm
        return None

    @property
    def pending(self) -> dict[int, float]:
        """The bounds of decisions without reward, summed by task."""
        by_task: dict[int, list[float]] = {}
        for task, lower in self._open.values():
            by_task.setdefault(task, []).append(lower)
        return {task: fsum(bounds) for task, bounds in by_task.items()}


# --- Who was told what last, and what a budget takes for the least ---------------------------------------------------


_ROUNDS = 1000  # whose rewards are at hand for neighbours, where there is a past for the others


@dataclass(eq=False)
class LastTold:
    """Which decision of each station was told last, and which in each round; empty where neighbours do not count."""

    latest: dict[str, str] = field(default_factory=dict)
    in_round: dict[tuple[int, str], str] = field(default_factory=dict)

    def note(self, entry: Entry, journal: Journal, rule: NeighbourReward | None) -> None:
        """Take in an entry that has been added to the journal."""
        if rule is None or not isinstance(entry, Told):
            return
        decision = journal.asked[entry.id].decision
        self.latest[decision.station] = entry.id
        if decision.round is not None:
            self.in_round[decision.round, decision.station] = entry.id

    def trim(self, rounds: int) -> None:
        """Forget rounds long past, when so many have begun: who is told late then learns its own reward."""
        for key in [key for key in self.in_round if key[0] < rounds - _ROUNDS]:
            del self.in_round[key]

    def stored(self) -> dict[str, Any]:
        """Return JSON-able values that `take_up` takes."""
        return {"latest": dict(self.latest), "in_round": [[*key, told] for key, told in self.in_round.items()]}

    def take_up(self, values: Mapping[str, Any]) -> None:
        """Go on where another one was."""
        self.latest = dict(values["latest"])
        self.in_round = {(int(number), station): told for number, station, told in values["in_round"]}


@dataclass(eq=False)
class LeastSeen:
    """Says once, in the program's log, that a reward lies below what a budget takes for the least there can be.

    Args:
        least: What `Conservative` counts rewards from; None where there is no budget.

    Example:
        >>> LeastSeen(0.0).note(Told("d000001", 0.2, None))
    """

    least: float | None

    def note(self, told: Told) -> None:
        """Look at a reward that has been learned."""
        if self.least is None or told.reward >= self.least:
            return
        _log.warning(
            "decision %s earned %g, below the least=%g that Conservative counts rewards from: its promise assumes that "
            "nothing earns less, so make a controller with the least there can be (further ones are not mentioned)",
            told.id, told.reward, self.least,
        )  # fmt: skip
        self.least = None


# --- The policy: built empty, and taught -----------------------------------------------------------------------------


def empty_policy(setup: Setup, shaping: Iterable[Shaping]) -> Policy:
    """Return a policy with nothing learned that has taken in stations one by one, as one in use has.

    Built for all stations at once it may fall into other blocks, and stored beliefs would not fit it.
    """
    factory, current = setup.factory(), CurrentSetup.of(setup)
    policy = factory(setup.policy_spec())
    for entry in shaping:
        current = current.after(entry)
        if isinstance(entry, Estimated) or not taken_in(policy, factory, current.policy_spec()):
            policy = factory(current.policy_spec())
    return policy


def taken_in(policy: Policy, factory: PolicyFactory, spec: PolicySpec) -> bool:
    """Let a policy take in the tasks of a longer spec; False where it has to be built and taught anew."""
    try:
        extend_tasks(policy, factory, spec)
    except CannotCorrectError:  # it cannot, or rows to be joined are no longer kept
        return False
    return True


def corrected_in_place(policy: Policy, journal: Journal, entry: Corrected, *, first: int) -> bool:
    """Let a policy take in a correction; False where it has to learn everything anew, and is as it was.

    Args:
        policy: What learned the rewards.
        journal: The log, to which the entry is not added yet.
        entry: The correction.
        first: How many rows the policy had learned before the first reward was told.
    """
    done: list[str] = []
    try:
        for key, told in journal.put_right(entry).items():
            if not entry.kpis or told.reward != journal.told[key].reward:
                correct(policy, first + journal.row_of(key), told.reward)
                done.append(key)
        if entry.kpis and isinstance(policy, Constrained):
            policy.correct_kpis(first + journal.row_of(entry.id), entry.kpis)
    except CannotCorrectError:
        for key in done:
            correct(policy, first + journal.row_of(key), journal.told[key].reward)
        return False
    return True


def starting_rows(start: Samples | None) -> list[Observation]:
    """Return the rows of a log as observations that no decision led to."""
    if start is None:
        return []
    noise = np.full(len(start), np.nan) if start.noise is None else start.noise
    arms = np.full(len(start), -1) if start.arms is None else start.arms
    rows = [
        Observation(int(task), x, int(arm), float(y), None if np.isnan(variance) else float(variance))
        for task, x, arm, y, variance in zip(start.tasks, start.X, arms, start.y, noise, strict=True)
    ]
    return [replace(row, kpis=_known_kpis(start, i)) for i, row in enumerate(rows)] if start.kpis else rows


def _known_kpis(start: Samples, row: int) -> dict[str, tuple[float, float | None]]:
    return {name: (float(values[row]), None) for name, values in start.kpis.items() if not np.isnan(values[row])}


Taught = Corrected | Shaping
"""What may have everything learned anew."""

# --- What a controller keeps: the journal, and everything that follows from it --------------------------------------
#
# Every entry ends in `append`: what is in force changes, the journal grows, and those who keep count (of what runs, of
# the clock, of neighbours) take note. What the policy learns is decided before: `apply_reward` is for a reward in life,
# which may lead to further entries, such as a station that starts anew; `apply` is for an entry that may change tasks
# or the past; `replay` reads in a journal what a reward led to. So beliefs depend on the order of entries alone.

_AT_HAND = 20_000
"""How many decisions and entries are kept in memory where there is a past for the others; up to twice as many."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What a memory needs besides its past to go on.

    Attributes:
        values: Of journal and counts, JSON-able.
        rows: What was learned from, as arrays by name.
        beliefs: What the policy's `state` returned.
    """

    values: dict[str, Any]
    rows: dict[str, Any]
    beliefs: dict[str, Any]


_CACHED = 4096  # for how many pending decisions the work done while asking is kept


class Memory:
    """The journal of a controller, what is in force, and a policy that has learned all of it.

    Args:
        setup: The fixed setup.
        entries: What the journal holds already.
        beliefs: What the policy believed after the last of them; None to learn everything anew.
        past: Where entries can be looked up again, so that old ones need not be kept.
        stored: What `stored` told of an earlier one; the entries come after it.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> controller.tell(controller.ask("a").id, 0.8)
        >>> memory = Memory(controller.setup, controller.journal)
        >>> memory.rows, [observation.reward for observation in memory.observations()]
        (1, [0.8])
    """

    def __init__(
        self,
        setup: Setup,
        entries: Iterable[Entry] = (),
        *,
        beliefs: Mapping[str, Any] | None = None,
        past: Past | None = None,
        stored: "Stored | None" = None,
    ) -> None:
        self.setup = setup
        self._past = past
        self.journal = Journal(past)
        self.current = CurrentSetup.of(setup)
        budget = None if setup.rules is None else setup.rules.conservative
        self.deployed = DeployedState(budget=budget is not None)
        self._least = LeastSeen(None if budget is None else budget.least)
        self.last_told = LastTold()
        self.watch = Watch(setup)
        self.calibrated = Calibrated(setup)
        self.rounds = 0
        self._caches: OrderedDict[str, Any] = OrderedDict()
        if stored is not None and past is not None:
            self._go_on(stored, past)
            self.replay(entries)
            return
        policy = empty_policy(setup, ())
        if beliefs is not None and isinstance(policy, KeepsState):
            self._take_up(entries, beliefs)
        else:
            self.policy = self._taught(policy)
            self.replay(entries)

    @property
    def starting_rows(self) -> int:
        """How many rows the log had that beliefs started from."""
        return 0 if self.setup.start is None else len(self.setup.start)

    @property
    def rows(self) -> int:
        """How many rows are known: those of the starting log, and the rewards told."""
        return self.starting_rows + len(self.journal.told)

    def observations(self) -> list[Observation]:
        """Return everything the policy has learned from, in order: the starting log, then the rewards told."""
        return [*starting_rows(self.setup.start), *self.journal.observations()]

    def apply_reward(self, told: Told) -> None:
        """Teach the policy a reward in life and append it, then apply what it leads to: beliefs and journal change."""
        self.policy.learn(self.journal.observation(told, self._caches.get(told.id)))
        self.append(told)
        self.drop(told.id)
        self._least.note(told)
        for entry in self.watch.change_points(told, self.current, self.journal):
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Append an entry, and let the policy take in what it says of tasks or of the past; a reward it is not taught.

        The journal changes; beliefs do where a station is new or starts anew, or a reward was corrected.
        """
        match entry:
            case Corrected() | Joined() | ChangePoint() | Estimated():
                if not self.apply_in_place(entry):
                    self.apply_by(Relearning(self.setup, self.journal, entry), entry)
            case _:
                self.append(entry)

    def append(self, entry: Entry) -> None:
        """Add an entry to the journal, and to what is kept count of; beliefs do not change."""
        self.current = self.current.after(entry)
        self.calibrated.note(entry, self.journal)
        self.journal.add(entry)
        self.deployed.note(entry, self.journal)
        self.watch.note(entry, self.journal)
        self.last_told.note(entry, self.journal, self.setup.config.neighbours)
        if isinstance(entry, Asked) and entry.decision.round is not None:
            self.rounds = entry.decision.round + 1
        if isinstance(entry, Ran):
            self.drop(entry.id)

    def take_back(self, count: int) -> bool:
        """Forget the entries after the first `count` as if nobody had asked; False where beliefs rest on them.

        Example:
            >>> from kinband import ConfigurationSpace, Controller
            >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
            >>> decision = controller.ask("a")
            >>> memory = Memory(controller.setup, controller.journal)
            >>> memory.take_back(0), len(memory.journal)
            (True, 0)
        """
        gone = self.journal.take_back(count)
        if gone is None:
            return False
        self.deployed.take_back(gone, self.journal)
        self.watch.take_back(self.journal)
        decisions = [entry.decision for entry in gone if isinstance(entry, Asked)]
        self.rounds = min([self.rounds, *(made.round for made in decisions if made.round is not None)])
        for made in decisions:
            self.drop(made.id)
        return True

    def keep(self, decision_id: str, cache: Any) -> None:
        """Keep the work done while asking, for when the reward comes."""
        if cache is not None:
            self._caches[decision_id] = cache
            if len(self._caches) > _CACHED:
                self._caches.popitem(last=False)

    def drop(self, decision_id: str) -> None:
        """Forget the work done while asking."""
        self._caches.pop(decision_id, None)

    def current_at(self, asked: Asked) -> CurrentSetup:
        """Return what was in force when a decision was made."""
        if not self.journal.shaping:
            return self.current
        current = CurrentSetup.of(self.setup)
        for entry in self.journal.lasting(asked.decision.id):
            current = current.after(entry)
        return current

    def replay(self, entries: Iterable[Entry]) -> None:
        """Apply entries of another journal, in order, and teach their rewards: beliefs and journal change.

        What a reward led to is not found again: it is an entry of that journal, too.
        """
        for entry in entries:
            check_entry(entry, self.journal, self.setup)
            self.apply(entry)
            if isinstance(entry, Told):
                self.policy.learn(self.journal.observation(entry))

    def trim(self) -> None:
        """Leave to the past what is old, where there is one; whatever is in memory must be there."""
        if self._past is not None:
            self.journal.trim(_AT_HAND)
            self.deployed.trim(self.journal)
            self.last_told.trim(self.rounds)

    def stored(self) -> "Stored | None":
        """Return what a memory needs besides its past to go on; None where the policy's beliefs cannot be stored."""
        if not isinstance(self.policy, KeepsState):
            return None
        values, rows = self.journal.stored()
        values |= {"deployed": self.deployed.stored(), "watch": self.watch.stored(), "rounds": self.rounds}
        values["last_told"], values["calibrated"] = self.last_told.stored(), self.calibrated.stored()
        return Stored(values, rows, dict(self.policy.state()))

    def _go_on(self, stored: "Stored", past: Past) -> None:
        """Take up what was stored."""
        values = stored.values
        self.journal = Journal.taken_up(past, values, stored.rows)
        self.rounds = values["rounds"]
        for entry in self.journal.lasting():
            self.current = self.current.after(entry)
        self.deployed.take_up(values["deployed"])
        self.watch.take_up(values["watch"])
        self.last_told.take_up(values["last_told"])
        if "calibrated" in values:  # before rules could have a rate, nothing was kept
            self.calibrated.take_up(values["calibrated"])
        self.policy = empty_policy(self.setup, self.journal.shaping)
        if isinstance(self.policy, KeepsState):
            self.policy.restore(stored.beliefs)
        else:
            self._taught(self.policy)

    def _take_up(self, entries: Iterable[Entry], beliefs: Mapping[str, Any]) -> None:
        """Add entries to the journal and take up what the policy believed after them."""
        for entry in entries:
            check_entry(entry, self.journal, self.setup)
            self.append(entry)
        self.policy = empty_policy(self.setup, self.journal.shaping)
        if isinstance(self.policy, KeepsState):
            self.policy.restore(beliefs)

    def _taught(self, policy: Policy) -> Policy:
        """Return a policy that has learned the starting log and all rewards, one after the other."""
        if start := starting_rows(self.setup.start):
            learn_log(policy, start)
        for row in self.journal.observations():
            policy.learn(row)
        return policy

    def apply_in_place(self, entry: Taught) -> bool:
        """Let the policy take in a correction or a newcomer and append it; False where it has to learn everything anew.

        A policy that cannot is as it was, and may be used on.
        """
        match entry:
            case Corrected():
                done = corrected_in_place(self.policy, self.journal, entry, first=self.starting_rows)
            case Estimated():  # of an earlier version: it may bring another task matrix
                done = not entry.triangle
            case _:
                done = taken_in(self.policy, self.setup.factory(), self.current.after(entry).policy_spec())
        if done:
            self.append(entry)
        return done

    def apply_by(self, anew: "Relearning", entry: Taught) -> bool:
        """Append an entry and take the beliefs learned with it beside; False where the journal went another way."""
        if entry != anew.entry or anew.further(self.journal) is None:
            return False
        anew.learn()
        self.policy = anew.policy
        self.append(entry)
        return True


class Relearning:
    """Everything learned anew with a correction or a newcomer in it, beside a policy that is in use meanwhile.

    A replay learns at such an entry what was told before it, in that order, as it is after it. So does this: what is
    told meanwhile is learned behind the rest, and the entry takes its place in the journal where that ends.

    Args:
        setup: Of the controller.
        journal: Its log, to which the entry is not added yet.
        entry: The correction or the newcomer.

    Attributes:
        policy: What has learned all so far.
    """

    def __init__(self, setup: Setup, journal: Journal, entry: Taught) -> None:
        self.entry = entry
        self._setup, self._journal = setup, journal
        self._shapes, self._corrections = len(journal.shaping), journal.corrections
        self._right, shaping = dict[int, Observation](), list(journal.shaping)
        if isinstance(entry, Corrected):
            right = journal.put_right(entry)
            self._right = {journal.row_of(key): journal.observation(told) for key, told in right.items()}
        else:
            shaping.append(entry)
        self._learned = 0
        self.policy = empty_policy(setup, shaping)

    def further(self, journal: Journal) -> int | None:
        """Return how many rewards are to be learned yet; None where the journal no longer goes on from where it was."""
        same = journal.corrections == self._corrections and len(journal.shaping) == self._shapes
        if journal is not self._journal or not same:
            return None
        return len(journal.rows) - self._learned

    def learn(self, *, unless: Callable[[], bool] = lambda: False) -> bool:
        """Learn what there is; False where that was given up on the way, as it takes long."""
        if not self._learned and (start := starting_rows(self._setup.start)):
            learn_log(self.policy, start)
        for row in self._journal.observations(self._learned):
            if unless():
                return False
            self.policy.learn(self._right.get(self._learned, row))
            self._learned += 1
        return True
