"""The week in figures, as a page and as a file."""

from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kinband.service.dashboard.dashboard import Dashboard, Text
from kinband.service.digest import Digests, digest_file, shown, week_named, week_of

_SOON, _LATER = 1.5, 60.0  # seconds that a page, and a file, wait for a digest


def add_pages(dashboard: Dashboard) -> None:
    """Add the page and its file."""
    operations, digests = dashboard.operations, Digests(dashboard.operations)

    @dashboard.router.get("/digest")
    def the_week(request: Request, week: Text = "") -> Response:
        dashboard.visitors.of(request)
        name = week or week_of(operations.now())
        found = digests.of(name, seconds=_SOON)
        about = {**_around(name, week_of(operations.now())), "ready": found is not None}
        context = about if found is None else {**about, **shown(found, operations)}
        return dashboard.show(request, "digest.html", lambda: context, ages=True, still=True)

    @dashboard.router.get("/digest/file")
    def the_file(request: Request, week: Text = "") -> Response:
        dashboard.visitors.of(request)
        name = week or week_of(operations.now())
        found = digests.of(name, seconds=_LATER)
        if found is None:
            return HTMLResponse("The week is being worked out: try again in a minute.", 503, {"Retry-After": "60"})
        headers = {"Content-Disposition": f'attachment; filename="kinband-{name}.html"', "Cache-Control": "no-store"}
        return HTMLResponse(digest_file(found, operations), headers=headers)


def _around(week: str, present: str) -> dict[str, Any]:
    begin = week_named(week)
    return {
        "week": week,
        "earlier": week_of(begin - timedelta(days=7)) if begin.year > 1970 else "",
        "later": week_of(begin + timedelta(days=7)) if week < present else "",
    }
