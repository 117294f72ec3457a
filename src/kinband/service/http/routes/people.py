"""What people do: the plan, approvals, modes, and the big switch."""

from typing import Annotated, Literal

from fastapi import Body, Header, Query

from kinband.service import tables
from kinband.service.http import answers
from kinband.service.http.bodies import ApprovalBody, ModeBody, WhyBody
from kinband.service.http.routing import Caller, Fresh, Key, Service, Shapes, router
from kinband.service.http.shapes import modes_of
from kinband.service.operations import Operations

routes = router("people")

NO_REASON = WhyBody()


@routes.post("/approvals", operation_id="approve", summary="Approve or reject what waits")
def approve(
    body: ApprovalBody, operations: Service, shapes: Shapes, caller: Caller, key: Key = None
) -> answers.Decisions:
    """Carry out decisions that wait, in the order given, or leave the stations as they are.

    The guard reviews them again, now: what it refuses comes back with the status "refused" and the reason.
    """
    judge = operations.approve if body.approve else operations.reject
    return shapes.decisions(judge(body.decisions, comment=body.comment, key=key, actor=caller.name))


@routes.get(
    "/plan",
    operation_id="get_plan",
    summary="The plan for the next slot",
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def get_plan(
    operations: Fresh,
    shapes: Shapes,
    format: Annotated[Literal["json", "csv"] | None, Query(description="csv for a file.")] = None,  # noqa: A002
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> answers.Plan:
    """What waits for a person, oldest first, with the gain that is expected of it.

    As CSV with `?format=csv` or the header `Accept: text/csv`.
    """
    with operations.looking() as picture:
        items = picture.waiting()
    if format == "csv" or (format is None and "text/csv" in accept):
        return tables.plan_file(items, shapes.space)  # type: ignore[return-value]
    return shapes.plan(items)


@routes.get("/mode", operation_id="get_mode", summary="Modes, and whether everything is stopped")
def get_mode(operations: Fresh) -> answers.Modes:
    """The mode of newcomers and of every station, and why everything is stopped, if it is."""
    return _modes(operations)


@routes.put("/mode", operation_id="set_mode", summary="Set the mode")
def set_mode(body: ModeBody, operations: Service, caller: Caller, key: Key = None) -> answers.Modes:
    """Set the mode of some stations, or of all and of newcomers; what waits expires where nobody is asked any more."""
    operations.set_mode(body.mode, body.stations, comment=body.comment, key=key, actor=caller.name)
    return _modes(operations)


@routes.post("/stop", operation_id="stop", summary="Stop everything")
def stop(
    operations: Service,
    caller: Caller,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> answers.Modes:
    """Nothing changes any more, no roll-back by the guard either, until somebody resumes. Learning goes on."""
    operations.stop(why=body.why, key=key, actor=caller.name)
    return _modes(operations)


@routes.post("/resume", operation_id="resume", summary="Go on after a stop")
def resume(
    operations: Service,
    caller: Caller,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> answers.Modes:
    """Take a stop back. Operators may: whoever stopped in a hurry must be able to go on. A stop in the rails stays."""
    operations.resume(why=body.why, key=key, actor=caller.name)
    return _modes(operations)


def _modes(operations: Operations) -> answers.Modes:
    with operations.looking() as picture:
        return modes_of(picture)
