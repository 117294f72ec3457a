"""How much to share, found together with everything else: K_Z = s·1 + (1 − s)·(aR + (1 − a)I).

Rewards are a sum of what all stations have in common, what those alike share besides, and what is a station's own, each
with a level (partial pooling, the random effects of statistics). As one kernel: K̃ = K_Z ∘ (k + c), with the share s
that is common, kernel k, level c, noise and mean at the maximum of their likelihood times a prior
(`kinband.likelihood.fit`). Nothing is held back, and nothing is tried out.

R says who is alike in what is not common: the paper's embedding E (18), measured with the kernel that was found without
it, and centred, R ∝ HEH with H = I − 11ᵀ/M, so that pairs which are as alike as any two are unrelated in R and
those less alike are opposed. Uncentred, E calls the median pair 0.61 alike whatever the truth. Its weight a cannot be
left to the likelihood, since E was measured on the same rows: it is the reliability of R, as psychology reckons that of
a test. R is measured on two halves of every station's rows; where these agree with correlation r, a measurement on all
rows has reliability 2r/(1 + r) (Spearman 1910, Brown 1910). Rows that repeat a context stay in one half: where a
station ran two settings for months, halves that both know the two would agree on its habits, not on its similarity.
Likelihood alone shares too much where rows of one run or day hang together, so s stays below 0.95.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import Kernel, PartialPooling, check_task_matrix
from kinband.likelihood import BLOCK_ROWS, Fit, fit, starting_kernel
from kinband.records import Samples
from kinband.similarity.base import (
    Log,
    fit_details,
    samples_of,
    without_level,
)
from kinband.similarity.embedding import Embedding
from kinband.similarity.matrix import TaskMatrix

PULL = 1.0
"""Standard deviation of the logarithm of a parameter around what suits the units of a log: the prior of a fit."""

JOINT_ROWS = 2500
"""Rows that the search for kernel, noise and shares looks at, spread evenly over stations."""

MANY = 400
"""Stations above which nobody is compared with anybody: the distances of pairs grow with their square."""

_BEGIN = 0.5  # share that a search begins with
_SAID = 0.5  # weight, among what is not common, of a similarity that was given
_SPLITS = 3  # ways to halve the rows when the reliability of R is measured
_FEW = 2  # contexts below which nothing can be said of whom a station is like


@dataclass(frozen=True, eq=False)
class Joint:
    """Sharing by partial pooling: a part common to all, a part shared with those alike, a part of one's own.

    Attributes:
        alike: Who is like whom in what is not common, (M, M) in the order of the log's stations; None measures it by
            the paper's embedding.
        seed: Seed of all random choices.

    Example:
        >>> rng = np.random.default_rng(5)
        >>> x, tasks = rng.uniform(size=(90, 1)), np.arange(90) % 3
        >>> log = Samples(("a", "b", "c"), tasks, x, np.sin(5 * x[:, 0]) + 0.3 * rng.normal(size=90), None, ("load",))
        >>> Joint().fit(log).between("a", "b") > 0.6  # three stations with the same rewards
        True
    """

    alike: ArrayLike | TaskMatrix | None = None
    _: KW_ONLY
    seed: int = 0

    def fit(self, log: Log) -> TaskMatrix:
        """Find how much the stations of a log share, together with a kernel, noise and mean for it."""
        samples = samples_of(log)
        return self.fit_model(samples, starting_kernel(samples), rng=np.random.default_rng(self.seed))[1]

    def fit_model(
        self, samples: Samples, kernel: Kernel, *, rng: np.random.Generator, **how: Any
    ) -> tuple[Fit, TaskMatrix]:
        """Return what a log says of kernel, noise and mean, and the task matrix that belongs to them.

        Args:
            samples: The log in numbers.
            kernel: Where the kernel begins, and the centre of its prior.
            rng: Draws rows and groups of stations, where the log is long.
            how: Further arguments of `kinband.likelihood.fit`, such as `noise` and what may move.
        """
        options = {"starts": 1, "max_rows": JOINT_ROWS, "block_rows": BLOCK_ROWS, "pull": PULL, "quiet": True, **how}
        M = len(samples.stations)
        found = fit(samples, kernel, tasks=PartialPooling(np.eye(M), _BEGIN), rng=rng, **options)
        related, weight = self._related(samples, found)
        if weight:
            own = weight * related + (1.0 - weight) * np.eye(M)
            found = fit(samples, kernel, tasks=PartialPooling(own, _BEGIN), rng=rng, **options)
        return found, self._answer(samples, found, similar=weight)

    def _answer(self, samples: Samples, found: Fit, *, similar: float) -> TaskMatrix:
        tasks = found.tasks
        assert isinstance(tasks, PartialPooling)  # noqa: S101  # it was given as one
        rest = 1.0 - tasks.share
        shares = {"shared": tasks.share, "similar": similar * rest, "own": (1.0 - similar) * rest}
        details = shares | fit_details(samples, found)
        return TaskMatrix(samples.stations, tasks.K_Z, "joint", details)

    def _related(self, samples: Samples, found: Fit) -> tuple[FloatArray, float]:
        """R, (M, M), and its weight: 0 where nothing can be said of who is like whom."""
        M = len(samples.stations)
        if self.alike is not None:
            given = self.alike.matrix if isinstance(self.alike, TaskMatrix) else self.alike
            return centred(check_task_matrix(given, size=M)), _SAID
        known = _comparable(samples)
        R = np.eye(M)
        if not 3 <= len(known) <= MANY:
            return R, 0.0
        R[np.ix_(known, known)] = centred(self._embedding(samples, known, found))
        return R, self._reliability(samples, known, found)

    def _reliability(self, samples: Samples, known: IntArray, found: Fit) -> float:
        """How far R would come out the same from other rows of the same stations, from 0 to 1."""
        rng = np.random.default_rng(self.seed)
        pairs = np.triu_indices(len(known), 1)
        agreements = []
        for _ in range(_SPLITS):
            halves = _halves(samples, rng)
            one, other = (centred(self._embedding(samples.take(half), known, found))[pairs] for half in halves)
            spread = float(one.std() * other.std())
            agreements.append(float(np.mean((one - one.mean()) * (other - other.mean()))) / spread if spread else 0.0)
        r = max(0.0, float(np.mean(agreements)))
        return 2.0 * r / (1.0 + r)

    def _embedding(self, samples: Samples, known: IntArray, found: Fit) -> FloatArray:
        """The paper's similarity (18) of the stations `known`, (p, p)."""
        rows = samples.take(np.flatnonzero(np.isin(samples.tasks, known)))
        names = tuple(samples.stations[m] for m in known)
        part = Samples(names, np.searchsorted(known, rows.tasks), rows.X, rows.y, rows.noise, rows.features)
        kernel = without_level(found.kernel)
        return Embedding(kernel, regularisation=found.noise, seed=self.seed).fit(part).matrix


