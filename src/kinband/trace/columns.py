"""Which column of a table is what."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.errors import BadInputError
from kinband.trace.rewards import WeightedReward, is_sum, weighted_from
from kinband.trace.values import (
    RowError,
    column,
    decimal_advice,
    floats,
    looks_like_number,
    settings,
    station_names,
    times,
)

# --- Which column of a table plays which role, and the clean arrays that come of it ---------------------------------
#
# A log arrives as a data frame of pandas, polars or pyarrow (through narwhals, none of them is imported here) or
# as a plain mapping from name to values. A *column map* says which column is the station, the time, the reward,
# its noise or sample count, and which are state features and knobs. Only the knobs must be named: the others
# have default names, and every numeric column without another role is a state feature. The reward may be a weighted sum
# of several columns (`weighted`), and further KPIs may be named that are neither reward nor state.

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
_LOOKED_AT, _MOSTLY = 1000, 0.8  # values of a text column that are looked at, and the share of numbers that is too many


@dataclass(frozen=True)
class Table:
    """Column names, which of them hold numbers and which text, and a function that fetches a column as an array.

    Example:
        >>> table = table_of({"load": [0.1, 0.2], "site": ["a", "b"]})
        >>> table.numeric, table.text
        (frozenset({'load'}), frozenset({'site'}))
    """

    names: tuple[str, ...]
    numeric: frozenset[str]
    text: frozenset[str]
    get: Callable[[str], NDArray[Any]]


def table_of(frame: object) -> Table:
    """Return the columns of a data frame or of a mapping from name to values.

    Example:
        >>> table_of({"load": [0.1, 0.2]}).get("load").tolist()
        [0.1, 0.2]
    """
    if isinstance(frame, Mapping):
        arrays = {name: column(values, label=f"column {name!r}") for name, values in frame.items()}
        _check_header(tuple(arrays))
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise BadInputError(f"the columns differ in length: {lengths}")
        numeric = frozenset(name for name, array in arrays.items() if _holds_numbers(array))
        text = frozenset(name for name, array in arrays.items() if array.dtype.kind in "UO" and name not in numeric)
        return Table(tuple(arrays), numeric, text, arrays.__getitem__)
    return _table_of_frame(frame)


def _table_of_frame(frame: Any) -> Table:
    import narwhals as nw

    names = getattr(frame, "column_names", None)  # pyarrow allows repeated names, narwhals trips over them later
    _check_header(tuple(names) if isinstance(names, list) else ())
    try:
        native = nw.from_native(frame, eager_only=True)
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"a trace is made from a pandas, polars or pyarrow table or a mapping of columns, got {type(frame)} "
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
    """Return the columns of each role, or say which column or role is missing, unknown or taken twice.

    Example:
        >>> table = table_of({"cell": [1], "tilt": [2], "load": [0.1], "reward": [0.9]})
        >>> roles = roles_of(table, {"station": "cell", "configuration": {"tilt_deg": "tilt"}})
        >>> roles["configuration"], roles["state"], roles["time"]
        ({'tilt_deg': 'tilt'}, {'load': 'load'}, {})
    """
    roles = _checked_map(columns, weighted_of(table, columns))
    if not roles.get("configuration"):
        raise BadInputError(
            f"the configuration columns are not known; the columns are {_quoted(table.names)}",
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
    roles.setdefault("state", {c: c for c in table.names if c in table.numeric and c not in claimed})
    roles.setdefault("kpis", {})
    _refuse_twice(roles)
    return roles


def weighted_of(table: Table, columns: ColumnMap | None) -> WeightedReward | None:
    """Return the weighted sum that a column map asks for as reward, None where it names one column.

    Example:
        >>> table = table_of({"good": [0.9], "rate": [4.0]})
        >>> weighted_of(table, {"reward": "0.5*good+0.1*rate"}).weights
        {'good': 0.5, 'rate': 0.1}
    """
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
            raise BadInputError(f"the roles in columns are {_quoted(known)}, got {role!r}")
        if role not in known:
            raise BadInputError(
                f"columns has the unknown role {role!r}{_close(role, known)}: roles are {_quoted(known)}"
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
            f"there is no column {said}; the columns are {_quoted(table.names)}",
            hint=f'pass columns={{"{absent[0][0]}": {value}, ...}}',
            code="no_column",
            argument=absent[0][0],
            value=absent[0][1],
        )


def _use(role: str) -> str:
    return "to ignore" if role == "ignore" else f"the {role}"


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
    """Return the fields of a `Trace` as clean arrays; the reward is one column, or a weighted sum of several.

    Example:
        >>> table = table_of({"station": [1], "tilt": [2], "load": [0.1], "reward": [0.9]})
        >>> arrays_of(table, roles_of(table, {"configuration": ["tilt"]}))["station"].tolist()
        ['1']
    """
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


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
