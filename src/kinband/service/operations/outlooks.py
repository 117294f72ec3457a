"""Looking ahead and back: why a decision was made, and what a station would run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import atan2, cos, degrees, isfinite, radians
from typing import Any

from kinband.arrays import FloatArray
from kinband.controller import Controller, Explanation
from kinband.controller.explain import configuration_text, ran_text
from kinband.drift import TIME_COLUMN
from kinband.errors import BadInputError, KinbandError
from kinband.guardrails import Verdict
from kinband.planning import beliefs_of, contributions
from kinband.posterior import BlockedPosterior
from kinband.records import Choice
from kinband.service.operations.records import DecisionRecord, Outlook, StationState
from kinband.service.schemas import Site
from kinband.similarity import TaskMatrix
from kinband.space import ConfigurationSpace
from kinband.stats import listed

# --- Why a decision was made, and what the guard made of it: one paragraph, and the same as data --------------------
#
# The controller explains what it chose (`kinband.controller.explain`). It knows neither guard nor people, so that its
# words tell only half of a choice that was refused, replaced or never approved: here the other half is put where it
# belongs, before what the station ran.

WEIGHED = 1_500
"""Rewards from which it is weighed at most whose evidence a decision rests on, those closest to it: half a second."""
_TO_PROGRAMS = " (most_rows allows it)"  # advice that nobody can follow who asks a service


@dataclass(frozen=True, eq=False)
class Explained:
    """Why a decision was made and what became of it.

    Attributes:
        of: The controller's explanation.
        record: The decision with everything that happened to it.
        text: One paragraph, with the part of guard and people in it.
        guard: What the guard said, as JSON-able values; None where it was not asked.

    Example:
        >>> from datetime import UTC, datetime
        >>> from kinband import Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], seed=1)
        >>> made = controller.ask("a")
        >>> at = datetime(2026, 11, 20, tzinfo=UTC)
        >>> record = DecisionRecord(made, 1, at, None, "shadow", "shadow", None, running=0, arm=0)
        >>> why = explained(controller.explain(made.id), record, controller.space)
        >>> why.to_dict()["station"], why.guard
        ('a', None)
    """

    of: Explanation
    record: DecisionRecord
    text: str
    guard: Mapping[str, Any] | None

    @property
    def left_out(self) -> str:
        """What was left out when its evidence was weighed, or why it was not; else empty."""
        return self.of.left_out.replace(_TO_PROGRAMS, "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        guard = None if self.guard is None else dict(self.guard)
        return self.of.to_dict() | {"text": self.text, "left_out": self.left_out, "guard": guard}


def explained(found: Explanation, record: DecisionRecord, space: ConfigurationSpace) -> Explained:
    """Return an explanation with what the guard said.

    Args:
        found: The controller's.
        record: The decision.
        space: The configurations that arms are numbers of.
    """
    said = " ".join(filter(None, [guard_text(record, space), people_text(record)]))
    text = found.text.replace(_TO_PROGRAMS, "")
    if said:
        ran = ran_text(found.decision, found.ran, told=found.reward is not None)
        before, ran, after = text.rpartition(ran) if ran else (text, "", "")
        text = " ".join(part.strip() for part in (before, said, ran + after) if part.strip())
    return Explained(found, record, text, None if record.verdict is None else guard_data(record, record.verdict, space))


def guard_text(record: DecisionRecord, space: ConfigurationSpace) -> str:
    """Return what the guard did to a decision, by which rails and why; empty where it let it through."""
    verdict = record.verdict
    if verdict is None or verdict.outcome == "allowed":
        return ""
    has = "would have " if record.mode == "shadow" else ""
    what = "nothing else" if verdict.arm is None else configuration_text(_knobs(space, verdict.arm), verdict.arm)
    match verdict.outcome:
        case "refused":
            when = f"When {record.decided_by} approved it, the" if record.decided_by else "The"
            return f"{when} guard {has}refused it{_by_rails(verdict)}."
        case "replaced":
            return f"The guard {has}put {what} in its place{_by_rails(verdict)}."
        case "deferred":
            when = f"{verdict.due:%Y-%m-%d %H:%M} UTC" if verdict.due is not None else "a window"
            return f"The guard {has}let the station change to {what} from {when} on: {_barred(verdict)}."
    rolled = f"{has}rolled the station back to {what}"
    return f"In its place the guard {rolled}: {verdict.reason.partition(': ')[2] or verdict.reason}."


def people_text(record: DecisionRecord) -> str:
    """Return why a change was not made that people or the network had to make; empty where it was, or needed nobody."""
    match record.status:
        case "waiting":
            return "It waits for a person."
        case "approved":
            who = f"{record.decided_by} approved it" if record.decided_by else "It is approved"
            return f"{who}, and it is ordered when it is due."
        case "ordered":
            return "It is ordered, and the network manager has not confirmed it yet."
        case "failed":
            why = record.steps[-1].comment if record.steps else ""
            return f"The network manager could not carry it out{f': {why}' if why else ''}."
        case "not made":
            return "The network reports that it was not made."
        case "expired" if record.due is not None:
            why = record.steps[-1].comment if record.steps and record.steps[-1].status == "expired" else ""
            return f"It was approved, and came to nothing{f': {why}' if why else ''}."
        case "expired":
            return "Nobody approved it while its slot lasted."
        case "rejected":
            return f"{record.decided_by or 'A person'} rejected it."
    return ""


def _barred(verdict: Verdict) -> str:
    """Return why a station may not change now, and to what was wanted not at all."""
    return "; ".join(dict.fromkeys(one.reason for one in verdict.refusals if one.arm in (None, verdict.asked)))


def _by_rails(verdict: Verdict) -> str:
    """Return which rails stood against what was wanted, and why."""
    against = [one for one in verdict.refusals if one.arm in (None, verdict.asked)] or list(verdict.refusals)
    codes, reasons = dict.fromkeys(one.code for one in against), dict.fromkeys(one.reason for one in against)
    if not codes:
        return f": {verdict.reason}"
    return f" by the rail{'' if len(codes) == 1 else 's'} {listed(list(codes))}: {'; '.join(reasons)}"


def guard_data(record: DecisionRecord, verdict: Verdict, space: ConfigurationSpace) -> dict[str, Any]:
    """Return what the guard said: the outcome, the rails, every refusal, and what ran if that was something else."""
    instead = None if record.arm is None or record.arm == record.decision.arm else _knobs(space, record.arm)
    refusals = [
        {"code": one.code, "reason": one.reason, "configuration": None if one.arm is None else _knobs(space, one.arm)}
        for one in verdict.refusals
    ]
    said = {"outcome": verdict.outcome, "reason": verdict.reason, "rails": list(verdict.codes)}
    return said | {"refusals": refusals, "ran_instead": instead}


def _knobs(space: ConfigurationSpace, arm: int) -> dict[str, Any] | None:
    return dict(space[arm]) if 0 <= arm < len(space) else None


# --- What is believed of a station's configurations now, and whose evidence that rests on ---------------------------

_LISTED = 8  # lenders
MOST_ROWS = 1_000
"""Beyond how many rewards nobody waits for who lent what unless they ask: it is weighed anew after every event."""
_GROWTH = 1.25  # by how much the rewards known may grow before beliefs that were learned anew are too old


class Outlooks:
    """Outlooks of stations, kept until something is recorded."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Outlook]] = {}
        self._beliefs: tuple[int, int, BlockedPosterior] | None = None  # with rewards and tasks at that time

    def of(self, controller: Controller, station: StationState, *, seq: int) -> Outlook:
        """Return the outlook of a station as of an event."""
        known = self._known.get(station.station)
        if known is None or known[0] != seq:
            known = self._known[station.station] = seq, self._outlook(controller, station)
        return known[1]

    def _outlook(self, controller: Controller, station_state: StationState) -> Outlook:
        """Return the outlook of a station in the state that it was last asked with."""
        if station_state.state is None:
            raise BadInputError(
                f"{station_state.station!r} was never asked for, so that nothing is known of its state: ask first"
            )
        if not station_state.active:
            raise BadInputError(f"{station_state.station!r} was removed: nothing is decided for it")
        space = controller.space
        running = None if station_state.running is None else space[station_state.running]
        choice = controller.consider(
            station_state.station, station_state.state, running=running, time=_time(controller, station_state)
        )
        return Outlook(
            station_state.station,
            station_state.state,
            tuple(choice.arms.tolist()),
            tuple(space[arm] for arm in choice.arms.tolist()),
            _values(choice.mean),
            _values(choice.std),
            choice.arm,
            station_state.running,
            self._lenders(controller, station_state, choice),
        )

    def _lenders(self, controller: Controller, station_state: StationState, choice: Choice) -> dict[str, float]:
        """Whose evidence the choice rests on; nobody's where that cannot be told, as for policies without a model."""
        if rewards_known(controller) > MOST_ROWS:
            return {}
        try:
            state = dict(station_state.state or {}) | (
                {} if station_state.clock is None else {TIME_COLUMN: station_state.clock}
            )
            x = controller.setup.encoder.contexts(state)[choice.arm]
            present = controller.current
            tasks = TaskMatrix(present.stations, present.K_Z, "in force", {})
            found = contributions(
                self._with_rows(controller), present.task(station_state.station), x=x, similarity=tasks
            )
        except KinbandError:
            return {}
        ranked = sorted(found.items(), key=lambda pair: -pair[1])
        return {station: share for station, share in ranked[:_LISTED] if share > 0}

    def _with_rows(self, controller: Controller) -> BlockedPosterior:
        """Return beliefs that keep their rows; where a controller's do not, those of a little while ago serve."""
        if controller.setup.config.engine != "sparse":
            return beliefs_of(controller)
        told, tasks = len(controller), len(controller.current.stations)
        if self._beliefs is None or self._beliefs[1] != tasks or told > _GROWTH * self._beliefs[0] + 1:
            self._beliefs = told, tasks, beliefs_of(controller)
        return self._beliefs[2]


