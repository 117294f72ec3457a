"""Who is there, how alike, and what each runs: what setup and journal say of stations that come and go.

A newcomer's row of the task matrix is found once, when it joins, and noted in the journal; a replay reads it there. The
kernel that compares descriptors is fitted to the stations of the setup alone, whose similarity has been learned or
declared: a newcomer's row is a prediction, and fitting to predictions would confirm them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller.events import (
    ChangePoint,
    Entry,
    Estimated,
    Joined,
    Left,
    Newcomer,
    Returned,
)
from kinband.controller.setup import Setup
from kinband.drift import check_past_names
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.kernels import TaskCovariance, check_task_matrix, components
from kinband.records import Query
from kinband.similarity.newcomers import (
    Descriptors,
    average_row,
    check_kinds,
    checked_descriptors,
    correlations,
    descriptor_row,
    given_row,
    with_row,
)
from kinband.space import ConfigurationSpace, in_words

# --- What is in force: the fixed setup of a controller, and the stations that have come and gone since --------------
#
# The setup never changes. A station that joins is an entry of the journal with its row of the task matrix, and one that
# leaves is another, so that stations and task matrix in force follow from setup and journal alone, in a replay as in
# life. Task numbers are given once: a station that has left keeps its number, its rows stay evidence for others, and
# only asking for it is over. A station that has changed starts anew under a new number; its past keeps the old one,
# under a name of its own. An entry that puts another task matrix in the place of this one (`Estimated`, of earlier
# versions) counts here too, and has the policy learn the log again.


@dataclass(frozen=True, eq=False)
class CurrentSetup(Setup):
    """The setup as it is now: `stations` and `K_Z` hold every task there ever was, in order.

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
        >>> controller.current.stations, controller.current.active
        (('a', 'b', 'c'), ('b', 'c'))
    """

    gone: frozenset[str] = frozenset()
    former: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, setup: Setup) -> "CurrentSetup":
        """Return what is in force before anything has happened."""
        return cls(**{part.name: getattr(setup, part.name) for part in fields(Setup)})

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The stations that can be asked for, in the order of their first tasks."""
        past = set(self.former.values())
        current = [(self.tasks_of(name)[-1], name) for task, name in enumerate(self.stations) if task not in past]
        return tuple(station for _, station in sorted(current) if station not in self.gone)

    def tasks_of(self, station: str) -> list[int]:
        """Return all tasks that a station has had, the current one first."""
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

    def after(self, entry: Entry) -> "CurrentSetup":
        """Return what is in force after an entry, or say why the entry cannot be."""
        match entry:
            case Joined():
                self.check_free(entry.station)
                if entry.station in self.gone:
                    raise BadInputError(f"station {entry.station!r} is new to the log, which has it as removed")
                return replace(self._with(entry, self.stations), **self._said(entry))
            case ChangePoint(station=station):
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

    def _with(self, entry: Newcomer, names: tuple[str, ...]) -> "CurrentSetup":
        """What is in force with one more task, behind tasks of these names."""
        name, size = entry.station, len(names)
        if entry.task != size:
            raise BadInputError(f"station {name!r} should be task {size}, the log has {entry.task}")
        K_Z = with_row(self.K_Z, np.array(entry.similarity, dtype=np.float64))
        return replace(self, stations=(*names, name), K_Z=K_Z)

    def _said(self, entry: Joined | Returned) -> Mapping[str, Any]:
        """What an entry says of its station, among what is known of the others."""
        descriptors = dict(self.descriptors)
        if entry.descriptors:
            descriptors[entry.station] = entry.descriptors
        running = self.running if entry.running is None else {**self.running, entry.station: entry.running}
        return {"descriptors": descriptors, "running": running}


def _from_triangle(triangle: Sequence[float], *, size: int) -> FloatArray:
    """Return the task matrix (size, size) whose lower triangle is given row by row."""
    if len(triangle) != size * (size + 1) // 2:
        raise BadInputError(f"an estimate in the log is of {len(triangle)} numbers, which do not fit {size} tasks")
    K_Z, rows = np.zeros((size, size)), np.tril_indices(size)
    K_Z[rows] = triangle
    K_Z.T[rows] = triangle
    return check_task_matrix(K_Z, size=size)


# --- What a station runs, and what a rule may fall back to ----------------------------------------------------------


def arm_of(configuration: object, space: ConfigurationSpace, *, station: str, said: str = "running") -> int:
    """Return the arm of a configuration that a station is said to run; `said` is what the caller called it.

    Example:
        >>> arm_of({"tilt": 3}, ConfigurationSpace(tilt=[2, 4]), station="a")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: running names no configuration that 'a' has: knob 'tilt' has no value 3: ...
    """
    if not isinstance(configuration, Mapping):
        raise BadInputError(f"{said} must be a configuration of {station!r}, got {configuration!r:.60}")
    try:
        return space.index(configuration)
    except (LookupError, ValueError) as error:
        raise BadInputError(f"{said} names no configuration that {station!r} has: {error}") from error


