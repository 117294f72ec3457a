"""Connections to PostgreSQL that are given up when an answer does not come.

A server whose machine or disk hangs takes a question and never answers it. Its own timeouts do not help then, nor do
those of the network, which is well. So the wait for an answer has an end on our side too: the connection is closed, and
the caller hears that the ledger cannot be reached. psycopg waits by a generator that is told ten times a second that
nothing has come yet; that is where time is looked at.
"""

from collections.abc import Generator
from time import monotonic
from typing import Any

import psycopg

GRACE = 2.0
"""Seconds that an answer may take beyond those that the server itself waits for the lock of another process."""


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


def patient_connection(seconds: float, *args: Any, **named: Any) -> PatientConnection:
    """Connect, and wait for answers for so many seconds at most."""
    found = PatientConnection.connect(*args, **named)
    found.patience = seconds
    return found