def rewards_known(controller: Controller) -> int:
    """Return how many rewards a controller has learned from: those of the log that it began with, and those told."""
    start = controller.setup.start
    return len(controller) + (0 if start is None else len(start))


def _time(controller: Controller, station_state: StationState) -> Any:
    """When it was last asked for, as the controller's clock takes it."""
    drift = controller.setup.config.drift
    if drift is None or not drift.forgets or station_state.clock is None or drift.clock == "decisions":
        return None
    return datetime.fromtimestamp(station_state.clock, UTC) if drift.clock == "dates" else station_state.clock


def _values(column: FloatArray | None) -> tuple[float, ...] | None:
    return None if column is None else tuple(column.tolist())


# --- Where sectors stand and look, as far as their descriptors say --------------------------------------------------

_METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of 6,371 km


def sites_of(descriptors: Mapping[str, Mapping[str, Any]]) -> dict[str, Site]:
    """Return the sites of those stations whose descriptors hold one.

    Places are `x_m` and `y_m`, or `longitude` and `latitude`; directions `azimuth_deg` or `azimuth`, in degrees
    clockwise from north, or `azimuth_cos` and `azimuth_sin`, how far they point to the east and to the north.

    Example:
        >>> sites_of({"a": {"x_m": 10, "y_m": 20, "azimuth_deg": 120}, "b": {"land_use": "office"}})
        {'a': Site(x=10.0, y=20.0, azimuth=120.0)}
        >>> sites_of({"a": {"x_m": 0, "y_m": 0, "azimuth_cos": 0.0, "azimuth_sin": -1.0}})["a"].azimuth
        180.0
    """
    placed = {station: place for station, known in descriptors.items() if (place := _place(known)) is not None}
    if not placed:
        return {}
    middle = sum(y for _, y, angles in placed.values() if angles) / max(sum(a for *_, a in placed.values()), 1)
    found = {}
    for station, (x, y, angles) in placed.items():
        if angles:
            x, y = x * cos(radians(middle)) * _METRES_PER_DEGREE, y * _METRES_PER_DEGREE
        found[station] = Site(x=x, y=y, azimuth=_azimuth(descriptors[station]))
    return found


def _place(known: Mapping[str, Any]) -> tuple[float, float, bool] | None:
    for x, y, angles in (("x_m", "y_m", False), ("longitude", "latitude", True)):
        east, north = _number(known.get(x)), _number(known.get(y))
        if east is not None and north is not None:
            return east, north, angles
    return None


def _azimuth(known: Mapping[str, Any]) -> float | None:
    for name in ("azimuth_deg", "azimuth"):
        if (given := _number(known.get(name))) is not None:
            return given % 360.0
    east, north = _number(known.get("azimuth_cos")), _number(known.get("azimuth_sin"))
    if east is None or north is None or east == north == 0:
        return None
    return degrees(atan2(east, north)) % 360.0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)
