"""The list of stations: found by name, sorted by any column, a page at a time."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from kinband.service.dashboard.addresses import with_query
from kinband.service.dashboard.views.common import names_of
from kinband.service.dashboard.views.overview import Look, look_of
from kinband.service.operations import MODES, Operations

COLUMNS = ("name", "reward", "gain", "mode", "runs", "changed")
"""What the list may be sorted by."""
PAGE = 120
"""Stations on a page."""
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


class Line(NamedTuple):
    """A station as the list shows it: its look, the gain a slot, and whether it is still decided for."""

    look: Look
    gain: float | None
    active: bool


def stations(operations: Operations, *, q: str, sort: str, down: bool, page: int) -> dict[str, Any]:
    """Return what the list shows.

    Args:
        operations: Where stations are.
        q: Part of a name; empty for all.
        sort: One of `COLUMNS`; anything else is the first.
        down: Whether the largest comes first.
        page: Which page, from 1.
    """
    sort, names, wanted = sort if sort in COLUMNS else COLUMNS[0], names_of(operations), q.casefold()
    with operations.looking() as picture:
        found = []
        for card in picture.cards.values():
            if wanted in card.station.casefold():
                gain = picture.gain(card.station)
                mean = gain.mean if gain.slots else None
                found.append(Line(look_of(card, picture, names), mean, card.active))
    ordered = sorted(found, key=lambda line: _key(line, sort), reverse=down)
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(max(page, 1), pages)
    return {
        "q": q,
        "sort": sort,
        "down": down,
        "lines": ordered[(page - 1) * PAGE : page * PAGE],
        "found": len(ordered),
        "page": page,
        "pages": pages,
        "links": {name: _link(q, name, down=sort == name and not down) for name in COLUMNS},
        "before": _link(q, sort, down=down, page=page - 1) if page > 1 else "",
        "after": _link(q, sort, down=down, page=page + 1) if page < pages else "",
    }


def _key(line: Line, sort: str) -> tuple[Any, ...]:
    """Return what a station is sorted by; what is not known comes first, and names decide between equals."""
    look = line.look
    match sort:
        case "reward":
            return look.recent is not None, look.recent or 0.0, look.station
        case "gain":
            return line.gain is not None, line.gain or 0.0, look.station
        case "mode":
            return MODES.index(look.mode), look.station
        case "runs":
            return look.running, look.station
        case "changed":
            return look.changed or _NEVER, look.station
    return (look.station,)


def _link(q: str, sort: str, *, down: bool, page: int = 1) -> str:
    return with_query("/stations", q=q, sort=sort, down="1" if down else None, page=None if page == 1 else page)
