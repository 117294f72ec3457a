"""Turns the columns of a log into clean arrays, and says which value of which row is in the way.

Logs come from files, data frames and lists, where the same column may be integers here, floats there and
strings elsewhere. Each function takes such a column and returns one kind of array: station names are strings,
times are microseconds or numbers, quantities are float64, knob settings are what `plain_scalar` would make of
them. Clean arrays pass unchanged. Rows are counted from 0.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.errors import BadInputError

TIME = np.dtype("datetime64[us]")


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
    _refuse_rows(_missing(objects), label)
    return np.array([_station_name(value, label) for value in objects.tolist()], dtype=np.str_)


def _station_name(value: object, label: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer) or value != int(value):
        raise BadInputError(f"{label} must hold names or whole numbers, got {value!r}")
    return str(int(value))


def floats(values: object, *, label: str, unknown: bool = False) -> FloatArray:
    """Return numbers as float64, (n,); with `unknown`, a missing value stays nan.

    Example:
        >>> floats([1, None], label="noise", unknown=True).tolist()
        [1.0, nan]
        >>> floats([1, None], label="reward")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: reward has 1 missing or infinite value(s), the first in row 1: ...
    """
    array = column(values, label=label)
    if array.dtype.kind == "O":
        array = np.array([np.nan if value is None else value for value in array.tolist()], dtype=object)
    if array.dtype.kind not in "biuf":
        for row, value in enumerate(array.astype(object).tolist()):
            if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
                raise BadInputError(f"{label} must hold numbers, got {value!r} in row {row}")
    numbers = array.astype(np.float64)
    _refuse_rows(np.isinf(numbers) if unknown else ~np.isfinite(numbers), label)
    return numbers


def times(values: object, *, label: str) -> NDArray[Any]:
    """Return times as datetime64[us] (zones turned to UTC) or as numbers, (n,); ISO strings are parsed.

    Example:
        >>> times(["2024-05-01 14:00", "2024-05-01T15:00"], label="time")[1]
        np.datetime64('2024-05-01T15:00:00.000000')
    """
    array = column(values, label=label)
    kind = array.dtype.kind
    if kind == "M":
        _refuse_rows(np.isnat(array), label)
        return array.astype(TIME)
    if kind in "iuf":
        return floats(array, label=label) if kind == "f" else array.astype(np.int64)
    objects = array.astype(object)
    _refuse_rows(_missing(objects), label)
    moments = [_moment(value, label) for value in objects.tolist()]
    if len({moment.tzinfo is None for moment in moments}) > 1:
        raise BadInputError(f"{label} mixes times with and without a time zone: write all of them alike")
    return np.array([_utc(moment) for moment in moments], dtype=TIME)


def moment_like(at: object, time: NDArray[Any]) -> Any:
    """Return `at` in the kind of a column of times, to compare it with them.

    Example:
        >>> moment_like("2024-05-01", np.array(["2024-05-02"], dtype="datetime64[us]"))
        np.datetime64('2024-05-01T00:00:00.000000')
    """
    given = times([at], label="the given time")[0]
    if (given.dtype.kind == "M") != (time.dtype.kind == "M"):
        kind = "date-times" if time.dtype.kind == "M" else "numbers"
        raise BadInputError(f"the times of the trace are {kind}, got {at!r}: give the same kind")
    return given


def _moment(value: object, label: str) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value.isoformat() if isinstance(value, date) else str.strip(value))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"{label} must hold ISO date-times such as '2024-05-01 14:00', or numbers, got {value!r}"
        ) from error


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def settings(values: object, *, label: str) -> NDArray[Any]:
    """Return the values of a knob as int64, float64, booleans or strings, (n,).

    Example:
        >>> settings(np.array([0.1, 0.2], dtype=np.float32), label="offset").tolist()
        [0.1, 0.2]
    """
    array = column(values, label=label)
    if array.dtype.kind == "O":
        _refuse_rows(_missing(array), label)
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
        _refuse_rows(array == "", label)
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
        raise BadInputError(
            f"{label} must be {bound}, got {numbers[bad[0]]:g} in row {bad[0]}: leave unknown ones empty"
        )
    return numbers


def check_range(reward: FloatArray, reward_range: tuple[float, float], *, label: str) -> None:
    """Refuse rewards, (n,), outside a range, and say so if they look like per cent.

    Example:
        >>> check_range(np.array([93.0, 41.0]), (0, 1), label="reward")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: reward has 2 value(s) outside [0, 1], ...: it looks like per cent, divide by 100
    """
    low, high = reward_range
    outside = np.flatnonzero((reward < low) | (reward > high))
    if len(outside):
        per_cent = high <= 1 and reward.min() >= 0 and 1 < reward.max() <= 100
        advice = "it looks like per cent, divide by 100" if per_cent else "repair these rows or widen reward_range"
        raise BadInputError(
            f"{label} has {len(outside)} value(s) outside [{low:g}, {high:g}], "
            f"the first is {reward[outside[0]]:g} in row {outside[0]}: {advice}"
        )


def row_numbers(rows: object, *, size: int) -> IntArray:
    """Return the numbers of selected rows, given as one boolean for each of `size` rows or as numbers.

    Example:
        >>> row_numbers([True, False, True], size=3).tolist(), row_numbers([2, 0], size=3).tolist()
        ([0, 2], [2, 0])
    """
    picked = np.asarray(rows)
    if picked.ndim != 1 or (picked.size and picked.dtype.kind not in "biu"):
        raise BadInputError(f"rows are selected by a list of booleans or of row numbers, got {rows!r:.60}")
    if picked.dtype.kind == "b":
        if len(picked) != size:
            raise BadInputError(f"the selection has {len(picked)} booleans, the trace has {size} rows")
        picked = np.flatnonzero(picked)
    if not picked.size:
        raise BadInputError("no row is selected: a trace needs at least one")
    if picked.min() < 0 or picked.max() >= size:
        raise BadInputError(f"rows are numbered 0 to {size - 1}, got {picked.min()} to {picked.max()}")
    return picked.astype(np.int64)


def natural_key(name: str) -> tuple[list[Any], str]:
    """Return a key that sorts 'cell2' before 'cell10' and '9' before '10'.

    Example:
        >>> sorted(["10", "9", "cell10", "cell2"], key=natural_key)
        ['9', '10', 'cell2', 'cell10']
    """
    parts: list[Any] = re.split("([0-9]+)", name)
    parts[1::2] = map(int, parts[1::2])
    return parts, name


def repeated_rows(columns: Sequence[NDArray[Any]]) -> BoolArray:
    """Return which rows repeat an earlier one in every column, (n,).

    Example:
        >>> repeated_rows([np.array([1, 2, 1]), np.array(["a", "a", "a"])]).tolist()
        [False, False, True]
    """
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns])
    repeated = np.ones(len(codes), dtype=np.bool_)
    repeated[np.unique(codes, axis=0, return_index=True)[1]] = False
    return repeated


def _missing(objects: NDArray[Any]) -> BoolArray:
    return np.array([_is_missing(value) for value in objects.tolist()], dtype=np.bool_)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value == "" or value != value)
    except TypeError:  # pandas.NA refuses to be true or false
        return True


def _refuse_rows(bad: BoolArray, label: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise BadInputError(
            f"{label} has {len(rows)} missing or infinite value(s), the first in row {rows[0]}: "
            "remove or repair these rows"
        )
