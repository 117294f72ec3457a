"""What is judged, by which rows, and what a log can say of it."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_array, finite_number
from kinband.contexts import ContextEncoder
from kinband.controller.explain import configuration_text
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import MultiTaskKernel
from kinband.kernels.serial import Split, split_kernel
from kinband.model import Model
from kinband.planning.coverage import setting_columns
from kinband.planning.evidence import averaged, evidence_rows
from kinband.posterior.base import cholesky_factor
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

# --- Parts a log for an evaluation: rows to learn from, later rows to judge by, folds of these, and what hangs
# together
#
# A policy is learned from the earlier rows of every station and judged by the later ones, so that it is never praised
# for rows it has seen. The later rows are cut into folds, each a stretch of every station's time: neighbouring rows
# are often near-copies of each other, and a fold drawn row by row would put copies on both sides (Bergmeir and Benítez
# 2012 compare the two ways). Without times, the order of the file is taken for the order of time.
#
# A *trial* is a stretch of consecutive rows of one station with one configuration. Rows of a trial were decided once
# and share the weather of their hour; rows of a station share whatever its state does not tell. Intervals therefore
# count *units*: stations where there are many, trials where there are few.

MANY_STATIONS = 20
"""From so many stations on, a station is the unit of an interval."""
LEAST_ROWS = 20
"""Fewer later rows than this judge nothing."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of a log by number.

    Attributes:
        earlier: Rows to learn from, (e,).
        later: Rows to judge by, (n,).
        fold: Fold of each later row, (n,).
        unit: Number of the unit that each later row belongs to, (n,).
        kind: What a unit is, "station" or "trial".
        in_time: Whether the log has times; else the order of the file stands for them.

    Example:
        >>> log = {"station": ["a"] * 6, "time": [6, 5, 4, 3, 2, 1], "tilt": [2, 2, 4, 4, 2, 2], "reward": [0.5] * 6}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> parts = part(trace, trace.configuration["tilt"], share=0.34, folds=2, least=1)
        >>> parts.earlier.tolist(), parts.later.tolist(), parts.fold.tolist(), parts.unit.tolist()
        ([4, 5], [0, 1, 2, 3], [1, 1, 0, 0], [1, 1, 0, 0])
    """

    earlier: IntArray
    later: IntArray
    fold: IntArray
    unit: IntArray
    kind: str
    in_time: bool


def part(trace: Trace, arms: IntArray, *, share: float, folds: int, least: int = LEAST_ROWS) -> Parts:
    """Return which rows to learn from and which to judge by.

    Args:
        trace: The log.
        arms: Configuration of each row by number, (n,).
        share: The share of every station's rows that are learned from, its earliest; at least one row, not all.
        folds: How many folds the later rows are cut into.
        least: How many later rows there must be.
    """
    _check(share, folds)
    station, rank, count = _places(trace)
    early = np.minimum(np.maximum(np.round(share * count).astype(np.int64), 1), np.maximum(count - 1, 1))
    later = np.flatnonzero(rank >= early)
    if len(later) < max(least, folds):
        raise BadInputError(
            f"the log has {len(trace):,} rows and leaves {len(later):,} to judge a policy by, at least "
            f"{max(least, folds)} are needed",
            hint="give a longer log, or learn from a smaller share of it",
            code="short_log",
            argument="learn_share",
            value=share,
        )
    place, length = (rank - early)[later], (count - early)[later]
    fold = ((place + 0.5) * folds / length).astype(np.int64)
    many = len(np.unique(station[later])) >= MANY_STATIONS
    unit = np.unique(station[later], return_inverse=True)[1] if many else _trials(station, rank, arms, rows=later)
    in_time = trace.time is not None
    return Parts(np.flatnonzero(rank < early), later, fold, unit, "station" if many else "trial", in_time)


def _check(share: float, folds: int) -> None:
    if not 0 < finite_number(share, name="the share to learn from") < 1:
        raise BadInputError(f"the share to learn from must lie between 0 and 1, got {share:g}")
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
        raise BadInputError(f"folds must be a whole number of at least 2, got {folds!r}")


def _places(trace: Trace) -> tuple[IntArray, IntArray, IntArray]:
    """Number of each row's station, the row's place in the station's time, and how many rows the station has, (n,)."""
    _, station = np.unique(trace.station, return_inverse=True)
    time = np.zeros(len(trace)) if trace.time is None else trace.time
    order = np.lexsort((time, station))  # stable: rows of one time stay in their order
    count = np.bincount(station)
    start = np.concatenate([[0], np.cumsum(count)[:-1]])
    rank = np.empty(len(trace), dtype=np.int64)
    rank[order] = np.arange(len(trace)) - start[station[order]]
    return station, rank, count[station]


