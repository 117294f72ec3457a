"""What must hold of similarities for any data and any settings."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kinband.arrays import FloatArray
from kinband.kernels import RBF, Kernel, Matern32, Matern52
from kinband.records import Samples
from kinband.similarity import Embedding, TaskMatrix, embedding_distances, nearest_correlation, r_squared_matrix

positive = st.floats(0.05, 5.0)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def logs(draw: st.DrawFn, *, fewest: int = 2) -> Samples:
    """Between two and six stations with a few rows each, in mixed order, on any scale."""
    rng = np.random.default_rng(draw(seeds))
    sizes = draw(st.lists(st.integers(fewest, 8), min_size=2, max_size=6))
    tasks = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    d = draw(st.integers(1, 3))
    y = draw(positive) * rng.standard_normal(len(tasks)) + draw(st.floats(-3, 3))
    names = tuple(f"s{m}" for m in range(len(sizes)))
    return Samples(names, tasks, rng.standard_normal((len(tasks), d)), y, None, tuple("xyz"[:d]))


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    kind = draw(st.sampled_from([RBF, Matern32, Matern52]))
    return kind(draw(positive), variance=draw(positive))


def rows_of(log: Samples) -> list[tuple[FloatArray, FloatArray]]:
    return [(log.of(m).X, log.of(m).y[:, None]) for m in range(len(log.stations))]


def reordered(log: Samples, order: list[int]) -> Samples:
    """The same log with its stations listed in another order."""
    place = np.argsort(order)
    stations = tuple(log.stations[m] for m in order)
    return Samples(stations, place[log.tasks], log.X, log.y, None, log.features)


@given(logs(), kernels(), positive, kernels())
@settings(max_examples=60, deadline=None)
def test_distances_are_a_metric(log: Samples, kernel: Kernel, regularisation: float, outcome: Kernel) -> None:
    D2 = embedding_distances(rows_of(log), kernel, regularisation=regularisation, outcome_kernel=outcome)
    assert np.array_equal(D2, D2.T)
    assert (np.diag(D2) == 0.0).all()
    assert (D2 >= 0.0).all()
    D = np.sqrt(D2)
    slack = 1e-6 * (1.0 + D.max())
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + slack).all()


@given(logs(), kernels(), positive, st.sampled_from(["median", "median_norm"]) | positive)
@settings(max_examples=60, deadline=None)
def test_embedding_is_a_correlation_matrix(log: Samples, kernel: Kernel, regularisation: float, sigma: float) -> None:
    alike = Embedding(kernel, regularisation=regularisation, sigma=sigma).fit(log)
    assert np.linalg.eigvalsh(alike.matrix)[0] > -1e-9
    assert (np.diag(alike.matrix) == 1.0).all()
    assert ((alike.matrix >= 0.0) & (alike.matrix <= 1.0)).all()


@given(logs(), kernels(), positive, seeds)
@settings(max_examples=40, deadline=None)
def test_reordering_stations_permutes_the_answers(log: Samples, kernel: Kernel, noise: float, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(log.stations)).tolist()
    other = reordered(log, order)
    alike = Embedding(kernel, regularisation=noise).fit(log)
    again = Embedding(kernel, regularisation=noise).fit(other)
    assert_allclose(again.matrix, alike.reindex(again.stations).matrix, atol=1e-7)
    R2 = r_squared_matrix(log, kernel, noise=noise)
    assert_allclose(r_squared_matrix(other, kernel, noise=noise), R2[np.ix_(order, order)], rtol=1e-7, atol=1e-9)


@given(logs(), kernels(), positive, seeds)
@settings(max_examples=40, deadline=None)
def test_order_of_rows_is_immaterial(log: Samples, kernel: Kernel, noise: float, seed: int) -> None:
    shuffled = log.take(np.random.default_rng(seed).permutation(len(log)))
    first, second = (
        embedding_distances(rows_of(rows), kernel, regularisation=noise, outcome_kernel=RBF(0.7))
        for rows in (log, shuffled)
    )
    assert_allclose(first, second, atol=1e-9 * (1.0 + first.max()))
    assert_allclose(
        r_squared_matrix(log, kernel, noise=noise),
        r_squared_matrix(shuffled, kernel, noise=noise),
        rtol=1e-8,
        atol=1e-9,
    )


@given(logs(), kernels(), positive)
@settings(max_examples=40, deadline=None)
def test_a_copy_of_a_station_is_exactly_as_like_the_others_and_the_same_as_it(
    log: Samples, kernel: Kernel, regularisation: float
) -> None:
    rows = rows_of(log)
    D2 = embedding_distances([*rows, rows[0]], kernel, regularisation=regularisation, outcome_kernel=RBF(0.6))
    scale = 1.0 + D2.max()
    assert D2[0, -1] <= 1e-10 * scale
    assert_allclose(D2[0, 1:-1], D2[-1, 1:-1], atol=1e-10 * scale)
    with_copy = Samples(
        (*log.stations, "copy"),
        np.concatenate([log.tasks, np.full(len(log.of(0)), len(log.stations))]),
        np.concatenate([log.X, log.of(0).X]),
        np.concatenate([log.y, log.of(0).y]),
        None,
        log.features,
    )
    alike = Embedding(kernel, regularisation=regularisation).fit(with_copy)
    assert_allclose(alike.between("s0", "copy"), 1.0, atol=1e-9)


def random_symmetric(size: int, seed: int, spread: float) -> FloatArray:
    A = spread * np.random.default_rng(seed).standard_normal((size, size))
    return np.asarray(np.triu(A, 1) + np.triu(A, 1).T + np.eye(size))


@given(st.integers(2, 7), seeds, st.floats(0.1, 2.0), seeds)
@settings(max_examples=40, deadline=None)
def test_nearest_correlation_is_valid_and_nearest(size: int, seed: int, spread: float, other_seed: int) -> None:
    """Nearest in a convex set: no other member lies on the side of A, ⟨A − C, B − C⟩ ≤ 0."""
    A = random_symmetric(size, seed, spread)
    C, moved = nearest_correlation(A, tolerance=1e-8, max_iterations=20000)
    assert np.linalg.eigvalsh(C)[0] > -1e-12
    assert (np.diag(C) == 1.0).all()
    assert moved == np.abs(C - A).max()
    Z = np.random.default_rng(other_seed).standard_normal((size, 2))
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    for B in (Z @ Z.T, np.eye(size), np.ones((size, size))):
        assert np.sum((A - C) * (B - C)) <= 1e-4 * size * (1 + spread)


@given(
    st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6, unique=True),
    seeds,
    st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)),
)
@settings(max_examples=60, deadline=None)
def test_what_is_saved_is_what_is_loaded(names: list[str], seed: int, details: dict[str, object]) -> None:
    Z = np.random.default_rng(seed).standard_normal((len(names), 3))
    alike = TaskMatrix(tuple(names), Z @ Z.T + 0.1 * np.eye(len(names)), "given", details)
    with TemporaryDirectory() as folder:
        for ending in ("npz", "csv"):
            path = Path(folder) / f"alike.{ending}"
            alike.save(path)
            again = TaskMatrix.load(path)
            assert again.stations == alike.stations
            assert np.array_equal(again.matrix, alike.matrix)
            assert again.method == "given"
            assert ending == "csv" or again.details == alike.details


@given(st.integers(1, 12), seeds)
@settings(max_examples=40, deadline=None)
def test_order_is_a_permutation_and_groups_are_a_partition(size: int, seed: int) -> None:
    Z = np.random.default_rng(seed).standard_normal((size, 2))
    alike = TaskMatrix(tuple(map(str, range(size))), Z @ Z.T + 0.2 * np.eye(size), "given")
    assert sorted(alike.order().tolist()) == list(range(size))
    members = [name for group in alike.groups() for name in group]
    assert members == [alike.stations[m] for m in alike.order()]
