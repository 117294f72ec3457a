"""The day of a few stations: what the controller that shares would set in each hour, beside what runs today."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.report.findings import Findings
from kinband.experiments.report.theme import FIXED_COLOUR, SHARED_COLOUR, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def day_picture(findings: Findings, titles: Mapping[str, str], *, knob: str) -> Picture | None:
    """Return a panel for each shown station, or None where none can be shown.

    The dots are the choices of single runs, the line what the runs expect to be best on average.
    """
    chosen, stage, values = findings.chosen(), findings.demo.stage, findings.knob_values
    if not chosen or values is None:
        return None
    today, hours = float(values[stage.today]), np.array(stage.hours, dtype=np.float64)
    margin = 0.04 * float(np.ptp(values))

    def draw(figure: "Figure", narrow: bool) -> None:
        grid = (len(chosen), 1) if narrow else (-(-len(chosen) // 2), min(2, len(chosen)))
        panels = figure.subplots(*grid, sharex=True, sharey=True, squeeze=False)
        for axes, (station, runs) in zip(panels.flat, chosen.items(), strict=False):
            _panel(axes, hours, runs, findings.agreed(station), today)
            axes.set_title(titles[station], loc="left")
            axes.set_ylim(values.min() - margin, values.max() + margin)
        for axes in panels.flat[len(chosen) :]:
            axes.set_visible(False)
        figure.supxlabel("hour of the day", fontsize=9)
        figure.supylabel(knob, fontsize=9)
        labelled = panels.flat[0].get_legend_handles_labels()
        figure.legend(*labelled, loc="outside upper left", ncols=1 if narrow else 3)

    rows = -(-len(chosen) // 2)
    says = f"What the controller would set in each hour for {len(chosen)} stations, beside what runs today."
    return Picture("day", says, draw, (7.4, 0.9 + 2.1 * rows), (3.9, 1.2 + 1.7 * len(chosen)))


def _panel(axes: "Axes", hours: FloatArray, runs: FloatArray, agreed: FloatArray, today: float) -> None:
    axes.axhline(today, color=FIXED_COLOUR, linewidth=1.8, label="runs today")
    spots, where = np.tile(hours + 0.5, len(runs)), runs.ravel()
    axes.plot(spots, where, "o", color=SHARED_COLOUR, alpha=0.45, markersize=4, markeredgewidth=0, label="single runs")
    edges = np.append(hours, hours[-1] + 1)
    axes.stairs(agreed, edges, baseline=None, color=SHARED_COLOUR, linewidth=2.2, label="shared, all runs together")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_xticks(hours[:: max(1, len(hours) // 4)])
    axes.grid(axis="x", alpha=0)
