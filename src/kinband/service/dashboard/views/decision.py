"""One decision, and the plan of those that wait."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from markupsafe import Markup

from kinband.controller import Explanation
from kinband.service.dashboard.charts.lines import Belief, whisker
from kinband.service.dashboard.charts.scales import around
from kinband.service.dashboard.figures import knobs, lasting
from kinband.service.dashboard.views.common import Row, named_slot, names_of, row_of
from kinband.service.dashboard.views.evidence import reason_of, why_not
from kinband.service.dashboard.words import sentence
from kinband.service.operations import Item, Operations

# --- A decision's page: why it was made, what the guard said, what became of it -------------------------------------

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


# --- The plan: what waits for a person, for which slot and since when, what is expected of it and what the guard
# says
#
# A change waits until its station is asked for again or its reward comes; no clock ends that. So what waits may be of
# a slot that is long over elsewhere, and what was expected then need not hold any more: it stands by itself, after
# what is of the present slot.

MOST = 500
"""Rows on the page; the file has all."""
OLD = timedelta(hours=1)
"""Age from which what waits for a slot without a name counts as old."""


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


class Part(NamedTuple):
    """Changes that wait for the present slot, or for earlier ones.

    Attributes:
        title: What they have in common.
        waits: The changes.
        old: Whether they are of earlier slots.
    """

    title: str
    waits: list[Wait]
    old: bool


def plan(operations: Operations) -> dict[str, Any]:
    """Return what the page of the plan shows."""
    names, now = names_of(operations), operations.now()
    with operations.looking() as picture:
        items, last = picture.waiting(), next(iter(picture.latest(limit=1)), None)
        assisted = sum(card.mode == "assist" for card in picture.cards.values() if card.active)
    waits = ordered(_wait(item, row_of(item, names), last, now) for item in items)
    gains = [wait.row.gain[0] for wait in waits if wait.row.gain is not None]
    shown = waits[:MOST]
    return {
        "parts": _parts(shown),
        "shown": len(shown),
        "waiting": len(waits),
        "old": sum(wait.old for wait in waits),
        "trials": sum(wait.row.trial for wait in waits),
        "held": _held(waits),
        "total": sum(gains) if gains else None,
        "assisted": assisted,
    }


def ordered(waits: Iterable[Wait]) -> list[Wait]:
    """Return what waits: of the present slot first, then the latest slot first, each with the largest gain first.

    What has no expected gain comes last in its slot, oldest first.
    """
    by_gain = sorted(waits, key=lambda wait: (wait.row.gain is None, -wait.row.gain[0] if wait.row.gain else 0.0))
    return sorted(by_gain, key=lambda wait: (wait.old, -wait.row.at.timestamp() if wait.old else 0.0))


def is_old(item: Item, last: Item | None, now: datetime) -> bool:
    """Return whether a later slot has begun: that of the last decision, or an hour where slots have no names.

    Args:
        item: What waits.
        last: The last decision of all.
        now: The time.
    """
    if item.slot is None or last is None or last.slot is None:
        return now - item.at >= OLD
    return item.slot != last.slot and item.at < last.at


def _wait(item: Item, row: Row, last: Item | None, now: datetime) -> Wait:
    return Wait(row, named_slot(item.slot), lasting(now - item.at), is_old(item, last, now))


def _parts(waits: list[Wait]) -> list[Part]:
    new, old = [wait for wait in waits if not wait.old], [wait for wait in waits if wait.old]
    parts = [Part("For the present slot", new, old=False), Part("For earlier slots", old, old=True)]
    return [part for part in parts if part.waits]


def _held(waits: list[Wait]) -> list[tuple[str, int]]:
    """Return how many changes are held back, by the rule that does."""
    rules = [wait.row.held.by for wait in waits if wait.row.held is not None]
    return [(rule, rules.count(rule)) for rule in dict.fromkeys(rules)]
