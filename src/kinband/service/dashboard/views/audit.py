"""The audit log: every event as a sentence, newest first, filtered and a page at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kinband.service.dashboard.addresses import with_query
from kinband.service.dashboard.views.common import names_of
from kinband.service.dashboard.words import KIND_WORDS, sentence
from kinband.service.ledger import Event
from kinband.service.operations import Operations, Picture

PAGE = 50
"""Events on a page."""

HEADER = ("number", "time", "kind", "actor", "station", "decision", "what_happened")
"""Columns of the file."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events are wanted; empty for all.

    Attributes:
        station: Of this station.
        kind: Of this kind.
        actor: Done by this one.

    Example:
        >>> Filters(kind="rumour").kinds is None
        True
    """

    station: str = ""
    kind: str = ""
    actor: str = ""

    @property
    def kinds(self) -> list[str] | None:
        """The kind as a filter; one that does not exist is none."""
        return [self.kind] if self.kind in KIND_WORDS else None

    def link(self, path: str, **further: object) -> str:
        """Return an address with these filters."""
        return with_query(path, station=self.station, kind=self.kind, actor=self.actor, **further)


def audit(operations: Operations, filters: Filters, *, before: int | None) -> dict[str, Any]:
    """Return what the page of the log shows: events before a number, or the newest."""
    events = _read(operations, filters, before=before, limit=PAGE + 1)
    space = names_of(operations).configuration
    shown = events[:PAGE]
    with operations.looking() as picture:
        known = {event.seq: _known(event, picture) for event in shown}
    return {
        "filters": filters,
        "kinds": KIND_WORDS,
        "events": [(event, sentence(event, space, said=known[event.seq])) for event in shown],
        "older": filters.link("/audit", before=shown[-1].seq) if len(events) > PAGE else "",
        "newest": filters.link("/audit") if before is not None else "",
        "file": filters.link("/audit.csv"),
    }


def _known(event: Event, picture: Picture) -> dict[str, Any] | None:
    """Return what a sentence needs of a decision, which memory has unpacked; None where the event has to be read."""
    item = picture.items.get(event.decision or "") if event.kind == "decision" else None
    if item is None:
        return None
    made = item.decision
    return {"entry": {"arm": made.arm, "configuration": made.configuration, "scores": [made.mean, made.width]}}


def file_rows(operations: Operations, filters: Filters) -> Iterator[tuple[Any, ...]]:
    """Return the rows of the file, newest first, read a few hundred at a time."""
    space, before = names_of(operations).configuration, None
    while events := _read(operations, filters, before=before, limit=_AT_ONCE):
        for event in events:
            words = sentence(event, space)
            yield event.seq, event.at, event.kind, event.actor, event.station, event.decision or "", words
        before = events[-1].seq


def _read(operations: Operations, filters: Filters, *, before: int | None, limit: int) -> list[Event]:
    return operations.events(
        before=before,
        kinds=filters.kinds,
        station=filters.station or None,
        actor=filters.actor or None,
        newest_first=True,
        limit=limit,
    )
