"""A decision's page: why it was made, whose evidence it rests on, what the guard said, what became of it.

Whose evidence that was is told at once where it is quick, and at the press of a button where it takes half a second. It
is weighed from the rewards that are closest to the decision, so many at most, on threads of its own: nobody who decides
waits for it.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinband.controller import Explanation
from kinband.html.svg import around
from kinband.records import Alternative
from kinband.service.dashboard.charts import Belief
from kinband.service.dashboard.dashboard import Dashboard, Text
from kinband.service.dashboard.rows import Names, named_slot, names_of, row_of
from kinband.service.dashboard.text import knobs
from kinband.service.operations import Operations, Outlook, outlooks
from kinband.service.operations.outlooks import Explained
from kinband.service.paths import read
from kinband.stats import counted

SHOWN = 12
"""How many of what was considered are drawn; a table has all."""
QUICK = 50
"""Rewards up to which evidence is worked out without being asked for."""
_MOST_LENDERS = 12
_KIND_WORDS = {
    "exploitation": "It is expected to earn most.",
    "trial": "It is a trial: something else is expected to earn more, and this is tried to learn.",
    "held back": "It stays as it is: a change would have scored better, but not by as much as changing has to bring.",
    "unscored": "The policy does not score configurations.",
}


def add_pages(dashboard: Dashboard) -> None:
    """Add the page."""

    @dashboard.router.get("/decisions/{decision_id:path}")
    def one_decision(request: Request, decision_id: str, evidence: Text = "") -> Response:
        known, asked = read(decision_id), evidence == "1"
        return dashboard.show(
            request, "decision.html", lambda: decision(dashboard.operations, known, evidence=asked), still=asked
        )


def decision(operations: Operations, decision_id: str, *, evidence: bool) -> dict[str, Any]:
    """Return what the page shows.

    Args:
        operations: Where it was made.
        decision_id: Which.
        evidence: Whether to work out whose evidence it rests on, which may take seconds.
    """
    names = names_of(operations)
    whole = reason_of(operations, decision_id, evidence=evidence)
    found, record, verdict = whole.of, whole.record, whole.record.verdict
    row, events = row_of(record, names), operations.events(decision=decision_id, limit=50)
    beliefs = _considered(found, names, running=record.running)
    return {
        "record": record,
        "slot": named_slot(record.slot),
        "row": row,
        "chosen": knobs(names.named(record.decision.configuration))
        if record.decision.configuration
        else names.text(record.decision.arm),
        "ran": names.text(record.arm),
        "verdict": verdict,
        "refusals": [
            (refusal, "any change" if refusal.arm is None else names.text(refusal.arm))
            for refusal in ([] if verdict is None else verdict.refusals)
        ],
        "text": names.words(whole.text.replace(whole.left_out, "").replace("  ", " ").strip()),
        "why": _KIND_WORDS.get(found.kind, "") if row.held is None else row.held.sentence,
        "considered": beliefs,
        "scale": around(end for belief, _ in beliefs for end in belief.interval),
        "drawn": SHOWN,
        "evidence": found.evidence,
        "lenders": [] if found.evidence is None else list(found.evidence.shares.items())[:_MOST_LENDERS],
        "left_out": whole.left_out if evidence else "",
        "still": evidence,
        "offered": bool(found.left_out) and not evidence,
        "history": [(event, names.sentence(event)) for event in events],
    }


def _considered(found: Explanation, names: Names, *, running: int | None) -> list[tuple[Belief, float | None]]:
    """Return what was considered, best score first, with scores."""
    made = found.decision
    return [
        (
            Belief(knobs(names.named(o.configuration)), o.mean, o.std, o.arm == running, o.arm == made.arm, past=True),
            o.ucb,
        )
        for o in made.alternatives
        if o.mean is not None and o.std is not None
    ]


def _knobs(option: Alternative, names: Names) -> str:
    return knobs(names.named(option.configuration))


# --- Whose evidence a decision rests on -----------------------------------------------------------------------------


def reason_of(operations: Operations, decision_id: str, *, evidence: bool) -> Explained:
    """Return why a decision was made; with `evidence`, whose evidence it rested on, however many rewards there are."""
    if evidence:
        return operations.explain(decision_id)
    return operations.explain(decision_id, most_rows=QUICK, closest=False)


def evidence_shares(operations: Operations, found: Outlook, last: str | None, *, evidence: bool) -> dict[str, Any]:
    """Return whose experience an outlook rests on, or why that is not told and whether a button may.

    Args:
        operations: Where it was asked for.
        found: What is believed of a station.
        last: Its last decision.
        evidence: Whether the button was pressed: what is told is then of that decision, which was of the same state.
    """
    shown = {"shares": found.lenders, "of": "", "untold": "", "offered": False}
    if found.lenders:
        return shown
    if evidence and last is not None:
        whole = reason_of(operations, last, evidence=True)
        known = {} if whole.of.evidence is None else whole.of.evidence.shares
        untold = whole.left_out or "No reward known so far says anything about this state."
        return shown | {"shares": known, "of": last, "untold": "" if known else untold}
    return shown | _untold(found, outlooks.rewards_known(operations.turns.unlocked), last)


def _untold(found: Outlook, rewards: int, last: str | None) -> dict[str, Any]:
    """Return why it is not told, by how many rewards are known."""
    most = outlooks.MOST_ROWS
    if not rewards:
        return {"untold": "No reward is known yet."}
    if found.mean is None:
        return {"untold": "This policy predicts nothing, so that nothing is borrowed."}
    if rewards > most:
        words = f"{counted(rewards, 'reward')} are known. Beyond {most:,}, who lent what is worked out only when asked."
    else:
        words = "Whose rewards count in this state could not be worked out."
    return {"untold": words, "offered": last is not None}
