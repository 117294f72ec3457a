"""Safe trials: exploration that an operator dares to switch on.

Three rules, alone or together, stand between what a UCB policy would like to try and what is played: `Conservative`
keeps a budget, `Floor` looks at every trial by itself, `SwitchingCost` makes change cost something. `rules` says what
they are, `margins` what they compare; `floor`, `budget` and, where rewards are promised, `rewards` judge a draft
(`drafts`); `rounds`, `trials` and `allowances` are what `rewards` reckons with, `staying` says what a station goes on
with where a budget bears no trial, `replaced` what a decision counts for where something else ran, `policy` is how all
work together. What each promises: docs/learning.md.
"""

from kinband.policies.safety.drafts import BUDGET, FLOOR, held_lower
from kinband.policies.safety.policy import SafePolicy, safe_factory
from kinband.policies.safety.replaced import replaced_memo
from kinband.policies.safety.rules import (
    Conservative,
    Floor,
    Rule,
    Safety,
    SafetyLike,
    SwitchingCost,
    safety_from,
    safety_from_dict,
    safety_to_dict,
)

__all__ = [
    "BUDGET",
    "FLOOR",
    "Conservative",
    "Floor",
    "Rule",
    "SafePolicy",
    "Safety",
    "SafetyLike",
    "SwitchingCost",
    "held_lower",
    "replaced_memo",
    "safe_factory",
    "safety_from",
    "safety_from_dict",
    "safety_to_dict",
]
