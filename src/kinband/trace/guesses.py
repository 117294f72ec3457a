"""What a column probably is: the station, the time, a knob, a reward, and its unit.

Stations and times are taken by their names, or where a single column could be meant, in whatever language; it is said.
Knobs and rewards are only proposed, since nobody but the user knows what is to be set and what is to be earned.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Any

_STATIONS = (
    "station", "stationname", "stationid", "basestation", "cell", "cellname", "cellid", "localcellid", "eutrancell",
    "eutrancellfdd", "nrcell", "nrcelldu", "ecgi", "ncgi", "eci", "cgi", "sector", "sectorname", "sectorid", "enodeb",
    "enodebname", "enodebid", "enb", "enbname", "enbid", "gnodeb", "gnodebname", "gnb", "gnbid", "gnbname", "nodeb",
    "bts", "btsname", "site", "sitename", "siteid", "nename", "managedobject", "objectname", "mo", "dn",
)  # fmt: skip
_TIMES = (
    "time", "timestamp", "datetime", "dateandtime", "periodstart", "periodstarttime", "starttime", "begintime",
    "starttimestamp", "resulttime", "collectiontime", "ropstart", "measurementtime", "period", "date", "day",
)  # fmt: skip
_PLACES = (  # to the east and to the north
    ("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("xm", "ym"), ("x", "y"),
    ("easting", "northing"),
)  # fmt: skip
_DAYS, _HOURS = ("date", "day"), ("time", "hour", "hourofday", "starthour", "hr")
_KNOB = re.compile(
    r"tilt|power|thr(es)?|thd|a[2-6]\b|hyst|offset|cio|qrxlev|p0|\bret\b|prio|timer|\bttt\b|scheduler|knob"
)
_GOOD = re.compile(r"reward|satisf|good|success|thp|thr?oughput|tput|rate|share|ratio|qoe|kpi|access|retain|drop")
_UNITS = {
    "%": r"%|per_?cent|\bpct\b|ratio|share|rate_pct", "dBm": r"dbm", "dB": r"\bdb\b|_db$", "Mbit/s": r"mbps|mbit",
    "kbit/s": r"kbps|kbit", "ms": r"\bms\b|_ms$|millisec", "s": r"\bsec|_s$|\bs\b", "°": r"\bdeg|tilt|azimuth",
    "users": r"users?\b", "W": r"\bwatt|_w$", "MHz": r"mhz", "GB": r"\bgb\b|gbyte", "MB": r"\bmb\b|mbyte",
}  # fmt: skip


def plain_name(name: str) -> str:
    """Return a column's name in small letters without anything but letters and digits.

    Example:
        >>> plain_name("Cell_Name (LTE)"), plain_name("PERIOD_START_TIME")
        ('cellnamelte', 'periodstarttime')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def stations_in(names: Iterable[str]) -> set[str]:
    """Return which columns might be that of the stations, by their names: they are read as text."""
    return {name for name in names if plain_name(name) in _STATIONS}


def is_time_name(name: str) -> bool:
    """Whether a column is called as columns of times are."""
    return plain_name(name) in _TIMES


def guessed_station(names: Iterable[str]) -> str | None:
    """Return the column of the stations: the finest unit that has a column.

    Example:
        >>> guessed_station(["Date", "Site", "Cell Name", "thp"])
        'Cell Name'
    """
    return _first(names, _STATIONS)


def only_text(table: Any, *, without: Iterable[str] = ()) -> str | None:
    """Return the one column of text, if there is just one; some columns are left out of it, and then those of one word.

    Example:
        >>> import pyarrow as pa
        >>> only_text(pa.table({"Zelle": ["a", "b", "a"], "Last": [0.1, 0.2, 0.3]}))
        'Zelle'
    """
    import pyarrow as pa

    found = [name for name in _of_kind(table, pa.types.is_string, pa.types.is_large_string) if name not in set(without)]
    if len(found) > 1:
        found = [name for name in found if len(table.column(name).unique()) > 1 and not _is_clock(table.column(name))]
    return found[0] if len(found) == 1 else None


def station_column(table: Any, *, without: Iterable[str] = (), by_kind: bool = True) -> tuple[str | None, str]:
    """Return the column of the stations, by its name or else as the only one of text, and by which of the two.

    Example:
        >>> import pyarrow as pa
        >>> station_column(pa.table({"Cell Name": ["a", "b"], "vendor": ["x", "x"]}))
        ('Cell Name', 'by its name')
    """
    named = guessed_station(name for name in table.column_names if name not in set(without))
    if named is not None or not by_kind:
        return named, "by its name"
    return only_text(table, without=without), "the only one of text"


def only_time(table: Any, *, without: Iterable[str] = ()) -> str | None:
    """Return the one column of times, joined to that of hours, if there is just one; some columns are left out."""
    import pyarrow as pa

    apart = set(without)
    found = [name for name in _of_kind(table, pa.types.is_timestamp, pa.types.is_date) if name not in apart]
    return _with_hours(table, found[0], without=apart) if len(found) == 1 else None


