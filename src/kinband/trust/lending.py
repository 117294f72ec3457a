"""Who borrows from whom: the shares of evidence in the latest decisions of every station, as of each.

What a share and what the worth of evidence are, `kinband.controller.explain` says. One factor of all rows
of related stations gives the weights of every decision, each with the rows that were known to it (`hindsight`). The
beliefs of now would tell another story: once its reward is known, an estimate rests on that more than on anything else.
A decision is looked at by the task matrix that was in force then.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller.events import Asked
from kinband.controller.explain import Part, shares_of, task_matrix_of, worth_of
from kinband.counting import counted
from kinband.kernels import components
from kinband.posterior.base import Rows
from kinband.trust.told import Epoch, Recorded, epochs_of, settings_of

RECENT = 5
"""Decisions of each station whose evidence is weighed."""
MOST_ROWS = 8000
"""Rows of related stations up to which evidence is weighed; the matrix then takes half a gigabyte."""


@dataclass(frozen=True, eq=False)
class Lending:
    """The evidence of the latest decisions, by station, nan where not weighed.

    Attributes:
        shares: Of every station (column) in the evidence of each (row), (M, M).
        worth: Of what each borrowed, (M,).
        notes: What was left out, and why.
    """

    shares: FloatArray
    worth: FloatArray
    notes: tuple[str, ...] = ()


def lending_of(recorded: Recorded, rows: Rows, *, recent: int = RECENT, most_rows: int = MOST_ROWS) -> Lending:
    """Return whose evidence the latest decisions of every station rested on, told or not.

    Args:
        recorded: A controller, or what keeps its settings and journal.
        rows: What `told_rows_of` says of it.
        recent: How many decisions of each station are looked at.
        most_rows: Up to how many rows of related stations evidence is weighed.
    """
    settings, M = settings_of(recorded), len(settings_of(recorded).stations)
    lent, worth = np.full((M, M), np.nan), np.full(M, np.nan)
    if task_matrix_of(settings) is None:
        note = "the policy does not share by a task matrix: who lends to whom is left out"
        return Lending(lent, worth, (note,))
    found, left_out = _looked_at(recorded, rows, recent=recent, most_rows=most_rows)
    for task, evidence in found.items():
        lent[task] = 0.0
        for members, shares, _ in evidence:
            lent[task, members] += shares / len(evidence)
        worth[task] = np.mean([value for _, _, value in evidence])
    whom = counted(left_out, "station")
    note = f"who lends to whom is left out for {whom}: more than {most_rows:,} rows would be weighed"
    return Lending(lent, worth, (note,) if left_out else ())


_Evidence = tuple[IntArray, FloatArray, float]  # tasks that share, their shares in an estimate, what was borrowed


def _looked_at(
    recorded: Recorded, rows: Rows, *, recent: int, most_rows: int
) -> tuple[dict[int, list[_Evidence]], int]:
    """The evidence of the latest decisions by task, and for how many tasks it was left out."""
    latest = _latest(recorded, recent)
    found: dict[int, list[_Evidence]] = {}
    left_out: set[int] = set()
    for epoch in epochs_of(recorded):
        asked = [one for one in latest if one.decision.id in epoch.asked]
        tasks, K_Z = np.array([one.task for one in asked]), task_matrix_of(epoch.settings)
        if K_Z is None or not asked:
            continue
        for members in components(K_Z):
            mine = [asked[i] for i in np.flatnonzero(np.isin(tasks, members))]
            part = Part(_first(rows, epoch.rows), members)
            if len(part) > most_rows:
                left_out.update(members.tolist())
            elif mine:
                for one, evidence in zip(mine, _evidence(part, mine, epoch, K_Z), strict=True):
                    found.setdefault(one.task, []).append(evidence)
    return {task: evidence for task, evidence in found.items() if task not in left_out}, len(left_out)


def _latest(recorded: Recorded, recent: int) -> list[Asked]:
    """The latest decisions of every station."""
    by_task: dict[int, list[Asked]] = {}
    for asked in recorded.journal.asked.values():
        by_task.setdefault(asked.task, []).append(asked)
    return [asked for task in sorted(by_task) for asked in by_task[task][-recent:]]


def _first(rows: Rows, count: int) -> Rows:
    return Rows(rows.tasks[:count], rows.X[:count], rows.y[:count], rows.noise[:count])


def _evidence(part: Part, asked: list[Asked], epoch: Epoch, K_Z: FloatArray) -> list[_Evidence]:
    """The evidence of decisions for members of a part."""
    settings = epoch.settings
    tasks = part.local(np.array([one.task for one in asked]))
    X, known = np.array([one.x for one in asked]), part.known([one.decision.known for one in asked])
    past = part.hindsight(settings.kernel, K_Z, mean=settings.mean)
    a = past.weights(tasks, X, known=known)
    _, variance = past.predict(tasks, X, known=known)
    before = np.empty(len(X))
    for task in np.unique(tasks):
        mine, own = tasks == task, Part(part.rows, [task])
        alone = own.hindsight(settings.kernel, K_Z[np.ix_(part.members, part.members)], mean=settings.mean)
        here = np.zeros(int(mine.sum()), dtype=np.int64)
        _, before[mine] = alone.predict(here, X[mine], known=own.known(known[mine]))
    shares = shares_of(a, part.rows.tasks, size=len(part.members))
    worth = worth_of(variance, before, noise=settings.noise)
    return [(part.members, row, float(value)) for row, value in zip(shares, worth, strict=True)]
