"""The context kernel that an estimator works with: given by the user, or learned from the log.

Estimators measure stations with one kernel for all. When none is given, the default kernel is fitted by marginal
likelihood with independent stations: every station's rows speak for the kernel, none for another station, so likeness
is not assumed before it is measured. A kernel that is given is used as it is; only noise and mean are then learned.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import FixedTasks, Kernel, Linear, Product, as_kernel, default_kernel
from kinband.kernels.scaled import Scaled
from kinband.likelihood import BoundWarning, Fit, fit
from kinband.records import Samples

ROWS_PER_STATION = 60
"""Rows of a station that a kernel is learned from, at most."""


@dataclass(frozen=True)
class Frozen:
    """A kernel with nothing free, for fits that must leave it alone.

    Example:
        >>> from kinband.kernels import RBF
        >>> Frozen(RBF(0.7)).names
        ()
    """

    inner: Kernel

    @property
    def theta(self) -> FloatArray:
        """Nothing is free: (0,)."""
        return np.empty(0)

    @property
    def names(self) -> tuple[str, ...]:
        """Nothing is free."""
        return ()

    @property
    def bounds(self) -> FloatArray:
        """Nothing is free: (0, 2)."""
        return np.empty((0, 2))

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        return self.inner(X, Y)

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return self.inner.diag(X)

    def with_theta(self, theta: FloatArray) -> Self:  # noqa: ARG002
        """Return the kernel itself."""
        return self

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Return K (n, n) and a pull-back to nothing."""
        return self.inner(X, X), lambda _: np.empty(0)

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions."""
        return type(self)(self.inner.bind(features))

    def to_dict(self) -> dict[str, Any]:
        """Return the inner kernel as JSON-able values."""
        return self.inner.to_dict()


@dataclass(frozen=True)
class Learned:
    """A context kernel with the noise variance and prior mean that belong to it.

    Example:
        >>> from kinband.kernels import RBF
        >>> Learned(RBF(0.7), 0.01, 0.9).frozen.names
        ()
    """

    kernel: Kernel
    noise: float
    mean: float

    @property
    def frozen(self) -> Kernel:
        """The kernel with nothing free."""
        return Frozen(self.kernel)


def learn_kernel(samples: Samples, kernel: Kernel | None, *, noise: float | None, rng: np.random.Generator) -> Learned:
    """Return kernel, noise variance and mean for a log: what was given as it is, the rest by likelihood.

    Example:
        >>> rng = np.random.default_rng(3)
        >>> x = rng.uniform(size=(40, 1))
        >>> log = Samples(("a", "b"), np.arange(40) % 2, x, np.sin(5 * x[:, 0]), None, ("load",))
        >>> learn_kernel(log, None, noise=None, rng=rng).kernel.names
        ('rbf.length_scale[load]', 'rbf.variance')
    """
    given = None if kernel is None else as_kernel(kernel).bind(samples.features)
    if given is not None and noise is not None:
        return Learned(given, noise, float(samples.y.mean()))
    rows = thinned(samples, rows_per_station=ROWS_PER_STATION, rng=rng)
    tasks = FixedTasks(np.eye(len(samples.stations)))
    if given is not None:
        found = quiet_fit(rows, Frozen(given), tasks=tasks, rng=rng, starts=1)
        return Learned(given, found.noise, found.mean)
    unit, centre, scale = unit_rewards(rows)
    known = None if noise is None else noise / scale**2
    start = default_kernel(samples.features, categorical=samples.categorical)
    found = quiet_fit(unit, start, tasks=tasks, noise=known, fit_noise=known is None, rng=rng)
    learned = with_variance(found.kernel, scale**2)
    return Learned(learned, found.noise * scale**2, centre + scale * found.mean)


def quiet_fit(samples: Samples, kernel: Kernel, **options: Any) -> Fit:
    """Return `likelihood.fit(...)` without its warning of bounds.

    A feature that does not matter sends its length-scale to the bound, and equal stations their variances: that is an
    answer here, not a fault.

    Example:
        >>> from kinband.kernels import RBF
        >>> log = Samples(("a",), np.array([0, 0]), np.zeros((2, 1)), np.array([0.5, 0.7]), None, ("load",))
        >>> found = quiet_fit(log, RBF(0.7), tasks=FixedTasks(np.eye(1)), rng=np.random.default_rng(0))
        >>> found.rows
        2
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        return fit(samples, kernel, **options)


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

    Of a product the first factor carries the variance. Kernels without a variance of their own come back as they are.

    Example:
        >>> from kinband.kernels import RBF
        >>> with_variance(RBF(0.7, variance=2.0), 3.0), with_variance(RBF(0.7, variance=2.0), 1.0, fixed=True)
        (RBF(length_scale=0.7, variance=6.0), RBF(length_scale=0.7, fixed=('variance',)))
    """
    if isinstance(kernel, Product):
        right = with_variance(kernel.right, 1.0, fixed=True) if fixed else kernel.right
        return Product(with_variance(kernel.left, factor, fixed=fixed), right)
    if not isinstance(kernel, Scaled | Linear):
        return kernel
    variance = factor if fixed else kernel.variance * factor
    low, high = kernel.variance_bounds
    bounds = (low, high) if low < variance < high else (low * factor, high * factor)
    names = tuple(dict.fromkeys([*kernel.fixed, "variance"])) if fixed else kernel.fixed
    return replace(kernel, variance=variance, variance_bounds=bounds, fixed=names)


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
