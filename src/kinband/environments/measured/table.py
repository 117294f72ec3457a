"""Tables of measurements: tasks, configurations and outcomes."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments.contract import whole_number
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace.columns import RowError, Table, floats, looks_like_number, settings, station_names, table_of

# --- Which columns of a table of measurements are what: the task, the outcome, the knobs, the marks of failed runs
#
# What is not named is guessed where that is safe. Where a column `arm` numbers the configurations, a knob is a column
# that is the same in all rows of an arm, and everything else was measured. Without it every other column is a knob,
# unless it looks like none: most of its values are found in one task only, as outcomes are, or it never changes within
# a task.

ARM = "arm"
"""The column that numbers the configurations, where there is one; it is neither knob nor outcome."""

FAILED = "failed"
"""The column that marks failed runs, unless another is named."""

_MARKS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


_USES = {"knobs": "a knob", "ignore": "to ignore", "failed": "marks of failed runs"}


def known_column(table: Table, name: object, *, role: str) -> str:
    """Return the name of a column that is there, or say which there are."""
    if not isinstance(name, str) or name not in table.names:
        close = difflib.get_close_matches(str(name), table.names, n=1)
        meant = f", did you mean {close[0]!r}? The" if close else ": the"
        listed = ", ".join(map(repr, table.names))
        raise BadInputError(
            f"there is no column {name!r} ({_USES.get(role, f'the {role}')}){meant} columns are {listed}",
            argument=role,
            value=name,
        )
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
    """Return the settings of a knob: numbers where all of them are numbers or their text, else as they are, (n,)."""
    try:
        values = settings(table.get(name), label=f"knob {name!r}")
    except RowError as error:
        raise RowError(error.problem, error.row, "write None where a knob does not apply") from error
    if values.dtype.kind == "U":
        distinct, inverse = np.unique(values, return_inverse=True)
        if not all(looks_like_number(text) and "," not in text for text in distinct.tolist()):
            return values
        values = np.array([float(text) for text in distinct.tolist()])[inverse]
    if values.dtype.kind == "f" and (values == np.round(values)).all() and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return values


def marks(table: Table, name: str) -> BoolArray:
    """Return which runs a column marks as failed, (n,): true, yes or 1; a missing mark says that it did not fail."""
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
            f"column {name!r} does not look like a knob, {why}",
            hint="name the knobs with knobs=, or leave it out with ignore=",
            code="unlike_a_knob",
            argument="knobs",
            value=name,
        )


# --- A table of tasks that were run under configurations, and how each run went: clean, and checked at the door -----
#
# One row is one run: its task, the knobs it ran under, its outcome. A run that failed has no outcome to learn from: its
# outcome is missing, or marked by a column, or on the log scale zero or negative (a zero has no log, and a negative
# number, always the same, is a mark). Several different negative numbers are a quantity with a sign, which has no log
# either: such a table is refused. Two rows with one task and equal knobs are repeated measurements.

Goal = Literal["min", "max"]
Scale = Literal["log2", "linear"]
Descriptors = Mapping[str, Mapping[str, float | str]]

_SUBSET_SEED = 0  # which tasks `tasks=` takes: the same for all seeds of a comparison


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """Runs of tasks under configurations, in numbers.

    Attributes:
        tasks: Names of the tasks, in order of their first rows.
        space: The configurations that any of them ran under, in that order too.
        task: Index of the task of each row, (n,).
        arm: Number of the configuration of each row, (n,).
        score: How well the run went, more is better: ± the outcome, or ± its log₂; nan where it failed, (n,).
        descriptors: What is known of tasks, by task; what is missing is left out.
        left_out: Tasks all of whose runs failed; they are in no row.
        aside: Columns that a guess of the knobs took for measured.

    Example:
        >>> columns = {"task": ["a", "a", "b", "b"], "level": [1, 2, 1, 2], "seconds": [4.0, 2.0, 8.0, 0.0]}
        >>> table = MeasuredTable.from_frame(columns, "seconds", goal="min")
        >>> table.tasks, len(table.space), table.score.tolist()
        (('a', 'b'), 2, [-2.0, -1.0, -3.0, nan])
    """

    tasks: tuple[str, ...]
    space: ConfigurationSpace
    task: IntArray
    arm: IntArray
    score: FloatArray
    descriptors: Descriptors
    left_out: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    @classmethod
    def from_frame(
        cls,
        frame: object,
        outcome: str,
        *,
        goal: Goal,
        scale: Scale = "log2",
        task: str = "task",
        knobs: Iterable[str] | None = None,
        categories: Iterable[str] = (),
        ignore: Iterable[str] = (),
        failed: str | None = None,
        tasks: int | None = None,
        descriptors: object = None,
    ) -> "MeasuredTable":
        """Return the table of a data frame or of a mapping of columns, or say what is wrong with it.

        Args:
            frame: A pandas, polars or pyarrow table, or a mapping from column to values.
            outcome: The column of what was measured.
            goal: "min" where less of it is better, "max" where more is.
            scale: "log2" compares outcomes as ratios, "linear" as differences.
            task: The column of the tasks.
            knobs: The columns of the knobs; if not given, those that look like it (see `columns`).
            categories: Knobs whose numbers are names; text that is no number is a category anyway.
            ignore: Columns that a guess of the knobs shall leave out.
            failed: A column that marks runs that failed; one called so, if there is one.
            tasks: Take only so many tasks, drawn by a fixed seed.
            descriptors: What is known of tasks, as a frame with the same task column.
        """
        _check_choice("goal", goal, ("min", "max"))
        _check_choice("scale", scale, ("log2", "linear"))
        table = table_of(frame)
        names, of_row = _tasks_of(table, known_column(table, task, role="task"))
        known_column(table, outcome, role="outcome")
        failed = FAILED if failed is None and FAILED in table.names else failed
        taken = [task, outcome, *([] if failed is None else [known_column(table, failed, role="failed")])]
        chosen, aside = knob_names(table, taken=taken, knobs=knobs, ignore=ignore, task=of_row)
        score = _scores(table, outcome, goal=goal, scale=scale, failed=failed)
        kept, left_out = _kept(names, of_row, score, tasks)
        rows = np.isin(of_row, kept)
        space, arm = _configurations({name: knob_values(table, name)[rows] for name in chosen}, categories)
        numbers = np.full(len(names), -1)
        numbers[kept] = np.arange(len(kept))
        found = tuple(names[number] for number in kept)
        known = _descriptors(descriptors, task, found)
        made = cls(found, space, numbers[of_row[rows]], arm, score[rows], known, left_out, tuple(aside))
        made._check()
        return made

    def _check(self) -> None:
        """Refuse a table on which nothing could be shared or gained."""
        if len(self.space) < 2:
            raise BadInputError(f"the table holds one configuration, {self.space[0]}: there is nothing to choose")
        pairs = np.unique(self.arm * len(self.tasks) + self.task)
        if np.bincount(pairs // len(self.tasks)).max() < 2:
            raise BadInputError(
                f"no configuration was run by more than one task, as if the knobs ({', '.join(self.space.knobs)}) "
                "differed between tasks",
                hint="name the knobs with knobs=, or run some configurations on every task",
                code="nothing_in_common",
                argument="knobs",
            )


def _check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise BadInputError(f"{name} must be {' or '.join(map(repr, known))}, got {value!r}")


def _tasks_of(table: Table, column: str) -> tuple[list[str], IntArray]:
    """The tasks in order of their first rows, and the index of each row's, (n,)."""
    labels = station_names(table.get(column), label=f"column {column!r}")
    if not len(labels):
        raise BadInputError("the table has columns but no rows: give one row for every run")
    distinct, order, of_row = _in_order(labels)
    if len(distinct) < 2:
        raise BadInputError(f"the table holds one task, {str(distinct[0])!r}: sharing takes at least two")
    return [str(name) for name in distinct[order]], of_row


