"""The rules of safe trials: arithmetic one can do by hand, who runs what, and what is refused.

The linear kernel makes every bound a line of arithmetic: f(x) = 0.8 + w·x with w ~ N(0, s²), so that σ(x) = s·|x|.
Configuration "low" has x = 1 and is what runs today; "high" has x = 2, is less certain, and is what UCB wants.
"""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Decision
from kinband.controller.explain import held_back_text
from kinband.errors import BadInputError
from kinband.kernels import RBF, Linear
from kinband.policies import Conservative, Floor, KrauseOng, SwitchingCost, Theorem1
from kinband.policies.budget import margins
from kinband.policies.constraints import Draft, Narrowed
from kinband.policies.safety import (
    Constrained,
    Rule,
    Safety,
    posterior_of,
    safety_from,
    safety_from_dict,
    safety_to_dict,
)
from kinband.posterior import ExactPosterior
from kinband.records import Choice, Deployed

S, MEAN, BETA, ALPHA, NOISE = 0.21, 0.8, 1.5, 0.1, 0.04
X = np.array([[1.0], [2.0]])  # low, high
LOW, HIGH = 0, 1
SAFE = ALPHA * (MEAN - BETA * S)  # 0.0485: what a decision for today's configuration adds for sure
TRIAL = MEAN - 0.9 * MEAN - BETA * S * (2 - 0.9)  # −0.2665: what a trial of the other adds at worst
TODAY = {"knob": "low"}


def make(stations: int = 1, **given: Any) -> Controller:
    names = [f"s{i}" for i in range(stations)]
    values = {"running": TODAY, "beta": BETA, "features": ["x"], **given}
    space = ConfigurationSpace(knob=["low", "high"])
    return Controller(space, names, kernel=Linear(S**2), noise=NOISE, mean=MEAN, engine="exact", **values)


def ask(controller: Controller, station: str = "s0", **given: Any) -> Decision:
    return controller.ask(station, contexts=X, **given)


# --- The budget -----------------------------------------------------------------------------------------------


def test_the_hand_made_numbers_need_six_quiet_decisions_for_a_trial() -> None:
    assert 5 * SAFE + TRIAL < 0 < 6 * SAFE + TRIAL


def test_the_first_trial_waits_until_the_budget_bears_it() -> None:
    controller = make(safety=Conservative(ALPHA))
    decisions = [ask(controller) for _ in range(8)]
    assert [d.arm for d in decisions] == [LOW] * 6 + [HIGH, LOW]
    lowers = [d.policy_state["safety"]["lower"] for d in decisions]
    np.testing.assert_allclose(lowers, [SAFE] * 6 + [TRIAL, SAFE], rtol=1e-12)


def test_a_round_is_weighed_one_decision_after_the_other() -> None:
    controller = make(8, safety=Conservative(ALPHA))
    round_ = controller.ask_all(contexts=dict.fromkeys(controller.stations, X))
    assert [d.arm for d in round_.values()] == [LOW] * 6 + [HIGH, LOW]


def test_a_network_shares_one_budget_unless_every_station_has_its_own() -> None:
    for per_station, expected in ((False, HIGH), (True, LOW)):
        controller = make(7, safety=Conservative(ALPHA, per_station=per_station))
        for i in range(6):
            ask(controller, f"s{i}")
        assert ask(controller, "s6").arm == expected


def test_a_decision_that_is_called_off_loses_what_it_earned_and_keeps_what_it_cost() -> None:
    controller = make(safety=Conservative(ALPHA))
    quiet = [ask(controller) for _ in range(6)]
    controller.call_off(quiet[0].id)
    assert [ask(controller).arm for _ in range(2)] == [LOW, HIGH]
    spent = make(safety=Conservative(ALPHA))
    trial = [ask(spent) for _ in range(7)][-1]
    spent.call_off(trial.id)
    assert trial.arm == HIGH
    assert ask(spent).arm == LOW


def test_what_was_held_back_is_on_record() -> None:
    decision = ask(make(safety=Conservative(ALPHA)))
    assert decision.policy_state["safety"]["held_back"] == HIGH
    assert decision.policy_state["safety"]["by"] == "budget"
    assert decision.ucb == pytest.approx(MEAN + BETA * S)
    assert decision.alternatives[0].ucb == pytest.approx(MEAN + BETA * 2 * S)


