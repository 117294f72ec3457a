"""`kinband simulate`: a small city, its two files, and what is refused before anything is simulated."""

import json
from pathlib import Path

import pytest

from kinband.cli import main
from kinband.trace import Trace

SMALL = ["--stations", "3", "--days", "1", "--first-hour", "20", "--last-hour", "20.05", "--period", "1"]


def simulated(path: Path, *more: str) -> dict[str, object]:
    assert main(["simulate", str(path), *SMALL, *more, "--json"]) == 0
    side: dict[str, object] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return side


def test_the_log_and_its_side_file_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "city.parquet"
    assert main(["simulate", str(out), *SMALL, "--seed", "5"]) == 0
    printed = capsys.readouterr().out
    trace = Trace.read(out)
    assert f"{len(trace)} rows of 3 stations: {out}" in printed
    assert str(out.with_suffix(".json")) in printed


def test_naming_the_default_layers_changes_nothing(tmp_path: Path) -> None:
    plain, named = tmp_path / "plain.parquet", tmp_path / "named.parquet"
    assert simulated(plain) == simulated(named, "--layers", "2.6,0.8")
    assert plain.read_bytes() == named.read_bytes()


def test_layers_and_load_are_noted_beside_the_log(tmp_path: Path) -> None:
    parameters = simulated(tmp_path / "three.csv", "--layers", "2.6, 1.8, 0.8", "--load", "1.5")["parameters"]
    assert isinstance(parameters, dict)
    assert [layer["frequency_ghz"] for layer in parameters["layers"]] == [2.6, 1.8, 0.8]
    assert parameters["load"] == 1.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["city.txt"], ".parquet"),
        (["city.csv", "--layers", "0.8,2.6"], "falling order"),
        (["city.csv", "--layers", "2.6"], "two frequencies or more"),
        (["city.csv", "--layers", "high,low"], "frequencies in GHz"),
        (["city.csv", "--layers", "2.6,0.1"], "between 0.5 and 100 GHz"),
    ],
)
def test_nonsense_is_refused_before_anything_is_simulated(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(tmp_path / arguments[0]), *arguments[1:]]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_files_of_the_network_make_the_same_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    city, log = tmp_path / "city.parquet", tmp_path / "log.parquet"
    pm, cm, mapping = (str(tmp_path / name) for name in ("pm", "cm.csv", "map.yaml"))
    written = simulated_answer(city, capsys, "--period", "1", "--pm", pm, "--cm", cm, "--map", mapping)["files_written"]
    assert written == [pm, cm, mapping, str(tmp_path / "inventory.csv")]
    assert main(["counters", pm, "--cm", cm, "--map", mapping, "--out", str(log)]) == 0
    ours, back = Trace.read(city), Trace.read(log)
    assert sorted(back.reward.tolist()) == sorted(ours.reward.tolist())
    assert back.state.sum() == pytest.approx(ours.state.sum(), abs=1e-3)


def simulated_answer(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    capsys.readouterr()
    simulated(path, *more)
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_energy_logs_what_sleeping_carriers_save(tmp_path: Path) -> None:
    parameters = simulated(tmp_path / "energy.parquet", "--energy")["parameters"]
    assert isinstance(parameters, dict)
    assert parameters["saving"]["fixed_w"] == 130.0
    trace = Trace.read(tmp_path / "energy.parquet")
    assert (trace.reward_name, list(trace.kpis)) == ("energy_saved", ["satisfied_users"])
    assert "saving" not in simulated(tmp_path / "plain.parquet")["parameters"]  # type: ignore[operator]


@pytest.mark.parametrize("options", [["--pm", "pm"], ["--cm", "cm.csv"], ["--map", "map.yaml"], ["--gzip"]])
def test_measurements_and_configuration_go_together(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "city.csv", *options]) == 2
    assert "give both --pm and --cm" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())
