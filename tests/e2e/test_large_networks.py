"""Commands on networks that are too large to be one group: every row counts, and what is left out is shouted."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kinband import Controller
from kinband.cli import main
from kinband.cli.options import LogOptions
from kinband.cli.serve import StartOptions
from kinband.planning import network as module
from kinband.similarity.shards import Shards, load_similarity

COLUMNS = ["--station", "cell", "--time", "hour", "--reward", "good", "--configuration", "tilt"]
STATIONS, HOURS = 12, 48


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve stations of two kinds; more than six are called many."""
    for name, value in {"GROUP_STATIONS": 4, "SMALLEST": 3, "GROUP_ROWS": 192, "_SOME": 6}.items():
        monkeypatch.setattr(module, name, value)
    for place in ("cli.similarity", "cli.options", "cli.compare", "ope.evaluating"):
        monkeypatch.setattr(f"kinband.{place}.ONE_MODEL", 6)
    monkeypatch.setattr("kinband.cli.options.GROUP_STATIONS", 4)
    monkeypatch.setattr("kinband.experiments.problems.PLAYED", 4)
    rng = np.random.default_rng(3)
    file = tmp_path / "city.csv"
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text)
        writer.writerow(["cell", "hour", "load", "tilt", "good"])
        for m in range(STATIONS):
            for hour in range(HOURS):
                tilt, load = int(rng.integers(0, 4)), rng.random()
                reward = 1 - 0.1 * (tilt - (1, 3)[m % 2]) ** 2 - 0.2 * load + 0.02 * rng.normal()
                writer.writerow([f"s{m:02d}", hour, f"{load:.3f}", tilt, f"{reward:.4f}"])
    return file


def test_similarity_is_measured_within_groups_and_read_back_by_recommend(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["similarity", str(log), *COLUMNS, "--out", str(out), "--workers", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(map(len, found["groups"])) == [4, 4, 4]
    assert found["stations"] == {f"s{m:02d}": HOURS for m in range(STATIONS)}
    assert found["mean_within_groups"] > found["mean_between_groups"]
    assert found["answers"]["rows_used"] == STATIONS * HOURS
    shards = load_similarity(out / "similarity.npz")
    assert isinstance(shards, Shards)
    assert [list(part.stations) for part in shards.parts] == found["groups"]
    with (out / "groups.csv").open(encoding="utf-8") as file:
        assert {row["station"]: int(row["group"]) for row in csv.DictReader(file)} == {
            name: number for number, names in enumerate(found["groups"], start=1) for name in names
        }
    plan = ["recommend", str(log), *COLUMNS, "--similarity", str(out / "similarity.npz"), "--workers", "1", "--json"]
    assert main([*plan, "--out", str(tmp_path / "plan")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["groups"], answer["similarity"], answer["rows_used"]) == (3, "embedding", STATIONS * HOURS)


def test_similarity_shows_groups_rather_than_pairs(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["similarity", str(log), *COLUMNS, "--method", "joint", "--out", str(tmp_path), "--workers", "1"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "3 groups of stations that answer alike to settings. Two stations of a group are" in printed
    assert "576 rows of 12 stations;" in printed


@pytest.mark.parametrize("policy", ["recommend", "usual", "tilt=1"])
def test_evaluate_judges_every_group_by_all_of_its_rows(
    policy: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", str(log), *COLUMNS, "--policy", policy, "--json", "--workers", "1"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows_learned"], found["rows_judged"]) == (STATIONS * HOURS / 2, STATIONS * HOURS / 2)
    by = {one["method"]: one["against_usual"] for one in found["estimates"]}
    if policy == "recommend":
        assert by["doubly robust"]["low"] > 0
        assert by["model"]["low"] > 0
    if policy == "usual":
        assert by["model"]["value"] == 0


def test_evaluate_says_the_same_of_one_group_and_of_several(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for together in (6, 12):
        monkeypatch.setattr("kinband.ope.evaluating.ONE_MODEL", together)
        assert main(["evaluate", str(log), *COLUMNS, "--policy", "tilt=1", "--json", "--workers", "1"]) == 0
        answer = json.loads(capsys.readouterr().out)
        found.append({one["method"]: one for one in answer["estimates"]})
    several, one = found
    assert several["inverse propensity"] == one["inverse propensity"]  # which no model has a say in
    width = one["model"]["value"]["high"] - one["model"]["value"]["low"]
    assert abs(several["model"]["value"]["value"] - one["model"]["value"]["value"]) < width


def test_compare_plays_some_groups_and_says_so_where_it_cannot_be_missed(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", str(log), *COLUMNS, "--log-rows", "6", "--slots", "8", "--runs", "2", "--workers", "1"]
    assert main([*command, "--out", str(tmp_path / "compared"), "--json"]) == 0
    printed = capsys.readouterr()
    (note,) = [note for note in json.loads(printed.out)["notes"] if note.startswith("WARNING")]
    assert note.startswith(
        "WARNING: of 12 stations in 3 groups that answer alike to settings, 12 are played, 3 groups drawn at random"
    )
    assert note in printed.err


def test_a_service_starts_in_groups_and_says_so(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = LogOptions(station="cell", time="hour", reward="good", configuration=["tilt"])
    controller = StartOptions(start=log, columns=columns).controller()
    assert isinstance(controller, Controller)
    said = capsys.readouterr().err
    assert "note: 12 stations learn in 3 groups of 4 that answer alike to settings (--shards)" in said
    assert "log: 576 rows of 12 stations" in said
    K_Z = controller.similarity.matrix
    assert sorted((K_Z > 0).sum(axis=1).tolist()) == [4] * STATIONS


def test_design_plans_trials_in_groups(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["design", str(log), *COLUMNS, "--out", str(tmp_path / "trials"), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.startswith("12 stations learn in 3 groups of 4") for note in notes)
