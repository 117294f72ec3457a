"""What a turn leaves behind when it fails, and who waits for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.operations_life import ask, begin, want, whole

from kinband.errors import BadInputError
from kinband.service.ledger import Ledger, LedgerUnavailableError
from kinband.service.ledger.store import Writer
from kinband.service.operations import Operations, turns

STEP = "knobs:\n  tilt: {step: 1}\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger.open(tmp_path / "ledger.db")
    yield found
    found.close()


def never_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn that reads the ledger anew fail."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the ledger was read again from its start")

    monkeypatch.setattr(turns, "restored", refuse)


def same_as_read_anew(operations: Operations, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in memory is what the ledger leads to, to the next decision."""
    monkeypatch.undo()
    other = begin(ledger, text=STEP)
    assert whole(other) == whole(operations)
    assert list(map(repr, other.controller.journal)) == list(map(repr, operations.controller.journal))
    assert other.controller.consider("a", want(3)).arm == operations.controller.consider("a", want(3)).arm


def test_a_question_that_is_refused_after_deciding_costs_no_reading_of_the_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = begin(ledger, text=STEP, mode="autonomous")
    ask(operations, a=1)
    operations.add_station("new")
    never_read_again(monkeypatch)
    for _ in range(3):
        with pytest.raises(BadInputError, match="not known"):
            ask(operations, b=1, new=4)
    operations.stop()
    with pytest.raises(BadInputError, match="not known"):
        ask(operations, new=4)
    assert [record.id for record in ask(operations, b=1, c=1).values()] == ["d000002", "d000003"]
    assert operations.controller.journal.asked["d000002"].decision.round == 0
    same_as_read_anew(operations, ledger, monkeypatch)


def test_a_full_disk_costs_no_reading_of_the_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = begin(ledger, text=STEP, mode="autonomous")
    made = ask(operations, a=1)["a"]
    operations.applied(made.id, {"tilt": 2})
    never_read_again(monkeypatch)

    def full(*_: Any) -> None:
        raise LedgerUnavailableError("the disk is full", code="full")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "append", full)
        for act in (
            lambda: ask(operations, a=2, b=1),
            lambda: operations.applied(made.id, {"tilt": 3}),
            lambda: operations.call_off(made.id),
        ):
            with pytest.raises(LedgerUnavailableError, match="full"):
                act()
    assert operations.controller.journal.ran(made.id) == 2
    assert operations.controller.pending == [made.id]
    assert ask(operations, b=1)["b"].id == "d000002"
    same_as_read_anew(operations, ledger, monkeypatch)
