"""A service whose database goes away, hangs, is locked or full: clear answers meanwhile, and nothing lost or doubled.

`KINBAND_OUTAGE` says for how many seconds a database is away, 2 if not given.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.service_faults import (
    Away,
    database_on,
    drop_database,
    filled,
    go_without,
    hanging,
    limited,
    locked,
    small_file_system,
    stopped,
)
from tests.support.service_process import Options, make_tokens, service

from kinband.service.client import KinbandClient
from kinband.service.ledger import Draft, Ledger, LedgerUnavailableError
from kinband.service.ledger.store import Writable

SECONDS = float(os.environ.get("KINBAND_OUTAGE", "2"))
BOUND = 15.0  # seconds within which everybody is answered; the service waits for 1 second, cores are few


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


def check_answered(found: Away) -> None:
    """Check that nobody waited for long, or in vain."""
    assert found.unanswered == 0
    assert found.slowest < BOUND


def test_a_postgresql_that_is_shut_down_is_waited_for(server: Any, tmp_path: Path) -> None:
    options = Options(fresh_database(server), timeout=1.0)
    found = go_without(options, tmp_path, lambda _: stopped(server), seconds=SECONDS, seed=67)
    assert (found.health, found.ready) == ({200}, {503})
    check_answered(found)


def test_a_postgresql_that_hangs_is_given_up_and_waited_for(server: Any, tmp_path: Path) -> None:
    options = Options(fresh_database(server), timeout=1.0)
    found = go_without(options, tmp_path, lambda _: hanging(server), seconds=SECONDS, seed=71)
    assert (found.health, found.ready) == ({200}, {503})
    check_answered(found)


def test_our_client_comes_again_until_the_database_is_back(server: Any, tmp_path: Path) -> None:
    options = Options(fresh_database(server), timeout=1.0)
    with service(options, tmp_path) as process:
        token, pauses = make_tokens(options.url, {"nms": "operator"})["nms"], list[float]()

        def nap(seconds: float) -> None:
            pauses.append(seconds)
            time.sleep(0.05)

        with KinbandClient(process.base, token, retries=1000, sleep=nap) as client:
            thread = threading.Thread(target=client.ask, args=({"3714": {"load": 0.4}},), kwargs={"slot": "1"})
            with stopped(server):
                thread.start()
                while len(pauses) < 3:
                    assert thread.is_alive()
                    time.sleep(0.01)
            thread.join(timeout=60)
        with closing(Ledger.open(options.url)) as ledger:
            assert [event.slot for event in ledger.read(kinds=["decision"])] == ["1"]
        assert min(pauses) >= 5  # what Retry-After says


def test_an_sqlite_file_that_another_process_locks_is_waited_for(tmp_path: Path) -> None:
    options = Options(str(tmp_path / "ledger.db"), timeout=0.5)
    found = go_without(options, tmp_path, locked, seconds=1.0, seed=73)
    assert found.health == {200}
    check_answered(found)


def test_a_file_that_may_not_grow_is_told_and_recovered_from(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    options = Options(str(folder / "ledger.db"), timeout=1.0)
    found = go_without(options, tmp_path, limited, seconds=6.0, seed=79)
    assert found.health == {200}
    assert 503 in found.ready
    check_answered(found)


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, in a folder that exists."""
    try:
        with small_file_system(folder, size) as found:
            yield found
    except PermissionError as error:
        pytest.skip(f"needs the right to mount a file system, as root has: {error}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes: SQLite's log takes four of them before it begins anew."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk(folder, "8m") as found:
        yield found


def test_a_full_disk_is_told_and_recovered_from(small_disk: Path, tmp_path: Path) -> None:
    options = Options(str(small_disk / "ledger.db"), timeout=1.0)
    found = go_without(options, tmp_path, lambda _: filled(small_disk), seconds=6.0, seed=83)
    assert found.health == {200}
    assert 503 in found.ready
    check_answered(found)


def test_a_postgresql_whose_disk_is_full_takes_no_writes_until_there_is_room(server: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="kb-disk-") as name, disk(Path(name), "32m") as folder:
        with closing(Ledger.open(database_on(server, folder), timeout=2.0)) as ledger:
            ledger.append([Draft("observation", {"load": 0.3})])
            probe = Writable(ledger, every=0.0, soon=0.0)
            probe.check()
            with filled(folder):
                with pytest.raises(LedgerUnavailableError, match="is full"):
                    probe.check()
                assert ledger.verify() == 1  # reading goes on
            probe.check()
            ledger.append([Draft("observation", {"load": 0.4})])
        drop_database(server)