def test_a_station_that_surely_earns_no_less_stays_when_another_has_emptied_the_budget() -> None:
    space, earns = ConfigurationSpace(tilt=[2, 4, 6]), [0.6, 0.68, 0.5]
    controller = Controller(
        space, ["well", "ill"], noise=1e-4, mean=0.6, safety=Conservative(0.05, delta=0.05), running={"tilt": 2}, seed=3
    )
    rng, slots = np.random.default_rng(5), list[dict[str, Decision]]()
    for t in range(70):
        slots.append({station: controller.ask(station) for station in ("well", "ill")})
        for station, made in slots[-1].items():
            fails = station == "ill" and t >= 40
            controller.tell(made.id, 0.0 if fails else earns[made.arm] + 0.01 * rng.normal())
    empty = [slot for slot in slots[40:] if slot["ill"].policy_state["safety"].get("by") == "budget"]
    assert len(empty) > 2
    assert {slot["ill"].arm for slot in empty} == {0}
    assert {slot["well"].arm for slot in empty} == {1}  # the declared one would surely earn less
    text = str(controller.explain(empty[-1]["ill"].id))
    assert "more than the budget bears. The station stays with what it runs, which is what was declared" in text


def test_what_becomes_of_a_trial_that_a_budget_holds_back_is_said_in_words() -> None:
    def text(arm: int, **note: Any) -> str:
        policy_state = {"safety": {"held_back": 0, "by": "budget", "running": 2, **note}}
        return held_back_text(Decision("d1", "a", arm, None, 0.9, 0.1, 1.0, policy_state=policy_state))

    assert text(1).endswith("The station goes back to what was declared, which costs the budget nothing.")
    assert text(2, x=[0.5]).endswith("stays with what it runs, which surely earns no less than what was declared.")
    assert text(2).endswith("stays with what it runs, which is what was declared.")
    assert "declared" not in text(2, by="floor")


def test_a_reward_is_counted_with_what_is_known_once_it_is_learned() -> None:
    controller = make(safety=Conservative(ALPHA))
    controller.tell(ask(controller).id, 0.7)
    weight, variance = S**2 / (S**2 + NOISE) * (0.7 - MEAN), S**2 * NOISE / (S**2 + NOISE)  # of w, after x = 1
    policy = controller.policy
    assert isinstance(policy, Constrained) and policy.budget is not None  # noqa: PT018
    expected = ALPHA * (MEAN + weight - BETA * math.sqrt(variance))
    np.testing.assert_allclose(policy.budget.settled, [expected], rtol=1e-12)


def test_a_trial_can_cost_no_more_than_all_that_today_could_have_earned() -> None:
    posterior, beta = ExactPosterior(Linear(S**2), [[1.0]], noise=NOISE, mean=MEAN), 40.0
    trial, today = X[[HIGH]], X[[LOW]]
    rule = Conservative(0.5)
    found = margins(posterior, [0], trial, against=today, beta=np.array([beta]), rule=rule)
    np.testing.assert_allclose(found, [-0.5 * (MEAN + beta * S)])  # the difference alone would allow for −12.2
    assert margins(posterior, [0], today, against=today, beta=np.array([beta]), rule=rule).tolist() == [0.0]


def test_rewards_may_be_counted_from_another_zero() -> None:
    controller = make(safety=Conservative(ALPHA, least=-1.0))
    assert ask(controller).policy_state["safety"]["lower"] == pytest.approx(ALPHA * (MEAN + 1.0 - BETA * S))


@pytest.mark.parametrize("rule", [2.5, KrauseOng(0.2), Theorem1(delta=0.2, norm=0.3)])
def test_bounds_of_a_rule_count_decisions(rule: Any) -> None:
    controller = make(3, safety=Conservative(ALPHA, bounds=rule, of="expected"))
    ask(controller)
    round_ = controller.ask_all(contexts=dict.fromkeys(controller.stations, X))
    betas = [d.policy_state["safety"]["beta"] for d in round_.values()]
    if isinstance(rule, float):
        assert betas == [rule] * 3
    else:
        assert betas == [rule.beta(known=n, arms=2, noise=NOISE) for n in (1, 2, 3)]


def test_a_budget_with_a_rate_has_the_bounds_that_hold_with_it_and_is_calibrated_besides() -> None:
    rule, models_word = Conservative(0.1, delta=0.3), Conservative(0.1, bounds=KrauseOng(0.3))
    assert (rule.bounds, rule.of) == (models_word.bounds, models_word.of) == (KrauseOng(0.3), "rewards")
    assert (rule.delta, models_word.delta) == (0.3, None)
    assert replace(rule, alpha=0.2) == Conservative(0.2, delta=0.3)


