"""The first page: how the network does, on a map and in a few figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any, NamedTuple

from kinband.counting import counted
from kinband.service.dashboard.addresses import station_url
from kinband.service.dashboard.charts.bars import parts
from kinband.service.dashboard.charts.lines import Line, time_chart
from kinband.service.dashboard.charts.scales import AGE_COLOURS, MODE_COLOURS, UNKNOWN, Scale, ramp, thinned
from kinband.service.dashboard.charts.tiles import sector_tiles
from kinband.service.dashboard.charts.wedges import Sector, ruler_words, sector_map
from kinband.service.dashboard.figures import AGE_NAMES, age_class, ago, figure, signed
from kinband.service.dashboard.views.common import Names, names_of, sites_of
from kinband.service.operations import MODES, Card, Operations, Picture, Site

COLOURS = ("reward", "mode", "change")
"""What the map may be coloured by."""
SLOTS = 24
"""Over how many slots "recent" goes."""
_WORST = 8


class Look(NamedTuple):
    """A station as the map shows it."""

    station: str
    mode: str
    running: str
    recent: float | None
    changed: datetime | None
    changed_by: str
    frozen: str | None


def overview(operations: Operations, colour: str) -> dict[str, Any]:
    """Return what the first page shows; anything but a known `colour` is the first of them."""
    colour = colour if colour in COLOURS else COLOURS[0]
    names, sites, now = names_of(operations), sites_of(operations), operations.now()
    with operations.looking() as picture:
        looks = [look_of(card, picture, names) for card in picture.cards.values() if card.active]
        gain, fleet, counts = picture.gain(), picture.fleet(), dict(picture.counts)
        refused, mode = picture.refused(now.date()), picture.mode
    worst = sorted((look for look in looks if look.recent is not None), key=lambda look: look.recent or 0.0)[:_WORST]
    sectors, legend = coloured(looks, colour, sites=sites, now=now)
    return {
        "colour": colour,
        "colours": COLOURS,
        "map": sector_map(sectors, says=_map_words(looks, colour)),
        "ruler": ruler_words(sectors),
        "cells": sector_tiles(sectors, says="Stations whose place is not known, one tile each."),
        "legend": legend,
        "placed": sum(sector.place is not None for sector in sectors),
        "loose": sum(sector.place is None for sector in sectors),
        "gain": gain,
        "recent": recent_of(looks),
        "known": sum(look.recent is not None for look in looks),
        "slots": SLOTS,
        "refused": refused,
        "rails_stop": operations.guard_in_force().rails.stop,
        "mode": mode,
        "decisions": counts.get("decisions", 0),
        "modes": [(name, sum(look.mode == name for look in looks)) for name in MODES],
        "modes_bar": _modes_bar(looks),
        "frozen": sum(look.frozen is not None for look in looks),
        "stations": len(looks),
        "worst": worst,
        "fleet": _fleet_chart(fleet),
        "fleet_words": _fleet_words(fleet),
    }


def recent_of(looks: Sequence[Look]) -> float | None:
    """Return the mean over stations of what each earned of late, as the metric `kinband_recent_reward` has it."""
    known = [look.recent for look in looks if look.recent is not None]
    return fmean(known) if known else None


def look_of(card: Card, picture: Picture, names: Names) -> Look:
    """Return a station as map and lists show it."""
    return Look(
        card.station, card.mode, names.text(card.running), picture.recent(card.station, SLOTS), card.changed,
        card.changed_by, card.frozen,
    )  # fmt: skip


def coloured(
    looks: Sequence[Look], colour: str, *, sites: Mapping[str, Site], now: datetime
) -> tuple[list[Sector], list[tuple[str, str]]]:
    """Return the sectors of the map, and the legend as pairs of colour and words."""
    known = sorted(look.recent for look in looks if look.recent is not None)
    low, high = _range(known)
    scale = Scale(low, high, 0.0, 1.0)

    def of(look: Look) -> str:
        if colour == "mode":
            return MODE_COLOURS[look.mode]
        if colour == "change":
            return UNKNOWN if look.changed is None else AGE_COLOURS[age_class(look.changed, now)]
        return UNKNOWN if look.recent is None else ramp(round(scale(look.recent), 3))

    sectors = []
    for look in looks:
        site = sites.get(look.station)
        place, azimuth = (None, None) if site is None else ((site.x, site.y), site.azimuth)
        frozen = "frozen" if look.frozen is not None else ""
        words = _words(look, now)
        sectors.append(Sector(look.station, of(look), station_url(look.station), words, place, azimuth, frozen))
    return sectors, _legend(colour, low, high, bool(known))


def _range(known: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the colours: all but the outermost twentieth of the stations lies between them."""
    if not known:
        return 0.0, 1.0
    cut = len(known) // 20
    return known[cut], known[-1 - cut]


def _legend(colour: str, low: float, high: float, known: bool) -> list[tuple[str, str]]:
    if colour == "mode":
        return [(MODE_COLOURS[name], name) for name in MODES]
    if colour == "change":
        return [*zip(AGE_COLOURS, AGE_NAMES, strict=True), (UNKNOWN, "never")]
    return [("ramp", f"{figure(low)}|{figure(high)}")] if known else [(UNKNOWN, "no reward known yet")]


def _words(look: Look, now: datetime) -> str:
    reward = "no reward known yet" if look.recent is None else f"recent reward {figure(look.recent)}"
    change = "never changed" if look.changed is None else f"changed {ago(look.changed, now)}"
    frozen = "" if look.frozen is None else ", frozen"
    return f"{look.station}: {reward}, {look.mode}, runs {look.running}, {change}{frozen}"


def _map_words(looks: Sequence[Look], colour: str) -> str:
    what = {"reward": "recent reward", "mode": "mode", "change": "time since the last change"}[colour]
    return f"Map of {counted(len(looks), 'station')}, coloured by {what}. Each is a link to its page."


def _modes_bar(looks: Sequence[Look]) -> str:
    counted = Counter(look.mode for look in looks)
    return parts([(MODE_COLOURS[name], counted[name] / len(looks)) for name in MODES if counted[name]])


Fleet = Sequence[tuple[datetime, float, float | None, int]]


def _fleet_chart(fleet: Fleet) -> str:
    times, (reward, fixed) = thinned([at for at, *_ in fleet], [row[1] for row in fleet], [row[2] for row in fleet])
    lines = [Line("fixed, expected", fixed, "two"), Line("reward", reward, "one")]
    return time_chart(times, lines, says=_fleet_words(fleet), height=230)


def _fleet_words(fleet: Fleet) -> str:
    if not fleet:
        return "No reward is known yet."
    both = [(reward, fixed) for _, reward, fixed, _ in fleet if fixed is not None]
    slots, span = counted(len(fleet), "slot"), _long(fleet[-1][0] - fleet[0][0])
    words = f"Mean reward of all stations over {slots}, {span}: {figure(fleet[-1][1])} in the last."
    if not both:
        return words
    mean = sum(reward - fixed for reward, fixed in both) / len(both)
    return f"{words} On average {signed(mean)} against what the fixed configuration was expected to earn."


def _long(span: timedelta) -> str:
    days, hours = span.days, round(span.seconds / 3600)
    return counted(days, "day") if days >= 2 else f"{24 * days + hours} hours"
