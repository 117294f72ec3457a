"""Speed: what is on by default must not slow a decision by more than half."""

from typing import Any

import numpy as np

from benchmarks.metrics import ratio_of
from benchmarks.studies.speed import seconds
from benchmarks.trust.targets import Call, Part, Runner, Size, Target, target_of
from kinband.stats import Estimate

NAME = "speed"
SLOWER = 1.5
RUNS = 3

_WORDS = {"default": "by default", "declared": "by default, with a declared configuration"}


def measure(size: Size, runner: Runner) -> dict[str, Estimate]:
    """Time decisions by default and to the letter of the paper, in turns."""
    records = runner.records("speed", _calls(size))
    spent = {name: np.array([record[name] for record in records]) for name in (*_WORDS, "paper")}
    return {name: ratio_of(spent[name], spent["paper"]) for name in _WORDS}


def targets(found: dict[str, Estimate], size: Size) -> list[Target]:
    """Hold the ratios against what is promised."""
    common: dict[str, Any] = {"sense": "at most", "runs": len(_calls(size)), "size": size, "least_runs": RUNS}
    return [
        target_of(
            NAME,
            f"time of a decision {_WORDS[name]}, over that of paper=True",
            ratio,
            aim=SLOWER,
            style=".2f",
            **common,
        )
        for name, ratio in found.items()
    ]


def _calls(size: Size) -> list[Call]:
    plan: dict[str, Any] = {"decisions": 20, "stations": 6} if size.short else {"decisions": 2500}
    effort = 1.0 if size.short else 60.0
    return [Call(seconds, plan | {"seed": seed}, effort=effort) for seed in size.seeds(usual=RUNS)]


PART = Part(
    NAME,
    "what is on by default slows a decision by half at most",
    effort=lambda size: sum(call.effort for call in _calls(size)),
    measure=measure,
    targets=targets,
)
