"""What stations borrowed from each other, and what it earned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Setup
from kinband.controller.attribution import Part, shares_of, task_matrix_of, told_rows_of, worth_of
from kinband.controller.events import Asked
from kinband.diagnostics.calibration import (
    Epoch,
    Predictions,
    Recorded,
    epoch_numbers,
    epochs_of,
    log_density,
    setup_of,
)
from kinband.kernels import TaskCovariance, components
from kinband.posterior.base import Rows
from kinband.stats import Estimate, counted, discoveries_by_evidence, mean_of

# --- Who borrows from whom: the shares of evidence in the latest decisions of every station, as of each -------------
#
# What a share and what the worth of evidence are, `kinband.controller.explain` says. One factor of all rows of related
# stations gives the weights of every decision, each with the rows that were known to it (`hindsight`). The beliefs of
# now would tell another story: once its reward is known, an estimate rests on that more than on anything else. A
# decision is looked at by the task matrix that was in force then.

RECENT = 5
"""Decisions of each station whose evidence is weighed."""
MOST_ROWS = 8000
"""Rows of related stations up to which evidence is weighed; the matrix then takes half a gigabyte."""


@dataclass(frozen=True, eq=False)
class EvidenceShares:
    """The evidence of the latest decisions, by station, nan where not weighed.

    Attributes:
        shares: Of every station (column) in the evidence of each (row), (M, M).
        worth: Of what each borrowed, (M,).
        notes: What was left out, and why.
    """

    shares: FloatArray
    worth: FloatArray
    notes: tuple[str, ...] = ()


def evidence_shares_of(
    recorded: Recorded, rows: Rows, *, recent: int = RECENT, most_rows: int = MOST_ROWS
) -> EvidenceShares:
    """Return whose evidence the latest decisions of every station rested on, told or not.

    Args:
        recorded: A controller, or what keeps its setup and journal.
        rows: What `told_rows_of` says of it.
        recent: How many decisions of each station are looked at.
        most_rows: Up to how many rows of related stations evidence is weighed.
    """
    setup, M = setup_of(recorded), len(setup_of(recorded).stations)
    lent, worth = np.full((M, M), np.nan), np.full(M, np.nan)
    if task_matrix_of(setup) is None:
        note = "the policy does not share by a task matrix: who borrows from whom is left out"
        return EvidenceShares(lent, worth, (note,))
    found, left_out = _looked_at(recorded, rows, recent=recent, most_rows=most_rows)
    for task, evidence in found.items():
        lent[task] = 0.0
        for members, shares, _ in evidence:
            lent[task, members] += shares / len(evidence)
        worth[task] = np.mean([value for _, _, value in evidence])
    whom = counted(left_out, "station")
    note = f"who borrows from whom is left out for {whom}: more than {most_rows:,} rows would be weighed"
    return EvidenceShares(lent, worth, (note,) if left_out else ())


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
        tasks, K_Z = np.array([one.task for one in asked]), task_matrix_of(epoch.setup)
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


def _evidence(part: Part, asked: list[Asked], epoch: Epoch, K_Z: TaskCovariance) -> list[_Evidence]:
    """The evidence of decisions for members of a part."""
    setup = epoch.setup
    tasks = part.local(np.array([one.task for one in asked]))
    X, known = np.array([one.x for one in asked]), part.known([one.decision.known for one in asked])
    past = part.hindsight(setup.kernel, K_Z, mean=setup.mean)
    a = past.weights(tasks, X, known=known)
    _, variance = past.predict(tasks, X, known=known)
    before = np.empty(len(X))
    for task in np.unique(tasks):
        mine, own = tasks == task, Part(part.rows, [task])
        alone = own.hindsight(setup.kernel, K_Z[np.ix_(part.members, part.members)], mean=setup.mean)
        here = np.zeros(int(mine.sum()), dtype=np.int64)
        _, before[mine] = alone.predict(here, X[mine], known=own.known(known[mine]))
    shares = shares_of(a, part.rows.tasks, size=len(part.members))
    worth = worth_of(variance, before, noise=setup.noise)
    return [(part.members, row, float(value)) for row, value in zip(shares, worth, strict=True)]


# --- Who borrows from whom, and what it earned ----------------------------------------------------------------------
#
# Who borrows: see `EvidenceShares`. What it earned: every reward is predicted twice: by the shared model, stored when
# asking, and by the same kernel, noise and mean from the rows of the station alone that were known then. The difference
# of the two log densities is what sharing told about that reward beforehand; its mean over a station's rewards is above
# zero where sharing helped to predict (prequential: Dawid 1984); its interval is that of Diebold and Mariano (1995) in
# the form of Amisano and Giacomini (2007), for forecasts one step ahead.
#
# The sum is the log of a likelihood ratio. If the shared model were right, the ratio against it would exceed 1/α with
# probability α at most, however often one looks (Ville 1939). Where it is too large, at a false discovery rate of 5 %
# over stations (Wang and Ramdas 2022), and the interval is below zero too, sharing is said to hurt; and to help
# likewise. The interval is asked as well because both models may be wrong in their noise.
#
# Own rows are few and one factor of them serves all decisions of a station (`hindsight`), so that it costs one pass. A
# sparse posterior is compared as it was, approximations included.

_LARGEST_PICTURE = 500  # stations of a matrix to look at
_OWN_ROWS = 8000  # of one station, up to which it is predicted alone
_RATE = 0.05
_ROUNDING = 1e-9  # log densities that differ by less do not differ

HELPS, HURTS, EVEN = "helps", "hurts", "no clear difference"


@dataclass(frozen=True, eq=False)
class Transferred:
    """What sharing did for one station, or for all.

    Attributes:
        name: The station, or "all".
        rewards: How many were predicted both ways.
        gain: Log density of a reward with sharing less that without, the mean, in nats.
        total: The same, summed over the rewards.
        borrowed: Share of the evidence of its latest decisions that was borrowed; None where it was not weighed.
        worth: What was borrowed, in rewards of its own in the same state; None likewise.
        lenders: Share of every other station in that evidence, largest first.
        verdict: "helps", "hurts" or "no clear difference".
    """

    name: str
    rewards: int
    gain: Estimate
    total: float
    borrowed: float | None = None
    worth: float | None = None
    lenders: dict[str, float] | None = None
    verdict: str = EVEN

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        told = self.rewards > 0
        return {
            "station": self.name,
            "rewards": self.rewards,
            "gain": self.gain.to_dict() if told else None,
            "total": self.total,
            "verdict": self.verdict,
            "borrowed": self.borrowed,
            "worth": self.worth,
            "lenders": self.lenders,
        }


@dataclass(frozen=True, eq=False)
class Transfer:
    """Who borrowed from whom, and what it earned.

    Attributes:
        overall: All stations together; its interval is over stations.
        stations: Every station, in the controller's order.
        shares: Mean share of each station (column) in the evidence of each (row), (M, M); a row is 0 where a station
            was not weighed. None where it would be too large or no policy shares by a task matrix.
        notes: What was left out, and why.
    """

    overall: Transferred
    stations: tuple[Transferred, ...]
    shares: FloatArray | None
    notes: tuple[str, ...] = ()

    def flagged(self, verdict: str) -> list[Transferred]:
        """Return the stations of a verdict, those that gained or lost most a reward first."""
        found = [s for s in self.stations if s.verdict == verdict]
        return sorted(found, key=lambda s: -abs(s.gain.value))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        stations = [station.to_dict() for station in self.stations]
        return {"overall": self.overall.to_dict(), "stations": stations, "notes": list(self.notes)}


def log_density_alone(setup: Setup, rows: Rows, made: Predictions) -> FloatArray:
    """Return the log density of each reward of `made` from its station's own rows that were known then, (n,).

    Rewards of a station with too many rows are nan.
    """
    K_Z = task_matrix_of(setup)
    found = np.full(len(made), np.nan)
    for task in np.unique(made.tasks) if K_Z is not None else ():
        part, mine = Part(rows, [task]), np.flatnonzero(made.tasks == task)
        if K_Z is None or len(part) > _OWN_ROWS:
            continue
        past = part.hindsight(setup.kernel, K_Z, mean=setup.mean)
        here = np.zeros(len(mine), dtype=np.int64)
        mean, variance = past.predict(here, made.X[mine], known=part.known(made.known[mine]))
        found[mine] = log_density(made.rewards[mine], mean, variance + made.noise[mine])
    return found


@dataclass(frozen=True, eq=False)
class Earned:
    """What sharing did for one controller, reward by reward.

    Attributes:
        stations: Its stations.
        tasks: Whose each reward is, (n,).
        gain: Log density of each reward with sharing less that without, (n,); nan where it was not predicted alone.
        evidence: Whose evidence the latest decisions rested on.
    """

    stations: tuple[str, ...]
    tasks: IntArray
    gain: FloatArray
    evidence: EvidenceShares


def earned_of(recorded: Recorded, made: Predictions, **options: int) -> Earned:
    """Return what sharing did for a controller whose predictions are given; options are `evidence_shares_of`'s."""
    setup = setup_of(recorded)
    rows = told_rows_of(setup, recorded.journal)
    gain, epochs = made.log_density, epochs_of(recorded)
    numbers = epoch_numbers(recorded, epochs)
    for number, epoch in enumerate(epochs):
        mine = np.flatnonzero(numbers == number)
        gain[mine] -= log_density_alone(epoch.setup, rows, made.take(mine))
    gain[np.abs(gain) < _ROUNDING] = 0.0
    return Earned(setup.stations, made.tasks, gain, evidence_shares_of(recorded, rows, **options))


