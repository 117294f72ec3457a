"""A task matrix K_Z: its checks, its structure, and the form of one that is zero between groups of tasks.

A network of thousands of stations learns in groups, and similarity between groups is given up. Of 20,000 stations in
groups of a hundred the whole matrix would be 3.2 GB, the blocks on its diagonal are 16 MB.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array
from kinband.errors import BadInputError

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
    _check_size(M, size)
    if np.diag(K_Z).min() <= 0:
        raise BadInputError(f"task matrix needs a diagonal above zero, got {np.diag(K_Z).min():g}")
    tolerance = ROUNDING * M * float(np.diag(K_Z).max())
    asymmetry = float(np.abs(K_Z - K_Z.T).max())
    if asymmetry > tolerance:
        raise BadInputError(
            f"task matrix must be symmetric, entries (i, j) and (j, i) differ by {asymmetry:g}: average them"
        )
    return _semi_definite(0.5 * (K_Z + K_Z.T), tolerance)


def _check_size(M: int, size: int | None) -> None:
    if size is not None and size != M:
        raise BadInputError(f"task matrix must have one row for each of {size} stations, got {M}")


def _semi_definite(K_Z: FloatArray, tolerance: float) -> FloatArray:
    """Return K_Z if it is positive semi-definite up to rounding; factors of its blocks are the cheapest proof."""
    for members in components(K_Z):
        block = K_Z[np.ix_(members, members)]
        try:
            np.linalg.cholesky(block + tolerance * np.eye(len(block)))
        except np.linalg.LinAlgError:
            smallest = float(np.linalg.eigvalsh(block)[0])
            raise BadInputError(
                f"task matrix is not positive semi-definite, smallest eigenvalue {smallest:g}: "
                "project it with nearest_correlation"
            ) from None
    return K_Z


# --- Zero between groups --------------------------------------------------------------------------------------------


class BlockMatrix:
    """A task matrix (M, M) that is zero between groups of tasks and keeps what lies inside them alone, read-only.

    It is indexed as an array is; `np.asarray` makes the whole matrix of it, M² numbers.

    Args:
        groups: The group of each task, (M,).
        entries: The block of every group row by row, one after the other; groups ascend, and members within a group.

    Example:
        >>> K_Z = BlockMatrix([0, 1, 0], [1.0, 0.5, 0.5, 1.0, 2.0])
        >>> K_Z[0], K_Z[0, [1, 2]], K_Z.diagonal()
        (array([1. , 0. , 0.5]), array([0. , 0.5]), array([1., 2., 1.]))
        >>> np.asarray(K_Z)
        array([[1. , 0. , 0.5],
               [0. , 2. , 0. ],
               [0.5, 0. , 1. ]])
    """

    def __init__(self, groups: ArrayLike, entries: ArrayLike) -> None:
        self.groups = np.unique(np.asarray(groups), return_inverse=True)[1].astype(np.int64)
        self.members = _members(self.groups)
        sizes = np.array([len(members) for members in self.members], dtype=np.int64)
        ends = np.cumsum(sizes**2)
        given = finite_array(entries, name="task matrix", ndim=1)
        if not len(sizes) or len(given) != ends[-1]:
            raise BadInputError(f"groups of {sizes.tolist()!r:.60} tasks do not have {len(given):,} entries")
        blocks = np.split(given, ends[:-1])
        self.entries = np.concatenate(
            [
                block if m == 1 and block[0] > 0 else check_task_matrix(block.reshape(m, m)).ravel()
                for block, m in zip(blocks, sizes.tolist(), strict=True)
            ]
        )
        self.entries.setflags(write=False)
        local = np.empty(len(self.groups), dtype=np.int64)
        for members in self.members:
            local[members] = np.arange(len(members))
        self._column, self._row = local, (ends - sizes**2)[self.groups] + local * sizes[self.groups]

    @classmethod
    def apart(cls, size: int) -> "BlockMatrix":
        """Return the matrix of tasks that share nothing, each a group of its own, with variance 1."""
        return cls(np.arange(size), np.ones(size))

    @classmethod
    def of(cls, members: Sequence[IntArray], blocks: Iterable[FloatArray]) -> "BlockMatrix":
        """Return the matrix of groups, each given by its members in any order and its block in theirs.

        Groups are numbered in the order of their first members.

        Example:
            >>> BlockMatrix.of([np.array([2, 0]), np.array([1])], [np.diag([3.0, 1.0]), np.eye(1)]).diagonal()
            array([1., 1., 3.])
        """
        groups, entries = np.empty(sum(map(len, members)), dtype=np.int64), []
        given = sorted(zip(members, blocks, strict=True), key=lambda one: int(one[0].min()))
        for number, (m, block) in enumerate(given):
            order = np.argsort(m)
            groups[m] = number
            entries.append(block[np.ix_(order, order)].ravel())
        return cls(groups, np.concatenate(entries))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns, (M, M)."""
        return len(self.groups), len(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: Any) -> Any:
        every = np.arange(len(self))
        i, j = index if isinstance(index, tuple) else (index, slice(None))
        rows, columns = every[i], every[j]
        if np.ndim(rows) == 1 and np.ndim(columns) == 1 and (isinstance(i, slice) or isinstance(j, slice)):
            rows = rows[:, None]
        inside = self.groups[rows] == self.groups[columns]
        return np.where(inside, self.entries[np.where(inside, self._row[rows] + self._column[columns], 0)], 0.0)[()]

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        found = np.empty(len(self))
        for members in self.members:
            found[members] = self[np.ix_(members, members)] @ vector[members]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        del copy  # always a new one
        return np.asarray(self[:, :], dtype=dtype)

    def __repr__(self) -> str:
        return f"BlockMatrix(<{len(self)} tasks in {len(self.members)} groups>)"

    def diagonal(self) -> FloatArray:
        """Return the variance of every task, (M,)."""
        return np.asarray(self.entries[self._row + self._column])

    def sum(self) -> float:
        """Return the sum of all entries."""
        return float(self.entries.sum())

    def taken(self, tasks: IntArray) -> "BlockMatrix":
        """Return the matrix of some tasks, all different, in their order.

        Example:
            >>> np.asarray(BlockMatrix([0, 1, 0], [1.0, 0.5, 0.5, 1.0, 2.0]).taken(np.array([2, 1])))
            array([[1., 0.],
                   [0., 2.]])
        """
        members = _members(self.groups[tasks])
        return BlockMatrix.of(members, (self[np.ix_(tasks[m], tasks[m])] for m in members))

    def with_row(self, row: FloatArray) -> "BlockMatrix":
        """Return the matrix with one more task behind, which makes one group of those it is like; row (M + 1,)."""
        joined = np.unique(self.groups[np.flatnonzero(row[:-1])])
        own = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *(self.members[g] for g in joined)]))
        block = np.empty((len(own) + 1, len(own) + 1))
        block[:-1, :-1], block[-1], block[:, -1] = self[np.ix_(own, own)], row[[*own, -1]], row[[*own, -1]]
        left = [m for g, m in enumerate(self.members) if g not in joined]
        blocks = [self[np.ix_(m, m)] for m in left]
        return BlockMatrix.of([*left, np.append(own, len(self))], [*blocks, block])


