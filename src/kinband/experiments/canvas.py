"""What figures are drawn on: empty axes, and a way to disk. Matplotlib is loaded here, without its global state."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
