"""Checks of the naive reference by arithmetic one can do by hand."""

import itertools
import math

import numpy as np
import pytest
from tests.reference import naive
from tests.reference.naive import Data

ONE_TASK = np.ones((1, 1))


def one_task_data(X: list[list[float]], y: list[float], noise: list[float]) -> Data:
    return Data(np.zeros(len(y), dtype=np.int64), np.array(X), np.array(y), np.array(noise))


def one_row(data: Data, i: int) -> Data:
    rows = slice(i, i + 1)
    return Data(data.tasks[rows], data.X[rows], data.y[rows], data.noise[rows])


def at(*points: list[float]) -> tuple[naive.IntArray, naive.FloatArray]:
    return np.zeros(len(points), dtype=np.int64), np.array(points)


def test_rbf_at_one_length_scale_is_the_variance_times_exp_of_minus_a_half() -> None:
    k = naive.rbf(3.0, 2.5)
    assert k([1.0, 5.0], [4.0, 5.0]) == pytest.approx(2.5 * math.exp(-0.5))
    assert k([1.0, 5.0], [1.0, 5.0]) == 2.5


def test_ard_rbf_divides_each_column_by_its_own_length_scale() -> None:
    # ((4 − 1)/3)² + ((7 − 5)/4)² = 1 + 1/4
    k = naive.ard_rbf([3.0, 4.0], 0.7)
    assert k([1.0, 5.0], [4.0, 7.0]) == pytest.approx(0.7 * math.exp(-0.625))


def test_matern_kernels_at_a_scaled_distance_of_two() -> None:
    x, y = [0.0], [6.0]
    r3, r5 = 2.0 * math.sqrt(3.0), 2.0 * math.sqrt(5.0)
    assert naive.matern32([3.0], 1.5)(x, y) == pytest.approx(1.5 * (1 + r3) * math.exp(-r3))
    assert naive.matern52([3.0], 1.5)(x, y) == pytest.approx(1.5 * (1 + r5 + 20.0 / 3.0) * math.exp(-r5))


def test_matern_kernels_tend_to_the_gaussian_shape_near_zero() -> None:
    # Taylor: matern32 ≈ 1 − 3r²/2, matern52 ≈ 1 − 5r²/6, rbf ≈ 1 − r²/2.
    r = 1e-3
    assert 1 - naive.matern32([1.0], 1.0)([0.0], [r]) == pytest.approx(1.5 * r**2, rel=1e-2)
    assert 1 - naive.matern52([1.0], 1.0)([0.0], [r]) == pytest.approx(5 * r**2 / 6, rel=1e-2)


def test_linear_and_categorical_kernels_by_hand() -> None:
    assert naive.linear(2.0, 0.5)([1.0, 2.0], [3.0, -1.0]) == pytest.approx(0.5 + 2.0 * 1.0)
    k = naive.categorical(2.0, 3.0)
    assert k([0.0, 1.0, 2.0], [0.0, 2.0, 1.0]) == pytest.approx(3.0 * math.exp(-0.25) ** 2)
    assert k([0.0, 1.0], [0.0, 1.0]) == 3.0


def test_kernels_of_columns_sums_and_products() -> None:
    first, second = naive.on_columns(naive.linear(2.0), [1]), naive.on_columns(naive.linear(1.0), [0])
    x, y = [1.0, 2.0], [5.0, 3.0]
    assert naive.sum_of(first, second)(x, y) == pytest.approx(12.0 + 5.0)
    assert naive.product_of(first, second)(x, y) == pytest.approx(12.0 * 5.0)


def test_product_kernel_multiplies_the_similarity_of_the_tasks() -> None:
    K_Z = np.array([[1.0, 0.3], [0.3, 2.0]])
    K = naive.multitask_gram(
        naive.linear(1.0),
        K_Z,
        np.array([0, 1]),
        np.array([[2.0], [3.0]]),
        np.array([1, 1, 0]),
        np.array([[5.0], [7.0], [1.0]]),
    )
    np.testing.assert_allclose(K, [[0.3 * 10, 0.3 * 14, 1.0 * 2], [2.0 * 15, 2.0 * 21, 0.3 * 3]])


