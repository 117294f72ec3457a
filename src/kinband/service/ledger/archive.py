"""Old events in files: what an SQLite ledger need not hold any more, compressed, and read like the rest.

A *segment* is a zip file with some ten thousand events, a thousand to a member, one JSON line each, and an index. It
holds no checksums but that of the last event of each member: the others follow from the events, so that who reads a
member has checked its part of the chain. Segments never change.

Events leave the database in steps, and a crash between any two of them loses nothing: the segment is written beside its
place, synced, renamed, and read back; then a row says that it is there, which is the moment from which its events count
as archived; then they are deleted, some thousand at a time, which a trigger allows for archived events alone. What was
left over by a crash is deleted the next time.
"""

import hashlib
import json
import zipfile
import zlib
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from kinband.errors import SavedStateError
from kinband.service.ledger.events import Event
from kinband.service.ledger.schema import segments
from kinband.service.ledger.snapshots import array_bytes, read_array

FOLDER = "-archive"
"""How the name of the folder ends that an SQLite ledger has its segments in."""

_BLOCK = 1000  # events of a member
_READ = 8  # members that are kept unpacked
_AT_HAND = 2048  # events that were asked for
_FILTERS = ("kinds", "station", "actor", "decision", "key", "slot", "round")
_COLUMNS = tuple(one.name for one in fields(Event) if one.name not in ("seq", "checksum"))
_BROKEN = (OSError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


@dataclass(frozen=True)
class Segment:
    """What the database says of a segment.

    Attributes:
        first: Number of its first event.
        last: Number of its last.
        before: Checksum of the event before the first.
        checksum: Checksum of the last.
        digest: SHA-256 of the file.
    """

    first: int
    last: int
    before: str
    checksum: str
    digest: str

    @property
    def name(self) -> str:
        """The file."""
        return f"{self.first:012d}-{self.last:012d}.zip"


def segments_of(connection: Connection) -> list[Segment]:
    """Return the segments of a ledger, oldest first."""
    return [Segment(*row) for row in connection.execute(select(segments).order_by(segments.c.first))]


def packed_segment(events: Sequence[Event], before: str) -> Iterator[tuple[str, bytes]]:
    """Give the members of a segment by name."""
    blocks = [events[first : first + _BLOCK] for first in range(0, len(events), _BLOCK)]
    ends = [before, *(block[-1].checksum for block in blocks)]
    for number, block in enumerate(blocks):
        lines = (json.dumps([getattr(event, name) for name in _COLUMNS], ensure_ascii=False) for event in block)
        yield _member(number), "\n".join(lines).encode()
    index, names = _indexed(events)
    said = {"form": 1, "first": events[0].seq, "last": events[-1].seq, "checksums": ends, "names": names}
    yield "head.json", json.dumps(said).encode()
    for name, array in index.items():
        yield f"{name}.npy", array_bytes(array)


def _member(number: int) -> str:
    return f"events-{number:04d}.jsonl"


def _indexed(events: Sequence[Event]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return by what events are found: numbers of names, and digests of what differs from event to event."""
    names = {of: sorted({getattr(event, of) for event in events}) for of in ("station", "actor")}
    codes = {of: {name: code for code, name in enumerate(some)} for of, some in names.items()}
    index: dict[str, Any] = {
        of: np.array([codes[of][getattr(event, of)] for event in events], dtype=np.uint32) for of in names
    }
    names["kinds"] = sorted({event.kind for event in events})
    index["kinds"] = np.array([names["kinds"].index(event.kind) for event in events], dtype=np.uint8)
    index["round"] = np.array([-1 if event.round is None else event.round for event in events], dtype=np.int64)
    for of in ("decision", "key", "slot"):
        index[of] = np.array([_digest(getattr(event, of)) for event in events], dtype=np.uint64)
    return index, names


def _digest(text: str | None) -> int:
    """Return a number that stands for a text, 0 for none; two texts may have the same one."""
    if text is None:
        return 0
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") or 1


def sha256_of(file: Path) -> str:
    """Return the digest of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class Archive:
    """The segments in a folder; threads may share it.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()
        self._heads: dict[str, dict[str, Any]] = {}
        self._index: dict[tuple[str, str], Any] = {}
        self._blocks: OrderedDict[tuple[str, int], list[Event]] = OrderedDict()
        self._events: OrderedDict[int, Event] = OrderedDict()

    def read(
        self,
        some: Sequence[Segment],
        *,
        after: int = 0,
        before: int | None = None,
        newest_first: bool = False,
        **filters: Any,
    ) -> Iterator[Event]:
        """Give archived events in order; `kinds` are several, `decision` may be, the other filters are one value each.

        Args:
            some: The segments, oldest first.
            after: Only events after this number.
            before: Only events before this number.
            newest_first: Whether to begin at the end.
            filters: What else they must be: kinds, station, actor, decision, key, slot, round.
        """
        wanted = {name: value for name, value in filters.items() if value is not None}
        for segment in reversed(some) if newest_first else some:
            if segment.last <= after or (before is not None and segment.first >= before):
                continue
            found = self._matching(segment, wanted)
            found = found[(found > after) & (found < (segment.last + 1 if before is None else before))]
            for seq in found[::-1].tolist() if newest_first else found.tolist():
                event = self._event(segment, seq)
                if _fits(event, wanted):
                    yield event

    def counted(self, some: Sequence[Segment]) -> Counter[str]:
        """Return how many events of each kind segments hold."""
        found: Counter[str] = Counter()
        for segment in some:
            names = self._head(segment)["names"]["kinds"]
            counts = np.bincount(self._array(segment, "kinds"), minlength=len(names))
            found.update({kind: int(count) for kind, count in zip(names, counts, strict=True)})
        return found

    def check(self, segment: Segment) -> None:
        """Refuse a segment whose file is not the one that was put there."""
        try:
            digest = sha256_of(self.folder / segment.name)
        except OSError as error:
            raise self._damaged(segment, "it cannot be read") from error
        if digest != segment.digest:
            raise self._damaged(segment, "its digest differs")

    def _matching(self, segment: Segment, wanted: Mapping[str, Any]) -> Any:
        """Return the numbers of events that may be wanted, ascending."""
        mask = np.ones(segment.last - segment.first + 1, dtype=bool)
        for name, value in wanted.items():
            array = self._array(segment, name)
            if name == "kinds":
                names = self._head(segment)["names"][name]
                mask &= np.isin(array, [names.index(kind) for kind in value if kind in names])
            elif name in ("station", "actor"):
                names = self._head(segment)["names"][name]
                mask &= array == (names.index(value) if value in names else len(names))
            elif name == "round":
                mask &= array == value
            else:
                digests = np.sort(np.array([_digest(one) for one in _several(value)], dtype=array.dtype))
                mask &= digests[np.minimum(np.searchsorted(digests, array), len(digests) - 1)] == array
        return np.flatnonzero(mask) + segment.first

    def _event(self, segment: Segment, seq: int) -> Event:
        """Return an event; the last ones asked for are at hand, since those of one station lie in many members."""
        with self._lock:
            if seq in self._events:
                self._events.move_to_end(seq)
                return self._events[seq]
        number, place = divmod(seq - segment.first, _BLOCK)
        found = self._block(segment, number)[place]
        with self._lock:
            self._events[seq] = found
            while len(self._events) > _AT_HAND:
                self._events.popitem(last=False)
        return found

    def _block(self, segment: Segment, number: int) -> list[Event]:
        """Return the events of a member, which fit into the chain."""
        key = segment.name, number
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
        ends = self._head(segment)["checksums"]
        try:
            lines = self._member(segment, _member(number)).decode().split("\n")
            found, checksum = [], str(ends[number])
            for place, line in enumerate(lines):
                event = Event(segment.first + number * _BLOCK + place, *json.loads(line), "")  # type: ignore[call-arg]
                checksum = event.expected(checksum)
                found.append(replace(event, checksum=checksum))
        except _BROKEN as error:
            raise self._damaged(segment, f"{_member(number)} cannot be read") from error
        if checksum != ends[number + 1]:
            raise self._damaged(segment, f"{_member(number)} was changed")
        with self._lock:
            self._blocks[key] = found
            while len(self._blocks) > _READ:
                self._blocks.popitem(last=False)
        return found

    def _head(self, segment: Segment) -> dict[str, Any]:
        found = self._heads.get(segment.name)
        if found is None:
            try:
                found = dict(json.loads(self._member(segment, "head.json")))
                ends = found["checksums"]
            except _BROKEN as error:
                raise self._damaged(segment, "its head cannot be read") from error
            if (ends[0], ends[-1]) != (segment.before, segment.checksum) or found["first"] != segment.first:
                raise self._damaged(segment, "its head is another")
            self._heads[segment.name] = found
        return found

    def _array(self, segment: Segment, name: str) -> Any:
        found = self._index.get((segment.name, name))
        if found is None:
            try:
                found = read_array(self._member(segment, f"{name}.npy"))
            except _BROKEN as error:
                raise self._damaged(segment, "its index cannot be read") from error
            if len(found) != segment.last - segment.first + 1:
                raise self._damaged(segment, "its index is another")
            self._index[segment.name, name] = found
        return found

    def _member(self, segment: Segment, name: str) -> bytes:
        with zipfile.ZipFile(self.folder / segment.name) as packed:
            return packed.read(name)

    def _damaged(self, segment: Segment, why: str) -> SavedStateError:
        return SavedStateError(
            f"the archived events {segment.first} to {segment.last} in {self.folder / segment.name} are damaged "
            f"({why}): restore that file from a backup"
        )


def _fits(event: Event, wanted: Mapping[str, Any]) -> bool:
    """Whether an event is what is wanted, and not only alike."""
    pairs = ((name, value) for name, value in wanted.items() if name in ("decision", "key", "slot"))
    return all(getattr(event, name) in _several(value) for name, value in pairs)


def _several(value: Any) -> Collection[Any]:
    return (value,) if isinstance(value, str) else value
