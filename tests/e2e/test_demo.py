"""`kinband demo` on a tiny simulated city, as a user runs it."""

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

import pytest

from kinband.cli import main
from kinband.environments.radio import simulate_trace
from kinband.experiments import demo as demonstration
from kinband.experiments.runner import Case

ROUNDS, RUNS, STATIONS = 2, 2, 6


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half an hour of two sites, around the change of an hour."""
    path = tmp_path_factory.mktemp("city") / "city.parquet"
    simulate_trace(STATIONS, days=1, hours=(17.75, 18.25), period_minutes=0.75, load=1.5, seed=2).write(path)
    return path


def arguments(city: Path, out: Path, *more: str) -> list[str]:
    return ["demo", "--trace", str(city), "--out", str(out), "--rounds", str(ROUNDS), "--runs", str(RUNS), *more]


def alive(group: int) -> list[str]:
    """The processes of a group that have not ended, from a listing of states, groups and commands."""
    listed = subprocess.run(["ps", "-eo", "stat=,pgid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[1] == str(group) and not line.startswith("Z")]


def without_time(results: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in results.items() if name not in ("seconds", "files")}


@pytest.fixture(scope="module")
def done(city: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the words of one run in one process."""
    out, printed = tmp_path_factory.mktemp("out"), io.StringIO()
    with redirect_stdout(printed):
        assert main(arguments(city, out, "--workers", "1")) == 0
    return out, printed.getvalue()


def test_the_demo_prints_a_table_and_writes_a_report(city: Path, done: tuple[Path, str]) -> None:
    out, printed = done
    words = " ".join(printed.replace("│", " ").split())
    for text in (
        "sectors that",
        "each sector",
        "fixed at −100",
        "best single",
        "6 sectors",
        "β = 0.3",
        "half a point of",
    ):
        assert text in words
    assert str(out / "report.html") in printed
    pictures = {"regret.png", "users.png", "similarity.png", "map.png", "day.png", "calibration.png", "lending.png"}
    assert {file.name for file in out.iterdir()} == {"report.html", "results.json", *pictures}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"kinband demo --rounds {ROUNDS} --runs {RUNS} --beta 0.3 --trace {city}" in page


def test_results_for_machines_do_not_depend_on_the_number_of_processes(
    city: Path, done: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(city, tmp_path, "--workers", "2", "--json")) == 0
    captured = capsys.readouterr()
    assert all(line.startswith("kinband: ") for line in captured.err.splitlines())  # stages, where they take long
    found = json.loads(captured.out)
    assert found == json.loads((tmp_path / "results.json").read_text())
    assert without_time(found) == without_time(json.loads((done[0] / "results.json").read_text()))
    assert (tmp_path / "report.html").read_bytes() == (done[0] / "report.html").read_bytes()
    learners = {row["learner"]: row for row in found["learners"]}
    assert list(learners) == ["joint", "independent", "fixed", "hindsight"]
    assert learners["fixed"]["users_gained"]["mean"] == 0
    assert learners["independent"]["saved"] is None
    assert learners["fixed"]["worse_than_today"] == 0
    assert len(learners["joint"]["trials_until_near_by_run"]) == RUNS
    assert found["today"] == {"handover_threshold_dbm": -100}
    assert found["log_rows"] == 20
    for row in learners.values():
        assert row["regret"]["interval"][0] <= row["regret"]["mean"] <= row["regret"]["interval"][1]
        assert 0 <= row["reward"]["mean"] <= 1


def test_an_interrupted_demo_says_so_in_one_sentence_and_goes_on_later(
    city: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[str] = []
    play = demonstration._play

    def interrupt(case: Case, *rest: Any) -> dict[str, Any]:
        if len(played) == 2:
            raise KeyboardInterrupt
        played.append(case.key)
        return play(case, *rest)

    monkeypatch.setattr(demonstration, "_play", interrupt)
    assert main(arguments(city, tmp_path, "--workers", "1")) == 130
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    kept = list(tmp_path.glob(".runs-*/runs/*.json"))
    assert sorted(file.stem for file in kept) == sorted(played)
    monkeypatch.setattr(demonstration, "_play", play)
    assert main(arguments(city, tmp_path, "--workers", "1")) == 0
    assert (tmp_path / "report.html").exists()
    assert not list(tmp_path.glob(".runs-*"))


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_ends_all_processes_with_exit_code_130(city: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kinband", *arguments(city, tmp_path, "--rounds", "5000", "--workers", "2")]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".runs-*/models/*")) and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=30)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert running.returncode == 130
    assert error.decode().strip().splitlines()[-1].startswith("kinband: interrupted")
    deadline = time.monotonic() + 10
    while alive(running.pid) and time.monotonic() < deadline:  # the pool's own helper ends a moment later
        time.sleep(0.1)
    assert not alive(running.pid)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("missing.parquet", "there is no file"), ("folder", "there is no file"), ("a.doc", "suffixes")],
)
def test_a_trace_that_cannot_be_read_gets_one_sentence(
    name: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.doc").write_text("station,reward\n")
    assert main(["demo", "--trace", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert name in error
    assert len(error.strip().splitlines()) == 1


def test_a_table_that_does_not_know_its_columns_is_sent_to_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "export.csv").write_text("cell,tilt,good\na,1,0.5\n")
    assert main(["demo", "--trace", str(tmp_path / "export.csv"), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "`kinband compare` takes any" in error
    assert "columns=" not in error
    assert len(error.strip().splitlines()) == 1


def test_the_folder_is_tried_before_anything_is_computed(
    city: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    begun = time.monotonic()
    assert main(arguments(city, tmp_path / "file" / "out", "--rounds", "100000")) == 2
    assert time.monotonic() - begun < 5
    error = capsys.readouterr().err
    assert "--out" in error
    assert len(error.strip().splitlines()) == 1
