"""The city of a demonstration: where its stations stand, what they run today and what a day is like.

Where the sectors of a simulated city stand is in the side file that `kinband simulate` writes beside a trace. That file
is data from outside: what a map needs is taken out and checked, the rest is left alone. A trace without such a file, or
with one that says nothing of a layout, has no city, and its report no map.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_array, finite_number
from kinband.environments.radio import KNOB
from kinband.environments.trace import LEAST
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.files import bundled_file
from kinband.version import __version__

USERS = "users"
"""The state feature that counts connected users, as the simulator calls it."""

LOG_ROWS = 20
"""Rows of every station that learners start from."""

_SHOWN = 4  # stations whose day is shown
_BUSY = 0.75  # how far up among the stations of its kind

Day = Mapping[int, Mapping[str, float]]
"""The mean state of a station in each hour that it has rows of."""


# --- Where sectors stand ---------------------------------------------------------------------------------------------


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


# --- What is played on -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CityLog:
    """What is played on.

    Attributes:
        source: "bundled", or the path of a trace.
        trace: All rows, carrying their space.
        city: Where the stations stand, if that is known.
        today: Number of the configuration that the network runs today.
        days: The days of a few stations; none where the trace has no time of day, or more than one quantity to set.
    """

    source: str
    trace: Trace
    city: City | None
    today: int
    days: Mapping[str, Day]

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.trace.space()

    @property
    def hours(self) -> tuple[int, ...]:
        """The hours of the days, ascending."""
        return tuple(sorted({hour for day in self.days.values() for hour in day}))

    @property
    def counts_users(self) -> bool:
        """Whether rewards are known to be shares of users, so that they can be turned into a number of them."""
        return self.city is not None and USERS in self.trace.state_names


def city_log_of(source: str) -> CityLog:
    """Read what is played on: the bundled city, or a trace and, if there is one, its side file."""
    trace = Trace.bundled() if source == "bundled" else Trace.read(source)
    trace = trace.with_space(trace.space())
    _check(trace)
    city = city_of(source, trace)
    return CityLog(source, trace, city, _todays_arm(trace, city), _days(trace, city))


def fingerprint(source: str) -> str:
    """Return a digest of what is read and of the version that reads it: results that share it can be used again."""
    read = (bundled_file("city.parquet") if source == "bundled" else Path(source)).read_bytes()
    return hashlib.sha256(__version__.encode() + read).hexdigest()[:12]


def _check(trace: Trace) -> None:
    """Refuse what cannot be played before anything is learned from it."""
    if len(trace.stations) < 2:
        raise BadInputError(f"the trace holds one station, {trace.stations[0]!r}: sharing takes at least two")
    if len(trace.space()) < 2:
        raise BadInputError("the trace holds one configuration: there is nothing to choose")
    for station, rows in zip(*np.unique(trace.station, return_counts=True), strict=True):
        if rows < LEAST:
            raise BadInputError(
                f"station {str(station)!r} has {rows} row(s), the demonstration needs {LEAST} of each to know what its "
                "configurations earn"
            )


def _todays_arm(trace: Trace, city: City | None) -> int:
    """The threshold that the simulated network starts with; in any other log the configuration run most often."""
    space = trace.space()
    if city is not None and list(space.knobs) == [KNOB] and city.threshold in space.knobs[KNOB]:
        return space.index({KNOB: city.threshold})
    return int(np.bincount(space.indices(trace.configuration), minlength=len(space)).argmax())


def _days(trace: Trace, city: City | None) -> dict[str, Day]:
    space = trace.space()
    if trace.time is None or trace.time.dtype.kind != "M" or len(space.knobs) > 1 or space.categorical:
        return {}
    hours = (trace.time - trace.time.astype("datetime64[D]")) // np.timedelta64(1, "h")
    return {name: _day(trace, name, hours) for name in _shown(trace, city)}


def _day(trace: Trace, station: str, hours: IntArray) -> Day:
    own = trace.station == station
    means = {int(hour): trace.state[own & (hours == hour)].mean(axis=0).tolist() for hour in np.unique(hours[own])}
    return {hour: dict(zip(trace.state_names, mean, strict=True)) for hour, mean in means.items()}


def _shown(trace: Trace, city: City | None) -> list[str]:
    """A busy station of each kind of place, busier than three quarters of its kind; or some along the list."""
    names = trace.stations
    if city is None or not city.kinds or USERS not in trace.state_names:
        return [names[i] for i in np.unique(np.linspace(0, len(names) - 1, _SHOWN).round().astype(int))]
    users = trace.state[:, trace.state_names.index(USERS)]
    busy = {name: float(users[trace.station == name].mean()) for name in names}
    kinds = sorted(set(city.kinds), key=lambda kind: (-city.kinds.count(kind), kind))[:_SHOWN]
    ranked = [sorted((n for n in names if city.kind_of(n) == kind), key=lambda n: busy[n]) for kind in kinds]
    return [own[int(_BUSY * (len(own) - 1))] for own in ranked]
