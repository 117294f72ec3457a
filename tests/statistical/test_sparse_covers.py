"""Intervals of the sparse posterior hold what they promise where the model is right, with far fewer points than rows.

Functions are drawn from the model, rewards with its noise. Points of one function are not independent, so the margin is
that of the functions: with a share p of each function's points inside, three standard errors over functions.
"""

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.kernels import RBF, MultiTaskKernel
from kinband.posterior import SparsePosterior

FUNCTIONS, ROWS, ASKED = 60, 200, 40


def inside(seed: int, *, inducing_points: int, deviations: float) -> float:
    """The share of contexts at which f lies within so many widths of its mean."""
    rng = np.random.default_rng([seed, 8])
    kernel = RBF(float(rng.uniform(0.15, 0.5)), variance=float(np.exp(rng.uniform(-1, 1))))
    B = rng.uniform(0.0, 1.0, size=(3, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.1, 0.6, size=3))
    tasks, X = rng.integers(0, 3, size=ROWS + ASKED), rng.uniform(size=(ROWS + ASKED, 2))
    K = MultiTaskKernel(kernel, K_Z).cross(tasks, X, tasks, X)
    f: FloatArray = np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ rng.standard_normal(len(K))
    noise = float(np.exp(rng.uniform(np.log(0.01), np.log(0.3))))
    posterior = SparsePosterior(kernel, K_Z, noise=noise, inducing_points=inducing_points)
    for i in range(ROWS):
        posterior.update(tasks[i : i + 1], X[i : i + 1], [f[i] + np.sqrt(noise) * rng.standard_normal()])
    found = posterior.predict(tasks[ROWS:], X[ROWS:])
    return float(np.mean(np.abs(f[ROWS:] - found.mean) <= deviations * found.std))


@pytest.mark.parametrize("inducing_points", [12, 30])
@pytest.mark.parametrize(("deviations", "promised"), [(1.0, 0.683), (1.96, 0.95)])
def test_intervals_hold_at_least_what_they_promise(inducing_points: int, deviations: float, promised: float) -> None:
    shares = np.array(
        [inside(seed, inducing_points=inducing_points, deviations=deviations) for seed in range(FUNCTIONS)]
    )
    margin = 3.0 * shares.std() / np.sqrt(FUNCTIONS)
    assert shares.mean() >= promised - margin
