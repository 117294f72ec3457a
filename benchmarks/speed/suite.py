"""All benchmarks by name, and the threads they run with."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from threadpoolctl import threadpool_limits

from benchmarks.speed.exact import bench_exact
from benchmarks.speed.measure import Measured
from benchmarks.speed.rounds import bench_round
from benchmarks.speed.shards import bench_shards
from benchmarks.speed.similarity import bench_similarity
from benchmarks.speed.simulator import bench_simulator
from benchmarks.speed.sparse import bench_sparse

Tick = Callable[[str], None]
Suite = Callable[[bool, Tick], Iterator[Measured]]


def _shards(quick: bool, tick: Tick, *, ray: str | None = None) -> Iterator[Measured]:
    return bench_shards(stations=500 if quick else 10_000, rows=200 if quick else 2_000, ray=ray, tick=tick)


SUITES: dict[str, Suite] = {
    "exact": lambda quick, tick: bench_exact(decisions=400 if quick else 4000, tick=tick),
    "round": lambda quick, tick: bench_round(rows=500 if quick else 4000, tick=tick),
    "similarity": lambda quick, tick: bench_similarity(
        rows=30 if quick else 539, many=150 if quick else 1000, tick=tick
    ),
    "sparse": lambda quick, tick: bench_sparse(
        **({"early": 1000, "late": 2000, "inducing_points": 64} if quick else {}), tick=tick
    ),
    "shards": _shards,
    "simulator": lambda quick, tick: bench_simulator(sectors=21 if quick else 105, tick=tick),
}


def run_suite(name: str, *, threads: int, quick: bool, ray: str | None = None, tick: Tick) -> list[Measured]:
    """Run one benchmark with so many BLAS threads; the simulator always has one. Small sizes have no aims.

    With `ray`, an address or "local", shards are on a Ray cluster.
    """
    suite = SUITES[name]
    if name == "shards" and ray is not None:
        suite = partial(_shards, ray=ray)
    with threadpool_limits(limits=1 if name == "simulator" else threads):
        found = list(suite(quick, tick))
    return [replace(line, aim="") for line in found] if quick else found
