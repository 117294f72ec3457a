"""The page of the guard rails: who sees what, what a draft is told, and what is put in force."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.dashboard_network import Browser, Network, network

RAILS = "# of the night shift\nknobs:\n  threshold_dbm: {step: 2}\n"
TIGHT = "knobs:\n  threshold_dbm: {step: 0}\n"
EVIL = "# </textarea><script>alert(1)</script>\nzone: UTC\n"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Network]:
    with network(tmp_path, rails=RAILS) as found:
        yield found


def send(web: Network, client: Browser, text: str, **further: Any) -> httpx.Response:
    replaces = web.operations.rails_in_force()[0].digest
    return client.post("/rails", {"yaml": text, "csrf": web.csrf(client), "replaces": replaces, **further})


def in_force(web: Network) -> str:
    return web.operations.rails_in_force()[0].text


def test_everybody_sees_the_rails_and_an_admin_the_form(web: Network) -> None:
    for role, form in (("viewer", False), ("operator", False), ("admin", True)):
        text = web.browser(role).get("/rails").text
        assert "<li># of the night shift</li>" in text
        assert ("<textarea" in text) == form


def test_what_is_put_in_force_holds_and_is_on_record_with_who_and_why(web: Network) -> None:
    client = web.browser("admin")
    answer = send(web, client, TIGHT.replace("\n", "\r\n"), comment="after the storm")  # as browsers send lines
    assert (answer.status_code, answer.headers["location"]) == (303, "/rails")
    assert in_force(web) == TIGHT
    text = client.get("/rails").text
    assert "These rails are in force from the next decision on." in text
    assert "“after the storm”" in text
    [*_, event] = web.operations.events(kinds=["rails"])
    assert event.actor.startswith("admin")
    words = f"{event.actor} put guard rails {event.payload['digest']} in force: “after the storm”."
    assert words in client.get("/audit?kind=rails").text
    [record] = web.operations.ask({"3714": {"load": 0.4}}, allowed={"3714": {"threshold_dbm": [-100]}})
    assert record.status == "refused"


def test_a_draft_that_is_wrong_is_shown_again_with_the_line(web: Network) -> None:
    client = web.browser("admin")
    answer = send(web, client, "zone: UTC\nstopp: on\n", comment="quick")
    assert answer.status_code == 422
    assert "rails, line 2: there is no key &#39;stopp&#39;" in answer.text
    assert "<code>stopp: on</code>" in answer.text
    assert ">\nzone: UTC\nstopp: on\n</textarea>" in answer.text
    assert 'value="quick"' in answer.text
    assert in_force(web) == RAILS


def test_a_check_puts_nothing_in_force_and_lists_what_would_be_refused(web: Network) -> None:
    web.operations.ask({"3714": {"load": 0.4}}, allowed={"3714": {"threshold_dbm": [-100]}})
    client = web.browser("admin")
    answer = send(web, client, TIGHT, check="1")
    assert answer.status_code == 200
    assert "Of 1 change that waits, 1 would be refused" in answer.text
    assert "<code>step</code>" in answer.text
    assert in_force(web) == RAILS
    assert "All 1 change that waits would pass" in send(web, client, "{}", check="1").text


def test_nobody_overwrites_rails_that_he_has_not_seen(web: Network) -> None:
    client = web.browser("admin")
    seen = web.operations.rails_in_force()[0].digest
    web.operations.set_rails(TIGHT, actor="bob")
    answer = send(web, client, "{}", replaces=seen)
    assert answer.status_code == 409
    assert "put in force by bob meanwhile" in answer.text
    assert ">\n{}\n</textarea>" in answer.text
    assert in_force(web) == TIGHT


def test_rails_are_text_wherever_they_are_shown(web: Network) -> None:
    client = web.browser("admin")
    assert send(web, client, EVIL).status_code == 303
    for text in (client.get("/rails").text, send(web, client, EVIL + "x: y\n").text):
        assert "<script>alert" not in text
        assert "&lt;/textarea&gt;" in text


def test_a_network_without_rails_is_told_so(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser("viewer")
        assert "Nothing limits what decisions change." in client.get("/rails").text
        web.operations.set_rails("zone: UTC\n", actor="ada")
        assert "Nothing limits what decisions change." in client.get("/rails").text
        web.operations.set_rails("stop: on\n", actor="ada")
        assert "Nothing limits" not in client.get("/rails").text


def test_pages_follow_rails_that_were_changed_while_the_service_runs(web: Network) -> None:
    web.operations.set_rails("stop: on\nfreeze: [{station: '3715', why: crane}]\n", actor="ada")
    client = web.browser("viewer")
    assert "Frozen by the guard rails: crane." in client.get("/stations/3715").text
    assert "by the guard rails" in client.get("/").text


def test_the_form_writes_a_fallback_by_controls_into_the_draft(web: Network) -> None:
    client = web.browser("admin")
    fields = {"yaml": RAILS, "csrf": web.csrf(client), "knob": ["threshold_dbm"], "low": [""], "high": [""]}
    answer = client.post("/rails/form", {**fields, "step": ["2"], "by": "controls", "rate": "2%"})
    assert answer.status_code == 200
    assert "fallback:\n  by: controls\n  rate: 2%\n" in answer.text
    assert 'name="by" value="controls"' in answer.text
    refused = client.post("/rails/form", {**fields, "step": ["2"], "by": "hours"})
    assert refused.status_code == 422
    assert "fallback.by must be controls" in refused.text
