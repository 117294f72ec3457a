"""How a setup comes about: cold from what the user declares, or from a log that teaches the model.

What is learned, and in which order, is in `kinband.model`; what is taken where nothing is said, in `config`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.arrays import FloatArray, finite_array
from kinband.contexts import ContextEncoder, StateScaler, checked_names
from kinband.controller.config import ControllerConfig, refuse_beyond_paper, with_log, without_log
from kinband.controller.logged import Logged
from kinband.controller.setup import Setup
from kinband.controller.stations import arm_of, nothing_to_hold_against
from kinband.drift import (
    check_past_names,
    half_life_note,
    learned_drift,
    timed_columns,
    timed_encoder,
    timed_kernel,
    timed_log,
    timed_trace,
)
from kinband.errors import BadInputError
from kinband.kernels import Kernel, as_kernel, default_kernel
from kinband.kpis import declared_kpis, fitted_kpis
from kinband.likelihood import starting_kernel
from kinband.model import Model, Search, learn_model
from kinband.policies import Conservative
from kinband.policies.kpi_floors import Kpi
from kinband.posterior import SWITCH_ROWS
from kinband.records import Samples
from kinband.similarity import Log, TaskMatrix, similarity_from
from kinband.similarity.newcomers import Descriptors, check_kinds, checked_descriptors
from kinband.similarity.shards import shard_stations
from kinband.space import ConfigurationSpace
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.answers import suspicious_states

if TYPE_CHECKING:
    from kinband.cluster import OnRay

_log = logging.getLogger(__name__)

Running = Mapping[str, Any] | None
"""One configuration for all stations, or configurations by station."""

DescriptorsLike = Mapping[str, Mapping[str, Any]] | None
"""What is known of stations, by station: numbers and categories by name."""

StateLike = Sequence[str] | Mapping[str, tuple[float, float]] | StateScaler
"""State features: names, names with their expected (low, high), or a fitted scaler."""


# --- Without a log, from a trace, from context rows -----------------------------------------------------------------


def cold_setup(
    space: ConfigurationSpace,
    stations: Sequence[str],
    config: ControllerConfig,
    *,
    state: StateLike = (),
    features: Sequence[str] | None = None,
    log: Samples | None = None,
    running: Running = None,
    descriptors: DescriptorsLike = None,
    on: "OnRay | None" = None,
) -> Setup:
    """Return the setup of a controller whose model is declared."""
    config, drift = without_log(config), config.drift
    names, encoder = _checked_stations(stations), ContextEncoder(_scaler(state), checked_space(space))
    if features is not None and encoder.state.names:
        raise BadInputError(
            "a controller is asked with states or with context rows",
            hint="give state= or features=, not both", argument="features",
        )  # fmt: skip
    columns = encoder.features if features is None else checked_names(features, what="features")
    kernel = _declared_kernel(config, columns, categorical=encoder.categorical if features is None else ())
    encoder = timed_encoder(encoder, drift)
    columns = encoder.features if features is None else timed_columns(columns, drift)
    kernel, log = timed_kernel(kernel, drift, columns), timed_log(log, drift, columns)
    _check_log(log, names, columns)
    _check_kernel(kernel, len(columns))
    model = Model(
        kernel, _declared_similarity(config.similarity, names), noise=config.noise or 0.0, mean=config.mean or 0.0
    )
    return _setup(
        config, model, encoder, names, features=None if features is None else columns, start=log,
        notes={"similarity": model.similarity.method},
        kpis=declared_kpis(config.kpis, kernel, model.similarity.K_Z, width=len(columns)),
        running=running, descriptors=descriptors, on=on,
    )  # fmt: skip


def setup_from_trace(
    trace: Trace,
    space: ConfigurationSpace | None,
    config: ControllerConfig,
    *,
    start: bool = True,
    running: Running = None,
    descriptors: DescriptorsLike = None,
    on: "OnRay | None" = None,
) -> Setup:
    """Return the setup of a controller that has learned from a trace."""
    if not isinstance(trace, Trace):
        raise BadInputError(
            f"from_trace takes a Trace, got {type(trace).__name__}",
            hint="Trace.read(path) makes one of a file, and from_log takes Samples", argument="trace",
        )  # fmt: skip
    trace = trace.with_space(trace.space() if space is None else checked_space(space))
    for leak in suspicious_states(trace):
        _log.warning("%s", leak)
    _check_weights(trace, config)
    rewards = trace.reward
    if config.neighbours is not None:
        config.neighbours.check(trace.stations)
        trace = config.neighbours.in_log(trace)
    encoder, kernel, drift = trace.encoder(), config.kernel, config.drift
    samples = trace.samples(encoder)
    logged = Logged.of(samples.tasks, trace.time, samples.arms, rewards)
    encoder = timed_encoder(encoder, drift)
    if drift is not None and drift.forgets:
        samples, kernel, drift = timed_trace(trace, samples, drift, kernel=kernel, columns=encoder.features)
    return _learned(
        samples, encoder, config.replace(drift=drift), kernel=kernel, log=trace, rewards=rewards, start=start,
        running=running, descriptors=descriptors, logged=logged, on=on,
    )  # fmt: skip


def setup_from_log(
    log: Samples,
    space: ConfigurationSpace | None,
    config: ControllerConfig,
    *,
    start: bool = True,
    running: Running = None,
    descriptors: DescriptorsLike = None,
    on: "OnRay | None" = None,
) -> Setup:
    """Return the setup of a controller that has learned from context rows."""
    samples, kernel, drift = checked_samples(log), config.kernel, config.drift
    if config.neighbours is not None:
        raise BadInputError(
            "neighbours= takes a log that says what was measured together", hint="use from_trace", argument="neighbours"
        )
    encoder = ContextEncoder(_scaler(()), _space_of_arms(samples) if space is None else checked_space(space))
    columns = timed_columns(samples.features, drift)
    if columns != samples.features:
        plain = starting_kernel(samples) if kernel is None else as_kernel(kernel).bind(samples.features)
        kernel, timed = timed_kernel(plain, drift, columns), timed_log(samples, drift, columns)
        samples = samples if timed is None else timed
    return _learned(
        samples, timed_encoder(encoder, drift), config, kernel=kernel, log=samples, rewards=samples.y, start=start,
        features=samples.features, running=running, descriptors=descriptors, on=on,
    )  # fmt: skip


def _learned(
    samples: Samples,
    encoder: ContextEncoder,
    config: ControllerConfig,
    *,
    kernel: Kernel | None,
    log: Log,
    rewards: FloatArray,
    start: bool,
    running: Running,
    **about: Any,
) -> Setup:
    """Return the setup that belongs to what a log teaches; `rewards` are those that stations earned themselves."""
    search = Search(kernel=config.kernel is None, noise=config.noise is None, mean=config.mean is None)
    config, seed = with_log(config), config.seed
    config, unsafe = _with_usual_safety(config, samples.stations, rewards, running=running)
    similarity: Any = config.similarity
    model = learn_model(
        samples, similarity, rng=np.random.default_rng([seed, 0]), kernel=kernel,
        noise=config.noise, mean=config.mean, search=search, log=log,
    )  # fmt: skip
    notes = {
        "similarity": model.similarity.method,
        "details": dict(model.similarity.details),
        "rows": len(samples),
        "at_bound": list(model.at_bound),
        **({"no_budget": unsafe} if unsafe else {}),
    }
    return _setup(
        config, model, encoder, samples.stations, start=samples if start else None, notes=notes,
        kpis=fitted_kpis(
            config.kpis, samples, kernel=model.kernel, similarity=model.similarity, rng=np.random.default_rng([seed, 1])
        ),
        running=running, **about,
    )  # fmt: skip


def _setup(
    config: ControllerConfig,
    model: Model,
    encoder: ContextEncoder,
    stations: tuple[str, ...],
    *,
    kpis: tuple[Kpi, ...],
    running: Running,
    descriptors: DescriptorsLike,
    notes: Mapping[str, Any],
    **rest: Any,
) -> Setup:
    """Return the setup of a config and the model that was declared or learned, checked against the stations."""
    check_past_names(config.drift, *stations)
    if config.paper:
        refuse_beyond_paper("descriptors", descriptors)
    if config.neighbours is not None:
        config.neighbours.check(stations)
    arms = declared_arms(running, stations, encoder.space)
    _check_rules(config, arms, stations)
    drift = learned_drift(config.drift, model.kernel)
    if config.shards is not None:
        shards = shard_stations(model.similarity, size=config.shards)
        model, notes = replace(model, similarity=shards.matrix(stations)), {**notes, "shards": str(shards)}
    made = config.replace(
        kernel=model.kernel, noise=model.noise, mean=model.mean, similarity=model.similarity, drift=drift,
        options=_with_arm(config.options, encoder.space), kpis=[kpi.floor for kpi in kpis],
    )  # fmt: skip
    return Setup(
        made, encoder, stations, model.kernel, model.similarity.K_Z, model.noise, model.mean, kpis=kpis,
        running=arms, descriptors=_declared_descriptors(descriptors, stations),
        notes={**notes, **_engine_note(made), **half_life_note(drift)}, **rest,
    )  # fmt: skip


# --- The budget that is on where nothing is said ---------------------------------------------------------------------
#
# Where a running configuration is declared for every station, a budget holds the controller against it: with
# probability 95 % rewards do not fall below 95 % of what it would have earned. Where that cannot be, the program's log
# says why; `safety=[]` asks for no rule.

ALPHA, DELTA = 0.05, 0.05
"""Of the budget that is on where nothing is said: how much may be lost, and with which probability more."""

_WITH_BOUNDS = ("ucb", "thompson", "kernel-ucb", "cgp-ucb", "pooled")
_SILENCE = "pass safety=[] if no rule is wanted"


def _with_usual_safety(
    config: ControllerConfig, stations: Sequence[str], rewards: FloatArray, *, running: Any
) -> tuple[ControllerConfig, str]:
    """Return the config with the rules that are on, and why no budget is on that one might expect."""
    if config.paper or config.safety is not None or not isinstance(running, Mapping):
        return config, ""
    least = 0.0 if config.reward_range is None else config.reward_range[0]
    reason = _in_the_way(stations, float(rewards.min()), config.policy, running, least)
    if reason:
        _log.warning("no budget is on, since %s", reason)
        return config, reason
    return config.replace(safety=Conservative(ALPHA, delta=DELTA, least=least)), ""


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


# --- Checks of what a setup is made from ---------------------------------------------------------------------------


def checked_samples(log: Any) -> Samples:
    """Return a log of context rows, or say what is wrong with it.

    Example:
        >>> checked_samples(Samples(("a",), np.array([0]), np.zeros((1, 2)), np.array([0.5]), None, ("load",)))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the log names 1 feature, its contexts have 2 columns: name every column of X
    """
    if not isinstance(log, Samples):
        raise BadInputError(f"from_log takes Samples, got {type(log).__name__}: from_trace takes a Trace")
    stations, features = _checked_stations(log.stations), checked_names(log.features, what="features")
    X, y = finite_array(log.X, name="X", ndim=2), finite_array(log.y, name="y", ndim=1)
    tasks, n = np.asarray(log.tasks), len(y)
    if not n:
        raise BadInputError("the log has no rows: there is nothing to learn, use Controller(..., features=...)")
    if X.shape[1] != len(features):
        raise BadInputError(
            f"the log names {counted(len(features), 'feature')}, its contexts have {counted(X.shape[1], 'column')}: "
            "name every column of X"
        )
    lengths = {"tasks": tasks, "X": X, "noise": log.noise, "arms": log.arms, **log.kpis}
    for name, column in lengths.items():
        if column is not None and len(column) != n:
            raise BadInputError(f"{name} of the log has {len(column):,} rows, y has {n:,}: give one for each")
    if tasks.dtype.kind not in "iu" or tasks.min() < 0 or tasks.max() >= len(stations):
        raise BadInputError(f"tasks of the log must be whole numbers from 0 to {len(stations) - 1}, one a station")
    if any(not 0 <= column < len(features) for column in log.categorical):
        raise BadInputError(f"categorical of the log must number columns from 0 to {len(features) - 1}")
    return replace(log, stations=stations, features=features, tasks=tasks.astype(np.int64), X=X, y=y)


def _space_of_arms(samples: Samples) -> ConfigurationSpace:
    """The arms of a log that numbers them, as configurations."""
    if samples.arms is None:
        raise BadInputError("the log does not number its arms: give a space, such as ConfigurationSpace(arm=range(5))")
    return ConfigurationSpace(arm=range(int(samples.arms.max()) + 1))


def _check_weights(trace: Trace, config: ControllerConfig) -> None:
    """Refuse a reward that would be summed up otherwise in life than it was in the log."""
    wanted = config.reward
    if wanted is None or trace.weighted is None or dict(wanted.weights) == dict(trace.weighted.weights):
        return
    raise BadInputError(
        f"the log's reward is {trace.weighted}, the one declared is {wanted}",
        hint="use the same weights for both", argument="reward", value=wanted,
    )  # fmt: skip


def declared_arms(running: Running, stations: tuple[str, ...], space: ConfigurationSpace) -> dict[str, int]:
    """Return the arms declared for stations: one configuration for all, or configurations by station.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> declared_arms({"tilt": 4}, ("a", "b"), space), declared_arms({"b": {"tilt": 2}}, ("a", "b"), space)
        ({'a': 1, 'b': 1}, {'b': 0})
    """
    if running is None:
        return {}
    if not isinstance(running, Mapping):
        raise BadInputError(f"running must be a configuration, or configurations by station, got {running!r:.60}")
    by_station = all(isinstance(value, Mapping) for value in running.values())
    given = running if by_station else dict.fromkeys(stations, running)
    if unknown := sorted(set(given) - set(stations)):
        raise BadInputError(f"running names {unknown[0]!r}, which is not a station of this controller")
    return {station: arm_of(given[station], space, station=station) for station in given}


def _declared_descriptors(descriptors: DescriptorsLike, stations: tuple[str, ...]) -> dict[str, Descriptors]:
    """Return what is known of stations, by station; nothing of some of them is fine."""
    if descriptors is None:
        return {}
    if not isinstance(descriptors, Mapping):
        raise BadInputError(f"descriptors must be given by station, as a mapping, got {descriptors!r:.60}")
    if unknown := sorted(set(descriptors) - set(stations)):
        raise BadInputError(f"descriptors names {unknown[0]!r}, which is not a station of this controller")
    known = {station: checked_descriptors(descriptors[station], station=station) for station in descriptors}
    check_kinds(known)
    return {station: values for station, values in known.items() if values}


def _check_rules(config: ControllerConfig, arms: Mapping[str, int], stations: tuple[str, ...]) -> None:
    """Refuse a promise that is held against nothing."""
    rule = None if config.safety is None else config.safety.conservative
    if rule is None:
        return
    missing = next((station for station in stations if station not in arms), None)
    if missing is not None:
        raise nothing_to_hold_against(missing)
    if config.reward_range is not None and (low := config.reward_range[0]) < rule.least:
        raise BadInputError(
            f"rewards may be as low as {low:g}, Conservative counts them from {rule.least:g}",
            hint=f"pass least={low:g}", argument="safety", value=rule,
        )  # fmt: skip


def _engine_note(config: ControllerConfig) -> dict[str, str]:
    """Say in words what approximates the posterior, if anything does."""
    points = f"with {config.inducing_points:,} inducing points"
    match config.engine:
        case "sparse":
            return {"posterior": f"sparse, {points}"}
        case "auto":
            return {"posterior": f"exact up to {SWITCH_ROWS:,} rows, from then on sparse {points}"}
    return {}


def _check_log(log: Samples | None, stations: tuple[str, ...], columns: tuple[str, ...]) -> None:
    if log is None:
        return
    if not isinstance(log, Samples):
        raise BadInputError(f"log must be Samples, got {type(log).__name__}: trace.samples() makes them")
    if log.stations != stations:
        raise BadInputError("the log names other stations, or in another order, than the controller")
    if log.features != columns:
        raise BadInputError(f"the log has the features {log.features}, the controller {columns}")


def checked_space(space: Any) -> ConfigurationSpace:
    """Return the space, or say what came instead."""
    if not isinstance(space, ConfigurationSpace):
        raise BadInputError(f"space must be a ConfigurationSpace, got {type(space).__name__}")
    return space


def _check_kernel(kernel: Kernel, width: int) -> None:
    """Try the kernel on a context: one made for other columns fails now, not when the first reward comes."""
    try:
        kernel(np.zeros((1, width)), np.zeros((1, width)))
    except (IndexError, ValueError) as error:
        raise BadInputError(f"the kernel does not fit contexts of {width} features: {error}") from error


def _with_arm(options: Mapping[str, Any], space: ConfigurationSpace) -> dict[str, Any]:
    """Let the fixed policy be given its configuration by value."""
    given = dict(options)
    if "configuration" in given:
        given["arm"] = space.index(given.pop("configuration"))
    return given


def _checked_stations(stations: Sequence[str]) -> tuple[str, ...]:
    listed = isinstance(stations, Iterable) and not isinstance(stations, str)
    names = tuple(stations) if listed else ()  # read once: it may be a generator
    if not listed or not all(isinstance(name, str) and name for name in names):
        raise BadInputError(f"stations must be a list of names, got {stations!r}")
    if not names:
        raise BadInputError("a controller needs at least one station")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInputError(f"station {twice!r} is named twice")
    return names


def _scaler(state: Sequence[str] | Mapping[str, tuple[float, float]] | StateScaler) -> StateScaler:
    if isinstance(state, StateScaler):
        return state
    if isinstance(state, str) or not isinstance(state, Iterable):
        raise BadInputError(f"state must list feature names, or map them to (low, high), got {state!r}")
    return StateScaler.from_ranges(state) if isinstance(state, Mapping) else StateScaler.identity(state)


def _declared_similarity(similarity: Any, stations: tuple[str, ...]) -> TaskMatrix:
    if isinstance(similarity, TaskMatrix):
        return similarity.reindex(stations)
    if not isinstance(similarity, str):
        return TaskMatrix(stations, similarity, "given")
    similarity_from(similarity)  # an unknown name is refused with the list of names
    if similarity not in ("independent", "pooled"):
        raise BadInputError(
            f"similarity {similarity!r} is learned from a log",
            hint="use Controller.from_trace or from_log, or give a matrix", argument="similarity", value=similarity,
        )  # fmt: skip
    M = len(stations)
    return TaskMatrix(stations, np.eye(M) if similarity == "independent" else np.ones((M, M)), similarity)


def _declared_kernel(config: ControllerConfig, columns: tuple[str, ...], *, categorical: tuple[int, ...]) -> Kernel:
    """Return the kernel bound to its columns; by default a declared range is four standard deviations of f wide."""
    if config.kernel is not None:
        return config.kernel.bind(columns)
    span = config.reward_range
    variance = 1.0 if span is None else ((span[1] - span[0]) / 4.0) ** 2
    return default_kernel(columns, categorical=categorical, variance=variance)
