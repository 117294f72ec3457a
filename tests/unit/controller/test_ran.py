"""What ran in the place of a decision is what its reward is learned for; and considering decides nothing."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference import naive
from tests.support.ledger_stores import OnRecord

from kinband import ConfigurationSpace, Controller
from kinband.controller.events import CalledOff, Entry, Ran, entry_from_dict, entry_to_dict
from kinband.controller.journal import check_entry
from kinband.diagnostics import audit
from kinband.diagnostics.calibration import predictions_of
from kinband.drift import Drift, Reset
from kinband.errors import BadInputError, ConflictError, NotFoundError, SavedStateError
from kinband.kernels import RBF
from kinband.kpis import KpiFloor
from kinband.policies import Conservative
from kinband.policies.base import KeepsState
from kinband.records import same_decision
from kinband.service.ledger import Ledger, replay

SPACE = ConfigurationSpace(tilt=[2, 3, 5, 8, 9], scheduler=["pf", "rr"])
K_Z = np.array([[1.2, 0.7], [0.7, 0.9]])
LENGTH, VARIANCE, NOISE, MEAN = 1.3, 0.4, 0.07, 0.55
STATE = {"load": 0.3, "users": 12}


def make(**changes: Any) -> Controller:
    given: dict[str, Any] = {
        "state": {"load": (0.0, 1.0), "users": (0.0, 50.0)}, "similarity": K_Z, "noise": NOISE, "mean": MEAN,
        "kernel": RBF(LENGTH, variance=VARIANCE), "beta": 1.4, "engine": "exact", "seed": 6,
    }  # fmt: skip
    return Controller(SPACE, ["a", "b"], **(given | changes))


def other(controller: Controller, decision_id: str, *, by: int = 1) -> dict[str, Any]:
    """A configuration that was not decided."""
    return dict(SPACE[(controller.decision(decision_id).arm + by) % len(SPACE)])


def beliefs(controller: Controller) -> dict[str, Any]:
    return controller.policy.state() if isinstance(controller.policy, KeepsState) else {}


def same_beliefs(one: Controller, two: Controller) -> bool:
    mine, theirs = beliefs(one), beliefs(two)
    return mine.keys() == theirs.keys() and all(
        np.allclose(mine[name], theirs[name], rtol=0, atol=1e-9) for name in mine
    )


def written(controller: Controller) -> list[str]:
    return [json.dumps(entry_to_dict(entry)) for entry in controller.journal]


# --- What is learned ------------------------------------------------------------------------------------------


def test_the_reward_is_learned_for_what_ran_and_not_for_what_was_decided() -> None:
    controller = make()
    decision = controller.ask("b", STATE)
    what = other(controller, decision.id, by=3)
    controller.ran(decision.id, what)
    controller.tell(decision.id, 0.9, noise=0.02)

    arm = SPACE.index(what)
    x = controller.setup.encoder.contexts(STATE)
    data = naive.Data(np.array([1]), x[arm][None], np.array([0.9]), np.array([NOISE + 0.02]))
    kernel, tasks = naive.rbf(LENGTH, VARIANCE), np.full(len(SPACE), 1)
    choice = controller.consider("b", STATE)
    assert choice.mean is not None
    assert choice.std is not None
    mean = naive.posterior_mean(data, kernel, K_Z, tasks, x, mean=MEAN)
    np.testing.assert_allclose(choice.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(choice.std, naive.posterior_width(data, kernel, K_Z, tasks, x), rtol=1e-7)
    assert abs(mean[arm] - mean[decision.arm]) > 0.01
    assert controller.journal.ran(decision.id) == arm != decision.arm


def test_the_last_one_said_counts() -> None:
    controller, once = make(), make()
    for one, said in ((controller, (1, 4, 2)), (once, (2,))):
        decision = one.ask("a", STATE)
        for by in said:
            one.ran(decision.id, other(one, decision.id, by=by))
        one.tell(decision.id, 0.4)
    assert same_beliefs(controller, once)
    assert sum(isinstance(entry, Ran) for entry in controller.journal) == 3


@pytest.mark.parametrize("policy", ["ucb", "super-ucb", "linucb"])
def test_naming_what_was_decided_takes_it_back(policy: str) -> None:
    changes = {"policy": policy, "options": {"horizon": 40} if policy == "super-ucb" else None}
    controller, plain = make(**changes), make(**changes)
    for number in range(5):
        decisions = [one.ask("ab"[number % 2], {"load": 0.1 * number, "users": 9}) for one in (controller, plain)]
        controller.ran(decisions[0].id, other(controller, decisions[0].id))
        controller.ran(decisions[0].id, decisions[0].configuration or {})
        for one, decision in zip((controller, plain), decisions, strict=True):
            one.tell(decision.id, 0.2 * number)
    assert same_beliefs(controller, plain)
    assert same_decision(controller.ask("a", STATE), plain.ask("a", STATE), spread=1.0)


def test_saying_what_holds_already_adds_no_entry() -> None:
    controller = make()
    decision = controller.ask("a", STATE)
    what = other(controller, decision.id)
    controller.ran(decision.id, decision.configuration or {})
    assert len(controller.journal) == 1
    controller.ran(decision.id, what)
    controller.ran(decision.id, what)
    assert len(controller.journal) == 2


@pytest.mark.parametrize("drift", [None, Drift(30.0, clock="numbers"), Drift(9.0)])
def test_the_context_of_what_ran_is_the_one_that_asking_for_it_would_have_used(drift: Drift | None) -> None:
    time: dict[str, Any] = {"time": 4.25} if drift is not None and drift.clock == "numbers" else {}
    controller, asked = make(drift=drift), make(drift=drift)
    for arm in range(len(SPACE)):
        decision = controller.ask("a", STATE, allowed=[(arm + 1) % len(SPACE)], **time)
        controller.ran(decision.id, SPACE[arm])
        controller.tell(decision.id, 0.5)
        asked.tell(asked.ask("a", STATE, allowed=[arm], **time).id, 0.5)
    ours, theirs = controller.observations(), asked.observations()
    assert [one.arm for one in ours] == list(range(len(SPACE)))
    assert all(np.array_equal(one.x, two.x) for one, two in zip(ours, theirs, strict=True))


def test_every_level_of_super_ucb_learns_what_it_did_not_choose() -> None:
    controller = make(policy="super-ucb", options={"horizon": 40})
    decision = controller.ask("a", STATE)
    controller.ran(decision.id, other(controller, decision.id))
    controller.tell(decision.id, 0.4)
    assert [len(level) for level in controller.policy.levels] == [1] * 4  # type: ignore[attr-defined]


def test_kpis_are_learned_for_what_ran() -> None:
    floor = KpiFloor("drops", at_most=0.9, mean=0.4, deviation=0.2, noise=0.01)
    controller, asked = make(kpis=floor), make(kpis=floor)
    decision = controller.ask("a", STATE, allowed=[3])
    controller.ran(decision.id, SPACE[7])
    controller.tell(decision.id, 0.4, kpis={"drops": 0.8})
    assert controller.journal.policy_state(decision.id) == {}
    asked.tell(asked.ask("a", STATE, allowed=[7]).id, 0.4, kpis={"drops": 0.8})
    mine, theirs = (one.ask("b", STATE).policy_state["kpis"] for one in (controller, asked))
    np.testing.assert_allclose(mine["means"]["drops"], theirs["means"]["drops"], rtol=1e-9)


def test_a_correction_puts_the_reward_of_what_ran_right() -> None:
    for policy in ("ucb", "super-ucb"):
        options = {"horizon": 40} if policy == "super-ucb" else None
        controller, right = make(policy=policy, options=options), make(policy=policy, options=options)
        for one in (controller, right):
            decision = one.ask("a", STATE)
            one.ran(decision.id, other(one, decision.id))
            one.tell(decision.id, 0.1 if one is controller else 0.8)
        controller.correct(decision.id, 0.8)
        mine, theirs = (one.consider("a", STATE).mean for one in (controller, right))
        assert mine is not None
        assert theirs is not None
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


# --- What is refused ------------------------------------------------------------------------------------------


def test_it_must_be_said_before_the_reward_is_told() -> None:
    controller = make()
    decision = controller.ask("a", STATE)
    controller.tell(decision.id, 0.25)
    with pytest.raises(ConflictError, match=r"d000001 was already told the reward 0\.25: call ran\(\) before telling"):
        controller.ran(decision.id, other(controller, decision.id))
    assert len(controller.journal) == 2


@pytest.mark.parametrize(
    ("key", "configuration", "error", "words"),
    [
        ("d000009", SPACE[0], NotFoundError, "no decision has the id 'd000009'"),
        ("d000001", {"tilt": 4, "scheduler": "pf"}, BadInputError, "ran names no configuration that 'a' has"),
        ("d000001", {"tilt": 2}, BadInputError, "ran names no configuration"),
        ("d000001", 3, BadInputError, "ran must be a configuration of 'a', got 3"),
    ],
)
def test_what_cannot_have_run_is_refused(key: str, configuration: Any, error: type[Exception], words: str) -> None:
    controller = make()
    controller.ask("a", STATE)
    with pytest.raises(error, match=words):
        controller.ran(key, configuration)
    assert len(controller.journal) == 1


@pytest.mark.parametrize("rows", [10, 4])
def test_other_context_rows_are_not_on_record(rows: int) -> None:
    controller = Controller(SPACE, ["a"], features=["p", "q"], seed=2)
    decision = controller.ask("a", contexts=np.random.default_rng(1).normal(size=(rows, 2)))
    with pytest.raises(BadInputError, match="asked with context rows, and only the chosen one is on record"):
        controller.ran(decision.id, SPACE[(decision.arm + 1) % 10])
    if decision.configuration is not None:
        controller.ran(decision.id, decision.configuration)
    assert len(controller.journal) == 1


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Ran("d000001", 10, np.zeros(4)), "cannot have run configuration 10: there are 10"),
        (Ran("d000001", 1, np.zeros(3)), "must be 4 numbers"),
        (Ran("d000001", 1, np.array([0.0, 1.0, np.nan, 0.0])), "must be 4 numbers"),
        (Ran("d000002", 1, np.zeros(4)), "d000002 was already told"),
        (Ran("d000003", 1, np.zeros(4)), "no decision has the id 'd000003'"),
    ],
)
def test_an_entry_that_cannot_follow_is_refused(entry: Entry, words: str) -> None:
    controller = make()
    controller.ask("a", STATE)
    controller.tell(controller.ask("a", STATE).id, 0.4)
    with pytest.raises((BadInputError, ConflictError, NotFoundError), match=words):
        check_entry(entry, controller.journal, controller.setup)


# --- What runs ------------------------------------------------------------------------------------------------


def running(controller: Controller, station: str = "a") -> Any:
    """What the next decision takes for what runs."""
    return controller.consider(station, STATE).policy_state["safety"]["running"]


def test_a_station_runs_what_ran_even_if_no_reward_will_come() -> None:
    controller = make(safety=Conservative(0.3), running=dict(SPACE[4]))
    first = controller.ask("a", STATE)
    controller.ran(first.id, SPACE[7])
    assert running(controller) == 7
    second = controller.ask("a", STATE)
    assert running(controller) == second.arm
    controller.call_off(second.id)
    assert running(controller) == 7  # whether what was called off ran is not known
    controller.ran(second.id, SPACE[(second.arm + 1) % 10])
    assert running(controller) == (second.arm + 1) % 10
    controller.ran(second.id, SPACE[second.arm])
    assert running(controller) == 7
    assert running(controller, "b") == 4


# --- Budgets --------------------------------------------------------------------------------------------------

TODAY = 4


def safe(of: str, **changes: Any) -> Controller:
    rule = Conservative(0.3, delta=0.3, least=-0.2) if of == "rewards" else Conservative(0.3, least=-0.2)
    return make(safety=rule, running=dict(SPACE[TODAY]), noise=0.002, **changes)


def decided(of: str, *, trial: bool) -> tuple[Controller, Any]:
    """A controller that has earned something, and a decision that tries something or plays what runs today."""
    controller = safe(of)
    for number in range(12):
        controller.tell(controller.ask("a", STATE, allowed=[TODAY]).id, 0.7 + 0.01 * number)
    decision = controller.ask("a", STATE, allowed=None if trial else [TODAY])
    assert ("x" in decision.policy_state["safety"]) == trial == (decision.arm != TODAY)
    return controller, decision


def pending(controller: Controller) -> float:
    return float(controller._memory.deployed.pending.get(0, 0.0))


@pytest.mark.parametrize("of", ["rewards", "expected"])
def test_what_ran_today_anyway_costs_nothing_and_earns_its_share(of: str) -> None:
    controller, decision = decided(of, trial=True)
    held = decision.policy_state["safety"]["lower"]
    assert pending(controller) == held < 0
    controller.ran(decision.id, SPACE[TODAY])
    assert pending(controller) == 0.0
    note = controller.journal.policy_state(decision.id)["safety"]
    assert note == {"lower": 0.0, "beta": decision.policy_state["safety"]["beta"]}
    before = beliefs(controller)["settled"][0]
    controller.tell(decision.id, 0.6)
    added = beliefs(controller)["settled"][0] - before
    assert pending(controller) == 0.0
    if of == "rewards":
        assert added == pytest.approx(0.3 * (0.6 + 0.2), rel=1e-12)
        assert len(beliefs(controller)["settled_open"]) == 0
    else:
        assert added > 0


def test_what_was_not_tried_counts_as_if_today_had_been_decided() -> None:
    for of in ("rewards", "expected"):
        controller, decision = decided(of, trial=True)
        plain = Controller.resume(controller.setup, list(controller.journal)[:-1])
        controller.ran(decision.id, SPACE[TODAY])
        controller.tell(decision.id, 0.6, noise=0.003)
        plain.tell(plain.ask("a", STATE, allowed=[TODAY]).id, 0.6, noise=0.003)
        for name in [name for name in beliefs(plain) if name.startswith("settled")]:
            np.testing.assert_allclose(beliefs(controller)[name], beliefs(plain)[name], rtol=1e-9)


@pytest.mark.parametrize("trial", [True, False])
def test_what_others_tried_is_bounded_as_a_trial_of_that(trial: bool) -> None:
    controller, decision = decided("rewards", trial=trial)
    arm = next(a for a in range(10) if a not in (TODAY, decision.arm))
    controller.ran(decision.id, SPACE[arm])

    rows = controller.observations()
    data = naive.Data(
        np.zeros(len(rows), dtype=np.int64), np.array([o.x for o in rows]), np.array([o.reward for o in rows]),
        np.full(len(rows), 0.002),
    )  # fmt: skip
    both = controller.setup.encoder.contexts(STATE)[[arm, TODAY]]
    kernel, tasks = naive.rbf(LENGTH, VARIANCE), np.zeros(2, dtype=np.int64)
    mean = naive.posterior_mean(data, kernel, K_Z, tasks, both, mean=MEAN) + 0.2
    C = naive.posterior_covariance(data, kernel, K_Z, tasks, both)
    beta, c = decision.policy_state["safety"]["beta"], np.array([1.0, -0.7])
    surely = c @ mean - beta * math.sqrt(c @ C @ c + (1 + 0.7**2) * 0.002)
    at_worst = -0.7 * mean[1] - beta * 0.7 * math.sqrt(C[1, 1] + 0.002)
    bound = max(surely, min(at_worst, 0.0))
    assert bound < -0.01
    assert pending(controller) == pytest.approx(bound, rel=1e-6)
    note = controller.journal.policy_state(decision.id)["safety"]
    assert note["x"] == controller.setup.encoder.contexts(STATE)[TODAY].tolist()

    controller.tell(decision.id, 0.1)
    (row,) = beliefs(controller)["settled_open"]
    assert row[2] == pytest.approx(0.1 + 0.2)  # the reward, counted from `least`
    assert row[4:].tolist() == both.ravel().tolist()


def test_taking_it_back_restores_the_budget() -> None:
    controller, decision = decided("rewards", trial=True)
    before = pending(controller)
    controller.ran(decision.id, SPACE[TODAY])
    controller.ran(decision.id, SPACE[decision.arm])
    assert pending(controller) == before
    assert controller.journal.policy_state(decision.id) == decision.policy_state


def test_a_called_off_decision_keeps_what_it_may_have_cost() -> None:
    controller, decision = decided("rewards", trial=False)
    assert pending(controller) > 0
    controller.ran(decision.id, SPACE[0])
    cost = pending(controller)
    controller.call_off(decision.id)
    assert pending(controller) == cost < 0
    controller.ran(decision.id, SPACE[TODAY])
    assert pending(controller) == 0.0


def test_a_journal_without_a_bound_counts_the_worse_of_nothing_and_what_was_decided() -> None:
    controller, decision = decided("rewards", trial=True)
    x = controller.setup.encoder.contexts(STATE)[0]
    again = Controller.resume(controller.setup, [*controller.journal, Ran(decision.id, 0, x)])
    assert pending(again) == decision.policy_state["safety"]["lower"] < 0


def test_budgets_under_floors_of_kpis_are_kept_too() -> None:
    floor = KpiFloor("drops", at_most=0.9, mean=0.4, deviation=0.2, noise=0.01)
    controller = safe("rewards", kpis=floor)
    decision = controller.ask("a", STATE, allowed=[TODAY])
    controller.ran(decision.id, SPACE[0])
    assert pending(controller) < 0
    assert "kpis" not in controller.journal.policy_state(decision.id)


# --- Who judges by predictions --------------------------------------------------------------------------------


def test_drift_is_judged_by_what_was_predicted_of_what_ran() -> None:
    controller = make(drift=Drift(reset=Reset(50.0)), noise=0.004, reward_range=(0, 1))
    wide, said = ConfigurationSpace(tilt=range(60)), list[float]()
    for allowed, arm in (([3], 3), (None, 5)):
        decision = controller.ask("a", STATE, allowed=allowed)
        if arm != decision.arm and allowed is None:
            controller.ran(decision.id, SPACE[arm])
        scored = next(one for one in decision.alternatives if one.arm == arm)
        assert controller.journal.predicted(decision.id) == (scored.mean, scored.std)
        controller.tell(decision.id, 0.9)
        said.append(controller._memory.watch._evidence[0].value)
    assert said[0] != said[1]

    many = Controller(wide, ["a"], drift=Drift(reset=Reset(50.0)), mean=0.5, noise=0.01)
    decision = many.ask("a")
    kept = {one.arm for one in decision.alternatives}
    assert len(kept) == 32
    many.ran(decision.id, wide[next(arm for arm in range(60) if arm not in kept)])
    many.tell(decision.id, 0.9)
    assert many.journal.predicted(decision.id) is None
    assert not many._memory.watch._evidence


def test_audits_hold_rewards_against_what_was_predicted_of_what_ran() -> None:
    controller = make(noise=0.05)
    for number in range(6):
        decision = controller.ask("ab"[number % 2], {"load": 0.1 * number, "users": 3})
        if number % 3 == 0:
            controller.ran(decision.id, other(controller, decision.id, by=2))
        controller.tell(decision.id, 0.3 + 0.1 * number, noise=0.01 * (number + 1))
    found = predictions_of(controller)
    for i, (key, asked) in enumerate(controller.journal.asked.items()):
        arm = (asked.decision.arm + 2) % 10 if i % 3 == 0 else asked.decision.arm
        scored = next(one for one in asked.decision.alternatives if one.arm == arm)
        assert scored.std is not None
        assert found.mean[i] == scored.mean
        assert found.variance[i] == pytest.approx(scored.std**2 + 0.05 + 0.01 * (i + 1))
        assert found.X[i].tolist() == controller.setup.encoder.contexts(asked.state or {})[arm].tolist()
        assert controller.journal.ran(key) == arm
    assert audit(controller).rewards == 6


def test_audits_leave_out_what_nothing_was_predicted_of() -> None:
    space = ConfigurationSpace(tilt=range(60))
    controller = Controller(space, ["a"], noise=0.05, mean=0.5)
    decision = controller.ask("a")
    kept = {one.arm for one in decision.alternatives}
    controller.ran(decision.id, space[next(arm for arm in range(60) if arm not in kept)])
    controller.tell(decision.id, 0.4)
    with pytest.raises(BadInputError, match="of what the stations ran instead, no prediction was kept"):
        audit(controller)
    controller.tell(controller.ask("a").id, 0.6)
    assert (audit(controller).decisions, audit(controller).rewards) == (2, 1)


def test_an_explanation_says_what_ran_instead() -> None:
    controller = make()
    decision = controller.ask("a", STATE, allowed=[2])
    plain = controller.explain(decision.id)
    assert (plain.ran, plain.to_dict()["ran"]) == (None, None)
    assert "instead" not in plain.text
    controller.ran(decision.id, SPACE[5])
    before = controller.explain(decision.id)
    assert "The station ran tilt=5, scheduler=rr instead; its reward will be learned for that." in before.text
    controller.tell(decision.id, 0.75)
    after = controller.explain(decision.id)
    assert after.text.endswith("tilt=5, scheduler=rr instead; its reward was learned for that. It earned 0.750.")
    assert after.to_dict()["ran"] == {"arm": 5, "configuration": {"tilt": 5, "scheduler": "rr"}}
    assert after.decision.arm == 2


# --- Records --------------------------------------------------------------------------------------------------


def test_an_entry_survives_json_to_the_last_bit() -> None:
    for entry in (Ran("d1", 3, np.array([0.1, -1 / 3])), Ran("d1", 3, np.array([0.7]), lower=-1 / 7)):
        values = json.loads(json.dumps(entry_to_dict(entry)))
        assert list(values) == ["entry", "id", "arm", "x"] + ["lower"] * (entry.lower is not None)
        again = entry_from_dict(values, {})
        assert isinstance(again, Ran)
        assert (again.id, again.arm, again.lower) == (entry.id, entry.arm, entry.lower)
        assert np.array_equal(again.x, entry.x)


def test_what_ran_survives_the_folder(tmp_path: Path) -> None:
    controller = make()
    decision = controller.ask("a", STATE)
    controller.ran(decision.id, other(controller, decision.id))
    controller.save(tmp_path / "ran")
    assert Controller.load(tmp_path / "ran").journal.ran(decision.id) == (decision.arm + 1) % 10


def test_a_saved_entry_that_was_edited_is_refused(tmp_path: Path) -> None:
    controller = make()
    decision = controller.ask("a", STATE)
    controller.ran(decision.id, other(controller, decision.id))
    edited = [*list(controller.journal)[:1], Ran(decision.id, 99, np.zeros(4))]
    with pytest.raises(BadInputError, match="cannot have run configuration 99"):
        Controller.resume(controller.setup, edited)
    with pytest.raises(SavedStateError, match="unknown kind, 'run'"):
        entry_from_dict({"entry": "run", "id": "d1"}, {})


def test_the_work_kept_while_asking_is_dropped() -> None:
    controller = make()
    controller.tell(controller.ask("a", STATE).id, 0.5)
    decision = controller.ask("a", STATE)
    assert decision.id in controller._memory._caches
    controller.ran(decision.id, other(controller, decision.id))
    assert decision.id not in controller._memory._caches
    controller.tell(decision.id, 0.2)
    assert same_beliefs(controller, Controller.resume(controller.setup, list(controller.journal)))


def test_a_ledger_keeps_what_ran(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    durable, plain = OnRecord(ledger, make()), make()
    for one in (durable, plain):
        first, second = one.ask("a", STATE), one.ask("b", STATE)
        one.ran(first.id, SPACE[(first.arm + 3) % 10])
        one.ran(second.id, SPACE[(second.arm + 1) % 10])
        one.ran(second.id, SPACE[second.arm])
        one.tell(first.id, 0.3)
        one.tell(second.id, 0.6)
    events = list(ledger.read(kinds=["ran"]))
    assert [(event.decision, event.station) for event in events] == [
        (first.id, "a"),
        (second.id, "b"),
        (second.id, "b"),
    ]
    third = durable.ask("a", STATE).arm
    said, last = (SPACE[(third + by) % 10] for by in (4, 7))
    durable.ran("d000003", said, key="k", actor="mm")
    durable.ran("d000003", last)
    durable.ran("d000003", said, key="k", actor="mm")  # done before: it does not count as said last
    plain.ran(plain.ask("a", STATE).id, last)
    again = OnRecord(ledger)
    assert same_beliefs(again.controller, plain)
    assert written(again.controller)[-1] == written(plain)[-1]
    assert again.controller.journal.ran("d000003") == (third + 7) % 10
    again.tell("d000003", 0.9)
    plain.tell("d000003", 0.9)
    assert same_decision(again.ask("b", STATE), plain.ask("b", STATE), spread=1.0)
    assert replay(ledger, "d000004").same
    ledger.close()


def test_a_ledger_takes_over_what_a_controller_was_told_had_run(tmp_path: Path) -> None:
    controller = make()
    decision = controller.ask("a", STATE)
    controller.ran(decision.id, other(controller, decision.id))
    ledger = Ledger.open(tmp_path / "ledger.db")
    durable = OnRecord(ledger, controller)
    durable.tell(decision.id, 0.7)
    controller.tell(decision.id, 0.7)
    assert same_beliefs(OnRecord(ledger).controller, controller)
    ledger.close()


# --- Considering ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["ucb", "thompson", "random", "linucb", "super-ucb"])
def test_asking_after_considering_decides_what_was_considered(policy: str) -> None:
    controller = make(policy=policy, options={"horizon": 60} if policy == "super-ucb" else None)
    rng = np.random.default_rng(3)
    for number in range(12):
        asked: dict[str, Any] = {"state": {"load": rng.random(), "users": 5}, "allowed": [1, 2, 5, 6, 9]}
        station = "ab"[number % 2]
        entries = written(controller)
        before = beliefs(controller)
        choices = [controller.consider(station, **asked) for _ in range(2)]
        assert choices[0].arm == choices[1].arm
        assert choices[0].cache is None
        assert written(controller) == entries
        assert all(np.array_equal(before[name], value) for name, value in beliefs(controller).items())
        decision = controller.ask(station, **asked)
        assert decision.arm == choices[0].arm
        assert decision.policy_state == choices[0].policy_state
        if choices[0].mean is not None:
            scored = {one.arm: one.mean for one in decision.alternatives}
            assert scored == dict(zip(choices[0].arms.tolist(), choices[0].mean.tolist(), strict=True))
            assert set(scored) == {1, 2, 5, 6, 9} or policy == "super-ucb"
        controller.tell(decision.id, float(rng.random()))


def test_considering_does_not_set_the_clock() -> None:
    controller = make(drift=Drift(20.0, clock="numbers"))
    controller.ask("a", STATE, time=3.0)
    controller.consider("a", STATE, time=90.0)
    assert controller.ask("a", STATE, time=3.5).id == "d000002"
    with pytest.raises(BadInputError, match="the clock jumped back"):
        controller.consider("a", STATE, time=1.0)
    with pytest.raises(BadInputError, match="say the time of a decision"):
        controller.consider("a", STATE)


def test_considering_takes_what_runs_and_context_rows_as_asking_does() -> None:
    controller = safe("expected")
    controller.tell(controller.ask("a", STATE).id, 0.6)
    assert controller.consider("a", STATE, running=SPACE[8]).policy_state["safety"]["running"] == 8
    rows = np.random.default_rng(2).normal(size=(7, 2))
    by_rows = Controller(SPACE, ["a"], features=["p", "q"], seed=3)
    choice = by_rows.consider("a", contexts=rows)
    assert len(choice.arms) == 7
    assert by_rows.ask("a", contexts=rows).arm == choice.arm
    with pytest.raises(NotFoundError, match="unknown station 'z'"):
        by_rows.consider("z", contexts=rows)


def test_up_to_32_configurations_keep_all_their_scores() -> None:
    space = ConfigurationSpace(tilt=range(32))
    controller = Controller(space, ["a"], kernel=RBF(3.1, variance=0.2), noise=0.03, seed=4)
    controller.tell(controller.ask("a").id, 0.4)
    choice, decision = controller.consider("a"), controller.ask("a")
    assert choice.score is not None
    assert [one.arm for one in decision.alternatives] == np.argsort(-choice.score, kind="stable").tolist()


def test_a_call_off_and_what_ran_are_entries_apart() -> None:
    controller = make()
    decision = controller.ask("a", STATE)
    controller.ran(decision.id, other(controller, decision.id))
    controller.call_off(decision.id)
    controller.tell(decision.id, 0.3)  # late, and still welcome
    assert [type(entry) for entry in controller.journal][1:3] == [Ran, CalledOff]
    assert controller.observations()[0].arm == (decision.arm + 1) % 10
