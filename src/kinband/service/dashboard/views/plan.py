"""The plan: what waits for a person, with what is expected of it and what the guard says."""

from typing import Any

from kinband.service.dashboard.views.common import Row, names_of, row_of
from kinband.service.operations import Operations

MOST = 500
"""Rows on the page; the file has all."""


def rows_of(operations: Operations) -> list[Row]:
    """Return what waits, the largest expected gain first; what has none comes last, oldest first."""
    names = names_of(operations)
    with operations.looking() as picture:
        items = picture.waiting()
    rows = [row_of(item, names) for item in items]
    return sorted(rows, key=lambda row: (row.gain is None, -row.gain[0] if row.gain else 0.0))


def plan(operations: Operations) -> dict[str, Any]:
    """Return what the page of the plan shows."""
    rows = rows_of(operations)
    with operations.looking() as picture:
        modes = [card.mode for card in picture.cards.values() if card.active]
    gains = [row.gain[0] for row in rows if row.gain is not None]
    return {
        "rows": rows[:MOST],
        "waiting": len(rows),
        "trials": sum(row.trial for row in rows),
        "total": sum(gains) if gains else None,
        "assisted": modes.count("assist"),
    }
