"""Change plans: what each station should be set to tonight, why, and how to undo it.

`making` makes a plan from a controller and the stations as they are now, looking at them one by one; `plan` is the
plan, with its reasons and its folder on disk; `borrowing` measures how much of an estimate other stations lent.
"""

from kinband.planning.borrowing import borrowed
from kinband.planning.making import Present, gain_of, plan_changes, present_of, read_present
from kinband.planning.plan import Change, ChangePlan, LeftAlone

__all__ = [
    "Change",
    "ChangePlan",
    "LeftAlone",
    "Present",
    "borrowed",
    "gain_of",
    "plan_changes",
    "present_of",
    "read_present",
]
