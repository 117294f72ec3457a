"""The service carries out itself what is ordered, on real NETCONF servers: two nodes of two cells each.

The hours of the service pass by a clock of the test; the nodes have their own, which nobody sets.
"""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support import netconf
from tests.support.netconf import MAP, Server, write_inventory
from tests.support.operations_life import Clock, Wish, want, whole

from kinband import ConfigurationSpace, Controller
from kinband.cli import main
from kinband.counters import CounterMap
from kinband.deploy import Access, Inventory
from kinband.deploy.node import Node
from kinband.errors import BadInputError
from kinband.guardrails import rails_from_text
from kinband.service.carrying import Carrier, Network
from kinband.service.client import KinbandClient
from kinband.service.ledger import Ledger, LedgerUnavailableError
from kinband.service.operations import Operations
from kinband.service.operations.turns import Turns
from kinband.service.operations.underway import Task, UnderWay

pytestmark = pytest.mark.skipif(bool(netconf.MISSING), reason=netconf.WHY)

STATIONS = ("7-1", "7-2", "8-1", "8-2")
SPACE = ConfigurationSpace(a2_threshold_dbm=[-102, -100, -99, -95, -93, -40], hysteresis_db=[1])  # -40 no node takes
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
CODED = [38, 40, 41, 45, 47, 100]


def arm(threshold: int) -> int:
    return SPACE.index({"a2_threshold_dbm": threshold, "hysteresis_db": 1})


def controller() -> Controller:
    running = {name: {"a2_threshold_dbm": -100 if name.endswith("1") else -95, "hysteresis_db": 1} for name in STATIONS}
    return Controller(SPACE, STATIONS, state=["want"], policy=Wish.build, running=running, seed=5)


@dataclass
class Life:
    """A service that is its own network manager, looked at step by step."""

    servers: list[Server]
    operations: Operations
    carrier: Carrier
    clock: Clock

    def ask(self, **thresholds: int) -> dict[str, str]:
        """Ask for thresholds by station, with the dash of its name left out; return ids."""
        wishes = {f"{name[1]}-{name[2]}": want(arm(value)) for name, value in thresholds.items()}
        return {one.station: one.id for one in self.operations.ask(wishes)}

    def status(self, decision: str) -> str:
        return self.operations.decision(decision).status

    def running(self) -> list[int]:
        """The thresholds that the record says stations run, as they are coded on nodes."""
        with self.operations.looking() as read_model:
            return [CODED[read_model.stations[name].running or 0] for name in STATIONS]

    def runs(self) -> list[int]:
        """Those that they really run."""
        return [value for server in self.servers for _, value in sorted(server.cells().items())]

    def sent(self) -> list[tuple[str, str]]:
        """What was put on record of orders, without when they were ordered, by station."""
        events = self.operations.events(kinds=["order"], limit=1000)
        return [(one.station, one.payload["status"]) for one in events]

    def check(self) -> None:
        """What the record says runs; a restart shows the same."""
        assert self.running() == self.runs()
        with self.operations.looking() as read_model:
            assert (read_model.sent, read_model.backs) == ({}, {})
        self.operations.ledger.verify()
        again = Operations.open(self.operations.ledger, policy=Wish.build, clock=self.clock)
        assert whole(again) == whole(self.operations)


@pytest.fixture(scope="module")
def running() -> Iterator[list[Server]]:
    with pytest.MonkeyPatch.context() as patch, netconf.network() as servers:
        patch.setattr("ncclient.transport.session.TICK", 0.005)  # it would wait a tenth of a second for every answer
        yield servers


