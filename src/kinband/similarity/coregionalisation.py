"""Similarity as a parameter of the model: the paper's hyper-parameter method, intrinsic coregionalisation.

The covariance of the stations is K_Z = BBᵀ + diag(v) (Bonilla et al. 2008): a few factors that stations have in
common, and something of each station's own. B, v, the kernel's parameters, the noise and the mean are chosen
together, to make the log most likely. Of all methods this one needs the most computing, and with few rows a station it
has many numbers to find. Similarity may be negative.

The variance of k_X is fixed at 1, as it cannot be told apart from the scale of K_Z. Rewards are brought to unit
variance for the fit, so that limits and first guesses suit any unit; what is reported is in the units of the log.

With hundreds of numbers to find, the likelihood is flat in many directions and no search comes to its end: several
first guesses are followed a short way, and the best of them further, as far as `iterations` say.
"""

from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from kinband.errors import BadInputError
from kinband.kernels import FactorTasks, Kernel, as_kernel
from kinband.likelihood import Fit, fit, spread_rows
from kinband.records import Samples
from kinband.similarity.base import (
    Log,
    fit_details,
    learn_kernel,
    unit_rewards,
    with_rows,
    with_variance,
)
from kinband.similarity.matrix import TaskMatrix
from kinband.similarity.newcomers import correlations

TRIAL = 30
"""Iterations for which each of several first guesses is followed."""


@dataclass(frozen=True)
class Coregionalisation:
    """Similarity K_Z = BBᵀ + diag(v) by marginal likelihood, together with the kernel and the noise.

    A controller multiplies K_Z by its own k_X. With `normalise`, the answer has ones on the diagonal like every
    other estimator's, and the kernel keeps the scale of the rewards. Without, the answer is the covariance itself, each
    station with its own scale: use it with a kernel of variance 1, such as the one in the details.

    Attributes:
        kernel: Context kernel to start from; its free parameters are trained too, its variance is set to 1. None for
            the default kernel, started from a fit with independent stations.
        rank: Number of common factors, columns of B.
        starts: Number of first guesses for B; each is followed for 30 iterations, the most likely then to the end.
        iterations: Iterations of the search in all; `converged` in the details says whether they were enough.
        joint: Whether kernel and noise are trained together with K_Z, as in the paper. Otherwise both stay as given, or
            as learned with independent stations, which is steadier when rows a station are few.
        normalise: Whether to return correlations, or covariances in squared units of the reward.
        max_rows: Rows used in all, at random and equally from all stations; None for the whole log. The time of a
            fit grows with their cube.
        seed: Seed of all random choices.

    Example:
        >>> from kinband.kernels import RBF
        >>> rng = np.random.default_rng(5)
        >>> x, tasks = rng.uniform(size=(40, 1)), np.arange(40) % 2
        >>> y = np.where(tasks == 0, 1, -2) * np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(40)
        >>> log = Samples(("a", "b"), tasks, x, y, None, ("load",))
        >>> Coregionalisation(RBF(0.3), rank=1, starts=1).fit(log).between("a", "b") < -0.9
        True
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    rank: int = 2
    starts: int = 3
    iterations: int = 100
    joint: bool = True
    normalise: bool = True
    max_rows: int | None = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rank", "starts", "iterations", "max_rows"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise BadInputError(f"{name} must be a whole number of at least 1, got {value!r}")

    def fit(self, log: Log) -> TaskMatrix:
        """Find the covariance of stations that makes the log most likely."""
        samples = with_rows(log)
        rng = np.random.default_rng(self.seed)
        M = len(samples.stations)
        unit, centre, scale = unit_rewards(samples)
        start = self._start(unit, rng)
        if self.max_rows is not None:
            unit = unit.take(spread_rows(unit.tasks, max(self.max_rows, M), rng=rng))
        found = self._best(unit, start, rng=rng)
        learned = replace(found, noise=found.noise * scale**2, mean=centre + scale * found.mean)
        K_Z = np.asarray(found.tasks.K_Z) * scale**2
        details = {
            "rank": min(self.rank, M),
            "starts": self.starts,
            "joint": self.joint,
            "normalised": self.normalise,
            "mean_variance": float(np.mean(np.diag(K_Z))),
            "log_likelihood": found.log_likelihood - len(unit) * float(np.log(scale)),
            "converged": found.converged,
            "at_bound": list(found.at_bound),
        }
        K_Z = correlations(K_Z) if self.normalise else K_Z
        return TaskMatrix(samples.stations, K_Z, "coregionalisation", details | fit_details(unit, learned))

    def _best(self, unit: Samples, start: Fit, *, rng: np.random.Generator) -> Fit:
        """The most likely of several fits to rewards of unit variance."""
        kernel, variance = with_variance(start.kernel, 1.0, fixed=True), _variance(start.kernel, unit)
        M, mean = len(unit.stations), float(unit.y.mean())
        guesses = [
            Fit(kernel, first_factors(M, self.rank, variance=variance, rng=rng), start.noise, mean, -np.inf)
            for _ in range(self.starts)
        ]
        short = min(TRIAL, self.iterations) if self.starts > 1 else self.iterations
        tried = [self._climbed(unit, guess, iterations=short, rng=rng) for guess in guesses]
        best = max(tried, key=lambda found: found.log_likelihood)
        if best.converged or short == self.iterations:
            return best
        return self._climbed(unit, best, iterations=self.iterations - short, rng=rng)

    def _climbed(self, unit: Samples, begin: Fit, *, iterations: int, rng: np.random.Generator) -> Fit:
        """A fit that begins where another ended."""
        return fit(
            unit,
            begin.kernel,
            fit_kernel=self.joint,
            quiet=True,
            tasks=begin.tasks,
            noise=begin.noise,
            mean=begin.mean,
            fit_noise=self.joint,
            starts=1,
            max_iterations=iterations,
            rng=rng,
        )

    def _start(self, unit: Samples, rng: np.random.Generator) -> Fit:
        """Kernel and noise to begin with, for rewards of unit variance."""
        if self.kernel is None:
            return learn_kernel(unit, None, noise=None, rng=rng)
        kernel = with_variance(as_kernel(self.kernel), 1.0, fixed=True)
        return learn_kernel(unit, kernel, noise=None, rng=rng)


def first_factors(stations: int, rank: int, *, variance: float, rng: np.random.Generator) -> FactorTasks:
    """Return a first guess: all stations load equally on one factor, and a little at random on every factor."""
    q = min(rank, stations)
    B = 0.3 * rng.standard_normal((stations, q))
    B[:, 0] += 1.0
    return FactorTasks(np.sqrt(0.5 * variance) * B, np.full(stations, 0.5 * variance))


def _variance(kernel: Kernel, samples: Samples) -> float:
    return float(kernel.diag(samples.X).mean())
