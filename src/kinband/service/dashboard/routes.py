"""The routes of the pages: who looks, what is shown, when it has not changed.

`dashboard_router` is mounted at the root of the service. Reading is here, forms are in `actions` and `railing`.
"""

from math import ceil
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError
from kinband.service import tables
from kinband.service.access.middleware import Limiter, address_of, failure_limits
from kinband.service.access.sessions import COOKIE, COOKIE_ATTRIBUTES, check_origin
from kinband.service.access.tokens import NotSignedInError, Tokens
from kinband.service.dashboard import actions, addresses, assets, railing
from kinband.service.dashboard.desk import Desk
from kinband.service.dashboard.errors import PageRoute
from kinband.service.dashboard.frame import plain_page, redirect
from kinband.service.dashboard.kept import Kept
from kinband.service.dashboard.views import audit
from kinband.service.dashboard.views.common import names_of
from kinband.service.dashboard.views.decision import decision, plan
from kinband.service.dashboard.views.overview import overview
from kinband.service.dashboard.views.similarity import Likeness, similarity
from kinband.service.dashboard.views.station import station
from kinband.service.dashboard.views.stations import stations
from kinband.service.dashboard.visitors import Visitors
from kinband.service.operations import Operations

Text = Annotated[str, Query(max_length=500)]
_FOR_EVER = "private, max-age=31536000, immutable"


def dashboard_router(
    operations: Operations,
    *,
    tokens: Tokens | None,
    insecure_local: bool = False,
    failures: Limiter | None = None,
) -> APIRouter:
    """Return the routes of the dashboard, to be included at the root of an application.

    Args:
        operations: What is shown.
        tokens: What one signs in with; None only without access control.
        insecure_local: Whether there is no access control.
        failures: How often an address may fail to sign in; as usual if not given.
    """
    if tokens is None and not insecure_local:
        raise BadInputError("the dashboard needs tokens, or insecure_local to run without access control")
    visitors = Visitors(tokens, insecure_local=insecure_local)
    desk = Desk(operations, visitors, Likeness(), Kept())
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    _add_doors(router, visitors, failures or failure_limits())
    _add_pages(router, desk)
    _add_similarity(router, desk)
    _add_files(router, desk)
    railing.add_rails(router, desk)
    actions.add_actions(router, operations, visitors)
    return router


def _add_doors(router: APIRouter, visitors: Visitors, failures: Limiter) -> None:
    """Add what everybody may see: static files, and the page to sign in."""

    @router.get("/static/{name}")
    def static(request: Request, name: str) -> Response:
        return assets.answer(request, name)

    @router.get("/sign-in")
    def sign_in(next: Text = "/") -> Response:  # noqa: A002 - the name of the field
        return redirect("/") if visitors.local else plain_page("sign_in.html", next=addresses.own_path(next), said="")

    @router.post("/sign-in")
    def signed_in(
        request: Request,
        token: Annotated[str, Form(max_length=500)] = "",
        next: Annotated[str, Form(max_length=500)] = "/",  # noqa: A002 - the name of the field
    ) -> Response:
        check_origin(request.method, request.headers)
        back = addresses.own_path(next)
        try:
            value, seconds = visitors.sign_in(token)
        except NotSignedInError as error:
            if wait := failures.take(address_of(request.client.host if request.client else None)):
                raise HTTPException(429, f"too many tokens were refused from here: wait {ceil(wait)} s") from error
            return plain_page("sign_in.html", status=401, next=back, said=str(error))
        response = redirect(back)
        response.set_cookie(COOKIE, value, max_age=seconds, **COOKIE_ATTRIBUTES)
        return response

    @router.post("/sign-out")
    def sign_out(request: Request) -> Response:
        check_origin(request.method, request.headers)
        response = redirect("/sign-in")
        response.delete_cookie(COOKIE, **COOKIE_ATTRIBUTES)
        return response


def _add_pages(router: APIRouter, desk: Desk) -> None:
    operations = desk.operations

    @router.get("/")
    def first(request: Request, colour: Text = "") -> Response:
        return desk.show(request, "overview.html", lambda: overview(operations, colour))

    @router.get("/stations")
    def all_stations(request: Request, q: Text = "", sort: Text = "", down: Text = "", page: int = 1) -> Response:
        return desk.show(
            request,
            "stations.html",
            lambda: stations(operations, q=q, sort=sort, down=down == "1", page=page),
        )

    @router.get("/stations/{name:path}")
    def one_station(request: Request, name: str, evidence: Text = "") -> Response:
        known, weighed = addresses.read(name), evidence == "1"
        return desk.show(request, "station.html", lambda: station(operations, known, evidence=weighed), still=weighed)

    @router.get("/decisions/{decision_id:path}")
    def one_decision(request: Request, decision_id: str, evidence: Text = "") -> Response:
        known, weighed = addresses.read(decision_id), evidence == "1"
        return desk.show(request, "decision.html", lambda: decision(operations, known, evidence=weighed), still=weighed)

    @router.get("/plan")
    def the_plan(request: Request) -> Response:
        return desk.show(request, "plan.html", lambda: plan(operations), ages=True)

    @router.get("/audit")
    def the_log(
        request: Request, filters: Annotated[audit.Filters, Depends(_filters)], before: int | None = None
    ) -> Response:
        return desk.show(request, "audit.html", lambda: audit.audit(operations, filters, before=before))

    @router.get("/help")
    def words(request: Request) -> Response:
        return desk.show(request, "help.html", dict)


def _add_similarity(router: APIRouter, desk: Desk) -> None:
    @router.get("/similarity")
    def alike(request: Request, alike: float = 0.7, station: Text = "") -> Response:
        return desk.show(request, "similarity.html", lambda: similarity(desk.alike(), level=alike, station=station))

    @router.get("/similarity/picture.png")
    def picture(request: Request, v: Text = "") -> Response:
        return _kept(request, desk, v, "image/png")

    @router.get("/similarity/data.json")
    def data(request: Request, v: Text = "") -> Response:
        return _kept(request, desk, v, "application/json")


def _kept(request: Request, desk: Desk, version: str, media: str) -> Response:
    """Return the picture or its numbers; what was asked for by its digest may be kept for ever."""
    desk.visitors.of(request)
    found = desk.alike()
    headers = {
        "Cache-Control": _FOR_EVER if version == found.digest else "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(found.image if media == "image/png" else found.data(), media_type=media, headers=headers)


def _filters(
    station: Text = "", kind: Text = "", actor: Text = "", since: Text = "", until: Text = "", every: Text = ""
) -> audit.Filters:
    """Return which events an address asks for."""
    return audit.Filters(station, kind, actor, since=since, until=until, every=every == "1")


def _add_files(router: APIRouter, desk: Desk) -> None:
    @router.get("/plan.csv")
    def plan_file(request: Request) -> Response:
        desk.visitors.of(request)
        desk.operations.refresh()
        with desk.operations.looking() as picture:
            items = picture.waiting()
        return tables.plan_file(items, names_of(desk.operations).space)

    @router.get("/audit.csv")
    def audit_file(request: Request, filters: Annotated[audit.Filters, Depends(_filters)]) -> Response:
        desk.visitors.of(request)
        rows = audit.file_rows(desk.operations, filters)
        return tables.csv_answer("audit.csv", audit.HEADER, rows)
