"""Embedding distances (20) of 105 stations with 539 rows each, against two plain matrix products per pair.

Then a thousand stations by landmarks, whose work grows with their number instead of its square.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.speed.measure import Measured, median_time
from benchmarks.speed.problem import NOISE, STATIONS, bench_kernel, log_of
from kinband.arrays import FloatArray
from kinband.kernels import RBF
from kinband.similarity.base import embedding_products
from kinband.similarity.landmarks import landmark_products

ROWS = 539
MANY = 1000
"""Stations that are compared by landmarks."""

PATIENCE = 120.0
"""Seconds that this may take on two cores."""


def bench_similarity(
    *, rows: int = ROWS, many: int = MANY, tick: Callable[[str], None] = lambda _: None
) -> Iterator[Measured]:
    """Time all pairs; the plain way is timed on a few pairs and multiplied."""
    rng = np.random.default_rng(4)
    log = log_of(STATIONS * rows, rng)
    stations = [(log.X[log.tasks == m], log.y[log.tasks == m][:, None]) for m in range(STATIONS)]
    pairs = STATIONS * (STATIONS + 1) // 2
    tick("two products per pair")
    plain = median_time(lambda: plain_pair(stations[0], stations[1]), least=3) * pairs
    limit = "two products per pair"
    yield Measured("similarity.limit", f"{limit}, {pairs:,} pairs of {rows} rows", plain)
    tick("all pairs")
    outcome = RBF(float(log.y.std()))
    ours = median_time(
        lambda: embedding_products(stations, bench_kernel(), regularisation=NOISE, outcome_kernel=outcome),
        least=1,
        budget=0.0,
    )
    yield Measured("similarity.exact", f"embedding products of {STATIONS} stations", ours, limit, plain, "at least 5")
    tick(f"{many:,} stations by landmarks")
    begun = time.perf_counter()
    made = landmark_products(
        _similar_stations(many, rows, rng), bench_kernel(), regularisation=NOISE, outcome_kernel=outcome, rng=rng
    )
    seconds = time.perf_counter() - begun
    what = f"{many:,} stations by {made.landmarks:,} landmarks; likeness off by {made.error:.3f} at most"
    yield Measured("similarity.landmarks", what, seconds, f"{PATIENCE:g} s", PATIENCE, "at most 1")


def _similar_stations(count: int, rows: int, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """Stations whose rewards follow ten kinds of response to states that differ between them."""
    made = []
    for m in range(count):
        log = log_of(rows, rng)
        X = log.X + np.append(0.5 * rng.standard_normal(log.X.shape[1] - 1), 0.0)
        y = 0.8 + 0.1 * np.sin(X[:, 0] + m % 10) - 0.02 * X[:, -1] ** 2 + 0.05 * rng.standard_normal(rows)
        made.append((X, y[:, None]))
    return made


def plain_pair(one: tuple[FloatArray, FloatArray], other: tuple[FloatArray, FloatArray]) -> float:
    """Return tr(A K B L) of (20) by two products, for a pair of stations with rows X (n, d) and outcomes Y (n, 1).

    A and B stand for the stations' own inverses, which are made once and not counted; here they are identities.

    Example:
        >>> x, y = np.array([[0.0] * 6]), np.array([[0.5]])
        >>> round(plain_pair((x, y), (x, y)), 3)
        0.03
    """
    (X, Y), (X_other, Y_other) = one, other
    K, L = bench_kernel()(X, X_other), RBF(0.1)(Y, Y_other)
    A, B = np.eye(len(X)), np.eye(len(X_other))
    return float(np.vdot(A @ K @ B, L))
