"""The latest rows of the log that a controller has learned from, with their times: what was before its first decision.

Nothing is decided by them: they are for whoever looks at a station. Only a log whose times are dates has any.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray

KEPT, KEPT_IN_ALL = 500, 1_000_000
"""How many rows of a station are kept, and of all; of many stations fewer each."""


@dataclass(frozen=True, eq=False)
class Logged:
    """Rows of a log by task and time.

    Attributes:
        tasks: Whose they are, (n,), ascending.
        times: When, (n,), in microseconds since 1970, UTC where the log says the zone.
        arms: What ran, (n,).
        rewards: What it earned, (n,).

    Example:
        >>> day = np.array(["2026-11-01", "2026-11-02", "2026-11-01"], dtype="datetime64[us]")
        >>> logged = Logged.of([1, 0, 0], day, [4, 2, 3], [0.9, 0.8, 0.7])
        >>> logged.arms.tolist(), logged.of_task(0), logged.step
        ([3, 2, 4], slice(0, 2, None), 86400.0)
        >>> Logged.of([0], np.array([3.5]), [0], [0.5]) is None
        True
    """

    tasks: IntArray
    times: IntArray
    arms: IntArray
    rewards: FloatArray

    @classmethod
    def of(cls, tasks: Sequence[int] | IntArray, times: Any, arms: Any, rewards: Any) -> "Logged | None":
        """Return the latest rows of every task; None where the times are no dates."""
        if times is None or times.dtype.kind != "M":
            return None
        whose, at = np.asarray(tasks, dtype=np.int64), times.astype("datetime64[us]").astype(np.int64)
        order = np.lexsort((at, whose))
        counts = np.bincount(whose)
        each = min(KEPT, KEPT_IN_ALL // max(int((counts > 0).sum()), 1))
        ends = np.cumsum(counts)[whose[order]]
        order = order[np.arange(len(order)) >= ends - each]
        return cls(whose[order], at[order], np.asarray(arms)[order].astype(np.int64), np.asarray(rewards)[order])

    def of_task(self, task: int) -> slice:
        """Return where the rows of a task are."""
        first, last = np.searchsorted(self.tasks, [task, task + 1])
        return slice(int(first), int(last))

    @cached_property
    def step(self) -> float | None:
        """The usual time from a row of a station to its next, in seconds; None where there is none."""
        apart = np.diff(self.times)[np.diff(self.tasks) == 0]
        steps, counts = np.unique(apart[apart > 0], return_counts=True)
        return float(steps[counts.argmax()]) / 1e6 if len(steps) else None

    @cached_property
    def series(self) -> tuple[IntArray, FloatArray, IntArray]:
        """The times at which there are rows, their mean reward, and how many they are, (k,) each."""
        at, place = np.unique(self.times, return_inverse=True)
        counts = np.bincount(place)
        return at, np.bincount(place, weights=self.rewards) / counts, counts

    def arrays(self) -> dict[str, Any]:
        """Return the rows as plain arrays."""
        return {f"logged_{one.name}": getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "Logged | None":
        """Return the rows that `arrays` returned, if there are any."""
        names = [one.name for one in fields(cls)]
        return cls(*(arrays[f"logged_{name}"] for name in names)) if "logged_times" in arrays else None
