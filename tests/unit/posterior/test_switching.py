"""Exact at first, sparse later: when beliefs change hands, and that nothing else changes with it."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import RBF
from kinband.planning import beliefs_of, shares
from kinband.posterior import (
    SWITCH_ROWS,
    BlockedPosterior,
    ExactPosterior,
    SparsePosterior,
    make_posterior,
)
from kinband.records import same_decision

SPACE = ConfigurationSpace(tilt=[0, 2, 4, 6])
K_Z = np.array([[1.0, 0.7, 0.2], [0.7, 0.9, 0.1], [0.2, 0.1, 1.1]])
STATIONS = ("a", "b", "c")


def switching(**options: Any) -> BlockedPosterior:
    given = {"inducing_points": 10, "exact_rows": 25} | options
    return BlockedPosterior(RBF(0.4, variance=0.6), K_Z, noise=0.07, mean=0.4, engine="auto", **given)


def is_sparse(posterior: BlockedPosterior) -> list[bool]:
    return [isinstance(block, SparsePosterior) for block in posterior.blocks]


def rows_of(n: int, seed: int = 1) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return rng.integers(0, 3, size=n), X, np.sin(4 * X[:, 0]) + rng.normal(scale=0.2, size=n)


def tell(posterior: Any, tasks: Any, X: Any, y: Any) -> None:
    for i in range(len(y)):
        posterior.update(tasks[i : i + 1], X[i : i + 1], y[i : i + 1])


@pytest.fixture
def small_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers hand over after 30 rows."""
    monkeypatch.setattr("kinband.posterior.blocks.SWITCH_ROWS", 30)


def controller(**options: Any) -> Controller:
    return Controller(
        SPACE, STATIONS, state={"load": (0, 1)}, similarity=K_Z, kernel=RBF(0.5, variance=0.3), noise=0.02, mean=0.4,
        seed=3, **options,
    )  # fmt: skip


def play(control: Controller, rounds: int, seed: int = 5) -> list[Any]:
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        for name in STATIONS:
            load = float(rng.uniform())
            decision = control.ask(name, {"load": load})
            chosen.append(decision.arm)
            control.tell(decision.id, 1 - abs(decision.arm / 3 - load) + 0.05 * rng.normal())
    return chosen


def test_it_is_exact_up_to_the_limit_and_sparse_beyond(caplog: pytest.LogCaptureFixture) -> None:
    tasks, X, y = rows_of(26)
    posterior, exact = switching(), ExactPosterior(RBF(0.4, variance=0.6), K_Z, noise=0.07, mean=0.4)
    for one in (posterior, exact):
        tell(one, tasks[:25], X[:25], y[:25])
    np.testing.assert_array_equal(posterior.predict(tasks, X).std, exact.predict(tasks, X).std)
    assert is_sparse(posterior) == [False]
    assert not caplog.records
    tell(posterior, tasks[25:], X[25:], y[25:])
    assert (is_sparse(posterior), len(posterior)) == ([True], 26)
    (said,) = caplog.records
    assert (said.levelno, said.getMessage()) == (
        logging.WARNING,
        "beyond 25 rows a sparse posterior of 10 inducing points takes the place of the exact one",
    )


def test_after_the_hand_over_it_is_the_sparse_posterior_of_the_same_rows() -> None:
    tasks, X, y = rows_of(60)
    posterior = switching()
    tell(posterior, tasks, X, y)
    sparse = SparsePosterior(RBF(0.4, variance=0.6), K_Z, noise=0.07, mean=0.4, inducing_points=10)
    sparse.update(tasks[:25], X[:25], y[:25])
    tell(sparse, tasks[25:], X[25:], y[25:])
    np.testing.assert_array_equal(posterior.predict(tasks, X).mean, sparse.predict(tasks, X).mean)
    np.testing.assert_array_equal(
        posterior.predict(tasks[:4], X[:4]).covariance(), sparse.predict(tasks[:4], X[:4]).covariance()
    )


@pytest.mark.parametrize("stop", [10, 25, 26, 40])
def test_a_stored_posterior_goes_on_on_either_side(stop: int) -> None:
    tasks, X, y = rows_of(50)
    whole, first = switching(), switching()
    tell(whole, tasks, X, y)
    tell(first, tasks[:stop], X[:stop], y[:stop])
    second = switching()
    second.restore(first.state())
    assert is_sparse(second) == [stop > 25]
    tell(second, tasks[stop:], X[stop:], y[stop:])
    np.testing.assert_array_equal(second.predict(tasks, X).std, whole.predict(tasks, X).std)


