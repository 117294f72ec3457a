"""`kinband recommend` as an engineer meets it: two files, a plan and its roll-back, and one sentence on nonsense."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, TaskMatrix, Trace
from kinband.cli import main
from kinband.planning import learn_network, periods_of, plan_network, planned_for, read_present

BEST = {"3714": -102, "3715": -101, "0012": -93}
STATES = "cell,users,threshold_dbm\n3714,40,-92\n3715,55,-101\n0012,30,-102\n9999,30,-100\n"
COLUMNS = ["--station", "cell", "--reward", "good", "--configuration", "threshold_dbm", "--similarity", "pooled"]


def export(rows: int = 30) -> dict[str, Any]:
    """An export whose rewards peak near each cell's own threshold."""
    rng = np.random.default_rng(2)
    cells = np.repeat(list(BEST), rows)
    threshold = rng.integers(-110, -84, len(cells))
    peak = np.array([BEST[cell] for cell in cells.tolist()])
    good = 0.9 - ((threshold - peak) / 30) ** 2 + 0.01 * rng.normal(size=len(cells))
    return {"cell": cells, "users": rng.integers(5, 90, len(cells)), "threshold_dbm": threshold, "good": good.round(4)}


def write(path: Path, columns: dict[str, Any], *, delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "export.csv", export())
    (tmp_path / "states.csv").write_text(STATES, encoding="utf-8")
    return tmp_path


def recommend(folder: Path, *options: str, log: str = "export.csv", states: str = "states.csv") -> int:
    files = [str(folder / log), "--now", str(folder / states)]
    return main(["recommend", *files, *COLUMNS, "--out", str(folder / "plan"), *options])


def test_two_files_become_a_plan_with_reasons_and_its_roll_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend(folder, "--similarity", "prediction") == 0
    printed = capsys.readouterr().out
    assert "90 rows of 3 stations; state: users; knobs: threshold_dbm" in printed
    assert "not in the log" in printed
    plan, rollback = rows_of(folder / "plan" / "plan.csv"), rows_of(folder / "plan" / "rollback.csv")
    changed = {row["station"]: int(row["set_threshold_dbm"]) for row in plan}
    assert changed["3714"] in range(-105, -98)
    assert changed["0012"] in range(-96, -89)
    assert all(float(row["gain_low"]) > 0 and row["reason"] for row in plan)
    present = {"3714": "-92", "3715": "-101", "0012": "-102"}
    assert {row["station"]: row["set_threshold_dbm"] for row in rollback} == {s: present[s] for s in changed}
    left = {row["station"]: row["why"] for row in rows_of(folder / "plan" / "left_alone.csv")}
    assert left["9999"] == "not in the log"
    assert set(left) | set(changed) == {*present, "9999"}


def test_json_says_the_same_as_the_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(folder, "--json", "--seed", "4") == 0
    answer = json.loads(capsys.readouterr().out)
    names = {"station": "cell", "reward": "good", "configuration": ["threshold_dbm"]}
    trace = Trace.read(folder / "export.csv", names)
    network = learn_network(trace, similarity="pooled", seed=4)
    now = read_present(folder / "states.csv", trace.space(), state=["users"], station="cell")
    wanted = planned_for(now, periods_of(trace))
    plan = plan_network(network, wanted, workers=1, reward="good", period="all states of the log")
    expected = plan.to_dict()
    assert {key: answer[key] for key in expected} == json.loads(json.dumps(expected))
    assert (answer["rows"], answer["rows_used"], answer["similarity"]) == (90, 90, "pooled")
    assert all(Path(file).is_file() for file in answer["files"])


def test_gains_are_told_in_users_where_rewards_are_shares_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = export()
    counts = np.where(columns["cell"] == "3714", 200, 50) + np.tile([-10, 10], 45)
    write(folder / "export.csv", columns | {"good": columns["good"].clip(0, 1), "sessions": counts})
    assert recommend(folder, "--samples", "sessions", "--json") == 0
    for change in json.loads(capsys.readouterr().out)["changes"]:
        assert change["users"] == pytest.approx(change["gain"] * (200 if change["station"] == "3714" else 50))


def test_steps_and_limits_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--step", "threshold_dbm=3", "--max-changes", "1", "--explore", "--beta", "0.5", "--json"]
    assert recommend(folder, *options) == 0
    answer = json.loads(capsys.readouterr().out)
    (change,) = answer["changes"]
    assert answer["explore"]
    assert abs(change["proposed"]["threshold_dbm"] - change["present"]["threshold_dbm"]) <= 3


