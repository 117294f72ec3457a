"""One station of an environment as a Gymnasium environment, for agents that were written for that interface.

An action is an arm. The observation is the station's state, feature by feature in its own unit, or, where the
environment shows no state, the contexts of all arms. An episode is `horizon` slots in which this station alone plays,
as when it is its turn in Algorithm 2; a bandit has no terminal state, so episodes are truncated and never terminated.

Importing this module registers environments by id: `gymnasium.make("kinband.environments.gymnasium:kinband/City-v0")`
imports it as well. `IDS` lists them.

Needs Gymnasium, the extra `gym`; nothing else of kinband imports this module.
"""

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray
from kinband.environments.contract import Environment, KnowsTruth, known_station, whole_number
from kinband.environments.measured import bundled_measured
from kinband.environments.synthetic import SyntheticBandit
from kinband.environments.trace import TraceEnvironment
from kinband.errors import BadInputError
from kinband.trace import Trace

try:
    from gymnasium import Env, register, registry
    from gymnasium.spaces import Box, Discrete, Space
except ImportError as missing:
    raise BadInputError(
        "Gymnasium is not installed: install the extra it comes with, pip install 'kinband[gym]'"
    ) from missing


class GymEnvironment(Env[FloatArray, np.int64]):
    """One station's turns, as a Gymnasium environment.

    `info` holds the slot's number and, where the environment knows the truth, after a step also the best arm, the
    regret in expectation ("regret") and the regret against the best reward there was ("realised_regret").

    Args:
        environment: Any environment; it moves on with every step, so do not share it between two of these.
        station: The station that plays.
        horizon: Number of slots in an episode.
        bounds: Least and greatest observation, numbers or arrays; by default what the environment knows, else infinite.

    Example:
        >>> from kinband.environments import SyntheticBandit
        >>> gym = GymEnvironment(SyntheticBandit(), "3", horizon=2)
        >>> observation, info = gym.reset(seed=4)
        >>> observation.shape, gym.action_space, info
        ((5, 2), Discrete(5), {'slot': 0})
        >>> [gym.step(arm)[2:4] for arm in (0, 1)]  # terminated, truncated
        [(False, False), (False, True)]
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        environment: Environment,
        station: str,
        *,
        horizon: int = 1000,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self.environment, self.station = environment, known_station(station, environment.stations)
        self.horizon = whole_number(horizon, name="horizon", least=1)
        self.action_space = Discrete(environment.arms)
        self.observation_space = self._box(bounds)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Begin an episode on the environment's trajectory of a seed, a new one if none is given; no options."""
        super().reset(seed=seed, options=options)
        self.environment.reset(int(self.np_random.integers(2**31)) if seed is None else seed)
        self._steps = 0
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Play an arm; return the next observation, the reward, False, whether the episode is over, and infos."""
        arm = self._arm(action)
        truth = self.environment.truth(self.station) if isinstance(self.environment, KnowsTruth) else None
        reward = self.environment.play({self.station: arm})[self.station].reward
        self._steps += 1
        info = self._info()
        if truth is not None:
            info |= {"best": truth.best, "regret": truth.pseudo_regret(arm)}
            info["realised_regret"] = truth.realised_regret(arm)
        return self._observation(), reward, False, self._steps >= self.horizon, info

    def _arm(self, action: Any) -> int:
        try:
            return operator.index(action)
        except TypeError as error:
            raise BadInputError(f"an action must be a whole number, got {action!r}") from error

    def _info(self) -> dict[str, Any]:
        return {"slot": self.environment.slot.number}

    def _observation(self) -> FloatArray:
        slot = self.environment.slot
        state = slot.states.get(self.station)
        return np.array(list(state.values())) if state else slot.contexts[self.station].copy()

    def _box(self, bounds: tuple[ArrayLike, ArrayLike] | None) -> Space[FloatArray]:
        shape, states = self._observation().shape, self.environment.slot.states.get(self.station)
        known = getattr(self.environment, "state_ranges", None)
        if bounds is None and states and known:
            bounds = ([known[name][0] for name in states], [known[name][1] for name in states])
        elif bounds is None and not states:
            bounds = getattr(self.environment, "context_range", None)
        low, high = (-np.inf, np.inf) if bounds is None else bounds
        try:
            box = Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), dtype=np.float64)
        except ValueError as error:
            raise BadInputError(f"bounds must be least and greatest values of shape {shape}: {error}") from error
        return cast("Space[FloatArray]", box)


# --- Environments by id ---------------------------------------------------------------------------------------------


def _synthetic(station: str = "1", *, horizon: int = 1000) -> GymEnvironment:
    return GymEnvironment(SyntheticBandit(), station, horizon=horizon)


def _city(station: str | None = None, *, horizon: int = 1000) -> GymEnvironment:
    city = TraceEnvironment(Trace.bundled())
    return GymEnvironment(city, station or city.stations[0], horizon=horizon)


def _measured(
    station: str | None = None, *, table: str = "gcc", outcome: str | None = None, horizon: int = 100
) -> GymEnvironment:
    world = bundled_measured(table, outcome)
    return GymEnvironment(world, station or world.stations[0], horizon=horizon)


IDS: dict[str, Callable[..., GymEnvironment]] = {
    "kinband/SyntheticBandit-v0": _synthetic,
    "kinband/City-v0": _city,
    "kinband/Measured-v0": _measured,
}
"""Environments by id: the paper's bandit, the bundled city, a bundled table of measurements.

All take `station` and `horizon`; Measured also `table` and `outcome`.

Example:
    >>> import gymnasium
    >>> city = gymnasium.make("kinband/City-v0", horizon=24)
    >>> observation, _ = city.reset(seed=1)
    >>> observation in city.observation_space
    True
"""

for _id, _make in IDS.items():
    if _id not in registry:
        register(_id, entry_point=_make)
