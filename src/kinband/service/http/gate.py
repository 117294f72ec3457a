"""Who is let in: every request shows a token, or the service runs without access control on its own machine.

Without access control, whoever reaches the port may do everything; so only the host names of this machine are
answered (`access.middleware.KnownHosts`), and no page of another site that a browser here has open (`access.csrf`).
"""

from dataclasses import dataclass
from math import ceil

from starlette.requests import Request

from kinband.errors import BadInputError
from kinband.service.access.middleware import Limiter, address_of, failure_limits, request_limits
from kinband.service.access.sessions import check_origin
from kinband.service.access.tokens import Identity, NotSignedInError, Role, Tokens
from kinband.service.http.errors import LOG, RefusedError

READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing: for these a token that was known a moment ago will do while the database is away."""
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
class Gate:
    """Lets requests in.

    Attributes:
        tokens: Who is known; None only without access control.
        insecure_local: Whether there is no access control.
        limits: How much callers may ask for.
    """

    tokens: Tokens | None
    insecure_local: bool
    limits: Limits

    def __post_init__(self) -> None:
        if self.tokens is None and not self.insecure_local:
            raise BadInputError("a service needs tokens, or insecure_local to run without access control")

    def admit(self, request: Request, role: Role) -> Identity:
        """Return who sends a request that needs a role, or refuse it."""
        if self.insecure_local:
            check_origin(request.method, request.headers)
        identity = Identity.local() if self.insecure_local else self._known(request)
        wait = self.limits.requests.take(identity.id or identity.name)
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
            return self.tokens.authenticate(text.strip(), reading=request.method in READS)
        except NotSignedInError as error:
            host = request.client.host if request.client else None
            wait = self.limits.failures.take(address_of(host))
            LOG.warning("a token was refused: %s", error.reason)
            if wait:
                raise _later(wait, "too many tokens were refused from this address") from error
            raise


def _later(wait: float, what: str) -> RefusedError:
    seconds = max(1, ceil(wait))
    sentence = f"{what}: try again in {seconds} second{'s' if seconds > 1 else ''}"
    return RefusedError(429, sentence, headers={"Retry-After": str(seconds)})
