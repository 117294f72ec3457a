"""The command line as a user meets it: help with an example, results, and one sentence on nonsense."""

import subprocess
import sys
from pathlib import Path

import pytest

from kinband.cli import main
from kinband.cli.app import app

COMMANDS = sorted(c.name or c.callback.__name__ for c in app.registered_commands if c.callback)
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kinband", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_version_is_shown() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, "kinband 0.1.0\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_and_is_in_the_readme(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out
    assert f"kinband {command}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--runs", "1"], "--runs"),
        (["demo", "--rounds", "many"], "--rounds"),
        (["demo", "--beta", "-1"], "--beta"),
        (["demo", "--beta", "nan"], "--beta"),
        (["demo", "--trace", "nowhere.parquet"], "nowhere.parquet"),
        (["demo", "--frobnicate"], "--frobnicate"),
        (["conquer"], "conquer"),
        (["reproduce", "everything"], "everything"),
        (["reproduce", "--protocol", "kind"], "kind"),
        (["compare", "no-such-trace.parquet"], "no-such-trace.parquet"),
        (["simulate", "city.txt", "--stations", "3", "--days", "0"], "--days"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert main(["demo", "--out", str(blocked)]) == 2
    assert str(blocked) in capsys.readouterr().err


def test_the_first_figure_of_the_paper_is_reproduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "regression", "--quick", "--out", str(tmp_path)]) == 0
    assert "place of the minimum" in capsys.readouterr().out
    assert (tmp_path / "regression.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "regression.svg").read_text()
    assert (tmp_path / "table.csv").read_text().startswith("experiment,method,printed,ours")
