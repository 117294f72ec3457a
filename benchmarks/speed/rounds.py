"""A parallel round: 105 stations with 29 arms each, decided from the same beliefs."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.speed.measure import Measured, median_time
from benchmarks.speed.problem import ARMS, STATIONS, controller_of, states_of


def bench_round(*, rows: int = 4000, tick: Callable[[str], None] = lambda _: None) -> Iterator[Measured]:
    """Time a round against one triangular solve of the plain shape, (rows, rows) with 3,045 right-hand sides."""
    rng = np.random.default_rng(2)
    tick("one triangular solve")
    solve = _solve(rows, rng)
    limit = f"one solve of {STATIONS * ARMS:,} columns"
    yield Measured("round.limit", f"{limit}, n = {rows:,}", solve)
    for structure in (False, True):
        name = "structure" if structure else "plain"
        tick(f"round, {name}")
        controller = controller_of(np.random.default_rng(3), structure=structure, rows=rows)
        states = states_of(rng)
        seconds = median_time(partial(controller.ask_all, states), least=2)
        aim = "at most 0.6" if structure else "at most 1.3"
        yield Measured(f"round.{name}", f"round of {STATIONS} stations, {name}", seconds, limit, solve, aim)


def _solve(rows: int, rng: np.random.Generator) -> float:
    from scipy.linalg import solve_triangular

    L = np.asfortranarray(np.tril(1e-3 * rng.standard_normal((rows, rows))) + np.eye(rows))
    R = np.asfortranarray(rng.standard_normal((rows, STATIONS * ARMS)))
    return median_time(lambda: solve_triangular(L, R, lower=True, check_finite=False), least=2)
