"""The application: routes, access, errors and figures put together around `Operations`.

From the outside in, HEAD is answered like GET, a request's path is taken apart, it gets an id, is measured, its answer
gets security headers, its host and size are checked; what breaks unexpectedly is caught inside of all that, so that
such an answer has the headers too. `routing` then has `authentication`, the strict reader (`requests`) and the handler
follow each other.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute

from kinband.errors import KinbandError
from kinband.service.access.middleware import (
    LOG,
    HeadAsGet,
    LoopbackOnly,
    Meter,
    RequestIds,
    SecurityHeaders,
    SizeLimit,
    Unexpected,
)
from kinband.service.access.tokens import Tokens
from kinband.service.api import errors
from kinband.service.api.authentication import ROLES, Authenticator, Limits, needs
from kinband.service.api.metrics import Metrics
from kinband.service.api.routes import ROUTERS
from kinband.service.api.routing import Segments
from kinband.service.operations import Operations
from kinband.service.problems import MEDIA_TYPE, phrase
from kinband.service.schemas import Problem
from kinband.service.tracing import Traced
from kinband.version import __version__

if TYPE_CHECKING:
    from kinband.service.access.oidc import Provider

MAX_BODY = 1_000_000
"""Bytes that a request may have; 10,000 outcomes fit."""

_NOT_OF_ITS_OWN: Any = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip
"""The framework's telemetry is off: it tells what was sent and what errors say; ours is `kinband.service.tracing`."""
_SETTLED_EVERY = 2.0  # seconds between looks at what is due
_NOTED_EVERY = 60.0  # seconds between notes of which tokens were used


def create_app(
    operations: Operations,
    *,
    tokens: Tokens | None,
    insecure_local: bool = False,
    pages: APIRouter | None = None,
    missing: errors.Missing | None = None,
    limits: Limits | None = None,
    cacheable: Sequence[str] = (),
    provider: "Provider | None" = None,
) -> FastAPI:
    """Return the service around operations.

    Args:
        operations: What it serves.
        tokens: Who may come in; None only together with `insecure_local`.
        insecure_local: No access control: whoever reaches it from this machine may do everything.
        pages: The dashboard.
        missing: Its page for addresses that nobody has.
        limits: How much callers may ask for.
        cacheable: How the paths begin whose answers browsers may keep.
        provider: The identity provider whose access tokens are taken too.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.service.ledger import Ledger
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> operations = Operations.open(ledger, Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"]))
        >>> app = create_app(operations, tokens=None, insecure_local=True)
        >>> app.openapi()["paths"]["/v1/decisions"]["post"]["operationId"]
        'ask'
        >>> ledger.close()
        >>> folder.cleanup()
    """
    authenticator = Authenticator(tokens, insecure_local, limits or Limits.usual(), provider)
    app = FastAPI(
        title="kinband", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False,
        lifespan=_beside(operations, tokens), telemetry=_NOT_OF_ITS_OWN,
    )  # fmt: skip
    app.state.operations, app.state.authenticator = operations, authenticator
    app.state.metrics = Metrics(operations)
    _add_routes(app, pages, missing)
    app.add_middleware(Unexpected)
    app.add_middleware(SizeLimit, most_bytes=MAX_BODY)
    if insecure_local:
        app.add_middleware(LoopbackOnly)
    app.add_middleware(SecurityHeaders, cacheable=cacheable)
    app.add_middleware(Meter, latency=app.state.metrics.latency)
    app.add_middleware(RequestIds)
    app.add_middleware(Traced)
    app.add_middleware(Segments, prefix="/v1/stations/")
    app.add_middleware(HeadAsGet)
    return app


def _add_routes(app: FastAPI, pages: APIRouter | None, missing: errors.Missing | None) -> None:
    own = [route for router in ROUTERS for route in router.routes]
    schema, page = _described()

    async def docs() -> HTMLResponse:
        return HTMLResponse(page)

    app.openapi = lambda: schema  # type: ignore[method-assign]
    for router in ROUTERS:
        app.include_router(router)
    app.add_api_route("/docs", docs, include_in_schema=False)
    if pages is not None:
        app.include_router(pages)
    theirs: list[Any] = [] if pages is None else list(pages.routes)
    errors.install(app, lambda: [*own, *theirs, *app.routes], missing=missing)


def _beside(operations: Operations, tokens: Tokens | None) -> Callable[[FastAPI], Any]:
    """Return what runs beside the application: ordering what is due, and noting down which tokens were used."""

    @asynccontextmanager
    async def beside(_app: FastAPI) -> AsyncIterator[None]:
        ending = threading.Event()
        orderly = threading.Thread(target=_settle, args=(operations, ending), name="kinband-orders", daemon=True)
        orderly.start()
        task = None if tokens is None else asyncio.create_task(_note(tokens))
        try:
            yield
        finally:
            ending.set()
            await run_in_threadpool(orderly.join)
            if task is not None and tokens is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await run_in_threadpool(tokens.write_used)

    return beside


