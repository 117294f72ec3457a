"""What descriptors are worth to a newcomer on real tables: the regret of its first decisions, over starting alone.

A network of tasks learns the default model from its log and plays a few rounds. Then tasks that were left out from the
start join it: whole groups with equal descriptors, so that nobody in the network has the descriptors of a newcomer.
They start *described*, *on average* (without descriptors) and *alone* (same kernel, noise and mean, nothing shared),
each with the β that suits it on the seeds that choose.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.findings import Size
from benchmarks.running import kept
from benchmarks.runs import BETAS
from benchmarks.studies.newcomers import ALONE, AVERAGE, DESCRIBED, STARTS, Scene, first_decisions, joined, warm_up
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments.measured import MeasuredEnvironment
from kinband.experiments.compare import saving_of
from kinband.experiments.problems import problem_of
from kinband.experiments.runner import Job
from kinband.model import Model, learn_model
from kinband.records import Samples
from kinband.stats import Estimate

SAVED = {"x264 time": 0.50, "nodejs": 0.50}
"""What described newcomers are to save of starting alone; elsewhere nothing is to be lost."""


@dataclass(frozen=True)
class Arrival:
    """A table whose tasks join a network.

    Attributes:
        name: In words.
        environment: As `kinband.experiments.problems` has it; its tasks have descriptors.
        log_rows: Rows a task of the network to learn from beforehand.
        network: How many tasks there are before, at most.
        newcomers: How many join at least; a quarter of the table at most, but for the rest of a group.
        rounds: How many rounds the network plays before.
        decisions: How many decisions each newcomer makes.
    """

    name: str
    environment: str
    log_rows: int
    network: int = 40
    newcomers: int = 10
    rounds: int = 5
    decisions: int = 10


ARRIVALS = (
    Arrival("x264 time", "measured:x264:etime", 5),
    Arrival("x264 bitrate", "measured:x264:kbs", 5),
    Arrival("nodejs", "measured:nodejs:ops", 3),
    Arrival("gcc exec", "measured:gcc:exec", 5),
)


@dataclass(frozen=True)
class Draw:
    """One seed of an arrival: who is in the network, who joins, and what they do."""

    arrival: Arrival
    seed: int

    def job(self, folder: Path) -> Job:
        """Return the job that writes this draw."""
        return kept(folder / "newcomers", run, self)


def draws(size: Size, arrivals: Sequence[Arrival] = ARRIVALS) -> list[Draw]:
    """Return everything that is played."""
    return [Draw(arrival, seed) for arrival in arrivals for seed in (*size.tuning, *size.counted)]


@dataclass(frozen=True)
class Welcome:
    """What was found on one table.

    Attributes:
        arrival: Which one.
        beta: The weight that each start plays with.
        saved: Share of the regret of starting alone that is saved, by start.
        used: Share of draws in which descriptors were found to say something.
    """

    arrival: Arrival
    beta: dict[str, float]
    saved: dict[str, Estimate]
    used: float


def welcome(arrival: Arrival, size: Size, folder: Path) -> Welcome:
    """Return what the draws on disk say of a table."""
    tuning, counted = (_read(arrival, seeds, folder) for seeds in (size.tuning, size.counted))
    beta = {start: min(BETAS, key={b: _regret(tuning, start, b).sum() for b in BETAS}.__getitem__) for start in STARTS}
    regret = {start: _regret(counted, start, beta[start]) for start in STARTS}
    saved = {start: saving_of(regret[start], regret[ALONE]) for start in (DESCRIBED, AVERAGE)}
    return Welcome(arrival, beta, saved, float(np.mean([found["used"] for found in counted])))


def run(draw: Draw) -> dict[str, Any]:
    """Play every start with every β, and return the regret."""
    regret: dict[str, dict[str, float]] = {start: {} for start in STARTS}
    model, used = None, False
    for beta in BETAS:
        scene, model = scene_of(draw, beta, model)
        used = scene.controller.setup.descriptor_kernel is not None
        for start in STARTS:
            paid = first_decisions(joined(scene, start), scene, decisions=draw.arrival.decisions)
            regret[start][str(beta)] = float(paid.sum()) / len(scene.newcomers) / draw.arrival.decisions
    return {"draw": asdict(draw), "regret": regret, "used": used}


def scene_of(draw: Draw, beta: float, model: Model | None = None) -> tuple[Scene, Model]:
    """Return a network that has learned and played, with those about to join it, and its model."""
    arrival, seed = draw.arrival, draw.seed
    problem = problem_of(arrival.environment, log_rows=arrival.log_rows, seed=seed)
    if not isinstance(problem.environment, MeasuredEnvironment):
        raise ValueError(f"{arrival.environment!r} is no table of measurements")
    environment = problem.environment
    network, newcomers = parted(environment, arrival, seed)
    log = _of(problem.log, network)
    model = model or learn_model(log, "joint", rng=np.random.default_rng([seed, 3]))
    known = environment.descriptors
    controller = Controller(
        environment.space, network, state=problem.scaler or (), similarity=model.similarity, kernel=model.kernel,
        noise=model.noise, mean=model.mean, beta=beta, engine="exact", log=log,
        descriptors={name: known[name] for name in network}, seed=seed,
    )  # fmt: skip
    warm_up(controller, environment, rounds=arrival.rounds, seed=seed)
    return Scene(environment, controller, newcomers, known, seed), model


def parted(environment: MeasuredEnvironment, arrival: Arrival, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tasks of the network and those that join it, whose descriptors nobody in the network has."""
    groups: dict[str, list[str]] = {}
    for task in environment.stations:
        groups.setdefault(json.dumps(environment.descriptors[task], sort_keys=True), []).append(task)
    shuffled = [list(groups.values())[i] for i in np.random.default_rng([seed, 4]).permutation(len(groups))]
    wanted, late = min(arrival.newcomers, len(environment.stations) // 4), set[str]()
    while len(late) < wanted:
        late.update(shuffled.pop())
    early = set([task for group in shuffled for task in group][: arrival.network])
    return tuple(s for s in environment.stations if s in early), tuple(s for s in environment.stations if s in late)


def _of(log: Samples, stations: tuple[str, ...]) -> Samples:
    """The rows of some stations, numbered anew."""
    numbers = {log.stations.index(name): number for number, name in enumerate(stations)}
    rows = log.take(np.flatnonzero(np.isin(log.tasks, list(numbers))))
    tasks = np.array([numbers[int(task)] for task in rows.tasks])
    return Samples(stations, tasks, rows.X, rows.y, rows.noise, rows.features, rows.categorical, arms=rows.arms)


def _regret(found: Sequence[dict[str, Any]], start: str, beta: float) -> FloatArray:
    return np.array([one["regret"][start][str(beta)] for one in found])


def _read(arrival: Arrival, seeds: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    return [Draw(arrival, seed).job(folder).read() for seed in seeds]
