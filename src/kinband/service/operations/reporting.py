"""What the network reports of the present decision of a station, as an event says it.

The network knows what was really done. It may have made a change that a person was still to approve, or never have
made one that was ordered; and what was not made an hour ago may have been made since. Each is told apart here, so that
a decision's status says what became of it, and a change counts once and for whoever ordered it.
"""

from datetime import datetime
from typing import Any

from kinband.service.operations.records import Card, Item, Status
from kinband.service.operations.reviewing import applied_note

_OURS = ("controller", "roll-back")  # who makes changes that were ordered


def reported(item: Item, card: Card, runs: int | None, at: datetime, *, comment: str = "") -> dict[str, Any]:
    """Return what an event says of a report.

    Args:
        item: The present decision of the station.
        card: The station as it stands.
        runs: Arm of what it runs.
        at: When it was reported.
        comment: What was said about it.

    Example:
        >>> from datetime import UTC
        >>> from kinband.guard import Verdict
        >>> from kinband.records import Decision
        >>> at, made = datetime(2026, 11, 20, tzinfo=UTC), Decision("d1", "a", 4, {"tilt": 6}, 0.9, 0.05, 0.95)
        >>> verdict = Verdict("a", "allowed", arm=4, running=2, asked=4, reason="")
        >>> item = Item(made, 7, at, None, "autonomous", "applied", verdict, running=2, arm=4)
        >>> card = Card("a", "autonomous", running=4, before=2, changed_by="controller")
        >>> note = reported(item, card, 2, at)
        >>> note["status"], note["taken_back"]
        ('not made', True)
    """
    undone = card.changed_by in _OURS and item.arm != item.running and runs == item.running
    made_after_all = item.status == "not made" and runs == item.ordered
    status: Status | None = None
    if undone:
        status = "not made"
    elif made_after_all or (item.status == "waiting" and runs == item.wanted):
        status = _made(item)
    by = ("roll-back" if status == "rolled back" else "controller") if made_after_all else "network"
    note = applied_note(runs, card.running, at, by=by, comment=comment, status=status, taken_back=undone)
    return note | {"reported": True}


def _made(item: Item) -> Status:
    """What becomes of a decision that is carried out."""
    by_guard = item.verdict is not None and item.verdict.outcome == "rolled back"
    return "rolled back" if by_guard else "applied"
