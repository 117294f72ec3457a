"""Asking, and looking at what was decided."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Body, Query, Response

from kinband.service.http import answers
from kinband.service.http.bodies import AppliedBody, AskBody, Filters
from kinband.service.http.routing import Caller, Fresh, Key, Service, Shapes, router
from kinband.service.operations.texts import far_outside

routes = router("decisions")

AS_ORDERED = AppliedBody()


@routes.post(
    "/decisions",
    operation_id="ask",
    summary="Ask for decisions",
    status_code=201,
    response_description="Decided.",
    responses={200: {"model": answers.Asked, "description": "Answered from the record: decided before."}},
)
def ask(
    body: AskBody, operations: Service, shapes: Shapes, caller: Caller, response: Response, key: Key = None
) -> answers.Asked:
    """Decide for one station or many in one round, and do what their modes say.

    What a station is to run is `run`. A station has one decision a `slot`; asked again, the one on record is answered,
    unless something else is said than the first time.
    """
    items, decided = operations.decide(
        body.states,
        slot=body.slot,
        running=body.running,
        allowed=body.allowed,
        time=body.time,
        key=key,
        actor=caller.name,
    )
    if not decided:
        response.status_code = 200
    strange = far_outside(operations.durable.settings.encoder.state, body.states)
    return answers.Asked(decisions=[shapes.detail(item) for item in items], warnings=strange)


@routes.get("/decisions", operation_id="list_decisions", summary="List decisions, newest first")
def list_decisions(operations: Fresh, shapes: Shapes, filters: Annotated[Filters, Query()]) -> answers.DecisionPage:
    """Decisions by station, status and slot. `next` leads to the following page.

    With `station`, the last 2,000 decisions of that station are found.
    """
    wanted = filters.model_dump(exclude={"limit"}, exclude_none=True)
    with operations.looking() as picture:
        items = picture.latest(**wanted, limit=filters.limit + 1)
    page, more = items[: filters.limit], len(items) > filters.limit
    query = {**wanted, "limit": filters.limit, "before": page[-1].id} if more else {}
    return answers.DecisionPage(
        decisions=[shapes.decision(item) for item in page],
        next=f"/v1/decisions?{urlencode(query)}" if more else None,
    )


@routes.get("/decisions/{id}", operation_id="get_decision", summary="Look at a decision")
def get_decision(id: str, operations: Fresh, shapes: Shapes) -> answers.DecisionDetail:  # noqa: A002
    """A decision with everything that happened to it and what else was considered."""
    return shapes.detail(operations.item(id))


@routes.get("/decisions/{id}/explanation", operation_id="explain", summary="Explain a decision")
def explain(id: str, operations: Fresh) -> answers.Explanation:  # noqa: A002
    """Why it was made, in words and as data, as of then: the choice, the runner-up, whose evidence it rests on."""
    return answers.Explanation(**operations.explain(id).to_dict())


@routes.post("/decisions/{id}/applied", operation_id="report_applied", summary="Report what a station runs")
def report_applied(
    id: str,  # noqa: A002
    operations: Service,
    shapes: Shapes,
    caller: Caller,
    body: Annotated[AppliedBody, Body()] = AS_ORDERED,
    key: Key = None,
) -> answers.Decision:
    """Say what the station really runs in the slot of its present decision; its reward is learned for that.

    An empty body says that it runs what it was told to run. Said again, nothing more is recorded.
    """
    item = operations.applied(id, body.configuration, comment=body.comment, key=key, actor=caller.name)
    return shapes.decision(item)


@routes.post("/decisions/{id}/call-off", operation_id="call_off", summary="Call an outcome off")
def call_off(
    id: str,  # noqa: A002
    operations: Service,
    shapes: Shapes,
    caller: Caller,
    key: Key = None,
) -> answers.Decision:
    """Say that no outcome will come."""
    return shapes.decision(operations.call_off(id, key=key, actor=caller.name))
