"""From a path or a URL to a database that keeps its word: an acknowledged event survives whatever comes.

SQLite: one file, a write-ahead log, every commit synced to disk (`synchronous=FULL`). A writer takes the one write lock
before it reads (`BEGIN IMMEDIATE`), so that what it decides on cannot change under it. PostgreSQL: the same by an
advisory lock that ends with the transaction, which also works behind a connection pool; commits are synchronous
whatever the server's default is.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, InvalidatePoolError

from kinband.errors import BadInputError

WRITES = "kinband_writes"
"""The execution option of a connection that is going to write."""

PING = 2.0
"""Seconds in which a connection that was used before has to say that it still answers."""

_LOCK = 0x6B696E62616E64  # "kinband": the number of PostgreSQL's advisory lock


def ledger_url(url: str | PathLike[str]) -> URL:
    """Return the URL of a ledger; a plain path is an SQLite file.

    Example:
        >>> ledger_url("ledger.db").render_as_string()
        'sqlite:///ledger.db'
        >>> ledger_url("postgresql://me@db/network").drivername
        'postgresql+psycopg'
        >>> ledger_url("mysql://me@db/network")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a ledger lives in SQLite or PostgreSQL, got mysql: ...
    """
    given = fspath(url)
    if "://" not in given:
        return _file(URL.create("sqlite", database=given))
    try:
        found = make_url(given)
    except (ArgumentError, ValueError) as error:
        raise BadInputError(f"{given!r:.80} is no database URL: give a file, or postgresql://user@host/name") from error
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
    """Return how a ledger is called in messages: its file, or its URL without the password.

    Example:
        >>> name_of(ledger_url("postgresql://me:secret@db/network"))
        'postgresql://me:***@db/network'
    """
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
        engine = create_engine(url, connect_args={"timeout": timeout}, pool_timeout=timeout, hide_parameters=True)
        event.listen(engine, "connect", lambda connection, _: _prepare_sqlite(connection, timeout, create=create))
    else:
        patience = {
            "connect_timeout": max(2, round(timeout - PING)),  # which comes after asking an old one in vain
            "tcp_user_timeout": round(1000 * timeout),
        }
        level = "READ COMMITTED"  # what is read after the lock was taken must not be older than the lock
        from kinband.service.ledger.store import GRACE, patient_connection

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
        raise InvalidatePoolError("the connection does not answer any more") from error
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
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise


def _write_ahead(connection: Any, *, until: float) -> None:
    """Turn on the write-ahead log of a new file, for which SQLite does not wait on others by itself."""
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if monotonic() > until:
                raise
            sleep(0.02)


def _begin(connection: Connection, timeout: float) -> None:
    """Begin a transaction; one that is going to write waits for its turn first."""
    writes = connection.get_execution_options().get(WRITES, False)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        wishes = {
            "lock_timeout": f"{round(1000 * timeout)}ms",
            "synchronous_commit": "on",
            "idle_in_transaction_session_timeout": "0",  # deciding may take a while
        }
        for name, value in wishes.items():
            connection.execute(text("SELECT set_config(:name, :value, true)"), {"name": name, "value": value})
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
