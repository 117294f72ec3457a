"""Who looks at the pages, and the page to sign in: the session of a cookie, or whoever sits at the machine.

A page needs a viewer; who is nobody is sent to sign in. A form needs more: it has to come from one of our own pages
(`access.sessions.check_request`), and its sender must have the role, whatever buttons the page has shown. How long the
cookie lasts is said in `access.sessions`.
"""

import hashlib
from dataclasses import dataclass, field
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Query
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinband.service.access.middleware import LOG, Limiter, address_of, bucket_of
from kinband.service.access.sessions import (
    COOKIE,
    COOKIE_ATTRIBUTES,
    LIFETIME,
    Session,
    Sessions,
    check_origin,
    check_request,
)
from kinband.service.access.tokens import Identity, NotSignedInError, Role, Tokens, TtlCache
from kinband.service.dashboard.rendering import plain_page, redirect
from kinband.service.dashboard.text import own_path, with_query
from kinband.service.ledger import LedgerUnavailableError

if TYPE_CHECKING:
    from kinband.service.access.oidc import Provider


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who looks at a page.

    Attributes:
        session: Who, with what forms have to repeat.
        mark: What tells the session from others, without telling it.
        local: Whether the service runs without access control.
    """

    session: Session
    mark: str = field(repr=False)
    local: bool = False

    @property
    def name(self) -> str:
        """The name that goes on record."""
        return self.session.identity.name

    @property
    def id(self) -> str:
        """The id of the token that was signed in with; empty without access control."""
        return self.session.identity.id

    def may(self, role: str) -> bool:
        """Return whether the visitor may do what a role may."""
        return self.session.identity.may(Role.of(role))


class Visitors:
    """Tells who comes.

    Args:
        tokens: What one signs in with; None only without access control.
        insecure_local: Whether the service runs without access control.
        requests: How many pages a visitor may ask for.
        provider: The identity provider that one may sign in through.

    Attributes:
        vouched: The provider's tokens, by the id of ours, as far as this process has seen them.
    """

    def __init__(
        self,
        tokens: Tokens | None,
        *,
        requests: Limiter,
        insecure_local: bool = False,
        provider: "Provider | None" = None,
    ) -> None:
        self.local, self._requests, self.provider = insecure_local, requests, provider
        self.vouched = TtlCache[str](seconds=LIFETIME.total_seconds(), most=1000, clock=monotonic)
        self.sessions = None if tokens is None else Sessions(tokens)

    def of(self, request: Request) -> Visitor:
        """Return who sends a request, or refuse with `NotSignedInError`; error pages find it in the request's state."""
        known: Visitor | None = getattr(request.state, "visitor", None)
        if known is not None:
            return known
        if self.local:
            visitor = Visitor(Session(Identity.local(), "", 0), "local", local=True)
        else:
            value = request.cookies.get(COOKIE)
            if value is None or self.sessions is None:
                raise NotSignedInError("session")
            session = self.sessions.read_session(value, reading=request.method in ("GET", "HEAD"))
            visitor = Visitor(session, hashlib.sha256(value.encode()).hexdigest()[:16])
        request.state.visitor = visitor
        if wait := self._requests.take(bucket_of(visitor.id or visitor.name, request.url.path)):
            seconds = str(max(1, ceil(wait)))
            raise HTTPException(429, f"too many pages at once: wait {seconds} s", headers={"Retry-After": seconds})
        return visitor

    def sender(self, request: Request, *, csrf: str, role: str) -> Visitor:
        """Return who sends a form, or refuse: not signed in, sent by another site, or not in that role."""
        visitor = self.of(request)
        if self.local:
            check_origin(request.method, request.headers)
        else:
            check_request(visitor.session, request.method, headers=request.headers, field=csrf)
        visitor.session.identity.require(Role.of(role))
        return visitor


def sign_in_page(visitors: Visitors, *, next: str, said: str = "", status: int = 200) -> Response:  # noqa: A002
    """Return the page to sign in: where to go then, and what was refused, if something was."""
    label = None if visitors.provider is None else visitors.provider.settings.label
    there = with_query("/sign-in/provider", next="" if next == "/" else next)
    return plain_page("sign_in.html", status=status, next=next, said=said, label=label, there=there)


def add_sign_in(router: APIRouter, visitors: Visitors, *, failures: Limiter) -> None:
    """Add the page to sign in, and what signs out; `failures` is how often an address may fail."""

    @router.get("/sign-in")
    def sign_in(next: Annotated[str, Query(max_length=500)] = "/") -> Response:  # noqa: A002 - the name of the field
        return redirect("/") if visitors.local else sign_in_page(visitors, next=own_path(next))

    @router.post("/sign-in")
    def signed_in(
        request: Request,
        token: Annotated[str, Form(max_length=500)] = "",
        next: Annotated[str, Form(max_length=500)] = "/",  # noqa: A002 - the name of the field
    ) -> Response:
        check_origin(request.method, request.headers)
        try:
            if visitors.sessions is None:
                raise NotSignedInError("unknown")
            value = visitors.sessions.new_session(token.strip())
        except NotSignedInError as error:
            if wait := failures.take(address_of(request.client.host if request.client else None)):
                raise HTTPException(429, f"too many tokens were refused from here: wait {ceil(wait)} s") from error
            return sign_in_page(visitors, next=own_path(next), said=str(error), status=401)
        response = redirect(own_path(next))
        response.set_cookie(COOKIE, value, max_age=visitors.sessions.max_age, **COOKIE_ATTRIBUTES)
        return response

    @router.post("/sign-out")
    def sign_out(request: Request) -> Response:
        check_origin(request.method, request.headers)
        response, value = redirect("/sign-in"), request.cookies.get(COOKIE)
        if value is not None and visitors.sessions is not None:
            if (there := _signed_out_of(visitors, value)) is not None:
                response = plain_page("onwards.html", title="Signed out", to=there, said="You are signed out here.")
            try:
                visitors.sessions.end_session(value)
            except LedgerUnavailableError as error:
                LOG.warning("a session that was signed out of lasts until its end: %s", error)
        response.delete_cookie(COOKIE, **COOKIE_ATTRIBUTES)
        return response


def _signed_out_of(visitors: Visitors, value: str) -> str | None:
    """Return where to sign out of the identity provider, for a session that it vouched for and if it has such a place.

    A form may not lead to another site, by what we ask of browsers; the page in between leads there by itself.
    """
    if visitors.provider is None or visitors.sessions is None:
        return None
    try:
        session = visitors.sessions.read_session(value, reading=True)
        vouched = visitors.sessions.vouched_for(session)
    except (NotSignedInError, LedgerUnavailableError):
        return None
    token = visitors.vouched.recall(session.identity.id)
    return visitors.provider.sign_out_url(token) if vouched else None
