"""The plan: what waits for a person, for which slot and since when, what is expected of it and what the guard says.

A change waits until its station is asked for again or its reward comes; no clock ends that. So what waits may be of a
slot that is long over elsewhere, and what was expected then need not hold any more: it stands by itself, after what is
of the present slot. What no longer waits when a button is pressed is left out of an approval and said to be.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from kinband.service import tables
from kinband.service.dashboard.dashboard import Dashboard, Sent
from kinband.service.dashboard.rendering import Flash
from kinband.service.dashboard.rows import Row, named_slot, names_of, row_of
from kinband.service.dashboard.text import lasting
from kinband.service.operations import DecisionRecord, Operations
from kinband.stats import counted

MOST = 500
"""Rows on the page; the file has all."""
OLD = timedelta(hours=1)
"""Age from which what waits for a slot without a name counts as old."""


def add_pages(dashboard: Dashboard) -> None:
    """Add the page, its file, and what its forms are sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/plan")
    def the_plan(request: Request) -> Response:
        return dashboard.show(request, "plan.html", lambda: plan(operations), ages=True)

    @dashboard.router.get("/plan.csv")
    def plan_file(request: Request) -> Response:
        dashboard.visitors.of(request)
        operations.refresh()
        with operations.looking() as read_model:
            records = read_model.waiting()
        return tables.plan_file(records, names_of(operations).space)

    @dashboard.form("/plan/approve", role="operator", back="/plan")
    def approve(sent: Sent) -> Flash:
        return judge(operations, sent, approved=True)

    @dashboard.form("/plan/reject", role="operator", back="/plan")
    def reject(sent: Sent) -> Flash:
        return judge(operations, sent, approved=False)


class Wait(NamedTuple):
    """A change that waits.

    Attributes:
        row: The decision.
        named: The caller's name of its slot, where that is no time.
        age: How long it has waited, in words.
        old: Whether a later slot has begun since.
    """

    row: Row
    named: str
    age: str
    old: bool


def plan(operations: Operations) -> dict[str, Any]:
    """Return what the page shows."""
    names, now = names_of(operations), operations.now()
    with operations.looking() as read_model:
        records, last = read_model.waiting(), next(iter(read_model.latest(limit=1)), None)
        assisted = sum(state.mode == "assist" for state in read_model.stations.values() if state.active)
    waits = ordered(
        Wait(row_of(record, names), named_slot(record.slot), lasting(now - record.at), is_old(record, last, now))
        for record in records
    )
    gains = [wait.row.gain[0] for wait in waits if wait.row.gain is not None]
    return {
        "waits": waits[:MOST],
        "waiting": len(waits),
        "old": sum(wait.old for wait in waits),
        "trials": sum(wait.row.trial for wait in waits),
        "held": Counter(wait.row.held.by for wait in waits if wait.row.held is not None),
        "total": sum(gains) if gains else None,
        "assisted": assisted,
    }


def ordered(waits: Iterable[Wait]) -> list[Wait]:
    """Return what waits: of the present slot first, then the latest slot first, each with the largest gain first.

    What has no expected gain comes last in its slot, oldest first.
    """
    by_gain = sorted(waits, key=lambda wait: (wait.row.gain is None, -wait.row.gain[0] if wait.row.gain else 0.0))
    return sorted(by_gain, key=lambda wait: (wait.old, -wait.row.record.at.timestamp() if wait.old else 0.0))


def is_old(record: DecisionRecord, last: DecisionRecord | None, now: datetime) -> bool:
    """Return whether a later slot has begun: that of the last decision, or an hour where slots have no names.

    Args:
        record: What waits.
        last: The last decision of all.
        now: The time.
    """
    if record.slot is None or last is None or last.slot is None:
        return now - record.at >= OLD
    return record.slot != last.slot and record.at < last.at


def judge(operations: Operations, sent: Sent, *, approved: bool) -> Flash:
    """Approve or reject those decisions that still wait, and say what became of them."""
    with operations.looking() as read_model:
        waiting = {record.id for record in read_model.waiting()}
    asked = list(dict.fromkeys(sent.ids))
    still = [key for key in asked if key in waiting]
    gone = len(asked) - len(still)
    late = f" {counted(gone, 'decision')} no longer waited." if gone else ""
    if not still:
        return Flash(f"Nothing was done: {'too late' if gone else 'tick at least one decision'}.{late}", "bad")
    act = operations.approve if approved else operations.reject
    records = act(still, comment=sent.comment, actor=sent.actor)
    refused = [record for record in records if record.status == "refused"] if approved else []
    words = _approved_words(records, refused) if approved else f"{_were(records)} rejected."
    return Flash(words + late, "bad" if gone or refused else "good")


def _approved_words(records: Sequence[DecisionRecord], refused: Sequence[DecisionRecord]) -> str:
    carried = [record for record in records if record not in refused]
    words = [f"{_were(carried)} approved and carried out."] if carried else []
    if refused:
        reason = "" if refused[0].verdict is None else f" ({refused[0].verdict.reason})"
        words.append(f"{_were(refused)} refused by the guard{reason}.")
    return " ".join(words)


def _were(records: Sequence[DecisionRecord]) -> str:
    return f"{counted(len(records), 'change')} {'was' if len(records) == 1 else 'were'}"
