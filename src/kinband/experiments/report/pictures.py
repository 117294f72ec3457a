"""The pictures of the reports: of the demonstration, and of an audit."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.diagnostics import Audit, Calibration
from kinband.diagnostics.calibration import BINS, LEVELS
from kinband.experiments.city import City
from kinband.experiments.demo import ALONE, SHARED
from kinband.experiments.report.findings import FIFTHS, FIXED, HINDSIGHT, NO_GROUP, Day, Family, Findings
from kinband.plots import BLUE, FAINT, GREY, INK, LINE, ORANGE, PAPER, PURPLE, draw_band, finish, plot_calibration
from kinband.similarity.picture import LONGEST, labels_of, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --- One drawing for light and dark pages, for wide and narrow ones, and for a file of its own ----------------------
#
# Matplotlib draws with a few colours that stand for roles (ink, faint, line, paper). In a PNG they are what they are,
# the colours of a light page. In the page's SVG they become CSS variables, which the page sets by the reader's
# preference; text stays text, in the page's own font. Every picture is drawn twice, wide and narrow, because letters
# that shrink with the picture could not be read on a phone; the page shows the one that fits.

_VARIABLES = {INK: "var(--ink)", FAINT: "var(--faint)", LINE: "var(--line)", PAPER: "var(--paper)"}
GROUP_COLOURS = ("#4477aa", "#66ccee", "#2e9e5b", "#e0b73a", "#ee6677", "#aa3377")
"""Paul Tol's bright palette, told apart by every kind of sight."""
STEP_COLOURS = ("#ecb731", "#8cbf4f", "#2a9d8f", "#3a78b5", "#7b4fa3")
"""Steps from one end to the other, in the order of the heat map's colours."""

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",  # text stays text
}

Draw = Callable[["Figure", bool], None]
"""Draws into an empty figure; the second argument says whether it is narrow."""


@dataclass(frozen=True)
class Picture:
    """A picture to be shown in a page and written as a file.

    Attributes:
        name: Names the file, and keeps what is in one picture apart from what is in others.
        says: What there is to see, for those who cannot.
        draw: Draws it.
        wide: Width and height in inches on a wide page, and in the file.
        narrow: Likewise on a narrow page.
        titles: Hovering texts by the id (`gid`) of what they belong to.
        names: What is written in it and may be of any script, such as names of stations.
    """

    name: str
    says: str
    draw: Draw
    wide: tuple[float, float]
    narrow: tuple[float, float]
    titles: Mapping[str, str] | None = None
    names: Sequence[str] = ()

    def write(self, folder: Path) -> Path:
        """Write the wide picture as a PNG file and return its path."""
        path = folder / f"{self.name}.png"
        self._save(path, self.wide, narrow=False, format="png", facecolor=PAPER)
        return path

    def svg(self, *, narrow: bool = False) -> str:
        """Return the picture as part of a page, wide or narrow: its own ids, the page's colours and font, a name."""
        text = io.StringIO()
        size = self.narrow if narrow else self.wide
        self._save(text, size, narrow=narrow, format="svg", transparent=True, metadata={"Date": None})
        prefix = f"{self.name}-{'narrow' if narrow else 'wide'}-"
        return _themed(text.getvalue(), prefix=prefix, says=self.says, titles=self.titles or {})

    def _save(self, target: Any, size: tuple[float, float], *, narrow: bool, **options: Any) -> None:
        import matplotlib as mpl
        from matplotlib.figure import Figure

        style: Any = _STYLE | {"svg.hashsalt": self.name}
        with mpl.rc_context(style), written(self.names):
            figure = Figure(figsize=size, layout="constrained")
            self.draw(figure, narrow)
            figure.savefig(target, dpi=160, **options)


