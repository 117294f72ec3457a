"""Worlds to learn in: environments that pay rewards, and data sets with a known truth.

`contract` says what an environment is; `synthetic` has what is drawn, the paper's bandit and its two-task regression
among it; `trace` makes an environment of any log, `measured` one of a table of measurements, `drifting` one that
changes. `gymnasium` shows one station of an environment to agents written for Gymnasium; `GymEnvironment` is loaded
when it is asked for, since it needs the extra `kinband[gym]`.
"""

from typing import TYPE_CHECKING, Any

from kinband.environments.contract import DrawsLogs, Environment, KnowsTruth, Outcome, Slot, Truth
from kinband.environments.drifting import Drifting
from kinband.environments.measured import MeasuredEnvironment, MeasuredTable, bundled_measured, read_measured
from kinband.environments.synthetic import (
    ClassificationBandit,
    DrawnBandit,
    RegressionDraw,
    SyntheticBandit,
    SyntheticTasks,
    TwoTaskRegression,
)
from kinband.environments.trace import (
    SmoothFit,
    SmoothTraceEnvironment,
    TraceEnvironment,
    split_by_group,
    split_trace,
)

if TYPE_CHECKING:
    from kinband.environments.gymnasium import GymEnvironment as GymEnvironment

__all__ = [
    "ClassificationBandit",
    "DrawnBandit",
    "DrawsLogs",
    "Drifting",
    "Environment",
    "KnowsTruth",
    "MeasuredEnvironment",
    "MeasuredTable",
    "Outcome",
    "RegressionDraw",
    "Slot",
    "SmoothFit",
    "SmoothTraceEnvironment",
    "SyntheticBandit",
    "SyntheticTasks",
    "TraceEnvironment",
    "Truth",
    "TwoTaskRegression",
    "bundled_measured",
    "read_measured",
    "split_by_group",
    "split_trace",
]


def __getattr__(name: str) -> Any:
    """Load what needs an extra only when it is asked for."""
    if name == "GymEnvironment":
        from kinband.environments.gymnasium import GymEnvironment

        return GymEnvironment
    raise AttributeError(f"module 'kinband.environments' has no attribute {name!r}")