def test_one_observation_shrinks_by_k_over_k_plus_lambda() -> None:
    # k(x, x) = 2, λ = 0.5, y = 1.3: f̂ = 0.8·1.3 and σ² = 2 − 4/2.5 = 0.4 at the point itself.
    data = one_task_data([[0.4]], [1.3], [0.5])
    k = naive.rbf(0.7, 2.0)
    tasks, X = at([0.4])
    assert naive.posterior_mean(data, k, ONE_TASK, tasks, X)[0] == pytest.approx(0.8 * 1.3)
    assert naive.posterior_variance(data, k, ONE_TASK, tasks, X)[0] == pytest.approx(0.4)
    assert naive.posterior_width(data, k, ONE_TASK, tasks, X)[0] == pytest.approx(math.sqrt(0.4))


def test_prior_mean_is_added_back_after_shrinking_the_residual() -> None:
    data = one_task_data([[0.4]], [1.3], [0.5])
    tasks, X = at([0.4])
    found = naive.posterior_mean(data, naive.rbf(0.7, 2.0), ONE_TASK, tasks, X, mean=0.9)
    assert found[0] == pytest.approx(0.9 + 0.8 * 0.4)


def test_two_observations_with_their_own_noise_by_hand() -> None:
    # Linear kernel, X = 1, 2: K + D = [[2, 2], [2, 6]], its inverse [[6, −2], [−2, 2]]/8.
    # At x = 3: k = (3, 6), y = (1, 4). Weights = (−2, 6)/8, f̂ = 3·(−2/8) + 6·(6/8) = 30/8.
    # kᵀ(K + D)⁻¹k = (54 − 72 + 72)/8 = 54/8, σ² = 9 − 54/8 = 18/8.
    data = one_task_data([[1.0], [2.0]], [1.0, 4.0], [1.0, 2.0])
    tasks, X = at([3.0])
    k = naive.linear(1.0)
    assert naive.posterior_mean(data, k, ONE_TASK, tasks, X)[0] == pytest.approx(30 / 8)
    assert naive.posterior_variance(data, k, ONE_TASK, tasks, X)[0] == pytest.approx(18 / 8)


def test_linear_kernel_is_bayesian_regression_on_the_slope() -> None:
    # Slope θ ~ N(0, 1); observations x_i θ + ε_i with variances d_i: precision 1 + Σ x²/d = 1 + 1 + 2 = 4.
    data = one_task_data([[1.0], [2.0]], [1.0, 4.0], [1.0, 2.0])
    tasks, X = at([3.0], [-1.0])
    covariance = naive.posterior_covariance(data, naive.linear(1.0), ONE_TASK, tasks, X)
    np.testing.assert_allclose(covariance, np.array([[9.0, -3.0], [-3.0, 1.0]]) / 4.0, rtol=1e-12)
    mean = naive.posterior_mean(data, naive.linear(1.0), ONE_TASK, tasks, X)
    np.testing.assert_allclose(mean, np.array([3.0, -1.0]) * (1 / 1 + 8 / 2) / 4.0, rtol=1e-12)


def test_another_tasks_observation_counts_by_the_square_of_the_similarity() -> None:
    # One reward of task 1 at x; asked for task 0 at x with similarity 0.6: σ² = 1 − 0.36/1.25.
    K_Z = np.array([[1.0, 0.6], [0.6, 1.0]])
    data = Data(np.array([1]), np.array([[0.2]]), np.array([2.0]), np.array([0.25]))
    tasks, X = at([0.2])
    k = naive.rbf(0.3, 1.0)
    assert naive.posterior_variance(data, k, K_Z, tasks, X)[0] == pytest.approx(1 - 0.36 / 1.25)
    assert naive.posterior_mean(data, k, K_Z, tasks, X)[0] == pytest.approx(0.6 * 2.0 / 1.25)


