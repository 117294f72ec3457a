"""The simulated network of `kinband serve --demo`: hours that come and go, rewards for whatever stations run.

Every sector of the bundled city has 540 measured periods. In an hour of the day a sector is as busy as its land use is
then (`environments.radio.land_use`), and its state is that of the row which is as busy by its own standards. What a
configuration earns in that state is the mean reward of the nearest rows, as in `environments.trace`, with some noise.
A sector can be put into trouble for some hours, so that there is something to roll back. It is made to be looked at:
days are alike, neighbours do not disturb each other, and nothing here is measured. `kinband demo` measures.
"""

from collections.abc import Mapping

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio.land_use import LAND_USES
from kinband.environments.trace import NearestRows
from kinband.errors import BadInputError
from kinband.experiments.city.layout import City, city_of
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

LEAST, MOST = 6, 105
"""How many sectors there can be: few enough to be in the bundled city, enough for every mode."""

_LOG_ROWS = 20  # of a station, as in `kinband demo`; the similarity takes time that grows with their cube
_NEAREST = 5  # rows whose mean is what is earned, as in environments.trace
_SCATTER = 0.02  # standard deviation of what is earned
_UNSTEADY = 0.08  # standard deviation of how busy an hour is
_TROUBLE = 0.4  # share of the reward that trouble costs


class DemoNetwork:
    """Sectors that are in some state every hour, and earn something for what they run.

    Args:
        stations: How many sectors, the most central ones of the bundled city.
        seed: Draws everything random.

    Attributes:
        stations: Their names.
        space: What they can run.
        log: Rows to learn from; what is earned later rests on other rows.
        today: What they run to begin with.
        descriptors: Where they stand and look, and what is around them.

    Example:
        >>> network = DemoNetwork(6, seed=1)
        >>> states = network.begin(18)
        >>> sorted(states[network.stations[0]])[:2], network.today
        (['active_users', 'cqi_share'], {'handover_threshold_dbm': -100})
        >>> 0 <= network.earned(network.stations[0], 12) <= 1
        True
    """

    def __init__(self, stations: int = MOST, *, seed: int = 0) -> None:
        if not LEAST <= stations <= MOST:
            raise BadInputError(f"the simulated network has {LEAST} to {MOST} stations, got {stations}")
        whole = Trace.bundled()
        city = city_of("bundled", whole)
        if city is None:
            raise AssertionError("the bundled city has a layout")
        self.stations: tuple[str, ...] = city.names[:stations]  # in the order of their sites, the innermost first
        trace = whole.select(np.isin(whole.station, self.stations))
        self._rng = np.random.default_rng([seed, 7])
        logged = _logged(trace, self._rng)
        self.log = trace.select(logged)
        self.space: ConfigurationSpace = trace.space()
        self.today = {self.space.feature_names[0]: int(city.threshold)}
        self.descriptors = {name: _descriptors(city, name) for name in self.stations}
        self._busy = {name: _busy_of(city.kind_of(name)) for name in self.stations}
        self._trouble: dict[str, int] = {}  # slots left, with the present one
        self._coming: dict[str, int] = {}
        self._build(trace.select(~logged))

    def _build(self, rows: Trace) -> None:
        """Put the rows that answer into trees, one a station, and sort them by how busy the station was."""
        self._encoder = rows.encoder()
        samples, users = rows.samples(self._encoder), rows.state_names.index("users")
        self._names, self._states, self._trees = rows.state_names, dict[str, FloatArray](), dict[str, NearestRows]()
        self._now: dict[str, FloatArray] = {}
        for name in self.stations:
            own = np.flatnonzero(rows.station == name)
            noise = np.full(len(own), np.nan)
            self._trees[name] = NearestRows(samples.X[own], samples.y[own], noise, count=_NEAREST)
            order: IntArray = np.argsort(rows.state[own, users], kind="stable")
            self._states[name] = rows.state[own][order]

    def begin(self, hour: float) -> dict[str, dict[str, float]]:
        """Begin a slot at an hour of the day and return every station's state."""
        left = {name: slots - 1 for name, slots in self._trouble.items() if slots > 1}
        self._trouble, self._coming = left | self._coming, {}
        states: dict[str, dict[str, float]] = {}
        for name in self.stations:
            busy = self._busy[name](hour) + _UNSTEADY * self._rng.standard_normal()
            rows = self._states[name]
            state = rows[round(min(max(busy, 0.0), 1.0) * (len(rows) - 1))]
            states[name] = dict(zip(self._names, state.tolist(), strict=True))
            self._now[name] = self._encoder.contexts(states[name])
        return states

    def earned(self, station: str, arm: int) -> float:
        """Return what a station earns in this slot with a configuration, from 0 to 1."""
        mean = float(self._trees[station].average(self._now[station][arm : arm + 1])[0][0])
        left = 1.0 - _TROUBLE if station in self._trouble else 1.0
        return float(np.clip(mean * left + _SCATTER * self._rng.standard_normal(), 0.0, 1.0))

    def trouble(self, station: str, slots: int) -> None:
        """Let a station earn much less from the next slot on, for so many."""
        self._coming[station] = slots

    @property
    def troubled(self) -> Mapping[str, int]:
        """The stations that are in trouble or will be, and for how many slots."""
        return self._trouble | self._coming


class _Busy:
    """How busy a kind of land use is by the hour, from 0 to 1."""

    def __init__(self, profile: tuple[float, ...]) -> None:
        self._hours = np.arange(len(profile) + 1) * 24.0 / len(profile)
        self._values = np.array([*profile, profile[0]])

    def __call__(self, hour: float) -> float:
        return float(np.interp(hour % 24.0, self._hours, self._values))


def _busy_of(kind: str | None) -> _Busy:
    profiles = {use.name: use.profile for use in LAND_USES}
    return _Busy(profiles.get(kind or "", profiles["residential"]))


def _logged(trace: Trace, rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which rows are the log: some of every station, drawn at random, (n,)."""
    chosen = np.zeros(len(trace), dtype=np.bool_)
    for name in trace.stations:
        chosen[rng.choice(np.flatnonzero(trace.station == name), _LOG_ROWS, replace=False)] = True
    return chosen


def _descriptors(city: City, name: str) -> dict[str, float | str]:
    """Where a sector stands and looks; maps count clockwise from north, the simulator anticlockwise from east."""
    number = city.names.index(name)
    x, y = city.places[number].tolist()
    azimuth = (90.0 - float(city.azimuths[number])) % 360.0
    return {"x_m": x, "y_m": y, "azimuth_deg": round(azimuth, 1), "land_use": city.kind_of(name) or "residential"}
