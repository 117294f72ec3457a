"""From measurement files to a judged change, every step a command: counters, recommend, apply, impact.

The network is the simulated city, in files as operators have them: TS 32.435 measurements and a log of what was
configured. A trial evening makes a log and the log a plan; the plan goes out; two evenings later, one before the change
and one after it, stations that did not change say what it brought. Put your own files in place of the city's.

Run it: python examples/files_to_impact.py [FOLDER]
"""

import os
import sys
from datetime import datetime
from pathlib import Path

import numpy as np

from kinband import Trace
from kinband.cli import main as command
from kinband.environments.radio import KNOB, simulate_trace, write_network_files
from kinband.impact.changes import read_orders

STATIONS, SEED, MINUTES, SLOTS = 15, 1, 3, 40
HOURS = (17.0, 17.0 + SLOTS * MINUTES / 60)


def kinband(*words: str) -> None:
    """Run a command and show it."""
    print(f"\n$ kinband {' '.join(words)}", flush=True)
    if command(list(words)):
        raise SystemExit(f"kinband {words[0]} failed")


def make_a_plan() -> None:
    """An evening on which thresholds were tried at random, a log of it, and the four changes that promise most."""
    city = ["--stations", str(STATIONS), "--days", "1", "--period", str(MINUTES), "--seed", str(SEED)]
    hours = ["--first-hour", str(HOURS[0]), "--last-hour", str(HOURS[1])]
    files = ["--pm", "pm", "--cm", "cm.csv", "--map", "map.yaml", "--gzip"]
    kinband("simulate", "trials.parquet", *city, *hours, *files)
    kinband("counters", "pm", "--map", "map.yaml", "--cm", "cm.csv", "--out", "log.parquet")
    kinband("recommend", "log.parquet", "--max-changes", "4", "--out", "tonight", "--workers", "1")


def carry_out() -> None:
    """The plan as bulk CM files; with a node, `kinband apply tonight --map map.yaml --netconf HOST:830`."""
    kinband("apply", "tonight", "--map", "map.yaml", "--bulk-cm", "change.xml")


def judge() -> None:
    """A week later: an evening as it was, an evening with what was applied, and what that brought."""
    log = Trace.read("log.parquet")
    before = {str(name): int(value) for name, value in zip(log.station, log.configuration[KNOB], strict=True)}
    after = before | {order.station: int(order.set[KNOB]) for order in read_orders(Path("tonight"))}
    runs = np.array([[day[name] for name in sorted(day)] for day in (before, after)], dtype=np.float64)
    week_later = simulate_trace(
        STATIONS,
        days=2,
        hours=HOURS,
        period_minutes=MINUTES,
        seed=SEED + 1,
        layout_seed=SEED,
        thresholds=np.repeat(runs, SLOTS, axis=0),
        first_day=datetime(2024, 5, 20),
    )
    write_network_files(week_later, "pm-later", "cm-later.csv")
    kinband("counters", "pm-later", "--map", "map.yaml", "--cm", "cm-later.csv", "--out", "later.parquet")
    kinband("impact", "later.parquet", "--changes", "tonight", "--out", "impact")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/files-to-impact")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    make_a_plan()
    carry_out()
    judge()
