"""A change plan as one page to show: what changes where, what it is expected to bring, and how to undo it.

The page is a file of its own: no script, nothing from elsewhere, every name in it escaped. It can be printed: what is
folded on a screen is on the paper. Of thousands of stations it lists the first few hundred; plan.csv has all of them.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from kinband.arrays import FloatArray
from kinband.html import environment, paper_sheet
from kinband.html.svg import Scale, around, number, percent, plot, round_ticks, tag
from kinband.planning.plan import Change, ChangePlan, LeftAlone, Origin, Why, decimals_of, decimals_of_ends, in_reward
from kinband.planning.reasons import reworded
from kinband.stats import Estimate, counted
from kinband.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template

LISTED = 300
"""Stations in each list of the page."""

TO_DO: Mapping[Why, str] = {
    "best already": "nothing",
    "gain not certain": "collect more rows, or let a few stations try it",
    "gain too small": "nothing",
    "never tried": "let a few stations try other settings",
    "no other choice": "widen the steps or guard rails, if they may be wider",
    "beyond the limit": "take it in the next plan",
    "beside a change": "take it in the next plan, when its neighbour is done",
    "frozen": "nothing while guard rails freeze it",
    "a floor would be broken": "look at the limit, or collect more rows",
    "not in the log": "collect rows of it first",
    "silent": "check whether it still runs, under this name",
    "state unfamiliar": "check the units of its state",
    "state incomplete": "complete its state",
    "configuration unknown": "say what it runs",
}
"""What to do about a station that is left alone, by the reason."""

APART = 0.5
"""Share of the mean gain below which the worst hour is worth a word at the head of the page."""
LARGE = 0.5
"""Share of a knob's range beyond which a move is a large one."""

# --- The page -------------------------------------------------------------------------------------------------------


def plan_page(plan: ChangePlan, origin: Origin) -> str:
    """Return the page of a plan.

    Example:
        >>> "None of 0 stations" in plan_page(ChangePlan(("tilt",), (), ()), Origin())
        True
    """
    listed = plan.changes[:LISTED]
    scale = gain_scale([change.gain for change in listed])
    return _template().render(
        plan=plan,
        origin=origin,
        stations=len(plan.changes) + len(plan.left_alone),
        title=_title(plan),
        words=_words(plan),
        d=plan.decimals,
        unchanged=_mean(change.expected_unchanged for change in plan.changes),
        reached=_mean(change.expected for change in plan.changes),
        worst=(worst := min(plan.by_hour.items(), key=lambda item: item[1].value, default=None)),
        apart=worst is not None and (worst[1].low <= 0 or worst[1].value < APART * plan.gain.value),
        changes=listed,
        left=plan.left_alone[:LISTED],
        whisker=lambda change: whisker(change.gain, scale),
        ruler=gain_ruler(scale, plan.decimals) if listed else "",
        places=plan_map(plan, origin.places, metres=origin.metres),
        hours=hour_chart(plan),
        undone=_undone(plan),
        sentence=lambda one: _sentence(plan, one),
        doubts=lambda change: _doubts(change, origin),
        doubted=_doubted(plan, origin),
        wave=lambda change: _wave(plan, change),
        neighbours=any(change.around is not None for change in plan.changes),
    )


@cache
def _template() -> "Template":
    made = environment("kinband.planning")
    made.filters |= {"signed": signed, "interval": interval, "configuration": _configuration, "moves": _moves}
    made.filters |= {"minus": minus}
    made.globals |= {
        "style": paper_sheet(),
        "version": __version__,
        "counted": counted,
        "listed": LISTED,
        "to_do": TO_DO,
        "decimals_of": decimals_of,
        "in_reward": in_reward,
    }
    return made.get_template("plan.html")


def _title(plan: ChangePlan) -> str:
    stations = counted(len(plan.changes) + len(plan.left_alone), "station")
    if not plan.changes:
        return f"None of {stations} to change"
    return f"{len(plan.changes):,} of {stations} {'for a trial' if plan.explore else 'to change'}"


def _words(plan: ChangePlan) -> str:
    """The plan in one sentence."""
    if not plan.changes and plan.left_alone and all(left.why == "never tried" for left in plan.left_alone):
        return "The log cannot tell what to set: it holds no trials. A few would tell."
    if not plan.changes:
        return "No change is worth making: what was found of each station is said below."
    if plan.explore:
        return "These are trials of what is little known: each may lose, and all teach something."
    if all(change.gain.low > 0 for change in plan.changes):
        sure = "Each of these changes is expected to gain, and the whole 95 % interval of its gain lies above zero."
        return f"{sure} But {minus(losing)}" if (losing := plan.losing()) else sure
    return "Not all of these changes are certain to gain: see the intervals of their gains."


