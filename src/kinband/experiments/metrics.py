"""What a comparison says: means and shares with intervals over runs, ratios and savings over pairs on the same seed.

Intervals of means, ratios and savings are by bootstrap over runs (Efron 1979), those of shares are exact (Clopper and
Pearson 1934).
"""

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


def binomial(happened: int, runs: int) -> Estimate:
    """Return a share of runs with its exact 95 % interval.

    Example:
        >>> f"{binomial(0, 50):.3f}"  # the upper end is 1 − 0.025^(1/50)
        '0.000 (0.000 to 0.071)'
    """
    from scipy.stats import beta

    low = float(beta.ppf(0.025, happened, runs - happened + 1)) if happened else 0.0
    high = float(beta.ppf(0.975, happened + 1, runs - happened)) if happened < runs else 1.0
    return Estimate(happened / runs, low, high)


def _picks(runs: int, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(runs, size=(_RESAMPLES, runs))


def _estimate(value: float, resampled: FloatArray, *, runs: int) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975]) if runs > 1 else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))
