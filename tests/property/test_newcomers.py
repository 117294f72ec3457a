"""Newcomers get a row of the task matrix that keeps it one."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.kernels import check_task_matrix
from kinband.similarity.newcomers import OWN, average_row, correlations, descriptor_row, fit_descriptor_kernel, with_row

KINDS = ["urban", "rural", "harbour"]


def described(rng: np.random.Generator) -> dict[str, Any]:
    full = {"x_m": float(rng.normal()), "kind": str(rng.choice(KINDS))}
    return {name: value for name, value in full.items() if rng.random() < 0.8}


@given(seed=st.integers(0, 10_000), M=st.integers(1, 12), rank=st.integers(1, 14), shift=st.floats(-0.5, 2.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_longer_matrix_is_always_a_valid_one_and_calls_nobody_identical(
    seed: int, M: int, rank: int, shift: float
) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, rank)) + shift
    K = A @ A.T + 1e-3 * np.eye(M)
    stations = [described(rng) for _ in range(M)]
    kernel = fit_descriptor_kernel(K, stations)
    newcomer = described(rng)
    rows = [average_row(K)] + ([] if kernel is None else [descriptor_row(K, kernel, stations, newcomer)])
    for row in rows:
        longer = check_task_matrix(with_row(K, row), size=M + 1)
        assert np.linalg.eigvalsh(longer)[0] > -1e-9 * np.diagonal(K).max()
        assert np.abs(correlations(longer)[-1, :-1]).max() <= np.sqrt(1 - OWN) + 1e-9
