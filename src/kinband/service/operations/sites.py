"""Where sectors stand and look, as far as their descriptors say."""

from collections.abc import Mapping
from math import atan2, cos, degrees, isfinite, radians
from typing import Any

from kinband.service.operations.records import Site

_METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of 6,371 km


def sites_of(descriptors: Mapping[str, Mapping[str, Any]]) -> dict[str, Site]:
    """Return the sites of those stations whose descriptors hold one.

    Places are `x_m` and `y_m`, or `longitude` and `latitude`; directions `azimuth_deg` or `azimuth`, in degrees
    clockwise from north, or `azimuth_cos` and `azimuth_sin`, how far they point to the east and to the north.

    Example:
        >>> sites_of({"a": {"x_m": 10, "y_m": 20, "azimuth_deg": 120}, "b": {"land_use": "office"}})
        {'a': Site(x=10.0, y=20.0, azimuth=120.0)}
        >>> sites_of({"a": {"x_m": 0, "y_m": 0, "azimuth_cos": 0.0, "azimuth_sin": -1.0}})["a"].azimuth
        180.0
    """
    placed = {station: place for station, known in descriptors.items() if (place := _place(known)) is not None}
    if not placed:
        return {}
    middle = sum(y for _, y, angles in placed.values() if angles) / max(sum(a for *_, a in placed.values()), 1)
    found = {}
    for station, (x, y, angles) in placed.items():
        if angles:
            x, y = x * cos(radians(middle)) * _METRES_PER_DEGREE, y * _METRES_PER_DEGREE
        found[station] = Site(x, y, _azimuth(descriptors[station]))
    return found


def _place(known: Mapping[str, Any]) -> tuple[float, float, bool] | None:
    for x, y, angles in (("x_m", "y_m", False), ("longitude", "latitude", True)):
        east, north = _number(known.get(x)), _number(known.get(y))
        if east is not None and north is not None:
            return east, north, angles
    return None


def _azimuth(known: Mapping[str, Any]) -> float | None:
    for name in ("azimuth_deg", "azimuth"):
        if (given := _number(known.get(name))) is not None:
            return given % 360.0
    east, north = _number(known.get("azimuth_cos")), _number(known.get("azimuth_sin"))
    if east is None or north is None or east == north == 0:
        return None
    return degrees(atan2(east, north)) % 360.0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)
