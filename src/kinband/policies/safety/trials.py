"""Trials of a budget of rewards: what is kept of one until its block is settled, and the work that is not done twice.

A budget looks at a trial three times: when it is weighed, when its reward is told, and when its block is full. Each
time it needs what is believed of what is tried and of what that replaces, together, which takes a solved column of both
(`posterior.factor`). Where arms share a state, the scores of the decision leave both behind; so they are kept, and only
what the factor has grown by since is solved. What is kept changes no bit: a memo says how the columns were solved, and
those that are gone are solved in the same way again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.policies.safety.drafts import NOTE, Draft, Work
from kinband.policies.safety.margins import JointBeliefs
from kinband.posterior import Column
from kinband.records import Observation

_NOTHING = (-1, -1)  # stands for a column that is not known by its arm


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
        work: The columns of both contexts, where they are known by their arms.

    Example:
        >>> trial = Trial(1, np.array([0.5]), np.array([0.0]), share=0.4, reward=0.8, lower=-0.1)
        >>> trial.row().tolist()
        [1.0, 0.4, 0.8, -0.1, 0.5, 0.0]
        >>> Trial.of(trial.row(), trial.solved()).x
        array([0.5])
    """

    task: int
    x: FloatArray
    today: FloatArray
    share: float
    reward: float
    lower: float
    work: Work | None = None

    def row(self) -> FloatArray:
        """Return the trial as numbers, (4 + 2d,)."""
        return np.concatenate([[self.task, self.share, self.reward, self.lower], self.x, self.today])

    def solved(self) -> IntArray:
        """Return of both columns the arm and how far they were solved when the reward was told, (4,), or -1 each."""
        columns = () if self.work is None else (self.work.played, self.work.replaced)
        return np.array([(c.arm, c.upto) for c in columns] or [_NOTHING] * 2, dtype=np.int64).ravel()

    @classmethod
    def of(cls, row: FloatArray, solved: IntArray) -> "Trial":
        """Return the trial that `row` and `solved` wrote; its columns are to be solved again."""
        x, today = np.split(row[4:], 2)
        pairs = [tuple(pair) for pair in solved.reshape(2, 2).tolist()]
        work = None if _NOTHING in pairs else Work(*(Column(arm=arm, upto=upto) for arm, upto in pairs))
        share, reward, lower = row[1:4].tolist()
        return cls(int(row[0]), x, today, share, reward, lower, work)


def contexts(trials: Sequence[Trial]) -> tuple[list[int], FloatArray]:
    """Return tasks (2n,) and contexts (2n, d) of what was tried and, behind it, of what it replaced."""
    return [t.task for t in trials] * 2, np.array([t.x for t in trials] + [t.today for t in trials])


def columns(trials: Sequence[Trial]) -> list[Column] | None:
    """Return the columns of `contexts`; None if any of them is not known by its arm."""
    works = [t.work for t in trials if t.work is not None]
    if len(works) < len(trials):
        return None
    return [work.played for work in works] + [work.replaced for work in works]


def left_behind(draft: Draft, today: int) -> Column | None:
    """Return the column of what a trial replaces, where it was solved together with that of what is tried."""
    column = draft.column(today)
    return None if column is None or column.arm is None else column


def prepared(observation: Observation, beliefs: JointBeliefs) -> Observation:
    """Return what is to be learned of a trial with both columns at hand, solved as far as can be before it is learned.

    Other observations are returned as they are.
    """
    o, note = observation, observation.memo.get(NOTE, {})
    if "column" not in note:
        return o
    work = o.cache if isinstance(o.cache, Work) else Work(Column.recall(o.memo), Column.recall(note["column"]))
    X = np.array([o.x, note["x"]], dtype=np.float64)
    fresh = beliefs.refreshed([o.task] * 2, X, [work.played, work.replaced])
    return replace(o, cache=Work(*(replace(column, upto=len(column.solved)) for column in fresh)))
