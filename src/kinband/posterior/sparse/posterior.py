"""The sparse posterior: bounded memory, the same time for the millionth reward as for the thousandth.

It keeps at most `budget` *inducing points*, rows (task, context) among those it was told, and a Gaussian belief about
f at them (`belief`); rows themselves are not kept. While there is room, every new context becomes a point and the
posterior is the exact one. After that each row brings one point too many, and what is worth least goes: the row
itself, which is then *absorbed* by the points, or an old point in whose place it comes. The **worth** of a point is
what would be forgotten of the part of f there that no other point sees: how far its variance would grow, and the
square of how far its mean would move,

    worth_j = (learned_j + weight_j²) / precision_j²,

known for all points in O(m²) per row. Nothing is drawn at random, and asking changes nothing: beliefs depend on the
order of updates alone, and a replay gives them bit for bit.

**Widths stay honest.** The residual k(x, x) − kᵀK⁻¹k of what the points do not see is added to every variance, as in
BKB (Calandriello et al. 2019), and information is never counted twice: `allowance` has the argument and the
inequality σ²_exact ≤ slack · σ²_sparse, which always holds; `SparsePosterior.slack` is the number. In random problems
the sparse width is practically never below the exact one (tests/property/test_sparse.py).

Cost: O(m²) per update and per predicted context, two m × m matrices of memory; every `REFRESH` rows the points are
whitened anew in O(m³). Csató and Opper (2002) forget by the same projection, with their own worth and with κ = 1
throughout; EK-UCB (Zenati et al. 2022) and BKB grow their dictionaries instead and choose them by chance.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError, CannotCorrectError, NotPositiveDefiniteError
from kinband.kernels import Kernel, MultiTaskKernel, as_kernel, check_task_matrix
from kinband.posterior.contract import (
    Prediction,
    Question,
    Rows,
    checked_contexts,
    checked_rows,
    draw_joint,
)
from kinband.posterior.factor import Column
from kinband.posterior.growing import extended_kernel
from kinband.posterior.sparse.allowance import Allowance
from kinband.posterior.sparse.belief import InducedBelief, Sight
from kinband.posterior.sparse.start import choose_points, learn_block
from kinband.posterior.together import Together, split_columns

BUDGET = 512
"""Inducing points unless another number is given."""

REFRESH = 1024
"""After so many rows the points are whitened anew."""

TOLERANCE = 1e-6
"""A context of which less than this share of the prior variance is left open never becomes a point."""

_CERTAIN = 1e-12  # variances below this share of the prior's are rounding


class SparsePosterior:
    """What is believed about f after every reward told so far, through a bounded number of points.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
        budget: How many inducing points are kept.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = SparsePosterior(RBF(0.5), [[1.0, 0.9], [0.9, 1.0]], noise=0.1, mean=0.5, budget=20)
        >>> rng = np.random.default_rng(0)
        >>> for x in rng.random(300):
        ...     posterior.update([0], [[x]], [np.sin(x) + 0.3 * rng.normal()])
        >>> len(posterior), posterior.points <= 20
        (300, True)
        >>> bool(abs(posterior.predict([0], [[0.5]]).mean[0] - np.sin(0.5)) < 0.1)
        True
    """

    def __init__(
        self, kernel: Kernel, K_Z: ArrayLike, *, noise: float, mean: float = 0.0, budget: int = BUDGET
    ) -> None:
        self.kernel = MultiTaskKernel(as_kernel(kernel), check_task_matrix(K_Z))
        self.noise = positive_number(noise, name="noise")
        self.mean = finite_number(mean, name="mean")
        self.budget = checked_budget(budget)
        self._rows, self._width = 0, None  # type: int, int | None
        self._belief: InducedBelief | None = None
        self._allowance = Allowance(self.kernel.K_Z)

    def __len__(self) -> int:
        return self._rows

    @property
    def points(self) -> int:
        """How many inducing points there are."""
        return self._belief.size if self._belief else 0

    @property
    def slack(self) -> float:
        """By which factor at most the exact variance exceeds the sparse one, anywhere; 1 while nothing is forgotten."""
        return 1.0 + self._allowance.total

    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean (9) and width (11) of f for tasks (m,) at contexts X (m, d)."""
        index, X = self._checked_contexts(tasks, X)
        if self._belief is None:
            return Prediction(
                np.full(len(X), self.mean),
                np.sqrt(self.kernel.diag(index, X)),
                covariance_of=lambda p: self._covariance(index[p], X[p]),
            )
        mean, variance, V = self._belief.predict(index, X)
        return Prediction(
            self.mean + mean, np.sqrt(variance), covariance_of=lambda p: self._covariance(index[p], X[p], V[:, p])
        )

    def predict_arms(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return mean and width of f at the arms of each question."""
        return [self.predict(np.full(len(q.arms), q.task), q.X[q.arms]) for q in questions]

    def predict_together(self, questions: Sequence[Question]) -> Together:
        """Return the predictions of all arms of all questions, and how they hang together."""
        if self._belief is None:
            return Together(self.kernel, questions, self.predict_arms(questions), None)
        tasks = np.concatenate([np.full(len(q.arms), q.task) for q in questions])
        mean, variance, V = self._belief.predict(tasks, np.concatenate([q.X[q.arms] for q in questions]))
        C = self._belief.C
        predictions = Prediction(self.mean + mean, np.sqrt(variance)).split(questions)
        return Together(self.kernel, questions, predictions, split_columns(V, questions, lambda v: v - C @ v))

    def update(
        self,
        tasks: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        noise: ArrayLike | None = None,
        column: Column | None = None,
    ) -> None:
        """Learn rewards y (n,) of tasks (n,) at contexts X (n, d); all or nothing.

        A first block of many rows chooses its points with all of them in view; later rows are learned one by one.
        `column` is of no use here.
        """
        del column
        size = len(self.kernel.K_Z)
        rows = checked_rows(tasks, X, y, noise=noise, default_noise=self.noise, size=size, width=self._width)
        if not len(rows.y):
            return
        before = self.state() if len(rows.y) > 1 else None
        try:
            self._learn(rows)
        except NotPositiveDefiniteError:
            if before is not None:
                self.restore(before)
            raise

    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at contexts X (m, d), (m, m)."""
        return self.moments(tasks, X)[1]

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at contexts X (m, d), in one go; `columns` are of no use here."""
        del columns
        index, X = self._checked_contexts(tasks, X)
        if self._belief is None:
            return np.full(len(X), self.mean), self._covariance(index, X)
        mean, _, V = self._belief.predict(index, X)
        return self.mean + mean, self._covariance(index, X, V)

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of contexts X (m, d) unsolved: nothing here takes them up."""
        del tasks, X
        return [Column.recall(column.memo) for column in columns]

    def sample(self, tasks: ArrayLike, X: ArrayLike, *, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f at contexts X (m, d), (size, m)."""
        return draw_joint(self.predict(tasks, X).mean, self.covariance(tasks, X), size=size, rng=rng)

    def correct(self, index: int, y: float) -> NoReturn:
        """Refuse: the row is not kept."""
        del index, y
        raise CannotCorrectError("a sparse posterior keeps no rows: learn the corrected log anew")

    def remove(self, index: int) -> NoReturn:
        """Refuse: the row is not kept."""
        del index
        raise CannotCorrectError("a sparse posterior keeps no rows: learn the log anew without this one")

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""
        return self.kernel.K_Z

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; points and belief stay as they are."""
        self.kernel = extended_kernel(self.kernel, K_Z)
        self._allowance = self._allowance.extended(self.kernel.K_Z)
        if self._belief is not None:
            self._belief.kernel = self.kernel

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return points and belief as plain arrays."""
        counts = np.array([self._rows], dtype=np.int64)
        if self._belief is None:
            return {"rows": counts}
        allowance = {"spent": self._allowance.spent.copy(), "total": np.array([self._allowance.total])}
        return {**self._belief.state(), **allowance, "rows": counts}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        self._rows = int(state["rows"][0])
        self._belief, self._width, self._allowance = None, None, Allowance(self.kernel.K_Z)
        if self._rows:
            self._width = state["X"].shape[1]
            self._belief = InducedBelief(self.kernel, budget=self.budget, width=self._width)
            self._belief.restore(state)
            spent = np.array(state["spent"], dtype=np.float64)
            self._allowance = Allowance(self.kernel.K_Z, spent, float(state["total"][0]))

    def _covariance(self, tasks: IntArray, X: FloatArray, V: FloatArray | None = None) -> FloatArray:
        """Return the covariance of f at contexts X (m, d) with coordinates V (points, m); without any, the prior's."""
        prior = self.kernel.cross(tasks, X, tasks, X)
        return prior if V is None or self._belief is None else prior - V.T @ V + V.T @ self._belief.C @ V

    def _checked_contexts(self, tasks: ArrayLike, X: ArrayLike) -> tuple[IntArray, FloatArray]:
        return checked_contexts(tasks, X, size=len(self.kernel.K_Z), width=self._width)

    def _learn(self, rows: Rows) -> None:
        if self._belief is None:
            self._width = rows.X.shape[1]
            self._belief = InducedBelief(self.kernel, budget=self.budget, width=self._width)
            if len(rows.y) > 1:
                self._begin(rows, self._belief)
                return
        for i in range(len(rows.y)):
            self._learn_row(self._belief, int(rows.tasks[i]), rows.X[i], float(rows.y[i]), float(rows.noise[i]))

    def _begin(self, rows: Rows, belief: InducedBelief) -> None:
        points = choose_points(self.kernel, rows, budget=self.budget, tolerance=TOLERANCE, mean=self.mean)
        self._allowance = learn_block(belief, rows, points, mean=self.mean)
        self._rows = len(rows.y)

    def _learn_row(self, belief: InducedBelief, task: int, x: FloatArray, y: float, noise: float) -> None:
        sight = belief.look(task, x, y - self.mean)
        if sight.residual <= TOLERANCE * sight.prior:
            self._absorb(belief, sight, noise)
        elif belief.size < self.budget:
            self._admit(belief, sight, noise)
        else:
            point = int(np.argmin(_worths(belief, sight, noise)))
            if point == belief.size:
                self._absorb(belief, sight, noise)
            else:
                self._admit(belief, sight, noise)
                self._forget(belief, point)
        self._rows += 1
        if self._rows % REFRESH == 0:
            belief.refresh()

    def _absorb(self, belief: InducedBelief, sight: Sight, noise: float) -> None:
        if not sight.residual > 0.0:
            belief.absorb(sight, noise)
        elif sight.residual < sight.prior:
            cell, information = _nearest(belief, sight.k), sight.residual / noise
            share = self._allowance.take(cell, task=sight.task, information=information)
            if share > 0.0:
                belief.absorb(sight, noise + sight.residual / share)

    def _admit(self, belief: InducedBelief, sight: Sight, noise: float) -> None:
        parent = _nearest(belief, sight.k) if belief.size else None
        belief.admit(sight, noise)
        self._allowance.found(parent, novelty=sight.residual / sight.prior)

    def _forget(self, belief: InducedBelief, point: int) -> None:
        at = slice(point, point + 1)
        k = self.kernel.cross(belief.tasks, belief.X, belief.tasks[at], belief.X[at])[:, 0]
        k[point] = 0.0
        _, _, variance = belief.direction(point)
        information = max(1.0 / max(variance, _CERTAIN) - 1.0, 0.0)
        into, task = _nearest(belief, k, other_than=point), int(belief.tasks[point])
        share = self._allowance.merge(point, into=into, task=task, information=information)
        belief.forget(point, kappa=share)


def _worths(belief: InducedBelief, sight: Sight, noise: float) -> FloatArray:
    """Return what every point is worth once the row is known, and last the row itself, (m + 1,)."""
    total = noise + sight.residual + sight.spread
    b = sight.b - sight.a
    precision = belief.precision + sight.a**2 / sight.residual
    learned = belief.learned + b**2 / total
    weight = belief.weight + b * (sight.surprise / total)
    own = (1.0 / total + (sight.surprise / total) ** 2) * sight.residual**2
    return np.append((learned + weight**2) / precision**2, own)


def _nearest(belief: InducedBelief, k: FloatArray, *, other_than: int | None = None) -> int:
    """Return the point most correlated with what has covariances k (m,)."""
    likeness = np.abs(k) / np.sqrt(belief.prior)
    if other_than is not None:
        likeness[other_than] = -1.0
    return int(np.argmax(likeness))


def checked_budget(budget: Any) -> int:
    """Return a budget that is a whole number from 2 on, or say what came instead.

    Example:
        >>> checked_budget(1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: budget must be a whole number of inducing points from 2 on, got 1: 512 suits most
    """
    whole = isinstance(budget, int | np.integer) and not isinstance(budget, bool)
    if not whole or budget < 2:
        raise BadInputError(
            f"budget must be a whole number of inducing points from 2 on, got {budget!r}: 512 suits most"
        )
    return int(budget)
