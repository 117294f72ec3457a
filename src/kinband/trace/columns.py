"""The columns of a table: their cells as clean arrays, and which column plays which role."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray
from kinband.errors import BadInputError
from kinband.trace.guesses import guessed_places
from kinband.trace.rewards import WeightedReward, is_sum, weighted_from

# --- Turns the columns of a log into clean arrays, and says which value of which row is in the way ------------------
#
# Logs come from files, data frames and lists, where the same column may be integers here, floats there and
# strings elsewhere. Each function takes such a column and returns one kind of array: station names are strings,
# quantities are float64, knob settings are what `plain_scalar` would make of them, times are in the part
# below. Clean arrays pass unchanged. A refusal knows the row it is about, so that whoever read the column from a file
# can say where that is: in which line of a text, or in which row of a table.

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
    """Return a column as an array, (n,), whose strings and missing values are still told apart."""
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
    """Return station names as strings, (n,); whole numbers are written without a decimal point."""
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
    """Return numbers as float64, (n,); with `unknown`, a missing value stays nan."""
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
    """Return the values of a knob as int64, float64, booleans or strings, (n,)."""
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
    """Return numbers above 0, or of at least `least`, (n,), nan where missing; None stays None."""
    if values is None:
        return None
    numbers = floats(values, label=label, unknown=True)
    bad = np.flatnonzero(numbers <= 0 if least is None else numbers < least)
    if len(bad):
        bound = "above 0" if least is None else f"at least {least:g}"
        raise RowError(f"{label} must be {bound}, got {numbers[bad[0]]:g}", bad[0], "leave unknown ones empty")
    return numbers


def looks_like_number(text: str) -> bool:
    """Return whether a text would be a number, be it with a decimal comma."""
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
    """Return what to do about a number with a decimal comma, and the code of it; what is usual where there is none."""
    comma = isinstance(value, str) and "," in value and looks_like_number(value)
    return ("it has a decimal comma, pass decimal_point=','", "decimal_comma") if comma else ("", "bad_row")


def other_mark(text: str) -> str:
    """Return the decimal mark of a number that was read with the other one; nothing where it is none.

    Example:
        >>> other_mark("83,96"), other_mark("83.96"), other_mark("cell 7")
        (',', '.', '')
    """
    match = re.fullmatch(r"[-+]?\d+([.,])\d+\s*%?", text.strip())
    return match[1] if match else ""


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
    """Return which values of a column of objects are missing or empty, (n,)."""
    return np.array([_is_missing(value) for value in objects.tolist()], dtype=np.bool_)


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__")


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value == "" or value != value)
    except TypeError:  # pandas.NA refuses to be true or false
        return True


def refuse_rows(bad: BoolArray, label: str) -> None:
    """Refuse a column some of whose values, (n,), are missing or infinite."""
    rows = np.flatnonzero(bad)
    if len(rows):
        text = f"{label} has {len(rows)} missing or infinite value(s), the first"
        raise RowError(text, rows[0], "remove or repair these rows")


# --- Turns the times of a log into one kind of array: microseconds, in UTC where a zone is known, or numbers --------

TIME = np.dtype("datetime64[us]")


def times(values: object, *, label: str) -> NDArray[Any]:
    """Return times as datetime64[us] (zones turned to UTC) or as numbers, (n,); ISO strings are parsed."""
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
    """Return `at` in the kind of a column of times, to compare it with them."""
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


# --- Which column of a table plays which role, and the clean arrays that come of it ---------------------------------
#
# A log arrives as a data frame of pandas, polars or pyarrow (through narwhals, none of them is imported here) or
# as a plain mapping from name to values. A *column map* says which column is the station, the time, the reward,
# its noise or sample count, and which are state features and knobs. Only the knobs must be named: the others
# have default names, and every numeric column without another role is a state feature, but for two that say where
# stations are. The reward may be a weighted sum of several columns (`weighted`), and further KPIs may be named that are
# neither reward nor state.

ColumnMap = Mapping[str, Any]
"""Role to column name; for "state", "configuration" and "kpis" a list of names, or a mapping from new name to column,
and for "ignore" a list of columns that play no role. "reward" may also be a weighted sum: a `WeightedReward`, a mapping
from column to weight, or its text, such as "0.8*satisfied_share+0.02*throughput_mbps"."""

Roles = Mapping[str, Mapping[str, str]]
"""Role to {new name: column}; empty where an optional role is not filled."""

_NEEDED = ("station", "reward")
_OPTIONAL = ("time", "noise", "samples")
_MANY = ("state", "configuration", "kpis", "ignore")
_SHARED = {"reward", "kpis"}  # a KPI with a floor may also be part of the reward
_NAMED = 30  # columns in a list of all of them
_LOOKED_AT, _MOSTLY = 1000, 0.8  # values of a text column that are looked at, and the share of numbers that is too many


@dataclass(frozen=True)
class Table:
    """Column names, which of them hold numbers and which text, and a function that fetches a column as an array."""

    names: tuple[str, ...]
    numeric: frozenset[str]
    text: frozenset[str]
    get: Callable[[str], NDArray[Any]]


def table_of(frame: object, *, what: str = "a trace") -> Table:
    """Return the columns of a data frame or of a mapping from name to values; `what` it is for, in messages."""
    if isinstance(frame, Mapping):
        arrays = {name: column(values, label=f"column {name!r}") for name, values in frame.items()}
        _check_header(tuple(arrays))
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise BadInputError(f"the columns differ in length: {lengths}")
        numeric = frozenset(name for name, array in arrays.items() if _holds_numbers(array))
        text = frozenset(name for name, array in arrays.items() if array.dtype.kind in "UO" and name not in numeric)
        return Table(tuple(arrays), numeric, text, arrays.__getitem__)
    return _table_of_frame(frame, what)


def _table_of_frame(frame: Any, what: str) -> Table:
    import narwhals as nw

    names = getattr(frame, "column_names", None)  # pyarrow allows repeated names, narwhals trips over them later
    _check_header(tuple(names) if isinstance(names, list) else ())
    try:
        native = nw.from_native(frame, eager_only=True)
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"{what} is made from a pandas, polars or pyarrow table or a mapping of columns, got {type(frame)} "
            f"({str(error).splitlines()[0]}); a lazy frame must be collected first"
        ) from error
    _check_header(tuple(native.columns))
    numeric = frozenset(name for name, dtype in native.schema.items() if dtype.is_numeric())
    text = frozenset(name for name, dtype in native.schema.items() if dtype in (nw.String, nw.Object))

    def get(name: str) -> NDArray[Any]:
        series = native.get_column(name)
        if series.dtype == nw.Binary:
            raise BadInputError(f"column {name!r} holds bytes, not text: save the file in UTF-8")
        if series.dtype == nw.Decimal:
            series = series.cast(nw.Float64)
        array: NDArray[Any] = series.to_numpy()
        if array.dtype.kind in "OT":  # every library has its own missing string
            array = array.astype(object)
            array[series.is_null().to_numpy()] = None
        return array

    return Table(tuple(native.columns), numeric, text, get)


def roles_of(table: Table, columns: ColumnMap | None) -> Roles:
    """Return the columns of each role, or say which column or role is missing, unknown or taken twice."""
    roles = _checked_map(columns, weighted_of(table, columns))
    if not roles.get("configuration"):
        raise BadInputError(
            f"the configuration columns are not known; the columns are {quoted(table.names)}",
            hint='pass columns={"configuration": ["name of the knob"]}, with "reward" and others as needed',
            code="no_column",
            argument="configuration",
        )
    claimed = _columns(roles)
    for role in _NEEDED:
        roles.setdefault(role, {role: role})
    for role in _OPTIONAL:
        roles.setdefault(role, {role: role} if role in table.names and role not in claimed else {})
    _refuse_absent(table, roles)
    claimed = _columns(roles)
    if "state" not in roles:
        _refuse_spoilt(table, [c for c in table.names if c in table.text and c not in claimed])
    free = [c for c in table.names if c in table.numeric and c not in claimed]
    if "state" not in roles:
        places = places_in(table, free, station=roles["station"]["station"])
        roles["state"] = {c: c for c in free if c not in (places or ())}
    roles.setdefault("kpis", {})
    _refuse_twice(roles)
    return roles


def places_in(table: Table, names: Iterable[str], *, station: str) -> tuple[str, str] | None:
    """Return the two columns that say where stations are: called so, and the same in all rows of a station."""
    found = guessed_places(name for name in names if name in table.numeric)
    if found is None:
        return None
    stations = np.unique(table.get(station).astype(str), return_inverse=True)[1].ravel()
    order = np.argsort(stations, kind="stable")
    begins = np.append(True, np.diff(stations[order]) > 0)
    for name in found:
        values = table.get(name).astype(np.float64)[order]
        first = values[begins][np.cumsum(begins) - 1]
        if (values != first)[np.isfinite(values) & np.isfinite(first)].any():
            return None
    return found


def weighted_of(table: Table, columns: ColumnMap | None) -> WeightedReward | None:
    """Return the weighted sum that a column map asks for as reward, None where it names one column."""
    value = columns.get("reward") if isinstance(columns, Mapping) else None
    if isinstance(value, str) and value in table.names:  # a column may have any name
        return None
    return weighted_from(value) if is_sum(value) else None


def _checked_map(columns: ColumnMap | None, weighted: WeightedReward | None) -> dict[str, dict[str, str]]:
    known = (*_NEEDED, *_OPTIONAL, *_MANY)
    roles: dict[str, dict[str, str]] = {}
    if columns is not None and not isinstance(columns, Mapping):
        raise BadInputError(f'columns must be a mapping such as {{"reward": "column name"}}, got {columns!r}')
    for role, value in (columns or {}).items():
        if not isinstance(role, str):
            raise BadInputError(f"the roles in columns are {quoted(known)}, got {role!r}")
        if role not in known:
            raise BadInputError(
                f"columns has the unknown role {role!r}{_close(role, known)}: roles are {quoted(known)}"
            )
        if role == "reward" and weighted is not None:
            roles[role] = {name: name for name in weighted.weights}
            continue
        if role not in _MANY and not isinstance(value, str) and (value is not None or role not in _OPTIONAL):
            raise BadInputError(f"columns[{role!r}] must be the name of a column, got {value!r}")
        if role in _MANY:
            roles[role] = _named(role, value)
        else:
            roles[role] = {} if value is None else {role: value}
    return roles


def _named(role: str, value: object) -> dict[str, str]:
    """New name to column name."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        listed = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
        pairs = [(name, name) for name in listed]
    for pair in pairs:
        if not all(isinstance(name, str) and name for name in pair):
            raise BadInputError(f"columns[{role!r}] must hold column names, got {value!r}")
    named = dict(pairs)
    if len(named) < len(pairs):
        raise BadInputError(f"columns[{role!r}] names a column twice: {value!r}")
    return named


