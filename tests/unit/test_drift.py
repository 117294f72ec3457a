"""Drift: the kernel that forgets, the clock, the test for change, and what a station starts from after one."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from kinband import ConfigurationSpace, Controller, Samples, Trace
from kinband.controller.events import ChangePoint
from kinband.diagnostics import audit
from kinband.drift import CLIP, PRIOR, SHIFTS, ChangeDetector, Drift, Reset, read_time, row_after_change, seconds
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.kernels import (
    RBF,
    Categorical,
    FixedTasks,
    Forgetting,
    Linear,
    Product,
    SklearnKernel,
    check_task_matrix,
    kernel_from_dict,
)
from kinband.kernels.serial import split_kernel
from kinband.likelihood import fit
from kinband.policies import Conservative, SwitchingCost

SPACE = ConfigurationSpace(knob=range(5))


def make(drift: Drift | None, **more: Any) -> Controller:
    given: dict[str, Any] = {
        "state": {"load": (0, 1)},
        "similarity": [[1.0, 0.7, 0.4], [0.7, 1.0, 0.5], [0.4, 0.5, 1.0]],
        "kernel": RBF(0.9, variance=0.05),
        "noise": 0.003,
        "mean": 0.4,
        "beta": 0.7,
        "drift": drift,
        "seed": 3,
    }
    return Controller(SPACE, ["a", "b", "c"], **(given | more))


def shake(controller: Controller, station: str = "a", *, rewards: list[float]) -> None:
    """Tell a station these rewards for one configuration in one state, whatever was expected of it."""
    for reward in rewards:
        controller.tell(controller.ask(station, {"load": 0.5}, allowed=[2]).id, reward)


# The kernel


@pytest.mark.parametrize(("half_life", "keep", "variance"), [(3.7, 0.0, 1.9), (0.2, 0.35, 0.6), (41.0, 0.8, 7.3)])
def test_forgetting_is_geometric_down_to_what_is_kept(half_life: float, keep: float, variance: float) -> None:
    kernel = Forgetting(half_life, keep=keep, variance=variance)
    t = np.array([0.0, 0.4, 1.7, 90.3])
    naive = [[variance * (keep + (1 - keep) * 0.5 ** (abs(s - u) / half_life)) for u in t] for s in t]
    np.testing.assert_allclose(kernel(t[:, None], t[:, None]), naive, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(t[:, None]), np.diag(naive), rtol=1e-12)


def test_with_nothing_kept_the_present_screens_off_the_past() -> None:
    K = Forgetting(2.3, variance=1.4)(np.array([[0.0], [1.1], [5.0]]), np.array([[0.0], [1.1], [5.0]]))
    assert np.linalg.inv(K)[0, 2] == pytest.approx(0.0, abs=1e-12)  # no partial correlation: a Markov process


@pytest.mark.parametrize("keep", [0.0, 0.4])
def test_the_gradient_to_the_half_life_equals_a_central_difference(keep: float) -> None:
    rng, kernel = np.random.default_rng(5), Forgetting(2.7, keep=keep, variance=1.3)
    t = rng.uniform(0, 9, (7, 1))
    t[3] = t[4]  # equal times, where the slope to the distance has no limit
    W = rng.normal(size=(7, 7))
    W = W + W.T
    numeric = []
    for step in 1e-6 * np.eye(2):
        up, down = (kernel.with_theta(kernel.theta + sign * step)(t, t) for sign in (1, -1))
        numeric.append(np.vdot(W, up - down) / 2e-6)
    np.testing.assert_allclose(kernel.vjp(t)[1](W), numeric, rtol=1e-6)


def test_a_kernel_that_forgets_can_be_stored_and_split() -> None:
    kernel = (RBF(0.5, columns=["load", "knob"]) * Forgetting(30.0, keep=0.2, columns=["clock"])).bind(
        ["load", "clock", "knob"]
    )
    assert kernel_from_dict(kernel.to_dict()) == kernel
    (split,) = split_kernel(kernel, columns=[2], width=3)
    assert any(isinstance(part, Forgetting) for part in split.rest)


@pytest.mark.parametrize("bad", [{"keep": 1.0}, {"keep": -0.1}, {"columns": [0, 1]}, {"length_scale": 0.0}])
def test_impossible_forgetting_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        Forgetting(**bad)


def test_a_half_life_is_found_by_likelihood() -> None:
    rng, n, true = np.random.default_rng(8), 220, 25.0
    t = np.sort(rng.uniform(0, 300, n))
    K = 2.0 * 0.5 ** (np.abs(t[:, None] - t) / true) + 0.05 * np.eye(n)
    y = np.linalg.cholesky(K) @ rng.standard_normal(n)
    log = Samples(("a",), np.zeros(n, dtype=np.int64), t[:, None], y, None, ("clock",))
    found = fit(log, Forgetting(100.0, variance=1.0), tasks=FixedTasks(np.eye(1)), rng=rng).kernel
    assert isinstance(found, Forgetting)
    # Twelve half-lives were seen: their logarithm is known to about ±0.5.
    assert abs(np.log(float(found.length_scale) / true)) < 1.5  # type: ignore[arg-type]


# What is declared


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"half_life": -1}, "half_life"),
        ({"half_life": "soon"}, "'learned'"),
        ({"half_life": True}, "half_life must be a number, .* got True"),
        ({"half_life": timedelta(0)}, "half_life"),
        ({"reset": False}, "neither forgets nor resets"),
        ({"reset": 5}, r"Reset\(...\)"),
        ({"clock": "numbers"}, "for forgetting"),
        ({"half_life": 3, "clock": "hours"}, "decisions, numbers, dates"),
        ({"half_life": timedelta(days=1), "clock": "numbers"}, "clock of dates"),
        ({"half_life": 3, "keep": 1.0}, "never fades"),
        ({"half_life": "learned", "clock": "decisions"}, "times of a log"),
    ],
)
def test_a_drift_that_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Drift(**given)


@pytest.mark.parametrize("given", [{"run_length": 1}, {"kept": -0.2}, {"kept": 1.0}, {"run_length": float("nan")}])
def test_a_reset_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        Reset(**given)


@pytest.mark.parametrize("policy", ["pooled", "random", "linucb"])
def test_resets_need_predictions_of_every_station(policy: str) -> None:
    with pytest.raises(BadInputError, match="resets judge every station"):
        make(Drift(), policy=policy)
    make(Drift(50, reset=False), policy=policy)


def test_something_else_than_a_drift_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"drift takes Drift\(...\)"):
        make("fast")  # type: ignore[arg-type]


# The clock


def test_old_rewards_count_less_and_late_ones_at_the_time_of_their_decision() -> None:
    controller = make(Drift(10, reset=False, clock="numbers"), similarity="independent")
    late = controller.ask("a", {"load": 0.5}, allowed=[2], time=0)
    before = controller.ask("a", {"load": 0.5}, allowed=[2], time=10)
    controller.tell(late.id, 0.9)
    after = controller.ask("a", {"load": 0.5}, allowed=[2], time=10)
    assert before.mean == pytest.approx(0.4)
    assert after.mean == pytest.approx(0.4 + 0.5 * 0.05 / 0.053 * 0.5)  # half of it, one half-life later


def test_the_clock_counts_decisions_unless_it_is_set() -> None:
    controller = make(Drift(10, reset=False))
    made = [controller.ask("a", {"load": 0.2}).id]
    made += [d.id for d in controller.ask_all({"a": {"load": 0.1}, "b": {"load": 0.3}}).values()]
    made.append(controller.ask("c", {"load": 0.2}).id)
    assert [controller.journal.find(key).x[1] for key in made] == [0.0, 1.0, 1.0, 3.0]


def ask_at(controller: Controller, way: str, time: float) -> None:
    if way == "ask":
        controller.ask("a", {"load": 0.4}, time=time)
    else:
        controller.ask_all({"a": {"load": 0.4}}, time=time)


@pytest.mark.parametrize("way", ["ask", "ask_all"])
def test_a_clock_that_jumps_back_is_refused_and_nothing_is_lost(way: str) -> None:
    controller, twin = (make(Drift(10, clock="numbers")) for _ in range(2))
    for each in (controller, twin):
        each.tell(each.ask("a", {"load": 0.4}, time=7.5).id, 0.6)
        each.ask("b", {"load": 0.4}, time=8)
    with pytest.raises(BadInputError, match=r"jumped back: time 7\.9 lies before 8 of the last decision; nothing was"):
        ask_at(controller, way, 7.9)
    assert len(controller.journal) == len(twin.journal)
    for each in (controller, twin):
        each.tell("d000002", 0.3)
    assert controller.ask("a", {"load": 0.1}, time=8) == twin.ask("a", {"load": 0.1}, time=8)


def test_dates_are_told_in_words_and_zones_are_understood() -> None:
    controller = make(Drift(timedelta(days=7)))
    controller.ask("a", {"load": 0.4}, time=datetime(2024, 5, 1, 14, tzinfo=UTC))
    controller.ask("a", {"load": 0.4}, time="2024-05-01T16:30+02:00")
    with pytest.raises(BadInputError, match="time 2024-05-01 12:00:00 lies before 2024-05-01 14:30:00"):
        controller.ask("a", {"load": 0.4}, time=np.datetime64("2024-05-01T12:00"))
    assert read_time("2024-05-02", "dates") - read_time("2024-05-01", "dates") == 86_400


@pytest.mark.parametrize("way", ["ask", "ask_all"])
def test_a_clock_that_leaps_ahead_is_refused_and_goes_on_from_where_it_was(way: str) -> None:
    controller = make(Drift(0.5, clock="numbers"))
    ask_at(controller, way, 1_770_000_000.0)  # nothing came before the first time, so that any will do
    made = len(controller.journal)
    said = "jumped ahead by 60 half-lives, from 1770000000 of the last decision to 1770000030: nothing that fades would"
    with pytest.raises(BadInputError, match=said):
        ask_at(controller, way, 1_770_000_030.0)
    with pytest.raises(BadInputError, match=r"time 1769999999\.75 lies before 1770000000 of the last decision"):
        ask_at(controller, way, 1_769_999_999.75)
    assert len(controller.journal) == made
    ask_at(controller, way, 1_770_000_025.0)  # 50 half-lives, no more


def test_a_clock_may_not_leap_ahead_of_the_log_either() -> None:
    trace = Trace.from_frame(a_log(np.random.default_rng(0), 40, time=np.arange(40)), {"configuration": ["knob"]})
    controller = Controller.from_trace(trace, SPACE, similarity="pooled", drift=Drift(2, reset=False, clock="numbers"))
    with pytest.raises(BadInputError, match="jumped ahead by 51 half-lives, from 39 of the log to 141"):
        controller.ask("a", {"load": 0.3}, time=141)
    controller.ask("a", {"load": 0.3}, time=139)


def test_a_clock_of_decisions_never_leaps() -> None:
    controller = make(Drift(0.01, reset=False))
    for _ in range(3):
        controller.ask("a", {"load": 0.4})
    assert len(controller.journal) == 3


def test_the_last_date_there_is_gets_a_sentence() -> None:
    controller = make(Drift(timedelta(days=7)))
    controller.ask("a", {"load": 0.4}, time=datetime(2024, 5, 1))
    with pytest.raises(BadInputError, match="from 2024-05-01 00:00:00 of the last decision to 10000-01-01 00:00:00"):
        controller.ask("a", {"load": 0.4}, time=datetime.max)
    with pytest.raises(BadInputError, match="outside the years 1 to 9999"):
        controller.ask("a", {"load": 0.4}, time=datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))))


@pytest.mark.parametrize("time", [None, "noon", 17, float("nan")])
def test_a_time_that_is_no_date_is_refused(time: Any) -> None:
    with pytest.raises(BadInputError, match="time"):
        make(Drift(timedelta(days=7))).ask("a", {"load": 0.4}, time=time)


@pytest.mark.parametrize("drift", [None, Drift(), Drift(10)])
def test_a_time_is_refused_where_there_is_no_clock_to_set(drift: Drift | None) -> None:
    with pytest.raises(BadInputError, match="no clock that can be set"):
        make(drift).ask("a", {"load": 0.4}, time=3)


def test_a_state_is_complained_of_without_the_clock() -> None:
    controller = make(Drift(10))
    with pytest.raises(BadInputError, match=r"lacks 'load': give exactly 'load'$"):
        controller.ask("a", {})
    with pytest.raises(BadInputError, match=r"has unknown 'clock': give exactly 'load'$"):
        controller.ask("a", {"load": 0.1, "clock": 3})
    with pytest.raises(BadInputError, match=r"needs its state: load$"):
        controller.ask("a")


def test_context_rows_get_the_clock_behind_them() -> None:
    controller = make(Drift(10, clock="numbers"), state=(), features=["u", "v"], kernel=RBF([0.3, 0.7]))
    rows = np.random.default_rng(1).random((5, 2))
    decision = controller.ask("a", contexts=rows, time=4.5)
    assert controller.journal.find(decision.id).x.tolist() == [*rows[decision.arm].tolist(), 4.5]
    with pytest.raises(BadInputError, match="context has 3 features, declared were 2: u, v"):
        controller.ask("a", contexts=np.ones((5, 3)), time=5)


@pytest.mark.parametrize("where", ["state", "features"])
def test_the_name_of_the_clock_is_taken(where: str) -> None:
    with pytest.raises(BadInputError, match="'clock'"):
        make(Drift(10), **({"state": ["clock"]} if where == "state" else {"state": (), "features": ["clock"]}))


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.6) + Linear(0.4, columns=["knob"]),
        Categorical(0.7, columns=["knob"]) * RBF(0.3, columns=["load"]),
        SklearnKernel(__import__("sklearn.gaussian_process.kernels", fromlist=["RBF"]).RBF(0.4)),
    ],
)
def test_a_given_kernel_never_looks_at_the_clock(kernel: Any) -> None:
    forgets = make(Drift(5.0, clock="numbers"), kernel=kernel).setup.kernel
    plain = make(None, kernel=kernel).setup.kernel
    X = np.random.default_rng(2).random((4, 2))
    t = np.array([0.0, 1.0, 4.0, 9.0])
    timed = np.column_stack([X[:, 0], t, X[:, 1]])
    naive = plain(X, X) * 0.5 ** (np.abs(t[:, None] - t) / 5.0)
    np.testing.assert_allclose(forgets(timed, timed), naive, rtol=1e-12)


def a_log(rng: np.random.Generator, rows: int, **more: Any) -> dict[str, Any]:
    load, knob = rng.random(rows), rng.integers(0, 5, rows)
    return {"station": np.resize(["a", "b"], rows), "load": load, "knob": knob, "reward": rng.random(rows), **more}


def test_a_learned_half_life_is_short_where_the_log_drifts_and_long_where_it_does_not() -> None:
    rng, rows = np.random.default_rng(4), 160
    days = np.arange(rows) / 4.0
    time = np.datetime64("2024-05-01") + (days * 86_400).astype("timedelta64[s]")
    found = []
    for turns in (0.0, 2.0):
        log = a_log(rng, rows, time=time)
        best = 2.0 + 2.0 * np.sin(turns * 2 * np.pi * days / days[-1])
        log["reward"] = 0.9 - 0.05 * (log["knob"] - best) ** 2 + 0.02 * rng.normal(size=rows)
        trace = Trace.from_frame(log, {"configuration": ["knob"]})
        drift = Drift("learned")
        settings = Controller.from_trace(trace, SPACE, similarity="pooled", drift=drift).setup
        assert settings.config.drift is not None
        assert settings.config.drift.clock == "dates"
        found.append(float(settings.config.drift.half_life) / 86_400)  # type: ignore[arg-type]
    assert found[0] > 10 * days[-1]
    assert found[1] < 2 * days[-1]


def test_the_clock_of_a_log_goes_on_where_the_log_ends() -> None:
    trace = Trace.from_frame(a_log(np.random.default_rng(0), 40, time=np.arange(40)), {"configuration": ["knob"]})
    drift = Drift(20, clock="numbers", reset=False)
    controller = Controller.from_trace(trace, SPACE, similarity="pooled", noise=0.1, kernel=RBF(0.5), drift=drift)
    start = controller.setup.start
    assert start is not None
    assert start.X[:, 1].tolist() == list(range(40))
    with pytest.raises(BadInputError, match="time 38 lies before 39 of the log"):
        controller.ask("a", {"load": 0.3}, time=38)
    controller.ask("a", {"load": 0.3}, time=39)
    with pytest.raises(BadInputError, match="the clock counts dates, the times of the trace are numbers"):
        Controller.from_trace(trace, SPACE, similarity="pooled", drift=Drift(timedelta(days=1)))


def test_what_a_log_cannot_give_is_asked_for() -> None:
    timeless = Trace.from_frame(a_log(np.random.default_rng(0), 40), {"configuration": ["knob"]})
    with pytest.raises(BadInputError, match="no times to forget by"):
        Controller.from_trace(timeless, SPACE, similarity="pooled", drift=Drift("learned"))
    with pytest.raises(BadInputError, match="takes a log with times"):
        make(Drift("learned"))
    with pytest.raises(BadInputError, match="leave kernel= out"):
        Controller.from_trace(timeless, SPACE, similarity="pooled", kernel=RBF(), drift=Drift("learned"))
    log = Samples(("a", "b", "c"), np.array([0, 2]), np.ones((2, 2)), np.ones(2), None, ("load", "knob"))
    kept = make(Drift(9), log=log).setup.start
    assert kept is not None
    assert kept.X[:, 1].tolist() == [0.0, 0.0]
    with pytest.raises(BadInputError, match="the log has no times"):
        make(Drift(9, clock="numbers"), log=log)


def test_seconds_of_dates_and_numbers() -> None:
    assert seconds(np.array(["1970-01-01T00:00:01.5"], dtype="datetime64[ms]")).tolist() == [1.5]
    assert seconds(np.array([3, 4])).tolist() == [3.0, 4.0]


# The test for change


def naive_evidence(zs: list[float]) -> float:
    """The definition: over all shifts and all moments of change, the likelihood ratio of the residuals since."""
    cut: list[float] = []  # residuals as far as they count
    scaled: list[float] = []  # the same in standard deviations of the station's own
    for z in zs:
        spread = max(1.0, float(np.sqrt(np.mean([1.0] * int(PRIOR) + [c * c for c in cut]))))
        scaled.append(float(np.clip(z / spread, -CLIP, CLIP)))
        cut.append(scaled[-1] * spread)
    ratios = [
        np.prod(stats.norm.pdf(scaled[start:], loc=shift) / stats.norm.pdf(scaled[start:]))
        for shift in SHIFTS
        for start in range(len(scaled))
    ]
    return float(np.sum(ratios)) / len(SHIFTS)


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.6])
def test_the_recursion_sums_likelihood_ratios_over_all_moments_of_change(scale: float) -> None:
    zs = (scale * np.random.default_rng(7).standard_normal(12)).tolist()
    evidence = ChangeDetector()
    for n, z in enumerate(zs, start=1):
        evidence.add(z)
        assert evidence.value == pytest.approx(naive_evidence(zs[:n]), rel=1e-9)


def test_one_odd_reward_is_no_change() -> None:
    evidence = ChangeDetector()
    for _ in range(30):
        evidence.add(0.1)
    evidence.add(-50.0)
    assert evidence.value < Reset().run_length


def test_a_station_that_scatters_more_than_predicted_is_judged_by_its_own_spread() -> None:
    rng, steady, wild = np.random.default_rng(11), ChangeDetector(), ChangeDetector()
    for z in rng.standard_normal(60):
        steady.add(z)
        wild.add(2.5 * z)
    for each in (steady, wild):
        each.add(-4.0)
        each.add(-4.0)
    assert wild.value < 0.05 * steady.value


# What a station starts from after a change


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_rows_after_changes_are_those_of_a_product_of_eras_and_stations(kept: float) -> None:
    rng = np.random.default_rng(3)
    A = rng.normal(size=(4, 6))
    K = A @ A.T
    lives, full = [(m, 0) for m in range(4)], K
    former: dict[int, int] = {}
    for station in [2, 0, 2, 2, 1, 0]:
        task = max(t for t, (m, _) in enumerate(lives) if m == station)
        row = row_after_change(full, task, former=former, kept=kept)
        former[len(full)] = task
        lives.append((station, lives[task][1] + 1))
        full = np.block([[full, row[:-1, None]], [row[None, :-1], row[-1:, None]]])
    naive = np.array([[K[i, j] * (1.0 if e == f else kept) for j, f in lives] for i, e in lives])
    np.testing.assert_allclose(full, naive, rtol=1e-12)
    check_task_matrix(full)


def test_a_station_that_changes_starts_anew_and_its_past_keeps_a_name() -> None:
    controller = make(Drift(reset=Reset(500, kept=0.25)))
    shake(controller, rewards=[0.6] * 15)
    assert not controller.journal.moved
    shake(controller, rewards=[0.1] * 5)
    renewed = [entry for entry in controller.journal if isinstance(entry, ChangePoint)]
    assert len(renewed) == 1
    assert list(controller.current.stations) == [renewed[0].past, "b", "c", "a"]
    assert list(controller.stations) == ["a", "b", "c"]
    np.testing.assert_allclose(controller.current.K_Z[3], [0.25, 0.25 * 0.7, 0.25 * 0.4, 1.0])
    np.testing.assert_allclose(controller.similarity.between("a", "b"), 0.25 * 0.7)
    assert renewed[0].evidence >= 500
    assert renewed[0].id == "d000017"  # two rewards after the change


def test_what_is_known_of_others_does_not_move_by_a_reset() -> None:
    controller, twin = make(Drift(reset=Reset(500))), make(None)
    for each in (controller, twin):
        shake(each, "b", rewards=[0.5] * 3)
        shake(each, rewards=[0.6] * 15 + [0.1, 0.1])
    assert "a until d000020" in controller.current.stations
    ours, theirs = (each.ask("b", {"load": 0.3}) for each in (controller, twin))
    assert (ours.arm, ours.mean, ours.std) == (theirs.arm, theirs.mean, theirs.std)
    fresh = controller.ask("a", {"load": 0.5}, allowed=[2])
    assert fresh.mean == 0.4
    assert fresh.std == pytest.approx(np.sqrt(0.05))


def test_late_rewards_of_the_past_life_reset_nothing() -> None:
    controller = make(Drift(reset=Reset(500)))
    shake(controller, rewards=[0.6] * 15)
    pending = [controller.ask("a", {"load": 0.5}, allowed=[2]).id for _ in range(6)]
    for key in pending:
        controller.tell(key, 0.1)
    assert sum(isinstance(entry, ChangePoint) for entry in controller.journal) == 1
    assert {controller.journal.find(key).task for key in pending} == {0}


def test_a_station_that_has_left_is_not_reset_and_one_that_was_can_leave_and_return() -> None:
    controller = make(Drift(reset=Reset(500)))
    shake(controller, rewards=[0.6] * 15)
    pending = [controller.ask("a", {"load": 0.5}, allowed=[2]).id for _ in range(4)]
    controller.remove_station("a")
    for key in pending:
        controller.tell(key, 0.1)
    assert not any(isinstance(entry, ChangePoint) for entry in controller.journal)
    controller.add_station("a")
    shake(controller, rewards=[0.1])  # the evidence is still there
    assert controller.current.task("a") == 3
    controller.remove_station("a")
    assert list(controller.stations) == ["b", "c"]
    controller.add_station("a")
    assert list(controller.stations) == ["a", "b", "c"]
    controller.add_station("d", similarity={"a": 0.5})
    assert controller.current.task("d") == 4


def test_a_jump_of_the_whole_network_leaves_it_sharing_as_before() -> None:
    controller = make(Drift(reset=Reset(500)))
    states, allowed = {s: {"load": 0.5} for s in "abc"}, {s: [2] for s in "abc"}
    for reward in [0.6] * 15 + [0.1] * 4:
        for decision in controller.ask_all(states, allowed=allowed).values():
            controller.tell(decision.id, reward)
    assert len(controller.current.stations) == 6
    before, after = make(None).similarity, controller.similarity
    np.testing.assert_allclose(after.matrix, before.matrix)


def test_a_reset_station_goes_on_from_what_it_runs() -> None:
    controller = make(Drift(reset=Reset(500)), safety=SwitchingCost(5.0), running={"knob": 4})
    shake(controller, rewards=[0.6] * 15 + [0.1, 0.1])
    assert len(controller.current.stations) == 4
    assert controller.ask("a", {"load": 0.5}).arm == 2  # a change would cost more than anything can gain


def test_a_budget_is_no_larger_after_a_reset() -> None:
    controller = make(Drift(reset=Reset(500)), safety=Conservative(0.3, per_station=True), running={"knob": 2})
    shake(controller, rewards=[0.6] * 15 + [0.1, 0.1])
    policy: Any = controller.policy
    assert policy.budget.settled[0] > 0
    assert policy.budget.settled[3] == 0


def test_decisions_on_both_sides_of_a_reset_can_be_explained_and_audited() -> None:
    controller = make(Drift(400, reset=Reset(500, kept=0.3)))
    shake(controller, rewards=[0.6] * 15 + [0.1] * 4)
    past = next(entry.past for entry in controller.journal if isinstance(entry, ChangePoint))
    first, last = controller.explain("d000009").evidence, controller.explain("d000019").evidence
    assert first is not None
    assert last is not None
    assert first.station == last.station == "a"
    assert past in last.lenders
    assert {past, "a"} <= set(audit(controller).stations)


def test_a_state_with_drift_reads_back(tmp_path: Path) -> None:
    controller = make(Drift(timedelta(days=3), keep=0.1, reset=Reset(700, kept=0.2)))
    controller.ask("a", {"load": 0.5}, time="2024-05-01")
    controller.save(tmp_path / "state")
    loaded = Controller.load(tmp_path / "state")
    assert loaded.setup.config.drift == controller.setup.config.drift
    assert isinstance(loaded.setup.kernel, Product)
    with pytest.raises(BadInputError, match="jumped back"):
        loaded.ask("a", {"load": 0.5}, time="2024-04-30")


def test_the_past_of_a_station_cannot_be_asked_for() -> None:
    space = ConfigurationSpace(tilt=[2, 4])
    controller = Controller(space, ["a"], noise=0.01, mean=0.5, reward_range=(0, 1), drift=Drift())
    for reward in [0.5] * 20 + [0.1] * 6:
        controller.tell(controller.ask("a", allowed=[0]).id, reward)
    past = controller.current.stations[0]
    assert past.startswith("a until")
    for refuse in (controller.ask, controller.remove_station):
        with pytest.raises(NotFoundError, match="unknown station"):
            refuse(past)


# Names


def test_a_name_like_that_of_a_past_is_refused_where_stations_are_reset() -> None:
    names, similarity = ["a", "b", "c until d000016"], np.eye(3)
    with pytest.raises(BadInputError, match="'c until d000016' is named as the past of a station that was reset"):
        Controller(SPACE, names, similarity=similarity, drift=Drift())
    for drift in (None, Drift(20, reset=False)):
        assert Controller(SPACE, names, similarity=similarity, drift=drift).stations == tuple(names)
    controller = make(Drift())
    with pytest.raises(BadInputError, match="'a until d1234567' is named as the past"):
        controller.add_station("a until d1234567")
    controller.add_station("a until tomorrow")


def test_a_newcomer_cannot_take_the_name_of_a_past() -> None:
    controller = make(Drift(), similarity="independent")
    shake(controller, rewards=[0.4] * 12 + [0.9] * 8)
    [past] = [entry.past for entry in controller.journal if isinstance(entry, ChangePoint)][:1]
    with pytest.raises(ConflictError, match=r"there is a station 'a until d0000.*' already"):
        controller.add_station(past)


def test_one_odd_reward_raises_no_alarm_from_the_run_length_on_that_the_page_names() -> None:
    # After residuals of 0, R = (R + 1)·exp(−λ²/2) stands still at 1/(exp(λ²/2) − 1).
    still = 1.0 / np.expm1(SHIFTS**2 / 2.0)
    largest = float(np.mean((still + 1.0) * np.exp(SHIFTS * CLIP - SHIFTS**2 / 2.0)))
    page = (Path(__file__).parents[2] / "docs" / "learning.md").read_text(encoding="utf-8")
    assert f"with a `run_length` of {np.ceil(largest):.0f} or more" in " ".join(page.split())
    for run_length, resets in ((np.floor(largest), 1), (np.ceil(largest), 0)):
        controller = make(Drift(reset=Reset(run_length)), similarity="independent")
        shake(controller, rewards=[0.4] * 40 + [90.0])
        assert sum(isinstance(entry, ChangePoint) for entry in controller.journal) == resets
