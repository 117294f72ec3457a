"""What neighbours earn as part of a reward: arithmetic done by hand, whose reward counts when, and what is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.environments.radio import RadioEnvironment
from kinband.errors import BadInputError, ConflictError
from kinband.kpis import NeighbourReward

SPACE = ConfigurationSpace(knob=range(5))
NAMES = ["a", "b", "c"]
RULE = NeighbourReward({"a": ["b", "c"], "b": {"a": 3.0, "c": 1.0}}, weight=0.4)


def make(rule: NeighbourReward | None = RULE, **given: Any) -> Controller:
    alike = 0.5 * np.ones((3, 3)) + 0.7 * np.eye(3)
    return Controller(SPACE, NAMES, similarity=alike, noise=0.03, mean=0.6, neighbours=rule, engine="exact", **given)


def ask_round(controller: Controller) -> dict[str, str]:
    return {name: decision.id for name, decision in controller.ask_all({name: {} for name in NAMES}).items()}


def learned(controller: Controller) -> list[float]:
    return [observation.reward for observation in controller.observations()]


def test_rewards_told_together_are_mixed_and_the_own_ones_kept() -> None:
    controller = make()
    ids = ask_round(controller)
    own = {"a": 0.9, "b": 0.5, "c": 0.3}
    noise = {ids["a"]: 0.01, ids["c"]: 0.04}
    controller.tell_all({ids[name]: own[name] for name in NAMES}, noise=noise)
    expected = [0.6 * 0.9 + 0.4 * (0.5 + 0.3) / 2, 0.6 * 0.5 + 0.4 * (3 * 0.9 + 0.3) / 4, 0.3]
    assert learned(controller) == pytest.approx(expected)
    assert [controller.journal.reward(ids[name]) for name in NAMES] == list(own.values())
    variances = [0.36 * 0.01 + 0.16 * 0.04 / 4, 0.16 * (9 * 0.01 + 0.04) / 16, 0.04]
    assert [o.noise for o in controller.observations()] == pytest.approx(variances)
    assert f"with its neighbours {expected[0]:.3f}" in controller.explain(ids["a"]).text


def test_a_station_uses_what_came_of_its_slot_and_nothing_of_another() -> None:
    controller = make()
    first, second = ask_round(controller), ask_round(controller)
    controller.tell_all({first["b"]: 0.5, first["c"]: 0.1})
    controller.tell_all({second["a"]: 0.9, second["c"]: 0.3})  # b of this round is still to come
    assert learned(controller)[2] == pytest.approx(0.6 * 0.9 + 0.4 * 0.3)
    controller.tell_all({first["a"]: 0.7})  # late: those of its own round were told before
    assert learned(controller)[4] == pytest.approx(0.6 * 0.7 + 0.4 * (0.5 + 0.1) / 2)
    alone = make()
    ids = ask_round(alone)
    alone.tell_all({ids["a"]: 0.9})
    assert learned(alone) == [0.9]


def test_told_one_by_one_the_last_known_rewards_stand_in() -> None:
    controller = make()
    first, second = ask_round(controller), ask_round(controller)
    controller.tell(first["b"], 0.5)
    controller.tell(second["a"], 0.9)
    assert learned(controller) == pytest.approx([0.5, 0.6 * 0.9 + 0.4 * 0.5])
    controller.tell(second["b"], 0.2, others={"c": (0.8, 0.02)})  # said to be so, whatever the record knows
    assert learned(controller)[2] == pytest.approx(0.6 * 0.2 + 0.4 * (3 * 0.9 + 0.8) / 4)
    assert controller.observations()[2].noise == pytest.approx(0.16 * 0.02 / 16)


def test_a_neighbour_that_decides_nothing_is_told_beside() -> None:
    rule = NeighbourReward({"a": ["x"], "b": ["x", "a"]}, weight=0.5, others=["x"])
    controller = make(rule, reward_range=(0, 1))
    ids = ask_round(controller)
    controller.tell_all({ids["a"]: 1.0, ids["b"]: 0.4}, others={"x": 0.2})
    assert learned(controller) == pytest.approx([0.6, 0.5 * 0.4 + 0.5 * (0.2 + 1.0) / 2])
    with pytest.raises(BadInputError, match="nobody's neighbour"):
        controller.tell_all({ids["c"]: 0.5}, others={"y": 0.5})
    with pytest.raises(BadInputError, match="outside the declared range"):
        controller.tell_all({ids["c"]: 0.5}, others={"x": 7})
    assert ids["c"] in controller.pending


def test_a_correction_reaches_every_decision_that_a_reward_was_mixed_into() -> None:
    wrong, right = make(), make()
    for controller, reward in ((wrong, 0.1), (right, 0.8)):
        for _ in range(2):
            ids = ask_round(controller)
            controller.tell_all({ids["a"]: 0.9, ids["b"]: reward, ids["c"]: 0.3}, noise={ids["b"]: 0.02})
    for key in ("d000002", "d000005"):
        wrong.correct(key, 0.8)
    assert learned(wrong) == learned(right)
    assert wrong.journal.reward("d000002") == 0.8
    a, b = wrong.ask("a", {}), right.ask("a", {})
    assert (a.mean, a.std) == pytest.approx((b.mean, b.std), abs=1e-12)


def test_what_was_mixed_survives_saving(tmp_path: Path) -> None:
    rule = NeighbourReward({"a": ["b", "x"], "b": ["a"]}, weight={"a": 0.3}, others=["x"])
    controller = make(rule)
    ids = ask_round(controller)
    controller.tell_all({ids["a"]: 0.9, ids["b"]: 0.5}, others={"x": (0.2, 0.01)})
    controller.correct(ids["b"], 0.6)
    controller.save(tmp_path / "state")
    again = Controller.load(tmp_path / "state", rebuild=True)
    assert dict(again.journal.told) == dict(controller.journal.told)
    assert again.setup.config.neighbours is not None
    assert again.setup.config.neighbours.to_dict() == rule.to_dict()
    again.correct(ids["a"], 0.4)
    controller.correct(ids["a"], 0.4)
    assert learned(again) == learned(controller) == pytest.approx([0.7 * 0.4 + 0.3 * (0.6 + 0.2) / 2, 0.6])


def test_newcomers_may_be_named_before_they_join() -> None:
    controller = make(NeighbourReward({"a": ["d"], "d": ["a"]}, weight=0.5, others=["d"]))
    controller.add_station("d", similarity={"a": 0.8})
    made = controller.ask_all({"a": {}, "d": {}})
    controller.tell_all({made["a"].id: 0.2, made["d"].id: 0.8})
    assert learned(controller) == pytest.approx([0.5, 0.5])


def test_in_a_log_neighbours_are_matched_by_time_as_a_loop_would() -> None:
    rng = np.random.default_rng(2)
    rows = [(t, name) for t in range(9) for name in NAMES if rng.random() < 0.8]
    log: dict[str, Any] = {
        "time": [t for t, _ in rows], "station": [name for _, name in rows], "knob": rng.integers(0, 5, len(rows)),
        "load": rng.random(len(rows)), "reward": rng.random(len(rows)), "noise": rng.uniform(0.01, 0.1, len(rows)),
    }  # fmt: skip
    trace = Trace.from_frame(log, {"configuration": ["knob"]})
    mixed = RULE.in_log(trace)
    for i, (t, name) in enumerate(rows):
        weights = {"a": {"b": 1, "c": 1}, "b": {"a": 3, "c": 1}, "c": {}}[name]
        there = {rows[j][1]: j for j in range(len(rows)) if rows[j][0] == t and rows[j][1] in weights}
        total = sum(weights[n] for n in there)
        own, v = trace.reward[i], log["noise"][i]
        if there:
            own = 0.6 * own + 0.4 * sum(weights[n] * trace.reward[j] for n, j in there.items()) / total
            v = 0.36 * v + 0.16 * sum(weights[n] ** 2 * log["noise"][j] for n, j in there.items()) / total**2
        assert mixed.reward[i] == pytest.approx(own)
        assert mixed.noise is not None
        assert mixed.noise[i] == pytest.approx(v)
    controller = Controller.from_trace(trace, SPACE, similarity="pooled", neighbours=RULE, seed=1)
    assert learned(controller) == mixed.reward.tolist()
    timeless = Trace.from_frame({k: v for k, v in log.items() if k != "time"}, {"configuration": ["knob"]})
    with pytest.raises(BadInputError, match="matched by time, and the trace has none"):
        Controller.from_trace(timeless, SPACE, similarity="pooled", neighbours=RULE)


def test_a_weight_of_zero_is_a_station_by_itself() -> None:
    plain, none = make(None), make(NeighbourReward({"a": ["b"], "b": ["a"]}, weight=0.0))
    for controller in (plain, none):
        ids = ask_round(controller)
        controller.tell_all({ids["a"]: 0.9, ids["b"]: 0.5})
    assert learned(plain) == learned(none)
    assert not none.journal.told["d000001"].neighbours


@pytest.mark.parametrize(
    ("given", "weight", "said"),
    [
        ({}, 0.5, "must map stations"),
        ({"a": "b"}, 0.5, "must be a list of stations"),
        ({"a": ["a"]}, 0.5, "among its own neighbours"),
        ({"a": ["b", "b"]}, 0.5, "each once"),
        ({"a": {"b": 0.0}}, 0.5, "must be above zero"),
        ({"a": ["b"]}, 1.5, "from 0 to 1"),
        ({"a": ["b"]}, math.nan, "must be finite"),
        ({"a": ["b"]}, {"c": 0.5}, "for which no neighbours are given"),
    ],
)
def test_rules_that_cannot_be_are_refused(given: Any, weight: Any, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        NeighbourReward(given, weight=weight)


def test_what_cannot_be_told_together_is_refused_whole() -> None:
    controller = make()
    ids = ask_round(controller)
    with pytest.raises(BadInputError, match="not a station of this controller"):
        make(NeighbourReward({"a": ["z"]}))
    with pytest.raises(BadInputError, match="takes a NeighbourReward"):
        make({"a": ["b"]})  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="nothing was told"):
        controller.tell_all({})
    with pytest.raises(BadInputError, match="not told a reward"):
        controller.tell_all({ids["a"]: 0.5}, noise={ids["b"]: 0.1})
    with pytest.raises(BadInputError, match="must be a number"):
        controller.tell_all({ids["a"]: 0.5, ids["b"]: "high"})  # type: ignore[dict-item]
    assert (len(controller), len(controller.pending)) == (0, 3)
    controller.tell(ids["a"], 0.5)
    with pytest.raises(ConflictError, match=r"already told the reward 0\.5"):
        controller.tell_all({ids["b"]: 0.4, ids["a"]: 0.4})
    assert len(controller) == 1


# --- The live network ---------------------------------------------------------------------------------------


def test_neighbours_of_a_sector_are_others_and_the_shares_of_coverage_cells_add_up() -> None:
    environment = RadioEnvironment(9, period_s=20)
    assert all(name not in near and len(near) == 3 for name, near in environment.neighbours(3).items())
    for shares in environment.coverage_cells(9).values():
        assert sum(shares.values()) == pytest.approx(1.0)


def test_a_neighbour_that_has_left_no_longer_stands_in_for_anything() -> None:
    rule = NeighbourReward({"a": ["b"], "b": ["a"]}, weight=0.5)
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], neighbours=rule)
    made = controller.ask_all({"a": {}, "b": {}})
    controller.tell_all({made["a"].id: 0.9, made["b"].id: 0.1})
    controller.tell(controller.ask("a").id, 0.9)
    controller.remove_station("b")
    controller.tell(controller.ask("a").id, 0.9)
    assert [one.reward for one in controller.observations()][-2:] == [0.5, 0.9]
