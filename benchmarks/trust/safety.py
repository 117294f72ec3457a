"""Safety: promises must not be broken more often than stated; what keeping them costs stands beside it.

The stated rates are those of the rules with a δ: of a budget the share of runs in which it was ever overdrawn, in the
rewards that came and in what was expected of them; of a floor the share of decisions below it, and of a KPI's floor
that of decisions said to keep it. Beside each stands the same rule as the model alone would have it. What share of
changes fell below a floor, and in how many runs any did, is reported without an aim: the rate says nothing of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.studies.safety import (
    BUDGET,
    DELTA,
    FLOOR,
    KPI_FLOOR,
    MODELS_BUDGET,
    MODELS_FLOOR,
    PLAIN,
    Finding,
    KpiFinding,
    KpiTally,
    Tally,
    findings,
    kpi_findings,
    kpi_tallies,
    tallies,
)
from benchmarks.trust.targets import Call, Part, Record, Runner, Size, Target, target_of
from kinband.stats import Estimate

NAME = "safety"
RUNS = 50
_AMONG = (PLAIN, BUDGET, MODELS_BUDGET, FLOOR, MODELS_FLOOR)
_SECTORS = 6
_SLOTS = {"synthetic": 40, "smooth": 30, "measured: gcc": 20, "live": 15, "city": 30}
"""Budgets are broken early if at all, and so are floors; longer runs only dilute the price."""
_SECONDS = {"synthetic": 0.06, "smooth": 0.12, "measured: gcc": 0.2, "live": 0.5, "city": 0.1}
"""A slot of a full run, all learners."""
_KPI_PROBLEM, _KPI_SECONDS = "smooth", 0.1


def tallied(problem: str, seed: int, *, slots: int, stations: int, among: Sequence[str]) -> Record:
    """Return what was counted of learners on one seed, by the names of their rules."""
    counted = tallies(problem, seed, slots=slots, stations=stations, among=among)
    return {name: asdict(tally) for name, tally in counted.items()}


def kpis_tallied(seed: int, *, slots: int, stations: int) -> Record:
    """Return what was counted of floors of a KPI on one seed."""
    return {name: asdict(tally) for name, tally in kpi_tallies(seed, slots=slots, stations=stations).items()}


def measure(size: Size, runner: Runner) -> dict[str, Any]:
    """Play all problems and return what was found, by problem, and of floors of a KPI."""
    found: dict[str, Any] = {}
    for problem in _SLOTS:
        records = runner.records(f"safety: {problem}", _calls(problem, size))
        found[problem] = findings([{name: Tally(**one) for name, one in record.items()} for record in records])
    records = runner.records("safety: KPI floors", _kpi_calls(size))
    kpis = kpi_findings([{name: KpiTally(**one) for name, one in record.items()} for record in records])
    return {**found, KPI_FLOOR: kpis}


def targets(results: Mapping[str, Any], size: Size) -> list[Target]:
    """Hold the rates at which promises were broken against those stated."""
    lines = [target for problem, one in results.items() if problem != KPI_FLOOR for target in _of(problem, one, size)]
    return [*lines, *(target for one in results.get(KPI_FLOOR, ()) for target in _of_kpi(one, size))]


def _common(size: Size) -> dict[str, Any]:
    runs = len(size.seeds(usual=RUNS))
    return {"sense": "at most", "runs": runs, "size": size, "least_runs": RUNS}


def _of(problem: str, found: list[Finding], size: Size) -> list[Target]:
    by_rules, lines = {one.rules: one for one in found}, list[Target]()
    for name in _AMONG[1:]:
        one, stated = by_rules[name], DELTA if name in (BUDGET, FLOOR) else None
        note = "uncalibrated" if stated is None else f"{_slots(problem, size):,} slots"
        for words, rate, aim in _rates(name, one, stated):
            target = f"{problem}, {name}: {words}"
            lines.append(target_of(NAME, target, rate, aim=aim, judge="value", note=note, **_common(size)))
        paid = f"{problem}, {name}: regret paid"
        lines.append(target_of(NAME, paid, one.paid, aim=None, style="+.1%", **_common(size)))
    return lines


def _rates(name: str, one: Finding, stated: float | None) -> list[tuple[str, Estimate, float | None]]:
    """Return how often a promise was broken, in words, and the rate that each was to keep."""
    if name in (BUDGET, MODELS_BUDGET):
        expected = ("runs overdrawn in expectation", one.broken, stated)
        return [("runs overdrawn in rewards", one.broken_in_rewards, stated), expected]
    of_changes = ("changes below it", one.of_moves, None)
    return [("decisions below it", one.below, stated), of_changes, ("runs ever below it", one.fallen, None)]


def _of_kpi(one: KpiFinding, size: Size) -> list[Target]:
    aim = DELTA if one.rules == KPI_FLOOR else None
    note = f"said of {one.noted:.0%} of decisions; mean reward {one.reward:.3f}"
    start = f"{_KPI_PROBLEM}, {one.rules}"
    said = f"{start}: decisions said to keep it that do not"
    return [
        target_of(NAME, said, one.broken, aim=aim, judge="value", note=note, **_common(size)),
        target_of(NAME, f"{start}: runs with any", one.fallen, aim=None, **_common(size)),
    ]


def _slots(problem: str, size: Size) -> int:
    return 5 if size.short else _SLOTS[problem]


def _calls(problem: str, size: Size) -> list[Call]:
    slots = _slots(problem, size)
    plan = {"problem": problem, "slots": slots, "stations": _SECTORS, "among": _AMONG}
    effort = slots * _SECONDS[problem]
    return [Call(tallied, plan | {"seed": seed}, effort=effort) for seed in size.seeds(usual=RUNS)]


def _kpi_calls(size: Size) -> list[Call]:
    slots = _slots(_KPI_PROBLEM, size)
    plan = {"slots": slots, "stations": _SECTORS}
    return [Call(kpis_tallied, plan | {"seed": seed}, effort=slots * _KPI_SECONDS) for seed in size.seeds(usual=RUNS)]


def _effort(size: Size) -> float:
    calls = [call for problem in _SLOTS for call in _calls(problem, size)]
    return sum(call.effort for call in [*calls, *_kpi_calls(size)])


PART = Part(
    NAME,
    "promises of safe trials are broken no more often than stated",
    effort=_effort,
    measure=measure,
    targets=targets,
)
