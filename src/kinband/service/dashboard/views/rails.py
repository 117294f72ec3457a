"""The guard rails: those in force, who put them there, and what a draft of others would refuse."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from kinband.guard import Rails, example_text
from kinband.service.dashboard.views.common import names_of
from kinband.service.dashboard.words import sentence
from kinband.service.operations import Item, Operations

_LAST = 8  # changes of the rails
_ROWS = (10, 32)  # lines of the form, at least and at most
_LINE = re.compile(r"\bline (\d+)")


@dataclass(frozen=True, slots=True)
class Draft:
    r"""Rails that somebody wrote and that are not in force.

    Attributes:
        text: The draft.
        comment: What was to be said about it.
        complaint: What is wrong with it, else empty.
        refused: What waits and would be refused; None where that was not asked for.

    Example:
        >>> draft = Draft("zone: UTC\nstopp: on\n").wrong("rails, line 2: there is no key 'stopp'")
        >>> draft.line
        'stopp: on'
    """

    text: str
    comment: str = ""
    complaint: str = ""
    refused: Sequence[Item] | None = None

    def wrong(self, complaint: str) -> "Draft":
        """Return the draft with what is wrong with it."""
        return replace(self, complaint=complaint)

    def checked(self, refused: Sequence[Item]) -> "Draft":
        """Return the draft with what it would refuse."""
        return replace(self, refused=refused)

    @property
    def line(self) -> str:
        """The line that the complaint names, else empty."""
        found, lines = _LINE.search(self.complaint), self.text.splitlines()
        number = int(found[1]) if found else 0
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def rails(operations: Operations, draft: Draft | None = None) -> dict[str, Any]:
    """Return what the page of the rails shows, with a draft where there is one."""
    known, inside = operations.rails_in_force()
    draft = draft or Draft(known.text)
    space = names_of(operations).configuration
    events = operations.events(kinds=["rails"], newest_first=True, limit=_LAST)
    with operations.looking() as picture:
        waiting = len(picture.waiting())
    return {
        "known": known,
        "lines": known.text.splitlines(),
        "untold": not known.text and _limits(inside),
        "unlimited": not _limits(inside),
        "draft": draft,
        "rows": min(max(len(draft.text.splitlines()) + 3, _ROWS[0]), _ROWS[1]),
        "waiting": waiting,
        "example": example_text(),
        "changes": [(event, sentence(event, space)) for event in events],
    }


def _limits(rails: Rails) -> bool:
    """Whether rails limit anything; a zone alone, or who is a neighbour of whom, does not."""
    named = [one.name for one in fields(Rails) if one.name not in ("zone", "neighbours", "round")]
    return any(getattr(rails, name) != getattr(Rails(), name) for name in named)
