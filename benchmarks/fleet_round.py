"""How long a round of a fleet takes, and how much of that is bare arithmetic.

Scoring an arm of a station is a forward substitution of one column: n² operations, n being the rewards its shard knows.
With M stations and N arms a round is M·N·n² of them: 1.2·10¹² for 10,000 stations, 29 arms and 2,000 rewards a shard.
`bench_round` times a round, then products of the shapes that all arms' columns take, on plain arrays, in the same run
and with as many threads: their ratio says more than seconds on some machine. It can fall below 1, because a posterior
that knows that the arms of a station share its state need not solve all their columns.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import ContextEncoder, StateScaler
from kinband.fleet.blocks import DescriptorLikeness, coarse_blocks
from kinband.fleet.engine import Engine, InProcess, one_blas_thread, processors
from kinband.fleet.fleet import Fleet
from kinband.fleet.shards import shard_blocks
from kinband.kernels import RBF
from kinband.records import Samples
from kinband.space import ConfigurationSpace

_REACH = 1.5  # distance over which stations resemble each other
_PANEL = 128  # rows that are solved at once, as in the factor of the exact posterior
_Done = TypeVar("_Done")
_STATE = ("users", "load", "quality", "interference")


def bench_round(
    *,
    stations: int = 10_000,
    rows: int = 2_000,
    arms: int = 29,
    size: int = 100,
    threads: int | None = None,
    rounds: int = 1,
    on: Engine | None = None,
    seed: int = 0,
    tick: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Build a fleet, time a round over all stations, and time the bare products in it.

    Args:
        stations: How many stations; they are placed at random on a map and resemble their neighbours.
        rows: Rewards that every shard knows.
        arms: Configurations.
        size: The most stations of a shard.
        threads: Shards worked on at once inside this process; None for one per processor.
        rounds: How many rounds are timed; the fastest counts.
        on: Where shards run, if not inside this process.
        seed: Of everything drawn.
        tick: Told what is being done, phase by phase.

    Returns:
        Seconds for `sharding`, `building`, the `round`, `telling` all its rewards and the bare `products`; the `ratio`
        of round and products; counts of `stations`, `shards`, `arms`, `rows`, `threads`; `billions` of operations in
        the products; the share of likeness `lost` between shards.

    Example:
        >>> found = bench_round(stations=6, rows=8, arms=3, size=3)
        >>> found["shards"], found["round"] > 0
        (2, True)
    """
    say = tick or (lambda _: None)
    rng, clock = np.random.default_rng(seed), _Clock()
    names = [f"st{m:05d}" for m in range(stations)]
    places = rng.random((stations, 2)) * np.sqrt(stations)  # one station per unit of area
    say("sharding")
    blocks = coarse_blocks(names, places, size=max(1000, size))
    alike = DescriptorLikeness(names, places, scale=_REACH / float(places.std()))
    shards = clock.time("sharding", lambda: shard_blocks(blocks, alike, rng=rng, size=size))
    say("building")
    space = ConfigurationSpace(threshold_dbm=range(-112, -112 + arms))
    encoder = ContextEncoder(StateScaler.identity(_STATE), space)
    log = _log(shards.stations, [len(part) for part in shards.parts], encoder, rows=rows, rng=rng)
    used = threads or processors()
    with clock.time(
        "building",
        lambda: Fleet(
            space, shards, state=_STATE, kernel=RBF(1.5), noise=0.05, mean=0.8, log=log, seed=seed,
            on=on or InProcess(threads=used),
        ),
    ) as fleet:  # fmt: skip
        states = {name: dict(zip(_STATE, rng.normal(size=4).tolist(), strict=True)) for name in names}
        say("a round")
        for _ in range(rounds):
            decisions = clock.time("round", lambda: fleet.ask_all(states))
        say("telling")
        clock.time("telling", lambda: fleet.tell_all({d.id: 0.8 for d in decisions.values()}))
    say("bare products")
    columns = [len(part) * arms for part in shards.parts]
    clock.time("products", lambda: _products(rows, columns, threads=used, rng=rng))
    counts = {"stations": stations, "shards": len(shards), "arms": arms, "rows": rows, "threads": used}
    found = {**clock.seconds, **counts, "billions": rows**2 * sum(columns) / 1e9, "lost": shards.lost}
    return {**found, "ratio": found["round"] / found["products"]}


class _Clock:
    """Takes times; the fastest of each kind counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, kind: str, work: Callable[[], _Done]) -> _Done:
        """Do the work and note how long it took."""
        begun = time.perf_counter()
        done = work()
        self.seconds[kind] = min(time.perf_counter() - begun, self.seconds.get(kind, np.inf))
        return done


def _log(
    stations: tuple[str, ...], sizes: list[int], encoder: ContextEncoder, *, rows: int, rng: np.random.Generator
) -> Samples:
    """Return `rows` rewards for every shard, its stations drawn at random."""
    first = np.repeat(np.cumsum([0, *sizes[:-1]]), rows)
    tasks = first + rng.integers(0, np.repeat(sizes, rows))
    arms = rng.integers(0, len(encoder.space), size=len(tasks))
    S = rng.normal(size=(len(tasks), len(encoder.state.names)))
    y = 0.8 + 0.1 * np.sin(S[:, 0] + 0.1 * arms) + 0.05 * rng.normal(size=len(tasks))
    return Samples(stations, tasks, encoder.encode(S, arms), y, None, encoder.features, encoder.categorical, arms)


def _products(rows: int, columns: list[int], *, threads: int, rng: np.random.Generator) -> None:
    """Multiply panels by what a forward substitution multiplies them by, once per shard."""
    L, R = rng.normal(size=(rows, rows)), rng.normal(size=(rows, max(columns)))
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda m: _sweep(L, np.ascontiguousarray(R[:, :m])), columns))


def _sweep(L: FloatArray, R: FloatArray) -> None:
    for start in range(0, len(L), _PANEL):
        stop = min(start + _PANEL, len(L))
        rest = R[start:stop] - L[start:stop, :start] @ R[:start]
        np.matmul(L[start:stop, start:stop], rest)
