"""Curves as paths: unbroken pieces of hundreds of points, each written at once."""

from collections.abc import Sequence
from itertools import pairwise

from kinband.service.dashboard.charts.scales import Scale

SHORT = "%.5g"
"""How the numbers of a path are written: to a hundredth of a pixel or less on a picture of 1,000."""


def curve(values: Sequence[float | None], xs: Sequence[float], *, y: Scale, steps: bool = False) -> str:
    """Return the path of a curve: a new piece begins after every missing value; see `lone` for points by themselves.

    Example:
        >>> y = Scale(0.0, 1.0, 100.0, 0.0)
        >>> curve([0.0, 1.0, None, 0.5], [0.0, 10.0, 20.0, 30.0], y=y)
        'M0 100L10 0M30 50h0'
        >>> curve([0.0, 1.0], [0.0, 10.0], y=y, steps=True)
        'M0 100H10V0'
    """
    missing = [i for i, value in enumerate(values) if value is None]
    further = f"H{SHORT}V{SHORT}" if steps else f"L{SHORT} {SHORT}"
    pieces = []
    for before, after in pairwise([-1, *missing, len(values)]):
        heights = y.all([value for value in values[before + 1 : after] if value is not None])
        if heights:
            pieces.append(_piece(xs[before + 1 : after], heights, further=further))
    return "".join(pieces)


def lone(values: Sequence[float | None], xs: Sequence[float], *, y: Scale) -> str:
    """Return the path of those points that have no neighbour to be joined with: drawn as wide as a dot.

    Example:
        >>> lone([0.0, 1.0, None, 0.5], [0.0, 10.0, 20.0, 30.0], y=Scale(0.0, 1.0, 100.0, 0.0))
        'M30 50h0'
    """
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
