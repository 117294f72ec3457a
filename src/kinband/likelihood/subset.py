"""Which rows a search looks at, and which of them together, when a log is long.

A factorisation takes time in the cube of the rows that hang together. So a long log is thinned, and stations are put
into groups at random that are explained one by one, their log densities added: a composite likelihood (Varin, Reid and
Firth 2011). Thinning keeps a fair number of rows of each station that it keeps at all, because noise shows only where
a station's rows lie close together: few rows from every station of a large network give a poor estimate of it, however
many they are in all. What either costs in accuracy is measured in docs/scaling.md.
"""

import numpy as np

from kinband.arrays import IntArray
from kinband.errors import BadInputError

MAX_ROWS = 8000
"""Rows that a search looks at in all, unless told otherwise."""

BLOCK_ROWS = 250
"""Rows that it explains together, unless told otherwise."""

ROWS_PER_STATION = 40
"""Rows of a station that are kept if it has them, before further stations are looked at."""


def choose_rows(tasks: IntArray, max_rows: int, *, rng: np.random.Generator, most: int | None = None) -> IntArray:
    """Return at most `max_rows` row numbers, ascending, of stations drawn at random; `tasks` (n,) are their stations.

    As many stations are drawn as give 40 rows each; then rows are spread evenly over them, up to `most` of one.

    Example:
        >>> tasks = np.repeat(np.arange(50), 100)
        >>> rows = choose_rows(tasks, 400, rng=np.random.default_rng(0))
        >>> np.unique(tasks[rows], return_counts=True)[1].tolist()
        [40, 40, 40, 40, 40, 40, 40, 40, 40, 40]
    """
    _check(max_rows)
    counts = np.bincount(tasks)
    if len(tasks) > max_rows:
        drawn = rng.permutation(np.flatnonzero(counts))
        enough = int(np.searchsorted(np.cumsum(np.minimum(counts[drawn], ROWS_PER_STATION)), max_rows)) + 1
        rows = np.flatnonzero(np.isin(tasks, drawn[:enough]))
    else:
        rows = np.arange(len(tasks))
    if most is not None and counts.max(initial=0) > most:
        rows = rows[_turns(tasks[rows], rng.permutation(len(rows))) < most]
    return rows[spread_rows(tasks[rows], max_rows, rng=rng)]


def spread_rows(tasks: IntArray, max_rows: int, *, rng: np.random.Generator) -> IntArray:
    """Return at most `max_rows` row numbers, ascending, drawn so that all stations get about equally many.

    Example:
        >>> tasks = np.array([0, 0, 0, 0, 0, 0, 1, 1, 2])
        >>> rows = spread_rows(tasks, 5, rng=np.random.default_rng(0))
        >>> np.bincount(tasks[rows]).tolist()
        [2, 2, 1]
    """
    _check(max_rows)
    if len(tasks) <= max_rows:
        return np.arange(len(tasks))
    shuffled = rng.permutation(len(tasks))
    turns = _turns(tasks, shuffled)  # the first of all stations go before the second of any
    return np.sort(shuffled[np.argsort(turns[shuffled], kind="stable")][:max_rows])


def station_groups(tasks: IntArray, *, block_rows: int, stations: int, rng: np.random.Generator) -> IntArray:
    """Return a group for each station, (M,), at random, so that groups of several have at most `block_rows` rows.

    Args:
        tasks: Station of each row, (n,).
        block_rows: Rows of a group; a station with more is a group of its own.
        stations: Number of stations M.
        rng: Draws the order in which groups are filled.

    Example:
        >>> tasks, rng = np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(1)
        >>> groups = station_groups(tasks, block_rows=4, stations=3, rng=rng)
        >>> sorted(np.bincount(groups).tolist())
        [1, 2]
    """
    if block_rows < 1:
        raise BadInputError(f"block_rows must be at least 1, got {block_rows}")
    counts = np.bincount(tasks, minlength=stations)
    groups, group, filled = np.zeros(stations, dtype=np.int64), 0, 0
    for station in rng.permutation(stations):
        if filled and filled + counts[station] > block_rows:
            group, filled = group + 1, 0
        groups[station] = group
        filled += int(counts[station])
    return groups


def _turns(tasks: IntArray, shuffled: IntArray) -> IntArray:
    """The how-manieth of its station each row is, (n,), in the order `shuffled`."""
    by_task = shuffled[np.argsort(tasks[shuffled], kind="stable")]
    _, first, counts = np.unique(tasks[by_task], return_index=True, return_counts=True)
    turns = np.empty(len(tasks), dtype=np.int64)
    turns[by_task] = np.arange(len(tasks)) - np.repeat(first, counts)
    return turns


def _check(max_rows: int) -> None:
    if max_rows < 1:
        raise BadInputError(f"max_rows must be at least 1, got {max_rows}")
