"""One function a rule: what refuses a change of a station, and what refuses a configuration.

A refusal is a result, not an exception: it has a code for machines and a sentence for people, and is stored with the
decision that it concerns.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, Literal

from kinband.guardrails.history import History
from kinband.guardrails.model import Rails
from kinband.space import ConfigurationSpace

Code = Literal[
    "stop",
    "freeze",
    "clock",
    "forbidden",
    "maintenance",
    "min_time",
    "per_day",
    "per_round",
    "neighbours",
    "range",
    "step",
    "retry",
    "running",
    "state",
    "fallback",
    "order",
]
"""Which rail refused, named as in the file; "clock" is a time that cannot be trusted, "range" is a knob's `min`, `max`
or `values`, "retry" the pause after a roll-back, "running" a proposal that contradicts the history, "state" one that
rests on a state far from all that the learner was made for, "fallback" a roll-back that was due and could not be made,
and "order" another change of the station, approved or ordered before."""

OF_TIME: frozenset[Code] = frozenset(("forbidden", "maintenance", "min_time", "per_day", "per_round", "neighbours"))
"""Rails that refuse a change for the time being: it may be made later."""
UNKNOWN = "the time is not known: "
"""What the reason begins with where a clock is in doubt."""


@dataclass(frozen=True)
class Refusal:
    """Why something was not allowed.

    Attributes:
        code: The rail.
        reason: The same for people.
        arm: What was refused; None for any change of the station.

    Example:
        >>> Refusal("stop", "everything is stopped").arm is None
        True
    """

    code: Code
    reason: str
    arm: int | None = None


@dataclass(frozen=True)
class Pending:
    """A change of a station that was approved and is not made yet.

    Attributes:
        why: What it is, as a clause.
        ordered: Whether the network was told to make it, so that it may be made at any moment.

    Example:
        >>> Pending("its change d000001 is approved").ordered
        False
    """

    why: str
    ordered: bool = False


# --- One function per rail: may this station change now, whatever to; may it change to this -------------------------
#
# Each returns a refusal or None. `FOR_CHANGES` is the list that an ordinary change passes, `FOR_ROLL_BACKS` the shorter
# one of a roll-back. A new rail is a new function in one or both of them, and a code.
#
# **What time it is.** No earlier than the latest event of the history. A clock that shows less is passed over as long
# as it is off by no more than `TOLERANCE`; beyond that nothing changes, since nobody knows how long ago the last change
# was.
#
# **What a roll-back is exempt from.** It undoes a harm, so a doubtful clock and limits that keep changes rare
# (`min_time`, `per_day`, `per_round`, neighbours) do not hold it up, though it counts as a change in all of them. Nor
# does `step`: what it returns to has run there. What a person decided (stop, freeze, forbidden periods, ranges) holds
# for it as for anything. Whether maintenance windows do, the file must say.


TOLERANCE = timedelta(minutes=1)
"""How far a clock may be off before nothing changes any more."""


@dataclass
class Situation:
    """How things stand in the middle of a review.

    Attributes:
        rails: What limits changes.
        space: What arms stand for.
        history: What happened before the review.
        now: When it is, in UTC; where the history has gone further, its time.
        doubt: Why that cannot be trusted; empty if it can.
        pending: Changes that were approved and are not made yet, by station; those ordered count in the round.
    """

    rails: Rails
    space: ConfigurationSpace
    history: History
    now: datetime
    doubt: str = ""
    pending: Mapping[str, Pending] = field(default_factory=dict)

    openings: dict[Any, tuple[datetime, ...]] = field(default_factory=dict)  # by windows, for those who look for one

    def __post_init__(self) -> None:
        clock, self.now = self.now, max(self.now, self.history.time or self.now)
        if not self.doubt and self.now - clock > TOLERANCE:
            self.doubt = (
                f"the clock shows {self.local(clock)}, which is before the latest event, {self.local(self.now)}"
            )

    @cached_property
    def round(self) -> list[str]:
        """Station of every change of this round, those of the review so far among them."""
        if self.rails.per_round is None and self.rails.neighbours_together:
            return []
        made = [change.station for change in self.history.near(self.now, self.rails.round)]
        return made + [station for station, one in self.pending.items() if one.ordered]

    def local(self, moment: datetime) -> str:
        """Return a moment in words, in the zone of the rails."""
        return shown(moment, self.rails.zone)

    def earliest(self, moment: datetime) -> str:
        """Return the first full second from a moment on in words: who comes then is not too early by a fraction."""
        return self.local(moment + timedelta(microseconds=-moment.microsecond % 1_000_000))


Rule = Callable[[Situation, str], Refusal | None]


def stopped(now: Situation, _station: str) -> Refusal | None:
    """The stop switch."""
    if now.rails.stop:
        return Refusal("stop", "the stop switch of the rails is on")
    if now.history.stopped is None:
        return None
    return Refusal("stop", f"everything is stopped{_because(now.history.stopped)}")


def frozen(now: Situation, station: str) -> Refusal | None:
    """The freeze list, and stations that a person froze since."""
    if station in now.history.frozen:
        return Refusal("freeze", f"station {station!r} is frozen{_because(now.history.frozen[station])}")
    today = now.now.astimezone(now.rails.zone).date()
    for freeze in now.rails.freeze:
        if freeze.station == station and freeze.holds(today):
            until = f" until {freeze.until}" if freeze.until else ""
            return Refusal("freeze", f"station {station!r} is on the freeze list{until}{_because(freeze.why)}")
    return None


def in_doubt(now: Situation, _station: str) -> Refusal | None:
    """A clock that cannot be trusted: how long ago a change was, nobody knows."""
    return Refusal("clock", f"{UNKNOWN}{now.doubt}") if now.doubt else None


def under_way(now: Situation, station: str) -> Refusal | None:
    """A change that was approved and is not made yet: a station makes one after the other."""
    pending = now.pending.get(station)
    return None if pending is None else Refusal("order", pending.why)


def forbidden(now: Situation, station: str) -> Refusal | None:
    """Periods in which nothing changes."""
    for window in now.rails.forbidden:
        if window.concerns(station) and window.holds(now.now):
            return Refusal("forbidden", f"{now.local(now.now)} lies in a forbidden period: {window}")
    return None


def closed(now: Situation, station: str) -> Refusal | None:
    """Maintenance windows, outside which nothing changes."""
    windows = now.rails.maintenance
    if windows is None or any(window.concerns(station) and window.holds(now.now) for window in windows):
        return None
    return Refusal("maintenance", f"{now.local(now.now)} lies in no maintenance window of station {station!r}")


def too_soon(now: Situation, station: str) -> Refusal | None:
    """The least time between two changes of a station."""
    if not now.rails.min_time:
        return None
    made = now.history.near(now.now, now.rails.min_time, station=station)
    if not made:
        return None
    latest = max(map(now.history.when, made))
    free = now.earliest(latest + now.rails.min_time)
    return Refusal("min_time", f"station {station!r} changed at {now.local(latest)} and may not before {free}")


def day_full(now: Situation, station: str) -> Refusal | None:
    """The most changes of a station in a local day."""
    zone, most = now.rails.zone, now.rails.per_day
    if most is None:
        return None
    today = now.now.astimezone(zone).date()
    made = map(now.history.when, now.history.changes.get(station, ()))
    count = sum(at.astimezone(zone).date() == today for at in made)
    if count < most:
        return None
    return Refusal("per_day", f"station {station!r} has made {count} change(s) on {today}, {most} are allowed in a day")


def round_full(now: Situation, _station: str) -> Refusal | None:
    """The most changes of all stations in a round."""
    most = now.rails.per_round
    if most is None or len(now.round) < most:
        return None
    return Refusal("per_round", f"{len(now.round)} station(s) change in this round, {most} are allowed")


def neighbour_changes(now: Situation, station: str) -> Refusal | None:
    """Neighbours that do not change together."""
    if now.rails.neighbours_together:
        return None
    changed = now.rails.neighbours.get(station, frozenset()).intersection(now.round)
    if not changed:
        return None
    return Refusal("neighbours", f"its neighbour {min(changed)!r} changes in the same round")


FOR_CHANGES: tuple[Rule, ...] = (
    stopped,
    frozen,
    in_doubt,
    under_way,
    forbidden,
    closed,
    too_soon,
    day_full,
    round_full,
    neighbour_changes,
)
"""What an ordinary change passes."""

FOR_ORDERS: tuple[Rule, ...] = (stopped, frozen, in_doubt, forbidden, closed)
"""What a change that was ordered passes as long as it is not made."""

FOR_ROLL_BACKS: tuple[Rule, ...] = (stopped, frozen, forbidden)
"""What a roll-back passes; `closed` too, where the rails say so."""


def unexplained(now: Situation, station: str, *, running: int | None) -> Refusal | None:
    """What a station runs must be what the history says, or steps and roll-backs would start from a wrong place."""
    latest = now.history.latest(station)
    if latest is None or latest.arm == running:
        return None
    return Refusal(
        "running",
        f"the history says that station {station!r} runs configuration {latest.arm}, the proposal says {running}: "
        "record who changed it",
    )


def out_of_range(now: Situation, station: str, arm: int) -> Iterator[Refusal]:
    """The range of every knob."""
    row = now.space[arm]
    for name, limit in now.rails.limits(station):
        if not limit.allows(row[name]):
            yield Refusal("range", f"{name}={row[name]} is not {limit}", arm)


def out_of_reach(now: Situation, station: str, arm: int, *, running: int | None) -> Iterator[Refusal]:
    """How far every knob may move in one change."""
    row, before = now.space[arm], None if running is None else now.space[running]
    for name, limit in now.rails.limits(station):
        if limit.step is None:
            continue
        if before is None:
            yield Refusal("step", f"what station {station!r} runs is not known, so its step of {name} is not", arm)
        elif not limit.reaches(before[name], row[name]):
            moved = f"{name} from {before[name]} to {row[name]}"
            yield Refusal("step", f"{moved} is further than the {limit.step:g} of one change", arm)


def tried_in_vain(now: Situation, station: str, arm: int) -> Refusal | None:
    """What was taken back a short while ago."""
    if now.rails.fallback is None:
        return None
    pause = now.rails.fallback.retry_after
    for change in now.history.near(now.now, pause, station=station) if pause else []:
        if change.by == "roll-back" and change.before == arm:
            at = now.history.when(change)
            free = now.earliest(at + pause)
            return Refusal("retry", f"it was taken back at {now.local(at)} and is not tried before {free}", arm)
    return None


def shown(moment: datetime, zone: tzinfo) -> str:
    """Return a moment as a clock in a zone shows it, with seconds where there are any and its distance from UTC.

    Example:
        >>> from datetime import UTC
        >>> shown(datetime(2026, 3, 1, 12, tzinfo=UTC), UTC)
        '2026-03-01 12:00+00:00'
        >>> shown(datetime(2026, 3, 1, 12, 5, 30, tzinfo=UTC), UTC)
        '2026-03-01 12:05:30+00:00'
    """
    local = moment.astimezone(zone)
    full = not local.second and not local.microsecond
    return local.isoformat(sep=" ", timespec="minutes" if full else "seconds")


def _because(why: str) -> str:
    return f": {why}" if why else ""
