"""Who may do what: roles, tokens and what is kept of them."""

import hashlib
import hmac
import logging
import re
import secrets
import string
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Connection, or_, select

from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.service.ledger import Draft, Ledger, LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.integrity import token_digest
from kinband.service.ledger.schema import tokens
from kinband.service.ledger.store import Writer

# --- Who may not come in, and who may not do what: the two refusals of access ---------------------------------------
#
# *Not signed in* (HTTP's 401): the caller is nobody we know. *Not allowed* (403): the caller is known, but the role is
# too low, or the request may have been sent by another site on the caller's behalf. What is said to the outside does
# not tell whether a token was malformed, unknown or wrong in its secret; the reason is there for our own log. That a
# token was revoked or has expired is said, since only who holds its secret comes as far as that.

Reason = Literal["malformed", "unknown", "revoked", "expired", "session", "provider"]
"""Why somebody is not signed in, for our own log."""

_UNKNOWN = "this token is not known here: check that it is complete, or ask an administrator for a new one"
_SENTENCES: dict[Reason, str] = {
    "malformed": _UNKNOWN,
    "unknown": _UNKNOWN,
    "revoked": "this token was revoked: ask an administrator for a new one",
    "expired": "this token has expired: ask an administrator for a new one",
    "session": "this session is not valid or has ended: sign in again",
    "provider": "the identity provider does not vouch for this: sign in again",
}


class AccessError(KinbandError, PermissionError):
    """Base of what access refuses.

    Example:
        >>> issubclass(NotSignedInError, AccessError) and issubclass(NotAllowedError, AccessError)
        True
    """


class NotSignedInError(AccessError):
    """The caller is nobody we know; a message says no more than an outsider may learn.

    Attributes:
        reason: Why, for our own log.

    Example:
        >>> str(NotSignedInError("malformed")) == str(NotSignedInError("unknown"))
        True
        >>> NotSignedInError("unknown").reason
        'unknown'
    """

    def __init__(self, reason: Reason, sentence: str = "") -> None:
        super().__init__(sentence or _SENTENCES[reason])
        self.reason: Reason = reason


class NotAllowedError(AccessError):
    """The caller is known, but may not do this.

    Example:
        >>> str(NotAllowedError("this needs the role admin"))
        'this needs the role admin'
    """

    code = "not_allowed"


# --- Who somebody is, and what that allows --------------------------------------------------------------------------
#
# Three roles, each of which may do what the ones before it may: a *viewer* looks, an *operator* runs the network with
# it, an *admin* changes how it is run. A rule names the least role that it needs, nothing more; there are no
# exceptions by person, so that the table in docs/api.md is the whole truth.

LOCAL = "local"
"""The name of whoever sits at the machine of a service without access control; no token may have it."""


class Role(StrEnum):
    """What somebody may do; roles are ordered.

    Example:
        >>> Role.VIEWER < Role.OPERATOR < Role.ADMIN
        True
        >>> Role.of("operator").value
        'operator'
        >>> Role.of("root")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a role is one of viewer, operator, admin, got 'root'
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @classmethod
    def of(cls, name: "str | Role") -> "Role":
        """Return the role of a name."""
        try:
            return cls(name)
        except ValueError as error:
            known = ", ".join(cls)
            raise BadInputError(f"a role is one of {known}, got {name!r:.40}") from error

    @property
    def rank(self) -> int:
        """0 for the least; text would be ordered by the alphabet."""
        return list(Role).index(self)

    def __lt__(self, other: str) -> bool:
        return self.rank < Role(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Role(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Role(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Role(other).rank


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is calling.

    Attributes:
        id: The id of the token; empty where there is none.
        name: The name of the token, which goes on record as the actor: live tokens have different names.
        role: What it allows.

    Example:
        >>> anna = Identity("k3Vq90Xz", "anna", Role.OPERATOR)
        >>> anna.may(Role.VIEWER), anna.may(Role.ADMIN)
        (True, False)
        >>> anna.require(Role.ADMIN)
        Traceback (most recent call last):
            ...
        kinband.service.access.tokens.NotAllowedError: this needs the role admin, and 'anna' is operator: ...
    """

    id: str
    name: str
    role: Role

    @classmethod
    def local(cls) -> "Identity":
        """Return who sits at the machine of a service that was started without access control."""
        return cls("", LOCAL, Role.ADMIN)

    def may(self, role: Role) -> bool:
        """Return whether the caller may do what this role may."""
        return self.role >= role

    def require(self, role: Role) -> None:
        """Refuse a caller who may not do what this role may."""
        if not self.may(role):
            raise NotAllowedError(
                f"this needs the role {role}, and {self.name!r} is {self.role}: ask somebody who has it, or for a "
                "token with that role"
            )


