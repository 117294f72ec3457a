"""What `MultiTaskRegressor` computes, against the posterior, scikit-learn's own regressor and arithmetic."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GroupKFold, cross_val_score

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import RBF, Categorical
from kinband.likelihood import BoundWarning
from kinband.posterior import ExactPosterior, SchurPosterior
from kinband.records import Samples
from kinband.regressor import MultiTaskRegressor
from kinband.similarity import Embedding, TaskMatrix
from kinband.similarity.newcomers import OWN

STATIONS = ("a", "b", "c")
NAMED = ["independent", "pooled", "embedding", "prediction", "coregionalisation"]


class Case:
    """A seeded problem of three stations with hyper-parameters away from 1."""

    def __init__(self, seed: int, n: int = 30) -> None:
        self.rng = np.random.default_rng(seed)
        self.X = self.rng.uniform(-1, 2, size=(n, 2))
        self.tasks = self.rng.permutation(np.arange(n) % 3)
        self.labels = np.array(STATIONS)[self.tasks]
        self.y = np.sin(3 * self.X[:, 0]) + 0.3 * self.tasks + 0.1 * self.rng.standard_normal(n)
        self.kernel = RBF(self.rng.uniform(0.4, 2.0, size=2), variance=float(self.rng.uniform(0.5, 3.0)))
        self.noise, self.mean = float(self.rng.uniform(0.02, 0.3)), float(self.rng.normal())
        A = self.rng.standard_normal((3, 4))
        self.K_Z: FloatArray = A @ A.T
        self.frame = pd.DataFrame({"load": self.X[:, 0], "station": self.labels, "power": self.X[:, 1]})
        self.new_X = self.rng.uniform(-1, 2, size=(7, 2))
        self.new_tasks = np.arange(7) % 3
        self.new_labels = np.array(STATIONS)[self.new_tasks]

    def model(self, **changes: Any) -> MultiTaskRegressor:
        settings: dict[str, Any] = {"similarity": self.K_Z, "noise": self.noise, "mean": self.mean, "optimise": False}
        return MultiTaskRegressor(self.kernel, **(settings | changes))


@pytest.fixture(params=range(3))
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


@pytest.mark.parametrize("own_noise", [False, True])
def test_predictions_equal_those_of_the_posterior(case: Case, own_noise: bool) -> None:
    noise = np.where(case.tasks == 1, np.nan, case.rng.uniform(0.01, 0.5, size=30)) if own_noise else None
    model = case.model().fit(case.X, case.y, task=case.labels, noise=noise)
    posterior = ExactPosterior(case.kernel, case.K_Z, noise=case.noise, mean=case.mean)
    told = None if noise is None else case.noise + np.nan_to_num(noise)
    posterior.update(case.tasks, case.X, case.y, noise=told)
    expected = posterior.predict(case.new_tasks, case.new_X)
    mean, std = model.predict(case.new_X, task=case.new_labels, return_std=True)
    _, covariance = model.predict(case.new_X, task=case.new_labels, return_cov=True)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(std, expected.std, rtol=1e-12)
    np.testing.assert_allclose(covariance, posterior.predict(case.new_tasks, case.new_X).covariance(), atol=1e-12)


def test_without_stations_it_agrees_with_the_regressor_of_scikit_learn(case: Case) -> None:
    variance, scales = case.kernel.variance, np.array(case.kernel.length_scale)
    other = GaussianProcessRegressor(sk.ConstantKernel(variance) * sk.RBF(scales), alpha=case.noise, optimizer=None)
    other.fit(case.X, case.y - case.mean)
    model = case.model(similarity="independent").fit(case.X, case.y)
    mean, std = other.predict(case.new_X, return_std=True)
    _, covariance = other.predict(case.new_X, return_cov=True)
    np.testing.assert_allclose(model.predict(case.new_X), mean + case.mean, rtol=1e-9)
    np.testing.assert_allclose(model.predict(case.new_X, return_std=True)[1], std, rtol=1e-7)
    np.testing.assert_allclose(model.predict(case.new_X, return_cov=True)[1], covariance, atol=1e-9)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_, rtol=1e-10)
    assert model.stations_ == ("all",)


def test_a_kernel_of_scikit_learn_is_taken_as_it_is(case: Case) -> None:
    kernel = sk.ConstantKernel(case.kernel.variance) * sk.RBF(np.array(case.kernel.length_scale))
    ours = case.model().fit(case.X, case.y, task=case.labels)
    theirs = case.model().set_params(kernel=kernel).fit(case.X, case.y, task=case.labels)
    np.testing.assert_allclose(
        theirs.predict(case.new_X, task=case.new_labels), ours.predict(case.new_X, task=case.new_labels), rtol=1e-9
    )


def test_every_way_to_hand_over_the_same_rows_gives_the_same_predictions(case: Case) -> None:
    expected = case.model().fit(case.X, case.y, task=case.labels).predict(case.X, task=case.labels)
    array = case.frame.to_numpy()
    renamed = case.frame.set_axis([0, 1, 2], axis=1)
    by_name = [case.frame, pl.from_pandas(case.frame), pa.Table.from_pandas(case.frame)]
    by_name.append(case.frame.astype({"station": "category"}))
    by_position = [*by_name, array, array.tolist(), renamed]
    for task, X in [("station", X) for X in by_name] + [(p, X) for X in by_position for p in (1, -2)]:
        model = case.model(task=task).fit(X, case.y)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
        assert model.stations_ == STATIONS


def test_task_beside_x_may_be_a_series_or_one_label_for_all_rows(case: Case) -> None:
    model = case.model().fit(case.X, case.y, task=pl.Series(case.labels))
    np.testing.assert_array_equal(
        model.predict(case.new_X, task="b"), model.predict(case.new_X, task=pd.Series(["b"] * 7))
    )


def test_whole_numbers_and_their_text_name_the_same_station(case: Case) -> None:
    numbers = np.array([12, 9, 100])[case.tasks]
    alike = TaskMatrix(("100", "9", "12"), case.K_Z, "given")
    model = case.model(similarity=alike)
    expected = model.fit(case.X, case.y, task=numbers).predict(case.X, task=numbers)
    for labels in (numbers.astype(float), numbers.astype(str), numbers.astype(object), list(map(int, numbers))):
        np.testing.assert_array_equal(model.fit(case.X, case.y, task=labels).predict(case.X, task=numbers), expected)


def test_stations_come_in_the_order_of_numbers_then_of_text(case: Case) -> None:
    labels = np.array([12, "b", 9, "a", 100, "B"], dtype=object)[np.arange(30) % 6]
    model = case.model(similarity="pooled").fit(case.X, case.y, task=labels)
    assert model.stations_ == model.similarity_.stations == ("9", "12", "100", "B", "a", "b")


def test_large_numbers_stay_apart_beside_real_columns(case: Case) -> None:
    labels = 2**60 + case.tasks  # as float64 all three would be equal
    for frame in (case.frame.assign(station=labels), pl.from_pandas(case.frame.assign(station=labels))):
        model = case.model(task="station").fit(frame, case.y)
        assert model.stations_ == tuple(str(2**60 + m) for m in range(3))


def test_a_matrix_follows_the_order_of_stations_and_a_task_matrix_its_own_names(case: Case) -> None:
    turned = TaskMatrix(("c", "a", "b"), case.K_Z[np.ix_([2, 0, 1], [2, 0, 1])], "given")
    by_order = case.model().fit(case.X, case.y, task=case.labels)
    by_name = case.model(similarity=turned).fit(case.X, case.y, task=case.labels)
    assert (by_order.stations_, by_name.stations_) == (STATIONS, ("c", "a", "b"))
    np.testing.assert_allclose(
        by_name.predict(case.new_X, task=case.new_labels),
        by_order.predict(case.new_X, task=case.new_labels),
        rtol=1e-9,
    )


def test_a_station_without_rows_is_predicted_from_its_kin(case: Case) -> None:
    alike = TaskMatrix((*STATIONS, "new"), np.array(np.eye(4) * 0.1 + 0.9), "given")
    rows = case.tasks != 2
    model = case.model(similarity=alike).fit(case.X[rows], case.y[rows], task=case.labels[rows])
    posterior = ExactPosterior(case.kernel, alike.matrix, noise=case.noise, mean=case.mean)
    posterior.update(case.tasks[rows], case.X[rows], case.y[rows])
    np.testing.assert_allclose(
        model.predict(case.new_X, task="new"), posterior.predict(np.full(7, 3), case.new_X).mean, rtol=1e-12
    )


def test_independent_stations_are_separate_regressions_and_pooled_ones_a_single_one(case: Case) -> None:
    independent = case.model(similarity="independent").fit(case.X, case.y, task=case.labels)
    pooled = case.model(similarity="pooled").fit(case.X, case.y, task=case.labels)
    single = case.model(similarity="independent").fit(case.X, case.y)
    np.testing.assert_allclose(pooled.predict(case.new_X, task="c"), single.predict(case.new_X), rtol=1e-8)
    for m, station in enumerate(STATIONS):
        rows = case.tasks == m
        alone = case.model(similarity="independent").fit(case.X[rows], case.y[rows])
        np.testing.assert_allclose(independent.predict(case.new_X, task=station), alone.predict(case.new_X), rtol=1e-12)


@pytest.mark.parametrize("similarity", NAMED)
def test_every_named_similarity_gives_a_task_matrix_of_the_stations(similarity: str) -> None:
    case = Case(5, n=45)
    model = case.model(task="station", similarity=similarity).fit(case.frame, case.y)
    assert (model.similarity_.stations, model.similarity_.method) == (STATIONS, similarity)
    assert np.isfinite(model.predict(case.frame)).all()


@pytest.mark.parametrize("similarity", NAMED)
def test_a_single_station_makes_all_named_similarities_one(similarity: str) -> None:
    case = Case(6)
    expected = case.model(similarity="independent").fit(case.X, case.y).predict(case.new_X)
    for task in (None, "a"):
        model = case.model(similarity=similarity).fit(case.X, case.y, task=task)
        np.testing.assert_array_equal(model.predict(case.new_X, task=task), expected)
        assert model.similarity_.matrix.tolist() == [[1.0]]


def test_a_measured_similarity_uses_the_kernel_and_the_noise_of_the_regressor(case: Case) -> None:
    model = case.model(task="station", similarity="embedding", random_state=3).fit(case.frame, case.y)
    samples = Samples(STATIONS, case.tasks, case.X, case.y, None, ("load", "power"))
    expected = Embedding(case.kernel, regularisation=case.noise).fit(samples)
    np.testing.assert_allclose(model.similarity_.matrix, expected.matrix, rtol=1e-12)


def test_a_similarity_object_of_the_user_is_asked(case: Case) -> None:
    class Halves:
        def fit(self, log: Samples) -> FloatArray:
            M = len(log.stations)
            return 0.5 + 0.5 * np.eye(M)

    model = case.model(similarity=Halves()).fit(case.X, case.y, task=case.labels)
    assert model.similarity_.between("a", "c") == 0.5


def test_partial_fit_after_fit_equals_fit_on_all_rows(case: Case) -> None:
    noise = np.where(case.tasks == 1, np.nan, 0.07)
    every = case.model(task="station").fit(case.frame, case.y, noise=noise)
    parts = case.model(task="station")
    for rows in (slice(0, 12), slice(12, 13), slice(13, 30)):
        assert parts.partial_fit(case.frame[rows], case.y[rows], noise=noise[rows]) is parts
    for result in ("return_std", "return_cov"):
        for expected, got in zip(
            every.predict(case.frame, **{result: True}), parts.predict(case.frame, **{result: True}), strict=True
        ):
            np.testing.assert_allclose(got, expected, atol=1e-9)
    np.testing.assert_allclose(parts.log_marginal_likelihood_value_, every.log_marginal_likelihood_value_, rtol=1e-9)


def test_partial_fit_counts_rows_without_a_noise_of_their_own_as_such(case: Case) -> None:
    model = case.model(task="station").fit(case.frame[:20], case.y[:20])
    model.partial_fit(case.frame[20:], case.y[20:], noise=0.4)
    noise = np.where(np.arange(30) < 20, np.nan, 0.4)
    every = case.model(task="station").fit(case.frame, case.y, noise=noise)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, every.log_marginal_likelihood_value_, rtol=1e-9)


def test_partial_fit_leaves_kernel_noise_mean_and_similarity_alone() -> None:
    case = Case(7)
    model = MultiTaskRegressor(task="station", similarity="embedding", starts=1, random_state=0)
    model.fit(case.frame[:20], case.y[:20])
    before = (model.kernel_, model.noise_, model.mean_, model.similarity_)
    model.partial_fit(case.frame[20:], 5.0 + case.y[20:])
    assert before == (model.kernel_, model.noise_, model.mean_, model.similarity_)
    assert len(model.posterior_) == 30


def test_partial_fit_takes_in_a_new_station_as_a_newcomer_and_learns_its_rows(case: Case) -> None:
    model = case.model(task="station", similarity="pooled").fit(case.frame, case.y)
    stranger = case.frame[:2].assign(station=["a", "z"])
    before = model.predict(stranger, return_std=True)
    model.partial_fit(stranger, case.y[:2] + 1.0)
    assert model.stations_ == (*sorted(set(case.labels)), "z")
    assert model.similarity_.between("a", "z") == pytest.approx(np.sqrt(1 - OWN))
    after = model.predict(stranger, return_std=True)
    assert (after[1] < before[1]).all()
    assert after[0][1] > before[0][1]


def test_partial_fit_of_wrong_noise_takes_in_nobody(case: Case) -> None:
    model = case.model(task="station").fit(case.frame, case.y)
    with pytest.raises(BadInputError):
        model.partial_fit(case.frame[:2].assign(station="z"), case.y[:2], noise=-1.0)
    assert "z" not in model.stations_


def test_noise_is_left_out_of_widths_unless_asked_for(case: Case) -> None:
    model = case.model(task="station").fit(case.frame, case.y)
    _, std = model.predict(case.frame, return_std=True)
    _, noisy_std = model.predict(case.frame, return_std=True, include_noise=True)
    _, covariance = model.predict(case.frame, return_cov=True)
    _, noisy_covariance = model.predict(case.frame, return_cov=True, include_noise=True)
    np.testing.assert_allclose(np.diag(covariance), std**2, atol=1e-10)
    np.testing.assert_allclose(noisy_std**2, std**2 + case.noise, rtol=1e-12)
    np.testing.assert_allclose(noisy_covariance, covariance + case.noise * np.eye(30), atol=1e-12)


def test_samples_have_the_mean_and_the_covariance_of_the_prediction(case: Case) -> None:
    model = case.model().fit(case.X, case.y, task=case.labels)
    size = 4000
    draws = model.sample_y(case.new_X, size, 11, task=case.new_labels)
    assert draws.shape == (7, size)
    mean, covariance = model.predict(case.new_X, task=case.new_labels, return_cov=True)
    variances = np.diag(covariance)
    # Standard errors: of a mean √(v/N); of a covariance √((v_i v_j + c_ij²)/N). Five of them for 7 + 49 comparisons.
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variances / size))
    errors = np.sqrt((np.outer(variances, variances) + covariance**2) / size)
    assert np.all(np.abs(np.cov(draws) - covariance) < 5 * errors)


def test_samples_depend_on_the_seed_alone(case: Case) -> None:
    model = case.model().fit(case.X, case.y, task=case.labels)
    one, same, other = (model.sample_y(case.new_X, 3, seed, task=case.new_labels) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    one, same = (model.sample_y(case.new_X, 3, np.random.default_rng(8), task="a") for _ in range(2))
    np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("similarity", ["independent", "pooled", "embedding"])
def test_optimising_raises_the_likelihood_and_lowers_the_error(similarity: str) -> None:
    case = Case(9, n=60)
    kernel = RBF([5.0, 0.05])  # far from what the rows call for
    fixed = MultiTaskRegressor(kernel, task="station", similarity=similarity, optimise=False)
    with pytest.warns(BoundWarning):  # power does not matter: its length-scale grows to the bound
        fitted = MultiTaskRegressor(kernel, task="station", similarity=similarity, random_state=0).fit(
            case.frame, case.y
        )
    fixed.fit(case.frame, case.y)
    assert fitted.log_marginal_likelihood_value_ > fixed.log_marginal_likelihood_value_ + 10
    test = Case(10, n=60)
    assert fitted.score(test.frame, test.y) > fixed.score(test.frame, test.y)


def test_numbers_given_for_noise_and_mean_are_kept_and_others_are_fitted() -> None:
    case = Case(11)
    kept = MultiTaskRegressor(task="station", noise=0.23, mean=-0.4, starts=1).fit(case.frame, case.y)
    free = MultiTaskRegressor(task="station", starts=1).fit(case.frame, case.y)
    assert (kept.noise_, kept.mean_) == (0.23, -0.4)
    assert free.noise_ < 0.1  # rows were made with variance 0.01
    assert free.mean_ not in (-0.4, float(np.mean(case.y)))


def test_without_optimising_noise_and_mean_come_from_the_rewards(case: Case) -> None:
    model = MultiTaskRegressor(case.kernel, optimise=False).fit(case.X, case.y)
    assert model.kernel_ == case.kernel
    np.testing.assert_allclose([model.noise_, model.mean_], [np.var(case.y) / 5, np.mean(case.y)])


def test_nothing_free_is_nothing_to_optimise(case: Case) -> None:
    kernel = RBF(0.7, variance=1.7, fixed=("length_scale", "variance"))
    model = case.model(optimise=True).set_params(kernel=kernel).fit(case.X, case.y, task=case.labels)
    assert (model.kernel_.length_scale, model.kernel_.variance) == (0.7, 1.7)


def test_the_default_kernel_does_not_care_about_units() -> None:
    case = Case(12, n=40)
    scaled = case.frame.assign(load=2e4 * case.frame["load"] - 7e4, power=1e-3 * case.frame["power"])
    model = MultiTaskRegressor(task="station", similarity="pooled", optimise=False)
    mean, std = model.fit(case.frame, case.y).predict(case.frame, return_std=True)
    scaled_mean, scaled_std = model.fit(scaled, 300 * case.y + 5000).predict(scaled, return_std=True)
    np.testing.assert_allclose(scaled_mean, 300 * mean + 5000, rtol=1e-9)
    np.testing.assert_allclose(scaled_std, 300 * std, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_units_do_not_decide_how_well_the_default_kernel_is_fitted(seed: int) -> None:
    case = Case(seed, n=40)
    scaled = case.frame.assign(load=2e4 * case.frame["load"] - 7e4, power=1e-3 * case.frame["power"])
    model = MultiTaskRegressor(task="station", similarity="pooled", starts=1)
    plain = model.fit(case.frame, case.y).log_marginal_likelihood_value_
    other = model.fit(scaled, 300 * case.y + 5000).log_marginal_likelihood_value_
    # Rewards 300 times as large have densities 300 times as small; bounds differ, so optima may a little.
    assert abs(other + 40 * np.log(300) - plain) < 0.1


def test_equal_rewards_are_predicted_as_they_are() -> None:
    model = MultiTaskRegressor(starts=1).fit(Case(1).X, np.full(30, 4.5))
    np.testing.assert_allclose(model.predict(Case(2).X), 4.5, atol=1e-3)


def test_columns_of_a_kernel_are_named_or_counted_without_the_task_column() -> None:
    case = Case(13)
    frame = case.frame.assign(vendor=case.rng.integers(0, 3, size=30))
    named = RBF(0.7, columns=["power"]) * Categorical(0.6, columns=["vendor"])
    counted = RBF(0.7, columns=[1]) * Categorical(0.6, columns=[2])
    models = [
        MultiTaskRegressor(k, task="station", optimise=False, random_state=0).fit(frame, case.y)
        for k in (named, counted)
    ]
    np.testing.assert_array_equal(models[0].predict(frame), models[1].predict(frame))
    assert MultiTaskRegressor(task="station", starts=1).fit(frame, case.y).kernel_.names == (
        "rbf.length_scale[load]",
        "rbf.length_scale[power]",
        "rbf.length_scale[vendor]",
        "rbf.variance",
        "constant.variance",
    )


def test_the_engine_can_be_chosen_and_does_not_change_predictions(case: Case) -> None:
    exact = case.model().fit(case.X, case.y, task=case.labels)
    schur = case.model(engine="schur").fit(case.X, case.y, task=case.labels)
    grouped = case.model(similarity="independent").fit(case.X, case.y, task=case.labels)
    kinds = [{type(block) for block in model.posterior_.blocks} for model in (exact, schur, grouped)]
    assert kinds == [{ExactPosterior}, {SchurPosterior}, {ExactPosterior}]
    assert len(grouped.posterior_.blocks) > len(exact.posterior_.blocks) == 1
    np.testing.assert_allclose(
        schur.predict(case.new_X, task=case.new_labels), exact.predict(case.new_X, task=case.new_labels), rtol=1e-8
    )


def test_the_random_state_decides_the_fit() -> None:
    case = Case(14, n=60)
    model = MultiTaskRegressor(task="station", starts=2, max_rows=20, random_state=1)
    first, again = (model.fit(case.frame, case.y).kernel_.theta for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = model.set_params(random_state=2).fit(case.frame, case.y)
    assert not np.allclose(other.kernel_.theta, first)
    assert len(other.posterior_) == 60


def test_columns_and_their_names_are_remembered() -> None:
    case = Case(15)
    model = case.model(task="station").fit(case.frame, case.y)
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["load", "station", "power"]
    assert not hasattr(case.model().fit(case.X, case.y, task=case.labels), "feature_names_in_")


BAD_FITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"task": "site"}, {}, "X has no column named 'site': it has load, station, power"),
    ({"task": 3}, {}, "X has 3 columns, so there is no column 3"),
    ({"task": 1.5}, {}, "task must be the name or the position of a column, got 1.5"),
    ({"task": True}, {}, "task must be the name or the position of a column, got True"),
    ({}, {"task": ["a"] * 30}, "the station is column 'station' of X: leave task= out"),
    ({"noise": "auto"}, {}, "noise must be a number or 'fit', got 'auto'"),
    ({"noise": 0.0}, {}, "noise must be above zero"),
    ({"mean": "zero"}, {}, "mean must be a number or 'fit', got 'zero'"),
    ({"mean": float("nan")}, {}, "mean must be finite"),
    ({"starts": 0, "optimise": True}, {}, "starts must be at least 1"),
    ({"engine": "fast"}, {}, "unknown engine 'fast'"),
    ({"similarity": np.eye(4)}, {}, "one row for each of 3 stations, got 4"),
    ({"kernel": "rbf"}, {}, "a kernel must be one of"),
    ({}, {"noise": -0.1}, "noise is a variance and must be above zero"),
    ({}, {"noise": np.ones(4)}, "expected the noise variance of each of 30 rows"),
]


@pytest.mark.parametrize(("settings", "arguments", "message"), BAD_FITS)
def test_a_fit_that_cannot_be_says_why(settings: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    case = Case(16)
    model = case.model(task="station").set_params(**settings)
    with pytest.raises(BadInputError, match=message):
        model.fit(case.frame, case.y, **arguments)


BAD_LABELS: list[tuple[Any, str]] = [
    (None, "row 1 has no station"),
    (float("nan"), "row 1 has no station"),
    (pd.NA, "row 1 has no station"),
    ("", "row 1 has no station"),
    (2.5, "row 1 has 2.5 for a station: a label must be text or a whole number"),
    (float("inf"), "row 1 has inf for a station"),
    (("a", 1), "for a station: a label must be text"),
]


@pytest.mark.parametrize(("label", "message"), BAD_LABELS)
def test_a_label_that_names_no_station_is_refused(label: Any, message: str) -> None:
    case = Case(17)
    labels = case.labels.astype(object)
    labels[1] = label
    with pytest.raises(BadInputError, match=message):
        case.model().fit(case.X, case.y, task=labels)
    with pytest.raises(BadInputError, match=message):
        case.model(task="station").fit(case.frame.assign(station=labels), case.y)


def test_rows_without_stations_go_with_no_similarity() -> None:
    case = Case(18)
    with pytest.raises(BadInputError, match="not whose row is whose"):
        case.model().fit(case.X, case.y)
    with pytest.raises(NotFoundError, match="no similarity is called 'magic'"):
        case.model(similarity="magic").fit(case.X, case.y)


def test_names_of_columns_need_a_frame_and_the_task_column_needs_company() -> None:
    case = Case(19)
    with pytest.raises(BadInputError, match="no column named 'station': give a data frame, or the column's position"):
        case.model(task="station").fit(case.frame.to_numpy(), case.y)
    with pytest.raises(BadInputError, match="the task column 'station' alone"):
        case.model(task="station").fit(case.frame[["station"]], case.y)


def test_a_task_matrix_must_know_the_stations_of_the_rows() -> None:
    case = Case(20)
    alike = TaskMatrix(("a", "b"), np.eye(2), "given")
    with pytest.raises(NotFoundError, match="station 'c' is not among the 2 of the task matrix"):
        case.model(task="station", similarity=alike).fit(case.frame, case.y)


# --- Stations that were never fitted -------------------------------------------------------------------------


def city(seed: int, *, own: float, stations: int = 12, rows: int = 24) -> tuple[pd.DataFrame, FloatArray]:
    """Rewards of stations that share one function of the load; each adds one of its own, `own` times as large."""
    rng = np.random.default_rng(seed)
    load = rng.random((stations, rows))
    shift = own * rng.normal(size=(stations, 1)) * np.cos(3 * load + rng.uniform(0, 6, (stations, 1)))
    y = np.sin(5 * load) + shift + 0.05 * rng.normal(size=load.shape)
    names = np.repeat([f"s{m:02d}" for m in range(stations)], rows)
    return pd.DataFrame({"station": names, "load": load.ravel()}), y.ravel()


def test_cross_validation_over_stations_tells_which_sharing_predicts_the_next_one() -> None:
    frame, y = city(1, own=0.3)

    def scores(similarity: str) -> FloatArray:
        model = MultiTaskRegressor(task="station", similarity=similarity, starts=1, random_state=0)
        found: FloatArray = cross_val_score(model, frame, y, groups=frame["station"], cv=GroupKFold(4))
        return found

    assert scores("coregionalisation").min() > 0.7
    assert scores("independent").max() < 0.1  # nothing is known of a station that shares nothing


def test_an_unseen_station_does_not_depend_on_who_else_is_unseen(case: Case) -> None:
    model = case.model(task="station", similarity="pooled").fit(case.frame, case.y)
    rows = case.frame[:6].assign(station=["a", "z", "y", "z", "x", "b"])
    mean, cov = model.predict(rows, return_cov=True)
    for place in range(len(rows)):
        alone, std = model.predict(rows[place : place + 1], return_std=True)
        assert (mean[place], cov[place, place]) == pytest.approx((alone[0], std[0] ** 2))
    again, std = model.predict(case.frame[:6].assign(station=["a", "x", "y", "x", "w", "b"]), return_std=True)
    np.testing.assert_allclose(again, mean)
    same = model.predict(rows.assign(load=0.5, power=0.5, station=["z", "z", "y", "y", "y", "y"]), return_cov=True)[1]
    assert same[0, 1] > same[0, 2]  # two unseen stations have parts that nobody shares
    assert model.stations_ == ("a", "b", "c")  # asking changes nothing
    assert model.sample_y(rows, 3).shape == (6, 3)


def test_the_average_newcomer_is_predicted_as_the_reference_has_it(case: Case) -> None:
    K_Z = 0.6 + 0.4 * np.eye(3)
    model = case.model(task="station", similarity=K_Z).fit(case.frame, case.y)
    longer = TaskMatrix(("a", "b", "c", "z"), 0.6 + 0.4 * np.eye(4), "given")
    known = case.model(task="station", similarity=longer).fit(case.frame, case.y)
    rows = case.frame[:5].assign(station="z")
    np.testing.assert_allclose(model.predict(rows, return_std=True), known.predict(rows, return_std=True))


def test_descriptors_say_whom_an_unseen_station_resembles() -> None:
    frame, y = city(3, own=0.0, stations=10)
    hill = frame["station"].isin([f"s{m:02d}" for m in range(5)])
    y = np.where(hill, y + 1.0, y - 1.0)
    described = {name: {"height": 30.0 if name < "s05" else 3.0} for name in sorted(set(frame["station"]))}
    described |= {"high": {"height": 29.0}, "low": {"height": 4.0}}
    K_Z = np.where(np.arange(10)[:, None] // 5 == np.arange(10) // 5, 0.95, 0.1) + 0.05 * np.eye(10)
    settings: dict[str, Any] = {"task": "station", "similarity": K_Z, "mean": 0.0, "starts": 1, "random_state": 0}
    rows = pd.DataFrame({"station": ["high", "low", "unheard of"], "load": [0.5] * 3})
    high, low, nobody = MultiTaskRegressor(**settings, descriptors=described).fit(frame, y).predict(rows)
    truth = np.sin(2.5)
    assert abs(high - truth - 1.0) < 0.3
    assert abs(low - truth + 1.0) < 0.3
    assert low < nobody < high
    with pytest.raises(BadInputError) as caught:
        MultiTaskRegressor(**settings | {"descriptors": [1]}).fit(frame, y)
    assert caught.value.argument == "descriptors"


def test_task_must_be_given_at_predict_as_it_was_at_fit() -> None:
    case = Case(22)
    with pytest.raises(BadInputError, match="fitted with task=: say here too"):
        case.model().fit(case.X, case.y, task=case.labels).predict(case.X)
    with pytest.raises(BadInputError, match="fitted without stations: leave task= out"):
        case.model(similarity="pooled").fit(case.X, case.y).predict(case.X, task="a")
    with pytest.raises(BadInputError, match="one station for each of 30 rows, got task of shape"):
        case.model().fit(case.X, case.y, task=case.labels[:4])


def test_std_and_cov_cannot_both_be_asked_for_nor_anything_before_the_fit() -> None:
    case = Case(23)
    model = case.model()
    with pytest.raises(NotFittedError):
        model.predict(case.X)
    assert not hasattr(model, "log_marginal_likelihood_value_")
    with pytest.raises(BadInputError, match="not both"):
        model.fit(case.X, case.y, task=case.labels).predict(case.X, task="a", return_std=True, return_cov=True)


def test_a_bound_reached_by_a_kernel_of_the_user_is_reported() -> None:
    case = Case(24)
    with pytest.warns(BoundWarning, match="length_scale"):
        model = MultiTaskRegressor(RBF([0.7, 0.7], length_scale_bounds=(0.6, 0.8)), starts=1).fit(case.X, case.y)
    assert "rbf.length_scale[x1]" in model.at_bound_
