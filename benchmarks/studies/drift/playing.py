"""Learners on stations that change: their problems, how each is prepared, and a run slot by slot."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.studies.drift.results import (
    BOTH,
    FORGETTING,
    FROM_NOTHING,
    LEARNERS,
    ORACLES,
    RESETS,
    Plan,
    Record,
)
from kinband.controller import Controller
from kinband.drift import Drift
from kinband.environments import SyntheticBandit, TraceEnvironment, split_trace
from kinband.environments.contract import Referee
from kinband.environments.drifting import Drifting, How
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, stage_of
from kinband.model import Model, learn_model
from kinband.records import Samples
from kinband.space import ConfigurationSpace

SCENARIOS: tuple[How, ...] = ("none", "step", "slow")
PROBLEMS = ("city", "synthetic")
SHARING = ("shared", "alone")


@dataclass(frozen=True, eq=False)
class Problem:
    """What all learners of a seed share."""

    name: str
    environment: Referee
    space: ConfigurationSpace
    model: Model
    log: Samples | None
    options: dict[str, Any]


def measure(
    seeds: Iterable[int],
    plan: Plan | None = None,
    *,
    problems: Sequence[str] = PROBLEMS,
    scenarios: Sequence[How] = SCENARIOS,
    tick: Callable[[], None] | None = None,
) -> list[Record]:
    """Play every learner in every scenario on every seed; `tick` is called after every run.

    Example:
        >>> small = Plan(stations=3, before=3, after=3, window=2)
        >>> records = measure([1], small, problems=["city"], scenarios=["step"])
        >>> len(records), records[0].regret.shape
        (12, (6,))
    """
    plan, records = plan or Plan(), []
    for name in problems:
        problem = problem_of(name, plan)
        for seed in seeds:
            for scenario in scenarios:
                for sharing in SHARING:
                    for learner in (*LEARNERS, *ORACLES) if scenario == "step" else LEARNERS:
                        records.append(play(problem, plan, scenario, sharing=sharing, learner=learner, seed=seed))
                        if tick is not None:
                            tick()
    return records


@cache
def problem_of(name: str, plan: Plan) -> Problem:
    """Return a problem with what was learned from its log; the log is the same for all seeds."""
    if name == "city":
        stage = stage_of("bundled")
        names = stage.trace.stations
        places = np.linspace(0, len(names) - 1, min(plan.stations, len(names))).round().astype(int)
        trace = stage.trace.select(np.isin(stage.trace.station, [names[i] for i in places]))
        log, rest = split_trace(trace, rows_per_station=LOG_ROWS)
        log = log.with_space(stage.space)
        encoder = log.encoder()
        samples = log.samples(encoder)
        model = learn_model(samples, "joint", rng=np.random.default_rng([0, 5]))
        environment = TraceEnvironment(rest, stage.space)
        return Problem(name, environment, encoder.space, model, samples, {"state": encoder.state})
    if name == "synthetic":
        bandit = SyntheticBandit(10, 5, arm_feature=True)
        model = learn_model(
            bandit.log(LOG_ROWS, np.random.default_rng([0, 6])), "joint", rng=np.random.default_rng([0, 5])
        )
        return Problem(
            name, bandit, ConfigurationSpace(arm=range(bandit.arms)), model, None, {"features": bandit.features}
        )
    raise BadInputError(f"there is no problem {name!r}: choose one of {', '.join(PROBLEMS)}")


def play(problem: Problem, plan: Plan, scenario: How, *, sharing: str, learner: str, seed: int) -> Record:
    """Return one run of a learner, all stations in one round a slot."""
    world = Drifting(problem.environment, scenario, begin=plan.before, lasts=plan.after, seed=seed)
    controller = controller_of(problem, plan, sharing=sharing, learner=learner, seed=seed)
    regret, resets = np.zeros(plan.before + plan.after), [0, 0]
    for t in range(len(regret)):
        if learner in ORACLES and t == plan.before:
            controller = controller_of(problem, plan, sharing=sharing, learner=learner, seed=seed, anew=True)
        tasks = len(controller.current.stations)
        regret[t] = _slot(world, controller)
        resets[t >= plan.before] += len(controller.current.stations) - tasks
    many = len(world.stations)
    return Record(problem.name, scenario, sharing, learner, seed, many, regret, (resets[0], resets[1]))


def controller_of(
    problem: Problem, plan: Plan, *, sharing: str, learner: str, seed: int, anew: bool = False
) -> Controller:
    """Return a learner of a problem that has learned nothing yet but the log; `anew`, not even that."""
    model, stations = problem.model, problem.environment.stations
    common = {"beta": plan.beta, "engine": "exact", "seed": seed, **problem.options}
    if anew and learner == FROM_NOTHING:
        low, high = problem.environment.reward_range
        return Controller(problem.space, stations, mean=(low + high) / 2, reward_range=(low, high), **common)
    half_life = plan.half_life * len(stations)
    prepared = {FORGETTING: Drift(half_life, reset=False), RESETS: Drift(), BOTH: Drift(half_life)}
    alike = model.similarity if sharing == "shared" else "independent"
    return Controller(
        problem.space, stations, similarity=alike, kernel=model.kernel, noise=model.noise, mean=model.mean,
        log=None if anew else problem.log, drift=prepared.get(learner), **common,
    )  # fmt: skip


def _slot(world: Drifting, controller: Controller) -> float:
    """Play one slot and return its regret in expectation."""
    slot, stations = world.slot, world.stations
    if slot.states:
        made = controller.ask_all({station: slot.states[station] for station in stations})
    else:
        made = controller.ask_all(contexts={station: slot.contexts[station] for station in stations})
    regret = sum(world.truth(station).pseudo_regret(decision.arm) for station, decision in made.items())
    outcomes = world.play({station: decision.arm for station, decision in made.items()})
    for station, decision in made.items():
        controller.tell(decision.id, outcomes[station].reward, noise=outcomes[station].noise)
    return float(regret)
