"""Beliefs as they were: one factor of all rows, in the order of telling, holds the beliefs after any number of them.

The leading block of a Cholesky factor L of K̃ + diag(noise) is the factor of the leading rows. With v = L⁻¹k̃(x̃) set to
zero from row `known` on, mean and variance (9), (11) come out as they were when only the first `known` rows were there,
and so do the weights a = L⁻ᵀv of the rewards in the mean, which are zero for the rows to come. A thousand decisions of
the past take one factor and two triangular solves, whatever each of them knew.

Widths and weights do not depend on rewards; a mean takes rewards as they stand, corrections included.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.controller.asking import starting_rows
from kinband.controller.journal import Journal
from kinband.controller.settings import Settings
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import Kernel, MultiTaskKernel
from kinband.posterior.base import Rows


class Hindsight:
    """What an exact posterior believed after any number of its rows.

    Args:
        kernel: Kernel over tasks and contexts.
        rows: The rows in the order of telling, with the whole variance of each reward.
        mean: Constant prior mean.

    Example:
        >>> from kinband.kernels import RBF
        >>> rows = Rows(np.array([0, 1]), np.zeros((2, 1)), np.array([0.9, 0.7]), np.array([0.25, 0.25]))
        >>> past = Hindsight(MultiTaskKernel(RBF(0.5), np.array([[1.0, 0.5], [0.5, 1.0]])), rows, mean=0.0)
        >>> mean, variance = past.predict(np.array([0, 0, 0]), np.zeros((3, 1)), known=[0, 1, 2])
        >>> mean.round(3), variance.round(3)
        (array([0.   , 0.72 , 0.752]), array([1.  , 0.2 , 0.19]))
    """

    def __init__(self, kernel: MultiTaskKernel, rows: Rows, *, mean: float = 0.0) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self.kernel, self.rows, self.mean = kernel, rows, mean
        self._L, self._w = np.empty((0, 0)), np.empty(0)
        if not len(rows.y):
            return
        K = kernel.cross(rows.tasks, rows.X, rows.tasks, rows.X)
        K[np.diag_indices_from(K)] += rows.noise
        try:  # .T: in place only column by column
            self._L = cholesky(K.T, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                "the weights of an estimate cannot be solved for: increase `noise`, or log fewer repeated rows"
            ) from None
        self._w = solve_triangular(self._L, rows.y - mean, lower=True, check_finite=False)

    def __len__(self) -> int:
        return len(self.rows.y)

    def predict(self, tasks: IntArray, X: FloatArray, *, known: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f for tasks (m,) at contexts X (m, d), after `known` rows each, (m,) or one."""
        V = self._solved(tasks, X, known)
        variance = self.kernel.diag(tasks, X) - np.einsum("ij,ij->j", V, V)
        return self.mean + self._w @ V, np.maximum(variance, 0.0)

    def weights(self, tasks: IntArray, X: FloatArray, *, known: ArrayLike) -> FloatArray:
        """Return the weights of all rows in the means of `predict`, (n, m); 0 for rows that were not known."""
        from scipy.linalg import cho_solve, solve_triangular

        if len(self) and np.min(known) >= len(self):
            k = self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X)
            return np.asarray(cho_solve((self._L, True), k, check_finite=False))
        V = self._solved(tasks, X, known)
        if not len(self):
            return V
        found: FloatArray = solve_triangular(self._L, V, lower=True, trans="T", check_finite=False)
        return found

    def covariance(self, tasks: IntArray, X: FloatArray, *, known: int) -> FloatArray:
        """Return the covariance of f at contexts X (m, d) after so many rows, (m, m)."""
        V = self._solved(tasks, X, known)
        found: FloatArray = self.kernel.cross(tasks, X, tasks, X) - V.T @ V
        return found

    def _solved(self, tasks: IntArray, X: FloatArray, known: ArrayLike) -> FloatArray:
        """L⁻¹k̃, (n, m), each column cut off at what was known."""
        from scipy.linalg import solve_triangular

        if not len(self):
            return np.empty((0, len(X)))
        k = self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X)
        V: FloatArray = solve_triangular(self._L, k, lower=True, check_finite=False)
        V[np.arange(len(V))[:, None] >= np.broadcast_to(np.asarray(known), len(X))] = 0.0
        return V


def told_rows_of(settings: Settings, journal: Journal, *, known: int | None = None) -> Rows:
    """Return every row that a controller has learned from, in the order of learning, with its whole variance.

    Args:
        settings: Of the controller, every station that ever joined among them.
        journal: Its log.
        known: Only so many of the first; a decision knew the first `Decision.known`.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25)
        >>> controller.tell(controller.ask("b").id, 0.5, noise=0.05)
        >>> rows = told_rows_of(controller.settings, controller.journal)
        >>> rows.tasks, rows.y, rows.noise
        (array([1]), array([0.5]), array([0.3]))
    """
    start = starting_rows(settings.start)
    told = islice(journal.told.values(), None if known is None else max(known - len(start), 0))
    learned = [*start[:known], *map(journal.observation, told)]
    width = len(learned[0].x) if learned else 0
    return Rows(
        np.array([o.task for o in learned], dtype=np.int64),
        np.array([o.x for o in learned], dtype=np.float64).reshape(len(learned), width),
        np.array([o.reward for o in learned], dtype=np.float64),
        settings.noise + np.array([o.noise or 0.0 for o in learned], dtype=np.float64),
    )


class Part:
    """The rows of a few tasks, numbered 0, 1, ... in the order given, and where they stood among all.

    Args:
        rows: All rows, in the order of learning.
        members: The tasks wanted, ascending.

    Example:
        >>> rows = Rows(np.array([2, 0, 2]), np.zeros((3, 1)), np.array([0.1, 0.2, 0.3]), np.ones(3))
        >>> part = Part(rows, [1, 2])
        >>> part.rows.tasks, part.rows.y, part.known([0, 1, 3])
        (array([1, 1]), array([0.1, 0.3]), array([0, 1, 2]))
    """

    def __init__(self, rows: Rows, members: Sequence[int] | IntArray) -> None:
        self.members = np.asarray(members, dtype=np.int64)
        self._index = np.flatnonzero(np.isin(rows.tasks, self.members))
        chosen = self._index
        self.rows = Rows(self.local(rows.tasks[chosen]), rows.X[chosen], rows.y[chosen], rows.noise[chosen])

    def __len__(self) -> int:
        return len(self._index)

    def local(self, tasks: ArrayLike) -> IntArray:
        """Return the numbers that tasks (m,) have here."""
        return np.searchsorted(self.members, np.asarray(tasks)).astype(np.int64)

    def known(self, known: ArrayLike) -> IntArray:
        """Return how many of these rows were among the first `known` of all, (m,)."""
        return np.searchsorted(self._index, np.asarray(known)).astype(np.int64)

    def hindsight(self, kernel: Kernel, K_Z: FloatArray, *, mean: float) -> Hindsight:
        """Return the beliefs of a model of these tasks alone, K_Z (M, M) being that of all."""
        return Hindsight(MultiTaskKernel(kernel, K_Z[np.ix_(self.members, self.members)]), self.rows, mean=mean)
