"""The bounds of the theory by hand arithmetic, against the slow reference, and what their doors refuse."""

import math
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import RBF, Linear
from kinband.policies.exploration import Theorem1
from kinband.policies.super_ucb import super_beta
from kinband.theory import (
    gram,
    information_gain,
    largest_prior_variance,
    log_g,
    log_g_uniform,
    numerical_rank,
    rank_bound,
    regret_bound,
    theorem1_width,
    uniform_similarity,
)

K_Z = np.array([[1.5, 0.6], [0.6, 0.8]])
TASKS, X = np.array([0, 1, 1]), np.array([[0.2, 1.0], [0.5, -0.4], [0.2, 1.0]])
RUN: dict[str, Any] = {"tasks": TASKS, "X": X, "kernel": RBF(0.7, variance=1.3), "K_Z": K_Z}
BOUND: dict[str, Any] = {"horizon": 50, "arms": 4, "noise": 0.5, "delta": 0.1, "norm": 2.0, "kernel_bound": 3.0}


def random_run(seed: int, *, M: int = 3, T: int = 14) -> tuple[IntArray, FloatArray, FloatArray, float]:
    """Tasks (T,), contexts (T, 2), a task matrix with one task apart, and a noise."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(M, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.1, 0.5, size=M))
    K_Z[0, 1:] = K_Z[1:, 0] = 0.0
    return rng.integers(0, M, size=T), rng.normal(size=(T, 2)), K_Z, float(np.exp(rng.uniform(-4.0, 2.0)))


def test_log_g_of_one_point_is_log_of_one_plus_variance_over_noise() -> None:
    found = log_g([1], [[0.3, 0.3]], kernel=RBF(0.7, variance=1.3), K_Z=K_Z, noise=0.25)
    assert found == pytest.approx(math.log(1.0 + 0.8 * 1.3 / 0.25))


def test_log_g_of_two_equal_contexts_by_hand() -> None:
    # K̃ = [[6, 2], [2, 4]] and λ = 2: det(I + K̃/λ) = 4·3 − 1 = 11.
    found = log_g([0, 1], [[0.3], [0.3]], kernel=RBF(0.7, variance=2.0), K_Z=[[3.0, 1.0], [1.0, 2.0]], noise=2.0)
    assert found == pytest.approx(math.log(11.0))


def test_log_g_of_no_decision_is_zero() -> None:
    assert log_g(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), kernel=RBF(0.7), K_Z=K_Z, noise=0.2) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_gram_log_g_and_information_gain_agree_with_the_reference(seed: int) -> None:
    tasks, X, K_Z, noise = random_run(seed)
    slow = naive.sum_of(naive.rbf(0.6, 1.7), naive.linear(0.4))
    fast = RBF(0.6, variance=1.7) + Linear(0.4)
    expected = naive.multitask_gram(slow, K_Z, tasks, X, tasks, X)
    np.testing.assert_allclose(gram(tasks, X, kernel=fast, K_Z=K_Z), expected, rtol=1e-12, atol=1e-12)
    for found, reference in ((log_g, naive.log_g), (information_gain, naive.information_gain)):
        value = found(tasks, X, kernel=fast, K_Z=K_Z, noise=noise)
        assert value == pytest.approx(reference(tasks, X, kernel=slow, K_Z=K_Z, lam=noise), rel=1e-9)


def test_log_g_of_a_run_much_quieter_than_its_noise_does_not_turn_negative() -> None:
    found = log_g(TASKS, X, kernel=RBF(0.7), K_Z=K_Z, noise=1e14)
    assert found >= 0.0
    assert found == pytest.approx(np.trace(gram(TASKS, X, kernel=RBF(0.7), K_Z=K_Z)) / 1e14, rel=0.1)


def test_a_determinant_beyond_the_largest_float_has_a_log_g() -> None:
    noise, T = 1e-9, 60
    apart = 50.0 * np.arange(T)[:, None]  # so far apart that K̃ is diagonal
    found = log_g(np.zeros(T, dtype=np.int64), apart, kernel=RBF(0.5, variance=3.0), K_Z=[[1.0]], noise=noise)
    assert T * math.log(3.0 / noise) > math.log(np.finfo(np.float64).max)
    assert found == pytest.approx(T * math.log1p(3.0 / noise))


def test_lost_positive_definiteness_names_the_remedy() -> None:
    with pytest.raises(NotPositiveDefiniteError, match="increase `noise`"):
        log_g([0, 0], [[0.3], [0.3]], kernel=RBF(0.7), K_Z=[[1.0]], noise=1e-20)


def test_the_largest_prior_variance_looks_at_tasks_and_contexts_together() -> None:
    # Linear: k = 2(x₁² + x₂²) = 2·(1.04, 0.41, 1.04); times K_Z 1.5, 0.8, 0.8.
    assert largest_prior_variance(TASKS, X, kernel=Linear(2.0), K_Z=K_Z) == pytest.approx(1.5 * 2.08)


def test_theorem1_width_by_hand() -> None:
    # (T − 1)MN + 1 = 21 and δ = 42 e⁻⁸: log(2·21/δ) = 8, α = 2. With c = 3, λ = 0.25: α + c√λ = 3.5.
    model: dict[str, Any] = {"known": 5, "arms": 4, "noise": 0.25, "norm": 3.0}
    delta = 42.0 * math.exp(-8.0)
    np.testing.assert_allclose(theorem1_width([0.2, 0.0], delta=delta, **model), [1.4, 0.0])
    np.testing.assert_allclose(theorem1_width([0.2, 0.0], delta=delta, printed=True, **model), [0.7, 0.0])


def test_regret_bound_by_hand() -> None:
    # T = 2, N = 3, δ = 12(ln 2 + 1)e⁻⁸: α = 2. λ = 0.25, c = 6: α + c√λ = 5. c_k̃ = 2: d = 8. log g = 1: √16 = 4.
    # ⌈ln 2⌉ = 1, so 2√2 + 10·5·4·√2 = 202√2.
    delta = 12.0 * (math.log(2.0) + 1.0) * math.exp(-8.0)
    found = regret_bound(1.0, horizon=2, arms=3, noise=0.25, delta=delta, norm=6.0, kernel_bound=2.0)
    assert found == pytest.approx(202.0 * math.sqrt(2.0))


def test_regret_bound_of_one_decision_is_two() -> None:
    assert regret_bound(7.0, **{**BOUND, "horizon": 1}) == 2.0


def test_noise_above_the_kernel_bound_leaves_d_at_one() -> None:
    loud = {**BOUND, "noise": 6.0}
    assert regret_bound(1.0, **loud) == regret_bound(1.0, **{**loud, "kernel_bound": 5.9})
    assert regret_bound(1.0, **loud) < regret_bound(1.0, **{**loud, "kernel_bound": 6.1})


@pytest.mark.parametrize("seed", range(5))
def test_regret_and_rank_bounds_agree_with_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    T, N, r_x, r_z = (int(n) for n in rng.integers(2, 60, size=4))
    value, c, c_k, lam = (float(v) for v in np.exp(rng.uniform(-2.0, 3.0, size=4)))
    delta = float(rng.uniform(0.01, 0.5))
    found = regret_bound(value, horizon=T, arms=N, noise=lam, delta=delta, norm=c, kernel_bound=c_k)
    assert found == pytest.approx(naive.regret_bound(value, T=T, N=N, c=c, c_k=c_k, lam=lam, delta=delta))
    printed = rank_bound(r_x, r_z, horizon=T, kernel_bound=c_k, noise=lam, printed=True)
    assert printed == pytest.approx(naive.rank_bound(rank_x=r_x, rank_z=r_z, T=T, c_k=c_k, lam=lam))
    assert rank_bound(r_x, r_z, horizon=T, kernel_bound=c_k, noise=lam) < printed


def test_regret_bound_grows_like_the_root_of_decisions_times_log_g() -> None:
    def growing_part(value: float, horizon: int) -> float:
        bound = regret_bound(value, **{**BOUND, "horizon": horizon})
        beta = super_beta(horizon, arms=4, noise=0.5, rule=Theorem1(delta=0.1, norm=2.0))
        return (bound - 2.0 * math.sqrt(horizon)) / beta

    # ⌈ln T⌉ is 7 at 500, 8 at 2000 and 11 at 50,000; β takes α with it.
    assert growing_part(9.0, 500) / growing_part(1.0, 500) == pytest.approx(3.0)
    assert growing_part(1.0, 2000) / growing_part(1.0, 500) == pytest.approx(math.sqrt(4.0 * 8.0 / 7.0))
    assert growing_part(2.0, 50_000) / growing_part(2.0, 500) == pytest.approx(math.sqrt(100.0 * 11.0 / 7.0))


def test_rank_bound_by_hand() -> None:
    assert rank_bound(2, 3, horizon=4, kernel_bound=1.0, noise=0.5) == pytest.approx(6.0 * math.log(9.0))
    assert rank_bound(2, 3, horizon=4, kernel_bound=1.0, noise=0.5, printed=True) == pytest.approx(6.0 * math.log(11.0))


def test_a_run_that_repeats_one_context_meets_the_rank_bound_exactly() -> None:
    found = log_g([0] * 9, np.full((9, 2), 0.4), kernel=RBF(0.3, variance=1.9), K_Z=[[0.7]], noise=0.3)
    assert found == pytest.approx(rank_bound(1, 1, horizon=9, kernel_bound=1.9 * 0.7, noise=0.3), rel=1e-10)


def test_numerical_rank_counts_directions_not_rows() -> None:
    B = np.random.default_rng(3).normal(size=(40, 4)) * np.array([30.0, 2.0, 0.1, 0.001])
    assert numerical_rank(B @ B.T) == 4
    assert numerical_rank(B @ B.T, tolerance=1e-3) == 2
    assert numerical_rank(np.zeros((3, 3))) == 0


def test_uniform_similarity_accepts_exactly_the_positive_semi_definite_ones() -> None:
    for mu in (-0.5, 0.0, 0.3, 1.0):
        np.testing.assert_array_equal(np.diag(uniform_similarity(3, mu)), np.ones(3))
        assert np.linalg.eigvalsh(uniform_similarity(3, mu)).min() > -1e-12
    for mu in (-0.51, 1.01, math.nan):
        with pytest.raises(BadInputError):
            uniform_similarity(3, mu)


def test_no_similarity_is_the_sum_of_runs_and_full_similarity_their_union() -> None:
    tasks, X, _, noise = random_run(7)
    kernel, one = RBF(0.6, variance=1.7), [[1.0]]
    zeros = np.zeros(len(tasks), dtype=np.int64)
    apart = sum(log_g(zeros[tasks == m], X[tasks == m], kernel=kernel, K_Z=one, noise=noise) for m in range(3))
    pooled = log_g(zeros, X, kernel=kernel, K_Z=one, noise=noise)
    assert log_g_uniform(tasks, X, kernel=kernel, mu=0.0, noise=noise) == pytest.approx(apart)
    assert log_g_uniform(tasks, X, kernel=kernel, mu=1.0, noise=noise) == pytest.approx(pooled)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": [0, 1]}, "one task number per context, 3 in all"),
        ({"tasks": [0.0, 1.0, 1.0]}, "one task number per context"),
        ({"tasks": [0, 1, 2]}, "between 0 and 1, got 0 to 2"),
        ({"tasks": [0, -1, 1]}, "between 0 and 1, got -1 to 1"),
        ({"X": [[0.1], [math.nan], [0.2]]}, "context holds nan"),
        ({"K_Z": [[1.0, 2.0], [2.0, 1.0]]}, "not positive semi-definite"),
        ({"noise": 0.0}, "noise must be above zero"),
    ],
)
def test_a_run_that_is_none_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        log_g(**{**RUN, "noise": 0.2, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log_g": -0.1}, "never negative"),
        ({"horizon": 0}, "horizon must be a whole number, at least 1"),
        ({"arms": 2.5}, "arms must be a whole number"),
        ({"noise": -1.0}, "noise must be above zero"),
        ({"delta": 1.0}, "probability"),
        ({"norm": 0.0}, "norm must be above zero"),
        ({"kernel_bound": 0.0}, "kernel_bound must be above zero"),
    ],
)
def test_a_regret_bound_of_impossible_numbers_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        regret_bound(**{"log_g": 1.0, **BOUND, **changes})


def test_other_doors_refuse_what_they_cannot_use() -> None:
    with pytest.raises(BadInputError, match="no decision"):
        largest_prior_variance(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), kernel=RBF(0.7), K_Z=K_Z)
    with pytest.raises(BadInputError, match="symmetric"):
        numerical_rank([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(BadInputError, match="one task number per context"):
        log_g_uniform([0.5, 1.5], [[0.1], [0.2]], kernel=RBF(0.7), mu=0.5, noise=0.1)
    with pytest.raises(BadInputError, match="rank_x"):
        rank_bound(-1, 2, horizon=4, kernel_bound=1.0, noise=0.5)
