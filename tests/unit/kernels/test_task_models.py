"""Task matrices and task models by hand: values, structure, refusals."""

import math
from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.kernels import (
    FactorTasks,
    FixedTasks,
    GaussianTasks,
    PartialPooling,
    TaskModel,
    check_task_matrix,
    components,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(907)


# check_task_matrix


def test_a_covariance_matrix_passes_and_comes_back_exactly_symmetric(rng: np.random.Generator) -> None:
    A = rng.normal(size=(6, 2))  # rank 2: smallest eigenvalues are zero up to rounding
    K_Z = A @ A.T
    K_Z[0, 1] += 1e-12
    checked = check_task_matrix(K_Z, size=6)
    np.testing.assert_array_equal(checked, checked.T)
    np.testing.assert_allclose(checked, A @ A.T, atol=1e-11)


def test_pooling_all_stations_is_a_task_matrix() -> None:
    np.testing.assert_array_equal(check_task_matrix(np.ones((30, 30))), np.ones((30, 30)))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]], r"smallest eigenvalue -0\.27.*nearest_correlation"),
        ([[1.0, 0.5], [0.4, 1.0]], r"symmetric, .* differ by 0\.1"),
        ([[1.0, 0.5, 0.1], [0.5, 1.0, 0.1]], "square"),
        ([[1.0, float("nan")], [float("nan"), 1.0]], "nan"),
        ([[1.0, 0.0], [0.0, 0.0]], "diagonal above zero, got 0"),
        ([1.0, 0.5], "2 dimension"),
        (np.empty((0, 0)), "square"),
    ],
)
def test_what_is_no_covariance_of_tasks_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        check_task_matrix(matrix)


def test_a_matrix_for_other_stations_is_refused() -> None:
    with pytest.raises(BadInputError, match="each of 3 stations, got 2"):
        check_task_matrix(np.eye(2), size=3)


# components


def test_components_follow_chains_and_keep_the_order_of_first_members() -> None:
    K_Z = np.eye(7)
    for i, j in [(0, 5), (5, 3), (1, 6)]:  # 0-5-3 hang together although K_Z[0, 3] is zero
        K_Z[i, j] = K_Z[j, i] = -0.2
    assert [c.tolist() for c in components(K_Z)] == [[0, 3, 5], [1, 6], [2], [4]]


@pytest.mark.parametrize("seed", range(5))
def test_components_equal_those_of_scipy(seed: int) -> None:
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(seed)
    linked = np.triu(rng.random((25, 25)) < 0.04, 1)
    K_Z = (linked | linked.T | np.eye(25, dtype=bool)).astype(np.float64)
    count, labels = connected_components(K_Z)
    found = components(K_Z)
    assert len(found) == count
    assert all(len(set(labels[c])) == 1 for c in found)
    assert sorted(np.concatenate(found).tolist()) == list(range(25))


# The models


def test_gaussian_tasks_follow_equation_18() -> None:
    model = GaussianTasks([[0.0, 2.0, 0.5], [2.0, 0.0, 3.0], [0.5, 3.0, 0.0]], 0.8)
    assert model.K_Z[0, 1] == pytest.approx(math.exp(-2.0 / (2 * 0.64)))
    assert model.K_Z[2, 2] == 1.0
    assert model.with_theta(np.log([1.7])).sigma == pytest.approx(1.7)


def test_default_bounds_of_the_width_span_the_median_distance() -> None:
    model = GaussianTasks([[0.0, 4.0, 9.0], [4.0, 0.0, 100.0], [9.0, 100.0, 0.0]], 0.8)
    np.testing.assert_allclose(np.exp(model.bounds), [[0.03, 300.0]])


def test_stations_without_distance_are_pooled() -> None:
    np.testing.assert_array_equal(GaussianTasks(np.zeros((3, 3)), 0.8).K_Z, np.ones((3, 3)))


def test_factor_tasks_are_shared_factors_plus_own_variances() -> None:
    model = FactorTasks([[1.0, 2.0], [-0.5, 0.3]], [0.2, 0.7])
    np.testing.assert_allclose(model.K_Z, [[5.2, 0.1], [0.1, 0.34 + 0.7]])
    assert model.names == ("tasks.B[0,0]", "tasks.B[0,1]", "tasks.B[1,0]", "tasks.B[1,1]", "tasks.v[0]", "tasks.v[1]")
    np.testing.assert_allclose(model.theta, [1.0, 2.0, -0.5, 0.3, math.log(0.2), math.log(0.7)])


