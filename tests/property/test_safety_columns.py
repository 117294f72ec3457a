"""Work that a budget takes over from the scores: the same beliefs as asked for anew, and the same bits in a replay."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray
from kinband.kernels import RBF
from kinband.policies import UCB, Conservative
from kinband.posterior import Column, ExactPosterior, make_posterior
from kinband.posterior.base import Question
from kinband.records import Choice, Decision, Query

THRESHOLDS: FloatArray = np.linspace(-1.7, 1.7, 29, dtype=np.float64)[:, None]
N, M = len(THRESHOLDS), 3
SPACE = ConfigurationSpace(threshold=range(-112, -83))
ENGINES = ["exact", "auto", "sparse", "grouped"]


def posterior_of(engine: str, rng: np.random.Generator) -> Any:
    """An empty posterior with hyper-parameters of its own."""
    A = rng.normal(size=(M, 2))
    K_Z = A @ A.T + np.diag(rng.uniform(0.1, 0.9, size=M))
    if engine == "grouped":
        K_Z[0, 1:] = K_Z[1:, 0] = 0.0
    kernel = RBF(rng.uniform(0.6, 3.0, size=4).tolist(), variance=float(rng.uniform(0.2, 5.0)))
    rest: Any = {"noise": float(rng.uniform(0.01, 0.5)), "mean": float(rng.normal()), "configurations": THRESHOLDS}
    known = engine if engine in ("auto", "sparse") else "exact"
    return make_posterior(kernel, K_Z, engine=known, budget=40, **rest)


def learn(posterior: Any, rows: int, rng: np.random.Generator) -> None:
    X = np.hstack([rng.normal(size=(rows, 3)), THRESHOLDS[rng.integers(N, size=rows)]])
    posterior.update(rng.integers(M, size=rows), X, rng.normal(size=rows))


def some_question(rng: np.random.Generator, *, least: int = 4) -> Question:
    arms = np.sort(rng.permutation(N)[: rng.integers(least, N + 1)])
    X = np.hstack([np.broadcast_to(rng.normal(size=3), (N, 3)), THRESHOLDS])
    return Question(int(rng.integers(M)), X, arms)


@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES), rows=st.sampled_from([0, 9, 127, 150, 300]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_prediction_says_how_its_arms_hang_together(seed: int, engine: str, rows: int) -> None:
    rng = np.random.default_rng([seed, 5])
    posterior = posterior_of(engine, rng)
    if rows:
        learn(posterior, rows, rng)
    question = some_question(rng)
    found = posterior.predict_arms([question])[0]
    positions = rng.permutation(len(question.arms))[:3]
    asked = question.X[question.arms[positions]]
    mean, C = posterior.moments(np.full(3, question.task), asked)
    scale = float(np.abs(posterior.K_Z).max()) * 5.0
    np.testing.assert_allclose(found.mean[positions], mean, rtol=0, atol=1e-8 * scale)
    np.testing.assert_allclose(found.covariance(positions), C, rtol=0, atol=1e-9 * scale)


@given(seed=st.integers(0, 10_000), engine=st.sampled_from(["exact", "auto", "grouped"]))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_beliefs_of_kept_columns_are_those_of_columns_solved_anew(seed: int, engine: str) -> None:
    """After further rewards too, a complete panel included; to the bit where only the memo is left of them."""
    rng = np.random.default_rng([seed, 6])
    posterior = posterior_of(engine, rng)
    learn(posterior, int(rng.integers(100, 420)), rng)
    question = replace(some_question(rng, least=27), task=1)
    prediction = posterior.predict_arms([question])[0]
    positions = rng.permutation(len(question.arms))[:2]
    kept = [prediction.column(int(i)) or pytest.fail("no column") for i in positions]
    tasks, X = np.full(2, question.task), question.X[question.arms[positions]]
    for _ in range(int(rng.integers(1, 140))):
        learn(posterior, 1, rng)
        recalled = [Column.recall(column.memo) for column in kept]
        fresh = posterior.refreshed(tasks, X, kept)
        found, again, anew = (posterior.moments(tasks, X, columns=columns) for columns in (kept, recalled, fresh))
        for one, other, third in zip(found, again, anew, strict=True):
            assert np.array_equal(one, other)
            assert np.array_equal(one, third)
    scale = 5.0 * float(np.abs(posterior.K_Z).max())
    for one, plain in zip(found, posterior.moments(tasks, X), strict=True):
        np.testing.assert_allclose(one, plain, rtol=0, atol=1e-8 * scale)


def test_a_column_that_a_panel_was_completed_behind_is_solved_with_the_others() -> None:
    """A column says how far it was solved when its reward was told; from the next panel on one plain sweep is made."""
    rng = np.random.default_rng(17)
    posterior: ExactPosterior = posterior_of("exact", rng)
    learn(posterior, 130, rng)
    question = some_question(rng, least=27)
    tasks, X = np.full(2, question.task), question.X[[3, 11]]
    told = [Column(arm=arm, upto=128) for arm in (3, 11)]
    taken, plain = posterior.moments(tasks, X, columns=told), posterior.moments(tasks, X)
    np.testing.assert_allclose(taken[1], plain[1], rtol=0, atol=1e-9)
    learn(posterior, 126, rng)
    dated, plain = posterior.moments(tasks, X, columns=told), posterior.moments(tasks, X)
    assert np.array_equal(dated[1], plain[1])
    assert np.array_equal(dated[0], plain[0])


def controller_of(seed: int, *, per_station: bool) -> Controller:
    rng = np.random.default_rng([seed, 7])
    like = float(rng.uniform(0.3, 0.9))
    return Controller(
        SPACE,
        ["a", "b"],
        state=["load"],
        similarity=[[1.0, like], [like, 1.0]],
        kernel=RBF(rng.uniform(0.4, 1.5, size=2).tolist(), variance=float(rng.uniform(0.02, 0.1))),
        noise=float(rng.uniform(0.001, 0.004)),
        mean=0.7,
        running={"threshold": -100},
        safety=Conservative(0.6 if per_station else 0.3, delta=0.3, per_station=per_station),
        seed=seed,
    )


def reward_of(decision: Decision, load: float, rng: np.random.Generator) -> float:
    tilt = (SPACE[decision.arm]["threshold"] + 100) / 12
    return float(0.7 + 0.2 * np.cos(2 * tilt + 3 * load) + 0.04 * rng.normal())


def live(controller: Controller, rng: np.random.Generator, steps: int, *, late: int = 0) -> list[Decision]:
    """Ask and tell, answers coming late and out of order."""
    made, waiting = list[Decision](), list[tuple[Decision, float]]()
    for _ in range(steps):
        load = float(rng.random())
        made.append(controller.ask(str(rng.choice(["a", "b"])), {"load": load}))
        waiting.append((made[-1], load))
        while len(waiting) > late:
            decision, load = waiting.pop(int(rng.integers(len(waiting))))
            controller.tell(decision.id, reward_of(decision, load, rng))
    return made


def without_prediction(self: UCB, query: Query, rng: np.random.Generator) -> tuple[Choice, None]:
    return self.choose(query, rng), None


@pytest.mark.parametrize(("seed", "per_station"), [(1, False), (2, False), (7, True)])
def test_decisions_are_those_of_a_budget_that_asks_for_its_beliefs_anew(
    seed: int, per_station: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = controller_of(seed, per_station=per_station)
    made = live(quick, np.random.default_rng(seed), 300)
    monkeypatch.setattr(UCB, "consider", without_prediction)
    plain = controller_of(seed, per_station=per_station)
    expected = live(plain, np.random.default_rng(seed), 300)
    notes, plain_notes = ([d.memo["safety"] for d in some] for some in (made, expected))
    assert [d.arm for d in made] == [d.arm for d in expected]
    np.testing.assert_allclose([n["lower"] for n in notes], [n["lower"] for n in plain_notes], rtol=1e-6, atol=1e-8)
    one, other = quick.policy.state(), plain.policy.state()  # type: ignore[attr-defined]
    for name in ("settled", "settled_doubt", "settled_open"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6, atol=1e-8)
    assert sum("column" in note for note in notes) > 40
    assert not any("column" in note for note in plain_notes)
    assert one["settled_doubt"][:, 0].sum() > 0  # blocks were full
    assert sum(note.get("by") == "budget" for note in notes) > 0


@pytest.mark.parametrize(("seed", "per_station", "late"), [(3, False, 0), (6, False, 4), (5, True, 2)])
def test_load_and_replay_give_the_same_future_bit_for_bit(seed: int, per_station: bool, late: int) -> None:
    """Saved with trials open whose columns were kept, and with answers outstanding."""
    controller = controller_of(seed, per_station=per_station)
    made = live(controller, np.random.default_rng(seed), 290, late=late)
    while not controller.policy.state().get("settled_columns", np.empty(0)).any() and not per_station:  # type: ignore[attr-defined]
        made += live(controller, np.random.default_rng(len(made)), 1)
    with tempfile.TemporaryDirectory() as folder:
        controller.save(Path(folder) / "state")
        loaded = Controller.load(Path(folder) / "state")
    replayed = Controller.resume(controller.settings, list(controller.journal))
    assert sum("column" in d.memo["safety"] for d in made) > 40
    futures = []
    for one in (controller, loaded, replayed):
        for number in one.pending:
            one.tell(number, 0.71)
        futures.append((live(one, np.random.default_rng(99), 40), one.policy.state()))  # type: ignore[attr-defined]
    (expected, state), *others = futures
    for decisions, found in others:
        assert decisions == expected
        assert found.keys() == state.keys()
        assert all(np.array_equal(found[name], state[name]) for name in state)
