"""Shards on a real Ray cluster of two nodes: the same decisions, and nothing lost or done twice when workers die."""

import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Decision
from kinband.cluster import ClusterError, OnRay, join, reach
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import RBF
from kinband.posterior import make_posterior
from kinband.records import Samples, same_decision
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: pip install 'kinband[ray]'")

# What Ray itself leaves open when processes come and go.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
]

SPACE = ConfigurationSpace(threshold_dbm=range(-112, -83))
STATIONS = [f"st{m:02d}" for m in range(14)]
SCALE = 0.37**0.5


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes with one processor each, joined by this process."""
    store = 80 * 2**20
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": store}
    cluster = importlib.import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=store)
    leave = join(cluster.address, processors=1, timeout=60.0)
    yield cluster.address
    leave()
    cluster.shutdown()


def make(**changes: Any) -> Controller:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(len(STATIONS), 2))
    K_Z = np.exp(-0.3 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    options: dict[str, Any] = {"kernel": RBF(0.9, variance=0.37), "noise": 0.041, "mean": 0.58, "beta": 1.3, "seed": 77}
    return Controller(
        SPACE, STATIONS, state=["load", "users"], similarity=K_Z, shards=4, **(options | changes)
    )  # fmt: skip


def ask(controller: Controller, number: int) -> dict[str, Decision]:
    rng = np.random.default_rng(number)
    states = {s: dict(zip(("load", "users"), rng.normal(size=2).tolist(), strict=True)) for s in STATIONS}
    return controller.ask_all(states)


def rewards(decisions: dict[str, Decision]) -> dict[str, float]:
    return {d.id: float(np.sin(d.arm + len(d.alternatives))) for d in decisions.values()}


def play(controller: Controller, rounds: int, *, first: int = 0) -> list[Decision]:
    played: list[Decision] = []
    for number in range(first, first + rounds):
        decided = ask(controller, number)
        controller.tell_all(rewards(decided))
        played += decided.values()
    return played


def assert_same(one: list[Decision], other: list[Decision]) -> None:
    assert [d.id for d in one] == [d.id for d in other]
    assert [d.arm for d in one] == [d.arm for d in other]
    assert all(same_decision(a, b, spread=SCALE) for a, b in zip(one, other, strict=True))


def waiting(folder: Path, *, times: int = 1) -> Any:
    """Return a kernel with which, while there is a file `armed`, a worker halts in the middle of a call.

    It is a class inside a function, so that Ray sends it as it stands to workers that have no tests.
    """
    driver = os.getpid()

    class Waiting(RBF):
        def __call__(self, A: Any, B: Any) -> Any:
            for turn in range(times if os.getpid() != driver and (folder / "armed").exists() else 0):
                note, mine = folder / f"note-{os.getpid()}", folder / f"pid-{turn}"
                note.write_text(str(os.getpid()))
                try:
                    os.link(note, mine)  # whole, and by one worker only
                except FileExistsError:
                    continue
                time.sleep(60)
            return super().__call__(A, B)

    return Waiting(0.9, variance=0.37)


def killer(folder: Path, *, times: int = 1) -> threading.Thread:
    """Start what kills, from outside, every worker that reports to be in the middle of its work."""
    (folder / "armed").touch()

    def kill() -> None:
        for turn in range(times):
            while not (folder / f"pid-{turn}").exists():
                time.sleep(0.02)
            os.kill(int((folder / f"pid-{turn}").read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("killed_in", ["asking", "telling"])
def test_a_worker_killed_in_the_middle_of_a_call_loses_and_doubles_nothing(
    address: str, tmp_path: Path, killed_in: str
) -> None:
    here = make()
    with OnRay(address) as cluster:
        there = make(on=cluster, kernel=waiting(tmp_path))
        played = play(there, 2)
        if killed_in == "asking":
            thread = killer(tmp_path)
            played += play(there, 1, first=2)
        else:
            decided = ask(there, 2)
            thread = killer(tmp_path)
            there.tell_all(rewards(decided))
            played += decided.values()
        thread.join(timeout=1.0)
        assert not thread.is_alive(), "no worker was killed"
        played += play(there, 2, first=3)
        assert (len(there), there.pending) == (len(played), [])
        assert_same(played, play(here, 5))


def test_a_worker_that_dies_again_and_again_is_an_error_and_leaves_everything_as_it_was(
    address: str, tmp_path: Path
) -> None:
    here = make()
    with OnRay(address, workers=1) as cluster:
        there = make(on=cluster, kernel=waiting(tmp_path, times=3))
        played = play(there, 1)
        thread = killer(tmp_path, times=3)
        with pytest.raises(ClusterError, match=r"died 3 times in one call .* nothing of the call counts"):
            ask(there, 1)
        thread.join(timeout=1.0)
        assert not thread.is_alive()
        assert len(there.journal) == 2 * len(STATIONS)
        assert_same(played + play(there, 1, first=1), play(here, 2))  # the next call works, with the same ids


def test_a_life_there_is_a_life_here(address: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    features = ("load", "users", "threshold_dbm")
    log = Samples(tuple(STATIONS), rng.integers(0, 14, 300), rng.normal(size=(300, 3)), rng.random(300), None, features)
    here, state = make(log=log), {"load": 0.3, "users": -0.2}
    with OnRay(address, workers=2) as cluster:
        there = make(log=log, on=cluster)
        assert_same(play(there, 2), play(here, 2))
        for controller in (here, there):
            one = controller.ask("st03", state)
            controller.tell(one.id, 0.2, noise=0.03)
            controller.correct(one.id, 0.25)
            controller.add_station("new", similarity={"st03": 0.8})
            controller.tell(controller.ask("new", state).id, 0.4)
        assert_same(play(there, 1, first=2), play(here, 1, first=2))
        there.save(tmp_path / "state")  # what ran there yesterday runs here today, and the other way round
        again = Controller.load(tmp_path / "state")
        back = Controller.load(tmp_path / "state", on=cluster)
        assert_same([again.ask("new", state)], [here.ask("new", state)])
        assert_same(play(back, 1, first=3), play(Controller.load(tmp_path / "state"), 1, first=3))


def test_a_ledger_goes_on_there_and_comes_back(address: str, tmp_path: Path) -> None:
    states = {s: {"load": 0.1 * m, "users": -0.1 * m} for m, s in enumerate(STATIONS)}
    with closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        with OnRay(address, workers=2) as cluster:
            there = Operations.open(ledger, make(), mode="autonomous", on=cluster, snapshot_every=10)
            for slot in ("1", "2"):
                made = there.ask(states, slot=slot)
                there.tell({one.id: 0.1 * one.decision.arm for one in made})
        here, again = Operations.open(ledger), make()
        for _ in range(2):
            decided = again.ask_all(states)
            again.tell_all({one.id: 0.1 * one.arm for one in decided.values()})
        decided = again.ask_all(states)
        assert_same([one.decision for one in here.ask(states, slot="3")], list(decided.values()))


@pytest.mark.parametrize("options", [{"policy": "thompson"}, {"options": {"rounds": "aware"}}, {"engine": "sparse"}])
def test_whatever_asks_for_covariances_or_keeps_no_rows_works_there_too(address: str, options: dict[str, Any]) -> None:
    with OnRay(address, workers=2) as cluster:
        assert_same(play(make(on=cluster, **options), 3), play(make(**options), 3))


def test_an_error_in_a_worker_arrives_as_it_is_and_leaves_beliefs_as_they_were(address: str) -> None:
    with OnRay(address, workers=1) as cluster:
        posterior = make_posterior(RBF(0.9), np.eye(2), noise=1e-30, on=cluster)
        posterior.update([0, 1], [[0.5], [0.5]], [0.1, 0.2])
        before = posterior.predict([0, 1], [[0.4], [0.4]])
        with pytest.raises(NotPositiveDefiniteError, match="no longer positive definite"):
            posterior.update([0, 1], [[0.7], [0.5]], [0.3, 0.2])  # task 0 can learn its row, task 1 cannot
        after = posterior.predict([0, 1], [[0.4], [0.4]])
        np.testing.assert_allclose((after.mean, after.std), (before.mean, before.std))
        assert len(posterior) == 2


def test_more_workers_than_the_cluster_can_hold_are_refused_in_time(address: str) -> None:
    with pytest.raises(ClusterError, match=r"no room within 1 s .*give fewer workers"):
        make(on=OnRay(address, workers=4, patience=1.0)).ask("st00", {"load": 0.0, "users": 0.0})


@pytest.mark.parametrize("command", [["kinband", "reproduce", "synthetic"], ["benchmarks.speed", "shards"]])
def test_commands_say_when_no_cluster_answers(command: list[str], tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
        call = [sys.executable, "-m", *command, "--quick", "--ray", nowhere, "--out", str(tmp_path)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"no Ray cluster answers at {nowhere}" in done.stderr


def test_a_cluster_of_its_own_starts_works_and_ends_in_silence() -> None:
    code = """
