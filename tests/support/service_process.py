"""A service in a process of its own, for tests: started, asked whether it is ready, stopped, killed, started again.

What is started does what `kinband serve` does, with a small network, a choice of limits and a choice of patience.
`python -m tests.support.service_process` is its nurse: a process that has loaded the program and forks, so that a start
costs milliseconds and a service can be killed a hundred times. The nurse ends with its input, and the service with it:
nothing is left behind by tests that were broken off.
"""

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import httpx
import numpy as np
from tests.support.pace import read_pace

from kinband import ConfigurationSpace, Controller
from kinband.guardrails import rails_from_text
from kinband.service import running
from kinband.service.access import Limiter, Role, Tokens
from kinband.service.api import Limits
from kinband.service.ledger import Ledger
from kinband.service.operations import Mode, Operations
from kinband.service.schemas import Manner
from kinband.service.starting import setup_on_record

ROOT = Path(__file__).parents[2]
STATIONS = ["3714", "3715", "=1217"]
"""Names of the small network; a spreadsheet would take the last for a formula."""
RAILS = """\
knobs:
  tilt: {max: 8, step: 4}
changes: {min_time: 1s, per_round: 2, round: 1s}
neighbours: {"3714": ["3715"]}
fallback: {drop: 0.5, slots: 2, before: 6, within: 1h, retry_after: 1s}
"""
SPACE = ConfigurationSpace(tilt=[2, 4, 6, 8, 10])
_PATIENCE = 60.0  # seconds for a process to start; they are many, and cores are few


@dataclass(frozen=True)
class Options:
    """What a process serves and how.

    Attributes:
        url: The ledger.
        mode: The mode of all stations to begin with.
        timeout: Seconds that it waits for its database.
        snapshot_every: After how many events beliefs are stored.
        free: Whether callers may ask for as much as they like.
        rails: The text of the rails file.
        level: How much is logged.
        seed: Draws the controller.
        names: The stations.
        placed: Whether they stand somewhere.
        patience: Seconds that a request may take to arrive.
        clock: A file that says what time it is, in ISO's form; the system's clock if empty.
        manner: Who says that orders are carried out.
        pace: A file that says how time passes for this process (`tests.support.pace`), its stopwatch too; as it does if
            empty.
    """

    url: str
    mode: Mode = "autonomous"
    timeout: float = 10.0
    snapshot_every: int = 25
    free: bool = True
    rails: str = RAILS
    level: str = "info"
    seed: int = 29
    names: list[str] = field(default_factory=lambda: list(STATIONS))
    placed: bool = False
    patience: float = 30.0
    clock: str = ""
    pace: str = ""
    manner: Manner = "assumed"

    def true_time(self) -> datetime:
        """What time it truly is at the pace of the file."""
        return read_pace(Path(self.pace))[0].at(time.monotonic())

    def now(self) -> datetime:
        """What the clock shows."""
        if self.pace:
            pace, ahead = read_pace(Path(self.pace))
            return pace.at(time.monotonic()) + timedelta(seconds=ahead)
        if not self.clock:
            return datetime.now(UTC)
        while not (shown := Path(self.clock).read_text()):  # a test is writing it just now
            time.sleep(0.001)
        return datetime.fromisoformat(shown)


def new_controller(options: Options) -> Controller:
    """Return a small controller with hyper-parameters drawn at random."""
    rng = np.random.default_rng(options.seed)
    count = len(options.names)
    A = rng.normal(size=(count, 2))
    places = {name: _place(i) for i, name in enumerate(options.names)}
    return Controller(
        SPACE, options.names, state={"load": (0, 1)}, similarity=A @ A.T + 0.3 * np.eye(count), running={"tilt": 4},
        noise=float(rng.uniform(0.01, 0.1)), mean=float(rng.uniform(0.4, 0.8)), beta=float(rng.uniform(0.5, 2.0)),
        descriptors=places if options.placed else None, seed=options.seed,
    )  # fmt: skip


def _place(number: int) -> dict[str, float]:
    """Three sectors a site: one in the middle, six around it, twelve around those."""
    site = number // 3
    far, turn = (0.0, 0.0) if site == 0 else (500.0, 60.0 * site) if site < 7 else (1000.0, 30.0 * site)
    x, y = far * np.sin(np.radians(turn)), far * np.cos(np.radians(turn))
    return {"x_m": round(float(x)), "y_m": round(float(y)), "azimuth_deg": 120.0 * (number % 3) + 15.0}


def open_operations(ledger: Ledger, options: Options, **further: Any) -> Operations:
    """Return the operations of a ledger as the process has them; `further` such as a clock."""
    start = new_controller(options) if setup_on_record(ledger) is None else None
    rails = rails_from_text(options.rails, SPACE, stations=options.names)
    return Operations.open(
        ledger, start, rails=rails, rails_text=options.rails, mode=options.mode, manner=options.manner, actor="service",
        snapshot_every=options.snapshot_every, **further,
    )  # fmt: skip


