"""What is in force: the fixed settings of a controller, and the stations that have come and gone since.

Settings never change. A station that joins is an entry of the journal with its row of the task matrix, and one that
leaves is another, so that stations and task matrix in force follow from settings and journal alone, in a replay as in
life. Task numbers are given once: a station that has left keeps its number, its rows stay evidence for others, and
only asking for it is over. (An entry that puts another task matrix in the place of this one would be noted here too,
and have the policy learn the log anew.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from kinband.controller.journal import Entry, Joined, Left, Returned
from kinband.controller.settings import Settings
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.similarity.newcomers import with_row


@dataclass(frozen=True, eq=False)
class InForce(Settings):
    """Settings as they are now: `stations` and `K_Z` hold every task there ever was, in order.

    Attributes:
        gone: Stations that have left; they keep their tasks.

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

    @classmethod
    def of(cls, settings: Settings) -> "InForce":
        """Return what is in force before anything has happened."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(Settings)})

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The stations that can be asked for, in the order of their tasks."""
        return tuple(station for station in self.stations if station not in self.gone)

    def task(self, station: str) -> int:
        """Return the task number of a station that can be asked for, or say why there is none."""
        if isinstance(station, str) and station in self.gone:
            raise NotFoundError(f"station {station!r} was removed: add_station brings it back with what it knew")
        if not isinstance(station, str) or station not in self._tasks:
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
                return self._with(entry)
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

    def _with(self, entry: Joined) -> "InForce":
        name = entry.station
        self.check_free(name)
        if name in self.gone:
            raise BadInputError(f"station {name!r} is new to the log, which has it as removed")
        if entry.task != len(self.stations):
            raise BadInputError(f"station {name!r} should be task {len(self.stations)}, the log has {entry.task}")
        K_Z = with_row(self.K_Z, np.array(entry.likeness, dtype=np.float64))
        return replace(self, stations=(*self.stations, name), K_Z=K_Z, **self._said(entry))

    def _said(self, entry: Joined | Returned) -> Mapping[str, Any]:
        """What an entry says of its station, among what is known of the others."""
        descriptors = dict(self.descriptors)
        if entry.descriptors:
            descriptors[entry.station] = entry.descriptors
        running = self.running if entry.running is None else {**self.running, entry.station: entry.running}
        return {"descriptors": descriptors, "running": running}
