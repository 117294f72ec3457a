"""Who plays what, one run of it, and many runs over processes or a cluster.

A `Case` is one learner on one problem with one seed. `play` lets a controller, the one that is deployed, meet an
environment: the environment shows contexts and pays rewards, and only the referee sees what the arms not played would
have earned. Parallel runs are Algorithm 1, sequential ones Algorithm 2 with the stations taking turns.

Runs are spread over processes of this machine by joblib, or over a Ray cluster. A job returns plain values; this
process alone writes them, one JSON file a job, whole or not at all. What is there already is not run again, so that
whatever is interrupted goes on where it stopped.
"""

import hashlib
import json
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.environments import Slot, Truth
from kinband.environments.contract import Referee
from kinband.errors import BadInputError
from kinband.experiments.problems import Own, Problem, drawn_by_seed, problem_of, size_of
from kinband.kernels import RBF, kernel_from_dict
from kinband.model import Model, Search, learn_model
from kinband.parallel import carried_out
from kinband.records import Decision, Samples
from kinband.similarity import TaskMatrix
from kinband.similarity.joint import PULL
from kinband.space import ConfigurationSpace
from kinband.version import __version__

Mode = Literal["parallel", "sequential"]
Record = dict[str, Any]
"""What a job found, in JSON's types."""

_POINTS = 400  # slots of a run at which its curve is kept

# --- What is run ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learner:
    """Somebody who learns: where its task matrix comes from, and how it decides.

    Attributes:
        name: How tables and figures call it.
        similarity: A name of `kinband.similarity.NAMES`, a matrix, or an object with `fit(log)` that returns one.
        policy: A name of `kinband.policies.POLICIES`, or a factory that builds a policy from a `PolicySpec`.
        beta: Weight of the standard deviation: a number, or the name of a rule.
        engine: Which posterior: one of `kinband.posterior.ENGINES`.
        rounds: How the policy "ucb" decides a round: "plain", or "aware" of the round's other picks.
        hyperprior: Whether kernel and noise have a weak prior, as those of controllers have by default; the paper's
            are found by marginal likelihood alone.
        own_betas: Weights that it tries beside those that all learners of a comparison try, such as a schedule of its
            own.

    Example:
        >>> Learner("embedding", "embedding").policy
        'ucb'
    """

    name: str
    similarity: Any = "joint"
    policy: Any = "ucb"
    beta: float | str = 1.0
    engine: str = "exact"
    rounds: str = "plain"
    hyperprior: bool = True
    own_betas: tuple[float | str, ...] = ()


@dataclass(frozen=True)
class Prior:
    """What every learner of a case believes beforehand, where it is not fitted to the log.

    Attributes:
        length_scale: Of an isotropic RBF on standardised contexts.
        noise: Variance of a reward as a share of the kernel's variance, which is 1.
        mean: Constant prior mean.
    """

    length_scale: float
    noise: float
    mean: float = 0.0


@dataclass(frozen=True)
class Case:
    """One run: a learner on a problem with a seed.

    Attributes:
        problem: A name, or what `kinband.experiments.problems.as_problem` makes of an object.
        learner: Who learns.
        slots: Slots to play.
        seed: Of the problem's log and trajectory and of the learner's draws; the same for all that are compared.
        mode: Parallel rounds (Algorithm 1) or one station at a time (Algorithm 2).
        log_rows: Rows of a station that models are learned from.
        prior: What is believed beforehand; None fits kernel, noise and mean to the log.
        start: Whether beliefs start from the log.
    """

    problem: str | Own | Problem
    learner: Learner
    slots: int
    seed: int
    mode: Mode = "parallel"
    log_rows: int = 20
    prior: Prior | None = None
    start: bool = True

    @property
    def key(self) -> str:
        """A digest of all values, to name files by."""
        return digest({name: _token(getattr(self, name)) for name in self.__dataclass_fields__})

    @property
    def model_key(self) -> str:
        """A digest of what decides the learner's model: cases that share it can share the model."""
        who, seed = self.learner, self.seed if drawn_by_seed(self.problem) else None
        parts = (self.problem, who.similarity, who.hyperprior, self.log_rows, self.prior, seed)
        return digest([_token(part) for part in parts])

    def make_problem(self) -> Problem:
        """Return what is played."""
        return problem_of(self.problem, log_rows=self.log_rows, seed=self.seed)

    def about(self) -> Record:
        """Return the case in words, to be kept beside its results."""
        values = {name: getattr(self, name) for name in ("slots", "seed", "mode", "log_rows", "start")}
        return {"problem": str(self.problem), "learner": self.learner.name, "beta": self.learner.beta, **values}


