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
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import URL, Connection, Engine, Select, case, exc, select

from kinband.arrays import positive_number
from kinband.errors import BadInputError, KinbandError, NotFoundError, SavedStateError
from kinband.service.ledger import schema
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
from kinband.service.ledger.events import KINDS, Draft, Event, Head, check_chain
from kinband.service.ledger.integrity import check_store
from kinband.service.ledger.schema import events
from kinband.service.ledger.seals import Key, checked_head, sealed_head, write_seal

DECIDES = "-turn"
"""How the name of the file ends whose lock says which process decides; it is empty."""

_AT_ONCE = 1000  # rows of one fetch or one insert

Clock = Callable[[], datetime]
"""What says the time of an event."""


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
        ledger = cls(engine, found, clock=clock or (lambda: datetime.now(UTC)), timeout=timeout, key=key)
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
        except BaseException:
            engine.dispose()
            raise
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

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
        wanted = select(events).where(events.c.seq > after)
        wanted = wanted if before is None else wanted.where(events.c.seq < before)
        wanted = wanted if kinds is None else wanted.where(events.c.kind.in_(kinds))
        wanted = wanted if station is None else wanted.where(events.c.station == station)
        wanted = wanted if decision is None else wanted.where(events.c.decision == decision)
        wanted = wanted if actor is None else wanted.where(events.c.actor == actor)
        order = events.c.seq.desc() if newest_first else events.c.seq
        with self.reading() as connection:
            yield from _fetched(connection, wanted.order_by(order).limit(limit))

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
        self._check(whole=True)
        return head.seq

    def _check(self, *, whole: bool) -> None:
        with self.reading() as connection, unhurried(connection):
            if connection.dialect.name == "postgresql":  # else others' commits come between one table and the next
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            check_store(connection, where=self.name, whole=whole)
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
        """Seal a ledger that has no seal yet with its key, after it was verified; return its head."""
        if self.key is None:
            raise BadInputError("a ledger is sealed with a key: open it with one")
        with self.connected(writes=True) as connection:
            head, seal = sealed_head(connection)
            if seal is None:
                write_seal(connection, self.key, head)
            return checked_head(connection, self.key, where=self.name, writes=True)

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

    def __init__(self, connection: Connection, head: Head | None = None) -> None:
        self.connection = connection
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
        return self._first(wanted.order_by(case((events.c.kind == kind, 0), else_=1), events.c.seq))

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
        return found

    def _first(self, wanted: Select[Any]) -> Event | None:
        found = list(_fetched(self.connection, wanted.limit(1)))
        return found[0] if found else None


class Writer(Reader):
    """What may be done while holding the write lock; see `Ledger.writing`.

    Attributes:
        made: What was appended so far.
    """

    def __init__(self, connection: Connection, ledger: Ledger) -> None:
        super().__init__(connection, checked_head(connection, ledger.key, where=ledger.name, writes=True))
        self.made: list[Event] = []
        self._ledger = ledger

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
