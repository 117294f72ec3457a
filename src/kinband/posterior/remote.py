"""A block of a posterior that lives in a worker of a Ray cluster, behind the contract of every posterior.

What a block was told is kept here too, so that one whose worker has died is learned again elsewhere. Columns solved in
a worker stay there: what is predicted travels, and covariances are asked for when somebody needs them.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.cluster import OnRay, Remote
from kinband.kernels import Kernel, TaskCovariance, as_task_covariance
from kinband.posterior.base import Column, Positions, Posterior, Prediction, Rows, State


class RemoteBlock(Posterior):
    """A posterior in a worker.

    Args:
        kernel: Context kernel k_X.
        K_Z: Task matrix of the block, (M, M).
        on: The cluster.
        make: Makes an empty posterior from a task matrix, there.
        noise: Variance of a reward where the update does not say.
        mean: Constant prior mean.
    """

    def __init__(
        self,
        kernel: Kernel,
        K_Z: ArrayLike,
        *,
        on: OnRay,
        make: Callable[[TaskCovariance], Posterior],
        noise: float,
        mean: float = 0.0,
    ) -> None:
        super().__init__(kernel, K_Z, noise=noise, mean=mean)
        self._on, self._rows = on, 0
        self._remote = Remote(partial(make, self.K_Z))
        weakref.finalize(self, on.forget, [self._remote.key])

    def __len__(self) -> int:
        return self._rows

    def _predict(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column | None]) -> Prediction:
        del columns  # they stay with the worker
        return predict_all(self._on, [(self, tasks, X)])[0]

    def _learn(self, rows: Rows, column: Column | None) -> None:
        del column
        update_all(self._on, [(self, rows)])

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of one row, as long as the worker's posterior keeps rows."""
        self._call(_do, "correct", index, y)
        self._remote.past.append((_do, ("correct", index, y)))

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix."""
        larger = as_task_covariance(K_Z)
        self._call(_do, "extend_tasks", larger)
        self._remote.past.append((_do, ("extend_tasks", larger)))
        super().extend_tasks(larger)

    def state(self) -> State:
        """Return everything learned as plain arrays."""
        state: State = self._call(_do, "state")
        return state

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self._remote.past[:] = [(_do, ("restore", dict(state)))]
        self._on.forget([self._remote.key])
        self._rows, self._features = self._call(_size)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._on.run([(self._remote, function, arguments)])[0]
        except BaseException:
            self._on.forget([self._remote.key])  # the call may have been carried out: it is made again
            raise


def predict_all(on: OnRay, asked: Sequence[tuple[Any, IntArray, FloatArray]]) -> list[Prediction]:
    """Return what blocks believe at tasks (m,) and contexts (m, d) each, all workers at once."""
    found = on.run([(block._remote, _predict, (tasks, X)) for block, tasks, X in asked])
    return [
        Prediction(mean, std, _RemoteJoint(block, tasks, X))
        for (block, tasks, X), (mean, std) in zip(asked, found, strict=True)
    ]


def update_all(on: OnRay, told: Sequence[tuple[Any, Rows]]) -> None:
    """Let blocks learn rows, all workers at once, all or nothing."""
    calls = [(block, (rows.tasks, rows.X, rows.y, rows.noise)) for block, rows in told]
    try:
        on.run([(block._remote, _update, rows) for block, rows in calls])
    except BaseException:
        on.forget([block._remote.key for block, _ in calls])  # some may have learned: they are made again
        raise
    for block, rows in calls:
        block._remote.past.append((_update, rows))
        block._rows += len(rows[2])
        block._features = rows[1].shape[1] if len(rows[2]) else block._features


@dataclass(frozen=True, eq=False)
class _RemoteJoint:
    """How f hangs together at contexts: the worker is asked when somebody wants to know."""

    block: RemoteBlock
    tasks: IntArray
    X: FloatArray

    def covariance(self, a: IntArray, b: IntArray) -> FloatArray:
        """Return the covariances of f at contexts a (p,) and b (q,), by position: (p, q)."""
        both = np.concatenate([a, b])
        found: FloatArray = self.block._call(_covariance, self.tasks[both], self.X[both], len(a))
        return found

    def column(self, position: int) -> None:
        """Columns stay in the worker."""
        del position

    def at(self, positions: Positions) -> "_RemoteJoint":
        """Return the same for some of the contexts."""
        return _RemoteJoint(self.block, self.tasks[positions], self.X[positions])


# --- What is called in the worker ------------------------------------------------------------------------------------


def _predict(posterior: Posterior, tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = posterior.predict(tasks, X)
    return found.mean, found.std


def _covariance(posterior: Posterior, tasks: IntArray, X: FloatArray, first: int) -> FloatArray:
    positions = np.arange(len(X))
    return posterior.predict(tasks, X).covariance(positions[:first], positions[first:])


def _update(posterior: Posterior, tasks: IntArray, X: FloatArray, y: FloatArray, noise: FloatArray) -> None:
    posterior.update(tasks, X, y, noise=noise)


def _do(posterior: Posterior, method: str, *arguments: Any) -> Any:
    return getattr(posterior, method)(*arguments)


def _size(posterior: Posterior) -> tuple[int, int | None]:
    return len(posterior), posterior._features
