"""Exact as long as that is cheap, sparse from then on: one posterior that hands over at a stated number of rows.

The exact posterior costs n² per decision and 4n² bytes. At `SWITCH_ROWS` rows that is a quarter of a gigabyte and
several times the time of a sparse decision; before, little is gained by approximating, and thousands of rows are a good
view to choose inducing points from. The first update that would go beyond the limit gives all rows kept so far to a
sparse posterior in one block, and is learned by that one. The hand-over depends on the count of rows alone, so that a
replay makes it at the same reward and with the same bits. It happens once, and is said once, as a warning of the
program's log.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel
from kinband.posterior.contract import Prediction, Question, checked_rows
from kinband.posterior.exact import ExactPosterior
from kinband.posterior.factor import Column
from kinband.posterior.sparse import BUDGET, SparsePosterior, checked_budget
from kinband.posterior.together import Together

SWITCH_ROWS = 8000
"""Rows up to which the posterior is exact."""

_log = logging.getLogger(__name__)


class SwitchingPosterior:
    """An exact posterior that becomes a sparse one when it has grown too large.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
        budget: How many inducing points the sparse posterior keeps.
        rows: Up to how many rows it stays exact.
        configurations: Features of the arms, (N, f), where contexts are a state followed by one of these.
        quiet: Whether the hand-over is a detail, one of many groups', not worth a warning in the log.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = SwitchingPosterior(RBF(0.5), [[1.0]], noise=0.1, budget=8, rows=20, quiet=True)
        >>> for x in np.linspace(0, 1, 30):
        ...     posterior.update([0], [[x]], [np.sin(x)])
        >>> len(posterior), posterior.is_sparse
        (30, True)
    """

    def __init__(
        self,
        kernel: Kernel,
        K_Z: ArrayLike,
        *,
        noise: float,
        mean: float = 0.0,
        budget: int = BUDGET,
        rows: int = SWITCH_ROWS,
        configurations: FloatArray | None = None,
        quiet: bool = False,
    ) -> None:
        self._exact: ExactPosterior | None = ExactPosterior(
            kernel, K_Z, noise=noise, mean=mean, configurations=configurations
        )
        self._sparse: SparsePosterior | None = None
        self._configurations, self._level = configurations, logging.INFO if quiet else logging.WARNING
        self.kernel, self.noise, self.mean = self._exact.kernel, self._exact.noise, self._exact.mean
        self.budget, self.limit = checked_budget(budget), _checked_limit(rows)

    def __len__(self) -> int:
        return len(self.present)

    @property
    def is_sparse(self) -> bool:
        """Whether the hand-over has taken place."""
        return self._sparse is not None

    @property
    def present(self) -> ExactPosterior | SparsePosterior:
        """The posterior that holds the beliefs now."""
        found = self._exact if self._sparse is None else self._sparse
        if found is None:
            raise AssertionError("a posterior must be exact or sparse")
        return found

    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean (9) and width (11) of f for tasks (m,) at contexts X (m, d)."""
        return self.present.predict(tasks, X)

    def predict_arms(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return mean and width of f at the arms of each question."""
        return self.present.predict_arms(questions)

    def predict_together(self, questions: Sequence[Question]) -> Together:
        """Return the predictions of all arms of all questions, and how they hang together."""
        return self.present.predict_together(questions)

    def columns(self, tasks: ArrayLike, X: ArrayLike) -> list[Column]:
        """Return the columns of contexts X (m, d), to be handed to their updates; a sparse posterior needs none."""
        present = self.present
        return present.columns(tasks, X) if isinstance(present, ExactPosterior) else [Column() for _ in np.asarray(X)]

    def update(
        self,
        tasks: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        noise: ArrayLike | None = None,
        column: Column | None = None,
    ) -> None:
        """Learn rewards y (n,) of tasks (n,) at contexts X (n, d); all or nothing, the hand-over included."""
        exact = self._exact
        if exact is None or len(exact) + np.size(y) <= self.limit:
            self.present.update(tasks, X, y, noise=noise, column=column)
            return
        size, width = len(self.kernel.K_Z), exact.rows.width
        rows = checked_rows(tasks, X, y, noise=noise, default_noise=self.noise, size=size, width=width)
        sparse = self._empty_sparse()
        if len(exact):
            known = exact.rows
            sparse.update(known.tasks, known.X, known.y, noise=known.noise)
        sparse.update(rows.tasks, rows.X, rows.y, noise=rows.noise)
        words = "after %d rows the exact posterior hands over to a sparse one of %d inducing points"
        _log.log(self._level, words, len(exact), self.budget)
        self._exact, self._sparse = None, sparse

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at contexts X (m, d), in one go."""
        return self.present.moments(tasks, X, columns=columns)

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of contexts X (m, d) solved as far as the present posterior solves them ahead."""
        return self.present.refreshed(tasks, X, columns)

    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at contexts X (m, d), (m, m)."""
        return self.present.covariance(tasks, X)

    def sample(self, tasks: ArrayLike, X: ArrayLike, *, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f at contexts X (m, d), (size, m)."""
        return self.present.sample(tasks, X, size=size, rng=rng)

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of row `index`, as long as rows are kept."""
        self.present.correct(index, y)

    def remove(self, index: int) -> None:
        """Forget row `index`, as long as rows are kept."""
        self.present.remove(index)

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""
        return self.kernel.K_Z

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; what is known stays as it is."""
        self.present.extend_tasks(K_Z)
        self.kernel = self.present.kernel

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return the present posterior as plain arrays."""
        return {**self.present.state(), "is_sparse": np.array([int(self.is_sparse)], dtype=np.int64)}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        if int(state["is_sparse"][0]):
            sparse = self._empty_sparse()
            sparse.restore(state)
            self._exact, self._sparse = None, sparse
        else:
            exact = ExactPosterior(
                self.kernel.context, self.kernel.K_Z, noise=self.noise, mean=self.mean,
                configurations=self._configurations,
            )  # fmt: skip
            exact.restore(state)
            self._exact, self._sparse = exact, None

    def _empty_sparse(self) -> SparsePosterior:
        kernel = self.kernel
        return SparsePosterior(kernel.context, kernel.K_Z, noise=self.noise, mean=self.mean, budget=self.budget)


def _checked_limit(rows: Any) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise BadInputError(f"rows must be a whole number from 1 on, got {rows!r}: 8000 suits most")
    return int(rows)
