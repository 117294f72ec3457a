"""The past as rails need it: who changed when, what was earned, who is frozen, whether everything stands still.

A `History` is a value: it never changes, `after` returns the next one. It is rebuilt from an event log by `History.of`,
and depends on nothing but the events and their order. Changes are kept in the order of the log, which is that in which
they were made, whatever the clock said; rewards are kept by slot, so that late ones find their place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kinband.guard.events import CalledOff, Changed, Event, Frozen, Resumed, Rewarded, Stopped, Thawed

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
