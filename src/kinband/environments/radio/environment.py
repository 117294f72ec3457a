"""The radio network as an environment to learn in: arms are handover thresholds, stations are sectors.

A slot is a measurement period. Its state is what the sectors measured in the period before, so it cannot leak the
action; playing sets thresholds, runs the network for a period and pays each sector its share of satisfied sessions,
with the variance that the number of sessions leaves. Where capacity carriers may sleep (`Parameters.saving`), arms are
the loads below which they do, and the sector is paid the share of the energy at full load that it did not take.
Stations that are not played keep their threshold. What is played changes what comes, for the station and for its
neighbours: the environment is not exogenous, and it does not know what other arms would have earned. Who the neighbours
are follows from the map (`neighbours`). Days run from the first hour to the last and then start again with the next
day's people.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, positive_number
from kinband.contexts import ContextEncoder, StateScaler
from kinband.environments.contract import Outcome, Slot, checked_arms, whole_number
from kinband.environments.radio.city import PowerMap, build_map, draw_layout
from kinband.environments.radio.network import STATE_NAMES, Network, Report
from kinband.environments.radio.parameters import Parameters
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace

KNOB = "handover_threshold_dbm"
"""Name of the knob: a sector's threshold of event A2 on all layers but the last (TS 28.658: a2ThresholdRsrp − 140)."""

THRESHOLDS_DBM = range(-112, -83)
"""The paper's 29 thresholds."""

SLEEP_KNOB = "sleep_threshold_percent"
"""Name of the other knob: the load of the coverage carrier in per cent below which a sector's capacity carriers sleep
(TS 28.541 clause 4.3.58: loadThreshold); at 0 they never do."""

SLEEP_THRESHOLDS_PERCENT = range(0, 81, 10)


@dataclass(frozen=True)
class Knob:
    """What the sectors of a city choose: its name, its values, and what all of them run at first."""

    name: str
    values: range
    start: float


def knob_of(parameters: Parameters) -> Knob:
    """Return what sectors choose.

    Example:
        >>> knob_of(Parameters()).name
        'handover_threshold_dbm'
    """
    if parameters.saving is None:
        return Knob(KNOB, THRESHOLDS_DBM, parameters.start_threshold_dbm)
    return Knob(SLEEP_KNOB, SLEEP_THRESHOLDS_PERCENT, 0.0)


STATE_RANGES = {
    "active_users": (0.0, 10.0),
    "cqi_share": (0.0, 1.0),
    "small_packet_sdu_share": (0.0, 1.0),
    "small_packet_volume_share": (0.0, 0.5),
    "users": (0.0, 100.0),
}
"""What a cold start may assume of the state."""


