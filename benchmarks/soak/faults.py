"""What is done to two hosts that share a ledger, one fault at a time; each leaves them as they were, and says so."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.pace import Pace, write_pace
from tests.support.service_faults import filled, hanging, limited, stopped
from tests.support.service_process import ServiceProcess

from benchmarks.soak.clients import Crowd, Sender
from benchmarks.soak.history import Watcher
from benchmarks.soak.synced import lose

FAR = (90.0, 600.0, 7200.0, 200_000.0)
"""Seconds of its own time by which a clock is stepped."""


@dataclass
class World:
    """Everything that can be broken.

    Attributes:
        hosts: The processes of the service.
        pace: How time passes.
        clocks: The file of each host's clock.
        crowd: Whose operations go on.
        admin: Sets clocks right.
        watcher: Looks at the ledger.
        rng: Draws what happens.
        server: Of PostgreSQL; None on SQLite.
        disk: A small disk that the ledger is on, if it is.
        places: Folders of the ledger's files and of what was synced of them, where that is kept.
        counts: How often what was done.
    """

    hosts: Sequence[ServiceProcess]
    pace: Pace
    clocks: Sequence[Path]
    crowd: Crowd
    admin: Sender
    watcher: Watcher
    rng: np.random.Generator
    server: Any = None
    disk: Path | None = None
    places: tuple[Path, Path] = (Path(), Path())
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, times: int = 1) -> None:
        """Note that something was done."""
        self.counts[what] = self.counts.get(what, 0) + times

    def some_time(self, least: float, most: float) -> None:
        """Wait for a while."""
        time.sleep(float(self.rng.uniform(least, most)))

    def pick(self) -> int:
        """Draw a host."""
        return int(self.rng.integers(len(self.hosts)))


def kill(world: World) -> None:
    """Kill -9 a host at work, start it again, and now and then kill that start too."""
    host = world.hosts[world.pick()]
    world.some_time(0, 0.1)
    host.kill()
    world.count("kill")
    if world.rng.random() < 0.3:
        host.spawn()
        world.some_time(0, 0.5)
        host.kill()
        world.count("kill")
        world.count("of these while starting")
    host.start()


def kill_server(world: World) -> None:
    """Kill -9 PostgreSQL with all that belongs to it, and start it again."""
    first = int(world.server.get_pid())
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    for process in (first, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    _gone(first)
    for lock in (world.server.pgdata / "postmaster.pid", *world.server.pgdata.glob(".s.PGSQL.*")):
        lock.unlink(missing_ok=True)  # or a dead process that nobody has buried counts as one that lives
    world.server.start()
    world.count("kill of PostgreSQL")
    for host in world.hosts:
        host.wait_ready()


def _gone(process: int) -> None:
    until = time.monotonic() + 20
    while Path(f"/proc/{process}").exists() and time.monotonic() < until:
        state = Path(f"/proc/{process}/stat")
        with suppress(OSError):
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        time.sleep(0.01)


def pause(world: World) -> None:
    """Stop one of the two in the midst of whatever it does, so that it goes on with what it believed long ago."""
    host = world.hosts[world.pick()]
    world.some_time(0, 0.3)
    os.kill(host.pid, signal.SIGSTOP)
    world.some_time(2.5, 4.5)
    os.kill(host.pid, signal.SIGCONT)
    world.count("pause")
    host.wait_ready()
    set_right(world)


def step(world: World) -> None:
    """Step one clock while its process runs, ahead or back, and put it right; now and then it starts while behind."""
    number, ahead = world.pick(), float(world.rng.choice(FAR)) * float(world.rng.choice([-1, 1]))
    write_pace(world.clocks[number], world.pace, ahead=ahead)
    world.some_time(1.0, 3.0)
    if ahead < 0 and world.rng.random() < 0.3:
        world.hosts[number].kill()
        world.hosts[number].start()
        world.count("kill")
        world.some_time(0.5, 1.5)
    write_pace(world.clocks[number], world.pace)
    world.count("clock step ahead" if ahead > 0 else "clock step back")
    world.some_time(0.2, 0.5)
    set_right(world)


def skew(world: World) -> None:
    """Set both clocks differently, within what is tolerated or one far behind, and kill one of the hosts."""
    small = world.rng.uniform(-25, 25, size=2)
    far = world.rng.random() < 0.4
    for number, clock in enumerate(world.clocks):
        ahead = -float(world.rng.choice(FAR)) if far and number == 1 else float(small[number])
        write_pace(clock, world.pace, ahead=ahead)
    kill(world)
    world.some_time(1.0, 3.0)
    world.count("skew")
    for clock in world.clocks:
        write_pace(clock, world.pace)
    set_right(world)


def set_right(world: World, *, seconds: float = 2.0) -> None:
    """Once all clocks are right, have an admin say so where a host still doubts after a while."""
    for number in range(len(world.hosts)):
        until = time.monotonic() + seconds
        while _doubt(world, number):
            if time.monotonic() > until:
                body, key = {"why": "looked at another clock"}, f"clock-{world.rng.integers(1 << 60):x}"
                world.admin.send("clock", "/v1/clock", body=body, key=key, host=number)
                world.count("clock set right by an admin")
                until = time.monotonic() + 20
            time.sleep(0.1)


def _doubt(world: World, number: int) -> Any:
    said = world.admin.get("/v1/mode", host=number)
    return said is not None and said["clock"]


def fill(world: World) -> None:
    """Leave no room for the ledger for a while."""
    with ExitStack() as stack:
        if world.disk is not None:
            stack.enter_context(filled(world.disk))
        else:
            for host in world.hosts:
                stack.enter_context(limited(host))
        world.some_time(1.0, 2.5)
    world.count("full disk")
    for host in world.hosts:
        host.wait_ready()


def lose_writes(world: World) -> None:
    """Kill everything as a loss of power does, and put back what was synced, or any mixture with what was not."""
    files, copies = world.places
    with world.watcher.away():
        for host in world.hosts:
            host.kill()
        mixing = world.rng if world.rng.random() < 0.5 else None
        for file in sorted(path for path in files.iterdir() if path.is_file()):
            if file.name.endswith("-shm"):
                file.unlink()  # it is in memory alone
            elif not file.name.endswith("-turn"):
                changed = lose(file, copies / file.name, rng=mixing)
                world.count("bytes taken back", changed)
        for host in world.hosts:
            host.start()
    world.count("loss of writes, nothing unsynced kept" if mixing is None else "loss of writes, any blocks kept")


def away(world: World) -> None:
    """Shut PostgreSQL down, or have it hang, and give it back."""
    if world.rng.random() < 0.5:
        with stopped(world.server):
            world.some_time(0.5, 1.5)
        world.count("PostgreSQL shut down")
    else:
        with hanging(world.server):
            world.some_time(1.0, 3.0)
        world.count("PostgreSQL hanging")
    for host in world.hosts:
        host.wait_ready()
    set_right(world)


Fault = Callable[[World], None]

FAULTS: Mapping[str, Fault] = {
    "kill": kill,
    "pause": pause,
    "clock": step,
    "skew": skew,
    "full": fill,
    "lost": lose_writes,
    "server": kill_server,
    "away": away,
}
