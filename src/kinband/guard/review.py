"""What the guard says of proposals."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from math import fsum
from typing import Any, Literal, get_args

from kinband.arrays import finite_number
from kinband.errors import BadInputError
from kinband.guard.rails import Fallback, Rails, check_rails, utc
from kinband.records import Decision
from kinband.space import ConfigurationSpace

# --- What happens to stations, as far as rails care: the events of which a history is made --------------------------
#
# An event log holds them in the order in which they came; `to_dict` and `event_from` turn one into JSON-able values and
# back. Times are kept in UTC.

By = Literal["controller", "roll-back", "operator"]
"""Who changed a configuration."""


@dataclass(frozen=True)
class _Event:
    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", utc(self.at, name="the time of an event"))

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able values."""
        return {"event": type(self).__name__.lower(), **asdict(self), "at": self.at.isoformat()}


@dataclass(frozen=True)
class Changed(_Event):
    """A station was told to run another configuration.

    Attributes:
        at: When.
        station: Which.
        arm: What it runs since.
        before: What it ran before, None where nobody knows.
        by: Who changed it. A change by an operator counts as one, and is never rolled back.

    Example:
        >>> from datetime import UTC
        >>> Changed(datetime(2026, 3, 1, tzinfo=UTC), "3714", arm=4, before=3).to_dict()["at"]
        '2026-03-01T00:00:00+00:00'
    """

    station: str
    arm: int
    before: int | None
    by: By = "controller"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in get_args(By):
            raise BadInputError(f"a change is made by one of {', '.join(get_args(By))}, got {self.by!r}")
        for arm in (self.arm, 0 if self.before is None else self.before):
            if isinstance(arm, bool) or not isinstance(arm, int) or arm < 0:
                raise BadInputError(f"a change is from one configuration number to another, from 0, got {arm!r}")


@dataclass(frozen=True)
class CalledOff(_Event):
    """The latest change of a station was not carried out, and does not count.

    Example:
        >>> from datetime import UTC
        >>> CalledOff(datetime(2026, 3, 1, tzinfo=UTC), "3714").to_dict()["event"]
        'calledoff'
    """

    station: str


@dataclass(frozen=True)
class Rewarded(_Event):
    """What a station earned in the slot that began at a time; the last word on a slot counts.

    Example:
        >>> from datetime import UTC
        >>> Rewarded(datetime(2026, 3, 1, tzinfo=UTC), "3714", 0.9).reward
        0.9
    """

    station: str
    reward: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reward", finite_number(self.reward, name="reward"))


@dataclass(frozen=True)
class Frozen(_Event):
    """A person wants a station to be left alone.

    Example:
        >>> from datetime import UTC
        >>> Frozen(datetime(2026, 3, 1, tzinfo=UTC), "3714", why="complaints").why
        'complaints'
    """

    station: str
    why: str = ""


@dataclass(frozen=True)
class Thawed(_Event):
    """A person takes a `Frozen` back; stations on the freeze list of the rails stay frozen.

    Example:
        >>> from datetime import UTC
        >>> Thawed(datetime(2026, 3, 1, tzinfo=UTC), "3714").station
        '3714'
    """

    station: str


@dataclass(frozen=True)
class Stopped(_Event):
    """The stop switch was thrown.

    Example:
        >>> from datetime import UTC
        >>> Stopped(datetime(2026, 3, 1, tzinfo=UTC), why="outage in the core").why
        'outage in the core'
    """

    why: str = ""


@dataclass(frozen=True)
class Resumed(_Event):
    """A `Stopped` was taken back; the switch in the rails is another one.

    Example:
        >>> from datetime import UTC
        >>> Resumed(datetime(2026, 3, 1, tzinfo=UTC)).to_dict()
        {'event': 'resumed', 'at': '2026-03-01T00:00:00+00:00'}
    """


Event = Changed | CalledOff | Rewarded | Frozen | Thawed | Stopped | Resumed
"""Anything that may stand in an event log."""

_KINDS = {kind.__name__.lower(): kind for kind in get_args(Event)}


def event_from(saved: Mapping[str, Any]) -> Event:
    """Return the event that `to_dict` described.

    Example:
        >>> from datetime import UTC
        >>> event = Changed(datetime(2026, 3, 1, tzinfo=UTC), "3714", arm=4, before=3)
        >>> event_from(event.to_dict()) == event
        True
    """
    try:
        values = dict(saved)
        kind = _KINDS[values.pop("event")]
        made: Event = kind(**{**values, "at": datetime.fromisoformat(values["at"])})
    except (KeyError, TypeError, ValueError) as error:
        raise BadInputError(f"this is no event of a guard's history: {error}") from error
    return made


