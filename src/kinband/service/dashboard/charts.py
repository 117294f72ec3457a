"""Charts as SVG: values over time, and what is believed of configurations; `kinband.html.svg` has their frame.

The curves lie in an inner picture that is stretched along x alone, with strokes that are not; texts and markers are
placed by shares of the width and keep their size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

from markupsafe import Markup

from kinband.html.svg import Scale, around, number, percent, plot, round_ticks, tag, tick_label
from kinband.service.dashboard.text import figure
from kinband.stats import REACH

# --- Colours of amounts: the same on light and dark pages, told apart by every kind of sight ------------------------
#
# They run along viridis (Smith and van der Walt, 2015), whose lightness grows evenly: the order is seen without hue.

_VIRIDIS = (
    (0x44, 0x01, 0x54), (0x47, 0x2D, 0x7B), (0x3B, 0x52, 0x8B), (0x2C, 0x72, 0x8E), (0x21, 0x91, 0x8C),
    (0x28, 0xAE, 0x80), (0x5E, 0xC9, 0x62), (0xAD, 0xDC, 0x30), (0xFD, 0xE7, 0x25),
)  # fmt: skip


@lru_cache(maxsize=4096)
def ramp(share: float) -> str:
    """Return the colour of an amount, from 0 (dark violet) to 1 (yellow)."""
    place = min(max(share, 0.0), 1.0) * (len(_VIRIDIS) - 1)
    left = min(int(place), len(_VIRIDIS) - 2)
    ends = zip(_VIRIDIS[left], _VIRIDIS[left + 1], strict=True)
    return "#" + "".join(f"{round(a + (place - left) * (b - a)):02x}" for a, b in ends)


# --- Round ticks for times, long series made short ------------------------------------------------------------------

MOST_POINTS = 300
"""How many points a series has at most when it is drawn: a phone has about that many pixels."""

_STEPS = (  # of a time axis, in seconds
    1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400,
    28 * 86400, 91 * 86400, 182 * 86400, 365 * 86400,
)  # fmt: skip


def time_ticks(first: datetime, last: datetime, *, most: int = 5) -> list[tuple[datetime, str]]:
    """Return round times from `first` to `last` with their labels, at most so many."""
    if not last > first:
        return [(first, first.strftime("%H:%M"))]
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    begins, ends = (first - zero).total_seconds(), (last - zero).total_seconds()
    step = next((s for s in _STEPS if ends // s - -(-begins // s) + 1 <= most), _STEPS[-1])
    ticks = [zero + timedelta(seconds=k * step) for k in range(int(-(-begins // step)), int(ends // step) + 1)]
    return [(tick, _label(tick, step)) for tick in ticks[:: max(1, -(-len(ticks) // most))]]


def _label(tick: datetime, step: int) -> str:
    if step >= 91 * 86400:
        return f"{tick:%b %Y}"
    return f"{tick.day} {tick:%b}" if step >= 86400 else f"{tick:%H:%M:%S}" if step < 60 else f"{tick:%H:%M}"


def thinned(
    times: Sequence[datetime], *series: Sequence[float | None]
) -> tuple[list[datetime], list[list[float | None]]]:
    """Return series with at most `MOST_POINTS` points: means of neighbours, where any of them is known."""
    size = max(1, -(-len(times) // MOST_POINTS))
    if size == 1:
        return list(times), [list(values) for values in series]
    starts = range(0, len(times), size)
    return [times[i] for i in starts], [[_mean(values[i : i + size]) for i in starts] for values in series]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


# --- Values over time: lines that break where a value is missing, steps for what is set, markers for what happened --

WIDE = 1000.0
"""Width of the inner picture, which is stretched to that of the page."""
_TOP, _FOOT = 12.0, 22.0  # pixels above the plot, and below it for the times
MARKER_SHAPES = {  # they differ in shape, not in colour alone
    "controller": "M0-5 L5 4 L-5 4 Z",
    "operator": "M-4.5-4.5 H4.5 V4.5 H-4.5 Z",
    "roll-back": "M0-6 L6 0 L0 6 L-6 0 Z",
    "network": "M-5-4 L5-4 L0 5 Z",
}


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        name: What it is, for the legend and the reading.
        values: One a time; None breaks the curve.
        look: Its class in the style sheet.
        steps: Whether a value holds until the next.
    """

    name: str
    values: Sequence[float | None]
    look: str
    steps: bool = False