def _themed(svg: str, *, prefix: str, says: str, titles: Mapping[str, str]) -> str:
    """Return an SVG document as part of a page: its own ids, the page's colours and font, a name."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Matplotlib gives width and height in points; without them the picture is as wide as its place.
    svg = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # a page knows what an SVG is
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(says)}"', 1)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", svg)
    for name, title in titles.items():
        svg = svg.replace(f'<g id="{name}">', f'<g id="{name}"><title>{escape(title)}</title>')
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", svg)


# --- The curves of the report: how far from the best, and satisfied users gained ------------------------------------

COLOURS = {SHARED: ORANGE, ALONE: BLUE, FIXED: PURPLE, HINDSIGHT: FAINT}


def regret_picture(findings: Findings, labels: Mapping[str, str], *, y: str, near: str) -> Picture:
    """Return how far a station is from its best in each round, with sharing and alone, and where that is near."""
    scale = 100.0 if findings.demo.stage.city else 1.0
    curves = {
        name: _smooth(scale * findings.standings[name].regret / len(findings.stations)) for name in (SHARED, ALONE)
    }

    def draw(figure: "Figure", narrow: bool) -> None:
        axes = figure.add_subplot()
        axes.axhline(scale * findings.near, color=FAINT, linewidth=1.2, linestyle=(0, (4, 2)), label=near)
        _curves(axes, curves, labels, y=y)
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
        _curves(axes, curves, labels, y=y)
        _legend(figure, axes, narrow)

    ends = ", ".join(f"{labels[name]} {curve[:, -1].mean():+.0f}" for name, curve in curves.items())
    return Picture("users", f"Satisfied users gained, in the end: {ends}.", draw, (7.4, 3.5), (3.9, 4.0))


def _curves(axes: "Axes", curves: Mapping[str, FloatArray], labels: Mapping[str, str], *, y: str) -> None:
    """Draw what learners did over rounds; the yardstick of hindsight is dashed."""
    for name, runs in curves.items():
        x = np.arange(1, runs.shape[1] + 1)
        draw_band(axes, x, runs, colour=COLOURS[name], label=labels[name], dashed=name == HINDSIGHT)
    finish(axes, x="round", y=y, whole=True)
    axes.set_xlim(1, max(2, *(runs.shape[1] for runs in curves.values())))


def _legend(figure: "Figure", axes: "Axes", narrow: bool) -> None:
    """Put the legend above the curves, where it hides none."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=1 if narrow else 2)


def _smooth(runs: FloatArray) -> FloatArray:
    """Return means over the five rounds around each, fewer at the ends, (runs, T)."""
    half, rounds = 2, runs.shape[1]
    parts = [runs[:, max(0, t - half) : t + half + 1].mean(axis=1) for t in range(rounds)]
    return np.stack(parts, axis=1)


# --- The day of a few stations: what the controller that shares would set in each hour, beside what runs today ------


