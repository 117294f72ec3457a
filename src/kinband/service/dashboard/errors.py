"""Errors in the same dress as the pages: a status, a sentence, a way back.

What was meant for people is passed on in its own words. What nobody foresaw goes into the log, and the page says no
more than that.
"""

import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.service.access.errors import NotAllowedError, NotSignedInError
from kinband.service.dashboard import addresses
from kinband.service.dashboard.frame import plain_page, redirect
from kinband.service.dashboard.visitors import Visitor
from kinband.service.ledger.errors import LedgerRefusedError, LedgerUnavailableError

_LOG = logging.getLogger(__name__)
_SIGNS = (  # an error's status; the first that fits
    (NotAllowedError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (BadInputError, 422),
    (LedgerUnavailableError, 503),
    (LedgerRefusedError, 503),
)
_ADVICE = {
    403: "You may look around, but not do this.",
    404: "There is nothing at this address.",
    405: "This address does not take that.",
    409: "This contradicts what is on record.",
    413: "That was too much at once.",
    422: "Something in the request is not as it should be.",
    429: "That was too often. Wait a moment.",
    500: "Something went wrong on our side; it has been noted in the log.",
    503: "The service cannot reach its ledger at the moment. Nothing is lost; try again shortly.",
}


def error_page(status: int, sentence: str = "", *, visitor: Visitor | None = None) -> Response:
    """Return an error in the dress of the pages; the application calls it for addresses that nobody has.

    Example:
        >>> error_page(404).status_code
        404
    """
    known = HTTPStatus(status)
    advice = _ADVICE.get(status, known.phrase)
    response = plain_page(
        "error.html", status=status, visitor=visitor, title=known.phrase, advice=advice, said=sentence
    )
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = "5"
    return response


class PageRoute(APIRoute):
    """A route whose errors are pages, and which sends those who are nobody to sign in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with errors turned into pages."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except NotSignedInError:
                return redirect(addresses.with_query("/sign-in", next=_asked_for(request)))
            except Exception as error:
                return _complaint(request, error)

        return handled


def _asked_for(request: Request) -> str:
    """Return the address of a page that was asked for; a form is not sent again."""
    if request.method != "GET":
        return ""
    path = bytes(request.scope.get("raw_path") or request.url.path.encode()).decode("ascii", "replace")
    return f"{path}?{request.url.query}" if request.url.query else path


def _complaint(request: Request, error: Exception) -> Response:
    """Return an error as a page; what is not the caller's doing goes into the log."""
    visitor = getattr(request.state, "visitor", None)
    match error:
        case HTTPException():
            return error_page(error.status_code, str(error.detail or ""), visitor=visitor)
        case RequestValidationError():
            sentence = "a field of the form or of the address is missing or has a wrong form"
            return error_page(422, sentence, visitor=visitor)
        case KinbandError():
            status = next((status for kind, status in _SIGNS if isinstance(error, kind)), 500)
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                _LOG.warning("%s %s: %s", request.method, request.url.path, error)
            return error_page(status, str(error), visitor=visitor)
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_page(500, visitor=visitor)