def transfer_of(parts: Sequence[Earned]) -> Transfer:
    """Return the transfer audit of the stations of all controllers.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.diagnostics.calibration import predictions_of
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> controller = Controller(space, ["a", "b"], similarity=[[1, 0.9], [0.9, 1]], noise=0.25, mean=0.5)
        >>> for reward in (0.9, 1.0, 0.8):
        ...     controller.tell(controller.ask("a", allowed=[0]).id, reward)
        >>> controller.tell(controller.ask("b", allowed=[0]).id, 0.9)
        >>> found = transfer_of([earned_of(controller, predictions_of(controller))]).stations[1]
        >>> found.lenders, round(found.gain.value, 2)
        ({'a': 1.0}, 0.52)
    """
    stations = [
        _station(part.stations, task, part.gain[part.tasks == task], part.evidence)
        for part in parts
        for task in range(len(part.stations))
    ]
    notes = dict.fromkeys(note for part in parts for note in part.evidence.notes)
    shares = _joined([part.evidence.shares for part in parts])
    return Transfer(_overall(stations), tuple(_flags(stations)), shares, tuple(notes))


def _station(names: Sequence[str], task: int, gain: FloatArray, evidence: EvidenceShares) -> Transferred:
    gain = gain[~np.isnan(gain)]
    shares, worth = evidence.shares[task], float(evidence.worth[task])
    found = Transferred(names[task], len(gain), mean_of(gain), float(gain.sum()))
    if np.isnan(worth):
        return found
    order = [int(m) for m in np.argsort(-shares, kind="stable") if shares[m] > 0 and m != task]
    lenders = {names[m]: float(shares[m]) for m in order}
    return replace(found, borrowed=float(sum(lenders.values())), worth=worth, lenders=lenders)