def test_without_data_the_prior_remains() -> None:
    data = one_task_data([], [], [])._replace(X=np.zeros((0, 1)))
    tasks, X = at([0.2], [0.9])
    k = naive.rbf(0.3, 1.7)
    np.testing.assert_array_equal(naive.posterior_mean(data, k, ONE_TASK, tasks, X, mean=0.4), [0.4, 0.4])
    np.testing.assert_array_equal(naive.posterior_variance(data, k, ONE_TASK, tasks, X), [1.7, 1.7])


def test_log_likelihood_of_one_reward_is_a_normal_density() -> None:
    data = one_task_data([[0.4]], [1.5], [0.5])
    found = naive.log_marginal_likelihood(data, naive.rbf(0.7, 2.0), ONE_TASK, mean=1.0)
    assert found == pytest.approx(math.log(math.exp(-0.25 / (2 * 2.5)) / math.sqrt(2 * math.pi * 2.5)))


def test_log_likelihood_of_unrelated_tasks_adds_up() -> None:
    data = Data(np.array([0, 1]), np.array([[0.4], [0.4]]), np.array([1.5, -1.0]), np.array([0.5, 0.25]))
    k = naive.rbf(0.7, 2.0)
    apart = [naive.log_marginal_likelihood(one_row(data, i), k, np.eye(2), mean=0.1) for i in range(2)]
    together = naive.log_marginal_likelihood(data, k, np.eye(2), mean=0.1)
    assert together == pytest.approx(sum(apart))


def test_alpha_and_the_two_betas_by_hand() -> None:
    alpha = naive.theorem1_alpha(T=3, M=2, N=5, delta=0.1)
    assert alpha == pytest.approx(math.sqrt(math.log(420.0) / 2.0))
    assert naive.printed_beta(alpha, c=2.0, lam=0.04) == pytest.approx(alpha + 0.4)
    assert naive.corrected_beta(alpha, c=2.0, lam=0.04) == pytest.approx(alpha / 0.2 + 2.0)
    found = naive.theorem3_alpha(T=10, N=4, delta=0.2)
    assert found == pytest.approx(math.sqrt(math.log(400.0 * (math.log(10.0) + 1.0)) / 2.0))
    np.testing.assert_allclose(naive.ucb(np.array([0.5]), np.array([0.2]), 3.0), [1.1])


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_coin_flip_breaks_the_printed_bound_and_not_the_corrected_one(reward: float) -> None:
    # λ = 0.01, one fair coin flip, asked again at the same point with k(x, x) = 1; f* = 1/2, so c = 1/2.
    # f̂ = reward/1.01 misses by at least 0.49 whatever the coin says, and σ = √(0.01/1.01) is below 0.1.
    lam, c = 0.01, 0.5
    data = one_task_data([[0.0]], [reward], [lam])
    tasks, X = at([0.0])
    k = naive.rbf(1.3, 1.0)
    error = abs(naive.posterior_mean(data, k, ONE_TASK, tasks, X)[0] - 0.5)
    width = naive.posterior_width(data, k, ONE_TASK, tasks, X)[0]
    assert width == pytest.approx(math.sqrt(0.01 / 1.01))
    alpha = naive.theorem1_alpha(T=2, M=1, N=1, delta=0.1)
    assert error > naive.printed_beta(alpha, c=c, lam=lam) * width
    assert error <= naive.corrected_beta(alpha, c=c, lam=lam) * width


