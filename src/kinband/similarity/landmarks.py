"""The embedding of many stations, through a common set of landmarks."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinband.arrays import FloatArray, IntArray, positive_number
from kinband.errors import BadInputError
from kinband.kernels import Kernel
from kinband.similarity import base as pieces
from kinband.similarity.base import (
    Rows,
    Weights,
    cross_products,
    gram,
    low_rank,
    low_rank_factor,
    mirrored,
    squared_distances,
    weights,
)

# --- Landmarks: a few rows that stand for all contexts, and the functions they span ---------------------------------
#
# With LLᵀ = k(Z, Z) of the landmarks Z, a context has the features L⁻¹ k(Z, x), whose inner products come as close to
# the kernel as functions spanned by Z can (Nyström). What they leave of a context is the variance k(x, x) − |L⁻¹ k(Z,
# x)|².
#
# Landmarks are drawn in rounds that double their number, each row with a probability in proportion to the variance
# that the landmarks before leave of it, after Chen, Epperly, Tropp and Webber ("Randomly pivoted Cholesky", 2022), who
# draw one at a time. That reaches rare contexts, which a uniform draw does not. Rows that other landmarks explain
# already are dropped, so that k(Z, Z) needs no jitter.

FIRST = 500
"""Landmarks of the first round."""

DEPENDENT = 1e-9
"""A landmark of which the others leave less than this share of the largest variance is dropped."""

ENOUGH = 0.9
"""Share of the landmarks asked for that will do, when others were dropped."""

CANDIDATES = 4
"""Rows looked at in a round, for each landmark that it adds."""

_PANEL = 128


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Rows that stand for all contexts.

    Attributes:
        rows: Their row numbers, (R,).
        Z: Their contexts, (R, d).
        L: Lower Cholesky factor of k(Z, Z), (R, R).
        complete: Whether nothing is left to explain, or no row is left to add.
    """

    rows: IntArray
    Z: FloatArray
    L: FloatArray
    complete: bool = False

    def __len__(self) -> int:
        return len(self.rows)


def draw_landmarks(
    X: FloatArray, kernel: Kernel, *, count: int, rng: np.random.Generator, after: Landmarks | None = None
) -> Landmarks:
    """Return about `count` landmarks among the rows of X (n, d), those of `after` among them."""
    found = after or Landmarks(np.empty(0, dtype=np.int64), X[:0], np.empty((0, 0)))
    while len(found) < ENOUGH * count and not found.complete:
        more = min(count - len(found), max(FIRST, len(found)))
        found = _round(found, X, kernel, more=more, rng=rng)
    return found


def _round(found: Landmarks, X: FloatArray, kernel: Kernel, *, more: int, rng: np.random.Generator) -> Landmarks:
    """Add `more` landmarks, but for those that turn out to depend on others."""
    others = rng.permutation(np.delete(np.arange(len(X)), found.rows))
    among = others[: CANDIDATES * more] if len(found) else others[:more]  # the first are drawn uniformly
    left = unexplained(X[among], kernel, found)
    left[left <= DEPENDENT * kernel.diag(X[among]).max()] = 0.0
    useful = int(np.count_nonzero(left))
    if not useful:
        return replace(found, complete=True)
    drawn = rng.choice(among, min(more, useful), replace=False, p=left / left.sum())
    return _extended(found, drawn, X, kernel, complete=len(drawn) == len(others))


def _extended(found: Landmarks, rows: IntArray, X: FloatArray, kernel: Kernel, *, complete: bool) -> Landmarks:
    """Landmarks with further rows, without those that the others explain: a block step of a pivoted Cholesky."""
    from scipy.linalg.lapack import dpstrf

    K, B = kernel(X[rows], X[rows]), gram(kernel, found.Z, X[rows])(slice(None), slice(None))
    tolerance = DEPENDENT * float(K.diagonal().max())
    forward(found.L, B)
    K -= B.T @ B
    factor, order, rank, _ = dpstrf(K.T, tol=tolerance, lower=1, overwrite_a=1)
    kept, before = order[:rank] - 1, len(found)
    L = np.zeros((before + rank, before + rank))
    L[:before, :before], L[before:, :before] = found.L, B[:, kept].T
    L[before:, before:] = np.tril(factor[:rank, :rank])
    return Landmarks(np.concatenate([found.rows, rows[kept]]), np.concatenate([found.Z, X[rows[kept]]]), L, complete)


def unexplained(X: FloatArray, kernel: Kernel, landmarks: Landmarks) -> FloatArray:
    """Return the variance that landmarks leave of each row of X (n, d): (n,)."""
    left = kernel.diag(X).copy()
    between = gram(kernel, landmarks.Z, X)
    for start in range(0, len(X), 1024):
        rows = slice(start, start + 1024)
        F = between(slice(None), rows)
        forward(landmarks.L, F)
        left[rows] -= np.einsum("ri,ri->i", F, F)
    return np.clip(left, 0.0, None)


