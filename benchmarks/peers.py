"""Peers on the same problems, in one run: regret and seconds of BoTorch, scikit-learn, LinUCB and KMTL-UCB.

The problems are those of `problems` with 20 tasks, since BoTorch's model of more takes minutes to fit; kinband's joint
model and learning alone play them again, with the same logs, noise, seeds and choice of β. Every learner's β is chosen
on one development seed; five seeds count. Seconds are of fitting and playing, one thread each, in the same run.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.findings import Claim, Size, decisions, tuned
from benchmarks.metrics import ratio_of
from benchmarks.peer_learners import BOTORCH, KMTL, KMTL_POOLED, LINUCB, PEERS, SKLEARN
from benchmarks.running import play_all
from benchmarks.runs import ALONE, BETAS, JOINT, Contest, Plan, case_of, contests, learn_and_play, plans, read
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.experiments.compare import saving_of
from kinband.experiments.problems import Problem
from kinband.experiments.runner import Case, Job, Record
from kinband.policies import PolicyFactory
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate

TABLES = ("x264 bitrate", "x264 time", "gcc exec", "nodejs")
CLASSES = ("digits", "wine")
TASKS, QUICK_TASKS = 20, 6
FULL = Size((101,), (1, 2, 3, 4, 5))
QUICK = Size((101,), (1,))

FASTER = 50
"""How many times less time than BoTorch's model the joint one is to take."""

_LIBRARIES = {BOTORCH: "botorch.fit", SKLEARN: "sklearn.gaussian_process"}

MISSING = "left out: BoTorch, which is not installed; pip install 'kinband[bench]' brings it"


@dataclass(frozen=True)
class PeerFinding:
    """What was found on one problem.

    Attributes:
        contest: Which one.
        beta: The weight that each learner plays with.
        regret: Regret a decision of each learner, a number for each seed that counts.
        fit: Seconds that each learner took to fit, a number for each seed.
        play: Seconds that it took to play.
    """

    contest: Contest
    beta: Mapping[str, float]
    regret: Mapping[str, FloatArray]
    fit: Mapping[str, FloatArray]
    play: Mapping[str, FloatArray]

    @property
    def less_regret(self) -> Estimate:
        """Regret of the joint model over that of BoTorch's."""
        return ratio_of(self.regret[JOINT], self.regret[BOTORCH])

    @property
    def less_time(self) -> Estimate:
        """Seconds of BoTorch's model, fit and play, over those of the joint one."""
        ours, theirs = (self.fit[name] + self.play[name] for name in (JOINT, BOTORCH))
        return ratio_of(theirs, ours)


def botorch_installed() -> bool:
    """Whether BoTorch can play."""
    return find_spec("botorch") is not None


def peer_contests(tasks: int) -> list[Contest]:
    """Return the problems: tables of so many tasks, and classes as they are."""
    known = {contest.name: contest for contest in contests(None)}
    return [*(_smaller(known[name], tasks) for name in TABLES), *(known[name] for name in CLASSES)]


def _smaller(contest: Contest, tasks: int) -> Contest:
    table = ":".join(contest.environment.split(":")[:3])
    return replace(contest, name=f"{contest.name}, {tasks} tasks", environment=f"{table}:{tasks}")


def learners_of(contest: Contest) -> tuple[str, ...]:
    """Return who plays: BoTorch, where it is installed, on tables, and KMTL-UCB on classes."""
    if contest.name in CLASSES:
        return (JOINT, ALONE, SKLEARN, LINUCB, KMTL, KMTL_POOLED)
    return (*([BOTORCH] if botorch_installed() else []), JOINT, ALONE, SKLEARN, LINUCB)


def job_of(plan: Plan, folder: Path) -> Job:
    """Return the job that plays a run, of a peer or of kinband."""
    return plan.job(folder, run_peer if plan.learner in PEERS else None)


def run_peer(plan: Plan) -> Record:
    """Fit a peer, play with every β, and return what was found."""
    problem = case_of(plan.contest, plan.learner, plan.seed, plan.betas[0]).make_problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs: deprecations, and searches that end at a bound
        import_module(_LIBRARIES.get(plan.learner, "kinband"))  # beforehand, so that fitting is not charged with it

        def fit() -> PolicyFactory:
            return PEERS[plan.learner](problem, plan.seed)

        _, found = learn_and_play(plan, problem, fit, lambda policy, case: _controller(problem, policy, case))
    return found