def _columns(roles: Roles) -> list[str]:
    return [column for named in roles.values() for column in named.values()]


def _refuse_absent(table: Table, roles: Roles) -> None:
    uses = [(role, column) for role, named in roles.items() for column in named.values()]
    absent = [(role, column) for role, column in uses if column not in table.names]
    if absent:
        said = " and ".join(f"{column!r} ({_use(role)}){_close(column, table.names)}" for role, column in absent)
        value = '["..."]' if absent[0][0] in _MANY else '"..."'
        raise BadInputError(
            f"there is no column {said}; the columns are {quoted(table.names)}",
            hint=f'pass columns={{"{absent[0][0]}": {value}, ...}}',
            code="no_column",
            argument=absent[0][0],
            value=absent[0][1],
        )


def _use(role: str) -> str:
    return {"ignore": "to ignore", "kpis": "a further KPI"}.get(role, f"the {role}")


def _refuse_spoilt(table: Table, names: Iterable[str]) -> None:
    """Refuse columns of numbers that a few words turned into text: they would be missing from the state unnoticed."""
    for name in names:
        values = table.get(name).tolist()
        known = [value for value in values[:_LOOKED_AT] if isinstance(value, str) and value.strip()]
        if not known or sum(map(looks_like_number, known)) < _MOSTLY * len(known):
            continue
        for row, value in enumerate(values):
            hint, code = decimal_advice(value)
            if not hint and isinstance(value, str) and value.strip() and not looks_like_number(value):
                hint, code = "repair it, or leave the column out with columns={'ignore': ...}", "text_among_numbers"
            if hint:
                raise RowError(f"column {name!r} holds numbers, but {value!r}", row, hint, code)


