"""Sessions and what keeps other sites out: forged, truncated, expired, of another key, of a token that has ended."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.datastructures import Headers
from starlette.responses import Response

from kinband.errors import BadInputError
from kinband.service.access import Identity, NotAllowedError, NotSignedInError, Role, Session, Sessions, Tokens
from kinband.service.access.sessions import COOKIE, COOKIE_ATTRIBUTES, check_origin, check_request
from kinband.service.ledger import Ledger


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 10, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def tokens(tmp_path: Path, time: Time) -> Iterator[Tokens]:
    ledger = Ledger.open(tmp_path / "ledger.db", clock=time.now)
    yield Tokens(ledger, remembered=0)
    ledger.close()


@pytest.fixture
def sessions(tokens: Tokens) -> Sessions:
    return Sessions(tokens, lifetime=timedelta(hours=3))


def reason(sessions: Sessions, value: str) -> str:
    with pytest.raises(NotSignedInError) as caught:
        sessions.read_session(value)
    return caught.value.reason


# --- Sessions -----------------------------------------------------------------------------------------------


def test_who_signs_out_has_no_session_in_any_process(tokens: Tokens, sessions: Sessions, time: Time) -> None:
    token = tokens.create("anna", "operator").token
    value, other = sessions.new_session(token), sessions.new_session(token)
    elsewhere = Sessions(tokens, remembered=5, clock=lambda: time.seconds)
    assert elsewhere.read_session(value) == sessions.read_session(value)
    sessions.end_session(value)
    sessions.end_session(value)
    sessions.end_session("no session")
    assert reason(sessions, value) == "session"
    time.seconds += 5
    assert reason(elsewhere, value) == "session"
    assert elsewhere.read_session(other).identity.name == "anna"


def test_what_was_signed_out_of_is_kept_until_it_would_have_ended(tokens: Tokens, time: Time) -> None:
    sessions = Sessions(tokens, lifetime=timedelta(hours=1))
    token = tokens.create("anna", "operator").token
    for _ in range(4):
        sessions.end_session(sessions.new_session(token))
        time.seconds += 1800
    with tokens.ledger.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM secrets WHERE name LIKE 'ended %'")).scalar() == 2


def test_a_session_is_read_back_by_any_process(tokens: Tokens, sessions: Sessions, time: Time) -> None:
    created = tokens.create("anna", "operator")
    value = sessions.new_session(created.token)
    here, there = sessions.read_session(value), Sessions(Tokens(tokens.ledger)).read_session(value)
    assert here == there
    assert here.identity == Identity(created.record.id, "anna", Role.OPERATOR)
    assert here.ends == int(time.now().timestamp()) + 3 * 3600


def test_no_two_sessions_are_alike(tokens: Tokens, sessions: Sessions) -> None:
    token = tokens.create("anna", "operator").token
    values = {sessions.new_session(token) for _ in range(5)}
    assert len({sessions.read_session(value).csrf for value in values}) == len(values) == 5


def test_the_cookie_holds_no_secret(tokens: Tokens, sessions: Sessions) -> None:
    token = tokens.create("anna", "operator").token
    value = sessions.new_session(token)
    assert token.split("_", 2)[2] not in value
    assert sessions.read_session(value).csrf not in value


def test_a_session_ends(tokens: Tokens, sessions: Sessions, time: Time) -> None:
    value = sessions.new_session(tokens.create("anna", "operator").token)
    time.seconds += 3 * 3600 - 1
    sessions.read_session(value)
    time.seconds += 1
    assert reason(sessions, value) == "session"


def test_a_session_ends_with_its_token(tokens: Tokens, sessions: Sessions, time: Time) -> None:
    revoked = sessions.new_session(tokens.create("anna", "operator").token)
    expired = sessions.new_session(tokens.create("ben", "viewer", expires_in=timedelta(hours=1)).token)
    tokens.revoke("anna")
    time.seconds += 3600
    assert (reason(sessions, revoked), reason(sessions, expired)) == ("revoked", "expired")


def test_a_token_that_is_refused_opens_no_session(tokens: Tokens, sessions: Sessions) -> None:
    token = tokens.create("anna", "operator").token
    tokens.revoke("anna")
    for bad in (token, "nonsense", token[:-1]):
        with pytest.raises(NotSignedInError):
            sessions.new_session(bad)


def test_any_changed_character_is_noticed(tokens: Tokens, sessions: Sessions) -> None:
    value = sessions.new_session(tokens.create("anna", "operator").token)
    for place, character in enumerate(value):
        for other in "0aZ.":
            if other != character:
                assert reason(sessions, value[:place] + other + value[place + 1 :]) == "session"


def test_what_is_no_session_is_refused(tokens: Tokens, sessions: Sessions) -> None:
    value = sessions.new_session(tokens.create("anna", "operator").token)
    longer = [value + "A", value + "=", value + "\n", " " + value, value + "." + value, "ü" * 200, "9" * 100_000]
    for bad in [*(value[:length] for length in range(len(value))), *longer]:
        assert reason(sessions, bad) == "session"


def test_a_session_under_another_key_is_refused(tokens: Tokens, sessions: Sessions) -> None:
    token = tokens.create("anna", "operator").token
    value = sessions.new_session(token)
    with tokens.ledger.connected(writes=True) as connection:
        connection.execute(text("DELETE FROM secrets"))
    anew = Sessions(tokens)
    assert reason(anew, value) == "session"
    assert anew.read_session(anew.new_session(token)).identity.name == "anna"


def test_the_database_alone_does_not_make_a_session(tokens: Tokens, sessions: Sessions, time: Time) -> None:
    created = tokens.create("anna", "admin")
    real = sessions.new_session(created.token)
    with tokens.ledger.reading() as connection:
        key = bytes.fromhex(connection.execute(text("SELECT value FROM secrets")).scalar_one())
        stored = connection.execute(text("SELECT hash FROM tokens")).scalar_one()

    def signed(proof: str) -> str:
        ends = int(time.now().timestamp()) + 600
        claim = f"kbs1.{created.record.id}.{ends - 600}.{ends}.{'n' * 16}.{proof}"
        mark = hmac.new(key, f"session\n{claim}".encode(), hashlib.sha256).digest()
        return f"{claim}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"

    assert sessions.read_session(signed(real.split(".")[5])).identity.name == "anna"  # the forgery itself is sound
    for proof in (stored, hashlib.sha256(stored.encode()).hexdigest(), "0" * 64):
        assert reason(sessions, signed(proof)) == "unknown"


def test_a_session_lasts_a_second_at_least(tokens: Tokens) -> None:
    with pytest.raises(BadInputError, match="a second at least"):
        Sessions(tokens, lifetime=timedelta(0))


def test_the_cookie_is_set_as_its_name_demands(tokens: Tokens, sessions: Sessions) -> None:
    response, value = Response(), sessions.new_session(tokens.create("anna", "viewer").token)
    response.set_cookie(COOKIE, value, max_age=sessions.max_age, **COOKIE_ATTRIBUTES)
    cookie = SimpleCookie(response.headers["set-cookie"])[COOKIE]
    assert cookie.value == value
    assert (cookie["path"], cookie["secure"], cookie["httponly"], cookie["domain"]) == ("/", True, True, "")
    assert (cookie["samesite"].lower(), cookie["max-age"]) == ("strict", str(3 * 3600))


# --- Requests of other sites --------------------------------------------------------------------------------


SESSION = Session(Identity("i", "anna", Role.OPERATOR), "right", 0)
OURS = {"host": "kinband.example", "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "post", "TRACE", "INVENTED"])
def test_a_change_needs_the_text_of_the_session(method: str) -> None:
    check_request(SESSION, method, headers=OURS, field="right")
    check_request(SESSION, method, headers=Headers(OURS | {"X-CSRF-Token": "right"}))
    for headers, field in (
        (OURS, None),
        (OURS, ""),
        (OURS, "wrong"),
        (OURS, "ü"),
        (OURS | {"x-csrf-token": "w"}, "right"),
    ):
        with pytest.raises(NotAllowedError, match="load the page again"):
            check_request(SESSION, method, headers=headers, field=field)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_looking_needs_nothing(method: str) -> None:
    check_request(SESSION, method, headers={"sec-fetch-site": "cross-site", "origin": "https://evil.example"})


def test_the_text_of_another_session_will_not_do(tokens: Tokens, sessions: Sessions) -> None:
    token = tokens.create("anna", "operator").token
    mine, other = (sessions.read_session(sessions.new_session(token)) for _ in range(2))
    check_request(mine, "POST", headers=OURS, field=mine.csrf)
    with pytest.raises(NotAllowedError):
        check_request(mine, "POST", headers=OURS, field=other.csrf)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # a page of another service below the same domain
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "https://kinband.example"},
        {"origin": "https://evil.example"},
        {"origin": "https://kinband.example.evil.example"},
        {"origin": "https://kinband.example:8443"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "kinband.example"},
        {"origin": "https://[kinband"},
        {"origin": "file://kinband.example"},
    ],
)
def test_a_change_from_another_site_is_refused_even_with_the_text(headers: dict[str, str]) -> None:
    with pytest.raises(NotAllowedError, match="another site"):
        check_request(SESSION, "POST", headers={"host": "kinband.example"} | headers, field="right")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("kinband.example", "https://kinband.example"),
        ("Kinband.Example:443", "https://kinband.example"),
        ("kinband.example", "https://kinband.example:443"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_a_change_from_our_own_pages_passes_in_browsers_that_send_the_origin_alone(host: str, origin: str) -> None:
    check_origin("POST", {"host": host, "origin": origin})


def test_a_script_that_is_no_browser_passes_the_check_of_the_origin() -> None:
    check_origin("POST", {"host": "127.0.0.1:8000"})
