"""A log as a world: `environment` plays it, `neighbours` finds what a state and a configuration would have earned.

`splits` parts a log in two, so that what a learner knows beforehand and what the environment answers from are
different rows.
"""

from kinband.environments.trace.environment import TraceEnvironment
from kinband.environments.trace.splits import split_by_group, split_trace

__all__ = ["TraceEnvironment", "split_by_group", "split_trace"]
