"""What a controller is made with, and what it takes where nobody says."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.contexts import ContextEncoder
from kinband.drift import CLOCK, Drift, drift_from_dict, drift_to_dict
from kinband.errors import BadInputError, NotFoundError, SavedStateError
from kinband.kernels import Kernel, kernel_from_dict
from kinband.kpis import Kpi, NeighbourReward, kpi_factory, kpi_from_dict, kpi_to_dict
from kinband.policies import Conservative, PolicyFactory, Setting, policy_factory
from kinband.policies.exploration import Exploration, exploration_from_dict, exploration_to_dict
from kinband.policies.safety import Safety, SafetyLike, safe_factory, safety_from_dict, safety_to_dict
from kinband.posterior import BUDGET
from kinband.records import Samples
from kinband.similarity import Joint
from kinband.similarity.newcomers import DescriptorKernel, Descriptors, useful_descriptor_kernel
from kinband.trace.rewards import WeightedReward

# --- What a controller is made of, apart from its log: fixed when it is made, stored with it, never refitted in
# replay

_LARGEST_LOG = 20_000  # rows; the factor of the exact posterior takes 4n² bytes, here 1.6 GB


@dataclass(frozen=True, eq=False)
class Settings:
    """The fixed part of a controller.

    Attributes:
        encoder: From states and configurations to contexts.
        stations: Station names; a task number is an index into them.
        kernel: Context kernel k_X.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward beyond what is told of it.
        mean: Constant prior mean.
        policy: Name of one of our policies, or a factory.
        exploration: The β of (12).
        options: Further options of the policy.
        engine: Which posterior.
        budget: Inducing points of a sparse posterior.
        seed: Keys every random draw, together with the decision.
        reward_range: What rewards must lie in, if declared.
        features: Names of the columns of context rows, for a controller that is asked with those; else None.
        start: Rows of a log that the beliefs start from.
        safety: Rules that trials have to keep, if any.
        running: Arms of the configurations declared for stations, by station.
        notes: How the settings came about (fits, similarity), for people.
        descriptors: What is known of stations, by station; see `kinband.similarity.newcomers`.
        weighted: What the reward is made of, where it is made of KPIs.
        kpis: KPIs with a floor, and their models.
        neighbours: Whose rewards count beside a station's own, if any do.
        drift: How it keeps up with stations that change, if it does.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> settings = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], beta=2.0).settings
        >>> settings.task("b"), settings.exploration
        (1, Constant(value=2.0))
    """

    encoder: ContextEncoder
    stations: tuple[str, ...]
    kernel: Kernel
    K_Z: FloatArray
    noise: float
    mean: float
    policy: str | PolicyFactory
    exploration: Exploration
    options: Mapping[str, Any]
    engine: str
    seed: int
    budget: int = BUDGET
    reward_range: tuple[float, float] | None = None
    features: tuple[str, ...] | None = None
    start: Samples | None = None
    safety: Safety | None = None
    running: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    descriptors: Mapping[str, Descriptors] = field(default_factory=dict)
    weighted: WeightedReward | None = None
    kpis: tuple[Kpi, ...] = ()
    neighbours: NeighbourReward | None = None
    drift: Drift | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", checked_seed(self.seed))
        keeps_rows = self.engine in ("exact", "schur")
        if keeps_rows and self.start is not None and len(self.start) > _LARGEST_LOG:
            raise BadInputError(
                f"the log has {len(self.start):,} rows, the exact posterior starts from at most {_LARGEST_LOG:,}: "
                "choose engine='sparse', take some rows of every station with trace.sample(rows_per_station, rng=...), "
                "or pass start=False"
            )

    def setting(self) -> Setting:
        """Return what the policy is built from."""
        return Setting(
            self.kernel,
            self.K_Z,
            noise=self.noise,
            arms=len(self.encoder.space),
            mean=self.mean,
            exploration=self.exploration,
            engine=self.engine,
            budget=self.budget,
            options=self.options,
            configurations=self.encoder.space.features if self.features is None else None,
        )

    def factory(self) -> PolicyFactory:
        """Return what builds the policy, under its rules and floors of KPIs if there are any."""
        plain = policy_factory(self.policy)
        if self.kpis:
            return kpi_factory(plain, self.kpis, safety=self.safety)
        return plain if self.safety is None else safe_factory(plain, self.safety)

    def task(self, station: str) -> int:
        """Return the task number of a station, or say which stations there are."""
        try:
            return self._tasks[station]
        except (KeyError, TypeError):
            some = ", ".join(map(repr, self.stations[:5])) + (", ..." if len(self.stations) > 5 else "")
            raise NotFoundError(f"unknown station {station!r}: this controller runs {some}") from None

    @cached_property
    def _tasks(self) -> dict[str, int]:
        return {station: task for task, station in enumerate(self.stations)}

    @cached_property
    def descriptor_kernel(self) -> DescriptorKernel | None:
        """What resemblance of descriptors says of likeness, fitted to K_Z; None where it says nothing."""
        return useful_descriptor_kernel(self.K_Z, [self.descriptors.get(station, {}) for station in self.stations])

    @property
    def clock_column(self) -> int | None:
        """The column of contexts that holds the time, None where nothing is forgotten."""
        if self.drift is None or not self.drift.forgets:
            return None
        return (self.encoder.features if self.features is None else self.features).index(CLOCK)

    def check_reward(self, reward: float) -> float:
        """Return the reward as a float, or say why it cannot be one."""
        value = told_number(reward, name="reward")
        if self.reward_range and not self.reward_range[0] <= value <= self.reward_range[1]:
            low, high = self.reward_range
            raise BadInputError(f"reward {value:g} lies outside the declared range {low:g} to {high:g}: check its unit")
        return value


def told_number(value: Any, *, name: str) -> float:
    """Return a measured value as a finite float; text and truth values are no measurements, though float() takes them.

    Example:
        >>> told_number(np.float32(0.5), name="reward")
        0.5
    """
    if isinstance(value, str | bytes | bool | np.bool_):
        raise BadInputError(f"{name} must be a number, got {value!r:.60}")
    return finite_number(value, name=name)


def checked_seed(seed: Any) -> int:
    """Return a seed as a plain whole number, or say what came instead.

    Example:
        >>> checked_seed(np.int64(3))
        3
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise BadInputError(f"seed must be a whole number from 0 on, got {seed!r:.60}")
    return int(seed)


