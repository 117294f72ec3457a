"""How far each target has been told, kept beside the events; and who of several processes tells.

A row holds the number of the last event that its target has been told of, the message under way, and what alarms it
knows of. A message is written down before it is sent, and the number moves on when it was taken: who is killed in
between sends the same again, with the same id. So a message comes at least once, and whoever gets it twice can tell.

One process tells at a time: it holds a lock that ends with the process, of an empty file beside an SQLite ledger, or of
PostgreSQL. The table is made where messages are sent, and nothing else depends on it.
"""

import json
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, Text, exc, select, text

from kinband.service.ledger import Ledger, LedgerUnavailableError
from kinband.service.ledger.engines import in_one_sentence, only_one

TELLS = "-notify"
"""How the name of the file ends whose lock says which process tells; it is empty."""
_LOCK = 0x6B696E62616E66  # of PostgreSQL, after those of writing and deciding

_metadata = MetaData()
_cursors = Table(
    "notify_cursors",
    _metadata,
    Column("target", String(80), primary_key=True),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), nullable=False),
    Column("state", Text, nullable=False),
)


@dataclass
class Cursor:
    """How far a target has been told.

    Attributes:
        seq: The last event that it knows of.
        sending: The message under way, with the event that it leads to; None where there is none.
        raised: Ids of the alarms that it knows of, by what they are about.
        digest: The last week whose digest it need not have any more; empty before the first.
    """

    seq: int
    sending: dict[str, Any] | None = None
    raised: dict[str, str] = field(default_factory=dict)
    digest: str = ""


class Cursors:
    """The cursors of a ledger.

    Args:
        ledger: Which; its table is made if it is not there.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        with ledger.connected(writes=True) as connection:
            _metadata.create_all(connection)

    def load(self, target: str) -> Cursor:
        """Return how far a target was told; one that is new is told from now on, and one ahead of its ledger too."""
        last = self._ledger.head().seq
        with self._ledger.reading() as connection:
            row = connection.execute(select(_cursors).where(_cursors.c.target == target)).first()
        if row is not None:
            state = json.loads(row.state)
            return Cursor(
                min(row.seq, last),
                state["sending"] if row.seq <= last else None,
                state["raised"],
                state.get("digest", ""),
            )
        found = Cursor(last)
        self.save(target, found)
        return found

    def save(self, target: str, cursor: Cursor) -> None:
        """Write down how far a target was told."""
        state = {"sending": cursor.sending, "raised": cursor.raised, "digest": cursor.digest}
        with self._ledger.connected(writes=True) as connection:
            connection.execute(_cursors.delete().where(_cursors.c.target == target))
            connection.execute(_cursors.insert().values(target=target, seq=cursor.seq, state=json.dumps(state)))


class OnlyOne:
    """The lock of the process that tells.

    Args:
        ledger: Of which ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: ExitStack | None = None
        self._connection: Connection | None = None

    def take(self) -> bool:
        """Return whether this process tells; take the lock if nobody has it. Raises if the database is away."""
        if self._held is not None and self._still():
            return True
        self.give_up()
        with ExitStack() as stack:
            file = self._ledger.beside(TELLS)
            if file is None:
                if not self._locked(stack):
                    return False
            else:
                try:
                    stack.enter_context(only_one(file, seconds=0.05))
                except LedgerUnavailableError as error:
                    if error.code == "busy":
                        return False
                    raise
            self._held = stack.pop_all()
        return True

    def give_up(self) -> None:
        """Let others tell."""
        held, self._held, self._connection = self._held, None, None
        if held is not None:
            held.close()

    def _locked(self, stack: ExitStack) -> bool:
        """Take PostgreSQL's lock, which lasts as long as its transaction."""
        with in_one_sentence(self._ledger.name):
            connection = self._ledger.engine.connect()
            stack.callback(_closed, connection)
            connection.execute(text("SELECT set_config('idle_in_transaction_session_timeout', '0', true)"))
            got = connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK}).scalar()
        self._connection = connection
        return bool(got)

    def _still(self) -> bool:
        """Whether the lock is still there: a connection that was lost has lost it."""
        if self._connection is None:
            return True
        try:
            with in_one_sentence(self._ledger.name):
                self._connection.execute(text("SELECT 1"))
        except LedgerUnavailableError:
            self.give_up()
            raise
        return True


def _closed(connection: Connection) -> None:
    with suppress(exc.DBAPIError):
        connection.rollback()
    with suppress(exc.DBAPIError):
        connection.close()
