"""The two pictures of an audit: whether intervals hold what they promise, and who borrows from whom."""

from typing import TYPE_CHECKING

import numpy as np

from kinband.arrays import FloatArray
from kinband.diagnostics import Audit, Calibration
from kinband.diagnostics.calibration import BINS, FITS, LEVELS, NARROW, WIDE, Interval
from kinband.experiments.report.style import (
    ALONE_COLOUR,
    FAINT,
    GREY,
    INK,
    LINE,
    SHARED_COLOUR,
    Picture,
)
from kinband.similarity.picture import LONGEST, labels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = 40  # stations up to which a heat map names them
_NARROW = 14  # letters of a name in a narrow picture
_DOTS = 400  # stations that are drawn one by one


def calibration_picture(calibration: Calibration, *, seed: int = 0) -> Picture:
    """Return where rewards fell in their predicted distributions, and how many fell inside intervals.

    Args:
        calibration: What was found.
        seed: Spreads the dots of stations sideways, for the eye alone.
    """

    def draw(figure: "Figure", narrow: bool) -> None:
        places, shares = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
        _histogram(places, calibration)
        _coverage(shares, calibration, np.random.default_rng(seed))

    parts = (f"{100 * c.value:.0f} % inside {100 * level:g} % intervals" for level, c in _shares(calibration))
    says = f"How well predictions held: {', '.join(parts)}."
    return Picture("calibration", says, draw, (7.4, 3.4), (3.9, 6.4))


def _shares(calibration: Calibration) -> list[tuple[float, Interval]]:
    return [(level, calibration.overall.coverage[level]) for level in LEVELS]


def _histogram(axes: "Axes", calibration: Calibration) -> None:
    """Draw the ten parts of the predicted distribution, and where nine of ten bars would end by chance."""
    from scipy.special import bdtrik

    counts, total = calibration.overall.histogram, calibration.overall.rewards
    low, high = (float(bdtrik(q, total, 1 / BINS)) for q in (0.025, 0.975))
    axes.axhspan(100 * max(low, 0.0) / total, 100 * (high + 1) / total, color=LINE, linewidth=0, zorder=0)
    axes.bar((np.arange(BINS) + 0.5) * 10, 100 * counts / total, width=9.2, color=ALONE_COLOUR, zorder=2)
    axes.axhline(100 / BINS, color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)), zorder=3)
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("place in the predicted distribution (%)")
    axes.set_ylabel("rewards (%)")
    axes.set_title("where rewards fell", loc="left")
    axes.grid(visible=False)


def _coverage(axes: "Axes", calibration: Calibration, rng: np.random.Generator) -> None:
    """Draw the share inside intervals against what they promise, stations as dots, all as a bar of error."""
    colours = {FITS: GREY, NARROW: SHARED_COLOUR, WIDE: ALONE_COLOUR}
    told = [s for s in calibration.stations if s.rewards][:_DOTS]
    axes.plot([40, 100], [40, 100], color=FAINT, linewidth=1.0, linestyle=(0, (4, 2)))
    for level in LEVELS:
        for verdict, colour in colours.items():
            share = [100 * s.coverage[level].value for s in told if s.verdict == verdict]
            apart = 100 * level + rng.uniform(-3.0, 3.0, len(share))
            seen = 0.55 if verdict == FITS else 1.0
            axes.plot(apart, share, "o", color=colour, markersize=3.2, markeredgewidth=0, alpha=seen)
        found = calibration.overall.coverage[level]
        ends = [[100 * (found.value - (found.low or 0.0))], [100 * ((found.high or 1.0) - found.value)]]
        axes.errorbar(
            [100 * level], [100 * found.value], yerr=ends, fmt="D", color=INK, markersize=5, capsize=4, linewidth=1.6
        )
    axes.set_xlim(43, 101)
    axes.set_ylim(max(0.0, axes.get_ylim()[0]), 103)
    axes.set_xticks([100 * level for level in LEVELS])
    axes.set_xlabel("promised share inside the interval (%)")
    axes.set_ylabel("share found (%)")
    axes.set_title("how many fell inside", loc="left")
    axes.grid(axis="x", color=LINE, alpha=0)


def lending_picture(audit: Audit, *, stations: str = "stations") -> Picture | None:
    """Return the heat map of who borrows from whom, like beside like; None where it was not worked out."""
    if audit.transfer.shares is None or len(audit.stations) < 2:
        return None
    order = np.array(audit.order)
    shares, names = audit.transfer.shares[np.ix_(order, order)], [audit.stations[m] for m in order]
    borrowed = shares.sum(axis=1) - np.diag(shares)

    def draw(figure: "Figure", narrow: bool) -> None:
        map_, bars = figure.subplots(1, 2, sharey=True, width_ratios=[1.0, 0.22])
        _heat(figure, map_, shares, names=names, stations=stations, narrow=narrow)
        bars.barh(np.arange(len(borrowed)), 100 * borrowed, height=0.85, color=SHARED_COLOUR, linewidth=0)
        bars.set_xlim(0, max(10.0, 105 * float(borrowed.max())))
        bars.set_xlabel("borrowed\nin all (%)")
        bars.grid(axis="y", alpha=0)
        bars.tick_params(axis="y", length=0, labelleft=False)

    middle = float(np.median(borrowed))
    says = (
        f"Who borrows from whom among {len(names)} {stations}: the median borrows {100 * middle:.0f} % of its evidence."
    )
    return Picture("lending", says, draw, (7.0, 5.4), (3.9, 3.9), names=names)


def _heat(figure: "Figure", axes: "Axes", shares: FloatArray, *, names: list[str], stations: str, narrow: bool) -> None:
    """Draw shares in per cent; a station's own, which would outshine the rest, is left out."""
    shown = 100 * np.where(np.eye(len(shares), dtype=np.bool_), np.nan, shares)
    top = max(float(np.nanquantile(shown, 0.995)), 0.1)
    image = axes.imshow(
        np.ma.masked_invalid(shown), cmap="viridis", vmin=0.0, vmax=top, interpolation="nearest", aspect="auto"
    )
    axes.set_facecolor(LINE)
    named = len(names) <= (_NAMES // 2 if narrow else _NAMES)
    labels = labels_of(names, longest=_NARROW if narrow else LONGEST) if named else []
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_xlabel(f"lender ({stations}, like beside like)")
    axes.set_ylabel("borrower")
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", location="top", shrink=0.7, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("share of the borrower's evidence (%)", color=FAINT)