def test_a_plan_goes_out_in_waves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(folder, "--waves", "2", "--hold-back", "0.01", "--similarity", "prediction") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "In 1 wave of 1; 1 held back by lot." in printed
    assert f"kinband apply {folder / 'plan'} --wave 1".replace(" ", "") in printed.replace(" ", "")
    assert sorted(row["wave"] for row in rows_of(folder / "plan" / "plan.csv")) == ["1", "held back"]
    assert len(rows_of(folder / "plan" / "rollback.csv")) == 2
    assert recommend(folder, "--hold-back", "10%", "--replace") == 2
    assert "--hold-back needs --waves" in capsys.readouterr().err
    assert recommend(folder, "--waves", "2", "--hold-back", "ten", "--replace") == 2
    assert "takes a share such as 10% or 0.1" in capsys.readouterr().err


def test_a_plan_where_nothing_is_worth_it_still_writes_its_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend(folder, "--least-gain", "10") == 0
    assert (
        "None of 4 stations changes.\nLeft alone: 2 gain too small, 1 best already, 1 not in the log."
        in capsys.readouterr().out
    )
    assert rows_of(folder / "plan" / "rollback.csv") == []
    assert len(rows_of(folder / "plan" / "left_alone.csv")) == 4


def test_a_similarity_that_was_measured_before_is_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TaskMatrix(("0012", "3714", "3715"), np.eye(3), "by hand").save(folder / "alike.npz")
    assert recommend(folder, "--similarity", str(folder / "alike.npz"), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert {change["borrowed"] for change in answer["changes"]} == {0.0}
    assert recommend(folder, "--similarity", str(folder / "nowhere.npz"), "--replace") == 2


def test_a_similarity_that_lacks_a_station_of_the_log_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TaskMatrix(("0012", "3714"), np.eye(2), "by hand").save(folder / "alike.npz")
    assert recommend(folder, "--similarity", str(folder / "alike.npz")) == 2
    error = capsys.readouterr().err
    assert "does not know station '3715'" in error
    assert len(error.strip().splitlines()) == 1


def test_of_a_large_log_some_rows_of_each_station_are_used_and_it_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend(folder, "--rows", "12") == 0
    assert "36 of 90 rows of 3 stations, drawn at random, at most 12 a station" in capsys.readouterr().out


def test_every_row_of_a_long_log_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "long.csv", export(4000))
    assert recommend(folder, "--json", log="long.csv") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rows"], answer["rows_used"]) == (12_000, 12_000)
    (change,) = (one for one in answer["changes"] if one["station"] == "3714")
    assert change["own_rows"] == 4_000


def test_exports_with_semicolons_and_decimal_commas_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export()
    columns["good"] = [f"{value}".replace(".", ",") for value in columns["good"]]
    write(folder / "export.csv", columns, delimiter=";")
    (folder / "states.csv").write_text(STATES.replace(",", ";").replace("40", "40,5"), encoding="utf-8")
    assert recommend(folder, "--delimiter", ";", "--decimal-point", ",", "--json") == 0
    assert json.loads(capsys.readouterr().out)["changes"]


def test_a_log_that_kinband_wrote_needs_no_column_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export()
    trace = Trace.from_frame(columns, {"station": "cell", "reward": "good", "configuration": ["threshold_dbm"]})
    trace.with_space(ConfigurationSpace(threshold_dbm=range(-112, -80))).write(folder / "log.parquet")
    (folder / "states.csv").write_text(STATES.replace("cell", "station").replace("-92", "-81"), encoding="utf-8")
    files = [str(folder / "log.parquet"), "--now", str(folder / "states.csv"), "--out", str(folder / "plan")]
    assert main(["recommend", *files, "--similarity", "pooled", "--json"]) == 0
    left = json.loads(capsys.readouterr().out)["left_alone"]
    assert all(station["why"] != "configuration unknown" for station in left)


def test_notes_of_the_library_are_passed_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "export.csv", export() | {"users": [7] * 90})
    (folder / "states.csv").write_text("cell,users,threshold_dbm\n3714,7,-92\n3715,8,-92\n", encoding="utf-8")
    assert recommend(folder, "--for", "now") == 0
    printed = capsys.readouterr().out
    assert "note: the state feature(s) 'users' never vary" in printed
    left = {row["station"]: row["reason"] for row in rows_of(folder / "plan" / "left_alone.csv")}
    assert "its users is 8, the log has only ever 7" in left["3715"]


def test_a_state_that_is_the_reward_is_named_with_the_option_that_leaves_it_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = export()
    write(folder / "leak.csv", {**columns, "thr mbps": 3 + 2 * columns["good"]})
    states = (folder / "states.csv").read_text().splitlines()
    lines = [f"{states[0]},thr mbps", *(f"{line},4.5" for line in states[1:])]
    (folder / "now.csv").write_text("\n".join(lines) + "\n")
    named = ["--state", "users", "--state", "thr mbps"]
    assert recommend(folder, *named, log="leak.csv", states="now.csv") == 0
    assert "note: state column 'thr mbps' is almost the same as the reward" in (printed := capsys.readouterr().out)
    assert (
        "measured in the same slot, leave it out (columns={'ignore': ...}; on the command line, --ignore 'thr mbps')"
        in printed
    )
    assert main(["evaluate", str(folder / "leak.csv"), *COLUMNS, *named, "--policy", "usual"]) == 0
    printed = capsys.readouterr().out
    assert (
        "measured in the same slot, leave it out (columns={'ignore': ...}; on the command line, --ignore 'thr mbps')"
        in printed
    )
    assert "name its column, --time)" in printed