def _flags(stations: Sequence[Transferred]) -> list[Transferred]:
    total = np.array([s.total for s in stations])
    helps, hurts = (discoveries_by_evidence(sign * total, rate=_RATE) for sign in (1.0, -1.0))
    return [
        replace(s, verdict=HELPS if up and s.gain.side(0.0) > 0 else HURTS if down and s.gain.side(0.0) < 0 else EVEN)
        for s, up, down in zip(stations, helps, hurts, strict=True)
    ]


def _overall(stations: Sequence[Transferred]) -> Transferred:
    """All stations together, each counting the same."""
    told = [s for s in stations if s.rewards]
    gains = np.array([s.gain.value for s in told])
    gain = mean_of(gains)
    borrowed = [s.borrowed for s in stations if s.borrowed is not None]
    worth = [s.worth for s in stations if s.worth is not None]
    return Transferred(
        "all",
        sum(s.rewards for s in told),
        gain,
        float(sum(s.total for s in told)),
        borrowed=float(np.mean(borrowed)) if borrowed else None,
        worth=float(np.mean(worth)) if worth else None,
        verdict={1: HELPS, -1: HURTS}.get(gain.side(0.0), EVEN),
    )


def _joined(blocks: Sequence[FloatArray]) -> FloatArray | None:
    """Shares of all controllers as one matrix, (M, M); None where none was weighed or it would be too large to show."""
    M = sum(map(len, blocks))
    if M > _LARGEST_PICTURE or all(np.isnan(block).all() for block in blocks):
        return None
    joined, start = np.zeros((M, M)), 0
    for block in blocks:
        stop = start + len(block)
        joined[start:stop, start:stop] = np.nan_to_num(block)
        start = stop
    return joined
