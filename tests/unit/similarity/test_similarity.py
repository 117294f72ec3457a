"""Similarity estimators on cases that can be worked out by hand or from the printed formulas."""

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, NotFoundError, NotPositiveDefiniteError
from kinband.kernels import RBF, Constant, FixedTasks, GaussianTasks, Linear, Matern32, kernel_from_dict
from kinband.likelihood import fit, log_marginal_likelihood
from kinband.records import Samples
from kinband.similarity import (
    Coregionalisation,
    Custom,
    Embedding,
    Given,
    Independent,
    Log,
    Pooled,
    PredictionSimilarity,
    ProjectionWarning,
    Similarity,
    TaskMatrix,
    embedding_distances,
    r_squared_matrix,
    similarity_from,
)
from kinband.similarity.base import learn_kernel, low_rank_factor, without_level


def log_of(
    rows: list[tuple[FloatArray, FloatArray]], *, noise: FloatArray | None = None, names: str = "abcdefgh"
) -> Samples:
    """A log from the contexts (n_m, d) and rewards (n_m,) of each station."""
    tasks = np.repeat(np.arange(len(rows)), [len(y) for _, y in rows])
    X = np.concatenate([x for x, _ in rows])
    features = tuple(f"f{j}" for j in range(X.shape[1]))
    return Samples(tuple(names[: len(rows)]), tasks, X, np.concatenate([y for _, y in rows]), noise, features)


def waves(stations: int, *, rows: int, seed: int, alike: bool = False) -> Samples:
    """Stations whose rewards are waves of the context, each with its own phase unless all are alike."""
    rng = np.random.default_rng(seed)
    phases = np.zeros(stations) if alike else rng.uniform(0, 3, size=stations)
    pairs = []
    for phase in phases:
        x = rng.uniform(size=(rows, 2))
        pairs.append((x, 0.9 + 0.2 * np.sin(4 * x[:, 0] + phase) + 0.05 * rng.standard_normal(rows)))
    return log_of(pairs)


def printed_distance(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray], *, k: RBF, l: RBF, lam: float
) -> float:
    """(20), term by term as printed, with explicit inverses."""
    (X1, Y1), (X2, Y2) = first, second
    A1, A2 = (np.linalg.inv(k(X, X) + lam * np.eye(len(X))) for X in (X1, X2))
    own = np.trace(A1 @ k(X1, X1) @ A1 @ l(Y1, Y1)) + np.trace(A2 @ k(X2, X2) @ A2 @ l(Y2, Y2))
    return float(own - 2 * np.trace(A1 @ k(X1, X2) @ A2 @ l(Y2, Y1)))


# Embedding


def test_distance_of_stations_with_one_row_each() -> None:
    """With one row, O = l(y, ·) k(x, ·) / (v + λ), so the squared distance is 2 (v w − k l) / (v + λ)²."""
    v, w, lam = 1.7, 0.6, 0.35
    k, l = RBF(0.8, variance=v), RBF(0.3, variance=w)
    rows = [(np.array([[0.2, 0.1]]), np.array([[0.5]])), (np.array([[0.9, 0.4]]), np.array([[0.7]]))]
    k12 = v * np.exp(-(0.7**2 + 0.3**2) / (2 * 0.8**2))
    l12 = w * np.exp(-(0.2**2) / (2 * 0.3**2))
    D2 = embedding_distances(rows, k, regularisation=lam, outcome_kernel=l)
    assert_allclose(D2[0, 1], 2 * (v * w - k12 * l12) / (v + lam) ** 2, rtol=1e-12)


def test_distances_agree_with_the_printed_closed_form() -> None:
    rng = np.random.default_rng(2)
    k, l, lam = RBF([0.6, 1.9], variance=2.3), RBF(0.35), 0.13
    rows = [(rng.normal(size=(n, 2)), rng.normal(size=(n, 1))) for n in (4, 1, 7)]
    D2 = embedding_distances(rows, k, regularisation=lam, outcome_kernel=l)
    for m in range(3):
        for other in range(m):
            expected = printed_distance(rows[m], rows[other], k=k, l=l, lam=lam)
            assert_allclose([D2[m, other], D2[other, m]], expected, rtol=1e-9)
    assert (np.diag(D2) == 0.0).all()


