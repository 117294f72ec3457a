"""Why a decision was made: one paragraph of words and the same as data, from what was stored when asking."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinband.controller.journal import Asked
from kinband.records import Alternative, Decision


@dataclass(frozen=True)
class Explanation:
    """A reason in words, and the numbers it is made of.

    Attributes:
        id: The decision.
        text: One paragraph.
        decision: The decision with its scored alternatives.
        explores: Whether a configuration with a larger expected reward was passed over to learn; None if unscored.
        runner_up: The best-scored alternative that was not chosen.
        reward: What the decision earned, None while it is awaited.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), stations=["a"], seed=1)
        >>> print(controller.explain(controller.ask("a").id).text)
        a should run tilt=...: expected reward 0.000, give or take 1.000 ...
    """

    id: str
    text: str
    decision: Decision
    explores: bool | None
    runner_up: Alternative | None
    reward: float | None

    def __str__(self) -> str:
        return self.text


def explain(asked: Asked, *, reward: float | None) -> Explanation:
    """Return the explanation of a recorded decision."""
    decision = asked.decision
    runner_up = next((a for a in decision.alternatives if a.arm != decision.arm), None)
    best = max((a.mean for a in decision.alternatives if a.mean is not None), default=None)
    explores = None if best is None or decision.mean is None else decision.mean < best
    why = _held_back(decision) or _why(decision, explores, best)
    sentences = [_choice(decision), why, _against(runner_up), _outcome(reward)]
    text = " ".join(sentence for sentence in sentences if sentence)
    return Explanation(decision.id, text, decision, explores, runner_up, reward)


def configuration_text(configuration: Mapping[str, Any] | None, arm: int) -> str:
    """Return a configuration in words.

    Example:
        >>> configuration_text({"tilt": 4, "scheduler": "pf"}, 3), configuration_text(None, 3)
        ('tilt=4, scheduler=pf', 'arm 3')
    """
    if configuration is None:
        return f"arm {arm}"
    return ", ".join(f"{knob}={value}" for knob, value in configuration.items())


def _choice(decision: Decision) -> str:
    what = configuration_text(decision.configuration, decision.arm)
    if decision.mean is None or decision.width is None:
        return f"{decision.station} should run {what}; the policy predicts nothing."
    return (
        f"{decision.station} should run {what}: expected reward {decision.mean:.3f}, give or take "
        f"{decision.width:.3f} (one standard deviation), with {decision.known:,} rewards known so far."
    )


def _why(decision: Decision, explores: bool | None, best: float | None) -> str:
    if explores is None or best is None or decision.mean is None:
        return ""
    if explores:
        return (
            f"It is a trial: another configuration is expected to earn {best - decision.mean:.3f} more, "
            "but too little is known about this one to rule it out."
        )
    return "No other configuration is expected to earn more."


def _held_back(decision: Decision) -> str:
    """Say what a rule of safety would not let the station try, if it did."""
    note = decision.memo.get("safety", {})
    if "held_back" not in note:
        return ""
    arm = note["held_back"]
    held = next((a for a in decision.alternatives if a.arm == arm), None)
    why = "might earn too little beside what runs" if note["by"] == "floor" else "is more than the budget bears"
    return f"A trial of {configuration_text(held.configuration if held else None, arm)} was held back: it {why}."


def _against(runner_up: Alternative | None) -> str:
    if runner_up is None:
        return "There was no alternative."
    if runner_up.ucb is None or runner_up.mean is None or runner_up.width is None:
        return ""
    what = configuration_text(runner_up.configuration, runner_up.arm)
    return f"Next came {what} (expected {runner_up.mean:.3f}, give or take {runner_up.width:.3f})."


def _outcome(reward: float | None) -> str:
    return "" if reward is None else f"It earned {reward:.3f}."
