"""After saving and loading, and after a replay of the log, every later decision is the same bit for bit."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller, Decision
from kinband.kernels import RBF, Matern32
from kinband.policies import POLICIES
from kinband.policies.base import KeepsState
from kinband.records import Samples

STATIONS = ["a", "b", "c", "d"]
OPTIONS: dict[str, dict[str, Any]] = {"super-ucb": {"horizon": 300}, "fixed": {"arm": 2}}
K_Z = 0.6 * np.ones((4, 4)) + 0.4 * np.eye(4)


def make(policy: str, seed: int, *, arms: int = 9, log_rows: int = 0, engine: str = "exact") -> Controller:
    rng = np.random.default_rng(seed)
    log = None
    if log_rows:
        X = rng.normal(size=(log_rows, 2))
        tasks = rng.integers(0, 4, log_rows)
        log = Samples(
            tuple(STATIONS), tasks, X, rng.random(log_rows), None, ("load", "knob"), arms=np.zeros(log_rows, int)
        )
    return Controller(
        ConfigurationSpace(knob=range(arms)),
        STATIONS,
        state=["load"],
        similarity=K_Z,
        kernel=RBF(0.8, variance=0.3),
        noise=0.05,
        mean=0.4,
        policy=policy,
        beta="corrected" if policy == "super-ucb" else 1.1,
        options=OPTIONS.get(policy, {}),
        engine=engine,
        log=log,
        seed=seed,
    )


def live(controller: Controller, rng: np.random.Generator, steps: int) -> None:
    """Ask, tell late and out of order, correct, call off, and forget to tell."""
    for _ in range(steps):
        move = rng.random()
        if move < 0.45 or not controller.pending:
            controller.ask(str(rng.choice(STATIONS)), {"load": float(rng.normal())})
        elif move < 0.55:
            controller.ask_all({s: {"load": float(rng.normal())} for s in STATIONS})
        elif move < 0.92:
            noise = None if rng.random() < 0.7 else float(rng.uniform(0.01, 0.4))
            controller.tell(str(rng.choice(controller.pending)), float(rng.random()), noise=noise)
        elif move < 0.96 and len(controller):
            controller.correct(str(rng.choice(list(controller.journal.told))), float(rng.random()))
        else:
            controller.call_off(str(rng.choice(controller.pending)))


def future(controller: Controller, steps: int = 6) -> list[Decision]:
    """Return the decisions that a controller goes on to make, learning as it goes."""
    rng = np.random.default_rng(99)
    made: list[Decision] = []
    for _ in range(steps):
        decision = controller.ask(str(rng.choice(STATIONS)), {"load": float(rng.normal())})
        made += [decision, *controller.ask_all({s: {"load": float(rng.normal())} for s in STATIONS}).values()]
        controller.tell(str(rng.choice(controller.pending)), float(rng.random()))
    return made


@given(policy=st.sampled_from(sorted(POLICIES)), seed=st.integers(0, 10_000), steps=st.integers(0, 60))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_load_and_replay_give_the_same_future(policy: str, seed: int, steps: int) -> None:
    controller = make(policy, seed, log_rows=seed % 3 * 7)
    live(controller, np.random.default_rng(seed), steps)
    with tempfile.TemporaryDirectory() as folder:
        controller.save(Path(folder) / "state")
        loaded = Controller.load(Path(folder) / "state")
        rebuilt = Controller.load(Path(folder) / "state", rebuild=True)
    replayed = Controller.resume(controller.settings, list(controller.journal))
    expected = future(controller)
    assert future(loaded) == expected
    assert future(rebuilt) == expected
    assert future(replayed) == expected


@pytest.mark.parametrize(("arms", "engine"), [(9, "exact"), (29, "exact"), (70, "exact"), (9, "schur")])
def test_the_same_holds_beyond_several_panels_of_the_factor(arms: int, engine: str) -> None:
    controller = make("ucb", 3, arms=arms, log_rows=150, engine=engine)
    live(controller, np.random.default_rng(4), 500)
    assert len(controller) > 128
    replayed = Controller.resume(controller.settings, list(controller.journal))
    assert future(replayed, 30) == future(controller, 30)


@pytest.mark.parametrize("arms", [5, 29, 33])
@pytest.mark.parametrize("similarity", ["independent", "pooled"])
def test_plain_asking_and_telling_replays_bit_for_bit_at_every_size(arms: int, similarity: str) -> None:
    # Through two panels of the factor, so that rows fall on every place in a panel, its first and last among them.
    space = ConfigurationSpace(knob=range(arms))
    controller = Controller(space, ["a"], state=["load"], similarity=similarity)
    rng = np.random.default_rng(0)
    for _ in range(300):
        controller.tell(controller.ask("a", {"load": float(rng.random())}).id, float(rng.random()))
    replayed = Controller.resume(controller.settings, list(controller.journal))
    states = [{"load": float(rng.random())} for _ in range(5)]
    assert [replayed.ask("a", s) for s in states] == [controller.ask("a", s) for s in states]
    ours, theirs = (policy_state(c) for c in (controller, replayed))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def policy_state(controller: Controller) -> dict[str, Any]:
    policy = controller.policy
    assert isinstance(policy, KeepsState)
    return policy.state()


def test_decisions_never_told_do_not_matter_to_what_is_believed() -> None:
    quiet, noisy = make("ucb", 8), make("ucb", 8)
    rng = np.random.default_rng(1)
    for step in range(150):
        state = {"load": float(rng.normal())}
        told = [c.ask("a", state, allowed=[step % 9]) for c in (quiet, noisy)]
        noisy.ask("b", state)
        reward = float(rng.random())
        quiet.tell(told[0].id, reward)
        noisy.tell(told[1].id, reward)
    a, b = (c.ask("c", {"load": 0.2}) for c in (quiet, noisy))
    assert [(x.arm, x.mean, x.width) for x in a.alternatives] == [(x.arm, x.mean, x.width) for x in b.alternatives]


def test_a_kernel_of_another_kind_survives_the_folder(tmp_path: Path) -> None:
    from sklearn.gaussian_process import kernels as sk

    own, foreign = Matern32([0.5, 2.0]) * RBF(1.5) + RBF(0.3), sk.Matern(0.7, nu=2.5)
    products = [sk.DotProduct(0.3) + sk.RBF(0.8), sk.PairwiseKernel(metric="rbf", gamma=0.4)]
    for number, kernel in enumerate([own, foreign, *products]):
        controller = Controller(ConfigurationSpace(knob=range(5)), STATIONS, state=["load"], kernel=kernel)
        live(controller, np.random.default_rng(number), 150)
        controller.save(tmp_path / str(number))
        loaded = Controller.load(tmp_path / str(number), rebuild=True)
        assert future(loaded) == future(controller)
