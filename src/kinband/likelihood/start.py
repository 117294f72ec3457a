"""Where a search begins when nobody says: a kernel that suits the units of the log."""

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import LARGEST
from kinband.errors import BadInputError
from kinband.kernels import RBF, Categorical, Kernel
from kinband.records import Samples


def starting_kernel(samples: Samples) -> Kernel:
    """Return RBF with one length-scale per numeric column, times Categorical over the others, to be fitted.

    Typical rows begin e⁻¹ alike and rewards with their own variance; bounds are wide, whatever the units of X and y.

    Example:
        >>> X, y = np.array([[0.0, 0.0], [2000.0, 1.0]]), np.array([0.5, 0.7])
        >>> log = Samples(("a",), np.array([0, 0]), X, y, None, ("users", "vendor"), categorical=(1,))
        >>> starting_kernel(log).names
        ('rbf.length_scale[users]', 'rbf.variance', 'categorical.length_scale[vendor]')
    """
    variance = spread_of(samples.y)
    bounds = (1e-4 * variance, 1e4 * variance)
    codes = tuple(samples.categorical)
    numeric = tuple(c for c in range(samples.X.shape[1]) if c not in codes)
    if not numeric:
        alone = Categorical([1.0] * len(codes), variance=variance, variance_bounds=bounds, columns=codes)
        return alone.bind(samples.features)
    scale = samples.X[:, numeric].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0) * np.sqrt(len(numeric))
    rbf = RBF(
        scale,
        variance=variance,
        columns=numeric,
        length_scale_bounds=(1e-3 * scale.min(), 1e3 * scale.max()),
        variance_bounds=bounds,
    )
    if not codes:
        return rbf.bind(samples.features)
    return (rbf * Categorical([1.0] * len(codes), columns=codes, fixed=("variance",))).bind(samples.features)


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
