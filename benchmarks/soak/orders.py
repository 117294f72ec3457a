"""What becomes of orders, from events and what the network manager heard: every step follows from the one before it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from benchmarks.soak.history import Course, Operation, Row, Sighting
from benchmarks.soak.oracle import Times

UNDER_WAY = ("approved", "ordered")
"""What is not made yet, and may be."""

_STEPS: Mapping[str, tuple[str, ...]] = {
    "approved": ("ordered", "applied", "rolled back", "refused", "expired", "waiting", "rejected"),
    "ordered": ("applied", "rolled back", "failed", "expired"),
    "expired": ("applied", "rolled back"),
}
"""What may follow; on "expired" only where it was ordered."""


def _statuses(rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
    """Give every row that says what a decision came to, with both; a report may be about the order of another slot."""
    for row in rows:
        if row.kind in ("verdict", "approval", "order", "applied") and "status" in row.payload:
            yield row, str(row.payload.get("order", row.decision)), row.payload["status"]


def life_faults(rows: Sequence[Row], times: Times, *, slack: float) -> Iterator[str]:
    """Say where an order came to what it could not come to, came too early, or was carried out twice."""
    now, ordered, until = dict[str, str](), set[str](), dict[str, datetime]()
    busy, early = dict[str, str](), dict[str, str]()  # by station: what is under way, and what expired before its time
    for row, name, status in _statuses(rows):
        known = now.get(name, "")
        after = _STEPS.get(known, ()) if known != "expired" or name in ordered else ()
        if (row.kind == "order" or known in UNDER_WAY) and status not in after:
            yield f"event {row.seq}: {name} was {known or 'nothing'} and is {status}"
        if row.kind == "verdict" and row.station in early and row.payload["verdict"]["outcome"] == "rolled back":
            del early[row.station]  # which ends what was under way
        if status in UNDER_WAY and busy.setdefault(row.station, name) != name:
            yield f"event {row.seq}: {name} is {status}, and {busy[row.station]} of {row.station} is under way"
        left = (until[name] - times[row.seq][1]).total_seconds() if name in until else 0.0
        if status == "expired" and known in UNDER_WAY and left > slack:
            early[row.station] = f"event {row.seq}: {name} expired before {until[name]:%d %H:%M:%S}"
        if status not in UNDER_WAY and busy.get(row.station) == name:
            del busy[row.station]
        now[name] = status
        if status == "ordered":
            ordered.add(name)
        if status in UNDER_WAY and "until" in row.payload:
            until[name] = datetime.fromisoformat(row.payload["until"])
    yield from early.values()
    made = [row.payload["order"] for row in rows if row.kind == "applied" and "order" in row.payload]
    yield from (f"{name} was carried out {made.count(name)} times" for name in set(made) if made.count(name) > 1)


def acknowledged_faults(rows: Sequence[Row], operations: Sequence[Operation]) -> Iterator[str]:
    """Say which word of the network manager was acknowledged and is not on record."""
    made = {row.payload["order"] for row in rows if row.kind == "applied" and "order" in row.payload}
    failed = {row.decision for row in rows if row.kind == "order" and row.payload["status"] == "failed"}
    for one in operations:
        known = {"confirm": made, "fail": failed}.get(one.what)
        if known is not None and one.done and one.answer["id"] not in known:
            yield f"{one.what} of {one.answer['id']} was acknowledged ({one.key}) and is not on record"


def listed_faults(rows: Sequence[Row], operations: Sequence[Operation], sightings: Sequence[Sighting]) -> Iterator[str]:
    """Say which lists of orders, and which answers, show what no order can have been while they were asked for."""
    courses = _courses(rows, sightings)
    for one in operations:
        if not one.done or one.what not in ("orders", "ask"):
            continue
        ended = one.ended or one.began
        shown = {item["id"]: item["status"] for item in one.answer["orders" if one.what == "orders" else "decisions"]}
        for name, status in shown.items():
            known: list[Any] = courses[name].within(one.began, ended) if name in courses else []
            if status not in known:
                yield f"{one.key}: {name} is shown as {status}, and on record is one of {known}"
        for name, course in courses.items() if one.what == "orders" else ():
            if name not in shown and all(status in UNDER_WAY for status in course.within(one.began, ended)):
                yield f"{one.key}: {name} is under way and is not listed"


def _courses(rows: Sequence[Row], sightings: Sequence[Sighting]) -> dict[str, Course]:
    """Return what decisions came to, and when."""
    seen, found = {one.seq: one for one in sightings}, dict[str, Course]()
    for row, name, status in _statuses(rows):
        found.setdefault(name, Course("")).add(status, seen.get(row.seq))
    return found