# --- What is known of a token, and how its text is made -------------------------------------------------------------
#
# A token reads `kb_<id>_<secret>`: an id of 8 letters and digits, by which it is found and named in logs, and 32 random
# bytes as base64url. The prefix lets secret scanners, and our own logs (`redaction`), recognise one.
#
# At rest there is only a hash of the secret. A fast one is right here: slow hashes (scrypt, Argon2) make guessing of
# what people choose expensive, and nobody guesses 256 random bits at any speed. It is applied twice. SHA-256 of the
# secret is the *proof*, which a browser's session carries so that the secret itself need not leave the sign-in;
# SHA-256 of the proof is what the database holds. So whoever reads the database, the key of the sessions included, has
# nothing to sign in with.

TOKEN = re.compile(r"kb_(?P<id>[0-9A-Za-z]{8})_(?P<secret>[0-9A-Za-z_-]{43})")
"""What a token reads like."""

_ALPHABET = string.ascii_letters + string.digits  # no "-": an id must not look like an option on a command line


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is known of a token: all but its secret.

    Attributes:
        id: By which it is found.
        name: Whom or what it was given to.
        role: What it allows.
        created: When it was made, UTC, as ISO text.
        expires: Until when it may be used; None for ever.
        revoked: Since when it may not be used any more.
        by: Who made it.
        last_used: When it was last used, to the minute.

    Example:
        >>> record = TokenRecord("k3Vq90Xz", "nms", Role.OPERATOR, "2026-11-20T10:00:00.000000Z", None, None, "anna")
        >>> record.state("2026-11-20T11:00:00.000000Z")
        'live'
    """

    id: str
    name: str
    role: Role
    created: str
    expires: str | None
    revoked: str | None
    by: str
    last_used: str | None = None

    def state(self, now: str) -> Literal["live", "revoked", "expired"]:
        """Return whether it may be used at a time that is written as the ledger writes it."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "live"

    @property
    def identity(self) -> Identity:
        """Who comes with it."""
        return Identity(self.id, self.name, self.role)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self) | {"role": self.role.value}


@dataclass(frozen=True, slots=True)
class Created:
    """A new token, whose text is never seen again.

    Attributes:
        token: The text; whoever has it comes in.
        record: What is kept.

    Example:
        >>> record = TokenRecord("k3Vq90Xz", "nms", Role.VIEWER, "2026-11-20T10:00:00.000000Z", None, None, "anna")
        >>> "kb_" in repr(Created("kb_k3Vq90Xz_...", record))
        False
    """

    token: str = field(repr=False)
    record: TokenRecord


def new_id() -> str:
    """Return an id at random."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(8))


def new_secret() -> str:
    """Return a secret of 32 random bytes."""
    return secrets.token_urlsafe(32)


def proof_of(secret: str) -> str:
    """Return what shows that its bearer has seen a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hash_of(proof: str) -> str:
    """Return what is stored of a proof."""
    return hashlib.sha256(proof.encode()).hexdigest()