def test_a_correction_leads_where_the_right_reward_would_have_led() -> None:
    wrong, right = make(safety=Conservative(ALPHA)), make(safety=Conservative(ALPHA))
    ids = [ask(wrong).id for _ in range(3)]
    for controller, first in ((wrong, 9.0), (right, 0.6)):
        if controller is right:
            assert [ask(right).id for _ in range(3)] == ids
        controller.tell(ids[0], first)
        controller.tell(ids[1], 0.7)
    wrong.correct(ids[0], 0.6)
    settled = [c.policy.budget.settled for c in (wrong, right)]  # type: ignore[attr-defined]
    assert settled[0].tolist() == settled[1].tolist()


# --- The floor and the cost -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("drop", "expected"), [(BETA * S - 1e-6, LOW), (BETA * S + 1e-6, HIGH)])
def test_a_floor_asks_for_the_difference(drop: float, expected: int) -> None:
    decision = ask(make(safety=Floor(drop)))  # σ(high − low) = s·|2 − 1|
    assert decision.arm == expected
    assert decision.policy_state["safety"].get("held_back") == (HIGH if expected == LOW else None)


@pytest.mark.parametrize(("drop", "expected"), [(BETA * 2 * S - 1e-6, LOW), (BETA * 2 * S + 1e-6, HIGH)])
def test_a_floor_against_the_mean_asks_for_the_trial_alone(drop: float, expected: int) -> None:
    assert ask(make(safety=Floor(drop, against="mean"))).arm == expected


def test_a_floor_takes_the_next_best_that_passes() -> None:
    space, rows = ConfigurationSpace(knob=range(3)), np.array([[1.0], [3.0], [2.0]])
    controller = Controller(
        space, ["a"], features=["x"], kernel=Linear(S**2), mean=MEAN, beta=BETA, running={"knob": 0},
        safety=Floor(1.5 * BETA * S),
    )  # fmt: skip
    decision = controller.ask("a", contexts=rows)
    assert decision.arm == 2
    assert decision.policy_state["safety"] == {"running": 0, "held_back": 1, "by": "floor"}


@pytest.mark.parametrize(("drop", "expected"), [(0.9, 2), (0.5, 1), (0.3, 0)])
def test_where_what_runs_may_not_be_chosen_every_open_arm_is_looked_at_before_it(drop: float, expected: int) -> None:
    """By their lower bounds 0.45 and 0.1, arms 1 and 2 may cost 0.45 and 0.8; arm 0 runs and scores above arm 1."""
    mean, std = np.array([0.9, 0.5, 0.6]), np.array([0.0, 0.05, 0.5])
    query = Narrowed(0, np.zeros((3, 1)), np.ones(3, bool), Deployed(running=0), np.array([False, True, True]))
    draft = Draft(
        query, Choice(2, query.arms, mean, std, mean + std), mean + std, arm=2, policy=SimpleNamespace(noise=1)
    )
    [judged] = Floor(drop, against="mean", bounds=1.0).judge([draft])
    assert judged.arm == expected
    assert judged.note == {"running": 0, **({} if expected == 2 else {"held_back": 2, "by": "floor"})}


@pytest.mark.parametrize(("cost", "expected"), [(BETA * S + 1e-6, LOW), (BETA * S - 1e-6, HIGH)])
def test_a_change_must_be_worth_its_cost(cost: float, expected: int) -> None:
    decision = ask(make(safety=SwitchingCost(cost)))
    assert decision.arm == expected
    assert decision.ucb == pytest.approx(MEAN + BETA * S + (0.0 if expected == LOW else BETA * S - cost))


def test_a_cost_where_nothing_runs_changes_nothing() -> None:
    assert ask(make(safety=SwitchingCost(5.0), running=None)).arm == HIGH


def test_the_budget_has_the_last_word() -> None:
    controller = make(safety=[Conservative(ALPHA), Floor(math.inf), SwitchingCost(0.0)])
    assert [ask(controller).arm for _ in range(7)] == [LOW] * 6 + [HIGH]
    # High now runs, and low is a step down that the floor alone would not take; the budget insists.
    strict = make(safety=[Conservative(ALPHA), Floor(0.0)])
    assert ask(strict, running={"knob": "high"}).arm == LOW


