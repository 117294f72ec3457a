"""Work that a budget takes over from the scores: the same beliefs as asked for anew."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray
from kinband.kernels import RBF
from kinband.policies import Conservative
from kinband.policies.constraints import Draft
from kinband.posterior import Prediction, make_posterior
from kinband.records import Decision

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
    return make_posterior(kernel, K_Z, engine=known, inducing_points=40, **rest)


def learn(posterior: Any, rows: int, rng: np.random.Generator) -> None:
    X = np.hstack([rng.normal(size=(rows, 3)), THRESHOLDS[rng.integers(N, size=rows)]])
    posterior.update(rng.integers(M, size=rows), X, rng.normal(size=rows))


def some_arms(rng: np.random.Generator, *, least: int = 4) -> FloatArray:
    """Contexts of some configurations in one state."""
    arms = np.sort(rng.permutation(N)[: rng.integers(least, N + 1)])
    return np.hstack([np.broadcast_to(rng.normal(size=3), (N, 3)), THRESHOLDS])[arms]


@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES), rows=st.sampled_from([0, 9, 127, 150, 300]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_prediction_says_how_its_arms_hang_together(seed: int, engine: str, rows: int) -> None:
    rng = np.random.default_rng([seed, 5])
    posterior = posterior_of(engine, rng)
    if rows:
        learn(posterior, rows, rng)
    X, task = some_arms(rng), int(rng.integers(M))
    positions = rng.permutation(len(X))[:3]
    found, anew = posterior.predict(task, X).at(positions), posterior.predict(task, X[positions])
    scale = float(np.abs(posterior.K_Z).max()) * 5.0
    np.testing.assert_allclose(found.mean, anew.mean, rtol=0, atol=1e-8 * scale)
    np.testing.assert_allclose(found.covariance(), anew.covariance(), rtol=0, atol=1e-9 * scale)


@given(seed=st.integers(0, 10_000), engine=st.sampled_from(["exact", "auto", "grouped"]))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_beliefs_of_kept_columns_are_those_of_columns_solved_anew(seed: int, engine: str) -> None:
    """After further rewards too, a complete panel included."""
    rng = np.random.default_rng([seed, 6])
    posterior = posterior_of(engine, rng)
    learn(posterior, int(rng.integers(100, 420)), rng)
    X = some_arms(rng, least=27)
    prediction, positions = posterior.predict(1, X), rng.permutation(len(X))[:2]
    kept = [prediction.column(int(i)) or pytest.fail("no column") for i in positions]
    scale = 5.0 * float(np.abs(posterior.K_Z).max())
    for _ in range(int(rng.integers(1, 140))):
        learn(posterior, 1, rng)
        found, anew = (posterior.predict(1, X[positions], columns=columns) for columns in (kept, ()))
        np.testing.assert_allclose(found.mean, anew.mean, rtol=0, atol=1e-8 * scale)
        np.testing.assert_allclose(found.covariance(), anew.covariance(), rtol=0, atol=1e-8 * scale)


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


def live(controller: Controller, rng: np.random.Generator, steps: int) -> list[Decision]:
    made = list[Decision]()
    for _ in range(steps):
        load = float(rng.random())
        made.append(controller.ask(str(rng.choice(["a", "b"])), {"load": load}))
        controller.tell(made[-1].id, reward_of(made[-1], load, rng))
    return made


@pytest.mark.parametrize(("seed", "per_station"), [(1, False), (2, False), (7, True)])
def test_decisions_are_those_of_a_budget_that_asks_for_its_beliefs_anew(
    seed: int, per_station: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = controller_of(seed, per_station=per_station)
    made = live(quick, np.random.default_rng(seed), 300)
    monkeypatch.setattr(Draft, "believed", lambda *_: None)
    monkeypatch.setattr(Prediction, "column", lambda *_: None)
    plain = controller_of(seed, per_station=per_station)
    expected = live(plain, np.random.default_rng(seed), 300)
    notes, plain_notes = ([d.policy_state["safety"] for d in some] for some in (made, expected))
    assert [d.arm for d in made] == [d.arm for d in expected]
    np.testing.assert_allclose([n["lower"] for n in notes], [n["lower"] for n in plain_notes], rtol=1e-6, atol=1e-8)
    one, other = quick.policy.state(), plain.policy.state()  # type: ignore[attr-defined]
    for name in ("settled", "settled_doubt", "settled_open"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6, atol=1e-8)
    assert sum("x" in note for note in notes) > 40
    assert one["settled_doubt"][:, 0].sum() > 0  # blocks were full
    assert sum(note.get("by") == "budget" for note in notes) > 0
