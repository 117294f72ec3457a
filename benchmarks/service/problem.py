"""What a load test asks: 105 stations, 29 thresholds, five state features, and a controller that knows 4,000 rows.

The controller is what an operator has once a log has been learned: a sparse posterior of 512 inducing points
and a budget for trials. The task matrix is given. Everything follows from the seed, so that two processes have the same
controller.
"""

from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.kernels import RBF
from kinband.policies.safety import Conservative
from kinband.records import Samples
from kinband.space import ConfigurationSpace

STATIONS, ROWS = 105, 4000
STATE = ("active_users", "cqi_share", "small_packets", "small_volume", "users")
SPACE = ConfigurationSpace(handover_threshold_dbm=range(-112, -83))
RUNNING = {"handover_threshold_dbm": -100}

_NOISE, _MEAN, _LATENT = 0.004, 0.8, 6


def station_names(count: int = STATIONS) -> list[str]:
    """Return the names of the stations.

    Example:
        >>> station_names(2)
        ['s0', 's1']
    """
    return [f"s{number}" for number in range(count)]


def load_controller(seed: int, *, stations: int = STATIONS, rows: int = ROWS) -> Controller:
    """Return the controller that is asked.

    Args:
        seed: Draws the log and how alike stations are.
        stations: How many.
        rows: How many rows it knows.

    Example:
        >>> len(load_controller(3, stations=4, rows=40).stations)
        4
    """
    rng = np.random.default_rng([seed, 1])
    A = rng.standard_normal((stations, _LATENT))
    D2: FloatArray = ((A[:, None] - A[None]) ** 2).sum(axis=-1)
    per_db = float(np.diff(SPACE.features[:2, 0])[0])
    return Controller(
        SPACE, station_names(stations), state=STATE, similarity=np.exp(-D2 / np.median(D2[D2 > 0])),
        kernel=RBF([1.7, 3.0, 3.0, 3.0, 1.5, 10.0 * per_db], variance=0.03), noise=_NOISE, mean=_MEAN,
        engine="sparse", log=_log(rows, stations, rng),
        safety=Conservative(0.05, delta=0.05), running=RUNNING, seed=seed,
    )  # fmt: skip


def _log(rows: int, stations: int, rng: np.random.Generator) -> Samples:
    arms = rng.integers(len(SPACE), size=rows)
    X = np.hstack([rng.standard_normal((rows, len(STATE))), SPACE.features[arms]])
    y = _MEAN + 0.1 * rng.standard_normal(rows)
    names = tuple(station_names(stations))
    return Samples(names, np.arange(rows) % stations, X, y, None, (*STATE, *SPACE.feature_names), (), arms)


def states_of(names: list[str], rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Return a state for each of some stations.

    Example:
        >>> list(states_of(["s0"], np.random.default_rng(0))["s0"])[:2]
        ['active_users', 'cqi_share']
    """
    return {name: dict(zip(STATE, rng.standard_normal(len(STATE)).tolist(), strict=True)) for name in names}


def rewards_of(ids: list[str], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return an outcome for each of some decisions.

    Example:
        >>> rewards_of(["d1"], np.random.default_rng(0))[0]["decision"]
        'd1'
    """
    return [{"decision": key, "reward": round(float(_MEAN + 0.1 * rng.standard_normal()), 6)} for key in ids]
