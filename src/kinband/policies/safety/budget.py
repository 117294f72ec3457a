"""The budget of what is expected: trials are paid out of what the configurations of today would have earned.

With today's configuration b and the arm a played in its place, a decision adds f(a) − (1 − α)f(b) to the budget, which
is αf(b) where today's is played. The promise is that the sum never falls below zero. Every decision counts with a lower
bound of what it adds: one that awaits its reward with the bound of the time of asking; one whose reward is known with
the bound of the time of telling, once that reward had been learned. Decisions of one round are weighed one after the
other, each after all before it have been counted.

Wu et al. (2016) take every bound anew at every decision, and Kazerouni et al. (2017) bound the sum as one; both cost
more with every decision made. Ours takes two bounds a decision, once and for all, at the price of a wider sum. It says
nothing of how rewards scatter around f; where a probability is stated, `rewards` is the budget that is kept.

What was told is part of what a policy believes; what is pending comes with the query, because asking must not change
beliefs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.policies.safety.drafts import BUDGET, NOTE, Draft
from kinband.policies.safety.margins import margins
from kinband.policies.safety.rules import Conservative
from kinband.policies.safety.staying import may_stay
from kinband.posterior import Posterior
from kinband.records import Observation

_ROUNDING = 1e-9  # a budget that misses zero by less has not been overdrawn


class Budget:
    """What has been earned beyond the promise, as far as it is sure.

    Args:
        rule: α, and whose budget it is.
        beliefs: What is believed; read only.
        tasks: Number of stations.

    Attributes:
        settled: Lower bounds of decisions whose reward is known, summed by station, (M,).

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), np.eye(2), noise=0.1, mean=0.8)
        >>> budget = Budget(Conservative(0.1), posterior, tasks=2)
        >>> memo = {"safety": {"lower": 0.03, "beta": 0.5}}
        >>> budget.settle(Observation(task=1, x=np.array([0.0]), arm=0, reward=0.8, memo=memo))
        >>> budget.settled.round(3)
        array([0.  , 0.03])
    """

    def __init__(self, rule: Conservative, beliefs: Posterior, *, tasks: int) -> None:
        self.rule, self._beliefs = rule, beliefs
        self.settled = np.zeros(tasks)

    def settle(self, observation: Observation) -> None:
        """Count a decision whose reward has just been learned; rows of a log are nobody's decisions."""
        note, x = observation.memo.get(NOTE, {}), observation.x
        if "lower" not in note:
            return
        today = np.array(note.get("x", x), dtype=np.float64)
        beta, task = np.array([note["beta"]]), observation.task
        added = margins(self._beliefs, [task], x[None], against=today[None], beta=beta, rule=self.rule)
        self.settled[task] += added[0]

    def weigh(self, drafts: Sequence[Draft], *, noise: float) -> list[Draft]:
        """Let through what the budget bears; the rest stays with what runs, or goes back to today's configuration."""
        today = [d.fallback(d.standing.baseline) for d in drafts]
        tasks = np.array([d.query.task for d in drafts])
        kept = np.array([d.query.X[arm] for d, arm in zip(drafts, today, strict=True)])
        beta = np.array([d.beta(self.rule.bounds, noise=noise) for d in drafts])
        tried, safe = self._margins(tasks, drafts, kept, beta), self._margins(tasks, drafts, kept, beta, arms=today)
        owed, weighed = dict(drafts[0].standing.pending), []
        for i, draft in enumerate(drafts):
            task, trial, lower = draft.query.task, draft.arm != today[i], float(tried[i])
            if trial and self._in_hand(owed, task) + lower < -_ROUNDING:
                trial = may_stay(draft, self._beliefs, today=today[i], beta=float(beta[i]))
                draft = draft.staying(by=BUDGET) if trial else draft.instead(today[i], by=BUDGET)
                if trial:
                    lower = float(self._margins(tasks[[i]], [draft], kept[[i]], beta[[i]])[0])
            lower = lower if trial else float(safe[i])
            owed[task] = owed.get(task, 0.0) + lower
            note = {"lower": lower, "beta": float(beta[i]), **({"x": kept[i].tolist()} if trial else {})}
            weighed.append(replace(draft, note={**draft.note, **note}))
        return weighed

    def _margins(
        self,
        tasks: IntArray,
        drafts: Sequence[Draft],
        kept: FloatArray,
        beta: FloatArray,
        *,
        arms: Sequence[int] | None = None,
    ) -> FloatArray:
        """Return what drafts add at least, or other arms in their place, (m,)."""
        played = [d.arm for d in drafts] if arms is None else arms
        X = np.array([d.query.X[arm] for d, arm in zip(drafts, played, strict=True)])
        return margins(self._beliefs, tasks, X, against=kept, beta=beta, rule=self.rule)

    def state(self) -> dict[str, Any]:
        """Return what was counted as arrays by name."""
        return {"settled": self.settled.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        self.settled = np.array(state["settled"], dtype=np.float64)

    def _in_hand(self, owed: Mapping[int, float], task: int) -> float:
        """Return what is in the budget for sure: of the station, or of the network."""
        if self.rule.per_station:
            return float(self.settled[task]) + owed.get(task, 0.0)
        return fsum(self.settled) + fsum(owed.values())
