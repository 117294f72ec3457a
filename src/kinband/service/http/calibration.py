"""Whether intervals hold, lately: a cheap look at what `kinband.trust` examines in depth.

A reward, less what was predicted of the configuration that ran and over its standard deviation (σ² as stored when
asking, the controller's noise, and what was told of the reward's own), is standard normal if model and noise are right.
Of the last few hundred rewards, 95 % should then lie inside ±1.96; a share that falls is the first sign that the
network has changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from statistics import NormalDist, fmean
from typing import cast

from kinband.controller.events import Journal, Told

LAST = 500
"""Rewards that are looked at."""
NO_DEVIATIONS = ("linucb",)
"""Policies whose widths are no standard deviations."""
REACH = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Inside:
    """How the last rewards lie in their predictions.

    Attributes:
        rewards: How many were looked at.
        share: The share inside their 95 % interval; None of none.
        mean_z: The mean of z; None of none.

    Example:
        >>> inside([0.3, -2.4, 0.6])
        Inside(rewards=3, share=0.6666666666666666, mean_z=-0.5)
    """

    rewards: int
    share: float | None
    mean_z: float | None


def inside(z: Sequence[float]) -> Inside:
    """Return how errors in standard deviations, (n,), lie in the 95 % interval."""
    if not z:
        return Inside(0, None, None)
    return Inside(len(z), sum(abs(value) <= REACH for value in z) / len(z), fmean(z))


def recent_z(journal: Journal, *, noise: float, last: int = LAST) -> list[float]:
    """Return the last rewards less their predictions, over their standard deviations, newest first.

    Args:
        journal: What was decided, ran and was told.
        noise: The controller's.
        last: Rewards to look at; those without a prediction count, and give nothing.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], noise=0.25, mean=0.5)
        >>> controller.tell(controller.ask("a").id, 1.0)
        >>> [round(z, 3) for z in recent_z(controller.journal, noise=0.25)]
        [0.447]
    """
    found, rewards = [], cast(dict[str, Told], journal.told)  # which knows its end, unlike mappings in general
    for key, told in islice(reversed(rewards.items()), last):
        foretold = journal.foretold(key)
        if foretold is not None:
            mean, width = foretold
            found.append((told.reward - mean) / sqrt(width**2 + noise + (told.noise or 0.0)))
    return found
