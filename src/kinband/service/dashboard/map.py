"""The map of the overview and its colours: sectors as wedges where their place is known, as tiles where not.

On the map north is up and east is right. A wedge is as wide as a usual beam, 65 degrees between its half-power points
(3GPP TR 38.901, table 7.3-1), and as long as the distance to the next site allows. Sectors of one site that look the
same way, such as the carriers of one antenna, share the wedge as rings.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from scipy.spatial import KDTree

from kinband.html.svg import Scale, number, tag
from kinband.service.dashboard.charts import ramp
from kinband.service.dashboard.map_view import WHOLE, Label, View, box_text, found_at, names_on, site_name
from kinband.service.dashboard.rows import Look, Names
from kinband.service.dashboard.text import ago, figure, station_url
from kinband.service.operations import MODES
from kinband.service.operations.records import Called
from kinband.service.schemas import Site
from kinband.stats import counted

# --- Colours with a meaning: modes take those of Okabe and Ito (2008); what mode a station has is also said in words -

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
_AGES = tuple(AGES.values())
AGE_COLOURS = tuple(ramp(share) for share in (1.0, 0.78, 0.55, 0.32, 0.1))


def _colour(look: Look, by: str, scale: Scale, since: tuple[int, str] | None) -> str:
    """Return the colour of a station; `scale` leads from rewards to the ramp, `since` is how long ago it changed."""
    if by == "mode":
        return MODE_COLOURS[look.mode]
    if by == "change":
        return UNKNOWN if since is None else AGE_COLOURS[since[0]]
    return UNKNOWN if look.recent is None else ramp(round(scale(look.recent), 2))  # nobody sees a hundredth


def age_class(age: timedelta) -> int:
    """Return the place of an age among `AGES`."""
    return bisect_left(_AGES, age)


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
    look: str = ""


def network_map(
    looks: Sequence[Look],
    by: str,
    *,
    ends: tuple[float, float],
    sites: Mapping[str, Site],
    now: datetime,
    wanted: Collection[str],
    view: View,
    names: Names,
    kept: str,
) -> dict[str, Any]:
    """Return the map, its legend, and tiles for the stations whose place is not known, as the template takes them.

    Args:
        looks: The stations.
        by: What they are coloured by, one of `COLOURS`.
        ends: The rewards of the ramp's ends.
        sites: Where stations stand.
        now: The time.
        wanted: Those that filters let through: the others are drawn faintly.
        view: What is seen of the map.
        names: What the reward is called.
        kept: What links to stations keep of the address.
    """
    found = found_at(view.at, (look.station for look in looks))
    scale, ages = Scale(*ends, 0.0, 1.0), [_since(look, now) for look in looks]
    sectors = [
        Sector(
            look.station, _colour(look, by, scale, since),
            *_said(look, _placed(sites.get(look.station)), since, names.kpi, kept, look.station not in wanted,
                   look.station == found),
        )
        for look, since in zip(looks, ages, strict=True)
    ]  # fmt: skip
    coloured = COLOURS[by].replace("reward", names.kpi.name)
    says = f"Map of {counted(len(looks), 'station')}, coloured by {coloured}. Each is a link to its page."
    view = brought(view, sectors, found)
    drawn, ruler = sector_map(sectors, says=says, view=view, found=found)
    tiles = sector_tiles(
        [one for one in sectors if "faded" not in one.look], says="Stations whose place is not known, one tile each."
    )
    loose = sum(sector.place is None and "faded" not in sector.look for sector in sectors)
    return {
        "map": drawn,
        "ruler": ruler,
        "cells": tiles,
        "loose": loose,
        "legend": _legend(by),
        "found_at": found,
        "brought": view,
    }


_Place = tuple[tuple[float, float] | None, float | None]
"""Where a sector is, and where it looks."""


def _placed(site: Site | None) -> _Place:
    return (None, None) if site is None else ((site.x, site.y), site.azimuth)


def _since(look: Look, now: datetime) -> tuple[int, str] | None:
    """Return how long ago a station changed: the place of that among `AGES`, and in words."""
    if look.changed is None:
        return None
    minutes = (now - look.changed).total_seconds() / 60.0
    return _age(math.floor(minutes), math.ceil(minutes))


@lru_cache(maxsize=4096)
def _age(full: int, begun: int) -> tuple[int, str]:
    """Return an age, by its full minutes and by those begun, as a place among `AGES` and in words."""
    return age_class(timedelta(minutes=begun)), ago(timedelta(minutes=full))


@lru_cache(maxsize=8192)  # most look the same from page to page
def _said(
    look: Look, placed: _Place, since: tuple[int, str] | None, kpi: Called, kept: str, faded: bool, found: bool
) -> tuple[str, str, tuple[float, float] | None, float | None, str]:
    """Return what the map shows of a station but its colour, as a sector has it; `since` is when it changed."""
    marks = ("frozen" if look.frozen_by else "", "faded" if faded else "", "found" if found else "")
    link, words = station_url(look.station) + kept, _words(look, since, kpi)
    return link, words, *placed, " ".join(filter(None, marks))


def _words(look: Look, since: tuple[int, str] | None, kpi: Called) -> str:
    reward = f"recent {kpi.name} {figure(look.recent)} {kpi.unit}".rstrip()
    reward = "no reward known yet" if look.recent is None else reward
    change = "never changed" if since is None else f"changed {since[1]}"
    frozen = f", frozen by {'the rails' if look.frozen_by == 'rails' else 'a person'}" if look.frozen_by else ""
    return f"{look.station}: {reward}, {look.mode}, runs {look.running}, {change}{frozen}"


def _link(sector: Sector, *inside: Markup, look: str = "", **further: str) -> Markup:
    looks = ["sector-link", look, sector.look]
    return tag("a", *inside, href=sector.href, class_=" ".join(filter(None, looks)), **further)


# --- Sectors as wedges ----------------------------------------------------------------------------------------------

BEAM = 65.0
"""Degrees between the edges of a wedge."""
REACH = 0.46
"""Length of a wedge, as a share of the distance to the next site."""
_SIDE = 1000.0  # units of the map's width
_FLATTEST, _TALLEST = 0.55, 1.0  # of its height, as shares of that
_CLOSE = 4  # how close one comes to a station that is looked for
_ROOMY = 34.0  # pixels of a wedge on a laptop, from which there is room for its name


def spacing(places: Sequence[tuple[float, float]]) -> float:
    """Return the median distance from a site to the next one, in metres; 500 where there is only one site."""
    sites = np.unique(places, axis=0)
    if len(sites) < 2:
        return 500.0
    distances, _ = KDTree(sites).query(sites, k=[2])  # the nearest is the site itself
    return float(np.median(distances))


class Ground(NamedTuple):
    """From metres to units of the map: what lies in its upper left corner, units a metre, its sides, a wedge's length.

    Example:
        >>> ground = Ground.of([(0.0, 0.0), (800.0, 0.0)])
        >>> ground.at((400.0, 0.0)), round(ground.reach * 2, 1)
        ((500.0, 275.0), 479.2)
    """

    west: float
    north: float
    scale: float
    size: tuple[float, float]
    reach: float

    @classmethod
    def of(cls, places: Sequence[tuple[float, float]]) -> "Ground":
        """Return one that holds all places, with room for their wedges."""
        reach = REACH * spacing(places)
        (west, east), (south, north) = ((min(ends) - reach, max(ends) + reach) for ends in zip(*places, strict=True))
        wide, high = east - west, north - south
        scale = _SIDE / max(wide, high / _TALLEST)
        size = _SIDE, min(max(high * scale, _FLATTEST * _SIDE), _TALLEST * _SIDE)
        left, top = (size[0] / scale - wide) / 2, (size[1] / scale - high) / 2
        return cls(west - left, north + top, scale, size, reach * scale)

    def at(self, place: tuple[float, float]) -> tuple[float, float]:
        """Return where a place is on the map."""
        return round((place[0] - self.west) * self.scale, 2), round((self.north - place[1]) * self.scale, 2)


def brought(view: View, sectors: Sequence[Sector], found: str) -> View:
    """Return a view with the station that is looked for in its middle, close enough to see it."""
    place = next((one.place for one in sectors if one.name == found), None)
    if place is None or not found:
        return view
    ground = Ground.of([one.place for one in sectors if one.place is not None])
    x, y = ground.at(place)
    return replace(view, zoom=max(view.close, _CLOSE), x=x / ground.size[0], y=y / ground.size[1])


def sector_map(sectors: Sequence[Sector], *, says: str, view: View = WHOLE, found: str = "") -> tuple[Markup, str]:
    """Return the map of those sectors whose place is known, and how long its bar is; nothing where there are none.

    Args:
        sectors: What there is to draw.
        says: What there is to see, for those who cannot.
        view: What is seen of it, and how close.
        found: The station that is looked for.
    """
    placed = tuple((one.name, one.place, one.azimuth) for one in sectors if one.place is not None)
    if not placed:
        return Markup(""), ""
    laid, shown = _laid(placed, view, found), [one for one in sectors if one.place is not None]
    picture = tag(
        "svg", *(_sector(shown[i], shape) for i, shape in laid.shapes), laid.ruler, class_="map",
        viewBox=box_text(laid.box), role="group", aria_label=says, data_zoom=view.close,
        data_size=f"{number(laid.size[0])} {number(laid.size[1])}",
    )  # fmt: skip
    return tag("div", picture, laid.names, class_="map-box"), laid.length


class Laid(NamedTuple):
    """What of a map stays while its stations do: its sides, what is seen, shapes by number, names, the bar's length."""

    size: tuple[float, float]
    box: tuple[float, float, float, float]
    shapes: Sequence[tuple[int, Markup]]
    names: Markup
    ruler: Markup
    length: str