def test_distances_with_linear_kernels_are_those_of_the_matrices_themselves() -> None:
    """Linear kernels have explicit features: O_m is the matrix Yᵀ(K + λI)⁻¹X, up to the two variances."""
    rng = np.random.default_rng(4)
    v, w, lam = 1.4, 0.7, 0.21
    rows = [(rng.normal(size=(n, 3)), rng.normal(size=(n, 2))) for n in (5, 9, 2, 6)]
    O = [np.sqrt(v * w) * Y.T @ np.linalg.solve(v * X @ X.T + lam * np.eye(len(X)), X) for X, Y in rows]  # (2, 3) each
    D2 = embedding_distances(rows, Linear(v), regularisation=lam, outcome_kernel=Linear(w))
    expected = [[np.sum((a - b) ** 2) for b in O] for a in O]
    assert_allclose(D2, expected, rtol=1e-9, atol=1e-12)


def test_outcome_kernels_of_high_rank_take_the_full_product() -> None:
    rng = np.random.default_rng(6)
    k, l, lam = RBF(0.7), Matern32(0.2, variance=1.3), 0.08
    rows = [(rng.normal(size=(n, 2)), rng.normal(size=(n, 1))) for n in (25, 31, 18)]
    assert low_rank_factor(l, np.concatenate([y for _, y in rows]), most=24) is None
    D2 = embedding_distances(rows, k, regularisation=lam, outcome_kernel=l)
    (X1, Y1), (X2, Y2) = rows[0], rows[2]
    A1, A2 = (np.linalg.inv(k(X, X) + lam * np.eye(len(X))) for X in (X1, X2))
    cross = np.trace(A1 @ k(X1, X2) @ A2 @ l(Y2, Y1))
    own = np.trace(A1 @ k(X1, X1) @ A1 @ l(Y1, Y1)) + np.trace(A2 @ k(X2, X2) @ A2 @ l(Y2, Y2))
    assert_allclose(D2[0, 2], own - 2 * cross, rtol=1e-9)


def test_low_rank_factor_of_a_smooth_kernel_is_thin_and_exact() -> None:
    Y = np.random.default_rng(8).normal(size=(400, 1))
    l = RBF(1.1, variance=0.4)
    G = low_rank_factor(l, Y, most=100)
    assert G is not None
    assert G.shape[1] < 40
    assert_allclose(G @ G.T, l(Y, Y), atol=1e-12)


def test_embedding_with_given_sigma_is_the_gaussian_of_the_distance() -> None:
    log = waves(3, rows=8, seed=1)
    kernel, lam, scale, sigma = RBF([0.4, 1.3], variance=0.05), 0.004, 0.17, 2.9
    alike = Embedding(kernel, regularisation=lam, outcome_length_scale=scale, sigma=sigma).fit(log)
    rows = [(log.of(m).X, log.of(m).y[:, None]) for m in range(3)]
    d2 = printed_distance(rows[0], rows[2], k=kernel, l=RBF(scale), lam=lam)
    assert_allclose(alike.between("a", "c"), np.exp(-d2 / (2 * sigma**2)), rtol=1e-8)
    assert alike.details["sigma_rule"] == "given"


def test_median_rule_gives_the_median_pair_the_same_similarity_always() -> None:
    for seed in (1, 2):
        alike = Embedding(RBF(0.5, variance=0.04), regularisation=0.01).fit(waves(3, rows=12, seed=seed))
        upper = alike.matrix[np.triu_indices(3, 1)]
        assert_allclose(np.median(upper), np.exp(-0.5), rtol=1e-9)


def test_median_norm_rule_uses_the_norms_of_the_operators() -> None:
    log = waves(3, rows=9, seed=5)
    kernel, lam, scale = RBF(0.5, variance=0.04), 0.01, 0.2
    alike = Embedding(kernel, regularisation=lam, outcome_length_scale=scale, sigma="median_norm").fit(log)
    norms = []
    for m in range(3):
        K, y = kernel(log.of(m).X, log.of(m).X), log.of(m).y[:, None]
        A = np.linalg.inv(K + lam * np.eye(len(K)))
        norms.append(np.sqrt(np.trace(A @ K @ A @ RBF(scale)(y, y))))
    assert_allclose(alike.details["sigma"], np.median(norms), rtol=1e-9)


