"""Whether PostgreSQL's indexes fit their tables, found out by asking, which needs no extension and no further right.

A table is read through from its first page to its last, and through every one of its indexes: forwards for the keys
that the index holds, backwards for the rows that it leads to, and once more by looking up every key on its own, which
goes down the tree from its root. Each has to give the same rows. So whatever question the service asks, an index that
answers otherwise than its table is found, as is one that let the same key in twice.

Which way PostgreSQL takes is its planner's choice. Only one is left to it here: everything else is switched off, for
the time of the question, and no other index has the order that is asked for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, text

from kinband.service.ledger.schema import metadata, segments


@dataclass(frozen=True)
class _Index:
    """An index of a table.

    Attributes:
        name: Its name.
        table: Name of its table.
        columns: Its columns, quoted, in order.
        where: Which rows it has.
        unique: Whether a key is there once.
    """

    name: str
    table: str
    columns: Sequence[str]
    where: str
    unique: bool

    @property
    def keys(self) -> str:
        """Its columns, to be listed."""
        return ", ".join(self.columns)


def indexes_of_postgresql(connection: Connection, *, whole: bool) -> list[str]:
    """Return what is wrong with the indexes of a ledger.

    Args:
        connection: To the database, in a transaction that sees one state of it.
        whole: Whether they are read; if not, they have to be there.
    """
    expected = [index for table in metadata.sorted_tables if table is not segments for index in _indexes_of(table)]
    live = "SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid AND indisready AND indislive"
    there = set(connection.exec_driver_sql(live).scalars())
    faults = [f"the index {index.name} is missing" for index in expected if index.name not in there]
    return faults if faults or not whole else [said for index in expected for said in _faults(connection, index)]


def _indexes_of(table: Table) -> Iterator[_Index]:
    key = [f'"{column.name}"' for column in table.primary_key]
    yield _Index(f"{table.name}_pkey", table.name, key, "true", unique=True)
    for index in sorted(table.indexes, key=lambda index: index.name or ""):
        where = index.dialect_options["postgresql"]["where"]
        chosen = "true" if where is None else str(where.compile(compile_kwargs={"literal_binds": True}))
        columns = [f'"{column.name}"' for column in index.columns]
        yield _Index(str(index.name), table.name, columns, chosen, unique=bool(index.unique))


def _faults(connection: Connection, index: _Index) -> Iterator[str]:
    """Say where an index gives other rows than its table."""
    of, back = f"{index.table} WHERE {index.where}", ", ".join(f"{name} DESC" for name in index.columns)
    keys, places = _sum(f"ROW({index.keys})"), _sum("place")
    with _only(connection, "seqscan"):
        table = _row(connection, f"count(*), {keys}, {places}", _select("*, ctid AS place", of))
    most = f"LIMIT {table[0] + 1}"  # a chain of pages that was bent into a ring has no end
    with _only(connection, "indexscan", "indexonlyscan"):
        held = _row(connection, f"count(*), {keys}", _select(index.keys, f"{of} ORDER BY {index.keys} {most}"))
        led = _row(connection, f"count(*), {places}", _select("ctid AS place", f"{of} ORDER BY {back} {most}"))
    if (*held, *led) != (*table[:2], table[0], table[2]):
        yield f"the index {index.name} does not hold the {table[0]} rows of its table"
        return
    with _only(connection, "indexscan", "tidscan"):
        missed, repeated = _row(connection, *_looked_up(index))
    if missed:
        yield f"{missed} keys are not found by the index {index.name}"
    if index.unique and repeated > 1:
        yield f"a key of the index {index.name} is there {repeated} times"


def _looked_up(index: _Index) -> tuple[str, str]:
    """By how many keys other rows are found than the table has, and how often a key is there at most."""
    own = [f"{index.table}.{name}" for name in index.columns]
    mine, wanted = ", ".join(own), ", ".join(f"k{i}" for i in range(len(own)))
    listed = ", ".join(f"{name} AS k{i}" for i, name in enumerate(own))
    present = " AND ".join([index.where, "ctid >= '(0,0)'", *(f"{name} IS NOT NULL" for name in own)])
    known = _select(f"{listed}, ctid AS place", f"{index.table} WHERE {present} OFFSET 0")  # read before it is grouped
    keys = _select(f"{wanted}, count(*) AS there, {_sum('place')} AS places", f"{known} GROUP BY {wanted}")
    same = f"{index.where} AND ({mine}) >= ({wanted}) AND ({mine}) <= ({wanted})"  # takes the index as = does not
    one = _select("ctid AS place", f"{index.table} WHERE {same} ORDER BY {mine} LIMIT there + 1")
    found = _select(f"count(*) AS many, {_sum('place')} AS found", one, name="looked")
    what = "count(*) FILTER (WHERE (many, found) <> (there, places)), COALESCE(max(there), 0)"
    return what, f"{keys} CROSS JOIN LATERAL {found}"


def _sum(what: str) -> str:
    """What adds up digests of rows, whatever their order."""
    return f"COALESCE(sum(hashtextextended(({what})::text, 0)), 0)"


def _select(what: str, of: str, *, name: str = "rows") -> str:
    return f"(SELECT {what} FROM {of}) AS {name}"  # noqa: S608 - names of the schema


_WAYS = ("seqscan", "indexscan", "indexonlyscan", "bitmapscan", "tidscan", "sort", "incremental_sort")


@contextmanager
def _only(connection: Connection, *ways: str) -> Iterator[None]:
    """Leave the planner some ways alone, for the time of a block."""
    chosen = {f"enable_{way}": "on" if way in ways else "off" for way in _WAYS}
    nested = connection.begin_nested()
    for name, value in {**chosen, "jit": "off", "max_parallel_workers_per_gather": "0"}.items():
        connection.exec_driver_sql(f"SET LOCAL {name} = {value}")
    yield
    nested.rollback()


def _row(connection: Connection, what: str, of: str) -> tuple[Any, ...]:
    return tuple(connection.execute(text(f"SELECT {what} FROM {of}")).one())  # noqa: S608 - the same
