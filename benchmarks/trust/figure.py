"""Targets as a picture: what was measured with its interval, and the line that it must keep to.

Targets that share an aim share a panel; the side of the line that breaks the promise is shaded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.trust.targets import Target
from kinband.experiments.pages import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KEPT, _MISSED, _OPEN = "#0072B2", "#D55E00", "#777777"


def draw_targets(targets: Sequence[Target], path: Path, *, title: str) -> None:
    """Draw targets that have an aim; those without are left to the table."""
    from matplotlib.figure import Figure

    panels: dict[tuple[float, str, str], list[Target]] = {}
    for target in targets:
        if target.aim is not None:
            panels.setdefault((target.aim, target.sense, _said(target)), []).append(target)
    heights = [len(rows) + 1.2 for rows in panels.values()]
    figure = Figure(figsize=(9.0, 0.34 * sum(heights) + 0.8), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for panel, ((aim, sense, said), rows) in zip(axes, panels.items(), strict=True):
        _panel(panel, rows, aim=aim, sense=sense, said=said)
    save(figure, [path])


def _said(target: Target) -> str:
    """What a target is about, without the problem that it was measured on."""
    _, parted, rest = target.name.partition(": ")
    return rest if parted else target.name


def _panel(axes: "Axes", rows: Sequence[Target], *, aim: float, sense: str, said: str) -> None:
    for i, row in enumerate(rows):
        colour = {True: _KEPT, False: _MISSED, None: _OPEN}[row.met]
        axes.plot([row.low, row.high], [i, i], color=colour, linewidth=2.2, solid_capstyle="round")
        axes.plot(row.value, i, "o", color=colour, markersize=7)
    low, high = axes.get_xlim()
    low, high = min(low, aim - 0.08 * (high - low)), max(high, aim + 0.08 * (high - low))
    axes.set_xlim(low, high)
    axes.axvspan(*((aim, high) if sense == "at most" else (low, aim)), color=_MISSED, alpha=0.08, linewidth=0)
    axes.axvline(aim, color="#333333", linewidth=1, linestyle="--")
    axes.set_yticks(range(len(rows)), [row.name.partition(": ")[0] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if rows[0].style.endswith("%"):
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title(f"{said} ({sense} {aim:{rows[0].style}})", loc="left", fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
