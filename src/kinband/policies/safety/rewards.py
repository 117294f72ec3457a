"""The budget of rewards: what was earned is a fact, and only what today's configuration would have earned is unknown.

With today's configuration b and the arm a played in its place, a decision adds r(a) − (1 − α)r(b) to the budget. Where
b itself is played that is αr(b), a fact once the reward is told. Of a trial r(a) is a fact too; of r(b), two things are
not known: f(b), which is believed within σ(b), and how the reward would have scattered around it. Counting rewards
where they are known is what Garcelon, Ghavamzadeh, Lazaric and Pirotta (2020) do. Three departures keep the price low:

- *As much fact as helps.* Where a and b are uncertain for a common reason, f(a) − f(b) is known better than f(b), and
  the scatter of r(a) would only blur it. A trial counts with k r(a) + (1 − k)f(a) − (1 − α)f(b), where k from 0 to 1
  makes that most certain: 1 − k is (1 − α)cov(a, b)/σ(a)².
- *Trials as one.* Errors at different contexts partly make up for each other. Eight trials at a time are bounded as
  one sum, with what is known by then, and `doubt_allowance` serves all such blocks. Kazerouni et al. (2017) bound all
  trials as one, anew at every decision, at a cost that grows. So are decisions of one round (`rounds`).
- *Scatter grows like a root*, since it is independent from trial to trial: `scatter_allowance` serves all trials.

δ is shared out. Half of it goes to bounds of single decisions, united over all: of the round up to this one, of this
one while its reward is awaited, of what today's could earn at most, of a trial until its block is full, and of what a
station runs where a trial is held back (`staying`). A quarter
goes to the blocks, a quarter to scatter. Stations with budgets of their own divide these two quarters among them.

The same reserve keeps the promise in expectation, each of the two with probability 1 − δ. In rewards a trial scatters
by (1 − k)ε(a) − (1 − α)ε(b), in expectation by kε(a), and the larger of the two variances is counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, sqrt
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.policies.exploration import KrauseOng
from kinband.policies.safety.allowances import doubt_allowance, scatter_allowance
from kinband.policies.safety.drafts import BUDGET, NOTE, Draft, Work
from kinband.policies.safety.margins import TOGETHER
from kinband.policies.safety.rounds import DRAFTED, RUNNING, TODAY, Round
from kinband.policies.safety.rules import Conservative
from kinband.policies.safety.staying import may_stay
from kinband.policies.safety.trials import Trial, believed
from kinband.posterior import Posterior
from kinband.records import Observation

_ROUNDING = 1e-9  # a budget that misses zero by less has not been overdrawn
# Trials bounded as one sum. On three seeds 4 cost about the same regret; 16 and more cost the synthetic bandit more.
_BLOCK = 8
_WIDTH, _VARIANCE, _TOLD, _COUNT = range(4)  # columns of `doubt`


class RewardBudget:
    """What has been earned beyond the promise, and what has to be kept in reserve.

    Args:
        rule: α, δ, and whose budget it is.
        beliefs: What is believed; read only.
        tasks: Number of stations.
        noise: Variance of a reward beyond what is told of it.

    Attributes:
        settled: What decisions have added that are settled for good, by station, (M,).
        doubt: By station, (M, 4): standard deviations of its blocks, variance of its scatter, and of its rewards the
            told variance and the number.
        open: Trials whose block is not full.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), np.eye(2), noise=0.1, mean=0.8)
        >>> budget = RewardBudget(Conservative(0.1, delta=0.05), posterior, tasks=2, noise=0.1)
        >>> memo = {"safety": {"lower": 0.03, "beta": 2.5}}
        >>> budget.settle(Observation(task=1, x=np.array([0.0]), arm=0, reward=0.8, memo=memo))
        >>> budget.settled.round(3)
        array([0.  , 0.08])
    """

    def __init__(self, rule: Conservative, beliefs: Posterior, *, tasks: int, noise: float) -> None:
        self.rule, self._beliefs, self._noise = rule, beliefs, noise
        self.settled, self.doubt, self.open = np.zeros(tasks), np.zeros((tasks, 4)), list[Trial]()

    def settle(self, observation: Observation) -> None:
        """Count a decision whose reward has just been learned; rows of a log are nobody's decisions."""
        note, o, alpha = observation.memo.get(NOTE, {}), observation, self.rule.alpha
        if "lower" not in note:
            return
        self._extend()
        told, reward = o.noise or 0.0, o.reward - self.rule.least
        self.doubt[o.task, [_TOLD, _COUNT]] += told, 1
        if "x" not in note:
            self.settled[o.task] += alpha * reward
            scatter = alpha**2
        else:
            trial = self._trial(o, np.array(note["x"], dtype=np.float64), reward=reward, beta=note["beta"])
            self.open.append(trial)
            self._close(trial.task)
            scatter = max((1.0 - trial.share) ** 2 + (1.0 - alpha) ** 2, trial.share**2)
        self.doubt[o.task, _VARIANCE] += scatter * (self._noise + told)

    def weigh(self, drafts: Sequence[Draft], *, noise: float) -> list[Draft]:
        """Let through what the budget bears; the rest stays with what runs, or goes back to today's configuration."""
        self._extend()
        told, count = self.doubt[:, [_TOLD, _COUNT]].sum(axis=0)
        scatter = noise + (told / count if count else 0.0)  # of a reward that is yet to be told
        held = {account: self._sure(account) for account in {self._account(d.query.task) for d in drafts}}
        for task, lower in drafts[0].standing.pending.items():
            if self._account(task) in held:
                held[self._account(task)] += lower
        weighed: list[Draft] = []
        for start in range(0, len(drafts), TOGETHER):
            weighed += self._weigh_together(drafts[start : start + TOGETHER], held, scatter)
        return weighed

    def _weigh_together(
        self, drafts: Sequence[Draft], held: dict[int, float], scatter: float, *, running: Sequence[int] = ()
    ) -> list[Draft]:
        """Weigh a part of a round, and put what it adds at least into `held`, by account.

        What stations run is looked at only once one of them has to stay with it.
        """
        today = [d.fallback(d.standing.baseline) for d in drafts]
        round_ = Round(drafts, today, self._beliefs, rule=self.rule, noise=scatter, running=running)
        sums, weighed = dict.fromkeys(held, round_.nothing), list[Draft]()
        for i, draft in enumerate(drafts):
            account, beta = self._account(draft.query.task), self._beta(draft)
            played = TODAY if draft.arm == today[i] else DRAFTED
            own, total = round_.counted(sums[account], i, played, beta=beta)
            if played == DRAFTED and self.rule.alpha < 1 and held[account] + total.lower < -_ROUNDING:
                stays = may_stay(draft, self._beliefs, today=today[i], beta=beta)
                if stays and not running:
                    return self._weigh_together(drafts, held, scatter, running=_running(drafts, today))
                draft = draft.instead(running[i] if stays else today[i], by=BUDGET)
                own, total = round_.counted(sums[account], i, RUNNING if stays else TODAY, beta=beta)
            sums[account] = total
            weighed.append(_with_note(draft, today[i], {"lower": own, "beta": beta}, kept=round_.kept[i]))
        for account, total in sums.items():
            held[account] += total.lower
        return weighed

    def state(self) -> dict[str, Any]:
        """Return what was counted as arrays by name."""
        self._extend()
        rows = np.array([trial.row() for trial in self.open]) if self.open else np.zeros((0, 0))
        return {"settled": self.settled.copy(), "settled_doubt": self.doubt.copy(), "settled_open": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        self.settled, self.doubt = (np.array(state[name], dtype=np.float64) for name in ("settled", "settled_doubt"))
        self.open = [Trial.of(row) for row in np.array(state["settled_open"], dtype=np.float64)]

    def _trial(self, o: Observation, today: FloatArray, *, reward: float, beta: float) -> Trial:
        """Return a trial whose reward has just been learned."""
        columns = (o.cache.played, o.cache.replaced) if isinstance(o.cache, Work) else (None, None)
        bare = Trial(o.task, o.x, today, 1.0, reward, lower=0.0, columns=columns)
        found = believed([bare], self._beliefs)
        C = found.covariance()
        left = (1.0 - self.rule.alpha) * C[0, 1] / C[0, 0] if C[0, 0] > 0 else 0.0
        trial = replace(bare, share=1.0 - min(max(float(left), 0.0), 1.0))
        added, std = self._added([trial], found.mean, C)
        return replace(trial, lower=float(added[0]) - beta * std)

    def _added(self, trials: Sequence[Trial], mean: FloatArray, C: FloatArray) -> tuple[FloatArray, float]:
        """Return what trials add by f's mean (2n,) and covariance (2n, 2n), (n,), and the deviation of their sum."""
        n, rest = len(trials), 1.0 - self.rule.alpha
        mean = mean - self.rule.least
        facts, left = np.array([(t.share * t.reward, 1.0 - t.share) for t in trials]).T
        weights = np.concatenate([left, np.full(n, -rest)])
        return facts + left * mean[:n] - rest * mean[n:], sqrt(max(float(weights @ C @ weights), 0.0))

    def _close(self, task: int) -> None:
        """Settle the trials of a full block for good."""
        account = self._account(task)
        block = [trial for trial in self.open if self._account(trial.task) == account]
        if len(block) < _BLOCK:
            return
        found = believed(block, self._beliefs)
        added, std = self._added(block, found.mean, found.covariance())
        np.add.at(self.settled, [trial.task for trial in block], added)
        self.doubt[task, _WIDTH] += std
        self.open = [trial for trial in self.open if self._account(trial.task) != account]

    def _account(self, task: int) -> int:
        """Whose budget pays for a station: its own, or the network's."""
        return task if self.rule.per_station else 0

    def _sure(self, account: int) -> float:
        """Return what an account holds for sure, its reserve put aside."""
        own = slice(account, account + 1) if self.rule.per_station else slice(None)
        delta = self.rule.probability / (4.0 * (len(self.settled) if self.rule.per_station else 1))
        std, variance = self.doubt[own, [_WIDTH, _VARIANCE]].sum(axis=0)
        reserve = scatter_allowance(variance, unit=self._noise, delta=delta)
        reserve += doubt_allowance(std, unit=sqrt(self._noise), delta=delta)
        bounds = (trial.lower for trial in self.open if self._account(trial.task) == account)
        return fsum(self.settled[own]) + fsum(bounds) - reserve

    def _beta(self, draft: Draft) -> float:
        """Return the weight of widths: five bounds of every decision fail with probability δ/2 in all."""
        rule = KrauseOng(self.rule.probability / 5.0)
        return rule.beta(known=draft.standing.decisions + draft.ahead, arms=1, noise=self._noise)

    def _extend(self) -> None:
        """Follow the stations that have joined."""
        further = len(self.settled) - len(self.doubt)
        if further > 0:
            self.doubt = np.vstack([self.doubt, np.zeros((further, self.doubt.shape[1]))])


def _with_note(draft: Draft, today: int, note: Mapping[str, Any], *, kept: FloatArray) -> Draft:
    """Return a draft that notes what it counts with and, where it is a trial, the context of what it replaces."""
    if draft.arm == today:
        return replace(draft, note={**draft.note, **note})
    return replace(draft, note={**draft.note, **note, "x": kept.tolist()}, replaced=draft.column(today))


def _running(drafts: Sequence[Draft], today: Sequence[int]) -> list[int]:
    """Return what stations run, and where that is not known or not allowed what was declared."""
    runs = [draft.standing.running for draft in drafts]
    return [b if a is None or not d.query.allowed[a] else a for a, b, d in zip(runs, today, drafts, strict=True)]
