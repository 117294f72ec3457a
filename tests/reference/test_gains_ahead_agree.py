"""What the service puts on record as the gain of a change: against the textbook, and against a change plan."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband import ConfigurationSpace, Controller, Trace
from kinband.kernels import RBF
from kinband.planning import (
    Move,
    Period,
    Present,
    gains_ahead,
    latest,
    learn_network,
    periods_of,
    plan_changes,
    plan_network,
    planned_for,
    supports,
)
from kinband.planning.beliefs import SLOTS_BACK, STATES_AHEAD
from kinband.policies.safety import posterior_of
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

STATIONS, TILTS = ("a", "b", "c"), (2, 6)
REACH = 1.959964  # standard deviations of a normal to either side of 95 %
SCALES, VARIANCE, NOISE, MEAN = (0.7, 1.1), 0.4, 0.02, 0.5
K_Z = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, 0.5], [0.2, 0.5, 1.0]])


def made(seed: int, *, rows: int, engine: str = "exact") -> Controller:
    """A controller that starts from a log, with everything that is believed said beforehand."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"station": rng.choice(STATIONS, rows), "load": rng.random(rows)}
    columns["tilt"] = rng.choice(TILTS, rows)
    columns["reward"] = 0.5 + 0.2 * (columns["load"] - 0.4) * (columns["tilt"] - 4) + 0.1 * rng.normal(size=rows)
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    kernel, space = RBF(list(SCALES), variance=VARIANCE), ConfigurationSpace(tilt=TILTS)
    return Controller.from_trace(
        trace, space, similarity=K_Z, kernel=kernel, noise=NOISE, mean=MEAN, seed=seed, running={"tilt": 2},
        engine=engine, beta=3.0, safety=(),
    )  # fmt: skip


def slow_gain(controller: Controller, task: int, states: Any, arm: int, running: int) -> tuple[float, float]:
    """Mean and standard deviation of the mean difference over contexts of states (T, p), by the whole covariance."""
    told = controller.observations()
    noise = np.full(len(told), controller.current.noise)
    data = naive.Data(
        np.array([one.task for one in told]), np.array([one.x for one in told]),
        np.array([one.reward for one in told]), noise,
    )  # fmt: skip
    features, T = controller.space.features, len(states)
    X = np.vstack([np.append(state, features[one]) for one in (arm, running) for state in states])
    w = np.append(np.full(T, 1.0 / T), np.full(T, -1.0 / T))
    asked = (data, naive.ard_rbf(SCALES, VARIANCE), K_Z, np.full(2 * T, task), X)
    mean = w @ naive.posterior_mean(*asked, mean=controller.current.mean)
    return float(mean), float(np.sqrt(w @ naive.posterior_covariance(*asked) @ w))


def week_of(controller: Controller, task: int, now: float) -> Any:
    """The states of a station's last rows, scaled, thinned as the days to come are, with the present one last."""
    scaler = controller.setup.encoder.state
    own = [one.x[0] for one in controller.observations() if one.task == task][-SLOTS_BACK:]
    all_of_them = np.append(own, scaler.transform(np.array([[now]]))[0, 0])
    n = len(all_of_them)
    return all_of_them[[round(i * (n - 1) / (min(n, STATES_AHEAD) - 1)) for i in range(min(n, STATES_AHEAD))]][:, None]


@pytest.mark.parametrize(("seed", "rows"), [(0, 9), (1, 9), (2, 40)])
def test_the_gain_on_record_is_that_of_the_difference_over_the_stations_last_states(
    seed: int, rows: int, tmp_path: Path
) -> None:
    clock = [datetime(2026, 11, 20, tzinfo=UTC)]
    controller, rng = made(seed, rows=rows), np.random.default_rng(seed + 100)
    seen = 0
    with closing(Ledger.open(tmp_path / "ledger.db", clock=lambda: clock[0])) as ledger:
        operations = Operations.open(ledger, controller, mode="assist", clock=lambda: clock[0])
        for _ in range(2):
            clock[0] += timedelta(hours=1)
            loads = rng.random(3).tolist()
            expected = {
                task: slow_gain(operations.controller, task, week_of(operations.controller, task, load), 1, 0)
                for task, load in enumerate(loads)
            }
            records = operations.ask({name: {"load": load} for name, load in zip(STATIONS, loads, strict=True)})
            for task, record in enumerate(records):
                if record.changes:
                    assert record.gain is not None
                    (mean, std), seen = expected[task], seen + 1
                    assert record.gain == pytest.approx((mean, mean - REACH * std, mean + REACH * std), abs=1e-6)
            operations.tell({record.id: float(rng.random()) for record in records[:2]})
    assert seen


@pytest.mark.parametrize("engine", ["exact", "schur"])
@pytest.mark.parametrize("seed", range(4))
def test_the_gain_of_a_change_is_that_of_a_plan_for_the_same_states(seed: int, engine: str) -> None:
    controller = made(seed, rows=50, engine=engine)
    beliefs, seen = posterior_of(controller.policy), 0
    assert beliefs is not None
    for task, name in enumerate(STATIONS):
        contexts = controller.setup.encoder.contexts({"load": 0.3})
        (gain,) = gains_ahead(controller, beliefs, [Move(task, contexts, 1, 0)])
        scaler = controller.setup.encoder.state
        states = scaler.centre + week_of(controller, task, 0.3) * scaler.scale
        plan = plan_changes(controller, {name: Present({}, {"tilt": 2}, Period(states))})
        planned = [one.gain for one in plan.changes] + [one.gain for one in plan.left_alone]
        if planned == [None]:  # the plan has it that nothing is better
            assert gain.value <= 0.0
            continue
        seen += 1
        found = [gain.value, gain.low, gain.high]
        assert [found] == [pytest.approx([one.value, one.low, one.high], abs=1e-7) for one in planned if one]
    assert seen


