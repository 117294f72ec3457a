"""The dashboard: pages for a browser, made on the server, with charts of our own and nothing from elsewhere.

A page is a file: what it shows, its routes, and what its forms do. `dashboard` is what pages work with, `sign_in` tells
who looks, `rendering` and `errors` make what is around pages; `rows` and `text` say what several pages show, `charts`
and `map` draw it as SVG. Pages work without script, which adds live updates, readings under the pointer and the choice
of theme.
"""

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError
from kinband.service.access.middleware import Limiter, failure_limits, request_limits
from kinband.service.access.tokens import Tokens
from kinband.service.dashboard import audit, changes, decision, digest, overview, plan, rails, similarity, stations
from kinband.service.dashboard.dashboard import Dashboard
from kinband.service.dashboard.errors import PageRoute, error_page
from kinband.service.dashboard.rendering import asset_answer
from kinband.service.dashboard.sign_in import Visitors, add_sign_in
from kinband.service.operations import Operations

if TYPE_CHECKING:
    from kinband.service.access.oidc import Provider

__all__ = ["dashboard_router", "error_page"]


def dashboard_router(
    operations: Operations,
    *,
    tokens: Tokens | None,
    insecure_local: bool = False,
    failures: Limiter | None = None,
    requests: Limiter | None = None,
    provider: "Provider | None" = None,
) -> APIRouter:
    """Return the routes of the dashboard, to be included at the root of an application.

    Args:
        operations: What is shown.
        tokens: What one signs in with; None only without access control.
        insecure_local: Whether there is no access control.
        failures: How often an address may fail to sign in; as usual if not given.
        requests: How many pages a visitor may ask for; as usual if not given.
        provider: The identity provider that people may sign in through.
    """
    if tokens is None and not insecure_local:
        raise BadInputError(
            "the dashboard needs tokens", hint="give them, or insecure_local to run without access control",
            argument="tokens",
        )  # fmt: skip
    asking = request_limits() if requests is None else requests  # nobody asked yet: a limiter is empty, and so not true
    visitors = Visitors(tokens, insecure_local=insecure_local, requests=asking, provider=provider)
    known = type("PageRoute", (PageRoute,), {"known": staticmethod(visitors.of)})
    router = APIRouter(route_class=known, include_in_schema=False)
    dashboard = Dashboard(router, operations, visitors)
    failing = failure_limits() if failures is None else failures
    add_sign_in(router, visitors, failures=failing)
    if provider is not None and tokens is not None:
        from kinband.service.dashboard.provider import add_provider

        add_provider(router, visitors, provider, tokens=tokens, failures=failing)
    for page in (overview, stations, changes, decision, plan, audit, digest, similarity, rails):
        page.add_pages(dashboard)

    @router.get("/static/{name}")
    def static(request: Request, name: str) -> Response:
        return asset_answer(request, name)

    @router.get("/help")
    def words(request: Request) -> Response:
        return dashboard.show(request, "help.html", dict)

    return router
