"""What a station goes on with where a budget holds a trial back.

A budget compares with what was declared, and that keeps it for certain. But a station that has moved on since, to
something that surely earns no less, would lose by going back, and a network whose budget is empty, because some of it
is out of order, would change everywhere at once. So a station stays with what it runs where

    f̂(running) − f̂(declared) − βσ(running − declared) ≥ 0,

and goes back to what was declared elsewhere. In expectation staying then adds no less to the budget than going back. It
scatters more, as rewards of two configurations do not scatter alike; that is counted with all other scatter.
"""

from math import sqrt

from kinband.policies.safety.drafts import Draft
from kinband.posterior import Posterior


def may_stay(draft: Draft, beliefs: Posterior, *, today: int, beta: float) -> bool:
    """Return whether a station runs something that surely earns no less than what was declared.

    Args:
        draft: What would be tried.
        beliefs: What is believed; read only.
        today: Arm of the declared configuration.
        beta: Weight of the standard deviation.

    Example:
        >>> import numpy as np
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> from kinband.records import Choice, Query, Standing
        >>> posterior = ExactPosterior(RBF(0.5), np.eye(1), noise=0.01, mean=0.5)
        >>> posterior.update([0, 0], [[0.0], [9.0]], [0.2, 0.9])
        >>> query = Query(0, np.array([[0.0], [4.0], [9.0]]), np.ones(3, dtype=bool), Standing(running=2, baseline=0))
        >>> draft = Draft(query, Choice(1, query.arms), np.array([0.2, 1.5, 0.9]), arm=1)
        >>> [may_stay(draft, posterior, today=0, beta=beta) for beta in (2.0, 20.0)]
        [True, False]
    """
    query, running = draft.query, draft.standing.running
    if running is None or running == today or not query.allowed[running]:
        return False
    arms = [running, today]
    found = draft.believed(arms) or beliefs.predict(query.task, query.X[arms])
    mean, C = found.mean, found.covariance()
    std = sqrt(max(float(C[0, 0] + C[1, 1] - 2.0 * C[0, 1]), 0.0))
    return bool(mean[0] - mean[1] - beta * std >= 0.0)
