"""How far each station may borrow: the weight of sharing, from rewards that were foretold with and without it.

For station z let s and o be the densities of a reward foretold by the shared posterior and by the station's own
(prequential, Dawid 1984). The odds of sharing grow by s/o with every reward of the station. After each, a little of the
weight returns to the fleet's,

    w ← (1 − ρ) w' + ρ π,

so that evidence is forgotten over about 1/ρ rewards and a station that stopped borrowing can resume (the fixed share of
Herbster and Warmuth 1998). π, the fleet's weight, is the mean of its stations' and of two made-up ones at 0 and 1
(empirical Bayes): where sharing helps nearly everyone, one station's bad luck does not stop it; where it hurts,
newcomers begin on their own.
"""

from collections.abc import Mapping

import numpy as np

from kinband.arrays import FloatArray, IntArray

FORGOTTEN = 0.01
"""ρ, the share of a station's weight that returns to the fleet's with every reward."""

BORROWS = 0.05
"""A station whose weight is below this has stopped borrowing, as reports say it."""

_SURE = 700.0  # log odds beyond which exp overflows


class SharingWeights:
    """The weight of sharing of every task, between 0 and 1.

    Args:
        tasks: How many there are.

    Example:
        >>> weights = SharingWeights(2)
        >>> for _ in range(5):
        ...     weights.tell(np.array([0]), np.array([-1.0]))  # foretold worse by one nat each time
        >>> weights.of(np.array([0, 1])).round(2).tolist()  # the second follows the fleet
        [0.01, 0.34]
    """

    def __init__(self, tasks: int) -> None:
        self._weights = np.full(tasks, 0.5)
        self._known = np.zeros(tasks, dtype=np.bool_)
        self.fleet = 0.5

    def __len__(self) -> int:
        return len(self._weights)

    def of(self, tasks: int | IntArray) -> FloatArray:
        """Return the weights of tasks; one without a reward yet follows the fleet."""
        found: FloatArray = np.where(self._known, self._weights, self.fleet)[tasks]
        return found

    def tell(self, tasks: IntArray, gains: FloatArray) -> None:
        """Take in rewards of tasks (n,), foretold better by `gains` (n,) nats with sharing than without, in order."""
        for task, gain in zip(tasks.tolist(), gains.tolist(), strict=True):
            w = self._weights[task] if self._known[task] else self.fleet
            log_odds = np.log(w) - np.log1p(-w) + gain
            raised = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -_SURE, _SURE)))
            self._weights[task] = (1.0 - FORGOTTEN) * raised + FORGOTTEN * self.fleet
            self._known[task] = True
            told = self._weights[self._known]
            self.fleet = float((1.0 + told.sum()) / (2.0 + len(told)))

    def extend(self, tasks: int) -> None:
        """Take in further tasks, up to so many."""
        further = tasks - len(self)
        self._weights = np.append(self._weights, np.full(further, 0.5))
        self._known = np.append(self._known, np.zeros(further, dtype=np.bool_))

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return the weights as plain arrays."""
        known = self._known.astype(np.int64)
        return {"weights": self._weights.copy(), "weighed": known, "fleet": np.array([self.fleet])}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self._weights = np.array(state["weights"], dtype=np.float64)
        self._known = np.array(state["weighed"], dtype=np.bool_)
        self.fleet = float(state["fleet"][0])
