"""A station's page: what it earned and ran, what is believed of its configurations, whom it borrows from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from kinband.counting import counted
from kinband.errors import BadInputError
from kinband.service.dashboard.charts.lines import Belief, Line, Marker, band_chart, best_first, time_chart, whisker
from kinband.service.dashboard.charts.scales import around, thinned
from kinband.service.dashboard.figures import figure, time_text, value_text
from kinband.service.dashboard.views.common import Names, names_of, row_of, sites_of
from kinband.service.dashboard.views.evidence import lending
from kinband.service.dashboard.words import BY_WORDS
from kinband.service.operations import Item, Operations, Outlook
from kinband.service.operations.picture import Change

SHOWN = 500
"""Slots on the charts."""
_DECISIONS, _MOST_KNOBS = 20, 4
_LENDERS, _WORTH = 8, 0.005  # how many are shown, and the smallest share


def station(operations: Operations, name: str, *, evidence: bool = False) -> dict[str, Any]:
    """Return what the page of a station shows, or refuse where there is none of that name.

    Args:
        operations: Where it is.
        name: The station.
        evidence: Whether to work out whose experience its last decision rested on where that takes long.
    """
    names = names_of(operations)
    with operations.looking() as picture:
        card = replace(picture.card(name))  # as it is now: the original goes on changing
        items, changes = picture.latest(station=name, limit=SHOWN), picture.changes(name)
        gain, recent = picture.gain(name), picture.recent(name)
    rows, points = [row_of(item, names, gains=False) for item in items[:_DECISIONS]], items[::-1]
    span = (points[0].at, points[-1].at) if points else None
    shown = {
        "card": card,
        "running": names.text(card.running),
        "before": names.text(card.before),
        "fixed": names.text(card.fixed),
        "undoable": card.before is not None and card.before != card.running,
        "frozen_by_rails": _frozen_by_rails(operations, name),
        "gain": gain,
        "recent": recent,
        "rows": rows,
        "site": sites_of(operations).get(name),
        "reward_chart": _reward_chart(points, name),
        "knob_charts": [] if span is None else _knob_charts(points, changes, names, span=span),
        "whose": sorted({change.by for change in changes} & set(BY_WORDS)),
        "weighed": evidence,
    }
    return shown | _outlook(operations, name, card.last, evidence=evidence)


def _frozen_by_rails(operations: Operations, name: str) -> str | None:
    """Return why the rails freeze a station; None where they do not."""
    rails = operations.guard_in_force().rails
    today = operations.now().astimezone(rails.zone).date()
    held = [freeze for freeze in rails.freeze if freeze.station == name and freeze.holds(today)]
    return held[0].why or "it is on the freeze list" if held else None


def _reward_chart(points: Sequence[Item], name: str) -> Markup:
    known = [point.reward for point in points if point.reward is not None]
    if not known:
        return Markup("")
    times, (reward, fixed) = thinned(
        [point.at for point in points], [point.reward for point in points], [point.baseline for point in points]
    )
    says = (
        f"Reward of {name} over {counted(len(points), 'slot')}: mean {figure(sum(known) / len(known))}, "
        f"last {figure(known[-1])}, lowest {figure(min(known))}, highest {figure(max(known))}."
    )
    lines = [Line("fixed, expected", fixed, "two"), Line("reward", reward, "one")]
    return time_chart(times, lines, says=says, height=200, span=(points[0].at, points[-1].at))


def _knob_charts(
    points: Sequence[Item], changes: Sequence[Change], names: Names, *, span: tuple[datetime, datetime]
) -> list[tuple[str, Markup]]:
    """Return a chart for every knob that moved, or for the first where none did, all over the same time."""
    seen, space = {point.arm for point in points if point.arm is not None}, names.space
    moved = [knob for knob in space.knobs if len({space[arm][knob] for arm in seen}) > 1]
    shown = [change for change in changes if span[0] <= change.at <= span[1]]
    return [
        (knob, _knob_chart(points, shown, names, knob=knob, span=span))
        for knob in (moved or list(space.knobs)[:1])[:_MOST_KNOBS]
        if seen
    ]


def _knob_chart(
    points: Sequence[Item],
    changes: Sequence[Change],
    names: Names,
    *,
    knob: str,
    span: tuple[datetime, datetime],
) -> Markup:
    categorical = list(names.space.knobs).index(knob) in names.space.categorical
    values = names.space.knobs[knob]
    arms = {arm for change in changes for arm in (change.arm, change.before)} | {point.arm for point in points}
    high = {arm: _height(arm, names, knob=knob, categorical=categorical) for arm in arms}
    times, heights = _without_repeats([point.at for point in points], [high[point.arm] for point in points])
    markers = [found for change in changes if (found := _marker(change, names, high)) is not None]
    known = [h for h in heights if h is not None]
    says = (
        f"{knob} over time: {counted(len(markers), 'change')}, now "
        f"{value_text(values[int(known[-1])] if categorical else known[-1]) if known else 'not known'}."
    )
    return time_chart(
        times,
        [Line(knob, heights, "three", steps=True)],
        says=says,
        span=span,
        markers=markers,
        height=150,
        bounds=None if categorical else around(known, margin=0.25, least=2.0),
        names=[value_text(value) for value in values] if categorical else (),
    )


def _without_repeats(
    times: Sequence[datetime], heights: Sequence[float | None]
) -> tuple[list[datetime], list[float | None]]:
    """Return the points of a step curve where it moves, and its ends."""
    last = len(times) - 1
    kept = [i for i in range(len(times)) if i in (0, last) or heights[i] != heights[i - 1]]
    return [times[i] for i in kept], [heights[i] for i in kept]


def _height(arm: int | None, names: Names, *, knob: str, categorical: bool) -> float | None:
    """Return where the value of a knob stands on its chart: a category by its place in the list."""
    configuration = None if arm is None else names.configuration(arm)
    if configuration is None:
        return None
    value = configuration[knob]
    return float(names.space.knobs[knob].index(value)) if categorical else float(value)


def _marker(change: Change, names: Names, high: Mapping[int | None, float | None]) -> Marker | None:
    """Return the marker of a change, unless the knob whose heights these are did not move."""
    if high[change.arm] in (None, high[change.before]):
        return None
    return Marker(change.at, change.by, _change_words(change, names), high[change.arm])


@lru_cache(maxsize=8192)  # the past stays as it is
def _change_words(change: Change, names: Names) -> Markup:
    who = f" ({change.actor})" if change.actor else ""
    came = "" if change.before is None else f" from {names.text(change.before)}"
    by = BY_WORDS.get(change.by, change.by)
    return escape(f"{time_text(change.at)}:{came} to {names.text(change.arm)}, {by}{who}")


def _outlook(operations: Operations, name: str, last: str | None, *, evidence: bool) -> dict[str, Any]:
    """Return what is believed of the station's configurations, or why nothing is."""
    empty: dict[str, Any] = {
        "outlook": None,
        "outlook_chart": "",
        "beliefs": [],
        "lenders": [],
        "own": None,
        "of": "",
        "untold": "Not known yet.",
        "offered": False,
    }
    try:
        found = operations.outlook(name)
    except BadInputError as error:
        return empty | {"no_outlook": str(error)}
    shown = empty | {"no_outlook": "", "outlook": found}
    shown |= (lent := lending(operations, found, last, evidence=evidence))
    shown["own"] = dict(lent["shares"]).get(name)
    shown["lenders"] = [(each, part) for each, part in lent["shares"] if each != name and part >= _WORTH][:_LENDERS]
    if found.mean is None or found.width is None:
        return shown | {"no_outlook": "This policy predicts nothing, so that there is nothing to show."}
    names = names_of(operations)
    beliefs, space = _beliefs(found, names), names.space
    if len(space.knobs) == 1 and not space.categorical and len(beliefs) > 1:
        ordered = sorted(beliefs, key=lambda belief: belief.x)
        return shown | {"outlook_chart": band_chart(ordered, says=_words(ordered, name))}
    return shown | {"beliefs": _listed(beliefs), "configurations": len(beliefs)}


def _beliefs(found: Outlook, names: Names) -> list[Belief]:
    rows = zip(found.arms, found.configurations, found.mean or (), found.width or (), strict=True)
    return [
        Belief(
            _number(next(iter(configuration.values()))), names.text(arm), mean, width,
            running=arm == found.running, chosen=arm == found.choice,
        )
        for arm, configuration, mean, width in rows
    ]  # fmt: skip


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _listed(beliefs: Sequence[Belief]) -> list[tuple[Belief, Markup]]:
    """Return the best beliefs with their whiskers, on one scale."""
    best = best_first(beliefs)
    low, high = around(end for belief in best for end in belief.interval)
    return [(belief, whisker(belief, low=low, high=high)) for belief in best]


def _words(beliefs: Sequence[Belief], name: str) -> str:
    best = max(beliefs, key=lambda belief: belief.mean)
    marked = "; ".join(belief.says for belief in beliefs if belief.running or belief.chosen)
    return f"Expected reward of {name} by configuration with its 95 % interval. Highest mean: {best.says}. {marked}."
