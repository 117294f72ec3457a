"""A fleet on a real Ray cluster of two nodes: the same decisions, and nothing lost or done twice when workers die."""

import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Decision
from kinband.errors import NotPositiveDefiniteError
from kinband.fleet import Fleet, FleetError, OnRay, shard_stations
from kinband.fleet.on_ray import join, reach
from kinband.kernels import RBF
from kinband.policies import Policy, Setting
from kinband.policies.ucb import UCB
from kinband.records import Observation, Samples

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
ROWS = 140  # more than a panel of the factor, so that solved columns are taken up again


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


def make(**changes: Any) -> Fleet:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(len(STATIONS), 2))
    K_Z = np.exp(-0.3 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    shards = shard_stations(K_Z, stations=STATIONS, size=4)
    options: dict[str, Any] = {"kernel": RBF(0.9, variance=0.37), "noise": 0.041, "mean": 0.58, "beta": 1.3, "seed": 77}
    return Fleet(SPACE, shards, state=["load", "users"], **(options | changes))


def ask(fleet: Fleet, number: int) -> dict[str, Decision]:
    rng = np.random.default_rng(number)
    return fleet.ask_all({s: dict(zip(("load", "users"), rng.normal(size=2).tolist(), strict=True)) for s in STATIONS})


def rewards(decisions: dict[str, Decision]) -> dict[str, float]:
    return {d.id: float(np.sin(d.arm + len(d.alternatives))) for d in decisions.values()}


def play(fleet: Fleet, rounds: int, *, first: int = 0) -> list[dict[str, Decision]]:
    played = []
    for number in range(first, first + rounds):
        played.append(ask(fleet, number))
        fleet.tell_all(rewards(played[-1]))
    return played


def waiting_in(method: str, folder: Path, *, times: int = 1) -> Callable[[Setting], Policy]:
    """Return a UCB of which, while there is a file `armed`, some worker halts inside a method and awaits its end.

    It is made of classes inside a function, so that Ray sends it as it stands to workers that have no tests.
    """

    def wait() -> None:
        calls = int(os.environ.get("CALLS_SO_FAR", "0")) + 1  # of this process; the class itself arrives anew each time
        os.environ["CALLS_SO_FAR"] = str(calls)
        if calls % 2 or not (folder / "armed").exists():  # another shard of the worker goes first
            return
        for turn in range(times):
            note, mine = folder / f"note-{os.getpid()}", folder / f"pid-{turn}"
            note.write_text(str(os.getpid()))
            try:
                os.link(note, mine)  # whole, and by one worker only
            except FileExistsError:
                continue
            time.sleep(60)

    class Waiting(UCB):
        def choose_round(self, queries: Any, rngs: Any) -> Any:
            if method == "choose_round":
                wait()
            return super().choose_round(queries, rngs)

        def learn(self, observation: Observation) -> None:
            if method == "learn":
                wait()
            super().learn(observation)

    return Waiting.build


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


def check_the_books(fleet: Fleet, played: list[dict[str, Decision]]) -> None:
    """No decision and no reward is lost or doubled."""
    ids = [decision.id for decided in played for decision in decided.values()]
    assert len(set(ids)) == len(ids) == len(played) * len(STATIONS)
    assert len(fleet) == len(ids)
    assert fleet.pending == []
    for decided in played:
        for decision_id, reward in rewards(decided).items():
            assert fleet.reward(decision_id) == reward


@pytest.mark.parametrize("method", ["choose_round", "learn"])
def test_a_worker_killed_in_the_middle_of_a_call_loses_and_doubles_nothing(
    address: str, tmp_path: Path, method: str
) -> None:
    here = make()
    with make(on=OnRay(address), policy=waiting_in(method, tmp_path)) as there:
        played = play(there, 2)
        thread = killer(tmp_path)
        played += play(there, 2, first=2)
        thread.join(timeout=1.0)
        assert not thread.is_alive(), "no worker was killed"
        played += play(there, 2, first=4)
        check_the_books(there, played)
        assert played == play(here, 6)  # bit for bit, scores and memos included
        there.save(tmp_path / "state")
    again = Fleet.load(tmp_path / "state", policy=waiting_in(method, tmp_path / "nowhere"))
    assert ask(again, 9) == ask(here, 9)


def test_a_worker_that_dies_again_and_again_is_an_error_and_leaves_everything_as_it_was(
    address: str, tmp_path: Path
) -> None:
    here = make()
    with make(on=OnRay(address, workers=1), policy=waiting_in("choose_round", tmp_path, times=3)) as there:
        played = play(there, 1)
        thread = killer(tmp_path, times=3)
        with pytest.raises(FleetError, match=r"died 3 times in one call .* nothing of the call was recorded"):
            ask(there, 1)
        thread.join(timeout=1.0)
        assert not thread.is_alive()
        check_the_books(there, played)
        there.save(tmp_path / "state", beliefs=False)
        assert len(Fleet.load(tmp_path / "state", policy=waiting_in("", tmp_path))) == len(STATIONS)
        played += play(there, 1, first=1)  # the next call works, with the same ids and decisions
        assert played == play(here, 2)


def test_a_long_log_gives_the_same_bits_here_and_there(address: str) -> None:
    rng = np.random.default_rng(5)
    parts = make().shards
    n = ROWS * len(parts)
    first = np.repeat(np.cumsum([0, *map(len, parts[:-1])]), ROWS)
    tasks = first + rng.integers(0, np.repeat([len(part) for part in parts], ROWS))
    stations = tuple(name for part in parts for name in part)
    features = ("load", "users", "threshold_dbm")
    log = Samples(stations, tasks, rng.normal(size=(n, 3)), rng.random(n), None, features)
    here = make(log=log)
    with make(log=log, on=OnRay(address, workers=2)) as there:
        assert play(there, 3) == play(here, 3)
        ids = there.stations[0], there.stations[-1]
        for station in ids:
            one, two = (fleet.ask(station, {"load": 0.3, "users": -0.2}) for fleet in (here, there))
            assert one == two
            for fleet in (here, there):
                fleet.tell(one.id, 0.2, noise=0.03)
                fleet.correct(one.id, 0.25)
        assert ask(here, 8) == ask(there, 8)


def test_errors_of_a_policy_arrive_as_they_are_and_record_nothing(address: str) -> None:
    def fragile(error: Exception) -> Callable[[Setting], Policy]:
        class Fragile(UCB):
            def learn(self, observation: Observation) -> None:
                raise error

        return Fragile.build

    for error in (NotPositiveDefiniteError("the matrix is lost"), ZeroDivisionError("a bug in a policy")):
        with make(on=OnRay(address, workers=1), policy=fragile(error)) as there:
            decided = ask(there, 0)
            with pytest.raises(type(error), match=str(error)) as caught:
                there.tell_all(rewards(decided))
            assert type(caught.value) is type(error)
            assert len(there) == 0
            assert sorted(there.pending) == sorted(d.id for d in decided.values())


def test_more_workers_than_the_cluster_can_hold_are_refused_in_time(address: str) -> None:
    with pytest.raises(FleetError, match=r"no room within 1 s .*give fewer workers"):
        make(on=OnRay(address, workers=4, patience=1.0))


@pytest.mark.parametrize("command", [["kinband", "reproduce", "synthetic"], ["benchmarks.speed", "fleet"]])
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
import numpy as np
from kinband import ConfigurationSpace
from kinband.fleet import Fleet, OnRay, shard_stations
shards = shard_stations(np.eye(2), stations=["a", "b"], size=1)
with Fleet(ConfigurationSpace(tilt=[2, 4]), shards, on=OnRay()) as fleet:
    print(sorted(decision.id for decision in fleet.ask_all({"a": {}, "b": {}}).values()))
import ray
print(ray.is_initialized())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['s000-d000001', 's001-d000001']\nFalse\n", "")


def test_a_cluster_that_is_not_there_is_a_sentence_within_seconds(tmp_path: Path) -> None:
    begun = time.monotonic()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(FleetError, match=rf"no Ray cluster answers at 127\.0\.0\.1:{port} "):
            reach(f"127.0.0.1:{port}", timeout=5.0)
        unused.listen()  # now something is there, but it is not Ray
        with pytest.raises(FleetError, match="no answer within 2 s"):
            reach(f"127.0.0.1:{port}", timeout=2.0)
    # Generous, and far below the minutes that Ray would wait.
    assert time.monotonic() - begun < 30.0
