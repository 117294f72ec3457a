"""From observations to updates of a posterior: what every policy with a posterior does in `learn`.

What is told of a reward's variance, p(1−p)/n for a share over n users, says how well it was measured. What its context
does not explain, the posterior's own noise, comes on top of it; forgetting that made a learner ten times too sure.
"""

from collections.abc import Sequence

import numpy as np

from kinband.posterior import Column
from kinband.posterior.contract import FullPosterior
from kinband.records import Observation


def learn_one(posterior: FullPosterior, observation: Observation) -> None:
    """Add one reward, taking up the column solved while choosing or, in a replay, its lane."""
    o = observation
    column = o.cache if isinstance(o.cache, Column) else Column.recall(o.memo)
    noise = None if o.noise is None else posterior.noise + o.noise
    posterior.update([o.task], o.x[None], [o.reward], noise=noise, column=column)


def learn_block(posterior: FullPosterior, observations: Sequence[Observation]) -> None:
    """Add many rewards at once."""
    tasks = np.array([o.task for o in observations], dtype=np.int64)
    noise = posterior.noise + np.array([0.0 if o.noise is None else o.noise for o in observations])
    X, y = np.array([o.x for o in observations]), [o.reward for o in observations]
    posterior.update(tasks, X, y, noise=noise)
