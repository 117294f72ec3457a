"""A change from its approval to its confirmation: by day and by night, in every store, whatever comes in between."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.operations_life import SPACE, STATIONS, Clock, Wish, ask, begin, learned, whole

from kinband.errors import ConflictError
from kinband.service.dashboard.text import sentence
from kinband.service.ledger import Ledger, replay
from kinband.service.operations import Operations

NIGHT = 'maintenance:\n  - {from: "00:00", to: "05:00"}\n'
EVENING = datetime(2026, 3, 4, 18, 32, tzinfo=UTC)
MIDNIGHT, MORNING = datetime(2026, 3, 5, tzinfo=UTC), datetime(2026, 3, 5, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    sqlite = request.param == "sqlite"
    opened = Ledger.open(str(tmp_path / "l.db") if sqlite else fresh_database(request.getfixturevalue("server")))
    yield opened
    opened.close()


class Night:
    """Operations with a window at night, asked in the evening."""

    def __init__(self, ledger: Ledger, text: str = NIGHT, *, manner: Any = "confirmed", mode: Any = "assist") -> None:
        self.clock = Clock(EVENING)
        self.operations = begin(ledger, text=text, mode=mode, manner=manner, clock=self.clock)

    def at(self, moment: datetime) -> None:
        self.clock.now = moment
        self.operations.orders.settle()

    def status(self, decision_id: str) -> str:
        return self.operations.decision(decision_id).status

    def runs(self) -> list[int | None]:
        return [one.running for one in self.operations.read_model.stations.values()]

    def check(self) -> None:
        """What a restart shows is what was there, and every decision is decided again the same."""
        again = Operations.open(self.operations.ledger, policy=Wish.build, clock=self.clock)
        assert whole(again) == whole(self.operations)
        self.operations.ledger.verify()
        for key in list(self.operations.read_model.decisions):
            assert replay(self.operations.ledger, key, policy=Wish.build).same
            assert self.operations.explain(key).text.endswith(".")
        for event in self.operations.events(limit=1000):
            assert "{" not in sentence(event, lambda arm: SPACE[arm])


@pytest.fixture
def night(ledger: Ledger) -> Night:
    return Night(ledger)


def test_a_change_is_approved_by_day_ordered_at_night_and_confirmed(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=2, c=0)
    assert [one.status for one in made.values()] == ["waiting", "waiting", "kept"]
    first = made["a"]
    assert first.verdict is not None
    assert (first.verdict.outcome, first.verdict.codes, first.verdict.due) == ("deferred", ("maintenance",), MIDNIGHT)
    [approved] = operations.approve([first.id], comment="quiet night", actor="ada")
    assert (approved.status, approved.due, approved.until, approved.arm) == ("approved", MIDNIGHT, MORNING, 0)
    assert operations.orders.listed()[1][0].record.id == first.id
    operations.tell({first.id: 0.6})
    night.at(MIDNIGHT - timedelta(seconds=1))
    assert night.status(first.id) == "approved"
    again = ask(operations, a=5, b=2)
    assert (again["a"].status, again["a"].verdict and again["a"].verdict.codes) == ("refused", ("order", "maintenance"))
    assert night.status(made["b"].id) == "expired"
    assert again["b"].status == "waiting"
    night.at(MIDNIGHT)
    assert (night.status(first.id), night.runs()) == ("ordered", [0, 0, 0])
    done = operations.confirm(first.id, comment="set", actor="nms")
    assert (done.status, night.runs(), done.decided_by) == ("applied", [3, 0, 0], "ada")
    operations.tell({again["a"].id: 0.9})
    assert learned(operations) == [(0, 0, 0.6), (0, 3, 0.9)]
    assert [(step.status, step.actor) for step in done.steps] == [
        ("waiting", ""),
        ("approved", "ada"),
        ("ordered", ""),
        ("applied", "nms"),
    ]
    seq = operations.read_model.seq
    assert operations.confirm(first.id, actor="nms").status == "applied"
    assert operations.read_model.seq == seq
    assert operations.orders.listed()[1] == []
    night.check()


def test_an_order_that_fails_leaves_the_station_as_it_was(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3)["a"]
    operations.approve([made.id], actor="ada")
    night.at(MIDNIGHT + timedelta(minutes=1))
    failed = operations.fail(made.id, why="the cell is locked", actor="nms")
    assert (failed.status, failed.steps[-1].comment, night.runs()[0]) == ("failed", "the cell is locked", 0)
    assert operations.fail(made.id, actor="nms").steps == failed.steps
    with pytest.raises(ConflictError, match=r"no longer ordered.*is failed since 2026-03-05 00:01 UTC, by 'nms'"):
        operations.confirm(made.id)
    operations.tell({made.id: 0.5})
    assert learned(operations) == [(0, 0, 0.5)]
    assert ask(operations, a=3)["a"].status == "waiting"
    night.check()


def test_what_is_not_confirmed_in_time_expires_and_a_late_word_still_counts(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=3)
    operations.approve([made["a"].id, made["b"].id], actor="ada")
    night.at(MIDNIGHT)
    night.at(MORNING)
    assert [night.status(made[name].id) for name in "ab"] == ["expired", "expired"]
    assert [(one.record.station, one.back) for one in operations.orders.overdue()] == [("a", 0), ("b", 0)]
    assert operations.confirm(made["a"].id, actor="nms").status == "applied"
    assert night.runs() == [3, 0, 0]
    assert [one.record.station for one in operations.orders.overdue()] == ["b"]

    with pytest.raises(ConflictError, match="nothing to fail"):
        operations.fail(made["b"].id)
    night.check()


def test_what_nobody_confirmed_is_overdue_for_a_day_or_until_its_station_has_another_order(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=3, c=3)
    operations.approve([made["a"].id, made["b"].id], actor="ada")
    night.at(MIDNIGHT)
    assert operations.orders.overdue() == []
    night.at(MORNING)
    assert operations.orders.listed()[1] == []
    assert [one.record.station for one in operations.orders.overdue()] == ["a", "b"]
    operations.turns.snapshot()
    again = Operations.open(operations.ledger, policy=Wish.build, clock=night.clock)
    assert [one.record.station for one in again.orders.overdue()] == ["a", "b"]
    night.at(MORNING + timedelta(hours=12))
    operations.approve([ask(operations, a=2)["a"].id], actor="ada")
    assert [one.record.station for one in operations.orders.overdue()] == ["b"]
    night.at(MORNING + timedelta(days=1))
    assert operations.orders.overdue() == []
    night.check()


@pytest.mark.parametrize("status", ["waiting", "approved", "rejected", "kept"])
def test_what_was_never_ordered_cannot_be_confirmed(night: Night, status: str) -> None:
    operations = night.operations
    made = ask(operations, a=0 if status == "kept" else 3)["a"]
    if status in ("approved", "rejected"):
        (operations.approve if status == "approved" else operations.reject)([made.id], actor="ada")
    for act in (operations.confirm, operations.fail):
        with pytest.raises(ConflictError, match=rf"is not ordered, so there is nothing to \w+: it is {status} since"):
            act(made.id)


def test_an_approval_is_taken_back_before_it_is_ordered_and_not_after(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=3)
    operations.approve([made["a"].id, made["b"].id], actor="ada")
    operations.tell({made["a"].id: 0.5})
    assert operations.withdraw([made["a"].id], comment="a match", actor="bob")[0].status == "waiting"
    assert [one.id for one in operations.read_model.waiting()] == [made["a"].id]
    night.at(MIDNIGHT)
    assert [night.status(made[name].id) for name in "ab"] == ["waiting", "ordered"]
    with pytest.raises(ConflictError, match="it is ordered since"):
        operations.withdraw([made["b"].id])
    night.check()
    assert ask(operations, a=2)["a"].status == "waiting"
    assert night.status(made["a"].id) == "expired"
    with pytest.raises(ConflictError, match="it is expired"):
        operations.approve([made["a"].id])


def test_who_comes_second_is_told_who_was_first(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3)["a"]
    other = Operations.open(operations.ledger, policy=Wish.build, clock=night.clock)
    said: list[str] = []

    def act(who: Operations, do: Callable[..., Any], actor: str) -> None:
        try:
            do(who)([made.id], actor=actor)
            said.append(f"{actor} won")
        except ConflictError as error:
            said.append(str(error))

    threads = [
        Thread(target=act, args=(operations, lambda one: one.approve, "ada")),
        Thread(target=act, args=(other, lambda one: one.reject, "bob")),
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    won, lost = sorted(said, key=len)
    winner = won.split()[0]
    assert f"since 2026-03-04 18:32 UTC, by '{winner}'" in lost


def test_several_processes_order_what_is_due_once(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=3, c=3)
    operations.approve([one.id for one in made.values()], actor="ada")
    others = [Operations.open(operations.ledger, policy=Wish.build, clock=night.clock) for _ in range(2)]
    night.clock.now = MIDNIGHT
    threads = [Thread(target=one.orders.settle) for one in (operations, *others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ordered = [event.decision for event in operations.ledger.read(kinds=["order"])]
    assert sorted(map(str, ordered)) == sorted(one.id for one in made.values())


def test_a_round_that_is_full_takes_the_rest_later_in_the_window(ledger: Ledger) -> None:
    night = Night(ledger, NIGHT + "changes: {per_round: 1, round: 15min}\n")
    made = ask(night.operations, a=3, b=3, c=3)
    night.operations.approve([one.id for one in made.values()], actor="ada")
    seen = []
    for minutes in (0, 5, 20, 40):
        night.at(MIDNIGHT + timedelta(minutes=minutes))
        seen.append([night.status(made[name].id) for name in STATIONS])
        for listed in night.operations.orders.listed()[1]:
            if listed.record.status == "ordered":
                night.operations.confirm(listed.record.id)
    assert seen == [
        ["ordered", "approved", "approved"],
        ["applied", "approved", "approved"],
        ["applied", "ordered", "approved"],
        ["applied", "applied", "ordered"],
    ]
    night.check()


def test_what_comes_in_between_is_reviewed_when_it_is_due(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=3, c=3)
    operations.approve([one.id for one in made.values()], actor="ada")
    operations.freeze("a", why="complaints", actor="bob")
    operations.set_rails(NIGHT + "stations:\n  b: {tilt: {max: 2}}\n", actor="bob")
    night.at(MIDNIGHT)
    assert [night.status(one.id) for one in made.values()] == ["refused", "refused", "ordered"]
    assert operations.decision(made["a"].id).steps[-1].comment == "keeps tilt=0: station 'a' is frozen: complaints"
    operations.stop(why="outage", actor="bob")
    [held] = operations.orders.listed()[1]
    assert held.held is not None
    assert held.held.code == "stop"
    operations.set_mode("shadow", ["c"], actor="bob")
    assert night.status(made["c"].id) == "expired"
    night.check()


def test_nothing_is_ordered_during_a_stop_and_what_is_left_goes_on_afterwards(night: Night) -> None:
    operations = night.operations
    made = ask(operations, a=3, b=3)
    operations.approve([one.id for one in made.values()], actor="ada")
    operations.stop(why="outage", actor="bob")
    night.at(MIDNIGHT)
    assert [night.status(one.id) for one in made.values()] == ["approved", "approved"]
    operations.remove_station("b")
    operations.resume(actor="bob")
    night.at(MIDNIGHT + timedelta(hours=1))
    assert [night.status(one.id) for one in made.values()] == ["ordered", "expired"]
    night.check()


def test_a_roll_back_ends_what_was_approved(night: Night) -> None:
    operations = night.operations
    first = ask(operations, a=3)["a"]
    operations.approve([first.id], actor="ada")
    night.at(MIDNIGHT)
    operations.confirm(first.id, actor="nms")
    night.clock.now = MORNING
    second = ask(operations, a=5)["a"]
    operations.approve([second.id], actor="ada")
    operations.roll_back("a", actor="bob")
    assert (night.status(second.id), night.runs()[0]) == ("expired", 0)
    assert operations.orders.listed()[1] == []
    night.check()


def test_where_orders_are_assumed_the_change_is_made_when_its_window_opens(ledger: Ledger) -> None:
    night = Night(ledger, manner=None)
    made = ask(night.operations, a=3, b=4)
    night.operations.approve([made["a"].id], actor="ada")
    night.operations.tell({one.id: 0.5 for one in made.values()})
    night.at(MIDNIGHT)
    assert (night.status(made["a"].id), night.runs()) == ("applied", [3, 0, 0])
    assert ask(night.operations, b=4)["b"].status == "waiting"
    night.check()


def test_in_autonomous_the_window_is_waited_for_and_orders_are_confirmed(ledger: Ledger) -> None:
    night = Night(ledger, mode="autonomous")
    evening = ask(night.operations, a=3)["a"]
    assert (evening.status, evening.due, evening.arm) == ("approved", MIDNIGHT, 0)
    assert night.operations.withdraw([evening.id], actor="ada")[0].status == "rejected"
    night.at(MIDNIGHT)
    by_night = ask(night.operations, a=2)["a"]
    assert (by_night.status, by_night.until) == ("ordered", MORNING)
    assert night.operations.applied(by_night.id).status == "applied"
    assert night.runs()[0] == 2
    night.check()


def test_what_runs_is_reported_for_an_order_of_an_earlier_slot(night: Night) -> None:
    operations = night.operations
    first = ask(operations, a=3)["a"]
    operations.approve([first.id], actor="ada")
    night.at(MIDNIGHT)
    present = ask(operations, a=3)["a"]
    operations.confirm(first.id, actor="nms")
    seq = operations.read_model.seq
    assert operations.applied(present.id).status == "refused"
    assert operations.read_model.reported("a") == (present.id, 3, "")
    assert operations.read_model.seq == seq
    operations.applied(present.id, {"tilt": 0}, actor="nms")
    assert night.runs()[0] == 0
    night.check()


def test_a_death_between_two_steps_loses_and_doubles_nothing(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = night.operations
    made = ask(operations, a=3)["a"]
    operations.approve([made.id], actor="ada", key="one")
    for moment, act in ((MIDNIGHT, "settle"), (MIDNIGHT, "confirm")):
        night.clock.now = moment
        before = operations.read_model.seq
        with monkeypatch.context() as broken:

            def die(*_: Any, **__: Any) -> Any:
                raise OSError("killed")

            broken.setattr("kinband.service.operations.turns.Turn.write", die)
            with suppress(OSError):
                operations.orders.settle() if act == "settle" else operations.confirm(made.id, key="two")
        again = Operations.open(operations.ledger, policy=Wish.build, clock=night.clock)
        assert again.read_model.seq == before
        again.orders.settle() if act == "settle" else again.confirm(made.id, key="two")
        operations.refresh()
    assert operations.confirm(made.id, key="two").status == "applied"
    assert [event.kind for event in operations.ledger.read(kinds=["order", "applied"])] == ["order", "order", "applied"]

    night.check()
