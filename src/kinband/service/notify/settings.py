"""Whom to tell what: one small YAML file, whose every complaint names its line."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parseaddr
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from kinband.errors import BadInputError
from kinband.guardrails.model import DAYS
from kinband.guardrails.yaml import Entry, entry_of, got, near, text_of, zone_of
from kinband.service.notify.signing import key_of

TOPICS: Mapping[str, str] = {
    "approvals": "what waits for a person, or for the second of two",
    "orders": "changes for the network manager to make",
    "failed": "changes that the network manager could not make",
    "expired": "approved changes that were not ordered or not confirmed in time",
    "roll-backs": "changes that the guard took back",
    "stop": "the big switch",
    "rails": "other guard rails in force",
    "silence": "rewards that no longer come",
    "clock": "a clock that cannot be trusted",
    "store": "a ledger that takes nothing, or a disk that is nearly full",
    "digest": "the week in figures, once a week",
}
"""What can be told; a target that names none is told all."""

PER_HOUR = 30
"""Messages an hour to a target; what happens beyond is gathered into the next one."""

_LONGEST = timedelta(seconds=60)  # that an answer is waited for
Tls = Literal["starttls", "tls", "off"]
_PORTS: Mapping[Tls, int] = {"starttls": 587, "tls": 465, "off": 25}
_TLS: Mapping[str, Tls] = {name: name for name in _PORTS}


@dataclass(frozen=True)
class Secret:
    """A password or a key, which shows itself nowhere.

    Attributes:
        text: What it is.

    Example:
        >>> Secret("whsec_abc")
        Secret(...)
    """

    text: str = field(repr=False)


@dataclass(frozen=True)
class Webhook:
    """A program that takes messages by HTTP.

    Attributes:
        url: Its address, which may be a secret itself.
        secret: What messages to it are signed with.
    """

    url: str = field(repr=False)
    secret: Secret

    @property
    def place(self) -> str:
        """Where it is, as logs and pages may show it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


@dataclass(frozen=True)
class Email:
    """People who are written to.

    Attributes:
        to: Their addresses.
        sender: Who it is from.
        server: The mail server that takes it.
        port: Its port.
        tls: "starttls", "tls" from the first byte on, or "off".
        user: Who signs in there; empty for nobody.
        password: With what.
    """

    to: tuple[str, ...]
    sender: str
    server: str
    port: int
    tls: Tls
    user: str
    password: Secret | None

    @property
    def place(self) -> str:
        """Where it goes, as logs and pages may show it."""
        return f"{', '.join(self.to)} by {self.server}"


@dataclass(frozen=True)
class Target:
    """Somebody who is told.

    Attributes:
        name: What the file calls it.
        way: How.
        topics: What.
        per_hour: At most so many messages an hour.
        timeout: Seconds that an answer is waited for.
    """

    name: str
    way: Webhook | Email
    topics: frozenset[str]
    per_hour: int = PER_HOUR
    timeout: float = 10.0


@dataclass(frozen=True)
class Settings:
    """What a file says.

    Attributes:
        targets: Who is told.
        link: Address of the dashboard, for links; empty for none.
        station_silent: After how long without a reward a station is told of; None for never.
        all_silent: The same where not one station has any.
        weekly: The minute of the week, from Monday 00:00, at which the digest goes out.
        zone: The zone of that.
    """

    targets: tuple[Target, ...]
    link: str = ""
    station_silent: timedelta | None = None
    all_silent: timedelta | None = None
    weekly: int = 7 * 60
    zone: tzinfo = UTC

    def week_over(self, now: datetime) -> str:
        """Return the last week whose digest is due.

        Example:
            >>> settings = Settings((), weekly=7 * 60)
            >>> [settings.week_over(datetime(2026, 11, 16, hour, tzinfo=UTC)) for hour in (6, 7)]
            ['2026-W45', '2026-W46']
        """
        local = now.astimezone(self.zone)
        minute = (local.weekday() * 24 + local.hour) * 60 + local.minute
        year, week, _ = (local - timedelta(days=7 if minute >= self.weekly else 14)).isocalendar()
        return f"{year:04d}-W{week:02d}"


def read_settings(path: Path, *, environment: Mapping[str, str] | None = None) -> Settings:
    """Return what a file says, its secrets read; what is wrong is told with its line.

    Args:
        path: The file; those of secrets are looked for beside it.
        environment: Where variables are looked up; that of the process if not given.
    """
    text = text_of(path)
    if not text.strip():
        raise BadInputError(f"{path}, line 1: the file is empty: name whom to tell under targets")
    reader = _Reader(path.parent, os.environ if environment is None else environment)
    return reader.settings(entry_of(text, source=str(path)))


