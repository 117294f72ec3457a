"""What phones measure, when they report it, and who changes cell: filter, events and time-to-trigger of TS 36.331."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, IntArray
from kinband.environments.radio.city import Float32Array
from kinband.environments.radio.parameters import Mobility

# --- What a phone measures and when it reports: layer-3 filter, events and time-to-trigger of TS 36.331 -------------
#
# The network steps in whole seconds while a phone samples every 200 ms, so the filter of clause 5.5.3.2,
# F ← (1 − a)·F + a·M with a = 1/2^(k/4) per sample, is applied with the weight of all samples of a step,
# 1 − (1 − a)^samples. An event fires when its entering condition has held for every measurement during the time to
# trigger; it stays triggered until its leaving condition holds. Times shorter than a step round up to one.


def filter_weight(mobility: Mobility, *, step_s: float) -> float:
    """Return the weight of a step's measurement in the filtered value."""
    a = 0.5 ** (mobility.filter_coefficient / 4)
    return float(1 - (1 - a) ** max(1.0, step_s / mobility.sample_period_s))


def filtered(old: Float32Array, new: Float32Array, *, weight: float, fresh: BoolArray) -> Float32Array:
    """Return the filtered measurement in dBm, (n,); where fresh, the filter starts from the new one."""
    return np.where(fresh, new, old + np.float32(weight) * (new - old))


def a2_enters(serving: Float32Array, threshold: Float32Array, *, hysteresis_db: float) -> BoolArray:
    """Event A2, inequality A2-1: Ms + Hys < Thresh, (n,)."""
    enters: BoolArray = serving + np.float32(hysteresis_db) < threshold
    return enters


def a2_leaves(serving: Float32Array, threshold: Float32Array, *, hysteresis_db: float) -> BoolArray:
    """Event A2, inequality A2-2: Ms − Hys > Thresh, (n,)."""
    leaves: BoolArray = serving - np.float32(hysteresis_db) > threshold
    return leaves


def a3_enters(serving: Float32Array, neighbour: Float32Array, *, offset_db: float, hysteresis_db: float) -> BoolArray:
    """Event A3, inequality A3-1 without cell offsets: Mn − Hys > Ms + Off, (n,)."""
    enters: BoolArray = neighbour - np.float32(hysteresis_db) > serving + np.float32(offset_db)
    return enters


def a3_leaves(serving: Float32Array, neighbour: Float32Array, *, offset_db: float, hysteresis_db: float) -> BoolArray:
    """Event A3, inequality A3-2 without cell offsets: Mn + Hys < Ms + Off, (n,)."""
    leaves: BoolArray = neighbour + np.float32(hysteresis_db) < serving + np.float32(offset_db)
    return leaves


class EventTimers:
    """Time-to-trigger and triggered state of one event for n users.

    Args:
        count: Number of users, n.
        time_to_trigger_s: How long the entering condition must hold.
        step_s: Time between measurements.
    """

    def __init__(self, count: int, *, time_to_trigger_s: float, step_s: float) -> None:
        self.needed = 1 + math.ceil(time_to_trigger_s / step_s - 1e-9)
        self.held: NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self.triggered: BoolArray = np.zeros(count, dtype=bool)

    def advance(self, enters: BoolArray, leaves: BoolArray) -> BoolArray:
        """Take one measurement's conditions, (n,); return for whom the event fires now, (n,)."""
        self.held += 1
        self.held *= enters
        self.triggered &= ~leaves
        fires: BoolArray = (self.held >= self.needed) & ~self.triggered
        self.triggered |= fires
        return fires

    def restart(self, users: IntArray) -> None:
        """Forget what was measured for these users, by number: their serving cell has changed."""
        self.held[users] = 0
        self.triggered[users] = False


# --- Who changes cell: the events of all users, evaluated together once per step ------------------------------------
#
# Event A2 on every layer but the last (down to the next one), event A4 on the layer above for users of every layer but
# the first (up), event A3 inside a layer (within). A4's inequalities are Mn − Hys > Thresh to enter and
# Mn + Hys < Thresh to leave (TS 36.331 clause 5.5.4.5). A user moves at most once per step, between layers first, and
# never past a layer.


