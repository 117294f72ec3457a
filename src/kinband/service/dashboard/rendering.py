"""How pages are made: templates, static files, and messages that the next page shows.

A message travels in a cookie for a minute, so that nothing is stored and any process can show it. Its HMAC-SHA256 is
keyed with the session's own secret, so that nobody without it can put words into our mouth; without access control
there is no secret, and anybody at the machine may.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Hashable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kinband import html
from kinband.errors import NotFoundError
from kinband.html import svg
from kinband.service.dashboard import charts, text
from kinband.service.operations.records import REWARD
from kinband.stats import counted
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

# --- Style sheet, script and icon: read once, named by their content, kept by browsers for a year -------------------
#
# An address holds a digest of what it leads to, so that a new version has a new address; whoever asks with another
# digest gets the present file and may not keep it.

_TYPES = {
    "kinband.css": "text/css; charset=utf-8",
    "kinband.js": "text/javascript; charset=utf-8",
    "kinband.svg": "image/svg+xml",
}


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
    etag, lasting = f'"{asset.digest}"', request.query_params.get("v") == asset.digest
    headers = {"ETag": etag, "Cache-Control": "public, max-age=31536000, immutable" if lasting else "no-cache"}
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
    named = (text.figure, text.signed, text.share, text.breakable, text.begun, svg.percent, svg.along)
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
        "ramp": charts.ramp,
        "marker_shapes": charts.MARKER_SHAPES,
        "sparkline": charts.sparkline,
        "version": __version__,
        "remembered": {name: remembered(name) for name in _ROWS},
    }
    return made


_ROWS = (
    "station_row",
    "plan_row",
    "lowest_row",
    "hope_row",
    "decision_row",
    "event_row",
    "ramp_key",
    "station_links",
    "station_options",
)  # macros of rows.html


def remembered(macro: str) -> Callable[..., Markup]:
    """Return a macro of `rows.html` that makes a row once of the same values: after an event most rows are the same."""

    @lru_cache(maxsize=4096)
    def made(*given: Hashable) -> Markup:
        row: Markup = getattr(environment().get_template("rows.html").module, macro)(*given)
        return row

    return made


def render(template: str, **shown: Any) -> str:
    """Return a page as text; what the frame around it shows is empty unless it is given."""
    frame = {
        "visitor": None,
        "flash": None,
        "seen": None,
        "etag": "",
        "path": "",
        "kept": "",
        "kpi": REWARD,
        "say": str,
    }
    return environment().get_template(template).render(frame | shown)


def plain_page(template: str, *, status: int = 200, **shown: Any) -> Response:
    """Return a page that is made for this once: browsers do not keep it, and it does not look for news."""
    headers = {"Cache-Control": "no-store", **SECURITY_HEADERS}
    return HTMLResponse(render(template, **shown), status_code=status, headers=headers)


# --- A message that the next page shows once: what came of a form ---------------------------------------------------

SAID = "kinband-said"
"""The name of the cookie."""
_MAX_AGE = 60  # seconds that a message waits for its page
_LONGEST = 500  # characters, of four bytes at most; a browser keeps 4,096 bytes of a cookie
_MOST_UNDONE = 50  # decisions named in it: more are taken back on the page of what is approved


class Flash(NamedTuple):
    """A message, its tone, and the decisions whose approval it offers to take back."""

    text: str
    tone: Literal["good", "bad"] = "good"
    undo: tuple[str, ...] = ()


def packed(flash: Flash, key: str) -> str:
    """Return a message as the value of a cookie."""
    short = flash.text if len(flash.text) <= _LONGEST else flash.text[: _LONGEST - 1] + "…"
    said = [short, flash.tone, flash.undo if len(flash.undo) <= _MOST_UNDONE else ()]
    body = urlsafe_b64encode(json.dumps(said, ensure_ascii=False).encode()).decode().rstrip("=")
    return f"{body}.{_mark(body, key)}"


def unpacked(value: str | None, key: str) -> Flash | None:
    """Return the message of a cookie; None where there is none, or where it is not ours."""
    body, _, mark = (value or "").partition(".")
    if not mark.isascii() or not hmac.compare_digest(mark, _mark(body, key)):
        return None
    words, tone, *undo = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return Flash(words, tone, tuple(*undo))


def _mark(body: str, key: str) -> str:
    return hmac.digest(f"flash {key}".encode(), body.encode(), hashlib.sha256).hex()


def redirect(to: str, flash: Flash | None = None, *, key: str = "") -> Response:
    """Return a redirection after a form, with a message for the next page that only who has the key is shown."""
    response = RedirectResponse(to, status_code=303, headers={"Cache-Control": "no-store", **SECURITY_HEADERS})
    if flash is not None:
        response.set_cookie(SAID, packed(flash, key), max_age=_MAX_AGE, path="/", httponly=True, samesite="strict")
    return response
