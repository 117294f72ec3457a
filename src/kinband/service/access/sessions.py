"""Sessions of the dashboard: a signed cookie instead of a token that a page would have to keep.

The cookie holds the token's id, when it was issued, when it ends, a nonce and the proof of having seen the token
(`records.proof_of`), under an HMAC-SHA256 with the service's key. Nothing is stored, so any process can read it; the
token is looked up at every use, so a session ends when its token is revoked or expires. Who steals the key cannot make
a cookie for want of the proof, and who steals a cookie cannot make it last longer for want of the key.

The name `__Host-` makes browsers insist on what the attributes say: https, this host alone, every path. A browser
also counts http://localhost as safe; anything else over plain http keeps no session.
"""

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal, TypedDict

from kinband.errors import BadInputError
from kinband.service.access.errors import NotSignedInError
from kinband.service.access.keys import signing_key
from kinband.service.access.records import TOKEN, proof_of
from kinband.service.access.roles import Identity
from kinband.service.access.tokens import Tokens

COOKIE = "__Host-kinband"
"""The name of the cookie."""

LIFETIME = timedelta(hours=12)
"""How long a session lasts unless said otherwise."""


class CookieAttributes(TypedDict):
    """How the cookie is set, as `Response.set_cookie` and `Response.delete_cookie` of Starlette take it.

    Example:
        >>> COOKIE_ATTRIBUTES["samesite"]
        'strict'
    """

    path: str
    secure: bool
    httponly: bool
    samesite: Literal["lax", "strict", "none"]


COOKIE_ATTRIBUTES: CookieAttributes = {"path": "/", "secure": True, "httponly": True, "samesite": "strict"}
"""Set it with all of these: not for scripts, not in the clear, not from other sites."""

_VALUE = re.compile(
    r"(?P<signed>kbs1\.(?P<id>[0-9A-Za-z]{8})\.(?P<issued>\d{1,12})\.(?P<ends>\d{1,12})\.[\w-]{16}\.(?P<proof>[0-9a-f]{64}))"
    r"\.(?P<mark>[\w-]{43})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in.

    Attributes:
        identity: Who.
        csrf: What every form and every call that changes something has to repeat (`csrf.check_request`).
        ends: When the session ends, UTC, in seconds since 1970.

    Example:
        >>> Session(Identity.local(), "secret", 0)
        Session(identity=Identity(id='', name='local', role=<Role.ADMIN: 'admin'>), ends=0)
    """

    identity: Identity
    csrf: str = field(repr=False)
    ends: int


class Sessions:
    """Opens and reads sessions.

    Args:
        tokens: What one signs in with.
        lifetime: How long a session lasts; never longer than its token.

    Example:
        >>> import tempfile
        >>> from kinband.service.ledger import Ledger
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> tokens = Tokens(ledger)
        >>> sessions = Sessions(tokens)
        >>> value = sessions.new_session(tokens.create("anna", "operator").token)
        >>> sessions.read_session(value).identity.name
        'anna'
        >>> sessions.read_session(value[:-1])
        Traceback (most recent call last):
            ...
        kinband.service.access.errors.NotSignedInError: this session is not valid or has ended: sign in again
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(self, tokens: Tokens, *, lifetime: timedelta = LIFETIME) -> None:
        if lifetime < timedelta(seconds=1):
            raise BadInputError(f"a session must last a second at least, got {lifetime}")
        self._tokens = tokens
        self._lifetime = lifetime

    @property
    def max_age(self) -> int:
        """For how many seconds a browser may keep the cookie."""
        return int(self._lifetime.total_seconds())

    def new_session(self, token: str) -> str:
        """Sign in with the text of a token and return the value of the cookie, or refuse with `NotSignedInError`."""
        identity, match = self._tokens.authenticate(token), TOKEN.fullmatch(token)
        if match is None:
            raise AssertionError("what was authenticated is a token")
        issued = self._now()
        nonce, proof = secrets.token_urlsafe(12), proof_of(match["secret"])
        signed = f"kbs1.{identity.id}.{issued}.{issued + self.max_age}.{nonce}.{proof}"
        return f"{signed}.{self._mark('session', signed)}"

    def read_session(self, value: str, *, reading: bool = False) -> Session:
        """Return who has signed in, or refuse with `NotSignedInError`: forged, ended, or its token has.

        Args:
            value: Of the cookie.
            reading: Whether it is only to look at a page; see `Tokens.authenticate`.
        """
        match = _VALUE.fullmatch(value)
        if match is None or not hmac.compare_digest(match["mark"], self._mark("session", match["signed"])):
            raise NotSignedInError("session")
        if int(match["ends"]) <= self._now():
            raise NotSignedInError("session")
        identity = self._tokens.confirm(match["id"], match["proof"], reading=reading)
        return Session(identity, self._mark("csrf", match["signed"]), int(match["ends"]))

    def _mark(self, purpose: str, text: str) -> str:
        """Sign a text for one purpose; a mark for another is of no use."""
        made = hmac.digest(self._key, f"{purpose}\n{text}".encode(), hashlib.sha256)
        return urlsafe_b64encode(made).rstrip(b"=").decode()

    @cached_property
    def _key(self) -> bytes:
        return signing_key(self._tokens.ledger, "sessions")

    def _now(self) -> int:
        return int(datetime.fromisoformat(self._tokens.ledger.now()).timestamp())
