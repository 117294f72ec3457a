"""What is believed of configurations: a line with its band over one knob, or dots with whiskers in a list.

The band is the 95 % interval of the expected reward, noise excluded. What runs and what would be chosen are marked by
shape as well as by colour: a square and a dot.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from kinband.service.dashboard.charts.curves import SHORT, curve
from kinband.service.dashboard.charts.lines import WIDE, plot, stretched, tick_label
from kinband.service.dashboard.charts.marks import escaped, joined, number, percent, tag
from kinband.service.dashboard.charts.scales import Scale, around, round_ticks

NORMAL_95 = 1.959963984540054
"""Standard deviations on either side of a 95 % interval."""
_TOP, _FOOT = 12.0, 22.0
_HALF = 5.0  # pixels of half a marker
_ROOM = 0.04  # of the width, left and right of the outermost values
_HIT = tag("rect", class_="hit", x=-8, y=-_HALF - 8, width=16, height=16 + 2 * _HALF)
_PLAIN = tag("circle", class_="at-plain", r=2)
_TRACK = tag("line", class_="grid", x1=0, x2="100%", y1=10, y2=10)


class Belief(NamedTuple):
    """What is expected of one configuration.

    Attributes:
        x: Its place along the knob; not used in a list.
        name: The configuration in words.
        mean: The expected reward.
        width: Its standard deviation.
        running: Whether it runs.
        chosen: Whether it would be decided.
        past: Whether that was so when a decision was made, not now.

    Example:
        >>> [round(end, 2) for end in Belief(2.0, "tilt 2", 0.5, 0.1).interval]
        [0.3, 0.7]
    """

    x: float
    name: str
    mean: float
    width: float
    running: bool = False
    chosen: bool = False
    past: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.mean - NORMAL_95 * self.width, self.mean + NORMAL_95 * self.width

    @property
    def says(self) -> str:
        """All of it in words."""
        low, high = self.interval
        named = ("ran before", "chosen") if self.past else ("runs now", "would be chosen")
        roles = [role for role, is_so in zip(named, (self.running, self.chosen), strict=True) if is_so]
        return ", ".join([f"{self.name}: {self.mean:.3f} ({low:.3f} to {high:.3f})", *roles]).replace("-", "−")


def band_chart(beliefs: Sequence[Belief], *, says: str, height: int = 260, labels: Sequence[str] = ()) -> Markup:
    """Return mean and band over the values of one knob.

    Args:
        beliefs: One a value, ascending in x.
        says: What there is to see, for those who cannot.
        height: In pixels.
        labels: Names of the values where they are no numbers.

    Example:
        >>> svg = band_chart([Belief(2, "tilt 2", 0.5, 0.1, True), Belief(4, "tilt 4", 0.7, 0.2)], says="Two tilts.")
        >>> svg.count("band"), svg.count('<svg class="at')
        (1, 2)
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
    names = joined(_names(beliefs, x=x, height=height, labels=labels))
    return plot(joined([inner, names, dots]), y=y, says=says, height=height)


def band_path(beliefs: Sequence[Belief], places: Sequence[float], *, y: Scale) -> str:
    """Return the outline of a band: along its upper ends, and back along the lower ones.

    Example:
        >>> flat = [Belief(0, "", 0.5, 0.0), Belief(1, "", 0.5, 0.0)]
        >>> band_path(flat, [0.0, 10.0], y=Scale(0.0, 1.0, 100.0, 0.0))
        'M0 50L10 50L10 50L0 50Z'
    """
    intervals = [belief.interval for belief in beliefs]
    upper = [(x, high) for x, (_, high) in zip(places, intervals, strict=True)]
    lower = [(x, low) for x, (low, _) in zip(places, intervals, strict=True)]
    ends = [place for x, value in [*upper, *lower[::-1]] for place in (x, y(value))]
    return "M" + "L".join([f"{SHORT} {SHORT}"] * (2 * len(upper))) % tuple(ends) + "Z"


def whisker(belief: Belief, *, low: float, high: float) -> Markup:
    """Return one row of a list: a whisker for the interval, a dot for the mean, on the scale from `low` to `high`.

    Example:
        >>> svg = whisker(Belief(0, "tilt 2", 0.5, 0.1), low=0.0, high=1.0)
        >>> 'cx="50%"' in svg
        True
    """
    x = Scale(low, high, 0.0, 1.0)
    left, right = (min(max(x(end), 0.0), 1.0) for end in belief.interval)
    look = "running" if belief.running else "chosen" if belief.chosen else "plain"
    parts = [
        _TRACK,
        tag("line", class_=f"whisker {look}", x1=percent(left), x2=percent(right), y1=10, y2=10),
        tag("circle", class_=f"dot {look}", cx=percent(x(belief.mean)), cy=10, r=_HALF),
    ]
    return tag("svg", *parts, tag("title", belief.says), class_="row", width="100%", height=20, aria_hidden="true")


def best_first(beliefs: Sequence[Belief], *, most: int = 15) -> list[Belief]:
    """Return the beliefs of the largest means, with what runs and what would be chosen wherever these stand.

    Example:
        >>> some = [Belief(0, "a", 0.1, 0.1, running=True), Belief(1, "b", 0.9, 0.1), Belief(2, "c", 0.5, 0.1)]
        >>> [belief.name for belief in best_first(some, most=1)]
        ['b', 'a']
    """
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


def _names(beliefs: Sequence[Belief], *, x: Scale, height: int, labels: Sequence[str]) -> list[Markup]:
    if labels:
        named = [(belief.x, label) for belief, label in zip(beliefs, labels, strict=True)][:: -(-len(labels) // 8)]
    else:
        ticks = round_ticks(beliefs[0].x, beliefs[-1].x, most=6)
        step = min((b - a for a, b in pairwise(ticks)), default=1.0)
        named = [(value, tick_label(value, step)) for value in ticks]
    return [
        tag("text", label, class_="tick", x=percent(x(value)), y=height - 6.0, text_anchor="middle")
        for value, label in named
    ]
