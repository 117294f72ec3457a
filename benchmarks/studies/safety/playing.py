"""Learners under rules: what all of a seed share, and a run of each, with what a referee knows of every slot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.studies.safety.results import Finding, Played, Tally, findings, tally_of
from benchmarks.studies.safety.rules import PROBLEMS, rules_of
from kinband.controller import Controller
from kinband.environments import SyntheticBandit, TraceEnvironment, split_trace
from kinband.environments.contract import Referee
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, stage_of
from kinband.model import Search, learn_model
from kinband.space import ConfigurationSpace


@dataclass(frozen=True, eq=False)
class Case:
    """What all learners of a seed share: an environment, what runs today, and a controller without rules."""

    environment: Referee
    today: int
    plain: Controller


def measure(problem: str, *, seeds: Sequence[int], slots: int, beta: float = 1.0, stations: int = 6) -> list[Finding]:
    """Play every learner on every seed and return what was found, the learner without rules first.

    Example:
        >>> found = measure("synthetic", seeds=[1], slots=2)
        >>> found[0].rules, found[0].paid.value
        ('no rules', 0.0)
    """
    return findings([tallies(problem, seed, slots=slots, beta=beta, stations=stations) for seed in seeds])


def tallies(
    problem: str,
    seed: int,
    *,
    slots: int,
    beta: float = 1.0,
    stations: int = 6,
    among: Sequence[str] | None = None,
) -> dict[str, Tally]:
    """Play learners on one seed and return what was counted, by the names of their rules; `among` picks some.

    Example:
        >>> list(tallies("synthetic", 1, slots=2, among=["no rules", "floor"]))
        ['no rules', 'floor']
    """
    if problem not in PROBLEMS:
        raise BadInputError(f"unknown problem {problem!r}: choose one of {', '.join(PROBLEMS)}")
    case = case_of(problem, seed=seed, beta=beta, stations=stations)
    least = min(0.0, case.environment.reward_range[0])
    every = rules_of(problem, least=least)
    played = {name: watch(case, every[name], slots=slots, seed=seed) for name in among or every}
    return {name: tally_of(one, least=least, drop=PROBLEMS[problem]) for name, one in played.items()}


def case_of(problem: str, *, seed: int, beta: float, stations: int) -> Case:
    """Return what the learners of a seed share; the city is `stations` sectors of the bundled one."""
    if problem == "synthetic":
        bandit = SyntheticBandit()
        log = bandit.log(LOG_ROWS, np.random.default_rng([seed, 1]))
        environment, today, space = bandit, bandit.arms // 2, ConfigurationSpace(arm=range(bandit.arms))
        asking: dict[str, Any] = {"features": bandit.features}
    else:
        environment, today, log, asking = _city(stations)
        space = environment.space
    # By likelihood alone: without a prior kernels of short logs are at their worst, and so are bounds.
    model = learn_model(log, "embedding", rng=np.random.default_rng([seed, 2]), search=Search(pull=None))
    plain = Controller(
        space, environment.stations, similarity=model.similarity, kernel=model.kernel, noise=model.noise,
        mean=model.mean, beta=beta, engine="exact", log=log, running=space[today], seed=seed, **asking,
    )  # fmt: skip
    return Case(environment, today, plain)


def _city(stations: int) -> Any:
    """A few sectors of the bundled city, from all over its list."""
    stage = stage_of("bundled")
    names = stage.trace.stations
    some = [names[i] for i in np.linspace(0, len(names) - 1, stations).round().astype(int)]
    trace = stage.trace.select(np.isin(stage.trace.station, some))
    log, rest = split_trace(trace, rows_per_station=LOG_ROWS)
    encoder = log.encoder()
    return TraceEnvironment(rest), stage.today, log.samples(encoder, stations=rest.stations), {"state": encoder.state}


def watch(case: Case, rules: Any, *, slots: int, seed: int) -> Played:
    """Let a learner play in rounds under the rules, and note what a referee knows."""
    settings = case.plain.settings
    controller = Controller.from_settings(replace(settings, config=settings.config.replace(safety=rules)))
    case.environment.reset(seed)
    before = dict.fromkeys(case.environment.stations, case.today)
    rows = [list(_slot(case, controller, before)) for _ in range(slots)]
    table = np.array(rows)  # (T, M, 7)
    return Played(case.today, table[..., 0].astype(np.int64), *(table[..., i] for i in range(1, 7)))


def _slot(case: Case, controller: Controller, before: dict[str, int]) -> Iterator[tuple[float, ...]]:
    """Play one slot and tell, station by station, what `Played` holds; `before` then holds what runs."""
    environment, slot = case.environment, case.environment.slot
    decisions = controller.ask_all(slot.states) if slot.states else controller.ask_all(contexts=slot.contexts)
    truths = {s: environment.truth(s) for s in decisions}
    outcomes = environment.play({s: d.arm for s, d in decisions.items()})
    for s, decision in decisions.items():
        e, r, today, arm = truths[s].expected, truths[s].rewards, case.today, decision.arm
        controller.tell(decision.id, outcomes[s].reward, noise=outcomes[s].noise)
        yield arm, e[arm], r[arm], e[truths[s].best], e[today], r[today], e[before[s]]
        before[s] = arm
