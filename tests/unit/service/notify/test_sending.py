"""How a message goes out, to real receivers on this machine."""

import base64
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.policy import default
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from tests.support.receivers import Receiver, certificate_in, free_port, mail_receiver, web_receiver

from kinband.errors import BadInputError
from kinband.service.notify.notices import Message, Notice
from kinband.service.notify.sending import NotTakenError, send
from kinband.service.notify.settings import Email, Secret, Target, Webhook
from kinband.service.notify.signing import verified

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
KEY = b"kinband signs its messages"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
NOTICE = Notice("n1", "stop", NOW.isoformat(), "Ada stopped everything: “smoke\r\nBcc: x@y.z”.")
MESSAGE = Message.of("noc", [NOTICE], at=NOW, link="https://kinband.example.net")


@pytest.fixture
def web() -> Iterator[Receiver]:
    with web_receiver() as found:
        yield found


def hook(receiver: Receiver, timeout: float = 5.0) -> Target:
    return Target("noc", Webhook(receiver.url, Secret(SECRET)), frozenset({"stop"}), timeout=timeout)


def mail(receiver: Receiver, **further: Any) -> Target:
    given: dict[str, Any] = {"server": "localhost", "port": receiver.port, "tls": "off", "user": "", "password": None}
    way = Email(("a@example.net", "b@example.net"), "kinband@example.net", **(given | further))
    return Target("mail", way, frozenset({"stop"}), timeout=1.0)


def test_a_webhook_is_signed_so_that_anybody_with_the_secret_can_tell(web: Receiver) -> None:
    send(MESSAGE, hook(web), now=NOW)
    [(headers, body)] = web.taken
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body  # as the standard has it
    naive = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{naive}"
    assert verified(body, headers, secret=SECRET, now=NOW) == MESSAGE.id
    assert web.bodies()[0]["notices"][0]["text"].startswith("Ada stopped everything")


@pytest.mark.parametrize("changed", ["body", "time", "secret", "later", "earlier", "unsigned"])
def test_a_receiver_finds_out_what_is_not_ours(web: Receiver, changed: str) -> None:
    send(MESSAGE, hook(web), now=NOW)
    [(headers, body)] = web.taken
    secret, now = SECRET, NOW
    match changed:
        case "body":
            body += b" "
        case "time":
            headers = headers | {"webhook-timestamp": str(int(NOW.timestamp()) + 1)}
        case "secret":
            secret = SECRET.replace("a", "b")
        case "later":
            now += timedelta(minutes=6)
        case "earlier":
            now -= timedelta(minutes=6)
        case "unsigned":
            headers = {}
    with pytest.raises(BadInputError, match=r"the signature is not|not of the last 5 minutes"):
        verified(body, headers, secret=secret, now=now)


@pytest.mark.parametrize(("status", "refused"), [(500, False), (503, False), (404, False), (302, False), (422, True)])
def test_an_answer_that_is_no_yes_is_a_failure_without_the_address(web: Receiver, status: int, refused: bool) -> None:
    web.answers, web.headers = [status], {"Retry-After": "7", "Location": "http://127.0.0.1:1/"}
    with pytest.raises(NotTakenError, match=f"http://127.0.0.1:{web.port} answered {status}") as failed:
        send(MESSAGE, hook(web), now=NOW)
    assert (failed.value.refused, failed.value.after) == (refused, 7.0)
    assert "a-secret-path" not in str(failed.value)
    assert len(web.came) == 1


def test_who_never_answers_is_waited_for_as_long_as_said(web: Receiver) -> None:
    web.answers, began = ["never"], monotonic()
    with pytest.raises(NotTakenError, match="no answer"):
        send(MESSAGE, hook(web, timeout=0.3), now=NOW)
    assert monotonic() - began < 5


def test_nobody_there_is_said_without_the_address() -> None:
    with pytest.raises(NotTakenError, match=r"refused|connecterror") as failed:
        send(MESSAGE, hook(Receiver(free_port())), now=NOW)
    assert "secret" not in str(failed.value)


def test_a_mail_says_all_in_its_subject_and_nothing_can_be_slipped_in() -> None:
    with mail_receiver() as receiver:
        send(MESSAGE, mail(receiver), now=NOW)
    [text] = receiver.taken
    came = message_from_string(text, policy=default)
    assert came["Subject"].startswith("kinband: Ada stopped everything")
    assert came["Bcc"] is None
    assert came["To"] == "a@example.net, b@example.net"
    assert came["Message-ID"] == f"<{MESSAGE.id}@example.net>"
    body = came.get_content()
    assert "2026-11-20 10:00 UTC" in body
    assert "https://kinband.example.net/" in body


def test_a_mail_goes_encrypted_with_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = certificate_in(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    secure = {"tls": "starttls", "user": "kinband"}
    with mail_receiver(certificate=certificate, password="good") as receiver:  # noqa: S106 - of a test
        send(MESSAGE, mail(receiver, **secure, password=Secret("good")), now=NOW)
        assert len(receiver.taken) == 1
        with pytest.raises(NotTakenError, match=r"localhost refused user and password \(535\)"):
            send(MESSAGE, mail(receiver, **secure, password=Secret("hunter2")), now=NOW)
    assert ssl.create_default_context().verify_mode == ssl.CERT_REQUIRED


def test_a_mail_server_without_encryption_gets_no_mail_that_wants_it() -> None:
    with mail_receiver() as receiver, pytest.raises(NotTakenError):
        send(MESSAGE, mail(receiver, tls="starttls"), now=NOW)
    assert receiver.came == []


@pytest.mark.parametrize(("answer", "refused"), [(451, False), (554, True)])
def test_a_mail_server_may_refuse_now_or_for_good(answer: int, refused: bool) -> None:
    with mail_receiver() as receiver:
        receiver.answers = [answer]
        with pytest.raises(NotTakenError, match=f"localhost refused the message \\({answer}\\)") as failed:
            send(MESSAGE, mail(receiver), now=NOW)
    assert failed.value.refused is refused


def test_a_mail_server_that_never_speaks_is_left() -> None:
    with mail_receiver() as receiver:
        receiver.answers = ["never"]
        with pytest.raises(NotTakenError, match="no answer"):
            send(MESSAGE, mail(receiver), now=NOW)