def _comparable(samples: Samples) -> IntArray:
    """The stations that can be compared with others: they met two contexts or more, and ran two settings if any did.

    Where everybody ran one setting, that stations differ and that settings differ explain the same rows.
    """
    M = len(samples.stations)
    enough = np.bincount(_contexts(samples)[0], minlength=M) >= _FEW
    if samples.arms is not None and np.ptp(samples.arms) > 0:
        pairs = np.unique(np.column_stack([samples.tasks, samples.arms]), axis=0)
        enough &= np.bincount(pairs[:, 0], minlength=M) >= _FEW
    return np.flatnonzero(enough)


def _halves(samples: Samples, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Every station's contexts in two halves at random, with their rows; of an odd number the second has one more.

    Where its rows carry several days, days are halved: halves with rows of one day would agree on what that day did.
    """
    owners, place_of = _contexts(samples)
    if samples.days is not None:
        days = np.bincount(_pieces(samples.tasks, samples.days)[0], minlength=len(samples.stations))
        by_day = days[samples.tasks] > 1
        owners, place_of = _pieces(samples.tasks, np.where(by_day, samples.days, samples.days.max() + 1 + place_of))
    order = rng.permutation(len(owners))
    order = order[np.argsort(owners[order], kind="stable")]
    counts = np.bincount(owners)
    place = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.zeros(len(owners), dtype=np.bool_)
    first[order[place < np.repeat(counts // 2, counts)]] = True
    return np.flatnonzero(first[place_of]), np.flatnonzero(~first[place_of])


def _contexts(samples: Samples) -> tuple[IntArray, IntArray]:
    """The station of every context that one met, (c,), in the order of the log, and the context of each row, (n,)."""
    return _pieces(samples.tasks, samples.X)


def _pieces(tasks: IntArray, of_rows: FloatArray | IntArray) -> tuple[IntArray, IntArray]:
    """The station of everything different that one has, (c,), in the order of the log, and which each row has, (n,)."""
    rows = np.column_stack([tasks, of_rows])
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return tasks[first[order]], rank[number.ravel()]


def centred(E: FloatArray) -> FloatArray:
    """Return a similarity E (M, M) relative to what all have in common: correlations that are zero on average.

    HEH with ones on the diagonal, and 1/M of a common part back, which centring took from every pair. Stations that do
    not differ from the average are unrelated to all.
    """
    M = len(E)
    H = np.eye(M) - 1.0 / M
    R = H @ E @ H
    scale = np.sqrt(np.maximum(np.diagonal(R), 0.0))
    apart = scale > 1e-6 * max(1.0, float(np.sqrt(np.diagonal(E).max())))
    R = np.where(np.outer(apart, apart), R / np.where(apart, scale, 1.0)[:, None] / np.where(apart, scale, 1.0), 0.0)
    R = (1.0 - 1.0 / M) * R + 1.0 / M
    np.fill_diagonal(R, 1.0)
    return R