class RadioEnvironment:
    """A city whose sectors choose handover thresholds, or when carriers sleep, period by period.

    Args:
        stations: Number of sectors.
        layout_seed: Draws the city; `reset` only draws the traffic.
        seed: As if `reset(seed)` had been called.
        period_s: Length of a slot in simulated seconds.
        hours: First and last hour of a day's slots.
        parameters: Everything else about the network; `Parameters(load=1.5)` for half as many users again.
        encoder: Scales states and lists the configurations; by default from declared ranges and all thresholds.
        map_: A map to use instead of building one from `stations` and `layout_seed`.

    Example:
        >>> environment = RadioEnvironment(6, period_s=20)
        >>> environment.features[-1], environment.arms, sorted(environment.slot.states[environment.stations[0]])
        ('handover_threshold_dbm', 29, ['active_users', 'cqi_share', ..., 'users'])
        >>> outcome = environment.play({environment.stations[0]: 5})
        >>> 0 <= outcome[environment.stations[0]].reward <= 1
        True
    """

    exogenous = False
    reward_range = (0.0, 1.0)
    _slot: Slot
    report: Report
    """All measurements of the period before the present slot."""
    earned: Report
    """All measurements of the slot played last; at the turn of a day `report` is that of the next day's start."""

    def __init__(
        self,
        stations: int = 105,
        *,
        layout_seed: int = 0,
        seed: int = 0,
        period_s: float = 270.0,
        hours: tuple[float, float] = (14.0, 22.0),
        parameters: Parameters | None = None,
        encoder: ContextEncoder | None = None,
        map_: PowerMap | None = None,
    ) -> None:
        self.parameters = parameters or Parameters()
        self.period_s, self.hours = positive_number(period_s, name="period_s"), checked_hours(hours)
        self.map = map_ or build_map(draw_layout(stations, seed=layout_seed), self.parameters)
        self.stations = self.map.layout.names
        self.knob = knob_of(self.parameters)
        self._encoder = encoder or ContextEncoder(
            StateScaler.from_ranges(STATE_RANGES), ConfigurationSpace(**{self.knob.name: self.knob.values})
        )
        if set(self._encoder.state.names) != set(STATE_NAMES) or self._encoder.space.feature_names != (self.knob.name,):
            raise BadInputError(f"the encoder must have the state {STATE_NAMES} and the one knob {self.knob.name!r}")
        self.space, self.arms = self._encoder.space, len(self._encoder.space)
        self.features, self.categorical = self._encoder.features, self._encoder.categorical
        self._slots_per_day = max(1, int((self.hours[1] - self.hours[0]) * 3600 / self.period_s + 1e-9))
        self.reset(seed)

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""
        return self._slot

    def neighbours(self, count: int = 4) -> dict[str, list[str]]:
        """Return for each station the stations that its users are most likely handed over to, the likeliest first.

        Where a sector's capacity cell is the strongest, its users go to the strongest coverage cell, which may be
        another sector's, when their level falls below the threshold, and to the second strongest capacity cell when
        they move. Both are counted over the map, each place with the share of users that is there.

        Example:
            >>> environment = RadioEnvironment(6, period_s=20)
            >>> sorted({len(names) for names in environment.neighbours(2).values()})
            [2]
        """
        relations = handover_relations(self.map)
        order = np.argsort(-relations, axis=1, kind="stable")
        most = min(whole_number(count, name="count", least=1), len(self.stations) - 1)
        return {
            station: [self.stations[j] for j in order[i] if j != i][:most] for i, station in enumerate(self.stations)
        }

    def coverage_cells(self, count: int = 4) -> dict[str, dict[str, float]]:
        """Return for each station the share of its users that fall to a station's coverage cell, its own among them."""
        found: dict[str, dict[str, float]] = {}
        for station, row in zip(self.stations, coverage_relations(self.map), strict=True):
            most = [int(j) for j in np.argsort(-row, kind="stable")[:count] if row[j] > 0]
            found[station] = {self.stations[j]: float(row[j]) for j in most}
        return found

    @property
    def hour(self) -> float:
        """Hour of the day at which the present slot starts."""
        return self.network.hour

    def reset(self, seed: int) -> Slot:
        """Go to the first slot of the trajectory that belongs to the seed, and show it."""
        self._seed = whole_number(seed, name="seed", least=0)
        self.thresholds = np.full(len(self.stations), self.knob.start)
        self._begin_day(0)
        self.earned = self.report
        self._show(0)
        return self._slot

    def play(self, arms: Mapping[str, int]) -> dict[str, Outcome]:
        """Set the thresholds of the stations in `arms`, run one period, pay them, and show the next slot."""
        played = checked_arms(arms, stations=self.stations, count=self.arms)
        for station, arm in played.items():
            self.thresholds[self.stations.index(station)] = self.space[arm][self.knob.name]
        self.report = self.earned = self.network.run_period(self.thresholds, seconds=self.period_s)
        outcomes = {station: self._outcome(self.stations.index(station)) for station in played}
        number = self._slot.number + 1
        if number % self._slots_per_day == 0:
            self._begin_day(number // self._slots_per_day)
        self._show(number)
        return outcomes

    def _outcome(self, sector: int) -> Outcome:
        if self.earned.energy is not None:
            return Outcome(float(self.earned.energy.saved[sector]))
        return Outcome(float(self.earned.good_share[sector]), float(self.earned.noise[sector]))

    def _begin_day(self, day: int) -> None:
        """Start a day one period early: that period gives the first slot its state."""
        hour = self.hours[0] - self.period_s / 3600
        self.network = Network(self.map, self.parameters, seed=(self._seed, day), hour=hour)
        self.report = self.network.run_period(self.thresholds, seconds=self.period_s)

    def _show(self, number: int) -> None:
        rows = self.report.states.tolist()
        states = {s: dict(zip(STATE_NAMES, row, strict=True)) for s, row in zip(self.stations, rows, strict=True)}
        contexts = {station: self._encoder.contexts(state) for station, state in states.items()}
        for X in contexts.values():
            X.setflags(write=False)
        self._slot = Slot(number, contexts, states)


def handover_relations(map_: PowerMap) -> FloatArray:
    """Return the share of users that are at home in one sector and next in another, (S, S), zero on the diagonal."""
    S = len(map_.layout.names)
    users = map_.layout.demand.sum(axis=0)
    home = map_.best_sector(0)
    second = np.argsort(-map_.power[:, 0], axis=1, kind="stable")[:, min(1, S - 1)]
    relations = np.zeros((S, S))
    for next_ in (second, map_.best_sector(map_.power.shape[1] - 1)):
        np.add.at(relations, (home, next_), users)
    np.fill_diagonal(relations, 0.0)
    shares: FloatArray = relations / max(float(relations.sum()), 1e-300)
    return shares


def coverage_relations(map_: PowerMap) -> FloatArray:
    """Return by home sector the share of its users whose strongest coverage cell is each sector's, (S, S)."""
    S = len(map_.layout.names)
    relations = np.zeros((S, S))
    last = map_.power.shape[1] - 1
    np.add.at(relations, (map_.best_sector(0), map_.best_sector(last)), map_.layout.demand.sum(axis=0))
    whole = relations.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(relations, whole, out=np.eye(S), where=whole > 0)
    return shares


def checked_hours(hours: tuple[float, float]) -> tuple[float, float]:
    """Return the first and the last hour of a day, or say what is wrong with them."""
    first, last = hours
    if not 0 <= first < last <= 24:
        raise BadInputError(f"hours must be (first, last) within 0 to 24, got {hours}")
    return float(first), float(last)