# --- A short memory: what was looked up a moment ago need not be looked up again ------------------------------------
#
# It is bounded in time, so that what other processes change is seen soon, and in number, so that callers cannot fill
# it. What this process itself changes is forgotten at once, also by a look-up that is under way: every change moves on
# a turn, and what was looked up in an earlier turn is not kept.

V = TypeVar("V")


class TtlCache(Generic[V]):
    """Values by name, for some seconds; threads may share it.

    Args:
        seconds: How long a value is kept.
        most: How many are kept; the one that was kept first goes first.
        clock: What says the time, in seconds that never go back.
    """

    def __init__(self, *, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[str, tuple[V, float]] = OrderedDict()  # with since when
        self._lock = threading.Lock()
        self.turn = 0

    def recall(self, name: str, *, within: float | None = None) -> V | None:
        """Return what is kept under a name, None where that is nothing or too old: older than is kept, or than this."""
        with self._lock:
            value, since = self._kept.get(name, (None, 0.0))
            return value if self._clock() < since + (self._seconds if within is None else within) else None

    def keep(self, name: str, value: V, *, turn: int) -> None:
        """Keep a value whose look-up began in this turn, unless something was forgotten since."""
        with self._lock:
            if turn != self.turn:
                return
            self._kept.pop(name, None)
            self._kept[name] = value, self._clock()
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, name: str) -> None:
        """Forget a name, also where it is just being looked up."""
        with self._lock:
            self.turn += 1
            self._kept.pop(name, None)


# --- Bearer tokens: made, listed, revoked, and recognised when somebody comes with one ------------------------------
#
# They live in the database of the ledger, so that every process of a service knows the same ones. Making and revoking
# one is an event in the ledger as well, in the same transaction, with who did it; the event holds neither secret nor
# hash. Tokens are never deleted: a revoked one stays on the list, and its name in the audit log keeps its meaning.
#
# What was looked up is remembered for a few seconds, so that a busy client does not cost a query a call. A revocation
# takes effect at once in the process that does it and within that time in all others.
#
# While the database is away nobody can be looked up, and those who run the network want to see how it stood. So
# whoever was recognised in the last `WHILE_AWAY` seconds may go on *reading*: with the role, the end and the
# revocation that were known then. Whoever wants to change anything is looked up or turned away.

_log = logging.getLogger(__name__)

REMEMBERED = 5.0
"""For how many seconds a token that was looked up is taken as it was."""

WHILE_AWAY = 300.0
"""For how many seconds a token that was looked up still serves for reading, while it cannot be looked up again."""

LONGEST_LIFE = timedelta(days=3660)
"""The longest time after which a token may expire, unless it never does."""

_MOST_REMEMBERED = 1000
_LONGEST_NAME = 80
_NOBODY = "0" * 64  # compared with where no token has the id, so that the answer takes as long


