"""Arms that share a state: as many columns as the configuration kernel has rank, and the same beliefs."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kinband.arrays import FloatArray
from kinband.kernels import RBF, Categorical, Constant, Forgetting, Kernel, Matern52
from kinband.kernels.serial import split_kernel
from kinband.posterior import BlockedPosterior, ExactPosterior
from kinband.posterior.shared_state import find_shared_state, pivoted

THRESHOLDS: FloatArray = np.linspace(-14.0, 14.0, 29, dtype=np.float64)[:, None] / np.float64(8.4)
N = len(THRESHOLDS)


def contexts(state: FloatArray) -> FloatArray:
    return np.hstack([np.broadcast_to(state, (N, len(state))), THRESHOLDS])


def taught(kernel: Kernel, K_Z: FloatArray, *, rows: int, noise: float, rng: np.random.Generator) -> ExactPosterior:
    posterior = ExactPosterior(kernel, K_Z, noise=noise, mean=rng.normal(), configurations=THRESHOLDS)
    X = np.hstack([rng.normal(size=(rows, 3)), THRESHOLDS[rng.integers(N, size=rows)]])
    posterior.update(rng.integers(len(K_Z), size=rows), X, rng.normal(size=rows))
    return posterior


def some_tasks(rng: np.random.Generator, size: int) -> FloatArray:
    A = rng.normal(size=(size, 2 * size))
    K = A @ A.T
    scale = np.sqrt(np.diag(K))
    return np.asarray(K / np.outer(scale, scale))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    length=st.floats(0.8, 6.0),
    variance=st.floats(0.05, 20.0),
    noise=st.floats(1e-3, 1.0),
    rows=st.integers(128, 300),
    level=st.just(0.0) | st.floats(0.1, 5.0),
)
def test_the_structure_changes_no_belief(
    seed: int, length: float, variance: float, noise: float, rows: int, level: float
) -> None:
    rng = np.random.default_rng(seed)
    shape = RBF([*rng.uniform(0.5, 3.0, size=3), length], variance=variance)
    kernel: Kernel = shape + Constant(level * variance) if level else shape
    posterior = taught(kernel, some_tasks(rng, 4), rows=rows, noise=noise * variance, rng=rng)
    shared = find_shared_state(kernel, THRESHOLDS, width=4)
    columns = N if shared is None else len(shared)
    assume(columns < N)  # too rough a kernel has no structure, which the next test shows
    arms = np.sort(rng.permutation(N)[: rng.integers(columns + 1, N + 1)])  # with fewer there is nothing to save
    X = contexts(rng.normal(size=3))
    found = posterior.predict(2, X[arms])
    assert len(found.joint.V.T) < len(arms)  # type: ignore[union-attr]
    plain = posterior.predict(2, X[arms], columns=[None] * len(arms))
    assert np.allclose(found.mean, plain.mean, rtol=0, atol=1e-9 * max(1.0, variance))
    assert np.allclose(found.std**2, plain.std**2, rtol=0, atol=1e-9 * variance)


def test_the_structure_is_used_where_the_kernel_is_smooth_enough() -> None:
    kernel = RBF([1.0, 1.0, 1.0, 1.2])  # 10 dB
    shared = find_shared_state(kernel, THRESHOLDS, width=4)
    assert shared is not None
    assert 10 <= len(shared.terms[0].pivots) <= 14
    rough = RBF([1.0, 1.0, 1.0, 0.1])
    assert find_shared_state(rough, THRESHOLDS, width=4) is None


def test_pivots_reproduce_a_kernel_to_rounding() -> None:
    K = RBF(1.7, variance=3.0)(THRESHOLDS, THRESHOLDS)
    pivots, W = pivoted(K)
    assert len(pivots) < 15
    assert np.abs(K[:, pivots] @ W - K).max() < 1e-12 * 3.0


@pytest.mark.parametrize(
    "kernel",
    [
        RBF([0.7, 1.3, 2.0, 0.4], variance=2.5),
        RBF(0.9, variance=0.3),
        RBF([0.7, 1.3], groups=[0, 1, 0, 1], variance=1.4),
        RBF([0.6, 1.1], columns=[0, 3]) * Categorical(0.8, columns=[1], fixed=["variance"]),
        Matern52(0.8, columns=[0, 1]) * RBF(2.0, variance=3.0, columns=[2, 3]),
        Categorical([0.5, 0.9, 1.5, 0.7], variance=0.6),
        RBF([0.7, 1.3, 2.0, 0.4]) + RBF(0.9, columns=[0]) + Constant(0.3),
        (RBF([0.7, 1.3, 2.0], columns=[1, 2, 3]) + Constant(0.3)) * Forgetting(2.0, columns=[0], fixed=["variance"]),
    ],
    ids=repr,
)
def test_a_split_kernel_is_the_sum_of_its_products(kernel: Kernel) -> None:
    rng = np.random.default_rng(4)
    X, Y = rng.integers(0, 3, size=(7, 4)).astype(float), rng.integers(0, 3, size=(5, 4)).astype(float)
    splits = split_kernel(kernel, columns=[2, 3], width=4)
    assert splits
    assert np.allclose(sum(split.over_rest(X, Y) * split.over_part(X, Y) for split in splits), kernel(X, Y))
    elsewhere = X.copy()
    elsewhere[:, 2:] = rng.normal(size=(7, 2))
    for split in splits:
        assert np.array_equal(split.over_rest(elsewhere, Y), split.over_rest(X, Y))


@pytest.mark.parametrize("kernel", [Matern52([1.0, 2.0]), RBF([1.0, 2.0]) + Matern52([0.3, 0.4])], ids=repr)
def test_kernels_that_are_no_product_do_not_split(kernel: Kernel) -> None:
    assert split_kernel(kernel, columns=[1], width=2) == ()


def test_a_configuration_outside_the_space_switches_the_structure_off() -> None:
    rng = np.random.default_rng(8)
    kernel = RBF([1.0, 2.0, 0.7, 1.5], variance=0.4)
    posterior = taught(kernel, some_tasks(rng, 3), rows=150, noise=0.02, rng=rng)
    posterior.update([1], [[0.1, 0.2, 0.3, 9.0]], [0.7])
    assert len(posterior.predict(0, contexts(rng.normal(size=3))).joint.V.T) == N  # type: ignore[union-attr]


def test_the_structure_stays_off_when_later_configurations_are_of_the_space_again() -> None:
    rng = np.random.default_rng(8)
    kernel = RBF([1.0, 2.0, 0.7, 1.5], variance=0.4)
    posterior = taught(kernel, some_tasks(rng, 3), rows=150, noise=0.02, rng=rng)
    posterior.update([1], [[0.1, 0.2, 0.3, 9.0]], [0.7])
    posterior.update([1], [[0.1, 0.2, 0.3, THRESHOLDS[4, 0]]], [0.5])
    assert len(posterior.predict(0, contexts(rng.normal(size=3))).joint.V.T) == N  # type: ignore[union-attr]


def test_configurations_without_features_have_no_structure() -> None:
    assert find_shared_state(RBF([1.0, 2.0]), np.zeros((4, 0)), width=2) is None
    assert find_shared_state(RBF([1.0, 2.0]), np.zeros((4, 3)), width=2) is None


@pytest.mark.parametrize("step", [1.0, -1.0])
def test_states_of_one_task_are_told_apart_whichever_way_they_differ(step: float) -> None:
    rng = np.random.default_rng(11)
    posterior = taught(RBF([1.0, 2.0, 0.7, 1.5], variance=0.4), some_tasks(rng, 3), rows=200, noise=0.02, rng=rng)
    X = np.concatenate([contexts(np.full(3, step * i)) for i in range(3)])
    found, plain = posterior.predict(1, X), posterior.predict(1, X, columns=[None] * len(X))
    assert len(found.joint.V.T) < N * 3  # type: ignore[union-attr]
    assert np.allclose(found.mean, plain.mean, rtol=0, atol=1e-9)
    assert np.allclose(found.std, plain.std, rtol=0, atol=1e-9)
    assert np.allclose(found.covariance(), plain.covariance(), rtol=0, atol=1e-9)


def test_a_round_of_decisions_gets_the_answers_of_single_ones() -> None:
    rng = np.random.default_rng(9)
    posterior = taught(RBF([1.0, 2.0, 0.7, 1.5], variance=0.4), some_tasks(rng, 3), rows=200, noise=0.02, rng=rng)
    tasks, X = [0, 2, 1, 2], [contexts(rng.normal(size=3)) for _ in range(4)]
    together = posterior.predict(np.repeat(tasks, N), np.concatenate(X))
    for own, task, asked in zip(together.split([N] * 4), tasks, X, strict=True):
        alone = posterior.predict(task, asked)
        assert np.allclose(own.mean, alone.mean, rtol=0, atol=1e-12)
        assert np.allclose(own.std, alone.std, rtol=0, atol=1e-10)
        assert np.allclose(own.covariance(), alone.covariance(), rtol=0, atol=1e-10)


def test_blocks_use_the_structure_too() -> None:
    rng = np.random.default_rng(10)
    K_Z = np.kron(np.eye(2), [[1.0, 0.6], [0.6, 1.0]])
    posterior = BlockedPosterior(RBF([1.0, 2.0, 0.7, 1.5]), K_Z, noise=0.02, configurations=THRESHOLDS)
    X = np.hstack([rng.normal(size=(400, 3)), THRESHOLDS[rng.integers(N, size=400)]])
    posterior.update(rng.integers(4, size=400), X, rng.normal(size=400))
    asked = contexts(rng.normal(size=3))
    found, plain = posterior.predict(3, asked), posterior.predict(3, asked, columns=[None] * N)
    assert len(found.joint.V.T) < N  # type: ignore[union-attr]
    assert np.allclose(found.mean, plain.mean, rtol=0, atol=1e-9)