def test_weights_and_bias_of_the_prediction_obey_the_corrected_theorem() -> None:
    # ‖(K̃ + λI)⁻¹k̃‖² ≤ σ²/λ, and |E f̂ − f*| ≤ ‖f*‖ σ: the two halves of the corrected bound.
    rng = np.random.default_rng(5)
    k, lam = naive.rbf(0.4, 1.7), 0.03
    X, point = rng.uniform(size=(12, 2)), rng.uniform(size=(1, 2))
    centres, weights = rng.uniform(size=(5, 2)), rng.normal(size=5)
    norm = math.sqrt(weights @ naive.gram(k, centres, centres) @ weights)
    data = Data(np.zeros(12, dtype=np.int64), X, naive.gram(k, X, centres) @ weights, np.full(12, lam))
    tasks = np.zeros(1, dtype=np.int64)
    sigma = naive.posterior_width(data, k, ONE_TASK, tasks, point)[0]
    solved = np.linalg.solve(naive.gram(k, X, X) + lam * np.eye(12), naive.gram(k, X, point)[:, 0])
    assert solved @ solved <= sigma**2 / lam
    bias = naive.posterior_mean(data, k, ONE_TASK, tasks, point)[0] - naive.gram(k, point, centres)[0] @ weights
    assert abs(bias) <= norm * sigma


def test_algorithm1_does_not_learn_within_a_round() -> None:
    # Two identical tasks, pooled. Linear kernel, no history, β = 1: the arm of largest |x| wins, for both.
    # With λ = 1 and a reward of 0 at x = 2, σ = |x|/√(1 + 4·n): within a round both tasks still see n = 0.
    contexts = np.array([[[[1.0], [2.0]], [[1.0], [2.0]]], [[[1.0], [2.0]], [[3.0], [2.0]]]])
    rewards = np.zeros((2, 2, 2))
    run = naive.algorithm1(contexts, rewards, naive.linear(1.0), np.ones((2, 2)), noise=1.0, beta=1.0)
    np.testing.assert_array_equal(run.arms, [[1, 1], [1, 0]])
    # Smallest lead: round 2, where n = 2 and the gap of both tasks is 1/√(1 + 8) = 1/3.
    assert run.margin == pytest.approx(1.0 / 3.0)


def test_algorithm2_learns_from_the_task_before() -> None:
    # Task 0 is paid 1 at x = 1 (arm 1 has no features, hence UCB 0). Pooled, λ = 1: slope 1/2, variance 1/2.
    # Then UCB(x) = x/2 + |x|·√½·β; with β = 0.1, x = 0.9 beats x = −1. Unpooled: only width, x = −1 wins.
    stations = np.array([0, 1])
    contexts = np.array([[[1.0], [0.0]], [[0.9], [-1.0]]])
    rewards = np.array([[1.0, 0.0], [0.0, 0.0]])
    k = naive.linear(1.0)
    pooled = naive.algorithm2(stations, contexts, rewards, k, np.ones((2, 2)), noise=1.0, beta=0.1)
    apart = naive.algorithm2(stations, contexts, rewards, k, np.eye(2), noise=1.0, beta=0.1)
    np.testing.assert_array_equal(pooled.arms, [0, 0])
    np.testing.assert_array_equal(apart.arms, [0, 1])


def test_history_is_learned_from_before_the_first_slot() -> None:
    history = one_task_data([[1.0]], [-5.0], [1.0])
    contexts, rewards = np.array([[[1.0], [-0.5]]]), np.zeros((1, 2))
    k = naive.linear(1.0)
    stations = np.zeros(1, dtype=np.int64)
    cold = naive.algorithm2(stations, contexts, rewards, k, ONE_TASK, noise=1.0, beta=0.1)
    warm = naive.algorithm2(stations, contexts, rewards, k, ONE_TASK, noise=1.0, beta=0.1, history=history)
    assert (cold.arms[0], warm.arms[0]) == (0, 1)


