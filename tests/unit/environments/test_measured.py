"""Tables of measurements: rewards agree with a naive reckoning, failures and holes are named, nonsense is told."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kinband import Controller
from kinband.environments import MeasuredEnvironment, MeasuredTable, bundled_measured, read_measured
from kinband.environments.measured import BUNDLED
from kinband.errors import BadInputError
from kinband.experiments.runner import Case, Learner, play

Columns = dict[str, Any]


def runs(tasks: int = 4, levels: int = 5, **more: Any) -> Columns:
    """Every task under every level, each once."""
    rng = np.random.default_rng(2)
    columns: Columns = {
        "task": np.repeat([f"t{m}" for m in range(tasks)], levels),
        "level": np.tile(range(levels), tasks),
    }
    return {**columns, "seconds": rng.gamma(3, 2, tasks * levels), **more}


def world_of(columns: Columns, *, noise: float = 0.05, **options: Any) -> MeasuredEnvironment:
    return MeasuredEnvironment(MeasuredTable.from_frame(columns, "seconds", **{"goal": "min", **options}), noise=noise)


def changed(columns: Columns, name: str, rows: Any, value: Any) -> Columns:
    values = np.array(columns[name])
    values[rows] = value
    return {**columns, name: values}


# --- Rewards ------------------------------------------------------------------------------------------------


def naive_truth(columns: Columns, *, sign: float, log: bool) -> dict[tuple[str, int], float]:
    """Expected reward of every task and level, one run at a time, as the documentation says."""
    scores: dict[tuple[str, int], list[float | None]] = {}
    for task, level, seconds in zip(columns["task"], columns["level"], columns["seconds"], strict=True):
        failed = math.isnan(seconds) or (log and seconds <= 0)
        score = None if failed else sign * (math.log2(seconds) if log else seconds)
        scores.setdefault((str(task), int(level)), []).append(score)
    order = list(dict.fromkeys(int(level) for level in columns["level"]))
    means = {}
    for cell, found in scores.items():
        well = [score for score in found if score is not None]
        if well:
            means[cell] = sum(well) / len(well)
    base = {t: next(means[t, a] for a in order if (t, a) in means) for t, _ in means}
    centred = {cell: mean - base[cell[0]] for cell, mean in means.items()}
    middle = sum(centred.values()) / len(centred)
    unit = math.sqrt(sum((value - middle) ** 2 for value in centred.values()) / len(centred))
    worst = {t: min(value for cell, value in centred.items() if cell[0] == t) / unit for t in base}
    return {
        (t, a): sum(worst[t] if s is None else (s - base[t]) / unit for s in found) / len(found)
        for (t, a), found in scores.items()
    }


@pytest.mark.parametrize(("goal", "scale"), [("min", "log2"), ("max", "log2"), ("min", "linear"), ("max", "linear")])
def test_truth_is_what_a_naive_reckoning_finds(goal: str, scale: str) -> None:
    rng = np.random.default_rng(7)
    columns: Columns = {"task": rng.permutation(np.repeat(["a", "b", "c"], 30)), "level": rng.integers(0, 9, 90)}
    columns["seconds"] = rng.gamma(2, 3, 90)
    columns["seconds"][rng.choice(90, 8, replace=False)] = np.resize([0.0, np.nan], 8)
    world = world_of(columns, goal=goal, scale=scale)
    naive = naive_truth(columns, sign=-1.0 if goal == "min" else 1.0, log=scale == "log2")
    assert int(world.playable.sum()) == len(naive) < world.playable.size
    for (task, level), expected in naive.items():
        truth = world.truth(task)
        assert truth.expected[world.space.index({"level": level})] == pytest.approx(expected, abs=1e-12)


def test_the_best_arm_is_the_fastest_and_never_one_that_was_not_run() -> None:
    columns = runs()
    kept = ~((columns["task"] == "t1") & (columns["level"] == 3))
    columns = {name: values[kept] for name, values in columns.items()}
    world = world_of(columns)
    frame = pd.DataFrame(columns)
    for task, own in frame.groupby("task"):
        assert world.space[world.truth(str(task)).best]["level"] == own["level"].to_numpy()[own["seconds"].argmin()]
    assert world.truth("t1").expected[3] == world.truth("t1").expected[world.playable[1]].min()
    assert world.truth("t1").rewards[3] == world.truth("t1").rewards[world.playable[1]].min()


def test_rewards_of_the_first_configuration_are_zero_and_the_table_has_unit_spread() -> None:
    world = bundled_measured("gcc")
    expected = np.array([world.truth(task).expected for task in world.stations])
    assert (expected[:, 0] == 0).all()
    assert expected.std() == pytest.approx(1.0)


def test_a_reward_of_repeated_measurements_is_one_of_them_and_all_come_up() -> None:
    world = world_of({"task": ["a"] * 5 + ["b"] * 2, "level": [1, 1, 1, 1, 2, 1, 2], "seconds": [1, 2, 4, 8, 16, 2, 4]})
    unit = np.std([0, -2.5, 0, -1])  # the mean log₂ seconds of a's level 1 is 1.5
    paid = {world.play({"a": 0})["a"].reward for _ in range(200)}
    assert sorted(paid) == pytest.approx(sorted((1.5 - measured) / unit for measured in (0, 1, 2, 3)))


def test_a_reward_of_one_measurement_has_the_stated_noise() -> None:
    world = world_of(runs(), noise=0.3)
    world.reset(3)
    around = np.array(
        [world.truth("t2").rewards - world.truth("t2").expected for _ in range(2000) if not world.play({})]
    )
    assert abs(around.mean()) < 4 * 0.3 / np.sqrt(around.size)
    assert around.std() == pytest.approx(0.3, rel=4 / np.sqrt(2 * around.size))
    exact = world_of(runs(), noise=0.0)
    assert (exact.truth("t2").rewards == exact.truth("t2").expected).all()


# --- Failures and holes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, np.nan, -1.0])
def test_a_failed_run_pays_the_worst_of_its_task_and_is_named(value: float) -> None:
    columns = changed(runs(), "seconds", [7, 12], value)  # level 2 of t1 and of t2
    world = world_of(columns)
    assert [(run.task, run.arm, run.configuration) for run in world.failed] == [
        ("t1", 2, {"level": 2}),
        ("t2", 2, {"level": 2}),
    ]
    assert world.risky == {2: 2}
    for _ in range(5):
        truth = world.truth("t1")
        well = np.delete(truth.expected, 2)
        assert truth.expected[2] == truth.rewards[2] == well.min()  # without noise
        world.play({})
    failed, risky = world.notes
    assert "failed: 2 pairs of a task and a configuration, in 2 tasks, such as 't1' under {'level': 2}" in failed
    assert "pays the worst reward of its task" in failed
    assert risky == "risky: 1 configuration failed, {'level': 2} for 2 tasks"


@pytest.mark.parametrize("marks", [[True, False], ["yes", "no"], [1, 0], ["True", None]])
def test_a_column_may_mark_failed_runs_whatever_their_outcome(marks: list[Any]) -> None:
    columns = runs(crashed=[marks[0], *[marks[1]] * 19])
    world = world_of(changed(columns, "seconds", 0, 1e-9), failed="crashed")
    assert [(run.task, run.arm) for run in world.failed] == [("t0", 0)]
    assert world.truth("t0").best != 0
    assert world.truth("t0").expected[1] == 0  # the first that ran is what the others are measured by
    assert list(world.space.knobs) == ["level"]


def test_a_column_called_failed_needs_no_naming() -> None:
    world = world_of(runs(failed=np.arange(20) == 3))
    assert [(run.task, run.arm) for run in world.failed] == [("t0", 3)]
    assert list(world.space.knobs) == ["level"]


def test_a_failed_repeat_counts_as_one_of_the_measurements() -> None:
    world = world_of({"task": ["a"] * 4 + ["b"] * 2, "level": [1, 2, 2, 3, 1, 2], "seconds": [8, 1, 0, 16, 2, 2]})
    worst, best = world.truth("a").expected[2], 3 / np.std([0, 3, -1, 0, 0])
    assert world.truth("a").expected[1] == pytest.approx((worst + best) / 2)
    assert len({world.play({"a": 1})["a"].reward for _ in range(50)}) == 2


def test_zero_is_an_outcome_like_others_on_the_linear_scale() -> None:
    world = world_of(changed(runs(), "seconds", 7, 0.0), scale="linear")
    assert world.failed == ()
    assert world.truth("t1").best == 2


def test_a_task_all_of_whose_runs_failed_is_left_out_and_named() -> None:
    world = world_of(changed(runs(), "seconds", slice(5, 10), 0.0))
    assert world.stations == ("t0", "t2", "t3")
    assert world.notes == ("left out, as every run of it failed: 1 task, t1",)


def test_what_was_never_run_cannot_be_played_nor_logged() -> None:
    rng = np.random.default_rng(3)
    kept = rng.random(60) < 0.6
    columns = {name: values[kept] for name, values in runs(6, 10).items()}
    world = world_of(columns)
    holes = int((~world.playable).sum())
    assert holes == 60 - kept.sum()
    assert f"never run: {holes} of 60 pairs" in world.notes[0]
    log = world.log(4, rng)
    assert log.arms is not None
    assert world.playable[log.tasks, log.arms].all()
    task, arm = np.argwhere(~world.playable)[0].tolist()
    with pytest.raises(BadInputError, match=f"'t{task}' never ran under configuration {arm}"):
        world.play({f"t{task}": arm})
    controller = Controller(world.space, world.stations, policy="random", seed=1)
    run = play(world, controller, slots=30, seed=2)  # play would refuse
    assert (run.pseudo >= 0).all()
    assert (run.realised >= 0).all()


def test_a_log_takes_no_configuration_again_before_all_were_taken() -> None:
    log = world_of(runs(4, 5)).log(12, np.random.default_rng(1))
    assert log.arms is not None
    for task in range(4):
        counts = np.bincount(log.arms[log.tasks == task], minlength=5)
        assert set(counts.tolist()) == {2, 3}


# --- Columns ------------------------------------------------------------------------------------------------


def test_knobs_are_numbers_where_all_values_are_and_else_categories() -> None:
    table = MeasuredTable.from_frame(
        {
            "task": ["a", "a", "b", "b"],
            "ref": ["1", "2.0", "1", "2.0"],
            "pyramid": ["None", "2", "None", "2"],
            "gain": [0.5, 1.5, 0.5, 1.5],
            "fast": [True, False, True, False],
            "never": [3, 3, 3, 3],
            "seconds": [1.0, 2.0, 3.0, 1.0],
        },
        "seconds",
        goal="min",
    )
    assert dict(table.space.knobs) == {
        "ref": (1, 2),
        "pyramid": ("None", "2"),
        "gain": (0.5, 1.5),
        "fast": (True, False),
    }
    assert table.space.categorical == (1, 3)


def test_numbers_may_be_declared_names() -> None:
    table = MeasuredTable.from_frame(runs(), "seconds", goal="min", categories=["level"])
    assert table.space.categorical == (0,)
    with pytest.raises(BadInputError, match="'tilt' is not a knob, so that it cannot hold names: the knobs are level"):
        MeasuredTable.from_frame(runs(), "seconds", goal="min", categories=["tilt"])


def test_with_a_column_of_arms_what_differs_within_an_arm_is_no_knob() -> None:
    columns = runs(arm=np.tile(range(5), 4), bytes=np.random.default_rng(1).random(20))
    world = world_of(columns)
    assert list(world.space.knobs) == ["level"]
    assert world.notes == ("not taken for knobs, as they differ within an arm: bytes",)


def test_without_arms_a_column_that_looks_like_an_outcome_must_be_named_or_left_out() -> None:
    columns = runs(bytes=np.random.default_rng(1).random(20))
    with pytest.raises(BadInputError, match="'bytes' does not look like a knob, most of its values are found in one"):
        world_of(columns)
    assert list(world_of(columns, ignore=["bytes"]).space.knobs) == ["level"]
    assert list(world_of(columns, knobs=["level"]).space.knobs) == ["level"]
    described = runs(size=np.repeat([1, 1, 2, 2], 5))
    with pytest.raises(BadInputError, match="'size' does not look like a knob, it never changes within a task"):
        world_of(described)


def test_tasks_are_a_subset_by_a_fixed_seed_in_their_order() -> None:
    some = world_of(runs(20), tasks=6)
    assert some.stations == world_of(runs(20), tasks=6).stations
    assert len(some.stations) == 6
    assert list(some.stations) == sorted(some.stations, key=lambda name: int(name[1:]))
    assert set(some.stations) != {f"t{m}" for m in range(6)}


def test_descriptors_are_numbers_and_text_without_what_is_missing() -> None:
    known = {"task": ["t1", "t0", "other"], "size": [3, np.nan, 1], "kind": ["x", "y", None]}
    world = world_of(runs(), descriptors=known)
    assert world.descriptors == {"t0": {"kind": "y"}, "t1": {"size": 3.0, "kind": "x"}}


def test_thousands_of_configurations_work() -> None:
    columns = runs(3, 1)
    rng = np.random.default_rng(4)
    grid = rng.permutation(10_000)[:6000]
    columns = {"task": np.repeat(["a", "b", "c"], 6000), "x": np.tile(grid // 100, 3), "y": np.tile(grid % 100, 3)}
    world = world_of({**columns, "seconds": rng.gamma(2, 2, 18_000)})
    assert (world.arms, len(world.log(50, rng))) == (6000, 150)
    controller = Controller(world.space, world.stations, seed=1)
    assert play(world, controller, slots=2, seed=1).pseudo.shape == (2,)


BAD: list[tuple[Columns, dict[str, Any], str]] = [
    (runs(1), {}, "holds one task, 't0': sharing takes at least two"),
    (runs(4, 1), {}, "no knob varies"),
    (runs(seconds=np.full(20, 3.0)), {}, "no configuration does better than another for any task"),
    (runs(seconds=np.repeat([1.0, 2, 3, 4], 5)), {}, "no configuration does better than another for any task"),
    (runs(seconds=np.linspace(-2, 3, 20)), {}, "negative values, from -2 to .*, which have no log: use scale='linear'"),
    (runs(seconds=np.zeros(20)), {}, "0 of 4 tasks have runs that did not fail"),
    (runs(seconds=[0.0] * 15 + [1.0, 2.0, 3.0, 4.0, 5.0]), {}, "1 of 4 tasks have runs that did not fail"),
    (runs(level=np.arange(20)), {"knobs": ["level"]}, r"no configuration was run by more than one task.*\(level\)"),
    (runs(), {"task": "video"}, r"no column 'video' \(the task\): the columns are 'task', 'level', 'seconds'"),
    (runs(), {"failed": "crash"}, r"no column 'crash' \(marks of failed runs\)"),
    (runs(), {"knobs": ["levle"]}, r"no column 'levle' \(a knob\), did you mean 'level'\?"),
    (runs(), {"knobs": ["level", "seconds"]}, "column 'seconds' is named as a knob and as something else"),
    (runs(), {"ignore": ["x"]}, r"no column 'x' \(to ignore\)"),
    (runs(crash=["perhaps"] * 20), {"failed": "crash"}, "marks failed runs, but holds 'perhaps' in row 1"),
    (runs(), {"goal": "less"}, "goal must be 'min' or 'max', got 'less'"),
    (runs(), {"scale": "log"}, "scale must be 'log2' or 'linear', got 'log'"),
    (runs(), {"tasks": 9}, "9 tasks were asked for, the table holds 4"),
    (runs(), {"tasks": 1}, "tasks must be a whole number of at least 2, got 1"),
    (runs(), {"noise": -1.0}, "noise is a standard deviation, 0 or more"),
    (runs(seconds=["soon"] * 20), {}, "must hold numbers, got 'soon' in row 1, .* leave outcomes of failed runs empty"),
    (runs(level=[None, "1", "2", "3", "4"] * 4), {}, "missing .* in row 1, counted from 1: write None where a knob"),
    (
        runs(),
        {"descriptors": {"task": ["x"], "size": [1]}},
        "of other tasks, such as 'x', than the table, such as 't0'",
    ),
    (runs(), {"descriptors": {"task": ["t0", "t0"], "size": [1, 2]}}, "name task 't0' twice: give one row a task"),
    (runs(), {"descriptors": {"name": ["t0"]}}, r"of the descriptors, there is no column 'task' \(the task\)"),
    ({name: values[:0] for name, values in runs().items()}, {}, "columns but no rows"),
]


@pytest.mark.parametrize(("columns", "options", "sentence"), BAD)
def test_a_table_that_cannot_be_right_gets_one_sentence(
    columns: Columns, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadInputError, match=sentence) as caught:
        world_of(columns, **options)
    assert "\n" not in str(caught.value)


def test_an_unknown_outcome_is_named() -> None:
    with pytest.raises(BadInputError, match=r"no column 'second' \(the outcome\), did you mean 'seconds'\?"):
        MeasuredTable.from_frame(runs(), "second", goal="min")


# --- Files --------------------------------------------------------------------------------------------------


def test_csv_and_parquet_give_the_same_environment(tmp_path: Path) -> None:
    frame = pd.DataFrame(runs(mode=np.tile(["None", "1", "2", "None", "1"], 4)))
    frame["task"] = frame["task"].str.replace("t", "00")
    frame.to_csv(tmp_path / "runs.csv", index=False, sep=";", decimal=",")
    frame.to_parquet(tmp_path / "runs.parquet")
    first = read_measured(tmp_path / "runs.csv", "seconds", goal="min", delimiter=";", decimal_point=",")
    second = read_measured(tmp_path / "runs.parquet", "seconds", goal="min")
    assert first.stations == second.stations == ("000", "001", "002", "003")
    assert first.space == second.space
    assert first.truth("001").expected == pytest.approx(second.truth("001").expected)


def test_a_complaint_names_the_line_of_the_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(runs()).astype({"seconds": object})
    frame.loc[6, "seconds"] = "timeout"
    frame.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(BadInputError, match=r"got 'timeout' in line 8 of .*runs\.csv: leave outcomes of failed runs"):
        read_measured(tmp_path / "runs.csv", "seconds", goal="min")


@pytest.mark.parametrize(
    ("system", "tasks", "arms", "knobs"),
    [("x264", 60, 201, 23), ("gcc", 26, 80, 5), ("nodejs", 100, 50, 6), ("sqlite", 109, 8, 3)],
)
def test_the_bundled_tables_are_whole_and_described(system: str, tasks: int, arms: int, knobs: int) -> None:
    for outcome in BUNDLED[system]:
        world = bundled_measured(system, outcome)
        assert (len(world.stations), world.arms, len(world.space.knobs)) == (tasks, arms, knobs)
        assert world.failed == ()
        assert world.playable.all()
        assert set(world.descriptors) == set(world.stations)


def test_the_bundled_tables_are_small_and_carry_their_licence() -> None:
    import kinband.environments.measured as package

    files = list((Path(str(package.__file__)).parent / "bundled").iterdir())
    assert sum(file.stat().st_size for file in files) < 1_000_000
    assert "MIT License" in next(file for file in files if file.name == "LICENSE.MIT").read_text()
    assert "Lesoil" in next(file for file in files if file.name == "README.md").read_text()


def test_an_unknown_bundled_table_or_outcome_is_refused() -> None:
    with pytest.raises(BadInputError, match="no bundled table 'x265': there are x264, gcc, nodejs, sqlite"):
        bundled_measured("x265")
    with pytest.raises(BadInputError, match="gcc has no outcome 'size': it has exec"):
        bundled_measured("gcc", "size")


# --- Cases --------------------------------------------------------------------------------------------------


def case(environment: str, seed: int = 1) -> Case:
    return Case(environment, Learner("alone", "independent"), 2, seed, log_rows=3)


def test_a_case_names_a_bundled_table_or_a_file(tmp_path: Path) -> None:
    assert len(case("measured:nodejs:ops:7").make_problem().log) == 21
    assert len(case("nodejs:ops:7").make_problem().log) == 21  # the bundled ones need no word before them
    pd.DataFrame(runs()).to_parquet(tmp_path / "runs.parquet")
    least = case(f"measured:{tmp_path}/runs.parquet:seconds").make_problem().environment
    most = case(f"measured:{tmp_path}/runs.parquet:seconds:max:3").make_problem().environment
    assert (len(least.stations), len(most.stations)) == (4, 3)
    task = most.stations[0]
    seconds = runs()["seconds"][runs()["task"] == task]
    assert (least.truth(task).best, most.truth(task).best) == (seconds.argmin(), seconds.argmax())
    with pytest.raises(BadInputError, match="called measured:TABLE:OUTCOME, got 'measured:gcc'"):
        case("measured:gcc").make_problem()


def test_logs_and_models_of_a_case_follow_its_seed() -> None:
    first, again, other = (case("measured:gcc:exec", seed).make_problem().log for seed in (1, 1, 2))
    assert (first.y == again.y).all()
    assert (first.y != other.y).any()
    assert case("measured:gcc:exec").model_key != case("measured:gcc:exec", 2).model_key
