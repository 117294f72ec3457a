"""A round of a country: 10,000 stations in shards of up to 100, each of which knows 2,000 rewards."""

from collections.abc import Callable, Iterator

from benchmarks.fleet_round import bench_round
from benchmarks.speed.measure import Measured
from kinband.fleet import OnRay


def bench_fleet(
    *, stations: int = 10_000, rows: int = 2_000, ray: str | None = None, tick: Callable[[str], None] = lambda _: None
) -> Iterator[Measured]:
    """Time a round of a fleet against the bare products that all arms' columns would take.

    The fleet is in this process; with `ray` on the cluster at that address, or on one of its own for "local".

    Example:
        >>> [line.name for line in bench_fleet(stations=6, rows=8)]
        ['fleet.limit', 'fleet.round', 'fleet.tell', 'fleet.build', 'fleet.shard']
    """
    on = None if ray is None else OnRay(None if ray == "local" else ray)
    found = bench_round(stations=stations, rows=rows, on=on, tick=tick)
    limit, shards = f"the bare products of {found['billions']:,.0f}e9 operations", int(found["shards"])
    yield Measured("fleet.limit", limit, found["products"])
    country = f"{stations:,} stations in {shards} shards, n = {rows:,} in each"
    yield Measured("fleet.round", f"round of {country}", found["round"], limit, found["products"], aim="at most 1.3")
    yield Measured("fleet.tell", f"telling all {stations:,} rewards", found["telling"])
    yield Measured("fleet.build", f"building {shards} shards from their logs", found["building"])
    yield Measured("fleet.shard", f"sharding; {found['lost']:.0%} of likeness lies between shards", found["sharding"])
