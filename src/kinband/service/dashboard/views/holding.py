"""Decisions that a rule of safety held back: what would have been tried, and what the station runs instead.

Such a decision may have an expected gain below nought, as a trial has, and is the opposite of one: the rule returns to
what is known to be safe (docs/safety.md). Pages tell the two apart.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kinband.service.operations import Item


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
