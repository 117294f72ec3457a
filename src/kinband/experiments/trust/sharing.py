"""Sharing: at most 5 % worse than the better of alone and as one, and at least 90 % of what sharing can save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.experiments.metrics import Estimate, mean_of
from kinband.experiments.play.runs import effort_of
from kinband.experiments.studies.sharing import (
    BETAS,
    LEARNERS,
    Contest,
    Finding,
    chosen_betas,
    contests,
    counted_cases,
    coverage,
    finding,
    tuning_cases,
)
from kinband.experiments.trust.running import Call, Part, Runner
from kinband.experiments.trust.targets import Size, Target, target_of

NAME = "sharing"
WORSE, KEPT, COVERED = 1.05, 0.9, 0.95
_MISLED = "drawn:permuted"
_KEPT_AS = "kinband.experiments.sharing.coverage"  # where it was when the first records were kept


@dataclass(frozen=True)
class Results:
    """What was found on every problem, and the coverage of intervals with a misleading similarity.

    It is that of the adaptive controller, of one that takes the similarity at its word, and of learning alone.
    """

    findings: Sequence[Finding]
    covered: Estimate
    covered_at_its_word: Estimate
    covered_alone: Estimate


def measure(size: Size, runner: Runner) -> Results:
    """Play all problems, and watch intervals where the similarity misleads."""
    found = [_found(contest, size, runner) for contest in _contests(size)]
    covered = []
    for how in ({"adapts": True}, {"adapts": False}, {"adapts": False, "similarity": "independent"}):
        records = runner.records("sharing: coverage", _watched(size, how))
        covered.append(mean_of(np.array([record["covered"] for record in records])))
    return Results(found, *covered)


def targets(results: Results, size: Size) -> list[Target]:
    """Hold the adaptive controller against the better of alone and as one, and against the best that shares."""
    common: dict[str, Any] = {"runs": len(size.seeds(usual=20)), "size": size}
    lines = []
    for one in results.findings:
        name = one.contest.name
        note = f"the better is {one.better}; " + ", ".join(f"{who} {one.regret[who].value:.3g}" for who in LEARNERS)
        lines.append(_worse(f"{name}: regret over the better of alone and as one", one.worse, note, common))
        if one.realised is not None:
            note = "against the best rewards of the slots"
            lines.append(_worse(f"{name}: the same in realised regret", one.realised, note, common))
        if one.kept is not None:
            note = f"saves {one.saved:.1%} of learning alone"
            words = f"{name}: share kept of the best fixed sharing's saving"
            lines.append(target_of(NAME, words, one.kept, aim=KEPT, sense="at least", note=note, **common))
    words = "misled by permuted names: coverage of stated 95 % intervals"
    note = f"{results.covered_at_its_word:.1%} where the similarity is taken at its word, "
    note += f"{results.covered_alone:.1%} where every station learns alone"
    lines.append(
        target_of(NAME, words, results.covered, aim=COVERED, sense="at least", judge="value", note=note, **common)
    )
    return lines


def _worse(name: str, estimate: Estimate, note: str, common: dict[str, Any]) -> Target:
    return target_of(NAME, name, estimate, aim=WORSE, sense="at most", style=".3f", note=note, **common)


def _contests(size: Size) -> list[Contest]:
    every = contests(trace=size.trace)
    if not size.short:
        return every
    return [replace(one, slots=max(3, one.slots // 40)) for one in every if one.environment != "bundled"]


def _found(contest: Contest, size: Size, runner: Runner) -> Finding:
    betas: dict[str, float | str] = dict.fromkeys(LEARNERS, BETAS[-1])
    if not size.short:
        betas = chosen_betas(runner.cases(f"sharing: {contest.name}, choosing weights", tuning_cases(contest)))
    cases = counted_cases(contest, size.seeds(usual=20), betas)
    return finding(contest, runner.cases(f"sharing: {contest.name}", cases), betas)


def _watched(size: Size, how: Mapping[str, Any]) -> list[Call]:
    slots = 5 if size.short else 50
    plan = {"environment": _MISLED, **how, "slots": slots}
    effort = 0.1 * slots
    return [Call(coverage, plan | {"seed": seed}, effort=effort, name=_KEPT_AS) for seed in size.seeds(usual=20)]


def _effort(size: Size) -> float:
    betas: dict[str, float | str] = dict.fromkeys(LEARNERS, BETAS[0])
    played = [counted_cases(contest, size.seeds(usual=20), betas) for contest in _contests(size)]
    played += [] if size.short else [tuning_cases(contest) for contest in _contests(size)]
    return sum(effort_of(case) for cases in played for case in cases)


PART = Part(
    NAME,
    "sharing never costs more than 5 % against the better of alone and as one, and keeps 90 % of what it can save",
    effort=_effort,
    measure=measure,
    targets=targets,
)
