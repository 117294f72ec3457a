"""Forms of the dashboard: who may send them, what they do, what is said afterwards."""

import json
import re
from base64 import urlsafe_b64decode
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import Response
from sqlalchemy.exc import SQLAlchemyError
from tests.support.dashboard_network import Network, network

from kinband.errors import ConflictError
from kinband.service.access import Limiter
from kinband.service.access.sessions import COOKIE
from kinband.service.dashboard import dashboard_router
from kinband.service.dashboard.rendering import SAID

FORMS = {
    "/plan/approve": "operator",
    "/plan/reject": "operator",
    "/plan/withdraw": "operator",
    "/plan/confirm": "operator",
    "/plan/fail": "operator",
    "/stations/3714/roll-back": "operator",
    "/stations/3714/freeze": "operator",
    "/stations/3714/thaw": "operator",
    "/stations/3714/mode": "admin",
    "/mode": "admin",
    "/stop": "operator",
    "/resume": "operator",
    "/clock": "admin",
    "/rails": "admin",
}
RANKS = ("viewer", "operator", "admin")


def send(web: Network, path: str, role: str = "admin", **values: object) -> Response:
    client = web.browser(role)
    return client.post(path, data={"csrf": web.csrf(client), **values})


def said(answer: Response) -> str:
    """Return the message of a redirection."""
    body = answer.cookies[SAID].partition(".")[0]
    return str(json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))[0])


def events(web: Network) -> int:
    with web.operations.looking() as read_model:
        return read_model.seq


@pytest.mark.parametrize("role", RANKS)
def test_a_form_needs_its_role(tmp_path: Path, role: str) -> None:
    with network(tmp_path) as web:
        for path, needed in FORMS.items():
            before, answer = events(web), send(web, path, role, mode="shadow", yaml="stop: on\n")
            allowed = RANKS.index(role) >= RANKS.index(needed)
            assert answer.status_code == (303 if allowed else 403), path
            assert allowed or events(web) == before


