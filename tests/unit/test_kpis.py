"""Floors under KPIs, rewards made of several: arithmetic one can do by hand, a naive witness, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.controller.setup import setup_from_parts, setup_to_parts
from kinband.errors import BadInputError
from kinband.kernels import RBF, Linear
from kinband.kpis import KpiFloor
from kinband.policies import Conservative, Floor, SwitchingCost
from kinband.policies.kpi_floors import floors_from
from kinband.trace.rewards import WeightedReward, weighted_from

SPACE = ConfigurationSpace(knob=range(7))
K_Z = np.array([[1.0, 0.7], [0.7, 1.3]])
LENGTH, VARIANCE, NOISE = 1.7, 0.3, 0.04
DROPS = {"mean": 0.9, "deviation": 0.05, "noise": 0.0004}


def make(kpis: Any, **given: Any) -> Controller:
    values: dict[str, Any] = {"beta": 1.3, "engine": "exact", "seed": 3, **given}
    return Controller(
        SPACE, ["a", "b"], state=["load"], similarity=K_Z, kernel=RBF(LENGTH, variance=VARIANCE), noise=NOISE,
        mean=0.6, kpis=kpis, **values,
    )  # fmt: skip


def naive(rows: list[tuple[int, np.ndarray, float, float]], task: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and std of a KPI with the model DROPS by the textbook, from (task, x, value, variance told)."""
    scale2 = DROPS["deviation"] ** 2 / (VARIANCE * np.diagonal(K_Z).mean())

    def k(s: int, x: np.ndarray, t: int, y: np.ndarray) -> float:
        return float(scale2 * K_Z[s, t] * VARIANCE * math.exp(-np.sum((x - y) ** 2) / (2 * LENGTH**2)))

    K = np.array([[k(s, x, t, y) for t, y, _, _ in rows] for s, x, _, _ in rows])
    K += np.diag([DROPS["noise"] + told for *_, told in rows])
    mean, std = np.empty(len(X)), np.empty(len(X))
    for i, x in enumerate(X):
        c = np.array([k(task, x, t, y) for t, y, _, _ in rows])
        weights = np.linalg.solve(K, c)
        mean[i] = DROPS["mean"] + weights @ (np.array([value for _, _, value, _ in rows]) - DROPS["mean"])
        std[i] = math.sqrt(k(task, x, task, x) - weights @ c)
    return mean, std


def test_what_is_believed_of_a_kpi_is_what_the_textbook_says() -> None:
    floor = KpiFloor("drop_free", at_least=0.5, confidence=0.9, **DROPS)
    controller, rng, rows = make(floor), np.random.default_rng(1), []
    for i in range(12):
        station = "ab"[i % 2]
        decision = controller.ask(station, {"load": float(rng.normal())}, allowed={"knob": [int(rng.integers(7))]})
        value, told = float(rng.normal(0.9, 0.05)), float(rng.uniform(1e-4, 1e-3))
        kpis: Any = {} if i % 3 == 0 else {"drop_free": value if i % 3 == 1 else (value, told)}
        controller.tell(decision.id, float(rng.random()), kpis=kpis)
        if kpis:
            x = controller.journal.asked[decision.id].x
            rows.append((i % 2, x, value, told if i % 3 == 2 else 0.0))
    decision = controller.ask("b", {"load": 0.3})
    note = decision.policy_state["kpis"]
    X = controller.setup.encoder.contexts({"load": 0.3})[note["arms"]]
    mean, std = naive(rows, 1, X)
    assert note["means"]["drop_free"] == pytest.approx(mean, abs=1e-12)
    assert note["widths"]["drop_free"] == pytest.approx(std, abs=1e-9)


def test_only_what_keeps_the_floor_with_the_stated_confidence_is_chosen() -> None:
    floor = KpiFloor("drop_free", at_least=0.88, confidence=0.8, **DROPS)
    controller = make(floor, running={"knob": 0})
    for knob in range(7):  # the larger the knob, the better the reward and the worse the KPI
        decision = controller.ask("a", {"load": 0.0}, allowed={"knob": [knob]})
        controller.tell(decision.id, 0.1 * knob, kpis={"drop_free": 0.96 - 0.02 * knob})
    rows = [
        (0, controller.journal.asked[key].x, controller.journal.told[key].kpis["drop_free"][0], 0.0)
        for key in controller.journal.told
    ]
    mean, std = naive(rows, 0, controller.setup.encoder.contexts({"load": 0.0}))
    quantile = 0.8416212335729143  # of the normal distribution at 0.8, from tables
    keeps = mean - quantile * std >= 0.88
    assert 0 < keeps.sum() < 7
    decision = controller.ask("a", {"load": 0.0})
    assert decision.arm == max(np.flatnonzero(keeps))
    assert decision.policy_state["kpis"]["open"] == keeps.sum()
    assert decision.policy_state["kpis"]["kept"] is True


