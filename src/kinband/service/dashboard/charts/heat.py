"""The heat map of a task matrix: one pixel a pair of stations, as a paletted PNG of a few kilobytes.

The picture is a file of its own (one byte a pair, compressed by zlib; PNG, ISO/IEC 15948), stretched without smoothing
by the page, which draws the boundaries of groups and their names around it.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from kinband.arrays import FloatArray
from kinband.service.dashboard.charts.scales import joined, number, ramp, rgb, tag

LEVELS = 256
"""How many shades there are: one a byte."""
SIDE = 1000.0
"""Units of the heat map's side."""
_STRIP, _GAP = 22.0, 6.0  # units of the groups' strips and of the gap beside them


def shades(matrix: FloatArray, *, low: float, high: float) -> NDArray[np.uint8]:
    """Return the shade of every entry, (M, M): 0 at `low` or below, 255 at `high` or above.

    Example:
        >>> shades(np.array([[1.0, 0.0], [0.0, 1.0]]), low=0.0, high=1.0).tolist()
        [[255, 0], [0, 255]]
    """
    shares = np.clip((matrix - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    found: NDArray[np.uint8] = np.round(shares * (LEVELS - 1)).astype(np.uint8)
    return found


def png(pixels: NDArray[np.uint8]) -> bytes:
    r"""Return shades (H, W) as a PNG in the colours of the ramp.

    Example:
        >>> png(np.zeros((2, 3), dtype=np.uint8))[:8]
        b'\x89PNG\r\n\x1a\n'
    """
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

    Example:
        >>> Band("group 1", 3, "#4477aa", "#group-1").size
        3
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

    Example:
        >>> bands = [Band("one", 2, "#4477aa", "#g1"), Band("two", 1, "#66ccee", "#g2")]
        >>> svg = heat_map(bands, image="/p.png", says="Two groups.")
        >>> svg.count("<line"), svg.count("<rect")
        (2, 4)
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
