"""An oracle of the guard rails in true time: it knows nothing of the guard, and no clock of a service.

It follows the events in their order and holds every change that a controller made against the limits, by when the event
truly came to be. That is known up to an interval (`history.Sighting`), so that it complains only of what was broken at
whatever moment of the interval; and it allows the minute by which the documents let a clock be off.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from benchmarks.soak.history import Row


@dataclass(frozen=True)
class Limits:
    """The rails, in plain numbers.

    Attributes:
        values: What every arm sets.
        highest: The most that a station may run.
        lower: The same of some stations.
        step: The furthest that one change goes.
        min_time: Seconds between two changes of a station.
        per_day: Changes of a station in a day.
        per_round: Changes of all stations in a round.
        round: Its seconds.
        retry_after: Seconds in which what was rolled back is not tried again.
        neighbours: Pairs that do not change in one round.
        frozen: Stations that are left alone for good.
        windows: Forbidden periods of every day, as minutes from and to.
        slack: Seconds that a clock may be off.
    """

    values: tuple[float, ...]
    highest: float
    lower: Mapping[str, float] = field(default_factory=dict)
    step: float = 1e9
    min_time: float = 0.0
    per_day: int = 1000
    per_round: int = 1000
    round: float = 0.0
    retry_after: float = 0.0
    neighbours: Sequence[frozenset[str]] = ()
    frozen: frozenset[str] = frozenset()
    windows: Sequence[tuple[int, int]] = ()
    slack: float = 60.0


@dataclass(frozen=True)
class Change:
    """A change of a station.

    Attributes:
        seq: Number of its event.
        station: Which.
        arm: What it runs since.
        before: What it ran before.
        by: Who changed it.
        first: The earliest that it can have been made.
        last: The latest.
    """

    seq: int
    station: str
    arm: int
    before: int
    by: str
    first: datetime
    last: datetime

    def surely_within(self, seconds: float, *, of: "Change") -> bool:
        """Whether it was made less than so many seconds after another, whenever exactly both were."""
        return (self.last - of.first).total_seconds() < seconds


Times = Mapping[int, tuple[datetime, datetime]]
"""By number of an event, the earliest and the latest that it can have been recorded."""


@dataclass
class _Present:
    """How things stand after some events."""

    made: list[Change] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    frozen: set[str] = field(default_factory=set)
    stopped: bool = False


def broken(limits: Limits, rows: Sequence[Row], times: Times) -> Iterator[str]:
    """Say of every change that broke a rail which it was, and how."""
    present = _Present(frozen=set(limits.frozen))
    for row in rows:
        if row.kind == "switch":
            _switch(present, row.payload["event"])
        elif row.kind == "applied":
            yield from _applied(limits, present, row, times)


def _switch(present: _Present, said: Mapping[str, str]) -> None:
    match said["event"]:
        case "stopped" | "resumed" as what:
            present.stopped = what == "stopped"
        case "frozen":
            present.frozen.add(said["station"])
        case "thawed":
            present.frozen.discard(said["station"])


def _applied(limits: Limits, present: _Present, row: Row, times: Times) -> Iterator[str]:
    said, station = row.payload, row.station
    arm, before = said["arm"], said["before"]
    if station in present.runs and before is not None and before != present.runs[station]:
        yield f"event {row.seq}: {station} ran arm {present.runs[station]}, and it says {before}"
    present.runs[station] = arm
    if said.get("taken_back"):
        last = max((i for i, made in enumerate(present.made) if made.station == station), default=None)
        if last is not None:
            del present.made[last]
    elif before is not None and arm != before:
        first, latest = times[row.seq]
        change = Change(row.seq, station, arm, before, said["by"], first, latest)
        if said["by"] in ("controller", "roll-back") and not said.get("reported"):
            where = f"event {row.seq}, {station} from arm {before} to {arm} at {first:%d %H:%M:%S} to {latest:%H:%M:%S}"
            yield from (f"{where}: {what}" for what in _faults(limits, present, change))
        present.made.append(change)


def _faults(limits: Limits, present: _Present, change: Change) -> Iterator[str]:
    """Say what a change breaks: a roll-back what people decided and ranges, any other all."""
    if present.stopped:
        yield "everything is stopped"
    if change.station in present.frozen:
        yield "the station is frozen"
    if limits.values[change.arm] > limits.lower.get(change.station, limits.highest):
        yield f"{limits.values[change.arm]} is beyond the range"
    yield from _windows(limits, change)
    if change.by == "controller":
        yield from _rare(limits, present, change)


def _windows(limits: Limits, change: Change) -> Iterator[str]:
    slack = timedelta(seconds=limits.slack)
    for begin, end in limits.windows:
        midnight = change.first.replace(hour=0, minute=0, second=0, microsecond=0)
        opens, closes = midnight + timedelta(minutes=begin), midnight + timedelta(minutes=end)
        if opens + slack <= change.first and change.last < closes - slack:
            yield f"it lies in a forbidden period, {opens:%H:%M} to {closes:%H:%M}"


def _rare(limits: Limits, present: _Present, change: Change) -> Iterator[str]:
    """Say which of the limits that keep changes rare a change breaks."""
    if abs(limits.values[change.arm] - limits.values[change.before]) > limits.step:
        yield "it goes further than a step"
    own = [other for other in present.made if other.station == change.station]
    for other in own[-1:]:
        if change.surely_within(limits.min_time - limits.slack, of=other):
            yield f"less than {limits.min_time:g} s after event {other.seq} ({other.first:%H:%M:%S})"
    today = [other for other in own if _surely_same_day(other, change, limits.slack)]
    if len(today) >= limits.per_day:
        yield f"it is the {len(today) + 1}th of a day"
    round_ = [other for other in present.made if change.surely_within(limits.round - limits.slack, of=other)]
    if len(round_) >= limits.per_round:
        yield f"it is the {len(round_) + 1}th of a round"
    for other in round_:
        if frozenset((other.station, change.station)) in limits.neighbours:
            yield f"its neighbour {other.station} changed in the same round (event {other.seq})"
    for other in own:
        back = other.by == "roll-back" and other.before == change.arm
        if back and change.surely_within(limits.retry_after - limits.slack, of=other):
            yield f"that was rolled back by event {other.seq}"


def _surely_same_day(one: Change, other: Change, slack: float) -> bool:
    midnight = other.first.replace(hour=0, minute=0, second=0, microsecond=0)
    begin, end = midnight + timedelta(seconds=slack), midnight + timedelta(days=1, seconds=-slack)
    return all(begin <= change.first and change.last < end for change in (one, other))
