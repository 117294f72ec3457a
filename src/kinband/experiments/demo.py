"""The demonstration: a network that shares experience, against one that does not and one that never learns.

The world is a smooth fit of the trace plus noise ("smooth" of `problems`), so that everything that counts as regret
could be saved; the log is drawn from it, some random configurations of every station. All learners meet the same slots
on the same seeds and play Algorithm 1, all stations in every round. What shares is what `Controller.from_trace` makes
of a log by default. Alone gets the same care: kernel, noise and prior mean from the same log, beliefs that start from
it, and the same β. What every configuration is expected to earn in the slots is kept beside the runs: today's, which is
the third to be compared, and the best single one, which nobody knows beforehand.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.controller.asking import query_for
from kinband.diagnostics import Account, Audit, account_of, audit_of
from kinband.experiments.city import LOG_ROWS, USERS, CityLog, Day
from kinband.experiments.runner import Case, Job, Learner, controller_for, effort_of, learn_models, play, run_jobs
from kinband.model import Model
from kinband.progress import Step

SHARED, ALONE = "joint", "independent"

_AUDITED = 1  # seed of the run that is audited
_LEARNING = 1.5  # seconds of one core that a model takes, about


@dataclass(frozen=True, eq=False)
class Played:
    """One run of T rounds with M stations.

    Attributes:
        case: What was run.
        arms: What was chosen, (T, M).
        users: Connected users of each station, (T, M); nan where the state does not tell.
        means: For the stations and hours of `CityLog.days`, what each of N configurations is expected to earn after the
            run, (stations, hours, N); nan where a station has no such hour.
    """

    case: Case
    arms: IntArray
    users: FloatArray
    means: FloatArray


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Everything that came out.

    Attributes:
        stage: What was played on.
        runs: Every learner on every seed.
        offers: For each seed what every configuration is expected to earn, (T, M, N).
        model: What the learner that shares was built from in the first run.
        seconds: How long it took.
        audit: How far the predictions of the first run that shares can be trusted, and who borrowed from whom.
    """

    stage: CityLog
    runs: tuple[Played, ...]
    offers: Mapping[int, FloatArray]
    model: Model
    seconds: float
    audit: Audit | None = None

    def of(self, learner: str) -> list[Played]:
        """Return the runs of a learner, by seed."""
        return sorted((run for run in self.runs if run.case.learner.name == learner), key=lambda run: run.case.seed)


def demo_cases(stage: CityLog, *, rounds: int, runs: int, beta: float) -> list[Case]:
    """Return the runs of the demonstration, learner by learner."""
    learners = (Learner(SHARED, SHARED, beta=beta), Learner(ALONE, ALONE, beta=beta))
    world = "smooth" if stage.source == "bundled" else f"smooth:{stage.source}"
    return [
        Case(world, learner, rounds, seed, log_rows=LOG_ROWS) for learner in learners for seed in range(1, runs + 1)
    ]


def run_demo(
    stage: CityLog, cases: Sequence[Case], folder: Path, *, n_jobs: int | None = None, step: Step | None = None
) -> Demonstration:
    """Learn the models, play all cases, and return what came out; results are kept in the folder.

    `step` is called after every job with a word and the seconds that it took, about; `demo_effort` says of how many.
    """
    begun = time.perf_counter()
    models = learn_models(cases, folder, n_jobs=n_jobs)
    if step is not None:
        step("learned", _LEARNING * len(cases))
    jobs = [
        Job(folder / "runs" / f"{case.key}.json", _play, (case, model, stage.days, stage.hours), effort_of(case))
        for case, model in zip(cases, models, strict=True)
    ]
    seeds = {case.seed: case for case in cases}
    offers = [Job(folder / "offers" / f"{seed}.json", _offer, (case,), 0.0) for seed, case in seeds.items()]
    tick = None if step is None else (lambda job: step("played", job.effort))
    found = run_jobs([*jobs, *offers], n_jobs=n_jobs, tick=tick)
    played = found[: len(cases)]
    return Demonstration(
        stage,
        tuple(Played(case, *map(np.array, _arrays(record))) for case, record in zip(cases, played, strict=True)),
        {seed: np.array(record["expected"]) for seed, record in zip(seeds, found[len(cases) :], strict=True)},
        next(model for case, model in zip(cases, models, strict=True) if case.learner.name == SHARED),
        time.perf_counter() - begun,
        _audit(played, stage.trace.stations),
    )


def demo_effort(cases: Sequence[Case]) -> float:
    """Return about how many seconds of one core a demonstration takes."""
    return _LEARNING * len(cases) + sum(map(effort_of, cases))


def _offer(case: Case) -> dict[str, Any]:
    """What every configuration is expected to earn in the slots of a case, (T, M, N)."""
    environment = case.make_problem().environment
    environment.reset(case.seed)
    found = []
    for _ in range(case.slots):
        found.append([environment.truth(station).expected.tolist() for station in environment.stations])
        environment.play({})
    return {"expected": found}


def _play(case: Case, model: Model, days: Mapping[str, Day], hours: tuple[int, ...]) -> dict[str, Any]:
    problem = case.make_problem()
    controller = controller_for(problem, model, case)
    play(problem.environment, controller, slots=case.slots, seed=case.seed, mode=case.mode)
    asked, shape = list(controller.journal.asked.values()), (case.slots, len(problem.environment.stations))
    columns: dict[str, Any] = {
        "arms": [entry.decision.arm for entry in asked],
        "users": [(entry.state or {}).get(USERS, np.nan) for entry in asked],
    }
    found: dict[str, Any] = {name: np.reshape(column, shape).tolist() for name, column in columns.items()}
    found["means"] = _means(controller, days, hours).tolist()
    if case.learner.name == SHARED and case.seed == _AUDITED:
        found["account"] = {name: array.tolist() for name, array in account_of(controller).arrays().items()}
    return found


def _arrays(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("arms", "users", "means"))


def _audit(played: Sequence[Mapping[str, Any]], stations: Sequence[str]) -> Audit | None:
    """The audit of the run that kept an account."""
    account = next((record["account"] for record in played if "account" in record), None)
    if account is None:
        return None
    return audit_of([Account.from_arrays(stations, {name: np.array(rows) for name, rows in account.items()})])


def _means(controller: Controller, days: Mapping[str, Day], hours: tuple[int, ...]) -> FloatArray:
    """What each configuration is expected to earn in the states of the days, (stations, hours, N)."""
    means = np.full((len(days), len(hours), len(controller.space)), np.nan)
    rng = np.random.default_rng(0)  # breaks ties of the choice, which is not looked at
    for i, (station, day) in enumerate(days.items()):
        for hour, state in day.items():
            query = query_for(controller.setup, station, state=state, contexts=None, allowed=None)
            means[i, hours.index(hour)] = controller.policy.choose(query, rng).mean
    return means
