"""Windows of time: when changes may be made, and when not.

**The clock on the wall decides.** A window is written in local time, and a moment lies in it if a clock on the wall, in
the window's zone, shows a time that does. A moment always has exactly one local time, so that nothing is left open
where clocks are changed:

- a local time that does not exist (02:30 in the night when 02:00 becomes 03:00) is shown at no moment: a window from
  02:30 to 05:00 begins at 03:00 that night, and one from 02:00 to 03:00 does not open;
- a local time that exists twice is shown twice: a window from 02:00 to 03:00 lasts two hours that night, and one from
  02:30 to 03:30 is open, closed from the second 02:00 to the second 02:30, and open again.

A window belongs to the day on which it begins: "fri, 22:00 to 05:00" ends on Saturday morning.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from kinband.errors import BadInputError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week, as a rails file names them."""

DAY_END = 24 * 60
"""The minute at which a day ends, 24:00."""

_EVERY_DAY = frozenset(range(7))


def utc(moment: object, *, name: str) -> datetime:
    """Return a moment in UTC, or refuse one that does not say in which zone it is meant.

    All reckoning is done in UTC: the difference of two times of one zone, as Python has it, is that of the clocks on
    the wall, an hour wrong around two nights of the year.

    Example:
        >>> utc(datetime.fromisoformat("2026-07-01T12:00:00+02:00"), name="now").hour
        10
        >>> utc(datetime(2026, 7, 1, 12), name="now")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: now must be a datetime with a time zone, got datetime.datetime(2026, 7, 1, 12, 0)
    """
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise BadInputError(f"{name} must be a datetime with a time zone, got {moment!r:.80}")
    if not 1900 < moment.year < 9000:
        raise BadInputError(f"{name} must lie between the years 1900 and 9000, got {moment}")
    return moment.astimezone(UTC)


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its name in the time zone database.

    Example:
        >>> str(zone_named("Europe/Berlin")), zone_named("UTC") is UTC
        ('Europe/Berlin', True)
    """
    if name == "UTC":
        return UTC  # known without a database of time zones
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadInputError(f"there is no time zone {name!r}: write one such as Europe/Berlin, or UTC") from error


@dataclass(frozen=True)
class Window:
    """The times from `start` to `end` of some days, on the wall clock of a zone.

    Attributes:
        days: Days of the week on which it begins, 0 for Monday.
        start: Minute of the day at which it begins.
        end: Minute of the day at which it is over, 1440 for midnight; before `start` if it lasts past midnight.
        first: First day on which it begins, None for any.
        last: Last day on which it begins, None for any.
        zone: Whose clock counts.
        stations: For whom it holds; None for all.
        why: What it is for, in words.

    Example:
        >>> night = Window(days=frozenset({4}), start=22 * 60, end=5 * 60, zone=zone_named("Europe/Berlin"))
        >>> night.holds(datetime(2026, 7, 4, 2, 59, tzinfo=UTC)), night.holds(datetime(2026, 7, 4, 3, 0, tzinfo=UTC))
        (True, False)
        >>> str(night)
        'fri 22:00 to 05:00 (Europe/Berlin)'
    """

    days: frozenset[int] = _EVERY_DAY
    start: int = 0
    end: int = DAY_END
    first: date | None = None
    last: date | None = None
    zone: tzinfo = UTC
    stations: frozenset[str] | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.start < DAY_END or not 0 <= self.end <= DAY_END:
            raise BadInputError(f"a window lies between 00:00 and 24:00, got minutes {self.start} to {self.end}")
        if self.start == self.end or (self.start and self.end == 0):
            advice = "write 24:00 for midnight" if self.end == 0 else "leave both out for the whole day"
            raise BadInputError(f"the window from {clock(self.start)} to {clock(self.end)} is empty: {advice}")
        if not self.days or not self.days <= _EVERY_DAY:
            raise BadInputError(f"the window has no day: name some of {', '.join(DAYS)}, or leave days out")
        if self.stations is not None and not self.stations:
            raise BadInputError("the window holds for no station: name some, or leave stations out for all")
        self._check_dates()

    def _check_dates(self) -> None:
        if self.first is None or self.last is None:
            return
        if self.first > self.last:
            raise BadInputError(f"the window ends on {self.last}, before its first day, {self.first}: exchange them")
        span = min((self.last - self.first).days + 1, 7)
        if not any((self.first + timedelta(days=n)).weekday() in self.days for n in range(span)):
            days = days_in_words(self.days)
            raise BadInputError(f"the window is empty: no {days} lies between {self.first} and {self.last}")

    def concerns(self, station: str) -> bool:
        """Say whether the window holds for a station."""
        return self.stations is None or station in self.stations

    def holds(self, now: datetime) -> bool:
        """Say whether a moment lies in the window."""
        shown = now.astimezone(self.zone)
        minute, today = shown.hour * 60 + shown.minute, shown.date()
        if self.start < self.end:
            return self.start <= minute < self.end and self._begins(today)
        yesterday = today - timedelta(days=1)
        return (minute >= self.start and self._begins(today)) or (minute < self.end and self._begins(yesterday))

    def _begins(self, day: date) -> bool:
        late_enough = self.first is None or day >= self.first
        return late_enough and (self.last is None or day <= self.last) and day.weekday() in self.days

    def __str__(self) -> str:
        parts = [] if self.days == _EVERY_DAY else [days_in_words(self.days)]
        if (self.start, self.end) != (0, DAY_END):
            parts.append(f"{clock(self.start)} to {clock(self.end)}")
        if self.first is not None or self.last is not None:
            parts.append(_dates(self.first, self.last))
        return f"{' '.join(parts) or 'always'} ({self.zone}){', ' + self.why if self.why else ''}"


def clock(minute: int) -> str:
    """Return a minute of the day as a clock shows it.

    Example:
        >>> clock(22 * 60 + 5)
        '22:05'
    """
    return f"{minute // 60:02d}:{minute % 60:02d}"


def days_in_words(days: Iterable[int]) -> str:
    """Return days of the week by name, three or more in a row as a range.

    Example:
        >>> days_in_words({0, 1, 2, 3, 4}), days_in_words({6, 5}), days_in_words({0, 2})
        ('mon-fri', 'sat, sun', 'mon, wed')
    """
    ordered = sorted(days)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{DAYS[ordered[0]]}-{DAYS[ordered[-1]]}"
    return ", ".join(DAYS[day] for day in ordered)


def _dates(first: date | None, last: date | None) -> str:
    if first is None:
        return f"up to {last}"
    if last is None:
        return f"from {first} on"
    return f"on {first}" if first == last else f"from {first} to {last}"
