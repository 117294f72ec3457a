"""The judge of an evening's plan: truths that can be had in another way, files as described, scores done by hand."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.evening.__main__ import MARKS, main, page
from benchmarks.evening.logs import LOGS, Log, write
from benchmarks.evening.scoring import (
    Answer,
    Plan,
    command,
    nothing,
    oracle,
    pivot,
    read_plan,
    resident,
    run,
    score,
    worth,
)
from benchmarks.evening.worlds import HANDOVER, STATE, WEEK, Recipe, World, draw, scaled

SMALL = Recipe(stations=8, hours=48)
DONE = Answer(1.0, 0.1, "", {"rows_used": 384})


def drawn(recipe: Recipe = SMALL, seed: int = 3) -> World:
    return draw(recipe, np.random.default_rng(seed))


def test_the_truth_is_the_mean_over_the_hours_of_the_week_after_the_log() -> None:
    world = drawn(replace(SMALL, knobs=HANDOVER))
    U = scaled(HANDOVER)
    for m, arm in ((0, 0), (3, 7), (7, 19)):
        hourly = [
            world.level[m]
            + world.slope[m] * (load - 0.5)
            - sum(
                world.bend[m, k] * (U[arm, k] - world.peak[m, k] - world.shift[m, k] * (load - 0.5)) ** 2
                for k in (0, 1)
            )
            for load in world.load[m, -WEEK:]
        ]
        assert world.own[m, arm] == pytest.approx(np.mean(hourly))


def test_rewards_scatter_around_their_mean_by_the_noise() -> None:
    world = drawn(Recipe(stations=50, hours=96))
    rest = world.rewards - world.expected()
    assert rest.std() == pytest.approx(world.recipe.noise, abs=4 * world.recipe.noise / np.sqrt(2 * rest.size))


def test_shocks_last_a_day_and_are_larger_than_the_noise() -> None:
    world = drawn(Recipe(stations=30, hours=672, hold=24, day_shock=1.5))
    days = (world.rewards - world.expected()).reshape(30, 28, 24).mean(axis=(0, 2)) / world.recipe.noise
    assert 1.5 * 0.6 < days.std() < 1.5 * 1.4  # of 28 days: the standard error is 13 %
    alone = drawn(Recipe(stations=30, hours=672, hold=24, station_shock=1.5))
    own = (alone.rewards - alone.expected()).reshape(30, 28, 24).mean(axis=2) / alone.recipe.noise
    assert own.std() == pytest.approx(np.sqrt(1.5**2 + 1 / 24), rel=4 / np.sqrt(2 * 840))


def test_stations_try_as_few_settings_as_asked_for_and_end_with_the_usual_one() -> None:
    few = drawn(Recipe(stations=40, hours=96, hold=6, tried=(3, 6)))
    assert max(len(set(arms)) for arms in few.arms.tolist()) <= 6
    assert (few.arms.reshape(40, 16, 6) == few.arms[:, ::6, None]).all()
    one = drawn(Recipe(stations=40, hours=96, tried=(1, 1), habit=0.6))
    assert (one.arms == one.present[:, None]).all()
    assert len(set(one.present.tolist())) > 1
    assert np.corrcoef(scaled(one.recipe.knobs)[one.present, 0], one.peak[:, 0])[0, 1] > 0.3  # the habit


def test_the_best_of_an_instant_is_not_the_best_of_the_week() -> None:
    world = drawn(Recipe(stations=60, hours=96, begins=4))
    x = world.load[:, -WEEK] - 0.5
    instant = world._mean(scaled(world.recipe.knobs)[None], x[:, None], (x**2)[:, None]).argmax(axis=1)
    assert (instant != world.own.argmax(axis=1)).mean() > 0.5


def test_what_neighbours_lose_counts_as_if_every_station_were_summed() -> None:
    world = drawn(Recipe(stations=12, hours=48, spill=1.0))
    spill = -world.recipe.noise * scaled(world.recipe.knobs)[:, 0]

    def network(arms: np.ndarray) -> float:
        return float(sum(world.own[m, arms[m]] + spill[arms[world.links[m]]].sum() for m in range(12)))

    changed = world.present.copy()
    changed[[2, 5]] = (world.present[[2, 5]] + 4) % 9
    assert worth(world, changed).gained == pytest.approx(network(changed) - network(world.present))
    assert not drawn().links.size
    with pytest.raises(ValueError, match="neighbours"):
        world.first(3)


def test_a_leaking_column_is_nearly_the_reward_or_moved_by_the_knob() -> None:
    told = drawn(replace(SMALL, leak="reward")).frame()
    assert np.corrcoef(told["volume_gb"], told["rate_mbps"])[0, 1] > 0.99
    moved = drawn(replace(SMALL, leak="knob")).frame()
    assert np.corrcoef(moved["attempts"], moved["tilt"])[0, 1] > 0.9


def test_the_state_of_a_row_is_the_load_of_the_hour_before() -> None:
    world = drawn()
    frame, states = world.frame(), world.states()
    np.testing.assert_allclose(frame[STATE].to_numpy().reshape(8, 48), world.load[:, :48], atol=1e-4)
    np.testing.assert_allclose(states[STATE], world.load[:, 48], atol=1e-4)
    assert states["tilt"].tolist() == frame.groupby("cell")["tilt"].last().tolist()


def test_a_vendors_file_holds_the_same_numbers_in_its_own_way(tmp_path: Path) -> None:
    log = Log("v", Recipe(stations=30, hours=96), vendor=True)
    world = log.world(1)
    files = write(log, world, tmp_path)
    lines = files.log.read_bytes().decode("cp1252").splitlines()
    assert lines[0].startswith("Stundenbericht")
    assert lines.count(lines[1]) == 2  # 2,880 rows: the header comes again once
    assert any(";NIL;" in line for line in lines)
    assert any(line.endswith(";/0") for line in lines)
    rows = [line.split(";") for line in lines[2:] if line != lines[1] and not line.endswith("/0")]
    plain = world.frame()
    at = pd.to_datetime(plain["time"]).dt.strftime("%d.%m.%Y %H:%M")
    known = dict(zip(zip("Köln-Süd " + plain["cell"], at, strict=True), plain["rate_mbps"], strict=True))
    assert len(rows) > 2700
    assert all(float(row[4].replace(",", ".")) == pytest.approx(known[row[0], row[1]]) for row in rows)


def test_a_pivot_takes_means_of_three_rows_or_more() -> None:
    world = drawn(Recipe(stations=3, hours=8))
    arms = np.array([[0, 0, 0, 1, 1, 1, 2, 2], [5, 5, 5, 5, 5, 5, 5, 5], [4, 4, 4, 3, 3, 3, 3, 4]])
    rewards = np.array([[1.0, 1, 1, 2, 2, 2, 9, 9], [7.0] * 8, [1.0, 1, 1, 0, 0, 0, 0, 1]])
    made = replace(world, arms=arms, rewards=rewards)
    assert pivot(made).tolist() == [1, 2, 4]  # 9 rests on two rows; over stations it is the best mean all the same


def test_a_score_counts_gain_harm_and_intervals_by_the_truth() -> None:
    world = drawn()
    best, worst = oracle(world), world.own.argmin(axis=1)
    gain = world.own[0, best[0]] - world.own[0, world.present[0]]
    chosen = world.present.copy()
    chosen[:2] = best[0], worst[1]
    plan = Plan(chosen, np.array([0, 1]), chosen[:2], np.array([gain - 0.1, 0.1]), np.array([gain + 0.1, 0.2]))
    found = score("a", 1, world, plan=plan, answer=DONE)
    assert (found.kinband.changes, found.kinband.harmful) == (2, 1)
    assert (found.held, found.stated) == (1, 2)
    lost = world.own[1, worst[1]] - world.own[1, world.present[1]]
    assert found.kinband.gained == pytest.approx(gain + lost)
    first = score("a", 1, world.first(1), plan=plan, answer=DONE)
    assert (first.kinband.changes, first.kinband.harmful, first.stated) == (1, 0, 1)
    perfect = worth(world, best)
    assert perfect.harmful == 0
    assert all(perfect.gained >= worth(world, np.full(8, arm)).gained for arm in range(9))


def test_a_plan_is_read_from_its_files_and_gains_left_alone_from_the_answer(tmp_path: Path) -> None:
    log = Log("a", SMALL)
    world = log.world(1)
    files = write(log, world, tmp_path)
    (tmp_path / "plan.csv").write_text("station,set_tilt,gain_low,gain_high\nC00002,7,0.5,0.75\n", encoding="utf-8")
    left = [
        {"station": "C00001", "proposed": {"tilt": 3}, "low": -1.0, "high": 2.0},
        {"station": "C00003", "why": "best already"},
    ]
    plan = read_plan(world, files, tmp_path, {"left_alone": left})
    assert plan.chosen[1] == 7
    assert (np.delete(plan.chosen, 1) == np.delete(world.present, 1)).all()
    assert (plan.who.tolist(), plan.what.tolist()) == ([1, 0], [7, 3])
    assert (plan.low.tolist(), plan.high.tolist()) == ([0.5, -1.0], [0.75, 2.0])


def test_a_command_is_timed_weighed_and_its_failure_told(tmp_path: Path) -> None:
    hungry = "import json, time; held = bytearray(300_000_000); time.sleep(0.5); print(json.dumps({'rows_used': 5}))"
    fed = run([sys.executable, "-c", hungry], tmp_path, limit=60)
    assert fed.worked > 0
    assert fed.said == {"rows_used": 5}
    assert fed.seconds > 0.5
    assert 0.3 < fed.gigabytes < 0.6
    failed = run([sys.executable, "-c", "import sys; sys.exit('no such column')"], tmp_path, limit=60)
    assert failed.failed == "exit code 1: no such column"
    slow = run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, limit=0.2)
    assert "stopped" in slow.failed
    assert resident(2**22 + 1) == 0.0  # no such process


def test_the_table_says_what_was_counted_and_which_logs_got_no_plan() -> None:
    world = drawn()
    none = score("b", 1, world, plan=nothing(world), answer=Answer(2.0, 0.1, "exit code 2: not UTF-8", {}))
    empty = nothing(world)
    perfect = score("a", 1, world, plan=replace(empty, chosen=oracle(world)), answer=DONE)
    text = page([perfect, none])
    assert "| a | 100% |" in text
    assert "| b | 0% |" in text
    assert "- b: no plan, exit code 2: not UTF-8" in text
    assert "- a:" not in text


def test_the_command_hands_over_the_last_hour_or_leaves_the_period_to_kinband(tmp_path: Path) -> None:
    files = write(LOGS[0], LOGS[0].world(1), tmp_path)
    assert str(files.now) in command(files, tmp_path / "plan")
    assert "--now" not in command(files, tmp_path / "plan", now=False)


def test_a_run_prints_a_table_and_writes_it_into_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.md"
    target.write_text("\n".join(("above", *MARKS, "below")), encoding="utf-8")
    given = ["--quick", "--only", "24 x 96", "--out", str(tmp_path / "out"), "--write", str(target)]
    assert main(given) == 0
    printed = capsys.readouterr()
    assert "varied, 24 x 96, tilt, seed 11: " in printed.err
    row = next(line for line in printed.out.splitlines() if line.startswith("| varied"))
    assert "2,304 of 2,304" in row
    assert row in target.read_text(encoding="utf-8")
    answer = json.loads(next((tmp_path / "out").glob("*/answer.json")).read_text(encoding="utf-8"))
    assert {"changes", "left_alone", "rows_used"} <= set(answer)


def test_a_name_that_no_log_has_is_refused_with_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "moon"]) == 2
    assert "varied, 24 x 96, tilt" in capsys.readouterr().err.replace("\n", " ")