def _in_order(values: NDArray[Any]) -> tuple[NDArray[Any], IntArray, IntArray]:
    """Distinct rows of `values`, their order of first appearance, and the place of each row in that order, (n,)."""
    distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True, axis=0)
    order = np.argsort(first)
    return distinct, order, np.argsort(order)[inverse.ravel()]


def _scores(table: Table, outcome: str, *, goal: Goal, scale: Scale, failed: str | None) -> FloatArray:
    """How well each run went, nan where it failed, (n,)."""
    try:
        values = floats(table.get(outcome), label=f"outcome {outcome!r}", unknown=True)
    except RowError as error:
        if error.hint:
            raise
        hint = "leave outcomes of failed runs empty, or mark them in a column, failed="
        raise RowError(error.problem, error.row, hint, "no_outcome") from error
    lost = np.isnan(values) | (np.zeros(len(values), dtype=np.bool_) if failed is None else marks(table, failed))
    if scale == "log2":
        _refuse_signed(outcome, values[~lost])
        lost |= ~(values > 0)
    score = np.full(len(values), np.nan)
    score[~lost] = (np.log2(values[~lost]) if scale == "log2" else values[~lost]) * (-1.0 if goal == "min" else 1.0)
    return score


def _refuse_signed(outcome: str, values: FloatArray) -> None:
    negative = np.unique(values[values < 0])
    if len(negative) > 1:
        raise BadInputError(
            f"outcome {outcome!r} has negative values, from {negative[0]:g} to {negative[-1]:g}, which have no log",
            hint="use scale='linear', or mark failed runs in a column, failed=",
            code="negative_outcome",
            argument="outcome",
            value=outcome,
        )


