"""How likely the log was to run a configuration, where nobody wrote it down: smoothed frequencies.

A frequency p(a) over all rows is refined level by level, for the station, for a third of the range of one state
feature, for both: p(a | group) = (count(group, a) + κ·p(a | coarser group)) / (count(group) + κ), a Dirichlet prior
worth κ rows that is centred on the coarser level. Groups with few rows keep near it, groups with many follow their own
habits, and no configuration of the space gets probability 0. Which feature, which levels and which κ is decided by
the likelihood of rows held out, so that a log whose stations all drew alike is seen as one. Frequencies are
cross-fitted: those of a row come from other folds.

Assumed: what was chosen depended on nothing but the station and the binned feature. A log in which somebody turned a
knob because of what no column tells cannot be repaired this way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from kinband.arrays import FloatArray, IntArray

BINS = 3
"""Into how many parts of equal size a state feature is cut."""
_KAPPAS = (2.0, 8.0, 32.0, 128.0)
_START = 0.5  # rows' worth of prior for each configuration


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows that are taken together: what the groups are, in words, and the number of each row's group, (n,)."""

    name: str
    group: IntArray = field(repr=False)


Levels = tuple[tuple[Grouping, float], ...]
"""Groupings from coarse to fine, each with the κ that ties it to the one before."""
Counts = tuple[FloatArray, FloatArray]
"""How often rows of a group ran a configuration, and how many rows the group has."""


@dataclass(frozen=True, eq=False)
class Habits:
    """The log's habits, by the levels that predict held-out rows best.

    Attributes:
        arms: What ran, (n,).
        fold: Fold of each row, (n,); rows with -1 are in no fold and always counted.
        configurations: How many there are, N.
        levels: What the frequencies depend on; nothing where all rows are alike.

    Example:
        >>> station, fold = np.arange(400) % 2, np.arange(400) // 80
        >>> arms = np.where(np.arange(400) // 2 % 5 < 4, station, 1 - station)
        >>> habits = find_habits(arms, fold, configurations=2, station=station, state=np.zeros((400, 0)), names=())
        >>> habits.in_words()
        'per station'
        >>> habits.of(np.array([0, 1]), np.array([[0], [0]])).round(1).tolist()
        [[0.8], [0.2]]
    """

    arms: IntArray
    fold: IntArray
    configurations: int
    levels: Levels = ()

    def of(self, rows: IntArray, arms: IntArray) -> FloatArray:
        """Return the probability of arms (m, c) in rows (m,), counted without the rows' own folds, (m, c)."""
        kappas = [kappa for _, kappa in self.levels]
        counts = [self.counts(rows, arms, grouping) for grouping, _ in self.levels]
        return smoothed(self.start(rows, arms), zip(counts, kappas, strict=True))

    def in_words(self) -> str:
        """Return what the frequencies depend on."""
        return self.levels[-1][0].name if self.levels else "the same for all stations"

    def start(self, rows: IntArray, arms: IntArray) -> FloatArray:
        """Return the frequencies of arms (m, c) over all rows but those of each row's fold, (m, c)."""
        p = np.empty(arms.shape)
        for k in np.unique(self.fold[rows]).tolist():
            asked, totals = self.fold[rows] == k, np.full(self.configurations, _START)
            totals += np.bincount(self.arms[self.fold != k], minlength=self.configurations)
            p[asked] = totals[arms[asked]] / totals.sum()
        return p

    def counts(self, rows: IntArray, arms: IntArray, grouping: Grouping) -> Counts:
        """Return what each row's group ran, without the row's fold, of arms (m, c): (m, c) and (m, 1)."""
        both, whole, N = np.empty(arms.shape), np.empty((len(rows), 1)), self.configurations
        for k in np.unique(self.fold[rows]).tolist():
            counted, asked = self.fold != k, self.fold[rows] == k
            group, mine = grouping.group[counted], grouping.group[rows[asked]][:, None]
            both[asked] = _count(group * N + self.arms[counted], mine * N + arms[asked])
            whole[asked] = _count(group, mine)
        return both, whole


def smoothed(p: FloatArray, levels: Iterable[tuple[Counts, float]]) -> FloatArray:
    """Return frequencies p (m, c) refined level by level, (m, c).

    Example:
        >>> smoothed(np.array([[0.5]]), [((np.array([[9.0]]), np.array([[10.0]])), 2.0)]).round(3).tolist()
        [[0.833]]
    """
    for (both, whole), kappa in levels:
        p = (both + kappa * p) / (whole + kappa)
    return p


def find_habits(
    arms: IntArray,
    fold: IntArray,
    *,
    configurations: int,
    station: IntArray,
    state: FloatArray,
    names: Sequence[str],
) -> Habits:
    """Return the habits under which rows of folds that are held out are most likely.

    Args:
        arms: What ran, (n,).
        fold: Fold of each row, (n,); -1 for rows that are always counted.
        configurations: How many configurations there are.
        station: Number of each row's station, (n,).
        state: State features, (n, p).
        names: Their names.
    """
    plain = Habits(arms, fold, configurations)
    rows = np.flatnonzero(fold >= 0)
    ran = arms[rows][:, None]
    ladders = _ladders(station, state, names)
    groupings = {grouping.name: grouping for ladder in ladders for grouping in ladder}
    counts = {name: plain.counts(rows, ran, grouping) for name, grouping in groupings.items()}
    start, found, most = plain.start(rows, ran), plain, -np.inf
    for ladder in ladders:
        for kappas in product(_KAPPAS, repeat=len(ladder)):
            steps = ((counts[grouping.name], kappa) for grouping, kappa in zip(ladder, kappas, strict=True))
            likelihood = float(np.log(smoothed(start, steps)).sum())
            if likelihood > most:
                levels = tuple(zip(ladder, kappas, strict=True))
                found, most = Habits(arms, fold, configurations, levels), likelihood
    return found


def _ladders(station: IntArray, state: FloatArray, names: Sequence[str]) -> list[tuple[Grouping, ...]]:
    """What frequencies may depend on, from coarse to fine, the simplest first."""
    stations = Grouping("per station", station)
    ladders: list[tuple[Grouping, ...]] = [(), (stations,)]
    for j, name in enumerate(names):
        binned = _bins(state[:, j])
        if binned.min() < binned.max():
            alone = Grouping(f"per third of {name}", binned)
            both = Grouping(f"per station and third of {name}", station * BINS + binned)
            ladders += [(alone,), (stations, both), (alone, both)]
    return ladders


def _bins(values: FloatArray) -> IntArray:
    cuts = np.unique(np.quantile(values, np.arange(1, BINS) / BINS))
    return np.asarray(np.searchsorted(cuts, values, side="left"), dtype=np.int64)


def _count(keys: IntArray, asked: IntArray) -> FloatArray:
    """How often each key that is asked for occurs among keys (n,), in the shape of `asked`."""
    known, counts = np.unique(keys, return_counts=True)
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[place] == asked, counts[place], 0).astype(np.float64)
