"""Turns columns of text into numbers and times, as exports write them, and remembers the cells that are neither.

pyarrow reads clean numbers and ISO times by itself; what is left as text is looked at here, a column at a time: decimal
commas, thousands apart, per cent signs, dates of other countries, words for what is missing. A column most of whose
cells are numbers holds numbers, and its other cells are *bad*: kept with their text, for whoever complains of them.
Whether 03/04 is in March or in April is decided for a whole column.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray
from kinband.errors import BadInputError
from kinband.trace.guesses import is_time_name

MISSING = ("", "nil", "/0", "n.a.", "n/a", "na", "#n/a", "#na", "#div/0!", "#value!", "-", "--", "null", "nan", "-nan")
"""Words for what is missing, in small letters."""

_NAMES_TOO = ("", "nil", "n.a.", "n/a", "#n/a", "null")  # what no station is called
_MOSTLY = 0.8
_MONTHS = {name: month for month, name in enumerate(re.findall("...", "janfebmaraprmayjunjulaugsepoctnovdec"), start=1)}
_CLOCK = (
    r"(?:[T ,]+(?P<H>\d{1,2})(?::(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?)?"
)
_ZONE = r"(?:\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_DATES = [
    re.compile(rf"(?P<y>\d{{4}})(?P<sep>[-./])(?P<m>\d{{1,2}})[-./](?P<d>\d{{1,2}}){_CLOCK}{_ZONE}"),
    re.compile(rf"(?P<y>\d{{4}})(?P<m>\d{{2}})(?P<d>\d{{2}}){_CLOCK}{_ZONE}"),
    re.compile(rf"(?P<d>\d{{1,2}})[-. /](?P<month>[A-Za-z]{{3}})[a-z]*[-. /,]+(?P<y>\d{{4}}){_CLOCK}{_ZONE}"),
    re.compile(rf"(?P<month>[A-Za-z]{{3}})[a-z]*\.? (?P<d>\d{{1,2}}),? (?P<y>\d{{4}}){_CLOCK}{_ZONE}"),
    re.compile(rf"(?P<a>\d{{1,2}})(?P<sep>[-./])(?P<b>\d{{1,2}})[-./](?P<y>\d{{4}}){_CLOCK}{_ZONE}"),
]
ORDERS = ("dmy", "mdy")


@dataclass
class Cleaned:
    """A table whose text is understood as far as it can be.

    Attributes:
        table: The pyarrow table; bad cells are null.
        bad: By column which cells are bad, (n,), and the original text of the column.
        kinds: By column what its bad cells are not: "numbers" or "dates".
        notes: What was made of some columns, in sentences.
        dates: How times are written, where they were text.
        per_cent: Columns whose cells have per cent signs.
    """

    table: Any
    bad: dict[str, tuple[BoolArray, Any]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    dates: dict[str, str] = field(default_factory=dict)
    per_cent: set[str] = field(default_factory=set)


def cleaned(
    table: Any, *, names: set[str], decimal_point: str, fixed: bool = False, date_format: str | None = None
) -> Cleaned:
    """Return a pyarrow table with its text columns cleaned; columns that hold names stay text.

    Args:
        table: A pyarrow table.
        names: The columns that hold names.
        decimal_point: The decimal mark of the file; that of a column may differ, unless it is fixed.
        fixed: Whether the user said which the decimal mark is.
        date_format: "dmy", "mdy" or a pattern of strptime; found if not given.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"thp": ["1.234,5", "NIL", "0,5"], "day": ["31.05.2024 14:00", "01.06.2024", "-"]})
        >>> cleaned(table, names=set(), decimal_point=",").table.column("thp").to_pylist()
        [1234.5, None, 0.5]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    done = Cleaned(table)
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if column.type == pa.int64() and name not in names and is_time_name(name):
            done.table = done.table.set_column(place, name, _counted_times(done, name, column))
        if column.type != pa.string():
            continue
        text = pc.utf8_trim_whitespace(column)
        absent = pc.is_in(pc.utf8_lower(text), value_set=pa.array(_NAMES_TOO if name in names else MISSING))
        text = pc.if_else(absent, pa.scalar(None, pa.string()), text)
        made = text if name in names else _understood(done, name, text, decimal_point, fixed, date_format)
        done.table = done.table.set_column(place, name, made)
    return done


