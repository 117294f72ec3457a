"""Cells of a table as numbers, times and names, or the row that is wrong."""

import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray
from kinband.errors import BadInputError

# --- Turns the columns of a log into clean arrays, and says which value of which row is in the way ------------------
#
# Logs come from files, data frames and lists, where the same column may be integers here, floats there and
# strings elsewhere. Each function takes such a column and returns one kind of array: station names are strings,
# quantities are float64, knob settings are what `plain_scalar` would make of them; times have a module of their own.
# Clean arrays pass unchanged. A refusal knows the row it is about, so that whoever read the column from a file can say
# where that is: in which line of a text, or in which row of a table.

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class RowError(BadInputError):
    """A value is in the way, and it is known in which row.

    Attributes:
        row: The first row concerned, from 0.

    Example:
        >>> error = RowError("the reward is missing", 4, "repair it")
        >>> str(error)
        'the reward is missing in row 5, counted from 1: repair it'
        >>> str(error.at("line 6 of log.csv"))
        'the reward is missing in line 6 of log.csv: repair it'
    """

    def __init__(self, problem: str, row: int, hint: str = "", code: str = "bad_row") -> None:
        super().__init__(problem, hint=hint, code=code)
        self.args = (problem, row, hint, code)  # all of them, so that it survives the way to another process
        self.row = int(row)

    def at(self, place: str) -> BadInputError:
        """Return the error with a word for where the row is."""
        return BadInputError(f"{self.problem} in {place}", hint=self.hint, code=self.code)

    def __str__(self) -> str:
        return str(self.at(f"row {self.row + 1}, counted from 1"))