def test_base_algorithm_uses_the_rewards_of_its_set_alone() -> None:
    data = one_task_data([[1.0], [2.0], [5.0]], [1.0, 4.0, -9.0], [1.0, 2.0, 0.1])
    tasks, X = at([3.0])
    widths, bounds = naive.algorithm3(data, [0, 1], naive.linear(1.0), ONE_TASK, tasks=tasks, X=X, beta=2.0)
    assert widths[0] == pytest.approx(math.sqrt(18 / 8))  # as in the two-observation example above
    assert bounds[0] == pytest.approx(30 / 8 + 2.0 * math.sqrt(18 / 8))


def test_super_algorithm_plays_the_widest_arm_until_it_is_narrow_then_eliminates() -> None:
    # T = 3 so S = 2, 1/√T = 0.577. Two orthogonal arms, k = xᵀx, λ = 1, β = 0.8: ω = 0.8‖x‖/√(1 + n).
    # t = 0: ω = (0.8, 0.72), both over ½: arm 0 is wider, Ψ⁽¹⁾ = {0}. Paid 1.
    # t = 1: ω = (0.8/√2 = 0.566, 0.72): arm 1 alone is wide enough to be played, Ψ⁽¹⁾ = {0, 1}.
    # t = 2: ω = (0.566, 0.72/√(1 + 0.81) = 0.535), all ≤ 0.577: the best UCB is played and no set grows.
    # UCB: arm 0: ½ + 0.566, arm 1: 0.81/1.81·r₁ + 0.535 with r₁ = 0.
    contexts = np.repeat(np.array([[[1.0, 0.0], [0.0, 0.9]]]), 3, axis=0)
    rewards = np.repeat(np.array([[1.0, 0.0]]), 3, axis=0)
    run = naive.algorithm4(
        np.zeros(3, dtype=np.int64), contexts, rewards, naive.linear(1.0), ONE_TASK, noise=1.0, beta=0.8
    )
    np.testing.assert_array_equal(run.arms, [0, 1, 0])
    assert run.sets == [[0, 1], []]


def test_super_algorithm_moves_to_the_next_stage_with_the_arms_that_survive() -> None:
    # T = 16: 1/√T = ¼, S = 3. β = 0.45: first ω = (0.45, 0.405) ≤ ½, no arm is eliminated (UCBs within 1),
    # and at stage 2 both are over ¼: arm 0 is played into Ψ⁽²⁾ although Ψ⁽¹⁾ is empty.
    contexts = np.repeat(np.array([[[1.0, 0.0], [0.0, 0.9]]]), 16, axis=0)
    rewards = np.repeat(np.array([[1.0, 0.0]]), 16, axis=0)
    run = naive.algorithm4(
        np.zeros(16, dtype=np.int64), contexts, rewards, naive.linear(1.0), ONE_TASK, noise=1.0, beta=0.45
    )
    assert run.arms[0] == 0
    assert run.sets[0] == []
    assert run.sets[1][0] == 0
    assert len(run.sets) == 3


def test_kernel_ucb_scores_by_hand() -> None:
    # γ = 0.25, η = 0.1, so the width counts 0.2. After a reward of 1 at x = 1: slope 1/1.25 = 0.8, variance
    # 1 − 1/1.25 = 0.2. At x = 0.5: 0.4 + 0.2·0.5·√0.2; at x = −1: −0.8 + 0.2·√0.2.
    contexts = np.array([[[1.0], [0.3]], [[-1.0], [0.5]]])
    rewards = np.array([[1.0, 0.0], [0.0, 0.0]])
    run = naive.kernel_ucb(contexts, rewards, naive.linear(1.0), gamma=0.25, eta=0.1)
    np.testing.assert_array_equal(run.arms, [0, 1])
    second = (0.4 + 0.1 * math.sqrt(0.2)) - (-0.8 + 0.2 * math.sqrt(0.2))
    assert run.margin == pytest.approx(min(0.2 * 0.7, second))


