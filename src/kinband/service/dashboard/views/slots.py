"""Slots as pages name them."""

from datetime import datetime


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
