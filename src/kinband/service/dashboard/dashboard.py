"""What the pages work with: operations, visitors, and how a page is shown or a form is answered.

A page is the same as long as nothing is recorded: it carries a weak ETag made of the number of the last event, of who
looks, of the address and of the hour (of the minute where ages are shown), so that looking again costs next to nothing.
Whoever posts a form gets a redirection, and the message in a cookie.

A page may be minutes old when its button is pressed: what contradicts the record is answered on the next page, in the
record's own words.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Form, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kinband.errors import BadInputError, ConflictError
from kinband.service.dashboard.errors import public_words
from kinband.service.dashboard.groups import Groups
from kinband.service.dashboard.rendering import (
    SAID,
    SECURITY_HEADERS,
    Flash,
    asked_before,
    assets,
    redirect,
    render,
    unpacked,
)
from kinband.service.dashboard.rows import Looks, names_of
from kinband.service.dashboard.sign_in import Visitors
from kinband.service.dashboard.text import station_url, with_query
from kinband.service.operations import Operations
from kinband.service.paths import read
from kinband.version import __version__

STALE = "The ledger cannot be reached: this is how things stood when it last could."
"""What is said above a page while the ledger is away."""

RANGE = ("range", "since", "until")
"""What of an address says over which time a page goes; links between pages keep it."""

Text = Annotated[str, Query(max_length=500)]
Line = Annotated[str, Form(max_length=2000)]
_Ids = Annotated[list[str], Form()]


class Seen(NamedTuple):
    """How things stand when a page is asked for, as the frame around every page shows it.

    Attributes:
        seq: Number of the last event.
        now: The service's time; what pages say of ages may be an hour old, a minute on those that are about them.
        waiting: How many decisions wait for a person.
        stopped: Why everything is stopped; None if it is not.
        resume: Who wants to resume, where that takes a second person, else empty.
        doubt: Why the clock cannot be trusted, else empty.
        stale: Why what is shown may be old, else empty.
    """

    seq: int
    now: datetime
    waiting: int
    stopped: str | None
    resume: str
    doubt: str
    stale: str


class Sent(NamedTuple):
    """What somebody sent by a form: who, which station, why, and what else there is to choose."""

    actor: str
    station: str
    comment: str
    mode: str
    ids: Sequence[str]


@dataclass(frozen=True)
class Dashboard:
    """What the pages work with."""

    router: APIRouter
    operations: Operations
    visitors: Visitors
    looks: Looks = field(default_factory=Looks)
    groups: Groups = field(default_factory=Groups)

    def seen(self) -> Seen:
        """Return how things stand, with what other processes have recorded."""
        stale = "" if self.operations.try_refresh() else STALE
        time = self.operations.reading()
        first = self.operations.proposed("resume")
        with self.operations.looking() as read_model:
            waiting, stopped = len(read_model.waiting()), read_model.stopped
            wants = "" if first is None else first.actor
            return Seen(read_model.seq, time.now, waiting, stopped, wants, time.doubt, stale)

    def show(
        self,
        request: Request,
        template: str,
        context: Callable[[], dict[str, Any]],
        *,
        ages: bool = False,
        still: bool = False,
    ) -> Response:
        """Return a page to whoever may look, or that it has not changed.

        Args:
            request: Who asks for what.
            template: Name of the template.
            context: Works out what it shows; not called where nothing has changed.
            ages: Whether it tells how old things are, so that it is made anew every minute.
            still: Whether it does not look for news, since it takes long to make.
        """
        visitor, seen = self.visitors.of(request), self.seen()
        flash = unpacked(request.cookies.get(SAID), visitor.mark)
        time = seen.now.strftime("%Y-%m-%dT%H:%M" if ages else "%Y-%m-%dT%H")
        etag = _etag(seen.seq, time, visitor.mark, request.url.query, request.url.path, seen.stale, bool(seen.doubt))
        headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Cookie", **SECURITY_HEADERS}
        if flash is None and asked_before(request, etag):
            return Response(status_code=304, headers=headers)
        given = {name: request.query_params.get(name, "")[:500] for name in RANGE}
        kept = with_query("", **given)
        names = names_of(self.operations)
        frame: dict[str, Any] = {"visitor": visitor, "flash": flash, "seen": seen, "etag": "" if still else etag}
        frame |= {"kept": kept, "kpi": names.kpi, "say": names.words}
        response = HTMLResponse(render(template, **frame, path=request.url.path, **context()), headers=headers)
        if SAID in request.cookies:
            response.headers["Cache-Control"] = "no-store"
            response.delete_cookie(SAID, path="/", httponly=True, samesite="strict")
        return response

    def form(self, path: str, *, role: str, back: str = "") -> Callable[[Callable[[Sent], str | Flash]], None]:
        """Return a decorator that lets a function answer a form: it acts and returns what to say on the next page.

        Args:
            path: What the form is sent to; `{name:path}` in it is a station.
            role: What its sender needs.
            back: The next page; that of the station if not given.
        """

        def add(act: Callable[[Sent], str | Flash]) -> None:
            @self.router.post(path)
            def answer(
                request: Request,
                name: str = "",
                id: _Ids = [],  # noqa: A002, B006 - the name of the field; nobody changes it
                mode: Line = "",
                comment: Line = "",
                csrf: Line = "",
            ) -> Response:
                visitor = self.visitors.sender(request, csrf=csrf, role=role)
                sent = Sent(visitor.name, read(name), comment, mode, id)
                try:
                    said = act(sent)
                except (BadInputError, ConflictError) as error:
                    said = Flash(f"Nothing was done: {public_words(error)}.", "bad")
                flash = said if isinstance(said, Flash) else Flash(said)
                return redirect(back or station_url(sent.station), flash, key=visitor.mark)

        return add


def _etag(*parts: object) -> str:
    look = "".join(asset.digest for asset in assets().values())
    words = "\n".join([__version__, look, *map(str, parts)])
    return f'W/"{hashlib.sha256(words.encode()).hexdigest()[:24]}"'
