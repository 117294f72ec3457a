"""Every engine gives the mean (9), the std (11) and the covariance of the naive reference.

Data, hyper-parameters, task matrices, prior means and noises are all drawn. Errors are measured against the
scale of the problem: variances against the largest prior variance k(x, x) in it, means against the larger of
that and the largest reward.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import naive

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import RBF, Categorical, Kernel, Linear, Matern32, Matern52
from kinband.posterior import BlockedPosterior, ExactPosterior, SchurPosterior

TOLERANCE = 1e-8
ENGINES = [ExactPosterior, SchurPosterior]
Engine = ExactPosterior | SchurPosterior | BlockedPosterior
Pair = tuple[Kernel, naive.Kernel]
often = settings(max_examples=150, deadline=None, derandomize=True)


@dataclass(frozen=True)
class Problem:
    """The same problem for both sides: kernels, task matrix, rewards, and points to ask about."""

    kernel: Kernel
    slow: naive.Kernel
    K_Z: FloatArray
    data: naive.Data
    noise: float
    mean: float
    tasks: IntArray
    X: FloatArray

    @property
    def k(self) -> float:
        """Largest prior variance of any row or point."""
        rows = list(zip(self.data.tasks, self.data.X, strict=True)) + list(zip(self.tasks, self.X, strict=True))
        return max(float(self.K_Z[t, t]) * self.slow(x, x) for t, x in rows)

    @property
    def reward_scale(self) -> float:
        return max(self.k, abs(self.mean), float(np.abs(self.data.y).max(initial=0.0)))


def log_uniform(rng: np.random.Generator, low: float, high: float, size: int = 1) -> list[float]:
    return [float(v) for v in np.exp(rng.uniform(math.log(low), math.log(high), size=size))]


def rbf_pair(rng: np.random.Generator, d: int, variance: float) -> Pair:
    (length,) = log_uniform(rng, 0.1, 5.0)
    return RBF(length, variance=variance), naive.rbf(length, variance)


def ard_pair(rng: np.random.Generator, d: int, variance: float) -> Pair:
    lengths = log_uniform(rng, 0.1, 5.0, d)
    return RBF(lengths, variance=variance), naive.ard_rbf(lengths, variance)


def matern32_pair(rng: np.random.Generator, d: int, variance: float) -> Pair:
    lengths = log_uniform(rng, 0.1, 5.0, d)
    return Matern32(lengths, variance=variance), naive.matern32(lengths, variance)


def matern52_pair(rng: np.random.Generator, d: int, variance: float) -> Pair:
    lengths = log_uniform(rng, 0.1, 5.0, d)
    return Matern52(lengths, variance=variance), naive.matern52(lengths, variance)


def sum_pair(rng: np.random.Generator, d: int, variance: float) -> Pair:
    (length, slope) = log_uniform(rng, 0.1, 2.0, 2)
    fast = RBF(length, variance=variance) + Linear(slope)
    return fast, naive.sum_of(naive.rbf(length, variance), naive.linear(slope))


def product_pair(rng: np.random.Generator, d: int, variance: float) -> Pair:
    """Numbers in all columns but the last, which holds category codes."""
    lengths = log_uniform(rng, 0.1, 5.0, d - 1)
    (own,) = log_uniform(rng, 0.5, 3.0)
    numeric = list(range(d - 1))
    fast = RBF(lengths, variance=variance, columns=numeric) * Categorical(own, columns=[d - 1])
    slow = naive.product_of(
        naive.on_columns(naive.ard_rbf(lengths, variance), numeric),
        naive.on_columns(naive.categorical(own, 1.0), [d - 1]),
    )
    return fast, slow


FAMILIES: list[Callable[[np.random.Generator, int, float], Pair]] = [
    rbf_pair,
    ard_pair,
    matern32_pair,
    matern52_pair,
    sum_pair,
    product_pair,
]


def random_task_matrix(rng: np.random.Generator, M: int, *, rank: int, correlation: bool) -> FloatArray:
    """A random covariance or correlation matrix, singular when the rank is below M."""
    B = rng.normal(size=(M, rank))
    K_Z = B @ B.T
    spread = np.sqrt(np.diag(K_Z))
    K_Z = K_Z / np.outer(spread, spread)
    np.fill_diagonal(K_Z, 1.0)
    if correlation:
        return np.asarray(K_Z)
    sizes = np.array(log_uniform(rng, 0.3, 3.0, M))
    return np.asarray(K_Z * np.outer(sizes, sizes))


def random_block_matrix(rng: np.random.Generator, M: int, *, groups: int) -> FloatArray:
    """A task matrix whose groups, scattered over the tasks, know nothing of each other."""
    member = rng.integers(0, groups, size=M)
    K_Z = random_task_matrix(rng, M, rank=M, correlation=False)
    return np.asarray(np.where(member[:, None] == member[None, :], K_Z, 0.0))


def make_problem(
    rng: np.random.Generator,
    *,
    family: Callable[[np.random.Generator, int, float], Pair],
    K_Z: FloatArray,
    n: int,
    d: int,
    variance: float,
    noise_ratio: float,
    per_row: bool,
    mean: float,
    points: int = 12,
) -> Problem:
    kernel, slow = family(rng, d, variance)
    M = len(K_Z)
    X = rng.uniform(-1.0, 2.0, size=(n + points, d))
    if family is product_pair:
        X[:, -1] = rng.integers(0, 3, size=n + points)
    if n > 3:
        X[1] = X[0]  # a context seen twice
        X[n] = X[2]  # a point asked about that has been seen
    tasks = rng.integers(0, M, size=n + points)
    k = variance * float(np.max(np.diag(K_Z)))
    noise = np.full(n, noise_ratio * k)
    if per_row:
        noise = k * np.array(log_uniform(rng, 1e-4, 10.0, n))
    y = mean + math.sqrt(k) * (np.sin(3.0 * X[:n].sum(axis=1)) + rng.normal(size=n) * rng.uniform(0.0, 1.0))
    data = naive.Data(tasks[:n], X[:n], y, noise)
    return Problem(kernel, slow, K_Z, data, noise_ratio * k, mean, tasks[n:], X[n:])


@st.composite
def problems(draw: st.DrawFn, *, blocks: bool = False, max_rows: int = 60) -> Problem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    M = draw(st.integers(2 if blocks else 1, 4))
    if blocks:
        K_Z = random_block_matrix(rng, M, groups=draw(st.integers(1, M)))
    else:
        rank = draw(st.integers(1, M))
        K_Z = random_task_matrix(rng, M, rank=rank, correlation=draw(st.booleans()))
    return make_problem(
        rng,
        family=draw(st.sampled_from(FAMILIES)),
        K_Z=K_Z,
        n=draw(st.integers(0, max_rows)),
        d=draw(st.integers(2, 4)),
        variance=math.exp(draw(st.floats(math.log(0.05), math.log(20.0)))),
        noise_ratio=10.0 ** draw(st.floats(-4.0, 1.0)),
        per_row=draw(st.booleans()),
        mean=draw(st.floats(-3.0, 3.0)),
    )


def learned(engine: type[Engine], problem: Problem, *, chunks: list[int] | None = None) -> Engine:
    """The engine after all rows of the problem, fed in chunks of the given sizes, or all at once."""
    posterior = engine(problem.kernel, problem.K_Z, noise=problem.noise, mean=problem.mean)
    data = problem.data
    start = 0
    for size in chunks or [len(data.y)]:
        rows = slice(start, start + size)
        posterior.update(data.tasks[rows], data.X[rows], data.y[rows], noise=data.noise[rows])
        start += size
    assert len(posterior) == len(data.y)
    return posterior


def assert_agrees(posterior: Engine, problem: Problem) -> None:
    """Mean and variance of the engine are those of the reference, to TOLERANCE of the problem's scale."""
    found = posterior.predict(problem.tasks, problem.X)
    arguments = (problem.data, problem.slow, problem.K_Z, problem.tasks, problem.X)
    mean = naive.posterior_mean(*arguments, mean=problem.mean)
    variance = naive.posterior_variance(*arguments)
    digits = TOLERANCE
    if isinstance(posterior, SchurPosterior):
        # An inverse grown by (13) loses digits with the square of its condition number, which goes as k / noise.
        digits *= max(1.0, (1e-2 * problem.k / float(problem.data.noise.min(initial=problem.k))) ** 2)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=digits * problem.reward_scale)
    np.testing.assert_allclose(found.std**2, variance, rtol=0, atol=TOLERANCE * problem.k)


