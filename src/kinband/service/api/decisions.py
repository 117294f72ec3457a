"""Routes for what is decided: asking, outcomes, and what people say about it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Body, Header, Query, Response

from kinband.errors import ConflictError
from kinband.service import tables
from kinband.service.api.gate import Caller, Fresh, Key, Service, router
from kinband.service.api.requests import (
    AppliedBody,
    ApprovalBody,
    AskBody,
    CorrectionBody,
    Filters,
    ModeBody,
    OutcomeBody,
    OutcomesBody,
    WhyBody,
)
from kinband.service.operations import Operations
from kinband.service.operations.checks import far_outside
from kinband.service.schemas import (
    Asked,
    Decision,
    DecisionDetail,
    DecisionPage,
    Decisions,
    Explanation,
    Modes,
    Plan,
    Planned,
    all_shown,
    shown,
)

decisions, outcomes, people = router("decisions"), router("outcomes"), router("people")

AS_ORDERED = AppliedBody()
NO_REASON = WhyBody()


# --- Asking, and looking at what was decided ------------------------------------------------------------------------


@decisions.post(
    "/decisions",
    operation_id="ask",
    summary="Ask for decisions",
    status_code=201,
    response_description="Decided.",
    responses={200: {"model": Asked, "description": "Answered from the record: decided before."}},
)
def ask(body: AskBody, operations: Service, caller: Caller, response: Response, key: Key = None) -> Asked:
    """Decide for one station or many in one round, and do what their modes say.

    What a station is to run is `run`. A station has one decision a `slot`; asked again, the one on record is answered,
    unless something else is said than the first time.
    """
    made, decided = operations.decide(
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
    strange = far_outside(operations.settings.encoder.state, body.states)
    return Asked(decisions=all_shown(DecisionDetail, made, operations.space), warnings=strange)


@decisions.get("/decisions", operation_id="list_decisions", summary="List decisions, newest first")
def list_decisions(operations: Fresh, filters: Annotated[Filters, Query()]) -> DecisionPage:
    """Decisions by station, status and slot. `next` leads to the following page.

    With `station`, the last 2,000 decisions of that station are found.
    """
    wanted = filters.model_dump(exclude={"limit"}, exclude_none=True)
    with operations.looking() as read_model:
        found = read_model.latest(**wanted, limit=filters.limit + 1)
    page, more = found[: filters.limit], len(found) > filters.limit
    query = {**wanted, "limit": filters.limit, "before": page[-1].id} if more else {}
    return DecisionPage(
        decisions=all_shown(Decision, page, operations.space),
        next=f"/v1/decisions?{urlencode(query)}" if more else None,
    )


@decisions.get("/decisions/{id}", operation_id="get_decision", summary="Look at a decision")
def get_decision(id: str, operations: Fresh) -> DecisionDetail:  # noqa: A002
    """A decision with everything that happened to it and what else was considered."""
    return shown(DecisionDetail, operations.decision(id), operations.space)


@decisions.get("/decisions/{id}/explanation", operation_id="explain", summary="Explain a decision")
def explain(id: str, operations: Fresh) -> Explanation:  # noqa: A002
    """Why it was made, in words and as data, as of then: the choice, the runner-up, whose evidence it rests on."""
    return Explanation(**operations.explain(id).to_dict())


@decisions.post("/decisions/{id}/applied", operation_id="report_applied", summary="Report what a station runs")
def report_applied(
    id: str,  # noqa: A002
    operations: Service,
    caller: Caller,
    body: Annotated[AppliedBody, Body()] = AS_ORDERED,
    key: Key = None,
) -> Decision:
    """Say what the station really runs in the slot of its present decision; its reward is learned for that.

    An empty body says that it runs what it was told to run. Said again, nothing more is recorded.
    """
    made = operations.applied(id, body.configuration, comment=body.comment, key=key, actor=caller.name)
    return shown(Decision, made, operations.space)


@decisions.post("/decisions/{id}/call-off", operation_id="call_off", summary="Call an outcome off")
def call_off(id: str, operations: Service, caller: Caller, key: Key = None) -> Decision:  # noqa: A002
    """Say that no outcome will come."""
    return shown(Decision, operations.call_off(id, key=key, actor=caller.name), operations.space)


# --- Telling what decisions earned, and putting it right ------------------------------------------------------------


@outcomes.post("/outcomes", operation_id="tell", summary="Tell what decisions earned")
def tell(body: OutcomesBody, operations: Service, caller: Caller, key: Key = None) -> Decisions:
    """One outcome or many, in any order and after any delay; all of them are recorded, or none.

    With `station`, an outcome for a decision of another station is refused.
    """
    check_stations(operations, body.outcomes)
    told = operations.tell(**by_decision(body.outcomes), others=body.others, key=key, actor=caller.name)
    return Decisions(decisions=all_shown(Decision, told, operations.space))


@outcomes.post("/corrections", operation_id="correct", summary="Correct an outcome")
def correct(body: CorrectionBody, operations: Service, caller: Caller, key: Key = None) -> Decision:
    """Put right what was told before; beliefs follow, the history keeps both."""
    right = operations.correct(body.decision, body.reward, kpis=body.kpis, key=key, actor=caller.name)
    return shown(Decision, right, operations.space)


def check_stations(operations: Operations, told: Sequence[OutcomeBody]) -> None:
    """Refuse an outcome whose decision is of another station than it says."""
    named = [outcome for outcome in told if outcome.station is not None]
    if named:
        operations.refresh()  # another process may have decided
    for outcome in named:
        station = operations.decision(outcome.decision).station
        if station != outcome.station:
            raise ConflictError(
                f"decision {outcome.decision} is of station {station!r:.80}, not of {outcome.station!r:.80}",
                hint="check which decision this outcome belongs to",
                code="other_station",
                argument="station",
            )


def by_decision(told: Sequence[OutcomeBody]) -> dict[str, Any]:
    """Return rewards, noise and KPIs by decision."""
    return {
        "rewards": {one.decision: one.reward for one in told if one.reward is not None},
        "noise": {one.decision: one.noise for one in told if one.noise is not None},
        "kpis": {one.decision: one.kpis for one in told if one.kpis is not None},
    }


# --- What people do: the plan, approvals, modes, and the big switch -------------------------------------------------


@people.post("/approvals", operation_id="approve", summary="Approve or reject what waits")
def approve(body: ApprovalBody, operations: Service, caller: Caller, key: Key = None) -> Decisions:
    """Carry out decisions that wait, in the order given, or leave the stations as they are.

    The guard reviews them again, now: what it refuses comes back with the status "refused" and the reason.
    """
    judge = operations.approve if body.approve else operations.reject
    judged = judge(body.decisions, comment=body.comment, key=key, actor=caller.name)
    return Decisions(decisions=all_shown(Decision, judged, operations.space))


@people.get(
    "/plan",
    operation_id="get_plan",
    summary="The plan for the next slot",
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def get_plan(
    operations: Fresh,
    format: Annotated[Literal["json", "csv"] | None, Query(description="csv for a file.")] = None,  # noqa: A002
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Plan:
    """What waits for a person, oldest first, with the gain that is expected of it.

    As CSV with `?format=csv` or the header `Accept: text/csv`.
    """
    with operations.looking() as read_model:
        waiting = read_model.waiting()
    if format == "csv" or (format is None and "text/csv" in accept):
        return tables.plan_file(waiting, operations.space)  # type: ignore[return-value]
    return Plan(decisions=all_shown(Planned, waiting, operations.space))


@people.get("/mode", operation_id="get_mode", summary="Modes, and whether everything is stopped")
def get_mode(operations: Fresh) -> Modes:
    """The mode of newcomers and of every station, and why everything is stopped, if it is."""
    return _modes(operations)


@people.put("/mode", operation_id="set_mode", summary="Set the mode")
def set_mode(body: ModeBody, operations: Service, caller: Caller, key: Key = None) -> Modes:
    """Set the mode of some stations, or of all and of newcomers; what waits expires where nobody is asked any more."""
    operations.set_mode(body.mode, body.stations, comment=body.comment, key=key, actor=caller.name)
    return _modes(operations)


@people.post("/stop", operation_id="stop", summary="Stop everything")
def stop(operations: Service, caller: Caller, body: Annotated[WhyBody, Body()] = NO_REASON, key: Key = None) -> Modes:
    """Nothing changes any more, no roll-back by the guard either, until somebody resumes. Learning goes on."""
    operations.stop(why=body.why, key=key, actor=caller.name)
    return _modes(operations)


@people.post("/resume", operation_id="resume", summary="Go on after a stop")
def resume(operations: Service, caller: Caller, body: Annotated[WhyBody, Body()] = NO_REASON, key: Key = None) -> Modes:
    """Take a stop back. Operators may: whoever stopped in a hurry must be able to go on. A stop in the rails stays."""
    operations.resume(why=body.why, key=key, actor=caller.name)
    return _modes(operations)


def _modes(operations: Operations) -> Modes:
    with operations.looking() as read_model:
        modes = {name: known.mode for name, known in read_model.stations.items() if known.active}
        return Modes(mode=read_model.mode, stopped=read_model.stopped, stations=modes)
