"""Theorem 1's std covers f* as often as promised once it carries 1/√λ; as printed it does not at small λ.

Rewards are coins that come up with probability f*, the function is a finite combination of kernel functions whose
norm is known exactly, and which contexts are seen does not depend on rewards: just what the theorem assumes. If each
simulation fails with probability at most p, the share of failures among n exceeds p + 3√(p(1 − p)/n) with
probability about 0.001.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import RBF, Kernel
from kinband.posterior import ExactPosterior
from kinband.theory import gram, theorem1_width

NOISES = [0.01, 0.1, 1.0, 10.0]
DELTA = 0.2
M, T, N = 3, 6, 4  # tasks, slots, arms: the T-th slot is predicted from (T − 1)M rewards


@dataclass(frozen=True)
class Problem:
    """What was seen, what is asked, and the truth at both."""

    kernel: Kernel
    K_Z: FloatArray
    tasks: IntArray  # of the (T − 1)M rewards, then of the N arms of one task
    X: FloatArray
    truth: FloatArray
    norm: float

    @property
    def known(self) -> int:
        return len(self.truth) - N


def random_problem(rng: np.random.Generator) -> Problem:
    """Contexts from a few places, so that some are seen often; f* = Σ aᵢ k̃(·, x̃ᵢ), scaled into [0, 1]."""
    kernel = RBF(float(rng.uniform(0.3, 1.5)), variance=float(np.exp(rng.uniform(-1.0, 1.0))))
    B = rng.uniform(0.0, 1.0, size=(M, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.05, 0.5, size=M))
    tasks = np.concatenate([np.tile(np.arange(M), T - 1), np.full(N, rng.integers(M))])
    X = rng.normal(size=(5, 2))[rng.integers(5, size=len(tasks))]
    K = gram(tasks, X, kernel=kernel, K_Z=K_Z)
    a = rng.uniform(0.0, 1.0, size=len(K)) * (rng.random(len(K)) < 0.3)
    a[0] = 1.0
    a *= rng.uniform(0.6, 1.0) / (K @ a).max()  # all terms are positive, so f* lies in [0, 1] at these points
    return Problem(kernel, K_Z, tasks, X, K @ a, math.sqrt(a @ K @ a))


def uncovered(problem: Problem, noise: float, draws: int, rng: np.random.Generator) -> tuple[int, int]:
    """In how many draws of rewards some arm lies outside the corrected and outside the printed std."""
    n, tasks, X = problem.known, problem.tasks, problem.X
    posterior = ExactPosterior(problem.kernel, problem.K_Z, noise=noise)
    posterior.update(tasks[:n], X[:n], np.zeros(n))
    sigma = posterior.predict(tasks[n:], X[n:]).std
    K = gram(tasks, X, kernel=problem.kernel, K_Z=problem.K_Z)
    weights = np.linalg.solve(K[:n, :n] + noise * np.eye(n), K[:n, n:])
    rewards = (rng.random((draws, n)) < problem.truth[:n]).astype(np.float64)
    error = np.abs(rewards @ weights - problem.truth[n:])
    failures = []
    for printed in (False, True):
        radius = theorem1_width(sigma, known=n, arms=N, noise=noise, delta=DELTA, norm=problem.norm, printed=printed)
        failures.append(int((error > radius).any(axis=1).sum()))
    return failures[0], failures[1]


def share_uncovered(noise: float, *, problems: int = 60, draws: int = 400) -> tuple[float, float, float]:
    """Failure shares of both widths over random problems, and the standard error of a share p = δ/T."""
    rng = np.random.default_rng(20_000 + round(1000 * noise))
    failures = np.array([uncovered(random_problem(rng), noise, draws, rng) for _ in range(problems)])
    p, n = DELTA / T, problems * draws
    corrected, printed = failures.sum(axis=0) / n
    return float(corrected), float(printed), math.sqrt(p * (1.0 - p) / n)


@pytest.mark.parametrize("noise", NOISES)
def test_the_corrected_width_covers_all_arms_as_often_as_promised(noise: float) -> None:
    corrected, _, standard_error = share_uncovered(noise)
    assert corrected <= DELTA / T + 3.0 * standard_error


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_the_printed_width_breaks_the_promise_at_small_noise(noise: float) -> None:
    _, printed, standard_error = share_uncovered(noise)
    assert printed > DELTA / T + 5.0 * standard_error


@dataclass(frozen=True)
class Coins:
    """One context of two tasks that are the same, whose reward is a fair coin, asked again after n flips."""

    variance: float
    noise: float
    slots: int

    @property
    def known(self) -> int:
        return 2 * (self.slots - 1)

    @property
    def norm(self) -> float:
        return 0.5 / math.sqrt(self.variance)  # f* = k̃(·, x̃)/(2v)

    @property
    def sigma(self) -> float:
        return math.sqrt(self.variance * self.noise / (self.known * self.variance + self.noise))  # (11)

    def predict(self, heads: FloatArray | int) -> FloatArray:
        return np.asarray(self.variance * heads / (self.known * self.variance + self.noise))  # (9)

    def radius(self, *, printed: bool = False) -> float:
        found = theorem1_width(
            [self.sigma],
            known=self.known,
            arms=1,
            noise=self.noise,
            delta=DELTA,
            norm=self.norm,
            printed=printed,
        )
        return float(found[0])

    def coverage(self, radius: float) -> float:
        """Probability that the prediction is within the radius of ½, by summing the binomial distribution."""
        heads = range(self.known + 1)
        ways = sum(math.comb(self.known, h) for h in heads if abs(float(self.predict(h)) - 0.5) <= radius)
        return float(ways / 2**self.known)


COINS = [Coins(v, noise, slots) for v in (0.4, 2.5) for noise in NOISES for slots in (2, 3, 8, 25, 100)]


@pytest.mark.parametrize("coins", COINS, ids=str)
def test_the_corrected_width_covers_a_coin_exactly_as_promised(coins: Coins) -> None:
    assert coins.coverage(coins.radius()) >= 1.0 - DELTA / coins.slots


@pytest.mark.parametrize("coins", [c for c in COINS if c.noise <= 0.1], ids=str)
def test_the_printed_width_of_a_coin_is_too_small_at_small_noise(coins: Coins) -> None:
    assert coins.coverage(coins.radius(printed=True)) < 1.0 - DELTA / coins.slots


@pytest.mark.parametrize("slots", [8, 25, 100])
def test_half_the_corrected_width_would_not_do(slots: int) -> None:
    """So the correction is no safety factor, and the tests of coverage could fail."""
    coins = Coins(2.5, 0.01, slots)
    assert coins.coverage(coins.radius() / 2.0) < 1.0 - DELTA / slots


def test_one_coin_asked_again_is_never_covered_by_the_printed_width() -> None:
    """λ = 0.01, one reward at one context: f̂ is 0 or nearly 1, the truth ½, and the printed radius below 0.2."""
    kernel, noise, place = RBF(0.7, variance=1.0), 0.01, np.zeros((1, 2))
    rng = np.random.default_rng(5)
    flips = rng.integers(2, size=200).astype(np.float64)
    errors = np.zeros(len(flips))
    for i, flip in enumerate(flips):
        posterior = ExactPosterior(kernel, [[1.0]], noise=noise)
        posterior.update([0], place, [flip])
        prediction = posterior.predict([0], place)
        errors[i] = abs(prediction.mean[0] - 0.5)
        assert prediction.std[0] == pytest.approx(math.sqrt(noise / (1.0 + noise)))
    expected = np.where(flips == 1.0, 1.0 / (1.0 + noise) - 0.5, 0.5)
    np.testing.assert_allclose(errors, expected)
    sigma = math.sqrt(noise / (1.0 + noise))
    radii = [
        theorem1_width([sigma], known=1, arms=1, noise=noise, delta=0.05, norm=0.5, printed=printed)[0]
        for printed in (False, True)
    ]
    # α = √(log(2·2/0.05)/2); printed (α + 0.05)·σ, corrected ten times that.
    assert radii[1] == pytest.approx((math.sqrt(math.log(80.0) / 2.0) + 0.05) * sigma)
    assert radii[1] < 0.2 < errors.min()
    assert radii[0] > errors.max()


def test_simulated_coins_agree_with_the_exact_coverage() -> None:
    """The radius is a quarter of the corrected one, so that the coverage is neither 0 nor 1; 4 standard errors."""
    coins, draws = Coins(2.5, 0.3, 8), 20_000
    radius = coins.radius() / 4.0
    heads = np.random.default_rng(11).binomial(coins.known, 0.5, size=draws).astype(np.float64)
    simulated = float((np.abs(coins.predict(heads) - 0.5) <= radius).mean())
    exact = coins.coverage(radius)
    assert 0.2 < exact < 0.8
    assert abs(simulated - exact) <= 4.0 * math.sqrt(exact * (1.0 - exact) / draws)
