"""What a station ran before, so that a person can go back, step by step.

Every change leaves what it replaced on a trail. A roll-back, by the guard or by a person, takes the last of it off
again: a second one goes further back, and never to what the first has just undone.
"""

from dataclasses import dataclass, replace
from datetime import datetime

_LONGEST = 100  # how far back one can go
_BACK = ("roll-back", "operator")  # who changes a station in order to undo something


@dataclass(frozen=True)
class Trail:
    """What a station ran, and its last change.

    Attributes:
        ran: What it ran before what it runs now, the latest last; what was taken back is not among it.
        changed: When it last changed; None where it never did.
        by: Who changed it.
        last: How things stood before that.

    Example:
        >>> from datetime import UTC
        >>> at = datetime(2026, 11, 20, tzinfo=UTC)
        >>> trail = Trail().after(3, before=1, at=at, by="controller").after(5, before=3, at=at, by="controller")
        >>> trail.before, trail.after(3, before=5, at=at, by="operator").before
        (3, 1)
        >>> trail.taken_back().before, trail.taken_back().taken_back().before
        (1, 1)
    """

    ran: tuple[int, ...] = ()
    changed: datetime | None = None
    by: str = ""
    last: "Trail | None" = None

    @property
    def before(self) -> int | None:
        """What a roll-back leads to; None where there is nothing to go back to."""
        return self.ran[-1] if self.ran else None

    def after(self, arm: int, *, before: int | None, at: datetime, by: str) -> "Trail":
        """Return the trail after a change."""
        if by in _BACK and arm == self.before:
            ran = self.ran[:-1]
        else:
            ran = self.ran if before is None else (*self.ran, before)[-_LONGEST:]
        return Trail(ran, at, by, replace(self, last=None))

    def taken_back(self) -> "Trail":
        """Return the trail where the last change was never carried out."""
        return self if self.last is None else self.last
