"""Policies on arithmetic one can do by hand: a stub stands in for the posterior."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, pi, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import RBF
from kinband.policies import UCB, Constant, KrauseOng, LinUCB, Setting, Theorem1, policy_factory
from kinband.policies.base import check_choice, pick_best
from kinband.policies.exploration import exploration_from, exploration_from_dict, exploration_to_dict
from kinband.policies.super_ucb import SuperUCB, super_levels
from kinband.posterior import Column, Posterior, Prediction
from kinband.records import Choice, Observation, Query


class Stub(Posterior):
    """A posterior that believes what the context says: mean and std are its two features."""

    def __init__(self) -> None:
        super().__init__(RBF(), [[1.0]], noise=0.1)
        self.learned: list[tuple[int, float]] = []

    def __len__(self) -> int:
        return len(self.learned)

    def predict(self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column | None] = ()) -> Prediction:
        X = np.asarray(X)
        return Prediction(X[:, 0], X[:, 1])

    def update(
        self,
        tasks: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        noise: ArrayLike | None = None,
        column: Column | None = None,
    ) -> None:
        self.learned += [(int(t), float(r)) for t, r in zip(np.ravel(tasks), np.ravel(y), strict=True)]

    def correct(self, index: int, y: float) -> None:
        self.learned[index] = (self.learned[index][0], y)

    def remove(self, index: int) -> None:
        del self.learned[index]

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        pass


def query(*mean_and_width: tuple[float, float], allowed: list[bool] | None = None) -> Query:
    mask = np.ones(len(mean_and_width), dtype=bool) if allowed is None else np.array(allowed)
    return Query(0, np.array(mean_and_width), mask)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_ucb_adds_mean_and_weighted_width() -> None:
    choice = UCB(Stub(), Constant(2.0), noise=0.1).choose(query((0.5, 0.1), (0.3, 0.3), (0.6, 0.0)), rng())
    assert choice.arm == 1
    assert choice.score is not None
    assert choice.score.tolist() == pytest.approx([0.7, 0.9, 0.6])


def test_without_exploration_the_best_mean_wins() -> None:
    assert UCB(Stub(), Constant(0.0), noise=0.1).choose(query((0.5, 0.1), (0.3, 9.0), (0.6, 0.0)), rng()).arm == 2


def test_arms_that_are_not_allowed_are_not_even_scored() -> None:
    choice = UCB(Stub(), Constant(2.0), noise=0.1).choose(query((0.5, 0.1), (0.3, 9.0), allowed=[True, False]), rng())
    assert (choice.arm, choice.arms.tolist()) == (0, [0])


def test_ties_are_broken_evenly_and_by_the_generator() -> None:
    score = np.array([0.5, 0.5 + 1e-15, 0.1, 0.5])
    counts = Counter(pick_best(score, np.random.default_rng([7, i])) for i in range(3000))
    assert set(counts) == {0, 1, 3}
    # Each count is binomial(3000, 1/3), standard deviation 25.8; five of them.
    assert all(abs(count - 1000) < 5 * 25.8 for count in counts.values())


def test_a_rule_may_count_the_rewards_of_one_task_alone() -> None:
    alone = UCB(Stub(), KrauseOng(0.1), noise=0.1, per_task=True)
    for task in (0, 1, 1):
        alone.learn(Observation(task=task, x=np.zeros(2), arm=0, reward=0.5))
    choice = alone.choose(query((0.0, 1.0)), rng())
    assert choice.score is not None
    assert choice.score[0] == pytest.approx(sqrt(2 * log(1 * 2**2 * pi**2 / 0.6)))


@pytest.mark.parametrize("noise", [0.01, 0.3, 4.0])
def test_theorem_1_as_printed_and_corrected(noise: float) -> None:
    alpha = sqrt(log(2 * (12 * 5 + 1) / 0.2) / 2)
    expected = alpha + 1.5 * sqrt(noise)
    printed, corrected = Theorem1(0.2, 1.5, printed=True), Theorem1(0.2, 1.5)
    assert printed.beta(known=12, arms=5, noise=noise) == pytest.approx(expected)
    assert corrected.beta(known=12, arms=5, noise=noise) == pytest.approx(expected / sqrt(noise))


@pytest.mark.parametrize("rule", [Constant(0.7), Theorem1(0.2, 3.0, printed=True), KrauseOng(0.3)])
def test_rules_survive_storage(rule: Constant | Theorem1 | KrauseOng) -> None:
    assert exploration_from_dict(exploration_to_dict(rule)) == rule
    assert exploration_from(rule) is rule


def test_bad_rules_are_refused() -> None:
    for make in (lambda: Theorem1(delta=0.0), lambda: KrauseOng(1.0), lambda: Constant(float("nan"))):
        with pytest.raises(BadInputError):
            make()
    with pytest.raises(NotFoundError, match="unknown policy 'best'"):
        policy_factory("best")


def super_ucb(*, horizon: int, beta: float, levels: int = 3) -> tuple[SuperUCB, list[Stub]]:
    stubs = [Stub() for _ in range(levels)]
    return SuperUCB(list(stubs), beta=beta, horizon=horizon), stubs


def test_super_ucb_exploits_when_every_width_is_tiny() -> None:
    policy, stubs = super_ucb(horizon=100, beta=1.0)
    choice = policy.choose(query((0.5, 0.05), (0.6, 0.02)), rng())
    assert (choice.arm, choice.policy_state["level"]) == (1, 0)
    policy.learn(Observation(0, np.zeros(2), 1, 0.5, None, choice.policy_state))
    assert [len(s) for s in stubs] == [0, 0, 0]


def test_super_ucb_plays_the_widest_arm_over_the_threshold() -> None:
    policy, stubs = super_ucb(horizon=100, beta=1.0)
    choice = policy.choose(query((0.5, 0.05), (0.1, 0.6), (0.2, 0.7)), rng())
    assert (choice.arm, choice.policy_state["level"]) == (2, 1)
    policy.learn(Observation(0, np.zeros(2), 2, 0.5, None, choice.policy_state))
    assert [len(s) for s in stubs] == [1, 0, 0]


def test_super_ucb_drops_arms_that_cannot_be_best_and_goes_up() -> None:
    # Level 1: all ω ≤ 1/2; ucb = 0.9, 2.3, 2.4 and those within 2^0 = 1 of the best stay. Level 2: ω > 1/4 for arm 2.
    policy, _ = super_ucb(horizon=100, beta=1.0)
    choice = policy.choose(query((0.5, 0.4), (2.1, 0.2), (2.1, 0.3)), rng())
    assert (choice.arm, choice.policy_state["level"], choice.arms.tolist()) == (2, 2, [1, 2])


def test_super_ucb_lets_a_log_teach_every_level() -> None:
    policy, stubs = super_ucb(horizon=100, beta=1.0)
    policy.learn(Observation(0, np.zeros(2), 0, 0.5))
    assert [len(s) for s in stubs] == [1, 1, 1]


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 10**6])
def test_the_top_level_of_super_ucb_always_decides(horizon: int) -> None:
    assert 2.0 ** -super_levels(horizon) <= 1 / sqrt(horizon)


def test_linucb_is_ridge_regression_per_arm() -> None:
    ridge, draws = 0.7, np.random.default_rng(3)
    policy = LinUCB(Constant(1.3), ridge=ridge, mean=0.2)
    X, y = draws.normal(size=(12, 2)), draws.random(12)
    for x, r in zip(X, y, strict=True):
        policy.learn(Observation(task=1, x=x, arm=0, reward=float(r)))
    x = np.array([0.4, -1.1])
    choice = policy.choose(Query(1, np.stack([x, x]), np.array([True, True])), rng())
    F, f = np.hstack([X, np.ones((12, 1))]), np.append(x, 1.0)
    A = ridge * np.eye(3) + F.T @ F
    mean = 0.2 + f @ np.linalg.solve(A, F.T @ (y - 0.2))
    std = sqrt(f @ np.linalg.solve(A, f))
    assert choice.mean is not None
    assert choice.std is not None
    assert (choice.mean[0], choice.std[0]) == (pytest.approx(mean), pytest.approx(std))
    assert (choice.mean[1], choice.std[1]) == (pytest.approx(0.2), pytest.approx(sqrt(f @ f / ridge)))


def test_a_round_equals_the_same_stations_one_by_one() -> None:
    draws = np.random.default_rng(5)
    K_Z = 0.7 * np.ones((4, 4)) + 0.3 * np.eye(4)
    policy = UCB.build(Setting(RBF(0.6, variance=1.4), K_Z, noise=0.04, arms=40, mean=0.1))
    for _ in range(200):
        policy.learn(Observation(int(draws.integers(4)), draws.random(2), 0, float(draws.random())))
    queries = [Query(m % 4, draws.random((40, 2)), draws.random(40) < 0.7) for m in range(37)]
    together = policy.choose_round(queries, [rng() for _ in queries])
    for choice, one in zip(together, queries, strict=True):
        alone = policy.choose(one, rng())
        assert choice.arm == alone.arm
        assert choice.score is not None
        assert choice.score == pytest.approx(alone.score, abs=1e-11)


@pytest.mark.parametrize("name", ["mean", "std", "score"])
def test_a_choice_with_numbers_that_are_not_finite_is_refused_with_where_to_look(name: str) -> None:
    query = Query(0, np.zeros((2, 1)), np.array([True, True]))
    odd: dict[str, Any] = {name: np.array([0.5, np.inf])}
    with pytest.raises(BadInputError, match=f"{name} is not finite: look for an absurd reward"):
        check_choice(Choice(0, query.arms, **odd), query)
