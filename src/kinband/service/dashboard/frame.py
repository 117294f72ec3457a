"""What all pages share: templates, the frame around them, and how long browsers keep them.

A page is the same as long as nothing is recorded: it carries a weak ETag made of the number of the last event, of who
looks, of the address and of the hour (of the minute where ages are shown), so that looking again costs next to nothing:
a browser that has it is told so, and another gets it from memory. Whoever posts a form gets a redirection, and the
message in a cookie.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kinband.counting import counted
from kinband.service.dashboard import addresses, figures, flashes, pieces, words
from kinband.service.dashboard.assets import asked_before, assets
from kinband.service.dashboard.charts import bars, lines
from kinband.service.dashboard.kept import Kept
from kinband.service.dashboard.visitors import Visitor
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

STALE = "The ledger cannot be reached: this is how things stood when it last could."
"""What is said above a page while the ledger is away."""


@cache
def environment() -> Environment:
    """Return the templates with everything that they may use."""
    made = Environment(
        loader=PackageLoader("kinband.service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "figure": figures.figure,
        "signed": figures.signed,
        "share": figures.share,
        "knobs": figures.knobs,
        "when": figures.time_tag,
        "station_link": pieces.station_link,
        "actor_link": pieces.actor_link,
        "breakable": pieces.breakable,
        "decision_link": pieces.decision_link,
        "mode_tag": pieces.mode_tag,
        "status_tag": pieces.status_tag,
        "moves_tag": pieces.moves_tag,
    }
    made.globals |= {
        "interval": figures.interval,
        "count": counted,
        "station_url": addresses.station_url,
        "decision_url": addresses.decision_url,
        "with_query": addresses.with_query,
        "status_words": words.STATUS_WORDS,
        "mode_words": words.MODE_WORDS,
        "by_words": words.BY_WORDS,
        "asset": lambda name: assets()[name].url,
        "swatch": bars.swatch,
        "bar": bars.bar,
        "ramp_key": bars.ramp_key,
        "line_key": bars.line_key,
        "marker_key": lines.marker_key,
        "version": __version__,
    }
    return made


@dataclass(frozen=True, slots=True)
class Seen:
    """How things stand when a page is asked for, as the frame around every page shows it.

    Attributes:
        seq: Number of the last event.
        now: The service's time; what pages say of ages may be an hour old, a minute on those that are about them.
        waiting: How many decisions wait for a person.
        stopped: Why everything is stopped; None if it is not.
        stale: Why what is shown may be old, else empty.
    """

    seq: int
    now: datetime
    waiting: int = 0
    stopped: str | None = None
    stale: str = ""


def page(
    request: Request,
    template: str,
    context: Callable[[], dict[str, Any]],
    *,
    visitor: Visitor,
    seen: Seen,
    kept: Kept,
    ages: bool = False,
    still: bool = False,
) -> Response:
    """Return a page, or that it has not changed.

    Args:
        request: Who asks for what.
        template: Name of the template.
        context: Works out what it shows; not called where nothing has changed.
        visitor: Who looks.
        seen: How things stand.
        kept: Pages made before.
        ages: Whether it tells how old things are, so that it is made anew every minute.
        still: Whether it does not look for news, since it takes long to make.
    """
    flash = flashes.unpacked(request.cookies.get(flashes.COOKIE), visitor.mark)
    time = seen.now.strftime("%Y-%m-%dT%H:%M" if ages else "%Y-%m-%dT%H")
    etag = _etag(seen.seq, time, visitor.mark, request.url.query, request.url.path, seen.stale)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Cookie", **SECURITY_HEADERS}
    if flash is None and asked_before(request, etag):
        return Response(status_code=304, headers=headers)
    body = None if flash is not None else kept.get(etag)
    if body is None:
        live = "" if still else etag
        frame = {"visitor": visitor, "flash": flash, "seen": seen, "etag": live, "path": request.url.path}
        body = environment().get_template(template).render(frame | context()).encode()
    if flash is None:
        kept.put(etag, body)
    response = HTMLResponse(body, headers=headers)
    if flashes.COOKIE in request.cookies:
        response.headers["Cache-Control"] = "no-store"
        response.delete_cookie(flashes.COOKIE, path="/", httponly=True, samesite="strict")
    return response


def _etag(*parts: object) -> str:
    look = "".join(asset.digest for asset in assets().values())
    text = "\n".join([__version__, look, *map(str, parts)])
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'


def plain_page(template: str, *, status: int = 200, visitor: Visitor | None = None, **shown: Any) -> Response:
    """Return a page that is made for this once: browsers do not keep it, and it does not look for news."""
    frame = {"visitor": visitor, "flash": None, "seen": None, "etag": "", "path": ""}
    body = environment().get_template(template).render(frame | shown)
    return HTMLResponse(body, status_code=status, headers={"Cache-Control": "no-store", **SECURITY_HEADERS})


def redirect(to: str, flash: flashes.Flash | None = None, *, visitor: Visitor | None = None) -> Response:
    """Return a redirection after a form, with a message for the next page."""
    response = RedirectResponse(to, status_code=303, headers={"Cache-Control": "no-store", **SECURITY_HEADERS})
    if flash is not None and visitor is not None:
        response.set_cookie(
            flashes.COOKIE, flashes.packed(flash, visitor.mark), max_age=flashes.MAX_AGE, path="/", httponly=True,
            samesite="strict",
        )  # fmt: skip
    return response
