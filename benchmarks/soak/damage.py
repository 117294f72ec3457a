"""Files of a ledger are damaged, one at a time: single bits turned over, or cut off: who notices, and who does not?

A small ledger is led with all that answers rest on: decisions under keys and slots, rewards, people, rails, tokens, a
snapshot. Each damage is done to a copy. *Start* opens it as a service does, *verify* as `kinband ledger verify` does,
and *head* as that with `--expect`, which alone can notice that the end of the write-ahead log was cut off. Of damage
that none of them notices every answer is compared with that of the sound ledger: every event and every look-up by an
index, settings, tokens, beliefs and the next decision. One that differs is an anomaly.

On PostgreSQL the server is shut down, a bit of a file of the ledger's tables or indexes is turned over, and the server
is started again; from version 18 on, its pages have checksums of their own.

Run it with: python -m benchmarks.soak --only flips cuts
"""

import random
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from tests.support.ledger_stores import fresh_database, postgres_server

from benchmarks.soak.checker import Anomaly
from benchmarks.soak.results import Result
from kinband import ConfigurationSpace, Controller
from kinband.errors import KinbandError
from kinband.guardrails import rails_from_text
from kinband.service.access import Tokens
from kinband.service.ledger import Ledger
from kinband.service.ledger.archiving import archive_events
from kinband.service.ledger.events import KINDS, Head
from kinband.service.operations import Operations

STATIONS = ("a", "b", "c")
_SPACE = ConfigurationSpace(tilt=[2, 4, 7])
_RAILS = "knobs:\n  tilt: {max: 7}\n"
_NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
_SLOTS = 12


@dataclass(frozen=True)
class Damage:
    """What is tried.

    Attributes:
        fault: "flips" or "cuts".
        store: "sqlite" or "postgresql".
        times: How often.
    """

    fault: str
    store: str
    times: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.fault}-{self.store}-{self.times}"


@dataclass
class Noticed:
    """Who noticed.

    Attributes:
        first: How often who was the first to notice: "start", "verify", "head", or nobody, where "nothing changed".
        anomalies: Where damage changed an answer and nobody noticed: file, byte, and the bit where it was one.
    """

    first: Counter[str] = field(default_factory=Counter)
    anomalies: list[tuple[str | int, ...]] = field(default_factory=list)


def damaged(task: Damage) -> Result:
    """Do damage as often as is wanted, and count who notices."""
    found, begun = Result(task.name, task.fault, task.store), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-soak-") as folder:
        noticed = _TRIED[task.fault, task.store](Path(folder), times=task.times, seed=0)
    found.counts = {task.fault: task.times, **{f"noticed by {who}": n for who, n in sorted(noticed.first.items())}}
    if "noticed by nothing changed" in found.counts:
        found.counts["that changed nothing"] = found.counts.pop("noticed by nothing changed")
    found.anomalies = [asdict(Anomaly("damage is noticed", " ".join(map(str, one)))) for one in noticed.anomalies]
    found.seconds = round(time.monotonic() - begun, 1)
    return found


# --- SQLite --------------------------------------------------------------------------------------------------------


