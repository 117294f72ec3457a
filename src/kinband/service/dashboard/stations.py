"""The list of stations, and the page of one: what it earned and ran, what is believed of it, whom it borrows from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Depends
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError
from kinband.guardrails import Refusal
from kinband.html.svg import around
from kinband.service.dashboard.changes import effects_of
from kinband.service.dashboard.charts import Belief, Line, Marker, band_chart, cell_chart, thinned, time_chart
from kinband.service.dashboard.chosen import Filters, Range, range_kept
from kinband.service.dashboard.dashboard import RANGE, Dashboard, Sent, Text
from kinband.service.dashboard.decision import evidence_shares
from kinband.service.dashboard.rows import Look, Names, frozen_by_rails, names_of, row_of, sites_of
from kinband.service.dashboard.text import (
    BY_WORDS,
    begun,
    figure,
    knobs,
    station_url,
    time_text,
    value_text,
    with_query,
)
from kinband.service.operations import MODES, Operations, Point
from kinband.service.operations.read_model import ReportedChange
from kinband.service.operations.records import checked_mode
from kinband.service.paths import read
from kinband.stats import counted


def add_pages(dashboard: Dashboard) -> None:
    """Add the list, the page of a station, and what its forms are sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/stations")
    def all_stations(
        request: Request,
        filters: Annotated[Filters, Depends()],
        chosen: Annotated[Range, Depends()],
        sort: Text = "",
        down: Text = "",
        page: int = 1,
    ) -> Response:
        def shown() -> dict[str, Any]:
            kept = {**filters.values, **range_kept(chosen)}
            return stations(dashboard, filters, sort=sort, down=down == "1", page=page, kept=kept)

        return dashboard.show(request, "stations.html", shown)

    @dashboard.router.get("/stations/{name:path}")
    def one_station(request: Request, name: str, chosen: Annotated[Range, Depends()], evidence: Text = "") -> Response:
        def shown() -> dict[str, Any]:
            return station(operations, read(name), chosen, evidence=evidence == "1")

        return dashboard.show(request, "station.html", shown, still=evidence == "1")

    @dashboard.form("/stations/{name:path}/roll-back", role="operator")
    def roll_back(sent: Sent) -> str:
        state = operations.roll_back(sent.station, comment=sent.comment, actor=sent.actor)
        return f"{sent.station} runs {names_of(operations).text(state.running)} again."

    @dashboard.form("/stations/{name:path}/roll-back-anyway", role="admin")
    def roll_back_anyway(sent: Sent) -> str:
        state = operations.roll_back(sent.station, comment=sent.comment, override=True, actor=sent.actor)
        return f"{sent.station} runs {names_of(operations).text(state.running)} again."

    @dashboard.form("/stations/{name:path}/freeze", role="operator")
    def freeze(sent: Sent) -> str:
        operations.freeze(sent.station, why=sent.comment, actor=sent.actor)
        return f"{sent.station} is frozen: nothing changes it until it is thawed."

    @dashboard.form("/stations/{name:path}/thaw", role="operator")
    def thaw(sent: Sent) -> str:
        operations.thaw(sent.station, why=sent.comment, actor=sent.actor)
        return f"{sent.station} may be changed again."

    @dashboard.form("/stations/{name:path}/mode", role="admin")
    def mode(sent: Sent) -> str:
        operations.set_mode(checked_mode(sent.mode), [sent.station], comment=sent.comment, actor=sent.actor)
        return f"{sent.station} is in {sent.mode} mode."


# --- The list: found by name, sorted by any column, a page at a time ------------------------------------------------

COLUMNS = ("name", "reward", "gain", "hope", "mode", "status", "runs", "changed")
"""What the list may be sorted by."""
PAGE = 100
"""Stations on a page."""


