"""From a station's state and a configuration to a context: the numbers that kernels compare.

A context is the scaled state followed by the features of a configuration. The state is scaled feature by
feature, (s - centre) / scale, with a centre and a scale that are fixed once: fitted on a log, declared as
ranges where there is no log yet, or left as they are. They never follow the data afterwards, because every
stored context would change its meaning. A feature that does not vary in the log carries no information and
cannot be divided by its spread: it is ignored, which is written as scale 0. The paper joins state and
configuration in the same way and does not say how it scales them.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_array, finite_number
from kinband.errors import BadInputError, SavedStateError
from kinband.space import ConfigurationSpace

LARGEST = 1e150
"""Larger numbers are refused: their squares, which variances and distances are made of, would overflow."""

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class StateScaler:
    """Centre and scale of each state feature.

    Attributes:
        names: The p state features, in order.
        centre: What is subtracted, (p,), in the feature's own unit.
        scale: What is divided by, (p,), in the feature's own unit; 0 for a feature that is ignored.

    Example:
        >>> scaler = StateScaler.from_ranges({"load": (0, 1), "users": (0, 400)})
        >>> scaler.transform(scaler.row({"users": 200, "load": 0.5})).tolist()
        [0.0, 0.0]
    """

    names: tuple[str, ...]
    centre: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        names = checked_names(self.names, what="state features")
        centre = finite_array(self.centre, name="centre", ndim=1).copy()
        scale = finite_array(self.scale, name="scale", ndim=1).copy()
        if not len(names) == len(centre) == len(scale):
            raise BadInputError(f"got {len(names)} names, {len(centre)} centres, {len(scale)} scales: give one each")
        if (scale < 0).any():
            raise BadInputError(f"scale must not be negative, got {scale.min():g}")
        for name, value in (("names", names), ("centre", centre), ("scale", scale)):
            object.__setattr__(self, name, value)
        centre.setflags(write=False)
        scale.setflags(write=False)

    @classmethod
    def fit(cls, names: Sequence[str], S: ArrayLike) -> "StateScaler":
        """Standardise by mean and standard deviation of S, (n, p); warn of features that never vary.

        Example:
            >>> StateScaler.fit(["load"], [[1.0], [3.0]]).scale.tolist()
            [1.0]
        """
        names = checked_names(names, what="state features")
        S = _state_matrix(S, names)
        if not len(S):
            raise BadInputError("the state has no rows: give at least one to fit a scale")
        _refuse_large(S, np.abs(S) > LARGEST, names)
        centre, scale = S.mean(axis=0), S.std(axis=0)
        # A constant column of 0.1 may have sd 1e-17 by rounding: judge by the spread.
        scale[np.ptp(S, axis=0) <= _ROUNDING * np.abs(S).max(axis=0)] = 0.0
        scaler = cls(names, centre, scale)
        if scaler.constant:
            listed = ", ".join(map(repr, scaler.constant))
            text = f"the state feature(s) {listed} never vary in the log: nothing is learned from them"
            warnings.warn(text, UserWarning, stacklevel=2)
        return scaler

    @classmethod
    def from_ranges(cls, ranges: Mapping[str, tuple[float, float]]) -> "StateScaler":
        """Standardise as if each feature were spread evenly over its range: for a start without a log.

        Example:
            >>> StateScaler.from_ranges({"load": (0, 12**0.5)}).scale.tolist()
            [1.0]
        """
        if not isinstance(ranges, Mapping):
            raise BadInputError(f'ranges must be a mapping such as {{"load": (0, 1)}}, got {ranges!r}')
        limits = [_limits(name, bounds) for name, bounds in ranges.items()]
        centre = np.array([(low + high) / 2 for low, high in limits])
        scale = np.array([(high - low) / math.sqrt(12) for low, high in limits])
        return cls(tuple(ranges), centre, scale)

    @classmethod
    def identity(cls, names: Sequence[str]) -> "StateScaler":
        """Leave the features as they are.

        Example:
            >>> StateScaler.identity(["load"]).transform([[0.3]]).tolist()
            [[0.3]]
        """
        names = checked_names(names, what="state features")
        return cls(names, np.zeros(len(names)), np.ones(len(names)))

    @property
    def constant(self) -> tuple[str, ...]:
        """The features that are ignored, because they did not vary when the scale was fitted."""
        return tuple(name for name, scale in zip(self.names, self.scale, strict=True) if scale == 0)

    def transform(self, S: ArrayLike) -> FloatArray:
        """Scale one state (p,) or many (n, p); the shape stays the same.

        Example:
            >>> StateScaler.from_ranges({"load": (0, 1)}).transform([1.7e308])
            Traceback (most recent call last):
                ...
            kinband.errors.BadInputError: state feature 'load' is 1.7e+308, which is too large to compute with: ...
        """
        try:
            S = np.asarray(S, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise BadInputError(f"the state must be numbers, one per feature: {error}") from error
        if S.ndim not in (1, 2) or S.shape[-1] != len(self.names):
            raise BadInputError(f"the state has shape {S.shape}, expected {len(self.names)} feature(s) per row")
        used = self.scale > 0
        out = np.zeros(S.shape)
        with np.errstate(over="ignore"):  # told below, by name
            out[..., used] = (S[..., used] - self.centre[used]) / self.scale[used]
        if not (finite := np.isfinite(out)).all():
            _refuse_large(S, ~finite, self.names)
        return out

    def row(self, state: Mapping[str, float]) -> FloatArray:
        """Return the features of a state in order, (p,), not yet scaled, or say what is wrong with them.

        Example:
            >>> StateScaler.identity(["load", "users"]).row({"load": 0.3})
            Traceback (most recent call last):
                ...
            kinband.errors.BadInputError: the state lacks 'users': give exactly 'load', 'users'
        """
        if not isinstance(state, Mapping):
            raise BadInputError(f"a state must be a mapping from feature to number, got {state!r}")
        known = dict.fromkeys(self.names)
        missing, extra = [n for n in known if n not in state], [n for n in state if n not in known]
        if missing or extra:
            complaints = [f"lacks {_quoted(missing)}"] * bool(missing) + [f"has unknown {_quoted(extra)}"] * bool(extra)
            expected = f"exactly {_quoted(self.names)}" if self.names else "an empty state"
            raise BadInputError(f"the state {' and '.join(complaints)}: give {expected}")
        return _numbers(state, self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateScaler):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.names, self.centre.tobytes(), self.scale.tobytes()))

    def to_dict(self) -> dict[str, Any]:
        """Return the scaler as JSON-able values, exactly."""
        return {"names": list(self.names), "centre": self.centre.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "StateScaler":
        """Return the scaler that `to_dict` described.

        Example:
            >>> scaler = StateScaler.from_ranges({"load": (0, 1)})
            >>> StateScaler.from_dict(scaler.to_dict()) == scaler
            True
        """
        try:
            return cls(tuple(saved["names"]), np.array(saved["centre"], float), np.array(saved["scale"], float))
        except (KeyError, TypeError, ValueError) as error:
            raise SavedStateError(f"this is not a saved state scaler: {error}") from error


@dataclass(frozen=True)
class ContextEncoder:
    """Builds contexts: scaled state features, then configuration features.

    Attributes:
        state: Scales the p state features.
        space: Gives the f features of each of the N configurations.

    Example:
        >>> encoder = ContextEncoder(StateScaler.identity(["load"]), ConfigurationSpace(tilt=[2, 6]))
        >>> encoder.features, encoder.contexts({"load": 0.3}).tolist()
        (('load', 'tilt'), [[0.3, -1.0], [0.3, 1.0]])
    """

    state: StateScaler
    space: ConfigurationSpace

    def __post_init__(self) -> None:
        checked_names(self.features, what="state features and knobs together")

    @property
    def features(self) -> tuple[str, ...]:
        """The p + f names of the columns of a context."""
        return (*self.state.names, *self.space.feature_names)

    @property
    def categorical(self) -> tuple[int, ...]:
        """The columns of a context that hold category codes."""
        return tuple(len(self.state.names) + column for column in self.space.categorical)

    def contexts(self, state: Mapping[str, float]) -> FloatArray:
        """Return the contexts of all configurations in one state, (N, p + f)."""
        scaled = self.state.transform(self.state.row(state))
        features = self.space.features
        X = np.empty((len(features), len(scaled) + features.shape[1]))
        X[:, : len(scaled)], X[:, len(scaled) :] = scaled, features
        return X

    def encode(self, S: ArrayLike, arms: IntArray) -> FloatArray:
        """Return the contexts of states S, (n, p) and unscaled, with configurations numbered arms, (n,).

        Example:
            >>> encoder = ContextEncoder(StateScaler.identity(["load"]), ConfigurationSpace(tilt=[2, 6]))
            >>> encoder.encode([[0.3], [0.4]], np.array([1, 0])).tolist()
            [[0.3, 1.0], [0.4, -1.0]]
        """
        S, arms = _state_matrix(S, self.state.names), np.asarray(arms)
        if arms.shape != (len(S),) or not np.issubdtype(arms.dtype, np.integer):
            raise BadInputError(f"arms must be {len(S)} whole numbers, one per row of S, got shape {arms.shape}")
        if len(arms) and not (arms.min() >= 0 and arms.max() < len(self.space)):
            raise BadInputError(f"arms must lie in 0 to {len(self.space) - 1}, got {arms.min()} to {arms.max()}")
        return np.hstack([self.state.transform(S), self.space.features[arms]])

    def to_dict(self) -> dict[str, Any]:
        """Return the encoder as JSON-able values, exactly."""
        return {"state": self.state.to_dict(), "space": self.space.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "ContextEncoder":
        """Return the encoder that `to_dict` described."""
        try:
            state, space = saved["state"], saved["space"]
        except (KeyError, TypeError) as error:
            raise SavedStateError(f"this is not a saved context encoder: {error!r}") from error
        return cls(StateScaler.from_dict(state), ConfigurationSpace.from_dict(space))


def checked_names(names: Iterable[str], *, what: str) -> tuple[str, ...]:
    """Return the names as a tuple after refusing what is empty, repeated or no string.

    Example:
        >>> checked_names(["load", "users"], what="state features")
        ('load', 'users')
    """
    if not isinstance(names, Iterable):
        raise BadInputError(f"the {what} must be a list of names, got {names!r}")
    listed = (names,) if isinstance(names, str) else tuple(names)
    for name in listed:
        if not isinstance(name, str) or not name:
            raise BadInputError(f"the {what} need names that are non-empty strings, got {name!r}")
        if listed.count(name) > 1:
            raise BadInputError(f"the {what} name {name!r} twice: give each its own name")
    return listed


def _state_matrix(S: ArrayLike, names: Sequence[str]) -> FloatArray:
    matrix = finite_array(S, name="the state matrix", ndim=2)
    if matrix.shape[1] != len(names):
        raise BadInputError(f"the state matrix has {matrix.shape[1]} column(s), there are {len(names)} feature names")
    return matrix


def _refuse_large(S: FloatArray, bad: BoolArray, names: Sequence[str]) -> None:
    """Refuse states S, (p,) or (n, p), some of whose values are too large; name the first of them."""
    if not bad.any():
        return
    *row, column = np.argwhere(bad)[0].tolist()
    where = f" in row {row[0] + 1}, counted from 1" if row else ""
    raise BadInputError(
        f"state feature {names[column]!r} is {S[(*row, column)]:g}{where}, which is too large to compute with: repair "
        "it, or give the feature in a larger unit"
    )


def _numbers(state: Mapping[str, Any], names: Sequence[str]) -> FloatArray:
    """The values of a state in order, (p,), after refusing text, missing and infinite values."""
    values = np.empty(len(names))
    for column, name in enumerate(names):
        value = state[name]
        if type(value) is float and math.isfinite(value):  # as it nearly always is
            values[column] = value
            continue
        if isinstance(value, str | bytes):
            raise BadInputError(f"state feature {name!r} must be a number, got {value!r}")
        if isinstance(value, bool | np.bool_):  # as a log has it that names such a column as state: 1 or 0
            value = float(value)
        values[column] = finite_number(value, name=f"state feature {name!r}")
    return values


def _limits(name: str, bounds: object) -> tuple[float, float]:
    if not isinstance(bounds, Sequence | np.ndarray) or isinstance(bounds, str) or len(bounds) != 2:
        raise BadInputError(f"the range of {name!r} must be (low, high), got {bounds!r}")
    low, high = (finite_number(bound, name=f"the range of {name!r}") for bound in bounds)
    if not low < high:
        raise BadInputError(f"the range of {name!r} needs low < high, got {low:g} and {high:g}")
    if max(-low, high) > LARGEST:
        raise BadInputError(
            f"the range of {name!r} is {low:g} to {high:g}, too large to compute with: give it in a larger unit"
        )
    return low, high


def _quoted(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names))
