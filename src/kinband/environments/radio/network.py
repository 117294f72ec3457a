"""The network as it runs: what sectors count, and the loop, one step after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_array, positive_number
from kinband.environments.contract import whole_number
from kinband.environments.radio.city import Float32Array, PowerMap
from kinband.environments.radio.demand import People
from kinband.environments.radio.handover import HandoverEvents, Measurements
from kinband.environments.radio.parameters import CQI_EFFICIENCIES, CQI_LEVELS, GOOD_CQI, Parameters
from kinband.environments.radio.sleeping import Energy, Sleepers
from kinband.environments.radio.traffic import Sessions, bits_per_hz, cqi_of, interference_mw, share_cells
from kinband.errors import BadInputError

# --- What a sector counts in a measurement period, and the report that comes of it ----------------------------------
#
# The report holds the state features of the paper's table, the reward (satisfied sessions over all layers of the
# sector) and, beside it, what an engineer asks for next: the capacity cell's own count, loads and handovers. A cell
# that sheds its weak users looks good by its own count while the sector does not; only the sector's is the reward.

STATE_NAMES = ("active_users", "cqi_share", "small_packet_sdu_share", "small_packet_volume_share", "users")
"""The state features, in the order of the paper's table."""


@dataclass(frozen=True, eq=False)
class Report:
    """Measurements of S sectors with L layers over one period.

    Attributes:
        seconds: Length of the period.
        users: Mean number of connected users (compare RRC.ConnMean), (S,).
        active_users: Mean number of users with a bulk session under way (compare DRB.UEActive), (S,).
        cqi_share: Share of CQI reports of 10 and above, where 64QAM starts (compare CARR.WBCQIDist), (S,).
        small_packet_sdu_share: Share of small packets among all packets, (S,).
        small_packet_volume_share: Share of small packets in the volume, (S,).
        sessions: Bulk sessions decided in the period, over all layers, (S,).
        satisfied: Those with at least 5 Mbps, (S,).
        capacity_sessions: Sessions decided on the first layer's cell alone, (S,).
        capacity_satisfied: Those with at least 5 Mbps, (S,).
        utilisation: Mean share of resources in use, from capacity to coverage, (L, S).
        handovers: By sector left: down a layer, up a layer, within a layer, (3, S).
        ping_pongs: Handovers back to the cell that was left a few seconds ago, by sector left, (S,).
        cqi_reports: CQI reports by their value, 0 to 15, (S, 16).
        packets: Small packets and all packets, (2, S).
        volume_bytes: What they hold, (2, S).
        energy: What carriers took, where capacity carriers may sleep.

    Example:
        >>> report = Counters(2).report()
        >>> report.good_share.tolist(), report.noise.round(4).tolist()  # nobody asked: even odds, little known
        ([0.5, 0.5], [0.0833, 0.0833])
    """

    seconds: float
    users: FloatArray
    active_users: FloatArray
    cqi_share: FloatArray
    small_packet_sdu_share: FloatArray
    small_packet_volume_share: FloatArray
    sessions: IntArray
    satisfied: IntArray
    capacity_sessions: IntArray
    capacity_satisfied: IntArray
    utilisation: FloatArray
    handovers: IntArray
    ping_pongs: IntArray
    cqi_reports: IntArray
    packets: FloatArray
    volume_bytes: FloatArray
    energy: Energy | None = None

    @property
    def good_share(self) -> FloatArray:
        """The reward: share of satisfied sessions of the sector, (S,); one half where there was none."""
        return np.where(self.sessions > 0, self.satisfied / np.maximum(self.sessions, 1), 0.5)

    @property
    def noise(self) -> FloatArray:
        """Variance of the reward, p(1 − p)/n with p = (satisfied + 1)/(n + 2), (S,); 1/12 where n = 0.

        It counts sessions as independent. Sessions of one period share their cell's luck, so the true variance is
        larger.
        """
        n = np.maximum(self.sessions, 1)
        p = (self.satisfied + 1) / (self.sessions + 2)
        return np.where(self.sessions > 0, p * (1 - p) / n, 1 / 12)

    @property
    def network_share(self) -> float:
        """Share of satisfied sessions of the whole network."""
        return float(self.satisfied.sum() / max(1, self.sessions.sum()))

    @property
    def states(self) -> FloatArray:
        """State features in the order of STATE_NAMES, (S, 5)."""
        return np.column_stack([getattr(self, name) for name in STATE_NAMES])


