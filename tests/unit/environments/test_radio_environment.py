"""The radio network as an environment, on a city of two sites; that it keeps the contract is shown with the others."""

import numpy as np
import pytest

from kinband.contexts import ContextEncoder, StateScaler
from kinband.environments import Environment, KnowsTruth
from kinband.environments.radio import KNOB, STATE_NAMES, Parameters, PowerMap, RadioEnvironment, build_map, draw_layout
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace

SLOTS = 5


@pytest.fixture(scope="module")
def city() -> PowerMap:
    return build_map(draw_layout(6, seed=2), Parameters())


def build(city: PowerMap, seed: int = 0) -> RadioEnvironment:
    # Four slots of 30 seconds a day: the fifth slot lies in the next day.
    return RadioEnvironment(map_=city, seed=seed, period_s=30, hours=(18, 18 + 2 / 60))


def test_it_is_an_environment_that_influences_itself_and_knows_no_truth(city: PowerMap) -> None:
    environment: Environment = build(city)
    assert environment.exogenous is False
    assert not isinstance(environment, KnowsTruth)
    assert environment.reward_range == (0.0, 1.0)


def test_a_slots_state_does_not_know_what_is_played_in_it(city: PowerMap) -> None:
    low, high = build(city, 7), build(city, 7)
    for environment in (low, high):
        environment.play(dict.fromkeys(environment.stations, 5))
    before = low.slot
    assert before.states == high.slot.states
    low.play(dict.fromkeys(low.stations, 0))
    high.play(dict.fromkeys(high.stations, 28))
    assert before.states != low.slot.states != high.slot.states  # what was played shows one slot later


def test_contexts_encode_the_states(city: PowerMap) -> None:
    encoder = ContextEncoder(StateScaler.identity(STATE_NAMES), ConfigurationSpace(**{KNOB: [-110, -100, -90]}))
    environment = RadioEnvironment(map_=city, period_s=20, encoder=encoder)
    station = environment.stations[2]
    X = environment.slot.contexts[station]
    assert X.shape == (3, 6)
    assert X[1, :5].tolist() == list(environment.slot.states[station].values())
    environment.play({station: 2})
    assert environment.thresholds[2] == -90


def test_rewards_are_shares_with_the_variance_of_their_sessions(city: PowerMap) -> None:
    environment = build(city)
    outcomes = environment.play({station: 5 + number for number, station in enumerate(environment.stations)})
    report = environment.report
    for number, station in enumerate(environment.stations):
        n, good = int(report.sessions[number]), int(report.satisfied[number])
        p = (good + 1) / (n + 2)
        assert n > 0
        assert outcomes[station].reward == pytest.approx(good / n)
        assert outcomes[station].noise == pytest.approx(p * (1 - p) / n)


def test_stations_that_do_not_play_keep_their_threshold(city: PowerMap) -> None:
    environment = build(city)
    pair = environment.stations[:2]
    before = environment.thresholds.copy()
    environment.play(dict.fromkeys(pair, 3))
    assert environment.thresholds.tolist() == [-109, -109, *before[2:].tolist()]


def test_days_start_again_at_the_first_hour(city: PowerMap) -> None:
    environment, hours = build(city), []
    for _ in range(SLOTS):
        hours.append(environment.hour)
        environment.play({})
    np.testing.assert_allclose(hours, [*(18 + np.arange(4) / 120), 18.0], atol=1e-9)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(BadInputError, match="hours must be"):
        RadioEnvironment(3, hours=(22, 14))
    encoder = ContextEncoder(StateScaler.identity(["users"]), ConfigurationSpace(**{KNOB: [-90]}))
    with pytest.raises(BadInputError, match="the encoder must have the state"):
        RadioEnvironment(3, encoder=encoder)
