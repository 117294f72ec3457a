"""The first page: how the network does, on a map and in a few figures; the stop switch and the mode of all stations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinband.counting import counted
from kinband.service.dashboard.charts.lines import Line, time_chart
from kinband.service.dashboard.charts.maps import Sector, ruler_words, sector_map, sector_tiles
from kinband.service.dashboard.charts.svg import MODE_COLOURS, UNKNOWN, Scale, ramp, thinned
from kinband.service.dashboard.desk import Desk, Sent, Text
from kinband.service.dashboard.rows import SLOTS, Look, look_of, names_of, sites_of
from kinband.service.dashboard.text import ago, figure, signed, station_url
from kinband.service.operations import MODES, Operations
from kinband.service.operations.records import checked_mode
from kinband.service.schemas import Site

COLOURS = {"reward": "recent reward", "mode": "mode", "change": "time since the last change"}
"""What the map may be coloured by."""
AGES = {  # by which the map tells changes apart, from a moment ago to long ago
    "in the last hour": timedelta(hours=1),
    "in the last 6 hours": timedelta(hours=6),
    "in the last day": timedelta(days=1),
    "in the last week": timedelta(days=7),
    "earlier": timedelta.max,
}
AGE_COLOURS = tuple(ramp(share) for share in (1.0, 0.78, 0.55, 0.32, 0.1))
_WORST = 8


def add_pages(desk: Desk) -> None:
    """Add the page and what its forms are sent to."""
    operations = desk.operations

    @desk.router.get("/")
    def first(request: Request, colour: Text = "") -> Response:
        return desk.show(request, "overview.html", lambda: overview(operations, colour))

    @desk.form("/mode", role="admin", back="/")
    def mode(sent: Sent) -> str:
        operations.set_mode(checked_mode(sent.mode), comment=sent.comment, actor=sent.actor)
        return f"All stations are in {sent.mode} mode, and so will be those that join."

    @desk.form("/stop", role="operator", back="/")
    def stop(sent: Sent) -> str:
        operations.stop(why=sent.comment, actor=sent.actor)
        return "Everything is stopped: no station is changed until somebody resumes."

    @desk.form("/resume", role="operator", back="/")
    def resume(sent: Sent) -> str:
        operations.resume(why=sent.comment, actor=sent.actor)
        return "Stations may be changed again."


def overview(operations: Operations, colour: str) -> dict[str, Any]:
    """Return what the page shows; anything but a known `colour` is the first of them."""
    colour = colour if colour in COLOURS else "reward"
    names, sites, now = names_of(operations), sites_of(operations), operations.now()
    with operations.looking() as read_model:
        looks = [look_of(state, read_model, names) for state in read_model.stations.values() if state.active]
        gain, fleet = read_model.gain(), read_model.fleet()
        refused, mode = read_model.refused(now.date()), read_model.mode
    known = sorted((look for look in looks if look.recent is not None), key=lambda look: look.recent or 0.0)
    ends = _range([look.recent or 0.0 for look in known])
    sectors = coloured(looks, colour, ends=ends, sites=sites, now=now)
    modes = Counter(look.mode for look in looks)
    return {
        "colour": colour,
        "map": sector_map(sectors, says=_map_words(looks, colour)),
        "ruler": ruler_words(sectors),
        "cells": sector_tiles(sectors, says="Stations whose place is not known, one tile each."),
        "ends": ends if known and colour == "reward" else None,
        "legend": _legend(colour),
        "loose": sum(sector.place is None for sector in sectors),
        "gain": gain,
        "recent": fmean(look.recent or 0.0 for look in known) if known else None,
        "known": len(known),
        "slots": SLOTS,
        "refused": refused,
        "rails_stop": operations.guard.rails.stop,
        "mode": mode,
        "modes": [(name, MODE_COLOURS[name], modes[name]) for name in MODES if modes[name]],
        "frozen": sum(look.frozen is not None for look in looks),
        "stations": len(looks),
        "worst": known[:_WORST],
        "fleet": _fleet_chart(fleet),
        "fleet_words": _fleet_words(fleet),
    }


# --- The map --------------------------------------------------------------------------------------------------------


def coloured(
    looks: Sequence[Look], colour: str, *, ends: tuple[float, float], sites: Mapping[str, Site], now: datetime
) -> list[Sector]:
    """Return the sectors of the map; `ends` are the rewards of the ramp's ends."""
    scale = Scale(*ends, 0.0, 1.0)

    def of(look: Look) -> str:
        if colour == "mode":
            return MODE_COLOURS[look.mode]
        if colour == "change":
            return UNKNOWN if look.changed is None else AGE_COLOURS[age_class(now - look.changed)]
        return UNKNOWN if look.recent is None else ramp(round(scale(look.recent), 3))

    sectors = []
    for look in looks:
        site = sites.get(look.station)
        place, azimuth = (None, None) if site is None else ((site.x, site.y), site.azimuth)
        frozen = "frozen" if look.frozen is not None else ""
        words = _words(look, now)
        sectors.append(Sector(look.station, of(look), station_url(look.station), words, place, azimuth, frozen))
    return sectors


def age_class(age: timedelta) -> int:
    """Return the place of an age among `AGES`."""
    return sum(age > most for most in AGES.values())


def _range(known: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the colours: all but the outermost twentieth of the stations lies between them."""
    if not known:
        return 0.0, 1.0
    cut = len(known) // 20
    return known[cut], known[-1 - cut]


def _legend(colour: str) -> list[tuple[str, str]]:
    """Return pairs of colour and words; rewards without a ramp are those that are not known."""
    if colour == "mode":
        return [(MODE_COLOURS[name], name) for name in MODES]
    if colour == "change":
        return [*zip(AGE_COLOURS, AGES, strict=True), (UNKNOWN, "never")]
    return [(UNKNOWN, "no reward known yet")]


def _words(look: Look, now: datetime) -> str:
    reward = "no reward known yet" if look.recent is None else f"recent reward {figure(look.recent)}"
    change = "never changed" if look.changed is None else f"changed {ago(look.changed, now)}"
    frozen = "" if look.frozen is None else ", frozen"
    return f"{look.station}: {reward}, {look.mode}, runs {look.running}, {change}{frozen}"


def _map_words(looks: Sequence[Look], colour: str) -> str:
    return f"Map of {counted(len(looks), 'station')}, coloured by {COLOURS[colour]}. Each is a link to its page."


# --- Reward over time -----------------------------------------------------------------------------------------------

Fleet = Sequence[tuple[datetime, float, float | None, int]]


def _fleet_chart(fleet: Fleet) -> str:
    times, (reward, fixed) = thinned([at for at, *_ in fleet], [row[1] for row in fleet], [row[2] for row in fleet])
    lines = [Line("fixed, expected", fixed, "two"), Line("reward", reward, "one")]
    return time_chart(times, lines, says=_fleet_words(fleet), height=230)


def _fleet_words(fleet: Fleet) -> str:
    if not fleet:
        return "No reward is known yet."
    gains = [reward - fixed for _, reward, fixed, _ in fleet if fixed is not None]
    span = fleet[-1][0] - fleet[0][0]
    long = counted(span.days, "day") if span.days >= 2 else f"{24 * span.days + round(span.seconds / 3600)} hours"
    words = (
        f"Mean reward of all stations over {counted(len(fleet), 'slot')}, {long}: {figure(fleet[-1][1])} in the last."
    )
    if not gains:
        return words
    return f"{words} On average {signed(fmean(gains))} against what the fixed configuration was expected to earn."
