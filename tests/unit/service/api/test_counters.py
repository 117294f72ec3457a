"""Counters over HTTP: as JSON, CSV and measurement files, from nonsense to what a client sends."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_service import Served, served
from tests.support.network_files import Info, pm_text

from kinband.service.client import KinbandClient, ServiceError
from kinband.service.operations.feeds import Feed

MAPPING = """station: {object: Cell, name: "{Cell}"}
reward: Good / All
state: {load: Busy / 100}
knobs: {tilt: {attribute: tilt}}
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, mode="autonomous") as found:
        yield found


def test_an_hour_by_counters_alone(service: Served) -> None:
    client = service.client()
    sent = {"rows": [{"station": name, "time": "2026-11-20T09:00", "load": 0.4} for name in ("a", "b")]}
    assert client.post("/v1/counters", json=sent).json()["stations"] == 2
    made = client.post("/v1/decisions", json={"stations": ["a", "b"], "slot": "2026-11-20T10:00"})
    assert made.status_code == 201
    ids = [one["id"] for one in made.json()["decisions"]]
    assert [one["from"] for one in made.json()["decisions"]] == ["2026-11-20T10:00:00Z"] * 2
    text = (
        "station,time,load,reward\na,2026-11-20T10:00Z,0.5,0.8\nb,2026-11-20T10:00Z,0.5,0.7\nX9,2026-11-20T10:00Z,1,1\n"
    )
    for body in (text.encode(), gzip.compress(text.encode())):
        told = client.post("/v1/counters", content=body, headers={"Content-Type": "text/csv"})
        assert told.status_code == 200
        assert told.json()["unused"][0]["text"].startswith("1 row is of stations that nobody knows: let them join")
    assert told.json()["repeated"] == 2
    assert [service.operations.decision(key).reward for key in ids] == [0.8, 0.7]
    events = client.get("/v1/events?kind=counters").json()["events"]
    assert [len(event["payload"]["periods"]) for event in events] == [1, 1]


def test_a_measurement_file_is_read_by_the_mapping(tmp_path: Path) -> None:
    with served(tmp_path, mode="autonomous") as service:
        operations = service.operations
        operations._begin(None, "", Feed(mapping=MAPPING), actor="")
        record = operations.ask({"a": {"load": 0.2}}, slot="2026-11-20T10:00")[0]
        cells = {f"Cell={name}": {"Good": "90", "All": "100", "Busy": "30"} for name in ("a", "b", "X9")}
        text = pm_text([Info(cells, end="2026-11-20T11:00:00Z", duration="PT3600S")])
        client = KinbandClient("http://kinband.test", service.texts["operator"], transport=service.transport())
        taken = client.counters(gzip.compress(text.encode()))
        assert (taken.rows, taken.stations, taken.told) == (3, 2, [record.id])
        assert [one.places for one in taken.unused] == [["X9 at 2026-11-20T10:00:00Z: 'X9'"]]
        assert client.ask(stations=["b"], slot="2026-11-20T11:00")[0].begins is not None
        assert operations.read_model.stations["b"].state == {"load": 0.3}
        assert operations.decision(record.id).reward == 0.9
        half = text[: len(text) // 2].encode()
        with pytest.raises(
            ServiceError, match=r"422: nothing was measured .* such as the body: it is cut off or damaged"
        ):
            client.counters(half)


@pytest.mark.parametrize(
    ("content", "media", "status", "says"),
    [
        (b"{}", "application/json", 422, "there are no rows"),
        (b'{"rows": []}', "application/json", 422, "rows"),
        (b'{"rows": [{}]}', "application/json", 422, "rows"),
        (b'{"rows": [{"station": "a", "time": [1]}]}', "application/json", 422, "time"),
        (b'{"rows": [{"station": true, "time": 1, "load": "x"}]}', "application/json", 200, ""),
        (b'{"file": "text"}', "application/json", 422, "file"),
        (b'{"rows": [{"station": "a", "load": NaN}]}', "application/json", 400, "NaN is not JSON"),
        (b"station", "image/png", 415, "the body must be JSON, CSV or a measurement file"),
        (b"station,time\n\xff\xfe\x00,1\n", "text/csv", 422, "the body"),
        (b"<html><body>Sign in</body></html>", "application/xml", 422, "a measurement file came, and nobody said"),
        (b'"' * 1000, "text/csv", 422, "the body"),
    ],
)
def test_nonsense_gets_a_status_and_a_sentence(
    service: Served, content: bytes, media: str, status: int, says: str
) -> None:
    answer = service.client().post("/v1/counters", content=content, headers={"Content-Type": media})
    assert answer.status_code == status, answer.text
    assert says in answer.text
    assert "body." not in answer.text


def test_who_may_only_look_sends_no_counters_and_somebody_has_to_be_asked_for(service: Served) -> None:
    assert service.client("viewer").post("/v1/counters", json={"rows": [{"station": "a"}]}).status_code == 403
    answer = service.client().post("/v1/decisions", json={"slot": "2026-11-20T10:00"})
    assert (answer.status_code, "nobody is asked for" in answer.text) == (422, True)
    answer = service.client().post("/v1/decisions", json={"stations": ["a"], "slot": "2026-11-20T10:00"})
    assert (answer.status_code, answer.json()["code"]) == (409, "no_counters")
    answer = service.client().post("/v1/decisions", json={"stations": ["X9"]})
    assert answer.status_code == 404


def test_a_file_within_json_is_refused_with_how_it_is_sent(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        answer = service.client("operator").post("/v1/counters", json={"file": "station,time\n"})
        assert answer.status_code == 422
        assert "a file is sent as it is, with its Content-Type" in answer.json()["detail"]
