"""A log of the user's own, parted for a comparison: rows to learn from, and rows that answer.

A learner must not know the rows it is judged by. Rows are parted by time, the first of every station being the log; or
by groups, such as measurement runs or days, in which a configuration stayed as it was: half of the groups then give
the log. The parts are stored in a folder whose name follows from what they hold, so that results kept from an
earlier comparison are used again for the same rows and never for others.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinband.arrays import BoolArray
from kinband.environments.trace.smooth import LEAST
from kinband.errors import BadInputError
from kinband.trace import Trace
from kinband.version import __version__

_LOG, _REST = "log.parquet", "rest.parquet"


def part_trace(
    trace: Trace, log_rows: int, *, groups: ArrayLike | None = None, skip_short: bool = False, seed: int = 0
) -> tuple[Trace, Trace]:
    """Return a log and the rest of a trace, or say why a comparison on it could not be.

    Args:
        trace: All rows, with times unless there are groups.
        log_rows: Rows of each station in the log, at most.
        groups: The group of each row, (n,): half of them, drawn at random, give the log.
        skip_short: Whether to leave out stations that have too few rows, rather than to refuse them.
        seed: Draws the groups and the rows taken from them.

    Example:
        >>> columns = {"station": ["a"] * 15 + ["b"] * 15, "time": [*range(15)] * 2, "tilt": [2, 4, 6] * 10}
        >>> trace = Trace.from_frame(columns | {"reward": np.linspace(0, 1, 30)}, {"configuration": ["tilt"]})
        >>> [len(part) for part in part_trace(trace, 3)]
        [6, 24]
    """
    if len(trace.stations) < 2:
        raise BadInputError(f"the log holds one station, {trace.stations[0]!r}: sharing takes at least two")
    rng = np.random.default_rng([seed, 3])
    known = _earliest(trace, log_rows) if groups is None else _drawn(trace, np.asarray(groups), rng)
    short = _short(trace, known)
    if short and not skip_short:
        raise BadInputError(_too_short(trace, short, log_rows))
    kept = ~np.isin(trace.station, short)
    if len(short) > len(trace.stations) - 2:
        raise BadInputError(
            f"only {len(trace.stations) - len(short)} of {len(trace.stations)} station(s) have rows to learn from and "
            f"rows to play on, sharing takes two: give more rows, or ask for fewer with log_rows"
        )
    trace = trace.with_space(trace.space())
    log, rest = trace.select(known & kept), trace.select(~known & kept)
    _check_worth(rest)
    return (log if groups is None else log.sample(log_rows, rng)), rest


def store_parts(log: Trace, rest: Trace, folder: Path) -> Path:
    """Write both parts below a folder, and return where; the same rows are always in the same place."""
    fresh = Path(tempfile.mkdtemp(prefix=".parts-", dir=folder))
    try:
        digest = hashlib.sha256(__version__.encode())
        for name, part in ((_LOG, log), (_REST, rest)):
            part.write(fresh / name)
            digest.update((fresh / name).read_bytes())
        place = folder / f"parts-{digest.hexdigest()[:12]}"
        if not place.exists():
            fresh.rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return place


def read_parts(place: Path) -> tuple[Trace, Trace]:
    """Read what `store_parts` wrote."""
    return Trace.read(place / _LOG), Trace.read(place / _REST)


def _earliest(trace: Trace, count: int) -> BoolArray:
    """Which rows are among the first so many of their station, (n,); rows of one time stay in their order."""
    if trace.time is None:
        raise BadInputError("the trace has no time to be split by: name its column in columns={'time': ...}")
    early = np.zeros(len(trace), dtype=np.bool_)
    for station in trace.stations:
        rows = np.flatnonzero(trace.station == station)
        early[rows[np.argsort(trace.time[rows], kind="stable")[:count]]] = True
    return early


def _drawn(trace: Trace, groups: NDArray[Any], rng: np.random.Generator) -> BoolArray:
    """Which rows are of the drawn half of the groups, (n,)."""
    if groups.shape != (len(trace),):
        raise BadInputError(f"groups must be {len(trace)} labels, one per row of the trace, got shape {groups.shape}")
    names = np.unique(groups)
    if len(names) < 2:
        raise BadInputError(f"all rows are of one group, {names[0]}: parting them takes at least two")
    return np.isin(groups, rng.choice(names, size=len(names) // 2, replace=False))


def _short(trace: Trace, known: BoolArray) -> list[str]:
    """The stations that have too few rows on one of the sides."""
    counts = {
        side: dict(zip(*np.unique(trace.station[rows], return_counts=True), strict=True))
        for side, rows in (("log", known), ("rest", ~known))
    }
    return [s for s in trace.stations if counts["log"].get(s, 0) < 2 or counts["rest"].get(s, 0) < LEAST]


def _too_short(trace: Trace, short: list[str], log_rows: int) -> str:
    rows = int((trace.station == short[0]).sum())
    return (
        f"{len(short)} of {len(trace.stations)} station(s) have too few rows, such as {short[0]!r} with {rows}: a "
        f"comparison learns from {log_rows} of each and plays on {LEAST} others at least; ask for fewer with "
        "log_rows, or leave such stations out with skip_short"
    )


def _check_worth(rest: Trace) -> None:
    """Refuse rows on which no choice could be better than another."""
    if len(rest.space()) < 2:
        raise BadInputError(f"the log holds one configuration, {rest.space()[0]}: there is nothing to choose")
    if rest.reward.min() == rest.reward.max():
        raise BadInputError(f"all rewards to play for are {rest.reward[0]:g}: there is nothing to gain")
