"""What an environment is: it shows contexts slot by slot and pays rewards for the arms that are played.

An environment always stands in one slot. The slot shows every station's contexts; `play` takes the arms of the
stations that act, pays them, and moves on to the next slot. One method serves both ways of running: all stations
in one call is a parallel round (Algorithm 1), one station in a call is its turn V_t of the sequential setting
(Algorithm 2). Rewards come together and not one by one because stations may influence each other, as neighbouring
cells do. An environment has no end; the run decides how many slots to play.

Everything follows from the seed given to `reset`. Where `exogenous` is true, the contexts do not depend on what is
played either, so that two policies on the same seed meet the same slots and can be compared in pairs.

What a learner may know (slots and outcomes) is kept apart from what only a referee may know: `truth`, a capability,
tells what every arm of the present slot would earn and is what regrets are counted by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kinband.arrays import BoolArray, FloatArray
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples
from kinband.space import ConfigurationSpace


@dataclass(frozen=True, eq=False)
class Slot:
    """What one slot shows.

    Attributes:
        number: Counts from 0 after every reset.
        contexts: For each station one context row per arm, (N, d).
        states: For each station its state, feature by feature and not yet scaled; empty where arms are not
            configurations of a space.
        allowed: For stations that cannot play every arm, which they can, (N,) booleans; the others may play all.

    Example:
        >>> Slot(0, {"a": np.zeros((3, 2))}).contexts["a"].shape
        (3, 2)
    """

    number: int
    contexts: Mapping[str, FloatArray]
    states: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    allowed: Mapping[str, BoolArray] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a station earned: the reward, and its variance where the environment knows it.

    Example:
        >>> Outcome(0.9).noise is None
        True
    """

    reward: float
    noise: float | None = None


@dataclass(frozen=True, eq=False)
class Truth:
    """What a referee knows of one station in one slot, and the regret by three definitions.

    Attributes:
        rewards: What each arm would earn in this slot, r_a, (N,).
        expected: What each arm is expected to earn given its context, E[r | x_a, m], (N,).

    Example:
        >>> truth = Truth(rewards=np.array([0.9, 0.7, 0.2]), expected=np.array([0.5, 0.6, 0.3]))
        >>> truth.best
        1
        >>> [round(regret, 9) for regret in (truth.realised_regret(0), truth.defined_regret(0), truth.pseudo_regret(0))]
        [0.0, -0.2, 0.1]
    """

    rewards: FloatArray
    expected: FloatArray

    @property
    def best(self) -> int:
        """The best arm a* of (2): the one with the largest expected reward."""
        return int(self.expected.argmax())

    def realised_regret(self, arm: int) -> float:
        """Return max r − r_arm: against the best reward there was in the slot. Never negative."""
        return float(self.rewards.max() - self.rewards[arm])

    def defined_regret(self, arm: int) -> float:
        """Return r_a* − r_arm, the summand of (2) and (3) as printed. Negative when luck beat the best arm."""
        return float(self.rewards[self.best] - self.rewards[arm])

    def pseudo_regret(self, arm: int) -> float:
        """Return E[r | x_a*] − E[r | x_arm], (2) in expectation, as its footnote calls it. Never negative."""
        return float(self.expected.max() - self.expected[arm])


