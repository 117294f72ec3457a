"""Lines, curves and bands."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from kinband.service.dashboard.charts.svg import (
    Scale,
    around,
    escaped,
    joined,
    number,
    percent,
    round_ticks,
    tag,
    time_ticks,
)

# --- Curves as paths: unbroken pieces of hundreds of points, each written at once -----------------------------------

SHORT = "%.5g"
"""How the numbers of a path are written: to a hundredth of a pixel or less on a picture of 1,000."""


def curve(values: Sequence[float | None], xs: Sequence[float], *, y: Scale, steps: bool = False) -> str:
    """Return the path of a curve: a new piece begins after every missing value; see `lone` for points by themselves."""
    missing = [i for i, value in enumerate(values) if value is None]
    further = f"H{SHORT}V{SHORT}" if steps else f"L{SHORT} {SHORT}"
    pieces = []
    for before, after in pairwise([-1, *missing, len(values)]):
        heights = y.all([value for value in values[before + 1 : after] if value is not None])
        if heights:
            pieces.append(_piece(xs[before + 1 : after], heights, further=further))
    return "".join(pieces)


def lone(values: Sequence[float | None], xs: Sequence[float], *, y: Scale) -> str:
    """Return the path of those points that have no neighbour to be joined with: drawn as wide as a dot."""
    beside = [None, *values, None]
    alone = [
        (x, y(value))
        for x, before, value, after in zip(xs, beside, values, beside[2:], strict=False)
        if value is not None and before is None and after is None
    ]
    return (f"M{SHORT} {SHORT}h0" * len(alone)) % tuple(place for point in alone for place in point)


def _piece(xs: Sequence[float], ys: Sequence[float], *, further: str) -> str:
    """Return an unbroken piece of a curve, written at once, for there are hundreds of points."""
    form = f"M{SHORT} {SHORT}" + (further * (len(ys) - 1) or "h0")
    return form % tuple(place for point in zip(xs, ys, strict=True) for place in point)


# --- Values over time: lines that break where a value is missing, steps for what is set, markers for what happened
#
# A chart has its values at the left and a plot that is as wide as its place. The curves lie in an inner picture that is
# stretched along x alone, with strokes that are not; texts and markers are placed by shares of the width and keep their
# size. So letters can be read on a phone, and nothing has to be drawn twice.

WIDE = 1000.0
"""Width of the inner picture, which is stretched to that of the page."""
_TOP, _FOOT = 12.0, 22.0  # pixels above the plot, and below it for the times
_AXIS = 38  # pixels for the values at the left
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
    value: float | None = None


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
    """
    if not times:
        return Markup("")
    first, last = span or (times[0], times[-1])
    known = [value for line in lines for value in line.values]
    low, high = (-0.4, len(names) - 0.6) if names else bounds or around(known)
    bottom = height - _FOOT
    x, y = Scale(first.timestamp(), last.timestamp(), 0.0, 1.0), Scale(low, high, bottom, _TOP)
    seconds = [(at - first).total_seconds() for at in times]
    along = Scale(0.0, (last - first).total_seconds(), 0.0, WIDE)
    places = along.all(seconds)
    paths = [path for line in lines for path in _drawn(line, places, y=y)]
    inside = [
        stretched(joined(paths), height=float(height)),
        _marked(markers, x=x, y=y, bottom=bottom),
        *_times(first, last, x=x, height=height),
    ]
    readings = _readings(seconds, lines, first=first, last=last)
    return plot(joined(inside), y=y, says=says, height=height, names=names, **readings)


def _drawn(line: Line, places: Sequence[float], *, y: Scale) -> list[Markup]:
    """Return a curve, and dots for those of its points that stand alone."""
    whole, dots = curve(line.values, places, y=y, steps=line.steps), lone(line.values, places, y=y)
    paths = [(f"line {line.look}", whole)] + ([(f"line {line.look} lone", dots)] if dots else [])
    return [tag("path", class_=look, d=d, vector_effect="non-scaling-stroke") for look, d in paths]


def stretched(inside: Markup, *, height: float) -> Markup:
    """Return an inner picture `WIDE` units wide that takes the full width of its place, whatever that is."""
    return tag(
        "svg", inside, width="100%", height=height, viewBox=f"0 0 {number(WIDE)} {number(height)}",
        preserveAspectRatio="none", overflow="visible",
    )  # fmt: skip


