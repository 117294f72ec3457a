"""The pictures of the demonstration's report."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.city.layout import City
from kinband.experiments.demo import ALONE, SHARED
from kinband.experiments.report.findings import FIFTHS, FIXED, HINDSIGHT, NO_GROUP, Family, Findings
from kinband.experiments.report.style import (
    ALONE_COLOUR,
    FAINT,
    FIXED_COLOUR,
    GREY,
    GROUP_COLOURS,
    INK,
    LINE,
    PAPER,
    SHARED_COLOUR,
    STEP_COLOURS,
    Picture,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# --- The curves of the report: how far from the best, and satisfied users gained ------------------------------------

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


# --- The day of a few stations: what the controller that shares would set in each hour, beside what runs today ------


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


# --- Who is like whom, and where they stand: the heat map of the similarity beside a map of the sectors -------------
#
# Both use the colours of the families, so that a block of the heat map can be found in the city.

_STRIP = 0.025  # width of the strips beside the heat map, as a share of it
_HALF_BEAM = 54.0  # degrees: three sectors of a site leave gaps
_WEDGE = 0.46  # radius of a sector, as a share of the distance to the next site


def family_colours(families: list[Family]) -> dict[str, str]:
    """Return the colour of every family by its name; those in no group are grey.

    Example:
        >>> family_colours([Family("group 1", ("a", "b")), Family("in no group", ("c",))])
        {'group 1': '#4477aa', 'in no group': '#8a939c'}
    """
    names = [family.name for family in families]
    palette = STEP_COLOURS if names[0] in FIFTHS else GROUP_COLOURS
    return {name: GREY if name == NO_GROUP else palette[i] for i, name in enumerate(names)}


def families_of(families: list[Family]) -> dict[str, str]:
    """Return the family of every station by name."""
    return {name: family.name for family in families for name in family.stations}


def heat_picture(findings: Findings, *, stations: str) -> Picture:
    """Return the heat map of the similarity, like beside like, with the families along its sides."""
    similarity, families = findings.similarity, findings.families
    ordered = similarity.reindex([similarity.stations[m] for m in similarity.order()])
    K_Z, colours, family_of = ordered.correlation(), family_colours(families), families_of(families)
    pairs = K_Z[np.triu_indices(len(K_Z), 1)]
    low, middle, high = np.quantile(pairs, [0, 0.5, 1])

    def draw(figure: "Figure", narrow: bool) -> None:
        del narrow
        axes = figure.add_subplot()
        image = axes.imshow(K_Z, cmap="viridis", vmin=low, vmax=high if high > low else 1.0, interpolation="nearest")
        _strips(axes, [colours[family_of[name]] for name in ordered.stations])
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"{len(K_Z)} {stations}, like beside like", labelpad=16)
        axes.set_ylabel(f"the same {stations}", labelpad=16)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        bar = figure.colorbar(image, ax=axes, orientation="horizontal", location="top", shrink=0.7, aspect=30, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label("similarity (1: same behaviour, 0: nothing in common)", color=FAINT)

    says = f"Heat map of the similarity of {len(K_Z)} {stations}: least {low:.2f}, median {middle:.2f}."
    return Picture("similarity", says, draw, (4.3, 4.9), (3.9, 4.5))


def _strips(axes: "Axes", colours: list[str]) -> None:
    """Draw the stations' colours left of and below the cells."""
    from matplotlib.patches import Rectangle

    size, start = len(colours), -0.5
    gap, thick = 0.012 * size, _STRIP * size
    for colour, run in groupby(colours):
        long = len(list(run))
        left, below = (-0.5 - gap - thick, start), (start, size - 0.5 + gap)
        axes.add_patch(Rectangle(left, thick, long, color=colour, linewidth=0, clip_on=False))
        axes.add_patch(Rectangle(below, long, thick, color=colour, linewidth=0, clip_on=False))
        start += long
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(size - 0.5, -0.5)


def map_picture(findings: Findings, city: City) -> Picture:
    """Return the map of the sectors: a wedge at every site in each direction, coloured by family."""
    families = findings.families
    colours, family_of = family_colours(families), families_of(families)
    named = tuple(findings.demo.stage.days)

    def draw(figure: "Figure", narrow: bool) -> None:
        del narrow
        axes = figure.add_subplot()
        _wedges(axes, city, {name: colours[family_of[name]] for name in city.names}, named)
        _hot_spots(axes, city)
        axes.set_aspect("equal")
        axes.autoscale_view()
        axes.margins(0.04)
        axes.set_xlabel("east (km)")
        axes.set_ylabel("north (km)")
        _map_legend(figure, families, colours, hot_spots=bool(len(city.hot_spots)))

    titles = {f"sector-{i}": _title(city, i, family_of[name]) for i, name in enumerate(city.names)}
    says = f"Map of {len(city.names)} sectors on {city.sites} sites, coloured by family."
    return Picture("map", says, draw, (4.3, 4.9), (3.9, 4.7), titles)


def _title(city: City, index: int, family: str) -> str:
    kind = f", {city.kinds[index]}" if city.kinds else ""
    return f"{city.names[index]}{kind}: {family}"


def _wedges(axes: "Axes", city: City, colours: Mapping[str, str], named: tuple[str, ...]) -> None:
    from matplotlib.patches import Wedge

    radius = _WEDGE * _spacing(city)
    for i, name in enumerate(city.names):
        shown, angle = name in named, city.azimuths[i]
        east, north = city.places[i] / 1000
        wedge = Wedge((east, north), radius, angle - _HALF_BEAM, angle + _HALF_BEAM, facecolor=colours[name])
        wedge.set(edgecolor=INK if shown else PAPER, linewidth=1.6 if shown else 0.5, zorder=3 if shown else 2)
        wedge.set_gid(f"sector-{i}")
        axes.add_patch(wedge)
        if shown:
            _name(axes, name, (east, north), angle, 1.25 * radius)


def _name(axes: "Axes", name: str, place: tuple[float, float], angle: float, distance: float) -> None:
    """Write the name of a sector in front of it, on paper so that it can be read above others."""
    turn = np.radians(angle)
    east, north = place[0] + distance * np.cos(turn), place[1] + distance * np.sin(turn)
    side = "left" if np.cos(turn) > 0.3 else "right" if np.cos(turn) < -0.3 else "center"
    box = {"boxstyle": "round,pad=0.2", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
    axes.text(east, north, name, ha=side, va="center", fontsize=8, fontweight="bold", color=INK, zorder=5, bbox=box)


def _hot_spots(axes: "Axes", city: City) -> None:
    if len(city.hot_spots):
        axes.plot(*(city.hot_spots.T / 1000), "*", color=INK, markersize=5, markeredgewidth=0, zorder=4)


def _spacing(city: City) -> float:
    """The median distance of a site to the next, in kilometres; half a kilometre for a lone one."""
    sites = np.unique(city.places, axis=0) / 1000
    if len(sites) < 2:
        return 0.5
    apart = np.hypot(*(sites[:, None] - sites[None]).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    return float(np.median(apart.min(axis=1)))


def _map_legend(figure: "Figure", families: list[Family], colours: Mapping[str, str], *, hot_spots: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Patch | Line2D] = [
        Patch(color=colours[family.name], label=f"{family.name} ({len(family.stations)})") for family in families
    ]
    if hot_spots:
        handles.append(Line2D([], [], marker="*", linestyle="", color=INK, markeredgewidth=0, label="hot spot"))
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.0, columnspacing=1.2)
