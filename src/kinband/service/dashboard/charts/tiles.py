"""Stations without a known place: a tile each, with its name on it.

Letters would shrink with a picture that is as wide as its place in the page, so that every tile is a picture of its own
that keeps its height, and the page puts them beside each other. A name has two lines at most; what is longer is cut in
its middle, and the whole name is said with the tile.
"""

import re
from collections.abc import Sequence

from markupsafe import Markup

from kinband.service.dashboard.charts.scales import contrast, escaped, tag
from kinband.service.dashboard.charts.wedges import Sector

LINE = 11
"""Letters that a line of a tile has room for."""
LONGEST = 2 * LINE
"""Letters that a tile has room for."""
_LIGHT, _DARK = "#ffffff", "#000000"
_SEAM = re.compile(r"(?<=[\s._/:-])|(?=[A-Z])")  # where a name may be broken


def shortened(name: str, most: int = LONGEST) -> str:
    """Return a name of at most so many letters, cut in its middle: those of one network tend to begin alike.

    Example:
        >>> shortened("3714"), shortened("Nordstadt-12-sector-3", 11)
        ('3714', 'Nord…ctor-3')
    """
    if len(name) <= most:
        return name
    end = most // 2 + 1
    return f"{name[: most - 1 - end]}…{name[-end:]}"


def lines_of(name: str) -> list[str]:
    """Return a name in one line or in two, broken where its parts meet.

    Example:
        >>> lines_of("3714"), lines_of("Nordstadt-12-sector-3"), lines_of("x" * 12)
        (['3714'], ['Nordstadt-', '12-sector-3'], ['xxxxxxxxxxx', 'x'])
    """
    name = shortened(name)
    if len(name) <= LINE:
        return [name]
    seams = [found.start() for found in _SEAM.finditer(name) if len(name) - LINE <= found.start() <= LINE]
    at = seams[-1] if seams else LINE
    return [name[:at], name[at:]]


def letters_on(colour: str) -> str:
    """Return black or white, whichever can be read better on a colour.

    Example:
        >>> letters_on("#fde725"), letters_on("#440154")
        ('#000000', '#ffffff')
    """
    return max(_LIGHT, _DARK, key=lambda letters: contrast(letters, colour))


def sector_tiles(sectors: Sequence[Sector], *, says: str) -> Markup:
    """Return a tile for every sector whose place is not known; nothing where there are none.

    Example:
        >>> tiles = sector_tiles([Sector("a", "#0072b2", "/stations/a", "a: 0.9")] * 3, says="Three.")
        >>> tiles.count("<rect"), tiles.count(">a</text>")
        (3, 3)
    """
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
