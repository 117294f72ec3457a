"""Numbers, times and configurations as a reader sees them, in text and in markup.

A figure that is not known is a dash. Times are UTC, in a `<time>` element that carries them in full.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from kinband.counting import counted
from kinband.service.dashboard.charts.scales import tag

DASH = "–"
"""What is shown of what is not known."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number for people: so many decimals, fewer where it is large.

    Example:
        >>> figure(0.85312), figure(-12.3456), figure(12345.6), figure(None), figure(float("nan"))
        ('0.853', '−12.35', '12,346', '–', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    size = abs(value)
    decimals = digits if size < 10 else max(digits - 1, 0) if size < 100 else max(digits - 2, 0) if size < 1000 else 0
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−") if _counts(text) else text.lstrip("-")


def _counts(text: str) -> bool:
    """Whether a figure is known and anything but noughts."""
    return text.strip(f"-0.,{DASH}") != ""


def signed(value: float | None, digits: int = 3) -> str:
    """Return a difference, with its sign.

    Example:
        >>> signed(0.0214), signed(-0.0214), signed(0.0), signed(None)
        ('+0.021', '−0.021', '0.000', '–')
    """
    text = figure(value, digits)
    return f"+{text}" if value is not None and value > 0 and _counts(text) else text


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Return an interval of differences.

    Example:
        >>> interval(-0.01, 0.032)
        '−0.010 to +0.032'
    """
    return f"{signed(low, digits)} to {signed(high, digits)}"


def share(value: float | None) -> str:
    """Return a share in per cent.

    Example:
        >>> share(0.634), share(0.004), share(None)
        ('63 %', 'under 1 %', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    return "under 1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"


def knobs(configuration: Mapping[str, Any] | None) -> str:
    """Return a configuration in words.

    Example:
        >>> knobs({"threshold_dbm": -98, "scheduler": "pf"}), knobs(None)
        ('threshold_dbm −98, scheduler pf', 'not known')
    """
    if configuration is None:
        return "not known"
    return ", ".join(f"{name} {value_text(value)}" for name, value in configuration.items())


def moves(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Return the knobs that move, each with its old and its new value.

    Example:
        >>> moves({"tilt": 2, "scheduler": "pf"}, {"tilt": 4, "scheduler": "pf"})
        [('tilt', '2', '4')]
        >>> moves(None, {"tilt": 4})
        [('tilt', '?', '4')]
    """
    old = before or {}
    return [
        (knob, value_text(old[knob]) if knob in old else "?", value_text(value))
        for knob, value in (after or {}).items()
        if knob not in old or old[knob] != value
    ]


def value_text(value: object) -> str:
    """Return the value of a knob.

    Example:
        >>> value_text(-98), value_text(2.5), value_text("rr-1"), value_text(True)
        ('−98', '2.5', 'rr-1', 'on')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}".replace("-", "−") if isinstance(value, int | float) else str(value)


def utc(moment: datetime | str) -> datetime:
    """Return a time as a UTC `datetime`; text is that of an event.

    Example:
        >>> utc("2026-11-20T10:00:00Z").hour
        10
    """
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if found.tzinfo is UTC:
        return found
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


@lru_cache(maxsize=8192)
def time_text(moment: datetime | str | None) -> str:
    """Return a time to the minute.

    Example:
        >>> time_text("2026-11-20T10:00:00Z"), time_text(None)
        ('20 Nov 2026 10:00', '–')
    """
    if moment is None:
        return DASH
    at = utc(moment)
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year} {at.hour:02}:{at.minute:02}"


@lru_cache(maxsize=4096)  # many rows of a table are of one slot
def time_tag(moment: datetime | str | None) -> Markup:
    """Return a time as an element.

    Example:
        >>> print(time_tag("2026-11-20T10:00:00Z"))
        <time datetime="2026-11-20T10:00:00Z" title="20 Nov 2026 10:00:00 UTC">20 Nov 2026 10:00</time>
    """
    if moment is None:
        return Markup(DASH)  # noqa: S704 - a constant
    at = utc(moment).replace(microsecond=0, tzinfo=None)
    words = time_text(at)
    return tag("time", words, datetime=f"{at.isoformat()}Z", title=f"{words}:{at.second:02} UTC")


def lasting(span: timedelta) -> str:
    """Return how long something lasts, roughly.

    Example:
        >>> lasting(timedelta(minutes=90)), lasting(timedelta(days=3)), lasting(timedelta(seconds=9))
        ('1 hour', '3 days', 'less than a minute')
    """
    seconds = span.total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return "less than a minute"


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago something was, roughly.

    Example:
        >>> noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
        >>> ago(noon, noon + timedelta(minutes=90)), ago(noon, noon + timedelta(days=3)), ago(noon, noon)
        ('1 hour ago', '3 days ago', 'just now')
    """
    return f"{lasting(now - then)} ago" if now - then >= timedelta(minutes=1) else "just now"


AGES = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=7))
"""Ages by which the map tells changes apart."""
AGE_NAMES = ("in the last hour", "in the last 6 hours", "in the last day", "in the last week", "earlier")


def age_class(then: datetime, now: datetime) -> int:
    """Return the place of an age among `AGE_NAMES`.

    Example:
        >>> noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
        >>> AGE_NAMES[age_class(noon, noon + timedelta(hours=2))]
        'in the last 6 hours'
    """
    return sum(now - then > age for age in AGES)
