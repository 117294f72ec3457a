"""The sections of a rails file: limits of knobs, windows, the freeze list, the fallback."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import TypeVar

from kinband.guard.nodes import Entry, near
from kinband.guard.rails import DAY_END, DAYS, Fallback, Freeze, KnobLimit, Window, check_limit, zone_named
from kinband.space import ConfigurationSpace, Knob, Scalar

T = TypeVar("T")
D = TypeVar("D")


def got(given: Mapping[str, Entry], name: str, read: Callable[[Entry], T], default: D) -> T | D:
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
        entry.fail(f"{entry.path} is no window: give days, from and to, or first and last")
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
    given = entry.mapping(["drop", "slots", "before", "watch", "within", "retry_after", "outside_windows"])
    for name in ("drop", "slots"):
        if name not in given:
            entry.fail(f"fallback needs {name}: by how much rewards must fall (drop), for how many slots (slots)")
    if windows and "outside_windows" not in given:
        entry.fail("fallback needs outside_windows, on or off: may a roll-back be made outside maintenance windows?")
    drop, share = _drop(given["drop"])
    watched = got(given, "watch", lambda listed: _watched(listed, neighbours=neighbours), ("own", "neighbours"))
    return Fallback(
        drop,
        given["slots"].count(least=1),
        share=share,
        before=got(given, "before", lambda own: own.count(least=1), Fallback.before),
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
    place, given = entry.mapping()["drop"], entry.mapping()["drop"].text()
    if fallback.share and fallback.drop >= 1:
        place.fail(f"{place.path} is {given}, and no reward falls by more than all of it: give a share below 100%")
    if reward_range is not None and not fallback.possible(*reward_range):
        low, high = reward_range
        place.fail(
            f"{place.path} is {given}, and rewards from {low:g} to {high:g} cannot fall by more than that: give less"
        )


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
