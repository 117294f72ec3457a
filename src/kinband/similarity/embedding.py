"""The paper's similarity (18), and the nearest correlation matrix."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, finite_array, positive_number
from kinband.errors import BadInputError
from kinband.kernels import RBF, GaussianTasks, Kernel
from kinband.likelihood import BLOCK_ROWS, MAX_ROWS, Fit, fit, variances
from kinband.records import Samples
from kinband.similarity.base import (
    Log,
    by_station,
    embedding_products,
    fit_details,
    learn_kernel,
    squared_distances,
    sums_of_norms,
    with_rows,
    without_level,
)
from kinband.similarity.landmarks import landmark_products
from kinband.similarity.matrix import TaskMatrix

# --- The correlation matrix nearest to a symmetric one --------------------------------------------------------------
#
# Similarity measured pair by pair, such as the average R², need not be a kernel: some combination of stations may get
# a negative variance. `nearest_correlation` moves the entries as little as possible (in the Frobenius norm) until
# the matrix is positive semi-definite with ones on the diagonal, by the alternating projections of Higham (2002,
# "Computing the nearest correlation matrix, a problem from finance") with Dykstra's correction. Projections only
# tend to the answer, so a last step makes it exactly valid: negative eigenvalues are clipped, and the diagonal is
# scaled back to 1.


class ProjectionWarning(UserWarning):
    """A measured similarity was no kernel and had to be moved; the message says how far.

    Example:
        >>> issubclass(ProjectionWarning, UserWarning)
        True
    """


def nearest_correlation(
    A: ArrayLike, *, tolerance: float = 1e-9, max_iterations: int = 2000
) -> tuple[FloatArray, float]:
    """Return the correlation matrix nearest to A (M, M) and by how much the entry that moved most did.

    Args:
        A: Symmetric matrix, (M, M).
        tolerance: Stop when a round of projections changes no entry by more than this.
        max_iterations: Stop after so many rounds with a `ProjectionWarning`; the answer is then a correlation
            matrix close to A, though not quite the nearest.

    Example:
        >>> C, moved = nearest_correlation([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
        >>> C.round(4).tolist()
        [[1.0, 0.7607, 0.1573], [0.7607, 1.0, 0.7607], [0.1573, 0.7607, 1.0]]
        >>> round(moved, 4)
        0.2393
    """
    A = _symmetric(A)
    tolerance = positive_number(tolerance, name="tolerance")
    if _is_correlation(A):
        return A.copy(), 0.0
    Y, correction = A.copy(), np.zeros_like(A)
    for _ in range(max_iterations):
        before = Y
        R = Y - correction  # Dykstra: undo the last correction before projecting anew
        X = _clip_eigenvalues(R)
        correction = X - R
        Y = X.copy()
        np.fill_diagonal(Y, 1.0)
        if max(np.abs(Y - X).max(), np.abs(Y - before).max()) <= tolerance:
            break
    else:
        warnings.warn(
            f"nearest_correlation stopped after {max_iterations} rounds, short of the tolerance {tolerance:g}",
            ProjectionWarning,
            stacklevel=2,
        )
    C = _made_valid(Y)
    return C, float(np.abs(C - A).max())


def _symmetric(A: ArrayLike) -> FloatArray:
    matrix = finite_array(A, name="the matrix to project", ndim=2)
    if matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise BadInputError(f"the matrix to project must be square, got shape {matrix.shape}")
    gap = float(np.abs(matrix - matrix.T).max())
    if gap > 1e-8 * max(1.0, float(np.abs(matrix).max())):
        raise BadInputError(f"the matrix to project must be symmetric, but two mirrored entries differ by {gap:g}")
    return 0.5 * (matrix + matrix.T)


def _is_correlation(A: FloatArray) -> bool:
    return bool((np.diag(A) == 1.0).all() and np.linalg.eigvalsh(A)[0] >= -_rounding(A))


def _rounding(A: FloatArray) -> float:
    """How far below zero rounding alone may push the smallest eigenvalue of A."""
    return 1e-12 * len(A)


def _clip_eigenvalues(R: FloatArray) -> FloatArray:
    """Return the positive semi-definite matrix nearest to R in the Frobenius norm."""
    values, vectors = np.linalg.eigh(R)
    X = (vectors * np.clip(values, 0.0, None)) @ vectors.T
    return np.asarray(0.5 * (X + X.T))


def _made_valid(Y: FloatArray) -> FloatArray:
    """Clip what is left below zero, scale the diagonal back to 1: both keep the matrix semi-definite."""
    X = _clip_eigenvalues(Y)
    scale = np.sqrt(np.diag(X))
    C = X / np.multiply.outer(scale, scale)
    np.fill_diagonal(C, 1.0)
    return np.asarray(0.5 * (C + C.T))


# --- Similarity by conditional kernel embedding (CKE), the paper's own measure --------------------------------------
#
# A station's conditional distribution of the reward given the context is an operator between two function spaces,
# estimated from the station's rows (17). Two stations are as alike as a Gaussian of the distance of their operators
# says, k_Z = exp(−‖O_m − O_m′‖² / 2σ_Z²) (18). The distances (20) are computed exactly in `base`, or for large networks
# in `landmarks`.
#
# Choices where the paper is silent: λ as printed, not nλ. The outcome kernel is an RBF whose length-scale is the
# standard deviation of the rewards. σ_Z is the median distance between two stations, the median norm of an operator, or
# what makes the log most likely; the first always calls the median pair 0.607 alike, the last lets the log decide.

SigmaRule = Literal["median", "median_norm", "likelihood"]
EXACT_ENTRIES = 4_000_000_000
"""Kernel values between stations up to which "auto" compares exactly: some 90,000 rows, 160 stations of 539."""
ROUNDING = 1e-10
"""Squared distances below this share of the squared norms are rounding."""


@dataclass(frozen=True)
class Embedding:
    """Similarity from the distance of conditional kernel embeddings, (17)-(20).

    Attributes:
        kernel: Context kernel k; None learns one from the log, stations taken as independent, and leaves out its level.
        regularisation: λ of (17); None for the noise variance: the log's where it knows it, else learned.
        outcome_length_scale: Length-scale of the outcome kernel l; None for the rewards' standard deviation.
        sigma: σ_Z of (18): "median" (of the pairs' distances), "median_norm" (of the operators' norms), "likelihood"
            (of the log, beginning at the median), or a number.
        refit_kernel: With "likelihood", whether the kernel's parameters may move while σ_Z is chosen.
        landmarks: Rows that stand for all contexts, by which stations are compared in large networks: a number; None to
            compare exactly; "auto" to compare exactly up to 4 billion kernel values between stations (90,000 rows), and
            beyond with as many landmarks as similarities right to about 0.02 need. The details say how many there were
            and the largest error that was found.
        max_rows: With "likelihood", the most rows of the log that are used, chosen at random; stations then are looked
            at in groups of 250 rows.
        seed: Seed of all random choices.

    Example:
        >>> from kinband.kernels import RBF
        >>> rng = np.random.default_rng(5)
        >>> x, tasks = rng.uniform(size=(60, 1)), np.arange(60) % 3
        >>> y = np.where(tasks < 2, np.sin(5 * x[:, 0]), np.cos(5 * x[:, 0]))  # a and b are the same
        >>> log = Samples(("a", "b", "c"), tasks, x, y, None, ("load",))
        >>> alike = Embedding(RBF(0.3), regularisation=0.05).fit(log)
        >>> alike.between("a", "b") > alike.between("a", "c")
        True
    """

    kernel: Kernel | None = None
    _: KW_ONLY
    regularisation: float | None = None
    outcome_length_scale: float | None = None
    sigma: SigmaRule | float = "median"
    refit_kernel: bool = False
    landmarks: int | Literal["auto"] | None = "auto"
    max_rows: int | None = MAX_ROWS
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("regularisation", "outcome_length_scale"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive_number(getattr(self, name), name=name))
        if isinstance(self.sigma, str):
            if self.sigma not in ("median", "median_norm", "likelihood"):
                raise BadInputError(
                    f"sigma must be 'median', 'median_norm', 'likelihood' or a number, got {self.sigma!r}"
                )
        else:
            object.__setattr__(self, "sigma", positive_number(self.sigma, name="sigma"))
        whole = isinstance(self.landmarks, int | np.integer) and not isinstance(self.landmarks, bool)
        if self.landmarks not in (None, "auto") and not (whole and int(self.landmarks) >= 1):
            raise BadInputError(f"landmarks must be 'auto', None or a number of at least 1, got {self.landmarks!r}")

    def fit(self, log: Log) -> TaskMatrix:
        """Measure how alike the stations of a log are."""
        samples = with_rows(log)
        rng = np.random.default_rng(self.seed)
        noise = None if self.kernel is None else self.regularisation  # λ given with the kernel is its noise
        learned = learn_kernel(samples, self.kernel, noise=noise, rng=rng)
        if self.kernel is None:
            learned = replace(learned, kernel=without_level(learned.kernel))
        regularisation = self.regularisation or _typical_noise(samples, learned.noise)
        scale = self.outcome_length_scale or float(np.std(samples.y)) or 1.0  # equal rewards: any scale will do
        P, findings = self._products(samples, learned.kernel, regularisation=regularisation, outcome_scale=scale)
        D2 = squared_distances(P)
        sigma = self._sigma(samples, learned, P=P, D2=D2, rng=rng)
        K_Z, moved = _gaussian(D2, sigma)
        details = {
            "sigma": sigma,
            "sigma_rule": self.sigma if isinstance(self.sigma, str) else "given",
            "regularisation": regularisation,
            "outcome_length_scale": scale,
            "median_distance": _median_distance(D2),
            "median_norm": _median_norm(P),
            "moved": moved,
        } | findings
        return TaskMatrix(samples.stations, K_Z, "embedding", details | fit_details(samples, learned))

    def _products(
        self, samples: Samples, kernel: Kernel, *, regularisation: float, outcome_scale: float
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Inner products of the operators, (M, M), and what to report of how they were computed."""
        rows = [(station.X, station.y[:, None]) for station in by_station(samples)]
        entries = (len(samples) ** 2 - sum(len(y) ** 2 for _, y in rows)) // 2
        if self.landmarks is None or (self.landmarks == "auto" and entries <= EXACT_ENTRIES):
            l = RBF(outcome_scale)
            return embedding_products(rows, kernel, regularisation=regularisation, outcome_kernel=l), {"landmarks": 0}
        made = landmark_products(
            rows,
            kernel,
            regularisation=regularisation,
            outcome_kernel=RBF(outcome_scale),
            landmarks=None if self.landmarks == "auto" else int(self.landmarks),
            rng=np.random.default_rng([self.seed, 1]),
        )
        return made.P, {"landmarks": made.landmarks, "landmark_error": made.error, "landmark_pairs": made.pairs}

    def _sigma(
        self, samples: Samples, learned: Fit, *, P: FloatArray, D2: FloatArray, rng: np.random.Generator
    ) -> float | None:
        """σ_Z by the rule asked for; None when no two stations differ, so that every σ_Z says the same."""
        equal = np.less_equal(D2, ROUNDING * sums_of_norms(P))
        if equal.all():
            return None
        if isinstance(self.sigma, float):
            return self.sigma
        if self.sigma == "median_norm":
            return _median_norm(P)
        median = _median_distance(np.where(equal, 0.0, D2))
        if self.sigma == "median":
            return median
        return self._most_likely_sigma(samples, learned, D2=D2, start=median, rng=rng)

    def _most_likely_sigma(
        self, samples: Samples, learned: Fit, *, D2: FloatArray, start: float, rng: np.random.Generator
    ) -> float:
        found = fit(
            samples,
            learned.kernel,
            fit_kernel=self.refit_kernel,
            quiet=True,
            tasks=GaussianTasks(D2, start),
            noise=learned.noise,
            mean=learned.mean,
            starts=1,
            rng=rng,
            max_rows=self.max_rows,
            block_rows=BLOCK_ROWS,
        )
        return cast("GaussianTasks", found.tasks).sigma


def _typical_noise(samples: Samples, learned: float) -> float:
    """The mean noise variance of the rows: what was learned and what the log knows of each."""
    return float(variances(samples, learned).mean())


def _median_norm(P: FloatArray) -> float:
    return float(np.median(np.sqrt(np.diag(P))))


def _median_distance(D2: FloatArray) -> float:
    """The median distance over pairs of stations; over those that differ at all if most do not."""
    distances = np.sqrt(D2[np.triu_indices(len(D2), 1)])
    median = float(np.median(distances)) if len(distances) else 0.0
    return median if median > 0 or not distances.any() else float(np.median(distances[distances > 0]))


def _gaussian(D2: FloatArray, sigma: float | None) -> tuple[FloatArray, float]:
    """K_Z of (18), and how far an entry was moved to undo rounding: in exact arithmetic it needs no repair."""
    if sigma is None:
        return np.ones_like(D2), 0.0
    return nearest_correlation(np.exp(-D2 / (2.0 * sigma**2)))