def random_chunks(rng: np.random.Generator, n: int) -> list[int]:
    """Sizes that add up to n, with many ones among them."""
    sizes: list[int] = []
    while sum(sizes) < n:
        sizes.append(min(int(rng.choice([1, 1, 1, 2, 7, 20])), n - sum(sizes)))
    return sizes


@pytest.mark.parametrize("engine", ENGINES)
@often
@given(problem=problems())
def test_mean_and_width_agree_with_the_reference(engine: type[Engine], problem: Problem) -> None:
    assert_agrees(learned(engine, problem), problem)


@pytest.mark.parametrize("engine", ENGINES)
@often
@given(problem=problems(max_rows=45), seed=st.integers(0, 2**32 - 1))
def test_mean_and_width_agree_after_updates_of_mixed_sizes(engine: type[Engine], problem: Problem, seed: int) -> None:
    chunks = random_chunks(np.random.default_rng(seed), len(problem.data.y))
    assert_agrees(learned(engine, problem, chunks=chunks), problem)


@pytest.mark.parametrize("engine", [*ENGINES, BlockedPosterior])
@often
@given(problem=problems(blocks=True), seed=st.integers(0, 2**32 - 1))
def test_unrelated_groups_of_tasks_agree_with_the_reference(engine: type[Engine], problem: Problem, seed: int) -> None:
    chunks = random_chunks(np.random.default_rng(seed), len(problem.data.y))
    assert_agrees(learned(engine, problem, chunks=chunks), problem)


