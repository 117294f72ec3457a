"""What is done to services while clients go on, and what came of it in figures; tests and the soak share it."""

import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
from tests.support.service_crowd import Crowd, Later, Witness, check_once, check_replay
from tests.support.service_process import Options, ServiceProcess, make_tokens, service

from kinband.service.ledger import Ledger

CLIENTS = 4
Trouble = Callable[[ServiceProcess], AbstractContextManager[object]]
"""What takes the database away from a service for the time of a block."""


@dataclass
class Killed:
    """What came of killing a service again and again.

    Attributes:
        kills: How often it was killed while it served.
        early: How often it was killed while it started.
        recovery: Seconds from each start until it was ready, the program being loaded.
        acknowledged: Decisions and rewards that were acknowledged.
        broken: Requests that were under way when it was killed.
        events: Events on record at the end.
    """

    kills: int = 0
    early: int = 0
    recovery: list[float] = field(default_factory=list)
    acknowledged: int = 0
    broken: int = 0
    events: int = 0


def kill_again_and_again(url: str, folder: Path, *, kills: int, seed: int) -> Killed:
    """Kill -9 a service at random moments while clients ask and tell, and check everything after each start.

    Args:
        url: The ledger.
        folder: For what else is written.
        kills: How often.
        seed: Draws the moments.
    """
    options, rng, found = Options(url, seed=seed), np.random.default_rng(seed), Killed()
    with service(options, folder, start=False) as process:
        process.start()
        tokens = make_tokens(url, {"nms": "operator", "nms-2": "operator"})
        ledger, witness = Ledger.open(url), Witness(options, folder)
        with Crowd([lambda: process.base] * CLIENTS, tokens, options, seed=seed) as crowd:
            while found.kills < kills:
                crowd.wait_for(int(rng.integers(6, 40)))
                _kill_once(process, rng, found)
                heard = crowd.heard.copy()
                found.events = check_once(ledger, heard)
                witness.follow(ledger, crowd.heard.sent)
            crowd.wait_for(20)  # what is decided after the last start counts as well
            crowd.end()
        found.events = check_once(ledger, crowd.heard)
        witness.follow(ledger, crowd.heard.sent)
        check_replay(ledger, sample=4, seed=seed)
        found.acknowledged, found.broken = crowd.heard.acknowledged, crowd.heard.broken
        code = process.stop()
        assert code == 0, f"{code}: {process.log_text()[-2000:]}"
        witness.close()
        ledger.close()
    return found


def _kill_once(process: ServiceProcess, rng: np.random.Generator, found: Killed) -> None:
    """Kill a service in the midst of its work, start it again, and now and then kill that start as well."""
    time.sleep(float(rng.uniform(0, 0.03)))
    process.kill()
    found.kills += 1
    if rng.random() < 0.25:
        process.spawn()
        time.sleep(float(rng.uniform(0, 0.4)))
        process.kill()
        found.early += 1
    found.recovery.append(process.start())


@contextmanager
def stopped(server: Any) -> Iterator[None]:
    """PostgreSQL is shut down for a while."""
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def hanging(server: Any) -> Iterator[None]:
    """PostgreSQL takes connections and questions, and answers nothing."""
    first = int(server.get_pid())
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    processes = [first, *map(int, children)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):  # connections that were given up meanwhile
                os.kill(process, signal.SIGCONT)


