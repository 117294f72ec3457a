"""What time it is for the guard rails, whatever the clock of the machine shows.

The time of the latest event on record is the least that it can be, whichever process recorded it. The most that it can
be is that time and what a stopwatch has measured since, which nobody can set. What the clock shows is taken between the
two; where it is out of them by more than a clock may be off (`TOLERANCE`), the time is in doubt, and says why.

A process that has just started knows of no most but what a witness shows, the clock of a database's server. Without
one, a clock that goes ahead while nothing runs looks like time that has passed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kinband.guardrails import TOLERANCE
from kinband.guardrails.model import utc

Clock = Callable[[], datetime]
"""What says the time, with a time zone."""

Witness = Callable[[], datetime | None]
"""Another clock; None where there is none."""

Stopwatch = Callable[[], float]
"""What counts seconds from any beginning on."""

Latest = tuple[int, datetime | None]
"""Of the latest event on record: how often the clock had been set right, and its time; None where there is none."""

_NEXT = timedelta(microseconds=1)  # so that two slots do not begin at the same time


def _now() -> datetime:
    return datetime.now(UTC)


def seconds_since_boot() -> float:
    """Return what no clock that is set can change, with the time in which the machine slept where that is known."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True)
class Reading:
    """What time it is.

    Attributes:
        now: The time to reckon with, UTC.
        shown: What the clock shows.
        doubt: Why the clock cannot be trusted; empty if it can.
    """

    now: datetime
    shown: datetime
    doubt: str = ""


class Timekeeper:
    """Says what time it is for one process.

    Args:
        clock: What the time is read from; by default the clock of the machine.
        stopwatch: What measures how much has passed; by default that of the machine, none beside a clock of your own.
        witness: What says at the first look how late it can be; not asked beside a clock of your own.

    Example:
        >>> ten, shown = datetime(2026, 11, 20, 10, tzinfo=UTC), {"hours": 0}
        >>> keeper = Timekeeper(lambda: ten + timedelta(**shown), iter([0.0, 60.0]).__next__)
        >>> keeper.look((0, ten))
        >>> shown["hours"] = 2
        >>> reading = keeper.read((0, ten))
        >>> reading.now.strftime("%H:%M"), reading.doubt[:39]
        ('10:01', 'the clock shows 2026-11-20 12:00:00 UTC')
    """

    def __init__(
        self, clock: Clock | None = None, stopwatch: Stopwatch | None = None, *, witness: Witness = lambda: None
    ) -> None:
        self._clock = clock or _now
        self._stopwatch = stopwatch or (seconds_since_boot if clock is None else None)
        self._witness = witness if clock is None else lambda: None
        self._zero: datetime | None = None  # the latest that it can have been when the stopwatch showed nothing
        self._looked: float | None = None  # what the stopwatch showed when all that was on record was last known
        self._seen: Latest = 0, None  # what was known then

    def seconds(self) -> float:
        """Return what the stopwatch shows."""
        return 0.0 if self._stopwatch is None else self._stopwatch()

    def look(self, latest: Latest, *, at: float | None = None) -> None:
        """Take note of what is on record.

        Args:
            latest: The latest event.
            at: What the stopwatch showed when that was looked up; now if not given.
        """
        if self._stopwatch is None:
            return
        at = self.seconds() if at is None else at
        if self._looked is None:
            shown = self._witness() or self._shown()
            self._zero = max(shown, latest[1] or shown) - timedelta(seconds=at)
        else:
            self._zero = self._latest_zero(latest)
        self._looked, self._seen = at, latest

    def read(self, latest: Latest) -> Reading:
        """Return what time it is, given the latest event on record."""
        shown, last, most = self._shown(), latest[1], self._most(latest)
        if last is not None and shown < last:
            doubt = f"the clock shows {_text(shown)}, and the latest event on record is of {_text(last)}"
            return Reading(last + _NEXT, shown, doubt if last - shown > TOLERANCE else "")
        if most is not None and shown > most:
            doubt = f"the clock shows {_text(shown)}, and by the time that has passed it is {_text(most)}"
            return Reading(max(most, last or most), shown, doubt if shown - most > TOLERANCE else "")
        return Reading(shown, shown)

    def _most(self, latest: Latest) -> datetime | None:
        zero = self._latest_zero(latest)
        return None if zero is None else zero + timedelta(seconds=self.seconds())

    def _latest_zero(self, latest: Latest) -> datetime | None:
        """The same, given what is on record: what was not there at the last look was recorded after it."""
        epoch, last = latest
        if self._looked is None or last is None or latest == self._seen:
            return self._zero
        zero = last - timedelta(seconds=self._looked)
        return zero if self._zero is None or epoch != self._seen[0] else min(zero, self._zero)

    def _shown(self) -> datetime:
        return utc(self._clock(), name="the time of the clock")


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
