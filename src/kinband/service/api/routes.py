"""The routes: a handler reads the request, calls one method of `Operations` and shows what comes back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Header, Query, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.types import DecoratedCallable
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request

from kinband.errors import ConflictError
from kinband.service import schemas, tables
from kinband.service.access.middleware import LOG
from kinband.service.api.authentication import ADMIN
from kinband.service.api.errors import AGAIN, RefusedError
from kinband.service.api.metrics import Metrics
from kinband.service.api.requests import (
    COMPARED,
    Alike,
    AppliedBody,
    ApprovalBody,
    AskBody,
    CommentBody,
    CorrectionBody,
    CountersBody,
    EventFilters,
    Filters,
    ModeBody,
    OutcomeBody,
    OutcomesBody,
    RailsBody,
    RollBackBody,
    StationBody,
    WhyBody,
    WithdrawalBody,
)
from kinband.service.api.routing import (
    Caller,
    FileRoute,
    Fresh,
    GuardedRoute,
    Key,
    Service,
    StationName,
    YamlRoute,
    router,
)
from kinband.service.ledger import LedgerUnavailableError
from kinband.service.operations import DecisionRecord, Operations, ReadModel
from kinband.service.operations.checks import far_outside
from kinband.service.operations.preview import DAYS, Preview, previewed
from kinband.service.operations.review import digest_of
from kinband.service.schemas import Decision, DecisionDetail, Decisions, Health, Modes, Rails, Station, all_shown, shown
from kinband.version import __version__

decisions, outcomes, people = router("decisions"), router("outcomes"), router("people")
orders, stations = router("orders"), router("stations")
looking, exports = router("looking"), router("exports")
rails = APIRouter(prefix="/v1", tags=["rails"], route_class=YamlRoute)
counters = APIRouter(prefix="/v1", tags=["outcomes"], route_class=FileRoute)
probes = APIRouter(tags=["probes"], route_class=GuardedRoute)

ROUTERS: tuple[APIRouter, ...] = (
    decisions, outcomes, counters, people, orders, stations, rails, looking, exports, probes,
)  # fmt: skip
"""Everything that the service answers but its pages."""

AS_ORDERED, NO_COMMENT, NO_REASON, NO_WORD = AppliedBody(), RollBackBody(), WhyBody(), CommentBody()
AS_TEXT: dict[str, Any] = {
    "requestBody": {"content": {"application/yaml": {"schema": {"type": "string"}, "example": "stop: on\n"}}}
}
AS_FILE: dict[str, Any] = {
    "requestBody": {
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": "station,time,load,reward\n3714,2026-11-20T09:00Z,0.4,0.91\n",
            },
            "application/xml": {"schema": {"type": "string"}, "example": "<measCollecFile/>"},
        }
    }
}
NO_ROOM = "decisions cannot be recorded, since the disk under the database is full: make room"
"""What is said of a service that can be read and cannot write."""


# --- Asking, and looking at what was decided ------------------------------------------------------------------------


@decisions.post(
    "/decisions",
    operation_id="ask",
    summary="Ask for decisions",
    status_code=201,
    response_description="Decided.",
    responses={200: {"model": schemas.Asked, "description": "Answered from the record: decided before."}},
)
def ask(body: AskBody, operations: Service, caller: Caller, response: Response, key: Key = None) -> schemas.Asked:
    """Decide for one station or many in one round, and do what their modes say.

    What a station is to run is `run`, until `valid_until`. A station has one decision a `slot`; asked again, the one on
    record is answered, with what is to run now: where something has come between, `held` says what. Something else
    than the first time cannot be asked.
    """
    made = operations.ask(
        body.states,
        stations=body.stations or (),
        slot=body.slot,
        begins=body.begins,
        running=body.running,
        allowed=body.allowed,
        time=body.time,
        key=key,
        actor=caller.name,
    )
    if not made.new:
        response.status_code = 200
    strange = far_outside(operations.setup.encoder.state, body.states or {})
    return schemas.Asked(decisions=all_shown(schemas.Answer, made, operations.space), warnings=strange)


@decisions.get("/decisions", operation_id="list_decisions", summary="List decisions, newest first")
def list_decisions(operations: Fresh, filters: Annotated[Filters, Query()]) -> schemas.DecisionPage:
    """Decisions by station, status and slot. `next` leads to the following page.

    With `station`, the last 2,000 decisions of that station are found.
    """
    wanted = filters.model_dump(exclude={"limit"}, exclude_none=True)
    found = operations.read_model.latest(**wanted, limit=filters.limit + 1)
    page, more = found[: filters.limit], len(found) > filters.limit
    query = {**wanted, "limit": filters.limit, "before": page[-1].id} if more else {}
    return schemas.DecisionPage(
        decisions=all_shown(Decision, page, operations.space),
        next=f"/v1/decisions?{urlencode(query)}" if more else None,
    )


@decisions.get("/decisions/{id}", operation_id="get_decision", summary="Look at a decision")
def get_decision(id: str, operations: Fresh) -> DecisionDetail:  # noqa: A002
    """A decision with everything that happened to it and what else was considered."""
    return shown(DecisionDetail, operations.decision(id), operations.space)


@decisions.get("/decisions/{id}/explanation", operation_id="explain", summary="Explain a decision")
def explain(id: str, operations: Fresh) -> schemas.Explanation:  # noqa: A002
    """Why it was made, in words and as data, as of then: the choice, the runner-up, whose evidence it rests on."""
    return schemas.Explanation(**operations.explain(id).to_dict())


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


@counters.post("/counters", operation_id="send_counters", summary="Send counters", openapi_extra=AS_FILE)
def send_counters(body: CountersBody, operations: Service, caller: Caller, key: Key = None) -> schemas.CountersTaken:
    """Rows of stations and periods, as they come: states to ask with, and rewards of what was decided.

    JSON, CSV or a measurement file, the latter two perhaps gzipped. Late, in any order, and again: what is known
    changes nothing, and of values that contradict each other the later to arrive counts. `unused` names what could not
    be used, and why.
    """
    taken = operations.counters(body.file if body.file is not None else body.rows or [], key=key, actor=caller.name)
    return schemas.CountersTaken(**asdict(taken))


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


# --- What the network manager does about what was approved ----------------------------------------------------------


@orders.get("/orders", operation_id="get_orders", summary="What the network manager has to do")
def get_orders(operations: Fresh) -> schemas.Orders:
    """What is ordered now, and what is approved and due next, each with what to set and what to go back to.

    Make what is `ordered` and not `held`, then confirm it or say that it failed. To look orders what is due by now.
    What was not confirmed in time is `overdue`: it is not to be made any more, and counts if it was and you confirm it.
    """
    (manner, listed), space = operations.orders.listed(), operations.space
    overdue = all_shown(schemas.Order, operations.orders.overdue(), space)
    return schemas.Orders(manner=manner, orders=all_shown(schemas.Order, listed, space), overdue=overdue)


@orders.post("/orders/{id}/confirm", operation_id="confirm", summary="Confirm an order")
def confirm(
    id: str,  # noqa: A002
    operations: Service,
    caller: Caller,
    body: Annotated[CommentBody, Body()] = NO_WORD,
    key: Key = None,
) -> Decision:
    """Say that an order is carried out: from now on the station runs it, and is learned about for it.

    Said again, nothing more is recorded. What was never ordered, or failed, is 409.
    """
    return shown(Decision, operations.confirm(id, comment=body.comment, key=key, actor=caller.name), operations.space)


@orders.post("/orders/{id}/fail", operation_id="fail", summary="Say that an order failed")
def fail(
    id: str,  # noqa: A002
    operations: Service,
    caller: Caller,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> Decision:
    """Say that an order could not be carried out, and why: the station goes on with what it ran."""
    return shown(Decision, operations.fail(id, why=body.why, key=key, actor=caller.name), operations.space)


# --- What people do: the plan, approvals, modes, and the big switch -------------------------------------------------


@people.post("/approvals", operation_id="approve", summary="Approve or reject what waits")
def approve(body: ApprovalBody, operations: Service, caller: Caller, key: Key = None) -> Decisions:
    """Carry out decisions that wait, in the order given, or leave the stations as they are.

    The guard reviews them again, now: what it refuses comes back as "refused" with the reason, and what has to wait for
    its window as "approved" with the time at which it is ordered, `due`.
    """
    judge = operations.approve if body.approve else operations.reject
    judged = judge(body.decisions, comment=body.comment, key=key, actor=caller.name)
    return Decisions(decisions=all_shown(Decision, judged, operations.space))


@people.post("/withdrawals", operation_id="withdraw", summary="Take approvals back")
def withdraw(body: WithdrawalBody, operations: Service, caller: Caller, key: Key = None) -> Decisions:
    """Undo approvals that are not ordered yet: the decisions wait for a person again, or are rejected where nobody is
    asked.
    """
    undone = operations.withdraw(body.decisions, comment=body.comment, key=key, actor=caller.name)
    return Decisions(decisions=all_shown(Decision, undone, operations.space))


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
) -> schemas.Plan:
    """What waits for a person, oldest first, with the gain that is expected of it.

    As CSV with `?format=csv` or the header `Accept: text/csv`.
    """
    with operations.looking() as read_model:
        waiting = read_model.waiting()
    if format == "csv" or (format is None and "text/csv" in accept):
        return tables.plan_file(waiting, operations.space)  # type: ignore[return-value]
    return schemas.Plan(decisions=all_shown(schemas.Planned, waiting, operations.space))


@people.get("/mode", operation_id="get_mode", summary="Modes, and whether everything is stopped")
def get_mode(operations: Fresh) -> Modes:
    """The mode of newcomers and of every station, and why everything is stopped, or the clock in doubt, if so."""
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


@people.post(
    "/resume",
    operation_id="resume",
    summary="Go on after a stop",
    responses={202: {"model": Modes, "description": "On record: it takes a second person to do the same."}},
)
def resume(
    operations: Service,
    caller: Caller,
    response: Response,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> Modes:
    """Take a stop back. Operators may: whoever stopped in a hurry must be able to go on. A stop in the rails stays.

    Where the rails have `two_people`, it is done when a second one does the same within a day.
    """
    operations.resume(why=body.why, key=key, actor=caller.name)
    modes = _modes(operations)
    if modes.resume is not None:
        response.status_code = 202
    return modes


@people.post("/clock", operation_id="set_clock", summary="Say that the clock is right")
def set_clock(
    operations: Service, caller: Caller, body: Annotated[WhyBody, Body()] = NO_REASON, key: Key = None
) -> Modes:
    """End a doubt about the time: the clock of this service is right, and what bears a later time was no later.

    Look at another clock first. While the time is in doubt, nothing changes but by roll-backs.
    """
    operations.set_clock(why=body.why, key=key, actor=caller.name)
    return _modes(operations)


def _modes(operations: Operations) -> Modes:
    with operations.looking() as read_model:
        modes = {name: known.mode for name, known in read_model.stations.items() if known.active}
        doubt = operations.reading().doubt or None
        return Modes(
            mode=read_model.mode, stopped=read_model.stopped, clock=doubt, stations=modes,
            resume=_proposed(operations, "resume"),
        )  # fmt: skip


def _proposed(operations: Operations, act: str) -> schemas.Proposed | None:
    found = operations.proposed(act)
    return None if found is None else schemas.Proposed.model_validate(found, from_attributes=True)


# --- Stations: how they stand, what is believed of them, who joins and leaves, what people do to one of them --------


@stations.get("/stations", operation_id="list_stations", summary="List stations")
def list_stations(operations: Fresh) -> schemas.Stations:
    """Every station as it stands; those that have left are not `active`."""
    sites = operations.sites
    with operations.looking() as read_model:
        return schemas.Stations(stations=[_shown(operations, read_model, name, sites) for name in read_model.stations])


@stations.post("/stations", operation_id="add_station", summary="Take in a station", status_code=201)
def add_station(body: StationBody, operations: Service, caller: Caller, key: Key = None) -> schemas.Joined:
    """Let a station join, or come back, in the mode of newcomers.

    It starts from what stations like it have learned: by `similarity`, or by `descriptors` where stations have them.
    """
    similarity = operations.add_station(
        body.name, body.descriptors, body.similarity, running=body.running, key=key, actor=caller.name
    )
    return schemas.Joined(station=_station(operations, body.name), similarity=similarity)


@stations.get("/stations/{name}", operation_id="get_station", summary="Look at a station")
def get_station(name: StationName, operations: Fresh) -> Station:
    """One station as it stands."""
    return _station(operations, name)


@stations.delete("/stations/{name}", operation_id="remove_station", summary="Let a station leave")
def remove_station(name: StationName, operations: Service, caller: Caller, key: Key = None) -> schemas.Left:
    """Stop deciding for a station. What it taught stays, and outcomes that are awaited can still be told."""
    return schemas.Left(station=name, awaited=operations.remove_station(name, key=key, actor=caller.name))


@stations.get("/stations/{name}/outlook", operation_id="get_outlook", summary="What is believed now")
def get_outlook(name: StationName, operations: Fresh) -> schemas.Outlook:
    """What every configuration is expected to earn, in the state that the station was last asked with."""
    return shown(schemas.Outlook, operations.outlook(name), operations.space)


@stations.get("/stations/{name}/history", operation_id="get_history", summary="The slots of a station")
def get_history(
    name: StationName,
    operations: Fresh,
    last: Annotated[int, Query(ge=1, le=2_000, description="At most so many, the newest.")] = 500,
) -> schemas.History:
    """What ran and what it earned, slot by slot, oldest first."""
    points = operations.read_model.points(name, last)
    return schemas.History(station=name, points=all_shown(schemas.Point, points, operations.space))


@stations.post("/stations/{name}/roll-back", operation_id="roll_back", summary="Roll a station back")
def roll_back(
    name: StationName,
    operations: Service,
    caller: Caller,
    body: Annotated[RollBackBody, Body()] = NO_COMMENT,
    key: Key = None,
) -> Station:
    """Have a station run again what it ran last, before its last change, within the ranges of its knobs.

    While a stop, a freeze or a forbidden period holds, or where there is nothing of the kind, an admin has to say
    `override`.
    """
    if body.override:
        caller.require(ADMIN)
    operations.roll_back(name, comment=body.comment, override=body.override, key=key, actor=caller.name)
    return _station(operations, name)


@stations.put("/stations/{name}/freeze", operation_id="freeze", summary="Freeze a station")
def freeze(
    name: StationName,
    operations: Service,
    caller: Caller,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> Station:
    """Leave a station as it is until it is thawed."""
    operations.freeze(name, why=body.why, key=key, actor=caller.name)
    return _station(operations, name)


@stations.delete("/stations/{name}/freeze", operation_id="thaw", summary="Thaw a station")
def thaw(name: StationName, operations: Service, caller: Caller, key: Key = None) -> Station:
    """Let a station that a person froze be changed again; one that the rails freeze stays frozen."""
    operations.thaw(name, key=key, actor=caller.name)
    return _station(operations, name)


def _station(operations: Operations, name: str) -> Station:
    sites = operations.sites
    with operations.looking() as read_model:
        return _shown(operations, read_model, name, sites)


def _shown(operations: Operations, read_model: ReadModel, name: str, sites: Mapping[str, schemas.Site]) -> Station:
    """Return a station as it stands; the read model must be held."""
    found = shown(Station, read_model.station(name), operations.space)
    return found.model_copy(update={"recent": read_model.recent(name), "site": sites.get(name)})


# --- The guard rails: those in force, and others in their place -----------------------------------------------------


@rails.get("/rails", operation_id="get_rails", summary="The guard rails in force")
def get_rails(operations: Fresh) -> Rails:
    """The hard limits in force, as their file has them, with who put them there and when."""
    return _rails(operations)


@rails.put(
    "/rails",
    operation_id="set_rails",
    summary="Put other guard rails in force",
    openapi_extra=AS_TEXT,
    responses={
        202: {"model": schemas.RailsChange, "description": "On record: it takes a second person to send the same."}
    },
)
def set_rails(
    body: RailsBody,
    operations: Fresh,
    caller: Caller,
    response: Response,
    check: Annotated[bool, Query(description="Whether to check them only, and put nothing in force.")] = False,
    days: Annotated[int, Query(ge=0, le=31, description="Over how many days they are tried when checked.")] = DAYS,
    key: Key = None,
) -> schemas.RailsChange:
    """Put rails in force for the next decision, in every process; `{}` lifts all of them.

    They come as YAML, as they are, or in JSON. What is wrong with them is told with the line. `refused` is what waits
    for a person and would be refused from now on, if all of it were approved now. Where those in force have
    `two_people` for it, they hold when a second admin sends the same within a day. `check` tries them on the last
    days: what they would have refused or let through.
    """
    refused, before = operations.check_rails(body.yaml), _rails(operations)
    if not check:
        operations.set_rails(body.yaml, comment=body.comment, replaces=body.replaces, key=key, actor=caller.name)
    after = _rails(operations)
    if not check and after.proposed is not None and after.proposed.digest == digest_of(body.yaml):
        response.status_code = 202
    return schemas.RailsChange(
        changed=after.digest != before.digest,
        rails=after,
        refused=[_refused(record) for record in refused],
        preview=_preview(previewed(operations, body.yaml, days=days)) if check and days else None,
    )


def _preview(found: Preview) -> schemas.RailsPreview:
    return schemas.RailsPreview(
        since=found.since,
        decisions=found.decisions,
        changes=found.changes,
        refused=found.counts["refused"],
        let_through=found.counts["let through"],
        later=found.counts["later"],
        another=found.counts["another"],
        rails={code: count for code, count in found.rails.items() if count},
        cut=found.cut,
        listed=[
            schemas.JudgedOtherwise(
                decision=one.decision, station=one.station, at=one.at, fate=one.fate, was=one.was.reason,
                reason=one.verdict.reason,
            )
            for one in found.listed
        ],
    )  # fmt: skip


def _rails(operations: Operations) -> Rails:
    known, in_force = operations.rails_in_force()
    return Rails(
        text=known.text,
        digest=known.digest or None,
        at=known.at,
        actor=known.actor,
        comment=known.comment,
        stop=in_force.stop,
        frozen={one.station: one.why for one in in_force.freeze},
        two_people=sorted(in_force.two_people),
        proposed=_proposed(operations, "rails"),
    )


def _refused(record: DecisionRecord) -> schemas.RefusedByRails:
    """Return why rails refuse a decision; it must have been reviewed."""
    assert record.verdict is not None  # noqa: S101
    codes, reason = list(record.verdict.codes), record.verdict.reason
    return schemas.RefusedByRails(decision=record.id, station=record.station, rails=codes, reason=reason)


# --- What there is to know around decisions: configurations, similarity, history ------------------------------------


@looking.get("/configurations", operation_id="list_configurations", summary="What can be chosen from")
def list_configurations(operations: Service) -> schemas.Configurations:
    """Knobs with their values, and every configuration with its number."""
    space = operations.space
    return schemas.Configurations(
        knobs={knob: list(values) for knob, values in space.knobs.items()},
        configurations=[schemas.Numbered(arm=arm, configuration=knobs) for arm, knobs in enumerate(space)],
    )


@looking.get("/similarity", operation_id="get_similarity", summary="How alike stations are")
def get_similarity(operations: Fresh, wanted: Annotated[Alike, Query()]) -> schemas.Similarity:
    """The task matrix that stations share by, as it stands; of 500 stations at most."""
    whole = operations.similarity()
    found = whole.reindex(wanted.station or whole.stations[:: -(-len(whole) // COMPARED)])
    return schemas.Similarity(
        stations=list(found.stations), matrix=found.matrix.tolist(), method=found.method, total=len(whole)
    )


@looking.get("/events", operation_id="list_events", summary="The history of everything")
def list_events(operations: Service, filters: Annotated[EventFilters, Query()]) -> schemas.EventPage:
    """Events of the ledger: who did what and when, in full. `next` leads to the following page."""
    newest = filters.order == "newest"
    wanted = filters.model_dump(exclude={"limit", "order", "kind"}, exclude_none=True)
    found = operations.events(**wanted, kinds=filters.kind, newest_first=newest, limit=filters.limit + 1)
    page, more = found[: filters.limit], len(found) > filters.limit
    query = filters.model_dump(exclude_none=True) | {"before" if newest else "after": page[-1].seq} if more else {}
    return schemas.EventPage(
        events=all_shown(schemas.Event, page, operations.space),
        next=f"/v1/events?{urlencode(query, doseq=True)}" if more else None,
    )


# --- Everything as files, streamed ----------------------------------------------------------------------------------


class CsvResponse(StreamingResponse):
    """An answer that is a CSV file."""

    media_type = "text/csv"


def _export(table: str) -> Callable[[DecoratedCallable], DecoratedCallable]:
    """Return what makes a function the route of a file."""
    return exports.get(
        f"/export/{table}.csv",
        operation_id=f"export_{table}",
        summary=f"All {table} as CSV",
        response_class=CsvResponse,
    )


@_export("decisions")
def export_decisions(operations: Fresh) -> StreamingResponse:
    """Oldest first. Columns `before_`, `chosen_`, `proposed_` and `run_` hold the knobs."""
    return tables.decisions_file(_decisions(operations), operations.space)


@_export("outcomes")
def export_outcomes(operations: Fresh) -> StreamingResponse:
    """What decisions earned, as corrected, with what ran in columns `run_`; those that were called off too."""
    return tables.outcomes_file(_decisions(operations), operations.space)


@_export("events")
def export_events(operations: Service) -> StreamingResponse:
    """The whole history, oldest first, with payloads as JSON."""
    return tables.events_file(operations)


def _decisions(operations: Operations) -> Iterator[DecisionRecord]:
    """All decisions as they stand when they are written."""
    with operations.looking() as read_model:
        keys = iter(list(read_model.decisions))
    while some := list(islice(keys, _TOGETHER)):
        yield from operations.read_model.in_order(some)


_TOGETHER = 2000  # decisions that are read from the ledger together


# --- For those who run the service: does it live, can it work, and figures for Prometheus ---------------------------


@probes.get("/healthz", operation_id="health", summary="Whether the service lives")
async def health() -> Health:
    """The process answers; the database is not asked."""
    return Health(status="ok", version=__version__, warnings=[])


@probes.get("/readyz", operation_id="ready", summary="Whether the service can work")
def ready(operations: Service) -> Health:
    """The database answers and takes writes, which is tried every 5 seconds, and the controller is loaded; else 503.

    A clock that cannot be trusted is among the `warnings`: stop and roll-back work all the same.
    """
    try:
        operations.check_ready()
    except LedgerUnavailableError as error:
        if error.code != "full":
            raise
        LOG.error("not ready: %s", error)
        raise RefusedError(503, NO_ROOM, headers={"Retry-After": str(AGAIN)}) from error
    doubt = operations.reading().doubt
    warnings = [f"nothing changes: {doubt}"] if doubt else []
    return Health(status="ok", version=__version__, warnings=[*warnings, *operations.ledger.warnings])


@probes.get("/metrics", operation_id="metrics", summary="Figures for Prometheus", response_class=PlainTextResponse)
def metrics(request: Request, operations: Fresh) -> Response:  # noqa: ARG001
    """Requests, decisions, refusals, rewards, calibration. Prometheus sends a viewer's token as `bearer_token_file`."""
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
