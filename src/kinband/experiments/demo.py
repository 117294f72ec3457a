"""The demonstration: a network that shares experience, against one that does not and one that never learns.

The world is a smooth fit of the trace plus noise (`play.smooth`), so that everything that counts as regret could be
saved; the log is drawn from it, some random configurations of every station. All learners meet the same slots on the
same seeds and play Algorithm 1, all stations in every round. What shares is what `Controller.from_trace` makes of a log
by default. Alone gets the same care: kernel, noise and prior mean from the same log, beliefs that start from it, and
the same β. What every configuration is expected to earn in the slots is kept beside the runs: today's, which is the
third to be compared, and the best single one, which nobody knows beforehand.
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
from kinband.experiments.city.stage import LOG_ROWS, USERS, Day, Stage
from kinband.experiments.play import play
from kinband.experiments.play.cases import Case, Learner, model_of, read_model, write_model
from kinband.experiments.play.problems import problem_of
from kinband.experiments.play.runs import controller_for
from kinband.experiments.pool import Job, Meter, Report, Work, leave_note, run_jobs
from kinband.model import Model

SHARED, ALONE = "joint", "independent"

_AUDITED, _ACCOUNT = 1, "account-"  # seed of the run that is audited, and what its arrays are called


@dataclass(frozen=True, eq=False)
class Played:
    """One run of T rounds with M stations.

    Attributes:
        case: What was run.
        arms: What was chosen, (T, M).
        users: Connected users of each station, (T, M); nan where the state does not tell.
        means: For the stations and hours of `Stage.days`, what each of N configurations is expected to earn after the
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

    stage: Stage
    runs: tuple[Played, ...]
    offers: Mapping[int, FloatArray]
    model: Model
    seconds: float
    audit: Audit | None = None

    def of(self, learner: str) -> list[Played]:
        """Return the runs of a learner, by seed."""
        return sorted((run for run in self.runs if run.case.learner.name == learner), key=lambda run: run.case.seed)


def demo_cases(stage: Stage, *, rounds: int, runs: int, beta: float) -> list[Case]:
    """Return the runs of the demonstration, learner by learner, the longest first.

    Example:
        >>> from kinband.experiments.city.stage import stage_of
        >>> [case.learner.name for case in demo_cases(stage_of("bundled"), rounds=3, runs=1, beta=0.3)]
        ['joint', 'independent']
    """
    learners = (
        Learner(SHARED, SHARED, beta=beta, pulled=True),
        Learner(ALONE, ALONE, beta=beta, pulled=True),
    )
    seeds, world = range(1, runs + 1), "smooth" if stage.source == "bundled" else f"smooth:{stage.source}"
    return [
        Case("demo", "fair", world, learner, "parallel", rounds, seed, log_rows=LOG_ROWS, start=True)
        for learner in learners
        for seed in seeds
    ]


def run_demo(
    stage: Stage, cases: Sequence[Case], folder: Path, *, workers: int | None = None, report: Report | None = None
) -> Demonstration:
    """Learn the models, play all cases, and return what came out; results are kept in the folder.

    `report` is called now and then, from a thread of its own, with the share that is done.
    """
    begun = time.perf_counter()
    shared = next(case for case in cases if case.learner.name == SHARED)
    models = {case.model_key: Job(_model_file(folder, case), _learn, (case,)) for case in cases}
    notes = [folder / "notes" / case.key for case in cases]
    plays = [
        Job(
            folder / "runs" / f"{case.key}.npz", _play, (case, _model_file(folder, case), note, stage.days, stage.hours)
        )
        for case, note in zip(cases, notes, strict=True)
    ]
    seeds = {case.seed: case for case in cases}
    offers = {seed: Job(folder / "offers" / f"{seed}.npy", _offer, (case,)) for seed, case in seeds.items()}
    works = [Work(job.file, _seconds(stage, None)) for job in models.values()]
    works += [Work(j.file, _seconds(stage, c), n) for j, c, n in zip(plays, cases, notes, strict=True)]
    with Meter(works, report):
        run_jobs(models.values(), workers=workers)
        run_jobs([*plays, *offers.values()], workers=workers)
    return Demonstration(
        stage,
        tuple(_read(job.file, case) for job, case in zip(plays, cases, strict=True)),
        {seed: np.load(job.file, allow_pickle=False) for seed, job in offers.items()},
        read_model(_model_file(folder, shared)),
        time.perf_counter() - begun,
        _audit([(job.file, case) for job, case in zip(plays, cases, strict=True)], stage.trace.stations),
    )


