"""Journals of earlier versions, in which the task matrix was estimated again: load, rebuild and replay agree."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Conservative, Controller, Decision, Drift, Floor, KpiFloor
from kinband.controller.events import Estimated, Joined, Renewed
from kinband.drift import Reset
from kinband.kernels import RBF
from kinband.policies.base import KeepsState
from kinband.records import Samples

STATIONS = list("abcd")
MATRICES = {
    "alike": 0.9 * np.ones((4, 4)) + 0.1 * np.eye(4),
    "in two": np.kron(np.diag([1.0, 0.7]), np.array([[1.0, 0.6], [0.6, 1.0]])),
    "independent": np.eye(4),
}
CASES = [("ucb", "exact"), ("ucb", "auto"), ("ucb", "sparse"), ("thompson", "exact"), ("super-ucb", "exact")]
CASES += [("kernel-ucb", "auto"), ("pooled", "exact"), ("random", "auto")]
FLOORS = [KpiFloor("p", at_least=0.3, confidence=0.7, mean=0.6, deviation=0.2, noise=0.01)]
EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rounds that know their picks": {"options": {"rounds": "aware"}},
    "resets": {"drift": Drift(reset=Reset(3.0, kept=0.3))},
    "forgetting": {"drift": Drift(25.0, reset=Reset(4.0))},
    "budget": {"safety": Conservative(0.2)},
    "floor": {"safety": Floor(0.4)},
    "KPIs": {"kpis": FLOORS},
    "KPIs and budget": {"kpis": FLOORS, "safety": Conservative(0.3)},
    "all": {"kpis": FLOORS, "safety": [Conservative(0.3), Floor(0.6)], "drift": Drift(reset=Reset(3.0))},
}


def make(policy: str, engine: str, matrix: str, *, seed: int, **extra: Any) -> Controller:
    rng = np.random.default_rng(seed)
    rows = seed % 3 * 5
    log = Samples(
        tuple(STATIONS), rng.integers(0, 4, rows), rng.normal(size=(rows, 2)), rng.random(rows), None, ("load", "knob")
    )
    options: dict[str, Any] = {
        "state": ["load"], "similarity": MATRICES[matrix], "kernel": RBF(0.9, variance=0.06), "noise": 0.012,
        "mean": 0.5, "policy": policy, "options": {"horizon": 300} if policy == "super-ucb" else {}, "engine": engine,
        "budget": 7, "log": log if rows else None, "running": {"knob": 1}, "seed": seed,
    }  # fmt: skip
    return Controller(ConfigurationSpace(knob=range(6)), STATIONS, **(options | extra))


def reward(controller: Controller, key: str, rng: np.random.Generator) -> float:
    """Every other station wants the opposite of what those beside it want."""
    decision = controller.decision(key)
    sign = 1.0 if ord(decision.station[0]) % 2 else -1.0
    return float(0.5 + 0.25 * sign * np.cos(decision.arm / 1.6) + 0.08 * rng.normal())


def kpis(controller: Controller, rng: np.random.Generator) -> dict[str, Any]:
    return {"kpis": {"p": float(rng.random())}} if controller.settings.kpis and rng.random() < 0.7 else {}


def live(controller: Controller, rng: np.random.Generator, steps: int) -> None:
    """Ask, tell late and together, correct, call off, and let stations come and go."""
    for step in range(steps):
        move, present, pending = rng.random(), list(controller.stations), controller.pending
        if move < 0.25 or not pending:
            controller.ask(str(rng.choice(present)), {"load": float(rng.normal())})
        elif move < 0.4:
            controller.ask_all({s: {"load": float(rng.normal())} for s in present})
        elif move < 0.7:
            key = str(rng.choice(pending))
            noise = None if rng.random() < 0.5 else 0.01
            controller.tell(key, reward(controller, key, rng), noise=noise, **kpis(controller, rng))
        elif move < 0.86:
            some = [key for key in pending if rng.random() < 0.7] or pending[:1]
            controller.tell_all({key: reward(controller, key, rng) for key in some})
        elif move < 0.91 and len(controller):
            controller.correct(str(rng.choice(list(controller.journal.told))), float(rng.random()))
        elif move < 0.93:
            controller.call_off(str(rng.choice(pending)))
        elif move < 0.955:
            estimate(controller, rng)
        elif move < 0.965 and len(present) > 2:
            controller.remove_station(str(rng.choice(present)))
        elif move < 0.98 and controller.in_force.gone:
            controller.add_station(str(rng.choice(sorted(controller.in_force.gone))))
        else:
            alike = {str(rng.choice(present)): float(rng.uniform(0.1, 0.5))} if rng.random() < 0.6 else None
            controller.add_station(f"n{step}-{len(controller.journal)}", similarity=alike, running={"knob": 2})


def estimate(controller: Controller, rng: np.random.Generator) -> None:
    """What an earlier version did now and then: another task matrix, or none."""
    memory = controller._memory
    A = rng.normal(size=(len(controller.in_force.stations), 2))
    K_Z = 0.3 * A @ A.T + np.eye(len(A))
    triangle = tuple(K_Z[np.tril_indices(len(A))].tolist()) if rng.random() < 0.6 else ()
    memory.take(Estimated(memory.rows, 0.3 if triangle else None, 0.6 if triangle else None, triangle))


def future(controller: Controller) -> list[Decision]:
    """What it would decide from here, some rewards later."""
    rng = np.random.default_rng(7)
    made: list[Decision] = []
    for _ in range(5):
        states = {s: {"load": float(rng.normal())} for s in controller.stations}
        made += controller.ask_all(states).values()
        for key in map(str, rng.permutation(controller.pending)[:4]):
            controller.tell(key, reward(controller, key, rng))
    return made


def same_beliefs(one: Controller, other: Controller) -> None:
    assert np.array_equal(one.in_force.K_Z, other.in_force.K_Z)
    if isinstance(one.policy, KeepsState) and isinstance(other.policy, KeepsState):
        mine, theirs = one.policy.state(), other.policy.state()
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert np.array_equal(mine[name], theirs[name], equal_nan=True), name


def check(controller: Controller) -> None:
    """Loaded, rebuilt and resumed it stands where it stood and goes on the same."""
    with tempfile.TemporaryDirectory() as folder:
        with_beliefs, without = Path(folder) / "with", Path(folder) / "without"
        controller.save(with_beliefs)
        controller.save(without, beliefs=False)
        loaded = Controller.load(with_beliefs)
        others = [loaded, Controller.load(with_beliefs, rebuild=True), Controller.load(without)]
    for other in others:
        assert len(other.journal) == len(controller.journal)
        same_beliefs(controller, other)
    expected = future(controller)
    for other in others:
        assert future(other) == expected
        same_beliefs(controller, other)
    controller.rebuild()
    same_beliefs(controller, loaded)
    assert future(controller) == future(loaded)


@given(
    case=st.sampled_from(CASES),
    matrix=st.sampled_from(sorted(MATRICES)),
    seed=st.integers(0, 10_000),
    steps=st.integers(20, 70),
)
@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])
def test_load_and_replay_give_the_same_future_for_every_policy_and_engine(
    case: tuple[str, str], matrix: str, seed: int, steps: int
) -> None:
    controller = make(*case, matrix, seed=seed)
    live(controller, np.random.default_rng(seed), steps)
    check(controller)


@pytest.mark.parametrize("extra", list(EXTRAS))
@given(matrix=st.sampled_from(sorted(MATRICES)), seed=st.integers(0, 10_000), steps=st.integers(30, 60))
@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])
def test_load_and_replay_give_the_same_future_with_floors_rules_and_drift(
    extra: str, matrix: str, seed: int, steps: int
) -> None:
    controller = make("ucb", "auto", matrix, seed=seed, **EXTRAS[extra])
    live(controller, np.random.default_rng(seed), steps)
    check(controller)


def test_the_lives_above_do_see_matrices_replaced_and_kept_stations_join_and_change() -> None:
    replaced, kept, joined, renewed = 0, 0, 0, 0
    for seed in range(8):
        controller = make("ucb", "auto", "alike", seed=seed, drift=Drift(reset=Reset(3.0)))
        live(controller, np.random.default_rng(seed), 70)
        for entry in controller.journal:
            replaced += isinstance(entry, Estimated) and bool(entry.triangle)
            kept += isinstance(entry, Estimated) and not entry.triangle
            joined += isinstance(entry, Joined)
            renewed += isinstance(entry, Renewed)
    assert min(replaced, kept, joined, renewed) >= 3


def test_loading_takes_up_a_station_that_joined_before_an_estimate_changed_nothing() -> None:
    """Built at once for all stations, a posterior may fall into groups that one grown station by station has not."""
    controller = make("ucb", "exact", "alike", seed=3)
    controller.add_station("lone", similarity={"a": 0.0})
    rng = np.random.default_rng(2)
    for _ in range(12):
        key = controller.ask(str(rng.choice(controller.stations)), {"load": float(rng.normal())}).id
        controller.tell(key, reward(controller, key, rng))
    controller._memory.take(Estimated(controller._memory.rows))
    check(controller)
