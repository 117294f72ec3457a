"""What clients did and heard, and what was seen of the ledger meanwhile: plain values, for the checker to judge.

All moments are seconds of the machine's stopwatch (`time.monotonic`), which nobody can set and all threads share. An
operation lasts from the first time that it was sent to its answer, however often it was sent: under its key it is done
once, at some moment between the two.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

# --- What clients say ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """What one client did, and what it heard.

    Attributes:
        what: "ask", "tell", "report", "orders", "confirm", "fail", "stop", "resume", "freeze", "thaw" or "clock".
        key: As it stands in the ledger.
        body: What was sent.
        began: When it was first sent.
        ended: When it was answered; None where it never was.
        status: Of the answer, 0 where there is none.
        answer: What was answered.
        sent: How often it was sent.
    """

    what: str
    key: str
    body: Mapping[str, Any]
    began: float
    ended: float | None = None
    status: int = 0
    answer: Mapping[str, Any] = field(default_factory=dict)
    sent: int = 1

    @property
    def done(self) -> bool:
        """Whether it was acknowledged."""
        return self.ended is not None and self.status in (200, 201, 204)


class Log:
    """Operations as they end; threads share it, and a file has them too."""

    def __init__(self, file: Path) -> None:
        self.operations: list[Operation] = []
        self._lock, self._file = threading.Lock(), file.open("a")

    def add(self, operation: Operation) -> None:
        """Keep an operation."""
        with self._lock:
            self.operations.append(operation)
            self._file.write(json.dumps(asdict(operation)) + "\n")

    def acknowledged(self, what: str = "") -> int:
        """Return how many operations were acknowledged, of a kind if one is named; a list promises nothing."""
        with self._lock:
            return sum(one.done and one.what != "orders" and what in ("", one.what) for one in self.operations)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# --- What the ledger holds, read without the program that wrote it -------------------------------------------------


@dataclass(frozen=True)
class Row:
    """An event as its table has it."""

    seq: int
    kind: str
    at: str
    actor: str
    station: str
    decision: str | None
    round: int | None
    slot: str | None
    key: str | None
    text: str
    checksum: str

    @property
    def payload(self) -> dict[str, Any]:
        """What happened."""
        found: dict[str, Any] = json.loads(self.text)
        return found


_COLUMNS = "seq, kind, at, actor, station, decision, round, slot, key, payload, checksum"


@contextmanager
def opened(url: str) -> Iterator[Callable[[str], Iterable[Any]]]:
    """Give what runs a query on a store, by its own driver."""
    if "://" in url:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            yield lambda query: connection.execute(query.encode()).fetchall()
    else:
        with closing(sqlite3.connect(url, timeout=5, isolation_level=None)) as file:
            file.execute("PRAGMA query_only = ON")
            yield lambda query: file.execute(query).fetchall()


def rows_of(url: str) -> list[Row]:
    """Return all events, in their order."""
    with opened(url) as query:
        return [Row(*row) for row in query(f"SELECT {_COLUMNS} FROM events ORDER BY seq")]  # noqa: S608 - no input


@dataclass(frozen=True)
class Sighting:
    """That an event was seen.

    Attributes:
        seq: Its number.
        checksum: Its checksum.
        after: A moment at which it was not there yet.
        by: One at which it was.
    """

    seq: int
    checksum: str
    after: float
    by: float


class Course:
    """What something was when, as far as sightings tell; `first` is what it was before all that was seen.

    Args:
        first: What it was before.
    """

    def __init__(self, first: Any) -> None:
        self._steps: list[tuple[float, float, Any]] = [(0.0, 0.0, first)]

    def add(self, value: Any, sighting: Sighting | None) -> None:
        """Note what it became when an event came to be."""
        after, by = (0.0, float("inf")) if sighting is None else (sighting.after, sighting.by)
        self._steps.append((after, by, value))

    def within(self, began: float, ended: float) -> list[Any]:
        """Return what it may have been at some moment between two."""
        ends = [*(by for _, by, _ in self._steps[1:]), float("inf")]
        return [v for (after, _, v), end in zip(self._steps, ends, strict=True) if after <= ended and end >= began]


class Watcher:
    """Looks at a ledger again and again, so that it is known when every event came to be, whatever it says itself."""

    def __init__(self, url: str, *, every: float = 0.03) -> None:
        self.sightings: list[Sighting] = []
        self._url, self._every, self._over = url, every, threading.Event()
        self._quiet = threading.RLock()
        self._before = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=30)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Have nothing of the ledger open for the time of a block."""
        with self._quiet:
            yield

    def _watch(self) -> None:
        while not self._over.is_set():
            with self._quiet, suppress(sqlite3.Error, psycopg.Error), opened(self._url) as query:
                until = time.monotonic() + 1.0
                while time.monotonic() < until and not self._over.wait(self._every):
                    self._look(query)
            self._over.wait(self._every)

    def _look(self, query: Callable[[str], Iterable[Any]]) -> None:
        begun, last = time.monotonic(), self.sightings[-1].seq if self.sightings else 0
        found = query(f"SELECT seq, checksum FROM events WHERE seq > {last} ORDER BY seq")  # noqa: S608 - a number
        seen = time.monotonic()
        self.sightings += [Sighting(seq, checksum, self._before, seen) for seq, checksum in found]
        self._before = begun
