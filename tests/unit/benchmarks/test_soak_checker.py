"""The checker of the fault harness finds what it is there to find: anomalies planted in a past that was sound."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.soak.checker import checked, times_of
from benchmarks.soak.history import Operation, Row, Sighting
from benchmarks.soak.oracle import Limits
from benchmarks.soak.plan import FULL, STORES, tasks
from benchmarks.soak.session import BY_NIGHT, LIMITS, RAILS, RAILS_BY_NIGHT, Session
from benchmarks.soak.synced import lose

from kinband import ConfigurationSpace
from kinband.guardrails import rails_from_text

BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
TILTS = (2, 4, 6, 8)
RULES = Limits(
    values=TILTS, highest=6, lower={"c": 4}, step=2, min_time=600, per_day=3, per_round=2, round=300, retry_after=3600,
    neighbours=(frozenset("ab"),), frozen=frozenset("f"), windows=((11 * 60, 11 * 60 + 30),),
    maintenance=((10 * 60, 12 * 60 + 30),),
)  # fmt: skip


class Past:
    """A past in the making: rows, operations and sightings that fit each other; a second of it is a second."""

    def __init__(self) -> None:
        self.rows = list[Row]()
        self.operations = list[Operation]()
        self.sightings = list[Sighting]()
        self.now = 0.0

    def record(self, kind: str, payload: dict[str, Any], **further: Any) -> Row:
        seq, before = len(self.rows) + 1, self.rows[-1].checksum if self.rows else "0" * 64
        given = {"actor": "nms", "station": "", "decision": None, "round": None, "slot": None, "key": None} | further
        row = Row(seq, kind, "2026", **given, text=json.dumps(payload), checksum="")
        parts = (
            row.seq,
            row.kind,
            row.at,
            row.actor,
            row.station,
            row.decision,
            row.round,
            row.slot,
            row.key,
            row.text,
        )
        lines = "\n".join([before, *("" if part is None else str(part) for part in parts)])
        self.rows.append(replace(row, checksum=hashlib.sha256(lines.encode()).hexdigest()))
        self.sightings.append(Sighting(seq, self.rows[-1].checksum, self.now - 0.5, self.now + 0.5))
        return self.rows[-1]

    def operate(self, what: str, key: str, body: Any, answer: Any, *, began: float = -1.0) -> None:
        self.operations.append(Operation(what, key, body, self.now + began, self.now + 1, 200, answer))

    def ask(self, station: str, arm: int, before: int, *, wait: float = 700, held: str | None = None) -> str:
        """Decide for a station after a while, and carry it out unless something holds it."""
        self.now += wait
        number = sum(row.kind == "decision" for row in self.rows) + 1
        name, slot, key = f"d{number}", f"s{number}", f"nms: ask {number}"
        known = sum(row.kind == "outcome" for row in self.rows)
        runs = before if held else arm
        asked = {"known": known, "configuration": {"tilt": TILTS[arm]}}
        self.record("decision", {"entry": asked}, station=station, decision=name, slot=slot, key=key)
        verdict = {"outcome": "refused" if held else "allowed", "reason": held or "no rail forbids it"}
        status = "refused" if held else "applied"
        self.record("verdict", {"verdict": verdict, "status": status}, station=station, decision=name)
        if runs != before:
            self.change(station, runs, before, decision=name)
        item = {
            "id": name, "station": station, "chosen": {"tilt": TILTS[arm]}, "proposed": {"tilt": TILTS[runs]},
            "before": {"tilt": TILTS[before]}, "run": {"tilt": TILTS[runs]}, "held": held, "open": True,
            "verdict": verdict, "status": status,
        }  # fmt: skip
        self.operate("ask", key, {"slot": slot}, {"decisions": [item]})
        return name

    def order(self, station: str, arm: int, before: int, *, wait: float = 700, status: str = "ordered") -> str:
        """Decide for a station after a while, and order that, or approve it for later."""
        self.now += wait
        number = sum(row.kind == "decision" for row in self.rows) + 1
        name, known = f"d{number}", sum(row.kind == "outcome" for row in self.rows)
        asked = {"known": known, "configuration": {"tilt": TILTS[arm]}}
        self.record("decision", {"entry": asked}, station=station, decision=name, slot=f"s{number}")
        verdict = {"outcome": "allowed", "reason": "no rail forbids it", "arm": arm, "running": before}
        until = (BEGIN + timedelta(seconds=self.now + 3600)).isoformat()
        said = {"verdict": verdict, "status": status, "until": until}
        self.record("verdict", said, station=station, decision=name)
        return name

    def step(self, decision: str, status: str, *, wait: float = 30, **further: Any) -> None:
        """Have an order come to something."""
        self.now += wait
        station = next(row.station for row in self.rows if row.decision == decision)
        self.record("order", {"status": status, **further}, station=station, decision=decision)

    def confirm(self, decision: str, *, wait: float = 30, made: bool = True, **further: Any) -> None:
        """Say that an order is carried out, and put on record that it is."""
        self.step(decision, "applied", wait=wait)
        [verdict] = [row for row in self.rows if row.kind == "verdict" and row.decision == decision]
        said = verdict.payload["verdict"]
        note = {"arm": said["arm"], "before": said["running"], "by": "controller", "order": decision, "reported": True}
        if made:
            self.record("applied", note | further, station=verdict.station, decision=None)
        self.operate("confirm", f"nms: confirm {decision} {self.now}", {}, {"id": decision, "status": "applied"})

    def listed(self, *shown: tuple[str, str], held: str | None = None) -> None:
        """Ask for orders, and be shown some of them."""
        self.now += 5
        orders = [{"id": name, "status": status, "held": held} for name, status in shown]
        self.operate("orders", f"nms: orders {self.now}", {}, {"orders": orders})

    def change(self, station: str, arm: int, before: int, *, by: str = "controller", **further: Any) -> Row:
        return self.record("applied", {"arm": arm, "before": before, "by": by}, station=station, **further)

    def tell(self, decision: str, reward: float) -> None:
        self.now += 5
        key = f"nms: tell {decision} {reward}"
        self.record("outcome", {"entry": {"reward": reward}}, decision=decision, key=key)
        outcomes = [{"decision": decision, "reward": reward}]
        self.operate("tell", key, {"outcomes": outcomes}, {})

    def switch(self, what: str, event: str, **further: Any) -> Row:
        self.now += 5
        key = f"ann: {what} {len(self.rows)}"
        row = self.record("switch", {"event": {"event": event, **further}}, key=key)
        self.operate(what, key, {}, {})
        return row

    def faults(self) -> dict[str, list[str]]:
        times = times_of(self.rows, self.sightings, lambda s: BEGIN + timedelta(seconds=s), begin=0, end=self.now)
        found: dict[str, list[str]] = {}
        for one in checked(self.rows, self.operations, self.sightings, limits=RULES, times=times):
            found.setdefault(one.promise, []).append(one.what)
        return found


def sound() -> Past:
    """A past in which everything is as it should be, with a stop in its midst."""
    past = Past()
    past.tell(past.ask("a", 1, 0), 0.7)
    past.tell(past.ask("d", 1, 0), 0.6)
    past.switch("stop", "stopped")
    past.ask("a", 2, 1, held="stop")
    past.switch("resume", "resumed")
    past.tell(past.ask("a", 2, 1), 0.8)
    return past


def rechained(past: Past, rows: Sequence[Row]) -> Past:
    """The past with other rows, numbered and chained as if nothing had happened."""
    new = Past()
    new.operations, new.now = past.operations, past.now
    for row in rows:
        further = {n: getattr(row, n) for n in ("actor", "station", "decision", "round", "slot", "key")}
        new.record(row.kind, row.payload, **further)
    seen = {(one.kind, one.decision, one.key): past.sightings[one.seq - 1] for one in past.rows}
    new.sightings = [
        replace(one, after=seen[r.kind, r.decision, r.key].after, by=seen[r.kind, r.decision, r.key].by)
        for one, r in zip(new.sightings, new.rows, strict=True)
    ]
    return new


def test_a_sound_past_has_no_anomaly() -> None:
    assert sound().faults() == {}


def test_an_acknowledged_event_that_is_lost_is_found() -> None:
    past = sound()
    lost = [row for row in past.rows if row.kind == "outcome"][-1]
    found = rechained(past, [row for row in past.rows if row is not lost]).faults()
    assert list(found) == ["once"]
    assert str(lost.decision) in found["once"][0]


def test_an_event_that_is_there_twice_is_found() -> None:
    past = sound()
    told = [row for row in past.rows if row.kind == "outcome"][-1]
    found = rechained(past, [*past.rows, told]).faults()
    assert any("is there 2 times" in what for what in found["once"])


def test_a_tail_that_somebody_saw_and_that_is_gone_is_found() -> None:
    past = sound()
    past.operations = [one for one in past.operations if "tell" not in one.key]  # nobody was answered
    past.rows.pop()
    assert list(past.faults()) == ["nothing seen is lost"]


def test_an_event_that_was_changed_breaks_the_chain() -> None:
    past = sound()
    past.rows[3] = replace(past.rows[3], actor="mallory")
    assert list(past.faults()) == ["chain"]


def test_an_operation_that_is_recorded_before_one_that_ended_before_it_began_is_found() -> None:
    past = sound()
    first, second = [row for row in past.rows if row.kind == "switch"]
    rows = [row for row in past.rows if row not in (first, second)]
    found = rechained(past, [*rows[:2], first, second, *rows[2:]]).faults()
    assert list(found) == ["order of real time"]


def test_a_decision_that_did_not_know_what_was_told_before_it_is_found() -> None:
    past = sound()
    past.now += 700
    past.record("decision", {"entry": {"known": 0, "configuration": {}}}, station="c", decision="d9", slot="s9")
    assert list(past.faults()) == ["answers follow from what is on record"]


def test_another_answer_to_the_same_question_is_found() -> None:
    past = sound()
    again = past.operations[-2]
    other = {"decisions": [again.answer["decisions"][0] | {"run": {"tilt": 2}}]}
    past.operations.append(replace(again, answer=other))
    assert list(past.faults()) == ["answers follow from what is on record"]


def test_a_change_that_goes_out_after_a_stop_is_found_in_the_ledger_and_in_the_answer() -> None:
    past = Past()
    past.switch("stop", "stopped")
    past.ask("a", 1, 0)
    assert set(past.faults()) == {"rails in true time", "stop"}


def test_a_change_that_was_ordered_before_a_stop_and_is_repeated_after_it_is_found() -> None:
    past = Past()
    past.ask("a", 1, 0)
    past.switch("stop", "stopped")
    [ordered] = [one for one in past.operations if one.what == "ask"]
    past.operations.append(replace(ordered, began=past.now + 10, ended=past.now + 11))
    assert list(past.faults()) == ["stop"]


def test_after_a_resume_a_change_may_go_out() -> None:
    past = Past()
    past.switch("stop", "stopped")
    past.switch("resume", "resumed")
    past.ask("a", 1, 0)
    assert past.faults() == {}


CHANGES: dict[str, Callable[[Past], object]] = {
    "less than 600 s": lambda past: (past.ask("a", 1, 0), past.ask("a", 2, 1, wait=400)),
    "its neighbour": lambda past: (past.ask("a", 1, 0), past.ask("b", 1, 0, wait=100)),
    "of a round": lambda past: [past.ask(name, 1, 0, wait=50) for name in ("a", "d", "e")],
    "of a day": lambda past: [past.ask("a", 1 - i % 2, i % 2) for i in range(4)],
    "beyond the range": lambda past: past.ask("c", 2, 1),
    "a step": lambda past: past.ask("a", 2, 0),
    "is frozen": lambda past: (past.switch("freeze", "frozen", station="a"), past.ask("a", 1, 0)),
    "everything is stopped": lambda past: (past.switch("stop", "stopped"), past.ask("a", 1, 0)),
    "forbidden period": lambda past: past.ask("a", 1, 0, wait=3600 + 600),
    "it says 0": lambda past: (past.ask("a", 1, 0), past.ask("a", 1, 0)),
    "rolled back": lambda past: (
        past.ask("a", 1, 0),
        past.change("a", 0, 1, by="roll-back"),
        past.ask("a", 1, 0, wait=1000),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_breaks_a_rail_in_true_time_is_found(what: str) -> None:
    past = Past()
    CHANGES[what](past)
    assert any(what in fault for fault in past.faults()["rails in true time"])


def test_a_change_that_may_have_kept_a_rail_is_not_held_against_anybody() -> None:
    past = Past()
    past.ask("a", 1, 0)
    past.ask("a", 2, 1, wait=550)  # within the minute that a clock may be off
    past.ask("f", 1, 1)  # no change
    assert past.faults() == {}


def test_a_change_that_was_taken_back_does_not_count() -> None:
    past = Past()
    past.ask("a", 1, 0)
    past.record("applied", {"arm": 0, "before": 1, "by": "network", "taken_back": True, "reported": True}, station="a")
    past.ask("a", 1, 0, wait=100)
    assert past.faults() == {}


def ordered() -> Past:
    """A past of orders that are confirmed, fail, and are late, with a stop in its midst."""
    past = Past()
    first, second = past.order("a", 1, 0), past.order("d", 1, 0)
    past.listed((first, "ordered"), (second, "ordered"))
    past.confirm(first)
    past.step(second, "failed")
    past.operate("fail", f"nms: fail {second}", {}, {"id": second, "status": "failed"})
    past.listed()
    third = past.order("a", 2, 1)
    past.switch("stop", "stopped")
    past.listed((third, "ordered"), held="stop")
    past.step(third, "expired", wait=3700)
    past.switch("resume", "resumed")
    past.confirm(third)
    return past


def test_a_sound_past_of_orders_has_no_anomaly() -> None:
    assert ordered().faults() == {}


def _listed_in_a_stop(past: Past) -> None:
    name = past.order("a", 1, 0)
    past.switch("stop", "stopped")
    past.listed((name, "ordered"))


def _not_listed(past: Past) -> None:
    past.order("a", 1, 0)
    past.listed()


def _listed_too_long(past: Past) -> None:
    name = past.order("a", 1, 0)
    past.confirm(name)
    past.listed((name, "ordered"))


def _made_after_it_failed(past: Past) -> None:
    name = past.order("a", 1, 0)
    past.step(name, "failed")
    past.confirm(name)


def _twice(past: Past) -> None:
    name = past.order("a", 1, 0)
    past.confirm(name)
    said = {"by": "network", "reported": True}
    past.record("applied", said | {"arm": 0, "before": 1}, station="a")
    past.record("applied", said | {"arm": 1, "before": 0, "order": name}, station="a")


ORDERS: dict[str, tuple[str, Callable[[Past], object]]] = {
    "of a round": ("rails in true time", lambda past: [past.order(name, 1, 0, wait=50) for name in ("a", "d", "e")]),
    "its neighbour": ("rails in true time", lambda past: (past.order("a", 1, 0), past.order("b", 1, 0, wait=2000))),
    "everything is stopped": (
        "rails in true time",
        lambda past: (past.switch("stop", "stopped"), past.order("a", 1, 0)),
    ),
    "forbidden period": ("rails in true time", lambda past: past.order("a", 1, 0, wait=3600 + 600)),
    "no maintenance window": ("rails in true time", lambda past: past.order("a", 1, 0, wait=3 * 3600)),
    "ordered another change": ("rails in true time", lambda past: past.confirm(past.order("a", 1, 0), arm=2)),
    "was never ordered": ("rails in true time", lambda past: past.confirm(past.order("a", 1, 0, status="approved"))),
    "d2 is ordered, and d1 of a": ("life of an order", lambda past: (past.order("a", 1, 0), past.order("a", 2, 0))),
    "was failed and is applied": ("life of an order", _made_after_it_failed),
    "expired before": ("life of an order", lambda past: past.step(past.order("a", 1, 0), "expired")),
    "carried out 2 times": ("life of an order", _twice),
    "is not on record": ("orders are acknowledged", lambda past: past.confirm(past.order("a", 1, 0), made=False)),
    "under way and is not listed": ("orders are listed as they stand", _not_listed),
    "shown as ordered": ("orders are listed as they stand", _listed_too_long),
    "while all is stopped": ("stop", _listed_in_a_stop),
}


@pytest.mark.parametrize("what", ORDERS)
def test_what_must_not_become_of_an_order_is_found(what: str) -> None:
    past = Past()
    promise, act = ORDERS[what]
    act(past)
    assert any(what in fault for fault in past.faults()[promise])


def test_a_change_is_judged_again_when_it_is_confirmed() -> None:
    past = Past()
    first, second = past.order("a", 1, 0), past.order("a", 2, 1)
    past.confirm(first)
    past.confirm(second)
    assert any("less than 600 s" in fault for fault in past.faults()["rails in true time"])


def test_nothing_is_held_against_a_confirmation_that_nobody_could_know() -> None:
    past = Past()
    name = past.order("a", 1, 0)
    for other in ("d", "e"):  # the network fills the round by itself
        past.record("applied", {"arm": 1, "before": 0, "by": "network", "reported": True}, station=other)
    past.confirm(name)
    late = past.order("c", 1, 0)
    past.step(late, "expired", wait=3700)
    past.confirm(late)
    assert past.faults() == {}


@pytest.mark.parametrize(("text", "limits"), [(RAILS, LIMITS), (RAILS_BY_NIGHT, BY_NIGHT)])
def test_the_rails_of_a_session_are_those_of_its_oracle(text: str, limits: Limits) -> None:
    rails = rails_from_text(text, ConfigurationSpace(tilt=list(LIMITS.values)), stations=list("abcdef"))
    assert rails.min_time is not None
    assert (rails.min_time.total_seconds(), rails.round.total_seconds()) == (LIMITS.min_time, LIMITS.round)
    assert (rails.per_day, rails.per_round) == (LIMITS.per_day, LIMITS.per_round)
    assert rails.fallback is not None
    assert rails.fallback.retry_after.total_seconds() == LIMITS.retry_after
    pairs = {frozenset((one, other)) for one, others in rails.neighbours.items() for other in others}
    assert pairs == set(LIMITS.neighbours)
    assert not rails.neighbours_together
    assert [(one.start, one.end) for one in rails.forbidden] == list(limits.windows)
    assert [(one.start, one.end) for one in rails.maintenance or ()] == list(limits.maintenance)
    assert {freeze.station for freeze in rails.freeze} == LIMITS.frozen
    [knob] = dict(rails.limits("a")).values()
    assert (knob.high, knob.step) == (LIMITS.highest, LIMITS.step)


def test_a_full_run_has_as_many_faults_as_it_says() -> None:
    wanted = tasks(FULL)
    assert len({task.name for task in wanted}) == len(wanted)
    times = {fault: sum(task.times for task in wanted if task.fault == fault) for fault in FULL.sessions}
    assert times["kill"] == 1000
    assert times["pause"] == times["clock"] == 100
    assert sum(task.times for task in wanted if task.fault == "flips") == 1000
    stores = {task.store for task in wanted if isinstance(task, Session) and task.fault == "kill"}
    assert stores == set(STORES)
    parts = {(task.store, task.confirmed) for task in wanted if isinstance(task, Session)}
    assert len(parts) == 4


def test_what_was_not_synced_is_lost_or_mixed_with_what_was(tmp_path: Path) -> None:
    file, copy = tmp_path / "file", tmp_path / "copy"
    before, after = bytes(4096), b"\1" * 6000
    copy.write_bytes(before)
    file.write_bytes(after)
    assert lose(file, copy) == 6000
    assert file.read_bytes() == before
    seen = set[tuple[int, ...]]()
    for seed in range(20):
        file.write_bytes(after)
        lose(file, copy, rng=np.random.default_rng(seed))
        kept = file.read_bytes()
        blocks = [set(kept[at : at + 512]) for at in range(0, len(kept), 512)]
        assert all(block in ({0}, {1}) for block in blocks)
        seen.add(tuple(next(iter(block)) for block in blocks))
    assert len(seen) > 10
    file.write_bytes(after)
    lose(file, tmp_path / "never synced")
    assert not file.exists()