class _Reader:
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment

    def settings(self, root: Entry) -> Settings:
        given = root.mapping(["targets", "link", "silence", "weekly", "zone"])
        targets = given["targets"].mapping() if "targets" in given else {}
        if not targets:
            given.get("targets", root).fail("nobody is to be told: name a target under targets")
        silence = got(given, "silence", lambda entry: entry.mapping(["station", "all"]), {})
        return Settings(
            tuple(self._target(name, entry) for name, entry in targets.items()),
            link=got(given, "link", _link, ""),
            station_silent=got(silence, "station", _span, None),
            all_silent=got(silence, "all", _span, None),
            weekly=got(given, "weekly", _minute_of_week, 7 * 60),
            zone=got(given, "zone", zone_of, UTC),
        )

    def _target(self, name: str, entry: Entry) -> Target:
        if not name or len(name) > 60 or not name.isprintable():
            entry.fail(f"{name!r:.40} is no name of a target: give one of 1 to 60 printable characters")
        given = entry.mapping(["webhook", "secret", "email", "tell", "per_hour", "timeout"])
        if ("webhook" in given) == ("email" in given):
            entry.fail(f"{entry.path} needs either webhook or email")
        if "secret" in given and "email" in given:
            given["secret"].fail(f"{entry.path}.secret signs webhooks: an e-mail has email.password")
        way = self._email(given["email"]) if "email" in given else self._webhook(entry, given)
        return Target(
            name,
            way,
            got(given, "tell", _topics, frozenset(TOPICS)),
            per_hour=got(given, "per_hour", lambda one: one.count(least=1), PER_HOUR),
            timeout=got(given, "timeout", _timeout, 10.0),
        )

    def _webhook(self, entry: Entry, given: Mapping[str, Entry]) -> Webhook:
        if "secret" not in given:
            entry.fail(f"{entry.path} needs secret, as {{file: PATH}} or {{env: NAME}}: messages are signed with it")
        place = given["webhook"]
        url = place.text() if place.kind == "scalar" else self._secret(place).text
        _check_url(place, url)
        secret = self._secret(given["secret"])
        given["secret"].make(lambda: key_of(secret.text))
        return Webhook(url, secret)

    def _email(self, entry: Entry) -> Email:
        given = entry.mapping(["to", "from", "server", "port", "tls", "user", "password"])
        for name in ("to", "from", "server"):
            if name not in given:
                entry.fail(f"{entry.path} needs {name}")
        listed = given["to"].items() if given["to"].kind == "seq" else [given["to"]]
        if not listed:
            given["to"].fail(f"{entry.path}.to is empty: name at least one address")
        tls = _tls(given["tls"]) if "tls" in given else "starttls"
        port = got(given, "port", lambda one: one.count(least=1), _PORTS[tls])
        if port > 65_535:
            given["port"].fail(f"{entry.path}.port must be at most 65535, got {port}")
        server = given["server"].text("the name of a mail server")
        if ("user" in given) != ("password" in given):
            entry.fail(f"{entry.path} needs both user and password, or neither")
        if tls == "off" and "password" in given and not _loopback(server):
            given["password"].fail("a password would travel in the clear: leave out tls: off")
        return Email(
            tuple(_address(one) for one in listed), _address(given["from"]), server, port, tls,
            got(given, "user", Entry.text, ""), self._secret(given["password"]) if "password" in given else None,
        )  # fmt: skip

    def _secret(self, entry: Entry) -> Secret:
        """Return a secret, which stands in a file or in a variable and never in the settings themselves."""
        if entry.kind != "map":
            entry.fail(f"{entry.path} must not stand here: write {{file: PATH}} or {{env: NAME}}")
        given = entry.mapping(["file", "env"])
        if len(given) != 1:
            entry.fail(f"{entry.path} is in one place: give either file or env")
        if "env" in given:
            name = given["env"].text("the name of a variable")
            text = self._environment.get(name, "").strip()
            where = f"the variable {name}"
        else:
            where = given["file"].text("the path of a file")
            try:
                text = (self._folder / where).read_text(encoding="utf-8").strip()
            except OSError as error:
                entry.fail(f"{where} cannot be read: {error.strerror}")
            except UnicodeDecodeError:
                entry.fail(f"{where} is not UTF-8")
        if not text or not text.isprintable():
            entry.fail(f"{where} holds no secret on one line")
        return Secret(text)


def _check_url(entry: Entry, url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or " " in url:
        entry.fail(f"{entry.path} must be an address such as https://host/path")
    if parts.username or parts.password:
        entry.fail(f"{entry.path} has a password in it: messages are signed, leave it out")
    if parts.scheme == "http" and not _loopback(parts.hostname or ""):
        entry.fail(f"{entry.path} would be sent in the clear: give an address with https")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _link(entry: Entry) -> str:
    url = entry.text("the address of the dashboard")
    if not url.startswith(("http://", "https://")) or not url.isprintable():
        entry.fail(f"{entry.path} must be the address of the dashboard, such as https://kinband.example.net")
    return url.rstrip("/")


def _span(entry: Entry) -> timedelta:
    span = entry.duration()
    return span if span >= timedelta(minutes=1) else entry.fail(f"{entry.path} must be at least 1min")


def _timeout(entry: Entry) -> float:
    span = entry.duration()
    if not timedelta(0) < span <= _LONGEST:
        entry.fail(f"{entry.path} must be up to 60s, got {entry.text()}")
    return span.total_seconds()


def _topics(entry: Entry) -> frozenset[str]:
    for item in entry.items():
        if item.text() not in TOPICS:
            item.fail(f"there is nothing called {item.text()!r:.40} to tell: {near(item.text(), TOPICS)}")
    found = frozenset(item.text() for item in entry.items())
    return found or entry.fail(f"{entry.path} is empty: list what to tell, or remove it for everything")


def _tls(entry: Entry) -> Tls:
    found = _TLS.get(entry.text().lower())
    return found or entry.fail(f"{entry.path} must be starttls, tls or off, got {entry.text()!r:.40}")


def _address(entry: Entry) -> str:
    text = entry.text("an e-mail address")
    if parseaddr(text)[1] != text or text.count("@") != 1 or not text.isascii() or any(map(str.isspace, text)):
        entry.fail(f"{entry.path} must be an e-mail address, got {text!r:.60}")
    return text


def _minute_of_week(entry: Entry) -> int:
    day, _, time = entry.text("a day and a time such as mon 07:00").lower().partition(" ")
    hour, _, minute = time.strip().partition(":")
    if day not in DAYS or not (hour.isdigit() and minute.isdigit()) or int(hour) > 23 or int(minute) > 59:
        entry.fail(f"{entry.path} must be a day and a time such as mon 07:00, got {entry.text()!r:.40}")
    return (DAYS.index(day) * 24 + int(hour)) * 60 + int(minute)
