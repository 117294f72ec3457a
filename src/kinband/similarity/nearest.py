"""The correlation matrix nearest to a symmetric one.

Likeness measured pair by pair, such as the average R², need not be a kernel: some combination of stations may get
a negative variance. `nearest_correlation` moves the entries as little as possible (in the Frobenius norm) until
the matrix is positive semi-definite with ones on the diagonal, by the alternating projections of Higham (2002,
"Computing the nearest correlation matrix, a problem from finance") with Dykstra's correction. Projections only
tend to the answer, so a last step makes it exactly valid: negative eigenvalues are clipped, and the diagonal is
scaled back to 1.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, finite_array, positive_number
from kinband.errors import BadInputError


class ProjectionWarning(UserWarning):
    """A measured likeness was no kernel and had to be moved; the message says how far.

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
