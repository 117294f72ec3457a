"""The paper's own engine: the inverse of K̃ + diag(noise), grown by the Schur complement (13).

Kept as the readable reference and as the yardstick for `exact`, which does less work and loses fewer digits: grown row
by row, an inverse loses digits of the mean with the square of its condition number, from about 1e-9 at a noise of 1e-2
of the kernel's variance to 1e-5 at 1e-4 (1,000 rows).
Read it beside Theorem 2: with A⁻¹ known, rows U against the old data and C among the new, the new inverse needs
only S = C − UᵀA⁻¹U. Here the old block comes first, so the roles of A and C are swapped against the print.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import Kernel
from kinband.posterior.base import Column, LearnedRows, Posterior, Prediction, Rows, SolvedJoint, State

_STRIPE = 256  # rows updated at a time, so that no n × n temporary is made


class SchurPosterior(Posterior):
    """The exact posterior by way of the inverse matrix; same contract and arguments as `ExactPosterior`.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = SchurPosterior(RBF(0.5), [[1.0]], noise=0.1)
        >>> posterior.update([0], [[0.0]], [1.1])
        >>> posterior.predict([0], [[0.0]]).mean.round(6)
        array([1.])
    """

    def __init__(self, kernel: Kernel, K_Z: ArrayLike, *, noise: float, mean: float = 0.0) -> None:
        super().__init__(kernel, K_Z, noise=noise, mean=mean)
        self.rows = LearnedRows()
        self._storage = np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def inverse(self) -> FloatArray:
        """(K̃ + diag(noise))⁻¹, (n, n)."""
        return self._storage[: len(self), : len(self)]

    def _predict(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column | None]) -> Prediction:
        del columns  # of no use here, as is the one of an update
        K, prior = self._cross(tasks, X), self.kernel.diag(tasks, X)
        AK = self.inverse @ K
        mean = self.mean + (self.rows.y - self.mean) @ AK
        variance = prior - np.einsum("ij,ij->j", K, AK)
        return Prediction(mean, np.sqrt(np.maximum(variance, 0.0)), SolvedJoint(self.kernel, tasks, X, K, AK))

    def _learn(self, rows: Rows, column: Column | None) -> None:
        """Learn checked rows by (13)."""
        del column
        U = self._cross(rows.tasks, rows.X)
        C = self.kernel.cross(rows.tasks, rows.X, rows.tasks, rows.X) + np.diag(rows.noise)
        AU = self.inverse @ U
        S_inverse = _definite_inverse(C - U.T @ AU)
        self._grow_inverse(AU, S_inverse)
        self.rows.append(rows)

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of row `index`."""
        self._check_row(index)
        self.rows.y[index] = finite_number(y, name="reward")

    def state(self) -> State:
        """Return rows and inverse as plain arrays."""
        return {**self.rows.state(), "inverse": self.inverse.copy()}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self.rows.restore(state)
        self._storage = np.array(state["inverse"], dtype=np.float64)
        self._features = self.rows.X.shape[1] if len(self) else None

    def _cross(self, tasks: IntArray, X: FloatArray) -> FloatArray:
        """Return k̃ of every row against m contexts, (n, m)."""
        if not len(self):
            return np.empty((0, len(X)))
        return self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X)

    def _grow_inverse(self, AU: FloatArray, S_inverse: FloatArray) -> None:
        """Write the new inverse (13) over the old one; AU (n, b), S_inverse (b, b)."""
        n, stop = len(AU), len(AU) + len(S_inverse)
        if stop > len(self._storage):
            larger = np.zeros((max(stop, 2 * n, 16),) * 2)
            larger[:n, :n] = self.inverse
            self._storage = larger
        AUS = AU @ S_inverse
        for start in range(0, n, _STRIPE):
            stripe = slice(start, min(start + _STRIPE, n))
            self._storage[stripe, :n] += AUS[stripe] @ AU.T
        self._storage[:n, n:stop] = -AUS
        self._storage[n:stop, :n] = -AUS.T
        self._storage[n:stop, n:stop] = S_inverse


def _definite_inverse(S: FloatArray) -> FloatArray:
    """Return S⁻¹ of a Schur complement (b, b), which must be positive definite."""
    try:
        L_inverse = np.linalg.inv(np.linalg.cholesky(S))
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError(
            "the kernel matrix is no longer positive definite",
            hint="increase `noise`, or use the exact engine",
            argument="noise",
        ) from error
    return np.asarray(L_inverse.T @ L_inverse)
