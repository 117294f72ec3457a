"""What of the map is seen, how close, and the names on it.

A view is a share of the whole map, so that it stands in an address; the browser cuts it out by the picture's view box.
Names lie in a picture above it that is not stretched, at shares of its sides, and keep their size; where two would
touch, the later one is left out. A page that is wide has room for more of them than a phone: those are marked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import isfinite
from typing import Any, NamedTuple

from markupsafe import Markup

from kinband.html.svg import number, percent, tag
from kinband.service.dashboard.text import with_query

ZOOMS = (1, 2, 4, 8, 16, 32)
"""How close one may look."""
_STEP = 0.5  # of the view that an arrow goes on by
_LETTER, _LINE = 6.6, 14.0  # pixels of a letter's width and of a line, at the size of the style sheet
_WIDE, _PHONE = 620.0, 330.0  # pixels of the map on a laptop and on a phone


@dataclass(frozen=True, slots=True)
class View:
    """What of the map is seen.

    Attributes:
        zoom: One of `ZOOMS`; anything else is the next smaller one.
        x: Where its middle is, as a share of the map's width.
        y: The same from the top, as a share of its height.
        at: Part of the name of a station that is looked for, and brought to the middle.

    Example:
        >>> View(zoom=2, x=0.9).box(1000.0, 700.0)
        (500.0, 175.0, 500.0, 350.0)
    """

    zoom: int = 1
    x: float = 0.5
    y: float = 0.5
    at: str = ""

    @property
    def close(self) -> int:
        """How close it is."""
        return max((one for one in ZOOMS if one <= self.zoom), default=1)

    def box(self, wide: float, high: float) -> tuple[float, float, float, float]:
        """Return left edge, top, width and height of what is seen of a map; never beyond its edges."""
        w, h = wide / self.close, high / self.close
        x, y = (share if isfinite(share) else 0.5 for share in (self.x, self.y))
        return min(max(x * wide - w / 2, 0.0), wide - w), min(max(y * high - h / 2, 0.0), high - h), w, h

    def links(self, path: str, **kept: Any) -> dict[str, str]:
        """Return the addresses of closer, further, all and of four directions; empty where there is no further one."""
        left, top, w, h = self.box(1.0, 1.0)
        x, y, place = left + w / 2, top + h / 2, ZOOMS.index(self.close)

        def to(zoom: int, x: float, y: float) -> str:
            where = {} if zoom == 1 else {"zoom": zoom, "x": f"{x:.3f}", "y": f"{y:.3f}"}
            return with_query(path, **kept, **where) + "#map"

        found = {
            "closer": to(ZOOMS[place + 1], x, y) if place + 1 < len(ZOOMS) else "",
            "further": to(ZOOMS[place - 1], x, y) if place else "",
            "all": to(1, x, y) if place else "",
        }
        for name, dx, dy in (("west", -1, 0), ("north", 0, -1), ("south", 0, 1), ("east", 1, 0)):
            inside = 0.0 < x + dx * (w / 2 + 1e-9) < 1.0 and 0.0 < y + dy * (h / 2 + 1e-9) < 1.0
            found[name] = to(self.close, x + _STEP * w * dx, y + _STEP * h * dy) if place and inside else ""
        return found


WHOLE = View()
"""All of the map."""


def found_at(at: str, names: Iterable[str]) -> str:
    """Return the station that is looked for: that of the name, else the first that has it in its own; else nothing.

    Example:
        >>> found_at("12", ["312", "12"]), found_at("A1", ["s-a1", "s-a2"]), found_at("", ["a"])
        ('12', 's-a1', '')
    """
    known, wanted = list(names), at.strip().casefold()
    if not wanted or at in known:
        return at if wanted else ""
    return next((name for name in known if wanted in name.casefold()), "")


class Label(NamedTuple):
    """A name and where it stands, in units of the map."""

    text: str
    x: float
    y: float


def site_name(names: Sequence[str]) -> str:
    """Return what a site is called by the names of its sectors: what they have in common, else the first and how many.

    Example:
        >>> site_name(["S12-1", "S12-2"]), site_name(["LON7A", "LON7B"]), site_name(["1034", "1714", "1894"])
        ('S12', 'LON7', '1034 +2')
    """
    if len(names) == 1:
        return names[0]
    alike = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))
    common, within = names[0][:alike], any(name[alike : alike + 1].isdigit() for name in names)
    if within and common[-1:].isdigit():  # the number is not over
        common = common.rstrip("0123456789")
    common = common.rstrip(" -_/.:")
    return common if len(common) >= 2 else f"{min(names)} +{len(names) - 1}"


def names_on(labels: Sequence[Label], box: tuple[float, float, float, float]) -> Markup:
    """Return the picture of names above the map: those that do not touch others, the first first.

    Args:
        labels: The names, the most important first.
        box: What is seen of the map.
    """
    left, top, w, h = box
    seen = [label for label in labels if left <= label.x <= left + w and top <= label.y <= top + h]
    always = _apart(seen, _PHONE / w)
    drawn = [
        tag(
            "text", _short(label.text), x=percent((label.x - left) / w), y=percent((label.y - top) / h), dy=".35em",
            class_=None if label in always else "roomy",
        )
        for label in _apart(seen, _WIDE / w, first=always)
    ]  # fmt: skip
    return tag("svg", *drawn, class_="labels", width="100%", height="100%", aria_hidden="true")


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:8]}…{name[-8:]}"


def _apart(labels: Sequence[Label], pixels: float, *, first: Sequence[Label] = ()) -> list[Label]:
    """Return those labels that do not touch an earlier one, where a unit of the map is so many pixels."""
    kept = list(first)
    taken: dict[tuple[int, int], list[Label]] = {}  # by cells as large as the longest name is

    def cell(label: Label) -> tuple[int, int]:
        return int(label.x * pixels // (18 * _LETTER)), int(label.y * pixels // _LINE)

    def free(label: Label) -> bool:
        column, row = cell(label)
        near = (other for i in (-1, 0, 1) for j in (-1, 0, 1) for other in taken.get((column + i, row + j), ()))
        return not any(_touch(label, other, pixels) for other in near)

    for label in kept:
        taken.setdefault(cell(label), []).append(label)
    known = set(kept)
    for label in labels:
        if label not in known and free(label):
            taken.setdefault(cell(label), []).append(label)
            kept.append(label)
    return kept


def _touch(a: Label, b: Label, pixels: float) -> bool:
    room = _LETTER * (len(_short(a.text)) + len(_short(b.text))) / 2 + 4.0
    return abs(a.x - b.x) * pixels < room and abs(a.y - b.y) * pixels < _LINE


def box_text(box: tuple[float, float, float, float]) -> str:
    """Return a view box as an attribute."""
    return " ".join(map(number, box))
