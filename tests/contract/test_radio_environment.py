"""The radio network keeps the environment contract, on a city of two sites."""

from collections.abc import Callable

import numpy as np
import pytest

from kinband.contexts import ContextEncoder, StateScaler
from kinband.environments import Environment, KnowsTruth
from kinband.environments.radio import KNOB, STATE_NAMES, Parameters, PowerMap, RadioEnvironment, build_map, draw_layout
from kinband.errors import BadInputError, NotFoundError
from kinband.space import ConfigurationSpace

SLOTS = 5
Chooser = Callable[[RadioEnvironment], dict[str, int]]


@pytest.fixture(scope="module")
def city() -> PowerMap:
    return build_map(draw_layout(6, seed=2), Parameters())


def build(city: PowerMap, seed: int = 0) -> RadioEnvironment:
    # Four slots of 30 seconds a day: the fifth slot lies in the next day.
    return RadioEnvironment(map_=city, seed=seed, period_s=30, hours=(18, 18 + 2 / 60))


def at_random(seed: int, share: float = 1.0) -> Chooser:
    rng = np.random.default_rng(seed)
    return lambda environment: {
        station: int(rng.integers(environment.arms)) for station in environment.stations if rng.random() < share
    }


def run(environment: RadioEnvironment, seed: int, choose: Chooser) -> tuple[list[bytes], list[float]]:
    shown, rewards = [], []
    environment.reset(seed)
    for _ in range(SLOTS):
        slot = environment.slot
        contexts = b"".join(slot.contexts[station].tobytes() for station in environment.stations)
        shown.append(contexts + repr(sorted((s, sorted(v.items())) for s, v in slot.states.items())).encode())
        rewards += [outcome.reward for outcome in environment.play(choose(environment)).values()]
    return shown, rewards


def test_it_is_an_environment_that_influences_itself_and_knows_no_truth(city: PowerMap) -> None:
    environment: Environment = build(city)
    assert environment.exogenous is False
    assert not isinstance(environment, KnowsTruth)
    assert environment.reward_range == (0.0, 1.0)


def test_same_seed_and_same_arms_give_the_same_trajectory(city: PowerMap) -> None:
    first, second = build(city), build(city)
    run(second, 99, at_random(0))  # what was played before a reset must not matter
    assert run(first, 4, at_random(1)) == run(second, 4, at_random(1))


def test_different_seeds_give_different_trajectories(city: PowerMap) -> None:
    environment = build(city)
    assert run(environment, 4, at_random(1))[0] != run(environment, 5, at_random(1))[0]


def test_a_slots_state_does_not_know_what_is_played_in_it(city: PowerMap) -> None:
    low, high = build(city, 7), build(city, 7)
    for environment in (low, high):
        environment.play(dict.fromkeys(environment.stations, 5))
    before = low.slot
    assert before.states == high.slot.states
    low.play(dict.fromkeys(low.stations, 0))
    high.play(dict.fromkeys(high.stations, 28))
    assert before.states != low.slot.states != high.slot.states  # what was played shows one slot later


def test_slots_show_one_row_per_arm_and_states_by_name(city: PowerMap) -> None:
    environment = build(city)
    choose = at_random(3)
    assert environment.arms == len(environment.space) == 29
    for number in range(SLOTS):
        slot = environment.slot
        assert slot.number == number
        assert tuple(slot.contexts) == tuple(slot.states) == environment.stations
        for station, X in slot.contexts.items():
            assert X.shape == (29, len(environment.features))
            assert np.isfinite(X).all()
            assert tuple(slot.states[station]) == STATE_NAMES
        environment.play(choose(environment))


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
    outcomes = environment.play(at_random(5)(environment))
    report = environment.report
    for number, station in enumerate(environment.stations):
        n, good = int(report.sessions[number]), int(report.satisfied[number])
        p = (good + 1) / (n + 2)
        assert n > 0
        assert outcomes[station].reward == pytest.approx(good / n)
        assert outcomes[station].noise == pytest.approx(p * (1 - p) / n)
    rewards = np.array(run(environment, 7, at_random(5))[1])
    assert 0 <= rewards.min() < rewards.max() <= 1


def test_only_the_stations_that_played_are_paid_and_the_others_keep_their_threshold(city: PowerMap) -> None:
    environment = build(city)
    pair = environment.stations[:2]
    before = environment.thresholds.copy()
    assert set(environment.play(dict.fromkeys(pair, 3))) == set(pair)
    assert environment.thresholds.tolist() == [-109, -109, *before[2:].tolist()]
    assert environment.play({}) == {}


def test_bad_arms_and_unknown_stations_are_refused_and_the_slot_stays(city: PowerMap) -> None:
    environment = build(city)
    known, shown = environment.stations[0], environment.slot
    thresholds = environment.thresholds.copy()
    for arm in (-1, environment.arms, 0.5, True, None):
        with pytest.raises(BadInputError, match="arms are numbered from 0"):
            environment.play({known: arm})  # type: ignore[dict-item]
    with pytest.raises(NotFoundError, match="no station 'nobody'"):
        environment.play({known: 0, "nobody": 0})
    assert environment.slot is shown
    assert (environment.thresholds == thresholds).all()


def test_a_learner_cannot_change_the_slot_through_its_contexts(city: PowerMap) -> None:
    X = build(city).slot.contexts[build(city).stations[0]]
    with pytest.raises(ValueError, match="read-only"):
        X[0, 0] = 7.0


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
