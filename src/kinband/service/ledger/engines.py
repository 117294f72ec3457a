"""From a path or a URL to a database that keeps its word, and what its errors mean.

SQLite: one file, a write-ahead log, every commit synced to disk (`synchronous=FULL`). A writer takes the one write lock
before it reads (`BEGIN IMMEDIATE`), so that what it decides on cannot change under it. PostgreSQL: the same by an
advisory lock that ends with the transaction, which also works behind a connection pool; commits are synchronous
whatever the server's default is. So an acknowledged event survives whatever comes.

Deciding and learning may take long, and a stop must not wait for it. So there is a second lock, for who decides, held
all the while; the write lock is taken at its end, for as long as a commit takes. With SQLite it is that of an empty
file beside the ledger, with PostgreSQL another advisory lock.
"""

import logging
import os
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, Literal

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url, text

from kinband.errors import BadInputError, ConflictError, KinbandError, SavedStateError

_log = logging.getLogger(__name__)

# --- What can go wrong, and how the errors of databases become one sentence -----------------------------------------
#
# A caller needs to know one thing: may the same call be sent again later? So there are three answers. *Unavailable*:
# the database cannot be reached, is busy or its disk is full; nothing is wrong with the call. *Refused*: the database
# will not have it, now or later. And a *conflict*, where somebody else was first. Which is which follows from the
# SQLSTATE classes of PostgreSQL (its manual, appendix A) and from the result codes of SQLite.

_LATER = ("08", "40", "53", "57", "58")  # connection, roll-back, resources, shut-down, system
_LATER_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL")
_LOCKED = "55P03"
_TAKEN = ("23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY")
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "XX001", "XX002")
_FULL = ("SQLITE_FULL", "53100")


Reason = Literal["away", "busy", "full", "moved"]


class LedgerUnavailableError(KinbandError, ConnectionError):
    """The database cannot take it now; the same call may be sent again later.

    Example:
        >>> from kinband.service.ledger import Ledger
        >>> Ledger.open("postgresql://nobody@127.0.0.1:1/none", timeout=2)
        Traceback (most recent call last):
            ...
        kinband.service.ledger.engines.LedgerUnavailableError: the ledger cannot be reached ...

    Attributes:
        code: Why: it is "away" or "busy", its disk is "full", or its file was "moved".
        recorded: Whether the call is on record: False where it is known not to be, None where nobody knows, since the
            answer to a commit is missing.
    """

    def __init__(self, sentence: str, *, code: Reason = "away", recorded: Literal[False] | None = False) -> None:
        super().__init__(sentence)
        self.code, self.recorded = code, recorded


class LedgerRefusedError(KinbandError, PermissionError):
    """The database will not have it, now or later: rights are missing, or history was to be changed.

    Example:
        >>> str(LedgerRefusedError("the ledger is read-only"))
        'the ledger is read-only'
    """


@contextmanager
def in_one_sentence(where: str, *, known: bool = True) -> Iterator[None]:
    """Turn whatever a database raises into an error of ours.

    Args:
        where: The ledger's name, without a password.
        known: Whether it is known that nothing was recorded; it is not when an answer to a commit is missing.
    """
    try:
        yield
    except exc.TimeoutError as error:
        raise _unavailable(f"the ledger {where} is busy", "busy", known=known) from error
    except exc.DBAPIError as error:
        raise translated(error, where, known=known) from error
    except UnicodeDecodeError as error:  # what SQLite says of a damaged schema quotes its bytes
        raise SavedStateError(f"the ledger {where} is damaged ({error}): restore it from a backup") from error


def translated(error: exc.DBAPIError, where: str, *, known: bool) -> KinbandError:
    """Return what to tell the caller of a database's error."""
    code, words = _code(error), _words(error)
    if code in _TAKEN:
        return ConflictError(f"somebody else recorded this in {where} first ({words}): read the ledger and ask again")
    if "not a database" in words:
        return SavedStateError(f"{where} is not a ledger: give the file that kinband serve keeps its events in")
    if code.startswith(_DAMAGED):
        return SavedStateError(f"the ledger {where} is damaged ({words}): restore it from a backup")
    if code in _FULL:
        return _unavailable(f"the disk under the ledger {where} is full", "full", known=True)
    if code.startswith((_LOCKED, "SQLITE_BUSY", "SQLITE_LOCKED")):
        return _unavailable(f"the ledger {where} is busy", "busy", known=known)
    if not code or code.startswith((*_LATER, *_LATER_SQLITE)):
        return _unavailable(f"the ledger cannot be reached at {where} ({words})", "away", known=known)
    return LedgerRefusedError(f"the ledger {where} refused ({words}): nothing was recorded")


