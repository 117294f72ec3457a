"""What every environment must keep, run over all of them. Add yours to ENVIRONMENTS."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kinband import Trace
from kinband.environments import (
    ClassificationBandit,
    DrawnBandit,
    DrawsLogs,
    Drifting,
    Environment,
    KnowsTruth,
    MeasuredEnvironment,
    MeasuredTable,
    SmoothTraceEnvironment,
    SyntheticBandit,
    TraceEnvironment,
    bundled_measured,
)
from kinband.environments.radio import EnergySaving, Parameters, PowerMap, RadioEnvironment, build_map, draw_layout
from kinband.environments.synthetic import groups
from kinband.errors import BadInputError, NotFoundError
from kinband.experiments.problems import fit_stations

Factory = Callable[[], Environment]
Chooser = Callable[[Environment], dict[str, int]]
SLOTS = 25


def a_trace(state: tuple[str, ...] = ("load", "users"), **more: object) -> Trace:
    """Four stations, 30 rows each, with a quantity and a category to set."""
    rng = np.random.default_rng(5)
    columns = {"station": np.repeat(["a", "b", "c", "d"], 30), "tilt": rng.integers(0, 4, 120)}
    columns |= {"scheduler": rng.choice(["rr", "pf"], 120)} | {name: rng.gamma(2, 3, 120) for name in state}
    columns |= {"reward": rng.random(120), "time": np.arange(120)}
    return Trace.from_frame(columns | more, {"configuration": ["tilt", "scheduler"]})


def a_smooth_trace(**more: object) -> Trace:
    """The same, with rewards that a fit can find: the best tilt depends on the scheduler."""
    trace = a_trace(("load", "users"), **more)
    tilt, scheduler = trace.configuration["tilt"], trace.configuration["scheduler"]
    best = np.where(scheduler == "rr", 1, 2)
    return replace(trace, reward=0.5 * trace.reward + 0.3 - 0.1 * np.abs(tilt - best))


def a_table() -> MeasuredTable:
    """Four tasks under six configurations, some measured again, some failed, some never run."""
    rng = np.random.default_rng(6)
    task, level = np.repeat(["a", "b", "c", "d"], 9), np.tile([0, 1, 2, 3, 4, 5, 0, 1, 5], 4)
    columns = {"task": task, "level": level, "mode": np.where(level % 2, "None", "1"), "seconds": rng.gamma(3, 2, 36)}
    columns["seconds"][[2, 16]] = 0, np.nan
    kept = ~((task == "c") & (level == 4))
    return MeasuredTable.from_frame({name: values[kept] for name, values in columns.items()}, "seconds", goal="min")


@cache
def a_city() -> PowerMap:
    """Two sites of three sectors."""
    return build_map(draw_layout(6, seed=2), Parameters())


ENVIRONMENTS: dict[str, Factory] = {
    "synthetic": SyntheticBandit,
    "synthetic, arm told": lambda: SyntheticBandit(arm_feature=True),
    "synthetic, from zero": lambda: SyntheticBandit(3, 4, first_task=0),
    "synthetic, larger": lambda: SyntheticBandit(7, 9),
    "drawn, opposed": lambda: DrawnBandit(groups([1, -1, 1, -1], similarity=0.7), arms=6),
    "trace": lambda: TraceEnvironment(a_trace()),
    "trace, everybody's rows": lambda: TraceEnvironment(a_trace(), pooled=True, stations=["d", "a", "b"]),
    "trace, one neighbour": lambda: TraceEnvironment(a_trace(), neighbours=1),
    "measured, with failures and holes": lambda: MeasuredEnvironment(a_table()),
    "measured, real noise only": lambda: bundled_measured("sqlite", "q15", tasks=3, noise=0.0),
    "classes of wine": lambda: ClassificationBandit("wine", tasks=3),
    "classes of digits, relabelled": lambda: ClassificationBandit("digits", tasks=4, relabelled=True),
    "trace, noise known": lambda: TraceEnvironment(a_trace(samples=np.arange(1, 121)), neighbours=3),
    "drifting, step": lambda: Drifting(SyntheticBandit(7, 4), "step", begin=6),
    "drifting, slow": lambda: Drifting(TraceEnvironment(a_trace()), "slow", begin=6, lasts=9),
    "drifting, never": lambda: Drifting(TraceEnvironment(a_trace()), "none", begin=6),
    # Four slots of six seconds a day: most slots lie in later days.
    "radio network": lambda: RadioEnvironment(map_=a_city(), period_s=6, hours=(18, 18 + 4 / 600)),
    "radio network, carriers that sleep": lambda: RadioEnvironment(
        map_=a_city(), parameters=Parameters(saving=EnergySaving()), period_s=6, hours=(18, 18 + 4 / 600)
    ),
    "trace, smooth": lambda: SmoothTraceEnvironment(a_smooth_trace(), fit_stations),
    "trace, smooth, noise known": lambda: SmoothTraceEnvironment(
        a_smooth_trace(samples=np.arange(1, 121)), fit_stations, stations=["d", "a", "b"]
    ),
}


@pytest.fixture(params=list(ENVIRONMENTS))
def build(request: pytest.FixtureRequest) -> Factory:
    return ENVIRONMENTS[request.param]


def at_random(seed: int, share: float = 1.0) -> Chooser:
    """Random arms, of those they can play, for a random share of the stations."""
    rng = np.random.default_rng(seed)

    def choose(environment: Environment) -> dict[str, int]:
        every, known = np.ones(environment.arms, dtype=np.bool_), environment.slot.allowed
        playing = [station for station in environment.stations if rng.random() < share]
        return {station: int(rng.choice(np.flatnonzero(known.get(station, every)))) for station in playing}

    return choose


def in_turn(environment: Environment) -> dict[str, int]:
    """One station a slot, as in the sequential setting."""
    return {environment.stations[environment.slot.number % len(environment.stations)]: 0}


def nobody(environment: Environment) -> dict[str, int]:
    return {}


def run(environment: Environment, seed: int, choose: Chooser) -> tuple[list[bytes], list[float]]:
    """Play from a reset; return the bits of every slot's contexts and states, and all rewards."""
    shown, rewards = [], []
    environment.reset(seed)
    for _ in range(SLOTS):
        slot = environment.slot
        contexts = b"".join(slot.contexts[station].tobytes() for station in environment.stations)
        shown.append(contexts + repr(sorted((s, sorted(v.items())) for s, v in slot.states.items())).encode())
        rewards += [outcome.reward for outcome in environment.play(choose(environment)).values()]
    return shown, rewards


