"""Estimates of what a policy would have earned, and of how the log was decided."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_array
from kinband.errors import BadInputError
from kinband.stats import Estimate, student, variance_of_mean
from kinband.trace import Trace
from kinband.trace.table import rows_by_station

# --- The three estimators of what a policy would have earned, with intervals ----------------------------------------
#
# Each logged row has a reward r, the weight w = π(a|x)/p(a|x) of its configuration a under the policy π against the
# behaviour policy p, the model's prediction m for what ran, and q = Σ_a π(a|x)·μ̂(x, a) for what the policy wants. Then
#
#     by the model             V = mean q
#     by inverse propensity    V = Σ w·r / Σ w                (self-normalised: Hájek 1971; Swaminathan, Joachims 2015)
#     doubly robust            V = mean (q + w·(r − m))       (Dudík, Langford and Li 2011, (3))
#
# The model is learned on other folds than the row's own (Chernozhukov et al. 2018), so that m and q are no fit of r.
# Each estimate comes with its influence ψ, what every row adds to its error: V̂ − V ≈ mean ψ.
#
# The standard error sums ψ within units, because rows of a unit are dependent, and takes the spread of these sums
# (Liang and Zeger 1986). A bootstrap over units estimates the same spread by drawing; this draws nothing. Student's t
# takes the place of the normal, with one degree of freedom less than there are units that carry weight: an average that
# hangs on five trials is not known as well as one that hangs on five hundred (Cameron and Miller 2015 on few clusters).


@dataclass(frozen=True, eq=False)
class Contrast:
    """A value, or a difference of two, and what each row adds to its error.

    Attributes:
        value: The estimate.
        influence: ψ, (n,), with mean 0.
        live: Sets of rows that the estimate hangs on, (n,) each; the smallest says how well it can be known.
        variance: What comes on top of the rows' own scatter, such as the model's.
        exact: Whether it is known without doubt, as the difference of a policy to itself is.

    Example:
        >>> w, r = np.array([2.0, 0.0, 1.0]), np.array([0.9, 0.1, 0.6])
        >>> found = inverse_propensity(w, r)
        >>> round(found.value, 3), found.influence[w > 0].round(3).tolist()
        (0.8, [0.2, -0.2])
    """

    value: float
    influence: FloatArray
    live: tuple[BoolArray, ...]
    variance: float = 0.0
    exact: bool = False

    def interval(self, unit: IntArray) -> Estimate:
        """Return the value with its interval, by rows that belong to units (n,)."""
        if np.isnan(self.value):
            return Estimate(np.nan)
        if self.exact:
            return Estimate(self.value, self.value, self.value)
        units = min(len(np.unique(unit[live])) for live in self.live)
        return student(self.value, variance_of_mean(self.influence, unit)[0] + self.variance, units)

    def minus(self, other: "Contrast", *, differ: BoolArray, variance: float = 0.0, exact: bool = False) -> "Contrast":
        """Return the difference to another estimate from the same rows; what both share cancels.

        Args:
            other: What is subtracted.
            differ: Rows that weigh differently in the two, (n,).
            variance: What comes on top of the rows' own scatter.
            exact: Whether the two are estimates of the same policy.
        """
        influence, live = self.influence - other.influence, (*self.live, *other.live, differ)
        return Contrast(self.value - other.value, influence, live, variance, exact)


def by_model(q: FloatArray, *, variance: float = 0.0) -> Contrast:
    """Return the direct estimate from the model's predictions q (n,) of what the policy wants."""
    return Contrast(float(q.mean()), q - q.mean(), (np.ones(len(q), dtype=np.bool_),), variance)


def inverse_propensity(w: FloatArray, r: FloatArray) -> Contrast:
    """Return the self-normalised estimate from weights w (n,) and rewards r (n,); nan where no row has weight."""
    live = w > 0
    if not live.any():
        return Contrast(np.nan, np.zeros(len(w)), (live,))
    value = float(w @ r / w.sum())
    return Contrast(value, w * (r - value) / w.mean(), (live,))


def doubly_robust(w: FloatArray, r: FloatArray, *, m: FloatArray, q: FloatArray, variance: float = 0.0) -> Contrast:
    """Return the doubly robust estimate from weights w, rewards r, predictions m of what ran and q of what is wanted.

    `variance` is the model's own doubt about what was never tried: there no reward corrects it.

    Example:
        >>> w, r = np.array([2.0, 0.0]), np.array([0.9, 0.1])
        >>> round(doubly_robust(w, r, m=np.array([0.8, 0.3]), q=np.array([0.7, 0.7])).value, 3)
        0.8
    """
    scores = q + w * (r - m)
    return Contrast(float(scores.mean()), scores - scores.mean(), (w > 0,), variance)


