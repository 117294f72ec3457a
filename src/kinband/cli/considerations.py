"""Options for what counts beside the rewards of a log: floors, neighbours, drift, descriptors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinband.arrays import FloatArray
from kinband.cli.options import LogOptions, about, rails_of
from kinband.drift import Drift
from kinband.errors import BadInputError
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.planning.considerations import Considerations, everybody_alike
from kinband.similarity.newcomers import Descriptors, check_kinds, checked_descriptors
from kinband.space import ConfigurationSpace
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.columns import station_names, table_of
from kinband.trace.files import check_file, located, read_table

_RATE = 0.05
"""How often a floor may be missed: by the model in a plan, by what is measured in a service."""

_option = partial(typer.Option, rich_help_panel="What counts beside the reward")


@dataclass(frozen=True)
class ConsiderationOptions:
    """What counts beside the rewards, as given on the command line."""

    floor: Annotated[
        list[str] | None,
        _option(
            metavar="LIMIT",
            help="What a column of the log must keep, such as 'drop_rate <= 0.01' or 'availability >= 0.99', in the "
            "column's unit; repeat for several.",
        ),
    ] = None
    neighbours: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Who is a neighbour of whom: two columns, station and neighbour, or the neighbours of a rails file "
            "(.yaml). What a change does to their rewards counts.",
        ),
    ] = None
    neighbour_weight: Annotated[
        float | None,
        _option(
            min=0.0, max=1.0,
            help="Share of the reward that is the neighbours'; if not given, each counts as much as the station.",
        ),
    ] = None  # fmt: skip
    drift: Annotated[
        str | None,
        _option(metavar="SPAN", help="After how long a row counts half: 14d, 36h, '300 rows'; never if not given."),
    ] = None
    descriptors: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="What describes stations, one row each: numbers and words. Stations that the log does not have start "
            "from those that resemble them.",
        ),
    ] = None

    @property
    def kpis(self) -> tuple[str, ...]:
        """The columns that have floors."""
        return tuple(floor.name for floor in self.floors)

    @property
    def floors(self) -> tuple[KpiFloor, ...]:
        """The floors."""
        limits: dict[str, dict[str, float]] = {}
        for text in self.floor or ():
            name, side, limit = floor_of(text)
            if side in limits.setdefault(name, {}):
                raise BadInputError(f"--floor limits {name!r} twice on the same side: give one of them")
            limits[name][side] = limit
        return tuple(
            KpiFloor(name, at_least=of.get("at_least"), at_most=of.get("at_most"), delta=_RATE)
            for name, of in limits.items()
        )

    def check(self) -> None:
        """Refuse what can be refused before anything is read."""
        _ = self.floors, drift_of(self.drift)
        if self.neighbour_weight is not None and self.neighbours is None:
            raise BadInputError("--neighbour-weight needs to know who is a neighbour: give --neighbours")

    def read(self, trace: Trace, space: ConfigurationSpace, columns: LogOptions, notes: list[str]) -> Considerations:
        """Return what is considered, with the files read."""
        floors = self.floors
        for floor in floors:
            _check_unit(floor, trace.kpis[floor.name])
        known: dict[str, Descriptors] = {}
        if self.descriptors is not None:
            with about(self.descriptors):
                known = descriptors_of(self.descriptors, columns)
        rule = None
        if self.neighbours is not None:
            stations = [*trace.stations, *(name for name in known if name not in set(trace.stations))]
            with about(self.neighbours):
                pairs = neighbours_of(self.neighbours, stations, space, columns, notes)
            weight, others = self.neighbour_weight, stations[len(trace.stations) :]
            rule = everybody_alike(pairs) if weight is None else NeighbourReward(pairs, weight)
            rule = replace(rule, others=others)
        return Considerations(floors, rule, drift_of(self.drift), known)


# --- Floors ---------------------------------------------------------------------------------------------------------

_LIMIT = re.compile(r"\s*(?P<name>.*?[^\s<>=≤≥])\s*(?P<sign><=|>=|≤|≥)\s*(?P<limit>[^<>=≤≥]*?)\s*")


def floor_of(text: str) -> tuple[str, str, float]:
    """Return the column, the side and the limit of a floor.

    Example:
        >>> floor_of("drop rate <= 0.01"), floor_of("'load' >= 2")
        (('drop rate', 'at_most', 0.01), ('load', 'at_least', 2.0))
    """
    found = _LIMIT.fullmatch(text)
    try:
        limit = float(found["limit"]) if found else np.nan
    except ValueError:
        limit = np.nan
    if found is None or not np.isfinite(limit):
        raise BadInputError(
            "--floor takes a column, <= or >=, and a number in the column's unit, such as 'drop_rate <= 0.01', got "
            f"{text!r:.60}"
        )
    name = found["name"]
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    return name[1:-1] if quoted else name, "at_most" if found["sign"] in ("<=", "≤") else "at_least", limit


def _check_unit(floor: KpiFloor, values: FloatArray) -> None:
    """Refuse a limit that says nothing because it is a share and the column in per cent, or the other way round."""
    known = values[np.isfinite(values)]
    limits = [limit for limit in (floor.at_least, floor.at_most) if limit is not None]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    for limit in limits:
        if low <= limit <= high:
            continue
        for factor, column, given in ((100.0, "per cent", "a share"), (0.01, "shares", "per cent")):
            share = high if factor < 1 else limit
            if 0 <= share <= 1 and max(high, limit) <= 100 and low >= 0 and low <= factor * limit <= high:
                raise BadInputError(
                    f"column {floor.name!r} goes from {low:g} to {high:g}, so it seems to hold {column}, and the limit "
                    f"{limit:g} seems to be {given}: write {factor * limit:g}"
                )


# --- Neighbours -----------------------------------------------------------------------------------------------------


def neighbours_of(
    path: Path, names: Sequence[str], space: ConfigurationSpace, columns: LogOptions, notes: list[str]
) -> dict[str, list[str]]:
    """Return the neighbours of each station that has any among those of a log; being a neighbour is mutual."""
    if path.suffix.lower() in (".yaml", ".yml"):
        rails = rails_of(path, space, names)
        listed = [(name, other) for name, others in (rails.neighbours if rails else {}).items() for other in others]
    else:
        listed = _pairs(path, columns)
    stations = set(names)
    found: dict[str, set[str]] = {}
    for one, other in listed:
        if one != other and one in stations and other in stations:
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
    if not found:
        raise BadInputError(f"{path} names no two neighbours that are stations of the log, as {names[0]!r} is")
    if unknown := {name for pair in listed for name in pair} - stations:
        notes.append(f"{counted(len(unknown), 'station')} of {path.name} without rows in the log do not count")
    return {name: sorted(found[name]) for name in names if name in found}


def _pairs(path: Path, columns: LogOptions) -> list[tuple[str, str]]:
    """The pairs in a file of two columns, or of several of which two are called station and neighbour."""
    table, names = _as_text(path, columns)
    ours = [name for name in (columns.station, "station") if name in names][:1]
    theirs = [name for name in ("neighbour", "neighbor") if name in names][:1]
    pair: list[Any] = [*ours, *theirs] if ours and theirs else list(names)
    if len(pair) != 2:
        has = ", ".join(map(repr, names))
        raise BadInputError(f"{path} needs the columns station and neighbour, or two columns in all; it has {has}")
    both = [station_names(table.get(name), label=f"column {name!r} of {path}").tolist() for name in pair]
    return list(zip(*both, strict=True))


def _as_text(path: Path, columns: LogOptions) -> tuple[Any, tuple[str, ...]]:
    """A small table whose every column is text, so that station 0012 stays one, and its columns."""
    check_file(path)
    with located(path, delimiter=columns.marks["delimiter"]):
        names = read_table(path, **columns.beside(path), noted=False).cleaned.table.column_names
        table = read_table(path, text=names, **columns.beside(path), noted=False).cleaned.table
    return table_of(table, what=str(path)), tuple(names)


# --- Drift ----------------------------------------------------------------------------------------------------------

_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(rows?|h|d|w|)\s*")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def drift_of(text: str | None) -> Drift | None:
    """Return how fast rows cease to count; None for never.

    Example:
        >>> drift_of("14d").half_life, drift_of("300 rows").clock, drift_of("40").clock
        (1209600.0, 'decisions', 'numbers')
    """
    if text is None:
        return None
    found = _SPAN.fullmatch(text)
    if found is None or not float(found[1]) > 0:
        raise BadInputError(
            "--drift takes a span such as 14d, 36h, 2w or '300 rows', or a number in the unit of times, got "
            f"{text!r:.40}"
        )
    size, unit = float(found[1]), found[2]
    if unit in _UNITS:
        return Drift(size * _UNITS[unit], reset=False)
    return Drift(size, reset=False, clock="decisions" if unit else "numbers")


# --- Descriptors ----------------------------------------------------------------------------------------------------


def descriptors_of(path: Path, columns: LogOptions) -> dict[str, Descriptors]:
    """Return what describes each station of a file, without what is missing."""
    check_file(path)
    station = columns.station_in(path)
    with located(path, delimiter=columns.marks["delimiter"]):
        table = table_of(
            read_table(path, text=[station], **columns.beside(path), noted=False).cleaned.table, what=str(path)
        )
    if station not in table.names:
        has = ", ".join(map(repr, table.names))
        raise BadInputError(f"{path} has no column {station!r} for the stations; it has {has}")
    names = station_names(table.get(station), label=f"column {station!r} of {path}").tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInputError(f"{path} describes station {twice!r} {counted(names.count(twice), 'time')}: give one row")
    others = {name: table.get(name).tolist() for name in table.names if name != station}
    if not others:
        raise BadInputError(f"{path} has stations only: give columns that describe them, such as position or land use")
    known: dict[str, Descriptors] = {
        name: checked_descriptors(
            {what: None if values[row] == "" else values[row] for what, values in others.items()}, station=name
        )
        for row, name in enumerate(names)
    }
    check_kinds(known)
    return known
