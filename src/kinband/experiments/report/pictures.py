"""The curves of the report: how far from the best, and satisfied users gained."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.demo import ALONE, SHARED
from kinband.experiments.report.findings import FIXED, HINDSIGHT, Findings
from kinband.experiments.report.theme import ALONE_COLOUR, FAINT, FIXED_COLOUR, LINE, SHARED_COLOUR, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {SHARED: SHARED_COLOUR, ALONE: ALONE_COLOUR, FIXED: FIXED_COLOUR, HINDSIGHT: FAINT}


def regret_picture(findings: Findings, labels: Mapping[str, str], *, y: str, near: str) -> Picture:
    """Return how far a station is from its best in each round, with sharing and alone, and where that is near."""
    scale = 100.0 if findings.demo.stage.city else 1.0
    curves = {
        name: _smooth(scale * findings.standings[name].regret / len(findings.stations)) for name in (SHARED, ALONE)
    }

    def draw(figure: "Figure", narrow: bool) -> None:
        axes = figure.add_subplot()
        axes.axhline(scale * findings.near, color=FAINT, linewidth=1.2, linestyle=(0, (4, 2)), label=near)
        _curves(axes, curves, labels)
        axes.set_xlabel("round")
        axes.set_ylabel(y)
        axes.set_ylim(bottom=0)
        _legend(figure, axes, narrow)

    ends = ", ".join(f"{labels[name]} {curve[:, -1].mean():.2g}" for name, curve in curves.items())
    return Picture(
        "regret", f"Distance from the best falls with the rounds; in the end: {ends}.", draw, (7.4, 3.7), (3.9, 4.1)
    )


def users_picture(findings: Findings, labels: Mapping[str, str], *, y: str) -> Picture:
    """Return satisfied users gained against rounds, each round the mean of those so far played about it."""
    curves = {name: _smooth(standing.gained) for name, standing in findings.standings.items() if name != FIXED}

    def draw(figure: "Figure", narrow: bool) -> None:
        axes = figure.add_subplot()
        axes.axhline(0, color=COLOURS[FIXED], linewidth=1.8, label=labels[FIXED])
        _curves(axes, curves, labels)
        axes.set_xlabel("round")
        axes.set_ylabel(y)
        _legend(figure, axes, narrow)

    ends = ", ".join(f"{labels[name]} {curve[:, -1].mean():+.0f}" for name, curve in curves.items())
    return Picture("users", f"Satisfied users gained, in the end: {ends}.", draw, (7.4, 3.5), (3.9, 4.0))


def _curves(axes: "Axes", curves: Mapping[str, FloatArray], labels: Mapping[str, str]) -> None:
    """Draw means over runs, and two standard errors as a band."""
    from matplotlib.ticker import MaxNLocator

    for name, runs in curves.items():
        rounds, mean = np.arange(1, runs.shape[1] + 1), runs.mean(axis=0)
        dashed = name == HINDSIGHT
        style = (0, (4, 2)) if dashed else "-"
        axes.plot(
            rounds, mean, color=COLOURS[name], linewidth=1.4 if dashed else 2.0, linestyle=style, label=labels[name]
        )
        if len(runs) > 1 and not dashed:
            error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
            axes.fill_between(rounds, mean - 2 * error, mean + 2 * error, color=COLOURS[name], alpha=0.18, linewidth=0)
    axes.set_xlim(1, max(2, len(rounds)))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="x", color=LINE, alpha=0)


def _legend(figure: "Figure", axes: "Axes", narrow: bool) -> None:
    """Put the legend above the curves, where it hides none."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=1 if narrow else 2)


def _smooth(runs: FloatArray, *, window: int = 5) -> FloatArray:
    """Return means over a few rounds around each, fewer at the ends, (runs, T)."""
    half, rounds = window // 2, runs.shape[1]
    parts = [runs[:, max(0, t - half) : t + half + 1].mean(axis=1) for t in range(rounds)]
    return np.stack(parts, axis=1)
