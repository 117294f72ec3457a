"""`kinband audit` as an operator meets it: tables, sentences, a page, a reason, and one sentence on nonsense."""

import json
from pathlib import Path

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.cli import main
from kinband.kernels import RBF

SPACE = ConfigurationSpace(tilt=range(0, 10, 2))
NAMES = ["[b]3714", "=3715", "1217"]
K_Z = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.2], [0.1, 0.2, 1.0]])


def played(rounds: int = 8, *, names: list[str] = NAMES, noise: float = 0.004, drop: float = 0.0) -> Controller:
    """A controller that has played; rewards fall by `drop` after half of the rounds."""
    rng = np.random.default_rng(4)
    controller = Controller(
        SPACE, names, state={"load": (0, 1)}, similarity=K_Z, kernel=RBF([1.6, 0.9], variance=0.05), noise=noise,
        mean=0.6, seed=2,
    )  # fmt: skip
    for number in range(rounds):
        level = 0.7 - drop * (2 * number >= rounds)
        for decision in controller.ask_all({name: {"load": float(rng.random())} for name in names}).values():
            controller.tell(decision.id, float(level - 0.02 * (decision.arm - 2) ** 2 + 0.06 * rng.standard_normal()))
    controller.ask(names[-1], {"load": 0.5})
    return controller


@pytest.fixture
def state(tmp_path: Path) -> Path:
    played().save(tmp_path / "state")
    return tmp_path / "state"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["audit", *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    return error


def test_tables_and_sentences_are_printed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(state)]) == 0
    said = capsys.readouterr().out
    assert "3 stations, 25 decisions, 24 rewards with predictions." in said
    assert "Do intervals hold what they promise?" in said
    assert "What did sharing earn?" in said
    assert "of 24 rewards lay inside the interval that should hold 80 %" in said
    for name in NAMES:
        assert name in said
    assert sorted(file.name for file in state.parent.iterdir()) == ["state"]


@pytest.mark.parametrize("names", [NAMES, [f"operator-north-region-site-{n:04d}-sector-1" for n in range(3)]])
def test_tables_of_80_columns_show_every_word(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played(names=names, noise=0.0004, drop=0.3).save(tmp_path / "state")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["audit", str(tmp_path / "state")]) == 0
    said = capsys.readouterr().out
    assert "…" not in said
    assert "too narrow,\n" in "\n".join(line.rstrip("│┃ ") for line in said.splitlines())
    first, second = said.splitlines()[3:5]
    assert first.replace("┃", " ").split() == ["in", "in", "in", "mean", "mean"]
    assert second.replace("┃", " ").split() == [
        "station", "rewards", "50", "%", "80", "%", "95", "%", "z", "z²", "intervals",
    ]  # fmt: skip


def test_json_holds_all_of_it_and_nothing_else_is_printed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(state), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [s["station"] for s in found["calibration"]["stations"]] == NAMES
    assert [s["rewards"] for s in found["transfer"]["stations"]] == [8, 8, 8]
    assert found["decisions"] == 25
    assert found["files"] == []


def test_a_page_is_written(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "audit"
    assert main(["audit", str(state), "--out", str(out), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [Path(file).name for file in files] == ["audit.html", "calibration.png", "lending.png"]
    page = Path(files[0]).read_text(encoding="utf-8")
    assert "<title>Audit of state</title>" in page
    assert "=3715" in page


def test_a_decision_is_explained(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(state), "--decision", "d000020"]) == 0
    said = capsys.readouterr().out
    reason = played().explain("d000020")
    assert reason.text in said
    assert "> chosen" in said
    assert "tilt=" in said
    assert main(["audit", str(state), "--decision", "d000020", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(reason.to_dict()))


def test_what_is_no_saved_controller_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "manifest.json is missing" in refused([str(tmp_path)], capsys)
    assert "nowhere is not a folder" in refused([str(tmp_path / "nowhere")], capsys)
    (tmp_path / "file.csv").write_text("x")
    assert "file.csv is not a folder" in refused([str(tmp_path / "file.csv")], capsys)


def test_an_id_that_does_not_exist_is_named(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused([str(state), "--decision", "d000099"], capsys)
    assert "no decision has the id 'd000099': 25 decisions are on record" in error


def test_a_controller_with_nothing_told_is_refused_before_a_folder_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(rounds=0).save(tmp_path / "state")
    out = tmp_path / "out"
    assert "none was told its reward" in refused([str(tmp_path / "state"), "--out", str(out)], capsys)
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_named(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "choose another folder with --out" in refused([str(state), "--out", str(tmp_path / "file")], capsys)


def test_options_out_of_range_are_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--recent" in refused([str(state), "--recent", "0"], capsys)
