"""The mapping: which objects are stations, and what state, reward, KPIs and knobs are made of.

It is a YAML file, because makers and operators name objects, counters and attributes differently. `docs/your-data.md`
shows every key; every complaint names the line.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any

from kinband.counters.files import SECOND, class_of, parts_of
from kinband.counters.formulas import Formula, Leaf, leaves_of, number_of, parse_formula
from kinband.counters.writing import Writing, filled, writing_of
from kinband.errors import BadInputError
from kinband.guardrails.yaml import Entry, entry_of, got, near, text_of, zone_of

_TOP = (
    "station", "zone", "period", "counters", "kpis", "state", "reward", "samples", "knobs", "configuration", "aliases",
    "inventory", "netconf", "bulk_cm",
)  # fmt: skip

ROUNDED = 9
"""Digits of a scaled attribute, so that 0.1 times 3 is 0.3."""

UNITS: dict[str, tuple[float, float]] = {
    "as-is": (1.0, 0.0),
    "lte-rsrp": (1.0, -140.0),
    "lte-rsrq": (0.5, -20.0),
    "nr-rsrp": (1.0, -156.0),
    "nr-rsrq": (0.5, -43.5),
    "half-db": (0.5, 0.0),
    "tenth-degree": (0.1, 0.0),
}
"""How attributes are coded: the knob is scale times attribute plus offset; ranges as in TS 36.331 and TS 38.331."""


# --- Which object is which station ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stations:
    """Which objects are stations, and what each is called.

    Attributes:
        objects: Their classes; empty where a pattern finds them.
        name: Their name, made of parts of the distinguished name: {ManagedElement}-{EUtranCellFDD}; "" for all of it.
        pattern: A regular expression on the distinguished name, whose groups make the name; None for classes.
        aliases: Other names of stations, or distinguished names of objects, to the name that counts.
        line: Where the mapping says so.

    Example:
        >>> stations = Stations(("EUtranCellFDD",), "{ManagedElement}-{id}")
        >>> stations.of("DC=a.com,ManagedElement=7,ENBFunction=1,EUtranCellFDD=2")
        '7-2'
    """

    objects: tuple[str, ...] = ()
    name: str = ""
    pattern: re.Pattern[str] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    line: str = "the mapping"

    def of(self, dn: str) -> str | None:
        """Return the station that an object is; None if it is none."""
        return None if self.pattern is None and class_of(dn) not in self.objects else self.named(dn)

    def named(self, dn: str) -> str | None:
        """Return the name of a station from the name of an object that belongs to it, None if it has no such parts."""
        name = self._by_pattern(dn) if self.pattern is not None else self._by_parts(dn)
        return None if name is None else self.aliases.get(dn, self.aliases.get(name, name))

    def _by_parts(self, dn: str) -> str | None:
        if self.name:
            return filled(self.name, dn)
        parts = parts_of(dn)
        places = [place for place, part in enumerate(parts, start=1) if class_of(part) in self.objects]
        return ",".join(parts[: places[-1]]) if places else None

    def _by_pattern(self, dn: str) -> str | None:
        found = self.pattern.search(dn) if self.pattern is not None else None
        return None if found is None else "-".join(filter(None, found.groups())) or found[0]


# --- The mapping ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knob:
    """A knob: an attribute of the configuration.

    Attributes:
        attribute: Its name in the configuration.
        object: The class of the objects that have it; "" for the stations themselves.
        scale: The knob is scale times attribute plus offset.
        offset: As said.
        line: Where the mapping says so.
    """

    attribute: str
    object: str = ""
    scale: float = 1.0
    offset: float = 0.0
    line: str = ""

    @property
    def coded(self) -> bool:
        """Whether the attribute must be a number."""
        return (self.scale, self.offset) != (1.0, 0.0)

    def value_of(self, text: str) -> float | str:
        """Return the knob from its attribute as text.

        Example:
            >>> Knob("a2ThresholdRsrp", offset=-140.0).value_of("40"), Knob("mode").value_of("fast")
            (-100.0, 'fast')
        """
        number = number_of(text)
        if isnan(number):
            return text.strip()
        return round(self.scale * number + self.offset, ROUNDED)

    def text_of(self, value: float | str) -> str:
        """Return its attribute as text; what is coded is a whole number.

        Example:
            >>> Knob("a2ThresholdRsrp", offset=-140.0).text_of(-100)
            '40'
        """
        if isinstance(value, str):
            if self.coded:
                raise BadInputError(f"{self.line}: {self.attribute} is coded as a number, got {value!r:.40}")
            return value
        number = round((value - self.offset) / self.scale, ROUNDED)
        if self.coded and number != round(number):
            raise BadInputError(
                f"{self.line}: {value:g} is no value of {self.attribute}, whose whole numbers are {self.scale:g} apart"
            )
        return f"{number:.0f}" if number == round(number) else repr(number)


@dataclass(frozen=True)
class CounterMap:
    r"""What a mapping file declares. Make one by `CounterMap.read` or `CounterMap.parse`.

    Attributes:
        stations: Which objects are stations.
        reward: What a period earned.
        reward_name: What it is called: the formula as it was written, most often the name of a KPI.
        state: What was known before it: of the period before.
        kpis: Further KPIs of the period.
        samples: Of how many users or samples the reward is a share; None if not declared.
        knobs: Name of a knob to its attribute.
        cumulative: Counters that only grow, to where they wrap; 0 for nowhere.
        changes: Whether the configuration is a log of changes, in which a value holds until the next; else snapshots.
        columns: Which columns of a CSV dump are "dn" and "time", where they have other names.
        zone: The zone of times that name none.
        period: The period to use where files have several, in microseconds; None for the only one.
        lines: Where a counter is named in the file.
        writing: What is needed to write the configuration.

    Example:
        >>> text = "station: {object: Cell}\nreward: Good / All\nknobs: {tilt: {attribute: tilt}}"
        >>> sorted(leaf.counter for leaf in CounterMap.parse(text).leaves)
        ['All', 'Good']
    """

    stations: Stations
    reward: Formula
    reward_name: str = "reward"
    state: Mapping[str, Formula] = field(default_factory=dict)
    kpis: Mapping[str, Formula] = field(default_factory=dict)
    samples: Formula | None = None
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    cumulative: Mapping[str, float] = field(default_factory=dict)
    changes: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    zone: tzinfo | None = None
    period: int | None = None
    lines: Mapping[str, str] = field(default_factory=dict)
    writing: Writing = field(default_factory=Writing)

    @property
    def formulas(self) -> list[Formula]:
        """All formulas."""
        return [self.reward, *self.state.values(), *self.kpis.values(), *([self.samples] if self.samples else [])]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """What the formulas take of counters, each once."""
        return tuple(dict.fromkeys(leaf for formula in self.formulas for leaf in leaves_of(formula)))

    def taken_from(self, kind: str) -> list[tuple[Leaf, str]]:
        """Return what formulas take of objects of a class, each with the counter: NRCellDU.X is X of NRCellDU alone."""
        found = []
        for leaf in self.leaves:
            owner, _, own = leaf.counter.partition(".")
            if owner not in self.stations.objects:
                found.append((leaf, leaf.counter))
            elif owner == kind:
                found.append((leaf, own))
        return found

    def check_counters(self, known: Iterable[str]) -> None:
        """Refuse a counter that no station has."""
        names = sorted(set(known))
        for leaf in self.leaves:
            if leaf.counter not in names:
                raise BadInputError(
                    f"{self.lines.get(leaf.counter, 'the mapping')}: no station has the counter {leaf.counter!r}",
                    hint=near(leaf.counter, names),
                    code="no_counter",
                    argument=leaf.counter,
                )

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "CounterMap":
        """Read a mapping file.

        Example:
            >>> CounterMap.read("no-such.yaml")
            Traceback (most recent call last):
                ...
            kinband.errors.BadInputError: no-such.yaml cannot be read: No such file or directory
        """
        made = cls.parse(text_of(Path(path)), source=str(path))
        beside = str(Path(path).parent / made.writing.inventory) if made.writing.inventory else ""
        return replace(made, writing=replace(made.writing, inventory=beside))

    @classmethod
    def parse(cls, text: str, *, source: str = "mapping") -> "CounterMap":
        r"""Return the mapping of a YAML text.

        Example:
            >>> CounterMap.parse("station: {object: Cell}\nreward: Good /\nknobs: {tilt: {attribute: tilt}}")
            Traceback (most recent call last):
                ...
            kinband.errors.BadInputError: mapping, line 2: the formula 'Good /' ends where a number, ...
        """
        if not text.strip():
            raise BadInputError(f"{source}, line 1: the file is empty: kinband counters DIR --propose writes one")
        return _mapping(entry_of(text, source=source))


# --- The sections of the file ---------------------------------------------------------------------------------------


def _mapping(root: Entry) -> CounterMap:
    top = root.mapping(_TOP)
    for name in ("station", "reward", "knobs"):
        if name not in top:
            root.fail(f"a mapping needs {name}: kinband counters DIR --propose writes a complete one")
    lines: dict[str, str] = {}
    kpis: dict[str, Formula] = {}
    for name, entry in got(top, "kpis", Entry.mapping, {}).items():
        kpis[name] = _formula(entry, known=dict(kpis), lines=lines)
    formula = partial(_formula, known=kpis, lines=lines)
    made = CounterMap(
        stations=_stations(top["station"], got(top, "aliases", _texts, {})),
        reward=formula(top["reward"]),
        reward_name=" ".join(top["reward"].text("a formula").split()),
        state=got(top, "state", lambda own: {name: formula(one) for name, one in own.mapping().items()}, {}),
        kpis=kpis,
        samples=got(top, "samples", formula, None),
        knobs={name: _knob(entry) for name, entry in top["knobs"].mapping().items()},
        cumulative=got(top, "counters", _cumulative, {}),
        zone=got(top, "zone", zone_of, None),
        period=got(top, "period", lambda own: round(own.duration().total_seconds() * SECOND), None),
        lines=lines,
        writing=writing_of(top, top["knobs"].mapping()),
        **got(top, "configuration", _configuration, {}),
    )
    _check(made, top)
    return made


def _check(made: CounterMap, top: Mapping[str, Entry]) -> None:
    if not made.knobs:
        top["knobs"].fail("knobs is empty: name at least one attribute of the configuration")
    for name in made.knobs:
        for other in ("state", "kpis"):
            if name in getattr(made, other):
                top[other].mapping()[name].fail(f"{name!r} is a knob and in {other}: give one of them another name")
    for name in made.state:
        if name in made.kpis:
            top["state"].mapping()[name].fail(f"{name!r} is in state and in kpis: give one of them another name")
    for leaf in made.leaves:
        if leaf.fold and leaf.counter in made.cumulative:
            raise BadInputError(
                f"{made.lines[leaf.counter]}: {leaf.counter} is cumulative and each of its elements wraps by itself",
                hint=f"write {leaf.counter}[0] + {leaf.counter}[1], or {leaf.counter} alone if it has one value",
            )


def _formula(entry: Entry, *, known: Mapping[str, Formula], lines: dict[str, str]) -> Formula:
    text = entry.text("a formula such as HO.ExeSucc / HO.ExeAtt")
    made = entry.make(lambda: parse_formula(text, known))
    for leaf in leaves_of(made):
        lines.setdefault(leaf.counter, f"{entry.source}, line {entry.line}")
    return made


def _texts(entry: Entry) -> dict[str, str]:
    return {name: own.text() for name, own in entry.mapping().items()}


def _stations(entry: Entry, aliases: Mapping[str, str]) -> Stations:
    given = entry.mapping(["object", "name", "pattern"])
    if ("object" in given) == ("pattern" in given):
        entry.fail("station needs object, the class of its objects such as EUtranCellFDD, or else a pattern")
    place = f"{entry.source}, line {entry.line}"
    if "pattern" in given:
        return Stations(pattern=_pattern(given["pattern"]), aliases=aliases, line=place)
    own = given["object"]
    objects = tuple(item.text() for item in own.items()) if own.kind == "seq" else (own.text(),)
    name = got(given, "name", Entry.text, "")
    if name and "{" not in name:
        given["name"].fail(f"{name!r:.40} names every station alike: put a part of its name in braces, such as {{id}}")
    if len(objects) > 1 and not name:
        entry.fail(
            "station has objects of several classes: give the name that they share, such as {ManagedElement}-{id}"
        )
    return Stations(objects, name, aliases=aliases, line=place)


def _pattern(entry: Entry) -> re.Pattern[str]:
    try:
        return re.compile(entry.text("a regular expression"))
    except re.error as error:
        entry.fail(f"{entry.path} is no regular expression: {error}")


def _knob(entry: Entry) -> Knob:
    given = entry.mapping(["attribute", "object", "unit", "scale", "offset"])
    if "attribute" not in given:
        entry.fail(f"{entry.path} needs attribute, the name that the configuration has for it")
    scale, offset = got(given, "unit", _unit, (1.0, 0.0))
    if "unit" in given and ("scale" in given or "offset" in given):
        entry.fail(f"{entry.path} has a unit and a scale or offset: give one of them")
    scale, offset = got(given, "scale", Entry.number, scale), got(given, "offset", Entry.number, offset)
    if not scale:
        given["scale"].fail(f"{entry.path}.scale is 0, which makes every value alike")
    place = f"{entry.source}, line {entry.line}"
    return Knob(given["attribute"].text(), got(given, "object", Entry.text, ""), scale, offset, place)


def _unit(entry: Entry) -> tuple[float, float]:
    name = entry.text("a unit")
    if name not in UNITS:
        entry.fail(f"there is no unit {name!r:.40} ({', '.join(UNITS)}): use scale and offset for another")
    return UNITS[name]


def _cumulative(entry: Entry) -> dict[str, float]:
    """Counters that only grow, and where they wrap."""
    found = {}
    for name, own in entry.mapping().items():
        given = own.mapping(["cumulative", "wrap"])
        wrap = got(given, "wrap", Entry.number, 0.0)
        if got(given, "cumulative", Entry.switch, False):
            found[name] = wrap
        elif "wrap" in given:
            own.fail(f"{own.path} wraps but is not cumulative: add cumulative: true")
    return found


def _configuration(entry: Entry) -> dict[str, Any]:
    given = entry.mapping(["kind", "dn", "time"])
    kind = got(given, "kind", Entry.text, "snapshots")
    if kind not in ("snapshots", "changes"):
        given["kind"].fail(f"{entry.path}.kind must be snapshots or changes, got {kind!r:.40}")
    read: Callable[[Entry], str] = Entry.text
    return {"changes": kind == "changes", "columns": {n: read(given[n]) for n in ("dn", "time") if n in given}}
