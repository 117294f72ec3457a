"""The worlds in which promises of safe trials are measured, each with its referee.

A case has an environment, what runs today, a controller that has learned its model from a log of random configurations,
and a referee, who knows what stations would have earned with something else in the same slot: by the truth where the
environment has one; on the live simulator, where what one station plays others feel, by playing the same slot with the
same people once more on a copy of the network, in which every station goes on with what it ran, or with today's.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.studies.neighbours import SHARE, Plan, drawn_log, environment_of
from kinband.controller import Controller
from kinband.environments import (
    SmoothTraceEnvironment,
    SyntheticBandit,
    TraceEnvironment,
    bundled_measured,
    split_trace,
)
from kinband.environments.contract import Environment, Outcome
from kinband.environments.radio import KNOB, RadioEnvironment
from kinband.environments.radio.network import STATE_NAMES
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, city_log_of
from kinband.experiments.problems import fit_stations
from kinband.model import Search, learn_model
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

PROBLEMS = {"synthetic": 0.1, "smooth": 0.05, "measured: gcc": 0.2, "measured: nodejs": 0.2, "live": 0.05, "city": 0.05}
"""The problems, and the drop that their floor and half of which their switching cost allows for."""

Arms = Mapping[str, int]


class Judged(NamedTuple):
    """What one station earned in a slot and would have earned: with today's configuration, and with what it ran before.

    Attributes:
        outcome: What it is told.
        expected: What was expected of it.
        reward: What it earned.
        best: The most that any configuration was expected to earn; on the live simulator what nobody can exceed.
        today_expected: Of today's configuration.
        today_reward: Likewise.
        before_expected: Of what it ran in the slot before.
    """

    outcome: Outcome
    expected: float
    reward: float
    best: float
    today_expected: float
    today_reward: float
    before_expected: float


@dataclass(frozen=True, eq=False)
class Case:
    """What all learners of a seed share.

    Attributes:
        environment: What is played.
        today: The arm that was declared.
        plain: A controller without rules.
        least: What rewards are counted from.
    """

    environment: Environment
    today: int
    plain: Controller
    least: float

    def play(self, arms: Arms, before: Arms) -> dict[str, Judged]:
        """Play a slot, and say what came of it and what would have."""
        if isinstance(self.environment, RadioEnvironment):
            return self._played_again(self.environment, arms, before)
        world: Any = self.environment
        truths = {station: world.truth(station) for station in arms}
        outcomes = world.play(arms)
        return {
            s: Judged(
                outcomes[s], t.expected[arms[s]], t.rewards[arms[s]], t.expected[t.best], t.expected[self.today],
                t.rewards[self.today], t.expected[before[s]],
            )
            for s, t in truths.items()
        }  # fmt: skip

    def _played_again(self, world: RadioEnvironment, arms: Arms, before: Arms) -> dict[str, Judged]:
        today, stayed = (
            copy.deepcopy(world).play(instead) for instead in (dict.fromkeys(arms, self.today), dict(before))
        )
        return {
            s: Judged(o, o.reward, o.reward, 1.0, today[s].reward, today[s].reward, stayed[s].reward)
            for s, o in world.play(arms).items()
        }


def case_of(problem: str, *, seed: int, beta: float, stations: int) -> Case:
    """Return what the learners of a seed share; so many stations, but for the synthetic bandit, which has five."""
    if problem not in PROBLEMS:
        raise BadInputError(f"unknown problem {problem!r}: choose one of {', '.join(PROBLEMS)}")
    kind, _, which = problem.partition(": ")
    match kind:
        case "synthetic":
            return _synthetic(seed, beta)
        case "measured":
            return _measured(seed, beta, stations, which=which)
        case "smooth":
            return _smooth(seed, beta, stations)
        case "live":
            return _live(seed, beta, stations)
    return _city(seed, beta, stations)


def _controller(world: Any, log: Samples, *, today: int, seed: int, beta: float, **asking: Any) -> Controller:
    # By likelihood alone: without a prior kernels of short logs are at their worst, and so are bounds.
    model = learn_model(log, "embedding", rng=np.random.default_rng([seed, 2]), search=Search(pull=None))
    space = world.space or ConfigurationSpace(arm=range(world.arms))
    return Controller(
        space, world.stations, similarity=model.similarity, kernel=model.kernel, noise=model.noise,
        mean=model.mean, beta=beta, engine="exact", log=log, running=space[today], seed=seed, **asking,
    )  # fmt: skip


def _drawn(world: Any, *, today: int, seed: int, beta: float, least: float, **asking: Any) -> Case:
    log = world.log(LOG_ROWS, np.random.default_rng([seed, 1]))
    return Case(world, today, _controller(world, log, today=today, seed=seed, beta=beta, **asking), least)


def _synthetic(seed: int, beta: float) -> Case:
    bandit = SyntheticBandit()
    least = min(0.0, bandit.reward_range[0])
    return _drawn(bandit, today=bandit.arms // 2, seed=seed, beta=beta, least=least, features=bandit.features)


def _some_of_the_city(stations: int) -> tuple[Trace, int]:
    """Return a few sectors of the bundled city, from all over its list, and today's arm."""
    stage = city_log_of("bundled")
    names = stage.trace.stations
    some = [names[i] for i in np.linspace(0, len(names) - 1, stations).round().astype(int)]
    return stage.trace.select(np.isin(stage.trace.station, some)), stage.today