def flipped(folder: Path, *, times: int, seed: int) -> Noticed:
    """Flip so many bits of a ledger that is made in an empty folder, one at a time; nothing is in its log."""
    (folder / "sound").mkdir()
    with closing(Ledger.open(folder / "sound" / "ledger.db", clock=lambda: _NOW)) as ledger:
        _lead(ledger)
        archive_events(ledger, keep=30, size=30)
    with closing(sqlite3.connect(folder / "sound" / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return _tried(folder, _flip, times=times, seed=seed)


def cut(folder: Path, *, times: int, seed: int) -> Noticed:
    """Cut off the end of a file of a ledger so many times; half of it is in its write-ahead log."""
    (folder / "sound").mkdir()
    (folder / "led").mkdir()
    with closing(Ledger.open(folder / "led" / "ledger.db", clock=lambda: _NOW)) as ledger:
        _lead(ledger)
        for name in ("ledger.db", "ledger.db-wal"):
            shutil.copy(folder / "led" / name, folder / "sound" / name)
    return _tried(folder, _cut, times=times, seed=seed)


def _tried(folder: Path, act: Callable[[Path, random.Random], tuple[int, ...]], *, times: int, seed: int) -> Noticed:
    files = sorted(path for path in (folder / "sound").rglob("*") if path.stat().st_size and path.is_file())
    with _copied(folder) as copy:
        head, sound = _head(str(copy)), _answers(str(copy))  # which asks for one more decision
    found, draw = Noticed(), random.Random(seed)
    for _ in range(times):
        file = draw.choice(files)
        with _copied(folder) as copy:
            where = act(copy.parent / file.relative_to(folder / "sound"), draw)
            _judge(found, str(copy), sound, head=head, where=(file.name, *where))
    return found


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    shutil.copytree(folder / "sound", folder / "copy")
    try:
        yield folder / "copy" / "ledger.db"
    finally:
        shutil.rmtree(folder / "copy")


def _flip(file: Path, draw: random.Random) -> tuple[int, ...]:
    at, bit = draw.randrange(file.stat().st_size), draw.randrange(8)
    with file.open("r+b") as opened:
        opened.seek(at)
        [byte] = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 1 << bit]))
    return at, bit


def _cut(file: Path, draw: random.Random) -> tuple[int, ...]:
    at = draw.randrange(file.stat().st_size)
    with file.open("r+b") as opened:
        opened.truncate(at)
    return (at,)


# --- PostgreSQL ----------------------------------------------------------------------------------------------------


def flipped_on_postgresql(_folder: Path, *, times: int, seed: int) -> Noticed:
    """Flip so many bits of the files of a ledger's tables and indexes, one at a time."""
    found, draw = Noticed(), random.Random(seed)
    with postgres_server() as server:
        url = fresh_database(server)
        with closing(Ledger.open(url, clock=lambda: _NOW)) as ledger:
            _lead(ledger)
        files, sound, head = _files_of(url), _answers(url, asks=False), _head(url)
        server.stop()
        kept = {file: file.read_bytes() for file in files}
        for _ in range(times):
            [file] = draw.choices(files, weights=[len(kept[one]) for one in files])
            where = _flip(file, draw)
            server.start()
            _judge(found, url, sound, head=head, where=(file.name, *where), asks=False)
            server.stop()
            for name, data in kept.items():
                name.write_bytes(data)
        server.start()
    return found


