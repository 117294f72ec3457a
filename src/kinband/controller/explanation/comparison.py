"""Why not the runner-up: how far it lay behind, how sure that is, and what would have put it first.

The difference of two estimates is surer than either where both are uncertain for the same reason, so its variance takes
their covariance: σ(a − b)² = σ(a)² + σ(b)² − 2cov(a, b). One more reward r of the runner-up b, in the same state and
with noise λ, would move its mean by (r − f̂(b))σ(b)²/(σ(b)² + λ) and that of the chosen a in proportion to cov(a, b),
and narrow both; the reward at which the two scores (12) meet follows from that.
"""

from dataclasses import asdict, dataclass
from math import erf, sqrt
from typing import Any

from kinband.arrays import FloatArray
from kinband.packed import Alternative
from kinband.records import Decision


@dataclass(frozen=True)
class Comparison:
    """What was chosen against the runner-up, as of the decision.

    Attributes:
        difference: Expected reward of what was chosen, less that of the runner-up.
        deviation: Standard deviation of that difference; None where it was not weighed.
        probability: That what was chosen earns more, under the model; None likewise.
        needed_mean: Expected reward with which the runner-up, as uncertain as it was, would have come first; None where
            scores did not decide.
        needed_reward: One more reward of the runner-up in the same state that would have put it first; None where no
            single reward would, or where it was not worked out.

    Example:
        >>> Comparison(0.02, 0.01, 0.977, needed_mean=0.93, needed_reward=None).to_dict()["difference"]
        0.02
    """

    difference: float
    deviation: float | None
    probability: float | None
    needed_mean: float | None
    needed_reward: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def compare(
    decision: Decision, runner_up: Alternative | None, *, C: FloatArray | None, beta: float | None, noise: float
) -> Comparison | None:
    """Return how a decision stands against its runner-up; None where one of them has no scores.

    Args:
        decision: With its scores as stored when asking.
        runner_up: Likewise.
        C: Covariance of f at the two, (2, 2), if it was worked out.
        beta: Weight of a width in the scores, if it is known.
        noise: Variance of one more reward.
    """
    if runner_up is None or runner_up.mean is None or decision.mean is None:
        return None
    difference = decision.mean - runner_up.mean
    deviation = None if C is None else sqrt(max(float(C[0, 0] + C[1, 1] - 2 * C[0, 1]), 0.0))
    held_back = "held_back" in decision.memo.get("safety", {})
    if held_back or decision.ucb is None or runner_up.ucb is None:
        return Comparison(difference, deviation, _probability(difference, deviation), None, None)
    gap = max(decision.ucb - runner_up.ucb, 0.0)
    reward = None if C is None or beta is None else needed_reward(C, gap=gap, beta=beta, noise=noise)
    reward = None if reward is None else runner_up.mean + reward
    return Comparison(difference, deviation, _probability(difference, deviation), runner_up.mean + gap, reward)


def needed_reward(C: FloatArray, *, gap: float, beta: float, noise: float) -> float | None:
    """Return by how much a reward of the runner-up must beat its mean to close a gap of scores; None if none can.

    Args:
        C: Covariance of f at what was chosen and at the runner-up, (2, 2).
        gap: By how much the score of what was chosen is larger.
        beta: Weight of a width in the scores.
        noise: Variance of the reward.

    Example:
        >>> import numpy as np
        >>> needed_reward(np.array([[0.1, 0.0], [0.0, 0.1]]), gap=0.2, beta=0.0, noise=0.1)
        0.4
    """
    a, b, both = float(C[0, 0]), float(C[1, 1]), float(C[0, 1])
    slope = (b - both) / (b + noise)
    if slope <= 1e-12:
        return None
    narrower_a = sqrt(max(a - both**2 / (b + noise), 0.0)) - sqrt(max(a, 0.0))
    narrower_b = sqrt(b * noise / (b + noise)) - sqrt(b)
    return (gap - beta * (narrower_b - narrower_a)) / slope


def _probability(difference: float, deviation: float | None) -> float | None:
    """That a normal variable of this mean and deviation is above zero."""
    if not deviation:
        return None
    return 0.5 * (1.0 + erf(difference / (deviation * sqrt(2.0))))
