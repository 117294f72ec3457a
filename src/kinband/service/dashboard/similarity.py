"""How alike stations are: a heat map in the order of groups, the groups, and the nearest of any station.

The picture is made once a matrix: as long as the matrix is the same, down to its bits, so is the picture.
"""

import hashlib
import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from kinband.arrays import FloatArray
from kinband.html.svg import number, tag
from kinband.kernels import TaskCovariance
from kinband.service.dashboard.charts import ramp
from kinband.service.dashboard.dashboard import Dashboard, Text
from kinband.service.dashboard.groups import LEVELS, numbered_groups
from kinband.service.dashboard.map import UNKNOWN
from kinband.service.dashboard.text import figure, station_url, with_query
from kinband.similarity import TaskMatrix
from kinband.similarity.newcomers import correlations
from kinband.stats import counted

GROUP_COLOURS = ("#4477aa", "#66ccee", "#2e9e5b", "#e0b73a", "#ee6677", "#aa3377", "#7b6fd0", "#c08552")
"""Paul Tol's bright palette and two more, told apart by every kind of sight."""
_NEAREST = 10


def add_pages(dashboard: Dashboard) -> None:
    """Add the page, its picture and the numbers of that."""
    kept: dict[str, Sorted] = {}  # the last matrix, by its digest
    known: list[tuple[object, tuple[str, ...], Sorted]] = []  # the last one as the controller has it

    def present() -> Sorted:
        controller = dashboard.operations.turns.unlocked
        current, stations = controller.current.K_Z, tuple(controller.stations)  # a matrix never changes in place
        for its, names, found in known:
            if its is current and names == stations:
                return found
        found = in_order()
        known[:] = [(current, stations, found)]
        return found

    def in_order() -> Sorted:
        matrix = dashboard.operations.similarity()
        said = hashlib.sha256(matrix.method.encode())
        for part in matrix.parts():
            said.update("\n".join(part.stations).encode() + part.matrix.tobytes())
        digest = said.hexdigest()[:16]
        found = kept.get(digest)
        if found is None:
            found = Sorted.of(matrix, digest)
            kept.clear()
            kept[digest] = found
        return found

    @dashboard.router.get("/similarity")
    def alike(request: Request, alike: float = 0.7, station: Text = "") -> Response:
        return dashboard.show(request, "similarity.html", lambda: similarity(present(), level=alike, station=station))

    @dashboard.router.get("/similarity/picture.png")
    def picture(request: Request, v: Text = "") -> Response:
        dashboard.visitors.of(request)
        found = present()
        return _file(found.image, "image/png", lasting=v == found.digest)

    @dashboard.router.get("/similarity/data.json")
    def data(request: Request, v: Text = "") -> Response:
        dashboard.visitors.of(request)
        found = present()
        return _file(found.data, "application/json", lasting=v == found.digest)


def _file(content: bytes, media: str, *, lasting: bool) -> Response:
    """Return a file; what was asked for by its digest may be kept for ever."""
    kept = "private, max-age=31536000, immutable" if lasting else "no-store"
    return Response(content, media_type=media, headers={"Cache-Control": kept, "X-Content-Type-Options": "nosniff"})