def _files_of(url: str) -> list[Path]:
    """Return the files of all tables, indexes and large values of a ledger, written out."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM")
        connection.execute("CHECKPOINT")
        [[root]] = connection.execute("SHOW data_directory").fetchall()
        wanted = "relnamespace::regnamespace::text IN ('public', 'pg_toast') AND relkind IN ('r', 'i', 't')"
        mine = f"{wanted} AND oid >= 16384 AND pg_relation_size(oid) > 0"
        rows = connection.execute(f"SELECT pg_relation_filepath(oid) FROM pg_class WHERE {mine}".encode()).fetchall()  # noqa: S608
    return [Path(root) / name for [name] in rows]


_TRIED: dict[tuple[str, str], Callable[..., Noticed]] = {
    ("flips", "sqlite"): flipped,
    ("cuts", "sqlite"): cut,
    ("flips", "postgresql"): flipped_on_postgresql,
}


# --- Who notices, and whether an answer is another ----------------------------------------------------------------


def _judge(found: Noticed, url: str, sound: Any, *, head: Head, where: Sequence[str | int], asks: bool = True) -> None:
    """Say who notices first, and if nobody does, whether an answer is another."""
    checks: dict[str, Callable[[Ledger], object]] = {
        "start": _start,
        "verify": lambda ledger: ledger.verify(),
        "head": lambda ledger: ledger.verify(expect=head),
    }
    try:
        who = next((name for name, check in checks.items() if _refused(url, check)), None)
    except Exception as error:  # a traceback is no answer
        found.anomalies.append((*where, repr(error)))
        who = "a traceback"
    if who is None and _answers(url, asks=asks) != sound:
        found.anomalies.append(tuple(where))
    found.first[who or "nothing changed"] += 1


def _head(url: str) -> Head:
    with closing(Ledger.open(url, clock=lambda: _NOW)) as ledger:
        return ledger.head()


def _refused(url: str, act: Callable[[Ledger], object]) -> bool:
    try:
        with closing(Ledger.open(url, clock=lambda: _NOW)) as ledger:
            act(ledger)
    except KinbandError:
        return True
    return False


def _start(ledger: Ledger) -> None:
    """Start as a service does, without deciding anything."""
    _opened(ledger)
    Tokens(ledger).list()


def _opened(ledger: Ledger, start: Controller | None = None) -> Operations:
    rails = rails_from_text(_RAILS, _SPACE, stations=STATIONS)
    return Operations.open(
        ledger, start, rails=rails, rails_text=_RAILS, mode="autonomous", clock=lambda: _NOW, actor="service"
    )


def _lead(ledger: Ledger) -> None:
    rng = np.random.default_rng(3)
    controller = Controller(_SPACE, STATIONS, state=["load"], similarity="pooled", noise=0.1, seed=1)
    operations = _opened(ledger, controller)
    tokens = Tokens(ledger)
    tokens.create("nms", "operator", by="ann")
    tokens.create("old", "admin", by="ann")
    tokens.revoke("old", by="ann")
    for slot in range(_SLOTS):
        states = {station: {"load": float(rng.random())} for station in STATIONS}
        made = operations.ask(states, slot=f"slot {slot}", key=f"ask {slot}", actor="nms")
        told = {record.id: float(rng.random()) for record in made[: 2 + slot % 2]}
        operations.tell(told, key=f"tell {slot}", actor="nms")
        if slot == 8:
            operations.turns.snapshot()
        if slot == _SLOTS // 2 and ledger.engine.dialect.name == "sqlite":
            with closing(sqlite3.connect(ledger.name)) as connection:  # so that half of it is in the main file
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    operations.freeze("c", why="works on the mast", key="freeze", actor="ann")


def _answers(url: str, *, asks: bool = True) -> Any:
    """Return everything that a ledger answers, or what it says instead; `asks` records a further decision."""
    try:
        with closing(Ledger.open(url, clock=lambda: _NOW)) as ledger:
            events = list(ledger.read())
            looked = {name: _looked_up(ledger, name) for name in ("kinds", "station", "decision", "actor")}
            with ledger.writing() as writer:
                keys = {(e.kind, e.key): writer.keyed(e.kind, e.key) for e in events if e.key is not None}
                slots = {f"slot {slot}": writer.slots(STATIONS, f"slot {slot}") for slot in range(_SLOTS + 1)}
            records = Tokens(ledger).list()
            operations = _opened(ledger)
            with operations.looking() as read_model:
                seen = [repr(one) for one in (*read_model.decisions.values(), *read_model.stations.values())]
            considered = operations.controller.consider("a", {"load": 0.4}).score
            beliefs = None if considered is None else considered.round(9).tolist()
            made = operations.ask({"a": {"load": 0.4}}, slot="slot 99") if asks else []
            scores = [(one.decision.arm, round(one.decision.ucb or 0.0, 9), one.status) for one in made]
            return events, looked, keys, slots, records, seen, beliefs, scores
    except Exception as error:  # whatever it says, it is not the same answer
        return repr(error)


def _looked_up(ledger: Ledger, name: str) -> dict[str, list[int]]:
    values = {"kinds": KINDS, "station": STATIONS, "actor": ("", "ann", "nms")}.get(name)
    values = values or tuple(f"d{number:06d}" for number in range(1, 38))
    found: dict[str, list[int]] = {}
    for value in values:
        wanted: dict[str, Any] = {name: [value] if name == "kinds" else value}
        found[value] = [event.seq for event in ledger.read(**wanted)]
    return found
