"""Parts a log for an evaluation: rows to learn from, later rows to judge by, folds of these, and what hangs together.

A policy is learned from the earlier rows of every station and judged by the later ones, so that it is never praised for
rows it has seen. The later rows are cut into folds, each a stretch of every station's time: neighbouring rows are
often near-copies of each other, and a fold drawn row by row would put copies on both sides (Bergmeir and Benítez 2012
compare the two ways). Without times, the order of the file is taken for the order of time.

A *trial* is a stretch of consecutive rows of one station with one configuration. Rows of a trial were decided once and
share the weather of their hour; rows of a station share whatever its state does not tell. Intervals therefore count
*units*: stations where there are many, trials where there are few.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, IntArray, finite_number
from kinband.errors import BadInputError
from kinband.trace import Trace

MANY_STATIONS = 20
"""From so many stations on, a station is the unit of an interval."""
LEAST_ROWS = 20
"""Fewer later rows than this judge nothing."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of a log by number.

    Attributes:
        earlier: Rows to learn from, (e,).
        later: Rows to judge by, (n,).
        fold: Fold of each later row, (n,).
        unit: Number of the unit that each later row belongs to, (n,).
        kind: What a unit is, "station" or "trial".
        in_time: Whether the log has times; else the order of the file stands for them.

    Example:
        >>> log = {"station": ["a"] * 6, "time": [6, 5, 4, 3, 2, 1], "tilt": [2, 2, 4, 4, 2, 2], "reward": [0.5] * 6}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> parts = part(trace, trace.configuration["tilt"], share=0.34, folds=2, least=1)
        >>> parts.earlier.tolist(), parts.later.tolist(), parts.fold.tolist(), parts.unit.tolist()
        ([4, 5], [0, 1, 2, 3], [1, 1, 0, 0], [1, 1, 0, 0])
    """

    earlier: IntArray
    later: IntArray
    fold: IntArray
    unit: IntArray
    kind: str
    in_time: bool


def part(trace: Trace, arms: IntArray, *, share: float, folds: int, least: int = LEAST_ROWS) -> Parts:
    """Return which rows to learn from and which to judge by.

    Args:
        trace: The log.
        arms: Configuration of each row by number, (n,).
        share: The share of every station's rows that are learned from, its earliest; at least one row, not all.
        folds: How many folds the later rows are cut into.
        least: How many later rows there must be.
    """
    _check(share, folds)
    station, rank, count = _places(trace)
    early = np.minimum(np.maximum(np.round(share * count).astype(np.int64), 1), np.maximum(count - 1, 1))
    later = np.flatnonzero(rank >= early)
    if len(later) < max(least, folds):
        raise BadInputError(
            f"the log has {len(trace):,} rows and leaves {len(later):,} to judge a policy by, at least "
            f"{max(least, folds)} are needed: give a longer log, or learn from a smaller share of it"
        )
    place, length = (rank - early)[later], (count - early)[later]
    fold = ((place + 0.5) * folds / length).astype(np.int64)
    many = len(np.unique(station[later])) >= MANY_STATIONS
    unit = np.unique(station[later], return_inverse=True)[1] if many else _trials(station, rank, arms, rows=later)
    in_time = trace.time is not None
    return Parts(np.flatnonzero(rank < early), later, fold, unit, "station" if many else "trial", in_time)


def _check(share: float, folds: int) -> None:
    if not 0 < finite_number(share, name="the share to learn from") < 1:
        raise BadInputError(f"the share to learn from must lie between 0 and 1, got {share:g}")
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
        raise BadInputError(f"folds must be a whole number of at least 2, got {folds!r}")


def _places(trace: Trace) -> tuple[IntArray, IntArray, IntArray]:
    """Number of each row's station, the row's place in the station's time, and how many rows the station has, (n,)."""
    _, station = np.unique(trace.station, return_inverse=True)
    time = np.zeros(len(trace)) if trace.time is None else trace.time
    order = np.lexsort((time, station))  # stable: rows of one time stay in their order
    count = np.bincount(station)
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    rank = np.empty(len(trace), dtype=np.int64)
    rank[order] = np.arange(len(trace)) - start[station[order]]
    return station, rank, count[station]


def _trials(station: IntArray, rank: IntArray, arms: IntArray, *, rows: IntArray) -> IntArray:
    """Number of the trial that each of the rows (n,) belongs to, (n,)."""
    order = np.lexsort((rank[rows], station[rows]))
    sorted_rows = rows[order]
    new: BoolArray = np.ones(len(rows), dtype=np.bool_)
    same_station = station[sorted_rows][1:] == station[sorted_rows][:-1]
    new[1:] = ~(same_station & (arms[sorted_rows][1:] == arms[sorted_rows][:-1]))
    trial = np.empty(len(rows), dtype=np.int64)
    trial[order] = np.cumsum(new) - 1
    return trial