def tick_label(value: float, step: float) -> str:
    """Return a number with as many decimals as a step needs."""
    digits = next((d for d in range(5) if abs(step * 10**d - round(step * 10**d)) < 1e-6), 5)
    return f"{value:,.{digits}f}".replace("-", "−")


def plot(inside: Markup, *, y: Scale, says: str, height: int, names: Sequence[str] = (), **further: object) -> Markup:
    """Return a chart: values at the left, and right of them, as wide as the page allows, grid lines and what is inside.

    Args:
        inside: What is drawn, along x by shares of the width.
        y: Scale of the values.
        says: What there is to see, for those who cannot.
        height: In pixels.
        names: What the values 0, 1, 2, ... stand for where they are no quantities.
        further: Attributes.
    """
    ticks = [float(i) for i in range(len(names))] or round_ticks(y.low, y.high, most=4)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(ticks[0]) or 1.0
    grid = [tag("line", class_="grid", x1=0, x2="100%", y1=y(value), y2=y(value)) for value in ticks]
    if names:  # above their lines, since they may be long
        grid += [tag("text", name, class_="tick", x=2, y=y(i) - 4.0) for i, name in enumerate(names)]
    labels = [] if names else [(y(value), tick_label(value, step)) for value in ticks]
    beside = [tag("text", words, class_="tick", x="100%", y=at + 4.0, text_anchor="end") for at, words in labels]
    axis = tag("svg", joined(beside), class_="axis", width=_AXIS, height=height, aria_hidden="true")
    main = tag("svg", joined(grid), inside, class_="plot", width="100%", height=height, aria_hidden="true", **further)
    return tag("div", axis, main, class_="chart", role="img", aria_label=says)


def _times(first: datetime, last: datetime, *, x: Scale, height: int) -> list[Markup]:
    marks = []
    for at, label in time_ticks(first, last):
        share = x(at.timestamp())
        anchor = "start" if share < 0.06 else "end" if share > 0.94 else "middle"
        marks.append(tag("text", label, class_="tick", x=percent(share), y=height - 6.0, text_anchor=anchor))
    return marks


def _marked(markers: Sequence[Marker], *, x: Scale, y: Scale, bottom: float) -> Markup:
    """Return all markers, written out since there may be hundreds."""
    drawn, along = list[str](), x.all(marker.at.timestamp() for marker in markers)
    for marker, share in zip(markers, along, strict=True):
        place = bottom - 7.0 if marker.value is None else y(marker.value)
        look = marker.by if marker.by in MARKER_SHAPES else "controller"
        shape = f'<path class="mark by-{look}" d="{MARKER_SHAPES[look]}"><title>{escaped(marker.says)}</title></path>'
        drawn.append(f'<svg x="{percent(share)}" y="{number(place)}" overflow="visible">{shape}</svg>')
    return Markup("".join(drawn))  # noqa: S704 - every part is escaped


def _readings(seconds: Sequence[float], lines: Sequence[Line], *, first: datetime, last: datetime) -> dict[str, str]:
    """Return what the script needs to read a value out under the pointer: seconds from the left edge, and values."""
    return {
        "data_first": first.isoformat(),
        "data_long": str(round((last - first).total_seconds())),
        "data_at": ",".join(map(str, map(round, seconds))),
        "data_names": "|".join(line.name.replace("|", "/") for line in lines),
        "data_values": "|".join(_listed(line.values) for line in lines),
        "data_steps": "yes" if all(line.steps for line in lines) else "no",
    }


def _listed(values: Sequence[float | None]) -> str:
    form = ",".join(["" if value is None else "%.4g" for value in values])
    return form % tuple(value for value in values if value is not None)


# --- What is believed of configurations: a line with its band over one knob, or dots with whiskers in a list --------
#
# The band is the 95 % interval of the expected reward, noise excluded. What runs and what would be chosen are marked by
# shape as well as by colour: a square and a dot.

NORMAL_95 = 1.959963984540054
"""Standard deviations on either side of a 95 % interval."""
_HALF = 5.0  # pixels of half a marker
_ROOM = 0.04  # of the width, left and right of the outermost values
_HIT = tag("rect", class_="hit", x=-8, y=-_HALF - 8, width=16, height=16 + 2 * _HALF)
_PLAIN = tag("circle", class_="at-plain", r=2)