def test_a_hand_over_that_fails_leaves_the_exact_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, X, y = rows_of(26)
    posterior = switching()
    tell(posterior, tasks[:25], X[:25], y[:25])

    def refuse(*_: Any) -> None:
        raise NotPositiveDefiniteError("no")

    monkeypatch.setattr(SparsePosterior, "_learn", refuse)
    with pytest.raises(NotPositiveDefiniteError):
        tell(posterior, tasks[25:], X[25:], y[25:])
    assert (is_sparse(posterior), len(posterior)) == ([False], 25)


@pytest.mark.parametrize("rows", [0, -1, 2.5, True])
def test_a_limit_that_is_no_count_is_refused(rows: object) -> None:
    with pytest.raises(BadInputError) as refused:
        switching(exact_rows=rows)
    assert refused.value.argument == "exact_rows"


def test_groups_hand_over_one_by_one_without_a_warning_each(
    small_switch: None, caplog: pytest.LogCaptureFixture
) -> None:
    posterior = make_posterior(RBF(0.4), np.eye(3), noise=0.1, engine="auto", inducing_points=4)
    rng = np.random.default_rng(2)
    posterior.update(np.zeros(40, dtype=int), rng.uniform(size=(40, 1)), rng.normal(size=40))
    assert is_sparse(posterior) == [True, False, False]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_controller_switches_and_is_saved_loaded_and_replayed_across(small_switch: None, tmp_path: Path) -> None:
    whole, part = controller(inducing_points=12), controller(inducing_points=12)
    expected = play(whole, 20)
    assert play(part, 8) == expected[:24]
    part.save(tmp_path / "before")
    resumed = Controller.load(tmp_path / "before")
    for control in (part, resumed):
        rng = np.random.default_rng(9)
        for _ in range(30):
            decision = control.ask("b", {"load": float(rng.uniform())})
            control.tell(decision.id, float(rng.uniform()))
    assert beliefs_of(part) is not part.policy.posterior  # type: ignore[attr-defined]
    part.save(tmp_path / "after")
    loaded = Controller.load(tmp_path / "after")
    replayed = Controller.resume(part.setup, list(part.journal))
    asked = [control.ask("c", {"load": 0.3}) for control in (part, resumed, loaded, replayed)]
    assert all(same_decision(asked[0], one, spread=0.5) for one in asked)


def test_a_correction_after_the_switch_learns_the_corrected_log(small_switch: None) -> None:
    wrong, right = controller(inducing_points=12), controller(inducing_points=12)
    for control in (wrong, right):
        rng = np.random.default_rng(4)
        for step in range(45):
            decision = control.ask(STATIONS[step % 3], {"load": float(rng.uniform())}, allowed=[step % 4])
            reward = float(rng.uniform())
            control.tell(decision.id, 0.9 if step == 7 and control is wrong else reward)
            if step == 7:
                due, at = decision.id, reward
    wrong.correct(due, at)
    one, other = (control.ask("a", {"load": 0.6}) for control in (wrong, right))
    assert one.configuration == other.configuration
    assert (one.mean, one.std) == pytest.approx((other.mean, other.std), abs=1e-10)


def test_what_was_borrowed_is_told_from_an_exact_posterior_of_the_same_log(small_switch: None) -> None:
    control = controller(inducing_points=12)
    play(control, 15)
    beliefs = beliefs_of(control)
    assert len(beliefs) == 45
    lent = shares(beliefs, np.array([0]), control.observations()[0].x[None], K_Z=K_Z)
    assert lent.sum() == pytest.approx(1.0)
    with pytest.raises(BadInputError, match="keeps no rows"):
        shares(control.policy.posterior, np.array([0]), np.zeros((1, 2)), K_Z=K_Z)  # type: ignore[attr-defined]


def test_controllers_say_what_approximates_and_where_it_begins() -> None:
    assert f"exact up to {SWITCH_ROWS:,} rows" in controller().setup.notes["posterior"]
    assert controller(engine="sparse", inducing_points=99).setup.notes["posterior"] == "sparse, with 99 inducing points"
    assert "posterior" not in controller(engine="exact").setup.notes
