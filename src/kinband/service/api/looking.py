"""Routes for those who look: what there is to know, everything as files, and the probes of those who run it."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from kinband.service import tables
from kinband.service.api.errors import AGAIN, LOG, RefusedError
from kinband.service.api.gate import Fresh, GuardedRoute, Service, router
from kinband.service.api.metrics import Metrics
from kinband.service.api.requests import EventFilters
from kinband.service.ledger import LedgerUnavailableError
from kinband.service.operations import DecisionRecord, Operations
from kinband.service.schemas import (
    Configurations,
    Event,
    EventPage,
    Health,
    Numbered,
    Similarity,
    all_shown,
)
from kinband.version import __version__

looking, exports = router("looking"), router("exports")
probes = APIRouter(tags=["probes"], route_class=GuardedRoute)

NO_ROOM = "decisions cannot be recorded, since the disk under the database is full: make room"
"""What is said of a service that can be read and cannot write."""


# --- What there is to know around decisions: configurations, similarity, history ------------------------------------


@looking.get("/configurations", operation_id="list_configurations", summary="What can be chosen from")
def list_configurations(operations: Service) -> Configurations:
    """Knobs with their values, and every configuration with its number."""
    space = operations.space
    return Configurations(
        knobs={knob: list(values) for knob, values in space.knobs.items()},
        configurations=[Numbered(arm=arm, configuration=knobs) for arm, knobs in enumerate(space)],
    )


@looking.get("/similarity", operation_id="get_similarity", summary="How alike stations are")
def get_similarity(operations: Fresh) -> Similarity:
    """The task matrix that stations share by, as it stands."""
    found = operations.similarity()
    return Similarity(stations=list(found.stations), matrix=found.matrix.tolist(), method=found.method)


@looking.get("/events", operation_id="list_events", summary="The history of everything")
def list_events(operations: Service, filters: Annotated[EventFilters, Query()]) -> EventPage:
    """Events of the ledger: who did what and when, in full. `next` leads to the following page."""
    newest = filters.order == "newest"
    wanted = filters.model_dump(exclude={"limit", "order", "kind"}, exclude_none=True)
    found = operations.events(**wanted, kinds=filters.kind, newest_first=newest, limit=filters.limit + 1)
    page, more = found[: filters.limit], len(found) > filters.limit
    query = filters.model_dump(exclude_none=True) | {"before" if newest else "after": page[-1].seq} if more else {}
    return EventPage(
        events=all_shown(Event, page, operations.space),
        next=f"/v1/events?{urlencode(query, doseq=True)}" if more else None,
    )


# --- Everything as files, streamed ----------------------------------------------------------------------------------


class CsvResponse(StreamingResponse):
    """An answer that is a CSV file."""

    media_type = "text/csv"


@exports.get(
    "/export/decisions.csv",
    operation_id="export_decisions",
    summary="All decisions as CSV",
    response_class=CsvResponse,
)
def export_decisions(operations: Fresh) -> StreamingResponse:
    """Oldest first. Columns `before_`, `chosen_`, `proposed_` and `run_` hold the knobs."""
    return tables.decisions_file(_decisions(operations), operations.space)


@exports.get(
    "/export/outcomes.csv",
    operation_id="export_outcomes",
    summary="All outcomes as CSV",
    response_class=CsvResponse,
)
def export_outcomes(operations: Fresh) -> StreamingResponse:
    """What decisions earned, as corrected, with what ran in columns `run_`; those that were called off too."""
    return tables.outcomes_file(_decisions(operations), operations.space)


@exports.get(
    "/export/events.csv",
    operation_id="export_events",
    summary="All events as CSV",
    response_class=CsvResponse,
)
def export_events(operations: Service) -> StreamingResponse:
    """The whole history, oldest first, with payloads as JSON."""
    return tables.events_file(operations)


def _decisions(operations: Operations) -> list[DecisionRecord]:
    """All decisions as they stand at one moment; records do not change, so that they can be written at leisure."""
    with operations.looking() as read_model:
        return list(read_model.decisions.values())


# --- For those who run the service: does it live, can it work, and figures for Prometheus ---------------------------


@probes.get("/healthz", operation_id="health", summary="Whether the service lives")
async def health() -> Health:
    """The process answers; the database is not asked."""
    return Health(status="ok", version=__version__)


@probes.get("/readyz", operation_id="ready", summary="Whether the service can work")
def ready(operations: Service) -> Health:
    """The database answers and takes writes, which is tried every 5 seconds, and the controller is loaded; else 503."""
    try:
        operations.check_ready()
    except LedgerUnavailableError as error:
        if error.code != "full":
            raise
        LOG.error("not ready: %s", error)
        raise RefusedError(503, NO_ROOM, headers={"Retry-After": str(AGAIN)}) from error
    return Health(status="ok", version=__version__)


@probes.get("/metrics", operation_id="metrics", summary="Figures for Prometheus", response_class=PlainTextResponse)
def metrics(request: Request, operations: Fresh) -> Response:  # noqa: ARG001
    """Requests, decisions, refusals, rewards, calibration. Prometheus sends a viewer's token as `bearer_token_file`."""
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
