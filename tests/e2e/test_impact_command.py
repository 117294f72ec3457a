"""`kinband impact` as an engineer meets it: a log and what was changed in, what it brought out; or one sentence."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband.cli import main

STATIONS, DAYS, CUT = 16, 12, 8
LOSER = "s01"


def write_log(folder: Path, *, changed: int = 4, dated: bool = True) -> Path:
    """A city with an evening; the first stations change on the eighth day, one for the worse."""
    rng = np.random.default_rng(8)
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["station", "time" if dated else "load", "tilt", "reward", "drops"])
        for hour in range(24 * DAYS):
            evening = 0.1 * (hour % 24 > 17)
            for n in range(STATIONS):
                on = n < changed and hour >= 24 * CUT
                good = 0.8 - evening + (-0.06 if n == 1 else 0.05) * on + 0.01 * rng.normal()
                when = str(np.datetime64("2024-05-01T00:00") + np.timedelta64(hour, "h")) if dated else hour
                writer.writerow([f"s{n:02d}", when, 4 if on else 2, round(good, 4), round(0.01 - 0.1 * good, 5)])
    return folder / "log.csv"


def run(folder: Path, *options: str) -> int:
    log = str(folder / "log.csv")
    return main(["impact", log, "--configuration", "tilt", "--out", str(folder / "out"), *options])


def test_what_changes_brought_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    assert run(tmp_path, "--kpi", "drops") == 0
    said = capsys.readouterr().out
    assert "4 changes of 4 judged" in said
    assert "3 gained for certain, 1 lost, 0 cannot be told" in said
    assert "drops: " in said
    page = (tmp_path / "out" / "impact.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    with (tmp_path / "out" / "impact.csv").open(encoding="utf-8") as file:
        gained = {row["station"]: float(row["gain"]) > 0 for row in csv.DictReader(file)}
    assert gained == {"s00": True, LOSER: False, "s02": True, "s03": True}


def test_a_plan_says_what_was_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    (tmp_path / "plan.csv").write_text("station,set_tilt,expected_gain\ns00,4,0.04\ns01,4,0.02\ns09,4,0.01\n")
    assert run(tmp_path, "--changes", str(tmp_path), "--month", "2024-05", "--json") == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["predicted_sign_right"]["value"] == 0.5
    assert answer["certain_signs"] == {"right": 1, "of": 2}
    assert [one["why"] for one in answer["unjudged"]] == ["never seen"]
    gains = {one["station"]: one["gains"]["reward"] for one in answer["changes"]}
    assert gains["s00"]["low"] < 0.05 < gains["s00"]["high"]
    assert gains[LOSER]["low"] < -0.06 < gains[LOSER]["high"]


def test_a_plan_in_waves_is_told_to_go_on_or_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    plan = tmp_path / "plan.csv"
    for stations, said in ((("s00", "s02"), "go on: what was carried out of the plan gained."), (("s01",), "stop: ")):
        plan.write_text(
            "station,set_tilt,wave\n" + "".join(f"{name},4,1\n" for name in (*stations,)) + "s09,4,held back\n"
        )
        assert run(tmp_path, "--changes", str(plan)) == 0
        printed = capsys.readouterr().out
        assert said in printed
        assert "s09" not in printed
        assert run(tmp_path, "--changes", str(plan), "--json") == 0
        assert json.loads(capsys.readouterr().out)["go_on"] is said.startswith("go on")


def test_one_change_alone_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path)
    assert run(tmp_path, "--only", LOSER, "--before", "3d", "--after", "24 slots", "--json") == 0
    (only,) = json.loads(capsys.readouterr().out)["changes"]
    assert (only["station"], only["slots_before"], only["slots_after"]) == (LOSER, 72, 24)


@pytest.mark.parametrize(
    ("log", "options", "sentence"),
    [
        ({"changed": STATIONS}, [], "nothing can be said of 16 changes (no controls)"),
        ({"changed": 12}, [], "only 4 stations did not change"),
        ({"changed": 0}, [], "no station of the log changes"),
        ({}, ["--month", "2024-06"], "the log shows no change for good in 2024-06"),
        ({}, ["--month", "June"], "--month takes a month such as 2024-05"),
        ({}, ["--only", "s99"], "--only names 's99'"),
        ({}, ["--before", "long"], "--before takes a span"),
        ({"dated": False}, [], "the log has no times"),
    ],
)
def test_where_nothing_can_be_said_there_is_one_sentence_and_no_number(
    log: dict[str, Any], options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, **log)
    assert run(tmp_path, *options) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert "interval" not in told.out + told.err
    assert not (tmp_path / "out" / "impact.html").exists()


def test_a_plan_made_after_all_that_the_log_holds_is_not_seen_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it was learned from are changes, too: none of them is its doing, and no wave may go on for them."""
    write_log(tmp_path)
    end = str(np.datetime64("2024-05-01T23:00") + np.timedelta64(24 * (DAYS - 1), "h"))
    rows = "".join(f"{name},4,0.04,{end},1\n" for name in ("s00", "s02"))
    (tmp_path / "plan.csv").write_text(f"station,set_tilt,expected_gain,last_row,wave\n{rows}")
    assert run(tmp_path, "--changes", str(tmp_path)) == 2
    told = capsys.readouterr()
    assert "nothing of what was planned is seen in the log, 2 changes: the log has no row after 2024-05-12" in told.err
    assert "go on" not in told.out + told.err
