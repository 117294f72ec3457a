"""Where a search begins when nobody says: a kernel that suits the units of the log."""

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import LARGEST
from kinband.errors import BadInputError
from kinband.kernels import RBF, Categorical, Constant, Kernel, KernelBase
from kinband.records import Samples

LENGTH = 1.5
"""Length-scale to begin with, in standard deviations of a column times the root of the number of columns."""

LEVEL = 0.3
"""Variance of a station's level to begin with, as a share of that of the rewards."""


NOISE = 0.2
"""Noise to begin with, as a share of the variance of the rewards.

Parameters at their most likely values take noise for signal. Of 0.05, 0.1, 0.2 and 0.3 this one has the widest
predictive intervals at no cost in regret.
"""


def starting_kernel(samples: Samples) -> Kernel:
    """Return RBF with one length-scale per numeric column, times Categorical over the others, plus a level.

    It is where a fit begins and what its prior is centred on. Length-scales grow with the root of the number of columns
    (Hvarfner, Hellsten and Nardi 2024): rows that differ in many columns at once are then still a little alike, where
    few rows could not tell. Bounds are wide, whatever the units of X and y.

    Example:
        >>> X, y = np.array([[0.0, 0.0], [2000.0, 1.0]]), np.array([0.5, 0.7])
        >>> log = Samples(("a",), np.array([0, 0]), X, y, None, ("users", "vendor"), categorical=(1,))
        >>> starting_kernel(log).names
        ('rbf.length_scale[users]', 'rbf.variance', 'categorical.length_scale[vendor]', 'constant.variance')
    """
    variance, width = spread_of(samples.y), samples.X.shape[1]
    bounds = (1e-4 * variance, 1e4 * variance)
    level = Constant(LEVEL * variance, variance_bounds=bounds)
    codes = tuple(samples.categorical)
    numeric = tuple(c for c in range(width) if c not in codes)
    unlike = [0.5 * LENGTH * np.sqrt(width)] * len(codes)  # as two codes, 0 and 1, of a numeric column would be
    if not numeric:
        shape: KernelBase = Categorical(unlike, variance=variance, variance_bounds=bounds, columns=codes)
        return (shape + level).bind(samples.features)
    scale = samples.X[:, numeric].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0) * LENGTH * np.sqrt(width)
    rbf = RBF(
        scale,
        variance=variance,
        columns=numeric,
        length_scale_bounds=(1e-3 * scale.min(), 1e3 * scale.max()),
        variance_bounds=bounds,
    )
    shape = rbf * Categorical(unlike, columns=codes, fixed=("variance",)) if codes else rbf
    return (shape + level).bind(samples.features)


def spread_of(y: FloatArray) -> float:
    """Return the variance of y (n,), or where all are equal, something small that still is a variance.

    Rewards whose squares overflow have none: they are refused.

    Example:
        >>> spread_of(np.array([1.0, 3.0])), spread_of(np.array([2.0, 2.0])) > 0
        (1.0, True)
        >>> spread_of(np.array([1.0, 1.7e308]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the reward is 1.7e+308 in row 2 of those learned from, counted from 1, ...
    """
    refuse_large(y, where=" of those learned from")
    variance = float(np.var(y)) if len(y) else 0.0
    scale = 1.0 + float(np.abs(y).max(initial=0.0)) ** 2
    return max(variance, 1e-8 * scale)


def refuse_large(y: FloatArray, *, where: str = "") -> None:
    """Refuse rewards y (n,) whose squares would overflow, naming the first of them; `where` says what rows they are.

    Example:
        >>> refuse_large(np.array([0.5, -1e200]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the reward is -1e+200 in row 2, counted from 1, which is too large to ...
    """
    large = np.flatnonzero(np.abs(y) > LARGEST)
    if len(large):
        raise BadInputError(
            f"the reward is {y[large[0]]:g} in row {large[0] + 1}{where}, counted from 1, which is too large to reckon "
            "with: leave out rows whose reward stands for a missing one, or give rewards in a larger unit"
        )
