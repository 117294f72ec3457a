"""The command line as a user meets it: help with an example, results, and one sentence on nonsense."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kinband.cli import main
from kinband.cli.app import app

COMMANDS = sorted(command.callback.__name__ for command in app.registered_commands if command.callback)
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


def test_the_demo_prints_a_table_and_draws_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--out", str(tmp_path), "--slots", "4", "--runs", "2", "--log-rows", "10"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "each station alone" in printed
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "similarity.png").read_bytes().startswith(b"\x89PNG")
    assert main([*arguments, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results[0]["learner"] == "independent"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--runs", "0"], "--runs"),
        (["demo", "--slots", "many"], "--slots"),
        (["demo", "--beta", "-1"], "--beta"),
        (["demo", "--frobnicate"], "--frobnicate"),
        (["conquer"], "conquer"),
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
    assert main(["demo", "--out", str(blocked), "--slots", "1", "--runs", "1", "--log-rows", "5"]) == 2
    assert str(blocked) in capsys.readouterr().err
