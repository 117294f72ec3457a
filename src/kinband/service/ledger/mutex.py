"""A lock between threads that nobody waits for longer than for the database.

Whoever has the lock may be waiting for a database that is away, and a queue behind it would wait one timeout after
another, each longer than any caller's patience.
"""

import threading
from types import TracebackType

from kinband.service.ledger.errors import LedgerUnavailableError


class Mutex:
    """A lock that a thread may take again while it has it.

    Args:
        name: What is busy, in messages.
        seconds: How long to wait for it at most.

    Example:
        >>> mutex = Mutex("ledger.db", seconds=10)
        >>> with mutex, mutex:
        ...     print("mine")
        mine
    """

    def __init__(self, name: str, *, seconds: float) -> None:
        self._name, self._seconds = name, seconds
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._seconds):
            raise LedgerUnavailableError(f"the ledger {self._name} is busy: nothing was recorded, try again later")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
