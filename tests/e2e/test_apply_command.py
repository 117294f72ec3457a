"""A plan out into the network and back, on real NETCONF servers: two nodes of two cells each."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support import http_service, netconf
from tests.support.netconf import CELLS, MAP, Server, write_inventory

from kinband import ConfigurationSpace, Controller
from kinband.cli import main
from kinband.counters import CounterMap
from kinband.deploy import Receipt, items_of, read_orders
from kinband.deploy.node import Node
from kinband.planning import Change, ChangePlan, Origin
from kinband.service.client import KinbandClient
from kinband.stats import Estimate

pytestmark = pytest.mark.skipif(bool(netconf.MISSING), reason=netconf.WHY)

BEFORE = CELLS
AFTER = {1: 38, 2: 47}


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def running() -> Iterator[list[Server]]:
    with pytest.MonkeyPatch.context() as patch, netconf.network() as servers:
        patch.setattr("ncclient.transport.session.TICK", 0.005)  # it would wait a tenth of a second for every answer
        yield servers


@pytest.fixture
def nodes(running: list[Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Server]:
    """The nodes as they are at first, and in this folder a mapping, an inventory and a plan for all four cells."""
    for server in running:
        server.start()
    monkeypatch.chdir(tmp_path)
    Path("map.yaml").write_text(MAP)
    write_inventory(running)
    write_plan(made=now())
    return running


def write_plan(made: datetime, *, last: int = -93, folder: str = "plan") -> None:
    """Cell 1 goes from -100 to -102 dBm, cell 2 from -95 to -93, on both nodes."""
    changes = [
        Change(
            f"{node}-{cell}", {"a2_threshold_dbm": present, "hysteresis_db": 1.0},
            {"a2_threshold_dbm": wanted, "hysteresis_db": 1.0}, expected=0.8, expected_unchanged=0.7,
            gain=Estimate(0.1, 0.05, 0.15), std=0.01, std_alone=0.02, own_rows=50, borrowed=0.3, lenders=(), reason="r",
        )
        for node in (7, 8)
        for cell, present, wanted in ((1, -100, -102), (2, -95, last if node == 8 else -93))
    ]  # fmt: skip
    ChangePlan(("a2_threshold_dbm", "hysteresis_db"), tuple(changes), ()).write(folder, origin=Origin(made=made))


@pytest.fixture
def run(nodes: list[Server], capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command and returns its exit code and what it said."""

    def called(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main([words[0], "--ssh-config", str(nodes[0].ssh_config), *words[1:]])
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return called


def states() -> set[str]:
    return set(Receipt.read(Path("plan")).states.values())


def unchanged(nodes: list[Server]) -> bool:
    return all(server.cells() == BEFORE for server in nodes)


Run = Callable[..., tuple[int, str]]


# --- As it should go ------------------------------------------------------------------------------------------------


def test_a_plan_is_applied_confirmed_from_elsewhere_and_rolled_back(nodes: list[Server], run: Run) -> None:
    code, said = run("apply", "plan", "--map", "map.yaml", "--confirm", "60")
    assert code == 0, said
    assert "4 values of 4 stations on 2 nodes changed and read back" in said
    assert [server.cells() for server in nodes] == [AFTER, AFTER]
    assert states() == {"pending"}
    assert nodes[0].cells("startup") == BEFORE

    code, said = run("confirm", "plan")  # by sessions of its own, as another process has them
    assert code == 0, said
    assert "4 values of 4 stations on 2 nodes: confirmed and read back." in said
    assert states() == {"confirmed"}
    nodes[0].start(fresh=False)  # it was saved for the next start, too
    assert [server.cells() for server in nodes] == [AFTER, AFTER]
    assert run("confirm", "plan")[0] == 0  # once more does no harm

    code, said = run("rollback", "plan")
    assert (code, "as before, and read back" in said) == (0, True)
    assert unchanged(nodes)
    assert states() == {"undone"}
    nodes[0].start(fresh=False)
    assert unchanged(nodes)


DYING = """
import os, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from kinband.counters import CounterMap
from kinband.deploy import Access, apply, items_of, read_orders
from kinband.deploy.node import Node

def committed_and_died(node, seconds, persist):
    commit(node, seconds, persist)
    os._exit(9)

def now():
    return datetime.now(UTC)

commit, Node.commit = Node.commit, committed_and_died
items = items_of(read_orders(Path("plan"), now=now(), max_age=timedelta(days=1)), CounterMap.read("map.yaml"))
only = [item for item in items if item.node == sys.argv[2]]
apply(only, Path("plan"), Access(ssh_config=sys.argv[1]), seconds=2, clock=now)
"""


def test_what_is_not_confirmed_is_undone_by_the_nodes_even_if_the_client_died(nodes: list[Server], run: Run) -> None:
    arguments = [sys.executable, "-c", DYING, str(nodes[0].ssh_config), nodes[0].name]
    died = subprocess.run(arguments, check=False)
    assert died.returncode == 9
    assert nodes[0].cells() == AFTER
    time.sleep(2.2)
    assert nodes[0].cells() == BEFORE
    code, said = run("confirm", "plan")
    assert code == 2, said
    assert f"{nodes[0].name} runs what it ran before: it has undone the change" in said
    assert "apply the plan again" in said
    assert states() == {"undone"}


def test_a_change_that_waits_is_cancelled_by_a_roll_back(nodes: list[Server], run: Run) -> None:
    assert run("apply", "plan", "--map", "map.yaml")[0] == 0
    code, said = run("rollback", "plan")
    assert code == 0, said
    assert unchanged(nodes)
    assert states() == {"undone"}
    code, said = run("confirm", "plan")
    assert (code, "was undone" in said) == (2, True)


def test_a_dry_run_compares_and_changes_nothing(nodes: list[Server], run: Run) -> None:
    code, said = run("apply", "plan", "--map", "map.yaml", "--dry-run", "--json")
    assert code == 0, said
    assert [change["after"] for change in json.loads(said)["changes"]] == ["38", "47"] * 2
    assert unchanged(nodes)
    assert not Path("plan/applied.csv").exists()


def test_a_plan_is_not_carried_out_twice(nodes: list[Server], run: Run) -> None:
    assert run("apply", "plan", "--map", "map.yaml")[0] == 0
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert (code, "was carried out" in said, "kinband rollback plan" in said) == (2, True, True)


def test_a_plan_in_waves_goes_out_wave_by_wave(nodes: list[Server], run: Run) -> None:
    plan = Path("plan/plan.csv")
    head, *rows = plan.read_text().splitlines()
    waves = ("1", "2", "held back", "2")  # 7-1, 7-2, 8-1, 8-2
    plan.write_text("\n".join([f"{head},wave", *(f"{row},{wave}" for row, wave in zip(rows, waves, strict=True))]))
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert (code, "name one of 1 to 2 with --wave" in said) == (2, True), said
    code, said = run("apply", "plan", "--map", "map.yaml", "--wave", "2")
    assert (code, "wave 1 of the plan in plan has not been carried out" in said) == (2, True), said
    assert unchanged(nodes)
    code, said = run("apply", "plan", "--map", "map.yaml", "--wave", "1", "--json")
    told, _ = json.JSONDecoder().raw_decode(said)  # a slow run says on standard error how far it is
    assert (code, told["wave"], told["files_written"]) == (0, 1, ["plan/wave-1/applied.csv"])
    assert (nodes[0].cells(), nodes[1].cells()) == ({1: AFTER[1], 2: BEFORE[2]}, BEFORE)
    assert run("confirm", "plan/wave-1")[0] == 0
    code, said = run("apply", "plan", "--map", "map.yaml", "--wave", "2")
    assert (code, "Confirm: kinband confirm plan/wave-2" in said) == (0, True), said
    assert (nodes[0].cells(), nodes[1].cells()) == (AFTER, {1: BEFORE[1], 2: AFTER[2]})
    assert run("rollback", "plan/wave-2")[0] == 0
    assert (nodes[0].cells(), nodes[1].cells()) == ({1: AFTER[1], 2: BEFORE[2]}, BEFORE)


# --- Refused before anything is sent --------------------------------------------------------------------------------


def test_a_node_that_has_changed_since_the_plan_is_refused(nodes: list[Server], run: Run) -> None:
    set_by_hand(nodes[1], 2, 41)
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert code == 2, said
    assert f"8-2 runs a2ThresholdRsrp=41 on {nodes[1].name}, the plan expects 45 (a2_threshold_dbm=-95)" in said
    assert "nothing was changed: it was changed since the plan was made: plan again" in said
    assert nodes[0].cells() == BEFORE
    assert not Path("plan/applied.csv").exists()


def set_by_hand(server: Server, cell: int, value: int) -> None:
    """Set a threshold as an engineer beside us does."""
    with server.session() as node:
        node.lock()
        node.edit({path_of(f"{server.number}-{cell}", "a2_threshold_dbm"): str(value)})
        node._session.commit()
        node.leave(discard=False)


def path_of(station: str, knob: str) -> Any:
    """Where a value is on its node."""
    orders = read_orders(Path("plan"), now=now(), max_age=timedelta(days=30))
    items = items_of(orders, CounterMap.read("map.yaml"))
    return next(item.path for item in items if (item.station, item.knob) == (station, knob))


def test_a_wrong_offset_is_caught_by_what_runs(nodes: list[Server], run: Run) -> None:
    Path("map.yaml").write_text(MAP.replace("unit: lte-rsrp", "unit: nr-rsrp"))
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert code == 2, said
    assert "all 4 values of a2_threshold_dbm differ by -16: is its unit in the mapping right?" in said
    assert unchanged(nodes)


def test_a_plan_of_last_week_is_refused(nodes: list[Server], run: Run) -> None:
    write_plan(made=now() - timedelta(days=8), folder="old")
    code, said = run("apply", "old", "--map", "map.yaml")
    assert (code, "the plan was made 8 days ago" in said, "--max-age" in said) == (2, True, True)
    assert run("apply", "old", "--map", "map.yaml", "--max-age", "9", "--dry-run")[0] == 0
    assert unchanged(nodes)


def test_a_node_that_cannot_be_reached_leaves_all_as_they_are(nodes: list[Server], run: Run) -> None:
    nodes[1].stop()
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert (code, f"{nodes[1].name} cannot be reached" in said, "nothing was changed" in said) == (2, True, True)
    assert nodes[0].cells() == BEFORE


def test_an_unknown_host_key_is_refused_with_what_to_do(nodes: list[Server], run: Run, tmp_path: Path) -> None:
    known, config = tmp_path / "known_hosts", tmp_path / "ssh_config"
    other = (nodes[0].folder / "user.pub").read_text()
    config.write_text(nodes[0].ssh_config.read_text().replace(str(nodes[0].folder / "known_hosts"), str(known)))
    for content in ("", f"[127.0.0.1]:{nodes[0].port} {other}"):  # not known, and known with another key
        known.write_text(content)
        code, said = run("apply", "plan", "--map", "map.yaml", "--ssh-config", str(config))
        assert code == 2, said
        assert "has a host key that is not known, or another than is known" in said
        assert f"ssh-keyscan -p {nodes[0].port} 127.0.0.1 >> ~/.ssh/known_hosts" in said
    assert unchanged(nodes)


def test_a_key_that_the_node_does_not_know_is_not_let_in(nodes: list[Server], run: Run, tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    text = nodes[0].ssh_config.read_text()
    config.write_text(text.replace(f"IdentityFile {nodes[0].folder}/user", f"IdentityFile {nodes[0].folder}/host"))
    code, said = run("apply", "plan", "--map", "map.yaml", "--ssh-config", str(config))
    assert (code, "does not let us in" in said, "nothing was changed" in said) == (2, True, True)


def test_a_locked_key_is_opened_by_a_password_that_is_seen_nowhere(
    nodes: list[Server], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, key, config = "opensesame", tmp_path / "key", tmp_path / "ssh_config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", word, "-f", key], check=True)
    with (nodes[0].folder / "user.pub").open("a") as known:
        known.write(key.with_suffix(".pub").read_text())
    text = nodes[0].ssh_config.read_text()
    config.write_text(text.replace(f"IdentityFile {nodes[0].folder}/user", f"IdentityFile {key}"))
    words = ("apply", "plan", "--map", "map.yaml", "--dry-run", "--ssh-config", str(config))
    assert run(*words)[0] == 2
    monkeypatch.setenv("KINBAND_NETCONF_PASSWORD", word)
    code, said = run(*words)
    assert code == 0, said
    assert word not in said


def test_a_node_without_a_candidate_is_refused(nodes: list[Server], run: Run) -> None:
    nodes[1].start(target="running")
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert (code, "has no candidate configuration" in said, "--bulk-cm" in said) == (2, True, True)
    assert unchanged(nodes)


def test_a_candidate_that_somebody_edits_is_left_to_them(nodes: list[Server], run: Run) -> None:
    with nodes[1].session() as other:
        other.lock()
        code, said = run("apply", "plan", "--map", "map.yaml")
    assert (code, f"{nodes[1].name} did not lock its candidate" in said) == (2, True)
    assert unchanged(nodes)


# --- Refused on the way ---------------------------------------------------------------------------------------------


def test_a_node_that_refuses_an_edit_leaves_all_as_they_are(nodes: list[Server], run: Run) -> None:
    write_plan(made=now(), last=-40, folder="wild")  # 100, and the node takes 0 to 97
    code, said = run("apply", "wild", "--map", "map.yaml")
    assert code == 2, said
    assert f"{nodes[1].name} did not accept the change (value not in range" in said
    assert "EUtranCellFDD[cells:id='2']" in said
    assert "nothing was changed" in said
    assert unchanged(nodes)
    assert not Path("wild/applied.csv").exists()
    with nodes[0].session() as other:  # no lock and no edit is left behind
        other.lock()
        assert nodes[0].cells("candidate") == BEFORE


def test_an_ok_that_changed_nothing_is_noticed_and_undone(
    nodes: list[Server], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = Node.edit

    def edit_and_validate(node: Node, values: Any) -> None:
        edit(node, values)
        if node.name == nodes[1].name:  # this server answers ok to a commit after it, and changes nothing
            node._session.validate("candidate")

    monkeypatch.setattr(Node, "edit", edit_and_validate)
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert code == 2, said
    assert f"{nodes[1].name} answered ok and runs a2ThresholdRsrp=40" in said
    assert "every node runs what it ran before" in said
    assert unchanged(nodes)
    assert states() == {"undone"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_node_that_dies_while_others_commit_has_all_undone(
    moment: str, nodes: list[Server], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Node.commit

    def dying(node: Node, seconds: int, persist: str) -> None:
        if node.name == nodes[1].name and moment == "before":
            nodes[1].stop()
        commit(node, seconds, persist)
        if node.name == nodes[1].name:
            nodes[1].stop()

    monkeypatch.setattr(Node, "commit", dying)
    code, said = run("apply", "plan", "--map", "map.yaml")
    assert code == 2, said
    assert f"{nodes[1].name} is gone and did not {'commit the change' if moment == 'before' else 'read'}" in said
    assert "nothing was changed" not in said
    assert f"{nodes[1].name} should undo it without us by" in said
    assert Receipt.read(Path("plan")).states == {nodes[0].name: "undone", nodes[1].name: "pending"}
    nodes[1].start(fresh=False)
    assert run("rollback", "plan")[0] == 0
    assert states() == {"undone"}
    assert unchanged(nodes)


# --- Before and after the confirmation ------------------------------------------------------------------------------


def test_a_node_that_dies_before_the_confirmation_has_nothing_confirmed(nodes: list[Server], run: Run) -> None:
    assert run("apply", "plan", "--map", "map.yaml")[0] == 0
    nodes[1].stop()
    code, said = run("confirm", "plan")
    assert (code, "cannot be reached" in said, "nothing was confirmed" in said) == (2, True, True)
    nodes[1].start(fresh=False)
    code, said = run("confirm", "plan")
    assert (code, f"{nodes[1].name} runs what it ran before" in said, "nothing was confirmed" in said) == (
        2,
        True,
        True,
    )
    assert "kinband rollback plan undoes it on the others" in said
    assert run("rollback", "plan")[0] == 0
    assert unchanged(nodes)


def test_edits_of_somebody_else_are_not_confirmed_along(nodes: list[Server], run: Run) -> None:
    assert run("apply", "plan", "--map", "map.yaml")[0] == 0
    with nodes[0].session() as other:
        other.edit({path_of("7-1", "hysteresis_db"): "9"})
        code, said = run("confirm", "plan")
        assert (code, f"{nodes[0].name} has edits of somebody else in its candidate" in said) == (2, True)
        other._session.discard_changes()
    assert run("confirm", "plan")[0] == 0
    assert states() == {"confirmed"}


def test_a_roll_back_leaves_alone_what_somebody_has_changed_since(nodes: list[Server], run: Run) -> None:
    assert run("apply", "plan", "--map", "map.yaml")[0] == 0
    assert run("confirm", "plan")[0] == 0
    set_by_hand(nodes[1], 2, 50)
    code, said = run("rollback", "plan")
    assert code == 2, said
    assert "8-2 runs a2ThresholdRsrp=50" in said
    assert "neither what the plan set (47) nor what it ran before (45)" in said
    assert [server.cells() for server in nodes] == [AFTER, {1: 38, 2: 50}]


# --- The record of the service --------------------------------------------------------------------------------------


def test_the_service_is_told_what_really_runs(
    nodes: list[Server], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ConfigurationSpace(a2_threshold_dbm=range(-110, -80), hysteresis_db=[1])
    present = {"a2_threshold_dbm": -100, "hysteresis_db": 1}
    made = Controller(space, ["7-1", "7-2", "8-1", "8-2"], state={"load": (0, 1)}, running=present, mean=0.7, noise=0.1)
    with http_service.served(tmp_path, made=made, rails="{}") as service:

        def client(url: str, token: str) -> KinbandClient:
            return KinbandClient(url, token, transport=service.transport())

        monkeypatch.setattr("kinband.service.client.KinbandClient", client)
        monkeypatch.setenv("KINBAND_TOKEN", service.texts["operator"])
        told = client("http://kinband.test", service.texts["operator"])
        told.ask({station: {"load": 0.5} for station in ("7-1", "7-2", "8-1")}, slot="one")
        assert run("apply", "plan", "--map", "map.yaml")[0] == 0
        code, said = run("confirm", "plan", "--service", "http://kinband.test")
        assert code == 2, said
        assert "the service does not know of 1 station, such as 8-2 (station 8-2 has no decision yet" in said
        told.ask({"8-2": {"load": 0.5}}, slot="two")
        code, said = run("confirm", "plan", "--service", "http://kinband.test")
        assert code == 0, said
        assert told.station("7-1").running == {"a2_threshold_dbm": -102, "hysteresis_db": 1}
        assert told.station("8-2").running == {"a2_threshold_dbm": -93, "hysteresis_db": 1}
        code, said = run("rollback", "plan", "--service", "http://kinband.test")
        assert code == 0, said
        assert told.station("8-2").running == {"a2_threshold_dbm": -95, "hysteresis_db": 1}
