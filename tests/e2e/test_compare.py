"""`kinband compare` as an engineer meets it: an export of one's own, an answer in words, and runs that are kept."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kinband import ConfigurationSpace, Trace
from kinband.cli import main
from kinband.experiments import runner
from kinband.experiments.compare import BASELINE, OURS
from kinband.experiments.paper import SHARING
from kinband.experiments.runner import Case, Record

COLUMNS = ["--station", "Cell", "--time", "Hour", "--reward", "Good %", "--configuration", "Tilt", "--ignore", "no"]
SMALL = ["--log-rows", "8", "--slots", "9", "--runs", "2", "--workers", "1"]
MARKS = ["--per-cent", "--delimiter", ";", "--decimal-point", ","]


def export(rows: int = 24) -> pd.DataFrame:
    """Three cells with the same peak, as a messy export would have them."""
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"no": range(3 * rows), "Cell": np.repeat(["0012", "3714", "3715"], rows)})
    frame["Hour"] = pd.Timestamp("2024-05-01") + pd.to_timedelta(frame.groupby("Cell").cumcount(), "h")
    frame["Day"] = frame.groupby("Cell").cumcount() // 4
    frame["Users"] = rng.uniform(5, 95, len(frame)).round(1)
    frame["Tilt"] = rng.integers(0, 6, len(frame))
    frame["Good %"] = (85 - 2 * (frame["Tilt"] - 3) ** 2 + rng.normal(size=len(frame))).round(3)
    return frame


def compare(log: Path, *options: str) -> int:
    return main(["compare", str(log), *options])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a comparison, and what it printed."""
    folder = tmp_path_factory.mktemp("compare")
    export().to_csv(folder / "export.csv", sep=";", decimal=",", index=False)
    with redirect_stdout(io.StringIO()) as printed:
        code = compare(folder / "export.csv", *COLUMNS, "--ignore", "Day", *MARKS, *SMALL, "--out", str(folder / "out"))
    assert code == 0
    return folder, printed.getvalue()


def kept(out: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in out.glob("*/*") if file.parent.name in ("runs", "models")}


def test_an_export_of_ones_own_gets_an_answer_in_words_and_figures(done: tuple[Path, str]) -> None:
    folder, printed = done
    out = folder / "out"
    assert "log: 72 rows of 3 stations; state: Users; knobs: Tilt" in printed
    assert any(line.startswith(("Sharing ", "There is nothing")) for line in printed.splitlines())
    assert "note: intervals over 2 runs are rough" in printed
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "regret.svg").read_text()
    assert all(f"file: {out / name}" in printed for name in ("regret.png", "regret.svg", "results.json"))
    results = json.loads((out / "results.json").read_text())
    assert "24 rows known" in results["title"]
    assert all(row["regret"]["mean"] < 9 * 1 for row in results["learners"])  # per cent became shares


