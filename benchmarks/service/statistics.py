"""What many measured times come to: the median, the slow end, and how many requests a second were answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from kinband.errors import BadInputError


def percentile(times: Sequence[float], share: float) -> float:
    """Return the smallest time that at least this share of all times does not exceed (the nearest rank).

    No value is made up between two that were measured: of fewer than a hundred times the 99th percentile is the
    longest.

    Example:
        >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.99)
        (2.0, 4.0)
    """
    if not times or not 0 < share <= 1:
        raise BadInputError(f"a percentile is of some times and a share above 0 and up to 1, got {share}")
    rank = ceil(share * len(times) - 1e-9)  # 0.07 of 100 is 7.000000000000001 in binary
    return sorted(times)[max(rank, 1) - 1]


@dataclass(frozen=True)
class Timings:
    """Requests of one kind.

    Attributes:
        times: Seconds that each took, in any order.
        elapsed: Seconds from the first to the last.

    Example:
        >>> timings = Timings((0.1, 0.2, 0.3), elapsed=0.4)
        >>> timings.p50, timings.p99, round(timings.each, 3)
        (0.2, 0.3, 0.133)
    """

    times: tuple[float, ...]
    elapsed: float

    @property
    def p50(self) -> float:
        """The median."""
        return percentile(self.times, 0.5)

    @property
    def p95(self) -> float:
        """What 95 of 100 requests do not exceed."""
        return percentile(self.times, 0.95)

    @property
    def p99(self) -> float:
        """What 99 of 100 requests do not exceed."""
        return percentile(self.times, 0.99)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.times) / self.elapsed

    @property
    def each(self) -> float:
        """Seconds a request, over all callers: the inverse of the rate."""
        return self.elapsed / len(self.times)

    def and_then(self, other: "Timings") -> "Timings":
        """Return these and those of another time together."""
        return Timings(self.times + other.times, self.elapsed + other.elapsed)
