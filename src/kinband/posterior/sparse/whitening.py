"""Coordinates in which a prior is white, and what to say when rounding has made that impossible."""

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import NotPositiveDefiniteError


def whitening(K: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L with L Lᵀ = K (m, m) and Q = L⁻¹, each (m, m).

    Example:
        >>> L, Q = whitening(np.array([[4.0, 2.0], [2.0, 5.0]]))
        >>> L.tolist(), Q.tolist()
        ([[2.0, 0.0], [1.0, 2.0]], [[0.5, 0.0], [-0.25, 0.5]])
    """
    try:
        L: FloatArray = np.asarray(np.linalg.cholesky(K), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise lost_definiteness() from error
    return L, np.tril(np.linalg.inv(L))


def lost_definiteness() -> NotPositiveDefiniteError:
    """Return the error that says what to do when rounding has swallowed a variance."""
    return NotPositiveDefiniteError(
        "the sparse posterior is no longer positive definite: the noise is too small for so many rewards; "
        "increase `noise` (1e-6 of the kernel's variance is usually enough)"
    )
