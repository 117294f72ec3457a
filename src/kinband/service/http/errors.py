"""Every error becomes a problem with one sentence: here is which status it has, and what is said.

What was meant for the caller is passed on. What tells of the inside (where the database is, why it refuses, what broke)
goes into the log, under the id of the request, which is all that the caller hears of it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinband.errors import BadInputError, CannotCorrectError, ConflictError, KinbandError, NotFoundError
from kinband.service.access.tokens import NotAllowedError, NotSignedInError
from kinband.service.http.complaints import complaint, printable
from kinband.service.http.wording import named, over_http
from kinband.service.ledger import LedgerRefusedError, LedgerUnavailableError
from kinband.service.problems import REQUEST_ID, problem_response

LOG = logging.getLogger("kinband.service")

AGAIN = 5
"""Seconds after which to try again when the database is away."""

_STATUS: dict[type[KinbandError], int] = {
    BadInputError: 422,
    NotFoundError: 404,
    ConflictError: 409,
    CannotCorrectError: 409,
    NotAllowedError: 403,
}
REFUSES = "the database takes no writes, since it is read-only or rights are missing; the service's log has more"
"""What is said of a database that will not have it, now or later."""


FULL = "the disk under the database is full, and nothing was recorded: make room, and send the same request again later"
"""What is said of a ledger whose disk has no room."""
MOVED = (
    "the file of the database was moved, removed or replaced, and nothing was recorded: put it back, or start the "
    "service again, and send the same request again later"
)
"""What is said of a ledger that is not where it was."""
_KNOWN = {"is full": FULL, "was moved, removed or replaced": MOVED}  # by what the ledger says


class RefusedError(Exception):
    """A request that is refused before it is looked at.

    Example:
        >>> RefusedError(415, "send JSON").status
        415
    """

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers


Missing = Callable[[int], Response]
"""A page for people whose browser asks for what is not there, from the status."""


def install(app: FastAPI, routes: Callable[[], Sequence[Any]], *, missing: Missing | None = None) -> None:
    """Let an application answer errors as problems.

    Args:
        app: The application.
        routes: Gives its routes, to say which methods a path has.
        missing: The page for people; programs get a problem all the same.
    """
    for kind, status in _STATUS.items():
        app.add_exception_handler(kind, _passed_on(status))
    app.add_exception_handler(NotSignedInError, _not_signed_in)
    app.add_exception_handler(LedgerUnavailableError, _unavailable)
    app.add_exception_handler(LedgerRefusedError, _unwritable)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(HTTPException, _by_http(routes, missing))


class Unexpected:
    """Answers what nobody expected: 500 with the id of the request, the rest in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            LOG.info("the caller went away before the request had arrived")
        except Exception:
            if scope["type"] != "http" or started:
                raise  # an answer that has begun can only be broken off
            LOG.exception("request %s failed", REQUEST_ID.get() or "without id")
            await _broken()(scope, receive, send)


def _broken() -> Response:
    request_id = REQUEST_ID.get()
    where = f" under the id {request_id}" if request_id else ""
    return problem_response(
        500, f"something broke on our side, and nothing was answered: the service's log has more{where}"
    )


def _passed_on(status: int) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:
        return problem_response(status, over_http(named(str(error), request.app.state.shaper.space)))

    return handle


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101
    return problem_response(error.status, str(error), headers=error.headers)


def _not_signed_in(_request: Request, error: Exception) -> Response:
    challenge = 'Bearer realm="kinband", error="invalid_token"'
    return problem_response(401, str(error), headers={"WWW-Authenticate": challenge})


def _unavailable(_request: Request, error: Exception) -> Response:
    LOG.warning("the ledger is unavailable: %s", error)
    return problem_response(503, away(str(error)), headers={"Retry-After": str(AGAIN)})


def away(said: str) -> str:
    """Return what to tell a caller of a ledger that is unavailable: what it is and what to do, never where it lies.

    Example:
        >>> away("the ledger /srv/l.db was moved, removed or replaced while it was in use: nothing is recorded ...")
        'the file of the database was moved, removed or replaced, and nothing was recorded: put it back, or start ...'
    """
    for mark, sentence in _KNOWN.items():
        if mark in said:
            return sentence
    unsure = "is not known" in said
    done = "whether this was recorded is not known" if unsure else "nothing was recorded"
    how = " with the same Idempotency-Key" if unsure else ""
    return f"the database is away, busy or full, and {done}: send the same request again later{how}"


def _unwritable(_request: Request, error: Exception) -> Response:
    LOG.error("the ledger refuses: %s", error)
    return problem_response(503, f"nothing was recorded: {REFUSES}", headers={"Retry-After": str(AGAIN)})


def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = error.errors()
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return problem_response(422, f"{complaint(found[0])}{more}")


def _by_http(routes: Callable[[], Sequence[Any]], missing: Missing | None) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        by_browser = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1")
        if missing is not None and error.status_code == 404 and by_browser:
            return missing(404)
        headers = dict(error.headers or {})
        detail = str(error.detail)
        if error.status_code == 405:
            allow = ", ".join(methods_at(request.url.path, routes()))
            headers, detail = {"Allow": allow}, f"this path answers {allow}, not {request.method[:20]}"
        elif error.status_code == 404 and detail == "Not Found":
            detail = "there is nothing at this path: /docs lists what there is"
        return problem_response(error.status_code, printable(detail), headers=headers)

    return handle


def methods_at(path: str, routes: Sequence[Any]) -> list[str]:
    """Return the methods that a path answers, over all routes; the framework names those of the first alone."""
    found = (route for route in routes if isinstance(route, APIRoute) and route.path_regex.match(path))
    methods = {method for route in found for method in route.methods or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
