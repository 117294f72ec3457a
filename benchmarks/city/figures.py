"""Figures of the city's checks: they read a `CityCheck` and draw, nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.city.check import BUSY_HOUR, CityCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by every kind of sight.
FIRST_COLOUR, LAST_COLOUR = "#0072B2", "#D55E00"  # capacity and coverage
BETWEEN_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
HOUR_COLOURS = ("#999999", "#E69F00", "#000000", "#56B4E9")
KIND_COLOURS = {"business": "#0072B2", "residential": "#009E73", "hot spot": "#D55E00"}
_THRESHOLD = "A2 threshold of all sectors (dBm)"


def city_figures(check: CityCheck, folder: Path) -> list[Path]:
    """Draw all check figures into a folder and return the files."""
    drawn = {
        "satisfied-share.png": _satisfied_share(check),
        "signal.png": _signal(check),
        "cqi-and-load.png": _cqi_and_load(check),
        "handovers.png": _handovers(check),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        figure.savefig(folder / name, dpi=120)  # each below 120 kB: they stand in the documentation
    return [folder / name for name in drawn]


def _satisfied_share(check: CityCheck) -> "Figure":
    """The network's share at several hours, and that of six sectors at the busy hour, against the threshold."""
    figure, (network, sectors) = _panels("sessions with 5 Mbps or more", "", x=_THRESHOLD)
    for (hour, answers), colour in zip(check.calibrations.items(), HOUR_COLOURS, strict=True):
        network.plot(answers.thresholds, answers.network_share, "o-", color=colour, label=f"{hour:g} h", markersize=4)
    own = check.data["own_cell_share"]
    label = f"{BUSY_HOUR:g} h, capacity cells' own count"
    network.plot(check.data["thresholds"], own, ":", color="#000000", label=label)
    network.set_title("Network, one threshold for all", loc="left")
    for number, (name, share) in enumerate(check.data["sectors"].items()):
        kind, style = check.kinds[name], ("o-", "s--")[number % 2]
        label = f"{name}, {kind}"
        sectors.plot(check.data["thresholds"], share, style, color=KIND_COLOURS[kind], label=label, markersize=4)
    sectors.set_title(f"Six sectors at {BUSY_HOUR:g} h", loc="left")
    for axes in (network, sectors):
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        _legend_below(axes)
    return figure


def _signal(check: CityCheck) -> "Figure":
    """Distributions of coupling loss and SINR over connected users, by layer."""
    figure, (loss, sinr) = _panels("users at or below (1st to 99th percentile)", "")
    _distributions(loss, check.data["quantiles"], check.data["coupling_loss_db"])
    loss.set_xlabel("coupling loss to the serving cell (dB)")
    loss.set_title(f"Coupling loss at {BUSY_HOUR:g} h", loc="left")
    _distributions(sinr, check.data["quantiles"], check.data["sinr_db"])
    sinr.set_xlabel("SINR (dB)")
    sinr.set_title(f"SINR at {BUSY_HOUR:g} h", loc="left")
    return figure


def _distributions(axes: "Axes", quantiles: Sequence[float], values: Mapping[str, Sequence[float]]) -> None:
    for (layer, at), colour in zip(values.items(), _layer_colours(len(values)), strict=True):
        if at:
            label = f"{layer}, median {at[len(at) // 2]:.0f} dB"
            # The first and the last of all users are single cases that would stretch the axis.
            axes.plot(at[1:-1], quantiles[1:-1], color=colour, linewidth=1.8, label=label)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(alpha=0.25)
    _legend_below(axes)


def _cqi_and_load(check: CityCheck) -> "Figure":
    """Histograms of the reported CQI and of the cells' load."""
    figure, (cqi, load) = _panels("share of users", "cells")
    share = check.data["cqi_histogram"]
    cqi.bar(range(len(share)), share, color="#999999")
    cqi.set_xticks(range(len(share)))
    cqi.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    cqi.set_xlabel("CQI (0: out of range)")
    cqi.set_title(f"CQI at {BUSY_HOUR:g} h: {sum(share[10:]):.0%} at 10 or more", loc="left")
    histograms = check.data["load_histogram"]
    width, colours = 0.88 / len(histograms), _layer_colours(len(histograms))
    for number, (layer, cells) in enumerate(histograms.items()):
        at = (np.arange(len(cells)) + 0.06 + width * (number + 0.5)) / len(cells)
        load.bar(at, cells, width=(width - 0.02) / len(cells), color=colours[number], label=layer)
    load.set_xticks(np.linspace(0, 1, 6))
    load.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    load.set_xlabel("resources in use, mean over the run")
    load.set_title(f"Load of the cells at {BUSY_HOUR:g} h", loc="left")
    _legend_below(load)
    return figure


def _handovers(check: CityCheck) -> "Figure":
    """Handovers per user-hour and the share of ping-pongs, against the threshold."""
    figure, (count, back) = _panels("handovers per user-hour", "ping-pongs among all handovers", x=_THRESHOLD)
    kinds = {"down": "down a layer (A2)", "up": "up a layer (A4)", "within": "within a layer (A3)"}
    styles = {"down": ("o-", "#D55E00"), "up": ("s--", "#0072B2"), "within": ("^:", "#000000")}
    for kind, values in check.data["handovers_per_user_hour"].items():
        style, colour = styles[kind]
        count.plot(check.data["thresholds"], values, style, color=colour, label=kinds[kind], markersize=4)
    count.set_ylim(0, 1.1 * max(map(max, check.data["handovers_per_user_hour"].values())) + 1)
    count.set_title(f"Handovers at {BUSY_HOUR:g} h", loc="left")
    _legend_below(count)
    back.plot(check.data["thresholds"], check.data["ping_pong_share"], "o-", color="#000000", markersize=4)
    back.set_ylim(0, 1.2 * max(check.data["ping_pong_share"]) + 0.01)
    back.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    back.set_title("Ping-pongs: back to the same cell within 5 s", loc="left")
    return figure


def _layer_colours(count: int) -> list[str]:
    """Colours of so many layers from capacity to coverage; those in between begin anew when they run out."""
    between = (BETWEEN_COLOURS[number % len(BETWEEN_COLOURS)] for number in range(count - 2))
    return [FIRST_COLOUR, *between, LAST_COLOUR]


def _panels(left: str, right: str, *, x: str = "") -> tuple["Figure", tuple["Axes", "Axes"]]:
    """Return a figure of two panels with the names of their axes."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MultipleLocator

    figure = Figure(figsize=(10, 4.4), layout="constrained")
    panels = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for axes, y in zip(panels, (left, right or left), strict=True):
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if x == _THRESHOLD:
            axes.xaxis.set_major_locator(MultipleLocator(4))
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _legend_below(axes: "Axes") -> None:
    """Put the legend under the panel, where it hides no line."""
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)
