"""Stations that change, measured: how soon a controller is back to where it was, and what being prepared costs.

A third of the stations change in mid-run (`kinband.environments.drifting`): in one slot, little by little, or never.
All learners of a problem have the same kernel, noise and prior mean, learned from the log of before, and meet the same
slots:

- *plain*: nothing is done about drift;
- *forgetting*: old rewards count less (`Drift(half_life=...)`);
- *resets*: a station whose rewards leave their bounds starts anew (`Drift(reset=True)`);
- *both*;
- *restart*: an oracle that is told of the step when it happens and forgets every reward, of all stations. It keeps what
  the log taught of kernel, noise, mean and likeness;
- *from nothing*: the same, but as it comes out of the box: knowing the range of rewards, and nothing else.

Each is played twice: sharing by a task matrix that was learned from the log, and with every station learning alone.

How soon each is back at the regret it had before the step, and what being prepared costs, `drift_results` says.

    python -m kinband.experiments.drift --seeds 20
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from kinband.configurations import ConfigurationSpace
from kinband.controller import Controller
from kinband.drift import Drift
from kinband.environments import SyntheticBandit, TraceEnvironment, split_trace
from kinband.environments.drifting import Drifting, How
from kinband.errors import BadInputError
from kinband.experiments.drift_results import (
    BOTH,
    FORGETTING,
    FROM_NOTHING,
    LEARNERS,
    ORACLES,
    RESETS,
    Plan,
    Record,
    draw,
    findings,
    table_of,
)
from kinband.experiments.play import Referee
from kinband.experiments.stage import LOG_ROWS, stage_of
from kinband.model import Model, learn_model
from kinband.records import Samples

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
        model = learn_model(samples, "blended", rng=np.random.default_rng([0, 5]))
        environment = TraceEnvironment(rest, stage.space)
        return Problem(name, environment, encoder.space, model, samples, {"state": encoder.state})
    if name == "synthetic":
        bandit = SyntheticBandit(10, 5, arm_feature=True)
        model = learn_model(
            bandit.log(LOG_ROWS, np.random.default_rng([0, 6])), "blended", rng=np.random.default_rng([0, 5])
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
        tasks = len(controller.in_force.stations)
        regret[t] = _slot(world, controller)
        resets[t >= plan.before] += len(controller.in_force.stations) - tasks
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure from the command line and write a table, or JSON."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m kinband.experiments.drift", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many runs of each, seeds 1 to this")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="both by default")
    parser.add_argument("--stations", type=int, default=usual.stations, help="stations of the city that take part")
    parser.add_argument("--before", type=int, default=usual.before, help="slots before the change")
    parser.add_argument("--after", type=int, default=usual.after, help="slots from the change on")
    parser.add_argument("--half-life", type=float, default=usual.half_life, help="of those who forget, in slots")
    parser.add_argument("--beta", type=float, default=usual.beta, help="weight of the width")
    parser.add_argument("--quick", action="store_true", help="two seeds of a small problem, to see that it runs")
    parser.add_argument("--figure", metavar="PATH", help="draw the regret around a step too")
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    given = parser.parse_args(arguments)
    plan = Plan(given.stations, given.before, given.after, half_life=given.half_life, beta=given.beta)
    seeds = range(given.first, given.first + given.seeds)
    if given.quick:
        plan, seeds = Plan(6, 10, 12, window=3), seeds[:2]
    records = measure(seeds, plan, problems=given.problem or PROBLEMS)
    found = findings(records, plan)
    if given.figure:
        draw(records, plan, given.figure)
    text = json.dumps([asdict(f) for f in found], indent=1) if given.json else table_of(found)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
