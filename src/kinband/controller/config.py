"""The one declaration of what a controller can be told about how it works.

`ControllerConfig` lists every setting once: its name, its default, how it is checked and how it is written down. What
`Controller(...)`, `Controller.from_trace` and `from_log` take by name, what a saved state and a ledger hold, and what
editors suggest (`ConfigKeywords`, which a test holds against the fields) follow from that list. A config
knows nothing of a particular network: stations, space and log are given beside it, so that one config serves many.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, TypedDict, Unpack

import numpy as np

from kinband.arrays import finite_number, positive_number
from kinband.drift import Drift, drift_from, drift_from_dict, drift_to_dict
from kinband.errors import BadInputError, SavedStateError
from kinband.kernels import Kernel, as_kernel, kernel_from_dict
from kinband.kpis import NeighbourReward
from kinband.model import SimilarityLike
from kinband.policies import Exploration, PolicyFactory, policy_factory
from kinband.policies.exploration import exploration_from, exploration_from_dict, exploration_to_dict
from kinband.policies.kpi_floors import KpiFloor, KpisLike, floor_to_dict, floors_from
from kinband.policies.safety import Safety, SafetyLike, safety_from, safety_from_dict, safety_to_dict
from kinband.posterior import ENGINES, INDUCING_POINTS, checked_inducing_points
from kinband.similarity import Joint
from kinband.similarity.shards import checked_size
from kinband.trace.rewards import WeightedReward, weighted_from

BETA = 0.3
"""Weight of the standard deviation in UCB from a log: the best on development seeds over all problems."""

_WITH_RESIDUALS = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "super-ucb")
"""Policies that predict rewards with standard deviations, by a model that tells stations apart."""


class ConfigKeywords(TypedDict, total=False):
    """What may be given for each field of `ControllerConfig`; the field's type says what becomes of it."""

    kernel: Kernel | None
    noise: float | None
    mean: float | None
    similarity: SimilarityLike | None
    shards: int | None
    engine: str
    inducing_points: int
    policy: str | PolicyFactory
    beta: float | str | Exploration | None
    options: Mapping[str, Any] | None
    safety: SafetyLike
    drift: Drift | None
    reward: WeightedReward | Mapping[str, float] | str | None
    kpis: KpisLike
    neighbours: NeighbourReward | None
    reward_range: tuple[float, float] | None
    seed: int
    paper: bool


def _same(value: Any) -> Any:
    return value


def _name_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _by(
    check: Callable[[Any], Any], *, write: Callable[[Any], Any] = _same, read: Callable[[Any], Any] = _same
) -> dict[str, Any]:
    """Say of a field how what is given is checked, and how it is written as JSON and read again."""
    return {"check": check, "write": write, "read": read}


