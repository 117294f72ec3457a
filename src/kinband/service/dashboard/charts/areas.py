"""The part of the world that a map shows: which, how large, and how far its sites are apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_REACH = 0.46  # of the distance to the next site
_AREA = 1000.0  # units of the larger side of the map


def spacing(places: Sequence[tuple[float, float]]) -> float:
    """Return the median distance from a site to the next one, in metres; 500 where there is only one site.

    Example:
        >>> spacing([(0.0, 0.0), (0.0, 0.0), (300.0, 400.0), (600.0, 800.0)])
        500.0
    """
    sites = sorted(set(places))
    if len(sites) < 2:
        return 500.0
    nearest = sorted(min(math.dist(a, b) for b in sites if b != a) for a in sites)
    return nearest[len(nearest) // 2]


@dataclass(frozen=True)
class Area:
    """The part of the world that a map shows.

    Attributes:
        west: Its left edge, in metres.
        north: Its upper edge.
        wide: Its width.
        high: Its height.
        reach: Length of a wedge.

    Example:
        >>> area = Area.of([(0.0, 0.0), (1000.0, 0.0)])
        >>> area.reach, area.wide, area.ruler
        (460.0, 1920.0, 200.0)
    """

    west: float
    north: float
    wide: float
    high: float
    reach: float

    @classmethod
    def of(cls, places: Sequence[tuple[float, float]]) -> "Area":
        """Return the area around some places, with room for their wedges."""
        reach = _REACH * spacing(places)
        west, north = min(x for x, _ in places) - reach, max(y for _, y in places) + reach
        return cls(
            west, north, max(x for x, _ in places) + reach - west, north - min(y for _, y in places) + reach, reach
        )

    @property
    def scale(self) -> float:
        """Units of the map to a metre."""
        return _AREA / max(self.wide, self.high)

    @property
    def ruler(self) -> float:
        """A round length, in metres, of up to a fifth of the width."""
        most = 0.2 * self.wide
        power = 10.0 ** math.floor(math.log10(most))
        return float(max(step * power for step in (1, 2, 5) if step * power <= most))

    def at(self, place: tuple[float, float]) -> tuple[float, float]:
        """Return where a place is on the map."""
        return round((place[0] - self.west) * self.scale, 2), round((self.north - place[1]) * self.scale, 2)
