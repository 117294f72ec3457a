"""The audit log: every event as a sentence, newest first, filtered and a page at a time.

Most decisions are to go on with what runs, and the guard has nothing to review then. Verdicts that say so are left out
unless they are asked for: events are read until the page is full of others, or enough has been read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kinband.service.dashboard.addresses import with_query
from kinband.service.dashboard.views.common import first_since, names_of, period
from kinband.service.dashboard.words import KIND_WORDS, sentence
from kinband.service.ledger import Event
from kinband.service.operations import Operations, Picture

PAGE = 50
"""Events on a page."""
MOST_READ = 10 * PAGE
"""Events that are read for a page at most; where nearly all are left out, it is shorter."""

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
        since: From this day or minute on, UTC.
        until: Up to the end of this day or minute, UTC.
        every: Whether verdicts are wanted that had nothing to review; a file has them all the same.

    Example:
        >>> Filters(kind="rumour").kinds is None
        True
    """

    station: str = ""
    kind: str = ""
    actor: str = ""
    since: str = ""
    until: str = ""
    every: bool = False

    @property
    def kinds(self) -> list[str] | None:
        """The kind as a filter; one that does not exist is none."""
        return [self.kind] if self.kind in KIND_WORDS else None

    @property
    def given(self) -> bool:
        """Whether anything is left out by them."""
        return any((self.station, self.kind, self.actor, self.since, self.until))

    def link(self, path: str, **further: object) -> str:
        """Return an address with these filters."""
        return with_query(
            path, station=self.station, kind=self.kind, actor=self.actor, since=self.since, until=self.until,
            every="1" if self.every else None, **further,
        )  # fmt: skip


class Bounds(NamedTuple):
    """Numbers between which events are wanted, both outside; `before` is None for no end."""

    after: int = 0
    before: int | None = None


class Found(NamedTuple):
    """The events of a page with their payloads, where these were read; how many were left out; where it goes on."""

    events: list[tuple[Event, Mapping[str, Any] | None]]
    left_out: int
    older: int | None


def audit(operations: Operations, filters: Filters, *, before: int | None) -> dict[str, Any]:
    """Return what the page of the log shows: events before a number, or the newest."""
    found = _page(operations, filters, _bounds(operations, filters, before))
    space = names_of(operations).configuration
    with operations.looking() as picture:
        known = [(event, _known(event, picture) if said is None else said) for event, said in found.events]
    return {
        "filters": filters,
        "kinds": KIND_WORDS,
        "events": [(event, sentence(event, space, said=said)) for event, said in known],
        "left_out": found.left_out,
        "switch": replace(filters, every=not filters.every).link("/audit"),
        "older": "" if found.older is None else filters.link("/audit", before=found.older),
        "newest": filters.link("/audit") if before is not None else "",
        "file": replace(filters, every=False).link("/audit.csv"),
        "clear": with_query("/audit", every="1" if filters.every else None),
    }


def _bounds(operations: Operations, filters: Filters, before: int | None) -> Bounds:
    """Return between which numbers events are, by the times that are wanted."""
    begin = period(filters.since, name="from")[0] if filters.since else None
    end = period(filters.until, name="to")[1] if filters.until else None
    after = 0 if begin is None else first_since(operations, begin) - 1
    ends = [number for number in (before, None if end is None else first_since(operations, end)) if number is not None]
    return Bounds(after, min(ends, default=None))


def _page(operations: Operations, filters: Filters, bounds: Bounds) -> Found:
    """Read events until a page is full, there are no more, or enough were read."""
    kept: list[tuple[Event, Mapping[str, Any] | None]] = []
    left, read, size, more = list[int](), 0, PAGE + 1, True
    while more and len(kept) <= PAGE and read < MOST_READ:
        events = _read(operations, filters, bounds, limit=size)
        for event in events:
            said = event.payload if event.kind == "verdict" else None
            if said is not None and not filters.every and had_nothing_to_review(said):
                left.append(event.seq)
            else:
                kept.append((event, said))
        read, more = read + len(events), len(events) == size
        bounds = Bounds(bounds.after, events[-1].seq) if events else bounds
        size = min(2 * size, MOST_READ - read)
    if len(kept) > PAGE:
        kept = kept[:PAGE]
        return Found(kept, sum(number > kept[-1][0].seq for number in left), kept[-1][0].seq)
    return Found(kept, len(left), bounds.before if more else None)


def had_nothing_to_review(said: Mapping[str, Any]) -> bool:
    """Return whether the payload of a verdict says that a decision was to stay as it is, which no rail forbids.

    Example:
        >>> had_nothing_to_review({"verdict": {"outcome": "allowed"}, "status": "kept"})
        True
        >>> had_nothing_to_review({"verdict": {"outcome": "allowed"}, "status": "applied"})
        False
    """
    return said.get("status") == "kept" and (said.get("verdict") or {}).get("outcome") == "allowed"


def _known(event: Event, picture: Picture) -> dict[str, Any] | None:
    """Return what a sentence needs of a decision, which memory has unpacked; None where the event has to be read."""
    item = picture.items.get(event.decision or "") if event.kind == "decision" else None
    if item is None:
        return None
    made = item.decision
    return {"entry": {"arm": made.arm, "configuration": made.configuration, "scores": [made.mean, made.width]}}


def file_rows(operations: Operations, filters: Filters) -> Iterator[tuple[Any, ...]]:
    """Return the rows of the file, newest first, read a few hundred at a time; all verdicts are among them."""
    space, bounds = names_of(operations).configuration, _bounds(operations, filters, None)
    while events := _read(operations, filters, bounds, limit=_AT_ONCE):
        for event in events:
            words = sentence(event, space)
            yield event.seq, event.at, event.kind, event.actor, event.station, event.decision or "", words
        bounds = Bounds(bounds.after, events[-1].seq)


def _read(operations: Operations, filters: Filters, bounds: Bounds, *, limit: int) -> Sequence[Event]:
    return operations.events(
        after=bounds.after,
        before=bounds.before,
        kinds=filters.kinds,
        station=filters.station or None,
        actor=filters.actor or None,
        newest_first=True,
        limit=limit,
    )
