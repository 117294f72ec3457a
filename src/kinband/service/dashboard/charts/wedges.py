"""The map of sectors: a wedge at every site in the direction in which its antenna looks.

North is up and east is right. A wedge is as wide as a usual beam, 65 degrees between its half-power points (3GPP TR
38.901, table 7.3-1), and as long as the distance to the next site allows. Sectors of one site that look the same way,
such as the carriers of one antenna, share the wedge as rings. Stations without a known place are put into a grid.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from kinband.service.dashboard.charts.marks import joined, number, tag

BEAM = 65.0
"""Degrees between the edges of a wedge."""
_REACH = 0.46  # of the distance to the next site
_AREA = 1000.0  # units of the larger side of the map
_CELL = 34.0  # units of a cell of the grid


@dataclass(frozen=True)
class Sector:
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
    look: str = field(default="")


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


def spacing(places: Sequence[tuple[float, float]]) -> float:
    """Return the median distance from a site to the next one, in metres; 500 where there is only one site.

    Example:
        >>> spacing([(0.0, 0.0), (0.0, 0.0), (300.0, 400.0), (600.0, 800.0)])
        500.0
    """
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

    Example:
        >>> area = Area.of([(0.0, 0.0), (1000.0, 0.0)])
        >>> area.reach, area.wide, area.ruler
        (460.0, 1920.0, 200.0)
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


def ruler_words(sectors: Sequence[Sector]) -> str:
    """Return how long the bar of the map is; letters in the map would shrink with it.

    Example:
        >>> ruler_words([Sector("a", "", "", "", (0.0, 0.0)), Sector("b", "", "", "", (9000.0, 0.0))])
        '2 km'
    """
    places = [sector.place for sector in sectors if sector.place is not None]
    metres = Area.of(places).ruler if places else 0.0
    return f"{number(metres / 1000)} km" if metres >= 1000 else f"{number(metres)} m"


def sector_map(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return the map of those sectors whose place is known; nothing where there are none.

    Example:
        >>> north = Sector("a", "#0072b2", "/stations/a", "a: 0.9", place=(0.0, 0.0), azimuth=0.0)
        >>> svg = sector_map([north], says="One sector.")
        >>> "<title>a: 0.9</title>" in svg, svg.count("<a ")
        (True, 1)
    """
    placed = [(sector, sector.place) for sector in sectors if sector.place is not None]
    if not placed:
        return Markup("")
    area = Area.of([place for _, place in placed])
    alike: dict[tuple[tuple[float, float], float | None], list[Sector]] = defaultdict(list)
    for sector, place in placed:
        alike[area.at(place), sector.azimuth].append(sector)
    drawn = [
        _link(sector, _shape(centre, azimuth, reach=area.reach * area.scale, ring=(i, len(same))))
        for (centre, azimuth), same in alike.items()
        for i, sector in enumerate(same)
    ]
    wide, high = area.wide * area.scale, area.high * area.scale
    ends = f"M8 {number(high - 18)}v10h{number(area.ruler * area.scale)}v-10"
    ruler = tag("path", tag("title", ruler_words(sectors)), d=ends, class_="ruler")
    box = f"0 0 {number(wide)} {number(high)}"
    return tag("svg", joined(drawn), ruler, class_="map", viewBox=box, role="group", aria_label=says)


def sector_grid(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return the sectors whose place is not known, cell beside cell; nothing where there are none.

    Example:
        >>> sector_grid([Sector("a", "#0072b2", "/stations/a", "a: 0.9")] * 3, says="Three.").count("<rect")
        3
    """
    loose = [sector for sector in sectors if sector.place is None]
    if not loose:
        return Markup("")
    columns = max(16, math.ceil(math.sqrt(2.0 * len(loose))))
    cells = []
    for i, sector in enumerate(loose):
        row, column = divmod(i, columns)
        cell = tag(
            "rect", x=column * _CELL + 3, y=row * _CELL + 3, width=_CELL - 6, height=_CELL - 6, rx=4,
            fill=sector.colour, class_=f"sector {sector.look}".rstrip(),
        )  # fmt: skip
        cells.append(_link(sector, cell))
    box = f"0 0 {number(columns * _CELL)} {number(math.ceil(len(loose) / columns) * _CELL)}"
    return tag("svg", joined(cells), class_="map cells", viewBox=box, role="group", aria_label=says)


def _shape(centre: tuple[float, float], azimuth: float | None, *, reach: float, ring: tuple[int, int]) -> Markup:
    place, of = ring
    outer, inner = reach * (of - place) / of, reach * (of - place - 1) / of
    if azimuth is None:
        return tag("circle", class_="sector", cx=centre[0], cy=centre[1], r=0.6 * outer)
    return tag("path", class_="sector", d=wedge_path(centre, azimuth, outer=outer, inner=inner))


def _link(sector: Sector, shape: Markup) -> Markup:
    title = tag("title", sector.says)
    look = f"sector-link {sector.look}".rstrip()
    return tag("a", title, shape, href=sector.href, class_=look, fill=sector.colour)
