"""A task matrix K_Z: its checks, its structure, and the product kernel (7) of tasks and contexts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array
from kinband.errors import BadInputError
from kinband.kernels.base import Kernel

ROUNDING = 1e-9
"""Asymmetry and negative eigenvalues up to M times this share of the largest diagonal entry are rounding."""


def check_task_matrix(K_Z: ArrayLike, *, size: int | None = None) -> FloatArray:
    """Return K_Z (M, M) exactly symmetric, or say why it is no covariance of tasks.

    Args:
        K_Z: Similarities of stations.
        size: Number of stations it must have, if known.

    Example:
        >>> check_task_matrix([[1, 0.8], [0.8, 1]], size=2)
        array([[1. , 0.8],
               [0.8, 1. ]])
        >>> check_task_matrix([[1, 2], [2, 1]])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: task matrix is not positive semi-definite, smallest eigenvalue -1: ...
    """
    K_Z = finite_array(K_Z, name="task matrix", ndim=2)
    M = len(K_Z)
    if K_Z.shape != (M, M) or not M:
        raise BadInputError(f"task matrix must be square, got shape {K_Z.shape}")
    if size is not None and size != M:
        raise BadInputError(f"task matrix must have one row for each of {size} stations, got {M}")
    if np.diag(K_Z).min() <= 0:
        raise BadInputError(f"task matrix needs a diagonal above zero, got {np.diag(K_Z).min():g}")
    tolerance = ROUNDING * M * float(np.diag(K_Z).max())
    asymmetry = float(np.abs(K_Z - K_Z.T).max())
    if asymmetry > tolerance:
        raise BadInputError(
            f"task matrix must be symmetric, entries (i, j) and (j, i) differ by {asymmetry:g}: average them"
        )
    return _semi_definite(0.5 * (K_Z + K_Z.T), tolerance)


def components(K_Z: FloatArray) -> list[IntArray]:
    """Return the groups of tasks that share evidence: connected components of the non-zero K_Z (M, M).

    Members ascend, and groups come in order of their first member.

    Example:
        >>> [c.tolist() for c in components(np.array([[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]]))]
        [[0, 2], [1]]
    """
    linked = K_Z != 0
    left = np.ones(len(K_Z), dtype=np.bool_)
    found = []
    for first in range(len(K_Z)):
        if not left[first]:
            continue
        members = np.zeros(len(K_Z), dtype=np.bool_)
        frontier = np.array([first])
        while len(frontier):
            members[frontier] = True
            frontier = np.flatnonzero(linked[frontier].any(axis=0) & ~members)
        left &= ~members
        found.append(np.flatnonzero(members))
    return found


def frozen(array: FloatArray) -> FloatArray:
    """Return a copy that cannot be written to, for use in values.

    Example:
        >>> frozen(np.zeros(2)).flags.writeable
        False
    """
    array = array.copy()
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class MultiTaskKernel:
    """The product kernel (7): k̃((m, x), (m', x')) = K_Z[m, m'] · k_X(x, x').

    Attributes:
        context: The kernel k_X of contexts.
        K_Z: Similarities of tasks, (M, M).

    Example:
        >>> from kinband.kernels import RBF
        >>> k = MultiTaskKernel(RBF(0.5, variance=2.0), np.array([[1.0, 0.8], [0.8, 1.0]]))
        >>> x = np.zeros((1, 2))
        >>> k.cross(np.array([0]), x, np.array([1]), x)
        array([[1.6]])
    """

    context: Kernel
    K_Z: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "K_Z", frozen(check_task_matrix(self.K_Z)))

    def cross(self, tasks_a: IntArray, X_a: FloatArray, tasks_b: IntArray, X_b: FloatArray) -> FloatArray:
        """Return the covariances of rows a and b, tasks (n,), (m,) and contexts (n, d), (m, d): (n, m)."""
        K = self.context(X_a, X_b)
        if len(tasks_b) and (tasks_b == tasks_b[0]).all():  # the arms of one station: one column will do
            K *= self.K_Z[:, tasks_b[0]].take(tasks_a)[:, None]
        else:
            K *= self.K_Z.take(tasks_b, axis=1).take(tasks_a, axis=0)
        return K

    def diag(self, tasks: IntArray, X: FloatArray) -> FloatArray:
        """Return the variance of each row, tasks (n,) and contexts (n, d): (n,)."""
        return self.K_Z.diagonal()[tasks] * self.context.diag(X)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MultiTaskKernel) and self.context == other.context and np.array_equal(self.K_Z, other.K_Z)
        )

    __hash__ = None  # type: ignore[assignment]


def _semi_definite(K_Z: FloatArray, tolerance: float) -> FloatArray:
    """Return K_Z if it is positive semi-definite up to rounding; a Cholesky factor is the cheapest proof."""
    try:
        np.linalg.cholesky(K_Z + tolerance * np.eye(len(K_Z)))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(K_Z)[0])
        raise BadInputError(
            f"task matrix is not positive semi-definite, smallest eigenvalue {smallest:g}: "
            "project it with nearest_correlation"
        ) from None
    return K_Z
