"""The short lives of services whose ledgers must open and go on: rails, modes, approvals, newcomers, a stop."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.golden.cases import BEGUN, MAKE, SPACE, STATIONS, TODAY, load_at, reward_of

from kinband.errors import ConflictError
from kinband.guardrails import rails_from_text
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

RAILS = "knobs:\n  tilt: {max: 6, step: 4}\nchanges:\n  min_time: 1h\n"
LEDGERS = ("plain", "default", "budget", "kpis", "newcomers", "sparse")
"""Runs of `cases` that are also led as a service."""

FIRST, THEN = 8, 4
"""Rounds before a ledger is kept, and rounds in which it has to go on."""


class Clock:
    """An hour a round."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 2, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def opened(ledger: Ledger, name: str, clock: Clock, *, new: bool) -> Operations:
    """Operations on a ledger, new or once more."""
    rails = rails_from_text(RAILS, SPACE, stations=STATIONS)
    start = MAKE[name]() if new else None
    return Operations.open(
        ledger,
        start,
        rails=rails,
        rails_text=RAILS,
        mode="autonomous",
        clock=clock,
        snapshot_every=25 if name == "plain" else 1000,
    )


def round_of(operations: Operations, name: str, number: int, clock: Clock) -> list[dict[str, Any]]:
    """Ask for all stations, report, and tell; what was decided in plain values."""
    clock.now = datetime(2026, 3, 2, 8, tzinfo=UTC) + timedelta(hours=number)
    present = operations.controller.stations
    states = {station: {"load": load_at(9 * number + i)} for i, station in enumerate(present)}
    when: dict[str, Any] = {"time": BEGUN + timedelta(hours=number)} if name == "newcomers" else {}
    running: dict[str, Any] = (
        {} if number or name in ("budget", "kpis", "newcomers") else {"running": dict.fromkeys(present, TODAY)}
    )
    items = operations.ask(states, slot=f"slot {number}", key=f"ask {number}", actor="clock", **when, **running)
    told: dict[str, Any] = {}
    for i, item in enumerate(items):
        configuration = dict(SPACE[item.ordered if item.ordered is not None else item.decision.arm])
        good = reward_of(i % 4, states[item.station]["load"], configuration, 9 * number + i)
        told[item.id] = {"good": good, "kept": 0.98} if name == "kpis" else good
    waiting = [item.id for item in items if item.status == "waiting"]
    if waiting and number % 2:
        operations.approve(waiting, comment="fine", actor="ann")
    elif waiting:
        operations.reject(waiting, comment="not now", actor="ann")
    operations.tell(**{"kpis" if name == "kpis" else "rewards": told}, key=f"tell {number}", actor="clock")
    decided = []
    for item in map(operations.decision, told):
        scored = sorted([a.arm, a.mean, a.std, a.ucb] for a in item.decision.alternatives)
        seen = {"id": item.id, "station": item.station, "arm": item.arm, "ordered": item.ordered, "status": item.status}
        decided.append(seen | {"scored": scored})
    return decided


def lead(file: Path, name: str, *, keep: Callable[[Path], object]) -> list[dict[str, Any]]:
    """Write the ledger of a life, let it be kept, and return what it decides when it goes on."""
    clock, ledger = Clock(), Ledger.open(file)
    operations = opened(ledger, name, clock, new=True)
    for number in range(FIRST):
        round_of(operations, name, number, clock)
        if number == 1:
            operations.set_mode("assist", stations=["b"], comment="b waits for a person", actor="ann")
        if number == 2:
            operations.freeze("c", why="works on the mast", actor="ann")
        if number == 3:
            operations.thaw("c", why="done", actor="ann")
            with suppress(ConflictError):  # where a budget has not let it change
                operations.roll_back("a", comment="back to where it was", actor="ann")
        if number == 4:
            operations.stop(why="a look", actor="ann")
            operations.resume(why="all is well", actor="ann")
        if number == 5 and name == "newcomers":
            operations.add_station("e", {"x_m": 250.0, "land": "city"}, running=TODAY, actor="ann")
    ledger.close()
    keep(file)
    return go_on(file, name)


def go_on(file: Path, name: str) -> list[dict[str, Any]]:
    """Open a ledger once more, and return what is decided in it; the file is changed."""
    clock, ledger = Clock(), Ledger.open(file)
    operations = opened(ledger, name, clock, new=False)
    decided = [made for number in range(FIRST, FIRST + THEN) for made in round_of(operations, name, number, clock)]
    ledger.close()
    return decided
