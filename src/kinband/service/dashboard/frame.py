"""What all pages share: templates and static files, messages that the next page shows, and errors in the same dress.

A message travels in a cookie for a minute, so that nothing is stored and any process can show it. Its HMAC-SHA256 is
keyed with the session's own secret, so that nobody without it can put words into our mouth; without access control
there is no secret, and anybody at the machine may.

Of errors, what was meant for people is passed on in its own words. What went wrong on our side goes into the log, with
the place of the ledger and all else that is not for everybody who looks at pages; the page says no more than that.
"""

import hashlib
import hmac
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kinband import html
from kinband.counting import counted
from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.service.access.tokens import NotAllowedError, NotSignedInError
from kinband.service.dashboard import text
from kinband.service.dashboard.charts import lines, svg
from kinband.service.dashboard.visitors import Visitor
from kinband.service.ledger import LedgerRefusedError, LedgerUnavailableError
from kinband.version import __version__

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""What a page asks of a browser: load nothing from elsewhere, run nothing that is written into the page."""

_LOG = logging.getLogger(__name__)

# --- Style sheet, script and icon: read once, named by their content, kept by browsers for a year -------------------
#
# An address holds a digest of what it leads to, so that a new version has a new address; whoever asks with another
# digest gets the present file and may not keep it.

_TYPES = {
    "kinband.css": "text/css; charset=utf-8",
    "kinband.js": "text/javascript; charset=utf-8",
    "kinband.svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """A file that pages refer to: its address, its content, and a digest of that."""

    url: str
    content: bytes
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name."""
    folder = files("kinband.service.dashboard") / "static"
    found = {}
    for name in _TYPES:
        content = html.style_sheet().encode() if name == "kinband.css" else (folder / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        found[name] = Asset(f"/static/{name}?v={digest}", content, digest)
    return found


def asset_answer(request: Request, name: str) -> Response:
    """Return the answer to a request for a file, or say that there is none."""
    asset = assets().get(name)
    if asset is None:
        raise NotFoundError(f"there is no file {name!r:.60}", hint="check the address", argument="name", value=name)
    etag = f'"{asset.digest}"'
    kept = _FOR_EVER if request.query_params.get("v") == asset.digest else "no-cache"
    headers = {"ETag": etag, "Cache-Control": kept}
    if asked_before(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=_TYPES[name], headers=headers)


def asked_before(request: Request, etag: str) -> bool:
    """Return whether a browser has what an ETag stands for; weak ones count (RFC 9110, 13.1.2)."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return etag.removeprefix("W/") in known


# --- Templates, and pages that are made for this once ---------------------------------------------------------------


@cache
def environment() -> Environment:
    """Return the templates with everything that they may use."""
    made = html.environment("kinband.service.dashboard")
    named = (text.figure, text.signed, text.share, text.breakable, svg.percent, svg.along)
    made.filters |= {function.__name__: function for function in named} | {"when": text.time_tag}
    made.globals |= {
        "interval": text.interval,
        "count": counted,
        "station_url": text.station_url,
        "decision_url": text.decision_url,
        "with_query": text.with_query,
        "status_words": text.STATUS_WORDS,
        "mode_words": text.MODE_WORDS,
        "by_words": text.BY_WORDS,
        "asset": lambda name: assets()[name].url,
        "ramp": svg.ramp,
        "marker_shapes": lines.MARKER_SHAPES,
        "version": __version__,
    }
    return made


def plain_page(template: str, *, status: int = 200, visitor: Visitor | None = None, **shown: Any) -> Response:
    """Return a page that is made for this once: browsers do not keep it, and it does not look for news."""
    frame = {"visitor": visitor, "flash": None, "seen": None, "etag": "", "path": ""}
    body = environment().get_template(template).render(frame | shown)
    return HTMLResponse(body, status_code=status, headers={"Cache-Control": "no-store", **SECURITY_HEADERS})


# --- A message that the next page shows once: what came of a form ---------------------------------------------------

SAID = "kinband-said"
"""The name of the cookie."""
_MAX_AGE = 60  # seconds that a message waits for its page
_LONGEST = 700  # characters, of four bytes at most; a browser keeps 4,096 bytes of a cookie


@dataclass(frozen=True, slots=True)
class Flash:
    """A message and its tone."""

    text: str
    tone: Literal["good", "bad"] = "good"


def packed(flash: Flash, key: str) -> str:
    """Return a message as the value of a cookie."""
    short = flash.text if len(flash.text) <= _LONGEST else flash.text[: _LONGEST - 1] + "…"
    said = json.dumps(asdict(Flash(short, flash.tone)), ensure_ascii=False)
    body = urlsafe_b64encode(said.encode()).decode().rstrip("=")
    return f"{body}.{_mark(body, key)}"


def unpacked(value: str | None, key: str) -> Flash | None:
    """Return the message of a cookie; None where there is none, or where it is not ours."""
    body, _, mark = (value or "").partition(".")
    if not mark.isascii() or not hmac.compare_digest(mark, _mark(body, key)):
        return None
    return Flash(**json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def _mark(body: str, key: str) -> str:
    return hmac.digest(f"flash {key}".encode(), body.encode(), hashlib.sha256).hex()


def redirect(to: str, flash: Flash | None = None, *, visitor: Visitor | None = None) -> Response:
    """Return a redirection after a form, with a message for the next page."""
    response = RedirectResponse(to, status_code=303, headers={"Cache-Control": "no-store", **SECURITY_HEADERS})
    if flash is not None and visitor is not None:
        value = packed(flash, visitor.mark)
        response.set_cookie(SAID, value, max_age=_MAX_AGE, path="/", httponly=True, samesite="strict")
    return response


# --- Errors: a status, a sentence, a way back -----------------------------------------------------------------------

_STATUS = (  # of an error; the first that fits
    (NotAllowedError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (BadInputError, 422),
    (LedgerUnavailableError, 503),
    (LedgerRefusedError, 503),
)


class Heading(NamedTuple):
    """What a page of an error is headed with, and what to make of it."""

    title: str
    advice: str


_HEADINGS = {
    403: Heading("Not allowed", "You may look around, but not do this. Nothing was done."),
    404: Heading("Not found", "There is nothing at this address."),
    405: Heading("Not like this", "This address does not take that."),
    409: Heading("Somebody was first", "This contradicts what is on record. Nothing was done."),
    413: Heading("Too much at once", "Nothing was done: send less."),
    422: Heading("That cannot be read", "Something in the request is not as it should be."),
    429: Heading("Too often", "Wait a moment."),
    500: Heading("Something went wrong", "It was our side, not you; it has been noted in the log."),
    503: Heading("The ledger is away", "Nothing that is on record is lost. Try again shortly; the log says more."),
}
_STALE = Heading(
    "This page was open too long",
    "Its form belongs to a session that has ended since. Nothing was done: load the page again and repeat the step.",
)
_UNSURE = Heading(
    "The ledger is away",
    "Whether this was recorded is not certain: look before you repeat it, shortly. The log says more.",
)


def error_page(
    status: int,
    sentence: str = "",
    *,
    visitor: Visitor | None = None,
    heading: Heading | None = None,
    again: str = "",
) -> Response:
    """Return an error in the dress of the pages; the application calls it for addresses that nobody has.

    Args:
        status: The status of HTTP.
        sentence: What was complained about; nothing of our own inside.
        visitor: Who looks.
        heading: What it is headed with; by its status if not given.
        again: The page that should be loaded again, if one is known.
    """
    title, advice = heading or _HEADINGS.get(status) or Heading(HTTPStatus(status).phrase, "")
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


class PageRoute(APIRoute):
    """A route whose errors are pages, and which sends those who are nobody to sign in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with errors turned into pages."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except NotSignedInError:
                return redirect(text.with_query("/sign-in", next=_asked_for(request)))
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
    return text.own_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def _complaint(request: Request, error: Exception) -> Response:
    """Return an error as a page; what is not the caller's doing goes into the log."""
    visitor = getattr(request.state, "visitor", None)
    match error:
        case HTTPException():
            return error_page(error.status_code, str(error.detail or ""), visitor=visitor)
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