def serve(options: Options) -> None:
    """Serve until a signal comes."""
    running.set_up_logs(options.level)
    place = running.Place("127.0.0.1", 0)
    free = Limits(Limiter(rate=1e9, burst=1e9), Limiter(rate=1e9, burst=1e9))
    with (
        running.take_socket(place) as taken,
        closing(Ledger.open(options.url, timeout=options.timeout)) as real,
        closing(Ledger.open(options.url, timeout=options.timeout, clock=options.now)) as ledger,
    ):
        stopwatch = read_pace(Path(options.pace))[0].seconds if options.pace else None
        if options.pace and "://" in options.url:  # the server is a third machine, whose clock is right
            ledger.server_time = options.true_time  # type: ignore[method-assign]
        operations = open_operations(ledger, options, clock=options.now, stopwatch=stopwatch)
        app = running.application(operations, tokens=Tokens(real), limits=free if options.free else None)
        try:
            port = taken.getsockname()[1]
            running.run(
                app, place, taken, level=options.level, ready=lambda: _say(port=port), patience=options.patience
            )
        finally:
            running.store_beliefs(operations)


def nurse() -> None:
    """Start a process for every line of the input, and say which, where it listens, and how it ended."""
    child = 0

    def reap(*_: object) -> None:
        nonlocal child
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            child = 0
            _say(ended=os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, reap)
    _say(loaded=True)
    try:
        for line in sys.stdin:
            child = os.fork()
            if not child:
                _be(Options(**json.loads(line)))
            _say(pid=child)
    finally:  # also where nobody listens any more
        if child:
            os.kill(child, signal.SIGKILL)


def _be(options: Options) -> NoReturn:
    """Be the service, in a process that was just made."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        serve(options)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        os._exit(code)


def _say(**what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())  # at once, also from within a handler of signals


class ServiceProcess:
    """One process of the service, which may be killed and started again.

    Args:
        options: What it serves.
        log: The file that it logs to.
        environment: What else is in its environment.
    """

    def __init__(self, options: Options, log: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.options, self.log = options, log
        self.base = "http://127.0.0.1:1"  # where nobody listens
        self.pid = 0
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        all_of_it = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **(environment or {})}
        with self.log.open("a") as errors:
            self._nurse = subprocess.Popen(
                [sys.executable, "-m", "tests.support.service_process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, cwd=ROOT, env=all_of_it,
            )  # fmt: skip

    def start(self) -> float:
        """Start the process and wait until `/readyz` says that it can work; return how many seconds that took."""
        self.spawn()
        began = time.monotonic()
        self.base = f"http://127.0.0.1:{self._heard('port')}"
        self.wait_ready()
        return time.monotonic() - began

    def spawn(self) -> None:
        """Start the process, and do not wait for it."""
        assert self._nurse.stdin is not None
        self._nurse.stdin.write(json.dumps(asdict(self.options)).encode() + b"\n")
        self._nurse.stdin.flush()
        self.pid = self._heard("pid")

    def wait_ready(self, *, seconds: float = _PATIENCE) -> float:
        """Wait until `/readyz` answers 200, and return for how long."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                if httpx.get(f"{self.base}/readyz", timeout=5).status_code == 200:
                    return time.monotonic() - began
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise AssertionError(f"the service is not ready after {seconds} s: {self.log_text()[-3000:]}")

    def kill(self) -> None:
        """Kill -9."""
        assert self._signalled(signal.SIGKILL) == -signal.SIGKILL

    def stop(self) -> int:
        """End it well and return its exit code."""
        return self._signalled(signal.SIGTERM)

    def _signalled(self, number: signal.Signals) -> int:
        os.kill(self.pid, number)
        self.pid = 0
        return int(self._heard("ended"))

    def _heard(self, what: str) -> Any:
        """Return what the nurse or the process says, passing over what is older."""
        assert self._nurse.stdout is not None
        while True:
            readable, _, _ = select.select([self._nurse.stdout], [], [], _PATIENCE)
            said = json.loads(self._line() if readable else "{}")
            if what in said:
                return said[what]
            if not said or "ended" in said:
                raise AssertionError(f"the service is not there: {self.log_text()[-3000:]}")

    def _line(self) -> str:
        """Read one line; by single characters, so that nothing is held back where `select` cannot see it."""
        assert self._nurse.stdout is not None
        found = b""
        while not found.endswith(b"\n"):
            more = os.read(self._nurse.stdout.fileno(), 1)
            if not more:
                return "{}"
            found += more
        return found.decode()

    def end(self) -> None:
        """See to it that no process is left."""
        if self.pid:
            with suppress(ProcessLookupError):  # it may have failed to start
                os.kill(self.pid, signal.SIGKILL)
        for pipe in (self._nurse.stdin, self._nurse.stdout):
            assert pipe is not None
            pipe.close()
        self._nurse.wait(timeout=_PATIENCE)

    def log_text(self) -> str:
        """What it has logged, over all its lives."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def client(self, token: str | None = None, *, timeout: float = 30.0) -> httpx.Client:
        """Return a client; it goes to where the process is now."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.base, headers=headers, timeout=timeout)


def make_tokens(url: str, names: Mapping[str, Role | str]) -> dict[str, str]:
    """Make tokens beside the service, as `kinband token create` does, and return their texts by name."""
    ledger = Ledger.open(url)
    try:
        tokens = Tokens(ledger)
        return {name: tokens.create(name, role, by="test").token for name, role in names.items()}
    finally:
        ledger.close()


@contextmanager
def service(options: Options, folder: Path, *, name: str = "service", start: bool = True) -> Iterator[ServiceProcess]:
    """Give a running process; whatever happens, it is gone at the end."""
    found = ServiceProcess(options, folder / f"{name}.log")
    try:
        if start:
            found.start()
        yield found
    finally:
        found.end()


if __name__ == "__main__":
    nurse()
