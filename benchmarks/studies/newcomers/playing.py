"""Newcomers join a scene, each way they may start, and make their first decisions; and a bound on what these cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.studies.newcomers.results import ALONE, DESCRIBED, STARTS, Draw, Finding, finding
from benchmarks.studies.newcomers.scene import Plan, Scene, cast_of, scene_of
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments import TraceEnvironment, split_trace
from kinband.experiments.city import LOG_ROWS, stage_of
from kinband.experiments.runner import decide
from kinband.similarity.newcomers import held_out


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
    scene = scene_of(stage_of("bundled"), plan, seed=seed)
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
    stage = stage_of("bundled")
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
    settings = before.settings
    if start == ALONE:
        return Controller(
            settings.encoder.space, scene.newcomers, state=settings.encoder.state, kernel=settings.kernel,
            noise=settings.noise, mean=settings.mean, beta=settings.config.beta, engine="exact", seed=scene.seed,
        )  # fmt: skip
    policy: Any = before.policy
    controller = Controller.resume(settings, list(before.journal), beliefs=policy.state())
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
    settings = scene.controller.settings
    return held_out(settings.K_Z, [settings.descriptors[name] for name in settings.stations]).explained