def column(values: object, *, label: str) -> NDArray[Any]:
    """Return a column as an array, (n,), whose strings and missing values are still told apart.

    Example:
        >>> column(["a", None], label="scheduler").tolist()
        ['a', None]
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise BadInputError(f"{label} must be one value per row: {error}") from error
    if array.ndim != 1:
        raise BadInputError(f"{label} must be one value per row, got {values!r:.60}")
    if isinstance(values, list | tuple) and array.dtype.kind in "US":
        return np.array(values, dtype=object)  # NumPy would have written None and numbers as strings
    return array if array.dtype.kind != "T" else array.astype(object)


def station_names(values: object, *, label: str) -> NDArray[np.str_]:
    """Return station names as strings, (n,); whole numbers are written without a decimal point.

    Example:
        >>> station_names([3714, 3715.0], label="station").tolist()
        ['3714', '3715']
    """
    array = column(values, label=label)
    if array.dtype.kind in "iu" or (array.dtype.kind == "U" and array.size and (array != "").all()):
        return array.astype(np.str_)
    objects = array.astype(object)
    refuse_rows(missing_values(objects), label)
    named = [_station_name(value) for value in objects.tolist()]
    if None in named:
        row = named.index(None)
        raise RowError(f"{label} must hold names or whole numbers, got {objects[row]!r}", row)
    return np.array(named, dtype=np.str_)


def _station_name(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer) or value != int(value):
        return None
    return str(int(value))


def floats(values: object, *, label: str, unknown: bool = False) -> FloatArray:
    """Return numbers as float64, (n,); with `unknown`, a missing value stays nan.

    Example:
        >>> floats([1, None], label="noise", unknown=True).tolist()
        [1.0, nan]
        >>> floats([1, None], label="reward")
        Traceback (most recent call last):
            ...
        kinband.trace.values.RowError: reward has 1 missing or infinite value(s), the first in row 2, counted ...
    """
    array = column(values, label=label)
    if array.dtype.kind == "O":
        array = np.array([np.nan if value is None else value for value in array.tolist()], dtype=object)
    if array.dtype.kind not in "biuf":
        listed = array.astype(object).tolist()
        text = [row for row, value in enumerate(listed) if isinstance(value, str | bytes) or not _is_number(value)]
        if text:
            row = odd_row(listed, text)
            raise RowError(f"{label} must hold numbers, got {listed[row]!r}", row, *decimal_advice(listed[row]))
    numbers = array.astype(np.float64)
    refuse_rows(np.isinf(numbers) if unknown else ~np.isfinite(numbers), label)
    return numbers


def settings(values: object, *, label: str) -> NDArray[Any]:
    """Return the values of a knob as int64, float64, booleans or strings, (n,).

    Example:
        >>> settings(np.array([0.1, 0.2], dtype=np.float32), label="offset").tolist()
        [0.1, 0.2]
    """
    array = column(values, label=label)
    if array.dtype.kind == "O":
        refuse_rows(missing_values(array), label)
        kinds = {type(value) for value in array.tolist()}
        array = np.array(array.tolist())
        if array.dtype.kind == "U" and not all(issubclass(kind, str) for kind in kinds):
            raise BadInputError(f"{label} mixes {' and '.join(sorted(kind.__name__ for kind in kinds))}: use one kind")
    if array.dtype.kind == "f":
        floats(array, label=label)
        # The shortest decimal of a single-precision number is what its author wrote.
        distinct, inverse = np.unique(array, return_inverse=True)
        return np.array([float(str(value)) for value in distinct])[inverse]
    if array.dtype.kind == "U":
        refuse_rows(array == "", label)
        return array
    if array.dtype.kind not in "biu" or (array.dtype == np.uint64 and array.size and array.max() >= 2**63):
        raise BadInputError(f"{label} must hold numbers, strings or booleans, got {array[:1].tolist()}")
    return array if array.dtype.kind == "b" else array.astype(np.int64)


def positive_or_unknown(values: object, *, label: str, least: float | None = None) -> FloatArray | None:
    """Return numbers above 0, or of at least `least`, (n,), nan where missing; None stays None.

    Example:
        >>> positive_or_unknown([20, None], label="sample count", least=1).tolist()
        [20.0, nan]
    """
    if values is None:
        return None
    numbers = floats(values, label=label, unknown=True)
    bad = np.flatnonzero(numbers <= 0 if least is None else numbers < least)
    if len(bad):
        bound = "above 0" if least is None else f"at least {least:g}"
        raise RowError(f"{label} must be {bound}, got {numbers[bad[0]]:g}", bad[0], "leave unknown ones empty")
    return numbers


def looks_like_number(text: str) -> bool:
    """Return whether a text would be a number, be it with a decimal comma.

    Example:
        >>> looks_like_number("-1.5e3"), looks_like_number("0,25"), looks_like_number("3714A")
        (True, True, False)
    """
    return bool(_NUMBER.fullmatch(text.strip()))


def odd_row(values: list[Any], refused: list[int]) -> int:
    """Return the row to complain of: one word makes text of a whole column, so it is the word and not the numbers.

    Example:
        >>> odd_row(["1", "2", "many"], [0, 1, 2]), odd_row(["few", "many"], [0, 1])
        (2, 0)
    """
    words = [row for row in refused if not (isinstance(values[row], str) and looks_like_number(values[row]))]
    return words[0] if words and len(words) < len(values) / 2 else refused[0]


def decimal_advice(value: object) -> tuple[str, str]:
    """Return what to do about a number with a decimal comma, and the code of it; what is usual where there is none.

    Example:
        >>> decimal_advice("0,25"), decimal_advice("many")
        (("it has a decimal comma, pass decimal_point=','", 'decimal_comma'), ('', 'bad_row'))
    """
    comma = isinstance(value, str) and "," in value and looks_like_number(value)
    return ("it has a decimal comma, pass decimal_point=','", "decimal_comma") if comma else ("", "bad_row")


def natural_key(name: str) -> tuple[list[Any], str]:
    """Return a key that sorts 'cell2' before 'cell10' and '9' before '10'.

    Example:
        >>> sorted(["10", "9", "cell10", "cell2"], key=natural_key)
        ['9', '10', 'cell2', 'cell10']
    """
    parts: list[Any] = re.split("([0-9]+)", name)
    parts[1::2] = map(int, parts[1::2])
    return parts, name


def missing_values(objects: NDArray[Any]) -> BoolArray:
    """Return which values of a column of objects are missing or empty, (n,).

    Example:
        >>> missing_values(np.array(["a", None, ""], dtype=object)).tolist()
        [False, True, True]
    """
    return np.array([_is_missing(value) for value in objects.tolist()], dtype=np.bool_)


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__")


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value == "" or value != value)
    except TypeError:  # pandas.NA refuses to be true or false
        return True


def refuse_rows(bad: BoolArray, label: str) -> None:
    """Refuse a column some of whose values, (n,), are missing or infinite.

    Example:
        >>> refuse_rows(np.array([False, False]), "reward")
    """
    rows = np.flatnonzero(bad)
    if len(rows):
        text = f"{label} has {len(rows)} missing or infinite value(s), the first"
        raise RowError(text, rows[0], "remove or repair these rows")


# --- Turns the times of a log into one kind of array: microseconds, in UTC where a zone is known, or numbers --------

TIME = np.dtype("datetime64[us]")


def times(values: object, *, label: str) -> NDArray[Any]:
    """Return times as datetime64[us] (zones turned to UTC) or as numbers, (n,); ISO strings are parsed.

    Example:
        >>> times(["2024-05-01 14:00", "2024-05-01T15:00"], label="time")[1]
        np.datetime64('2024-05-01T15:00:00.000000')
    """
    array = column(values, label=label)
    kind = array.dtype.kind
    if kind == "M":
        refuse_rows(np.isnat(array), label)
        return array.astype(TIME)
    if kind in "iuf":
        return floats(array, label=label) if kind == "f" else array.astype(np.int64)
    objects = array.astype(object)
    refuse_rows(missing_values(objects), label)
    moments = [_moment(value) for value in objects.tolist()]
    if None in moments:
        row = odd_row(objects.tolist(), [row for row, moment in enumerate(moments) if moment is None])
        text = f"{label} must hold ISO date-times such as '2024-05-01 14:00', or numbers, got {objects[row]!r}"
        raise RowError(text, row)
    if len({moment.tzinfo is None for moment in moments if moment}) > 1:
        raise BadInputError(f"{label} mixes times with and without a time zone: write all of them alike")
    return np.array([_utc(moment) for moment in moments if moment], dtype=TIME)


def moment_like(at: object, time: NDArray[Any]) -> Any:
    """Return `at` in the kind of a column of times, to compare it with them.

    Example:
        >>> moment_like("2024-05-01", np.array(["2024-05-02"], dtype="datetime64[us]"))
        np.datetime64('2024-05-01T00:00:00.000000')
    """
    try:
        given = times([at], label="the given time")[0]
    except RowError as error:
        raise BadInputError(f"a time must be an ISO date-time such as '2024-05-01', or a number, got {at!r}") from error
    if (given.dtype.kind == "M") != (time.dtype.kind == "M"):
        kind = "date-times" if time.dtype.kind == "M" else "numbers"
        raise BadInputError(f"the times of the trace are {kind}, got {at!r}: give the same kind")
    return given


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value.isoformat() if isinstance(value, date) else str.strip(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _utc(moment: datetime) -> datetime:
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise BadInputError(f"the time {moment} lies outside the years 1 to 9999 in UTC: check it") from error
