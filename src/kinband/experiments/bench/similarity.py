"""Embedding distances (20) of 105 stations with 539 rows each, against two plain matrix products per pair."""

from collections.abc import Callable, Iterator

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.bench.measure import Measured, median_time
from kinband.experiments.bench.problem import NOISE, STATIONS, bench_kernel, log_of
from kinband.kernels import RBF
from kinband.similarity.operators import embedding_products

ROWS = 539


def bench_similarity(*, rows: int = ROWS, tick: Callable[[str], None] = lambda _: None) -> Iterator[Measured]:
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
