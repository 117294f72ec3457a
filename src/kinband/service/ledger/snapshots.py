"""Snapshots: what was in memory after some event, so that a restart reads one and what came after it.

A snapshot is a cache. It is bound to the chain by the checksum of the event it was taken after; one that is damaged, or
was written by another version of kinband, is passed over. Two are kept, so that there is one while the next is written.

Beside an SQLite ledger they are files in a folder, whole or not there at all, since the database would never give their
room back; in PostgreSQL they are rows, which every machine that shares it can read. Packed are arrays, and JSON among
them, as a zip file without pickle.
"""

import hashlib
import hmac
import io
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, delete, select

from kinband.controller.memory import Stored
from kinband.errors import BadInputError, SavedStateError
from kinband.service.ledger.engines import LedgerUnavailableError
from kinband.service.ledger.events import Head
from kinband.service.ledger.schema import parts, snapshots
from kinband.version import __version__

if TYPE_CHECKING:
    from kinband.service.ledger.store import Ledger

_log = logging.getLogger(__name__)

FOLDER = "-snapshots"
"""How the name of the folder ends that an SQLite ledger has its snapshots in."""

_FORM = 1  # of what is packed
_KEPT = 2
_PART = 8_000_000  # bytes of a row
_ENDS = ".snapshot"
_SEALED = b"kinband seal "  # what a seal and the end of its line follow; else a zip file begins at once
_SAID = "said"  # the array that holds JSON
_BROKEN = (KeyError, OSError, ValueError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What was in memory after an event.

    Attributes:
        seq: The event's number.
        checksum: The event's checksum.
        memory: What the controller's memory stored.
        shown: What the read model stored; None where there was none.
        size: How many bytes it takes.
    """

    seq: int
    checksum: str
    memory: Stored
    shown: "Shown | None"
    size: int


@dataclass(frozen=True, eq=False)
class Shown:
    """What a read model stores: JSON-able values, and arrays by name."""

    values: dict[str, Any]
    arrays: dict[str, Any]


@dataclass(frozen=True)
class _Head:
    """What is said of a snapshot beside its data."""

    seq: int
    kinband: str
    chained: str
    checksum: str


def write_snapshot(ledger: "Ledger", seq: int, memory: Stored, shown: Shown | None = None) -> int:
    """Store what was in memory after an event, let older ones go, and return how many bytes it takes."""
    return _write(ledger, Head(seq, ledger.checksum_of(seq)), _packed(memory, shown))


def seal_snapshots(ledger: "Ledger") -> None:
    """Put seals before snapshots that have none, with the key of the ledger."""
    for head in _heads(ledger)[::-1]:
        data = _data(ledger, head) if head.kinband == __version__ else None
        if data is not None and not data.startswith(_SEALED):
            _write(ledger, Head(head.seq, head.chained), data)


def _write(ledger: "Ledger", after: Head, data: bytes) -> int:
    """Store what was packed after an event, with a seal before it if there is a key, and return how many bytes."""
    if ledger.key is not None:
        data = _SEALED + ledger.key.over_snapshot(after, data).encode() + b"\n" + data
    head = _Head(after.seq, __version__, after.checksum, hashlib.sha256(data).hexdigest())
    folder = ledger.beside(FOLDER)
    if folder is None:
        _write_rows(ledger, head, data)
    else:
        _write_file(ledger, folder, head, data)
    return len(data)


def _opened(ledger: "Ledger", head: _Head, data: bytes) -> bytes:
    """Return what follows the seal, if there is one; where the ledger has a key, refuse what it did not seal."""
    seal, packed = b"", data
    if data.startswith(_SEALED):
        line, _, packed = data.partition(b"\n")
        seal = line.removeprefix(_SEALED)
    if ledger.key is not None:
        wanted = ledger.key.over_snapshot(Head(head.seq, head.chained), packed).encode()
        if not hmac.compare_digest(seal, wanted):
            raise BadInputError("its seal is wrong" if seal else "it has no seal")
    return packed


def newest_snapshot(ledger: "Ledger", *, before: int | None = None) -> Snapshot | None:
    """Return the newest sound snapshot, or the newest taken before the event of a number."""
    return next(_sound(ledger, before), None)


def stored_snapshots(ledger: "Ledger") -> list[int]:
    """Return the numbers of the events that snapshots were taken after, oldest first."""
    return [head.seq for head in _heads(ledger)][::-1]


def damaged_snapshots(ledger: "Ledger") -> list[str]:
    """Return what is wrong with snapshots, each in a few words; those of other versions are never opened."""
    faults = ((head.seq, _fault(ledger, head)) for head in _heads(ledger))
    return [f"the snapshot after event {seq} is damaged{fault}" for seq, fault in faults if fault is not None]


def _fault(ledger: "Ledger", head: _Head) -> str | None:
    data = _data(ledger, head)
    if data is None:
        return ""
    try:
        if head.kinband == __version__:
            _opened(ledger, head, data)
    except BadInputError as error:
        return f" ({error})"
    return None


def _sound(ledger: "Ledger", before: int | None) -> Iterator[Snapshot]:
    for head in _heads(ledger):
        if before is not None and head.seq >= before:
            continue
        if head.kinband != __version__:
            _log.info("the snapshot after event %d is of kinband %s: passed over", head.seq, head.kinband)
            continue
        data = _data(ledger, head)
        if data is None:
            _log.warning("the snapshot after event %d is damaged: passed over", head.seq)
            continue
        try:
            memory, shown = _unpacked(_opened(ledger, head, data))
        except (BadInputError, *_BROKEN) as error:
            _log.warning("the snapshot after event %d cannot be used, it is passed over: %s", head.seq, error)
            continue
        yield Snapshot(head.seq, head.chained, memory, shown, len(data))


def _heads(ledger: "Ledger") -> list[_Head]:
    """Return what is said of each snapshot, newest first."""
    folder = ledger.beside(FOLDER)
    if folder is not None:
        return [_head_of(file) for file in sorted(folder.glob(f"*{_ENDS}"), reverse=True)]
    with ledger.reading() as connection:
        rows = connection.execute(select(snapshots).order_by(snapshots.c.seq.desc())).all()
    return [_Head(int(row.seq), row.kinband, row.chained, row.checksum) for row in rows]


def _head_of(file: Path) -> _Head:
    try:
        with file.open("rb") as opened:
            return _Head(**json.loads(opened.readline(1000)))
    except _BROKEN:
        return _Head(int(file.stem) if file.stem.isdecimal() else 0, __version__, "", "")


def _data(ledger: "Ledger", head: _Head) -> bytes | None:
    """Return what was stored; None where it is damaged, or was not taken after an event of this chain."""
    folder = ledger.beside(FOLDER)
    if folder is None:
        wanted = select(parts.c.data).where(parts.c.seq == head.seq).order_by(parts.c.part)
        with ledger.reading() as connection:
            data = b"".join(connection.execute(wanted).scalars())
    else:
        try:
            data = (folder / _name(head.seq)).read_bytes().partition(b"\n")[2]
        except OSError:
            return None
    return data if hashlib.sha256(data).hexdigest() == head.checksum and _fits(ledger, head) else None


# --- Where they are: files that are whole or not there, or rows ------------------------------------------------------


def _name(seq: int) -> str:
    return f"{seq:012d}{_ENDS}"


def _write_file(ledger: "Ledger", folder: Path, head: _Head, data: bytes) -> None:
    """Write a file, and remove older ones and those that are of no event of this ledger, as after a restored backup."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        whole_file(folder / _name(head.seq), [json.dumps(asdict(head)).encode() + b"\n", data])
        ours = [one.seq for one in _heads(ledger) if _fits(ledger, one)]
        for file in folder.glob(f"*{_ENDS}"):
            if file.name not in map(_name, ours[:_KEPT]):
                file.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or "it cannot be written"
        raise LedgerUnavailableError(f"no snapshot of {ledger.name} can be put into {folder} ({why})") from error


def _fits(ledger: "Ledger", head: _Head) -> bool:
    """Whether a snapshot was taken after an event of this chain."""
    try:
        return ledger.checksum_of(head.seq) == head.chained
    except SavedStateError:
        return False


def whole_file(file: Path, content: list[bytes]) -> None:
    """Write a file that its owner alone may read, under its name only when all of it is on the disk."""
    part = file.with_name(f"{file.name}.part-{os.getpid()}")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.writelines(content)
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
        synced(file.parent)
    finally:
        part.unlink(missing_ok=True)


def synced(path: Path) -> None:
    """Have what a folder or a file holds on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_rows(ledger: "Ledger", head: _Head, data: bytes) -> None:
    with ledger.connected(writes=True) as connection:
        _remove(connection, head.seq)
        row = {**asdict(head), "at": ledger.now(), "size": len(data)}
        connection.execute(snapshots.insert().values(row))
        for part, first in enumerate(range(0, len(data), _PART)):
            connection.execute(parts.insert().values(seq=head.seq, part=part, data=data[first : first + _PART]))
        stored = connection.execute(select(snapshots.c.seq).order_by(snapshots.c.seq)).scalars().all()
        for seq in stored[:-_KEPT]:
            _remove(connection, seq)


def _remove(connection: Connection, seq: int) -> None:
    connection.execute(delete(parts).where(parts.c.seq == seq))
    connection.execute(delete(snapshots).where(snapshots.c.seq == seq))


# --- As bytes and back -----------------------------------------------------------------------------------------------


def _packed(memory: Stored, shown: Shown | None) -> bytes:
    said = {"form": _FORM, "memory": memory.values, "shown": None if shown is None else shown.values}
    text = json.dumps(said, separators=(",", ":")).encode()
    arrays = {_SAID: np.frombuffer(text, dtype=np.uint8)}
    for of, found in (("beliefs", memory.beliefs), ("rows", memory.rows), ("shown", shown.arrays if shown else {})):
        arrays |= {f"{of}/{name}": np.asarray(array) for name, array in found.items()}
    return packed_arrays(arrays)


def packed_arrays(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays by name as the bytes of a zip file, compressed lightly."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            for name, array in arrays.items():
                with packed.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
        return file.getvalue()


def array_bytes(array: Any) -> bytes:
    """Return an array as the bytes of an npy file."""
    with io.BytesIO() as file:
        np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
        return file.getvalue()


def read_array(data: bytes) -> Any:
    """Return the array that `array_bytes` wrote."""
    return np.load(io.BytesIO(data), allow_pickle=False)


def _unpacked(data: bytes) -> tuple[Stored, Shown | None]:
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    said = json.loads(arrays.pop(_SAID).tobytes())
    if said["form"] != _FORM:
        raise SavedStateError("it has another form")
    found: dict[str, dict[str, Any]] = {"beliefs": {}, "rows": {}, "shown": {}}
    for name, array in arrays.items():
        of, _, rest = name.partition("/")
        found[of][rest] = array
    shown = None if said["shown"] is None else Shown(said["shown"], found["shown"])
    return Stored(said["memory"], found["rows"], found["beliefs"]), shown
