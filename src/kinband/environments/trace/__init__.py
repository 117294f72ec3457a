"""A log as a world: `rows` shows its states, slot after slot.

`environment` pays for a configuration what the nearest rows earned, which `neighbours` finds; `smooth` pays what a
regression says, plus noise.

`splits` parts a log in two, so that what a learner knows beforehand and what the environment answers from are
different rows.
"""

from kinband.environments.trace.environment import TraceEnvironment
from kinband.environments.trace.smooth import SmoothFit, SmoothTraceEnvironment
from kinband.environments.trace.splits import split_by_group, split_trace

__all__ = ["SmoothFit", "SmoothTraceEnvironment", "TraceEnvironment", "split_by_group", "split_trace"]