def _mean(values: Any) -> float:
    known = list(values)
    return sum(known) / len(known) if known else math.nan


def signed(value: float, decimals: int) -> str:
    """A gain, with a sign and a typographer's minus."""
    return minus(f"{value:+,.{decimals}f}")


def minus(text: Any) -> str:
    """Text with a typographer's minus before its negative numbers."""
    return re.sub(r"(?<![\w.)-])-(?=\.?\d)", "−", str(text))


def _sentence(plan: ChangePlan, one: Change | LeftAlone) -> str:
    """A reason with the reward's own name, and with the page's precision and minus."""
    return minus(reworded(one.reason, one, explore=plan.explore, reward=plan.reward, decimals=plan.decimals))


def _doubts(change: Change, origin: Origin) -> list[str]:
    """What a change board would ask about a change: large moves, and what the station never ran."""
    found = [f"large move of {knob}" if len(change.present) > 1 else "large move" for knob in _large(change, origin)]
    return [*found, "new here"] if change.support and not change.support.own else found


def _large(change: Change, origin: Origin) -> list[str]:
    """The knobs that move over more than half of their range."""
    within = {knob: origin.ranges[knob] for knob in change.moves if knob in origin.ranges}
    return [
        knob
        for knob, (low, high) in within.items()
        if abs(change.proposed[knob] - change.present[knob]) > LARGE * (high - low)
    ]


def _doubted(plan: ChangePlan, origin: Origin) -> str:
    """How many changes are large, and how many are to what a station never ran."""
    large = sum(bool(_large(change, origin)) for change in plan.changes)
    new = sum(change.support is not None and not change.support.own for change in plan.changes)
    said = [f"{large:,} move{'s' * (large == 1)} a knob over more than half of its range"] if large else []
    said += [f"{new:,} set{'s' * (new == 1)} what the station itself never ran"] if new else []
    return f"Look twice: of {counted(len(plan.changes), 'change')}, {', and '.join(said)}." if said else ""


def interval(gain: Estimate, decimals: int) -> str:
    """Return the ends of a gain in words, with a digit more where one would read as zero and is not."""
    more = decimals_of_ends(gain, decimals)
    return f"{signed(gain.low, more)} to {signed(gain.high, more)}" if gain.known else "no interval"


def _configuration(values: Mapping[str, Any]) -> str:
    """A configuration as words, such as "tilt 4, power 43"; the value alone where there is one knob."""
    return minus(
        ", ".join(str(value) if len(values) == 1 else f"{knob}\u00a0{value}" for knob, value in values.items())
    )


def _moves(change: Change) -> list[tuple[str, Any, Any]]:
    """The knobs that move, each with what it is now and what it is to be."""
    return [(knob, minus(change.present[knob]), minus(value)) for knob, value in change.moves.items()]


def _wave(plan: ChangePlan, change: Change) -> str:
    """When a change is made, in a word or two."""
    label = plan.waves.label(change.station) if plan.waves else ""
    return f"wave {label}" if label.isdecimal() else label


_NAMED = 6  # configurations of a roll-back that are named


def _undone(plan: ChangePlan) -> str:
    """What the roll-back sets, and at how many stations."""
    knobs = Counter(", ".join(f"{knob} {value}" for knob, value in one.present.items()) for one in plan.changes)
    named = [f"{text} at {counted(count, 'station')}" for text, count in knobs.most_common(_NAMED)]
    rest = sum(knobs.values()) - sum(count for _, count in knobs.most_common(_NAMED))
    return minus("; ".join([*named, f"others at {rest:,}"] if rest else named))


# --- Gains as whiskers ----------------------------------------------------------------------------------------------

_WIDE, _HIGH = 140.0, 16.0
_HOURS = 24


def gain_scale(gains: Sequence[Estimate]) -> Scale:
    """From gains to places in a whisker's picture; zero is always in it."""
    ends = [end for gain in gains for end in (gain.low, gain.high, gain.value) if math.isfinite(end)]
    return Scale(*around([0.0, *ends], margin=0.03), 0.0, _WIDE)


