"""The audit log: every event as a sentence, newest first, filtered and a page at a time.

What people did and what was changed comes by itself; decisions, verdicts and rewards, of which there are a hundred
times as many, when they are asked for. Most decisions are to go on with what runs, and the guard has nothing to review
then. Verdicts that say so are left out unless everything is wanted: events are read until the page is full of others,
or enough has been read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from kinband.service import tables
from kinband.service.dashboard.chosen import Range, range_kept
from kinband.service.dashboard.dashboard import Dashboard, Text
from kinband.service.dashboard.rows import names_of
from kinband.service.dashboard.text import KIND_WORDS, utc, with_query
from kinband.service.ledger import Event
from kinband.service.operations import Operations

PAGE = 50
"""Events on a page."""
MOST_READ = 10 * PAGE
"""Events that are read for a page at most; where nearly all are left out, it is shorter."""

HEADER = ("number", "time", "kind", "actor", "station", "decision", "what_happened")
"""Columns of the file."""
QUIET = ("decision", "ran", "verdict", "outcome", "similarity")
"""Kinds that are shown when they are asked for."""
_FIRST = [kind for kind in KIND_WORDS if kind not in QUIET]
_AT_ONCE = 500
_LAST = 2**53  # no event has a number beyond, and no database takes any as large


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events are wanted; empty for all.

    Attributes:
        chosen: Over which time, as elsewhere.
        station: Of this station.
        kind: Of this kind; one that does not exist is none.
        actor: Done by this one.
        every: "1" if decisions, verdicts and rewards are wanted beside what people did; a file has them all the same.
    """

    chosen: Annotated[Range, Depends()]
    station: Text = ""
    kind: Text = ""
    actor: Text = ""
    every: Text = ""

    @property
    def given(self) -> bool:
        """Whether anything is left out by them."""
        return any((self.station, self.kind, self.actor, self.chosen.name != "all"))

    @property
    def others(self) -> dict[str, str]:
        """What else than the time range is wanted."""
        return {name: getattr(self, name) for name in ("station", "kind", "actor", "every")}

    def link(self, path: str, **further: object) -> str:
        """Return an address with these filters."""
        return with_query(path, **self.others, **range_kept(self.chosen), **further)


def add_pages(dashboard: Dashboard) -> None:
    """Add the page and its file."""

    @dashboard.router.get("/audit")
    def the_log(request: Request, filters: Annotated[Filters, Depends()], before: int | None = None) -> Response:
        wanted = replace(filters, every="1" if filters.every == "1" else "")
        return dashboard.show(request, "audit.html", lambda: audit(dashboard.operations, wanted, before=before))

    @dashboard.router.get("/audit.csv")
    def audit_file(request: Request, filters: Annotated[Filters, Depends()]) -> Response:
        dashboard.visitors.of(request)
        return tables.csv_answer("audit.csv", HEADER, file_rows(dashboard.operations, filters))


class Bounds(NamedTuple):
    """Numbers between which events are wanted, both outside; `before` is None for no end."""

    after: int = 0
    before: int | None = None


class Found(NamedTuple):
    """The events of a page, how many were left out, and where it goes on."""

    events: list[Event]
    left_out: int
    older: int | None


def audit(operations: Operations, filters: Filters, *, before: int | None) -> dict[str, Any]:
    """Return what the page of the log shows: events before a number, or the newest."""
    before = None if before is None else min(max(before, 0), _LAST)
    found = _page(operations, filters, _bounds(operations, filters, before))
    names = names_of(operations)
    return {
        "times": filters.chosen.shown("/audit", **filters.others),
        "filters": filters,
        "kinds": KIND_WORDS,
        "events": [(event, names.sentence(event)) for event in found.events],
        "left_out": found.left_out,
        "switch": replace(filters, every="" if filters.every else "1").link("/audit"),
        "older": "" if found.older is None else filters.link("/audit", before=found.older),
        "newest": filters.link("/audit") if before is not None else "",
        "file": replace(filters, every="").link("/audit.csv"),
        "clear": with_query("/audit", every=filters.every),
    }


def _page(operations: Operations, filters: Filters, bounds: Bounds) -> Found:
    """Read events until a page is full, there are no more, or enough were read."""
    kept, left, read, size, more = list[Event](), list[int](), 0, PAGE + 1, True
    while more and len(kept) <= PAGE and read < MOST_READ:
        events = _read(operations, filters, bounds, limit=size)
        for event in events:
            if not filters.every and had_nothing_to_review(event):
                left.append(event.seq)
            else:
                kept.append(event)
        read, more = read + len(events), len(events) == size
        bounds = Bounds(bounds.after, events[-1].seq) if events else bounds
        size = min(2 * size, MOST_READ - read)
    if len(kept) > PAGE:
        last = kept[PAGE - 1].seq
        return Found(kept[:PAGE], sum(number > last for number in left), last)
    return Found(kept, len(left), bounds.before if more else None)


def had_nothing_to_review(event: Event) -> bool:
    """Return whether an event is a verdict on a decision to stay as it is, which no rail forbids."""
    if event.kind != "verdict":
        return False
    said = event.payload
    return said.get("status") == "kept" and (said.get("verdict") or {}).get("outcome") == "allowed"


def file_rows(operations: Operations, filters: Filters) -> Iterator[tuple[Any, ...]]:
    """Return the rows of the file, newest first, read a few hundred at a time; all verdicts are among them."""
    names, bounds = names_of(operations), _bounds(operations, filters, None)
    filters = replace(filters, every="1")
    while events := _read(operations, filters, bounds, limit=_AT_ONCE):
        for event in events:
            words = names.sentence(event)
            yield event.seq, event.at, event.kind, event.actor, event.station, event.decision or "", words
        bounds = Bounds(bounds.after, events[-1].seq)


def _read(operations: Operations, filters: Filters, bounds: Bounds, *, limit: int) -> Sequence[Event]:
    return operations.events(
        after=bounds.after,
        before=bounds.before,
        kinds=[filters.kind] if filters.kind in KIND_WORDS else None if filters.every else _FIRST,
        station=filters.station or None,
        actor=filters.actor or None,
        newest_first=True,
        limit=limit,
    )


# --- Times of the log: from what somebody typed to numbers of events ------------------------------------------------
#
# Events are numbered in the order in which they were recorded, which is that of their times as long as nobody sets the
# clock back. So the first event since a time is found by halving, in as many looks as the number of events has binary
# digits, and the ledger needs no index over times. Where the clock was set back, the order of recording counts.


def _bounds(operations: Operations, filters: Filters, before: int | None) -> Bounds:
    """Return between which numbers events are, by the times that are wanted."""
    start, stop = filters.chosen.ends(operations.now())
    after = 0 if start is None else first_since(operations, start) - 1
    end = None if stop is None else first_since(operations, stop)
    return Bounds(after, min((number for number in (before, end) if number is not None), default=None))


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
