"""Ratios and gaps of regrets, from runs on the same seeds; `kinband.experiments.compare` has means and savings."""

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.experiments.compare import saving_of
from kinband.stats import Estimate

_RESAMPLES = 4000


def ratio_of(ours: FloatArray, baseline: FloatArray, *, seed: int = 0) -> Estimate:
    """Return our regret as a multiple of the baseline's, from pairs of runs on the same seeds, (runs,) each."""
    saved = saving_of(ours, baseline, seed=seed)
    return Estimate(1.0 - saved.value, 1.0 - saved.high, 1.0 - saved.low)


def saving_gap_of(ours: FloatArray, baseline: FloatArray, *, other: FloatArray, other_baseline: FloatArray) -> Estimate:
    """Return by how much one saving exceeds another, from four runs on each seed, (runs,) each.

    The two savings need not share their baseline; a seed is drawn with all four of its runs.
    """
    picks = picks_of(len(ours))
    parts = [regrets[picks].sum(axis=1) for regrets in (ours, baseline, other, other_baseline)]
    return bootstrapped(parts[2] / parts[3] - parts[0] / parts[1], runs=len(ours))


def picks_of(runs: int, rng: np.random.Generator | None = None) -> IntArray:
    """Return which runs are counted, all of them first, then in every draw of the bootstrap, (1 + draws, runs)."""
    rng = rng or np.random.default_rng(0)
    return np.vstack([np.arange(runs), rng.integers(runs, size=(_RESAMPLES, runs))])


def bootstrapped(values: FloatArray, *, runs: int) -> Estimate:
    """Return the first value with the interval of the others, (1 + draws,); none from a single run."""
    low, high = np.nanquantile(values[1:], [0.025, 0.975]) if runs > 1 else (np.nan, np.nan)
    return Estimate(float(values[0]), float(low), float(high))
