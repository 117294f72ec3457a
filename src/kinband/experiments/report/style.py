"""How reports look."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from kinband.similarity.picture import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --- One drawing for light and dark pages, for wide and narrow ones, and for a file of its own ----------------------
#
# Matplotlib draws with a few colours that stand for roles (ink, faint, line, paper). In a PNG they are what they are,
# the colours of a light page. In the page's SVG they become CSS variables, which the page sets by the reader's
# preference; text stays text, in the page's own font. Every picture is drawn twice, wide and narrow, because letters
# that shrink with the picture could not be read on a phone; the page shows the one that fits.

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


# --- How the page looks: one column that reads on a laptop and on a phone, in light and in dark. Nothing is loaded

CSS = """
:root { color-scheme: light dark; --ink: #1c2733; --faint: #5b6875; --line: #dde3e8; --paper: #ffffff; --page: #f3f5f7;
  --accent: #d55e00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf0; --faint: #a3afba; --line: #36424d; --paper: #1b232b; --page: #12181e; --accent: #f08a3c; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; margin: 0 0 8px; }
p { margin: 0 0 12px; }
.sub { color: var(--faint); margin-bottom: 20px; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px;
  margin: 18px 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 12px; margin: 18px 0; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.tile b { display: block; font-size: 1.7rem; line-height: 1.2; color: var(--accent);
  font-variant-numeric: tabular-nums; }
.tile small { display: block; color: var(--faint); font-size: 0.82rem; line-height: 1.4; }
.verdict { border-left: 4px solid var(--accent); padding-left: 12px; font-weight: 500; }
table { margin: 8px 0 12px; border-collapse: collapse; width: 100%; font-size: 0.9rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 7px 8px; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--faint); font-weight: 600; font-size: 0.8rem; vertical-align: bottom; }
td small { display: block; color: var(--faint); font-size: 0.78rem; white-space: nowrap; }
tr.ours td:first-child { font-weight: 600; }
tr.yardstick td { color: var(--faint); }
figure { margin: 12px 0 4px; }
figcaption, .note { color: var(--faint); font-size: 0.87rem; }
svg { display: block; width: 100%; height: auto; }
.narrow { display: none; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 22px; align-items: start; }
.single { max-width: 480px; }
.swatch { display: inline-block; width: 0.85em; height: 0.85em; border-radius: 2px; margin-right: 6px;
  vertical-align: -0.08em; }
dt { font-weight: 600; margin-top: 10px; }
dd { margin: 0; color: var(--faint); }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 0.9em; overflow-wrap: anywhere; }
ul { padding-left: 20px; margin: 0; }
li { margin: 4px 0; }
@media (max-width: 640px) {
  main { padding: 18px 12px 40px; }
  section { padding: 16px 14px; }
  h1 { font-size: 1.4rem; }
  .wide { display: none; }
  .narrow { display: block; }
  .pair { grid-template-columns: 1fr; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tile { padding: 10px 12px; }
  .tile b { font-size: 1.35rem; }
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: 8px 0; }
  td { display: flex; justify-content: space-between; gap: 16px; border: 0; padding: 2px 0; }
  td::before { content: attr(data-head); color: var(--faint); font-size: 0.82rem; text-align: left; }
  td:first-child { font-weight: 600; }
  td:first-child::before { content: none; }
}
"""

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="kinband $version">
<title>$title</title>
<style>$css</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="sub">$subtitle</p>
$body
</main>
</body>
</html>
""")


# --- The parts that every page is made of: sections, figures, notes, tables. Text is escaped here, cells are HTML ---


def section(title: str, inside: str) -> str:
    """Return a section of a page.

    Example:
        >>> section("A & B", "<p>text</p>")
        '<section><h2>A &amp; B</h2><p>text</p></section>'
    """
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def figure(picture: Picture, caption: str) -> str:
    """Return a picture with its caption."""
    return f"<figure>{picture.html()}<figcaption>{escape(caption)}</figcaption></figure>"


def note(text: str) -> str:
    """Return a paragraph in small print."""
    return f'<p class="note">{escape(text)}</p>'


def cell(value: str, beneath: str) -> str:
    """Return a cell with its interval beneath.

    Example:
        >>> cell("0.9", "0.8 to 1.0")
        '0.9<small>0.8 to 1.0</small>'
    """
    return f"{escape(value)}<small>{escape(beneath)}</small>"


def table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table from the class and the cells of each row; cells are HTML.

    Example:
        >>> table(["who", "how many"], [("", ["a", "3"])]).count("<td")
        2
    """
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f'<tr class="{kind}">{_cells(head, cells)}</tr>' for kind, cells in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def tiles(parts: Iterable[tuple[str, str]]) -> str:
    """Return headline numbers, each with what it is.

    Example:
        >>> tiles([("3", "stations")])
        '<div class="tiles"><div class="tile"><b>3</b><small>stations</small></div></div>'
    """
    inside = (f'<div class="tile"><b>{escape(big)}</b><small>{escape(small)}</small></div>' for big, small in parts)
    return f'<div class="tiles">{"".join(inside)}</div>'


def _cells(head: Sequence[str], cells: Sequence[str]) -> str:
    """Return the cells of a row; on a phone each carries the head of its column."""
    return "".join(
        f'<td data-head="{escape(name)}"><span>{inside}</span></td>' for name, inside in zip(head, cells, strict=True)
    )