def digest(value: Any) -> str:
    """Return a short digest of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()[:20]


def _token(value: Any) -> Any:
    """A plain value as it is, a record of such values by name, any other object by what it holds."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_token(one) for one in value]
    if isinstance(value, Learner | Prior):
        return {name: _token(getattr(value, name)) for name in value.__dataclass_fields__}
    import joblib

    try:
        token = value.token if isinstance(value, Problem | Own) else joblib.hash(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        token = ""
    if not token:
        raise BadInputError(
            f"{value!r:.60} cannot be pickled, so that its runs could be found again",
            hint="define it in a module, or leave folder= out",
            code="cannot_keep",
            value=value,
        )
    return token


# --- The model of a learner -----------------------------------------------------------------------------------------


def model_of(case: Case, log: Samples) -> Model:
    """Return the model that a case's learner gets from a log: fitted to it, or with the case's prior."""
    learner, prior = case.learner, case.prior
    rng = np.random.default_rng([case.seed if drawn_by_seed(case.problem) else 0, 2])
    if prior is None:
        return learn_model(log, learner.similarity, rng=rng, search=Search(pull=PULL if learner.hyperprior else None))
    kernel = RBF(prior.length_scale).bind(log.features)
    return learn_model(log, learner.similarity, rng=rng, kernel=kernel, noise=prior.noise, mean=prior.mean)


def controller_for(problem: Problem, model: Model, case: Case) -> Controller:
    """Return the controller of a case: the one that is deployed, with the case's model."""
    environment, scaler, learner = problem.environment, problem.scaler, case.learner
    space = environment.space or ConfigurationSpace(arm=range(1, environment.arms + 1))
    asked: dict[str, Any] = {"features": environment.features} if scaler is None else {"state": scaler}
    return Controller(
        space,
        environment.stations,
        similarity=model.similarity,
        kernel=model.kernel,
        noise=model.noise,
        mean=model.mean,
        policy=learner.policy,
        beta=learner.beta,
        engine=learner.engine,
        options={"rounds": learner.rounds} if learner.rounds != "plain" else None,
        log=problem.log if case.start else None,
        seed=case.seed,
        **asked,
    )


def _to_record(model: Model) -> Record:
    tasks = model.similarity
    matrix = {"stations": list(tasks.stations), "K_Z": tasks.matrix.tolist(), "method": tasks.method}
    matrix["details"] = dict(tasks.details)
    rest = {"noise": model.noise, "mean": model.mean, "at_bound": list(model.at_bound)}
    return {"kernel": model.kernel.to_dict(), "similarity": matrix, **rest}


def _from_record(found: Mapping[str, Any]) -> Model:
    told = found["similarity"]
    tasks = TaskMatrix(tuple(told["stations"]), np.array(told["K_Z"]), told["method"], told["details"])
    return Model(kernel_from_dict(found["kernel"]), tasks, found["noise"], found["mean"], tuple(found["at_bound"]))


# --- One run --------------------------------------------------------------------------------------------------------


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


def play(environment: Referee, controller: Controller, *, slots: int, seed: int, mode: Mode = "parallel") -> Run:
    """Run a controller for so many slots on the environment's trajectory of a seed.

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
        raise BadInputError(f"mode must be 'parallel' or 'sequential', got {mode!r}", argument="mode", value=mode)
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
    return Run(realised, pseudo, rewards)


def decide(controller: Controller, slot: Slot, stations: tuple[str, ...]) -> dict[str, Decision]:
    """Return what a controller decides for some stations of a slot, among the arms that they can play."""
    allowed = {s: slot.allowed[s] for s in stations if s in slot.allowed}
    if slot.states:
        return controller.ask_all({s: slot.states[s] for s in stations}, allowed=allowed)
    return controller.ask_all(contexts={s: slot.contexts[s] for s in stations}, allowed=allowed)


# --- From cases to curves -------------------------------------------------------------------------------------------


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


def run_cases(
    cases: Sequence[Case],
    folder: Path | None = None,
    *,
    n_jobs: int | None = None,
    ray: str | None = None,
    tick: Callable[[float], None] | None = None,
) -> list[Curve]:
    """Run cases that have no result in the folder yet, and return the curves of all, in order.

    `tick` is called after every case with what `effort_of` says of it, whether it had to be run or not.
    """
    models = learn_models(cases, folder, n_jobs=n_jobs, ray=ray)
    jobs = [
        Job(_file(folder, "runs", case, "key"), _run, (case, models[i]), effort_of(case))
        for i, case in enumerate(cases)
    ]
    found = run_jobs(jobs, n_jobs=n_jobs, ray=ray, tick=None if tick is None else (lambda job: tick(job.effort)))
    return [_curve(case, record) for case, record in zip(cases, found, strict=True)]


def learn_models(
    cases: Sequence[Case], folder: Path | None = None, *, n_jobs: int | None = None, ray: str | None = None
) -> list[Model]:
    """Return the models of cases, learned now unless the folder holds them; what several share is learned once."""
    keys = [_grouped(case, folder, "model_key") for case in cases]
    needed = dict(zip(keys, cases, strict=True))
    jobs = [Job(_file(folder, "models", case, "model_key"), _learn, (case,)) for case in needed.values()]
    found = run_jobs(jobs, n_jobs=n_jobs, ray=ray)
    models = {key: _from_record(record) for key, record in zip(needed, found, strict=True)}
    return [models[key] for key in keys]


def effort_of(case: Case) -> float:
    """Return about how many seconds of one core a case takes; only ratios matter, to tell how much is left."""
    stations, arms = size_of(case.problem)
    decisions = case.slots * (stations if case.mode == "parallel" else 1)
    log = stations * case.log_rows if case.start else 0
    if case.learner.similarity == "independent":
        return 1e-3 * decisions
    cubes = ((log + decisions) ** 3 - log**3) / 3.0  # Σ n² over the run
    return 1e-3 * decisions + cubes * arms * (4e-11 if case.mode == "sequential" else 1e-11)


def _learn(case: Case) -> Record:
    problem = case.make_problem()
    return _to_record(model_of(case, problem.similarity_log or problem.log))


def _run(case: Case, model: Model) -> Record:
    problem = case.make_problem()
    controller = controller_for(problem, model, case)
    begun, worked = time.perf_counter(), time.process_time()
    run = play(problem.environment, controller, slots=case.slots, seed=case.seed, mode=case.mode)
    spent = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - worked}
    shown = np.unique(np.linspace(0, case.slots - 1, min(_POINTS, case.slots)).round().astype(np.int64))
    curves = {"realised": run.realised, "pseudo": run.pseudo, "reward": run.rewards}
    summed = {name: values.cumsum()[shown].tolist() for name, values in curves.items()}
    return {"case": case.about(), "kinband": __version__, **spent, "slot": (shown + 1).tolist(), **summed}


def _curve(case: Case, found: Record) -> Curve:
    columns = {name: np.array(found[name]) for name in ("slot", "realised", "pseudo", "reward")}
    return Curve(case, seconds=found["seconds"], **columns)


def _file(folder: Path | None, kind: str, case: Case, key: str) -> Path | None:
    return None if folder is None else folder / kind / f"{getattr(case, key)}.json"


def _grouped(case: Case, folder: Path | None, key: str) -> Any:
    """The key of a case; without a folder, of one whose parts cannot be pickled, the parts themselves."""
    try:
        return getattr(case, key)
    except BadInputError:
        if folder is not None:
            raise
        seed = case.seed if drawn_by_seed(case.problem) else None
        return id(case.problem), id(case.learner.similarity), case.log_rows, case.prior, seed


# --- Many jobs over processes, or over the machines of a cluster ----------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A call whose result is kept.

    Attributes:
        file: Where the result is kept, as JSON; None to keep it in memory only. A job whose file exists is done.
        call: Returns a record.
        arguments: Its arguments.
        effort: About how many seconds it takes; only ratios matter.
    """

    file: Path | None
    call: Callable[..., Record]
    arguments: tuple[Any, ...] = ()
    effort: float = 1.0

    @property
    def done(self) -> bool:
        """Whether the file is there."""
        return self.file is not None and self.file.exists()

    def read(self) -> Record:
        """Return the record that is kept."""
        if self.file is None:
            raise AssertionError("this job keeps nothing")
        found: Record = json.loads(self.file.read_text(encoding="utf-8"))
        return found


def run_jobs(
    jobs: Sequence[Job],
    *,
    n_jobs: int | None = None,
    ray: str | None = None,
    tick: Callable[[Job], None] | None = None,
) -> list[Record]:
    """Run the jobs that are not done, and return the records of all, in order.

    Args:
        jobs: What to run; the longest begin first, so that no process is left alone with one at the end.
        n_jobs: Processes of this machine; None for one per core. One runs everything in this process.
        ray: Address of a Ray cluster to run them on instead: "auto" for the one that this machine belongs to, or
            "host:port".
        tick: Called after each job, done ones included.

    An error of a job, or Ctrl-C, stops the rest; what has been written stays.

    Example:
        >>> run_jobs([Job(None, dict, ([("a", 1)],))])
        [{'a': 1}]
    """
    found = {i: job.read() for i, job in enumerate(jobs) if job.done}
    if tick is not None:
        for i in found:
            tick(jobs[i])
    todo = sorted((i for i in range(len(jobs)) if i not in found), key=lambda i: -jobs[i].effort)
    for i, record in _records(jobs, todo, n_jobs=n_jobs, ray=ray):
        found[i] = record
        if (file := jobs[i].file) is not None:
            _write_whole(file, json.dumps(record))
        if tick is not None:
            tick(jobs[i])
    return [found[i] for i in range(len(jobs))]


def _records(
    jobs: Sequence[Job], todo: Sequence[int], *, n_jobs: int | None, ray: str | None
) -> Iterator[tuple[int, Record]]:
    """The records of some jobs as they come, with their numbers."""
    calls = {i: (jobs[i].call, jobs[i].arguments) for i in todo}
    yield from carried_out(calls, workers=n_jobs, ray=ray)


def _write_whole(file: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
