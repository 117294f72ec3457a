"""Where the sectors of a simulated city stand: the side file that `kinband simulate` writes beside a trace.

The file is data from outside: what a map needs is taken out and checked, the rest is left alone. A trace without such a
file, or with one that says nothing of a layout, has no city, and its report no map.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_array, finite_number
from kinband.errors import BadInputError
from kinband.trace import Trace
from kinband.trace.files import bundled_file


@dataclass(frozen=True, eq=False)
class City:
    """The sectors of a simulated city.

    Attributes:
        names: Station names, (S,).
        places: Position of each sector's site in metres, east and north, (S, 2).
        azimuths: Direction of each sector in degrees, anticlockwise from east, (S,).
        kinds: Land use that brings most users to each sector, (S,); empty where not known.
        hot_spots: Positions of hot spots in metres, (h, 2).
        threshold: The threshold that the network starts with, in dBm.
        period_minutes: Length of a measurement period; None where not known.
        good_bps: From which rate on a user is satisfied, in bit/s; None where not known.
        seed: What the city was drawn from.

    Example:
        >>> city = city_beside(bundled_file("city.parquet"))
        >>> len(city.names), city.places.shape, city.threshold
        (105, (105, 2), -100.0)
    """

    names: tuple[str, ...]
    places: FloatArray
    azimuths: FloatArray
    kinds: tuple[str, ...]
    hot_spots: FloatArray
    threshold: float
    period_minutes: float | None
    good_bps: float | None
    seed: int

    @property
    def sites(self) -> int:
        """Number of places that sectors stand at."""
        return len(np.unique(self.places, axis=0))

    def kind_of(self, station: str) -> str | None:
        """Return the land use of a sector, None where it is not known."""
        return self.kinds[self.names.index(station)] if self.kinds else None


def city_of(source: str, trace: Trace) -> City | None:
    """Return the city of a trace, None where its side file is missing or holds no layout."""
    city = city_beside(bundled_file("city.parquet") if source == "bundled" else Path(source))
    if city is not None and set(city.names) != set(trace.stations):
        raise BadInputError(
            f"the layout beside {source} names other stations than the trace: simulate both anew, or remove the .json"
        )
    return city


def city_beside(trace_file: Path) -> City | None:
    """Return the city described beside a trace file, None where there is none."""
    side = trace_file.with_suffix(".json")
    if not side.is_file():
        return None
    try:
        found = json.loads(side.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or "layout" not in found:
            return None
        return _city(found)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadInputError(f"{side} is not what `kinband simulate` writes: remove it or write it anew") from error


def _city(found: Mapping[str, Any]) -> City:
    layout = found["layout"]
    names = tuple(str(name) for name in layout["names"])
    sites = finite_array(layout["sites"], name="sites", ndim=2)
    azimuths = finite_array(layout["azimuth_deg"], name="azimuth_deg", ndim=1)
    site, kinds = np.array(layout["site"], dtype=np.int64), tuple(map(str, layout.get("land_use", ())))
    if not len(names) == len(site) == len(azimuths) == (len(kinds) or len(names)) or sites.shape[1] != 2:
        raise ValueError("the lists of the layout differ in length")
    parameters, spots = found["parameters"], layout.get("hot_spots") or np.empty((0, 2))
    return City(
        names=names,
        places=sites[site],
        azimuths=azimuths,
        kinds=kinds,
        hot_spots=finite_array(spots, name="hot_spots", ndim=2),
        threshold=finite_number(parameters["start_threshold_dbm"], name="start_threshold_dbm"),
        period_minutes=_known(found.get("arguments", {}), "period_minutes"),
        good_bps=_known(parameters.get("traffic", {}), "good_bps"),
        seed=int(found["seed"]),
    )


def _known(values: Mapping[str, Any], name: str) -> float | None:
    return None if values.get(name) is None else finite_number(values[name], name=name)
