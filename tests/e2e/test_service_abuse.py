"""What a service should not be sent: the right status, one sentence, nothing recorded or leaked, and it goes on."""

import csv
import io
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.service_process import ROOT, Options, ServiceProcess, make_tokens, new_controller, service

from kinband.service.access import Tokens
from kinband.service.access.sessions import COOKIE
from kinband.service.ledger import Ledger

JSON = {"Content-Type": "application/json"}
ASK = {"slot": "1", "states": {"3714": {"load": 0.4}}}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("abuse")
    options = Options(str(folder / "ledger.db"), mode="assist", patience=1.5, rails="knobs: {tilt: {max: 8}}")
    with service(options, folder) as found:
        yield found
        assert found.stop() == 0
        assert "Traceback" not in found.log_text()
        with closing(Ledger.open(options.url)) as ledger:
            ledger.verify()


@pytest.fixture(scope="module")
def tokens(process: ServiceProcess) -> dict[str, str]:
    return make_tokens(process.options.url, {"nms": "operator", "ada": "admin", "look": "viewer"})


@pytest.fixture
def client(process: ServiceProcess, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    with process.client(tokens["nms"]) as found:
        yield found


def events(process: ServiceProcess) -> int:
    """How many events are on record."""
    with closing(Ledger.open(process.options.url)) as ledger:
        return ledger.verify()


def sentence(answer: httpx.Response, status: int) -> str:
    """Check that an answer is a problem with a sentence, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert 10 < len(told["detail"]) < 500
    assert "\n" not in told["detail"]
    return str(told["detail"])


def decided(client: httpx.Client, slot: str, station: str = "3714") -> str:
    """Ask for a station and return the id of the decision."""
    answer = client.post("/v1/decisions", json={"slot": slot, "states": {station: {"load": 0.4}}})
    return str(answer.raise_for_status().json()["decisions"][0]["id"])


def _said(answer: httpx.Response) -> list[dict[str, Any]]:
    """What an answer says of decisions, but until when it holds."""
    return [{name: value for name, value in one.items() if name != "valid_until"} for one in answer.json()["decisions"]]


def outcome(**said: Any) -> bytes:
    return json.dumps({"outcomes": [{"decision": "d000001", **said}]}).encode()


BODIES: list[tuple[str, bytes, int, str]] = [
    ("decisions", b"", 422, "the body"),
    ("decisions", b"{", 400, "not JSON"),
    ("decisions", b'{"slot": "1",}', 400, "not JSON"),
    ("decisions", b'{"slot": "\xff"}', 400, "not UTF-8"),
    ("decisions", '{"states": {"3714": {"load": 0.4}}}'.encode("utf-16"), 400, "not UTF-8"),
    ("decisions", b"[" * 100_000, 400, "nested too deep"),
    ("decisions", b'{"slot": "1", "slot": "2"}', 400, "given twice"),
    ("decisions", b"null", 422, "the body"),
    ("decisions", b"[]", 422, "the body"),
    ("decisions", b'{"states": []}', 422, "states"),
    ("decisions", b'{"states": {}}', 422, "states"),
    ("decisions", b'{"states": {"3714": {"load": "0.4"}}}', 422, "load"),
    ("decisions", b'{"states": {"3714": {"load": 1e400}}}', 422, "load"),
    ("decisions", b'{"states": {"3714": {"load": 0.4}}, "colour": 1}', 422, "colour"),
    ("decisions", b'{"states": {"3714": {}}, "slot": "%s"}' % (b"x" * 501), 422, "slot"),
    ("decisions", b'{"states": {"3714": {}}, "slot": "a\\u0000b"}', 422, "slot"),
    ("decisions", b'{"states": {"\\ud800": {"load": 0.4}}}', 422, "states"),
    ("decisions", b'{"states": {"nobody": {"load": 0.4}}}', 404, "nobody"),
    ("decisions", b'{"states": {"3714": {"humidity": 0.4}}}', 422, "humidity"),
    ("decisions", b'{"states": {"3714": {"load": 0.4}}, "running": {"3714": {"tilt": 3}}}', 422, "tilt"),
    ("outcomes", b'{"outcomes": [{"decision": "d000001", "reward": NaN}]}', 400, "NaN is not JSON"),
    ("outcomes", b'{"outcomes": [{"decision": "d000001", "reward": -Infinity}]}', 400, "Infinity is not JSON"),
    ("outcomes", b'{"outcomes": [{"decision": "d000001", "reward": %s}]}' % (b"9" * 5000), 400, "number too long"),
    ("outcomes", outcome(reward="0.9"), 422, "reward"),
    ("outcomes", outcome(reward=True), 422, "reward"),
    ("outcomes", outcome(reward=[0.9]), 422, "reward"),
    ("outcomes", outcome(reward=1e16), 422, "reward"),
    ("outcomes", outcome(reward=0.5, noise=-1), 422, "noise"),
    ("outcomes", outcome(), 422, "needs a reward"),
    ("outcomes", b'{"outcomes": []}', 422, "outcomes"),
    ("outcomes", b'{"outcomes": [{"decision": "d999999", "reward": 0.9}]}', 404, "d999999"),
    ("outcomes", b'{"outcomes": [{"decision": 1, "reward": 0.9}]}', 422, "decision"),
]


@pytest.mark.parametrize(("path", "body", "status", "words"), BODIES, ids=range(len(BODIES)))
def test_a_bad_body_is_refused_with_a_sentence_and_leaves_no_trace(
    process: ServiceProcess, client: httpx.Client, path: str, body: bytes, status: int, words: str
) -> None:
    before = events(process)
    assert words in sentence(client.post(f"/v1/{path}", content=body, headers=JSON), status)
    assert events(process) == before


def test_a_body_that_is_not_called_json_is_refused(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json+x", ""):
        answer = client.post("/v1/decisions", content=json.dumps(ASK), headers={"Content-Type": kind})
        assert "Content-Type: application/json" in sentence(answer, 415)


def test_a_reward_for_a_decision_of_another_station_is_refused(process: ServiceProcess, client: httpx.Client) -> None:
    own, before = decided(client, "mixed up"), events(process)
    body = {"outcomes": [{"decision": own, "reward": 0.9, "station": "3715"}]}
    assert "is of station '3714', not of '3715'" in sentence(client.post("/v1/outcomes", json=body), 409)
    assert events(process) == before


def test_a_request_that_is_sent_again_is_done_once_and_a_key_serves_one_request(
    process: ServiceProcess, client: httpx.Client
) -> None:
    body, key = {"slot": "again", "states": {"3715": {"load": 0.2}}}, {"Idempotency-Key": "again-1"}
    first = client.post("/v1/decisions", json=body, headers=key)
    before = events(process)
    again = client.post("/v1/decisions", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert _said(first) == _said(again)
    assert "used before" in sentence(client.post("/v1/decisions", json={**body, "slot": "else"}, headers=key), 409)
    for bad in ("", "a b", "x" * 201, "\xe4"):
        headers = [(b"Idempotency-Key", bad.encode("latin-1"))]
        sentence(client.post("/v1/decisions", json=ASK, headers=headers), 422)
    assert events(process) == before
    own = first.json()["decisions"][0]["id"]
    told = {"outcomes": [{"decision": own, "reward": 0.8}]}
    client.post("/v1/outcomes", json=told).raise_for_status()
    assert "already" in sentence(client.post("/v1/outcomes", json=told), 409)


def test_forged_expired_and_revoked_tokens_are_refused(process: ServiceProcess, tokens: dict[str, str]) -> None:
    with closing(Ledger.open(process.options.url)) as ledger:
        known = Tokens(ledger)
        short = known.create("short", "operator", expires_in=timedelta(milliseconds=1)).token
        ended = known.create("ended", "operator").token
        known.revoke("ended", by="test")
    before = events(process)
    good = tokens["nms"]
    forged = good[:-1] + ("A" if good[-1] != "A" else "B")
    bad = [forged, good[:-4], good.upper(), f"{good}x", good.replace("kb_", "kc_"), "kb_", "a" * 5000, "'; DROP TABLE"]
    with process.client() as client:
        assert "needs a token" in sentence(client.post("/v1/decisions", json=ASK), 401)
        for text, words in [*((text, "token") for text in bad), (short, "expired"), (ended, "revoked")]:
            answer = client.post("/v1/decisions", json=ASK, headers={"Authorization": f"Bearer {text}"})
            assert words in sentence(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for headers in ({"Authorization": f"Basic {good}"}, {"Cookie": f"{COOKIE}=kbs1.{good}"}, {"X-Token": good}):
            sentence(client.post("/v1/decisions", json=ASK, headers=headers), 401)
        sentence(client.get("/v1/stations", params={"token": good, "access_token": good}), 401)
        page = client.get("/plan", headers={"Cookie": f"{COOKIE}=kbs1.forged.1.9999999999.x.y"})
        assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=%2Fplan")
        viewer = {"Authorization": f"Bearer {tokens['look']}"}
        assert "operator" in sentence(client.post("/v1/decisions", json=ASK, headers=viewer), 403)
    assert events(process) == before


def test_a_token_in_use_is_refused_soon_after_it_was_revoked(process: ServiceProcess) -> None:
    token = make_tokens(process.options.url, {"leaked": "viewer"})["leaked"]
    with process.client(token) as client, closing(Ledger.open(process.options.url)) as ledger:
        assert client.get("/v1/mode").status_code == 200
        Tokens(ledger).revoke("leaked", by="test")
        began = time.monotonic()
        while client.get("/v1/mode").status_code == 200:
            assert time.monotonic() - began < 30  # five seconds, and cores are few
            time.sleep(0.1)
        assert "revoked" in sentence(client.get("/v1/mode"), 401)


def raw(
    process: ServiceProcess, *parts: bytes, more: Iterable[bytes] = (), pause: float = 0.0, seconds: float = 10.0
) -> tuple[bytes, float]:
    """Send bytes as they are, and return all that comes until the other side closes, and after how many seconds."""
    began, found = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", httpx.URL(process.base).port or 0), timeout=seconds) as sock:
        try:
            for part in chain(parts, more):
                sock.sendall(part)
                time.sleep(pause)
        except OSError:
            pass  # it does not listen any more; what it said may still be here
        try:
            while heard := sock.recv(65536):
                found += heard
        except ConnectionResetError:
            pass
    return found, time.monotonic() - began


def head(method: str, path: str, *lines: str) -> bytes:
    """The head of a request after which the connection is closed."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *lines, "", ""]).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_body_that_is_too_large_is_refused_before_it_was_sent(
    process: ServiceProcess, tokens: dict[str, str]
) -> None:
    lines = ["Content-Type: application/json", f"Authorization: Bearer {tokens['nms']}"]
    answer, _ = raw(process, head("POST", "/v1/decisions", *lines, "Content-Length: 1000000000"))
    assert status_of(answer) == 413
    assert b"send less at once" in answer