# --- What is asked of a guard, and what it answers ------------------------------------------------------------------
#
# A refusal is a result, not an exception: it has a code for machines and a sentence for people, and is stored with the
# decision that it concerns.

Code = Literal[
    "stop",
    "freeze",
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
    "fallback",
]
"""Which rail refused, named as in the file; "range" is a knob's `min`, `max` or `values`, "retry" the pause after a
roll-back, "running" a proposal that contradicts the history, and "fallback" a roll-back that was due and could not be
made."""

Outcome = Literal["allowed", "replaced", "refused", "rolled back"]

LISTED = 12
"""How many refusals a verdict lists at most; thousands of configurations may be refused for one reason."""


@dataclass(frozen=True)
class Proposal:
    """What a station should run, as far as a learner is concerned.

    Attributes:
        station: For whom.
        running: Arm of what it runs now; None to go by the history, or where nobody knows.
        arms: What it should run, best first; may hold what it runs, and nothing if nothing is wanted.

    Example:
        >>> Proposal("3714", running=2, arms=(4, 3, 2)).arms[0]
        4
    """

    station: str
    running: int | None
    arms: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", None if self.running is None else int(self.running))
        object.__setattr__(self, "arms", tuple(map(int, self.arms)))

    @classmethod
    def of(cls, decision: Decision, *, running: int | None) -> "Proposal":
        """Return the proposal that a decision makes: what it chose, then its alternatives in their order.

        Example:
            >>> made = Decision(id="d1", station="a", arm=3, configuration=None, mean=None, width=None, ucb=None)
            >>> Proposal.of(made, running=1).arms
            (3,)
        """
        arms = dict.fromkeys([decision.arm, *(other.arm for other in decision.alternatives)])
        return cls(decision.station, running, tuple(arms))


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
class Verdict:
    """What a station is to run, and why.

    Attributes:
        station: For whom.
        outcome: "allowed": what was asked for; "replaced": the next best that may run; "refused": what runs already;
            "rolled back": what ran before.
        arm: What it is to run; None if that is what runs, and nobody knows what that is.
        running: What it ran when it was asked.
        asked: What was wanted most; None if nothing was.
        reason: One sentence.
        refusals: What was refused on the way, at most `LISTED` of them.

    Example:
        >>> verdict = Verdict("a", "allowed", arm=3, running=2, asked=3, reason="no rail forbids it")
        >>> verdict.changes, verdict.to_dict()["outcome"]
        (True, 'allowed')
    """

    station: str
    outcome: Outcome
    arm: int | None
    running: int | None
    asked: int | None
    reason: str
    refusals: tuple[Refusal, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the station is to run something else than now."""
        return self.arm != self.running

    @property
    def codes(self) -> tuple[Code, ...]:
        """The rails that refused something, each once."""
        return tuple(dict.fromkeys(refusal.code for refusal in self.refusals))

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-able values."""
        return {**asdict(self), "refusals": [asdict(refusal) for refusal in self.refusals]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Verdict":
        """Return the verdict that `to_dict` described.

        Example:
            >>> verdict = Verdict("a", "refused", 2, 2, 3, "stopped", (Refusal("stop", "stopped"),))
            >>> Verdict.from_dict(verdict.to_dict()) == verdict
            True
        """
        return cls(**{**saved, "refusals": tuple(Refusal(**refusal) for refusal in saved["refusals"])})


def changes_of(verdicts: Iterable[Verdict], at: datetime) -> list[Changed]:
    """Return the events that verdicts become when they are carried out: a history must hear of them.

    Example:
        >>> from datetime import UTC
        >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        >>> kept = Verdict("a", "refused", arm=2, running=2, asked=3, reason="stopped")
        >>> back = Verdict("b", "rolled back", arm=2, running=3, asked=3, reason="rewards fell")
        >>> [(change.station, change.by) for change in changes_of([kept, back], noon)]
        [('b', 'roll-back')]
    """
    return [
        Changed(
            at,
            verdict.station,
            arm=verdict.arm,
            before=verdict.running,
            by="roll-back" if verdict.outcome == "rolled back" else "controller",
        )
        for verdict in verdicts
        if verdict.arm is not None and verdict.changes
    ]


# --- The past as rails need it: who changed when, what was earned, who is frozen, whether everything stands still ---
#
# A `History` is a value: it never changes, `after` returns the next one. It is rebuilt from an event log by
# `History.of`, and depends on nothing but the events and their order. Changes are kept in the order of the log, which
# is that in which they were made, whatever the clock said; rewards are kept by slot, so that late ones find their
# place.

_INSTANT = timedelta(microseconds=1)  # the least that times can differ by


@dataclass(frozen=True)
class History:
    """What happened so far.

    Attributes:
        changes: By station, its changes in the order in which they were made.
        rewards: By station, what it earned by the time at which the slot began.
        frozen: Stations that a person froze, with the reason.
        stopped: Why everything is stopped; None if it is not.

    Example:
        >>> from datetime import UTC
        >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        >>> past = History.of([Changed(noon, "a", arm=1, before=0), Rewarded(noon, "a", 0.9)])
        >>> past.latest("a").arm, past.after([CalledOff(noon, "a")]).latest("a"), past.latest("b")
        (1, None, None)
    """

    changes: Mapping[str, tuple[Changed, ...]] = field(default_factory=dict)
    rewards: Mapping[str, Mapping[datetime, float]] = field(default_factory=dict)
    frozen: Mapping[str, str] = field(default_factory=dict)
    stopped: str | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> "History":
        """Return what an event log tells, in its order."""
        return cls().after(events)

    def after(self, events: Iterable[Event]) -> "History":
        """Return the history with more events behind it."""
        draft = _Draft(self)
        for event in events:
            draft.add(event)
        return draft.done()

    def latest(self, station: str) -> Changed | None:
        """Return the latest change of a station, if there is any."""
        made = self.changes.get(station, ())
        return made[-1] if made else None

    def near(self, now: datetime, span: timedelta, *, station: str | None = None) -> list[Changed]:
        """Return the changes less than `span` from now, on either side: a clock may have been set back.

        A change at this very moment is always near.
        """
        groups = self.changes.values() if station is None else [self.changes.get(station, ())]
        reach = max(span, _INSTANT)
        return [change for made in groups for change in made if abs(change.at - now) < reach]

    def since(self, moment: datetime) -> "History":
        """Return the history without what is older than a moment, save the last two changes of every station.

        A guard needs as far back as its longest rail reaches: two days, `min_time`, `round`, `retry_after`, and the
        slots before a change that may still be taken back.
        """
        changes = {
            station: tuple(c for i, c in enumerate(made) if c.at >= moment or i >= len(made) - 2)
            for station, made in self.changes.items()
        }
        rewards = {
            station: {at: reward for at, reward in earned.items() if at >= moment}
            for station, earned in self.rewards.items()
        }
        return History(changes, rewards, self.frozen, self.stopped)


class _Draft:
    """A history in the making, which copies only what it touches."""

    def __init__(self, past: History) -> None:
        self.changes, self.frozen, self.stopped = dict(past.changes), dict(past.frozen), past.stopped
        self.rewards = dict(past.rewards)
        self._mine: dict[str, dict[datetime, float]] = {}

    def add(self, event: Event) -> None:
        match event:
            case Changed(station=station):
                self.changes[station] = (*self.changes.get(station, ()), event)
            case CalledOff(station=station):
                self.changes[station] = self.changes.get(station, ())[:-1]
            case Rewarded(at=at, station=station, reward=reward):
                if station not in self._mine:
                    self._mine[station] = dict(self.rewards.get(station, {}))
                self._mine[station][at] = reward
            case Frozen(station=station, why=why):
                self.frozen[station] = why
            case Thawed(station=station):
                self.frozen.pop(station, None)
            case Stopped(why=why):
                self.stopped = why
            case Resumed():
                self.stopped = None

    def done(self) -> History:
        return History(self.changes, {**self.rewards, **self._mine}, self.frozen, self.stopped)


# --- One function per rail: may this station change now, whatever to; may it change to this -------------------------
#
# Each returns a refusal or None. `FOR_CHANGES` is the list that an ordinary change passes, `FOR_ROLL_BACKS` the shorter
# one of a roll-back. A new rail is a new function in one or both of them, and a code.
#
# **What a roll-back is exempt from.** It undoes a harm, so limits that keep changes rare (`min_time`, `per_day`,
# `per_round`, neighbours) do not hold it up, though it counts as a change in all of them. Nor does `step`: what it
# returns to has run there. What a person decided (stop, freeze, forbidden periods, ranges) holds for it as for
# anything. Whether maintenance windows do, the file must say.


@dataclass
class Situation:
    """How things stand in the middle of a review.

    Attributes:
        rails: What limits changes.
        space: What arms stand for.
        history: What happened before the review.
        now: When it is, in UTC.
        round: Station of every change of this round, those of the review so far among them.
    """

    rails: Rails
    space: ConfigurationSpace
    history: History
    now: datetime
    round: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.rails.per_round is not None or not self.rails.neighbours_together:
            self.round = [change.station for change in self.history.near(self.now, self.rails.round)]

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
    latest = max(change.at for change in made)
    free = now.earliest(latest + now.rails.min_time)
    return Refusal("min_time", f"station {station!r} changed at {now.local(latest)} and may not before {free}")


def day_full(now: Situation, station: str) -> Refusal | None:
    """The most changes of a station in a local day."""
    zone, most = now.rails.zone, now.rails.per_day
    if most is None:
        return None
    today = now.now.astimezone(zone).date()
    count = sum(change.at.astimezone(zone).date() == today for change in now.history.changes.get(station, ()))
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
    forbidden,
    closed,
    too_soon,
    day_full,
    round_full,
    neighbour_changes,
)
"""What an ordinary change passes."""

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
            yield Refusal("range", f"{name} {row[name]} is not {limit}", arm)


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
            free = now.earliest(change.at + pause)
            return Refusal("retry", f"it was taken back at {now.local(change.at)} and is not tried before {free}", arm)
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


# --- When a change is taken back: rewards fell after it, the station's own or a neighbour's, and stayed low ---------
#
# A change is held against what was earned right before it: the mean of the last `before` slots in which the station
# whose rewards are looked at ran one configuration. The change is taken back when each of the last `slots` slots since
# lies lower than that by more than `drop`. Slots count as long as nothing else explains them: a neighbour's only up to
# the neighbour's own next change. Where nothing was earned before, nothing can be said to have fallen.
#
# Only changes that a controller made are taken back: not those of an operator, who wanted them, and not a roll-back, so
# that a station never swings to and fro. The comparison knows nothing of the time of day; a drop that every evening
# brings must be within `drop`, or `slots` long enough to outlast it.

_ROUNDING = 1e-9  # 0.9 - 0.85 is no more than 0.05


@dataclass(frozen=True)
class Fall:
    """Rewards that fell after a change.

    Attributes:
        change: What is to be taken back.
        whose: Whose rewards they are.
        before: What was earned before, on average.
        since: The best of the slots since.
        slots: How many those are.
    """

    change: Changed
    whose: str
    before: float
    since: float
    slots: int

    @property
    def words(self) -> str:
        """The fall as a clause."""
        owner = "its own reward" if self.whose == self.change.station else f"the reward of its neighbour {self.whose!r}"
        return f"{owner} fell from {self.before:.4g} to at most {self.since:.4g} for {self.slots} slot(s)"


def fall_after_change(rails: Rails, history: History, station: str, *, running: int | None) -> Fall | None:
    """Return the fall for which a station's latest change is to be taken back, if there is one.

    Args:
        rails: What was declared.
        history: What happened.
        station: Whose change it is.
        running: What the station runs; a change is not taken back if that is not what it changed to.

    Example:
        >>> from datetime import UTC, timedelta
        >>> hours = [datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(4)]
        >>> from kinband.guard.review import Rewarded
        >>> earned = [Rewarded(at, "a", reward) for at, reward in zip(hours, [0.9, 0.9, 0.8, 0.7])]
        >>> past = History.of([*earned, Changed(hours[2], "a", arm=1, before=0)])
        >>> fall_after_change(Rails(fallback=Fallback(drop=0.05, slots=2)), past, "a", running=1).words
        'its own reward fell from 0.9 to at most 0.8 for 2 slot(s)'
        >>> fall_after_change(Rails(fallback=Fallback(drop=0.15, slots=2)), past, "a", running=1) is None
        True
    """
    change = history.latest(station)
    if rails.fallback is None or change is None or change.by != "controller":
        return None
    if change.before in (None, change.arm) or change.arm != running:
        return None
    for whose in _watched(rails, rails.fallback, station):
        if (fall := _fall(history, change, whose, rails.fallback)) is not None:
            return fall
    return None


def _watched(rails: Rails, fallback: Fallback, station: str) -> Iterator[str]:
    if fallback.own:
        yield station
    if fallback.neighbours:
        yield from sorted(rails.neighbours.get(station, ()))


def _fall(history: History, change: Changed, whose: str, fallback: Fallback) -> Fall | None:
    start, end = _undisturbed(history, change, whose)
    slots = sorted(history.rewards.get(whose, {}).items())
    before = [r for at, r in slots if at < change.at and (start is None or at >= start)][-fallback.before :]
    since = [
        r
        for at, r in slots
        if at >= change.at
        and (end is None or at < end)
        and (fallback.within is None or at < change.at + fallback.within)
    ][-fallback.slots :]
    if not before or len(since) < fallback.slots:
        return None
    earned = fsum(before) / len(before)
    rounding = _ROUNDING * max(abs(earned), abs(max(since)))
    if earned - max(since) <= fallback.allowance(earned) + rounding:
        return None
    return Fall(change, whose, earned, max(since), fallback.slots)


def _undisturbed(history: History, change: Changed, whose: str) -> tuple[datetime | None, datetime | None]:
    """The time around a change in which the one whose rewards are looked at made no other; None for no end."""
    others = [other.at for other in history.changes.get(whose, ()) if other is not change]
    earlier, later = [at for at in others if at <= change.at], [at for at in others if at > change.at]
    return max(earlier, default=None), min(later, default=None)


# --- The guard: holds what a learner proposes against the rails, and says what each station is to run ---------------
#
# `Guard.review` is a function of the rails, the proposals, the history and the time, and of nothing else: it keeps no
# state, reads no clock, and asked again gives the same answer. What it promises is written in `kinband.guard`.


class Guard:
    """Holds proposals against rails.

    Args:
        rails: What limits changes.
        space: The configurations that arms stand for.

    Example:
        >>> from datetime import UTC
        >>> from kinband.guard import KnobLimit
        >>> guard = Guard(Rails(knobs={"tilt": KnobLimit(high=6, step=2)}), ConfigurationSpace(tilt=range(0, 10, 2)))
        >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        >>> verdict = guard.review([Proposal("a", running=2, arms=(4, 3, 2))], History(), now=noon)["a"]
        >>> verdict.outcome, verdict.arm, verdict.codes
        ('replaced', 3, ('range', 'step'))
        >>> verdict.reason
        'tilt 6 in place of tilt 8: tilt 8 is not at most 6'
    """

    def __init__(self, rails: Rails, space: ConfigurationSpace) -> None:
        for station in (None, *rails.stations):
            check_rails(rails, space, station=station)
        self.rails, self.space = rails, space

    def review(self, proposals: Iterable[Proposal], history: History, *, now: datetime) -> dict[str, Verdict]:
        """Return what each station is to run, by station and in the order of the proposals.

        Roll-backs come first, then the others in the order given; each change counts for those behind it.

        Args:
            proposals: One for each station, the most important first.
            history: What happened. What this review allows must be in it (`changes_of`) before the next one.
            now: When changes would be made, with a time zone. Where they wait for approval, review them again then.
        """
        listed = [_informed(proposal, history) for proposal in self._checked(proposals)]
        situation = Situation(self.rails, self.space, history, utc(now, name="now"))
        verdicts: dict[str, Verdict] = {}
        held_up: dict[str, list[Refusal]] = {}
        for proposal in listed:
            verdict, held_up[proposal.station] = self._rolled_back(proposal, situation)
            if verdict is not None:
                verdicts[proposal.station] = _counted(verdict, situation)
        for proposal in listed:
            if proposal.station not in verdicts:
                verdict = self._weighed(proposal, situation, held_up[proposal.station])
                verdicts[proposal.station] = _counted(verdict, situation)
        return {proposal.station: verdicts[proposal.station] for proposal in listed}

    def _rolled_back(self, proposal: Proposal, situation: Situation) -> tuple[Verdict | None, list[Refusal]]:
        """Return the verdict if a roll-back is due and may be made, and what holds it up if it may not."""
        station = proposal.station
        fall = fall_after_change(self.rails, situation.history, station, running=proposal.running)
        if fall is None or fall.change.before is None or self.rails.fallback is None:
            return None, []
        back = fall.change.before
        rules = FOR_ROLL_BACKS if self.rails.fallback.outside_windows else (*FOR_ROLL_BACKS, closed)
        refusals = [refusal for rule in rules if (refusal := rule(situation, station)) is not None]
        refusals += out_of_range(situation, station, back)
        if not refusals:
            reason = f"back to {self._words(back)}: {fall.words}"
            return Verdict(station, "rolled back", back, proposal.running, _first(proposal), reason), []
        reason = f"{fall.words}, but it cannot return to {self._words(back)}: {refusals[0].reason}"
        return None, [Refusal("fallback", reason, back), *refusals]

    def _weighed(self, proposal: Proposal, situation: Situation, held_up: list[Refusal]) -> Verdict:
        """Return the verdict on what was proposed: the best that may run, or what runs already."""
        refusals = list(held_up)
        barred: list[Refusal] | None = None  # what refuses any change of the station, looked up when one is wanted
        for arm in proposal.arms:
            if arm == proposal.running:
                return self._kept(proposal, refusals)
            if barred is None:
                barred = list(self._against_any(proposal, situation))
                refusals += (refusal for refusal in barred if refusal not in held_up)
            if barred:
                break
            against = list(self._against(proposal, arm, situation))
            if not against:
                return self._changed(proposal, arm, refusals)
            refusals += against
        return self._kept(proposal, refusals)

    def _against_any(self, proposal: Proposal, situation: Situation) -> Iterator[Refusal]:
        """What refuses any change of this station now."""
        for rule in FOR_CHANGES:
            if (refusal := rule(situation, proposal.station)) is not None:
                yield refusal
        if (refusal := unexplained(situation, proposal.station, running=proposal.running)) is not None:
            yield refusal

    def _against(self, proposal: Proposal, arm: int, situation: Situation) -> Iterator[Refusal]:
        """What refuses this configuration for this station."""
        yield from out_of_range(situation, proposal.station, arm)
        yield from out_of_reach(situation, proposal.station, arm, running=proposal.running)
        if (refusal := tried_in_vain(situation, proposal.station, arm)) is not None:
            yield refusal

    def _changed(self, proposal: Proposal, arm: int, refusals: list[Refusal]) -> Verdict:
        asked = proposal.arms[0]
        about = [refusal.reason for refusal in refusals if refusal.arm == asked and refusal.code != "fallback"]
        if arm == asked:
            reason = f"{self._words(arm)}: no rail forbids it"
        else:
            reason = f"{self._words(arm)} in place of {self._words(asked)}: {'; '.join(about[:1])}"
        outcome: Outcome = "allowed" if arm == asked else "replaced"
        return Verdict(proposal.station, outcome, arm, proposal.running, asked, reason, tuple(refusals[:LISTED]))

    def _kept(self, proposal: Proposal, refusals: list[Refusal]) -> Verdict:
        """Return the verdict that leaves a station as it is."""
        asked, running = _first(proposal), proposal.running
        wanted = asked is not None and asked != running
        keeps = "keeps what it runs" if running is None else f"keeps {self._words(running)}"
        why = list(dict.fromkeys(r.reason for r in refusals if r.arm in (None, asked) or r.code == "fallback"))
        reason = f"{keeps}: {'; '.join(why)}" if why else f"{keeps}: nothing else was asked for"
        outcome: Outcome = "refused" if wanted or refusals else "allowed"
        return Verdict(proposal.station, outcome, running, running, asked, reason, tuple(refusals[:LISTED]))

    def _words(self, arm: int) -> str:
        return in_words(self.space[arm])

    def _checked(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        listed = list(proposals)
        seen: set[str] = set()
        for proposal in listed:
            if proposal.station in seen:
                raise BadInputError(f"station {proposal.station!r} is proposed twice: give one proposal for each")
            seen.add(proposal.station)
            for arm in (*proposal.arms, *(() if proposal.running is None else (proposal.running,))):
                if not 0 <= arm < len(self.space):
                    raise BadInputError(
                        f"there is no configuration {arm}, proposed for {proposal.station!r}: "
                        f"the space has 0 to {len(self.space) - 1}"
                    )
        return listed


def in_words(configuration: Mapping[str, object]) -> str:
    """Return a configuration as people write it.

    Example:
        >>> in_words({"threshold_dbm": -98, "scheduler": "pf"})
        'threshold_dbm -98, scheduler pf'
    """
    return ", ".join(f"{name} {value}" for name, value in configuration.items())


def _first(proposal: Proposal) -> int | None:
    return proposal.arms[0] if proposal.arms else None


def _informed(proposal: Proposal, history: History) -> Proposal:
    """Return the proposal with what the station runs, where the history knows and nobody else does."""
    latest = history.latest(proposal.station)
    if proposal.running is not None or latest is None:
        return proposal
    return replace(proposal, running=latest.arm)


def _counted(verdict: Verdict, situation: Situation) -> Verdict:
    """Return the verdict after counting its change in the round."""
    if verdict.arm is not None and verdict.changes:
        situation.round.append(verdict.station)
    return verdict
