"""What takes a change back: rewards fell after it, against stations that did not change or against the slots before it.

**By controls.** The station is held against a mixture of stations that ran one configuration from its first slot before
the change on, in the same slots, as `kinband.judging` does: what all of them lose together (an evening, an outage of
the core) is no loss. Its `Watch` has the rate of false alarms hold over all looks together; where neighbours are
watched too, each of those watched has an equal part of the rate. Neighbours are no controls, since the change may touch
them. A slot counts once half of the others have told what they earned in it. A loss stays certain while it goes on to
be one, for as long after the end of the watch as that lasted.

**By its own slots.** A change is held against what was earned right before it: the mean of the last `before` slots in
which the station whose rewards are looked at ran one configuration. The change is taken back when each of the last
`slots` slots since lies lower than that by more than `drop`. Slots count as long as nothing else explains them: a
neighbour's only up to the neighbour's own next change. Where nothing was earned before, nothing can be said to have
fallen. This comparison knows nothing of the time of day; a drop that every evening brings must be within `drop`, or
`slots` long enough to outlast it. Where a file has both, it counts where controls say nothing.

Only changes that a controller made are taken back: not those of an operator, who wanted them, and not a roll-back, so
that a station never swings to and fro.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from math import fsum

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.guardrails.history import EPOCH, Changed, Earned, History, Moment, ticks_of
from kinband.guardrails.model import Fallback, Rails
from kinband.judging import HORIZON, KNOWN, LEAST_BEFORE, LEAST_CONTROLS, Comparison, Watch, nearest
from kinband.stats import counted

_ROUNDING = 1e-9  # 0.9 - 0.85 is no more than 0.05
_TICK = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Fall:
    """Rewards that fell after a change, against what was earned before it.

    Attributes:
        change: What is to be taken back.
        whose: Whose rewards they are.
        before: What was earned before, on average.
        since: The best of the slots since.
        slots: How many those are.
        why: Why it was not judged by controls, where it should have been.
    """

    change: Changed
    whose: str
    before: float
    since: float
    slots: int
    why: str = ""

    @property
    def words(self) -> str:
        """The fall as a clause."""
        why = f" (by its own slots: {self.why})" if self.why else ""
        return (
            f"{_owner(self.change, self.whose)} fell from {self.before:.4g} to at most {self.since:.4g} for "
            f"{self.slots} slot(s){why}"
        )


@dataclass(frozen=True)
class Loss:
    """Rewards that a change lost for certain, against stations that did not change.

    Attributes:
        change: What is to be taken back.
        whose: Whose rewards they are.
        lost: What they lost a slot, on average over the slots after which that was certain.
        chance: How much of that chance could do, at the rate that is stated.
        slots: After how many slots it was certain.
        controls: How many stations they were compared with.
        rate: How often a change that does nothing is taken for a loss.
    """

    change: Changed
    whose: str
    lost: float
    chance: float
    slots: int
    controls: int
    rate: float

    @property
    def words(self) -> str:
        """The loss as a clause."""
        return (
            f"{_owner(self.change, self.whose)} lost {self.lost:.3g} against {self.controls} stations that did not "
            f"change, over {counted(self.slots, 'slot')}; chance does {self.chance:.3g} at most in all but "
            f"{100 * self.rate:g}% of changes"
        )


def _owner(change: Changed, whose: str) -> str:
    return "its own reward" if whose == change.station else f"the reward of its neighbour {whose!r}"


@dataclass(frozen=True)
class Unjudged:
    """A change that is to be judged by controls, and of which they say nothing.

    Attributes:
        change: The change.
        why: Why, as a clause.
    """

    change: Changed
    why: str


Learned = MutableMapping[bytes, Comparison | None]
"""What comparisons were learned from slots before changes, by what those were: a cache, which changes no verdict."""


def fall_after_change(
    rails: Rails, history: History, station: str, *, running: int | None, learned: Learned | None = None
) -> Fall | Loss | Unjudged | None:
    """Return the fall or loss for which a station's latest change is to be taken back, or why nothing can be said.

    Args:
        rails: What was declared.
        history: What happened.
        station: Whose change it is.
        running: What the station runs; a change is not taken back if that is not what it changed to.
        learned: What comparisons were learned so far, for the next time.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> hours = [datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(4)]
        >>> from kinband.guardrails.history import Rewarded
        >>> earned = [Rewarded(at, "a", reward) for at, reward in zip(hours, [0.9, 0.9, 0.8, 0.7])]
        >>> past = History.of([*earned, Changed(hours[2], "a", arm=1, before=0)])
        >>> fall_after_change(Rails(fallback=Fallback(drop=0.05, slots=2)), past, "a", running=1).words
        'its own reward fell from 0.9 to at most 0.8 for 2 slot(s)'
        >>> fall_after_change(Rails(fallback=Fallback(drop=0.15, slots=2)), past, "a", running=1) is None
        True
    """
    change, fallback = history.latest(station), rails.fallback
    if fallback is None or change is None or change.by != "controller":
        return None
    if change.before in (None, change.arm) or change.arm != running:
        return None
    watched, left = list(_watched(rails, fallback, station)), None
    for whose in watched:
        found = None
        if fallback.rate is not None:
            found = _lost(rails, history, change, whose, rate=fallback.rate / len(watched), learned=learned)
        if isinstance(found, Loss):
            return found
        if fallback.drop is not None and (fallback.rate is None or found is not None):
            fall = _fall(history, change, whose, fallback, why="" if found is None else found.why)
            if fall is not None:
                return fall
        elif whose == watched[0]:
            left = found
    return left


def _watched(rails: Rails, fallback: Fallback, station: str) -> Iterator[str]:
    if fallback.own:
        yield station
    if fallback.neighbours:
        yield from sorted(rails.neighbours.get(station, ()))


# --- By controls: the history as arrays, for `kinband.judging` -------------------------------------------------------

BEFORE = 336
"""Slots before a change that a comparison is learned from, at most: two weeks of hours."""
CANDIDATES = 200
"""Stations that are looked at as controls, at most; of more, so many at even distances."""
TOLD = 0.5
"""A slot counts once this share of the other stations has told what it earned in it."""
KEPT_LEARNED = 4_000
"""How many comparisons a cache holds, at most."""


def _lost(
    rails: Rails, history: History, change: Changed, whose: str, *, rate: float, learned: Learned | None
) -> Loss | Unjudged | None:
    """Return the loss against controls, or why they say nothing; None where nothing is lost for certain so far."""
    fallback = rails.fallback
    if fallback is None or (span := _span(history, change, whose, within=fallback.within)) is None:
        return None
    if span.before < LEAST_BEFORE:
        ran = f"station {whose!r} ran what it had before in {counted(span.before, 'slot')}"
        return Unjudged(change, f"{ran} of which the reward is known, and it takes {LEAST_BEFORE}")
    table = _controls(history, span, apart={change.station, *rails.neighbours.get(change.station, ())})
    if not isinstance(table, _Table):
        return None if table is None else Unjudged(change, table)
    station, B = span.rewards[table.rows], table.before
    theirs = table.rewards[:, nearest(station[:B], table.rewards[:B])]
    found = _comparison(np.column_stack([station, theirs])[:B], learned)
    if found is None:
        return Unjudged(change, "most of the stations to compare with never vary")
    watch = Watch.begin(found, rate=rate, horizon=span.horizon)
    seen = watch.through(station[B:], theirs[B:])
    if not seen.lost or seen.loss <= 0:
        return None
    then = watch.through(station[B : B + seen.lost], theirs[B : B + seen.lost])
    return Loss(change, whose, then.loss, then.bound, seen.lost, theirs.shape[1], fallback.rate or rate)


@dataclass(frozen=True, eq=False)
class _Span:
    """The slots around a change in which a station is looked at.

    Attributes:
        slots: When they began, (B + A,).
        rewards: What the station earned, (B + A,).
        before: How many of these were before the change, B.
        step: How far slots are apart.
        horizon: How many slots a watch has.
    """

    slots: IntArray
    rewards: FloatArray
    before: int
    step: float
    horizon: int


def _span(history: History, change: Changed, whose: str, *, within: timedelta | None) -> _Span | None:
    """Return the slots around a change in which a station made no other; None where the watch is over."""
    own, made = history.earned(whose), ticks_of(_moment(change))
    start, end = (None if at is None else ticks_of(at) for at in _undisturbed(history, change, whose))
    at = int(np.searchsorted(own.times, made))
    first = max(at - BEFORE, 0 if start is None else int(np.searchsorted(own.times, start)))
    elapsed = _ticks_since(history, change, own.times[at : None if end is None else np.searchsorted(own.times, end)])
    step = float(np.median(np.diff(own.times[first:at]))) if at - first > 1 else np.inf
    length = HORIZON * step if within is None else within / _TICK
    if not len(elapsed) or elapsed[-1] >= 2 * length:
        return None
    last = at + int(np.count_nonzero(elapsed < length))
    horizon = HORIZON if within is None else max(1, round(length / step))
    return _Span(own.times[first:last], own.rewards[first:last], at - first, step, horizon)


def _ticks_since(history: History, change: Changed, times: IntArray) -> IntArray:
    """How long after a change slots began, (n,); in another epoch, at most."""
    epochs, of_day = np.divmod(times, EPOCH)
    own, later = (ticks_of((0, moment)) for moment in (change.at, history.when(change)))
    return np.asarray(of_day - np.where(epochs == change.epoch, own, later))


@dataclass(frozen=True, eq=False)
class _Table:
    """What controls earned.

    Attributes:
        rows: Which of the station's slots count, (B + A,).
        before: How many of these were before the change, B.
        rewards: Of the controls, (B + A, K), nan where not known.
    """

    rows: IntArray
    before: int
    rewards: FloatArray


def _controls(history: History, span: _Span, *, apart: set[str]) -> _Table | str | None:
    """Return what the controls earned in a station's slots, or why there are none; None where it is not told yet.

    Of the slots before, as many count as there are controls for: they are halved until there are enough.
    """
    before, last = span.before, int(span.slots[-1])
    others = {name: _latest(history, name, upto=last) for name in sorted(history.rewards) if name not in apart}
    most, count = before, 0
    while True:
        grid = span.slots[before - most :]
        names = [name for name, at in others.items() if at <= grid[0]]
        names = names[:: max(1, -(-len(names) // CANDIDATES))]
        table = np.column_stack(
            [np.empty((len(grid), 0)), *(_aligned(history.earned(name), grid, reach=span.step / 2) for name in names)]
        )
        known = np.isfinite(table)
        fit = known[:most].mean(axis=0) >= KNOWN
        if fit.sum() >= LEAST_CONTROLS:
            told = most + np.flatnonzero(known[most:, fit].mean(axis=1) >= TOLD)
            if not len(told):
                return None
            rows = np.concatenate([np.arange(most), told])
            fit &= known[told].mean(axis=0) >= KNOWN
        count = max(count, int(fit.sum()))
        if fit.sum() >= LEAST_CONTROLS:
            return _Table(rows + before - most, most, table[np.ix_(rows, fit)])
        if most == LEAST_BEFORE:
            ran = f"only {count} of the stations that are no neighbours ran one configuration all the while"
            return f"{ran} and told what it earned, and it takes {LEAST_CONTROLS} to compare with"
        most = max(most // 2, LEAST_BEFORE)


def _latest(history: History, station: str, *, upto: int) -> int:
    """When a station last changed, up to some time; 0 where it never did."""
    made = (ticks_of(_moment(c)) for c in reversed(history.changes.get(station, ())) if c.arm != c.before)
    return next((at for at in made if at <= upto), 0)


def _aligned(earned: Earned, slots: IntArray, *, reach: float) -> FloatArray:
    """What a station earned in the slots of another one, (n,): in the nearest of its own, nan if none is near."""
    times = earned.times
    place = int(np.searchsorted(times, slots[0]))
    if np.array_equal(times[place : place + len(slots)], slots):
        return earned.rewards[place : place + len(slots)]
    if not len(times):
        return np.full(len(slots), np.nan)
    after = np.searchsorted(times, slots)
    earlier, later = np.maximum(after - 1, 0), np.minimum(after, len(times) - 1)
    closest = np.where(np.abs(times[earlier] - slots) <= np.abs(times[later] - slots), earlier, later)
    return np.where(np.abs(times[closest] - slots) <= reach, earned.rewards[closest], np.nan)


def _comparison(before: FloatArray, learned: Learned | None) -> Comparison | None:
    """Return the comparison of a station, the first column of (B, 1 + K), with the others; None where none vary."""
    key = blake2b(before.tobytes(), digest_size=16).digest() + bytes(str(before.shape), "ascii")
    if learned is not None and key in learned:
        return learned[key]
    try:
        found = Comparison.of(before[:, 0], before[:, 1:])
    except BadInputError:
        found = None
    if learned is not None:
        while len(learned) >= KEPT_LEARNED:
            learned.pop(next(iter(learned)), None)
        learned[key] = found
    return found


# --- By its own slots ------------------------------------------------------------------------------------------------


def _fall(history: History, change: Changed, whose: str, fallback: Fallback, *, why: str) -> Fall | None:
    start, end = _undisturbed(history, change, whose)
    slots, made = sorted(history.rewards.get(whose, {}).items()), _moment(change)
    before = [r for at, r in slots if at < made and (start is None or at >= start)][-fallback.before :]
    since = [
        r
        for at, r in slots
        if at >= made
        and (end is None or at < end)
        and (fallback.within is None or _elapsed(history, change, at) < fallback.within)
    ][-fallback.slots :]
    if not before or len(since) < fallback.slots:
        return None
    earned = fsum(before) / len(before)
    rounding = _ROUNDING * max(abs(earned), abs(max(since)))
    if earned - max(since) <= fallback.allowance(earned) + rounding:
        return None
    return Fall(change, whose, earned, max(since), fallback.slots, why)


def _moment(change: Changed) -> Moment:
    return change.epoch, change.at


def _elapsed(history: History, change: Changed, at: Moment) -> timedelta:
    """How long after a change a slot began; in another epoch, at most."""
    epoch, moment = at
    return moment - (change.at if epoch == change.epoch else history.when(change))


def _undisturbed(history: History, change: Changed, whose: str) -> tuple[Moment | None, Moment | None]:
    """The time around a change in which the one whose rewards are looked at made no other; None for no end."""
    others, made = [_moment(c) for c in history.changes.get(whose, ()) if c is not change], _moment(change)
    earlier, later = [at for at in others if at <= made], [at for at in others if at > made]
    return max(earlier, default=None), min(later, default=None)