def day_picture(findings: Findings, titles: Mapping[str, str], *, knob: str) -> Picture | None:
    """Return a panel for each shown station, or None where none can be shown.

    The dots are the choices of single runs, the line what the runs expect to be best on average.
    """
    days, stage, values = findings.days(), findings.demo.stage, findings.knob_values
    if not days or values is None:
        return None
    today, hours = float(values[stage.today]), np.array(stage.hours, dtype=np.float64)
    margin = 0.04 * float(np.ptp(values))

    def draw(figure: "Figure", narrow: bool) -> None:
        grid = (len(days), 1) if narrow else (-(-len(days) // 2), min(2, len(days)))
        panels = figure.subplots(*grid, sharex=True, sharey=True, squeeze=False)
        for axes, (station, day) in zip(panels.flat, days.items(), strict=False):
            _panel(axes, hours, day, today)
            axes.set_title(titles[station], loc="left")
            axes.set_ylim(values.min() - margin, values.max() + margin)
        for axes in panels.flat[len(days) :]:
            axes.set_visible(False)
        figure.supxlabel("hour of the day", fontsize=9)
        figure.supylabel(knob, fontsize=9)
        labelled = panels.flat[0].get_legend_handles_labels()
        figure.legend(*labelled, loc="outside upper left", ncols=1 if narrow else 3)

    rows = -(-len(days) // 2)
    says = f"What the controller would set in each hour for {len(days)} stations, beside what runs today."
    return Picture("day", says, draw, (7.4, 0.9 + 2.1 * rows), (3.9, 1.2 + 1.7 * len(days)))


def _panel(axes: "Axes", hours: FloatArray, day: Day, today: float) -> None:
    axes.axhline(today, color=PURPLE, linewidth=1.8, label="runs today")
    spots, where = np.tile(hours + 0.5, len(day.chosen)), day.chosen.ravel()
    axes.plot(spots, where, "o", color=ORANGE, alpha=0.45, markersize=4, markeredgewidth=0, label="single runs")
    edges = np.append(hours, hours[-1] + 1)
    axes.stairs(day.agreed, edges, baseline=None, color=ORANGE, linewidth=2.2, label="shared, all runs together")
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
    """Return the colour of every family by its name; those in no group are grey."""
    names = [family.name for family in families]
    palette = STEP_COLOURS if names[0] in FIFTHS else GROUP_COLOURS
    return {name: GREY if name == NO_GROUP else palette[i] for i, name in enumerate(names)}


def colours_of(families: list[Family]) -> dict[str, str]:
    """Return the colour of every station by name."""
    colours = family_colours(families)
    return {name: colours[family.name] for family in families for name in family.stations}


def heat_picture(findings: Findings, *, stations: str) -> Picture:
    """Return the heat map of the similarity, like beside like, with the families along its sides."""
    similarity, colours = findings.similarity, colours_of(findings.families)
    ordered = similarity.reindex([similarity.stations[m] for m in similarity.order()])
    K_Z = ordered.correlation()
    low, middle, high = np.quantile(K_Z[np.triu_indices(len(K_Z), 1)], [0, 0.5, 1])

    def draw(figure: "Figure", narrow: bool) -> None:
        del narrow
        axes = figure.add_subplot()
        _heat(axes, K_Z, (low, high if high > low else 1.0), "similarity (1: same behaviour, 0: nothing in common)")
        _strips(axes, [colours[name] for name in ordered.stations])
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel(f"{len(K_Z)} {stations}, like beside like", labelpad=16)
        axes.set_ylabel(f"the same {stations}", labelpad=16)

    says = f"Heat map of the similarity of {len(K_Z)} {stations}: least {low:.2f}, median {middle:.2f}."
    return Picture("similarity", says, draw, (4.3, 4.9), (3.9, 4.5))


def _heat(axes: "Axes", values: Any, ends: tuple[float, float], label: str) -> None:
    """Draw the cells of a heat map with their colour bar on top; what is not a number is left blank."""
    image = axes.imshow(values, cmap="viridis", vmin=ends[0], vmax=ends[1], interpolation="nearest", aspect="auto")
    axes.set_facecolor(LINE)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(
        image, ax=axes, orientation="horizontal", location="top", shrink=0.7, aspect=30, pad=0.02
    )
    bar.outline.set_visible(False)
    bar.set_label(label, color=FAINT)


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
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), aspect="equal")


def map_picture(findings: Findings, city: City) -> Picture:
    """Return the map of the sectors: a wedge at every site in each direction, coloured by family."""
    families, colours = findings.families, colours_of(findings.families)
    family_of = {name: family.name for family in families for name in family.stations}

    def draw(figure: "Figure", narrow: bool) -> None:
        del narrow
        axes = figure.add_subplot()
        _wedges(axes, city, colours, tuple(findings.demo.stage.days))
        if len(city.hot_spots):
            axes.plot(*(city.hot_spots.T / 1000), "*", color=INK, markersize=5, markeredgewidth=0, zorder=4)
        axes.autoscale_view()
        axes.margins(0.04)
        axes.set(aspect="equal", xlabel="east (km)", ylabel="north (km)")
        _map_legend(figure, families, hot_spots=bool(len(city.hot_spots)))

    kinds = [f", {kind}" for kind in city.kinds] or [""] * len(city.names)
    words = [f"{name}{kind}: {family_of[name]}" for name, kind in zip(city.names, kinds, strict=True)]
    titles = {f"sector-{i}": said for i, said in enumerate(words)}
    says = f"Map of {len(city.names)} sectors on {city.sites} sites, coloured by family."
    return Picture("map", says, draw, (4.3, 4.9), (3.9, 4.7), titles)


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


def _spacing(city: City) -> float:
    """The median distance of a site to the next, in kilometres; half a kilometre for a lone one."""
    from scipy.spatial import KDTree

    sites = np.unique(city.places, axis=0) / 1000
    return float(np.median(KDTree(sites).query(sites, k=[2])[0])) if len(sites) > 1 else 0.5


def _map_legend(figure: "Figure", families: list[Family], *, hot_spots: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colours = family_colours(families)
    handles: list[Patch | Line2D] = [
        Patch(color=colours[family.name], label=f"{family.name} ({len(family.stations)})") for family in families
    ]
    if hot_spots:
        handles.append(Line2D([], [], marker="*", linestyle="", color=INK, markeredgewidth=0, label="hot spot"))
    figure.legend(handles=handles, loc="outside upper left", ncols=2, handlelength=1.0, columnspacing=1.2)


# --- The two pictures of an audit: whether intervals hold what they promise, and who borrows from whom --------------

_NAMES = 40  # stations up to which a heat map names them
_NARROW = 14  # letters of a name in a narrow picture


def calibration_picture(audit: Audit) -> Picture:
    """Return where rewards fell in their predicted distributions, and how many fell inside intervals."""
    calibration = audit.calibration

    def draw(figure: "Figure", narrow: bool) -> None:
        places, shares = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
        _histogram(places, calibration)
        plot_calibration(audit, ax=shares).set_title("how many fell inside", loc="left")

    found = calibration.overall.coverage
    parts = (f"{100 * found[level].value:.0f} % inside {100 * level:g} % intervals" for level in LEVELS)
    says = f"How well predictions held: {', '.join(parts)}."
    return Picture("calibration", says, draw, (7.4, 3.4), (3.9, 6.4))


def _histogram(axes: "Axes", calibration: Calibration) -> None:
    """Draw the ten parts of the predicted distribution, and where nine of ten bars would end by chance."""
    from scipy.special import bdtrik

    counts, total = calibration.overall.histogram, calibration.overall.rewards
    low, high = (float(bdtrik(q, total, 1 / BINS)) for q in (0.025, 0.975))
    axes.axhspan(100 * max(low, 0.0) / total, 100 * (high + 1) / total, color=LINE, linewidth=0, zorder=0)
    axes.bar((np.arange(BINS) + 0.5) * 10, 100 * counts / total, width=9.2, color=BLUE, zorder=2)
    axes.axhline(100 / BINS, color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)), zorder=3)
    axes.set(xlim=(0, 100), xticks=[0, 25, 50, 75, 100])
    axes.set(xlabel="place in the predicted distribution (%)", ylabel="rewards (%)")
    axes.set_title("where rewards fell", loc="left")
    axes.grid(visible=False)


