"""What the sparse posterior promises: honest widths, bounded size, beliefs that survive being stored."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, CannotCorrectError
from kinband.kernels import RBF, Kernel, Matern32, Matern52
from kinband.posterior import BlockedPosterior, ExactPosterior, SparsePosterior, make_posterior

some = settings(max_examples=60, deadline=None, derandomize=True)


@dataclass(frozen=True)
class Stream:
    """Rewards in their order, and contexts to ask about."""

    kernel: Kernel
    K_Z: FloatArray
    mean: float
    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noise: FloatArray
    asked_tasks: IntArray
    asked: FloatArray

    def sparse(self, inducing_points: int) -> SparsePosterior:
        return SparsePosterior(self.kernel, self.K_Z, noise=0.3, mean=self.mean, inducing_points=inducing_points)

    def exact(self) -> ExactPosterior:
        posterior = ExactPosterior(self.kernel, self.K_Z, noise=0.3, mean=self.mean)
        posterior.update(self.tasks, self.X, self.y, noise=self.noise)
        return posterior

    def tell(self, posterior: SparsePosterior, start: int = 0, stop: int | None = None) -> None:
        for i in range(start, len(self.y) if stop is None else stop):
            rows = slice(i, i + 1)
            posterior.update(self.tasks[rows], self.X[rows], self.y[rows], noise=self.noise[rows])


def stream_of(seed: int, *, rows: int = 150) -> Stream:
    rng = np.random.default_rng([seed, 5])
    M, d = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    kind = [RBF, Matern32, Matern52][int(rng.integers(3))]
    kernel = kind(float(np.exp(rng.uniform(-2.5, 0.5))), variance=float(np.exp(rng.uniform(-2, 2))))
    B = rng.uniform(-1.0, 1.0, size=(M, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.05, 0.9, size=M))
    places = rng.uniform(size=(int(rng.integers(3, rows)), d))  # some contexts come again and again
    tasks, X = rng.integers(0, M, size=rows), places[rng.integers(len(places), size=rows)]
    y, noise = rng.normal(size=rows), np.exp(rng.uniform(-6, 0, size=rows))
    asked = rng.integers(0, M, size=40), rng.uniform(size=(40, d))
    return Stream(kernel, K_Z, float(rng.normal()), tasks, X, y, noise, *asked)


@some
@given(st.integers(0, 10_000), st.integers(2, 40), st.booleans())
def test_the_exact_variance_never_exceeds_the_sparse_one_by_more_than_the_slack(
    seed: int, inducing_points: int, block: bool
) -> None:
    stream = stream_of(seed)
    sparse = stream.sparse(inducing_points)
    if block:
        sparse.update(stream.tasks[:80], stream.X[:80], stream.y[:80], noise=stream.noise[:80])
    stream.tell(sparse, 80 if block else 0)
    asked = np.concatenate([stream.asked_tasks, stream.tasks]), np.concatenate([stream.asked, stream.X])
    exact, found = stream.exact().predict(*asked).std ** 2, sparse.predict(*asked).std ** 2
    prior = stream.kernel.variance * stream.K_Z.diagonal().max()  # type: ignore[attr-defined]
    assert (exact <= sparse.slack * found + 1e-7 * prior).all()
    assert (found <= np.diag(stream.K_Z)[asked[0]] * stream.kernel.diag(asked[1]) * (1 + 1e-9)).all()


def test_the_sparse_width_is_hardly_ever_below_the_exact_one() -> None:
    ratios = []
    for seed in range(40):
        stream = stream_of(seed)
        sparse = stream.sparse(25)
        stream.tell(sparse)
        exact = stream.exact().predict(stream.asked_tasks, stream.asked).std
        ratios.append(sparse.predict(stream.asked_tasks, stream.asked).std / exact)
    ratio = np.concatenate(ratios)
    assert np.mean(ratio < 0.99) < 0.005
    assert ratio.min() > 0.9


@some
@given(st.integers(0, 10_000), st.integers(2, 30))
def test_stored_beliefs_go_on_bit_for_bit(seed: int, inducing_points: int) -> None:
    stream = stream_of(seed, rows=60)
    whole, first = stream.sparse(inducing_points), stream.sparse(inducing_points)
    stream.tell(whole)
    stream.tell(first, 0, 37)
    second = stream.sparse(inducing_points)
    second.restore(first.state())
    stream.tell(second, 37)
    expected, found = (one.predict(stream.asked_tasks, stream.asked) for one in (whole, second))
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.std, expected.std)
    assert (len(second), second.points, second.slack) == (len(whole), whole.points, whole.slack)


def test_points_stay_within_the_budget_and_beliefs_accurate_over_many_refreshes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kinband.posterior.sparse.REFRESH", 64)
    rng = np.random.default_rng(3)
    posterior = SparsePosterior(
        RBF(0.12, variance=2.0), [[1.0, 0.6], [0.6, 0.8]], noise=0.05, mean=0.2, inducing_points=30
    )
    tasks, X = rng.integers(0, 2, size=3000), rng.uniform(size=(3000, 1))
    y = np.sin(8 * X[:, 0]) + 0.4 * tasks + rng.normal(scale=0.05**0.5, size=3000)
    for i in range(3000):
        posterior.update(tasks[i : i + 1], X[i : i + 1], y[i : i + 1])
    assert posterior.points <= 30
    asked = np.linspace(0.05, 0.95, 40)[:, None]
    for task in (0, 1):
        found = posterior.predict(np.full(40, task), asked)
        truth = np.sin(8 * asked[:, 0]) + 0.4 * task
        assert np.abs(found.mean - truth).max() < 0.15
        assert (np.abs(found.mean - truth) <= 4 * found.std + 0.02).all()


def test_samples_have_the_mean_and_covariance_of_the_beliefs() -> None:
    stream = stream_of(4)
    posterior = stream.sparse(20)
    stream.tell(posterior)
    tasks, X = stream.asked_tasks[:5], stream.asked[:5]
    drawn = posterior.predict(tasks, X).sample(20_000, np.random.default_rng(1))
    covariance = posterior.predict(tasks, X).covariance()
    np.testing.assert_allclose(np.diag(covariance), posterior.predict(tasks, X).std ** 2, rtol=1e-6)
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.predict(tasks, X).mean, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.05 * np.diag(covariance).max())


def test_an_update_that_fails_leaves_the_beliefs_as_they_were() -> None:
    stream = stream_of(6)
    posterior = stream.sparse(20)
    stream.tell(posterior, 0, 40)
    before = posterior.predict(stream.asked_tasks, stream.asked).mean
    with pytest.raises(BadInputError):
        posterior.update([0, 0], stream.X[:2], [0.1, np.nan])
    np.testing.assert_array_equal(posterior.predict(stream.asked_tasks, stream.asked).mean, before)
    assert len(posterior) == 40


def test_nothing_told_is_the_prior_and_rows_cannot_be_taken_back() -> None:
    posterior = SparsePosterior(RBF(0.4, variance=2.0), [[1.5]], noise=0.1, mean=0.3)
    prediction = posterior.predict([0], [[0.2]])
    assert (prediction.mean[0], prediction.std[0]) == (0.3, pytest.approx(3.0**0.5))
    posterior.update([0], [[0.2]], [0.5])
    with pytest.raises(CannotCorrectError, match="learn the corrected log again"):
        posterior.correct(0, 0.4)


@pytest.mark.parametrize("inducing_points", [1, 0, -5, 2.5, "many", True])
def test_too_few_inducing_points_are_refused(inducing_points: object) -> None:
    with pytest.raises(BadInputError, match="inducing_points must be a whole number from 2 on"):
        make_posterior(RBF(), [[1.0]], noise=0.1, engine="sparse", inducing_points=inducing_points)  # type: ignore[arg-type]


def test_groups_share_the_memory_of_sixty_four_budgets() -> None:
    few = make_posterior(RBF(), np.eye(4), noise=0.1, engine="sparse", inducing_points=100)
    many = make_posterior(RBF(), np.eye(256), noise=0.1, engine="sparse", inducing_points=100)
    assert isinstance(few, BlockedPosterior)
    assert isinstance(many, BlockedPosterior)
    assert {group.inducing_points for group in few.blocks} == {100}  # type: ignore[attr-defined]
    assert {group.inducing_points for group in many.blocks} == {50}  # type: ignore[attr-defined]
