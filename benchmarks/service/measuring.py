"""The load test: rounds, single asks, and many callers telling at once, as ratios to a handler that does one insert.

Seconds say little about another machine; ratios to the least that any such service does, measured in the same run with
the same number of callers, say more. The bare handler is measured before and after, so that a machine that is busy for
a while does not decide the ratio. What the controller itself takes for the same questions is measured in this process.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.service.calling import Address, Caller, Timings, all_at_once, hosted, one_by_one, timed
from benchmarks.service.hosting import remove_bare
from benchmarks.service.problem import ROWS, STATIONS, load_controller, rewards_of, states_of, station_names
from benchmarks.speed.measure import Measured

AIM = "at most 5"
"""What the 99th percentile of a single ask may be, against the controller's own and the bare handler's together."""

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """How much is asked.

    Attributes:
        rounds: Requests for all stations.
        asks: Requests for one station.
        clients: Callers that tell at once.
        tells: Requests of each of them.
        stations: How many stations there are.
        rows: How many rows the controller knows to begin with.
        warm: Requests of each kind that are not counted.
        seed: Draws everything random.

    Example:
        >>> Load.quick().rounds < Load().rounds
        True
    """

    rounds: int = 60
    asks: int = 500
    clients: int = 50
    tells: int = 20
    stations: int = STATIONS
    rows: int = ROWS
    warm: int = 10
    seed: int = 0

    @classmethod
    def quick(cls) -> "Load":
        """Return a small one, for a look."""
        return cls(rounds=10, asks=50, clients=10, tells=5, stations=20, rows=400, warm=3)


def bench_service(load: Load, *, ledger: str | None = None, folder: Path, tick: Tick) -> list[Measured]:
    """Measure the service.

    Args:
        load: How much is asked.
        ledger: An empty PostgreSQL database; None for SQLite files in a folder of its own.
        folder: Where that folder is made: on the disk that is to be measured.
        tick: Called with what is measured now.
    """
    with ExitStack() as stack:
        urls = _urls(ledger, stack, folder)
        tick("starting a service and a bare handler")
        run = partial(hosted, seed=load.seed, stations=load.stations, rows=load.rows)
        bare = stack.enter_context(run("bare", urls[0]))
        service = stack.enter_context(run("service", urls[1]))
        return list(_figures(_Measured(load, bare, service), tick, store="PostgreSQL" if ledger else "SQLite"))


def _urls(ledger: str | None, stack: ExitStack, folder: Path) -> tuple[str, str]:
    """Return the databases of the bare handler and of the service."""
    if ledger is not None:
        stack.callback(remove_bare, ledger)
        return ledger, ledger
    made = Path(stack.enter_context(TemporaryDirectory(prefix="load-", dir=folder)))
    return str(made / "bare.db"), str(made / "ledger.db")


class _Measured:
    """Measures one thing after the other."""

    def __init__(self, load: Load, bare: Address, service: Address) -> None:
        self.load, self._bare, self._service = load, bare, service
        self._rng = np.random.default_rng([load.seed, 2])
        self._names = station_names(load.stations)

    def inserts(self, count: int) -> Timings:
        """Inserts of one caller."""
        bodies = [rewards_of([f"d{n}"], self._rng)[0] for n in range(count + self.load.warm)]
        one_by_one(self._bare, "/insert", bodies[: self.load.warm])
        return one_by_one(self._bare, "/insert", bodies[self.load.warm :])

    def inserts_at_once(self) -> Timings:
        """Inserts of many callers."""
        ids = [f"d{n}" for n in range(self.load.clients * self.load.tells)]
        return all_at_once(self._bare, "/insert", _shared(rewards_of(ids, self._rng), self.load.clients))

    def rounds(self) -> Timings:
        """Asks for all stations in one request; their rewards are told in between, and not counted."""
        caller, times = Caller(self._service), list[float]()
        for number in range(self.load.rounds + self.load.warm):
            answer, took = caller.post("/v1/decisions", {"states": states_of(self._names, self._rng)})
            ids = [made["id"] for made in answer["decisions"]]
            caller.post("/v1/outcomes", {"outcomes": rewards_of(ids, self._rng)})
            if number >= self.load.warm:
                times.append(took)
        caller.close()
        return Timings(tuple(times), sum(times))

    def own_rounds(self) -> Timings:
        """The controller's own time for rounds."""
        controller = load_controller(self.load.seed, stations=self.load.stations, rows=self.load.rows)
        states = [states_of(self._names, self._rng) for _ in range(max(3, self.load.rounds // 5))]
        return timed([partial(controller.ask_all, asked) for asked in states])

    def asks(self) -> tuple[Timings, Timings]:
        """Asks for one station: over HTTP, and the controller's own time for the same questions."""
        count = self.load.asks + self.load.warm
        chosen = [self._names[int(n)] for n in self._rng.integers(len(self._names), size=count)]
        states = [states_of([name], self._rng) for name in chosen]
        controller = load_controller(self.load.seed, stations=self.load.stations, rows=self.load.rows)
        own = timed([partial(controller.ask, name, state[name]) for name, state in zip(chosen, states, strict=True)])
        one_by_one(self._service, "/v1/decisions", [{"states": state} for state in states[: self.load.warm]])
        over = one_by_one(self._service, "/v1/decisions", [{"states": state} for state in states[self.load.warm :]])
        kept = own.times[self.load.warm :]
        return over, Timings(kept, sum(kept))

    def tells(self) -> Timings:
        """Rewards of single decisions, told by many callers at once."""
        caller, ids = Caller(self._service), list[str]()
        while len(ids) < self.load.clients * self.load.tells:
            answer, _ = caller.post("/v1/decisions", {"states": states_of(self._names, self._rng)})
            ids += [made["id"] for made in answer["decisions"]]
        caller.close()
        outcomes = [{"outcomes": [one]} for one in rewards_of(ids, self._rng)]
        wanted = outcomes[: self.load.clients * self.load.tells]
        return all_at_once(self._service, "/v1/outcomes", _shared(wanted, self.load.clients))


def _figures(measured: _Measured, tick: Tick, *, store: str) -> Iterator[Measured]:
    load = measured.load
    tick(f"one insert, {store}")
    bare, bare_many = measured.inserts(load.asks), measured.inserts_at_once()
    tick(f"{load.stations} stations in one request")
    rounds, own_rounds = measured.rounds(), measured.own_rounds()
    tick("one station in one request")
    asks, own = measured.asks()
    tick(f"{load.clients} callers telling at once")
    tells = measured.tells()
    tick(f"one insert, {store}, again")
    bare, bare_many = bare.and_then(measured.inserts(load.asks)), bare_many.and_then(measured.inserts_at_once())
    many = f"{load.clients} callers"
    yield from _lines("service.insert", f"a bare handler with one insert, {store}", bare)
    yield from _lines("service.round", f"a request for {load.stations} stations", rounds, "a bare insert", bare)
    yield Measured(
        "service.round.own", f"a request for {load.stations} stations, median", rounds.p50,
        "the controller's own and a bare insert", own_rounds.p50 + bare.p50,
    )  # fmt: skip
    yield from _lines("service.ask", "a request for one station", asks, "a bare insert", bare)
    yield from _lines("service.own", "the controller's own time for that", own)
    yield Measured(
        "service.ask.p99.aim", "99 of 100 requests for one station", asks.p99,
        "the controller's own and a bare insert", own.p99 + bare.p99, AIM,
    )  # fmt: skip
    yield from _lines("service.inserts", f"bare inserts of {many}, {bare_many.rate:,.0f} a second", bare_many)
    what = f"rewards told by {many}, {tells.rate:,.0f} a second"
    yield from _lines("service.tell", what, tells, f"bare inserts of {many}", bare_many)
    yield Measured(
        "service.tell.each", f"seconds a reward, {many} together", tells.each, f"bare inserts of {many}", bare_many.each
    )


def _lines(
    name: str, what: str, ours: Timings, reference: str = "", theirs: Timings | None = None
) -> Iterator[Measured]:
    """Give the median and the slow end of something, beside those of something else."""
    for end, words in (("p50", "median"), ("p99", "99 of 100")):
        beside = float("nan") if theirs is None else float(getattr(theirs, end))
        yield Measured(f"{name}.{end}", f"{what}, {words}", float(getattr(ours, end)), reference, beside)


def _shared(bodies: Sequence[Any], callers: int) -> list[Sequence[Any]]:
    return [bodies[number::callers] for number in range(callers)]
