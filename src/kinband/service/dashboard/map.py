"""The map of the overview and its colours: sectors as wedges where their place is known, as tiles where not.

On the map north is up and east is right. A wedge is as wide as a usual beam, 65 degrees between its half-power points
(3GPP TR 38.901, table 7.3-1), and as long as the distance to the next site allows. Sectors of one site that look the
same way, such as the carriers of one antenna, share the wedge as rings.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from scipy.spatial import KDTree

from kinband.html.svg import Scale, number, tag
from kinband.service.dashboard.rows import Look
from kinband.service.dashboard.text import ago, figure, station_url
from kinband.service.operations import MODES
from kinband.service.schemas import Site
from kinband.stats import counted

# --- Colours with a meaning, the same on light and dark pages, told apart by every kind of sight --------------------
#
# Amounts run along viridis (Smith and van der Walt, 2015), whose lightness grows evenly, so that the order is seen
# without hue. Modes take colours of Okabe and Ito (2008); what mode a station has is also said in words.

_VIRIDIS = (
    (0x44, 0x01, 0x54), (0x47, 0x2D, 0x7B), (0x3B, 0x52, 0x8B), (0x2C, 0x72, 0x8E), (0x21, 0x91, 0x8C),
    (0x28, 0xAE, 0x80), (0x5E, 0xC9, 0x62), (0xAD, 0xDC, 0x30), (0xFD, 0xE7, 0x25),
)  # fmt: skip


@lru_cache(maxsize=4096)
def ramp(share: float) -> str:
    """Return the colour of an amount, from 0 (dark violet) to 1 (yellow)."""
    place = min(max(share, 0.0), 1.0) * (len(_VIRIDIS) - 1)
    left = min(int(place), len(_VIRIDIS) - 2)
    ends = zip(_VIRIDIS[left], _VIRIDIS[left + 1], strict=True)
    return "#" + "".join(f"{round(a + (place - left) * (b - a)):02x}" for a, b in ends)


COLOURS = {"reward": "recent reward", "mode": "mode", "change": "time since the last change"}
"""What the map may be coloured by."""
UNKNOWN = "#9aa5b1"
"""What nothing is known of."""
MODE_COLOURS = {"shadow": "#9aa5b1", "assist": "#e69f00", "autonomous": "#0072b2"}
AGES = {  # by which the map tells changes apart, from a moment ago to long ago
    "in the last hour": timedelta(hours=1),
    "in the last 6 hours": timedelta(hours=6),
    "in the last day": timedelta(days=1),
    "in the last week": timedelta(days=7),
    "earlier": timedelta.max,
}
AGE_COLOURS = tuple(ramp(share) for share in (1.0, 0.78, 0.55, 0.32, 0.1))


def colour_of(look: Look, by: str, *, ends: tuple[float, float], now: datetime) -> str:
    """Return the colour of a station; `ends` are the rewards of the ramp's ends."""
    if by == "mode":
        return MODE_COLOURS[look.mode]
    if by == "change":
        return UNKNOWN if look.changed is None else AGE_COLOURS[age_class(now - look.changed)]
    return UNKNOWN if look.recent is None else ramp(round(Scale(*ends, 0.0, 1.0)(look.recent), 3))


def age_class(age: timedelta) -> int:
    """Return the place of an age among `AGES`."""
    return sum(age > most for most in AGES.values())


def _legend(by: str) -> list[tuple[str, str]]:
    """Return pairs of colour and words; rewards without a ramp are those that are not known."""
    if by == "mode":
        return [(MODE_COLOURS[name], name) for name in MODES]
    if by == "change":
        return [*zip(AGE_COLOURS, AGES, strict=True), (UNKNOWN, "never")]
    return [(UNKNOWN, "no reward known yet")]


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours (WCAG 2.2), from 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2), from 0 to 1."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 12)


# --- All of it, as the overview shows it ----------------------------------------------------------------------------


class Sector(NamedTuple):
    """One station on the map: its name, its colour, where it leads to, its words; where it is, if that is known."""

    name: str
    colour: str
    href: str
    says: str
    place: tuple[float, float] | None = None
    azimuth: float | None = None
    frozen: bool = False