@pytest.mark.parametrize("engine", [*ENGINES, BlockedPosterior])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(problem=problems(blocks=True, max_rows=30))
def test_joint_covariance_agrees_with_the_reference(engine: type[Engine], problem: Problem) -> None:
    found = learned(engine, problem).predict(problem.tasks, problem.X).covariance()
    expected = naive.posterior_covariance(problem.data, problem.slow, problem.K_Z, problem.tasks, problem.X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * problem.k)


@pytest.mark.parametrize("engine", [*ENGINES, BlockedPosterior])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(problem=problems(blocks=True, max_rows=30), seed=st.integers(0, 2**32 - 1))
def test_weighted_sums_agree_with_the_reference(engine: type[Engine], problem: Problem, seed: int) -> None:
    """Each of one task, over half of the points, with weights of either sign."""
    rng, half = np.random.default_rng(seed), len(problem.X) // 2
    tasks, W = rng.integers(0, len(problem.K_Z), size=2), rng.normal(size=(2, half))
    X = np.stack([problem.X[:half], problem.X[half : 2 * half]])
    mean, std = learned(engine, problem).sums(tasks, X, W)
    scale = np.abs(W).sum(axis=1).max()
    digits = TOLERANCE * (max(1.0, 1e-4 * (problem.k / problem.data.noise.min(initial=problem.k)) ** 2))
    for i, task in enumerate(tasks):
        of = np.full(half, task)
        arguments = (problem.data, problem.slow, problem.K_Z, of, X[i])
        expected = W[i] @ naive.posterior_mean(*arguments, mean=problem.mean)
        variance = W[i] @ naive.posterior_covariance(*arguments) @ W[i]
        allowed = digits if engine is SchurPosterior else TOLERANCE
        assert mean[i] == pytest.approx(expected, abs=allowed * problem.reward_scale * scale)
        assert std[i] ** 2 == pytest.approx(variance, abs=TOLERANCE * problem.k * scale**2)


