"""How things stand at every station, as the journal tells: what it runs, and what its pending decisions count for.

A station runs what its caller says when asking; else what ran for it last, which is what was decided and not called off
unless somebody said that something else ran; else what was declared for it. All of it follows from settings and
journal, so that a replay stands where the original stood.

A decision that was called off is not what runs. Whether it ever ran is not known, so in a budget it keeps what it may
have cost and loses what it may have earned. Where somebody said what ran in its place, that did run, whether or not a
reward will come; in a budget it counts as `kinband.policies.safety.replaced` says.
"""

from collections.abc import Mapping
from math import fsum

from kinband.controller.journal import Asked, CalledOff, Entry, Journal, Ran, Told
from kinband.controller.settings import Settings
from kinband.errors import BadInputError
from kinband.policies.safety import held_lower
from kinband.records import Query
from kinband.space import ConfigurationSpace


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
