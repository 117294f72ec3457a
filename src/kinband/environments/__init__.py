"""Worlds to learn in: environments that pay rewards, and data sets with a known truth.

`contract` says what an environment is; `synthetic` is the paper's synthetic bandit and `regression` its two-task
regression.
"""

from kinband.environments.contract import DrawsLogs, Environment, KnowsTruth, Outcome, Slot, Truth
from kinband.environments.regression import RegressionDraw, TwoTaskRegression
from kinband.environments.synthetic import SyntheticBandit, SyntheticTasks

__all__ = [
    "DrawsLogs",
    "Environment",
    "KnowsTruth",
    "Outcome",
    "RegressionDraw",
    "Slot",
    "SyntheticBandit",
    "SyntheticTasks",
    "Truth",
    "TwoTaskRegression",
]