def whisker(gain: Estimate, scale: Scale) -> Markup:
    """Return a gain as a dot on its interval, beside the line of no gain."""
    x, zero, middle = scale(gain.value), scale(0.0), _HIGH / 2
    parts = [tag("line", class_="zero", x1=zero, x2=zero, y1=0, y2=_HIGH)]
    if gain.known:
        ends = scale(gain.low), scale(gain.high)
        parts.append(tag("line", class_="whisker", x1=ends[0], x2=ends[1], y1=middle, y2=middle))
    parts.append(tag("circle", class_="dot", cx=x, cy=middle, r=4))
    return tag("svg", *parts, class_="gain", viewBox=f"0 0 {_WIDE:g} {_HIGH:g}", aria_hidden="true")


def gain_ruler(scale: Scale, decimals: int) -> Markup:
    """The scale of all whiskers: where no gain is, and where a round one."""
    zero = min(max(scale(0.0), 4.0), _WIDE - 4.0)
    far = max(scale.high, scale.low, key=abs)
    last = max(round_ticks(min(far, 0.0), max(far, 0.0), most=3), key=abs)
    ends = [("0", zero, "start" if zero < _WIDE / 8 else "middle"), (signed(last, decimals), scale(last), "middle")]
    letters = [tag("text", text, class_="tick", x=x, y=12, text_anchor=anchor) for text, x, anchor in ends]
    return tag("svg", *letters, class_="gain", viewBox=f"0 0 {_WIDE:g} {_HIGH:g}", aria_hidden="true")


def hour_chart(plan: ChangePlan, *, height: int = 200) -> Markup:
    """Return the mean gain of a changed station in each hour of the day; nothing where hours are not known."""
    by_hour, decimals = plan.by_hour, plan.decimals
    if not by_hour:
        return Markup("")
    worst = min(by_hour, key=lambda hour: by_hour[hour].value)
    ends = [end for gain in by_hour.values() for end in (gain.low, gain.high) if math.isfinite(end)]
    y = Scale(*around([0.0, *ends, *(gain.value for gain in by_hour.values())]), height - 22.0, 8.0)
    inside = [tag("line", class_="zero", x1=0, x2="100%", y1=y(0.0), y2=y(0.0))]
    for hour, gain in by_hour.items():
        x, look = percent((hour + 0.5) / _HOURS), " chosen" if hour == worst else ""
        says = tag("title", f"{hour:02d} h: {signed(gain.value, decimals)} ({interval(gain, decimals)})")
        line = tag("line", class_=f"whisker{look}", x1=x, x2=x, y1=y(gain.low), y2=y(gain.high)) if gain.known else ""
        inside.append(tag("g", says, line, tag("circle", class_=f"dot{look}", cx=x, cy=y(gain.value), r=4.5)))
    for hour in range(0, _HOURS, 3):
        place = {"x": percent((hour + 0.5) / _HOURS), "y": height - 6.0}
        inside.append(tag("text", f"{hour:02d} h", class_="tick", text_anchor="middle", **place))
    said = [f"{hour:02d} h {signed(gain.value, decimals)}" for hour, gain in by_hour.items()]
    return plot(inside, y=y, says=f"Mean gain in {plan.reward} by hour of the day: {', '.join(said)}.", height=height)


# --- A map: a dot a station, the fuller the larger its gain ---------------------------------------------------------

_SIDE = 1000.0  # units of the larger side
_LEAST, _MOST = 5.0, 17.0  # radius of a dot
_WITH_NAMES = 2000  # stations up to which each dot says which it is
_PALEST = 0.2  # opacity of no gain
_NAMED_DOTS = 40  # stations up to which names stand beside dots, where there is room
_LETTER = 22.0  # height of a letter, of which the width is about two thirds
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}  # share of a name that stands before where it is anchored


