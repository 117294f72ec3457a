"""Charts as SVG, as dashboard and plans draw them: elements as text, scales with round ticks, the frame of a chart.

A chart has its values at the left and a plot that is as wide as its place in the page. Places along x are shares of the
width, from 0 to 1; along y they are pixels. Texts and markers keep their size, so that they can be read on a phone, and
nothing has to be drawn twice. A page forbids inline styles: what an element looks like is said by its class or by a
presentation attribute.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape

from markupsafe import Markup

# --- Elements as text -----------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Return a coordinate, with two decimals at most."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """Return a share of the picture's width as a coordinate."""
    return f"{number(100.0 * share)}%"


def along(value: float, ends: tuple[float, float]) -> str:
    """Return where a value lies along the width of a picture that goes from one end to the other."""
    return percent(min(max(Scale(*ends, 0.0, 1.0)(value), 0.0), 1.0))


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an element; attributes that are None are left out, `class_` is `class` and `stroke_width` `stroke-width`.

    What is inside and what attributes say is escaped unless it is `Markup`.
    """
    said = "".join([f'{_before(key)}{_escaped(value)}"' for key, value in attributes.items() if value is not None])
    if not inside:
        return Markup(f"<{name}{said}/>")  # noqa: S704 - every part is escaped
    return Markup(f"<{name}{said}>{''.join(map(_escaped, inside))}</{name}>")  # noqa: S704


@cache
def _before(key: str) -> str:
    """Return what stands before the value of an attribute."""
    return f' {key.rstrip("_").replace("_", "-")}="'


def _escaped(value: object) -> str:
    if type(value) is str:
        return value if value.isalnum() else escape(value)
    if isinstance(value, float):
        return number(value)
    return value if isinstance(value, Markup) else escape(str(value))


# --- From values to places: linear scales, round ticks --------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """A straight line from values, `low` to `high`, to places, `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        share = 0.5 if self.high == self.low else (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * share


def round_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, at most so many: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """Return a number with as many decimals as a step needs."""
    digits = next((d for d in range(5) if abs(step * 10**d - round(step * 10**d)) < 1e-6), 5)
    return f"{value:,.{digits}f}".replace("-", "−")


def around(values: Iterable[float | None], *, margin: float = 0.08, least: float = 1e-6) -> tuple[float, float]:
    """Return a range that holds all values with some room above and below; 0 to 1 where there are none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = margin * max(high - low, least, 0.02 * max(abs(low), abs(high)) if high == low else 0.0)
    return low - room, high + room


# --- The frame of a chart ------------------------------------------------------------------------------------------

_AXIS = 38  # pixels for the values at the left


def plot(
    inside: Sequence[Markup], *, y: Scale, says: str, height: int, names: Sequence[str] = (), **further: object
) -> Markup:
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
    beside = [
        tag("text", tick_label(value, step), class_="tick", x="100%", y=y(value) + 4.0, text_anchor="end")
        for value in ([] if names else ticks)
    ]
    axis = tag("svg", *beside, class_="axis", width=_AXIS, height=height, aria_hidden="true")
    main = tag("svg", *grid, *inside, class_="plot", width="100%", height=height, aria_hidden="true", **further)
    return tag("div", axis, main, class_="chart", role="img", aria_label=says)
