"""The reasons of a plan in words, for an engineer who has to approve it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kinband.controller.explain import configuration_text, listed
from kinband.counting import counted

LENT = 0.005
"""A share below this, half a per cent, is not worth a word."""


def gain_text(gain: float, low: float, high: float) -> str:
    """Return a gain with its interval.

    Example:
        >>> gain_text(0.0381, 0.0117, 0.0645)
        'a gain of +0.0381 (95 % interval +0.0117 to +0.0645)'
    """
    return f"a gain of {gain:+.3g} (95 % interval {low:+.3g} to {high:+.3g})"


def share_text(share: float) -> str:
    """Return a share in whole per cent.

    Example:
        >>> share_text(0.634)
        '63 %'
    """
    return f"{100 * share:.0f} %"


def change_reason(
    expected: float, unchanged: float, *, gain: float, low: float, high: float, explore: bool = False
) -> str:
    """Return why a station should change.

    Example:
        >>> change_reason(0.91, 0.87, gain=0.04, low=0.01, high=0.07)
        'Expected reward 0.91 instead of 0.87, a gain of +0.04 (95 % interval +0.01 to +0.07).'
    """
    text = f"Expected reward {expected:.4g} instead of {unchanged:.4g}, {gain_text(gain, low, high)}."
    return f"A trial, which may lose. {text}" if explore and low <= 0 else text


def loan_reason(
    lenders: Sequence[tuple[str, float]], *, borrowed: float, own_rows: int, width: float, alone: float
) -> str:
    """Return whose experience an estimate rests on, and what it would be worth without the others.

    Example:
        >>> print(loan_reason([("b", 0.3), ("c", 0.1)], borrowed=0.4, own_rows=50, width=0.02, alone=0.05))
        40 % of the evidence is borrowed, most from b (30 %) and c (10 %); from its own 50 rows alone the
        standard deviation would be 0.05, not 0.02.
    """
    own = f"its own {own_rows:,} row{'' if own_rows == 1 else 's'}"
    if borrowed < LENT:
        return f"The evidence is {own} (standard deviation {width:.2g})."
    named = [f"{name} ({share_text(share)})" for name, share in lenders if share >= LENT]
    most = f", most from {listed(named)}" if named else ""
    if not own_rows:
        return f"It has no rows of its own: all evidence is borrowed{most} (standard deviation {width:.2g})."
    return (
        f"{share_text(borrowed)} of the evidence is borrowed{most}; from {own} alone the standard deviation "
        f"would be {alone:.2g}, not {width:.2g}."
    )


def uncertain_reason(moves: Mapping[str, Any], *, gain: float, low: float, high: float) -> str:
    """Return why a station is left alone although a gain is expected.

    Example:
        >>> uncertain_reason({"tilt": 4}, gain=0.01, low=-0.02, high=0.04)
        'tilt=4 is expected to bring a gain of +0.01 (95 % interval -0.02 to +0.04), which may be a loss.'
    """
    return f"{_promise(moves, gain, low, high)}, which may be a loss."


def small_reason(moves: Mapping[str, Any], *, gain: float, low: float, high: float, least: float, explore: bool) -> str:
    """Return why a gain is too small to be worth a change.

    Example:
        >>> print(small_reason({"tilt": 4}, gain=0.01, low=0.001, high=0.02, least=0.05, explore=False))
        tilt=4 is expected to bring a gain of +0.01 (95 % interval +0.001 to +0.02), less than the 0.05 that is
        worth a change.
    """
    less = "even at best less" if explore else "less"
    return f"{_promise(moves, gain, low, high)}, {less} than the {least:g} that is worth a change."


def limit_reason(moves: Mapping[str, Any], *, gain: float, low: float, high: float, most: int) -> str:
    """Return why a change worth making is not made.

    Example:
        >>> print(limit_reason({"tilt": 4}, gain=0.03, low=0.01, high=0.05, most=2))
        tilt=4 is expected to bring a gain of +0.03 (95 % interval +0.01 to +0.05), but others are more
        worthwhile and the plan is limited to 2.
    """
    return f"{_promise(moves, gain, low, high)}, but others are more worthwhile and the plan is limited to {most}."


def best_reason(expected: float, width: float, *, choices: int, explore: bool) -> str:
    """Return why the present configuration stays.

    Example:
        >>> best_reason(0.91, 0.02, choices=29, explore=False)
        'None of its 29 choices is expected to earn more than the present 0.91 (standard deviation 0.02).'
    """
    better = "is more worth trying" if explore else "is expected to earn more"
    return f"None of its {choices:,} choices {better} than the present {expected:.4g} (standard deviation {width:.2g})."


def tried_reason(station: str, proposed: Mapping[str, Any], *, similar: int, between: bool) -> str:
    """Return whose trials a change rests on that its station never ran itself.

    Args:
        station: Whom the change is for.
        proposed: What it would run.
        similar: How many stations that it shares with ran that.
        between: Whether the station ran settings on both sides of it.

    Example:
        >>> tried_reason("3714A", {"threshold": -100}, similar=5, between=False)
        '3714A never ran threshold=-100; this rests on 5 similar stations that did.'
        >>> tried_reason("3714A", {"threshold": -100}, similar=0, between=True)
        '3714A never ran threshold=-100, but settings on both sides of it; no similar station did.'
    """
    never = f"{station} never ran {configuration_text(proposed, -1)}"
    others = counted(similar, "similar station") if similar else "no similar station"
    if between:
        return f"{never}, but settings on both sides of it; {others} did."
    if similar:
        return f"{never}; this rests on {others} that did."
    return f"{never}, and {others} did: this is a guess from other settings."


def never_reason(ran: Sequence[Mapping[str, Any]]) -> str:
    """Return why a station has nothing to change to, where all it can learn from ran these configurations.

    Example:
        >>> print(never_reason([{"tilt": 4}]))
        The log holds no trials: of all that this station can learn from, every row ran tilt=4, so nothing can be
        learned about other settings.
        >>> never_reason([{"tilt": 4}, {"tilt": 6}])
        'No other choice lies within what was tried by any station that it can learn from.'
    """
    if len(ran) == 1:
        return (
            "The log holds no trials: of all that this station can learn from, every row ran "
            f"{configuration_text(ran[0], -1)}, so nothing can be learned about other settings."
        )
    return "No other choice lies within what was tried by any station that it can learn from."


def _promise(moves: Mapping[str, Any], gain: float, low: float, high: float) -> str:
    return f"{configuration_text(moves, -1)} is expected to bring {gain_text(gain, low, high)}"
