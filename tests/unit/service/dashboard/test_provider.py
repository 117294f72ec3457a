"""Signing in through an identity provider: there and back, as whom, and what is refused."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import select
from tests.support.dashboard_network import Browser, Network, network
from tests.support.identity_provider import AUDIENCE, CLIENT, SECRET, IdentityProvider, identity_provider

from kinband.errors import BadInputError, ConflictError
from kinband.service.access.oidc import Provider
from kinband.service.access.provider import ProviderSettings
from kinband.service.access.sessions import COOKIE
from kinband.service.access.tokens import Role
from kinband.service.dashboard import dashboard_router
from kinband.service.dashboard.provider import BEGUN
from kinband.service.ledger.schema import tokens as table
from kinband.service.running import application

HERE = "https://kinband.example"
RAILS = "two_people: [resume]\n"


@dataclass
class Scene:
    """A service and its identity provider."""

    web: Network
    there: IdentityProvider
    provider: Provider

    def browser(self) -> Browser:
        return Browser(self.web.app)

    def sign_in(self, client: Browser, *, next: str = "/", **asked: str) -> httpx.Response:  # noqa: A002
        """Go there and back, with what is asked changed on the way."""
        begun = client.get(f"/sign-in/provider?next={next}")
        assert begun.status_code == 303
        back = httpx.get(begun.headers["location"]).headers["location"]
        assert back.startswith(f"{HERE}/sign-in/callback?")
        said = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()} | asked
        return client.get(f"/sign-in/callback?{httpx.QueryParams(said)}", headers={"sec-fetch-site": "cross-site"})


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with identity_provider() as there, network(tmp_path, rails=RAILS) as web:
        there.now = lambda: web.clock.now.timestamp()
        roles = {"admins": Role.ADMIN, "noc": Role.OPERATOR, "everybody": Role.VIEWER}
        settings = ProviderSettings(there.url, CLIENT, HERE, "groups", roles, SECRET, audience=AUDIENCE)
        provider = Provider(settings)
        web.app = application(web.operations, tokens=web.tokens, provider=provider)
        yield Scene(web, there, provider)
        provider.close()


def name_on(client: Browser) -> str:
    """Who a page says that is signed in."""
    answer = client.get("/help")
    assert answer.status_code == 200
    return answer.text.partition('<span class="who" title="')[2].partition('">')[2].partition("<")[0]


def refusal(answer: httpx.Response) -> str:
    return answer.text.partition('id="refused">')[2].partition("<")[0]


def test_who_comes_back_is_signed_in_and_led_to_the_page_that_was_asked_for(scene: Scene) -> None:
    client = scene.browser()
    assert 'href="/sign-in/provider?next=%2Fplan"' in client.get("/sign-in?next=/plan").text
    answer = scene.sign_in(client, next="/plan")
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/plan">' in answer.text
    cookie = next(line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{COOKIE}="))
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert BEGUN not in client.cookies
    assert name_on(client) == "Ada Lovelace"
    scene.web.operations.ledger.check()
    told = client.get("/audit?kind=access").text
    assert "Ada Lovelace signed in through the identity provider with the role operator." in told


def test_a_page_elsewhere_is_nowhere_to_go_on_to(scene: Scene) -> None:
    answer = scene.sign_in(scene.browser(), next="//evil.example")
    assert 'content="0; url=/"' in answer.text
    assert "evil" not in answer.text


def test_acts_are_on_record_under_the_name_and_roles_hold(scene: Scene) -> None:
    client = scene.browser()
    scene.sign_in(client)
    stopped = client.post("/stop", {"csrf": scene.web.csrf(client), "comment": "trial"})
    assert stopped.status_code == 303
    (event,) = scene.web.operations.events(kinds=["switch"], limit=1)
    assert event.actor == "Ada Lovelace"
    assert client.post("/mode", {"csrf": scene.web.csrf(client), "mode": "shadow"}).status_code == 403


def test_signing_out_ends_the_session_here_and_leads_to_the_provider(scene: Scene) -> None:
    client = scene.browser()
    scene.sign_in(client)
    value = client.cookies[COOKIE]
    answer = client.post("/sign-out")
    assert answer.status_code == 200
    assert f'content="0; url={scene.there.url}/out?' in answer.text
    assert "id_token_hint=eyJ" in answer.text
    client.cookies.set(COOKIE, value, domain="kinband.example")
    assert client.get("/help").status_code == 303
    assert not [
        record for record in scene.web.tokens.list() if record.state(scene.web.operations.ledger.now()) == "live"
    ]
    by_token = scene.web.browser("viewer")
    by_token._transport = httpx.ASGITransport(scene.web.app)
    assert by_token.post("/sign-out").headers["location"] == "/sign-in"  # nothing to do with the provider


def test_a_session_ends_after_twelve_hours_and_by_revocation_everywhere(scene: Scene) -> None:
    phone, laptop = scene.browser(), scene.browser()
    scene.sign_in(phone)
    scene.sign_in(laptop)
    assert name_on(phone) == name_on(laptop) == "Ada Lovelace"
    scene.web.tokens.revoke("Ada Lovelace", by="boss")
    live = [record.revoked is None for record in scene.web.tokens.list()]
    assert live == [False, False]


# --- Who is who -----------------------------------------------------------------------------------------------------


def test_a_person_who_changes_the_name_stays_the_same_person(scene: Scene) -> None:
    scene.there.person["groups"] = ["admins"]
    client = scene.browser()
    scene.sign_in(client)
    client.post("/stop", {"csrf": scene.web.csrf(client)})
    client.post("/resume", {"csrf": scene.web.csrf(client)})
    scene.there.person["name"] = "Somebody Else"
    again = scene.browser()
    scene.sign_in(again)
    assert name_on(again) == "Ada Lovelace"
    again.post("/resume", {"csrf": scene.web.csrf(again)})
    with scene.web.operations.looking() as seen:
        assert seen.stopped is not None  # it takes two people
    scene.there.person |= {"sub": "another", "name": "Grace Hopper"}
    second = scene.browser()
    scene.sign_in(second)
    second.post("/resume", {"csrf": scene.web.csrf(second)})
    with scene.web.operations.looking() as seen:
        assert seen.stopped is None


@pytest.mark.parametrize("name", ["nms", "NMS", "ｎｍｓ", "local", "service"])
def test_a_name_that_others_have_or_had_gets_digits(scene: Scene, name: str) -> None:
    tokens = scene.web.tokens
    tokens.create("nms", "operator")
    tokens.revoke("nms")
    scene.there.person["name"] = name
    client = scene.browser()
    scene.sign_in(client)
    found = name_on(client)
    assert found.startswith(f"{name} (")
    assert len(found) == len(name) + 11
    with pytest.raises(ConflictError, match="signs in through the identity provider"):
        tokens.create(found, "admin")


def test_two_people_of_one_name_are_two(scene: Scene) -> None:
    first, second = scene.browser(), scene.browser()
    scene.sign_in(first)
    scene.there.person["sub"] = "another"
    scene.sign_in(second)
    assert name_on(first) == "Ada Lovelace"
    assert name_on(second).startswith("Ada Lovelace (")


# --- What is refused ------------------------------------------------------------------------------------------------

SPOILED: dict[str, tuple[dict[str, Any], str]] = {
    "audience": ({"aud": "grafana"}, "This sign-in is meant for another service: sign in again."),
    "issuer": ({"iss": "https://evil.example"}, "This sign-in comes from another identity provider: sign in again."),
    "time": ({"exp": 1_000}, "This sign-in has expired: sign in again, and check the clocks."),
    "nonce": ({"nonce": "x"}, "This sign-in does not belong to the one that was begun here: sign in again."),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_wrong_token_is_refused_in_a_sentence_and_logged_without_it(
    scene: Scene, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    scene.there.spoil, sentence = SPOILED[case]
    client = scene.browser()
    with caplog.at_level(logging.DEBUG, logger="kinband"):
        answer = scene.sign_in(client)
    assert answer.status_code == 401
    assert refusal(answer) == sentence
    assert COOKIE not in client.cookies
    assert sentence[1:-1] in caplog.text
    secrets = [SECRET, "eyJ", *(form["code"] for form in scene.there.forms)]
    assert not any(secret in caplog.text for secret in secrets)
    assert not list(scene.web.operations.ledger.read(kinds=["access"]))


def test_an_answer_that_was_not_asked_for_here_is_refused(scene: Scene) -> None:
    client, other = scene.browser(), scene.browser()
    assert "does not belong to the sign-in that was begun here" in refusal(scene.sign_in(client, state="guessed"))
    begun = client.get("/sign-in/provider")
    back = httpx.get(begun.headers["location"]).headers["location"].removeprefix(HERE)
    assert "was begun in another browser" in refusal(other.get(back))  # somebody is led to another's code
    sealed = client.cookies[BEGUN]
    client.cookies.set(BEGUN, sealed[:-2] + "AA", domain="kinband.example")
    assert "was begun in another browser" in refusal(client.get(back))
    client.cookies.set(BEGUN, sealed, domain="kinband.example")
    scene.web.clock.now = scene.web.clock.now.replace(minute=11)
    assert "more than 10 minutes ago" in refusal(client.get(back))
    assert not list(scene.web.operations.ledger.read(kinds=["access"]))


def test_a_refusal_of_the_provider_is_told_and_who_fails_often_waits(scene: Scene) -> None:
    scene.there.refuses = "access_denied"
    client = scene.browser()
    assert "the identity provider refused the sign-in (access_denied)" in refusal(scene.sign_in(client)).lower()
    scene.there.refuses = "<script>"
    assert "refused the sign-in (without a reason)" in refusal(scene.sign_in(client))
    statuses = [client.get("/sign-in/callback").status_code for _ in range(12)]
    assert statuses[:3] == [401] * 3
    assert statuses[-1] == 429


def test_a_provider_that_is_away_leaves_the_way_by_a_token(scene: Scene) -> None:
    scene.there.broken = True
    client = scene.browser()
    answer = client.get("/sign-in/provider")
    assert answer.status_code == 503
    assert refusal(answer) == "The identity provider cannot be reached: try again later, or sign in with a token."
    token = scene.web.tokens.create("nms", "viewer").token
    assert client.post("/sign-in", {"token": token}).status_code == 303


# --- Programs -------------------------------------------------------------------------------------------------------


def test_a_program_may_come_with_an_access_token_of_the_provider(scene: Scene) -> None:
    client = scene.browser()

    def get(path: str, token: str) -> httpx.Response:
        return client.get(path, headers={"authorization": f"Bearer {token}"})

    token = scene.there.access_token(sub="nms", name="network manager")
    assert get("/v1/stations", token).status_code == 200
    assert get("/v1/stations", scene.there.access_token(sub="nms", name="another name")).status_code == 200
    assert [event.actor for event in scene.web.operations.ledger.read(kinds=["access"])] == ["network manager"]
    answer = get("/v1/stations", scene.there.token())
    assert answer.status_code == 401
    assert "this access token is meant for another service" in answer.json()["detail"]
    assert get("/v1/stations", scene.there.access_token(groups=[])).status_code == 401
    scene.there.broken = True
    fresh = Provider(scene.provider.settings)
    web = Browser(application(scene.web.operations, tokens=scene.web.tokens, provider=fresh))
    away = web.get("/v1/stations", headers={"authorization": f"Bearer {token}"})
    assert (away.status_code, away.json()["code"]) == (503, "provider_away")
    fresh.close()


def test_nothing_of_a_sign_in_is_at_rest_but_hashes(scene: Scene) -> None:
    client = scene.browser()
    scene.sign_in(client)
    with scene.web.operations.ledger.reading() as connection:
        (row,) = connection.execute(select(table)).all()
    assert row.by == f"{scene.there.url} 248289761001"
    assert len(row.hash) == 64
    assert row.hash not in client.cookies[COOKIE]


def test_a_ledger_without_a_provider_has_no_such_pages(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        assert web.browser(None).get("/sign-in/provider").status_code == 404
        assert "/sign-in/provider" not in web.browser(None).get("/sign-in").text
    with pytest.raises(BadInputError, match="the dashboard needs tokens"):
        dashboard_router(web.operations, tokens=None)
