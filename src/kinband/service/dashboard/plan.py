"""The plan: changes that wait for a person, for their window, for the network manager, and what became of them today.

What is shown is in the address: the part of a change's life, a filter, a search, the order. What waits may be of a
slot that is long over elsewhere, and what was expected then need not hold any more: it stands by itself, after what is
of the present slot.

Approving many is done in two steps: a page names what is about to be approved, and its button does it. The next page
names what was approved and offers to take it back, as long as nothing is ordered. Two people may look at the same page:
what no longer waits when a button is pressed is left out, and who was first is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import Form
from starlette.requests import Request
from starlette.responses import Response

from kinband.service import tables
from kinband.service.dashboard.dashboard import Dashboard, Line, Sent, Text
from kinband.service.dashboard.rendering import Flash
from kinband.service.dashboard.rows import Names, Row, named_slot, names_of, row_of
from kinband.service.dashboard.text import STATUS_WORDS, figure, lasting, time_text, with_query
from kinband.service.operations import DecisionRecord, Operations, ReadModel
from kinband.service.operations.records import Step
from kinband.stats import counted

MOST = 500
"""Rows on the page; the file has all."""
OLD = timedelta(hours=1)
"""Age from which what waits for a slot without a name counts as old."""

PARTS = {
    "waiting": "Waiting",
    "approved": "Approved",
    "ordered": "Ordered",
    "done": "Done today",
}
"""The parts of a change's life that the page shows."""
ONLY = {
    "": "all",
    "certain": "whose gain is certain",
    "trials": "trials",
    "held": "held back by a rule",
    "old": "for earlier slots",
}
"""What of a part is shown."""
SORTS = {"gain": True, "station": False, "tried": True, "at": False}
"""What the page may be sorted by, and whether the largest comes first unless it is said."""


def add_pages(dashboard: Dashboard) -> None:
    """Add the page, its file, and what its forms are sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/plan")
    def the_plan(
        request: Request, show: Text = "", q: Text = "", only: Text = "", sort: Text = "", down: Text = ""
    ) -> Response:
        asked = Asked.of(show, q=q, only=only, sort=sort, down=down)
        return dashboard.show(request, "plan.html", lambda: plan(operations, asked), ages=True)

    @dashboard.router.get("/plan.csv")
    def plan_file(
        request: Request, show: Text = "", q: Text = "", only: Text = "", sort: Text = "", down: Text = ""
    ) -> Response:
        dashboard.visitors.of(request)
        operations.refresh()
        asked = Asked.of(show, q=q, only=only, sort=sort, down=down)
        found = chosen(lines_of(operations, asked.show), asked)
        return tables.plan_file([line.record for line in found], names_of(operations).space)

    @dashboard.router.post("/plan/check")
    def check(
        request: Request,
        id: Annotated[list[str], Form()] = [],  # noqa: A002, B006 - the name of the field; nobody changes it
        comment: Line = "",
        csrf: Line = "",
    ) -> Response:
        dashboard.visitors.sender(request, csrf=csrf, role="operator")
        return dashboard.show(request, "approve.html", lambda: to_approve(operations, id, comment=comment), still=True)

    @dashboard.form("/plan/approve", role="operator", back="/plan")
    def approve(sent: Sent) -> Flash:
        return judge(operations, sent, approved=True)

    @dashboard.form("/plan/reject", role="operator", back="/plan")
    def reject(sent: Sent) -> Flash:
        return judge(operations, sent, approved=False)

    @dashboard.form("/plan/withdraw", role="operator", back="/plan")
    def withdraw(sent: Sent) -> Flash:
        def back(ids: Sequence[str]) -> Sequence[DecisionRecord]:
            return operations.withdraw(ids, comment=sent.comment, actor=sent.actor)

        return _done(operations, sent, "approved", back)

    @dashboard.form("/plan/confirm", role="operator", back="/plan?show=ordered")
    def confirm(sent: Sent) -> Flash:
        def made(ids: Sequence[str]) -> Sequence[DecisionRecord]:
            return [operations.confirm(key, comment=sent.comment, actor=sent.actor) for key in ids]

        return _done(operations, sent, "ordered", made)

    @dashboard.form("/plan/fail", role="operator", back="/plan?show=ordered")
    def fail(sent: Sent) -> Flash:
        def failed(ids: Sequence[str]) -> Sequence[DecisionRecord]:
            return [operations.fail(key, why=sent.comment, actor=sent.actor) for key in ids]

        return _done(operations, sent, "ordered", failed)


# --- What is asked for, and the lines that answer -------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What of the plan is to be shown, as its address says it.

    Attributes:
        show: One of `PARTS`.
        q: Part of a station's name; empty for all.
        only: One of `ONLY`.
        sort: One of `SORTS`.
        down: Whether the largest comes first.
    """

    show: str
    q: str
    only: str
    sort: str
    down: bool

    @classmethod
    def of(cls, show: str, *, q: str, only: str, sort: str, down: str) -> "Asked":
        """Return what an address asks for; what it should not say is as if it said nothing.

        Example:
            >>> Asked.of("", q="", only="", sort="", down="")
            Asked(show='waiting', q='', only='', sort='gain', down=True)
        """
        shown = show if show in PARTS else next(iter(PARTS))
        known = sort if sort in SORTS else _sort_of(shown)
        way = _way(known, shown) if sort != known or down not in ("0", "1") else down == "1"
        return cls(shown, q.strip(), only if only in ONLY else "", known, way)

    @property
    def as_usual(self) -> bool:
        """Whether it is in the order in which this part of the page comes by itself."""
        return (self.sort, self.down) == (_sort_of(self.show), _way(_sort_of(self.show), self.show))

    def link(self, path: str = "/plan", **other: Any) -> str:
        """Return the address that asks for this, but for some of it; what is so anyway is left out."""
        asked = replace(self, **other)
        if self.as_usual and asked.show != self.show:
            sort = _sort_of(asked.show)
            asked = replace(asked, sort=sort, down=_way(sort, asked.show))
        down = None if asked.down == _way(asked.sort, asked.show) else str(int(asked.down))
        show = None if asked.show == next(iter(PARTS)) else asked.show
        said = None if asked.as_usual else asked.sort
        return with_query(path, show=show, q=asked.q, only=asked.only, sort=said, down=down)

    def sorted_by(self, sort: str) -> str:
        """Return the address of the same in another order: that of a column, or the other way round."""
        return self.link(sort=sort, down=not self.down if sort == self.sort else _way(sort, self.show))