def _understood(done: Cleaned, name: str, text: Any, decimal: str, fixed: bool, date_format: str | None) -> Any:
    """A column of text as numbers or times where most of it is, else as it is."""
    import pyarrow as pa

    known = len(text) - text.null_count
    if not known:
        return pa.nulls(len(text))
    numbers, signs = _numbers(text, decimal, fixed)
    if len(text) - numbers.null_count >= _MOSTLY * known:
        if signs:
            done.per_cent.add(name)
            done.notes.append(f"column {name!r} has per cent signs: '98.5 %' is read as the number 98.5")
        _keep_bad(done, name, text, numbers, "numbers")
        return numbers
    moments, how = _times(name, text, date_format)
    if moments is not None and len(text) - moments.null_count >= _MOSTLY * known:
        done.dates[name] = how
        if how.endswith("?"):
            done.dates[name] = how = how.rstrip("?")
            done.notes.append(
                f"column {name!r} may be day-first or month-first, and is taken as {how}: --date-format says which"
            )
        _keep_bad(done, name, text, moments, "dates")
        return moments
    return text


def _keep_bad(done: Cleaned, name: str, text: Any, made: Any, kind: str) -> None:
    import pyarrow.compute as pc

    bad = pc.and_(pc.is_null(made), pc.is_valid(text)).to_numpy()
    if bad.any():
        done.bad[name], done.kinds[name] = (bad, text), kind


# --- Numbers ----------------------------------------------------------------------------------------------------------


