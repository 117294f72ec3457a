"""Whether the ledger takes writes: tried without a trace, not too often, and told in one sentence."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from tests.support.http_service import Served, served
from tests.support.ledger_stores import fresh_database

from kinband.service.ledger import Draft, Ledger, LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.store import ROOM, Writable

ASK = {"states": {"a": {"load": 0.5}}}


class Clock:
    """Counts the seconds that a test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger.open(tmp_path / "ledger.db", timeout=0.5)
    found.append([Draft("observation", {"load": 0.3})])
    yield found
    found.close()


def limit(ledger: Ledger, pragma: str) -> None:
    """Let every new connection have a pragma."""
    event.listen(ledger.engine, "connect", lambda connection, _: connection.execute(f"PRAGMA {pragma}"))
    ledger.engine.dispose()


def pages(ledger: Ledger) -> int:
    with ledger.reading() as connection:
        return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())


def test_a_trial_writes_to_the_disk_and_leaves_nothing_behind(ledger: Ledger, tmp_path: Path) -> None:
    log, before = tmp_path / "ledger.db-wal", pages(ledger)
    small = log.stat().st_size
    probe = Writable(ledger, every=0.0)
    probe.check()
    reserved = log.stat().st_size
    assert reserved >= small + 0.7 * ROOM  # it was on its way to the disk, in part at least
    for _ in range(20):
        probe.check()
    assert log.stat().st_size == reserved
    assert pages(ledger) == before
    assert ledger.verify() == 1
    with ledger.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM meta WHERE name = 'room'").scalar_one() == 0
        assert connection.exec_driver_sql("PRAGMA cache_size").scalar_one() < 0  # as usual again: kibibytes


def test_a_file_that_cannot_grow_is_full(ledger: Ledger) -> None:
    limit(ledger, f"max_page_count = {pages(ledger) + 3}")
    with pytest.raises(LedgerUnavailableError, match="is full"):
        Writable(ledger).check()
    assert ledger.verify() == 1


def test_a_database_that_only_reads_is_found_out(ledger: Ledger) -> None:
    limit(ledger, "query_only = on")
    with pytest.raises(LedgerRefusedError, match="nothing was recorded"):
        Writable(ledger).check()


def test_a_trial_counts_for_a_while_and_one_that_failed_for_less(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, begun = Clock(), 0
    whole = ledger.connected

    def counted(**options: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun == 2:
            raise LedgerUnavailableError("the disk is full")
        return whole(**options)

    monkeypatch.setattr(ledger, "connected", counted)
    probe = Writable(ledger, every=5.0, soon=2.0, clock=clock)
    for clock.now, tried, well in ((100, 1, True), (104, 1, True), (105, 2, False), (106, 2, False), (107, 3, True)):
        if well:
            probe.check()
        else:
            with pytest.raises(LedgerUnavailableError, match="full"):
                probe.check()
        assert begun == tried


def test_nobody_waits_for_a_trial_that_another_thread_makes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, inside, go_on = Clock(), threading.Event(), threading.Event()
    probe = Writable(ledger, clock=clock)
    probe.check()
    whole = ledger.connected

    def slow(**options: Any) -> Any:
        inside.set()
        assert go_on.wait(20)
        return whole(**options)

    monkeypatch.setattr(ledger, "connected", slow)
    clock.now = 60.0
    thread = threading.Thread(target=probe.check)
    thread.start()
    assert inside.wait(20)
    probe.check()  # by the last trial, while the other one is under way
    go_on.set()
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def test_a_service_whose_disk_is_full_is_alive_and_not_ready(service: Served) -> None:
    ledger, client = service.operations.ledger, service.client("operator")
    limit(ledger, f"max_page_count = {pages(ledger)}")
    answer = service.client(None).get("/readyz")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["detail"] == (
        "decisions cannot be recorded, since the disk under the database is full: make room"
    )
    assert service.client(None).get("/healthz").status_code == 200
    assert client.get("/v1/stations").status_code == 200


def test_a_service_whose_database_only_reads_says_so(service: Served) -> None:
    limit(service.operations.ledger, "query_only = on")
    for answer in (service.client(None).get("/readyz"), service.client().post("/v1/decisions", json=ASK)):
        assert answer.status_code == 503
        assert "takes no writes, since it is read-only or rights are missing" in answer.json()["detail"]
        assert "ledger.db" not in answer.text


def test_postgresql_is_tried_without_a_trace(server: Any) -> None:
    ledger = Ledger.open(fresh_database(server))
    ledger.append([Draft("observation", {"load": 0.3})])
    sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
    spilled = "SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()"

    def asked(question: str) -> int:
        with ledger.reading() as connection:
            return int(connection.exec_driver_sql(question).scalar_one())

    before, probe = asked(sizes), Writable(ledger, every=0.0)
    for _ in range(10):
        probe.check()
    assert asked(sizes) == before
    assert ledger.verify() == 1
    ledger.engine.dispose()  # figures are handed over when a session ends
    assert asked(spilled) >= 10 * 0.7 * ROOM
    with ledger.connected(writes=False) as connection:
        assert connection.exec_driver_sql("SHOW work_mem").scalar_one() != "64kB"
    ledger.close()


def test_a_postgresql_that_only_reads_is_found_out(server: Any) -> None:
    ledger = Ledger.open(fresh_database(server))
    name = ledger.engine.url.database
    with ledger.connected(writes=True) as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    ledger.engine.dispose()
    with pytest.raises(LedgerRefusedError, match="read-only"):
        Writable(ledger).check()
    ledger.close()
