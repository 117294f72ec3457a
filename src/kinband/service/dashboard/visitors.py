"""Who looks at the pages: the session of a cookie, or whoever sits at the machine of a service without access control.

A page needs a viewer; who is nobody is sent to sign in. A form needs more: it has to come from one of our own pages
(`access.sessions.check_request`), and its sender must have the role, whatever buttons the page has shown.
"""

import hashlib
from dataclasses import dataclass, field

from starlette.requests import Request

from kinband.service.access.sessions import COOKIE, Session, Sessions, check_origin, check_request
from kinband.service.access.tokens import Identity, NotSignedInError, Role, Tokens


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
    def role(self) -> str:
        """The role in words."""
        return str(self.session.identity.role)

    @property
    def csrf(self) -> str:
        """What forms repeat."""
        return self.session.csrf

    def may(self, role: str) -> bool:
        """Return whether the visitor may do what a role may."""
        return self.session.identity.may(Role.of(role))


class Visitors:
    """Tells who comes.

    Args:
        tokens: What one signs in with; None only without access control.
        insecure_local: Whether the service runs without access control.
    """

    def __init__(self, tokens: Tokens | None, *, insecure_local: bool = False) -> None:
        self.local = insecure_local
        self.sessions = None if tokens is None else Sessions(tokens)

    def of(self, request: Request) -> Visitor:
        """Return who sends a request, or refuse with `NotSignedInError`; error pages find it in the request's state."""
        visitor: Visitor = self._of(request)
        request.state.visitor = visitor
        return visitor

    def _of(self, request: Request) -> Visitor:
        if self.local:
            return Visitor(Session(Identity.local(), "", 0), "local", local=True)
        value = request.cookies.get(COOKIE)
        if value is None or self.sessions is None:
            raise NotSignedInError("session")
        session = self.sessions.read_session(value, reading=request.method in ("GET", "HEAD"))
        return Visitor(session, hashlib.sha256(value.encode()).hexdigest()[:16])

    def sender(self, request: Request, *, csrf: str, role: str) -> Visitor:
        """Return who sends a form, or refuse: not signed in, sent by another site, or not in that role."""
        visitor = self.of(request)
        if self.local:
            check_origin(request.method, request.headers)
        else:
            check_request(visitor.session, request.method, headers=request.headers, field=csrf)
        visitor.session.identity.require(Role.of(role))
        return visitor

    def sign_in(self, token: str) -> tuple[str, int]:
        """Return the value of a new session's cookie and for how many seconds it is kept, or refuse."""
        if self.sessions is None:
            raise NotSignedInError("unknown")
        return self.sessions.new_session(token.strip()), self.sessions.max_age