def test_one_station_is_spoken_of_as_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "now.csv").write_text("".join(STATES.splitlines(keepends=True)[:2]))
    assert recommend(folder, states="now.csv") == 0
    assert "1 of 1 station changes, for a mean gain of" in capsys.readouterr().out


def test_of_several_knobs_those_that_move_are_shown_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    tilt = rng.integers(0, 4, 80)
    good = 0.5 + 0.1 * tilt + 0.01 * rng.normal(size=80)
    columns = {"cell": ["a", "b"] * 40, "tilt": tilt, "power": rng.choice([40, 43], 80), "good": good}
    write(folder / "export.csv", columns)
    (folder / "states.csv").write_text("cell,tilt,power\na,0,43\n", encoding="utf-8")
    knobs = ["--configuration", "tilt", "--configuration", "power", "--step", "power=0"]
    files = [str(folder / "export.csv"), "--now", str(folder / "states.csv"), "--out", str(folder / "plan")]
    names = ["--station", "cell", "--reward", "good", "--similarity", "pooled"]
    assert main(["recommend", *files, *names, *knobs]) == 0
    printed = capsys.readouterr().out
    assert "tilt 0 → 3" in printed
    assert "power 43" not in printed
    (row,) = rows_of(folder / "plan" / "plan.csv")
    assert (row["set_tilt"], row["set_power"]) == ("3", "43")


def test_a_plan_is_replaced_only_when_asked_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(folder) == 0
    capsys.readouterr()
    assert recommend(folder) == 2
    error = capsys.readouterr().err
    assert "already holds a plan" in error
    assert "--replace" in error
    assert recommend(folder, "--replace") == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--reward", "goods"], "did you mean 'good'?; the columns are"),
        (["--configuration", "tilt"], "name the right one with --"),
        (["--state", "load"], "no column 'load'"),
        (["--reward-range", "0.95", "1"], "widen --reward-range"),
        (["--reward-range", "1", "0"], "LOW below HIGH"),
        (["--delimiter", ",,"], "--delimiter is one character"),
        (["--step", "threshold_dbm"], "--step takes KNOB=VALUE"),
        (["--step", "threshold_dbm=far"], "--step takes KNOB=VALUE"),
        (["--step", "threshold_dbm=-1"], "must not be negative"),
        (["--step", "tilt=1"], "no knob 'tilt'"),
        (["--similarity", "magic"], "no similarity is called 'magic'"),
        (["--least-gain", "-1"], "--least-gain"),
        (["--max-changes", "0"], "--max-changes"),
        (["--rows", "0"], "--rows"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    options: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend(folder, *options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not (folder / "plan").exists()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("export.csv", "", "is empty"),
        ("export.csv", "cell,users,threshold_dbm,good\n", "no rows"),
        ("export.csv", "cell,users,threshold_dbm,good\na,3,-99,\na,4,-99,0.5\n", "1 cell is missing, first in line 2"),
        ("states.csv", "", "is empty"),
        ("states.csv", "cell,users,threshold_dbm\n", "no rows"),
        ("states.csv", "station,users,threshold_dbm\n3714,4,-99\n", "lacks the column 'cell' (the station)"),
        ("states.csv", "cell,users,threshold_dbm\n\n3714,many,-99\n", "must hold numbers, got 'many' in line 3 of"),
        ("states.csv", "cell,users,threshold_dbm\n3714,4\n", "line 2 has 2 column(s), the header has 3"),
        ("export.csv", "cell,users,threshold_dbm,good\na,3,-99,1\nb,4,-98,0\n", "every station has one row only"),
        ("export.csv", "cell,users,threshold_dbm,good\na,3,-99,1\na,4,-98,1\n", "all rewards are 1"),
        ("states.csv", "cell,users,threshold_dbm\n3714,4,-99\n3714,5,-99\n", "lists station '3714' 2 times"),
        ("states.csv", "cell,users,threshold_dbm\n3714,,-99\n", "is empty"),
    ],
)
def test_a_file_that_cannot_be_right_gets_one_sentence(
    name: str, text: str, sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    assert recommend(folder) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_a_log_without_trials_gets_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "export.csv", export() | {"threshold_dbm": np.full(90, -92)})
    assert recommend(folder) == 2
    captured = capsys.readouterr()
    said = "every row of the log ran threshold_dbm=-92: it holds no trials, and nothing can be learned about other set"
    assert said in " ".join(captured.err.split())
    assert "best already" not in captured.out