def lending_picture(audit: Audit) -> Picture | None:
    """Return the heat map of who borrows from whom, like beside like; None where it was not worked out."""
    if audit.transfer.shares is None or len(audit.stations) < 2:
        return None
    order = np.array(audit.order)
    shares, names = audit.transfer.shares[np.ix_(order, order)], [audit.stations[m] for m in order]
    borrowed = shares.sum(axis=1) - np.diag(shares)

    others = 100 * np.where(np.eye(len(shares), dtype=np.bool_), np.nan, shares)  # its own would outshine the rest
    top = max(float(np.nanquantile(others, 0.995)), 0.1)

    def draw(figure: "Figure", narrow: bool) -> None:
        map_, bars = figure.subplots(1, 2, sharey=True, width_ratios=[1.0, 0.22])
        _heat(map_, others, (0.0, top), "share of the borrower's evidence (%)")
        named = len(names) <= (_NAMES // 2 if narrow else _NAMES)
        labels = labels_of(names, longest=_NARROW if narrow else LONGEST) if named else []
        map_.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
        map_.set_yticks(range(len(labels)), labels, fontsize=7)
        map_.set(xlabel="lender (stations, like beside like)", ylabel="borrower")
        bars.barh(np.arange(len(borrowed)), 100 * borrowed, height=0.85, color=ORANGE, linewidth=0)
        bars.set_xlim(0, max(10.0, 105 * float(borrowed.max())))
        bars.set_xlabel("borrowed\nin all (%)")
        bars.grid(axis="y", alpha=0)
        bars.tick_params(axis="y", length=0, labelleft=False)

    middle = float(np.median(borrowed))
    says = (
        f"Who borrows from whom among {len(names)} stations: the median borrows {100 * middle:.0f} % of its evidence."
    )
    return Picture("lending", says, draw, (7.0, 5.4), (3.9, 3.9), names=names)
