"""Trials of a budget of rewards: what is kept of one until its block is settled, and the work that is not done twice.

A budget looks at a trial three times: when it is weighed, when its reward is told, and when its block is full. Each
time it needs what is believed of what is tried and of what that replaces, together, which takes a solved column of
both. The scores of a decision leave both behind; so they are kept, and only what the factor has grown by since is
solved. Columns that are gone are solved anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray
from kinband.posterior import Column, Posterior, Prediction


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial whose reward is known and whose block is not full yet.

    Attributes:
        task: Whose it is.
        x: Context of what was tried, (d,).
        today: Context of what it replaced, (d,).
        share: k, how much of the reward is taken for a fact.
        reward: What it earned, counted from `least`.
        lower: Bound of what it adds until the block is full.
        columns: Of both contexts, where they are at hand.

    Example:
        >>> trial = Trial(1, np.array([0.5]), np.array([0.0]), share=0.4, reward=0.8, lower=-0.1)
        >>> trial.row().tolist()
        [1.0, 0.4, 0.8, -0.1, 0.5, 0.0]
        >>> Trial.of(trial.row()).x
        array([0.5])
    """

    task: int
    x: FloatArray
    today: FloatArray
    share: float
    reward: float
    lower: float
    columns: tuple[Column | None, Column | None] = (None, None)

    def row(self) -> FloatArray:
        """Return the trial as numbers, (4 + 2d,)."""
        return np.concatenate([[self.task, self.share, self.reward, self.lower], self.x, self.today])

    @classmethod
    def of(cls, row: FloatArray) -> "Trial":
        """Return the trial that `row` wrote."""
        x, today = np.split(row[4:], 2)
        share, reward, lower = row[1:4].tolist()
        return cls(int(row[0]), x, today, share, reward, lower)


def believed(trials: Sequence[Trial], beliefs: Posterior) -> Prediction:
    """Return what is believed of what was tried and, behind it, of what it replaced, (2n,)."""
    tasks = [t.task for t in trials] * 2
    X = np.array([t.x for t in trials] + [t.today for t in trials])
    columns = [t.columns[0] for t in trials] + [t.columns[1] for t in trials]
    return beliefs.predict(tasks, X, columns=columns)
