"""Nobody takes the stop switch away, on either store: it waits for nobody, and no change goes out past it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.operations_life import ask, begin, whole

from kinband.service.ledger import Ledger
from kinband.service.ledger.restoring import FollowingController
from kinband.service.ledger.store import Reader
from kinband.service.operations import Operations
from kinband.service.operations.orders import Orders
from kinband.service.operations.programs import Programs


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], Operations]]:
    """Operations of as many processes as a test wants; whoever waits for a lock gives up after two seconds."""
    ledgers: list[Ledger] = []

    def another() -> Operations:
        ledgers.append(Ledger.open(url, timeout=2))
        return begin(ledgers[-1], mode="autonomous")

    yield another
    for ledger in ledgers:
        ledger.close()


def kinds(operations: Operations) -> list[str]:
    return [event.kind for event in operations.ledger.read(kinds=["decision", "correction", "switch", "applied"])]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_stop_does_not_wait_for_somebody_who_learns(
    opened: Callable[[], Operations], monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    busy = opened()
    who = opened() if elsewhere else busy
    made = ask(busy, a=2)["a"]
    busy.tell({made.id: 0.5})
    at_work, go_on = threading.Event(), threading.Event()
    correct = FollowingController.apply_in_place

    def long(*given: Any, **said: Any) -> bool:
        at_work.set()
        assert go_on.wait(30)
        return correct(*given, **said)

    monkeypatch.setattr(FollowingController, "apply_in_place", long)
    working = threading.Thread(target=busy.correct, args=(made.id, 0.7))
    working.start()
    assert at_work.wait(30)
    who.stop(why="outage", key="stop 1")
    who.stop(why="outage", key="stop 1")
    who.check_ready()
    with who.looking() as read_model:
        assert read_model.stopped == "outage"
    go_on.set()
    working.join(30)
    assert kinds(busy) == ["decision", "applied", "switch", "correction"]
    assert busy.decision(made.id).reward == 0.7
    assert ask(busy, b=3)["b"].status == "refused"
    assert whole(opened()) == whole(busy)


def test_a_stop_is_on_record_before_much_that_others_recorded_is_read(
    opened: Callable[[], Operations], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, who = opened(), opened()
    for n in range(6):
        ask(busy, a=n % 3, b=3)

    def wait(*_: Any, **__: Any) -> Any:
        raise AssertionError("others would wait meanwhile")

    monkeypatch.setattr(Reader, "read", wait)
    who.stop(why="outage")
    with who.looking() as read_model:
        assert (read_model.stopped, len(read_model.decisions)) == ("outage", 12)
    assert who.ledger.head().seq == who.read_model.seq


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_change_that_was_decided_before_a_stop_does_not_go_out_after_it(
    opened: Callable[[], Operations], monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    operations = opened()
    who = opened() if elsewhere else operations
    decided = Programs._decide_missing
    before: list[str] = []

    def stopped_meanwhile(self: Programs, turn: Any, asked: Any) -> Any:
        made = decided(self, turn, asked)
        if not before:
            before.extend(decision.id for decision in made.values())
            who.stop(why="outage")
        return made

    monkeypatch.setattr(Programs, "_decide_missing", stopped_meanwhile)
    record = ask(operations, a=2)["a"]
    assert (record.id, record.status, record.arm) == (*before, "refused", 0)
    assert kinds(operations) == ["switch", "decision"]
    assert len(operations.controller.journal.asked) == 1
    who.resume()
    assert ask(operations, a=2)["a"].status == "applied"
    assert whole(opened()) == whole(operations)


def test_what_waits_and_is_approved_while_somebody_stops_is_refused(
    opened: Callable[[], Operations], monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = opened()
    operations.set_mode("assist")
    record = ask(operations, a=2)["a"]
    reviewed = Orders.review

    def stopped_meanwhile(self: Orders, *given: Any) -> Any:
        found = reviewed(self, *given)
        if not list(operations.ledger.read(kinds=["switch"])):
            operations.stop()
        return found

    monkeypatch.setattr(Orders, "review", stopped_meanwhile)
    assert operations.approve([record.id])[0].status == "refused"
    assert kinds(operations) == ["decision", "switch"]


def test_two_processes_do_not_decide_at_once(opened: Callable[[], Operations], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = opened(), opened()
    deciding: list[str] = []
    decided = Programs._decide_missing

    def watched(self: Programs, turn: Any, asked: Any) -> Any:
        deciding.append("in")
        assert deciding.count("in") - deciding.count("out") == 1
        threading.Event().wait(0.05)
        made = decided(self, turn, asked)
        deciding.append("out")
        return made

    monkeypatch.setattr(Programs, "_decide_missing", watched)
    threads = [threading.Thread(target=ask, args=(each,), kwargs={name: 1}) for each in (one, other) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(deciding) == 12
    one.refresh()
    other.refresh()
    assert whole(one) == whole(other)
    assert len(one.controller.journal.asked) == 6
