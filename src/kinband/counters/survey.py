"""What a heap of measurement files holds: objects, counters, periods, gaps, and what is wrong with it.

All files are read once. A file that is damaged anywhere gives nothing at all and is named; the others are used. Two
files that differ in a value of one object and period are both named, and that value is left out: often two elements
have the same name there, and nobody can say which value is whose.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from typing import Any

from kinband.counters.files import SECOND, Packed, class_of, files_of
from kinband.counters.formulas import Leaf
from kinband.counters.mapping import CounterMap
from kinband.counters.pm import Block, ForeignFileError, Measured, UnreadableFileError, measurements
from kinband.errors import BadInputError
from kinband.progress import stage

Period = tuple[int, int]
Differing = Counter[tuple[str, str]]


def shown(time: int) -> str:
    """Return a time for people and programs: ISO, in UTC."""
    return datetime.fromtimestamp(time / SECOND, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# --- The values of stations -----------------------------------------------------------------------------------------


class Values:
    """What formulas need, by station and period: a column for each leaf, nan where nothing is known.

    Attributes:
        rows: Station, begin and end to the number of the row.
        columns: The values of each leaf, by row.
        differing: How many values two files disagree on, by the names of the files.
    """

    def __init__(self, leaves: Iterable[Leaf]) -> None:
        self.rows: dict[tuple[str, int, int], int] = {}
        self.columns: dict[Leaf, array[float]] = {leaf: array("d") for leaf in leaves}
        self.differing: Differing = Counter()
        self._refused: set[tuple[int, Leaf]] = set()
        self._source: list[str] = []

    def add(self, key: tuple[str, int, int], values: Iterable[tuple[Leaf, float]], source: str) -> None:
        """Put down values of a station in a period; what contradicts an earlier value takes it away."""
        row = self.rows.setdefault(key, len(self.rows))
        if row == len(self._source):
            self._source.append(source)
            for column in self.columns.values():
                column.append(nan)
        for leaf, value in values:
            column = self.columns[leaf]
            old = column[row]
            if isnan(value) or old == value or (row, leaf) in self._refused:
                continue
            column[row] = value if isnan(old) else nan
            if not isnan(old):
                self._refused.add((row, leaf))
                self.differing[self._source[row], source] += 1


# --- The survey -----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Survey:
    """What was found in measurement files.

    Attributes:
        files: How many were read.
        foreign: Files that are something else.
        unreadable: Files that could not be read, with the reason.
        periods: The periods of each object, by its name.
        counters: The counters of each class of objects.
        suspect: How many values of objects were marked as suspect, by object.
        differing: How many values two files disagree on, by the names of the files.
        repeated: How many objects and periods were in two files alike.
        zoneless: How many objects and periods have times without a zone.
        values: What a mapping asks for; None without one.
    """

    files: int = 0
    foreign: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    periods: dict[str, set[Period]] = field(default_factory=dict)
    counters: dict[str, set[str]] = field(default_factory=dict)
    suspect: Counter[str] = field(default_factory=Counter)
    differing: Differing = field(default_factory=Counter)
    repeated: int = 0
    zoneless: int = 0
    values: Values | None = None

    @property
    def classes(self) -> dict[str, int]:
        """How many objects there are of each class, the most first."""
        return dict(Counter(map(class_of, self.periods)).most_common())

    @property
    def lengths(self) -> list[int]:
        """The lengths of periods, in seconds."""
        return sorted({(end - begin) // SECOND for own in self.periods.values() for begin, end in own})

    def gaps(self) -> dict[str, list[tuple[str, str, int]]]:
        """Return where periods are missing between others: object to from, until, and how many are missing."""
        found: dict[str, list[tuple[str, str, int]]] = {}
        for dn, own in self.periods.items():
            ordered = sorted(own)
            for (begin, end), (after, _) in pairwise(ordered):
                if after > end:
                    found.setdefault(dn, []).append((shown(end), shown(after), -((end - after) // (end - begin))))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for programs."""
        gaps = self.gaps()
        span = [period for own in self.periods.values() for period in own]
        return {
            "files": self.files,
            "foreign": self.foreign,
            "unreadable": self.unreadable,
            "objects": self.classes,
            "counters": {kind: sorted(names) for kind, names in self.counters.items()},
            "periods": len(set(span)),
            "period_seconds": self.lengths,
            "first": shown(min(begin for begin, _ in span)) if span else None,
            "last": shown(max(end for _, end in span)) if span else None,
            "gaps": {dn: [list(gap) for gap in listed] for dn, listed in gaps.items()},
            "suspect": dict(self.suspect),
            "differing": [{"files": list(pair), "values": count} for pair, count in self.differing.items()],
            "repeated": self.repeated,
            "without_zone": self.zoneless,
        }


