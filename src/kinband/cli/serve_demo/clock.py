"""The time of a demonstration: hours that pass in seconds."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic

SLOT = timedelta(hours=1)
"""How long a slot lasts by the simulated clock."""


class DemoClock:
    """A clock that stands in a slot of one hour and moves through it as fast as the demonstration runs.

    It never reaches the next slot by itself: `advance` does. So whatever a person does within a slot lies within it,
    however late the next one is. Threads may share it.

    Args:
        start: When the first slot begins.
        seconds: How many seconds a slot takes.
        tick: What measures them.

    Example:
        >>> clock = DemoClock(datetime(2026, 11, 20, 10, tzinfo=UTC), seconds=2.0, tick=iter([0.0, 1.0, 9.0]).__next__)
        >>> clock().isoformat(), clock().isoformat()
        ('2026-11-20T10:30:00+00:00', '2026-11-20T10:59:59+00:00')
    """

    def __init__(self, start: datetime, *, seconds: float, tick: Callable[[], float] = monotonic) -> None:
        self._slot, self._seconds, self._tick = start.astimezone(UTC), seconds, tick
        self._begun = tick()
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        """Return the time, UTC."""
        with self._lock:
            passed = max(0.0, self._tick() - self._begun) / self._seconds
            return self._slot + min(passed * SLOT, SLOT - timedelta(seconds=1))

    @property
    def slot(self) -> datetime:
        """When the present slot began."""
        with self._lock:
            return self._slot

    def advance(self) -> None:
        """Go on to the next slot."""
        with self._lock:
            self._slot, self._begun = self._slot + SLOT, self._tick()
