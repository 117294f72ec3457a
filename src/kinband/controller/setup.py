"""How a controller comes about: cold from what the user declares, or from a log.

From a log, what the user does not give is learned (see `kinband.model`); cold, it has a default.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, finite_array, finite_number, positive_number
from kinband.contexts import ContextEncoder, StateScaler, checked_names
from kinband.controller.config import Settings, as_in_the_paper, checked_seed, usual_beta, usual_safety
from kinband.controller.roster import (
    arm_of,
    check_judged,
    check_past_names,
    half_life_note,
    learned_drift,
    search_of,
    timed_columns,
    timed_encoder,
    timed_kernel,
    timed_log,
    timed_trace,
)
from kinband.counting import counted
from kinband.drift import Drift, drift_from
from kinband.errors import BadInputError
from kinband.kernels import Kernel, as_kernel, check_task_matrix, default_kernel
from kinband.kpis import Kpi, KpiFloor, KpisLike, NeighbourReward, declared_kpis, fitted_kpis, floors_from
from kinband.likelihood import starting_kernel
from kinband.model import Search, SimilarityLike, learn_model
from kinband.policies import Exploration, PolicyFactory, policy_factory
from kinband.policies.exploration import exploration_from
from kinband.policies.safety import Safety, SafetyLike, safety_from
from kinband.posterior import ENGINES, SWITCH_ROWS, checked_budget
from kinband.records import Samples
from kinband.similarity import Log, TaskMatrix, similarity_from
from kinband.similarity.newcomers import Descriptors, check_kinds, checked_descriptors
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.rewards import WeightedReward, weighted_from
from kinband.trace.table import reward_in_state

_log = logging.getLogger(__name__)

Running = Mapping[str, Any] | None
"""One configuration for all stations, or configurations by station."""

DescriptorsLike = Mapping[str, Mapping[str, Any]] | None
"""What is known of stations, by station: numbers and categories by name."""


def cold_settings(
    space: ConfigurationSpace,
    stations: Sequence[str],
    *,
    state: Sequence[str] | Mapping[str, tuple[float, float]] | StateScaler,
    similarity: str | ArrayLike | TaskMatrix,
    kernel: Kernel | None,
    features: Sequence[str] | None,
    log: Samples | None,
    kpis: KpisLike = None,
    paper: bool = False,
    drift: Drift | None = None,
    **common: Any,
) -> Settings:
    """Return the settings of a controller that starts without a trace."""
    if paper:
        common |= as_in_the_paper(common, kpis=kpis, drift=drift)
    drift = drift_from(drift)
    names = _checked_stations(stations)
    encoder = ContextEncoder(_scaler(state), checked_space(space))
    if features is not None and encoder.state.names:
        raise BadInputError(
            "a controller is asked with states or with context rows: give state= or features=, not both"
        )
    K_Z, method = _declared_similarity(similarity, names)
    columns = encoder.features if features is None else checked_names(features, what="features")
    codes = encoder.categorical if features is None else ()
    if kernel is None:
        bound = default_kernel(columns, categorical=codes, variance=_prior_variance(common["reward_range"]))
    else:
        bound = as_kernel(kernel).bind(columns)
    encoder = timed_encoder(encoder, drift)
    columns = encoder.features if features is None else timed_columns(columns, drift)
    bound, log = timed_kernel(bound, drift, columns), timed_log(log, drift, columns)
    _check_log(log, names, columns)
    _check_kernel(bound, len(columns))
    notes = {"similarity": method}
    rows = None if features is None else columns
    K_Z = check_task_matrix(K_Z, size=len(names))
    floors = declared_kpis(floors_from(kpis), bound, K_Z, width=len(columns))
    return _settings(
        encoder, names, bound, K_Z, features=rows, start=log, notes=notes, kpis=floors, drift=drift, **common
    )


def _prior_variance(reward_range: tuple[float, float] | None) -> float:
    """The variance of f before anything is known: a declared range is taken to be four standard deviations wide."""
    span = _checked_range(reward_range)
    return 1.0 if span is None else ((span[1] - span[0]) / 4.0) ** 2


def settings_from_trace(
    trace: Trace, space: ConfigurationSpace | None, *, neighbours: NeighbourReward | None, paper: bool, **given: Any
) -> Settings:
    """Return the settings of a controller that has learned from a trace; `given` is what `from_trace` takes."""
    wishes = _wishes({**given, "neighbours": neighbours}, paper=paper)
    if not isinstance(trace, Trace):
        raise BadInputError(
            f"from_trace takes a Trace, got {type(trace).__name__}: Trace.read(path) makes one of a file, "
            "and from_log takes Samples"
        )
    trace = trace.with_space(trace.space() if space is None else checked_space(space))
    for sentence in reward_in_state(trace):
        _log.warning("%s", sentence)
    wishes |= {} if paper else _safety(trace.stations, trace.reward, wishes)
    _check_weights(trace, wishes["reward"])
    if neighbours is not None:
        trace = _checked_neighbours(neighbours, trace.stations).in_log(trace)
    encoder, kernel, drift = trace.encoder(), wishes.pop("kernel"), wishes.pop("drift")
    samples, search = trace.samples(encoder), search_of(kernel, wishes["noise"], wishes["mean"])
    encoder = timed_encoder(encoder, drift)
    if drift is not None and drift.forgets:
        samples, kernel, drift = timed_trace(trace, samples, drift, kernel=kernel, columns=encoder.features)
    return _learned(samples, encoder, kernel=kernel, drift=drift, search=search, log=trace, **wishes)


def settings_from_log(log: Samples, space: ConfigurationSpace | None, *, paper: bool, **given: Any) -> Settings:
    """Return the settings of a controller that has learned from context rows; `given` is what `from_trace` takes."""
    samples = checked_samples(log)
    if given["neighbours"] is not None:
        raise BadInputError("neighbours= takes a log that says what was measured together: use from_trace")
    wishes = _wishes(given, paper=paper)
    wishes |= {} if paper else _safety(samples.stations, samples.y, wishes)
    kernel, drift = wishes.pop("kernel"), wishes.pop("drift")
    search = search_of(kernel, wishes["noise"], wishes["mean"])
    encoder = ContextEncoder(_scaler(()), _space_of_arms(samples) if space is None else checked_space(space))
    columns = timed_columns(samples.features, drift)
    if columns != samples.features:
        plain = starting_kernel(samples) if kernel is None else as_kernel(kernel).bind(samples.features)
        kernel, timed = timed_kernel(plain, drift, columns), timed_log(samples, drift, columns)
        samples = samples if timed is None else timed
    return _learned(
        samples, timed_encoder(encoder, drift), kernel=kernel, drift=drift, search=search, log=samples,
        features=samples.features, **wishes,
    )  # fmt: skip


def _wishes(given: Mapping[str, Any], *, paper: bool) -> dict[str, Any]:
    """Return what a controller that learns was asked to be, checked as far as no log is needed."""
    wishes = dict(given)
    wishes["seed"], wishes["reward_range"] = checked_seed(wishes["seed"]), _checked_range(wishes["reward_range"])
    if paper:
        asked = wishes | {"mean": wishes["mean"] or 0.0}
        wishes |= as_in_the_paper(asked, kpis=wishes["kpis"], drift=wishes["drift"])
    if wishes["similarity"] is None:
        wishes["similarity"] = "embedding" if paper else "joint"
    if wishes["beta"] is None:
        wishes["beta"] = usual_beta(wishes["policy"], paper=paper)
    return wishes | {"drift": drift_from(wishes["drift"]), "kpis": floors_from(wishes["kpis"])}


def _safety(stations: tuple[str, ...], rewards: FloatArray, wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules that are on, and why no budget is where one might be expected."""
    about = {name: wishes[name] for name in ("policy", "running", "reward_range")}
    rules, unsafe = usual_safety(stations, rewards, wishes["safety"], **about)
    return {"safety": rules, "unsafe": unsafe}


