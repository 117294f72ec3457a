"""Rounds: deciding all at once must save almost what taking turns saves."""

from dataclasses import replace
from typing import Any

from benchmarks.studies.rounds import (
    AWARE,
    LEARNERS,
    PLAIN,
    THOMPSON,
    Finding,
    Plan,
    cases_about,
    counted_cases,
    finding,
    tuning_cases,
)
from benchmarks.trust.targets import Part, Runner, Size, Target, target_of
from kinband.experiments.paper import quick
from kinband.experiments.runner import effort_of

NAME = "rounds"
POINTS = 0.03
"""How much less of the regret of learning alone rounds may save than turns, a share of it."""

_WORDS = {PLAIN: "plain rounds", AWARE: "aware rounds", THOMPSON: "Thompson sampling"}


def plan_of(size: Size) -> Plan:
    """Return what is played in a size; short runs have a tenth of the decisions."""
    plan = Plan(size.seeds(usual=20, short=2))
    if not size.short:
        return plan
    turns, rounds = (replace(quick(figure), betas=figure.betas[:1]) for figure in (plan.turns, plan.rounds))
    return replace(plan, turns=replace(turns, slots=210), rounds=replace(rounds, slots=2), similarity="embedding")


def measure(size: Size, runner: Runner) -> Finding:
    """Choose every learner's weight, then play the runs that count."""
    plan = plan_of(size)
    tuned = runner.cases("rounds: choosing weights", tuning_cases(plan))
    return finding(runner.cases("rounds: all at once and in turns", counted_cases(plan, tuned)), tuned)


def targets(found: Finding, size: Size) -> list[Target]:
    """Hold every learner's saving in rounds against that of taking turns."""
    common: dict[str, Any] = {"sense": "at least", "runs": len(plan_of(size).seeds), "size": size}
    lines = [
        target_of(
            NAME, f"{_WORDS[name]}: saved beyond what turns save", found.gap[name], aim=-POINTS, style="+.1%",
            **common, note=f"saves {found.rounds[name]:.1%}, β {found.betas['parallel'][name]}",
        )
        for name in LEARNERS
    ]  # fmt: skip
    note = f"β {found.betas['sequential'][PLAIN]}"
    turns = target_of(NAME, "turns: saved of learning alone", found.turns, aim=None, **common, note=note)
    return [turns, *lines]


PART = Part(
    NAME,
    "all stations at once save within 3 points of what they save one after the other, on as many decisions",
    effort=lambda size: sum(map(effort_of, cases_about(plan_of(size)))),
    measure=measure,
    targets=targets,
)
