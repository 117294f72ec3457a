"""Stations that join a running controller, measured: what the first decisions of a newcomer cost.

Some stations of the bundled city are left out. The others learn from their log and play a few rounds; then those left
out join, with what the city's layout says of them, and make their first decisions, all in the same slots. They start

- *described*: from the stations that their descriptors resemble (`kinband.similarity.newcomers`);
- *on average*: from the network's average;
- *alone*: with the same kernel, noise and prior mean, from nothing but their own rewards.

Regret is counted over newcomers alone and compared in pairs of runs on the same draw. Beside it stands how well the
descriptors predict rows of the learned task matrix that were held out.

`python -m benchmarks.trust newcomers` plays it and has the target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments import TraceEnvironment, split_trace
from kinband.environments.contract import Referee
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, City, CityLog, city_log_of
from kinband.experiments.compare import mean_over_runs, saving_of
from kinband.experiments.runner import decide
from kinband.model import learn_model
from kinband.similarity.newcomers import held_out
from kinband.stats import Estimate
from kinband.trace import Trace

# --- A draw of newcomers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        stations: How many stations of the city take part, spread over its list; all by default.
        newcomers: How many of them join later.
        rounds: How many rounds the others play before.
        decisions: How many decisions a newcomer makes.
        similarity: How similarity is learned from the log.
        beta: Weight of the width.
    """

    stations: int | None = None
    newcomers: int = 15
    rounds: int = 10
    decisions: int = 20
    similarity: str = "joint"
    beta: float = 0.3


@dataclass(frozen=True, eq=False)
class Scene:
    """One draw: a controller that has run for a while, and who is about to join it."""

    environment: Referee
    controller: Controller
    newcomers: tuple[str, ...]
    descriptors: Mapping[str, Mapping[str, Any]]
    seed: int


def scene_of(stage: CityLog, plan: Plan, *, seed: int) -> Scene:
    """Return a controller that has learned from the log of some stations and has played some rounds with them."""
    if stage.city is None:
        raise BadInputError("newcomers are described by the layout of their city, and this trace has none beside it")
    some, late = cast_of(stage, plan, seed=seed)
    log, rest = split_trace(stage.trace.select(np.isin(stage.trace.station, some)), rows_per_station=LOG_ROWS)
    log = log.select(~np.isin(log.station, list(late))).with_space(stage.space)
    environment, descriptors = TraceEnvironment(rest, stage.space), described(stage.city)
    controller = _controller(log, plan, descriptors, seed=seed)
    warm_up(controller, environment, rounds=plan.rounds, seed=seed)
    return Scene(environment, controller, tuple(name for name in some if name in late), descriptors, seed)


def cast_of(stage: CityLog, plan: Plan, *, seed: int) -> tuple[list[str], set[str]]:
    """Return the stations that take part, and which of them join later."""
    names = stage.trace.stations
    count = len(names) if plan.stations is None else min(plan.stations, len(names))
    if not 1 <= plan.newcomers <= count - 2:
        raise BadInputError(f"of {count} stations 1 to {count - 2} can join later, got {plan.newcomers}")
    some = [names[i] for i in np.linspace(0, len(names) - 1, count).round().astype(int)]
    return some, set(np.random.default_rng([seed, 3]).choice(some, size=plan.newcomers, replace=False).tolist())


def described(city: City) -> dict[str, dict[str, Any]]:
    """Return what a city's layout says of its sectors, by sector.

    Example:
        >>> from kinband.experiments.city import city_log_of
        >>> city = city_log_of("bundled").city
        >>> sorted(described(city)[city.names[0]])
        ['azimuth_cos', 'azimuth_sin', 'land_use', 'x_m', 'y_m']
    """
    angles = np.deg2rad(city.azimuths)
    columns: dict[str, Any] = {
        "x_m": city.places[:, 0].tolist(),
        "y_m": city.places[:, 1].tolist(),
        "azimuth_cos": np.cos(angles).tolist(),
        "azimuth_sin": np.sin(angles).tolist(),
    }
    if city.kinds:
        columns["land_use"] = city.kinds
    return {name: {key: values[i] for key, values in columns.items()} for i, name in enumerate(city.names)}


def _controller(log: Trace, plan: Plan, descriptors: Mapping[str, Mapping[str, Any]], *, seed: int) -> Controller:
    encoder = log.encoder()
    samples = log.samples(encoder)
    model = learn_model(samples, plan.similarity, rng=np.random.default_rng([seed, 2]))
    return Controller(
        encoder.space, samples.stations, state=encoder.state, similarity=model.similarity, kernel=model.kernel,
        noise=model.noise, mean=model.mean, beta=plan.beta, engine="exact", log=samples,
        descriptors={name: descriptors[name] for name in samples.stations}, seed=seed,
    )  # fmt: skip


def warm_up(controller: Controller, environment: Referee, *, rounds: int, seed: int) -> None:
    """Let all stations of a controller play some rounds."""
    environment.reset(seed)
    for _ in range(rounds):
        made = decide(controller, environment.slot, controller.stations)
        outcomes = environment.play({name: decision.arm for name, decision in made.items()})
        for name, decision in made.items():
            controller.tell(decision.id, outcomes[name].reward, noise=outcomes[name].noise)


# --- What newcomers paid --------------------------------------------------------------------------------------------

