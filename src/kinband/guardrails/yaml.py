"""Reads rails from a YAML file: every complaint is one sentence with the line."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, timedelta, tzinfo
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kinband.errors import BadInputError, KinbandError
from kinband.guardrails.model import (
    DAY_END,
    DAYS,
    TWO_PEOPLE,
    Fallback,
    Freeze,
    KnobLimit,
    Rails,
    Window,
    check_limit,
    check_rails,
    zone_named,
)
from kinband.judging import RATE
from kinband.space import ConfigurationSpace, Knob, Scalar

# --- A YAML file as a tree whose every leaf knows its line ----------------------------------------------------------
#
# The file is parsed into nodes (`yaml.compose`), never into objects: nothing in a file can run, and every complaint
# names the line it is about. Leaves are read as what the reader expects there, from the text as it was written. YAML's
# own guesses, by which 22:00 is the number 1320, 007 is 7 and NO is false, thus have no say: a station named 007 is
# "007".

T = TypeVar("T")

_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")}
_KINDS = {"map": "a mapping", "seq": "a list"}
_NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d+)?|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_TIME = re.compile(r"(\d\d?):(\d\d)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Entry:
    r"""One place of a file: a value, and what to call it in a complaint.

    Attributes:
        node: The node of the YAML tree.
        source: Name of the file.
        path: Where it stands, such as knobs.tilt.min.
        line: Line of its key, from 1.
    """

    node: Any
    source: str
    path: str
    line: int

    def fail(self, what: str) -> NoReturn:
        """Complain about this place."""
        raise BadInputError(f"{self.source}, line {self.line}: {what}")

    def make(self, build: Callable[[], T]) -> T:
        """Return what `build` makes; its complaints become complaints about this place."""
        try:
            return build()
        except KinbandError as error:
            self.fail(str(error))

    @property
    def kind(self) -> str:
        """What stands here: "map", "seq" or "scalar"."""
        if self.node.tag not in _PLAIN:
            self.fail(
                f"{self.path or 'the file'} has the tag {self.node.tag.removeprefix(_TAG)!r}: write a plain value"
            )
        if self.node.tag == _TAG + "null" and self.node.style is None:
            self.fail(f"{self.path or 'the file'} is empty: give it a value, or remove the line")
        return {"mapping": "map", "sequence": "seq"}.get(self.node.id, "scalar")

    def mapping(self, known: Iterable[str] | None = None) -> dict[str, "Entry"]:
        """Return the entries of a mapping by key; keys must be among those known, and appear once."""
        self._expect("map", "a mapping from names to values")
        found: dict[str, Entry] = {}
        for key, value in self.node.value:
            line = key.start_mark.line + 1
            name = Entry(key, self.source, f"a key of {self.path}" if self.path else "a key", line).text()
            entry = Entry(value, self.source, f"{self.path}.{name}" if self.path else name, line)
            if name in found:
                entry.fail(f"{entry.path} is given twice, first on line {found[name].line}: keep one of them")
            if known is not None and name not in (names := list(known)):
                entry.fail(f"there is no key {name!r} {self._here()}: {near(name, names)}")
            found[name] = entry
        return found

    def items(self) -> list["Entry"]:
        """Return the entries of a list."""
        self._expect("seq", "a list")
        return [
            Entry(node, self.source, f"{self.path}[{number}]", node.start_mark.line + 1)
            for number, node in enumerate(self.node.value, start=1)
        ]

    def text(self, expected: str = "one word or number") -> str:
        """Return a leaf as it was written."""
        self._expect("scalar", expected)
        return str(self.node.value)

    def number(self) -> float:
        """Return a leaf as a decimal number."""
        text = self.text("a number")
        if self.node.style is not None or not _NUMBER.fullmatch(text):
            self.fail(f"{self.path} must be a number, got {self.node.value!r:.40}")
        value = float(text)
        return value if abs(value) <= 1e100 else self.fail(f"{self.path} must be at most 1e100, got {text}")

    def count(self, *, least: int) -> int:
        """Return a leaf as a whole number."""
        value = self.number()
        if value != int(value) or value < least:
            self.fail(f"{self.path} must be a whole number from {least}, got {self.node.value}")
        return int(value)

    def switch(self) -> bool:
        """Return a leaf as on or off."""
        text = self.text("on or off")
        if text.lower() not in _SWITCHES:
            self.fail(f"{self.path} must be on or off, got {text!r:.40}")
        return _SWITCHES[text.lower()]

    def duration(self) -> timedelta:
        """Return a leaf as a length of time."""
        text = self.text("a time with its unit")
        match = _DURATION.fullmatch(text)
        if match is None or float(match[1]) * _SECONDS[match[2]] > 1e9:
            self.fail(f"{self.path} must be a time with its unit, such as 90s, 15min, 4h, 2d or 1w, got {text!r:.40}")
        return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])

    def minute(self) -> int:
        """Return a leaf as a minute of the day."""
        text = self.text("a time such as 22:00")
        match = _TIME.fullmatch(text)
        minute = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else -1
        if not 0 <= minute <= 24 * 60:
            self.fail(f"{self.path} must be a time of the day from 00:00 to 24:00, got {text!r:.40}")
        return minute

    def day(self) -> date:
        """Return a leaf as a date."""
        text = self.text("a date such as 2026-12-24")
        try:
            return date.fromisoformat(text)
        except ValueError:
            self.fail(f"{self.path} must be a date such as 2026-12-24, got {text!r:.40}")

    def _expect(self, kind: str, words: str) -> None:
        if self.kind != kind:
            came = _KINDS.get(self.kind) or repr(self.node.value)[:40]
            self.fail(f"{self.path or 'the file'} must be {words}, got {came}")

    def _here(self) -> str:
        return f"in {self.path}" if self.path else "at the top of the file"


def entry_of(text: str, *, source: str) -> Entry:
    r"""Return the root of a YAML text."""
    yaml = _yaml()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInputError(f"{source}, line {mark.line + 1}: this is not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInputError(f"{source}, line {line}: a character that YAML does not allow: remove it") from error
    except RecursionError as error:
        raise BadInputError(f"{source}, line 1: this is nested too deeply: write it flat") from error
    if node is None:
        raise BadInputError(f"{source}, line 1: the file is empty: write {{}} for no rails at all")
    return Entry(node, source, "", node.start_mark.line + 1)


def near(name: str, known: Iterable[str]) -> str:
    """Return what a name that is not known might have meant."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there is {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}" if names else "none is known"


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ModuleNotFoundError("PyYAML is not installed: pip install 'kinband[service]'") from error
    return yaml