def _code(error: exc.DBAPIError) -> str:
    """Return PostgreSQL's SQLSTATE or SQLite's result code; empty where there was no answer at all."""
    found = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
    if found is None and not isinstance(error, exc.OperationalError | exc.InterfaceError):
        return type(error.orig).__name__
    return str(found or "")


def _words(error: exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
    return lines[0].strip()


def _unavailable(what: str, code: Reason, *, known: bool) -> LedgerUnavailableError:
    first = "make room; " if code == "full" else ""
    if known:
        return LedgerUnavailableError(f"{what}: {first}nothing was recorded, try again later", code=code)
    unsure = "whether it was recorded is not known, send it again later with the same key"
    return LedgerUnavailableError(f"{what}: {first}{unsure}", code=code, recorded=None)


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


# --- Engines --------------------------------------------------------------------------------------------------------

LOCK = "kinband_lock"
"""The execution option of a connection that is going to write, or whose process is going to decide: which lock."""

WRITING, DECIDING = 0x6B696E62616E64, 0x6B696E62616E65  # "kinband" and the number after it
"""PostgreSQL's advisory locks: who has the one writes at once, who has the other decides, which may take a while."""

PING = 2.0
"""Seconds in which a connection that was used before has to say that it still answers."""


def ledger_url(url: str | PathLike[str]) -> URL:
    """Return the URL of a ledger; a plain path is an SQLite file."""
    given = fspath(url)
    if "://" not in given:
        return _file(URL.create("sqlite", database=given))
    try:
        found = make_url(given)
    except (exc.ArgumentError, ValueError) as error:
        raise BadInputError(
            f"{given!r:.80} is not a database URL: give a file, or postgresql://user@host/name"
        ) from error
    match found.get_backend_name():
        case "sqlite":
            return _file(found)
        case "postgresql" | "postgres":
            return found.set(drivername="postgresql+psycopg")
        case other:
            raise BadInputError(
                f"a ledger lives in SQLite or PostgreSQL, got {other}: give a file, or postgresql://user@host/name"
            )


def name_of(url: URL) -> str:
    """Return how a ledger is called in messages: its file, or its URL without the password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


def open_engine(url: URL, *, timeout: float, create: bool) -> Engine:
    """Return the engine of a ledger; nothing is connected yet.

    Args:
        url: What `ledger_url` returned.
        timeout: Seconds to wait for a connection or for the lock of another process.
        create: Whether a file may be made a ledger.
    """
    if url.get_backend_name() == "sqlite":
        if create:
            with suppress(OSError):  # SQLite says what is wrong
                make_private(Path(str(url.database)))
        engine = create_engine(url, connect_args={"timeout": timeout}, pool_timeout=timeout, hide_parameters=True)
        event.listen(engine, "connect", lambda connection, _: _prepare_sqlite(connection, timeout, create=create))
    else:
        patience = {
            "connect_timeout": max(2, round(timeout - PING)),  # which comes after asking an old one in vain
            "tcp_user_timeout": round(1000 * timeout),
        }
        level = "READ COMMITTED"  # what is read after the lock was taken must not be older than the lock
        engine = create_engine(
            url,
            connect_args=patience,
            isolation_level=level,
            pool_timeout=timeout,
            hide_parameters=True,  # what is logged of an error must not show hashes and keys
        )
        event.listen(engine, "checkout", lambda driver, record, _: _check_alive(engine, driver, record.info))
        event.listen(
            engine, "do_connect", lambda _, __, args, named: patient_connection(timeout + GRACE, *args, **named)
        )
    event.listen(engine, "begin", lambda connection: _begin(connection, timeout))
    return engine


def _check_alive(engine: Engine, driver: Any, known: dict[Any, Any]) -> None:
    """Ask a connection that was used before whether it still answers; if not, another one is made in its place.

    A server that hangs would otherwise be waited for twice: by the old connection for as long as an answer to a
    question may take, and then by the new one.
    """
    if "used" not in known:  # it was just made
        known["used"] = True
        return
    before, driver.patience = driver.patience, PING
    try:
        engine.dialect.do_ping(driver)
    except Exception as error:
        raise exc.InvalidatePoolError("the connection does not answer any more") from error
    driver.patience = before


@contextmanager
def unhurried(connection: Connection) -> Iterator[None]:
    """Let answers take as long as they take, as when tables of a large ledger are brought up to date."""
    driver: Any = connection.connection.driver_connection
    before = getattr(driver, "patience", None)  # only connections to PostgreSQL have an end to it
    if before is not None:
        driver.patience = None
    try:
        yield
    finally:
        if before is not None:
            driver.patience = before


WAL = 64 * 1024 * 1024
"""Bytes that the file of a write-ahead log keeps once what it held is in the database."""


def _file(url: URL) -> URL:
    """Return the URL of an SQLite ledger, which has to be a file in a folder that exists."""
    if not url.database or url.database == ":memory:" or url.query:
        raise BadInputError(f"a ledger has to be a file, got {url.render_as_string()!r:.80}: give its path")
    folder = Path(url.database).parent
    if not folder.is_dir() or Path(url.database).is_dir():
        raise BadInputError(f"no ledger can be kept at {url.database}: name a file in a folder that exists")
    return url


def _prepare_sqlite(connection: Any, timeout: float, *, create: bool) -> None:
    """Set up a new connection; transactions are begun by `_begin`, not by the driver."""
    connection.isolation_level = None
    try:
        if create:
            _write_ahead(connection, until=monotonic() + timeout)
        for pragma in ("synchronous=FULL", "foreign_keys=ON", f"journal_size_limit={WAL}"):
            connection.execute(f"PRAGMA {pragma}")
    except (sqlite3.Error, UnicodeDecodeError):
        connection.close()
        raise


MENDED = (3, 51, 3)
"""The first SQLite in which a write-ahead log that is begun anew cannot damage the database (sqlite.org/wal.html)."""


def warnings_of_sqlite(version: tuple[int, ...]) -> list[str]:
    """Return what is known to be wrong with a version of SQLite.

    Example:
        >>> warnings_of_sqlite((3, 51, 3)), len(warnings_of_sqlite((3, 51, 2)))
        ([], 1)
    """
    if version >= MENDED:
        return []
    is_, mended = (".".join(map(str, one)) for one in (version, MENDED))
    return [
        f"SQLite {is_} has a rare fault by which two processes that write at once can damage a ledger: use Python with "
        f"SQLite {mended} or later, or let one process alone open it"
    ]


def open_private(file: Path) -> IO[str]:
    """Open a new file that its owner alone may read, whatever the umask."""
    return os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")


def make_private(file: Path) -> None:
    """Make an empty file of that kind where there is none; what SQLite keeps beside a database gets its rights."""
    with suppress(FileExistsError):
        open_private(file).close()


def warnings_of_file(file: Path) -> list[str]:
    """Return what is wrong with who may read or write a ledger."""
    if os.name == "posix" and file.exists() and file.stat().st_mode & 0o077:
        return [f"others than its owner may read or write {file}: chmod 600 {file}*"]
    return []


def _write_ahead(connection: Any, *, until: float) -> None:
    """Turn on the write-ahead log of a new file, for which SQLite does not wait on others by itself."""
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if monotonic() > until:
                raise
            sleep(0.02)


@contextmanager
def only_one(file: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock of a file between processes, which ends with the process; SQLite has it where there is no other."""
    try:
        make_private(file)
        os.close(os.open(file, os.O_RDWR))
        connection = sqlite3.connect(file, timeout=seconds, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
    except OSError as error:
        raise _unavailable(f"{file} cannot be opened ({error})", "away", known=True) from error
    except sqlite3.OperationalError as error:
        connection.close()
        raise _unavailable("another process decides", "busy", known=True) from error
    try:
        yield
    finally:
        connection.close()


def _begin(connection: Connection, timeout: float) -> None:
    """Begin a transaction; one that is going to write waits for its turn first."""
    lock = connection.get_execution_options().get(LOCK)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if lock else "BEGIN")
    elif lock:
        wishes = {
            "lock_timeout": f"{round(1000 * timeout)}ms",
            "synchronous_commit": "on",
            "idle_in_transaction_session_timeout": "0",  # deciding may take a while
        }
        for name, value in wishes.items():
            connection.execute(text("SELECT set_config(:name, :value, true)"), {"name": name, "value": value})
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock})