def test_a_ceiling_is_a_floor_upside_down() -> None:
    above = KpiFloor("kept", at_least=0.9, **DROPS)
    below = KpiFloor("lost", at_most=0.1, mean=1 - DROPS["mean"], deviation=DROPS["deviation"], noise=DROPS["noise"])
    mean, std = np.array([0.93, 0.97, 0.88]), np.array([0.01, 0.04, 0.001])
    assert above.margin(mean, std) == pytest.approx(below.margin(1 - mean, std))
    both = KpiFloor("kept", at_least=0.9, at_most=0.95, confidence=0.5)
    assert both.margin(mean, std) == pytest.approx([0.02, -0.02, -0.02])


def test_where_nothing_keeps_the_floor_the_closest_is_played_and_what_runs_among_equals() -> None:
    floor = KpiFloor("drop_free", at_least=0.99, **DROPS)
    unknown = make(floor, running={"knob": 4})
    first = unknown.ask("a", {"load": 0.0})
    assert (first.arm, first.policy_state["kpis"]["fallback"], first.policy_state["kpis"]["kept"]) == (
        4,
        "running",
        False,
    )
    unknown.tell(first.id, 0.5, kpis={"drop_free": 0.6})  # what runs turns out to be far from it
    second = unknown.ask("a", {"load": 0.0})
    assert (second.arm, second.policy_state["kpis"]["fallback"]) == (
        0,
        "closest",
    )  # the farthest from what is known to be bad
    assert "comes closest" in unknown.explain(second.id).text
    assert unknown.explain(second.id).to_dict()["kpis"]["arms"] == [0]


def test_several_floors_must_all_be_kept() -> None:
    one = KpiFloor("p", at_least=0.0, confidence=0.5, mean=0.0, deviation=1.0, noise=0.01)
    two = KpiFloor("q", at_most=0.0, confidence=0.5, mean=0.0, deviation=1.0, noise=0.01)
    controller = make([one, two])
    for knob, p, q in ((0, 1.0, 1.0), (3, 1.0, -1.0), (6, -1.0, -1.0)):
        decision = controller.ask("a", {"load": 0.0}, allowed={"knob": [knob]})
        controller.tell(decision.id, 0.5, kpis={"p": p, "q": q})
    chosen = controller.ask("a", {"load": 0.0}, allowed={"knob": [0, 3, 6]})
    assert chosen.arm == 3


def test_a_kpi_is_put_right_in_place_and_one_that_was_missing_by_learning_anew() -> None:
    floor = KpiFloor("drop_free", at_least=0.85, **DROPS)

    def lived(kpis: list[Any], corrections: dict[int, float]) -> Controller:
        controller = make(floor)
        for i, value in enumerate(kpis):
            decision = controller.ask("a", {"load": 0.1 * i}, allowed={"knob": [i]})
            controller.tell(decision.id, 0.1 * i, kpis=None if value is None else {"drop_free": value})
        for i, value in corrections.items():
            controller.correct(f"d{i + 1:06d}", kpis={"drop_free": value})
        return controller

    right = lived([0.9, 0.8, 0.95], {})
    for wrong in (lived([0.9, 0.2, 0.95], {1: 0.8}), lived([0.9, None, 0.95], {1: 0.8})):
        assert wrong.journal.told["d000002"].kpis == {"drop_free": (0.8, None)}
        expected, found = (c.ask("b", {"load": 0.4}).policy_state["kpis"] for c in (right, wrong))
        assert found["means"]["drop_free"] == pytest.approx(expected["means"]["drop_free"], abs=1e-12)
        assert len(wrong) == 3


