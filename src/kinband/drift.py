"""Drift: what was true of a station may cease to be so, little by little or over night.

Slow drift is a matter of the prior: the clock is one more column of the context, and a kernel over it makes old rewards
count less. Every posterior stays as it is. A change over night is an event: rewards fall outside what was predicted
until chance can no longer explain it, and the station starts anew, as a newcomer that resembles its own past a little.
Its old rewards stay evidence for others. Not in the paper, whose stations never change.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import sqrt
from typing import Any, Literal

import numpy as np

from kinband.arrays import FloatArray, finite_number, positive_number
from kinband.contexts import ContextEncoder, StateScaler
from kinband.errors import BadInputError
from kinband.kernels import (
    Categorical,
    Constant,
    Forgetting,
    Kernel,
    Linear,
    Product,
    SklearnKernel,
    Sum,
    TaskCovariance,
    as_kernel,
    components,
)
from kinband.kernels.functions import HALF_LIFE_BOUNDS, Scaled
from kinband.likelihood import starting_kernel
from kinband.records import PackedState, Samples
from kinband.similarity.newcomers import with_row
from kinband.trace import Trace
from kinband.trace.columns import RowError, times

__all__ = ["Drift", "Reset"]

# --- What a user declares of drift: frozen records of a few numbers -------------------------------------------------
#
# `Drift` says how fast what is known fades, by a half-life that is given or learned, and on which clock; `Reset` says
# when a station is taken to have changed, and how much of what it knew it then keeps.

LEARNED = "learned"
"""A half-life that is to be fitted to a log with times."""

Clock = Literal["decisions", "numbers", "dates"]
_CLOCKS = ("decisions", "numbers", "dates")


@dataclass(frozen=True)
class Reset:
    """When a station is taken to have changed, and what it then starts from.

    Attributes:
        run_length: How many decisions of a station there are at least, on average, before a false alarm, where
            predictions hold: a chance of n/run_length in n decisions at most. More is more patient; ten times as much
            takes one or two decisions more to see a large change.
        kept: What its similarity to its own past and to stations that have not changed is multiplied by, from 0 on and
            below 1. To others that have changed as often it is as like as ever.

    Example:
        >>> Reset(kept=1.0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: kept is the share of its similarity that a station keeps, from 0 on and ...
    """

    run_length: float = 2000.0
    kept: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("run_length", "kept"):
            object.__setattr__(self, name, finite_number(getattr(self, name), name=name))
        if not self.run_length >= 2.0:
            raise BadInputError(f"run_length counts decisions and must be at least 2, got {self.run_length:g}")
        if not 0.0 <= self.kept < 1.0:
            raise BadInputError(
                f"kept is the share of its similarity that a station keeps, from 0 on and below 1, got {self.kept:g}"
            )


@dataclass(frozen=True)
class Drift:
    """How a controller keeps up with stations that change.

    Attributes:
        half_life: After how long a reward counts half, in the unit of the clock: a number, or for dates a `timedelta`;
            "learned" to fit it to a log with times; None for no forgetting.
        reset: Whether stations whose rewards leave their bounds start anew: True, False, or a `Reset`.
        keep: Share of what is known that never fades, from 0 on and below 1.
        clock: What the clock counts: "decisions" of the controller, or "numbers" or "dates" that come with every
            question (`ask(..., time=)`). By default dates where the half-life is a `timedelta`, the kind of times that
            the log has where it is learned, else decisions.

    Example:
        >>> Drift(half_life=timedelta(days=7)).clock, Drift(half_life=500).clock, Drift().clock is None
        ('dates', 'decisions', True)
        >>> Drift(reset=False)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: this drift neither forgets nor resets: give half_life=, or leave drift out
    """

    half_life: float | timedelta | np.timedelta64 | str | None = None
    reset: bool | Reset = field(default=True, kw_only=True)
    keep: float = field(default=0.0, kw_only=True)
    clock: Clock | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.reset, bool | Reset):
            raise BadInputError(f"reset must be True, False or Reset(...), got {self.reset!r:.60}")
        if self.clock is not None and self.clock not in _CLOCKS:
            raise BadInputError(f"a clock counts {', '.join(_CLOCKS)}, got {self.clock!r:.60}")
        object.__setattr__(self, "keep", finite_number(self.keep, name="keep"))
        if not 0.0 <= self.keep < 1.0:
            raise BadInputError(f"keep is the share that never fades, from 0 on and below 1, got {self.keep:g}")
        object.__setattr__(self, "reset", Reset() if self.reset is True else self.reset)
        if self.half_life is None:
            self._check_still()
            return
        dates = isinstance(self.half_life, timedelta | np.timedelta64)
        object.__setattr__(self, "half_life", _half_life(self.half_life))
        if dates and self.clock not in (None, "dates"):
            raise BadInputError(f"a half-life in days and hours needs a clock of dates, got {self.clock!r}")
        if self.half_life == LEARNED and self.clock == "decisions":
            raise BadInputError(
                "a half-life is learned from the times of a log, which a clock of decisions does not have"
            )
        if self.clock is None and self.half_life != LEARNED:
            object.__setattr__(self, "clock", "dates" if dates else "decisions")

    def _check_still(self) -> None:
        if not self.reset:
            raise BadInputError("this drift neither forgets nor resets: give half_life=, or leave drift out")
        if self.clock is not None or self.keep:
            raise BadInputError("clock= and keep= are for forgetting: give half_life= too")

    @property
    def forgets(self) -> bool:
        """Whether what is known fades."""
        return self.half_life is not None

    @property
    def resets(self) -> Reset | None:
        """When stations start anew; None for never."""
        return self.reset if isinstance(self.reset, Reset) else None


def drift_from(given: Any) -> Drift | None:
    """Return the drift that is declared, None for none, or say what came instead."""
    if given is None or isinstance(given, Drift):
        return given
    raise BadInputError(f"drift takes Drift(...), got {given!r:.60}")


def drift_to_dict(drift: Drift) -> dict[str, Any]:
    """Return a drift as JSON-able values."""
    rule = drift.resets
    reset = None if rule is None else {"run_length": rule.run_length, "kept": rule.kept}
    return {"half_life": drift.half_life, "reset": reset, "keep": drift.keep, "clock": drift.clock}


def drift_from_dict(values: Mapping[str, Any]) -> Drift:
    """Return the drift that `drift_to_dict` wrote."""
    reset = values["reset"]
    rule = False if reset is None else Reset(reset["run_length"], kept=reset["kept"])
    return Drift(values["half_life"], reset=rule, keep=values["keep"], clock=values["clock"])


def _half_life(given: Any) -> float | str:
    """Return a half-life as a number, of seconds where it is a time."""
    if isinstance(given, np.timedelta64):
        return _seconds(given)
    if isinstance(given, timedelta):
        return positive_number(given.total_seconds(), name="half_life")
    if isinstance(given, str | bool | np.bool_):
        if given != LEARNED:
            raise BadInputError(f"half_life must be a number, a timedelta or {LEARNED!r}, got {given!r:.60}")
        return LEARNED
    return positive_number(given, name="half_life")


def _seconds(span: np.timedelta64) -> float:
    """Return a time span of NumPy's in seconds; months and years have no fixed length, and NaT has none."""
    unit = np.datetime_data(span.dtype)[0]
    if np.isnat(span) or unit in ("generic", "M", "Y"):
        raise BadInputError(f"half_life must be a time span of fixed length, in weeks, days or less, got {span!r}")
    return positive_number(span / np.timedelta64(1, "s"), name="half_life")


# --- Times as a column of contexts: where the column stands, what is written into it, and a kernel that looks at it
#
# The clock is the last state feature, before the features of a configuration, so that all arms of a decision share it
# as they share the state. Controllers that are asked with context rows have it as their last column. Numbers are taken
# as they are, dates as seconds since 1970 in UTC, decisions are counted from 0.

TIME_COLUMN = "clock"
"""The column's name."""

_SHORTEST, _LONGEST = 0.02, 100.0  # a half-life is looked for from so much to so much of the log's length


def timed_scaler(state: StateScaler) -> StateScaler:
    """Return a scaler with the clock as its last feature, left as it is."""
    if TIME_COLUMN in state.names:
        raise BadInputError(
            f"a state feature is called {TIME_COLUMN!r}, as the clock of drift= is: give it another name"
        )
    return StateScaler((*state.names, TIME_COLUMN), np.append(state.centre, 0.0), np.append(state.scale, 1.0))


def untimed(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without the clock's."""
    return tuple(name for name in names if name != TIME_COLUMN)


def timed_samples(samples: Samples, at: FloatArray, features: Sequence[str]) -> Samples:
    """Return a log with its times (n,) as a column, `features` saying where; one that has it already as it is."""
    if TIME_COLUMN in samples.features:
        return samples
    place = list(features).index(TIME_COLUMN)
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
    """
    learned = drift.half_life == LEARNED
    half_life = span if learned else float(drift.half_life)  # type: ignore[arg-type]  # a number: checked by Drift
    fixed = ("variance",) if learned else ("length_scale", "variance")
    limits = (_SHORTEST * span, _LONGEST * span) if learned else HALF_LIFE_BOUNDS
    fading = Forgetting(half_life, keep=drift.keep, columns=[TIME_COLUMN], fixed=fixed, length_scale_bounds=limits)
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
        f"product with Forgetting(columns=[{TIME_COLUMN!r}]) out of such"
    )


def read_time(time: Any, kind: str) -> float:
    """Return a time as the number that goes into the column, or say what was expected."""
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
    """Return the times of a trace, (n,), as numbers: of seconds since 1970 where they are dates."""
    given = np.asarray(time)
    if given.dtype.kind != "M":
        return given.astype(np.float64)
    return given.astype("datetime64[us]").astype(np.int64) / 1e6


def timed_state(state: Mapping[str, float] | None, clock: float | None) -> PackedState | None:
    """Return a state with the clock in it, to be kept; None where there is neither."""
    if state is None and clock is None:
        return None
    plain = {name: float(value) for name, value in (state or {}).items()}
    return PackedState(plain if clock is None else {**plain, TIME_COLUMN: clock})


# --- When rewards have left their bounds: a sequential test with a stated rate of false alarms ----------------------
#
# A reward less its prediction, in standard deviations of the prediction (noise included), is a residual z. If the
# model holds, z is standard normal given everything before it. Had the station changed at some decision, residuals
# since then would be off by some λ, and their likelihood ratio against no change would be Π exp(λz − λ²/2). The test
# adds these up over all moments at which the change may have come (Shiryaev 1963, Roberts 1966) and averages over a
# few shifts λ up and down, which makes for one recursion a shift:
#
#     R ← (R + 1) · exp(λz − λ²/2),   evidence = mean of R over the shifts.
#
# Whatever the model holds for, the evidence less the number of residuals is a martingale. Hence, at the first time the
# evidence reaches A, E[number of residuals] = E[evidence] ≥ A: false alarms are A decisions apart on average or more,
# and come within n decisions with a chance of n/A at most (Doob). Shin, Ramdas and Rinaldo (2024, "E-detectors: a
# nonparametric framework for sequential change detection") prove this for all residuals with E exp(λz − λ²/2) ≤ 1, not
# only normal ones. After a shift of δ the evidence grows by about δ²/2 in its logarithm a decision.
#
# Two precautions keep to that condition, where models are never quite right. Residuals are cut off at `CLIP`, so that
# one odd reward proves nothing: a cut-off normal is less spread than a normal one (in convex order). And a station
# whose residuals have been wider than they should be is judged by its own spread: z is divided by the root mean square
# of the residuals before it, `PRIOR` residuals of size 1 among them, where that is above 1; never below, which would
# only make for alarms that the model does not account for.

SHIFTS: FloatArray = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
"""How far a change is thought to move rewards, in standard deviations of their prediction."""

CLIP = 4.0
"""Residuals count up to this many standard deviations."""

PRIOR = 10.0
"""How many residuals of size 1 a station's own spread starts from."""


class ChangeDetector:
    """How much speaks for a change of one station since it began.

    Attributes:
        value: The evidence; a change is taken for granted when it reaches the run length.
    """

    def __init__(self) -> None:
        self.value = 0.0
        self._R = np.zeros(len(SHIFTS))
        self._squares, self._count = PRIOR, PRIOR

    def stored(self) -> list[Any]:
        """Return JSON-able values that `taken_up` takes."""
        return [self.value, self._R.tolist(), self._squares, self._count]

    @classmethod
    def taken_up(cls, values: Sequence[Any]) -> "ChangeDetector":
        """Return one that goes on where another was."""
        found = cls()
        found.value, shifts, found._squares, found._count = values
        found._R = np.array(shifts, dtype=np.float64)
        return found

    def add(self, z: float) -> None:
        """Take in a residual in standard deviations of its prediction."""
        spread = max(1.0, sqrt(self._squares / self._count))
        scaled = min(max(z / spread, -CLIP), CLIP)
        self._squares += (scaled * spread) ** 2
        self._count += 1.0
        self._R = (self._R + 1.0) * np.exp(SHIFTS * scaled - 0.5 * SHIFTS**2)
        self.value = float(self._R.sum()) / len(SHIFTS)


def residual(reward: float, *, mean: float, std: float, noise: float) -> float:
    """Return a reward less its prediction, in standard deviations of f and noise together."""
    return (reward - mean) / sqrt(std * std + noise)


# --- How alike a station that has changed is to the others, and to its own past: its new row of the task matrix -----
#
# Every station lives in an *era*, which counts how often it has changed. Stations of one era are as alike as ever.
# Between eras, similarity is multiplied by `kept`, that of a station with its own past included: with stations i, j in
# eras e, f
#
#     similarity = K[i, j] · (1 if e = f else kept),
#
# K being the task matrix before anything changed. An entry-wise product of two positive semi-definite tables is one
# too (Schur 1911), so the longer matrix always is, whoever changes and however often. Stations that change are so
# taken to change alike: where a third of a network is upgraded over night, that third goes on learning together, and
# where all of it is, the network starts anew as one. What they knew before is held for true by no more than `kept`.
#
# Once stations have joined it need no longer be such a product, and a row may
# claim more than is possible. Such a row is replaced by the part of it that the vectors of the other tasks can bear.

_OWN = 1e-6  # share of its variance that a row leaves to the station itself where it has to be cut back


def row_after_change(K_Z: TaskCovariance, task: int, *, former: Mapping[int, int], kept: float) -> FloatArray:
    """Return the row of the task after `task` of the same station, behind the M there are, its variance last, (M + 1,).

    Args:
        K_Z: Task matrix, (M, M).
        task: The station's present task.
        former: By task, the one that the same station had before it changed.
        kept: What similarity between eras is multiplied by.
    """
    first, era = _origin(task, former)
    origins = [_origin(other, former) for other in range(len(K_Z))]
    ours = np.array([origin for origin, _ in origins])
    held = np.array([1.0 if then == era + 1 else kept for _, then in origins])
    row = np.append(held * K_Z[first, ours], K_Z[first, first])
    try:
        with_row(K_Z, row)
    except BadInputError:
        return _borne(K_Z, row)
    return row


def _borne(K_Z: TaskCovariance, row: FloatArray) -> FloatArray:
    """Return the part of a row (M + 1,) that the tasks of K_Z (M, M) can bear; groups it does not name stay apart."""
    found = np.append(np.zeros(len(K_Z)), row[-1])
    named = [members for members in components(K_Z) if row[members].any()]
    kin = np.sort(np.concatenate(named))
    within = K_Z[np.ix_(kin, kin)]
    w = np.linalg.pinv(within, rcond=1e-9, hermitian=True) @ row[kin]
    strength = float(w @ within @ w)
    found[kin] = within @ w * np.sqrt(min(1.0, (1.0 - _OWN) * row[-1] / strength))
    return found


def _origin(task: int, former: Mapping[int, int]) -> tuple[int, int]:
    """The first task of the same station, and how often it had changed by then."""
    era = 0
    while task in former:
        task, era = former[task], era + 1
    return task, era


_PAST = re.compile(r" until d\d{6,}$")


def past_name(station: str, decision_id: str) -> str:
    """Return what the past of a station is called once a reward has shown that it changed."""
    return f"{station} until {decision_id}"


def check_past_names(drift: Drift | None, *names: str) -> None:
    """Refuse names that the past of a station would be called by after a reset, where there are resets."""
    if drift is None or drift.resets is None:
        return
    if odd := [name for name in names if _PAST.search(name)]:
        raise BadInputError(
            f"station {odd[0]!r} is named as the past of a station that was reset: give it another name, or pass "
            "Drift(half_life=..., reset=False)"
        )


# --- How a clock gets into a setup: one more column of contexts, a kernel that forgets, a log with its times -------
#
# From a log with times, a half-life that is to be learned is fitted with the rest of the kernel by marginal likelihood;
# one that is given stays as it is. A log without times is as old as the first decision.


def timed_encoder(encoder: ContextEncoder, drift: Drift | None) -> ContextEncoder:
    """Return an encoder whose states have the clock, where anything is forgotten."""
    forgets = drift is not None and drift.forgets
    return ContextEncoder(timed_scaler(encoder.state), encoder.space) if forgets else encoder


def timed_columns(columns: tuple[str, ...], drift: Drift | None) -> tuple[str, ...]:
    """Return the columns of context rows with the clock behind them, where anything is forgotten."""
    if drift is None or not drift.forgets:
        return columns
    if TIME_COLUMN in columns:
        raise BadInputError(f"features holds {TIME_COLUMN!r}, as the clock of drift= is called: give it another name")
    return (*columns, TIME_COLUMN)


def timed_kernel(kernel: Kernel, drift: Drift | None, columns: tuple[str, ...]) -> Kernel:
    """Return a kernel that is bound to all columns but the clock as one that forgets, where anything is forgotten."""
    if drift is None or not drift.forgets:
        return kernel
    if drift.half_life == LEARNED:
        raise BadInputError("half_life='learned' takes a log with times: use Controller.from_trace, or give a number")
    return forgetful(kernel, drift, columns)


def timed_log(log: Samples | None, drift: Drift | None, columns: tuple[str, ...]) -> Samples | None:
    """Return a log with its clock; rows that have none are as old as the first decision."""
    if not isinstance(log, Samples) or drift is None or not drift.forgets or log.features != untimed(columns):
        return log
    if drift.clock != "decisions":
        raise BadInputError(f"the log has no times, the clock counts {drift.clock}: give it the column {TIME_COLUMN!r}")
    return timed_samples(log, np.zeros(len(log)), columns)


def timed_trace(
    trace: Trace, samples: Samples, drift: Drift, *, kernel: Kernel | None, columns: tuple[str, ...]
) -> tuple[Samples, Kernel, Drift]:
    """Return a log in numbers with its times, the kernel to start from, and the drift with its clock.

    Args:
        trace: The log.
        samples: The same in numbers, without times.
        drift: What was declared.
        kernel: What was given; None for one that suits the log.
        columns: Names of the columns of contexts, the clock's among them.
    """
    if drift.half_life == LEARNED and kernel is not None:
        raise BadInputError("half_life='learned' is fitted with the kernel: leave kernel= out, or give a half-life")
    drift = replace(drift, clock=_clock_of(trace, drift))
    at = np.zeros(len(samples)) if drift.clock == "decisions" else seconds(trace.time)
    span = float(np.ptp(at)) if len(at) else 0.0
    plain = starting_kernel(samples) if kernel is None else as_kernel(kernel).bind(samples.features)
    return timed_samples(samples, at, columns), forgetful(plain, drift, columns, span=span or 1.0), drift


def learned_drift(drift: Drift | None, kernel: Kernel) -> Drift | None:
    """Return the drift with the half-life that was fitted."""
    if drift is None or drift.half_life != LEARNED:
        return drift
    fading = kernel.right if isinstance(kernel, Product) else None
    if not isinstance(fading, Forgetting):
        raise AssertionError("a kernel that forgets is a product with one of the clock")
    return replace(drift, half_life=float(np.ravel(fading.length_scale)[0]))


def log_end(start: Samples | None, column: int) -> float:
    """Return the latest time of a starting log, minus infinity where there is none."""
    times: FloatArray = np.empty(0) if start is None else start.X[:, column]
    return float(times.max(initial=-np.inf))


def half_life_note(drift: Drift | None) -> Mapping[str, Any]:
    """Say in the notes of a setup what half-life is in force."""
    return {"half_life": drift.half_life, "clock": drift.clock} if drift is not None and drift.forgets else {}


def _clock_of(trace: Trace, drift: Drift) -> Any:
    """Return what the clock counts, or say that the log does not have it."""
    if drift.clock == "decisions":
        return drift.clock
    if trace.time is None:
        learned = drift.half_life == LEARNED  # from times, which a clock of decisions does not have
        instead = "give a half-life in decisions" if learned else "let the clock count decisions"
        raise BadInputError(f"the trace has no times to forget by: add a time column, or {instead}")
    kind = "dates" if trace.time.dtype.kind == "M" else "numbers"
    if drift.clock not in (None, kind):
        wanted = "a timedelta" if kind == "dates" else "a number and clock='numbers'"
        raise BadInputError(f"the clock counts {drift.clock}, the times of the trace are {kind}: give {wanted}")
    return kind
