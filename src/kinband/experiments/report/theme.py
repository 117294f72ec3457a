"""One drawing for light and dark pages, for wide and narrow ones, and for a file of its own.

Matplotlib draws with a few colours that stand for roles (ink, faint, line, paper). In a PNG they are what they are, the
colours of a light page. In the page's SVG they become CSS variables, which the page sets by the reader's preference;
text stays text, in the page's own font. Every picture is drawn twice, wide and narrow, because letters that shrink with
the picture could not be read on a phone; the page shows the one that fits.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinband.similarity.picture import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT, LINE, PAPER = "#1c2733", "#5b6875", "#dde3e8", "#ffffff"
_VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", LINE: "var(--line)", PAPER: "var(--paper)"}
SHARED_COLOUR, ALONE_COLOUR, FIXED_COLOUR = "#d55e00", "#0a84c4", "#b5689a"
GROUP_COLOURS = ("#4477aa", "#66ccee", "#2e9e5b", "#e0b73a", "#ee6677", "#aa3377")
"""Paul Tol's bright palette, told apart by every kind of sight."""
STEP_COLOURS = ("#ecb731", "#8cbf4f", "#2a9d8f", "#3a78b5", "#7b4fa3")
"""Steps from one end to the other, in the order of the heat map's colours."""
GREY = "#8a939c"

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",  # text stays text
}

Draw = Callable[["Figure", bool], None]
"""Draws into an empty figure; the second argument says whether it is narrow."""


@dataclass(frozen=True)
class Picture:
    """A picture to be shown in a page and written as a file.

    Attributes:
        name: Names the file, and keeps what is in one picture apart from what is in others.
        says: What there is to see, for those who cannot.
        draw: Draws it.
        wide: Width and height in inches on a wide page, and in the file.
        narrow: Likewise on a narrow page.
        titles: Hovering texts by the id (`gid`) of what they belong to.
        names: What is written in it and may be of any script, such as names of stations.

    Example:
        >>> def draw(figure, narrow):
        ...     figure.add_subplot().plot([0, 1], color=INK)
        >>> page = Picture("line", "A line that rises.", draw, (4, 3), (3, 3)).html()
        >>> page.count("<svg"), "var(--ink)" in page, INK in page
        (2, True, False)
    """

    name: str
    says: str
    draw: Draw
    wide: tuple[float, float]
    narrow: tuple[float, float]
    titles: Mapping[str, str] | None = None
    names: Sequence[str] = ()

    def html(self) -> str:
        """Return the picture for the page: both versions, of which the style sheet shows one."""
        return "".join(
            f'<div class="{kind}">{self._svg(size, narrow=kind == "narrow")}</div>'
            for kind, size in (("wide", self.wide), ("narrow", self.narrow))
        )

    def write(self, folder: Path) -> Path:
        """Write the wide picture as a PNG file and return its path."""
        path = folder / f"{self.name}.png"
        self._save(path, self.wide, narrow=False, format="png", facecolor=PAPER)
        return path

    def _svg(self, size: tuple[float, float], *, narrow: bool) -> str:
        text = io.StringIO()
        self._save(text, size, narrow=narrow, format="svg", transparent=True, metadata={"Date": None})
        prefix = f"{self.name}-{'narrow' if narrow else 'wide'}-"
        return _themed(text.getvalue(), prefix=prefix, says=self.says, titles=self.titles or {})

    def _save(self, target: Any, size: tuple[float, float], *, narrow: bool, **options: Any) -> None:
        import matplotlib as mpl
        from matplotlib.figure import Figure

        style: Any = _STYLE | {"svg.hashsalt": self.name}
        with mpl.rc_context(style), written(self.names):
            figure = Figure(figsize=size, layout="constrained")
            self.draw(figure, narrow)
            figure.savefig(target, dpi=160, **options)


def _themed(svg: str, *, prefix: str, says: str, titles: Mapping[str, str]) -> str:
    """Return an SVG document as part of a page: its own ids, the page's colours and font, a name."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Matplotlib gives width and height in points; without them the picture is as wide as its place.
    svg = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # a page knows what an SVG is
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(says)}"', 1)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", svg)
    for name, title in titles.items():
        svg = svg.replace(f'<g id="{name}">', f'<g id="{name}"><title>{escape(title)}</title>')
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)