def _learned(
    samples: Samples,
    encoder: ContextEncoder,
    *,
    similarity: SimilarityLike,
    kernel: Kernel | None,
    noise: float | None,
    mean: float | None,
    search: Search,
    log: Log,
    start: bool,
    seed: int,
    kpis: tuple[KpiFloor, ...],
    drift: Drift | None,
    unsafe: str = "",
    **common: Any,
) -> Settings:
    """Return the settings that belong to what a log teaches."""
    given: dict[str, Any] = {"kernel": kernel, "noise": noise, "mean": mean, "search": search, "log": log}
    model = learn_model(samples, similarity, rng=np.random.default_rng([seed, 0]), **given)
    notes = {
        "similarity": model.similarity.method,
        "details": dict(model.similarity.details),
        "rows": len(samples),
        "at_bound": list(model.at_bound),
        **({"no_budget": unsafe} if unsafe else {}),
    }
    return _settings(
        encoder, samples.stations, model.kernel, model.similarity.matrix, noise=model.noise, mean=model.mean,
        start=samples if start else None, notes=notes, seed=seed, drift=learned_drift(drift, model.kernel),
        kpis=fitted_kpis(
            kpis, samples, kernel=model.kernel, similarity=model.similarity, rng=np.random.default_rng([seed, 1])
        ),
        **common,
    )  # fmt: skip


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


