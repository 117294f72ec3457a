"""What several pages show: configurations by arm, a decision as a row of a table, the gain expected of a change."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from kinband.service.dashboard.figures import knobs, moves
from kinband.service.dashboard.views.holding import Held, held_of
from kinband.service.operations import Item, Operations, Site
from kinband.service.operations.outlooks import expected_gain
from kinband.space import ConfigurationSpace

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
        rails: The rails that refused something, where the guard did not let through what was chosen.
        reason: What the guard said; empty where it had nothing to review.
        expected: Predicted reward of what was chosen.
        reward: What it earned.
        by: Who approved or rejected it.
        comment: What that person said.
        gain: The gain expected of the change and the ends of its interval; None where nothing changes or none is known.
        trial: Whether it is made to learn: what runs is expected to earn more, and no rule of safety wants the change.
        held: What a rule of safety held back; None where none did.
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
    rails: tuple[str, ...]
    reason: str
    expected: float | None
    reward: float | None
    by: str
    comment: str
    gain: tuple[float, float, float] | None
    trial: bool
    held: Held | None

    @property
    def mark(self) -> str:
        """What the change is called: a trial, or held back by a rule; empty where it is neither."""
        return self.held.mark if self.held is not None else "trial" if self.trial else ""


def _reason(item: Item) -> str:
    """What the guard said, unless that is only that nothing was to be changed."""
    verdict = item.verdict
    if verdict is None or (item.status == "kept" and verdict.outcome == "allowed"):
        return ""
    return verdict.reason


def row_of(item: Item, names: Names, *, gains: bool = True) -> Row:
    """Return a decision as a row; without `gains`, which take looking for scores, none is given."""
    gain = expected_gain(item) if gains and item.changes else None
    held = held_of(item, names.text)
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
        rails=() if item.verdict is None or item.verdict.outcome == "allowed" else item.verdict.codes,
        reason=_reason(item),
        expected=item.decision.mean,
        reward=item.reward,
        by=item.decided_by,
        comment=item.comment,
        gain=gain,
        trial=held is None and gain is not None and gain[0] < 0.0,
        held=held,
    )
