"""The map of sectors: a wedge at every site in the direction in which its antenna looks.

North is up and east is right. A wedge is as wide as a usual beam, 65 degrees between its half-power points (3GPP TR
38.901, table 7.3-1), and as long as the distance to the next site allows. Sectors of one site that look the same way,
such as the carriers of one antenna, share the wedge as rings. Stations without a known place are in `tiles`.

Where sectors are does not change from one page to the next, so that their shapes are drawn once (`outlines`); colours
and words are put around them.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from kinband.service.dashboard.charts.scales import Area, escaped, joined, number, tag

BEAM = 65.0
"""Degrees between the edges of a wedge."""


class Sector(NamedTuple):
    """One station on the map.

    Attributes:
        name: Its name.
        colour: What it is filled with.
        href: Where it leads to.
        says: It in words.
        place: Metres to the east and to the north; None where nobody knows.
        azimuth: Degrees clockwise from north; None for all round.
        look: Further classes.

    Example:
        >>> Sector("a", "#0072b2", "/stations/a", "a: 0.9").place is None
        True
    """

    name: str
    colour: str
    href: str
    says: str
    place: tuple[float, float] | None = None
    azimuth: float | None = None
    look: str = ""


def wedge_path(
    centre: tuple[float, float], azimuth: float, *, outer: float, inner: float = 0.0, beam: float = BEAM
) -> str:
    """Return the outline of a wedge, or of a ring of one, around an azimuth; y grows downwards.

    Example:
        >>> wedge_path((0.0, 0.0), 0.0, outer=10.0, beam=180.0)
        'M0 0L-10 0A10 10 0 0 1 10 0Z'
        >>> wedge_path((0.0, 0.0), 90.0, outer=10.0, inner=5.0, beam=180.0)
        'M0 -5L0 -10A10 10 0 0 1 0 10L0 5A5 5 0 0 0 0 -5Z'
    """
    left, right = (math.radians(azimuth + side * beam / 2) for side in (-1, 1))

    def at(radius: float, turn: float) -> str:
        return f"{number(centre[0] + radius * math.sin(turn))} {number(centre[1] - radius * math.cos(turn))}"

    large = int(beam > 180.0)
    around = f"A{number(outer)} {number(outer)} 0 {large} 1 {at(outer, right)}"
    if inner <= 0.0:
        return f"M{at(0.0, left)}L{at(outer, left)}{around}Z"
    back = f"A{number(inner)} {number(inner)} 0 {large} 0 {at(inner, left)}"
    return f"M{at(inner, left)}L{at(outer, left)}{around}L{at(inner, right)}{back}Z"


Spot = tuple[tuple[float, float], float | None]
"""Where a sector is, and where it looks."""


@dataclass(frozen=True)
class Outlines:
    """Sectors as drawn, without colours and words.

    Attributes:
        order: Numbers of the sectors in the order in which they are drawn: those of one wedge together.
        shapes: Their shapes in that order.
        box: The part of the plane that they take.
        ruler: The path of the bar.
        length: How long that is, in words.
    """

    order: tuple[int, ...]
    shapes: tuple[Markup, ...]
    box: str
    ruler: str
    length: str


@lru_cache(maxsize=8)
def outlines(spots: tuple[Spot, ...]) -> Outlines:
    """Return the shapes of sectors.

    Example:
        >>> outlines((((0.0, 0.0), 0.0), ((9000.0, 0.0), 90.0), ((0.0, 0.0), 0.0))).order
        (0, 2, 1)
    """
    area = Area.of([place for place, _ in spots])
    alike: dict[Spot, list[int]] = defaultdict(list)
    for i, (place, azimuth) in enumerate(spots):
        alike[area.at(place), azimuth].append(i)
    reach = area.reach * area.scale
    shapes = [
        _shape(centre, azimuth, reach=reach, ring=(ring, len(same)))
        for (centre, azimuth), same in alike.items()
        for ring in range(len(same))
    ]
    wide, high = number(area.wide * area.scale), area.high * area.scale
    ruler = f"M8 {number(high - 18)}v10h{number(area.ruler * area.scale)}v-10"
    order = tuple(i for same in alike.values() for i in same)
    return Outlines(order, tuple(shapes), f"0 0 {wide} {number(high)}", ruler, _length(area.ruler))


def _length(metres: float) -> str:
    return f"{number(metres / 1000)} km" if metres >= 1000 else f"{number(metres)} m"


def _outlines_of(sectors: Sequence[Sector]) -> Outlines | None:
    spots = tuple((sector.place, sector.azimuth) for sector in sectors if sector.place is not None)
    return outlines(spots) if spots else None


def ruler_words(sectors: Sequence[Sector]) -> str:
    """Return how long the bar of the map is; letters in the map would shrink with it.

    Example:
        >>> ruler_words([Sector("a", "", "", "", (0.0, 0.0)), Sector("b", "", "", "", (9000.0, 0.0))])
        '2 km'
    """
    found = _outlines_of(sectors)
    return _length(0.0) if found is None else found.length


def sector_map(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return the map of those sectors whose place is known; nothing where there are none.

    Example:
        >>> north = Sector("a", "#0072b2", "/stations/a", "a: 0.9", place=(0.0, 0.0), azimuth=0.0)
        >>> svg = sector_map([north], says="One sector.")
        >>> "<title>a: 0.9</title>" in svg, svg.count("<a ")
        (True, 1)
    """
    found, placed = _outlines_of(sectors), [sector for sector in sectors if sector.place is not None]
    if found is None:
        return Markup("")
    drawn = [_link(placed[i], shape) for i, shape in zip(found.order, found.shapes, strict=True)]
    ruler = tag("path", tag("title", found.length), d=found.ruler, class_="ruler")
    return tag("svg", joined(drawn), ruler, class_="map", viewBox=found.box, role="group", aria_label=says)


def _shape(centre: tuple[float, float], azimuth: float | None, *, reach: float, ring: tuple[int, int]) -> Markup:
    place, of = ring
    outer, inner = reach * (of - place) / of, reach * (of - place - 1) / of
    if azimuth is None:
        return tag("circle", class_="sector", cx=centre[0], cy=centre[1], r=0.6 * outer)
    return tag("path", class_="sector", d=wedge_path(centre, azimuth, outer=outer, inner=inner))


def _link(sector: Sector, shape: Markup) -> Markup:
    """Return a shape as a link, written out since a map has one for every station."""
    look = escaped(f"sector-link {sector.look}".rstrip())
    opened = f'<a href="{escaped(sector.href)}" class="{look}" fill="{escaped(sector.colour)}">'
    return Markup(f"{opened}<title>{escaped(sector.says)}</title>{shape}</a>")  # noqa: S704 - every part is escaped