from kinband import ConfigurationSpace, Controller
from kinband.cluster import OnRay
with OnRay() as cluster:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], shards=1, on=cluster)
    print(sorted(decision.id for decision in controller.ask_all({"a": {}, "b": {}}).values()))
import ray
print(ray.is_initialized())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['d000001', 'd000002']\nFalse\n", "")


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"Ray is not installed: pip install 'kinband\[ray\]'"):
        make(on=OnRay()).ask("st00", {"load": 0.0, "users": 0.0})


def test_a_cluster_that_refuses_the_token_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: ...\nConnectionError: Failed to connect"
    monkeypatch.setattr("kinband.cluster._TRY", f"import sys; sys.exit({refused!r})")  # what Ray 2.60 writes
    with socket.create_server(("127.0.0.1", 0)) as head, pytest.raises(ClusterError, match="its token is missing"):
        reach(f"127.0.0.1:{head.getsockname()[1]}", timeout=20.0)


def test_a_cluster_that_is_not_there_is_a_sentence_within_seconds(tmp_path: Path) -> None:
    begun = time.monotonic()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ClusterError, match=rf"no Ray cluster answers at 127\.0\.0\.1:{port} "):
            reach(f"127.0.0.1:{port}", timeout=5.0)
        unused.listen()  # now something is there, but it is not Ray
        with pytest.raises(ClusterError, match="no answer within 2 s"):
            reach(f"127.0.0.1:{port}", timeout=2.0)
    # Generous, and far below the minutes that Ray would wait.
    assert time.monotonic() - begun < 30.0
