"""Who may call what: the role that every operation needs, and who is let in."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from starlette.requests import Request

from kinband.errors import BadInputError
from kinband.service.access.middleware import LOG, Limiter, address_of, bucket_of, failure_limits, request_limits
from kinband.service.access.sessions import check_origin
from kinband.service.access.tokens import Identity, NotSignedInError, Role, Tokens, TtlCache
from kinband.service.api.errors import RefusedError

if TYPE_CHECKING:
    from kinband.service.access.oidc import Provider

# --- Which role every operation needs: the whole table, in one place ------------------------------------------------
#
# Viewers look. Operators do what a shift does: ask, tell, approve, roll back, freeze, stop, and resume as well, since
# the one who stopped in a hurry must be able to go on. Admins change how the network is run: modes, stations, rails.
# Open to anybody is what has `None`: a probe has no token. An operation that is not in the table cannot be made.

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN

ROLES: dict[str, Role | None] = {
    "ask": OPERATOR,
    "list_decisions": VIEWER,
    "get_decision": VIEWER,
    "explain": VIEWER,
    "report_applied": OPERATOR,
    "call_off": OPERATOR,
    "tell": OPERATOR,
    "correct": OPERATOR,
    "send_counters": OPERATOR,
    "approve": OPERATOR,
    "withdraw": OPERATOR,
    "get_plan": VIEWER,
    "get_orders": VIEWER,
    "confirm": OPERATOR,
    "fail": OPERATOR,
    "list_stations": VIEWER,
    "add_station": ADMIN,
    "get_station": VIEWER,
    "remove_station": ADMIN,
    "get_outlook": VIEWER,
    "get_history": VIEWER,
    "roll_back": OPERATOR,
    "freeze": OPERATOR,
    "thaw": OPERATOR,
    "get_mode": VIEWER,
    "set_mode": ADMIN,
    "stop": OPERATOR,
    "resume": OPERATOR,
    "set_clock": ADMIN,
    "list_configurations": VIEWER,
    "get_similarity": VIEWER,
    "list_events": VIEWER,
    "get_rails": VIEWER,
    "set_rails": ADMIN,
    "export_decisions": VIEWER,
    "export_events": VIEWER,
    "export_outcomes": VIEWER,
    "health": None,
    "ready": None,
    "metrics": VIEWER,
}
"""The least role by operation."""


def needs(operation: str) -> str:
    """Return in words what an operation needs."""
    role = ROLES[operation]
    return "Open to anybody." if role is None else f"Needs the role {role}."


# --- Who is let in: every request shows a token, or the service runs without access control on its own machine ------
#
# Without access control, whoever reaches the port may do everything; so only the host names of this machine are
# answered (`access.middleware.LoopbackOnly`), and no page of another site that a browser here has open
# (`access.sessions.check_origin`).

READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing: for these a token that was known a moment ago will do while the database is away."""
_ONCE = timedelta(seconds=1)
"""How long a token lasts that is made only to put a name on record."""
CHALLENGE = 'Bearer realm="kinband"'


@dataclass(frozen=True)
class Limits:
    """How much callers may ask for.

    Attributes:
        requests: By identity.
        failures: Failed sign-ins, by address.

    Example:
        >>> Limits.usual().requests.take("k3Vq90Xz")
        0.0
    """

    requests: Limiter
    failures: Limiter

    @classmethod
    def usual(cls) -> "Limits":
        """Return those of a service that was not told otherwise."""
        return cls(request_limits(), failure_limits())


@dataclass(frozen=True)
class Authenticator:
    """Says who sends a request, and whether that role may.

    Attributes:
        tokens: Who is known; None only without access control.
        insecure_local: Whether there is no access control.
        limits: How much callers may ask for.
        provider: The identity provider whose access tokens are taken too.
        names: What those are called whom it vouches for, which never changes.
    """

    tokens: Tokens | None
    insecure_local: bool
    limits: Limits
    provider: "Provider | None" = None
    names: TtlCache[str] = field(default_factory=lambda: TtlCache(seconds=300, most=1000, clock=monotonic), repr=False)

    def __post_init__(self) -> None:
        if self.tokens is None and not self.insecure_local:
            raise BadInputError("a service needs tokens, or insecure_local to run without access control")

    def admit(self, request: Request, role: Role) -> Identity:
        """Return who sends a request that needs a role, or refuse it."""
        if self.insecure_local:
            check_origin(request.method, request.headers)
        identity = Identity.local() if self.insecure_local else self._known(request)
        wait = self.limits.requests.take(bucket_of(identity.id or identity.name, request.url.path))
        if wait:
            raise _later(wait, "too many requests")
        identity.require(role)
        return identity

    def _known(self, request: Request) -> Identity:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise RefusedError(
                401,
                "this needs a token: send the header Authorization: Bearer kb_...",
                headers={"WWW-Authenticate": CHALLENGE},
            )
        assert self.tokens is not None  # noqa: S101
        try:
            if self.provider is not None and text.lstrip().startswith("eyJ"):  # how a JSON web token begins
                return self._vouched_for(text.strip(), self.provider, self.tokens)
            return self.tokens.authenticate(text.strip(), reading=request.method in READS)
        except NotSignedInError as error:
            host = request.client.host if request.client else None
            wait = self.limits.failures.take(address_of(host))
            LOG.warning("a token was refused: %s", error if error.reason == "provider" else error.reason)
            if wait:
                raise _later(wait, "too many tokens were refused from this address") from error
            raise

    def _vouched_for(self, text: str, provider: "Provider", tokens: Tokens) -> Identity:
        """Return who comes with an access token of the identity provider, under the name of the first time."""
        now = datetime.fromisoformat(tokens.ledger.now())
        person = provider.identify(text, now=int(now.timestamp()))
        name = self.names.recall(person.subject)
        if name is None:
            turn = self.names.turn
            name = tokens.known_as(person.subject)
            if name is None:
                name = tokens.sign_in(person.subject, person.name, person.role, expires_in=_ONCE).record.name
            self.names.keep(person.subject, name, turn=turn)
        return Identity("", name, person.role)


def _later(wait: float, what: str) -> RefusedError:
    seconds = max(1, ceil(wait))
    sentence = f"{what}: try again in {seconds} second{'s' if seconds > 1 else ''}"
    return RefusedError(429, sentence, headers={"Retry-After": str(seconds)})
