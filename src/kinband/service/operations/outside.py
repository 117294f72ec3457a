"""States that are far from anything the controller was made for: answered, and said to be.

A counter in another unit, or one that has overflowed, is a number like any other: nothing is refused, and a decision
far from all evidence is made all the same. Where the controller knows what its features are like, by the ranges that
were declared or by the log that it learned from, whoever asks is told.
"""

from collections.abc import Mapping
from math import isfinite

from kinband.contexts import StateScaler

FAR = 10.0
"""Standard deviations from the middle of what was declared or learned from."""
MOST = 5
"""Sentences that one request is answered with."""


def far_outside(scaler: StateScaler, states: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a sentence for each value that is far from what its feature was declared or learned to be.

    Where features were only named, nothing is known of them, and nothing is said.

    Args:
        scaler: Middle and spread of the features.
        states: Values by station and feature.

    Example:
        >>> scaler = StateScaler.from_ranges({"load": (0, 1)})
        >>> far_outside(scaler, {"3714": {"load": 0.4}, "3715": {"load": 40.0}})
        ["load of '3715' is 40, 137 standard deviations from what this controller was made for: check its unit"]
        >>> far_outside(StateScaler.identity(["load"]), {"3714": {"load": 1e15}})
        []
    """
    if (scaler.centre == 0).all() and (scaler.scale == 1).all():
        return []
    known = {n: (float(c), float(s)) for n, c, s in zip(scaler.names, scaler.centre, scaler.scale, strict=True) if s}
    found: list[str] = []
    for station, state in states.items():
        for name, value in state.items():
            centre, scale = known.get(name, (value, 1.0))
            distance = abs(value - centre) / scale
            if distance > FAR or not isfinite(distance):
                found.append(
                    f"{name} of {station!r:.80} is {value:g}, {distance:.0f} standard deviations from what this "
                    "controller was made for: check its unit"
                )
    further = len(found) - MOST
    return found[:MOST] + ([f"and {further} more such values"] if further > 0 else [])