def test_algorithm2_with_one_task_is_kernel_ucb_with_beta_eta_over_root_gamma() -> None:
    rng = np.random.default_rng(11)
    contexts, rewards = rng.normal(size=(15, 4, 2)), rng.normal(size=(15, 4))
    k = naive.sum_of(naive.rbf(0.8, 1.4), naive.linear(0.3))
    gamma, eta = 0.37, 0.9
    single = naive.kernel_ucb(contexts, rewards, k, gamma=gamma, eta=eta)
    tasks = np.zeros(15, dtype=np.int64)
    multi = naive.algorithm2(tasks, contexts, rewards, k, ONE_TASK, noise=gamma, beta=eta / math.sqrt(gamma))
    assert single.margin > 1e-7
    np.testing.assert_array_equal(single.arms, multi.arms)


def test_embedding_distance_of_single_samples_by_hand() -> None:
    # Linear kernels, one sample each: O = y x/(x² + λ). Task 1: x = 1, y = 2, task 2: x = 2, y = 3, λ = 0.5.
    first, second = 2.0 / 1.5, 6.0 / 4.5
    assert first == pytest.approx(second)  # the two operators happen to agree
    k = naive.linear(1.0)
    X_1, Y_1, X_2, Y_2 = (np.array([[v]]) for v in (1.0, 2.0, 2.0, 3.0))
    assert naive.embedding_distance(X_1, Y_1, X_2, Y_2, k=k, l=k, lam=0.5) == pytest.approx(0.0, abs=1e-12)
    found = naive.embedding_distance(X_1, Y_1, X_2, Y_2, k=k, l=k, lam=2.0)
    assert found == pytest.approx((2.0 / 3.0 - 6.0 / 6.0) ** 2)


def test_closed_form_equals_the_distance_of_explicit_operators() -> None:
    rng = np.random.default_rng(3)
    lam, variance, scale = 0.17, 1.9, 0.6
    X_1, X_2, Y_1, Y_2 = (rng.normal(size=shape) for shape in ((7, 3), (4, 3), (7, 2), (4, 2)))
    operators = [
        naive.conditional_operator(math.sqrt(variance) * X.T, math.sqrt(scale) * Y.T, lam=lam)
        for X, Y in ((X_1, Y_1), (X_2, Y_2))
    ]
    closed = naive.embedding_distance(X_1, Y_1, X_2, Y_2, k=naive.linear(variance), l=naive.linear(scale), lam=lam)
    assert closed == pytest.approx(naive.operator_distance(*operators), rel=1e-10)


def test_gaussian_similarity_at_a_distance_of_one_sigma() -> None:
    found = naive.gaussian_similarity(np.array([[0.0, 9.0], [9.0, 0.0]]), 3.0)
    np.testing.assert_allclose(found, [[1.0, math.exp(-0.5)], [math.exp(-0.5), 1.0]])


def test_r_squared_by_hand() -> None:
    # Trained on x = 1, y = 2 with k = x x′, λ = 1: slope 1. Tested at x = 1, 3 with y = 2, 4: errors 1, 1;
    # variance 1 over two samples: R² = 1 − 2/2 = 0. A perfect test gives 1.
    k = naive.linear(1.0)
    X, y = np.array([[1.0]]), np.array([2.0])
    points = np.array([[1.0], [3.0]])
    assert naive.r_squared(X, y, points, np.array([2.0, 4.0]), kernel=k, lam=1.0) == pytest.approx(0.0)
    assert naive.r_squared(X, y, points, np.array([1.0, 3.0]), kernel=k, lam=1.0) == pytest.approx(1.0)