def _sort_of(show: str) -> str:
    """Return what a part of the page is sorted by at first: what came to an end by time, all else by gain."""
    return "at" if show == "done" else next(iter(SORTS))


def _way(sort: str, show: str) -> bool:
    """Return whether the largest comes first unless it is said; of what came to an end, the latest."""
    return SORTS[sort] or (sort, show) == ("at", "done")


class Wait(NamedTuple):
    """A change at some point of its life.

    Attributes:
        row: The decision.
        named: The caller's name of its slot, where that is no time.
        age: How long it has waited, in words.
        old: Whether a later slot has begun while it waits for a person.
        step: What it came to last; None where no more is known than that it waits.
    """

    row: Row
    named: str
    age: str
    old: bool
    step: Step | None = None

    @property
    def record(self) -> DecisionRecord:
        """The decision."""
        return self.row.record

    @property
    def why(self) -> str:
        """Why the change is proposed, in a sentence or two."""
        row, record = self.row, self.record
        if row.held is not None:
            return f"{row.held.instead[:1].upper()}{row.held.instead[1:]}."
        expected, now = record.expected, ""
        if expected.proposed is not None and expected.before is not None:
            now = f"Now {figure(expected.proposed)} is expected, not {figure(expected.before)}"
            now += ": tried to learn." if row.trial else "."
        instead = record.verdict is not None and record.verdict.outcome == "replaced"
        return " ".join(filter(None, [now, f"The next best within reach: {row.reason}." if instead else ""]))


def plan(operations: Operations, asked: Asked) -> dict[str, Any]:
    """Return what the page shows."""
    with operations.looking() as read_model:
        counts = Counter[str](one.status for one in read_model.orders())
        counts["waiting"] = len(read_model.waiting())
        assisted = sum(state.mode == "assist" for state in read_model.stations.values() if state.active)
        manner = read_model.manner
    lines = lines_of(operations, asked.show)
    found = chosen(lines, asked)
    gains = [wait.row.gain[0] for wait in found if wait.row.gain is not None]
    return {
        "asked": asked,
        "parts": [(part, words, counts[part] if part != "done" else None) for part, words in PARTS.items()],
        "only": ONLY,
        "waits": found[:MOST],
        "found": len(found),
        "all": len(lines),
        "old": sum(wait.old for wait in found),
        "trials": sum(wait.row.trial for wait in found),
        "held": Counter(wait.row.held.by for wait in found if wait.row.held is not None),
        "total": sum(gains) if gains else None,
        "assisted": assisted,
        "confirmed": manner == "confirmed",
    }


