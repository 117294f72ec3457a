"""From a request to a function: routes that ask who calls, then read the body, and paths with names in them."""

import json
from collections.abc import Callable, Coroutine
from email.message import Message
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
from kinband.service.api.errors import RefusedError
from kinband.service.operations import Operations
from kinband.service.paths import read

# --- Routes that let in first and read then, and JSON as its standard has it ----------------------------------------
#
# Who may not come in learns nothing about what was sent, not even whether it was JSON. Python's own reader takes NaN
# and Infinity, which are not JSON (RFC 8259), and of a key given twice the last value, in silence; here both are
# refused.

JSON = "application/json"
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"})
"""What YAML is sent as (RFC 9512), and what it was before."""

STALE = "X-Kinband-Stale"
"""The header of answers that may be old, since the database is away."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def read_json(body: bytes) -> Any:
    """Return the value of a JSON text, or refuse what is not JSON."""
    try:
        return json.loads(body.decode(), parse_constant=_no_constant, object_pairs_hook=_unique)
    except RefusedError:
        raise
    except UnicodeDecodeError as error:
        raise RefusedError(400, "the body is not JSON: it is not UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise RefusedError(400, f"the body is not JSON: {error.msg} at {place}") from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(
            400, "the body is not JSON that can be read: a number too long, or nested too deep"
        ) from error


def _no_constant(name: str) -> Any:
    raise RefusedError(400, f"{name} is not JSON: leave out what is not known")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RefusedError(400, f"the key {ascii(twice)[:60]} is given twice: give it once")
    return found


class ReadRequest(Request):
    """A request whose body was read before; the framework would turn our sentences into one of its own.

    Args:
        request: The request.
        field: Where YAML goes, if it may come as it is: to the framework it looks like JSON with that one field.
    """

    def __init__(self, request: Request, *, field: str = "") -> None:
        self._field = field
        self._value: Any = None
        self._media = _media(request.headers.get("content-type", ""))
        self._plain = bool(field) and self._media in YAML
        scope = request.scope
        if self._plain:
            others = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
            scope = {**scope, "headers": [*others, (b"content-type", JSON.encode())]}
        super().__init__(scope, request.receive)

    async def read(self) -> None:
        """Read the body, if there is any, or refuse it."""
        body = await self.body()
        if not body:
            return
        if self._plain:
            self._value = {self._field: _text(body)}
        elif self._media == JSON:
            self._value = read_json(body)
        elif self._field:
            raise RefusedError(
                415, "the body must be YAML or JSON: send it with the header Content-Type: application/yaml"
            )
        else:
            raise RefusedError(415, "the body must be JSON: send it with the header Content-Type: application/json")

    async def json(self) -> Any:
        """Return the body's value."""
        return self._value


class GuardedRoute(APIRoute):
    """A route that needs the role of its operation (`ROLES`)."""

    yaml_field = ""
    """The field of the body that YAML goes to, where a route takes it."""

    def get_route_handler(self) -> Handler:
        """Return what answers: first authentication, then the reader, then the handler."""
        handle, role = super().get_route_handler(), ROLES[str(self.operation_id)]
        reads = self.body_field is not None

        async def guarded(request: Request) -> Response:
            if role is not None:
                authenticator: Authenticator = request.app.state.authenticator
                request.state.identity = await run_in_threadpool(authenticator.admit, request, role)
            known = ReadRequest(request, field=self.yaml_field)
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


def _media(content_type: str) -> str:
    message = Message()
    message["content-type"] = content_type
    return message.get_content_type() if content_type else ""


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise RefusedError(400, f"line {line} is not UTF-8: send the file in that encoding") from error


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
