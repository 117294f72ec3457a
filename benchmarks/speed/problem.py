"""The problem that benchmarks time: 105 stations, 29 thresholds, five state features, as in the paper's trace."""

from dataclasses import replace

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.kernels import RBF
from kinband.policies import UCB, Policy, Setting
from kinband.posterior import INDUCING_POINTS
from kinband.records import Samples
from kinband.space import ConfigurationSpace

STATIONS, ARMS, STATE = 105, 29, ("active_users", "cqi_share", "small_packets", "small_volume", "users")
NOISE, MEAN, LENGTH_DB = 0.004, 0.8, 10.0
SPACE = ConfigurationSpace(handover_threshold_dbm=range(-112, -112 + ARMS))


def bench_kernel() -> RBF:
    """Return a kernel with a configuration length-scale of 10 dB.

    Example:
        >>> len(bench_kernel().length_scale)
        6
    """
    per_db = float(np.diff(SPACE.features[:2, 0])[0])
    return RBF([1.7, 3.0, 3.0, 3.0, 1.5, LENGTH_DB * per_db], variance=0.03)


def likeness(rng: np.random.Generator, stations: int = STATIONS) -> FloatArray:
    """Return a task matrix in which all stations have something in common, (M, M)."""
    A = rng.standard_normal((stations, 6))
    D2 = ((A[:, None] - A[None]) ** 2).sum(axis=-1)
    K_Z: FloatArray = np.exp(-D2 / np.median(D2))
    return K_Z


def log_of(rows: int, rng: np.random.Generator, *, stations: int = STATIONS) -> Samples:
    """Return a log of random rows."""
    arms = rng.integers(ARMS, size=rows)
    X = np.hstack([rng.standard_normal((rows, len(STATE))), SPACE.features[arms]])
    names = tuple(f"s{m}" for m in range(stations))
    y = MEAN + 0.1 * rng.standard_normal(rows)
    return Samples(names, np.arange(rows) % stations, X, y, None, (*STATE, *SPACE.feature_names), (), arms)


def states_of(rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Return a state for every station."""
    return {f"s{m}": dict(zip(STATE, rng.standard_normal(len(STATE)).tolist(), strict=True)) for m in range(STATIONS)}


def controller_of(
    rng: np.random.Generator,
    *,
    structure: bool,
    engine: str = "exact",
    rows: int = 0,
    inducing_points: int = INDUCING_POINTS,
) -> Controller:
    """Return a controller that knows so many rows; without `structure`, every arm has a column of its own."""
    return Controller(
        SPACE,
        [f"s{m}" for m in range(STATIONS)],
        state=STATE,
        similarity=likeness(rng),
        kernel=bench_kernel(),
        noise=NOISE,
        mean=MEAN,
        engine=engine,
        inducing_points=inducing_points,
        policy="ucb" if structure else plain_ucb,
        log=log_of(rows, rng) if rows else None,
    )


def plain_ucb(setting: Setting) -> Policy:
    """Return UCB that does not know that arms share a state."""
    return UCB.build(replace(setting, configurations=None))