class Counters:
    """Sums over the steps of a period, for S sectors with L layers."""

    def __init__(self, sectors: int, *, layers: int = 2, bulk_sdu_bytes: float = 1500.0) -> None:
        self._bulk_sdu_bytes = bulk_sdu_bytes
        self.seconds = 0.0
        zeros = np.zeros
        self.user_seconds, self.active_seconds = zeros(sectors), zeros(sectors)
        self.cqi_reports = zeros((sectors, CQI_LEVELS), dtype=np.int64)
        self.small_packets, self.small_bytes = zeros(sectors), zeros(sectors)
        self.bulk_bytes = zeros(sectors)
        cells = (layers, sectors)
        self.sessions, self.satisfied = zeros(cells, dtype=np.int64), zeros(cells, dtype=np.int64)
        self.used_seconds = zeros(cells)
        self.handovers, self.ping_pongs = zeros((3, sectors), dtype=np.int64), zeros(sectors, dtype=np.int64)

    def verdicts(self, layer: IntArray, sector: IntArray, satisfied: np.typing.NDArray[np.bool_]) -> None:
        """Count decided sessions by layer and sector, (n,) each."""
        np.add.at(self.sessions, (layer, sector), 1)
        np.add.at(self.satisfied, (layer[satisfied], sector[satisfied]), 1)

    def report(self, energy: Energy | None = None) -> Report:
        """Return the measurements of the period so far."""
        seconds = max(self.seconds, 1e-9)
        good, reports = self.cqi_reports[:, GOOD_CQI:].sum(axis=1), self.cqi_reports.sum(axis=1)
        packets = np.stack([self.small_packets, self.small_packets + self.bulk_bytes / self._bulk_sdu_bytes])
        volume_bytes = np.stack([self.small_bytes, self.small_bytes + self.bulk_bytes])
        return Report(
            seconds=self.seconds,
            users=self.user_seconds / seconds,
            active_users=self.active_seconds / seconds,
            cqi_share=_share(good, reports),
            small_packet_sdu_share=_share(*packets),
            small_packet_volume_share=_share(*volume_bytes),
            sessions=self.sessions.sum(axis=0),
            satisfied=self.satisfied.sum(axis=0),
            capacity_sessions=self.sessions[0].copy(),
            capacity_satisfied=self.satisfied[0].copy(),
            utilisation=self.used_seconds / seconds,
            handovers=self.handovers.copy(),
            ping_pongs=self.ping_pongs.copy(),
            cqi_reports=self.cqi_reports.copy(),
            packets=packets,
            volume_bytes=volume_bytes,
            energy=energy,
        )


