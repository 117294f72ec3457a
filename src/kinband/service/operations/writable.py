"""Whether the ledger would take a decision: tried out now and then, leaving nothing behind.

Reading goes on when a disk is full or a database has become read-only, so that reading proves nothing. Nor does a small
write that is taken back: SQLite keeps it in memory and never asks the disk. So a trial makes the database write some
room, `ROOM` bytes, to the disk that decisions go to, and takes it back. Nothing is recorded, and nothing grows:

- SQLite gets a row that is larger than the cache of its connection, so that it spills into the write-ahead log before
  it is rolled back (its manual on temporary files and on write-ahead logging). The log's file keeps that room, and the
  next decisions use it: a trial that went well promises as much.
- PostgreSQL would keep the pages of a row that is rolled back until it is vacuumed. So it sorts beyond its memory, into
  a file on the tablespace of the database, which it removes; an insert of no row finds out about missing rights and
  about servers that only read. Where the disk of its own log is full it stops, which reading finds out.
"""

import threading
from collections.abc import Callable
from copy import copy
from time import monotonic

from sqlalchemy import Connection

from kinband.errors import KinbandError
from kinband.service.ledger import Ledger

ROOM = 256 * 1024
"""Bytes that a trial writes. A round of 105 stations with 29 configurations was measured to add 0.25 to 0.7 MB to the
write-ahead log (0.12 to 0.27 MB of events), so that a trial finds a full disk, and not one that will be in a while."""
EVERY = 5.0
"""Seconds for which a trial that went well counts."""
SOON = 1.0
"""Seconds after which one that did not is repeated."""

_INSERTED = f"INSERT INTO meta (name, text, data, checksum) VALUES ('room', '', zeroblob({ROOM}), '')"  # noqa: S608
_DIGESTS = f"SELECT md5(i::text) AS digest FROM generate_series(1, {ROOM // 43}) AS i ORDER BY digest OFFSET 1"  # noqa: S608
_SORTED = f"SELECT count(*) FROM ({_DIGESTS}) AS spilled"  # noqa: S608 - 43 bytes a row, with what a sort adds


def write_and_take_back(connection: Connection) -> None:
    """Have a database write some room to its disk, in a transaction that is rolled back."""
    if connection.dialect.name == "sqlite":
        usual = connection.exec_driver_sql("PRAGMA cache_size").scalar_one()
        statements = ["PRAGMA cache_size = 16", _INSERTED, "ROLLBACK", f"PRAGMA cache_size = {usual}"]
    else:
        limits = ["SET LOCAL work_mem = '64kB'", "SET LOCAL temp_tablespaces = ''"]
        statements = ["INSERT INTO events SELECT * FROM events WHERE false", *limits, _SORTED, "ROLLBACK"]
    for statement in statements:
        connection.exec_driver_sql(statement)


class Writable:
    """Tells whether a ledger takes writes, by trials that are not repeated for a while.

    Args:
        ledger: Which.
        every: Seconds for which a trial that went well counts.
        soon: Seconds after which one that did not is repeated.
        clock: What counts seconds.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> Writable(ledger).check()
        >>> list(ledger.read())
        []
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(
        self, ledger: Ledger, *, every: float = EVERY, soon: float = SOON, clock: Callable[[], float] = monotonic
    ) -> None:
        self._ledger, self._every, self._soon, self._clock = ledger, every, soon, clock
        self._lock = threading.Lock()
        self._again: float | None = None  # when the next trial is due
        self._refusal: KinbandError | None = None

    def check(self) -> None:
        """Return if the ledger takes writes, else raise what it said; while one thread tries, others go by the last."""
        if self._lock.acquire(blocking=self._again is None):
            try:
                if self._again is None or self._clock() >= self._again:
                    self._refusal = self._try()
                    self._again = self._clock() + (self._every if self._refusal is None else self._soon)
            finally:
                self._lock.release()
        refusal = self._refusal
        if refusal is not None:
            raise copy(refusal) from refusal  # with its code, and a trace of its own

    def _try(self) -> KinbandError | None:
        try:
            with self._ledger.connected(writes=True) as connection:
                write_and_take_back(connection)
        except KinbandError as error:
            return error
        return None
