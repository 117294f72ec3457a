"""kinband: base stations that learn their configuration from each other.

The names below are what most programs need. Safe trials are in `kinband.policies`, KPIs in `kinband.kpis`, stations
that change in `kinband.drift`, knobs by range in `kinband.space`, a Ray cluster in `kinband.cluster`.

The rooms, from what flows to what users call: `records` and `errors`; `space`, `contexts` and `trace` (what comes in);
`kernels` and `likelihood`; `posterior` (what is believed); `similarity` (who resembles whom); `policies` (what to try);
`drift` and `kpis`; `regressor` and `theory` for researchers; `controller` (the loop); `planning` (change plans); `ope`
(what a policy would have earned); `diagnostics` (how far to believe it); `environments` to learn on; `experiments` to
compare learners; `service`; `cli`.

A name is loaded when it is first asked for. So is a room: `kinband.similarity` works after `import kinband`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinband.version import __version__

if TYPE_CHECKING:
    from kinband.controller import Controller, ControllerConfig
    from kinband.errors import KinbandError
    from kinband.experiments.compare import compare
    from kinband.policies import Policy, check_policy
    from kinband.records import Decision, Samples
    from kinband.regressor import MultiTaskRegressor
    from kinband.similarity import TaskMatrix
    from kinband.space import ConfigurationSpace
    from kinband.trace import Trace

_ROOM_OF = {
    "ConfigurationSpace": "space",
    "Controller": "controller",
    "ControllerConfig": "controller",
    "Decision": "records",
    "KinbandError": "errors",
    "MultiTaskRegressor": "regressor",
    "Policy": "policies",
    "Samples": "records",
    "TaskMatrix": "similarity",
    "Trace": "trace",
    "check_policy": "policies",
    "compare": "experiments.compare",
}

__all__ = [
    "ConfigurationSpace",
    "Controller",
    "ControllerConfig",
    "Decision",
    "KinbandError",
    "MultiTaskRegressor",
    "Policy",
    "Samples",
    "TaskMatrix",
    "Trace",
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