def test_outcome_length_scale_is_the_spread_of_the_rewards_unless_given() -> None:
    log = waves(3, rows=9, seed=5)
    alike = Embedding(RBF(0.5), regularisation=0.02).fit(log)
    assert_allclose(alike.details["outcome_length_scale"], np.sqrt(np.mean((log.y - log.y.mean()) ** 2)))


def test_likelihood_rule_finds_the_most_likely_sigma() -> None:
    """Against a grid of σ, with noise and mean refitted for each by the same likelihood."""
    log = waves(4, rows=15, seed=7, alike=True)
    kernel = RBF(0.5, variance=0.04)
    options = {"regularisation": 0.003, "outcome_length_scale": 0.2}
    alike = Embedding(kernel, sigma="likelihood", **options).fit(log)  # type: ignore[arg-type]
    rows = [(log.of(m).X, log.of(m).y[:, None]) for m in range(4)]
    D2 = embedding_distances(rows, kernel, regularisation=0.003, outcome_kernel=RBF(0.2))

    def best(sigma: float) -> float:
        tasks = FixedTasks(GaussianTasks(D2, sigma).K_Z)
        rng = np.random.default_rng(0)
        return fit(log, kernel, fit_kernel=False, tasks=tasks, noise=0.003, starts=1, rng=rng).log_likelihood

    found = best(alike.details["sigma"])
    grid = np.sqrt(np.median(D2[D2 > 0])) * np.geomspace(0.1, 10, 21)
    assert found >= max(best(sigma) for sigma in grid) - 1e-3
    by_median = Embedding(kernel, **options).fit(log)  # type: ignore[arg-type]
    assert alike.matrix.mean() > by_median.matrix.mean()  # these stations are all the same


@pytest.mark.parametrize("sigma", ["median", "median_norm", "likelihood", 0.3])
def test_identical_stations_are_perfectly_alike_whatever_the_rule(sigma: float) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=9)
    shuffled = [rng.permutation(9) for _ in range(4)]
    alike = Embedding(RBF(0.6), regularisation=0.01, sigma=sigma).fit(log_of([(x[p], y[p]) for p in shuffled]))
    assert_allclose(alike.matrix, 1.0, atol=1e-9)


