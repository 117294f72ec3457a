"""Who is connected and where: the same people with the same wishes for every control that is played."""

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments.radio.city import Float32Array, Layout
from kinband.environments.radio.parameters import Parameters
from kinband.environments.radio.propagation import (
    INDOOR_DEPTH_M,
    INDOOR_LOSS_DB_M,
    WALL_DEVIATION_DB,
    wall_loss_db,
)

# --- Random numbers keyed by who and when, so that demand does not depend on how the network treats it --------------
#
# A user's sessions and turns are looked up, not drawn in sequence: the same traffic seed brings the same people with
# the same wishes whatever thresholds are played, and two settings can be compared in pairs. The mixing is the
# finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), applied once per key.

KeyArray = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(keys: KeyArray) -> KeyArray:
    """Return well-mixed 64-bit words of keys, (n,)."""
    z = keys + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def uniforms(keys: KeyArray, *, moment: int, stream: int) -> FloatArray:
    """Return numbers spread evenly over (0, 1), one per key, (n,), for a moment and a purpose."""
    salt = mixed(np.array([moment * 16 + stream], dtype=np.uint64))
    words = mixed(mixed(keys) ^ salt)
    numbers: FloatArray = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return numbers


# --- Connected users: who comes, where, for how long, how they move and what walls stand around them ----------------
#
# Users of each land use arrive at random at a rate that follows the hour, in places drawn from the demand map, stay
# for a random time and leave; a user with a file under way stays until it is over. Indoor users stand still behind a
# wall of a low-loss or high-loss building, outdoor users walk or ride. Slots of fixed arrays are used again and
# again, so that every step works on whole arrays.

REFERENCE_STATIONS = 105
"""The number of stations that the user numbers of the land uses are meant for."""

_HOURS = np.arange(0.0, 25.0, 2.0)
_REFRESH_M = 2.0  # a shorter way than this changes the received power by a fraction of a dB
_DRAWS = 11


