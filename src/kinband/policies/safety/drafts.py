"""A draft: what would be played, on its way through the rules, and what they noted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.policies.safety.margins import own_beta
from kinband.policies.safety.rules import Bounds, beta_rule
from kinband.posterior import Column, Prediction
from kinband.records import Choice, Memo, Query, Standing

NOTE = "safety"
"""Where a decision's memo keeps what the rules said."""

FLOOR, BUDGET = "floor", "budget"
"""What held a trial back."""


@dataclass(frozen=True, eq=False)
class Work:
    """Work that would otherwise be repeated when the reward of a trial comes.

    Attributes:
        played: What the policy inside keeps.
        replaced: The column of what the trial replaced.
    """

    played: Any
    replaced: Column | None


@dataclass(frozen=True, eq=False)
class Draft:
    """What would be played.

    Attributes:
        query: What was asked.
        plain: What the policy inside wants.
        score: Its scores (m,), less the cost of switching.
        arm: What would be played as things stand.
        ahead: How many decisions of the same round come before.
        note: What the rules want to see again: see `noted`.
        prediction: What the policy's scores were made from, where it shows that.
        replaced: The solved column of what a trial replaces, to be taken up when its reward is told.

    Example:
        >>> query = Query(0, np.zeros((2, 1)), np.array([True, True]), Standing(running=1))
        >>> draft = Draft(query, Choice(0, query.arms), np.array([0.9, 0.8]), arm=0)
        >>> draft.instead(1, by="floor").note
        {'held_back': 0, 'by': 'floor'}
    """

    query: Query
    plain: Choice
    score: FloatArray
    arm: int
    ahead: int = 0
    note: Mapping[str, Any] = field(default_factory=dict)
    prediction: Prediction | None = None
    replaced: Column | None = None

    @property
    def standing(self) -> Standing:
        """What stands in the station."""
        if self.query.standing is None:
            raise BadInputError("safe trials need to know what a station runs: ask through a Controller")
        return self.query.standing

    def instead(self, arm: int, *, by: str) -> "Draft":
        """Return the draft with another arm, noting what a rule held back."""
        if arm == self.arm:
            return self
        return replace(self, arm=arm, note={**self.note, "held_back": self.note.get("held_back", self.arm), "by": by})

    def staying(self, *, by: str) -> "Draft":
        """Return the draft with what the station runs, which a rule knows to be allowed."""
        return self if self.standing.running is None else self.instead(self.standing.running, by=by)

    def fallback(self, arm: int | None) -> int:
        """Return the arm that can always be played, or say that there is none."""
        if arm is None or not 0 <= arm < len(self.query.X) or not self.query.allowed[arm]:
            raise BadInputError("safe trials fall back to what a station runs, which must be known and allowed")
        return arm

    def beta(self, bounds: Bounds, *, noise: float) -> float:
        """Return the weight of a standard deviation: the policy's own, or that of a rule, which counts decisions.

        Decisions of a round are made from the same rewards; a rule that unites over time has to tell them apart.
        """
        rule = beta_rule(bounds)
        if rule is None:
            return own_beta(self.plain)
        number = self.standing.decisions + self.ahead
        return rule.beta(known=number, arms=len(self.query.X), noise=noise)

    def believed(self, arms: Sequence[int]) -> Prediction | None:
        """Return what the policy's prediction says of some arms, if it shows one."""
        return None if self.prediction is None else self.prediction.at(np.searchsorted(self.plain.arms, arms))

    def column(self, arm: int) -> Column | None:
        """Return the solved column of an arm, if the policy's prediction keeps any."""
        if self.prediction is None:
            return None
        return self.prediction.column(int(np.searchsorted(self.plain.arms, arm)))


def noted(choice: Choice, draft: Draft) -> Choice:
    """Return a choice whose memo also holds what the rules said.

    It holds `running`, the arm that the station ran; where a rule stepped in, `held_back`, what would have been
    played, and `by`, "floor" or "budget"; where a budget is kept, `lower` and `beta`, what the decision counts with
    until its reward is told and the weight of the bound; and for a trial `x`, the context of what it replaced.
    """
    memo = {**choice.memo, NOTE: {"running": draft.standing.running, **draft.note}}
    cache = choice.cache if draft.replaced is None else Work(choice.cache, draft.replaced)
    return replace(choice, memo=memo, cache=cache)


def held_lower(memo: Memo) -> float | None:
    """Return the lower bound that a decision counts with until its reward is told, if a budget is kept.

    Example:
        >>> held_lower({"level": 3, "safety": {"lower": -0.2, "beta": 1.0}})
        -0.2
    """
    lower = memo.get(NOTE, {}).get("lower")
    return None if lower is None else float(lower)
