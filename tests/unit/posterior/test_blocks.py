"""Blocks that share nothing are separate posteriors, and a task that is like several makes one of them."""

from typing import Any

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.posterior import BlockedPosterior, ExactPosterior, SchurPosterior, SparsePosterior, make_posterior

KERNEL = RBF(0.4, variance=0.6)


def apart(like: list[int]) -> FloatArray:
    """Tasks 0 and 2 are alike, 1, 3 and 4 like nobody; the last one is like those named."""
    K_Z = np.eye(6)
    K_Z[0, 2] = K_Z[2, 0] = 0.5
    for task in like:
        K_Z[5, task] = K_Z[task, 5] = 0.4
    return K_Z


def rows_of(n: int, tasks: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    return rng.integers(0, tasks, size=n), rng.uniform(size=(n, 2)), rng.normal(size=n)


def members(posterior: BlockedPosterior) -> list[list[int]]:
    return [tasks.tolist() for _, tasks in posterior.parts()]


def agree(one: Any, other: Any) -> None:
    tasks, X = np.repeat(np.arange(6), 3), np.random.default_rng(5).uniform(size=(18, 2))
    found, expected = one.predict(tasks, X), other.predict(tasks, X)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-10)
    np.testing.assert_allclose(found.std, expected.std, atol=1e-10)
    np.testing.assert_allclose(found.covariance(), expected.covariance(), atol=1e-10)


@pytest.mark.parametrize(
    ("like", "blocks"),
    [
        ([], [[0, 2], [1], [3], [4], [5]]),
        ([0], [[0, 2, 5], [1], [3], [4]]),
        ([3], [[0, 2], [1], [3, 5], [4]]),
        ([0, 3], [[0, 2, 3, 5], [1], [4]]),
        ([1, 4], [[0, 2], [1, 4, 5], [3]]),
        ([1, 3, 4], [[0, 2], [1, 3, 4, 5]]),
        ([0, 1, 3, 4], [[0, 1, 2, 3, 4, 5]]),
    ],
    ids=str,
)
def test_a_task_joins_the_blocks_that_it_is_like(like: list[int], blocks: list[list[int]]) -> None:
    K_Z, (tasks, X, y) = apart(like), rows_of(40, 5)
    grown = BlockedPosterior(KERNEL, K_Z[:5, :5], noise=0.1, mean=0.3)
    whole = BlockedPosterior(KERNEL, K_Z, noise=0.1, mean=0.3)
    joint = ExactPosterior(KERNEL, K_Z, noise=0.1, mean=0.3)
    for i in range(40):
        for one in (grown, whole, joint):
            one.update(tasks[i : i + 1], X[i : i + 1], y[i : i + 1])
    grown.extend_tasks(K_Z)
    assert members(grown) == members(whole) == blocks
    for one in (grown, whole, joint):
        one.update([5, 4, 0, 5], X[:4], y[:4])
        one.correct(17, 2.5)
        one.correct(20, -1.5)
        one.correct(40, 0.7)
    agree(grown, joint)
    agree(whole, joint)
    again = BlockedPosterior(KERNEL, K_Z, noise=0.1, mean=0.3)
    again.restore(grown.state())
    for one in (again, joint):
        one.update([1, 5], X[5:7], y[5:7])
        one.correct(43, 0.1)
    agree(again, joint)


def test_several_tasks_come_one_after_the_other() -> None:
    K_Z, (tasks, X, y) = apart([1, 3]), rows_of(30, 2)
    grown, joint = BlockedPosterior(KERNEL, K_Z[:2, :2], noise=0.1), ExactPosterior(KERNEL, K_Z, noise=0.1)
    for one in (grown, joint):
        one.update(tasks, X, y)
    grown.extend_tasks(K_Z)
    assert members(grown) == [[0, 2], [1, 3, 5], [4]]
    agree(grown, joint)


def test_work_of_a_prediction_over_several_blocks_is_taken_up() -> None:
    tasks, X, y = rows_of(30, 5)
    K_Z = apart([])
    one, other = (BlockedPosterior(KERNEL, K_Z, noise=0.1) for _ in range(2))
    for posterior in (one, other):
        posterior.update(tasks, X, y)
    column = one.predict([0, 3, 5], X[:3] + 0.01).column(1)
    assert column is not None
    assert len(column.solved) == np.count_nonzero(tasks == 3)
    one.update([3], X[1:2] + 0.01, [0.4], column=column)
    other.update([3], X[1:2] + 0.01, [0.4])
    agree(one, other)


@pytest.mark.parametrize("engine", [ExactPosterior, SchurPosterior])
def test_stored_beliefs_go_on(engine: Any) -> None:
    tasks, X, y = rows_of(30, 6)
    whole, first, second = (engine(KERNEL, apart([0, 1]), noise=0.1, mean=0.3) for _ in range(3))
    whole.update(tasks, X, y)
    first.update(tasks[:20], X[:20], y[:20])
    second.restore(first.state())
    second.update(tasks[20:], X[20:], y[20:])
    first.update([0], [[0.5, 0.5]], [9.0])  # of which the other one hears nothing
    agree(second, whole)
    for one in (second, whole):
        one.correct(7, 1.5)
    agree(second, whole)


@pytest.mark.parametrize("engine", [ExactPosterior, SchurPosterior, SparsePosterior, BlockedPosterior])
@pytest.mark.parametrize("rewards", [1, 3])
def test_every_context_of_an_update_has_one_reward(engine: Any, rewards: int) -> None:
    posterior = engine(KERNEL, apart([]), noise=0.1)
    with pytest.raises(BadInputError, match=f"got {rewards} rewards for 2 contexts"):
        posterior.update([0, 1], [[0.1, 0.2], [0.3, 0.4]], [0.5] * rewards)
    assert len(posterior) == 0


def test_sixty_four_blocks_get_all_inducing_points_and_more_share_their_memory() -> None:
    for blocks, points in ((64, 1000), (65, 993), (256, 500)):
        posterior = make_posterior(KERNEL, np.eye(blocks), noise=0.1, engine="sparse", inducing_points=1000)
        assert posterior.inducing_points == points
