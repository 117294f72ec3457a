"""What happened, rebuilt from an event log: the events that rails care about, and the history made of them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.errors import BadInputError
from kinband.guardrails.model import utc

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
        epoch: How often the clock had been set right by then; a history fills it in.

    Example:
        >>> from datetime import UTC
        >>> Changed(datetime(2026, 3, 1, tzinfo=UTC), "3714", arm=4, before=3).to_dict()["at"]
        '2026-03-01T00:00:00+00:00'
    """

    station: str
    arm: int
    before: int | None
    by: By = "controller"
    epoch: int = 0

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

    Attributes:
        at: When the slot began.
        station: Which.
        reward: What it earned.
        epoch: How often the clock had been set right when the slot began; None for as often as by now.

    Example:
        >>> from datetime import UTC
        >>> Rewarded(datetime(2026, 3, 1, tzinfo=UTC), "3714", 0.9).reward
        0.9
    """

    station: str
    reward: float
    epoch: int | None = None

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


@dataclass(frozen=True)
class ClockSet(_Event):
    """A person says that the clock is right, which was in doubt: `at` is what it shows.

    Whatever bears a later time was recorded with a wrong clock, and happened no later than this.

    Example:
        >>> from datetime import UTC
        >>> ClockSet(datetime(2026, 3, 1, tzinfo=UTC), why="the machine had been a day ahead").to_dict()["event"]
        'clockset'
    """

    why: str = ""


Event = Changed | CalledOff | Rewarded | Frozen | Thawed | Stopped | Resumed | ClockSet
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
        raise BadInputError(f"this is not an event of a guard's history: {error}") from error
    return made


# --- The past as rails need it: who changed when, what was earned, who is frozen, whether everything stands still ---
#
# A `History` is a value: it never changes, `after` returns the next one. It is rebuilt from an event log by
# `History.of`, and depends on nothing but the events and their order.
#
# **The order of the log is the clock.** Time is never earlier than that of the latest event (`History.time`), whatever
# a clock shows. Only a person sets it back (`ClockSet`), which begins an *epoch*: what an earlier epoch says to have
# happened later than that happened no later than that (`History.when`), so that the distance to what happens next is
# never overrated, and all of an earlier epoch was before all of a later one. Rewards are kept by slot, so that late
# ones find their place.

_INSTANT = timedelta(microseconds=1)  # the least that times can differ by

KEPT_CHANGES, KEPT_REWARDS = 1_000, 1_500
"""How many of its latest changes, and of the latest slots, a history has of a station; at most twice as many."""

Moment = tuple[int, datetime]
"""Epoch and time: of two moments the greater is the later one."""

_BEGAN, _TICK = datetime(1, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
EPOCH = 300_000_000_000_000
"""Milliseconds that epochs lie apart as numbers: more than there are from the first time that counts to the last."""


def ticks_of(moment: Moment) -> int:
    """Return a moment as a number of milliseconds, so that many can be held against each other at once."""
    return moment[0] * EPOCH + (moment[1] - _BEGAN) // _TICK


@dataclass(frozen=True, eq=False)
class Earned:
    """What a station earned, as arrays.

    Attributes:
        times: When its slots began, (n,), ascending, as `ticks_of` has it; each once.
        rewards: What it earned in them, (n,).
    """

    times: IntArray
    rewards: FloatArray

    @classmethod
    def of(cls, slots: Mapping[Moment, float]) -> "Earned":
        """Return the slots of a history as arrays; of two in one millisecond the later counts."""
        told = {ticks_of(at): reward for at, reward in sorted(slots.items())}
        return cls(np.array([*told], dtype=np.int64), np.array([*told.values()], dtype=np.float64))

    def then(self, moment: Moment, reward: float) -> "Earned | None":
        """Return these with a later slot; None for one that is no later than all of them."""
        at = ticks_of(moment)
        if len(self.times) and at <= self.times[-1]:
            return None
        return Earned(np.append(self.times, at), np.append(self.rewards, reward))


@dataclass(frozen=True)
class History:
    """What happened so far.

    Attributes:
        changes: By station, its changes in the order in which they were made.
        rewards: By station, what it earned by the moment at which the slot began.
        frozen: Stations that a person froze, with the reason.
        stopped: Why everything is stopped; None if it is not.
        time: Of the latest event, rewards apart; None where there is none.
        clock: What the clock showed each time that a person set it right.

    Example:
        >>> from datetime import UTC
        >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        >>> past = History.of([Changed(noon, "a", arm=1, before=0), Rewarded(noon, "a", 0.9)])
        >>> past.latest("a").arm, past.after([CalledOff(noon, "a")]).latest("a"), past.latest("b")
        (1, None, None)
        >>> past.after([ClockSet(noon.replace(hour=10))]).when(past.latest("a")).hour
        10
    """

    changes: Mapping[str, tuple[Changed, ...]] = field(default_factory=dict)
    rewards: Mapping[str, Mapping[Moment, float]] = field(default_factory=dict)
    frozen: Mapping[str, str] = field(default_factory=dict)
    stopped: str | None = None
    time: datetime | None = None
    clock: tuple[datetime, ...] = ()
    _earned: dict[str, Earned] = field(default_factory=dict, init=False, repr=False, compare=False)  # from `rewards`

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

    def earned(self, station: str) -> Earned:
        """Return what a station earned as arrays."""
        if station not in self._earned:
            self._earned[station] = Earned.of(self.rewards.get(station, {}))
        return self._earned[station]

    def when(self, change: Changed) -> datetime:
        """Return the latest time at which a change can have been made."""
        return min((change.at, *self.clock[change.epoch :])) if self.clock else change.at

    def near(self, now: datetime, span: timedelta, *, station: str | None = None) -> list[Changed]:
        """Return the changes less than `span` before now, which is no earlier than any; one at this very moment is."""
        groups = self.changes.values() if station is None else [self.changes.get(station, ())]
        reach = max(span, _INSTANT)
        return [change for made in groups for change in made if now - self.when(change) < reach]


class _Draft:
    """A history in the making, which copies only what it touches."""

    def __init__(self, past: History) -> None:
        self.changes, self.frozen, self.stopped = dict(past.changes), dict(past.frozen), past.stopped
        self.rewards, self.time, self.clock = dict(past.rewards), past.time, past.clock
        self._mine: dict[str, dict[Moment, float]] = {}
        self._earned = dict(past._earned)

    def add(self, event: Event) -> None:
        if not isinstance(event, Rewarded):
            self.time = event.at if self.time is None else max(self.time, event.at)
        match event:
            case Changed(station=station):
                made = replace(event, epoch=len(self.clock)) if self.clock else event
                known = self.changes.get(station, ())
                self.changes[station] = (*(known if len(known) < 2 * KEPT_CHANGES else known[-KEPT_CHANGES:]), made)
            case CalledOff(station=station):
                self.changes[station] = self.changes.get(station, ())[:-1]
            case Rewarded(at=at, station=station, reward=reward, epoch=epoch):
                if station not in self._mine:
                    self._mine[station] = dict(self.rewards.get(station, {}))
                moment = len(self.clock) if epoch is None else epoch, at
                self._mine[station][moment] = reward
                arrays = self._earned.pop(
                    station, None
                )  # a late slot or a correction has them made anew when asked for
                if arrays is not None and (longer := arrays.then(moment, reward)) is not None:
                    self._earned[station] = longer
                if len(self._mine[station]) > 2 * KEPT_REWARDS:
                    self._mine[station] = dict(sorted(self._mine[station].items())[-KEPT_REWARDS:])
                    self._earned.pop(station, None)
            case Frozen(station=station, why=why):
                self.frozen[station] = why
            case Thawed(station=station):
                self.frozen.pop(station, None)
            case Stopped(why=why):
                self.stopped = why
            case Resumed():
                self.stopped = None
            case ClockSet(at=at):
                self.time, self.clock = at, (*self.clock, at)

    def done(self) -> History:
        rewards = {**self.rewards, **self._mine}
        made = History(self.changes, rewards, self.frozen, self.stopped, self.time, self.clock)
        made._earned.update(self._earned)
        return made
