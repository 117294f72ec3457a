"""What happened, rebuilt from an event log: the events that rails care about, and the history made of them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from kinband.arrays import finite_number
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
        raise BadInputError(f"this is not an event of a guard's history: {error}") from error
    return made


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
