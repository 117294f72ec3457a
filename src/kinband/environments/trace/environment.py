"""Any log of many stations, turned into an environment that answers for configurations that were not run.

In every slot each station is in the state of one of its own rows, drawn at random. Configuration c in state s pays the
mean reward of the k rows that are nearest to (s, c), as the paper's simulator does from its operator's trace. The paper
prints neither k nor the scales: here k is 5 by default, states are standardised over the whole trace and
configurations over the space, and categories are as far apart as `neighbours` says. "Nearest in the data set" may mean
the station's own rows or everybody's; with everybody's, all stations have the same reward function and sharing is
trivially right. Ours are the station's own, `pooled=True` is the other reading.

Rewards follow from state and configuration without chance, so what an arm earns is what it is expected to earn. They
are as good as the log: where a configuration was hardly ever run in a state, the nearest rows are far.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from kinband.arrays import FloatArray, IntArray, positive_number
from kinband.configurations import ConfigurationSpace
from kinband.environments.contract import Outcome, Slot, Truth, checked_arms, whole_number
from kinband.environments.trace.neighbours import NearestRows, points_of
from kinband.errors import BadInputError, NotFoundError
from kinband.trace import Trace

Value = TypeVar("Value")
Answers = tuple[FloatArray, FloatArray]


class TraceEnvironment:
    """A trace as an environment, by k nearest neighbours; what is played changes nothing.

    Args:
        trace: The rows it answers from. Keep a learner's log out of them, see `split_trace`.
        space: The configurations to choose from, those of the trace if not given; may hold some that were never run.
        neighbours: How many rows are averaged, k; rows as near as the k-th count with it.
        pooled: Whether to answer from the rows of all stations instead of the station's own.
        stations: The stations that play, in this order; all of the trace if not given.
        category_distance: How far apart two configurations are that differ in one category alone, in standard
            deviations of a quantity. A large one keeps rows of other categories out while there are others.
        cache: Whether to keep every answer for the next run: one number per row and configuration that came up.
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

    exogenous = True

    def __init__(
        self,
        trace: Trace,
        space: ConfigurationSpace | None = None,
        *,
        neighbours: int = 5,
        pooled: bool = False,
        stations: Sequence[str] | None = None,
        category_distance: float = math.sqrt(2),
        cache: bool = True,
        seed: int = 0,
    ) -> None:
        k = whole_number(neighbours, name="neighbours", least=1)
        distance = positive_number(category_distance, name="category_distance")
        trace = trace if space is None else trace.with_space(space)
        self.stations = trace.stations if stations is None else _known_stations(stations, trace)
        self.encoder = trace.encoder()
        self.space = self.encoder.space
        self.arms, self.features, self.categorical = len(self.space), self.encoder.features, self.encoder.categorical
        self.cache = cache
        self._known: dict[tuple[int, int], Answers] = {}
        self._task = {station: number for number, station in enumerate(self.stations)}
        self._states = [trace.state[trace.station == station] for station in self.stations]
        self._counts: IntArray = np.array([len(S) for S in self._states])
        self._build(trace, k, pooled=pooled, distance=distance)
        self.state_ranges = dict(zip(trace.state_names, _ranges(trace.state), strict=True))
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

    @property
    def slot(self) -> Slot:
        """What the present slot shows; contexts and states are made when they are looked at."""
        return self._slot

    def reset(self, seed: int) -> Slot:
        """Go to the first slot of the trajectory that belongs to the seed, and show it."""
        self._rng = np.random.default_rng(whole_number(seed, name="seed", least=0))
        self._show(0)
        return self._slot

    def play(self, arms: Mapping[str, int]) -> dict[str, Outcome]:
        """Pay each station in `arms` for its arm, then move on to the next slot."""
        played = checked_arms(arms, stations=self.stations, count=self.arms)
        outcomes = {station: self._outcome(station, arm) for station, arm in played.items()}
        self._show(self._slot.number + 1)
        return outcomes

    def truth(self, station: str) -> Truth:
        """Return what only a referee may know of the station in the present slot; ask before playing."""
        if station not in self._task:
            raise NotFoundError(f"there is no station {station!r} here: the stations are {', '.join(self.stations)}")
        rewards, _ = self._answers(station)
        return Truth(rewards, rewards)

    def _outcome(self, station: str, arm: int) -> Outcome:
        rewards, noise = self._answers(station)
        return Outcome(float(rewards[arm]), None if np.isnan(noise[arm]) else float(noise[arm]))

    def _answers(self, station: str) -> Answers:
        """What each arm earns in the present slot, (N,), and the variance of that mean, nan where not known."""
        task = self._task[station]
        row = int(self._rows[task])
        if (task, row) not in self._known:
            self._known[task, row] = self._asked(task, row)
        return self._known[task, row]

    def _asked(self, task: int, row: int) -> Answers:
        state = self.encoder.state.transform(self._states[task][row])
        points = np.hstack([np.broadcast_to(state, (self.arms, len(state))), self._configurations])
        rewards, noise = self._trees[task].average(points)
        rewards.setflags(write=False)
        return rewards, noise

    def _show(self, number: int) -> None:
        if not self.cache:
            self._known.clear()
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
    """A mapping whose values are made when they are first looked at: few stations may play in a slot.

    Example:
        >>> squares = OnDemand(("2", "3"), lambda key: int(key) ** 2)
        >>> list(squares), squares["3"], "4" in squares
        (['2', '3'], 9, False)
    """

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


def _ranges(S: FloatArray) -> list[tuple[float, float]]:
    return list(zip(S.min(axis=0).tolist(), S.max(axis=0).tolist(), strict=True))