def test_json_says_what_the_text_says_and_nothing_is_run_again(
    done: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, printed = done
    before = kept(folder / "out")
    options = [*COLUMNS, "--ignore", "Day", *MARKS, *SMALL, "--out", str(folder / "out"), "--json"]
    assert compare(folder / "export.csv", *options) == 0
    captured = capsys.readouterr()
    assert all(line.startswith("kinband: ") for line in captured.err.splitlines())  # stages, where they take long
    found = json.loads(captured.out)
    assert kept(folder / "out") == before
    assert found == json.loads((folder / "out" / "results.json").read_text())
    lines = printed.splitlines()
    assert found["log"] in lines
    assert found["answer"] in lines
    assert [f"note: {note}" for note in found["notes"]] == [line for line in lines if line.startswith("note: ")]
    assert [f"file: {file}" for file in found["files"]] == [line for line in lines if line.startswith("file: ")]
    assert found["title"] in printed.replace("\n", " ")
    words = " ".join(printed.replace("│", " ").split())
    assert [row["learner"] for row in found["learners"]] == [BASELINE, *SHARING, OURS]
    for row in found["learners"]:
        assert row["label"] in words or row["label"].split()[0] in words  # a narrow screen breaks lines
        assert f" {row['regret']['mean']:.3g} " in words
        assert row["regret"]["interval"][0] <= row["regret"]["mean"] <= row["regret"]["interval"][1]


def test_the_same_rows_from_another_file_are_the_same_comparison(done: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = done
    frame = export()
    frame["Good %"] /= 100
    trace = Trace.from_frame(
        frame,
        {"station": "Cell", "time": "Hour", "reward": "Good %", "configuration": ["Tilt"], "ignore": ["no", "Day"]},
    )
    trace.write(tmp_path / "log.parquet")
    before = kept(folder / "out")
    assert compare(tmp_path / "log.parquet", *SMALL, "--out", str(folder / "out"), "--json") == 0
    assert kept(folder / "out") == before


def test_a_changed_file_is_compared_anew(done: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = done
    before = kept(folder / "out")
    changed = export()
    changed["Good %"] += 5.0 * (changed["no"] == 40)
    changed.to_csv(folder / "export.csv", sep=";", decimal=",", index=False)
    options = [*COLUMNS, "--ignore", "Day", *MARKS, *SMALL, "--out", str(folder / "out"), "--json"]
    assert compare(folder / "export.csv", *options) == 0
    assert len(kept(folder / "out")) > len(before)
    assert all(kept(folder / "out")[file] == at for file, at in before.items())


def test_runs_are_kept_whole_and_categories_stay_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export().to_csv(tmp_path / "export.csv", index=False)
    cases: list[Case] = []

    def interrupt(case: Case) -> Record:
        cases.append(case)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_learn", interrupt)
    options = [*COLUMNS, "--run", "Day", "--category", "Tilt", *SMALL, "--seed", "3", "--out", str(tmp_path / "out")]
    assert compare(tmp_path / "export.csv", *options) == 130
    problem = cases[0].make_problem()
    world, frame = problem.environment, export()
    assert world.space is not None
    assert world.space.categorical == (0,)
    assert world.features == ("Users", "Tilt")  # the day is no state
    frame = frame[~frame["Good %"].duplicated(keep=False)]
    day = dict(zip(frame["Good %"], frame["Day"], strict=True))
    assert len({day[y] for y in problem.log.y.tolist() if y in day}) == 3  # of six, each whole


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--time", "no"], "column 'no' is used as ignore and as time"),
        (["--run", "Week"], "there is no column 'Week'; the columns are 'no', 'Cell'"),
        (
            ["--category", "Users"],
            "--category names 'Users', which is not a knob: name it with --configuration Users too",
        ),
        (["--log-rows", "19"], "3 of 3 station(s) have too few rows, such as '0012' with 24"),
        (["--log-rows", "19"], "ask for fewer with --log-rows, or leave such stations out with --skip-short"),
        (["--log-rows", "19", "--skip-short"], "only 0 of 3 station(s)"),
        (["--slots", "20000"], "give a smaller --log-rows or --slots"),
        (["--parallel", "--slots", "7000"], "21,000 decisions are too many"),
        (["--reward-range", "0", "1"], "look like per cent, say so with --per-cent"),
        (["--reward", "good %"], "did you mean 'Good %'?"),
        (["--runs", "1"], "--runs"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export().to_csv(tmp_path / "export.csv", index=False)
    assert compare(tmp_path / "export.csv", *COLUMNS, *SMALL, "--out", str(tmp_path / "out"), *options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def edited(frame: pd.DataFrame, column: str, value: Any, *, rows: Any = slice(None)) -> pd.DataFrame:
    frame[column] = frame[column].astype(object)
    frame.loc[frame.index[rows], column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (edited(export(), "Good %", 50.0), "all rewards to play for are 50"),
        (edited(export(), "Tilt", 3), "one configuration, {'Tilt': 3}"),
        (edited(export(), "Cell", "a"), "holds one station, 'a'"),
        (edited(export(), "Users", "-", rows=7), "column 'Users': 1 cell is missing, first in line 9"),
        (
            edited(export(), "Good %", "n. a.", rows=7),
            "column 'Good %': 1 cell is not a number, first 'n. a.' in line 9",
        ),
        (edited(export(), "Hour", "soon", rows=7), "column 'Hour': 1 cell is not a date, first 'soon' in line 9"),
        (export().assign(**{"Good %": lambda f: f["Good %"] / np.where(f["no"] < 30, 100, 1)}), "mix shares and per"),
        (export().groupby("Cell").head(1), "3 of 3 station(s) have too few rows, such as '0012' with 1"),
        (export().drop(columns="Hour"), "there is no column 'Hour' (the time)"),
        (export().head(0), "columns but no rows"),
    ],
)
def test_an_export_that_cannot_be_right_gets_one_sentence(
    frame: pd.DataFrame, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.to_csv(tmp_path / "export.csv", index=False)
    assert compare(tmp_path / "export.csv", *COLUMNS, *SMALL, "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_one_setting_a_station_is_refused_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export().assign(Tilt=lambda f: f["Cell"].astype("category").cat.codes).to_csv(tmp_path / "log.csv", index=False)
    assert compare(tmp_path / "log.csv", *COLUMNS, *SMALL, "--out", str(tmp_path / "out")) == 2
    printed = capsys.readouterr()
    assert "cannot tell whether sharing would have helped: every station ran one setting only" in printed.err
    assert "`kinband design`" in printed.err
    assert "tried: 3 settings in all, 1 a station" in printed.out
    assert not (tmp_path / "out").exists()


def test_without_a_time_it_asks_for_one_or_for_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export().drop(columns="Hour").to_csv(tmp_path / "export.csv", index=False)
    assert compare(tmp_path / "export.csv", "--station", "Cell", "--reward", "Good %", "--configuration", "Tilt") == 2
    assert "name its column with --time, or with --run" in capsys.readouterr().err


def test_rows_outside_the_space_of_a_trace_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"station": "Cell", "time": "Hour", "reward": "Good %", "configuration": ["Tilt"]}
    trace = Trace.from_frame(export(), columns).with_space(ConfigurationSpace(Tilt=range(7)))
    trace.write(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text()
    end = text.index("\n", text.index("\n") + 1)
    (tmp_path / "log.csv").write_text(f"{text[: end - 1]}9{text[end:]}")  # the last column is the knob
    assert compare(tmp_path / "log.csv") == 2
    error = capsys.readouterr().err
    assert "1 row(s) hold a configuration outside the space, the first is row 1, counted from 1" in error
    assert len(error.strip().splitlines()) == 1


def test_the_bundled_trace_takes_no_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "bundled", "--reward", "good"]) == 2
    assert "leave these options out" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export().to_csv(tmp_path / "export.csv", index=False)
    assert compare(tmp_path / "export.csv", *COLUMNS, *SMALL, "--out", str(tmp_path / "export.csv")) == 2
    error = capsys.readouterr().err
    assert f"cannot write to {tmp_path / 'export.csv'} (a file of that name is in the way)" in error


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_ends_a_comparison_with_exit_code_130_and_keeps_what_is_done(tmp_path: Path) -> None:
    export().to_csv(tmp_path / "export.csv", index=False)
    options = [*COLUMNS, "--log-rows", "8", "--slots", "400", "--runs", "60", "--workers", "2", "--out", "out"]
    command = [sys.executable, "-m", "kinband", "compare", "export.csv", *options]
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, cwd=tmp_path
    )
    try:
        deadline = time.monotonic() + 240
        while not kept(tmp_path / "out") and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert running.returncode == 130
    assert error.decode().strip().splitlines()[-1] == "kinband: interrupted; work that was finished is kept"
    assert "Traceback" not in error.decode()
    assert kept(tmp_path / "out")
    assert not list((tmp_path / "out").glob("*/.*"))  # nothing half done
