"""A lock between threads that nobody waits for longer than for the database.

Whoever has the lock may be waiting for a database that is away, and a queue behind it would wait one timeout after
another, each longer than any caller's patience. So nobody waits for the lock longer than for the database, and whoever
wants to write and has waited behind somebody who then got no answer hears the same, rather than to wait as long again.
"""

import threading
from time import monotonic
from types import TracebackType

from kinband.service.ledger.errors import LedgerUnavailableError

_WHILE = 1.0  # seconds that one has to have waited for another's failure to be one's own


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
        self._depth = 0  # how often its owner has taken it
        self._came = 0.0  # when its owner began to wait for it
        self._failed = float("-inf")  # when somebody who had it got no answer

    def __enter__(self) -> None:
        came = monotonic()
        if not self._lock.acquire(timeout=self._seconds):
            raise self._busy()
        if self._depth == 0:
            self._came = came
        self._depth += 1

    def check_answered(self) -> None:
        """Refuse its owner to ask a database again that gave no answer while the owner waited; looking is not asking.

        Example:
            >>> mutex = Mutex("ledger.db", seconds=10)
            >>> with mutex:
            ...     mutex.check_answered()
        """
        if self._failed - self._came > _WHILE:
            raise self._busy()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LedgerUnavailableError):
            self._failed = monotonic()
        self._depth -= 1
        self._lock.release()

    def _busy(self) -> LedgerUnavailableError:
        return LedgerUnavailableError(f"the ledger {self._name} is busy: nothing was recorded, try again later")
