"""What a controller does where nothing is said: what an operator gets on the first day, or the paper to the letter.

Learned from a log, stations share by the joint model (`kinband.similarity.joint`); as in the paper, by its embedding.
Where a running configuration is declared for every station, a budget holds the controller against it: with probability
95 % rewards do not fall below 95 % of what it would have earned. Where that cannot be, the program's log says why;
`safety=[]` asks for no rule.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.policies import Conservative
from kinband.policies.safety import SafetyLike
from kinband.similarity import Joint

_log = logging.getLogger(__name__)

ALPHA, DELTA = 0.05, 0.05
"""Of the budget that is on where nothing is said: how much may be lost, and with which probability more."""

BETA = 0.3
"""Weight of the width in UCB from a log: the best on development seeds over all problems (docs/evidence.md)."""

_WITH_BOUNDS = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "pooled")
_SILENCE = "pass safety=[] if no rule is wanted"


def usual_beta(policy: Any, *, paper: bool) -> float:
    """Return the weight of the width where none is given, for a controller that has learned from a log.

    Example:
        >>> usual_beta("ucb", paper=False), usual_beta("thompson", paper=False), usual_beta("ucb", paper=True)
        (0.3, 1.0, 1.0)
    """
    return BETA if policy == "ucb" and not paper else 1.0


def usual_safety(
    stations: Sequence[str],
    rewards: FloatArray,
    given: SafetyLike,
    *,
    policy: Any,
    running: Any,
    reward_range: tuple[float, float] | None,
) -> tuple[SafetyLike, str]:
    """Return the rules of a controller for which none were named, and why no budget is on that one might expect.

    Args:
        stations: Whom it decides for.
        rewards: What the log has, (n,).
        given: What was said of safety; anything but None is left as it is.
        policy: The policy; one without bounds gets no budget.
        running: What was declared to run; where nothing was, no budget is expected.
        reward_range: What rewards lie in, if that was said; a budget counts from its lower end.

    Example:
        >>> import numpy as np
        >>> log = ["a"], np.array([0.9])
        >>> usual_safety(*log, None, policy="ucb", running={"tilt": 2}, reward_range=None)[0].alpha
        0.05
        >>> usual_safety(*log, None, policy="ucb", running=None, reward_range=None)
        (None, '')
    """
    if given is not None or not isinstance(running, Mapping):
        return given, ""
    least = 0.0 if reward_range is None else reward_range[0]
    reason = _in_the_way(stations, float(rewards.min()), policy, running, least)
    if reason:
        _log.warning("no budget is on, since %s", reason)
        return None, reason
    return Conservative(ALPHA, delta=DELTA, least=least), ""


def _in_the_way(stations: Sequence[str], lowest: float, policy: Any, running: Mapping[Any, Any], least: float) -> str:
    """Why no budget can be kept, and what to do about it; empty where one can."""
    if not isinstance(policy, str) or policy not in _WITH_BOUNDS:
        what = f"the policy {policy!r}" if isinstance(policy, str) else "a policy of your own"
        return f"{what} is not known to have bounds: take one of {', '.join(_WITH_BOUNDS)}, or {_SILENCE}"
    by_station = all(isinstance(value, Mapping) for value in running.values())
    missing = [name for name in stations if name not in running] if by_station else []
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        return f"running= says nothing of station {missing[0]!r}{more}: declare what every station runs, or {_SILENCE}"
    if lowest < least:  # rewards have no zero that a share could be counted from
        return (
            f"the log has a reward of {lowest:g} and rewards are counted from {least:g}: pass reward_range=(low, high) "
            f"with the lowest there can be, or {_SILENCE}"
        )
    return ""


def as_in_the_paper(given: Mapping[str, Any], **beyond: Any) -> dict[str, Any]:
    """Return what to change in arguments so that a controller keeps to the paper; refuse what goes beyond it.

    Args:
        given: Arguments of the controller, by name.
        beyond: Further ones that the paper knows nothing of.

    Example:
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0})
        {'engine': 'exact', 'mean': 0.0}
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0, "descriptors": {"a": {"height": 30}}})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: paper=True keeps to the paper, which has no descriptors=: leave one of them out
    """
    for name in ("safety", "neighbours", "reward", "descriptors"):
        beyond[name] = given.get(name)
    for name, value in beyond.items():
        nothing = value is None or value is False or (isinstance(value, list | tuple | dict) and not value)
        if not nothing:
            raise BadInputError(f"paper=True keeps to the paper, which has no {name}=: leave one of them out")
    options = given.get("options")
    if isinstance(options, Mapping) and options.get("rounds", "plain") != "plain":
        raise BadInputError("paper=True keeps to the paper, whose rounds are plain: leave options={'rounds': ...} out")
    likeness = given.get("similarity")
    if isinstance(likeness, Joint) or (isinstance(likeness, str) and likeness == "joint"):
        what = repr(likeness) if isinstance(likeness, str) else type(likeness).__name__
        raise BadInputError(f"paper=True keeps to the paper, similarity {what} goes beyond it: take 'embedding'")
    if given.get("policy") in ("thompson", "random", "fixed"):
        raise BadInputError(f"paper=True keeps to the paper, which has no policy {given['policy']!r}: take another")
    if given["engine"] not in ("auto", "exact", "schur"):
        raise BadInputError(f"paper=True needs an exact posterior, 'exact' or 'schur', not engine={given['engine']!r}")
    if given["mean"]:
        raise BadInputError(f"paper=True has prior mean 0, got mean={given['mean']!r}: leave one of them out")
    return {"engine": "exact" if given["engine"] == "auto" else given["engine"], "mean": 0.0}
