"""From a log to a model: what is given stays, what is not is learned, and noise is what is not known."""

import numpy as np
import pytest
from tests.support.habits import covered, unrandomised

from kinband.environments import SyntheticBandit
from kinband.kernels import RBF
from kinband.model import LEAST_NOISE, Search, learn_model
from kinband.records import Samples
from kinband.similarity import TaskMatrix


def log_of(rng: np.random.Generator, *, noise: float | None = None, stations: int = 3) -> Samples:
    X, tasks = rng.uniform(-1.5, 1.5, size=(90, 2)), np.arange(90) % stations
    names = tuple(f"s{m}" for m in range(stations))
    y = 0.7 + 0.2 * np.sin(2 * X[:, 0]) + 0.02 * rng.standard_normal(90)
    known = None if noise is None else np.full(90, noise)
    return Samples(names, tasks, X, y, known, ("load", "knob"))


def test_what_is_given_is_left_alone() -> None:
    log, kernel = log_of(np.random.default_rng(0)), RBF([0.4, 0.9], variance=0.3)
    model = learn_model(log, "embedding", rng=np.random.default_rng(1), kernel=kernel, noise=0.07, mean=0.2)
    assert model.kernel == kernel.bind(log.features)
    assert (model.noise, model.mean) == (0.07, 0.2)


def test_what_is_not_given_is_learned() -> None:
    log = log_of(np.random.default_rng(2))
    model = learn_model(log, "pooled", rng=np.random.default_rng(1))
    # 90 rewards with a standard deviation of 0.02: the variance 4e-4 has a relative standard error of √(2/90) = 15 %,
    # and the few directions that the kernel fits make it smaller rather than larger.
    assert 4e-4 * (1 - 4 * 0.15) < model.noise < 4e-4 * (1 + 4 * 0.15)
    assert model.similarity.between("s0", "s2") == 1.0


def test_noise_is_what_the_log_does_not_know_of() -> None:
    # All rewards scatter with variance 4e-4. Where the log knows 3e-4 of it, 1e-4 is left to be found; that estimate
    # has the standard error of the whole, 15 % of 4e-4.
    log = log_of(np.random.default_rng(2), noise=3e-4)
    assert learn_model(log, "pooled", rng=np.random.default_rng(1)).noise < 1e-4 + 4 * 0.15 * 4e-4
    # Where it knows of next to nothing, known noise must not make the learner sure of itself.
    log = log_of(np.random.default_rng(2), noise=1e-6)
    assert learn_model(log, "pooled", rng=np.random.default_rng(1)).noise > 4e-4 * (1 - 4 * 0.15)


@pytest.mark.parametrize("similarity", ["embedding", "prediction", "coregionalisation", "independent", "pooled"])
def test_one_station_has_nobody_to_resemble(similarity: str) -> None:
    log = log_of(np.random.default_rng(4), stations=1)
    model = learn_model(log, similarity, rng=np.random.default_rng(1), search=Search(starts=1))
    assert model.similarity.matrix.tolist() == [[1.0]]


def test_an_estimator_is_shown_the_log_it_belongs_to() -> None:
    shown: list[object] = []

    class Curious:
        def fit(self, log: object) -> TaskMatrix:
            shown.append(log)
            return TaskMatrix(("s0", "s1", "s2"), np.ones((3, 3)), "curious")

    log, original = log_of(np.random.default_rng(5)), log_of(np.random.default_rng(5))
    learn_model(log, Curious(), rng=np.random.default_rng(1), search=Search(starts=1), log=original)
    assert shown == [original]


def test_rewards_without_noise_leave_a_posterior_to_reckon_with() -> None:
    bandit = SyntheticBandit(7, 9, arm_feature=True, seed=1)
    habits = unrandomised(bandit, np.random.default_rng([1, 9]), arms=9)
    model = learn_model(habits.log, "joint", rng=np.random.default_rng(1))
    assert model.noise >= 0.99 * LEAST_NOISE * model.kernel.diag(habits.log.X).max()
    assert np.isfinite(covered(model, habits.log, habits.others)[1]).all()
    kept = learn_model(habits.log, "pooled", rng=np.random.default_rng(1), noise=1e-12)
    assert kept.noise == 1e-12
