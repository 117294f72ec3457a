"""Whose evidence an estimate rests on, and how many rewards' worth of it was borrowed.

The posterior mean is linear in the rewards, f̂(x̃) = mean + a·(y − mean) with the weights a = (K̃ + diag(noise))⁻¹ k̃(x̃)
of (9). A station's *share* is that of Σ|a| which lies on its rows.

What evidence is *worth* is counted in rewards. A further reward of the station itself, in the very context x and with
noise λ, adds 1/λ to the precision 1/σ² of f(x), whatever else is known. So the rows that narrow σ₀ to σ are worth
λ(1/σ² − 1/σ₀²) such rewards: with σ₀ from the prior and σ from the station's own rows it is what its own rows are worth
here, with σ₀ from its own rows and σ from all rows what it borrowed, and the two add up to the worth of all.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.controller.explanation.hindsight import Part
from kinband.controller.settings import Settings
from kinband.kernels import components
from kinband.posterior.base import Rows


@dataclass(frozen=True)
class Evidence:
    """What an estimate rested on when its decision was made.

    Attributes:
        station: Whose estimate it is.
        shares: Share of every station that has one, its own among them, largest first; they add up to 1, and there are
            none where nothing told says anything about the context.
        own_rows: Rewards of the station that were known.
        other_rows: Rewards of all stations that it shares with.
        prior_width: Standard deviation of f before any reward.
        width_alone: The same from the station's own rewards alone.
        width: The same from all rewards.
        own_worth: What its own rewards are worth here, in rewards of its own in the same context.
        borrowed_worth: What the others' rewards add, in the same measure.

    Example:
        >>> evidence = Evidence("a", {"a": 0.75, "b": 0.25}, 8, 40, 1.0, 0.2, 0.1, own_worth=6.0, borrowed_worth=18.75)
        >>> evidence.own_share, evidence.lenders
        (0.75, {'b': 0.25})
    """

    station: str
    shares: Mapping[str, float]
    own_rows: int
    other_rows: int
    prior_width: float
    width_alone: float
    width: float
    own_worth: float
    borrowed_worth: float

    @property
    def own_share(self) -> float:
        """The station's own share."""
        return self.shares.get(self.station, 0.0)

    @property
    def lenders(self) -> dict[str, float]:
        """The shares of the other stations, largest first."""
        return {name: share for name, share in self.shares.items() if name != self.station}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "shares": dict(self.shares), "own_share": self.own_share}


def worth_of(variance: ArrayLike, before: ArrayLike, *, noise: float) -> FloatArray:
    """Return how many rewards with this noise narrow a variance `before` (m,) to `variance` (m,).

    Example:
        >>> worth_of([0.2, 1.0], [1.0, 1.0], noise=0.25)
        array([1., 0.])
    """
    after, first = np.atleast_1d(np.asarray(variance, float)), np.atleast_1d(np.asarray(before, float))
    sure = np.minimum(after, first) <= 0.0  # known without any reward: nothing is left to be worth something
    worth = noise * (1.0 / np.where(sure, 1.0, after) - 1.0 / np.where(sure, 1.0, first))
    return np.where(sure, 0.0, np.maximum(worth, 0.0))


def shares_of(weights: FloatArray, tasks: IntArray, *, size: int) -> FloatArray:
    """Return the share of each of `size` tasks in m estimates, (m, size), from the weights (n, m) of its rows.

    Example:
        >>> shares_of(np.array([[0.3], [-0.1]]), np.array([1, 0]), size=2)
        array([[0.25, 0.75]])
    """
    totals = np.equal.outer(np.arange(size), tasks) @ np.abs(weights)
    whole = totals.sum(axis=0)
    found: FloatArray = (totals / np.where(whole > 0, whole, 1.0)).T
    return found


def task_matrix_of(settings: Settings) -> FloatArray | None:
    """Return the task matrix that a controller's policy shares by, (M, M); None where it has no such posterior.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> alone = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], similarity="pooled", policy="kernel-ucb")
        >>> task_matrix_of(alone.settings)
        array([[1., 0.],
               [0., 1.]])
    """
    match settings.policy:
        case "ucb" | "thompson":
            return settings.K_Z
        case "pooled":
            return np.ones_like(settings.K_Z)
        case "kernel-ucb" | "cgp-ucb":
            return np.eye(len(settings.K_Z))
    return None


def related(K_Z: FloatArray, task: int) -> IntArray:
    """Return the tasks that share evidence with one, itself among them, ascending.

    Example:
        >>> related(np.array([[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]]), 2)
        array([0, 2])
    """
    return next(members for members in components(K_Z) if task in members)


def weigh(rows: Rows, task: int, *, X: FloatArray, settings: Settings, K_Z: FloatArray) -> tuple[Evidence, FloatArray]:
    """Return what the estimate for a task at the first context of X (m, d) rests on, and the covariance of f at all.

    Args:
        rows: The rows known, of all tasks.
        task: Number of the station.
        X: Its contexts.
        settings: For the kernel, the noise, the prior mean and the names.
        K_Z: The task matrix to share by, (M, M).
    """
    part, alone = Part(rows, related(K_Z, task)), Part(rows, [task])
    past, own = (one.hindsight(settings.kernel, K_Z, mean=settings.mean) for one in (part, alone))
    here, self_ = np.full(len(X), part.local(task)), np.zeros(1, dtype=np.int64)
    C = past.covariance(here, X, known=len(part))
    a = past.weights(here[:1], X[:1], known=len(part))
    before = float(own.predict(self_, X[:1], known=len(alone))[1][0])
    prior = float(own.predict(self_, X[:1], known=0)[1][0])
    lent = shares_of(a, part.rows.tasks, size=len(part.members))[0]
    # Rounding put right: rows never widen, and without others' rows nothing changes.
    variance = min(max(float(C[0, 0]), 0.0), before) if len(part) > len(alone) else before
    names = [settings.stations[m] for m in part.members]
    order = [int(i) for i in np.argsort(-lent, kind="stable") if lent[i] > 0]
    evidence = Evidence(
        settings.stations[task],
        {names[i]: float(lent[i]) for i in order},
        own_rows=len(alone),
        other_rows=len(part) - len(alone),
        prior_width=prior**0.5,
        width_alone=before**0.5,
        width=variance**0.5,
        own_worth=float(worth_of(before, prior, noise=settings.noise)[0]),
        borrowed_worth=float(worth_of(variance, before, noise=settings.noise)[0]),
    )
    return evidence, C