def _numbers(text: Any, decimal: str, fixed: bool) -> tuple[Any, bool]:
    """The numbers of a column, null where there is none, and whether they have per cent signs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    marks = [decimal] if fixed else [decimal, "," if decimal == "." else "."]
    found = [(pc.match_substring_regex(text, _shape(mark)), mark) for mark in marks]
    fits, mark = max(found, key=lambda one: pc.sum(one[0]).as_py() or 0)  # the first where they are even
    plain = pc.if_else(fits, text, pa.scalar(None, pa.string()))
    signs = bool(pc.any(pc.match_substring(plain, "%")).as_py())
    group = {",": ".", ".": ","}.get(mark, "")
    plain = pc.replace_substring_regex(plain, rf"[%\s'’\x{{00a0}}\x{{202f}}{group}]", "")
    if mark != ".":
        plain = pc.replace_substring(plain, mark, ".")
    whole = not pc.any(pc.match_substring_regex(plain, "[.eE]|[0-9]{19}")).as_py()
    plain = pc.replace_substring_regex(plain, r"^\+", "")
    return pc.cast(plain, pa.int64() if whole else pa.float64()), signs


def _shape(mark: str) -> str:
    """A regular expression for a number with this decimal mark, whose thousands may be apart."""
    group = {",": ".", ".": ","}.get(mark, "")
    whole = rf"(\d{{1,3}}([ '’\x{{00a0}}\x{{202f}}{group}]\d{{3}})+|\d+)"
    return rf"^[+-]?({whole}({re.escape(mark)}\d*)?|{re.escape(mark)}\d+)([eE][+-]?\d+)?[\s\x{{00a0}}]*%?$"


# --- Times ------------------------------------------------------------------------------------------------------------


def check_date_format(date_format: str | None, *, name: str = "date_format") -> None:
    """Refuse a way to write dates that is none.

    Example:
        >>> check_date_format("zzz")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: date_format takes dmy, mdy or a pattern such as '%d-%b-%y %H', got 'zzz'
    """
    if date_format is None or date_format in ORDERS:
        return
    try:
        known = "%" in date_format
        datetime.strptime(datetime(2024, 11, 30, tzinfo=UTC).strftime(date_format), date_format)
    except (ValueError, TypeError):
        known = False
    if not known:
        raise BadInputError(f"{name} takes dmy, mdy or a pattern such as '%d-%b-%y %H', got {date_format!r:.40}")


def dates_of(name: str, texts: list[str], date_format: str | None = None) -> tuple[list[datetime | None], str]:
    """Return the times of a column's texts, None where there is none, and how they are written; all or none have zones.

    Example:
        >>> dates_of("when", ["31.05.2024 14:00", "soon"])[0]
        [datetime.datetime(2024, 5, 31, 14, 0), None]
    """
    if date_format and "%" in date_format:
        moments, how = [_by_pattern(word, date_format) for word in texts], date_format
    else:
        found = [_match(word) for word in texts]
        how = date_format or _order(name, [one for one in found if one is not None and "a" in one])
        moments = [None if one is None else _moment(one, how.rstrip("?")) for one in found]
    zoned = [one for one in moments if one is not None and one.tzinfo is not None]
    if zoned and len(zoned) < sum(one is not None for one in moments):
        raise BadInputError(f"column {name!r} mixes times with and without a time zone: write all of them alike")
    return moments, how


def _times(name: str, text: Any, date_format: str | None) -> tuple[Any, str]:
    """The times of a column, null where there is none, and how they are written; None where there are none at all."""
    import pyarrow as pa

    codes = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    codes = codes.dictionary_encode()
    words = codes.dictionary.to_pylist()
    if not (date_format and "%" in date_format) and sum(map(_is_date, words)) < _MOSTLY * len(words):
        return None, ""
    moments, how = dates_of(name, words, date_format)
    plain = [one if one is None or one.tzinfo is None else one.astimezone(UTC).replace(tzinfo=None) for one in moments]
    return pa.array(plain, type=pa.timestamp("us")).take(codes.indices), how


def _is_date(word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in _DATES)


def _match(word: str) -> dict[str, str] | None:
    for pattern in _DATES:
        if match := pattern.fullmatch(word):
            return {key: value for key, value in match.groupdict().items() if value is not None}
    return None


def _by_pattern(word: str, pattern: str) -> datetime | None:
    try:
        return datetime.strptime(word, pattern)  # a zone where the pattern has one
    except ValueError:
        return None


def _order(name: str, found: list[dict[str, str]]) -> str:
    """Whether days come before months in a column: "dmy" or "mdy", with a "?" where nothing tells."""
    if not found:
        return "iso"
    first, second = max(int(one["a"]) for one in found), max(int(one["b"]) for one in found)
    if first > 12 and second > 12:
        raise BadInputError(
            f"column {name!r} has dates with the day first and dates with the month first", code="date_order",
            hint="write all of them alike, or pass date_format='dmy' or 'mdy': the others are then no dates",
        )  # fmt: skip
    if first > 12 or second > 12:
        return "dmy" if first > 12 else "mdy"
    if any(one["sep"] == "." for one in found):
        return "dmy"
    spans = {how: _span(found, how) for how in ORDERS}
    if spans["dmy"] != spans["mdy"]:
        return min(spans, key=lambda how: spans[how])  # an export is of a few days, not of their months
    if spans["dmy"] == timedelta(0) or len({(one["a"], one["b"]) for one in found}) == 1:
        return "dmy?"
    raise BadInputError(
        f"column {name!r} may have the day or the month first, such as {found[0]['a']}{found[0]['sep']}{found[0]['b']}",
        hint="pass date_format='dmy' or 'mdy'", code="date_order",
    )  # fmt: skip


def _span(found: list[dict[str, str]], how: str) -> timedelta:
    moments = [moment.replace(tzinfo=None) for one in found if (moment := _moment(one, how)) is not None]
    return max(moments) - min(moments) if moments else timedelta.max


def _moment(one: dict[str, str], how: str) -> datetime | None:
    if "a" in one:
        day, month = (one["b"], one["a"]) if how == "mdy" else (one["a"], one["b"])
    else:
        day, month = one["d"], one.get("m") or str(_MONTHS.get(one.get("month", "").lower(), 0))
    hour = int(one.get("H", 0))
    if "half" in one:
        hour = hour % 12 + (12 if one["half"] in "pP" else 0)
    try:
        moment = datetime(int(one["y"]), int(month), int(day), tzinfo=_zone(one.get("zone")))
        late = timedelta(days=1) if hour == 24 and not int(one.get("M", 0)) else timedelta(0)
        micro = int(one.get("f", "0").ljust(6, "0")[:6])
        return late + moment.replace(
            hour=hour % 24 if late else hour,
            minute=int(one.get("M", 0)),
            second=int(one.get("S", 0)),
            microsecond=micro,
        )
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone | None:
    if text is None or text in ("Z", "UTC", "GMT"):
        return None if text is None else UTC
    minutes = int(text[1:3]) * 60 + int(text[3:].lstrip(":") or 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


_DIGITS = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_YEARS = ("1990", "2100")


def _counted_times(done: Cleaned, name: str, column: Any) -> Any:
    """A column of whole numbers as times where it holds digits of a date or seconds since 1970; else as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    if ends["min"] is None:
        return column
    first, last = str(ends["min"]), str(ends["max"])
    made, how = None, "YYYYMMDDHHMMSS"[: len(first)]
    if len(first) in _DIGITS and len(first) == len(last) and _YEARS[0] <= first[:4] <= last[:4] <= _YEARS[1]:
        made = _times(name, pc.cast(column, pa.string()), _DIGITS[len(first)])[0]
    elif len(first) == len(last) and first[0] == "1" and len(first) in (10, 13):
        unit, how = ("s", "seconds since 1970") if len(first) == 10 else ("ms", "milliseconds since 1970")
        made = pc.cast(pc.cast(column, pa.timestamp(unit)), pa.timestamp("us"))
    if made is None or made.null_count > column.null_count:
        return column
    done.dates[name] = how
    done.notes.append(f"column {name!r} is read as times, {how}")
    return made


