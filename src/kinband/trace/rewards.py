"""What is known of rewards beyond their numbers: their unit, their range, and the noise of a share.

A share of users is often exported in per cent. kinband takes any unit, but not two at once, and only a share between 0
and 1 has a noise that follows from the number of users: p(1 - p)/n.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.errors import BadInputError
from kinband.trace.values import RowError
from kinband.trace.weighted import WeightedReward

_FEW = 10  # rows on either side below which two units cannot be told from chance
_APART = 0.02  # the share of the larger rewards that may lie between the two units


def range_of(reward_range: object) -> tuple[float, float]:
    """Return the lowest and the highest possible reward after checking them.

    Example:
        >>> range_of([0, 1])
        (0.0, 1.0)
    """
    if not isinstance(reward_range, Sequence | np.ndarray) or isinstance(reward_range, str) or len(reward_range) != 2:
        raise BadInputError(f"reward_range must be (lowest, highest), such as (0, 1), got {reward_range!r}")
    low, high = (finite_number(limit, name="a limit of reward_range") for limit in reward_range)
    if not low < high:
        raise BadInputError(f"reward_range needs its lowest below its highest, got {low:g} and {high:g}")
    return low, high


def check_range(reward: FloatArray, reward_range: tuple[float, float], *, label: str) -> None:
    """Refuse rewards, (n,), outside a range, and say so if they look like per cent.

    Example:
        >>> check_range(np.array([93.0, 41.0]), (0, 1), label="reward")
        Traceback (most recent call last):
            ...
        kinband.trace.values.RowError: reward has 2 value(s) outside [0, 1], the first is 93 in row 1, ...
    """
    low, high = reward_range
    outside = np.flatnonzero((reward < low) | (reward > high))
    if len(outside):
        advice = "repair these rows or widen reward_range"
        if high <= 1 and looks_like_per_cent(reward):
            advice = "they look like per cent, say so with per_cent=True"
        text = f"{label} has {len(outside)} value(s) outside [{low:g}, {high:g}], the first is {reward[outside[0]]:g}"
        raise RowError(text, outside[0], f": {advice}")


def looks_like_per_cent(reward: FloatArray) -> bool:
    """Return whether rewards, (n,), can be per cent and cannot be shares.

    Example:
        >>> looks_like_per_cent(np.array([93.0, 41.0])), looks_like_per_cent(np.array([0.93, 0.41]))
        (True, False)
    """
    return bool(reward.min() >= 0 and 1 < reward.max() <= 100)


def mixes_units(reward: FloatArray) -> bool:
    """Return whether some rewards, (n,), look like shares and the others like the same quantity in per cent.

    That is: none outside 0 to 100, hardly any between the two units, and medians a factor of about 100 apart.

    Example:
        >>> share = np.linspace(0.4, 0.9, 20)
        >>> mixes_units(np.append(share, 100 * share)), mixes_units(100 * share), mixes_units(share)
        (True, False, False)
    """
    shares, others = reward[reward <= 1], reward[reward > 1]
    if min(len(shares), len(others)) < _FEW or reward.min() < 0 or reward.max() > 100:
        return False
    if np.isin(shares, (0.0, 1.0)).all() or np.mean(others < 5) > _APART:
        return False
    return bool(100 / 3 < np.median(others) / np.median(shares) < 300) if np.median(shares) > 0 else False


def as_shares(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a trace with rewards and their variance turned from per cent into shares.

    Example:
        >>> as_shares({"reward": np.array([93.0]), "noise": np.array([4.0])})
        {'reward': array([0.93]), 'noise': array([0.0004])}
    """
    noise = columns["noise"]
    return {**columns, "reward": columns["reward"] / 100, "noise": None if noise is None else noise / 100**2}


def check_counted(weighted: WeightedReward | None, *, samples: str | None) -> None:
    """Refuse a sample count beside a weighted sum: it gives the noise of one share, not that of a sum.

    Example:
        >>> check_counted(WeightedReward({"good": 0.8, "rate": 0.02}), samples="users")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: column 'users' counts the samples of a share, the reward is the sum ...
    """
    if weighted is not None and samples is not None:
        raise BadInputError(
            f"column {samples!r} counts the samples of a share, the reward is the sum {weighted}: leave the column out "
            "with columns={'ignore': ...}, or give the variance of the sum as noise"
        )


def noise_of_shares(share: FloatArray, count: FloatArray) -> FloatArray:
    """Return the variance of shares, (n,), over so many samples each, (n,); nan where the count is not known.

    Example:
        >>> noise_of_shares(np.array([1.0, 0.5]), np.array([8.0, np.nan])).round(5).tolist()
        [0.01125, nan]
    """
    if (~np.isnan(count) & ((share < 0) | (share > 1))).any():
        advice = "say so with per_cent=True" if looks_like_per_cent(share) else "divide the reward, or give its noise"
        what = "these look like per cent" if looks_like_per_cent(share) else "others need a noise of their own"
        raise BadInputError(f"sample counts give the noise of shares in [0, 1] only, {what}: {advice}")
    p = (share * count + 1) / (count + 2)
    return np.asarray(p * (1 - p) / count)