DESCRIBED, AVERAGE, ALONE = "described", "on average", "alone"
STARTS = (DESCRIBED, AVERAGE, ALONE)
KNOWN = "best known"
"""Not a start but a bound: to run, from the first decision on, the one configuration that turns out best for it."""


@dataclass(frozen=True)
class Draw:
    """What was found on one seed, as `Finding` sums it up.

    Attributes:
        regret: By start.
        explained: Share of the average's squared error in held-out rows that descriptors remove.
        used: Whether newcomers started from their descriptors.
    """

    regret: Mapping[str, float]
    explained: float
    used: bool


@dataclass(frozen=True)
class Finding:
    """What was found over all runs.

    Attributes:
        regret: Of a newcomer's first decisions, summed over them, a newcomer, by start.
        saved: Share of the regret of starting alone that is saved, by start.
        saved_over_average: The same of descriptors against the network's average.
        explained: Share of the average's squared error in held-out rows of the task matrix that descriptors remove.
        trusted: Share of draws in which descriptors were used: that was above zero, or there were too few stations to
            judge them by.
    """

    regret: Mapping[str, Estimate]
    saved: Mapping[str, Estimate]
    saved_over_average: Estimate
    explained: Estimate
    trusted: float


def finding(draws: Sequence[Draw], known: Sequence[float] | None = None) -> Finding:
    """Return what several seeds say together, with the bound of `best_known` on the same seeds where it is given."""
    by_start = {start: np.array([one.regret[start] for one in draws]) for start in STARTS}
    if known is not None:
        by_start[KNOWN] = np.array(known)
    explained = np.array([one.explained for one in draws])
    return Finding(
        {start: mean_over_runs(values) for start, values in by_start.items()},
        {start: saving_of(values, by_start[ALONE]) for start, values in by_start.items()},
        saving_of(by_start[DESCRIBED], by_start[AVERAGE]),
        mean_over_runs(explained),
        trusted=float(np.mean([one.used for one in draws])),
    )


# --- Newcomers join a scene -----------------------------------------------------------------------------------------


def measure(seeds: Sequence[int], plan: Plan | None = None) -> Finding:
    """Play every start on every seed and return what was found.

    Example:
        >>> found = measure([1], Plan(stations=8, newcomers=2, rounds=1, decisions=2, similarity="embedding"))
        >>> list(found.regret), found.saved["alone"].value
        (['described', 'on average', 'alone'], 0.0)
    """
    return finding([draw(seed, plan or Plan()) for seed in seeds])


def draw(seed: int, plan: Plan) -> Draw:
    """Play every start on one seed."""
    scene = scene_of(city_log_of("bundled"), plan, seed=seed)
    controllers = {start: joined(scene, start) for start in STARTS}
    used = any(entry.found == "descriptors" for entry in controllers[DESCRIBED].journal.joined)
    regret = {
        start: first_decisions(controller, scene, decisions=plan.decisions).sum()
        for start, controller in controllers.items()
    }
    each = {start: float(total) / len(scene.newcomers) for start, total in regret.items()}
    return Draw(each, _explained(scene), used)


def best_known(seed: int, plan: Plan) -> float:
    """Return the regret of a newcomer that knew beforehand which one configuration would be best for it, on one seed.

    It is known in hindsight of these very decisions, so that no start can be expected to do better by much.
    """
    stage = city_log_of("bundled")
    some, late = cast_of(stage, plan, seed=seed)
    _, rest = split_trace(stage.trace.select(np.isin(stage.trace.station, some)), rows_per_station=LOG_ROWS)
    environment, names = TraceEnvironment(rest, stage.space), [name for name in some if name in late]
    environment.reset(10_000 + seed)
    regret = np.zeros((len(names), len(stage.space)))
    for _ in range(plan.decisions):
        truths = [environment.truth(name) for name in names]
        regret += [[truth.pseudo_regret(arm) for arm in range(len(stage.space))] for truth in truths]
        environment.play({})
    return float(regret.min(axis=1).mean())


def joined(scene: Scene, start: str) -> Controller:
    """Return a controller for the newcomers of a scene, which itself stays as it is."""
    before = scene.controller
    setup = before.setup
    if start == ALONE:
        return Controller(
            setup.encoder.space, scene.newcomers, state=setup.encoder.state, kernel=setup.kernel,
            noise=setup.noise, mean=setup.mean, beta=setup.config.beta, engine="exact", seed=scene.seed,
        )  # fmt: skip
    policy: Any = before.policy
    controller = Controller.resume(setup, list(before.journal), beliefs=policy.state())
    for name in scene.newcomers:
        controller.add_station(name, scene.descriptors[name] if start == DESCRIBED else None)
    return controller


def first_decisions(controller: Controller, scene: Scene, *, decisions: int) -> FloatArray:
    """Let the newcomers of a scene make their first decisions, all in one round a slot; return regret, (T,)."""
    environment = scene.environment
    environment.reset(10_000 + scene.seed)
    regret = np.zeros(decisions)
    for t in range(decisions):
        made = decide(controller, environment.slot, scene.newcomers)
        regret[t] = sum(environment.truth(name).pseudo_regret(decision.arm) for name, decision in made.items())
        outcomes = environment.play({name: decision.arm for name, decision in made.items()})
        for name, decision in made.items():
            controller.tell(decision.id, outcomes[name].reward, noise=outcomes[name].noise)
    return regret


def _explained(scene: Scene) -> float:
    setup = scene.controller.setup
    return held_out(setup.K_Z, [setup.descriptors[name] for name in setup.stations]).explained
