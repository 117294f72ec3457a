"""Reads what the configuration was: bulk CM files (the shape of TS 32.615) and CSV dumps, as snapshots or change logs.

Every file gives records: an object, a time, an attribute, and its value from then on. A bulk CM file has one time, that
of its footer; a CSV file has a row for an object and a time, with a column for each attribute, or the two columns
`attribute` and `value`. What a maker adds to an object, in a `VsDataContainer` of the same name and id, are attributes
of that object; other containers are objects of their own.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, IntArray
from kinband.counters.files import (
    DAMAGED,
    class_of,
    elements,
    files_of,
    local,
    moment,
    name_of,
    opened,
    parts_of,
    root_of,
)
from kinband.counters.formulas import is_missing
from kinband.counters.mapping import CounterMap, Knob
from kinband.errors import BadInputError
from kinband.guardrails.yaml import near
from kinband.trace.cells import dates_of
from kinband.trace.columns import looks_like_number
from kinband.trace.sniff import LOOKED_AT, decoded, sniffed

ROOT = "bulkCmConfigDataFile"
_DN = ("dn", "fdn", "mo", "object", "distinguished name")
_TIME = ("time", "timestamp", "datetime", "date", "date and time", "date time")
_ISO = "2026-11-01T14:15:00+01:00"
_VENDOR = "vsData"
_CLASS = (
    "kinband-class"  # what a container holds, noted on it, as its attributes are forgotten before its children come
)


class Setting(NamedTuple):
    """An attribute of an object at a time; value None where the object is gone."""

    dn: str
    time: int
    attribute: str
    value: str | None
    change: bool


def settings_of(paths: Any, *, zone: tzinfo | None, columns: Mapping[str, str]) -> Iterator[Setting]:
    """Yield the records of configuration files; a file that cannot be read is refused by its name.

    Args:
        paths: Files, directories or patterns.
        zone: The zone of times that name none.
        columns: Which columns of a CSV file are "dn" and "time", where they have other names.
    """
    for path in files_of(paths):
        try:
            with opened(path) as stream:
                root, rest = root_of(stream)
                if root not in ("", ROOT):
                    raise BadInputError(f"its root is {root}, not {ROOT}")
                yield from _bulk(rest, zone) if root else _dump(rest, zone, columns, Path(str(path)))
        except (BadInputError, *DAMAGED, UnicodeDecodeError, csv.Error) as error:
            raise BadInputError(f"the configuration of {path} cannot be read: {error}", code="configuration") from error


# --- Bulk CM --------------------------------------------------------------------------------------------------------


def _bulk(rest: Any, zone: tzinfo | None) -> Iterator[Setting]:
    found: list[tuple[str, str, str | None, bool]] = []
    time: int | None = None
    for element in elements(rest, ("attributes", "fileFooter")):
        if local(element) == "fileFooter":
            time = moment(element.get("dateTime") or "", zone)
            continue
        found += _attributes(element)
        element.clear(keep_tail=True)
        _forget_before(element.getparent())
    if time is None:
        raise BadInputError("it has no fileFooter with its dateTime, so that nobody knows when it held")
    for dn, attribute, value, change in found:
        yield Setting(dn, time, attribute, value, change)


def _attributes(element: Any) -> list[tuple[str, str, str | None, bool]]:
    owner = element.getparent()
    leaves = [child for child in element if local(child)]
    if local(owner) == "VsDataContainer":
        kind = next((one.text or "" for one in leaves if local(one) == "vsDataType"), "").strip()
        owner.set(_CLASS, kind.removeprefix(_VENDOR) or "VsDataContainer")
        leaves = [leaf for child in leaves if local(child) == kind for leaf in child if local(leaf)]
    dn, modifier = _dn(owner), owner.get("modifier")
    values: dict[str, str] = {}
    for leaf in leaves:
        if not len(leaf):  # structures are left out
            text = (leaf.text or "").strip()
            values[local(leaf)] = f"{values[local(leaf)]},{text}" if local(leaf) in values else text
    gone = modifier == "delete"
    return [(dn, name, None if gone or is_missing(text) else text, bool(modifier)) for name, text in values.items()]


def _dn(owner: Any) -> str:
    parts: list[str] = []
    prefix = ""
    for one in [*reversed(list(owner.iterancestors())), owner]:
        kind = one.get(_CLASS) or local(one)
        if kind == "configData":
            prefix = one.get("dnPrefix") or ""
        part = f"{kind}={one.get('id')}"
        if one.get("id") is not None and not (one.get(_CLASS) and parts and parts[-1] == part):
            parts.append(part)
    return name_of(prefix, "", ",".join(parts))


def _forget_before(owner: Any) -> None:
    """Let go of the objects before one, which are complete."""
    previous = owner.getprevious()
    while previous is not None and local(previous) != "attributes":
        owner.getparent().remove(previous)
        previous = owner.getprevious()


# --- CSV ------------------------------------------------------------------------------------------------------------


def _dump(rest: Any, zone: tzinfo | None, columns: Mapping[str, str], path: Path) -> Iterator[Setting]:
    data = rest.read()
    form = sniffed(data[:LOOKED_AT], path, delimiter=None, decimal_point=None)
    text = io.StringIO(decoded(data, form.encoding, path).removeprefix("\ufeff"), newline="")
    for _ in range(form.header - 1):
        text.readline()
    reader = csv.DictReader(text, fieldnames=form.names, delimiter=form.delimiter)
    next(reader)
    names = [name for name in form.names if name]
    dn, time = _column(names, "dn", columns, _DN), _column(names, "time", columns, _TIME)
    long = {"attribute", "value"} <= set(names)
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise BadInputError(f"line {form.header - 1 + reader.line_num} has not as many columns as the header")
        if any(row.values()) and row[time].strip() != time:  # lines without a value, and the header again
            rows.append((form.header - 1 + reader.line_num, row))
    for (_, row), when in zip(rows, _moments([(line, row[time]) for line, row in rows], time, zone), strict=True):
        where = ",".join(parts_of(row[dn]))
        own = {row["attribute"]: row["value"]} if long else {n: row[n] for n in names if n not in (dn, time)}
        for attribute, value in own.items():
            if not is_missing(value):  # an empty cell says nothing
                yield Setting(where, when, attribute, _plain(value, form.decimal_point), False)


def _moments(written: list[tuple[int, str]], name: str, zone: tzinfo | None) -> list[int]:
    """The times of a column, each given with its line: ISO, or dates as exports write them."""
    try:
        return [moment(text, zone) for _, text in written]
    except BadInputError as error:
        if error.code == "clock_change":
            raise
    try:
        found, _ = dates_of(name, [text.strip() for _, text in written])
    except BadInputError as error:
        raise BadInputError(error.problem, hint=f"write times such as {_ISO}") from error
    for (line, text), when in zip(written, found, strict=True):
        if when is None:
            raise BadInputError(f"line {line}: {text!r:.40} is no time such as {_ISO}")
    return [moment(when.isoformat(), zone) for when in found if when is not None]


def _plain(value: str, decimal_point: str) -> str:
    """A value without spaces around it, a number with a decimal point."""
    text = value.strip()
    if decimal_point == "," and text.count(",") == 1 and looks_like_number(text):
        return text.replace(",", ".")
    return text


def _column(names: list[str], role: str, columns: Mapping[str, str], usual: tuple[str, ...]) -> str:
    wanted = columns.get(role)
    found = [name for name in names if (name == wanted if wanted else name.strip().lower() in usual)]
    if not found:
        raise BadInputError(
            f"it has no column {wanted or role!r}; the columns are {', '.join(map(repr, names)) or 'none'}",
            hint=f"name it in the mapping, configuration: {{{role}: ...}}",
        )
    return found[0]


# --- What held when -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Timeline:
    """The values of a knob of a station in the order of time.

    Attributes:
        times: When each was seen or set, (m,).
        values: The values, (m,); None where the object was gone.
        runs: A number that is the same for records in a row that agree, (m,).
    """

    times: IntArray
    values: NDArray[Any]
    runs: IntArray

    @classmethod
    def of(cls, records: list[tuple[int, Any]]) -> "Timeline":
        """Return the timeline of times and values in any order; of one time the last value counts last."""
        ordered = sorted(records, key=lambda record: record[0])
        values = np.array([None, *(value for _, value in ordered)], dtype=object)[1:]
        other = [False, *(a != b for a, b in pairwise(values))]
        return cls(np.array([time for time, _ in ordered], dtype=np.int64), values, np.cumsum(other))

    def during(self, begin: IntArray, end: IntArray, *, changes: bool) -> tuple[NDArray[Any], BoolArray]:
        """Return what held all through each period, (n,), None where nothing did, and where that was a change.

        Args:
            begin: Begin of the periods, (n,).
            end: Their end, (n,).
            changes: Whether a value holds until the next record; else two snapshots around a period must agree.
        """
        before = np.searchsorted(self.times, begin, side="right") - 1
        after = np.searchsorted(self.times, end, side="left") - int(changes)
        inside = (before >= 0) & (after < len(self.times))
        first, last = np.maximum(before, 0), np.minimum(after, len(self.times) - 1)
        last = np.maximum(first, last) if changes else last
        constant = inside & (self.runs[first] == self.runs[last])
        held = np.full(len(begin), None, dtype=object)
        held[constant] = self.values[first[constant]]
        return held, inside & ~constant


def timelines(settings: Iterator[Setting], mapping: CounterMap) -> tuple[dict[str, dict[str, Timeline]], set[str]]:
    """Return knob to station to timeline, and the attributes that were seen."""
    by_attribute: dict[str, list[tuple[str, Knob]]] = {}
    for name, knob in mapping.knobs.items():
        by_attribute.setdefault(knob.attribute, []).append((name, knob))
    records: dict[str, dict[str, list[tuple[int, Any]]]] = {name: {} for name in mapping.knobs}
    seen: set[str] = set()
    for one in settings:
        seen.add(one.attribute)
        if one.change and not mapping.changes:
            raise BadInputError(
                f"the configuration of {one.dn} is a change", hint="write configuration: {kind: changes} in the mapping"
            )
        for name, knob in by_attribute.get(one.attribute, ()):
            station = _station(one.dn, knob, mapping)
            if station is not None:
                records[name].setdefault(station, []).append((one.time, one.value))
    return {n: {station: Timeline.of(listed) for station, listed in own.items()} for n, own in records.items()}, seen


def check_attributes(found: Mapping[str, Mapping[str, Timeline]], mapping: CounterMap, seen: set[str]) -> None:
    """Refuse a knob that no station has in the configuration; `seen` are the attributes that are there."""
    for name, knob in mapping.knobs.items():
        if not found[name]:
            kind = knob.object or " or ".join(mapping.stations.objects) or "station"
            raise BadInputError(
                f"{knob.line}: no object of class {kind} has the attribute {knob.attribute!r} in the configuration",
                hint=near(knob.attribute, sorted(seen)) if knob.attribute not in seen else "name its class with object",
                code="no_attribute",
                argument=name,
            )


def _station(dn: str, knob: Knob, mapping: CounterMap) -> str | None:
    """The station that an object's knob belongs to."""
    if not knob.object:
        return mapping.stations.of(dn)
    return mapping.stations.named(dn) if class_of(dn) == knob.object else None
