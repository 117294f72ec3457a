"""Rules with a rate: arithmetic one can do by hand, what is tried before enough is known, and what is refused."""

import json
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Decision
from kinband.errors import BadInputError
from kinband.kernels import RBF, Linear
from kinband.kpis import KpiFloor
from kinband.policies import Conservative, Floor, KrauseOng
from kinband.policies.calibration import STEP, Calibration
from kinband.policies.kpi_floors import floor_to_dict
from kinband.policies.safety import safety_from_dict, safety_to_dict
from kinband.records import Samples

SPACE = ConfigurationSpace(tilt=[2, 4, 6])
Z = NormalDist().inv_cdf(0.9)
MODEL = {"mean": 0.5, "deviation": 0.2, "noise": 0.01}


def make(*, stations: int = 1, **given: Any) -> Controller:
    """Ten rewards seed a rate of 0.1; tilt=6 looks best to a stranger, by a hair."""
    names = [f"s{i}" for i in range(stations)]
    usual: dict[str, Any] = {"kernel": RBF(1.0, variance=0.04), "noise": 0.01, "mean": 0.5, "beta": 2.0, "seed": 1}
    return Controller(SPACE, names, running={"tilt": 2}, **(usual | given))


def told(controller: Controller, *rewards: float, **given: Any) -> Decision:
    for reward in rewards:
        decision = controller.ask("s0")
        controller.tell(decision.id, reward, **given)
    return decision


def floor_of(controller: Controller) -> Calibration:
    return controller._memory.calibrated.rules["floor"]


def test_a_missed_bound_widens_and_a_kept_one_narrows() -> None:
    controller = make(safety=Floor(0.2, delta=0.1))
    assert floor_of(controller).quantile == pytest.approx(Z)
    told(controller, -5.0)
    assert floor_of(controller).quantile == pytest.approx(Z + STEP * 0.9)
    told(controller, 0.5)
    assert floor_of(controller).quantile == pytest.approx(Z + STEP * 0.8)


def test_a_decision_notes_the_quantile_it_was_made_with_and_says_so_in_words() -> None:
    controller = make(safety=Floor(0.2, delta=0.1))
    told(controller, -5.0, 0.5)
    decision = controller.ask("s0")
    [(name, noted)] = decision.policy_state["calibrated"]["rules"].items()
    assert (name, noted["rows"], noted["missed"], noted["trials"]) == ("floor", 2, 1, 0)
    assert noted["quantile"] == pytest.approx(Z + STEP * 0.8)
    explained = controller.explain(decision.id)
    said = f"The floor took bounds of {noted['quantile']:.2f} standard deviations: 1 of 2 rewards had missed theirs"
    assert said in explained.text
    assert explained.to_dict()["calibrated"] == decision.policy_state["calibrated"]


def test_the_bound_of_the_asking_counts_however_late_its_reward_comes() -> None:
    controller = make(stations=2, safety=Floor(0.2, delta=0.1))
    first = controller.ask("s1")
    told(controller, -5.0, -5.0)
    assert floor_of(controller).quantile == pytest.approx(Z + STEP * 1.8)
    assert first.mean is not None
    assert first.std is not None
    controller.tell(first.id, first.mean - (Z + 0.05) * (first.std**2 + 0.01) ** 0.5)  # above today's bound
    assert floor_of(controller).every.missed == 3


@pytest.mark.parametrize("arms", [3, 40])
def test_rewards_in_shadow_mode_count_though_nothing_is_tried(arms: int) -> None:
    """Of forty configurations thirty-two are kept with a decision: what is predicted of what runs is noted besides."""
    space = ConfigurationSpace(tilt=range(arms))
    controller = Controller(
        space, ["s0"], kernel=Linear(0.04), noise=0.01, mean=0.5, beta=2.0, running={"tilt": 0},
        safety=Floor(9.0, delta=0.1), log=log_of(list(range(arms)), space=space),
    )  # fmt: skip
    for reward in (0.5, -9.0, 0.5):
        decision = controller.ask("s0")
        assert decision.arm != 0
        controller.ran(decision.id, {"tilt": 0})
        controller.tell(decision.id, reward)
    rate = floor_of(controller)
    assert (rate.every.rows, rate.every.missed, rate.trials.rows) == (3, 1, 0)


