"""What a controller does where nothing is said: what an operator gets on the first day, or the paper to the letter.

Learned from a trace, sharing is blended and adapts (`sharing`). Where a running configuration is declared for every
station, a budget holds the controller against it: with probability 95 % rewards do not fall below 95 % of what it would
have earned. What is not declared cannot be held against; `safety=[]` asks for no rule.
"""

from collections.abc import Mapping
from typing import Any

from kinband.errors import BadInputError
from kinband.policies import Conservative
from kinband.policies.safety import SafetyLike
from kinband.trace import Trace

ALPHA, DELTA = 0.05, 0.05
"""Of the budget that is on where nothing is said: how much may be lost, and with which probability more."""

_WITH_BOUNDS = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "pooled")


def usual_safety(
    trace: Trace, given: SafetyLike, *, policy: Any, running: Any, reward_range: tuple[float, float] | None
) -> SafetyLike:
    """Return the rules of a controller for which none were named.

    Args:
        trace: What it learns from.
        given: What was said of safety; anything but None is left as it is.
        policy: The policy; one without bounds gets no budget.
        running: What was declared to run.
        reward_range: What rewards lie in, if that was said; a budget counts from its lower end.

    Example:
        >>> log = Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.9]}, {"configuration": ["tilt"]})
        >>> usual_safety(log, None, policy="ucb", running={"tilt": 2}, reward_range=None).alpha
        0.05
        >>> usual_safety(log, None, policy="ucb", running=None, reward_range=None) is None
        True
    """
    if given is not None or not isinstance(running, Mapping) or policy not in _WITH_BOUNDS:
        return given
    by_station = all(isinstance(value, Mapping) for value in running.values())
    if by_station and not set(trace.stations) <= set(running):
        return None
    least = 0.0 if reward_range is None else reward_range[0]
    if trace.reward.min() < least:
        return None  # rewards have no zero that a share could be counted from
    return Conservative(ALPHA, delta=DELTA, least=least)


def as_in_the_paper(given: Mapping[str, Any], **beyond: Any) -> dict[str, Any]:
    """Return what to change in arguments so that a controller keeps to the paper; refuse what goes beyond it.

    Args:
        given: Arguments of the controller, by name.
        beyond: Further ones that the paper knows nothing of.

    Example:
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0, "sharing": None})
        {'engine': 'exact', 'mean': 0.0, 'sharing': False}
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0, "sharing": "adaptive"})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: paper=True keeps to the paper, which has no sharing=: leave one of them out
    """
    for name in ("sharing", "safety", "neighbours", "reward", "descriptors"):
        beyond[name] = given.get(name)
    for name, value in beyond.items():
        if value is not None and value is not False:
            raise BadInputError(f"paper=True keeps to the paper, which has no {name}=: leave one of them out")
    options = given.get("options")
    if isinstance(options, Mapping) and options.get("rounds", "plain") != "plain":
        raise BadInputError("paper=True keeps to the paper, whose rounds are plain: leave options={'rounds': ...} out")
    if given.get("policy") in ("thompson", "random", "fixed"):
        raise BadInputError(f"paper=True keeps to the paper, which has no policy {given['policy']!r}: take another")
    if given["engine"] not in ("auto", "exact", "schur"):
        raise BadInputError(f"paper=True needs an exact posterior, 'exact' or 'schur', not engine={given['engine']!r}")
    if given["mean"]:
        raise BadInputError(f"paper=True has prior mean 0, got mean={given['mean']!r}: leave one of them out")
    return {"engine": "exact" if given["engine"] == "auto" else given["engine"], "mean": 0.0, "sharing": False}
