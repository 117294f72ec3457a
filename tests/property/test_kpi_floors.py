"""With floors, several KPIs and neighbours: no floor is broken while it could be kept."""

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller
from kinband.kernels import RBF
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.records import Samples

STATIONS = ["a", "b", "c"]
SPACE = ConfigurationSpace(knob=range(8))


def make(seed: int) -> Controller:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 6))
    kpi = np.where(rng.random(rows) < 0.3, np.nan, rng.random(rows))
    log = Samples(
        tuple(STATIONS), rng.integers(0, 3, rows), rng.normal(size=(rows, 2)), rng.random(rows), None,
        ("load", "knob"), arms=np.zeros(rows, int), kpis={"p": kpi},
    )  # fmt: skip
    floors = [
        KpiFloor("p", at_least=0.4, confidence=0.7, mean=0.55, deviation=0.2, noise=0.01),
        KpiFloor("q", at_most=2.0, confidence=0.6, mean=1.0, deviation=1.5, noise=0.2),
    ]
    return Controller(
        SPACE, STATIONS, state=["load"], similarity=0.5 * np.ones((3, 3)) + 0.6 * np.eye(3),
        kernel=RBF(float(rng.uniform(0.4, 2.0)), variance=0.2), noise=0.04, mean=0.5, beta=0.9,
        engine="exact", log=log if rows else None, kpis=floors, running={"knob": 3}, seed=seed,
        neighbours=NeighbourReward({"a": ["b", "c", "x"], "b": {"a": 2.0}}, weight=0.4, others=["x", "d"]),
        descriptors={name: {"x_m": float(i)} for i, name in enumerate(STATIONS)},
    )  # fmt: skip


def kpis_of(rng: np.random.Generator) -> dict[str, Any]:
    """Some of the KPIs, some of them with a variance."""
    given: dict[str, Any] = {"p": float(rng.random()), "q": (float(rng.normal()), float(rng.uniform(0.01, 0.1)))}
    return {name: value for name, value in given.items() if rng.random() < 0.7}


def live(controller: Controller, rng: np.random.Generator, steps: int) -> None:
    """Ask, tell together and one by one, correct rewards and KPIs, call off; somebody joins."""
    for _ in range(steps):
        move, pending, told = rng.random(), controller.pending, list(controller.journal.told)
        if move < 0.3 or not pending:
            controller.ask_all({s: {"load": float(rng.normal())} for s in controller.stations})
        elif move < 0.4:
            controller.ask(str(rng.choice(controller.stations)), {"load": float(rng.normal())})
        elif move < 0.6:
            some = [key for key in pending if rng.random() < 0.7] or pending[:1]
            kpis = {key: kpis_of(rng) for key in some}
            controller.tell_all(
                {key: float(rng.random()) for key in some}, kpis=kpis, others={"x": float(rng.random())}
            )
        elif move < 0.8:
            controller.tell(str(rng.choice(pending)), float(rng.random()), noise=0.02, kpis=kpis_of(rng))
        elif move < 0.9 and told:
            kpis_right = kpis_of(rng)
            reward = None if kpis_right and rng.random() < 0.5 else float(rng.random())
            controller.correct(str(rng.choice(told)), reward, kpis=kpis_right)
        elif move < 0.95:
            controller.call_off(str(rng.choice(pending)))
        elif "d" not in controller.stations:
            controller.add_station("d", {"x_m": 0.5}, running={"knob": 2})


@given(seed=st.integers(0, 10_000))
@settings(max_examples=12, deadline=None)
def test_nothing_that_breaks_a_floor_is_played_while_something_keeps_it(seed: int) -> None:
    controller, rng = make(seed), np.random.default_rng([seed, 1])
    live(controller, rng, 20)
    beliefs = controller.policy.constraints[0].beliefs  # type: ignore[attr-defined]
    for station in controller.stations:
        state = {"load": float(rng.normal())}
        allowed = rng.random(8) < 0.7
        allowed[int(rng.integers(8))] = True
        decision = controller.ask(station, state, allowed=allowed)
        X, task = controller.settings.encoder.contexts(state), controller.current.task(station)
        keeps = allowed.copy()
        for belief in beliefs:
            found = belief.posterior.predict(np.full(8, task), X)
            mean = belief.kpi.mean + belief.kpi.scale * found.mean
            std = belief.kpi.floor.beta * belief.kpi.scale * found.std
            floor = belief.kpi.floor
            bound = mean - std - floor.at_least if floor.at_most is None else floor.at_most - mean - std
            assume(np.abs(bound).min() > 1e-9)  # one exactly on its floor tells nothing
            keeps &= bound >= 0
        assert decision.memo["kpis"]["open"] == (keeps.sum() or 1)
        assert keeps[decision.arm] == keeps.any() == decision.memo["kpis"]["kept"]
