"""What is never done: windows of time, limits of knobs, freezes and the fallback, as values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from math import inf, isfinite
from zoneinfo import ZoneInfo

from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace, Knob, Scalar

# --- Windows of time: when changes may be made, and when not --------------------------------------------------------
#
# **The clock on the wall decides.** A window is written in local time, and a moment lies in it if a clock on the wall,
# in the window's zone, shows a time that does. A moment always has exactly one local time, so that nothing is left
# open where clocks are changed:
#
# - a local time that does not exist (02:30 in the night when 02:00 becomes 03:00) is shown at no moment: a window from
#   02:30 to 05:00 begins at 03:00 that night, and one from 02:00 to 03:00 does not open;
# - a local time that exists twice is shown twice: a window from 02:00 to 03:00 lasts two hours that night, and one from
#   02:30 to 03:30 is open, closed from the second 02:00 to the second 02:30, and open again.
#
# A window belongs to the day on which it begins: "fri, 22:00 to 05:00" ends on Saturday morning.

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week, as a rails file names them."""

DAY_END = 24 * 60
"""The minute at which a day ends, 24:00."""

_EVERY_DAY = frozenset(range(7))


def utc(moment: object, *, name: str) -> datetime:
    """Return a moment in UTC, or refuse one that does not say in which zone it is meant.

    All reckoning is done in UTC: the difference of two times of one zone, as Python has it, is that of the clocks on
    the wall, an hour wrong around two nights of the year.
    """
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise BadInputError(f"{name} must be a datetime with a time zone, got {moment!r:.80}")
    if not 1900 < moment.year < 9000:
        raise BadInputError(f"{name} must lie between the years 1900 and 9000, got {moment}")
    return moment.astimezone(UTC)


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its name in the time zone database."""
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
            ends = f"{minute_text(self.start)} to {minute_text(self.end)}"
            raise BadInputError(f"the window from {ends} is empty: {advice}")
        if not self.days or not self.days <= _EVERY_DAY:
            raise BadInputError(f"the window has no day: name some of {', '.join(DAYS)}, or leave days out")
        if self.stations is not None and not self.stations:
            raise BadInputError("the window holds for no station: name some, or leave stations out for all")
        self._check_dates()

    def _check_dates(self) -> None:
        if self.first is None or self.last is None:
            return
        if self.first > self.last:
            raise BadInputError(f"the window ends on {self.last}, before its first day, {self.first}: swap them")
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
            parts.append(f"{minute_text(self.start)} to {minute_text(self.end)}")
        if self.first is not None or self.last is not None:
            parts.append(_dates(self.first, self.last))
        return f"{' '.join(parts) or 'always'} ({self.zone}){', ' + self.why if self.why else ''}"


def minute_text(minute: int) -> str:
    """Return a minute of the day as a clock shows it.

    Example:
        >>> minute_text(22 * 60 + 5)
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


# --- The rails themselves: hard limits as values --------------------------------------------------------------------
#
# What is not given does not limit: `Rails()` lets everything through. `kinband.guardrails.yaml` makes them from a file,
# `kinband.guardrails.review` holds proposals against them. What can be checked without knowing the file is checked
# here, in one place for files and programs; what needs the space of configurations, in `check_rails`.

_ROUNDING = 1e-9  # so that 0.1 * 3 is not outside "up to 0.3"


