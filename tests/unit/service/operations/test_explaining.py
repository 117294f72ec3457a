"""Explanations with the guard's part in them: which rail, why, and what ran instead."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.dashboard_network import network
from tests.support.http_service import Served, served

FALLBACK = "fallback: {drop: 0.1, slots: 1, before: 6}\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, mode="autonomous") as found:
        yield found


@pytest.fixture
def client(service: Served) -> httpx.Client:
    return service.client("admin")


def ask(client: httpx.Client, *tilts: int, station: str = "a") -> dict[str, Any]:
    """Ask with these tilts allowed and return the decision."""
    body = {"states": {station: {"load": 0.5}}, "allowed": {station: {"tilt": list(tilts)}}}
    found: dict[str, Any] = client.post("/v1/decisions", json=body).json()["decisions"][0]
    return found


def explanation(client: httpx.Client, made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/decisions/{made['id']}/explanation").json()
    return found


def test_a_refusal_is_explained_with_its_rail_and_what_ran_instead(client: httpx.Client) -> None:
    found = explanation(client, ask(client, 8))  # the rails allow 6 at most
    assert "should run tilt=8" in found["text"]
    assert "The guard refused it by the rail range: tilt=8 is not at most 6. The station ran tilt=4" in found["text"]
    said = found["guard"]
    assert (said["outcome"], said["rails"], said["ran_instead"]) == ("refused", ["range"], {"tilt": 4})
    assert said["refusals"] == [
        {"code": "range", "reason": "tilt=8 is not at most 6", "configuration": {"tilt": 8}},
    ]


def test_a_replacement_is_explained_by_what_was_put_in_its_place(client: httpx.Client) -> None:
    client.put("/v1/rails", json={"yaml": "knobs: {tilt: {step: 2}}"})
    made = ask(client, 6, 8)
    while made["chosen"] != {"tilt": 8}:  # until the controller wants what is out of reach
        client.post("/v1/outcomes", json={"outcomes": [{"decision": made["id"], "reward": 0.1}]})
        client.post("/v1/decisions", json={"states": {"a": {"load": 0.5}}, "running": {"a": {"tilt": 4}}})
        made = ask(client, 6, 8)
    found = explanation(client, made)
    reason = "tilt from 4 to 8 is further than the 2 of one change"
    assert f"The guard put tilt=6 in its place by the rail step: {reason}." in found["text"]
    assert "The station ran tilt=6 instead" in found["text"]
    assert (found["guard"]["outcome"], found["guard"]["ran_instead"]) == ("replaced", {"tilt": 6})


def test_a_roll_back_is_explained_by_the_fall(service: Served, client: httpx.Client) -> None:
    client.put("/v1/rails", json={"yaml": FALLBACK})
    for tilt, reward in ((4, 0.9), (6, 0.2)):
        made = ask(client, tilt)
        service.clock.forward(hours=1)
        client.post("/v1/outcomes", json={"outcomes": [{"decision": made["id"], "reward": reward}]})
    made = ask(client, 6, 2)
    found = explanation(client, made)
    assert made["status"] == "rolled back"
    assert "In its place the guard rolled the station back to tilt=4: its own reward fell from 0.9" in found["text"]
    assert found["guard"]["outcome"] == "rolled back"


def test_what_the_guard_lets_through_needs_no_words_of_it(client: httpx.Client) -> None:
    found = explanation(client, ask(client, 6))
    assert "guard" not in found["text"]
    assert found["guard"] == {
        "outcome": "allowed", "reason": "tilt=6: no rail forbids it", "rails": [], "refusals": [], "ran_instead": None,
        "due": None,
    }  # fmt: skip


def test_in_shadow_the_guard_only_would_have(client: httpx.Client) -> None:
    client.put("/v1/mode", json={"mode": "shadow"})
    assert "The guard would have refused it by the rail range" in explanation(client, ask(client, 8))["text"]


def test_a_refusal_when_a_person_approves_names_the_person(client: httpx.Client) -> None:
    client.put("/v1/mode", json={"mode": "assist"})
    made = ask(client, 6)
    assert "It waits for a person." in explanation(client, made)["text"]
    client.post("/v1/stop", json={"why": "storm"})
    client.post("/v1/approvals", json={"decisions": [made["id"]], "approve": True})
    found = explanation(client, made)
    words = "When admin one approved it, the guard refused it by the rail stop: everything is stopped: storm."
    assert words in found["text"]
    assert "waits" not in found["text"]


@pytest.mark.parametrize("rejected", [True, False])
def test_what_no_person_approved_is_explained_by_that(client: httpx.Client, rejected: bool) -> None:
    client.put("/v1/mode", json={"mode": "assist"})
    made = ask(client, 6)
    if rejected:
        client.post("/v1/approvals", json={"decisions": [made["id"]], "approve": False})
    client.post("/v1/outcomes", json={"outcomes": [{"decision": made["id"], "reward": 0.5}]})
    text = explanation(client, made)["text"]
    words = "admin one rejected it." if rejected else "Nobody approved it while its slot lasted."
    assert f"{words} The station ran tilt=4 instead; its reward was learned for that. It earned 0.500." in text


def test_pages_say_what_the_guard_said(tmp_path: Path) -> None:
    rails = "knobs: {threshold_dbm: {step: 1}}"
    with network(tmp_path, mode="autonomous", rails=rails) as web:
        web.operations.ask({"3714": {"load": 0.3}}, allowed={"3714": {"threshold_dbm": [-95]}})
        client = web.browser("viewer")
        page = client.get("/decisions/d000001").text
        why = page.partition('id="why-title"')[2].partition("</section>")[0]
        reason = "threshold_dbm from -101 to -95 is further than the 1 of one change"
        assert f"The guard refused it by the rail step: {reason}. The station ran threshold_dbm=-101 instead" in why
        row = client.get("/stations/3714").text.partition("d000001</a>")[2].partition("</tr>")[0]
        assert "<code>step</code>" in row
        assert f"keeps threshold_dbm=-101: {reason}" in row