def network_map(
    looks: Sequence[Look], by: str, *, ends: tuple[float, float], sites: Mapping[str, Site], now: datetime
) -> dict[str, Any]:
    """Return the map, its legend, and tiles for the stations whose place is not known, as the template takes them.

    Args:
        looks: The stations.
        by: What they are coloured by, one of `COLOURS`.
        ends: The rewards of the ramp's ends.
        sites: Where stations stand.
        now: The time.
    """
    sectors = []
    for look in looks:
        site, colour = sites.get(look.station), colour_of(look, by, ends=ends, now=now)
        place, azimuth = (None, None) if site is None else ((site.x, site.y), site.azimuth)
        link, words, frozen = station_url(look.station), _words(look, now), look.frozen is not None
        sectors.append(Sector(look.station, colour, link, words, place, azimuth, frozen))
    says = f"Map of {counted(len(looks), 'station')}, coloured by {COLOURS[by]}. Each is a link to its page."
    drawn, ruler = sector_map(sectors, says=says)
    tiles = sector_tiles(sectors, says="Stations whose place is not known, one tile each.")
    loose = sum(sector.place is None for sector in sectors)
    return {"map": drawn, "ruler": ruler, "cells": tiles, "loose": loose, "legend": _legend(by)}


def _words(look: Look, now: datetime) -> str:
    reward = "no reward known yet" if look.recent is None else f"recent reward {figure(look.recent)}"
    change = "never changed" if look.changed is None else f"changed {ago(look.changed, now)}"
    frozen = "" if look.frozen is None else ", frozen"
    return f"{look.station}: {reward}, {look.mode}, runs {look.running}, {change}{frozen}"


def _link(sector: Sector, *inside: Markup, look: str = "", **further: str) -> Markup:
    looks = ["sector-link", look, "frozen" if sector.frozen else ""]
    return tag("a", *inside, href=sector.href, class_=" ".join(filter(None, looks)), **further)


# --- Sectors as wedges ----------------------------------------------------------------------------------------------

BEAM = 65.0
"""Degrees between the edges of a wedge."""
REACH = 0.46
"""Length of a wedge, as a share of the distance to the next site."""
_SIDE = 1000.0  # units of the larger side of the map


def spacing(places: Sequence[tuple[float, float]]) -> float:
    """Return the median distance from a site to the next one, in metres; 500 where there is only one site."""
    sites = np.unique(places, axis=0)
    if len(sites) < 2:
        return 500.0
    distances, _ = KDTree(sites).query(sites, k=[2])  # the nearest is the site itself
    return float(np.median(distances))


def sector_map(sectors: Sequence[Sector], *, says: str) -> tuple[Markup, str]:
    """Return the map of those sectors whose place is known, and how long its bar is; nothing where there are none.

    The length is said beside the map, as letters in it would shrink with it.
    """
    places = [sector.place for sector in sectors if sector.place is not None]
    if not places:
        return Markup(""), ""
    reach = REACH * spacing(places)
    (west, east), (south, north) = ((min(ends), max(ends)) for ends in zip(*places, strict=True))
    wide, high = east - west + 2 * reach, north - south + 2 * reach
    scale = _SIDE / max(wide, high)
    alike: dict[tuple[float, float, float | None], list[Sector]] = defaultdict(list)
    for sector in sectors:
        if sector.place is not None:
            x, y = (sector.place[0] - west + reach) * scale, (north + reach - sector.place[1]) * scale
            alike[round(x, 2), round(y, 2), sector.azimuth].append(sector)
    drawn = [
        _link(sector, tag("title", sector.says), _shape(*at, reach * scale, ring, len(same)), fill=sector.colour)
        for at, same in alike.items()
        for ring, sector in enumerate(same)
    ]
    metres = _round_below(0.2 * wide)
    length = f"{number(metres / 1000)} km" if metres >= 1000 else f"{number(metres)} m"
    bar = f"M8 {number(high * scale - 18)}v10h{number(metres * scale)}v-10"
    ruler = tag("path", tag("title", length), d=bar, class_="ruler")
    box = f"0 0 {number(wide * scale)} {number(high * scale)}"
    return tag("svg", *drawn, ruler, class_="map", viewBox=box, role="group", aria_label=says), length


