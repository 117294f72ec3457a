"""Change plans: what each station should be set to tonight, why, and how to undo it.

`planning` makes a plan from a controller and the stations as they are now, looking at them one by one; `plan` is the
plan, with its reasons and its folder on disk; `borrowing` measures how much of an estimate other stations lent.
"""

from kinband.changes.borrowing import borrowed
from kinband.changes.plan import Change, ChangePlan, LeftAlone
from kinband.changes.planning import Present, plan_changes, present_of, read_present

__all__ = [
    "Change",
    "ChangePlan",
    "LeftAlone",
    "Present",
    "borrowed",
    "plan_changes",
    "present_of",
    "read_present",
]
