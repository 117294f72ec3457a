"""From scores to rewards: every task against its own first configuration, all in units of the whole table.

A *cell* is one task under one configuration; it holds all its measurements, or none where it was never run.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments.measured.table import MeasuredTable
from kinband.errors import BadInputError


@dataclass(frozen=True, eq=False)
class Cells:
    """The rewards of all measurements, cell by cell.

    Attributes:
        values: Rewards, sorted by task and configuration, (n,).
        counts: Measurements of each cell, (M, N).
        failed: In which cells a run failed, (M, N).
        truth: Mean of each cell, (M, N); where there is none, the worst of the task.

    Example:
        >>> columns = {"task": ["a"] * 3 + ["b"] * 2, "level": [1, 1, 2, 1, 2], "seconds": [1, 4, 8, 2, 0]}
        >>> cells = Cells.of(MeasuredTable.from_frame(columns, "seconds", goal="min"))
        >>> cells.counts.tolist(), cells.failed.tolist()
        ([[2, 1], [1, 1]], [[False, False], [False, True]])
        >>> cells.truth.round(3).tolist()  # of -1, -3 and -1; b's failure pays b's worst
        [[0.0, -2.121], [0.0, 0.0]]
    """

    values: FloatArray
    counts: IntArray
    failed: BoolArray
    truth: FloatArray

    @classmethod
    def of(cls, table: MeasuredTable) -> "Cells":
        """Return the cells of a table, or say that nothing can be gained there."""
        M, N = len(table.tasks), len(table.space)
        cell, well = table.task * N + table.arm, ~np.isnan(table.score)
        ran = np.bincount(cell[well], minlength=M * N).reshape(M, N)
        means = _means(cell[well], table.score[well], ran)
        first = means[np.arange(M), (ran > 0).argmax(axis=1)]
        means -= first[:, None]
        spread = float(means[ran > 0].std())
        if spread <= 1e-12 * max(1.0, float(np.abs(table.score[well]).max())):
            raise BadInputError("no configuration does better than another for any task: there is nothing to gain")
        worst = np.where(ran > 0, means, np.inf).min(axis=1) / spread
        values = np.where(well, (table.score - first[table.task]) / spread, worst[table.task])
        counts = np.bincount(cell, minlength=M * N).reshape(M, N)
        truth = np.where(counts > 0, _means(cell, values, counts), worst[:, None])
        return cls(values[np.argsort(cell, kind="stable")], counts, counts > ran, truth)

    @cached_property
    def starts(self) -> IntArray:
        """Where in `values` each cell begins, (M, N)."""
        return (np.cumsum(self.counts) - self.counts.ravel()).reshape(self.counts.shape)

    def draw(self, task: IntArray, arm: IntArray, rng: np.random.Generator, *, noise: float) -> FloatArray:
        """Return rewards of cells that were run, (...): one of several measurements, or the only one plus noise.

        Example:
            >>> columns = {"task": ["a", "a", "b", "b"], "level": [1, 2, 1, 2], "seconds": [1, 2, 4, 8]}
            >>> cells = Cells.of(MeasuredTable.from_frame(columns, "seconds", goal="max"))
            >>> cells.draw(np.array([0, 1]), np.array([1, 1]), np.random.default_rng(0), noise=0.0).tolist()
            [2.0, 2.0]
        """
        counts, place = self.counts[task, arm], rng.random(np.broadcast(task, arm).shape)
        around = rng.standard_normal(place.shape)
        rows = self.starts[task, arm] + (place * counts).astype(np.int64)
        once = (counts == 1) & ~self.failed[task, arm]
        drawn: FloatArray = np.where(once, self.truth[task, arm] + noise * around, self.values[rows % len(self.values)])
        return drawn

    def draw_all(self, rng: np.random.Generator, *, noise: float) -> FloatArray:
        """Return a reward of every cell, (M, N); one that was never run gets the least of its task."""
        M, N = self.counts.shape
        task, arm = np.broadcast_to(np.arange(M)[:, None], (M, N)), np.broadcast_to(np.arange(N), (M, N))
        drawn, ran = self.draw(task, arm, rng, noise=noise), self.counts > 0
        return np.where(ran, drawn, np.where(ran, drawn, np.inf).min(axis=1, keepdims=True))


def _means(cell: IntArray, values: FloatArray, counts: IntArray) -> FloatArray:
    """Mean value of each cell, (M, N); 0 where it has none."""
    sums = np.bincount(cell, weights=values, minlength=counts.size).reshape(counts.shape)
    return np.divide(sums, counts, out=np.zeros(counts.shape), where=counts > 0)
