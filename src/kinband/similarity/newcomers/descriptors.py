"""What describes a station: numbers and categories by name, as much of it as is known.

Numbers are quantities (a position, a height, a load); text and truth values are categories (a land use, an antenna).
What is missing is simply not there: a name left out, None and nan mean the same. An angle is a poor number, since 359°
and 1° are neighbours: give its sine and cosine.
"""

from collections.abc import Mapping
from math import inf, isfinite, isnan
from numbers import Real
from typing import Any

import numpy as np

from kinband.contexts import LARGEST
from kinband.errors import BadInputError

Value = float | str | bool
Descriptors = Mapping[str, Value]
"""What is known of one station, by name."""


def checked_descriptors(descriptors: Any, *, station: str) -> dict[str, Value]:
    """Return the descriptors of a station in values that JSON can hold, without what is missing.

    Example:
        >>> checked_descriptors({"x_m": 120, "land_use": "office", "height_m": None}, station="3714")
        {'x_m': 120.0, 'land_use': 'office'}
        >>> checked_descriptors({"x_m": [1, 2]}, station="3714")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: descriptor 'x_m' of '3714' must be a number or a word, got [1, 2]
    """
    if not isinstance(descriptors, Mapping):
        raise BadInputError(f"descriptors of {station!r} must map names to values, got {descriptors!r:.60}")
    found: dict[str, Value] = {}
    for name, value in descriptors.items():
        if not isinstance(name, str) or not name:
            raise BadInputError(f"descriptors of {station!r} must have names, got {name!r:.60}")
        plain = _plain(value, name=name, station=station)
        if plain is not None:
            found[name] = plain
    return found


def check_kinds(stations: Mapping[str, Descriptors]) -> dict[str, bool]:
    """Return which descriptors are numbers, by name, or say which is a number here and a word there.

    Example:
        >>> check_kinds({"a": {"x_m": 1.0, "land_use": "office"}, "b": {"land_use": "home"}})
        {'x_m': True, 'land_use': False}
    """
    kinds: dict[str, tuple[bool, str]] = {}
    for station, descriptors in stations.items():
        for name, value in descriptors.items():
            numeric = not isinstance(value, str | bool)
            known, first = kinds.setdefault(name, (numeric, station))
            if known != numeric:
                number, word = (first, station) if known else (station, first)
                raise BadInputError(
                    f"descriptor {name!r} is a number for {number!r} and a category for {word!r}: give one kind for all"
                )
    return {name: numeric for name, (numeric, _) in kinds.items()}


def _plain(value: Any, *, name: str, station: str) -> Value | None:
    """Return a value in JSON's own types, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if not isinstance(value, Real):
        raise BadInputError(f"descriptor {name!r} of {station!r} must be a number or a word, got {value!r:.60}")
    try:
        number = float(value)
    except OverflowError:  # a whole number of Python's has no limit
        number = inf
    if isnan(number):
        return None
    if not isfinite(number):
        raise BadInputError(f"descriptor {name!r} of {station!r} must be finite, got {number}")
    if abs(number) > LARGEST:
        raise BadInputError(
            f"descriptor {name!r} of {station!r} is {number:g}, which is too large to reckon with: repair it, or give "
            "it in a larger unit"
        )
    return number