def lines_of(operations: Operations, show: str) -> list[Wait]:
    """Return all changes of a part of the page."""
    names, now = names_of(operations), operations.now()
    if show == "done":
        return [_line(record, names, now, step=step) for record, step in _done_today(operations, now)]
    with operations.looking() as read_model:
        last = next(iter(read_model.latest(limit=1)), None)
        records = read_model.waiting() if show == "waiting" else _ordered(read_model, show)
    return [_line(record, names, now, old=show == "waiting" and is_old(record, last, now)) for record in records]


def _line(record: DecisionRecord, names: Names, now: datetime, *, old: bool = False, step: Step | None = None) -> Wait:
    step = step or (record.steps[-1] if record.steps else None)
    since = record.at if step is None or record.status == "waiting" else step.at
    return Wait(row_of(record, names), named_slot(record.slot), lasting(now - since), old, step)


def _ordered(read_model: ReadModel, show: str) -> list[DecisionRecord]:
    return [record for record in read_model.orders() if record.status == show]


_ENDS = ("applied", "rolled back", "failed", "refused", "rejected", "expired")


def _done_today(operations: Operations, now: datetime) -> list[tuple[DecisionRecord, Step]]:
    """Return what people and the network manager have brought to an end since midnight, UTC, the latest first."""
    found: dict[str, Step] = {}
    for event in operations.events(kinds=("order", "approval"), newest_first=True, limit=4 * MOST):
        at, status = datetime.fromisoformat(event.payload.get("at", event.at)), event.payload.get("status")
        if at.date() < now.date():
            break
        if status in _ENDS and event.decision is not None:
            found.setdefault(event.decision, Step(status, at, event.actor, event.payload.get("comment", "")))
    with operations.looking() as read_model:
        known = [(read_model.decision(key), step) for key, step in found.items()]
    ended = [(record, step) for record, step in known if record.status in (step.status, "not made", "rolled back")]
    return sorted(ended, key=lambda one: one[1].at, reverse=True)


def chosen(lines: Iterable[Wait], asked: Asked) -> list[Wait]:
    """Return the lines that are asked for, in the order that is asked for."""
    wanted, looks = asked.q.casefold(), _LOOKS[asked.only]
    found = [one for one in lines if wanted in one.record.station.casefold() and looks(one)]
    return ordered(found, asked.sort, down=asked.down)


_LOOKS: dict[str, Callable[[Wait], bool]] = {
    "": lambda _: True,
    "certain": lambda wait: wait.row.gain is not None and wait.row.gain[1] > 0.0,
    "trials": lambda wait: wait.row.trial,
    "held": lambda wait: wait.row.held is not None,
    "old": lambda wait: wait.old,
}


def ordered(waits: Iterable[Wait], sort: str = "gain", *, down: bool = True) -> list[Wait]:
    """Return what waits: of the present slot first, then of earlier ones, each in an order.

    What is not known comes last, and names decide between equals.
    """
    sign = -1.0 if down else 1.0

    def number(value: float | None) -> tuple[bool, float]:
        return value is None, 0.0 if value is None else sign * value

    def key(wait: Wait) -> Any:
        record, support = wait.record, wait.record.support
        match sort:
            case "tried":
                own, others = (None, None) if support is None else (support.own, support.others)
                return number(own), number(others)
            case "at":
                return number((record.at if wait.step is None else wait.step.at).timestamp())
            case "station":
                return (False, 0.0)
        return number(wait.row.gain and wait.row.gain[0])

    named = sorted(waits, key=lambda wait: wait.record.station, reverse=down and sort == "station")
    listed = sorted(named, key=key)
    if sort in ("gain", ""):  # the latest slot first, among those that are over
        listed = sorted(listed, key=lambda wait: -wait.record.at.timestamp() if wait.old else 0.0)
    return sorted(listed, key=lambda wait: wait.old)


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


# --- What people do with it -----------------------------------------------------------------------------------------


