"""The sparse posterior gives the beliefs of a slow one, row by row and from a block, replacing points on the way.

Hyper-parameters, task matrices, noises and prior means are drawn. The slow one keeps beliefs about function values and
solves dense systems; the fast one keeps white coordinates and O(m²) steps. Errors are measured against the largest
prior variance, or the rewards.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.reference import naive, naive_sparse

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import RBF
from kinband.posterior import SparsePosterior
from kinband.posterior.base import Rows
from kinband.posterior.sparse import TOLERANCE as NO_POINT
from kinband.posterior.sparse import choose_points

TOLERANCE = 1e-6
SEEDS = range(12)


@dataclass(frozen=True)
class Problem:
    length_scale: float
    variance: float
    K_Z: FloatArray
    data: naive.Data
    mean: float
    tasks: IntArray
    X: FloatArray

    @property
    def slow(self) -> naive.Kernel:
        return naive.rbf(self.length_scale, self.variance)

    def empty(self, *, inducing_points: int) -> SparsePosterior:
        kernel = RBF(self.length_scale, variance=self.variance)
        return SparsePosterior(kernel, self.K_Z, noise=0.123, mean=self.mean, inducing_points=inducing_points)

    @property
    def scale(self) -> float:
        return self.variance * float(self.K_Z.diagonal().max())


def problem_of(seed: int, *, rows: int = 70) -> Problem:
    rng = np.random.default_rng([seed, 77])
    M = int(rng.integers(1, 4))
    B = rng.uniform(-1.0, 1.0, size=(M, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.2, 0.9, size=M))
    variance = float(np.exp(rng.uniform(-1.5, 1.5)))
    tasks, X = rng.integers(0, M, size=rows), rng.uniform(size=(rows, 2))
    X[rng.integers(0, rows, size=8)] = X[0]  # some contexts come again
    y = np.sin(5 * X[:, 0] + tasks) + rng.normal(scale=0.3, size=rows)
    noise = np.exp(rng.uniform(np.log(0.02), np.log(0.5), size=rows))
    data = naive.Data(tasks, X, y, noise)
    asked = rng.integers(0, M, size=15), rng.uniform(size=(15, 2))
    return Problem(float(rng.uniform(0.25, 0.8)), variance, K_Z, data, float(rng.normal()), *asked)


def assert_same(
    found: tuple[FloatArray, FloatArray], expected: tuple[FloatArray, FloatArray], problem: Problem
) -> None:
    rewards = max(problem.scale, float(np.abs(problem.data.y).max()))
    np.testing.assert_allclose(found[0], expected[0], atol=TOLERANCE * rewards)
    np.testing.assert_allclose(found[1], expected[1], atol=TOLERANCE * problem.scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_one_by_one_give_the_beliefs_of_the_slow_posterior(seed: int) -> None:
    problem = problem_of(seed)
    data, inducing_points = problem.data, 9
    slow = naive_sparse.Stepwise(problem.slow, problem.K_Z, inducing_points=inducing_points, mean=problem.mean)
    fast = problem.empty(inducing_points=inducing_points)
    for i in range(len(data.y)):
        slow.learn(int(data.tasks[i]), data.X[i], float(data.y[i]), float(data.noise[i]))
        fast.update(data.tasks[i : i + 1], data.X[i : i + 1], data.y[i : i + 1], noise=data.noise[i : i + 1])
    assert slow.replaced > 3
    assert slow.absorbed > 3
    prediction = fast.predict(problem.tasks, problem.X)
    assert_same((prediction.mean, prediction.std**2), slow.predict(problem.tasks, problem.X), problem)


def block_noises(problem: Problem, points: IntArray) -> FloatArray:
    """λ + r/κ of every row, with κ spent cell by cell in the order of the rows."""
    data, K_Z, kernel = problem.data, problem.K_Z, problem.slow
    at = list(zip(data.tasks[points].tolist(), data.X[points], strict=True))
    K = naive.multitask_gram(kernel, K_Z, data.tasks[points], data.X[points], data.tasks[points], data.X[points])
    spent: list[dict[int, float]] = [{} for _ in points]
    noises = data.noise.copy()
    for i, (task, x) in enumerate(zip(data.tasks.tolist(), data.X, strict=True)):
        if i in points:
            continue
        k = np.array([K_Z[t, task] * kernel(z, x) for t, z in at])
        residual = K_Z[task, task] * kernel(x, x) - k @ np.linalg.solve(K, k)
        cell = int(np.argmax(np.abs(k) / np.sqrt(np.diag(K))))
        if residual <= 1e-9 * K_Z[task, task] * kernel(x, x):
            continue
        here = spent[cell]
        known = sum(K_Z[t, task] ** 2 / (K_Z[t, t] * K_Z[task, task]) * kappa for t, kappa in here.items())
        kappa = naive_sparse.spend(known, residual / data.noise[i])
        here[task] = here.get(task, 0.0) + kappa
        noises[i] = data.noise[i] + residual / kappa if kappa > 0 else math.inf
    return noises


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_gives_the_projected_process_of_its_points(seed: int) -> None:
    problem = problem_of(seed)
    data = problem.data
    fast = problem.empty(inducing_points=11)
    fast.update(data.tasks, data.X, data.y, noise=data.noise)
    rows = Rows(data.tasks, data.X, data.y, data.noise)
    points = choose_points(fast.kernel, rows, inducing_points=11, tolerance=NO_POINT, mean=problem.mean)
    seen = naive.Data(data.tasks, data.X, data.y, block_noises(problem, points))
    kept = np.isfinite(seen.noise)
    seen = naive.Data(seen.tasks[kept], seen.X[kept], seen.y[kept], seen.noise[kept])
    expected = naive_sparse.batch(
        seen, problem.slow, problem.K_Z, (data.tasks[points], data.X[points]), problem.tasks, problem.X,
        mean=problem.mean,
    )  # fmt: skip
    prediction = fast.predict(problem.tasks, problem.X)
    assert_same((prediction.mean, prediction.std**2), expected, problem)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_room_for_every_row_it_is_the_exact_posterior(seed: int) -> None:
    problem = replace(problem_of(seed, rows=40), length_scale=0.15)  # no context lies between the others' reach
    data = problem.data
    expected = (
        naive.posterior_mean(data, problem.slow, problem.K_Z, problem.tasks, problem.X, mean=problem.mean),
        naive.posterior_variance(data, problem.slow, problem.K_Z, problem.tasks, problem.X),
    )
    for block in (True, False):
        fast = problem.empty(inducing_points=64)
        if block:
            fast.update(data.tasks, data.X, data.y, noise=data.noise)
        else:
            for i in range(len(data.y)):
                fast.update(data.tasks[i : i + 1], data.X[i : i + 1], data.y[i : i + 1], noise=data.noise[i : i + 1])
        prediction = fast.predict(problem.tasks, problem.X)
        assert_same((prediction.mean, prediction.std**2), expected, problem)