@dataclass(frozen=True, eq=False)
class Measurements:
    """What n phones measure in a step on L layers, before errors and filtering.

    Attributes:
        serving: RSRP of the serving cell in dBm, (n,).
        best: RSRP of the strongest cell of each layer in dBm, (n, L).
        best_changed: Whether that cell is another one than before, (n, L).
        is_best: Whether the serving cell is the strongest of its layer, (n,).
        layer: Layer of the serving cell, (n,).
        threshold: Threshold of the serving cell, (n,).
        target_threshold: Threshold of the strongest cell of the layer above, (n,).
        connected: Whether there is such a user at all, (n,).

    Example:
        A user of the first layer at −110 dBm under a threshold of −100 dBm goes down after the time to trigger:

        >>> yes, level = np.array([True]), np.float32([-110])
        >>> seen = Measurements(
        ...     serving=level,
        ...     best=np.float32([[-110, -99]]),
        ...     best_changed=np.array([[False, False]]),
        ...     is_best=yes,
        ...     layer=np.array([0]),
        ...     threshold=np.float32([-100]),
        ...     target_threshold=np.float32([-100]),
        ...     connected=yes,
        ... )
        >>> events, rng = HandoverEvents(1, Mobility(), step_s=1.0), np.random.default_rng(0)
        >>> [bool(events.evaluate(seen, rng)[0][0]) for _ in range(3)]
        [False, True, False]
    """

    serving: Float32Array
    best: Float32Array
    best_changed: BoolArray
    is_best: BoolArray
    layer: IntArray
    threshold: Float32Array
    target_threshold: Float32Array
    connected: BoolArray


class HandoverEvents:
    """Filters and timers of n users on L layers.

    Args:
        count: Number of users, n.
        mobility: Hysteresis, offsets, time to trigger, filter.
        step_s: Time between evaluations.
        layers: Number of layers, L.
    """

    def __init__(self, count: int, mobility: Mobility, *, step_s: float, layers: int = 2) -> None:
        self._rules, self._rows, self._layers = mobility, np.arange(count), layers
        self._weight = filter_weight(mobility, step_s=step_s)
        a = 0.5 ** (mobility.filter_coefficient / 4)
        # White errors of variance s² leave a/(2 − a)·s² behind the filter.
        self._error_db = np.float32(mobility.sample_error_db * np.sqrt(a / (2 - a)))
        self._fresh: BoolArray = np.ones(count, dtype=bool)
        self._serving: Float32Array = np.zeros(count, dtype=np.float32)
        self._best: Float32Array = np.zeros((count, layers), dtype=np.float32)
        self._down, self._up, self._within = (
            EventTimers(count, time_to_trigger_s=mobility.time_to_trigger_s, step_s=step_s) for _ in range(3)
        )

    @property
    def preparing(self) -> BoolArray:
        """Users that may soon go down and measure the layer below in gaps, (n,)."""
        return np.asarray(self._down.held > 0)

    def restart(self, slots: IntArray) -> None:
        """Forget the measurements of users with a new serving cell."""
        self._fresh[slots] = True
        for timers in (self._down, self._up, self._within):
            timers.restart(slots)

    def evaluate(self, seen: Measurements, rng: np.random.Generator) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Take one step's measurements; return who goes down, up, and to another cell of the layer, (n,) each."""
        L = self._layers
        error = rng.standard_normal((len(self._rows), L + 1), dtype=np.float32) * self._error_db
        self._serving = filtered(self._serving, seen.serving + error[:, L], weight=self._weight, fresh=self._fresh)
        self._best = filtered(self._best, seen.best + error[:, :L], weight=self._weight, fresh=seen.best_changed)
        self._fresh[:] = False
        down, up = self._goes_down(seen), self._goes_up(seen)
        within = self._goes_within(seen) & ~down & ~up
        return down, up, within

    def _goes_down(self, seen: Measurements) -> BoolArray:
        key = {"hysteresis_db": self._rules.a2_hysteresis_db}
        above_another = seen.layer < self._layers - 1
        low = a2_enters(self._serving, seen.threshold, **key) & above_another & seen.connected
        return self._down.advance(low, a2_leaves(self._serving, seen.threshold, **key))

    def _goes_up(self, seen: Measurements) -> BoolArray:
        level = seen.target_threshold + np.float32(self._rules.return_margin_db)
        hysteresis = np.float32(self._rules.a2_hysteresis_db)
        above = self._best[self._rows, np.maximum(seen.layer - 1, 0)]
        enters = (above - hysteresis > level) & (seen.layer > 0) & seen.connected
        return self._up.advance(enters, above + hysteresis < level)

    def _goes_within(self, seen: Measurements) -> BoolArray:
        key = {"offset_db": self._rules.a3_offset_db, "hysteresis_db": self._rules.a3_hysteresis_db}
        neighbour = self._best[self._rows, seen.layer]
        enters = a3_enters(self._serving, neighbour, **key) & ~seen.is_best & seen.connected
        return self._within.advance(enters, a3_leaves(self._serving, neighbour, **key))
