"""What the engines that keep every row have in common: the rows, the prior, and the doors."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError
from kinband.kernels import Kernel, MultiTaskKernel, as_kernel, check_task_matrix
from kinband.posterior.contract import Prediction, Rows, checked_contexts, checked_rows, draw_joint
from kinband.posterior.factor import Column
from kinband.posterior.growing import extended_kernel
from kinband.posterior.rows import LearnedRows


class DensePosterior(ABC):
    """Base of the exact engines.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
    """

    def __init__(self, kernel: Kernel, K_Z: ArrayLike, *, noise: float, mean: float = 0.0) -> None:
        self.kernel = MultiTaskKernel(as_kernel(kernel), check_task_matrix(K_Z))
        self.noise = positive_number(noise, name="noise")
        self.mean = finite_number(mean, name="mean")
        self._rows = LearnedRows()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> LearnedRows:
        """The rows learned so far, in the order of updates."""
        return self._rows

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""
        return self.kernel.K_Z

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; what is known stays as it is."""
        self.kernel = extended_kernel(self.kernel, K_Z)

    @abstractmethod
    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean (9) and width (11) of f for tasks (m,) at contexts X (m, d)."""

    @abstractmethod
    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at contexts X (m, d), (m, m)."""

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at contexts X (m, d), in one go; `columns` are for `exact`."""
        del columns
        return self.predict(tasks, X).mean, self.covariance(tasks, X)

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of contexts X (m, d) unsolved: nothing here takes them up."""
        del tasks, X
        return [Column.recall(column.memo) for column in columns]

    def sample(self, tasks: ArrayLike, X: ArrayLike, *, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f at contexts X (m, d), (size, m)."""
        return draw_joint(self.predict(tasks, X).mean, self.covariance(tasks, X), size=size, rng=rng)

    def _checked_contexts(self, tasks: ArrayLike, X: ArrayLike) -> tuple[IntArray, FloatArray]:
        return checked_contexts(tasks, X, size=len(self.kernel.K_Z), width=self._rows.width)

    def _checked_rows(self, tasks: ArrayLike, X: ArrayLike, y: ArrayLike, noise: ArrayLike | None) -> Rows:
        size, width = len(self.kernel.K_Z), self._rows.width
        return checked_rows(tasks, X, y, noise=noise, default_noise=self.noise, size=size, width=width)

    def _check_row(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise BadInputError(f"there is no row {index}: {len(self)} rows are known")

    def _cross(self, tasks: IntArray, X: FloatArray) -> FloatArray:
        """Return k̃ of every row against m contexts, (n, m)."""
        if not len(self):
            return np.empty((0, len(X)))
        return self.kernel.cross(self._rows.tasks, self._rows.X, tasks, X)
