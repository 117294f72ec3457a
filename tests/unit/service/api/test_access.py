"""Who may do what: every route with every role, tokens good and bad, limits, and a service without access control."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.http_service import Served, served

from kinband.errors import BadInputError
from kinband.service.access import Limiter, Role
from kinband.service.api import Limits, create_app
from kinband.service.api.authentication import ROLES

CALLS: dict[str, tuple[str, str, Any]] = {
    "ask": ("POST", "/v1/decisions", {"states": {"a": {"load": 0.5}}}),
    "list_decisions": ("GET", "/v1/decisions", None),
    "get_decision": ("GET", "/v1/decisions/d000001", None),
    "explain": ("GET", "/v1/decisions/d000001/explanation", None),
    "report_applied": ("POST", "/v1/decisions/d000001/applied", {}),
    "call_off": ("POST", "/v1/decisions/d000001/call-off", None),
    "tell": ("POST", "/v1/outcomes", {"outcomes": [{"decision": "d000001", "reward": 0.5}]}),
    "correct": ("POST", "/v1/corrections", {"decision": "d000001", "reward": 0.5}),
    "send_counters": ("POST", "/v1/counters", {"rows": [{"station": "a", "time": "2026-11-20T09:00", "load": 0.4}]}),
    "approve": ("POST", "/v1/approvals", {"decisions": ["d000001"], "approve": True}),
    "withdraw": ("POST", "/v1/withdrawals", {"decisions": ["d000001"]}),
    "get_orders": ("GET", "/v1/orders", None),
    "confirm": ("POST", "/v1/orders/d000001/confirm", {}),
    "fail": ("POST", "/v1/orders/d000001/fail", {"why": "the node did not answer"}),
    "get_plan": ("GET", "/v1/plan", None),
    "list_stations": ("GET", "/v1/stations", None),
    "add_station": ("POST", "/v1/stations", {"name": "new"}),
    "get_station": ("GET", "/v1/stations/a", None),
    "remove_station": ("DELETE", "/v1/stations/new", None),
    "get_outlook": ("GET", "/v1/stations/a/outlook", None),
    "get_history": ("GET", "/v1/stations/a/history", None),
    "roll_back": ("POST", "/v1/stations/a/roll-back", {}),
    "freeze": ("PUT", "/v1/stations/a/freeze", {}),
    "thaw": ("DELETE", "/v1/stations/a/freeze", None),
    "get_mode": ("GET", "/v1/mode", None),
    "set_mode": ("PUT", "/v1/mode", {"mode": "assist"}),
    "stop": ("POST", "/v1/stop", {}),
    "resume": ("POST", "/v1/resume", {}),
    "set_clock": ("POST", "/v1/clock", {}),
    "list_configurations": ("GET", "/v1/configurations", None),
    "get_similarity": ("GET", "/v1/similarity", None),
    "list_events": ("GET", "/v1/events", None),
    "get_rails": ("GET", "/v1/rails", None),
    "set_rails": ("PUT", "/v1/rails", {"yaml": "{}"}),
    "export_decisions": ("GET", "/v1/export/decisions.csv", None),
    "export_events": ("GET", "/v1/export/events.csv", None),
    "export_outcomes": ("GET", "/v1/export/outcomes.csv", None),
    "health": ("GET", "/healthz", None),
    "ready": ("GET", "/readyz", None),
    "metrics": ("GET", "/metrics", None),
}
READERS = {name for name, (method, _, _) in CALLS.items() if method == "GET"}
ADMINS = {"add_station", "remove_station", "set_clock", "set_mode", "set_rails"}
OPEN = {"health", "ready"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("access")) as found:
        yield found


def send(client: httpx.Client, name: str, **further: Any) -> httpx.Response:
    method, path, body = CALLS[name]
    return client.request(method, path, json=body, **further)


def test_the_table_covers_every_operation(service: Served) -> None:
    found = {
        operation["operationId"]: (method.upper(), path)
        for path, operations in service.app.openapi()["paths"].items()
        for method, operation in operations.items()
    }
    assert CALLS.keys() == ROLES.keys() == found.keys()


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
@pytest.mark.parametrize("name", CALLS)
def test_every_role_may_do_what_it_should_and_no_more(service: Served, name: str, role: str) -> None:
    may = name in READERS or role == "admin" or (role == "operator" and name not in ADMINS)
    answer = send(service.client(role), name)
    if may:
        assert answer.status_code in (200, 201, 404, 409, 422), answer.text  # 422: let in, and nobody was asked for yet
    else:
        needed = "admin" if name in ADMINS else "operator"
        assert answer.status_code == 403
        assert f"needs the role {needed}" in answer.json()["detail"]


@pytest.mark.parametrize("name", CALLS)
def test_without_a_token_only_probes_answer(service: Served, name: str) -> None:
    answer = send(service.client(None), name)
    if name in OPEN:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "text",
    [
        "Bearer nonsense",
        "Bearer kb_AAAAAAAA_" + "A" * 43,
        "Bearer ",
        "Basic YTpi",
        "bearer",
        "",
    ],
)
def test_a_forged_or_malformed_token_is_refused_without_saying_why(service: Served, text: str) -> None:
    answer = service.client(None).get("/v1/stations", headers={"Authorization": text})
    assert answer.status_code == 401
    assert "AAAA" not in answer.text


def test_an_expired_or_revoked_token_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        soon = service.tokens.create("short", Role.VIEWER, expires_in=timedelta(microseconds=1)).token
        gone = service.tokens.create("gone", Role.ADMIN)
        service.tokens.revoke("gone")
        for text, word in ((soon, "expired"), (gone.token, "revoked")):
            answer = service.client(None).get("/v1/stations", headers={"Authorization": f"Bearer {text}"})
            assert answer.status_code == 401
            assert word in answer.json()["detail"]
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_who_may_not_come_in_learns_nothing_about_the_body(service: Served) -> None:
    for role in (None, "viewer"):
        client = service.client(role)
        answers = [
            client.post("/v1/outcomes", content=content, headers={"Content-Type": kind})
            for content, kind in ((b"{", "application/json"), (b"{}", "application/json"), (b"x", "text/plain"))
        ]
        assert {answer.status_code for answer in answers} == {401 if role is None else 403}
        assert len({answer.json()["detail"] for answer in answers}) == 1


def test_the_scheme_may_be_written_in_any_case(service: Served) -> None:
    headers = {"Authorization": f"bEARER {service.texts['viewer']}"}
    assert service.client(None).get("/v1/stations", headers=headers).status_code == 200


def test_who_acts_is_on_record_by_the_name_of_the_token(service: Served) -> None:
    client = service.client("operator")
    client.put("/v1/stations/b/freeze", json={"why": "test"})
    event = client.get("/v1/events?kind=switch&station=b").json()["events"][0]
    assert event["actor"] == "operator one"


def test_no_answer_holds_the_text_of_a_token(service: Served) -> None:
    client = service.client("admin")
    for path in ("/v1/events?kind=access", "/v1/export/events.csv", "/metrics"):
        text = client.get(path).text
        assert not any(secret in text for secret in service.texts.values())


def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    time = 0.0
    limits = Limits(Limiter(rate=0.25, burst=2, clock=lambda: time), Limiter(rate=1, burst=100))
    with served(tmp_path, limits=limits) as service:
        client = service.client("viewer")
        answers = [client.get("/v1/mode") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[-1].headers["retry-after"] == "4"
        assert "try again in 4 seconds" in answers[-1].json()["detail"]
        assert service.client("admin").get("/v1/mode").status_code == 200  # somebody else
        time = 4.0
        assert client.get("/v1/mode").status_code == 200


def test_guessing_tokens_is_slowed_down_by_address(tmp_path: Path) -> None:
    limits = Limits(Limiter(rate=1, burst=100), Limiter(rate=0.1, burst=2, clock=lambda: 0.0))
    with served(tmp_path, limits=limits) as service:
        stranger = service.client(None)
        headers = {"Authorization": "Bearer guess"}
        assert [stranger.get("/v1/mode", headers=headers).status_code for _ in range(3)] == [401, 401, 429]
        assert service.client("viewer").get("/v1/mode").status_code == 200  # a good token still passes


def test_a_service_without_access_control_is_for_its_own_machine(tmp_path: Path) -> None:
    with served(tmp_path, insecure_local=True) as service:
        here = service.client(None, base_url="http://127.0.0.1:8000")
        assert here.put("/v1/mode", json={"mode": "shadow"}).status_code == 200
        assert here.get("/metrics").status_code == 200
        assert here.get("/v1/events?kind=mode").json()["events"][0]["actor"] == "local"
        elsewhere = service.client(None, base_url="http://evil.example")
        assert elsewhere.get("/v1/mode").status_code == 400
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            assert here.post("/v1/stop", headers=headers).status_code == 403
        assert here.post("/v1/stop", headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200


def test_a_service_is_not_made_without_access_control_by_accident(service: Served) -> None:
    with pytest.raises(BadInputError, match="needs tokens"):
        create_app(service.operations, tokens=None)
