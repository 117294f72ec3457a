"""Notifications as an operator meets them: a file, a test message, a service that is killed while it tells."""

import json
import os
import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from tests.e2e.test_serve import controller
from tests.support.receivers import Receiver, free_port, mail_receiver, web_receiver
from tests.support.serving import served

from kinband.cli import main

SECRET = "a secret of 24 bytes or more"  # noqa: S105 - of a test


def settings(folder: Path, receiver: Receiver, further: str = "") -> Path:
    (folder / "hook.secret").write_text(SECRET + "\n")
    file = folder / "notify.yaml"
    file.write_text(
        f"targets:\n  noc:\n    webhook: {receiver.url}\n    secret: {{file: hook.secret}}\n    timeout: 1s\n{further}"
    )
    return file


def test_a_service_that_is_killed_while_it_tells_tells_the_same_when_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    controller().save(tmp_path / "state")
    ledger = str(tmp_path / "ledger.db")
    assert main(["token", "create", "--ledger", ledger, "--name", "ada", "--role", "operator"]) == 0
    token = capsys.readouterr().out.strip()
    with web_receiver() as noc:
        file = settings(tmp_path, noc)
        start = ("--ledger", ledger, "--notify", str(file), "--start", str(tmp_path / "state"), "--mode", "assist")
        noc.answers = ["never"] * 100
        with served(*start) as service:
            with service.client(token) as client:
                _until_told_from_now_on(ledger)
                client.ask({"3714": {"load": 0.4}, "3715": {"load": 0.2}})
                client.stop(why="smoke")
            while not noc.came:
                service.process.poll()
            os.kill(service.process.pid, signal.SIGKILL)
            service.process.wait()
        noc.ended.set()
        noc.answers.clear()
        with served(*start[:4]) as service:
            noc.wait(1)
            figures = httpx.get(f"{service.url}/metrics", headers={"Authorization": f"Bearer {token}"}).text
            code, errors = service.end()
    assert code == 0, errors
    texts = [notice["text"] for body in noc.bodies() for notice in body["notices"]]
    assert any(text == "ada stopped everything: “smoke”." for text in texts), texts
    first = noc.came[0][0]["webhook-id"]
    assert first in [headers["webhook-id"] for headers, _ in noc.taken]  # what nobody took came again
    assert 'kinband_messages_sent_total{target="noc"}' in figures
    assert SECRET not in errors
    assert "a-secret-path" not in errors


def _until_told_from_now_on(ledger: str) -> None:
    """Wait until a target that is new has its place in the ledger, from which on it is told."""
    end = monotonic() + 30
    while monotonic() < end:
        with closing(sqlite3.connect(ledger)) as connection, suppress(sqlite3.OperationalError):
            if connection.execute("SELECT count(*) FROM notify_cursors").fetchone() == (1,):
                return
        sleep(0.05)
    raise AssertionError("no cursor was written")


def test_a_test_message_reaches_everybody_or_says_who_did_not_take_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with web_receiver() as noc, mail_receiver() as mail:
        further = (
            f"  mail:\n    email: {{to: a@example.net, from: k@example.net, server: localhost, port: {mail.port}, "
            "tls: off}\n"
        )
        file = str(settings(tmp_path, noc, further))
        assert main(["notify", file, "--check"]) == 0
        assert "mail: a@example.net by localhost, told of approvals, clock" in capsys.readouterr().out
        assert noc.came == mail.came == []
        assert main(["notify", file]) == 0
        assert "noc: http://127.0.0.1" in capsys.readouterr().out
        assert "messages from kinband arrive here" in json.dumps(noc.bodies())
        assert len(mail.taken) == 1
        noc.answers = [500]
        assert main(["notify", file]) == 2
        said = capsys.readouterr()
        assert "answered 500" in said.err
        assert "noc did not take the test" in said.err
        assert "mail: " in said.out
        assert main(["notify", file, "--target", "nobody"]) == 2
        assert "has no target 'nobody': there is noc, mail" in capsys.readouterr().err
        assert len(noc.taken) == 1
        assert len(mail.taken) == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "notify.yaml cannot be read: No such file or directory"),
        ("targets: [", "notify.yaml, line 1: this is not YAML"),
        ("target: {}", "notify.yaml, line 1: there is no key 'target' at the top of the file: did you mean 'targets'?"),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_service_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, complaint: str
) -> None:
    file = tmp_path / "notify.yaml"
    if text is not None:
        file.write_text(text)
    controller().save(tmp_path / "state")
    options = ["--ledger", str(tmp_path / "l.db"), "--start", str(tmp_path / "state"), "--port", str(free_port())]
    assert main(["serve", *options, "--notify", str(file)]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "l.db").exists()