class Marker(NamedTuple):
    """Something that happened: when, by whom (its shape), at which height, and in words."""

    at: datetime
    by: str
    says: str
    value: float


def time_chart(
    times: Sequence[datetime],
    lines: Sequence[Line],
    *,
    says: str,
    span: tuple[datetime, datetime] | None = None,
    markers: Sequence[Marker] = (),
    height: int = 220,
    bounds: tuple[float, float] | None = None,
    names: Sequence[str] = (),
    moment: datetime | None = None,
) -> Markup:
    """Return a chart of curves over a common time axis.

    Args:
        times: When, ascending.
        lines: The curves, one value a time each.
        says: What there is to see, for those who cannot.
        span: First and last time of the axis; those of `times` if not given.
        markers: What happened.
        height: In pixels.
        bounds: Range of the values; made to fit if not given.
        names: What the values 0, 1, 2, ... stand for where they are no quantities.
        moment: When something changed that the chart is about: a line from top to bottom.
    """
    if not times:
        return Markup("")
    first, last = span or (times[0], times[-1])
    ends = (-0.4, len(names) - 0.6) if names else bounds or around(value for line in lines for value in line.values)
    y, x = Scale(*ends, height - _FOOT, _TOP), Scale(0.0, (last - first).total_seconds(), 0.0, 1.0)
    seconds = [(at - first).total_seconds() for at in times]
    places = [WIDE * x(second) for second in seconds]
    rule = () if moment is None else (percent(x((moment - first).total_seconds())),)
    inside = [
        *(tag("line", class_="moment", x1=at, x2=at, y1=0, y2=height - _FOOT) for at in rule),
        stretched([path for line in lines for path in _drawn(line, places, y=y)], height=height),
        *(_marked(marker, percent(x((marker.at - first).total_seconds())), y(marker.value)) for marker in markers),
        *_times(first, last, x=x, height=height),
    ]
    return plot(inside, y=y, says=says, height=height, names=names, **_readings(seconds, lines, first=first, last=last))


def curve(values: Sequence[float | None], xs: Sequence[float], *, y: Scale, steps: bool = False) -> tuple[str, str]:
    """Return the path of a curve, broken where a value is missing, and that of those points that stand alone."""
    whole, alone = "", ""
    for known, run in groupby(zip(xs, values, strict=True), key=lambda point: point[1] is not None):
        if known:
            first, *rest = [(_place(x), _place(y(value))) for x, value in run if value is not None]
            start = f"M{first[0]} {first[1]}"
            whole += start + "".join([f"H{x}V{h}" if steps else f"L{x} {h}" for x, h in rest]) if rest else ""
            alone += "" if rest else f"{start}h0"
    return whole, alone


@lru_cache(maxsize=1 << 14)  # most points of a chart stay where they are
def _place(value: float) -> str:
    return f"{value:.5g}"


def _drawn(line: Line, places: Sequence[float], *, y: Scale) -> list[Markup]:
    """Return a curve, and dots for those of its points that stand alone."""
    whole, alone = curve(line.values, places, y=y, steps=line.steps)
    paths = [(f"line {line.look}", whole)] + ([(f"line {line.look} lone", alone)] if alone else [])
    return [tag("path", class_=look, d=d, vector_effect="non-scaling-stroke") for look, d in paths]


def stretched(inside: Sequence[Markup], *, height: int) -> Markup:
    """Return an inner picture `WIDE` units wide that takes the full width of its place, whatever that is."""
    return tag(
        "svg", *inside, width="100%", height=height, viewBox=f"0 0 {number(WIDE)} {height}",
        preserveAspectRatio="none", overflow="visible",
    )  # fmt: skip


def _times(first: datetime, last: datetime, *, x: Scale, height: int) -> list[Markup]:
    marks = []
    for at, label in time_ticks(first, last):
        share = x((at - first).total_seconds())
        anchor = "start" if share < 0.06 else "end" if share > 0.94 else "middle"
        marks.append(tag("text", label, class_="tick", x=percent(share), y=height - 6.0, text_anchor=anchor))
    return marks


