"""Safety: promises must not be broken more often than stated; what keeping them costs stands beside it.

The stated rates are those of the rules with a δ: of a budget the share of runs in which it was ever overdrawn, in the
rewards that came and in what was expected of them; of a floor the share of decisions below it. In how many runs any
decision was below is reported without an aim, and so are the policy's own bounds, which come without a rate: who takes
the default should know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.studies.safety import DELTA, PLAIN, PROBLEMS, Finding, Tally, findings, tallies
from benchmarks.trust.targets import Call, Part, Record, Runner, Size, Target, target_of
from kinband.stats import Estimate

NAME = "safety"
RUNS = 50
_BUDGET, _FLOOR = "budget", "floor"
_STATED = (f"{_BUDGET}, δ = {DELTA}", f"{_FLOOR}, δ = {DELTA}")
_AMONG = (PLAIN, _STATED[0], _BUDGET, _STATED[1], _FLOOR)
_SECTORS = 6
_SLOTS = {"synthetic": 200, "city": 150}  # budgets are broken early if at all; longer runs only dilute the price
_SECONDS = {"synthetic": 0.28, "city": 0.24}  # a slot of a full run, all learners


def tallied(problem: str, seed: int, *, slots: int, stations: int, among: Sequence[str]) -> Record:
    """Return what was counted of learners on one seed, by the names of their rules."""
    counted = tallies(problem, seed, slots=slots, stations=stations, among=among)
    return {name: asdict(tally) for name, tally in counted.items()}


def measure(size: Size, runner: Runner) -> dict[str, list[Finding]]:
    """Play both problems and return what was found, by problem."""
    found = {}
    for problem in PROBLEMS:
        records = runner.records(f"safety: {problem}", _calls(problem, size))
        found[problem] = findings([{name: Tally(**one) for name, one in record.items()} for record in records])
    return found


def targets(results: Mapping[str, list[Finding]], size: Size) -> list[Target]:
    """Hold the rates at which promises were broken against those stated."""
    runs = len(size.seeds(usual=RUNS))
    return [target for problem, found in results.items() for target in _of(problem, found, runs, size)]


def _of(problem: str, found: list[Finding], runs: int, size: Size) -> list[Target]:
    by_rules = {one.rules: one for one in found}
    common: dict[str, Any] = {"sense": "at most", "runs": runs, "size": size, "least_runs": RUNS}
    lines = []
    for name in _AMONG[1:]:
        one, stated = by_rules[name], DELTA if name in _STATED else None
        note = "the policy's own bounds, no rate stated" if stated is None else f"{_slots(problem, size):,} slots"
        for words, rate, aim in _rates(name, one, stated):
            target = f"{problem}, {name}: {words}"
            lines.append(target_of(NAME, target, rate, aim=aim, judge="value", note=note, **common))
        lines.append(target_of(NAME, f"{problem}, {name}: regret paid", one.paid, aim=None, style="+.1%", **common))
    return lines


def _rates(name: str, one: Finding, stated: float | None) -> list[tuple[str, Estimate, float | None]]:
    """Return how often a promise was broken, in words, and the rate that each was to keep."""
    if name.startswith(_BUDGET):
        expected = ("runs overdrawn in expectation", one.broken, stated)
        return [("runs overdrawn in rewards", one.broken_in_rewards, stated), expected]
    return [("decisions below it", one.below, stated), ("runs ever below it", one.fallen, stated)]


def _slots(problem: str, size: Size) -> int:
    return 20 if size.short else _SLOTS[problem]


def _calls(problem: str, size: Size) -> list[Call]:
    slots = _slots(problem, size)
    plan = {"problem": problem, "slots": slots, "stations": _SECTORS, "among": _AMONG}
    effort = slots * _SECONDS[problem]
    return [Call(tallied, plan | {"seed": seed}, effort=effort) for seed in size.seeds(usual=RUNS)]


PART = Part(
    NAME,
    "promises of safe trials are broken no more often than stated",
    effort=lambda size: sum(call.effort for problem in PROBLEMS for call in _calls(problem, size)),
    measure=measure,
    targets=targets,
)
