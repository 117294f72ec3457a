"""Parts a log in two: rows that a learner may know beforehand, and rows that an environment answers from.

A learner that knows the very rows it is later judged by looks better than it is. Rows are parted by time, or, where
the rows of one measurement run are near-copies of each other, by run: parting those row by row would put copies on
both sides.
"""

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import finite_number
from kinband.environments.contract import whole_number
from kinband.errors import BadInputError
from kinband.trace import Trace


def split_trace(trace: Trace, *, rows_per_station: int | None = None, at: object | None = None) -> tuple[Trace, Trace]:
    """Return the earlier and the later rows: a log, and the rest.

    Args:
        trace: The rows to part, with times.
        rows_per_station: The log is so many rows of each station, its earliest; rows of one time stay in their order.
        at: The log is what was before this time.

    Example:
        >>> columns = {"station": ["a", "a", "a", "b", "b"], "time": [3, 1, 2, 8, 9], "tilt": [2, 4, 4, 2, 4]}
        >>> trace = Trace.from_frame(columns | {"reward": [0.3, 0.1, 0.2, 0.8, 0.9]}, {"configuration": ["tilt"]})
        >>> log, rest = split_trace(trace, rows_per_station=1)
        >>> log.reward.tolist(), rest.reward.tolist()
        ([0.1, 0.8], [0.3, 0.2, 0.9])
    """
    if (rows_per_station is None) == (at is None):
        raise BadInputError("a trace is split by rows_per_station= or at=: give one of them")
    if rows_per_station is None:
        return _both_sides(*trace.split(at), advice="choose another time")
    count = whole_number(rows_per_station, name="rows_per_station", least=1)
    if trace.time is None:
        raise BadInputError("the trace has no time to be split by: name its column in columns={'time': ...}")
    early = np.zeros(len(trace), dtype=np.bool_)
    for station in trace.stations:
        rows = np.flatnonzero(trace.station == station)
        if len(rows) <= count:
            raise BadInputError(
                f"station {station!r} has {len(rows)} row(s), a log of {count} leaves none to play on: ask for fewer"
            )
        early[rows[np.argsort(trace.time[rows], kind="stable")[:count]]] = True
    return trace.select(early), trace.select(~early)


def split_by_group(trace: Trace, groups: ArrayLike, *, share: float, rng: np.random.Generator) -> tuple[Trace, Trace]:
    """Return the rows of some groups, drawn at random, and the rows of all others: a log, and the rest.

    Args:
        trace: The rows to part.
        groups: The group of each row, such as its measurement run, (n,).
        share: The share of the groups that go to the log, above 0 and below 1; at least one group on either side.
        rng: Draws the groups.

    Example:
        >>> columns = {"station": ["a"] * 4, "tilt": [2, 4, 4, 2], "reward": [0.1, 0.2, 0.3, 0.4]}
        >>> trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
        >>> runs = ["run 1", "run 1", "run 2", "run 2"]
        >>> log, rest = split_by_group(trace, runs, share=0.5, rng=np.random.default_rng(0))
        >>> sorted([log.reward.tolist(), rest.reward.tolist()])
        [[0.1, 0.2], [0.3, 0.4]]
    """
    labels = np.asarray(groups)
    if labels.shape != (len(trace),):
        raise BadInputError(f"groups must be {len(trace)} labels, one per row of the trace, got shape {labels.shape}")
    if not 0 < finite_number(share, name="share") < 1:
        raise BadInputError(f"share must lie between 0 and 1, got {share:g}")
    names, members = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise BadInputError(f"all rows are of the group {names[0]}: at least two groups can be parted")
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    drawn = np.isin(members, rng.choice(len(names), size=count, replace=False))
    return _both_sides(trace.select(drawn), trace.select(~drawn), advice="change share, or draw again")


def _both_sides(log: Trace, rest: Trace, *, advice: str) -> tuple[Trace, Trace]:
    """Refuse a split that leaves a station on one side only."""
    alone = sorted(set(log.stations) ^ set(rest.stations))
    if alone:
        part = "log" if alone[0] in log.stations else "rest"
        raise BadInputError(
            f"all rows of station {alone[0]!r} fall into the {part}: {advice}, or leave the station out by Trace.select"
        )
    return log, rest
