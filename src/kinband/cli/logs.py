"""What commands do with a log they have read: how much of it to use, what to say of it, and notes to the user."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from kinband.counting import counted
from kinband.errors import BadInputError
from kinband.trace import Trace

MOST_ROWS = 6000
"""Rows of a log used unless --rows says otherwise: about half a minute of work."""

FEW = 20
"""With fewer rows than this, a station's likeness is a guess."""

_SHOWN = 8  # names in a list

LARGEST = 20_000
"""Rows that a controller can hold at most."""


def check_log(trace: Trace) -> None:
    """Refuse a log from which nothing can be learned about any station.

    Example:
        >>> check_log(Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.8]}, {"configuration": ["tilt"]}))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: every station has one row only, which says nothing about it: give a longer log
    """
    if len(trace) == len(trace.stations):
        raise BadInputError("every station has one row only, which says nothing about it: give a longer log")
    if trace.reward.min() == trace.reward.max():
        raise BadInputError(f"all rewards are {trace.reward[0]:g}: there is nothing to learn, check --reward")


def few_rows(trace: Trace) -> list[str]:
    """Return a note on stations with too few rows to know whom they resemble; none where all have enough.

    Example:
        >>> log = {"station": ["a"] * 3 + ["b"] * 30, "tilt": range(33), "reward": np.linspace(0, 1, 33)}
        >>> few_rows(Trace.from_frame(log, {"configuration": ["tilt"]}))
        ['fewer than 20 rows, so that their likeness is a guess: a']
    """
    names, counts = np.unique(trace.station, return_counts=True)
    few = names[counts < FEW].tolist()
    return [f"fewer than {FEW} rows, so that their likeness is a guess: {some_of(few)}"] if few else []


def some_of(names: Sequence[str]) -> str:
    """Return the first of many names, and how many more there are.

    Example:
        >>> some_of(["a", "b"]), some_of([str(n) for n in range(10)])
        ('a, b', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def used_rows(trace: Trace, rows: int | None, *, seed: int) -> Trace:
    """Return the rows of a log that are used: so many of each station, by default at most `MOST_ROWS` in all.

    Example:
        >>> log = {"station": ["a"] * 5 + ["b"], "tilt": [2, 4, 6, 8, 2, 4], "reward": [0.8, 0.9, 0.7, 0.6, 0.5, 0.4]}
        >>> len(used_rows(Trace.from_frame(log, {"configuration": ["tilt"]}), 2, seed=0))
        3
    """
    counts = np.unique(trace.station, return_counts=True)[1]
    if rows is None:
        rows = even_share(counts.tolist(), most=MOST_ROWS)
    if rows >= counts.max():
        return trace
    return trace.sample(rows, np.random.default_rng([seed, 1]))


def even_share(counts: list[int], *, most: int) -> int:
    """Return how many rows each station may give, at least one, so that all together give at most `most`.

    Example:
        >>> even_share([2, 10, 10], most=12)
        5
    """
    left = most
    for place, count in enumerate(sorted(counts)):
        share = left // (len(counts) - place)
        if count > share:
            return max(share, 1)
        left -= count
    return max(counts)


def log_in_words(trace: Trace, used: Trace) -> str:
    """Return what was read, so that a wrong column is seen at once.

    Example:
        >>> trace = Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.8]}, {"configuration": ["tilt"]})
        >>> log_in_words(trace, trace)
        'log: 1 row of 1 station; state: none; knobs: tilt'
    """
    rows = f"{counted(len(trace), 'row')} of {counted(len(trace.stations), 'station')}"
    if len(used) < len(trace):
        most = int(np.unique(used.station, return_counts=True)[1].max())
        rows = f"{len(used):,} of {rows}, drawn at random, at most {most:,} a station (--rows takes more or fewer)"
    return f"log: {rows}; state: {', '.join(trace.state_names) or 'none'}; knobs: {', '.join(trace.configuration)}"


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Gather warnings as notes to the user, each once.

    Example:
        >>> notes: list[str] = []
        >>> with noted(notes):
        ...     warnings.warn("feature 'load' never varies", UserWarning)
        >>> notes
        ["feature 'load' never varies"]
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message).replace("; duplicates='drop' leaves them out", "")
        if text not in notes:
            notes.append(text)


@contextmanager
def unwarned() -> Iterator[None]:
    """Keep what the library warns of off the screen, here and in processes that are started meanwhile.

    For work that is done many times over, in which a warning concerns one of many models and the user can do nothing
    about it.

    Example:
        >>> with unwarned():
        ...     warnings.warn("a matrix had to be projected", UserWarning)
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before
