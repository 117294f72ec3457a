"""The search for the kernel, task model, noise and mean that explain a log best.

L-BFGS-B from several starts, on parameters in their usual sizes; a parameter that ends at a bound is reported.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import Kernel, TaskModel
from kinband.likelihood.start import NOISE, spread_of
from kinband.likelihood.subset import choose_rows, station_groups
from kinband.likelihood.value import check_problem, row_blocks, unchecked_value_and_gradient
from kinband.records import Samples


class BoundWarning(UserWarning):
    """A fitted parameter ended at its bound: the log does not determine it within the bounds.

    Example:
        >>> issubclass(BoundWarning, UserWarning)
        True
    """


@dataclass(frozen=True)
class Fit:
    """What a maximisation of the marginal likelihood found.

    Attributes:
        kernel: The context kernel, fitted and bound to the features of the log.
        tasks: The task model, fitted.
        noise: Variance of a reward beyond what the log knows of it.
        mean: Prior mean of the rewards.
        log_likelihood: Log marginal likelihood of the rows used; with groups of stations, the sum over them.
        at_bound: Names of parameters that ended at a bound.
        starts: How many starts were tried.
        rows: How many rows of the log were used.
        converged: Whether the best start met the optimiser's tolerance.
        blocks: Into how many blocks of rows that hang together the likelihood fell.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> Fit(RBF(0.5), FixedTasks(np.eye(1)), 0.1, 0.9, -3.0, at_bound=("noise",)).at_bound
        ('noise',)
    """

    kernel: Kernel
    tasks: TaskModel
    noise: float
    mean: float
    log_likelihood: float
    at_bound: tuple[str, ...] = ()
    starts: int = 1
    rows: int = 0
    converged: bool = True
    blocks: int = 1


def fit(
    samples: Samples,
    kernel: Kernel,
    *,
    tasks: TaskModel,
    rng: np.random.Generator,
    noise: float | None = None,
    mean: float | None = None,
    fit_kernel: bool = True,
    fit_noise: bool = True,
    fit_mean: bool = True,
    starts: int = 3,
    max_rows: int | None = None,
    block_rows: int | None = None,
    pull: float | None = None,
    max_iterations: int = 200,
    quiet: bool = False,
) -> Fit:
    """Return the kernel, task model, noise and mean with the largest marginal likelihood found.

    Args:
        samples: The log, or the part of it that may be learned from.
        kernel: Where to start, and what is free and within which bounds; names of columns are looked up.
        tasks: Likewise for the similarities of stations.
        rng: Draws the further starts, and the rows if there are too many.
        noise: Variance of the noise to start from, a fifth of the variance of y if not given; bounded by 1e-6 and
            10 times that variance. Rows that carry a noise of their own get it on top.
        mean: Prior mean to start from, the mean of y if not given.
        fit_kernel: Whether to move the kernel's parameters.
        fit_noise: Whether to move the noise.
        fit_mean: Whether to move the mean.
        starts: How many starts to try: the given values first, then random ones around them.
        max_rows: Use at most this many rows, of as many stations as give 40 rows each, drawn at random.
        block_rows: Put stations into groups of at most this many rows, at random, and add up the groups' likelihoods as
            if groups shared nothing: much less work on long logs. Of one station at most four times as many rows are
            used. Not for task models with parameters of each station, whose scale groups would not have in common.
        pull: Prior of the kernel's and the task model's parameters and the noise: normal around the values given, with
            this standard deviation of a logarithm, or in units of a task model's parameters. It keeps short logs from
            extremes that a likelihood of few rows prefers by chance, such as no noise at all, or a knob that does not
            matter. None for none.
        max_iterations: Iterations of L-BFGS-B for each start.
        quiet: Whether to leave bounds to `Fit.at_bound`. A feature that does not matter sends its length-scale to the
            bound: an answer, where nobody chose the bound.

    Warns:
        BoundWarning: If a parameter ended at a bound.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> rng = np.random.default_rng(5)
        >>> X = rng.uniform(0, 10, size=(40, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
        >>> log = Samples(("a",), np.zeros(40, dtype=np.int64), X, y, None, ("load",))
        >>> best = fit(log, RBF(0.3), tasks=FixedTasks(np.eye(1)), rng=rng)
        >>> 1.0 < best.kernel.length_scale < 3.0, 0.003 < best.noise < 0.03
        (True, True)
    """
    if starts < 1:
        raise BadInputError(f"starts must be at least 1, got {starts}")
    if not fit_noise and noise is None:
        raise BadInputError("fit_noise=False needs the noise to keep: give noise=")
    samples, groups = _subset(samples, max_rows=max_rows, block_rows=block_rows, rng=rng)
    noise = NOISE * spread_of(samples.y) if noise is None else noise
    mean = float(np.mean(samples.y)) if mean is None and len(samples) else mean or 0.0
    kernel = check_problem(samples, kernel, tasks, noise, mean)
    free = (fit_kernel, fit_noise, fit_mean)
    problem = Problem(samples, kernel, tasks, noise, mean, free=free, groups=groups, pull=pull)
    runs = [_climb(problem, z, max_iterations) for z in problem.starts(starts, rng)]
    z, log_likelihood, converged = max(runs, key=lambda run: run[1])
    if not np.isfinite(log_likelihood):
        raise NotPositiveDefiniteError(
            f"no start of the fit gave a positive definite covariance of {len(samples)} rows: start from a larger noise"
        )
    at_bound = problem.at_bound(z)
    found = Fit(*problem.unpack(z), log_likelihood, at_bound, starts, len(samples), converged, len(problem.blocks))
    if at_bound and not quiet:
        more = f" and {len(at_bound) - 4} more" if len(at_bound) > 4 else ""
        warnings.warn(
            f"fit ended at a bound of {', '.join(at_bound[:4])}{more}: widen the bounds or fix the parameter, "
            "unless it is the length-scale of a column that does not matter",
            BoundWarning,
            stacklevel=2,
        )
    return found


def _subset(
    samples: Samples, *, max_rows: int | None, block_rows: int | None, rng: np.random.Generator
) -> tuple[Samples, IntArray | None]:
    """The rows to look at, and the group of each station if there are groups."""
    if max_rows is not None or block_rows is not None:
        most = None if block_rows is None else 4 * block_rows
        rows = choose_rows(samples.tasks, max(1, len(samples)) if max_rows is None else max_rows, rng=rng, most=most)
        samples = samples.take(rows)
    if block_rows is None or len(samples) <= block_rows:
        return samples, None
    return samples, station_groups(samples.tasks, block_rows=block_rows, stations=len(samples.stations), rng=rng)


class Problem:
    """The search of `fit` as a vector z: kernel theta, task theta, log noise if free, mean if free.

    Each entry is divided by its usual size, so that all are of order one; the mean is counted from the mean of y.
    """

    def __init__(
        self,
        samples: Samples,
        kernel: Kernel,
        tasks: TaskModel,
        noise: float,
        mean: float,
        *,
        free: tuple[bool, bool, bool],
        groups: IntArray | None = None,
        pull: float | None = None,
    ) -> None:
        self.blocks = row_blocks(samples.tasks, tasks, groups=groups)
        self.samples, self.kernel, self.tasks, self.noise, self.mean = samples, kernel, tasks, noise, mean
        self.spread, self.centre = spread_of(samples.y), float(np.mean(samples.y))
        self.cut = np.cumsum([len(kernel.theta), len(tasks.theta)])
        self.fit_kernel, fit_noise, fit_mean = free
        of_kernel, of_tasks = [self.fit_kernel] * len(kernel.theta), [True] * len(tasks.theta)
        self.free: BoolArray = np.array([*of_kernel, *of_tasks, fit_noise, fit_mean])
        self.units: FloatArray = np.concatenate([np.ones(len(kernel.theta)), tasks.units, [1.0, np.sqrt(self.spread)]])
        self.given = self._pack(kernel.theta, tasks.theta, np.log(noise))
        self.bounds = self._bounds()
        self._pull = np.full(len(self.free), 0.0 if pull is None else pull**-2)
        self._pull[-1] = 0.0  # the mean has no prior
        self._pull = self._pull[self.free]

    def _pack(self, theta: FloatArray, task_theta: FloatArray, log_noise: float) -> FloatArray:
        """All parameters, fixed ones included, in their units."""
        return np.concatenate([theta, task_theta, np.array([log_noise, self.mean - self.centre])]) / self.units

    def _bounds(self) -> FloatArray:
        """Limits of z, (p, 2): the mean may leave the range of y by that range, or by 3 standard deviations."""
        y = self.samples.y - self.centre
        reach = max(3.0 * np.sqrt(self.spread), float(np.ptp(y)))
        of_noise = np.log([1e-6 * self.spread, 10.0 * self.spread])
        both = np.array([of_noise, [float(y.min()) - reach, float(y.max()) + reach]], dtype=np.float64)
        bounds = np.concatenate([self.kernel.bounds, self.tasks.bounds, both])
        return (bounds / self.units[:, None])[self.free]

    def starts(self, count: int, rng: np.random.Generator) -> list[FloatArray]:
        """The given values, then draws: theta within a factor of 10, noise from 0.001 to 1 times var(y)."""
        points = [self.given]
        for _ in range(count - 1):
            near = self.kernel.theta + rng.uniform(-np.log(10), np.log(10), size=len(self.kernel.theta))
            log_noise = np.log(self.spread) + rng.uniform(np.log(1e-3), 0.0)
            points.append(self._pack(near, self.tasks.draw(rng).theta, log_noise))
        return [np.clip(point[self.free], *self.bounds.T) for point in points]

    def unpack(self, z: FloatArray) -> tuple[Kernel, TaskModel, float, float]:
        """The kernel, task model, noise and mean that z stands for; what is not free stays as it was given."""
        full = self.given.copy()
        full[self.free] = z
        theta, task_theta, rest = np.split(full * self.units, self.cut)
        noise = float(np.exp(rest[0])) if self.free[-2] else self.noise
        mean = self.centre + float(rest[1]) if self.free[-1] else self.mean
        kernel = self.kernel.with_theta(theta) if self.fit_kernel else self.kernel
        return kernel, self.tasks.with_theta(task_theta), noise, mean

    def value_and_gradient(self, z: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient to z; −inf and zeros where the covariance is not positive definite."""
        try:
            value, gradient = unchecked_value_and_gradient(self.samples, *self.unpack(z), blocks=self.blocks)
        except NotPositiveDefiniteError:
            return -np.inf, np.zeros_like(z)
        away = z - self.given[self.free]
        return value - 0.5 * float(self._pull @ away**2), (gradient * self.units)[self.free] - self._pull * away

    def at_bound(self, z: FloatArray) -> tuple[str, ...]:
        """Names of the entries of z that lie on a bound."""
        low, high = self.bounds.T
        near = np.minimum(z - low, high - z) <= 1e-6 * (high - low)
        names = np.array([*self.kernel.names, *self.tasks.names, "noise", "mean"])
        return tuple(names[self.free][near].tolist())


def _climb(problem: Problem, z: FloatArray, max_iterations: int) -> tuple[FloatArray, float, bool]:
    """Run L-BFGS-B from z: where it ended, the value there, and whether it converged."""
    from scipy.optimize import Bounds, minimize

    value, _ = problem.value_and_gradient(z)
    if not len(z) or not np.isfinite(value):
        return z, value, bool(np.isfinite(value))
    worst = -value

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        nonlocal worst
        value, gradient = problem.value_and_gradient(z)
        if not np.isfinite(value):
            # Worse than anything seen, but not so much that interpolation would shrink the step to nothing.
            return worst + 10.0 * len(problem.samples), gradient
        worst = max(worst, -value)
        return -value, -gradient

    bounds = Bounds(*problem.bounds.T)
    # With hundreds of parameters, a longer memory of the curvature reaches the same height in half the steps.
    memory = 50 if len(z) > 50 else 10
    found = minimize(
        objective,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iterations, "maxcor": memory},
    )
    return found.x, -float(found.fun), bool(found.success)
