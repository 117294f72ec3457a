"""What several processes, people and wrong numbers do to operations."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kinband import ConfigurationSpace, Controller
from kinband.errors import ConflictError
from kinband.guardrails import rails_from_text
from kinband.service.client import KinbandClient
from kinband.service.ledger import Ledger, LedgerUnavailableError
from kinband.service.operations import Clock, Operations
from kinband.service.operations.records import Sums

SPACE = ConfigurationSpace(tilt=[2, 4, 6, 8])
LOOSE, TIGHT = "knobs:\n  tilt: {step: 6}\n", "knobs:\n  tilt: {step: 0}\nstop: on\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def started(ledger: Ledger, rails: str, clock: Clock | None = None) -> Operations:
    stations = ["a", "b"]
    controller = Controller(SPACE, stations, running={"tilt": 2}, mean=0.6, seed=4)
    made = rails_from_text(rails, SPACE, stations=stations)
    return Operations.open(ledger, controller, rails=made, rails_text=rails, mode="autonomous", clock=clock)


@pytest.fixture
def operations(path: Path) -> Iterator[Operations]:
    ledger = Ledger.open(path)
    yield started(ledger, LOOSE)
    ledger.close()


def test_rails_that_another_process_put_on_record_hold_here_too(operations: Operations, path: Path) -> None:
    changed = [record for _ in range(4) for record in operations.ask({"a": {}}) if record.changes]
    assert changed
    other = Ledger.open(path)
    started(other, TIGHT)
    before = operations.decision(changed[-1].id).arm
    record = operations.ask({"a": {}})[0]
    assert record.status in ("refused", "kept")
    assert record.arm == before
    assert operations.guard.rails.stop
    other.close()


def test_what_a_person_rolled_back_is_not_to_be_run_and_its_reward_is_refused(operations: Operations) -> None:
    record = next(one for _ in range(6) for one in operations.ask({"a": {}}) if one.changes and one.status == "applied")
    station_state = operations.roll_back("a", actor="ada")
    after = operations.decision(record.id)
    assert (after.status, after.arm, after.called_off) == ("rolled back", station_state.running, True)
    assert after.arm == record.running
    with pytest.raises(ConflictError, match="rolled back within its slot"):
        operations.tell({record.id: 0.3})
    assert operations.decision(record.id).reward is None


def test_a_stop_without_a_reason_is_a_stop(operations: Operations) -> None:
    operations.stop()
    operations.freeze("b")
    with operations.looking() as read_model:
        assert read_model.stopped
        assert read_model.stations["b"].frozen


def test_a_value_wrong_by_orders_of_magnitude_leaves_no_trace_once_taken_back() -> None:
    sums, plain = Sums(), Sums()
    for value in (0.1, 0.4, 0.2):
        sums.add(value)
        plain.add(value)
    sums.add(2.5e8)
    sums.add(2.5e8, -1)
    assert sums.variance == pytest.approx(plain.variance, rel=1e-12)
    assert sums.mean == pytest.approx(plain.mean, rel=1e-12)


def test_a_file_that_was_replaced_or_removed_is_not_written_to(operations: Operations, path: Path) -> None:
    kept = path.with_name("moved.db")
    path.rename(kept)
    with pytest.raises(LedgerUnavailableError, match="moved, removed or replaced"):
        operations.ask({"a": {}})
    path.write_bytes(kept.read_bytes())
    with pytest.raises(LedgerUnavailableError, match="moved, removed or replaced"):
        operations.ask({"a": {}})
    kept.replace(path)
    assert operations.ask({"a": {}})[0].station == "a"


@pytest.mark.parametrize("token", ["kb_k3Vq90Xz_geheim geheim", "kb_k3Vq90Xz_gehéim"])
def test_a_client_never_shows_a_token_that_it_refuses(token: str) -> None:
    with pytest.raises(ValueError, match="not a token") as caught:
        KinbandClient("http://127.0.0.1:9", token)
    assert "geh" not in str(caught.value)


def test_a_token_from_a_file_may_end_with_a_line_break() -> None:
    KinbandClient("http://127.0.0.1:9", "kb_k3Vq90Xz_geheim\n").close()


def test_a_late_reward_of_what_the_guard_rolled_back_is_welcome(path: Path) -> None:
    hours = (datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hour) for hour in range(1_000))
    ledger = Ledger.open(path)
    operations = started(ledger, LOOSE + "fallback: {drop: 0.1, slots: 1}\n", clock=lambda: next(hours))
    operations.set_mode("shadow")
    for _ in range(3):
        operations.tell({operations.ask({"a": {}})[0].id: 0.9})
    operations.set_mode("autonomous")
    for _ in range(8):
        record = operations.ask({"a": {}})[0]
        if record.status == "rolled back":
            break
        operations.tell({record.id: 0.9 if record.arm == 0 else 0.1})
    assert record.status == "rolled back"
    operations.call_off(record.id)
    assert operations.tell({record.id: 0.9})[0].reward == 0.9
    ledger.close()
