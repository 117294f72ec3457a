"""`kinband token` as an administrator meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kinband.cli import main
from kinband.service.access import NotSignedInError, Role, Tokens
from kinband.service.ledger import Ledger


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "ledger.db")
    monkeypatch.setenv("KINBAND_LEDGER", path)
    return path


def test_a_token_can_be_piped_from_its_command(where: str) -> None:
    command = [sys.executable, "-m", "kinband", "token", "create", "--name", "nms", "--role", "operator"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    ledger = Ledger.open(where, create=False)
    identity = Tokens(ledger).authenticate(done.stdout.removesuffix("\n"))
    ledger.close()
    assert (identity.name, identity.role) == ("nms", Role.OPERATOR)
    assert "not shown again" in done.stderr
    assert done.stdout.strip() not in done.stderr


def test_a_token_goes_to_a_new_file_that_its_owner_alone_may_read(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nms.token"
    assert main(["token", "create", "--name", "nms", "--to", str(file)]) == 0
    assert (capsys.readouterr().out, file.stat().st_mode & 0o777) == (f"{file}\n", 0o600)
    ledger = Ledger.open(where, create=False)
    assert Tokens(ledger).authenticate(file.read_text().strip()).name == "nms"
    assert main(["token", "create", "--name", "other", "--to", str(file)]) == 2
    assert "cannot be written (file exists): name a new file" in capsys.readouterr().err
    assert (
        main(["token", "create", "--name", "nms", "--to", str(tmp_path / "again.token")]) == 2
    )  # a name that is taken
    assert not (tmp_path / "again.token").exists()
    assert len(Tokens(ledger).list()) == 1
    ledger.close()


def test_tokens_are_made_listed_and_revoked(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "--name", "nms", "--expires", "12h", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert main(["token", "create", "--name", "[b]anna", "--role", "admin", "--expires", "never"]) == 0
    capsys.readouterr()
    assert main(["token", "list", "--json"]) == 0
    listed = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert (listed["nms"]["role"], listed["nms"]["state"], listed["[b]anna"]["expires"]) == ("viewer", "live", None)
    assert main(["token", "list"]) == 0
    assert "[b]anna" in capsys.readouterr().out
    assert main(["token", "revoke", made["id"]]) == 0
    assert "nms" in capsys.readouterr().out
    assert main(["token", "list"]) == 0
    assert made["id"] not in capsys.readouterr().out
    assert main(["token", "list", "--all", "--json"]) == 0
    states = {record["name"]: record["state"] for record in json.loads(capsys.readouterr().out)}
    assert states == {"nms": "revoked", "[b]anna": "live"}
    ledger = Ledger.open(where, create=False)
    with pytest.raises(NotSignedInError, match="revoked"):
        Tokens(ledger).authenticate(made["token"])
    assert [event.actor.startswith("command line") for event in ledger.read(kinds=["access"])] == [True] * 3
    ledger.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["create", "--name", "nms", "--role", "root"], "viewer, operator, admin"),
        (["create", "--name", "local"], "cannot be called"),
        (["create", "--name", "nms", "--expires", "soon"], "--expires"),
        (["create", "--name", "nms", "--expires", "90"], "--expires"),
        (["create"], "--name"),
        (["list"], "holds no ledger"),
        (["revoke", "nobody"], "holds no ledger"),
        (["revoke"], "TOKEN"),
        (["lend"], "lend"),
    ],
)
def test_nonsense_gets_one_sentence_and_starts_no_ledger(
    where: str, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not Path(where).exists()


def test_an_unknown_token_is_named_but_not_its_secret(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    Ledger.open(where).close()
    assert main(["token", "revoke", f"kb_00000000_{'s' * 43}"]) == 2
    error = capsys.readouterr().err
    assert "00000000" in error
    assert "sss" not in error


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_every_command_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", command, "--help"]) == 0
    assert f"Example: kinband token {command}" in capsys.readouterr().out