def to_approve(operations: Operations, ids: Sequence[str], *, comment: str) -> dict[str, Any]:
    """Return what the page shows that stands between ticking and approving."""
    waits = {wait.record.id: wait for wait in lines_of(operations, "waiting")}
    found = ordered(waits[key] for key in dict.fromkeys(ids) if key in waits)
    gone = [key for key in dict.fromkeys(ids) if key not in waits]
    gains = [wait.row.gain[0] for wait in found if wait.row.gain is not None]
    due = Counter(wait.record.verdict.due for wait in found if wait.record.verdict is not None)
    return {
        "waits": found,
        "gone": _others_first(operations, gone),
        "comment": comment,
        "total": sum(gains) if gains else None,
        "trials": sum(wait.row.trial for wait in found),
        "old": sum(wait.old for wait in found),
        "new": sum(wait.record.support is not None and not wait.record.support.own for wait in found),
        "due": sorted((at, count) for at, count in due.items() if at is not None),
    }


def judge(operations: Operations, sent: Sent, *, approved: bool) -> Flash:
    """Approve or reject those decisions that still wait, and say what became of them."""
    act = operations.approve if approved else operations.reject

    def judged(ids: Sequence[str]) -> Sequence[DecisionRecord]:
        return act(ids, comment=sent.comment, actor=sent.actor)

    return _done(operations, sent, "waiting", judged)


def _done(
    operations: Operations, sent: Sent, status: str, act: Callable[[Sequence[str]], Sequence[DecisionRecord]]
) -> Flash:
    """Do something with those decisions that still have a status, and say what became of them and of the others."""
    asked = list(dict.fromkeys(sent.ids))
    with operations.looking() as read_model:
        still = [key for key in asked if key in read_model.decisions and read_model.decision(key).status == status]
    late = _others_first(operations, [key for key in asked if key not in still])
    if not still:
        return Flash(f"Nothing was done: {late or 'tick at least one change.'}", "bad")
    records, names = act(still), names_of(operations)
    undo = tuple(record.id for record in records if record.status == "approved")
    bad = late or any(record.status == "refused" for record in records)
    return Flash(" ".join(filter(None, [_outcomes(records, names), late])), "bad" if bad else "good", undo)


_NAMED = 4  # changes that a message names

_SAID = {
    "approved": "Approved",
    "ordered": "Ordered from the network manager",
    "applied": "Carried out",
    "rolled back": "Rolled back",
    "failed": "Reported as failed",
    "rejected": "Rejected",
    "refused": "Refused by the guard",
    "waiting": "Waits for a person again",
    "expired": "Expired",
}


def _outcomes(records: Sequence[DecisionRecord], names: Names) -> str:
    """Return in words what changes came to, with the first of each by name."""
    said = []
    for status in dict.fromkeys(record.status for record in records):
        some = [record for record in records if record.status == status]
        listed = ", ".join(_change(record, names) for record in some[:_NAMED])
        more = f" and {counted(len(some) - _NAMED, 'more', 'more')}" if len(some) > _NAMED else ""
        dues = sorted({record.due for record in some if record.due is not None}) if status == "approved" else []
        due = f", due {time_text(dues[0])} UTC{' and later' if len(dues) > 1 else ''}" if dues else ""
        verdict = some[0].verdict
        why = f" ({verdict.reason})" if status == "refused" and verdict is not None else ""
        said.append(f"{_SAID.get(status, STATUS_WORDS[status])}{due}: {listed}{more}{why}.")
    return " ".join(said)


def _change(record: DecisionRecord, names: Names) -> str:
    moves = ", ".join(f"{knob} {old} → {new}" for knob, old, new in names.moves(record.running, record.wanted))
    return f"{record.station} ({moves})" if moves else record.station


def _others_first(operations: Operations, ids: Sequence[str]) -> str:
    """Return who was first with decisions that can no longer be decided about, and what they said."""
    with operations.looking() as read_model:
        known = [read_model.decision(key) for key in ids if key in read_model.decisions]
    said = [_told(record) for record in known[:_NAMED]]
    if more := len(ids) - len(said):
        said.append(f"{counted(more, 'other')} can no longer be decided about.")
    return " ".join(said)


def _told(record: DecisionRecord) -> str:
    step = record.steps[-1] if record.steps else None
    who = "" if step is None else f", by {step.actor or 'the service'} at {time_text(step.at)} UTC"
    comment = f" (“{step.comment}”)" if step is not None and step.comment else ""
    return f"{record.station} was decided about before: {STATUS_WORDS[record.status]}{who}{comment}."
