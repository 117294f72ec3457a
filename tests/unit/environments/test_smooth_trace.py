"""The smooth environment: its truth is the function behind the rows, its noise theirs, and what it refuses."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kinband import ConfigurationSpace, Trace
from kinband.arrays import FloatArray
from kinband.environments import SmoothFit, SmoothTraceEnvironment
from kinband.errors import BadInputError, NotFoundError
from kinband.experiments.problems import MOST, drawn_by_seed, fit_stations, problem_of
from kinband.records import Samples

TILTS = np.arange(0, 11, 2)


def curve(load: FloatArray, tilt: FloatArray, *, peak: float, width: float, slope: float) -> FloatArray:
    """A reward that is best at some tilt, and falls with the load."""
    earned: FloatArray = 0.8 * np.exp(-0.5 * ((tilt - peak) / width) ** 2) - slope * load
    return earned


def drawn(seed: int, *, rows: int, stations: int = 3) -> tuple[Trace, list[partial[FloatArray]], FloatArray]:
    """A trace of stations with curves and noises of their own, all drawn, and these."""
    rng = np.random.default_rng(seed)
    curves = [
        partial(curve, peak=rng.uniform(2, 8), width=rng.uniform(3, 6), slope=rng.uniform(0, 0.3))
        for _ in range(stations)
    ]
    noises = rng.uniform(0.03, 0.12, stations)
    tasks = np.repeat(np.arange(stations), rows)
    load, tilt = rng.random(len(tasks)), rng.choice(TILTS, len(tasks))
    reward = np.array([curves[m](x, t) for m, x, t in zip(tasks, load, tilt, strict=True)])
    reward += noises[tasks] * rng.standard_normal(len(tasks))
    columns = {"station": [f"s{m}" for m in tasks], "load": load, "tilt": tilt, "reward": reward}
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    return trace.with_space(ConfigurationSpace(tilt=TILTS.tolist())), curves, noises


def level(samples: Samples) -> list[SmoothFit]:
    """A fit that needs no time: every station earns the mean reward."""
    mean = float(samples.y.mean())
    return [SmoothFit(lambda X: np.full(len(X), mean), 0.1)] * len(samples.stations)


# --- The truth ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_is_the_function_behind_the_noisy_rows(seed: int) -> None:
    """200 rows a station; a dozen degrees of freedom would leave an error of σ√(12/200), a quarter of σ."""
    trace, curves, noises = drawn(seed, rows=200)
    environment = SmoothTraceEnvironment(trace, fit_stations, seed=seed)
    errors: list[list[FloatArray]] = [[] for _ in curves]
    for _ in range(50):
        for m, station in enumerate(environment.stations):
            load = environment.slot.states[station]["load"]
            truth = curves[m](np.full(len(TILTS), load), TILTS)
            errors[m].append(environment.truth(station).expected - truth)
        environment.play({})
    for of_station, noise in zip(errors, noises, strict=True):
        assert np.sqrt(np.mean(np.square(of_station))) < 0.5 * noise


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_that_of_the_rows(seed: int) -> None:
    """A standard deviation from 400 rows has a standard error of σ/√800, 3.5 %; four of them are allowed."""
    trace, _, noises = drawn(seed, rows=400)
    environment = SmoothTraceEnvironment(trace, fit_stations)
    assert [fit.deviation for fit in environment.fits] == pytest.approx(noises, rel=4 / np.sqrt(800))


def test_rewards_scatter_around_the_truth_as_the_residuals_do() -> None:
    trace, *_ = drawn(7, rows=60)
    environment = SmoothTraceEnvironment(trace, fit_stations, seed=3)
    luck = []
    for _ in range(2000):
        truths = [environment.truth(station) for station in environment.stations]
        luck.append([truth.rewards[2] - truth.expected[2] for truth in truths])
        environment.play({})
    deviations = np.array([fit.deviation for fit in environment.fits])
    assert np.std(luck, axis=0) == pytest.approx(deviations, rel=4 / np.sqrt(2 * len(luck)))
    assert np.abs(np.mean(luck, axis=0)) / deviations == pytest.approx(0, abs=4 / np.sqrt(len(luck)))


def test_all_regrets_agree_since_the_noise_is_that_of_the_slot() -> None:
    trace, *_ = drawn(8, rows=30)
    truth = SmoothTraceEnvironment(trace, fit_stations).truth("s1")
    for arm in range(len(TILTS)):
        assert truth.realised_regret(arm) == pytest.approx(truth.pseudo_regret(arm))
        assert truth.defined_regret(arm) == pytest.approx(truth.pseudo_regret(arm))


def test_the_truth_stays_within_the_rewards_of_the_trace() -> None:
    trace, *_ = drawn(9, rows=20)

    def far(samples: Samples) -> list[SmoothFit]:
        return [SmoothFit(lambda X: 100.0 * X[:, 1], 0.0)] * len(samples.stations)

    expected = SmoothTraceEnvironment(trace, far).truth("s0").expected
    assert (expected.min(), expected.max()) == (trace.reward.min(), trace.reward.max())


def test_what_is_known_of_a_reward_weighs_it() -> None:
    """Rows known to be worthless lie far off; the fit goes through the others."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (200, 1))
    poor = np.arange(200) % 2 == 0
    y = np.sin(2 * X[:, 0]) + np.where(poor, 3.0 * rng.standard_normal(200), 0.05 * rng.standard_normal(200))
    samples = Samples(("a",), np.zeros(200, dtype=np.int64), X, y, np.where(poor, 9.0, 0.0), ("load",))
    (fit,) = fit_stations(samples)
    assert np.abs(fit.mean(X) - np.sin(2 * X[:, 0])).max() < 0.1


