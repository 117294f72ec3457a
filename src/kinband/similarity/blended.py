"""How much to share, weighed by rows held back: K_Z = a·1 + b·E + (1 − a − b)·I.

Three ways of learning in one matrix: as one station (1, all ones), from those alike (E, the paper's embedding), and
alone (I). Between the first and the last lies partial pooling, the random effects of statistics: a common part and a
part of one's own. An embedding measured on a few rows a station is mostly noise; what all stations have in common is
known far better, and on the bundled city partial pooling foretells rows held back better than any weight of E does.

The weights are those whose predictions of rows held back are best, as in `tempered`: E is measured on one half of every
station's rows and judged on the other, each half serving once. Then the *least* sharing is taken that is within one
standard error of the best (the rule of Breiman et al. 1984 for trees), as likeness that cannot be shown should not be
assumed. a + b stays at 0.9 or below: own rewards must be able to overrule all others in the end.

`Blended.weigh` asks the same of a matrix in force: it is replaced only by one that is clearly better. It is asked in
the middle of operation, so that where rows are many it tries all weights on some of them, and the best few on all. Not
in the paper.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import Kernel, MultiTaskKernel
from kinband.likelihood.value import variances
from kinband.posterior.contract import log_density
from kinband.records import Samples
from kinband.similarity.embedding import Embedding, SigmaRule
from kinband.similarity.learned import Learned, learn_kernel, settings, thinned
from kinband.similarity.matrix import TaskMatrix
from kinband.similarity.rows import Log, with_rows
from kinband.similarity.tempered import halves

MOST = 0.9
"""The most that is shared, a + b."""

_COMMON = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
_ALIKE = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
WEIGHTS = tuple((a, b) for a in _COMMON for b in _ALIKE if a + b <= MOST + 1e-9)
"""The weights (a, b) of the common and of the alike part that are tried."""

_FEW = 2  # rows below which nothing can be said of whom a station is like
_MANY = 400  # stations above which only what all have in common is weighed: distances grow with their square
_LEAST = 4  # rows of a station that are looked at, if it has them
_CLEARLY = 2.0  # standard errors by which a matrix must beat the one in force
_ROUNDING = 1e-9  # log densities that differ by less do not differ
_STAGES = ((800, 6), (1600, 2))
"""Where rows are more than twice the first: on how many weights are tried, and how many then go on to more rows."""


@dataclass(frozen=True)
class Blended:
    """A task matrix between learning as one, from those alike and alone, weighed by rows held back.

    Attributes:
        kernel: Context kernel k; None learns one from the log, stations taken as independent.
        regularisation: λ of (17), the noise variance; None learns it too.
        mean: Prior mean; None for that of the log.
        sigma: σ_Z of (18), as in `Embedding`.
        max_rows: The most rows that are predicted from and predicted, spread evenly over stations; where there are very
            many stations, four rows of each of some.
        seed: Seed of all random choices.

    Example:
        >>> rng = np.random.default_rng(5)
        >>> x, tasks = rng.uniform(size=(90, 1)), np.arange(90) % 3
        >>> log = Samples(("a", "b", "c"), tasks, x, np.sin(5 * x[:, 0]) + 0.3 * rng.normal(size=90), None, ("load",))
        >>> Blended().fit(log).between("a", "b") > 0.4  # three stations with the same rewards
        True
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    regularisation: float | None = None
    mean: float | None = None
    sigma: SigmaRule | float = "median"
    max_rows: int = 3000
    seed: int = 0

    def fit(self, log: Log) -> TaskMatrix:
        """Measure how alike the stations of a log are, and how far to use it."""
        samples = with_rows(log)
        learned = self._learned(samples)
        scores = self._scores(samples, learned)
        a, b = (0.0, 0.0) if scores is None else WEIGHTS[least_sharing(scores)]
        details = {"common": a, "alike": b, **settings(samples, learned)}
        if scores is not None:
            chosen, alone = (float(scores[WEIGHTS.index(pair)].mean()) for pair in ((a, b), (0.0, 0.0)))
            details["log_predictive_density"] = {"chosen": chosen, "alone": alone}
        return TaskMatrix(samples.stations, self._matrix(samples, learned, a, b), "blended", details)

    def weigh(self, samples: Samples, present: FloatArray, *, unchosen: int | None = None) -> TaskMatrix | None:
        """Return a task matrix that is clearly better than the one in force, or None where none is.

        Rewards of configurations that a learner chose say little about sharing: they lie where a station knows most by
        itself. Where some rows were chosen by nobody, they alone are foretold, from half of them and all others.

        Args:
            samples: All rows known.
            present: The matrix in force, (M, M).
            unchosen: How many of the first rows were chosen by nobody; None for all.

        Example:
            >>> rng = np.random.default_rng(5)
            >>> x, tasks = rng.uniform(size=(90, 1)), np.arange(90) % 3
            >>> log = Samples(("a", "b", "c"), tasks, x, np.sin(5 * x[:, 0]) * (1 - tasks), None, ("load",))
            >>> Blended().weigh(log, np.ones((3, 3))).between("a", "c") < 0.1  # they want the opposite
            True
        """
        learned = self._learned(samples)
        weights = self._finalists(samples, learned, present, unchosen=unchosen)
        scores = self._scores(samples, learned, present, unchosen=unchosen, weights=weights)
        if scores is None:
            return None
        tried, now = scores[:-1], scores[-1]
        found = int(tried.mean(axis=1).argmax())
        gain = tried[found] - now
        if gain.mean() <= _CLEARLY * standard_error(gain) + _ROUNDING:  # the same matrix again is no better
            return None
        a, b = weights[found]
        return TaskMatrix(samples.stations, self._matrix(samples, learned, a, b), "blended", {"common": a, "alike": b})

    def _finalists(
        self, samples: Samples, learned: Learned, present: FloatArray, *, unchosen: int | None
    ) -> tuple[tuple[float, float], ...]:
        """Return the weights worth trying on all rows, in the order of `WEIGHTS`: all, where rows are few.

        Successive halving (Jamieson and Talwalkar 2016), with rows for rounds.
        """
        weights, most = WEIGHTS, min(len(samples), self.max_rows)
        if most <= 2 * _STAGES[0][0]:
            return weights
        for rows, kept in _STAGES:
            few = replace(self, max_rows=rows)
            scores = few._scores(samples, learned, present, unchosen=unchosen, weights=weights)
            if scores is None or rows >= most:
                break
            best = np.argsort(-scores[:-1].mean(axis=1), kind="stable")[:kept]
            weights = tuple(weights[i] for i in sorted(best.tolist()))
        return weights

    def _learned(self, samples: Samples) -> Learned:
        rng = np.random.default_rng(self.seed)
        found = learn_kernel(samples, self.kernel, noise=self.regularisation, rng=rng)
        return found if self.mean is None else Learned(found.kernel, found.noise, self.mean)

    def _scores(
        self,
        samples: Samples,
        learned: Learned,
        present: FloatArray | None = None,
        *,
        unchosen: int | None = None,
        weights: tuple[tuple[float, float], ...] = WEIGHTS,
    ) -> FloatArray | None:
        """Log densities of rows held back, (weights, n), that of the matrix in force last; None if nobody has two."""
        rows = self._looked_at(replace(samples, arms=np.arange(len(samples))))  # to be recognised after thinning
        numbers = np.arange(len(rows)) if rows.arms is None else rows.arms
        told = np.zeros(len(rows), dtype=np.bool_) if unchosen is None else numbers >= unchosen
        kept = np.flatnonzero(~told)
        first, second = (kept[half] for half in halves(rows.tasks[kept]))
        if not len(second) or len(samples.stations) < 2:
            return None
        always = np.flatnonzero(told)
        pairs = ((first, second), (second, first))
        turns = [(rows.take(np.sort(np.append(known, always))), rows.take(asked)) for known, asked in pairs]
        found = [self._turn(known, asked, learned, present, weights) for known, asked in turns]
        return np.concatenate(found, axis=1)

    def _looked_at(self, samples: Samples) -> Samples:
        rng, most = np.random.default_rng(self.seed), self.max_rows // len(samples.stations)
        rows = thinned(samples, rows_per_station=max(_LEAST, most), rng=rng)
        if most >= _LEAST or len(rows) <= self.max_rows:
            return rows
        some = rng.choice(np.unique(rows.tasks), max(2, self.max_rows // _LEAST), replace=False)
        return rows.take(np.flatnonzero(np.isin(rows.tasks, some)))

    def _turn(
        self,
        known: Samples,
        asked: Samples,
        learned: Learned,
        present: FloatArray | None,
        weights: tuple[tuple[float, float], ...],
    ) -> FloatArray:
        """Log densities of asked rows given the known ones under weights, (weights, n), as `_scores` has them."""
        E = self._alike(known, learned)
        telling = len(E) <= _MANY  # beyond, b makes no difference
        pairs = list(dict.fromkeys((a, b if telling else 0.0) for a, b in weights))
        tried = (blend(E, a, b) for a, b in pairs)
        found = foretold(known, asked, learned, tried if present is None else chain(tried, [present]))
        places = [pairs.index((a, b if telling else 0.0)) for a, b in weights]
        return found[places if present is None else [*places, -1]]

    def _matrix(self, samples: Samples, learned: Learned, a: float, b: float) -> FloatArray:
        return blend(self._alike(samples, learned) if b else np.eye(len(samples.stations)), a, b)

    def _alike(self, samples: Samples, learned: Learned) -> FloatArray:
        """Return the embedding's matrix, (M, M); stations with too few rows are like nobody."""
        M = len(samples.stations)
        E, counts = np.eye(M), np.bincount(samples.tasks, minlength=M)
        if M > _MANY:
            return E
        some = np.flatnonzero(counts >= _FEW)
        if len(some) < 2:
            return E
        rows = samples.take(np.flatnonzero(np.isin(samples.tasks, some)))
        names = tuple(samples.stations[m] for m in some)
        part = Samples(names, np.searchsorted(some, rows.tasks), rows.X, rows.y, rows.noise, rows.features)
        estimator = Embedding(learned.kernel, regularisation=learned.noise, sigma=self.sigma, seed=self.seed)
        E[np.ix_(some, some)] = estimator.fit(part).matrix
        return E


def blend(E: FloatArray, a: float, b: float) -> FloatArray:
    """Return a·1 + b·E + (1 − a − b)·I, (M, M).

    Example:
        >>> blend(np.array([[1.0, 0.5], [0.5, 1.0]]), 0.5, 0.2).round(2).tolist()
        [[1.0, 0.6], [0.6, 1.0]]
    """
    K_Z: FloatArray = a + b * E + (1.0 - a - b) * np.eye(len(E))
    return K_Z


def least_sharing(scores: FloatArray) -> int:
    """Return which weights share least among those within one standard error of the best.

    Args:
        scores: Log densities of rows held back, for each of `WEIGHTS`, (weights, n).
    """
    best = scores[int(scores.mean(axis=1).argmax())]
    behind = best - scores
    near = behind.mean(axis=1) <= [standard_error(one) + _ROUNDING for one in behind]
    return min(np.flatnonzero(near).tolist(), key=lambda i: (round(sum(WEIGHTS[i]), 9), behind[i].mean()))


def standard_error(values: FloatArray) -> float:
    """Return the standard error of the mean of values, (n,).

    Example:
        >>> round(standard_error(np.array([1.0, 2.0, 3.0, 4.0])), 4)
        0.6455
    """
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def foretold(known: Samples, asked: Samples, learned: Learned, matrices: Iterable[FloatArray]) -> FloatArray:
    """Return the log density of each asked reward given the known ones, under each task matrix, (matrices, n)."""
    alone = MultiTaskKernel(learned.kernel, np.ones((1, 1)))
    K, across = (_contexts(alone, known, other) for other in (known, asked))
    prior = alone.diag(np.zeros(len(asked), dtype=np.int64), asked.X)
    noise, scatter = variances(known, learned.noise), variances(asked, learned.noise)
    found = []
    for K_Z in matrices:
        V, w = _solved(
            K * K_Z[np.ix_(known.tasks, known.tasks)],
            noise,
            across * K_Z[np.ix_(known.tasks, asked.tasks)],
            known.y - learned.mean,
        )
        variance = prior * np.diagonal(K_Z)[asked.tasks] - np.einsum("ij,ij->j", V, V) + scatter
        deviation = np.sqrt(variance)
        found.append(log_density((asked.y - learned.mean - w @ V) / deviation, deviation))
    return np.array(found)


def _solved(K: FloatArray, noise: FloatArray, k: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """L⁻¹k (n, m) and L⁻¹r (n,) with L Lᵀ = K + diag(noise); K (n, n) is used up."""
    from scipy.linalg import cholesky, solve_triangular

    K[np.diag_indices_from(K)] += noise
    try:
        L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(
            f"the covariance of {len(r)} rows is not positive definite with noise {noise.min():g}: raise the noise"
        ) from None
    return solve_triangular(L, k, lower=True, check_finite=False), solve_triangular(
        L, r, lower=True, check_finite=False
    )


def _contexts(kernel: MultiTaskKernel, rows: Samples, columns: Samples) -> FloatArray:
    one, other = (np.zeros(len(s), dtype=np.int64) for s in (rows, columns))
    return kernel.cross(one, rows.X, other, columns.X)
