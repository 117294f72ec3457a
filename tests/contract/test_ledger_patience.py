"""How long anybody waits for a database that does not answer: not twice for the old connection and the new one."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import select
from tests.support.ledger_stores import fresh_database

from kinband.service.ledger import Draft, Ledger, LedgerUnavailableError
from kinband.service.ledger.engines import PING
from kinband.service.ledger.schema import events
from kinband.service.operations.turns import Mutex


def test_an_old_connection_is_asked_for_a_sign_of_life_with_little_patience_and_replaced(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Ledger.open(fresh_database(server), timeout=7.0)) as ledger:
        ledger.append([Draft("observation", {"load": 0.3})])
        asked: list[float] = []

        def silent(driver: Any) -> bool:
            asked.append(driver.patience)
            raise psycopg.OperationalError("no answer")

        monkeypatch.setattr(ledger.engine.dialect, "do_ping", silent)
        assert ledger.head().seq == 1  # by a new one, which needs no sign
        assert asked == [PING]
        with ledger.reading() as connection:
            driver: Any = connection.connection.driver_connection
            assert driver.patience > 7.0  # for the lock of another process
            assert driver.info.get_parameters()["connect_timeout"] == "5"


def test_a_connection_that_answers_goes_on_with_its_patience(server: Any) -> None:
    with closing(Ledger.open(fresh_database(server), timeout=4.0)) as ledger:
        seen = set()
        for _ in range(3):
            with ledger.reading() as connection:
                driver: Any = connection.connection.driver_connection
                seen.add((id(driver), driver.patience))
        assert len(seen) == 1


def test_a_server_is_told_how_long_we_wait(server: Any) -> None:
    with closing(Ledger.open(fresh_database(server), timeout=7.0)) as ledger:
        with ledger.writing() as writer:
            driver: Any = writer.connection.connection.driver_connection
            assert driver.info.get_parameters()["tcp_user_timeout"] == "7000"
            assert writer.connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "7s"
            assert writer.connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
        with ledger.reading() as connection:
            assert connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "0"


def test_an_impatient_caller_still_leaves_time_to_connect(server: Any) -> None:
    with closing(Ledger.open(fresh_database(server), timeout=1.0)) as ledger, ledger.reading() as connection:
        driver: Any = connection.connection.driver_connection
        assert driver.info.get_parameters()["connect_timeout"] == "2"


def test_writers_of_every_version_wait_for_one_lock(server: Any) -> None:
    url = fresh_database(server)
    with closing(Ledger.open(url, timeout=0.2)) as ledger, psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(b"kinband")])
        with pytest.raises(LedgerUnavailableError, match="is busy"):
            ledger.append([Draft("applied", {})])
        other.rollback()
        assert ledger.append([Draft("applied", {})]) == [1]


@contextmanager
def ended(server: Any, process: int) -> Iterator[None]:
    """The server's end of a connection is shut down."""
    with psycopg.connect(server.get_uri(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [process])
    yield


@contextmanager
def silent(server: Any, process: int) -> Iterator[None]:
    """The server's end of a connection hangs."""
    del server
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.parametrize("away", [ended, silent])
def test_a_server_that_goes_away_between_the_last_row_and_its_cursor_is_told_in_a_sentence(
    server: Any, away: Callable[[Any, int], AbstractContextManager[None]], caplog: pytest.LogCaptureFixture
) -> None:
    def lose(ledger: Ledger) -> None:
        with ledger.reading() as connection:
            driver: Any = connection.connection.driver_connection
            rows = connection.execute(select(events), execution_options={"yield_per": 1})
            driver.patience = 0.3
            with away(server, driver.info.backend_pid):
                rows.close()

    with closing(Ledger.open(fresh_database(server), timeout=4.0)) as ledger:
        ledger.append([Draft("observation", {"load": 0.3})])
        with pytest.raises(LedgerUnavailableError, match="cannot be reached"):
            lose(ledger)
        assert [record.name for record in caplog.records if record.exc_info] == []
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(told) == 1
        assert told[0].startswith("the connection to the ledger was lost: ")
        assert "\n" not in told[0]
        assert ledger.verify() == 1  # by a new one


def test_a_cursor_that_we_close_wrongly_leaves_its_traceback(
    server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    close = psycopg.ServerCursor.close

    def wrong(cursor: Any) -> None:
        close(cursor)
        raise psycopg.ProgrammingError("there is no such cursor")

    with closing(Ledger.open(fresh_database(server), timeout=4.0)) as ledger:
        monkeypatch.setattr(psycopg.ServerCursor, "close", wrong)
        assert ledger.verify() == 0
    assert [record.name for record in caplog.records if record.exc_info] != []


def fail_while_another_waits(mutex: Mutex, then: Callable[[], None]) -> None:
    """Have the lock until another thread waits for it, for more than a second, and then get no answer."""
    waits = threading.Event()

    def other() -> None:
        waits.set()
        with mutex:
            then()

    thread = threading.Thread(target=other)
    with suppress(LedgerUnavailableError), mutex:
        thread.start()
        waits.wait()
        time.sleep(1.2)
        raise LedgerUnavailableError("gone")
    thread.join()


def test_who_waited_behind_a_call_without_an_answer_does_not_ask_again_but_may_look() -> None:
    mutex, heard = Mutex("ledger.db", seconds=30), list[str]()

    def look_and_write() -> None:
        heard.append("looked")
        try:
            mutex.check_answered()
        except LedgerUnavailableError as error:
            heard.append(str(error))

    fail_while_another_waits(mutex, look_and_write)
    assert heard == ["looked", "the ledger ledger.db is busy: nothing was recorded, try again later"]
    with mutex:
        mutex.check_answered()  # who comes later tries for himself
