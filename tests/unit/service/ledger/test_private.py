"""Who may read the files of a ledger."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinband.service.ledger import Draft, Key, Ledger
from kinband.service.ledger.backups import back_up
from kinband.service.ledger.engines import make_private


@pytest.fixture
def careless() -> Iterator[None]:
    """Everything that is made may be read and written by anybody, unless it says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_no_file_of_a_ledger_may_be_read_by_others(tmp_path: Path, careless: None) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", key=Key.make(tmp_path / "ledger.key"))
    with ledger.deciding():
        ledger.append([Draft("observation", {})])
        back_up(ledger, tmp_path / "copy.db")
        rights = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    ledger.close()
    assert {"copy.db", "ledger.db", "ledger.db-shm", "ledger.db-turn", "ledger.db-wal", "ledger.key"} <= set(rights)
    assert set(rights.values()) == {0o600}


def test_a_ledger_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    assert not [warning for warning in ledger.warnings if "may read" in warning]
    (tmp_path / "ledger.db").chmod(0o640)
    assert [warning for warning in ledger.warnings if "chmod 600" in warning]
    ledger.close()


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "there.db").execute("CREATE TABLE t (x)").connection.close()
    before = (tmp_path / "there.db").read_bytes()
    make_private(tmp_path / "there.db")
    assert (tmp_path / "there.db").read_bytes() == before
