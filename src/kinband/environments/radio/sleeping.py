"""Capacity carriers that sleep while the coverage carrier can do without them, and the power that carriers take.

A sector looks at one load: what its coverage carrier carries, or would carry if its capacity carriers slept. Below the
sector's threshold for some time, these hand their users down and switch off; above the threshold and a margin, they
wake. Thresholds of a load and durations are what TS 28.541 clause 4.3.58 (DESManagementFunction) has for it.

A carrier with N transceivers takes N·(P₀ + Δ·P_out), asleep N·P_sleep: equation (1) of Auer et al., "How much energy
is needed to run a wireless network?", IEEE Wireless Communications 18(5), 2011. P_out follows the share of resources in
use, that of reference symbols at least.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray
from kinband.environments.radio.handover import EventTimers
from kinband.environments.radio.parameters import EnergySaving, Parameters


@dataclass(frozen=True, eq=False)
class Energy:
    """What S sectors with L carriers took over a period.

    Attributes:
        watts: Mean power of each carrier, (L, S).
        full_w: What each carrier takes at full load, (L,).
        asleep: Share of the time that the capacity carriers slept, (S,).

    Example:
        >>> Energy(np.array([[300.0], [300.0]]), np.array([900.0, 450.0]), np.zeros(1)).saved.round(3).tolist()
        [0.556]
    """

    watts: FloatArray
    full_w: FloatArray
    asleep: FloatArray

    @property
    def saved(self) -> FloatArray:
        """Share of what all carriers of a sector take at full load that was not taken, (S,)."""
        return np.asarray(1.0 - self.watts.sum(axis=0) / self.full_w.sum())


class Sleepers:
    """The capacity carriers of S sectors, all but the last: awake or asleep, and what was taken so far in a period.

    Args:
        sectors: Number of sectors, S.
        parameters: The carriers, and when they sleep.
        saving: When they sleep, and what they take.

    Example:
        >>> saving = EnergySaving(hold_s=1.0, memory_s=0.1)
        >>> sleepers = Sleepers(1, Parameters(saving=saving), saving)
        >>> sleepers.below[:] = 30
        >>> idle, busy = np.array([[0.0], [0.1]]), np.array([[0.0], [0.5]])
        >>> [bool(sleepers.advance(used)[0]) for used in (idle, idle, idle, busy)], sleepers.asleep.tolist()
        ([False, True, False, True], [False])
    """

    def __init__(self, sectors: int, parameters: Parameters, saving: EnergySaving) -> None:
        self._saving, self._step_s = saving, parameters.step_s
        layers = parameters.layers
        self._in_coverage = np.array([layer.occupied_hz / layers[-1].occupied_hz for layer in layers])
        self._weight = 1 - np.exp(-parameters.step_s / saving.memory_s)
        most_w = 10 ** (np.array([layer.power_dbm for layer in layers]) / 10 - 3)
        self._transceivers = np.maximum(np.round(most_w / saving.most_w), 1)
        self._idle_load = parameters.radio.idle_load
        self._timers = EventTimers(sectors, time_to_trigger_s=saving.hold_s, step_s=parameters.step_s)
        self._load = np.ones(sectors)
        self.below = np.zeros(sectors)
        """The load of the coverage carrier in per cent below which a sector's capacity carriers sleep, (S,)."""
        self.begin_period()

    @property
    def asleep(self) -> BoolArray:
        """Whose capacity carriers sleep, (S,)."""
        return self._timers.triggered

    @property
    def awake(self) -> FloatArray:
        """1 for carriers that are on and 0 for others, (L, S)."""
        on = np.ones((len(self._in_coverage), len(self.below)))
        on[:-1, self.asleep] = 0.0
        return on

    def begin_period(self) -> None:
        """Count anew what is taken."""
        self._joules = np.zeros((len(self._in_coverage), len(self.below)))
        self._asleep_s = np.zeros(len(self.below))
        self._seconds = 0.0

    def advance(self, used: FloatArray) -> BoolArray:
        """Take the share of each carrier's resources that was used in a step, (L, S); return who changes now, (S,)."""
        saving, before = self._saving, self.asleep.copy()
        self._joules += self._power_w(used, before) * self._step_s
        self._asleep_s += before * self._step_s
        self._seconds += self._step_s
        self._load += self._weight * (self._in_coverage @ used - self._load)
        percent = 100 * self._load
        wakes = (percent >= self.below + saving.wake_margin) | (self.below <= 0)
        self._timers.advance(percent < self.below, wakes)
        return np.asarray(before != self.asleep)

    def _power_w(self, used: FloatArray, asleep: BoolArray) -> FloatArray:
        saving, idle = self._saving, self._idle_load
        out_w = saving.most_w * (idle + (1 - idle) * used)
        each = saving.fixed_w + saving.slope * out_w
        each[:-1, asleep] = saving.asleep_w
        return np.asarray(self._transceivers[:, None] * each)

    def energy(self) -> Energy:
        """Return what was taken in the period so far."""
        saving, seconds = self._saving, max(self._seconds, 1e-9)
        full_w = self._transceivers * (saving.fixed_w + saving.slope * saving.most_w)
        return Energy(self._joules / seconds, full_w, self._asleep_s / seconds)