# --- The sections of a rails file: limits of knobs, windows, the freeze list, the fallback --------------------------

Section = TypeVar("Section")
D = TypeVar("D")


def got(given: Mapping[str, Entry], name: str, read: Callable[[Entry], Section], default: D) -> Section | D:
    """Return what a key holds, or the default where it is not given."""
    return read(given[name]) if name in given else default


@dataclass(frozen=True)
class Known:
    """What a file may name.

    Attributes:
        space: Knobs and their values.
        stations: The stations.
        zone: The zone of windows that name none.
    """

    space: ConfigurationSpace
    stations: frozenset[str]
    zone: tzinfo

    def station(self, entry: Entry) -> str:
        """Return the station that an entry names."""
        return self.named(entry.text("the name of a station"), entry)

    def named(self, name: str, entry: Entry) -> str:
        """Return a station's name, or complain at an entry that there is none of that name."""
        if name not in self.stations:
            entry.fail(f"there is no station {name!r}: {near(name, sorted(self.stations))}")
        return name

    def by_station(self, entry: Entry) -> Iterator[tuple[str, Entry]]:
        """Return the entries of a mapping from stations."""
        for name, own in entry.mapping().items():
            yield self.named(name, own), own


# --- Knobs --------------------------------------------------------------------------------------------------


def limits_of(entry: Entry, known: Known) -> dict[str, KnobLimit]:
    """Return the limits of knobs, by name."""
    named = entry.mapping(known.space.knobs)
    return {name: _limit(own, known.space.knob(name)[1]) for name, own in named.items()}


def _limit(entry: Entry, knob: Knob) -> KnobLimit:
    given = entry.mapping(["min", "max", "step", "values"])
    if not given:
        entry.fail(f"{entry.path} limits nothing: give min, max, step or values, or remove it")
    low, high, step = (got(given, name, Entry.number, None) for name in ("min", "max", "step"))
    values = got(given, "values", lambda listed: frozenset(_value(item, knob) for item in listed.items()), None)
    if values is not None and not values:
        given["values"].fail(f"{entry.path}.values is empty: list at least one value")
    limit = entry.make(lambda: KnobLimit(low, high, step, values))
    entry.make(lambda: check_limit(limit, knob))
    return limit


def _value(entry: Entry, knob: Knob) -> Scalar:
    """A value of a knob, read as the kind of values that the knob has."""
    match knob.values[0]:
        case bool():
            given: Scalar = entry.switch()
        case str():
            given = entry.text()
        case _:
            given = entry.number()
    return entry.make(lambda: knob.find(given))


