"""A short memory: what was looked up a moment ago need not be looked up again.

It is bounded in time, so that what other processes change is seen soon, and in number, so that callers cannot fill it.
What this process itself changes is forgotten at once, also by a look-up that is under way: every change moves on a
turn, and what was looked up in an earlier turn is not kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[V]):
    value: V
    since: float


class Memory(Generic[V]):
    """Values by name, for some seconds; threads may share it.

    Args:
        seconds: How long a value is kept.
        most: How many are kept; the one that was kept first goes first.
        clock: What says the time, in seconds that never go back.

    Example:
        >>> time = 0.0
        >>> memory = Memory[int](seconds=5, most=100, clock=lambda: time)
        >>> memory.keep("a", 1, turn=memory.turn)
        >>> memory.recall("a")
        1
        >>> time = 5.0
        >>> memory.recall("a") is None
        True
    """

    def __init__(self, *, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[str, _Kept[V]] = OrderedDict()
        self._lock = threading.Lock()
        self.turn = 0

    def recall(self, name: str) -> V | None:
        """Return what is kept under a name, None where that is nothing or too old."""
        with self._lock:
            kept = self._kept.get(name)
            return kept.value if kept is not None and self._clock() < kept.since + self._seconds else None

    def recall_old(self, name: str, *, within: float) -> V | None:
        """Return what is kept under a name although it is too old to be relied on, if it is not older than this.

        Example:
            >>> time = 0.0
            >>> memory = Memory[int](seconds=5, most=100, clock=lambda: time)
            >>> memory.keep("a", 1, turn=memory.turn)
            >>> time = 20.0
            >>> memory.recall("a"), memory.recall_old("a", within=30), memory.recall_old("a", within=20)
            (None, 1, None)
        """
        with self._lock:
            kept = self._kept.get(name)
            return kept.value if kept is not None and self._clock() < kept.since + within else None

    def keep(self, name: str, value: V, *, turn: int) -> None:
        """Keep a value whose look-up began in this turn, unless something was forgotten since."""
        with self._lock:
            if turn != self.turn:
                return
            self._kept.pop(name, None)
            self._kept[name] = _Kept(value, self._clock())
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, name: str) -> None:
        """Forget a name, also where it is just being looked up."""
        with self._lock:
            self.turn += 1
            self._kept.pop(name, None)
