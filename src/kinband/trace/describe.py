"""What a file holds, column by column, as far as it is understood: for a person who checks it before use."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kinband.errors import BadInputError
from kinband.stats import counted
from kinband.trace.cells import null_cells
from kinband.trace.columns import ColumnMap, Roles, roles_of, table_of
from kinband.trace.files import TableReading, read_table
from kinband.trace.guesses import in_per_cent, unit_hint
from kinband.trace.problems import bad_rows, named_columns, problems_of, told
from kinband.trace.sniff import odd_letters
from kinband.trace.table import understood_columns

_FIRST = 5


@dataclass(frozen=True)
class DescribedColumn:
    """A column: its role, type and unit as far as they are known, and what is in it."""

    name: str
    role: str
    kind: str
    unit: str
    missing: int
    bad: int
    distinct: int
    range: str


@dataclass(frozen=True)
class Described:
    """A file: how it is written, its columns, its first rows, and its problems in words."""

    how: str
    rows: int
    columns: tuple[DescribedColumn, ...]
    first: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    bad_rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return it for machines."""
        return asdict(self)


def described(
    path: Path,
    columns: ColumnMap | None,
    *,
    marks: Mapping[str, Any],
    categories: Sequence[str] = (),
    ranged: bool = False,
) -> Described:
    r"""Return what a file holds; `marks` are arguments of `kinband.trace.files.read_table`.

    Where the range of rewards is given (`ranged`), none lies outside all others.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "log.csv"
        >>> _ = file.write_text("cell;tilt;thp\nA;2;0,5\nA;4;NIL\n")
        >>> found = described(file, {"reward": "thp", "configuration": ["tilt"]}, marks={})
        >>> [(one.name, one.role, one.missing) for one in found.columns], found.bad_rows
        ([('cell', 'station', 0), ('tilt', 'configuration', 0), ('thp', 'reward', 1)], 1)
    """
    reading = read_table(path, text=named_columns(columns), noted=columns is None, **marks)
    table_of(reading.cleaned.table)  # which refuses repeated names
    if not len(reading.cleaned.table):
        raise BadInputError(f"{path} has columns but no rows: a trace needs at least one")
    columns = reading.note["columns"] if reading.note else understood_columns(reading, columns)
    roles = _known_roles(reading, columns)
    table = reading.cleaned.table
    problems = [one for one in problems_of(reading, roles, ranged=ranged) if one.column not in categories]
    first = table.slice(0, _FIRST).to_pylist()
    shown = [{name: None if value is None else _plain(value) for name, value in row.items()} for row in first]
    columns_found = tuple(_column(reading, name, roles) for name in table.column_names)
    return Described(
        _how(reading), len(table) + reading.cut, columns_found, tuple(shown), tuple(told(reading, problems)),
        int(bad_rows(problems, len(table)).sum()) + reading.cut,
    )  # fmt: skip


def _known_roles(reading: TableReading, columns: Mapping[str, Any]) -> Roles:
    """The roles of the columns, where some may not be known yet."""
    empty: Roles = {
        role: {} for role in ("station", "reward", "configuration", "state", "time", "noise", "samples", "kpis")
    }
    try:
        return roles_of(table_of(reading.cleaned.table), columns)
    except BadInputError:
        names, known = set(reading.cleaned.table.column_names), dict(empty)
        for role, value in columns.items():
            listed = [value] if isinstance(value, str) else list(value or [])
            if role in known:
                known[role] = {name: name for name in listed if name in names}
        for role in ("station", "reward", "time"):
            if not known[role] and role in names:
                known[role] = {role: role}
        return known


def _how(reading: TableReading) -> str:
    """How a file was read, in a sentence."""
    said = [str(reading.path)]
    if (form := reading.form) is not None:
        names = {"\t": "tab", " ": "space"}
        parted = names.get(form.delimiter, form.delimiter)
        odd = f" ({found})" if (found := odd_letters(form)) else ""
        said.append(f"{form.encoding.removesuffix('-sig')} text{odd}, columns parted by {parted!r}")
        said.append(f"decimal mark {form.decimal_point!r}, header in line {form.header}")
    said += [f"dates of {name!r} as {how}" for name, how in reading.cleaned.dates.items()]
    table = reading.cleaned.table
    return f"{', '.join(said)}; {counted(len(table), 'row')}, {counted(table.num_columns, 'column')}"


def _column(reading: TableReading, name: str, roles: Roles) -> DescribedColumn:
    import pyarrow.compute as pc

    column = reading.cleaned.table.column(reading.cleaned.table.column_names.index(name))
    bad = int(reading.cleaned.bad[name][0].sum()) if name in reading.cleaned.bad else 0
    role = next((role for role, named in roles.items() if name in named.values()), "")
    distinct = pc.count_distinct(column).as_py() if str(column.type) != "null" else 0
    missing = int(null_cells(column).sum()) - bad
    unit = "%" if name in reading.cleaned.per_cent else _unit(name, column)
    return DescribedColumn(name, role, _kind(column), unit, missing, bad, distinct, _range(column))


def _unit(name: str, column: Any) -> str:
    """The unit that a column's name speaks of; a ratio between 0 and 1 is in no per cent."""
    unit = unit_hint(name)
    return "share" if unit == "%" and not in_per_cent(name) and _within_one(column) else unit


def _within_one(column: Any) -> bool:
    """Whether all numbers of a column lie between 0 and 1."""
    import pyarrow.compute as pc

    if _kind(column) not in ("numbers", "whole numbers"):
        return False
    both = pc.min_max(column).as_py()
    return bool(both["min"] is not None and both["min"] >= 0 and both["max"] <= 1)


def _kind(column: Any) -> str:
    import pyarrow as pa

    kinds = [("empty", pa.types.is_null), ("whole numbers", pa.types.is_integer), ("numbers", pa.types.is_floating)]
    kinds += [("times", pa.types.is_timestamp), ("days", pa.types.is_date), ("yes or no", pa.types.is_boolean)]
    return next((word for word, fits in kinds if fits(column.type)), "text")


def _range(column: Any) -> str:
    import pyarrow.compute as pc

    if _kind(column) == "text":
        values = [value for value in pc.unique(column.slice(0, 1000)).to_pylist() if value is not None]
        return ", ".join(map(str, values[:3])) + (", ..." if len(values) > 3 else "")
    if _kind(column) in ("empty", "yes or no"):
        return ""
    both = pc.min_max(column).as_py()
    return "" if both["min"] is None else f"{_plain(both['min'])} to {_plain(both['max'])}"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value if isinstance(value, int | bool | str) else str(value)
