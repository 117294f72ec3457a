"""What states the log has seen, so that nothing is recommended far from all experience.

A posterior answers anywhere, with its prior where it knows nothing, and a mistaken unit (per cent for a share) lands
there. A state is familiar while each of its features lies in the range of the rows told, give or take one standard
deviation of that feature over these rows. A feature that never varied must have its one value.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import StateScaler

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
