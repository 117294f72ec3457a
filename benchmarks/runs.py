"""One learner on one problem and seed: its model, learned once, and the regret of playing with every β asked for.

Each run is a JSON file, so that a measurement can be interrupted and goes on where it stopped.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.running import kept
from kinband.controller import Controller
from kinband.experiments.problems import Problem
from kinband.experiments.runner import Case, Job, Learner, Mode, Record, controller_for, play
from kinband.kernels import RBF, Categorical, Kernel
from kinband.likelihood import spread_of
from kinband.model import Model, Search, learn_model
from kinband.records import Samples
from kinband.similarity import Embedding, Joint, ProjectionWarning
from kinband.similarity.base import without_level

# --- The problems on which learners are compared: real tables and traces, classes, drawn functions, the city --------


@dataclass(frozen=True)
class Contest:
    """A problem that all learners play.

    Attributes:
        name: In words.
        environment: As `kinband.experiments.runner.Case` has it.
        slots: How many are played: rounds of all stations, or single decisions.
        log_rows: Rows a station to learn from beforehand.
        mode: Rounds, or one station at a time.
        start: Whether beliefs start from the log, or only the model is learned from it.
        real: Whether it is made of measurements of a real system.
        intervals: Whether predictive intervals are aimed at: not for rewards of 0 and 1, nor for ColO-RAN.
    """

    name: str
    environment: str
    slots: int
    log_rows: int
    mode: Mode = "parallel"
    start: bool = True
    real: bool = False
    intervals: bool = True


def contests(coloran: Path | None) -> list[Contest]:
    """Return the problems; those of ColO-RAN, which is not ours to ship, where its table is (docs/extend.md)."""
    runs = f"runs:{coloran}"
    traces = [
        Contest("ColO-RAN, 10 rows", runs, 600, 10, "sequential", real=True, intervals=False),
        Contest("ColO-RAN, 60 rows", runs, 600, 60, "sequential", real=True, intervals=False),
        Contest("ColO-RAN, cold", runs, 600, 60, "sequential", start=False, real=True, intervals=False),
    ]
    return [
        Contest("x264 bitrate", "measured:x264:kbs:40", 10, 5, real=True),
        Contest("x264 time", "measured:x264:etime:40", 10, 5, real=True),
        Contest("sqlite q2", "measured:sqlite:q2:40", 10, 5, real=True),
        Contest("sqlite q13", "measured:sqlite:q13:40", 10, 5, real=True),
        Contest("sqlite q15", "measured:sqlite:q15:40", 10, 5, real=True),
        Contest("gcc exec", "measured:gcc:exec", 10, 5, real=True),
        Contest("nodejs", "measured:nodejs:ops:40", 10, 3, real=True),
        Contest("gcc exec, 40 rounds", "measured:gcc:exec", 40, 5, real=True),
        Contest("nodejs, 40 rounds", "measured:nodejs:ops:40", 40, 3, real=True),
        *([] if coloran is None else traces),
        Contest("digits", "classes:digits", 40, 20, intervals=False),
        Contest("digits, half relabelled", "classes:digits:relabelled", 40, 20, intervals=False),
        Contest("wine", "classes:wine", 40, 20, intervals=False),
        Contest("wine, half relabelled", "classes:wine:relabelled", 40, 20, intervals=False),
        Contest("synthetic bandit", "synthetic", 200, 20),
        Contest("smooth city, 5 rows", "smooth", 10, 5),
        Contest("smooth city, 20 rows", "smooth", 10, 20),
        Contest("drawn alike", "drawn:alike", 40, 5),
        Contest("drawn, half opposed", "drawn:opposed", 40, 5),
        Contest("drawn, opposed, permuted", "drawn:permuted", 40, 5),
        Contest("drawn unrelated", "drawn:unrelated", 40, 5),
    ]


# --- One learner on one of them -------------------------------------------------------------------------------------

JOINT, ALONE, POOLED, EMBEDDING = "joint", "alone", "pooled", "embedding"
PLAIN = "alone, plain prior"
"""Learning alone with the kernel and the weak prior that kinband had before the joint model."""

SIMILARITIES = {JOINT: "joint", ALONE: "independent", POOLED: "pooled", EMBEDDING: "embedding", PLAIN: "independent"}
BETAS = (0.1, 0.3, 1.0)

Learned = TypeVar("Learned")

_DRAWS = 200  # new measurements by which the intervals of a run are judged


@dataclass(frozen=True)
class Plan:
    """What one run plays.

    Attributes:
        contest: The problem.
        learner: One of `SIMILARITIES`.
        seed: Of log, slots and draws.
        betas: The weights of the width to play with.
    """

    contest: Contest
    learner: str
    seed: int
    betas: tuple[float, ...]

    def job(self, folder: Path, call: "Callable[[Plan], Record] | None" = None) -> Job:
        """Return the job that plays this run, by `call` where it is not one of kinband's learners."""
        return kept(folder / "runs", call or run, self)


def read(plan: Plan, folder: Path) -> dict[str, Any]:
    """Return what a run found: `regret` by β, summed up after every slot, seconds, shares, and how intervals held."""
    return plan.job(folder).read()