def _refuse_twice(roles: Roles) -> None:
    seen: dict[str, str] = {}
    for role, named in roles.items():
        for name in named.values():
            if name in seen and {role, seen[name]} != _SHARED:
                raise BadInputError(f"column {name!r} is used as {seen[name]} and as {role}: give it one role")
            seen[name] = role


def arrays_of(table: Table, roles: Roles, *, weighted: WeightedReward | None = None) -> dict[str, Any]:
    """Return the fields of a `Trace` as clean arrays; the reward is one column, or a weighted sum of several."""
    state, knobs = _clean(table, roles["state"], floats), _clean(table, roles["configuration"], settings)
    station = _clean(table, roles["station"], station_names)["station"]
    if not len(station):
        raise BadInputError("the table has columns but no rows: a trace needs at least one")
    unknown = partial(floats, unknown=True)
    return {
        "station": station,
        "reward": _reward(_clean(table, roles["reward"], floats), weighted),
        "configuration": knobs,
        "state": np.column_stack(list(state.values())) if state else np.empty((len(station), 0)),
        "state_names": tuple(state),
        "time": _clean(table, roles["time"], times).get("time"),
        "noise": _clean(table, roles["noise"], unknown).get("noise"),
        "sample_count": _clean(table, roles["samples"], unknown).get("samples"),
        "kpis": _clean(table, roles["kpis"], unknown),
    }


def _reward(columns: Mapping[str, NDArray[Any]], weighted: WeightedReward | None) -> NDArray[Any]:
    return columns["reward"] if weighted is None else weighted.of_columns(columns)


def _clean(table: Table, named: Mapping[str, str], convert: Callable[..., NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {new: convert(table.get(old), label=f"column {old!r}") for new, old in named.items()}


def _holds_numbers(array: NDArray[Any]) -> bool:
    """Lists with a None in them are arrays of objects: those of numbers must not pass for text."""
    if array.dtype.kind == "O":
        known = [value for value in array.tolist() if value is not None]
        return bool(known) and all(isinstance(value, Real) and not isinstance(value, bool) for value in known)
    return array.dtype.kind in "iuf"


def _check_header(names: tuple[object, ...]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise BadInputError(f"column names must be strings, got {name!r}")
        if names.count(name) > 1:
            raise BadInputError(f"the table has several columns named {name!r}: rename all but one")


def _close(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def quoted(names: Iterable[str]) -> str:
    """Return names of columns for a sentence, the first thirty of them."""
    listed = list(names)
    more = f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else ""
    return ", ".join(map(repr, listed[:_NAMED])) + more
