"""The plot of a benchmark: what one decision costs against the number of observations known, by each way to make it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kinband.experiments.pages import blank, save

LINES = {
    "exact.botorch": ("BoTorch", "#999999", "s"),
    "exact.scikit-learn": ("scikit-learn, refitted", "#CC79A7", "^"),
    "exact.schur": ("the paper's update", "#0072B2", "v"),
    "exact.run.plain": ("kinband, exact", "#E69F00", "o"),
    "exact.run.structure": ("kinband, exact, states shared by arms", "#D55E00", "o"),
    "sparse.late": ("kinband, sparse", "#009E73", "D"),
    "exact.limit": ("bare matrix products", "#000000", ""),
}
"""Label, colour and marker of the lines that can be drawn."""


def cost_figure(measured: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> bool:
    """Draw milliseconds of a decision against observations, from the lines of a results file; False without any."""
    found = {line["name"]: line["by_size"] for line in measured if line["by_size"]}
    if not found:
        return False
    figure, axes = blank("observations known", "milliseconds for one decision among 29", "Cost of one decision")
    for name, (label, colour, marker) in LINES.items():
        if name not in found:
            continue
        sizes, seconds = zip(*found[name], strict=True)
        style = "--" if name == "exact.limit" else "-"
        milliseconds = [1e3 * t for t in seconds]
        axes.plot(sizes, milliseconds, style, color=colour, marker=marker, markersize=5, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.legend(frameon=False, fontsize="small")
    save(figure, paths)
    return True
