"""The promises of safe trials hold as often as stated, where their assumptions do.

Functions are drawn from the model that the controller believes in, which is what the Bayesian bounds assume. A run
breaks the promise of `Conservative` if the sum of f(a) − (1 − α)f(b) over its decisions is negative at any time, and
that of `Floor` if any trial earns more than the drop below what ran. If a run fails with probability at most δ, the
share of failures among n exceeds δ + 3√(δ(1 − δ)/n) with probability about 0.001.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray
from kinband.kernels import RBF
from kinband.policies import Conservative, Floor
from kinband.theory import gram

M, N, SLOTS, RUNS = 3, 7, 24, 30
DELTA, ALPHA, DROP, TODAY = 0.2, 0.04, 0.15, 0
KERNEL, NOISE, MEAN = RBF(1.2, variance=0.06), 0.003, 1.0
K_Z = np.full((M, M), 0.7) + 0.3 * np.eye(M)
STATIONS = [f"s{m}" for m in range(M)]


@dataclass(frozen=True, eq=False)
class World:
    """Contexts (T, M, N, 2) and what each earns, (T, M, N)."""

    X: FloatArray
    f: FloatArray


def draw(rng: np.random.Generator) -> World:
    """A state in [0, 1] a slot and station, arms evenly over [0, 1], and f drawn from the model at all of them."""
    X = np.empty((SLOTS, M, N, 2))
    X[..., 0], X[..., 1] = rng.random((SLOTS, M, 1)), np.linspace(0.0, 1.0, N)
    tasks = np.broadcast_to(np.arange(M)[:, None], (SLOTS, M, N)).ravel()
    K = gram(tasks, X.reshape(-1, 2), kernel=KERNEL, K_Z=K_Z)
    L = np.linalg.cholesky(K + 1e-9 * np.eye(len(K)))
    return World(X, MEAN + (L @ rng.standard_normal(len(K))).reshape(SLOTS, M, N))


def arms_played(world: World, safety: Any, rng: np.random.Generator, *, beta: Any) -> Any:
    """Arms that a controller plays in rounds, (T, M)."""
    controller = Controller(
        ConfigurationSpace(arm=range(N)), STATIONS, features=["state", "knob"], similarity=K_Z, kernel=KERNEL,
        noise=NOISE, mean=MEAN, beta=beta, engine="exact", safety=safety, running={"arm": TODAY},
    )  # fmt: skip
    arms = np.empty((SLOTS, M), dtype=np.int64)
    for t in range(SLOTS):
        made = controller.ask_all(contexts=dict(zip(STATIONS, world.X[t], strict=True)))
        for m, decision in enumerate(made.values()):
            arms[t, m] = decision.arm
            controller.tell(decision.id, float(world.f[t, m, decision.arm] + math.sqrt(NOISE) * rng.normal()))
    return arms


def overdrawn(world: World, arms: Any) -> bool:
    """Whether the budget was below zero after any decision."""
    f = world.f.reshape(-1, N)
    added = f[np.arange(len(f)), arms.ravel()] - (1.0 - ALPHA) * f[:, TODAY]
    return bool(np.cumsum(added).min() < 0)


def below_floor(world: World, arms: Any) -> bool:
    """Whether any trial earned less than the drop below what ran before it."""
    before = np.vstack([np.full((1, M), TODAY), arms[:-1]])
    t, m = np.indices((SLOTS, M))
    return bool((world.f[t, m, arms] < world.f[t, m, before] - DROP).any())


def share(safety: Any, broken: Any, *, beta: Any = 2.0) -> tuple[float, float]:
    """Share of runs in which a promise is broken, and of decisions that are not what was declared."""
    rng = np.random.default_rng(40)
    failures, trials = [], []
    for _ in range(RUNS):
        world = draw(rng)
        arms = arms_played(world, safety, rng, beta=beta)
        failures.append(broken(world, arms))
        trials.append((arms != TODAY).mean())
    return float(np.mean(failures)), float(np.mean(trials))


LIMIT = DELTA + 3.0 * math.sqrt(DELTA * (1.0 - DELTA) / RUNS)


@pytest.mark.parametrize(
    ("safety", "broken"),
    [
        (Conservative(ALPHA, delta=DELTA), overdrawn),
        (Conservative(ALPHA, per_station=True, delta=DELTA), overdrawn),
        (Floor(DROP, delta=DELTA), below_floor),
    ],
    ids=["network", "station", "floor"],
)
def test_a_promise_is_broken_no_more_often_than_stated_and_trials_are_made(safety: Any, broken: Any) -> None:
    failures, trials = share(safety, broken)
    assert failures <= LIMIT
    assert trials > 0.02


@pytest.mark.parametrize("broken", [overdrawn, below_floor])
def test_plain_ucb_breaks_both_promises(broken: Any) -> None:
    failures, _ = share(None, broken)
    assert failures > LIMIT
