"""From values to places: linear scales, round ticks for numbers and for times, long series made short.

Charts are as wide as their place in the page, so that places along x are shares of the width, from 0 to 1; along y they
are pixels.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MOST_POINTS = 300
"""How many points a series has at most when it is drawn: a phone has about that many pixels."""

_STEPS = (  # of a time axis, in seconds
    1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400,
    28 * 86400, 91 * 86400, 182 * 86400, 365 * 86400,
)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places.

    Attributes:
        low: The value at `start`.
        high: The value at `end`.
        start: Where the scale begins.
        end: Where it ends; smaller than `start` for a scale that grows upwards.

    Example:
        >>> up = Scale(0.0, 2.0, 100.0, 0.0)
        >>> up(0.5), up(2.0)
        (75.0, 0.0)
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        if self.high == self.low:
            return 0.5 * (self.start + self.end)
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def all(self, values: Iterable[float]) -> list[float]:
        """Return the places of many values.

        Example:
            >>> Scale(0.0, 2.0, 100.0, 0.0).all([0.5, 2.0])
            [75.0, 0.0]
        """
        if self.high == self.low:
            return [self(value) for value in values]
        slope = (self.end - self.start) / (self.high - self.low)
        return [self.start + slope * (value - self.low) for value in values]


def round_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, at most so many: steps of 1, 2 or 5 times a power of ten.

    Example:
        >>> round_ticks(0.13, 0.97)
        [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(first, last + 1)]


def around(values: Iterable[float | None], *, margin: float = 0.08, least: float = 1e-6) -> tuple[float, float]:
    """Return a range that holds all values with some room above and below; 0 to 1 where there are none.

    Example:
        >>> around([2.0, None, 4.0], margin=0.25), around([])
        ((1.5, 4.5), (0.0, 1.0))
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = margin * max(high - low, least, 0.02 * max(abs(low), abs(high)) if high == low else 0.0)
    return low - room, high + room


def time_ticks(first: datetime, last: datetime, *, most: int = 5) -> list[tuple[datetime, str]]:
    """Return round times from `first` to `last` with their labels, at most so many.

    Example:
        >>> day = datetime(2026, 3, 4, 22, 30, tzinfo=UTC)
        >>> [label for _, label in time_ticks(day, day + timedelta(hours=5), most=3)]
        ['00:00', '03:00']
        >>> [label for _, label in time_ticks(day, day + timedelta(days=5), most=3)]
        ['6 Mar', '8 Mar']
    """
    if not last > first:
        return [(first, first.strftime("%H:%M"))]
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    begins, ends = (first - zero).total_seconds(), (last - zero).total_seconds()
    step = next((s for s in _STEPS if ends // s - -(-begins // s) + 1 <= most), _STEPS[-1])
    ticks = [zero + timedelta(seconds=k * step) for k in range(int(-(-begins // step)), int(ends // step) + 1)]
    if step >= 365 * 86400:
        ticks = ticks[:: max(1, -(-len(ticks) // most))]
    return [(tick, _label(tick, step)) for tick in ticks]


def _label(tick: datetime, step: int) -> str:
    if step >= 91 * 86400:
        return f"{tick.strftime('%b')} {tick.year}"
    if step >= 86400:
        return f"{tick.day} {tick.strftime('%b')}"
    return tick.strftime("%H:%M:%S" if step < 60 else "%H:%M")


def thinned(
    times: Sequence[datetime], *series: Sequence[float | None], most: int = MOST_POINTS
) -> tuple[list[datetime], list[list[float | None]]]:
    """Return series with at most so many points: means of neighbours, where any of them is known.

    Example:
        >>> day = datetime(2026, 3, 4, tzinfo=UTC)
        >>> times = [day + timedelta(hours=h) for h in range(4)]
        >>> [hours.hour for hours in thinned(times, [1.0, 2.0, None, None], most=2)[0]]
        [0, 2]
        >>> thinned(times, [1.0, 2.0, None, None], most=2)[1]
        [[1.5, None]]
    """
    size = max(1, -(-len(times) // most))
    if size == 1:
        return list(times), [list(values) for values in series]
    starts = range(0, len(times), size)
    return [times[i] for i in starts], [[_mean(values[i : i + size]) for i in starts] for values in series]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