def _kept(names: list[str], of_row: IntArray, score: FloatArray, tasks: int | None) -> tuple[IntArray, tuple[str, ...]]:
    """The tasks to keep, and those all of whose runs failed."""
    ran = np.bincount(of_row, weights=~np.isnan(score), minlength=len(names)) > 0
    if ran.sum() < 2:
        raise BadInputError(
            f"{ran.sum()} of {len(ran)} tasks have runs that did not fail, sharing takes at least two: check the "
            "outcome, which is missing or not above zero in the others"
        )
    left_out = tuple(name for name, well in zip(names, ran.tolist(), strict=True) if not well)
    kept = np.flatnonzero(ran)
    if tasks is None:
        return kept, left_out
    if whole_number(tasks, name="tasks", least=2) > len(kept):
        raise BadInputError(f"{tasks} tasks were asked for, the table holds {len(kept)}: ask for fewer")
    return np.sort(np.random.default_rng(_SUBSET_SEED).choice(kept, tasks, replace=False)), ()


def _configurations(
    columns: Mapping[str, NDArray[Any]], categories: Iterable[str]
) -> tuple[ConfigurationSpace, IntArray]:
    """The configurations in order of their first rows, without constant knobs, and the number of each row's, (n,)."""
    coded = {name: np.unique(values, return_inverse=True) for name, values in columns.items()}
    marked = [categories] if isinstance(categories, str) else list(categories)
    if unknown := [name for name in marked if name not in coded]:
        raise BadInputError(
            f"{unknown[0]!r} is not a knob, so that it cannot hold names: the knobs are {', '.join(coded)}",
            argument="categories",
            value=unknown[0],
        )
    coded = {name: both for name, both in coded.items() if len(both[0]) > 1}
    if not coded:
        raise BadInputError(
            "no knob varies, so that there is nothing to choose",
            hint="name the knobs with knobs=",
            code="no_knob_varies",
            argument="knobs",
        )
    distinct, order, arm = _in_order(np.column_stack([codes for _, codes in coded.values()]))
    values = [both[0].tolist() for both in coded.values()]
    listed = [
        {name: values[j][code] for j, (name, code) in enumerate(zip(coded, row, strict=True))}
        for row in distinct[order].tolist()
    ]
    return ConfigurationSpace.from_list(listed, categories=[name for name in marked if name in coded]), arm


def _descriptors(frame: object, task: str, tasks: tuple[str, ...]) -> Descriptors:
    """What is known of the tasks, by task, numbers and text; what is missing is left out."""
    if frame is None:
        return {}
    table = table_of(frame)
    try:
        names = station_names(table.get(known_column(table, task, role="task")), label=f"column {task!r}").tolist()
    except BadInputError as error:
        raise BadInputError(f"of the descriptors, {error}") from error
    if not set(names) & set(tasks):
        raise BadInputError(
            f"the descriptors are of other tasks, such as {names[0]!r}, than the table, such as {tasks[0]!r}: "
            "give those of its tasks"
        )
    columns = {name: table.get(name).tolist() for name in table.names if name != task}
    known: dict[str, dict[str, float | str]] = {}
    for row, name in enumerate(names):
        if name in known:
            raise BadInputError(f"the descriptors name task {name!r} twice: give one row a task")
        known[name] = {column: _plain(values[row]) for column, values in columns.items() if not _missing(values[row])}
    return {name: known[name] for name in tasks if name in known}


def _plain(value: Any) -> float | str:
    return value if isinstance(value, str) else float(value)


def _missing(value: Any) -> bool:
    return value is None or value == "" or value != value