def _marked(marker: Marker, x: str, y: float) -> Markup:
    look = marker.by if marker.by in MARKER_SHAPES else "controller"
    shape = tag("path", tag("title", marker.says), class_=f"mark by-{look}", d=MARKER_SHAPES[look])
    return tag("svg", shape, x=x, y=y, overflow="visible")


def _readings(seconds: Sequence[float], lines: Sequence[Line], *, first: datetime, last: datetime) -> dict[str, str]:
    """Return what the script needs to read a value out under the pointer: seconds from the left edge, and values."""
    return {
        "data_first": first.isoformat(),
        "data_long": str(round((last - first).total_seconds())),
        "data_at": ",".join(map(str, map(round, seconds))),
        "data_names": "|".join(line.name.replace("|", "/") for line in lines),
        "data_values": "|".join(",".join("" if v is None else f"{v:.4g}" for v in line.values) for line in lines),
        "data_steps": "yes" if all(line.steps for line in lines) else "no",
    }


SPARK = (84, 22)
"""Width and height of a small picture in a table, in pixels."""


@lru_cache(maxsize=8192)  # of most stations, the same from page to page
def sparkline(values: tuple[float, ...]) -> Markup:
    """Return a few values as a curve beside a figure, each between the least and the largest of them."""
    if len(values) < 2:
        return Markup("")
    wide, high = SPARK
    x = Scale(0.0, len(values) - 1.0, 1.5, wide - 4.0)
    y = Scale(*around(values, margin=0.02, least=0.02), high - 3.0, 3.0)
    places = [x(float(i)) for i in range(len(values))]
    path, _ = curve(values, places, y=y)
    says = f"last {len(values)}: {figure(min(values))} to {figure(max(values))}"
    end = tag("circle", cx=places[-1], cy=y(values[-1]), r=2.2, class_="dot chosen")
    line = tag("path", d=path, class_="line one")
    return tag("svg", tag("title", says), line, end, class_="spark", width=wide, height=high, aria_hidden="true")


# --- What is believed of configurations: a line with its band over one knob, or dots with whiskers in a list --------
#
# The band is the 95 % interval of the expected reward, noise excluded. What runs and what would be chosen are marked by
# shape as well as by colour: a square and a dot.

_HALF = 5.0  # pixels of half a marker
_ROOM = 0.04  # of the width, left and right of the outermost values


class Belief(NamedTuple):
    """What is expected of one configuration.

    Attributes:
        name: The configuration in words.
        mean: The expected reward.
        std: Its standard deviation.
        running: Whether it runs.
        chosen: Whether it would be decided.
        past: Whether that was so when a decision was made, not now.
        x: Its place along the knob; not used in a list.
    """

    name: str
    mean: float
    std: float
    running: bool = False
    chosen: bool = False
    past: bool = False
    x: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.mean - REACH * self.std, self.mean + REACH * self.std

    @property
    def says(self) -> str:
        """All of it in words."""
        low, high = map(figure, self.interval)
        named = ("ran before", "chosen") if self.past else ("runs now", "would be chosen")
        roles = [role for role, is_so in zip(named, (self.running, self.chosen), strict=True) if is_so]
        return ", ".join([f"{self.name}: {figure(self.mean)} ({low} to {high})", *roles])


def band_chart(beliefs: Sequence[Belief], *, says: str, height: int = 260) -> Markup:
    """Return mean and band over the values of one knob.

    Args:
        beliefs: One a value, ascending in x.
        says: What there is to see, for those who cannot.
        height: In pixels.
    """
    x = Scale(beliefs[0].x, beliefs[-1].x, _ROOM, 1.0 - _ROOM)
    y = Scale(*around(end for belief in beliefs for end in belief.interval), height - _FOOT, _TOP)
    places = [WIDE * x(belief.x) for belief in beliefs]
    lower, upper = zip(*(belief.interval for belief in beliefs), strict=True)
    outline, _ = curve([*upper, *lower[::-1]], [*places, *places[::-1]], y=y)
    mean, _ = curve([belief.mean for belief in beliefs], places, y=y)
    area = tag("path", class_="band", d=f"{outline}Z")
    line = tag("path", class_="line one", d=mean, vector_effect="non-scaling-stroke")
    ticks = round_ticks(beliefs[0].x, beliefs[-1].x, most=6)
    step = min((b - a for a, b in pairwise(ticks)), default=1.0)
    names = [
        tag("text", tick_label(value, step), class_="tick", x=percent(x(value)), y=height - 6.0, text_anchor="middle")
        for value in ticks
    ]
    dots = [_dot(belief, percent(x(belief.x)), y(belief.mean), bottom=height - _FOOT) for belief in beliefs]
    return plot([stretched([area, line], height=height), *names, *dots], y=y, says=says, height=height)


