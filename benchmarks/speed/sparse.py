"""Decisions on the sparse posterior: the same at the last observation as at the ten-thousandth, whatever came between.

A decision is timed through the controller, ask and tell, early and late in one run. What lies between is told to the
policy directly, without asking, which changes beliefs just as much and takes less time. The limit is the bare
arithmetic of scoring: two products of a square matrix of as many rows as there are points with one column per arm.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.speed.measure import Measured, median_time
from benchmarks.speed.problem import ARMS, STATE, controller_of, log_of, states_of
from kinband.controller import Controller
from kinband.policies import UCB
from kinband.posterior import INDUCING_POINTS

EARLY = 10_000
LATE = 40_000
DECISIONS = 400
"""Decisions timed at either end."""

_CHUNK = 10_000


def bench_sparse(
    *,
    early: int = EARLY,
    late: int = LATE,
    inducing_points: int = INDUCING_POINTS,
    tick: Callable[[str], None] = lambda _: None,
) -> Iterator[Measured]:
    """Time decisions early and late, against each other, the bare arithmetic and an exact posterior."""
    rng = np.random.default_rng(5)
    tick("bare products")
    A, B = rng.standard_normal((inducing_points, inducing_points)), rng.standard_normal((inducing_points, ARMS))
    bare = median_time(lambda: A @ (A @ B))
    yield Measured("sparse.limit", f"two products of {inducing_points} points with {ARMS} arms", bare)
    tick(f"learning {early:,} rows")
    controller = controller_of(rng, structure=True, engine="sparse", rows=early, inducing_points=inducing_points)
    tick(f"decisions at {early:,} rows")
    first = _decision(controller, rng)
    here = f"one decision, {inducing_points} points"
    yield Measured("sparse.early", f"{here}, {early:,} rows known", first, "two bare products", bare)
    _learn(controller, late - early, rng, tick)
    tick(f"decisions at {late:,} rows")
    last = _decision(controller, rng)
    reference = f"at {early:,} rows"
    by_size = ((early, first), (late, last))
    yield Measured("sparse.late", f"{here}, {late:,} rows known", last, reference, first, "at most 1.2", by_size)


def _decision(controller: Controller, rng: np.random.Generator) -> float:
    """Median seconds of a decision through the controller, ask and tell."""
    states, times = states_of(rng), []
    for t in range(DECISIONS):
        name = f"s{t % len(states)}"
        state = dict(zip(STATE, rng.standard_normal(len(STATE)).tolist(), strict=True))
        begun = time.perf_counter()
        controller.tell(controller.ask(name, state).id, float(rng.normal(0.8, 0.1)))
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def _learn(controller: Controller, rows: int, rng: np.random.Generator, tick: Callable[[str], None]) -> None:
    """Let the policy learn random rows, in blocks that are never kept together."""
    policy = controller.policy
    if not isinstance(policy, UCB):
        raise TypeError(f"expected UCB, got {type(policy).__name__}")
    for done in range(0, rows, _CHUNK):
        tick(f"learning, {done:,} of {rows:,} rows between")
        log = log_of(min(_CHUNK, rows - done), rng)
        policy.posterior.update(log.tasks, log.X, log.y)