class Environment(Protocol):
    """Shows contexts and pays rewards, slot after slot.

    Example:
        >>> from kinband.environments import SyntheticBandit
        >>> environment: Environment = SyntheticBandit(seed=7)
        >>> together = environment.play({station: 0 for station in environment.stations})  # a parallel round
        >>> alone = environment.play({"3": 4})  # one station's turn
        >>> len(together), len(alone), environment.slot.number
        (5, 1, 2)
    """

    @property
    def stations(self) -> tuple[str, ...]:
        """Station names; a task number is an index into them."""

    @property
    def arms(self) -> int:
        """Number of arms N, the same for every station."""

    @property
    def features(self) -> tuple[str, ...]:
        """The d names of the context columns."""

    @property
    def categorical(self) -> tuple[int, ...]:
        """Context columns that hold category codes."""

    @property
    def space(self) -> ConfigurationSpace | None:
        """The configurations that the arms stand for; None where an arm is no more than its context row."""

    @property
    def reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward there can be."""

    @property
    def exogenous(self) -> bool:
        """Whether contexts and rewards offered are the same whatever was played before."""

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""

    def reset(self, seed: int) -> Slot:
        """Go to the first slot of the trajectory that belongs to the seed, and show it."""

    def play(self, arms: Mapping[str, int]) -> dict[str, Outcome]:
        """Pay each station in `arms` for its arm, then move on to the next slot."""


@runtime_checkable
class KnowsTruth(Protocol):
    """An environment that knows what the arms not played would have earned.

    Example:
        >>> from kinband.environments import SyntheticBandit
        >>> isinstance(SyntheticBandit(), KnowsTruth)
        True
    """

    def truth(self, station: str) -> Truth:
        """Return what only a referee may know of the station in the present slot; ask before playing."""


@runtime_checkable
class DrawsLogs(Protocol):
    """An environment that can give a log with random arms, for similarities and kernels to be learned from.

    Example:
        >>> from kinband.environments import SyntheticBandit
        >>> environment: DrawsLogs = SyntheticBandit()
        >>> len(environment.log(3, np.random.default_rng(0)))
        15
    """

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log from slots of its own; the present slot and those to come are not touched."""


class Referee(Environment, KnowsTruth, Protocol):
    """An environment on which regret can be counted."""


class Exogenous:
    """What environments have in common that pay the same whatever was played before.

    Those who inherit draw a slot with its rewards and expected rewards, (M, N) each, in `_show`, or say in `_truth` and
    `_outcome` what is earned there.
    """

    exogenous = True
    stations: tuple[str, ...]
    arms: int
    _slot: Slot
    _rewards: FloatArray
    _expected: FloatArray

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""
        return self._slot

    def reset(self, seed: int) -> Slot:
        """Go to the first slot of the trajectory that belongs to the seed, and show it."""
        self._begin(whole_number(seed, name="seed", least=0))
        self._show(0)
        return self._slot

    def play(self, arms: Mapping[str, int]) -> dict[str, Outcome]:
        """Pay each station in `arms` for its arm, then move on to the next slot."""
        played = checked_arms(arms, stations=self.stations, count=self.arms)
        outcomes = {station: self._outcome(self._task[station], arm) for station, arm in played.items()}
        self._show(self._slot.number + 1)
        return outcomes

    def truth(self, station: str) -> Truth:
        """Return what only a referee may know of the station in the present slot; ask before playing."""
        return self._truth(self._task[known_station(station, self.stations)])

    @cached_property
    def _task(self) -> dict[str, int]:
        return {station: number for number, station in enumerate(self.stations)}

    def _begin(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def _show(self, number: int) -> None:
        raise NotImplementedError

    def _present(self, number: int, contexts: Sequence[FloatArray]) -> None:
        """Show the contexts of all stations, (N, d) each; nobody can change them."""
        for array in (*contexts, self._rewards):
            array.setflags(write=False)
        self._slot = Slot(number, dict(zip(self.stations, contexts, strict=True)))

    def _outcome(self, task: int, arm: int) -> Outcome:
        return Outcome(float(self._rewards[task, arm]))

    def _truth(self, task: int) -> Truth:
        return Truth(self._rewards[task], self._expected[task])


def known_station(station: str, stations: Sequence[str]) -> str:
    """Return the name of a station that is there, or say which there are."""
    if station not in stations:
        raise NotFoundError(f"there is no station {station!r} here: the stations are {', '.join(stations)}")
    return station


def checked_arms(arms: Mapping[str, int], *, stations: Sequence[str], count: int) -> dict[str, int]:
    """Return the arms played, by station, or say what is wrong with them."""
    for station, arm in arms.items():
        known_station(station, stations)
        if not _is_whole(arm) or not 0 <= arm < count:
            raise BadInputError(f"station {station!r} cannot play arm {arm!r}: arms are numbered from 0 to {count - 1}")
    return {station: int(arm) for station, arm in arms.items()}


def whole_number(value: Any, *, name: str, least: int) -> int:
    """Return `value` as an int of at least `least`, or say what came instead."""
    if not _is_whole(value) or value < least:
        raise BadInputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