def _city(seed: int, beta: float, stations: int) -> Case:
    trace, today = _some_of_the_city(stations)
    log, rest = split_trace(trace, rows_per_station=LOG_ROWS)
    encoder, world = log.encoder(), TraceEnvironment(rest)
    rows = log.samples(encoder, stations=rest.stations)
    return Case(world, today, _controller(world, rows, today=today, seed=seed, beta=beta, state=encoder.state), 0.0)


@lru_cache(maxsize=1)
def smooth_city(stations: int) -> tuple[SmoothTraceEnvironment, int]:
    """Return a few sectors of the bundled city with a smooth truth, and today's arm."""
    trace, today = _some_of_the_city(stations)
    return SmoothTraceEnvironment(trace.with_space(trace.space()), fit_stations), today


def _smooth(seed: int, beta: float, stations: int) -> Case:
    world, today = smooth_city(stations)
    return _drawn(world, today=today, seed=seed, beta=beta, least=0.0, state=world.encoder.state)


def _measured(seed: int, beta: float, stations: int, *, which: str) -> Case:
    world = bundled_measured(which, tasks=stations)
    truth = np.array([world.truth(station).expected for station in world.stations])
    today = int(np.argsort(truth.mean(axis=0), kind="stable")[world.arms // 2])  # as good as most
    return _drawn(world, today=today, seed=seed, beta=beta, least=float(truth.min()) - 4 * world.noise)


def _live(seed: int, beta: float, stations: int) -> Case:
    plan = Plan(stations=stations, log_slots=LOG_ROWS, slots=300, period_s=20.0)
    log, world = drawn_log(plan, seed), environment_of(plan, seed)
    columns = {"reward": SHARE, "noise": f"{SHARE}_noise", "configuration": [KNOB], "state": list(STATE_NAMES)}
    trace = Trace.from_frame(log, columns, duplicates="drop")
    today = {KNOB: int(world.parameters.start_threshold_dbm)}
    plain = Controller.from_trace(
        trace, world.space, similarity="embedding", beta=beta, engine="exact", seed=seed, running=today, safety=[]
    )
    return Case(world, world.space.index(today), plain, 0.0)


def with_rules(case: Case, rules: Any) -> Controller:
    """Return a controller of a case under rules."""
    setup = case.plain.setup
    return Controller.from_setup(replace(setup, config=setup.config.replace(safety=rules)))
