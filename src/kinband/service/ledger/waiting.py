"""Connections to PostgreSQL that are given up when an answer does not come.

A server whose machine or disk hangs takes a question and never answers it. Its own timeouts do not help then, nor do
those of the network, which is well. So the wait for an answer has an end on our side too: the connection is closed, and
the caller hears that the ledger cannot be reached. psycopg waits by a generator that is told ten times a second that
nothing has come yet; that is where time is looked at.

A cursor on the server is closed by a question too. SQLAlchemy takes an error there for a bug and logs it with its
traceback, so a server that goes away just then is told in a sentence here.
"""

import logging
from collections.abc import Generator
from time import monotonic
from typing import Any

import psycopg

GRACE = 2.0
"""Seconds that an answer may take beyond those that the server itself waits for the lock of another process."""

_log = logging.getLogger(__name__)


class PatientConnection(psycopg.Connection[Any]):
    """A connection that closes itself when an answer takes too long.

    Attributes:
        patience: For how many seconds it waits; None for ever.
    """

    patience: float | None = None

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        """Wait for what a generator of psycopg leads to."""
        if self.patience is None:
            return super().wait(gen, *args, **named)
        return super().wait(self._until(gen, self.patience), *args, **named)

    def _until(self, gen: Any, seconds: float) -> Generator[Any, Any, Any]:
        end, ready = monotonic() + seconds, None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as done:
                return done.value
            ready = yield wanted
            if not ready and monotonic() > end:
                self.pgconn.finish()
                raise psycopg.OperationalError(f"no answer in {seconds:g} s")


class PatientCursor(psycopg.ServerCursor[Any]):
    """A cursor on the server that may be lost with its connection."""

    def close(self) -> None:
        """Close it; where the server is away the connection is given up, which whoever uses it next hears of."""
        try:
            super().close()
        except psycopg.OperationalError as error:
            _log.warning("the connection to the ledger was lost: %s", str(error).partition("\n")[0])
            self._conn.close()
            super().close()  # asks nobody any more


def patient_connection(seconds: float, *args: Any, **named: Any) -> PatientConnection:
    """Connect, and wait for answers for so many seconds at most."""
    found = PatientConnection.connect(*args, **named)
    found.patience, found.server_cursor_factory = seconds, PatientCursor
    return found
