"""What is in force: the fixed settings of a controller, and the stations that have come and gone since.

Settings never change. A station that joins is an entry of the journal with its row of the task matrix, and one that
leaves is another, so that stations and task matrix in force follow from settings and journal alone, in a replay as in
life. Task numbers are given once: a station that has left keeps its number, its rows stay evidence for others, and
only asking for it is over. A station that has changed starts anew under a new number; its past keeps the old one,
under a name of its own. (An entry that puts another task matrix in the place of this one would be noted here too, and
have the policy learn the log anew.)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller.journal import Entry, Estimated, Joined, Left, Newcomer, Renewed, Returned
from kinband.controller.settings import Settings
from kinband.drift import Drift
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.kernels import check_task_matrix
from kinband.similarity.newcomers import with_row

_PAST = re.compile(r" until d\d{6,}$")  # see Renewed.past


@dataclass(frozen=True, eq=False)
class InForce(Settings):
    """Settings as they are now: `stations` and `K_Z` hold every task there ever was, in order.

    Attributes:
        gone: Stations that have left; they keep their tasks.
        former: By task, the one that the same station had before it changed.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"])
        >>> controller.add_station("c", similarity={"a": 0.8})
        {'a': 0.8, 'b': 0.0}
        >>> controller.remove_station("a")
        []
        >>> controller.in_force.stations, controller.in_force.active
        (('a', 'b', 'c'), ('b', 'c'))
    """

    gone: frozenset[str] = frozenset()
    former: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> "InForce":
        """Return what is in force before anything has happened."""
        return cls(**{part.name: getattr(settings, part.name) for part in fields(Settings)})

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The stations that can be asked for, in the order of their first tasks."""
        past = set(self.former.values())
        present = [(self.tasks_of(name)[-1], name) for task, name in enumerate(self.stations) if task not in past]
        return tuple(station for _, station in sorted(present) if station not in self.gone)

    def tasks_of(self, station: str) -> list[int]:
        """Return all tasks that a station has had, the present one first."""
        tasks = [self._tasks[station]]
        while tasks[-1] in self.former:
            tasks.append(self.former[tasks[-1]])
        return tasks

    def task(self, station: str) -> int:
        """Return the task number of a station that can be asked for, or say why there is none."""
        if isinstance(station, str) and station in self.gone:
            raise NotFoundError(f"station {station!r} was removed: add_station brings it back with what it knew")
        if not isinstance(station, str) or self._tasks.get(station) in (None, *self.former.values()):
            some = ", ".join(map(repr, self.active[:5])) + (", ..." if len(self.active) > 5 else "")
            raise NotFoundError(f"unknown station {station!r}: this controller runs {some}")
        return self._tasks[station]

    def check_free(self, name: str) -> None:
        """Refuse a name that no newcomer can have: one that is none, or that a station has."""
        if not isinstance(name, str) or not name:
            raise BadInputError(f"a station needs a name, got {name!r:.60}")
        if name in self._tasks and name not in self.gone:
            raise ConflictError(f"there is a station {name!r} already: give the new one a name of its own")

    def after(self, entry: Entry) -> "InForce":
        """Return what is in force after an entry, or say why the entry cannot be."""
        match entry:
            case Joined():
                self.check_free(entry.station)
                if entry.station in self.gone:
                    raise BadInputError(f"station {entry.station!r} is new to the log, which has it as removed")
                return replace(self._with(entry, self.stations), **self._said(entry))
            case Renewed(station=station):
                before = self.task(station)
                names = (*self.stations[:before], entry.past, *self.stations[before + 1 :])
                return replace(self._with(entry, names), former={**self.former, entry.task: before})
            case Estimated(triangle=triangle) if triangle:
                return replace(self, K_Z=_from_triangle(triangle, size=len(self.stations)))
            case Left(station=station):
                self.task(station)
                if len(self.active) == 1:
                    raise ConflictError(f"station {station!r} is the last one: add another before removing it")
                return replace(self, gone=self.gone | {station})
            case Returned(station=station):
                if station not in self.gone:
                    raise BadInputError(f"station {station!r} comes back without having left")
                return replace(self, gone=self.gone - {station}, **self._said(entry))
        return self

    def _with(self, entry: Newcomer, names: tuple[str, ...]) -> "InForce":
        """What is in force with one more task, behind tasks of these names."""
        name, size = entry.station, len(names)
        if entry.task != size:
            raise BadInputError(f"station {name!r} should be task {size}, the log has {entry.task}")
        K_Z = with_row(self.K_Z, np.array(entry.likeness, dtype=np.float64))
        return replace(self, stations=(*names, name), K_Z=K_Z)

    def _said(self, entry: Joined | Returned) -> Mapping[str, Any]:
        """What an entry says of its station, among what is known of the others."""
        descriptors = dict(self.descriptors)
        if entry.descriptors:
            descriptors[entry.station] = entry.descriptors
        running = self.running if entry.running is None else {**self.running, entry.station: entry.running}
        return {"descriptors": descriptors, "running": running}


def check_past_names(drift: Drift | None, *names: str) -> None:
    """Refuse names that the past of a station would be called by after a reset, where there are resets.

    Example:
        >>> check_past_names(Drift(), "a", "a until d000016")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: station 'a until d000016' is named as the past of a station that was reset: ...
    """
    if drift is None or drift.resets is None:
        return
    if odd := [name for name in names if _PAST.search(name)]:
        raise BadInputError(
            f"station {odd[0]!r} is named as the past of a station that was reset: give it another name, or pass "
            "Drift(half_life=..., reset=False)"
        )


def _from_triangle(triangle: Sequence[float], *, size: int) -> FloatArray:
    """Return the task matrix (size, size) whose lower triangle is given row by row."""
    if len(triangle) != size * (size + 1) // 2:
        raise BadInputError(f"an estimate in the log is of {len(triangle)} numbers, which do not fit {size} tasks")
    K_Z, rows = np.zeros((size, size)), np.tril_indices(size)
    K_Z[rows] = triangle
    K_Z.T[rows] = triangle
    return check_task_matrix(K_Z, size=size)