@pytest.mark.parametrize("policy", ["ucb", "thompson", "kernel-ucb", "random", "super-ucb", "linucb"])
def test_every_policy_chooses_among_what_keeps_the_floor(policy: str) -> None:
    floor = KpiFloor("drop_free", at_least=0.9, confidence=0.6, **DROPS)
    options = {"horizon": 50} if policy == "super-ucb" else {}
    beta: Any = "corrected" if policy == "super-ucb" else 1.0
    controller = make(floor, policy=policy, options=options, beta=beta)
    for knob in range(7):
        decision = controller.ask("a", {"load": 0.0}, allowed={"knob": [knob]})
        controller.tell(decision.id, 0.1 * knob, kpis={"drop_free": 1.0 - 0.03 * knob})
    made = [controller.ask("a", {"load": 0.0}) for _ in range(5)]
    assert all(decision.policy_state["kpis"]["kept"] and decision.arm <= 3 for decision in made)


@pytest.mark.parametrize("limit", [0.8, 0.9])  # which something else keeps, and which nothing does
def test_the_budget_has_the_last_word_over_a_floor(limit: float) -> None:
    floor = KpiFloor("drop_free", at_least=limit, confidence=0.5, mean=0.95, deviation=0.05, noise=0.0004)
    controller = make(floor, safety=Conservative(0.01, bounds=3.0), running={"knob": 0}, reward_range=(0, 1))
    decision = controller.ask("a", {"load": 0.0}, allowed={"knob": [0]})
    controller.tell(decision.id, 0.9, kpis={"drop_free": 0.5})
    chosen = controller.ask("a", {"load": 0.0})
    assert chosen.arm == 0, "today's configuration, although it breaks the floor"
    assert chosen.policy_state["safety"]["by"] == "budget"
    assert chosen.policy_state["kpis"]["kept"] is False
    assert "a rule of safety had the last word" in controller.explain(chosen.id).text


def test_a_floor_under_the_reward_looks_only_at_what_keeps_the_kpi_and_falls_back_to_what_runs() -> None:
    floor = KpiFloor("drop_free", at_least=0.9, confidence=0.5, mean=0.95, deviation=0.05, noise=0.0004)

    def chosen(drop: float, **more: Any) -> Any:
        controller = make(floor, safety=[Floor(drop, bounds=1.0), *more.pop("rules", [])], running={"knob": 0}, **more)
        for knob, reward, kpi in ((0, 0.9, 0.5), (6, 0.6, 0.99)):
            decision = controller.ask("a", {"load": 0.0}, allowed={"knob": [0, knob]}, running={"knob": knob})
            while decision.arm != knob:  # the other one may not be left
                controller.call_off(decision.id)
                decision = controller.ask("a", {"load": 0.0}, allowed={"knob": [knob]}, running={"knob": knob})
            controller.tell(decision.id, reward, kpis={"drop_free": kpi})
        return controller.ask("a", {"load": 0.0}, allowed={"knob": [0, 6]}, running={"knob": 0})

    wide, narrow = chosen(2.0), chosen(0.01)
    assert (wide.arm, wide.policy_state["kpis"]["kept"]) == (6, True)
    assert (narrow.arm, narrow.policy_state["kpis"]["kept"], narrow.policy_state["safety"]["by"]) == (0, False, "floor")
    dear = chosen(2.0, rules=[SwitchingCost(0.5)])
    assert dear.arm == 6, "a cost of switching does not buy a broken floor"


def test_settings_with_kpis_and_weights_come_back_as_they_were() -> None:
    floor = KpiFloor("drop_free", at_least=0.9, at_most=1.0, confidence=0.7, **DROPS)
    settings = make([floor], reward="0.7*good-0.1*'drop-rate'").setup
    values, arrays = setup_to_parts(settings)
    again = setup_from_parts(json.loads(json.dumps(values)), arrays, policy=None)
    assert vars(again.kpis[0].floor) == vars(settings.kpis[0].floor)
    assert (again.kpis[0].scale, again.kpis[0].kernel) == (settings.kpis[0].scale, settings.kpis[0].kernel)
    assert again.config.reward == WeightedReward({"good": 0.7, "drop-rate": -0.1})


# --- Rewards made of several KPIs ---------------------------------------------------------------------------


