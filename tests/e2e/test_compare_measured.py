"""`kinband compare --measured` as an engineer meets it: a table of runs, an answer in words, failures named."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kinband.cli import main
from kinband.environments import MeasuredEnvironment
from kinband.experiments import runner
from kinband.experiments.runner import Case, Record

SMALL = ["--log-rows", "3", "--slots", "2", "--runs", "2", "--workers", "1"]
NAMED = ["--measured", "seconds", "--task", "video"]


def table(videos: int = 3) -> pd.DataFrame:
    """Videos encoded under every level and mode; one run crashed, one said so, one was never made."""
    rng = np.random.default_rng(4)
    levels, modes = np.meshgrid([1, 2, 3, 4], ["None", "fast"])
    frame = pd.DataFrame({"video": np.repeat([f"0{v}" for v in range(videos)], 8)})
    frame["level"], frame["mode"] = np.tile(levels.ravel(), videos), np.tile(modes.ravel(), videos)
    frame["crashed"] = np.where(frame.index == 2, "yes", "no")
    frame["seconds"] = (rng.gamma(4, 1, len(frame)) + 2 * np.abs(frame["level"] - 3)).round(3)
    frame.loc[9, "seconds"] = 0.0
    return frame[frame.index != 15]


def compare(file: Path, *options: str) -> int:
    return main(["compare", str(file), *options])


def edited(column: str, value: Any, *, rows: Any = slice(None)) -> pd.DataFrame:
    frame = table().astype({column: object})
    frame.loc[frame.index[rows], column] = value
    return frame


def stop_before_learning(monkeypatch: pytest.MonkeyPatch) -> list[MeasuredEnvironment]:
    """Interrupt before anything is learned; return the tables that were to be played."""
    seen: list[MeasuredEnvironment] = []

    def interrupt(case: Case) -> Record:
        world = case.make_problem().environment
        assert isinstance(world, MeasuredEnvironment)
        seen.append(world)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_learn", interrupt)
    return seen


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a comparison, and what it printed."""
    folder = tmp_path_factory.mktemp("measured")
    table().to_csv(folder / "runs.csv", index=False)
    with redirect_stdout(io.StringIO()) as printed:
        code = compare(folder / "runs.csv", *NAMED, "--failed", "crashed", *SMALL, "--out", str(folder / "out"))
    assert code == 0
    return folder, printed.getvalue()


