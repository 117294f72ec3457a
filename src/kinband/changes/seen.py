"""What states and settings the log has seen, so that nothing is recommended far from all experience.

A posterior answers anywhere, with its prior where it knows nothing, and a mistaken unit (per cent for a share) lands
there. A state is familiar while each of its features lies in the range of the rows told, give or take one standard
deviation of that feature over these rows. A feature that never varied must have its one value.

A setting is known where every quantity lies in the range that was tried and every category is one that was. Most logs
hold no random trials: a station ran two or three settings for months, and others tell all there is about the rest.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.contexts import ContextEncoder, StateScaler
from kinband.space import ConfigurationSpace

BEYOND = 1.0
"""How many standard deviations outside the range of the log a feature may lie."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Seen:
    """The range of every state feature in the rows told, in the feature's own unit.

    Attributes:
        names: The p state features.
        low: Smallest value, (p,).
        high: Largest value, (p,).
        spread: Standard deviation, (p,).

    Example:
        >>> seen = Seen.of(StateScaler.identity(["load"]), np.array([[0.2, 7.0], [0.4, 9.0]]))
        >>> seen.strange(np.array([0.45])), seen.strange(np.array([43.0]))
        (None, 'its load is 43, the log has 0.2 to 0.4')
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, scaler: StateScaler, X: FloatArray) -> "Seen":
        """Return what contexts X (n, d) hold of a state; without rows, everything is familiar."""
        p = len(scaler.names)
        if not len(X):
            return cls(scaler.names, np.full(p, -np.inf), np.full(p, np.inf), np.zeros(p))
        S = scaler.centre + X[:, :p] * scaler.scale  # an ignored feature has scale 0 and its one value as centre
        return cls(scaler.names, S.min(axis=0), S.max(axis=0), S.std(axis=0))

    def strange(self, state: FloatArray) -> str | None:
        """Return in words which feature of a state (p,) is furthest outside, or None for a familiar state."""
        outside = np.maximum(self.low - state, state - self.high)
        slack = BEYOND * self.spread + _ROUNDING * (1.0 + np.abs(state))
        far = np.flatnonzero(outside > slack)
        if not len(far):
            return None
        worst = far[np.argmax((outside - slack)[far] / np.maximum(self.spread[far], _ROUNDING))]
        low, high = (f"{limit[worst]:.4g}" for limit in (self.low, self.high))
        known = f"only ever {low}" if low == high else f"{low} to {high}"
        return f"its {self.names[worst]} is {state[worst]:.4g}, the log has {known}"


@dataclass(frozen=True, eq=False)
class Tried:
    """Who ran which configuration.

    Attributes:
        space: All configurations.
        tasks: Station of each row told, (n,).
        arms: What ran in it, (n,).

    Example:
        >>> encoder = ContextEncoder(StateScaler.identity([]), ConfigurationSpace(tilt=[2, 4, 6, 8]))
        >>> tried = Tried.of(encoder, np.array([0, 0, 1]), encoder.space.features[[1, 1, 3]])
        >>> tried.within(tried.tasks < 2).tolist(), tried.stations(1).tolist(), tried.stations(2).tolist()
        ([False, True, True, True], [0], [])
    """

    space: ConfigurationSpace
    tasks: IntArray
    arms: IntArray

    @classmethod
    def of(cls, encoder: ContextEncoder, tasks: IntArray, X: FloatArray) -> "Tried":
        """Return what ran in rows of tasks (n,) with contexts X (n, d); rows outside the space are left out."""
        known, p = encoder.space.features, len(encoder.state.names)
        rows = X[:, p : p + known.shape[1]] if len(X) else known[:0]
        number = np.unique((np.vstack([known, rows]) / _ROUNDING).round(), axis=0, return_inverse=True)[1].ravel()
        arm_of = np.full(len(number), -1, dtype=np.int64)
        arm_of[number[: len(known)]] = np.arange(len(known))
        arms = arm_of[number[len(known) :]]
        return cls(encoder.space, tasks[arms >= 0], arms[arms >= 0])

    def within(self, rows: BoolArray) -> BoolArray:
        """Return which configurations lie within what some rows (n,) tried, (N,)."""
        ran = np.unique(self.arms[rows])
        inside = np.full(len(self.space), len(ran) > 0)
        for name in self.space.knobs if len(ran) else ():
            column, knob = self.space.knob(name)
            codes = self.space.codes[:, column]
            if knob.categorical:
                inside &= np.isin(codes, codes[ran])
                continue
            values = np.array(knob.values, dtype=np.float64)[codes]
            inside &= (values >= values[ran].min()) & (values <= values[ran].max())
        return inside

    def stations(self, arm: int) -> IntArray:
        """Return the tasks that ran a configuration, ascending."""
        return np.unique(self.tasks[self.arms == arm])