# --- Windows ------------------------------------------------------------------------------------------------


def windows_of(entry: Entry, known: Known) -> tuple[Window, ...]:
    """Return the windows of a list."""
    return tuple(_window(item, known) for item in entry.items())


def _window(entry: Entry, known: Known) -> Window:
    given = entry.mapping(["days", "from", "to", "first", "last", "zone", "stations", "why"])
    if not set(given) - {"zone", "stations", "why"}:
        entry.fail(f"{entry.path} is not a window: give days, from and to, or first and last")
    values = {
        "days": got(given, "days", _days, frozenset(range(7))),
        "start": got(given, "from", Entry.minute, 0),
        "end": got(given, "to", Entry.minute, DAY_END),
        "first": got(given, "first", Entry.day, None),
        "last": got(given, "last", Entry.day, None),
        "zone": got(given, "zone", zone_of, known.zone),
        "stations": got(given, "stations", lambda listed: frozenset(map(known.station, listed.items())), None),
        "why": got(given, "why", Entry.text, ""),
    }
    return entry.make(lambda: Window(**values))  # type: ignore[arg-type]


def zone_of(entry: Entry) -> tzinfo:
    """Return a time zone."""
    name = entry.text("a time zone such as Europe/Berlin")
    return entry.make(lambda: zone_named(name))


def _days(entry: Entry) -> frozenset[int]:
    """Days of the week: mon, mon-fri or [sat, sun]."""
    words = entry.items() if entry.kind == "seq" else [entry]
    return frozenset(day for word in words for day in _day_range(word))


def _day_range(entry: Entry) -> Iterable[int]:
    names = [name.strip() for name in entry.text("days such as mon-fri or [sat, sun]").lower().split("-")]
    if len(names) > 2 or any(name not in DAYS for name in names):
        entry.fail(f"{entry.path} must be days such as mon-fri or [sat, sun], got {entry.text()!r:.40}")
    first, last = DAYS.index(names[0]), DAYS.index(names[-1])
    return ((first + n) % 7 for n in range((last - first) % 7 + 1))  # sat-mon goes over the end of the week


# --- Freeze list and fallback -------------------------------------------------------------------------------


def freeze_of(entry: Entry, known: Known) -> tuple[Freeze, ...]:
    """Return the freeze list: names, or mappings with a last day and a reason."""
    return tuple(_freeze(item, known) for item in entry.items())


def _freeze(entry: Entry, known: Known) -> Freeze:
    if entry.kind == "scalar":
        return Freeze(known.station(entry))
    given = entry.mapping(["station", "until", "why"])
    if "station" not in given:
        entry.fail(f"{entry.path} names no station: give station")
    until, why = got(given, "until", Entry.day, None), got(given, "why", Entry.text, "")
    return Freeze(known.station(given["station"]), until, why)


def fallback_of(entry: Entry, *, windows: bool, neighbours: bool) -> Fallback:
    """Return when changes are taken back.

    Args:
        entry: The section.
        windows: Whether there are maintenance windows: then it must say whether they hold for roll-backs.
        neighbours: Whether any neighbours are known.
    """
    given = entry.mapping(
        ["by", "rate", "drop", "slots", "before", "watch", "within", "retry_after", "outside_windows"]
    )
    controls = got(given, "by", _by_controls, False)
    if not controls and "rate" in given:
        given["rate"].fail("fallback.rate holds where changes are judged by controls: add by: controls, or remove it")
    for name in ("drop", "slots"):
        if name not in given and (not controls or {"drop", "slots"} & set(given)):
            entry.fail(
                f"fallback needs {name}: by how much rewards must fall (drop), for how many slots (slots); or by: "
                "controls alone"
            )
    if windows and "outside_windows" not in given:
        entry.fail("fallback needs outside_windows, on or off: may a roll-back be made outside maintenance windows?")
    drop, share = got(given, "drop", _drop, (None, False))
    watched = got(given, "watch", lambda listed: _watched(listed, neighbours=neighbours), ("own", "neighbours"))
    return Fallback(
        drop,
        got(given, "slots", lambda own: own.count(least=1), Fallback.slots),
        share=share,
        before=got(given, "before", lambda own: own.count(least=1), Fallback.before),
        rate=got(given, "rate", _rate, RATE) if controls else None,
        own="own" in watched,
        neighbours="neighbours" in watched,
        within=got(given, "within", Entry.duration, None),
        retry_after=got(given, "retry_after", Entry.duration, timedelta(days=1)),
        outside_windows=got(given, "outside_windows", Entry.switch, False),
    )