def _trials(station: IntArray, rank: IntArray, arms: IntArray, *, rows: IntArray) -> IntArray:
    """Number of the trial that each of the rows (n,) belongs to, (n,)."""
    order = np.lexsort((rank[rows], station[rows]))
    sorted_rows = rows[order]
    new: BoolArray = np.ones(len(rows), dtype=np.bool_)
    same_station = station[sorted_rows][1:] == station[sorted_rows][:-1]
    new[1:] = ~(same_station & (arms[sorted_rows][1:] == arms[sorted_rows][:-1]))
    trial = np.empty(len(rows), dtype=np.int64)
    trial[order] = np.cumsum(new) - 1
    return trial


# --- What the multi-task model believes rewards to be, for the many rows of an evaluation ---------------------------
#
# An evaluation asks for means (9) at tens of thousands of contexts and never for their widths, so it solves once for
# the weights α = (K̃ + diag(noise))⁻¹(y − mean) and multiplies. Where the kernel is a sum of products of a state part
# and a configuration part, all configurations of a row cost one product with a small table; any other kernel is
# evaluated configuration by configuration.
#
# `spread` is the posterior standard deviation of a weighted sum of f, from the joint posterior: how well the model
# itself knows the average that it reports.

MOST_ROWS = 2000
"""Rows that a posterior is made of, about; of more, means of like rows are taken."""