@pytest.fixture
def nodes(running: list[Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Server]:
    """The nodes as they are at first, and in this folder a mapping and an inventory of all four cells."""
    for server in running:
        server.start()
    monkeypatch.chdir(tmp_path)
    Path("map.yaml").write_text(MAP)
    write_inventory(running)
    return running


def network(nodes: list[Server], *, seconds: int = 60) -> Network:
    access = Access(ssh_config=str(nodes[0].ssh_config), timeout=10)
    return Network(CounterMap.read("map.yaml"), access, seconds)


def begun(nodes: list[Server], *, rails: str = "{}", mode: Any = "autonomous", at: datetime = NOON) -> Life:
    clock = Clock(at)
    ledger = Ledger.open("ledger.db", clock=clock)
    limits = rails_from_text(rails, SPACE, stations=STATIONS)
    operations = Operations.open(
        ledger, controller(), rails=limits, rails_text=rails, mode=mode, manner="confirmed", clock=clock,
        policy=Wish.build,
    )  # fmt: skip
    return Life(nodes, operations, Carrier(operations, network(nodes), poll=0.0), clock)


@pytest.fixture
def life(nodes: list[Server]) -> Iterator[Life]:
    made = begun(nodes)
    yield made
    made.operations.ledger.close()


# --- As it should go ------------------------------------------------------------------------------------------------


def test_what_is_ordered_is_sent_confirmed_and_put_on_record(life: Life) -> None:
    ids = life.ask(n71=-102, n72=-93, n81=-102)
    assert {life.status(key) for key in ids.values()} == {"ordered"}
    life.carrier.step()
    assert {life.status(key) for key in ids.values()} == {"applied"}
    assert life.runs() == [38, 47, 38, 45]
    assert life.servers[0].cells("startup") == {1: 38, 2: 47}
    steps = life.operations.decision(ids["7-1"]).steps
    assert [(step.status, step.actor) for step in steps] == [("ordered", ""), ("applied", "network")]
    assert [one for one in life.sent() if one[0] < "8"] == [
        ("7-1", "sent"), ("7-2", "sent"), ("7-1", "applied"), ("7-2", "applied"),
    ]  # fmt: skip
    assert [one for one in life.sent() if one[0] > "8"] == [("8-1", "sent"), ("8-1", "applied")]
    life.operations.tell(dict.fromkeys(ids.values(), 0.9))
    learned = [(one.task, one.arm) for one in life.operations.controller.observations()]
    assert learned == [(0, arm(-102)), (1, arm(-93)), (2, arm(-102))]
    seq = life.operations.read_model.seq
    life.carrier.step()
    assert life.operations.read_model.seq == seq
    life.check()


def test_a_roll_back_by_a_person_reaches_the_network(life: Life) -> None:
    life.ask(n71=-102)
    life.carrier.step()
    life.operations.roll_back("7-1", comment="complaints", actor="ada")
    assert life.runs()[0] == 38
    life.carrier.step()
    assert life.runs() == [40, 45, 40, 45]
    assert life.sent()[-2:] == [("7-1", "sent"), ("7-1", "made")]
    life.check()


def test_a_person_who_overrides_a_stop_rolls_the_network_back_and_nobody_else_does(life: Life) -> None:
    ids = life.ask(n71=-102, n81=-102)
    life.carrier.step()
    life.operations.roll_back("8-1", actor="ada")
    life.operations.stop(why="outage", actor="ada")
    life.operations.roll_back("7-1", override=True, actor="ada")
    life.carrier.step()
    assert life.runs() == [40, 45, 38, 45]
    life.operations.resume(actor="ada")
    life.carrier.step()
    assert life.runs() == [40, 45, 40, 45]
    assert {life.status(key) for key in ids.values()} == {"rolled back"}
    life.check()


def test_a_configuration_that_was_set_by_hand_as_ordered_is_not_sent(life: Life) -> None:
    ids = life.ask(n71=-102)
    set_by_hand(life.servers[0], "7-1", 38)
    life.carrier.step()
    assert (life.status(ids["7-1"]), life.sent()) == ("applied", [("7-1", "applied")])
    life.check()


def set_by_hand(server: Server, station: str, value: int) -> None:
    """Set a threshold as an engineer beside us does."""
    mapping = CounterMap.read("map.yaml")
    items = network([server]).items(Task(station, "", 0, 0), SPACE, Inventory.read(mapping))
    with server.session() as node:
        node.lock()
        node.edit({item.path: str(value) for item in items if item.knob == "a2_threshold_dbm"})
        node._session.commit()
        node.leave(discard=False)


# --- What fails -----------------------------------------------------------------------------------------------------


def test_what_runs_something_else_than_the_record_says_fails_and_the_record_learns_it(life: Life) -> None:
    set_by_hand(life.servers[1], "8-2", 41)
    ids = life.ask(n81=-102, n82=-93)
    life.carrier.step()
    assert (life.status(ids["8-1"]), life.status(ids["8-2"])) == ("applied", "failed")
    why = life.operations.decision(ids["8-2"]).steps[-1].comment
    assert why == f"8-2 runs a2ThresholdRsrp=41 on {life.servers[1].name}, and the record says 45"
    assert life.runs() == [40, 45, 38, 41]
    life.operations.tell({ids["8-2"]: 0.4})
    assert [(one.task, one.arm) for one in life.operations.controller.observations()] == [(3, arm(-99))]
    life.check()


def test_what_a_node_refuses_fails_alone(life: Life) -> None:
    ids = life.ask(n71=-102, n81=-102, n82=-40)
    life.carrier.step()
    assert [life.status(ids[name]) for name in ("7-1", "8-1", "8-2")] == ["applied", "applied", "failed"]
    assert "did not accept the change (value not in range" in life.operations.decision(ids["8-2"]).steps[-1].comment
    with life.servers[1].session() as other:  # no lock and no edit is left behind
        other.lock()
        other.leave(discard=False)
    life.check()


def test_a_node_that_answers_ok_and_changes_nothing_has_its_order_fail(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claimed(node: Node, seconds: int, persist: str) -> None:
        node._session.discard_changes()

    monkeypatch.setattr(Node, "commit", claimed)
    ids = life.ask(n71=-102)
    life.carrier.step()
    assert life.status(ids["7-1"]) == "failed"
    assert "answered ok and runs a2ThresholdRsrp=40" in life.operations.decision(ids["7-1"]).steps[-1].comment
    life.check()


def test_a_station_without_a_place_in_the_network_has_its_order_fail_and_others_go_on(life: Life) -> None:
    text = Path("inventory.csv").read_text()
    Path("inventory.csv").write_text(text.replace("ManagedElement=7,ENBFunction=1,EUtranCellFDD=2", "ManagedElement=9"))
    ids = life.ask(n71=-102, n72=-93)
    life.carrier.step()
    assert (life.status(ids["7-1"]), life.status(ids["7-2"])) == ("applied", "failed")
    assert "for station 7-2: it should have one" in life.operations.decision(ids["7-2"]).steps[-1].comment
    life.check()


def test_what_was_given_up_on_its_way_at_a_station_that_left_the_inventory_holds_up_nobody(life: Life) -> None:
    ids = life.ask(n71=-102)
    life.operations.under_way.send(life.operations.under_way.tasks(), span=timedelta(seconds=70), actor="network")
    life.operations.set_mode("shadow", ["7-1"], actor="ada")
    assert life.status(ids["7-1"]) == "expired"
    text = Path("inventory.csv").read_text()
    Path("inventory.csv").write_text(text.replace("ManagedElement=7,ENBFunction=1,EUtranCellFDD=1", "ManagedElement=9"))
    life.clock.pass_(seconds=71)
    others = life.ask(n81=-102)
    life.carrier.step()
    assert (life.status(others["8-1"]), life.sent()[1]) == ("applied", ("7-1", "expired"))
    assert ("7-1", "unsent") in life.sent()
    life.check()


# --- Who is away, stops, or dies on the way -------------------------------------------------------------------------


def test_a_node_that_is_away_is_tried_again_until_its_order_expires(life: Life) -> None:
    life.servers[1].stop()
    ids = life.ask(n71=-102, n81=-102)
    life.carrier.step()
    assert (life.status(ids["7-1"]), life.status(ids["8-1"])) == ("applied", "ordered")
    assert life.sent() == [("7-1", "sent"), ("7-1", "applied")]
    life.servers[1].start()
    life.carrier.step()
    assert life.status(ids["8-1"]) == "applied"
    life.check()

    life.servers[1].stop()
    later = life.ask(n82=-93)
    life.carrier.step()
    life.clock.pass_(hours=2)
    life.carrier.step()
    assert life.status(later["8-2"]) == "expired"
    life.servers[1].start(fresh=False)
    life.carrier.step()
    life.check()


def test_a_node_that_dies_before_the_confirmation_is_changed_once_it_is_back(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = UnderWay.check

    def dying(self: UnderWay, tasks: Any) -> None:
        life.servers[1].stop()
        check(self, tasks)

    ids = life.ask(n81=-102)
    with monkeypatch.context() as patch:
        patch.setattr(UnderWay, "check", dying)
        life.carrier.step()
    assert life.status(ids["8-1"]) == "ordered"
    life.servers[1].start(fresh=False)
    assert life.runs() == [40, 45, 40, 45]
    life.carrier.step()  # what is on its way is left to the node until it has undone it for sure
    assert life.sent() == [("8-1", "sent")]
    life.clock.pass_(seconds=71)
    life.carrier.step()
    assert life.status(ids["8-1"]) == "applied"
    assert life.sent() == [("8-1", "sent"), ("8-1", "sent"), ("8-1", "applied")]
    life.check()


def test_nothing_is_sent_while_everything_is_stopped(life: Life) -> None:
    ids = life.ask(n71=-102)
    life.operations.stop(why="outage", actor="ada")
    life.carrier.step()
    assert (life.status(ids["7-1"]), life.sent(), life.runs()[0]) == ("ordered", [], 40)
    life.operations.resume(actor="ada")
    life.carrier.step()
    assert life.status(ids["7-1"]) == "applied"
    life.check()


@pytest.mark.parametrize("moment", ["commit", "confirm"])
def test_a_stop_by_another_process_on_the_way_has_it_cancelled(
    life: Life, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    other = Operations.open(Ledger.open("ledger.db", clock=life.clock), policy=Wish.build, clock=life.clock)
    method = "edit" if moment == "commit" else "commit"
    done = getattr(Node, method)

    def stopped(self: Node, *given: Any) -> None:
        done(self, *given)
        other.stop(why="outage", actor="bob")

    ids = life.ask(n71=-102)
    with monkeypatch.context() as patch:
        patch.setattr(Node, method, stopped)
        life.carrier.step()
    assert (life.status(ids["7-1"]), life.runs()[0]) == ("ordered", 40)
    assert life.sent() == ([] if moment == "commit" else [("7-1", "sent"), ("7-1", "unsent")])
    other.resume(actor="bob")
    life.operations.refresh()
    life.carrier.step()
    assert life.status(ids["7-1"]) == "applied"
    other.ledger.close()
    life.check()


def test_a_ledger_that_is_away_after_the_commit_has_it_cancelled(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: Turns) -> None:
        raise LedgerUnavailableError("the database is away: try again later", code="away")

    ids = life.ask(n71=-102)
    with monkeypatch.context() as patch:
        patch.setattr(Turns, "refresh", away)
        life.carrier.step()
    assert (life.status(ids["7-1"]), life.runs()[0]) == ("ordered", 40)
    life.carrier.step()
    assert life.status(ids["7-1"]) == "applied"
    life.check()


def test_a_roll_back_while_a_change_is_on_its_way_has_it_cancelled(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.ask(n71=-102)
    life.carrier.step()
    commit = Node.commit

    def rolled_back(self: Node, *given: Any) -> None:
        commit(self, *given)
        life.operations.roll_back("7-1", actor="ada")

    ids = life.ask(n71=-93)
    with monkeypatch.context() as patch:
        patch.setattr(Node, "commit", rolled_back)
        life.carrier.step()
    assert life.status(ids["7-1"]) == "expired"
    life.carrier.step()
    assert life.runs() == [40, 45, 40, 45]
    life.check()


DYING = """
import os, sys
sys.path[:0] = {path!r}
from datetime import datetime
from tests.e2e.test_carrying import Carrier, Clock, Ledger, Node, Operations, Wish, network
from tests.support.netconf import Server

class At:
    ssh_config = sys.argv[1]

def died(node, *given):
    method(node, *given)
    os._exit(9)

method = getattr(Node, sys.argv[2])
setattr(Node, sys.argv[2], died)
clock = Clock(datetime.fromisoformat(sys.argv[3]))
operations = Operations.open(Ledger.open("ledger.db", clock=clock), policy=Wish.build, clock=clock)
Carrier(operations, network([At], seconds=3)).step()
"""


@pytest.mark.parametrize("moment", ["commit", "confirm"])
def test_a_service_that_is_killed_on_the_way_leaves_a_record_of_what_runs(life: Life, moment: str) -> None:
    ids = life.ask(n71=-102)
    code = DYING.format(path=[str(Path(__file__).parents[2])])
    died = subprocess.run(
        [sys.executable, "-c", code, str(life.servers[0].ssh_config), moment, life.clock.now.isoformat()], check=False
    )
    assert died.returncode == 9
    assert life.runs()[0] == 38
    life.operations.refresh()
    assert life.sent() == [("7-1", "sent")]
    life.carrier.step()  # whoever comes next leaves it alone until the nodes have undone it for sure
    assert life.sent() == [("7-1", "sent")]
    time.sleep(3.5)
    assert life.runs()[0] == (40 if moment == "commit" else 38)
    life.clock.pass_(seconds=14)
    life.carrier.step()
    assert life.status(ids["7-1"]) == "applied"
    again = [("7-1", "sent")] if moment == "commit" else []
    assert life.sent() == [("7-1", "sent"), *again, ("7-1", "applied")]
    life.check()


def test_of_several_processes_one_sends(life: Life) -> None:
    other = Operations.open(Ledger.open("ledger.db", clock=life.clock), policy=Wish.build, clock=life.clock)
    both = [Carrier(one, network(life.servers), poll=0.05) for one in (life.operations, other)]
    for one in both:
        one.start()
    ids = life.ask(n71=-102, n72=-93, n81=-102, n82=-93)
    end = time.monotonic() + 60
    while {life.status(key) for key in ids.values()} != {"applied"} and time.monotonic() < end:
        life.operations.refresh()
        time.sleep(0.05)
    for one in both:
        one.end()
    assert sorted(life.sent()) == sorted((name, what) for name in STATIONS for what in ("sent", "applied"))
    other.ledger.close()
    life.check()


def test_what_was_given_up_on_its_way_is_found_out(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    confirm = Node.confirm

    def rolled_back(self: Node, *given: Any) -> None:
        confirm(self, *given)
        life.operations.set_mode("shadow", actor="ada")

    ids = life.ask(n71=-102)
    with monkeypatch.context() as patch:
        patch.setattr(Node, "confirm", rolled_back)
        life.carrier.step()
    assert (life.status(ids["7-1"]), life.runs()[0], life.running()[0]) in (
        ("applied", 38, 38), ("expired", 38, 40),
    )  # fmt: skip
    life.clock.pass_(seconds=71)
    life.carrier.step()
    life.check()


def test_a_password_is_in_no_log_and_in_no_ledger(life: Life, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    word, key, config = "opensesame", tmp_path / "key", tmp_path / "ssh_config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", word, "-f", key], check=True)
    text = life.servers[0].ssh_config.read_text()
    config.write_text(text.replace(f"IdentityFile {life.servers[0].folder}/user", f"IdentityFile {key}"))
    life.carrier._network = Network(CounterMap.read("map.yaml"), Access(ssh_config=str(config), password=word))
    ids = life.ask(n71=-102)
    with caplog.at_level(logging.DEBUG):
        life.carrier.step()  # the key is none that the node knows
    assert life.status(ids["7-1"]) == "ordered"
    with (life.servers[0].folder / "user.pub").open("a") as known:
        known.write(key.with_suffix(".pub").read_text())
    with caplog.at_level(logging.DEBUG):
        life.carrier.step()
    assert life.status(ids["7-1"]) == "applied"
    assert word not in caplog.text
    assert word not in repr(life.carrier._network)
    assert not any(word.encode() in file.read_bytes() for file in tmp_path.glob("ledger.db*"))


# --- A night, and the process ---------------------------------------------------------------------------------------

NIGHT = 'maintenance:\n  - {from: "00:00", to: "05:00"}\nzone: UTC\nchanges: {per_round: 2, round: 30min}\n'


def test_a_night_in_which_the_service_carries_out_what_was_approved_by_day(nodes: list[Server]) -> None:
    life = begun(nodes, rails=NIGHT, mode="assist")
    ids = life.ask(n71=-102, n72=-93, n81=-102, n82=-40)
    life.operations.approve(list(ids.values()), actor="ada")
    life.carrier.step()
    assert {life.status(key) for key in ids.values()} == {"approved"}
    nodes[1].stop()
    life.clock.now = NOON + timedelta(hours=12, minutes=1)
    while life.clock.now < NOON + timedelta(hours=16, minutes=50):
        life.carrier._waits.clear()  # time passes for the test alone
        life.carrier.step()
        life.clock.pass_(minutes=10)
        if life.clock.now.hour == 2 and nodes[1].process is None:
            nodes[1].start()
    assert [life.status(ids[name]) for name in STATIONS] == ["applied", "applied", "applied", "failed"]
    assert life.runs() == [38, 47, 38, 45]
    at = {name: life.operations.decision(ids[name]).steps[-1].at for name in STATIONS[:3]}
    assert at["7-1"] < NOON + timedelta(hours=12, minutes=30) < at["7-2"] or at["7-1"] == at["7-2"]
    assert at["8-1"] >= NOON + timedelta(hours=14)
    life.check()
    life.operations.ledger.close()


def test_the_command_serves_a_network_and_changes_it(nodes: list[Server], tmp_path: Path) -> None:
    present = {"a2_threshold_dbm": -100, "hysteresis_db": 1}
    space = ConfigurationSpace(a2_threshold_dbm=[-100, -102], hysteresis_db=[1])
    made = Controller(space, ["7-1", "9-9"], state={"load": (0, 1)}, running=present, mean=0.7, noise=0.1, seed=1)
    made.save(tmp_path / "state")
    port = netconf._free_ports(1)[0]
    words = ["serve", "--ledger", "served.db", "--start", "state", "--mode", "autonomous", "--orders", "network",
             "--mapping", "map.yaml", "--ssh-config", str(nodes[0].ssh_config), "--confirm", "30", "--port", str(port),
             "--insecure-local"]  # fmt: skip
    with (
        Path("log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "kinband", *words], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("kinband is ready")
            with KinbandClient(f"http://127.0.0.1:{port}") as client:
                end = time.monotonic() + 120
                while client.station("7-1").running == present and time.monotonic() < end:
                    client.ask({"7-1": {"load": 0.5}})
                    time.sleep(0.5)
                assert client.station("7-1").running == {"a2_threshold_dbm": -102, "hysteresis_db": 1}
                assert nodes[0].cells()[1] == 38
        finally:
            process.terminate()
            process.wait(60)
    said = Path("log").read_text()
    assert "no order can be carried out at stations that the inventory lacks: 9-9" in said
    assert "get-config" not in said
    ledger = Ledger.open("served.db")
    assert "sent" in {one.payload["status"] for one in ledger.read(kinds=["order"])}
    ledger.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--orders", "network"], "--orders network needs --mapping"),
        (["--ssh-config", "ssh_config"], "give --orders network, too"),
        (["--orders", "sometimes"], "--orders is assumed, confirmed or network, got 'sometimes'"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_at_the_start(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--ledger", str(tmp_path / "none.db"), *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "none.db").exists()


def test_a_mapping_without_a_knob_or_its_path_is_refused(nodes: list[Server]) -> None:
    more = ConfigurationSpace(a2_threshold_dbm=[-100], hysteresis_db=[1], tilt_deg=[2, 4])
    with pytest.raises(BadInputError, match="the mapping has no knob tilt_deg"):
        network(nodes).check(more, STATIONS)
    Path("map.yaml").write_text(MAP.replace("    hysteresis_db:", "    # hysteresis_db:"))
    with pytest.raises(BadInputError, match="the mapping does not say where hysteresis_db is"):
        network(nodes).check(SPACE, STATIONS)