@dataclass(frozen=True)
class KnobLimit:
    """What a knob may be set to, and how far it may move in one change.

    Attributes:
        low: Smallest number allowed, None for no limit.
        high: Largest number allowed.
        step: How far one change may move it; 0 keeps a knob of any kind as it is.
        values: The values allowed, None for all; the way to limit a knob of categories.

    Example:
        >>> limit = KnobLimit(low=-108, high=-88, step=3)
        >>> limit.allows(-88), limit.allows(-87), limit.reaches(-100, -97), limit.reaches(-100, -96)
        (True, False, True, False)
    """

    low: float | None = None
    high: float | None = None
    step: float | None = None
    values: frozenset[Scalar] | None = None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise BadInputError(f"min is {self.low:g}, max is {self.high:g}: min must not be above max")
        if self.step is not None and not (isfinite(self.step) and self.step >= 0):
            raise BadInputError(f"step must be a number from 0, got {self.step:g}")

    def allows(self, value: Scalar) -> bool:
        """Say whether the knob may be set to a value."""
        if self.values is not None and value not in self.values:
            return False
        if isinstance(value, str):
            return self.low is None and self.high is None
        above = self.low is None or value >= self.low - _ROUNDING * max(abs(self.low), abs(value))
        return above and (self.high is None or value <= self.high + _ROUNDING * max(abs(self.high), abs(value)))

    def reaches(self, before: Scalar, after: Scalar) -> bool:
        """Say whether one change may take the knob from one value to another."""
        if self.step is None or before == after:
            return True
        if isinstance(before, str) or isinstance(after, str):
            return False
        return abs(after - before) <= self.step + _ROUNDING * max(abs(before), abs(after))

    def __str__(self) -> str:
        if self.values is not None:
            return "one of " + ", ".join(sorted(map(str, self.values)))
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        if self.high is not None:
            return f"at most {self.high:g}"
        return "anything" if self.low is None else f"at least {self.low:g}"


@dataclass(frozen=True)
class Freeze:
    """A station that is left alone, for good or until the end of a day.

    Example:
        >>> Freeze("3714", until=date(2026, 5, 1), why="antenna swap").holds(date(2026, 5, 1))
        True
    """

    station: str
    until: date | None = None
    why: str = ""

    def holds(self, today: date) -> bool:
        """Say whether the station is still frozen on a day."""
        return self.until is None or today <= self.until


@dataclass(frozen=True)
class Fallback:
    """When a station returns to what it ran before.

    Attributes:
        drop: By how much rewards must have fallen, at least; more than that counts. None to judge by controls alone.
        slots: How many slots in a row must be as low.
        share: True if `drop` is a share of what was earned before, False if it is in units of the reward.
        before: How many slots before the change are averaged, at most.
        rate: How often a change that does nothing may be taken for a loss against stations that did not change, the
            controls; None to judge by a station's own slots alone. With both, `drop` counts where controls say nothing.
        own: Whether a station's own rewards are watched.
        neighbours: Whether its neighbours' rewards are watched, each for itself.
        within: How long after a change slots are watched; None for as long as it stays, by controls for 96 slots.
        retry_after: How long the change that was taken back is not made again.
        outside_windows: Whether a roll-back may be made outside maintenance windows.

    Example:
        >>> Fallback(drop=0.05, slots=3).allowance(0.9), Fallback(drop=0.1, slots=3, share=True).allowance(-2.0)
        (0.05, 0.2)
        >>> Fallback(rate=0.05).allowance(0.9)
        inf
    """

    drop: float | None = None
    slots: int = 1
    share: bool = False
    before: int = 24
    rate: float | None = None
    own: bool = True
    neighbours: bool = True
    within: timedelta | None = None
    retry_after: timedelta = timedelta(days=1)
    outside_windows: bool = False

    def __post_init__(self) -> None:
        if self.drop is None and self.rate is None:
            raise BadInputError("a fallback needs rate, to judge by controls, or drop and slots, or both")
        if self.drop is not None and (not isfinite(self.drop) or self.drop < 0):
            raise BadInputError(f"drop must be a number from 0, got {self.drop:g}")
        if self.rate is not None and not 0 < self.rate < 0.5:
            raise BadInputError(f"rate must be a share above 0 and below 50%, got {self.rate:g}")
        if min(self.slots, self.before) < 1:
            raise BadInputError(f"slots and before must be at least 1, got {self.slots} and {self.before}")

    def possible(self, low: float, high: float) -> bool:
        """Say whether rewards that lie in a range can fall by as much."""
        before = [high, 0.0] if low <= 0 <= high else [high]  # where the fall to the lowest is furthest beyond
        return any(earned - low > self.allowance(earned) for earned in before)

    def allowance(self, earned: float) -> float:
        """Return how far below what was earned before a reward may fall."""
        if self.drop is None:
            return inf
        return self.drop * abs(earned) if self.share else self.drop


TWO_PEOPLE = ("approve", "rails", "resume")
"""What may take two people: a change, which who asked for it does not approve; other rails; the end of a stop."""


