"""Colours with a meaning, the same on light and dark pages, told apart by every kind of sight.

Amounts run along viridis (Smith and van der Walt, 2015), whose lightness grows evenly, so that the order is seen
without hue. Modes and groups take colours of Okabe and Ito (2008) and of Paul Tol's bright palette, as the report does;
what mode a station has is also said in words.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

_VIRIDIS = (
    "#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725",
)  # fmt: skip

UNKNOWN = "#9aa5b1"
"""What nothing is known of."""
MODE_COLOURS = {"shadow": "#9aa5b1", "assist": "#e69f00", "autonomous": "#0072b2"}
GROUP_COLOURS = ("#4477aa", "#66ccee", "#2e9e5b", "#e0b73a", "#ee6677", "#aa3377", "#7b6fd0", "#c08552")


@cache
def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of a colour.

    Example:
        >>> rgb("#ff8000")
        (255, 128, 0)
    """
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mixed(stops: Sequence[str], share: float) -> str:
    """Return the colour at a share of the way along stops.

    Example:
        >>> mixed(["#000000", "#ffffff"], 0.5), mixed(["#000000", "#ffffff"], 7.0)
        ('#808080', '#ffffff')
    """
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(place), len(stops) - 2)
    part = place - left
    (r0, g0, b0), (r1, g1, b1) = rgb(stops[left]), rgb(stops[left + 1])
    red, green, blue = r0 + part * (r1 - r0), g0 + part * (g1 - g0), b0 + part * (b1 - b0)
    return f"#{round(red):02x}{round(green):02x}{round(blue):02x}"


@lru_cache(maxsize=4096)
def ramp(share: float) -> str:
    """Return the colour of an amount, from 0 (dark violet) to 1 (yellow).

    Example:
        >>> ramp(0.0), ramp(1.0)
        ('#440154', '#fde725')
    """
    return mixed(_VIRIDIS, share)


AGE_COLOURS = tuple(ramp(share) for share in (1.0, 0.78, 0.55, 0.32, 0.1))
"""From a moment ago to long ago."""


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2), from 0 to 1.

    Example:
        >>> luminance("#ffffff"), luminance("#000000")
        (1.0, 0.0)
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(colour))]
    return round(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2], 12)


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours (WCAG 2.2), from 1 to 21.

    Example:
        >>> contrast("#000000", "#ffffff")
        21.0
    """
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)
