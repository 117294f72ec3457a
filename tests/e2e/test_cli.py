"""The command line as a user meets it: help with an example, results, and one sentence on nonsense."""

import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from kinband.cli import main
from kinband.cli.app import COMMANDS, KEEPING, interrupted, remember
from kinband.cluster import _unreachable

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kinband", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_version_is_shown() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, "kinband 0.1.0\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_and_is_in_the_quickstart(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out
    assert f"`kinband {command}`" in (ROOT / "docs" / "quickstart.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--runs", "1"], "--runs"),
        (["demo", "--rounds", "many"], "--rounds"),
        (["demo", "--beta", "-1"], "--beta"),
        (["demo", "--beta", "nan"], "--beta"),
        (["demo", "--frobnicate"], "--frobnicate"),
        (["conquer"], "conquer"),
        (["reproduce", "everything"], "everything"),
        (["reproduce", "--protocol", "kind"], "kind"),
        (["reproduce", "readings", "--protocol", "fair"], "paper's protocol"),
        (["reproduce", "synthetic", "--write", "docs/evidence.md"], "ask for readings"),
        (["reproduce", "readings", "--write", "nowhere.md"], "nowhere.md"),
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


NO_LOG = {
    "missing.csv": None,
    "empty.csv": b"",
    "folder.csv": None,
    "binary.csv": bytes(range(256)),
    "log.txt": b"a,b\n1,2\n",
}
READERS = [
    ["similarity", "{}", "--configuration", "tilt"],
    ["compare", "{}", "--configuration", "tilt"],
    ["compare", "{}", "--measured", "seconds"],
    ["evaluate", "{}", "--configuration", "tilt"],
    ["design", "{}", "--configuration", "tilt"],
    ["recommend", "{}", "--now", "now.csv", "--configuration", "tilt"],
    ["demo", "--trace", "{}"],
    ["serve", "--ledger", "new.db", "--start", "{}", "--configuration", "tilt", "--port", "0"],
    ["audit", "{}"],
    ["replay", "{}", "d000001"],
    ["ledger", "verify", "{}"],
]


@pytest.mark.parametrize("file", NO_LOG)
@pytest.mark.parametrize("command", READERS, ids=lambda command: " ".join(command[:1]))
def test_a_file_that_is_of_no_use_is_named_by_every_command(
    command: list[str], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if file == "folder.csv":
        Path(file).mkdir()
    elif (content := NO_LOG[file]) is not None:
        Path(file).write_bytes(content)
    assert main([word.format(file) for word in command]) == 2
    error = capsys.readouterr().err
    assert file in error
    assert len(error.strip().splitlines()) == 1
    assert not Path("new.db").exists()


@pytest.mark.parametrize("below", ["", "below"])
@pytest.mark.parametrize("arguments", [["demo", "--out"], ["reproduce", "regression", "--quick", "--out"]])
def test_a_folder_that_cannot_be_written_is_named(
    arguments: list[str], below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / below if below else tmp_path / "file"
    assert main([*arguments, str(out)]) == 2
    error = capsys.readouterr().err
    assert str(out) in error
    assert "choose another" in error
    assert len(error.strip().splitlines()) == 1


INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from kinband.cli import main
sys.exit(main({arguments!r}))
"""


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
@pytest.mark.parametrize("name", ["kinband.cli.render", "typer", "rich.console", "kinband.cli.similarity", "pandas"])
def test_ctrl_c_while_libraries_are_loaded_gets_one_sentence_and_exit_code_130(name: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("station,tilt,reward\na,1,0.5\nb,2,0.75\n")
    arguments = ["similarity", "log.csv", "--configuration", "tilt"]  # Arrow loads pandas to make its first array
    code = INTERRUPT.format(name=name, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "kinband: interrupted\n"  # nothing was finished that could be kept


@pytest.mark.parametrize("command", ["evaluate", "recommend", "similarity", "audit", "replay", "simulate"])
def test_only_commands_that_keep_work_say_so_when_interrupted(command: str) -> None:
    remember([command, "demo"])
    assert interrupted() == "interrupted"
    for keeping in KEEPING:
        remember(["--", keeping, command])
        assert interrupted() == "interrupted; work that was finished is kept"


def test_commands_that_keep_work_are_commands() -> None:
    assert set(KEEPING) <= set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["evaluate", "--nonsense"], "kinband evaluate --help"),
        (["recommend"], "kinband recommend --help"),  # without a log
        (["audit", "state", "--recent", "many"], "kinband audit --help"),
        (["ledger", "info", "--nonsense"], "kinband ledger info --help"),
        (["nonsense"], "kinband --help"),
    ],
)
def test_a_usage_error_sends_to_the_help_of_its_command(
    arguments: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert f"(try: {where}" in error
    assert len(error.strip().splitlines()) == 1


def test_a_table_is_not_taken_for_a_damaged_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ok.csv").write_text("station,tilt,reward\n" + "a,1,0.5\n" * 200)
    assert main(["replay", str(tmp_path / "ok.csv"), "d1"]) == 2
    error = capsys.readouterr().err
    assert (
        error
        == f"kinband: {tmp_path / 'ok.csv'} is not a ledger: give the file that kinband serve keeps its events in\n"
    )


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command that ends in an error and return its exit code."""

    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("kinband.cli.demo.city_log_of", failing)
    monkeypatch.setattr("kinband.cli.demo.make_folder", lambda _: None)
    return main(["demo"])


def test_ctrl_c_behind_another_error_is_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ImportError("initialization failed")
    error.__cause__ = KeyboardInterrupt()
    assert fail_with(error, monkeypatch) == 130
    assert capsys.readouterr().err == "kinband: interrupted; work that was finished is kept\n"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "not enough memory"),
        (_unreachable("nowhere:1", "unknown host"), "no Ray cluster answers at nowhere:1 (unknown host): start one"),
        (
            _unreachable("nowhere:1", "unknown host"),
            "RAY_AUTH_MODE=token where it asks for a token, or leave --ray out\n",
        ),
        (BrokenProcessPool("terminated abruptly"), "try --workers 1"),
        (PermissionError(13, "Permission denied", "results"), "cannot use results (permission denied)"),
        (OSError("Expected file path\nDetail: errno 21"), "expected file path"),
    ],
)
def test_what_the_machine_lacks_gets_one_sentence(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_with(error, monkeypatch) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.strip().splitlines()) == 1


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_with(ZeroDivisionError(), monkeypatch)


def test_the_first_figure_of_the_paper_is_reproduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "regression", "--quick", "--out", str(tmp_path)]) == 0
    assert "place of the minimum" in capsys.readouterr().out
    assert (tmp_path / "regression.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "regression.svg").read_text()
    assert (tmp_path / "table.csv").read_text().startswith("experiment,method,printed,ours")