def _silent(_what: str) -> None:
    """Take a step without a word."""


def survey(paths: Any, mapping: CounterMap | None = None, *, zone: tzinfo | None = None, watch: bool = False) -> Survey:
    """Return what measurement files hold.

    Args:
        paths: A file, a directory, a pattern such as `pm/*.xml.gz`, or several of them.
        mapping: Which values to keep.
        zone: The zone of times that name none.
        watch: Whether to say on standard error how far it is.

    Example:
        >>> survey("no-such-folder")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: there is no file no-such-folder: check the path
    """
    made = Survey(values=None if mapping is None else Values(mapping.leaves))
    reading = _Reading(made, mapping)
    files = files_of(paths)
    with stage("reading files", len(files)) if watch else nullcontext(_silent) as step:
        for path in files:
            try:
                reading.take(path, zone)
            except ForeignFileError:
                made.foreign.append(str(path))
            except UnreadableFileError as error:
                made.unreadable[str(path)] = error.problem
            step("reading files")
    if not made.periods:
        raise BadInputError(f"nothing was measured in {len(files):,} file(s), {_why(made)}", code="no_measurements")
    if made.values is not None:
        made.differing = made.values.differing
    return made


def _why(made: Survey) -> str:
    if made.unreadable:
        path, reason = next(iter(made.unreadable.items()))
        return f"such as {path}: {reason}"
    return f"such as {made.foreign[0]}, which is no measurement file" if made.foreign else "which hold no values"


class _Reading:
    """Reads files into a survey: all of a file, or nothing where it turns out to be damaged."""

    def __init__(self, made: Survey, mapping: CounterMap | None) -> None:
        self.made, self.mapping = made, mapping
        self.taken: dict[str, list[tuple[Leaf, str]]] = {}
        kinds = () if mapping is None else mapping.stations.objects or ("",)
        named = {counter for kind in kinds for _, counter in (mapping.taken_from(kind) if mapping else ())}
        self.wanted = None if mapping is None else named
        self.seen: dict[tuple[str, Period, int], tuple[int, str]] = {}  # a digest of values, and whose they are
        self.lists: dict[tuple[str, ...], int] = {}
        self.known: set[tuple[str, int]] = set()
        self.station = lru_cache(maxsize=1 << 17)(lambda dn: None if mapping is None else mapping.stations.of(dn))

    def take(self, path: Path | Packed, zone: tzinfo | None) -> None:
        found = measurements(path, zone, wanted=self.wanted)
        staged = [(one.dn, one.block, one.suspect, self._kept(one)) for one in found]
        last, number = None, -1
        for dn, block, suspect, kept in staged:
            if block is not last:
                last, number = block, self.lists.setdefault(block.counters, len(self.lists))
            self._add(dn, block, number, suspect=suspect)
            if isinstance(kept, list):
                self._values(dn, block, kept, str(path))
            elif isinstance(kept, int):
                self._compare((dn, (block.begin, block.end), number), kept, str(path))
        self.made.files += 1

    def _kept(self, one: Measured) -> list[tuple[Leaf, float]] | int | None:
        """What is kept of an object until the file is known to be whole."""
        if one.suspect:
            return None
        if self.mapping is None:
            return hash(tuple(one.values.values()))
        if not one.values or self.station(one.dn) is None:
            return None
        kind = class_of(one.dn)
        if kind not in self.taken:
            self.taken[kind] = self.mapping.taken_from(kind)
        return [(leaf, leaf.read(one.values[name])) for leaf, name in self.taken[kind] if name in one.values]

    def _add(self, dn: str, block: Block, listed: int, *, suspect: bool) -> None:
        made = self.made
        made.periods.setdefault(dn, set()).add((block.begin, block.end))
        kind = class_of(dn)
        if (kind, listed) not in self.known:
            self.known.add((kind, listed))
            made.counters.setdefault(kind, set()).update(block.counters)
        made.zoneless += not block.zoned
        if suspect:
            made.suspect[dn] += 1

    def _values(self, dn: str, block: Block, kept: list[tuple[Leaf, float]], source: str) -> None:
        station = self.station(dn)
        if station is not None and self.made.values is not None:
            self.made.values.add((station, block.begin, block.end), kept, source)

    def _compare(self, key: tuple[str, Period, int], digest: int, source: str) -> None:
        old = self.seen.setdefault(key, (digest, source))
        if old[1] != source:
            self.made.repeated += old[0] == digest
            if old[0] != digest:
                self.made.differing[old[1], source] += 1
