"""Errors as pages: a status, a sentence, a way back.

What was meant for people is passed on in its own words. What went wrong on our side goes into the log, with the place
of the ledger and all else that is not for everybody who looks at pages; the page says no more than that.
"""

import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.service.access.tokens import NotAllowedError, NotSignedInError
from kinband.service.dashboard.rendering import plain_page, redirect
from kinband.service.dashboard.text import own_path, with_query
from kinband.service.ledger import LedgerRefusedError, LedgerUnavailableError
from kinband.service.threads import DOORS, FILES, LONG, PROVIDER, REQUEST, RESUMING, SWITCHES, Threads, on

_LOG = logging.getLogger(__name__)

_STATUS = (  # of an error; the first that fits
    (NotAllowedError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (BadInputError, 422),
    (LedgerUnavailableError, 503),
    (LedgerRefusedError, 503),
)


Heading = tuple[str, str]
"""What a page of an error is headed with, and what to make of it."""

_HEADINGS: dict[int, Heading] = {
    403: ("Not allowed", "You may look around, but not do this. Nothing was done."),
    404: ("Not found", "There is nothing at this address."),
    405: ("Not like this", "This address does not take that."),
    409: ("Somebody was first", "This contradicts what is on record. Nothing was done."),
    413: ("Too much at once", "Nothing was done: send less."),
    422: ("That cannot be read", "Something in the request is not as it should be."),
    429: ("Too often", "Wait a moment."),
    500: ("Something went wrong", "It was our side, not you; it has been noted in the log."),
    503: ("The ledger is away", "Nothing that is on record is lost. Try again shortly; the log says more."),
}
_STALE = (
    "This page was open too long",
    "Its form belongs to a session that has ended since. Nothing was done: load the page again and repeat the step.",
)
_UNSURE = (
    "The ledger is away",
    "Whether this was recorded is not certain: look before you repeat it, shortly. The log says more.",
)


def error_page(
    status: int, sentence: str = "", *, visitor: object = None, heading: Heading | None = None, again: str = ""
) -> Response:
    """Return an error in the dress of the pages; the application calls it for addresses that nobody has.

    Args:
        status: The status of HTTP.
        sentence: What was complained about; nothing of our own inside.
        visitor: Who looks.
        heading: What it is headed with; by its status if not given.
        again: The page that should be loaded again, if one is known.
    """
    title, advice = heading or _HEADINGS.get(status) or (HTTPStatus(status).phrase, "")
    response = plain_page(
        "error.html", status=status, visitor=visitor, title=title, advice=advice, said=sentence, again=again
    )
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = "5"
    return response


def public_words(error: KinbandError) -> str:
    """Return what an error says to somebody who looks at pages; what a database said stays in the log."""
    if not isinstance(error.__cause__, SQLAlchemyError):
        return str(error)
    _LOG.warning("%s", error)
    return "somebody else recorded something first: load the page again and repeat the step"


_SWITCHES = ("/stop", "/freeze", "/thaw")  # how the addresses of their forms end
_DOORS = ("/sign-in", "/sign-out")
_ELSEWHERE = "/sign-in/"  # the way to an identity provider, which may take its time, and back


def threads_of(request: Request | None) -> Threads | None:
    """Return the threads that a page or a form has of its own; None for the usual ones."""
    if request is None:
        return None
    path = request.url.path
    if path.endswith(_SWITCHES) and request.method == "POST":
        return SWITCHES
    if path.endswith("/resume") and request.method == "POST":
        return RESUMING
    if path in _DOORS:
        return DOORS
    if path.startswith(_ELSEWHERE):
        return PROVIDER
    if path.endswith(".csv"):
        return FILES
    if path == "/rails" and request.query_params.get("check") == "1":
        return LONG
    return LONG if request.query_params.get("evidence") == "1" else None


class PageRoute(APIRoute):
    """A route whose errors are pages, and which sends those who are nobody to sign in.

    Args:
        path: Its address.
        endpoint: What answers, on threads of its own where it has some (`threads_of`).
        said: What else is said of it.
    """

    known: Callable[[Request], object] | None = None
    """What says who comes, before somebody who works long finds a place."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **said: Any) -> None:
        super().__init__(path, on(threads_of, endpoint), **said)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with errors turned into pages."""
        handler, known = super().get_route_handler(), self.known

        async def handled(request: Request) -> Response:
            try:
                REQUEST.set(request)
                if known is not None and threads_of(request) in (LONG, FILES):
                    await run_in_threadpool(known, request)
                return await handler(request)
            except ClientDisconnect:
                raise
            except NotSignedInError:
                return redirect(with_query("/sign-in", next=_asked_for(request)))
            except Exception as error:
                return _complaint(request, error)

        return handled


def _asked_for(request: Request) -> str:
    """Return the address of a page that was asked for; a form is not sent again."""
    if request.method != "GET":
        return ""
    path = bytes(request.scope.get("raw_path") or request.url.path.encode()).decode("ascii", "replace")
    return f"{path}?{request.url.query}" if request.url.query else path


def _sent_from(request: Request) -> str:
    """Return the address of the page that a form was sent from, which browsers tell our own pages; else empty."""
    try:
        parts = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return ""
    if not parts.path or parts.netloc != request.headers.get("host", ""):
        return ""
    return own_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def _complaint(request: Request, error: Exception) -> Response:
    """Return an error as a page; what is not the caller's doing goes into the log."""
    visitor = getattr(request.state, "visitor", None)
    match error:
        case HTTPException():
            answer = error_page(error.status_code, str(error.detail or ""), visitor=visitor)
            answer.headers.update(error.headers or {})
            return answer
        case RequestValidationError():
            sentence = "a field of the form or of the address is missing or has a wrong form"
            return error_page(422, sentence, visitor=visitor)
        case NotAllowedError(code="stale_form"):
            return error_page(403, visitor=visitor, heading=_STALE, again=_sent_from(request))
        case KinbandError():
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
            if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return error_page(status, public_words(error), visitor=visitor)
            _LOG.warning("%s %s: %s", request.method, request.url.path, error)
            unsure = isinstance(error, LedgerUnavailableError) and error.recorded is None
            return error_page(status, visitor=visitor, heading=_UNSURE if unsure else None)
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_page(500, visitor=visitor)
