"""What a change did: the reward around it, before and after, against stations that did not change where there are some.

`kinband.impact` judges a change by unchanged stations in the same slots. Where too few stayed as they were, as where
many are tried at once, the plain means of before and after are all there is: they have the hours of the day and
everything else that changed in them, and the page says so.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import NotFoundError
from kinband.impact import Change, Judged, Panel, judge_changes
from kinband.service.dashboard.charts import Line, Marker, thinned, time_chart
from kinband.service.dashboard.dashboard import Dashboard, Text
from kinband.service.dashboard.rows import Moves, Names, names_of
from kinband.service.dashboard.text import BY_WORDS, figure, time_text, utc, with_query
from kinband.service.operations import Operations, ReadModel
from kinband.service.operations.read_model import ReportedChange
from kinband.service.operations.records import Point
from kinband.stats import Estimate, counted, student

AROUND = 72
"""Slots before a change and after it that are looked at, at most."""
STATIONS = 60
"""Stations that it is compared with, at most; of more, so many at even distances."""
NEAR = 24
"""Slots before and after of which the plain means are."""


def add_pages(dashboard: Dashboard) -> None:
    """Add the page of a change."""

    @dashboard.router.get("/changes")
    def one_change(request: Request, station: Text = "", at: Text = "") -> Response:
        return dashboard.show(request, "change.html", lambda: change(dashboard.operations, station, at))


class Effect(NamedTuple):
    """What a change did by the plain means of before and after.

    Attributes:
        at: When it was made.
        by: Who made it.
        moves: The knobs that moved.
        before: Mean reward of the last slots before; None where none is known.
        after: Mean reward of the first slots after, until the next change.
        difference: Of the two, with its interval by the scatter from slot to slot.
        link: The page of the change.
    """

    at: datetime
    by: str
    moves: Moves
    before: float | None
    after: float | None
    difference: Estimate
    link: str


def effects_of(
    station: str, points: Sequence[Point], changes: Sequence[ReportedChange], names: Names, *, most: int
) -> list[Effect]:
    """Return what the last changes of a station did, the newest first.

    Args:
        station: Whose.
        points: Its slots, oldest first.
        changes: Its changes, oldest first.
        names: The configurations.
        most: At most so many.
    """
    made = [one for one in changes if one.arm is not None and one.arm != one.before]
    ends = [*(one.at for one in made[1:]), None]
    found = []
    for start, one, end in list(zip([None, *(one.at for one in made)], made, ends, strict=False))[-most:]:
        before, after = _sides(points, one, start=start, end=end)
        told = [float(np.mean(side)) if side else None for side in (before, after)]
        link = with_query("/changes", station=station, at=one.at.isoformat())
        moves = names.moves(one.before, one.arm if one.arm is not None else -1)
        found.append(Effect(one.at, one.by, moves, told[0], told[1], plain_difference(before, after), link))
    return found[::-1]


def _sides(
    points: Sequence[Point], one: ReportedChange, *, start: datetime | None, end: datetime | None
) -> tuple[list[float], list[float]]:
    """Return the rewards of the last slots before a change and of the first with it, within two other changes."""
    first = _first_slot(points, one)
    known = [(point.at, point.reward) for point in points if point.reward is not None]
    before = [reward for when, reward in known if when < first and (start is None or when >= start)]
    after = [reward for when, reward in known if when >= first and (end is None or when < end)]
    return before[-NEAR:], after[:NEAR]


def _first_slot(points: Sequence[Point], one: ReportedChange) -> datetime:
    """Return when the first slot with a change began: the one it was made in, where that is known to have run it."""
    within = next((point for point in reversed(points) if point.at <= one.at), None)
    return within.at if within is not None and within.changed and within.arm == one.arm else one.at


def plain_difference(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """Return the difference of two means with its 95 % interval (Welch 1947, with the fewer slots' degrees of freedom).

    Example:
        >>> f"{plain_difference([0.5, 0.6, 0.7], [0.7, 0.8, 0.9]):.2f}"
        '0.20 (-0.15 to 0.55)'
    """
    if not before or not after:
        return Estimate(float("nan"))
    few = min(len(before), len(after))
    variance = sum(float(np.var(side, ddof=1)) / len(side) for side in (before, after)) if few > 1 else 0.0
    return student(float(np.mean(after) - np.mean(before)), variance, few)


# --- The page of a change -------------------------------------------------------------------------------------------


def change(operations: Operations, station: str, at: str) -> dict[str, Any]:
    """Return what the page shows, or refuse where there was no such change."""
    if not station:
        raise NotFoundError(
            "the address of a change names its station and its time", argument="station",
            hint="open it from the page of its station; changes of today are on the plan page, under done today",
        )  # fmt: skip
    names = names_of(operations)
    with operations.looking() as read_model:
        made = [one for one in read_model.changes(station) if one.arm is not None and one.arm != one.before]
    place = next((i for i, one in enumerate(made) if one.at.isoformat() == at), None)
    if place is None:
        raise NotFoundError(
            f"no change of {station!r:.80} at {at!r:.40} is on record", hint="open it from the station's page"
        )
    one, slot = made[place], _slot_length(read_model, station)
    start = max([one.at - AROUND * slot, *(other.at for other in made[:place][-1:])])
    end = min([one.at + AROUND * slot, *(other.at for other in made[place + 1 :][:1])])
    seen = one.at - AROUND * slot, one.at + AROUND * slot
    points = read_model.points(station, 2 * AROUND + 2, since=seen[0], until=seen[1])
    rows = _rows(read_model, station, start=start, end=end)
    before, after = _sides(points, one, start=start, end=end)
    judged, why = _judged(station, rows, at=_first_slot(points, one))
    return {
        "station": station,
        "at": one.at,
        "by": one.by,
        "actor": one.actor,
        "moves": names.moves(one.before, one.arm if one.arm is not None else -1),
        "judged": judged,
        "verdict": None if judged is None else judged.verdicts["reward"],
        "why": why,
        "before": float(np.mean(before)) if before else None,
        "after": float(np.mean(after)) if after else None,
        "slots": (len(before), len(after)),
        "difference": plain_difference(before, after),
        "chart": _chart(points, one, made, judged, names, rows=rows),
        "whose": sorted({other.by for other in _within(made, points)} & set(BY_WORDS)),
        "range": with_query("", since=f"{seen[0]:%Y-%m-%dT%H:%M}", until=f"{seen[1]:%Y-%m-%dT%H:%M}"),
    }


def _slot_length(read_model: ReadModel, station: str) -> timedelta:
    """Return how long a slot of a station lasts: the median of the last; an hour where nobody knows."""
    times = [point.at for point in read_model.points(station, 30)]
    apart = sorted(b - a for a, b in pairwise(times) if b > a)
    return apart[len(apart) // 2] if apart else timedelta(hours=1)


Rows = dict[str, list[Point]]
"""Slots by station."""


def _rows(read_model: ReadModel, station: str, *, start: datetime, end: datetime) -> Rows:
    """Return the slots of a station and of those it may be compared with, itself first."""
    with read_model.lock:
        others = [name for name, one in read_model.stations.items() if one.active and name != station]
    chosen = [station, *others[:: max(1, -(-len(others) // STATIONS))]]
    return {name: read_model.points(name, 2 * AROUND + 2, since=start, until=end) for name in chosen}


def _judged(station: str, rows: Rows, *, at: datetime) -> tuple[Judged | None, str]:
    """Return what `kinband.impact` makes of a change, or why that says nothing."""
    slots = sorted({point.at for point in rows[station]})
    place = next((i for i, slot in enumerate(slots) if slot >= at), len(slots))
    number, column = {slot: i for i, slot in enumerate(slots)}, {name: i for i, name in enumerate(rows)}
    rewards = np.full((len(slots), len(rows)), np.nan)
    runs = np.full((len(slots), len(rows)), -1, dtype=np.int64)
    for name, points in rows.items():
        for point in points:
            if point.at in number:
                cell = number[point.at], column[name]
                runs[cell] = -1 if point.arm is None else point.arm
                rewards[cell] = np.nan if point.reward is None else point.reward
    if not 0 < place < len(slots):
        return None, "No slot is known on both sides of it."
    moments = np.array([utc(slot).replace(tzinfo=None) for slot in slots], dtype="datetime64[s]")
    arms = tuple({"arm": arm} for arm in range(int(runs.max()) + 1))
    panel = Panel(tuple(rows), moments, {"reward": rewards}, runs, arms)
    found = judge_changes(panel, [Change(station=0, slot=place, begins=0, ends=len(slots))])
    return (found.judged[0], "") if found.judged else (None, found.unjudged[0].reason)


def _within(made: Sequence[ReportedChange], points: Sequence[Point]) -> list[ReportedChange]:
    """Return the changes within some slots."""
    return [other for other in made if points and points[0].at <= other.at <= points[-1].at]


def _chart(
    points: Sequence[Point],
    one: ReportedChange,
    made: Sequence[ReportedChange],
    judged: Judged | None,
    names: Names,
    *,
    rows: Rows,
) -> Markup:
    """Return the reward around a change: with what would have been where that is known, and all changes as markers."""
    if not points:
        return Markup("")
    otherwise = dict[datetime, float]()
    if judged is not None:
        began = sorted({point.at for point in rows[judged.station]})
        otherwise = {began[judged.change.slot + int(t)]: float(value) for t, _, value in judged.curve}
    times, (reward, would) = thinned(
        [point.at for point in points],
        [point.reward for point in points],
        [otherwise.get(point.at) for point in points],
    )
    known = [value for value in (*reward, *would) if value is not None]
    low = min(known, default=0.0)
    marks = [
        Marker(other.at, other.by, f"{time_text(other.at)}: to {names.text(other.arm)}", low)
        for other in _within(made, points)
    ]
    lines = [Line("without the change", would, "two")] if otherwise else []
    return time_chart(
        times, [*lines, Line(names.kpi.name, reward, "one")], markers=marks, height=240, moment=utc(one.at),
        span=(points[0].at, points[-1].at),
        says=f"{names.kpi.name} in {counted(len(points), 'slot')} around the change, "
        f"between {figure(low)} and {figure(max(known, default=0.0))}.",
    )  # fmt: skip