_CELLS = 4_000_000  # numbers in a table of one chunk, 32 MB


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior means of a model that has learned some rows.

    Attributes:
        kernel: The product kernel (7).
        encoder: Makes contexts of states and configurations.
        rows: What was learned.
        mean: Prior mean.
        alpha: α, (n,).
        factor: SciPy's Cholesky factor of K̃ + diag(noise).

    Example:
        >>> from kinband import ConfigurationSpace, TaskMatrix
        >>> from kinband.contexts import StateScaler
        >>> from kinband.kernels import RBF
        >>> encoder = ContextEncoder(StateScaler.identity(["load"]), ConfigurationSpace(tilt=[2, 6]))
        >>> X = encoder.encode([[0.3], [0.3]], np.array([0, 1]))
        >>> rows = Samples(("a",), np.zeros(2, dtype=np.int64), X, np.array([0.2, 0.8]), None, encoder.features)
        >>> model = Model(RBF(0.5), TaskMatrix(("a",), np.eye(1), "given"), noise=0.01, mean=0.5)
        >>> beliefs = Beliefs.learn(model, rows, encoder)
        >>> beliefs.best(np.array([0]), np.array([[0.3]])).tolist()
        [1]
        >>> beliefs.at(np.array([0]), np.array([[0.3]]), np.array([[0, 1]])).round(2).tolist()
        [[0.2, 0.8]]
    """

    kernel: MultiTaskKernel
    encoder: ContextEncoder
    rows: Samples
    mean: float
    alpha: FloatArray
    factor: Any

    @classmethod
    def learn(cls, model: Model, rows: Samples, encoder: ContextEncoder) -> "Beliefs":
        """Return what a model believes after some rows; what is known of a reward's noise adds to the model's.

        Of more than `MOST_ROWS`, like rows of a station are taken together: no row is dropped.
        """
        from scipy.linalg import cho_solve

        kernel = MultiTaskKernel(model.kernel, model.similarity.K_Z)
        told = evidence_rows(replace(rows, days=None, spells=None), model.noise)
        if len(told) > MOST_ROWS:
            told = averaged(told, most=MOST_ROWS, columns=setting_columns(encoder))
            rows = replace(rows, tasks=told.tasks, X=told.X, y=told.y, noise=None, arms=None, kpis={})
        K = kernel.cross(told.tasks, told.X, told.tasks, told.X)
        K[np.diag_indices_from(K)] += told.noise
        factor = cholesky_factor(K, "the model of rewards cannot be solved for"), True
        alpha = cho_solve(factor, told.y - model.mean, check_finite=False)
        return cls(kernel, encoder, rows, model.mean, np.asarray(alpha), factor)

    def at(self, tasks: IntArray, S: FloatArray, arms: IntArray) -> FloatArray:
        """Return the means for tasks (m,) in scaled states S (m, p) at configurations arms (m, c), (m, c)."""
        means = np.empty(arms.shape)
        for chunk in self._chunks(len(tasks), 1):
            weighted = self._weighted(tasks[chunk], S[chunk])
            for c in range(arms.shape[1]):
                means[chunk, c] = self._column(weighted, tasks[chunk], S[chunk], arms[chunk, c])
        return means

    def best(self, tasks: IntArray, S: FloatArray) -> IntArray:
        """Return the configuration with the largest mean for tasks (m,) in scaled states S (m, p), (m,)."""
        N = len(self.encoder.space)
        found = np.empty(len(tasks), dtype=np.int64)
        for chunk in self._chunks(len(tasks), N):
            weighted = self._weighted(tasks[chunk], S[chunk])
            if weighted is not None:
                means = weighted @ self._over_arms
            else:
                every = np.broadcast_to(np.arange(N), (len(S[chunk]), N))
                means = self.at(tasks[chunk], S[chunk], every)
            found[chunk] = means.argmax(axis=1)
        return found

    def spread(self, tasks: IntArray, S: FloatArray, arms: IntArray, *, weights: FloatArray) -> float:
        """Return the standard deviation of Σ weights·f at tasks, scaled states (m, p) and arms, (m,) each."""
        from scipy.linalg import cho_solve

        X = self._contexts(S, arms)
        k = self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X) @ weights
        prior = float(weights @ self.kernel.cross(tasks, X, tasks, X) @ weights)
        return float(np.sqrt(max(prior - float(k @ cho_solve(self.factor, k, check_finite=False)), 0.0)))

    def _weighted(self, tasks: IntArray, S: FloatArray) -> FloatArray | None:
        """K_Z · k_state · α of each question against each row learned, term by term, (m, terms · n); None without."""
        if not self._splits:
            return None
        X = np.hstack([S, np.zeros((len(S), self.encoder.space.features.shape[1]))])
        weights = self.kernel.K_Z[np.ix_(tasks, self.rows.tasks)] * self.alpha
        return np.hstack([split.over_rest(X, self.rows.X) * weights for split in self._splits])

    def _column(self, weighted: FloatArray | None, tasks: IntArray, S: FloatArray, arms: IntArray) -> FloatArray:
        """The means of one configuration (m,) for each question, (m,)."""
        if weighted is not None:
            return np.asarray(self.mean + np.einsum("mn,nm->m", weighted, self._over_arms[:, arms]))
        k = self.kernel.cross(tasks, self._contexts(S, arms), self.rows.tasks, self.rows.X)
        return np.asarray(self.mean + k @ self.alpha)

    def _contexts(self, S: FloatArray, arms: IntArray) -> FloatArray:
        return np.hstack([S, self.encoder.space.features[arms]])

    def _chunks(self, questions: int, arms: int) -> Iterator[slice]:
        size = max(1, _CELLS // (len(self.rows) + arms))
        return (slice(start, start + size) for start in range(0, questions, size))

    @cached_property
    def _splits(self) -> tuple[Split, ...]:
        p, width = len(self.encoder.state.names), self.rows.X.shape[1]
        return split_kernel(self.kernel.context, columns=range(p, width), width=width)

    @cached_property
    def _over_arms(self) -> FloatArray:
        """The kernel of the configurations of the rows learned and all configurations, (terms · n, N)."""
        space = self.encoder.space
        X = np.hstack([np.zeros((len(space), len(self.encoder.state.names))), space.features])
        return np.vstack([split.over_part(self.rows.X, X) for split in self._splits])


# --- The policies that can be judged: what a station would have run in a state --------------------------------------
#
# `recommend` is what the controller would recommend after learning from the earlier rows, its largest posterior mean
# (9); `usual` keeps every station at what it ran most often in the earlier rows, which is what all others are compared
# with; a mapping fixes one configuration for all; and any function of station and state can be judged, be it that it
# answers with a configuration or with probabilities over all of them.

Chooser = Callable[[str, Mapping[str, float]], Any]
"""From station and state to a configuration, or to one probability per configuration of the space."""

USUAL = "every station at its usual configuration"
"""The name of what all others are compared with."""
RECOMMENDED = "what kinband recommends"

_SUM = 1e-6  # how far probabilities may be from adding up to 1


@dataclass(frozen=True, eq=False)
class Choices:
    """What a policy would run in each of n rows.

    Attributes:
        arms: Configurations by number, (n, c).
        shares: Their probabilities, (n, c), which add up to 1 in every row.

    Example:
        >>> choices = Choices.certain(np.array([2, 0]))
        >>> choices.probability(np.array([2, 1])).tolist()
        [1.0, 0.0]
    """

    arms: IntArray
    shares: FloatArray

    @classmethod
    def certain(cls, arms: IntArray) -> "Choices":
        """Return the choices of a policy that draws nothing, arms (n,)."""
        return cls(arms[:, None], np.ones((len(arms), 1)))

    def probability(self, arms: IntArray) -> FloatArray:
        """Return the probability of running arms (n,), (n,)."""
        return np.asarray((self.shares * (self.arms == arms[:, None])).sum(axis=1))

    def take(self, rows: IntArray) -> "Choices":
        """Return those of some rows."""
        return Choices(self.arms[rows], self.shares[rows])

    def same_as(self, other: "Choices") -> bool:
        """Return whether another policy would run the same in every row.

        Example:
            >>> drawn = Choices(np.array([[0, 1]]), np.array([[0.0, 1.0]]))
            >>> drawn.same_as(Choices.certain(np.array([1]))), drawn.same_as(Choices.certain(np.array([0])))
            (True, False)
        """
        if other.arms.shape[1] == 1:
            return bool((self.probability(other.arms[:, 0]) == 1.0).all())
        return np.array_equal(self.arms, other.arms) and np.array_equal(self.shares, other.shares)

    def average(self, values: FloatArray) -> FloatArray:
        """Return the mean of values (n, c), one for each choice, under the policy, (n,)."""
        return np.asarray((self.shares * values).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Target:
    """A policy that can be judged.

    Attributes:
        name: What it is called in a sentence.
        choices: From stations (n,) and their states (n, p), in their own units, to what they would run.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> target = chosen(lambda station, state: {"tilt": 4 if state["load"] > 0.5 else 2}, space, ("load",))
        >>> target.choices(np.array(["a", "a"]), np.array([[0.9], [0.1]])).arms.tolist()
        [[1], [0]]
    """

    name: str
    choices: Callable[[NDArray[np.str_], FloatArray], Choices]


def fixed(configuration: Mapping[str, Any], space: ConfigurationSpace) -> Target:
    """Return one configuration for all stations, or say what is not known of it."""
    arm = space.index(configuration)
    name = f"{configuration_text(space[arm], arm)} everywhere"
    return Target(name, lambda station, _: Choices.certain(np.full(len(station), arm)))


def usual(station: NDArray[np.str_], arms: IntArray) -> Target:
    """Return every station (n,) at what it ran most often of arms (n,); of several such, at the first by number."""
    names, number = np.unique(station, return_inverse=True)
    pairs, counts = np.unique(np.column_stack([number.ravel(), arms]), axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    first = np.unique(pairs[order, 0], return_index=True)[1]
    most = dict(zip(names.tolist(), pairs[order, 1][first].tolist(), strict=True))
    return Target(USUAL, lambda asked, _: Choices.certain(np.array([most[name] for name in asked.tolist()], np.int64)))


def recommended(beliefs: Beliefs) -> Target:
    """Return what the controller would recommend after the earlier rows: the largest expected reward."""
    task = {name: number for number, name in enumerate(beliefs.rows.stations)}

    def choices(station: NDArray[np.str_], S: FloatArray) -> Choices:
        tasks = np.array([task[name] for name in station.tolist()], dtype=np.int64)
        return Choices.certain(beliefs.best(tasks, beliefs.encoder.state.transform(S)))

    return Target(RECOMMENDED, choices)


def chosen(
    choose: Chooser, space: ConfigurationSpace, state_names: Sequence[str], *, name: str = "the policy"
) -> Target:
    """Return the policy of a function of station and state; it is asked row by row."""
    _check_chooser(choose)

    def choices(station: NDArray[np.str_], S: FloatArray) -> Choices:
        rows = zip(station.tolist(), S.tolist(), strict=True)
        answers = [_answer(choose, space, one, dict(zip(state_names, state, strict=True))) for one, state in rows]
        if all(isinstance(answer, int) for answer in answers):
            return Choices.certain(np.array(answers, dtype=np.int64))
        shares = np.array([np.eye(len(space))[a] if isinstance(a, int) else a for a in answers])
        return Choices(np.broadcast_to(np.arange(len(space)), shares.shape), shares)

    return Target(name, choices)


def _check_chooser(choose: Chooser) -> None:
    """Refuse a function that cannot be called with station and state."""
    try:
        inspect.signature(choose).bind("", {})
    except TypeError as error:
        raise BadInputError(
            f"a policy is called with station and state, which this function does not take: {error}"
        ) from error
    except ValueError:  # a builtin that does not say what it takes
        return


def _answer(choose: Chooser, space: ConfigurationSpace, station: str, state: dict[str, float]) -> int | FloatArray:
    """The number of the configuration that a function wants, or the probabilities of all, (N,)."""
    try:
        answer = choose(station, state)
    except Exception as error:
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise BadInputError(f"the policy failed for station {station!r} in the state {state}: {what}") from error
    try:
        return space.index(answer) if isinstance(answer, Mapping) else _shares(answer, len(space))
    except (BadInputError, NotFoundError) as error:
        raise type(error)(f"the policy's answer for station {station!r} cannot be used: {error}") from error


def _shares(answer: Any, N: int) -> FloatArray:
    if answer is None or isinstance(answer, str) or not isinstance(answer, Iterable):
        raise BadInputError(f"a policy answers with a configuration or with {N} probabilities, got {answer!r:.60}")
    shares = finite_array(list(answer), name="the probabilities of a policy", ndim=1)
    if len(shares) != N or shares.min() < 0 or abs(shares.sum() - 1) > _SUM:
        raise BadInputError(
            f"a policy answers with a configuration or with {N} probabilities that add up to 1, "
            f"got {len(shares)} that add up to {shares.sum():g}, the smallest {shares.min():g}"
        )
    return shares


# --- Where the log never, or hardly, tried what a policy wants: there an estimate rests on the model alone ----------
#
# No reweighting can tell what was never run. What counts is what the station itself ran, in all of its log: neighbours
# inform the model, and what they ran may stand in for the station's in estimated propensities, but neither is a trial.

FEW = 5
"""With fewer rows than this, a station has hardly tried a configuration."""
_NAMED = 5  # stations and configurations that are named
_WORTH = 0.005  # a share that is worth a word


@dataclass(frozen=True)
class Support:
    """How much of what a policy wants was tried.

    Attributes:
        never: Share of its decisions for a configuration that the station never ran.
        hardly: Share of its decisions for one that the station ran in one to four rows.
        by_station: Share of a station's decisions that it never tried, largest first, stations without any left out.
        by_configuration: Configuration in words to the share of all decisions that want it untried, largest first.
        single: Stations that ran one configuration only.

    Example:
        >>> space, ran = ConfigurationSpace(tilt=[2, 4]), np.array([0] * 9 + [1])
        >>> station, wants = np.array(["a"] * 5 + ["b"] * 5), Choices.certain(np.ones(10, dtype=np.int64))
        >>> found = support_of(wants, station, log_station=station, ran=ran, space=space)
        >>> found.never, found.hardly, found.by_configuration, found.single
        (0.5, 0.5, {'tilt=4': 0.5}, ('a',))
    """

    never: float
    hardly: float
    by_station: Mapping[str, float]
    by_configuration: Mapping[str, float]
    single: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the shares in JSON's types."""
        return {
            "never_tried": self.never,
            "hardly_tried": self.hardly,
            "by_station": dict(self.by_station),
            "by_configuration": dict(self.by_configuration),
            "single_configuration": list(self.single),
        }

    def warnings(self) -> list[str]:
        """Return in words where the log has no answer."""
        said = []
        if self.never >= _WORTH:
            said.append(
                f"{self.never:.0%} of the decisions want what the station never ran, where the numbers rest on the "
                f"model alone; most at station {_some(self.by_station)}; most often {_some(self.by_configuration)}"
            )
        if self.hardly >= _WORTH:
            said.append(f"{self.hardly:.0%} of the decisions want what the station ran in fewer than {FEW} rows")
        if self.single:
            names = ", ".join(self.single[:_NAMED])
            more = f" and {len(self.single) - _NAMED:,} more" if len(self.single) > _NAMED else ""
            said.append(f"ran one configuration only, so that their rows say nothing about others: {names}{more}")
        return said


