"""A reward of several columns on the command line: the same answer as for one column, and one sentence on nonsense."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kinband.cli import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log whose column `both` is 0.8 of `good` plus 0.05 of `rate-mbps`."""
    rng = np.random.default_rng(4)
    n = 60
    tilt = rng.integers(0, 6, n)
    good, rate = 0.5 + 0.05 * tilt + 0.01 * rng.normal(size=n), 4 - 0.3 * tilt + 0.1 * rng.normal(size=n)
    columns = {"station": np.array(["a", "b", "c"])[np.arange(n) % 3], "tilt": tilt, "good": good, "rate-mbps": rate}
    columns["both"] = 0.8 * good + 0.05 * rate
    with (tmp_path / "export.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    return tmp_path / "export.csv"


def similarity(log: Path, *options: str) -> int:
    where = ["--configuration", "tilt", "--json", "--out", str(log.parent / "out")]
    return main(["similarity", str(log), *where, *options])


def test_a_sum_of_columns_is_as_good_as_a_column_that_holds_it(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert similarity(log, "--reward", "0.8*good+0.05*'rate-mbps'", "--ignore", "both") == 0
    summed = json.loads(capsys.readouterr().out)
    assert similarity(log, "--reward", "both", "--ignore", "good", "--ignore", "rate-mbps") == 0
    assert json.loads(capsys.readouterr().out) == summed


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ("0.8*goood", "there is no column 'goood' (the reward), did you mean 'good'?"),
        ("high*good", "'high' in the reward 'high*good' is not a number"),
        ("0.8*good+0.2*", "ends without a column"),
        ("0.8*good+0.2*good", "names 'good' twice"),
        ("0.8*rate-mbps", "there is no column 'rate'"),
        ("0.8*good+0.1*tilt", "column 'tilt' is used as reward and as configuration"),
        ("0.8*good+0.1*station", "column 'station' is used as reward and as station"),
    ],
)
def test_a_sum_that_cannot_be_ends_with_one_sentence_and_exit_code_two(
    log: Path, capsys: pytest.CaptureFixture[str], reward: str, said: str
) -> None:
    assert similarity(log, "--reward", reward) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert said in error
    assert "Traceback" not in error
