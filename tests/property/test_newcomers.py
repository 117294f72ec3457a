"""Stations come and go at random: replay stays exact, and the task matrix stays one."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller, Decision
from kinband.kernels import RBF, check_task_matrix
from kinband.policies import Conservative
from kinband.policies.base import KeepsState
from kinband.similarity.newcomers import OWN, average_row, correlations, descriptor_row, fit_descriptor_kernel, with_row

KINDS = ["urban", "rural", "harbour"]
OPTIONS: dict[str, dict[str, Any]] = {"super-ucb": {"horizon": 300}, "fixed": {"arm": 2}}
# Blocks that share nothing, so that newcomers join groups, merge them, or stay alone.
GROUPED = np.kron(np.diag([1.0, 0.7]), np.array([[1.0, 0.6], [0.6, 1.0]]))
DENSE = 0.5 * np.ones((4, 4)) + 0.5 * np.eye(4)
MATRICES = {"dense": DENSE, "grouped": GROUPED, "independent": np.eye(4)}
CASES = [("ucb", "exact"), ("ucb", "schur"), ("ucb", "sparse"), ("ucb", "auto"), ("kernel-ucb", "exact")]
CASES += [("pooled", "exact"), ("super-ucb", "exact"), ("super-ucb", "sparse"), ("linucb", "exact"), ("fixed", "exact")]
CASES += [("thompson", "exact"), ("thompson", "auto")]


def described(rng: np.random.Generator) -> dict[str, Any]:
    full = {"x_m": float(rng.normal()), "kind": str(rng.choice(KINDS))}
    return {name: value for name, value in full.items() if rng.random() < 0.8}


def make(policy: str, engine: str, matrix: str, seed: int, *, safe: bool) -> Controller:
    rng = np.random.default_rng(seed)
    return Controller(
        ConfigurationSpace(knob=range(6)),
        list("abcd"),
        state=["load"],
        similarity=MATRICES[matrix],
        kernel=RBF(0.8, variance=0.3),
        noise=0.05,
        mean=0.4,
        policy=policy,
        options=OPTIONS.get(policy, {}),
        engine=engine,
        budget=6,
        safety=Conservative(0.2) if safe else None,
        running={"knob": 1},
        descriptors={name: described(rng) for name in "abcd"},
        seed=seed,
    )


def live(controller: Controller, rng: np.random.Generator, steps: int) -> None:
    """Ask, tell late, correct and call off while stations come, go and come back."""
    for step in range(steps):
        move, present = rng.random(), list(controller.stations)
        gone = sorted(controller.in_force.gone)
        if move < 0.35 or not controller.pending:
            controller.ask(str(rng.choice(present)), {"load": float(rng.normal())})
        elif move < 0.42:
            controller.ask_all({s: {"load": float(rng.normal())} for s in present})
        elif move < 0.75:
            controller.tell(str(rng.choice(controller.pending)), float(rng.random()))
        elif move < 0.80 and len(controller):
            controller.correct(str(rng.choice(list(controller.journal.told))), float(rng.random()))
        elif move < 0.83:
            controller.call_off(str(rng.choice(controller.pending)))
        elif move < 0.88 and len(present) > 1:
            controller.remove_station(str(rng.choice(present)))
        elif move < 0.91 and gone:
            controller.add_station(str(rng.choice(gone)))
        else:
            join(controller, f"n{step}", rng)


def join(controller: Controller, name: str, rng: np.random.Generator) -> None:
    way, running = rng.integers(3), {"knob": int(rng.integers(6))}
    if way == 0:
        controller.add_station(name, running=running)
    elif way == 1:
        controller.add_station(name, described(rng), running=running)
    else:
        one = str(rng.choice(controller.in_force.stations))
        controller.add_station(name, similarity={one: float(rng.uniform(-0.5, 0.95))}, running=running)


def future(controller: Controller) -> list[Decision]:
    """Return the decisions that a controller goes on to make, with one more newcomer."""
    rng = np.random.default_rng(99)
    join(controller, "last", rng)
    made: list[Decision] = []
    for _ in range(3):
        made += controller.ask_all({s: {"load": float(rng.normal())} for s in controller.stations}).values()
        controller.tell(str(rng.choice(controller.pending)), float(rng.random()))
    return made


@given(
    case=st.sampled_from(CASES),
    matrix=st.sampled_from(sorted(MATRICES)),
    seed=st.integers(0, 10_000),
    steps=st.integers(5, 50),
    safe=st.booleans(),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_load_and_replay_give_the_same_future_with_stations_coming_and_going(
    case: tuple[str, str], matrix: str, seed: int, steps: int, safe: bool
) -> None:
    policy, engine = case
    controller = make(policy, engine, matrix, seed, safe=safe and policy in ("ucb", "kernel-ucb", "pooled"))
    live(controller, np.random.default_rng(seed), steps)
    with tempfile.TemporaryDirectory() as folder:
        controller.save(Path(folder) / "state")
        loaded = Controller.load(Path(folder) / "state")
        rebuilt = Controller.load(Path(folder) / "state", rebuild=True)
    assert loaded.in_force.stations == controller.in_force.stations
    assert np.array_equal(loaded.in_force.K_Z, controller.in_force.K_Z)
    if isinstance(controller.policy, KeepsState) and isinstance(rebuilt.policy, KeepsState):
        ours, theirs = controller.policy.state(), rebuilt.policy.state()
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    expected = future(controller)
    assert future(loaded) == expected
    assert future(rebuilt) == expected


@given(seed=st.integers(0, 10_000), M=st.integers(1, 12), rank=st.integers(1, 14), shift=st.floats(-0.5, 2.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_longer_matrix_is_always_a_valid_one_and_calls_nobody_identical(
    seed: int, M: int, rank: int, shift: float
) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, rank)) + shift
    K = A @ A.T + 1e-3 * np.eye(M)
    stations = [described(rng) for _ in range(M)]
    kernel = fit_descriptor_kernel(K, stations)
    newcomer = described(rng)
    rows = [average_row(K)] + ([] if kernel is None else [descriptor_row(K, kernel, stations, newcomer)])
    for row in rows:
        longer = check_task_matrix(with_row(K, row), size=M + 1)
        assert np.linalg.eigvalsh(longer)[0] > -1e-9 * np.diagonal(K).max()
        assert np.abs(correlations(longer)[-1, :-1]).max() <= np.sqrt(1 - OWN) + 1e-9
