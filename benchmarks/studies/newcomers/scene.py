"""One draw: a controller that has run for a while on some stations of the city, and those that are about to join it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.controller import Controller
from kinband.environments import TraceEnvironment, split_trace
from kinband.environments.contract import Referee
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, City, Stage
from kinband.experiments.runner import decide
from kinband.model import learn_model
from kinband.trace import Trace


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        stations: How many stations of the city take part, spread over its list; all by default.
        newcomers: How many of them join later.
        rounds: How many rounds the others play before.
        decisions: How many decisions a newcomer makes.
        similarity: How likeness is learned from the log.
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


def scene_of(stage: Stage, plan: Plan, *, seed: int) -> Scene:
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


def cast_of(stage: Stage, plan: Plan, *, seed: int) -> tuple[list[str], set[str]]:
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
        >>> from kinband.experiments.city import stage_of
        >>> city = stage_of("bundled").city
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
