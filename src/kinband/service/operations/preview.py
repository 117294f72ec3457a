"""What other rails would have made of the decisions of the last days: reviewed again, against the past as of then.

What really happened since stays as it was: a change that the other rails would have refused is still in the past of the
next one. So the answer is about each decision by itself, and not about another life.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Literal

from kinband.guardrails import Guard, Pending, Proposal, Verdict
from kinband.guardrails.rules import UNKNOWN, Code
from kinband.service.ledger import Event
from kinband.service.operations.operations import Operations
from kinband.service.operations.orders import pending_of
from kinband.service.operations.past import first_since, replayed
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import DecisionRecord
from kinband.service.operations.review import hope, scores_of

DAYS = 7
"""Over how many days rails are tried."""
MOST_DECISIONS = 20_000
"""Of how many decisions, the latest."""
SECONDS = 30.0
"""For how long."""
LISTED = 200
"""How many are listed."""

Fate = Literal["refused", "let through", "later", "another"]
"""What would have become of a decision: a change refused; one made that was not, or sooner than it was; one let through
for a later time; or another configuration run."""


@dataclass(frozen=True)
class Otherwise:
    """A decision that other rails would have judged otherwise.

    Attributes:
        decision: Its id.
        station: Its station.
        at: When it was made.
        fate: What would have become of it.
        was: What the guard said then.
        verdict: What it says by the other rails.
    """

    decision: str
    station: str
    at: datetime
    fate: Fate
    was: Verdict
    verdict: Verdict


@dataclass
class Preview:
    """What other rails would have made of the last days.

    Attributes:
        since: When the first decision was made that was reviewed again; None where there is none.
        decisions: How many were.
        changes: How many of these had a change let through then.
        counts: How many would have been judged otherwise, by what would have become of them.
        rails: How many more or fewer decisions each rail refuses something of.
        listed: The latest of those judged otherwise.
        cut: Whether there were more decisions than were looked at.
    """

    since: datetime | None = None
    decisions: int = 0
    changes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    rails: Counter[str] = field(default_factory=Counter)
    listed: list[Otherwise] = field(default_factory=list)
    cut: bool = False


def previewed(operations: Operations, text: str, *, days: int = DAYS) -> Preview:
    """Return what the rails of a text would have made of the last days; nothing is changed.

    Args:
        operations: Whose decisions.
        text: The rails, as in their file; what is wrong with them is an error with the line.
        days: How many days.
    """
    guard, ledger, found = operations.guard_of(text), operations.ledger, Preview()
    end, until = ledger.head().seq + 1, monotonic() + SECONDS
    first = first_since(ledger, operations.now() - timedelta(days=days))
    latest = [one.seq for one in ledger.read(kinds=["decision"], after=first - 1, newest_first=True,
                                             limit=MOST_DECISIONS + 1)]  # fmt: skip
    if len(latest) > MOST_DECISIONS:
        found.cut, first = True, latest[MOST_DECISIONS - 1]
    safety = operations.setup.rules
    alone = safety is not None and (safety.floor is not None or safety.conservative is not None)
    for model, pending, verdicts in _rounds(operations, first, end):
        _review(guard, model, verdicts, found, pending=pending, alone=alone)
        if monotonic() > until:
            found.cut = True
            break
    found.listed = found.listed[::-1][:LISTED]
    return found


def _rounds(
    operations: Operations, first: int, end: int
) -> Iterator[tuple[ReadModel, dict[str, Pending], list[Event]]]:
    """Give the verdicts that were given together, with the past as of then and what was to be made then."""
    together: list[Event] = []
    pending: dict[str, Pending] = {}
    for event, model in replayed(operations, first, end):
        if event.kind == "verdict" and str(event.decision) in model.decisions:
            pending = pending if together else pending_of(model.orders())
            together.append(event)  # verdicts by themselves are no part of the past
        elif together:
            yield model, pending, together
            together = []
    if together:
        yield model, pending, together


def _review(
    guard: Guard,
    model: ReadModel,
    verdicts: Sequence[Event],
    found: Preview,
    *,
    pending: Mapping[str, Pending],
    alone: bool,
) -> None:
    """Review the decisions of a round again.

    Args:
        guard: The other rails.
        model: The past as of then.
        verdicts: What was said of them then.
        found: Where to note what came of it.
        pending: Changes that were approved by then and not made yet, by station.
        alone: Whether what a decision chose has no next best, as under rules of safety.
    """
    at = datetime.fromisoformat(verdicts[0].payload["at"])
    records = [model.decisions[str(event.decision)] for event in verdicts]
    before = {one.station: Pending(why) for one in records if (why := _why(one, "order"))}  # approved before these days
    doubt = next((why for one in records if (why := _why(one, "clock"))), "").removeprefix(UNKNOWN)
    for shadow in (False, True):  # what is in shadow counts for nobody else
        some = [one for one in records if (one.mode == "shadow") == shadow]
        known = {one.station: one for one in some}
        proposals = {one.station: _proposal(one, alone=alone) for one in some}
        order = sorted(
            some,
            key=lambda one: (one.mode != "autonomous", -hope(proposals[one.station], scores_of(one.decision))),
        )
        said = guard.review(
            [proposals[one.station] for one in order], model.history, now=at, doubt=doubt,
            pending=before | dict(pending), later=True,
        )  # fmt: skip
        for station, verdict in said.items():
            _compare(known[station], verdict, found)


def _proposal(record: DecisionRecord, *, alone: bool) -> Proposal:
    """Return what a decision proposed then, with what came of it."""
    was = record.verdict
    arms = [record.decision.arm, *(() if alone or record.decision.ucb is None else scores_of(record.decision))]
    if was is not None and was.changes and was.arm is not None and was.outcome != "rolled back":
        arms = [*arms, was.arm]
    return Proposal(record.station, record.running, tuple(dict.fromkeys(arms)), _why(record, "state"))


def _why(record: DecisionRecord, code: Code) -> str:
    """Return why a rule that is no matter of the file refused a decision then; empty where it did not."""
    refusals = () if record.verdict is None else record.verdict.refusals
    return next((refusal.reason for refusal in refusals if refusal.code == code), "")


def _compare(record: DecisionRecord, verdict: Verdict, found: Preview) -> None:
    was = record.verdict
    if was is None:
        return
    found.since = found.since or record.at
    found.decisions += 1
    found.changes += was.changes
    found.rails.update(verdict.codes)
    found.rails.subtract(was.codes)
    fate = _fate(was, verdict)
    if fate is None:
        return
    found.counts[fate] += 1
    found.listed.append(Otherwise(record.id, record.station, record.at, fate, was, verdict))
    if len(found.listed) > 2 * LISTED:
        del found.listed[:LISTED]


def _fate(was: Verdict, verdict: Verdict) -> Fate | None:
    """Return what becomes of a decision by another verdict; None where nothing else does."""
    if not verdict.changes:
        return "refused" if was.changes else None
    if was.changes and verdict.arm != was.arm:
        return "another"
    if was.changes and verdict.due == was.due:
        return None
    sooner = verdict.due is None or (was.due is not None and verdict.due < was.due)
    return "let through" if sooner else "later"
