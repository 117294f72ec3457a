"""The synthetic bandit's expected reward is a conditional expectation, and even it cannot tell the best arm."""

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.environments import SyntheticBandit, SyntheticTasks


def residuals(
    formulas: SyntheticTasks, task: int, rows: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Contexts (n, 2) of arms drawn evenly, and what their rewards are off from E[r | x, m], (n,)."""
    u, arm = rng.random((rows, 2)), rng.integers(formulas.arms, size=rows)
    picked = (np.arange(rows), task, arm)
    X = formulas.contexts(u)[picked]
    return X, formulas.rewards(u)[picked] - formulas.expected(X, task)


@pytest.mark.parametrize("formulas", [SyntheticTasks(), SyntheticTasks(3, 4, 0)])
def test_rewards_average_to_the_expected_reward_wherever_the_context_lies(formulas: SyntheticTasks) -> None:
    # E[r − E[r | x] ; x in cell] = 0 for every cell defines the conditional expectation. The line x[0] = 0, on which
    # one arm of some tasks lies, is a cell of its own in each row. Fewer than 700 cells in all: 5 standard errors are
    # passed by chance less than once in 2,000 times.
    rng = np.random.default_rng(404)
    cells = 0
    for task in range(formulas.tasks):
        X, residual = residuals(formulas, task, 200_000, rng)
        across = np.where(X[:, 0] == 0, 99, np.floor(X[:, 0] * 10)).astype(int)
        cell = np.unique(across * 1000 + np.floor(X[:, 1] * 8).astype(int), return_inverse=True)[1]
        count = np.bincount(cell)
        mean = np.bincount(cell, residual) / count
        variance = np.bincount(cell, residual**2) / count
        full = count >= 200
        cells += full.sum()
        assert (np.abs(mean[full]) <= 5 * np.sqrt(variance[full] / count[full]) + 1e-12).all()
    assert 100 < cells < 700


def regrets(slots: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Realised regret per slot, all stations together, of the arm with the largest E[r | x] and of a random one."""
    bandit, rng = SyntheticBandit(seed=seed), np.random.default_rng(seed)
    knowing, random = np.zeros(slots), np.zeros(slots)
    for t in range(slots):
        for station in bandit.stations:
            truth = bandit.truth(station)
            knowing[t] += truth.realised_regret(truth.best)
            random[t] += truth.realised_regret(int(rng.integers(bandit.arms)))
        bandit.play({})
    return knowing, random


def regrets_by_quadrature(points: int) -> tuple[float, float]:
    """The same two means over a fine grid of u, written out from the paper and Bayes' rule alone."""
    grid = (np.arange(points) + 0.5) / points
    u0, u1 = np.meshgrid(grid, grid)
    knowing = random = 0.0
    for m in range(1, 6):
        angle = {a: a / 5 + m / 10 for a in range(1, 6)}
        cos = {a: np.cos(np.pi / 2 * angle[a]) for a in angle}
        sin = {a: np.sin(np.pi / 2 * a / 5) for a in angle}
        reward = {a: 1 - (u0 - a / 5 + 0.3 - m / 10) ** 2 for a in angle}
        rewards = np.array(list(reward.values()))
        beliefs = []
        for a in angle:
            if abs(angle[a] - 1) < 1e-9:  # x[0] = 0: the arm is known, u[0] is not
                beliefs.append(np.full(u0.shape, reward[a].mean()))
                continue
            top, bottom = np.zeros(u0.shape), np.zeros(u0.shape)
            for b in angle:
                if abs(angle[b] - 1) < 1e-9:
                    continue
                v0, v1 = u0 * cos[a] / cos[b], u1 * sin[a] / sin[b]
                weight = ((v0 >= 0) & (v0 <= 1) & (v1 <= 1)) / abs(cos[b] * sin[b])
                top, bottom = top + weight * (1 - (v0 - b / 5 + 0.3 - m / 10) ** 2), bottom + weight
            beliefs.append(top / bottom)
        chosen = np.array(beliefs).argmax(axis=0)
        knowing += (rewards.max(axis=0) - np.take_along_axis(rewards, chosen[None], axis=0)[0]).mean()
        random += (rewards.max(axis=0) - rewards.mean(axis=0)).mean()
    return knowing, random


def test_knowing_the_expected_reward_still_costs_regret_in_every_slot() -> None:
    # Over 3,000 slots: standard error 0.0016 for the knowing policy (sd 0.085 a slot), 0.011 for the random (0.61).
    knowing, random = regrets(3000, seed=2718)
    exact_knowing, exact_random = regrets_by_quadrature(400)
    for measured, exact in ((knowing, exact_knowing), (random, exact_random)):
        standard_error = measured.std() / np.sqrt(len(measured))
        assert abs(measured.mean() - exact) < 4 * standard_error + 2e-4  # and what the grid may be off by


def test_telling_the_arm_removes_most_of_that_regret() -> None:
    # Only arms at right angles stay uncertain; 4 standard errors of the paired difference.
    hidden, told = SyntheticBandit(seed=161), SyntheticBandit(seed=161, arm_feature=True)
    saved = np.zeros(800)
    for t in range(len(saved)):
        for station in hidden.stations:
            truths = hidden.truth(station), told.truth(station)
            saved[t] += truths[0].realised_regret(truths[0].best) - truths[1].realised_regret(truths[1].best)
        hidden.play({})
        told.play({})
    assert saved.mean() > 4 * saved.std() / np.sqrt(len(saved))