class Belief(NamedTuple):
    """What is expected of one configuration.

    Attributes:
        x: Its place along the knob; not used in a list.
        name: The configuration in words.
        mean: The expected reward.
        std: Its standard deviation.
        running: Whether it runs.
        chosen: Whether it would be decided.
        past: Whether that was so when a decision was made, not now.
    """

    x: float
    name: str
    mean: float
    std: float
    running: bool = False
    chosen: bool = False
    past: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.mean - NORMAL_95 * self.std, self.mean + NORMAL_95 * self.std

    @property
    def says(self) -> str:
        """All of it in words."""
        low, high = self.interval
        named = ("ran before", "chosen") if self.past else ("runs now", "would be chosen")
        roles = [role for role, is_so in zip(named, (self.running, self.chosen), strict=True) if is_so]
        return ", ".join([f"{self.name}: {self.mean:.3f} ({low:.3f} to {high:.3f})", *roles]).replace("-", "−")


def band_chart(beliefs: Sequence[Belief], *, says: str, height: int = 260) -> Markup:
    """Return mean and band over the values of one knob.

    Args:
        beliefs: One a value, ascending in x.
        says: What there is to see, for those who cannot.
        height: In pixels.
    """
    ends = [end for belief in beliefs for end in belief.interval]
    low, high = around(ends)
    bottom = height - _FOOT
    x = Scale(beliefs[0].x, beliefs[-1].x, _ROOM, 1.0 - _ROOM)
    y = Scale(low, high, bottom, _TOP)
    places = [WIDE * x(belief.x) for belief in beliefs]
    area = tag("path", class_="band", d=band_path(beliefs, places, y=y))
    mean = curve([belief.mean for belief in beliefs], places, y=y)
    line = tag("path", class_="line one", d=mean, vector_effect="non-scaling-stroke")
    inner = stretched(joined([area, line]), height=float(height))
    dots = joined([_dot(belief, x=x, y=y, height=height) for belief in beliefs])
    names = joined(_names(beliefs, x=x, height=height))
    return plot(joined([inner, names, dots]), y=y, says=says, height=height)


def band_path(beliefs: Sequence[Belief], places: Sequence[float], *, y: Scale) -> str:
    """Return the outline of a band: along its upper ends, and back along the lower ones."""
    intervals = [belief.interval for belief in beliefs]
    upper = [(x, high) for x, (_, high) in zip(places, intervals, strict=True)]
    lower = [(x, low) for x, (low, _) in zip(places, intervals, strict=True)]
    ends = [place for x, value in [*upper, *lower[::-1]] for place in (x, y(value))]
    return "M" + "L".join([f"{SHORT} {SHORT}"] * (2 * len(upper))) % tuple(ends) + "Z"


def best_first(beliefs: Sequence[Belief], *, most: int = 15) -> list[Belief]:
    """Return the beliefs of the largest means, with what runs and what would be chosen wherever these stand."""
    ordered = sorted(beliefs, key=lambda belief: -belief.mean)
    return [b for rank, b in enumerate(ordered) if rank < most or b.running or b.chosen]


def _dot(belief: Belief, *, x: Scale, y: Scale, height: int) -> Markup:
    """Return a marker for what runs or is chosen, a small dot for the others, each with its words."""
    shapes = [_HIT]
    if belief.running:
        shapes.append(tag("rect", class_="at-running", x=-_HALF, y=-_HALF, width=2 * _HALF, height=2 * _HALF))
    if belief.chosen:
        shapes.append(tag("circle", class_="at-chosen", r=_HALF + 2.0 if belief.running else _HALF))
    if not (belief.running or belief.chosen):
        shapes.append(_PLAIN)
    if belief.running or belief.chosen:
        shapes.insert(0, tag("line", class_="drop", y1=0, y2=height - _FOOT - y(belief.mean)))
    inside = f"<title>{escaped(belief.says)}</title>{''.join(shapes)}"
    at = f'class="at" x="{percent(x(belief.x))}" y="{number(y(belief.mean))}"'
    return Markup(f'<svg {at} overflow="visible">{inside}</svg>')  # noqa: S704 - every part is escaped


def _names(beliefs: Sequence[Belief], *, x: Scale, height: int) -> list[Markup]:
    ticks = round_ticks(beliefs[0].x, beliefs[-1].x, most=6)
    step = min((b - a for a, b in pairwise(ticks)), default=1.0)
    return [
        tag("text", tick_label(value, step), class_="tick", x=percent(x(value)), y=height - 6.0, text_anchor="middle")
        for value in ticks
    ]
