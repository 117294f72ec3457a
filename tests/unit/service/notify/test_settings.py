"""Whom to tell what: a file says it, and every complaint about it names the line."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from kinband.errors import BadInputError
from kinband.service.notify.settings import TOPICS, Email, Settings, Webhook, read_settings

SECRET = "whsec_" + "c2VjcmV0" * 5
HOOK = "targets:\n  noc:\n    webhook: https://ops.example.net/hooks/x\n    secret: {env: HOOK}\n"


def read(folder: Path, text: str, **environment: str) -> Settings:
    file = folder / "notify.yaml"
    file.write_text(text, encoding="utf-8")
    return read_settings(file, environment={"HOOK": SECRET, "MAIL": "a password"} | environment)


def test_a_file_names_targets_and_what_they_are_told(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text(f"{SECRET}\n")
    said = read(
        tmp_path,
        """
link: https://kinband.example.net/
silence: {station: 1d, all: 3h}
weekly: fri 16:30
zone: Europe/Berlin
targets:
  noc:
    webhook: https://ops.example.net/hooks/x
    secret: {file: hook}
    tell: [stop, roll-backs]
    per_hour: 6
    timeout: 2s
  night shift:
    email:
      to: [night@example.net, lead@example.net]
      from: kinband@example.net
      server: mail.example.net
      user: kinband
      password: {env: MAIL}
""",
    )
    noc, night = said.targets
    assert isinstance(noc.way, Webhook)
    assert noc.way.secret.text == SECRET
    assert (sorted(noc.topics), noc.per_hour, noc.timeout) == (["roll-backs", "stop"], 6, 2.0)
    assert isinstance(night.way, Email)
    assert (night.way.port, night.way.tls) == (587, "starttls")
    assert night.topics == set(TOPICS)
    assert (said.link, said.station_silent, said.all_silent) == (
        "https://kinband.example.net", timedelta(days=1), timedelta(hours=3),
    )  # fmt: skip
    assert said.weekly == ((4 * 24) + 16) * 60 + 30


def test_secrets_show_themselves_nowhere(tmp_path: Path) -> None:
    said = read(tmp_path, HOOK)
    assert SECRET not in repr(said)
    assert "hooks/x" not in repr(said)
    assert said.targets[0].way.place == "https://ops.example.net"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: the file is empty: name whom to tell under targets"),
        ("{}", "line 1: nobody is to be told: name a target under targets"),
        ("targets:\n  noc: {}", "line 2: targets.noc needs either webhook or email"),
        (HOOK + "    tell: [orders, stopp]", "line 5: there is nothing called 'stopp' to tell: did you mean 'stop'?"),
        (HOOK + "    tell: []", "line 5: targets.noc.tell is empty: list what to tell"),
        (HOOK + "    per_hour: 0", "line 5: targets.noc.per_hour must be a whole number from 1, got 0"),
        (HOOK + "    timeout: 5min", "line 5: targets.noc.timeout must be up to 60s, got 5min"),
        (HOOK + "silence: {station: 5s}", "line 5: silence.station must be at least 1min"),
        (HOOK + "weekly: monday", "line 5: weekly must be a day and a time such as mon 07:00, got 'monday'"),
        (HOOK.replace("HOOK", "NONE"), "line 4: the variable NONE holds no secret on one line"),
        (HOOK.replace("{env: HOOK}", "hunter2"), "line 4: targets.noc.secret must not stand here"),
        (HOOK.replace("env: HOOK", "file: none"), "line 4: none cannot be read: No such file or directory"),
        (HOOK.replace("https://ops", "http://ops"), "line 3: targets.noc.webhook would be sent in the clear"),
        (HOOK.replace("https://ops", "https://me:pw@ops"), "line 3: targets.noc.webhook has a password in it"),
        (HOOK.replace("https://ops", "ops"), "line 3: targets.noc.webhook must be an address such as"),
        (
            "targets: {m: {email: {to: nobody, from: a@b.c, server: s}}}",
            "line 1: targets.m.email.to must be an e-mail address, got 'nobody'",
        ),
        ("targets: {m: {email: {to: a@b.c, from: a@b.c}}}", "line 1: targets.m.email needs server"),
        (
            "targets: {m: {email: {to: a@b.c, from: a@b.c, server: s, tls: on}}}",
            "line 1: targets.m.email.tls must be starttls, tls or off, got 'on'",
        ),
        (
            "targets: {m: {email: {to: a@b.c, from: a@b.c, server: s, tls: off, user: u, password: {env: MAIL}}}}",
            "line 1: a password would travel in the clear: leave out tls: off",
        ),
        (
            "targets: {m: {email: {to: a@b.c, from: a@b.c, server: s, user: u}}}",
            "line 1: targets.m.email needs both user and password, or neither",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(complaint)):
        read(tmp_path, text)


def test_a_short_secret_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="line 4: the secret has 7 bytes, and needs 24") as refused:
        read(tmp_path, HOOK, HOOK="hunter2")
    assert "hunter2" not in str(refused.value)