# --- A day in one column and the hour in another -------------------------------------------------------------------

_HOUR = re.compile(r"(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?(?:\s*-.*)?")


def joined_times(day: Any, hour: Any, *, label: str) -> Any:
    """Return times from a column of days and one of hours: 14, 14:00, 14:00:00 or 14:00 - 15:00; null where unknown.

    Example:
        >>> import pyarrow as pa
        >>> joined_times(pa.array(["2024-05-01"]).cast("date32"), pa.array([14]), label="Date+Hour")[0].as_py()
        datetime.datetime(2024, 5, 1, 14, 0)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_timestamp(day.type) or pa.types.is_date(day.type)):
        raise BadInputError(f"{label} joins a day and an hour, but the first of them holds no dates: check --time")
    seconds = [_seconds(value) for value in hour.to_pylist()]
    past = pa.array([None if s is None else s * 1_000_000 for s in seconds], type=pa.duration("us"))
    return pc.add(pc.cast(day, pa.timestamp("us")), past)


def _seconds(value: Any) -> int | None:
    if value is None:
        return None
    match = _HOUR.fullmatch(str(value).strip().removesuffix(".0"))
    if match is None or int(match[1]) > 24:
        return None
    return int(match[1]) * 3600 + int(match[2] or 0) * 60 + int(match[3] or 0)


def null_cells(column: Any) -> NDArray[np.bool_]:
    """Return which cells of a pyarrow column are missing, (n,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: NDArray[np.bool_] = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy()
    return found
