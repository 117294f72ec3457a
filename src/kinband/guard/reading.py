"""Reads rails from a YAML file; every complaint is one sentence with the line.

A path and a text are read by two functions, so that a mistyped path can never be taken for the text of a file.
`docs/guard.md` shows every key, `example_text` a file that uses them all.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from kinband.errors import BadInputError
from kinband.guard.nodes import Entry, entry_of
from kinband.guard.rails import Rails, check_rails
from kinband.guard.sections import Known, check_fallback, fallback_of, freeze_of, got, limits_of, windows_of, zone_of
from kinband.space import ConfigurationSpace

_TOP = ("zone", "stop", "knobs", "stations", "changes", "neighbours", "maintenance", "forbidden", "freeze", "fallback")


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
    """Return the text of a rails file, or say why it cannot be read.

    Example:
        >>> text_of("no-such.yaml")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: no-such.yaml cannot be read: No such file or directory
    """
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
    return files("kinband.guard").joinpath("example.yaml").read_text(encoding="utf-8")


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
        **got(top, "changes", lambda entry: _changes(entry, neighbours=bool(neighbours)), {}),
    )


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