def _of_kind(table: Any, *kinds: Callable[[Any], bool]) -> list[str]:
    """The columns of some types whose names are not repeated."""
    names = table.column_names
    pairs = zip(names, table.schema.types, strict=True)
    return [name for name, kind in pairs if names.count(name) == 1 and any(fits(kind) for fits in kinds)]


def guessed_places(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns that say how far east and north stations are; None where there are none.

    Example:
        >>> guessed_places(["cell", "Lat", "Lon", "load"]), guessed_places(["x", "load"])
        (('Lon', 'Lat'), None)
    """
    plain = {plain_name(name): name for name in names}
    return next(((plain[x], plain[y]) for x, y in _PLACES if x in plain and y in plain), None)


def guessed_time(table: Any) -> str | None:
    """Return the column of times, or the columns of day and hour with a plus between; None where there is none."""
    import pyarrow as pa

    def is_time(name: str) -> bool:
        kind = table.column(name).type
        return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))

    names = [name for name in table.column_names if table.column_names.count(name) == 1]
    day = _first([name for name in names if is_time(name)], _DAYS)
    hour = _first([name for name in names if name != day and not is_time(name)], _HOURS)
    if day is not None and hour is not None and _without_hours(table.column(day)):
        return f"{day}+{hour}"
    found = _first([name for name in names if is_time(name)], _TIMES)
    return None if found is None else _with_hours(table, found)


def _with_hours(table: Any, day: str, *, without: Iterable[str] = ()) -> str:
    """A column of times, joined to the only one that holds hours where it holds days alone.

    Example:
        >>> import pyarrow as pa
        >>> day = pa.array(["2026-11-01", "2026-11-01"]).cast("date32")
        >>> only_time(pa.table({"Tag": day, "Stunde": ["00:00", "01:00"], "Zelle": ["a", "a"]}))
        'Tag+Stunde'
    """
    apart = {day, *without}
    if table.column_names.count(day) != 1 or not _without_hours(table.column(day)):
        return day
    single = [name for name in table.column_names if table.column_names.count(name) == 1 and name not in apart]
    clocks = [name for name in single if _is_clock(table.column(name))]
    return f"{day}+{clocks[0]}" if len(clocks) == 1 else day


def _is_clock(column: Any) -> bool:
    """Whether all cells are times of day, such as 07:00, or whole hours of which all 24 are equally many."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        counts = {one["values"]: one["counts"] for one in pc.value_counts(column.drop_null()).to_pylist()}
        return counts.keys() == set(range(24)) and max(counts.values()) <= 1.5 * min(counts.values())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        known = column.drop_null()
        return len(known) > 0 and bool(pc.all(pc.match_substring_regex(known, _CLOCK)).as_py())
    return bool(pa.types.is_time(column.type))


_CLOCK = r"^\s*([01]?\d|2[0-4]):[0-5]\d(:[0-5]\d)?(\s*-.*)?\s*$"


def _without_hours(days: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date(days.type):
        return True
    return bool(pc.all(pc.equal(pc.floor_temporal(days, unit="day"), days)).as_py())


def _first(names: Iterable[str], known: tuple[str, ...]) -> str | None:
    found = [name for name in names if plain_name(name) in known]
    return min(found, key=lambda name: known.index(plain_name(name)), default=None)


def proposed_options(table: Any, given: Mapping[str, Any]) -> str:
    """Return options that would name the knobs and the reward of a table, as far as they are not given."""
    import pyarrow as pa
    import pyarrow.compute as pc

    taken = {value for value in given.values() if isinstance(value, str)}
    numeric = [
        name for name, kind in zip(table.column_names, table.schema.types, strict=True)
        if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and name not in taken
    ]  # fmt: skip
    options = []
    if not given.get("configuration"):
        few = [
            n
            for n in numeric[:50]
            if table.column_names.count(n) == 1 and 2 <= pc.count_distinct(table.column(n)).as_py() <= 12
        ]
        knob = next((n for n in numeric if _KNOB.search(n.lower())), next(iter(few), "KNOB"))
        options.append(f"--configuration {quote(knob)}")
        taken.add(knob)
    if not given.get("reward") and "reward" not in table.column_names:
        good = next((n for n in numeric if n not in taken and _GOOD.search(n.lower())), "COLUMN")
        options.append(f"--reward {quote(good)}")
    if not given.get("station") and guessed_station(table.column_names) is None:
        options.append("--station COLUMN")
    return " ".join(options)


def in_per_cent(name: str) -> bool:
    """Return whether a column's name says that it is in per cent.

    Example:
        >>> in_per_cent("Users >5Mbps [%]"), in_per_cent("good_share")
        (True, False)
    """
    return re.search(r"%|per.?cent|\bpct\b|_pct$", name.lower()) is not None


def unit_hint(name: str) -> str:
    """Return the unit that a column's name speaks of; empty where it speaks of none.

    Example:
        >>> unit_hint("DL Thp (Mbps)"), unit_hint("rsrp_dbm"), unit_hint("cell")
        ('Mbit/s', 'dBm', '')
    """
    text = re.sub(r"[_()\[\]]", " ", name.lower())
    return next(
        (unit for unit, words in _UNITS.items() if re.search(words, text) or re.search(words, name.lower())), ""
    )
