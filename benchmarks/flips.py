"""Single bits of a ledger's files are turned over, one at a time: who notices, and whether an answer changes unnoticed.

A small ledger is led with all that answers rest on: decisions under keys and slots, rewards, people, rails, tokens, a
snapshot. Each flip is one bit of one file of a copy. *Start* opens it as a service does, *verify* as `kinband ledger
verify` does. Of a flip that neither notices every answer is compared with that of the sound ledger: every event and
every look-up by an index, settings, tokens, beliefs and the next decision. One that differs is an anomaly.

Run it with: python -m benchmarks.flips --flips 1000
"""

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kinband import ConfigurationSpace, Controller
from kinband.errors import KinbandError
from kinband.guardrails import rails_from_text
from kinband.service.access import Tokens
from kinband.service.ledger import Ledger
from kinband.service.ledger.events import KINDS
from kinband.service.operations import Operations

STATIONS = ("a", "b", "c")
_SPACE = ConfigurationSpace(tilt=[2, 4, 7])
_RAILS = "knobs:\n  tilt: {max: 7}\n"
_NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


@dataclass
class Flips:
    """What came of it.

    Attributes:
        noticed: How many flips who noticed first: "start", "verify", or nobody, where "nothing changed".
        unnoticed_at_start: How many of those that only verify noticed would have changed an answer.
        anomalies: Where a bit changed an answer and nobody noticed: file, byte, bit.
    """

    noticed: Counter[str] = field(default_factory=Counter)
    unnoticed_at_start: int = 0
    anomalies: list[tuple[str, int, int]] = field(default_factory=list)

    def __str__(self) -> str:
        """The figures in one line."""
        counts = ", ".join(f"{what} {count}" for what, count in sorted(self.noticed.items()))
        return f"{counts}; answers changed: past start {self.unnoticed_at_start}, past everybody {len(self.anomalies)}"


def flipped(folder: Path, *, flips: int, seed: int, tick: Callable[[int], object] = lambda _: None) -> Flips:
    """Flip so many bits of a ledger that is made in a folder, one at a time, and count who notices.

    Args:
        folder: An empty one.
        flips: How many.
        seed: Which.
        tick: Called with how many are done.
    """
    (folder / "sound").mkdir()
    _lead(folder / "sound" / "ledger.db")
    files = sorted(path for path in (folder / "sound").rglob("*") if path.is_file())
    with _copied(folder) as copy:
        sound = _answers(copy)
    found, draw = Flips(), random.Random(seed)
    for number in range(flips):
        [file] = draw.choices(files, weights=[path.stat().st_size for path in files])
        at, bit = draw.randrange(file.stat().st_size), draw.randrange(8)
        with _copied(folder) as copy:
            _flip(copy.parent / file.relative_to(folder / "sound"), at, bit)
            _judge(found, copy, sound, where=(file.name, at, bit))
        tick(number + 1)
    return found


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    shutil.copytree(folder / "sound", folder / "copy")
    try:
        yield folder / "copy" / "ledger.db"
    finally:
        shutil.rmtree(folder / "copy")


def _flip(file: Path, at: int, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << bit
    file.write_bytes(data)


def _judge(found: Flips, copy: Path, sound: Any, *, where: tuple[str, int, int]) -> None:
    """Say who notices, and if somebody does not, whether an answer is another."""
    started, verified = _refused(copy, _start), _refused(copy, lambda ledger: ledger.verify())
    changed = not started and _answers(copy) != sound
    found.unnoticed_at_start += changed and verified
    if changed and not verified:
        found.anomalies.append(where)
    found.noticed["start" if started else "verify" if verified else "nothing changed"] += 1


def _refused(file: Path, act: Callable[[Ledger], object]) -> bool:
    try:
        with closing(Ledger.open(file, clock=lambda: _NOW)) as ledger:
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


def _lead(file: Path) -> None:
    """Lead a ledger, and leave one file without a write-ahead log."""
    rng = np.random.default_rng(3)
    with closing(Ledger.open(file, clock=lambda: _NOW)) as ledger:
        controller = Controller(_SPACE, STATIONS, state=["load"], similarity="pooled", noise=0.1, seed=1)
        operations = _opened(ledger, controller)
        tokens = Tokens(ledger)
        tokens.create("nms", "operator", by="ann")
        tokens.create("old", "admin", by="ann")
        tokens.revoke("old", by="ann")
        for slot in range(12):
            states = {station: {"load": float(rng.random())} for station in STATIONS}
            made = operations.ask(states, slot=f"slot {slot}", key=f"ask {slot}", actor="nms")
            told = {record.id: float(rng.random()) for record in made[: 2 + slot % 2]}
            operations.tell(told, key=f"tell {slot}", actor="nms")
            if slot == 8:
                operations.turns.snapshot()
        operations.freeze("c", why="works on the mast", key="freeze", actor="ann")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _answers(file: Path) -> Any:
    """Return everything that a ledger answers, or what it says instead."""
    try:
        with closing(Ledger.open(file, clock=lambda: _NOW)) as ledger:
            events = list(ledger.read())
            looked = {name: _looked_up(ledger, name) for name in ("kinds", "station", "decision", "actor")}
            with ledger.writing() as writer:
                keys = {(e.kind, e.key): writer.keyed(e.kind, e.key) for e in events if e.key is not None}
                slots = {f"slot {slot}": writer.slots(STATIONS, f"slot {slot}") for slot in range(13)}
            records = Tokens(ledger).list()
            operations = _opened(ledger)
            with operations.looking() as read_model:
                seen = [repr(one) for one in (*read_model.decisions.values(), *read_model.stations.values())]
            made = operations.ask({"a": {"load": 0.4}}, slot="slot 99")
            scores = [(one.decision.arm, round(one.decision.ucb or 0.0, 9), one.status) for one in made]
            return events, looked, keys, slots, records, seen, scores
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


def main() -> None:
    """Flip, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    show = sys.stderr.isatty()
    with tempfile.TemporaryDirectory() as folder:
        tick = (lambda done: print(f"\r{done}", end="", file=sys.stderr)) if show else (lambda _: None)
        found = flipped(Path(folder), flips=given.flips, seed=given.seed, tick=tick)
    print(f"{given.flips} flips of one bit (seed {given.seed}): {found}")
    for where in found.anomalies:
        print("  unnoticed:", *where)
    sys.exit(bool(found.anomalies))


if __name__ == "__main__":
    main()
