"""While the database is away, whoever was known a moment ago may go on reading, for some minutes and nothing else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.http_service import Served, served

from kinband.service.access import NotSignedInError, Sessions, Tokens
from kinband.service.access.tokens import REMEMBERED, WHILE_AWAY
from kinband.service.api.routing import STALE
from kinband.service.ledger import Ledger, LedgerUnavailableError
from kinband.service.operations.operations import ASKED_AGAIN


class Time:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def service(tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("kinband.service.access.tokens.monotonic", time)  # for those that are made below
    with served(tmp_path) as found:
        found.tokens._clock = found.tokens._known._clock = time
        monkeypatch.setattr("kinband.service.operations.operations.monotonic", time)
        yield found


@contextmanager
def away(service: Served) -> Iterator[list[str]]:
    """The database of a service answers nothing; gives who has asked."""
    asked: list[str] = []

    def silent(*_args: Any, **_named: Any) -> Any:
        asked.append(threading.current_thread().name)
        raise LedgerUnavailableError("the ledger cannot be reached at /secret/place: try again later")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.operations.ledger, "connected", silent)
        yield asked


def test_who_was_known_may_read_for_some_minutes_and_the_answer_says_that_it_may_be_old(
    service: Served, time: Time
) -> None:
    client = service.client("operator")
    fresh = client.get("/v1/stations")
    assert STALE not in fresh.headers
    with away(service):
        for later in (1.0, REMEMBERED + 1, WHILE_AWAY - 1):
            time.now = later
            answer = client.get("/v1/stations")
            assert (answer.status_code, answer.headers[STALE]) == (200, "true")
            assert answer.json() == fresh.json()
        assert client.get("/v1/plan?format=csv").headers[STALE] == "true"
        time.now = WHILE_AWAY
        assert client.get("/v1/stations").status_code == 503
    time.now += REMEMBERED + 1
    assert STALE not in client.get("/v1/stations").headers


def test_nobody_changes_anything_with_a_token_that_cannot_be_looked_up(service: Served, time: Time) -> None:
    client = service.client("admin")
    client.get("/v1/mode")
    with away(service) as asked, pytest.MonkeyPatch.context() as patch:
        time.now = REMEMBERED + 1
        patch.setattr(service.operations, "stop", lambda **_: pytest.fail("it was let in"))
        for _ in range(2):
            before = len(asked)
            assert client.post("/v1/stop").status_code == 503
            assert len(asked) > before  # it was looked up, whoever read before
            assert client.get("/v1/mode").status_code == 200


def test_a_revocation_and_a_wrong_secret_are_refused_while_the_database_is_away_too(
    service: Served, time: Time
) -> None:
    tokens: Tokens = service.tokens
    viewer, known = service.client("viewer"), tokens.create("short", "viewer")
    revoked, unseen = tokens.create("gone", "viewer"), tokens.create("never came", "viewer")
    clients = {made.record.name: bearing(service, made.token) for made in (known, revoked, unseen)}
    assert [clients[name].get("/v1/mode").status_code for name in ("short", "gone")] == [200, 200]
    elsewhere = Tokens(service.operations.ledger)
    elsewhere.revoke("gone")
    time.now = REMEMBERED + 1
    assert clients["gone"].get("/v1/mode").status_code == 401  # seen before the database went
    viewer.get("/v1/mode")
    with away(service):
        time.now += REMEMBERED + 1
        assert viewer.get("/v1/mode").status_code == 200
        assert clients["gone"].get("/v1/mode").status_code == 401
        assert clients["never came"].get("/v1/mode").status_code == 503
        assert clients["short"].get("/v1/mode").status_code == 200
        wrong = bearing(service, known.token[:12] + revoked.token[12:])  # the id of one and the secret of another
        assert wrong.get("/v1/mode").status_code == 401


def test_a_token_that_has_ended_ends_while_the_database_is_away_too(service: Served, time: Time) -> None:
    made = service.tokens.create("short", "viewer", expires_in=timedelta(hours=1))
    client = bearing(service, made.token)
    assert client.get("/v1/mode").status_code == 200
    with away(service), pytest.MonkeyPatch.context() as patch:
        time.now = REMEMBERED + 1
        assert client.get("/v1/mode").status_code == 200
        patch.setattr(service.operations.ledger, "now", lambda: "2999-01-01T00:00:00.000000Z")
        assert client.get("/v1/mode").status_code == 401


def test_a_token_that_this_process_revokes_is_not_remembered_for_reading(service: Served, time: Time) -> None:
    made = service.tokens.create("nms", "viewer")
    client = bearing(service, made.token)
    client.get("/v1/mode")
    service.tokens.revoke("nms")
    with away(service):
        assert client.get("/v1/mode").status_code == 503


def test_sessions_go_on_reading_too_and_change_nothing(service: Served, time: Time) -> None:
    sessions = Sessions(service.tokens)
    value = sessions.new_session(service.texts["admin"])
    assert sessions.read_session(value).identity.name == "admin one"
    with away(service):
        time.now = REMEMBERED + 1
        assert sessions.read_session(value, reading=True).identity.name == "admin one"
        with pytest.raises(LedgerUnavailableError):
            sessions.read_session(value)
        with pytest.raises(NotSignedInError):
            sessions.read_session(value[:-1], reading=True)
        time.now = WHILE_AWAY
        with pytest.raises(LedgerUnavailableError):
            sessions.read_session(value, reading=True)


def test_who_only_reads_does_not_ask_an_absent_database_again_and_again(service: Served, time: Time) -> None:
    client = service.client("viewer")
    client.get("/v1/mode")
    with away(service) as asked:
        time.now = REMEMBERED + 1
        client.get("/v1/mode")
        first = len(asked)
        for _ in range(5):
            assert client.get("/v1/mode").headers[STALE] == "true"
        assert len(asked) == first
        time.now += max(ASKED_AGAIN, REMEMBERED) + 1
        client.get("/v1/mode")
        assert len(asked) > first


def test_nobody_waits_for_somebody_who_waits_for_news(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, read = threading.Event(), Ledger.read

    def hanging(self: Ledger, **wanted: Any) -> Any:
        found = list(read(self, **wanted))
        assert hangs.wait(timeout=30)
        return found

    monkeypatch.setattr(Ledger, "read", hanging)
    thread = threading.Thread(target=service.operations.refresh)
    thread.start()
    with service.operations.looking() as read_model:
        assert len(read_model.stations) == 3
    hangs.set()
    thread.join()


def bearing(service: Served, token: str) -> httpx.Client:
    """A client that comes with a token."""
    return httpx.Client(
        transport=service.transport(), base_url="http://kinband.test", headers={"Authorization": f"Bearer {token}"}
    )