def test_what_a_rail_put_in_place_is_held_against_what_was_predicted_of_it() -> None:
    controller = make(safety=Floor(9.0, delta=0.1), log=log_of([0, 1]))
    decision = controller.ask("s0", allowed={"tilt": [2, 4]})
    controller.ran(decision.id, {"tilt": 4})
    controller.tell(decision.id, -9.0)
    rate = floor_of(controller)
    assert (rate.trials.rows, rate.trials.missed) == (1, 1)


def test_before_enough_rewards_are_known_only_what_has_run_at_the_station_is_tried() -> None:
    controller = make(safety=Floor(9.0, delta=0.1), log=log_of([0, 1]))
    arms = []
    for _ in range(10):
        decision = controller.ask("s0")
        arms.append(decision.arm)
        controller.tell(decision.id, 0.5)
    assert set(arms) == {0, 1}
    assert floor_of(controller).seeded
    assert controller.ask("s0").arm == 2


def test_a_correction_counts_a_reward_for_what_it_is_now() -> None:
    controller = make(safety=Floor(0.2, delta=0.1))
    decision = told(controller, -5.0)
    controller.correct(decision.id, 0.5)
    right = make(safety=Floor(0.2, delta=0.1))
    told(right, 0.5)
    assert floor_of(controller).to_dict() == pytest.approx(floor_of(right).to_dict())
    controller.correct(decision.id, -4.0)
    assert floor_of(controller).every.missed == 1
    controller.correct(decision.id, -3.0)
    assert floor_of(controller).every.missed == 1


def test_a_budget_is_widened_by_what_rewards_show_on_either_side_and_never_narrowed() -> None:
    controller = make(safety=Conservative(0.1, delta=0.1))
    plain = told(controller, 0.5)
    told(controller, 5.0)
    rate = controller._memory.calibrated.rules["budget"]
    assert (rate.every.rows, rate.every.missed, rate.sides) == (2, 1, 2)
    assert rate.stretch == pytest.approx(rate.quantile / NormalDist().inv_cdf(0.95))
    betas = [decision.policy_state["safety"]["beta"] for decision in (plain, controller.ask("s0"))]
    alone = [Calibration(0.1).stretch * KrauseOng(0.02).beta(known=n, arms=1, noise=0.01) for n in (0, 2)]
    assert betas == pytest.approx([alone[0], alone[1] * rate.stretch])
    assert Calibration(0.1, sides=2).told(False, trial=False).stretch == 1.0


def test_a_floor_of_a_kpi_is_calibrated_by_its_own_measurements() -> None:
    floor = KpiFloor("kept", at_least=0.2, delta=0.1, **MODEL)
    controller = make(kpis=floor)
    told(controller, 0.5)
    told(controller, 0.5, kpis={"kept": (-5.0, 0.01)})
    [(name, rate)] = controller._memory.calibrated.rules.items()
    assert (name, rate.every.rows, rate.every.missed) == ("kpi: kept", 1, 1)
    assert rate.quantile == pytest.approx(Z + STEP * 0.9)
    assert "The floor of kept took bounds of" in controller.explain(controller.ask("s0").id).text


def test_a_kpi_that_comes_with_a_correction_is_counted_as_if_it_had_been_told() -> None:
    late, told_at_once = (make(kpis=KpiFloor("kept", at_least=0.2, delta=0.1, **MODEL)) for _ in range(2))
    decision = told(late, 0.5)
    late.correct(decision.id, kpis={"kept": -5.0})
    told(told_at_once, 0.5, kpis={"kept": -5.0})
    assert late._memory.calibrated.rules == told_at_once._memory.calibrated.rules


def test_the_floor_of_a_kpi_opens_only_what_has_run_until_enough_is_known() -> None:
    controller = make(kpis=KpiFloor("kept", at_least=-9.0, delta=0.1, **MODEL), log=log_of([0, 1]))
    seen = []
    for _ in range(10):
        decision = controller.ask("s0")
        seen.append(decision.arm)
        controller.tell(decision.id, 0.5, kpis={"kept": 0.5})
    assert set(seen) == {0, 1}
    assert controller.ask("s0").arm == 2


