"""What charts are drawn with: colours that have a meaning, scales from values to places, elements as text."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache

from markupsafe import Markup, escape

# --- Colours with a meaning, the same on light and dark pages, told apart by every kind of sight --------------------
#
# Amounts run along viridis (Smith and van der Walt, 2015), whose lightness grows evenly, so that the order is seen
# without hue. Modes and groups take colours of Okabe and Ito (2008) and of Paul Tol's bright palette, as the report
# does; what mode a station has is also said in words.

_VIRIDIS = (
    "#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725",
)  # fmt: skip

UNKNOWN = "#9aa5b1"
"""What nothing is known of."""
MODE_COLOURS = {"shadow": "#9aa5b1", "assist": "#e69f00", "autonomous": "#0072b2"}
GROUP_COLOURS = ("#4477aa", "#66ccee", "#2e9e5b", "#e0b73a", "#ee6677", "#aa3377", "#7b6fd0", "#c08552")


@cache
def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of a colour."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mixed(stops: Sequence[str], share: float) -> str:
    """Return the colour at a share of the way along stops."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(place), len(stops) - 2)
    part = place - left
    (r0, g0, b0), (r1, g1, b1) = rgb(stops[left]), rgb(stops[left + 1])
    red, green, blue = r0 + part * (r1 - r0), g0 + part * (g1 - g0), b0 + part * (b1 - b0)
    return f"#{round(red):02x}{round(green):02x}{round(blue):02x}"


@lru_cache(maxsize=4096)
def ramp(share: float) -> str:
    """Return the colour of an amount, from 0 (dark violet) to 1 (yellow)."""
    return mixed(_VIRIDIS, share)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2), from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(colour))]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 12)


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours (WCAG 2.2), from 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


# --- From values to places: linear scales, round ticks for numbers and for times, long series made short ------------
#
# Charts are as wide as their place in the page, so that places along x are shares of the width, from 0 to 1; along y
# they are pixels.

MOST_POINTS = 300
"""How many points a series has at most when it is drawn: a phone has about that many pixels."""

_STEPS = (  # of a time axis, in seconds
    1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400,
    28 * 86400, 91 * 86400, 182 * 86400, 365 * 86400,
)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places.

    Attributes:
        low: The value at `start`.
        high: The value at `end`.
        start: Where the scale begins.
        end: Where it ends; smaller than `start` for a scale that grows upwards.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        if self.high == self.low:
            return 0.5 * (self.start + self.end)
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def all(self, values: Iterable[float]) -> list[float]:
        """Return the places of many values."""
        if self.high == self.low:
            return [self(value) for value in values]
        slope = (self.end - self.start) / (self.high - self.low)
        return [self.start + slope * (value - self.low) for value in values]


def round_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, at most so many: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(first, last + 1)]


def around(values: Iterable[float | None], *, margin: float = 0.08, least: float = 1e-6) -> tuple[float, float]:
    """Return a range that holds all values with some room above and below; 0 to 1 where there are none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = margin * max(high - low, least, 0.02 * max(abs(low), abs(high)) if high == low else 0.0)
    return low - room, high + room


def time_ticks(first: datetime, last: datetime, *, most: int = 5) -> list[tuple[datetime, str]]:
    """Return round times from `first` to `last` with their labels, at most so many."""
    if not last > first:
        return [(first, first.strftime("%H:%M"))]
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    begins, ends = (first - zero).total_seconds(), (last - zero).total_seconds()
    step = next((s for s in _STEPS if ends // s - -(-begins // s) + 1 <= most), _STEPS[-1])
    ticks = [zero + timedelta(seconds=k * step) for k in range(int(-(-begins // step)), int(ends // step) + 1)]
    if step >= 365 * 86400:
        ticks = ticks[:: max(1, -(-len(ticks) // most))]
    return [(tick, _label(tick, step)) for tick in ticks]


def _label(tick: datetime, step: int) -> str:
    if step >= 91 * 86400:
        return f"{tick.strftime('%b')} {tick.year}"
    if step >= 86400:
        return f"{tick.day} {tick.strftime('%b')}"
    return tick.strftime("%H:%M:%S" if step < 60 else "%H:%M")


def thinned(
    times: Sequence[datetime], *series: Sequence[float | None], most: int = MOST_POINTS
) -> tuple[list[datetime], list[list[float | None]]]:
    """Return series with at most so many points: means of neighbours, where any of them is known."""
    size = max(1, -(-len(times) // most))
    if size == 1:
        return list(times), [list(values) for values in series]
    starts = range(0, len(times), size)
    return [times[i] for i in starts], [[_mean(values[i : i + size]) for i in starts] for values in series]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


# --- SVG elements as text: escaped, short, and without a style of their own -----------------------------------------
#
# A page forbids inline styles, so that what an element looks like is said by its class or by a presentation attribute.
# Numbers are written with two decimals at most: a hundredth of a pixel is below what a screen shows.
#
# A page has hundreds of elements, so that what is safe already is not looked at again.

_SPECIAL = re.compile("[&<>'\"]")  # what means something in markup
_KEPT_TEXT = 40  # letters of an attribute that is remembered
_SHORT_TEXT = 100  # up to which looking first is quicker than escaping


def number(value: float) -> str:
    """Return a coordinate."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """Return a share of the picture's width as a coordinate."""
    return f"{number(100.0 * share)}%"


def along(value: float, ends: tuple[float, float]) -> str:
    """Return where a value lies along the width of a picture that goes from one end to the other.

    Example:
        >>> along(0.55, (0.5, 0.7)), along(9.0, (0.5, 0.7))
        ('25%', '100%')
    """
    return percent(min(max(Scale(*ends, 0.0, 1.0)(value), 0.0), 1.0))


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an element; attributes that are None are left out, `class_` is `class` and `stroke_width` `stroke-width`.

    What is inside is escaped unless it is `Markup`, attributes always are.
    """
    said = "".join([_attribute(key, value) for key, value in attributes.items() if value is not None])
    if not inside:
        return Markup(f"<{name}{said}/>")  # noqa: S704 - every part is escaped
    return Markup(f"<{name}{said}>{''.join(map(escaped, inside))}</{name}>")  # noqa: S704 - every part is escaped


def joined(parts: "list[Markup]") -> Markup:
    """Return elements one after the other."""
    return Markup("".join(map(escaped, parts)))  # noqa: S704 - every part is escaped


def escaped(text: str) -> str:
    """Return a text as it is written between tags or in an attribute; `Markup` is taken as it is."""
    plain = isinstance(text, Markup) or (len(text) < _SHORT_TEXT and _SPECIAL.search(text) is None)
    return text if plain else escape(text)


def _attribute(key: str, value: object) -> str:
    """Return an attribute as it is written; the short ones are mostly the same from chart to chart."""
    return _written(key, value) if isinstance(value, str) and len(value) > _KEPT_TEXT else _written_before(key, value)


def _written(key: str, value: object) -> str:
    said = number(value) if isinstance(value, float) else escaped(str(value))
    return f' {key.rstrip("_").replace("_", "-")}="{said}"'


_written_before = lru_cache(maxsize=4096, typed=True)(_written)
