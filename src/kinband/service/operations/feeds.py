"""Counters as they come: how they are read, by the same column map or mapping as a log is imported with.

Rows come as JSON, as CSV text, or as measurement files (TS 32.435, TS 28.532), the latter two perhaps gzipped. Whatever
cannot be used is counted by reason and named; the rest is used.
"""

import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinband.arrays import FloatArray
from kinband.counters.files import SECOND
from kinband.counters.formulas import evaluate
from kinband.counters.mapping import CounterMap
from kinband.counters.survey import shown, survey
from kinband.errors import BadInputError
from kinband.service.operations.slots import at_ticks
from kinband.stats import counted
from kinband.trace.cells import cleaned, dates_of
from kinband.trace.files import TableReading, read_table
from kinband.trace.guesses import stations_in
from kinband.trace.rewards import is_sum, noise_of_shares, weighted_from
from kinband.trace.table import understood_columns

HOUR = 3600.0
LARGEST = 64 << 20
"""Bytes that a body may hold when it is unpacked."""
NAMED = 3
"""How many places are named of each reason."""

_GZIP = b"\x1f\x8b"

# --- What came: rows of stations and periods, and what could not be used of it --------------------------------------


class Row(NamedTuple):
    """What was measured of a station in a period.

    Attributes:
        station: Whose.
        begin: When the period began.
        end: When it ended.
        state: State features that are known.
        reward: What the period earned, where it says so.
        noise: The variance of that, where it is known.
        kpis: Further KPIs that are known.
        place: Where it stands in what came.
    """

    station: str
    begin: datetime
    end: datetime
    state: Mapping[str, float]
    reward: float | None
    noise: float | None
    kpis: Mapping[str, float]
    place: str


