"""The routes of the dashboard: the doors that everybody may see, and behind them the pages, a file each.

`dashboard_router` is mounted at the root of the service.
"""

from math import ceil
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError
from kinband.service.access.middleware import Limiter, address_of, failure_limits
from kinband.service.access.sessions import COOKIE, COOKIE_ATTRIBUTES, check_origin
from kinband.service.access.tokens import NotSignedInError, Tokens
from kinband.service.dashboard import audit, decision, overview, plan, rails, similarity, stations
from kinband.service.dashboard.desk import Desk, Text
from kinband.service.dashboard.frame import PageRoute, asset_answer, plain_page, redirect
from kinband.service.dashboard.text import own_path
from kinband.service.dashboard.visitors import Visitors
from kinband.service.operations import Operations


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
        raise BadInputError(
            "the dashboard needs tokens", hint="give them, or insecure_local to run without access control",
            argument="tokens",
        )  # fmt: skip
    router = APIRouter(route_class=PageRoute, include_in_schema=False)
    desk = Desk(router, operations, Visitors(tokens, insecure_local=insecure_local))
    _add_doors(desk, failures or failure_limits())
    for page in (overview, stations, decision, plan, audit, similarity, rails):
        page.add_pages(desk)

    @router.get("/help")
    def words(request: Request) -> Response:
        return desk.show(request, "help.html", dict)

    return router


def _add_doors(desk: Desk, failures: Limiter) -> None:
    """Add what everybody may see: static files, and the page to sign in."""
    router, visitors = desk.router, desk.visitors

    @router.get("/static/{name}")
    def static(request: Request, name: str) -> Response:
        return asset_answer(request, name)

    @router.get("/sign-in")
    def sign_in(next: Text = "/") -> Response:  # noqa: A002 - the name of the field
        return redirect("/") if visitors.local else plain_page("sign_in.html", next=own_path(next), said="")

    @router.post("/sign-in")
    def signed_in(
        request: Request,
        token: Annotated[str, Form(max_length=500)] = "",
        next: Annotated[str, Form(max_length=500)] = "/",  # noqa: A002 - the name of the field
    ) -> Response:
        check_origin(request.method, request.headers)
        back = own_path(next)
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