def _check_weights(trace: Trace, reward: Any) -> None:
    """Refuse a reward that would be summed up otherwise in life than it was in the log."""
    if reward is None or trace.weighted is None:
        return
    wanted = weighted_from(reward)
    if dict(wanted.weights) != dict(trace.weighted.weights):
        raise BadInputError(
            f"the log's reward is {trace.weighted}, the one declared is {wanted}: use the same weights for both"
        )


def _checked_neighbours(rule: Any, stations: tuple[str, ...]) -> NeighbourReward:
    """Return the rule after checking that its stations exist."""
    if not isinstance(rule, NeighbourReward):
        raise BadInputError(f"neighbours takes a NeighbourReward(...), got {rule!r:.60}")
    rule.check(stations)
    return rule


def _settings(
    encoder: ContextEncoder,
    stations: tuple[str, ...],
    kernel: Kernel,
    K_Z: Any,
    *,
    noise: float,
    mean: float,
    policy: str | PolicyFactory,
    beta: float | str | Exploration,
    options: Mapping[str, Any] | None,
    engine: str,
    budget: int,
    reward_range: tuple[float, float] | None,
    start: Samples | None,
    notes: Mapping[str, Any],
    seed: int,
    features: tuple[str, ...] | None = None,
    safety: SafetyLike = None,
    running: Running = None,
    descriptors: DescriptorsLike = None,
    reward: WeightedReward | Mapping[str, float] | str | None = None,
    kpis: tuple[Kpi, ...] = (),
    neighbours: NeighbourReward | None = None,
    drift: Drift | None = None,
) -> Settings:
    policy_factory(policy)  # an unknown name is refused here, before anything is built
    check_judged(drift, policy)
    check_past_names(drift, *stations)
    if not isinstance(engine, str) or engine not in ENGINES:
        raise BadInputError(f"unknown engine {engine!r}: choose one of {', '.join(ENGINES)}")
    span, rules = _checked_range(reward_range), safety_from(safety)
    declared = declared_arms(running, stations, encoder.space)
    _check_rules(rules, declared, stations, span)
    return Settings(
        encoder=encoder,
        stations=stations,
        kernel=kernel,
        K_Z=check_task_matrix(K_Z, size=len(stations)),
        noise=positive_number(noise, name="noise"),
        mean=finite_number(mean, name="mean"),
        policy=policy,
        exploration=exploration_from(beta),
        options=_with_arm(options or {}, encoder.space),
        engine=engine,
        budget=checked_budget(budget),
        seed=seed,
        reward_range=span,
        features=features,
        start=start,
        safety=rules,
        running=declared,
        notes={**notes, **_engine_note(engine, budget), **half_life_note(drift)},
        descriptors=_declared_descriptors(descriptors, stations),
        drift=drift,
        weighted=None if reward is None else weighted_from(reward),
        kpis=kpis,
        neighbours=None if neighbours is None else _checked_neighbours(neighbours, stations),
    )


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
    if unknown := [name for name in given if name not in stations]:
        raise BadInputError(f"running names {unknown[0]!r}, which is no station of this controller")
    return {station: arm_of(given[station], space, station=station) for station in given}


