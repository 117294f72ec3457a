"""Distances of embeddings and averages of R² are those of the naive reference and of explicit operators.

Stations have unequal numbers of rows, some very few; hyper-parameters are drawn. Squared distances are compared
relative to the squared norms of the two operators they are the difference of.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.reference import naive

from kinband.arrays import FloatArray
from kinband.kernels import RBF, Kernel, Linear, Matern52
from kinband.records import Samples
from kinband.similarity import Embedding, PredictionSimilarity, embedding_distances, r_squared_matrix
from kinband.similarity.base import embedding_products

TOLERANCE = 1e-8
SEEDS = [1, 2, 3, 4]
SIZES = (1, 12, 25, 6)
Rows = list[tuple[FloatArray, FloatArray]]


@pytest.fixture(params=["large pieces", "small pieces"], autouse=True)
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels between stations come in pieces; cut them small too, as a long log would."""
    if request.param == "small pieces":
        monkeypatch.setattr("kinband.similarity.base.BLOCK_ENTRIES", 60)


def positive(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def random_rows(rng: np.random.Generator, *, d: int = 2, e: int = 1, sizes: Sequence[int] = SIZES) -> Rows:
    return [(rng.normal(size=(n, d)), rng.normal(size=(n, e))) for n in sizes]


def naive_distances(rows: Rows, k: naive.Kernel, l: naive.Kernel, lam: float) -> FloatArray:
    M = len(rows)
    D2 = np.zeros((M, M))
    for i in range(M):
        for j in range(M):
            D2[i, j] = naive.embedding_distance(*rows[i], *rows[j], k=k, l=l, lam=lam)
    return D2


def operators(rows: Rows, *, contexts: FloatArray, outcomes: FloatArray, lam: float) -> list[FloatArray]:
    """Explicit operators for features that are linear maps of contexts and outcomes."""
    return [naive.conditional_operator(contexts @ X.T, outcomes @ Y.T, lam=lam) for X, Y in rows]


def operator_distances(O: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Squared distances of explicit operators, and the sums of squared norms they are measured against."""
    D2 = np.array([[naive.operator_distance(a, b) for b in O] for a in O])
    norms = np.array([naive.operator_distance(a, np.zeros_like(a)) for a in O])
    return D2, np.asarray(norms[:, None] + norms[None, :])


def assert_distances(found: FloatArray, expected: FloatArray, scale: FloatArray) -> None:
    assert np.all(np.abs(found - expected) <= TOLERANCE * scale)
    assert np.all(np.diag(found) == 0.0)
    off = expected[~np.eye(len(expected), dtype=np.bool_)]
    assert off.min() > 100 * TOLERANCE * scale.max(), "distances this small would prove nothing"


# --- Embeddings: (17) to (20) -----------------------------------------------------------------------------


@pytest.mark.parametrize("outcome_scale", [0.8, 0.02], ids=["smooth outcomes", "rough outcomes"])
@pytest.mark.parametrize("seed", SEEDS)
def test_embedding_distances_equal_the_closed_form(seed: int, outcome_scale: float) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng)
    length, variance, height = positive(rng, 0.3, 2.0), positive(rng, 0.2, 5.0), positive(rng, 0.3, 3.0)
    lam = positive(rng, 1e-3, 1.0)
    kernels: list[tuple[Kernel, naive.Kernel]] = [
        (RBF(length, variance=variance), naive.rbf(length, variance)),
        (Matern52([length, 0.7], variance=variance), naive.matern52([length, 0.7], variance)),
    ]
    fast, slow = kernels[seed % 2]
    l, l_slow = RBF(outcome_scale, variance=height), naive.rbf(outcome_scale, height)
    P = embedding_products(rows, fast, regularisation=lam, outcome_kernel=l)
    found = embedding_distances(rows, fast, regularisation=lam, outcome_kernel=l)
    scale = np.diag(P)[:, None] + np.diag(P)[None, :]
    assert_distances(found, naive_distances(rows, slow, l_slow, lam), scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_embedding_distances_equal_those_of_explicit_linear_operators(seed: int) -> None:
    rng = np.random.default_rng(10 + seed)
    rows = random_rows(rng, d=3, e=2)
    variance, height, lam = positive(rng, 0.2, 5.0), positive(rng, 0.2, 5.0), positive(rng, 1e-3, 1.0)
    O = operators(rows, contexts=math.sqrt(variance) * np.eye(3), outcomes=math.sqrt(height) * np.eye(2), lam=lam)
    found = embedding_distances(rows, Linear(variance), regularisation=lam, outcome_kernel=Linear(height))
    assert_distances(found, *operator_distances(O))
    closed = naive_distances(rows, naive.linear(variance), naive.linear(height), lam)
    assert_distances(found, closed, operator_distances(O)[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_embedding_distances_equal_those_of_explicit_polynomial_operators(seed: int) -> None:
    # k(x, x′) = a xᵀx′ + b (xᵀx′)² has the features √a x and √b x ⊗ x; outcomes stay linear.
    rng = np.random.default_rng(20 + seed)
    rows = random_rows(rng, d=2, e=1)
    a, b, c, height = (positive(rng, 0.3, 2.0) for _ in range(4))
    lam = positive(rng, 1e-3, 1.0)
    features = [
        np.array([[*(math.sqrt(a) * x), *(math.sqrt(b * c) * np.outer(x, x).ravel())] for x in X]) for X, _ in rows
    ]
    O = [
        naive.conditional_operator(Phi.T, math.sqrt(height) * Y.T, lam=lam)
        for Phi, (_, Y) in zip(features, rows, strict=True)
    ]
    kernel = Linear(a) + Linear(b) * Linear(c)
    found = embedding_distances(rows, kernel, regularisation=lam, outcome_kernel=Linear(height))
    assert_distances(found, *operator_distances(O))


@pytest.mark.parametrize("seed", SEEDS)
def test_inner_products_are_those_of_explicit_operators(seed: int) -> None:
    rng = np.random.default_rng(30 + seed)
    rows = random_rows(rng, d=3, e=2)
    variance, height, lam = positive(rng, 0.2, 5.0), positive(rng, 0.2, 5.0), positive(rng, 1e-3, 1.0)
    O = operators(rows, contexts=math.sqrt(variance) * np.eye(3), outcomes=math.sqrt(height) * np.eye(2), lam=lam)
    found = embedding_products(rows, Linear(variance), regularisation=lam, outcome_kernel=Linear(height))
    expected = np.array([[float(np.sum(a * b)) for b in O] for a in O])
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * expected.max())


def log_of(rows: Rows, *, noise: FloatArray | None = None) -> Samples:
    """The rows of all stations as one log, shuffled."""
    tasks = np.concatenate([np.full(len(X), m) for m, (X, _) in enumerate(rows)])
    X, y = np.concatenate([X for X, _ in rows]), np.concatenate([Y[:, 0] for _, Y in rows])
    order = np.random.default_rng(0).permutation(len(y))
    stations = tuple(f"station {m}" for m in range(len(rows)))
    features = tuple(f"x{i}" for i in range(X.shape[1]))
    return Samples(stations, tasks[order], X[order], y[order], None if noise is None else noise[order], features)


@pytest.mark.parametrize("rule", ["median", "median_norm", "given"])
@pytest.mark.parametrize("seed", SEEDS)
def test_embedding_similarity_is_the_gaussian_of_the_naive_distances(seed: int, rule: str) -> None:
    rng = np.random.default_rng(40 + seed)
    rows = random_rows(rng, sizes=(8, 14, 5, 9))
    length, variance, lam = positive(rng, 0.3, 2.0), positive(rng, 0.2, 5.0), positive(rng, 1e-2, 1.0)
    spread = float(np.std(np.concatenate([Y for _, Y in rows])))
    k, l = naive.rbf(length, variance), naive.rbf(spread, 1.0)
    D2 = naive_distances(rows, k, l, lam)
    # An operator's norm is its distance to the operator of no data, whose own terms vanish.
    nothing = np.zeros((0, 2)), np.zeros((0, 1))
    norms = [math.sqrt(naive.embedding_distance(X, Y, *nothing, k=k, l=l, lam=lam)) for X, Y in rows]
    pairs = [math.sqrt(D2[i, j]) for i in range(4) for j in range(i)]
    sigma = {"median": float(np.median(pairs)), "median_norm": float(np.median(norms)), "given": 0.37}[rule]
    if rule == "given":
        estimator = Embedding(RBF(length, variance=variance), regularisation=lam, sigma=sigma)
    elif rule == "median":
        estimator = Embedding(RBF(length, variance=variance), regularisation=lam, sigma="median")
    else:
        estimator = Embedding(RBF(length, variance=variance), regularisation=lam, sigma="median_norm")
    found = estimator.fit(log_of(rows))
    np.testing.assert_allclose(found.matrix, naive.gaussian_similarity(D2, sigma), rtol=0, atol=TOLERANCE)


# --- R²: (21) ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_r_squared_matrix_equals_the_reference_before_projection(seed: int) -> None:
    rng = np.random.default_rng(50 + seed)
    rows = random_rows(rng, sizes=(9, 2, 21, 6))
    length, variance, lam = positive(rng, 0.3, 2.0), positive(rng, 0.2, 5.0), positive(rng, 1e-2, 1.0)
    mean = float(rng.uniform(-1.0, 1.0))
    expected = naive.average_r_squared(
        [(X, Y[:, 0]) for X, Y in rows],
        kernel=naive.rbf(length, variance),
        lam=lam,
        threshold=-math.inf,
        means=[mean] * 4,
    )
    found = r_squared_matrix(log_of(rows), RBF(length, variance=variance), noise=lam, mean=mean)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("seed", SEEDS)
def test_r_squared_counts_known_noise_row_by_row(seed: int) -> None:
    # The common variance comes on top of what is known of a row's own (nan: nothing).
    rng = np.random.default_rng(60 + seed)
    rows = random_rows(rng, sizes=(9, 15))
    length, variance, lam = positive(rng, 0.3, 2.0), positive(rng, 0.2, 5.0), positive(rng, 1e-2, 1.0)
    noise = np.array([positive(rng, 1e-3, 3.0) for _ in range(24)])
    noise[::5] = np.nan
    own = lam + np.where(np.isnan(noise), 0.0, noise)
    k = naive.rbf(length, variance)
    (X_1, Y_1), (X_2, Y_2) = rows
    there = naive.r_squared(X_1, Y_1[:, 0], X_2, Y_2[:, 0], kernel=k, lam=own[:9], mean=0.4)
    back = naive.r_squared(X_2, Y_2[:, 0], X_1, Y_1[:, 0], kernel=k, lam=own[9:], mean=0.4)
    found = r_squared_matrix(log_of(rows, noise=noise), RBF(length, variance=variance), noise=lam, mean=0.4)
    assert found[0, 1] == pytest.approx((there + back) / 2.0, rel=TOLERANCE)
    assert found[1, 0] == found[0, 1]


@pytest.mark.parametrize("like", [1.0, 0.4, -0.2, -1.0])
def test_prediction_similarity_of_two_stations_is_the_average_or_zero_below_the_threshold(like: float) -> None:
    # Two stations never need a projection while the average lies in [−1, 1]; regressions shrink to the log's mean.
    rng = np.random.default_rng(70)
    X_1, X_2 = rng.uniform(size=(25, 1)), rng.uniform(size=(30, 1))
    y_1, y_2 = np.sin(6.0 * X_1), like * np.sin(6.0 * X_2) + 0.1 * rng.normal(size=(30, 1))
    rows = [(X_1, y_1), (X_2, y_2)]
    length, variance, lam, threshold = 0.35, 1.7, 0.06, -0.6
    mean = float(np.concatenate([y_1, y_2]).mean())
    expected = naive.average_r_squared(
        [(X_1, y_1[:, 0]), (X_2, y_2[:, 0])],
        kernel=naive.rbf(length, variance),
        lam=lam,
        threshold=threshold,
        means=[mean, mean],
    )
    estimator = PredictionSimilarity(RBF(length, variance=variance), noise=lam, threshold=threshold)
    found = estimator.fit(log_of(rows)).matrix
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
