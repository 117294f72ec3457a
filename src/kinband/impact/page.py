"""What changes brought as one HTML file: to be opened, sent or printed, without scripts or anything from elsewhere."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from kinband.arrays import FloatArray
from kinband.html import environment, paper_sheet
from kinband.html.svg import Scale, around, number, percent, plot, round_ticks, tag
from kinband.impact.report import Impact, Judged
from kinband.planning.page import gain_ruler, gain_scale, interval, minus, signed, whisker
from kinband.planning.plan import decimals_of, in_reward
from kinband.stats import counted
from kinband.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

LISTED = 300
"""Changes in each list of the page."""

TO_DO = {
    "not in the log": "check the names, or give a log that has them",
    "never seen": "check whether it was carried out",
    "too little before": "give a log that begins earlier",
    "too little after": "look again when there are more rows",
    "no controls": "leave some stations unchanged for a while",
    "nothing varies": "judge another column",
}
"""What to do about a change of which nothing can be said, by the reason."""


def impact_page(impact: Impact, *, origin: str = "", notes: Sequence[str] = (), made: datetime | None = None) -> str:
    """Return the page.

    Args:
        impact: What changes brought.
        origin: What it was found from, in words.
        notes: What else there is to know.
        made: When the page was made.

    Example:
        >>> "No change can be judged" in impact_page(Impact((), (), ("reward",)))
        True
    """
    listed = sorted(impact.judged, key=lambda one: one.verdicts[impact.reward].gain.value)[::-1][:LISTED]
    scale = gain_scale([one.verdicts[impact.reward].gain for one in listed])
    decimals = _decimals(impact)
    return _template().render(
        impact=impact,
        title=_title(impact),
        words=_words(impact),
        origin=origin,
        notes=notes,
        made=made,
        d=decimals,
        changes=listed,
        left=impact.unjudged[:LISTED],
        why_left=Counter(one.why for one in impact.unjudged).most_common(),
        whisker=lambda one: whisker(one.verdicts[impact.reward].gain, scale),
        ruler=gain_ruler(scale, decimals) if listed else "",
        curves=curve_chart(impact),
        told=told_in(impact),
        others=[(name, impact.gains[name], decimals_of(impact.gains[name].value)) for name in impact.columns[1:]],
        moves=_moves,
        side=lambda one: one.verdicts[impact.reward].gain.side(0.0),
    )


@cache
def _template() -> "Template":
    made = environment("kinband.impact")
    made.filters |= {"signed": signed, "interval": interval, "minus": minus}
    made.globals |= {
        "style": paper_sheet(),
        "version": __version__,
        "counted": counted,
        "listed": LISTED,
        "to_do": TO_DO,
        "in_reward": in_reward,
    }
    return made.get_template("impact.html")


def _decimals(impact: Impact) -> int:
    """How many decimals show two digits of a usual gain."""
    return decimals_of(float(np.mean([abs(one.verdicts[impact.reward].gain.value) for one in impact.judged] or [0.0])))


def _title(impact: Impact) -> str:
    if not impact.judged:
        return "No change can be judged"
    told = {1: "The changes helped", 0: "Whether the changes helped cannot be told", -1: "The changes harmed"}
    return told[impact.gain.side(0.0)]


def _words(impact: Impact) -> str:
    """The report in a sentence or two."""
    if not impact.judged:
        return "Why nothing can be said of any change stands below."
    sides, many = impact.sides, counted(len(impact.judged), "judged change")
    gain = impact.gain
    compared = "than stations that did not change let expect for the same hours"
    said = f"Of {many}, {sides[1]:,} gained for certain, {sides[-1]:,} lost for certain, {sides[0]:,} cannot be told."
    side = gain.side(0.0)
    if side == 0:
        return f"On average changed stations earned neither surely more nor surely less {compared}. {said}"
    return f"On average changed stations earned {'more' if side > 0 else 'less'} {compared}. {said}"


def _moves(one: Judged) -> list[tuple[str, str, str]]:
    return [(knob, minus(was), minus(then)) for knob, (was, then) in one.moves.items()]


# --- Before and after: what changed stations earned, and what they would have -----------------------------------------

_BINS = 60
_WIDE = 1000.0
_TOP, _FOOT = 12.0, 22.0


def curve_chart(impact: Impact, *, height: int = 250) -> Markup:
    """Return what changed stations earned and would have, by day from the change on; by slot without dates."""
    if not impact.judged:
        return Markup("")
    size, unit = _step(impact)
    points = _binned(impact, size)
    x = Scale(float(points[:, 0].min()) * size, float(points[:, 0].max() + 1) * size, 0.0, 1.0)
    y = Scale(*around(points[:, 1:].ravel().tolist(), margin=0.1), height - _FOOT, _TOP)
    places = [_WIDE * x((k + 0.5) * size) for k in points[:, 0].tolist()]
    lines = [
        tag("path", class_=f"line {look}", d=_path(places, points[:, column], y), vector_effect="non-scaling-stroke")
        for column, look in ((2, "two"), (1, "one"))
    ]
    inner = tag(
        "svg", _between(places, points, y), *lines, width="100%", height=height,
        viewBox=f"0 0 {number(_WIDE)} {height}", preserveAspectRatio="none", overflow="visible",
    )  # fmt: skip
    zero = percent(x(0.0))
    marks = [
        tag("line", class_="zero", x1=zero, x2=zero, y1=_TOP - 4, y2=height - _FOOT),
        tag("text", "change", class_="tick", x=zero, y=_TOP, dx="5"),
    ]
    per = impact.per_day if unit == "day" else 1
    for tick in round_ticks(x.low / per, x.high / per, most=7):
        label = f"{tick:+g}".replace("-", "−") if tick else "0"
        place = x(tick * per)
        anchor = "start" if place < 0.03 else "end" if place > 0.97 else "middle"
        marks.append(tag("text", label, class_="tick", x=percent(place), y=height - 6.0, text_anchor=anchor))
    says = f"Mean {impact.reward} of changed stations before and after the change, and what it would have been."
    return plot([inner, *marks], y=y, says=says, height=height)


def _step(impact: Impact) -> tuple[int, str]:
    """How many slots a point stands for, and whether places are told in days or slots."""
    longest = max(float(np.ptp(one.curve[:, 0])) for one in impact.judged) + 1
    if impact.per_day and longest >= 4 * impact.per_day:
        return impact.per_day * max(1, round(longest / impact.per_day / _BINS)), "day"
    return max(1, round(longest / _BINS)), "slot"


def _binned(impact: Impact, size: int) -> FloatArray:
    """Number of the bin, mean earned and what would have been, (b, 3), over the changes that reach so far."""
    rows = [one.curve for one in impact.judged]
    every = np.concatenate(rows)
    number_of, place = np.unique(np.floor(every[:, 0] / size), return_inverse=True)
    count = np.bincount(place)
    means = [np.bincount(place, weights=every[:, column]) / count for column in (1, 2)]
    found = np.column_stack([number_of, *means])
    return np.asarray(found[count >= 0.25 * np.median(count)])  # the ends, to which few changes reach, would jump


def _path(places: Sequence[float], values: FloatArray, y: Scale) -> str:
    return "M" + "L".join(f"{number(x)} {number(y(value))}" for x, value in zip(places, values.tolist(), strict=True))


def _between(places: Sequence[float], points: FloatArray, y: Scale) -> Markup:
    """What lies between the two curves after the change."""
    after = [(x, row) for x, row in zip(places, points.tolist(), strict=True) if row[0] >= 0]
    if len(after) < 2:
        return Markup("")
    there = [f"{number(x)} {number(y(row[1]))}" for x, row in after]
    back = [f"{number(x)} {number(y(row[2]))}" for x, row in reversed(after)]
    return tag("path", class_="band", d=f"M{'L'.join([*there, *back])}Z")


def told_in(impact: Impact) -> dict[str, Any]:
    """Return what the points of the chart stand for, for the words beside it."""
    size, unit = _step(impact) if impact.judged else (1, "slot")
    return {"unit": unit, "count": size // impact.per_day if unit == "day" else size}
