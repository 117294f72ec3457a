"""A UCB policy that asks the rules before it changes anything.

The policy inside scores every configuration as ever. Then, in this order: a switching cost is taken off the score of
every configuration but the running one; the best score wins among those that the floor lets through; the winner is
played if the budget bears it, else the declared configuration. The budget has the last word because its promise is one
over time, which nothing after it may spend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, CannotCorrectError
from kinband.policies.base import Policy, PolicyFactory, Setting, pick_best
from kinband.policies.safety.budget import Budget
from kinband.policies.safety.drafts import Draft, Work, noted
from kinband.policies.safety.floor import above_floor
from kinband.policies.safety.margins import scores_of
from kinband.policies.safety.replaced import replaced_lower
from kinband.policies.safety.rewards import RewardBudget
from kinband.policies.safety.rules import Conservative, Safety
from kinband.policies.ucb import UCB
from kinband.posterior import Posterior, Prediction
from kinband.records import Choice, Memo, Observation, Query


class SafePolicy:
    """Plays what a UCB policy wants as far as the rules let it.

    Args:
        inner: The policy that scores.
        safety: The rules.
        tasks: Number of stations.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.policies.safety.rules import SwitchingCost
        >>> from kinband.records import Standing
        >>> policy = SafePolicy(
        ...     UCB.build(Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2)), Safety(cost=SwitchingCost(0.3)), tasks=1
        ... )
        >>> policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=0.8))
        >>> query = Query(0, np.array([[0.0], [3.0]]), np.array([True, True]), Standing(running=1))
        >>> policy.choose(query, np.random.default_rng(0)).score.round(2)
        array([0.73, 1.  ])
    """

    def __init__(self, inner: UCB, safety: Safety, *, tasks: int) -> None:
        if not isinstance(inner, UCB):
            raise BadInputError(
                "safe trials need a policy with a posterior, 'ucb', 'thompson', 'kernel-ucb', 'cgp-ucb' or 'pooled', "
                f"not {type(inner).__name__}"
            )
        self.inner, self.safety = inner, safety
        self._beliefs: Posterior = inner.posterior
        self.budget = self._budget(safety.conservative, tasks=tasks)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return what the policy inside wants if the rules let it, else what they fall back to."""
        if type(self.inner).choose is not UCB.choose:  # it chooses in a way of its own
            return self._under_rules([query], [self.inner.choose(query, rng)], [rng], seen=[None])[0]
        plain, prediction = self.inner.consider(query, rng)
        return self._under_rules([query], [plain], [rng], seen=[prediction])[0]

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide many stations from the same beliefs and one budget, in the order given."""
        plain = self.inner.choose_round(queries, rngs)
        return self._under_rules(queries, plain, rngs, seen=[None] * len(plain))

    def learn(self, observation: Observation) -> None:
        """Learn one reward, and count its decision with what is known now."""
        o = observation
        self.inner.learn(replace(o, cache=o.cache.played) if isinstance(o.cache, Work) else o)
        if self.budget is not None:
            self.budget.settle(o)

    def learn_log(self, observations: Sequence[Observation]) -> None:
        """Learn many rewards that no decision of ours led to."""
        self.inner.learn_log(observations)

    def correct(self, index: int, reward: float) -> None:
        """Replace a reward; where a budget is kept, all are learned anew, since any bound may rest on the wrong one."""
        if self.budget is not None:
            raise CannotCorrectError("a budget rests on every reward told: learn the corrected log anew")
        self.inner.correct(index, reward)

    def replaced_lower(self, memo: Memo, *, task: int, x: FloatArray, ran: FloatArray) -> float | None:
        """Return what a decision counts with in the budget once something else ran; see `replaced.replaced_lower`."""
        if self.budget is None:
            return None
        noise = self.inner.noise
        return replaced_lower(self.budget, memo, task=task, x=x, ran=ran, beliefs=self._beliefs, noise=noise)

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        return {**self.inner.state(), **({} if self.budget is None else self.budget.state())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        self.inner.restore(state)
        if self.budget is not None:
            self.budget.restore(state)

    def _budget(self, rule: Conservative | None, *, tasks: int) -> Budget | RewardBudget | None:
        if rule is None or rule.of == "expected":
            return None if rule is None else Budget(rule, self._beliefs, tasks=tasks)
        return RewardBudget(rule, self._beliefs, tasks=tasks, noise=self.inner.noise)

    def _under_rules(
        self,
        queries: Sequence[Query],
        plain: Sequence[Choice],
        rngs: Sequence[np.random.Generator],
        *,
        seen: Sequence[Prediction | None],
    ) -> list[Choice]:
        drafts = [self._draft(*asked, ahead=i) for i, asked in enumerate(zip(queries, plain, rngs, strict=True))]
        drafts = [replace(draft, prediction=found) for draft, found in zip(drafts, seen, strict=True)]
        if self.budget is not None and drafts:
            drafts = self.budget.weigh(drafts, noise=self.inner.noise)
        return self._choices(drafts)

    def _draft(self, query: Query, plain: Choice, rng: np.random.Generator, *, ahead: int) -> Draft:
        """Return the best score after the switching cost among what the floor lets through."""
        draft = Draft(query, plain, scores_of(plain)[2], plain.arm, ahead)
        running, cost, floor = draft.standing.running, self.safety.cost, self.safety.floor
        if cost is not None and cost.cost > 0 and running is not None:
            score = draft.score - cost.cost * (plain.arms != running)
            draft = replace(draft, score=score, arm=int(plain.arms[pick_best(score, rng)]))
        if floor is None:
            return draft
        beta = draft.beta(floor.bounds, noise=self.inner.noise)
        return above_floor(draft, floor, beliefs=self._beliefs, beta=beta)

    def _choices(self, drafts: Sequence[Draft]) -> list[Choice]:
        """Return drafts as choices; the work kept for an update is done anew where another arm is played."""
        choices = [_played(draft) for draft in drafts]
        changed = [i for i, draft in enumerate(drafts) if draft.arm != draft.plain.arm and draft.prediction is None]
        if changed:
            X = np.array([drafts[i].query.X[drafts[i].arm] for i in changed])
            found = self._beliefs.predict([drafts[i].query.task for i in changed], X)
            for position, i in enumerate(changed):
                choices[i] = replace(choices[i], cache=found.column(position))
        return [noted(choice, draft) for choice, draft in zip(choices, drafts, strict=True)]


def _played(draft: Draft) -> Choice:
    """Return a draft as a choice, with the work kept for its arm as far as the scores left it behind."""
    cache = draft.plain.cache if draft.arm == draft.plain.arm else draft.column(draft.arm)
    return replace(draft.plain, arm=draft.arm, score=draft.score, cache=cache)


def safe_factory(factory: PolicyFactory, safety: Safety) -> PolicyFactory:
    """Return a factory of the same policy under the rules.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.policies.baselines import RandomArm
        >>> safe_factory(RandomArm.build, Safety())(Setting(RBF(), np.eye(2), noise=0.1, arms=3))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: safe trials need a policy with a posterior, 'ucb', ... not RandomArm
    """

    def build(setting: Setting) -> Policy:
        inner: Any = factory(setting)
        return SafePolicy(inner, safety, tasks=len(setting.K_Z))

    return build
