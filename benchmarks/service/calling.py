"""Sends requests and times them, from one caller after the other or from many at once.

It speaks HTTP by the standard library over connections that are kept open, so that a caller costs little next to what
it measures.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from math import ceil, nan
from time import clock_gettime, perf_counter
from typing import Any

from kinband.errors import BadInputError, KinbandError

# --- What many measured times come to: the median, the slow end, and how many requests a second were answered -------


def percentile(times: Sequence[float], share: float) -> float:
    """Return the smallest time that at least this share of all times does not exceed (the nearest rank).

    No value is made up between two that were measured: of fewer than a hundred times the 99th percentile is the
    longest.

    Example:
        >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.99)
        (2.0, 4.0)
    """
    if not times or not 0 < share <= 1:
        raise BadInputError(f"a percentile is of some times and a share above 0 and up to 1, got {share}")
    rank = ceil(share * len(times) - 1e-9)  # 0.07 of 100 is 7.000000000000001 in binary
    return sorted(times)[max(rank, 1) - 1]


@dataclass(frozen=True)
class Timings:
    """Requests of one kind.

    Attributes:
        times: Seconds that each took, in any order.
        elapsed: Seconds from the first to the last.

    Example:
        >>> timings = Timings((0.1, 0.2, 0.3), elapsed=0.4)
        >>> timings.p50, timings.p99, round(timings.each, 3)
        (0.2, 0.3, 0.133)
    """

    times: tuple[float, ...]
    elapsed: float

    @property
    def p50(self) -> float:
        """The median."""
        return percentile(self.times, 0.5)

    @property
    def p95(self) -> float:
        """What 95 of 100 requests do not exceed."""
        return percentile(self.times, 0.95)

    @property
    def p99(self) -> float:
        """What 99 of 100 requests do not exceed."""
        return percentile(self.times, 0.99)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.times) / self.elapsed

    @property
    def each(self) -> float:
        """Seconds a request, over all callers: the inverse of the rate."""
        return self.elapsed / len(self.times)

    def and_then(self, other: "Timings") -> "Timings":
        """Return these and those of another time together."""
        return Timings(self.times + other.times, self.elapsed + other.elapsed)


# --- Requests -------------------------------------------------------------------------------------------------------

TIMEOUT = 120.0
"""Seconds after which a caller gives up."""


class LoadError(KinbandError):
    """What is measured answered something else than that it was done.

    Example:
        >>> str(LoadError("503"))
        '503'
    """


@dataclass(frozen=True)
class Address:
    """Where something listens on this machine.

    Attributes:
        port: The port.
        token: To come in with; empty for none.
        process: The process that listens; 0 where nobody knows.
    """

    port: int
    token: str = ""
    process: int = 0

    def worked(self) -> float:
        """Return how many seconds of processor time the process has taken so far; nan where that cannot be told."""
        if not self.process or not sys.platform.startswith("linux"):
            return nan
        return clock_gettime(~self.process << 3 | 2)  # the clock of another process, as clock_getcpuclockid(3) gives it


class Caller:
    """One caller with a connection of its own.

    Args:
        address: Whom to call.
    """

    def __init__(self, address: Address) -> None:
        self._connection = HTTPConnection("127.0.0.1", address.port, timeout=TIMEOUT)
        self._headers = {"Content-Type": "application/json"}
        if address.token:
            self._headers["Authorization"] = f"Bearer {address.token}"

    def post(self, path: str, body: Any) -> tuple[Any, float]:
        """Send a body and return what was answered, and how long it took."""
        sent = json.dumps(body).encode()
        begun = perf_counter()
        self._connection.request("POST", path, sent, self._headers)
        answer = self._connection.getresponse()
        read = answer.read()
        took = perf_counter() - begun
        if not 200 <= answer.status < 300:
            raise LoadError(f"POST {path} was answered {answer.status}: {read[:200].decode(errors='replace')}")
        return json.loads(read), took

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


def one_by_one(address: Address, path: str, bodies: Sequence[Any]) -> Timings:
    """Send bodies one after the other."""
    caller = Caller(address)
    try:
        begun = perf_counter()
        times = tuple(caller.post(path, body)[1] for body in bodies)
        return Timings(times, perf_counter() - begun)
    finally:
        caller.close()


def all_at_once(address: Address, path: str, shares: Sequence[Sequence[Any]]) -> Timings:
    """Let callers send their shares at the same time, each one after the other; all begin together.

    Args:
        address: Whom to call.
        path: Where.
        shares: The bodies of each caller.
    """
    times: list[list[float]] = [[] for _ in shares]
    failures: list[BaseException] = []
    gate = threading.Barrier(len(shares) + 1)

    def send(number: int) -> None:
        caller = Caller(address)
        try:
            gate.wait()
            times[number].extend(caller.post(path, body)[1] for body in shares[number])
        except BaseException as error:  # raised again by the thread that waits
            failures.append(error)
        finally:
            caller.close()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(len(shares))]
    for thread in threads:
        thread.start()
    gate.wait()
    begun = perf_counter()
    for thread in threads:
        thread.join()
    elapsed = perf_counter() - begun
    if failures:
        raise failures[0]
    return Timings(tuple(took for own in times for took in own), elapsed)


@contextmanager
def hosted(kind: str, url: str, *, seed: int, stations: int, rows: int) -> Iterator[Address]:
    """Run a service or the bare handler in a process of its own meanwhile."""
    command = [sys.executable, "-m", "benchmarks.service.hosting", kind, url, *map(str, (seed, stations, rows))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise LoadError(f"the {kind} to be measured did not start: see the message above")
        yield Address(**json.loads(line))
    finally:
        process.terminate()
        process.wait(timeout=60)
        if process.stdout:
            process.stdout.close()


def timed(calls: Sequence[Callable[[], object]]) -> Timings:
    """Time calls in this process."""
    times: list[float] = []
    for call in calls:
        begun = perf_counter()
        call()
        times.append(perf_counter() - begun)
    return Timings(tuple(times), sum(times))
