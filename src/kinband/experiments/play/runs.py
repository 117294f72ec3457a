"""From cases to curves: learn the models, run the cases, read the results.

Results are tidy Parquet files, one per case, with the case, the version and the time it took in the schema's metadata.
Curves are stored at up to 400 slots of a run.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.experiments.play.cases import Case, model_of, read_model, write_model
from kinband.experiments.play.problems import Problem, problem_of
from kinband.experiments.play.referee import play
from kinband.experiments.pool import Job, run_jobs
from kinband.model import Model
from kinband.space import ConfigurationSpace
from kinband.version import __version__

_POINTS = 400
_SIZES = {
    "synthetic": (5, 5),
    "drawn": (20, 10),
    "city": (30, 29),
    "runs": (7, 84),
    "measured": (60, 200),
    "classes": (8, 10),
}  # stations, arms


@dataclass(frozen=True, eq=False)
class Curve:
    """Cumulated results of one case.

    Attributes:
        case: What was run.
        slot: Slots at which the curve is known, (p,), the last among them.
        realised: Regret against the best reward of each slot, summed up to there, (p,).
        pseudo: Regret in expectation, likewise.
        reward: Reward, likewise.
        seconds: How long the run took.
    """

    case: Case
    slot: IntArray
    realised: FloatArray
    pseudo: FloatArray
    reward: FloatArray
    seconds: float

    @property
    def regret(self) -> FloatArray:
        """What comparisons count, (p,): against the best reward of each slot, as the paper does.

        In expectation on tables of measurements and smooth traces, whose noise nobody could know of.
        """
        return self.pseudo if self.case.environment.startswith(("measured:", "smooth")) else self.realised


def run_cases(
    cases: Sequence[Case],
    folder: Path,
    *,
    workers: int | None = None,
    ray: str | None = None,
    tick: Callable[[float], None] | None = None,
) -> list[Curve]:
    """Run cases that have no result in the folder yet, and return the curves of all, in order.

    They run in `workers` processes here, or on the Ray cluster at the address `ray`. `tick` is called after every case
    with what `effort_of` says of it, whether it had to be run or not.
    """
    models = {case.model_key: Job(_model_file(folder, case), _learn, (case,)) for case in cases}
    run_jobs(models.values(), workers=workers, ray=ray)
    files = {folder / "runs" / f"{case.key}.parquet": case for case in cases}
    jobs = [Job(file, _run, (case, _model_file(folder, case))) for file, case in files.items()]
    # Long runs first, so that no process is left alone with one at the end.
    jobs.sort(key=lambda job: -effort_of(files[job.file]))
    run_jobs(
        jobs, workers=workers, ray=ray, tick=None if tick is None else (lambda job: tick(effort_of(files[job.file])))
    )
    return [read_curve(file, case) for file, case in files.items()]


def models_for(
    cases: Sequence[Case], folder: Path, *, workers: int | None = None, ray: str | None = None
) -> list[Model]:
    """Return the models of cases, learned now unless the folder holds them."""
    files = [_model_file(folder, case) for case in cases]
    run_jobs([Job(file, _learn, (case,)) for file, case in zip(files, cases, strict=True)], workers=workers, ray=ray)
    return [read_model(file) for file in files]


def effort_of(case: Case) -> float:
    """Return about how many seconds of one core a case takes; only ratios matter, to tell how much is left.

    Example:
        >>> from kinband.experiments.play.cases import Learner
        >>> alone = Case("demo", "fair", "bundled", Learner("alone", "independent"), "sequential", 4000, 1)
        >>> shared = Case("demo", "fair", "bundled", Learner("embedding", "embedding"), "sequential", 4000, 1)
        >>> effort_of(shared) > 5 * effort_of(alone)
        True
    """
    stations, arms = _SIZES.get(case.environment.partition(":")[0], (105, 29))
    decisions = case.slots * (stations if case.mode == "parallel" else 1)
    log = stations * case.log_rows if case.start else 0
    if case.learner.similarity == "independent":
        return 1e-3 * decisions
    cubes = ((log + decisions) ** 3 - log**3) / 3.0  # Σ n² over the run
    return 1e-3 * decisions + cubes * arms * (4e-11 if case.mode == "sequential" else 1e-11)


def read_curve(file: Path, case: Case) -> Curve:
    """Read the stored curve of a case."""
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    seconds = json.loads(table.schema.metadata[b"kinband"])["seconds"]
    columns = {name: table[name].to_numpy() for name in ("slot", "realised", "pseudo", "reward")}
    return Curve(case, seconds=seconds, **columns)


def controller_for(problem: Problem, model: Model, case: Case) -> Controller:
    """Return the controller of a case: the one that is deployed, with the case's model."""
    environment, scaler = problem.environment, problem.scaler
    space = environment.space or ConfigurationSpace(arm=range(1, environment.arms + 1))
    way_of_asking: dict[str, Any] = {"features": environment.features} if scaler is None else {"state": scaler}
    return Controller(
        space,
        environment.stations,
        similarity=model.similarity,
        kernel=model.kernel,
        noise=model.noise,
        mean=model.mean,
        policy=case.learner.policy,
        beta=case.learner.beta,
        engine=case.learner.engine,
        options=case.learner.options,
        log=problem.log if case.start else None,
        seed=case.seed,
        **way_of_asking,
    )


def _learn(file: Path, case: Case) -> None:
    problem = problem_of(case)
    write_model(file, model_of(case, problem.likeness or problem.log))


def _run(file: Path, case: Case, model_file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    problem = problem_of(case)
    controller = controller_for(problem, read_model(model_file), case)
    begun, worked = time.perf_counter(), time.process_time()
    run = play(problem.environment, controller, slots=case.slots, seed=case.seed, mode=case.mode)
    seconds, of_processor = time.perf_counter() - begun, time.process_time() - worked
    shown = np.unique(np.linspace(0, case.slots - 1, min(_POINTS, case.slots)).round().astype(np.int64))
    columns = {"slot": shown + 1}
    for name in ("realised", "pseudo", "rewards"):
        columns[name.removesuffix("s")] = getattr(run, name).cumsum()[shown]
    about = {"case": case.to_dict(), "kinband": __version__, "seconds": seconds, "cpu_seconds": of_processor}
    table = pa.table(columns).replace_schema_metadata({"kinband": json.dumps(about)})
    pq.write_table(table, file)


def _model_file(folder: Path, case: Case) -> Path:
    return folder / "models" / f"{case.model_key}.npz"
