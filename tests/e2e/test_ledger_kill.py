"""Processes that are killed, databases that go away, disks that are full: nothing acknowledged is lost or doubled."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from sqlalchemy import event, text
from tests.support.journals import Written
from tests.support.ledger_stores import (
    STATIONS,
    OnRecord,
    fresh_database,
    live,
    load_of,
    new_controller,
    postgres_server,
    reward_of,
)

from kinband import Controller
from kinband.service.ledger import Draft, Ledger, LedgerUnavailableError

ROOT = Path(__file__).parents[2]
SLOTS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


def worker(url: str) -> "subprocess.Popen[str]":
    """A process that does the work of `tests.support.ledger_stores.work`."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.support.ledger_stores", url, str(SLOTS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def uninterrupted() -> Controller:
    """The same work by a controller that nobody disturbs."""
    controller = new_controller(71)
    for slot in range(SLOTS):
        decision = controller.ask(STATIONS[slot % len(STATIONS)], {"load": load_of(slot)})
        controller.tell(decision.id, reward_of(slot, decision.arm))
    return controller


def check_work(url: str, acknowledged: list[list[str]]) -> None:
    """Everything acknowledged is on record once, and what is on record is the work of an undisturbed controller."""
    ledger = Ledger.open(url)
    ledger.verify()
    recorded = [("asked" if e.kind == "decision" else "told", e.decision)
                for e in ledger.read(kinds=["decision", "outcome"])]  # fmt: skip
    assert len(recorded) == 2 * SLOTS
    assert {(what, decision) for what, _, decision in acknowledged} == set(recorded)
    assert Written(OnRecord(ledger).controller) == Written(uninterrupted())
    ledger.close()


def test_kill_9_at_random_moments_loses_nothing_and_doubles_nothing(url: str) -> None:
    rng, acknowledged = np.random.default_rng(13), list[list[str]]()
    kills = 0
    while True:
        process = worker(url)
        assert process.stdout is not None
        after, doomed = int(rng.integers(3, 30)), kills < 4
        for number, line in enumerate(process.stdout):
            acknowledged.append(line.split())
            answered_anew = int(line.split()[1]) >= 12 * kills
            if doomed and answered_anew and number >= after:
                time.sleep(float(rng.uniform(0, 0.01)))
                process.kill()
                kills, doomed = kills + 1, False
        code = process.wait()
        process.stdout.close()
        if code == 0:
            break
        assert code == -9
    assert kills == 4
    check_work(url, acknowledged)


def test_two_processes_on_one_database_never_decide_a_slot_twice(server: Any) -> None:
    url = fresh_database(server)
    processes = [worker(url) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert answers[0] == answers[1]
    check_work(url, [line.split() for line in answers[0]])


def test_a_database_that_goes_away_and_comes_back_loses_nothing(server: Any) -> None:
    ledger = Ledger.open(fresh_database(server), timeout=2)
    durable, plain = OnRecord(ledger, new_controller(73)), new_controller(73)
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    live(durable, one, 10)
    live(plain, other, 10)
    before = Written(durable.controller)
    server.stop()
    for _ in range(3):
        with pytest.raises(LedgerUnavailableError, match="nothing was recorded, try again later"):
            durable.ask("a", {"load": 0.5})
        with pytest.raises(LedgerUnavailableError, match="cannot be reached"):
            durable.call_off("d000001")
    assert Written(durable.controller) == before  # what is known can still be looked at
    server.start()
    live(durable, one, 20)
    live(plain, other, 20)
    assert Written(durable.controller) == Written(plain)
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize("call", ["ask", "tell"])
def test_a_connection_lost_while_committing_is_settled_by_the_key(server: Any, call: str) -> None:
    """Before the commit arrives, or after it was done and before the answer arrives: one event either way."""
    url = fresh_database(server)
    ledger = Ledger.open(url, timeout=5)
    durable, plain = OnRecord(ledger, new_controller(79)), new_controller(79)
    for life in (durable, plain):
        life.ask("b", {"load": 0.2})

    def act(life: Any, **key: str) -> None:
        if call == "ask":
            life.ask("a", {"load": 0.3}, **key)
        else:
            life.tell("d000001", 0.7, **key)

    def lose(connection: Any, *, done: bool) -> None:
        if lost or connection.exec_driver_sql("SELECT max(seq) FROM events").scalar() == known:
            return  # nothing is about to be recorded
        lost.append(done)
        if done:
            connection.connection.dbapi_connection.commit()
        with psycopg.connect(url, autocommit=True) as other:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            other.execute((others + "AND datname = current_database()").encode())
        if done:
            connection.exec_driver_sql("SELECT 1")

    for done in (False, True):
        hook, lost = lambda connection, done=done: lose(connection, done=done), list[bool]()
        known = ledger.head().seq
        event.listen(ledger.engine, "commit", hook)
        with pytest.raises(LedgerUnavailableError, match="whether it was recorded is not known"):
            act(durable, key="k")
        event.remove(ledger.engine, "commit", hook)
        durable.refresh()
        assert len(durable.controller.journal) == (2 if done else 1)
    act(durable, key="k")
    act(plain)
    for life in (durable, plain):
        life.ask_all({station: {"load": 0.4} for station in STATIONS})
    assert Written(durable.controller) == Written(plain)
    ledger.verify()
    ledger.close()


def fill(ledger: Ledger, size: int) -> None:
    """Record observations of so many characters, until something is in the way."""
    for _ in range(60):
        ledger.append([Draft("observation", {"counters": "x" * size})])


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """Pages that SQLite may not take, then files that the system will not let grow."""
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(file)
    durable, plain = OnRecord(ledger, new_controller(83)), new_controller(83)
    one, other = np.random.default_rng(8), np.random.default_rng(8)
    live(durable, one, 10)
    live(plain, other, 10)
    before = Written(plain)
    with ledger.connected(writes=False) as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()

    def limit(connection: Any, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(ledger.engine, "connect", limit)
    ledger.close()  # so that connections are new, with the limit
    with pytest.raises(LedgerUnavailableError, match="is full: make room; nothing was recorded"):
        fill(ledger, 500)
    notes = len(list(ledger.read(kinds=["observation"])))
    with pytest.raises(LedgerUnavailableError, match="is full"):
        durable.ask_all({station: {"load": 0.4} for station in STATIONS}, actor="x" * 400)
    assert Written(durable.controller) == before
    event.remove(ledger.engine, "connect", limit)
    ledger.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    grown = max(part.stat().st_size for part in tmp_path.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (grown, hard))
    try:
        with pytest.raises(LedgerUnavailableError, match="nothing was recorded"):
            fill(ledger, 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    live(durable, one, 20)
    live(plain, other, 20)
    assert Written(durable.controller) == Written(plain)
    assert len(list(ledger.read(kinds=["observation"]))) >= notes
    ledger.verify()
    ledger.close()
