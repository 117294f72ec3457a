"""Telling what decisions earned, and putting it right."""

from collections.abc import Sequence
from typing import Any

from kinband.errors import ConflictError
from kinband.service.http import answers
from kinband.service.http.bodies import CorrectionBody, OutcomeBody, OutcomesBody
from kinband.service.http.routing import Caller, Key, Service, Shapes, router
from kinband.service.operations import Operations

routes = router("outcomes")


@routes.post("/outcomes", operation_id="tell", summary="Tell what decisions earned")
def tell(body: OutcomesBody, operations: Service, shapes: Shapes, caller: Caller, key: Key = None) -> answers.Decisions:
    """One outcome or many, in any order and after any delay; all of them are recorded, or none.

    With `station`, an outcome for a decision of another station is refused.
    """
    check_stations(operations, body.outcomes)
    said = by_decision(body.outcomes)
    items = operations.tell(**said, others=body.others, key=key, actor=caller.name)
    return shapes.decisions(items)


@routes.post("/corrections", operation_id="correct", summary="Correct an outcome")
def correct(
    body: CorrectionBody, operations: Service, shapes: Shapes, caller: Caller, key: Key = None
) -> answers.Decision:
    """Put right what was told before; beliefs follow, the history keeps both."""
    return shapes.decision(operations.correct(body.decision, body.reward, kpis=body.kpis, key=key, actor=caller.name))


def check_stations(operations: Operations, outcomes: Sequence[OutcomeBody]) -> None:
    """Refuse an outcome whose decision is of another station than it says."""
    named = [outcome for outcome in outcomes if outcome.station is not None]
    if named:
        operations.refresh()  # another process may have decided
    for outcome in named:
        station = operations.item(outcome.decision).station
        if station != outcome.station:
            raise ConflictError(
                f"decision {outcome.decision} is of station {station!r:.80}, not of {outcome.station!r:.80}: check "
                "which decision this outcome belongs to"
            )


def by_decision(outcomes: Sequence[OutcomeBody]) -> dict[str, Any]:
    """Return rewards, noise and KPIs by decision.

    Example:
        >>> by_decision([OutcomeBody(decision="d1", reward=0.9), OutcomeBody(decision="d2", kpis={"drops": 0.01})])
        {'rewards': {'d1': 0.9}, 'noise': {}, 'kpis': {'d2': {'drops': 0.01}}}
    """
    return {
        "rewards": {one.decision: one.reward for one in outcomes if one.reward is not None},
        "noise": {one.decision: one.noise for one in outcomes if one.noise is not None},
        "kpis": {one.decision: one.kpis for one in outcomes if one.kpis is not None},
    }
