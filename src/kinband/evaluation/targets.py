"""The policies that can be judged: what a station would have run in a state.

`recommend` is what the controller would recommend after learning from the earlier rows, its largest posterior mean (9);
`usual` keeps every station at what it ran most often in the earlier rows, which is what all others are compared with; a
mapping fixes one configuration for all; and any function of station and state can be judged, be it that it answers
with a configuration or with probabilities over all of them.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray, IntArray, finite_array
from kinband.controller.explain import configuration_text
from kinband.errors import BadInputError, NotFoundError
from kinband.evaluation.beliefs import Beliefs
from kinband.space import ConfigurationSpace

Chooser = Callable[[str, Mapping[str, float]], Any]
"""From station and state to a configuration, or to one probability per configuration of the space."""

USUAL = "every station at its usual configuration"
"""The name of what all others are compared with."""

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


@runtime_checkable
class Target(Protocol):
    """A policy that can be judged.

    Example:
        >>> isinstance(Fixed(2, "tilt=4 everywhere"), Target)
        True
    """

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        ...

    def choices(self, station: NDArray[np.str_], S: FloatArray) -> Choices:
        """Return what stations (n,) would run in states S (n, p), in their own units."""
        ...


@dataclass(frozen=True, eq=False)
class Fixed:
    """One configuration for all stations.

    Example:
        >>> fixed = Fixed.of({"tilt": 4}, ConfigurationSpace(tilt=[2, 4]))
        >>> fixed.name, fixed.choices(np.array(["a"]), np.zeros((1, 0))).arms.tolist()
        ('tilt=4 everywhere', [[1]])
    """

    arm: int
    name: str

    @classmethod
    def of(cls, configuration: Mapping[str, Any], space: ConfigurationSpace) -> "Fixed":
        """Return the policy of a configuration, or say what is not known of it."""
        arm = space.index(configuration)
        return cls(arm, f"{configuration_text(space[arm], arm)} everywhere")

    def choices(self, station: NDArray[np.str_], S: FloatArray) -> Choices:
        """Return the configuration for every row."""
        del S
        return Choices.certain(np.full(len(station), self.arm))


@dataclass(frozen=True, eq=False)
class Usual:
    """Every station at what it ran most often; of several such, the first by number.

    Example:
        >>> usual = Usual.of(np.array(["a", "a", "a", "b"]), np.array([3, 1, 3, 0]))
        >>> usual.choices(np.array(["b", "a"]), np.zeros((2, 0))).arms.tolist()
        [[0], [3]]
    """

    arms: Mapping[str, int]
    name: str = USUAL

    @classmethod
    def of(cls, station: NDArray[np.str_], arms: IntArray) -> "Usual":
        """Return what stations (n,) ran most often of arms (n,)."""
        return cls({name: int(np.bincount(arms[station == name]).argmax()) for name in np.unique(station).tolist()})

    def choices(self, station: NDArray[np.str_], S: FloatArray) -> Choices:
        """Return the usual configuration of each row's station."""
        del S
        return Choices.certain(np.array([self.arms[name] for name in station.tolist()], dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Recommended:
    """What the controller would recommend: the largest expected reward.

    Attributes:
        beliefs: What was learned from the earlier rows.
    """

    beliefs: Beliefs
    name: str = "what kinband recommends"

    def choices(self, station: NDArray[np.str_], S: FloatArray) -> Choices:
        """Return the recommendation for each row."""
        task = {name: number for number, name in enumerate(self.beliefs.rows.stations)}
        tasks = np.array([task[name] for name in station.tolist()], dtype=np.int64)
        return Choices.certain(self.beliefs.best(tasks, self.beliefs.encoder.state.transform(S)))


def check_chooser(choose: Chooser) -> None:
    """Refuse a function that cannot be called with station and state.

    Example:
        >>> check_chooser(lambda state: {"tilt": 4})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a policy is called with station and state, which this function does not take: ...
    """
    try:
        inspect.signature(choose).bind("", {})
    except TypeError as error:
        raise BadInputError(
            f"a policy is called with station and state, which this function does not take: {error}"
        ) from error
    except ValueError:  # a builtin that does not say what it takes
        return


@dataclass(frozen=True, eq=False)
class Chosen:
    """A function of the user's own.

    Attributes:
        choose: Takes station and state, returns a configuration or N probabilities.
        space: The configurations.
        state_names: Names of the state features.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> mine = Chosen(lambda station, state: {"tilt": 4 if state["load"] > 0.5 else 2}, space, ("load",))
        >>> mine.choices(np.array(["a", "a"]), np.array([[0.9], [0.1]])).arms.tolist()
        [[1], [0]]
        >>> even = Chosen(lambda station, state: [0.5, 0.5], space, ("load",))
        >>> even.choices(np.array(["a"]), np.array([[0.9]])).shares.tolist()
        [[0.5, 0.5]]
    """

    choose: Chooser
    space: ConfigurationSpace
    state_names: tuple[str, ...]
    name: str = "the policy"

    def choices(self, station: NDArray[np.str_], S: FloatArray) -> Choices:
        """Ask the function row by row; where it fails, say for which station."""
        rows = zip(station.tolist(), S.tolist(), strict=True)
        answers = [self._answer(name, dict(zip(self.state_names, state, strict=True))) for name, state in rows]
        if all(isinstance(answer, int) for answer in answers):
            return Choices.certain(np.array(answers, dtype=np.int64))
        shares = np.array([np.eye(len(self.space))[a] if isinstance(a, int) else a for a in answers])
        return Choices(np.broadcast_to(np.arange(len(self.space)), shares.shape), shares)

    def _answer(self, station: str, state: dict[str, float]) -> int | FloatArray:
        """The number of the configuration that the function wants, or the probabilities of all, (N,)."""
        try:
            answer = self.choose(station, state)
        except Exception as error:
            what = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise BadInputError(f"the policy failed for station {station!r} in the state {state}: {what}") from error
        try:
            return self.space.index(answer) if isinstance(answer, Mapping) else self._shares(answer)
        except (BadInputError, NotFoundError) as error:
            raise type(error)(f"the policy's answer for station {station!r} cannot be used: {error}") from error

    def _shares(self, answer: Any) -> FloatArray:
        N = len(self.space)
        if answer is None or isinstance(answer, str) or not isinstance(answer, Iterable):
            raise BadInputError(f"a policy answers with a configuration or with {N} probabilities, got {answer!r:.60}")
        shares = finite_array(list(answer), name="the probabilities of a policy", ndim=1)
        if len(shares) != N or shares.min() < 0 or abs(shares.sum() - 1) > _SUM:
            raise BadInputError(
                f"a policy answers with a configuration or with {N} probabilities that add up to 1, "
                f"got {len(shares)} that add up to {shares.sum():g}, the smallest {shares.min():g}"
            )
        return shares
