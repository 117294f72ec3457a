"""The studies, and the count of intervals that hold the truth: what they compare, keep, print and refuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import coverage
from benchmarks.studies import neighbours, newcomers, safety, safety_cases
from benchmarks.studies.newcomers import Plan

from kinband.environments.radio import RadioEnvironment
from kinband.errors import BadInputError
from kinband.policies import Conservative


def test_the_study_of_newcomers_compares_three_starts_in_pairs() -> None:
    found = newcomers.measure([3], Plan(stations=9, newcomers=2, rounds=1, decisions=3, similarity="embedding"))
    assert list(found.regret) == ["described", "on average", "alone"]
    assert all(value.value >= 0 for value in found.regret.values())
    alone, average = found.regret["alone"].value, found.regret["on average"].value
    assert found.saved["on average"].value == pytest.approx(1 - average / alone)


def test_the_study_of_newcomers_says_whether_descriptors_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(stations=9, newcomers=2, rounds=1, decisions=2, similarity="embedding")
    monkeypatch.setattr(newcomers, "_explained", lambda _: -0.3)  # seven stations are too few to judge by that
    assert newcomers.draw(3, plan).used
    monkeypatch.setattr(newcomers, "described", lambda city: {name: {} for name in city.names})
    assert not newcomers.draw(3, plan).used


def test_the_study_refuses_more_newcomers_than_it_can_have() -> None:
    with pytest.raises(BadInputError, match="of 6 stations 1 to 4 can join later, got 5"):
        newcomers.measure([1], Plan(stations=6, newcomers=5))


def test_what_a_slot_earned_is_still_known_at_the_turn_of_a_day() -> None:
    environment = RadioEnvironment(3, period_s=600, hours=(18.0, 18.34), seed=4)  # two slots a day
    for _ in range(2):
        outcome = environment.play(dict.fromkeys(environment.stations, 7))
        assert environment.earned.good_share.tolist() == [outcome[name].reward for name in environment.stations]
    assert environment.earned is not environment.report
    columns = neighbours.columns_of(environment.earned)
    assert np.array_equal(columns["sector_share"], environment.earned.good_share)
    assert np.allclose(columns["sector_share_noise"], environment.earned.noise)


def test_the_study_of_neighbours_gives_a_record_per_learner_and_seed_and_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    records = neighbours.measure([101], neighbours.QUICK, folder=tmp_path, tick=said.append)
    assert [record.learner for record in records] == list(neighbours.QUICK.learners)
    assert len(said) == len(records) == len(list(tmp_path.iterdir()))
    assert neighbours.measure([101], neighbours.QUICK, folder=tmp_path) == records
    assert all(0 <= record.share <= 1 for record in records)
    assert "| sector |" in neighbours.table_of(neighbours.findings(records))
    neighbours.main(["--runs", "1", "--first-seed", "101", "--quick", "--keep", str(tmp_path), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert [found["share"]["value"] for found in printed] == [record.share for record in records]


def test_a_budget_is_overdrawn_by_its_deepest_moment() -> None:
    ours, today = np.array([[1.0, 0.0], [0.2, 2.0]]), np.ones((2, 2))
    assert safety.overdrawn(ours, today, least=0.0, alpha=0.2) == pytest.approx(
        1.2
    )  # 1 + 0 + 0.2 − 3·0.8, before the last
    assert safety.overdrawn(ours, today, least=-1.0, alpha=1.0) == 0.0


@pytest.mark.parametrize("problem", ["synthetic", "city"])
def test_learners_meet_the_same_slots_and_differ_in_their_rules_alone(problem: str) -> None:
    case = safety_cases.case_of(problem, seed=3, beta=0.7, stations=2)
    plain, budget = (safety.watch(case, rules, slots=3, seed=3) for rules in (None, Conservative(0.0, least=-9.0)))
    assert plain.today == budget.today == case.today
    for name in ("best", "today_expected", "today_rewards"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(budget, name))
    np.testing.assert_array_equal(
        plain.expected[plain.arms == case.today], plain.today_expected[plain.arms == case.today]
    )
    assert (plain.best >= plain.expected).all()


def test_the_simulator_says_what_would_have_been_by_playing_the_slot_once_more() -> None:
    case = safety_cases.case_of("live", seed=3, beta=0.7, stations=3)
    world, today = case.environment, dict.fromkeys(case.environment.stations, case.today)
    moved = dict.fromkeys(today, 2)
    for before in (today, moved):
        now = world.slot
        judged = case.play(moved, before)
        assert world.slot.number == now.number + 1
        for one in judged.values():
            assert one.reward == one.outcome.reward == one.expected
            assert (one.before_expected == one.today_expected) or before is moved
            assert (one.before_expected == one.expected) or before is today
    world.reset(3)
    same = case.play(today, today)
    assert all(one.expected == one.today_expected == one.before_expected for one in same.values())


def test_a_floor_of_a_kpi_is_judged_where_it_was_said_to_be_kept() -> None:
    tallies = safety.kpi_tallies(3, slots=3, stations=2)
    assert list(tallies) == [safety.KPI_FLOOR, safety.MODELS_KPI_FLOOR]
    assert all(0 <= tally.broken <= tally.noted <= tally.decisions == 6 for tally in tallies.values())
    one, other = (safety.KpiTally(noted, broken, 10, 4.0) for noted, broken in ((8, 2), (2, 0)))
    [found] = safety.kpi_findings([{"floor": one}, {"floor": other}])
    assert (found.broken.value, found.fallen.value, found.noted, found.reward.value) == (0.2, 0.5, 0.5, 0.4)


def test_changes_that_fall_are_counted_among_changes() -> None:
    arms, expected, before = (
        np.array([[1], [1], [2], [2]]),
        np.full((4, 1), 0.5),
        np.array([[0.5], [0.5], [0.9], [0.5]]),
    )
    nothing = np.zeros((4, 1))
    played = safety.Played(1, arms, expected, nothing, expected, nothing, nothing, before)
    tally = safety.tally_of(played, least=0.0, drop=0.1)
    assert (tally.below, tally.changes) == (0.25, 0.25)
    [found] = safety.findings([{safety.PLAIN: replace(tally, regret=1.0)}] * 2)
    assert found.of_moves.value == 1.0


def test_the_measurement_writes_a_table_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    safety.main(["--seeds", "1", "--slots", "2", "--problem", "synthetic"])
    table = capsys.readouterr().out.splitlines()
    rules = list(safety.rules_of("synthetic", least=0.0))
    assert [line.split("|")[1].strip() for line in table[4:]] == rules
    safety.main(["--seeds", "1", "--slots", "2", "--problem", "synthetic", "--json"])
    found = json.loads(capsys.readouterr().out)["synthetic"]
    assert [row["rules"] for row in found] == rules
    assert found[0]["paid"]["value"] == 0.0
    with pytest.raises(BadInputError, match="unknown problem"):
        safety.measure("country", seeds=[1], slots=1)


def test_the_count_says_how_to_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        coverage.main(["--help"])
    assert left.value.code == 0
    assert "repeats" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        coverage.main(["many"])
    assert left.value.code == 2
    assert "must be a whole number of at least 1, got 'many'" in capsys.readouterr().err


def test_the_count_prints_a_line_for_every_world_policy_and_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def count(*_: Any, **given: Any) -> coverage.Count:
        asked.append(given)
        return coverage.Count(7, 6, 0.02, 0.01)

    monkeypatch.setattr(coverage, "count", count)
    monkeypatch.setattr(coverage, "trace_world", coverage.synthetic_world)
    coverage.main(["7"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert [given["repeats"] for given in asked] == [7] * 8
    assert all("6 of 7 intervals hold the truth" in line for line in lines)
