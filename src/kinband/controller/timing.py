"""How a clock gets into settings: one more column of contexts, a kernel that forgets, a log with its times.

From a log with times, a half-life that is to be learned is fitted with the rest of the kernel by marginal likelihood;
one that is given stays as it is. A log without times is as old as the first decision.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import ContextEncoder
from kinband.drift import CLOCK, LEARNED, Drift, forgetful, seconds, timed_samples, timed_scaler, untimed
from kinband.errors import BadInputError
from kinband.kernels import Forgetting, Kernel, Product, as_kernel
from kinband.likelihood import starting_kernel
from kinband.model import Search
from kinband.policies import PolicyFactory
from kinband.records import Samples
from kinband.trace import Trace

_JUDGED = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "super-ucb")
"""Policies that foretell rewards with standard deviations, by a model that tells stations apart."""


def timed_encoder(encoder: ContextEncoder, drift: Drift | None) -> ContextEncoder:
    """Return an encoder whose states have the clock, where anything is forgotten."""
    forgets = drift is not None and drift.forgets
    return ContextEncoder(timed_scaler(encoder.state), encoder.space) if forgets else encoder


def timed_columns(columns: tuple[str, ...], drift: Drift | None) -> tuple[str, ...]:
    """Return the columns of context rows with the clock behind them, where anything is forgotten."""
    if drift is None or not drift.forgets:
        return columns
    if CLOCK in columns:
        raise BadInputError(f"features holds {CLOCK!r}, as the clock of drift= is called: give it another name")
    return (*columns, CLOCK)


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
        raise BadInputError(f"the log has no times, the clock counts {drift.clock}: give it the column {CLOCK!r}")
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


def search_of(kernel: Kernel | None, noise: float | None, mean: float | None) -> Search:
    """Return what may move in a fit: whatever was not given."""
    return Search(kernel=kernel is None, noise=noise is None, mean=mean is None)


def learned_drift(drift: Drift | None, kernel: Kernel) -> Drift | None:
    """Return the drift with the half-life that was fitted."""
    if drift is None or drift.half_life != LEARNED:
        return drift
    fading = kernel.right if isinstance(kernel, Product) else None
    if not isinstance(fading, Forgetting):
        raise AssertionError("a kernel that forgets is a product with one of the clock")
    return replace(drift, half_life=float(np.ravel(fading.length_scale)[0]))


def check_judged(drift: Drift | None, policy: str | PolicyFactory) -> None:
    """Refuse resets where no residual would tell of a change, or none of one station."""
    if drift is not None and drift.resets is not None and isinstance(policy, str) and policy not in _JUDGED:
        raise BadInputError(
            f"resets judge every station by the predictions of its own model, which the policy {policy!r} has not: "
            f"choose one of {', '.join(_JUDGED)}, or pass Drift(half_life=..., reset=False)"
        )


def log_end(start: Samples | None, column: int) -> float:
    """Return the latest time of a starting log, minus infinity where there is none."""
    times: FloatArray = np.empty(0) if start is None else start.X[:, column]
    return float(times.max(initial=-np.inf))


def half_life_note(drift: Drift | None) -> Mapping[str, Any]:
    """Say in the notes of settings what half-life is in force."""
    return {"half_life": drift.half_life, "clock": drift.clock} if drift is not None and drift.forgets else {}


def _clock_of(trace: Trace, drift: Drift) -> Any:
    """Return what the clock counts, or say that the log does not have it."""
    if drift.clock == "decisions":
        return drift.clock
    if trace.time is None:
        learned = drift.half_life == LEARNED  # from times, which a clock of decisions has not
        instead = "give a half-life in decisions" if learned else "let the clock count decisions"
        raise BadInputError(f"the trace has no times to forget by: add a time column, or {instead}")
    kind = "dates" if trace.time.dtype.kind == "M" else "numbers"
    if drift.clock not in (None, kind):
        wanted = "a timedelta" if kind == "dates" else "a number and clock='numbers'"
        raise BadInputError(f"the clock counts {drift.clock}, the times of the trace are {kind}: give {wanted}")
    return kind