def _share(part: FloatArray | IntArray, whole: FloatArray | IntArray) -> FloatArray:
    """Return part / whole, 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


# --- The network as it runs: one step after the other, with thresholds that a controller may change at any period ---
#
# A step of one second: users leave, arrive and move; phones measure and events hand them over; cells interfere with
# each other according to their load; sessions share what is left. Layers are ordered from capacity to coverage. Event
# A2 on any layer but the last, with the threshold of the serving sector, sends a user to the strongest cell of the
# next layer down; event A4 on the layer above, with threshold + 4 dB of the target sector, brings it back up; event A3
# keeps it on the best cell of its layer. Neighbours feel a sector's threshold through the users it sends over, the
# load these bring and the interference that load makes. A cell that sleeps (`sleeping`) sends its users to the last
# layer, is nobody's best cell and disturbs nobody.

_DOWN, _UP, _WITHIN = 0, 1, 2
_MOST_SMALL_SHARE = 0.5  # assumption: a scheduler keeps half a cell for bulk traffic


class Network:
    """A running network of S sectors with L layers each.

    Args:
        map_: Received powers of a city.
        parameters: Everything else.
        seed: The traffic: who comes when and wants what, and the measurement errors.
        hour: Hour of the day at which it starts, with as many users as that hour has.

    Example:
        >>> from kinband.environments.radio import build_map, draw_layout
        >>> network = Network(build_map(draw_layout(6), Parameters()), Parameters(), seed=1, hour=18.0)
        >>> report = network.run_period([-100.0] * 6, seconds=20)
        >>> report.users.shape, network.now
        ((6,), 20.0)
    """

    def __init__(
        self, map_: PowerMap, parameters: Parameters, *, seed: int | Sequence[int], hour: float = 14.0
    ) -> None:
        seeds = (seed,) if isinstance(seed, int) else tuple(seed)
        for number in seeds:
            whole_number(number, name="seed", least=0)
        self.map, self.parameters = map_, parameters
        self.sectors, self.layers = len(map_.layout.names), len(parameters.layers)
        if (mapped := map_.power.shape[1]) != self.layers:
            raise BadInputError(f"the map has {mapped} layers, the parameters have {self.layers}: build it from them")
        self._start_s = 3600.0 * hour
        self.now, self._moment = 0.0, 0
        self.people = People(map_.layout, parameters, seed=(*seeds, 3))
        self._errors = np.random.default_rng((*seeds, 4))
        n = len(self.people.alive)
        self.sessions = Sessions(n, parameters.traffic)
        self.thresholds = np.full(self.sectors, parameters.start_threshold_dbm, dtype=np.float32)
        self._load = np.full((self.layers, self.sectors), 0.3, dtype=np.float32)
        self.sleepers = None if parameters.saving is None else Sleepers(self.sectors, parameters, parameters.saving)
        self._on = np.ones((self.layers, self.sectors), dtype=np.float32)
        self._sleep_changed: BoolArray = np.zeros(self.sectors, dtype=bool)
        self._prepare(n)
        self.people.fill(hour=hour)
        self._counters = Counters(self.sectors, layers=self.layers)
        self._attach(self._look_up())

    def _prepare(self, n: int) -> None:
        p, L = self.parameters, self.layers
        self._rows = np.arange(n)
        self._power: Float32Array = np.zeros((n, L, self.sectors), dtype=np.float32)
        self._best: IntArray = np.zeros((n, L), dtype=np.int64)
        self._best_dbm: Float32Array = np.full((n, L), -200.0, dtype=np.float32)
        self._best_changed: BoolArray = np.ones((n, L), dtype=bool)
        self.layer: IntArray = np.zeros(n, dtype=np.int64)
        self.sector: IntArray = np.zeros(n, dtype=np.int64)
        self._left_cell: IntArray = np.full(n, -1, dtype=np.int64)
        self._left_at: FloatArray = np.full(n, -np.inf)
        self._handed_over: BoolArray = np.zeros(n, dtype=bool)
        self._events = HandoverEvents(n, p.mobility, step_s=p.step_s, layers=L)
        self._hz = np.array([layer.occupied_hz for layer in p.layers])
        self._offset_db: Float32Array = np.array([layer.threshold_offset_db for layer in p.layers], dtype=np.float32)
        self._noise_mw = np.float32(10 ** (p.radio.noise_dbm / 10))
        self._session_rate = np.array([use.sessions_per_minute for use in p.land_uses]) / 60
        self._packet_rate = np.array([use.packets_per_s for use in p.land_uses])

    @property
    def hour(self) -> float:
        """Hour of the day, 0 to 24."""
        return float((self._start_s + self.now) / 3600 % 24)

    def run_period(self, thresholds: ArrayLike, *, seconds: float) -> Report:
        """Set the thresholds, (S,), run for a while, and return what was measured meanwhile.

        They are those of event A2 in dBm; or, where capacity carriers may sleep, the loads below which they do, in
        per cent of the coverage carrier.
        """
        levels = finite_array(thresholds, name="thresholds", ndim=1)
        if len(levels) != self.sectors:
            raise BadInputError(f"got {len(levels)} thresholds for {self.sectors} sectors: give one each")
        positive_number(seconds, name="seconds")
        if self.sleepers is None:
            self.thresholds[:] = levels
        else:
            self.sleepers.below[:] = levels
            self.sleepers.begin_period()
        sdu_bytes = self.parameters.traffic.bulk_sdu_bytes
        self._counters = Counters(self.sectors, layers=self.layers, bulk_sdu_bytes=sdu_bytes)
        for _ in range(max(1, round(seconds / self.parameters.step_s))):
            self.step()
        return self._counters.report(None if self.sleepers is None else self.sleepers.energy())

    def step(self) -> None:
        """Run one step."""
        step_s = self.parameters.step_s
        self.people.leave(self.now, busy=self.sessions.active)
        arrived = self.people.arrive(self.now, hour=self.hour, step_s=step_s)
        self._look_up()
        self._attach(arrived)
        self._measure()
        self._transmit()
        self.now += step_s
        self._moment += 1
        self._counters.seconds += step_s

    def _look_up(self) -> IntArray:
        """Move users and look up the power of those who went far enough; return their slots."""
        slots = self.people.move(self._moment, step_s=self.parameters.step_s)
        power = self.map.at(self.people.x[slots], self.people.y[slots])
        power *= self.people.wall[slots][:, :, None]
        self._receive(slots, power)
        return slots

    def _receive(self, slots: IntArray, power: Float32Array) -> None:
        """Take the power that users at `slots` (n,) now get from all cells, (n, L, S)."""
        self._power[slots] = power
        self._choose(slots, power if self.sleepers is None else power * self._on)

    def _choose(self, slots: IntArray, power: Float32Array) -> None:
        """Find the best cell of each layer for users at `slots` (n,), by the power of those that are on, (n, L, S)."""
        best = power.argmax(axis=2)
        self._best_changed[slots] |= best != self._best[slots]
        self._best[slots] = best
        strongest = np.take_along_axis(power, best[:, :, None], axis=2)[:, :, 0]
        self._best_dbm[slots] = _dbm(strongest)

    def _attach(self, slots: IntArray) -> None:
        """Connect new users: to the first layer whose best cell is above that sector's threshold, else to the last."""
        strong = self._best_dbm[slots, :-1] >= self.thresholds[self._best[slots, :-1]] + self._offset_db[:-1]
        self.layer[slots] = np.where(strong.any(axis=1), strong.argmax(axis=1), self.layers - 1)
        self.sector[slots] = self._best[slots, self.layer[slots]]
        self._best_changed[slots] = True
        self._left_cell[slots] = -1
        self._events.restart(slots)

    def _measure(self) -> None:
        """Let phones measure, evaluate the events and hand users over."""
        above = np.maximum(self.layer - 1, 0)
        seen = Measurements(
            serving=self.serving_dbm(),
            best=self._best_dbm,
            best_changed=self._best_changed,
            is_best=self._best[self._rows, self.layer] == self.sector,
            layer=self.layer,
            threshold=self.thresholds[self.sector] + self._offset_db[self.layer],
            target_threshold=self.thresholds[self._best[self._rows, above]] + self._offset_db[above],
            connected=self.people.alive,
        )
        down, up, within = (np.flatnonzero(fires) for fires in self._events.evaluate(seen, self._errors))
        self._best_changed[:], self._handed_over[:] = False, False
        self._hand_over(down, self.layer[down] + 1, kind=_DOWN)
        self._hand_over(up, self.layer[up] - 1, kind=_UP)
        self._hand_over(within, self.layer[within], kind=_WITHIN)
        if self.sleepers is not None and self._sleep_changed.any():
            self._switch(self.sleepers)

    def _hand_over(self, slots: IntArray, layer: IntArray, *, kind: int) -> None:
        left, counters = self.sector[slots], self._counters
        old = self.layer[slots] * self.sectors + left
        sector = self._best[slots, layer]
        back = (self._left_cell[slots] == layer * self.sectors + sector) & (
            self.now - self._left_at[slots] <= self.parameters.mobility.ping_pong_s
        )
        np.add.at(counters.handovers[kind], left, 1)
        np.add.at(counters.ping_pongs, left[back], 1)
        self._left_cell[slots], self._left_at[slots] = old, self.now
        self.layer[slots], self.sector[slots] = layer, sector
        self._handed_over[slots] = True
        self._events.restart(slots)

    def _switch(self, sleepers: Sleepers) -> None:
        """Switch capacity carriers off and on, and send the users of those that went off to the last layer."""
        self._on = sleepers.awake.astype(np.float32)
        self._choose(self._rows, self._power * self._on)
        left = np.flatnonzero(self.people.alive & (self._on[self.layer, self.sector] == 0))
        self._hand_over(left, np.full(len(left), self.layers - 1), kind=_DOWN)

    def serving_dbm(self) -> Float32Array:
        """Return the present RSRP of every slot's serving cell, alive or not, (n,)."""
        return _dbm(self._power[self._rows, self.layer, self.sector])

    def sinr(self) -> Float32Array:
        """Return the present SINR of every slot, alive or not, linear, (n,)."""
        rows, radio = self._rows, self.parameters.radio
        load = np.float32(radio.idle_load) + np.float32(1 - radio.idle_load) * self._load
        if self.sleepers is not None:
            load *= self._on
        serving = self._power[rows, self.layer, self.sector]
        total = interference_mw(self._power, load)[rows, self.layer]
        others = np.maximum(total - serving * load[self.layer, self.sector], 0)
        return np.asarray(serving / (others + self._noise_mw), dtype=np.float32)

    def _transmit(self) -> None:
        """Serve small packets first, then bulk sessions, and let the loads follow."""
        p, alive, counters, S = self.parameters, self.people.alive, self._counters, self.sectors
        step_s, mobility = p.step_s, p.mobility
        sinr = self.sinr()
        gaps = mobility.gap_share * ((self.layer > 0) | self._events.preparing)
        lost = mobility.interruption_s / step_s * self._handed_over
        rate = bits_per_hz(sinr, radio=p.radio) * self._hz[self.layer] * (1 - gaps) * (1 - lost)
        cell = self.layer * S + self.sector
        small = self._small_packets(rate, cell)
        rates = self._session_rate[self.people.land]
        ready = alive & (self.people.until > self.now)
        self.sessions.start(ready, rates, self.people.key, now=self.now, moment=self._moment, step_s=step_s)
        slots = np.flatnonzero(self.sessions.active)
        service = share_cells(cell[slots], rate[slots], self.sessions.remaining[slots], free=1 - small, step_s=step_s)
        judged, satisfied = self.sessions.receive(slots, service, now=self.now, step_s=step_s)
        used = (small + service.airtime).reshape(self.layers, S)
        self._load += np.float32(p.radio.load_memory) * (used.astype(np.float32) - self._load)
        counters.used_seconds += used * step_s
        counters.verdicts(self.layer[judged], self.sector[judged], satisfied)
        counters.active_seconds += np.bincount(self.sector[slots], service.elapsed * step_s, minlength=S)
        counters.bulk_bytes += np.bincount(self.sector[slots], service.bits / 8, minlength=S)
        reported = CQI_LEVELS * self.sector[alive] + cqi_of(sinr[alive], radio=p.radio)
        present = np.bincount(reported, minlength=CQI_LEVELS * S).reshape(S, CQI_LEVELS)
        counters.user_seconds += present.sum(axis=1) * step_s
        counters.cqi_reports += present
        if self.sleepers is not None:
            self._sleep_changed = self.sleepers.advance(used)

    def _small_packets(self, rate: FloatArray, cell: IntArray) -> FloatArray:
        """Count this step's small packets; return the share of each cell's time that they take, (L·S,)."""
        p, alive, S = self.parameters, self.people.alive, self.sectors
        packets = self._packet_rate[self.people.land] * alive * p.step_s
        # A phone out of reach still gets its messages at the lowest CQI's rate.
        bits = 8 * p.traffic.packet_bytes * packets
        need = bits / np.maximum(rate, CQI_EFFICIENCIES[0] * self._hz[self.layer])
        share = np.minimum(np.bincount(cell, need, minlength=self.layers * S) / p.step_s, _MOST_SMALL_SHARE)
        drawn = self._errors.poisson(np.bincount(self.sector, packets, minlength=S))
        self._counters.small_packets += drawn
        self._counters.small_bytes += drawn * p.traffic.packet_bytes
        return share


def _dbm(power: Float32Array) -> Float32Array:
    return 10 * np.log10(np.maximum(power, np.float32(1e-25)))