def _round_below(most: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above."""
    power = 10.0 ** math.floor(math.log10(most))
    return max(step * power for step in (1.0, 2.0, 5.0) if step * power <= most)


@lru_cache(maxsize=8192)  # sectors stay where they are from page to page
def _shape(x: float, y: float, azimuth: float | None, reach: float, ring: int, rings: int) -> Markup:
    outer, inner = reach * (rings - ring) / rings, reach * (rings - ring - 1) / rings
    if azimuth is None:
        return tag("circle", class_="sector", cx=x, cy=y, r=0.6 * outer)
    return tag("path", class_="sector", d=wedge_path((x, y), azimuth, outer=outer, inner=inner))


def wedge_path(centre: tuple[float, float], azimuth: float, *, outer: float, inner: float = 0.0) -> str:
    """Return the outline of a wedge, or of a ring of one, around an azimuth; y grows downwards."""
    left, right = (math.radians(azimuth + side * BEAM / 2) for side in (-1, 1))

    def at(radius: float, turn: float) -> str:
        return f"{number(centre[0] + radius * math.sin(turn))} {number(centre[1] - radius * math.cos(turn))}"

    around = f"A{number(outer)} {number(outer)} 0 0 1 {at(outer, right)}"
    back = f"L{at(inner, right)}A{number(inner)} {number(inner)} 0 0 0 {at(inner, left)}" if inner > 0.0 else ""
    return f"M{at(inner, left)}L{at(outer, left)}{around}{back}Z"


# --- Stations without a known place: a tile each, with its name on it -----------------------------------------------
#
# Letters would shrink with a picture that is as wide as its place in the page, so that every tile is a picture of its
# own that keeps its height, and the page puts them beside each other. A name has two lines at most; what is longer is
# cut in its middle, and the whole name is said with the tile.

LINE = 11
"""Letters that a line of a tile has room for."""
_SEAM = re.compile(r"(?<=[\s._/:-])|(?=[A-Z])")  # where a name may be broken


def shortened(name: str) -> str:
    """Return a name of at most two lines, cut in its middle: those of one network tend to begin alike."""
    return name if len(name) <= 2 * LINE else f"{name[: LINE - 2]}…{name[-LINE - 1 :]}"


def lines_of(name: str) -> list[str]:
    """Return a name in one line or in two, broken where its parts meet."""
    name = shortened(name)
    if len(name) <= LINE:
        return [name]
    seams = [found.start() for found in _SEAM.finditer(name) if len(name) - LINE <= found.start() <= LINE]
    at = seams[-1] if seams else LINE
    return [name[:at], name[at:]]


def letters_on(colour: str) -> str:
    """Return black or white, whichever can be read better on a colour."""
    return max("#ffffff", "#000000", key=lambda letters: contrast(letters, colour))


def sector_tiles(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return a tile for every sector whose place is not known; nothing where there are none."""
    loose = [(sector, lines_of(sector.name)) for sector in sectors if sector.place is None]
    high = 26 if all(len(lines) == 1 for _, lines in loose) else 36
    drawn = [_tile(sector, lines, high=high) for sector, lines in loose]
    return tag("div", *drawn, class_="stones", role="group", aria_label=says) if drawn else Markup("")


def _tile(sector: Sector, lines: Sequence[str], *, high: int) -> Markup:
    heights = [high // 2 + 4] if len(lines) == 1 else [high // 2 - 3, high // 2 + 11]
    letters = letters_on(sector.colour)
    name = [tag("text", line, x="50%", y=at, fill=letters) for at, line in zip(heights, lines, strict=True)]
    ground = tag("rect", class_="sector", width="100%", height=high, rx=4, fill=sector.colour)
    picture = tag("svg", tag("title", sector.says), ground, *name, width="100%", height=high)
    return _link(sector, picture, look="stone")
