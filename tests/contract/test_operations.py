"""One suite for every store: what operations do in each mode, what people do, and that it all survives."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Connection, RootTransaction
from tests.support.ledger_stores import fresh_database
from tests.support.operations_life import NOON, SPACE, Clock, Wish, ask, begin, learned, rails, want, whole, wishful

from kinband import Controller
from kinband.controller.events import entry_to_dict
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.guardrails import Stopped
from kinband.service.ledger import Draft, Ledger, LedgerUnavailableError, replay
from kinband.service.ledger.asked import fingerprint
from kinband.service.ledger.engines import LOCK, WRITING
from kinband.service.ledger.store import Writable, Writer
from kinband.service.operations import Operations
from kinband.service.operations import clock as operations_clock


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    sqlite = request.param == "sqlite"
    opened = Ledger.open(str(tmp_path / "l.db") if sqlite else fresh_database(request.getfixturevalue("server")))
    yield opened
    opened.close()


def reopened(operations: Operations) -> Operations:
    """Another process at the same ledger."""
    policy, clock = operations.setup.config.policy, Clock(operations.now())
    own = None if isinstance(policy, str) else policy
    limits, text = operations.guard.rails, _text(operations)
    return Operations.open(operations.ledger, rails=limits, rails_text=text, clock=clock, policy=own)


def check_the_record(operations: Operations) -> None:
    """ReadModel and beliefs are those of somebody who reads the ledger from its beginning, and the chain holds."""
    again = reopened(operations)
    assert whole(again) == whole(operations)
    journals = [[json.dumps(entry_to_dict(e)) for e in o.controller.journal] for o in (again, operations)]
    assert journals[0] == journals[1]
    assert operations.ledger.verify() == len(list(operations.ledger.read()))


def _text(operations: Operations) -> str:
    found = list(operations.ledger.read(kinds=["rails"]))
    return str(found[-1].payload["text"]) if found else ""


def kinds(operations: Operations) -> list[str]:
    return [event.kind for event in operations.ledger.read()]


STEPS = "knobs:\n  tilt: {step: 2}\n"
FALLING = "fallback: {drop: 0.1, slots: 2, watch: [own], retry_after: 2d}\n"


# --- Modes --------------------------------------------------------------------------------------------------


def test_in_shadow_nothing_changes_and_rewards_are_learned_for_what_runs(ledger: Ledger) -> None:
    operations = begin(ledger)
    made = ask(operations, a=3, b=0)
    assert [(i.status, i.arm, i.decision.arm, i.running) for i in made.values()] == [
        ("shadow", 0, 3, 0),
        ("kept", 0, 0, 0),
    ]
    operations.tell({made["a"].id: 0.7, made["b"].id: 0.4})
    assert learned(operations) == [(0, 0, 0.7), (1, 0, 0.4)]
    assert "applied" not in kinds(operations)
    assert [station_state.running for station_state in operations.read_model.stations.values()] == [0, 0, 0]


def test_in_autonomous_the_verdict_is_carried_out_at_once(ledger: Ledger) -> None:
    operations = begin(ledger, text=STEPS, mode="autonomous")
    made = ask(operations, a=2, b=4, c=0)
    seen = [(i.status, i.arm, i.verdict and i.verdict.outcome) for i in made.values()]
    assert seen == [("applied", 2, "allowed"), ("applied", 2, "replaced"), ("kept", 0, "allowed")]
    operations.tell({record.id: 0.1 * n for n, record in enumerate(made.values())})
    assert learned(operations) == [(0, 2, 0.0), (1, 2, 0.1), (2, 0, 0.2)]
    station_state = operations.read_model.stations["b"]
    assert (station_state.running, station_state.before, station_state.changed, station_state.changed_by) == (
        2,
        0,
        NOON,
        "controller",
    )
    assert operations.read_model.counts == {
        "decisions": 3, "pending": 0, "applied": 2, "kept": 1, "replaced": 1, "told": 3,
    }  # fmt: skip
    check_the_record(operations)


def test_in_assist_a_change_waits_and_the_station_goes_on(ledger: Ledger) -> None:
    operations = begin(ledger, text=STEPS, mode="assist")
    made = ask(operations, a=5, b=0)
    record = made["a"]
    assert (record.status, record.arm, record.wanted, record.changes) == ("waiting", 0, 2, True)
    assert made["b"].status == "kept"
    assert [waiting.id for waiting in operations.read_model.waiting()] == [record.id]
    approved = operations.approve([record.id], comment="looks good", actor="ada")[0]
    assert (approved.status, approved.arm, approved.decided_by, approved.comment) == ("applied", 2, "ada", "looks good")
    assert operations.read_model.waiting() == []
    operations.tell({record.id: 0.8})
    assert learned(operations) == [(0, 2, 0.8)]
    assert operations.read_model.counts["approved"] == operations.read_model.counts["applied"] == 1
    check_the_record(operations)


def test_what_is_rejected_is_learned_for_what_ran(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    made = ask(operations, a=3, b=4)
    rejected = operations.reject([record.id for record in made.values()], comment="not now", actor="bob")
    assert [(i.status, i.comment, i.decided_by, i.arm) for i in rejected] == [("rejected", "not now", "bob", 0)] * 2
    with pytest.raises(ConflictError, match="does not wait for anybody: it is rejected"):
        operations.approve([made["a"].id])
    operations.tell({made["a"].id: 0.3})
    assert learned(operations) == [(0, 0, 0.3)]
    assert operations.read_model.counts["rejected"] == 2
    check_the_record(operations)


@pytest.mark.parametrize("how", ["asked again", "told", "shadow", "autonomous", "left", "called off"])
def test_what_waits_expires_and_is_learned_for_what_ran(ledger: Ledger, how: str) -> None:
    operations = begin(ledger, mode="assist")
    record = ask(operations, a=3)["a"]
    match how:
        case "asked again":
            ask(operations, a=4)
        case "told":
            pass
        case "shadow" | "autonomous" as mode:
            operations.set_mode(mode, ["a"])
        case "left":
            assert operations.remove_station("a") == [record.id]
        case "called off":
            operations.call_off(record.id)
    if how != "called off":
        operations.tell({record.id: 0.6})
        assert learned(operations) == [(0, 0, 0.6)]
    assert operations.decision(record.id).status == "expired"
    assert record.id not in [waiting.id for waiting in operations.read_model.waiting()]
    assert operations.read_model.counts["expired"] == 1
    with pytest.raises(ConflictError, match="it is expired"):
        operations.approve([record.id])
    check_the_record(operations)


def test_modes_are_set_for_some_for_all_and_for_newcomers(ledger: Ledger) -> None:
    operations = begin(ledger)
    operations.set_mode("autonomous", ["b", "b"], comment="trial", actor="ada")
    made = ask(operations, a=2, b=2)
    assert [record.status for record in made.values()] == ["shadow", "applied"]
    operations.set_mode("assist")
    operations.add_station("d", running={"tilt": 3})
    assert [station_state.mode for station_state in operations.read_model.stations.values()] == ["assist"] * 4
    assert ask(operations, d=4)["d"].status == "waiting"
    with pytest.raises(NotFoundError, match="no station 'nobody'"):
        operations.set_mode("shadow", ["nobody"])
    with pytest.raises(BadInputError, match="a mode is one of"):
        operations.set_mode("auto")  # type: ignore[arg-type]
    check_the_record(operations)


# --- The guard again ----------------------------------------------------------------------------------------


def test_an_approval_is_held_against_the_rails_of_its_own_time(ledger: Ledger) -> None:
    text = 'maintenance:\n  - {from: "11:00", to: "14:00"}\n'
    clock = Clock()
    operations = begin(ledger, text=text, mode="assist", clock=clock)
    made = ask(operations, a=3)
    clock.pass_(hours=2)
    late = operations.approve([made["a"].id], actor="ada")[0]
    assert (late.status, late.arm, late.decided_by) == ("approved", 0, "ada")
    assert late.verdict is not None
    assert (late.verdict.codes, late.due) == (("maintenance",), NOON + timedelta(hours=23))
    operations.tell({made["a"].id: 0.5})
    assert learned(operations) == [(0, 0, 0.5)]
    check_the_record(operations)


def test_a_stop_holds_up_what_is_approved_after_it(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    made = ask(operations, a=3, b=3)
    operations.stop(why="outage", actor="ada")
    assert whole(operations)["stopped"] == "outage"
    assert operations.approve([made["a"].id])[0].verdict.codes == ("stop",)  # type: ignore[union-attr]
    operations.resume()
    assert operations.approve([made["b"].id])[0].status == "applied"
    operations.freeze("c", why="antenna swap")
    assert whole(operations)["cards"]["c"]["frozen"] == "antenna swap"
    assert ask(operations, c=4)["c"].status == "refused"
    operations.thaw("c")
    assert operations.read_model.stations["c"].frozen is None
    check_the_record(operations)


def test_a_bulk_approval_uses_up_what_a_round_allows(ledger: Ledger) -> None:
    text = "changes: {per_round: 2, round: 1h}\n"
    clock = Clock()
    operations = begin(ledger, text=text, mode="assist", clock=clock)
    first = {name: ask(operations, **{name: 3})[name] for name in "abc"}  # each alone: none is a change yet
    clock.pass_(minutes=10)
    ids = [first[name].id for name in "cab"]
    judged = operations.approve(ids, key="tonight")
    assert [(record.station, record.status) for record in judged] == [
        ("c", "applied"),
        ("a", "applied"),
        ("b", "refused"),
    ]
    assert operations.approve(ids, key="tonight") == judged
    assert kinds(operations).count("approval") == 3
    check_the_record(operations)


def test_the_guard_rolls_back_what_made_rewards_fall(ledger: Ledger) -> None:
    clock = Clock()
    operations = begin(ledger, text=FALLING, mode="autonomous", clock=clock)
    for hour, (tilt, reward) in enumerate([(0, 0.9), (0, 0.8), (3, 0.5), (3, 0.4)]):
        record = ask(operations, a=tilt)["a"]
        operations.tell({record.id: reward}, key=f"hour {hour}")
        clock.pass_(hours=1)
    back = ask(operations, a=3)["a"]
    assert (back.status, back.arm, back.decision.arm) == ("rolled back", 0, 3)
    operations.tell({back.id: 0.9})
    assert learned(operations)[-1] == (0, 0, 0.9)
    station_state = operations.read_model.stations["a"]
    assert (station_state.running, station_state.changed_by, station_state.before) == (0, "roll-back", None)
    clock.pass_(hours=1)
    assert ask(operations, a=3)["a"].verdict.codes == ("retry",)  # type: ignore[union-attr]
    check_the_record(operations)


def test_in_assist_the_slot_of_an_approved_change_is_held_against_those_before_it(ledger: Ledger) -> None:
    clock = Clock()
    operations = begin(ledger, text=FALLING, mode="assist", clock=clock)
    for reward, tilt in [(0.9, 0), (0.9, 0), (0.4, 3), (0.4, 3)]:
        record = ask(operations, a=tilt)["a"]
        clock.pass_(minutes=20)
        if record.status == "waiting":
            operations.approve([record.id])
        operations.tell({record.id: reward})
        clock.pass_(minutes=40)
    assert ask(operations, a=3)["a"].status == "rolled back"
    check_the_record(operations)


# --- Changes by hand ----------------------------------------------------------------------------------------


def test_a_change_by_hand_counts_as_one_and_is_never_rolled_back(ledger: Ledger) -> None:
    clock = Clock()
    operations = begin(ledger, text=FALLING + "changes: {min_time: 4h}\n", mode="autonomous", clock=clock)
    record = operations.ask({"a": want(3)}, running={"a": {"tilt": 5}})[0]
    assert (record.status, record.running, record.arm) == ("refused", 5, 5)
    assert record.verdict is not None
    assert record.verdict.codes == ("min_time",)
    station_state = operations.read_model.stations["a"]
    assert (station_state.running, station_state.before, station_state.changed_by) == (5, 0, "network")
    for reward in (0.9, 0.1, 0.1):
        operations.tell({record.id: reward})
        clock.pass_(hours=1)
        record = ask(operations, a=5)["a"]
        assert record.status == "kept"
    clock.pass_(hours=3)
    assert ask(operations, a=3)["a"].status == "applied"
    check_the_record(operations)


def test_what_a_station_runs_may_become_known_without_being_a_change(ledger: Ledger) -> None:
    operations = begin(ledger, wishful(running=None), text="changes: {min_time: 4h}\n", mode="autonomous")
    record = operations.ask({"a": want(3)}, running={"a": {"tilt": 1}})[0]
    assert (record.status, record.running, record.arm) == ("applied", 1, 3)
    assert operations.read_model.stations["a"].before == 1
    check_the_record(operations)


@pytest.mark.parametrize("mode", ["shadow", "assist", "autonomous"])
def test_nothing_is_decided_that_goes_on_with_what_nobody_knows(ledger: Ledger, mode: str) -> None:
    operations = begin(ledger, wishful(running=None), mode=mode)
    operations.stop()
    before = whole(operations)
    with pytest.raises(BadInputError, match="what 'a' runs is not known"):
        ask(operations, a=3)
    assert whole(operations) == before
    operations.resume()
    if mode == "autonomous":
        assert ask(operations, a=3)["a"].arm == 3
        with pytest.raises(ConflictError, match="nothing to roll back"):
            operations.roll_back("a")  # to what nobody knows
    check_the_record(operations)


def test_the_network_confirms_reports_another_configuration_or_none(ledger: Ledger) -> None:
    operations = begin(ledger, text="changes: {per_day: 1}\n", mode="autonomous")
    made = ask(operations, a=3, b=3, c=3)
    confirmed = operations.applied(made["a"].id)
    assert (confirmed.arm, confirmed.status) == (3, "applied")
    other = operations.applied(made["b"].id, {"tilt": 4}, comment="3 is not supported")
    assert (other.arm, other.comment) == (4, "3 is not supported")
    assert operations.read_model.stations["b"].running == 4
    undone = operations.applied(made["c"].id, {"tilt": 0})
    station_state = operations.read_model.stations["c"]
    assert (
        undone.arm,
        station_state.running,
        station_state.before,
        station_state.changed,
        station_state.changed_by,
    ) == (0, 0, None, None, "")
    operations.tell({record.id: 0.5 for record in made.values()})
    assert learned(operations) == [(0, 3, 0.5), (1, 4, 0.5), (2, 0, 0.5)]
    assert [record.status for record in ask(operations, a=5, b=5, c=5).values()] == ["refused", "refused", "applied"]
    with pytest.raises(ConflictError, match="is not the present one of 'a'"):
        operations.applied(made["a"].id)
    with pytest.raises(BadInputError, match="not a configuration"):
        operations.applied(made["a"].id, {"tilt": 99})
    check_the_record(operations)


def test_that_what_was_decided_runs_is_said_by_naming_nothing_and_noted_once(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    operations.set_mode("assist", ["b"])
    made = ask(operations, a=3, b=4)
    operations.applied(made["a"].id, {"tilt": 5})
    assert operations.applied(made["a"].id).arm == 3  # not what was reported last
    assert operations.applied(made["b"].id).arm == 0  # nobody has approved anything else
    assert operations.decision(made["b"].id).status == "waiting"
    noted = len(kinds(operations))
    for record in made.values():
        operations.applied(record.id)
        operations.applied(record.id, key=f"other {record.id}")
        reopened(operations).applied(record.id)
    assert len(kinds(operations)) == noted
    operations.applied(made["a"].id, comment="seen on site")
    assert len(kinds(operations)) == noted + 1
    check_the_record(operations)


def test_a_change_that_was_never_made_says_so_and_may_be_made_after_all(ledger: Ledger) -> None:
    operations = begin(ledger, text="changes: {per_day: 1}\n", mode="autonomous")
    made = ask(operations, a=3, b=3)
    undone = operations.applied(made["a"].id, {"tilt": 0}, actor="nms")
    assert (undone.status, undone.arm, undone.decided_by) == ("not made", 0, "")
    assert operations.read_model.counts["not made"] == 1
    assert "The network reports that it was not made." in operations.explain(undone.id).text
    assert operations.read_model.latest(status="not made") == [undone]
    done = operations.applied(made["a"].id, actor="nms")
    station_state = operations.read_model.stations["a"]
    assert (done.status, done.arm, station_state.running, station_state.changed_by) == ("applied", 3, 3, "controller")
    assert operations.applied(made["a"].id, {"tilt": 0}).status == "not made"
    operations.tell({made["a"].id: 0.5, made["b"].id: 0.25})
    assert learned(operations) == [(0, 0, 0.5), (1, 3, 0.25)]
    assert [record.status for record in ask(operations, a=4, b=4).values()] == ["applied", "refused"]
    check_the_record(operations)


def test_a_report_on_record_from_before_there_was_a_status_for_it_is_read_the_same(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    record = ask(operations, a=3)["a"]
    said = {"arm": 0, "before": 3, "by": "network", "at": NOON.isoformat(), "comment": "", "taken_back": True}
    ledger.append([Draft("applied", said, station="a", decision=record.id)])
    assert reopened(operations).decision(record.id).status == "not made"


def test_a_report_after_another_one_keeps_the_history_true(ledger: Ledger) -> None:
    operations = begin(ledger, text=STEPS, mode="autonomous")
    record = ask(operations, a=2)["a"]
    operations.applied(record.id, {"tilt": 1})
    operations.applied(record.id, {"tilt": 0})
    assert operations.read_model.stations["a"].running == 0
    assert ask(operations, a=2)["a"].status == "applied"
    check_the_record(operations)


def test_what_a_person_carries_out_by_hand_no_longer_waits(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    record = ask(operations, a=3)["a"]
    done = operations.applied(record.id, {"tilt": 3}, actor="field crew")
    assert (done.status, done.arm, done.decided_by) == ("applied", 3, "field crew")
    assert operations.read_model.waiting() == []
    operations.tell({record.id: 0.4})
    assert learned(operations) == [(0, 3, 0.4)]
    check_the_record(operations)


# --- Roll-back by a person ----------------------------------------------------------------------------------


def test_a_person_rolls_back_step_by_step_and_never_to_and_fro(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    for tilt in (1, 2, 3):
        operations.tell({ask(operations, a=tilt)["a"].id: 0.5})
    record = ask(operations, a=3)["a"]
    operations.stop(why="storm")
    with pytest.raises(ConflictError, match="'a' is not rolled back, since everything is stopped: storm"):
        operations.roll_back("a")
    seen = []
    for _ in range(3):
        station_state = operations.roll_back("a", comment="complaints", override=True, actor="ada")
        seen.append((station_state.running, station_state.before, station_state.changed_by))
    assert seen == [(2, 1, "operator"), (1, 0, "operator"), (0, None, "operator")]
    rolled = operations.decision(record.id)
    assert (rolled.status, rolled.called_off, rolled.comment, rolled.decided_by) == (
        "rolled back",
        True,
        "complaints",
        "ada",
    )
    with pytest.raises(ConflictError, match="nothing to roll back at 'a'"):
        operations.roll_back("a")
    operations.resume()
    ask(operations, a=5)
    assert operations.roll_back("a").running == 0
    check_the_record(operations)


def test_a_roll_back_leads_to_what_ran_last_within_the_rails_whatever_was_reported(ledger: Ledger) -> None:
    operations = begin(ledger, text="knobs: {tilt: {max: 3}}\n", mode="autonomous")
    ask(operations, a=2)
    operations.applied(ask(operations, a=2)["a"].id, SPACE[5])  # a report that is false, or of a change by hand
    ask(operations, a=1)
    operations.freeze("a", why="complaints")
    with pytest.raises(ConflictError, match="since station 'a' is frozen: complaints"):
        operations.roll_back("a")
    operations.thaw("a")
    assert [operations.roll_back("a").running for _ in range(2)] == [2, 0]
    check_the_record(operations)


def test_where_nothing_ran_within_the_rails_somebody_has_to_say_override(ledger: Ledger) -> None:
    operations = begin(ledger, text="knobs: {tilt: {min: 2}}\n", mode="autonomous")
    ask(operations, a=3)
    with pytest.raises(ConflictError, match="nothing that it ran lies within the ranges") as refused:
        operations.roll_back("a")
    assert (refused.value.code, refused.value.argument) == ("held", "override")
    assert operations.roll_back("a", override=True, actor="ada").running == 0
    check_the_record(operations)


def test_what_a_person_rolled_back_is_not_tried_again_at_once(ledger: Ledger) -> None:
    operations = begin(ledger, text=FALLING, mode="autonomous")
    ask(operations, a=3)
    operations.roll_back("a")
    again = ask(operations, a=3)["a"]
    assert again.verdict is not None
    assert (again.arm != 3, again.verdict.refusals[0].code) == (True, "retry")
    check_the_record(operations)


def test_rolling_back_a_station_whose_decision_waits_expires_it(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    ask(operations, a=3)
    operations.set_mode("assist")
    waiting = ask(operations, a=5)["a"]
    assert operations.roll_back("a").running == 0
    record = operations.decision(waiting.id)
    assert (record.status, record.called_off, record.arm) == ("expired", True, 0)
    assert operations.read_model.waiting() == []
    assert operations.read_model.counts["expired"] == 1
    with pytest.raises(NotFoundError):
        operations.roll_back("nobody")
    check_the_record(operations)


# --- Keys and slots -----------------------------------------------------------------------------------------

Act = Callable[[Operations, str | None], Any]
ACTS: dict[str, Act] = {
    "ask": lambda o, key: [replace(i, valid_until=None) for i in o.ask({"a": want(4), "c": want(5)}, key=key)],
    "ask one": lambda o, key: [replace(i, valid_until=None) for i in o.ask({"c": want(1)}, key=key)],
    "tell": lambda o, key: o.tell({"d000001": 0.3, "d000002": 0.4}, key=key),
    "correct": lambda o, key: o.correct("d000003", 0.9, key=key),
    "call off": lambda o, key: o.call_off("d000001", key=key),
    "approve": lambda o, key: o.approve(["d000001", "d000002"], comment="yes", key=key),
    "reject": lambda o, key: o.reject(["d000002", "d000001"], key=key),
    "applied": lambda o, key: o.applied("d000001", {"tilt": 5}, key=key),
    "confirmed": lambda o, key: o.applied("d000002", key=key),
    "roll back": lambda o, key: replace(o.roll_back("c", key=key)),
    "mode": lambda o, key: o.set_mode("autonomous", ["a"], key=key),
    "freeze": lambda o, key: o.freeze("a", why="x", key=key),
    "thaw": lambda o, key: o.thaw("a", key=key),
    "stop": lambda o, key: o.stop(why="x", key=key),
    "resume": lambda o, key: o.resume(key=key),
    "add": lambda o, key: o.add_station("z", similarity={"a": 0.5}, running={"tilt": 2}, key=key),
    "remove": lambda o, key: o.remove_station("a", key=key),
}


def in_the_middle(ledger: Ledger, clock: Clock) -> Operations:
    """Two decisions wait, a third station has changed and earned something."""
    operations = begin(ledger, wishful(similarity="pooled"), mode="assist", clock=clock)
    operations.ask({"a": want(3), "b": want(4)})
    operations.set_mode("autonomous", ["c"])
    operations.tell({operations.ask({"c": want(2)})[0].id: 0.5})
    return operations


@pytest.mark.parametrize("name", ACTS)
def test_a_call_sent_twice_is_done_once_and_answered_the_same(ledger: Ledger, name: str) -> None:
    clock = Clock()
    operations = in_the_middle(ledger, clock)
    first, events = ACTS[name](operations, "k"), len(kinds(operations))
    clock.pass_(minutes=1)
    assert ACTS[name](operations, "k") == first
    assert ACTS[name](reopened(operations), "k") == first
    assert len(kinds(operations)) == events
    others = [other for other in ACTS if other != name and other != "ask one"]
    for other in others:
        with pytest.raises(ConflictError, match="used before for another call"):
            ACTS[other](operations, "k")
    assert len(kinds(operations)) == events
    keyed = [event for event in ledger.read() if event.key == "k"]
    assert len(keyed) == 1
    check_the_record(operations)


def test_a_key_belongs_to_who_uses_it(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    ada = operations.ask({"a": want(3)}, key="k", actor="ada")
    bob = operations.ask({"b": want(2)}, key="k", actor="bob")
    assert [one[0].station for one in (ada, bob)] == ["a", "b"]
    assert operations.ask({"a": want(3)}, key="k", actor="ada")[0].id == ada[0].id
    with pytest.raises(ConflictError, match="the key 'k' was used before"):
        operations.ask({"c": want(3)}, key="k", actor="ada")


def test_a_key_of_an_earlier_version_is_known_again(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    digest = fingerprint("Stopped", why="x")
    event = {"event": Stopped(NOON, why="x").to_dict(), "comment": "x", "call": digest}
    ledger.append([Draft("switch", event, key="k", actor="ada")])
    operations.stop(why="x", key="k", actor="ada")
    assert kinds(operations).count("switch") == 1
    operations.stop(why="x", key="k", actor="bob")
    assert kinds(operations).count("switch") == 2


def test_a_station_has_one_decision_a_slot(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    first = operations.ask({"a": want(3)}, slot="10:00")
    both = reopened(operations).ask({"a": want(3), "b": want(2)}, slot="10:00")
    assert both[0] == first[0]
    operations.refresh()
    assert operations.ask({"b": want(2), "a": want(3)}, slot="10:00") == both[::-1]
    assert len(operations.read_model.decisions) == 2
    operations.approve([first[0].id])
    assert operations.ask({"a": want(3)}, slot="10:00")[0].status == "applied"
    assert operations.read_model.latest(slot="10:00", limit=9) == [
        operations.decision("d000002"),
        operations.decision("d000001"),
    ]
    check_the_record(operations)


AGAIN: dict[str, tuple[dict[str, Any], str]] = {
    "a state": ({"states": {"a": want(4), "b": want(2)}}, "another value of the state feature 'want'"),
    "what is allowed": ({"allowed": {"b": {"tilt": [0, 2]}}}, "other configurations allowed"),
    "what runs": ({"running": {"a": {"tilt": 5}}}, "ran tilt=1 and not tilt=5: report what it runs now by applied"),
}


@pytest.mark.parametrize("what", AGAIN)
def test_who_asks_again_for_a_slot_and_says_something_else_is_refused(ledger: Ledger, what: str) -> None:
    operations = begin(ledger, mode="autonomous")
    first: dict[str, Any] = {
        "states": {"a": want(3), "b": want(2)}, "allowed": {"b": {"tilt": [0, 2, 4]}}, "running": {"a": {"tilt": 1}},
    }  # fmt: skip
    made, before = operations.ask(**first, slot="ten"), len(kinds(operations))
    further, sentence = AGAIN[what]
    with pytest.raises(ConflictError, match=sentence):
        reopened(operations).ask(**(first | further), slot="ten")
    operations.refresh()
    assert len(kinds(operations)) == before
    assert operations.ask(**first, slot="ten") == made
    assert operations.ask(first["states"], slot="ten") == made  # what is left out contradicts nothing
    assert operations.ask(first["states"], running={"a": {"tilt": 3}}, slot="ten") == made  # which it runs by now
    check_the_record(operations)


def test_of_two_processes_with_one_key_only_one_decides(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    other = reopened(operations)
    made, again = (one.ask({"a": want(3)}, key="k") for one in (operations, other))
    assert (made.new, again.new) == (True, False)
    assert again == made
    assert operations.ask({"a": want(3), "b": want(1)}, slot="ten", key="k2").new
    assert not other.ask({"b": want(1)}, slot="ten").new


# --- Stations, corrections, what came before ----------------------------------------------------------------


def test_stations_come_go_and_come_back(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    operations.add_station("d")
    assert ask(operations, d=4)["d"].arm == 4  # nobody knew what it ran
    record = ask(operations, a=3)["a"]
    assert operations.remove_station("a") == [record.id]
    assert not operations.read_model.stations["a"].active
    with pytest.raises(NotFoundError, match="was removed"):
        ask(operations, a=1)
    with pytest.raises(ConflictError, match="it was removed"):
        operations.roll_back("a")
    operations.tell({record.id: 0.2})
    operations.add_station("a", running={"tilt": 5})  # somebody has changed it meanwhile
    station_state = operations.read_model.stations["a"]
    assert (station_state.active, station_state.running, station_state.before) == (True, 5, None)
    again = ask(operations, a=4)["a"]
    assert (again.status, again.running, again.arm) == ("applied", 5, 4)
    check_the_record(operations)


def test_a_correction_puts_sums_and_the_guard_s_history_right(ledger: Ledger) -> None:
    clock = Clock()
    operations = begin(ledger, text=FALLING, mode="autonomous", clock=clock)
    ids = []
    for tilt, reward in [(0, 0.9), (0, 0.9), (3, 0.2), (3, 0.2)]:
        ids.append(ask(operations, a=tilt)["a"].id)
        operations.tell({ids[-1]: reward})
        clock.pass_(hours=1)
    corrected = operations.correct(ids[-1], 0.9)
    assert corrected.reward == 0.9
    assert operations.read_model.recent("a", 2) == pytest.approx(0.55)
    assert [row[1] for row in operations.read_model.fleet()] == [0.9, 0.9, 0.2, 0.9]
    assert ask(operations, a=3)["a"].status == "kept"  # it is not rolled back
    assert learned(operations)[-1] == (0, 3, 0.9)
    check_the_record(operations)


def test_a_late_reward_of_a_decision_called_off_is_welcome(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    record = ask(operations, a=3)["a"]
    off = operations.call_off(record.id)
    assert (off.called_off, off.open, operations.read_model.pending) == (True, False, 0)
    told = operations.tell({record.id: 0.4})[0]
    assert (told.called_off, told.reward, operations.read_model.pending) == (False, 0.4, 0)
    check_the_record(operations)


def test_a_controller_s_journal_is_taken_over(ledger: Ledger) -> None:
    controller = wishful()
    for tilt in (2, 4):
        controller.tell(controller.ask("a", want(tilt)).id, 0.3)
    controller.ran(controller.ask("b", want(3)).id, {"tilt": 1})
    controller.call_off(controller.ask("c", want(5)).id)
    expected = {s: controller.consider(s, want(0)).arm for s in "abc"}
    operations = begin(ledger, controller, text=STEPS + FALLING, mode="autonomous")
    with operations.looking() as read_model:
        assert [station_state.running for station_state in read_model.stations.values()] == [4, 1, 0]
        assert (len(read_model.decisions), read_model.pending, read_model.fleet()) == (4, 1, [])
    made = ask(operations, a=5, b=5, c=5)
    assert {s: record.running for s, record in made.items()} == {"a": 4, "b": 1, "c": 0}
    assert {s: record.arm for s, record in made.items()} == {"a": 5, "b": 3, "c": 2}
    assert set(expected.values()) == {0}
    check_the_record(operations)


def test_a_second_process_follows(ledger: Ledger) -> None:
    mine = begin(ledger, text=STEPS, mode="assist")
    yours = Operations.open(ledger, rails=mine.guard.rails, rails_text=STEPS, clock=Clock(), policy=Wish.build)
    made = ask(mine, a=2, b=2)
    yours.approve([made["a"].id], actor="you")
    mine.reject([made["b"].id], actor="me")
    yours.tell({made["a"].id: 0.7})
    mine.refresh()
    yours.refresh()
    assert whole(mine) == whole(yours)
    check_the_record(mine)


def test_every_decision_is_decided_again_from_the_record(ledger: Ledger) -> None:
    controller = Controller(SPACE, ["a", "b", "c"], state=["load"], similarity="pooled", mean=0.4, running={"tilt": 2})
    operations = Operations.open(ledger, controller, rails=rails(STEPS), clock=Clock(), mode="assist")
    for n in range(4):
        made = operations.ask({s: {"load": 0.1 * n + i} for i, s in enumerate("abc")})
        operations.approve([record.id for record in made if record.status == "waiting"][:2])
        operations.tell({record.id: 0.3 * n - 0.1 * i for i, record in enumerate(made)})
    assert all(replay(ledger, key).same for key in operations.read_model.decisions)
    assert operations.explain("d000007").text
    check_the_record(operations)


def test_a_clock_that_is_ahead_at_start_is_found_out_by_that_of_a_server(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ledger, mode="autonomous", clock=None)
    monkeypatch.setattr(operations_clock, "_now", lambda: datetime.now(UTC) + timedelta(hours=2))
    late = begin(ledger, clock=None)
    found = late.reading()
    if ledger.engine.dialect.name == "sqlite":  # nobody can know
        assert not found.doubt
        return
    assert "and by the time that has passed it is" in found.doubt
    assert found.now < datetime.now(UTC) + timedelta(minutes=1)
    assert [one.status for one in ask(late, a=2).values()] == ["refused"]
    late.set_clock(why="the server is wrong", actor="ada")
    assert not late.reading().doubt
    assert late.now() > datetime.now(UTC) + timedelta(hours=1)


# --- When the database fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("point", ["append", "commit", "read"])
def test_a_call_that_fails_leaves_no_trace_and_succeeds_later(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, name: str, point: str
) -> None:
    operations = in_the_middle(ledger, Clock())
    before = whole(operations)
    with monkeypatch.context() as patch:
        break_at(patch, ledger, point)
        with pytest.raises(LedgerUnavailableError):
            ACTS[name](operations, "k")
        assert whole(operations) == before  # it can be looked at all the while
    assert len(kinds(operations)) == before["seq"]
    check_the_record(operations)
    ACTS[name](operations, "k")
    check_the_record(operations)


@pytest.mark.parametrize("name", ["ask", "tell", "approve", "applied", "roll back", "stop"])
def test_whichever_statement_fails_nothing_is_half_recorded(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    operations, execute, failures = in_the_middle(ledger, Clock()), Connection.execute, 0
    operations.turns.writable = Writable(ledger, soon=0.0)  # a trial that failed is repeated at once
    for failing in range(1, 30):
        reopened(operations).freeze("b")  # something that is still to be taken in
        events = len(kinds(operations))
        with monkeypatch.context() as patch:
            calls = count(1)

            def perhaps(self: Connection, *args: Any, **named: Any) -> Any:
                if next(calls) == failing:  # noqa: B023
                    raise LedgerUnavailableError("the database is away")
                return execute(self, *args, **named)

            patch.setattr(Connection, "execute", perhaps)
            try:
                ACTS[name](operations, "k")
            except LedgerUnavailableError:
                failures += 1
        if failures < failing:
            break
        assert len(kinds(operations)) == events
        operations.refresh()
        check_the_record(operations)
    assert failures >= 4  # the last event, those of others, the key, what is recorded
    assert len(kinds(operations)) > events
    check_the_record(operations)


@pytest.mark.parametrize("name", ACTS)
def test_a_call_whose_answer_was_lost_is_done_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    operations, commit = in_the_middle(ledger, Clock()), RootTransaction.commit
    before = len(kinds(operations))

    def lost(self: RootTransaction) -> None:
        commit(self)
        if self.connection.get_execution_options().get(LOCK) == WRITING:
            raise LedgerUnavailableError("gone", recorded=None)

    with monkeypatch.context() as patch:
        patch.setattr(RootTransaction, "commit", lost)
        with pytest.raises(LedgerUnavailableError):
            ACTS[name](operations, "k")
    events = len(kinds(operations))
    assert events > before
    ACTS[name](operations, "k")
    assert len(kinds(operations)) == events
    check_the_record(operations)


def break_at(patch: pytest.MonkeyPatch, ledger: Ledger, point: str) -> None:
    """Let the database go away while something is appended, when it is committed, or from the beginning."""

    def gone(*_: Any, **__: Any) -> Any:
        raise LedgerUnavailableError("the database is away")

    match point:
        case "append":
            patch.setattr(Writer, "append", gone)
        case "commit":
            patch.setattr(RootTransaction, "commit", gone)
        case "read":
            patch.setattr(type(ledger.engine), "connect", gone)
