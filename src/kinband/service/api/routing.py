"""From a request to a function: routes that ask who calls, then read the body, and paths with names in them."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Header, Path
from fastapi.routing import APIRoute
from pydantic import AfterValidator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kinband.service.access.middleware import Around
from kinband.service.access.tokens import Identity
from kinband.service.api.authentication import ROLES, Authenticator
from kinband.service.api.requests import ReadRequest
from kinband.service.operations import Operations
from kinband.service.paths import read
from kinband.service.threads import DOORS, FILES, LEARNING, LONG, REQUEST, RESUMING, SWITCHES, Threads, on

# --- Routes that let in first and read then -------------------------------------------------------------------------
#
# Who may not come in learns nothing about what was sent, not even whether it was JSON.

STALE = "X-Kinband-Stale"
"""The header of answers that may be old, since the database is away."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


THREADS: dict[str, Threads] = {
    "stop": SWITCHES, "freeze": SWITCHES, "thaw": SWITCHES, "resume": RESUMING, "ready": DOORS, "correct": LEARNING,
    "send_counters": LEARNING,
    "explain": LONG, "get_outlook": LONG, "export_decisions": FILES, "export_events": FILES, "export_outcomes": FILES,
}  # fmt: skip
"""Operations with threads of their own."""

LONG_WITH = {"set_rails": "check"}
"""Operations that take long where a parameter says so."""


class GuardedRoute(APIRoute):
    """A route that needs the role of its operation (`ROLES`), on the threads of its operation (`THREADS`)."""

    yaml_field = ""
    """The field of the body that YAML goes to, where a route takes it."""
    file_field = ""
    """The field that a file goes to, where a route takes one."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **said: Any) -> None:
        name = str(said.get("operation_id"))
        self.threads, self.long_with = THREADS.get(name), LONG_WITH.get(name)
        apart = endpoint if self.threads is None and self.long_with is None else on(self._chosen, endpoint)
        super().__init__(path, apart, **said)

    def _chosen(self, request: Request | None) -> Threads | None:
        if self.long_with is None or request is None:
            return self.threads
        return self.threads if request.query_params.get(self.long_with, "0") in ("", "0", "false") else LONG

    def get_route_handler(self) -> Handler:
        """Return what answers: first authentication, then the reader, then the handler."""
        handle, role = super().get_route_handler(), ROLES[str(self.operation_id)]
        reads = self.body_field is not None

        async def guarded(request: Request) -> Response:
            REQUEST.set(request)
            if role is not None:
                authenticator: Authenticator = request.app.state.authenticator
                admit = SWITCHES.run if self.threads in (SWITCHES, RESUMING) else run_in_threadpool
                request.state.identity = await admit(authenticator.admit, request, role)
            known = ReadRequest(request, field=self.yaml_field, file=self.file_field)
            if reads:
                await known.read()
            response = await handle(known)
            if getattr(request.state, "stale", False):
                response.headers[STALE] = "true"
            return response

        return guarded


class YamlRoute(GuardedRoute):
    """A route whose body may be YAML as it is, in place of JSON with the field `yaml`."""

    yaml_field = "yaml"


class FileRoute(GuardedRoute):
    """A route whose body may be a file as it is, in place of JSON."""

    file_field = "file"


def router(tag: str) -> APIRouter:
    """Return a router of guarded routes under /v1."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=GuardedRoute)


async def _operations(request: Request) -> Operations:
    operations: Operations = request.app.state.operations
    return operations


def _refreshed(request: Request) -> Operations:
    """Return operations with what other processes recorded; while the database is away, what is known is shown."""
    operations: Operations = request.app.state.operations
    if not operations.try_refresh():
        request.state.stale = True
    return operations


async def _caller(request: Request) -> Identity:
    identity: Identity = request.state.identity
    return identity


Service = Annotated[Operations, Depends(_operations)]
Fresh = Annotated[Operations, Depends(_refreshed)]
Caller = Annotated[Identity, Depends(_caller)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
        description="Of your choice, one a request: sent again with the same key, a request is answered from the "
        "record and does nothing twice.",
    ),
]


# --- Paths that are matched segment by segment, so that a name may hold a slash -------------------------------------
#
# A server decodes a path before routes see it, and then an encoded slash is a slash like any other: `a%2Foutlook`
# would be the outlook of `a`. Here a path is decoded again from how it came, segment by segment, and slashes and per
# cent signs within a segment stay encoded until the name is read (`StationName`).


class Segments(Around):
    """Has the paths below a prefix matched segment by segment.

    Args:
        app: What answers.
        prefix: How the paths begin.
    """

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        super().__init__(app)
        self.prefix = prefix

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["path"].startswith(self.prefix):
            raw: bytes | None = scope.get("raw_path")  # servers need not tell it
            came = scope["path"].replace("%", "%25") if raw is None else raw.partition(b"?")[0].decode("latin-1")
            scope = {**scope, "path": apart(came)}
        await self.app(scope, receive, send)


def apart(raw: str) -> str:
    """Return a path decoded, but for the slashes and per cent signs within its segments.

    Example:
        >>> apart("/v1/stations/a%2Fb%20c/freeze")
        '/v1/stations/a%2Fb c/freeze'
    """
    return "/".join(unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw.split("/"))


def name_in(segment: str) -> str:
    """Return the name that a segment of such a path stands for.

    Example:
        >>> name_in("a%2Fb c"), name_in("100%25"), name_in("~..")
        ('a/b c', '100%', '..')
    """
    return read(unquote(segment))


StationName = Annotated[
    str,
    Path(description="Its name, percent-encoded; one of dots alone, or with a tilde in front, gets a tilde in front."),
    AfterValidator(name_in),
]
