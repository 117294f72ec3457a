"""Change plans: what each station should be set to tonight, why, and how to undo it.

For every station the configuration with the largest expected reward (9) is compared with the present one or, when
exploring, the one with the largest f̂ + βσ (12). A plan that plays safe changes a station only where the whole 95 %
interval of its gain is above zero, and never to what nobody tried that it can learn from. All stations are looked at
with the same beliefs, as in Algorithm 1; nothing is recorded and nothing is learned: a person approves a plan.

`plan` is a plan and its files, `making` how it comes about, `beliefs` the gain of a change and whose rows it rests on;
`design` plans the trials that a log lacks.
"""

from kinband.planning.beliefs import beliefs_of, contributions, gain_in, gain_of, shares, std_alone
from kinband.planning.making import NEGLIGIBLE, check_step, plan_changes, share_text
from kinband.planning.plan import (
    Change,
    ChangePlan,
    LeftAlone,
    Present,
    check_folder,
    present_of,
    read_present,
    safe_text,
)

__all__ = [
    "NEGLIGIBLE",
    "Change",
    "ChangePlan",
    "LeftAlone",
    "Present",
    "beliefs_of",
    "check_folder",
    "check_step",
    "contributions",
    "gain_in",
    "gain_of",
    "plan_changes",
    "present_of",
    "read_present",
    "safe_text",
    "share_text",
    "shares",
    "std_alone",
]
