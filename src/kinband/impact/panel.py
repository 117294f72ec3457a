"""A log as a panel: what every station earned and ran, slot by slot, so that the same hours can be compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.trace import Trace
from kinband.trace.table import no_time, station_numbers

SHARED = 0.5
"""Times that on average at least this share of the stations have are slots as they are; others are put into slots."""


@dataclass(frozen=True, eq=False)
class Panel:
    """T slots of N stations.

    Attributes:
        stations: Their names.
        slots: When each slot began, (T,), ascending.
        values: What is judged, by column, (T, N); nan where a station has no row.
        runs: The number of the configuration that a station ran, (T, N); -1 where it has no row.
        configurations: The configurations by number.

    Example:
        >>> log = {"station": ["a", "b"] * 2, "time": [0, 0, 1, 1], "tilt": [2, 2, 4, 2]}
        >>> log["reward"] = [0.8, 0.7, 0.9, 0.7]
        >>> panel = Panel.of(Trace.from_frame(log, {"configuration": ["tilt"]}))
        >>> panel.values["reward"].tolist(), panel.runs.tolist()
        ([[0.8, 0.7], [0.9, 0.7]], [[0, 0], [1, 0]])
    """

    stations: tuple[str, ...]
    slots: NDArray[Any]
    values: Mapping[str, FloatArray]
    runs: IntArray
    configurations: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, trace: Trace, *, reward: str = "reward") -> "Panel":
        """Return the panel of a log: its reward under a name, and its KPIs."""
        if trace.time is None:
            raise no_time("the log has no times, so that nobody knows what was before a change and what after")
        station = station_numbers(trace)
        slots, slot = _slots(trace.time, station, stations=len(trace.stations))
        shape = len(slots), len(trace.stations)
        values = {
            name: _table(column, slot, station, shape) for name, column in {reward: trace.reward, **trace.kpis}.items()
        }
        knobs = np.column_stack([np.unique(column, return_inverse=True)[1] for column in trace.configuration.values()])
        _, first, number = np.unique(knobs, axis=0, return_index=True, return_inverse=True)
        ran = [{name: column[row].item() for name, column in trace.configuration.items()} for row in first]
        runs = np.full(shape, -1, dtype=np.int64)
        order = np.argsort(trace.time, kind="stable")  # of two rows in a slot the later one says what runs
        runs[slot[order], station[order]] = number.ravel()[order]
        return cls(trace.stations, slots, values, runs, tuple(ran))

    @property
    def dated(self) -> bool:
        """Whether slots are moments, not numbers."""
        return bool(self.slots.dtype.kind == "M")

    @property
    def per_day(self) -> int:
        """Slots of a day; 0 where slots have no dates."""
        return int(np.median(np.unique(self.slots.astype("datetime64[D]"), return_counts=True)[1])) if self.dated else 0

    def when(self, slot: int) -> str:
        """Return when a slot began, in words."""
        at = self.slots[slot]
        return str(at.astype("datetime64[m]")).replace("T", " ") if self.dated else f"{at:g}"

    def stretches(self, station: int) -> list[tuple[int, int, int]]:
        """Return from which slot to which, the last not among them, a station ran which configuration without a change.

        A stretch lasts until the first slot of the next one; slots without a row belong to it.
        """
        runs = self.runs[:, station]
        known = np.flatnonzero(runs >= 0)
        starts = known[np.flatnonzero(np.diff(runs[known], prepend=-1))].tolist()
        return [(start, end, int(runs[start])) for start, end in zip(starts, [*starts[1:], len(runs)], strict=True)]

    def unchanged(self, first: int, last: int) -> NDArray[np.bool_]:
        """Return which stations ran one configuration in the slots from `first` on and before `last`, (N,)."""
        part = self.runs[first:last]
        high = part.max(axis=0)
        low = np.where(part < 0, high, part).min(axis=0)
        return np.asarray((low == high) & (high >= 0))


def _slots(time: NDArray[Any], station: IntArray, *, stations: int) -> tuple[NDArray[Any], IntArray]:
    """The slots, (T,), and the number of each row's, (n,)."""
    slots, slot = np.unique(time, return_inverse=True)
    if len(time) >= SHARED * stations * len(slots):
        return slots, slot
    order = np.lexsort((time, station))
    apart = np.diff(time[order])[np.diff(station[order]) == 0]
    step = np.median(apart.astype(np.float64)) if len(apart) else 0.0
    if not step > 0:
        raise BadInputError("no station has rows at two times, so that there is nothing before a change")
    number = np.floor((time - time.min()).astype(np.float64) / step).astype(np.int64)
    slots, slot = np.unique(number, return_inverse=True)
    first = time.min()
    return np.asarray(first + (slots * step).astype(apart.dtype)), slot


def _table(column: FloatArray, slot: IntArray, station: IntArray, shape: tuple[int, int]) -> FloatArray:
    """A column by slot and station, (T, N): the mean of rows that share both, nan where there is none."""
    known = np.isfinite(column)
    place = slot[known] * shape[1] + station[known]
    count = np.bincount(place, minlength=shape[0] * shape[1])
    total = np.bincount(place, weights=column[known], minlength=shape[0] * shape[1])
    mean: FloatArray = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
    return mean.reshape(shape)
