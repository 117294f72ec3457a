"""One declaration of how a controller works: keywords, defaults, checks and JSON follow from it."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, ControllerConfig, Trace
from kinband.controller.config import ConfigKeywords
from kinband.drift import Drift
from kinband.errors import BadInputError, KinbandError, SavedStateError
from kinband.kernels import RBF
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.policies import UCB, Conservative, Constant, Floor
from kinband.trace.rewards import WeightedReward

SPACE = ConfigurationSpace(tilt=[2, 4, 6])

SAID: dict[str, Any] = {
    "kernel": RBF(0.4, variance=0.3),
    "noise": 0.02,
    "mean": 0.4,
    "similarity": "pooled",
    "shards": 40,
    "engine": "sparse",
    "inducing_points": 33,
    "policy": "thompson",
    "beta": "corrected",
    "options": {},
    "safety": [Conservative(0.1, delta=0.1), Floor(0.2)],
    "drift": Drift(40),
    "reward": "0.8*good",
    "kpis": KpiFloor("kept", at_least=0.9, mean=0.95, deviation=0.1, noise=0.01),
    "neighbours": NeighbourReward({"a": ["b"]}, weight=0.3),
    "reward_range": (0, 1),
    "seed": 5,
    "paper": False,
}


def test_the_keywords_of_editors_are_the_fields() -> None:
    names = [part.name for part in fields(ControllerConfig)]
    assert names == list(ConfigKeywords.__annotations__) == list(SAID)


def test_every_field_survives_json() -> None:
    config = ControllerConfig(**SAID)
    written = config.to_dict()
    again = ControllerConfig.from_dict(json.loads(json.dumps(written, allow_nan=False)))
    assert again.to_dict() == written
    assert (again.seed, again.reward, again.safety) == (5, WeightedReward({"good": 0.8}), config.safety)


def test_a_config_and_its_keywords_make_the_same_controller() -> None:
    about: dict[str, Any] = {"state": ["load"], "running": {"tilt": 2}}
    by_name = Controller(SPACE, ["a", "b"], **about, **SAID)
    by_config = Controller(SPACE, ["a", "b"], **about, config=ControllerConfig(**SAID))
    assert by_name.setup.config.to_dict() == by_config.setup.config.to_dict()
    assert by_name.ask("a", {"load": 0.2}) == by_config.ask("a", {"load": 0.2})


def test_what_is_given_beside_a_config_counts_before_it() -> None:
    config = ControllerConfig(beta=0.5, seed=3)
    made = Controller(SPACE, ["a"], config=config, beta=2.0).setup.config
    assert (made.beta, made.seed) == (Constant(2.0), 3)
    assert config.beta == Constant(0.5)


def test_the_config_of_a_controller_leaves_nothing_open_and_makes_it_again() -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"station": ["a", "b"] * 20, "load": rng.random(40), "tilt": rng.choice([2, 4, 6], 40)}
    columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 4) ** 2 + 0.05 * rng.standard_normal(40)
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    learned = Controller.from_trace(trace, SPACE, running={"tilt": 2}, reward_range=(-2, 2))
    config = learned.setup.config
    assert None not in (config.kernel, config.noise, config.mean, config.similarity, config.beta, config.safety)
    again = Controller.from_trace(trace, SPACE, running={"tilt": 2}, config=config)
    assert np.array_equal(again.setup.K_Z, learned.setup.K_Z)
    assert again.ask("a", {"load": 0.4}) == learned.ask("a", {"load": 0.4})


@pytest.mark.parametrize("make", [ControllerConfig, lambda **given: Controller(SPACE, ["a"], **given)])
def test_an_unknown_setting_is_refused_with_a_suggestion(make: Any) -> None:
    with pytest.raises(TypeError, match="no setting 'similarty': did you mean 'similarity'"):
        make(similarty="pooled")
    with pytest.raises(TypeError, match="no setting 'xyz': there are kernel, noise"):
        make(xyz=1)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("engine", "fast"),
        ("options", 3),
        ("neighbours", {"a": ["b"]}),
        ("reward_range", (1, 0)),
        ("reward_range", 5),
        ("seed", -1),
        ("seed", None),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(KinbandError) as caught:
        ControllerConfig(**{argument: value})
    assert (caught.value.argument, caught.value.value) == (argument, value)


def test_a_config_must_be_one() -> None:
    with pytest.raises(BadInputError) as caught:
        Controller(SPACE, ["a"], config={"beta": 1.0})  # type: ignore[arg-type]
    assert caught.value.argument == "config"


def test_a_policy_of_ones_own_is_handed_in_again() -> None:
    written = ControllerConfig(policy=UCB.build).to_dict()
    with pytest.raises(SavedStateError):
        ControllerConfig.from_dict(written)
    assert ControllerConfig.from_dict(written, policy=UCB.build).policy == UCB.build


def test_what_was_said_is_shown_and_nothing_else() -> None:
    assert repr(ControllerConfig()) == "ControllerConfig()"
    shown = repr(ControllerConfig(beta=1, kpis=[], options={}, engine="auto", reward_range=(0, 1)))
    assert shown == "ControllerConfig(beta=Constant(value=1.0), reward_range=(0.0, 1.0))"
