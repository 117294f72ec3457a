"""What others need for one step: score the 29 arms of a decision with n observations known, then learn one more.

The Schur engine is the paper's own update, in this package. scikit-learn refits with fixed hyper-parameters, because
its regressor cannot grow. BoTorch conditions a Gaussian process on one more observation, or is built anew, whichever is
faster. All use the same kernel, the task matrix included, as a dense product.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.speed.measure import ARMS, MEAN, NOISE, SPACE, bench_kernel, log_of, median_time, task_matrix
from kinband.arrays import FloatArray
from kinband.kernels import MultiTaskKernel
from kinband.posterior import SchurPosterior


def available(name: str) -> bool:
    """Whether a peer is installed.

    Example:
        >>> available("schur"), available("scikit-learn")
        (True, True)
    """
    return find_spec({"schur": "kinband", "scikit-learn": "sklearn"}.get(name, name)) is not None


def schur_step(n: int) -> float:
    """Seconds of one step of the paper's update."""
    rng = np.random.default_rng(n)
    log, X = log_of(n, rng), _arms(rng)
    posterior = SchurPosterior(bench_kernel(), task_matrix(rng), noise=NOISE, mean=MEAN)
    posterior.update(log.tasks, log.X, log.y)

    def step() -> None:
        posterior.predict(np.zeros(ARMS, dtype=np.int64), X)
        posterior.update([0], X[:1], [0.8])

    return median_time(step)


def sklearn_step(n: int) -> float:
    """Seconds of refitting scikit-learn's regressor with fixed hyper-parameters and predicting 29 arms."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    rng = np.random.default_rng(n)
    log, X = log_of(n, rng), _arms(rng)
    # Stations as further coordinates: an RBF over their places has the task matrix as a factor.
    places = rng.standard_normal((len(log.stations), 6))
    known, asked = np.hstack([log.X, places[log.tasks]]), np.hstack([X, np.broadcast_to(places[0], (ARMS, 6))])
    kernel = RBF([*np.atleast_1d(bench_kernel().length_scale), *np.full(6, 2.5)])

    def step() -> None:
        model = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(known, log.y)
        model.predict(asked, return_std=True)

    return median_time(step, least=2, budget=0.2)


def botorch_step(n: int) -> float:
    """Seconds of one step with BoTorch: the faster of conditioning on one more observation and building anew."""
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import Kernel as TorchKernel

    rng = np.random.default_rng(n)
    log, X = log_of(n, rng), _arms(rng)
    ours = MultiTaskKernel(bench_kernel(), task_matrix(rng))

    class Dense(TorchKernel):  # type: ignore[misc]
        """The product kernel (7); the task number is the last column."""

        def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:
            a, b = x1.detach().numpy(), x2.detach().numpy()
            K = ours.cross(a[:, -1].astype(np.int64), a[:, :-1], b[:, -1].astype(np.int64), b[:, :-1])
            K_torch = torch.from_numpy(K)
            return torch.diagonal(K_torch) if diag else K_torch

    def tensor(X: FloatArray, tasks: Any) -> Any:
        return torch.from_numpy(np.column_stack([X, tasks]))

    train, y = tensor(log.X, log.tasks), torch.from_numpy(log.y[:, None] - MEAN)
    asked, noise = tensor(X, np.zeros(ARMS)), torch.full_like(y, NOISE)

    def build() -> Any:
        model = SingleTaskGP(train, y, train_Yvar=noise, covar_module=Dense(), outcome_transform=None)
        model.eval()
        return model

    def rebuilt() -> None:
        with torch.no_grad():
            posterior = build().posterior(asked)
            _ = posterior.mean, posterior.variance

    model = build()

    def conditioned() -> None:
        with torch.no_grad():
            posterior = model.posterior(asked)
            _ = posterior.mean, posterior.variance
            model.condition_on_observations(asked[:1], y[:1], noise=noise[:1])

    return min(median_time(rebuilt, least=2, budget=0.2), median_time(conditioned, least=2, budget=0.2))


STEPS: dict[str, Callable[[int], float]] = {
    "schur": schur_step,
    "scikit-learn": sklearn_step,
    "botorch": botorch_step,
}
"""Seconds of one step with n observations known, by peer."""


def _arms(rng: np.random.Generator) -> FloatArray:
    state = rng.standard_normal(5)
    return np.hstack([np.broadcast_to(state, (ARMS, 5)), SPACE.features])
