"""Posteriors of stations that share nothing, and the switch from exact to sparse."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, CannotCorrectError, NotPositiveDefiniteError
from kinband.kernels import Kernel, check_task_matrix, components
from kinband.posterior.base import Prediction, Question, Rows, checked_contexts, checked_rows, draw_joint, extended
from kinband.posterior.exact import ExactPosterior
from kinband.posterior.factor import Column
from kinband.posterior.schur import SchurPosterior
from kinband.posterior.sparse import BUDGET, SparsePosterior, checked_budget
from kinband.posterior.together import Apart, Joint, PredictsTogether, Together

# --- Exact as long as that is cheap, sparse from then on: one posterior that hands over at a stated number of rows
#
# The exact posterior costs n² per decision and 4n² bytes. At `SWITCH_ROWS` rows that is a quarter of a gigabyte and
# several times the time of a sparse decision; before, little is gained by approximating, and thousands of rows are a
# good view to choose inducing points from. The first update that would go beyond the limit gives all rows kept so far
# to a sparse posterior in one block, and is learned by that one. The hand-over depends on the count of rows alone, so
# that a replay makes it at the same reward and with the same bits. It happens once, and is said once, as a warning of
# the program's log.

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


# --- Tasks that share nothing are kept apart: one small posterior per group of related tasks ------------------------
#
# A task matrix that falls into blocks makes K̃ block-diagonal. Factorising it as one would cost the cube (here the
# square, per step) of all rows together; a posterior per connected group costs that of its own rows. Independent
# stations (K_Z = I) are the case in which every group has one member.
#
# A task that comes later is a group of its own, joins the group it is like, or, if it is like several, makes one of
# them: the new group learns the rows of the old ones in one block, in the order in which they were told.

Member = ExactPosterior | SchurPosterior | SparsePosterior | SwitchingPosterior
Engine = Callable[..., Member]


class GroupedPosterior:
    """Separate posteriors for the connected groups of a task matrix, behind the contract of one.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = GroupedPosterior(RBF(0.5), np.eye(3), noise=0.1)
        >>> posterior.update([0, 2], [[0.0], [0.0]], [1.0, 0.0])
        >>> len(posterior.groups), posterior.predict([0, 1], [[0.0], [0.0]]).mean.round(2)
        (3, array([0.91, 0.  ]))
    """

    def __init__(
        self,
        kernel: Kernel,
        K_Z: ArrayLike,
        *,
        noise: float,
        mean: float = 0.0,
        engine: Engine = ExactPosterior,
        **options: Any,
    ) -> None:
        self._K_Z = check_task_matrix(K_Z)
        members = components(self._K_Z)
        self._empty = partial(engine, kernel, noise=noise, mean=mean, **options)
        self.groups: list[Member] = [self._empty(self._K_Z[np.ix_(m, m)]) for m in members]
        self.noise, self.mean = self.groups[0].noise, self.groups[0].mean
        self._number(members)
        self._width: int | None = None
        self._learned, self._filled = np.empty(0, dtype=np.int32), 0  # which group learned the i-th row

    def __len__(self) -> int:
        return self._filled

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""
        return self._K_Z

    def _number(self, members: Sequence[IntArray]) -> None:
        """Note which tasks the groups have, and under which numbers."""
        size = sum(map(len, members))
        self._group_of, self._local = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for g, m in enumerate(members):
            self._group_of[m], self._local[m] = g, np.arange(len(m))

    @property
    def _row_groups(self) -> NDArray[np.int32]:
        return self._learned[: self._filled]

    def _note(self, groups: IntArray) -> None:
        """Note which groups learned the next rows, (b,), in an array that doubles when it is full."""
        start, stop = self._filled, self._filled + len(groups)
        if stop > len(self._learned):
            larger = np.zeros(max(stop, 2 * start, 16), dtype=np.int32)
            larger[:start] = self._row_groups
            self._learned = larger
        self._learned[start:stop], self._filled = groups, stop

    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean (9) and width (11) of f for tasks (m,) at contexts X (m, d)."""
        index, X = self._checked(tasks, X)
        groups = self._group_of[index]
        if len(index) and np.all(groups == groups[0]):
            return self.groups[int(groups[0])].predict(self._local[index], X)
        mean, width = np.empty(len(X)), np.empty(len(X))
        for g in np.unique(groups):
            rows = groups == g
            part = self.groups[g].predict(self._local[index[rows]], X[rows])
            mean[rows], width[rows] = part.mean, part.width
        return Prediction(mean, width)

    def predict_arms(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return mean and width of f at the arms of each question, asked of its own group."""
        return [self._predict_arms(question) for question in questions]

    def predict_together(self, questions: Sequence[Question]) -> Apart:
        """Return the predictions of all arms of all questions, and how they hang together inside each group."""
        groups = np.array([self._group_of[question.task] for question in questions])
        parts: list[tuple[IntArray, Joint]] = []
        for g in np.unique(groups):
            group, numbers = self.groups[int(g)], np.flatnonzero(groups == g)
            if not isinstance(group, PredictsTogether):
                raise BadInputError(f"a {type(group).__name__} does not tell how predictions hang together")
            mine = [questions[int(i)] for i in numbers]
            local = [replace(question, task=int(self._local[question.task])) for question in mine]
            parts.append((numbers, group.predict_together(local)))
        return Apart(parts)

    def _predict_arms(self, question: Question) -> Prediction:
        group, task = self.groups[int(self._group_of[question.task])], int(self._local[question.task])
        if isinstance(group, SchurPosterior):
            return group.predict(np.full(len(question.arms), task), question.X[question.arms])
        return group.predict_arms([Question(task, question.X, question.arms)])[0]

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
        size = len(self._group_of)
        rows = checked_rows(tasks, X, y, noise=noise, default_noise=self.noise, size=size, width=self._width)
        groups = self._group_of[rows.tasks]
        touched = np.unique(groups) if len(groups) > 1 else groups
        before = {g: self.groups[g].state() for g in touched} if len(touched) > 1 else {}
        try:
            for g in touched:
                mine = groups == g
                local = self._local[rows.tasks[mine]]
                self.groups[g].update(local, rows.X[mine], rows.y[mine], noise=rows.noise[mine], column=column)
        except NotPositiveDefiniteError:
            for g, state in before.items():
                self.groups[g].restore(state)
            raise
        if len(rows.y):
            self._width = rows.X.shape[1]
            self._note(groups)

    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at contexts X (m, d), (m, m); zero between groups."""
        return self.moments(tasks, X)[1]

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at contexts X (m, d), in one go."""
        index, X = self._checked(tasks, X)
        groups = self._group_of[index]
        if len(index) and np.all(groups == groups[0]):
            return self.groups[int(groups[0])].moments(self._local[index], X, columns=columns)
        mean, covariance = np.empty(len(X)), np.zeros((len(X), len(X)))
        for g in np.unique(groups):
            rows = np.flatnonzero(groups == g)
            own = None if columns is None else [columns[int(i)] for i in rows]
            mean[rows], C = self.groups[g].moments(self._local[index[rows]], X[rows], columns=own)
            covariance[np.ix_(rows, rows)] = C
        return mean, covariance

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of contexts X (m, d) solved as far as their groups solve them ahead."""
        index, X = self._checked(tasks, X)
        found = list(columns)
        for g in np.unique(self._group_of[index]):
            rows = np.flatnonzero(self._group_of[index] == g)
            mine = self.groups[g].refreshed(self._local[index[rows]], X[rows], [found[i] for i in rows])
            for i, column in zip(rows, mine, strict=True):
                found[i] = column
        return found

    def sample(self, tasks: ArrayLike, X: ArrayLike, *, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f at contexts X (m, d), (size, m)."""
        return draw_joint(self.predict(tasks, X).mean, self.covariance(tasks, X), size=size, rng=rng)

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of row `index`."""
        group, row = self._find(index)
        self.groups[group].correct(row, y)

    def remove(self, index: int) -> None:
        """Forget row `index`; later rows move up."""
        group, row = self._find(index)
        self.groups[group].remove(row)
        self._learned = np.delete(self._row_groups, index)
        self._filled = len(self._learned)

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks, one after the other: K_Z (M', M') begins with the present matrix.

        Example:
            >>> from kinband.kernels import RBF
            >>> posterior = GroupedPosterior(RBF(0.5), np.eye(2), noise=0.1)
            >>> posterior.update([0], [[0.0]], [1.0])
            >>> posterior.extend_tasks([[1.0, 0.0, 0.8], [0.0, 1.0, 0.0], [0.8, 0.0, 1.0]])
            >>> len(posterior.groups), posterior.predict([2], [[0.0]]).mean.round(2)
            (2, array([0.73]))
        """
        larger = extended(K_Z, self._K_Z)
        for task in range(len(self._K_Z), len(larger)):
            self._add_task(larger[: task + 1, : task + 1])

    def _add_task(self, K_Z: FloatArray) -> None:
        """Take in one more task; groups keep the order of `components`, that of their first members."""
        task = len(K_Z) - 1
        members = [np.flatnonzero(self._group_of == g) for g in range(len(self.groups))]
        joined = np.unique(self._group_of[np.flatnonzero(K_Z[task, :task])])
        own = np.sort(np.concatenate([np.array([task]), *(members[g] for g in joined)]))
        likeness = K_Z[np.ix_(own, own)]
        if len(joined) == 1:
            self.groups[joined[0]].extend_tasks(likeness)
            members[joined[0]] = own
        else:
            self._replace(joined, self._merged(joined, own, likeness))
            members = [m for g, m in enumerate(members) if g not in joined]
            members.insert(int(joined[0]) if len(joined) else len(members), own)
        self._K_Z = K_Z
        self._number(members)

    def _replace(self, joined: IntArray, group: Member) -> None:
        """Put one group in the place of several, or behind all if it replaces none; the rows know their new numbers."""
        place = int(joined[0]) if len(joined) else len(self.groups)
        left = [g for g in range(len(self.groups)) if g not in joined]
        numbers = np.full(len(self.groups), place, dtype=np.int32)
        numbers[left] = [i + (g > place) for i, g in enumerate(left)]
        self._learned[: self._filled] = numbers[self._row_groups]
        self.groups = [self.groups[g] for g in left]
        self.groups.insert(place, group)

    def _merged(self, joined: IntArray, tasks: IntArray, K_Z: FloatArray) -> Member:
        """Return one posterior for the tasks (m,) of several groups, which has learned their rows as they were told."""
        merged = self._empty(K_Z)
        known = [g for g in joined if len(self.groups[g])]
        if not known:
            return merged
        rows = [_kept_rows(self.groups[g]) for g in known]
        order = self._row_groups[np.isin(self._row_groups, known)]
        told = np.argsort(np.argsort(order, kind="stable"))  # from group after group to the order of telling
        names = [np.flatnonzero(self._group_of == g)[part.tasks] for g, part in zip(known, rows, strict=True)]
        local = np.searchsorted(tasks, np.concatenate(names)[told])
        X, y, noise = (np.concatenate([getattr(part, name) for part in rows])[told] for name in ("X", "y", "noise"))
        merged.update(local, X, y, noise=noise)
        return merged

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return the state of every group as plain arrays, prefixed by its number."""
        state: dict[str, FloatArray | IntArray] = {"row_groups": self._row_groups.astype(np.int64)}
        for g, group in enumerate(self.groups):
            if len(group):
                state |= {f"{g}.{name}": array for name, array in group.state().items()}
        return state

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        self._learned = np.array(state["row_groups"], dtype=np.int32)
        self._filled = len(self._learned)
        for g in np.unique(self._row_groups):
            prefix = f"{g}."
            part = {name.removeprefix(prefix): a for name, a in state.items() if name.startswith(prefix)}
            self.groups[g].restore(part)
            self._width = part["X"].shape[1]

    def _checked(self, tasks: ArrayLike, X: ArrayLike) -> tuple[IntArray, FloatArray]:
        return checked_contexts(tasks, X, size=len(self._group_of), width=self._width)

    def _find(self, index: int) -> tuple[int, int]:
        """Return the group that learned row `index` of all, and the row's number there."""
        if not 0 <= index < len(self):
            raise BadInputError(f"there is no row {index}: {len(self)} rows are known")
        group = self._row_groups[index]
        return int(group), int(np.count_nonzero(self._row_groups[:index] == group))


def _kept_rows(member: Member) -> Rows:
    """Return the rows of a posterior that keeps them, or say that the log has to be learned anew."""
    present = member.present if isinstance(member, SwitchingPosterior) else member
    if isinstance(present, SparsePosterior):
        raise CannotCorrectError("sparse posteriors keep no rows to join: learn the log anew with the new task")
    rows = present.rows
    return Rows(rows.tasks, rows.X, rows.y, rows.noise)
