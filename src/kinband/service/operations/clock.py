"""What time it is for the guard rails, whatever the clock of the machine shows.

The least that it can be is the time of the latest event on record, whichever process recorded it, and what a stopwatch,
which nobody can set, has measured since that event was seen. The most is the time of the first event that was not there
at the last look, and what has passed since that look. What the clock shows is taken between the two; where it is out of
them by more than a clock may be off (`TOLERANCE`), the time is in doubt, and says why.

So processes that share a ledger reckon with one time, that of the record, however their clocks differ. A process that
has just started believes a witness, the clock of a database's server. Without one it believes its own clock, as far as
the record lets it: one that goes ahead while nothing runs looks like time that has passed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

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

DRIFT = 1e-4
"""How much faster or slower than time a stopwatch may go, as a share; quartz is at most half as bad."""

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


class _Known(NamedTuple):
    """What was known at a look: how late it was then, at least and at most, when the stopwatch showed `at`."""

    at: float
    latest: Latest
    least: datetime
    most: datetime


class Timekeeper:
    """Says what time it is for one process.

    Args:
        clock: What the time is read from; by default the clock of the machine.
        stopwatch: What measures how much has passed; by default that of the machine, none beside a clock of your own.
        witness: What says at the first look how late it is; asked only where there is a stopwatch.

    Example:
        >>> ten, shown = datetime(2026, 11, 20, 10, tzinfo=UTC), {"hours": 0}
        >>> keeper = Timekeeper(lambda: ten + timedelta(**shown), iter([0.0, 0.0, 60.0]).__next__)
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
        self._witness = witness
        self._known: _Known | None = None

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
        if self._known is None:
            now = self._witness() or self._shown()
            then = max(now, latest[1] or now) - timedelta(seconds=self.seconds() - at)
            self._known = _Known(at, latest, then, then)
        else:
            self._known = _Known(at, latest, *self._bounds(self._known, latest, at=at))

    def take(self, latest: Latest) -> Reading:
        """Return what time it is for what is about to be recorded, and take note of it: it is never earlier again."""
        self.look(latest)
        reading, known = self.read(latest), self._known
        if known is not None:
            self._known = known._replace(least=max(reading.now, known.least))
        return reading

    def read(self, latest: Latest) -> Reading:
        """Return what time it is, given the latest event on record."""
        shown, last, known = self._shown(), latest[1], self._known
        least, most = (shown, shown) if known is None else self._bounds(known, latest, at=self.seconds())
        if last is not None and shown < last:
            doubt = f"the clock shows {_text(shown)}, and the latest event on record is of {_text(last)}"
            now = max(last + _NEXT, least)
            return Reading(now, shown, doubt if now - shown > TOLERANCE else "")
        if shown < least:
            return Reading(least, shown, _differs(shown, least) if least - shown > TOLERANCE else "")
        if shown > most:
            return Reading(max(most, least), shown, _differs(shown, most) if shown - most > TOLERANCE else "")
        return Reading(shown, shown)

    def _bounds(self, known: _Known, latest: Latest, *, at: float) -> tuple[datetime, datetime]:
        """Return the least and the most that it can be when the stopwatch shows `at`, given what is on record now."""
        (epoch, last), passed = latest, at - known.at
        longest = timedelta(seconds=passed + DRIFT * abs(passed))
        least, most = known.least + timedelta(seconds=passed - DRIFT * abs(passed)), known.most + longest
        if last is None or latest == known.latest:
            return least, most
        there = last - timedelta(seconds=max(0.0, self.seconds() - at))  # it is on record now, perhaps not yet then
        new = last + longest  # what was not there at the last look was recorded after it
        return (there, new) if epoch != known.latest[0] else (max(there, least), min(most, new))

    def _shown(self) -> datetime:
        return utc(self._clock(), name="the time of the clock")


def _differs(shown: datetime, moment: datetime) -> str:
    return f"the clock shows {_text(shown)}, and by the time that has passed it is {_text(moment)}"


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
