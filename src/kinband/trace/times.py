"""Turns the times of a log into one kind of array: microseconds, in UTC where a zone is known, or numbers."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.errors import BadInputError
from kinband.trace.values import RowError, column, floats, missing_values, odd_row, refuse_rows

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
