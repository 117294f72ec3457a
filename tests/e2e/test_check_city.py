"""`python -m benchmarks.city`: figures, a table, and numbers that hang together."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import benchmarks.city.__main__ as command
import pytest
from benchmarks.city.__main__ import main
from benchmarks.city.check import BUSY_HOUR, HOURS, CityCheck, check_city, count_stages
from benchmarks.city.figures import city_figures

from kinband.environments.radio import Parameters, layers_at

FIGURES = ["satisfied-share.png", "signal.png", "cqi-and-load.png", "handovers.png"]


@pytest.fixture(scope="module")
def checked() -> tuple[CityCheck, list[str]]:
    said: list[str] = []
    return check_city(6, seed=3, seconds=10, seeds=2, thresholds=[-108, -90], tick=said.append), said


def test_every_stage_is_announced(checked: tuple[CityCheck, list[str]]) -> None:
    assert len(checked[1]) == count_stages()


def test_the_busy_hour_of_calibration_and_figures_is_one_run(checked: tuple[CityCheck, list[str]]) -> None:
    check, _ = checked
    assert list(check.calibrations) == list(HOURS)
    assert check.data["network_share"] == pytest.approx(check.calibrations[BUSY_HOUR].network_share)


def test_the_named_sectors_are_the_busiest_of_their_kind(checked: tuple[CityCheck, list[str]]) -> None:
    check, _ = checked
    assert list(check.kinds) == list(check.data["sectors"])
    assert list(check.kinds.values()) == ["business"] * 2 + ["residential"] * 2 + ["hot spot"] * 2


def test_a_correlation_that_does_not_exist_is_null_in_json(checked: tuple[CityCheck, list[str]]) -> None:
    check, _ = checked
    flat = replace(check.calibrations[BUSY_HOUR], correlation=math.nan)
    values = replace(check, calibrations={BUSY_HOUR: flat}).to_dict()
    back = json.loads(json.dumps(values, allow_nan=False))
    assert back["hours"]["18"]["correlation"] is None
    assert back["hours"]["18"]["gain"] == pytest.approx(flat.gain)


def test_all_figures_are_drawn_and_small(checked: tuple[CityCheck, list[str]], tmp_path: Path) -> None:
    files = city_figures(checked[0], tmp_path / "new")
    assert [file.name for file in files] == FIGURES
    for file in files:
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 5_000 < len(content) < 120_000


def test_the_command_prints_a_table_and_names_its_files(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    checked: tuple[CityCheck, list[str]],
) -> None:
    def canned(*_: Any, **__: Any) -> CityCheck:
        return checked[0]

    monkeypatch.setattr(command, "run_checks", canned)
    monkeypatch.setenv("COLUMNS", "140")
    command.check_city(out=tmp_path)
    printed = capsys.readouterr().out
    busy = checked[0].calibrations[BUSY_HOUR]
    assert re.search(rf"At 18 h the network has .*{busy.best_single:g} dBm", printed)
    assert all(f"figure: {tmp_path / name}" in printed for name in FIGURES)
    stored = json.loads((tmp_path / "checks.json").read_text())
    assert stored["hours"]["18"]["best_single"] == busy.best_single


def test_the_command_line_hands_over_what_was_asked(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    checked: tuple[CityCheck, list[str]],
) -> None:
    asked: list[Any] = []

    def canned(stations: int, **others: Any) -> CityCheck:
        parameters = others["parameters"]
        asked.extend([stations, others["seed"], others["seconds"], others["seeds"], parameters.load])
        asked.append([layer.frequency_ghz for layer in parameters.layers])
        return checked[0]

    monkeypatch.setattr(command, "run_checks", canned)
    options = ["--stations", "33", "--seed", "7", "--seconds", "45", "--seeds", "3", "--json"]
    options += ["--load", "1.3", "--layers", "2.6,1.8,0.8"]
    assert main(["--out", str(tmp_path), *options]) == 0
    assert asked == [33, 7, 45.0, 3, 1.3, [2.6, 1.8, 0.8]]
    results = json.loads(capsys.readouterr().out)
    assert [Path(file).name for file in results["files"]] == FIGURES


@pytest.mark.parametrize("arguments", [["--stations", "5"], ["--seeds", "1"], ["--seconds", "0"]])
def test_too_little_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments]) == 2
    assert arguments[0] in capsys.readouterr().err


def test_layers_in_the_wrong_order_are_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "new"), "--layers", "0.8,2.6"]) == 2
    assert "falling order" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_city_of_four_layers_is_checked_and_drawn_with_all_of_them(tmp_path: Path) -> None:
    parameters = Parameters(load=1.4, layers=layers_at([3.5, 2.1, 1.8, 0.7]))
    check = check_city(6, seed=3, seconds=5, seeds=2, thresholds=[-104, -88], parameters=parameters)
    for name in ("coupling_loss_db", "sinr_db", "load_histogram"):
        assert list(check.data[name]) == ["capacity", "2.1 GHz", "1.8 GHz", "coverage"]
    assert all(sum(cells) == 6 for cells in check.data["load_histogram"].values())
    assert check.to_dict()["load"] == 1.4
    assert list(check.to_dict()["layers_ghz"].values()) == [3.5, 2.1, 1.8, 0.7]
    assert [file.name for file in city_figures(check, tmp_path)] == FIGURES


def test_the_page_shows_every_figure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extend.md").read_text(encoding="utf-8")
    assert all(f"(figures/{name})" in page for name in FIGURES)
