"""Which columns of a table of measurements are what: the task, the outcome, the knobs, the marks of failed runs.

What is not named is guessed where that is safe. Where a column `arm` numbers the configurations, a knob is a column
that is the same in all rows of an arm, and everything else was measured. Without it every other column is a knob,
unless it looks like none: most of its values are found in one task only, as outcomes are, or it never changes within
a task.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, IntArray
from kinband.errors import BadInputError
from kinband.trace.columns import Table
from kinband.trace.values import RowError, looks_like_number, settings

ARM = "arm"
"""The column that numbers the configurations, where there is one; it is neither knob nor outcome."""

FAILED = "failed"
"""The column that marks failed runs, unless another is named."""

_MARKS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


def known_column(table: Table, name: object, *, role: str) -> str:
    """Return the name of a column that is there, or say which there are.

    Example:
        >>> from kinband.trace.columns import table_of
        >>> known_column(table_of({"task": ["a"], "seconds": [2.0]}), "second", role="outcome")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: there is no column 'second' (outcome=), did you mean 'seconds'? The ...
    """
    if not isinstance(name, str) or name not in table.names:
        close = difflib.get_close_matches(str(name), table.names, n=1)
        meant = f", did you mean {close[0]!r}? The" if close else ": the"
        listed = ", ".join(map(repr, table.names))
        raise BadInputError(f"there is no column {name!r} ({role}=){meant} columns are {listed}")
    return name


def knob_names(
    table: Table, *, taken: Iterable[str], knobs: Iterable[str] | None, ignore: Iterable[str], task: IntArray
) -> tuple[list[str], list[str]]:
    """Return the knobs, named or guessed, and the columns that a guess left aside as measured.

    Args:
        table: The columns.
        taken: Those that are something else: task, outcome, failed.
        knobs: The knobs, if they are named.
        ignore: Columns that are nothing.
        task: The task of each row, (n,).

    Example:
        >>> from kinband.trace.columns import table_of
        >>> columns = {"arm": [0, 1, 0, 1], "tilt": [2, 4, 2, 4], "speed": [1.0, 1.5, 1.2, 1.1]}
        >>> knob_names(table_of(columns), taken=(), knobs=None, ignore=(), task=np.array([0, 0, 1, 1]))
        (['tilt'], ['speed'])
    """
    if knobs is not None:
        listed = [known_column(table, name, role="knobs") for name in _listed(knobs)]
        if both := [name for name in listed if name in set(taken)]:
            raise BadInputError(f"column {both[0]!r} is named as a knob and as something else: give it one role")
        return list(dict.fromkeys(listed)), []
    out = {*taken, *(known_column(table, name, role="ignore") for name in _listed(ignore))}
    rest = [name for name in table.names if name not in out and name != ARM]
    if ARM in table.names and ARM not in out:
        arm = _codes(table.get(ARM))
        fixed = [name for name in rest if _follows(_codes(table.get(name)), arm)]
        return fixed, [name for name in rest if name not in fixed]
    for name in rest:
        _refuse_unlike_a_knob(name, _codes(table.get(name)), task)
    return rest, []


def knob_values(table: Table, name: str) -> NDArray[Any]:
    """Return the settings of a knob: numbers where all of them are numbers or their text, else as they are, (n,).

    Example:
        >>> from kinband.trace.columns import table_of
        >>> table = table_of({"ref": ["1", "2.0"], "direct": ["None", "1"]})
        >>> knob_values(table, "ref").tolist(), knob_values(table, "direct").tolist()
        ([1, 2], ['None', '1'])
    """
    try:
        values = settings(table.get(name), label=f"knob {name!r}")
    except RowError as error:
        raise RowError(error.complaint, error.row, ": write None where a knob does not apply") from error
    if values.dtype.kind == "U":
        distinct, inverse = np.unique(values, return_inverse=True)
        if not all(looks_like_number(text) and "," not in text for text in distinct.tolist()):
            return values
        values = np.array([float(text) for text in distinct.tolist()])[inverse]
    if values.dtype.kind == "f" and (values == np.round(values)).all() and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return values


def marks(table: Table, name: str) -> BoolArray:
    """Return which runs a column marks as failed, (n,): true, yes or 1; a missing mark says that it did not fail.

    Example:
        >>> from kinband.trace.columns import table_of
        >>> marks(table_of({"crashed": ["no", "yes", None]}), "crashed").tolist()
        [False, True, False]
    """
    array = table.get(name)
    if array.dtype.kind in "biuf":
        return np.asarray(np.nan_to_num(array.astype(np.float64)) != 0, dtype=np.bool_)
    said = ["" if value is None else str(value).strip().lower() for value in array.tolist()]
    for row, word in enumerate(said):
        if word not in _MARKS:
            raise RowError(f"column {name!r} marks failed runs, but holds {word!r}", row, ": write true or false")
    return np.array([_MARKS[word] for word in said], dtype=np.bool_)


def _listed(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _codes(values: NDArray[Any]) -> IntArray:
    """A number for each distinct value of a column, (n,)."""
    plain = values.astype(np.str_) if values.dtype.kind == "O" else values
    return np.asarray(np.unique(plain, return_inverse=True)[1], dtype=np.int64)


def _follows(column: IntArray, arm: IntArray) -> bool:
    """Whether a column is the same in all rows of an arm."""
    pairs = arm * (column.max() + 1) + column
    return len(np.unique(pairs)) == int(arm.max()) + 1


def _refuse_unlike_a_knob(name: str, column: IntArray, task: IntArray) -> None:
    pairs = np.unique(column * (task.max() + 1) + task)
    tasks_of_value = np.bincount(pairs // (task.max() + 1))
    why = ""
    if column.max() > 0 and len(pairs) == task.max() + 1:
        why = "it never changes within a task"
    elif (tasks_of_value[column] == 1).mean() > 0.5:
        why = "most of its values are found in one task only, as those of an outcome are"
    if why:
        raise BadInputError(
            f"column {name!r} does not look like a knob, {why}: name the knobs with knobs=, or leave it out with "
            "ignore="
        )
