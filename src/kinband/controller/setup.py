"""What a controller is made with: a config joined with the network it is for, and with the model of that.

`Setup` is fixed when the controller is made (see `making`), stored with it, and never fitted again in a replay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.arrays import finite_number
from kinband.contexts import ContextEncoder
from kinband.controller.config import ControllerConfig
from kinband.controller.logged import Logged
from kinband.drift import TIME_COLUMN
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import BlockMatrix, Kernel, TaskCovariance
from kinband.policies import Constant, Exploration, PolicyFactory, PolicySpec, policy_factory
from kinband.policies.kpi_floors import Kpi, kpi_from_dict, kpi_to_dict
from kinband.policies.safety import Safety, constrained
from kinband.posterior import LARGEST_LOG
from kinband.records import Samples
from kinband.similarity import TaskMatrix
from kinband.similarity.newcomers import DescriptorKernel, Descriptors, useful_descriptor_kernel

if TYPE_CHECKING:
    from kinband.cluster import OnRay


@dataclass(frozen=True, eq=False)
class Setup:
    """The fixed part of a controller.

    Attributes:
        config: How it works, with nothing left open: what was learned or taken by default is filled in.
        encoder: From states and configurations to contexts.
        stations: Station names; a task number is an index into them.
        kernel: Context kernel k_X.
        K_Z: Task matrix, (M, M); of stations in groups that share nothing a `kinband.kernels.BlockMatrix`.
        noise: Variance of a reward beyond what is told of it.
        mean: Constant prior mean.
        features: Names of the columns of context rows, for a controller that is asked with those; else None.
        start: Rows of a log that the beliefs start from.
        kpis: KPIs with a floor, and their models.
        running: Arms of the configurations declared for stations, by station.
        descriptors: What is known of stations, by station; see `kinband.similarity.newcomers`.
        notes: How the setup came about (fits, similarity), for people.
        logged: The latest rows of the log, with their times; for people, too.
        on: The cluster that blocks of the posterior live on, None for this process; where it runs is never stored.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> setup = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], beta=2.0).setup
        >>> setup.task("b"), setup.config.beta
        (1, Constant(value=2.0))
    """

    config: ControllerConfig
    encoder: ContextEncoder
    stations: tuple[str, ...]
    kernel: Kernel
    K_Z: TaskCovariance
    noise: float
    mean: float
    features: tuple[str, ...] | None = None
    start: Samples | None = None
    kpis: tuple[Kpi, ...] = ()
    running: Mapping[str, int] = field(default_factory=dict)
    descriptors: Mapping[str, Descriptors] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    logged: Logged | None = None
    on: "OnRay | None" = None

    def __post_init__(self) -> None:
        keeps_rows = self.config.engine in ("exact", "schur")
        if keeps_rows and self.start is not None and len(self.start) > LARGEST_LOG:
            raise BadInputError(
                f"the log has {len(self.start):,} rows, the exact posterior starts from at most {LARGEST_LOG:,}",
                hint="choose engine='sparse', take some rows of every station with trace.sample(rows_per_station, "
                "rng=...), or pass start=False",
                argument="engine", value=self.config.engine,
            )  # fmt: skip

    def policy_spec(self) -> PolicySpec:
        """Return what the policy is built from."""
        return PolicySpec(
            self.kernel,
            self.K_Z,
            noise=self.noise,
            arms=len(self.encoder.space),
            mean=self.mean,
            exploration=self.exploration,
            engine=self.config.engine,
            inducing_points=self.config.inducing_points,
            options=self.config.options,
            configurations=self.encoder.space.features if self.features is None else None,
            on=self.on,
        )

    def factory(self) -> PolicyFactory:
        """Return what builds the policy, under its rules and floors of KPIs if there are any."""
        return constrained(policy_factory(self.config.policy), safety=self.rules, kpis=self.kpis)

    @property
    def exploration(self) -> Exploration:
        """The β of (12)."""
        return self.config.beta or Constant(1.0)

    @property
    def rules(self) -> Safety | None:
        """The rules that trials have to keep, None where there are none."""
        return None if self.config.safety == Safety() else self.config.safety

    def task(self, station: str) -> int:
        """Return the task number of a station, or say which stations there are."""
        try:
            return self._tasks[station]
        except (KeyError, TypeError):
            some = ", ".join(map(repr, self.stations[:5])) + (", ..." if len(self.stations) > 5 else "")
            raise NotFoundError(
                f"unknown station {station!r}: this controller runs {some}", argument="station", value=station
            ) from None

    @cached_property
    def _tasks(self) -> dict[str, int]:
        return {station: task for task, station in enumerate(self.stations)}

    @cached_property
    def descriptor_kernel(self) -> DescriptorKernel | None:
        """What resemblance of descriptors says of similarity, fitted to K_Z; None where it says nothing."""
        return useful_descriptor_kernel(self.K_Z, [self.descriptors.get(station, {}) for station in self.stations])

    @property
    def clock_column(self) -> int | None:
        """The column of contexts that holds the time, None where nothing is forgotten."""
        if self.config.drift is None or not self.config.drift.forgets:
            return None
        return (self.encoder.features if self.features is None else self.features).index(TIME_COLUMN)

    def check_reward(self, reward: float) -> float:
        """Return the reward as a float, or say why it cannot be one."""
        value = told_number(reward, name="reward")
        if (span := self.config.reward_range) and not span[0] <= value <= span[1]:
            raise BadInputError(
                f"reward {value:g} lies outside the declared range {span[0]:g} to {span[1]:g}",
                hint="check its unit", argument="reward", value=value,
            )  # fmt: skip
        return value


def told_number(value: Any, *, name: str) -> float:
    """Return a measured value as a finite float; text and truth values are no measurements, though float() takes them.

    Example:
        >>> told_number(np.float32(0.5), name="reward")
        0.5
    """
    if isinstance(value, str | bytes | bool | np.bool_):
        raise BadInputError(f"{name} must be a number, got {value!r:.60}", argument=name, value=value)
    return finite_number(value, name=name)


# --- The setup as JSON-able values and plain arrays, and back ---------------------------------------------------------


def setup_to_parts(setup: Setup) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the setup as JSON-able values and plain arrays."""
    start = setup.start
    arrays: dict[str, Any] = {"K_Z": setup.K_Z}
    if isinstance(setup.K_Z, BlockMatrix):
        arrays = {"K_Z": setup.K_Z.entries, "K_Z_groups": setup.K_Z.groups}
    values: dict[str, Any] = {
        "config": setup.config.to_dict(),
        "encoder": setup.encoder.to_dict(),
        "stations": list(setup.stations),
        "features": None if setup.features is None else list(setup.features),
        "start": None,
        "kpis": [kpi_to_dict(kpi) for kpi in setup.kpis],
        "running": dict(setup.running),
        "descriptors": {station: dict(known) for station, known in setup.descriptors.items()},
        "notes": dict(setup.notes),
    }
    if setup.logged is not None:
        arrays |= setup.logged.arrays()
    if start is not None:
        arrays |= {"tasks": start.tasks, "X": start.X, "y": start.y}
        optional = {"noise": start.noise, "arms": start.arms}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        arrays |= {f"kpi{i}": array for i, array in enumerate(start.kpis.values())}
        named = {"features": start.features, "categorical": start.categorical, "kpis": start.kpis}
        values["start"] = {name: list(listed) for name, listed in named.items()}
    return values, arrays


