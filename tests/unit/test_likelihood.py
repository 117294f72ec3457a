"""The marginal likelihood against SciPy's normal density, and what a fit promises."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import (
    RBF,
    FactorTasks,
    FixedTasks,
    GaussianTasks,
    Kernel,
    Linear,
    Matern52,
    MultiTaskKernel,
    SklearnKernel,
)
from kinband.likelihood import (
    BoundWarning,
    Fit,
    FitProblem,
    Shocks,
    fit,
    log_marginal_likelihood,
    spread_rows,
    starting_kernel,
    value_and_gradient,
)
from kinband.model import learn_model
from kinband.records import Samples

ONE_TASK = FixedTasks(np.eye(1))


def make_log(
    rng: np.random.Generator,
    kernel: Kernel,
    K_Z: FloatArray,
    *,
    n: int,
    d: int = 1,
    noise: float = 0.1,
    mean: float = 0.0,
) -> Samples:
    """A log drawn from the model itself, contexts uniform in [0, 10]^d."""
    tasks = rng.integers(0, len(K_Z), size=n)
    X = rng.uniform(0, 10, size=(n, d))
    S = MultiTaskKernel(kernel, K_Z).cross(tasks, X, tasks, X) + noise * np.eye(n)
    y = mean + np.linalg.cholesky(S) @ rng.standard_normal(n)
    names = tuple(f"x{j}" for j in range(d))
    return Samples(tuple(f"s{m}" for m in range(len(K_Z))), tasks, X, y, None, names)


def with_noise(log: Samples, noise: FloatArray) -> Samples:
    return replace(log, noise=noise)


# The value


@pytest.mark.parametrize("seed", range(8))
def test_likelihood_equals_the_normal_density_with_noise_per_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M, n = 4, 15
    kernel = RBF(rng.uniform(0.5, 3, size=2), variance=rng.uniform(0.3, 3)) + Linear(rng.uniform(0.01, 0.1))
    # Dense, in two groups, all apart: the value must not depend on how rows are grouped.
    A = rng.normal(size=(M, M)) * [np.ones((M, M)), np.kron(np.eye(2), np.ones((2, 2))), np.eye(M)][seed % 3]
    K_Z = A @ A.T + 0.1 * np.eye(M)
    log = make_log(rng, kernel, K_Z, n=n, d=2)
    own = rng.uniform(0.05, 1.0, size=n)
    own[rng.random(n) < 0.4] = np.nan
    noise, mean = rng.uniform(0.05, 1.0), rng.normal()
    S = MultiTaskKernel(kernel, K_Z).cross(log.tasks, log.X, log.tasks, log.X)
    for samples, D in [(log, np.full(n, noise)), (with_noise(log, own), noise + np.nan_to_num(own))]:
        expected = multivariate_normal(np.full(n, mean), S + np.diag(D)).logpdf(samples.y)
        arguments: dict[str, Any] = {"tasks": FixedTasks(K_Z), "noise": noise, "mean": mean}
        assert log_marginal_likelihood(samples, kernel, **arguments) == pytest.approx(expected, rel=1e-9)
        assert value_and_gradient(samples, kernel, **arguments)[0] == pytest.approx(expected, rel=1e-9)


def test_gradient_to_the_noise_counts_rows_with_a_noise_of_their_own_too() -> None:
    rng = np.random.default_rng(3)
    kernel = RBF(1.3, variance=0.8)
    log = with_noise(make_log(rng, kernel, np.eye(1), n=6), np.array([0.2, np.nan, 0.4, 0.1, np.nan, 0.3]))
    _, gradient = value_and_gradient(log, kernel, tasks=ONE_TASK, noise=0.7, mean=0.1)
    step = 1e-5
    above, below = (
        log_marginal_likelihood(log, kernel, tasks=ONE_TASK, noise=0.7 * np.exp(s), mean=0.1) for s in (step, -step)
    )
    assert gradient[-2] == pytest.approx((above - below) / (2 * step), rel=1e-6)


def test_kernels_with_named_columns_are_bound_to_the_log() -> None:
    rng = np.random.default_rng(4)
    log = make_log(rng, RBF(1.3, columns=[1]), np.eye(1), n=6, d=2)
    named, numbered = (
        log_marginal_likelihood(log, RBF(1.3, columns=[c]), tasks=ONE_TASK, noise=0.2, mean=0.0) for c in ("x1", 1)
    )
    assert named == numbered


def test_duplicate_contexts_without_noise_are_an_error_that_names_the_remedy() -> None:
    log = Samples(("a",), np.zeros(2, dtype=np.int64), np.ones((2, 1)), np.array([0.3, 0.4]), np.zeros(2), ("x",))
    with pytest.raises(NotPositiveDefiniteError, match="raise the noise"):
        log_marginal_likelihood(log, RBF(0.5), tasks=ONE_TASK, noise=1e-20, mean=0.0)


def test_bad_arguments_are_refused_in_one_sentence() -> None:
    rng = np.random.default_rng(5)
    log = make_log(rng, RBF(1.3), np.eye(2), n=4)
    good: dict[str, Any] = {"tasks": FixedTasks(np.eye(2)), "noise": 0.1, "mean": 0.0}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"tasks": ONE_TASK}, "log has 2 stations, the task model 1"),
        ({"noise": 0.0}, "noise must be above zero"),
        ({"mean": np.nan}, "mean must be finite"),
    ]
    for change, message in changes:
        with pytest.raises(BadInputError, match=message):
            log_marginal_likelihood(log, RBF(1.3), **(good | change))
    with pytest.raises(BadInputError, match="no rows"):
        log_marginal_likelihood(log.take(np.empty(0, dtype=np.int64)), RBF(1.3), **good)
    with pytest.raises(BadInputError, match=r"must not be negative, got -0\.5"):
        log_marginal_likelihood(with_noise(log, np.array([0.1, -0.5, np.nan, 0.2])), RBF(1.3), **good)


@pytest.mark.parametrize("large", [1.7e308, -1e160, 1e151])
def test_rewards_whose_squares_overflow_are_refused_with_their_row(large: float) -> None:
    rng = np.random.default_rng(6)
    log = make_log(rng, RBF(1.3), np.eye(2), n=9)
    odd = replace(log, y=np.where(np.arange(9) == 4, large, log.y))
    for learn in (
        lambda: starting_kernel(odd),
        lambda: fit(odd, RBF(1.3), tasks=FixedTasks(np.eye(2)), rng=rng),
        lambda: learn_model(odd, "joint", rng=rng),
    ):
        with pytest.raises(BadInputError, match=r"the reward is \S+ in row 5 of those learned from.*: leave out rows"):
            learn()


def test_rewards_in_any_unit_that_can_be_squared_are_learned_from() -> None:
    rng = np.random.default_rng(7)
    log = make_log(rng, RBF(1.3), np.eye(2), n=12)
    for unit in (1e149, 1e-149):
        assert np.isfinite(learn_model(replace(log, y=unit * log.y), "pooled", rng=rng).noise)


# The fit


@dataclass(frozen=True)
class Truth:
    """Parameters that made a log, and the standard errors that their estimates have on it."""

    theta: FloatArray
    errors: FloatArray


def fisher_truth(log: Samples, kernel: Kernel, K_Z: FloatArray, noise: float) -> Truth:
    """Standard errors of (theta, log noise) from the Fisher information ½ tr(S⁻¹ ∂S S⁻¹ ∂S) at the truth."""
    theta = np.append(kernel.theta, np.log(noise))

    def S(z: FloatArray) -> FloatArray:
        cross = MultiTaskKernel(kernel.with_theta(z[:-1]), K_Z).cross(log.tasks, log.X, log.tasks, log.X)
        return cross + float(np.exp(z[-1])) * np.eye(len(log))

    steps = 1e-5 * np.eye(len(theta))
    slopes = [np.linalg.solve(S(theta), (S(theta + h) - S(theta - h)) / 2e-5) for h in steps]
    information = np.array([[0.5 * np.sum(a * b.T) for b in slopes] for a in slopes])
    return Truth(theta, np.sqrt(np.diag(np.linalg.inv(information))))


def test_fit_recovers_length_scale_variance_and_noise_within_standard_errors() -> None:
    rng = np.random.default_rng(11)
    kernel = RBF(0.6, variance=1.4)
    log = make_log(rng, kernel, np.eye(1), n=250, noise=0.05, mean=0.7)
    truth = fisher_truth(log, kernel, np.eye(1), 0.05)
    assert truth.errors.max() < 0.5  # the log is informative enough for the test to mean something
    found = fit(log, RBF(3.0, variance=0.2), tasks=ONE_TASK, rng=rng, starts=2)
    estimate = np.append(found.kernel.theta, np.log(found.noise))
    # Three normal estimates: all within 3.5 standard errors but for 1 seed in 700.
    assert (np.abs(estimate - truth.theta) < 3.5 * truth.errors).all()
    assert found.converged
    assert found.at_bound == ()
    assert (found.starts, found.rows) == (2, 250)
    given: dict[str, Any] = {"tasks": found.tasks, "noise": found.noise, "mean": found.mean}
    value, gradient = value_and_gradient(log, found.kernel, **given)
    assert value == pytest.approx(found.log_likelihood, rel=1e-10)
    assert np.abs(gradient).max() < 0.05  # flat there, on a scale on which one standard error changes it by 1/2
    at_truth = log_marginal_likelihood(log, kernel, tasks=ONE_TASK, noise=0.05, mean=0.7)
    assert found.log_likelihood > at_truth


def test_fitted_mean_is_the_generalised_least_squares_mean() -> None:
    rng = np.random.default_rng(12)
    kernel = Matern52(0.9, variance=0.7, fixed=("length_scale", "variance"))
    log = make_log(rng, kernel, np.eye(1), n=30, noise=0.1, mean=-2.0)
    found = fit(log, kernel, tasks=ONE_TASK, rng=rng, noise=0.1, fit_noise=False, starts=1)
    S = kernel(log.X, log.X) + 0.1 * np.eye(30)
    weights = np.linalg.solve(S, np.ones(30))
    assert found.mean == pytest.approx(weights @ log.y / weights.sum(), abs=1e-4)
    assert (found.noise, found.kernel) == (0.1, kernel)


@pytest.mark.parametrize("unit", [0.04, 30.0])
def test_fit_of_rewards_in_other_units_is_the_same_fit(unit: float) -> None:
    rng = np.random.default_rng(26)
    log = make_log(rng, RBF(0.9, variance=1.3), np.eye(1), n=60, noise=0.1, mean=4.0)
    scaled = replace(log, y=unit * log.y)
    arguments: dict[str, Any] = {"tasks": ONE_TASK, "rng": rng, "starts": 1}
    found = fit(log, RBF(2.0, variance=0.6), **arguments)
    other = fit(scaled, RBF(2.0, variance=0.6 * unit**2), **arguments)
    # y → unit · y multiplies the density by 1/unit for each row, and changes nothing else.
    assert other.log_likelihood == pytest.approx(found.log_likelihood - 60 * np.log(unit), abs=1e-4)
    assert other.mean / unit == pytest.approx(found.mean, abs=0.02)  # its standard error is about 0.4
    np.testing.assert_allclose(other.kernel.theta - [0, 2 * np.log(unit)], found.kernel.theta, atol=0.02)


@pytest.mark.parametrize(("fit_noise", "fit_mean"), [(True, True), (False, True), (True, False)])
def test_gradient_of_the_search_is_the_slope_in_its_own_units(fit_noise: bool, fit_mean: bool) -> None:
    rng = np.random.default_rng(27)
    kernel = RBF(0.9, fixed=("variance",))
    log = make_log(rng, kernel, np.eye(3), n=20, noise=0.1)
    tasks = FactorTasks(rng.normal(0.0, 7.0, size=(3, 2)), rng.uniform(5.0, 50.0, size=3))
    log = replace(log, y=7.0 * log.y + 3.0)
    problem = FitProblem(log, kernel, tasks, 4.0, 2.0, free=(True, fit_noise, fit_mean))
    z = problem.starts(1, rng)[0]
    assert len(z) == 1 + 9 + fit_noise + fit_mean
    _, gradient = problem.value_and_gradient(z)
    steps = 1e-5 * np.eye(len(z))
    slopes = [(problem.value_and_gradient(z + h)[0] - problem.value_and_gradient(z - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)
    assert problem.unpack(z)[2:4] == pytest.approx((4.0, 2.0))


def test_shocks_are_found_or_kept_as_given() -> None:
    rng = np.random.default_rng(31)
    log = make_log(rng, RBF(0.9, variance=1.0), np.eye(2), n=160, noise=0.05)
    days = np.arange(160) % 20
    log = replace(log, y=log.y + 1.5 * rng.normal(size=20)[days], days=days, spells=np.arange(160))
    arguments: dict[str, Any] = {"tasks": FixedTasks(np.eye(2)), "rng": rng, "starts": 1}
    found = fit(log, RBF(0.9, variance=1.0), **arguments)
    assert found.shocks is not None
    assert 0.6 < found.shocks.day < 6.0  # 2.25, and its standard deviation over 20 days is 0.7
    given = Shocks(day=0.3, spell=0.01)
    assert fit(log, RBF(0.9, variance=1.0), shocks=given, **arguments).shocks == given


def test_factor_tasks_learn_which_stations_are_alike() -> None:
    rng = np.random.default_rng(13)
    K_Z = np.array([[1.0, 0.95, 0.0], [0.95, 1.0, 0.0], [0.0, 0.0, 1.0]])
    kernel = RBF(1.0, fixed=("variance",))
    log = make_log(rng, kernel, K_Z, n=150, noise=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)  # an own variance may vanish
        found = fit(log, kernel, tasks=FactorTasks(np.full((3, 1), 0.5), np.full(3, 0.5)), rng=rng)
    C = found.tasks.K_Z / np.sqrt(np.outer(np.diag(found.tasks.K_Z), np.diag(found.tasks.K_Z)))
    # Some 10 independent stretches of one length-scale each: a correlation has a standard error of about
    # (1 − ρ²)/√10, that is 0.03 at 0.95 and 0.32 at 0.
    assert C[0, 1] > 0.95 - 3 * 0.03
    assert max(abs(C[0, 2]), abs(C[1, 2])) < 3 * 0.32


def test_gaussian_tasks_learn_how_much_to_share() -> None:
    rng = np.random.default_rng(14)
    D2 = np.array([[0.0, 1.0], [1.0, 0.0]])
    kernel = RBF(1.0, fixed=("length_scale", "variance"))
    widths = []
    for similarity in (0.98, 0.1):
        log = make_log(rng, kernel, np.array([[1.0, similarity], [similarity, 1.0]]), n=120, noise=0.02)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundWarning)
            found = fit(log, kernel, tasks=GaussianTasks(D2, 0.7), rng=rng, noise=0.02, fit_noise=False)
        widths.append(found.tasks.K_Z[0, 1])
    assert widths[0] > 0.98 - 3 * (1 - 0.98**2) / np.sqrt(10)
    assert widths[1] < 0.1 + 3 / np.sqrt(10)


def test_more_starts_never_end_lower() -> None:
    rng = np.random.default_rng(15)
    log = make_log(rng, RBF(0.5), np.eye(1), n=60, noise=0.1)
    arguments: dict[str, Any] = {"tasks": ONE_TASK, "noise": 2.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        values = [
            fit(log, RBF(300.0), rng=np.random.default_rng(1), starts=starts, **arguments).log_likelihood
            for starts in (1, 4)
        ]
    assert values[1] >= values[0]


def test_same_generator_state_gives_the_same_fit() -> None:
    log = make_log(np.random.default_rng(16), RBF(0.8), np.eye(2), n=50)
    a, b = (
        fit_quietly(log, RBF(0.8), tasks=FixedTasks(np.eye(2)), rng=np.random.default_rng(2), max_rows=30) for _ in "ab"
    )
    assert a.kernel == b.kernel
    assert (a.noise, a.mean, a.log_likelihood) == (b.noise, b.mean, b.log_likelihood)


def fit_quietly(log: Samples, kernel: Kernel, **arguments: Any) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        return fit(log, kernel, **arguments)


def test_a_column_that_does_not_matter_is_reported_at_its_bound_in_one_warning() -> None:
    rng = np.random.default_rng(17)
    log = make_log(rng, RBF(1.5, columns=[0]), np.eye(1), n=80, d=2, noise=0.01)
    kernel = RBF([1.5, 1.5], columns=["x0", "x1"], length_scale_bounds=(0.1, 15.0))
    with pytest.warns(BoundWarning, match=r"at a bound of rbf\.length_scale\[x1\]:") as caught:
        found = fit(log, kernel, tasks=ONE_TASK, rng=rng, starts=2)
    assert len(caught) == 1
    assert found.at_bound == ("rbf.length_scale[x1]",)


def test_a_warning_about_many_bounds_stays_one_short_sentence() -> None:
    rng = np.random.default_rng(28)
    log = make_log(rng, RBF(1.5, columns=[0]), np.eye(1), n=40, d=7, noise=0.01)
    kernel = RBF([1.5, *[20.0] * 6], length_scale_bounds=(0.1, 20.0))
    with pytest.warns(BoundWarning, match=r"\] and \d+ more: widen"):
        found = fit(log, kernel, tasks=ONE_TASK, rng=rng, starts=1)
    assert len(found.at_bound) > 4


def test_known_noise_takes_its_part_of_the_fitted_one() -> None:
    rng = np.random.default_rng(18)
    log = make_log(rng, RBF(0.8), np.eye(1), n=60, noise=0.3)
    alone = fit_quietly(log, RBF(0.8), tasks=ONE_TASK, rng=np.random.default_rng(1))
    known = alone.noise * 0.4
    rest = fit_quietly(with_noise(log, np.full(60, known)), RBF(0.8), tasks=ONE_TASK, rng=np.random.default_rng(1))
    assert rest.noise + known == pytest.approx(alone.noise, rel=1e-2)
    assert rest.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-3)


def test_scikit_learn_kernels_are_fitted_too() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as sk

    rng = np.random.default_rng(19)
    log = make_log(rng, RBF(0.9, variance=1.6), np.eye(1), n=60, noise=0.1)
    obj = sk.ConstantKernel(0.8) * sk.RBF(2.0)
    ours = fit(
        log, SklearnKernel(obj), tasks=ONE_TASK, rng=rng, noise=0.1, mean=0.0, fit_noise=False, fit_mean=False, starts=1
    )
    theirs = GaussianProcessRegressor(obj, alpha=0.1).fit(log.X, log.y)
    assert ours.log_likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-4)
    np.testing.assert_allclose(ours.kernel.theta, theirs.kernel_.theta, atol=1e-2)


@pytest.mark.parametrize("y", [[0.7], [0.7, 0.7, 0.7], [0.0, 0.0], [1e6, 1e6], [0.2, 0.9]])
def test_fits_of_next_to_nothing_do_not_crash(y: list[float]) -> None:
    n = len(y)
    log = Samples(("a",), np.zeros(n, dtype=np.int64), np.linspace(0, 1, n)[:, None], np.array(y), None, ("x",))
    found = fit_quietly(log, RBF(0.5), tasks=ONE_TASK, rng=np.random.default_rng(0))
    assert np.isfinite([found.log_likelihood, found.noise, found.mean]).all()
    assert found.noise > 0


def test_nothing_free_means_nothing_moves() -> None:
    rng = np.random.default_rng(20)
    kernel = RBF(0.8, fixed=("length_scale", "variance"))
    log = make_log(rng, kernel, np.eye(1), n=10)
    found = fit(log, kernel, tasks=ONE_TASK, rng=rng, noise=0.2, mean=0.3, fit_noise=False, fit_mean=False)
    assert (found.kernel, found.noise, found.mean) == (kernel, 0.2, 0.3)
    expected = log_marginal_likelihood(log, kernel, tasks=ONE_TASK, noise=0.2, mean=0.3)
    assert found.log_likelihood == expected


def test_a_fit_goes_on_past_points_that_are_not_positive_definite() -> None:
    # Equal contexts with tiny noise: long length-scales with a large variance fail, short ones do not.
    rng = np.random.default_rng(21)
    X = rng.uniform(0, 1, size=(40, 1))
    y = np.sin(40 * X[:, 0])
    log = Samples(("a",), np.zeros(40, dtype=np.int64), X, y, None, ("x",))
    bad, tiny = RBF(20.0, variance=1e4), {"noise": 1e-15, "fit_noise": False}
    with pytest.raises(NotPositiveDefiniteError):
        log_marginal_likelihood(log, bad, tasks=ONE_TASK, noise=1e-15, mean=0.0)
    with pytest.raises(NotPositiveDefiniteError, match="no start of the fit"):
        fit(log, bad, tasks=ONE_TASK, rng=rng, starts=1, **tiny)  # type: ignore[arg-type]
    found = fit_quietly(log, RBF(0.01), tasks=ONE_TASK, rng=rng, starts=3, **tiny)
    start = log_marginal_likelihood(log, RBF(0.01), tasks=ONE_TASK, noise=1e-15, mean=float(y.mean()))
    assert found.log_likelihood > start


def test_fit_refuses_what_it_cannot_use() -> None:
    rng = np.random.default_rng(22)
    log = make_log(rng, RBF(0.8), np.eye(1), n=5)
    empty = log.take(np.empty(0, dtype=np.int64))
    cases: list[tuple[Samples, dict[str, Any], str]] = [
        (log, {"starts": 0}, "starts must be at least 1"),
        (log, {"fit_noise": False}, "give noise="),
        (log, {"max_rows": 0}, "max_rows must be at least 1"),
        (log, {"noise": -1.0}, "noise must be above zero"),
        (empty, {}, "no rows"),
    ]
    for samples, arguments, message in cases:
        given: dict[str, Any] = {"tasks": ONE_TASK, "rng": rng, **arguments}
        with pytest.raises(BadInputError, match=message):
            fit(samples, RBF(0.8), **given)


# Rows


def test_rows_are_spread_evenly_over_stations_that_have_them() -> None:
    tasks: IntArray = np.repeat([0, 1, 2, 3], [100, 3, 40, 57])
    rows = spread_rows(tasks, 63, rng=np.random.default_rng(23))
    assert len(rows) == 63
    assert (np.diff(rows) > 0).all()
    assert np.bincount(tasks[rows]).tolist() == [20, 3, 20, 20]


def test_every_row_of_a_station_is_equally_likely() -> None:
    tasks: IntArray = np.repeat([0, 1], [6, 9])
    counts = np.zeros(15)
    draws = 2000
    rng = np.random.default_rng(24)
    for _ in range(draws):
        counts[spread_rows(tasks, 6, rng=rng)] += 1
    p = np.repeat([3 / 6, 3 / 9], [6, 9])
    # 15 binomial counts, each within 4 standard errors but for 1 seed in 1000.
    assert (np.abs(counts / draws - p) < 4 * np.sqrt(p * (1 - p) / draws)).all()


def test_few_rows_are_all_taken_and_fit_says_how_many() -> None:
    tasks: IntArray = np.array([1, 0, 1])
    np.testing.assert_array_equal(spread_rows(tasks, 5, rng=np.random.default_rng(0)), [0, 1, 2])
    rng = np.random.default_rng(25)
    log = make_log(rng, RBF(0.8), np.eye(3), n=60)
    assert fit_quietly(log, RBF(0.8), tasks=FixedTasks(np.eye(3)), rng=rng, max_rows=31, starts=1).rows == 31


@pytest.mark.parametrize("pull", [0.7, 2.3])
def test_a_pull_adds_the_log_density_of_its_prior_and_its_gradient(pull: float) -> None:
    rng = np.random.default_rng(17)
    X, tasks = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    log = Samples(("a", "b", "c"), tasks, X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=30), None, ("u", "v"))
    kernel, free = RBF((0.8, 1.7), variance=0.6).bind(log.features), (True, True, True)
    parts = (log, kernel, FixedTasks(np.eye(3)), 0.07, 0.1)
    plain, pulled = FitProblem(*parts, free=free), FitProblem(*parts, free=free, pull=pull)
    z = plain.starts(2, rng)[1]
    theta, noise = np.log([0.8, 1.7, 0.6]), np.log(0.07)
    away = np.append(z[:3] - theta, z[3] - noise)  # the mean is not pulled
    value, gradient = pulled.value_and_gradient(z)
    assert value == pytest.approx(plain.value_and_gradient(z)[0] - 0.5 * np.sum(away**2) / pull**2, rel=1e-12)
    for i in range(len(z)):
        step = np.zeros_like(z)
        step[i] = 1e-5
        above, below = (pulled.value_and_gradient(z + side * step)[0] for side in (1, -1))
        assert gradient[i] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-6)


def test_a_pull_keeps_the_noise_of_short_logs_from_vanishing() -> None:
    collapsed = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.random(48), rng.integers(0, 12, 48)])
        y = 0.9 - ((X[:, 1] - 4 - 4 * X[:, 0]) / 12) ** 2 + 0.05 * rng.normal(size=48)
        log = Samples(tuple("abcdef"), np.arange(48) % 6, X, y, None, ("load", "tilt"))
        kernel = starting_kernel(log)
        found = fit(log, kernel, tasks=FixedTasks(np.eye(6)), rng=rng, quiet=True, pull=2.0)
        collapsed.append(found.noise < 0.05**2 / 20)
    assert not any(collapsed)
