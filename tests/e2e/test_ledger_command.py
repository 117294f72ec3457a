"""`kinband ledger`: the record is looked after from the command line."""

import json
import resource
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ledger_stores import OnRecord

from kinband import ConfigurationSpace, Controller
from kinband.cli.app import main
from kinband.cli.ledger import with_password
from kinband.service.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "ledger.db"
    opened = Ledger.open(path)
    durable = OnRecord(opened, Controller(ConfigurationSpace(tilt=[2, 4, 6]), ["a", "b"], mean=0.7))
    for reward in (0.6, 0.9, 0.4):
        durable.tell(durable.ask("a").id, reward)
    yield path
    opened.close()


def test_info_counts_what_is_on_record(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "info", str(ledger), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["events"] == 14
    assert found["kinds"] == {"applied": 3, "decision": 3, "mode": 1, "outcome": 3, "started": 1, "verdict": 3}
    assert main(["ledger", "info", str(ledger)]) == 0
    assert found["checksum"] in capsys.readouterr().out


def test_verify_names_the_event_that_was_changed(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "verify", str(ledger)]) == 0
    assert "14 events" in capsys.readouterr().out
    with sqlite3.connect(ledger) as connection:
        for (trigger,) in connection.execute("select name from sqlite_master where type='trigger'").fetchall():
            connection.execute(f"drop trigger {trigger}")
        connection.execute("update events set actor = 'mallory' where seq = 4")
    connection.close()
    assert main(["ledger", "verify", str(ledger)]) == 2
    assert "event 4" in capsys.readouterr().err


def test_a_backup_goes_on_where_the_original_was(ledger: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert main(["ledger", "backup", str(ledger), str(copy)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == ["copy.db"]
    one, other = Ledger.open(ledger), Ledger.open(copy)
    assert [event.checksum for event in one.read()] == [event.checksum for event in other.read()]
    assert OnRecord(one).ask("b").arm == OnRecord(other).ask("b").arm
    one.close()
    other.close()


def test_a_backup_replaces_nothing(ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    assert main(["ledger", "backup", str(ledger), str(copy)]) == 2
    assert copy.read_text() == "precious"
    assert main(["ledger", "backup", str(ledger), str(tmp_path / "nowhere" / "copy.db")]) == 2
    assert "no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("knobs: {tilt: {max: 4}}\nfreeze: [c]\n", 0, "can be put in force"),  # who joined later is known too
        ("zone: UTC\nknobs: {tilt: {stepp: 4}}\n", 2, "line 2: there is no key 'stepp' in knobs.tilt"),
        ("freeze: [d]\n", 2, "line 1: there is no station 'd'"),
        ("stop: off\nfallback: {drop: 500%, slots: 2}\n", 2, "line 2: fallback.drop is 500%"),
        ("!!python/object:os.system x\n", 2, "line 1: the file has the tag"),
        ("", 2, "line 1: the file is empty"),
    ],
)
def test_a_rails_file_is_checked_against_the_record_and_changes_nothing(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    opened = Ledger.open(ledger)
    OnRecord(opened).add_station("c")
    events = opened.verify()
    rails = tmp_path / "rails.yaml"
    rails.write_text(text)
    assert main(["ledger", "check-rails", str(ledger), str(rails)]) == code
    told = capsys.readouterr()
    assert said in (told.err if code else told.out)
    assert str(rails) in told.out + told.err
    assert opened.verify() == events
    opened.close()


def test_rails_are_not_checked_against_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rails = tmp_path / "rails.yaml"
    rails.write_text("stop: on\n")
    Ledger.open(tmp_path / "empty.db").close()
    assert main(["ledger", "check-rails", str(tmp_path / "empty.db"), str(rails)]) == 2
    assert "has no controller yet" in capsys.readouterr().err
    assert main(["ledger", "check-rails", str(tmp_path / "none.db"), str(rails)]) == 2
    assert not (tmp_path / "none.db").exists()


def full(*_args: object, **_named: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_backup_onto_a_full_disk_is_one_sentence_and_leaves_nothing(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    command = ["ledger", "backup", str(ledger), str(folder / "copy.db")]
    for further in ("", "-journal", "-wal", "-shm"):
        (folder / f"copy.db.part{further}").write_text("left by somebody who was broken off")
    with monkeypatch.context() as patch:
        patch.setattr("kinband.service.ledger.backups.synced", full)
        assert main(command) == 2
    assert "copy.db could not be written (no space left on device): make room" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, largest[1]))  # SQLite finds no room for its pages
    try:
        code = main(command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
        signal.signal(signal.SIGXFSZ, before)
    assert code == 2
    errors = capsys.readouterr().err
    assert "copy.db could not be written (" in errors
    assert "Traceback" not in errors
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["info", "verify", "upgrade"])
def test_what_is_no_ledger_is_left_alone(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", command, str(tmp_path / "missing.db")]) == 2
    assert not (tmp_path / "missing.db").exists()
    other = tmp_path / "other.db"
    other.write_text("not a database, but long enough to be taken for one by somebody in a hurry\n" * 20)
    assert main(["ledger", command, str(other)]) == 2
    assert "kinband:" in capsys.readouterr().err


def test_the_password_of_a_database_comes_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, nobody = tmp_path / "password", "postgresql://kinband@127.0.0.1:1/kinband"
    monkeypatch.setenv("KINBAND_LEDGER_PASSWORD_FILE", str(file))
    assert with_password("ledger.db") == "ledger.db"
    assert with_password(None) is None
    assert main(["ledger", "info", nobody]) == 2
    assert f"KINBAND_LEDGER_PASSWORD_FILE names {file}, which cannot be read" in capsys.readouterr().err
    for text in ("", "two\nlines\n"):
        file.write_text(text)
        assert main(["ledger", "info", nobody]) == 2
        assert "has to hold one line, the password" in capsys.readouterr().err
    file.write_text("a:b@c/d%\n")
    assert with_password(nobody) == "postgresql://kinband:a%3Ab%40c%2Fd%25@127.0.0.1:1/kinband"
    assert main(["ledger", "info", nobody]) == 2
    said = capsys.readouterr().err
    assert "the ledger cannot be reached at postgresql://kinband:***@127.0.0.1:1/kinband" in said
    assert "a:b" not in said
