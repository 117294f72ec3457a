"""Tables of tasks that were run under configurations, as environments with full truth (docs/evaluate.md).

`table` finds what the columns are and checks the runs, `environment` puts them into units, plays them, and reads a
table of one's own, or the extract of public measurements in `bundled`.
"""

from kinband.environments.measured.environment import (
    BUNDLED,
    FailedRun,
    MeasuredEnvironment,
    bundled_measured,
    read_measured,
)
from kinband.environments.measured.table import Goal, MeasuredTable, Scale

__all__ = [
    "BUNDLED",
    "FailedRun",
    "Goal",
    "MeasuredEnvironment",
    "MeasuredTable",
    "Scale",
    "bundled_measured",
    "read_measured",
]