def stations(
    dashboard: Dashboard, filters: Filters, *, sort: str, down: bool, page: int, kept: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the list shows.

    Args:
        dashboard: Where stations are.
        filters: Which are wanted.
        sort: One of `COLUMNS`; anything else is the first.
        down: Whether the largest comes first.
        page: Which page, from 1.
        kept: What links keep of the address.
    """
    operations = dashboard.operations
    sort, groups = sort if sort in COLUMNS else COLUMNS[0], dashboard.groups.of(operations)
    everybody = dashboard.looks.of(operations, names_of(operations))
    found = filters.fit(everybody, groups)
    ordered = sorted(found, key=lambda look: _key(look, sort), reverse=down)
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(max(page, 1), pages)

    def link(by: str, *, down: bool, page: int = 1) -> str:
        given = {**kept, "sort": "" if by == COLUMNS[0] else by, "down": "1" if down else ""}
        return with_query("/stations", **given, page=None if page == 1 else page)

    order = {"sort": "" if sort == COLUMNS[0] else sort, "down": "1" if down else ""}
    return {
        "sort": sort,
        "down": down,
        "looks": ordered[(page - 1) * PAGE : page * PAGE],
        "found": len(ordered),
        "everybody": len(everybody),
        "page": page,
        "pages": pages,
        "links": {name: link(name, down=not down if sort == name else name in _LARGEST_FIRST) for name in COLUMNS},
        "before": link(sort, down=down, page=page - 1) if page > 1 else "",
        "after": link(sort, down=down, page=page + 1) if page < pages else "",
        "filters": filters.shown("/stations", groups, **order, **{name: kept[name] for name in RANGE}),
    }


_LARGEST_FIRST = ("gain", "hope", "changed")


def _key(look: Look, sort: str) -> tuple[Any, ...]:
    """Return what a station is sorted by; what is not known comes first, and names decide between equals."""
    values = {
        "name": (),
        "reward": (look.recent is not None, look.recent or 0.0),
        "gain": (look.gain is not None, look.gain or 0.0),
        "hope": (0.0 if look.hope is None else look.hope.gain,),
        "mode": (MODES.index(look.mode), look.frozen_by),
        "status": (look.status,),
        "runs": (look.running,),
        "changed": (look.changed is not None, look.changed),
    }
    return *values[sort], look.station


# --- The page of a station ------------------------------------------------------------------------------------------

SHOWN = 500
"""Slots on the charts."""
_DECISIONS, _EFFECTS, _MOST_KNOBS = 20, 8, 4
_LENDERS, _WORTH = 8, 0.005  # how many are shown, and the smallest share
_BEST = 15  # configurations in a list, beside what runs and what would be chosen


def station(operations: Operations, name: str, chosen: Range, *, evidence: bool = False) -> dict[str, Any]:
    """Return what the page of a station shows, or refuse where there is none of that name.

    Args:
        operations: Where it is.
        name: The station.
        chosen: Over which time charts go.
        evidence: Whether to work out whose experience its last decision rested on where that takes long.
    """
    names, ends = names_of(operations), chosen.ends(operations.now())
    with operations.looking() as read_model:
        state, changes = replace(read_model.station(name)), read_model.changes(name)  # as it is now
    records = read_model.latest(station=name, limit=_DECISIONS)
    points = read_model.points(name, SHOWN, since=ends.start, until=ends.end)
    with operations.looking():
        gain, recent = read_model.gain(name), read_model.recent(name)
    back, url = operations.way_back(name), station_url(name)
    shown = {
        "station_state": state,
        "running": names.text(state.running),
        "before": names.text(state.before),
        "fixed": names.text(state.fixed),
        "undoable": state.before is not None and state.before != state.running,
        "back": "" if isinstance(back, Refusal) else names.text(back),
        "held": names.words(back.reason) if isinstance(back, Refusal) else "",
        "frozen_by_rails": frozen_by_rails(operations).get(name),
        "times": chosen.shown(url),
        "nothing": "No slot of that time is on record." if chosen.name != "all" else "No reward is known yet.",
        "gain": gain,
        "recent": recent,
        "rows": [row_of(record, names, gains=False) for record in records],
        "features": [(names.called(feature), value) for feature, value in (state.state or {}).items()],
        "site": sites_of(operations).get(name),
        "still": evidence,
    }
    shown |= _past(name, tuple(points), tuple(changes), names)
    return shown | _outlook(operations, name, state.last, names, evidence=evidence)


@lru_cache(maxsize=64)  # what happens elsewhere is no reason to draw it again
def _past(name: str, points: tuple[Point, ...], changes: tuple[ReportedChange, ...], names: Names) -> Mapping[str, Any]:
    """Return what is shown of the slots and changes of a station."""
    return {
        "reward_chart": _reward_chart(points, name, names.kpi.name),
        "knob_charts": _knob_charts(points, changes, names) if points else [],
        "effects": effects_of(name, points, changes, names, most=_EFFECTS),
        "whose": sorted({change.by for change in changes} & set(BY_WORDS)),
    }


def _reward_chart(points: Sequence[Point], name: str, kpi: str) -> Markup:
    known = [point.reward for point in points if point.reward is not None]
    if not known:
        return Markup("")
    times, (reward, fixed) = thinned(
        [point.at for point in points], [point.reward for point in points], [point.baseline for point in points]
    )
    says = (
        f"{begun(kpi)} of {name} over {counted(len(points), 'slot')}: mean {figure(sum(known) / len(known))}, "
        f"last {figure(known[-1])}, lowest {figure(min(known))}, highest {figure(max(known))}."
    )
    lines = [Line("fixed, expected", fixed, "two"), Line(kpi, reward, "one")]
    return time_chart(times, lines, says=says, height=200, span=(points[0].at, points[-1].at))


def _knob_charts(points: Sequence[Point], changes: Sequence[ReportedChange], names: Names) -> list[tuple[str, Markup]]:
    """Return a chart for every knob that moved, or for the first where none did, all over the same time."""
    seen, space = {point.arm for point in points if point.arm is not None}, names.space
    moved = [knob for knob in space.knobs if len({space[arm][knob] for arm in seen}) > 1]
    wanted = (moved or list(space.knobs)[:1])[:_MOST_KNOBS] if seen else []
    shown = [change for change in changes if points[0].at <= change.at <= points[-1].at]
    return [(names.called(knob).full, _knob_chart(points, shown, names, knob=knob)) for knob in wanted]


def _knob_chart(points: Sequence[Point], changes: Sequence[ReportedChange], names: Names, *, knob: str) -> Markup:
    """Return the chart of a knob; a category stands at its place in the list of values."""
    values = names.space.knobs[knob]
    categorical = list(names.space.knobs).index(knob) in names.space.categorical
    arms = {arm for change in changes for arm in (change.arm, change.before)} | {point.arm for point in points}
    known = {arm: names.configuration(arm) for arm in arms}
    at = {arm: float(values.index(c[knob]) if categorical else c[knob]) for arm, c in known.items() if c is not None}
    moved = [change for change in changes if change.arm in at and at[change.arm] != at.get(change.before)]
    heights = [at.get(point.arm) for point in points]
    kept = [i for i in range(len(points)) if i in (0, len(points) - 1) or heights[i] != heights[i - 1]]
    times, heights = [points[i].at for i in kept], [heights[i] for i in kept]
    last = next((height for height in reversed(heights) if height is not None), None)
    now = "not known" if last is None else value_text(values[int(last)] if categorical else last)
    return time_chart(
        times,
        [Line(names.called(knob).name, heights, "three", steps=True)],
        says=f"{names.called(knob).name} over time: {counted(len(moved), 'change')}, now {now}.",
        span=(points[0].at, points[-1].at),
        markers=[Marker(c.at, c.by, _change_words(c, names), at[c.arm]) for c in moved],
        height=150,
        bounds=None if categorical else around(heights, margin=0.25, least=2.0),
        names=[value_text(value) for value in values] if categorical else (),
    )


def _change_words(change: ReportedChange, names: Names) -> str:
    who = f" ({change.actor})" if change.actor else ""
    came = "" if change.before is None else f" from {names.text(change.before)}"
    by = BY_WORDS.get(change.by, change.by)
    return f"{time_text(change.at)}:{came} to {names.text(change.arm)}, {by}{who}"


def _outlook(operations: Operations, name: str, last: str | None, names: Names, *, evidence: bool) -> dict[str, Any]:
    """Return what is believed of the station's configurations, or why nothing is."""
    shown: dict[str, Any] = {
        "outlook_chart": "", "beliefs": [], "lenders": [], "own": None, "of": "", "untold": "Not known yet.",
        "cells": "", "cell_knobs": [],
        "offered": False, "no_outlook": "",
    }  # fmt: skip
    try:
        found = operations.outlook(name)
    except BadInputError as error:
        return shown | {"no_outlook": str(error)}
    shown |= evidence_shares(operations, found, last, evidence=evidence)
    shares: Mapping[str, float] = shown.pop("shares")
    shown["own"] = shares.get(name)
    shown["lenders"] = [(each, part) for each, part in shares.items() if each != name and part >= _WORTH][:_LENDERS]
    if found.mean is None or found.std is None:
        return shown | {"no_outlook": "This policy predicts nothing, so that there is nothing to show."}
    space, rows = operations.space, zip(found.arms, found.configurations, found.mean, found.std, strict=True)
    beliefs = [
        Belief(knobs(names.named(configuration)), mean, std, running=arm == found.running, chosen=arm == found.choice)
        for arm, configuration, mean, std in rows
    ]
    if len(space.knobs) == 1 and not space.categorical and len(beliefs) > 1:
        values = [float(next(iter(configuration.values()))) for configuration in found.configurations]
        placed = sorted((belief._replace(x=x) for belief, x in zip(beliefs, values, strict=True)), key=lambda b: b.x)
        return shown | {"outlook_chart": band_chart(placed, says=_words(placed, name, names.kpi.name))}
    if len(space.knobs) == 2 and len(beliefs) > 1:
        shown["cells"] = _cells(beliefs, found.configurations, names)
        shown["cell_knobs"] = [names.called(knob).full for knob in space.knobs]
    best = best_first(beliefs)
    scale = around(end for belief in best for end in belief.interval)
    return shown | {"beliefs": best, "scale": scale, "configurations": len(beliefs)}


_MOST_VALUES = 40  # of a knob, that are drawn as cells


def _cells(beliefs: Sequence[Belief], configurations: Sequence[Mapping[str, Any]], names: Names) -> Markup:
    """Return the cells of two knobs; nothing where one has too many values."""
    across, down = names.space.knobs
    columns, rows = (
        [value for value in names.space.knobs[knob] if any(one[knob] == value for one in configurations)]
        for knob in (across, down)
    )
    if max(len(columns), len(rows)) > _MOST_VALUES:
        return Markup("")
    best = max(beliefs, key=lambda belief: belief.mean)
    return cell_chart(
        beliefs,
        across=[value_text(value) for value in columns],
        down=[value_text(value) for value in rows],
        places=[(columns.index(one[across]), rows.index(one[down])) for one in configurations],
        says=f"Expected {names.kpi.name} by {names.called(across).name} and {names.called(down).name}. "
        f"Highest: {best.says}.",
    )


def best_first(beliefs: Sequence[Belief]) -> list[Belief]:
    """Return the beliefs of the largest means, with what runs and what would be chosen wherever these stand."""
    ranked = sorted(beliefs, key=lambda belief: -belief.mean)
    return [belief for rank, belief in enumerate(ranked) if rank < _BEST or belief.running or belief.chosen]


def _words(beliefs: Sequence[Belief], name: str, kpi: str) -> str:
    best = max(beliefs, key=lambda belief: belief.mean)
    marked = "; ".join(belief.says for belief in beliefs if belief.running or belief.chosen)
    return f"Expected {kpi} of {name} by configuration with its 95 % interval. Highest mean: {best.says}. {marked}."
