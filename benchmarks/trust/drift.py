"""Drift: back within half the time of a restart after a step, and next to no price where nothing changes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.studies.drift import PROBLEMS, RESETS, SCENARIOS, Finding, Plan, Record, findings
from benchmarks.studies.drift import measure as played
from benchmarks.trust.targets import Call, Part, Runner, Size, Target, target_of
from benchmarks.trust.targets import Record as Plain
from kinband.environments.drifting import How

NAME = "drift"
OF_RESTART, NO_DRIFT = 0.5, 1.05
RUNS = 40  # how long it takes until regret is back is counted in slots, few and coarse: 20 runs leave it open
_TOLD, _BARE = "keeps kernel, noise and similarity", "keeps nothing"
_SECONDS = {"step": 22.0, "slow": 12.0, "none": 12.0}


def plan_of(size: Size) -> Plan:
    """Return what is played in a size."""
    return Plan(stations=4, before=6, after=6, window=2) if size.short else Plan()


def drawn(problem: str, scenario: How, seed: int, plan: Plan) -> Plain:
    """Return what every learner paid in one scenario on one seed."""
    records = played([seed], plan, problems=[problem], scenarios=[scenario])
    return {"records": [{**vars(r), "regret": r.regret.tolist(), "resets": list(r.resets)} for r in records]}


def measure(size: Size, runner: Runner) -> list[Finding]:
    """Play all scenarios and return what was found."""
    found = runner.records("drift", _calls(size))
    records = [_record(values) for one in found for values in one["records"]]
    return findings(records, plan_of(size))


def targets(found: Sequence[Finding], size: Size) -> list[Target]:
    """Hold the time until regret is back against a restart's, and the price of watching against none."""
    common: dict[str, Any] = {"sense": "at most", "runs": len(size.seeds(usual=RUNS)), "size": size}
    lines = []
    for one in found:
        if one.learner != RESETS:
            continue
        name = f"{one.problem}, {one.sharing}"
        if one.back is not None:
            note = f"{one.back.value:.0f} decisions"
            for restart, share in ((_TOLD, one.of_restart), (_BARE, one.of_nothing)):
                words = f"{name}: decisions until back after a step, as a share of a restart's that {restart}"
                if share is not None:
                    lines.append(target_of(NAME, words, share, aim=OF_RESTART, style=".2f", note=note, **common))
        if one.scenario in ("none", "slow"):
            aim = NO_DRIFT if one.scenario == "none" else None
            words = f"{name}: regret with {'no' if aim else 'slow'} drift over that without the feature"
            note = f"{one.resets:.1f} resets a run"
            lines.append(target_of(NAME, words, one.of_plain, aim=aim, style=".3f", note=note, **common))
    return lines


def _record(values: Plain) -> Record:
    regret, resets = np.array(values["regret"]), (values["resets"][0], values["resets"][1])
    return Record(**{**values, "regret": regret, "resets": resets})


def _calls(size: Size) -> list[Call]:
    plan = plan_of(size)
    return [
        Call(drawn, {"problem": problem, "scenario": how, "seed": seed, "plan": plan}, effort=_SECONDS[how])
        for problem in PROBLEMS
        for how in SCENARIOS
        for seed in size.seeds(usual=RUNS)
    ]


PART = Part(
    NAME,
    "after a step regret is back in half the decisions of a restart; without drift the watch costs at most 5 %",
    effort=lambda size: sum(call.effort for call in _calls(size)) * (0.02 if size.short else 1.0),
    measure=measure,
    targets=targets,
)
