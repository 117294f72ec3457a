"""The radio network simulator: one-second steps of a city with 105 sectors on two layers and about 3,000 users."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.speed.measure import Measured, median_time
from kinband.environments.radio import Network, Parameters, build_map, draw_layout

BUDGET = 0.02
"""Seconds that a step may take on one core."""


def bench_simulator(*, sectors: int = 105, tick: Callable[[str], None] = lambda _: None) -> Iterator[Measured]:
    """Time steps at a busy hour, against one pass over the powers that all users receive from all cells."""
    tick("drawing a city")
    parameters = Parameters()
    network = Network(build_map(draw_layout(sectors), parameters), parameters, seed=1, hour=18.0)
    network.run_period(np.full(sectors, -100.0), seconds=30)
    tick("steps")
    seconds = median_time(network.step, least=20, budget=2.0)
    users, cells = int(network.people.alive.sum()), network.layers * network.sectors
    powers = np.random.default_rng(0).random((users, network.layers, network.sectors), dtype=np.float32)
    one_pass = median_time(lambda: powers.sum(axis=2).max(axis=1), least=20)
    rate = users * cells / seconds
    what = f"one step, {users:,} users, {cells} cells: {rate / 1e6:.0f} million users x cells a second"
    yield Measured("simulator.limit", "one pass over all received powers", one_pass)
    yield Measured("simulator.step", what, seconds, "one pass over all received powers", one_pass)
    yield Measured("simulator.budget", "one step", seconds, f"{BUDGET:g} s of one core", BUDGET, "at most 1")
