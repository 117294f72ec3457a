"""Logs as they usually are: nobody randomised, and every station ran one to three settings for months.

`unrandomised` makes such a log from any environment that draws logs. What a station never ran but others did, and what
nobody ran, is kept apart: it is what a model of the log is asked about.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments import DrawsLogs
from kinband.model import Model
from kinband.posterior import ExactPosterior
from kinband.records import Samples

_POOL = 5  # settings that anybody ran, at most; one of all is left to nobody
_MOST = 3  # settings of one station
_ROWS = (20, 60)  # rows of one station
_ASKED = 40  # rows of a station that are kept to ask about
_DRAWN = 120  # rows of a station drawn at once
_DRAWS = 60


@dataclass(frozen=True, eq=False)
class Habits:
    """A log of habits, and rows of the same stations under settings that they never ran.

    Attributes:
        log: What was written down: few settings a station, 20 to 60 rows each.
        others: Rows under settings that the station never ran, but others did.
        nobody: Rows under settings that nobody ran.
        ran: Which settings each station ran, (M, N).
    """

    log: Samples
    others: Samples
    nobody: Samples
    ran: BoolArray


def unrandomised(environment: DrawsLogs, rng: np.random.Generator, *, arms: int) -> Habits:
    """Return a log in which each station ran one to three settings of a pool, so that groups of stations overlap."""
    drawn = environment.log(_DRAWN, rng)
    M = len(drawn.stations)
    pool = rng.permutation(arms)[: max(2, min(_POOL, arms - 1))]
    ran = np.zeros((M, arms), dtype=np.bool_)
    for task, count in enumerate(rng.integers(1, min(_MOST, len(pool) - 1) + 1, M).tolist()):
        ran[task, pool[(task + np.arange(count)) % len(pool)]] = True
    wanted = rng.integers(_ROWS[0], _ROWS[1] + 1, M)
    for _ in range(_DRAWS):
        if (np.bincount(drawn.tasks[_told(drawn, ran)], minlength=M) >= wanted).all():
            break
        drawn = _joined(drawn, environment.log(_DRAWN, rng))
    told, known = _told(drawn, ran), _told(drawn, np.tile(ran.any(axis=0), (M, 1)))
    asked = np.full(M, _ASKED)
    return Habits(
        _first(drawn.take(told), wanted),
        _first(drawn.take(~told & known), asked),
        _first(drawn.take(~known), asked),
        ran,
    )


def covered(model: Model, log: Samples, asked: Samples) -> tuple[float, FloatArray]:
    """Return how often 95 % intervals hold rewards that were not told, and the widths of f there, (n,)."""
    posterior = ExactPosterior(model.kernel, model.similarity.matrix, noise=model.noise, mean=model.mean)
    posterior.update(log.tasks, log.X, log.y, noise=log.noise)
    found = posterior.predict(asked.tasks, asked.X)
    slack = 1.96 * np.sqrt(found.std**2 + model.noise)
    return float(np.mean(np.abs(asked.y - found.mean) <= slack)), found.std


def _told(rows: Samples, ran: BoolArray) -> BoolArray:
    """Which rows ran what their stations ran, (n,)."""
    assert rows.arms is not None
    told: BoolArray = ran[rows.tasks, rows.arms]
    return told


def _joined(one: Samples, two: Samples) -> Samples:
    assert one.arms is not None
    assert two.arms is not None
    return Samples(
        one.stations, np.concatenate([one.tasks, two.tasks]), np.concatenate([one.X, two.X]),
        np.concatenate([one.y, two.y]), None, one.features, one.categorical, arms=np.concatenate([one.arms, two.arms]),
    )  # fmt: skip


def _first(rows: Samples, counts: IntArray) -> Samples:
    """The first rows of every station, as many as it may have."""
    place = np.zeros(len(rows), dtype=np.int64)
    for task in range(len(rows.stations)):
        own = rows.tasks == task
        place[own] = np.arange(own.sum())
    return rows.take(place < counts[rows.tasks])
