"""`kinband design` as an engineer meets it: from a log without trials to trials, their rows, and a plan that earns."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband.cli import main

COLUMNS = ["--configuration", "tilt", "--time", "hour", "--values", "tilt=0,2,4,6,8"]
NOISE = 0.02


class Network:
    """Thirty stations that all earn most at a tilt of 6 and run 2 or 4 today."""

    def __init__(self, folder: Path, seed: int = 3) -> None:
        self.rng, self.folder = np.random.default_rng(seed), folder
        self.level = {f"s{m:02d}": 0.7 + 0.02 * self.rng.normal() for m in range(30)}
        self.ran = {name: int(self.rng.choice([2, 4])) for name in self.level}
        self.rows = [self.row(name, hour, self.ran[name]) for name in self.level for hour in range(30)]
        self.write()

    def truth(self, name: str, tilt: int) -> float:
        return self.level[name] - 0.012 * (tilt - 6) ** 2

    def row(self, name: str, hour: int, tilt: int) -> dict[str, Any]:
        load = float(self.rng.random())
        reward = self.truth(name, tilt) - 0.1 * load + NOISE * self.rng.normal()
        return {"station": name, "hour": hour, "load": round(load, 3), "tilt": tilt, "reward": round(reward, 4)}

    def write(self) -> None:
        now = [{"station": name, "load": 0.5, "tilt": tilt} for name, tilt in self.ran.items()]
        for file, rows in (("log.csv", self.rows), ("now.csv", now)):
            with (self.folder / file).open("w", newline="") as opened:
                writer = csv.DictWriter(opened, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)

    def make_trials(self) -> None:
        """Carry out design.csv; those that try nothing run on."""
        for row in rows_of(self.folder / "design" / "design.csv"):
            first = 30 + int(row["from_period"])
            hours = range(first, first + int(row["periods"]))
            self.rows += [self.row(row["station"], hour, int(row["set_tilt"])) for hour in hours]
        self.write()

    def design(self, *options: str) -> int:
        return main(["design", str(self.folder / "log.csv"), *COLUMNS, "--out", str(self.folder / "design"), *options])

    def recommend(self, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
        files = [str(self.folder / "log.csv"), "--now", str(self.folder / "now.csv"), *COLUMNS[:4]]
        capsys.readouterr()
        assert main(["recommend", *files, "--out", str(self.folder / "plan"), "--replace", "--json", *options]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    def earned(self, plan: dict[str, Any]) -> float:
        """What a plan really gains."""
        made = ((one["station"], one["proposed"]["tilt"]) for one in plan["changes"])
        return sum(self.truth(name, tilt) - self.truth(name, self.ran[name]) for name, tilt in made)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return Network(tmp_path)


def test_plans_after_designed_trials_earn_more_than_plans_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = []
    for seed in range(5):
        (folder := tmp_path / str(seed)).mkdir()
        network = Network(folder, seed)
        without = network.recommend(capsys)
        assert "best already" not in {left["why"] for left in without["left_alone"]}
        assert network.design("--json", "--stations", "5") == 0
        designed = json.loads(capsys.readouterr().out)
        assert designed["after"] < designed["before"]
        network.make_trials()
        more.append(network.earned(network.recommend(capsys)) - network.earned(without))
    assert np.mean(more) > 3 * np.std(more, ddof=1) / np.sqrt(len(more))  # networks are independent


def test_trials_are_few_named_and_undone_by_their_roll_back(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network.design("--step", "tilt=2") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("log: 900 rows of 30 stations")
    assert "cannot tell whether sharing would have helped" in printed
    assert "at 3 of 30 stations" in printed
    assert "are expected to lose" in printed
    assert "is assumed" in printed
    trials, back = (rows_of(network.folder / "design" / name) for name in ("design.csv", "rollback.csv"))
    assert len(back) == 3
    assert {row["station"]: int(row["set_tilt"]) for row in back} == {
        row["station"]: network.ran[row["station"]] for row in trials
    }
    assert all(abs(int(row["set_tilt"]) - int(row["present_tilt"])) <= 2 for row in trials)


def test_rails_and_several_settings_hold(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    rails = network.folder / "rails.yaml"
    rails.write_text("knobs: {tilt: {max: 6}}\nfreeze: [s00, s01]\n")
    assert network.design("--rails", str(rails), "--stations", "15", "--periods", "3", "--settings", "1", "--json") == 0
    trials = json.loads(capsys.readouterr().out)["trials"]
    assert len(trials) == 15
    assert not {"s00", "s01"} & {trial["station"] for trial in trials}
    assert {trial["periods"] for trial in trials} == {3}
    assert max(trial["setting"]["tilt"] for trial in trials) == 6


def test_a_log_that_can_answer_is_said_to_before_any_trials(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network.design() == 0
    assert "already compares" not in capsys.readouterr().out
    network.rows += [network.row(name, 31, 8) for name in list(network.level)[:12]]
    network.write()
    assert network.design("--replace") == 0
    said, trials = "already compares settings at 12 of 30 stations, and `kinband recommend` answers now", "trials at"
    printed = " ".join(capsys.readouterr().out.split())
    assert 0 < printed.find(said) < printed.find(trials)


def test_a_log_of_one_setting_needs_values_to_try(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    network.rows = [row | {"tilt": 4} for row in network.rows]
    network.write()
    options = [*COLUMNS[:4], "--out", str(network.folder / "design")]
    assert main(["design", str(network.folder / "log.csv"), *options]) == 2
    assert "name more values of a knob with --values" in capsys.readouterr().err
    assert network.design("--json") == 0
    assert json.loads(capsys.readouterr().out)["answers"]["answers"]["recommend"]["verdict"] == "no"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--stations", "16"], "16 of 30 stations are too many"),
        (["--values", "tilt"], "--values takes KNOB=V,V"),
        (["--values", "tilt=far"], "takes a number, got 'far'"),
        (["--values", "tlt=1"], "no knob 'tlt'"),
        (["--step", "tilt=-1"], "must not be negative"),
        (["--step", "tilt=0"], "nothing may be tried"),
        (["--periods", "0"], "--periods"),
        (["--rails", "nowhere.yaml"], "nowhere.yaml"),
        (["--similarity", "magic"], "no similarity is called 'magic'"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    options: list[str], sentence: str, network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network.design(*options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not (network.folder / "design" / "design.csv").exists()


def test_a_plan_of_trials_is_replaced_only_when_asked_to(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert network.design() == 0
    assert network.design() == 2
    assert "already holds a plan" in capsys.readouterr().err
    assert network.design("--force") == 0


def test_exploring_never_moves_the_whole_network(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    plan = network.recommend(capsys, "--explore", "--beta", "3")
    assert 1 <= len(plan["changes"]) <= 3
    assert any("at most 3 of 30 stations" in note for note in plan["notes"])
    files = [str(network.folder / "log.csv"), "--now", str(network.folder / "now.csv"), *COLUMNS[:4]]
    many = ["--explore", "--max-changes", "16", "--out", str(network.folder / "more")]
    assert main(["recommend", *files, *many]) == 2
    assert "kinband design" in capsys.readouterr().err


def test_it_is_said_that_stations_without_a_trial_rest_on_an_assumption(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network.design("--stations", "5") == 0
    network.make_trials()
    tried = {row["station"] for row in rows_of(network.folder / "design" / "design.csv")}
    (told,) = [note for note in network.recommend(capsys)["notes"] if "one setting only" in note]
    assert told.startswith(f"{30 - len(tried)} of 30 stations ran one setting only")
    assert "on the assumption that these answer alike" in told
    assert "one setting only" in (network.folder / "plan" / "plan.html").read_text(encoding="utf-8")


def test_how_long_a_period_is_is_said_and_that_a_trial_is_shorter_than_a_day(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = np.datetime64("2024-05-01T00")
    for row in network.rows:
        row["hour"] = str(begin + np.timedelta64(int(row["hour"]), "h"))
    network.write()
    said = []
    for periods in ("8", "24"):
        assert network.design("--periods", periods, "--replace", "--json") == 0
        said.append([note for note in json.loads(capsys.readouterr().out)["notes"] if note.startswith("a period is")])
    assert said[0][0].startswith("a period is a row of a station, usually 1 h; a trial of 8 takes 8 h, less than a day")
    assert said[0][0].endswith("--periods 24 is a day")
    assert said[1] == ["a period is a row of a station, usually 1 h; a trial of 24 takes 24 h"]
