"""What decisions of one round add to a budget of rewards, bounded as one sum.

Given all that was told before the round, what its decisions are about to earn, and what today's configurations would
earn in their place, is jointly normal. So is any sum of it, and one bound serves the sum: β times the root of its
variance, the scatter of rewards included. The sum of a bound for each decision holds as well, and is larger only where
little is known; a decision's own bound is what it counts with if it is still pending in later rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from kinband.arrays import FloatArray
from kinband.policies.safety.drafts import Draft
from kinband.policies.safety.rules import Conservative
from kinband.posterior import Posterior

DRAFTED, TODAY, RUNNING = range(3)
"""What may be played: what was drafted, what was declared, and what the station runs."""


@dataclass(frozen=True, eq=False)
class Sum:
    """What some decisions of a round add together.

    Attributes:
        weights: Of f at what was drafted and, behind it, at what was declared and at what runs, (2m,) or (3m,).
        scatter: Variance of the rewards' part, in units of one reward's.
        alone: Sum of the decisions' own bounds.
        lower: Bound of the sum, the better of the two.
    """

    weights: FloatArray
    scatter: float = 0.0
    alone: float = 0.0
    lower: float = 0.0


class Round:
    """Beliefs about m decisions of a round, and about today's configurations in their place.

    Args:
        drafts: What would be played.
        today: Arms of the declared configurations.
        beliefs: What is believed; read only.
        rule: α, and what rewards are counted from.
        noise: Variance of a reward around f.
        running: Arms that stations run, where some of them may have to stay with these.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> from kinband.records import Choice, Query, Standing
        >>> posterior = ExactPosterior(RBF(0.5), np.eye(1), noise=0.04, mean=0.8)
        >>> query = Query(0, np.array([[0.0], [9.0]]), np.array([True, True]), Standing(baseline=0))
        >>> draft = Draft(query, Choice(1, query.arms), np.array([0.8, 0.8]), arm=1)
        >>> round_ = Round([draft], [0], posterior, rule=Conservative(0.1, delta=0.05), noise=0.04)
        >>> [round(round_.own(0, played, beta=0.2), 3) for played in (TODAY, DRAFTED)]
        [0.06, -0.194]
    """

    def __init__(
        self,
        drafts: Sequence[Draft],
        today: Sequence[int],
        beliefs: Posterior,
        *,
        rule: Conservative,
        noise: float,
        running: Sequence[int] = (),
    ) -> None:
        parts = [[d.arm for d in drafts], list(today), *([list(running)] if running else [])]
        X = np.array([[d.query.X[arm] for d, arm in zip(drafts, arms, strict=True)] for arms in parts])
        self.kept = X[TODAY]
        seen = drafts[0].believed([arm for [arm] in parts]) if len(drafts) == 1 else None
        tasks = [d.query.task for d in drafts] * len(parts)
        found = seen or beliefs.predict(np.array(tasks), np.concatenate(X))
        self._mean, self._covariance = found.mean - rule.least, found.covariance()
        self._alpha, self._noise, self._size = rule.alpha, noise, len(drafts)

    @property
    def nothing(self) -> Sum:
        """The sum of no decision."""
        return Sum(np.zeros(len(self._mean)))

    def counted(self, total: Sum, i: int, played: int, *, beta: float) -> tuple[float, Sum]:
        """Return the bound of the i-th decision by itself, whichever of the three is played, and the sum with it."""
        own = self.own(i, played, beta=beta)
        weights, scatter = self._added(total.weights, i, played)
        scatter += total.scatter
        alone = total.alone + own
        return own, Sum(weights, scatter, alone, max(self._bound(weights, scatter, beta), alone))

    def own(self, i: int, played: int, *, beta: float) -> float:
        """Return the bound of a decision by itself; what it plays earns `least` at least."""
        bound = self._bound(*self._added(self.nothing.weights, i, played), beta)
        if played == TODAY:
            return max(bound, 0.0)
        today = self.nothing.weights
        today[self._size + i] = -(1.0 - self._alpha)
        return max(bound, min(self._bound(today, (1.0 - self._alpha) ** 2, beta), 0.0))

    def _added(self, weights: FloatArray, i: int, played: int) -> tuple[FloatArray, float]:
        """Return weights with those of a decision added, and the variance that its rewards bring."""
        weights, rest = weights.copy(), 1.0 - self._alpha
        if played == TODAY:
            weights[self._size + i] += self._alpha
            return weights, self._alpha**2
        weights[[played * self._size + i, self._size + i]] += 1.0, -rest
        return weights, 1.0 + rest**2

    def _bound(self, weights: FloatArray, scatter: float, beta: float) -> float:
        variance = max(float(weights @ self._covariance @ weights), 0.0) + scatter * self._noise
        return float(weights @ self._mean) - beta * sqrt(variance)
