"""A ledger after something went wrong: what is taken up again, what is refused, and what a backup leaves behind."""

import io
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from tests.support.journals import Written
from tests.support.ledger_stores import OnRecord, live, new_controller, rewritten

from kinband.controller.memory import Stored
from kinband.errors import BadInputError, ConflictError, SavedStateError
from kinband.kernels import BlockMatrix, same_matrix
from kinband.kpis import NeighbourReward
from kinband.records import Samples
from kinband.service.ledger import Draft, Ledger, LedgerUnavailableError, replay
from kinband.service.ledger.backups import back_up, summary_of
from kinband.service.ledger.restoring import EntryReader, read_setup, restored
from kinband.service.ledger.snapshots import newest_snapshot, stored_snapshots, write_snapshot


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "ledger.db", timeout=5)
    yield opened
    opened.close()


@pytest.fixture
def life(ledger: Ledger) -> OnRecord:
    """A controller with some history, and no snapshot but those that a test takes."""
    found = OnRecord(ledger, new_controller(53), snapshot_every=10_000)
    live(found, np.random.default_rng(2), 25)
    return found


def last_of(ledger: Ledger) -> int:
    return summary_of(ledger).events


def stored_of(life: OnRecord) -> Stored:
    stored = life.operations.turns.loaded().stored()
    assert stored is not None
    return stored


def taken(life: OnRecord, ledger: Ledger) -> int:
    """Take a snapshot of what is believed now, and return after which event."""
    assert life.operations.turns.snapshot()
    return last_of(ledger)


# --- The file -------------------------------------------------------------------------------------------------------


