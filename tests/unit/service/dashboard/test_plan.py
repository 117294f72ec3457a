"""The plan: for which slot a change waits and since when, and what a rule of safety held back."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.dashboard_network import Clock, Network, network

from kinband import ConfigurationSpace, Controller
from kinband.kernels import RBF
from kinband.policies import Conservative, SwitchingCost
from kinband.policies.safety import SafetyLike
from kinband.records import Alternative, Decision
from kinband.service.dashboard.plan import OLD, Wait, is_old, ordered
from kinband.service.dashboard.rows import Names, row_of
from kinband.service.ledger import Ledger
from kinband.service.operations import DecisionRecord, Operations
from kinband.service.operations.records import expected_gain

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
BUDGET = Conservative(alpha=0.05, delta=0.05)
SPACE = ConfigurationSpace(tilt=[2, 4, 6, 8])


def item(key: str, arm: int, *, slot: str | None = None, at: datetime = NOON, **policy_state: Any) -> DecisionRecord:
    """A change that waits at a station that runs tilt 4, which is expected to earn 0.7."""
    means = (0.5, 0.7, 0.8, 0.6)
    others = tuple(Alternative(i, SPACE[i], mean, 0.05, mean + 0.1) for i, mean in enumerate(means))
    made = Decision(
        key, f"station {key}", arm, SPACE[arm], means[arm], 0.05, means[arm] + 0.1, others, policy_state=policy_state
    )
    return DecisionRecord(made, 1, at, slot, "assist", "waiting", None, running=1, arm=1)


@pytest.mark.parametrize(
    ("arm", "note", "mark"),
    [
        (2, {}, ""),
        (3, {}, "trial"),
        (0, {"running": 1, "lower": -0.2}, "trial"),
        (0, {"running": 1, "held_back": 2, "by": "budget"}, "held back by the budget"),
        (0, {"running": 1, "held_back": 3, "by": "floor"}, "held back by the floor"),
        (2, {"running": 1, "held_back": 3, "by": "budget"}, "held back by the budget"),
    ],
)
def test_a_change_that_costs_is_a_trial_only_if_no_rule_wants_it(arm: int, note: dict[str, Any], mark: str) -> None:
    row = row_of(item("d1", arm, safety=note), Names(SPACE))
    assert row.mark == mark
    assert row.trial == (mark == "trial")
    assert row.gain is not None
    assert row.gain[0] == pytest.approx((0.5, 0.7, 0.8, 0.6)[arm] - 0.7)


def test_what_was_held_back_and_what_is_done_instead_are_named() -> None:
    note = {"running": 1, "held_back": 3, "by": "budget"}
    back, stays = (row_of(item("d1", arm, safety=note), Names(SPACE)).held for arm in (0, 1))
    floor = row_of(item("d1", 2, safety=note | {"by": "floor"}), Names(SPACE)).held
    assert back is not None
    assert stays is not None
    assert floor is not None
    assert back.sentence == "The budget held back a trial of tilt 8: the station goes back to tilt 2."
    assert stays.sentence == "The budget held back a trial of tilt 8: the station stays with tilt 4."
    assert floor.sentence == "The floor held back a trial of tilt 8: the station takes tilt 6."


def test_nothing_is_gained_where_nothing_changes() -> None:
    assert row_of(item("d1", 1), Names(SPACE)).gain is None


@pytest.mark.parametrize(
    ("slot", "last", "minutes", "old"),
    [
        ("10:00", "10:00", 300, False),
        ("10:00", "11:00", 5, True),
        ("11:00", "10:00", 0, False),
        (None, None, 59, False),
        (None, None, 60, True),
        ("10:00", None, 61, True),
    ],
)
def test_a_change_is_old_once_a_later_slot_has_begun(
    slot: str | None, last: str | None, minutes: int, old: bool
) -> None:
    assert timedelta(minutes=60) == OLD
    waits = item("d1", 2, slot=slot, at=NOON if slot != "11:00" else NOON + timedelta(hours=1))
    newest = item("d2", 2, slot=last, at=NOON + timedelta(minutes=1))
    assert is_old(waits, newest, NOON + timedelta(minutes=minutes)) == old


def test_the_present_slot_comes_first_and_in_each_the_largest_gain() -> None:
    names = Names(SPACE)
    rows = {
        "old, best": (item("d1", 2, at=NOON - timedelta(hours=3)), True),
        "older": (item("d2", 2, at=NOON - timedelta(hours=9)), True),
        "new, worse": (item("d3", 3), False),
        "old, worse": (item("d4", 3, at=NOON - timedelta(hours=3)), True),
        "new, best": (item("d5", 2), False),
    }
    waits = [Wait(row_of(each, names), name, "", old) for name, (each, old) in rows.items()]
    assert [wait.named for wait in ordered(waits)] == [
        "new, best", "new, worse", "old, best", "old, worse", "older",
    ]  # fmt: skip


def test_the_plan_says_for_which_slot_a_change_is_and_how_long_it_has_waited(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    with network(tmp_path, names) as web:
        ids = dict(zip(names, web.play(1, told=False), strict=True))
        client = web.browser("operator")
        text = client.get("/plan").text
        assert "For earlier slots" not in text
        web.clock.now += timedelta(minutes=50)
        assert "waits 50 minutes" in client.get("/plan").text, "the page is made anew though nothing was recorded"
        web.clock.now += timedelta(minutes=10)
        (newer,) = web.operations.ask({"b": {"load": 0.3}}, slot="busy hour", actor="nms")
        text = client.get("/plan").text
        assert newer.status == "waiting"
        new, old = text.split("For earlier slots")
        assert newer.id in new
        assert "busy hour" in new
        assert "waits less than a minute" in new
        assert ids["b"] not in text
        assert ids["a"] in old
        assert ids["c"] in old
        assert old.count("waits 1 hour") == 2
        assert f'datetime="{(newer.at - timedelta(hours=1)):%Y-%m-%dT%H:%M:%S}Z"' in old
        assert "2 for earlier slots" in text


@contextmanager
def careful(folder: Path, stations: Sequence[str], safety: SafetyLike = BUDGET) -> Iterator[Network]:
    """A network with a rule of safety, unless said otherwise a budget for trials that has nothing to spend."""
    controller = Controller(
        SPACE, list(stations), state={"load": (0, 1)}, kernel=RBF([1.0, 1.0], variance=0.04), noise=0.001, mean=0.8,
        safety=safety, running={"tilt": 4}, reward_range=(0, 1), seed=4,
    )  # fmt: skip
    clock = Clock()
    ledger = Ledger.open(folder / "ledger.db", clock=clock)
    try:
        yield Network(Operations.open(ledger, controller, mode="assist", clock=clock), clock)
    finally:
        ledger.close()


def test_going_back_for_want_of_a_budget_is_not_called_a_trial(tmp_path: Path) -> None:
    with careful(tmp_path, ["a", "b"]) as web:
        operations = web.operations
        (first,) = operations.ask({"a": {"load": 0.4}}, running={"a": {"tilt": 8}}, actor="nms")
        operations.tell({first.id: 0.95}, actor="nms")
        (back,) = operations.ask({"a": {"load": 0.4}}, running={"a": {"tilt": 8}}, actor="nms")
        note = back.decision.policy_state["safety"]
        gain = expected_gain(back)
        assert (back.status, note["by"], back.decision.arm) == ("waiting", "budget", 1)
        assert gain is not None
        assert gain[0] < 0.0
        client = web.browser("viewer")
        text = " ".join(re.sub("<[^>]+>", " ", client.get("/plan").text).split())
        assert "held back by the budget" in text
        assert f"Back to tilt 4, not on to tilt {SPACE[note['held_back']]['tilt']}" in text
        assert "1 held back by the budget" in text
        assert "trial" not in text.partition("Slot began")[2].partition("Gains are")[0]
        assert "The budget held back a trial of tilt" in client.get(f"/decisions/{back.id}").text
        assert "held back by the budget" in client.get("/stations/a").text


def test_what_stays_for_want_of_a_budget_says_so_on_its_station_s_page(tmp_path: Path) -> None:
    with careful(tmp_path, ["a"]) as web:
        (kept,) = web.operations.ask({"a": {"load": 0.4}}, actor="nms")
        assert kept.status == "kept"
        assert "held_back" in kept.decision.policy_state["safety"]
        client = web.browser("viewer")
        assert "held back by the budget" in client.get("/stations/a").text
        assert "the station stays with tilt 4" in client.get(f"/decisions/{kept.id}").text


def test_what_stays_because_changing_costs_is_no_trial_either(tmp_path: Path) -> None:
    with careful(tmp_path, ["a"], SwitchingCost(0.4)) as web:
        (first,) = web.operations.ask({"a": {"load": 0.4}}, actor="nms")
        web.operations.tell({first.id: 0.7}, actor="nms")
        (kept,) = web.operations.ask({"a": {"load": 0.4}}, actor="nms")
        assert kept.status == "kept"
        text = web.browser("viewer").get(f"/decisions/{kept.id}").text
        assert "not by as much as changing has to bring" in text
        assert "It is a trial" not in text