def test_a_body_whose_end_is_announced_in_two_ways_is_refused_and_the_connection_closed(
    process: ServiceProcess, tokens: dict[str, str]
) -> None:
    lines = ["Content-Type: application/json", f"Authorization: Bearer {tokens['nms']}"]
    request = "\r\n".join(
        ["POST /v1/stop HTTP/1.1", "Host: localhost", *lines, "Content-Length: 6", "Transfer-Encoding: chunked", "", ""]
    ).encode()
    smuggled = head("GET", "/healthz")
    answer, _ = raw(process, request + b"0\r\n\r\n" + smuggled)
    assert status_of(answer) == 400
    assert b"not both: leave one out" in answer
    assert answer.count(b"HTTP/1.1 ") == 1  # what came after it is not answered


def test_head_has_an_answer_of_its_own_and_no_body(process: ServiceProcess) -> None:
    answer, _ = raw(process, head("HEAD", "/healthz"))
    assert status_of(answer) == 200
    assert answer.endswith(b"\r\n\r\n")
    page, _ = raw(process, head("HEAD", "/sign-in"))
    assert status_of(page) == 200


def test_a_body_without_a_length_is_cut_off_once_it_is_too_large(
    process: ServiceProcess, tokens: dict[str, str]
) -> None:
    lines = ["Content-Type: application/json", f"Authorization: Bearer {tokens['nms']}", "Transfer-Encoding: chunked"]
    chunk, sent = b"10000\r\n" + b" " * 0x10000 + b"\r\n", 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(1600):  # 100 MB, if anybody listened
            sent += len(chunk)
            yield chunk

    answer, _ = raw(process, head("POST", "/v1/decisions", *lines), more=chunks())
    assert status_of(answer) == 413
    assert sent < 20_000_000
    for path in ("/sign-in", "/plan/approve"):  # forms as well
        lines = ["Content-Type: application/x-www-form-urlencoded", "Content-Length: 9000000"]
        assert status_of(raw(process, head("POST", path, *lines))[0]) == 413


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: -1"],
        ["Content-Length: 5x"],
        ["Transfer-Encoding: gzip"],
        ["Content-Length: 99999999999999999999999"],
    ],
    ids=str,
)
def test_lengths_that_say_two_things_are_refused(process: ServiceProcess, lines: list[str]) -> None:
    answer, _ = raw(process, head("POST", "/v1/decisions", *lines), b"{}")
    assert status_of(answer) in (400, 413, 501)