@pytest.mark.parametrize("seed", range(3))
def test_support_is_how_often_the_rewards_known_had_it(seed: int) -> None:
    """Those of the log, and those told since; of others only where a station learns from them."""
    controller, rng = made(seed, rows=30), np.random.default_rng(seed)
    alone = Controller(
        controller.space,
        ["a", "b", "c"],
        similarity=np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        seed=seed,
    )
    for _ in range(12):
        for one in (controller, alone):
            station, tilt = rng.choice(STATIONS), int(rng.choice(TILTS))
            state = {"load": 0.4} if one is controller else {}
            one.tell(one.ask(station, state, allowed={"tilt": [tilt]}).id, 0.5)
    for one, kin in ((controller, [{1, 2}, {0, 2}, {0, 1}]), (alone, [{1}, {0}, set[int]()])):
        ran = [(o.task, o.arm) for o in one.observations()]
        for task in range(3):
            for arm in range(2):
                (found,) = supports(one, [Move(task, np.zeros((2, 1)), arm, 1 - arm)])
                others = [t for t, a in ran if a == arm and t in kin[task]]
                expected = (ran.count((task, arm)), len(others), len(set(others)))
                assert (found.own, found.others, found.stations) == expected


def test_a_service_that_starts_from_a_log_says_what_recommend_says_of_it() -> None:
    """Whose models are not the same: a plan knows days and hours. In the state of the moment it would not."""
    rng, best = np.random.default_rng(3), {"a": -103, "b": -102, "c": -93, "d": -92}
    hours = np.tile(np.arange(60), len(best))
    log: dict[str, Any] = {"station": np.repeat(list(best), 60), "load": rng.uniform(0, 1, 240).round(3)}
    log["time"] = np.datetime64("2026-11-18T00", "m") + hours * np.timedelta64(60, "m")
    log["threshold"] = rng.integers(-112, -83, 240)
    peak = np.repeat(list(best.values()), 60) + 8.0 * (log["load"] - 0.5)
    log["reward"] = 0.85 - ((log["threshold"] - peak) / 40) ** 2 + 0.02 * rng.normal(size=240)
    log["threshold"][59::60] = [-90, -92, -100, -98]  # what runs now
    log["load"][59::60] = 0.97
    trace = Trace.from_frame(log, {"configuration": ["threshold"]})
    plan = plan_network(learn_network(trace), planned_for(latest(trace), periods_of(trace)))
    controller = Controller.from_trace(trace, seed=0)
    beliefs, off = posterior_of(controller.policy), 0
    assert beliefs is not None
    assert len(plan.changes) >= 3
    for change in plan.changes:
        task, contexts = controller.setup.task(change.station), controller.setup.encoder.contexts({"load": 0.97})
        arm, running = (controller.space.index(one) for one in (change.proposed, change.present))
        (gain,) = gains_ahead(controller, beliefs, [Move(task, contexts, arm, running)])
        assert change.gain.low < gain.value < change.gain.high
        assert gain.low < change.gain.value < gain.high
        assert 0.5 < (gain.high - gain.low) / (change.gain.high - change.gain.low) < 2.0
        now = beliefs.predict([task] * 2, contexts[[arm, running]]).mean
        off += not change.gain.low < now[0] - now[1] < change.gain.high
    assert off


def test_what_is_unknown_of_both_alike_is_not_in_the_interval() -> None:
    """And over a week it is narrower than in the state of the moment."""
    controller = made(1, rows=60)
    beliefs = posterior_of(controller.policy)
    assert beliefs is not None
    contexts = controller.setup.encoder.contexts({"load": 0.95})
    (gain,) = gains_ahead(controller, beliefs, [Move(1, contexts, 1, 0)])
    both = beliefs.predict([1, 1], contexts[[1, 0]])
    C, independent = both.covariance(), float(np.hypot(*both.std))
    now = float(np.sqrt(C[0, 0] + C[1, 1] - 2.0 * C[0, 1]))
    assert gain.high - gain.value < REACH * now < REACH * independent


def test_a_sparse_posterior_sums_as_its_covariances_do() -> None:
    rng = np.random.default_rng(4)
    controller = made(4, rows=400, engine="sparse")
    beliefs = posterior_of(controller.policy)
    assert beliefs is not None
    X, W, tasks = rng.random((5, 8, 2)), rng.normal(size=(5, 8)), np.array([0, 1, 2, 1, 0])
    mean, std = beliefs.sums(tasks, X, W)
    for i, task in enumerate(tasks):
        found = beliefs.predict(np.full(8, task), X[i])
        assert mean[i] == pytest.approx(W[i] @ found.mean, abs=1e-9)
        assert std[i] ** 2 == pytest.approx(W[i] @ found.covariance() @ W[i], abs=1e-9)
