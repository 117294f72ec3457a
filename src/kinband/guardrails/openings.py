"""When the windows of the rails let a station change next, and until when."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import dropwhile

from kinband.guardrails.model import DAY_END, Window
from kinband.guardrails.rules import Situation, closed, day_full, forbidden, too_soon

AHEAD = timedelta(days=8)
"""How far ahead a window is looked for: every window of a week opens within it."""

LASTING, UNLIMITED = timedelta(days=1), timedelta(hours=1)
"""How long a change may take to be made: to the end of its window, but no longer than this; and without windows."""

_STEP = timedelta(minutes=15)  # no zone's clock is changed at another time


@dataclass(frozen=True)
class Opening:
    """When a station may change next.

    Attributes:
        due: From when.
        until: Until when: the window is over then.

    Example:
        >>> Opening(datetime(2026, 3, 5, tzinfo=UTC), datetime(2026, 3, 5, 5, tzinfo=UTC)).until.hour
        5
    """

    due: datetime
    until: datetime


def windows_of(situation: Situation, station: str) -> tuple[Window, ...]:
    """Return the maintenance windows and forbidden periods of a station; empty where it may change at any time."""
    rails = situation.rails
    return tuple(one for one in (*(rails.maintenance or ()), *rails.forbidden) if one.concerns(station))


def shut(situation: Situation, station: str) -> bool:
    """Whether a window keeps a station from changing now."""
    return forbidden(situation, station) is not None or closed(situation, station) is not None


def next_opening(situation: Situation, station: str) -> Opening | None:
    """Return when a station may change next, within the windows that are open now or open next.

    None where it has no windows, where none opens within `AHEAD`, or where a change that was made too short a while ago
    (`min_time`, `per_day`) keeps it from changing for as long as they are open.
    """
    windows = windows_of(situation, station)
    if windows not in situation.openings:  # the same for all stations that have the same windows
        situation.openings[windows] = tuple(_open(windows, situation, station))
    moments = situation.openings[windows]
    if len(moments) < 2:
        return None
    *inside, until = moments
    free = sorted({*inside, *(at for at in _free(situation, station) if inside[0] <= at < until)})
    due = next((at for at in free if not _too_often(_at(situation, at), station)), None)
    return None if due is None else Opening(due, min(until, due + LASTING))


def lasting(situation: Situation, station: str) -> datetime:
    """Return until when a change that is ordered now may be made."""
    found = next_opening(situation, station)
    return situation.now + UNLIMITED if found is None or found.due > situation.now else found.until


def _open(windows: tuple[Window, ...], situation: Situation, station: str) -> Iterator[datetime]:
    """Give the moments within the time that is open now or next at which a day may begin, and the end of it last."""
    moments = _moments(windows, situation) if windows else iter(())
    inside = dropwhile(lambda at: shut(_at(situation, at), station), moments)
    opens = None
    for at in inside:
        opens = opens or at
        if at >= opens + LASTING or shut(_at(situation, at), station):
            yield min(at, opens + LASTING)
            return
        yield at


def _at(situation: Situation, moment: datetime) -> Situation:
    return replace(situation, now=moment)


def _too_often(situation: Situation, station: str) -> bool:
    return too_soon(situation, station) is not None or day_full(situation, station) is not None


def _free(situation: Situation, station: str) -> Iterator[datetime]:
    """Give when the time is over that a station keeps between two changes, in full seconds."""
    span = situation.rails.min_time
    for change in situation.history.near(situation.now, span, station=station) if span else ():
        free = situation.history.when(change) + span
        yield free + timedelta(microseconds=-free.microsecond % 1_000_000)


def _moments(windows: Iterable[Window], situation: Situation) -> Iterator[datetime]:
    """Give now and, in order, every later time at which a window may open or close, or a day of the rails begin."""
    yield situation.now
    bounds = {(one.zone, minute % DAY_END) for one in windows for minute in (one.start, one.end, 0)}
    bounds.add((situation.rails.zone, 0))
    zones = {zone for zone, _ in bounds}
    begin = situation.now.replace(minute=situation.now.minute // 15 * 15, second=0, microsecond=0)
    offsets = {zone: begin.astimezone(zone).utcoffset() for zone in zones}
    for n in range(int(AHEAD / _STEP)):
        quarter, found = begin + n * _STEP, set[datetime]()
        local = {zone: quarter.astimezone(zone) for zone in zones}
        for zone, shown in local.items():
            if shown.utcoffset() != offsets[zone]:  # the clocks are changed
                found.add(quarter)
                offsets[zone] = shown.utcoffset()
        for zone, minute in bounds:
            wait = (minute - local[zone].hour * 60 - local[zone].minute) % DAY_END
            if wait < _STEP // timedelta(minutes=1):
                found.add(quarter + timedelta(minutes=wait))
        yield from sorted(at.astimezone(UTC) for at in found if at > situation.now)