_CELL = 26  # pixels of a row of cells


def cell_chart(
    beliefs: Sequence[Belief],
    *,
    across: Sequence[str],
    down: Sequence[str],
    places: Sequence[tuple[int, int]],
    says: str,
) -> Markup:
    """Return what is believed of two knobs as cells, coloured by the mean: yellow is best.

    Args:
        beliefs: One a cell.
        across: The values of one knob, in words.
        down: The values of the other.
        places: Column and row of each.
        says: What there is to see, for those who cannot.
    """
    height = _CELL * len(down) + _FOOT
    x, y = Scale(0.0, float(len(across)), 0.0, 1.0), Scale(0.0, 1.0, 0.0, float(_CELL))
    low, high = min(belief.mean for belief in beliefs), max(belief.mean for belief in beliefs)
    shade = Scale(low, high, 0.0, 1.0) if high > low else Scale(low - 1.0, low, 0.0, 1.0)
    drawn = list[Markup]()
    for belief, (column, row) in zip(beliefs, places, strict=True):
        cell = tag("rect", width=percent(1.0 / len(across)), height=_CELL, fill=ramp(shade(belief.mean)), class_="cell")
        marks = []
        middle = {"x": percent(0.5 / len(across)), "y": _CELL / 2.0, "overflow": "visible"}
        if belief.running:
            marks.append(tag("svg", tag("rect", class_="at-running", x=-6, y=-6, width=12, height=12), **middle))
        if belief.chosen:
            marks.append(tag("svg", tag("circle", class_="at-chosen on", r=8 if belief.running else 6), **middle))
        title = tag("title", belief.says)
        drawn.append(tag("svg", title, cell, *marks, x=percent(x(column)), y=y(row), overflow="visible"))
    every = max(1, -(-len(across) // 8))
    drawn += [
        tag("text", name, class_="tick", x=percent(x(i + 0.5)), y=height - 6.0, text_anchor="middle")
        for i, name in enumerate(across)
        if i % every == 0
    ]
    beside = [
        tag("text", name, class_="tick", x="100%", y=y(i + 0.5) + 4.0, text_anchor="end") for i, name in enumerate(down)
    ]
    wide = 12 + 7 * max(map(len, down))
    axis = tag("svg", *beside, class_="axis", width=wide, height=height, aria_hidden="true")
    main = tag("svg", *drawn, class_="plot cells", width="100%", height=height, aria_hidden="true")
    return tag("div", axis, main, class_="chart", role="img", aria_label=says)


_HIT = tag("rect", class_="hit", x=-8, y=-_HALF - 8, width=16, height=16 + 2 * _HALF)
_PLAIN = tag("circle", class_="at-plain", r=2)
_RUNNING = tag("rect", class_="at-running", x=-_HALF, y=-_HALF, width=2 * _HALF, height=2 * _HALF)


def _dot(belief: Belief, x: str, y: float, *, bottom: float) -> Markup:
    """Return a marker for what runs or is chosen, a small dot for the others, each with its words."""
    shapes = [_HIT]
    if belief.running or belief.chosen:
        shapes.insert(0, tag("line", class_="drop", y1=0, y2=bottom - y))
    else:
        shapes.append(_PLAIN)
    if belief.running:
        shapes.append(_RUNNING)
    if belief.chosen:
        shapes.append(tag("circle", class_="at-chosen", r=_HALF + 2.0 if belief.running else _HALF))
    return tag("svg", tag("title", belief.says), *shapes, class_="at", x=x, y=y, overflow="visible")