def forward(L: FloatArray, B: FloatArray) -> None:
    """Solve L F = B in place, L (R, R) lower triangular and B (R, k); matrix products, panel by panel."""
    for start in range(0, len(L), _PANEL):
        rows = slice(start, start + _PANEL)
        if start:
            B[rows] -= L[rows, :start] @ B[:start]
        B[rows] = np.linalg.inv(L[rows, rows]) @ B[rows]


# --- Inner products of embeddings where comparing every row with every other takes too long: by shared landmarks ----
#
# Every operator is split into what it says of the functions that a few landmarks Z span, and the rest. The first
# part is S_m = L⁻¹ k(Z, X_m) C_m, LLᵀ = k(Z, Z), with the C_m of `base`; inner products are those of such vectors, and
# the work grows with the number of stations instead of its square. Of the rest, each station's own norm is known
# exactly, since its own kernel matrix is affordable; between two stations it is taken as orthogonal.
#
# Inner products are then those of real vectors, so distances stay distances and (18) a kernel. By Cauchy and Schwarz
# they are wrong by √(ρ_m ρ_m′) at most, ρ_m being the squared norm of the rest; the error is far smaller unless two
# stations hold nearly the same rows. It is measured: on a sample of stations, on the pairs that look most alike, and on
# those whose bound is largest. Unless their number is given, landmarks are added until the error is small.

TOLERANCE = 0.02
"""The error of a similarity that is aimed at; landmarks are added until the pairs checked show half of it at most."""

MOST = 8000
"""Landmarks at most, unless more are asked for."""

SAMPLE = 40
"""Stations whose similarity is computed exactly, for comparison; and as many pairs of either kind at risk."""

RANK_TOLERANCE = 1e-6
"""Share of the outcome kernel's variance that may be left out."""


class LandmarkWarning(UserWarning):
    """Landmarks did not bring the error of all similarities that were checked below what is aimed at."""


@dataclass(frozen=True, eq=False)
class Approximation:
    """Inner products of operators by way of landmarks, and how good they are.

    Attributes:
        P: ⟨O_m, O_m′⟩, (M, M), the diagonal exact.
        rest: ρ_m, the squared norm of what the landmarks leave of each operator, (M,).
        landmarks: How many there are.
        error: Largest error of a similarity (18), σ_Z at the median distance, among the pairs that were checked.
        pairs: How many pairs of stations were checked.
    """

    P: FloatArray
    rest: FloatArray
    landmarks: int
    error: float
    pairs: int

    def bound(self) -> FloatArray:
        """Return how far each inner product may be from the exact one, √(ρ_m ρ_m′), (M, M)."""
        bound = np.sqrt(np.multiply.outer(self.rest, self.rest))
        np.fill_diagonal(bound, 0.0)
        return np.asarray(bound)


def landmark_products(
    rows: Rows,
    kernel: Kernel,
    *,
    regularisation: float,
    outcome_kernel: Kernel,
    rng: np.random.Generator,
    landmarks: int | None = None,
) -> Approximation:
    """Return the inner products of all stations' operators by way of landmarks.

    Args:
        rows: Contexts (n_m, d) and outcomes (n_m, e) of each of M stations.
        kernel: Context kernel k.
        regularisation: λ.
        outcome_kernel: Outcome kernel l, of low rank on the outcomes.
        rng: Draws landmarks and the stations to check.
        landmarks: How many landmarks; None for as many as similarities right to about 0.02 need.

    Warns:
        LandmarkWarning: If as many as are allowed were not enough.
    """
    own = _weights(rows, kernel, regularisation=regularisation, outcome_kernel=outcome_kernel)
    contexts = [x for x, _ in rows]
    check = _Check(contexts, kernel, own, rng=rng)
    X, found, count = np.concatenate(contexts), None, landmarks or FIRST
    while True:
        found = draw_landmarks(X, kernel, count=count, rng=rng, after=found)
        last = landmarks is not None or found.complete or count >= MOST
        if last or check.of_sample(found) <= 0.5 * TOLERANCE:
            P, rest = projected(contexts, kernel, own, found)
            error, pairs = check.of_all(P, rest)
            if last or error <= 0.5 * TOLERANCE:
                break
        count = min(MOST, 2 * count)
    if landmarks is None and error > TOLERANCE:
        warnings.warn(
            f"with {len(found)} landmarks a similarity is still wrong by {error:.2g}: ask for more with landmarks=, or "
            "compare exactly with landmarks=None",
            LandmarkWarning,
            stacklevel=3,
        )
    return Approximation(P, rest, len(found), error, pairs)