def _learn(file: Path, case: Case) -> None:
    write_model(file, model_of(case, problem_of(case).log))


def _offer(file: Path, case: Case) -> None:
    """Write what every configuration is expected to earn in the slots of a case, (T, M, N)."""
    environment = problem_of(case).environment
    environment.reset(case.seed)
    found = []
    for _ in range(case.slots):
        found.append([environment.truth(station).expected for station in environment.stations])
        environment.play({})
    with file.open("wb") as opened:
        np.save(opened, np.array(found), allow_pickle=False)


def _play(
    file: Path, case: Case, model_file: Path, note: Path, days: Mapping[str, Day], hours: tuple[int, ...]
) -> None:
    problem = problem_of(case)
    controller = controller_for(problem, read_model(model_file), case)
    done = iter(_shares(case))
    play(
        problem.environment,
        controller,
        slots=case.slots,
        seed=case.seed,
        mode=case.mode,
        tick=lambda: leave_note(note, next(done)),
    )
    journal, shape = controller.journal, (case.slots, len(problem.environment.stations))
    asked = list(journal.asked.values())
    columns = {
        "arms": [entry.decision.arm for entry in asked],
        "users": [(entry.state or {}).get(USERS, np.nan) for entry in asked],
    }
    arrays: dict[str, Any] = {name: np.array(column).reshape(shape) for name, column in columns.items()}
    with file.open("wb") as opened:
        np.savez(opened, means=_means(controller, days, hours), **arrays, **_account(controller, case))


def _account(controller: Controller, case: Case) -> dict[str, Any]:
    """What an audit needs of the first run that shares, by prefixed name; nothing of other runs."""
    if case.learner.name != SHARED or case.seed != _AUDITED:
        return {}
    return {f"{_ACCOUNT}{name}": array for name, array in account_of(controller).arrays().items()}


def _audit(plays: Sequence[tuple[Path, Case]], stations: Sequence[str]) -> Audit | None:
    """The audit of the run that kept an account; None where it was played before accounts were kept."""
    file = next((file for file, case in plays if case.learner.name == SHARED and case.seed == _AUDITED), None)
    if file is None:
        return None
    with np.load(file, allow_pickle=False) as stored:
        kept = {name.removeprefix(_ACCOUNT): stored[name] for name in stored.files if name.startswith(_ACCOUNT)}
    return audit_of([Account.from_arrays(stations, kept)]) if kept else None


def _means(controller: Controller, days: Mapping[str, Day], hours: tuple[int, ...]) -> FloatArray:
    """What each configuration is expected to earn in the states of the days, (stations, hours, N)."""
    means = np.full((len(days), len(hours), len(controller.space)), np.nan)
    rng = np.random.default_rng(0)  # breaks ties of the choice, which is not looked at
    for i, (station, day) in enumerate(days.items()):
        for hour, state in day.items():
            query = query_for(controller.settings, station, state=state, contexts=None, allowed=None)
            means[i, hours.index(hour)] = controller.policy.choose(query, rng).mean
    return means


def _read(file: Path, case: Case) -> Played:
    with np.load(file, allow_pickle=False) as stored:
        return Played(case, **{name: stored[name] for name in ("arms", "users", "means")})


def _shares(case: Case) -> list[float]:
    """The share of a run's work that lies behind it after each round: a sweep over n rows costs n²."""
    shared = case.learner.name == SHARED
    work = np.cumsum((case.log_rows + np.arange(case.slots)) ** (2.0 if shared else 0.0))
    return [float(share) for share in work / work[-1]]


def _seconds(stage: Stage, case: Case | None) -> float:
    """How long a run may take, or with None a model; measured on one core, for the progress bar alone."""
    stations, arms = len(stage.trace.stations), len(stage.space)
    if case is None:
        return 0.5 + 7e-4 * LOG_ROWS * stations
    if case.learner.name != SHARED:
        return 0.5 + 4e-4 * stations * case.slots
    rows = (case.log_rows + np.arange(case.slots)) * stations
    return 1.0 + 1e-11 * float((rows**2.0).sum()) * stations * arms


def _model_file(folder: Path, case: Case) -> Path:
    return folder / "models" / f"{case.model_key}.npz"