def test_a_log_of_habits_says_whose_trials_a_change_rests_on(folder: Path) -> None:
    columns = export(60)
    columns["threshold_dbm"] = np.where(columns["cell"] == "3715", -101, np.resize([-101, -93], 180))
    ran = columns["threshold_dbm"]
    columns["good"] = 0.7 + 0.2 * (ran == -93) + 0.01 * np.random.default_rng(1).normal(size=180)
    write(folder / "export.csv", columns)
    (folder / "states.csv").write_text("cell,users,threshold_dbm\n3715,55,-101\n", encoding="utf-8")
    assert recommend(folder) == 0
    (row,) = rows_of(folder / "plan" / "plan.csv")
    assert "3715 never ran threshold_dbm=-93; this rests on 2 similar stations that did." in row["reason"]


def test_rewards_in_per_cent_are_noticed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export()
    write(folder / "export.csv", columns | {"good": (100 * columns["good"].clip(0, 1)).round(2)})
    assert recommend(folder, "--reward-range", "0", "1") == 2
    assert "they look like per cent, say so with --per-cent" in capsys.readouterr().err


def test_rewards_in_per_cent_are_planned_with_as_shares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = export()
    answers = []
    for good, option in ((columns["good"], []), (100 * columns["good"], ["--per-cent"])):
        write(folder / "export.csv", columns | {"good": good})
        assert recommend(folder, "--json", "--replace", *option) == 0
        answers.append(json.loads(capsys.readouterr().out))
    shares, per_cent = ([(c["station"], c["proposed"]) for c in answer["changes"]] for answer in answers)
    assert shares == per_cent
    assert [c["gain"] for c in answers[0]["changes"]] == pytest.approx(
        [c["gain"] for c in answers[1]["changes"]], rel=1e-4
    )


def test_what_one_station_lacks_does_not_stop_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "cell,users,threshold_dbm\n3714,,-92\n3715,4,\n0012,30,-102\n9999,20,-200\n"
    (folder / "states.csv").write_text(text, encoding="utf-8")
    assert recommend(folder, "--similarity", "independent", "--for", "now", "--json") == 0
    left = {row["station"]: row["why"] for row in json.loads(capsys.readouterr().out)["left_alone"]}
    assert (left["3714"], left["3715"]) == ("state incomplete", "configuration unknown")
    assert "0012" not in left


