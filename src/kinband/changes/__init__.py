"""Change plans: what each station should be set to tonight, why, and how to undo it.

`planning` makes a plan from a controller and the stations as they are now (`present`), looking at them one by one
(`drafts`); `plan` is the plan, `reasons` its words, `files` its folder on disk. `borrowing` measures how much of an
estimate other stations lent, `seen` tells states the log knows from others, `steps` limits how far a knob moves.
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
