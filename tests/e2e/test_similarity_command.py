"""`kinband similarity` as an engineer meets it: groups, pairs, a picture, and one sentence on nonsense."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, TaskMatrix, Trace
from kinband.cli import main
from kinband.likelihood import even_share
from kinband.similarity.shards import Shards

NAMES = ("[red]north", "=south", "east", "west")  # names that no screen and no file may take for anything else
COLUMNS = ["--station", "cell", "--reward", "good", "--configuration", "tilt"]


def export(rows: int = 25) -> dict[str, Any]:
    """Rewards that rise with the tilt at the first two stations and fall at the others."""
    rng = np.random.default_rng(4)
    number = np.repeat(np.arange(4), rows)
    tilt = rng.integers(0, 10, len(number))
    good = 0.5 + np.where(number < 2, 0.04, -0.04) * (tilt - 4.5) + 0.01 * rng.normal(size=len(number))
    return {"cell": np.array(NAMES)[number], "load": rng.random(len(number)).round(3), "tilt": tilt, "good": good}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    columns = export()
    with (tmp_path / "export.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return tmp_path / "export.csv"


def similarity(log: Path, *options: str) -> int:
    return main(["similarity", str(log), *COLUMNS, "--out", str(log.parent / "out"), *options])


def test_like_stations_are_grouped_and_drawn(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert similarity(log) == 0
    printed = capsys.readouterr().out
    assert "4 stations with 25 rows each" in printed
    assert "[red]north" in printed
    assert "note: similarity is a ranking" in printed
    assert (log.parent / "out" / "similarity.png").read_bytes().startswith(b"\x89PNG")
    stored = [TaskMatrix.load(log.parent / "out" / f"similarity.{suffix}") for suffix in ("npz", "csv")]
    for alike in stored:
        assert sorted(sorted(group) for group in alike.groups(alike=0.7)) == [
            ["=south", "[red]north"],
            ["east", "west"],
        ]
    assert np.array_equal(stored[0].matrix, stored[1].matrix)


def test_where_all_pairs_are_equally_alike_none_is_called_least(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    even = TaskMatrix(tuple(sorted(NAMES)), 0.8 + 0.2 * np.eye(4), "embedding")
    monkeypatch.setattr("kinband.cli.similarity._measured", lambda *_, **__: Shards((even,), 0.0, 0.0))
    assert similarity(log) == 0
    printed = capsys.readouterr().out
    assert "All pairs are equally alike: 0.80" in printed
    assert "Most alike" not in printed
    assert "Least alike" not in printed
    assert similarity(log, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["all_equal"]
    assert answer["least_alike"] == []


def test_json_holds_what_a_controller_of_the_same_log_would_find(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert similarity(log, "--json", "--seed", "3") == 0
    answer = json.loads(capsys.readouterr().out)
    trace = Trace.read(log, {"station": "cell", "reward": "good", "configuration": ["tilt"]})
    alike = Controller.from_trace(trace, similarity="embedding", seed=3).similarity
    pairs = [alike.matrix[i, j] for i in range(4) for j in range(i)]
    assert answer["median_likeness"] == pytest.approx(np.median(pairs))
    assert answer["most_alike"][0]["likeness"] == pytest.approx(max(pairs))
    assert answer["least_alike"][0]["likeness"] == pytest.approx(min(pairs))
    assert answer["stations"] == dict.fromkeys(alike.stations, 25)
    assert sorted(map(sorted, answer["groups"])) == [["=south", "[red]north"], ["east", "west"]]


@pytest.mark.parametrize("sigma", ["median", "median_norm", "likelihood"])
def test_every_rule_of_the_embedding_can_be_asked_for(
    sigma: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert similarity(log, "--sigma", sigma, "--rows", "12", "--json") == 0
    assert json.loads(capsys.readouterr().out)["details"]["sigma_rule"] == sigma


@pytest.mark.parametrize("method", ["prediction", "coregionalisation", "joint"])
def test_every_method_tells_opposites_apart(method: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert similarity(log, "--method", method, "--rows", "15", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["method"] == method
    assert sorted(map(sorted, answer["groups"])) == [["=south", "[red]north"], ["east", "west"]]


def test_groups_of_joint_are_those_clearly_more_alike_than_the_median_pair(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert similarity(log, "--method", "joint", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["alike"] == pytest.approx((answer["median_likeness"] + answer["most_alike"][0]["likeness"]) / 2)
    assert similarity(log, "--method", "joint") == 0
    said = f"{answer['alike']:.2f} alike or more on average (halfway from the median pair to the most alike):"
    assert said in capsys.readouterr().out
    assert similarity(log, "--method", "joint", "--alike", "0.95") == 0
    printed = capsys.readouterr().out
    assert "0.95 alike or more on average:" in printed
    assert "in no group: " in printed


def test_joint_keeps_the_usual_level_where_no_pair_stands_out(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    even = TaskMatrix(tuple(sorted(NAMES)), 0.8 + 0.2 * np.eye(4), "joint")
    monkeypatch.setattr("kinband.cli.similarity._measured", lambda *_, **__: Shards((even,), 0.0, 0.0))
    assert similarity(log, "--method", "joint") == 0
    assert "0.7 alike or more on average:" in capsys.readouterr().out


def test_fewer_rows_are_drawn_when_asked_for_and_said(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert similarity(log, "--rows", "8") == 0
    printed = capsys.readouterr().out
    assert "32 of 100 rows of 4 stations, drawn at random, at most 8 a station" in printed
    assert "tells in part who is like whom: fewer than 20 rows, so that similarity is a guess: =south" in printed


@pytest.mark.parametrize("counts", [[1, 5, 9], [4, 4, 4], [100, 2, 50, 1]])
@pytest.mark.parametrize("most", [6, 12, 40])
def test_rows_are_shared_out_evenly(counts: list[int], most: int) -> None:
    share = even_share(counts, most=most)
    assert sum(min(count, share) for count in counts) <= most
    if share < max(counts):
        assert sum(min(count, share + 1) for count in counts) > most


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--method", "magic"], "--method"),
        (["--sigma", "magic"], "--sigma"),
        (["--method", "prediction", "--sigma", "median"], "--sigma belongs to --method embedding"),
        (["--alike", "2"], "--alike"),
        (["--rows", "0"], "--rows"),
        (["--station", "cells"], "did you mean 'cell'?"),
        (["--time", "good"], "one role"),
        (["--delimiter", ".", "--decimal-point", "."], "must differ"),
        (["--samples", "load"], "sample count must be at least 1"),
        (["--category", "load"], "--category names 'load', which is not a knob: name it with --configuration load too"),
        (["--ignore", "lod"], "no column 'lod' (to ignore), did you mean 'load'?"),
        (["--reward-range", "0", "0.5"], "in line"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    options: list[str], sentence: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert similarity(log, *options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["similarity", "evaluate"])
@pytest.mark.parametrize(("column", "large"), [("good", "1.7e308"), ("good", "-1e160"), ("load", "1e200")])
def test_a_number_too_large_to_be_squared_gets_one_sentence(
    command: str, column: str, large: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with log.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[7][column] = large
    with log.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    out = ["--out", str(log.parent / "out")] if command == "similarity" else ["--policy", "tilt=3"]
    assert main([command, str(log), *COLUMNS, *out]) == 2
    error = capsys.readouterr().err
    assert f"{float(large):g}" in error
    assert "too large to compute with" in error
    assert len(error.strip().splitlines()) == 1


def test_one_station_has_nobody_to_be_like(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.csv"
    path.write_text("cell,tilt,good\na,1,0.5\na,2,0.6\n", encoding="utf-8")
    assert main(["similarity", str(path), *COLUMNS]) == 2
    assert "holds one station, 'a'" in capsys.readouterr().err


def test_another_delimiter_is_suggested_as_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("cell;tilt;good\na;1;0.5\nb;2;0.6\n", encoding="utf-8")
    assert main(["similarity", str(path), *COLUMNS, "--delimiter", ","]) == 2
    assert "pass --delimiter ';'" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similarity", str(log), *COLUMNS, "--out", str(log)]) == 2
    assert str(log) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("good", "rows", "sentence"),
    [
        (["0.5"] * 40, 20, "all rewards are 0.5: there is nothing to learn"),
        (["0.5", "0.75"], 1, "every station has one row only"),
        ([f"{y:g}" for y in [*np.linspace(0.3, 0.9, 20), *np.linspace(30, 90, 20)]], 20, "mix shares and per cent"),
        (
            [*map(str, np.linspace(0.3, 0.9, 39)), "bad"],
            20,
            "column 'good': 1 cell is not a number, first 'bad' in line 41",
        ),
    ],
)
def test_a_log_from_which_nothing_can_be_learned_is_refused(
    good: list[str], rows: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{'ab'[i // rows]},{i % 5},{y}" for i, y in enumerate(good)]
    (tmp_path / "log.csv").write_text("\n".join(["cell,tilt,good", *lines]) + "\n", encoding="utf-8")
    assert main(["similarity", str(tmp_path / "log.csv"), *COLUMNS, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_two_units_are_taken_when_the_range_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [*np.linspace(0.3, 0.9, 20), *np.linspace(30, 90, 20)]
    lines = [f"{'ab'[i // 20]},{i % 5},{y:g}" for i, y in enumerate(good)]
    (tmp_path / "log.csv").write_text("\n".join(["cell,tilt,good", *lines]) + "\n", encoding="utf-8")
    options = ["--reward-range", "0", "100", "--out", str(tmp_path / "out"), "--json"]
    assert main(["similarity", str(tmp_path / "log.csv"), *COLUMNS, *options]) == 0


def test_names_that_look_like_numbers_can_be_marked(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for options in ([], ["--category", "tilt"]):
        assert similarity(log, "--json", *options) == 0
        found.append(json.loads(capsys.readouterr().out)["median_likeness"])
    columns = {"station": "cell", "reward": "good", "configuration": ["tilt"]}
    trace = Trace.read(log, columns)
    marked = trace.with_space(ConfigurationSpace.from_list(trace.space(), categories=["tilt"]))
    for median, used in zip(found, (trace, marked), strict=True):
        K_Z = Controller.from_trace(used, similarity="embedding", seed=0).similarity.matrix
        assert median == pytest.approx(np.median([K_Z[i, j] for i in range(4) for j in range(i)]))