def plan_map(plan: ChangePlan, places: Mapping[str, tuple[float, float]], *, metres: bool) -> dict[str, Any]:
    """Return the map of a plan, what its bar means, and how many of its stations have no place.

    Empty where no two stations are known to be apart.
    """
    gains = {change.station: change.gain.value for change in plan.changes}
    asked = [*gains, *(left.station for left in plan.left_alone)]
    known = [name for name in asked if name in places]
    if len({places[name] for name in known}) < 2:
        return {}
    at, size, (wide, high), unit = _laid_out(np.array([places[name] for name in known]))
    largest = max((abs(gain) for gain in gains.values()), default=0.0) or 1.0
    said, decimals = len(known) <= _WITH_NAMES, plan.decimals
    dots = []
    for name, (x, y) in sorted(zip(known, at.tolist(), strict=True), key=lambda one: abs(gains.get(one[0], 0.0))):
        gain = gains.get(name)
        words = "left alone" if gain is None else signed(gain, decimals)
        title = [tag("title", f"{name}: {words}")] if said else []
        look = "rest" if gain is None else "less" if gain < 0 else "more"
        fill = None if gain is None else f"{_PALEST + (1 - _PALEST) * abs(gain) / largest:.2f}"
        dots.append(
            tag("circle", *title, class_=look, cx=x, cy=y, r=size * (0.55 if gain is None else 1.0), fill_opacity=fill)
        )
    order = sorted(range(len(known)), key=lambda i: -abs(gains.get(known[i], 0.0)))
    names = _names_beside(known, at, order, size=size, box=(wide, high)) if len(known) <= _NAMED_DOTS else []
    length = round_ticks(0.0, 0.3 * wide / unit, most=2)[-1]
    bar = [tag("path", class_="ruler", d=f"M8 {number(high - 18)}v10h{number(length * unit)}v-10")] if metres else []
    says = f"Map of {counted(len(known), 'station')}, {len(gains.keys() & places.keys()):,} of them to change."
    box = f"0 0 {number(wide)} {number(high)}"
    return {
        "svg": tag(
            "svg", tag("title", says), *dots, *names, *bar, class_="map", viewBox=box, role="img", aria_label=says
        ),
        "bar": f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m",
        "metres": metres,
        "missing": len(asked) - len(known),
        "largest": largest,
        "loses": any(gain < 0 for gain in gains.values()),
    }


def _names_beside(
    names: Sequence[str], at: FloatArray, order: Sequence[int], *, size: float, box: tuple[float, float]
) -> list[Markup]:
    """Names beside dots at (n, 2), in an order of importance; one that would cover a dot or a name is left out."""
    taken = [(x - size, y - size, x + size, y + size) for x, y in at.tolist()]
    texts = []
    for i in order:
        x, y = at[i].tolist()
        wide, gap = 0.66 * _LETTER * len(names[i]), size + 4.0
        corners = [("start", x + gap, y - _LETTER / 2), ("end", x - gap, y - _LETTER / 2)]
        corners += [("middle", x, y - gap - _LETTER), ("middle", x, y + gap)]
        for anchor, end, top in corners:
            left = end - wide * _BEFORE[anchor]
            place = (left, top, left + wide, top + _LETTER)
            inside = left >= 0 and top >= 0 and place[2] <= box[0] and place[3] <= box[1]
            if inside and not any(_cover(place, other) for other in taken):
                taken.append(place)
                texts.append(tag("text", names[i], class_="name", text_anchor=anchor, x=end, y=top + 0.8 * _LETTER))
                break
    return texts


def _cover(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two boxes, each left, top, right and bottom, have something in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _laid_out(places: FloatArray) -> tuple[FloatArray, float, tuple[float, float], float]:
    """Where dots go (n, 2), their radius, width and height of the map, and how long one unit of the places is on it.

    Stations of one site stand in a ring around it.
    """
    from scipy.spatial import KDTree

    low, high = places.min(axis=0), places.max(axis=0)
    unit = (_SIDE - 8 * _MOST) / float((high - low).max())
    xy = (places - low) * unit
    xy[:, 1] = (high[1] - low[1]) * unit - xy[:, 1]
    sites, of_site = np.unique(xy.round(1), axis=0, return_inverse=True)
    apart = float(np.median(KDTree(sites).query(sites, k=[2])[0]))  # the nearest is the site itself
    together: dict[int, list[int]] = defaultdict(list)
    for i, site in enumerate(of_site.ravel().tolist()):
        together[site].append(i)
    crowd = float(np.median([len(same) for same in together.values()]))
    size = min(max(0.4 * apart / (1 + (crowd > 1) * (1 + crowd / 6)), _LEAST), _MOST)
    for same in together.values():
        if len(same) > 1:
            turn = 2 * math.pi * np.arange(len(same)) / len(same)
            ring = 1.1 * size / math.sin(math.pi / len(same))
            xy[same] += ring * np.column_stack([np.sin(turn), -np.cos(turn)])
    xy += 4 * _MOST - np.minimum(xy.min(axis=0), 0)
    wide, tall = xy.max(axis=0) + 4 * _MOST
    return xy.round(1), size, (float(wide), float(tall)), unit