@contextmanager
def locked(process: ServiceProcess) -> Iterator[None]:
    """Another process has the write lock of an SQLite file."""
    with closing(sqlite3.connect(process.options.url, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def limited(process: ServiceProcess) -> Iterator[None]:
    """The service may not let a file grow beyond what the largest of its ledger has."""
    largest = max(file.stat().st_size for file in Path(process.options.url).parent.iterdir())
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    yield
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def small_file_system(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, in a folder that exists, as root may mount it."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        raise PermissionError(mounted.stderr.decode().strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """A file system on which there is no room for a while."""
    ballast = folder / "ballast"
    taken = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(taken, b"x" * 4096):
            pass
    except OSError:
        pass  # full
    yield
    os.close(taken)
    ballast.unlink()


def database_on(server: Any, folder: Path) -> str:
    """The URL of a database whose files are in a folder; PostgreSQL's own log is elsewhere."""
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        found = connection.execute("SHOW data_directory").fetchone()
        assert found is not None
        owner, place = Path(found[0]).stat(), folder / "space"
        place.mkdir()
        os.chown(place, owner.st_uid, owner.st_gid)
        for above in (folder, place):
            above.chmod(0o755)
        connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'".encode())
        connection.execute("CREATE DATABASE room TABLESPACE small")
    return str(server.get_uri(database="room"))


def drop_database(server: Any) -> None:
    """Remove what `database_on` made."""
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("DROP DATABASE room WITH (FORCE)")
        connection.execute("DROP TABLESPACE small")


@dataclass
class Away:
    """What came of a database that was away for a while.

    Attributes:
        seconds: For how long it was.
        refused: Requests that were answered 503 meanwhile.
        slowest: Seconds until the slowest of these answers.
        unanswered: Requests that had no answer.
        health: Statuses of `/healthz` meanwhile.
        ready: Statuses of `/readyz` meanwhile.
        recovery: Seconds from its return until `/readyz` said so.
        events: Events on record at the end.
    """

    seconds: float
    refused: int = 0
    slowest: float = 0.0
    unanswered: int = 0
    health: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    recovery: float = 0.0
    events: int = 0


def go_without(
    options: Options,
    folder: Path,
    away: Trouble,
    *,
    seconds: float,
    seed: int,
) -> Away:
    """Take the database away from a service while clients go on, give it back, and check everything.

    It stays away until every client has heard of it, and for these seconds at least.

    Args:
        options: Of the service.
        folder: For what else is written.
        away: Takes the database away for the time of a block.
        seconds: For how long at least.
        seed: Draws who asks for whom.
    """
    found = Away(seconds)
    with service(options, folder) as process, closing(Ledger.open(options.url)) as ledger:
        tokens, witness = make_tokens(options.url, {"nms": "operator", "nms-2": "operator"}), Witness(options, folder)
        with Crowd([lambda: process.base] * CLIENTS, tokens, options, seed=seed) as crowd:
            crowd.wait_for(20)
            with away(process):
                _wait_without(process, crowd, found)
            found.recovery = process.wait_ready()
            crowd.wait_for(20)
            crowd.end()
        found.events = check_once(ledger, crowd.heard)
        witness.follow(ledger, crowd.heard.sent)
        witness.close()
        found.refused, found.slowest = len(crowd.heard.later), max(later.seconds for later in crowd.heard.later)
        found.unanswered = crowd.heard.broken + crowd.heard.shut
        for later in crowd.heard.later:
            check_problem(later, options)
        assert process.stop() == 0
        before, told, trace = process.log_text().partition("Traceback")
        assert not told, f"{before[-500:]}{told}{trace[:6000]}"
    return found


def _wait_without(process: ServiceProcess, crowd: Crowd, found: Away) -> None:
    """Wait until every client was refused, and look at the probes meanwhile."""
    began = time.monotonic()
    with httpx.Client(base_url=process.base, timeout=30) as http:
        while True:
            found.health.add(http.get("/healthz").status_code)
            found.ready.add(http.get("/readyz").status_code)
            gone, heard = time.monotonic() - began, {later.who for later in crowd.heard.later}
            if gone > found.seconds and len(heard) == CLIENTS:
                found.seconds = gone
                return
            assert gone < found.seconds + 20, f"only {sorted(heard)} of {CLIENTS} clients were answered"
            crowd.check()
            time.sleep(0.1)


def check_problem(later: Later, options: Options) -> None:
    """Check that an answer says what happened and when to come again, and nothing of the inside."""
    assert later.headers["content-type"] == "application/problem+json"
    assert later.headers["retry-after"].isdecimal()
    assert later.body["status"] == 503
    assert later.body["request_id"] == later.headers["x-request-id"]
    assert "send the same request again later" in later.body["detail"]
    assert not any(word in str(later.body) for word in (options.url, "ledger.db", "sqlite", "postgres"))
