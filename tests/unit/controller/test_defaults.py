"""What a controller does where nothing is said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import Controller, Trace
from kinband.errors import BadInputError
from kinband.policies import Conservative, Floor
from kinband.similarity import Joint


def log(seed: int = 3, *, least: float = 0.0) -> Trace:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 5, 60)}
    columns["reward"] = least + 0.9 - ((columns["tilt"] - 2 - columns["load"]) / 6) ** 2 + 0.02 * rng.normal(size=60)
    return Trace.from_frame(columns, {"configuration": ["tilt"]})


def conservative(**said: Any) -> Conservative | None:
    rules = Controller.from_trace(log(), **said).setup.rules
    return None if rules is None else rules.conservative


def test_a_declared_running_configuration_switches_a_budget_on() -> None:
    rule = conservative(running={"tilt": 2})
    assert rule is not None
    assert (rule.alpha, rule.least, rule.of) == (0.05, 0.0, "rewards")
    assert conservative(running={"a": {"tilt": 2}, "b": {"tilt": 3}}) == rule


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"running": {"a": {"tilt": 2}}},
        {"running": {"tilt": 2}, "safety": []},
        {"running": {"tilt": 2}, "policy": "random"},
        {"running": {"tilt": 2}, "paper": True},
    ],
)
def test_no_budget_where_nothing_can_be_held_against_or_none_is_wanted(said: dict[str, Any]) -> None:
    assert conservative(**said) is None


def test_rules_that_are_named_are_left_alone() -> None:
    rules = Controller.from_trace(log(), running={"tilt": 2}, safety=Floor(0.1)).setup.rules
    assert rules is not None
    assert rules.conservative is None


def test_rewards_are_counted_from_the_lower_end_of_their_range() -> None:
    shifted = Controller.from_trace(log(least=-1.0), running={"tilt": 2}, reward_range=(-1.5, 1.0))
    assert shifted.setup.rules is not None
    assert shifted.setup.rules.conservative is not None
    assert shifted.setup.rules.conservative.least == -1.5


def test_rewards_below_zero_without_a_range_get_no_budget() -> None:
    assert Controller.from_trace(log(least=-1.0), running={"tilt": 2}).setup.rules is None


def test_the_budget_that_is_on_by_default_holds_a_first_trial_back_and_says_so() -> None:
    controller = Controller.from_trace(log(), running={"tilt": 2}, start=False, beta=3.0)
    decision = controller.ask("a", {"load": 0.5})
    assert decision.configuration == {"tilt": 2}
    assert decision.policy_state["safety"]["by"] == "budget"


def test_the_paper_is_kept_to_the_letter() -> None:
    controller = Controller.from_trace(log(), paper=True)
    assert controller.setup.mean == 0.0
    assert controller.setup.config.engine == "exact"
    assert controller.similarity.method == "embedding"
    with pytest.raises(BadInputError, match="which has no safety="):
        Controller.from_trace(log(), paper=True, safety=Conservative(0.1), running={"tilt": 2})


@pytest.mark.parametrize(
    ("least", "said", "reason"),
    [
        (0.0, {"running": {"a": {"tilt": 2}}}, "running= says nothing of station 'b': declare what every station runs"),
        (
            0.0,
            {"running": {"tilt": 2}, "policy": "random"},
            "the policy 'random' is not known to have bounds: take one",
        ),
        (-1.0, {"running": {"tilt": 2}}, "rewards are counted from 0: pass reward_range="),
        (0.0, {"running": {"tilt": 2}, "reward_range": (0.88, 2)}, "rewards are counted from 0.88: pass reward_range="),
    ],
)
def test_a_budget_that_cannot_be_kept_says_why(
    least: float, said: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    controller = Controller.from_trace(log(least=least), similarity="pooled", **said)
    assert controller.setup.rules is None
    [record] = caplog.records
    assert (record.levelname, record.getMessage().startswith("no budget is on, since ")) == ("WARNING", True)
    assert reason in record.getMessage()
    assert "pass safety=[] if no rule is wanted" in record.getMessage()
    controller.save(tmp_path / "state")
    assert reason in Controller.load(tmp_path / "state").setup.notes["no_budget"]


@pytest.mark.parametrize("said", [{}, {"running": {"tilt": 2}}, {"running": {"tilt": 2}, "safety": []}])
def test_nothing_is_said_of_a_budget_that_is_on_or_was_not_to_be(
    said: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller.from_trace(log(), similarity="pooled", **said)
    assert not caplog.records
    assert "no_budget" not in controller.setup.notes


def test_the_paper_takes_an_empty_list_of_rules_and_refuses_a_similarity_of_ours() -> None:
    assert Controller.from_trace(log(), paper=True, safety=[], running={"tilt": 2}).setup.rules is None
    for similarity in ("joint", Joint()):
        with pytest.raises(BadInputError, match="goes beyond it: take 'embedding'"):
            Controller.from_trace(log(), paper=True, similarity=similarity)
