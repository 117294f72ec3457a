"""Similarity by how well one station's rows predict another's: the average R².

A kernel ridge regression learned from station m predicts the rewards of station m′ and the other way round; the mean
of the two coefficients of determination (21) is their similarity. It needs no distance between distributions and reads
like an everyday question: would that station's experience have served this one?

Choices where the paper is silent: an average below a negative threshold becomes 0, the rest stay as they are, negative
ones too unless `clip_negative`, none above 1. Such a matrix need not be a kernel, so it is moved to the
nearest correlation matrix, with a warning that says how far. Ridge regression has the noise variance as its λ
and shrinks to the log's mean, not to 0: rewards sit near 1.
"""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from kinband.arrays import FloatArray, finite_number, positive_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import Kernel
from kinband.likelihood import variances
from kinband.records import Samples
from kinband.similarity.base import (
    Log,
    by_station,
    fit_details,
    kernel_blocks,
    learn_kernel,
    with_rows,
)
from kinband.similarity.embedding import ProjectionWarning, nearest_correlation
from kinband.similarity.matrix import TaskMatrix

WORTH_A_WARNING = 1e-6
"""A projection that moves no entry further than this goes unmentioned."""


@dataclass(frozen=True)
class PredictionSimilarity:
    """Similarity from predicting each station's rewards with every other's, (21).

    Attributes:
        kernel: Context kernel of the regression; None learns one from the log, stations taken as independent.
        noise: Noise variance, the λ of (5); None learns it from the log. Variances that the log knows come on top.
        threshold: Averages of R² below this negative number become 0. A station that predicts another worse than its
            mean does has nothing to tell about it; far below zero, such pairs would count as opposites.
        clip_negative: Whether negative averages above the threshold become 0 too.
        seed: Seed of all random choices.

    Example:
        >>> from kinband.kernels import RBF
        >>> rng = np.random.default_rng(5)
        >>> x, tasks = rng.uniform(size=(60, 1)), np.arange(60) % 3
        >>> y = np.where(tasks < 2, np.sin(5 * x[:, 0]), -np.sin(5 * x[:, 0]))  # a and b are the same
        >>> log = Samples(("a", "b", "c"), tasks, x, y, None, ("load",))
        >>> alike = PredictionSimilarity(RBF(0.3), noise=0.05, clip_negative=True).fit(log)
        >>> alike.between("a", "b") > 0.9, alike.between("a", "c")
        (True, 0.0)
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    noise: float | None = None
    threshold: float = -0.1
    clip_negative: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.noise is not None:
            object.__setattr__(self, "noise", positive_number(self.noise, name="noise"))
        object.__setattr__(self, "threshold", finite_number(self.threshold, name="threshold"))
        if self.threshold >= 0:
            raise BadInputError(f"threshold must be below zero, got {self.threshold:g}")

    def fit(self, log: Log) -> TaskMatrix:
        """Measure how well the stations of a log predict each other."""
        samples = with_rows(log)
        learned = learn_kernel(samples, self.kernel, noise=self.noise, rng=np.random.default_rng(self.seed))
        R2 = r_squared_matrix(samples, learned.kernel, noise=learned.noise, mean=learned.mean)
        K_Z, moved = nearest_correlation(self._similarity(R2))
        if moved > WORTH_A_WARNING:
            warnings.warn(
                f"the average R² of {len(K_Z)} stations was no kernel: projecting it to the nearest correlation "
                f"matrix moved an entry by up to {moved:.3g}",
                ProjectionWarning,
                stacklevel=2,
            )
        details = {"threshold": self.threshold, "clip_negative": self.clip_negative, "moved": moved}
        return TaskMatrix(samples.stations, K_Z, "prediction", details | fit_details(samples, learned))

    def _similarity(self, average: FloatArray) -> FloatArray:
        least = 0.0 if self.clip_negative else self.threshold
        S = np.where(average < least, 0.0, np.minimum(average, 1.0))
        np.fill_diagonal(S, 1.0)
        return S


def r_squared_matrix(samples: Samples, kernel: Kernel, *, noise: float, mean: float = 0.0) -> FloatArray:
    """Return the R² (21) of every two stations predicting each other, averaged both ways, (M, M).

    The diagonal is 1. Where the rewards of one of the two never vary, R² has no meaning and the entry is −∞.

    Args:
        samples: A log with rows of every station.
        kernel: Context kernel of the ridge regression.
        noise: Noise variance λ of a row beyond what is known of its own.
        mean: What predictions shrink to far from data.

    Example:
        >>> from kinband.kernels import RBF
        >>> x = np.array([[0.0], [1.0], [0.0], [1.0]])
        >>> log = Samples(("a", "b"), np.array([0, 0, 1, 1]), x, np.array([0.0, 1.0, 0.0, 1.0]), None, ("load",))
        >>> r_squared_matrix(log, RBF(0.1), noise=1e-6).round(4).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    noise = positive_number(noise, name="noise")
    stations = by_station(samples)
    errors = _squared_errors(stations, kernel, alphas=[_alpha(s, kernel, noise, mean) for s in stations], mean=mean)
    varies = np.array([np.ptp(s.y) > 0 for s in stations])
    spread = np.array([len(s) * np.var(s.y) for s in stations])  # η_var · M_sp
    R2 = 1.0 - errors / np.where(varies, spread, 1.0)
    R2[:, ~varies] = -np.inf
    R2 = 0.5 * (R2 + R2.T)
    np.fill_diagonal(R2, 1.0)
    return np.asarray(R2)


def _alpha(station: Samples, kernel: Kernel, noise: float, mean: float) -> FloatArray:
    """Weights of one station's regression, (K_m + λI)⁻¹ (y − mean) as in (5), (n_m,)."""
    from scipy.linalg import cho_factor, cho_solve

    K = kernel(station.X, station.X) + np.diag(variances(station, noise))
    try:
        return np.asarray(cho_solve(cho_factor(K, lower=True), station.y - mean))
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(
            f"the regression of a station cannot be solved with noise {noise:g}: raise `noise`"
        ) from None


def _squared_errors(
    stations: Sequence[Samples], kernel: Kernel, *, alphas: Sequence[FloatArray], mean: float
) -> FloatArray:
    """η_ss of (21): entry (m, m′) is the squared error of station m's regression summed over the rows of m′."""
    errors = np.zeros((len(stations), len(stations)))
    residual = np.concatenate([s.y for s in stations]) - mean
    alpha = np.concatenate(alphas)
    for block in kernel_blocks([s.X for s in stations], kernel):
        m, others = block.station, block.others
        there = (residual[block.rows] - alphas[m] @ block.K) ** 2
        errors[m, others] = np.add.reduceat(there, block.starts)
        back = np.add.reduceat(block.K * alpha[block.rows], block.starts, axis=1)  # (n_m, others)
        errors[others, m] = np.sum((stations[m].y[:, None] - mean - back) ** 2, axis=0)
    return errors