def test_partial_pooling_is_a_common_part_and_the_rest() -> None:
    model = PartialPooling([[1.0, -0.5], [-0.5, 1.0]], 0.4)
    np.testing.assert_allclose(model.K_Z, [[1.0, 0.4 - 0.3], [0.4 - 0.3, 1.0]])
    np.testing.assert_allclose(model.theta, [math.log(0.4 / 0.6)])
    assert model.with_theta(np.array([math.log(0.7 / 0.3)])).share == pytest.approx(0.7)


def models(rng: np.random.Generator) -> list[TaskModel]:
    points = rng.normal(size=(4, 2))
    D2 = ((points[:, None] - points) ** 2).sum(axis=2)
    return [
        FixedTasks([[1.0, 0.4], [0.4, 1.5]]),
        GaussianTasks(D2, 0.7),
        PartialPooling(np.exp(-D2), 0.3),
        FactorTasks(rng.normal(size=(3, 2)), rng.uniform(0.1, 1.0, size=3)),
    ]


def test_moving_a_model_by_nothing_gives_an_equal_one(rng: np.random.Generator) -> None:
    for model in models(rng):
        np.testing.assert_allclose(model.with_theta(model.theta).K_Z, model.K_Z, rtol=1e-14)
        assert len(model.theta) == len(model.names) == len(model.bounds)
        assert len(set(model.names)) == len(model.names)


def test_drawn_models_are_valid_differ_and_lie_within_bounds(rng: np.random.Generator) -> None:
    for model in models(rng):
        drawn = model.draw(rng)
        assert type(drawn) is type(model)
        check_task_matrix(drawn.K_Z, size=len(model.K_Z))
        assert (drawn.theta >= drawn.bounds[:, 0]).all()
        assert (drawn.theta <= drawn.bounds[:, 1]).all()
        assert (drawn == model) == (not len(model.theta))


def test_models_compare_by_value_and_cannot_be_written_to(rng: np.random.Generator) -> None:
    D2 = np.array([[0.0, 2.0], [2.0, 0.0]])
    assert GaussianTasks(D2, 0.8) == GaussianTasks(D2.tolist(), 0.8)
    assert GaussianTasks(D2, 0.8) != GaussianTasks(D2, 0.9)
    assert PartialPooling(np.eye(2), 0.8) == PartialPooling([[1, 0], [0, 1]], 0.8)
    assert PartialPooling(np.eye(2), 0.8) != PartialPooling(np.eye(2), 0.7)
    assert PartialPooling(np.eye(2), 0.8) != PartialPooling([[1, 0.1], [0.1, 1]], 0.8)
    assert FixedTasks(np.eye(2)) == FixedTasks([[1, 0], [0, 1]])
    assert FixedTasks(np.eye(2)) != FixedTasks(2 * np.eye(2))
    assert FactorTasks([[1.0]], [0.3]) == FactorTasks([[1.0]], [0.3])
    assert FactorTasks([[1.0]], [0.3]) != FactorTasks([[1.0]], [0.4])
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(FixedTasks(np.eye(2)).K_Z)[0, 0] = 3.0


def test_reprs_stay_on_one_line(rng: np.random.Generator) -> None:
    assert [repr(model) for model in models(rng)] == [
        "FixedTasks(<2 tasks>)",
        "GaussianTasks(<4 tasks>, sigma=0.7)",
        "PartialPooling(<4 tasks>, share=0.3)",
        "FactorTasks(<3 tasks, 2 factors>)",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianTasks([[0.0, 1.0]], 0.5), "square"),
        (lambda: GaussianTasks([[0.0, 1.0], [2.0, 0.0]], 0.5), "symmetric"),
        (lambda: GaussianTasks([[0.0, -1.0], [-1.0, 0.0]], 0.5), "not negative"),
        (lambda: GaussianTasks([[0.1, 1.0], [1.0, 0.0]], 0.5), "zero on the diagonal"),
        (lambda: GaussianTasks([[0.0, 1.0], [1.0, 0.0]], 0.0), "sigma must be above zero"),
        (lambda: PartialPooling(np.eye(2), 0.0), "share must be above zero"),
        (lambda: PartialPooling(np.eye(2), 1.0), "share must lie between 0 and 1, got 1"),
        (lambda: PartialPooling([[1.0, 2.0], [2.0, 1.0]], 0.4), "eigenvalue"),
        (lambda: PartialPooling(np.eye(2), 0.4).with_theta(np.zeros(2)), "theta must have 1 entries"),
        (lambda: FactorTasks([[1.0], [2.0]], [0.5]), r"shapes \(2, 1\) and \(1,\)"),
        (lambda: FactorTasks([[1.0]], [0.0]), "above zero"),
        (lambda: FixedTasks(np.eye(2)).with_theta(np.zeros(1)), "theta must have 0 entries"),
        (lambda: FactorTasks([[1.0]], [0.4]).with_theta(np.zeros(3)), "theta must have 2 entries"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(make: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make()
