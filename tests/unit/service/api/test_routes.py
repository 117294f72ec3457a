"""Every route does what it says, on a small network with a real ledger."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.http_service import RAILS, STATIONS, TILTS, Served, served

from kinband.service.api import routes
from kinband.service.operations import Operations


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def client(service: Served) -> httpx.Client:
    return service.client("admin")


def ask(client: httpx.Client, stations: list[str] = STATIONS, **further: Any) -> list[dict[str, Any]]:
    body = {"states": {name: {"load": 0.3} for name in stations}, **further}
    answer = client.post("/v1/decisions", json=body)
    assert answer.status_code == 201, answer.text
    found: list[dict[str, Any]] = answer.json()["decisions"]
    return found


def get(client: httpx.Client, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_round_is_answered_in_the_order_of_its_states(client: httpx.Client) -> None:
    made = ask(client, ["b", "a"])
    assert [(one["station"], one["status"], one["actor"]) for one in made] == [
        ("b", "waiting", "admin one"),
        ("a", "waiting", "admin one"),
    ]
    assert {one["round"] for one in made} == {made[0]["round"]}
    for one in made:
        assert one["run"] == one["before"] == {"tilt": 4}
        assert one["proposed"]["tilt"] <= 6
        assert [other["configuration"]["tilt"] for other in one["alternatives"]].count(one["chosen"]["tilt"]) == 1


def test_a_slot_is_decided_once_and_then_answered_from_the_record(client: httpx.Client) -> None:
    first = ask(client, ["a"], slot="ten")
    again = client.post("/v1/decisions", json={"states": {"a": {"load": 0.3}}, "slot": "ten"})
    assert again.status_code == 200
    assert again.json()["decisions"] == first
    for further, advice in (
        ({"states": {"a": {"load": 0.9}}}, "send what was sent then, or ask for the next slot"),
        ({"running": {"a": {"tilt": 8}}}, "report what it runs now by POST /v1/decisions/d000001/applied"),
        ({"allowed": {"a": {"tilt": [2, 4]}}}, "with other configurations allowed than now"),
    ):
        other = client.post("/v1/decisions", json={"states": {"a": {"load": 0.3}}, "slot": "ten", **further})
        assert other.status_code == 409
        assert advice in other.json()["detail"]
    both = client.post("/v1/decisions", json={"states": {"a": {"load": 0.3}, "b": {"load": 0.3}}, "slot": "ten"})
    assert both.status_code == 201  # one of them is new
    assert both.json()["decisions"][0]["id"] == first[0]["id"]


def test_a_key_decides_once_and_is_refused_for_another_call(client: httpx.Client) -> None:
    key = {"Idempotency-Key": "k-1"}
    body = {"states": {"a": {"load": 0.3}, "b": {"load": 0.4}}}
    first = client.post("/v1/decisions", json=body, headers=key)
    again = client.post("/v1/decisions", json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    other = client.post("/v1/decisions", json={"states": {"a": {"load": 0.5}}}, headers=key)
    assert other.status_code == 409
    assert "another call" in other.json()["detail"]


def test_what_is_allowed_and_what_runs_reach_the_controller(client: httpx.Client) -> None:
    made = ask(
        client,
        allowed={"a": {"tilt": {"low": 5, "high": 7}}, "b": {"tilt": [2]}, "=c": [{"tilt": 4}]},
        running={"a": {"tilt": 2}},
    )
    assert [one["chosen"]["tilt"] for one in made] == [6, 2, 4]
    assert [one["before"]["tilt"] for one in made] == [2, 4, 4]
    assert get(client, "/v1/stations/a")["changed_by"] == "network"


def test_decisions_are_listed_by_filter_and_page(client: httpx.Client) -> None:
    for slot in ("one", "two", "three"):
        ask(client, ["a", "b"], slot=slot, allowed={name: {"tilt": [2, 6]} for name in "ab"})
    newest_first = [f"d{number:06d}" for number in range(6, 0, -1)]
    seen: list[str] = []
    path: str | None = "/v1/decisions?limit=4"
    pages = 0
    while path is not None:
        page = get(client, path)
        seen += [one["id"] for one in page["decisions"]]
        path, pages = page["next"], pages + 1
    assert (seen, pages) == (newest_first, 2)
    of_b = get(client, "/v1/decisions?station=b&slot=two")["decisions"]
    assert [(one["station"], one["slot"]) for one in of_b] == [("b", "two")]
    assert get(client, "/v1/decisions?status=expired&limit=500")["next"] is None
    assert len(get(client, "/v1/decisions?status=waiting")["decisions"]) == 2
    assert len(get(client, "/v1/decisions?status=expired")["decisions"]) == 4


def test_a_decision_is_shown_and_explained(client: httpx.Client) -> None:
    [made] = ask(client, ["a"])
    answered = {name: made.pop(name) for name in ("held", "valid_until")}
    assert answered == {"held": None, "valid_until": "2026-11-20T10:05:00Z"}
    assert get(client, f"/v1/decisions/{made['id']}") == made
    told = get(client, f"/v1/decisions/{made['id']}/explanation")
    assert told["id"] == made["id"]
    assert "a should run tilt=" in told["text"]
    assert told["configuration"] == made["chosen"]


def again(client: httpx.Client, **further: Any) -> tuple[Any, Any]:
    """What a question that was asked before is answered with now: what to run, and what holds the station."""
    answer = client.post("/v1/decisions", json={"states": {"a": {"load": 0.3}}, "slot": "ten", **further})
    assert answer.status_code == 200, answer.text
    [made] = answer.json()["decisions"]
    return made["run"]["tilt"], made["held"] and made["held"]["code"]


@pytest.fixture
def ordered(client: httpx.Client) -> dict[str, Any]:
    """A change of station a from tilt 4 to 6 that was ordered."""
    client.put("/v1/mode", json={"mode": "autonomous"})
    [made] = ask(client, ["a"], slot="ten", allowed={"a": {"tilt": [6]}})
    assert (made["run"], made["held"]) == ({"tilt": 6}, None)
    return made


def test_a_question_asked_again_after_a_stop_or_a_freeze_says_what_to_run_now(
    client: httpx.Client, ordered: dict[str, Any]
) -> None:
    assert again(client) == (6, None)
    client.post("/v1/stop", json={"why": "storm"})
    assert again(client) == (4, "stop")
    assert again(client, running={"a": {"tilt": 6}}) == (6, "stop")  # it has been made
    client.post("/v1/resume")
    assert again(client) == (6, None)
    client.put("/v1/stations/a/freeze")
    assert again(client) == (4, "freeze")
    client.post(f"/v1/decisions/{ordered['id']}/applied")
    assert again(client) == (6, "freeze")


def test_an_admin_may_roll_back_in_spite_of_a_stop_and_an_operator_may_not(
    client: httpx.Client, service: Served, ordered: dict[str, Any]
) -> None:
    path, operator = f"/v1/stations/{ordered['station']}/roll-back", service.client("operator")
    client.post("/v1/stop", json={"why": "storm"})
    refused = operator.post(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "held")
    assert "everything is stopped: storm: an admin may send override" in refused.json()["detail"]
    assert operator.post(path, json={"override": True}).status_code == 403
    assert client.post(path, json={"override": True}).json()["running"] == {"tilt": 4}


def test_a_question_asked_again_after_its_slot_orders_nothing(
    client: httpx.Client, service: Served, ordered: dict[str, Any]
) -> None:
    [later] = ask(client, ["a"], slot="eleven", allowed={"a": {"tilt": [2]}})
    service.clock.forward(minutes=3)
    answer = client.post("/v1/decisions", json={"states": {"a": {"load": 0.3}}, "slot": "ten"})
    [made] = answer.json()["decisions"]
    assert (made["id"], made["run"], made["valid_until"]) == (ordered["id"], later["run"], "2026-11-20T10:03:00Z")


def test_while_the_clock_is_in_doubt_nothing_changes_but_by_roll_backs_until_an_admin_says_that_it_is_right(
    client: httpx.Client, service: Served, ordered: dict[str, Any]
) -> None:
    service.clock.forward(hours=-2)
    assert "the clock shows 2026-11-20 08:00:00 UTC" in get(client, "/v1/mode")["clock"]
    assert "the clock shows" in get(service.client(None), "/readyz")["warnings"][0]
    assert "kinband_clock_in_doubt 1.0" in client.get("/metrics").text
    assert again(client) == (4, "clock")
    [held] = ask(client, ["b"], allowed={"b": {"tilt": [6]}})
    assert (held["run"], held["status"], held["verdict"]["refusals"][0]["code"]) == ({"tilt": 4}, "refused", "clock")
    assert client.post("/v1/stations/a/roll-back").json()["running"] == {"tilt": 4}
    assert client.post("/v1/stop").json()["stopped"]
    assert client.post("/v1/resume").json()["stopped"] is None
    assert client.post("/v1/clock", json={"why": "asked the tower"}).json()["clock"] is None
    assert not [said for said in get(service.client(None), "/readyz")["warnings"] if "clock" in said]
    [made] = ask(client, ["b"], allowed={"b": {"tilt": [6]}})
    assert (made["run"], made["at"]) == ({"tilt": 6}, "2026-11-20T08:00:00Z")
    refused = client.post("/v1/clock")
    assert (refused.status_code, "not in doubt" in refused.json()["detail"]) == (409, True)


def test_outcomes_come_in_any_order_and_all_or_nothing(client: httpx.Client) -> None:
    first, second, third = ask(client)
    outcomes = [{"decision": third["id"], "reward": 0.5}, {"decision": first["id"], "reward": 0.25, "noise": 0.01}]
    told = client.post("/v1/outcomes", json={"outcomes": outcomes})
    assert told.status_code == 200
    assert [(one["id"], one["reward"], one["open"]) for one in told.json()["decisions"]] == [
        (third["id"], 0.5, False),
        (first["id"], 0.25, False),
    ]
    mixed = [{"decision": second["id"], "reward": 0.5}, {"decision": first["id"], "reward": 0.9}]
    refused = client.post("/v1/outcomes", json={"outcomes": mixed})
    assert refused.status_code == 409
    assert get(client, f"/v1/decisions/{second['id']}")["reward"] is None


def test_an_outcome_is_recorded_once_under_its_key(client: httpx.Client) -> None:
    [made] = ask(client, ["a"])
    body = {"outcomes": [{"decision": made["id"], "reward": 0.5}]}
    answers = [client.post("/v1/outcomes", json=body, headers={"Idempotency-Key": "t"}) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 200]
    assert len(get(client, "/v1/events?kind=outcome")["events"]) == 1
    assert client.post("/v1/outcomes", json=body).status_code == 409


def test_an_outcome_for_another_station_is_refused(client: httpx.Client) -> None:
    first, second, _ = ask(client)
    outcomes = [{"decision": first["id"], "reward": 0.5, "station": second["station"]}]
    refused = client.post("/v1/outcomes", json={"outcomes": outcomes})
    assert refused.status_code == 409
    assert "is of station 'a', not of 'b'" in refused.json()["detail"]
    outcomes[0]["station"] = "a"
    assert client.post("/v1/outcomes", json={"outcomes": outcomes}).status_code == 200


def test_a_correction_replaces_what_was_told(client: httpx.Client) -> None:
    [made] = ask(client, ["a"])
    client.post("/v1/outcomes", json={"outcomes": [{"decision": made["id"], "reward": 0.5}]})
    right = client.post("/v1/corrections", json={"decision": made["id"], "reward": 0.75})
    assert (right.status_code, right.json()["reward"]) == (200, 0.75)
    kinds = [event["kind"] for event in get(client, f"/v1/events?decision={made['id']}&order=oldest")["events"]]
    assert kinds.index("outcome") < kinds.index("correction")


def test_approving_carries_out_and_rejecting_leaves_alone(client: httpx.Client) -> None:
    first, second, third = ask(client, allowed={name: {"tilt": [2, 6]} for name in STATIONS})
    plan = get(client, "/v1/plan")["decisions"]
    assert [one["id"] for one in plan] == [first["id"], second["id"], third["id"]]
    body = {"decisions": [second["id"], first["id"]], "approve": True, "comment": "go"}
    done = client.post("/v1/approvals", json=body).json()["decisions"]
    assert [(one["id"], one["status"], one["decided_by"], one["comment"]) for one in done] == [
        (second["id"], "applied", "admin one", "go"),
        (first["id"], "applied", "admin one", "go"),
    ]
    assert done[1]["run"] == first["proposed"]
    left = client.post("/v1/approvals", json={"decisions": [third["id"]], "approve": False}).json()["decisions"]
    assert [(one["status"], one["run"]) for one in left] == [("rejected", {"tilt": 4})]
    assert get(client, "/v1/plan")["decisions"] == []
    assert client.post("/v1/approvals", json=body).status_code == 409


@pytest.mark.parametrize(
    ("query", "accept", "form"),
    [("?format=csv", "*/*", "csv"), ("", "text/csv", "csv"), ("?format=json", "text/csv", "json"), ("", "*/*", "json")],
)
def test_the_plan_comes_in_the_form_that_is_asked_for(client: httpx.Client, query: str, accept: str, form: str) -> None:
    [made] = ask(client, ["a"], allowed={"a": {"tilt": [6]}})
    answer = client.get(f"/v1/plan{query}", headers={"Accept": accept})
    assert answer.headers["content-type"].split(";")[0] == {"csv": "text/csv", "json": "application/json"}[form]
    if form == "csv":
        header, row = (line.split(",") for line in answer.text.splitlines())
        found = dict(zip(header, row, strict=True))
        assert (found["decision"], found["present_tilt"], found["set_tilt"]) == (made["id"], "4", "6")
        assert float(found["expected_reward"]) == made["mean"]


def test_what_a_station_really_runs_is_reported(client: httpx.Client) -> None:
    [made] = ask(client, ["a"])
    body = {"configuration": {"tilt": 6}, "comment": "by hand"}
    said = client.post(f"/v1/decisions/{made['id']}/applied", json=body)
    assert (said.status_code, said.json()["run"]) == (200, {"tilt": 6})
    assert get(client, "/v1/stations/a")["running"] == {"tilt": 6}


@pytest.mark.parametrize("body", [{"json": {}}, {}])
def test_an_empty_report_says_that_a_station_runs_what_it_was_told_and_is_noted_once(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    client.put("/v1/mode", json={"mode": "autonomous"})
    [made] = ask(client, ["a"], allowed={"a": {"tilt": [6]}}, running={"a": {"tilt": 2}})
    undone = client.post(f"/v1/decisions/{made['id']}/applied", json={"configuration": {"tilt": 2}})
    assert (undone.json()["status"], undone.json()["run"]) == ("not made", {"tilt": 2})
    assert len(get(client, "/v1/decisions?status=not made")["decisions"]) == 1
    assert 'kinband_decisions{status="not made"} 1.0' in client.get("/metrics").text
    for _ in range(3):
        said = client.post(f"/v1/decisions/{made['id']}/applied", **body).json()
        assert (said["status"], said["run"]) == ("applied", {"tilt": 6})
    assert len(get(client, f"/v1/events?kind=applied&decision={made['id']}")["events"]) == 3


def test_a_state_far_from_what_the_controller_was_made_for_is_answered_and_said_to_be(client: httpx.Client) -> None:
    body: dict[str, Any] = {"states": {"a": {"load": 0.4}, "b": {"load": 1e15}}, "slot": "ten"}
    told = client.post("/v1/decisions", json=body)
    assert told.status_code == 201
    [warning] = told.json()["warnings"]
    assert warning.startswith("load of 'b' is 1e+15, ")
    assert client.post("/v1/decisions", json={"states": {"=c": {"load": 2.0}}}).json()["warnings"] == []


def test_the_plan_tells_what_is_expected_of_what_is_proposed_and_of_what_runs(client: httpx.Client) -> None:
    [made] = ask(client, ["a"], allowed={"a": {"tilt": [2, 4, 8]}})
    [planned] = get(client, "/v1/plan")["decisions"]
    scores = {other["configuration"]["tilt"]: other for other in made["alternatives"]}
    proposed, before = scores[planned["proposed"]["tilt"]], scores[4]
    expected = planned.pop("expected")
    assert (expected["proposed"], expected["proposed_std"]) == (proposed["mean"], proposed["std"])
    assert (expected["before"], expected["before_std"]) == (before["mean"], before["std"])
    assert expected["gain"] == pytest.approx(proposed["mean"] - before["mean"])
    apart = 1.959963984540054 * (proposed["std"] ** 2 + before["std"] ** 2) ** 0.5
    reach = expected["gain_high"] - expected["gain"]
    assert reach == pytest.approx(expected["gain"] - expected["gain_low"])
    assert 0 < reach < apart  # that of the difference: what makes both uncertain cancels
    assert planned.pop("support") == {"own": 0, "others": 0, "stations": 0}  # nobody ran it yet
    assert planned == {name: value for name, value in made.items() if name in planned}


def test_what_a_station_may_be_called_is_checked_when_it_joins(client: httpx.Client) -> None:
    for name in (" ", "d ", "\u3000d"):
        assert client.post("/v1/stations", json={"name": name}).status_code == 422
    assert client.post("/v1/stations", json={"name": "Pl\u00f6n"}).status_code == 201
    alike = client.post("/v1/stations", json={"name": "Plo\u0308n"})
    assert alike.status_code == 409
    assert "Pl\\xf6n" in alike.json()["detail"]
    assert client.delete("/v1/stations/Pl%C3%B6n").status_code == 200
    assert client.post("/v1/stations", json={"name": "Plo\u0308n"}).status_code == 409
    assert client.post("/v1/stations", json={"name": "Pl\u00f6n"}).status_code == 201  # comes back


def test_an_outcome_is_called_off(client: httpx.Client) -> None:
    [made] = ask(client, ["a"])
    off = client.post(f"/v1/decisions/{made['id']}/call-off")
    assert (off.status_code, off.json()["called_off"], off.json()["open"]) == (200, True, False)


def test_stations_are_listed_and_shown(client: httpx.Client) -> None:
    ask(client, ["a"])
    listed = get(client, "/v1/stations")["stations"]
    assert [(one["station"], one["mode"], one["running"]) for one in listed] == [
        (name, "assist", {"tilt": 4}) for name in STATIONS
    ]
    assert get(client, "/v1/stations/a") == listed[0]
    assert listed[0]["state"] == {"load": 0.3}


def test_a_station_joins_and_leaves(client: httpx.Client) -> None:
    body = {"name": "d", "similarity": {"a": 0.5}, "running": {"tilt": 8}}
    joined = client.post("/v1/stations", json=body)
    assert joined.status_code == 201
    assert joined.json()["station"]["running"] == {"tilt": 8}
    assert joined.json()["similarity"]["a"] == pytest.approx(0.5)
    [made] = ask(client, ["d"])
    left = client.delete("/v1/stations/d")
    assert (left.status_code, left.json()) == (200, {"station": "d", "awaited": [made["id"]]})
    assert get(client, "/v1/stations/d")["active"] is False
    assert "d" not in get(client, "/v1/mode")["stations"]


def test_the_outlook_covers_every_configuration(client: httpx.Client) -> None:
    ask(client, ["a"])
    found = get(client, "/v1/stations/a/outlook")
    assert [option["configuration"]["tilt"] for option in found["options"]] == TILTS
    assert found["state"] == {"load": 0.3}
    assert TILTS[found["running"]] == 4


def test_the_history_of_a_station_has_its_slots(service: Served, client: httpx.Client) -> None:
    for reward in (0.25, 0.5, 0.75):
        [made] = ask(client, ["a"])
        client.post("/v1/outcomes", json={"outcomes": [{"decision": made["id"], "reward": reward}]})
        service.clock.forward(hours=1)
    points = get(client, "/v1/stations/a/history?last=2")["points"]
    assert [(point["at"], point["reward"], point["configuration"]) for point in points] == [
        ("2026-11-20T11:00:00Z", 0.5, {"tilt": 4}),
        ("2026-11-20T12:00:00Z", 0.75, {"tilt": 4}),
    ]


def test_a_station_is_rolled_back(client: httpx.Client) -> None:
    [made] = ask(client, ["a"], allowed={"a": {"tilt": [6]}})
    client.post("/v1/approvals", json={"decisions": [made["id"]], "approve": True})
    assert get(client, "/v1/stations/a")["running"] == {"tilt": 6}
    back = client.post("/v1/stations/a/roll-back", json={"comment": "complaints"})
    assert (back.status_code, back.json()["running"]) == (200, {"tilt": 4})
    assert get(client, f"/v1/decisions/{made['id']}")["status"] == "rolled back"


def test_a_frozen_station_is_not_changed_until_it_is_thawed(client: httpx.Client) -> None:
    frozen = client.put("/v1/stations/a/freeze", json={"why": "antenna swap"})
    assert (frozen.status_code, frozen.json()["frozen"]) == (200, "antenna swap")
    [made] = ask(client, ["a"], allowed={"a": {"tilt": [6]}})
    assert [refusal["code"] for refusal in made["verdict"]["refusals"]] == ["freeze"]
    assert client.delete("/v1/stations/a/freeze").json()["frozen"] is None


def test_modes_are_set_for_some_and_for_all(client: httpx.Client) -> None:
    some = client.put("/v1/mode", json={"mode": "autonomous", "stations": ["b"], "comment": "trusted"})
    assert some.json()["stations"] == {"a": "assist", "b": "autonomous", "=c": "assist"}
    [made] = ask(client, ["b"], allowed={"b": {"tilt": [6]}})
    assert (made["status"], made["run"]) == ("applied", {"tilt": 6})
    client.put("/v1/mode", json={"mode": "shadow"})
    assert get(client, "/v1/mode") == {
        "mode": "shadow",
        "stopped": None,
        "clock": None,
        "stations": dict.fromkeys(STATIONS, "shadow"),
        "resume": None,
    }


def test_everything_stops_and_goes_on(client: httpx.Client) -> None:
    assert client.post("/v1/stop", json={"why": "storm"}).json()["stopped"] == "storm"
    [made] = ask(client, ["a"], allowed={"a": {"tilt": [6]}})
    assert made["status"] == "refused"
    assert client.post("/v1/resume").json()["stopped"] is None


def test_configurations_similarity_and_rails_are_shown(client: httpx.Client) -> None:
    found = get(client, "/v1/configurations")
    assert found["knobs"] == {"tilt": TILTS}
    assert [(one["arm"], one["configuration"]["tilt"]) for one in found["configurations"]] == list(enumerate(TILTS))
    alike = get(client, "/v1/similarity")
    assert alike["stations"] == STATIONS
    assert (alike["matrix"], alike["total"]) == ([[1.0] * 3] * 3, 3)
    assert get(client, "/v1/rails")["text"] == RAILS


def test_of_a_large_network_as_many_stations_are_compared_as_one_answer_bears(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "COMPARED", 2)
    assert get(client, "/v1/similarity")["stations"] == [STATIONS[0], STATIONS[2]]
    named = get(client, f"/v1/similarity?station={STATIONS[2]}&station={STATIONS[1]}")
    assert (named["stations"], named["total"]) == ([STATIONS[2], STATIONS[1]], 3)
    for query, status in ((f"station={STATIONS[1]}&station={STATIONS[1]}", 422), ("station=nobody", 404), ("x=1", 422)):
        assert client.get(f"/v1/similarity?{query}").status_code == status
    many = "&".join(f"station=s{i}" for i in range(501))
    assert client.get(f"/v1/similarity?{many}").status_code == 422


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_events_are_listed_by_filter_and_page(client: httpx.Client, order: str) -> None:
    ask(client)
    everything = get(client, f"/v1/events?order={order}&limit=1000")["events"]
    numbers = [event["seq"] for event in everything]
    assert numbers == sorted(numbers, reverse=order == "newest")
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    seen: list[Any] = []
    path: str | None = f"/v1/events?order={order}&limit=3"
    while path is not None:
        page = get(client, path)
        seen += page["events"]
        path = page["next"]
    assert seen == everything
    some = get(client, f"/v1/events?kind=decision&kind=verdict&station=a&order={order}")["events"]
    assert sorted(event["kind"] for event in some) == ["decision", "verdict"]
    assert get(client, "/v1/events?actor=nobody")["events"] == []


def test_filters_survive_from_page_to_page(client: httpx.Client) -> None:
    ask(client)
    page = get(client, "/v1/events?kind=decision&kind=verdict&limit=2")
    assert {event["kind"] for event in get(client, page["next"])["events"]} <= {"decision", "verdict"}


def test_the_service_lives_and_is_ready(service: Served) -> None:
    probe = service.client(None)
    assert get(probe, "/healthz")["status"] == "ok"
    assert get(probe, "/readyz")["status"] == "ok"


def test_answers_are_json_that_every_reader_takes(client: httpx.Client) -> None:
    ask(client)
    for path in ("/v1/decisions", "/v1/stations", "/v1/events", "/v1/stations/a/outlook"):
        json.loads(client.get(path).content, parse_constant=pytest.fail)


def test_what_another_process_decided_is_known_here(service: Served, client: httpx.Client) -> None:
    other = Operations.open(service.operations.ledger, clock=service.clock)
    first, second = (other.ask({name: {"load": 0.5}}, slot="ten")[0] for name in "ab")
    assert get(client, f"/v1/decisions/{first.id}")["station"] == "a"
    outcome = {"decision": second.id, "reward": 0.5, "station": "b"}
    third = other.ask({"=c": {"load": 0.5}})[0]
    outcomes = [outcome, {"decision": third.id, "reward": 0.25, "station": "=c"}]
    assert client.post("/v1/outcomes", json={"outcomes": outcomes}).status_code == 200
    fourth = other.ask({"b": {"load": 0.5}}, slot="eleven")[0]
    again = client.post("/v1/decisions", json={"states": {"b": {"load": 0.5}}, "slot": "eleven"})
    assert (again.status_code, again.json()["decisions"][0]["id"]) == (200, fourth.id)
