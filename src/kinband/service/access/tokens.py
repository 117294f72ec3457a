"""Bearer tokens: made, listed, revoked, and recognised when somebody comes with one.

They live in the database of the ledger, so that every process of a service knows the same ones. Making and revoking one
is an event in the ledger as well, in the same transaction, with who did it; the event holds neither secret nor hash.
Tokens are never deleted: a revoked one stays on the list, and its name in the audit log keeps its meaning.

What was looked up is remembered for a few seconds, so that a busy client does not cost a query a call. A revocation
takes effect at once in the process that does it and within that time in all others.

While the database is away nobody can be looked up, and those who run the network want to see how it stood. So whoever
was recognised in the last `WHILE_AWAY` seconds may go on *reading*: with the role, the end and the revocation that were
known then. Whoever wants to change anything is looked up or turned away.
"""

import hmac
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from sqlalchemy import Connection, or_, select

from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.service.access.errors import NotSignedInError
from kinband.service.access.memory import Memory
from kinband.service.access.records import TOKEN, Created, TokenRecord, hash_of, new_id, new_secret, proof_of
from kinband.service.access.roles import LOCAL, Identity, Role
from kinband.service.ledger.errors import LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.events import Draft
from kinband.service.ledger.schema import tokens
from kinband.service.ledger.store import Ledger

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
        kinband.service.access.errors.NotSignedInError: this token was revoked: ask an administrator for a new one
        >>> [event.payload["action"] for event in ledger.read(kinds=["access"])]
        ['created', 'revoked']
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(
        self, ledger: Ledger, *, remembered: float = REMEMBERED, clock: Callable[[], float] = monotonic
    ) -> None:
        self.ledger = ledger
        self._known = Memory[tuple[TokenRecord, str]](seconds=remembered, most=_MOST_REMEMBERED, clock=clock)
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
        role, secret = Role.of(role), new_secret()
        with self.ledger.writing() as writer:
            now = self.ledger.now()
            _check_free(writer.connection, name, now=now)
            taken = set(writer.connection.execute(select(tokens.c.id)).scalars())
            found = next(found for found in iter(new_id, "") if found not in taken)
            record = TokenRecord(found, name, role, now, _end(now, expires_in), None, by)
            row = record.to_dict() | {"hash": hash_of(proof_of(secret))}
            writer.append([_draft("created", record, by=by)])  # which also checks who
            writer.connection.execute(tokens.insert().values(row))
        return Created(f"kb_{record.id}_{secret}", record)

    def revoke(self, id_or_name: str, *, by: str = "") -> TokenRecord:
        """End a token and with it every session that was opened with it; one that was revoked before stays as it is.

        Args:
            id_or_name: Which; the text of a token will do too. Of several with one name it is the one that is live.
            by: Who revokes it.
        """
        with self.ledger.writing() as writer:
            now = self.ledger.now()
            record = _found(writer.connection, id_or_name, now=now)
            if record.revoked is None:
                record = replace(record, revoked=now)
                writer.connection.execute(tokens.update().where(tokens.c.id == record.id).values(revoked=now))
                writer.append([_draft("revoked", record, by=by)])
        self._known.forget(record.id)
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
        """Return who comes with the proof of having seen a token (`records.proof_of`), as sessions do."""
        known = self._look_up(token_id, reading=reading)
        stored = _NOBODY if known is None else known[1]
        if not hmac.compare_digest(stored, hash_of(proof)) or known is None:
            raise NotSignedInError("unknown")
        record, now = known[0], self.ledger.now()
        state = record.state(now)
        if state != "live":
            raise NotSignedInError(state)
        with self._lock:
            self._used[record.id] = f"{now[:16]}:00.000000Z"
        return record.identity

    def find(self, token_id: str) -> TokenRecord:
        """Return what is known of a token by its id, as of a few seconds ago at most."""
        known = self._look_up(token_id)
        if known is None:
            raise NotFoundError(f"no token has the id {token_id!r:.40}: see kinband token list")
        return known[0]

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
        known = self._known.recall(token_id)
        if known is not None:
            return known
        old = self._known.recall_old(token_id, within=WHILE_AWAY) if reading else None
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
            if self._known.recall_old(token_id, within=WHILE_AWAY) is not None:
                self._known.forget(token_id)
            return None
        known = _record(row), str(row.hash)
        self._known.keep(token_id, known, turn=turn)
        return known


def _record(row: Any) -> TokenRecord:
    role = Role.of(row.role)
    return TokenRecord(row.id, row.name, role, row.created, row.expires, row.revoked, row.by, row.last_used)


def _draft(action: str, record: TokenRecord, *, by: str) -> Draft:
    payload = {"id": record.id, "name": record.name, "role": record.role.value, "action": action}
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
    """Refuse what a token cannot be called.

    Example:
        >>> check_name("local")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a token cannot be called 'local' or by a token: say whom or what it is for
    """
    good = isinstance(name, str) and name.isprintable() and name == name.strip() and 0 < len(name) <= _LONGEST_NAME
    if not good:
        raise BadInputError(
            f"the name of a token must be printable text of 1 to {_LONGEST_NAME} characters, got {name!r:.90}"
        )
    if name == LOCAL or TOKEN.search(name):
        raise BadInputError(f"a token cannot be called {LOCAL!r} or by a token: say whom or what it is for")


def _check_free(connection: Connection, name: str, *, now: str) -> None:
    """Refuse a name that a live token has; the ledger's lock sees to it that nobody else takes it meanwhile."""
    rows = connection.execute(select(tokens).where(tokens.c.name == name))
    if any(_record(row).state(now) == "live" for row in rows):
        raise ConflictError(f"a live token is called {name!r}: choose another name, or revoke that one first")


def _end(now: str, expires_in: timedelta | None) -> str | None:
    if expires_in is None:
        return None
    if not timedelta(0) < expires_in <= LONGEST_LIFE:
        raise BadInputError(
            f"a token ends after more than no time and at most {LONGEST_LIFE.days} days, got {expires_in}: give less, "
            "or no end at all"
        )
    return (datetime.fromisoformat(now) + expires_in).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
