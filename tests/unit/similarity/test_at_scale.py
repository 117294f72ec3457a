"""Measuring many stations: kernels by products, landmarks with a known error, likelihoods of parts of a log."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.reference import naive

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import RBF, FixedTasks, Kernel, Linear, Matern52
from kinband.likelihood import FitProblem, choose_rows, fit, station_groups, value_and_gradient
from kinband.records import Samples
from kinband.similarity import Embedding
from kinband.similarity.base import FARTHEST, embedding_products, gram
from kinband.similarity.landmarks import LandmarkWarning, draw_landmarks, forward, landmark_products, unexplained

KERNELS: list[Kernel] = [
    RBF([0.4, 2.3], variance=1.7),
    RBF(0.6, columns=[1]) * RBF(3.0, variance=0.2, columns=[0]),
    Matern52(0.9) * RBF(1.3),
    Linear(0.7),
]


def rows_of(rng: np.random.Generator, *, stations: int, rows: int, d: int = 2) -> list[tuple[FloatArray, FloatArray]]:
    """Rows of stations that differ by a shift of one function."""
    made = []
    for m in range(stations):
        X = rng.uniform(-1, 1, size=(rows + m % 3, d))
        y = np.sin(3 * X[:, :1] + m % 4) + 0.1 * rng.normal(size=(len(X), 1))
        made.append((X, y))
    return made


def log_of(rng: np.random.Generator, *, stations: int, rows: int) -> Samples:
    made = rows_of(rng, stations=stations, rows=rows)
    tasks = np.repeat(np.arange(stations), [len(x) for x, _ in made])
    X, y = np.concatenate([x for x, _ in made]), np.concatenate([y for _, y in made])[:, 0]
    return Samples(tuple(f"s{m}" for m in range(stations)), tasks, X, y, None, ("a", "b"))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_by_products_are_the_kernels(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(17, 2)), rng.normal(loc=3.0, size=(11, 2))
    between = gram(kernel, X, Y)
    np.testing.assert_allclose(between(slice(3, 9), slice(2, 11)), kernel(X[3:9], Y[2:11]), rtol=1e-11)


def test_contexts_far_out_are_left_to_the_kernel_itself() -> None:
    X = np.array([[0.0], [np.sqrt(FARTHEST) * 5], [np.sqrt(FARTHEST) * 5 + 1e-3]])
    np.testing.assert_array_equal(gram(RBF(1.0), X, X)(slice(0, 3), slice(0, 3)), RBF(1.0)(X, X))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_rows_as_landmarks_give_the_products_of_the_naive_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, stations=4, rows=9)
    scale, outcome_scale, lam = rng.uniform(0.3, 0.8), rng.uniform(0.4, 1.5), rng.uniform(0.05, 0.5)
    made = landmark_products(
        rows, RBF(scale), regularisation=lam, outcome_kernel=RBF(outcome_scale), landmarks=1000, rng=rng
    )
    k, l = naive.rbf(scale, 1.0), naive.rbf(outcome_scale, 1.0)
    for i in range(4):
        for j in range(4):
            expected = naive.embedding_distance(*rows[i], *rows[j], k=k, l=l, lam=lam)
            found = made.P[i, i] + made.P[j, j] - 2 * made.P[i, j]
            assert found == pytest.approx(expected, abs=1e-5)  # outcome kernels are cut off at 1e-6


@pytest.mark.parametrize("landmarks", [5, 20, 60])
def test_products_by_landmarks_are_wrong_by_their_bound_at_most(landmarks: int) -> None:
    rng = np.random.default_rng(4)
    rows = rows_of(rng, stations=9, rows=25)
    options = {"regularisation": 0.1, "outcome_kernel": RBF(0.9)}
    made = landmark_products(rows, RBF(0.2), landmarks=landmarks, rng=rng, **options)  # type: ignore[arg-type]
    exact = embedding_products(rows, RBF(0.2), **options)  # type: ignore[arg-type]
    assert (np.abs(made.P - exact) <= made.bound() + 1e-5 * np.diag(exact).max()).all()
    assert np.linalg.eigvalsh(made.P).min() > -1e-9
    np.testing.assert_allclose(np.diag(made.P), np.diag(exact), rtol=1e-5)


def test_landmarks_of_its_own_choice_keep_similarity_right_and_say_so() -> None:
    log = log_of(np.random.default_rng(5), stations=30, rows=40)
    exact = Embedding(RBF(0.4), regularisation=0.1, landmarks=None).fit(log)
    few = Embedding(RBF(0.4), regularisation=0.1, landmarks=300).fit(log)
    assert exact.details["landmarks"] == 0
    assert 0 < few.details["landmarks"] <= 300
    assert few.details["landmark_error"] <= 0.02
    assert np.abs(few.matrix - exact.matrix).max() <= 0.02


def test_auto_compares_small_networks_exactly_and_large_ones_by_landmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(np.random.default_rng(6), stations=12, rows=20)
    estimator = Embedding(RBF(0.5), regularisation=0.1)
    assert estimator.fit(log).details["landmarks"] == 0
    monkeypatch.setattr("kinband.similarity.embedding.EXACT_ENTRIES", 100)
    assert estimator.fit(log).details["landmarks"] > 0


def test_too_few_landmarks_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinband.similarity.landmarks.FIRST", 2)
    monkeypatch.setattr("kinband.similarity.landmarks.MOST", 2)
    rng = np.random.default_rng(7)
    with pytest.warns(LandmarkWarning, match="2 landmarks a similarity is still wrong"):
        landmark_products(
            rows_of(rng, stations=5, rows=30), RBF(0.1), regularisation=0.1, outcome_kernel=RBF(1.0), rng=rng
        )


@pytest.mark.parametrize("landmarks", [0, -1, 1.5, True, "many"])
def test_a_wrong_number_of_landmarks_is_refused(landmarks: object) -> None:
    with pytest.raises(BadInputError, match="landmarks must be"):
        Embedding(landmarks=landmarks)  # type: ignore[arg-type]


def test_an_outcome_kernel_of_high_rank_is_refused_for_landmarks() -> None:
    rng = np.random.default_rng(8)
    with pytest.raises(BadInputError, match="outcome kernel of low rank"):
        landmark_products(
            rows_of(rng, stations=8, rows=30), RBF(0.5), regularisation=0.1, outcome_kernel=RBF(1e-4), rng=rng
        )


def test_landmarks_leave_nothing_at_themselves_and_reach_rare_contexts() -> None:
    rng = np.random.default_rng(9)
    X = np.concatenate([rng.normal(scale=0.01, size=(500, 2)), [[50.0, 50.0]]])
    found = draw_landmarks(X, RBF(1.0), count=600, rng=rng)
    assert 500 in found.rows
    assert unexplained(found.Z, RBF(1.0), found).max() < 1e-8
    np.testing.assert_allclose(found.L @ found.L.T, RBF(1.0)(found.Z, found.Z), atol=1e-10)


def test_forward_substitution_crosses_panels() -> None:
    rng = np.random.default_rng(10)
    L = np.tril(rng.normal(size=(300, 300))) / 20 + 2 * np.eye(300)
    B = rng.normal(size=(300, 4))
    solved = B.copy()
    forward(L, solved)
    np.testing.assert_allclose(L @ solved, B, atol=1e-10)


def test_the_likelihood_of_groups_is_the_sum_of_the_likelihoods_of_their_logs() -> None:
    rng = np.random.default_rng(11)
    log, groups = log_of(rng, stations=6, rows=5), np.array([0, 1, 0, 2, 1, 2])
    K_Z = 0.6 + 0.4 * np.eye(6)
    kernel, tasks = RBF([0.5, 0.9], variance=0.8), FixedTasks(K_Z)
    problem = FitProblem(log, kernel.bind(log.features), tasks, 0.2, 0.1, free=(True, True, True), groups=groups)
    assert len(problem.blocks) == 3
    found = problem.value_and_gradient(next(iter(problem.starts(1, rng))))
    expected, gradient = 0.0, np.zeros(5)
    for group in range(3):
        rows = np.flatnonzero(groups[log.tasks] == group)
        value, slope = value_and_gradient(log.take(rows), kernel, tasks=tasks, noise=0.2, mean=0.1)
        expected, gradient = expected + value, gradient + slope
    assert found[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found[1], (gradient * problem.units)[problem.free], rtol=1e-9)


def test_a_fit_in_groups_finds_the_model_that_drew_the_log() -> None:
    rng = np.random.default_rng(12)
    log = log_of(rng, stations=40, rows=30)
    true = RBF(0.7, variance=1.3)
    y = np.empty(len(log))
    for m in range(40):
        rows = np.flatnonzero(log.tasks == m)
        K = true(log.X[rows], log.X[rows]) + 0.05 * np.eye(len(rows))
        y[rows] = np.linalg.cholesky(K) @ rng.normal(size=len(rows))
    found = fit(
        replace(log, y=y), RBF(1.5), tasks=FixedTasks(np.eye(40)), starts=1, max_rows=800, block_rows=100, rng=rng,
    )  # fmt: skip
    assert (found.rows, found.blocks > 1) == (800, True)
    assert found.noise == pytest.approx(0.05, rel=0.2)
    assert np.exp(found.kernel.theta) == pytest.approx([0.7, 1.3], rel=0.25)


def test_thinning_keeps_forty_rows_of_the_stations_it_keeps() -> None:
    tasks = np.repeat(np.arange(30), np.arange(20, 80, 2))
    rows = choose_rows(tasks, 300, rng=np.random.default_rng(13))
    counts = np.bincount(tasks[rows], minlength=30)
    assert len(rows) == 300
    assert np.count_nonzero(counts) < 15
    many = choose_rows(tasks, 10_000, rng=np.random.default_rng(13), most=50)
    assert np.bincount(tasks[many]).max() == 50


def test_groups_hold_whole_stations_within_their_limit() -> None:
    rng = np.random.default_rng(14)
    tasks = rng.integers(0, 20, size=400)
    groups = station_groups(tasks, block_rows=70, stations=20, rng=rng)
    assert np.bincount(groups[tasks]).max() <= 70
    alone = station_groups(tasks, block_rows=1, stations=20, rng=rng)
    assert len(np.unique(alone)) == 20
    with pytest.raises(BadInputError, match="block_rows"):
        station_groups(tasks, block_rows=0, stations=20, rng=rng)


def test_nothing_warns_on_an_ordinary_log() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Embedding(RBF(0.5), regularisation=0.1, landmarks=50).fit(
            log_of(np.random.default_rng(15), stations=5, rows=20)
        )