def test_a_cluster_that_does_not_answer_is_named_before_anything_is_learned(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kinband.cli.recommend.learn_network", lambda *_, **__: pytest.fail("it learned first"))
    assert recommend(folder, "--ray", "127.0.0.1:1") == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("blocked", ["log", "states", "out"])
def test_paths_that_lead_nowhere_are_named(blocked: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file").write_text("in the way", encoding="utf-8")
    log = str(folder / ("nowhere.csv" if blocked == "log" else "export.csv"))
    states = str(folder / ("nowhere.csv" if blocked == "states" else "states.csv"))
    out = str(folder / "file") if blocked == "out" else str(folder / "plan")
    assert main(["recommend", log, "--now", states, *COLUMNS, "--out", out]) == 2
    assert {"log": log, "states": states, "out": out}[blocked] in capsys.readouterr().err


# --- What the plan is for -------------------------------------------------------------------------------------------


def daily(folder: Path) -> None:
    """A fortnight of two cells whose best threshold is -100 by night and -90 by day; they run -90 at last."""
    rng = np.random.default_rng(4)
    hours = np.tile(np.arange(336), 2)
    threshold = rng.choice([-100, -95, -90], len(hours))
    threshold[[335, 671]] = -90
    night = hours % 24 < 16  # longer than the day
    good = 0.9 - ((threshold - np.where(night, -100, -90)) / 30) ** 2 + 0.01 * rng.normal(size=len(hours))
    time = np.datetime64("2024-03-04T00") + hours.astype("m8[h]")
    columns = {"cell": np.repeat(["a", "b"], 336), "hour": time, "users": np.where(night, 5.0, 50.0)}
    write(folder / "fortnight.csv", columns | {"threshold_dbm": threshold, "good": good.round(4)})


def planned(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    log, out = str(folder / "fortnight.csv"), str(folder / "plan")
    columns = ["--station", "cell", "--time", "hour", "--reward", "good", "--configuration", "threshold_dbm"]
    assert main(["recommend", log, *columns, "--out", out, "--replace", "--json", *options]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_plan_is_for_the_whole_day_unless_hours_are_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daily(folder)
    whole, night, day = (planned(folder, capsys, *hours) for hours in ([], ["--hours", "0-16"], ["--hours", "16-24"]))
    moved = [(one["station"], one["proposed"]["threshold_dbm"]) for one in night["changes"]]
    assert sorted(moved) == [("a", -100), ("b", -100)]
    assert not day["changes"]
    assert whole["period"] == "states as in the log's last week"
    for change in whole["changes"]:
        assert change["proposed"]["threshold_dbm"] in (-95, -100)
        assert sorted(map(int, change["by_hour"])) == list(range(24))
        mean = np.mean([one["value"] for one in change["by_hour"].values()])
        assert mean == pytest.approx(change["gain"])


def test_a_file_of_states_is_what_a_plan_is_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daily(folder)
    (folder / "event.csv").write_text("cell,users\na,5\na,6\nb,50\n", encoding="utf-8")
    answer = planned(folder, capsys, "--for", str(folder / "event.csv"))
    assert [change["station"] for change in answer["changes"]] == ["a"]
    assert answer["period"] == "the states of event.csv"
    assert [
        note for note in answer["notes"] if "one row of 1 of 2 stations, so that the plan is for one instant" in note
    ]
    (folder / "event.csv").write_text("cell,users\na,5\na,6\nb,50\nb,60\n", encoding="utf-8")
    assert not [
        note for note in planned(folder, capsys, "--for", str(folder / "event.csv"))["notes"] if "instant" in note
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--hours", "25"], "--hours takes hours of the day"),
        (["--hours", "7-"], "--hours takes hours of the day"),
        (["--hours", "5-5"], "ends at the hour it begins"),
        (["--hours", "7", "--for", "now"], "--for now has none"),
        (["--for", "tomorrow"], "--for takes week, now, or a file of states, got 'tomorrow'"),
        (["--for", "nowhere.csv"], "nowhere.csv"),
        (["--for", "empty.csv"], "lacks the column 'users'"),
    ],
)
def test_periods_that_are_none_are_refused(
    options: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("empty.csv").write_text("cell\na\n", encoding="utf-8")
    assert recommend(folder, *options) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_without_states_the_last_rows_are_the_present(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", str(folder / "export.csv"), *COLUMNS, "--out", str(folder / "plan"), "--json"]) == 0
    answer, log = json.loads(capsys.readouterr().out), rows_of(folder / "export.csv")
    last = {row["cell"]: int(row["threshold_dbm"]) for row in log}
    for one in answer["changes"] + answer["left_alone"]:
        assert one["present"]["threshold_dbm"] == last[one["station"]]


def test_a_row_that_is_skipped_still_says_what_runs_now(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (folder / "export.csv").read_text(encoding="utf-8").splitlines()
    lines += ["3714,,-100,", "3715,40,-86,n.a.", "0012,30,,0.9"]  # the last of each: no state, no reward, no knob
    (folder / "export.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = [str(folder / "export.csv"), *COLUMNS, "--skip-bad", "--out", str(folder / "plan"), "--json"]
    assert main(["recommend", *files]) == 0
    answer = json.loads(capsys.readouterr().out)
    present = {one["station"]: one["present"] for one in answer["changes"] + answer["left_alone"]}
    assert present == {"3714": {"threshold_dbm": -100}, "3715": {"threshold_dbm": -86}, "0012": {}}
    assert {left["station"]: left["why"] for left in answer["left_alone"]}["0012"] == "configuration unknown"


def test_a_file_of_what_runs_now_needs_no_state(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "states.csv").write_text("cell,threshold_dbm\n3714,-92\n", encoding="utf-8")
    assert recommend(folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["present"] == {"threshold_dbm": -92}
    assert recommend(folder, "--for", "now", "--replace") == 2
    assert "lacks the column 'users' (a state feature)" in capsys.readouterr().err


def test_guard_rails_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rails = "knobs:\n  threshold_dbm: {min: -104, max: -88, step: 4}\nfreeze: ['0012']\n"
    (folder / "rails.yaml").write_text(rails, encoding="utf-8")
    assert recommend(folder, "--rails", str(folder / "rails.yaml"), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    for change in answer["changes"]:
        assert abs(change["proposed"]["threshold_dbm"] - change["present"]["threshold_dbm"]) <= 4
    left = {one["station"]: one for one in answer["left_alone"]}
    assert (left["0012"]["why"], left["0012"]["reason"]) == ("frozen", "Guard rails freeze it.")
    (folder / "rails.yaml").write_text("stop: true\n", encoding="utf-8")
    assert recommend(folder, "--rails", str(folder / "rails.yaml"), "--replace") == 2
    assert "the stop switch of the rails is on" in capsys.readouterr().err


def test_without_column_options_it_says_which_columns_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(folder / "export.csv"), "--now", str(folder / "states.csv")]
    assert main(["recommend", *files]) == 2
    error = capsys.readouterr().err
    assert "'cell', 'users', 'threshold_dbm', 'good'" in error
    assert "--configuration" in error
    assert "columns=" not in error


def test_whose_rows_are_few_is_said_once_and_on_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(folder, "--rows", "10") == 0
    assert capsys.readouterr().out.count("fewer than 20 rows") == 1
    assert "fewer than 20 rows" in (folder / "plan" / "plan.html").read_text(encoding="utf-8")


# --- The page to show, and the lines that matter --------------------------------------------------------------------


def test_it_ends_with_the_lines_that_matter(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(folder) == 0
    *_, changes, left, opened, undo = capsys.readouterr().out.strip().splitlines()
    assert re.fullmatch(
        r"1 of 4 stations changes, for a mean gain of \+0\.\d+ \(95 % interval \+0\.\d+ to \+0\.\d+\) in good\.",
        changes,
    )
    assert left.startswith("Left alone: ")
    assert "1 not in the log" in left
    plan = folder / "plan"
    assert (
        opened == f"Open: {plan / 'plan.html'}, then {plan / 'plan.csv'} (what to set) and {plan / 'left_alone.csv'}."
    )
    assert undo == f"Undo: {plan / 'rollback.csv'} sets 1 station back to what runs now."


def test_of_a_plan_with_hours_the_worst_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daily(folder)
    log, columns = str(folder / "fortnight.csv"), ["--station", "cell", "--time", "hour", "--reward", "good"]
    options = [*columns, "--configuration", "threshold_dbm", "--hours", "0-16", "--out", str(folder / "plan")]
    assert main(["recommend", log, *options]) == 0
    assert re.search(r"^Worst hour of the day: \d\d h, with \+0\.\d+ \(95 %", capsys.readouterr().out, re.MULTILINE)
    page = (folder / "plan" / "plan.html").read_text(encoding="utf-8")
    assert "Gain by hour of the day" in page
    assert "672 rows of 2 stations, 2024-03-04 00:00 to 2024-03-17 23:00." in page
    assert re.search(
        "What runs now is from</dt><dd>the last row of each station in .*, of 2024-03-17 23:00, .* days b", page
    )
    assert "hour of the day." in page


@pytest.mark.parametrize("explore", [False, True])
def test_the_page_has_no_hints_for_the_command_line(explore: bool, tmp_path: Path) -> None:
    """Of stations, times, notes and what was never tried."""
    rng = np.random.default_rng(4)
    cells = np.repeat(["a", "b", "c"], 40)
    tilt = np.where(cells == "c", 4, rng.integers(1, 6, 120))
    log = {"Cell Name": cells, "Time": [f"2024-03-{1 + i % 40 // 24:02d} {i % 24:02d}:00" for i in range(120)]}
    log |= {"tilt": tilt, "good": (0.8 - 0.03 * abs(tilt - 3) + 0.01 * rng.normal(size=120)).round(4)}
    file = write(tmp_path / "export.csv", log)
    options = ["--configuration", "tilt", "--reward", "good", "--explore" if explore else "--exploit"]
    assert main(["recommend", str(file), *options, "--out", str(tmp_path / "plan")]) == 0
    page = (tmp_path / "plan" / "plan.html").read_text(encoding="utf-8").partition("<body")[2]
    assert "is taken for the station, by its name</li>" in page
    assert not re.search(r"\s--[a-z]|`|kinband design", page)


def test_the_page_says_which_file_has_what_runs_now(folder: Path) -> None:
    assert recommend(folder) == 0
    page = (folder / "plan" / "plan.html").read_text(encoding="utf-8")
    assert "What runs now is from</dt><dd>the file states.csv, last changed on 20" in page


def test_the_page_says_what_was_read_what_limits_it_and_how_to_undo_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rails = folder / "rails.yaml"
    rails.write_text("knobs:\n  threshold_dbm: {min: -104, max: -88}\nfreeze: ['0012']\n", encoding="utf-8")
    assert recommend(folder, "--rails", str(rails), "--step", "threshold_dbm=4", "--max-changes", "3") == 0
    page = (folder / "plan" / "plan.html").read_text(encoding="utf-8")
    for said in (
        "from export.csv",
        "90 rows of 3 stations.",
        "threshold_dbm moves by at most 4.",
        "Guard rails: threshold_dbm is −104 to −88.",
        "Guard rails freeze 1 station: 0012.",
        "At most 3 stations may change.",
        "<code>set_threshold_dbm</code>",
        "threshold_dbm −92 at 1 station",
    ):
        assert said in page
    assert "Where they are" not in page


@pytest.mark.parametrize("where", ["log", "states", "file"])
def test_positions_make_a_map_and_are_no_state(where: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns, options = export(), list[str]()
    lat, lon = {"3714": 50.1, "3715": 50.2, "0012": 50.1}, {"3714": 8.6, "3715": 8.6, "0012": 8.7}
    cells = columns["cell"].tolist()
    if where == "log":
        columns |= {"lat": [lat[cell] for cell in cells], "lon": [lon[cell] for cell in cells]}
    elif where == "states":
        head, *lines = STATES.splitlines()
        placed = [f"{line},{50 + i / 10},{8 + i / 10}" for i, line in enumerate(lines)]
        (folder / "states.csv").write_text("\n".join([f"{head},lat,lon", *placed]) + "\n", encoding="utf-8")
    else:
        write(
            folder / "sites.csv", {"cell": list(lat), "Latitude": list(lat.values()), "Longitude": list(lon.values())}
        )
        options = ["--positions", str(folder / "sites.csv")]
    write(folder / "export.csv", columns)
    assert recommend(folder, *options) == 0
    assert "state: users; knobs" in capsys.readouterr().out
    page = (folder / "plan" / "plan.html").read_text(encoding="utf-8")
    missing = 0 if where == "states" else 1
    assert f"Map of {4 - missing} stations, 1 of them to change." in page
    assert ("The places of 1 station are not known." in page) == bool(missing)


def test_a_file_of_positions_that_has_none_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend(folder, "--positions", str(folder / "states.csv")) == 2
    error = capsys.readouterr().err
    assert "states.csv does not say where stations are: name two columns longitude and latitude" in error
    assert len(error.strip().splitlines()) == 1


# --- What counts beside the reward ------------------------------------------------------------------------------------


def sectors(folder: Path, rows: int = 200) -> None:
    """Four cells: 1 earns 0.2 more than 0, and costs the neighbour 0.5; calls drop with it, far more often at d."""
    rng = np.random.default_rng(3)
    on = rng.integers(0, 2, (4, rows))
    on[:, -1] = 0
    good = 1.0 + 0.2 * on - 0.5 * on[[1, 0, 3, 2]] + 0.05 * rng.normal(size=(4, rows))
    drop = 0.004 + 0.004 * on + np.array([[0], [0], [0], [0.02]]) * on + 0.0005 * rng.normal(size=(4, rows))
    columns = {"cell": np.repeat(["0a", "0b", "0c", "0d"], rows), "hour": np.tile(np.arange(rows), 4), "on": on.ravel()}
    write(folder / "sectors.csv", columns | {"good": good.ravel().round(4), "drop rate": drop.ravel().round(5)})
    (folder / "pairs.csv").write_text("cell,neighbour\n0a,0b\n0d,0c\n0a,9z\n", encoding="utf-8")


def beside(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    log, out = str(folder / "sectors.csv"), str(folder / "plan")
    columns = ["--station", "cell", "--time", "hour", "--reward", "good", "--configuration", "on"]
    assert main(["recommend", log, *columns, "--out", out, "--replace", "--json", *options]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_floor_under_a_column_of_the_log_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sectors(folder)
    free = beside(folder, capsys, "--ignore", "drop rate")
    assert sorted(one["station"] for one in free["changes"]) == ["0a", "0b", "0c", "0d"]
    kept = beside(folder, capsys, "--floor", "drop rate <= 0.01")
    assert sorted(one["station"] for one in kept["changes"]) == ["0a", "0b", "0c"]
    for one in kept["changes"]:
        assert one["kpis"]["drop rate"]["low"] <= 0.008 <= one["kpis"]["drop rate"]["high"]
        assert "drop rate is then expected to be 0.0" in one["reason"]
    (left,) = kept["left_alone"]
    assert (left["station"], left["why"]) == ("0d", "a floor would be broken")
    assert "and must be at most 0.01" in left["reason"]
    assert float(rows_of(folder / "plan" / "plan.csv")[0]["kpi_drop rate_high"]) < 0.01


def test_a_log_that_kinband_wrote_has_floors_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sectors(folder)
    names = {"station": "cell", "time": "hour", "reward": "good", "configuration": ["on"]}
    Trace.read(folder / "sectors.csv", names).write(folder / "log.parquet")
    files = [str(folder / "log.parquet"), "--out", str(folder / "plan"), "--json"]
    assert main(["recommend", *files, "--floor", "'drop rate' <= 0.01"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert sorted(one["station"] for one in answer["changes"]) == ["0a", "0b", "0c"]


@pytest.mark.parametrize("how", ["pairs.csv", "rails.yaml"])
def test_what_a_change_costs_its_neighbours_counts(how: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sectors(folder)
    (folder / "rails.yaml").write_text("neighbours: {0a: [0b], 0c: [0d]}\n", encoding="utf-8")
    options = ["--ignore", "drop rate", "--neighbours", str(folder / how)]
    answer = beside(folder, capsys, *options)
    assert not answer["changes"]
    assert any("1 station of pairs.csv" in note for note in answer["notes"]) == (how == "pairs.csv")
    little = beside(folder, capsys, *options, "--neighbour-weight", "0.1")
    assert len(little["changes"]) == 4
    assert all(one["around"]["value"] < 0 < one["gain"] for one in little["changes"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--floor", "drop rate"], "--floor takes a column, <= or >=, and a number in the column's unit"),
        (["--floor", "drop rate < 0.01"], "--floor takes a column, <= or >="),
        (["--floor", "drop rate <= 1%"], "--floor takes a column, <= or >="),
        (["--floor", "<= 1"], "--floor takes a column, <= or >="),
        (["--floor", "drop rate <= nan"], "--floor takes a column, <= or >="),
        (["--floor", "drop rates <= 0.01"], "no column 'drop rates' (a further KPI), did you mean 'drop rate'"),
        (["--floor", "drops <= 0.01"], "name the right one with --floor"),
        (["--floor", "drop rate <= 1", "--floor", "drop rate <= 2"], "limits 'drop rate' twice on the same side"),
        (["--floor", "drop rate <= 1", "--floor", "drop rate >= 2"], "at least 2 and at most 1"),
        (["--floor", "drop rate <= 1"], "so it seems to hold shares, and the limit 1 seems to be per cent: write 0.01"),
        (["--floor", "percent <= 0.01"], "seems to hold per cent, and the limit 0.01 seems to be a share: write 1"),
        (["--floor", "on <= 0.01"], "column 'on' is used as configuration and as kpis"),
        (["--floor", "cell <= 0.01"], "column 'cell' is used as station and as kpis"),
        (["--state", "drop rate", "--floor", "drop rate <= 0.01"], "used as state and as kpis"),
        (["--neighbours", "nowhere.csv"], "nowhere.csv"),
        (["--neighbours", "three.csv"], "needs the columns station and neighbour, or two columns in all; it has"),
        (["--neighbours", "strangers.csv"], "names no two neighbours that are stations of the log"),
        (["--neighbours", "pairs.csv", "--neighbour-weight", "1"], "some weight on a station's own reward"),
        (["--neighbours", "pairs.csv", "--neighbour-weight", "2"], "--neighbour-weight"),
        (["--neighbour-weight", "0.5"], "give --neighbours"),
        (["--drift", "soon"], "--drift takes a span such as 14d"),
        (["--drift", "0d"], "--drift takes a span such as 14d"),
        (["--drift", "14d"], "times that are numbers"),
    ],
)
def test_what_cannot_be_heeded_is_refused_in_one_sentence(
    options: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    sectors(folder, 40)
    columns = {name: [row[name] for row in rows_of(folder / "sectors.csv")] for name in ("cell", "hour", "on", "good")}
    drop = [float(row["drop rate"]) for row in rows_of(folder / "sectors.csv")]
    write(folder / "sectors.csv", columns | {"drop rate": drop, "percent": [round(100 * one, 3) for one in drop]})
    Path("three.csv").write_text("a,b,c\n1,2,3\n", encoding="utf-8")
    Path("strangers.csv").write_text("station,neighbour\n7,8\n", encoding="utf-8")
    roles = ["--station", "cell", "--time", "hour", "--reward", "good", "--configuration", "on"]
    assert main(["recommend", "sectors.csv", *roles, "--out", "plan", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_old_rows_count_less(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(8)
    hour, on = np.tile(np.arange(200), 2), rng.integers(0, 2, 400)
    on[[199, 399]] = [0, 1]
    good = np.where(hour < 150, 0.3 * on, -0.3 * on) + 0.05 * rng.normal(size=400)
    write(folder / "sectors.csv", {"cell": np.repeat(["a", "b"], 200), "hour": hour, "on": on, "good": good.round(4)})
    assert [one["station"] for one in beside(folder, capsys)["changes"]] == ["a"]
    for span in ("20", "20 rows"):
        assert [one["station"] for one in beside(folder, capsys, "--drift", span)["changes"]] == ["b"]


def test_a_cell_without_rows_is_planned_for_as_those_that_resemble_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sites = ["cell,land use,x_m"]
    columns = export(40)
    cells, spread = columns["cell"], np.tile(["x", "y", "z"], 40)
    columns["cell"] = np.array([f"{cell}{sub}" for cell, sub in zip(cells.tolist(), spread.tolist(), strict=True)])
    write(folder / "export.csv", columns)
    known = enumerate(sorted(set(columns["cell"].tolist())))
    sites += [f"{cell},{'office' if cell.startswith('37') else 'home'},{i}" for i, cell in known]
    (folder / "sites.csv").write_text("\n".join([*sites, "9999,home,7", "0000,,"]) + "\n", encoding="utf-8")
    (folder / "states.csv").write_text("cell,users,threshold_dbm\n9999,30,-102\n0000,30,-102\n8888,30,-102\n")
    options = ["--similarity", "joint", "--descriptors", str(folder / "sites.csv"), "--json"]
    assert recommend(folder, *options) == 0
    answer = json.loads(capsys.readouterr().out)
    looked = {one["station"]: one for one in answer["changes"] + answer["left_alone"]}
    assert looked["9999"]["proposed"]["threshold_dbm"] in range(-97, -88)
    assert looked["9999"]["low"] < 0.06 < looked["9999"]["high"]
    assert [looked[name]["why"] for name in ("0000", "8888")] == ["not in the log"] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cell,x\n3714,1\n3714,2\n", "describes station '3714' 2 times: give one row"),
        ("cell\n3714\n", "has stations only: give columns that describe them"),
        ("site,x\n3714,1\n", "has no column 'cell' for the stations; it has 'site', 'x'"),
    ],
)
def test_descriptors_that_describe_nothing_are_refused(
    text: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sites.csv").write_text(text, encoding="utf-8")
    assert recommend(folder, "--descriptors", str(folder / "sites.csv")) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
