"""The ledger in its database: tables, reading and writing."""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    case,
    select,
)

from kinband.arrays import positive_number
from kinband.errors import NotFoundError, SavedStateError
from kinband.service.ledger import migrations
from kinband.service.ledger.engines import WRITES, ledger_url, name_of, open_engine, unhurried
from kinband.service.ledger.errors import LedgerUnavailableError, in_one_sentence
from kinband.service.ledger.events import FIRST, KINDS, Draft, Event, check_chain

# --- The tables of a ledger, as they are now; how they came about is told by the migrations -------------------------
#
# `events` is append-only, which triggers see to. `snapshots` and their parts are a cache that may be thinned out or
# dropped. `meta` holds what the controller was made with. `tokens` and `secrets` belong to the room `access`; they
# share the database, so that every process knows who may come in.


metadata = MetaData()

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("kind", String(32), nullable=False),
    Column("at", String(32), nullable=False),
    Column("actor", Text, nullable=False),
    Column("station", Text, nullable=False),
    Column("decision", Text),
    Column("round", BigInteger),
    Column("slot", Text),
    Column("key", Text),
    Column("payload", Text, nullable=False),
    Column("checksum", String(64), nullable=False),
)
Index("events_key", events.c.kind, events.c.key, unique=True)
Index("events_decision", events.c.decision, events.c.kind)
Index("events_station", events.c.station, events.c.seq)
Index("events_station_kind", events.c.station, events.c.kind, events.c.seq)
Index("events_kind", events.c.kind, events.c.seq)
Index("events_actor", events.c.actor, events.c.seq)
Index("events_round", events.c.round)
_DECIDED = events.c.kind == "decision"
Index(
    "events_slot", events.c.station, events.c.slot, unique=True, sqlite_where=_DECIDED, postgresql_where=_DECIDED
)  # fmt: skip

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("kinband", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("chained", String(64), nullable=False),
    Column("checksum", String(64), nullable=False),
)