def check_fallback(entry: Entry, fallback: Fallback, reward_range: tuple[float, float] | None) -> None:
    """Refuse a fallback that can never come about: a share of all that was earned, or a fall that rewards cannot have.

    Args:
        entry: The section.
        fallback: What it says.
        reward_range: What rewards lie in, where that is known.
    """
    if fallback.drop is None:
        return
    place, given = entry.mapping()["drop"], entry.mapping()["drop"].text()
    if fallback.share and fallback.drop >= 1:
        place.fail(f"{place.path} is {given}, and no reward falls by more than all of it: give a share below 100%")
    if reward_range is not None and not fallback.possible(*reward_range):
        low, high = reward_range
        place.fail(
            f"{place.path} is {given}, and rewards from {low:g} to {high:g} cannot fall by more than that: give less"
        )


def _by_controls(entry: Entry) -> bool:
    """Whether changes are judged by controls."""
    if (text := entry.text("controls or own")) not in ("controls", "own"):
        entry.fail(
            f"{entry.path} must be controls, for stations that did not change, or own, for the station's own slots, "
            f"got {text!r:.40}"
        )
    return text == "controls"


def _rate(entry: Entry) -> float:
    """How often a change that does nothing may be taken back."""
    rate, share = _drop(entry)
    if not 0 < rate < 0.5:
        given = f"{100 * rate:g}%" if share else f"{rate:g}"
        entry.fail(f"{entry.path} must be a share above 0% and below 50%, such as 5%, got {given}")
    return rate


def _drop(entry: Entry) -> tuple[float, bool]:
    """How far rewards may fall, and whether that is a share."""
    text = entry.text("a number, or a share such as 5%")
    try:
        drop = float(text.removesuffix("%"))
    except ValueError:
        drop = -1.0
    if not 0 <= drop <= 1e100:
        entry.fail(f"{entry.path} must be a number from 0, or a share such as 5%, got {text!r:.40}")
    return (drop / 100, True) if text.endswith("%") else (drop, False)


def _watched(entry: Entry, *, neighbours: bool) -> tuple[str, ...]:
    """Whose rewards are watched."""
    for item in entry.items():
        if item.text() not in ("own", "neighbours"):
            item.fail(f"{item.path} must be own or neighbours, got {item.text()!r:.40}")
    named = tuple(item.text() for item in entry.items())
    if not named:
        entry.fail(f"{entry.path} is empty: list own, neighbours or both")
    if "neighbours" in named and not neighbours:
        entry.fail(f"{entry.path} lists neighbours, but none are named: add neighbours")
    return named


# --- Reads rails from a YAML file; every complaint is one sentence with the line ------------------------------------
#
# A path and a text are read by two functions, so that a mistyped path can never be taken for the text of a file.
# `docs/guardrails.md` shows every key, `example_text` a file that uses them all.

_TOP = (
    "zone", "stop", "knobs", "stations", "changes", "neighbours", "maintenance", "forbidden", "freeze", "fallback",
    "two_people",
)  # fmt: skip


