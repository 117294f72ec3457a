"""The network run by one learner on one seed, and by all of them over processes, each run kept in a file."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.studies.neighbours.learners import controller_of, coverage_of, reward_of
from benchmarks.studies.neighbours.network import SHARE, columns_of, drawn_log, environment_of
from benchmarks.studies.neighbours.plan import BESIDE, CELL, FLOORED, TODAY, Plan
from benchmarks.studies.neighbours.results import Record
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments.radio import KNOB, RadioEnvironment
from kinband.errors import BadInputError
from kinband.experiments.runner import Job, run_jobs


def measure(
    seeds: Sequence[int],
    plan: Plan | None = None,
    *,
    folder: Path | None = None,
    workers: int = 1,
    tick: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run every learner on every seed and return one record each.

    Args:
        seeds: The traffic of the runs.
        plan: What is played.
        folder: Where records are kept; what is there already is not run again.
        workers: How many processes.
        tick: Called with a line after every run.

    Example:
        >>> from benchmarks.studies.neighbours.plan import QUICK
        >>> [record.learner for record in measure([101], QUICK)]
        ['today', 'cell', 'cell, neighbours 0.8', 'cell, floor', 'sector', 'sector, neighbours 0.3']
    """
    plan = plan or Plan()
    if not 1 <= plan.tail <= plan.slots:
        raise BadInputError(f"of {plan.slots} slots the last 1 to {plan.slots} can count, got {plan.tail}")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None else folder
        pairs = [(seed, learner) for seed in seeds for learner in plan.learners]
        jobs = [Job(_file(place, plan, *pair), _record, (plan, *pair)) for pair in pairs]
        done: list[Job] = []

        def tell(job: Job) -> None:
            done.append(job)
            if tick is not None:
                tick(f"{len(done)} of {len(jobs)}: seed {job.arguments[1]}, {job.arguments[2]}")

        return [Record(**found) for found in run_jobs(jobs, n_jobs=workers, tick=tell)]


def run_one(plan: Plan, seed: int, learner: str) -> Record:
    """Let one learner run the network on one seed."""
    environment = environment_of(plan, seed)
    today = environment.space.index({KNOB: int(environment.parameters.start_threshold_dbm)})
    controller = None if learner == TODAY else controller_of(plan, learner, seed=seed, log=drawn_log(plan, seed))
    satisfied, sessions = np.zeros(plan.stations), np.zeros(plan.stations)
    earned, trials = [], []
    for t in range(plan.slots):
        arms, rewards = _slot(environment, controller, learner, today=today)
        if t >= plan.slots - plan.tail:
            satisfied += environment.earned.satisfied
            sessions += environment.earned.sessions
            earned.append(rewards.mean())
            trials.append(np.mean(arms != today))
    shares = satisfied / np.maximum(sessions, 1)
    network = float(satisfied.sum() / max(sessions.sum(), 1))
    below = float(np.mean(shares < plan.floor))
    return Record(seed, learner, network, below, float(np.mean(earned)), float(np.mean(trials)))


def _slot(
    environment: RadioEnvironment, controller: Controller | None, learner: str, *, today: int
) -> tuple[Any, FloatArray]:
    """Decide, run and tell one slot; return the arms and what every sector earned, (S,) each."""
    stations = environment.stations
    if controller is None:
        environment.play(dict.fromkeys(stations, today))
        return np.full(len(stations), today), environment.earned.good_share
    made = controller.ask_all(environment.slot.states)
    environment.play({station: decision.arm for station, decision in made.items()})
    columns = columns_of(environment.earned)
    name = reward_of(learner)
    reward, noise, share = columns[name], columns[f"{name}_noise"], columns[SHARE]
    ids = [made[station].id for station in stations]
    kpis = {key: {SHARE: float(value)} for key, value in zip(ids, share, strict=True)}
    controller.tell_all(
        dict(zip(ids, reward.tolist(), strict=True)),
        noise=dict(zip(ids, noise.tolist(), strict=True)),
        kpis=kpis if learner == FLOORED else None,
        others=coverage_of(columns, stations) if learner.startswith(CELL + BESIDE) else None,
    )
    return np.array([made[station].arm for station in stations]), reward


def _record(plan: Plan, seed: int, learner: str) -> dict[str, Any]:
    return asdict(run_one(plan, seed, learner))


def _file(folder: Path, plan: Plan, seed: int, learner: str) -> Path:
    key = json.dumps([asdict(plan), seed, learner], sort_keys=True)
    return folder / f"neighbours-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
