"""Why a decision was made, and what the guard made of it: one paragraph, and the same as data.

The controller explains what it chose (`kinband.controller.explain`). It knows neither guard nor people, so that its
words tell only half of a choice that was refused, replaced or never approved: here the other half is put where it
belongs, before what the station ran.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinband.controller import Explanation
from kinband.controller.explain import configuration_text, listed, ran_text
from kinband.guard import Verdict
from kinband.service.operations.records import Item
from kinband.space import ConfigurationSpace

_TO_PROGRAMS = " (most_rows allows it)"  # advice that nobody can follow who asks a service


@dataclass(frozen=True, eq=False)
class Explained:
    """Why a decision was made and what became of it.

    Attributes:
        of: The controller's explanation.
        item: The decision with everything that happened to it.
        text: One paragraph, with the part of guard and people in it.
        guard: What the guard said, as JSON-able values; None where it was not asked.

    Example:
        >>> from datetime import UTC, datetime
        >>> from kinband import Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], seed=1)
        >>> made = controller.ask("a")
        >>> item = Item(made, 1, datetime(2026, 11, 20, tzinfo=UTC), None, "shadow", "shadow", None, running=0, arm=0)
        >>> why = explained(controller.explain(made.id), item, controller.space)
        >>> why.to_dict()["station"], why.guard
        ('a', None)
    """

    of: Explanation
    item: Item
    text: str
    guard: Mapping[str, Any] | None

    @property
    def left_out(self) -> str:
        """Why it is not told whose evidence it rested on, else empty."""
        return self.of.left_out.replace(_TO_PROGRAMS, "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        guard = None if self.guard is None else dict(self.guard)
        return self.of.to_dict() | {"text": self.text, "left_out": self.left_out, "guard": guard}


def explained(found: Explanation, item: Item, space: ConfigurationSpace) -> Explained:
    """Return an explanation with what the guard said.

    Args:
        found: The controller's.
        item: The decision.
        space: The configurations that arms are numbers of.
    """
    said = " ".join(filter(None, [guard_text(item, space), people_text(item)]))
    text = found.text.replace(_TO_PROGRAMS, "")
    if said:
        ran = ran_text(found.decision, found.ran, told=found.reward is not None)
        before, ran, after = text.rpartition(ran) if ran else (text, "", "")
        text = " ".join(part.strip() for part in (before, said, ran + after) if part.strip())
    return Explained(found, item, text, None if item.verdict is None else guard_data(item, item.verdict, space))


def guard_text(item: Item, space: ConfigurationSpace) -> str:
    """Return what the guard did to a decision, by which rails and why; empty where it let it through.

    Example:
        >>> from datetime import UTC, datetime
        >>> from kinband.guard import Refusal
        >>> from kinband.records import Decision
        >>> space, at = ConfigurationSpace(tilt=[2, 4, 8]), datetime(2026, 11, 20, tzinfo=UTC)
        >>> made = Decision("d1", "a", 2, {"tilt": 8}, 0.9, 0.1, 1.0)
        >>> refusal = Refusal("step", "tilt from 2 to 8 is further than the 2 of one change", 2)
        >>> verdict = Verdict("a", "refused", arm=0, running=0, asked=2, reason="keeps tilt 2", refusals=(refusal,))
        >>> guard_text(Item(made, 1, at, None, "autonomous", "refused", verdict, running=0, arm=0), space)
        'The guard refused it by the rail step: tilt from 2 to 8 is further than the 2 of one change.'
    """
    verdict = item.verdict
    if verdict is None or verdict.outcome == "allowed":
        return ""
    has = "would have " if item.mode == "shadow" else ""
    what = "nothing else" if verdict.arm is None else configuration_text(_knobs(space, verdict.arm), verdict.arm)
    match verdict.outcome:
        case "refused":
            when = f"When {item.decided_by} approved it, the" if item.decided_by else "The"
            return f"{when} guard {has}refused it{_by_rails(verdict)}."
        case "replaced":
            return f"The guard {has}put {what} in its place{_by_rails(verdict)}."
    rolled = f"{has}rolled the station back to {what}"
    return f"In its place the guard {rolled}: {verdict.reason.partition(': ')[2] or verdict.reason}."


def people_text(item: Item) -> str:
    """Return why a change was not made that people or the network had to make; empty where it was, or needed nobody."""
    match item.status:
        case "waiting":
            return "It waits for a person."
        case "not made":
            return "The network reports that it was not made."
        case "expired":
            return "Nobody approved it while its slot lasted."
        case "rejected":
            return f"{item.decided_by or 'A person'} rejected it."
    return ""


def _by_rails(verdict: Verdict) -> str:
    """Return which rails stood against what was wanted, and why."""
    against = [one for one in verdict.refusals if one.arm in (None, verdict.asked)] or list(verdict.refusals)
    codes, reasons = dict.fromkeys(one.code for one in against), dict.fromkeys(one.reason for one in against)
    if not codes:
        return f": {verdict.reason}"
    return f" by the rail{'' if len(codes) == 1 else 's'} {listed(list(codes))}: {'; '.join(reasons)}"


def guard_data(item: Item, verdict: Verdict, space: ConfigurationSpace) -> dict[str, Any]:
    """Return what the guard said: the outcome, the rails, every refusal, and what ran if that was something else."""
    instead = None if item.arm is None or item.arm == item.decision.arm else _knobs(space, item.arm)
    refusals = [
        {"code": one.code, "reason": one.reason, "configuration": None if one.arm is None else _knobs(space, one.arm)}
        for one in verdict.refusals
    ]
    said = {"outcome": verdict.outcome, "reason": verdict.reason, "rails": list(verdict.codes)}
    return said | {"refusals": refusals, "ran_instead": instead}


def _knobs(space: ConfigurationSpace, arm: int) -> dict[str, Any] | None:
    return dict(space[arm]) if 0 <= arm < len(space) else None
