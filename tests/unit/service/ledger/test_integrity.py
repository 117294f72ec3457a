"""Damage beyond the chain of checksums: indexes, settings, triggers, tokens, snapshots, and any single bit."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks.soak.damage import flipped
from sqlalchemy import Update, text, update
from tests.support.ledger_stores import OnRecord, fresh_database, new_controller, rewritten

from kinband.errors import SavedStateError
from kinband.service.access import Tokens
from kinband.service.ledger import Ledger
from kinband.service.ledger.backups import back_up
from kinband.service.ledger.schema import events
from kinband.service.ledger.schema import tokens as rows
from kinband.service.ledger.snapshots import stored_snapshots


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    sqlite = request.param == "sqlite"
    url = str(tmp_path / "ledger.db") if sqlite else fresh_database(request.getfixturevalue("server"))
    with closing(Ledger.open(url, timeout=5)) as opened:
        life = OnRecord(opened, new_controller(3))
        for slot in range(3):
            life.tell(life.ask("a", {"load": 0.4}, slot=f"slot {slot}").id, 0.5)
        life.operations.turns.snapshot()
        opened.verify()
        yield opened


def changed(ledger: Ledger, *statements: str | Update) -> None:
    with ledger.connected(writes=True) as connection:
        for statement in statements:
            connection.execute(text(statement) if isinstance(statement, str) else statement)


def test_single_bits_that_change_an_answer_are_noticed(tmp_path: Path) -> None:
    found = flipped(tmp_path, times=60, seed=5)
    assert found.anomalies == []
    assert found.first["start"] > 0
    assert found.first.total() == 60


def test_a_schema_whose_names_are_no_text_is_told_as_damage(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    Ledger.open(file).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    known, other = b"CREATE INDEX events_actor ON events", b"CREATE INDEX events_actor ON event\xf3"
    assert known in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(known, other))
    for create in (True, False):
        with pytest.raises(SavedStateError, match="is damaged"):
            Ledger.open(file, create=create)


@pytest.mark.parametrize("name", ['"id"', '"action"', "{"])
def test_an_event_of_a_token_that_cannot_be_read_is_told_as_damage(tmp_path: Path, name: str) -> None:
    file = tmp_path / "ledger.db"
    with closing(Ledger.open(file)) as ledger:
        Tokens(ledger).create("nms", "operator", by="ann")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = file.read_bytes()
    at = data.index(b'"action"')
    begun = data.rindex(b"{", 0, at)
    where = data.index(name.encode(), begun) + len(name) // 2
    file.write_bytes(data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :])
    with closing(Ledger.open(file)) as ledger, pytest.raises(SavedStateError, match="damaged"):
        ledger.check()


def test_an_index_that_does_not_fit_its_table_is_noticed_by_start_verify_and_backup(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with closing(Ledger.open(file)) as ledger:
        OnRecord(ledger, new_controller(3)).ask("a", {"load": 0.4}, slot="slot-to-look-for")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_slot'").fetchone()
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(file.read_bytes())
    at = data.index(b"slot-to-look-for", (root - 1) * size, root * size)
    data[at] ^= 1
    file.write_bytes(data)
    with closing(Ledger.open(file)) as ledger:
        assert ledger.find("d000001").slot == "slot-to-look-for"  # the table has it, the chain holds
        for act in (lambda: OnRecord(ledger), ledger.verify, lambda: back_up(ledger, tmp_path / "copy.db")):
            with pytest.raises(SavedStateError, match="index events_slot"):
                act()


IDLE = (
    "CREATE OR REPLACE FUNCTION kinband_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
)
HARM = {
    "sqlite": ["DROP TRIGGER events_stay_DELETE", "DROP TRIGGER tokens_stay_REPLACE", "DROP INDEX events_key"],
    "postgresql": ["ALTER TABLE events DISABLE TRIGGER events_stay", "DROP TRIGGER tokens_stay ON tokens", IDLE],
}


@pytest.mark.parametrize("which", range(3))
def test_a_trigger_that_is_gone_or_does_nothing_is_noticed(ledger: Ledger, which: int) -> None:
    changed(ledger, HARM[ledger.engine.dialect.name][which])
    for act in (ledger.check, ledger.verify):
        with pytest.raises(SavedStateError, match=r"_stay|events_key|function of the triggers"):
            act()


def test_a_token_that_became_another_is_noticed(ledger: Ledger) -> None:
    tokens = Tokens(ledger)
    tokens.create("nms", "viewer", by="ann")
    tokens.create("old", "admin", by="ann")
    tokens.revoke("old", by="ann")
    ledger.verify()
    off, on = _triggers_of_tokens(ledger)
    forgeries: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"role": "admin"}, {"role": "viewer"}),
        ({"expires": "2099-01-01T00:00:00.000000Z"}, {"expires": None}),
        ({"revoked": "2026-01-01T00:00:00.000000Z"}, {"revoked": None}),
    ]
    for values, back in forgeries:
        changed(ledger, *off, update(rows).where(rows.c.name == "nms").values(values), *on)
        for act in (ledger.check, ledger.verify):
            with pytest.raises(SavedStateError, match=r"token \w{8} was changed"):
                act()
        changed(ledger, *off, update(rows).where(rows.c.name == "nms").values(back), *on)
        ledger.verify()


def _triggers_of_tokens(ledger: Ledger) -> tuple[list[str], list[str]]:
    if ledger.engine.dialect.name == "postgresql":
        return ["ALTER TABLE tokens DISABLE TRIGGER USER"], ["ALTER TABLE tokens ENABLE TRIGGER USER"]
    with ledger.reading() as connection:
        rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
    mine = [(name, sql) for name, sql in rows if name.startswith("tokens")]
    return [f"DROP TRIGGER {name}" for name, _ in mine], [sql for _, sql in mine]


def test_a_snapshot_that_is_damaged_is_told_by_verify_and_does_not_hold_up_a_start(ledger: Ledger) -> None:
    rewritten(ledger, stored_snapshots(ledger)[-1], checksum="0" * 64)
    with pytest.raises(SavedStateError, match="snapshot after event"):
        ledger.verify()
    assert OnRecord(ledger).ask("b", {"load": 0.2}).id == "d000004"


# --- Indexes of PostgreSQL ------------------------------------------------------------------------------------------


@pytest.fixture
def on_postgresql(server: Any) -> Iterator[Ledger]:
    with closing(Ledger.open(fresh_database(server), timeout=5)) as opened:
        life = OnRecord(opened, new_controller(3))
        life.tell(life.ask("a", {"load": 0.4}, slot="one").id, 0.5)
        Tokens(opened).create("nms", "operator", by="ann")
        yield opened


INDEXES = sorted(index.name or "" for table in (events, rows) for index in table.indexes)


@pytest.mark.parametrize("name", [*INDEXES, "events_pkey", "tokens_pkey"])
def test_an_index_that_does_not_lead_to_a_row_is_noticed_by_verify(on_postgresql: Ledger, name: str) -> None:
    """Its entry is never made: the index is switched off while a row is written."""
    life = OnRecord(on_postgresql)
    switched = "UPDATE pg_index SET indisready = {} WHERE indexrelid = '{}'::regclass"
    changed(on_postgresql, switched.format("false", name))
    life.ask("b", {"load": 0.1}, slot="two")
    Tokens(on_postgresql).create("other", "viewer", by="ann")
    with pytest.raises(SavedStateError, match=f"the index {name} is missing"):
        on_postgresql.check()
    changed(on_postgresql, switched.format("true", name))
    with pytest.raises(SavedStateError, match=f"the index {name} does not hold the"):
        on_postgresql.verify()


def test_an_index_that_is_gone_is_noticed_at_once(on_postgresql: Ledger) -> None:
    changed(on_postgresql, "DROP INDEX events_slot")
    for act in (on_postgresql.check, on_postgresql.verify):
        with pytest.raises(SavedStateError, match="the index events_slot is missing"):
            act()


def test_a_key_that_an_index_let_in_twice_is_noticed(on_postgresql: Ledger) -> None:
    unique = "UPDATE pg_index SET indisunique = {} WHERE indexrelid = 'secrets_pkey'::regclass"
    changed(on_postgresql, "INSERT INTO secrets VALUES ('one', 'x')", unique.format("false"))
    changed(on_postgresql, "INSERT INTO secrets VALUES ('one', 'y')", unique.format("true"))
    with pytest.raises(SavedStateError, match="a key of the index secrets_pkey is there 2 times"):
        on_postgresql.verify()
