"""A round of a country: thousands of stations in shards of up to 100, each of which knows 2,000 rewards.

Scoring an arm of a station is a forward substitution of one column: n² operations, n being the rewards its shard knows.
With M stations and N arms a round is M·N·n² of them: 1.2·10¹² for 10,000 stations, 29 arms and 2,000 rewards a shard.
The round is timed, then products of the shapes that all arms' columns take, on plain arrays, in the same run. Their
ratio can fall below 1, because a posterior that knows that the arms of a station share its state need not solve all
their columns.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from time import perf_counter

import numpy as np

from benchmarks.speed.measure import Measured
from kinband import ConfigurationSpace, Controller, Samples
from kinband.arrays import FloatArray
from kinband.cluster import OnRay
from kinband.contexts import ContextEncoder, StateScaler
from kinband.kernels import RBF
from kinband.similarity.shards import DescriptorLikeness, coarse_blocks, shard_blocks

_REACH = 1.5  # distance over which stations resemble each other
_PANEL = 128  # rows that are solved at once, as in the factor of the exact posterior
_STATE = ("users", "load", "quality", "interference")
_ARMS = 29


def bench_shards(
    *,
    stations: int = 10_000,
    rows: int = 2_000,
    size: int = 100,
    ray: str | None = None,
    seed: int = 0,
    tick: Callable[[str], None] = lambda _: None,
) -> Iterator[Measured]:
    """Time a round of a controller with shards against the bare products that all arms' columns would take.

    Shards are in this process; with `ray` on the cluster at that address, or on one of its own for "local".

    Example:
        >>> [line.name for line in bench_shards(stations=6, rows=8, size=3)]
        ['shards.limit', 'shards.round', 'shards.tell', 'shards.build', 'shards.split']
    """
    rng, names = np.random.default_rng(seed), [f"st{m:05d}" for m in range(stations)]
    places = rng.random((stations, 2)) * np.sqrt(stations)  # one station per unit of area
    tick("sharding")
    alike = DescriptorLikeness(names, places, scale=_REACH / float(places.std()))
    begun = perf_counter()
    shards = shard_blocks(coarse_blocks(names, places, size=max(1000, size)), alike, rng=rng, size=size)
    split = perf_counter() - begun
    tick("building")
    encoder = ContextEncoder(StateScaler.identity(_STATE), ConfigurationSpace(threshold_dbm=range(-112, -112 + _ARMS)))
    log = _log(shards.stations, [len(part) for part in shards.parts], encoder, rows=rows, rng=rng)
    with nullcontext() if ray is None else OnRay(None if ray == "local" else ray) as on:
        begun = perf_counter()
        controller = Controller(
            encoder.space, shards.stations, state=_STATE, similarity=shards.matrix(), kernel=RBF(1.5), noise=0.05,
            mean=0.8, engine="auto", log=log, seed=seed, on=on,
        )  # fmt: skip
        build = perf_counter() - begun
        states = {name: dict(zip(_STATE, rng.normal(size=4).tolist(), strict=True)) for name in names}
        tick("a round")
        begun = perf_counter()
        decisions = controller.ask_all(states)
        round_ = perf_counter() - begun
        tick("telling")
        begun = perf_counter()
        controller.tell_all({d.id: 0.8 for d in decisions.values()})
        tell = perf_counter() - begun
    tick("bare products")
    columns = [len(part) * _ARMS for part in shards.parts]
    products = _products(rows, columns, rng=rng)
    limit = f"the bare products of {rows**2 * sum(columns) / 1e9:,.0f}e9 operations"
    country = f"{stations:,} stations in {len(shards)} shards, n = {rows:,} in each"
    yield Measured("shards.limit", limit, products)
    yield Measured("shards.round", f"round of {country}", round_, limit, products, aim="at most 1.3")
    yield Measured("shards.tell", f"telling all {stations:,} rewards", tell)
    yield Measured("shards.build", f"building {len(shards)} shards from their logs", build)
    yield Measured("shards.split", f"sharding; {shards.lost:.0%} of similarity lies between shards", split)


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


def _products(rows: int, columns: list[int], *, rng: np.random.Generator) -> float:
    """Return the seconds of products of panels with what a forward substitution multiplies them by, once per shard."""
    L, R = rng.normal(size=(rows, rows)), rng.normal(size=(rows, max(columns)))
    begun = perf_counter()
    for m in columns:
        _sweep(L, np.ascontiguousarray(R[:, :m]))
    return perf_counter() - begun


def _sweep(L: FloatArray, R: FloatArray) -> None:
    for start in range(0, len(L), _PANEL):
        stop = min(start + _PANEL, len(L))
        rest = R[start:stop] - L[start:stop, :start] @ R[:start]
        np.matmul(L[start:stop, start:stop], rest)