def nothing_to_hold_against(station: str) -> BadInputError:
    """Return the error of a station whose budget has no configuration to compare with."""
    return BadInputError(
        f"a conservative budget holds every station against a declared configuration, {station!r} has none",
        hint="declare it by running=", code="running_unknown", argument="running", value=station,
    )  # fmt: skip


def check_fallbacks(query: Query, setup: Setup, *, station: str) -> Query:
    """Return a query whose rules can fall back to what is deployed, or say what is missing."""
    safety, deployed = setup.rules, query.deployed
    if safety is None or deployed is None:
        return query
    if safety.floor is not None and deployed.running is None:
        raise BadInputError(
            f"a floor holds trials against what {station!r} runs, which is not known",
            hint="say it when asking or declare it, by running=",
            code="running_unknown",
            argument="running",
        )
    for rule, arm in ((safety.floor, deployed.running), (safety.conservative, deployed.baseline)):
        if rule is not None and (arm is None or arm >= len(query.X) or not query.allowed[arm]):
            raise BadInputError(
                f"what {station!r} falls back to, {_named(setup, arm)}, is not among those it may choose",
                hint="allow it",
                argument="allowed",
            )
    return query


def _named(setup: Setup, arm: int | None) -> str:
    space = setup.encoder.space
    if setup.features is not None or arm is None or arm >= len(space):
        return f"configuration {arm}"
    return in_words(space[arm])


# --- How a station joins ---------------------------------------------------------------------------------------------


def joining(
    setup: Setup, current: CurrentSetup, name: str, *, descriptors: Any, similarity: Any, running: Any
) -> Joined | Returned:
    """Return the entry with which a station joins, or comes back; refuses what cannot be, and changes nothing."""
    current.check_free(name)
    known = {} if descriptors is None else checked_descriptors(descriptors, station=name)
    check_kinds({**current.descriptors, name: known})
    arm = None if running is None else arm_of(running, current.encoder.space, station=name)
    if name in current.gone:
        if similarity is not None:
            raise BadInputError(
                f"{name!r} comes back as like the others as it was",
                hint="add it without similarity=",
                code="similarity_on_return",
                argument="similarity",
            )
        return Returned(name, known, arm)
    check_past_names(setup.config.drift, name)
    row, found = _row(setup, current, name, descriptors=known, similarity=similarity)
    entry = Joined(name, len(current.stations), tuple(row.tolist()), found, known, arm)
    _check_running(current.after(entry), name)
    return entry


def similarities_of(current: CurrentSetup, station: str) -> dict[str, float]:
    """Return how like the other stations, removed ones too, a station is, the most alike first.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], similarity=[[1, 0.3], [0.3, 1]])
        >>> similarities_of(controller.current, "b")
        {'a': 0.3}
    """
    task = current.stations.index(station)
    row = correlations(current.K_Z)[task, :]
    order = [int(m) for m in np.argsort(-row, kind="stable") if m != task]
    return {current.stations[m]: float(row[m]) for m in order}


def _row(
    setup: Setup, current: CurrentSetup, name: str, *, descriptors: Descriptors, similarity: Any
) -> tuple[FloatArray, str]:
    """Return the row of a newcomer and what it was found by; under shards it joins that of the station it is most like.

    It would join several into one otherwise.
    """
    row, found = _row_among(current.K_Z, current.stations, setup, current, name, descriptors, similarity)
    if setup.config.shards is None:
        return row, found
    shards = components(current.K_Z)
    most = int(np.abs(row[:-1]).argmax())
    members = next(shard for shard in shards if most in shard)
    if found == "average":  # as like as the whole network is on average, and no more: nothing says that it belongs here
        return np.where(np.isin(np.arange(len(row)), [*members, len(row) - 1]), row, 0.0), found
    inside = [current.stations[m] for m in members]
    if similarity is not None:
        similarity = {other: value for other, value in similarity.items() if other in inside}
    own, found = _row_among(
        current.K_Z[np.ix_(members, members)], inside, setup, current, name, descriptors, similarity
    )
    row = np.zeros(len(row))
    row[members], row[-1] = own[:-1], own[-1]
    return row, found


def _row_among(
    K_Z: TaskCovariance,
    stations: Sequence[str],
    setup: Setup,
    current: CurrentSetup,
    name: str,
    descriptors: Descriptors,
    similarity: Any,
) -> tuple[FloatArray, str]:
    """Return the row of a newcomer among some of the tasks (m,), its own variance last, (m + 1,)."""
    if similarity is not None:
        return given_row(K_Z, stations, similarity, newcomer=name), "given"
    kernel = setup.descriptor_kernel if descriptors else None
    if kernel is None or not kernel.describes(descriptors):
        return average_row(K_Z), "average"
    known: Mapping[str, Descriptors] = current.descriptors
    return descriptor_row(K_Z, kernel, [known.get(station, {}) for station in stations], descriptors), "descriptors"


def _check_running(current: CurrentSetup, name: str) -> None:
    """Refuse a newcomer that a promise would hold against nothing."""
    rules = current.rules
    if rules is not None and rules.conservative is not None and name not in current.running:
        raise nothing_to_hold_against(name)
