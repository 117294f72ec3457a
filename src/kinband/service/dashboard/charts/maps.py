"""Maps: sectors as wedges where their place is known and as tiles where not, and the heat map of a task matrix.

On the map north is up and east is right. A wedge is as wide as a usual beam, 65 degrees between its half-power points
(3GPP TR 38.901, table 7.3-1), and as long as the distance to the next site allows. Sectors of one site that look the
same way, such as the carriers of one antenna, share the wedge as rings. Where sectors are does not change from one page
to the next, so that their shapes are drawn once (`outlines`); colours and words are put around them.
"""

import math
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from kinband.arrays import FloatArray
from kinband.service.dashboard.charts.svg import contrast, escaped, joined, number, ramp, rgb, tag

# --- The part of the world that a map shows -----------------------------------------------------------------------

_REACH = 0.46  # of the distance to the next site
_AREA = 1000.0  # units of the larger side of the map


def spacing(places: Sequence[tuple[float, float]]) -> float:
    """Return the median distance from a site to the next one, in metres; 500 where there is only one site."""
    sites = sorted(set(places))
    if len(sites) < 2:
        return 500.0
    nearest = sorted(min(math.dist(a, b) for b in sites if b != a) for a in sites)
    return nearest[len(nearest) // 2]


@dataclass(frozen=True)
class Area:
    """The part of the world that a map shows.

    Attributes:
        west: Its left edge, in metres.
        north: Its upper edge.
        wide: Its width.
        high: Its height.
        reach: Length of a wedge.
    """

    west: float
    north: float
    wide: float
    high: float
    reach: float

    @classmethod
    def of(cls, places: Sequence[tuple[float, float]]) -> "Area":
        """Return the area around some places, with room for their wedges."""
        reach = _REACH * spacing(places)
        west, north = min(x for x, _ in places) - reach, max(y for _, y in places) + reach
        return cls(
            west, north, max(x for x, _ in places) + reach - west, north - min(y for _, y in places) + reach, reach
        )

    @property
    def scale(self) -> float:
        """Units of the map to a metre."""
        return _AREA / max(self.wide, self.high)

    @property
    def ruler(self) -> float:
        """A round length, in metres, of up to a fifth of the width."""
        most = 0.2 * self.wide
        power = 10.0 ** math.floor(math.log10(most))
        return float(max(step * power for step in (1, 2, 5) if step * power <= most))

    def at(self, place: tuple[float, float]) -> tuple[float, float]:
        """Return where a place is on the map."""
        return round((place[0] - self.west) * self.scale, 2), round((self.north - place[1]) * self.scale, 2)


# --- Sectors as wedges ----------------------------------------------------------------------------------------------

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
    """Return the outline of a wedge, or of a ring of one, around an azimuth; y grows downwards."""
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
    """Return the shapes of sectors."""
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
    """Return how long the bar of the map is; letters in the map would shrink with it."""
    found = _outlines_of(sectors)
    return _length(0.0) if found is None else found.length


def sector_map(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return the map of those sectors whose place is known; nothing where there are none."""
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


# --- Stations without a known place: a tile each, with its name on it -----------------------------------------------
#
# Letters would shrink with a picture that is as wide as its place in the page, so that every tile is a picture of its
# own that keeps its height, and the page puts them beside each other. A name has two lines at most; what is longer is
# cut in its middle, and the whole name is said with the tile.

LINE = 11
"""Letters that a line of a tile has room for."""
LONGEST = 2 * LINE
"""Letters that a tile has room for."""
_LIGHT, _DARK = "#ffffff", "#000000"
_SEAM = re.compile(r"(?<=[\s._/:-])|(?=[A-Z])")  # where a name may be broken


def shortened(name: str, most: int = LONGEST) -> str:
    """Return a name of at most so many letters, cut in its middle: those of one network tend to begin alike."""
    if len(name) <= most:
        return name
    end = most // 2 + 1
    return f"{name[: most - 1 - end]}…{name[-end:]}"


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
    return max(_LIGHT, _DARK, key=lambda letters: contrast(letters, colour))


def sector_tiles(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return a tile for every sector whose place is not known; nothing where there are none."""
    loose = [(sector, lines_of(sector.name)) for sector in sectors if sector.place is None]
    high = 26 if all(len(lines) == 1 for _, lines in loose) else 36
    drawn = [_tile(sector, lines, high=high) for sector, lines in loose]
    return tag("div", *drawn, class_="stones", role="group", aria_label=says) if drawn else Markup("")


def _tile(sector: Sector, lines: Sequence[str], *, high: int) -> Markup:
    """Return a tile as a link, written out since there may be hundreds."""
    look, letters = escaped(f"sector-link stone {sector.look}".rstrip()), letters_on(sector.colour)
    heights = [high / 2 + 4] if len(lines) == 1 else [high / 2 - 3, high / 2 + 11]
    name = "".join(
        f'<text x="50%" y="{at:g}" fill="{letters}">{escaped(line)}</text>'
        for at, line in zip(heights, lines, strict=True)
    )
    inside = f'<rect class="sector" width="100%" height="{high}" rx="4" fill="{escaped(sector.colour)}"/>{name}'
    picture = f'<svg width="100%" height="{high}"><title>{escaped(sector.says)}</title>{inside}</svg>'
    return Markup(f'<a href="{escaped(sector.href)}" class="{look}">{picture}</a>')  # noqa: S704 - parts are escaped


# --- The heat map of a task matrix: one pixel a pair of stations, as a paletted PNG of a few kilobytes --------------
#
# The picture is a file of its own (one byte a pair, compressed by zlib; PNG, ISO/IEC 15948), stretched without
# smoothing by the page, which draws the boundaries of groups and their names around it.

LEVELS = 256
"""How many shades there are: one a byte."""
SIDE = 1000.0
"""Units of the heat map's side."""
_STRIP, _GAP = 22.0, 6.0  # units of the groups' strips and of the gap beside them


def shades(matrix: FloatArray, *, low: float, high: float) -> NDArray[np.uint8]:
    """Return the shade of every entry, (M, M): 0 at `low` or below, 255 at `high` or above."""
    shares = np.clip((matrix - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    found: NDArray[np.uint8] = np.round(shares * (LEVELS - 1)).astype(np.uint8)
    return found


def png(pixels: NDArray[np.uint8]) -> bytes:
    r"""Return shades (H, W) as a PNG in the colours of the ramp."""
    high, wide = pixels.shape
    head = struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)  # eight bits a pixel, by palette
    palette = bytes(part for level in range(LEVELS) for part in rgb(ramp(level / (LEVELS - 1))))
    rows = np.hstack([np.zeros((high, 1), dtype=np.uint8), pixels])  # each begins with its filter, none
    parts = (b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@dataclass(frozen=True)
class Band:
    """Neighbouring rows of a heat map that belong together.

    Attributes:
        name: Of the group.
        size: How many rows.
        colour: Of its strip.
        href: Where it leads to.
    """

    name: str
    size: int
    colour: str
    href: str


def heat_map(bands: Sequence[Band], *, image: str, says: str, values: str = "", names: str = "") -> Markup:
    """Return the heat map with the strips and boundaries of its groups.

    Args:
        bands: The groups in the order of the rows.
        image: Address of the picture.
        says: What there is to see, for those who cannot.
        values: Address of the numbers, for the script.
        names: Address of the stations' names in order, for the script.
    """
    rows, edge = sum(band.size for band in bands), _STRIP + _GAP
    unit, start = SIDE / max(rows, 1), 0.0
    strips, lines = [], []
    for band in bands:
        long = band.size * unit
        across = tag("rect", x=edge + start, y=0, width=long, height=_STRIP, fill=band.colour)
        down = tag("rect", x=0, y=edge + start, width=_STRIP, height=long, fill=band.colour)
        strips.append(tag("a", tag("title", band.name), across, down, href=band.href, aria_label=band.name))
        if start:
            place = edge + start
            lines.append(tag("line", class_="bound", x1=edge, x2=edge + SIDE, y1=place, y2=place))
            lines.append(tag("line", class_="bound", y1=edge, y2=edge + SIDE, x1=place, x2=place))
        start += long
    picture = tag(
        "image", class_="pixels", href=image, x=edge, y=edge, width=SIDE, height=SIDE, preserveAspectRatio="none"
    )
    box = f"0 0 {number(edge + SIDE)} {number(edge + SIDE)}"
    return tag(
        "svg", joined(strips), picture, joined(lines), class_="heat", viewBox=box, role="group", aria_label=says,
        data_rows=rows, data_edge=edge, data_side=SIDE, data_values=values or None, data_names=names or None,
    )  # fmt: skip
