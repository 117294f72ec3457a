"""What files users fetch, what a cell can serve of them, and whether they came fast enough."""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments.radio.city import Float32Array
from kinband.environments.radio.demand import KeyArray, uniforms
from kinband.environments.radio.parameters import CQI_EFFICIENCIES, Radio, Traffic

# --- From signals to served bits: SINR, rate, CQI and how the sessions of a cell share its time ---------------------
#
# Interference is coupled to load: a neighbour disturbs for the share of resources it uses, reference symbols at
# least. The rate is the truncated and attenuated Shannon bound of TR 36.942 annex A.2. Active sessions of a cell get
# equal shares of its time (processor sharing); what a session does not need any more within a step goes to the others.

_CQI = np.array(CQI_EFFICIENCIES)


def interference_mw(power: Float32Array, load: Float32Array) -> Float32Array:
    """Return the power received from all cells of each layer, weighted by their load, (n, L).

    Args:
        power: Received power per resource element, (n, L, S).
        load: Share of resources in use, (L, S).
    """
    # einsum and not matmul: its sums do not depend on the number of BLAS threads.
    return np.asarray(np.einsum("nls,ls->nl", power, load), dtype=np.float32)


def bits_per_hz(sinr: FloatArray | Float32Array, *, radio: Radio) -> FloatArray:
    """Return the spectral efficiency at a linear SINR, (n,): 0 below the least, α·log2(1 + SINR), at most the cap."""
    efficiency = np.minimum(radio.shannon_share * np.log2(1 + sinr), radio.most_bits_hz)
    return np.where(sinr < 10 ** (radio.least_sinr_db / 10), 0.0, efficiency)


def cqi_of(sinr: FloatArray | Float32Array, *, radio: Radio) -> IntArray:
    """Return the CQI, 0 to 15, whose efficiency a linear SINR supports, (n,)."""
    return np.asarray(np.searchsorted(_CQI, np.log2(1 + sinr / radio.cqi_gap), side="right"), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Service:
    """What one step gave the n active sessions and took from the cells.

    Attributes:
        bits: Bits served, (n,).
        finished: Whether nothing remains, (n,).
        elapsed: Share of the step after which a finished session had its last bit, 1 for the others, (n,).
        airtime: Share of the step that each cell spent on bulk sessions, (cells,).
    """

    bits: FloatArray
    finished: np.typing.NDArray[np.bool_]
    elapsed: FloatArray
    airtime: FloatArray


def share_cells(
    cell: IntArray, rate_bps: FloatArray, remaining: FloatArray, *, free: FloatArray, step_s: float
) -> Service:
    """Serve active sessions for one step.

    Args:
        cell: Cell of each session, (n,).
        rate_bps: What the session would get alone, (n,).
        remaining: Bits to go, (n,).
        free: Share of each cell's time that small packets leave, (cells,).
        step_s: Length of the step.
    """
    cells = len(free)
    need = remaining / np.maximum(rate_bps, 1e-9)  # seconds alone in the cell
    share = (free * step_s / np.maximum(np.bincount(cell, minlength=cells), 1))[cell]
    used = np.minimum(need, share)
    hungry = need > share
    left = np.bincount(cell, share - used, minlength=cells)
    extra = (left / np.maximum(np.bincount(cell[hungry], minlength=cells), 1))[cell] * hungry
    used = np.minimum(need, share + extra)
    finished = need <= share + extra
    elapsed = np.where(finished, np.minimum(need / np.maximum(share + extra, 1e-12), 1.0), 1.0)
    bits = np.where(finished, remaining, used * rate_bps)
    return Service(bits, finished, elapsed, np.bincount(cell, used, minlength=cells) / step_s)


# --- Bulk sessions: files that users fetch, and whether they came fast enough ---------------------------------------
#
# A session is satisfied when its mean throughput from request to last bit is at least 5 Mbps. Whether it is can be
# told at the latest when the time that 5 Mbps would have taken has passed; it is counted then, and not when the file
# is complete, because a period full of slow sessions would otherwise show only the fast ones. A session that takes
# several times as long is given up. Sessions started = finished + given up + under way, always.


class Sessions:
    """At most one bulk session for each of n users."""

    def __init__(self, count: int, traffic: Traffic) -> None:
        self._traffic = traffic
        # Mean and deviation of the logarithm from those of the size itself.
        self._spread = np.sqrt(np.log(1 + (traffic.file_deviation_bytes / traffic.file_bytes) ** 2))
        self._centre = np.log(traffic.file_bytes) - self._spread**2 / 2
        self.active: BoolArray = np.zeros(count, dtype=bool)
        self.remaining: FloatArray = np.zeros(count)
        self._begun, self._good_s = np.zeros(count), np.zeros(count)
        self._decided: BoolArray = np.zeros(count, dtype=bool)
        self.started = self.finished = self.dropped = 0

    def start(
        self, ready: BoolArray, rate: FloatArray, keys: KeyArray, *, now: float, moment: int, step_s: float
    ) -> None:
        """Start sessions of users that are ready, (n,), and have none, at their rates per second, (n,)."""
        wishes = uniforms(keys, moment=moment, stream=3) < -np.expm1(-rate * step_s)
        slots = np.flatnonzero(wishes & ready & ~self.active)
        bits = self._file_bits(keys[slots], moment)
        self.active[slots], self._decided[slots] = True, False
        self.remaining[slots], self._begun[slots] = bits, now
        self._good_s[slots] = bits / self._traffic.good_bps
        self.started += len(slots)

    def _file_bits(self, keys: KeyArray, moment: int) -> FloatArray:
        u, v = uniforms(keys, moment=moment, stream=4), uniforms(keys, moment=moment, stream=5)
        normal = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)  # Box and Muller, 1958
        size = np.exp(self._centre + self._spread * normal)
        bits: FloatArray = 8 * np.minimum(size, self._traffic.file_most_bytes)
        return bits

    def receive(self, slots: IntArray, service: Service, *, now: float, step_s: float) -> tuple[IntArray, BoolArray]:
        """Take what the active sessions, `slots` (n,), were served in a step.

        Return the slots of sessions that are decided by now, and whether these are satisfied, (k,) each.
        """
        self.remaining[slots] -= service.bits
        took = now + service.elapsed * step_s - self._begun[slots]
        in_time = service.finished & (took <= self._good_s[slots])
        decided = (in_time | (took > self._good_s[slots])) & ~self._decided[slots]
        self._decided[slots] |= decided
        given_up = ~service.finished & (took >= self._traffic.patience * self._good_s[slots])
        self.active[slots[service.finished | given_up]] = False
        self.finished += int(service.finished.sum())
        self.dropped += int(given_up.sum())
        return slots[decided], in_time[decided]
