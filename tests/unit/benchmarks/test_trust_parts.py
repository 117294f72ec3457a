"""Every part of `python -m benchmarks.trust`, on hand-made results and on sizes of seconds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage import Count
from benchmarks.studies import rounds
from benchmarks.studies.newcomers import ALONE, AVERAGE, DESCRIBED, Draw
from benchmarks.studies.newcomers import finding as newcomers_finding
from benchmarks.studies.safety import Tally, findings
from benchmarks.trust import PARTS, Runner, Size, evaluation, newcomers, safety
from benchmarks.trust import rounds as trust_rounds

from kinband.experiments.runner import Case, Curve, Learner, controller_for, model_of

TINY = Size(runs=1, short=True)


def case(**given: Any) -> Case:
    learner = Learner("a", "pooled", **given)
    return Case("synthetic", learner, 3, 1, log_rows=4)


def test_what_a_learner_does_otherwise_has_another_key() -> None:
    assert case().key == case(rounds="plain").key != case(rounds="aware").key


@pytest.mark.parametrize(("given", "has"), [({}, {"rounds": "plain"}), ({"rounds": "aware"}, {"rounds": "aware"})])
def test_options_of_a_learner_reach_its_policy(given: dict[str, Any], has: dict[str, Any]) -> None:
    one = case(**given)
    problem = one.make_problem()
    policy = controller_for(problem, model_of(one, problem.log), one).policy
    assert {name: getattr(policy, name) for name in has} == has


def synthetic_plan(**given: Any) -> rounds.Plan:
    """The comparison on the small synthetic bandit."""
    small: dict[str, Any] = {
        "problem": "synthetic",
        "log_rows": 6,
        "betas": (0.4, 1.3),
        "baseline_betas": (),
        "spread_slots": 2,
    }
    plan = rounds.Plan(**({"seeds": (1, 2), "similarity": "pooled"} | given))
    return replace(plan, turns=replace(plan.turns, slots=15, **small), rounds=replace(plan.rounds, slots=3, **small))


def test_seeds_that_choose_weights_are_never_those_that_count() -> None:
    for seeds in (range(1, 21), range(100, 120), range(90, 200)):
        tuned = rounds.tuning_cases(synthetic_plan(seeds=seeds))
        assert len({one.seed for one in tuned}) == 3
        assert not {one.seed for one in tuned} & set(seeds)


def test_both_modes_have_the_learners_they_should_at_every_weight() -> None:
    played = [(one.mode, one.learner.name, one.learner.beta) for one in rounds.tuning_cases(synthetic_plan())]
    in_turns = {(name, beta) for mode, name, beta in played if mode == "sequential"}
    in_rounds = {(name, beta) for mode, name, beta in played if mode == "parallel"}
    assert in_turns == {(name, beta) for name in ("independent", "plain") for beta in (0.4, 1.3)}
    assert in_rounds == in_turns | {(name, beta) for name in ("aware", "thompson") for beta in (0.4, 1.3)}
    assert len(played) == 3 * (len(in_turns) + len(in_rounds))


def curve(one: Case, regret: float) -> Curve:
    values = np.array([regret])
    return Curve(one, np.array([one.slots]), values, values, values, 0.0)


def test_every_learner_counts_with_the_weight_that_was_best_for_it_in_its_mode() -> None:
    plan = synthetic_plan()
    best = {("sequential", "plain"): 1.3, ("parallel", "aware"): 1.3}

    def regret(one: Case) -> float:
        return 1.0 if one.learner.beta == best.get((one.mode, one.learner.name), 0.4) else 2.0

    tuned = [curve(one, regret(one)) for one in rounds.tuning_cases(plan)]
    counted = rounds.counted_cases(plan, tuned)
    assert len(counted) == len(plan.seeds) * 6
    assert {one.learner.beta for one in counted if (one.mode, one.learner.name) in best} == {1.3}
    assert {one.learner.beta for one in counted if (one.mode, one.learner.name) not in best} == {0.4}
    assert {one.seed for one in counted} == set(plan.seeds)
    assert len(rounds.cases_about(plan)) == len(tuned) + len(counted)


def test_gaps_are_the_differences_of_savings_each_against_its_own_mode() -> None:
    plan = synthetic_plan(seeds=range(1, 21))
    regrets = {"sequential": {"independent": 50.0, "plain": 30.0}}
    regrets["parallel"] = {"independent": 40.0, "plain": 28.0, "aware": 24.5, "thompson": 26.0}
    tuned = [curve(one, 1.0) for one in rounds.tuning_cases(plan)]
    curves = [curve(one, one.seed * regrets[one.mode][one.learner.name]) for one in rounds.counted_cases(plan, tuned)]
    found = rounds.finding(curves, tuned)
    assert found.turns.value == pytest.approx(0.4)
    assert {name: round(gap.value, 9) for name, gap in found.gap.items()} == {
        "plain": round(0.3 - 0.4, 9),
        "aware": round(0.3875 - 0.4, 9),
        "thompson": round(0.35 - 0.4, 9),
    }
    lines = trust_rounds.targets(found, Size())
    assert [line.met for line in lines] == [None, False, True, False]
    assert [line.runs for line in lines] == [20] * 4


def test_rounds_run_from_weights_to_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_rounds, "plan_of", lambda size: synthetic_plan(seeds=size.seeds(usual=20)))
    said: list[str] = []
    size = Size(runs=2, seed=7)
    runner = Runner(tmp_path, workers=1, tick=lambda what, _: said.append(what))
    first = trust_rounds.targets(trust_rounds.measure(size, runner), size)
    assert len(said) == len(rounds.cases_about(synthetic_plan()))
    assert all(np.isfinite([line.value, line.low, line.high]).all() for line in first)
    files = {file: file.stat().st_mtime_ns for file in runner.folder.rglob("*.parquet")}
    assert trust_rounds.targets(trust_rounds.measure(size, runner), size) == first
    assert {file: file.stat().st_mtime_ns for file in runner.folder.rglob("*.parquet")} == files


def test_aware_rounds_play_differently_from_plain_ones(tmp_path: Path) -> None:
    plan = synthetic_plan(seeds=(1, 2, 3))
    tuned = [curve(one, 1.0) for one in rounds.tuning_cases(plan)]
    cases = [replace(one, slots=20) for one in rounds.counted_cases(plan, tuned) if one.mode == "parallel"]
    curves = Runner(tmp_path, workers=1).cases("rounds", cases)
    by_name = {name: [c.realised[-1] for c in curves if c.case.learner.name == name] for name in rounds.LEARNERS}
    assert by_name["plain"] != by_name["aware"]


def tally(regret: float, **given: float) -> Tally:
    nothing = dict.fromkeys(("depth", "depth_in_rewards", "below", "trials", "changes"), 0.0)
    return Tally(**(nothing | given), regret=regret)


def test_safety_counts_runs_that_broke_a_promise_at_all() -> None:
    names = ("no rules", "budget, δ = 0.05", "budget, the model's word", "floor, δ = 0.05", "floor, the model's word")
    runs = [{name: tally(2.0 if name == "no rules" else 3.0) for name in names} for _ in range(50)]
    for i in range(2):
        runs[i]["budget, δ = 0.05"] = tally(3.0, depth=0.2, depth_in_rewards=0.1)
    runs[2]["budget, δ = 0.05"] = tally(3.0, depth_in_rewards=0.1)
    for i in range(3):
        runs[i]["floor, δ = 0.05"] = tally(3.0, below=1 / 5000, changes=1 / 1000)
    lines = {line.name: line for line in safety.targets({"city": findings(runs)}, Size())}
    overdrawn = [lines[f"city, budget, δ = 0.05: runs overdrawn in {what}"] for what in ("expectation", "rewards")]
    assert [line.value for line in overdrawn] == pytest.approx([0.04, 0.06])
    assert [line.met for line in overdrawn] == [True, False]
    said = ("runs ever below it", "decisions below it", "changes below it")
    ever, below, changes = (lines[f"city, floor, δ = 0.05: {what}"] for what in said)
    assert [ever.value, below.value, changes.value] == pytest.approx([0.06, 3 / 50 / 5000, 0.2])
    assert [ever.met, below.met, changes.met] == [None, True, None]
    assert lines["city, budget, the model's word: runs overdrawn in rewards"].met is None
    paid = lines["city, budget, δ = 0.05: regret paid"]
    assert (paid.value, paid.low, paid.high) == pytest.approx((0.5, 0.5, 0.5))


def test_newcomers_are_held_against_half_by_the_lower_limit() -> None:
    def lines(described: list[float]) -> dict[str, Any]:
        draws = [Draw({DESCRIBED: d, AVERAGE: 0.7, ALONE: 1.0}, explained=0.1, used=True) for d in described]
        return {line.name: line for line in newcomers.targets(newcomers_finding(draws), Size())}

    sure, unsure = lines([0.45] * 20), lines([0.1, 0.85] * 10)
    name = "described: saved in the first 20 decisions"
    assert (sure[name].value, sure[name].met) == (pytest.approx(0.55), True)
    assert (unsure[name].value, unsure[name].met) == (pytest.approx(0.525), False)
    assert sure["on average: saved in the first 20 decisions"].value == pytest.approx(0.3)


def test_evaluation_is_held_against_ninety_of_a_hundred() -> None:
    found = [Count(100, covered, 0.1, 0.05) for covered in (90, 89, 100, 95, 96, 97, 98, 99)]
    lines = evaluation.targets(found, Size())
    assert [line.met for line in lines] == [True, False] + [True] * 6
    assert len({line.name for line in lines}) == 8


@pytest.mark.parametrize("name", ["safety", "newcomers", "evaluation"])
def test_a_short_run_of_a_part_gives_the_lines_of_a_full_one(name: str, tmp_path: Path) -> None:
    done: list[float] = []
    runner = Runner(tmp_path, workers=1, tick=lambda _, effort: done.append(effort))
    part = PARTS[name]
    lines = part.targets(part.measure(TINY, runner), TINY)
    assert sum(done) == pytest.approx(part.effort(TINY))
    assert lines
    assert {line.part for line in lines} == {name}
    assert all(line.short and line.met is None and np.isfinite(line.value) for line in lines)
    assert len({line.name for line in lines}) == len(lines)


@pytest.mark.parametrize("name", list(PARTS))
def test_the_full_size_takes_longer_than_the_short_one(name: str) -> None:
    assert PARTS[name].effort(Size()) > 10 * PARTS[name].effort(Size(short=True)) > 0


def test_full_sizes_are_those_the_targets_state() -> None:
    plan = trust_rounds.plan_of(Size())
    assert (len(plan.seeds), plan.turns.slots, plan.rounds.slots) == (20, 4000, 38)
    assert (len(Size().seeds(usual=safety.RUNS)), newcomers.plan_of(Size()).decisions, evaluation.REPEATS) == (
        50,
        20,
        100,
    )