def projected(
    contexts: Sequence[FloatArray], kernel: Kernel, own: Weights, landmarks: Landmarks
) -> tuple[FloatArray, FloatArray]:
    """Return inner products (M, M), exact on the diagonal, and what landmarks leave of the norms, (M,)."""
    R, r, M = len(landmarks), len(own.C), len(contexts)
    S = np.empty((R, r, M))
    between = gram(kernel, landmarks.Z, np.concatenate(contexts))
    for m in range(M):
        columns = own.rows(m)
        step = max(1, pieces.BLOCK_ENTRIES // len(contexts[m]))
        for start in range(0, R, step):
            part = slice(start, start + step)
            S[part, :, m] = between(part, columns) @ own.of(m).T
    forward(landmarks.L, S.reshape(R, r * M))
    P = np.zeros((M, M))
    for j in range(r):
        P += S[:, j].T @ S[:, j]
    rest = np.clip(own.norms - P.diagonal(), 0.0, None)
    np.fill_diagonal(P, own.norms)
    return mirrored(np.triu(P)), rest


def similarity_errors(P: FloatArray, exact: FloatArray, *, median: float) -> FloatArray:
    """Return the errors of exp(−D²/(2σ²)), σ² = `median`, that come with squared distances P for `exact`."""
    scale = -0.5 / median if median > 0 else 0.0
    return np.asarray(np.abs(np.exp(scale * P) - np.exp(scale * exact)))


class _Check:
    """Stations and pairs that are compared exactly, to see how good landmarks are."""

    def __init__(
        self, contexts: Sequence[FloatArray], kernel: Kernel, own: Weights, *, rng: np.random.Generator
    ) -> None:
        self.contexts, self.kernel, self.own = contexts, kernel, own
        self.stations: IntArray = np.sort(rng.permutation(len(contexts))[:SAMPLE])
        self.few, self.few_contexts = own.take(self.stations), [contexts[m] for m in self.stations]
        self.D2 = squared_distances(cross_products(self.few_contexts, kernel, self.few))

    def of_sample(self, landmarks: Landmarks) -> float:
        """Return the largest error of a similarity within the sample."""
        P, _ = projected(self.few_contexts, self.kernel, self.few, landmarks)
        return float(similarity_errors(squared_distances(P), self.D2, median=_median(self.D2)).max())

    def of_all(self, P: FloatArray, rest: FloatArray) -> tuple[float, int]:
        """Return the largest error among the sample and the pairs at risk, and the number of pairs."""
        D2 = squared_distances(P)
        first, second = _at_risk(P, D2, rest)
        exact = np.array([self._exact(int(m), int(other)) for m, other in zip(first, second, strict=True)])
        inside = np.triu_indices(len(self.stations), 1)
        found = np.concatenate([D2[np.ix_(self.stations, self.stations)][inside], D2[first, second]])
        errors = similarity_errors(found, np.concatenate([self.D2[inside], exact]), median=_median(D2))
        return float(errors.max(initial=0.0)), len(errors)

    def _exact(self, first: int, second: int) -> float:
        pair = cross_products(
            [self.contexts[first], self.contexts[second]], self.kernel, self.own.take([first, second])
        )
        return float(squared_distances(pair)[0, 1])


def _at_risk(P: FloatArray, D2: FloatArray, rest: FloatArray) -> tuple[IntArray, IntArray]:
    """The pairs that look most alike, and those whose similarity the bound leaves most open."""
    first, second = np.triu_indices(len(P), 1)
    apart, median = D2[first, second], _median(D2)
    alike = np.argsort(apart / (P[first, first] + P[second, second]), kind="stable")[:SAMPLE]
    open_ = np.sqrt(rest[first] * rest[second]) * np.exp(-0.5 * apart / median if median > 0 else 0.0 * apart)
    chosen = np.union1d(alike, np.argsort(-open_, kind="stable")[:SAMPLE])
    return first[chosen], second[chosen]


def _median(D2: FloatArray) -> float:
    apart = D2[np.triu_indices(len(D2), 1)]
    return float(np.median(apart)) if len(apart) else 0.0


def _weights(rows: Rows, kernel: Kernel, *, regularisation: float, outcome_kernel: Kernel) -> Weights:
    regularisation = positive_number(regularisation, name="regularisation")
    Y = np.concatenate([y for _, y in rows])
    G = low_rank_factor(outcome_kernel, Y, most=low_rank(rows), tolerance=RANK_TOLERANCE)
    if G is None:
        raise BadInputError(
            "landmarks need an outcome kernel of low rank, got one that tells too many rewards apart: "
            "raise `outcome_length_scale`, or compare stations exactly with landmarks=None"
        )
    return weights(rows, kernel, G, regularisation=regularisation)
