"""An oracle of the guard rails in true time: it knows nothing of the guard, and no clock of a service.

It follows the events in their order and holds every change that a controller made against the limits, by when the event
truly came to be. That is known up to an interval (`history.Sighting`), so that it complains only of what was broken at
whatever moment of the interval; and it allows the minute by which the documents let a clock be off.

Where orders are confirmed, a change is judged twice: when it is ordered, as if it were made at that moment beside all
else that is ordered; and when it is confirmed, by what keeps changes rare, as that is when it was made. At the second
time nothing is held against it of which nobody could know at the first: what the network did without an order or after
its order had expired, and roll-backs, which wait for nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        maintenance: Periods of every day outside which nothing changes but by roll-backs; none if empty.
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
    maintenance: Sequence[tuple[int, int]] = ()
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
        foreseen: Whether the guard knew of it since it was ordered.
    """

    seq: int
    station: str
    arm: int
    before: int
    by: str
    first: datetime
    last: datetime
    foreseen: bool = True

    def surely_within(self, seconds: float, *, of: "Change") -> bool:
        """Whether it was made less than so many seconds after another, whenever exactly both were."""
        return (self.last - of.first).total_seconds() < seconds


Times = Mapping[int, tuple[datetime, datetime]]
"""By number of an event, the earliest and the latest that it can have been recorded."""


@dataclass
class _Present:
    """How things stand after some events; `ordered` is every order, by decision, `pending` what is not made yet."""

    made: list[Change] = field(default_factory=list)
    ordered: dict[str, Change] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    runs: dict[str, int] = field(default_factory=dict)
    frozen: set[str] = field(default_factory=set)
    stopped: bool = False


def broken(limits: Limits, rows: Sequence[Row], times: Times) -> Iterator[str]:
    """Say of every change that broke a rail which it was, and how."""
    present = _Present(frozen=set(limits.frozen))
    for row in rows:
        if row.kind == "switch":
            _switch(present, row.payload["event"])
        elif row.kind in ("verdict", "approval", "order"):
            yield from _ordered(limits, present, row, times)
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


def _ordered(limits: Limits, present: _Present, row: Row, times: Times) -> Iterator[str]:
    said, name = row.payload, str(row.decision)
    if said.get("status") not in ("applied", "rolled back"):  # these are followed by what was applied
        present.pending.discard(name)
    if said.get("status") != "ordered":
        return
    verdict, (first, last) = said["verdict"], times[row.seq]
    by = "roll-back" if verdict["outcome"] == "rolled back" else "controller"
    change = Change(row.seq, row.station, verdict["arm"], verdict["running"], by, first, last)
    earlier = [replace(present.ordered[other], first=first, last=last) for other in present.pending]
    for what in _faults(limits, present, change, [*present.made, *earlier]):
        yield f"{_where(change)}, ordered: {what}"
    present.ordered[name] = change
    present.pending.add(name)


def _where(change: Change) -> str:
    when = f"{change.first:%d %H:%M:%S} to {change.last:%H:%M:%S}"
    return f"event {change.seq}, {change.station} from arm {change.before} to {change.arm} at {when}"


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
        faults: Iterator[str] = iter(())
        if said.get("reported"):
            change = replace(change, foreseen=said.get("order") in present.pending)
            faults = _confirmed(limits, present, change, said.get("order"))
        elif said["by"] in ("controller", "roll-back"):
            faults = _faults(limits, present, change, present.made)
        yield from (f"{_where(change)}: {what}" for what in faults)
        present.made.append(change)
    present.pending.discard(str(said.get("order")))


def _confirmed(limits: Limits, present: _Present, change: Change, name: str | None) -> Iterator[str]:
    """Say what a change that the network made breaks, where that was ordered."""
    order = None if name is None else present.ordered.get(name)
    if order is None:
        if name is not None:
            yield f"{name} was never ordered"
        return
    if (order.station, order.arm, order.before) != (change.station, change.arm, change.before):
        yield f"event {order.seq} ordered another change, of {order.station} from arm {order.before} to {order.arm}"
    if change.foreseen and change.by == "controller":
        known = [one for one in present.made if one.seq < order.seq or (one.foreseen and one.by == "controller")]
        yield from _rare(limits, known, change)


def _faults(limits: Limits, present: _Present, change: Change, others: Sequence[Change]) -> Iterator[str]:
    """Say what a change breaks: a roll-back what people decided and ranges, any other all."""
    if present.stopped:
        yield "everything is stopped"
    if change.station in present.frozen:
        yield "the station is frozen"
    if limits.values[change.arm] > limits.lower.get(change.station, limits.highest):
        yield f"{limits.values[change.arm]} is beyond the range"
    yield from _windows(limits, change)
    if change.by == "controller":
        yield from _rare(limits, others, change)


def _windows(limits: Limits, change: Change) -> Iterator[str]:
    slack = timedelta(seconds=limits.slack)
    for opens, closes in _periods(limits.windows, change):
        if opens + slack <= change.first and change.last < closes - slack:
            yield f"it lies in a forbidden period, {opens:%H:%M} to {closes:%H:%M}"
    if limits.maintenance and change.by == "controller":
        open_ = _periods(limits.maintenance, change)
        if not any(opens - slack <= change.last and change.first < closes + slack for opens, closes in open_):
            yield "it lies in no maintenance window"


def _periods(windows: Sequence[tuple[int, int]], change: Change) -> Iterator[tuple[datetime, datetime]]:
    """Give when windows are open in the days around a change."""
    midnight = change.first.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    while midnight <= change.last + timedelta(days=1):
        yield from ((midnight + timedelta(minutes=begin), midnight + timedelta(minutes=end)) for begin, end in windows)
        midnight += timedelta(days=1)


def _rare(limits: Limits, others: Sequence[Change], change: Change) -> Iterator[str]:
    """Say which of the limits that keep changes rare a change breaks."""
    if abs(limits.values[change.arm] - limits.values[change.before]) > limits.step:
        yield "it goes further than a step"
    own = [other for other in others if other.station == change.station]
    for other in own[-1:]:
        if change.surely_within(limits.min_time - limits.slack, of=other):
            yield f"less than {limits.min_time:g} s after event {other.seq} ({other.first:%H:%M:%S})"
    today = [other for other in own if _surely_same_day(other, change, limits.slack)]
    if len(today) >= limits.per_day:
        yield f"it is the {len(today) + 1}th of a day"
    round_ = [other for other in others if change.surely_within(limits.round - limits.slack, of=other)]
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
