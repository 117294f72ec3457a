"""A number with its interval, and the few tests behind it: the one home of "95 %".

Everything that reports a number to a person (evaluations, audits, plans, comparisons) reports an `Estimate`. Means have
Student's interval, with clusters where numbers depend on each other (Liang and Zeger 1986); shares the exact binomial
one (Clopper and Pearson 1934). Many tests at once are held to a false discovery rate: of p-values by Benjamini and
Hochberg (1995), of likelihood ratios by Wang and Ramdas (2022). SciPy does the work, and is loaded when it is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor, inf, isfinite, isnan, log10, nan
from statistics import NormalDist

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray

LEVEL = 0.95
"""How sure an interval is."""
REACH = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)
"""How many standard deviations of a normal it reaches to either side, 1.96."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; the ends are nan where too little is known for one.

    Example:
        >>> f"{Estimate(0.5, 0.4, 0.62):.0%}", f"{Estimate(0.5):.2f}"
        ('50% (40% to 62%)', '0.50 (no interval)')
        >>> Estimate(0.8, 0.7, 0.9).side(0.5), Estimate(0.8, 0.7, 0.9).side(0.8), Estimate(0.8).side(1)
        (1, 0, 0)
    """

    value: float
    low: float = nan
    high: float = nan

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not isnan(self.low)

    def side(self, of: float) -> int:
        """Return 1 where all of the interval lies above a number, -1 where below, else 0."""
        return int(self.low > of) - int(self.high < of)

    def decimals(self, least: int) -> int:
        """Return how many decimals, at least so many, tell the end next to zero from it; the value without an interval.

        Example:
            >>> Estimate(0.003, 0.0004, 0.0056).decimals(2), Estimate(0.3, -0.1, 0.7).decimals(2)
            (4, 2)
        """
        ends = [self.low, self.high] if self.known else [self.value]
        sizes = [abs(end) for end in ends]
        size = min(sizes) if min(ends) * max(ends) > 0 else max(sizes)
        return max(least, min(-floor(log10(size)), 9)) if 0 < size < inf else least

    def to_dict(self) -> dict[str, float | None]:
        """Return the number and its ends in JSON's types, None where there is none."""
        parts = {"value": self.value, "low": self.low, "high": self.high}
        return {name: part if isfinite(part) else None for name, part in parts.items()}

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, -self.high, -self.low)

    def __format__(self, spec: str) -> str:
        if isnan(self.value):
            return "unknown"
        ends = f"{self.low:{spec}} to {self.high:{spec}}" if self.known else "no interval"
        return f"{self.value:{spec}} ({ends})"


# --- Numbers with intervals -----------------------------------------------------------------------------------------


def normal(value: float, std: float) -> Estimate:
    """Return a normal belief with its interval.

    Example:
        >>> f"{normal(0.9, 0.1):.3f}"
        '0.900 (0.704 to 1.096)'
    """
    return Estimate(value, value - REACH * std, value + REACH * std)


def student(value: float, variance: float, groups: int) -> Estimate:
    """Return a number whose variance was estimated from so many groups; fewer than two give no interval."""
    if groups < 2:
        return Estimate(value)
    reach = _student_reach(groups - 1) * variance**0.5
    return Estimate(value, value - reach, value + reach)


@lru_cache(maxsize=1024)  # SciPy checks its arguments for longer than it counts
def _student_reach(freedom: int) -> float:
    """Return how many standard deviations the interval of a number reaches, by the degrees of freedom."""
    from scipy.stats import t

    return float(t.ppf(0.5 + LEVEL / 2.0, freedom))


def share_of(hits: int, count: int) -> Estimate:
    """Return a share with its exact binomial interval.

    Example:
        >>> f"{share_of(8, 10):.3f}"
        '0.800 (0.444 to 0.975)'
    """
    from scipy.stats import binomtest

    if not count:
        return Estimate(nan)
    ends = binomtest(hits, count).proportion_ci(LEVEL)
    return Estimate(hits / count, float(ends.low), float(ends.high))


def mean_of(values: FloatArray, clusters: IntArray | None = None) -> Estimate:
    """Return the mean of values (n,) with Student's interval; those of one cluster (n,) may depend on each other.

    Example:
        >>> f"{mean_of(np.array([1.0, 2.0, 3.0])):.2f}"
        '2.00 (-0.48 to 4.48)'
        >>> f"{mean_of(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])):.2f}"
        '2.00 (-10.71 to 14.71)'
    """
    if not len(values):
        return Estimate(nan)
    mean = float(values.mean())
    return student(mean, *variance_of_mean(values - mean, clusters))


def variance_of_mean(rest: FloatArray, clusters: IntArray | None = None) -> tuple[float, int]:
    """Return the variance of a mean from what numbers differ from it by, rest (n,), and how many clusters there are.

    What belongs to one cluster (n,) is summed first, as it may hang together.
    """
    sums = rest if clusters is None else np.bincount(np.unique(clusters, return_inverse=True)[1], weights=rest)
    groups = len(sums)
    return (float(sums @ sums) * groups / (groups - 1) / len(rest) ** 2 if groups > 1 else nan), groups


def mean_square_of(z: FloatArray, clusters: IntArray | None = None) -> Estimate:
    """Return the mean of z² (n,) with Student's interval of its logarithm, which cannot reach below zero.

    Squares are skewed: an interval that reaches as far down as up would call too many spreads small and too few large.

    Example:
        >>> f"{mean_square_of(np.array([0.1, -1.5, 0.4])):.2f}"
        '0.81 (0.02 to 38.14)'
    """
    plain = mean_of(z**2, clusters)
    if not plain.known or plain.value == 0.0:
        return plain
    factor = float(np.exp(plain.high / plain.value - 1.0))
    return Estimate(plain.value, plain.value / factor, plain.value * factor)


# --- Many tests at once ---------------------------------------------------------------------------------------------


def discoveries(p: FloatArray, *, rate: float) -> BoolArray:
    """Return which of many tests (m,) are significant, so that on average at most `rate` of these are false.

    Example:
        >>> discoveries(np.array([0.001, 0.2, 0.02, 0.03]), rate=0.05)
        array([ True, False,  True,  True])
    """
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p) <= rate) if len(p) else np.zeros(0, dtype=np.bool_)


def discoveries_by_evidence(log_e: FloatArray, *, rate: float) -> BoolArray:
    """Return which of many log likelihood ratios (m,) are large enough, so that on average at most `rate` are false.

    The k largest, for the largest k whose k-th is at least m/(k·rate). A ratio of predictive densities is above 1/α
    with probability α at most if the model below the line is right, however long one watches (Ville 1939), and the rule
    holds however the tests depend on each other: it is the one of p-values for p = 1/ratio.

    Example:
        >>> discoveries_by_evidence(np.array([9.0, 0.2, -3.0, 4.0]), rate=0.05)
        array([ True, False, False,  True])
    """
    return discoveries(np.exp(np.minimum(-log_e, 0.0)), rate=rate)


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
        ('a, b and c', 'a', 'none')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "none"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number of things, in the singular where it is one.

    Example:
        >>> counted(1, "station"), counted(1200, "station"), counted(0, "reply", "replies")
        ('1 station', '1,200 stations', '0 replies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
