"""An explanation in words: short sentences that make one paragraph, each from numbers that are also given as data."""

from collections.abc import Mapping, Sequence
from typing import Any

from kinband.controller.asking import ALTERNATIVES
from kinband.controller.explanation.comparison import Comparison
from kinband.controller.explanation.evidence import Evidence
from kinband.records import Alternative, Alternatives, Decision

_LENDERS = 3  # how many are named
_SHARE = 0.005  # a share below half a per cent is not worth a word


def configuration_text(configuration: Mapping[str, Any] | None, arm: int) -> str:
    """Return a configuration in words.

    Example:
        >>> configuration_text({"tilt": 4, "scheduler": "pf"}, 3), configuration_text(None, 3)
        ('tilt=4, scheduler=pf', 'arm 3')
    """
    if configuration is None:
        return f"arm {arm}"
    return ", ".join(f"{knob}={value}" for knob, value in configuration.items())


def choice_text(decision: Decision) -> str:
    """Say what was chosen and what was expected of it."""
    what = configuration_text(decision.configuration, decision.arm)
    if decision.mean is None or decision.width is None:
        return f"{decision.station} should run {what}; the policy predicts nothing."
    return (
        f"{decision.station} should run {what}: expected reward {decision.mean:.3f}, give or take "
        f"{decision.width:.3f} (one standard deviation), with {decision.known:,} rewards known so far."
    )


def why_text(decision: Decision, best: Alternative | None) -> str:
    """Say whether the choice is a trial; `best` is the alternative with the largest expected reward."""
    if best is None or best.mean is None or decision.mean is None:
        return ""
    if decision.mean < best.mean:
        return (
            f"It is a trial: another configuration ({configuration_text(best.configuration, best.arm)}) is expected to "
            f"earn {best.mean - decision.mean:.3f} more, but too little is known about this one to rule it out."
        )
    if len(decision.alternatives) >= ALTERNATIVES:
        return f"None of the {ALTERNATIVES} configurations that scored best is expected to earn more."
    return "No other configuration is expected to earn more."


def held_back_text(decision: Decision) -> str:
    """Say what a rule of safety would not let the station try, if it did."""
    note = decision.memo.get("safety", {})
    if "held_back" not in note:
        return ""
    arm = note["held_back"]
    scored = decision.alternatives
    held = scored.configuration(arm) if isinstance(scored, Alternatives) else None
    why = "might earn too little beside what runs" if note["by"] == "floor" else "is more than the budget bears"
    return f"A trial of {configuration_text(held, arm)} was held back: it {why}."


def against_text(runner_up: Alternative | None, found: Comparison | None) -> str:
    """Say how far the runner-up lay behind, and what would have put it first."""
    if runner_up is None:
        return "There was no alternative."
    if found is None or runner_up.ucb is None or runner_up.width is None:
        return ""
    what = configuration_text(runner_up.configuration, runner_up.arm)
    text = f"Next came {what} (expected {runner_up.mean:.3f}, give or take {runner_up.width:.3f})"
    if found.deviation is not None and found.probability is not None:
        text += (
            f", a difference of {found.difference:+.3f}, give or take {found.deviation:.3f}: the choice earns more "
            f"with probability {percent(found.probability)}"
        )
    return f"{text}.{_needed_text(found)}"


def _needed_text(found: Comparison) -> str:
    if found.needed_mean is None:
        return ""
    one_more = "" if found.needed_reward is None else f", or one more reward of {found.needed_reward:.3f} in this state"
    return f" To come first it would have needed an expected reward of {found.needed_mean:.3f}{one_more}."


def evidence_text(found: Evidence) -> str:
    """Say whose evidence the estimate rests on, and how much of it was borrowed.

    Example:
        >>> print(evidence_text(Evidence("a", {"a": 0.9, "b": 0.1}, 8, 40, 1.0, 0.2, 0.1, 6.0, 18.75)))
        90 % of the evidence is from its own 8 rewards and 10 % borrowed, most from b (10 %). What was borrowed is worth
        18.8 rewards of its own in this state: alone the width would be 0.200, not 0.100.
    """
    if not found.shares:
        return "No reward known so far says anything about this state: the estimate is the prior."
    own = f"its own {found.own_rows:,} reward{'' if found.own_rows == 1 else 's'}"
    lent = 1.0 - found.own_share
    if lent < _SHARE:
        return f"The evidence is {own}, worth {worth_text(found.own_worth)} in this very state; none is borrowed."
    named = [f"{name} ({percent(share)})" for name, share in found.lenders.items() if share >= _SHARE][:_LENDERS]
    most = f", most from {listed(named)}" if named else f" from {len(found.lenders):,} stations"
    start = f"{percent(found.own_share)} of the evidence is from {own} and {percent(lent)} borrowed{most}."
    if not found.own_rows:
        start = f"It has no rewards of its own: all evidence is borrowed{most}."
    return (
        f"{start} What was borrowed is worth {worth_text(found.borrowed_worth)} of its own in this state: alone the "
        f"width would be {found.width_alone:.3f}, not {found.width:.3f}."
    )


def worth_text(worth: float) -> str:
    """Return a number of rewards.

    Example:
        >>> worth_text(3.42), worth_text(0.02)
        ('3.4 rewards', 'less than a tenth of one reward')
    """
    return f"{worth:,.1f} rewards" if worth >= 0.1 else "less than a tenth of one reward"


def approximate_text(stored: float | None, found: Evidence) -> str:
    """Say so where the controller's own width is another one, as a sparse posterior's may be."""
    if stored is None or abs(stored - found.width) <= 0.02 * max(stored, found.width):
        return ""
    return f"(The evidence is weighed exactly; the controller itself, which approximates, took {stored:.3f}.)"


def outcome_text(reward: float | None) -> str:
    """Say what came of it."""
    return "" if reward is None else f"It earned {reward:.3f}."


def percent(share: float) -> str:
    """Return a share in whole per cent; what is nearly all or nearly nothing does not become it.

    Example:
        >>> percent(0.634), percent(0.9999), percent(0.002)
        ('63 %', 'over 99 %', 'under 1 %')
    """
    if 0.0 < share < 0.005 or 0.995 < share < 1.0:
        return "under 1 %" if share < 0.5 else "over 99 %"
    return f"{100 * share:.0f} %"


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"])
        ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "none"
