"""Many decisions predicted together: means and widths as ever, and how all of them hang together.

Two uses. A round that knows its own picks needs the covariance of what was picked with everything still open; a
policy that draws functions needs the covariances among the arms of one decision. Both come out of the columns that the
predictions are made of: with cov(f_i, f_j) = k̃(x̃_i, x̃_j) − v_iᵀ B v_j, v the solved columns and B the identity for an
exact posterior, I − C for a sparse one (C the covariance of its coordinates).

The columns of a decision may be those of a few pivots, v_a = V W_a (see `shared_state`); products are then made with
the pivots' columns and only their results are spread over the arms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import MultiTaskKernel
from kinband.posterior.base import Prediction, Question


class Joint(Protocol):
    """Predictions of several decisions, and their covariances."""

    @property
    def predictions(self) -> Sequence[Prediction]:
        """Mean and width for each question."""
        ...

    @property
    def ends(self) -> IntArray:
        """Where the arms of each question end among all arms, (q,)."""
        ...

    def within(self, i: int) -> FloatArray:
        """Return the covariance of f among the arms of one question, (m, m)."""
        ...

    def with_all(self, i: int, position: int) -> FloatArray:
        """Return the covariance of f at one arm, by its position, with f at all arms of all questions, (total,)."""
        ...


@dataclass(frozen=True, eq=False)
class Columns:
    """The solved columns of one decision's arms.

    Attributes:
        V: Columns of the arms or of their pivots, (n, r).
        BV: B V, (n, r); V itself where B is the identity.
        W: Weights of the pivots in each arm, (r, m); None where every arm has its own column.
    """

    V: FloatArray
    BV: FloatArray
    W: FloatArray | None = None

    def spread(self, products: FloatArray) -> FloatArray:
        """Return products with the columns, (..., r), as products with the arms, (..., m)."""
        return products if self.W is None else np.asarray(products @ self.W)

    def of_arm(self, position: int) -> FloatArray:
        """Return B v of one arm, (n,)."""
        return self.BV[:, position] if self.W is None else np.asarray(self.BV @ self.W[:, position])


@dataclass(frozen=True, eq=False)
class Together:
    """Predictions of several decisions, and their covariances.

    Attributes:
        kernel: The product kernel (7).
        questions: What was asked.
        predictions: Mean and width for each question.
        columns: What the predictions were made of; None where nothing is known yet.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0, 0.9], [0.9, 1.0]], noise=0.1)
        >>> X = np.array([[0.0], [0.4]])
        >>> together = posterior.predict_together([Question(task, X, np.array([0, 1])) for task in (0, 1)])
        >>> together.with_all(0, 1).round(3).tolist()  # the second arm of the first, with all four
        [0.726, 1.0, 0.654, 0.9]
    """

    kernel: MultiTaskKernel
    questions: Sequence[Question]
    predictions: Sequence[Prediction]
    columns: Sequence[Columns] | None

    @cached_property
    def ends(self) -> IntArray:
        """Where the arms of each question end among all arms, (q,)."""
        return np.cumsum([len(q.arms) for q in self.questions])

    def within(self, i: int) -> FloatArray:
        """Return the covariance of f among the arms of one question, (m, m)."""
        q = self.questions[i]
        tasks, X = np.full(len(q.arms), q.task), q.X[q.arms]
        prior = self.kernel.cross(tasks, X, tasks, X)
        if self.columns is None:
            return prior
        own = self.columns[i]
        known = own.spread(own.V.T @ own.BV)
        return np.asarray(prior - (known if own.W is None else own.W.T @ known))

    def with_all(self, i: int, position: int) -> FloatArray:
        """Return the covariance of f at one arm, by its position, with f at all arms of all questions, (total,)."""
        q = self.questions[i]
        arm = int(q.arms[position])
        prior: FloatArray = self.kernel.cross(np.array([q.task]), q.X[arm : arm + 1], self._tasks, self._X)[0]
        if self.columns is None:
            return prior
        v = self.columns[i].of_arm(position)
        return np.asarray(prior - np.concatenate([part.spread(v @ part.V) for part in self.columns]))

    @cached_property
    def _tasks(self) -> IntArray:
        return np.concatenate([np.full(len(q.arms), q.task) for q in self.questions])

    @cached_property
    def _X(self) -> FloatArray:
        return np.concatenate([q.X[q.arms] for q in self.questions])


class Apart:
    """Predictions of questions to several posteriors that know nothing of each other.

    Args:
        parts: For each posterior the numbers of its questions, ascending, (p,), and what it answers to them.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import GroupedPosterior
        >>> posterior, X = GroupedPosterior(RBF(0.5), np.eye(2), noise=0.1), np.array([[0.0], [0.4]])
        >>> apart = posterior.predict_together([Question(task, X, np.array([0, 1])) for task in (0, 1)])
        >>> apart.with_all(0, 1).round(3).tolist()
        [0.726, 1.0, 0.0, 0.0]
    """

    def __init__(self, parts: Sequence[tuple[IntArray, Joint]]) -> None:
        self._place = {int(i): (own, j) for numbers, own in parts for j, i in enumerate(numbers)}
        self._numbers = {id(own): numbers for numbers, own in parts}
        self.predictions = [own.predictions[j] for own, j in (self._place[i] for i in range(len(self._place)))]
        self.ends: IntArray = np.cumsum([len(prediction.mean) for prediction in self.predictions])

    def within(self, i: int) -> FloatArray:
        """Return the covariance of f among the arms of one question, (m, m)."""
        own, j = self._place[i]
        return own.within(j)

    def with_all(self, i: int, position: int) -> FloatArray:
        """Return the covariance of f at one arm with f at all arms of all questions, zero between posteriors."""
        own, j = self._place[i]
        found, c = np.zeros(int(self.ends[-1])), own.with_all(j, position)
        for number, piece in zip(self._numbers[id(own)], np.split(c, own.ends[:-1]), strict=True):
            stop = int(self.ends[number])
            found[stop - len(piece) : stop] = piece
        return found


@runtime_checkable
class PredictsTogether(Protocol):
    """A posterior that tells how its predictions hang together.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> isinstance(ExactPosterior(RBF(), [[1.0]], noise=0.1), PredictsTogether)
        True
    """

    def predict_together(self, questions: Sequence[Question]) -> Joint:
        """Return the predictions of all arms of all questions, with their covariances."""


def split_columns(V: FloatArray, questions: Sequence[Question], B: Callable[[FloatArray], FloatArray]) -> list[Columns]:
    """Return the columns V (n, total) of all arms by question; B multiplies columns by the matrix of that name."""
    ends = np.cumsum([len(q.arms) for q in questions])[:-1]
    pairs = zip(np.split(V, ends, axis=1), np.split(B(V), ends, axis=1), strict=True)
    return [Columns(part, weighed) for part, weighed in pairs]
