"""What the runs of one problem say: every learner's regret at its own β, and the ratios that claims are about.

β is chosen on development seeds, and so is the fixed way of sharing that the joint model is held against; the seeds
that count play with that β only. Intervals are 95 %, by bootstrap over seeds, all runs of a seed being drawn together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.metrics import bootstrapped, picks_of, ratio_of
from benchmarks.runs import ALONE, BETAS, EMBEDDING, JOINT, PLAIN, POOLED, Contest, Plan, plans, read
from kinband.arrays import FloatArray
from kinband.experiments.compare import mean_over_runs, saving_of
from kinband.stats import Estimate

FIXED = (ALONE, POOLED, EMBEDDING)
LEARNERS = (JOINT, *FIXED, PLAIN)


@dataclass(frozen=True)
class Size:
    """How much is played: seeds that choose, and seeds that count."""

    tuning: tuple[int, ...]
    counted: tuple[int, ...]

    @property
    def full(self) -> bool:
        """Whether it is the stated size."""
        return self == FULL


FULL = Size(tuple(range(101, 106)), tuple(range(21, 41)))
"""Seeds 1 to 20 were looked at while the model was made; they count no more."""

QUICK = Size((101,), (1, 2, 3))


@dataclass(frozen=True)
class Claim:
    """One line of the table.

    Attributes:
        what: What is claimed.
        where: On which problem.
        aim: In words.
        measured: With its interval.
        kept: Whether it is; None for what is reported only.
    """

    what: str
    where: str
    aim: str
    measured: str
    kept: bool | None


def learners_of(contest: Contest) -> tuple[str, ...]:
    """Return who plays: learning alone as it was before plays real tables only."""
    return LEARNERS if contest.environment.startswith("measured:") else LEARNERS[:-1]


@dataclass(frozen=True)
class Finding:
    """What was found on one problem.

    Attributes:
        contest: Which one.
        beta: The weight that each learner plays with.
        tuning: Mean regret a decision of each learner and β on the development seeds.
        regret: Regret a decision of each learner, a number for each seed that counts.
        best: The fixed way of sharing that was best on the development seeds.
        shares: Parts of the joint model on average: shared, similar, own.
        covered: Share of new measurements within their predictive 95 % interval, for each seed, and of alone.
        seconds: Of a fit and of a run of the joint model, on average.
    """

    contest: Contest
    beta: Mapping[str, float]
    tuning: Mapping[str, Mapping[float, float]]
    regret: Mapping[str, FloatArray]
    best: str
    shares: Mapping[str, float]
    covered: Mapping[str, FloatArray]
    seconds: tuple[float, float]

    @property
    def ratio(self) -> Estimate:
        """Regret of the joint model over that of the best fixed way."""
        return ratio_of(self.regret[JOINT], self.regret[self.best])

    def saved(self, learner: str = JOINT) -> Estimate:
        """Share of the regret of learning alone that a learner saves."""
        return saving_of(self.regret[learner], self.regret[ALONE])

    @property
    def kept(self) -> Estimate:
        """What the joint model saves of learning alone, as a share of what the best fixed sharing saves.

        Not a number where that one saves nothing.
        """
        sharing = min((POOLED, EMBEDDING), key=lambda name: self.tuning[name][self.beta[name]])
        picks = picks_of(len(self.regret[JOINT]))
        ours, alone, best = (self.regret[name][picks].sum(axis=1) for name in (JOINT, ALONE, sharing))
        if best[0] >= alone[0]:
            return Estimate(np.nan, np.nan, np.nan)
        kept = (alone - ours) / np.where(alone > best, alone - best, np.nan)
        return bootstrapped(kept, runs=len(self.regret[JOINT]))


def tuning_plans(contest: Contest, size: Size) -> list[Plan]:
    """Return the runs that choose every learner's β."""
    return plans(contest, learners_of(contest), size.tuning, BETAS)


def counted_plans(contest: Contest, size: Size, beta: Mapping[str, float]) -> list[Plan]:
    """Return the runs that count, each learner at its β."""
    return [plan for name in learners_of(contest) for plan in plans(contest, [name], size.counted, [beta[name]])]


def tuned(
    contest: Contest, size: Size, folder: Path, *, learners: Sequence[str] | None = None
) -> dict[str, dict[float, float]]:
    """Return the mean regret a decision of each learner and β on the development seeds."""
    found: dict[str, dict[float, float]] = {}
    for name in learners or learners_of(contest):
        runs = [read(plan, folder) for plan in plans(contest, [name], size.tuning, BETAS)]
        found[name] = {
            beta: float(np.mean([run["regret"][str(beta)][-1] for run in runs])) / decisions(contest) for beta in BETAS
        }
    return found


def decisions(contest: Contest) -> int:
    """Return how many decisions a run of a problem makes."""
    from benchmarks.runs import case_of

    if contest.mode == "sequential":
        return contest.slots
    return contest.slots * len(case_of(contest, ALONE, 1, 0.0).make_problem().environment.stations)


def finding(contest: Contest, size: Size, folder: Path) -> Finding:
    """Return what the runs on disk say of a problem."""
    tuning = tuned(contest, size, folder)
    beta = {name: min(by_beta, key=lambda b: by_beta[b]) for name, by_beta in tuning.items()}
    count = decisions(contest)
    regret, covered, joint = {}, {}, []
    for name in learners_of(contest):
        runs = [read(plan, folder) for plan in plans(contest, [name], size.counted, [beta[name]])]
        regret[name] = np.array([run["regret"][str(beta[name])][-1] for run in runs]) / count
        if name in (JOINT, ALONE):
            covered[name] = np.array([run["covered"] for run in runs])
        if name == JOINT:
            joint = runs
    shares = {part: float(np.mean([run["shares"][part] for run in joint])) for part in joint[0]["shares"]}
    seconds = tuple(float(np.mean([run[what] for run in joint])) for what in ("fit_seconds", "play_seconds"))
    best = min(FIXED, key=lambda name: tuning[name][beta[name]])
    return Finding(contest, beta, tuning, regret, best, shares, covered, (seconds[0], seconds[1]))


def geometric_mean(findings: Sequence[Finding]) -> Estimate:
    """Return the geometric mean of the ratios over problems; seeds of each problem are drawn by themselves."""
    rng = np.random.default_rng(0)
    logs = []
    for found in findings:
        ours, best = found.regret[JOINT], found.regret[found.best]
        picks = picks_of(len(ours), rng)
        logs.append(np.log(ours[picks].sum(axis=1) / best[picks].sum(axis=1)))
    return bootstrapped(np.exp(np.mean(logs, axis=0)), runs=len(findings[0].regret[JOINT]))


def held(found: Finding, learner: str = JOINT) -> Estimate:
    """Return how often predictive intervals held, with its interval over seeds."""
    return mean_over_runs(found.covered[learner])
