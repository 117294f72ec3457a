"""People who are signed in: cookies and what protects them."""

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from time import monotonic
from typing import Literal, TypedDict
from urllib.parse import urlsplit

from sqlalchemy import Connection, select

from kinband.errors import BadInputError
from kinband.service.access.tokens import (
    REMEMBERED,
    TOKEN,
    WHILE_AWAY,
    Identity,
    NotAllowedError,
    NotSignedInError,
    Tokens,
    TtlCache,
    proof_of,
)
from kinband.service.ledger import Ledger, LedgerUnavailableError
from kinband.service.ledger.schema import secrets as secrets_table

# --- The keys that sign for the service: made at first use, shared by all its processes through the database --------
#
# A key alone opens nothing: a session also carries a proof that only a token's bearer can give (`tokens.proof_of`).


def signing_key(ledger: Ledger, name: str) -> bytes:
    """Return the key of a purpose, 32 random bytes, the same for every process that asks.

    Args:
        ledger: In whose database it lives.
        name: The purpose.
    """
    with ledger.reading() as connection:
        found = _key(connection, name)
    if found is None:
        with ledger.connected(writes=True) as connection:  # the lock: of two who start at once, one makes it
            found = _key(connection, name)
            if found is None:
                found = secrets.token_hex(32)
                connection.execute(secrets_table.insert().values(name=name, value=found))
    return bytes.fromhex(found)


def _key(connection: Connection, name: str) -> str | None:
    found = connection.execute(select(secrets_table.c.value).where(secrets_table.c.name == name)).scalar()
    return None if found is None else str(found)


# --- Sessions of the dashboard: a signed cookie instead of a token that a page would have to keep -------------------
#
# The cookie holds the token's id, when it was issued, when it ends, a nonce and the proof of having seen the token
# (`tokens.proof_of`), under an HMAC-SHA256 with the service's key. Nothing is stored, so any process can read it; the
# token is looked up at every use, so a session ends when its token is revoked or expires. Who signs out ends it before:
# its digest is kept until it would have ended, and found there at once by this process and soon by others. Who steals
# the key cannot make a cookie for want of the proof, and who steals a cookie cannot make it last longer for want of the
# key.
#
# The name `__Host-` makes browsers insist on what the attributes say: https, this host alone, every path. A browser
# also counts http://localhost as safe; anything else over plain http keeps no session.

COOKIE = "__Host-kinband"
"""The name of the cookie."""

LIFETIME = timedelta(hours=12)
"""How long a session lasts unless said otherwise."""


