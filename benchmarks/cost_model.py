"""What decisions cost in time and memory, fitted to measurements here, and what that means for a country.

Time of a decision (ask and tell) is fitted as a + b·n² for the exact posterior and a + b·m² for the sparse one, and so
is that of a round of 100 stations; memory is counted. The table says what networks of 10 thousand, 100 thousand and
a million stations would need with one decision per station and hour, in shards of 100.

Run it on an idle machine: OPENBLAS_NUM_THREADS=1 python -m benchmarks.cost_model
"""

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.speed.measure import STATE, controller_of
from kinband.controller import Controller
from kinband.controller.events import entry_to_dict
from kinband.posterior import INDUCING_POINTS, SWITCH_ROWS

SIZES = (1000, 2000, 3000, 4000)
BUDGETS = (128, 256, 384, 512)
SHARD = 100
HOUR, YEAR = 3600.0, 24 * 365
DECISIONS = 60


@dataclass(frozen=True)
class Law:
    """Seconds a + b·size²."""

    a: float
    b: float
    worst: float

    def __call__(self, size: float) -> float:
        """Return the seconds at a size."""
        return self.a + self.b * size**2

    def __str__(self) -> str:
        """Return the law in words."""
        return f"{1e3 * self.a:.2f} ms + {1e9 * self.b:.3f} ns x size^2 (off by {self.worst:.0%} at most)"


def fit(sizes: Sequence[int], seconds: Sequence[float]) -> Law:
    """Fit the law with relative errors weighed alike."""
    x, t = np.array(sizes, dtype=float) ** 2, np.array(seconds)
    A = np.column_stack([np.ones_like(x), x]) / t[:, None]
    (a, b), *_ = np.linalg.lstsq(A, np.ones_like(t), rcond=None)
    return Law(float(a), float(b), float(np.abs((a + b * x) / t - 1).max()))


def controller(*, engine: str, rows: int, inducing_points: int = INDUCING_POINTS) -> Controller:
    """Return a controller that knows so many rows."""
    return controller_of(
        np.random.default_rng(rows), structure=True, engine=engine, rows=rows, inducing_points=inducing_points
    )


def state(rng: np.random.Generator) -> dict[str, float]:
    """Return a random state."""
    return dict(zip(STATE, rng.standard_normal(len(STATE)).tolist(), strict=True))


def decision_time(control: Controller) -> float:
    """Return the median seconds of asking and telling."""
    rng, times = np.random.default_rng(1), []
    for t in range(DECISIONS):
        now = state(rng)
        begun = time.perf_counter()
        control.tell(control.ask(f"s{t % SHARD}", now).id, float(rng.normal(0.8, 0.1)))
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def round_time(control: Controller) -> float:
    """Return the seconds of a round of 100 stations, asked together and told one by one."""
    rng = np.random.default_rng(2)
    begun = time.perf_counter()
    decisions = control.ask_all({f"s{m}": state(rng) for m in range(SHARD)})
    for decision in decisions.values():
        control.tell(decision.id, float(rng.normal(0.8, 0.1)))
    return time.perf_counter() - begun


def bytes_per_decision() -> tuple[float, float]:
    """Return what a decision leaves in memory and in the log on disk."""
    control, rng = controller(engine="sparse", rows=200, inducing_points=8), np.random.default_rng(3)
    for t in range(1100):
        if t == 100:  # what grows by doubling has done so
            tracemalloc.start()
        control.tell(control.ask("s1", state(rng)).id, 0.8)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    on_disk = sum(len(json.dumps(entry_to_dict(entry))) for entry in list(control.journal)[-200:])
    return used / 1000, on_disk / 100


def main() -> None:
    """Measure, fit, predict."""
    exact = fit(SIZES, [decision_time(controller(engine="exact", rows=n)) for n in SIZES])
    exact_round = fit(SIZES, [round_time(controller(engine="exact", rows=n)) for n in SIZES])
    sparse_of = [controller(engine="sparse", rows=3000, inducing_points=m) for m in BUDGETS]
    sparse = fit(BUDGETS, [decision_time(control) for control in sparse_of])
    sparse_round = fit(BUDGETS, [round_time(control) for control in sparse_of])
    memory, disk = bytes_per_decision()
    print(f"one decision, exact, size n rows:    {exact}")
    print(f"one decision, sparse, size m points: {sparse}")
    print(f"round of {SHARD}, exact:  {exact_round}")
    print(f"round of {SHARD}, sparse: {sparse_round}")
    print(f"a decision leaves {memory:,.0f} bytes in memory and {disk:,.0f} on disk")
    print(f"memory of beliefs: exact 4 n^2 = {4e-6 * SWITCH_ROWS**2:,.0f} MB at {SWITCH_ROWS:,} rows;", end=" ")
    beliefs = 16 * INDUCING_POINTS**2 + 8 * INDUCING_POINTS * SHARD
    print(f"sparse 16 m^2 + 8 m M = {1e-6 * beliefs:.1f} MB at {INDUCING_POINTS} points")
    print(
        "\nstations  shards  exact at the switch: cores  GB     sparse: cores  GB     log a year: GB in memory, on disk"
    )
    for stations in (10_000, 100_000, 1_000_000):
        shards = stations // SHARD
        work = [
            shards * law(size) / HOUR for law, size in ((exact_round, SWITCH_ROWS), (sparse_round, INDUCING_POINTS))
        ]
        held = [shards * 4e-9 * SWITCH_ROWS**2, shards * 1e-9 * beliefs]
        log = [1e-9 * stations * YEAR * size for size in (memory, disk)]
        print(
            f"{stations:9,} {shards:7,} {work[0]:26.1f} {held[0]:6,.0f} {work[1]:14.2f} {held[1]:5.1f} "
            f"{log[0]:16,.0f} {log[1]:10,.0f}"
        )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
