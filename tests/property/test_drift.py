"""Stations that change get a row of the task matrix that keeps it one, however often and whoever it is."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband.drift import row_after_change
from kinband.kernels import check_task_matrix, components
from kinband.similarity.newcomers import with_row


@given(
    seed=st.integers(0, 10_000),
    M=st.integers(1, 6),
    rank=st.integers(1, 7),
    kept=st.floats(0.0, 0.999),
    changes=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_task_matrix_stays_valid_whoever_changes_and_however_often(
    seed: int, M: int, rank: int, kept: float, changes: int
) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, rank))
    K = A @ A.T + 1e-3 * np.eye(M)
    present = list(range(M))
    former: dict[int, int] = {}
    for _ in range(changes):
        m = int(rng.integers(M))
        row = row_after_change(K, present[m], former=former, kept=kept)
        former[len(K)], present[m] = present[m], len(K)
        K = np.block([[K, row[:-1, None]], [row[None, :-1], row[-1:, None]]])
        check_task_matrix(K)
        assert K[-1, -1] == K[m, m]


@given(seed=st.integers(0, 10_000), M=st.integers(2, 9), rank=st.integers(1, 10), kept=st.floats(0.0, 0.999))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_new_row_fits_whatever_has_become_of_the_task_matrix(seed: int, M: int, rank: int, kept: float) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, rank)) * (rng.random((M, 1)) < 0.8)
    K = A @ A.T + 1e-3 * np.eye(M)
    links = rng.permutation(M)
    former = {int(b): int(a) for a, b in zip(links[::2], links[1::2], strict=False) if rng.random() < 0.7}
    task = int(rng.choice([t for t in range(M) if t not in former.values()]))
    row = row_after_change(K, task, former=former, kept=kept)
    check_task_matrix(with_row(K, row))
    origins = [former.get(t, t) for t in range(M)]
    for members in components(K):
        if all(K[origins[task], origins[t]] == 0.0 for t in members):
            assert not row[members].any()  # exactly, or posteriors that are kept apart would be joined