def run(plan: Plan) -> Record:
    """Learn a model, play with every β, and return what was found."""
    problem = case_of(plan.contest, plan.learner, plan.seed, plan.betas[0]).make_problem()
    model, found = learn_and_play(
        plan, problem, lambda: model_for(plan.learner, problem, plan.seed), partial(controller_for, problem)
    )
    found["shares"] = {name: float(model.similarity.details.get(name, np.nan)) for name in ("shared", "similar", "own")}
    found["covered"] = coverage(problem, model, plan.seed) if plan.learner in (JOINT, ALONE) else None
    return found


def learn_and_play(
    plan: Plan, problem: Problem, learn: Callable[[], Learned], controller_of: Callable[[Learned, Case], Controller]
) -> tuple[Learned, dict[str, Any]]:
    """Learn once and play with every β: what was learned, and what `read` returns of regret and seconds."""
    contest = plan.contest
    begun = time.perf_counter()
    learned = learn()
    fitted = time.perf_counter() - begun
    regret: dict[str, list[float]] = {}
    begun = time.perf_counter()
    for beta in plan.betas:
        controller = controller_of(learned, case_of(contest, plan.learner, plan.seed, beta))
        played = play(problem.environment, controller, slots=contest.slots, seed=plan.seed, mode=contest.mode)
        regret[str(beta)] = played.pseudo.cumsum().tolist()
    seconds = (time.perf_counter() - begun) / len(plan.betas)
    return learned, {"plan": asdict(plan), "regret": regret, "fit_seconds": fitted, "play_seconds": seconds}


def case_of(contest: Contest, learner: str, seed: int, beta: float) -> Case:
    """Return a run as experiments describe it; a peer, which has no similarity, is down as sharing nothing."""
    who = Learner(learner, SIMILARITIES.get(learner, "independent"), beta=beta)
    return Case(
        contest.environment, who, contest.slots, seed, contest.mode, log_rows=contest.log_rows, start=contest.start
    )


def model_for(learner: str, problem: Problem, seed: int) -> Model:
    """Return the model of a learner from the log of a problem.

    Where a problem brings a similarity measured under wrong names, the embedding takes it at its word, and the joint
    model gets it as what is said of who is alike.
    """
    log, rng = problem.log, np.random.default_rng([seed, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)
        if learner == PLAIN:
            noise, search = 0.1 * spread_of(log.y), Search(pull=2.0, starts=3)
            return learn_model(log, "independent", rng=rng, kernel=_plain_kernel(log), noise=noise, search=search)
        if problem.similarity_log is None or learner not in (JOINT, EMBEDDING):
            return learn_model(log, SIMILARITIES[learner], rng=rng)
        alone = learn_model(log, "independent", rng=rng)
        said = Embedding(without_level(alone.kernel), regularisation=alone.noise).fit(problem.similarity_log)
        return learn_model(log, Joint(alike=said.matrix) if learner == JOINT else said, rng=rng)


def _plain_kernel(log: Samples) -> Kernel:
    """RBF with length-scales of one standard deviation, times Categorical over codes; no level."""
    variance, codes = spread_of(log.y), tuple(log.categorical)
    bounds = (1e-4 * variance, 1e4 * variance)
    numeric = tuple(column for column in range(log.X.shape[1]) if column not in codes)
    if not numeric:
        return Categorical([1.0] * len(codes), variance=variance, variance_bounds=bounds, columns=codes)
    scale = log.X[:, numeric].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    within = (1e-3 * scale.min(), 1e3 * scale.max())
    rbf = RBF(scale, variance=variance, columns=numeric, length_scale_bounds=within, variance_bounds=bounds)
    return rbf * Categorical([1.0] * len(codes), columns=codes, fixed=("variance",)) if codes else rbf


def coverage(problem: Problem, model: Model, seed: int) -> float:
    """Return the share of new measurements, at arms drawn at random, that lie within their predictive 95 % interval."""
    environment = problem.environment
    controller = controller_for(problem, model, case_of(Contest("", "synthetic", 1, 1), ALONE, seed, 0.0))
    posterior: Any = controller.policy
    rng = np.random.default_rng([seed, 5])
    inside: list[bool] = []
    slot = environment.reset(seed)
    while len(inside) < _DRAWS:
        arms: dict[str, int] = {}
        for station in environment.stations:
            playable = slot.allowed.get(station)
            arms[station] = int(rng.choice(environment.arms if playable is None else np.flatnonzero(playable)))
        predicted = {
            s: posterior.posterior.predict([controller.stations.index(s)], _context(problem, slot, s, arm))
            for s, arm in arms.items()
        }
        for station, outcome in environment.play(arms).items():
            mean, width = float(predicted[station].mean[0]), float(predicted[station].std[0])
            noise = model.noise if outcome.noise is None else outcome.noise
            inside.append(abs(outcome.reward - mean) <= 1.96 * np.sqrt(width**2 + noise))
        slot = environment.slot
    return float(np.mean(inside))


def _context(problem: Problem, slot: Any, station: str, arm: int) -> Any:
    space, scaler = problem.environment.space, problem.scaler
    if scaler is None or not slot.states or space is None:
        return slot.contexts[station][[arm]]
    from kinband.contexts import ContextEncoder

    return ContextEncoder(scaler, space).contexts(slot.states[station])[[arm]]


def plans(contest: Contest, learners: Sequence[str], seeds: Sequence[int], betas: Sequence[float]) -> list[Plan]:
    """Return the runs of several learners on several seeds."""
    return [Plan(contest, learner, seed, tuple(betas)) for learner in learners for seed in seeds]