def test_a_request_smuggled_behind_another_is_not_answered_as_one(process: ServiceProcess) -> None:
    """With a length and chunks, the chunks count (RFC 9112, 6.3), and what follows is no request of ours."""
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    lines = ["Content-Length: 4", "Transfer-Encoding: chunked"]
    answer, _ = raw(process, head("POST", "/sign-in", *lines), b"0\r\n\r\n" + hidden)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b'"version"' not in answer


def test_a_request_that_comes_byte_by_byte_is_given_up(process: ServiceProcess, tokens: dict[str, str]) -> None:
    lines = ["Content-Type: application/json", f"Authorization: Bearer {tokens['nms']}", "Content-Length: 1000"]
    began = head("POST", "/v1/decisions", *lines)
    for start, drops in ((began, [b" "] * 40), (began[:40], [b"x"] * 40)):
        answer, seconds = raw(process, start, *drops, pause=0.1)
        assert status_of(answer) == 408
        assert b"did not arrive" in answer
        assert seconds < 30
    silent, _ = raw(process)
    assert silent == b""


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,  # TLS to a plain port
    b"\x00" * 1000 + b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",  # no host
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n: nameless\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 50_000 + b"\r\n",
]


@pytest.mark.parametrize("sent", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_http_is_refused_as_a_problem(process: ServiceProcess, sent: bytes) -> None:
    answer, _ = raw(process, sent)
    if answer:  # a connection that was reset while still sending may not have heard it
        assert status_of(answer) == 400
        assert b"application/problem+json" in answer


def test_garbage_after_a_good_request_does_not_hurt_it(process: ServiceProcess) -> None:
    good = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer, _ = raw(process, good + good + b"\x01\x02garbage\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"200", b"400"]


PATHS = [
    "/static/../../../etc/passwd",
    "/static/..%2f..%2f..%2fetc%2fpasswd",
    "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/static/..%5c..%5c..%5cetc%5cpasswd",
    "/static/....//....//etc/passwd",
    "/static/%252e%252e%252fetc%252fpasswd",
    "/static//etc/passwd",
    "/static/kinband.css%00.txt",
    "/static/",
    "/../etc/passwd",
    "//etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/v1/stations/..%2f..%2fetc%2fpasswd",
    "/v1/stations/%2e%2e",
    "/v1/stations/../export/events.csv/../../../etc/passwd",
    "/v1/decisions/%00",
    "/v1/decisions/d000001%0d%0aSet-Cookie:%20a=b",
    "/stations/..%2f..%2fetc%2fpasswd",
    "/decisions/%ff%fe",
    "/similarity/picture.png/../../../etc/passwd",
    "http://169.254.169.254/latest/meta-data",
    "/healthz/",
    "/V1/stations",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_climbs_about_finds_nothing(process: ServiceProcess, tokens: dict[str, str], path: str) -> None:
    for lines in ([], [f"Authorization: Bearer {tokens['look']}"]):
        answer, _ = raw(process, head("GET", path, *lines))
        lead, _, body = answer.partition(b"\r\n\r\n")
        assert status_of(answer) in (303, 400, 401, 404), answer
        assert b"root:" not in body
        assert b"\r\nset-cookie: a" not in lead.lower()
        if status_of(answer) == 303:
            assert re.search(rb"\r\nlocation: /sign-in[^\r\n]*\r\n", lead, re.IGNORECASE)


def test_methods_that_a_path_does_not_have_are_refused(process: ServiceProcess, tokens: dict[str, str]) -> None:
    for method, path in (("TRACE", "/v1/stations"), ("CONNECT", "/v1/stations"), ("DELETE", "/v1/events"),
                         ("PATCH", "/v1/decisions"), ("PUT", "/static/kinband.css"), ("POST", "/healthz")):  # fmt: skip
        answer, _ = raw(process, head(method, path, f"Authorization: Bearer {tokens['ada']}"))
        assert status_of(answer) in (400, 405), (method, path)
        assert tokens["ada"].encode() not in answer


def test_a_header_cannot_smuggle_another_into_the_answer(process: ServiceProcess, tokens: dict[str, str]) -> None:
    for given in ("a%0d%0aX-Evil:%201", "two words", "\x7f", "x" * 65, "é"):
        with process.client() as client:
            answer = client.get("/healthz", headers=[(b"X-Request-ID", given.encode())])
        assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])
    for target in (
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/\r\nX-Evil: 1",
        "javascript:alert(1)",
    ):
        with process.client() as client:
            form = {"token": tokens["look"], "next": target}
            page = client.get("/sign-in", params={"next": target})
            answer = client.post("/sign-in", data=form, headers={"Sec-Fetch-Site": "same-origin"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert 'name="next" value="/"' in page.text
        assert "x-evil" not in {*answer.headers, *page.headers}


def test_hundreds_of_idle_connections_do_not_keep_others_out(process: ServiceProcess, client: httpx.Client) -> None:
    port = httpx.URL(process.base).port or 0
    with ExitStack() as stack:
        for number in range(300):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            if number % 2:
                sock.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Len")
        assert client.get("/v1/stations").status_code == 200
        assert client.get("/readyz").status_code == 200


def test_a_caller_that_goes_away_in_the_midst_is_no_error_of_ours(
    process: ServiceProcess, client: httpx.Client
) -> None:
    lines = ["Content-Type: application/json", f"Authorization: {client.headers['Authorization']}"]
    port = httpx.URL(process.base).port or 0
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(head("POST", "/v1/decisions", *lines, "Content-Length: 50") + b'{"slot"')
            time.sleep(0.02)
    with socket.create_connection(("127.0.0.1", port)) as sock:  # this one has asked, and does not wait for the answer
        body = json.dumps({"slot": "gone", "states": {"3714": {"load": 0.1}}}).encode()
        sock.sendall(head("POST", "/v1/decisions", *lines, f"Content-Length: {len(body)}") + body)
    assert client.get("/healthz").status_code == 200
    time.sleep(0.2)
    assert " ERROR " not in process.log_text()


def test_no_cell_of_a_file_is_a_formula(process: ServiceProcess, tokens: dict[str, str]) -> None:
    formulas = ['=HYPERLINK("http://evil.example")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"]
    with process.client(tokens["ada"]) as client:
        for number, text in enumerate(formulas):
            slot = f"{text.strip()} {number}"  # each its own
            states = {"=1217": {"load": 0.1 * number}}
            allowed = {"=1217": {"tilt": [2 if number % 2 else 6]}}
            asked = client.post("/v1/decisions", json={"slot": slot, "states": states, "allowed": allowed})
            own = asked.raise_for_status().json()["decisions"][0]
            if own["status"] == "waiting":
                said = {"decisions": [own["id"]], "approve": False, "comment": text}
                client.post("/v1/approvals", json=said).raise_for_status()
        files = [f"/v1/export/{name}.csv" for name in ("decisions", "outcomes", "events")]
        cells = [cell for path in [*files, "/v1/plan?format=csv"] for cell in cells_of(client.get(path))]
        signed = client.post("/sign-in", data={"token": tokens["ada"]}, headers={"Sec-Fetch-Site": "same-origin"})
        cookie = {"Cookie": f"{COOKIE}={signed.cookies[COOKIE]}"}
        cells += [cell for path in ("/plan.csv", "/audit.csv") for cell in cells_of(client.get(path, headers=cookie))]
    assert any("HYPERLINK" in cell for cell in cells)
    assert any("1217" in cell for cell in cells)
    assert [cell for cell in cells if cell[:1] in "=+-@\t\r" and cell and not is_number(cell)] == []


def cells_of(answer: httpx.Response) -> list[str]:
    answer.raise_for_status()
    assert answer.headers["content-type"].startswith("text/csv")
    return [cell for row in csv.reader(io.StringIO(answer.text, newline="")) for cell in row]


def is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", text) is not None


def test_nothing_in_the_log_is_a_secret_and_nobody_writes_lines_of_it(
    process: ServiceProcess, tokens: dict[str, str]
) -> None:
    token = tokens["ada"]
    with process.client() as client:
        own = {"Sec-Fetch-Site": "same-origin"}
        signed = client.post("/sign-in", data={"token": token}, headers=own)
        cookie = signed.cookies[COOKIE]
        page = client.get("/plan", headers={"Cookie": f"{COOKIE}={cookie}"})
        csrf = str(re.findall(r'name="csrf" value="([^"]+)"', page.text)[0])
        client.get("/v1/stations", params={"token": token})
        client.get(f"/{token}")
        client.get(f"/stations/{token}%0a2026-11-20T10:00:00.000Z ERROR forged")
        client.post("/sign-in", data={"token": token[:-2] + "zz"}, headers=own)
        client.post(
            "/v1/decisions", content=f'{{"slot": "{token}', headers={"Authorization": f"Bearer {token}", **JSON}
        )
        client.post("/stop", data={"csrf": csrf + "x"}, headers={"Cookie": f"{COOKIE}={cookie}", **own})
        client.get("/v1/mode", headers={"X-Request-ID": token, "Authorization": f"Bearer {token}", "Cookie": cookie})
    raw(process, f"GET /{token} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nBad Header\r\n\r\n".encode())
    log = process.log_text()
    secrets = [text.split("_", 2)[2] for text in (token, *tokens.values())] + [cookie, csrf, cookie.split(".")[-1]]
    found = [secret for secret in secrets if secret in log]
    assert not found, [line for line in log.splitlines() if any(secret in line for secret in found)]
    assert not [line for line in log.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ [\w.]+ \S+ ", line)]
    assert "ERROR" not in re.sub(r'"[^"]*"', "", log)


def test_rails_with_an_unknown_key_end_the_start_with_the_line(tmp_path: Path) -> None:
    new_controller(Options("")).save(tmp_path / "saved")
    (tmp_path / "rails.yaml").write_text("knobs:\n  tilt: {max: 8}\nchangs:\n  per_day: 2\n", encoding="utf-8")
    command = [sys.executable, "-m", "kinband", "serve", "--ledger", str(tmp_path / "ledger.db"), "--port", "0"]
    command += ["--start", str(tmp_path / "saved"), "--rails", str(tmp_path / "rails.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert ended.returncode == 2
    assert "line 3" in ended.stderr
    assert "changs" in ended.stderr
    assert "Traceback" not in ended.stderr
