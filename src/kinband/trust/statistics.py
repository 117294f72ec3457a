"""The few tests and intervals of an audit: exact binomial intervals, false discovery rates, means of dependent numbers.

Sources: Clopper and Pearson (1934) for the interval of a share; Benjamini and Hochberg (1995) for many tests at once,
and Wang and Ramdas (2022) for the same with likelihood ratios.
"""

from dataclasses import dataclass
from math import floor, inf, log10
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray

LEVEL = 0.95
"""Of every interval of an audit."""


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval; the ends are None where too little is known for one.

    Example:
        >>> print(Interval(0.8, 0.7, 0.9)), print(Interval(0.8, None, None))
        0.8 (0.7 to 0.9)
        0.8
        (None, None)
    """

    value: float
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def side(self, of: float) -> int:
        """Return 1 where all of the interval lies above a number, -1 where below, 0 where not or without an interval.

        Example:
            >>> Interval(0.8, 0.7, 0.9).side(0.5), Interval(0.8, 0.7, 0.9).side(0.8), Interval(0.8, None, None).side(1)
            (1, 0, 0)
        """
        if self.low is None or self.high is None:
            return 0
        return int(self.low > of) - int(self.high < of)

    def decimals(self, least: int) -> int:
        """Return how many decimals, at least so many, tell the end next to zero from it; the value without an interval.

        Example:
            >>> Interval(0.003, 0.0004, 0.0056).decimals(2), Interval(0.3, -0.1, 0.7).decimals(2)
            (4, 2)
        """
        ends = [self.value] if self.low is None or self.high is None else [self.low, self.high]
        sizes = [abs(end) for end in ends]
        size = min(sizes) if min(ends) * max(ends) > 0 else max(sizes)
        return max(least, min(-floor(log10(size)), 9)) if 0 < size < inf else least

    def __format__(self, spec: str) -> str:
        if self.low is None or self.high is None:
            return format(self.value, spec)
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"

    def __str__(self) -> str:
        return format(self, "g")


def share_of(hits: int, count: int) -> Interval:
    """Return a share with its exact binomial interval (Clopper and Pearson 1934).

    Example:
        >>> print(f"{share_of(8, 10):.3f}")
        0.800 (0.444 to 0.975)
    """
    from scipy.special import betaincinv

    if not count:
        return Interval(float("nan"), None, None)
    tail = (1.0 - LEVEL) / 2.0
    low = float(betaincinv(hits, count - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1.0 - tail)) if hits < count else 1.0
    return Interval(hits / count, low, high)


def mean_of(values: FloatArray, clusters: IntArray | None = None) -> Interval:
    """Return the mean of values (n,) with Student's interval; those of one cluster (n,) may depend on each other.

    Example:
        >>> print(f"{mean_of(np.array([1.0, 2.0, 3.0])):.2f}")
        2.00 (-0.48 to 4.48)
        >>> print(f"{mean_of(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])):.2f}")
        2.00 (-10.71 to 14.71)
    """
    error, groups = _error(values, clusters)
    mean = float(np.mean(values)) if len(values) else float("nan")
    if error is None:
        return Interval(mean, None, None)
    from scipy.special import stdtrit

    reach = float(stdtrit(groups - 1, 0.5 + LEVEL / 2.0)) * error
    return Interval(mean, mean - reach, mean + reach)


def mean_square_of(z: FloatArray, clusters: IntArray | None = None) -> Interval:
    """Return the mean of z² (n,) with Student's interval of its logarithm, which cannot reach below zero.

    Squares are skewed: an interval that reaches as far down as up would call too many spreads small and too few large.

    Example:
        >>> print(f"{mean_square_of(np.array([0.1, -1.5, 0.4])):.2f}")
        0.81 (0.02 to 38.14)
    """
    plain = mean_of(z**2, clusters)
    if plain.high is None or plain.value == 0.0:
        return plain
    factor = float(np.exp(plain.high / plain.value - 1.0))
    return Interval(plain.value, plain.value / factor, plain.value * factor)


def p_of_spread(z: FloatArray) -> float:
    """Return the two-sided p-value of the test that z (n,) are standard normal, by the χ² of their squares.

    Example:
        >>> round(p_of_spread(np.array([0.1, -0.1, 0.1])), 4), p_of_spread(np.empty(0))
        (0.0027, 1.0)
    """
    from scipy.special import chdtr, chdtrc

    if not len(z):
        return 1.0
    total = float(z @ z)
    return float(min(1.0, 2.0 * min(chdtr(len(z), total), chdtrc(len(z), total))))


def p_of_bias(z: FloatArray) -> float:
    """Return the two-sided p-value of the test that independent standard normal z (n,) have mean 0.

    Example:
        >>> round(p_of_bias(np.full(4, 0.98)), 2)
        0.05
    """
    from scipy.special import ndtr

    return float(2.0 * ndtr(-abs(float(z.sum())) / np.sqrt(len(z)))) if len(z) else 1.0


def discoveries(p: FloatArray, *, rate: float) -> BoolArray:
    """Return which of many tests (m,) are significant, so that on average at most `rate` of these are false.

    The step-up rule of Benjamini and Hochberg (1995): the k smallest p-values, for the largest k with p₍ₖ₎ ≤ k·rate/m.

    Example:
        >>> discoveries(np.array([0.001, 0.2, 0.02, 0.03]), rate=0.05)
        array([ True, False,  True,  True])
    """
    order = np.argsort(p, kind="stable")
    below = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    found = np.zeros(len(p), dtype=np.bool_)
    if len(below):
        found[order[: below[-1] + 1]] = True
    return found


def discoveries_by_evidence(log_e: FloatArray, *, rate: float) -> BoolArray:
    """Return which of many log likelihood ratios (m,) are large enough, so that on average at most `rate` are false.

    Wang and Ramdas (2022): the k largest, for the largest k whose k-th is at least m/(k·rate). A ratio of predictive
    densities is above 1/α with probability α at most if the model below the line is right, however long one watches
    (Ville 1939), and the rule holds however the tests depend on each other.

    Example:
        >>> discoveries_by_evidence(np.array([9.0, 0.2, -3.0, 4.0]), rate=0.05)
        array([ True, False, False,  True])
    """
    m, order = len(log_e), np.argsort(-log_e, kind="stable")
    enough = np.flatnonzero(log_e[order] >= np.log(m / (rate * np.arange(1, m + 1))))
    found = np.zeros(m, dtype=np.bool_)
    if len(enough):
        found[order[: enough[-1] + 1]] = True
    return found


def _error(values: FloatArray, clusters: IntArray | None) -> tuple[float | None, int]:
    """The standard error of a mean and the number of clusters it rests on; None from fewer than two of them."""
    if len(values) < 2:
        return None, len(values)
    rest = values - values.mean()
    if clusters is not None:
        _, place = np.unique(clusters, return_inverse=True)
        rest = np.bincount(place, weights=rest)
    groups = len(rest)
    if groups < 2:
        return None, groups
    return float(np.sqrt(rest @ rest * groups / (groups - 1)) / len(values)), groups
