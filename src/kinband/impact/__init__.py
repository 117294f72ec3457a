"""Did it help: changes judged against stations that did not change, in the same slots.

`panel` makes a table by slot and station of a log, `changes` finds what changed when, `report` judges all of it, and
`page` shows it. The arithmetic is that of `kinband.judging`, on arrays: one change, many, and slot by slot while one is
under way (`Watch`).
"""

from kinband.impact.changes import Change, Order, found_changes, ordered_changes, read_orders
from kinband.impact.panel import Panel
from kinband.impact.report import UNSEEN, Impact, Judged, Unjudged, Windows, judge_changes
from kinband.judging import Comparison, Verdict, Watch, mean_verdict

__all__ = [
    "UNSEEN",
    "Change",
    "Comparison",
    "Impact",
    "Judged",
    "Order",
    "Panel",
    "Unjudged",
    "Verdict",
    "Watch",
    "Windows",
    "found_changes",
    "judge_changes",
    "mean_verdict",
    "ordered_changes",
    "read_orders",
]
