"""Figures of results. Matplotlib is loaded here only, and used without its global state."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kinband.experiments.demo import Curves

# Okabe and Ito's palette, told apart by every kind of sight; the baseline is black.
_COLOURS = ("#000000", "#999999", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")


def regret_figure(curves: Sequence[Curves], path: Path, *, labels: Mapping[str, str], title: str) -> None:
    """Draw cumulated regret against slots: mean, and two standard errors as a band."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for curve, colour in zip(curves, _COLOURS, strict=False):
        runs, slots = curve.regret.shape
        x, mean = np.arange(1, slots + 1), curve.regret.mean(axis=0)
        axes.plot(x, mean, color=colour, linewidth=1.8, label=labels[curve.learner])
        if runs > 1:
            error = curve.regret.std(axis=0, ddof=1) / np.sqrt(runs)
            axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.12, linewidth=0)
    axes.set_xlabel("slot")
    axes.set_ylabel("cumulated regret, all stations")
    axes.set_title(title, loc="left")
    axes.set_xlim(0, slots)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
