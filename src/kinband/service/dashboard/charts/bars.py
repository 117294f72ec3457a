"""Shares as bars in a list, and the keys of legends."""

from collections.abc import Sequence
from functools import cache, lru_cache

from markupsafe import Markup

from kinband.service.dashboard.charts.scales import joined, percent, ramp, tag

_STEPS = 24  # of a legend that runs along the ramp


def bar(share: float, *, look: str = "", whole: float = 1.0) -> Markup:
    """Return a bar that is `share` of `whole` long.

    Example:
        >>> 'width="25%"' in bar(0.2, whole=0.8)
        True
    """
    long = min(max(share / whole if whole > 0 else 0.0, 0.0), 1.0)
    track = tag("rect", class_="track", width="100%", height=10, rx=3)
    filled = tag("rect", class_=f"bar {look}".rstrip(), width=percent(long), height=10, rx=3)
    return tag("svg", track, filled, class_="row", width="100%", height=10, aria_hidden="true")


def parts(shares: Sequence[tuple[str, float]]) -> Markup:
    """Return one bar of several coloured parts, by colour and share; they should add up to 1 at most.

    Example:
        >>> parts([("#0072b2", 0.25), ("#e69f00", 0.75)]).count("<rect")
        3
    """
    start, pieces = 0.0, [tag("rect", class_="track", width="100%", height=10, rx=3)]
    for colour, share in shares:
        pieces.append(tag("rect", x=percent(start), width=percent(share), height=10, fill=colour))
        start += share
    return tag("svg", *pieces, class_="row", width="100%", height=10, aria_hidden="true")


@lru_cache(maxsize=256)
def swatch(colour: str) -> Markup:
    """Return a little square for a legend.

    Example:
        >>> 'fill="#0072b2"' in swatch("#0072b2")
        True
    """
    square = tag("rect", width=12, height=12, rx=2, fill=colour, class_="edge")
    return tag("svg", square, class_="key", width=12, height=12, aria_hidden="true")


@cache
def ramp_key() -> Markup:
    """Return the ramp of amounts from left to right.

    Example:
        >>> ramp_key().count("<rect")
        24
    """
    steps = [
        tag("rect", x=percent(i / _STEPS), width=percent(1.06 / _STEPS), height=12, fill=ramp(i / (_STEPS - 1)))
        for i in range(_STEPS)
    ]
    return tag("svg", joined(steps), class_="ramp", width=160, height=12, aria_hidden="true")


@lru_cache(maxsize=256)
def line_key(look: str) -> Markup:
    """Return a piece of a line for a legend.

    Example:
        >>> 'class="line one"' in line_key("one")
        True
    """
    piece = tag("path", class_=f"line {look}", d="M0 6H22")
    return tag("svg", piece, class_="key", width=22, height=12, aria_hidden="true")