def test_log_and_life_give_the_same_reward_to_the_last_bit() -> None:
    rng = np.random.default_rng(5)
    good, rate = rng.random(20).tolist(), (9 * rng.random(20)).tolist()
    log = {"station": ["a", "b"] * 10, "knob": [0, 1] * 10, "good": good, "rate": rate}
    reward = WeightedReward({"good": 0.8, "rate": 0.021})
    for given in (reward, dict(reward.weights), str(reward)):
        trace = Trace.from_frame(log, {"reward": given, "configuration": ["knob"]}, duplicates="drop")
        live = [reward.of({"good": (good[i], None), "rate": (rate[i], None)})[0] for i in range(20)]
        assert trace.reward.tolist() == live
        assert trace.state_names == ()
    controller = make(None, reward=reward)
    decision = controller.ask("a", {"load": 0.0})
    controller.tell(decision.id, kpis={"good": (0.9, 0.01), "rate": 3.0})
    assert controller.observations()[0].reward == 0.8 * 0.9 + 0.021 * 3.0
    assert controller.observations()[0].noise == pytest.approx(0.8**2 * 0.01)
    controller.correct(decision.id, kpis={"rate": 4.0})
    assert controller.journal.reward(decision.id) == 0.8 * 0.9 + 0.021 * 4.0


def test_a_column_may_be_part_of_the_reward_and_have_a_floor_and_survives_writing(tmp_path: Path) -> None:
    log = {"station": ["a", "b"], "knob": [0, 1], "good": [0.9, 0.8], "rate": [3.0, None], "load": [0.1, 0.2]}
    columns = {"reward": {"good": 0.5}, "kpis": ["good", "rate"], "configuration": ["knob"]}
    trace = Trace.from_frame(log, columns)
    assert trace.state_names == ("load",)
    assert trace.kpis["good"].tolist() == [0.9, 0.8]
    assert math.isnan(trace.kpis["rate"][1])
    assert trace.samples().take(np.array([1])).kpis["good"].tolist() == [0.8]
    for name in ("log.csv", "log.parquet"):
        trace.write(tmp_path / name)
        assert Trace.read(tmp_path / name) == trace


def test_a_column_whose_name_looks_like_a_sum_is_that_column() -> None:
    log = {"station": ["a"], "knob": [0], "2*good": [0.9], "good": [0.2]}
    trace = Trace.from_frame(log, {"reward": "2*good", "configuration": ["knob"], "ignore": ["good"]})
    assert trace.reward.tolist() == [0.9]


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("0.8*a+0.02*b", {"a": 0.8, "b": 0.02}),
        ("-1e-3*a - 2 * b c", {"a": -1e-3, "b c": -2.0}),
        ("a+0.5*'x-y'", {"a": 1.0, "x-y": 0.5}),
        ('.5*"it\'s"', {"it's": 0.5}),
    ],
)
def test_a_sum_reads_back_as_it_is_written(text: str, weights: dict[str, float]) -> None:
    assert WeightedReward.parse(text).weights == weights
    assert WeightedReward.parse(str(WeightedReward(weights))).weights == weights


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("high*good", "'high' in the reward 'high\\*good' is not a number"),
        ("0.8*good 0.2*bad", "is not a number|is not understood"),
        ("0.8*good+", "ends without a column"),
        ("0.8*", "ends without a column"),
        ("0.8*good+0.2*good", "names 'good' twice"),
        ("", "is not a reward"),
    ],
)
def test_a_text_that_is_no_sum_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        WeightedReward.parse(text)


def test_rewards_of_several_columns_are_refused_where_they_cannot_be() -> None:
    log = {"station": ["a"], "knob": [0], "good": [0.9], "samples": [30]}
    with pytest.raises(BadInputError, match=r"no column 'goood' \(the reward\), did you mean 'good'"):
        Trace.from_frame(log, {"reward": {"goood": 0.5}, "configuration": ["knob"]})
    with pytest.raises(BadInputError, match="counts the samples of a share"):
        Trace.from_frame(log, {"reward": {"good": 0.5}, "configuration": ["knob"]})
    for weights in ({}, {"good": "much"}, {"good": math.inf}, {"good": True}, {3: 0.5}, [("good", 0.5)]):
        with pytest.raises(BadInputError):
            weighted_from(weights)
    controller = make(None, reward={"good": 0.5, "rate": 0.1})
    decision = controller.ask("a", {"load": 0.0})
    with pytest.raises(BadInputError, match="needs 'rate', which was not told"):
        controller.tell(decision.id, kpis={"good": 0.9})
    with pytest.raises(BadInputError, match="tell kpis alone"):
        controller.tell(decision.id, 0.9, kpis={"good": 0.9, "rate": 1.0})
    assert controller.pending == [decision.id]


# --- What is refused ----------------------------------------------------------------------------------------