def _or_nothing(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a check that leaves None as it is."""
    return lambda value: None if value is None else check(value)


def _checked_engine(engine: Any) -> str:
    if not isinstance(engine, str) or engine not in ENGINES:
        raise BadInputError(
            f"unknown engine {engine!r}", hint=f"choose one of {', '.join(ENGINES)}", argument="engine", value=engine
        )
    return engine


def _checked_policy(policy: Any) -> str | PolicyFactory:
    policy_factory(policy)  # an unknown name is refused here, before anything is built
    known: str | PolicyFactory = policy
    return known


def _checked_options(options: Any) -> dict[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise BadInputError(
            f"options must be a mapping from name to value, got {type(options).__name__}",
            argument="options", value=options,
        )  # fmt: skip
    return dict(options or {})


def _checked_neighbours(rule: Any) -> NeighbourReward:
    if not isinstance(rule, NeighbourReward):
        raise BadInputError(
            f"neighbours takes a NeighbourReward(...), got {rule!r:.60}", argument="neighbours", value=rule
        )
    return rule


def _checked_range(given: Any) -> tuple[float, float]:
    about = {"argument": "reward_range", "value": given}
    try:
        low, high = (finite_number(limit, name="reward_range") for limit in given)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"reward_range must be (low, high), got {given!r}", **about) from error
    if low >= high:
        raise BadInputError(f"reward_range must be (low, high) with low below high, got {given!r}", **about)
    return low, high


def checked_seed(seed: Any) -> int:
    """Return a seed as a plain whole number, or say what came instead."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise BadInputError(f"seed must be a whole number from 0 on, got {seed!r:.60}", argument="seed", value=seed)
    return int(seed)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ControllerConfig:
    """How a controller works, apart from whom it works for.

    None stands for "not said". Without a log, kernel, noise and mean then have a default and stations are independent;
    with one, they are learned. What the controller made of it is `controller.setup.config`.

    Attributes:
        kernel: Context kernel over state and configuration features; by default an RBF with one length-scale each and
            variance 1, or a sixteenth of the square of `reward_range`: what is not known yet is worth that much doubt.
        noise: Variance of a reward that its context does not explain; 0.01 without a log.
        mean: Prior mean of rewards; 0 without a log, as in the paper.
        similarity: How alike stations are: a task matrix or `TaskMatrix`, "independent" or "pooled"; from a log also
            "joint" (the default there), "embedding", "prediction", "coregionalisation", or an estimator of your own.
        shards: The most stations that share: more are cut into groups of similar ones, which learn apart
            (docs/scaling.md).
        engine: "auto" for a posterior that is exact up to 8,000 rows and sparse from then on; "exact" or "sparse"
            throughout; "schur" for the paper's own update.
        inducing_points: How many of them a sparse posterior keeps.
        policy: Name of a policy, or a factory of your own (see `kinband.policies`).
        beta: Weight of the standard deviation in UCB, and of what a draw adds to the mean in Thompson sampling: a
            number, "corrected", "printed" or a rule; 1 without a log, and 0.3 for UCB from one (docs/evidence.md).
        options: Further options of the policy; for "ucb" {"rounds": "aware"}, where stations of a round take each
            other's picks into account.
        safety: Rules that trials have to keep: `Conservative`, `Floor`, `SwitchingCost`, or a list of them
            (docs/learning.md). From a log, where it is declared what every station runs, None stands for
            `Conservative(0.05, delta=0.05)`, and [] for no rule.
        drift: How it keeps up with stations that change: `Drift(half_life=..., reset=...)` (docs/learning.md).
        reward: What the reward is made of, where it is made of KPIs: a `WeightedReward`, or weights by KPI
            (docs/your-data.md).
        kpis: Floors under other KPIs: `KpiFloor`, or a list of them.
        neighbours: Whose rewards count beside a station's own: a `NeighbourReward`.
        reward_range: What rewards must lie in, e.g. (0, 1); anything else is then refused.
        seed: Keys every random draw.
        paper: Whether to keep to the paper: exact posterior, mean 0, its embedding, β = 1. What goes beyond is refused.

    Example:
        >>> config = ControllerConfig(beta=0.5, seed=3)
        >>> config
        ControllerConfig(beta=Constant(value=0.5), seed=3)
        >>> ControllerConfig(bta=0.5)
        Traceback (most recent call last):
            ...
        TypeError: there is no setting 'bta': did you mean 'beta'?
    """

    # What is believed before anything is told
    kernel: Kernel | None = field(
        default=None, metadata=_by(_or_nothing(as_kernel), write=lambda kernel: kernel.to_dict(), read=kernel_from_dict)
    )
    noise: float | None = field(
        default=None, metadata=_by(_or_nothing(lambda noise: positive_number(noise, name="noise")))
    )
    mean: float | None = field(default=None, metadata=_by(_or_nothing(lambda mean: finite_number(mean, name="mean"))))
    similarity: SimilarityLike | None = field(default=None, metadata=_by(_same, write=_name_or_none))
    shards: int | None = field(default=None, metadata=_by(_or_nothing(checked_size)))
    engine: str = field(default="auto", metadata=_by(_checked_engine))
    inducing_points: int = field(default=INDUCING_POINTS, metadata=_by(checked_inducing_points))
    # How it explores
    policy: str | PolicyFactory = field(default="ucb", metadata=_by(_checked_policy, write=_name_or_none))
    beta: Exploration | None = field(
        default=None, metadata=_by(_or_nothing(exploration_from), write=exploration_to_dict, read=exploration_from_dict)
    )
    options: Mapping[str, Any] = field(default_factory=dict, metadata=_by(_checked_options))
    # What trials must keep
    safety: Safety | None = field(
        default=None,
        metadata=_by(
            _or_nothing(lambda rules: safety_from(rules) or Safety()), write=safety_to_dict, read=safety_from_dict
        ),
    )
    # Stations that change
    drift: Drift | None = field(default=None, metadata=_by(drift_from, write=drift_to_dict, read=drift_from_dict))
    # What a station answers for beyond one number of its own
    reward: WeightedReward | None = field(
        default=None,
        metadata=_by(_or_nothing(weighted_from), write=lambda reward: dict(reward.weights), read=WeightedReward),
    )
    kpis: tuple[KpiFloor, ...] = field(
        default=(),
        metadata=_by(
            floors_from,
            write=lambda kpis: [floor_to_dict(floor) for floor in kpis],
            read=lambda kpis: [KpiFloor(**floor) for floor in kpis],
        ),
    )
    neighbours: NeighbourReward | None = field(
        default=None,
        metadata=_by(_or_nothing(_checked_neighbours), write=NeighbourReward.to_dict, read=NeighbourReward.from_dict),
    )
    # The rest
    reward_range: tuple[float, float] | None = field(
        default=None, metadata=_by(_or_nothing(_checked_range), write=list)
    )
    seed: int = field(default=0, metadata=_by(checked_seed))
    paper: bool = field(default=False, metadata=_by(bool))

    def __init__(self, **given: Unpack[ConfigKeywords]) -> None:
        known = {part.name: part for part in fields(self)}
        for name in given:
            if name not in known:
                like = get_close_matches(name, known, n=1)
                advice = f"did you mean {like[0]!r}?" if like else f"there are {', '.join(known)}"
                raise TypeError(f"there is no setting {name!r}: {advice}")
        for name, part in known.items():
            object.__setattr__(self, name, part.metadata["check"](given.get(name, _default(part))))
        _check_resets(self)
        if self.paper:
            _check_paper(self)
            object.__setattr__(self, "engine", "exact" if self.engine == "auto" else self.engine)
            object.__setattr__(self, "mean", 0.0)

    def __repr__(self) -> str:
        said = {part.name: getattr(self, part.name) for part in fields(self) if not _usual(self, part)}
        return f"ControllerConfig({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def replace(self, **given: Unpack[ConfigKeywords]) -> "ControllerConfig":
        """Return a config with some settings changed.

        Example:
            >>> ControllerConfig(beta=0.5, seed=3).replace(beta=1.0)
            ControllerConfig(beta=Constant(value=1.0), seed=3)
        """
        changes: dict[str, Any] = dict(given)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the config as JSON-able values; a matrix, an estimator and a policy of your own are left out.

        Example:
            >>> ControllerConfig(seed=3, reward_range=(0, 1)).to_dict()["reward_range"]
            [0.0, 1.0]
        """
        said = {part: getattr(self, part.name) for part in fields(self)}
        return {part.name: None if value is None else part.metadata["write"](value) for part, value in said.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, policy: PolicyFactory | None = None) -> "ControllerConfig":
        """Return the config that `to_dict` wrote; a policy of the user's own must be handed in again.

        Example:
            >>> ControllerConfig.from_dict(ControllerConfig(beta=0.5).to_dict())
            ControllerConfig(beta=Constant(value=0.5))
        """
        if values["policy"] is None and policy is None:
            raise SavedStateError(
                "this controller ran a policy of your own", hint="pass its factory again as policy=", argument="policy"
            )
        read = {part.name: part.metadata["read"] for part in fields(cls)}
        given: Any = {name: read[name](value) for name, value in values.items() if value is not None}
        return cls(**given | ({} if policy is None else {"policy": policy}))


def _default(part: "Field[Any]") -> Any:
    return None if part.default is MISSING else part.default


def _usual(config: ControllerConfig, part: "Field[Any]") -> bool:
    """Whether nothing was said of a setting, or what holds anyway."""
    value, usual = getattr(config, part.name), part.metadata["check"](_default(part))
    return value is usual or (isinstance(value, str | int | tuple | dict) and bool(value == usual))


def config_from(config: ControllerConfig | None, given: ConfigKeywords) -> ControllerConfig:
    """Return a config with some settings given by name beside it, which count before its own."""
    if config is None:
        return ControllerConfig(**given)
    if not isinstance(config, ControllerConfig):
        raise BadInputError(
            f"config takes a ControllerConfig(...), got {config!r:.60}", argument="config", value=config
        )
    return config.replace(**given)


def without_log(config: ControllerConfig) -> ControllerConfig:
    """Return a config with what a controller takes where nothing is said and there is nothing to learn from."""
    return _filled(config, {"noise": 0.01, "mean": 0.0, "similarity": "independent", "beta": 1.0})


def with_log(config: ControllerConfig) -> ControllerConfig:
    """Return a config with what a controller that learns from a log takes where nothing is said."""
    beta = BETA if config.policy == "ucb" and not config.paper else 1.0
    return _filled(config, {"similarity": "embedding" if config.paper else "joint", "beta": beta})


def _filled(config: ControllerConfig, usual: Mapping[str, Any]) -> ControllerConfig:
    missing: Any = {name: value for name, value in usual.items() if getattr(config, name) is None}
    return config.replace(**missing)


def _check_resets(config: ControllerConfig) -> None:
    """Refuse resets where no residual would tell of a change, or none of one station."""
    drift, policy = config.drift, config.policy
    if drift is None or drift.resets is None or not isinstance(policy, str) or policy in _WITH_RESIDUALS:
        return
    raise BadInputError(
        f"resets judge every station by the predictions of its own model, which the policy {policy!r} does not have",
        hint=f"choose one of {', '.join(_WITH_RESIDUALS)}, or pass Drift(half_life=..., reset=False)",
        argument="drift", value=drift,
    )  # fmt: skip


def refuse_beyond_paper(name: str, value: Any) -> None:
    """Refuse a setting that the paper knows nothing of, unless it says nothing."""
    if value is None or value == Safety() or (isinstance(value, list | tuple | Mapping) and not value):
        return
    raise BadInputError(
        f"paper=True keeps to the paper, which has no {name}=", hint="leave one of them out", argument=name, value=value
    )


def _check_paper(config: ControllerConfig) -> None:
    """Refuse what goes beyond the paper."""
    for name in ("safety", "neighbours", "reward", "kpis", "drift", "shards"):
        refuse_beyond_paper(name, getattr(config, name))
    rounds, similarity, policy = config.options.get("rounds", "plain"), config.similarity, config.policy
    joint = isinstance(similarity, Joint) or _named(similarity, "joint")
    beyond = [
        ("options", rounds != "plain", "whose rounds are plain: leave options={'rounds': ...} out"),
        ("similarity", joint, f"similarity {_name_of(similarity)} goes beyond it: take 'embedding'"),
        ("policy", _named(policy, "thompson", "random", "fixed"), f"which has no policy {policy!r}: take another"),
    ]
    for name, found, problem in beyond:
        if found:
            raise BadInputError(f"paper=True keeps to the paper, {problem}", argument=name, value=getattr(config, name))
    if config.engine not in ("auto", "exact", "schur"):
        raise BadInputError(
            f"paper=True needs an exact posterior, 'exact' or 'schur', not engine={config.engine!r}",
            argument="engine", value=config.engine,
        )  # fmt: skip
    if config.mean:
        raise BadInputError(
            f"paper=True has prior mean 0, got mean={config.mean!r}", hint="leave one of them out",
            argument="mean", value=config.mean,
        )  # fmt: skip


def _named(value: object, *names: str) -> bool:
    return isinstance(value, str) and value in names


def _name_of(similarity: object) -> str:
    return repr(similarity) if isinstance(similarity, str) else type(similarity).__name__