class Tokens:
    """The tokens of a ledger. Threads may share it.

    Args:
        ledger: In whose database they live.
        remembered: For how many seconds a token that was looked up is taken as it was; 0 looks it up every time.
        clock: What measures these seconds.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> tokens = Tokens(ledger)
        >>> created = tokens.create("nms", Role.OPERATOR, expires_in=timedelta(days=90), by="anna")
        >>> tokens.authenticate(created.token).name
        'nms'
        >>> tokens.revoke("nms").state(ledger.now())
        'revoked'
        >>> tokens.authenticate(created.token)
        Traceback (most recent call last):
            ...
        kinband.service.access.tokens.NotSignedInError: this token was revoked: ask an administrator for a new one
        >>> [event.payload["action"] for event in ledger.read(kinds=["access"])]
        ['created', 'revoked']
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(
        self, ledger: Ledger, *, remembered: float = REMEMBERED, clock: Callable[[], float] = monotonic
    ) -> None:
        self.ledger = ledger
        self._known = TtlCache[tuple[TokenRecord, str]](seconds=remembered, most=_MOST_REMEMBERED, clock=clock)
        self._clock, self._pause = clock, remembered
        self._away = float("-inf")  # until when the database is not asked again for those who read
        self._used: dict[str, str] = {}
        self._lock = threading.Lock()  # of what was used

    def create(self, name: str, role: Role | str, *, expires_in: timedelta | None = None, by: str = "") -> Created:
        """Make a token; its text is in what is returned, and nowhere else.

        Args:
            name: Whom or what it is for; no other live token may have it.
            role: What it allows.
            expires_in: After which time it ends; None for never.
            by: Who makes it.
        """
        check_name(name)
        role = Role.of(role)
        with self.ledger.writing() as writer:
            _check_free(writer.connection, name, now=self.ledger.now())
            return self._made(writer, name, role, expires_in=expires_in, by=by, actor=by)

    def sign_in(self, subject: str, name: str, role: Role, *, expires_in: timedelta) -> Created:
        """Make a token of somebody whom an identity provider vouches for, under the name of the first time.

        Args:
            subject: Who, for ever: the issuer and its name for the person.
            name: What the provider calls the person at present.
            role: What that allows at present.
            expires_in: After which time it ends.
        """
        with self.ledger.writing() as writer:
            known = _name_of_subject(writer.connection, subject, name)
            return self._made(writer, known, role, expires_in=expires_in, by=subject, actor=known)

    def known_as(self, subject: str) -> str | None:
        """Return under which name somebody is on record whom an identity provider vouches for; None if not yet."""
        with self.ledger.reading() as connection:
            return _known_as(connection, subject)

    def _made(
        self, writer: Writer, name: str, role: Role, *, expires_in: timedelta | None, by: str, actor: str
    ) -> Created:
        """Write down a new token."""
        secret, now = new_secret(), self.ledger.now()
        taken = set(writer.connection.execute(select(tokens.c.id)).scalars())
        found = next(found for found in iter(new_id, "") if found not in taken)
        record = TokenRecord(found, name, role, now, _end(now, expires_in), None, by)
        row = record.to_dict() | {"hash": hash_of(proof_of(secret))}
        writer.append([_draft("created", record, by=actor, digest=token_digest(row))])  # which also checks who
        writer.connection.execute(tokens.insert().values(row))
        return Created(f"kb_{record.id}_{secret}", record)

    def vouched_for(self, identity: Identity) -> bool:
        """Return whether somebody came with a token of a sign-in through an identity provider."""
        known = self._read(identity.id)
        return known is not None and is_subject(known[0].by)

    def revoke(self, id_or_name: str, *, by: str = "") -> TokenRecord:
        """End a token and with it every session that was opened with it; one that was revoked before stays as it is.

        Args:
            id_or_name: Which; the text of a token will do too. Of several with one name it is the one that is live,
                and all of somebody who signs in through an identity provider.
            by: Who revokes it.
        """
        with self.ledger.writing() as writer:
            now = self.ledger.now()
            record = _found(writer.connection, id_or_name, now=now)
            theirs = [record]
            if is_subject(record.by) and id_or_name == record.name:  # a person may have signed in several times
                rows = writer.connection.execute(select(tokens).where(tokens.c.by == record.by))
                theirs = [one for one in map(_record, rows) if one.state(now) == "live"] or theirs
            for one in theirs:
                if one.revoked is None:
                    ended = replace(one, revoked=now)
                    writer.connection.execute(tokens.update().where(tokens.c.id == one.id).values(revoked=now))
                    writer.append([_draft("revoked", ended, by=by)])
                    record = ended if one.id == record.id else record
        for one in theirs:
            self._known.forget(one.id)
        return record

    def authenticate(self, text: str, *, reading: bool = False) -> Identity:
        """Return who comes with the text of a token, or refuse with `NotSignedInError`.

        Args:
            text: The text.
            reading: Whether it is only to look at something: then, while the database is away, what was known of the
                token up to `WHILE_AWAY` seconds ago will do.
        """
        match = TOKEN.fullmatch(text)
        if match is None:
            raise NotSignedInError("malformed")
        return self.confirm(match["id"], proof_of(match["secret"]), reading=reading)

    def confirm(self, token_id: str, proof: str, *, reading: bool = False) -> Identity:
        """Return who comes with the proof of having seen a token (`proof_of`), as sessions do.

        What is remembered of a token is for its bearer alone: a wrong secret is looked up like an unknown id, so that
        the time of the answer does not tell which ids there are.
        """
        given, known = hash_of(proof), self._known.recall(token_id)
        if not _same(known, given):
            known = self._look_up(token_id, reading=reading)
        if known is None or not _same(known, given):
            raise NotSignedInError("unknown")
        record, now = known[0], self.ledger.now()
        state = record.state(now)
        if state != "live":
            raise NotSignedInError(state)
        with self._lock:
            self._used[record.id] = f"{now[:16]}:00.000000Z"
        return record.identity

    def write_used(self) -> bool:
        """Note down when tokens were last used; to be called about once a minute, and at the end.

        Authenticating itself never writes, for it must not wait for the ledger's lock. False where the ledger could not
        take it: then it is for the next time.
        """
        with self._lock:
            used, self._used = self._used, {}
        if not used:
            return True
        try:
            with self.ledger.connected(writes=True) as connection:
                for token_id, at in used.items():
                    older = or_(tokens.c.last_used.is_(None), tokens.c.last_used < at)
                    connection.execute(tokens.update().where(tokens.c.id == token_id, older).values(last_used=at))
        except (LedgerUnavailableError, LedgerRefusedError) as error:
            _log.info("when tokens were last used could not be noted: %s", error)
            with self._lock:
                self._used = used | self._used
            return False
        return True

    def list(self) -> "list[TokenRecord]":
        """Return every token there ever was, in the order in which they were made."""
        with self.ledger.reading() as connection:
            rows = connection.execute(select(tokens).order_by(tokens.c.created, tokens.c.id)).all()
        return [_record(row) for row in rows]

    def _look_up(self, token_id: str, *, reading: bool = False) -> tuple[TokenRecord, str] | None:
        """Return a token and its hash; who is not known is looked up every time, so that a new token works at once."""
        old = self._known.recall(token_id, within=WHILE_AWAY) if reading else None
        if old is not None and self._clock() < self._away:
            return old
        try:
            return self._read(token_id)
        except LedgerUnavailableError:
            self._away = self._clock() + self._pause
            if old is None:
                raise
            return old

    def _read(self, token_id: str) -> tuple[TokenRecord, str] | None:
        """Look a token up and remember it."""
        turn = self._known.turn
        with self.ledger.reading() as connection:
            row = connection.execute(select(tokens).where(tokens.c.id == token_id)).one_or_none()
        if row is None:
            if self._known.recall(token_id, within=WHILE_AWAY) is not None:
                self._known.forget(token_id)
            return None
        known = _record(row), str(row.hash)
        self._known.keep(token_id, known, turn=turn)
        return known


def _same(known: tuple[TokenRecord, str] | None, given: str) -> bool:
    """Whether the hash of a token is the one that was given; takes as long where there is no token."""
    return hmac.compare_digest(_NOBODY if known is None else known[1], given)


def _record(row: Any) -> TokenRecord:
    role = Role.of(row.role)
    return TokenRecord(row.id, row.name, role, row.created, row.expires, row.revoked, row.by, row.last_used)


def _draft(action: str, record: TokenRecord, *, by: str, **further: str) -> Draft:
    payload = {"id": record.id, "name": record.name, "role": record.role.value, "action": action, **further}
    if is_subject(record.by):
        payload["subject"] = record.by
    return Draft("access", payload, actor=by)


def _found(connection: Connection, id_or_name: str, *, now: str) -> TokenRecord:
    """Return the token of an id, a text or a name: of several the live one, else the newest that was not revoked."""
    match = TOKEN.fullmatch(id_or_name)
    if match is not None:
        id_or_name = match["id"]  # the rest is a secret, and must not be in a message either
    wanted = select(tokens).where(or_(tokens.c.id == id_or_name, tokens.c.name == id_or_name))
    records = [_record(row) for row in connection.execute(wanted.order_by(tokens.c.created.desc()))]
    if not records:
        raise NotFoundError(f"no token has the id or name {id_or_name!r:.90}: see kinband token list")
    states = ("live", "expired", "revoked")
    return min(records, key=lambda record: (record.id != id_or_name, states.index(record.state(now))))


def check_name(name: str) -> None:
    """Refuse what a token cannot be called."""
    good = isinstance(name, str) and name.isprintable() and name == name.strip() and 0 < len(name) <= _LONGEST_NAME
    if not good:
        raise BadInputError(
            f"the name of a token must be printable text of 1 to {_LONGEST_NAME} characters, got {name!r:.90}"
        )
    if name == LOCAL or TOKEN.search(name):
        raise BadInputError(f"a token cannot be called {LOCAL!r} or by a token: say whom or what it is for")


def _check_free(connection: Connection, name: str, *, now: str) -> None:
    """Refuse a name that a live token has; the ledger's lock sees to it that nobody else takes it meanwhile."""
    records = [_record(row) for row in connection.execute(select(tokens).where(tokens.c.name == name))]
    if any(is_subject(record.by) for record in records):
        raise ConflictError(f"somebody who signs in through the identity provider is {name!r}: choose another name")
    if any(record.state(now) == "live" for record in records):
        raise ConflictError(f"a live token is called {name!r}: choose another name, or revoke that one first")


