"""The probabilities with which the log chose what it ran: given and checked, or estimated.

Given ones are of what ran, one per row, or of all configurations. The latter must add up to 1. Of the former only an
average can be checked: wherever p(a|x) > 0, E[1/p] = Σ_a p·(1/p) counts the configurations that could have been chosen,
so its mean over the log cannot lie above the number there are, whatever the log's policy was; that refutes the numbers
and is an error. It may lie below the number that a station has run, when each state leaves other choices; more often
the column is not what it was taken for, and a warning says so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array
from kinband.errors import BadInputError
from kinband.evaluation.frequencies import find_habits
from kinband.trace import Trace

_SUM = 1e-3  # how far probabilities may be from adding up to 1
_SURE = 3.0  # standard errors
_ABOVE, _BELOW = 1.05, 0.5  # shares of a number of configurations that are far from it


@dataclass(frozen=True, eq=False)
class Propensities:
    """How likely the log was to run what it ran.

    Attributes:
        ran: Probability of what ran, (n,), above 0.
        full: Probabilities of all configurations, (n, N), where they are given.
        source: Where they come from, in words.
        warnings: What is doubtful about them.
    """

    ran: FloatArray
    full: FloatArray | None
    source: str
    warnings: tuple[str, ...] = ()

    def take(self, rows: IntArray) -> "Propensities":
        """Return those of some rows."""
        full = None if self.full is None else self.full[rows]
        return Propensities(self.ran[rows], full, self.source, self.warnings)


def given_propensities(values: ArrayLike, trace: Trace, arms: IntArray) -> Propensities:
    """Return the probabilities given for the rows of a log, or say why they cannot be right.

    Args:
        values: Probability of what ran, (n,), or of every configuration of the space, (n, N).
        trace: The log.
        arms: What ran, (n,).

    Example:
        >>> log = {"station": ["a", "a"], "tilt": [2, 4], "reward": [0.8, 0.9]}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> given_propensities([0.5, 50], trace, np.array([0, 1]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: propensities must lie above 0 and not above 1, row 2 has 50: ...
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInputError(
            f"propensities must be numbers, one for each row or one for each row and configuration, got {values!r:.60}"
        ) from error
    if array.ndim == 2:
        return _full(array, trace, arms)
    p = finite_array(values, name="propensities", ndim=1)
    if len(p) != len(trace):
        raise BadInputError(f"got {len(p)} propensities for {len(trace)} rows: give one for each")
    bad = np.flatnonzero((p <= 0) | (p > 1))
    if len(bad):
        raise BadInputError(
            f"propensities must lie above 0 and not above 1, row {bad[0] + 1} has {p[bad[0]]:g}: "
            "give the probability with which the configuration of the row was chosen, as a share"
        )
    return Propensities(p, None, "given", _average_test(p, trace, arms))


def estimated_propensities(trace: Trace, arms: IntArray, *, rows: IntArray, fold: IntArray) -> Propensities:
    """Return the probabilities of what ran in rows (n,) with folds (n,), by smoothed frequencies of the other folds."""
    every = np.full(len(trace), -1)
    every[rows] = fold
    _, station = np.unique(trace.station, return_inverse=True)
    habits = find_habits(
        arms,
        every,
        configurations=len(trace.space()),
        station=station,
        state=trace.state,
        names=trace.state_names,
    )
    ran = np.ones(len(trace))
    ran[rows] = habits.of(rows, arms[rows][:, None])[:, 0]
    return Propensities(ran, None, f"estimated from how often configurations ran, {habits.in_words()}")


def _full(p: FloatArray, trace: Trace, arms: IntArray) -> Propensities:
    N = len(trace.space())
    if p.shape != (len(trace), N):
        raise BadInputError(f"full propensities must be {len(trace)} rows of {N} configurations, got {p.shape}")
    if not np.isfinite(p).all() or p.min() < 0 or p.max() > 1:
        raise BadInputError("propensities must lie between 0 and 1: give the probability of each configuration")
    off = np.abs(p.sum(axis=1) - 1)
    if off.max() > _SUM:
        row = int(off.argmax())
        raise BadInputError(
            f"the propensities of a row must add up to 1, those of row {row + 1} add up to {p[row].sum():g}: "
            "give the probabilities of all configurations that could have been chosen"
        )
    ran = p[np.arange(len(arms)), arms]
    if ran.min() <= 0:
        row = int(ran.argmin())
        raise BadInputError(
            f"row {row + 1} ran {trace.space()[int(arms[row])]}, which its propensities call impossible: "
            "give them in the order of the space"
        )
    return Propensities(ran, p, "given for every configuration")


def _average_test(p: FloatArray, trace: Trace, arms: IntArray) -> tuple[str, ...]:
    """Return a warning where 1/p averages less than was tried; refuse where it averages more than there is."""
    N, inverse = len(trace.space()), 1 / p
    average, error = float(inverse.mean()), float(inverse.std() / np.sqrt(len(p)))
    if average - _SURE * error > _ABOVE * N:
        raise BadInputError(
            f"these cannot be the probabilities of what was chosen: 1/propensity averages {average:.3g}, and it "
            f"averages the number of configurations that could have been chosen, at most {N:,} here: check the column"
        )
    tried = float(np.mean([len(np.unique(arms[trace.station == name])) for name in trace.stations]))
    if average + _SURE * error >= _BELOW * tried:
        return ()
    choices = f"{average:.2g} configurations" if f"{average:.2g}" != "1" else "1 configuration"
    return (
        f"the propensities say that {choices} could have been chosen at a time (the mean of "
        f"1/propensity), yet a station ran {tried:.2g}: unless every state leaves other choices, the column is not the "
        "probability of what was chosen",
    )