def tried_rows(
    choices: Choices,
    station: NDArray[Any],
    *,
    log_station: NDArray[Any],
    ran: IntArray,
    possible: FloatArray | None = None,
) -> IntArray:
    """Return in how many rows of the log a station ran what a policy wants, (n, c).

    Args:
        choices: What it wants in n rows.
        station: Stations of these rows, by name or number, (n,).
        log_station: Station of every row of the log, (l,).
        ran: What ran in every row of the log, (l,).
        possible: The log's own probabilities of all configurations in the n rows, (n, N), where they are known: what
            was possible counts as tried often enough, and what was impossible as never tried.
    """
    if possible is not None:
        return np.where(np.take_along_axis(possible, choices.arms, axis=1) > 0, FEW, 0)
    names, N = np.unique(log_station), int(max(ran.max(), choices.arms.max())) + 1
    known, counts = np.unique(np.searchsorted(names, log_station) * N + ran, return_counts=True)
    wanted = np.searchsorted(names, station)[:, None] * N + choices.arms
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, counts[at], 0)


def support_of(
    choices: Choices,
    station: NDArray[np.str_],
    *,
    log_station: NDArray[np.str_],
    ran: IntArray,
    space: ConfigurationSpace,
    possible: FloatArray | None = None,
) -> Support:
    """Return how much of what a policy wants was tried; for the arguments see `tried_rows`."""
    tried = tried_rows(choices, station, log_station=log_station, ran=ran, possible=possible)
    never = np.where(tried == 0, choices.shares, 0.0)
    hardly = np.where((tried > 0) & (tried < FEW), choices.shares, 0.0)
    names, number = np.unique(station, return_inverse=True)
    shares = np.bincount(number.ravel(), weights=never.sum(axis=1)) / np.bincount(number.ravel())
    by_station = dict(zip(names.tolist(), shares.tolist(), strict=True))
    by_arm = np.bincount(choices.arms.ravel(), weights=never.ravel(), minlength=len(space)) / len(station)
    words = {configuration_text(space[int(arm)], int(arm)): float(by_arm[arm]) for arm in np.flatnonzero(by_arm)}
    logged, owner = np.unique(log_station, return_inverse=True)
    alone = np.bincount(np.unique(np.column_stack([owner.ravel(), ran]), axis=0)[:, 0]) == 1
    single = logged[alone].tolist()
    return Support(
        float(never.sum() / len(station)),
        float(hardly.sum() / len(station)),
        _largest(by_station),
        _largest(words),
        tuple(single),
    )


def _largest(shares: Mapping[str, float]) -> dict[str, float]:
    kept = {name: share for name, share in shares.items() if share > 0}
    return dict(sorted(kept.items(), key=lambda item: -item[1]))


def _some(shares: Mapping[str, float]) -> str:
    """The largest shares in words."""
    named = ", ".join(f"{name} ({share:.0%})" for name, share in list(shares.items())[:_NAMED])
    return f"{named} and {len(shares) - _NAMED:,} more" if len(shares) > _NAMED else named