def test_one_odd_station_among_many_equal_ones_is_told_apart() -> None:
    """Most pairs are at distance zero, and so is their median."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=9)
    alike = Embedding(RBF(0.6), regularisation=0.1).fit(log_of([(x, y)] * 6 + [(x, -y)]))
    assert_allclose(alike.matrix[:6, :6], 1.0, atol=1e-9)
    assert_allclose(alike.matrix[6, :6], np.exp(-0.5), rtol=1e-6)


def test_regularisation_defaults_to_learned_noise_and_what_the_log_knows() -> None:
    rng = np.random.default_rng(3)
    noise = np.array([0.1, 0.3, 0.2, 0.4])
    rows = [(rng.normal(size=(2, 1)), rng.normal(size=2)) for _ in range(2)]
    alike = Embedding(RBF(0.6)).fit(log_of(rows, noise=noise))
    assert_allclose(alike.details["regularisation"], 0.25 + alike.details["noise"])


def test_regularisation_too_small_for_repeated_rows_names_the_remedy() -> None:
    x, y = np.full((30, 1), 0.4), np.linspace(0, 1, 30)
    with pytest.raises(NotPositiveDefiniteError, match="raise `regularisation`"):
        Embedding(RBF(0.6, variance=3.0), regularisation=1e-18).fit(log_of([(x, y), (x, y)]))


def test_embedding_tells_stations_apart_that_differ() -> None:
    rng = np.random.default_rng(12)
    pairs = []
    for sign in (1, 1, -1, -1):
        x = rng.uniform(size=(30, 1))
        pairs.append((x, sign * np.sin(5 * x[:, 0]) + 0.05 * rng.standard_normal(30)))
    alike = Embedding(seed=4).fit(log_of(pairs))
    within = [alike.between("a", "b"), alike.between("c", "d")]
    across = alike.matrix[:2, 2:]
    assert min(within) > across.max()


@pytest.mark.parametrize("sigma", ["median", "likelihood"])
def test_embedding_measures_without_the_level_of_the_kernel_it_learns(sigma: Any) -> None:
    log = waves(3, rows=20, seed=8)
    learned = learn_kernel(log, None, noise=None, rng=np.random.default_rng(4))
    shape = without_level(learned.kernel)
    assert shape != learned.kernel
    alike = Embedding(seed=4, sigma=sigma).fit(log)
    assert kernel_from_dict(alike.details["kernel"]) == shape
    given = Embedding(shape, regularisation=learned.noise, seed=4, sigma=sigma).fit(log)
    assert_allclose(alike.matrix, given.matrix, atol=1e-3 if sigma == "likelihood" else 1e-12)


def test_a_kernel_that_is_given_measures_with_its_level() -> None:
    kernel = RBF(0.5) + Constant(2.0)
    alike = Embedding(kernel, regularisation=0.01).fit(waves(3, rows=12, seed=8))
    assert kernel_from_dict(alike.details["kernel"]).names == kernel.bind(("f0", "f1")).names


# Prediction


def test_r_squared_of_stations_whose_rows_do_not_touch() -> None:
    """At length-scale 0.01 rows see only their twins: predictions are y shrunk by c = v / (v + λ)."""
    v, lam = 2.0, 0.5
    c = v / (v + lam)
    x = np.array([[0.0], [1.0]])
    log = log_of([(x, np.array([0.0, 1.0])), (x, np.array([0.0, 0.5]))])
    first = 1 - (c * 1.0 - 0.5) ** 2 / 0.125  # a predicts b, whose squares about the mean sum to 1/8
    second = 1 - (c * 0.5 - 1.0) ** 2 / 0.5  # b predicts a
    R2 = r_squared_matrix(log, RBF(0.01, variance=v), noise=lam)
    assert_allclose(R2, [[1.0, (first + second) / 2], [(first + second) / 2, 1.0]], rtol=1e-12)


def test_r_squared_shrinks_to_the_mean_that_is_given() -> None:
    x = np.array([[0.0], [1.0]])
    far = np.array([[5.0], [6.0]])
    log = log_of([(x, np.array([0.8, 0.9])), (far, np.array([0.6, 1.0]))])
    mean = 0.7  # all that either can say of the other
    first = 1 - ((0.6 - mean) ** 2 + (1.0 - mean) ** 2) / 0.08
    second = 1 - ((0.8 - mean) ** 2 + (0.9 - mean) ** 2) / 0.005
    R2 = r_squared_matrix(log, RBF(0.1, variance=0.3), noise=0.01, mean=mean)
    assert_allclose(R2[0, 1], (first + second) / 2, rtol=1e-9)


def test_r_squared_agrees_with_scikit_learn() -> None:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import r2_score

    log = waves(4, rows=11, seed=9)
    kernel, lam, mean = RBF([0.5, 1.6], variance=0.7), 0.12, 0.85
    R2 = r_squared_matrix(log, kernel, noise=lam, mean=mean)
    models = []
    for m in range(4):
        station = log.of(m)
        models.append(KernelRidge(alpha=lam, kernel="precomputed").fit(kernel(station.X, station.X), station.y - mean))
    for m in range(4):
        for other in range(m):
            a, b = log.of(m), log.of(other)
            there = r2_score(b.y, models[m].predict(kernel(b.X, a.X)) + mean)
            back = r2_score(a.y, models[other].predict(kernel(a.X, b.X)) + mean)
            assert_allclose(R2[m, other], (there + back) / 2, rtol=1e-9)


def test_r_squared_uses_the_noise_that_the_log_knows() -> None:
    log = waves(2, rows=6, seed=9)
    lam = np.random.default_rng(1).uniform(0.05, 0.5, size=12)
    kernel = RBF(0.5, variance=0.7)
    known = r_squared_matrix(Samples(**{**vars(log), "noise": lam}), kernel, noise=3.0)[0, 1]
    a, b = log.of(0), log.of(1)
    expected = []
    for one, other, noise in ((a, b, lam[:6]), (b, a, lam[6:])):
        alpha = np.linalg.solve(kernel(one.X, one.X) + np.diag(3.0 + noise), one.y)
        errors = other.y - kernel(other.X, one.X) @ alpha
        expected.append(1 - np.sum(errors**2) / np.sum((other.y - other.y.mean()) ** 2))
    assert_allclose(known, np.mean(expected), rtol=1e-9)


def test_station_whose_rewards_never_vary_is_like_no_other() -> None:
    log = waves(3, rows=10, seed=2)
    y = np.where(log.tasks == 1, 0.1, log.y)
    flat = Samples(**{**vars(log), "y": y})
    R2 = r_squared_matrix(flat, RBF(0.5), noise=0.1)
    assert R2[0, 1] == R2[1, 2] == -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)
        alike = PredictionSimilarity(RBF(0.5), noise=0.1).fit(flat)
    assert_allclose([alike.between("a", "b"), alike.between("b", "c")], 0.0, atol=1e-9)
    assert alike.between("b", "b") == 1.0


def test_averages_below_the_threshold_become_zero_and_others_stay() -> None:
    """Two stations with rewards y and −s·y on twin rows, of which predictions see c·y and −c·s·y."""
    v, lam, s = 2.0, 0.5, 0.9
    c = v / (v + lam)
    x = np.array([[0.0], [1.0]])
    y = np.array([-1.0, 1.0])
    log = log_of([(x, y), (x, -s * y)])
    average = 0.5 * ((1 - (c + s) ** 2 / s**2) + (1 - (c * s + 1) ** 2))
    assert -3.0 < average < -2.0
    kernel = RBF(0.01, variance=v)
    assert_allclose(r_squared_matrix(log, kernel, noise=lam)[0, 1], average, rtol=1e-12)
    assert PredictionSimilarity(kernel, noise=lam, threshold=-2.0).fit(log).between("a", "b") == 0.0
    with pytest.warns(ProjectionWarning, match=f"up to {abs(average + 1):.3g}"):
        kept = PredictionSimilarity(kernel, noise=lam, threshold=-3.0).fit(log)
    assert_allclose(kept.between("a", "b"), -1.0, atol=1e-6)  # the nearest correlation to what is below −1
    clipped = PredictionSimilarity(kernel, noise=lam, threshold=-3.0, clip_negative=True).fit(log)
    assert clipped.between("a", "b") == 0.0


def test_a_positive_threshold_is_refused() -> None:
    with pytest.raises(BadInputError, match="below zero"):
        PredictionSimilarity(threshold=0.1)


def test_prediction_of_equal_stations_is_near_one() -> None:
    log = waves(3, rows=40, seed=21, alike=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)
        alike = PredictionSimilarity(seed=2).fit(log)
    # Noise is 0.05² of a variance of about 0.2²/2, so R² cannot exceed about 0.88; half of that is a low bar.
    assert alike.matrix.min() > 0.44


# Coregionalisation


def correlated(rho: float, *, seed: int, rows: int, scales: tuple[float, float]) -> Samples:
    """Two stations drawn from the model: correlation rho, length-scale 0.06, noise variance a hundredth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(2 * rows, 1))
    tasks = np.repeat([0, 1], rows)
    K_Z = np.outer(scales, scales) * np.array([[1.0, rho], [rho, 1.0]])
    K = RBF(0.06)(x, x) * K_Z[np.ix_(tasks, tasks)] + np.diag(0.01 * np.array(scales)[tasks] ** 2)
    y = 0.8 + np.linalg.cholesky(K) @ rng.standard_normal(2 * rows)
    return Samples(("a", "b"), tasks, x, y, None, ("load",))


