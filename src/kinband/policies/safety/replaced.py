"""What a budget makes of a decision in whose place something else ran: a guard replaced it, or a person rejected it.

Such a decision is counted as what ran, beside today's configuration b as ever (`budget`, `rewards`):

- *b itself ran.* It is no trial. Its reward adds α of itself, and while that is awaited it counts nothing, although it
  can only add something.
- *Another configuration a ran.* It is a trial of a. While its reward is awaited it counts with the bound of a trial of
  a, by what is believed when it is said and with the β of the decision, and never with more than nothing; once told,
  as every trial does, against the context of b that was noted when asking.

What becomes of the promise: every trial of the controller's own is still let through only if the budget bears it, and
what others chose is in that budget, rewards as facts and the rest with bounds. But nobody asked the budget whether it
bears what others chose. Where that empties it, the controller plays today's configurations until they have filled it
again; that it was empty is not the controller's doing. Two finer points. Bounds hold for a configuration that was
picked by what the model knows too; whoever picks by what it does not know is not bounded by it. And δ is shared out
over one bound of a decision that awaits its reward: said before the next decision is made, what ran takes the place of
what was decided there; said later, or several times, it takes one bound more each time.
"""

import numpy as np

from kinband.arrays import FloatArray
from kinband.policies.safety.budget import Budget
from kinband.policies.safety.drafts import NOTE, Draft
from kinband.policies.safety.margins import margins
from kinband.policies.safety.rewards import RewardBudget
from kinband.policies.safety.rounds import DRAFTED, Round
from kinband.posterior import Posterior
from kinband.records import NO_MEMO, Choice, Memo, Query


def replaced_memo(memo: Memo, *, x: FloatArray, ran: FloatArray, lower: float | None) -> Memo:
    """Return what a decision's memo says once another configuration ran: what a budget needs, and nothing else.

    Args:
        memo: As it was when asking; levels and KPIs in it belong to what was decided.
        x: Context of what was decided, (d,).
        ran: Context of what ran, (d,).
        lower: What the decision counts with until its reward is told (`replaced_lower`); None where nobody bounded it,
            for the worse of nothing and what was decided.

    Example:
        >>> memo = {"level": 3, "safety": {"running": 1, "lower": -0.2, "beta": 2.0, "x": [1.0]}}
        >>> replaced_memo(memo, x=np.array([0.0]), ran=np.array([1.0]), lower=0.0)
        {'safety': {'lower': 0.0, 'beta': 2.0}}
        >>> replaced_memo(memo, x=np.array([0.0]), ran=np.array([5.0]), lower=-0.3)
        {'safety': {'lower': -0.3, 'beta': 2.0, 'x': [1.0]}}
    """
    note = memo.get(NOTE, {})
    if "lower" not in note:
        return NO_MEMO
    today = note.get("x", x.tolist())  # only trials note what they replace: else that is what was decided
    kept = {"lower": min(note["lower"], 0.0) if lower is None else lower, "beta": note["beta"]}
    return {NOTE: kept if ran.tolist() == today else {**kept, "x": today}}


def replaced_lower(
    budget: Budget | RewardBudget,
    memo: Memo,
    *,
    task: int,
    x: FloatArray,
    ran: FloatArray,
    beliefs: Posterior,
    noise: float,
) -> float | None:
    """Return what a decision counts with until its reward is told, once something else ran; None without a budget.

    Args:
        budget: Read only.
        memo: Of the decision, as it was when asking.
        task: Whose decision it is.
        x: Context of what was decided, (d,).
        ran: Context of what ran, (d,).
        beliefs: What is believed; read only.
        noise: Variance of a reward beyond what is told of it.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.policies.safety.rules import Conservative
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), np.eye(1), noise=0.04, mean=0.8)
        >>> budget = RewardBudget(Conservative(0.1, delta=0.05), posterior, tasks=1, noise=0.04)
        >>> memo, b, a = {"safety": {"lower": 0.06, "beta": 0.2}}, np.array([0.0]), np.array([9.0])
        >>> round(replaced_lower(budget, memo, task=0, x=b, ran=a, beliefs=posterior, noise=0.04), 3)
        -0.194
    """
    note = replaced_memo(memo, x=x, ran=ran, lower=None).get(NOTE, {})
    if "x" not in note:
        return 0.0 if note else None
    today, beta, rule = np.array(note["x"], dtype=np.float64), float(note["beta"]), budget.rule
    if isinstance(budget, Budget):
        found = margins(beliefs, [task], ran[None], against=today[None], beta=np.array([beta]), rule=rule)
        return min(float(found[0]), 0.0)
    query = Query(task, np.stack([ran, today]), np.ones(2, dtype=np.bool_))
    draft = Draft(query, Choice(0, query.arms), np.zeros(2), arm=0)
    told, count = budget.doubt[:, 2:].sum(axis=0)  # what was told of rewards' variances, as `weigh` takes it
    alone = Round([draft], [1], beliefs, rule=rule, noise=noise + (told / count if count else 0.0))
    return min(float(alone.own(0, DRAFTED, beta=beta)), 0.0)