def _controller(problem: Problem, policy: PolicyFactory, case: Case) -> Controller:
    """A controller that leaves all beliefs to a policy."""
    environment, scaler = problem.environment, problem.scaler
    space = environment.space or ConfigurationSpace(arm=range(1, environment.arms + 1))
    asked: dict[str, Any] = {"features": environment.features} if scaler is None else {"state": scaler}
    return Controller(
        space,
        environment.stations,
        policy=policy,
        beta=case.learner.beta,
        log=problem.log if case.start else None,
        seed=case.seed,
        **asked,
    )


def measure_peers(chosen: Sequence[Contest], size: Size, folder: Path, *, workers: int | None) -> list[PeerFinding]:
    """Play whatever is not on disk, and return what was found on every problem."""
    tuning = [plan for contest in chosen for plan in plans(contest, learners_of(contest), size.tuning, BETAS)]
    play_all([job_of(plan, folder) for plan in tuning], workers=workers, what="choosing β of peers")
    beta = {contest: _betas(contest, size, folder) for contest in chosen}
    counted = [
        plan
        for contest in chosen
        for name, b in beta[contest].items()
        for plan in plans(contest, [name], size.counted, [b])
    ]
    play_all([job_of(plan, folder) for plan in counted], workers=workers, what="playing peers")
    return [_finding(contest, beta[contest], size, folder) for contest in chosen]


def _betas(contest: Contest, size: Size, folder: Path) -> dict[str, float]:
    tuning = tuned(contest, size, folder, learners=learners_of(contest))
    return {name: min(by_beta, key=by_beta.__getitem__) for name, by_beta in tuning.items()}


def _finding(contest: Contest, beta: Mapping[str, float], size: Size, folder: Path) -> PeerFinding:
    runs = {
        name: [read(plan, folder) for plan in plans(contest, [name], size.counted, [b])] for name, b in beta.items()
    }
    count = decisions(contest)
    regret = {name: np.array([run["regret"][str(beta[name])][-1] for run in of]) / count for name, of in runs.items()}
    fit, play = (
        {name: np.array([run[what] for run in of]) for name, of in runs.items()}
        for what in ("fit_seconds", "play_seconds")
    )
    return PeerFinding(contest, beta, regret, fit, play)


def peer_claims(findings: Sequence[PeerFinding]) -> list[Claim]:
    """Return what is claimed against BoTorch, where it has played."""
    against = [found for found in findings if BOTORCH in found.regret]
    less = [(found.contest.name, found.less_regret) for found in against]
    faster = [(found.contest.name, found.less_time) for found in against]
    return [
        *(Claim("regret over BoTorch's MultiTaskGP", n, "less than 1", f"{e:.3f}", e.value < 1.0) for n, e in less),
        *(
            Claim("seconds of BoTorch's MultiTaskGP over ours", n, f"at least {FASTER}", f"{e:.0f}", e.value >= FASTER)
            for n, e in faster
        ),
    ]


def peer_table(findings: Sequence[PeerFinding]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table: regret a decision, β and seconds of every learner on every problem."""
    names = [name for name in (JOINT, ALONE, *PEERS) if any(name in found.regret for found in findings)]
    return ["problem", *names], [[found.contest.name, *(_cell(found, name) for name in names)] for found in findings]


def _cell(found: PeerFinding, name: str) -> str:
    if name not in found.regret:
        return "-"
    seconds = f"{found.fit[name].mean():.2f} + {found.play[name].mean():.2f} s"
    return f"{found.regret[name].mean():.4f} ({found.beta[name]:g}), {seconds}"


def botorch_savings(findings: Sequence[PeerFinding]) -> dict[str, dict[str, Estimate]]:
    """Return what BoTorch's model saves of learning alone, by the name of the problem with all its tasks."""
    return {
        found.contest.name.partition(",")[0]: {BOTORCH: saving_of(found.regret[BOTORCH], found.regret[ALONE])}
        for found in findings
        if BOTORCH in found.regret
    }


def peers_plain(findings: Sequence[PeerFinding]) -> dict[str, Any]:
    """Everything as JSON-able values."""
    return {
        found.contest.name: {
            "beta": dict(found.beta),
            **{
                what: {name: values.tolist() for name, values in getattr(found, what).items()}
                for what in ("regret", "fit", "play")
            },
        }
        for found in findings
    }
