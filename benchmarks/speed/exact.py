"""Sequential decisions on the exact posterior: a whole run through the controller, against its limit and its peers."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.speed import peers
from benchmarks.speed.limit import BareFactor
from benchmarks.speed.measure import Measured, median_time, summed
from benchmarks.speed.problem import ARMS, controller_of, states_of
from kinband.arrays import FloatArray

Tick = Callable[[str], None]
_SIZES = (128, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4000)
_PEER_SIZES = (250, 1000, 2500, 4000)


def bench_exact(*, decisions: int = 4000, tick: Tick = lambda _: None) -> Iterator[Measured]:
    """Time a run of sequential decisions, with and without the structure of shared states, against everything else."""
    tick("bare sweeps")
    sizes = [n for n in _SIZES if n < decisions] + [decisions]
    sweeps = [_bare_sweep(n) for n in sizes]
    bare = summed(sizes, sweeps, up_to=decisions)
    limit = f"bare sweeps of {ARMS} columns"
    yield Measured("exact.limit", f"{limit}, {decisions:,} sizes", bare, by_size=tuple(zip(sizes, sweeps, strict=True)))
    ours: dict[bool, float] = {}
    for structure in (False, True):
        name = "structure" if structure else "plain"
        tick(f"controller, {name}")
        steps = _run(decisions, structure=structure)
        ours[structure] = float(steps.sum())
        aim, what = "at most 0.8" if structure else "at most 1.3", f"{decisions:,} decisions, {name}"
        yield Measured(f"exact.run.{name}", what, ours[structure], limit, bare, aim, _around(sizes, steps))
    for name, aims in (("schur", (3, 5)), ("scikit-learn", (60, 60)), ("botorch", (130, 130))):
        tick(name)
        step = peers.STEPS[name]
        if not peers.available(name):
            continue
        few = _peer_sizes(name, decisions)
        seconds = [step(n) for n in few]
        total = summed(few, seconds, up_to=decisions)
        by_size = tuple(zip(few, seconds, strict=True))
        yield Measured(f"exact.{name}", f"{name}, summed from {len(few)} sizes", total, by_size=by_size)
        for structure, times in zip((False, True), aims, strict=True):
            kind = "structure" if structure else "plain"
            yield Measured(
                f"exact.{kind}.against.{name}", f"ours ({kind})", ours[structure], name, total, f"at least {times}"
            )


def _peer_sizes(name: str, decisions: int) -> Sequence[int]:
    sizes = _SIZES if name == "schur" else _PEER_SIZES
    return [n for n in sizes if n < decisions] + [decisions]


def _bare_sweep(n: int) -> float:
    rng = np.random.default_rng(n)
    factor, R = BareFactor(n, rng=rng), rng.standard_normal((n, ARMS))
    return median_time(lambda: factor.sweep(R), budget=0.3)


def _run(decisions: int, *, structure: bool) -> FloatArray:
    """Seconds of every decision of a run through the controller, ask and tell, (decisions,)."""
    rng = np.random.default_rng(1)
    controller, states = controller_of(rng, structure=structure), states_of(rng)
    stations, rewards = list(states), rng.normal(0.8, 0.1, size=decisions)
    steps = np.empty(decisions)
    for t in range(decisions):
        station = stations[t % len(stations)]
        begun = time.perf_counter()
        controller.tell(controller.ask(station, states[station]).id, float(rewards[t]))
        steps[t] = time.perf_counter() - begun
    return steps


def _around(sizes: Sequence[int], steps: FloatArray) -> tuple[tuple[int, float], ...]:
    """The median of the decisions around each size."""
    return tuple((n, float(np.median(steps[max(0, n - 25) : n + 25]))) for n in sizes)