class Unused:
    """What was not used, by reason, with the first places.

    Example:
        >>> unused = Unused()
        >>> for row in range(1, 6):
        ...     unused.add("unknown_station", "of stations that nobody knows: let them join", f"row {row}: 'X9'")
        >>> unused.listed()[0]["text"]
        "5 rows are of stations that nobody knows: let them join (row 1: 'X9', row 2: 'X9', row 3: 'X9' and 2 more)"
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, list[str], int]] = {}

    def add(self, code: str, what: str, place: str, *, count: int = 1) -> None:
        """Count something that was not used."""
        text, places, before = self._found.get(code, (what, [], 0))
        self._found[code] = text, [*places, place][:NAMED], before + count

    def listed(self) -> list[dict[str, Any]]:
        """Return reasons with a sentence each, the most frequent first."""
        ordered = sorted(self._found.items(), key=lambda item: -item[1][2])
        return [
            {"code": code, "count": count, "places": places, "text": _sentence(what, places, count)}
            for code, (what, places, count) in ordered
        ]


def _sentence(what: str, places: Sequence[str], count: int) -> str:
    more = f" and {count - len(places):,} more" if count > len(places) else ""
    return f"{counted(count, 'row')} {'is' if count == 1 else 'are'} {what} ({', '.join(places)}{more})"


@dataclass
class Arrived:
    """What came in one call.

    Attributes:
        rows: What can be used, in the order in which it came.
        unused: What cannot.
        count: How many rows there were.
    """

    rows: list[Row] = field(default_factory=list)
    unused: Unused = field(default_factory=Unused)
    count: int = 0


# --- How it is read -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feed:
    """How counters are read; on record, so that every process reads them alike.

    Attributes:
        columns: The column map: which are "station", "time", "reward" and "samples", where names do not tell.
        written: How text is written: "delimiter", "decimal_point", "encoding" and "date_format", where given.
        per_cent: Whether rewards are in per cent.
        mapping: The YAML text that says what measurement files hold; empty where none was given.
        period: How long a period of rows lasts, in seconds; None for as long as in the log, else an hour.

    Example:
        >>> feed = Feed({"station": "cell", "reward": "good"})
        >>> rows = [{"cell": "a", "time": "2026-11-20T10:00", "load": 0.4, "good": 0.9}, {"cell": "b", "time": "soon"}]
        >>> arrived = feed.read(rows, names=["load"], kpis=[], zone=UTC, period=3600.0)
        >>> [(row.station, row.end.hour, dict(row.state), row.reward) for row in arrived.rows]
        [('a', 11, {'load': 0.4}, 0.9)]
        >>> arrived.unused.listed()[0]["text"]
        "1 row is without a time such as 2026-11-20T10:00+01:00 (row 2: 'soon')"
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)
    per_cent: bool = False
    mapping: str = ""
    period: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Feed":
        """Return what `to_dict` wrote; keys of later versions are passed over."""
        known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        return cls(**known)

    def check(self, *, source: str = "mapping") -> None:
        """Refuse a mapping by which counters cannot be read as they come; `source` is its file."""
        if not self.mapping:
            return
        mapping = CounterMap.parse(self.mapping, source=source)
        if mapping.cumulative:
            name = next(iter(mapping.cumulative))
            raise BadInputError(
                f"the mapping has the cumulative counter {name!r}, whose growth takes two periods, and files that come "
                "one by one have one",
                hint="have what it grew by computed before, or send rows",
                code="cumulative",
                argument="mapping",
            )

    def read(
        self,
        body: bytes | Sequence[Mapping[str, Any]],
        *,
        names: Sequence[str],
        kpis: Iterable[str],
        zone: tzinfo,
        period: float,
    ) -> Arrived:
        """Return the rows of a body.

        Args:
            body: Rows by column, or a file as it is: CSV text or a measurement file, perhaps gzipped.
            names: The state features that are wanted.
            kpis: Further KPIs that are wanted.
            zone: The zone of times that name none.
            period: How long a period lasts, in seconds, where neither feed nor file says so.
        """
        if not isinstance(body, bytes):
            return self._table(self._rows(body), names, kpis, zone, period)
        data = unpacked(body)
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return self._files(data, names, kpis, zone)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "body.csv"
            path.write_bytes(data)
            try:
                return self._csv(path, names, kpis, zone, period)
            except BadInputError as error:
                told = {"hint": error.hint, "code": error.code, "argument": error.argument, "value": error.value}
                raise BadInputError(error.problem.replace(str(path), "the body"), **told) from error

    # Rows of a table

    def _rows(self, rows: Sequence[Mapping[str, Any]]) -> TableReading:
        import pyarrow as pa

        columns = list(dict.fromkeys(name for row in rows for name in row))
        stations = {self.columns["station"]} if "station" in self.columns else stations_in(columns)
        made = {name: _column([row.get(name) for row in rows], text=name in stations) for name in columns}
        table = pa.table(made)
        found = cleaned(table, names=stations, decimal_point=".", date_format=self.written.get("date_format"))
        raw = {name: [None if v is None else str(v) for v in (row.get(name) for row in rows)] for name in columns}
        return TableReading(Path("the rows"), found, note={"raw": raw})

    def _csv(self, path: Path, names: Sequence[str], kpis: Iterable[str], zone: tzinfo, period: float) -> Arrived:
        text = [self.columns["station"]] if "station" in self.columns else []
        reading = read_table(path, text=text, noted=False, **self.written)
        whole = read_table(path, text=reading.cleaned.table.column_names, noted=False, **self.written)
        table = whole.cleaned.table
        reading.note = {"raw": {name: table.column(name).to_pylist() for name in table.column_names}}
        arrived = self._table(reading, names, kpis, zone, period)
        if reading.cut:
            arrived.count += reading.cut
            what = "not as long as the header"
            arrived.unused.add("uneven", what, reading.uneven or "", count=reading.cut)
        return arrived

    def _table(
        self,
        reading: TableReading,
        names: Sequence[str],
        kpis: Iterable[str],
        zone: tzinfo,
        period: float,
    ) -> Arrived:
        table = reading.cleaned.table
        arrived = Arrived(count=len(table))
        raw: dict[str, list[str | None]] = (reading.note or {}).get("raw", {})
        roles = understood_columns(reading, self.columns or None)
        table = reading.cleaned.table  # a day and an hour were joined
        station, time = roles.get("station", "station"), roles.get("time", "time")
        for role, name in (("station", station), ("time", time)):
            if name not in table.column_names:
                known = ", ".join(map(repr, list(table.column_names)[:20])) or "none"
                raise BadInputError(
                    f"the rows have no column for the {role}, {name!r}; the columns are {known}",
                    hint=f"call it {name!r}, or start the service with --{role}",
                    code="no_column",
                    argument="rows",
                )
        wanted = [name for name in dict.fromkeys([*names, *kpis]) if name in table.column_names]
        reward, noise = self._reward(reading, roles, arrived.unused)
        if not wanted and reward is None:
            needed = ", ".join(map(repr, [*names, str(roles.get("reward", "reward"))][:20]))
            raise BadInputError(
                f"the rows have none of the columns {needed}",
                hint="send state features, the reward, or both",
                code="no_column",
                argument="rows",
            )
        values = {name: _numbers(reading, name, arrived.unused) for name in wanted}
        begins = _begins(reading, raw.get(time), time, zone, self.written.get("date_format"), arrived.unused)
        length = timedelta(seconds=self.period or period)
        for row, (name, begin) in enumerate(zip(table.column(station).to_pylist(), begins, strict=True)):
            where = f"row {row + 1}"
            if name is None or not str(name).strip():
                arrived.unused.add("no_station", "without a station", where)
            elif begin is not None:
                made = _row(str(name), begin, begin + length, values, row, reward, noise, names, where)
                if made is None:
                    arrived.unused.add("nothing", "without any value that is wanted", f"{where}: {name!r:.40}")
                else:
                    arrived.rows.append(made)
        return arrived

    def _reward(
        self, reading: TableReading, roles: Mapping[str, Any], unused: Unused
    ) -> tuple[FloatArray | None, FloatArray | None]:
        """Return rewards and their variances, nan where not known; None where there is no such column."""
        columns, known = reading.cleaned.table.column_names, roles.get("reward", "reward")
        if is_sum(known) and known not in columns:
            weighted = weighted_from(known)
            if any(name not in columns for name in weighted.weights):
                return None, None
            reward = weighted.of_columns({n: _numbers(reading, n, unused) for n in weighted.weights})
        elif known in columns:
            reward = _numbers(reading, str(known), unused)
        else:
            return None, None
        reward = reward / 100 if self.per_cent else reward
        if (samples := roles.get("samples", "samples")) in columns:
            count = _numbers(reading, samples, unused)
            fits = (count >= 1) & (reward >= 0) & (reward <= 1)
            noise = np.full(len(reward), nan)
            noise[fits] = noise_of_shares(reward[fits], count[fits])
            return reward, noise
        if (name := roles.get("noise", "noise")) in columns:
            noise = _numbers(reading, name, unused)
            return reward, np.where(noise > 0, noise / (100**2 if self.per_cent else 1), nan)
        return reward, None

    # Measurement files

    def _files(self, data: bytes, names: Sequence[str], kpis: Iterable[str], zone: tzinfo) -> Arrived:
        if not self.mapping:
            raise BadInputError(
                "a measurement file came, and nobody said what its counters are",
                hint="start the service with --mapping, which kinband counters DIR --propose writes",
                code="no_mapping",
                argument="mapping",
            )
        mapping = CounterMap.parse(self.mapping)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "body.xml"
            path.write_bytes(data)
            try:
                found = survey([path], mapping, zone=mapping.zone or zone)
            except BadInputError as error:
                problem = error.problem.replace(str(path), "the body")
                raise BadInputError(problem, hint=error.hint, code=error.code) from error
        return _measured(found, mapping, [*names, *kpis], frozenset(names))


