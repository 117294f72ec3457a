"""Every analytic gradient equals a central difference, at random hyper-parameters."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk
from tests.property.test_kernels import FEATURES, contexts, kernels, positive, seeds

from kinband.arrays import FloatArray
from kinband.kernels import (
    RBF,
    FactorTasks,
    FixedTasks,
    GaussianTasks,
    Kernel,
    PartialPooling,
    SklearnKernel,
    TaskModel,
)
from kinband.likelihood import Shocks, log_marginal_likelihood, value_and_gradient
from kinband.records import Samples

STEP = 1e-5


def central_difference(f: Callable[[FloatArray], float], theta: FloatArray) -> FloatArray:
    """∂f/∂θ, (p,), by symmetric steps; its error is about STEP² f''' + 1e-16 |f| / STEP."""
    steps = STEP * np.eye(len(theta))
    return np.array([(f(theta + step) - f(theta - step)) / (2 * STEP) for step in steps])


def symmetric(rng: np.random.Generator, n: int) -> FloatArray:
    W = rng.normal(size=(n, n))
    return W + W.T


def assert_kernel_gradient(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = contexts(rng, 6)
    W = symmetric(rng, 6)
    _, pullback = kernel.vjp(X)
    numeric = central_difference(lambda theta: float(np.vdot(W, kernel.with_theta(theta)(X, X))), kernel.theta)
    scale = np.abs(W * kernel(X, X)).sum()
    np.testing.assert_allclose(pullback(W), numeric, rtol=1e-5, atol=1e-7 * scale)


@settings(deadline=None, max_examples=60)
@given(kernel=kernels, seed=seeds)
def test_kernel_gradient_equals_central_difference(kernel: Kernel, seed: int) -> None:
    assert_kernel_gradient(kernel, seed)


@settings(deadline=None, max_examples=60)
@given(a=positive, b=positive, c=positive, seed=seeds, which=st.integers(0, 3))
def test_gradient_of_scikit_learn_kernels_equals_central_difference(
    a: float, b: float, c: float, seed: int, which: int
) -> None:
    foreign = [
        sk.ConstantKernel(a) * sk.RBF([b, c, a, b, c]) + sk.DotProduct(c),
        sk.ConstantKernel(a, constant_value_bounds="fixed") * sk.Matern(b, nu=2.5),
        sk.RationalQuadratic(a, b) + sk.ConstantKernel(c),
        sk.ExpSineSquared(a, 3 * b) * sk.RBF(c),
    ][which]
    columns = (1,) if which == 3 else None
    assert_kernel_gradient(SklearnKernel(foreign, columns=columns), seed)
    assert_kernel_gradient(RBF(b, columns=[0, 2]) * SklearnKernel(foreign, columns=columns), seed)


def task_models(rng: np.random.Generator, M: int) -> list[TaskModel]:
    points = rng.normal(size=(M, 2))
    D2 = ((points[:, None] - points) ** 2).sum(axis=2)
    factors = FactorTasks(rng.normal(size=(M, 2)), rng.uniform(0.2, 2.0, size=M))
    apart = FactorTasks(np.vstack([np.eye(2), np.zeros((M - 2, 2))]), rng.uniform(0.2, 2.0, size=M))
    A = rng.normal(size=(M, M))
    blocks = np.diag(rng.uniform(0.5, 2.0, size=M))
    pooled = PartialPooling(np.exp(-rng.uniform(0.2, 2.0) * D2), rng.uniform(0.05, 0.95))
    width = rng.uniform(0.5, 2.0)
    return [factors, apart, GaussianTasks(D2, width), FixedTasks(A @ A.T), FixedTasks(blocks), pooled]


@settings(deadline=None, max_examples=60)
@given(seed=seeds, which=st.integers(0, 5))
def test_task_model_gradient_equals_central_difference(seed: int, which: int) -> None:
    rng = np.random.default_rng(seed)
    model = task_models(rng, 4)[which]
    W = symmetric(rng, 4)
    K_Z, pullback = model.vjp()
    np.testing.assert_array_equal(K_Z, model.K_Z)
    numeric = central_difference(lambda theta: float(np.vdot(W, model.with_theta(theta).K_Z)), model.theta)
    np.testing.assert_allclose(pullback(W), numeric, rtol=1e-5, atol=1e-7 * np.abs(W * K_Z).sum())


@settings(deadline=None, max_examples=60)
@given(
    kernel=kernels,
    seed=seeds,
    which=st.integers(0, 5),
    known=st.sampled_from(["none", "some", "all"]),
    shocked=st.booleans(),
)
def test_likelihood_gradient_equals_central_difference(
    kernel: Kernel, seed: int, which: int, known: str, shocked: bool
) -> None:
    rng = np.random.default_rng(seed)
    n, M = 9, 4
    model = task_models(rng, M)[which]
    noise_of_rows = rng.uniform(0.2, 1.0, size=n)
    if known == "some":
        noise_of_rows[rng.random(n) < 0.5] = np.nan
    log = Samples(
        tuple("abcd"),
        rng.integers(0, M, size=n),
        contexts(rng, n),
        rng.normal(1.5, 1.0, size=n),
        None if known == "none" else noise_of_rows,
        FEATURES,
        days=rng.integers(0, 3, size=n) if shocked else None,
        spells=rng.integers(0, 5, size=n) if shocked else None,
    )
    noise, mean = rng.uniform(0.2, 1.0), rng.normal()
    shocks = Shocks(*rng.uniform(0.1, 1.0, size=2).tolist()) if shocked else None
    cut = np.cumsum([len(kernel.theta), len(model.theta), 1, 1])

    def value(z: FloatArray) -> float:
        theta, task_theta, log_noise, mu, log_shocks = np.split(z, cut)
        return log_marginal_likelihood(
            log,
            kernel.with_theta(theta),
            tasks=model.with_theta(task_theta),
            noise=float(np.exp(log_noise[0])),
            mean=float(mu[0]),
            shocks=Shocks(*np.exp(log_shocks).tolist()) if shocked else None,
        )

    rest = [np.log(noise), mean, *(np.log([shocks.day, shocks.spell]) if shocks else [])]
    z = np.concatenate([kernel.theta, model.theta, rest])
    found, gradient = value_and_gradient(log, kernel, tasks=model, noise=noise, mean=mean, shocks=shocks)
    assert found == pytest.approx(value(z), rel=1e-12)
    np.testing.assert_allclose(gradient, central_difference(value, z), rtol=1e-4, atol=1e-5 * (1 + abs(found)))