def test_a_ceiling_and_a_floor_miss_on_their_own_side() -> None:
    def missed(value: float, **limits: float) -> int:
        controller = make(kpis=KpiFloor("kept", delta=0.1, **limits, **MODEL))
        told(controller, 0.5, kpis={"kept": value})
        return controller._memory.calibrated.rules["kpi: kept"].every.missed

    assert [missed(-5.0, at_least=0.0), missed(6.0, at_least=0.0)] == [1, 0]
    assert [missed(-5.0, at_most=1.0), missed(6.0, at_most=1.0)] == [0, 1]
    assert [missed(-5.0, at_least=0.0, at_most=1.0), missed(6.0, at_least=0.0, at_most=1.0)] == [1, 1]


# --- On disk --------------------------------------------------------------------------------------------------------


def test_rules_written_before_they_were_calibrated_mean_what_they_meant() -> None:
    stated = {"rule": "krause-ong", "delta": 0.05}
    written: dict[str, Any] = {
        "conservative": {"alpha": 0.1, "per_station": False, "least": 0.0, "bounds": stated, "of": "rewards"},
        "floor": {"drop": 0.1, "against": "difference", "bounds": stated},
        "cost": None,
    }
    rules = safety_from_dict(written)
    assert rules.floor == Floor(0.1, bounds=KrauseOng(0.05))
    assert rules.conservative is not None
    assert rules.conservative.delta is None
    assert json.loads(json.dumps(safety_to_dict(rules))) == written
    again = make(safety=rules)
    assert "calibrated" not in told(again, 0.5).policy_state
    assert "delta" not in floor_to_dict(KpiFloor("kept", at_least=0.2))


def test_a_controller_comes_back_from_a_folder_where_it_stood(tmp_path: Path) -> None:
    rules = [Floor(0.2, delta=0.1), Conservative(0.1, delta=0.1)]
    controller = make(safety=rules, kpis=KpiFloor("kept", at_least=0.2, delta=0.1, **MODEL))
    told(controller, 0.5, -5.0, kpis={"kept": 0.9})
    controller.save(tmp_path / "state")
    again = Controller.load(tmp_path / "state")
    assert again.setup.rules == controller.setup.rules
    assert again.setup.config.kpis[0].delta == 0.1
    assert again._memory.calibrated.rules == controller._memory.calibrated.rules
    mine, theirs = (one._memory.calibrated for one in (controller, make(safety=rules)))
    theirs.take_up(json.loads(json.dumps(mine.stored())))
    assert {name: theirs.rules[name] for name in ("floor", "budget")} == {
        name: mine.rules[name] for name in ("floor", "budget")
    }
    assert theirs.tried(0) == mine.tried(0) == {0}


# --- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (lambda: Floor(0.1, delta=0.05, bounds=2.0), "bounds= or delta=, not both"),
        (lambda: Floor(0.1, delta=0.0), "delta is a probability between 0 and 1, got 0"),
        (lambda: Conservative(0.1, delta=float("nan")), "delta must be finite"),
        (lambda: KpiFloor("p", at_least=0.1, delta=0.6), "a rate above 0 and up to 0.5, got 0.6"),
        (lambda: KpiFloor("p", at_least=0.1, delta=0.0), "a rate above 0 and up to 0.5, got 0"),
        (lambda: KpiFloor("p", at_least=0.1, delta=0.1, confidence=0.8), "confidence= or delta=, not both"),
    ],
)
def test_bad_rates_are_refused_in_one_sentence(rule: Any, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        rule()


def log_of(arms: list[int], *, space: ConfigurationSpace = SPACE) -> Samples:
    """One row a configuration at a station, each as good as the other."""
    X = Controller(space, ["s0"]).setup.encoder.contexts({})[arms]
    tasks, y = np.zeros(len(arms), dtype=np.int64), np.full(len(arms), 0.5)
    return Samples(("s0",), tasks, X, y, None, space.feature_names, arms=np.array(arms))
