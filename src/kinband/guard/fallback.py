"""When a change is taken back: rewards fell after it, the station's own or a neighbour's, and stayed low.

A change is held against what was earned right before it: the mean of the last `before` slots in which the station whose
rewards are looked at ran one configuration. The change is taken back when each of the last `slots` slots since lies
lower than that by more than `drop`. Slots count as long as nothing else explains them: a neighbour's only up to the
neighbour's own next change. Where nothing was earned before, nothing can be said to have fallen.

Only changes that a controller made are taken back: not those of an operator, who wanted them, and not a roll-back, so
that a station never swings to and fro. The comparison knows nothing of the time of day; a drop that every evening
brings must be within `drop`, or `slots` long enough to outlast it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import fsum

from kinband.guard.events import Changed
from kinband.guard.history import History
from kinband.guard.rails import Fallback, Rails

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
        >>> from kinband.guard.events import Rewarded
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