def test_average_r_squared_is_symmetric_and_zero_below_its_threshold() -> None:
    # Slopes +1 and −1 learned from x = ±1 with λ → 0 predict each other with errors 2, 2: R² = 1 − 8/2 = −3.
    X = np.array([[1.0], [-1.0]])
    pair = [(X, X[:, 0]), (X, -X[:, 0]), (X, 0.5 * X[:, 0])]
    k = naive.linear(1.0)
    found = naive.average_r_squared(pair, kernel=k, lam=1e-12, threshold=-2.0)
    # 1 on 3: errors ½, ½, variance ¼: 1 − ½/½ = 0; 3 on 1: 1 − ½/2 = ¾; average 3/8.
    # 2 on 3: errors 3/2 twice, 1 − 4.5/0.5 = −8; 3 on 2: 1 − 4.5/2 = −1.25; average below −2.
    np.testing.assert_allclose(found, [[1.0, 0.0, 0.375], [0.0, 1.0, 0.0], [0.375, 0.0, 1.0]], atol=1e-9)
    kept = naive.average_r_squared(pair, kernel=k, lam=1e-12, threshold=-5.0)
    np.testing.assert_allclose(kept, [[1.0, -3.0, 0.375], [-3.0, 1.0, -4.625], [0.375, -4.625, 1.0]], atol=1e-9)


def test_log_g_and_information_gain_of_two_points_by_hand() -> None:
    # K̃ = [[2, 1], [1, 2]], λ = 1: det(K̃ + I) = 9 − 1 = 8.
    tasks, X = np.array([0, 1]), np.array([[1.0], [1.0]])
    K_Z = np.array([[2.0, 1.0], [1.0, 2.0]])
    k = naive.linear(1.0)
    assert naive.log_g(tasks, X, kernel=k, K_Z=K_Z, lam=1.0) == pytest.approx(math.log(8.0))
    # λ = 3: (5² − 1)/9.
    assert naive.log_g(tasks, X, kernel=k, K_Z=K_Z, lam=3.0) == pytest.approx(math.log(24.0 / 9.0))
    gain = naive.information_gain(tasks, X, kernel=k, K_Z=K_Z, lam=3.0)
    assert gain == pytest.approx(0.5 * math.log(24.0 / 9.0))


def test_regret_bound_by_hand() -> None:
    # T = 2: ⌈ln 2⌉ = 1, d = max(1, 3/0.5) = 6; 2√2 + 10(α + 2√½)·√(12·0.75)·√2 with √9 = 3.
    alpha = math.sqrt(math.log(2 * 2 * 4 * (math.log(2.0) + 1.0) / 0.1) / 2.0)
    expected = 2 * math.sqrt(2.0) + 10 * (alpha + 2 * math.sqrt(0.5)) * 3.0 * math.sqrt(2.0)
    found = naive.regret_bound(0.75, T=2, N=4, c=2.0, c_k=3.0, lam=0.5, delta=0.1)
    assert found == pytest.approx(expected)


def test_rank_bound_holds_on_a_low_rank_run() -> None:
    rng = np.random.default_rng(8)
    lam = 0.2
    X, tasks = rng.normal(size=(20, 2)), rng.integers(0, 4, size=20)
    B = rng.normal(size=(4, 1))
    c_k = max(float(B[t, 0] ** 2 * 1.3 * x @ x) for t, x in zip(tasks, X, strict=True))
    value = naive.log_g(tasks, X, kernel=naive.linear(1.3), K_Z=B @ B.T, lam=lam)
    assert value <= naive.rank_bound(rank_x=2, rank_z=1, T=20, c_k=c_k, lam=lam)
    assert naive.rank_bound(rank_x=2, rank_z=3, T=4, c_k=1.0, lam=0.5) == pytest.approx(6 * math.log(11.0))


def test_log_g_falls_as_the_tasks_become_more_alike() -> None:
    # Theorem 5, with one similarity μ between all tasks.
    rng = np.random.default_rng(9)
    X, tasks = rng.uniform(size=(15, 2)), np.arange(15) % 3
    values = [
        naive.log_g(tasks, X, kernel=naive.rbf(0.6, 1.2), K_Z=np.full((3, 3), mu) + (1 - mu) * np.eye(3), lam=0.3)
        for mu in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert all(later < earlier for earlier, later in itertools.pairwise(values))
