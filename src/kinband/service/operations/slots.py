"""When slots begin: times in their names, and the slots of a station in the order of time.

A slot whose name is an ISO time begins then. A name without a zone is on the wall clock of the rails' `zone`, UTC where
they name none; an hour that comes twice in autumn is the first of the two. The time goes on record in UTC when the slot
is decided for, so that another zone later moves nothing. Slots without a time begin when they are asked for.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from kinband.errors import BadInputError

_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?\s?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?", re.ASCII
)
_EPOCH, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_LIVE = timedelta(hours=1)  # so long after it began, a slot may be decided for late and still be the present one


def time_of_slot(name: str, zone: tzinfo = UTC) -> datetime | None:
    """Return the time that a name says, UTC; None where it says none.

    Example:
        >>> time_of_slot("2026-11-20T10"), time_of_slot("2026-11-20 10:00+01:00"), time_of_slot("10:00")
        (datetime.datetime(2026, 11, 20, 10, 0, tzinfo=datetime.timezone.utc),
         datetime.datetime(2026, 11, 20, 9, 0, tzinfo=datetime.timezone.utc),
         None)
    """
    if not _ISO.fullmatch(name):
        return None
    try:
        found = datetime.fromisoformat(name.replace(" ", "T", 1).replace(" ", ""))
        return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):  # such as 2026-02-30, which is a name like any other
        return None


class SlotTime(NamedTuple):
    """A slot that is asked for: its name, and when it begins; None where nobody knows.

    Example:
        >>> SlotTime.of("10:00", None)
        SlotTime(name='10:00', begins=None)
    """

    name: str | None
    begins: datetime | None

    @classmethod
    def of(cls, name: str | None, begins: object, zone: tzinfo = UTC) -> "SlotTime":
        """Return a slot from what was said of it; one without a name is called by its time.

        Args:
            name: What the caller calls it.
            begins: When it begins, as ISO text or as a time; None where its name says it, or nothing does.
            zone: The zone of texts that name none.
        """
        if begins is None:
            return cls(name, None if name is None else time_of_slot(name, zone))
        text = begins.isoformat() if isinstance(begins, datetime) else begins
        found = time_of_slot(text, zone) if isinstance(text, str) else None
        if found is None:
            raise BadInputError(
                f"a slot begins at an ISO time, got {begins!r:.60}",
                hint="write one such as 2026-11-20T10:00+01:00",
                code="no_time",
                argument="from",
            )
        return cls(str(text) if name is None else name, found)


def is_past(begins: datetime | None, latest: datetime | None, *, now: datetime) -> bool:
    """Whether a slot is told of afterwards: a later one was decided for, and it began more than an hour ago.

    Example:
        >>> noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
        >>> is_past(noon.replace(hour=9), noon, now=noon), is_past(noon.replace(hour=9), None, now=noon)
        (True, False)
    """
    return begins is not None and latest is not None and begins < latest and begins < now - _LIVE


class Slots:
    """The decisions of a station by the time of their slots, the latest so many.

    Args:
        most: How many are kept.
        numbers: Numbers of decisions, in the order of `times`.
        times: When their slots began, ascending, in microseconds since 1970.

    Example:
        >>> slots = Slots(3)
        >>> for number, day in enumerate([3, 4, 1, 2], start=1):
        ...     slots.add(number, datetime(2026, 11, day, tzinfo=UTC))
        >>> slots.within(None, None), slots.made(), len(slots)
        ([4, 1, 2], [4, 2, 1], 3)
        >>> slots.within(datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC))
        [4, 1]
    """

    def __init__(self, most: int, numbers: Iterable[int] = (), times: Iterable[int] = ()) -> None:
        self._most = most
        self.numbers, self.times = array("q", numbers), array("q", times)

    def __len__(self) -> int:
        return len(self.numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slots) and (self.numbers, self.times) == (other.numbers, other.times)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Slots({self._most}, {self.numbers.tolist()}, {self.times.tolist()})"

    def add(self, number: int, at: datetime) -> None:
        """Put a decision where its time is; the earliest goes where there are too many."""
        ticks = ticks_of(at)
        place = bisect_right(self.times, ticks)
        self.times.insert(place, ticks)
        self.numbers.insert(place, number)
        if len(self.numbers) > self._most:
            del self.times[0], self.numbers[0]

    @property
    def first(self) -> datetime | None:
        """When the first of its slots began; None where there are none."""
        return at_ticks(self.times[0]) if self.times else None

    def made(self) -> Sequence[int]:
        """Return the decisions in the order in which they were made, the last first."""
        return sorted(self.numbers, reverse=True)

    def within(self, begin: datetime | None, end: datetime | None) -> list[int]:
        """Return the decisions whose slots began from a time on and before another, the earliest first."""
        first = 0 if begin is None else bisect_left(self.times, ticks_of(begin))
        return list(self.numbers[first : len(self.times) if end is None else bisect_left(self.times, ticks_of(end))])


def ticks_of(at: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (at - _EPOCH) // _TICK


def at_ticks(ticks: int) -> datetime:
    """Return the time of so many microseconds since 1970, UTC."""
    return _EPOCH + ticks * _TICK
