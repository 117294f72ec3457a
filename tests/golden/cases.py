"""The short runs whose decisions must stay what they were: one of every kind of controller.

Only this folder knows how its controllers are called: a renamed argument changes a line here and no golden file.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from kinband import ConfigurationSpace, Controller, Decision, Samples, Trace
from kinband.drift import Drift
from kinband.kernels import RBF
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.policies import Conservative, Floor, SwitchingCost
from kinband.trace.rewards import WeightedReward

STATIONS = ("a", "b", "c", "d")
SPACE = ConfigurationSpace(tilt=[2, 4, 6, 8], power=[40, 43])
TODAY = {"tilt": 4, "power": 40}
ALIKE = 0.6 * np.ones((4, 4)) + 0.4 * np.eye(4)
PLACES = {name: {"x_m": 300.0 * i, "land": "city" if i < 2 else "village"} for i, name in enumerate(STATIONS)}
BEGUN = pd.Timestamp("2026-03-02 00:00", tz="UTC")

STEPS = 36


def cold(**given: Any) -> Controller:
    """A controller whose every number is given."""
    kernel = RBF([0.8, 1.1, 0.9], variance=0.05)
    usual: dict[str, Any] = {
        "state": {"load": (0.0, 1.0)}, "similarity": ALIKE, "kernel": kernel, "noise": 0.004, "mean": 0.6, "seed": 11,
    }  # fmt: skip
    return Controller(SPACE, STATIONS, **(usual | given))


def log(rows: int = 96) -> pd.DataFrame:
    """A log in which every configuration was tried at random."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"cell": np.tile(STATIONS, rows // 4), "load": rng.random(rows).round(3)})
    frame["hour"] = BEGUN + pd.to_timedelta(np.arange(rows) // 4, "h")
    frame["tilt"], frame["power"] = rng.choice([2, 4, 6, 8], rows), rng.choice([40, 43], rows)
    rows_of = zip(*(frame[column] for column in ("cell", "load", "tilt", "power")), strict=True)
    frame["good"] = [
        reward_of(STATIONS.index(cell), load, {"tilt": tilt, "power": power}, step)
        for step, (cell, load, tilt, power) in enumerate(rows_of)
    ]
    return frame


COLUMNS = {"station": "cell", "time": "hour", "reward": "good", "configuration": ["tilt", "power"]}


def learned(**given: Any) -> Controller:
    """A controller that has learned everything from the log, by default."""
    return Controller.from_trace(Trace.from_frame(log(), COLUMNS), seed=3, **given)


def from_rows() -> Controller:
    """A controller of context rows."""
    frame = log()
    X = np.column_stack([frame["load"], frame["tilt"] / 8.0])
    arms = frame["tilt"].to_numpy() // 2 - 1
    tasks = np.array([STATIONS.index(cell) for cell in frame["cell"]])
    return Controller.from_log(
        Samples(STATIONS, tasks, X, frame["good"].to_numpy(), None, ("load", "tilt"), arms=arms), seed=3
    )


def reward_of(station: int, load: float, configuration: dict[str, Any], step: int) -> float:
    """What a configuration earns: stations a and b like steep tilts when busy, c and d flat ones."""
    best = 4.0 + 3.0 * load if station < 2 else 6.0 - 2.0 * load
    noise = 0.03 * float(np.random.default_rng([5, step, station]).normal())
    return round(
        float(0.8 - ((configuration["tilt"] - best) / 9.0) ** 2 + 0.02 * (configuration["power"] == 43) + noise), 6
    )


def load_at(step: int) -> float:
    return round(float(np.random.default_rng([6, step]).random()), 3)


def in_turns(controller: Controller, *, begin: int = 0, steps: int = STEPS, timed: bool = False) -> list[Decision]:
    """Ask and tell station after station; some rewards come late, one is put right and one never comes."""
    decisions: list[Decision] = []
    late: list[tuple[str, float]] = []
    for step in range(begin, begin + steps):
        station, load = STATIONS[step % 4], load_at(step)
        when: dict[str, Any] = {"time": BEGUN + pd.Timedelta(hours=step)} if timed else {}
        allowed = {"tilt": [2, 4, 6]} if step % 9 == 5 else None
        decision = controller.ask(station, {"load": load}, allowed=allowed, **when)
        decisions.append(decision)
        reward = reward_of(step % 4, load, dict(decision.configuration or {}), step)
        if step == begin + 7:
            controller.call_off(decision.id)
        elif step % 5 == 3:
            late.append((decision.id, reward))
        else:
            controller.tell(decision.id, reward, noise=0.002 if step % 6 == 1 else None)
        if step % 8 == 7 and late:
            controller.tell(*late.pop(0))
        if step == begin + 20:
            controller.correct(decisions[0].id, 0.7)
    return decisions


def in_rounds(controller: Controller, *, rounds: int = STEPS // 4) -> list[Decision]:
    """Ask for all stations at once."""
    decisions: list[Decision] = []
    for number in range(rounds):
        states = {name: {"load": load_at(4 * number + i)} for i, name in enumerate(STATIONS)}
        made = controller.ask_all(states)
        decisions += made.values()
        controller.tell_all(
            {
                d.id: reward_of(i, states[name]["load"], dict(d.configuration or {}), 4 * number + i)
                for i, (name, d) in enumerate(made.items())
            }
        )
    return decisions


def with_kpis(controller: Controller) -> list[Decision]:
    """Rewards made of KPIs, a floor under one of them, and neighbours that count."""
    decisions: list[Decision] = []
    for number in range(STEPS // 4):
        states = {name: {"load": load_at(4 * number + i)} for i, name in enumerate(STATIONS)}
        made = controller.ask_all(states)
        decisions += made.values()
        told = {}
        for i, (name, d) in enumerate(made.items()):
            good = reward_of(i, states[name]["load"], dict(d.configuration or {}), 4 * number + i)
            kept = round(0.99 - 0.01 * abs(float((d.configuration or {})["tilt"]) - 4.0), 6)
            told[d.id] = {"good": good, "kept": kept}
        controller.tell_all(kpis=told)
    return decisions


def with_newcomers(controller: Controller) -> list[Decision]:
    """A clock, a station that joins, one that leaves and comes back."""
    decisions = in_turns(controller, steps=24, timed=True)
    controller.add_station("e", {"x_m": 250.0, "land": "city"}, running=TODAY)
    for step in range(24, 36):
        when = BEGUN + pd.Timedelta(hours=step)
        decision = controller.ask("e" if step % 3 else "b", {"load": load_at(step)}, time=when)
        decisions.append(decision)
        controller.tell(decision.id, reward_of(1, load_at(step), dict(decision.configuration or {}), step))
        if step == 29:
            controller.remove_station("d")
        if step == 33:
            controller.add_station("d")
    return decisions


def by_rows(controller: Controller) -> list[Decision]:
    """Asked with rows of contexts."""
    decisions: list[Decision] = []
    for step in range(STEPS):
        load = load_at(step)
        decision = controller.ask(STATIONS[step % 4], contexts=[[load, tilt / 8.0] for tilt in (2, 4, 6, 8)])
        decisions.append(decision)
        controller.tell(decision.id, reward_of(step % 4, load, {"tilt": 2 * decision.arm + 2, "power": 40}, step))
    return decisions


RULES = [Conservative(0.1), Floor(0.2), SwitchingCost(0.01)]
KPIS: dict[str, Any] = {
    "reward": WeightedReward({"good": 1.0}),
    "kpis": KpiFloor("kept", at_least=0.95, confidence=0.8, mean=0.97, deviation=0.02, noise=1e-4),
    "neighbours": NeighbourReward({"a": {"b": 1.0}, "b": {"a": 1.0}, "c": {"d": 1.0}, "d": {"c": 1.0}}, weight=0.3),
}

MAKE: dict[str, Callable[[], Controller]] = {
    "plain": cold,
    "default": learned,
    "paper": lambda: learned(paper=True),
    "thompson": lambda: cold(policy="thompson", beta=0.5),
    "super-ucb": lambda: cold(policy="super-ucb", options={"horizon": 40}),
    "linucb": lambda: cold(policy="linucb"),
    "corrected": lambda: cold(beta="corrected", engine="schur"),
    "aware": lambda: cold(options={"rounds": "aware"}),
    "budget": lambda: cold(safety=RULES, running=TODAY),
    "kpis": lambda: cold(running=TODAY, **KPIS),
    "newcomers": lambda: cold(
        drift=Drift(half_life=timedelta(hours=12), reset=True), descriptors=PLACES, running=TODAY
    ),
    "sparse": lambda: cold(engine="sparse", inducing_points=12),
    "rows": from_rows,
}
"""How the controller of each run is made."""

PLAY: dict[str, Callable[[Controller], list[Decision]]] = {
    "aware": in_rounds,
    "kpis": with_kpis,
    "newcomers": with_newcomers,
    "rows": by_rows,
}
"""How it is asked and told, where not in turns."""


def run(name: str) -> tuple[Controller, list[Decision]]:
    """Return the controller of a run at its end, and its decisions."""
    controller = MAKE[name]()
    return controller, PLAY.get(name, in_turns)(controller)


def plain(decision: Decision) -> dict[str, Any]:
    """A decision in plain values: who, what, and arm, mean, standard deviation and score of all that was considered."""
    scored = sorted((a.arm, a.mean, a.std, a.ucb) for a in decision.alternatives)
    return {
        "id": decision.id,
        "station": decision.station,
        "arm": decision.arm,
        "scored": [list(row) for row in scored],
    }
