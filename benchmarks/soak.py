"""The long run: a service is killed a hundred times on each store, goes without its database, and carries a long load.

Every part checks what the tests check: nothing acknowledged is lost or doubled, chains of checksums hold, and the
record is that of an undisturbed service, event by event. The first that does not hold ends the run with its error. What
is printed at the end are the figures.

Run it with `make soak`, or in small: python -m benchmarks.soak --kills 10 --outage 3 --minutes 0.5
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.ledger_stores import fresh_database, postgres_server
from tests.support.service_crowd import Crowd, Witness, check_once, check_replay
from tests.support.service_faults import (
    Away,
    Killed,
    Trouble,
    go_without,
    hanging,
    kill_again_and_again,
    limited,
    locked,
    stopped,
)
from tests.support.service_process import Options, ServiceProcess, make_tokens, service

from kinband.service.ledger import Ledger

T = TypeVar("T")
CLIENTS = 8
NAMES = [f"{1000 + number}" for number in range(12)]
PAGES = ("/v1/stations", "/v1/decisions", "/v1/events", "/metrics", "/v1/export/decisions.csv", "/readyz")


def kill_sqlite(kills: int) -> Killed:
    """Kill a service on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        return kill_again_and_again(f"{folder}/ledger.db", Path(folder), kills=kills, seed=101)


def kill_postgresql(kills: int) -> Killed:
    """Kill a service on PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder, postgres_server() as server:
        return kill_again_and_again(fresh_database(server), Path(folder), kills=kills, seed=103)


def outages(seconds: float) -> dict[str, Away]:
    """Take the database away in every way."""
    found = {}
    with postgres_server() as server:
        troubles: dict[str, Trouble] = {
            "PostgreSQL shut down": lambda _: stopped(server),
            "PostgreSQL hanging": lambda _: hanging(server),
        }
        for name, away in troubles.items():
            with tempfile.TemporaryDirectory() as folder:
                options = Options(fresh_database(server), timeout=2.0)
                found[name] = go_without(options, Path(folder), away, seconds=seconds, seed=107)
    for name, away in {"SQLite locked": locked, "SQLite may not grow": limited}.items():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "disk").mkdir()
            options = Options(f"{folder}/disk/ledger.db", timeout=2.0)
            found[name] = go_without(options, Path(folder), away, seconds=seconds, seed=109)
    return found


def load(minutes: float) -> dict[str, str]:
    """Let two processes on one PostgreSQL carry a steady load, with somebody looking at everything meanwhile."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = fresh_database(stack.enter_context(postgres_server()))
        options = Options(url, names=NAMES, snapshot_every=500, rails="knobs: {tilt: {max: 8, step: 4}}")
        pair = [stack.enter_context(service(options, folder, name=f"{i}")) for i in range(2)]
        ledger, witness = stack.enter_context(closing(Ledger.open(url))), Witness(options, folder)
        tokens = make_tokens(url, {"nms": "operator", "nms-2": "operator", "look": "viewer"})
        over, times = threading.Event(), list[float]()
        looker = threading.Thread(target=look, args=(pair, tokens.pop("look"), over, times))
        bases = [lambda process=process: process.base for process in pair * (CLIENTS // 2)]
        with Crowd(bases, tokens, options, seed=113, pause=0.05) as crowd:
            crowd.wait_for(200)
            before = [used(process) for process in pair]
            looker.start()
            for _ in range(round(minutes * 60)):
                time.sleep(1)
                crowd.check()
            after = [used(process) for process in pair]
            crowd.end()
        over.set()
        looker.join()
        events = check_once(ledger, crowd.heard)
        witness.follow(ledger, crowd.heard.sent)
        witness.close()
        check_replay(ledger, sample=5, seed=113)
        answers = {str(status): number for status, number in sorted(crowd.heard.answers.items())}
        looks = np.quantile(times, [0.5, 0.99])
        return {
            "events": f"{events:,}",
            "answers by status": ", ".join(f"{status}: {number:,}" for status, number in answers.items()),
            "pages, p50 and p99": f"{1000 * looks[0]:.0f} ms, {1000 * looks[1]:.0f} ms of {len(times):,}",
            "memory, MB": ", ".join(f"{b[0]:.0f} to {a[0]:.0f}" for b, a in zip(before, after, strict=True)),
            "open files": ", ".join(f"{b[1]} to {a[1]}" for b, a in zip(before, after, strict=True)),
            "threads": ", ".join(f"{b[2]} to {a[2]}" for b, a in zip(before, after, strict=True)),
        }


def look(pair: list[ServiceProcess], token: str, over: threading.Event, times: list[float]) -> None:
    """Look at everything in turn, and note how long each took."""
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        while not over.is_set():
            for page in PAGES:
                for process in pair:
                    began = time.monotonic()
                    http.get(f"{process.base}{page}").raise_for_status()
                    times.append(time.monotonic() - began)
            time.sleep(0.5)


def used(process: ServiceProcess) -> tuple[float, int, int]:
    """Megabytes of memory, open files and threads of a service."""
    folder = Path(f"/proc/{process.pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024, len(list((folder / "fd").iterdir())), int(status["Threads"])


def killed_line(name: str, found: Killed) -> str:
    """Say what came of killing."""
    slow = float(np.quantile(found.recovery, 0.95))
    return (
        f"{name}: killed {found.kills} times at work and {found.early} times while starting; {found.acknowledged:,} "
        f"acknowledgements, {found.broken} answers lost, {found.events:,} events; nothing lost, nothing doubled, all "
        f"decided as if undisturbed; ready again after {statistics.median(found.recovery):.2f} s (median), "
        f"{slow:.2f} s (19 of 20), {max(found.recovery):.2f} s at most"
    )


def away_line(name: str, found: Away) -> str:
    """Say what came of a database that was away."""
    return (
        f"{name} for {found.seconds:.0f} s: {found.refused} requests refused with 503, the slowest after "
        f"{found.slowest:.1f} s, {found.unanswered} without an answer; /healthz {sorted(found.health)}, /readyz "
        f"{sorted(found.ready)}; ready {found.recovery:.2f} s after its return; {found.events:,} events, nothing lost, "
        "nothing doubled"
    )


def timed(what: str, act: Callable[[], T]) -> T:
    """Do something, and say how long it took."""
    began = time.monotonic()
    found = act()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def main() -> None:
    """Run everything and print the figures."""
    parser = argparse.ArgumentParser(description="Kill services, take their databases away, put them under load.")
    parser.add_argument("--kills", type=int, default=100, help="how often a service is killed on each store")
    parser.add_argument("--outage", type=float, default=10.0, help="for how many seconds a database is away")
    parser.add_argument("--minutes", type=float, default=3.0, help="for how many minutes two processes carry a load")
    given = parser.parse_args()

    def kills() -> list[Killed]:
        with ProcessPoolExecutor(2) as pool:  # a store a core
            both: list[Future[Killed]] = [pool.submit(part, given.kills) for part in (kill_sqlite, kill_postgresql)]
            return [one.result() for one in both]

    sqlite, postgresql = timed("kills", kills)
    away = timed("outages", lambda: outages(given.outage))
    carried = timed("load", lambda: load(given.minutes))
    print()
    for name, found in (("SQLite", sqlite), ("PostgreSQL", postgresql)):
        print(killed_line(name, found))
    print(*(away_line(name, one) for name, one in away.items()), sep="\n")
    print(f"load of {given.minutes:g} minutes on two processes and one PostgreSQL, {CLIENTS} clients:")
    print(*(f"  {name}: {figures}" for name, figures in carried.items()), sep="\n")


if __name__ == "__main__":
    main()
