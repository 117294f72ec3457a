"""What a log covers (its support): the states that stations were in, and who ran which setting; plans stay near it."""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.contexts import ContextEncoder, StateScaler
from kinband.drift import untimed
from kinband.planning.evidence import EvidenceRows
from kinband.planning.period import HOUR_OF_DAY
from kinband.planning.plan import Support
from kinband.space import ConfigurationSpace

# A posterior answers anywhere, with its prior where it knows nothing, and a mistaken unit (per cent for a share) lands
# there. A state is familiar while each of its features lies in the range of the rows told, give or take one standard
# deviation of that feature over these rows. A feature that never varied must have its one value.
#
# A setting is known where every quantity lies in the range that was tried and every category is one that was. Most logs
# hold no random trials: a station ran two or three settings for months, and others tell all there is about the rest.

_BEYOND = 1.0  # standard deviations outside the range of the log that a feature may lie
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StateCoverage:
    """The range of every state feature in the rows told, in the feature's own unit.

    Attributes:
        names: The p state features.
        low: Smallest value, (p,).
        high: Largest value, (p,).
        spread: Standard deviation, (p,).
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, scaler: StateScaler, X: FloatArray) -> "StateCoverage":
        """Return what contexts X (n, d) hold of a state, hour and age aside; without rows, everything is familiar."""
        names = tuple(name for name in untimed(scaler.names) if name not in HOUR_OF_DAY)
        kept = [column for column, name in enumerate(scaler.names) if name in names]
        if not len(X):
            p = len(names)
            return cls(names, np.full(p, -np.inf), np.full(p, np.inf), np.zeros(p))
        S = scaler.centre[kept] + X[:, kept] * scaler.scale[kept]  # one that is ignored has scale 0
        return cls(names, S.min(axis=0), S.max(axis=0), S.std(axis=0))

    def strange(self, state: FloatArray) -> str | None:
        """Return in words which feature of a state (p,) is furthest outside, or None for a familiar state."""
        outside = np.maximum(self.low - state, state - self.high)
        slack = _BEYOND * self.spread + _ROUNDING * (1.0 + np.abs(state))
        far = np.flatnonzero(outside > slack)
        if not len(far):
            return None
        worst = far[np.argmax((outside - slack)[far] / np.maximum(self.spread[far], _ROUNDING))]
        low, high = (f"{limit[worst]:.4g}" for limit in (self.low, self.high))
        known = f"only ever {low}" if low == high else f"{low} to {high}"
        return f"its {self.names[worst]} is {state[worst]:.4g}, the log has {known}"


@dataclass(frozen=True, eq=False)
class SettingCoverage:
    """Who ran which configuration.

    Attributes:
        space: All configurations.
        tasks: Station of each row told, (n,).
        arms: What ran in it, (n,).
        count: Of how many rows of the log it is the mean, (n,).
    """

    space: ConfigurationSpace
    tasks: IntArray
    arms: IntArray
    count: IntArray

    @classmethod
    def of(cls, encoder: ContextEncoder, told: EvidenceRows) -> "SettingCoverage":
        """Return what ran in the rows told; rows outside the space are left out."""
        known = encoder.space.features
        rows = told.X[:, setting_columns(encoder)] if len(told) else known[:0]
        number = np.unique((np.vstack([known, rows]) / _ROUNDING).round(), axis=0, return_inverse=True)[1].ravel()
        arm_of = np.full(len(number), -1, dtype=np.int64)
        arm_of[number[: len(known)]] = np.arange(len(known))
        arms = arm_of[number[len(known) :]]
        return cls(encoder.space, told.tasks[arms >= 0], arms[arms >= 0], told.count[arms >= 0])

    def within(self, rows: BoolArray) -> BoolArray:
        """Return which configurations lie within what some rows (n,) tried, (N,)."""
        ran = np.unique(self.arms[rows])
        inside = np.full(len(self.space), len(ran) > 0)
        for name in self.space.knobs if len(ran) else ():
            values, categorical = _values(self.space, name)
            if categorical:
                inside &= np.isin(values, values[ran])
            else:
                inside &= (values >= values[ran].min()) & (values <= values[ran].max())
        return inside

    def support(self, arm: int, task: int, kin: IntArray) -> Support:
        """Return how often a configuration ran at a station, and at those that it learns from."""
        ran = self.arms == arm
        own = ran & (self.tasks == task)
        others = ran & ~own & np.isin(self.tasks, kin)
        return Support(int(self.count[own].sum()), int(self.count[others].sum()), len(np.unique(self.tasks[others])))

    def compared(self, rows: BoolArray) -> bool:
        """Whether some rows (n,) hold a station that ran two configurations; else any difference may be of stations."""
        pairs = np.unique(self.tasks[rows] * len(self.space) + self.arms[rows])
        return bool((np.diff(pairs // len(self.space)) == 0).any())

    def of_station(self, task: int) -> IntArray:
        """Return the configurations that a task ran, ascending."""
        return np.unique(self.arms[self.tasks == task])


def setting_columns(encoder: ContextEncoder) -> list[int]:
    """Return the columns of a context that hold the configuration."""
    p = len(encoder.state.names)
    return list(range(p, p + encoder.space.features.shape[1]))


def _values(space: ConfigurationSpace, name: str) -> tuple[FloatArray, bool]:
    """Return the values of a knob in all configurations, (N,), and whether they are numbers of categories."""
    column, knob = space.knob(name)
    numbers = range(len(knob.values)) if knob.categorical else knob.values
    return np.array(numbers, dtype=np.float64)[space.codes[:, column]], knob.categorical
