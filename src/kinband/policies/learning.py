"""From observations to updates of a posterior: what every policy with a posterior does in `learn`."""

from collections.abc import Sequence

import numpy as np

from kinband.posterior import Column, Posterior
from kinband.records import Observation


def learn_one(posterior: Posterior, observation: Observation) -> None:
    """Add one reward, taking up the column solved while choosing or, in a replay, its lane."""
    o = observation
    column = o.cache if isinstance(o.cache, Column) else Column.recall(o.memo)
    posterior.update([o.task], o.x[None], [o.reward], noise=o.noise, column=column)


def learn_block(posterior: Posterior, observations: Sequence[Observation]) -> None:
    """Add many rewards at once."""
    tasks = np.array([o.task for o in observations], dtype=np.int64)
    noise = [np.nan if o.noise is None else o.noise for o in observations]
    X, y = np.array([o.x for o in observations]), [o.reward for o in observations]
    posterior.update(tasks, X, y, noise=noise)