class People:
    """The connected users of a city, in n slots.

    Args:
        layout: Where they may be.
        parameters: How many, how fast, behind which walls.
        seed: Who comes; the same whatever the network does.
    """

    def __init__(self, layout: Layout, parameters: Parameters, *, seed: int | tuple[int, ...]) -> None:
        self._layout, self._parameters = layout, parameters
        uses, scale = parameters.land_uses, parameters.load * len(layout.names) / REFERENCE_STATIONS
        self._most = np.array([use.users for use in uses]) * scale
        self._profiles = np.array([(*use.profile, use.profile[0]) for use in uses])
        self._places = np.cumsum(layout.demand, axis=1)
        self._walls_db = np.array(
            [[wall_loss_db(layer.frequency_ghz, high=high) for layer in parameters.layers] for high in (False, True)]
        )
        self._rng = np.random.default_rng(seed)
        self._key = mixed(np.asarray(self._rng.integers(2**63, size=1), dtype=np.uint64))
        self._next_key = 0
        peak = float((self._most @ self._profiles).max())
        self._allocate(int(1.3 * peak + 6 * np.sqrt(peak)) + 20)
        self.turned_away = 0

    def _allocate(self, n: int) -> None:
        self.alive: BoolArray = np.zeros(n, dtype=bool)
        self.key = np.zeros(n, dtype=np.uint64)
        self.land: IntArray = np.zeros(n, dtype=np.int64)
        self.x, self.y = np.zeros(n), np.zeros(n)
        self._vx, self._vy = np.zeros(n), np.zeros(n)
        self._seen_x, self._seen_y = np.zeros(n), np.zeros(n)
        self.speed: FloatArray = np.zeros(n)
        self.indoor: BoolArray = np.zeros(n, dtype=bool)
        self.wall: Float32Array = np.ones((n, self._walls_db.shape[1]), dtype=np.float32)
        self.until: FloatArray = np.zeros(n)

    def expected(self, hour: float) -> FloatArray:
        """Return the expected number of connected users of each land use at an hour of the day, (4,)."""
        profile = [np.interp(hour % 24.0, _HOURS, row) for row in self._profiles]
        return np.asarray(self._most * profile, dtype=np.float64)

    def fill(self, *, hour: float, now: float = 0.0) -> None:
        """Start afresh with as many users as the hour has on average."""
        self.alive[:] = False
        self._admit(self._rng.poisson(self.expected(hour)), now)

    def leave(self, now: float, *, busy: BoolArray) -> None:
        """Let users go whose time is over, unless a file of theirs is under way."""
        self.alive &= busy | (self.until > now)

    def arrive(self, now: float, *, hour: float, step_s: float) -> IntArray:
        """Let new users come; return their slots."""
        rate = self.expected(hour) / self._parameters.traffic.connected_s
        return self._admit(self._rng.poisson(rate * step_s), now)

    def _admit(self, counts: NDArray[np.integer], now: float) -> IntArray:
        land = np.repeat(np.arange(len(counts)), counts)
        draws = self._rng.random((len(land), _DRAWS))
        deviation = self._rng.standard_normal(len(land))
        keys = self._key + np.arange(self._next_key, self._next_key + len(land), dtype=np.uint64)
        self._next_key += len(land)
        slots = np.flatnonzero(~self.alive)[: len(land)]
        self.turned_away += len(land) - len(slots)
        if len(slots):
            kept = slice(len(slots))
            self._place(slots, land[kept], draws[kept], deviation[kept])
            self.key[slots], self.alive[slots] = keys[kept], True
            self.until[slots] = now - self._parameters.traffic.connected_s * np.log(1 - draws[kept, 8])
        return slots

    def _place(self, slots: IntArray, land: IntArray, draws: FloatArray, deviation: FloatArray) -> None:
        uses, traffic = self._parameters.land_uses, self._parameters.traffic
        pixel = np.empty(len(slots), dtype=np.int64)
        for use in np.unique(land):
            rows = land == use
            pixel[rows] = np.searchsorted(self._places[use], draws[rows, 0] * self._places[use, -1], side="right")
        row, column = np.divmod(np.minimum(pixel, self._places.shape[1] - 1), self._layout.shape[1])
        self.x[slots] = (column + draws[:, 1]) * self._layout.resolution_m
        self.y[slots] = (row + draws[:, 2]) * self._layout.resolution_m
        self.land[slots] = land
        indoor = draws[:, 3] < np.array([use.indoor for use in uses])[land]
        high = draws[:, 4] < np.array([use.high_loss for use in uses])[land]
        riding = draws[:, 4] < np.array([use.vehicles for use in uses])[land]
        speed = np.where(riding, np.array([use.vehicle_kmh for use in uses])[land], traffic.pedestrian_kmh) / 3.6
        self.indoor[slots], self.speed[slots] = indoor, np.where(indoor, 0.0, speed)
        self._head(slots, 2 * np.pi * draws[:, 5])
        depth = INDOOR_DEPTH_M * draws[:, 6:8].min(axis=1)
        loss = self._walls_db[high.astype(int)] + (INDOOR_LOSS_DB_M * depth)[:, None]
        loss += (np.array(WALL_DEVIATION_DB)[high.astype(int)] * deviation)[:, None]
        loss -= self._floor_gain_db(draws[:, 9], draws[:, 10])[:, None]
        # Upstairs may outweigh a thin wall, but nobody receives more than outdoors.
        self.wall[slots] = np.where(indoor[:, None], 10 ** (-np.maximum(loss, 0.0) / 10), 1.0)
        self._seen_x[slots] = np.inf

    def _floor_gain_db(self, building: FloatArray, floor: FloatArray) -> FloatArray:
        """What standing upstairs takes off the path loss, from two even numbers each, (n,)."""
        radio = self._parameters.radio
        least, most = radio.floors
        floors = least + np.floor(building * (most - least + 1))
        gain: FloatArray = radio.height_gain_db_m * radio.floor_height_m * np.floor(floor * floors)
        return gain

    def _head(self, slots: IntArray, angle: FloatArray) -> None:
        self._vx[slots], self._vy[slots] = np.cos(angle) * self.speed[slots], np.sin(angle) * self.speed[slots]

    def move(self, moment: int, *, step_s: float) -> IntArray:
        """Move outdoor users by one step; return the slots whose received power must be looked up again."""
        moving = np.flatnonzero(self.alive & (self.speed > 0))
        turns = moving[uniforms(self.key[moving], moment=moment, stream=1) < step_s / self._parameters.traffic.turn_s]
        self._head(turns, 2 * np.pi * uniforms(self.key[turns], moment=moment, stream=2))
        width, height = self._layout.extent_m
        _advance(self.x, self._vx, moving, step_s=step_s, length=width)
        _advance(self.y, self._vy, moving, step_s=step_s, length=height)
        drift = np.maximum(np.abs(self.x - self._seen_x), np.abs(self.y - self._seen_y))
        stale = np.flatnonzero(self.alive & (drift > _REFRESH_M))
        self._seen_x[stale], self._seen_y[stale] = self.x[stale], self.y[stale]
        return stale


def _advance(at: FloatArray, velocity: FloatArray, who: IntArray, *, step_s: float, length: float) -> None:
    """Move along one axis and turn back at the borders."""
    there = at[who] + velocity[who] * step_s
    out = (there < 0) | (there > length)
    velocity[who[out]] *= -1
    at[who] = np.clip(there, 0, length)
