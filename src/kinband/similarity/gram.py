"""Many kernel values at once, by matrix products where the kernel allows it.

Context kernels compute each entry from its two rows alone, so that its bits do not depend on what else is asked for; a
replay of decisions relies on it. Measuring stations does not, and needs the kernel between all rows of all stations.
Here an RBF is exp(ΛPᵀ): with z = (x − centre)/l, the rows of Λ are (z, 1, log v − |z|²/2) and those of P are
(z, −|z|²/2, 1), so squared distances, factor ½ and variance together are one thin matrix product.

The product rounds −r²/2 by about |z|² times the machine's precision. Contexts that are many length-scales from their
centre are therefore left to the kernel itself, as are all other kernels.
"""

from collections.abc import Callable

import numpy as np

from kinband.arrays import FloatArray
from kinband.kernels import RBF, Kernel, Product
from kinband.kernels.base import Columns, pick

Gram = Callable[[slice, slice], FloatArray]
"""Ranges of rows of X and of Y → the kernel between them."""

FARTHEST = 1e4
"""Largest |z|² for which products are used: entries are then right to about 1e-12 of themselves."""


def gram(kernel: Kernel, X: FloatArray, Y: FloatArray) -> Gram:
    """Return the function that gives the kernel between any ranges of the rows of X (n, d) and of Y (m, d).

    Example:
        >>> X, Y = np.array([[0.1], [0.4], [0.7]]), np.array([[0.2], [0.3]])
        >>> between = gram(RBF(0.5, variance=2.0), X, Y)
        >>> bool(np.allclose(between(slice(1, 3), slice(0, 2)), RBF(0.5, variance=2.0)(X[1:], Y)))
        True
    """
    if isinstance(kernel, Product):
        return _times(gram(kernel.left, X, Y), gram(kernel.right, X, Y))
    factors = _factors(kernel, X, Y) if isinstance(kernel, RBF) else None
    if factors is None:
        return lambda rows, others: kernel(X[rows], Y[others])
    Lambda, P = factors

    def between(rows: slice, others: slice) -> FloatArray:
        exponent = Lambda[rows] @ P[others].T
        return np.exp(exponent, out=exponent)

    return between


def _times(left: Gram, right: Gram) -> Gram:
    def between(rows: slice, others: slice) -> FloatArray:
        K = left(rows, others)
        K *= right(rows, others)
        return K

    return between


def _factors(kernel: RBF, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Λ (n, d + 2) and P (m, d + 2), or None if rows lie too far out for products."""
    columns: Columns = kernel.columns  # type: ignore[assignment]  # cleaned by the kernel
    X, Y = pick(X, columns), pick(Y, columns)
    if not len(X) or not len(Y):
        return None
    centre = 0.5 * (np.minimum(X.min(axis=0), Y.min(axis=0)) + np.maximum(X.max(axis=0), Y.max(axis=0)))
    scales = kernel.scales_of(X.shape[1])
    X, Y = (X - centre) / scales, (Y - centre) / scales
    half_X, half_Y = 0.5 * np.sum(X * X, axis=1), 0.5 * np.sum(Y * Y, axis=1)
    if 2.0 * max(half_X.max(), half_Y.max()) > FARTHEST:
        return None
    log_variance = float(np.log(kernel.variance))
    Lambda = np.column_stack([X, np.ones(len(X)), log_variance - half_X])
    P = np.column_stack([Y, -half_Y, np.ones(len(Y))])
    return Lambda, P
