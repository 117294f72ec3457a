"""Bulk sessions: files that users fetch, and whether they came fast enough.

A session is satisfied when its mean throughput from request to last bit is at least 5 Mbps. Whether it is can be
told at the latest when the time that 5 Mbps would have taken has passed; it is counted then, and not when the file
is complete, because a period full of slow sessions would otherwise show only the fast ones. A session that takes
several times as long is given up. Sessions started = finished + given up + under way, always.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments.radio.hashing import KeyArray, uniforms
from kinband.environments.radio.parameters import Traffic
from kinband.environments.radio.sharing import Service


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Sessions whose satisfaction was decided in a step: slots (n,) and whether they were satisfied (n,).

    Example:
        >>> int(Verdicts(np.array([4, 7]), np.array([True, False])).satisfied.sum())
        1
    """

    slots: IntArray
    satisfied: BoolArray


class Sessions:
    """At most one bulk session for each of n users.

    Example:
        >>> sessions = Sessions(2, Traffic())
        >>> keys, rate = np.arange(2, dtype=np.uint64), np.array([1e9, 0.0])  # certain, never
        >>> sessions.start(np.array([True, True]), rate, keys, now=0.0, moment=0, step_s=1.0)
        >>> sessions.active.tolist(), sessions.started
        ([True, False], 1)
    """

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

    @property
    def under_way(self) -> int:
        """Number of sessions that are neither finished nor given up."""
        return int(self.active.sum())

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

    def receive(self, slots: IntArray, service: Service, *, now: float, step_s: float) -> Verdicts:
        """Take what the active sessions, `slots` (n,), were served in a step; return what is decided by now."""
        self.remaining[slots] -= service.bits
        took = now + service.elapsed * step_s - self._begun[slots]
        in_time = service.finished & (took <= self._good_s[slots])
        decided = (in_time | (took > self._good_s[slots])) & ~self._decided[slots]
        self._decided[slots] |= decided
        given_up = ~service.finished & (took >= self._traffic.patience * self._good_s[slots])
        self.active[slots[service.finished | given_up]] = False
        self.finished += int(service.finished.sum())
        self.dropped += int(given_up.sum())
        return Verdicts(slots[decided], in_time[decided])