def _settle(operations: Operations, ending: threading.Event) -> None:
    """Order what is due as long as the service runs; what fails is tried again, and other processes do it too."""
    failed = False
    while not ending.wait(_SETTLED_EVERY):
        try:
            if operations.try_refresh():
                operations.orders.settle()
            failed = False
        except KinbandError as error:
            if not failed:
                LOG.warning("what is due could not be ordered: %s", error)
            failed = True
        except Exception:  # a fault of ours must not keep every later order back
            if not failed:
                LOG.exception("what is due could not be ordered")
            failed = True


async def _note(tokens: Tokens) -> None:
    while True:
        await asyncio.sleep(_NOTED_EVERY)
        await run_in_threadpool(tokens.write_used)


# --- The schema: OpenAPI 3.1, with what the framework cannot know added to what it can ------------------------------
#
# Which role an operation needs, and that errors are problems (RFC 9457) with their own media type.

TAGS = [
    {"name": "decisions", "description": "Ask, and look at what was decided and why."},
    {"name": "outcomes", "description": "Tell what decisions earned, and put it right."},
    {"name": "people", "description": "The plan, approvals, modes, and the big switch."},
    {"name": "orders", "description": "What the network manager has to do, and what it says about that."},
    {"name": "stations", "description": "Stations: how they stand, who joins and leaves, roll-back, freeze."},
    {"name": "rails", "description": "The guard rails in force, and others in their place."},
    {"name": "looking", "description": "Configurations, similarity, history."},
    {"name": "exports", "description": "Everything as CSV."},
    {"name": "probes", "description": "For those who run the service."},
]
DESCRIPTION = """kinband decides, slot after slot, which configuration each base station of a cellular network runs.

Every call but the probes `/healthz` and `/readyz` needs a token: `Authorization: Bearer kb_...`. A **viewer** may read;
an **operator** may also ask, tell, approve, confirm orders, roll back, freeze, stop and resume; an **admin** may also
set modes, put guard rails in force and let stations join and leave. `/metrics` needs a viewer's token, which Prometheus
can send.

Calls that change something take an `Idempotency-Key`: sent again with the same key, they are answered from the record
and do nothing twice. Errors are problems (RFC 9457) with one sentence that says what to do."""

_ALWAYS = (400, 413, 500)
_GUARDED = (401, 403, 429, 503)
_WRITES = (409, 415)
_MEANING = {
    400: "What was sent cannot be read.",
    401: "No token, or one that is not known, was revoked or has expired.",
    403: "The role of the token is too low; the sentence names the one that is needed.",
    404: "There is no such decision or station.",
    409: "It contradicts what is on record.",
    413: "The body is too large.",
    415: "The body is not sent as what it should be; the sentence names it.",
    422: "A value is not what it should be; the sentence names it.",
    429: "Too many requests; Retry-After says when to come back.",
    500: "Something broke on our side; the sentence has the id under which the log tells more.",
    503: "The database is away, busy or full, or takes no writes; Retry-After says when to come back.",
}


@cache
def _described() -> tuple[dict[str, Any], str]:
    """Return the schema of all routes, and the page that shows it: the same for every application of a process."""
    schema = schema_of([route for router in ROUTERS for route in router.routes])
    return schema, page_of(schema)


def schema_of(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the schema of some routes."""
    schema = get_openapi(
        title="kinband", version=__version__, description=DESCRIPTION, tags=TAGS, routes=routes, openapi_version="3.1.0"
    )
    components = schema.setdefault("components", {})
    models = components.setdefault("schemas", {})
    models.pop("HTTPValidationError", None)
    models.pop("ValidationError", None)
    models["Problem"] = Problem.model_json_schema()
    components["responses"] = {f"Problem{status}": _problem(status) for status in _MEANING}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "Made by `kinband token create`."}
    }
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path=path, method=method)
    return schema


def _complete(operation: dict[str, Any], *, path: str, method: str) -> None:
    """Add to an operation what it needs and how it can fail."""
    name = operation["operationId"]
    operation["description"] = f"{operation.get('description', '')}\n\n{needs(name)}".strip()
    operation["security"] = [] if ROLES[name] is None else [{"token": []}]
    statuses = {*_ALWAYS, *(() if ROLES[name] is None else _GUARDED), *(_WRITES if method != "get" else ())}
    statuses |= {503} if name == "ready" else set()
    if path.startswith("/v1"):
        statuses |= {404, 422}
    for status in sorted(statuses):
        operation["responses"][str(status)] = {"$ref": f"#/components/responses/Problem{status}"}


def _problem(status: int) -> dict[str, Any]:
    example = {"type": "about:blank", "title": phrase(status), "status": status, "detail": _MEANING[status]}
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
    return {"description": _MEANING[status], "content": {MEDIA_TYPE: content}}


def page_of(schema: dict[str, Any]) -> str:
    """Return a page that lists what there is; no script, nothing from elsewhere."""
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    rows = "\n".join(
        f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code></td><td>{escape(operation['summary'])}</td>"
        f"<td>{ROLES[operation['operationId']] or 'anybody'}</td></tr>"
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
<p>The schema, with bodies, answers and examples: <a href="/openapi.json">/openapi.json</a></p>
<table>
<thead><tr><th>method</th><th>path</th><th>what it does</th><th>role</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""
