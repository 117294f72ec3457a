"""How alike stations are: a heat map in the order of groups, the groups, and the nearest of any station.

The picture is made once a matrix: as long as the matrix is the same, down to its bits, so is the picture.
"""

import hashlib
import json
import threading
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from kinband.arrays import FloatArray
from kinband.counting import counted
from kinband.service.dashboard.charts.maps import Band, heat_map, png, shades
from kinband.service.dashboard.charts.svg import GROUP_COLOURS, UNKNOWN
from kinband.service.dashboard.desk import Desk, Text
from kinband.service.dashboard.text import figure, with_query
from kinband.service.operations import Operations
from kinband.similarity import TaskMatrix

LEVELS = (0.5, 0.7, 0.9)
"""How alike the stations of a group are on average, to choose from."""
_NEAREST = 10
_FOR_EVER = "private, max-age=31536000, immutable"


def add_pages(desk: Desk) -> None:
    """Add the page, its picture and the numbers of that."""
    last = LastMatrix(desk.operations)

    @desk.router.get("/similarity")
    def alike(request: Request, alike: float = 0.7, station: Text = "") -> Response:
        return desk.show(request, "similarity.html", lambda: similarity(last.sorted(), level=alike, station=station))

    @desk.router.get("/similarity/picture.png")
    def picture(request: Request, v: Text = "") -> Response:
        desk.visitors.of(request)
        found = last.sorted()
        return _file(found.image, "image/png", for_ever=v == found.digest)

    @desk.router.get("/similarity/data.json")
    def data(request: Request, v: Text = "") -> Response:
        desk.visitors.of(request)
        found = last.sorted()
        return _file(found.data(), "application/json", for_ever=v == found.digest)


def _file(content: bytes, media: str, *, for_ever: bool) -> Response:
    """Return a file; what was asked for by its digest may be kept for ever."""
    headers = {"Cache-Control": _FOR_EVER if for_ever else "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=media, headers=headers)


@dataclass(frozen=True)
class Sorted:
    """A task matrix with like beside like.

    Attributes:
        digest: Of its bits and names.
        method: How it was found.
        stations: Names in their order.
        likeness: Correlations in that order, (M, M).
        groups: Groups by level, each a list of names.
        pixels: Shades of the picture, (M, M).
        low: Likeness of its darkest shade.
        high: Of its brightest.
        image: The picture as a PNG.
    """

    digest: str
    method: str
    stations: tuple[str, ...]
    likeness: FloatArray
    groups: dict[float, list[tuple[str, ...]]]
    pixels: "np.typing.NDArray[np.uint8]"
    low: float
    high: float
    image: bytes

    @classmethod
    def of(cls, found: TaskMatrix, digest: str) -> "Sorted":
        """Put a matrix into order, and draw it."""
        order = found.order()
        likeness = found.correlation()[np.ix_(order, order)]
        low, high = min(0.0, float(likeness.min())), max(1.0, float(likeness.max()))
        names = tuple(found.stations[m] for m in order)
        groups = {level: found.groups(alike=level) for level in LEVELS}
        pixels = shades(likeness, low=low, high=high)
        return cls(digest, found.method, names, likeness, groups, pixels, low, high, png(pixels))

    def data(self) -> bytes:
        """Return names and shades as JSON, for the script that reads them out."""
        pixels = b64encode(self.pixels.tobytes()).decode()
        said = {"stations": self.stations, "shades": pixels, "low": self.low, "high": self.high}
        return json.dumps(said, ensure_ascii=False).encode()


class LastMatrix:
    """Keeps the last matrix in order, and its picture. Threads may share it."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._lock = threading.Lock()
        self._seq = -1
        self._kept: Sorted | None = None

    def sorted(self) -> Sorted:
        """Return the matrix of now in order."""
        with self._operations.looking() as read_model:
            seq = read_model.seq
        with self._lock:
            if self._kept is None or self._seq != seq:
                found = self._operations.similarity()
                names = "\n".join((found.method, *found.stations)).encode()
                digest = hashlib.sha256(names + found.matrix.tobytes()).hexdigest()[:16]
                if self._kept is None or self._kept.digest != digest:
                    self._kept = Sorted.of(found, digest)
                self._seq = seq
            return self._kept


def similarity(found: Sorted, *, level: float, station: str) -> dict[str, Any]:
    """Return what the page shows.

    Args:
        found: The matrix in order.
        level: One of `LEVELS`; anything else is the middle one.
        station: Whose nearest to list; empty for nobody's.
    """
    level = level if level in LEVELS else LEVELS[1]
    groups = [group for group in found.groups[level] if len(group) > 1]
    numbered = {group: i for i, group in enumerate(sorted(groups, key=len, reverse=True))}
    pairs = found.likeness[np.triu_indices(len(found.stations), 1)]
    median = float(np.median(pairs)) if len(pairs) else None
    middle = "" if median is None else f", median pair {figure(median, 2)}"
    stations, parts = counted(len(found.stations), "station"), counted(len(groups), "group")
    return {
        "found": found,
        "level": level,
        "heat": heat_map(
            _bands(found.groups[level], numbered),
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


def _bands(groups: Sequence[tuple[str, ...]], numbered: dict[tuple[str, ...], int]) -> list[Band]:
    """Return groups as bands; stations in no group that lie side by side are one band."""
    bands = []
    for number, run in groupby(groups, key=lambda group: numbered.get(group, -1)):
        size = sum(map(len, run))
        if number < 0:
            bands.append(Band(f"{counted(size, 'station')} in no group", size, UNKNOWN, "#alone"))
        else:
            words = f"group {number + 1}, {counted(size, 'station')}"
            bands.append(Band(words, size, _colour(number), f"#group-{number + 1}"))
    return bands


def _nearest(found: Sorted, station: str) -> list[tuple[str, float]]:
    if station not in found.stations:
        return []
    row = found.likeness[found.stations.index(station)]
    order = [int(i) for i in np.argsort(-row, kind="stable") if found.stations[int(i)] != station]
    return [(found.stations[i], float(row[i])) for i in order[:_NEAREST]]
