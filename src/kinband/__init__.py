"""kinband: base stations that learn their configuration from each other.

The names below are the public interface; everything else is reachable but not promised. The rooms, from what flows to
what users call: `records` and `errors`; `configurations`, `contexts` and `trace` (what comes in); `kernels` and
`likelihood`; `posterior` (what is believed); `similarity` (who resembles whom); `policies` (what to try);
`regressor` and `theory` for researchers; `controller` (the loop); `environments` to learn on; `cli`.
"""

from typing import TYPE_CHECKING, Any

from kinband.configurations import Categories, ConfigurationSpace, Range
from kinband.contexts import StateScaler
from kinband.controller import Controller, Explanation
from kinband.errors import KinbandError
from kinband.policies import Policy, check_policy
from kinband.records import Decision, Samples
from kinband.similarity import TaskMatrix
from kinband.trace import Trace
from kinband.version import __version__

if TYPE_CHECKING:
    from kinband.regressor import MultiTaskRegressor

__all__ = [
    "Categories",
    "ConfigurationSpace",
    "Controller",
    "Decision",
    "Explanation",
    "KinbandError",
    "MultiTaskRegressor",
    "Policy",
    "Range",
    "Samples",
    "StateScaler",
    "TaskMatrix",
    "Trace",
    "__version__",
    "check_policy",
]


def __getattr__(name: str) -> Any:
    """Load the scikit-learn estimator only when it is asked for, so that importing kinband stays light."""
    if name == "MultiTaskRegressor":
        from kinband.regressor import MultiTaskRegressor

        return MultiTaskRegressor
    raise AttributeError(f"module 'kinband' has no attribute {name!r}")
