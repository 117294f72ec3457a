"""What views share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from kinband.errors import BadInputError
from kinband.service.dashboard.figures import knobs, moves, utc
from kinband.service.operations import Item, Operations, Site
from kinband.service.operations.outlooks import expected_gain
from kinband.space import ConfigurationSpace

# --- Decisions that a rule of safety held back: what would have been tried, and what the station runs instead -------
#
# Such a decision may have an expected gain below nought, as a trial has, and is the opposite of one: the rule returns
# to what is known to be safe (docs/safety.md). Pages tell the two apart.


@dataclass(frozen=True, slots=True)
class Held:
    """A decision that a rule held back.

    Attributes:
        by: The rule: "budget" or "floor".
        tried: What would have been tried, in words.
        instead: What was chosen in its place, in words.
        stays: Whether that is what the station runs.

    Example:
        >>> held = Held("budget", "tilt 8", "tilt 4", stays=False)
        >>> held.mark, held.instead_words
        ('held back by the budget', 'back to tilt 4, not on to tilt 8')
        >>> print(held.sentence)
        The budget held back a trial of tilt 8: the station goes back to tilt 4.
    """

    by: str
    tried: str
    instead: str
    stays: bool

    @property
    def mark(self) -> str:
        """It in a few words, for a table."""
        return f"held back by the {self.by}"

    @property
    def instead_words(self) -> str:
        """What it does instead, for a table."""
        if self.stays:
            return f"stays with {self.instead}, no trial of {self.tried}"
        return f"{'back to' if self.by == 'budget' else 'takes'} {self.instead}, not on to {self.tried}"

    @property
    def sentence(self) -> str:
        """All of it."""
        verb = "stays with" if self.stays else "goes back to" if self.by == "budget" else "takes"
        return f"The {self.by} held back a trial of {self.tried}: the station {verb} {self.instead}."


def held_of(item: Item, text: Callable[[int | None], str]) -> Held | None:
    """Return what held a decision back, by what the policy noted; None where nothing did.

    Args:
        item: The decision.
        text: Configurations in words, by arm.

    Example:
        >>> from datetime import UTC, datetime
        >>> from kinband.records import Decision
        >>> note = {"safety": {"running": 3, "held_back": 7, "by": "budget"}}
        >>> made = Decision("d1", "a", 3, None, 0.9, 0.04, 0.95, memo=note)
        >>> at = datetime(2026, 3, 4, tzinfo=UTC)
        >>> held_of(Item(made, 1, at, None, "assist", "kept", None, running=3, arm=3), "arm {}".format).sentence
        'The budget held back a trial of arm 7: the station stays with arm 3.'
    """
    note = item.decision.memo.get("safety") or {}
    if "held_back" not in note:
        return None
    arm = item.decision.arm
    return Held(str(note.get("by", "rule")), text(note["held_back"]), text(arm), stays=arm == item.running)


# --- What several pages show: configurations by arm, a decision as a row of a table, the gain expected of a change

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


# --- Times of the log: from what somebody typed to numbers of events ------------------------------------------------
#
# Events are numbered in the order in which they were recorded, which is that of their times as long as nobody sets the
# clock back. So the first event since a time is found by halving, in as many looks as the number of events has binary
# digits, and the ledger needs no index over times. Where the clock was set back, the order of recording counts.

_DATE = len("2026-11-20")
_MINUTE = len("2026-11-20T10:00")


def period(text: str, *, name: str) -> tuple[datetime, datetime]:
    """Return the beginning and the end of a day, a minute or a second, UTC unless it says otherwise.

    Args:
        text: A day, or a time as forms send it.
        name: What it is for, in a complaint.

    Example:
        >>> [moment.isoformat() for moment in period("2026-11-20T10:04", name="from")]
        ['2026-11-20T10:04:00+00:00', '2026-11-20T10:05:00+00:00']
        >>> (period("2026-11-20", name="to")[1] - period("2026-11-20", name="to")[0]).days
        1
        >>> period("soon", name="to")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: "to" takes a day or a time such as 2026-11-20T10:04, got 'soon'
    """
    try:
        begin = utc(datetime.fromisoformat(text.strip()))
        step = timedelta(days=1) if len(text.strip()) <= _DATE else timedelta(minutes=1)
        end = begin + (step if len(text.strip()) <= _MINUTE else timedelta(seconds=1))
    except (ValueError, OverflowError) as error:
        raise BadInputError(f'"{name}" takes a day or a time such as 2026-11-20T10:04, got {text!r:.60}') from error
    return begin.astimezone(UTC), end.astimezone(UTC)


def first_since(operations: Operations, moment: datetime) -> int:
    """Return the number of the first event recorded at a time or later; one past the last where there is none."""
    newest = operations.events(newest_first=True, limit=1)
    low, high = 1, newest[0].seq + 1 if newest else 1
    while low < high:
        middle = (low + high) // 2
        found = operations.events(after=middle - 1, limit=1)
        if found and utc(found[0].at) < moment:
            low = middle + 1
        else:
            high = middle
    return low


# --- Slots as pages name them ---------------------------------------------------------------------------------------


def named_slot(slot: str | None) -> str:
    """Return the caller's name of a slot, unless it is a time, which is shown anyway.

    Example:
        >>> named_slot("2026-11-20T10:00:00+00:00"), named_slot("busy hour"), named_slot(None)
        ('', 'busy hour', '')
    """
    try:
        datetime.fromisoformat(slot or "")
    except ValueError:
        return slot or ""
    return ""