@pytest.mark.parametrize("rho", [-0.7, 0.5])
def test_coregionalisation_recovers_sign_and_size_of_the_correlation(rho: float) -> None:
    """Fisher's z of the estimates over ten draws, within four of their own standard errors of the truth."""
    z = []
    for seed in range(10):
        log = correlated(rho, seed=seed, rows=40, scales=(0.5, 1.2))
        alike = Coregionalisation(RBF(0.1), rank=1, starts=2, seed=seed).fit(log)
        z.append(np.arctanh(np.clip(alike.between("a", "b"), -0.999, 0.999)))
    standard_error = np.std(z, ddof=1) / np.sqrt(len(z))
    assert standard_error < 0.2  # else the bound below would mean nothing
    assert abs(np.mean(z) - np.arctanh(rho)) < 4 * standard_error


def test_coregionalisation_is_at_least_as_likely_as_the_truth_and_reports_its_likelihood() -> None:
    scales = (5.0, 12.0)
    log = correlated(-0.7, seed=3, rows=40, scales=scales)
    alike = Coregionalisation(RBF(0.1), rank=2, starts=2, normalise=False).fit(log)
    found = log_marginal_likelihood(
        log,
        kernel_from_dict(alike.details["kernel"]),
        tasks=FixedTasks(alike.matrix),
        noise=alike.details["noise"],
        mean=alike.details["mean"],
    )
    assert_allclose(found, alike.details["log_likelihood"], rtol=1e-8)
    K_Z = np.outer(scales, scales) * np.array([[1.0, -0.7], [-0.7, 1.0]])
    noise = 0.01 * float(np.mean(np.square(scales)))
    assert found > log_marginal_likelihood(log, RBF(0.06), tasks=FixedTasks(K_Z), noise=noise, mean=0.8)