def test_a_log_earns_what_slots_earn() -> None:
    """Random arms in random states: the means of both agree within four standard errors."""
    trace, *_ = drawn(10, rows=80)
    environment = SmoothTraceEnvironment(trace, fit_stations, seed=1)
    log, rng = environment.log(1000, np.random.default_rng(2)), np.random.default_rng(3)
    paid = [[o.reward for o in environment.play({s: int(rng.integers(6)) for s in environment.stations}).values()]
            for _ in range(1000)]  # fmt: skip
    for task in range(3):
        one, two = log.y[log.tasks == task], np.array(paid)[:, task]
        assert abs(one.mean() - two.mean()) < 4 * np.hypot(one.std(), two.std()) / np.sqrt(1000)


def test_a_station_with_very_many_rows_is_fitted_to_some() -> None:
    trace, curves, noises = drawn(11, rows=MOST + 200, stations=1)
    environment = SmoothTraceEnvironment(trace, fit_stations)
    load = environment.slot.states["s0"]["load"]
    truth = curves[0](np.full(len(TILTS), load), TILTS)
    assert np.abs(environment.truth("s0").expected - truth).max() < noises[0]


# --- Doors ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_fitted_is_refused_in_a_sentence() -> None:
    trace, *_ = drawn(12, rows=9)
    with pytest.raises(BadInputError, match=r"station 's0' has 9 row\(s\), a smooth fit takes at least 10"):
        SmoothTraceEnvironment(trace, level)
    trace, *_ = drawn(12, rows=20)
    with pytest.raises(NotFoundError, match="no row of station 'nobody'"):
        SmoothTraceEnvironment(trace, level, stations=["nobody"])
    with pytest.raises(BadInputError, match=r"each of 3 station\(s\), got 0"):
        SmoothTraceEnvironment(trace, lambda _: [])
    with pytest.raises(BadInputError, match="must not be negative"):
        SmoothTraceEnvironment(trace, lambda _: [SmoothFit(lambda X: X[:, 0], -0.1)] * 3)


def test_rewards_that_are_all_equal_leave_nothing_to_fit() -> None:
    columns = {"station": ["a"] * 12, "load": range(12), "tilt": [1, 2] * 6, "reward": [0.5] * 12}
    with pytest.raises(BadInputError, match=r"all rewards are 0\.5"):
        SmoothTraceEnvironment(Trace.from_frame(columns, {"configuration": ["tilt"]}), fit_stations)


def test_experiments_know_it_by_name_and_draw_its_log_by_seed(tmp_path: Path) -> None:
    trace, *_ = drawn(13, rows=40)
    trace.write(tmp_path / "log.parquet")
    name = f"smooth:{tmp_path / 'log.parquet'}"
    one, again, other = (problem_of(name, log_rows=7, seed=seed) for seed in (1, 1, 2))
    assert len(one.log) == 21
    np.testing.assert_array_equal(one.log.y, again.log.y)
    assert not np.array_equal(one.log.y, other.log.y)
    assert drawn_by_seed(name)
    assert one.environment is other.environment
    assert one.scaler is not None
