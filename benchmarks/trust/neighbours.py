"""Neighbours: what a live network gains when stations count their neighbours' rewards beside their own."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.studies.neighbours import QUICK, Finding, Plan, Record, findings, run_one
from benchmarks.trust.targets import Call, Part, Runner, Size, Target, target_of
from benchmarks.trust.targets import Record as Plain

NAME = "neighbours"
RUNS = 10


def plan_of(size: Size) -> Plan:
    """Return what is played in a size."""
    return QUICK if size.short else Plan()


def ran(plan: Plan, seed: int, learner: str) -> Plain:
    """Return what the network earned under one learner on one seed."""
    return asdict(run_one(plan, seed, learner))


def measure(size: Size, runner: Runner) -> list[Finding]:
    """Run the network under every learner on every seed."""
    return findings([Record(**record) for record in runner.records("neighbours", _calls(size))])


def targets(found: Sequence[Finding], size: Size) -> list[Target]:
    """Hold the network's share of satisfied sessions against that of stations which count their own alone."""
    common: dict[str, Any] = {"sense": "at least", "runs": len(_seeds(size)), "size": size, "least_runs": RUNS}
    return [
        target_of(
            NAME,
            f"{one.learner}: network's share of satisfied sessions beyond counting one's own cell",
            one.gain,
            aim=0.0 if "neighbours" in one.learner and one.learner.startswith("cell") else None,
            style="+.3f",
            note=f"share {one.share:.3f}; below the floor: {one.below.value:.0%} of sectors",
            **common,
        )
        for one in found
    ]


def _seeds(size: Size) -> range:
    return size.seeds(usual=RUNS)


def _calls(size: Size) -> list[Call]:
    plan = plan_of(size)
    return [
        Call(ran, {"plan": plan, "seed": seed, "learner": learner}, effort=0.2 if size.short else 11.0)
        for seed in _seeds(size)
        for learner in plan.learners
    ]


PART = Part(
    NAME,
    "counting neighbours' rewards, the network gains over stations that count their own",
    effort=lambda size: sum(call.effort for call in _calls(size)),
    measure=measure,
    targets=targets,
)