def test_normalised_coregionalisation_is_the_correlation_of_the_covariance() -> None:
    log = correlated(0.5, seed=4, rows=25, scales=(0.5, 1.2))
    covariance = Coregionalisation(RBF(0.1), starts=1, normalise=False).fit(log)
    correlation = Coregionalisation(RBF(0.1), starts=1).fit(log)
    assert_allclose(correlation.matrix, covariance.correlation(), rtol=1e-12)
    assert (np.diag(correlation.matrix) == 1.0).all()
    assert covariance.matrix[1, 1] > covariance.matrix[0, 0]  # the second station swings more
    assert (covariance.details["normalised"], correlation.details["normalised"]) == (False, True)


def test_coregionalisation_that_is_not_joint_leaves_the_kernel_alone() -> None:
    log = correlated(0.5, seed=4, rows=25, scales=(0.5, 1.2))
    apart = Coregionalisation(RBF(0.1, variance=7.0), starts=1, joint=False).fit(log)
    kernel = kernel_from_dict(apart.details["kernel"])
    x = np.array([[0.2], [0.25]])
    assert_allclose(kernel(x, x), RBF(0.1)(x, x), rtol=1e-12)
    joint = Coregionalisation(RBF(0.1, variance=7.0), starts=1).fit(log)
    assert joint.details["kernel"] != apart.details["kernel"]


def test_coregionalisation_uses_no_more_rows_than_asked_and_some_of_every_station() -> None:
    log = waves(3, rows=20, seed=1)
    assert Coregionalisation(RBF(0.5), starts=1, max_rows=12).fit(log).details["rows"] == 12
    assert Coregionalisation(RBF(0.5), starts=1, max_rows=1).fit(log).details["rows"] == 3


# All estimators