class CookieAttributes(TypedDict):
    """How the cookie is set, as `Response.set_cookie` and `Response.delete_cookie` of Starlette take it."""

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
        csrf: What every form and every call that changes something has to repeat (`check_request`).
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
        remembered: For how many seconds a session that was not ended is taken as it was.
        clock: What measures these seconds.

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
        kinband.service.access.tokens.NotSignedInError: this session is not valid or has ended: sign in again
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(
        self,
        tokens: Tokens,
        *,
        lifetime: timedelta = LIFETIME,
        remembered: float = REMEMBERED,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if lifetime < timedelta(seconds=1):
            raise BadInputError(f"a session must last a second at least, got {lifetime}")
        self._tokens = tokens
        self._lifetime = lifetime
        self._open = TtlCache[bool](seconds=remembered, most=1000, clock=clock)  # by digest, whether it has not ended

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
        if not self._is_open(_ended_name(value), reading=reading):
            raise NotSignedInError("session")
        return Session(identity, self._mark("csrf", match["signed"]), int(match["ends"]))

    def end_session(self, value: str) -> None:
        """Sign out: end a session in all processes; what is no session, or has ended, is none of our business."""
        try:
            session = self.read_session(value)
        except NotSignedInError:
            return
        if self.vouched_for(session):  # by a token that was made for this session alone
            self._tokens.revoke(session.identity.id, by=session.identity.name)
            return
        name = _ended_name(value)
        self._open.forget(name)
        with self._tokens.ledger.connected(writes=True) as connection:
            ended = secrets_table.c.name.startswith(_ENDED, autoescape=True)
            rows = connection.execute(select(secrets_table).where(ended)).all()
            over = [row.name for row in rows if int(row.value) <= self._now() or row.name == name]
            connection.execute(secrets_table.delete().where(secrets_table.c.name.in_(over)))
            connection.execute(secrets_table.insert().values(name=name, value=str(session.ends)))
        self._open.forget(name)

    def vouched_for(self, session: Session) -> bool:
        """Return whether an identity provider vouched for whoever has signed in."""
        return self._tokens.vouched_for(session.identity)

    def sealed(self, purpose: str, text: str) -> str:
        """Return a text with a mark by which it is known to be ours, for one purpose."""
        return f"{text}.{self._mark(purpose, text)}"

    def unsealed(self, purpose: str, value: str) -> str | None:
        """Return what was sealed for a purpose; None where it was not, or not by us."""
        text, _, mark = value.rpartition(".")
        return text if hmac.compare_digest(mark.encode(), self._mark(purpose, text).encode()) else None

    def _is_open(self, name: str, *, reading: bool) -> bool:
        """Whether nobody has signed out of a session; while that cannot be looked up, what was known for reading."""
        known = self._open.recall(name)
        if known is not None:
            return known
        turn = self._open.turn
        try:
            with self._tokens.ledger.reading() as connection:
                found = _key(connection, name) is None
        except LedgerUnavailableError:
            old = self._open.recall(name, within=WHILE_AWAY) if reading else None
            if old is None:
                raise
            return old
        self._open.keep(name, found, turn=turn)
        return found

    def _mark(self, purpose: str, text: str) -> str:
        """Sign a text for one purpose; a mark for another is of no use."""
        made = hmac.digest(self._key, f"{purpose}\n{text}".encode(), hashlib.sha256)
        return urlsafe_b64encode(made).rstrip(b"=").decode()

    @cached_property
    def _key(self) -> bytes:
        return signing_key(self._tokens.ledger, "sessions")

    def _now(self) -> int:
        return int(datetime.fromisoformat(self._tokens.ledger.now()).timestamp())


_ENDED = "ended "


def _ended_name(value: str) -> str:
    """What a session is called among those that were ended: a digest, of which no cookie can be made."""
    return _ENDED + hashlib.sha256(value.encode()).hexdigest()[:48]


# --- Requests that another site makes a browser send: found by where they come from, and by what they cannot know ---
#
# A browser adds its cookie to a request whoever has caused it. So a call that changes something has to show two
# things. It has to come from our own pages, by `Sec-Fetch-Site` (W3C, Fetch Metadata), which no page can set, or by
# `Origin` (RFC 6454) in browsers that do not send it. And it has to repeat a text that only our own pages show, in the
# hidden field `csrf` of a form or in the header `X-CSRF-Token`.
#
# A service without access control (`--insecure-local`) has no session to tell callers by, and any page in a browser on
# that machine could talk to it: there `check_origin` alone applies to every call that changes something.
#
# Callers with a bearer token need neither: no browser adds that by itself.

FIELD = "csrf"
"""The hidden field of a form."""

HEADER = "x-csrf-token"
"""The header of a call by a script."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


def check_request(session: Session, method: str, *, headers: Mapping[str, str], field: str | None = None) -> None:
    """Refuse a call that changes something unless one of our own pages has sent it.

    Args:
        session: Who calls, by cookie.
        method: The method of the call.
        headers: Its headers, by names in lower case (Starlette's find any case).
        field: The value of the form's field `csrf`, if it has one.
    """
    check_origin(method, headers)
    given = headers.get(HEADER) or field or ""
    if method.upper() not in SAFE and not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise NotAllowedError(
            "this form is not of your present session", hint="load the page again and repeat the step",
            code="stale_form", argument=FIELD,
        )  # fmt: skip


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a call that changes something and that a browser sends on behalf of another site.

    Args:
        method: The method of the call.
        headers: Its headers, by names in lower case (Starlette's find any case).
    """
    if method.upper() in SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        ours = site == "same-origin"
    else:
        ours = origin is None or (origin != "null" and _same_host(origin, headers.get("host", "")))
    if not ours:
        raise NotAllowedError(
            "this request comes from another site",
            hint="use the pages of this service (a proxy in front of it must pass on the Host header)",
            code="other_site",
        )


def _same_host(origin: str, host: str) -> bool:
    """Whether an origin is ours; its scheme may differ from what we see, behind a proxy that ends TLS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    default = {"http": ":80", "https": ":443"}.get(parts.scheme)
    if default is None or not host:
        return False
    return parts.netloc.lower().removesuffix(default) == host.lower().removesuffix(default)
