"""Guard rails over HTTP: read, checked, put in force, for everybody and on record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.http_service import RAILS, Served, controller, served

from kinband import ConfigurationSpace, Controller
from kinband.service.client import KinbandClient, ServiceError
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

YAML = {"Content-Type": "application/yaml"}
TIGHT = "# tighter\nknobs:\n  tilt: {max: 4}\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def admin(service: Served) -> httpx.Client:
    return service.client("admin")


def put(client: httpx.Client, text: str, **further: Any) -> dict[str, Any]:
    answer = client.put("/v1/rails", content=text.encode(), headers=YAML, **further)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def waiting(service: Served, station: str = "a", tilt: int = 6) -> str:
    """A change to this tilt that waits for a person."""
    [record] = service.operations.ask({station: {"load": 0.5}}, allowed={station: {"tilt": [tilt]}})
    assert record.status == "waiting"
    return record.id


def rails_events(service: Served) -> list[dict[str, Any]]:
    return [event.payload for event in service.operations.events(kinds=["rails"])]


def test_rails_that_can_never_take_effect_are_refused_with_their_line(tmp_path: Path) -> None:
    made = Controller(
        ConfigurationSpace(tilt=[2, 6]), ["a"], state={"load": (0, 1)}, running={"tilt": 2}, reward_range=(0, 1)
    )
    with served(tmp_path, made=made) as service:
        client = service.client("admin")
        for drop in ("2", "1", "500%"):
            text = f"stop: off\nfallback: {{drop: {drop}, slots: 3}}\n"
            for query in ("", "?check=true"):
                answer = client.put(f"/v1/rails{query}", content=text.encode(), headers=YAML)
                assert answer.status_code == 422
                assert f"line 2: fallback.drop is {drop}, and " in answer.json()["detail"]
        put(client, "fallback: {drop: 0.9, slots: 3}\n")


def test_rails_are_told_with_who_put_them_in_force_and_when(service: Served, admin: httpx.Client) -> None:
    first = service.client("viewer").get("/v1/rails").json()
    assert (first["text"], first["actor"], first["comment"]) == (RAILS, "", "")
    change = admin.put("/v1/rails", json={"yaml": TIGHT, "comment": "fewer complaints"}).json()
    found = service.client("viewer").get("/v1/rails").json()
    assert change == {"changed": True, "rails": found, "refused": [], "preview": None}
    assert (found["text"], found["actor"], found["comment"]) == (TIGHT, "admin one", "fewer complaints")
    [*_, event] = service.operations.events(kinds=["rails"])
    assert (event.actor, event.payload["comment"], event.payload["text"]) == ("admin one", "fewer complaints", TIGHT)
    assert found["at"] == event.at
    assert found["digest"] != first["digest"]


def test_rails_hold_for_the_next_decision_and_for_what_is_approved_then(service: Served, admin: httpx.Client) -> None:
    before = waiting(service)
    put(admin, TIGHT)
    answer = admin.post("/v1/approvals", json={"decisions": [before], "approve": True}).json()["decisions"][0]
    assert (answer["status"], answer["verdict"]["refusals"][0]["code"]) == ("refused", "range")
    body = {"states": {"b": {"load": 0.5}}, "allowed": {"b": {"tilt": [6]}}}
    [made] = admin.post("/v1/decisions", json=body).json()["decisions"]
    assert (made["status"], made["verdict"]["reason"]) == ("refused", "keeps tilt=4: tilt=6 is not at most 4")
    put(admin, "{}")
    [made] = admin.post("/v1/decisions", json=body).json()["decisions"]
    assert made["status"] == "waiting"


def test_rails_hold_in_other_processes_too(service: Served, admin: httpx.Client, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    other = Operations.open(ledger, rails=service.operations.guard.rails, rails_text=RAILS)
    put(admin, TIGHT)
    [record] = other.ask({"a": {"load": 0.5}}, allowed={"a": {"tilt": [6]}})
    assert record.verdict is not None
    assert record.verdict.codes == ("range",)
    assert other.rails_in_force()[0] == service.operations.rails_in_force()[0]
    ledger.close()


def test_checking_changes_nothing_and_says_what_the_plan_would_lose(service: Served, admin: httpx.Client) -> None:
    kept, lost = waiting(service, "b", 2), waiting(service, "a", 6)
    events = len(service.operations.events(limit=1000))
    found = put(admin, TIGHT, params={"check": "true"})
    assert not found["changed"]
    assert found["rails"]["text"] == RAILS
    assert [(one["decision"], one["rails"]) for one in found["refused"]] == [(lost, ["range"])]
    assert found["refused"][0]["reason"] == "keeps tilt=4: tilt=6 is not at most 4"
    assert len(service.operations.events(limit=1000)) == events
    assert {one["id"] for one in admin.get("/v1/plan").json()["decisions"]} == {kept, lost}


def test_rails_that_hold_already_are_not_put_on_record_again(service: Served, admin: httpx.Client) -> None:
    assert not put(admin, RAILS)["changed"]
    assert len(rails_events(service)) == 1
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):
        assert admin.put("/v1/rails", json={"yaml": TIGHT}, headers=headers).status_code == 200
    put(admin, "{}")
    again = admin.put("/v1/rails", json={"yaml": TIGHT}, headers=headers)  # sent late: done long ago
    assert again.json()["rails"]["text"] == "{}"
    assert [said["text"] for said in rails_events(service)] == [RAILS, TIGHT, "{}"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("knobs:\n  tilt: {maxx: 4}\n", "rails, line 2: there is no key 'maxx' in knobs.tilt: did you mean 'max'?"),
        ("zone: UTC\n\nfreeze: [zz]\n", "rails, line 3: "),
        ("knobs: {tilt: {max: [}}", "rails, line 1: "),
        ("knobs:\n  tilt: {max: 1}\n", "rails, line 2: max is 1, but"),
        ("- a\n", "rails, line 1: "),
        ("[" * 5_000, "rails, line 1: "),
        ("\n \n", "the rails are empty: write {} to lift all of them"),
    ],
)
def test_what_is_wrong_with_rails_is_told_with_the_line(
    service: Served, admin: httpx.Client, text: str, sentence: str
) -> None:
    for body in ({"content": text.encode(), "headers": YAML}, {"json": {"yaml": text}}):
        answer = admin.put("/v1/rails", **body)
        assert answer.status_code == 422
        assert answer.json()["detail"].startswith(sentence)
    assert len(rails_events(service)) == 1


def test_other_bodies_are_refused_with_what_may_be_sent(admin: httpx.Client) -> None:
    answer = admin.put("/v1/rails", content=b"stop: on", headers={"Content-Type": "application/xml"})
    assert (answer.status_code, "application/yaml" in answer.json()["detail"]) == (415, True)
    answer = admin.put("/v1/rails", content=b"zone: UTC\nstop: \xff", headers=YAML)
    assert (answer.status_code, answer.json()["detail"][:22]) == (400, "line 2 is not UTF-8: s")
    assert "the body is missing" in admin.put("/v1/rails").json()["detail"]
    assert "yaml must be text, got 7" in admin.put("/v1/rails", json={"yaml": 7}).json()["detail"]
    body = b'{"states": {"a": {"load": 0.5}}}'
    assert admin.post("/v1/decisions", content=body, headers=YAML).status_code == 415  # there it would be no JSON


def test_who_edits_old_rails_is_told(service: Served, admin: httpx.Client) -> None:
    seen = admin.get("/v1/rails").json()["digest"]
    put(admin, TIGHT)
    answer = admin.put("/v1/rails", json={"yaml": "{}", "replaces": seen})
    assert answer.status_code == 409
    assert "put in force by admin one meanwhile" in answer.json()["detail"]
    now = admin.get("/v1/rails").json()["digest"]
    assert admin.put("/v1/rails", json={"yaml": "{}", "replaces": now}).status_code == 200
    assert rails_events(service)[-1]["text"] == "{}"


def test_the_client_reads_checks_and_sets_rails(service: Served) -> None:
    client = KinbandClient("http://kinband.test", service.texts["admin"], transport=service.transport())
    lost = waiting(service)
    checked = client.check_rails(TIGHT)
    assert (checked.changed, checked.refused[0].decision, checked.refused[0].rails) == (False, lost, ["range"])
    change = client.set_rails(TIGHT, comment="spring", replaces=client.rails().digest)
    assert (change.changed, change.rails) == (True, client.rails())
    assert client.rails().at is not None
    with pytest.raises(ServiceError, match="line 1"):
        client.set_rails("stopp: on")


def test_rails_that_stop_or_freeze_show_where_stations_and_figures_are(service: Served, admin: httpx.Client) -> None:
    put(admin, "stop: on\nfreeze:\n  - {station: b, why: swap}\n")
    found = admin.get("/v1/rails").json()
    assert (found["stop"], found["frozen"]) == (True, {"b": "swap"})
    assert "kinband_stopped 1.0" in admin.get("/metrics").text


def test_rails_of_a_program_without_text_are_replaced_by_those_on_record(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    operations = Operations.open(ledger, controller(), mode="assist")
    assert operations.rails_in_force()[0].digest == ""
    operations.set_rails(TIGHT, replaces="", actor="ada")
    assert operations.rails_in_force()[1].knobs["tilt"].high == 4
    ledger.close()
