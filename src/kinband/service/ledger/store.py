"""The ledger in its database: reading, writing, and whether it would take a write.

Every write is one transaction that holds the ledger's one write lock from its first read to its commit. So a writer
knows everything that was recorded before it, numbers have no gaps, and the chain of checksums has no forks, however
many processes there are. What a writer wants to append is recorded together or not at all. Who decides holds another
lock all the while and writes at the end, so that a commit is all that a stop ever waits for.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from shutil import disk_usage
from time import monotonic
from typing import Any

from sqlalchemy import URL, Connection, Engine, Select, case, exc, select

from kinband.arrays import positive_number
from kinband.errors import BadInputError, KinbandError, NotFoundError, SavedStateError
from kinband.service.ledger import schema
from kinband.service.ledger.archive import FOLDER, Archive, Segment, segments_of
from kinband.service.ledger.engines import (
    DECIDING,
    LOCK,
    WRITING,
    LedgerUnavailableError,
    in_one_sentence,
    ledger_url,
    name_of,
    only_one,
    open_engine,
    unhurried,
    warnings_of_file,
    warnings_of_sqlite,
)
from kinband.service.ledger.events import FIRST, KINDS, Draft, Event, Head, check_chain
from kinband.service.ledger.integrity import check_store
from kinband.service.ledger.schema import events
from kinband.service.ledger.seals import Key, checked_head, sealed_head, write_seal
from kinband.service.ledger.snapshots import damaged_snapshots, seal_snapshots

DECIDES = "-turn"
"""How the name of the file ends whose lock says which process decides; it is empty."""

_AT_ONCE = 1000  # rows of one fetch or one insert
_PAGE = 5000  # rows that are read in one transaction

_Span = tuple[int, int | None]

Clock = Callable[[], datetime]
"""What says the time of an event."""


def _now() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """An append-only record of events in SQLite or PostgreSQL. Use `Ledger.open`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> ledger.append([Draft("observation", {"load": 0.3}, station="3714")])
        [1]
        >>> [(event.seq, event.station, event.payload) for event in ledger.read()]
        [(1, '3714', {'load': 0.3})]
        >>> ledger.verify()
        1
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(
        self, engine: Engine, url: URL, *, clock: Clock, timeout: float = 10.0, key: Key | None = None
    ) -> None:
        self.engine = engine
        self.key = key
        self.timeout = timeout
        self.name = name_of(url)
        self._file = Path(str(url.database)) if url.get_backend_name() == "sqlite" else None
        self._inode: tuple[int, int] | None = None  # of the file, once it is there
        self.archive: Archive | None = None  # of a file that may have one
        self._clock = clock

    @classmethod
    def open(
        cls,
        url: str | PathLike[str],
        *,
        create: bool = True,
        timeout: float = 10.0,
        clock: Clock | None = None,
        key: Key | None = None,
    ) -> "Ledger":
        """Open a ledger, and bring its tables up to date.

        Args:
            url: A file (SQLite), or postgresql://user@host/name.
            create: Whether to start one where there is none and to migrate an older one; if not, those are refused.
            timeout: Seconds to wait for the database or for another writer before `LedgerUnavailableError`.
            clock: What says the time of events; by default the system's clock.
            key: What it is sealed with; one that is sealed is written to with its key alone.
        """
        found = ledger_url(url)
        engine = open_engine(found, timeout=positive_number(timeout, name="timeout"), create=create)
        ledger = cls(engine, found, clock=clock or _now, timeout=timeout, key=key)
        try:
            if not create and engine.dialect.name == "sqlite" and not Path(str(found.database)).exists():
                raise SavedStateError(f"{ledger.name} holds no ledger: there is no such file")
            with ledger.reading() as connection:
                known = schema.schema_of(connection)
            if create and known != schema.SCHEMA:
                with ledger.connected(writes=True) as connection, unhurried(connection):
                    schema.bring_up(connection, where=ledger.name)
            with ledger.reading() as connection:
                schema.check(connection, where=ledger.name)
                folder = ledger.beside(FOLDER)
                if folder is not None and schema.schema_of(connection) == schema.SCHEMA:
                    ledger.archive = Archive(folder)
        except BaseException:
            engine.dispose()
            raise
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def server_time(self) -> datetime | None:
        """Return what the clock of the database's server shows; None for a file, and beside a clock of your own."""
        if self._file is not None or self._clock is not _now:
            return None
        with self.reading() as connection:
            found: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return found.astimezone(UTC)

    def size(self) -> dict[str, int]:
        """Return how many bytes the database and its archive take, and how many its disk has left, where that is known.

        A server does not tell what its disk has left.
        """
        if self._file is None:
            with self.reading() as connection:
                taken = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
            return {"database": int(taken)}
        log = self.beside("-wal")
        files = [file for file in (self._file, log) if file is not None and file.exists()]
        folder = self.beside(FOLDER)
        old = [] if folder is None or not folder.is_dir() else list(folder.iterdir())
        return {
            "database": sum(file.stat().st_size for file in files),
            "archive": sum(file.stat().st_size for file in old),
            "free": disk_usage(self._file.parent).free,
        }

    @property
    def warnings(self) -> list[str]:
        """What is known to be wrong with the database's own software and with its file, with what to do."""
        if self._file is None:
            return []
        return [*warnings_of_sqlite(sqlite3.sqlite_version_info), *warnings_of_file(self._file)]

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()
        self._inode = None

    def append(self, drafts: Sequence[Draft]) -> list[int]:
        """Record events, all or none, and return their numbers once they are safe."""
        with self.writing() as writer:
            return [event.seq for event in writer.append(drafts)]

    def read(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        kinds: Sequence[str] | None = None,
        station: str | None = None,
        decision: str | None = None,
        actor: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """Return events in order, as they are fetched.

        Args:
            after: Only those after this number.
            before: Only those before this number.
            kinds: Only those of these kinds.
            station: Only those of this station.
            decision: Only those of this decision.
            actor: Only what this one did.
            newest_first: Whether to begin at the end.
            limit: At most so many.
        """
        wanted = select(events)
        wanted = wanted if kinds is None else wanted.where(events.c.kind.in_(kinds))
        wanted = wanted if station is None else wanted.where(events.c.station == station)
        wanted = wanted if decision is None else wanted.where(events.c.decision == decision)
        wanted = wanted if actor is None else wanted.where(events.c.actor == actor)
        filters = {"kinds": kinds, "station": station, "decision": decision, "actor": actor}
        span, left = (after, before), limit
        while left is None or left > 0:  # page by page: a reader that is slow must not keep a write-ahead log growing
            page = _PAGE if left is None else min(left, _PAGE)
            found, span = self._page(wanted, span, page, newest_first=newest_first, filters=filters)
            yield from found
            if span is None:
                return
            left = None if left is None else left - len(found)

    def _page(
        self, wanted: Select[Any], span: _Span, size: int, *, newest_first: bool, filters: dict[str, Any]
    ) -> tuple[list[Event], Any]:
        """Return some events between two numbers, and between which to go on; None where there are no more."""
        after, before = span
        with self.reading() as connection:
            some = self.segments_in(connection)
            last = some[-1].last if some else 0
            if self.archive is not None and (
                (after < last and not newest_first) or (newest_first and before is not None and before <= last + 1)
            ):
                given = self.archive.read(some, after=after, before=before, newest_first=newest_first, **filters)
                found = list(islice(given, size))
                if len(found) == size:
                    return found, (after, found[-1].seq) if newest_first else (found[-1].seq, before)
                return found, None if newest_first else (last, before)
            here = wanted.where(events.c.seq > max(after, last))
            here = here if before is None else here.where(events.c.seq < before)
            order = events.c.seq.desc() if newest_first else events.c.seq
            found = list(_fetched(connection, here.order_by(order).limit(size)))
        if len(found) == size:
            return found, (after, found[-1].seq) if newest_first else (found[-1].seq, before)
        return found, (after, last + 1) if newest_first and last > after else None

    def history(self, decision_id: str, *, before: int | None = None) -> list[Event]:
        """Return the events of a decision, in order, each checked against the one before it."""
        return self.histories([decision_id], before=before).get(decision_id, [])

    def histories(self, ids: Sequence[str], *, after: int = 0, before: int | None = None) -> dict[str, list[Event]]:
        """Return the same of several decisions, by id."""
        known = events.alias()
        joined = events.outerjoin(known, known.c.seq == events.c.seq - 1)
        wanted = select(events, known.c.checksum).select_from(joined).where(events.c.seq > after)
        wanted = wanted if before is None else wanted.where(events.c.seq < before)
        with self.reading() as connection:
            some = self.segments_in(connection)
            parts = [events.c.decision.in_(ids[first : first + _AT_ONCE]) for first in range(0, len(ids), _AT_ONCE)]
            rows = [row for part in parts for row in connection.execute(wanted.where(part).order_by(events.c.seq))]
        last, checksum = (some[-1].last, some[-1].checksum) if some else (0, FIRST)
        found = [(Event(*row[:-1]), row[-1]) for row in rows if row.seq > last]
        for event, chained in found:
            check_chain([event], after=event.seq - 1, checksum=checksum if event.seq == last + 1 else chained or FIRST)
        old = () if self.archive is None else self.archive.read(some, after=after, before=before, decision=ids)
        by_id: dict[str, list[Event]] = {}
        for event in chain(old, (event for event, _ in found)):
            by_id.setdefault(str(event.decision), []).append(event)
        return by_id

    def checksum_of(self, seq: int) -> str:
        """Return the checksum of an event; that before the first is known too."""
        found = FIRST if seq == 0 else next((e.checksum for e in self.read(after=seq - 1, before=seq + 1)), None)
        if found is None:
            raise SavedStateError(f"the ledger {self.name} has no event {seq}: restore it from a backup")
        return found

    def segments(self) -> list[Segment]:
        """Return the segments of the archive, oldest first."""
        with self.reading() as connection:
            return self.segments_in(connection)

    def archived(self) -> int:
        """Return the number of the last event that is archived, 0 where none is."""
        some = self.segments()
        return some[-1].last if some else 0

    def segments_in(self, connection: Connection) -> list[Segment]:
        """Return the same by a connection that is open."""
        return [] if self.archive is None else segments_of(connection)

    def checkpoint(self) -> None:
        """Have SQLite put its write-ahead log into the database and empty its file, unless somebody reads just now."""
        if self._file is not None:
            with self.engine.connect() as connection:
                connection.rollback()
                driver: Any = connection.connection.driver_connection
                driver.execute("PRAGMA busy_timeout = 100")
                try:
                    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                except sqlite3.OperationalError as error:  # a full disk, for one: what is on record is in the log
                    raise LedgerUnavailableError(f"the write-ahead log of {self.name} stays: {error}") from error
                finally:
                    driver.execute(f"PRAGMA busy_timeout = {round(1000 * self.timeout)}")

    def beside(self, suffix: str) -> Path | None:
        """Return the place beside the ledger's file whose name ends so; None where it is not a file."""
        return None if self._file is None else self._file.with_name(self._file.name + suffix)

    def find(self, decision_id: str) -> Event:
        """Return the event of a decision, or say that there is none."""
        found = list(self.read(decision=decision_id, kinds=["decision"]))
        if not found:
            raise NotFoundError(f"no decision of the ledger {self.name} has the id {decision_id!r}: check the id")
        return found[0]

    def head(self) -> Head:
        """Return number and checksum of the last event."""
        with self.reading() as connection:
            return sealed_head(connection)[0]

    def check(self) -> None:
        """Check what a start relies on: indexes against tables, triggers, settings, tokens, and the seal."""
        self._check(whole=False)

    def verify(self, *, expect: Head | None = None) -> int:
        """Check everything on record and return how many events there are; an error says what is wrong, and where.

        Args:
            expect: A head that was noted before: everything up to there must be as it was.
        """
        head = Head(*check_chain(self._expecting(expect)))
        if expect is not None and head.seq < expect.seq:
            raise SavedStateError(
                f"the ledger {self.name} lost its tail: it ends with event {head.seq}, and event {expect.seq} was "
                "there: restore it from a backup"
            )
        self._check_archive()
        self._check(whole=True)
        return head.seq

    def _check_archive(self) -> None:
        """Check the files of the archive, and what the database holds of archived events."""
        if self.archive is None:
            return
        some = self.segments()
        for segment in some:
            self.archive.check(segment)
        last = some[-1].last if some else 0
        with self.reading() as connection:
            wanted = select(events).where(events.c.seq <= last, events.c.kind.in_(schema.STAYING))
            there = list(_fetched(connection, wanted.order_by(events.c.seq)))
        if some and there != list(self.archive.read(some, kinds=schema.STAYING)):
            raise SavedStateError(
                f"the ledger {self.name} holds other events of tokens or settings than its archive: restore it from a "
                "backup"
            )

    def _check(self, *, whole: bool) -> None:
        with self.reading() as connection, unhurried(connection):
            if connection.dialect.name == "postgresql":  # else others' commits come between one table and the next
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            check_store(connection, where=self.name, whole=whole)
            if whole and (faults := damaged_snapshots(self)):
                raise SavedStateError(
                    f"the ledger {self.name} has damaged snapshots ({'; '.join(faults)}): remove them"
                )
            checked_head(connection, self.key, where=self.name, writes=False)

    def _expecting(self, expect: Head | None) -> Iterator[Event]:
        """Give all events; the one that is expected must have the checksum that was noted."""
        for event in self.read():
            if expect is not None and event.seq == expect.seq and not event.checksum.startswith(expect.checksum):
                raise SavedStateError(
                    f"the ledger {self.name} was rewritten up to event {event.seq} or before it: its checksum is not "
                    "the one that was noted; restore it from a backup"
                )
            yield event

    def seal(self) -> Head:
        """Seal a ledger that has no seal yet, and its snapshots, after it was verified; return its head."""
        if self.key is None:
            raise BadInputError("a ledger is sealed with a key: open it with one")
        with self.connected(writes=True) as connection:
            head, seal = sealed_head(connection)
            if seal is None:
                write_seal(connection, self.key, head)
            sealed = checked_head(connection, self.key, where=self.name, writes=True)
        if seal is None:
            seal_snapshots(self)
        return sealed

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """Hold the ledger's write lock; what the writer appends is recorded when the block ends without an error."""
        with self.connected(writes=True) as connection:
            writer = Writer(connection, self)
            yield writer
            if self.key is not None and writer.made:
                write_seal(connection, self.key, writer.head)

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """Be the only one, of all processes, who decides or learns; others may write meanwhile what needs neither."""
        self._check_file()
        if self._file is not None:
            with only_one(self._file.with_name(self._file.name + DECIDES), seconds=self.timeout):
                yield
            return
        with in_one_sentence(self.name):
            connection = self.engine.connect().execution_options(**{LOCK: DECIDING})
        try:
            with in_one_sentence(self.name):
                connection.begin()
            yield
        finally:
            with suppress(exc.DBAPIError):  # a lock that is lost is given up as well
                connection.rollback()
            connection.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection to read with."""
        with self.connected(writes=False) as connection:
            yield connection

    @contextmanager
    def connected(self, *, writes: bool) -> Iterator[Connection]:
        """Give a connection in a transaction that is committed at the end; one that failed is not used again."""
        self._check_file()
        with in_one_sentence(self.name):
            connection = self.engine.connect().execution_options(**{LOCK: WRITING if writes else None})
        try:
            with in_one_sentence(self.name):
                transaction = connection.begin()
            with in_one_sentence(self.name):
                yield connection
            with in_one_sentence(self.name, known=not writes or self.engine.dialect.name == "sqlite"):
                transaction.commit()
        except BaseException:
            connection.invalidate()  # closes it, which takes back whatever is open
            raise
        finally:
            connection.close()

    def _check_file(self) -> None:
        """Refuse to write into a file that nobody will find again: it was moved, removed or replaced meanwhile."""
        if self._file is None:
            return
        try:
            found = self._file.stat()
        except OSError:
            found = None
        if found is not None and self._inode is None:
            self._inode = found.st_dev, found.st_ino
        elif self._inode is not None and (found is None or (found.st_dev, found.st_ino) != self._inode):
            raise LedgerUnavailableError(
                f"the ledger {self.name} was moved, removed or replaced while it was in use: nothing is recorded until "
                "the file is back or the service is started again",
                code="moved",
            )

    def now(self) -> str:
        """Return the time as events carry it."""
        return self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Reader:
    """What a turn looks up.

    Attributes:
        connection: The connection, in its transaction.
        last: Number of the last event.
        checksum: Its checksum.
    """

    def __init__(self, connection: Connection, ledger: Ledger, head: Head | None = None) -> None:
        self.connection, self._ledger = connection, ledger
        found = sealed_head(connection)[0] if head is None else head
        self.last, self.checksum = found.seq, found.checksum

    @property
    def head(self) -> Head:
        """Number and checksum of the last event."""
        return Head(self.last, self.checksum)

    def read(self, *, after: int) -> list[Event]:
        """Return all events after a number."""
        wanted = select(events).where(events.c.seq > after).order_by(events.c.seq)
        return list(_fetched(self.connection, wanted))

    def keyed(self, kind: str, key: str) -> Event | None:
        """Return the event that a call with this key recorded, of this kind if there are several."""
        wanted = select(events).where(events.c.kind.in_(KINDS), events.c.key == key)  # all kinds: their index is used
        found = self._first(wanted.order_by(case((events.c.kind == kind, 0), else_=1), events.c.seq))
        return found or min(self._archived(key=key), key=lambda event: (event.kind != kind, event.seq), default=None)

    def newest(self, kind: str) -> Event | None:
        """Return the last event of a kind."""
        return self._first(select(events).where(events.c.kind == kind).order_by(events.c.seq.desc()))

    def slots(self, stations: Sequence[str], slot: str) -> dict[str, Event]:
        """Return the decisions of several stations for a slot, by station."""
        found: dict[str, Event] = {}
        for first in range(0, len(stations), _AT_ONCE):
            some = events.c.station.in_(stations[first : first + _AT_ONCE])
            wanted = select(events).where(events.c.kind == "decision", some, events.c.slot == slot)
            found |= {event.station: event for event in _fetched(self.connection, wanted)}
        old = self._archived(kinds=["decision"], slot=slot) if len(found) < len(stations) else ()
        return {event.station: event for event in old if event.station in stations} | found

    def round(self, number: int) -> list[Event]:
        """Return the decisions of a round, in order."""
        wanted = select(events).where(events.c.kind == "decision", events.c.round == number).order_by(events.c.seq)
        return list(_fetched(self.connection, wanted)) or list(self._archived(kinds=["decision"], round=number))

    def _archived(self, **filters: Any) -> Iterator[Event]:
        """Give what is in the archive."""
        archive = self._ledger.archive
        return iter(()) if archive is None else archive.read(self._ledger.segments_in(self.connection), **filters)

    def _first(self, wanted: Select[Any]) -> Event | None:
        found = list(_fetched(self.connection, wanted.limit(1)))
        return found[0] if found else None


class Writer(Reader):
    """What may be done while holding the write lock; see `Ledger.writing`.

    Attributes:
        made: What was appended so far.
    """

    def __init__(self, connection: Connection, ledger: Ledger) -> None:
        super().__init__(connection, ledger, checked_head(connection, ledger.key, where=ledger.name, writes=True))
        self.made: list[Event] = []

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Add events after the last one; they are recorded when the lock is given up."""
        made, at = [], self._ledger.now()
        last, checksum = self.last, self.checksum
        for draft in drafts:
            event = Event(last + 1, draft.kind, at, draft.actor, draft.station, draft.decision, draft.round,
                          draft.slot, draft.key, draft.text, "")  # fmt: skip
            last, checksum = event.seq, event.expected(checksum)
            made.append(replace(event, checksum=checksum))
        for first in range(0, len(made), _AT_ONCE):
            rows = [dict(zip(_NAMES, event.columns, strict=True)) for event in made[first : first + _AT_ONCE]]
            self.connection.execute(events.insert(), rows)
        self.last, self.checksum = last, checksum
        self.made += made
        return made


_NAMES = [column.name for column in events.columns]


def _fetched(connection: Connection, wanted: Select[Any]) -> Iterator[Event]:
    with connection.execute(wanted, execution_options={"yield_per": _AT_ONCE}) as rows:
        for row in rows:
            yield Event(*row)


# --- Whether the ledger would take a decision: tried out now and then, leaving nothing behind -----------------------
#
# Reading goes on when a disk is full or a database has become read-only, so that reading proves nothing. Nor does a
# small write that is taken back: SQLite keeps it in memory and never asks the disk. So a trial makes the database write
# some room, `ROOM` bytes, to the disk that decisions go to, and takes it back. Nothing is recorded, and nothing grows:
#
# - SQLite gets a row that is larger than the cache of its connection, so that it spills into the write-ahead log before
#   it is rolled back (its manual on temporary files and on write-ahead logging). The log's file keeps that room, and
#   the next decisions use it: a trial that went well promises as much.
# - PostgreSQL would keep the pages of a row that is rolled back until it is vacuumed. So it sorts beyond its memory,
#   into a file on the tablespace of the database, which it removes; an insert of no row finds out about missing rights
#   and about servers that only read. Where the disk of its own log is full it stops, which reading finds out.

ROOM = 256 * 1024
"""Bytes that a trial writes. A round of 105 stations with 29 configurations was measured to add 0.25 to 0.7 MB to the
write-ahead log (0.12 to 0.27 MB of events), so that a trial finds a full disk, and not one that will be in a while."""
EVERY = 5.0
"""Seconds for which a trial that went well counts."""
SOON = 1.0
"""Seconds after which one that did not is repeated."""

_INSERTED = f"INSERT INTO meta (name, text, data, checksum) VALUES ('room', '', zeroblob({ROOM}), '')"  # noqa: S608
_DIGESTS = f"SELECT md5(i::text) AS digest FROM generate_series(1, {ROOM // 43}) AS i ORDER BY digest OFFSET 1"  # noqa: S608
_SORTED = f"SELECT count(*) FROM ({_DIGESTS}) AS spilled"  # noqa: S608 - 43 bytes a row, with what a sort adds


def write_and_take_back(connection: Connection) -> None:
    """Have a database write some room to its disk, in a transaction that is rolled back."""
    if connection.dialect.name == "sqlite":
        usual = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
        statements = ["PRAGMA cache_size = 16", _INSERTED, "ROLLBACK", f"PRAGMA cache_size = {usual}"]
    else:
        limits = ["SET LOCAL work_mem = '64kB'", "SET LOCAL temp_tablespaces = ''"]
        statements = ["INSERT INTO events SELECT * FROM events WHERE false", *limits, _SORTED, "ROLLBACK"]
    for statement in statements:
        connection.exec_driver_sql(statement)


class Writable:
    """Tells whether a ledger takes writes, by trials that are not repeated for a while.

    Args:
        ledger: Which.
        every: Seconds for which a trial that went well counts.
        soon: Seconds after which one that did not is repeated.
        clock: What counts seconds.
    """

    def __init__(
        self, ledger: Ledger, *, every: float = EVERY, soon: float = SOON, clock: Callable[[], float] = monotonic
    ) -> None:
        self._ledger, self._every, self._soon, self._clock = ledger, every, soon, clock
        self._lock = threading.Lock()
        self._again: float | None = None  # when the next trial is due
        self._refusal: KinbandError | None = None

    def check(self) -> None:
        """Return if the ledger takes writes, else raise what it said; while one thread tries, others go by the last."""
        if self._lock.acquire(blocking=self._again is None):
            try:
                if self._again is None or self._clock() >= self._again:
                    self._refusal = self._try()
                    self._again = self._clock() + (self._every if self._refusal is None else self._soon)
            finally:
                self._lock.release()
        refusal = self._refusal
        if refusal is not None:
            raise copy(refusal) from refusal  # with its code, and a trace of its own

    def _try(self) -> KinbandError | None:
        try:
            with self._ledger.connected(writes=True) as connection:
                write_and_take_back(connection)
        except KinbandError as error:
            return error
        return None
