"""What a reader has chosen, all of it in the address: over which time charts and logs go, and which stations are shown.

An address can be sent to somebody else and shows the same there. A time range is a preset, which moves on with the
service's clock, or lies between two times; it goes along on the links between pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from kinband.errors import BadInputError
from kinband.service.dashboard.dashboard import RANGE, Text
from kinband.service.dashboard.rows import Look
from kinband.service.dashboard.text import STATUS_WORDS, utc, with_query
from kinband.service.operations import MODES

# --- The time range -------------------------------------------------------------------------------------------------

PRESETS: Mapping[str, tuple[str, timedelta | None]] = {
    "6h": ("6 h", timedelta(hours=6)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 days", timedelta(days=7)),
    "all": ("All", None),
}
"""Ranges that end now, by what they are called in an address: what pages call them, and how long they are."""

_DATE = len("2026-11-20")
_MINUTE = len("2026-11-20T10:00")


class Ends(NamedTuple):
    """From when to when, the latter excluded; None for no end."""

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """A time range as an address has it.

    Attributes:
        range: One of `PRESETS`; anything else is all of it.
        since: From this day or minute on, UTC; with it or `until`, no preset counts.
        until: Up to the end of this day or minute, UTC.

    Example:
        >>> noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
        >>> Range(range="6h").ends(noon).start.isoformat()
        '2026-11-20T06:00:00+00:00'
        >>> Range(since="2026-11-19", until="2026-11-19").ends(noon).end.isoformat()
        '2026-11-20T00:00:00+00:00'
    """

    range: Text = ""
    since: Text = ""
    until: Text = ""

    @property
    def name(self) -> str:
        """The preset, or nothing where two times were given."""
        return "" if self.since or self.until else self.range if self.range in PRESETS else "all"

    def ends(self, now: datetime) -> Ends:
        """Return from when to when."""
        if name := self.name:
            long = PRESETS[name][1]
            return Ends(None if long is None else now - long)
        start = period(self.since, name="from")[0] if self.since else None
        end = period(self.until, name="to")[1] if self.until else None
        if start is not None and end is not None and start >= end:
            raise BadInputError(
                f'"from" is {self.since} and "to" is {self.until}, which is before it',
                hint="swap the two", argument="since", value=self.since,
            )  # fmt: skip
        return Ends(start, end)

    def shown(self, path: str, **kept: object) -> dict[str, Any]:
        """Return what the bar of ranges shows of a page: links to the presets, and the form for two times.

        Args:
            path: The page.
            kept: What else its address says.
        """
        kept = {key: value for key, value in kept.items() if value not in (None, "", False)}
        links = [
            (words, with_query(path, **kept, range="" if name == "all" else name), name == self.name)
            for name, (words, _) in PRESETS.items()
        ]
        return {"path": path, "presets": links, "since": self.since, "until": self.until, "kept": kept,
                "words": "" if self.name else _between(self.since, self.until)}  # fmt: skip


def _between(since: str, until: str) -> str:
    first, last = since.replace("T", " "), until.replace("T", " ")
    return " ".join(filter(None, [f"from {first}" if first else "", f"to {last}" if last else ""]))


def period(text: str, *, name: str) -> tuple[datetime, datetime]:
    """Return the beginning and the end of a day, a minute or a second, UTC unless it says otherwise.

    Args:
        text: A day, or a time as forms send it.
        name: What it is for, in a complaint.
    """
    try:
        begin = utc(datetime.fromisoformat(text.strip()))
        step = timedelta(days=1) if len(text.strip()) <= _DATE else timedelta(minutes=1)
        end = begin + (step if len(text.strip()) <= _MINUTE else timedelta(seconds=1))
    except (ValueError, OverflowError) as error:
        raise BadInputError(
            f'"{name}" takes a day or a time such as 2026-11-20T10:04, got {text!r:.60}', argument=name, value=text
        ) from error
    return begin.astimezone(UTC), end.astimezone(UTC)


# --- Which stations -------------------------------------------------------------------------------------------------

FROZEN = {"any": "by anybody", "person": "by a person", "rails": "by the rails"}
"""How a station may be frozen, to choose from."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which stations are wanted; empty for all. What does not exist is nothing that any station has.

    Attributes:
        q: Part of the name.
        mode: In this mode.
        status: Whose last decision came to this.
        frozen: Frozen by these, one of `FROZEN`.
        group: In this group of stations alike, from 1, as the page on similarity numbers them.
    """

    q: Text = ""
    mode: Text = ""
    status: Text = ""
    frozen: Text = ""
    group: Text = ""

    @property
    def values(self) -> dict[str, str]:
        """All of them by name, as an address has them."""
        return {"q": self.q, "mode": self.mode, "status": self.status, "frozen": self.frozen, "group": self.group}

    @property
    def given(self) -> bool:
        """Whether any station may be left out."""
        return any(self.values.values())

    def fit(self, looks: Sequence[Look], groups: Mapping[str, int]) -> list[Look]:
        """Return the stations that are wanted.

        Args:
            looks: All of them.
            groups: The group of those that are in one.
        """
        if not self.given:
            return list(looks)
        wanted, frozen = self.q.casefold(), {self.frozen} if self.frozen != "any" else {"person", "rails"}
        return [
            look
            for look in looks
            if wanted in look.station.casefold()
            and self.mode in ("", look.mode)
            and self.status in ("", look.status)
            and (not self.frozen or look.frozen_by in frozen)
            and (not self.group or self.group == str(groups.get(look.station)))
        ]

    def shown(self, path: str, groups: Mapping[str, int], **kept: object) -> dict[str, Any]:
        """Return what the form shows: what there is to choose from, and what is chosen.

        Args:
            path: The page.
            groups: The group of those stations that are in one.
            kept: What else the address of the page says.
        """
        kept = {key: value for key, value in kept.items() if value not in (None, "", False)}
        sizes: dict[int, list[str]] = {}
        for station, group in groups.items():
            sizes.setdefault(group, []).append(station)
        named = {str(n): f"{n}: {len(who)} like {min(who)[:24]}" for n, who in sorted(sizes.items())}
        choices: list[tuple[str, str, Mapping[str, str]]] = [
            ("mode", "Mode", {mode: mode for mode in MODES}),
            ("status", "Last decision", STATUS_WORDS),
            ("frozen", "Frozen", FROZEN),
            ("group", "Group alike", named),
        ]
        chips = [f"name has “{self.q}”"] if self.q else []
        chips += [
            f"{words.lower()} {offered.get(getattr(self, name), getattr(self, name))}"
            for name, words, offered in choices
            if getattr(self, name)
        ]
        return {"path": path, "q": self.q, "chosen": self.values, "choices": choices, "kept": kept,
                "given": self.given, "chips": chips, "unfiltered": with_query(path, **kept)}  # fmt: skip


def range_kept(chosen: Range) -> dict[str, str]:
    """Return what links between pages keep of a range.

    Example:
        >>> range_kept(Range(range="6h"))
        {'range': '6h', 'since': '', 'until': ''}
    """
    return {name: getattr(chosen, name) for name in RANGE}
