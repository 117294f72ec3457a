"""Rules of safety inside floors of KPIs: what may be chosen is less than what may be played.

A floor under the reward falls back to what runs, a budget to what was declared. Either may break the floor of a KPI,
and then is not to be chosen, yet must stay a way back. So a query here has two masks: `allowed`, what may be played,
and `wanted`, what may be chosen. The policy inside scores both; the choice is made among what is wanted.
"""

from dataclasses import dataclass, field, fields, replace

import numpy as np

from kinband.arrays import BoolArray
from kinband.policies.contract import pick_best
from kinband.policies.safety.drafts import Draft
from kinband.policies.safety.floor import above_floor
from kinband.policies.safety.margins import scores_of
from kinband.policies.safety.policy import SafePolicy
from kinband.records import Choice, Query


@dataclass(frozen=True, eq=False)
class Within(Query):
    """A query whose wanted arms may be chosen, and whose other allowed arms only serve as a way back.

    Example:
        >>> from kinband.records import Standing
        >>> query = Query(0, np.zeros((4, 1)), np.array([True, True, True, False]), Standing(running=2, baseline=0))
        >>> Within.of(query, np.array([False, True, False, False])).arms.tolist()
        [0, 1, 2]
    """

    wanted: BoolArray = field(default_factory=lambda: np.ones(0, dtype=np.bool_))

    @classmethod
    def of(cls, query: Query, wanted: BoolArray) -> "Within":
        """Return the query with what is wanted, and with what runs and what was declared as far as it was allowed."""
        back = np.zeros(len(query.X), dtype=np.bool_)
        standing = query.standing
        for arm in () if standing is None else (standing.running, standing.baseline):
            if arm is not None and arm < len(back):
                back[arm] = query.allowed[arm]
        values = {item.name: getattr(query, item.name) for item in fields(Query)}
        return cls(**{**values, "allowed": wanted | back}, wanted=wanted)


class SafeWithin(SafePolicy):
    """The rules of safety over what floors of KPIs have left.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.policies import UCB
        >>> from kinband.policies.contract import Setting
        >>> from kinband.policies.safety import Floor, Safety
        >>> from kinband.records import Observation, Standing
        >>> inner = UCB.build(Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2))
        >>> policy = SafeWithin(inner, Safety(floor=Floor(5.0)), tasks=1)
        >>> policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=2.0))
        >>> query = Query(0, np.array([[0.0], [3.0]]), np.array([True, True]), Standing(running=0))
        >>> policy.choose(Within.of(query, np.array([False, True])), np.random.default_rng(0)).arm
        1
    """

    def _draft(self, query: Query, plain: Choice, rng: np.random.Generator, *, ahead: int) -> Draft:
        """Return the best score after the switching cost among what is wanted and the floor lets through."""
        wanted = query.wanted[plain.arms] if isinstance(query, Within) else np.ones(len(plain.arms), dtype=np.bool_)
        if wanted.all():
            return super()._draft(query, plain, rng, ahead=ahead)
        whole = Draft(query, plain, scores_of(plain)[2], plain.arm, ahead)
        running, cost, floor = whole.standing.running, self.safety.cost, self.safety.floor
        score = whole.score
        if cost is not None and running is not None:
            score = score - cost.cost * (plain.arms != running)
        arms = plain.arms[wanted]
        best = plain.arm if plain.arm in arms and cost is None else int(arms[pick_best(score[wanted], rng)])
        draft = replace(whole, score=score, arm=best)
        if floor is None:
            return draft
        beta = draft.beta(floor.bounds, noise=self.inner.noise)
        passed = above_floor(_wanted_first(draft, wanted), floor, beliefs=self._beliefs, beta=beta)
        return replace(draft, arm=passed.arm, note=passed.note)


def _wanted_first(draft: Draft, wanted: BoolArray) -> Draft:
    """The draft over wanted arms and, behind them all unless it is wanted itself, what runs."""
    plain, running = draft.plain, draft.standing.running
    kept = wanted | (plain.arms == running)
    mean, width, own = (values[kept] for values in scores_of(plain))
    last = np.where(wanted[kept], draft.score[kept], draft.score[kept].min() - 1.0)
    few = replace(plain, arms=plain.arms[kept], mean=mean, width=width, score=own)
    return replace(draft, plain=few, score=last)
