"""What the theory promises of every run, whatever the data and the hyper-parameters.

Sums of logarithms are compared to 1e-8 of their size plus 1e-8, far above rounding and far below any effect.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import RBF, Categorical, Kernel, Linear, Matern32
from kinband.posterior import ExactPosterior
from kinband.theory import (
    gram,
    largest_prior_variance,
    log_g,
    log_g_uniform,
    numerical_rank,
    rank_bound,
)

SLACK = 1e-8
some = settings(max_examples=60, deadline=None, derandomize=True)


@dataclass(frozen=True)
class Case:
    """A drawn run and the model it was played under."""

    tasks: IntArray
    X: FloatArray
    kernel: Kernel
    K_Z: FloatArray
    noise: float

    def log_g(self, rows: Any = slice(None), **changes: Any) -> float:
        model: dict[str, Any] = {"kernel": self.kernel, "K_Z": self.K_Z, "noise": self.noise} | changes
        return log_g(self.tasks[rows], self.X[rows], **model)

    @property
    def kernel_bound(self) -> float:
        return largest_prior_variance(self.tasks, self.X, kernel=self.kernel, K_Z=self.K_Z)


def random_kernel(rng: np.random.Generator, d: int) -> Kernel:
    length, variance, slope = (float(v) for v in np.exp(rng.uniform(-1.5, 1.5, size=3)))
    kernels: list[Kernel] = [
        RBF(length, variance=variance),
        Matern32(length, variance=variance) + Linear(slope),
        Linear(slope, bias=variance) * Categorical(length, columns=[d - 1]),
    ]
    return kernels[rng.integers(len(kernels))]


@st.composite
def cases(draw: st.DrawFn, *, low_rank: bool = False, in_order: bool | None = None) -> Case:
    """A run of up to 30 decisions of up to 5 tasks; contexts repeat now and then."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    M, T, d = draw(st.integers(1, 5)), draw(st.integers(1, 30)), draw(st.integers(1, 4))
    ordered = draw(st.booleans()) if in_order is None else in_order
    tasks = np.arange(T) % M if ordered else rng.integers(0, M, size=T)
    X = rng.normal(size=(T, d))
    X[rng.integers(0, T, size=T // 3)] = X[0]
    B = rng.normal(size=(M, draw(st.integers(1, M))))
    K_Z = B @ B.T + (0.0 if low_rank else np.diag(rng.uniform(0.05, 0.5, size=M)))
    kernel = Linear(float(rng.uniform(0.2, 3.0))) if low_rank else random_kernel(rng, d)
    return Case(tasks, X, kernel, K_Z, float(np.exp(rng.uniform(math.log(0.01), math.log(30.0)))))


def no_more(smaller: float, larger: float) -> bool:
    return smaller <= larger + SLACK * (1.0 + abs(larger))


def same(first: float, second: float) -> bool:
    return no_more(first, second) and no_more(second, first)


@some
@given(case=cases())
def test_log_g_is_the_logarithm_of_the_determinant(case: Case) -> None:
    K = gram(case.tasks, case.X, kernel=case.kernel, K_Z=case.K_Z)
    assert same(case.log_g(), math.log(np.linalg.det(np.eye(len(K)) + K / case.noise)))


@some
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_log_g_does_not_depend_on_the_order_of_decisions(case: Case, seed: int) -> None:
    assert same(case.log_g(np.random.default_rng(seed).permutation(len(case.tasks))), case.log_g())


@some
@given(case=cases(), seed=st.integers(0, 2**32 - 1))
def test_log_g_of_some_of_the_decisions_is_no_larger_than_of_all(case: Case, seed: int) -> None:
    some_rows = np.random.default_rng(seed).random(len(case.tasks)) < 0.6
    assert no_more(case.log_g(some_rows), case.log_g())


@some
@given(case=cases(), factor=st.floats(1.01, 10.0))
def test_log_g_falls_as_noise_grows(case: Case, factor: float) -> None:
    assert case.log_g(noise=factor * case.noise) < case.log_g()


@some
@given(case=cases())
def test_log_g_adds_up_the_widths_of_the_posterior_and_bounds_their_squares(case: Case) -> None:
    """log g = Σ log(1 + σ²/λ), and Σσ² ≤ 2λd log g: the step of (23) in which the 1/√λ of β is taken up."""
    posterior = ExactPosterior(case.kernel, case.K_Z, noise=case.noise)
    variances = np.zeros(len(case.tasks))
    for t in range(len(case.tasks)):
        row = case.tasks[t : t + 1], case.X[t : t + 1]
        variances[t] = posterior.predict(*row).std[0] ** 2
        posterior.update(*row, [0.0])
    assert same(float(np.log1p(variances / case.noise).sum()), case.log_g())
    d = max(1.0, case.kernel_bound / case.noise)
    assert no_more(float(variances.sum()), 2.0 * case.noise * d * case.log_g())


@some
@given(case=cases(low_rank=True))
def test_theorem_4_bounds_log_g_by_the_ranks(case: Case) -> None:
    K_X = case.kernel(case.X, case.X)
    rank_x, rank_z = numerical_rank(K_X), numerical_rank(case.K_Z)
    assert rank_x <= case.X.shape[1]
    bound = rank_bound(rank_x, rank_z, horizon=len(case.tasks), kernel_bound=case.kernel_bound, noise=case.noise)
    assert no_more(case.log_g(), bound)


@some
@given(case=cases(low_rank=True))
def test_the_rank_of_the_product_is_at_most_the_product_of_ranks(case: Case) -> None:
    K = gram(case.tasks, case.X, kernel=case.kernel, K_Z=case.K_Z)
    # Looser for the product, whose rounding is of its own size.
    assert numerical_rank(K, tolerance=1e-10) <= numerical_rank(case.kernel(case.X, case.X)) * numerical_rank(case.K_Z)


@some
@given(case=cases())
def test_sharing_never_adds_information(case: Case) -> None:
    apart = log_g(case.tasks, case.X, kernel=case.kernel, K_Z=np.diag(case.K_Z.diagonal()), noise=case.noise)
    assert no_more(case.log_g(), apart)


def similarity_path(case: Case, mus: FloatArray) -> list[float]:
    return [log_g_uniform(case.tasks, case.X, kernel=case.kernel, mu=float(mu), noise=case.noise) for mu in mus]


@some
@given(case=cases(in_order=True))
def test_theorem_5_log_g_does_not_grow_with_similarity_when_tasks_come_in_order(case: Case) -> None:
    path = similarity_path(case, np.linspace(0.0, 1.0, 9))
    assert all(no_more(later, earlier) for earlier, later in pairwise(path))


@some
@given(case=cases(in_order=False))
def test_theorem_5_holds_for_any_order_of_tasks_too(case: Case) -> None:
    path = similarity_path(case, np.linspace(0.0, 1.0, 9))
    assert all(no_more(later, earlier) for earlier, later in pairwise(path))


@some
@given(case=cases(), share=st.floats(0.0, 1.0))
def test_below_zero_similarity_theorem_5_turns_round(case: Case, share: float) -> None:
    M = int(case.tasks.max()) + 1
    least = -1.0 / (M - 1) if M > 1 else 0.0
    path = similarity_path(case, np.array([least, share * least, 0.0]))
    assert no_more(path[0], path[1])
    assert no_more(path[1], path[2])


def test_theorem_5_strictly_falls_where_tasks_share_a_context_and_only_there() -> None:
    model: dict[str, Any] = {"kernel": RBF(0.4, variance=1.7), "noise": 0.3}
    for mu_1, mu_2 in ((0.0, 0.2), (0.2, 0.7), (0.7, 1.0)):
        shared = [log_g_uniform([0, 1], [[0.2], [0.2]], mu=mu, **model) for mu in (mu_1, mu_2)]
        assert shared[1] < shared[0] - 1e-3
        apart = [log_g_uniform([0, 1], [[0.2], [90.0]], mu=mu, **model) for mu in (mu_1, mu_2)]
        assert apart[1] == apart[0]


def test_theorem_5_does_not_compare_two_different_runs() -> None:
    """A policy that learns faster may go on to other contexts: more similar, and yet a larger g."""
    model: dict[str, Any] = {"kernel": RBF(0.4, variance=1.7), "noise": 0.3}
    tasks = np.arange(8) % 2
    repeats = log_g_uniform(tasks, np.full((8, 1), 0.2), mu=0.0, **model)
    explores = log_g_uniform(tasks, np.arange(8.0)[:, None], mu=0.9, **model)
    assert explores > repeats
