"""The context kernel that an estimator works with: given by the user, or learned from the log.

Estimators measure stations with one kernel for all. When none is given, the default kernel is fitted by marginal
likelihood with independent stations: rows speak for the kernel, none for another station, so likeness is not assumed
before it is measured. Of a long log a part is looked at. A kernel that is given is used as it is; only noise and mean
are then learned.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import IntArray
from kinband.kernels import Constant, FixedTasks, Kernel, Linear, Product, Sum, as_kernel
from kinband.kernels.functions import Scaled
from kinband.likelihood import BLOCK_ROWS, MAX_ROWS, fit, starting_kernel
from kinband.records import Samples

STARTS = 3
"""Starts of the search for a kernel."""


@dataclass(frozen=True)
class Learned:
    """A context kernel with the noise variance and prior mean that belong to it.

    Example:
        >>> from kinband.kernels import RBF
        >>> Learned(RBF(0.7), 0.01, 0.9).noise
        0.01
    """

    kernel: Kernel
    noise: float
    mean: float


def learn_kernel(samples: Samples, kernel: Kernel | None, *, noise: float | None, rng: np.random.Generator) -> Learned:
    """Return kernel, noise variance and mean for a log: what was given as it is, the rest by likelihood.

    Example:
        >>> rng = np.random.default_rng(3)
        >>> x = rng.uniform(size=(40, 1))
        >>> log = Samples(("a", "b"), np.arange(40) % 2, x, np.sin(5 * x[:, 0]), None, ("load",))
        >>> learn_kernel(log, None, noise=None, rng=rng).kernel.names
        ('rbf.length_scale[load]', 'rbf.variance', 'constant.variance')
    """
    given = None if kernel is None else as_kernel(kernel).bind(samples.features)
    if given is not None and noise is not None:
        return Learned(given, noise, float(samples.y.mean()))
    found = fit(
        samples,
        starting_kernel(samples) if given is None else given,
        tasks=FixedTasks(np.eye(len(samples.stations))),
        noise=noise,
        fit_kernel=given is None,
        fit_noise=noise is None,
        starts=STARTS if given is None else 1,
        max_rows=MAX_ROWS,
        block_rows=BLOCK_ROWS,
        rng=rng,
        quiet=True,
    )
    return Learned(found.kernel, found.noise, found.mean)


def unit_rewards(samples: Samples) -> tuple[Samples, float, float]:
    """Return the log with rewards of mean 0 and variance 1, and the mean and scale they had.

    Limits and first guesses of a fit then suit any unit of the reward.

    Example:
        >>> log = Samples(("a",), np.array([0, 0]), np.zeros((2, 1)), np.array([10.0, 30.0]), None, ("load",))
        >>> unit, centre, scale = unit_rewards(log)
        >>> unit.y.tolist(), centre, scale
        ([-1.0, 1.0], 20.0, 10.0)
    """
    centre = float(samples.y.mean())
    scale = float(samples.y.std()) if np.ptp(samples.y) > 0 else 1.0
    noise = None if samples.noise is None else samples.noise / scale**2
    return replace(samples, y=(samples.y - centre) / scale, noise=noise), centre, scale


def with_variance(kernel: Kernel, factor: float, *, fixed: bool = False) -> Kernel:
    """Return the kernel with its variance multiplied by `factor`, or fixed at `factor`.

    Of a product the first factor carries the variance; the terms of a sum keep their ratio, where the first is fixed.
    Kernels without a variance of their own come back as they are.

    Example:
        >>> from kinband.kernels import RBF
        >>> with_variance(RBF(0.7, variance=2.0), 3.0), with_variance(RBF(0.7, variance=2.0), 1.0, fixed=True)
        (RBF(length_scale=0.7, variance=6.0), RBF(length_scale=0.7, fixed=('variance',)))
    """
    if isinstance(kernel, Sum):
        first = with_variance(kernel.left, factor, fixed=fixed)
        ratio = factor / _variance_of(kernel.left) if fixed else factor
        return Sum(first, with_variance(kernel.right, ratio))
    if isinstance(kernel, Product):
        right = with_variance(kernel.right, 1.0, fixed=True) if fixed else kernel.right
        return Product(with_variance(kernel.left, factor, fixed=fixed), right)
    if not isinstance(kernel, Scaled | Linear | Constant):
        return kernel
    variance = factor if fixed else kernel.variance * factor
    low, high = kernel.variance_bounds
    bounds = (low, high) if low < variance < high else (low * factor, high * factor)
    names = tuple(dict.fromkeys([*kernel.fixed, "variance"])) if fixed else kernel.fixed
    return replace(kernel, variance=variance, variance_bounds=bounds, fixed=names)


def _variance_of(kernel: Kernel) -> float:
    """The variance that `with_variance` multiplies; 1 for kernels without one."""
    while isinstance(kernel, Product | Sum):
        kernel = kernel.left
    return kernel.variance if isinstance(kernel, Scaled | Linear | Constant) else 1.0


def without_level(kernel: Kernel) -> Kernel:
    """Return the kernel without a constant that is added to it: what compares the shape of rewards, not their level.

    Example:
        >>> from kinband.kernels import RBF
        >>> without_level(RBF(0.7) + Constant(0.3))
        RBF(length_scale=0.7)
    """
    if isinstance(kernel, Product):
        return Product(without_level(kernel.left), without_level(kernel.right))
    return kernel.left if isinstance(kernel, Sum) and isinstance(kernel.right, Constant) else kernel


def thinned(samples: Samples, *, rows_per_station: int, rng: np.random.Generator) -> Samples:
    """Return at most so many rows of each station, chosen at random, in their old order.

    Example:
        >>> log = Samples(("a", "b"), np.array([0, 0, 0, 1]), np.zeros((4, 1)), np.arange(4.0), None, ("load",))
        >>> thinned(log, rows_per_station=2, rng=np.random.default_rng(0)).tasks.tolist()
        [0, 0, 1]
    """
    kept: list[IntArray] = []
    for m in range(len(samples.stations)):
        rows = np.flatnonzero(samples.tasks == m)
        kept.append(rows if len(rows) <= rows_per_station else rng.choice(rows, rows_per_station, replace=False))
    return samples.take(np.sort(np.concatenate(kept)))


def settings(samples: Samples, learned: Learned) -> dict[str, Any]:
    """Return what every estimator writes into its details: rows used, kernel, noise and mean.

    Example:
        >>> from kinband.kernels import RBF
        >>> log = Samples(("a",), np.array([0]), np.zeros((1, 1)), np.array([0.5]), None, ("load",))
        >>> settings(log, Learned(RBF(0.7), 0.01, 0.9))
        {'rows': 1, 'kernel': {'kind': 'rbf', 'length_scale': 0.7}, 'noise': 0.01, 'mean': 0.9}
    """
    try:
        kernel: Any = learned.kernel.to_dict()
    except (NotImplementedError, ValueError):  # a kernel of the user's own that cannot be stored
        kernel = repr(learned.kernel)
    return {"rows": len(samples), "kernel": kernel, "noise": learned.noise, "mean": learned.mean}
