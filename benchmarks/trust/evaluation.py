"""Evaluation: 95 % intervals of what a policy would have earned must hold the truth in nine of ten logs."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

from benchmarks.coverage import Count, World, count, synthetic_world, trace_world
from benchmarks.trust.targets import Call, Part, Record, Runner, Size, Target, target_of
from kinband.stats import share_of

NAME = "evaluation"
REPEATS, HELD = 100, 0.9
_WORLDS = {"synthetic": synthetic_world, "city": trace_world}
_KINDS = tuple(product(_WORLDS, ("rule", "recommend"), (True, False)))
_SECONDS = 0.2  # a log


def counted(world: str, policy: str, known: bool, *, repeats: int, seed: int) -> Record:
    """Return how often intervals held the truth in one world, for one policy."""
    made: World = _WORLDS[world]()
    return asdict(count(made, policy=policy, known=known, repeats=repeats, seed=seed))


def measure(size: Size, runner: Runner) -> list[Count]:
    """Count in every world, for every policy, with propensities known and estimated."""
    return [Count(**record) for record in runner.records("evaluation", _calls(size))]


def targets(found: Sequence[Count], size: Size) -> list[Target]:
    """Hold the shares of intervals that held the truth against nine of ten."""
    return [_target(kind, one, size) for kind, one in zip(_KINDS, found, strict=True)]


def _target(kind: tuple[str, str, bool], one: Count, size: Size) -> Target:
    world, policy, known = kind
    how = "known" if known else "estimated"
    return target_of(
        NAME, f"{world}, {policy}, propensities {how}: truth held",
        share_of(one.covered, one.repeats), aim=HELD, sense="at least", runs=one.repeats, size=size,
        least_runs=REPEATS, judge="value", note=f"half width {one.width:.3f}, error {one.error:.3f}", style=".0%",
    )  # fmt: skip


def _calls(size: Size) -> list[Call]:
    repeats = len(size.seeds(usual=REPEATS, short=5))
    return [
        Call(
            counted, {"world": world, "policy": policy, "known": known, "repeats": repeats, "seed": size.seed - 1},
            effort=repeats * _SECONDS,
        )
        for world, policy, known in _KINDS
    ]  # fmt: skip


PART = Part(
    NAME,
    "95 % intervals of what a policy would have earned hold the truth in at least 90 of 100 logs",
    effort=lambda size: sum(call.effort for call in _calls(size)),
    measure=measure,
    targets=targets,
)
