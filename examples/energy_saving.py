"""Energy saved while users stay satisfied: at how little load the capacity carriers of each sector may sleep.

The network is the simulated city late in the evening, in files as operators have them; today no carrier sleeps. An
evening of trials makes a log and the log a plan, with a floor under the share of satisfied users; the plan goes out;
two evenings later, one before the change and one after it, stations that did not change say what it brought.

Run it: python examples/energy_saving.py [FOLDER]
"""

import os
import shlex
import sys
from datetime import datetime
from pathlib import Path

import numpy as np

from kinband import Trace
from kinband.cli import main as command
from kinband.environments.radio import SLEEP_KNOB, EnergySaving, Parameters, simulate_trace, write_network_files
from kinband.impact.changes import read_orders

STATIONS, SEED, MINUTES, SLOTS = 21, 3, 4, 30
HOURS, USERS = (21.5, 21.5 + SLOTS * MINUTES / 60), "satisfied_users"


def kinband(*words: str) -> None:
    """Run a command and show it."""
    print(f"\n$ kinband {shlex.join(words)}", flush=True)
    if command(list(words)):
        raise SystemExit(f"kinband {words[0]} failed")


def change() -> None:
    """Carry out what saves most and keeps the floor, by an evening on which thresholds were tried at random."""
    city = ["--stations", str(STATIONS), "--days", "1", "--period", str(MINUTES), "--seed", str(SEED)]
    city += ["--first-hour", str(HOURS[0]), "--last-hour", str(HOURS[1])]
    kinband("simulate", "trials.parquet", "--energy", *city, "--pm", "pm", "--cm", "cm.csv", "--map", "map.yaml")
    kinband("counters", "pm", "--map", "map.yaml", "--cm", "cm.csv", "--out", "log.parquet")
    rows = [f"{station},0\n" for station in Trace.read("log.parquet").stations]
    Path("now.csv").write_text(f"station,{SLEEP_KNOB}\n{''.join(rows)}", encoding="utf-8")
    what = ["--now", "now.csv", "--floor", f"{USERS} >= 0.95", "--max-changes", "8", "--out", "tonight"]
    kinband("recommend", "log.parquet", *what, "--workers", "1")
    kinband("apply", "tonight", "--map", "map.yaml", "--bulk-cm", "change.xml")  # or --netconf HOST:830


def judge() -> None:
    """A week later: an evening without sleep, an evening with what was applied, and what that brought."""
    orders = {order.station: float(order.set[SLEEP_KNOB]) for order in read_orders(Path("tonight"))}
    after = [orders.get(station, 0.0) for station in sorted(Trace.read("log.parquet").stations)]
    week_later = simulate_trace(
        STATIONS,
        days=2,
        hours=HOURS,
        period_minutes=MINUTES,
        seed=SEED + 1,
        layout_seed=SEED,
        parameters=Parameters(saving=EnergySaving()),
        thresholds=np.repeat([np.zeros(STATIONS), after], SLOTS, axis=0),
        first_day=datetime(2024, 5, 20),
    )
    write_network_files(week_later, "pm-later", "cm-later.csv")
    kinband("counters", "pm-later", "--map", "map.yaml", "--cm", "cm-later.csv", "--out", "later.parquet")
    kinband("impact", "later.parquet", "--changes", "tonight", "--kpi", USERS, "--out", "impact")
    log, later = week_later.trace, np.arange(len(week_later.trace)) >= STATIONS * SLOTS
    stayed = ~np.isin(log.station, list(orders))
    for what, of in {"Energy taken": 1 - log.reward, "Satisfied users where nothing changed": log.kpis[USERS]}.items():
        shares = [of[on & (stayed | (what == "Energy taken"))].mean() for on in (~later, later)]
        print(f"{what}: {shares[0]:.1%}, then {shares[1]:.1%}")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/energy-saving")
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    change()
    judge()
