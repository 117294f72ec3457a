"""Stations change at random while a clock runs: load, rebuild and replay give the same future bit for bit."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller, Decision
from kinband.controller.events import Renewed
from kinband.drift import Drift, Reset, renewed_row
from kinband.kernels import RBF, check_task_matrix, components
from kinband.policies import Conservative
from kinband.policies.base import KeepsState
from kinband.records import Samples
from kinband.similarity.newcomers import with_row

STATIONS = list("abcd")
GROUPED = np.kron(np.diag([1.0, 0.7]), np.array([[1.0, 0.6], [0.6, 1.0]]))
MATRICES = {"dense": 0.5 * np.ones((4, 4)) + 0.5 * np.eye(4), "grouped": GROUPED, "independent": np.eye(4)}
CASES = [("ucb", "exact"), ("ucb", "schur"), ("ucb", "sparse"), ("ucb", "auto"), ("kernel-ucb", "exact")]
CASES += [("super-ucb", "exact"), ("thompson", "exact"), ("thompson", "sparse")]
# Few decisions are played, so that alarms have to come cheaply.
DRIFTS = {
    "resets": Drift(reset=Reset(3.0)),
    "resets, some kept": Drift(reset=Reset(3.0, kept=0.4)),
    "forgets by decisions": Drift(25.0, reset=False),
    "forgets by numbers": Drift(4.0, keep=0.2, reset=False, clock="numbers"),
    "both": Drift(9.0, reset=Reset(3.0, kept=0.2), clock="numbers"),
}


def make(policy: str, engine: str, matrix: str, drift: Drift, *, seed: int, safe: bool) -> Controller:
    rng = np.random.default_rng(seed)
    rows = seed % 3 * 5
    features = ("load", "clock", "knob") if drift.clock == "numbers" else ("load", "knob")
    X = rng.normal(size=(rows, len(features)))
    X[:, 1] = -np.abs(X[:, 1])  # a log ends before the first decision
    log = Samples(tuple(STATIONS), rng.integers(0, 4, rows), X, rng.random(rows), None, features)
    return Controller(
        ConfigurationSpace(knob=range(6)),
        STATIONS,
        state=["load"],
        similarity=MATRICES[matrix],
        kernel=RBF(0.8, variance=0.03),
        noise=0.01,
        mean=0.5,
        policy=policy,
        options={"horizon": 300} if policy == "super-ucb" else {},
        engine=engine,
        budget=6,
        log=log if rows else None,
        safety=Conservative(0.2) if safe else None,
        running={"knob": 1},
        drift=drift,
        seed=seed,
    )


def when(controller: Controller, rng: np.random.Generator) -> dict[str, Any]:
    """The time of the next question, where the clock is set: never before the last one."""
    drift, column = controller.settings.drift, controller.settings.clock_column
    if drift is None or drift.clock != "numbers" or column is None:
        return {}
    asked = list(controller.journal.asked.values())
    last = float(asked[-1].x[column]) if asked else 0.0
    return {"time": last + float(rng.choice([0.0, rng.exponential()]))}


def live(controller: Controller, rng: np.random.Generator, steps: int) -> None:
    """Ask, tell late, correct, call off, and let stations come and go, while rewards jump about."""
    for step in range(steps):
        move, present = rng.random(), list(controller.stations)
        level = 0.2 + 0.6 * (step // 12 % 2)  # a network that changes every dozen steps
        if move < 0.35 or not controller.pending:
            controller.ask(str(rng.choice(present)), {"load": float(rng.normal())}, **when(controller, rng))
        elif move < 0.45:
            controller.ask_all({s: {"load": float(rng.normal())} for s in present}, **when(controller, rng))
        elif move < 0.86:
            controller.tell(str(rng.choice(controller.pending)), level + 0.1 * float(rng.normal()))
        elif move < 0.90 and len(controller):
            controller.correct(str(rng.choice(list(controller.journal.told))), float(rng.random()))
        elif move < 0.93:
            controller.call_off(str(rng.choice(controller.pending)))
        elif move < 0.96 and len(present) > 1:
            controller.remove_station(str(rng.choice(present)))
        else:
            gone = sorted(controller.in_force.gone)
            controller.add_station(gone[0] if gone else f"n{step}", running={"knob": int(rng.integers(6))})


def future(controller: Controller) -> list[Decision]:
    """Return the decisions that a controller goes on to make, resets included."""
    rng = np.random.default_rng(99)
    made: list[Decision] = []
    for _ in range(4):
        states = {s: {"load": float(rng.normal())} for s in controller.stations}
        made += controller.ask_all(states, **when(controller, rng)).values()
        for _ in range(2):
            controller.tell(str(rng.choice(controller.pending)), float(rng.random()))
    return made


@given(
    case=st.sampled_from(CASES),
    matrix=st.sampled_from(sorted(MATRICES)),
    drift=st.sampled_from(sorted(DRIFTS)),
    seed=st.integers(0, 10_000),
    steps=st.integers(10, 70),
    safe=st.booleans(),
)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_load_and_replay_give_the_same_future_while_stations_change(
    case: tuple[str, str], matrix: str, drift: str, seed: int, steps: int, safe: bool
) -> None:
    policy, engine = case
    rules = safe and policy in ("ucb", "kernel-ucb")
    controller = make(policy, engine, matrix, DRIFTS[drift], seed=seed, safe=rules)
    live(controller, np.random.default_rng(seed), steps)
    with tempfile.TemporaryDirectory() as folder:
        controller.save(Path(folder) / "state")
        loaded = Controller.load(Path(folder) / "state")
        rebuilt = Controller.load(Path(folder) / "state", rebuild=True)
    assert loaded.in_force.stations == controller.in_force.stations
    assert loaded.stations == controller.stations
    assert np.array_equal(loaded.in_force.K_Z, controller.in_force.K_Z)
    if isinstance(controller.policy, KeepsState) and isinstance(rebuilt.policy, KeepsState):
        ours, theirs = controller.policy.state(), rebuilt.policy.state()
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    expected = future(controller)
    assert future(loaded) == expected
    assert future(rebuilt) == expected
    controller.rebuild()
    assert future(controller) == future(loaded)


def test_the_lives_above_do_see_stations_change() -> None:
    found = 0
    for seed in range(6):
        controller = make("ucb", "exact", "dense", DRIFTS["both"], seed=seed, safe=False)
        live(controller, np.random.default_rng(seed), 60)
        found += sum(isinstance(entry, Renewed) for entry in controller.journal)
    assert found >= 6


@given(
    seed=st.integers(0, 10_000),
    M=st.integers(1, 6),
    rank=st.integers(1, 7),
    kept=st.floats(0.0, 0.999),
    changes=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_task_matrix_stays_valid_whoever_changes_and_however_often(
    seed: int, M: int, rank: int, kept: float, changes: int
) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, rank))
    K = A @ A.T + 1e-3 * np.eye(M)
    present = list(range(M))
    former: dict[int, int] = {}
    for _ in range(changes):
        m = int(rng.integers(M))
        row = renewed_row(K, present[m], former=former, kept=kept)
        former[len(K)], present[m] = present[m], len(K)
        K = np.block([[K, row[:-1, None]], [row[None, :-1], row[-1:, None]]])
        check_task_matrix(K)
        assert K[-1, -1] == K[m, m]


@given(seed=st.integers(0, 10_000), M=st.integers(2, 9), rank=st.integers(1, 10), kept=st.floats(0.0, 0.999))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_new_row_fits_whatever_has_become_of_the_task_matrix(seed: int, M: int, rank: int, kept: float) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, rank)) * (rng.random((M, 1)) < 0.8)
    K = A @ A.T + 1e-3 * np.eye(M)
    links = rng.permutation(M)
    former = {int(b): int(a) for a, b in zip(links[::2], links[1::2], strict=False) if rng.random() < 0.7}
    task = int(rng.choice([t for t in range(M) if t not in former.values()]))
    row = renewed_row(K, task, former=former, kept=kept)
    check_task_matrix(with_row(K, row))
    origins = [former.get(t, t) for t in range(M)]
    for members in components(K):
        if all(K[origins[task], origins[t]] == 0.0 for t in members):
            assert not row[members].any()  # exactly, or posteriors that are kept apart would be joined