TaskCovariance = FloatArray | BlockMatrix
"""A task matrix in one form or the other."""


def _members(groups: IntArray) -> list[IntArray]:
    """Return the tasks of each group, ascending; `groups` (M,) are numbers."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def as_task_covariance(K_Z: ArrayLike, *, size: int | None = None) -> TaskCovariance:
    """Return a task matrix in the form that it has, checked.

    Example:
        >>> as_task_covariance(BlockMatrix([0, 1], [1.0, 2.0]), size=2)
        BlockMatrix(<2 tasks in 2 groups>)
    """
    if not isinstance(K_Z, BlockMatrix):
        return check_task_matrix(K_Z, size=size)
    _check_size(len(K_Z), size)
    return K_Z


def in_blocks(K_Z: TaskCovariance) -> BlockMatrix:
    """Return a task matrix as its components, so that two that say the same have the same groups and entries.

    Example:
        >>> in_blocks(np.eye(2)).entries
        array([1., 1.])
    """
    members = components(K_Z)
    return BlockMatrix.of(members, (K_Z[np.ix_(m, m)] for m in members))


def leading(K_Z: TaskCovariance, size: int) -> TaskCovariance:
    """Return the matrix of the first tasks."""
    return K_Z.taken(np.arange(size)) if isinstance(K_Z, BlockMatrix) else K_Z[:size, :size]


def same_matrix(one: TaskCovariance, other: TaskCovariance) -> bool:
    """Whether two task matrices hold the same numbers."""
    if not isinstance(one, BlockMatrix) and not isinstance(other, BlockMatrix):
        return np.array_equal(one, other)
    if isinstance(one, BlockMatrix) and isinstance(other, BlockMatrix) and np.array_equal(one.groups, other.groups):
        return np.array_equal(one.entries, other.entries)
    first, second = in_blocks(one), in_blocks(other)
    return np.array_equal(first.groups, second.groups) and np.array_equal(first.entries, second.entries)


def components(K_Z: TaskCovariance) -> list[IntArray]:
    """Return the groups of tasks that share evidence: connected components of the non-zero K_Z (M, M).

    Members ascend, and groups come in order of their first member.

    Example:
        >>> [c.tolist() for c in components(np.array([[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]]))]
        [[0, 2], [1]]
    """
    if isinstance(K_Z, BlockMatrix):
        found = [m[c] for m in K_Z.members for c in components(K_Z[np.ix_(m, m)])]
        return sorted(found, key=lambda members: int(members[0]))
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