def test_same_seed_and_same_arms_give_the_same_trajectory(build: Factory) -> None:
    first, second = build(), build()
    run(second, 99, at_random(0))  # what was played before a reset must not matter
    assert run(first, 4, at_random(1)) == run(second, 4, at_random(1))


def test_different_seeds_give_different_trajectories(build: Factory) -> None:
    environment = build()
    (shown, rewards), (others, other_rewards) = (run(environment, seed, at_random(1)) for seed in (4, 5))
    if len(set(shown)) > 1:
        assert shown != others
    else:  # where every slot shows the same, chance is in the rewards alone
        assert rewards != other_rewards


def test_playing_does_not_change_the_contexts_to_come(build: Factory) -> None:
    environment = build()
    if not environment.exogenous:
        pytest.skip("this environment declares that what is played changes what comes")
    expected = run(environment, 6, at_random(1))[0]
    for choose in (at_random(2), at_random(3, share=0.5), in_turn, nobody):
        assert run(environment, 6, choose)[0] == expected


def test_stations_play_together_or_in_turn_for_the_same_rewards(build: Factory) -> None:
    environment = build()
    if not environment.exogenous:
        pytest.skip("this environment declares that stations influence each other")
    environment.reset(8)
    together = environment.play(dict.fromkeys(environment.stations, 1))
    for station in environment.stations:
        environment.reset(8)
        assert environment.play({station: 1}) == {station: together[station]}


def test_slots_count_from_zero_and_show_one_row_per_arm(build: Factory) -> None:
    environment = build()
    choose = at_random(3)
    assert environment.reset(2).number == 0
    for number in range(SLOTS):
        slot = environment.slot
        assert slot.number == number
        assert tuple(slot.contexts) == environment.stations
        for X in slot.contexts.values():
            assert X.shape == (environment.arms, len(environment.features))
            assert np.isfinite(X).all()
        environment.play(choose(environment))


def test_states_are_shown_exactly_where_arms_are_configurations(build: Factory) -> None:
    environment = build()
    if environment.space is None:
        assert not environment.slot.states
    else:
        assert set(environment.slot.states) == set(environment.stations)
        assert len(environment.space) == environment.arms


def test_names_are_distinct_and_categories_are_columns(build: Factory) -> None:
    environment = build()
    for names in (environment.stations, environment.features):
        assert len(set(names)) == len(names) > 0
    assert set(environment.categorical) <= set(range(len(environment.features)))


