"""What takes two people takes two: in every store, in every process, and over HTTP and pages."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.dashboard_network import network
from tests.support.http_service import controller, served
from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.operations_life import Clock, Wish, ask, begin

from kinband.errors import BadInputError, ConflictError
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

TWO = "two_people: [approve, rails, resume]\n"
YAML = {"Content-Type": "application/yaml"}


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "l.db") if request.param == "sqlite" else fresh_database(request.getfixturevalue("server"))


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    opened = Ledger.open(url)
    yield opened
    opened.close()


@pytest.fixture
def other(url: str, ledger: Ledger) -> Iterator[Ledger]:
    opened = Ledger.open(url)
    yield opened
    opened.close()


def kinds(operations: Operations) -> list[tuple[str, str]]:
    return [(event.kind, event.actor) for event in operations.ledger.read(kinds=["switch", "proposal", "rails"])]


def stopped(operations: Operations) -> bool:
    operations.refresh()
    with operations.looking() as seen:
        return seen.stopped is not None


def test_who_asked_for_a_change_does_not_approve_it(ledger: Ledger) -> None:
    operations = begin(ledger, text=TWO, mode="assist")
    [made] = operations.ask({"a": {"want": 3.001}}, actor="nms")
    with pytest.raises(ConflictError, match="asked for by 'nms', and it takes two people") as refused:
        operations.approve([made.id], actor="nms")
    assert refused.value.code == "two_people"
    with pytest.raises(ConflictError, match="nobody says who this is"):
        operations.approve([made.id])
    operations.reject([ask(operations, b=3)["b"].id])  # to leave things as they are takes nobody else
    assert operations.approve([made.id], actor="ada")[0].status == "applied"


def test_a_stop_ends_when_a_second_person_resumes_in_another_process(ledger: Ledger, other: Ledger) -> None:
    here, there = begin(ledger, text=TWO), Operations.open(other, clock=Clock(), policy=Wish.build)
    here.stop(actor="ada")
    for _ in range(2):  # to ask twice is not to be two
        here.resume(why="all clear", actor="ada", key="one call")
        there.resume(why="all clear", actor="ada")
    assert stopped(here)
    assert stopped(there)
    first = there.proposed("resume")
    assert first is not None
    assert (first.actor, first.comment) == ("ada", "all clear")
    there.resume(why="seen, too", actor="bob")
    assert not stopped(here)
    assert here.proposed("resume") is None
    [*_, proposal, event] = here.ledger.read(kinds=["switch", "proposal"])
    assert (proposal.actor, event.actor, event.payload["with"]) == ("ada", "bob", "ada")


def test_the_word_of_the_first_counts_for_that_stop_and_for_a_day(ledger: Ledger) -> None:
    clock = Clock()
    operations = begin(ledger, text=TWO, clock=clock)
    operations.stop(actor="ada")
    operations.resume(actor="ada")
    operations.stop(actor="carl")  # something else has come up
    operations.resume(actor="bob")
    assert stopped(operations)
    clock.now += timedelta(days=1, seconds=1)
    operations.resume(actor="ada")
    assert stopped(operations)
    operations.resume(actor="bob")
    assert not stopped(operations)


def test_other_rails_hold_once_a_second_person_sends_the_same(ledger: Ledger, other: Ledger) -> None:
    here, there = begin(ledger, text=TWO), Operations.open(other, clock=Clock(), policy=Wish.build)
    assert here.set_rails("{}", actor="ada").text == TWO
    assert here.set_rails("{}", actor="ada").text == TWO
    assert there.set_rails("stop: on\n", actor="bob").text == TWO  # others, which take the place of those before
    assert here.set_rails("{}", actor="ada").text == TWO
    assert there.set_rails("{}", actor="bob").text == "{}"
    here.refresh()
    assert here.rails_in_force()[0].text == "{}"
    assert here.proposed("rails") is None
    assert [kind for kind, _ in kinds(here)] == ["rails", "proposal", "proposal", "proposal", "rails"]
    assert here.set_rails("stop: on\n", actor="ada").text == "stop: on\n"  # which takes one again


def test_rails_that_another_process_put_in_force_a_moment_ago_hold_for_a_resumption(
    ledger: Ledger, other: Ledger
) -> None:
    here, there = begin(ledger), Operations.open(other, clock=Clock(), policy=Wish.build)
    here.stop(actor="ada")
    there.set_rails(TWO, actor="ada")
    here.resume(actor="bob")  # has not looked since
    assert stopped(here)


def test_a_key_of_a_call_that_waits_for_a_second_person_is_answered_again(ledger: Ledger) -> None:
    operations = begin(ledger, text=TWO)
    operations.stop(actor="ada")
    for _ in range(3):
        operations.resume(actor="ada", key="k1")
    assert [kind for kind, _ in kinds(operations)].count("proposal") == 1


def test_acts_that_nobody_knows_are_refused_with_their_line(ledger: Ledger) -> None:
    with pytest.raises(BadInputError, match=r"line 2: two_people\[?.* must be one of approve, rails, resume, got 'sto"):
        begin(ledger, text="zone: UTC\ntwo_people: [rails, stop]\n")


def test_over_http_the_first_of_two_is_told_that_it_takes_another(tmp_path: Path) -> None:
    with served(tmp_path, made=controller()) as service:
        service.texts["second"] = service.tokens.create("another admin", "admin").token
        first, second = service.client("admin"), service.client("second")
        assert first.put("/v1/rails", content=TWO, headers=YAML).status_code == 200
        [made] = first.post("/v1/decisions", json={"states": {"a": {"load": 0.4}}}).json()["decisions"]
        refused = first.post("/v1/approvals", json={"decisions": [made["id"]], "approve": True})
        if made["status"] == "waiting":
            assert (refused.status_code, refused.json()["code"]) == (409, "two_people")
            assert refused.json()["detail"].endswith("have somebody else do it, with a token of their own")
        first.post("/v1/stop")
        answers = [client.post("/v1/resume") for client in (first, first, second)]
        assert [answer.status_code for answer in answers] == [202, 202, 200]
        assert [answer.json()["stopped"] is None for answer in answers] == [False, False, True]
        assert answers[0].json()["resume"]["actor"] == "admin one"
        answers = [client.put("/v1/rails", content="{}", headers=YAML) for client in (first, first, second)]
        assert [answer.status_code for answer in answers] == [202, 202, 200]
        assert [answer.json()["changed"] for answer in answers] == [False, False, True]
        assert answers[0].json()["rails"]["proposed"]["text"] == "{}"
        assert answers[0].json()["rails"]["two_people"] == ["approve", "rails", "resume"]


def test_without_access_control_nobody_is_two_people(tmp_path: Path) -> None:
    with served(tmp_path, insecure_local=True) as service:
        client = service.client(None, base_url="http://localhost")
        client.put("/v1/rails", content=TWO, headers=YAML)
        client.post("/v1/stop")
        answer = client.post("/v1/resume")
        assert (answer.status_code, answer.json()["code"]) == (409, "two_people")


def test_pages_say_that_it_takes_another(tmp_path: Path) -> None:
    with network(tmp_path, rails=TWO) as web:
        ada, bob = web.browser("admin"), web.browser("admin")
        digest = web.operations.rails_in_force()[0].digest
        ada.post("/rails", {"yaml": "zone: UTC\n", "csrf": web.csrf(ada), "replaces": digest})
        assert "it takes a second admin, too" in ada.get("/rails").text
        page = bob.get("/rails").text
        assert "Put in force as the second" in page
        assert "wants these in force since" in page
        assert "Put in force as the second" not in ada.get("/rails").text
        for client, text in ((ada, "another person has to resume, too"), (bob, "Stations may be changed again.")):
            if client is ada:
                client.post("/stop", {"csrf": web.csrf(client)})
            client.post("/resume", {"csrf": web.csrf(client), "comment": "calm"})
            assert text in client.get("/").text
            assert ("wants to resume: a second person has to, too" in client.get("/").text) == (client is ada)
        web.operations.set_rails("zone: UTC\n", actor="bob")
        log = bob.get("/audit").text
        assert "wants to resume, which takes a second person: “calm”" in log
        assert "as admin" in log
