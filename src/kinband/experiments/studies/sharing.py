"""Sharing measured: never much worse than the better of learning alone and learning as one, and as good where it helps.

On every problem four learners start from the same log and meet the same slots: each station alone, all stations as one,
the paper's embedding taken at its word, and the controller that adapts. Each plays with the weight of the width that
was best for it in short runs on other seeds. Problems range from the bundled city to stations that want the opposite of
each other and a similarity measured under shuffled names (`play.adversaries`).

Regret is counted in expectation; on the synthetic bandit, where what a context does not explain is most of it, also
against the best reward of the slot, as in docs/results.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.metrics import Estimate, mean_of, ratio_of, share_kept_of
from kinband.experiments.play import watch_widths
from kinband.experiments.play.cases import Case, Learner, Mode
from kinband.experiments.play.models import model_of
from kinband.experiments.play.problems import problem_of
from kinband.experiments.play.runs import Curve, controller_for

ALONE, AS_ONE, EMBEDDING, ADAPTIVE = "alone", "as one", "embedding", "adaptive"
LEARNERS = (ALONE, AS_ONE, EMBEDDING, ADAPTIVE)
BETAS = (0.3, 1.0)
_TUNING_SEEDS = (101, 102, 103)


@dataclass(frozen=True)
class Contest:
    """A problem that all learners play.

    Attributes:
        name: In words.
        environment: As `Case` has it.
        mode: Rounds, or one station at a time.
        slots: How many are played.
        misled: Whether the adaptive learner is given the embedding, measured under wrong names, to begin with.
        realised: Whether regret is counted against the best reward of the slot too.
        engine: The posterior of those that share; learning alone is always exact.

    Example:
        >>> contests(trace=None)[-1].slots
        4000
    """

    name: str
    environment: str
    mode: Mode
    slots: int
    misled: bool = False
    realised: bool = False
    engine: str = "exact"


def contests(*, trace: str | None) -> list[Contest]:
    """Return the problems; the path of a trace of measurement runs adds one."""
    real = [] if trace is None else [Contest("ColO-RAN", f"runs:{trace}", "sequential", 600)]
    return [
        *real,
        Contest("city, half inverted", "city:opposed", "sequential", 1000),
        Contest("city, half inverted, permuted", "city:permuted", "sequential", 1000, misled=True),
        Contest("drawn alike", "drawn:alike", "parallel", 50),
        Contest("drawn, half inverted", "drawn:opposed", "parallel", 50),
        Contest("drawn, half inverted, permuted", "drawn:permuted", "parallel", 50, misled=True),
        Contest("drawn unrelated", "drawn:unrelated", "parallel", 50),
        Contest("synthetic bandit", "synthetic", "parallel", 1000, realised=True, engine="sparse"),
        Contest("bundled city", "bundled", "sequential", 4000, engine="sparse"),
    ]


@dataclass(frozen=True)
class Finding:
    """What was found on one problem.

    Attributes:
        contest: Which one.
        regret: Of each learner, a run.
        worse: Regret of the adaptive learner as a multiple of that of the better of alone and as one.
        better: Which of these two is the better.
        saved: Share of the regret of learning alone that the adaptive learner saves.
        kept: That saving as a share of the best fixed learner's, where one saves something; else None.
        realised: The same multiple against the best rewards, where it is counted.
        betas: The weight that each learner plays with.
    """

    contest: Contest
    regret: Mapping[str, Estimate]
    worse: Estimate
    better: str
    saved: Estimate
    kept: Estimate | None
    realised: Estimate | None
    betas: Mapping[str, float | str]


def learners(contest: Contest, *, betas: Sequence[float] = BETAS) -> list[Learner]:
    """Return all learners of a problem with every weight that they may take."""
    first = EMBEDDING if contest.misled else "blended"
    kinds = [
        Learner(ALONE, "independent"),
        Learner(AS_ONE, "pooled", engine=contest.engine),
        Learner(EMBEDDING, "embedding", engine=contest.engine),
        Learner(ADAPTIVE, first, engine=contest.engine, adapts=True),
    ]
    return [replace(one, beta=beta, pulled=True) for one in kinds for beta in betas]


def tuning_cases(contest: Contest) -> list[Case]:
    """Return the short runs that choose every learner's weight."""
    slots = max(1, contest.slots // 4)
    return [_case(contest, one, seed, slots=slots) for one in learners(contest) for seed in _TUNING_SEEDS]


def counted_cases(contest: Contest, seeds: Sequence[int], betas: Mapping[str, float | str]) -> list[Case]:
    """Return the runs that count."""
    chosen = [one for one in learners(contest) if one.beta == betas[one.name]]
    return [_case(contest, one, seed, slots=contest.slots) for one in chosen for seed in seeds]


def chosen_betas(tuned: Sequence[Curve]) -> dict[str, float | str]:
    """Return every learner's best weight in the short runs."""
    found: dict[str, float | str] = {}
    for name in LEARNERS:
        own = [curve for curve in tuned if curve.case.learner.name == name]
        weights = dict.fromkeys(curve.case.learner.beta for curve in own)
        found[name] = min(weights, key=lambda b: sum(c.pseudo[-1] for c in own if c.case.learner.beta == b))
    return found


def finding(contest: Contest, curves: Sequence[Curve], betas: Mapping[str, float | str]) -> Finding:
    """Return what the runs that count say."""
    regret = _regrets(curves, lambda curve: float(curve.pseudo[-1]))
    better = min((ALONE, AS_ONE), key=lambda name: regret[name].sum())
    fixed = min((AS_ONE, EMBEDDING), key=lambda name: regret[name].sum())
    helps = regret[fixed].sum() < regret[ALONE].sum()
    ours, alone = regret[ADAPTIVE], regret[ALONE]
    realised = _regrets(curves, lambda curve: float(curve.realised[-1])) if contest.realised else None
    saved = ratio_of(ours, alone)
    return Finding(
        contest,
        {name: mean_of(regret[name]) for name in LEARNERS},
        ratio_of(ours, regret[better]),
        better,
        Estimate(1.0 - saved.value, 1.0 - saved.high, 1.0 - saved.low),
        share_kept_of(ours, alone, best=regret[fixed]) if helps else None,
        None if realised is None else ratio_of(realised[ADAPTIVE], realised[better]),
        betas,
    )


def coverage(
    environment: str, adapts: bool, seed: int, *, slots: int, similarity: str = "embedding"
) -> dict[str, float]:
    """Return the share of decisions whose expected reward lay within the stated 95 % interval."""
    learner = Learner(ADAPTIVE if adapts else EMBEDDING, similarity, adapts=adapts, pulled=True)
    case = Case("sharing", "fair", environment, learner, "parallel", slots, seed, start=True)
    problem = problem_of(case)
    controller = controller_for(problem, model_of(case, problem.likeness or problem.log), case)
    distance = watch_widths(problem.environment, controller, slots=slots, seed=seed)
    return {"covered": float(np.mean(distance <= 1.96))}


def _regrets(curves: Sequence[Curve], of: Callable[[Curve], float]) -> dict[str, FloatArray]:
    """Return the regrets of every learner, a number for each seed, in the order of seeds."""
    found = {}
    for name in LEARNERS:
        own = sorted((c for c in curves if c.case.learner.name == name), key=lambda c: c.case.seed)
        found[name] = np.array([of(curve) for curve in own])
    return found


def _case(contest: Contest, learner: Learner, seed: int, *, slots: int) -> Case:
    return Case("sharing", "fair", contest.environment, learner, contest.mode, slots, seed, start=True)
