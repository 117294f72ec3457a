"""A log as an environment: what a station would have earned, by its nearest rows or by a smooth fit."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number, positive_number
from kinband.environments.contract import Exogenous, Outcome, Slot, Truth, whole_number
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.table import no_time, rows_by_station

__all__ = ["SmoothFit", "SmoothTraceEnvironment", "TraceEnvironment", "split_by_group", "split_trace"]

# --- States from the rows of a trace, slot after slot: what all environments that are made of a trace have in common
#
# In every slot each station is in the state of one of its own rows, drawn at random. What a configuration earns there
# is said by those who inherit from here.

Value = TypeVar("Value")
Answers = tuple[FloatArray, FloatArray]
"""What each arm earns in a state, (N,), and the variance of that, (N,), nan where not known."""


class RowsEnvironment(Exogenous):
    """Shows the states of a trace's rows; `_asked` says what configurations earn there.

    Args:
        trace: The rows.
        space: The configurations to choose from, those of the trace if not given.
        stations: The stations that play, in this order; all of the trace if not given.
    """

    def __init__(self, trace: Trace, space: ConfigurationSpace | None, *, stations: Sequence[str] | None) -> None:
        self.trace = trace if space is None else trace.with_space(space)
        self.stations = trace.stations if stations is None else _known_stations(stations, trace)
        self.encoder = self.trace.encoder()
        self.space = self.encoder.space
        self.arms, self.features, self.categorical = len(self.space), self.encoder.features, self.encoder.categorical
        self._known: dict[tuple[int, int], Answers] = {}
        rows = dict(zip(trace.stations, rows_by_station(trace), strict=True))
        self._states = [trace.state[rows[station]] for station in self.stations]
        self._counts: IntArray = np.array([len(S) for S in self._states])
        self.state_ranges = dict(zip(trace.state_names, _ranges(trace.state), strict=True))

    def _outcome(self, task: int, arm: int) -> Outcome:
        rewards, noise = self._answers(task)
        return Outcome(float(rewards[arm]), None if np.isnan(noise[arm]) else float(noise[arm]))

    def _truth(self, task: int) -> Truth:
        rewards, _ = self._answers(task)
        return Truth(rewards, rewards)

    def _answers(self, task: int) -> Answers:
        """What each arm earns in the present slot, (N,), and the variance of that mean, nan where not known."""
        row = int(self._rows[task])
        if (task, row) not in self._known:
            self._known[task, row] = self._asked(task, row)
        return self._known[task, row]

    def _asked(self, task: int, row: int) -> Answers:
        """What each arm earns in the state of a task's row."""
        raise NotImplementedError

    def _show(self, number: int) -> None:
        self._rows: IntArray = self._rng.integers(self._counts)
        # A slot outlives the next one, so it keeps its own rows.
        rows = dict(zip(self.stations, self._rows.tolist(), strict=True))
        states = OnDemand(self.stations, partial(self._state, rows))
        contexts = OnDemand(self.stations, partial(self._contexts, rows))
        self._slot = Slot(number, contexts, states)

    def _state(self, rows: Mapping[str, int], station: str) -> dict[str, float]:
        S = self._states[self._task[station]]
        return dict(zip(self.encoder.state.names, S[rows[station]].tolist(), strict=True))

    def _contexts(self, rows: Mapping[str, int], station: str) -> FloatArray:
        contexts = self.encoder.contexts(self._state(rows, station))
        contexts.setflags(write=False)
        return contexts


class OnDemand(Mapping[str, Value]):
    """A mapping whose values are made when they are first looked at: few stations may play in a slot."""

    def __init__(self, keys: Sequence[str], make: Callable[[str], Value]) -> None:
        self._keys, self._make, self._made = keys, make, dict[str, Value]()

    def __getitem__(self, key: str) -> Value:
        if key not in self._made:
            if key not in self._keys:
                raise KeyError(key)
            self._made[key] = self._make(key)
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _known_stations(stations: Sequence[str], trace: Trace) -> tuple[str, ...]:
    names = (stations,) if isinstance(stations, str) else tuple(stations)
    if not names or len(set(names)) < len(names):
        raise BadInputError(f"stations must be different names, at least one, got {names}")
    missing = [name for name in names if name not in trace.stations]
    if missing:
        raise NotFoundError(
            f"the trace has no row of station {missing[0]!r}: leave it out of stations, or add rows of it"
        )
    return names


