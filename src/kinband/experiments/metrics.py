"""What a comparison says: means with intervals over seeds, and savings over pairs of runs on the same seed."""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray

_RESAMPLES = 4000


@dataclass(frozen=True)
class Estimate:
    """A number with a 95 % interval, nan where one run gives none.

    Example:
        >>> f"{Estimate(0.5, 0.4, 0.62):.0%}"
        '50% (40% to 62%)'
    """

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        if np.isnan(self.low):
            return f"{self.value:{spec}} (one run, no interval)"
        return f"{self.value:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def mean_of(values: FloatArray, *, seed: int = 0) -> Estimate:
    """Return the mean of one number per run, (runs,), with a bootstrap interval over runs.

    Example:
        >>> mean_of(np.array([1.0, 1.0, 1.0]))
        Estimate(value=1.0, low=1.0, high=1.0)
    """
    means = values[_picks(len(values), seed)].mean(axis=1)
    return _estimate(float(values.mean()), means, runs=len(values))


def saving_of(ours: FloatArray, baseline: FloatArray, *, seed: int = 0) -> Estimate:
    """Return the share of the baseline's regret that is saved, from pairs of runs on the same seeds, (runs,) each.

    The interval is by bootstrap over pairs, so that what a seed does to both cancels.

    Example:
        >>> round(saving_of(np.array([5.0, 6.0]), np.array([10.0, 10.0])).value, 3)
        0.45
    """
    picks = _picks(len(ours), seed)
    resampled = 1.0 - ours[picks].sum(axis=1) / baseline[picks].sum(axis=1)
    return _estimate(float(1.0 - ours.sum() / baseline.sum()), resampled, runs=len(ours))


def _picks(runs: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(runs, size=(_RESAMPLES, runs))


def _estimate(value: float, resampled: FloatArray, *, runs: int) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975]) if runs > 1 else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))