def test_a_table_gets_an_answer_in_words_and_its_failures_are_named(done: tuple[Path, str]) -> None:
    folder, printed = done
    assert (
        "table: 3 tasks and 8 configurations; seconds, less is better, compared as ratios; knobs: level, mode"
        in printed
    )
    assert any(line.startswith(("Sharing ", "There is nothing")) for line in printed.splitlines())
    assert "note: failed: 2 pairs of a task and a configuration, in 2 tasks, such as '00' under" in printed
    assert "note: risky: 2 configurations failed, {'level': 2, 'mode': 'None'} for 1 task" in printed
    assert "note: never run: 1 of 24 pairs" in printed
    assert "note: intervals over 2 runs are rough" in printed
    assert (folder / "out" / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_json_says_what_the_text_says_and_nothing_is_run_again(
    done: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, printed = done
    stop_before_learning(monkeypatch)
    options = [*NAMED, "--failed", "crashed", *SMALL, "--out", str(folder / "out"), "--json"]
    assert compare(folder / "runs.csv", *options) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert all(line.startswith("kinband: ") for line in captured.err.splitlines())  # stages, where they take long
    assert found == json.loads((folder / "out" / "results.json").read_text())
    assert found["answer"] in printed.splitlines()
    assert found["failed"] == [
        {"task": "00", "configuration": {"level": 3, "mode": "None"}},
        {"task": "01", "configuration": {"level": 2, "mode": "None"}},
    ]
    assert [(row["configuration"]["level"], row["tasks"]) for row in found["risky"]] == [(2, 1), (3, 1)]
    assert all(row["regret"]["mean"] >= 0 for row in found["learners"])


def test_options_say_what_is_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(6).assign(bytes=np.random.default_rng(1).random(47)).to_csv(tmp_path / "runs.csv", sep=";", index=False)
    seen = stop_before_learning(monkeypatch)
    options = ["--goal", "max", "--linear", "--tasks", "4", "--ignore", "bytes", "--ignore", "crashed"]
    marks = ["--category", "level", "--delimiter", ";"]
    assert compare(tmp_path / "runs.csv", *NAMED, *options, *marks, *SMALL, "--out", str(tmp_path / "out")) == 130
    stored = seen[0].table
    assert len(stored.tasks) == 4
    assert stored.space.categorical == (0, 1)
    assert np.nanmax(stored.score) == table(6)["seconds"][table(6)["video"].isin(stored.tasks)].max()


def test_rows_that_try_everything_beforehand_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = table()
    frame[frame["level"] > 2].to_csv(tmp_path / "runs.csv", index=False)
    options = ["--log-rows", "4", "--slots", "1", "--runs", "2", "--workers", "1", "--out", str(tmp_path / "out")]
    assert compare(tmp_path / "runs.csv", *NAMED, "--ignore", "crashed", *options) == 0
    assert (
        "note: 4 rows a task try every configuration beforehand: give fewer with --log-rows" in capsys.readouterr().out
    )


def test_a_bundled_table_is_named_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = stop_before_learning(monkeypatch)
    assert compare(Path("nodejs"), "--measured", "ops", "--tasks", "5", *SMALL, "--out", str(tmp_path)) == 130
    assert len(seen[0].stations) == 5
    assert np.nanmin(seen[0].table.score) > 0  # more is better


BAD_OPTIONS = [
    (["--measured", "second"], "there is no column 'second' (the outcome), did you mean 'seconds'?"),
    (["--task", "clip"], "there is no column 'clip' (the task): the columns are 'video', 'level'"),
    (["--failed", "crash"], "there is no column 'crash' (marks of failed runs), did you mean 'crashed'?"),
    (["--configuration", "tilt"], "there is no column 'tilt' (a knob)"),
    (["--category", "tilt"], "'tilt' is not a knob, so that it cannot hold names"),
    (["--ignore", "tilt"], "there is no column 'tilt' (to ignore)"),
    (["--measured", "video"], "--measured names the column of the tasks, 'video': name what was measured"),
    (["--goal", "less"], "goal must be 'min' or 'max', got 'less'"),
    (["--tasks", "7"], "7 tasks were asked for, the table holds 3"),
    (["--tasks", "1"], "--tasks"),
    (["--delimiter", "::"], "--delimiter is one character"),
    (["--reward", "seconds"], "--reward is for logs: leave it out"),
    (["--parallel"], "--parallel is for logs"),
    (["--time", "hour"], "--time is for logs"),
    (["--slots", "9000"], "27,000 decisions are too many"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD_OPTIONS)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table().to_csv(tmp_path / "runs.csv", index=False)
    assert compare(tmp_path / "runs.csv", *NAMED, *SMALL, "--out", str(tmp_path / "out"), *options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


BAD_TABLES = [
    (table().head(8), "the table holds one task, '00': sharing takes at least two"),
    (edited("seconds", 3.0), "no configuration does better than another for any task"),
    (
        edited("seconds", [-2.0, -1.0, 3.0], rows=slice(3)),
        "negative values, from -2 to -1, which have no log: use --linear",
    ),
    (edited("seconds", 0.0), "0 of 3 tasks have runs that did not fail"),
    (
        edited("level", range(23)),
        "column 'level' does not look like a knob, most of its values are found in one task only",
    ),
    (table().assign(note=range(23)), "name the knobs with --configuration, or leave it out with --ignore"),
    (table().assign(level=1, mode="x", crashed="no"), "no knob varies, so that there is nothing to choose"),
    (edited("seconds", "timeout", rows=4), "got 'timeout' in line 6 of"),
    (edited("seconds", "timeout", rows=4), "or mark them in a column, --failed"),
    (edited("mode", None, rows=4), "line 6 of"),
    (table().head(0), "columns but no rows"),
]


@pytest.mark.parametrize(("frame", "sentence"), BAD_TABLES)
def test_a_table_that_cannot_be_right_gets_one_sentence(
    frame: pd.DataFrame, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.to_csv(tmp_path / "runs.csv", index=False)
    assert compare(tmp_path / "runs.csv", *NAMED, *SMALL, "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "runs.csv" in error
    assert len(error.strip().splitlines()) == 1


def test_outcomes_that_would_overflow_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = table()
    frame.assign(seconds=frame["seconds"] * 1e301).to_csv(tmp_path / "runs.csv", index=False)
    assert compare(tmp_path / "runs.csv", *NAMED, *SMALL, "--linear", "--out", str(tmp_path / "out")) == 2
    assert "too large to compute with: give a larger unit" in capsys.readouterr().err


def test_knobs_that_no_two_tasks_share_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table().assign(level=range(23)).to_csv(tmp_path / "runs.csv", index=False)
    assert compare(tmp_path / "runs.csv", *NAMED, "--configuration", "level", "--configuration", "mode") == 2
    assert "no configuration was run by more than one task" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["runs.csv", "--goal", "max"], "--goal is for tables of measurements: name the outcome with --measured"),
        (["gcc", "--measured", "size"], "gcc has no outcome 'size': it has exec"),
        (["gcc", "--measured", "exec", "--goal", "max"], "the bundled tables say themselves what their columns are"),
        (["nowhere.csv", "--measured", "x"], "there is no file nowhere.csv"),
        (["gcc"], "gcc"),
    ],
)
def test_options_that_do_not_belong_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