# --- Who runs what --------------------------------------------------------------------------------------------


def running(decision: Decision) -> Any:
    return decision.policy_state["safety"]["running"]


def test_the_caller_knows_better_than_the_record_and_the_record_than_the_declaration() -> None:
    controller = make(safety=SwitchingCost(0.0))
    first = ask(controller)
    assert (running(first), first.arm) == (LOW, HIGH)
    assert running(ask(controller)) == HIGH
    assert running(ask(controller, running=TODAY)) == LOW
    in_round = controller.ask_all(contexts={"s0": X}, running={"s0": TODAY})["s0"]
    assert running(in_round) == LOW


def test_what_was_called_off_does_not_run_until_its_reward_comes_after_all() -> None:
    controller = make(safety=SwitchingCost(0.0))
    trial = ask(controller)
    controller.call_off(trial.id)
    assert running(ask(controller, allowed=[LOW])) == LOW
    other = make(safety=SwitchingCost(0.0))
    trial = ask(other)
    other.call_off(trial.id)
    other.tell(trial.id, 0.9)
    assert running(ask(other)) == HIGH


def test_stations_may_be_declared_one_by_one() -> None:
    controller = make(2, safety=SwitchingCost(0.0), running={"s1": {"knob": "high"}})
    assert running(ask(controller, "s1")) == HIGH
    assert running(ask(controller, "s0")) is None


def test_a_policy_of_ones_own_is_told_what_runs() -> None:
    seen = []

    class Watching:
        def choose(self, query: Any, rng: Any) -> Any:
            seen.append(query.deployed.running)
            return Choice(HIGH, query.arms)

        def learn(self, observation: Any) -> None:
            pass

    controller = make(policy=lambda setting: Watching())
    ask(controller)
    ask(controller)
    assert seen == [LOW, HIGH]


# --- On disk --------------------------------------------------------------------------------------------------

RULES: list[Rule] = [  # a promise of rewards, since a probability is stated
    Conservative(0.2, per_station=True, least=-1.0, bounds=KrauseOng(0.3)),
    Floor(math.inf),
    SwitchingCost(0.25),
]


def test_rules_and_declarations_survive_the_folder(tmp_path: Path) -> None:
    controller = make(2, safety=RULES, running={"s0": TODAY, "s1": {"knob": "high"}})
    controller.save(tmp_path / "state")
    loaded = Controller.load(tmp_path / "state").setup
    assert loaded.rules == controller.setup.rules == safety_from(RULES)
    assert loaded.running == {"s0": LOW, "s1": HIGH}


def test_a_rule_saved_before_rewards_could_be_promised_means_what_it_meant() -> None:
    written = {"alpha": 0.2, "per_station": True, "least": -1.0, "bounds": {"rule": "krause-ong", "delta": 0.3}}
    loaded = safety_from_dict({"conservative": written, "floor": None, "cost": None})
    rule = Conservative(0.2, per_station=True, least=-1.0, bounds=KrauseOng(0.3), of="expected")
    assert loaded == Safety(conservative=rule)
    assert safety_to_dict(loaded)["conservative"] == written