@dataclass(frozen=True)
class Rails:
    """Everything that limits changes.

    Attributes:
        zone: The zone of days and of words.
        stop: The stop switch: nothing changes.
        knobs: Limits of knobs, for all stations.
        stations: Limits of knobs for single stations, on top of those for all.
        min_time: Least time between two changes of a station.
        per_day: Most changes of a station in a local day.
        per_round: Most changes of all stations in a round.
        round: Changes less than this apart are of one round.
        neighbours_together: Whether neighbours may change in one round.
        neighbours: Who is a neighbour of whom; if a is one of b, b is one of a.
        maintenance: Windows outside which nothing changes; None for any time.
        forbidden: Windows in which nothing changes.
        freeze: Stations that are left alone.
        fallback: When a station returns to what it ran before; None for never.
        two_people: What takes two people, of `TWO_PEOPLE`.

    Example:
        >>> Rails(neighbours={"a": frozenset({"b"})}).neighbours["b"]
        frozenset({'a'})
    """

    zone: tzinfo = UTC
    stop: bool = False
    knobs: Mapping[str, KnobLimit] = field(default_factory=dict)
    stations: Mapping[str, Mapping[str, KnobLimit]] = field(default_factory=dict)
    min_time: timedelta = timedelta(0)
    per_day: int | None = None
    per_round: int | None = None
    round: timedelta = timedelta(0)
    neighbours_together: bool = True
    neighbours: Mapping[str, frozenset[str]] = field(default_factory=dict)
    maintenance: tuple[Window, ...] | None = None
    forbidden: tuple[Window, ...] = ()
    freeze: tuple[Freeze, ...] = ()
    fallback: Fallback | None = None
    two_people: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        mutual: dict[str, set[str]] = {}
        for station, others in self.neighbours.items():
            for other in others - {station}:
                mutual.setdefault(station, set()).add(other)
                mutual.setdefault(other, set()).add(station)
        object.__setattr__(self, "neighbours", {name: frozenset(others) for name, others in mutual.items()})
        if unknown := sorted(self.two_people - set(TWO_PEOPLE)):
            raise BadInputError(f"two_people takes {', '.join(TWO_PEOPLE)}, got {unknown[0]!r:.40}")
        if self.maintenance == ():
            raise BadInputError("maintenance names no window, so nothing could ever change: use stop, or leave it out")

    def limits(self, station: str) -> Iterator[tuple[str, KnobLimit]]:
        """Return the limits that hold for a station, by knob: those for all, then its own."""
        yield from self.knobs.items()
        yield from self.stations.get(station, {}).items()


def check_limit(limit: KnobLimit, knob: Knob) -> None:
    """Refuse a limit that its knob cannot have, or that names what the knob never is."""
    if knob.categorical:
        if limit.low is not None or limit.high is not None:
            raise BadInputError(f"knob {knob.name!r} holds categories, which have no min or max: list its values")
        if limit.step:
            raise BadInputError(f"knob {knob.name!r} holds categories, which have no step: 0 keeps it as it is")
    else:
        numbers = [float(value) for value in knob.values]
        for name, given in (("min", limit.low), ("max", limit.high)):
            if given is not None and not min(numbers) <= given <= max(numbers):
                span = f"{min(numbers):g} to {max(numbers):g}"
                raise BadInputError(
                    f"{name} is {given:g}, but {knob.name!r} goes from {span}: check the unit, or leave it out"
                )
    if not any(limit.allows(value) for value in knob.values):
        raise BadInputError(f"no value of {knob.name!r} is {limit}: widen the limit")


def check_rails(rails: Rails, space: ConfigurationSpace, *, station: str | None = None) -> None:
    """Refuse limits that do not fit the space, or that leave nothing to run: to all, or to one station."""
    limits = list(rails.knobs.items() if station is None else rails.limits(station))
    for name, limit in limits:
        check_limit(limit, space.knob(name)[1])
    if not any(all(limit.allows(row[name]) for name, limit in limits) for row in space):
        whom = "stations" if station is None else f"station {station!r}"
        raise BadInputError(f"the limits leave {whom} no configuration: widen the limits of a knob")
