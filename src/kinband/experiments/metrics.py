"""What a comparison says: means with intervals over runs, ratios and savings over pairs on the same seed.

Intervals are by bootstrap over runs (Efron 1979); `kinband.stats` has the others.
"""

import numpy as np

from kinband.arrays import FloatArray
from kinband.stats import Estimate

_RESAMPLES = 4000


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

    The interval is by bootstrap over pairs, so that what a seed does to both cancels. Draws in which the baseline pays
    nothing say nothing, and are left out.

    Example:
        >>> round(saving_of(np.array([5.0, 6.0]), np.array([10.0, 10.0])).value, 3)
        0.45
    """
    picks = _picks(len(ours), seed)
    paid = baseline[picks].sum(axis=1)
    resampled = 1.0 - ours[picks].sum(axis=1)[paid > 0] / paid[paid > 0]
    return _estimate(float(1.0 - ours.sum() / baseline.sum()), resampled, runs=len(ours))


def ratio_of(ours: FloatArray, baseline: FloatArray, *, seed: int = 0) -> Estimate:
    """Return our regret as a multiple of the baseline's, from pairs of runs on the same seeds, (runs,) each.

    Example:
        >>> round(ratio_of(np.array([5.0, 6.0]), np.array([10.0, 10.0])).value, 3)
        0.55
    """
    saved = saving_of(ours, baseline, seed=seed)
    return Estimate(1.0 - saved.value, 1.0 - saved.high, 1.0 - saved.low)


def saving_gap_of(
    ours: FloatArray, baseline: FloatArray, *, other: FloatArray, other_baseline: FloatArray, seed: int = 0
) -> Estimate:
    """Return by how much one saving exceeds another, from four runs on each seed, (runs,) each.

    The two savings need not share their baseline; a seed is drawn with all four of its runs.

    Example:
        >>> four = (np.array(regrets) for regrets in ([5.0, 6.0], [10.0, 10.0], [8.0, 8.0], [10.0, 10.0]))
        >>> ours, baseline, other, other_baseline = four
        >>> round(saving_gap_of(ours, baseline, other=other, other_baseline=other_baseline).value, 3)
        0.25
    """
    picks = np.vstack([np.arange(len(ours)), _picks(len(ours), seed)])
    parts = [regrets[picks].sum(axis=1) for regrets in (ours, baseline, other, other_baseline)]
    gaps = parts[2] / parts[3] - parts[0] / parts[1]
    return _estimate(float(gaps[0]), gaps[1:], runs=len(ours))


def _picks(runs: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(runs, size=(_RESAMPLES, runs))


def _estimate(value: float, resampled: FloatArray, *, runs: int) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975]) if runs > 1 else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))
