"""The posterior that keeps every row: products over all rows, and the exact one on a growing factor."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError
from kinband.kernels import Kernel, MultiTaskKernel, as_kernel, check_task_matrix
from kinband.posterior.base import (
    LearnedRows,
    Prediction,
    Question,
    Rows,
    checked_contexts,
    checked_rows,
    draw_joint,
    extended_kernel,
)
from kinband.posterior.factor import LANES, PANEL, Column, GrowingFactor, lanes_for
from kinband.posterior.shared_state import SharedRows
from kinband.posterior.together import Columns, Together, split_columns

# --- What the engines that keep every row have in common: the rows, the prior, and the doors ------------------------


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


# --- The exact posterior: kernel ridge regression over tasks, (9) and (11), on a growing Cholesky factor ------------
#
# With L Lᵀ = K̃ + diag(noise), v = L⁻¹k̃(x̃) and w = L⁻¹(y − mean), the prediction is f̂ = mean + v·w and
# σ² = k̃(x̃, x̃) − ‖v‖². Scoring all arms of a decision is one sweep; the solved column of the arm that is played *is*
# the next row of the factor, and w gains one entry. Cost: O(n²) per column, no n² copy. Told which configurations there
# are, `predict_arms` solves as many columns as their kernel has rank, not one per arm (`shared_state`).
#
# Departures from the paper: noise may differ per observation (λI becomes a diagonal), the prior mean is a constant
# rather than 0, and the inverse (13) is never formed (see `schur` for the paper's own way).


class ExactPosterior(DensePosterior):
    """What is believed about f after every reward told so far, exactly.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
        configurations: Features of the arms, (N, f), where contexts are a state followed by one of these.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0, 0.9], [0.9, 1.0]], noise=0.1, mean=0.5)
        >>> posterior.update([0, 0], [[0.0], [1.0]], [0.9, 0.2])
        >>> posterior.predict([1, 1], [[0.0], [1.0]]).mean.round(2)
        array([0.82, 0.26])
    """

    def __init__(
        self,
        kernel: Kernel,
        K_Z: ArrayLike,
        *,
        noise: float,
        mean: float = 0.0,
        configurations: FloatArray | None = None,
    ) -> None:
        super().__init__(kernel, K_Z, noise=noise, mean=mean)
        self._factor = GrowingFactor()
        self._w = np.empty(0)
        self._shared = SharedRows(self.kernel, configurations)

    @property
    def log_determinant(self) -> float:
        """Log-determinant of K̃ + diag(noise)."""
        return self._factor.log_determinant

    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean (9) and width (11) of f for tasks (m,) at contexts X (m, d)."""
        index, X = self._checked_contexts(tasks, X)
        prior, lanes = self.kernel.diag(index, X), lanes_for(len(X))
        if not len(self):
            return Prediction(
                np.full(len(X), self.mean),
                np.sqrt(prior),
                lambda i: Column(i % lanes, lanes),
                covariance_of=lambda p: self._covariance(index[p], X[p]),
            )
        V = self._factor.sweep(self._laned_cross(index, X, lanes))
        mean = self.mean + (self._w @ V)[: len(X)]
        variance = prior - np.einsum("ij,ij->j", V, V)[: len(X)]
        return Prediction(
            mean,
            np.sqrt(np.maximum(variance, 0.0)),
            self._keeper(V, lanes),
            covariance_of=lambda p: self._covariance(index[p], X[p], V[:, p]),
        )

    def predict_arms(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return mean and width of f at the arms of each question, from one sweep over the pivots of them all."""
        parts = self._pivots_solved(questions)
        if parts is None:
            return self._predict_each_arm(questions)
        alone = len(questions) == 1
        return [self._combined(q, V, alone=alone) for q, V in zip(questions, parts, strict=True)]

    def predict_together(self, questions: Sequence[Question]) -> Together:
        """Return the same predictions, and how they hang together."""
        if not len(self):
            return Together(self.kernel, questions, self._predict_each_arm(questions), None)
        parts = self._pivots_solved(questions)
        if parts is not None:
            predictions = [self._combined(q, V, alone=False) for q, V in zip(questions, parts, strict=True)]
            weights = (self._shared.weights[:, q.arms] for q in questions)
            columns = [Columns(V, V, W) for V, W in zip(parts, weights, strict=True)]
            return Together(self.kernel, questions, predictions, columns)
        tasks = np.concatenate([np.full(len(q.arms), q.task) for q in questions])
        X = np.concatenate([q.X[q.arms] for q in questions])
        V = self._factor.sweep(self._cross(tasks, X))
        mean, variance = self.mean + self._w @ V, self.kernel.diag(tasks, X) - np.einsum("ij,ij->j", V, V)
        together = Prediction(mean, np.sqrt(np.maximum(variance, 0.0)))
        return Together(
            self.kernel, questions, together.split(questions), split_columns(V, questions, lambda columns: columns)
        )

    def update(
        self,
        tasks: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        noise: ArrayLike | None = None,
        column: Column | None = None,
    ) -> None:
        """Learn rewards y (n,) of tasks (n,) at contexts X (n, d); all or nothing."""
        rows = self._checked_rows(tasks, X, y, noise)
        if len(rows.y) == 1:
            self._append(rows, column or Column())
        elif len(rows.y):
            self._extend(rows)

    def columns(self, tasks: ArrayLike, X: ArrayLike) -> list[Column]:
        """Return the columns of contexts X (m, d) solved as far as the factor goes.

        A round scores thousands of contexts in one sweep and plays a few of them; this solves those few, a
        laneful at a time, so that their updates need not.
        """
        index, X = self._checked_contexts(tasks, X)
        lanes = LANES[-1]
        found: list[Column] = []
        for start in range(0, len(X), lanes):
            group = slice(start, start + lanes)
            V = self._factor.sweep(self._laned_cross(index[group], X[group], lanes))
            found += map(self._keeper(V, lanes), range(len(X[group])))
        return found

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of contexts X (m, d), those of arms solved as far as complete panels go.

        One sweep serves all that share a state, such as those of what was played and of what it replaced.
        """
        return self._refreshed(*self._checked_contexts(tasks, X), columns)

    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at contexts X (m, d), (m, m)."""
        return self.moments(tasks, X)[1]

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at contexts X (m, d), in one go.

        `columns`, one for each context, are work kept from a prediction, or what is remembered of it. Where a panel
        was completed since they were told, solving all anew in one sweep is less work.
        """
        index, X = self._checked_contexts(tasks, X)
        if not len(self):
            return np.full(len(X), self.mean), self._covariance(index, X)
        if columns is None or any(column.upto not in (None, self._factor.complete) for column in columns):
            V = self._factor.sweep(self._cross(index, X))
        else:
            known = self._refreshed(index, X, columns)
            V = self._factor.finish(self._unsolved(index, X, known), known)
        return self.mean + self._w @ V, self._covariance(index, X, V)

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of row `index`; the factor does not depend on rewards and stays."""
        self._check_row(index)
        self._rows.y[index] = finite_number(y, name="reward")
        self._w = self._solved_rewards()

    def remove(self, index: int) -> None:
        """Forget row `index`; later rows move up."""
        self._check_row(index)
        self._factor.remove(index)
        self._rows.remove(index)
        self._shared.restore(self._rows.X)
        self._w = self._solved_rewards()

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; the factor stays as it is."""
        super().extend_tasks(K_Z)
        self._shared.use(self.kernel)

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return rows, factor and solved rewards as plain arrays."""
        return {**self._rows.state(), **self._factor.state(), "w": self._w.copy()}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        self._rows.restore(state)
        self._factor.restore(state)
        self._shared.restore(self._rows.X)
        self._w = np.array(state["w"], dtype=np.float64)

    def _laned_cross(self, tasks: IntArray, X: FloatArray, lanes: int) -> FloatArray:
        """Return k̃ of every row against m contexts, padded with zeros to at least `lanes` columns."""
        K = self._cross(tasks, X)
        if K.shape[1] >= lanes:
            return K
        padded = np.zeros((len(K), lanes))
        padded[:, : K.shape[1]] = K
        return padded

    def _keeper(self, V: FloatArray, lanes: int) -> Callable[[int], Column]:
        """Return what gives the columns of a sweep; out of one wider than its lanes no bits can be reused."""
        if V.shape[1] > lanes:
            return lambda i: Column(i % lanes, lanes)
        era, complete = self._factor.era, self._factor.complete
        return lambda i: Column(i, lanes, V[:complete, i].copy(), era)

    def _predict_each_arm(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return what `predict_arms` does with a column per arm."""
        tasks = np.concatenate([np.full(len(q.arms), q.task) for q in questions])
        together = self.predict(tasks, np.concatenate([q.X[q.arms] for q in questions]))
        return [together] if len(questions) == 1 else together.split(questions)

    def _pivots_solved(self, questions: Sequence[Question]) -> list[FloatArray] | None:
        """Return the solved columns of every question's pivots, (n, r) each, where the structure serves them all."""
        shared = self._shared.structure if len(self) >= PANEL else None  # below, there is nothing to gain
        if shared is None or not all(len(q.arms) > len(shared) and shared.describes(q.X) for q in questions):
            return None
        r, rows = len(shared), self._rows
        R = np.empty((len(self), r * len(questions)))
        for i, q in enumerate(questions):
            self._shared.cross(rows.tasks, rows.X, task=q.task, x=q.X[0], out=R[:, i * r : (i + 1) * r])
        V = self._factor.sweep(R)
        return [V[:, i * r : (i + 1) * r] for i in range(len(questions))]

    def _combined(self, question: Question, V: FloatArray, *, alone: bool) -> Prediction:
        """Return the prediction of all arms from the solved columns V (n, r) of the pivots."""
        W = self._shared.weights[:, question.arms]
        prior = self.kernel.diag(np.full(len(question.arms), question.task), question.X[question.arms])
        mean, G = self.mean + (self._w @ V) @ W, V.T @ V
        variance = prior - np.einsum("pa,pa->a", W, G @ W)
        width = np.sqrt(np.maximum(variance, 0.0))
        if not alone:  # out of a sweep for many decisions no bits can be reused
            return Prediction(mean, width)
        era, solved = self._factor.era, V[: self._factor.complete]
        arms, task, X = question.arms, question.task, question.X
        return Prediction(
            mean,
            width,
            lambda i: Column(solved=self._shared.combine(solved, int(arms[i])), era=era, arm=int(arms[i])),
            covariance_of=lambda p: self._prior(np.full(len(p), task), X[arms[p]]) - W[:, p].T @ G @ W[:, p],
        )

    def _prior(self, tasks: IntArray, X: FloatArray) -> FloatArray:
        return self.kernel.cross(tasks, X, tasks, X)

    def _covariance(self, tasks: IntArray, X: FloatArray, V: FloatArray | None = None) -> FloatArray:
        """Return the covariance of f at contexts X (m, d) with solved columns V (n, m); without any, the prior's."""
        return self._prior(tasks, X) if V is None else self._prior(tasks, X) - V.T @ V

    def _refreshed(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column]) -> list[Column]:
        pivots: dict[tuple[int, bytes], FloatArray] = {}
        return [self._as_solved(int(t), x, column, pivots) for t, x, column in zip(tasks, X, columns, strict=True)]

    def _as_solved(
        self, task: int, x: FloatArray, column: Column, pivots: dict[tuple[int, bytes], FloatArray]
    ) -> Column:
        """Return the column of an arm combined from its pivots' as far as complete panels go; these go to `pivots`."""
        complete, structure, era = self._factor.complete, self._shared.structure, self._factor.era
        if column.arm is None:
            return column
        if structure is None or not complete:
            return Column(arm=column.arm)
        if column.era is era and len(column.solved) == complete:
            return column
        key = (task, structure.state(x))
        if key not in pivots:
            R = np.empty((complete, len(structure)))
            self._shared.cross(self._rows.tasks[:complete], self._rows.X[:complete], task=task, x=x, out=R)
            pivots[key] = self._factor.sweep(R)
        return Column(solved=self._shared.combine(pivots[key], column.arm), era=era, arm=column.arm)

    def _unsolved(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return k̃ of the rows against m contexts, (n, m), with zeros in the place of those that all columns know.

        These end with a panel, and so with a tile of kernels that are evaluated in tiles: no bit depends on them.
        """
        first = min(self._factor.solved(column) for column in columns)
        K = np.zeros((len(self), len(X)))
        K[first:] = self.kernel.cross(self._rows.tasks[first:], self._rows.X[first:], tasks, X)
        return K

    def _append(self, rows: Rows, column: Column) -> None:
        known = self._as_solved(int(rows.tasks[0]), rows.X[0], column, {})
        k = self._unsolved(rows.tasks, rows.X, [known])[:, 0] if len(self) else np.empty(0)
        v = self._factor.solve(k, known)
        diagonal = float(self.kernel.diag(rows.tasks, rows.X)[0] + rows.noise[0])
        pivot = self._factor.append(v, diagonal)
        self._rows.append(rows)
        self._shared.append(rows.X)
        # The rewards' own column grows with the factor: w_n = (y_n − mean − v·w) / pivot.
        self._w = np.append(self._w, (rows.y[0] - self.mean - v @ self._w) / pivot)

    def _extend(self, rows: Rows) -> None:
        block = self.kernel.cross(rows.tasks, rows.X, rows.tasks, rows.X)
        block[np.diag_indices_from(block)] += rows.noise
        self._factor.extend(self._cross(rows.tasks, rows.X), block)
        self._rows.append(rows)
        self._shared.append(rows.X)
        self._w = self._solved_rewards()

    def _solved_rewards(self) -> FloatArray:
        return self._factor.sweep((self._rows.y - self.mean)[:, None])[:, 0]