ESTIMATORS: list[Similarity] = [
    Embedding(),
    Embedding(sigma="likelihood"),
    PredictionSimilarity(clip_negative=True),
    Coregionalisation(starts=1),
    Independent(),
    Pooled(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::kinband.similarity.ProjectionWarning")
def test_same_log_and_seed_give_the_same_bits(estimator: Similarity) -> None:
    log = waves(3, rows=7, seed=6)
    first, second = estimator.fit(log), estimator.fit(log)
    assert np.array_equal(first.matrix, second.matrix)
    assert first.details == second.details
    assert first.stations == log.stations


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::kinband.similarity.ProjectionWarning")
def test_one_station_is_like_itself(estimator: Similarity) -> None:
    assert estimator.fit(waves(1, rows=6, seed=6)).matrix.tolist() == [[1.0]]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::kinband.similarity.ProjectionWarning")
def test_a_station_with_a_single_row_is_no_obstacle(estimator: Similarity) -> None:
    log = waves(3, rows=8, seed=6)
    alike = estimator.fit(log.take(np.arange(17)))
    assert (np.diag(alike.matrix) == 1.0).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::kinband.similarity.ProjectionWarning")
def test_rewards_that_are_all_equal_are_no_obstacle(estimator: Similarity) -> None:
    log = waves(3, rows=8, seed=6)
    flat = Samples(**{**vars(log), "y": np.full(len(log), 0.9)})
    assert np.isfinite(estimator.fit(flat).matrix).all()


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=repr)
def test_a_station_without_rows_is_named(estimator: Similarity) -> None:
    log = waves(3, rows=8, seed=6)
    with pytest.raises(BadInputError, match="no rows of station 'c'"):
        estimator.fit(log.take(np.arange(16)))


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=repr)
@pytest.mark.filterwarnings("ignore::kinband.similarity.ProjectionWarning")
def test_the_unit_of_the_reward_does_not_matter(estimator: Similarity) -> None:
    log = waves(3, rows=10, seed=6)
    other = Samples(**{**vars(log), "y": 3e6 * log.y - 2e6})
    # Both searches see the same numbers up to rounding, and stop within the optimiser's tolerance of each other.
    assert_allclose(estimator.fit(other).matrix, estimator.fit(log).matrix, atol=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=repr)
@pytest.mark.filterwarnings("ignore::kinband.similarity.ProjectionWarning")
def test_details_say_what_was_used(estimator: Similarity) -> None:
    log = waves(3, rows=10, seed=6)
    details = estimator.fit(log).details
    assert details["rows"] == 30
    assert details["noise"] > 0
    assert set(kernel_from_dict(details["kernel"]).bind(log.features).names) <= {
        "rbf.length_scale[f0]",
        "rbf.length_scale[f1]",
        "rbf.variance",
        "constant.variance",
    }


def test_kernels_of_scikit_learn_are_welcome() -> None:
    from sklearn.gaussian_process import kernels

    log = waves(3, rows=8, seed=6)
    ours = Embedding(RBF(0.4), regularisation=0.01).fit(log)
    theirs = Embedding(kernels.RBF(0.4), regularisation=0.01).fit(log)
    assert_allclose(theirs.matrix, ours.matrix, rtol=1e-9)


def test_categories_are_compared_as_categories() -> None:
    log = waves(2, rows=10, seed=6)
    codes = np.column_stack([log.X, np.arange(20) % 3])
    coded = Samples(**{**vars(log), "X": codes, "features": ("f0", "f1", "vendor"), "categorical": (2,)})
    learned = learn_kernel(coded, None, noise=None, rng=np.random.default_rng(0))
    assert "categorical.length_scale[vendor]" in learned.kernel.names


def test_learning_with_given_noise_keeps_it_and_with_given_kernel_keeps_that() -> None:
    log = waves(2, rows=15, seed=6)
    learned = learn_kernel(log, None, noise=0.07, rng=np.random.default_rng(0))
    assert_allclose(learned.noise, 0.07, rtol=1e-12)
    kernel = RBF(0.33, variance=0.9)
    kept = learn_kernel(log, kernel, noise=None, rng=np.random.default_rng(0))
    assert kept.kernel == kernel.bind(log.features)
    best = log_marginal_likelihood(log, kernel, tasks=FixedTasks(np.eye(2)), noise=kept.noise, mean=kept.mean)
    for factor in (0.8, 1.25):
        tasks = FixedTasks(np.eye(2))
        assert best > log_marginal_likelihood(log, kernel, tasks=tasks, noise=factor * kept.noise, mean=kept.mean)


