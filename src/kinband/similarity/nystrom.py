"""Landmarks: a few rows that stand for all contexts, and the functions they span.

With LLᵀ = k(Z, Z) of the landmarks Z, a context has the features L⁻¹ k(Z, x), whose inner products come as close to the
kernel as functions spanned by Z can (Nyström). What they leave of a context is the variance k(x, x) − |L⁻¹ k(Z, x)|².

Landmarks are drawn in rounds that double their number, each row with a probability in proportion to the variance that
the landmarks before leave of it, after Chen, Epperly, Tropp and Webber ("Randomly pivoted Cholesky", 2022), who draw
one at a time. That reaches rare contexts, which a uniform draw does not. Rows that other landmarks explain already are
dropped, so that k(Z, Z) needs no jitter.
"""

from dataclasses import dataclass, replace

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import Kernel
from kinband.similarity.gram import gram

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

    Example:
        >>> from kinband.kernels import Linear
        >>> X = np.arange(6.0)[:, None]
        >>> found = draw_landmarks(X, Linear(2.0), count=4, rng=np.random.default_rng(0))
        >>> len(found), found.complete  # one landmark spans all linear functions of one number
        (1, True)
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
    """Return about `count` landmarks among the rows of X (n, d), those of `after` among them.

    Example:
        >>> from kinband.kernels import RBF
        >>> X = np.append(np.zeros(50), 9.0)[:, None]  # fifty equal rows, and one far away
        >>> sorted(draw_landmarks(X, RBF(0.5), count=5, rng=np.random.default_rng(0)).Z.ravel().tolist())
        [0.0, 9.0]
    """
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
    """Return the variance that landmarks leave of each row of X (n, d): (n,).

    Example:
        >>> from kinband.kernels import RBF
        >>> X = np.array([[0.0], [9.0]])
        >>> found = draw_landmarks(X[:1], RBF(0.5, variance=2.0), count=1, rng=np.random.default_rng(0))
        >>> unexplained(X, RBF(0.5, variance=2.0), found).round(9).tolist()
        [0.0, 2.0]
    """
    left = kernel.diag(X).copy()
    between = gram(kernel, landmarks.Z, X)
    for start in range(0, len(X), 1024):
        rows = slice(start, start + 1024)
        F = between(slice(None), rows)
        forward(landmarks.L, F)
        left[rows] -= np.einsum("ri,ri->i", F, F)
    return np.clip(left, 0.0, None)


def forward(L: FloatArray, B: FloatArray) -> None:
    """Solve L F = B in place, L (R, R) lower triangular and B (R, k); matrix products, panel by panel.

    Example:
        >>> B = np.array([[2.0], [4.0]])
        >>> forward(np.array([[2.0, 0.0], [1.0, 3.0]]), B)
        >>> B.ravel().tolist()
        [1.0, 1.0]
    """
    for start in range(0, len(L), _PANEL):
        rows = slice(start, start + _PANEL)
        if start:
            B[rows] -= L[rows, :start] @ B[:start]
        B[rows] = np.linalg.inv(L[rows, rows]) @ B[rows]