parts = Table(
    "snapshot_parts",
    metadata,
    Column(
        "seq",
        BigInteger().with_variant(Integer, "sqlite"),
        ForeignKey("snapshots.seq", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("part", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("checksum", String(64), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(8), primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("created", String(32), nullable=False),
    Column("expires", String(32)),
    Column("revoked", String(32)),
    Column("by", Text, nullable=False),
    Column("last_used", String(32)),
)
Index("tokens_name", tokens.c.name)

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)


# --- Connections to PostgreSQL that are given up when an answer does not come ---------------------------------------
#
# A server whose machine or disk hangs takes a question and never answers it. Its own timeouts do not help then, nor do
# those of the network, which is well. So the wait for an answer has an end on our side too: the connection is closed,
# and the caller hears that the ledger cannot be reached. psycopg waits by a generator that is told ten times a second
# that nothing has come yet; that is where time is looked at.
#
# A cursor on the server is closed by a question too. SQLAlchemy takes an error there for a bug and logs it with its
# traceback, so a server that goes away just then is told in a sentence here.

GRACE = 2.0
"""Seconds that an answer may take beyond those that the server itself waits for the lock of another process."""

_log = logging.getLogger(__name__)


class PatientConnection(psycopg.Connection[Any]):
    """A connection that closes itself when an answer takes too long.

    Attributes:
        patience: For how many seconds it waits; None for ever.
    """

    patience: float | None = None

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        """Wait for what a generator of psycopg leads to."""
        if self.patience is None:
            return super().wait(gen, *args, **named)
        return super().wait(self._until(gen, self.patience), *args, **named)

    def _until(self, gen: Any, seconds: float) -> Generator[Any, Any, Any]:
        end, ready = monotonic() + seconds, None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as done:
                return done.value
            ready = yield wanted
            if not ready and monotonic() > end:
                self.pgconn.finish()
                raise psycopg.OperationalError(f"no answer in {seconds:g} s")


class PatientCursor(psycopg.ServerCursor[Any]):
    """A cursor on the server that may be lost with its connection."""

    def close(self) -> None:
        """Close it; where the server is away the connection is given up, which whoever uses it next hears of."""
        try:
            super().close()
        except psycopg.OperationalError as error:
            _log.warning("the connection to the ledger was lost: %s", str(error).partition("\n")[0])
            self._conn.close()
            super().close()  # asks nobody any more


def patient_connection(seconds: float, *args: Any, **named: Any) -> PatientConnection:
    """Connect, and wait for answers for so many seconds at most."""
    found = PatientConnection.connect(*args, **named)
    found.patience, found.server_cursor_factory = seconds, PatientCursor
    return found


# --- The ledger itself: events are appended and read, never changed -------------------------------------------------
#
# Every write is one transaction that holds the ledger's one write lock from its first read to its commit. So a writer
# knows everything that was recorded before it, numbers have no gaps, and the chain of checksums has no forks, however
# many processes there are. What a writer wants to append is recorded together or not at all.

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

    def __init__(self, engine: Engine, url: URL, *, clock: Clock, timeout: float = 10.0) -> None:
        self.engine = engine
        self.timeout = timeout
        self.name = name_of(url)
        self._file = Path(str(url.database)) if url.get_backend_name() == "sqlite" else None
        self._inode: tuple[int, int] | None = None  # of the file, once it is there
        self._clock = clock

    @classmethod
    def open(
        cls, url: str | PathLike[str], *, create: bool = True, timeout: float = 10.0, clock: Clock | None = None
    ) -> "Ledger":
        """Open a ledger, and bring its tables up to date.

        Args:
            url: A file (SQLite), or postgresql://user@host/name.
            create: Whether to start one where there is none and to migrate an older one; if not, those are refused.
            timeout: Seconds to wait for the database or for another writer before `LedgerUnavailableError`.
            clock: What says the time of events; by default the system's clock.
        """
        found = ledger_url(url)
        engine = open_engine(found, timeout=positive_number(timeout, name="timeout"), create=create)
        ledger = cls(engine, found, clock=clock or (lambda: datetime.now(UTC)), timeout=timeout)
        try:
            if not create and engine.dialect.name == "sqlite" and not Path(str(found.database)).exists():
                raise SavedStateError(f"{ledger.name} holds no ledger: there is no such file")
            with ledger.reading() as connection:
                known = migrations.revision(connection)
            if create and known != migrations.latest():
                with ledger.connected(writes=True) as connection, unhurried(connection):
                    migrations.migrate(connection, where=ledger.name)
            with ledger.reading() as connection:
                migrations.check(connection, where=ledger.name)
        except BaseException:
            engine.dispose()
            raise
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

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

    def verify(self) -> int:
        """Check the whole chain of checksums and return how many events there are; an error says where it breaks."""
        return check_chain(self.read())[0]

    @contextmanager
    def writing(self) -> Iterator["Writer"]:
        """Hold the ledger's write lock; what the writer appends is recorded when the block ends without an error."""
        with self.connected(writes=True) as connection:
            yield Writer(connection, self)

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
            connection = self.engine.connect().execution_options(**{WRITES: writes})
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


class Writer:
    """What may be done while holding the write lock; see `Ledger.writing`.

    Attributes:
        connection: The connection, in its transaction.
        last: Number of the last event.
        checksum: Its checksum.
        made: What was appended so far.
    """

    def __init__(self, connection: Connection, ledger: Ledger) -> None:
        self.connection = connection
        self.made: list[Event] = []
        self._ledger = ledger
        newest = select(events.c.seq, events.c.checksum).order_by(events.c.seq.desc()).limit(1)
        row = connection.execute(newest).one_or_none()
        self.last, self.checksum = (0, FIRST) if row is None else (int(row.seq), str(row.checksum))

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
            rows = [dict(zip(_NAMES, _columns(event), strict=True)) for event in made[first : first + _AT_ONCE]]
            self.connection.execute(events.insert(), rows)
        self.last, self.checksum = last, checksum
        self.made += made
        return made

    def read(self, *, after: int) -> list[Event]:
        """Return all events after a number."""
        wanted = select(events).where(events.c.seq > after).order_by(events.c.seq)
        return list(_fetched(self.connection, wanted))

    def keyed(self, kind: str, key: str) -> Event | None:
        """Return the event that a call with this key recorded, of this kind if there are several."""
        wanted = select(events).where(events.c.kind.in_(KINDS), events.c.key == key)  # all kinds: their index is used
        return self._first(wanted.order_by(case((events.c.kind == kind, 0), else_=1), events.c.seq))

    def slotted(self, station: str, slot: str) -> Event | None:
        """Return the decision of a station for a slot."""
        return self._first(
            select(events).where(events.c.kind == "decision", events.c.station == station, events.c.slot == slot)
        )

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


_NAMES = [column.name for column in events.columns]


def _columns(event: Event) -> tuple[Any, ...]:
    return (event.seq, event.kind, event.at, event.actor, event.station, event.decision, event.round, event.slot,
            event.key, event.text, event.checksum)  # fmt: skip


def _fetched(connection: Connection, wanted: Select[Any]) -> Iterator[Event]:
    with connection.execute(wanted, execution_options={"yield_per": _AT_ONCE}) as rows:
        for row in rows:
            yield Event(*row)
