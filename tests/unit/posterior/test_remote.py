"""Blocks in workers believe what blocks in this process believe, whatever becomes of the workers."""

from typing import Any

import numpy as np
import pytest

from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import RBF
from kinband.posterior import BlockedPosterior

KERNEL = RBF(0.4, variance=0.6)
K_Z = np.array([[1.0, 0.6, 0.0], [0.6, 0.9, 0.0], [0.0, 0.0, 1.1]])
LARGER = np.block([[K_Z, np.array([[0.0], [0.0], [0.5]])], [np.array([[0.0, 0.0, 0.5, 1.0]])]])


class Cluster:
    """Does at once, in this process, what workers do; what they hold can be lost."""

    def __init__(self) -> None:
        self.held: dict[int, Any] = {}
        self.broken = False

    def run(self, calls: Any) -> list[Any]:
        return [function(self._object(remote), *arguments) for remote, function, arguments in calls]

    def forget(self, keys: Any) -> None:
        for key in keys:
            self.held.pop(key, None)

    def _object(self, remote: Any) -> Any:
        if remote.key not in self.held:
            made = remote.make()
            for function, arguments in remote.past:
                function(made, *arguments)
            self.held[remote.key] = made
        if self.broken:
            raise ConnectionError("the worker is gone")
        return self.held[remote.key]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def pair(cluster: Cluster) -> list[BlockedPosterior]:
    """The same beliefs there and here."""
    places: list[Any] = [cluster, None]
    found = [BlockedPosterior(KERNEL, K_Z, noise=0.1, mean=0.3, on=on) for on in places]
    for one in found:
        tell(one, 0, 25)
    return found


def tell(posterior: BlockedPosterior, start: int, stop: int) -> None:
    rng = np.random.default_rng(4)
    tasks, X, y = rng.integers(0, 3, size=40), rng.uniform(size=(40, 2)), rng.normal(size=40)
    rows = slice(start, stop)
    posterior.update(tasks[rows], X[rows], y[rows], noise=rng.uniform(0.05, 0.4, size=40)[rows])


def agree(pair: list[BlockedPosterior]) -> None:
    there, here = pair
    rng = np.random.default_rng(6)
    tasks, X = rng.integers(0, len(there.K_Z), size=12), rng.uniform(size=(12, 2))
    found, expected = there.predict(tasks, X), here.predict(tasks, X)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(found.std, expected.std, atol=1e-12)
    a, b = np.array([3, 0, 7]), np.array([1, 3, 2, 11])
    np.testing.assert_allclose(found.covariance(a, b), expected.covariance(a, b), atol=1e-12)
    np.testing.assert_allclose(found.at(a).covariance(), expected.at(a).covariance(), atol=1e-12)
    assert found.column(2) is None
    assert len(there) == len(here)
    assert [len(block) for block in there.blocks] == [len(block) for block in here.blocks]


def test_what_is_told_is_believed_there_as_here(pair: list[BlockedPosterior]) -> None:
    agree(pair)
    for one in pair:
        tell(one, 25, 26)
        one.correct(3, 2.0)
        one.extend_tasks(LARGER)
        one.update([3, 0], [[0.1, 0.2], [0.3, 0.4]], [0.5, -0.5])
    agree(pair)


def test_what_a_worker_held_is_made_again(pair: list[BlockedPosterior], cluster: Cluster) -> None:
    for one in pair:
        one.correct(3, 2.0)
        one.extend_tasks(LARGER)
        tell(one, 25, 40)
    cluster.held.clear()
    agree(pair)


@pytest.mark.parametrize("call", ["update", "correct", "extend_tasks"])
def test_a_call_that_got_no_answer_did_not_happen(pair: list[BlockedPosterior], cluster: Cluster, call: str) -> None:
    there, here = pair
    calls: dict[str, Any] = {
        "update": lambda one: tell(one, 25, 40),
        "correct": lambda one: one.correct(3, 2.0),
        "extend_tasks": lambda one: one.extend_tasks(LARGER),
    }
    cluster.broken = True
    with pytest.raises(ConnectionError):
        calls[call](there)
    cluster.broken = False
    agree(pair)
    for one in pair:
        calls[call](one)
    agree([there, here])


def test_rows_that_one_block_cannot_learn_are_learned_by_none(pair: list[BlockedPosterior], cluster: Cluster) -> None:
    there, _ = pair
    held = cluster.held[there.blocks[1]._remote.key]  # type: ignore[attr-defined]

    def refuse(*_: Any, **__: Any) -> None:
        raise NotPositiveDefiniteError("no")

    held.update = refuse
    with pytest.raises(NotPositiveDefiniteError):
        tell(there, 25, 40)
    agree(pair)


def test_stored_beliefs_are_taken_up_there(pair: list[BlockedPosterior]) -> None:
    there, here = pair
    cluster = Cluster()
    again = BlockedPosterior(KERNEL, K_Z, noise=0.1, mean=0.3, on=cluster)  # type: ignore[arg-type]
    tell(again, 30, 40)
    again.restore(there.state())
    agree([again, here])
    for one in (again, here):
        tell(one, 25, 40)
    cluster.held.clear()
    agree([again, here])