@lru_cache(maxsize=4)
def _laid(placed: tuple[tuple[str, tuple[float, float], float | None], ...], view: View, found: str) -> Laid:
    """Return where sectors lie: name, place and direction of each are given."""
    ground = Ground.of([place for _, place, _ in placed])
    sites: dict[tuple[float, float], dict[float | None, list[int]]] = {}
    for i, (_, place, azimuth) in enumerate(placed):
        sites.setdefault(ground.at(place), {}).setdefault(azimuth, []).append(i)
    box = view.box(*ground.size)
    shapes = [
        (i, _shape(*at, azimuth, ground.reach, ring, len(same)))
        for at, site in sites.items()
        for azimuth, same in site.items()
        for ring, i in enumerate(same)
    ]
    named = {at: {way: [placed[i][0] for i in same] for way, same in site.items()} for at, site in sites.items()}
    labels = _labels(named, found, reach=ground.reach, each=ground.reach * 620 / box[2] > _ROOMY)
    return Laid(ground.size, box, shapes, names_on(labels, box), *_ruler(box, ground.scale))


def _ruler(box: tuple[float, float, float, float], scale: float) -> tuple[Markup, str]:
    """Return a bar of a round length in the corner of what is seen, and how long it is."""
    metres = _round_below(0.2 * box[2] / scale)
    length = f"{number(metres / 1000)} km" if metres >= 1000 else f"{number(metres)} m"
    x, y, u = box[0] + 0.008 * box[2], box[1] + box[3] - 0.018 * box[2], 0.01 * box[2]
    bar = f"M{number(x)} {number(y)}v{number(u)}h{number(metres * scale)}v{number(-u)}"
    return tag("path", tag("title", length), d=bar, class_="ruler"), length


