"""A decision's page: why it was made, what the guard said, what became of it."""

from typing import Any

from markupsafe import Markup

from kinband.controller import Explanation
from kinband.service.dashboard.charts.bands import Belief, whisker
from kinband.service.dashboard.charts.scales import around
from kinband.service.dashboard.figures import knobs
from kinband.service.dashboard.views.common import names_of, row_of
from kinband.service.dashboard.views.evidence import reason_of, why_not
from kinband.service.dashboard.views.slots import named_slot
from kinband.service.dashboard.words import sentence
from kinband.service.operations import Operations

SHOWN = 12
"""How many of what was considered are drawn; a table has all."""
_KIND_WORDS = {
    "exploitation": "It is expected to earn most.",
    "trial": "It is a trial: something else is expected to earn more, and this is tried to learn.",
    "held back": "It stays as it is: a change would have scored better, but not by as much as changing has to bring.",
    "unscored": "The policy does not score configurations.",
}
_MOST_LENDERS = 12


def decision(operations: Operations, decision_id: str, *, evidence: bool) -> dict[str, Any]:
    """Return what the page of a decision shows.

    Args:
        operations: Where it was made.
        decision_id: Which.
        evidence: Whether to work out whose evidence it rests on, which may take seconds.
    """
    names = names_of(operations)
    whole = reason_of(operations, decision_id, evidence=evidence)
    found, item, verdict = whole.of, whole.item, whole.item.verdict
    row, events = row_of(item, names), operations.events(decision=decision_id, limit=50)
    return {
        "item": item,
        "slot": named_slot(item.slot),
        "row": row,
        "chosen": names.text(item.decision.arm)
        if item.decision.configuration is None
        else knobs(item.decision.configuration),
        "ran": names.text(item.arm),
        "verdict": verdict,
        "refusals": [
            (refusal, "any change" if refusal.arm is None else names.text(refusal.arm))
            for refusal in ([] if verdict is None else verdict.refusals)
        ],
        "text": whole.text.replace(whole.left_out, "").replace("  ", " ").strip(),
        "why": _KIND_WORDS.get(found.kind, "") if row.held is None else row.held.sentence,
        "considered": _considered(found, running=item.running),
        "drawn": SHOWN,
        "against": found.against,
        "runner_up": None if found.runner_up is None else knobs(found.runner_up.configuration),
        "evidence": found.evidence,
        "lenders": [] if found.evidence is None else list(found.evidence.shares.items())[:_MOST_LENDERS],
        "left_out": why_not(found, item.id) if evidence else "",
        "weighed": evidence,
        "offered": bool(found.left_out) and not evidence,
        "history": [(event, sentence(event, names.configuration)) for event in events],
    }


def _considered(found: Explanation, *, running: int | None) -> list[tuple[Belief, float | None, Markup]]:
    """Return what was considered, best score first, with scores and, of the first few, whiskers."""
    made = found.decision
    rows = [
        (Belief(0.0, knobs(o.configuration), o.mean, o.width, o.arm == running, o.arm == made.arm, past=True), o.ucb)
        for o in made.alternatives
        if o.mean is not None and o.width is not None
    ]
    low, high = around(end for belief, _ in rows for end in belief.interval)
    return [
        (belief, score, whisker(belief, low=low, high=high) if place < SHOWN else Markup(""))
        for place, (belief, score) in enumerate(rows)
    ]