def settings_to_parts(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings as JSON-able values and plain arrays."""
    arrays: dict[str, Any] = {"K_Z": settings.K_Z}
    start = settings.start
    if start is not None:
        arrays |= {"tasks": start.tasks, "X": start.X, "y": start.y}
        optional = {"noise": start.noise, "arms": start.arms}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        arrays |= {f"kpi{i}": array for i, array in enumerate(start.kpis.values())}
    values: dict[str, Any] = {
        "encoder": settings.encoder.to_dict(),
        "stations": list(settings.stations),
        "kernel": settings.kernel.to_dict(),
        "noise": settings.noise,
        "mean": settings.mean,
        "policy": settings.policy if isinstance(settings.policy, str) else None,
        "exploration": exploration_to_dict(settings.exploration),
        "options": dict(settings.options),
        "engine": settings.engine,
        "budget": settings.budget,
        "seed": settings.seed,
        "reward_range": None if settings.reward_range is None else list(settings.reward_range),
        "features": None if settings.features is None else list(settings.features),
        "start": None if start is None else {"features": list(start.features), "categorical": list(start.categorical)},
        "safety": None if settings.safety is None else safety_to_dict(settings.safety),
        "running": dict(settings.running),
        "notes": dict(settings.notes),
    }
    if settings.descriptors:
        values["descriptors"] = {station: dict(known) for station, known in settings.descriptors.items()}
    if start is not None and start.kpis:
        values["start"]["kpis"] = list(start.kpis)
    if settings.weighted is not None:
        values["weighted"] = dict(settings.weighted.weights)
    if settings.kpis:
        values["kpis"] = [kpi_to_dict(kpi) for kpi in settings.kpis]
    if settings.neighbours is not None:
        values["neighbours"] = settings.neighbours.to_dict()
    if settings.drift is not None:
        values["drift"] = drift_to_dict(settings.drift)
    return values, arrays


def settings_from_parts(
    values: Mapping[str, Any], arrays: Mapping[str, Any], *, policy: PolicyFactory | None
) -> Settings:
    """Return the settings that `settings_to_parts` wrote; a policy of the user's own must be handed in again.

    Settings of earlier versions may hold `sharing`, a rule by which the task matrix was estimated again. It is no
    longer followed; the matrices that it led to are in the journal (`Estimated`).
    """
    if values["policy"] is None and policy is None:
        raise SavedStateError("this controller ran a policy of your own: pass its factory again as policy=")
    span, features = values["reward_range"], values["features"]
    return Settings(
        encoder=ContextEncoder.from_dict(values["encoder"]),
        stations=tuple(values["stations"]),
        kernel=kernel_from_dict(values["kernel"]),
        K_Z=np.asarray(arrays["K_Z"], dtype=np.float64),
        noise=values["noise"],
        mean=values["mean"],
        policy=policy or values["policy"],
        exploration=exploration_from_dict(values["exploration"]),
        options=values["options"],
        engine=values["engine"],
        budget=values.get("budget", BUDGET),
        seed=values["seed"],
        reward_range=None if span is None else (span[0], span[1]),
        features=None if features is None else tuple(features),
        start=_start_from_parts(values, arrays),
        safety=safety_from_dict(values["safety"]) if values.get("safety") else None,
        running=values.get("running", {}),
        notes=values["notes"],
        descriptors=values.get("descriptors", {}),
        drift=drift_from_dict(values["drift"]) if values.get("drift") else None,
        weighted=WeightedReward(values["weighted"]) if values.get("weighted") else None,
        kpis=tuple(map(kpi_from_dict, values.get("kpis", ()))),
        neighbours=NeighbourReward.from_dict(values["neighbours"]) if values.get("neighbours") else None,
    )


def _start_from_parts(values: Mapping[str, Any], arrays: Mapping[str, Any]) -> Samples | None:
    named = values["start"]
    if named is None:
        return None
    stations, features, categorical = values["stations"], named["features"], named["categorical"]
    return Samples(
        tuple(stations), arrays["tasks"], arrays["X"], arrays["y"], arrays.get("noise"),
        tuple(features), tuple(categorical), arrays.get("arms"),
        {name: arrays[f"kpi{i}"] for i, name in enumerate(named.get("kpis", ()))},
    )  # fmt: skip


# --- What a controller does where nothing is said: what an operator gets on the first day, or the paper to the
# letter
#
# Learned from a log, stations share by the joint model (`kinband.similarity.joint`); as in the paper, by its
# embedding. Where a running configuration is declared for every station, a budget holds the controller against it:
# with probability 95 % rewards do not fall below 95 % of what it would have earned. Where that cannot be, the
# program's log says why; `safety=[]` asks for no rule.

_log = logging.getLogger(__name__)

ALPHA, DELTA = 0.05, 0.05
"""Of the budget that is on where nothing is said: how much may be lost, and with which probability more."""

BETA = 0.3
"""Weight of the width in UCB from a log: the best on development seeds over all problems (docs/evidence.md)."""

_WITH_BOUNDS = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "pooled")
_SILENCE = "pass safety=[] if no rule is wanted"


def usual_beta(policy: Any, *, paper: bool) -> float:
    """Return the weight of the width where none is given, for a controller that has learned from a log.

    Example:
        >>> usual_beta("ucb", paper=False), usual_beta("thompson", paper=False), usual_beta("ucb", paper=True)
        (0.3, 1.0, 1.0)
    """
    return BETA if policy == "ucb" and not paper else 1.0


def usual_safety(
    stations: Sequence[str],
    rewards: FloatArray,
    given: SafetyLike,
    *,
    policy: Any,
    running: Any,
    reward_range: tuple[float, float] | None,
) -> tuple[SafetyLike, str]:
    """Return the rules of a controller for which none were named, and why no budget is on that one might expect.

    Args:
        stations: Whom it decides for.
        rewards: What the log has, (n,).
        given: What was said of safety; anything but None is left as it is.
        policy: The policy; one without bounds gets no budget.
        running: What was declared to run; where nothing was, no budget is expected.
        reward_range: What rewards lie in, if that was said; a budget counts from its lower end.

    Example:
        >>> import numpy as np
        >>> log = ["a"], np.array([0.9])
        >>> usual_safety(*log, None, policy="ucb", running={"tilt": 2}, reward_range=None)[0].alpha
        0.05
        >>> usual_safety(*log, None, policy="ucb", running=None, reward_range=None)
        (None, '')
    """
    if given is not None or not isinstance(running, Mapping):
        return given, ""
    least = 0.0 if reward_range is None else reward_range[0]
    reason = _in_the_way(stations, float(rewards.min()), policy, running, least)
    if reason:
        _log.warning("no budget is on, since %s", reason)
        return None, reason
    return Conservative(ALPHA, delta=DELTA, least=least), ""


def _in_the_way(stations: Sequence[str], lowest: float, policy: Any, running: Mapping[Any, Any], least: float) -> str:
    """Why no budget can be kept, and what to do about it; empty where one can."""
    if not isinstance(policy, str) or policy not in _WITH_BOUNDS:
        what = f"the policy {policy!r}" if isinstance(policy, str) else "a policy of your own"
        return f"{what} is not known to have bounds: take one of {', '.join(_WITH_BOUNDS)}, or {_SILENCE}"
    by_station = all(isinstance(value, Mapping) for value in running.values())
    missing = [name for name in stations if name not in running] if by_station else []
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        return f"running= says nothing of station {missing[0]!r}{more}: declare what every station runs, or {_SILENCE}"
    if lowest < least:  # rewards have no zero that a share could be counted from
        return (
            f"the log has a reward of {lowest:g} and rewards are counted from {least:g}: pass reward_range=(low, high) "
            f"with the lowest there can be, or {_SILENCE}"
        )
    return ""


def as_in_the_paper(given: Mapping[str, Any], **beyond: Any) -> dict[str, Any]:
    """Return what to change in arguments so that a controller keeps to the paper; refuse what goes beyond it.

    Args:
        given: Arguments of the controller, by name.
        beyond: Further ones that the paper knows nothing of.

    Example:
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0})
        {'engine': 'exact', 'mean': 0.0}
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0, "descriptors": {"a": {"height": 30}}})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: paper=True keeps to the paper, which has no descriptors=: leave one of them out
    """
    for name in ("safety", "neighbours", "reward", "descriptors"):
        beyond[name] = given.get(name)
    for name, value in beyond.items():
        nothing = value is None or value is False or (isinstance(value, list | tuple | dict) and not value)
        if not nothing:
            raise BadInputError(f"paper=True keeps to the paper, which has no {name}=: leave one of them out")
    options = given.get("options")
    if isinstance(options, Mapping) and options.get("rounds", "plain") != "plain":
        raise BadInputError("paper=True keeps to the paper, whose rounds are plain: leave options={'rounds': ...} out")
    likeness = given.get("similarity")
    if isinstance(likeness, Joint) or (isinstance(likeness, str) and likeness == "joint"):
        what = repr(likeness) if isinstance(likeness, str) else type(likeness).__name__
        raise BadInputError(f"paper=True keeps to the paper, similarity {what} goes beyond it: take 'embedding'")
    if given.get("policy") in ("thompson", "random", "fixed"):
        raise BadInputError(f"paper=True keeps to the paper, which has no policy {given['policy']!r}: take another")
    if given["engine"] not in ("auto", "exact", "schur"):
        raise BadInputError(f"paper=True needs an exact posterior, 'exact' or 'schur', not engine={given['engine']!r}")
    if given["mean"]:
        raise BadInputError(f"paper=True has prior mean 0, got mean={given['mean']!r}: leave one of them out")
    return {"engine": "exact" if given["engine"] == "auto" else given["engine"], "mean": 0.0}
