"""A copy of a ledger while it is in use, and a look at what it holds.

SQLite copies a database page by page while others write (its online backup). PostgreSQL has `pg_dump`, which knows more
than we do.
"""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from kinband.errors import BadInputError
from kinband.service.ledger.archive import FOLDER, sha256_of
from kinband.service.ledger.engines import make_private
from kinband.service.ledger.events import Head
from kinband.service.ledger.schema import events, schema_of
from kinband.service.ledger.seals import Key
from kinband.service.ledger.snapshots import stored_snapshots, synced
from kinband.service.ledger.store import Ledger

_BESIDE = ("-journal", "-wal", "-shm")  # files that SQLite keeps beside a database


@dataclass(frozen=True)
class LedgerSummary:
    """What a ledger holds.

    Attributes:
        name: Which.
        schema: The version of its tables.
        events: How many it holds.
        first: When the first was recorded; None where it holds none.
        last: When the last was.
        checksum: That of the last, to note elsewhere.
        snapshots: How many snapshots it holds.
        kinds: How many events of each kind.
    """

    name: str
    schema: str
    events: int
    first: str | None
    last: str | None
    checksum: str | None
    snapshots: int
    kinds: dict[str, int]


def summary_of(ledger: Ledger) -> LedgerSummary:
    """Return what a ledger holds, without checking its chain; `Ledger.verify` does."""
    with ledger.reading() as connection:
        some = ledger.segments_in(connection)
        here = events.c.seq > (some[-1].last if some else 0)
        counted = connection.execute(select(events.c.kind, func.count()).where(here).group_by(events.c.kind)).all()
        ends = connection.execute(select(func.min(events.c.at), func.max(events.c.at))).one()
        newest = connection.execute(select(events.c.checksum).order_by(events.c.seq.desc()).limit(1)).scalar()
        schema = schema_of(connection)
    stored = len(stored_snapshots(ledger))
    totals = Counter({str(kind): int(count) for kind, count in counted})
    if ledger.archive is not None:
        totals += ledger.archive.counted(some)
    kinds = dict(sorted(totals.items()))
    return LedgerSummary(ledger.name, str(schema), sum(kinds.values()), ends[0], ends[1], newest, stored, kinds)


def back_up(ledger: Ledger, copy: Path) -> Head:
    """Copy an SQLite ledger into a new file, whole, while others go on writing to it, and return the copy's head.

    The copy is written under another name first, so that a file of that name is always a whole ledger.
    """
    if ledger.engine.dialect.name != "sqlite":
        raise BadInputError(
            "a ledger in PostgreSQL is backed up by its own means: pg_dump, or base backups with its log"
        )
    if copy.exists():
        raise BadInputError(f"{copy} is there already: a backup never replaces a file, choose another name")
    if not copy.parent.is_dir():
        raise BadInputError(f"there is no folder {copy.parent}: make it first")
    part = copy.with_name(copy.name + ".part")
    _remove(part)
    try:
        with ledger.reading() as connection, _writing(copy):
            _copied(connection.connection.driver_connection, part)
        with _writing(copy):
            _copy_archive(ledger, part, copy)
            head = _check(part, ledger.key)
            synced(part)
            archive = _archive_of(copy)
            if archive.exists():  # of a copy that was never finished
                shutil.rmtree(archive)
            if _archive_of(part).exists():
                _archive_of(part).rename(archive)
            part.rename(copy)
            return head
    finally:
        _remove(part)


def _archive_of(file: Path) -> Path:
    return file.with_name(file.name + FOLDER)


def _copy_archive(ledger: Ledger, part: Path, copy: Path) -> None:
    """Copy the archive; what another backup in the same folder has of it is shared with that: it never changes."""
    there = ledger.archive
    with closing(Ledger.open(part, create=False)) as copied:
        some = copied.segments()
    if there is None or not some:
        return
    folder = _archive_of(part)
    folder.mkdir(mode=0o700)
    for segment in some:
        target = folder / segment.name
        for other in copy.parent.glob(f"*{FOLDER}/{segment.name}"):
            if other.parent != folder and sha256_of(other) == segment.digest:
                with suppress(OSError):
                    target.hardlink_to(other)
                    break
        if not target.exists():
            there.check(segment)
            target.touch(mode=0o600)
            shutil.copyfile(there.folder / segment.name, target)
            synced(target)
    synced(folder)


def _copied(source: object, part: Path) -> None:
    """Copy a database page by page."""
    if not isinstance(source, sqlite3.Connection):
        raise AssertionError("an SQLite engine has SQLite connections")
    make_private(part)
    target = sqlite3.connect(part)
    try:
        source.backup(target, pages=4096)
    finally:
        target.close()


@contextmanager
def _writing(copy: Path) -> Iterator[None]:
    """Say in one sentence that a copy cannot be written, whoever finds out: SQLite, the system, or our own reading."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:  # among which are those of a ledger, when the copy is read
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInputError(
            f"{copy} could not be written ({why}): make room, or choose another place; nothing was left behind"
        ) from error


def _check(part: Path, key: Key | None) -> Head:
    """Read the copy back: a backup that was never read is a hope."""
    copied = Ledger.open(part, create=False, key=key)
    try:
        copied.verify()
        return copied.head()
    finally:
        copied.close()


def _remove(part: Path) -> None:
    """Remove a copy that is not finished, with what SQLite keeps beside it."""
    for further in ("", *_BESIDE):
        part.with_name(part.name + further).unlink(missing_ok=True)
    shutil.rmtree(_archive_of(part), ignore_errors=True)
