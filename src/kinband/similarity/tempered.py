"""Likeness that is believed only as far as it helps to predict: K_Z = (1 − w) E + w I.

An embedding measured on a few rows a station calls stations alike whose rewards agree by chance. The same rows then
look more likely together than they are, so that marginal likelihood asks for even more sharing; on a city of 105
stations with 20 rows each it did, and predicted later rows worse. So likeness and its use are kept apart here: the
embedding E (18) is measured on one half of every station's rows, and the weight w of a station's own evidence is
the one whose predictions of the other half are best, each half serving once. Then E is measured on all rows and
used with that w. Where sharing does not help to predict, w = 1 wins and every station learns alone. Not in the
paper.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel, MultiTaskKernel
from kinband.likelihood.value import variances
from kinband.records import Samples
from kinband.similarity.embedding import Embedding, SigmaRule
from kinband.similarity.learned import Learned, learn_kernel, settings, thinned
from kinband.similarity.matrix import TaskMatrix
from kinband.similarity.rows import Log, with_rows

OWN_SHARES = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
"""The weights of own evidence that are tried."""


@dataclass(frozen=True)
class Tempered:
    """The paper's embedding, mixed with learning alone as rows held back advise.

    Attributes:
        kernel: Context kernel k; None learns one from the log, stations taken as independent.
        regularisation: λ of (17); None for the noise variance.
        sigma: σ_Z of (18), as in `Embedding`.
        max_rows: The most rows that are predicted from and predicted, spread evenly over stations.
        seed: Seed of all random choices.

    Example:
        >>> rng = np.random.default_rng(5)
        >>> x, tasks = rng.uniform(size=(90, 1)), np.arange(90) % 3
        >>> log = Samples(("a", "b", "c"), tasks, x, np.sin(5 * x[:, 0]) + 0.3 * rng.normal(size=90), None, ("load",))
        >>> alike = Tempered().fit(log)
        >>> alike.between("a", "b") > 0.4  # three stations with the same rewards
        True
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    regularisation: float | None = None
    sigma: SigmaRule | float = "median"
    max_rows: int = 3000
    seed: int = 0

    def fit(self, log: Log) -> TaskMatrix:
        """Measure how alike the stations of a log are, and how far to believe it."""
        samples = with_rows(log)
        rng = np.random.default_rng(self.seed)
        learned = learn_kernel(samples, self.kernel, noise=self.regularisation, rng=rng)
        embedding = Embedding(
            learned.kernel, regularisation=self.regularisation or learned.noise, sigma=self.sigma, seed=self.seed
        )
        alike = embedding.fit(samples)
        scores = self._scores(samples, learned, embedding, rng=rng)
        own = OWN_SHARES[int(np.argmax(scores))] if scores is not None else 1.0
        details = {**alike.details, "own_share": own, **settings(samples, learned)}
        if scores is not None:
            details["log_predictive_density"] = dict(zip(map(str, OWN_SHARES), map(float, scores), strict=True))
        return TaskMatrix(alike.stations, mixed(alike.matrix, own), "tempered", details)

    def _scores(
        self, samples: Samples, learned: Learned, embedding: Embedding, *, rng: np.random.Generator
    ) -> FloatArray | None:
        """Mean log predictive density of rows held back, for each own share; None where a station has only one row."""
        rows = thinned(samples, rows_per_station=max(4, self.max_rows // len(samples.stations)), rng=rng)
        first, second = (rows.take(half) for half in halves(rows.tasks))
        if len(np.unique(second.tasks)) < len(samples.stations):
            return None
        scores = np.zeros(len(OWN_SHARES))
        for known, asked in ((first, second), (second, first)):
            E = embedding.fit(known).matrix
            scores += [predictive_density(known, asked, learned, mixed(E, own)) for own in OWN_SHARES]
        return scores / 2.0


def mixed(E: FloatArray, own: float) -> FloatArray:
    """Return (1 − own) E + own I, (M, M).

    Example:
        >>> mixed(np.array([[1.0, 0.8], [0.8, 1.0]]), 0.5).tolist()
        [[1.0, 0.4], [0.4, 1.0]]
    """
    if not 0.0 <= own <= 1.0:
        raise BadInputError(f"own must lie between 0 and 1, got {own!r}")
    K_Z: FloatArray = (1.0 - own) * E + own * np.diag(np.diag(E))
    return K_Z


def halves(tasks: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of the first and of the second half of every task's rows, in order; the first gets the odd one.

    Example:
        >>> [rows.tolist() for rows in halves(np.array([0, 0, 1, 0, 1]))]
        [[0, 1, 2], [3, 4]]
    """
    early = np.zeros(len(tasks), dtype=np.bool_)
    for task in np.unique(tasks):
        rows = np.flatnonzero(tasks == task)
        early[rows[: (len(rows) + 1) // 2]] = True
    return np.flatnonzero(early), np.flatnonzero(~early)


def predictive_density(first: Samples, second: Samples, learned: Learned, K_Z: FloatArray) -> float:
    """Return the mean log density of the second log's rewards, each by itself, given the first log."""
    from scipy.linalg import cholesky, solve_triangular

    kernel = MultiTaskKernel(learned.kernel, K_Z)
    K = kernel.cross(first.tasks, first.X, first.tasks, first.X)
    K[np.diag_indices_from(K)] += variances(first, learned.noise)
    L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    V = solve_triangular(L, kernel.cross(first.tasks, first.X, second.tasks, second.X), lower=True, check_finite=False)
    w = solve_triangular(L, first.y - learned.mean, lower=True, check_finite=False)
    variance = kernel.diag(second.tasks, second.X) - np.einsum("ij,ij->j", V, V) + variances(second, learned.noise)
    error = second.y - learned.mean - w @ V
    return float(-0.5 * np.mean(np.log(2.0 * np.pi * variance) + error**2 / variance))