def test_floors_that_cannot_be_are_refused() -> None:
    for wrong in (
        {"at_least": math.nan}, {"at_least": 0.9, "at_most": 0.8}, {"at_least": 0.9, "confidence": 0.3},
        {"at_least": 0.9, "confidence": 1.0}, {"at_least": 0.9, "noise": 0.0}, {"at_most": "low"},
    ):  # fmt: skip
        with pytest.raises(BadInputError):
            KpiFloor("drop_free", **wrong)
    with pytest.raises(BadInputError, match="twice"):
        floors_from([KpiFloor("p", at_least=0.1), KpiFloor("p", at_most=0.9)])
    with pytest.raises(BadInputError, match="takes KpiFloor"):
        make("drop_free")
    with pytest.raises(BadInputError, match="declare mean=, deviation=, noise="):
        make(KpiFloor("drop_free", at_least=0.9))


def test_kpis_that_nobody_declared_are_refused_and_nothing_is_noted() -> None:
    controller = make(KpiFloor("drop_free", at_least=0.9, **DROPS))
    decision = controller.ask("a", {"load": 0.0})
    for kpis in ({"drop_fre": 0.9}, {"drop_free": "high"}, {"drop_free": math.nan}, {"drop_free": (0.9, -1.0)}, [0.9]):
        with pytest.raises(BadInputError):
            controller.tell(decision.id, 0.5, kpis=kpis)  # type: ignore[arg-type]
    assert (controller.pending, len(controller)) == ([decision.id], 0)
    controller.tell(decision.id, 0.5)
    with pytest.raises(BadInputError, match="needs a reward, or kpis"):
        controller.correct(decision.id)


def test_from_a_log_the_model_of_a_kpi_is_learned_and_its_rows_are_known() -> None:
    rng = np.random.default_rng(8)
    n = 120
    knob, load = rng.integers(0, 7, n), rng.random(n)
    kpi = 0.95 - 0.02 * knob + 0.004 * rng.normal(size=n)
    log = {
        "station": np.array(["a", "b"])[np.arange(n) % 2], "load": load, "knob": knob, "kept": kpi,
        "reward": 0.1 * knob + 0.02 * rng.normal(size=n),
    }  # fmt: skip
    trace = Trace.from_frame(log, {"configuration": ["knob"], "kpis": ["kept"]})
    floor = KpiFloor("kept", at_least=0.88)
    controller = Controller.from_trace(trace, SPACE, similarity="pooled", kpis=floor, beta=0.5, seed=1)
    model = controller.setup.kpis[0]
    assert 0.004**2 / 4 < model.floor.noise < 4 * 0.004**2  # type: ignore[operator]
    decision = controller.ask("a", {"load": 0.5})
    assert decision.arm == 3, "0.95 − 0.02·3 keeps 0.88, 0.95 − 0.02·4 does not"
    assert decision.policy_state["kpis"]["open"] == 4


def test_a_linear_kernel_serves_a_kpi_too() -> None:
    floor = KpiFloor("p", at_least=-9.0, mean=0.0, deviation=1.0, noise=0.1)
    controller = Controller(SPACE, ["a"], features=["x"], kernel=Linear(0.3), kpis=floor)
    assert controller.ask("a", contexts=np.linspace(-1, 1, 7)[:, None]).policy_state["kpis"]["open"] == 7


def test_a_reward_made_of_kpis_is_corrected_by_kpis_alone() -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], reward={"good": 0.8, "rate": 0.2})
    decision = controller.ask("a")
    controller.tell(decision.id, kpis={"good": 0.9, "rate": 0.5})
    with pytest.raises(BadInputError, match="correct kpis alone"):
        controller.correct(decision.id, 0.3)
    controller.correct(decision.id, kpis={"good": 0.5})
    assert controller.journal.reward(decision.id) == pytest.approx(0.5)


def test_weights_of_log_and_life_must_be_the_same() -> None:
    rng = np.random.default_rng(2)
    columns = {"station": ["a", "b"] * 10, "tilt": [2, 4] * 10, "good": rng.random(20), "rate": rng.random(20)}
    trace = Trace.from_frame(columns, {"configuration": ["tilt"], "reward": {"good": 0.8, "rate": 0.2}, "state": []})
    for wrong in ({"good": 100.0}, {"zz": 0.1}, {"good": 0.8, "rate": 0.3}):
        with pytest.raises(BadInputError, match="use the same weights for both"):
            Controller.from_trace(trace, reward=wrong, similarity="pooled")
    made = Controller.from_trace(trace, reward="0.2*rate+0.8*good", similarity="pooled")
    assert made.setup.config.reward is not None