# --- People whom an identity provider vouches for -------------------------------------------------------------------
#
# Each sign-in makes a token that nobody sees and that ends with the session: so sessions, revocation and the record are
# those of tokens. It was made by the *subject*, the issuer and its name for the person, which never changes. What goes
# on record as the actor is a name; whoever could change that, as people may at many providers, would be a second person
# to all rules about two people, or somebody else to whoever reads the record. So a subject keeps the name of its first
# sign-in for ever, and a name that others have, or had, gets digits of the subject behind it.

_RESERVED = frozenset({LOCAL, "service", "demo", "somebody"})


def is_subject(by: str) -> bool:
    """Return whether a token was made at a sign-in through an identity provider."""
    return by.startswith(("https://", "http://")) and " " in by


def _known_as(connection: Connection, subject: str) -> str | None:
    found = connection.execute(select(tokens.c.name).where(tokens.c.by == subject).limit(1)).scalar()
    return None if found is None else str(found)


def _name_of_subject(connection: Connection, subject: str, wanted: str) -> str:
    """Return the name of a subject: that of its first sign-in, else what it is called now, told apart from others."""
    known = _known_as(connection, subject)
    if known is not None:
        return known
    taken = {_alike(name) for name in connection.execute(select(tokens.c.name)).scalars()} | _RESERVED
    digits = hashlib.sha256(subject.encode()).hexdigest()
    names = (wanted, f"{wanted} ({digits[:8]})".strip(), f"{digits[:32]}")
    found = next(name for name in names if name and _alike(name) not in taken and not TOKEN.search(name))
    check_name(found)
    return found


def _alike(name: str) -> str:
    """Return what names have in common that look the same."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _end(now: str, expires_in: timedelta | None) -> str | None:
    if expires_in is None:
        return None
    if not timedelta(0) < expires_in <= LONGEST_LIFE:
        raise BadInputError(
            f"a token ends after more than no time and at most {LONGEST_LIFE.days} days, got {expires_in}: give less, "
            "or no end at all"
        )
    return (datetime.fromisoformat(now) + expires_in).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
