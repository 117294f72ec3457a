"""What results are shown on: figures, and tables in pages. Matplotlib is loaded when something is drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinband.arrays import FloatArray
from kinband.plots import draw_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
from kinband.errors import BadInputError

# Okabe and Ito's palette, told apart by every kind of sight; the baseline is black.
COLOURS = {
    "independent": "#000000",
    "pooled": "#999999",
    "embedding": "#D55E00",
    "prediction": "#0072B2",
    "coregionalisation": "#009E73",
    "joint": "#56B4E9",
    "fixed": "#CC79A7",
}
_OTHERS = ("#E69F00", "#CC79A7", "#F0E442", "#882255", "#44AA99", "#332288")


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for every learner: its own, or one of those that nobody has."""
    others = [name for name in names if name not in COLOURS]
    return {name: COLOURS.get(name) or _OTHERS[others.index(name) % len(_OTHERS)] for name in names}


def blank(x: str, y: str, title: str) -> tuple["Figure", "Axes"]:
    """Return an empty figure with axes named."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: "Figure", paths: Sequence[Path]) -> None:
    """Write a figure to every path, in the format of its ending."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def draw_regret(axes: "Axes", x: Any, regrets: Mapping[str, FloatArray], *, labels: Mapping[str, str]) -> None:
    """Draw cumulated regret, runs (r, p) by learner, against slots (p,): mean, and two standard errors as a band."""
    colours = colours_of(list(regrets))
    for name, runs in regrets.items():
        draw_band(axes, x, runs, colour=colours[name], label=labels.get(name, name))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")


# --- Tables in pages ------------------------------------------------------------------------------------------------

Marks = tuple[str, str]
"""The line before the table, and the line after it."""


def marks_of(command: str) -> Marks:
    """Return the lines between which a command puts its table.

    Example:
        >>> marks_of("trust")
        ('<!-- kinband trust: begin -->', '<!-- kinband trust: end -->')
    """
    return f"<!-- kinband {command}: begin -->", f"<!-- kinband {command}: end -->"


def check_place(page: Path, marks: Marks) -> None:
    """Refuse a page that has no place for the table, before hours of work."""
    begin, end = marks
    if not page.is_file():
        raise BadInputError(
            f"there is no page {page}: make one with the lines {begin} and {end}, or leave --write out and take "
            "table.md of the folder of results"
        )
    _parted(page.read_text(encoding="utf-8"), page, marks)


def write_between(page: Path, text: str, marks: Marks) -> None:
    """Put a text into a page, between its marks; a page that is not there is made of them."""
    begin, end = marks
    there = page.read_text(encoding="utf-8") if page.exists() else f"{begin}\n{end}\n"
    before, after = _parted(there, page, marks)
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def _parted(text: str, page: Path, marks: Marks) -> tuple[str, str]:
    """What stands before the marks, and after them."""
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise BadInputError(f"{page} has no place for the table: add the lines {marks[0]} and {marks[1]}")
    return before, after