def test_a_form_of_another_site_or_session_does_nothing(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client, other, nobody = web.browser(), web.browser(), web.browser(None)
        good, foreign = web.csrf(client), web.csrf(other)
        before, body, cross = events(web), {"mode": "shadow", "yaml": "stop: on\n"}, {"sec-fetch-site": "cross-site"}
        for path in FORMS:
            assert client.post(path, data=body).status_code == 403
            assert client.post(path, data=body | {"csrf": foreign}).status_code == 403
            assert client.post(path, data=body | {"csrf": good}, headers=cross).status_code == 403
            assert nobody.post(path, data=body | {"csrf": good}).headers["location"] == "/sign-in"
        assert events(web) == before


def test_a_form_of_a_session_that_has_ended_is_headed_with_what_happened(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client, other = web.browser("operator"), web.browser("operator")
        referer = {"referer": "https://kinband.example/plan", "host": "kinband.example"}
        answer = client.post("/plan/approve", {"csrf": web.csrf(other), "id": "d000001"}, headers=referer)
        assert answer.status_code == 403
        assert "<h1>This page was open too long</h1>" in answer.text
        assert "You may look around" not in answer.text
        assert '<a class="button primary" href="/plan">Load the page again</a>' in answer.text


def test_nobody_is_led_elsewhere_by_the_page_about_a_form_that_is_too_old(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser("operator")
        for referer in ("", "https://evil.example/plan", "http://[", "https://kinband.example//evil"):
            headers = {"referer": referer, "host": "kinband.example"}
            answer = client.post("/stop", {"csrf": "old"}, headers=headers)
            assert answer.status_code == 403
            assert "evil" not in answer.text


def test_a_role_that_is_too_low_and_another_site_are_headed_otherwise(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        low = send(web, "/stop", "viewer")
        client = web.browser("operator")
        foreign = client.post("/stop", {"csrf": web.csrf(client)}, headers={"sec-fetch-site": "cross-site"})
        for answer, words in ((low, "needs the role"), (foreign, "another site")):
            assert answer.status_code == 403
            assert "<h1>Not allowed</h1>" in answer.text
            assert words in answer.text


def test_what_a_database_says_of_a_conflict_stays_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with network(tmp_path) as web:

        def taken(*_args: object, **_given: object) -> None:
            raise ConflictError(f"somebody else recorded this in {tmp_path} first") from SQLAlchemyError("unique")

        monkeypatch.setattr(web.operations, "stop", taken)
        message = said(send(web, "/stop", "operator"))
        assert "somebody else" in message
        assert str(tmp_path) not in message


def test_pages_show_only_the_buttons_of_a_role(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(2)
        for path in ("/", "/stations/3714", "/plan"):
            actions = {
                role: set(re.findall(r'(?:form)?action="(/[^"]+)"', web.browser(role).get(path).text)) for role in RANKS
            }
            assert not {a for a in actions["viewer"] if a not in ("/sign-out", path, "/plan/approve", "/plan/check")}
            for role in RANKS:
                needs = {a: FORMS.get(a) for a in actions[role]}
                assert all(n is None or role == "viewer" or RANKS.index(role) >= RANKS.index(n) for n in needs.values())
            assert actions["operator"] <= actions["admin"]


def test_approving_carries_out_and_rejecting_leaves_alone(tmp_path: Path) -> None:
    with network(tmp_path, [f"s{i}" for i in range(5)]) as web:
        web.play(1, told=False)
        with web.operations.looking() as read_model:
            waiting = [record.id for record in read_model.waiting()]
        assert len(waiting) >= 3
        answer = send(web, "/plan/approve", "operator", id=waiting[:2], comment="looks good")
        assert (answer.status_code, answer.headers["location"]) == (303, "/plan")
        assert re.fullmatch(r"Carried out: s\d \(threshold_dbm .* → .*\), s\d \(.*\)\.", said(answer))
        assert said(send(web, "/plan/reject", "operator", id=waiting[2], comment="event")).startswith("Rejected: s")
        records = [web.operations.decision(key) for key in waiting[:3]]
        assert [record.status for record in records] == ["applied", "applied", "rejected"]
        assert [record.comment for record in records] == ["looks good", "looks good", "event"]
        assert all(record.decided_by.startswith("operator") for record in records)


def test_what_no_longer_waits_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(1, told=False)
        with web.operations.looking() as read_model:
            waiting = [record.id for record in read_model.waiting()]
        web.operations.reject(waiting[:1], actor="bertil")
        told = "was decided about before: rejected by a person, by bertil at"
        assert told in said(send(web, "/plan/approve", id=waiting[:1]))
        answer = send(web, "/plan/approve", id=waiting)
        assert told in said(answer)
        assert "Nothing was done" in said(send(web, "/plan/approve"))


def test_a_refusal_by_the_guard_is_told_with_its_reason(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(1, told=False)
        with web.operations.looking() as read_model:
            waiting = [record.id for record in read_model.waiting()]
        web.operations.stop(why="outage in the core", actor="anna")
        message = said(send(web, "/plan/approve", id=waiting[:1]))
        assert "Refused by the guard" in message
        assert "outage in the core" in message


def test_a_station_is_rolled_back_frozen_thawed_and_moved_to_a_mode(tmp_path: Path) -> None:
    with network(tmp_path, ["a/b", "c"], mode="autonomous") as web:
        for _ in range(6):
            web.play(1)
        with web.operations.looking() as read_model:
            before = read_model.station("a/b").before
        path = "/stations/a%2Fb"
        assert before is not None
        answer = send(web, f"{path}/roll-back", comment="complaints")
        assert answer.headers["location"] == path
        with web.operations.looking() as read_model:
            assert read_model.station("a/b").running == before
        send(web, f"{path}/freeze", comment="antenna swap")
        with web.operations.looking() as read_model:
            assert read_model.station("a/b").frozen == "antenna swap"
        send(web, f"{path}/thaw")
        send(web, f"{path}/mode", mode="shadow")
        with web.operations.looking() as read_model:
            assert (read_model.station("a/b").frozen, read_model.station("a/b").mode, read_model.station("c").mode) == (
                None,
                "shadow",
                "autonomous",
            )
        assert "a mode is one of" in said(send(web, f"{path}/mode", mode="yolo"))


def test_what_cannot_be_done_is_said_on_the_next_page_once(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser()
        answer = client.post("/stations/3714/roll-back", data={"csrf": web.csrf(client)})
        assert answer.status_code == 303
        first, second = client.get("/stations/3714"), client.get("/stations/3714")
        assert "there is nothing to roll back" in first.text
        assert "there is nothing to roll back" not in second.text


def test_stop_and_resume_are_shown_on_every_page(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        send(web, "/stop", "operator", comment="outage")
        assert "Everything is stopped" in web.browser("viewer").get("/help").text
        send(web, "/resume", "operator")
        assert "Everything is stopped" not in web.browser("viewer").get("/help").text


def test_a_clock_in_doubt_is_shown_on_every_page_until_an_admin_says_that_it_is_right(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(1)
        web.clock.now -= timedelta(minutes=30)
        assert "the time is in doubt" in web.browser("viewer").get("/help").text
        assert "The clock is right" not in web.browser("operator").get("/").text
        assert "The clock is right" in web.browser().get("/").text
        assert "The clock is right" in said(send(web, "/clock", comment="asked the tower"))
        assert "the time is in doubt" not in web.browser("viewer").get("/help").text
        assert "set the clock right, which shows" in web.browser("viewer").get("/audit").text


def test_signing_in_takes_a_token_and_goes_on_to_where_one_wanted_to(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser(None)
        assert client.get("/plan?x=1").headers["location"] == "/sign-in?next=%2Fplan%3Fx%3D1"
        refused = client.post("/sign-in", data={"token": "kb_wrong", "next": "/plan"})
        assert refused.status_code == 401
        assert "not known here" in refused.text
        token = web.tokens.create("anna", "viewer").token
        answer = client.post("/sign-in", data={"token": f" {token} ", "next": "/plan?x=1"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/plan?x=1")
        cookie = answer.headers["set-cookie"]
        assert all(part in cookie for part in (COOKIE, "HttpOnly", "Secure", "SameSite=strict"))
        assert token not in cookie
        assert client.get("/plan").status_code == 200
        client.post("/sign-out")
        assert client.get("/plan").status_code == 303


def test_failing_to_sign_in_over_and_over_has_to_wait(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser(None)
        statuses = [client.post("/sign-in", data={"token": "kb_wrong"}).status_code for _ in range(12)]
        assert statuses[0] == 401
        assert statuses[-1] == 429


def test_the_limits_that_are_handed_over_hold_though_nobody_has_asked_yet(tmp_path: Path) -> None:
    requests = Limiter(rate=1e-6, burst=2)
    with network(tmp_path) as web:
        app = FastAPI()
        app.include_router(dashboard_router(web.operations, tokens=web.tokens, requests=requests))
        client = web.browser("viewer", app=app)
        assert [client.get("/help").status_code for _ in range(3)] == [200, 200, 429]
    assert len(requests) == 1


def test_a_revoked_token_ends_its_session(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser("operator")
        assert client.get("/").status_code == 200
        web.tokens.revoke(web.tokens.list()[-1].id)
        assert client.get("/").status_code == 303


def test_without_access_control_everybody_is_local_and_other_sites_are_still_refused(tmp_path: Path) -> None:
    with network(tmp_path, insecure_local=True) as web:
        client = web.browser(None)
        assert "no access control" in client.get("/").text
        assert client.post("/stop", data={"comment": "x"}, headers={"sec-fetch-site": "cross-site"}).status_code == 403
        assert client.post("/stop", data={"comment": "x"}).status_code == 303
        assert web.operations.events(newest_first=True, limit=1)[0].actor == "local"
        assert client.get("/sign-in").headers["location"] == "/"