# --- Refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [-0.01, 1.01, math.nan, math.inf, "much"])
def test_an_alpha_that_is_no_share_is_refused(alpha: Any) -> None:
    with pytest.raises(BadInputError, match="alpha"):
        Conservative(alpha)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.3, math.nan])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    with pytest.raises(BadInputError, match="delta"):
        Conservative(0.1, delta=delta)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (lambda: Floor(-0.1), "drop must not be negative"),
        (lambda: Floor(math.nan), "drop must be finite"),
        (lambda: Floor(0.1, against="median"), "'difference' or 'mean'"),  # type: ignore[arg-type]
        (lambda: SwitchingCost(-1e-9), "must not be negative"),
        (lambda: SwitchingCost(math.inf), "must be finite"),
        (lambda: Conservative(least=math.nan), "least must be finite"),
        (lambda: Conservative(bounds="strict"), "beta must be a number"),
        (lambda: Conservative(bounds=2.0, delta=0.1), "not both"),
        (lambda: Conservative(of="rewards"), "needs the probability"),
        (lambda: Conservative(bounds=2.0, of="rewards"), "needs the probability"),
        (lambda: Conservative(delta=0.1, of="luck"), "'rewards' or of what is 'expected'"),  # type: ignore[arg-type]
        (lambda: Conservative(bounds=2.0).probability, "no probability is stated"),
        (lambda: Floor(0.1, delta=1.5), "delta is a probability"),
        (lambda: make(safety="conservative"), "safety takes"),
        (lambda: make(safety=[Floor(0.1), Floor(0.2)]), "Floor twice"),
        (lambda: make(safety=Conservative(), running=None), "'s0' has none"),
        (lambda: make(2, safety=Conservative(), running={"s0": TODAY}), "'s1' has none"),
        (lambda: make(running={"knob": "lower"}), "no configuration that 's0' has"),
        (lambda: make(running={"s9": TODAY}), "'s9', which is not a station"),
        (lambda: make(running="low"), "running must be a configuration"),
        (lambda: make(safety=Conservative(), reward_range=(-1, 1)), "pass least=-1"),
        (lambda: ask(make(safety=Floor(0.1), running=None)), "what 's0' runs, which is not known"),
        (lambda: ask(make(), running={"knob": "lower"}), "no configuration that 's0' has"),
        (lambda: ask(make(), running="low"), "running must be a configuration"),
        (lambda: ask(make(safety=Floor(0.1)), allowed=[HIGH]), "falls back to"),
        (lambda: ask(make(safety=Conservative()), allowed=[HIGH]), "falls back to"),
        (lambda: make().ask_all(contexts={"s0": X}, running={"s7": TODAY}), "not asked for: s7"),
        (lambda: make().ask_all(contexts={"s0": X}, running="low"), "by station"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_one_sentence(rule: Any, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        rule()


@pytest.mark.parametrize(
    ("policy", "options"), [("random", {}), ("fixed", {"arm": 0}), ("linucb", {}), ("super-ucb", {"horizon": 9})]
)
def test_a_policy_without_a_posterior_is_refused(policy: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="need a policy with a posterior"):
        make(policy=policy, options=options, safety=SwitchingCost(0.1))


@pytest.mark.parametrize("policy", ["ucb", "kernel-ucb", "cgp-ucb", "pooled"])
@pytest.mark.parametrize("engine", ["exact", "schur", "sparse", "auto"])
@pytest.mark.parametrize("conservative", [Conservative(0.3), Conservative(0.6, delta=0.4)], ids=["plain", "rewards"])
def test_every_policy_with_a_posterior_takes_every_rule_on_every_engine(
    policy: str, engine: str, conservative: Conservative
) -> None:
    space = ConfigurationSpace(knob=range(4))
    controller = Controller(
        space, ["a", "b"], state=["load"], kernel=RBF(0.7, variance=0.1), mean=0.8, policy=policy, engine=engine,
        safety=[conservative, Floor(0.2), SwitchingCost(0.01)], running={"knob": 1},
    )  # fmt: skip
    rng = np.random.default_rng(5)
    for _ in range(8):
        for decision in controller.ask_all({"a": {"load": rng.random()}, "b": {"load": rng.random()}}).values():
            controller.tell(decision.id, 0.7 + 0.1 * float(rng.random()))
    assert isinstance(controller.policy, Constrained)
    assert len(controller.policy.constraints) == 3
    assert safety_from([]) is None


def test_a_reward_below_the_least_there_can_be_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    controller = make(safety=Conservative(ALPHA, least=0.3))
    for reward in (0.3, 0.25, 0.1):
        controller.tell(ask(controller).id, reward)
    [record] = caplog.records
    said = record.getMessage()
    assert record.levelname == "WARNING"
    assert said.startswith("decision d000002 earned 0.25, below the least=0.3 that Conservative counts rewards from")


def test_nothing_is_said_of_low_rewards_where_there_is_no_budget(caplog: pytest.LogCaptureFixture) -> None:
    controller = make(safety=Floor(0.2))
    controller.tell(ask(controller).id, -3.0)
    assert not caplog.records


def test_beliefs_are_those_of_any_policy_that_keeps_a_posterior() -> None:
    class OwnPolicy:
        """No relative of UCB."""

        def __init__(self, posterior: Any) -> None:
            self.posterior = posterior

        def choose(self, query: Any, rng: Any) -> Choice:
            raise NotImplementedError

        def learn(self, observation: Any) -> None:
            raise NotImplementedError

    believed = ExactPosterior(RBF(), [[1.0]], noise=0.1)
    assert posterior_of(OwnPolicy(believed)) is believed
    assert posterior_of(Constrained(OwnPolicy(believed), ())) is believed
    assert posterior_of(OwnPolicy("rewards by hand")) is None
