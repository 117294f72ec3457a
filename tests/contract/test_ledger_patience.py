"""How long anybody waits for a database that does not answer: not twice for the old connection and the new one."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest
from tests.ledger_stores import fresh_database, postgres_server

from kinband.service.ledger import Draft, Ledger, LedgerUnavailableError
from kinband.service.ledger.engines import PING
from kinband.service.ledger.mutex import Mutex


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


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
        assert ledger.verify() == 1  # by a new one, which needs no sign
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
