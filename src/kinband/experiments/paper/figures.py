"""Figures of the comparisons: they read curves and draw, nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.canvas import blank, save
from kinband.experiments.paper.regression import ErrorCurve
from kinband.experiments.play.runs import Curve
from kinband.similarity import TaskMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def regret_figure(curves: Sequence[Curve], paths: Sequence[Path], *, labels: Mapping[str, str], title: str) -> None:
    """Draw cumulated regret against slots, one line per learner: mean over runs, two standard errors as a band."""
    figure, axes = blank("slot", "cumulated regret, all stations", title)
    names = list(dict.fromkeys(c.case.learner.name for c in curves))
    for name in names:
        own = [c for c in curves if c.case.learner.name == name]
        regret = np.array([c.regret for c in own])
        _band(axes, own[0].slot, regret, colour=COLOURS[name], label=labels[name])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    save(figure, paths)


def error_figure(curve: ErrorCurve, paths: Sequence[Path], *, truth: float) -> None:
    """Draw the error of the two-task regression against the similarity it was trained with."""
    title = f"Two-task regression, {len(curve.error)} draws"
    figure, axes = blank("similarity trained with", "mean squared error on test points", title)
    _band(axes, curve.similarity, curve.error, colour=COLOURS["embedding"], label="mean, ± 2 standard errors")
    lowest = curve.lowest
    axes.axvline(truth, color="#999999", linewidth=1, linestyle="--", label=f"true similarity, {truth:g}")
    axes.plot(lowest.value, curve.at(lowest.value).value, "o", color="#000000", label=f"lowest, at {lowest.value:.2f}")
    axes.legend(frameon=False)
    save(figure, paths)


def spread_figure(
    spread: Mapping[str, Sequence[float]],
    printed: Mapping[str, float],
    paths: Sequence[Path],
    *,
    labels: Mapping[str, str],
    title: str,
) -> None:
    """Draw what every method saves at each setting of the grid, beside what the paper prints."""
    figure, axes = blank("share of the baseline's regret saved", "", title)
    for row, (name, values) in enumerate(spread.items()):
        axes.plot(values, np.full(len(values), row), "o", color=COLOURS[name], alpha=0.5, markersize=7)
        if name in printed:
            axes.plot(printed[name], row, "D", color="#000000", markersize=7, label="paper" if not row else None)
    axes.axvline(0, color="#999999", linewidth=1)
    axes.set_yticks(range(len(spread)), [labels[name] for name in spread])
    axes.set_ylim(len(spread) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False)
    save(figure, paths)


def matrices_figure(
    matrices: Mapping[str, TaskMatrix], paths: Sequence[Path], *, labels: Mapping[str, str], title: str
) -> None:
    """Draw several task matrices of the same stations side by side, all in the order that groups the first."""
    from matplotlib.figure import Figure

    order = next(iter(matrices.values())).order()
    figure = Figure(figsize=(4.1 * len(matrices) + 0.6, 4.9), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left")
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axes, (name, alike) in zip(panels, matrices.items(), strict=True):
        values = alike.matrix[np.ix_(order, order)]
        image = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(labels[name], loc="left", fontsize=10)
        axes.set_xlabel(f"{len(order)} stations, grouped")
        axes.set_xticks([])
        axes.set_yticks([])
    figure.colorbar(image, ax=panels, label="similarity", shrink=0.8)
    save(figure, paths)


def _band(axes: "Axes", x: Any, runs: FloatArray, *, colour: str, label: str) -> None:
    """Draw the mean of runs (r, p) over x (p,), and two standard errors around it."""
    mean = runs.mean(axis=0)
    axes.plot(x, mean, color=colour, linewidth=1.8, label=label)
    if len(runs) > 1:
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.12, linewidth=0)
