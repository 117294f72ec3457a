"""What happens is told at least once, by one process, and nobody waits for it: on both stores, to real receivers."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import pytest
from sqlalchemy import inspect, text
from tests.support.operations_life import Clock, ask, begin
from tests.support.receivers import Receiver, free_port, web_receiver

from kinband.service.ledger import Event, Ledger, LedgerUnavailableError
from kinband.service.ledger.alone import TELLS, OnlyOne
from kinband.service.notify.alarms import Alarms
from kinband.service.notify.cursors import Cursors
from kinband.service.notify.notices import _in_words, notices_of
from kinband.service.notify.notifier import Deliveries, Figures, Follower, Notifier, space_of
from kinband.service.notify.settings import TOPICS, Secret, Settings, Target, Webhook
from kinband.service.operations import Operations

SECRET = Secret("a secret of 24 bytes or more")


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with closing(Ledger.open(url)) as opened:
        yield opened


@pytest.fixture
def web() -> Iterator[Receiver]:
    with web_receiver() as found:
        yield found


def target(receiver: Receiver, *topics: str, name: str = "noc", **further: Any) -> Target:
    return Target(name, Webhook(receiver.url, SECRET), frozenset(topics or TOPICS), **({"timeout": 0.5} | further))


class Told:
    """A target that is told step by step, as by a process of its own."""

    def __init__(self, operations: Operations, one: Target, settings: Settings | None = None) -> None:
        self.settings = settings or Settings((one,))
        self.now, self.figures = 0.0, Figures()
        self.alarms = Alarms(operations, self.settings)
        self.follower = Follower(one, operations, self.alarms, self.settings, self.figures, stopwatch=lambda: self.now)
        self.follower.step(1.0)  # from now on

    def step(self) -> float:
        self.alarms.look()
        return self.follower.step(1.0)


def texts(receiver: Receiver) -> list[str]:
    return [notice["text"] for body in receiver.bodies() for notice in body["notices"]]


def test_a_round_that_waits_is_one_message_and_what_is_approved_is_to_be_made(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger, mode="assist")
    told = Told(operations, target(web))
    made = ask(operations, a=3, b=2, c=0)
    told.step()
    operations.approve([made["a"].id], actor="ada")
    told.step()
    waiting, orders = web.bodies()
    [notice] = waiting["notices"]
    assert (notice["topic"], notice["text"]) == ("approvals", "2 changes wait for approval: a, b.")
    assert [(one["station"], one["from"], one["to"]) for one in notice["changes"]] == [
        ("a", {"tilt": 0}, {"tilt": 3}), ("b", {"tilt": 0}, {"tilt": 2}),
    ]  # fmt: skip
    [notice] = orders["notices"]
    assert (notice["topic"], notice["changes"][0]["decision"]) == ("orders", made["a"].id)
    assert told.step() == 1.0
    assert len(web.came) == 2


def test_a_roll_back_by_the_guard_a_stop_and_rails_are_told(ledger: Ledger, web: Receiver) -> None:
    text = "fallback: {drop: 0.1, slots: 1, before: 1}\n"
    operations = begin(ledger, text=text, mode="autonomous")
    told = Told(operations, target(web, "roll-backs", "stop", "rails"))
    clock = operations._standing.time._clock
    for tilt, reward in ((0, 0.9), (3, 0.2), (3, 0.2)):
        made = ask(operations, a=tilt)
        operations.tell({made["a"].id: reward})
        assert isinstance(clock, Clock)
        clock.pass_(minutes=15)
    told.step()
    operations.stop(why="smoke", actor="ada")
    operations.freeze("b", actor="ada")
    told.step()
    operations.resume(actor="bob")
    operations.set_rails("{}", actor="cay")
    told.step()
    assert texts(web)[0] == "1 change was taken back by the guard: a."
    assert texts(web)[1:3] == ["ada stopped everything: “smoke”.", "bob resumed operation."]
    assert "cay lifted all guard rails" in texts(web)[3]
    assert len(web.bodies()) == 3


def test_what_the_network_manager_is_to_make_and_could_not_is_told(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger)
    verdict = {"outcome": "rolled back", "running": 3, "arm": 1}
    events = [
        Event(1, "approval", "t1", "ada", "a", "d1", None, None, None,
              json.dumps({"status": "ordered", "verdict": verdict | {"outcome": "allowed"}, "until": "later"}), "c1"),
        Event(2, "order", "t1", "", "b", "d2", None, None, None,
              json.dumps({"status": "ordered", "verdict": verdict}), "c2"),
        Event(3, "order", "t2", "nms", "a", "d1", None, None, None,
              json.dumps({"status": "failed", "comment": "locked"}), "c3"),
        Event(4, "order", "t3", "nms", "b", "d2", None, None, None, json.dumps({"status": "rolled back"}), "c4"),
        Event(5, "applied", "t3", "nms", "b", "d2", None, None, None,
              json.dumps({"arm": 1, "before": 3, "by": "roll-back", "reported": True}), "c5"),
    ]  # fmt: skip
    told = list(notices_of(events, space_of(operations)))
    assert [(one.topic, [change["station"] for change in one.changes]) for one in told] == [
        ("orders", ["a", "b"]), ("roll-backs", ["b"]), ("failed", ["a"]),
    ]  # fmt: skip
    assert told[0].changes[0] == {
        "decision": "d1", "station": "a", "from": {"tilt": 3}, "to": {"tilt": 1}, "until": "later",
    }  # fmt: skip
    assert told[2].changes[0]["comment"] == "locked"


def test_what_waits_for_its_window_is_told_when_it_is_ordered_and_why_it_failed(ledger: Ledger, web: Receiver) -> None:
    clock = Clock()
    night = "maintenance: [{from: '22:00', to: '23:00'}]\n"
    operations = begin(ledger, text=night, mode="assist", manner="confirmed", clock=clock)
    told = Told(operations, target(web, "orders", "failed"))
    made = ask(operations, a=3)
    assert operations.approve([made["a"].id], actor="ada")[0].status == "approved"
    told.step()
    assert not web.came
    clock.pass_(hours=10, minutes=1)
    operations.orders.settle()
    told.step()
    operations.fail(made["a"].id, why="the cell is locked", actor="nms")
    told.step()
    ordered, failed = (notice for body in web.bodies() for notice in body["notices"])
    [change] = ordered["changes"]
    assert (ordered["topic"], change["from"], change["to"]) == ("orders", {"tilt": 0}, {"tilt": 3})
    assert change["until"] == "2026-03-04T23:00:00+00:00"
    assert failed["text"] == "1 change could not be made in the network: a."
    assert _in_words(failed).splitlines()[1:] == ["  a: the cell is locked"]


def test_what_was_not_confirmed_in_time_is_told_with_the_reason(ledger: Ledger, web: Receiver) -> None:
    clock = Clock()
    night = "maintenance: [{from: '22:00', to: '23:00'}]\n"
    operations = begin(ledger, text=night, mode="assist", manner="confirmed", clock=clock)
    told = Told(operations, target(web, "expired"))
    made = ask(operations, a=3, b=3)
    operations.approve([one.id for one in made.values() if one.status == "waiting"], actor="ada")
    for hours in (10.5, 1):  # its window is open, then shut again
        told.step()
        assert not web.came
        clock.pass_(hours=hours)
        operations.orders.settle()
    told.step()
    [expired] = (notice for body in web.bodies() for notice in body["notices"])
    assert expired["topic"] == "expired"
    assert expired["text"] == "2 approved changes have expired (it was not confirmed in time): a, b."
    assert _in_words(expired).splitlines()[1] == "  a: it was not confirmed in time"


def test_the_week_comes_once_when_it_is_over(url: str, web: Receiver) -> None:
    clock = Clock()  # a Wednesday
    with closing(Ledger.open(url, clock=clock)) as ledger:
        operations = begin(ledger, clock=clock)
        told = Told(operations, target(web, "digest"))
        for days in (0, 1, 4, 1, 1):  # up to Wednesday of the next week
            clock.pass_(days=days)
            told.step()
        Told(operations, target(web, "digest")).step()
    [text] = texts(web)
    assert text.startswith("Week 2026-W10: 0 decisions, 0 changes, 0 of them back.")


def test_what_happened_before_a_target_was_named_is_not_told(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger)
    operations.stop(actor="ada")
    told = Told(operations, target(web))
    told.step()
    assert web.came == []


@pytest.mark.parametrize("lost", ["never", 500])
def test_who_was_killed_before_it_was_noted_sends_the_same_again(ledger: Ledger, web: Receiver, lost: Any) -> None:
    operations = begin(ledger)
    first = Told(operations, target(web, "stop"))
    web.answers = [lost]  # it came, and the process that sent it never heard so
    operations.stop(actor="ada")
    assert first.step() >= 1.0
    operations.resume(actor="ada")
    second = Told(operations, target(web, "stop"))
    while second.step() == 0.0:
        pass
    (headers, body), (again, same), (further, _) = web.came
    assert headers["webhook-id"] == again["webhook-id"] != further["webhook-id"]
    assert body == same
    assert texts(web) == ["ada stopped everything.", "ada resumed operation."]


def test_a_target_that_fails_is_tried_ever_more_rarely_and_as_it_wishes(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger)
    told = Told(operations, target(web, "stop"))
    web.answers = [500, 500, 500, 500]
    operations.stop(actor="ada")
    assert [told.step() for _ in range(3)] == [1.0, 2.0, 4.0]
    web.headers = {"Retry-After": "90"}
    assert told.step() == 90.0
    told.step()
    assert (told.figures.sent, told.figures.failed, told.figures.why) == (1, 4, "")


def test_a_message_that_is_refused_for_a_day_is_given_up_and_the_next_one_sent(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger)
    told = Told(operations, target(web, "stop"))
    web.answers = [422, 422]
    operations.stop(actor="ada")
    told.step()
    told.now += 86_401
    told.step()
    operations.resume(actor="ada")
    told.step()
    assert (told.figures.given_up, texts(web)) == (1, ["ada resumed operation."])


def test_more_than_the_limit_is_held_back_and_told_together(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger)
    told = Told(operations, target(web, "stop", per_hour=2))
    for _ in range(4):
        operations.stop(actor="ada")
        told.step()
        operations.resume(actor="ada")
        told.step()
    assert len(web.came) == 2
    told.now += 3601
    told.step()
    *_, last = web.bodies()
    assert len(last["notices"]) == 6
    assert last["subject"] == "6 notices: 6 stop"
    assert "by the limit of 2 messages an hour" in last["held"]


def test_a_long_backlog_comes_in_messages_of_bounded_size(ledger: Ledger, web: Receiver) -> None:
    operations = begin(ledger)
    told = Told(operations, target(web, "stop"))
    for _ in range(60):
        operations.stop(actor="ada")
        operations.resume(actor="ada")
    while told.step() == 0.0:
        pass
    counts = [len(body["notices"]) for body in web.bodies()]
    assert sum(counts) == 120
    assert max(counts) == 50
    assert len({notice["id"] for body in web.bodies() for notice in body["notices"]}) == 120


def test_silence_of_a_station_and_of_all_is_told_once_and_when_it_is_over(url: str, web: Receiver) -> None:
    clock = Clock()
    settings = Settings((), station_silent=timedelta(hours=2), all_silent=timedelta(hours=6))
    with closing(Ledger.open(url, clock=clock)) as ledger:
        operations = begin(ledger, mode="autonomous", clock=clock)
        told = Told(operations, target(web, "silence"), settings)
        made = ask(operations, a=1, b=1)  # nobody ever asks for c
        told.step()
        clock.pass_(hours=3)
        operations.tell({made["a"].id: 0.5})
        for _ in range(3):
            told.step()
        clock.pass_(hours=7)
        anew = Told(operations, target(web, "silence"), settings)  # started anew, it knows what it has told
        for _ in range(3):
            anew.step()
        operations.tell({made["b"].id: 0.5})
        anew.step()
    silent, everyone, over = texts(web)[0], texts(web)[1], " ".join(texts(web)[2:])
    assert silent == "b has had no reward for longer than 2 hours, since 4 Mar 2026 12:00 UTC."
    assert everyone.startswith("No reward of any station has come for 7 hours, since 4 Mar 2026 15:00 UTC.")
    assert over == "Rewards come again. b has rewards again."
    assert len(web.came) == 3


def test_a_clock_in_doubt_and_a_ledger_that_takes_nothing_are_told(
    ledger: Ledger, web: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    operations = begin(ledger, clock=clock, mode="autonomous")
    told = Told(operations, target(web, "clock", "store"))
    ask(operations, a=1)
    clock.pass_(days=-2)

    def full() -> None:
        raise LedgerUnavailableError("the disk under the ledger is full", code="full")

    monkeypatch.setattr(operations.turns.writable, "check", full)
    told.alarms._tried = clock.now.replace(year=2000, tzinfo=None)
    told.step()
    monkeypatch.undo()
    clock.pass_(days=3)
    operations.set_clock(actor="ada") if operations.reading().doubt else None
    told.alarms._tried = clock.now.replace(year=2000, tzinfo=None)
    told.step()
    said = " ".join(texts(web))
    assert "Nothing changes, since the time is in doubt" in said
    assert "Nothing is decided: the disk under the ledger is full." in said
    assert "The ledger takes events again." in said


def test_an_alarm_is_told_while_the_database_is_away(
    ledger: Ledger, web: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = begin(ledger)
    told = Told(operations, target(web, "store"))

    def away(*_: Any, **__: Any) -> None:
        raise LedgerUnavailableError("the ledger cannot be reached")

    monkeypatch.setattr(operations.turns.writable, "check", away)
    monkeypatch.setattr(Ledger, "head", away)
    monkeypatch.setattr(Cursors, "save", away)
    for _ in range(3):
        told.step()
    assert texts(web) == ["Nothing is decided: the ledger cannot be reached."]


def test_of_two_processes_one_tells_and_the_other_goes_on(url: str, ledger: Ledger, web: Receiver) -> None:
    first = begin(ledger)
    with ExitStack() as stack:
        beside = stack.enter_context(closing(Ledger.open(url)))
        second = begin(beside)
        both = [Notifier(one, Settings((target(web, "stop"),)), poll=0.05) for one in (first, second)]
        both[0].start()
        _until(lambda: placed(ledger) == 1)
        both[1].start()
        sleep(0.3)
        assert not both[1]._tells
        first.stop(actor="ada")
        web.wait(1)
        both[0].end()
        first.resume(actor="ada")
        second.stop(actor="bob")
        web.wait(2)
        both[1].end()
    assert list(texts(web)) == [
        "ada stopped everything.", "ada resumed operation.", "bob stopped everything.",
    ]  # fmt: skip
    assert len({headers["webhook-id"] for headers, _ in web.came}) == len(web.came)


def test_a_lock_that_is_lost_with_its_connection_is_taken_again(url: str, ledger: Ledger) -> None:
    begin(ledger)
    lock = OnlyOne(ledger, *TELLS)
    assert lock.take()
    if lock._connection is not None:
        lock._connection.connection.driver_connection.close()  # type: ignore[union-attr]
        with pytest.raises(LedgerUnavailableError):
            lock.take()
    assert lock.take()
    with closing(Ledger.open(url)) as beside:
        other = OnlyOne(beside, *TELLS)
        assert not other.take()
        lock.give_up()
        assert other.take()
        other.give_up()


def test_targets_that_are_slow_broken_or_away_hold_up_neither_decisions_nor_others(
    ledger: Ledger, web: Receiver
) -> None:
    operations = begin(ledger, mode="autonomous")
    with web_receiver() as silent, web_receiver() as broken:
        silent.answers, broken.answers = ["never"] * 50, [500] * 50
        away = Receiver(free_port())
        targets = (
            target(silent, name="silent", timeout=60.0), target(broken, name="broken"), target(away, name="away"),
            target(web, name="well"),
        )  # fmt: skip
        notifier = Notifier(operations, Settings(targets), poll=0.02)
        notifier.start()
        _until(lambda: placed(ledger) == 4)  # every target has its place, from which on it is told
        began = monotonic()
        for tilt in range(1, 6):
            ask(operations, a=tilt)
        lasted = monotonic() - began
        web.wait(1)
        _until(lambda: silent.came and broken.came and notifier.figures["away"].failed)
        figures = {
            (sample.name.removeprefix("kinband_messages_"), sample.labels["target"]): sample.value
            for metric in Deliveries(notifier).collect()
            for sample in metric.samples
        }
        silent.ended.set()
        notifier.end()
    assert lasted < 10  # one message alone is waited for a minute
    assert figures["sent_total", "well"] >= 1
    assert figures["failed_total", "away"] >= 1
    assert figures["sent_total", "silent"] == 0
    assert figures["failing_seconds", "broken"] > 0


def test_nothing_secret_is_logged(ledger: Ledger, web: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    operations = begin(ledger)
    told = Told(operations, target(web, "stop"))
    web.answers = [500]
    operations.stop(actor="ada")
    told.step()
    assert "noc was not told (try 1)" in caplog.text
    assert "a-secret-path" not in caplog.text
    assert SECRET.text not in caplog.text


def placed(ledger: Ledger) -> int:
    """How many targets have their place in the ledger."""
    with ledger.reading() as connection:
        if not inspect(connection).has_table("notify_cursors"):
            return 0
        return int(connection.execute(text("SELECT count(*) FROM notify_cursors")).scalar_one())


def _until(true: Any, seconds: float = 60.0) -> None:
    end = monotonic() + seconds
    while not true():
        assert monotonic() < end
        sleep(0.01)
