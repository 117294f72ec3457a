"""States from the rows of a trace, slot after slot: what all environments that are made of a trace have in common.

In every slot each station is in the state of one of its own rows, drawn at random. What a configuration earns there is
said by those who inherit from here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.contract import Outcome, Slot, Truth, checked_arms, whole_number
from kinband.errors import BadInputError, NotFoundError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

Value = TypeVar("Value")
Answers = tuple[FloatArray, FloatArray]
"""What each arm earns in a state, (N,), and the variance of that, (N,), nan where not known."""


class RowsEnvironment:
    """Shows the states of a trace's rows; `_asked` says what configurations earn there.

    Args:
        trace: The rows.
        space: The configurations to choose from, those of the trace if not given.
        stations: The stations that play, in this order; all of the trace if not given.
        cache: Whether to keep every answer for the next run.
    """

    exogenous = True

    def __init__(
        self, trace: Trace, space: ConfigurationSpace | None, *, stations: Sequence[str] | None, cache: bool
    ) -> None:
        self.trace = trace if space is None else trace.with_space(space)
        self.stations = trace.stations if stations is None else _known_stations(stations, trace)
        self.encoder = self.trace.encoder()
        self.space = self.encoder.space
        self.arms, self.features, self.categorical = len(self.space), self.encoder.features, self.encoder.categorical
        self.cache = cache
        self._known: dict[tuple[int, int], Answers] = {}
        self._task = {station: number for number, station in enumerate(self.stations)}
        self._states = [trace.state[trace.station == station] for station in self.stations]
        self._counts: IntArray = np.array([len(S) for S in self._states])
        self.state_ranges = dict(zip(trace.state_names, _ranges(trace.state), strict=True))

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
        """What each arm earns in the state of a task's row."""
        raise NotImplementedError

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


def _ranges(S: FloatArray) -> list[tuple[float, float]]:
    return list(zip(S.min(axis=0).tolist(), S.max(axis=0).tolist(), strict=True))