@pytest.mark.parametrize("engine", [*ENGINES, BlockedPosterior])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(problem=problems(max_rows=25))
def test_one_noise_for_all_rows_may_be_a_number_a_vector_or_the_default(engine: type[Engine], problem: Problem) -> None:
    data = problem.data._replace(noise=np.full(len(problem.data.y), problem.noise))
    same: list[float | FloatArray | None] = [problem.noise, data.noise, None, np.full(len(data.y), np.nan)]
    for noise in same:
        posterior = engine(problem.kernel, problem.K_Z, noise=problem.noise, mean=problem.mean)
        posterior.update(data.tasks, data.X, data.y, noise=noise)
        assert_agrees(posterior, Problem(**{**vars(problem), "data": data}))


@pytest.mark.parametrize("engine", [*ENGINES, BlockedPosterior])
@pytest.mark.parametrize("noise_ratio", [1e-4, 0.05])
def test_four_hundred_rows_agree_with_the_reference(engine: type[Engine], noise_ratio: float) -> None:
    rng = np.random.default_rng(20240)
    problem = make_problem(
        rng,
        family=ard_pair,
        K_Z=random_task_matrix(rng, 3, rank=2, correlation=False),
        n=400,
        d=3,
        variance=2.7,
        noise_ratio=noise_ratio,
        per_row=False,
        mean=-1.3,
    )
    assert_agrees(learned(engine, problem, chunks=random_chunks(rng, 400)), problem)


@pytest.mark.parametrize("engine", [*ENGINES, BlockedPosterior])
@pytest.mark.parametrize("noise_ratio", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("family", [rbf_pair, matern32_pair])
def test_two_hundred_single_updates_agree_with_the_reference(
    engine: type[Engine], noise_ratio: float, family: Callable[[np.random.Generator, int, float], Pair]
) -> None:
    rng = np.random.default_rng(200)
    problem = make_problem(
        rng,
        family=family,
        K_Z=random_task_matrix(rng, 2, rank=2, correlation=True),
        n=200,
        d=2,
        variance=0.6,
        noise_ratio=noise_ratio,
        per_row=False,
        mean=0.9,
    )
    assert_agrees(learned(engine, problem, chunks=[1] * 200), problem)


def test_fifteen_hundred_single_updates_agree_with_a_fresh_factorisation() -> None:
    rng = np.random.default_rng(3000)
    n, lengths, variance, noise, mean = 1500, np.array([0.3, 0.55]), 1.9, 1e-2, 0.7
    K_Z = np.array([[1.0, 0.8], [0.8, 1.3]])
    X, tasks = rng.uniform(size=(n + 50, 2)), rng.integers(0, 2, size=n + 50)
    y = mean + np.sin(5.0 * X[:n, 0]) * X[:n, 1] + 0.1 * rng.normal(size=n)
    posterior = ExactPosterior(RBF(list(lengths), variance=variance), K_Z, noise=noise, mean=mean)
    for i in range(n):
        posterior.update(tasks[i : i + 1], X[i : i + 1], y[i : i + 1])

    scaled = X / lengths
    squared = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2)
    K = K_Z[np.ix_(tasks, tasks)] * variance * np.exp(-squared / 2.0)
    solved = np.linalg.solve(K[:n, :n] + noise * np.eye(n), np.column_stack([y - mean, K[:n, n:]]))
    expected_mean = mean + K[n:, :n] @ solved[:, 0]
    expected_variance = np.diag(K)[n:] - np.einsum("ij,ij->j", K[:n, n:], solved[:, 1:])
    found = posterior.predict(tasks[n:], X[n:])
    k = variance * 1.3
    np.testing.assert_allclose(found.mean, expected_mean, rtol=0, atol=TOLERANCE * max(k, np.abs(y).max()))
    np.testing.assert_allclose(found.std**2, expected_variance, rtol=0, atol=TOLERANCE * k)