def setup_from_parts(values: Mapping[str, Any], arrays: Mapping[str, Any], *, policy: PolicyFactory | None) -> Setup:
    """Return the setup that `setup_to_parts` wrote; a policy of the user's own must be handed in again."""
    values = values if "config" in values else _with_config(values)
    stations, notes, features = tuple(values["stations"]), values["notes"], values["features"]
    kept = BlockMatrix(arrays["K_Z_groups"], arrays["K_Z"]) if "K_Z_groups" in arrays else arrays["K_Z"]
    K_Z = TaskMatrix(stations, kept, str(notes.get("similarity", "given")), notes.get("details", {}))
    config = ControllerConfig.from_dict(values["config"], policy=policy).replace(similarity=K_Z)
    if config.kernel is None or config.noise is None or config.mean is None:
        raise BadInputError("the setup on record has no model", argument="config")
    return Setup(
        config=config,
        encoder=ContextEncoder.from_dict(values["encoder"]),
        stations=stations,
        kernel=config.kernel,
        K_Z=K_Z.K_Z,
        noise=config.noise,
        mean=config.mean,
        features=None if features is None else tuple(features),
        start=_start_from_parts(values, arrays),
        kpis=tuple(map(kpi_from_dict, values["kpis"])),
        running=values["running"],
        descriptors=values["descriptors"],
        notes=notes,
        logged=Logged.from_arrays(arrays),
    )


def _with_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a setup that was written before there was a config, as they are written today."""
    same = ("kernel", "noise", "mean", "policy", "options", "engine", "seed", "reward_range", "safety", "drift")
    renamed = {"beta": "exploration", "inducing_points": "budget", "reward": "weighted", "neighbours": "neighbours"}
    kpis = list(values.get("kpis", ()))
    config = {name: values.get(name) for name in same} | {new: values.get(old) for new, old in renamed.items()}
    config |= {"inducing_points": values.get("inducing_points", config["inducing_points"])}
    config |= {"kpis": [kpi["floor"] for kpi in kpis]}
    return {"descriptors": {}, "running": {}, **values, "kpis": kpis, "config": config}


def _start_from_parts(values: Mapping[str, Any], arrays: Mapping[str, Any]) -> Samples | None:
    named = values["start"]
    if named is None:
        return None
    return Samples(
        tuple(values["stations"]), arrays["tasks"], arrays["X"], arrays["y"], arrays.get("noise"),
        tuple(named["features"]), tuple(named["categorical"]), arrays.get("arms"),
        {name: arrays[f"kpi{i}"] for i, name in enumerate(named.get("kpis", ()))},
    )  # fmt: skip
