"""Reads measurement files: TS 32.435 `measCollecFile` in both of its forms, and TS 28.532 `measDataFile`.

A file has blocks (`measInfo`), each of one period and one list of counters, and in each block the values of objects. In
one form the values are a list in the order of the counters, in the other each has the number of its counter. Files are
streamed and give one object at a time, so that memory does not grow with the file.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any

from kinband.counters.files import (
    DAMAGED,
    Packed,
    elements,
    forget,
    has_zone,
    length,
    local,
    moment,
    name_of,
    opened,
    root_of,
)
from kinband.errors import BadInputError

ROOTS = ("measCollecFile", "measDataFile")
_TAGS = ("fileHeader", "managedElement", "measEntity", "measValue", "measInfo", "measData")


class ForeignFileError(BadInputError):
    """A file is no measurement file."""


class UnreadableFileError(BadInputError):
    """A measurement file is cut off, damaged, or not as the standard says."""


@dataclass(frozen=True, slots=True)
class Block:
    """What the values of a `measInfo` have in common.

    Attributes:
        counters: The names of the counters.
        begin: When the period begins.
        end: When it ends.
        zoned: Whether the file names the zone of its times.
        numbered: Number of a value to its counter; None where values are a list.
        picked: What is wanted of it: the places of values in the list, or their numbers, to counters.
    """

    counters: tuple[str, ...]
    begin: int
    end: int
    zoned: bool
    numbered: Mapping[str, str] | None
    picked: Mapping[Any, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """The counters of one object in one period.

    Attributes:
        dn: The full name of the object.
        block: Period and counters.
        values: Counter to value as it was written; None where nothing is known.
        suspect: Whether the element itself says that the values are not to be trusted; then there are none.
    """

    dn: str
    block: Block
    values: Mapping[str, str | None]
    suspect: bool


def measurements(
    path: Path | Packed, zone: tzinfo | None = None, *, wanted: Set[str] | None = None
) -> Iterator[Measured]:
    """Yield what a measurement file holds; it may turn out to be damaged at its end.

    Args:
        path: The file, gzipped or not, or one inside a zip archive.
        zone: The zone of times that name none.
        wanted: The counters whose values are wanted; all if not given.
    """
    try:
        with opened(path) as stream:
            root, rest = root_of(stream)
            if not root and not rest.head:
                raise UnreadableFileError("it is empty")
            if root not in ROOTS:
                raise ForeignFileError(f"{path} is no measurement file: its root is {root or 'no XML element'}")
            yield from _measured(elements(rest, _TAGS), zone, wanted)
    except DAMAGED as error:
        raise UnreadableFileError(f"it is cut off or damaged: {error}") from error
    except BadInputError as error:
        if isinstance(error, ForeignFileError | UnreadableFileError) or error.code == "no_lxml":
            raise
        raise UnreadableFileError(str(error)) from error


def _measured(found: Iterator[Any], zone: tzinfo | None, wanted: Set[str] | None) -> Iterator[Measured]:
    prefix, parent, info, block = "", "", None, None
    for element in found:
        match local(element):
            case "measValue":
                if info is not element.getparent() or block is None:
                    info = element.getparent()
                    block = _block(info, zone, wanted)
                yield _value(element, block, name_of(prefix, parent, element.get("measObjLdn") or ""))
                forget(element)
            case "fileHeader":
                prefix = element.get("dnPrefix") or ""
            case "measInfo":
                info = block = None
                forget(element)
            case "measData":  # the header of TS 28.532 has one too, which is empty
                parent = ""
                forget(element)
            case _:
                parent = element.get("localDn") or ""


# --- One block ------------------------------------------------------------------------------------------------------


def _block(info: Any, zone: tzinfo | None, wanted: Set[str] | None) -> Block:
    period, numbered, listed = None, dict[str, str](), list[str]()
    for child in info:
        match local(child):
            case "granPeriod":
                period = child
            case "measTypes":
                listed = (child.text or "").split()
            case "measType":
                numbered[child.get("p") or ""] = (child.text or "").strip()
    if period is None or not (numbered or listed) or "" in numbered or "" in numbered.values():
        raise BadInputError("a measInfo needs granPeriod and its counters before its values")
    ended = period.get("endTime") or ""
    end = moment(ended, zone)
    names: Mapping[Any, str] = numbered or dict(enumerate(listed))
    picked = names if wanted is None else {place: name for place, name in names.items() if name in wanted}
    begin = end - length(period.get("duration") or "")
    return Block(tuple(names.values()), begin, end, has_zone(ended), numbered or None, picked)


def _value(element: Any, block: Block, dn: str) -> Measured:
    results = marked = None
    if block.numbered is None:
        for child in element:
            if (name := local(child)) == "measResults":
                results = child
            elif name == "suspect":
                marked = child
    else:
        marked = next(element.iterchildren("{*}suspect", reversed=True), None)
    if marked is not None and (marked.text or "").strip().lower() in ("true", "1"):
        return Measured(dn, block, {}, True)
    values = _listed(results, block, dn) if block.numbered is None else _numbered(element, block, dn)
    return Measured(dn, block, values, False)


def _numbered(element: Any, block: Block, dn: str) -> dict[str, str | None]:
    if len(block.picked) < len(block.counters):  # a few of many: they are mostly where their number says
        some = {name: _at(element, place) for place, name in block.picked.items()}
        return {name: one.text for name, one in some.items() if one is not None}
    try:
        return {block.picked[one.get("p")]: one.text for one in element.iterchildren("{*}r")}
    except KeyError as error:
        raise BadInputError(f"{dn} has a value p={error} without a measType") from error


def _at(element: Any, place: str) -> Any:
    """The value of a number."""
    index = int(place) - 1 if place.isdigit() else -1
    if 0 <= index < len(element) and element[index].get("p") == place:
        return element[index]
    return next((one for one in element.iterchildren("{*}r") if one.get("p") == place), None)


def _listed(results: Any, block: Block, dn: str) -> dict[str, str | None]:
    given = [] if results is None else (results.text or "").split()
    if len(given) != len(block.counters):
        raise BadInputError(
            f"{dn} has {len(given)} values for {len(block.counters)} counters, so that they cannot be told apart"
        )
    if len(block.picked) == len(given):
        return dict(zip(block.counters, given, strict=True))
    return {name: given[place] for place, name in block.picked.items()}
