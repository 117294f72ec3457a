"""Who borrows from whom: the shares of evidence in the latest decisions of every station, as of each.

What a share and what the worth of evidence are, `kinband.controller.explanation.evidence` says. One factor of all rows
of related stations gives the weights of every decision, each with the rows that were known to it (`hindsight`). The
beliefs of now would tell another story: once its reward is known, an estimate rests on that more than on anything else.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Settings
from kinband.controller.explanation.evidence import shares_of, task_matrix_of, worth_of
from kinband.controller.explanation.hindsight import Part
from kinband.controller.journal import Asked
from kinband.kernels import components
from kinband.posterior.contract import Rows
from kinband.trust.told import Recorded, settings_of

RECENT = 5
"""Decisions of each station whose evidence is weighed."""
MOST_ROWS = 8000
"""Rows of related stations up to which evidence is weighed; the matrix then takes half a gigabyte."""


@dataclass(frozen=True, eq=False)
class Lending:
    """The evidence of the latest decisions, by station: shares (M, M) and worth (M,), nan where not weighed."""

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
    settings = settings_of(recorded)
    K_Z, M = task_matrix_of(settings), len(settings.stations)
    lent, worth = np.full((M, M), np.nan), np.full(M, np.nan)
    if K_Z is None:
        return Lending(lent, worth, ("the policy does not share by a task matrix: who lends to whom is left out",))
    tasks, X, known = _latest(recorded, recent)
    left_out = 0
    for members in components(K_Z):
        asked = np.flatnonzero(np.isin(tasks, members))
        part = Part(rows, members)
        if len(part) > most_rows:
            left_out += len(members)
        elif len(asked):
            of = tasks[asked]
            shares, value = _evidence(part, of, X[asked], known=known[asked], settings=settings, K_Z=K_Z)
            for task in np.unique(of):
                lent[task] = 0.0
                lent[task, members] = shares[of == task].mean(axis=0)
                worth[task] = value[of == task].mean()
    note = f"who lends to whom is left out for {left_out:,} stations: more than {most_rows:,} rows would be weighed"
    return Lending(lent, worth, (note,) if left_out else ())


def _latest(recorded: Recorded, recent: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Tasks (m,), contexts (m, d) and known rewards (m,) of the latest decisions of every station."""
    by_task: dict[int, list[Asked]] = {}
    for asked in recorded.journal.asked.values():
        by_task.setdefault(asked.task, []).append(asked)
    chosen = [asked for task in sorted(by_task) for asked in by_task[task][-recent:]]
    return (
        np.array([asked.task for asked in chosen], dtype=np.int64),
        np.array([asked.x for asked in chosen], dtype=np.float64),
        np.array([asked.decision.known for asked in chosen], dtype=np.int64),
    )


def _evidence(
    part: Part, tasks: IntArray, X: FloatArray, *, known: IntArray, settings: Settings, K_Z: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Shares of the part's members (m, members) in m estimates, and the worth of what they borrowed, (m,)."""
    past = part.hindsight(settings.kernel, K_Z, mean=settings.mean)
    here, then = part.local(tasks), part.known(known)
    shares = shares_of(past.weights(here, X, known=then), part.rows.tasks, size=len(part.members))
    _, variance = past.predict(here, X, known=then)
    before = np.empty(len(X))
    for task in np.unique(here):
        own, mine = Part(part.rows, [task]), here == task
        alone = own.hindsight(settings.kernel, K_Z[np.ix_(part.members, part.members)], mean=settings.mean)
        at = np.zeros(int(mine.sum()), dtype=np.int64)
        before[mine] = alone.predict(at, X[mine], known=own.known(then[mine]))[1]
    return shares, worth_of(variance, before, noise=settings.noise)
