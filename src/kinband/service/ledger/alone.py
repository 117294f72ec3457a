"""What one of several processes at a ledger does alone: a lock that ends with its process, whatever becomes of it."""

from contextlib import ExitStack, suppress

from sqlalchemy import Connection, exc, text

from kinband.service.ledger.engines import LedgerUnavailableError, in_one_sentence, only_one
from kinband.service.ledger.store import Ledger

TELLS = "-notify", 0x6B696E62616E66  # after the numbers of writing and deciding
"""The lock of the process that tells targets what happens."""
CARRIES = "-network", 0x6B696E62616E67
"""The lock of the process that carries out what is ordered."""


class OnlyOne:
    """The lock of the one process that does something beside a ledger.

    Args:
        ledger: Of which ledger.
        name: How the name of the file ends whose lock it is, beside an SQLite ledger; the file is empty.
        number: What PostgreSQL calls the lock.
    """

    def __init__(self, ledger: Ledger, name: str, number: int) -> None:
        self._ledger, self._name, self._number = ledger, name, number
        self._held: ExitStack | None = None
        self._connection: Connection | None = None

    def take(self) -> bool:
        """Return whether this process has it; take the lock if nobody does. Raises if the database is away."""
        if self._held is not None and self._still():
            return True
        self.give_up()
        with ExitStack() as stack:
            file = self._ledger.beside(self._name)
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
        """Let others have it."""
        held, self._held, self._connection = self._held, None, None
        if held is not None:
            held.close()

    def _locked(self, stack: ExitStack) -> bool:
        """Take PostgreSQL's lock, which lasts as long as its transaction."""
        with in_one_sentence(self._ledger.name):
            connection = self._ledger.engine.connect()
            stack.callback(_closed, connection)
            connection.execute(text("SELECT set_config('idle_in_transaction_session_timeout', '0', true)"))
            got = connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": self._number}).scalar()
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
