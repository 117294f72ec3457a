"""The Gymnasium adapter: Gymnasium's own checker, agreement with the environment behind it, and refusals."""

import importlib
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

import kinband.environments
from kinband import Trace
from kinband.environments import DrawnBandit, Environment, SyntheticBandit, TraceEnvironment
from kinband.environments.gymnasium import IDS, GymEnvironment
from kinband.errors import BadInputError, NotFoundError


def trace_environment(seed: int = 0) -> TraceEnvironment:
    rng = np.random.default_rng(seed)
    columns = {"station": ["a", "b"] * 30, "load": rng.random(60), "users": 100 * rng.random(60)}
    columns |= {"tilt": rng.integers(0, 4, 60), "reward": rng.random(60)}
    return TraceEnvironment(Trace.from_frame(columns, {"configuration": ["tilt"]}))


class Blind:
    """An environment that does not know the truth, nor the range of its states."""

    def __init__(self, environment: TraceEnvironment) -> None:
        for name in ("stations", "arms", "features", "categorical", "space", "reward_range", "exogenous"):
            setattr(self, name, getattr(environment, name))
        self.reset, self.play, self._behind = environment.reset, environment.play, environment

    @property
    def slot(self) -> object:
        return self._behind.slot


def test_gymnasium_finds_nothing_to_complain_about_states() -> None:
    check_env(GymEnvironment(trace_environment(), "b", horizon=5), skip_render_check=True)


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_nothing_to_complain_about_what_is_registered(name: str) -> None:
    made = gymnasium.make(f"kinband.environments.gymnasium:{name}", horizon=5)
    assert isinstance(made.observation_space, Box)
    assert made.observation_space.is_bounded()
    check_env(made.unwrapped, skip_render_check=True)  # warnings are errors here
    observation, _ = made.reset(seed=7)
    for _ in range(5):
        assert observation in made.observation_space
        observation, _, _, truncated, info = made.step(made.action_space.sample())
        assert info["regret"] >= 0
    assert truncated


def test_what_is_registered_can_be_chosen_among() -> None:
    chosen = gymnasium.make("kinband/Measured-v0", table="nodejs", horizon=3).unwrapped
    assert isinstance(chosen, GymEnvironment)
    assert chosen.environment.stations[0] == chosen.station


@pytest.mark.parametrize(
    "environment",
    [SyntheticBandit(), DrawnBandit(np.eye(3))],
    ids=lambda e: type(e).__name__,
)
def test_contexts_lie_within_the_range_that_an_environment_gives(environment: Any) -> None:
    low, high = environment.context_range
    for seed in range(20):
        environment.reset(seed)
        for contexts in environment.slot.contexts.values():
            assert ((contexts >= low) & (contexts <= high)).all()


def test_gymnasium_complains_only_of_infinite_bounds_where_none_are_known() -> None:
    blind: Environment = Blind(trace_environment())  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(GymEnvironment(blind, "a"), skip_render_check=True)
    assert len(caught) == 2
    assert all("infinity" in str(warning.message) for warning in caught)


def test_observations_are_states_and_rewards_are_those_of_the_environment() -> None:
    behind = trace_environment()
    behind.reset(11)
    gym = GymEnvironment(trace_environment(), "b", horizon=30)
    observation, info = gym.reset(seed=11)
    assert info == {"slot": 0}
    rng = np.random.default_rng(1)
    for number in range(1, 31):
        assert dict(zip(("load", "users"), observation.tolist(), strict=True)) == behind.slot.states["b"]
        arm = int(rng.integers(behind.arms))
        truth = behind.truth("b")
        observation, reward, terminated, truncated, info = gym.step(np.int64(arm))
        assert reward == behind.play({"b": arm})["b"].reward
        assert (terminated, truncated) == (False, number == 30)
        assert info == {
            "slot": number,
            "best": truth.best,
            "regret": truth.pseudo_regret(arm),
            "realised_regret": truth.realised_regret(arm),
        }


def test_spaces_are_those_of_the_station() -> None:
    environment = trace_environment()
    gym = GymEnvironment(environment, "a")
    assert gym.action_space == Discrete(4)
    assert isinstance(gym.observation_space, Box)
    bounds = zip(gym.observation_space.low, gym.observation_space.high, strict=True)
    assert dict(zip(("load", "users"), bounds, strict=True)) == environment.state_ranges


def test_without_a_state_the_contexts_are_observed() -> None:
    columns = {"station": ["a"] * 4, "tilt": [0, 0, 2, 2], "reward": [0.1, 0.2, 0.3, 0.4]}
    environment = TraceEnvironment(Trace.from_frame(columns, {"configuration": ["tilt"]}), neighbours=1)
    observation, _ = GymEnvironment(environment, "a").reset(seed=1)
    assert observation.tolist() == [[-1.0], [1.0]]
    observation[0] = 7.0  # a copy: the environment is not touched
    assert environment.slot.contexts["a"].tolist() == [[-1.0], [1.0]]


def test_no_regret_is_reported_where_the_truth_is_not_known() -> None:
    blind: Environment = Blind(trace_environment())  # type: ignore[assignment]
    gym = GymEnvironment(blind, "a")
    gym.reset(seed=3)
    assert gym.step(1)[4] == {"slot": 1}
    assert isinstance(gym.observation_space, Box)
    assert not gym.observation_space.is_bounded()


def test_episodes_without_a_seed_differ_and_follow_from_the_first_seed() -> None:
    gym = GymEnvironment(trace_environment(), "a")
    episodes = []
    for _ in range(2):
        gym.reset(seed=5)
        episodes.append([gym.reset()[0].tolist() for _ in range(4)])
    assert episodes[0] == episodes[1]
    assert len({tuple(state) for state in episodes[0]}) > 1


def test_bad_arguments_and_actions_are_refused() -> None:
    with pytest.raises(NotFoundError, match="no station 'c' here: the stations are a, b"):
        GymEnvironment(trace_environment(), "c")
    with pytest.raises(BadInputError, match="horizon must be a whole number of at least 1"):
        GymEnvironment(trace_environment(), "a", horizon=0)
    with pytest.raises(BadInputError, match=r"bounds must be least and greatest values of shape \(2,\)"):
        GymEnvironment(trace_environment(), "a", bounds=([0, 0, 0], [1, 1, 1]))
    gym = GymEnvironment(trace_environment(), "a")
    gym.reset(seed=1)
    with pytest.raises(BadInputError, match=r"an action must be a whole number, got 0\.5"):
        gym.step(0.5)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="arms are numbered from 0 to 3"):
        gym.step(4)


def test_it_is_loaded_when_asked_for() -> None:
    assert kinband.environments.GymEnvironment is GymEnvironment
    with pytest.raises(AttributeError, match="no attribute 'SpaceEnvironment'"):
        _ = kinband.environments.SpaceEnvironment


def test_without_gymnasium_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "kinband.environments.gymnasium")
    with pytest.raises(BadInputError, match=r"pip install 'kinband\[gym\]'"):
        importlib.import_module("kinband.environments.gymnasium")
