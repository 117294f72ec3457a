"""kinband: base stations that learn their configuration from each other.

The names below are the public interface; everything else is reachable but not promised. The rooms, from what flows to
what users call: `records` and `errors`; `space`, `contexts` and `trace` (what comes in); `kernels` and
`likelihood`; `posterior` (what is believed); `similarity` (who resembles whom); `policies` (what to try); `drift` and
`kpis` (stations that change, and what else they answer for); `regressor` and `theory` for researchers; `controller`
(the loop); `ope` (what a policy would have earned); `diagnostics` (how far to believe it); `environments` to learn
on; `experiments` to compare learners; `cli`.

A name is loaded when it is first asked for. So is a room: `kinband.similarity` works after `import kinband`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinband.version import __version__

if TYPE_CHECKING:
    from kinband.contexts import StateScaler
    from kinband.controller import Controller, ControllerConfig, Explanation
    from kinband.drift import Drift
    from kinband.errors import KinbandError
    from kinband.experiments.compare import compare
    from kinband.kpis import KpiFloor, NeighbourReward
    from kinband.policies import Conservative, Floor, Policy, SwitchingCost, check_policy
    from kinband.records import Decision, Samples
    from kinband.regressor import MultiTaskRegressor
    from kinband.similarity import TaskMatrix
    from kinband.space import Categories, ConfigurationSpace, Range
    from kinband.trace import Trace
    from kinband.trace.rewards import WeightedReward

_ROOM_OF = {
    "Categories": "space",
    "ConfigurationSpace": "space",
    "Conservative": "policies",
    "Controller": "controller",
    "ControllerConfig": "controller",
    "Decision": "records",
    "Drift": "drift",
    "Explanation": "controller",
    "Floor": "policies",
    "KinbandError": "errors",
    "KpiFloor": "kpis",
    "MultiTaskRegressor": "regressor",
    "NeighbourReward": "kpis",
    "Policy": "policies",
    "Range": "space",
    "Samples": "records",
    "StateScaler": "contexts",
    "SwitchingCost": "policies",
    "TaskMatrix": "similarity",
    "Trace": "trace",
    "WeightedReward": "trace.rewards",
    "check_policy": "policies",
    "compare": "experiments.compare",
}

__all__ = [
    "Categories",
    "ConfigurationSpace",
    "Conservative",
    "Controller",
    "ControllerConfig",
    "Decision",
    "Drift",
    "Explanation",
    "Floor",
    "KinbandError",
    "KpiFloor",
    "MultiTaskRegressor",
    "NeighbourReward",
    "Policy",
    "Range",
    "Samples",
    "StateScaler",
    "SwitchingCost",
    "TaskMatrix",
    "Trace",
    "WeightedReward",
    "__version__",
    "check_policy",
    "compare",
]


def __getattr__(name: str) -> Any:
    """Load a public name or a room when it is asked for, so that importing kinband is quick and can be interrupted."""
    if name in _ROOM_OF:
        value = getattr(import_module(f"kinband.{_ROOM_OF[name]}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_"):
        try:
            return import_module(f"kinband.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"kinband.{name}":
                raise
    raise AttributeError(f"module 'kinband' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
