"""Sums that screens show, kept up reward by reward: what was earned, and how much more than without all this.

What the fixed configuration would have earned nobody measured. What stands in for it is what was expected of it when
the slot began, so that gains are estimates; their intervals are of the scatter of rewards, not of the model's error.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum, nan, sqrt

from kinband.service.operations.records import Gain

_NORMAL = 1.959963984540054  # the two-sided 95 % point


@dataclass(slots=True)
class Sums:
    """How many, their sum, and the sum of their squares.

    Example:
        >>> sums = Sums()
        >>> for value in (1.0, 2.0, 6.0):
        ...     sums.add(value)
        >>> sums.add(6.0, -1)
        >>> sums.count, sums.total, sums.variance
        (2, 3.0, 0.5)
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    values: list[float] = field(default_factory=list)

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, or take one back that was counted: what was wrong by orders of magnitude leaves no trace."""
        if times > 0:
            self.values.append(value)
            self.count, self.total, self.squares = self.count + 1, self.total + value, self.squares + value * value
            return
        self.values.remove(value)
        self.count, self.total = len(self.values), fsum(self.values)
        self.squares = fsum(one * one for one in self.values)

    @property
    def mean(self) -> float:
        """The mean; nan of nothing."""
        return self.total / self.count if self.count else nan

    @property
    def variance(self) -> float:
        """The sample variance; 0 of fewer than two."""
        if self.count < 2:
            return 0.0
        return max(self.squares - self.total**2 / self.count, 0.0) / (self.count - 1)


@dataclass(slots=True)
class SlotSums:
    """What the stations of one slot earned, and what the fixed configurations were expected to."""

    reward: float = 0.0
    baseline: float = 0.0
    stations: int = 0
    expected: int = 0


class Tally:
    """Gains by station and sums by slot.

    Example:
        >>> from datetime import UTC
        >>> tally, noon = Tally(), datetime(2026, 11, 20, 12, tzinfo=UTC)
        >>> tally.add("a", noon, reward=0.9, baseline=0.8, gained=0.1)
        >>> tally.add("b", noon, reward=0.7, baseline=None, gained=None)
        >>> tally.gain().total.__round__(3), tally.gain().slots, [row[1:] for row in tally.series(10)]
        (0.1, 1, [(0.8, 0.8, 2)])
    """

    def __init__(self) -> None:
        self._gains: dict[str, Sums] = {}
        self._slots: dict[datetime, SlotSums] = {}

    def add(
        self,
        station: str,
        at: datetime,
        *,
        reward: float,
        baseline: float | None,
        gained: float | None,
        times: int = 1,
    ) -> None:
        """Count a reward, or with `times=-1` take it back.

        Args:
            station: Who earned it.
            at: When its slot began.
            reward: What it earned.
            baseline: What the fixed configuration was expected to earn.
            gained: How much more than that, by what is learned of the reward: neighbours' may be mixed into both.
            times: 1, or -1 to take back.
        """
        slot = self._slots.setdefault(at, SlotSums())
        slot.reward += times * reward
        slot.stations += times
        if gained is not None:
            self._gains.setdefault(station, Sums()).add(gained, times)
        if baseline is not None:
            slot.baseline += times * baseline
            slot.expected += times

    def gain(self, station: str | None = None) -> Gain:
        """Return what was gained by a station or by all.

        The interval of all is over stations, which are nearly independent, not over slots, which are not; that of one
        station is over its slots for want of better.
        """
        if station is not None:
            sums = self._gains.get(station, Sums())
            return _gain(sums.total, sums.count, sums.mean, sqrt(sums.variance / sums.count) if sums.count else nan)
        known = [sums for sums in self._gains.values() if sums.count]
        total, slots = sum(sums.total for sums in known), sum(sums.count for sums in known)
        mean = total / slots if slots else nan
        return _gain(total, slots, mean, _spread_of_ratio(known, mean))

    def series(self, last: int) -> list[tuple[datetime, float, float | None, int]]:
        """Return time, mean reward, mean expectation of the fixed configurations and stations of the last slots."""
        rows = [(at, slot) for at, slot in self._slots.items() if slot.stations > 0]
        rows = sorted(rows[-4 * last :], key=lambda row: row[0])[-last:]  # late rewards come out of turn
        return [
            (at, s.reward / s.stations, s.baseline / s.expected if s.expected else None, s.stations) for at, s in rows
        ]


def _gain(total: float, slots: int, mean: float, deviation: float) -> Gain:
    reach = _NORMAL * deviation
    return Gain(total, slots, mean, mean - reach, mean + reach)


def _spread_of_ratio(known: Iterable[Sums], mean: float) -> float:
    """Return the standard deviation of total/slots where stations are drawn (Cochran 1977, on ratio estimates)."""
    rows = list(known)
    n, slots = len(rows), sum(sums.count for sums in rows)
    if n < 2:
        return sqrt(rows[0].variance / slots) if rows else nan
    residuals = sum((sums.total - mean * sums.count) ** 2 for sums in rows)
    return sqrt(n / (n - 1) * residuals) / slots
