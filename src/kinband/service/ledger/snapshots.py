"""Beliefs as they were after some event: a cache, so that a restart need not learn everything anew.

A snapshot is bound to the chain by the checksum of the event it was taken after; one that is damaged, or was written by
another version of kinband, is passed over. They are stored in parts, since an exact posterior of n rows takes 4n²
bytes. Old ones are thinned out: of those whose age lies between one power of two and the next the oldest stays,
so that any decision of the past is near one and their number grows like a logarithm.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select

from kinband.errors import SavedStateError
from kinband.service.ledger.packing import digest, packed, unpacked
from kinband.service.ledger.schema import events, parts, snapshots
from kinband.service.ledger.store import Ledger
from kinband.version import __version__

_log = logging.getLogger(__name__)

_PART = 8_000_000  # bytes
_FOR_ONE_EVENT = 64_000  # bytes of snapshots that an event may cost


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Beliefs after an event.

    Attributes:
        seq: The event's number.
        beliefs: What the policy's `state` returned.
        size: How many bytes they took.

    Example:
        >>> Snapshot(7, {}, 0).seq
        7
    """

    seq: int
    beliefs: dict[str, Any]
    size: int


def due(since: int, *, every: int, size: int) -> bool:
    """Return whether to take a snapshot so many events after the last, which had `size` bytes.

    Large ones are rarer, so that on average an event causes no more than 64 kB to be written.

    Example:
        >>> due(1000, every=1000, size=6_000_000), due(1000, every=1000, size=256_000_000)
        (True, False)
    """
    return since >= max(every, size // _FOR_ONE_EVENT)


def write_snapshot(ledger: Ledger, seq: int, beliefs: dict[str, Any], *, every: int) -> int:
    """Store beliefs after an event, thin out older ones, and return how many bytes they take."""
    data = packed(beliefs)
    with ledger.connected(writes=True) as connection:
        if connection.execute(select(snapshots.c.seq).where(snapshots.c.seq == seq)).first() is None:
            _insert(connection, ledger, seq, data)
            _thin(connection, every=every)
    return len(data)


def newest_snapshot(ledger: Ledger, *, before: int | None = None) -> Snapshot | None:
    """Return the newest sound snapshot, or the newest taken before the event of a number."""
    with ledger.reading() as connection:
        wanted = select(snapshots).order_by(snapshots.c.seq.desc())
        rows = connection.execute(wanted if before is None else wanted.where(snapshots.c.seq < before)).all()
        return next(_sound(connection, rows), None)


def _sound(connection: Connection, rows: Any) -> Iterator[Snapshot]:
    for row in rows:
        if row.kinband != __version__:
            _log.info("the snapshot after event %d is of kinband %s: passed over", row.seq, row.kinband)
            continue
        stored = select(parts.c.data).where(parts.c.seq == row.seq).order_by(parts.c.part)
        data = b"".join(connection.execute(stored).scalars())
        chained = connection.execute(select(events.c.checksum).where(events.c.seq == row.seq)).scalar()
        if digest(data) != row.checksum or chained != row.chained:
            _log.warning("the snapshot after event %d is damaged: passed over", row.seq)
            continue
        try:
            beliefs = unpacked(data, what="a snapshot")
        except SavedStateError as error:
            _log.warning("the snapshot after event %d is passed over: %s", row.seq, error)
            continue
        yield Snapshot(int(row.seq), beliefs, len(data))


def _insert(connection: Connection, ledger: Ledger, seq: int, data: bytes) -> None:
    chained = connection.execute(select(events.c.checksum).where(events.c.seq == seq)).scalar_one()
    connection.execute(
        snapshots.insert().values(
            seq=seq, at=ledger.now(), kinband=__version__, size=len(data), chained=chained, checksum=digest(data)
        )
    )
    for part, first in enumerate(range(0, len(data), _PART)):
        connection.execute(parts.insert().values(seq=seq, part=part, data=data[first : first + _PART]))


def _thin(connection: Connection, *, every: int) -> None:
    stored = [int(seq) for seq in connection.execute(select(snapshots.c.seq).order_by(snapshots.c.seq)).scalars()]
    for seq in superfluous(stored, every=every):
        connection.execute(delete(parts).where(parts.c.seq == seq))
        connection.execute(delete(snapshots).where(snapshots.c.seq == seq))


def superfluous(stored: list[int], *, every: int) -> list[int]:
    """Return which of the snapshots, oldest first, can go; the newest two always stay.

    Example:
        >>> superfluous([1, 2, 3, 4, 5, 6, 7, 8, 9], every=1)
        [3, 4, 5, 7]
    """
    kept, gone = set[int](), []
    for seq in stored[:-2]:
        age = ((stored[-1] - seq) // every).bit_length()
        if age in kept:
            gone.append(seq)
        kept.add(age)
    return gone
