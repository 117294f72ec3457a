"""State columns that are the reward in other words: found, and said wherever a log is learned from."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import Controller, Trace
from kinband.cli import compare as compare_room
from kinband.cli import main
from kinband.ope import evaluate
from kinband.trace.answers import suspicious_states, without_leaks

OPTIONS = ["--configuration", "tilt", "--time", "hour"]


def log(rows: int = 60, *, leak: float = 0.0, slope: float = 10.0, seed: int = 4) -> dict[str, Any]:
    """A log with a column of throughput, which is the reward and so much else."""
    rng = np.random.default_rng(seed)
    tilt, load = rng.integers(1, 5, rows), rng.random(rows)
    reward = (0.8 - 0.05 * (tilt - 2 - load) ** 2 + 0.05 * rng.normal(size=rows)).round(4)
    throughput = 5 + slope * reward + leak * rng.normal(size=rows)
    names = [("a", "b")[row % 2] for row in range(rows)]
    return {
        "station": names, "hour": [row // 2 for row in range(rows)], "load": load, "always": [3.5] * rows,
        "thr_mbps": throughput, "tilt": tilt, "reward": reward,
    }  # fmt: skip


def trace_of(columns: dict[str, Any], **roles: Any) -> Trace:
    return Trace.from_frame(columns, {"configuration": ["tilt"], "time": "hour", **roles})


@pytest.mark.parametrize("slope", [10.0, -0.003, 4e7])
def test_a_column_that_is_the_reward_is_named_with_its_correlation(slope: float) -> None:
    columns = log(slope=slope, leak=0.01 * abs(slope))
    inside = [np.array(columns["station"]) == name for name in ("a", "b")]
    rest = [
        np.concatenate([(v := np.asarray(columns[c])[rows]) - v.mean() for rows in inside])
        for c in ("thr_mbps", "reward")
    ]
    expected = float(np.corrcoef(rest[0], rest[1])[0, 1])
    [leak] = suspicious_states(trace_of(columns))
    assert str(leak).startswith(
        f"state column 'thr_mbps' is almost the same as the reward (correlation {expected:.3f} within stations)"
    )
    assert abs(expected) > 0.95


def test_few_rows_other_columns_and_rewards_that_never_vary_are_not_suspected() -> None:
    assert suspicious_states(trace_of(log(rows=16))) == []
    assert suspicious_states(trace_of(log(leak=1.0))) == []
    assert suspicious_states(trace_of(log(), ignore=["thr_mbps"])) == []
    assert suspicious_states(Trace.bundled()) == []


def test_a_level_that_differs_between_stations_alone_is_not_suspected() -> None:
    columns = log()
    level = np.where(np.array(columns["station"]) == "a", 0.0, 50.0)
    columns["reward"] = columns["reward"] + level
    columns["thr_mbps"] = level + np.random.default_rng(1).normal(size=60)
    assert np.corrcoef(columns["thr_mbps"], columns["reward"])[0, 1] > 0.99
    assert suspicious_states(trace_of(columns)) == []


def test_a_state_that_follows_the_setting_is_named_with_its_share() -> None:
    columns = log(rows=200)
    rng = np.random.default_rng(2)
    columns["thr_mbps"] = np.array([0.0, 3.0, -2.0, 1.0])[columns["tilt"] - 1] + rng.normal(size=200)
    sentence = str(*suspicious_states(trace_of(columns)))
    share = int(re.findall(r"'thr_mbps' depends on the setting, which explains (\d+)% of it", sentence)[0])
    assert 65 <= share <= 88  # the settings' variance is 3.5 of 4.5, 78 %; three standard errors of 200 rows are 10 %
    assert "--ignore thr_mbps" in sentence


def test_a_state_of_the_slot_before_is_not_suspected_while_a_setting_stays() -> None:
    columns = log(rows=400)
    rng = np.random.default_rng(3)
    tilt = rng.integers(1, 5, 40).repeat(10)  # of five slots each at both stations
    effect = np.array([0.0, 3.0, -2.0, 1.0])[tilt - 1] + 0.5 * rng.normal(size=400)
    before = np.concatenate([np.zeros(2), effect[:-2]])
    columns["tilt"], columns["reward"] = tilt, rng.random(400)
    columns["thr_mbps"] = before
    assert suspicious_states(trace_of(columns)) == []
    columns["thr_mbps"] = effect
    assert "'thr_mbps' depends on the setting" in str(suspicious_states(trace_of(columns))[0])


@pytest.mark.parametrize("policy", ["load", "two settings", "hour"])
def test_a_state_that_settings_were_chosen_by_is_warned_of_and_stays(policy: str) -> None:
    rng, hours = np.random.default_rng(5), np.arange(480)
    load = 0.5 - 0.3 * np.cos(2 * np.pi * hours / 24) + 0.05 * rng.normal(size=480)
    tilt = {
        "load": np.round(6 * load + 0.7 * rng.normal(size=480)).astype(int),
        "two settings": np.where(load > 0.5, 4, 2),
        "hour": np.where((hours % 24 >= 7) & (hours % 24 < 20), 4, 2),
    }[policy]
    columns = {"station": ["a"] * 480, "hour": np.datetime64("2024-03-04", "h") + hours, "load": load, "tilt": tilt}
    columns["reward"] = 1 - load - 0.1 * (tilt - 3) ** 2 + 0.05 * rng.normal(size=480)
    trace = trace_of(columns)
    [leak] = suspicious_states(trace)
    assert leak.name == "load"
    assert leak.chosen
    assert without_leaks(trace) == (trace, [])
    columns["tilt"] = tilt = rng.integers(1, 5, 480)
    columns["load"] = 0.3 * tilt + 0.1 * rng.random(480)  # moved by a setting that was drawn
    assert without_leaks(trace_of(columns))[0].state_names == ()


def test_a_load_that_most_of_the_reward_hangs_on_is_not_the_reward() -> None:
    columns = log(rows=400)
    columns["reward"] = (
        20 - 6 * columns["load"] + 0.1 * columns["tilt"] + 0.02 * np.random.default_rng(1).normal(size=400)
    )
    columns["thr_mbps"] = columns["reward"] + 0.02 * np.random.default_rng(2).normal(size=400)
    assert abs(np.corrcoef(columns["load"], columns["reward"])[0, 1]) > 0.98
    assert [leak.name for leak in suspicious_states(trace_of(columns))] == ["thr_mbps"]


@pytest.mark.filterwarnings("ignore:the state feature")
def test_a_controller_and_an_evaluation_say_so(caplog: pytest.LogCaptureFixture) -> None:
    trace = trace_of(log())
    sentence = str(*suspicious_states(trace))
    Controller.from_trace(trace, similarity="pooled")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", sentence)]
    assert sentence in evaluate(trace, {"tilt": 2}, similarity="pooled").warnings


@pytest.fixture
def files(tmp_path: Path) -> Path:
    columns = log()
    with (tmp_path / "log.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    states = "station,load,always,thr_mbps,tilt\na,0.4,3.5,12,2\nb,0.6,3.5,11,3\n"
    (tmp_path / "now.csv").write_text(states, encoding="utf-8")
    return tmp_path


NAMED = ["--state", "load", "--state", "thr_mbps"]
LEFT_OUT = "column 'thr_mbps' is left out of the state: it is almost the same as the reward"


@pytest.mark.parametrize("command", ["similarity", "evaluate", "recommend", "look"])
def test_a_state_that_nobody_named_is_left_out(command: str, files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    more = {"look": [], "recommend": ["--now", str(files / "now.csv"), "--out", str(files / "plan")]}
    given = [command, str(files / "log.csv"), *OPTIONS, *more.get(command, []), "--json"]
    given += ["--out", str(files / "out")] if command == "similarity" else []
    assert main(given) == 0
    said = json.loads(capfd.readouterr().out)
    [note] = [note for note in said["notes"] if "thr_mbps" in note]
    assert note.startswith(LEFT_OUT)
    assert note.endswith("(--state load --state always --state thr_mbps)")
    answers = said["answers"]
    assert "state: load, always;" in answers[0] if command == "look" else answers["state"] == ["load", "always"]


def test_a_state_that_was_named_is_used_and_said_once(files: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = [str(files / "log.csv"), *OPTIONS, *NAMED, "--similarity", "pooled", "--json"]
    assert main(["evaluate", *given]) == 0
    said = json.loads(capfd.readouterr().out)
    assert sum("'thr_mbps' is almost the same as the reward" in each for each in said["warnings"]) == 1
    assert main(["recommend", *given, "--now", str(files / "now.csv"), "--out", str(files / "plan")]) == 0
    printed = capfd.readouterr()
    said = json.loads(printed.out)
    assert said["answers"]["state"] == ["load", "thr_mbps"]
    assert sum("'thr_mbps' is almost the same as the reward" in note for note in said["notes"]) == 1
    assert "thr_mbps" not in printed.err


def test_compare_says_so_before_the_runs(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        assert "warning: state column 'thr_mbps' is almost the same as the reward" in capsys.readouterr().err
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_room, "run_fair", stop)
    assert (
        main(["compare", str(files / "log.csv"), *OPTIONS, *NAMED, "--log-rows", "10", "--out", str(files / "out")])
        != 0
    )
