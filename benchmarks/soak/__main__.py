"""The command behind `make soak`."""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from benchmarks.soak.plan import FULL, QUICK, do, line, table, tasks
from benchmarks.soak.results import Result


def main() -> None:
    """Do what was not done before, print the table, and end with 1 where there is an anomaly."""
    parser = argparse.ArgumentParser(description="Break services in every way and check what they promised.")
    parser.add_argument("--quick", action="store_true", help="five minutes instead of up to two hours")
    parser.add_argument("--folder", type=Path, help="where results are kept; out/soak, or out/soak-quick, if not given")
    parser.add_argument("--only", nargs="+", default=[], help="these faults alone, such as kill or flips")
    parser.add_argument("--sessions", type=int, help="so many of each fault on each store")
    parser.add_argument("--workers", type=int, default=2, help="sessions that run beside each other")
    parser.add_argument("--hours", type=float, default=2.0, help="after which nothing new is begun")
    given = parser.parse_args()
    folder = given.folder or Path("out/soak-quick" if given.quick else "out/soak")
    folder.mkdir(parents=True, exist_ok=True)
    size = QUICK if given.quick else FULL
    if given.sessions is not None:
        size = replace(size, sessions=dict.fromkeys(size.sessions, given.sessions))
    wanted = tasks(size, only=given.only)
    results = _done(wanted, folder, workers=given.workers, seconds=3600 * given.hours)
    print()
    print(*table(results), sep="\n")
    if any(one.anomalies for one in results):
        print(f"what they rest on is in {folder / 'anomalies'}")
        sys.exit(1)
    if len(results) < len(wanted):
        print(f"{len(wanted) - len(results)} of {len(wanted)} are not done yet: run the same command again to go on")
        sys.exit(2)


def _done(wanted: Sequence[object], folder: Path, *, workers: int, seconds: float) -> list[Result]:
    """Do tasks side by side until the time is over, and return what came of those that were done."""
    found, until = list[Result](), time.monotonic() + seconds
    with ProcessPoolExecutor(workers, initializer=warnings.simplefilter, initargs=("ignore",)) as pool:
        futures: list[Future[Result | None]] = [pool.submit(_in_time, task, folder, until) for task in wanted]
        for future in as_completed(futures):
            result = future.result()
            if result is not None:
                found.append(result)
                print(f"{len(found)} of {len(wanted)}: {line(result)}", flush=True)
    return found


def _in_time(task: object, folder: Path, until: float) -> Result | None:
    """Do a task if there is time for it; the stopwatch is that of the machine, so all processes agree on it."""
    return do(task, folder) if time.monotonic() < until else None  # type: ignore[arg-type]


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
