"""The posterior that policies use: blocks of stations that share nothing, each exact or sparse.

A task matrix that falls into blocks makes K̃ block-diagonal. Factorising it as one would cost the cube (here the square,
per step) of all rows together; a posterior per block costs that of its own rows. Independent stations (K_Z = I) are the
case in which every block has one member. A task that comes later is a block of its own, joins the block it is like, or,
if it is like several, makes one of them: the new block learns the rows of the old ones, in the order in which they were
told.

Exact as long as that is cheap, sparse from then on: an exact block costs n² per decision and 4n² bytes. The first
update that takes it beyond `exact_rows` gives all rows kept so far to a sparse one, thousands of rows being a good view
to choose inducing points from, and is learned by that. The hand-over depends on the count of rows alone, so that a
replay makes it at the same reward; it is said once, in the program's log.

Posteriors may live in workers of a Ray cluster (`remote`), which then predict at the same time.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, CannotCorrectError, NotPositiveDefiniteError
from kinband.kernels import Kernel, TaskCovariance, as_task_covariance, components, leading
from kinband.posterior.base import Column, JointBelief, Positions, Posterior, Prediction, Rows, State, extended
from kinband.posterior.exact import ExactPosterior
from kinband.posterior.schur import SchurPosterior
from kinband.posterior.sparse import INDUCING_POINTS, SparsePosterior, checked_inducing_points

if TYPE_CHECKING:
    from kinband.cluster import OnRay

SWITCH_ROWS = 8000
"""Rows up to which the posterior is exact, unless another number is given: a quarter of a gigabyte, and several times
the time of a sparse decision."""

_WHOLE_BLOCKS = 64  # so many blocks get all inducing points; beyond, all together take the memory of these

ENGINES = ("exact", "schur", "sparse", "auto")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Apart:
    """How f hangs together at contexts of several blocks: not at all between two of them.

    Attributes:
        blocks: Which of `joints` a context belongs to, (m,).
        places: Its position there, (m,).
        joints: Those of the blocks, by number.
    """

    blocks: IntArray
    places: IntArray
    joints: Mapping[int, JointBelief | None]

    def covariance(self, a: IntArray, b: IntArray) -> FloatArray:
        """Return the covariances of f at contexts a (p,) and b (q,), by position: (p, q)."""
        found = np.zeros((len(a), len(b)))
        for g in np.intersect1d(self.blocks[a], self.blocks[b]).tolist():
            rows, columns = np.flatnonzero(self.blocks[a] == g), np.flatnonzero(self.blocks[b] == g)
            joint = self.joints[g]
            if joint is not None:
                found[np.ix_(rows, columns)] = joint.covariance(self.places[a[rows]], self.places[b[columns]])
        return found

    def column(self, position: int) -> Column | None:
        """Return what an update at a context can take up."""
        joint = self.joints[int(self.blocks[position])]
        return None if joint is None else joint.column(int(self.places[position]))

    def at(self, positions: Positions) -> "_Apart":
        """Return the same for some of the contexts."""
        return _Apart(self.blocks[positions], self.places[positions], self.joints)


class BlockedPosterior(Posterior):
    """Separate posteriors for the connected blocks of a task matrix, behind the contract of one.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
        engine: "exact", "schur", "sparse", or "auto": exact up to `exact_rows`, sparse beyond.
        inducing_points: How many of them a sparse block keeps.
        exact_rows: For "auto", up to how many rows a block stays exact.
        configurations: Features of the arms, (N, f), where contexts are a state followed by one of these.
        on: The cluster that blocks live on; None for this process.

    Attributes:
        blocks: The posteriors, in the order of their first tasks.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = BlockedPosterior(RBF(0.5), np.eye(3), noise=0.1)
        >>> posterior.update([0, 2], [[0.0], [0.0]], [1.0, 0.0])
        >>> len(posterior.blocks), posterior.predict([0, 1], [[0.0], [0.0]]).mean.round(2)
        (3, array([0.91, 0.  ]))
    """

    def __init__(
        self,
        kernel: Kernel,
        K_Z: ArrayLike,
        *,
        noise: float,
        mean: float = 0.0,
        engine: str = "exact",
        inducing_points: int = INDUCING_POINTS,
        exact_rows: int = SWITCH_ROWS,
        configurations: FloatArray | None = None,
        on: "OnRay | None" = None,
    ) -> None:
        super().__init__(kernel, K_Z, noise=noise, mean=mean)
        if engine not in ENGINES:
            known = ", ".join(ENGINES)
            raise BadInputError(f"unknown engine {engine!r}: choose one of {known}", argument="engine", value=engine)
        self.inducing_points = checked_inducing_points(inducing_points)
        self.exact_rows = _checked_limit(exact_rows) if engine == "auto" else None
        given: dict[str, Any] = {"noise": self.noise, "mean": self.mean}
        self._on = on
        self._sparse: Callable[..., Posterior] = partial(
            SparsePosterior, kernel, inducing_points=self.inducing_points, **given
        )
        engines: dict[str, Callable[..., Posterior]] = {
            "schur": partial(SchurPosterior, kernel, **given),
            "sparse": self._sparse,
        }
        exact: Callable[..., Posterior] = partial(ExactPosterior, kernel, configurations=configurations, **given)
        self._empty = engines.get(engine, exact)
        if on is not None:
            from kinband.posterior.remote import RemoteBlock

            there = partial(
                BlockedPosterior, kernel, engine=engine, inducing_points=inducing_points, exact_rows=exact_rows,
                configurations=configurations, **given,
            )  # fmt: skip
            self._empty = self._sparse = partial(RemoteBlock, kernel, on=on, make=there, **given)
            self.exact_rows = None  # a worker hands over by itself
        members = components(self.K_Z)
        self.blocks: list[Posterior] = [self._empty(self.K_Z[np.ix_(m, m)]) for m in members]
        self._number(members)
        self._learned, self._filled = np.empty(0, dtype=np.int32), 0  # which block learned the i-th row

    def __len__(self) -> int:
        return self._filled

    def parts(self) -> Iterator[tuple[Posterior, IntArray]]:
        """Yield every block with the tasks that its own numbers 0, 1, ... stand for."""
        for g, block in enumerate(self.blocks):
            yield block, np.flatnonzero(self._block_of == g)

    def predict(self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column | None] = ()) -> Prediction:
        """Return what is believed about f for tasks (m,) at contexts X (m, d)."""
        if len(self.blocks) == 1:
            return self.blocks[0].predict(tasks, X, columns=columns)
        index, X = self._checked_contexts(tasks, X)
        blocks = self._block_of[index]
        touched: list[int] = np.unique(blocks).tolist()
        if len(touched) == 1:
            return self.blocks[touched[0]].predict(self._local[index], X, columns=columns)
        mean, std, places = np.empty(len(X)), np.empty(len(X)), np.empty(len(X), dtype=np.int64)
        joints: dict[int, JointBelief | None] = {}
        rows_of = {g: np.flatnonzero(blocks == g) for g in touched}
        for (g, rows), part in zip(rows_of.items(), self._predicted(rows_of, index, X, columns), strict=True):
            mean[rows], std[rows], places[rows], joints[g] = part.mean, part.std, np.arange(len(rows)), part.joint
        return Prediction(mean, std, _Apart(blocks, places, joints))

    def sums(self, tasks: IntArray, X: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and std of weighted sums of f; see `Posterior.sums`."""
        mean, std, blocks = np.empty(len(W)), np.empty(len(W)), self._block_of[tasks]
        for g in np.unique(blocks).tolist():
            mine = blocks == g
            mean[mine], std[mine] = self.blocks[g].sums(self._local[tasks[mine]], X[mine], W[mine])
        return mean, std

    def _predicted(
        self, rows_of: Mapping[int, IntArray], tasks: IntArray, X: FloatArray, columns: Sequence[Column | None]
    ) -> Sequence[Prediction]:
        """Return the prediction of every block for its rows of contexts X (m, d)."""
        if self._on is not None:
            from kinband.posterior.remote import predict_all

            return predict_all(self._on, [(self.blocks[g], self._local[tasks[r]], X[r]) for g, r in rows_of.items()])
        return [
            self.blocks[g].predict(
                self._local[tasks[rows]], X[rows], columns=[columns[int(i)] for i in rows] if columns else ()
            )
            for g, rows in rows_of.items()
        ]

    def _learn(self, rows: Rows, column: Column | None) -> None:
        """Learn checked rows, all or nothing, a hand-over included."""
        blocks = self._block_of[rows.tasks]
        touched: list[int] = np.unique(blocks).tolist()
        parts = {
            g: Rows(self._local[rows.tasks[mine]], rows.X[mine], rows.y[mine], rows.noise[mine])
            for g in touched
            for mine in [blocks == g]
        }
        if self._on is None:
            self._teach(parts, column)
        else:
            from kinband.posterior.remote import update_all

            update_all(self._on, [(self.blocks[g], part) for g, part in parts.items()])
        self._note(blocks)

    def _teach(self, parts: Mapping[int, Rows], column: Column | None) -> None:
        """Let blocks learn their rows, all or nothing."""
        before = {g: (self.blocks[g], self.blocks[g].state()) for g in parts} if len(parts) > 1 else {}
        try:
            for g, rows in parts.items():
                self.blocks[g] = self._taught(self.blocks[g], rows, column)
        except NotPositiveDefiniteError:
            for g, (block, state) in before.items():
                block.restore(state)
                self.blocks[g] = block
            raise

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of row `index`, as long as its block keeps rows."""
        block, row = self._find(index)
        self.blocks[block].correct(row, y)

    def check_extension(self, K_Z: ArrayLike) -> None:
        """Raise `CannotCorrectError` where blocks would be joined of which one has learned rows and keeps none."""
        for members in components(extended(K_Z, self.K_Z)):
            joined = np.unique(self._block_of[members[members < len(self.K_Z)]])
            for block in (self.blocks[g] for g in joined if len(joined) > 1 and len(self.blocks[g])):
                kept_rows(block)

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks, one after the other: K_Z (M', M') begins with the present matrix.

        Example:
            >>> from kinband.kernels import RBF
            >>> posterior = BlockedPosterior(RBF(0.5), np.eye(2), noise=0.1)
            >>> posterior.update([0], [[0.0]], [1.0])
            >>> posterior.extend_tasks([[1.0, 0.0, 0.8], [0.0, 1.0, 0.0], [0.8, 0.0, 1.0]])
            >>> len(posterior.blocks), posterior.predict([2], [[0.0]]).mean.round(2)
            (2, array([0.73]))
        """
        larger = extended(K_Z, self.K_Z)
        for task in range(len(self.K_Z), len(larger)):
            self._add_task(leading(larger, task + 1))

    def state(self) -> State:
        """Return the state of every block as plain arrays, prefixed by its number where there are several."""
        if len(self.blocks) == 1:
            return self._state_of(self.blocks[0])
        state: State = {"row_groups": self._row_blocks.astype(np.int64)}
        for g, block in enumerate(self.blocks):
            if len(block):
                state |= {f"{g}.{name}": array for name, array in self._state_of(block).items()}
        return state

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        if "row_groups" in state:
            self._learned = np.array(state["row_groups"], dtype=np.int32)
        else:
            rows = int(state["rows"][0]) if "rows" in state else len(state["y"])
            self._learned = np.zeros(rows, dtype=np.int32)
        self._filled = len(self._learned)
        self.blocks = [self._empty(block.K_Z) for block in self.blocks]
        for g in np.unique(self._row_blocks).tolist():
            prefix = f"{g}." if "row_groups" in state else ""
            part = {name.removeprefix(prefix): a for name, a in state.items() if name.startswith(prefix)}
            sparse = "is_sparse" in part and bool(part["is_sparse"][0])
            if sparse:
                self.blocks[g] = self._sparse(self.blocks[g].K_Z)
            self.blocks[g].restore(part)
            self._features = part["X"].shape[1]

    def _state_of(self, block: Posterior) -> State:
        if self.exact_rows is None:
            return block.state()
        return {**block.state(), "is_sparse": np.array([isinstance(block, SparsePosterior)], dtype=np.int64)}

    def _taught(self, block: Posterior, rows: Rows, column: Column | None) -> Posterior:
        """Return a block that has learned further rows: itself, or a sparse one where it has grown too large."""
        limit = self.exact_rows
        if limit is None or not isinstance(block, ExactPosterior) or len(block) + len(rows.y) <= limit:
            block.update(rows.tasks, rows.X, rows.y, noise=rows.noise, column=column)
            return block
        sparse = self._sparse(block.K_Z)
        if len(block):
            sparse.update(block.rows.tasks, block.rows.X, block.rows.y, noise=block.rows.noise)
        sparse.update(rows.tasks, rows.X, rows.y, noise=rows.noise)
        words = "beyond %d rows a sparse posterior of %d inducing points takes the place of the exact one"
        _log.log(logging.INFO if len(self.blocks) > 1 else logging.WARNING, words, limit, self.inducing_points)
        return sparse

    def _number(self, members: Sequence[IntArray]) -> None:
        """Note which tasks the blocks have, and under which numbers."""
        size = sum(map(len, members))
        self._block_of, self._local = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for g, m in enumerate(members):
            self._block_of[m], self._local[m] = g, np.arange(len(m))

    @property
    def _row_blocks(self) -> IntArray:
        rows: IntArray = self._learned[: self._filled]  # type: ignore[assignment]
        return rows

    def _note(self, blocks: IntArray) -> None:
        """Note which blocks learned the next rows, (b,), in an array that doubles when it is full."""
        start, stop = self._filled, self._filled + len(blocks)
        if stop > len(self._learned):
            larger = np.zeros(max(stop, 2 * start, 16), dtype=np.int32)
            larger[:start] = self._row_blocks
            self._learned = larger
        self._learned[start:stop], self._filled = blocks, stop

    def _add_task(self, K_Z: TaskCovariance) -> None:
        """Take in one more task; blocks keep the order of `components`, that of their first members."""
        task = len(K_Z) - 1
        members = [m for _, m in self.parts()]
        joined = np.unique(self._block_of[np.flatnonzero(K_Z[task, :task])])
        own = np.sort(np.concatenate([np.array([task]), *(members[g] for g in joined)]))
        K_own = K_Z[np.ix_(own, own)]
        if len(joined) == 1:
            self.blocks[joined[0]].extend_tasks(K_own)
            members[joined[0]] = own
        else:
            self._replace(joined, self._merged(joined, own, K_own))
            members = [m for g, m in enumerate(members) if g not in joined]
            members.insert(int(joined[0]) if len(joined) else len(members), own)
        super().extend_tasks(K_Z)
        self._number(members)

    def _replace(self, joined: IntArray, block: Posterior) -> None:
        """Put one block in the place of several, or behind all if it replaces none; the rows know their new numbers."""
        place = int(joined[0]) if len(joined) else len(self.blocks)
        left = [g for g in range(len(self.blocks)) if g not in joined]
        numbers = np.full(len(self.blocks), place, dtype=np.int32)
        numbers[left] = [i + (g > place) for i, g in enumerate(left)]
        self._learned[: self._filled] = numbers[self._row_blocks]
        self.blocks = [self.blocks[g] for g in left]
        self.blocks.insert(place, block)

    def _merged(self, joined: IntArray, tasks: IntArray, K_Z: FloatArray) -> Posterior:
        """Return one posterior for the tasks (m,) of several blocks, which has learned their rows as they were told."""
        merged = self._empty(K_Z)
        known = [int(g) for g in joined if len(self.blocks[g])]
        if not known:
            return merged
        rows = [kept_rows(self.blocks[g]) for g in known]
        order = self._row_blocks[np.isin(self._row_blocks, known)]
        told = np.argsort(np.argsort(order, kind="stable"))  # from block after block to the order of telling
        names = [np.flatnonzero(self._block_of == g)[part.tasks] for g, part in zip(known, rows, strict=True)]
        local = np.searchsorted(tasks, np.concatenate(names)[told])
        X, y, noise = (np.concatenate([getattr(part, name) for part in rows])[told] for name in ("X", "y", "noise"))
        return self._taught(merged, Rows(local, X, y, noise), None)

    def _find(self, index: int) -> tuple[int, int]:
        """Return the block that learned row `index` of all, and the row's number there."""
        self._check_row(index)
        block = self._row_blocks[index]
        return int(block), int(np.count_nonzero(self._row_blocks[:index] == block))