def test_nothing_is_recorded_in_a_file_that_was_removed(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append([Draft("applied", {})])
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(LedgerUnavailableError, match="was moved, removed or replaced") as caught:
        ledger.append([Draft("applied", {})])
    assert (caught.value.code, caught.value.recorded) == ("moved", False)
    (tmp_path / "elsewhere.db").rename(tmp_path / "ledger.db")
    assert ledger.append([Draft("applied", {})]) == [2]


def test_nothing_is_recorded_in_a_file_that_took_the_place_of_ours(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append([Draft("applied", {})])
    back_up(ledger, tmp_path / "copy.db")
    (tmp_path / "copy.db").rename(tmp_path / "ledger.db")
    with pytest.raises(LedgerUnavailableError, match="was moved, removed or replaced"):
        ledger.append([Draft("applied", {})])
    ledger.close()
    assert ledger.append([Draft("applied", {})]) == [2]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A file that somebody else has just begun, and is writing to."""
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE other (x)")
        other.execute("BEGIN IMMEDIATE")
        yield other


def test_who_starts_a_ledger_waits_while_another_process_writes(begun: sqlite3.Connection, tmp_path: Path) -> None:
    timer = threading.Timer(0.3, lambda: begun.execute("COMMIT"))
    timer.start()
    with closing(Ledger.open(tmp_path / "new.db", timeout=20)) as ledger:
        assert ledger.append([Draft("applied", {})]) == [1]
    timer.join()


@pytest.mark.usefixtures("begun")
def test_who_starts_a_ledger_does_not_wait_for_ever(tmp_path: Path) -> None:
    before = time.monotonic()
    with pytest.raises(LedgerUnavailableError, match="is busy"):
        Ledger.open(tmp_path / "new.db", timeout=0.2)
    assert time.monotonic() - before < 10


def test_events_of_one_station_are_not_those_of_the_next_in_the_alphabet(ledger: Ledger) -> None:
    ledger.append([Draft("applied", {}, station=name, actor=name) for name in "abc"])
    assert [event.seq for event in ledger.read(station="b")] == [2]
    assert [event.seq for event in ledger.read(actor="b")] == [2]


def test_a_ledger_of_an_older_schema_is_not_read_without_bringing_it_up(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append([Draft("applied", {})])
    with ledger.connected(writes=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v0002'"))
    with pytest.raises(SavedStateError, match="has the older schema v0002"):
        Ledger.open(tmp_path / "ledger.db", create=False)
    Ledger.open(tmp_path / "ledger.db").close()
    assert ledger.verify() == 1


# --- Settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"beta": 7.5}, {"similarity": np.eye(3)}], ids=["a number", "an array"])
def test_settings_that_differ_in_one_thing_are_other_settings(ledger: Ledger, change: dict[str, object]) -> None:
    OnRecord(ledger, new_controller(43))
    OnRecord(ledger, new_controller(43))
    with pytest.raises(ConflictError, match="other settings"):
        OnRecord(ledger, new_controller(43, **change))


def test_settings_that_say_the_same_in_another_order_are_the_same(ledger: Ledger) -> None:
    settings = new_controller(43).setup
    notes = {"origin": "measured", "similarity": "given"}
    turned = dict(reversed(notes.items()))
    OnRecord(ledger, replace(settings, notes=notes))
    OnRecord(ledger, replace(settings, notes=turned))
    assert [event.kind for event in ledger.read()].count("started") == 1


def test_settings_that_held_the_whole_matrix_of_shards_are_those_that_hold_its_blocks(ledger: Ledger) -> None:
    blocks = new_controller(43, shards=2).setup
    assert isinstance(blocks.K_Z, BlockMatrix)
    OnRecord(ledger, replace(blocks, K_Z=np.asarray(blocks.K_Z)))
    assert same_matrix(read_setup(ledger).K_Z, blocks.K_Z)
    OnRecord(ledger, blocks)
    whole = np.asarray(blocks.K_Z) + 0.01 * np.eye(len(blocks.stations))
    with pytest.raises(ConflictError, match="other settings"):
        OnRecord(ledger, replace(blocks, K_Z=whole))


def test_settings_with_a_log_in_which_something_is_not_known_are_the_same_again(ledger: Ledger) -> None:
    settings = new_controller(43).setup
    X, y, noise = np.full((2, 3), 0.5), np.array([0.1, 0.7]), np.array([0.2, np.nan])
    log = Samples(settings.stations, np.array([0, 2]), X, y, noise, ("load", "tilt", "power"))
    for _ in range(2):
        OnRecord(ledger, replace(settings, start=log))
    with pytest.raises(ConflictError, match="other settings"):
        OnRecord(ledger, replace(settings, start=replace(log, noise=np.array([0.2, 0.2]))))


class Trap:
    """Something that does harm when it is unpacked."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("sprung"),))


def test_nothing_is_run_that_was_slipped_into_a_snapshot(
    life: OnRecord, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seq = taken(life, ledger)
    with io.BytesIO() as file:
        np.savez(file, trap=np.array([Trap()], dtype=object))
        rewritten(ledger, seq, file.getvalue())
    assert newest_snapshot(ledger) is None
    assert not (tmp_path / "sprung").exists()


# --- Snapshots ------------------------------------------------------------------------------------------------------


def test_beliefs_come_from_the_snapshot_and_what_came_after_it_is_learned(life: OnRecord, ledger: Ledger) -> None:
    seq = taken(life, ledger)
    live(life, np.random.default_rng(3), 10)
    found = restored(ledger, read_setup(ledger))
    assert (found.snapshot, found.seq) == (seq, last_of(ledger))
    assert Written(found.controller) == Written(life.controller)


def test_the_snapshot_before_an_event_was_taken_before_it(life: OnRecord, ledger: Ledger) -> None:
    first = taken(life, ledger)
    live(life, np.random.default_rng(3), 10)
    second = taken(life, ledger)
    found = [newest_snapshot(ledger, before=seq) for seq in (first, first + 1, second, second + 1)]
    assert [None if one is None else one.seq for one in found] == [None, first, first, second]


@pytest.mark.parametrize("column", ["checksum", "chained"])
@pytest.mark.parametrize("digit", ["0", "f"])
def test_a_snapshot_that_its_checksums_do_not_fit_is_passed_over(
    life: OnRecord, ledger: Ledger, *, column: str, digit: str
) -> None:
    rewritten(ledger, taken(life, ledger), None, **{column: digit * 64})
    assert newest_snapshot(ledger) is None
    found = restored(ledger, read_setup(ledger))
    assert found.snapshot == 0
    assert Written(found.controller) == Written(life.controller)


def test_a_snapshot_that_cannot_be_unpacked_is_passed_over(
    life: OnRecord, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    rewritten(ledger, taken(life, ledger), b"PK\x03\x04 and then nothing")
    with caplog.at_level(logging.WARNING):
        assert newest_snapshot(ledger) is None
    assert "passed over" in caplog.text
    assert Written(restored(ledger, read_setup(ledger)).controller) == Written(life.controller)


def test_a_snapshot_that_does_not_fit_costs_time_and_no_record(
    life: OnRecord, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    write_snapshot(ledger, last_of(ledger), replace(stored_of(life), beliefs={"something": np.zeros(3)}))
    with caplog.at_level(logging.WARNING):
        found = restored(ledger, read_setup(ledger))
    assert "all is learned anew" in caplog.text
    assert (found.snapshot, found.size) == (0, 0)
    assert Written(found.controller) == Written(life.controller)


def test_a_snapshot_of_earlier_beliefs_is_kept_beside_a_later_one(life: OnRecord, ledger: Ledger) -> None:
    stored, last = stored_of(life), last_of(ledger)
    for seq in (last, last - 3):
        write_snapshot(ledger, seq, stored)
    older = newest_snapshot(ledger, before=last)
    assert older is not None
    assert older.seq == last - 3


def test_a_decision_is_replayed_from_the_snapshot_before_it(life: OnRecord, ledger: Ledger) -> None:
    seq = taken(life, ledger)
    decision = life.ask("a", {"load": 0.4})
    event = ledger.find(decision.id)
    assert replay(ledger, decision.id).learned == event.seq - 1 - seq
    assert replay(ledger, decision.id, snapshots=False).learned == event.seq - 1


def test_a_replay_explains_a_reward_by_what_the_station_was_said_to_run_last(life: OnRecord, ledger: Ledger) -> None:
    decision = life.ask("a", {"load": 0.4})
    others = [arm for arm in range(6) if arm != decision.arm]
    for arm in others[:3]:
        life.ran(decision.id, life.controller.space[arm])
    assert replay(ledger, decision.id).explanation.ran == life.controller.explain(decision.id).ran


def test_a_replay_tells_what_a_decision_itself_earned_where_neighbours_count_too(ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(43, neighbours=NeighbourReward({"a": ["b"]}, weight=0.5)))
    made = life.ask_all({"a": {"load": 0.4}, "b": {"load": 0.6}})
    life.operations.tell({made["a"].id: 0.3, made["b"].id: 0.9})
    assert [replay(ledger, made[station].id).explanation.reward for station in "ab"] == [0.3, 0.9]
    life.correct(made["a"].id, 0.1)
    assert [replay(ledger, made[station].id).explanation.reward for station in "ab"] == [0.1, 0.9]


def test_two_snapshots_are_kept_that_nobody_else_may_read(life: OnRecord, ledger: Ledger, tmp_path: Path) -> None:
    last = last_of(ledger)
    for seq in range(last - 5, last + 1):
        write_snapshot(ledger, seq, stored_of(life))
    assert stored_snapshots(ledger) == [last - 1, last]
    folder = tmp_path / "ledger.db-snapshots"
    assert [file.stat().st_mode & 0o777 for file in (folder, *folder.iterdir())] == [0o700, 0o600, 0o600]


def test_snapshots_of_a_ledger_that_was_replaced_by_a_copy_go_with_the_next(
    life: OnRecord, ledger: Ledger, tmp_path: Path
) -> None:
    head = back_up(ledger, tmp_path / "copy.db")
    live(life, np.random.default_rng(3), 10)
    taken(life, ledger)
    ledger.close()
    (tmp_path / "copy.db").replace(tmp_path / "ledger.db")
    for beside in ("-wal", "-shm"):
        (tmp_path / f"ledger.db{beside}").unlink(missing_ok=True)
    with closing(Ledger.open(tmp_path / "ledger.db")) as again:
        assert restored(again, read_setup(again)).snapshot == 0
        taken(OnRecord(again), again)
        assert stored_snapshots(again) == [head.seq]


# --- Events that cannot be right ------------------------------------------------------------------------------------


def test_events_that_do_not_fit_together_are_told_in_one_sentence(life: OnRecord, ledger: Ledger) -> None:
    reward = next(ledger.read(kinds=["outcome"])).payload
    reward["entry"]["id"] = "d999999"
    ledger.append([Draft("outcome", reward)])
    with pytest.raises(SavedStateError, match="do not fit together"):
        restored(ledger, read_setup(ledger))


def test_an_event_without_its_entry_is_named(life: OnRecord, ledger: Ledger) -> None:
    [seq] = ledger.append([Draft("outcome", {"entry": {}})])
    event = next(ledger.read(after=seq - 1))
    with pytest.raises(SavedStateError, match=f"event {seq} of the ledger cannot be read"):
        EntryReader(read_setup(ledger)).entry(event)


# --- Backups --------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_whole_ledger_and_nothing_beside_it(life: OnRecord, ledger: Ledger, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    back_up(ledger, copy)
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
    opened = Ledger.open(copy, create=False)
    assert list(opened.read()) == list(ledger.read())
    assert Written(OnRecord(opened).controller) == Written(life.controller)
    opened.close()


def test_a_backup_replaces_no_file_and_makes_no_folder(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "there.db").write_text("mine", encoding="utf-8")
    with pytest.raises(BadInputError, match="is there already"):
        back_up(ledger, tmp_path / "there.db")
    assert (tmp_path / "there.db").read_text(encoding="utf-8") == "mine"
    with pytest.raises(BadInputError, match="there is no folder"):
        back_up(ledger, tmp_path / "none" / "copy.db")


def test_a_backup_of_a_ledger_with_a_broken_chain_is_refused_and_leaves_nothing(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append([Draft("applied", {"arm": arm}) for arm in range(3)])
    with ledger.connected(writes=True) as connection:
        connection.execute(text("DROP TRIGGER events_stay_UPDATE"))
        connection.execute(text("UPDATE events SET payload = :text WHERE seq = 2"), {"text": json.dumps({"arm": 7})})
    with pytest.raises(SavedStateError, match="2"):
        back_up(ledger, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))


def test_a_copy_left_by_a_backup_that_was_killed_is_in_nobodys_way(ledger: Ledger, tmp_path: Path) -> None:
    ledger.append([Draft("applied", {})])
    for rest in ("", "-journal", "-wal", "-shm"):
        (tmp_path / f"copy.db.part{rest}").write_bytes(b"half of a page")
    back_up(ledger, tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]


def test_how_a_ledger_stands_is_counted(ledger: Ledger) -> None:
    empty = summary_of(ledger)
    assert (empty.events, empty.first, empty.last, empty.checksum, empty.kinds) == (0, None, None, None, {})
    ledger.append([Draft("applied", {}), Draft("applied", {}), Draft("outcome", {})])
    found, written = summary_of(ledger), list(ledger.read())
    assert (found.events, found.snapshots, found.kinds) == (3, 0, {"applied": 2, "outcome": 1})
    assert (found.first, found.last, found.checksum) == (written[0].at, written[-1].at, written[-1].checksum)


def test_the_first_and_the_last_event_are_told_apart_by_their_times(tmp_path: Path) -> None:
    times = iter([datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hour) for hour in range(3)])
    with closing(Ledger.open(tmp_path / "timed.db", clock=lambda: next(times))) as ledger:
        for _ in range(3):
            ledger.append([Draft("applied", {})])
        found = summary_of(ledger)
    assert (found.first, found.last) == ("2026-11-20T00:00:00.000000Z", "2026-11-20T02:00:00.000000Z")