def test_anything_with_samples_serves_as_a_log() -> None:
    class Trace:
        def samples(self) -> Samples:
            return waves(2, rows=5, seed=1)

    assert Pooled().fit(Trace()).stations == ("a", "b")  # type: ignore[arg-type]  # anything with samples() will do
    with pytest.raises(BadInputError, match="Trace or from Samples, got list"):
        Pooled().fit([1, 2, 3])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sigma": "mode"}, "'mode'"), ({"sigma": -1.0}, "sigma"), ({"regularisation": 0.0}, "regularisation")],
)
def test_bad_settings_of_the_embedding_are_refused_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        Embedding(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"rank": 0}, {"starts": 1.5}, {"max_rows": -3}])
def test_bad_settings_of_coregionalisation_are_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match=f"{next(iter(options))} must be a whole number"):
        Coregionalisation(**options)  # type: ignore[arg-type]


# Names, matrices and users' own objects


def test_similarities_are_found_by_name() -> None:
    assert isinstance(similarity_from("embedding", seed=5), Embedding)
    assert similarity_from("prediction", threshold=-0.5) == PredictionSimilarity(threshold=-0.5)
    assert isinstance(similarity_from("coregionalisation"), Coregionalisation)
    assert isinstance(similarity_from("independent"), Independent)
    assert isinstance(similarity_from("pooled"), Pooled)


def test_unknown_names_options_and_classes_are_refused() -> None:
    with pytest.raises(NotFoundError, match=r"'cke': choose joint, embedding, prediction, .*, independent, pooled"):
        similarity_from("cke")
    with pytest.raises(BadInputError, match="cannot take these options"):
        similarity_from("pooled", sigma=1.0)
    with pytest.raises(BadInputError, match="go with a similarity's name"):
        similarity_from(np.eye(2), seed=1)
    with pytest.raises(BadInputError, match=r"write Embedding\(\)"):
        similarity_from(Embedding)


def test_a_matrix_or_list_is_taken_in_the_order_of_the_log() -> None:
    log = waves(2, rows=3, seed=1)
    for value in ([[1.0, 0.3], [0.3, 1.0]], np.array([[1.0, 0.3], [0.3, 1.0]])):
        assert similarity_from(value).fit(log).between("a", "b") == 0.3
    with pytest.raises(BadInputError, match="one row for each of 2 stations"):
        similarity_from(np.eye(3)).fit(log)


def test_a_task_matrix_is_matched_by_name() -> None:
    stored = TaskMatrix(
        ("c", "b", "a"), np.array([[1.0, 0.1, 0.2], [0.1, 1.0, 0.3], [0.2, 0.3, 1.0]]), "embedding", {"sigma": 2.0}
    )
    alike = similarity_from(stored).fit(waves(2, rows=3, seed=1))
    assert alike.stations == ("a", "b")
    assert alike.between("a", "b") == 0.3
    assert (alike.method, alike.details) == ("embedding", {"sigma": 2.0})
    with pytest.raises(BadInputError, match="does not know station 'd'"):
        similarity_from(stored).fit(waves(4, rows=3, seed=1))


def test_given_names_say_which_row_is_whose() -> None:
    given = Given([[2.0, 0.5], [0.5, 1.0]], ["b", "a"])
    assert given.fit(waves(2, rows=3, seed=1)).matrix.tolist() == [[1.0, 0.5], [0.5, 2.0]]


def test_a_users_own_object_may_return_bare_numbers_but_not_nonsense() -> None:
    class Mine:
        def __init__(self, answer: FloatArray) -> None:
            self.answer = answer

        def fit(self, log: Log) -> FloatArray:
            return self.answer

    log = waves(2, rows=3, seed=1)
    alike = similarity_from(Mine(np.array([[1.0, 0.6], [0.6, 1.0]]))).fit(log)
    assert (alike.method, alike.between("a", "b")) == ("Mine", 0.6)
    with pytest.raises(BadInputError, match="positive semi-definite"):
        Custom(Mine(np.array([[1.0, 1.6], [1.6, 1.0]]))).fit(log)


def test_importing_the_room_loads_no_heavy_library() -> None:
    code = (
        "import sys, kinband.similarity; "
        "print([n for n in ('sklearn', 'matplotlib', 'pandas', 'polars', 'pyarrow', 'scipy.stats', 'scipy.cluster')"
        " if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
