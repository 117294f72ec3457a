"""Windows on days when clocks are changed, and over midnight: moments in UTC, worked out by hand."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from kinband.errors import BadInputError
from kinband.guardrails import Window
from kinband.guardrails.model import zone_named

BERLIN = ZoneInfo("Europe/Berlin")


def window(start: str, end: str, **more: object) -> Window:
    minutes = [int(text[:2]) * 60 + int(text[3:]) for text in (start, end)]
    return Window(start=minutes[0], end=minutes[1], zone=BERLIN, **more)  # type: ignore[arg-type]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# In Berlin, 02:00 becomes 03:00 on 29 March 2026 at 01:00 UTC, and 03:00 becomes 02:00 on 25 October at 01:00 UTC.


@pytest.mark.parametrize(
    ("utc", "open_"), [("2026-03-29T00:59", False), ("2026-03-29T01:00", True), ("2026-03-29T02:59", True)]
)
def test_a_window_that_begins_at_a_time_that_does_not_exist_begins_when_the_clock_has_jumped(
    utc: str, open_: bool
) -> None:
    assert window("02:30", "05:00").holds(moment(utc)) is open_


def test_a_window_of_times_that_do_not_exist_does_not_open() -> None:
    gap = window("02:00", "03:00", first=date(2026, 3, 29), last=date(2026, 3, 29))
    assert not any(
        gap.holds(moment(f"2026-03-29T{hour:02d}:{minute:02d}")) for hour in range(4) for minute in range(60)
    )


def test_a_window_of_times_that_exist_twice_lasts_twice_as_long() -> None:
    hour = window("02:00", "03:00")
    opened = [hour.holds(moment(text)) for text in ("2026-10-24T23:59", "2026-10-25T00:00", "2026-10-25T01:59")]
    assert opened == [False, True, True]
    assert not hour.holds(moment("2026-10-25T02:00"))


def test_a_window_around_the_hour_that_is_repeated_closes_while_the_clock_shows_an_earlier_time() -> None:
    split = window("02:30", "03:30")
    shown = {
        "00:29": False,
        "00:30": True,
        "00:59": True,
        "01:00": False,
        "01:29": False,
        "01:30": True,
        "02:30": False,
    }
    assert {text: split.holds(moment(f"2026-10-25T{text}")) for text in shown} == shown


@pytest.mark.parametrize(("first", "last", "hours"), [("2026-03-28", "2026-03-29", 6), ("2026-10-24", "2026-10-25", 8)])
def test_a_night_with_a_clock_change_is_an_hour_shorter_or_longer(first: str, last: str, hours: int) -> None:
    night = window("22:00", "05:00")
    held = [
        night.holds(moment(f"{day}T{hour:02d}:{m:02d}")) for day in (first, last) for hour in range(24) for m in (0, 30)
    ]
    assert sum(held[36:60]) == 2 * hours  # from 18:00 UTC to 06:00 UTC, in half hours


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    friday = window("22:00", "05:00", days=frozenset({4}), first=date(2026, 7, 3), last=date(2026, 7, 3))
    shown = {"2026-07-02T21:00": False, "2026-07-03T01:00": False, "2026-07-03T20:00": True, "2026-07-04T02:59": True}
    assert {text: friday.holds(moment(text)) for text in shown} == shown
    assert not friday.holds(moment("2026-07-04T03:00"))
    assert not friday.holds(moment("2026-07-04T20:00"))


def test_dates_alone_are_whole_local_days() -> None:
    holidays = Window(first=date(2026, 12, 24), last=date(2026, 12, 26), zone=BERLIN)
    shown = {"2026-12-23T22:59": False, "2026-12-23T23:00": True, "2026-12-26T22:59": True, "2026-12-26T23:00": False}
    assert {text: holidays.holds(moment(text)) for text in shown} == shown


def test_windows_are_told_in_words() -> None:
    assert str(Window(why="audit")) == "always (UTC), audit"
    assert str(Window(first=date(2026, 12, 24), last=date(2026, 12, 24))) == "on 2026-12-24 (UTC)"
    assert str(Window(first=date(2026, 12, 24), days=frozenset({5}))) == "sat from 2026-12-24 on (UTC)"
    assert str(window("22:00", "05:00", last=date(2026, 12, 24))) == "22:00 to 05:00 up to 2026-12-24 (Europe/Berlin)"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"start": 600, "end": 600}, "from 10:00 to 10:00 is empty: leave both out"),
        ({"start": 600, "end": 0}, "write 24:00 for midnight"),
        ({"start": 1440}, "between 00:00 and 24:00"),
        ({"days": frozenset()}, "has no day"),
        ({"stations": frozenset()}, "for no station"),
        ({"first": date(2026, 5, 2), "last": date(2026, 5, 1)}, "before its first day"),
        ({"first": date(2026, 5, 1), "last": date(2026, 5, 1), "days": frozenset({0, 2})}, "no mon, wed lies between"),
    ],
)
def test_empty_windows_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Window(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Berlin", "", "../etc/passwd", "Europe", "/etc/localtime", "Europe/Berlin\0"])
def test_zones_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="there is no time zone"):
        zone_named(name)