def _labels(
    sites: Mapping[tuple[float, float], Mapping[float | None, Sequence[str]]],
    found: str,
    *,
    reach: float,
    each: bool,
) -> list[Label]:
    """Return the names on the map, that of what is looked for first: of sectors where there is room, else of sites.

    Args:
        sites: The names of sectors by place and direction.
        found: What is looked for.
        reach: How long a wedge is.
        each: Whether there is room for the names of sectors.
    """
    labels = list[Label]()
    for (x, y), site in sites.items():
        if not each:
            labels.append(Label(site_name([name for same in site.values() for name in same]), x, y))
        for azimuth, same in site.items():
            turn, out = (0.0, 0.0) if azimuth is None else (math.radians(azimuth), 0.62 * reach)
            for ring, name in enumerate(same):
                if each or name == found:
                    part = out * (len(same) - ring) / len(same)
                    label = Label(name, x + part * math.sin(turn), y - part * math.cos(turn))
                    labels.insert(0 if name == found else len(labels), label)
    return labels


@lru_cache(maxsize=8192)  # most look the same from page to page
def _sector(sector: Sector, shape: Markup) -> Markup:
    return _link(sector, tag("title", sector.says), shape, fill=sector.colour)


def _round_below(most: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above."""
    power = 10.0 ** math.floor(math.log10(most))
    return max(step * power for step in (1.0, 2.0, 5.0) if step * power <= most)


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
