"""What a sparse posterior may forget as if it were independent, and that a block is learned whole or not at all."""

from typing import Any

import numpy as np
import pytest

from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import RBF, MultiTaskKernel
from kinband.posterior import SparsePosterior
from kinband.posterior.base import Rows
from kinband.posterior.sparse import SHARE, STEP, Allowance, InducedBelief, choose_points, kappa


@pytest.mark.parametrize(
    ("spent", "information", "expected"),
    [
        (0.0, 0.0, 0.0),  # a row that tells nothing
        (0.0, 0.02, 0.2),  # √(2·0.02)
        (0.3, 0.08, 0.2),  # √(0.3² + 2·0.08) − 0.3
        (0.0, 50.0, 0.5),  # half of what is left at most
        (0.8, 50.0, 0.1),
        (1.0, 50.0, 0.0),
        (1.5, 50.0, 0.0),
    ],
)
def test_a_direction_takes_of_the_allowance_what_its_information_is_worth(
    spent: float, information: float, expected: float
) -> None:
    assert kappa(spent, information) == pytest.approx(expected, abs=1e-12)


def test_little_by_little_the_root_of_all_information_is_spent() -> None:
    spent = 0.0
    for _ in range(100):
        spent += kappa(spent, 0.001)
    assert spent == pytest.approx((2.0 * SHARE * 100 * 0.001) ** 0.5)


def test_what_is_spent_counts_for_other_tasks_by_the_square_of_their_correlation() -> None:
    allowance = Allowance(np.array([[4.0, 1.0], [1.0, 1.0]]), np.zeros((1, 2)))
    assert allowance.take(0, task=0, information=50.0) == STEP
    assert allowance.take(0, task=1, information=50.0) == STEP * (1.0 - 0.25 * 0.5)  # correlation 1/2
    assert allowance.total == pytest.approx(0.9375)


def test_a_new_cell_inherits_as_much_as_it_is_not_new() -> None:
    allowance = Allowance(np.eye(2), np.array([[0.4, 0.0], [0.1, 0.8]]))
    allowance.found(1, novelty=0.75)
    allowance.found(None, novelty=1.0)
    np.testing.assert_allclose(allowance.spent[2:], [[0.025, 0.2], [0.0, 0.0]])


def test_a_cell_that_is_given_up_hands_over_what_it_has_spent() -> None:
    allowance = Allowance(np.eye(2), np.array([[0.4, 0.0], [0.1, 0.8], [0.3, 0.3]]))
    share = allowance.merge(0, into=1, task=0, information=50.0)
    assert share == pytest.approx(STEP * (1.0 - 0.4))
    np.testing.assert_allclose(allowance.spent, [[0.3, 0.3], [0.7, 0.8]])


def test_a_block_of_which_one_row_cannot_be_learned_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(30, 2)), rng.normal(size=30)
    posterior = SparsePosterior(RBF(0.3), [[1.0]], noise=0.1, inducing_points=8)
    posterior.update(np.zeros(20, dtype=int), X[:20], y[:20])
    before, look = posterior.predict(0, X), InducedBelief.look

    def third_fails(belief: InducedBelief, task: int, x: Any, reward: float) -> Any:
        if np.array_equal(x, X[22]):
            raise NotPositiveDefiniteError("no")
        return look(belief, task, x, reward)

    with monkeypatch.context() as failing:
        failing.setattr(InducedBelief, "look", third_fails)
        with pytest.raises(NotPositiveDefiniteError, match=r"^no"):
            posterior.update(np.zeros(10, dtype=int), X[20:], y[20:])
        with pytest.raises(NotPositiveDefiniteError, match=r"^no"):
            posterior.update([0], X[22:23], y[22:23])
    after = posterior.predict(0, X)
    np.testing.assert_array_equal(after.mean, before.mean)
    np.testing.assert_array_equal(after.std, before.std)
    assert len(posterior) == 20


@pytest.mark.parametrize("point", [0, 1, 2])
def test_a_point_that_is_forgotten_with_its_own_prior_leaves_what_the_others_say(point: int) -> None:
    kernel = MultiTaskKernel(RBF(0.5), np.array([[1.0]]))
    belief = InducedBelief(kernel, inducing_points=8, width=1)
    for x, y in ((0.0, 0.4), (0.3, 1.1), (0.9, -0.6)):
        belief.admit(belief.look(0, np.array([x]), y), 0.05)
    others = np.delete(np.array([[0.0], [0.3], [0.9]]), point, axis=0)
    mean, variance, _, _ = belief.predict(np.zeros(2, dtype=np.int64), others)
    belief.forget(point, kappa=1.0)
    after_mean, after_variance, _, _ = belief.predict(np.zeros(2, dtype=np.int64), others)
    np.testing.assert_allclose(after_mean, mean, atol=1e-12)
    np.testing.assert_allclose(after_variance, variance, atol=1e-12)


def test_the_rows_that_tell_most_become_the_first_points() -> None:
    kernel = MultiTaskKernel(RBF(0.1), np.array([[1.0]]))
    X, noise = np.array([[0.0], [3.0], [6.0], [6.0]]), np.array([10.0, 0.1, 1.0, 0.01])
    rows = Rows(np.zeros(4, dtype=np.int64), X, np.zeros(4), noise)
    chosen = choose_points(kernel, rows, inducing_points=4, tolerance=1e-6, mean=0.0)
    assert chosen.tolist() == [3, 1, 0]  # the precise first; what is seen by another is none
    surprising = Rows(rows.tasks, X, np.array([0.0, 0.0, 9.0, 0.0]), noise)
    chosen = choose_points(kernel, surprising, inducing_points=1, tolerance=1e-6, mean=0.0)
    assert chosen.tolist() == [2]


@pytest.mark.parametrize("rows", [0, 40])
def test_a_task_that_comes_later_is_believed_of_as_if_it_had_been_there(rows: int) -> None:
    K_Z = np.array([[1.0, 0.6, 0.3], [0.6, 0.9, 0.5], [0.3, 0.5, 1.2]])
    rng = np.random.default_rng(2)
    tasks, X, y = rng.integers(0, 2, size=60), rng.uniform(size=(60, 2)), rng.normal(size=60)
    grown, whole = (SparsePosterior(RBF(0.3), K, noise=0.1, inducing_points=12) for K in (K_Z[:2, :2], K_Z))
    for i in range(60):
        if i == rows:
            grown.extend_tasks(K_Z)
        for one in (grown, whole):
            one.update(tasks[i : i + 1], X[i : i + 1], y[i : i + 1])
    for one in (grown, whole):
        one.update([2], X[:1], [0.8])
    for task in range(3):
        found, expected = grown.predict(task, X), whole.predict(task, X)
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
        np.testing.assert_allclose(found.std, expected.std, atol=1e-12)
    assert grown.slack == pytest.approx(whole.slack)