def _ranges(S: FloatArray) -> list[tuple[float, float]]:
    return list(zip(S.min(axis=0).tolist(), S.max(axis=0).tolist(), strict=True))


# --- What a state and a configuration would have earned: the mean reward of the rows nearest to them ----------------
#
# Rows are points: the context's standardised columns as they are, and each category as one coordinate per code, so
# that rows whose categories differ are a stated distance apart, whatever the codes. The default √2 is how far apart
# two values of a standardised quantity are in root mean square: a category weighs as much as a quantity. Rows as near
# as the k-th count with it, so that the answer depends on the rows and not on their order: without states, for
# instance, all rows of a configuration are equally near, and all of them are averaged.
#
# A k-d tree, built once, finds the rows; no query scans them all.

_ROUNDING = 1e-9


class NearestRows:
    """The rows of a log, ready to be averaged around a point.

    Args:
        points: Where the rows are, (n, z).
        rewards: What they earned, (n,).
        noise: Variance of the rewards, (n,), nan where not known.
        count: How many rows are averaged, k; fewer than n.
    """

    def __init__(self, points: FloatArray, rewards: FloatArray, noise: FloatArray, *, count: int) -> None:
        from scipy.spatial import cKDTree

        self.rewards, self.noise, self.count = rewards, noise, count
        # Leaves of 32 rows were the fastest of 4 to 64, on 500 and on 18,000 rows.
        self._tree = cKDTree(points, leafsize=32)

    def average(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean reward around each point (m, z), (m,), and its variance, (m,), nan where not known."""
        k = self.count
        distances, rows = map(np.asarray, self._tree.query(points, k=k + 1))
        reach = distances[:, k - 1] * (1 + _ROUNDING) + _ROUNDING**2
        tied = np.flatnonzero(distances[:, k] <= reach)
        near = rows[:, :k]
        mean, noise = self.rewards[near].mean(axis=1), self.noise[near].mean(axis=1) / k
        for point, ball in zip(tied, self._tree.query_ball_point(points[tied], reach[tied]), strict=True):
            mean[point] = self.rewards[ball].mean()
            noise[point] = self.noise[ball].mean() / len(ball)
        # A mean of equal numbers may be a rounding away from them.
        return mean.clip(self.rewards.min(), self.rewards.max()), noise


def points_of(X: FloatArray, *, codes: Mapping[int, int], distance: float) -> FloatArray:
    """Return contexts X (n, d) as points (n, z): each column of category codes becomes one coordinate per code.

    Args:
        X: Contexts.
        codes: The columns that hold category codes, and how many codes each has.
        distance: How far apart two rows are that differ in one category alone.
    """
    quantities = [column for column in range(X.shape[1]) if column not in codes]
    parts = [X[:, quantities]]
    for column, count in codes.items():
        parts.append((X[:, column, None] == np.arange(count)) * (distance / math.sqrt(2)))
    return np.hstack(parts)


# --- Parts a log in two: rows that a learner may know beforehand, and rows that an environment answers from ---------
#
# A learner that knows the very rows it is later judged by looks better than it is. Rows are parted by time, or, where
# the rows of one measurement run are near-copies of each other, by run: parting those row by row would put copies on
# both sides.


def split_trace(trace: Trace, *, rows_per_station: int | None = None, at: object | None = None) -> tuple[Trace, Trace]:
    """Return the earlier and the later rows: a log, and the rest.

    Args:
        trace: The rows to part, with times.
        rows_per_station: The log is so many rows of each station, its earliest; rows of one time stay in their order.
        at: The log is what was before this time.

    Example:
        >>> columns = {"station": ["a", "a", "a", "b", "b"], "time": [3, 1, 2, 8, 9], "tilt": [2, 4, 4, 2, 4]}
        >>> trace = Trace.from_frame(columns | {"reward": [0.3, 0.1, 0.2, 0.8, 0.9]}, {"configuration": ["tilt"]})
        >>> log, rest = split_trace(trace, rows_per_station=1)
        >>> log.reward.tolist(), rest.reward.tolist()
        ([0.1, 0.8], [0.3, 0.2, 0.9])
    """
    if (rows_per_station is None) == (at is None):
        raise BadInputError("a trace is split by rows_per_station= or at=: give one of them")
    if rows_per_station is None:
        return _both_sides(*trace.split(at), advice="choose another time")
    count = whole_number(rows_per_station, name="rows_per_station", least=1)
    early = earliest_rows(trace, count)
    for station, own in zip(trace.stations, rows_by_station(trace), strict=True):
        if (rows := len(own)) <= count:
            raise BadInputError(
                f"station {station!r} has {rows} row(s), a log of {count} leaves none to play on: ask for fewer"
            )
    return trace.select(early), trace.select(~early)


def earliest_rows(trace: Trace, count: int) -> BoolArray:
    """Return which rows are among the first so many of their station, (n,); rows of one time stay in their order."""
    if trace.time is None:
        raise no_time("the trace has no time to be split by")
    early = np.zeros(len(trace), dtype=np.bool_)
    for rows in rows_by_station(trace):
        early[rows[np.argsort(trace.time[rows], kind="stable")[:count]]] = True
    return early


def split_by_group(trace: Trace, groups: ArrayLike, *, share: float, rng: np.random.Generator) -> tuple[Trace, Trace]:
    """Return the rows of some groups, drawn at random, and the rows of all others: a log, and the rest.

    Args:
        trace: The rows to part.
        groups: The group of each row, such as its measurement run, (n,).
        share: The share of the groups that go to the log, above 0 and below 1; at least one group on either side.
        rng: Draws the groups.

    Example:
        >>> columns = {"station": ["a"] * 4, "tilt": [2, 4, 4, 2], "reward": [0.1, 0.2, 0.3, 0.4]}
        >>> trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
        >>> runs = ["run 1", "run 1", "run 2", "run 2"]
        >>> log, rest = split_by_group(trace, runs, share=0.5, rng=np.random.default_rng(0))
        >>> sorted([log.reward.tolist(), rest.reward.tolist()])
        [[0.1, 0.2], [0.3, 0.4]]
    """
    drawn = rows_of_some(trace, groups, share=share, rng=rng)
    return _both_sides(trace.select(drawn), trace.select(~drawn), advice="change share, or draw again")


def rows_of_some(trace: Trace, groups: ArrayLike, *, share: float, rng: np.random.Generator) -> BoolArray:
    """Return which rows are of a share of the groups, drawn at random, (n,); at least one group is on either side."""
    labels = np.asarray(groups)
    if labels.shape != (len(trace),):
        raise BadInputError(f"groups must be {len(trace)} labels, one per row of the trace, got shape {labels.shape}")
    if not 0 < finite_number(share, name="share") < 1:
        raise BadInputError(f"share must lie between 0 and 1, got {share:g}")
    names, members = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise BadInputError(f"all rows are of one group, {names[0]}: parting them takes at least two")
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    return np.isin(members, rng.choice(len(names), size=count, replace=False))


def _both_sides(log: Trace, rest: Trace, *, advice: str) -> tuple[Trace, Trace]:
    """Refuse a split that leaves a station on one side only."""
    alone = sorted(set(log.stations) ^ set(rest.stations))
    if alone:
        part = "log" if alone[0] in log.stations else "rest"
        raise BadInputError(
            f"all rows of station {alone[0]!r} fall into the {part}: {advice}, or leave the station out by Trace.select"
        )
    return log, rest


# --- Any log of many stations, turned into an environment that answers for configurations that were not run ---------
#
# In every slot each station is in the state of one of its own rows, drawn at random. Configuration c in state s pays
# the mean reward of the k rows that are nearest to (s, c), as the paper's simulator does from its operator's trace.
# The paper prints neither k nor the scales: here k is 5 by default, states are standardised over the whole trace and
# configurations over the space, and categories are as far apart as `neighbours` says. "Nearest in the data set" may
# mean the station's own rows or everybody's; with everybody's, all stations have the same reward function and sharing
# is trivially right. Ours are the station's own, `pooled=True` is the other reading.
#
# Rewards follow from state and configuration without chance, so what an arm earns is what it is expected to earn. They
# are as good as the log: where a configuration was hardly ever run in a state, the nearest rows are far.


class TraceEnvironment(RowsEnvironment):
    """A trace as an environment, by k nearest neighbours; what is played changes nothing.

    Args:
        trace: The rows it answers from. Keep a learner's log out of them, see `split_trace`.
        space: The configurations to choose from, those of the trace if not given; may hold some that were never run.
        neighbours: How many rows are averaged, k; rows as near as the k-th count with it.
        pooled: Whether to answer from the rows of all stations instead of the station's own.
        stations: The stations that play, in this order; all of the trace if not given.
        category_distance: How far apart two configurations are that differ in one category alone, in standard
            deviations of a quantity. A large one keeps rows of other categories out while there are others.
        seed: As if `reset(seed)` had been called.

    Attributes:
        encoder: Makes the contexts; fitted to the trace.
        state_ranges: The least and the greatest value of each state feature in the trace.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> columns = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 4, 60)}
        >>> columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2
        >>> environment = TraceEnvironment(Trace.from_frame(columns, {"configuration": ["tilt"]}), neighbours=2, seed=1)
        >>> environment.stations, environment.arms, list(environment.slot.states["a"])
        (('a', 'b'), 4, ['load'])
        >>> truth = environment.truth("a")
        >>> environment.play({"a": truth.best})["a"].reward == float(truth.rewards.max())
        True
    """

    def __init__(
        self,
        trace: Trace,
        space: ConfigurationSpace | None = None,
        *,
        neighbours: int = 5,
        pooled: bool = False,
        stations: Sequence[str] | None = None,
        category_distance: float = math.sqrt(2),
        seed: int = 0,
    ) -> None:
        k = whole_number(neighbours, name="neighbours", least=1)
        distance = positive_number(category_distance, name="category_distance")
        super().__init__(trace, space, stations=stations)
        self._build(self.trace, k, pooled=pooled, distance=distance)
        self.reset(seed)

    def _build(self, trace: Trace, k: int, *, pooled: bool, distance: float) -> None:
        """Put the rows into trees, one for each station or one for all."""
        samples = trace.samples(self.encoder)
        codes = {column: len(self.space.knobs[self.features[column]]) for column in self.categorical}
        points, p = points_of(samples.X, codes=codes, distance=distance), len(self.encoder.state.names)
        knobs = {column - p: count for column, count in codes.items()}
        self._configurations = points_of(self.space.features, codes=knobs, distance=distance)
        owners = [None] if pooled else self.stations
        parts = [np.arange(len(trace)) if s is None else np.flatnonzero(trace.station == s) for s in owners]
        _check_counts(owners, parts, k)
        noise = np.full(len(trace), np.nan) if samples.noise is None else samples.noise
        trees = [NearestRows(points[rows], samples.y[rows], noise[rows], count=k) for rows in parts]
        self._trees = trees * len(self.stations) if pooled else trees
        rewards = np.concatenate([tree.rewards for tree in trees])
        self.reward_range = (float(rewards.min()), float(rewards.max()))

    def _asked(self, task: int, row: int) -> Answers:
        state = self.encoder.state.transform(self._states[task][row])
        points = np.hstack([np.broadcast_to(state, (self.arms, len(state))), self._configurations])
        rewards, noise = self._trees[task].average(points)
        rewards.setflags(write=False)
        return rewards, noise


def _check_counts(owners: Sequence[str | None], parts: Sequence[IntArray], k: int) -> None:
    for station, rows in zip(owners, parts, strict=True):
        if len(rows) > k:
            continue
        what = "the trace" if station is None else f"station {station!r}"
        others = (
            "" if station is None else ", leave the station out by stations=, or answer from all rows by pooled=True"
        )
        raise BadInputError(
            f"{what} has {len(rows)} row(s), {k} neighbour(s) need at least {k + 1}, or every configuration would earn "
            f"the same: give more rows, lower neighbours{others}"
        )


# --- A trace as an environment whose truth can be learned: each station's smooth fit of its rows, plus noise --------
#
# The mean of a few nearest rows keeps their noise, so the best of many configurations is one that was lucky in the
# log, which nobody can know beforehand: much of the regret counted against it can never be saved. Here configuration c
# in state s is expected to earn what a regression of *all* the station's rows says of (s, c), within the rewards of
# the trace, and earns it plus Gaussian noise as large as the station's residuals. So a learner that has understood a
# station pays no regret, and whatever is paid could have been saved.
#
# The noise of a slot is the station's, whichever configuration it plays: a learner sees the same as with a draw for
# each, and regret against the best reward is regret in expectation. Logs are drawn from the same truth, with random
# configurations in states of random rows. Which regression it is, is for the caller to say, since environments know
# nothing of learners; `kinband.experiments.problems` has one.

LEAST = 10
"""Rows that a station must have to be fitted."""


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """What a regression says of one station.

    Attributes:
        mean: Contexts (n, d) → what they are expected to earn, (n,).
        deviation: Standard deviation of a reward around it.

    Example:
        >>> SmoothFit(lambda X: X.sum(axis=1), 0.1).mean(np.array([[0.2, 0.3]])).tolist()
        [0.5]
    """

    mean: Callable[[FloatArray], FloatArray]
    deviation: float


class SmoothTraceEnvironment(RowsEnvironment):
    """A trace as an environment, by a smooth fit for each station; what is played changes nothing.

    Args:
        trace: The rows that are fitted, and whose states are shown.
        fit: The regression: all rows in, a fit for each of their stations out.
        stations: The stations that play, in this order; all of the trace if not given.
        seed: As if `reset(seed)` had been called.

    Attributes:
        encoder: Makes the contexts; fitted to the trace.
        state_ranges: The least and the greatest value of each state feature in the trace.
        fits: What the regression found, station by station.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> columns = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 4, 60)}
        >>> columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2
        >>> trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
        >>> def fit(samples):  # tilt, the second feature, is best in the middle
        ...     return [SmoothFit(lambda X: 1.0 - 0.1 * X[:, 1] ** 2, 0.05)] * len(samples.stations)
        >>> environment = SmoothTraceEnvironment(trace, fit, seed=1)
        >>> environment.truth("a").best in (1, 2), len(environment.log(5, rng))
        (True, 10)
    """

    reward_range = (-np.inf, np.inf)

    def __init__(
        self,
        trace: Trace,
        fit: Callable[[Samples], Sequence[SmoothFit]],
        *,
        stations: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(trace, None, stations=stations)
        _check_fits(self.stations, self._counts)
        rows = trace.select(np.isin(trace.station, self.stations))
        self.fits = tuple(fit(rows.samples(self.encoder, stations=self.stations)))
        self._deviations = _deviations(self.fits, self.stations)
        self._lowest, self._highest = float(rows.reward.min()), float(rows.reward.max())
        self.reset(seed)

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of random configurations in states of random rows, paid as a slot pays."""
        n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(self.stations)
        tasks, arms = np.repeat(np.arange(M), n), rng.integers(self.arms, size=n * M)
        rows = rng.integers(np.repeat(self._counts, n))
        S = np.array([self._states[task][row] for task, row in zip(tasks, rows, strict=True)])
        X = self.encoder.encode(S, arms)
        expected = np.concatenate([self._clipped(task, X[tasks == task]) for task in range(M)])
        y = expected + self._deviations[tasks] * rng.standard_normal(n * M)
        return Samples(self.stations, tasks, X, y, None, self.features, self.categorical, arms=arms)

    def _outcome(self, task: int, arm: int) -> Outcome:
        return Outcome(float(self._truth(task).rewards[arm]))

    def _truth(self, task: int) -> Truth:
        expected, _ = self._answers(task)
        return Truth(expected + self._luck[task], expected)

    def _asked(self, task: int, row: int) -> Answers:
        S = np.broadcast_to(self._states[task][row], (self.arms, self._states[task].shape[1]))
        expected = self._clipped(task, self.encoder.encode(S, np.arange(self.arms)))
        expected.setflags(write=False)
        return expected, np.full(self.arms, np.nan)

    def _clipped(self, task: int, X: FloatArray) -> FloatArray:
        return np.clip(self.fits[task].mean(X), self._lowest, self._highest)

    def _show(self, number: int) -> None:
        super()._show(number)
        self._luck = self._deviations * self._rng.standard_normal(len(self.stations))


def _check_fits(stations: Sequence[str], counts: IntArray) -> None:
    few = int(counts.argmin())
    if counts[few] < LEAST:
        raise BadInputError(
            f"station {stations[few]!r} has {counts[few]} row(s), a smooth fit takes at least {LEAST}: give more rows, "
            "or leave the station out by stations="
        )


def _deviations(fits: Sequence[SmoothFit], stations: Sequence[str]) -> FloatArray:
    if len(fits) != len(stations):
        raise BadInputError(f"fit must return a fit for each of {len(stations)} station(s), got {len(fits)}")
    found = np.array([finite_number(fit.deviation, name="deviation") for fit in fits])
    if (found < 0).any():
        raise BadInputError(f"a fit's deviation must not be negative, got {found.min():g}")
    return found
