"""Moving old events of an SQLite ledger into its archive."""

import hashlib
import io
import logging
import zipfile
from contextlib import suppress
from dataclasses import asdict

from sqlalchemy import select

from kinband.errors import BadInputError, KinbandError, SavedStateError
from kinband.service.ledger.archive import FOLDER, Archive, Segment, packed_segment
from kinband.service.ledger.engines import LedgerUnavailableError, only_one
from kinband.service.ledger.events import Event, check_chain
from kinband.service.ledger.schema import STAYING, events, segments
from kinband.service.ledger.snapshots import whole_file
from kinband.service.ledger.store import Ledger

KEEP = 100_000
"""How many of the latest events stay in the database."""
SEGMENT = 50_000
"""Events of a segment."""

_LOCK = "-archiving"  # how the file ends whose lock says who archives
_SLICE = 1000  # events that are deleted in one transaction, so that nobody waits for long

_log = logging.getLogger(__name__)


def archive_events(ledger: Ledger, *, keep: int = KEEP, size: int = SEGMENT) -> list[Segment]:
    """Move old events into segments, and return those.

    Args:
        ledger: An SQLite ledger, opened for writing; others may use it meanwhile.
        keep: How many of the latest events stay in the database, at least 1.
        size: How many events a segment has.
    """
    for name, value in (("keep", keep), ("size", size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInputError(f"{name} must be a whole number of events from 1 on, got {value!r}")
    lock = ledger.beside(_LOCK)
    if lock is None:
        raise BadInputError("a ledger in PostgreSQL keeps all its events in its tables: there is nothing to archive")
    with only_one(lock, seconds=ledger.timeout):
        made = []
        _remove(ledger)
        while ledger.head().seq - ledger.archived() >= keep + size:
            made.append(_archived(ledger, size))
            _remove(ledger)
    ledger.checkpoint()
    return made


def _archived(ledger: Ledger, size: int) -> Segment:
    """Put the oldest events that are in the database into a segment, and say so there."""
    first = ledger.archived() + 1
    before = ledger.checksum_of(first - 1)
    old = list(ledger.read(after=first - 1, limit=size))
    check_chain(old, after=first - 1, checksum=before)
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
            for name, data in packed_segment(old, before):
                packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        data = file.getvalue()
    segment = Segment(first, old[-1].seq, before, old[-1].checksum, hashlib.sha256(data).hexdigest())
    _put(ledger, segment, data, old)
    with ledger.connected(writes=True) as connection:
        connection.execute(segments.insert().values(asdict(segment)))
    _log.info("events %d to %d of the ledger %s are archived", segment.first, segment.last, ledger.name)
    return segment


def _put(ledger: Ledger, segment: Segment, data: bytes, old: list[Event]) -> None:
    """Write a segment down, and read it back: what was never read is a hope."""
    folder = ledger.beside(FOLDER)
    if folder is None:
        raise AssertionError("a ledger that is archived is a file")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        whole_file(folder / segment.name, [data])
    except OSError as error:
        why = error.strerror or "it cannot be written"
        raise LedgerUnavailableError(f"no events of {ledger.name} can be put into {folder} ({why})") from error
    archive = Archive(folder)
    archive.check(segment)
    if list(archive.read([segment])) != old:
        raise SavedStateError(f"{folder / segment.name} does not hold what was put there: look at that disk")


def _remove(ledger: Ledger) -> None:
    """Delete from the database what is archived, some at a time; tokens and the first event are looked up there."""
    last = ledger.archived()
    left = events.c.seq <= last, events.c.kind.not_in(STAYING)
    while True:
        with ledger.connected(writes=True) as connection:
            some = select(events.c.seq).where(*left).order_by(events.c.seq).limit(_SLICE)
            if not connection.execute(events.delete().where(events.c.seq.in_(some))).rowcount:
                return


def try_to_archive(ledger: Ledger, *, keep: int) -> None:
    """Archive what is due, where that is possible; what cannot be archived now is the next time."""
    if not keep or ledger.beside(_LOCK) is None:
        return
    try:
        archive_events(ledger, keep=keep)
    except KinbandError as error:
        _log.warning("no events of %s could be archived: %s", ledger.name, error)
    with suppress(KinbandError):
        ledger.checkpoint()