def unpacked(body: bytes) -> bytes:
    """Return a body, unpacked where it is gzipped; what is damaged or far too large is refused.

    Example:
        >>> import gzip
        >>> unpacked(gzip.compress(b"cell,time")), unpacked(b"cell,time")
        (b'cell,time', b'cell,time')
    """
    if not body.startswith(_GZIP):
        return body
    try:
        packed = zlib.decompressobj(wbits=31)
        data = packed.decompress(body, LARGEST + 1)
    except zlib.error as error:
        raise BadInputError(f"the body cannot be unpacked: {error}", hint="send it again", code="damaged") from error
    if len(data) > LARGEST:
        raise BadInputError(f"the body unpacks to more than {LARGEST >> 20} MB", hint="cut it up", code="too_large")
    if not packed.eof:
        raise BadInputError("the body ends before it is unpacked", hint="send all of it again", code="damaged")
    return data


def _column(values: Sequence[Any], *, text: bool) -> Any:
    import pyarrow as pa

    known = [value for value in values if value is not None]
    if not text and all(isinstance(value, int | float) for value in known):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _numbers(reading: TableReading, name: str, unused: Unused) -> FloatArray:
    """Return a column as numbers, nan where there is none; cells that are none are counted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = reading.cleaned.table.column(name)
    bad, text = reading.cleaned.bad.get(name, (None, column))
    if bad is None and pa.types.is_string(column.type):  # most of it is no number: what is one counts all the same
        values = np.array([_plain(cell) for cell in column.to_pylist()], dtype=np.float64)
        bad, column = pc.is_valid(column).to_numpy() & np.isnan(values), pa.array(values)
    for row in np.flatnonzero(bad) if bad is not None else ():
        told = f"row {row + 1}: {name} is {text[int(row)].as_py()!r:.40}"
        unused.add("no_number", "with a value that is no number, which is left out", told)
    if pa.types.is_string(column.type) or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return np.full(len(column), nan)
    values = np.array([nan if value is None else value for value in column.to_pylist()], dtype=np.float64)
    values[~np.isfinite(values)] = nan
    return values


def _plain(cell: str | None) -> float:
    """Return a cell of text as a number, nan where it is none."""
    try:
        return nan if cell is None or not isfinite(float(cell)) else float(cell)
    except ValueError:
        return nan


def _begins(
    reading: TableReading,
    raw: Sequence[str | None] | None,
    name: str,
    zone: tzinfo,
    date_format: str | None,
    unused: Unused,
) -> list[datetime | None]:
    """Return when rows begin, UTC; None where that is not told, twice or never, which is counted."""
    import pyarrow as pa

    column = reading.cleaned.table.column(name)
    texts = [text or "" for text in raw] if raw is not None else [""] * len(column)
    told: list[datetime | None] = [None] * len(column)
    if raw is not None:
        told = dates_of(name, texts, date_format)[0]
    if not any(told) and pa.types.is_timestamp(column.type):  # seconds since 1970, or a day joined to an hour
        counted_up = "since 1970" in reading.cleaned.dates.get(name, "")
        told = [v.replace(tzinfo=UTC) if v is not None and counted_up else v for v in column.to_pylist()]
    found = [None if moment is None else _placed(moment, zone) for moment in told]
    for row, (moment, at) in enumerate(zip(told, found, strict=True)):
        where = f"row {row + 1}: {texts[row] or str(moment or '')!r:.40}"
        if moment is None:
            unused.add("no_time", "without a time such as 2026-11-20T10:00+01:00", where)
        elif at is None:
            unused.add("clock_change", f"of a time that is twice or never in {zone}: send times with a zone", where)
    return found


def _placed(moment: datetime, zone: tzinfo) -> datetime | None:
    """Return a time in UTC; None where a zone has it twice or never, as in a night of clock change."""
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
            if moment.utcoffset() != moment.replace(fold=1).utcoffset():
                return None
        return moment.astimezone(UTC)
    except OverflowError:
        return None


def _row(
    name: str,
    begin: datetime,
    end: datetime,
    values: Mapping[str, FloatArray],
    row: int,
    reward: FloatArray | None,
    noise: FloatArray | None,
    names: Sequence[str],
    place: str,
) -> Row | None:
    known = {one: float(column[row]) for one, column in values.items() if isfinite(column[row])}
    state = {one: known[one] for one in names if one in known}
    earned = None if reward is None or not isfinite(reward[row]) else float(reward[row])
    spread = None if earned is None or noise is None or not isfinite(noise[row]) else float(noise[row])
    kpis = {one: value for one, value in known.items() if one not in state}
    return Row(name, begin, end, state, earned, spread, kpis, place) if state or kpis or earned is not None else None


def _measured(found: Any, mapping: CounterMap, wanted: Sequence[str], states: frozenset[str]) -> Arrived:
    """Return the rows of a survey."""
    arrived, values = Arrived(), found.values
    size = len(values.rows)
    arrived.count = size
    for name, count in found.suspect.items():
        arrived.count += count
        arrived.unused.add("suspect", "marked as suspect by the element itself", name, count=count)
    if not size:
        kinds = ", ".join(list(found.classes)[:8]) or "none"
        raise BadInputError(f"no object of the body is a station by the mapping; there are {kinds}", code="no_station")
    columns = {leaf: np.array(own) for leaf, own in values.columns.items()}
    formulas = {**mapping.kpis, **mapping.state}
    read = {name: evaluate(formulas[name], columns, size) for name in wanted if name in formulas}
    reward = evaluate(mapping.reward, columns, size)
    noise = np.full(size, nan)
    if mapping.samples is not None:
        samples = evaluate(mapping.samples, columns, size)
        fits = (samples >= 1) & (reward >= 0) & (reward <= 1)
        noise[fits] = noise_of_shares(reward[fits], samples[fits])
    names = [name for name in wanted if name in states]
    for (station, begin, end), row in values.rows.items():
        place = f"{station} at {shown(begin)}"
        if mapping.period is not None and end - begin != mapping.period:
            arrived.unused.add("period", f"of periods that are not {mapping.period // SECOND} s long", place)
            continue
        made = _row(station, at_ticks(begin), at_ticks(end), read, row, reward, noise, names, place)
        if made is None:
            arrived.unused.add("nothing", "without any value that is wanted", place)
        else:
            arrived.rows.append(made)
    return arrived
