"""Who is there, what each runs, and at what time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import ContextEncoder
from kinband.controller.config import Settings
from kinband.controller.events import (
    Asked,
    CalledOff,
    Entry,
    Estimated,
    Joined,
    Journal,
    Left,
    Newcomer,
    Ran,
    Renewed,
    Returned,
    Told,
)
from kinband.drift import CLOCK, LEARNED, Drift, forgetful, seconds, timed_samples, timed_scaler, untimed
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.kernels import Forgetting, Kernel, Product, as_kernel, check_task_matrix
from kinband.likelihood import starting_kernel
from kinband.model import Search
from kinband.policies import PolicyFactory
from kinband.policies.safety import held_lower
from kinband.records import Query, Samples
from kinband.similarity.newcomers import with_row
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

# --- What is in force: the fixed settings of a controller, and the stations that have come and gone since -----------
#
# Settings never change. A station that joins is an entry of the journal with its row of the task matrix, and one that
# leaves is another, so that stations and task matrix in force follow from settings and journal alone, in a replay as in
# life. Task numbers are given once: a station that has left keeps its number, its rows stay evidence for others, and
# only asking for it is over. A station that has changed starts anew under a new number; its past keeps the old one,
# under a name of its own. (An entry that puts another task matrix in the place of this one would be noted here too, and
# have the policy learn the log anew.)

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


# --- How things stand at every station, as the journal tells: what it runs, and what its pending decisions count for
#
# A station runs what its caller says when asking; else what ran for it last, which is what was decided and not called
# off unless somebody said that something else ran; else what was declared for it. All of it follows from settings and
# journal, so that a replay stands where the original stood.
#
# A decision that was called off is not what runs. Whether it ever ran is not known, so in a budget it keeps what it may
# have cost and loses what it may have earned. Where somebody said what ran in its place, that did run, whether or not a
# reward will come; in a budget it counts as `kinband.policies.safety.replaced` says.


class Standings:
    """The standing of every station, kept up with a journal entry by entry.

    Args:
        budget: Whether pending decisions count in a budget; if not, memos are not looked into.

    Example:
        >>> import numpy as np
        >>> from kinband.records import Decision
        >>> standings, journal = Standings(budget=False), Journal()
        >>> for number, arm in enumerate([3, 5]):
        ...     asked = Asked(Decision(f"d{number}", "a", arm, None, None, None, None), 0, np.zeros(1), None)
        ...     journal.add(asked)
        ...     standings.note(asked, journal)
        >>> standings.running(0, journal)
        5
        >>> standings.note(CalledOff("d1"), journal)
        >>> standings.running(0, journal)
        3
    """

    def __init__(self, *, budget: bool) -> None:
        self._budget = budget
        self._made: dict[int, list[str]] = {}  # ids of decisions by task
        self._called_off: set[str] = set()
        self._open: dict[str, tuple[int, float]] = {}  # task and bound of decisions without reward

    def note(self, entry: Entry, journal: Journal) -> None:
        """Take in an entry that has been added to the journal."""
        match entry:
            case Asked(decision=decision):
                self._made.setdefault(entry.task, []).append(decision.id)
                self._count(decision.id, journal)
            case Told():
                self._called_off.discard(entry.id)
                self._open.pop(entry.id, None)
            case CalledOff():
                self._called_off.add(entry.id)
                self._count(entry.id, journal)
            case Ran():
                self._count(entry.id, journal)

    def _count(self, key: str, journal: Journal) -> None:
        lower = held_lower(journal.memo(key)) if self._budget else None
        if lower is not None:
            self._open[key] = journal.find(key).task, min(lower, 0.0) if key in self._called_off else lower

    def running(self, task: int, journal: Journal) -> int | None:
        """Return the arm that ran last for a task, None if there is none."""
        for key in reversed(self._made.get(task, ())):
            arm = journal.ran(key)
            if key not in self._called_off or arm != journal.find(key).decision.arm:
                return arm
        return None

    @property
    def pending(self) -> dict[int, float]:
        """The bounds of decisions without reward, summed by task."""
        by_task: dict[int, list[float]] = {}
        for task, lower in self._open.values():
            by_task.setdefault(task, []).append(lower)
        return {task: fsum(bounds) for task, bounds in by_task.items()}


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


def check_standing(query: Query, settings: Settings, *, station: str) -> Query:
    """Return a query whose rules can fall back to what stands, or say what is missing."""
    safety, standing = settings.safety, query.standing
    if safety is None or standing is None:
        return query
    if safety.floor is not None and standing.running is None:
        raise BadInputError(
            f"a floor holds trials against what {station!r} runs, which is not known: say it when asking or declare "
            "it, by running="
        )
    for rule, arm in ((safety.floor, standing.running), (safety.conservative, standing.baseline)):
        if rule is not None and (arm is None or arm >= len(query.X) or not query.allowed[arm]):
            raise BadInputError(
                f"what {station!r} falls back to, configuration {arm}, is not among those it may choose: allow it"
            )
    return query


# --- How a clock gets into settings: one more column of contexts, a kernel that forgets, a log with its times -------
#
# From a log with times, a half-life that is to be learned is fitted with the rest of the kernel by marginal likelihood;
# one that is given stays as it is. A log without times is as old as the first decision.

_JUDGED = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "super-ucb")
"""Policies that foretell rewards with standard deviations, by a model that tells stations apart."""


def timed_encoder(encoder: ContextEncoder, drift: Drift | None) -> ContextEncoder:
    """Return an encoder whose states have the clock, where anything is forgotten."""
    forgets = drift is not None and drift.forgets
    return ContextEncoder(timed_scaler(encoder.state), encoder.space) if forgets else encoder


def timed_columns(columns: tuple[str, ...], drift: Drift | None) -> tuple[str, ...]:
    """Return the columns of context rows with the clock behind them, where anything is forgotten."""
    if drift is None or not drift.forgets:
        return columns
    if CLOCK in columns:
        raise BadInputError(f"features holds {CLOCK!r}, as the clock of drift= is called: give it another name")
    return (*columns, CLOCK)


def timed_kernel(kernel: Kernel, drift: Drift | None, columns: tuple[str, ...]) -> Kernel:
    """Return a kernel that is bound to all columns but the clock as one that forgets, where anything is forgotten."""
    if drift is None or not drift.forgets:
        return kernel
    if drift.half_life == LEARNED:
        raise BadInputError("half_life='learned' takes a log with times: use Controller.from_trace, or give a number")
    return forgetful(kernel, drift, columns)


def timed_log(log: Samples | None, drift: Drift | None, columns: tuple[str, ...]) -> Samples | None:
    """Return a log with its clock; rows that have none are as old as the first decision."""
    if not isinstance(log, Samples) or drift is None or not drift.forgets or log.features != untimed(columns):
        return log
    if drift.clock != "decisions":
        raise BadInputError(f"the log has no times, the clock counts {drift.clock}: give it the column {CLOCK!r}")
    return timed_samples(log, np.zeros(len(log)), columns)


def timed_trace(
    trace: Trace, samples: Samples, drift: Drift, *, kernel: Kernel | None, columns: tuple[str, ...]
) -> tuple[Samples, Kernel, Drift]:
    """Return a log in numbers with its times, the kernel to start from, and the drift with its clock.

    Args:
        trace: The log.
        samples: The same in numbers, without times.
        drift: What was declared.
        kernel: What was given; None for one that suits the log.
        columns: Names of the columns of contexts, the clock's among them.
    """
    if drift.half_life == LEARNED and kernel is not None:
        raise BadInputError("half_life='learned' is fitted with the kernel: leave kernel= out, or give a half-life")
    drift = replace(drift, clock=_clock_of(trace, drift))
    at = np.zeros(len(samples)) if drift.clock == "decisions" else seconds(trace.time)
    span = float(np.ptp(at)) if len(at) else 0.0
    plain = starting_kernel(samples) if kernel is None else as_kernel(kernel).bind(samples.features)
    return timed_samples(samples, at, columns), forgetful(plain, drift, columns, span=span or 1.0), drift


def search_of(kernel: Kernel | None, noise: float | None, mean: float | None) -> Search:
    """Return what may move in a fit: whatever was not given."""
    return Search(kernel=kernel is None, noise=noise is None, mean=mean is None)


def learned_drift(drift: Drift | None, kernel: Kernel) -> Drift | None:
    """Return the drift with the half-life that was fitted."""
    if drift is None or drift.half_life != LEARNED:
        return drift
    fading = kernel.right if isinstance(kernel, Product) else None
    if not isinstance(fading, Forgetting):
        raise AssertionError("a kernel that forgets is a product with one of the clock")
    return replace(drift, half_life=float(np.ravel(fading.length_scale)[0]))


def check_judged(drift: Drift | None, policy: str | PolicyFactory) -> None:
    """Refuse resets where no residual would tell of a change, or none of one station."""
    if drift is not None and drift.resets is not None and isinstance(policy, str) and policy not in _JUDGED:
        raise BadInputError(
            f"resets judge every station by the predictions of its own model, which the policy {policy!r} has not: "
            f"choose one of {', '.join(_JUDGED)}, or pass Drift(half_life=..., reset=False)"
        )


def log_end(start: Samples | None, column: int) -> float:
    """Return the latest time of a starting log, minus infinity where there is none."""
    times: FloatArray = np.empty(0) if start is None else start.X[:, column]
    return float(times.max(initial=-np.inf))


def half_life_note(drift: Drift | None) -> Mapping[str, Any]:
    """Say in the notes of settings what half-life is in force."""
    return {"half_life": drift.half_life, "clock": drift.clock} if drift is not None and drift.forgets else {}


def _clock_of(trace: Trace, drift: Drift) -> Any:
    """Return what the clock counts, or say that the log does not have it."""
    if drift.clock == "decisions":
        return drift.clock
    if trace.time is None:
        learned = drift.half_life == LEARNED  # from times, which a clock of decisions has not
        instead = "give a half-life in decisions" if learned else "let the clock count decisions"
        raise BadInputError(f"the trace has no times to forget by: add a time column, or {instead}")
    kind = "dates" if trace.time.dtype.kind == "M" else "numbers"
    if drift.clock not in (None, kind):
        wanted = "a timedelta" if kind == "dates" else "a number and clock='numbers'"
        raise BadInputError(f"the clock counts {drift.clock}, the times of the trace are {kind}: give {wanted}")
    return kind