def logged(r: FloatArray) -> Contrast:
    """Return what the log itself earned, from rewards r (n,)."""
    return by_model(r)


def effective_samples(w: FloatArray) -> float:
    """Return how many rows of equal weight would be worth weights w (n,), (Σw)²/Σw² (Kish 1965).

    Example:
        >>> effective_samples(np.array([3.0, 3.0, 0.0])), effective_samples(np.zeros(2))
        (2.0, 0.0)
    """
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares > 0 else 0.0


# --- How likely the log was to run a configuration, where nobody wrote it down: smoothed frequencies ----------------
#
# A frequency p(a) over all rows is refined level by level, for the station, for a third of the range of one state
# feature, for both: p(a | group) = (count(group, a) + κ·p(a | coarser group)) / (count(group) + κ), a Dirichlet prior
# worth κ rows that is centred on the coarser level. Groups with few rows keep near it, groups with many follow their
# own choices, and no configuration of the space gets probability 0. Which feature, which levels and which κ is decided
# by the likelihood of rows held out, so that a log whose stations all drew alike is seen as one. Frequencies are
# cross-fitted: those of a row come from other folds.
#
# Assumed: what was chosen depended on nothing but the station and the binned feature. A log in which somebody turned a
# knob because of what no column tells cannot be repaired this way.

BINS = 3
"""Into how many parts of equal size a state feature is cut."""
_KAPPAS = (2.0, 8.0, 32.0, 128.0)
_START = 0.5  # rows' worth of prior for each configuration


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows that are taken together: what the groups are, in words, and the number of each row's group, (n,)."""

    name: str
    group: IntArray = field(repr=False)


Levels = tuple[tuple[Grouping, float], ...]
"""Groupings from coarse to fine, each with the κ that ties it to the one before."""
Counts = tuple[FloatArray, FloatArray]
"""How often rows of a group ran a configuration, and how many rows the group has."""


@dataclass(frozen=True, eq=False)
class BehaviourPolicy:
    """The behaviour policy of the log, by the levels that predict held-out rows best.

    Attributes:
        arms: What ran, (n,).
        fold: Fold of each row, (n,); rows with -1 are in no fold and always counted.
        configurations: How many there are, N.
        levels: What the frequencies depend on; nothing where all rows are alike.

    Example:
        >>> station, fold = np.arange(400) % 2, np.arange(400) // 80
        >>> arms = np.where(np.arange(400) // 2 % 5 < 4, station, 1 - station)
        >>> found = behaviour_policy(arms, fold, configurations=2, station=station, state=np.zeros((400, 0)), names=())
        >>> found.in_words()
        'per station'
        >>> found.of(np.array([0, 1]), np.array([[0], [0]])).round(1).tolist()
        [[0.8], [0.2]]
    """

    arms: IntArray
    fold: IntArray
    configurations: int
    levels: Levels = ()

    def of(self, rows: IntArray, arms: IntArray) -> FloatArray:
        """Return the probability of arms (m, c) in rows (m,), counted without the rows' own folds, (m, c)."""
        kappas = [kappa for _, kappa in self.levels]
        counts = [self.counts(rows, arms, grouping) for grouping, _ in self.levels]
        return smoothed(self.start(rows, arms), zip(counts, kappas, strict=True))

    def in_words(self) -> str:
        """Return what the frequencies depend on."""
        return self.levels[-1][0].name if self.levels else "the same for all stations"

    def start(self, rows: IntArray, arms: IntArray) -> FloatArray:
        """Return the frequencies of arms (m, c) over all rows but those of each row's fold, (m, c)."""
        p = np.empty(arms.shape)
        for k in np.unique(self.fold[rows]).tolist():
            asked, totals = self.fold[rows] == k, np.full(self.configurations, _START)
            totals += np.bincount(self.arms[self.fold != k], minlength=self.configurations)
            p[asked] = totals[arms[asked]] / totals.sum()
        return p

    def counts(self, rows: IntArray, arms: IntArray, grouping: Grouping) -> Counts:
        """Return what each row's group ran, without the row's fold, of arms (m, c): (m, c) and (m, 1)."""
        both, whole, N = np.empty(arms.shape), np.empty((len(rows), 1)), self.configurations
        for k in np.unique(self.fold[rows]).tolist():
            counted, asked = self.fold != k, self.fold[rows] == k
            group, mine = grouping.group[counted], grouping.group[rows[asked]][:, None]
            both[asked] = _count(group * N + self.arms[counted], mine * N + arms[asked])
            whole[asked] = _count(group, mine)
        return both, whole


