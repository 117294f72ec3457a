"""The promises of safe trials hold as often as stated, where their assumptions do.

Functions are drawn from the model that the controller believes in, which is what the Bayesian bounds assume, and every
configuration has a reward in every slot, played or not. A run breaks the promise of `Conservative` if the sum of
r(a) − (1 − α)r(b) over its decisions is negative at any time, in rewards or, with f in place of r, in expectation; and
that of `Floor` with such bounds if any trial earns more than the drop below what ran. If a run fails with probability
at most δ, the share of failures among n exceeds δ + 3√(δ(1 − δ)/n) with probability about 0.001. A rate is a share of
changes, and is to be kept by a model that is wrong.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray
from kinband.kernels import RBF
from kinband.policies import Conservative, Floor, KrauseOng
from kinband.theory import gram

M, N, SLOTS, RUNS = 3, 7, 24, 30
DELTA, ALPHA, DROP, TODAY = 0.2, 0.04, 0.15, 0
KERNEL, NOISE, MEAN = RBF(1.2, variance=0.06), 0.003, 1.0
FLAT, LOUD = RBF(1.2, variance=0.0004), 0.02  # configurations hardly differ, and rewards scatter far more
K_Z = np.full((M, M), 0.7) + 0.3 * np.eye(M)
STATIONS = [f"s{m}" for m in range(M)]


@dataclass(frozen=True, eq=False)
class World:
    """Contexts (T, M, N, 2), what each is expected to earn and what it earns, (T, M, N)."""

    X: FloatArray
    f: FloatArray
    r: FloatArray
    kernel: RBF
    noise: float


def draw(rng: np.random.Generator, kernel: RBF, noise: float) -> World:
    """A state in [0, 1] a slot and station, arms evenly over [0, 1], and f drawn from the model at all of them."""
    X = np.empty((SLOTS, M, N, 2))
    X[..., 0], X[..., 1] = rng.random((SLOTS, M, 1)), np.linspace(0.0, 1.0, N)
    tasks = np.broadcast_to(np.arange(M)[:, None], (SLOTS, M, N)).ravel()
    K = gram(tasks, X.reshape(-1, 2), kernel=kernel, K_Z=K_Z)
    L = np.linalg.cholesky(K + 1e-9 * np.eye(len(K)))
    f = MEAN + (L @ rng.standard_normal(len(K))).reshape(SLOTS, M, N)
    return World(X, f, f + math.sqrt(noise) * rng.standard_normal(f.shape), kernel, noise)


def arms_played(world: World, safety: Any) -> Any:
    """Arms that a controller plays in rounds, (T, M)."""
    controller = Controller(
        ConfigurationSpace(arm=range(N)), STATIONS, features=["state", "knob"], similarity=K_Z, kernel=world.kernel,
        noise=world.noise, mean=MEAN, beta=2.0, engine="exact", safety=safety, running={"arm": TODAY},
    )  # fmt: skip
    arms = np.empty((SLOTS, M), dtype=np.int64)
    for t in range(SLOTS):
        made = controller.ask_all(contexts=dict(zip(STATIONS, world.X[t], strict=True)))
        for m, decision in enumerate(made.values()):
            arms[t, m] = decision.arm
            controller.tell(decision.id, float(world.r[t, m, decision.arm]))
    return arms


def added(world: World, arms: Any, earned: FloatArray) -> FloatArray:
    """What each decision adds to the budget, (T, M)."""
    t, m = np.indices((SLOTS, M))
    return np.asarray(earned[t, m, arms] - (1.0 - ALPHA) * earned[..., TODAY])


def overdrawn(world: World, arms: Any) -> bool:
    """Whether the budget was below zero after any decision in expectation."""
    return bool(np.cumsum(added(world, arms, world.f)).min() < 0)


def overdrawn_in_rewards(world: World, arms: Any) -> bool:
    return bool(np.cumsum(added(world, arms, world.r)).min() < 0)


def a_station_overdrawn(world: World, arms: Any) -> bool:
    return any(bool((np.cumsum(added(world, arms, earned), axis=0) < 0).any()) for earned in (world.f, world.r))


def below_floor(world: World, arms: Any) -> bool:
    """Whether any trial earned less than the drop below what ran before it."""
    before = np.vstack([np.full((1, M), TODAY), arms[:-1]])
    t, m = np.indices((SLOTS, M))
    return bool((world.f[t, m, arms] < world.f[t, m, before] - DROP).any())


def share(
    safety: Any, broken: Any, *, kernel: RBF = KERNEL, noise: float = NOISE, runs: int = RUNS
) -> tuple[float, float]:
    """Share of runs in which a promise is broken, and of decisions that are not what was declared."""
    rng = np.random.default_rng(40)
    failures, trials = [], []
    for _ in range(runs):
        world = draw(rng, kernel, noise)
        arms = arms_played(world, safety)
        failures.append(broken(world, arms))
        trials.append((arms != TODAY).mean())
    return float(np.mean(failures)), float(np.mean(trials))


def limit(runs: int) -> float:
    return DELTA + 3.0 * math.sqrt(DELTA * (1.0 - DELTA) / runs)


LIMIT = limit(RUNS)


@pytest.mark.parametrize(
    ("safety", "broken"),
    [
        (Conservative(ALPHA, delta=DELTA), overdrawn),
        (Conservative(ALPHA, delta=DELTA), overdrawn_in_rewards),
        (Conservative(ALPHA, per_station=True, delta=DELTA), a_station_overdrawn),
        (Conservative(ALPHA, delta=DELTA, of="expected"), overdrawn),
        (Floor(DROP, bounds=KrauseOng(DELTA)), below_floor),
    ],
    ids=["network", "network, rewards", "station", "of what is expected", "floor"],
)
def test_a_promise_is_broken_no_more_often_than_stated_and_trials_are_made(safety: Any, broken: Any) -> None:
    failures, trials = share(safety, broken)
    assert failures <= LIMIT
    assert trials > 0.01


@pytest.mark.parametrize("broken", [overdrawn, overdrawn_in_rewards, below_floor])
def test_plain_ucb_breaks_every_promise(broken: Any) -> None:
    failures, _ = share(None, broken, runs=2 * RUNS)
    assert failures > limit(2 * RUNS)


def test_where_rewards_scatter_a_promise_of_what_is_expected_is_none_of_rewards() -> None:
    world: dict[str, Any] = {"kernel": FLAT, "noise": LOUD}
    failures, _ = share(Conservative(ALPHA, delta=DELTA, of="expected"), overdrawn_in_rewards, **world)
    assert failures > LIMIT
    failures, trials = share(Conservative(ALPHA, delta=DELTA), overdrawn_in_rewards, **world)
    assert failures <= LIMIT
    assert trials > 0.02


# --- Where the assumptions do not hold: a rate is kept whatever the model -------------------------------------------


def falls_and_changes(safety: Any, *, too_sure: float, runs: int = 2 * RUNS) -> FloatArray:
    """Changes that earn more than the drop less than what ran before, and changes, a run, (runs, 2).

    The controller believes in a kernel whose standard deviation is too small by a factor.
    """
    rng, counted = np.random.default_rng(41), []
    for _ in range(runs):
        world = draw(rng, KERNEL, NOISE)
        arms = arms_played(replace(world, kernel=RBF(1.2, variance=KERNEL.variance / too_sure**2)), safety)
        before = np.vstack([np.full((1, M), TODAY), arms[:-1]])
        t, m = np.indices((SLOTS, M))
        fell = world.f[t, m, arms] < world.f[t, m, before] - DROP
        counted.append((fell.sum(), (arms != before).sum()))
    return np.array(counted, dtype=np.float64)


def test_a_rate_is_kept_by_a_model_that_is_too_sure_and_its_own_word_costs_more() -> None:
    stated = 0.1
    word = Floor(DROP, bounds=NormalDist().inv_cdf(1.0 - stated))
    ours, its = (falls_and_changes(rule, too_sure=8.0) for rule in (Floor(DROP, delta=stated), word))
    falls, changes = ours.sum(axis=0)
    error = np.std(ours[:, 0] - falls / changes * ours[:, 1]) * math.sqrt(len(ours)) / changes
    assert falls / changes <= stated + 3.0 * error
    assert changes > 3 * len(ours)
    fewer = its[:, 0] - ours[:, 0]  # on the same worlds
    assert fewer.mean() > 3.0 * fewer.std() / math.sqrt(len(fewer))
