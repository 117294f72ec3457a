"""Newcomers: the first decisions of a station that joins must cost half of what they cost it alone."""

from dataclasses import asdict
from typing import Any

from benchmarks.studies.newcomers import AVERAGE, DESCRIBED, KNOWN, Draw, Finding, Plan, best_known, draw, finding
from benchmarks.trust.targets import Call, Part, Record, Runner, Size, Target, target_of

NAME = "newcomers"
SAVED = 0.5
"""Share of the regret of starting alone that a newcomer's first decisions must save."""


def plan_of(size: Size) -> Plan:
    """Return what is played in a size."""
    return Plan(stations=12, newcomers=3, rounds=2, similarity="embedding") if size.short else Plan()


def drawn(seed: int, plan: Plan) -> Record:
    """Return what was found on one seed."""
    return asdict(draw(seed, plan))


def bound(seed: int, plan: Plan) -> Record:
    """Return the regret of a newcomer that knows its best configuration beforehand."""
    return {"regret": best_known(seed, plan)}


def measure(size: Size, runner: Runner) -> Finding:
    """Let newcomers start in all ways on every seed."""
    draws = [Draw(**record) for record in runner.records("newcomers", _calls(size))]
    known = [record["regret"] for record in runner.records("newcomers: the bound", _bounds(size))]
    return finding(draws, known)


def targets(found: Finding, size: Size) -> list[Target]:
    """Hold what newcomers save against starting alone; that of the network's average stands beside it."""
    plan, runs = plan_of(size), len(_calls(size))
    first = f"saved in the first {plan.decisions} decisions"
    common: dict[str, Any] = {"sense": "at least", "runs": runs, "size": size}
    note = f"descriptors used in {found.trusted:.0%} of the draws"
    return [
        target_of(NAME, f"described: {first}", found.saved[DESCRIBED], aim=SAVED, note=note, **common),
        target_of(NAME, f"on average: {first}", found.saved[AVERAGE], aim=None, **common),
        *(
            target_of(NAME, f"best configuration known beforehand: {first}", found.saved[name], aim=None, **common)
            for name in found.saved
            if name == KNOWN
        ),
    ]


def _calls(size: Size) -> list[Call]:
    plan = plan_of(size)
    effort = 2.0 if size.short else 100.0
    return [Call(drawn, {"seed": seed, "plan": plan}, effort=effort) for seed in size.seeds(usual=20)]


def _bounds(size: Size) -> list[Call]:
    plan = plan_of(size)
    return [Call(bound, {"seed": seed, "plan": plan}, effort=2.0) for seed in size.seeds(usual=20)]


PART = Part(
    NAME,
    "a station that joins pays half of the regret in its first 20 decisions that it pays alone",
    effort=lambda size: sum(call.effort for call in (*_calls(size), *_bounds(size))),
    measure=measure,
    targets=targets,
)
