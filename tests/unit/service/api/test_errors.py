"""Bad input gets the right status, one clear sentence, and loses and leaks nothing."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.http_service import Served, served

from kinband import ConfigurationSpace, Controller
from kinband.errors import SavedStateError
from kinband.policies.safety import Conservative
from kinband.service.api.requests import LARGEST, allowed, measured, number
from kinband.service.ledger import LedgerUnavailableError

JSON = {"Content-Type": "application/json"}
FRAMEWORK = re.compile(r"Input should|valid (string|boolean|integer|dict)|Field required|Value error|ctx|pydantic")
"""Words of the library that checks requests, which callers know nothing of."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("errors")) as found:
        found.operations.ask({"a": {"load": 0.5}})  # d000001
        yield found


@pytest.fixture
def client(service: Served) -> httpx.Client:
    return service.client("admin")


def problem(answer: httpx.Response, status: int) -> str:
    """The sentence of a problem that is one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["title"]
    assert found["request_id"] == answer.headers["x-request-id"]
    detail: str = found["detail"]
    assert "\n" not in detail
    assert len(detail) <= 400
    return detail


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'{"states": {"a": ', "line 1"),
        (b"[1, 2", "not JSON"),
        (b'{"states": {"a": {"load": NaN}}}', "NaN is not JSON"),
        (b'{"states": {"a": {"load": -Infinity}}}', "-Infinity is not JSON"),
        (b'{"states": {}, "states": {"a": {"load": 1}}}', "'states' is given twice"),
        (b'{"states": "\xff"}', "UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"time": ' + b"9" * 5000 + b"}", "number too long"),
    ],
)
def test_what_is_not_json_is_refused(client: httpx.Client, content: bytes, word: str) -> None:
    assert word in problem(client.post("/v1/decisions", content=content, headers=JSON), 400)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_a_body_that_is_not_sent_as_json_is_refused(client: httpx.Client, kind: str) -> None:
    body = b'{"states": {"a": {"load": 0.5}}}'
    detail = problem(client.post("/v1/decisions", content=body, headers={"Content-Type": kind}), 415)
    assert "Content-Type: application/json" in detail


def test_the_type_may_carry_parameters(client: httpx.Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/stop", content=b"{}", headers=headers).status_code == 200
    assert client.post("/v1/resume").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/v1/decisions", {}, "nobody is asked for: give states, or stations whose counters you have sent"),
        ("/v1/decisions", {"states": {}}, "states must hold at least 1, got 0"),
        ("/v1/decisions", [], "the body must be an object, got a list"),
        ("/v1/decisions", {"states": {"a": {"load": "0.5"}}}, "states.a.load must be a number, got '0.5'"),
        ("/v1/decisions", {"states": {"a": {"load": True}}}, "states.a.load must be a number, got true"),
        ("/v1/decisions", {"states": {"a": {"load": 1e300}}}, "states.a.load must be a finite number"),
        ("/v1/decisions", {"states": {"a": {"load": None}}}, "states.a.load must be a number, got null"),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "solt": "x"}, "solt is not known here"),
        ("/v1/decisions", {"states": {"a": {"laod": 0.5}}}, "laod"),
        ("/v1/decisions", {"states": {"a": {}}}, "load"),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "slot": ""}, "slot must not be empty"),
        (
            "/v1/decisions",
            {"states": {"a": {"load": 0.5}}, "slot": "x" * 501},
            "slot must have at most 500 characters, got 501",
        ),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "slot": "a\nb"}, "slot must be text without control"),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "running": {"b": {"tilt": 4}}}, "not asked for: b"),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "allowed": {"a": {"tilt": {"lo": 1}}}}, "low, high or both"),
        (
            "/v1/decisions",
            {"states": {"a": {"load": 0.5}}, "allowed": {"a": {"tilt": {"low": 3, "high": 2}}}},
            "low <=",
        ),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "allowed": {"a": []}}, "no configuration is allowed"),
        ("/v1/decisions", {"states": {"a": {"load": 0.5}}, "allowed": {"a": 3}}, "allowed.a must map knobs"),
        ("/v1/outcomes", {"outcomes": []}, "outcomes must hold at least 1, got 0"),
        ("/v1/outcomes", {"outcomes": [{"decision": "d000001"}]}, "outcomes[0]: an outcome needs a reward, or kpis"),
        ("/v1/outcomes", {"outcomes": [{"decision": 7, "reward": 1}]}, "outcomes[0].decision must be text, got 7"),
        (
            "/v1/outcomes",
            {"outcomes": [{"decision": "d1", "reward": 1, "noise": 0}]},
            "outcomes[0].noise must be above 0, got 0",
        ),
        ("/v1/outcomes", {"outcomes": [{"decision": "d1", "noise": 1, "kpis": {"x": 1}}]}, "noise belongs to a reward"),
        ("/v1/outcomes", {"outcomes": [{"decision": "d1", "reward": 1}] * 2}, "decision 'd1' has two outcomes"),
        ("/v1/outcomes", {"outcomes": [{"decision": "d1", "kpis": {"x": [1]}}]}, "a pair of value and variance"),
        (
            "/v1/outcomes",
            {"outcomes": [{"decision": "d000001", "reward": 1}], "others": {"z": 1}},
            "nobody's neighbour",
        ),
        ("/v1/corrections", {"decision": "d000001"}, "a correction needs a reward, or kpis"),
        ("/v1/approvals", {"decisions": ["d000001"], "approve": "yes"}, "approve must be true or false, got 'yes'"),
        ("/v1/approvals", {"decisions": [], "approve": True}, "decisions must hold at least 1, got 0"),
        ("/v1/stations", {"name": "n", "similarity": {"a": "much"}}, "similarity.a must be a number"),
        ("/v1/decisions/d000001/applied", {"configuration": {"tilt": 5}}, "not a configuration of the space"),
        (
            "/v1/decisions/d000001/applied",
            {"configuration": {"tilt": [4]}},
            "configuration.tilt must be a number, text",
        ),
        ("/v1/stop", {"why": "x" * 2001}, "why must have at most 2,000 characters, got 2,001"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(client: httpx.Client, path: str, body: Any, sentence: str) -> None:
    found = problem(client.post(path, content=json.dumps(body).encode(), headers=JSON), 422)
    assert sentence in found
    assert not FRAMEWORK.search(found)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"mode": "auto"}, "mode must be one of 'shadow', 'assist', 'autonomous', got 'auto'"),
        ({"mode": "assist", "stations": []}, "stations must hold at least 1, got 0"),
        ({"mode": "assist", "stations": "a"}, "stations must be a list, got 'a'"),
        ({}, "mode is missing"),
    ],
)
def test_a_wrong_mode_is_refused(client: httpx.Client, body: Any, sentence: str) -> None:
    assert problem(client.put("/v1/mode", json=body), 422) == sentence


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "status=lost", "statoin=a", "before=" + "x" * 501],
)
def test_a_wrong_filter_is_refused(client: httpx.Client, query: str) -> None:
    sentence = problem(client.get(f"/v1/decisions?{query}"), 422)
    assert sentence.startswith(f"the query parameter {query.split('=')[0]} ")
    assert not FRAMEWORK.search(sentence)


@pytest.mark.parametrize("key", ["", " ", "ä", "x" * 201, "a b"])
def test_a_key_must_be_short_and_visible(client: httpx.Client, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode())]
    assert "the header Idempotency-Key must" in problem(client.post("/v1/stop", headers=headers), 422)


def test_text_that_utf8_cannot_hold_is_refused(client: httpx.Client) -> None:
    for body in (b'{"states": {"\\ud800": {"load": 1}}}', b'{"states": {"a": {"\\udfff": 1}}}'):
        problem(client.post("/v1/decisions", content=body, headers=JSON), 422)
    problem(client.post("/v1/stop", content=b'{"why": "\\ud800"}', headers=JSON), 422)
    body = b'{"states": {"a": {"load": 1}}, "running": {"a": {"tilt": "\\ud800"}}}'
    problem(client.post("/v1/decisions", content=body, headers=JSON), 422)


def test_a_complaint_quotes_little_of_what_was_sent(client: httpx.Client) -> None:
    body = {"states": {"a": {"load": 0.5}}, "x" * 100_000: 1}
    assert len(problem(client.post("/v1/decisions", json=body), 422)) <= 300


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/decisions/d999999"),
        ("GET", "/v1/decisions/d999999/explanation"),
        ("POST", "/v1/decisions/d999999/call-off"),
        ("POST", "/v1/decisions/d999999/applied"),
        ("GET", "/v1/decisions?before=d999999"),
        ("GET", "/v1/decisions?station=nobody"),
        ("GET", "/v1/stations/nobody"),
        ("DELETE", "/v1/stations/nobody"),
        ("GET", "/v1/stations/nobody/outlook"),
        ("GET", "/v1/stations/nobody/history"),
        ("POST", "/v1/stations/nobody/roll-back"),
        ("PUT", "/v1/stations/nobody/freeze"),
        ("DELETE", "/v1/stations/nobody/freeze"),
    ],
)
def test_what_is_not_known_is_not_found(client: httpx.Client, method: str, path: str) -> None:
    detail = problem(client.request(method, path), 404)
    assert "d999999" in detail or "nobody" in detail


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/decisions", {"states": {"nobody": {"load": 0.5}}}),
        ("/v1/outcomes", {"outcomes": [{"decision": "d999999", "reward": 0.5}]}),
        ("/v1/outcomes", {"outcomes": [{"decision": "d999999", "reward": 0.5, "station": "a"}]}),
        ("/v1/corrections", {"decision": "d999999", "reward": 0.5}),
        ("/v1/approvals", {"decisions": ["d999999"], "approve": True}),
    ],
)
def test_bodies_about_nobody_are_not_found(client: httpx.Client, path: str, body: Any) -> None:
    problem(client.post(path, json=body), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v2/decisions",
        "/v1/decisions/",
        "/nowhere",
        "/v1/stations/..%2f..%2fetc%2fpasswd",
        "/v1/export/..%2f..%2fledger.db",
        "/v1/export/ledger.db",
        "/%2e%2e/ledger.db",
        "/v1//decisions",
        "/V1/decisions",
    ],
)
def test_path_tricks_lead_nowhere(client: httpx.Client, path: str) -> None:
    problem(client.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "/v1/decisions", "GET, HEAD, POST"),
        ("POST", "/v1/stations/a", "DELETE, GET, HEAD"),
        ("GET", "/v1/outcomes", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_told_which_there_are(client: httpx.Client, method: str, path: str, allow: str) -> None:
    answer = client.request(method, path)
    assert method in problem(answer, 405)
    assert answer.headers["allow"] == allow


def test_contradictions_are_conflicts(client: httpx.Client) -> None:
    made = client.post("/v1/decisions", json={"states": {"b": {"load": 0.5}}}).json()["decisions"][0]
    assert "nothing to roll back" in problem(client.post("/v1/stations/b/roll-back"), 409)
    problem(client.post("/v1/corrections", json={"decision": made["id"], "reward": 0.5}), 409)
    outcome = {"outcomes": [{"decision": made["id"], "reward": 0.5}]}
    assert client.post("/v1/outcomes", json=outcome).status_code == 200
    again = client.post("/v1/outcomes", json=outcome)
    assert (again.json()["code"], again.json()["argument"]) == ("told_already", "decision")
    assert (
        problem(again, 409)
        == f"decision {made['id']} was already told the reward 0.5: use POST /v1/corrections to change it"
    )
    problem(client.post("/v1/approvals", json={"decisions": [made["id"]], "approve": True}), 409)


def test_an_outlook_needs_a_state(client: httpx.Client) -> None:
    problem(client.get("/v1/stations/=c/outlook"), 422)


def test_a_large_body_is_refused_announced_or_not(client: httpx.Client) -> None:
    before = client.get("/v1/decisions").json()
    body = json.dumps({"states": {"a": {"load": 0.5}}, "slot": "x" * 1_000_000}).encode()
    assert "1000000 bytes" in problem(client.post("/v1/decisions", content=body, headers=JSON), 413)
    problem(client.post("/v1/decisions", content=iter([body[:500], body[500:]]), headers=JSON), 413)
    assert client.get("/v1/decisions").json() == before


def test_a_database_that_is_away_is_503_and_nothing_of_it_is_told(
    service: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: Any, **_kwargs: Any) -> Any:
        raise LedgerUnavailableError("the ledger cannot be reached at postgresql://me@secret-host/db: try again later")

    before = client.get("/v1/stations").json()
    monkeypatch.setattr(service.operations.ledger, "connected", away)
    answers = [
        client.post("/v1/decisions", json={"states": {"a": {"load": 0.5}}}),
        client.post("/v1/outcomes", json={"outcomes": [{"decision": "d000001", "reward": 0.5}]}),
        client.get("/v1/events"),
        client.get("/v1/export/events.csv"),
        service.client(None).get("/readyz"),
    ]
    for answer in answers:
        assert "nothing was recorded" in problem(answer, 503)
        assert int(answer.headers["retry-after"]) > 0
        assert "secret-host" not in answer.text
    assert service.client(None).get("/healthz").status_code == 200
    assert client.get("/v1/stations").json() == before  # what is known can still be looked at
    monkeypatch.undo()
    assert client.get("/v1/events").status_code == 200
    answer = service.client(None).get("/readyz")
    assert (answer.status_code, answer.json()["warnings"]) == (200, service.operations.ledger.warnings)


def test_whether_a_lost_commit_was_recorded_is_said(
    service: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsure(*_args: Any, **_kwargs: Any) -> Any:
        raise LedgerUnavailableError("gone", recorded=None)

    monkeypatch.setattr(service.operations, "stop", unsure)
    detail = problem(client.post("/v1/stop"), 503)
    assert "is not known" in detail
    assert "same Idempotency-Key" in detail


@pytest.mark.parametrize("error", [RuntimeError("secret detail"), SavedStateError("secret detail"), KeyError("secret")])
def test_what_nobody_expected_is_500_with_an_id_and_a_line_in_the_log(
    service: Served,
    client: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def broken(*_args: Any, **_kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr(service.operations, "similarity", broken)
    with caplog.at_level(logging.ERROR, logger="kinband.service"):
        answer = client.get("/v1/similarity", headers={"X-Request-ID": "abc-1"})
    assert "abc-1" in problem(answer, 500)
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert any("abc-1" in record.getMessage() and record.exc_info for record in caplog.records)


def test_numbers_are_checked_at_the_door() -> None:
    for wrong in (float("nan"), float("inf"), 10**400, LARGEST * 2, "1", None, True, [1]):
        with pytest.raises(ValueError, match="must be a"):
            number(wrong)
    assert number(-LARGEST) == -LARGEST
    with pytest.raises(ValueError, match="pair"):
        measured([1, 2, 3])
    for odd in (3, "x", None, [1], {"tilt": None}, {"tilt": {"low": "x"}}):
        with pytest.raises(ValueError, match=r"must|needs"):
            allowed(odd)


def test_a_value_that_a_knob_does_not_have_is_a_wrong_value_and_not_a_missing_page(client: httpx.Client) -> None:
    for wrong in ({"tilt": [5]}, {"power": [5]}, [{"tilt": 5}], {"tilt": 5}):
        detail = problem(
            client.post("/v1/decisions", json={"states": {"a": {"load": 0.5}}, "allowed": {"a": wrong}}), 422
        )
        assert detail.startswith("allowed names what 'a' cannot run: ")
        assert "Range(" not in detail


def test_what_a_station_falls_back_to_is_told_by_its_knobs(tmp_path: Path) -> None:
    made = Controller(
        ConfigurationSpace(tilt=[2, 4, 6]), ["a"], state={"load": (0, 1)}, running={"tilt": 6}, mean=0.7,
        safety=Conservative(0.1), reward_range=(0, 1), seed=3,
    )  # fmt: skip
    with served(tmp_path, made=made) as service:
        body = {"states": {"a": {"load": 0.5}}, "allowed": {"a": {"tilt": [2, 4]}}}
        detail = problem(service.client("operator").post("/v1/decisions", json=body), 422)
        assert "falls back to, tilt=6, is not among" in detail


@pytest.mark.parametrize("path", ["/v1/events?kind=zz", "/v1/events?kind=outcome&kind=zz"])
def test_a_kind_of_event_that_there_is_not_is_told_which_there_are(client: httpx.Client, path: str) -> None:
    detail = problem(client.get(path), 422)
    assert "must be one of started, decision, ran, outcome" in detail
    assert "got 'zz'" in detail


@pytest.mark.parametrize("text", ["quiet\x00night", "\x1b[2J", "\x7f", "\x85"])
def test_a_reason_with_control_characters_is_refused(client: httpx.Client, text: str) -> None:
    for method, path, field in (
        ("POST", "/v1/stop", "why"),
        ("POST", "/v1/stop", "comment"),
        ("PUT", "/v1/stations/a/freeze", "why"),
        ("POST", "/v1/stations/a/roll-back", "comment"),
    ):
        assert "control characters" in problem(client.request(method, path, json={field: text}), 422)
    assert client.post("/v1/stop", json={"why": "storm over the north\nand the west"}).status_code == 200
    client.post("/v1/resume")


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/v1/mode", "/v1/stations/a", "/openapi.json", "/docs", "/metrics"]
)
def test_head_is_answered_like_get_without_a_body(client: httpx.Client, path: str) -> None:
    whole, bare = client.get(path), client.head(path)
    assert (bare.status_code, bare.content) == (200, b"")
    for header in ("content-type", "x-content-type-options", "cache-control"):
        assert bare.headers.get(header) == whole.headers.get(header)


def test_head_opens_no_door_that_get_does_not(service: Served, client: httpx.Client) -> None:
    assert service.client(None).head("/v1/mode").status_code == 401
    assert client.head("/v1/nowhere").status_code == 404
    assert client.head("/v1/outcomes").status_code == 405


def test_a_file_that_was_moved_is_told_without_its_name(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with served(tmp_path) as service:
        client = service.client("operator")
        assert client.get("/v1/events").status_code == 200
        file.rename(tmp_path / "elsewhere.db")
        for answer in (client.get("/v1/events"), client.post("/v1/stop"), service.client(None).get("/readyz")):
            assert "was moved, removed or replaced" in problem(answer, 503)
            assert "ledger.db" not in answer.text
        (tmp_path / "elsewhere.db").rename(file)
        assert client.get("/v1/events").status_code == 200
