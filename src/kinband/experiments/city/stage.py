"""What a demonstration is played on: a trace, where its stations stand, what they run today and what a day is like."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinband.arrays import IntArray
from kinband.environments.radio import KNOB
from kinband.environments.trace import LEAST
from kinband.errors import BadInputError
from kinband.experiments.city.layout import City, city_of
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


@dataclass(frozen=True, eq=False)
class Stage:
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


def stage_of(source: str) -> Stage:
    """Read what is played on: the bundled city, or a trace and, if there is one, its side file.

    Example:
        >>> stage = stage_of("bundled")
        >>> stage.space[stage.today], len(stage.days), stage.hours[0]
        ({'handover_threshold_dbm': -100}, 4, 14)
    """
    trace = Trace.bundled() if source == "bundled" else Trace.read(source)
    trace = trace.with_space(trace.space())
    _check(trace)
    city = city_of(source, trace)
    return Stage(source, trace, city, _todays_arm(trace, city), _days(trace, city))


def fingerprint(source: str) -> str:
    """Return a digest of what is read and of the version that reads it: results that share it can be used again.

    Example:
        >>> fingerprint("bundled") == fingerprint("bundled")
        True
    """
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