def read_rails(
    path: str | Path,
    space: ConfigurationSpace,
    *,
    stations: Iterable[str],
    neighbours: Mapping[str, Iterable[str]] | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Rails:
    """Return the rails that a YAML file declares.

    Args:
        path: The file.
        space: What stations can run.
        stations: Every station that the file may name.
        neighbours: Who is a neighbour of whom, beside what the file says.
        reward_range: What rewards lie in, where that is known: a fall that they cannot have is refused.

    Example:
        >>> read_rails("no-such.yaml", ConfigurationSpace(tilt=[2, 4]), stations=["a"])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: no-such.yaml cannot be read: No such file or directory
    """
    return rails_from_text(
        text_of(path), space, stations=stations, neighbours=neighbours, reward_range=reward_range, source=str(path)
    )


def text_of(path: str | Path) -> str:
    """Return the text of a rails file, or say why it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadInputError(f"{path}, line {line}: this is not UTF-8: save the file in that encoding") from error


def rails_from_text(
    text: str,
    space: ConfigurationSpace,
    *,
    stations: Iterable[str],
    neighbours: Mapping[str, Iterable[str]] | None = None,
    reward_range: tuple[float, float] | None = None,
    source: str = "rails",
    on_record: bool = False,
) -> Rails:
    r"""Return the rails that a YAML text declares.

    Args:
        text: The text.
        space: What stations can run.
        stations: Every station that it may name.
        neighbours: Who is a neighbour of whom, beside what it says.
        reward_range: What rewards lie in, where that is known: a fall that they cannot have is refused.
        source: What complaints call it.
        on_record: Whether these rails hold already; then a fallback that can never come about is let pass, since to
            refuse it would take all the others away.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4, 6])
        >>> rails_from_text("knobs: {tilt: {max: 4}}", space, stations=["a"]).knobs["tilt"].high
        4.0
        >>> rails_from_text("zone: UTC\nknobs: {tilt: {max: 4, stepp: 2}}", space, stations=["a"])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: rails, line 2: there is no key 'stepp' in knobs.tilt: did you mean 'step'?
    """
    root = entry_of(text, source=source)
    top = root.mapping(_TOP)
    known = Known(space, frozenset(stations), got(top, "zone", zone_of, UTC))
    around = {station: frozenset(others) for station, others in (neighbours or {}).items()}
    rails = _rails(top, known, got(top, "neighbours", lambda entry: around | _neighbours(entry, known, around), around))
    if rails.fallback is not None and not on_record:
        check_fallback(top["fallback"], rails.fallback, reward_range)
    for name, own in known.by_station(top["stations"]) if "stations" in top else ():
        own.make(lambda name=name: check_rails(rails, space, station=name))  # type: ignore[misc]
    if "knobs" in top:
        top["knobs"].make(lambda: check_rails(rails, space))
    return rails


def example_text() -> str:
    """Return a rails file that uses every key, with comments: a start for one's own.

    Example:
        >>> example_text().splitlines()[0]
        '# Guard rails: hard limits on what kinband may change. What is not written does not limit.'
    """
    return files("kinband.guardrails").joinpath("example.yaml").read_text(encoding="utf-8")


def _rails(top: Mapping[str, Entry], known: Known, neighbours: Mapping[str, frozenset[str]]) -> Rails:
    maintenance = got(top, "maintenance", lambda entry: windows_of(entry, known), None)
    if maintenance == ():
        top["maintenance"].fail("maintenance lists no window, so nothing could ever change: use stop, or remove it")
    return Rails(
        zone=known.zone,
        stop=got(top, "stop", Entry.switch, False),
        knobs=got(top, "knobs", lambda entry: limits_of(entry, known), {}),
        stations=got(
            top, "stations", lambda entry: {name: limits_of(own, known) for name, own in known.by_station(entry)}, {}
        ),
        neighbours=neighbours,
        maintenance=maintenance,
        forbidden=got(top, "forbidden", lambda entry: windows_of(entry, known), ()),
        freeze=got(top, "freeze", lambda entry: freeze_of(entry, known), ()),
        fallback=got(
            top,
            "fallback",
            lambda entry: fallback_of(entry, windows=maintenance is not None, neighbours=bool(neighbours)),
            None,
        ),
        two_people=got(top, "two_people", _acts, frozenset()),
        **got(top, "changes", lambda entry: _changes(entry, neighbours=bool(neighbours)), {}),
    )


def _acts(entry: Entry) -> frozenset[str]:
    """What takes two people."""
    for item in entry.items():
        if item.text() not in TWO_PEOPLE:
            item.fail(f"{item.path} must be one of {', '.join(TWO_PEOPLE)}, got {item.text()!r:.40}")
    return frozenset(item.text() for item in entry.items())


def _changes(entry: Entry, *, neighbours: bool) -> dict[str, Any]:
    """How often things may change, as arguments of `Rails`."""
    given = entry.mapping(["min_time", "per_day", "per_round", "round", "neighbours_together"])
    together = got(given, "neighbours_together", Entry.switch, True)
    if ("per_round" in given or not together) and "round" not in given:
        entry.fail("changes needs round, such as 1h: changes less than that apart count as made together")
    if not together and not neighbours:
        given["neighbours_together"].fail("neighbours are not to change together, but none are named: add neighbours")
    return {
        "min_time": got(given, "min_time", Entry.duration, timedelta(0)),
        "per_day": got(given, "per_day", lambda own: own.count(least=0), None),
        "per_round": got(given, "per_round", lambda own: own.count(least=0), None),
        "round": got(given, "round", Entry.duration, timedelta(0)),
        "neighbours_together": together,
    }


def _neighbours(entry: Entry, known: Known, others: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Who is a neighbour of whom, by the file and by what is known besides."""
    found = {}
    for name, own in known.by_station(entry):
        listed = frozenset(map(known.station, own.items()))
        if name in listed:
            own.fail(f"station {name!r} is listed as its own neighbour: remove it")
        found[name] = listed | others.get(name, frozenset())
    return found
