"""What is on its way to the network, in every store: claimed by one, settled after its time, told to the record."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.operations_life import SPACE, Clock, Wish, ask, begin, learned, whole

from kinband.service.dashboard.text import sentence
from kinband.service.ledger import Ledger
from kinband.service.ledger.alone import CARRIES, TELLS, OnlyOne
from kinband.service.operations import Operations
from kinband.service.operations.underway import HeldError, Task

SPAN = timedelta(seconds=330)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Operations]]:
    """Opens operations at one ledger, each as another process has them."""
    sqlite = request.param == "sqlite"
    url = str(tmp_path / "l.db") if sqlite else fresh_database(request.getfixturevalue("server"))
    clock, ledgers = Clock(), list[Ledger]()

    def another() -> Operations:
        ledgers.append(Ledger.open(url, clock=clock))
        made = begin(ledgers[-1], text="{}", mode="autonomous", manner="confirmed", clock=clock)
        made.clock = clock  # type: ignore[attr-defined]
        return made

    yield another
    for ledger in ledgers:
        ledger.close()


def pass_(operations: Operations, **span: float) -> None:
    operations.clock.pass_(**span)  # type: ignore[attr-defined]


def check(operations: Operations) -> None:
    """A restart shows the same, by all events and by a snapshot; every event is a sentence."""
    for snapshot in (False, True):
        if snapshot:
            operations.turns.snapshot()
        clock = operations.clock  # type: ignore[attr-defined]
        again = Operations.open(operations.ledger, policy=Wish.build, clock=clock)
        assert whole(again) == whole(operations)
        assert (again.read_model.sent, again.read_model.backs) == (
            operations.read_model.sent,
            operations.read_model.backs,
        )
    for event in operations.events(limit=1000):
        assert "{" not in sentence(event, lambda arm: SPACE[arm])
        assert "None" not in sentence(event, lambda arm: SPACE[arm])


def test_of_two_processes_that_are_about_to_send_one_does(opened: Callable[[], Operations]) -> None:
    here, there = opened(), opened()
    made = ask(here, a=3, b=2)
    there.refresh()
    tasks = here.under_way.tasks()
    assert tasks == there.under_way.tasks() == [Task("a", made["a"].id, 0, 3), Task("b", made["b"].id, 0, 2)]
    here.under_way.send(tasks[:1], span=SPAN, actor="network")
    with pytest.raises(HeldError, match="a change of 'a' is on its way already"):
        there.under_way.send(tasks, span=SPAN, actor="network")
    assert there.under_way.tasks() == tasks[1:]
    there.under_way.send(tasks[1:], span=SPAN, actor="network")
    here.refresh()
    assert here.under_way.tasks() == []
    for task in tasks:
        here.under_way.check([task])
        here.under_way.made(task, comment="read back", actor="network")
    assert [here.decision(made[name].id).status for name in "ab"] == ["applied", "applied"]
    here.tell({made["a"].id: 0.9})
    assert learned(here) == [(0, 3, 0.9)]
    check(here)


def test_what_was_sent_by_somebody_who_is_gone_is_free_once_nodes_have_undone_it(
    opened: Callable[[], Operations],
) -> None:
    operations = opened()
    ask(operations, a=3)
    [task] = operations.under_way.tasks()
    operations.under_way.send([task], span=SPAN, actor="network")
    check(operations)
    pass_(operations, seconds=329)
    assert operations.under_way.tasks() == []
    pass_(operations, seconds=1)
    assert operations.under_way.tasks() == [task]
    assert operations.under_way.left() == []
    operations.under_way.send([task], span=SPAN, actor="network")
    operations.under_way.unsent([task], why="the node is gone", actor="network")
    assert operations.under_way.tasks() == [task]
    check(operations)


def test_a_stop_is_seen_before_sending_and_before_confirming(opened: Callable[[], Operations]) -> None:
    here, there = opened(), opened()
    ask(here, a=3)
    [task] = here.under_way.tasks()
    there.stop(why="outage")
    with pytest.raises(HeldError, match="'a' is not changed now: everything is stopped"):
        here.under_way.send([task], span=SPAN, actor="network")
    there.resume()
    here.refresh()
    here.under_way.send([task], span=SPAN, actor="network")
    there.refresh()
    there.freeze("a", why="works")
    with pytest.raises(HeldError, match=r"'a' is not changed now: .*works"):
        here.under_way.check([task])
    there.thaw("a")
    there.set_mode("shadow")
    with pytest.raises(HeldError, match="the record has it otherwise by now"):
        here.under_way.check([task])
    check(here)


def test_what_fails_is_told_with_what_really_runs(opened: Callable[[], Operations]) -> None:
    operations = opened()
    made = ask(operations, a=3, b=2)
    first, second = operations.under_way.tasks()
    operations.under_way.failed(first, why="a runs tilt 5", runs=5, actor="network")
    operations.under_way.failed(second, why="refused", runs=None, actor="network")
    assert [operations.decision(made[name].id).status for name in "ab"] == ["failed", "failed"]
    assert [one.running for one in operations.read_model.stations.values()] == [5, 0, 0]
    operations.tell({made["a"].id: 0.4, made["b"].id: 0.5})
    assert learned(operations) == [(0, 5, 0.4), (1, 0, 0.5)]
    again = ask(operations, a=4)["a"]
    assert (again.running, again.status) == (5, "ordered")
    check(operations)


@pytest.mark.parametrize(("runs", "ends"), [(3, "applied"), (0, "expired"), (None, "expired")])
def test_what_was_given_up_on_its_way_is_settled_by_what_runs(
    opened: Callable[[], Operations], runs: int | None, ends: str
) -> None:
    operations = opened()
    made = ask(operations, a=3)["a"]
    [task] = operations.under_way.tasks()
    operations.under_way.send([task], span=SPAN, actor="network")
    operations.set_mode("shadow")
    assert operations.decision(made.id).status == "expired"
    assert operations.under_way.left() == []
    pass_(operations, seconds=330)
    [left] = operations.under_way.left()
    operations.under_way.settle(left, runs, actor="network")
    assert (operations.decision(made.id).status, operations.under_way.left()) == (ends, [])
    assert operations.read_model.stations["a"].running == (3 if runs == 3 else 0)
    check(operations)


def test_a_roll_back_by_a_person_is_sent_from_what_the_network_runs(opened: Callable[[], Operations]) -> None:
    operations = opened()
    for tilt in (2, 3):
        ask(operations, a=tilt)
        [task] = operations.under_way.tasks()
        operations.under_way.made(task, comment="", actor="network")
    operations.roll_back("a", actor="ada")
    operations.roll_back("a", actor="ada")  # before anybody has sent the first
    [task] = operations.under_way.tasks()
    assert task == Task("a", "", 3, 0)
    check(operations)
    operations.under_way.send([task], span=SPAN, actor="network")
    operations.under_way.made(task, comment="", actor="network")
    assert operations.under_way.tasks() == []
    check(operations)
    ask(operations, a=1)
    operations.under_way.made(operations.under_way.tasks()[0], comment="", actor="network")
    operations.roll_back("a", actor="ada")
    [task] = operations.under_way.tasks()
    operations.under_way.failed(task, why="the node refused", runs=None, actor="network")
    assert (operations.under_way.tasks(), operations.read_model.stations["a"].running) == ([], 1)
    check(operations)


def test_where_orders_count_at_once_nothing_is_to_be_sent(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db")
    operations = begin(ledger, text="{}", mode="autonomous")
    ask(operations, a=3)
    operations.roll_back("a")
    assert operations.under_way.tasks() == []
    ledger.close()


def test_one_process_carries_out_and_another_may_tell(opened: Callable[[], Operations]) -> None:
    here, there = opened().ledger, opened().ledger
    mine, theirs, told = OnlyOne(here, *CARRIES), OnlyOne(there, *CARRIES), OnlyOne(there, *TELLS)
    assert mine.take()
    assert not theirs.take()
    assert told.take()
    mine.give_up()
    assert theirs.take()
    for lock in (theirs, told):
        lock.give_up()