def test_a_learner_cannot_change_the_slot_through_its_contexts(build: Factory) -> None:
    environment = build()
    X = environment.reset(1).contexts[environment.stations[0]]
    with pytest.raises(ValueError, match="read-only"):
        X[0, 0] = 7.0


def test_rewards_are_finite_and_within_the_declared_range(build: Factory) -> None:
    environment = build()
    low, high = environment.reward_range
    rewards = np.array(run(environment, 7, at_random(5))[1])
    assert len(rewards) == SLOTS * len(environment.stations)
    assert low <= rewards.min() < rewards.max() <= high


def test_only_the_stations_that_played_are_paid(build: Factory) -> None:
    environment = build()
    pair = environment.stations[:2]
    assert set(environment.play(dict.fromkeys(pair, 0))) == set(pair)
    assert environment.play({}) == {}


def test_bad_arms_and_unknown_stations_are_refused_and_the_slot_stays(build: Factory) -> None:
    environment = build()
    environment.reset(3)
    known, shown = environment.stations[0], environment.slot
    for arm in (-1, environment.arms, 0.5, True, None):
        with pytest.raises(BadInputError, match="arms are numbered from 0"):
            environment.play({known: arm})  # type: ignore[dict-item]
    with pytest.raises(NotFoundError, match="no station 'nobody'"):
        environment.play({known: 0, "nobody": 0})
    assert environment.slot is shown
    if isinstance(environment, KnowsTruth):
        with pytest.raises(NotFoundError, match="no station 'nobody'"):
            environment.truth("nobody")


def test_truth_agrees_with_what_is_paid_and_does_not_move_on(build: Factory) -> None:
    environment = build()
    if not isinstance(environment, KnowsTruth):
        pytest.skip("this environment does not know what the other arms would have earned")
    choose = at_random(9)
    environment.reset(12)
    for number in range(SLOTS):
        truths = {station: environment.truth(station) for station in environment.stations}
        assert environment.slot.number == number
        arms = choose(environment)
        for station, outcome in environment.play(arms).items():
            assert outcome.reward == truths[station].rewards[arms[station]]


def test_best_arm_is_best_and_regrets_are_not_negative(build: Factory) -> None:
    environment = build()
    if not isinstance(environment, KnowsTruth):
        pytest.skip("this environment does not know what the other arms would have earned")
    low, high = environment.reward_range
    environment.reset(13)
    for _ in range(SLOTS):
        for station in environment.stations:
            truth = environment.truth(station)
            assert truth.rewards.shape == truth.expected.shape == (environment.arms,)
            assert ((low <= truth.expected) & (truth.expected <= high)).all()
            assert (truth.expected[truth.best] >= truth.expected).all()
            assert truth.pseudo_regret(truth.best) == 0
            assert min(truth.pseudo_regret(arm) for arm in range(environment.arms)) == 0
            assert min(truth.realised_regret(arm) for arm in range(environment.arms)) == 0
        environment.play({})


def test_best_arm_earns_more_than_a_random_one(build: Factory) -> None:
    environment = build()
    if not isinstance(environment, KnowsTruth):
        pytest.skip("this environment does not know what the other arms would have earned")
    rng = np.random.default_rng(21)
    environment.reset(14)
    regrets = np.zeros(8 * SLOTS)
    for t in range(len(regrets)):
        for station in environment.stations:
            regrets[t] += environment.truth(station).defined_regret(int(rng.integers(environment.arms)))
        environment.play({})
    assert regrets.mean() > 4 * regrets.std() / np.sqrt(len(regrets))


def test_log_is_even_repeatable_and_leaves_the_run_alone(build: Factory) -> None:
    environment, undisturbed = build(), build()
    if not isinstance(environment, DrawsLogs):
        pytest.skip("this environment draws no logs")
    environment.reset(15)
    undisturbed.reset(15)
    with pytest.raises(BadInputError, match="rows_per_station must be a whole number of at least 1"):
        environment.log(0, np.random.default_rng(2))
    log, again = (environment.log(30, np.random.default_rng(2)) for _ in range(2))
    for name in ("tasks", "X", "y"):
        np.testing.assert_array_equal(getattr(log, name), getattr(again, name))
    assert log.stations == environment.stations
    assert log.features == environment.features
    assert log.categorical == environment.categorical
    assert np.bincount(log.tasks).tolist() == [30] * len(environment.stations)
    assert environment.reward_range[0] <= log.y.min() < log.y.max() <= environment.reward_range[1]
    for _ in range(2):
        station = environment.stations[-1]
        np.testing.assert_array_equal(environment.slot.contexts[station], undisturbed.slot.contexts[station])
        assert environment.play({station: 0}) == undisturbed.play({station: 0})
