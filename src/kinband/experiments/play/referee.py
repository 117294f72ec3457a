"""One run: a controller on an environment, slot after slot, and the regret it pays.

The controller is the one that is deployed; the environment shows contexts and pays rewards; only this referee sees
what the arms not played would have earned. Parallel runs are Algorithm 1, sequential ones Algorithm 2 with the
stations taking turns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments import Environment, KnowsTruth, Slot, Truth
from kinband.errors import BadInputError
from kinband.experiments.play.cases import Mode
from kinband.records import Decision


class Referee(Environment, KnowsTruth, Protocol):
    """An environment on which regret can be counted."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a run cost, summed over the stations that played in a slot.

    Attributes:
        realised: Regret of each slot against the best reward there was, (T,).
        pseudo: Regret of each slot in expectation, (2)-(3), (T,).
        rewards: Rewards earned in each slot, (T,).
    """

    realised: FloatArray
    pseudo: FloatArray
    rewards: FloatArray


def play(
    environment: Referee,
    controller: Controller,
    *,
    slots: int,
    seed: int,
    mode: Mode = "parallel",
    tick: Callable[[], None] | None = None,
) -> Run:
    """Run a controller for so many slots on the environment's trajectory of a seed; `tick` is called every slot.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> from kinband.environments import SyntheticBandit
        >>> bandit = SyntheticBandit()
        >>> space = ConfigurationSpace(arm=range(5))
        >>> controller = Controller(space, bandit.stations, features=bandit.features, policy="random")
        >>> run = play(bandit, controller, slots=3, seed=1)
        >>> run.realised.shape, bool((run.realised >= 0).all())
        ((3,), True)
    """
    if mode not in ("parallel", "sequential"):
        raise BadInputError(f"mode must be 'parallel' or 'sequential', got {mode!r}")
    environment.reset(seed)
    realised, pseudo, rewards = np.zeros(slots), np.zeros(slots), np.zeros(slots)
    for t in range(slots):
        stations = environment.stations
        playing = stations if mode == "parallel" else (stations[t % len(stations)],)
        decisions = decide(controller, environment.slot, playing)
        truths: dict[str, Truth] = {s: environment.truth(s) for s in playing}
        outcomes = environment.play({s: d.arm for s, d in decisions.items()})
        for station, decision in decisions.items():
            controller.tell(decision.id, outcomes[station].reward, noise=outcomes[station].noise)
            realised[t] += truths[station].realised_regret(decision.arm)
            pseudo[t] += truths[station].pseudo_regret(decision.arm)
            rewards[t] += outcomes[station].reward
        if tick is not None:
            tick()
    return Run(realised, pseudo, rewards)


def decide(controller: Controller, slot: Slot, stations: tuple[str, ...]) -> dict[str, Decision]:
    """Return what a controller decides for some stations of a slot, among the arms that they can play."""
    allowed = {s: slot.allowed[s] for s in stations if s in slot.allowed}
    if slot.states:
        return controller.ask_all({s: slot.states[s] for s in stations}, allowed=allowed)
    return controller.ask_all(contexts={s: slot.contexts[s] for s in stations}, allowed=allowed)