def smoothed(p: FloatArray, levels: Iterable[tuple[Counts, float]]) -> FloatArray:
    """Return frequencies p (m, c) refined level by level, (m, c).

    Example:
        >>> smoothed(np.array([[0.5]]), [((np.array([[9.0]]), np.array([[10.0]])), 2.0)]).round(3).tolist()
        [[0.833]]
    """
    for (both, whole), kappa in levels:
        p = (both + kappa * p) / (whole + kappa)
    return p


def behaviour_policy(
    arms: IntArray,
    fold: IntArray,
    *,
    configurations: int,
    station: IntArray,
    state: FloatArray,
    names: Sequence[str],
) -> BehaviourPolicy:
    """Return the behaviour policy under which rows of folds that are held out are most likely.

    Args:
        arms: What ran, (n,).
        fold: Fold of each row, (n,); -1 for rows that are always counted.
        configurations: How many configurations there are.
        station: Number of each row's station, (n,).
        state: State features, (n, p).
        names: Their names.
    """
    plain = BehaviourPolicy(arms, fold, configurations)
    rows = np.flatnonzero(fold >= 0)
    ran = arms[rows][:, None]
    ladders = _ladders(station, state, names)
    groupings = {grouping.name: grouping for ladder in ladders for grouping in ladder}
    counts = {name: plain.counts(rows, ran, grouping) for name, grouping in groupings.items()}
    start, found, most = plain.start(rows, ran), plain, -np.inf
    for ladder in ladders:
        for kappas in product(_KAPPAS, repeat=len(ladder)):
            steps = ((counts[grouping.name], kappa) for grouping, kappa in zip(ladder, kappas, strict=True))
            likelihood = float(np.log(smoothed(start, steps)).sum())
            if likelihood > most:
                levels = tuple(zip(ladder, kappas, strict=True))
                found, most = BehaviourPolicy(arms, fold, configurations, levels), likelihood
    return found


def _ladders(station: IntArray, state: FloatArray, names: Sequence[str]) -> list[tuple[Grouping, ...]]:
    """What frequencies may depend on, from coarse to fine, the simplest first."""
    stations = Grouping("per station", station)
    ladders: list[tuple[Grouping, ...]] = [(), (stations,)]
    for j, name in enumerate(names):
        binned = _bins(state[:, j])
        if binned.min() < binned.max():
            alone = Grouping(f"per third of {name}", binned)
            both = Grouping(f"per station and third of {name}", station * BINS + binned)
            ladders += [(alone,), (stations, both), (alone, both)]
    return ladders


def _bins(values: FloatArray) -> IntArray:
    cuts = np.unique(np.quantile(values, np.arange(1, BINS) / BINS))
    return np.asarray(np.searchsorted(cuts, values, side="left"), dtype=np.int64)


def _count(keys: IntArray, asked: IntArray) -> FloatArray:
    """How often each key that is asked for occurs among keys (n,), in the shape of `asked`."""
    known, counts = np.unique(keys, return_counts=True)
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[place] == asked, counts[place], 0).astype(np.float64)


# --- The probabilities with which the log chose what it ran: given and checked, or estimated ------------------------
#
# Given ones are of what ran, one per row, or of all configurations. The latter must add up to 1. Of the former only an
# average can be checked: wherever p(a|x) > 0, E[1/p] = Σ_a p·(1/p) counts the configurations that could have been
# chosen, so its mean over the log cannot lie above the number there are, whatever the log's policy was; that refutes
# the numbers and is an error. It may lie below the number that a station has run, when each state leaves other
# choices; more often the column is not what it was taken for, and a warning says so.

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
    found = behaviour_policy(
        arms,
        every,
        configurations=len(trace.space()),
        station=station,
        state=trace.state,
        names=trace.state_names,
    )
    ran = np.ones(len(trace))
    ran[rows] = found.of(rows, arms[rows][:, None])[:, 0]
    return Propensities(ran, None, f"estimated from how often configurations ran, {found.in_words()}")


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
            f"averages the number of configurations that could have been chosen, at most {N:,} here",
            hint="check the column",
            code="propensity",
            argument="propensity",
        )
    tried = float(np.mean([len(np.unique(arms[rows])) for rows in rows_by_station(trace)]))
    if average + _SURE * error >= _BELOW * tried:
        return ()
    choices = f"{average:.2g} configurations" if f"{average:.2g}" != "1" else "1 configuration"
    return (
        f"the propensities say that {choices} could have been chosen at a time (the mean of "
        f"1/propensity), yet a station ran {tried:.2g}: unless every state leaves other choices, the column is not the "
        "probability of what was chosen",
    )
