"""The rows an engine has learned, in arrays that grow without being copied at every step."""

from collections.abc import Mapping

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.posterior.contract import Rows

_NAMES = ("tasks", "X", "y", "noise")


class LearnedRows:
    """Tasks, contexts, rewards and noise of all rows so far; each property is a view of what is filled.

    Example:
        >>> rows = LearnedRows()
        >>> rows.append(Rows(np.array([0]), np.ones((1, 2)), np.array([0.5]), np.array([0.1])))
        >>> len(rows), rows.width, rows.y
        (1, 2, array([0.5]))
    """

    def __init__(self) -> None:
        self._filled = 0
        self._tasks = np.empty(0, dtype=np.int64)
        self._X = np.empty((0, 0))
        self._y, self._noise = np.empty(0), np.empty(0)

    def __len__(self) -> int:
        return self._filled

    @property
    def width(self) -> int | None:
        """Number of context features, None before the first row."""
        return self._X.shape[1] if self._filled else None

    @property
    def tasks(self) -> IntArray:
        """Task of each row, (n,)."""
        return self._tasks[: self._filled]

    @property
    def X(self) -> FloatArray:
        """Context of each row, (n, d)."""
        return self._X[: self._filled]

    @property
    def y(self) -> FloatArray:
        """Reward of each row, (n,)."""
        return self._y[: self._filled]

    @property
    def noise(self) -> FloatArray:
        """Variance of each reward, (n,)."""
        return self._noise[: self._filled]

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        start, stop = self._filled, self._filled + len(rows.y)
        if stop > len(self._y) or not start:
            self._grow(max(stop, 2 * start, 16), rows.X.shape[1])
        self._tasks[start:stop], self._X[start:stop] = rows.tasks, rows.X
        self._y[start:stop], self._noise[start:stop] = rows.y, rows.noise
        self._filled = stop

    def remove(self, index: int) -> None:
        """Take out one row; later rows move up."""
        self.restore({name: np.delete(getattr(self, name), index, axis=0) for name in _NAMES})

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return copies of the filled arrays by name."""
        return {name: getattr(self, name).copy() for name in _NAMES}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self._tasks = np.array(state["tasks"], dtype=np.int64)
        self._X = np.array(state["X"], dtype=np.float64)
        self._y, self._noise = np.array(state["y"], np.float64), np.array(state["noise"], np.float64)
        self._filled = len(self._y)

    def _grow(self, capacity: int, width: int) -> None:
        tasks, X = np.zeros(capacity, dtype=np.int64), np.zeros((capacity, width))
        y, noise = np.zeros(capacity), np.zeros(capacity)
        if self._filled:
            tasks[: self._filled], X[: self._filled] = self.tasks, self.X
            y[: self._filled], noise[: self._filled] = self.y, self.noise
        self._tasks, self._X, self._y, self._noise = tasks, X, y, noise
