"""The application: routes, access, errors and figures put together around `Operations`.

From the outside in, HEAD is answered like GET, a request's path is taken apart, it gets an id, is measured, its answer
gets security headers, its host and size are checked; what breaks unexpectedly is caught inside of all that, so that
such an answer has the headers too. Then the gate, the strict reader and the handler (`gate`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse

from kinband.service.access.middleware import LOOPBACK, HeadAsGet, KnownHosts, RequestIds, SecurityHeaders, SizeLimit
from kinband.service.access.tokens import Tokens
from kinband.service.api import errors
from kinband.service.api.decisions import decisions, outcomes, people
from kinband.service.api.gate import Gate, Limits, Segments
from kinband.service.api.looking import exports, looking, probes
from kinband.service.api.metrics import Meter, Metrics
from kinband.service.api.openapi import page_of, schema_of
from kinband.service.api.stations import rails, stations
from kinband.service.operations import Operations
from kinband.version import __version__

MAX_BODY = 1_000_000
"""Bytes that a request may have; 10,000 outcomes fit."""

ROUTERS: tuple[APIRouter, ...] = (decisions, outcomes, people, stations, rails, looking, exports, probes)
"""Everything that the service answers but its pages."""

_NOTED_EVERY = 60.0  # seconds between notes of which tokens were used


def create_app(
    operations: Operations,
    *,
    tokens: Tokens | None,
    insecure_local: bool = False,
    pages: APIRouter | None = None,
    missing: errors.Missing | None = None,
    limits: Limits | None = None,
    max_body: int = MAX_BODY,
    hosts: Sequence[str] = (),
    cacheable: Sequence[str] = (),
    inline_styles: bool = False,
) -> FastAPI:
    """Return the service around operations.

    Args:
        operations: What it serves.
        tokens: Who may come in; None only together with `insecure_local`.
        insecure_local: No access control: whoever reaches it from this machine may do everything.
        pages: The dashboard.
        missing: Its page for addresses that nobody has.
        limits: How much callers may ask for.
        max_body: Bytes that a request may have.
        hosts: Names under which the service is reached; any where there is none.
        cacheable: How the paths begin whose answers browsers may keep.
        inline_styles: Whether pages may hold style attributes.

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
    gate = Gate(tokens, insecure_local, limits or Limits.usual())
    app = FastAPI(
        title="kinband", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False,
        lifespan=_noting(tokens),
    )  # fmt: skip
    app.state.operations, app.state.gate = operations, gate
    app.state.metrics = Metrics(operations)
    _add_routes(app, pages, missing)
    app.add_middleware(errors.Unexpected)
    app.add_middleware(SizeLimit, most_bytes=max_body)
    known = LOOPBACK if insecure_local and not hosts else tuple(hosts)
    if known:
        app.add_middleware(KnownHosts, hosts=known)
    app.add_middleware(SecurityHeaders, cacheable=cacheable, inline_styles=inline_styles)
    app.add_middleware(Meter, metrics=app.state.metrics)
    app.add_middleware(RequestIds)
    app.add_middleware(Segments, prefix="/v1/stations/")
    app.add_middleware(HeadAsGet)
    return app


def _add_routes(app: FastAPI, pages: APIRouter | None, missing: errors.Missing | None) -> None:
    own = [route for router in ROUTERS for route in router.routes]
    schema = schema_of(own)
    page = page_of(schema)

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


def _noting(tokens: Tokens | None) -> Callable[[FastAPI], Any]:
    """Return what runs beside the application: noting down which tokens were used, now and then and at the end."""

    @asynccontextmanager
    async def beside(_app: FastAPI) -> AsyncIterator[None]:
        task = None if tokens is None else asyncio.create_task(_note(tokens))
        try:
            yield
        finally:
            if task is not None and tokens is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await run_in_threadpool(tokens.write_used)

    return beside


async def _note(tokens: Tokens) -> None:
    while True:
        await asyncio.sleep(_NOTED_EVERY)
        await run_in_threadpool(tokens.write_used)