def make_posterior(
    kernel: Kernel,
    K_Z: ArrayLike,
    *,
    noise: float,
    mean: float = 0.0,
    engine: str = "exact",
    inducing_points: int = INDUCING_POINTS,
    configurations: FloatArray | None = None,
    on: "OnRay | None" = None,
) -> BlockedPosterior:
    """Return an empty posterior whose memory stays bounded however many stations share nothing.

    `inducing_points` is how many of them a sparse posterior keeps, in each block; with more than 64 blocks it shrinks
    with the root of their number, and so does the size at which "auto" gives up being exact. `configurations`, features
    of the arms (N, f), says that contexts are a state followed by one of these; `on` is the cluster they live on.

    Example:
        >>> from kinband.kernels import RBF
        >>> len(make_posterior(RBF(), [[1.0, 0.5], [0.5, 1.0]], noise=0.1).blocks)
        1
        >>> len(make_posterior(RBF(), [[1.0, 0.0], [0.0, 1.0]], noise=0.1).blocks)
        2
    """
    K_Z = as_task_covariance(K_Z)
    blocks = len(components(K_Z))
    points = max(2, ceil(checked_inducing_points(inducing_points) * min(1.0, sqrt(_WHOLE_BLOCKS / blocks))))
    return BlockedPosterior(
        kernel, K_Z, noise=noise, mean=mean, engine=engine, inducing_points=points,
        exact_rows=max(points, ceil(SWITCH_ROWS / sqrt(blocks))), configurations=configurations, on=on,
    )  # fmt: skip


def kept_rows(block: Posterior) -> Rows:
    """Return the rows of a block that keeps them, or say that the log has to be learned anew."""
    if not isinstance(block, ExactPosterior | SchurPosterior):
        raise CannotCorrectError("these posteriors keep no rows to join", hint="learn the log again with the new task")
    return Rows(block.rows.tasks, block.rows.X, block.rows.y, block.rows.noise)


def _checked_limit(rows: Any) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise BadInputError(
            f"exact_rows must be a whole number from 1 on, got {rows!r}",
            hint="8000 suits most",
            argument="exact_rows",
            value=rows,
        )
    return int(rows)
