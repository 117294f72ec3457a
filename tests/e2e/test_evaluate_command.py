"""`kinband evaluate` as an engineer meets it: three estimates, a verdict, warnings, and one sentence on nonsense."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, TaskMatrix, Trace
from kinband.cli import main
from kinband.ope import evaluate as evaluation_of

COLUMNS = [
    "--station",
    "cell",
    "--time",
    "hour",
    "--reward",
    "good",
    "--configuration",
    "tilt",
    "--similarity",
    "pooled",
]
NAMES = {"station": "cell", "time": "hour", "reward": "good", "configuration": ["tilt"], "ignore": ["chance"]}


def export(rows: int = 80) -> dict[str, Any]:
    """Rewards that peak at tilt 4; cells mostly run 2, and [b] never ran 6."""
    rng = np.random.default_rng(8)
    cells = np.tile(["[b]a", "=b", "c"], rows)
    p = np.where((cells == "=b")[:, None], [0.2, 0.6, 0.2, 0.0], [0.2, 0.4, 0.2, 0.2])
    arm = (rng.random(len(cells))[:, None] > p.cumsum(axis=1)).sum(axis=1)
    load = rng.random(len(cells))
    good = 0.9 - 0.05 * (2 * arm - 4) ** 2 / 4 - 0.1 * load + 0.02 * rng.normal(size=len(cells))
    return {
        "cell": cells,
        "hour": np.arange(len(cells)),
        "load": load.round(4),
        "tilt": 2 * arm,
        "good": good.round(4),
        "chance": p[np.arange(len(cells)), arm],
    }


def write(path: Path, columns: dict[str, Any], *, delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "export.csv", export())


def evaluate(log: Path, *options: str) -> int:
    return main(["evaluate", str(log), *COLUMNS, *options])


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1
    return error


def test_a_log_becomes_three_estimates_a_verdict_and_warnings(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(log, "--propensity", "chance", "--policy", "tilt=6") == 0
    printed = capsys.readouterr().out
    assert "240 rows of 3 stations; state: load; knobs: tilt" in printed
    for word in ("model", "inverse", "doubly", "the usual", "the log ", "effective"):
        assert word in printed
    assert "Propensities given" in printed
    assert "tilt=6 everywhere makes no clear difference" in printed
    assert "warning: 33% of the decisions want what the station never ran" in printed
    assert "=b (100%)" in printed
    assert max(map(len, printed.splitlines()[5:14])) <= 80


def test_one_setting_a_station_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export()
    columns["tilt"] = np.unique(columns["cell"], return_inverse=True)[1]
    assert evaluate(write(tmp_path / "log.csv", columns)) == 2
    assert "cannot tell what another policy would have earned: every station ran one setting only" in refusal(capsys)


def test_json_says_the_same_as_the_library(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(log, "--json", "--seed", "4", "--propensity", "chance", "--folds", "3") == 0
    answer = json.loads(capsys.readouterr().out)
    chance = np.array(export()["chance"])
    expected = evaluation_of(Trace.read(log, NAMES), propensity=chance, similarity="pooled", folds=3, seed=4).to_dict()
    assert {key: answer[key] for key in expected} == json.loads(json.dumps(expected))
    assert answer["policy"] == "what kinband recommends"
    gain = answer["estimates"][2]["against_usual"]
    low, high = gain["low"], gain["high"]
    assert 0 < low < 0.05 < high  # tilt 4 pays 0.05 more than tilt 2, which is usual
    assert "would have earned more" in answer["answer"]


def test_propensities_are_estimated_where_none_are_given(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(log, "--ignore", "chance", "--policy", "usual", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["propensities"].startswith("estimated from how often")
    assert answer["estimates"][2]["against_usual"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_cut_weights_are_said(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(log, "--propensity", "chance", "--policy", "tilt=0", "--clip", "3") == 0
    assert "weights were cut at 3" in capsys.readouterr().out


def test_files_with_semicolons_and_decimal_commas_are_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export()
    for name in ("good", "chance", "load"):
        columns[name] = [f"{value}".replace(".", ",") for value in columns[name]]
    write(log, columns, delimiter=";")
    marks = ["--delimiter", ";", "--decimal-point", ",", "--propensity", "chance", "--policy", "tilt=2"]
    assert evaluate(log, *marks, "--json") == 0
    assert json.loads(capsys.readouterr().out)["propensities"] == "given"


def test_several_knobs_and_names_make_one_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export() | {"scheduler": np.where(np.arange(240) % 2, "rr", "pf"), "boost": np.arange(240) % 3 == 0}
    path = write(tmp_path / "knobs.csv", columns)
    knobs = ["--configuration", "scheduler", "--configuration", "boost", "--ignore", "chance"]
    given = ["--policy", "scheduler=pf", "--policy", "tilt=2", "--policy", "boost=false"]
    assert evaluate(path, *knobs, *given, "--json") == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "tilt=2, scheduler=pf, boost=False everywhere"
    assert evaluate(path, *knobs, "--policy", "boost=maybe") == 2
    assert "--policy boost= takes true or false, got 'maybe'" in refusal(capsys)


def test_a_log_that_kinband_wrote_and_a_similarity_of_before_are_used(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = Trace.read(log, NAMES).with_space(ConfigurationSpace(tilt=range(0, 10, 2)))
    trace.write(log.parent / "log.parquet")
    TaskMatrix(trace.stations, np.eye(3), "by hand").save(log.parent / "alike.npz")
    options = ["--similarity", str(log.parent / "alike.npz"), "--policy", "tilt=8", "--json"]
    assert main(["evaluate", str(log.parent / "log.parquet"), *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["estimates"][1]["value"] == {"value": None, "low": None, "high": None}
    assert "cannot be judged" in answer["answer"]
    assert answer["support"]["never_tried"] == 1.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--policy", "tilt=5"], "knob 'tilt' has no value 5"),
        (["--policy", "tilt=low"], "--policy tilt= takes a number, got 'low'"),
        (["--policy", "power=3"], "there is no knob 'power'"),
        (["--policy", "best"], "--policy takes recommend, usual or tilt=VALUE, got 'best'"),
        (["--policy", "usual", "--policy", "tilt=2"], "'usual' among others"),
        (["--propensity", "odds"], "there is no column 'odds'"),
        (["--propensity", "cell"], "column 'cell' must hold probabilities, row 1 has '[b]a'"),
        (["--propensity", "hour"], "propensities must lie above 0 and not above 1"),
        (["--propensity", "tiny"], "check --propensity"),
        (["--similarity", "kinship"], "kinship"),
        (["--folds", "1"], "--folds"),
        (["--learn-share", "2"], "--learn-share"),
        (["--reward", "flat"], "all rewards are 0.5"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    tmp_path: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "export.csv", export() | {"flat": [0.5] * 240, "tiny": [1e-4] * 240})
    assert evaluate(path, *options) == 2
    assert sentence in refusal(capsys)


def test_too_short_a_log_and_options_for_the_bundled_one_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = write(tmp_path / "short.csv", export(8))
    assert evaluate(short, "--ignore", "chance") == 2
    assert "leaves 12 to judge a policy by" in refusal(capsys)
    assert evaluate(Path("bundled")) == 2
    assert "leave these options out" in refusal(capsys)
