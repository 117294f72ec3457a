"""For those who run the service: does it live, can it work, and figures for Prometheus."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from kinband.service.http import answers
from kinband.service.http.errors import AGAIN, LOG, RefusedError
from kinband.service.http.metrics import Metrics
from kinband.service.http.routing import Fresh, GuardedRoute, Service
from kinband.service.ledger import LedgerUnavailableError
from kinband.version import __version__

NO_ROOM = "decisions cannot be recorded, since the disk under the database is full: make room"
"""What is said of a service that can be read and cannot write."""

routes = APIRouter(tags=["probes"], route_class=GuardedRoute)


@routes.get("/healthz", operation_id="health", summary="Whether the service lives")
async def health() -> answers.Health:
    """The process answers; the database is not asked."""
    return answers.Health(status="ok", version=__version__)


@routes.get("/readyz", operation_id="ready", summary="Whether the service can work")
def ready(operations: Service) -> answers.Health:
    """The database answers and takes writes, which is tried every 5 seconds, and the controller is loaded; else 503."""
    try:
        operations.check_ready()
    except LedgerUnavailableError as error:
        if error.code != "full":
            raise
        LOG.error("not ready: %s", error)
        raise RefusedError(503, NO_ROOM, headers={"Retry-After": str(AGAIN)}) from error
    return answers.Health(status="ok", version=__version__)


@routes.get("/metrics", operation_id="metrics", summary="Figures for Prometheus", response_class=PlainTextResponse)
def metrics(request: Request, operations: Fresh) -> Response:  # noqa: ARG001
    """Requests, decisions, refusals, rewards, calibration. Prometheus sends a viewer's token as `bearer_token_file`."""
    found: Metrics = request.app.state.metrics
    return Response(generate_latest(found.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
