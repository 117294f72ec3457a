"""Two processes of the service on one PostgreSQL: whoever is asked, a slot of a station is decided once."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.golden.record import same
from tests.support.ledger_stores import fresh_database
from tests.support.service_crowd import Crowd, Sent, Witness, check_once, check_replay, load_of
from tests.support.service_process import STATIONS, Options, ServiceProcess, make_tokens, service

from kinband.records import TOLERANCE
from kinband.service.ledger import Ledger

SLOTS, ASKERS = 8, 8


@contextmanager
def two_services(options: Options, folder: Path) -> Iterator[list[ServiceProcess]]:
    """Two processes that start at the same time on an empty database."""
    with ExitStack() as stack:
        both = [stack.enter_context(service(options, folder, name=f"{i}", start=False)) for i in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(ServiceProcess.start, both))
        yield both


def states_of(slot: str) -> dict[str, dict[str, float]]:
    return {name: {"load": load_of(slot, name)} for name in STATIONS}


def asked_together(pair: list[ServiceProcess], token: str, slot: str, sent: dict[str, Sent]) -> list[dict[str, Any]]:
    """Let threads ask both processes for one slot at the same moment, and return what each heard."""
    barrier, body = threading.Barrier(ASKERS), {"slot": slot, "states": states_of(slot)}

    def ask(who: int) -> dict[str, Any]:
        key = f"{slot}-{who // 2}"  # two threads share a key, one at each process
        sent[f"one: {key}"] = Sent("/v1/decisions", body, "one")
        with pair[who % 2].client(token) as client:
            barrier.wait(timeout=60)
            answer = client.post("/v1/decisions", json=body, headers={"Idempotency-Key": key})
        assert answer.status_code in (200, 201), answer.text
        return {item["station"]: (item["id"], item["run"]) for item in answer.json()["decisions"]}

    with ThreadPoolExecutor(ASKERS) as pool:
        return list(pool.map(ask, range(ASKERS)))


def test_two_processes_decide_every_slot_once_and_end_with_equal_pictures(server: Any, tmp_path: Path) -> None:
    options, sent = Options(fresh_database(server), seed=53), dict[str, Sent]()
    with two_services(options, tmp_path) as pair, closing(Ledger.open(options.url)) as ledger:
        tokens, witness = make_tokens(options.url, {"one": "operator", "two": "operator"}), Witness(options, tmp_path)
        for slot in (f"together-{number}" for number in range(SLOTS)):
            answers = asked_together(pair, tokens["one"], slot, sent)
            assert all(answer == answers[0] for answer in answers)
        made = Counter((event.station, event.slot) for event in ledger.read(kinds=["decision"]))
        assert made == {(name, f"together-{number}"): 1 for name in STATIONS for number in range(SLOTS)}
        bases = [lambda process=process: process.base for process in pair * 2]
        with Crowd(bases, tokens, options, seed=59) as crowd:  # everybody asks and tells, at either door
            crowd.wait_for(60)
            crowd.end()
        check_once(ledger, crowd.heard)
        witness.follow(ledger, sent | crowd.heard.sent)
        witness.close()
        check_replay(ledger, sample=3, seed=59)
        check_same_pictures(pair, tokens["one"])


def check_same_pictures(pair: list[ServiceProcess], token: str) -> None:
    """Check that both processes show the same."""
    pages = ["/v1/stations", "/v1/decisions?limit=500", "/v1/mode", "/v1/similarity", "/v1/events?limit=1000"]
    pages += [f"/v1/stations/{name}/{page}" for name in STATIONS for page in ("outlook", "history")]
    with pair[0].client(token) as one, pair[1].client(token) as other:
        for page in pages:
            mine, theirs = (client.get(page).raise_for_status().json() for client in (one, other))
            assert same(mine, theirs, tolerance=TOLERANCE) == [], page  # each has learned in its own order
        for page in ("/v1/export/decisions.csv", "/v1/export/outcomes.csv"):
            assert one.get(page).raise_for_status().content == other.get(page).raise_for_status().content, page


def ask_one(client: httpx.Client, slot: str, *, allowed: list[int]) -> dict[str, Any]:
    """Ask for the first station and return the decision."""
    name = STATIONS[0]
    body = {"slot": slot, "states": {name: {"load": 0.4}}, "allowed": {name: {"tilt": allowed}}}
    answer = client.post("/v1/decisions", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["decisions"][0]
    return found


def test_what_a_person_does_at_one_process_is_honoured_at_the_other(server: Any, tmp_path: Path) -> None:
    options = Options(fresh_database(server), rails="knobs: {tilt: {max: 8}}")
    with two_services(options, tmp_path) as pair:
        token = make_tokens(options.url, {"boss": "admin"})["boss"]
        with pair[0].client(token) as one, pair[1].client(token) as other:
            check_people(one, other)


def check_people(one: httpx.Client, other: httpx.Client) -> None:
    """Check modes, approvals, roll-backs and the stop switch between two processes."""
    first = ask_one(other, "1", allowed=[6])
    assert (first["mode"], first["status"], first["run"]) == ("autonomous", "applied", {"tilt": 6})
    one.put("/v1/mode", json={"mode": "assist"}).raise_for_status()
    waits = ask_one(other, "2", allowed=[8])
    assert (waits["mode"], waits["status"], waits["run"]) == ("assist", "waiting", {"tilt": 6})
    assert [item["id"] for item in one.get("/v1/plan").json()["decisions"]] == [waits["id"]]
    said = {"decisions": [waits["id"]], "approve": False, "comment": "not today"}
    assert one.post("/v1/approvals", json=said).json()["decisions"][0]["status"] == "rejected"
    assert other.post("/v1/approvals", json=said | {"approve": True}).status_code == 409
    back = one.post(f"/v1/stations/{STATIONS[0]}/roll-back", json={"comment": "as it was"}).json()
    assert back["running"] == {"tilt": 4}
    assert other.get(f"/v1/stations/{STATIONS[0]}").json()["running"] == {"tilt": 4}
    one.put("/v1/mode", json={"mode": "autonomous"}).raise_for_status()
    other.post("/v1/stop", json={"why": "storm"}).raise_for_status()
    stopped = ask_one(one, "3", allowed=[2])
    assert (stopped["status"], stopped["run"]) == ("refused", {"tilt": 4})
    assert "stop" in {refusal["code"] for refusal in stopped["verdict"]["refusals"]}
    one.post("/v1/resume", json={}).raise_for_status()
    assert other.get("/v1/mode").json()["stopped"] is None
