"""A year of 105 stations on two cores: what a restart, an ask, memory and disk come to with 3.7 million events.

    python -m benchmarks.year --folder out/year

Hour after hour every station has a decision with its 29 scores, a verdict, a change and a reward: four events, written
in bulk through the ledger's own writer and codec, and taken in by operations like those of another process, which
learn, take snapshots and archive old events as they do in service. A run that was ended goes on where it was. Then a
process of its own opens the ledger, decides for all, tells, looks an old decision up, and says what that took; another
verifies everything. Times beside other work are longer.
"""

import argparse
import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.service.problem import STATIONS
from benchmarks.stalls import SPACE, new_controller
from kinband.controller.events import Asked, Told, entry_to_dict
from kinband.controller.journal import id_of
from kinband.guardrails import Verdict
from kinband.records import Alternatives, Decision
from kinband.service.ledger import Draft, Ledger, replay
from kinband.service.operations import Operations
from kinband.service.operations.review import Reviewed, applied_note

HOUR, BEGAN = timedelta(hours=1), datetime(2026, 1, 1, tzinfo=UTC)
CONFIGURATIONS = [dict(configuration) for configuration in SPACE]
HOURS = 8_810
"""Four events of 105 stations each: 3.7 million."""

_AT_ONCE = 24  # hours of a bulk


def hour_of(number: int, operations: Operations) -> list[Draft]:
    """Return the events of an hour, drawn by its number."""
    rng, encoder = np.random.default_rng([1, number]), operations.setup.encoder
    names, at, load = operations.setup.stations, BEGAN + number * HOUR, round(float(rng.random()), 6)
    contexts, slot = encoder.contexts({"load": load}), at.isoformat()
    mean = 0.8 + 0.05 * rng.standard_normal((len(names), len(SPACE)))
    std = 0.02 + 0.01 * rng.random((len(names), len(SPACE)))
    first, known = number * len(names) + 1, number * len(names)
    decided, further = list[Draft](), list[Draft]()
    for task, name in enumerate(names):
        score, key = mean[task] + 0.5 * std[task], id_of(first + task)
        order = np.argsort(-score)
        rows = [(int(a), float(mean[task, a]), float(std[task, a]), float(score[a])) for a in order]
        arm, best, deviation, bound = rows[0]
        others = Alternatives(rows, CONFIGURATIONS)
        made = Decision(key, name, arm, CONFIGURATIONS[arm], best, deviation, bound, others, known, number)
        payload = {"entry": entry_to_dict(Asked(made, task, contexts[arm], {"load": load})), "asked": {"running": 14}}
        decided.append(Draft("decision", payload, name, key, number, slot))
        verdict = Verdict(name, "allowed", arm=arm, running=14, asked=arm, reason="no rail forbids it")
        note = Reviewed(made, verdict, "autonomous", "applied", arm).note(at)
        further.append(Draft("verdict", note, name, key))
        further.append(Draft("applied", applied_note(arm, 14, at, by="controller"), name, key))
        reward = float(np.clip(mean[task, arm] + 0.02 * rng.standard_normal(), 0.0, 1.0))
        further.append(Draft("outcome", {"entry": entry_to_dict(Told(key, reward, None))}, name, key))
    return [*decided, *further]


def write(file: Path, hours: int, points: int) -> None:
    """Write so many hours, going on where an earlier run ended."""
    now = [BEGAN]
    with closing(Ledger.open(file, clock=lambda: now[0])) as ledger:
        operations = Operations.open(ledger, new_controller(STATIONS, points), mode="autonomous", clock=lambda: now[0])
        begun = perf_counter()
        begins = range(len(operations.controller.journal.asked) // STATIONS, hours, _AT_ONCE)
        for bulk, first in enumerate(begins):
            some = range(first, min(first + _AT_ONCE, hours))
            for number in some:
                now[0] = BEGAN + number * HOUR
                ledger.append(hour_of(number, operations))
            operations.refresh()
            operations.controller  # noqa: B018 - takes in what is new
            if bulk % 10 == 0 or some[-1] == hours - 1:
                operations.turns.snapshot()
                seconds = perf_counter() - begun
                print(f"hour {some[-1] + 1:,} of {hours:,}: {ledger.head().seq:,} events, {seconds:.0f} s", flush=True)
        operations.turns.snapshot()


def memory() -> dict[str, float]:
    """Return what this process takes of memory now and took at most, in MB."""
    said = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {name: int(said[of].split()[0]) / 1000 for name, of in (("resident_MB", "VmRSS"), ("peak_MB", "VmHWM"))}


def measure(file: Path) -> dict[str, Any]:
    """Return what a restart takes, and what comes after it."""
    found: dict[str, Any] = {"imported": memory()}
    begun, used = perf_counter(), process_time()
    with closing(Ledger.open(file)) as ledger:
        operations = Operations.open(ledger, clock=lambda: BEGAN + (HOURS + 1000) * HOUR)
        found |= {"restart_s": perf_counter() - begun, "restart_cpu_s": process_time() - used}
        found |= {"events": ledger.head().seq, "after_start": memory()}
        asks, tells = list[float](), list[float]()
        for number in range(5):
            states = {name: {"load": 0.1 * number} for name in operations.setup.stations}
            begun = perf_counter()
            made = operations.ask(states)
            asks.append(perf_counter() - begun)
            begun = perf_counter()
            operations.tell({one.id: 0.8 for one in made})
            tells.append(perf_counter() - begun)
        begun = perf_counter()
        old = operations.decision(id_of(STATIONS * 24))
        found |= {"ask_105_s": asks, "tell_105_s": tells, "old_decision_s": perf_counter() - begun, "old": old.status}
        begun = perf_counter()
        operations.explain(old.id)
        found |= {"explain_old_s": perf_counter() - begun}
        begun = perf_counter()
        again = replay(ledger, made[0].id).same
        found |= {"replay_last_s": perf_counter() - begun, "replay_last_same": again}
        begun = perf_counter()
        operations.turns.snapshot()
        found |= {"snapshot_s": perf_counter() - begun, "at_the_end": memory()}
    return found


def verify(file: Path) -> dict[str, Any]:
    """Return what checking everything takes."""
    begun = perf_counter()
    with closing(Ledger.open(file, create=False)) as ledger:
        return {"verified": ledger.verify(), "verify_s": perf_counter() - begun, **memory()}


def disk(file: Path) -> dict[str, float]:
    """Return what the ledger takes on the disk, in MB."""
    of = {"database": [file], "wal": [file.with_name(f"{file.name}-wal")]}
    of |= {name: list(file.with_name(f"{file.name}-{name}").glob("*")) for name in ("archive", "snapshots")}
    return {name: sum(one.stat().st_size for one in some if one.exists()) / 1e6 for name, some in of.items()}


def main() -> None:
    """Write a year, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("out/year"), help="where the ledger is, or will be")
    parser.add_argument("--hours", type=int, default=HOURS, help="how many hours are written")
    parser.add_argument("--points", type=int, default=200, help="inducing points of the sparse posterior")
    parser.add_argument("--step", choices=["measure", "verify"], help="one step alone, in this process")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "ledger.db"
    if given.step:
        print(json.dumps({"measure": measure, "verify": verify}[given.step](file), indent=1))
        return
    write(file, given.hours, given.points)
    print(json.dumps({"disk_MB": disk(file)}, indent=1), flush=True)
    for step in ("measure", "verify"):
        again = [sys.executable, "-m", "benchmarks.year", "--folder", str(given.folder), "--step", step]
        subprocess.run(again, check=True)  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
