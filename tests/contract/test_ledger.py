"""One suite for every store of the ledger: what is on record stays, and leads to the same decisions."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, event, exc, text
from tests.support.journals import Written
from tests.support.ledger_stores import STATIONS, OnRecord, live, new_controller, rewritten
from typer.testing import CliRunner

from kinband import ConfigurationSpace, Controller
from kinband.cli import main
from kinband.cli.app import commands
from kinband.controller.events import Asked, Entry, entry_to_dict
from kinband.drift import Drift
from kinband.errors import BadInputError, ConflictError, NotFoundError, SavedStateError
from kinband.records import same_decision
from kinband.service.access import Tokens
from kinband.service.ledger import (
    Draft,
    Ledger,
    LedgerRefusedError,
    LedgerUnavailableError,
    replay,
)
from kinband.service.ledger import events as events_module
from kinband.service.ledger.events import FIRST
from kinband.service.ledger.schema import set_triggers
from kinband.service.ledger.snapshots import newest_snapshot, stored_snapshots

TABLES = ("events", "meta")


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = Ledger.open(url, timeout=5)
    yield opened
    opened.close()


@contextmanager
def forging(ledger: Ledger) -> Iterator[Connection]:
    """What somebody with all rights can do, who puts the triggers back afterwards."""
    names = ["events_stay_UPDATE", "events_stay_DELETE", "meta_stay_UPDATE"]
    sqlite = ledger.engine.dialect.name == "sqlite"
    away = [f"DROP TRIGGER {name}" for name in names] if sqlite else [f"DROP TRIGGER {t}_stay ON {t}" for t in TABLES]
    with ledger.connected(writes=True) as connection:
        for statement in away:
            connection.execute(text(statement))
        yield connection
        set_triggers(connection)


# --- The ledger ---------------------------------------------------------------------------------------------


def test_events_are_read_back_as_they_were_appended(url: str) -> None:
    at = datetime(2026, 11, 20, 10, 30, 0, 250, tzinfo=UTC)
    ledger = Ledger.open(url, clock=lambda: at)
    drafts = [
        Draft("observation", {"load": 0.1 + 0.2, "ü": None}, station="Zürich 1", actor="nms"),
        Draft("verdict", {"allowed": False}, station="b", decision="d000001", key="k"),
    ]
    assert ledger.append(drafts) == [1, 2]
    assert ledger.append([Draft("observation", {"load": 0.7}, station="b")]) == [3]
    first, second, third = ledger.read()
    assert (first.payload, first.station, first.actor) == ({"load": 0.1 + 0.2, "ü": None}, "Zürich 1", "nms")
    assert (second.decision, second.key, second.kind) == ("d000001", "k", "verdict")
    assert {first.at, third.at} == {"2026-11-20T10:30:00.000250Z"}
    assert [e.seq for e in ledger.read(after=1)] == [2, 3]
    assert [e.seq for e in ledger.read(station="b")] == [2, 3]
    assert [e.seq for e in ledger.read(kinds=["observation"])] == [1, 3]
    assert [e.seq for e in ledger.read(limit=1, before=3)] == [1]
    assert ledger.verify() == 3
    ledger.close()


@pytest.mark.parametrize("statement", ["UPDATE events SET actor = 'x'", "DELETE FROM events", "DELETE FROM meta"])
def test_history_cannot_be_changed(ledger: Ledger, statement: str) -> None:
    OnRecord(ledger, new_controller(3))
    with pytest.raises(LedgerRefusedError, match="append-only"), ledger.connected(writes=True) as connection:
        connection.execute(text(statement))
    assert ledger.verify() == 2


def test_a_changed_event_is_found(ledger: Ledger) -> None:
    ledger.append([Draft("observation", {"load": load}) for load in (0.1, 0.2, 0.3)])
    with forging(ledger) as connection:
        connection.execute(text("UPDATE events SET payload = :text WHERE seq = 2"), {"text": '{"load":0.9}'})
    with pytest.raises(SavedStateError, match="event 2 of the ledger or one before it was changed"):
        ledger.verify()


def test_a_missing_event_is_found(ledger: Ledger) -> None:
    ledger.append([Draft("observation", {"load": load}) for load in (0.1, 0.2, 0.3)])
    with forging(ledger) as connection:
        connection.execute(text("DELETE FROM events WHERE seq = 2"))
    with pytest.raises(SavedStateError, match="gap: event 3 follows event 1"):
        ledger.verify()


def test_changed_settings_are_found(ledger: Ledger) -> None:
    OnRecord(ledger, new_controller(3))
    with forging(ledger) as connection:
        connection.execute(text("UPDATE meta SET text = replace(text, '\"seed\": 3', '\"seed\": 4')"))
    with pytest.raises(SavedStateError, match=r"the settings are not those that the controller was made with"):
        OnRecord(ledger)


def test_a_key_is_taken_once_a_kind_and_events_come_all_or_none(ledger: Ledger) -> None:
    ledger.append([Draft("approval", {}, key="k")])
    ledger.append([Draft("applied", {}, key="k")])
    with pytest.raises(ConflictError, match="somebody else recorded this"):
        ledger.append([Draft("approval", {}, key="other"), Draft("approval", {}, key="k")])
    assert [e.key for e in ledger.read()] == ["k", "k"]


def test_an_error_in_a_turn_records_nothing(ledger: Ledger) -> None:
    with pytest.raises(BadInputError, match="JSON"), ledger.writing() as writer:
        writer.append([Draft("applied", {}), Draft("applied", {"x": {1}})])
    assert list(ledger.read()) == []


def test_a_ledger_of_a_newer_kinband_asks_for_an_upgrade(url: str, ledger: Ledger) -> None:
    with ledger.connected(writes=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    for create in (True, False):
        with pytest.raises(SavedStateError, match=r"newer kinband \(schema v9999.*upgrade kinband"):
            Ledger.open(url, create=create)


def test_processes_may_start_a_ledger_at_once(url: str) -> None:
    found: list[object] = []

    def start() -> None:
        try:
            ledger = Ledger.open(url, timeout=20)
            found.append(OnRecord(ledger, new_controller(5)).ask("a", {"load": 0.4}, slot="1").id)
            ledger.close()
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["d000001"] * 3
    ledger = Ledger.open(url)
    assert [e.kind for e in ledger.read()] == ["started", "mode", "decision", "verdict", "applied"]
    ledger.close()


def test_a_writer_that_waits_too_long_is_told_to_come_later(url: str, ledger: Ledger) -> None:
    impatient = Ledger.open(url, timeout=0.2)
    with ledger.writing() as writer:
        writer.append([Draft("applied", {})])
        with pytest.raises(LedgerUnavailableError, match="is busy: nothing was recorded, try again later"):
            impatient.append([Draft("applied", {})])
        assert list(impatient.read()) == []  # reading needs no turn
    assert impatient.append([Draft("applied", {})]) == [2]
    impatient.close()


def lost_answer(connection: Any) -> None:
    raise exc.OperationalError("COMMIT", {}, ConnectionError("the server closed the connection"))


def test_a_commit_without_an_answer_may_be_on_record_where_a_server_keeps_it(ledger: Ledger) -> None:
    event.listen(ledger.engine, "commit", lost_answer)
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.append([Draft("applied", {})])
    assert caught.value.recorded is (False if ledger.engine.dialect.name == "sqlite" else None)
    with pytest.raises(LedgerUnavailableError) as caught, ledger.reading():
        pass
    assert caught.value.recorded is False
    event.remove(ledger.engine, "commit", lost_answer)


def test_what_was_to_be_recorded_is_not_in_what_is_logged_of_an_error(ledger: Ledger) -> None:
    ledger.append([Draft("approval", {}, key="k")])
    with pytest.raises(ConflictError) as caught:
        ledger.append([Draft("approval", {"hash": "secret"}, key="k")])
    assert isinstance(caught.value.__cause__, exc.DBAPIError)
    assert "secret" not in str(caught.value.__cause__)


# --- The controller on top of it ----------------------------------------------------------------------------


@pytest.mark.parametrize("every", [7, 1000])
def test_a_life_with_restarts_is_that_of_an_uninterrupted_controller(url: str, every: int) -> None:
    seed = 11 + every
    plain, cuts = new_controller(seed), np.random.default_rng(seed)
    one, other = np.random.default_rng(99), np.random.default_rng(99)
    for turn in range(5):
        ledger = Ledger.open(url)
        life = OnRecord(ledger, new_controller(seed) if turn % 2 == 0 else None, snapshot_every=every)
        steps = int(cuts.integers(3, 15))
        live(plain, one, steps)
        live(life, other, steps)
        if turn == 2:
            for both in (plain, life):
                both.add_station("d", similarity={"a": 0.7}, running={"tilt": 2, "power": 43})
                both.remove_station("b")
        assert Written(life.controller) == Written(plain)
        ledger.close()
    ledger = Ledger.open(url)
    assert (newest_snapshot(ledger) is not None) == (every == 7)
    resumed = OnRecord(ledger).controller
    assert resumed.policy.state().keys() == plain.policy.state().keys()  # type: ignore[attr-defined]
    for name, array in plain.policy.state().items():  # type: ignore[attr-defined]
        np.testing.assert_allclose(resumed.policy.state()[name], array, atol=1e-9)  # type: ignore[attr-defined]
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize("changes", [{}, {"policy": "thompson"}, {"options": {"rounds": "aware"}}])
def test_every_decision_is_decided_again(ledger: Ledger, changes: dict[str, Any]) -> None:
    life = OnRecord(ledger, new_controller(17, **changes), snapshot_every=9)
    live(life, np.random.default_rng(5), 25)
    made = list(life.controller.journal.asked)
    assert len(made) > 10
    assert newest_snapshot(ledger) is not None
    for decision_id in made[:: max(1, len(made) // 5)]:
        for snapshots in (True, False):
            found = replay(ledger, decision_id, snapshots=snapshots)
            assert found.same
            assert found.recorded == life.controller.decision(decision_id)
            assert same_decision(found.recorded, found.again, spread=1.0)
            assert found.explanation.reward == life.controller.journal.reward(decision_id)
            assert found.explanation.text.startswith(life.controller.explain(decision_id).text[:60])


def test_decisions_by_time_are_decided_again(ledger: Ledger) -> None:
    drift = Drift(half_life=3.0, clock="numbers")
    life = OnRecord(
        ledger, Controller(ConfigurationSpace(tilt=[2, 4, 7]), STATIONS, state=["load"], noise=0.2, seed=4, drift=drift)
    )
    rng = np.random.default_rng(8)
    for slot in range(6):
        decision = life.ask(STATIONS[slot % 3], {"load": float(rng.random())}, time=slot * 1.5)
        life.tell(decision.id, float(rng.normal()))
    assert all(replay(ledger, decision_id).same for decision_id in ("d000001", "d000004", "d000006"))


def test_the_same_key_is_answered_from_the_record_in_any_process(url: str, ledger: Ledger) -> None:
    mine = OnRecord(ledger, new_controller(21))
    elsewhere = Ledger.open(url)
    yours = OnRecord(elsewhere)
    decision = mine.ask("a", {"load": 0.3}, key="k1")
    assert yours.ask("a", {"load": 0.3}, key="k1") == decision
    made = yours.ask_all({"a": {"load": 0.1}, "b": {"load": 0.9}}, key="k2")
    assert mine.ask_all({"a": {"load": 0.1}, "b": {"load": 0.9}}, key="k2") == made
    for life in (mine, yours, mine):
        life.tell(decision.id, 0.4, key="k3")
        life.freeze("a", key="k4")
        assert set(life.add_station("d", similarity={"a": 0.5}, key="k5")) == set(STATIONS)
    with pytest.raises(ConflictError, match=r"the key 'k1' was used before for another call \(event 3\)"):
        yours.ask("a", {"load": 0.4}, key="k1")
    with pytest.raises(ConflictError, match="was used before"):
        mine.tell(decision.id, 0.5, key="k3")
    with pytest.raises(ConflictError, match="already told"):
        yours.tell(decision.id, 0.4)
    kinds = [e.kind for e in ledger.read() if e.kind not in ("verdict", "applied")]
    assert kinds == ["started", "mode", "decision", "decision", "decision", "outcome", "switch", "station"]
    elsewhere.close()


def test_a_station_has_one_decision_a_slot(url: str, ledger: Ledger) -> None:
    mine, elsewhere = OnRecord(ledger, new_controller(23)), Ledger.open(url)
    yours = OnRecord(elsewhere)
    first = mine.ask("b", {"load": 0.6}, slot="10:00")
    made = yours.ask_all({s: {"load": 0.6} for s in STATIONS}, slot="10:00", key="k")
    assert made["b"] == first
    assert [made[s].round for s in STATIONS] == [0, None, 0]
    again = mine.ask_all({s: {"load": 0.6} for s in STATIONS}, slot="10:00", key="k")
    assert again == made == mine.ask_all({s: {"load": 0.6} for s in STATIONS}, slot="10:00")
    assert mine.ask("b", {"load": 0.3}, slot="11:00").id not in {d.id for d in made.values()}
    elsewhere.close()


def test_two_processes_taking_turns_decide_as_one(url: str, ledger: Ledger) -> None:
    plain = new_controller(29)
    mine, elsewhere = OnRecord(ledger, new_controller(29), snapshot_every=5), Ledger.open(url)
    yours = OnRecord(elsewhere)
    one, other, coin = np.random.default_rng(3), np.random.default_rng(3), np.random.default_rng(4)
    for _ in range(12):
        life = mine if coin.random() < 0.5 else yours
        life.refresh()
        live(plain, one, 2)
        live(life, other, 2)
    for life in (mine, yours):
        life.refresh()
        assert Written(life.controller) == Written(plain)
    elsewhere.close()


def test_threads_that_race_for_slots_get_one_decision_each(url: str) -> None:
    ledgers = [Ledger.open(url, timeout=30) for _ in range(2)]
    lives = [OnRecord(ledger, new_controller(31)) for ledger in ledgers]
    answers: list[dict[str, str]] = [{}, {}, {}, {}]

    def race(number: int) -> None:
        for slot in range(6):
            decision = lives[number % 2].ask("a", {"load": 0.1 * slot}, slot=str(slot))
            answers[number][str(slot)] = decision.id

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1] == answers[2] == answers[3]
    assert len(set(answers[0].values())) == 6
    ledgers[0].verify()
    assert len(list(ledgers[0].read(kinds=["decision"]))) == 6
    for ledger in ledgers:
        ledger.close()


@pytest.mark.parametrize("call", ["ask", "ask_all", "tell", "correct", "add_station"])
def test_a_commit_that_fails_leaves_everything_as_it_was(ledger: Ledger, call: str) -> None:
    life, plain = OnRecord(ledger, new_controller(37)), new_controller(37)

    def act(life: Any) -> None:
        done = {
            "ask": lambda: life.ask("c", {"load": 0.8}),
            "ask_all": lambda: life.ask_all({"a": {"load": 0.5}, "c": {"load": 0.1}}),
            "tell": lambda: life.tell("d000002", 0.9),
            "correct": lambda: life.correct("d000001", 0.7),
            "add_station": lambda: life.add_station("d", similarity={"b": 0.4}),
        }
        done[call]()

    for both in (life, plain):
        both.tell(both.ask("a", {"load": 0.2}).id, 0.3)
        both.ask("b", {"load": 0.4})

    def gone(connection: Any) -> None:
        raise exc.OperationalError("COMMIT", {}, ConnectionError("the server closed the connection"))

    event.listen(ledger.engine, "commit", gone)
    with pytest.raises(LedgerUnavailableError, match="the server closed the connection"):
        act(life)
    event.remove(ledger.engine, "commit", gone)
    assert Written(life.controller) == Written(plain)
    for both in (life, plain):
        act(both)
        both.tell(both.ask("a", {"load": 0.6}).id, 0.1)
        both.ask_all({"b": {"load": 0.3}, "c": {"load": 0.9}})
    assert Written(life.controller) == Written(plain)
    ledger.verify()


def test_bad_input_is_refused_as_ever_and_records_nothing(ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(41))
    with pytest.raises(NotFoundError, match="unknown station"):
        life.ask("z", {"load": 0.1})
    with pytest.raises(BadInputError, match="load"):
        life.ask("a")
    with pytest.raises(NotFoundError, match="no decision"):
        life.tell("d000009", 0.1)
    with pytest.raises(BadInputError, match="printable"):
        life.ask("a", {"load": 0.1}, key="a\nb")
    assert ledger.verify() == 2
    assert life.ask("a", {"load": 0.1}).id == "d000001"


def test_a_ledger_belongs_to_one_controller(ledger: Ledger) -> None:
    with pytest.raises(NotFoundError, match="has no controller yet"):
        OnRecord(ledger)
    OnRecord(ledger, new_controller(43))
    OnRecord(ledger, new_controller(43).setup)
    with pytest.raises(ConflictError, match="other settings"):
        OnRecord(ledger, new_controller(44))


def test_the_journal_of_a_controller_is_taken_over(ledger: Ledger) -> None:
    plain = new_controller(47)
    live(plain, np.random.default_rng(1), 20)
    life = OnRecord(ledger, plain)
    assert Written(life.controller) == Written(plain)
    for both in (plain, life):
        both.ask("a", {"load": 0.5})
    assert Written(life.controller) == Written(plain)
    assert replay(ledger, life.controller.pending[-1]).same
    with pytest.raises(NotFoundError, match="taken over from elsewhere"):
        replay(ledger, "d000001")


def test_a_damaged_snapshot_is_passed_over(ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(53), snapshot_every=6)
    live(life, np.random.default_rng(2), 25)
    newest = newest_snapshot(ledger)
    assert newest is not None
    rewritten(ledger, newest.seq, checksum="x")
    older = newest_snapshot(ledger)
    assert older is None or older.seq < newest.seq
    for seq in stored_snapshots(ledger):
        rewritten(ledger, seq, kinband="0")
    assert newest_snapshot(ledger) is None
    assert Written(OnRecord(ledger).controller) == Written(life.controller)


def test_a_ledger_that_went_back_is_read_anew(url: str, ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(59))
    for load in (0.1, 0.2, 0.3):
        life.ask("a", {"load": load})
    with forging(ledger) as connection:
        connection.execute(text("DELETE FROM events WHERE seq > 5"))
    with pytest.raises(LedgerUnavailableError, match="went back to event 5 from "):
        life.ask("a", {"load": 0.4})
    assert life.ask("a", {"load": 0.4}).id == "d000002"


# --- The command --------------------------------------------------------------------------------------------


def test_the_command_shows_a_decision_again(url: str, ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(61))
    live(life, np.random.default_rng(6), 40)
    shown = CliRunner().invoke(commands(), ["replay", url, "d000003"])
    assert shown.exit_code == 0
    assert "The same." in shown.stdout
    assert repr(life.controller.decision("d000003").mean)[:10] in shown.stdout
    as_json = json.loads(CliRunner().invoke(commands(), ["replay", url, "d000003", "--json", "--anew"]).stdout)
    assert as_json["same"] is True
    assert as_json["mean"] == life.controller.decision("d000003").mean


def test_the_command_answers_bad_input_with_a_sentence(url: str, ledger: Ledger, capfd: Any, tmp_path: Path) -> None:
    OnRecord(ledger, new_controller(61))
    assert main(["replay", url, "d000009"]) == 2
    assert "has the id 'd000009'" in capfd.readouterr().err
    assert main(["replay", str(tmp_path / "none.db"), "d000001"]) == 2
    assert "holds no ledger" in capfd.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_a_forged_decision_with_a_mended_chain_is_found(url: str, ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(67))
    live(life, np.random.default_rng(7), 40)
    std = life.controller.decision("d000002").std
    checksum, rows = FIRST, list(ledger.read())
    with forging(ledger) as connection:
        for row in rows:
            mine = row.decision == "d000002" and row.kind == "decision"
            forged = row.text.replace(repr(std), "0.123") if mine else row.text
            checksum = replace(row, text=forged).expected(checksum)
            connection.execute(
                text("UPDATE events SET payload = :text, checksum = :sum WHERE seq = :seq"),
                {"text": forged, "sum": checksum, "seq": row.seq},
            )
    ledger.verify()
    shown = CliRunner().invoke(commands(), ["replay", url, "d000002"])
    assert shown.exit_code == 1
    assert "NOT the same" in shown.stdout


def test_a_decision_of_a_version_that_weighed_sharing_is_replayed_and_told_apart(
    url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_before(entry: Entry) -> dict[str, Any]:
        written = entry_to_dict(entry)
        if isinstance(entry, Asked):
            written["memo"]["sharing"] = 0.4
        return written

    with monkeypatch.context() as earlier:
        earlier.setattr(events_module, "entry_to_dict", as_before)
        life = OnRecord(ledger, new_controller(3))
        for reward in (0.3, 0.8):
            life.tell(life.ask("a", {"load": 0.4}).id, reward)
    shown = CliRunner().invoke(commands(), ["replay", url, "d000002"])
    assert shown.exit_code == 1
    assert "an earlier version made it, with weights of sharing that are no longer used" in shown.stdout
    assert replay(ledger, "d000002").to_dict()["weighed"]


def test_a_token_made_before_the_first_start_does_not_cost_the_journal(ledger: Ledger) -> None:
    Tokens(ledger).create("nms", "viewer")
    controller = new_controller(3)
    live(controller, np.random.default_rng(1), 12)
    assert Written(OnRecord(ledger, controller).controller) == Written(controller)


def test_a_ledger_tells_how_many_bytes_it_takes(ledger: Ledger) -> None:
    assert ledger.size()["database"] > 10_000
