"""Times as a column of contexts: where the column stands, what is written into it, and a kernel that looks at it.

The clock is the last state feature, before the features of a configuration, so that all arms of a decision share it as
they share the state. Controllers that are asked with context rows have it as their last column. Numbers are taken as
they are, dates as seconds since 1970 in UTC, decisions are counted from 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.contexts import StateScaler
from kinband.drift.rules import LEARNED, Drift
from kinband.errors import BadInputError
from kinband.kernels import Categorical, Constant, Forgetting, Kernel, Linear, Product, SklearnKernel, Sum
from kinband.kernels.forgetting import HALF_LIFE_BOUNDS
from kinband.kernels.scaled import Scaled
from kinband.packed import PackedState
from kinband.records import Samples
from kinband.trace.times import times
from kinband.trace.values import RowError

CLOCK = "clock"
"""The column's name."""

_SHORTEST, _LONGEST = 0.02, 100.0  # a half-life is looked for from so much to so much of the log's length


def timed_scaler(state: StateScaler) -> StateScaler:
    """Return a scaler with the clock as its last feature, left as it is.

    Example:
        >>> timed_scaler(StateScaler.identity(["load"])).names
        ('load', 'clock')
    """
    if CLOCK in state.names:
        raise BadInputError(f"a state feature is called {CLOCK!r}, as the clock of drift= is: give it another name")
    return StateScaler((*state.names, CLOCK), np.append(state.centre, 0.0), np.append(state.scale, 1.0))


def untimed(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without the clock's.

    Example:
        >>> untimed(("load", "clock", "tilt"))
        ('load', 'tilt')
    """
    return tuple(name for name in names if name != CLOCK)


def timed_samples(samples: Samples, at: FloatArray, features: Sequence[str]) -> Samples:
    """Return a log with its times (n,) as a column, `features` saying where; one that has it already as it is.

    Example:
        >>> log = Samples(("a",), np.array([0]), np.array([[0.3, 1.0]]), np.array([0.5]), None, ("load", "tilt"))
        >>> timed_samples(log, np.array([7.0]), ("load", "clock", "tilt")).X.tolist()
        [[0.3, 7.0, 1.0]]
    """
    if CLOCK in samples.features:
        return samples
    place = list(features).index(CLOCK)
    codes = tuple(code + (code >= place) for code in samples.categorical)
    X = np.insert(samples.X, place, at, axis=1)
    return replace(samples, X=X, features=tuple(features), categorical=codes)


def forgetful(kernel: Kernel, drift: Drift, features: Sequence[str], *, span: float = 1.0) -> Kernel:
    """Return a kernel of all other columns times one that forgets, bound to `features`, the clock's among them.

    Args:
        kernel: Bound to the features without the clock.
        drift: The half-life; one that is to be learned starts at the length of the log.
        features: Names of all columns.
        span: Length of the log, to say where a half-life is looked for.

    Example:
        >>> from kinband.kernels import RBF
        >>> forgetful(RBF(0.5).bind(["load"]), Drift(20), ["load", "clock"])
        RBF(length_scale=0.5, columns=(0,)) * Forgetting(length_scale=20.0, columns=(1,), fixed=(...))
    """
    learned = drift.half_life == LEARNED
    half_life = span if learned else float(drift.half_life)  # type: ignore[arg-type]  # a number: checked by Drift
    fixed = ("variance",) if learned else ("length_scale", "variance")
    limits = (_SHORTEST * span, _LONGEST * span) if learned else HALF_LIFE_BOUNDS
    fading = Forgetting(half_life, keep=drift.keep, columns=[CLOCK], fixed=fixed, length_scale_bounds=limits)
    return Product(_named(kernel, untimed(features)).bind(features), fading.bind(features))


def _named(kernel: Kernel, features: Sequence[str]) -> Kernel:
    """Return a kernel bound to some features with its columns by name, so that it can be bound to more of them."""
    match kernel:
        case Product(left, right):
            return Product(_named(left, features), _named(right, features))
        case Sum(left, right):
            return Sum(_named(left, features), _named(right, features))
        case Constant():
            return kernel
        case Scaled() | Linear() | Categorical() | SklearnKernel():
            used: Any = range(len(features)) if kernel.columns is None else kernel.columns
            return replace(kernel, columns=[features[column] for column in used])
    raise BadInputError(
        f"forgetting multiplies kernels of kinband.kernels or of scikit-learn, got {type(kernel).__name__}: build the "
        f"product with Forgetting(columns=[{CLOCK!r}]) out of such"
    )


def read_time(time: Any, kind: str) -> float:
    """Return a time as the number that goes into the column, or say what was expected.

    Example:
        >>> read_time("1970-01-02", "dates"), read_time(3, "numbers")
        (86400.0, 3.0)
    """
    if kind == "numbers":
        return finite_number(time, name="time")
    try:
        moment = times([time], label="time")
    except RowError as error:
        raise BadInputError(f"time must be a date such as '2024-05-01 14:00', got {time!r:.60}") from error
    if moment.dtype.kind != "M":
        raise BadInputError(f"time must be a date such as '2024-05-01 14:00', got {time!r:.60}: this clock has dates")
    return float(seconds(moment)[0])


def seconds(time: Any) -> FloatArray:
    """Return the times of a trace, (n,), as numbers: of seconds since 1970 where they are dates.

    Example:
        >>> seconds(np.array(["1970-01-01T00:01"], dtype="datetime64[us]"))
        array([60.])
    """
    given = np.asarray(time)
    if given.dtype.kind != "M":
        return given.astype(np.float64)
    return given.astype("datetime64[us]").astype(np.int64) / 1e6


def timed_state(state: Mapping[str, float] | None, clock: float | None) -> PackedState | None:
    """Return a state with the clock in it, to be kept; None where there is neither.

    Example:
        >>> timed_state({"load": 1}, 7.0)
        PackedState({'load': 1.0, 'clock': 7.0})
    """
    if state is None and clock is None:
        return None
    plain = {name: float(value) for name, value in (state or {}).items()}
    return PackedState(plain if clock is None else {**plain, CLOCK: clock})
