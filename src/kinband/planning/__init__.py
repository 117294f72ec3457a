"""Change plans: what each station should be set to tonight, why, and how to undo it.

For every station the configuration with the largest expected reward (9) is compared with the present one or, when
exploring, the one with the largest f̂ + βσ (12). A plan that plays safe changes a station only where the whole 95 %
interval of its gain is above zero, and never to what nobody tried that it can learn from. All stations are looked at
with the same beliefs, as in Algorithm 1; nothing is recorded and nothing is learned: a person approves a plan.

`period` says what a plan is for, `coverage` what the log has of it, `evidence` what the rows say, `limits` what may
change, `considerations` what counts beside the reward, `making` how the plan of a group comes about, `network` how that
of thousands of stations does, `from_controller` that of a controller; `reasons` are its sentences, `plan` is a plan and
its files, `page` the one to show, with a map of `places`; `design` plans the trials that a log lacks, `waves` says
which changes come first, `conformity` what stations like this one run, `variation` which knobs matter.
"""

from kinband.planning.beliefs import Move, beliefs_of, contributions, gains_ahead, shares, supports
from kinband.planning.considerations import Considerations
from kinband.planning.from_controller import plan_changes
from kinband.planning.limits import Limits, check_step
from kinband.planning.network import NetworkModel, learn_network, plan_network
from kinband.planning.period import (
    Period,
    Present,
    latest,
    periods_of,
    planned_for,
    present_of,
    read_periods,
    read_present,
    silent_since,
)
from kinband.planning.plan import (
    Change,
    ChangePlan,
    LeftAlone,
    Origin,
    Support,
    Waves,
    check_folder,
    safe_json,
    safe_text,
)
from kinband.planning.reasons import NEGLIGIBLE, share_text
from kinband.planning.waves import Staging

__all__ = [
    "NEGLIGIBLE",
    "Change",
    "ChangePlan",
    "Considerations",
    "LeftAlone",
    "Limits",
    "Move",
    "NetworkModel",
    "Origin",
    "Period",
    "Present",
    "Staging",
    "Support",
    "Waves",
    "beliefs_of",
    "check_folder",
    "check_step",
    "contributions",
    "gains_ahead",
    "latest",
    "learn_network",
    "periods_of",
    "plan_changes",
    "plan_network",
    "planned_for",
    "present_of",
    "read_periods",
    "read_present",
    "safe_json",
    "safe_text",
    "share_text",
    "shares",
    "silent_since",
    "supports",
]
