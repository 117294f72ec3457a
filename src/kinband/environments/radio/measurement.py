"""What a phone measures and when it reports: layer-3 filter, events and time-to-trigger of TS 36.331.

The network steps in whole seconds while a phone samples every 200 ms, so the filter of clause 5.5.3.2,
F ← (1 − a)·F + a·M with a = 1/2^(k/4) per sample, is applied with the weight of all samples of a step,
1 − (1 − a)^samples. An event fires when its entering condition has held for every measurement during the time to
trigger; it stays triggered until its leaving condition holds. Times shorter than a step round up to one.
"""

import math

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, IntArray
from kinband.environments.radio.maps import Float32Array
from kinband.environments.radio.parameters import Mobility


def filter_weight(mobility: Mobility, *, step_s: float) -> float:
    """Return the weight of a step's measurement in the filtered value.

    Example:
        >>> filter_weight(Mobility(filter_coefficient=4), step_s=0.2), filter_weight(Mobility(), step_s=0.4)
        (0.5, 0.75)
    """
    a = 0.5 ** (mobility.filter_coefficient / 4)
    return float(1 - (1 - a) ** max(1.0, step_s / mobility.sample_period_s))


def filtered(old: Float32Array, new: Float32Array, *, weight: float, fresh: BoolArray) -> Float32Array:
    """Return the filtered measurement in dBm, (n,); where fresh, the filter starts from the new one.

    Example:
        >>> levels = np.array([-100, -100], dtype=np.float32), np.array([-90, -90], dtype=np.float32)
        >>> filtered(*levels, weight=0.5, fresh=np.array([False, True])).tolist()
        [-95.0, -90.0]
    """
    return np.where(fresh, new, old + np.float32(weight) * (new - old))


def a2_enters(serving: Float32Array, threshold: Float32Array, *, hysteresis_db: float) -> BoolArray:
    """Event A2, inequality A2-1: Ms + Hys < Thresh, (n,).

    Example:
        >>> a2_enters(np.float32([-102, -100.5]), np.float32([-100, -100]), hysteresis_db=1.0).tolist()
        [True, False]
    """
    enters: BoolArray = serving + np.float32(hysteresis_db) < threshold
    return enters


def a2_leaves(serving: Float32Array, threshold: Float32Array, *, hysteresis_db: float) -> BoolArray:
    """Event A2, inequality A2-2: Ms − Hys > Thresh, (n,).

    Example:
        >>> a2_leaves(np.float32([-99.5, -98]), np.float32([-100, -100]), hysteresis_db=1.0).tolist()
        [False, True]
    """
    leaves: BoolArray = serving - np.float32(hysteresis_db) > threshold
    return leaves


def a3_enters(serving: Float32Array, neighbour: Float32Array, *, offset_db: float, hysteresis_db: float) -> BoolArray:
    """Event A3, inequality A3-1 without cell offsets: Mn − Hys > Ms + Off, (n,).

    Example:
        >>> a3_enters(np.float32([-90, -90]), np.float32([-86, -88]), offset_db=3.0, hysteresis_db=0.0).tolist()
        [True, False]
    """
    enters: BoolArray = neighbour - np.float32(hysteresis_db) > serving + np.float32(offset_db)
    return enters


def a3_leaves(serving: Float32Array, neighbour: Float32Array, *, offset_db: float, hysteresis_db: float) -> BoolArray:
    """Event A3, inequality A3-2 without cell offsets: Mn + Hys < Ms + Off, (n,).

    Example:
        >>> a3_leaves(np.float32([-90, -90]), np.float32([-86, -88]), offset_db=3.0, hysteresis_db=0.0).tolist()
        [False, True]
    """
    leaves: BoolArray = neighbour + np.float32(hysteresis_db) < serving + np.float32(offset_db)
    return leaves


class EventTimers:
    """Time-to-trigger and triggered state of one event for n users.

    Args:
        count: Number of users, n.
        time_to_trigger_s: How long the entering condition must hold.
        step_s: Time between measurements.

    Example:
        >>> timers = EventTimers(1, time_to_trigger_s=0.64, step_s=1.0)
        >>> yes, no = np.array([True]), np.array([False])
        >>> [bool(timers.advance(enter, ~enter)[0]) for enter in (yes, no, yes, yes, yes)]
        [False, False, False, True, False]
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
