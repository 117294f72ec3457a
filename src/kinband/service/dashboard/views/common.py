"""What several pages show: configurations by arm, a decision as a row of a table, the gain expected of a change."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from math import hypot
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from kinband.configurations import ConfigurationSpace
from kinband.records import Decision, alternative_of
from kinband.service.dashboard.charts.bands import NORMAL_95
from kinband.service.dashboard.figures import knobs, moves
from kinband.service.operations import Item, Operations, Site

Moves = tuple[tuple[str, str, str], ...]
"""Knobs that move: name, old value, new value."""


class Names:
    """The configurations of a space by arm; each is put into words once, for pages name the same ones all the time.

    Args:
        space: The configurations to choose from.

    Example:
        >>> names = Names(ConfigurationSpace(tilt=[2, 4]))
        >>> names.text(1), names.text(None), names.configuration(1), names.configuration(7)
        ('tilt 4', 'not known', {'tilt': 4}, None)
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        self.space = space
        self._texts: dict[int | None, str] = {None: "not known"}
        self._moves: dict[tuple[int | None, int], Moves] = {}

    def configuration(self, arm: int) -> Mapping[str, Any] | None:
        """Return a configuration, None for an arm that does not exist."""
        return self.space[arm] if 0 <= arm < len(self.space) else None

    def text(self, arm: int | None) -> str:
        """Return a configuration in words."""
        found = self._texts.get(arm)
        if found is None and arm is not None:
            found = self._texts[arm] = knobs(self.configuration(arm))
        return found or ""

    def moves(self, before: int | None, after: int) -> Moves:
        """Return the knobs that move from one configuration to another, each with its old and its new value."""
        found = self._moves.get((before, after))
        if found is None:
            old = None if before is None else self.configuration(before)
            found = self._moves[before, after] = tuple(moves(old, self.configuration(after)))
        return found


_names = lru_cache(maxsize=4)(Names)  # a service has one space
_places: WeakKeyDictionary[Operations, tuple[object, dict[str, Site]]] = WeakKeyDictionary()


def names_of(operations: Operations) -> Names:
    """Return the configurations to choose from."""
    return _names(operations.durable.settings.encoder.space)


def sites_of(operations: Operations) -> dict[str, Site]:
    """Return where sectors stand; worked out anew only when stations were described anew."""
    told = operations.durable.controller.in_force.descriptors
    known = _places.get(operations)
    if known is None or known[0] is not told:
        known = _places[operations] = told, operations.sites
    return known[1]


class Row(NamedTuple):
    """A decision as a row of a table.

    Attributes:
        id: The decision.
        station: Whom it is for.
        at: When it was asked for.
        slot: Its slot.
        before: What ran.
        wanted: What should run.
        moves: The knobs that would move, with old and new value.
        changes: Whether that is something else.
        status: What became of it.
        reason: What the guard said.
        expected: Predicted reward of what was chosen.
        reward: What it earned.
        by: Who approved or rejected it.
        comment: What that person said.
        gain: The gain expected of the change and the ends of its interval; None where it is not known.
        trial: Whether it is made to learn: what runs is expected to earn more.
    """

    id: str
    station: str
    at: datetime
    slot: str | None
    before: str
    wanted: str
    moves: Moves
    changes: bool
    status: str
    reason: str
    expected: float | None
    reward: float | None
    by: str
    comment: str
    gain: tuple[float, float, float] | None
    trial: bool


def row_of(item: Item, names: Names, *, gains: bool = True) -> Row:
    """Return a decision as a row; without `gains`, which take looking for scores, none is given."""
    gain = expected_gain(item) if gains else None
    wanted = item.decision.arm if item.status == "refused" else item.wanted  # of a refusal: what was refused
    changes = wanted != item.running
    return Row(
        id=item.id,
        station=item.station,
        at=item.at,
        slot=item.slot,
        before=names.text(item.running),
        wanted=names.text(wanted),
        moves=names.moves(item.running, wanted) if changes else (),
        changes=changes,
        status=item.status,
        reason="" if item.verdict is None else item.verdict.reason,
        expected=item.decision.mean,
        reward=item.reward,
        by=item.decided_by,
        comment=item.comment,
        gain=gain,
        trial=gain is not None and gain[0] < 0.0,
    )


def expected_gain(item: Item) -> tuple[float, float, float] | None:
    """Return the gain expected of a decision over what ran, with its 95 % interval; None where one is not scored.

    Scores are those stored when asking. The two estimates are taken as independent, although they hang together (they
    are of one station in one state), so that the interval is rather too wide.

    Example:
        >>> from kinband.packed import Alternative
        >>> from kinband.records import Decision
        >>> others = (Alternative(2, None, 0.7, 0.03, 0.8),)
        >>> made = Decision("d1", "a", 4, None, 0.9, 0.04, 0.95, others)
        >>> item = Item(made, 1, datetime(2026, 3, 4), None, "assist", "waiting", None, running=2, arm=2)
        >>> [round(value, 3) for value in expected_gain(item)]
        [0.2, 0.102, 0.298]
    """
    now = None if item.running is None else _scored(item.decision, item.running)
    then = _scored(item.decision, item.wanted)
    if now is None or then is None:
        return None
    gain, reach = then[0] - now[0], NORMAL_95 * hypot(then[1], now[1])
    return gain, gain - reach, gain + reach


def _scored(decision: Decision, arm: int) -> tuple[float, float] | None:
    """Return mean and width of an arm when a decision was made; None where they were not kept."""
    found = decision if arm == decision.arm else alternative_of(decision, arm)
    return None if found is None or found.mean is None or found.width is None else (found.mean, found.width)