def _declared_descriptors(descriptors: DescriptorsLike, stations: tuple[str, ...]) -> dict[str, Descriptors]:
    """Return what is known of stations, by station; nothing of some of them is fine."""
    if descriptors is None:
        return {}
    if not isinstance(descriptors, Mapping):
        raise BadInputError(f"descriptors must be given by station, as a mapping, got {descriptors!r:.60}")
    if unknown := [name for name in descriptors if name not in stations]:
        raise BadInputError(f"descriptors names {unknown[0]!r}, which is no station of this controller")
    known = {station: checked_descriptors(descriptors[station], station=station) for station in descriptors}
    check_kinds(known)
    return {station: values for station, values in known.items() if values}


def _check_rules(
    rules: Safety | None, declared: Mapping[str, int], stations: tuple[str, ...], span: tuple[float, float] | None
) -> None:
    """Refuse a promise that is held against nothing."""
    if rules is None or rules.conservative is None:
        return
    missing = next((station for station in stations if station not in declared), None)
    if missing is not None:
        raise BadInputError(
            f"Conservative holds every station against a declared configuration, {missing!r} has none: "
            "declare it by running="
        )
    if span is not None and span[0] < rules.conservative.least:
        raise BadInputError(
            f"rewards may be as low as {span[0]:g}, Conservative counts them from {rules.conservative.least:g}: "
            f"pass least={span[0]:g}"
        )


def _engine_note(engine: str, budget: int) -> dict[str, str]:
    """Say in words what approximates the posterior, if anything does."""
    match engine:
        case "sparse":
            return {"posterior": f"sparse, with {budget:,} inducing points"}
        case "auto":
            return {
                "posterior": f"exact up to {SWITCH_ROWS:,} rows, from then on sparse with {budget:,} inducing points"
            }
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
    if not isinstance(options, Mapping):
        raise BadInputError(f"options must be a mapping from name to value, got {type(options).__name__}")
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


def _declared_similarity(similarity: str | ArrayLike | TaskMatrix, stations: tuple[str, ...]) -> tuple[Any, str]:
    M = len(stations)
    if isinstance(similarity, TaskMatrix):
        return similarity.reindex(stations).matrix, similarity.method
    if not isinstance(similarity, str):
        return similarity, "given"
    similarity_from(similarity)  # an unknown name is refused with the list of names
    if similarity not in ("independent", "pooled"):
        raise BadInputError(
            f"similarity {similarity!r} is learned from a log: use Controller.from_trace or from_log, or give a matrix"
        )
    return (np.eye(M) if similarity == "independent" else np.ones((M, M))), similarity


def _checked_range(reward_range: tuple[float, float] | None) -> tuple[float, float] | None:
    if reward_range is None:
        return None
    try:
        low, high = (finite_number(limit, name="reward_range") for limit in reward_range)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"reward_range must be (low, high), got {reward_range!r}") from error
    if low >= high:
        raise BadInputError(f"reward_range must be (low, high) with low below high, got {reward_range!r}")
    return low, high