@dataclass(frozen=True)
class Sorted:
    """A task matrix with like beside like.

    Attributes:
        digest: Of its bits and names.
        method: How it was found.
        stations: Names in their order.
        correlation: In that order, (M, M).
        shown: The rows and columns of it that the picture shows: all, or evenly chosen ones of a large network.
        groups: Groups by level, each a list of names.
        low: Similarity of the darkest shade of the picture.
        high: Of its brightest.
        image: The picture as a PNG.
        data: Names and shades as JSON, for the script that reads them out.
    """

    digest: str
    method: str
    stations: tuple[str, ...]
    correlation: TaskCovariance
    shown: FloatArray
    groups: dict[float, list[tuple[str, ...]]]
    low: float
    high: float
    image: bytes
    data: bytes

    @classmethod
    def of(cls, found: TaskMatrix, digest: str) -> "Sorted":
        """Put a matrix into order, and draw it."""
        names = tuple(found.stations[m] for m in found.order())
        correlation, step = correlations(found.reindex(names).K_Z), -(-len(names) // PIXELS)
        shown = correlation[::step, ::step]
        low, high = min(0.0, float(shown.min())), max(1.0, float(shown.max()))
        groups = {level: found.groups(alike=level) for level in LEVELS}
        pixels = shades(shown, low=low, high=high)
        said = {"stations": names[::step], "shades": b64encode(pixels.tobytes()).decode(), "low": low, "high": high,
                "links": [station_url(name) for name in names[::step]]}  # fmt: skip
        data = json.dumps(said, ensure_ascii=False).encode()
        return cls(digest, found.method, names, correlation, shown, groups, low, high, png(pixels), data)


def similarity(found: Sorted, *, level: float, station: str) -> dict[str, Any]:
    """Return what the page shows.

    Args:
        found: The matrix in order.
        level: One of `LEVELS`; anything else is the middle one.
        station: Whose nearest to list; empty for nobody's.
    """
    level = level if level in LEVELS else LEVELS[1]
    numbered = numbered_groups(found.groups[level])
    pairs = found.shown[np.triu_indices(len(found.shown), 1)]
    median = float(np.median(pairs)) if len(pairs) else None
    middle = "" if median is None else f", median pair {figure(median, 2)}"
    stations, parts = counted(len(found.stations), "station"), counted(len(numbered), "group")
    return {
        "found": found,
        "level": level,
        "heat": heat_map(
            _bands(found.groups[level], numbered),
            pixels=len(found.shown),
            image=f"/similarity/picture.png?v={found.digest}",
            values=f"/similarity/data.json?v={found.digest}",
            says=f"Heat map of how alike {stations} are, in {parts}{middle}.",
        ),
        "groups": [(i, _colour(i), group) for group, i in numbered.items()],
        "alone": [group[0] for group in found.groups[level] if len(group) == 1],
        "unknown": UNKNOWN,
        "median": median,
        "station": station if station in found.stations else "",
        "nearest": _nearest(found, station),
        "level_links": {each: with_query("/similarity", alike=each, station=station) for each in LEVELS},
    }


def _colour(number: int) -> str:
    return GROUP_COLOURS[number % len(GROUP_COLOURS)]


def _nearest(found: Sorted, station: str) -> list[tuple[str, float]]:
    if station not in found.stations:
        return []
    row = found.correlation[found.stations.index(station), :]
    order = [int(i) for i in np.argsort(-row, kind="stable") if found.stations[int(i)] != station]
    return [(found.stations[i], float(row[i])) for i in order[:_NEAREST]]


# --- The heat map: one pixel a pair of stations, as a paletted PNG of a few kilobytes -------------------------------
#
# The picture is a file of its own (one byte a pair, compressed by zlib; PNG, ISO/IEC 15948), stretched without
# smoothing by the page, which draws the boundaries of groups and their names around it.

PIXELS = 1000
"""Rows of the picture at most: of more stations, evenly chosen ones are shown."""

SIDE = 1000.0
"""Units of the heat map's side."""
_STRIP, _GAP = 22.0, 6.0  # units of the groups' strips and of the gap beside them


def shades(matrix: FloatArray, *, low: float, high: float) -> NDArray[np.uint8]:
    """Return the shade of every entry, (M, M): 0 at `low` or below, 255 at `high` or above."""
    found: NDArray[np.uint8] = np.round(255.0 * np.clip((matrix - low) / (high - low), 0.0, 1.0)).astype(np.uint8)
    return found


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return shades (H, W) as a PNG in the colours of the ramp."""
    high, wide = pixels.shape
    head = struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)  # eight bits a pixel, by palette
    palette = bytes.fromhex("".join(ramp(level / 255)[1:] for level in range(256)))
    rows = np.hstack([np.zeros((high, 1), dtype=np.uint8), pixels])  # each begins with its filter, none
    parts = (b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


class Band(NamedTuple):
    """Neighbouring rows of a heat map that belong together: their name, their number, their colour, a link."""

    name: str
    size: int
    colour: str
    href: str


def _bands(groups: Sequence[tuple[str, ...]], numbered: dict[tuple[str, ...], int]) -> list[Band]:
    """Return groups as bands; stations in no group that lie side by side are one band."""
    bands = []
    for place, run in groupby(groups, key=lambda group: numbered.get(group, -1)):
        size = sum(map(len, run))
        if place < 0:
            bands.append(Band(f"{counted(size, 'station')} in no group", size, UNKNOWN, "#alone"))
        else:
            words = f"group {place + 1}, {counted(size, 'station')}"
            bands.append(Band(words, size, _colour(place), f"#group-{place + 1}"))
    return bands


def heat_map(bands: Sequence[Band], *, pixels: int, image: str, says: str, values: str) -> Markup:
    """Return the heat map with the strips and boundaries of its groups.

    Args:
        bands: The groups in the order of the rows.
        pixels: Rows of the picture.
        image: Address of the picture.
        says: What there is to see, for those who cannot.
        values: Address of the numbers, for the script.
    """
    rows, edge = sum(band.size for band in bands), _STRIP + _GAP
    place, strips, lines = edge, list[Markup](), list[Markup]()
    for band in bands:
        long = band.size * SIDE / rows
        across = tag("rect", x=place, y=0, width=long, height=_STRIP, fill=band.colour)
        down = tag("rect", x=0, y=place, width=_STRIP, height=long, fill=band.colour)
        strips.append(tag("a", tag("title", band.name), across, down, href=band.href, aria_label=band.name))
        if place > edge:
            lines.append(tag("line", class_="bound", x1=edge, x2=edge + SIDE, y1=place, y2=place))
            lines.append(tag("line", class_="bound", y1=edge, y2=edge + SIDE, x1=place, x2=place))
        place += long
    picture = tag(
        "image", class_="pixels", href=image, x=edge, y=edge, width=SIDE, height=SIDE, preserveAspectRatio="none"
    )
    box = f"0 0 {number(edge + SIDE)} {number(edge + SIDE)}"
    return tag(
        "svg", *strips, picture, *lines, class_="heat", viewBox=box, role="group", aria_label=says, data_rows=pixels,
        data_edge=edge, data_side=SIDE, data_values=values,
    )  # fmt: skip
