"""Change plans: gains by hand, borrowing against a naive computation, reasons, files and refusals."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.contexts import ContextEncoder, StateScaler
from kinband.errors import BadInputError, KinbandError, NotFoundError
from kinband.kernels import RBF
from kinband.planning import (
    ChangePlan,
    Present,
    beliefs_of,
    contributions,
    latest,
    learn_network,
    periods_of,
    plan_changes,
    plan_network,
    planned_for,
    present_of,
    read_present,
    safe_text,
    shares,
    silent_since,
)
from kinband.planning.coverage import SettingCoverage, StateCoverage
from kinband.planning.evidence import EvidenceRows
from kinband.posterior import make_posterior
from kinband.records import Samples
from kinband.similarity import TaskMatrix

SPACE = ConfigurationSpace(threshold_dbm=range(-100, -92))
K_Z = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.2], [0.1, 0.2, 1.0]])
GROUPS = np.array([[1.0, 0.0, 0.7], [0.0, 1.3, 0.0], [0.7, 0.0, 0.9]])  # stations a and c, and b alone


def taught(seed: int = 3, *, rows: int = 150, K_Z: np.ndarray[Any, Any] = K_Z, **changes: Any) -> Controller:
    """A controller that knows rewards peaking at -96 dBm, of stations a, b and c with loads from 0 to 1."""
    rng = np.random.default_rng(seed)
    tasks, arms = rng.integers(0, 3, rows), rng.integers(0, len(SPACE), rows)
    scaler = StateScaler.from_ranges({"load": (0.0, 1.0), "users": (0.0, 50.0)})
    states = np.column_stack([rng.uniform(0, 1, rows), rng.uniform(0, 50, rows)])
    X = np.hstack([scaler.transform(states), SPACE.features[arms]])
    y = 0.8 - 0.02 * (np.arange(-100, -92)[arms] + 96) ** 2 + 0.02 * rng.standard_normal(rows)
    log = Samples(("a", "b", "c"), tasks, X, y, None, ("load", "users", "threshold_dbm"))
    settings: dict[str, Any] = {
        "state": scaler, "similarity": K_Z, "kernel": RBF([5.7, 7.3, 1.2], variance=0.2), "noise": 0.0007, "mean": 0.6,
        "beta": 1.7, "log": log, "seed": 5,
    }  # fmt: skip
    return Controller(SPACE, ["a", "b", "c"], **(settings | changes))


def now(threshold: Any = -100, *, load: float = 0.4, users: float = 20.0) -> Present:
    return Present({"load": load, "users": users}, {"threshold_dbm": threshold})


def everyone(threshold: Any = -100) -> dict[str, Present]:
    return {station: now(threshold) for station in "abc"}


# --- Gains --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_gain_and_interval_of_two_configurations_are_those_found_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, scale, s, mean = rng.uniform(0.1, 2), rng.uniform(0.5, 2), rng.uniform(0.01, 0.1), rng.uniform(0.2, 0.9)
    y0, y1 = 0.1, 3.0
    space = ConfigurationSpace(tilt=[2, 6])  # standardised features -1 and 1
    log = Samples(("a",), np.array([0, 0]), np.array([[-1.0], [1.0]]), np.array([y0, y1]), None, ("tilt",))
    controller = Controller(space, ["a"], kernel=RBF(scale, variance=v), noise=s, mean=mean, log=log)
    (change,) = plan_changes(controller, {"a": Present({}, {"tilt": 2})}, explore=True).changes
    # By symmetry sum and difference of f are independent a priori; d = f(6) − f(2) has prior variance 2(v − c).
    c = v * np.exp(-2 / scale**2)
    d = (y1 - y0) * (v - c) / (v - c + s)
    sd = np.sqrt(2 * (v - c) * s / (v - c + s))
    assert change.gain.value == pytest.approx(d)
    assert [change.gain.low, change.gain.high] == pytest.approx([d - 1.96 * sd, d + 1.96 * sd], rel=1e-4)
    assert change.expected - change.expected_unchanged == pytest.approx(change.gain.value)


def test_intervals_of_chosen_changes_hold_the_true_gain_as_often_as_they_say() -> None:
    # The reward function is drawn from the prior, so the posterior is right and choosing by it costs no coverage.
    rng = np.random.default_rng(11)
    space = ConfigurationSpace(tilt=range(6))
    kernel, noise, alike = RBF(0.6, variance=0.3), 0.05, np.array([[1.0, 0.7], [0.7, 1.0]])
    tasks, arms = np.repeat([0, 1], 6), np.tile(np.arange(6), 2)
    K = alike[np.ix_(tasks, tasks)] * kernel(space.features[arms], space.features[arms])
    root = np.linalg.cholesky(K + 1e-10 * np.eye(12))
    held: list[bool] = []
    for _ in range(300):
        f = root @ rng.standard_normal(12)
        rows = rng.integers(0, 12, 8)
        y = f[rows] + np.sqrt(noise) * rng.standard_normal(8)
        log = Samples(("a", "b"), tasks[rows], space.features[arms[rows]], y, None, ("tilt",))
        controller = Controller(space, ["a", "b"], similarity=alike, kernel=kernel, noise=noise, log=log)
        plan = plan_changes(controller, {"a": Present({}, {"tilt": 0})}, explore=True, beta=0.0)
        held += [bool(c.gain.low <= f[c.proposed["tilt"]] - f[0] <= c.gain.high) for c in plan.changes]
    standard_error = np.sqrt(0.95 * 0.05 / len(held))
    assert len(held) > 100
    assert abs(np.mean(held) - 0.95) < 3 * standard_error


def test_playing_safe_proposes_what_a_controller_without_exploration_would_ask_for() -> None:
    controller, greedy = taught(), taught(beta=0.0)
    plan = plan_changes(controller, everyone())
    asked = {s: greedy.ask(s, {"load": 0.4, "users": 20.0}).configuration for s in "abc"}
    assert {change.station: change.proposed for change in plan.changes} == asked


@pytest.mark.parametrize("beta", [None, 3.1])
def test_exploring_proposes_what_ucb_would_ask_for(beta: float | None) -> None:
    controller, bold = taught(rows=12), taught(rows=12, beta=1.7 if beta is None else beta)
    plan = plan_changes(controller, everyone(), explore=True, beta=beta)
    asked = {s: bold.ask(s, {"load": 0.4, "users": 20.0}).configuration for s in "abc"}
    kept = {left.station: left.present for left in plan.left_alone if left.why == "best already"}
    assert kept | {change.station: change.proposed for change in plan.changes} == asked
    assert plan.changes


def test_planning_leaves_the_controller_as_it_was() -> None:
    controller = taught()
    plan_changes(controller, everyone(), explore=True)
    assert (len(controller.journal), controller.pending, len(controller)) == (0, [], 0)


def test_what_was_told_since_the_log_counts() -> None:
    controller = taught(rows=3)
    while (decision := controller.ask("b", {"load": 0.4, "users": 20.0})) and len(controller) < 12:
        controller.tell(decision.id, 0.95 if decision.configuration == {"threshold_dbm": -94} else 0.1)
    (change,) = plan_changes(controller, {"b": now()}).changes
    assert change.proposed == {"threshold_dbm": -94}
    assert change.own_rows >= 12


def test_the_plan_follows_the_model_whatever_the_policy() -> None:
    by_ucb, by_chance = (plan_changes(taught(policy=policy), everyone()) for policy in ("ucb", "random"))
    for one, two in zip(by_ucb.changes, by_chance.changes, strict=True):
        assert (one.station, one.proposed) == (two.station, two.proposed)
        assert one.gain.value == pytest.approx(two.gain.value, abs=1e-10)


# --- Borrowing ----------------------------------------------------------------------------------------------


def naive_shares(tasks: list[int], X: Any, y: Any, *, K_Z: Any, noise: Any, task: int, x: Any, k: Any) -> list[float]:
    """Shares of |weight| by station, from the textbook: (K̃ + D)⁻¹ k̃ with an explicit inverse, entry by entry."""
    n = len(tasks)
    A = np.array([[K_Z[tasks[i]][tasks[j]] * k(X[i], X[j]) for j in range(n)] for i in range(n)])
    a = np.linalg.inv(A + np.diag(noise)) @ np.array([K_Z[tasks[i]][task] * k(X[i], x) for i in range(n)])
    weight = [sum(abs(a[i]) for i in range(n) if tasks[i] == m) for m in range(len(K_Z))]
    return [w / sum(weight) for w in weight]


@pytest.mark.parametrize("matrix", [K_Z, GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("engine", ["exact", "schur"])
def test_shares_agree_with_a_naive_computation(matrix: np.ndarray[Any, Any], engine: str) -> None:
    rng = np.random.default_rng(8)
    scale, variance, n = rng.uniform(0.4, 1.5, 2), rng.uniform(0.1, 3), 25
    tasks, X, y = rng.integers(0, 3, n), rng.normal(size=(n, 2)), rng.normal(size=n)
    noise = rng.uniform(0.05, 0.4, n)
    posterior = make_posterior(RBF(scale, variance=variance), matrix, noise=0.1, engine=engine)
    posterior.update(tasks, X, y, noise=noise)

    def k(x: Any, z: Any) -> float:
        return float(variance * np.exp(-0.5 * sum(((x[c] - z[c]) / scale[c]) ** 2 for c in range(2))))

    contexts = rng.normal(size=(3, 2))
    found = shares(posterior, np.array([2, 0, 1]), contexts, K_Z=matrix)
    for row, task, x in zip(found, (2, 0, 1), contexts, strict=True):
        expected = naive_shares(tasks.tolist(), X, y, K_Z=matrix, noise=noise, task=task, x=x, k=k)
        assert row == pytest.approx(expected, abs=1e-9)
        names = TaskMatrix(("a", "b", "c"), matrix, "given")
        by_name = contributions(posterior, task, x=x, similarity=names)
        assert by_name == pytest.approx({"abc"[m]: share for m, share in enumerate(expected) if share > 0})
        assert list(by_name.values()) == sorted(by_name.values(), reverse=True)


def test_shares_are_those_of_what_each_reward_moves_the_estimate_by() -> None:
    controller = taught(rows=20)
    posterior, X = beliefs_of(controller), controller.setup.encoder.contexts({"load": 0.3, "users": 9.0})
    before = posterior.predict([1], X[2:3]).mean[0]
    moved = np.zeros(3)
    start = controller.setup.start
    assert start is not None
    for row, (task, y) in enumerate(zip(start.tasks, start.y, strict=True)):
        posterior.correct(row, float(y) + 1.0)
        moved[task] += abs(posterior.predict([1], X[2:3]).mean[0] - before)
        posterior.correct(row, float(y))
    found = shares(posterior, np.array([1]), X[2:3], K_Z=controller.setup.K_Z)[0]
    assert found == pytest.approx(moved / moved.sum(), abs=1e-8)


def test_width_alone_is_that_of_a_controller_of_this_station_only() -> None:
    together, alone = (plan_changes(taught(K_Z=matrix), everyone()) for matrix in (K_Z, np.eye(3)))
    stds = {change.station: change.std for change in alone.changes}
    assert len(together.changes) == 3
    for change in together.changes:
        assert change.std_alone == pytest.approx(stds[change.station])


def test_stations_that_share_nothing_borrow_nothing() -> None:
    for change in plan_changes(taught(K_Z=np.eye(3)), everyone()).changes:
        assert (change.borrowed, change.lenders) == (0.0, ())
        assert change.std == pytest.approx(change.std_alone)
        assert f"its own {change.own_rows} rows" in change.reason


def test_a_station_without_rows_borrows_everything_and_says_so() -> None:
    start = taught().setup.start
    assert start is not None
    controller = taught(log=start.take(start.tasks != 1))
    change = next(c for c in plan_changes(controller, everyone(), explore=True).changes if c.station == "b")
    assert change.own_rows == 0
    assert change.borrowed == pytest.approx(1.0)
    assert change.lenders[0][0] == "a"
    assert "no rows of its own" in change.reason


# --- Who is left alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("station", "present", "why", "words"),
    [
        ("z", now(), "not in the log", "no rows"),
        ("a", now(-96), "best already", "8 choices"),
        ("a", now(None), "configuration unknown", "threshold_dbm"),
        ("a", now(-80), "configuration unknown", "nearest known value is -93"),
        ("a", now("low"), "configuration unknown", "takes numbers"),
        ("a", now(load=float("nan")), "state incomplete", "load"),
        ("a", now(load=40.0), "state unfamiliar", "its load is 40, the log has 0"),
        ("a", now(users=-70.0), "state unfamiliar", "its users is -70"),
    ],
)
def test_a_station_is_left_alone_for_a_reason(station: str, present: Present, why: str, words: str) -> None:
    plan = plan_changes(taught(), {station: present, "c": now()})
    assert [change.station for change in plan.changes] == ["c"]  # the others are planned for all the same
    (left,) = plan.left_alone
    assert (left.station, left.why) == (station, why)
    assert words in left.reason


def test_gains_that_are_small_or_uncertain_are_not_made() -> None:
    sure = plan_changes(taught(), everyone(-95))
    small = plan_changes(taught(), everyone(-95), least_gain=0.5)
    unsure = plan_changes(taught(rows=8), everyone(-95))
    assert {c.station for c in sure.changes} == {"a", "b", "c"}
    assert {left.why for left in small.left_alone} == {"gain too small"}
    uncertain = [left for left in unsure.left_alone if left.why == "gain not certain"]
    assert uncertain
    assert all("which may be a loss" in left.reason for left in uncertain)
    assert all(change.gain.low > 0 for change in sure.changes)


# --- What was never tried ---------------------------------------------------------------------------------------

HABITS = {"a": [-98], "b": [-98, -96], "c": [-96, -95], "d": [-96]}  # nobody ran anything else


def habitual(habits: dict[str, list[int]], *, similarity: Any, **changes: Any) -> Controller:
    """A controller that knows rewards peaking at -96 dBm, of stations that ran few thresholds for long."""
    rng = np.random.default_rng(8)
    pairs = [(task, value) for task, values in enumerate(habits.values()) for value in values * (30 // len(values))]
    tasks, values = (np.array(column) for column in zip(*pairs, strict=True))
    X = SPACE.features[values + 100]
    y = 0.8 - 0.02 * (values + 96) ** 2 + 0.01 * rng.standard_normal(len(values))
    log = Samples(tuple(habits), tasks, X, y, None, ("threshold_dbm",))
    settings: dict[str, Any] = {"kernel": RBF(1.2, variance=0.2), "noise": 0.0002, "mean": 0.7, "log": log}
    return Controller(SPACE, list(habits), similarity=similarity, **(settings | changes))


ALIKE = 0.999 + 0.001 * np.eye(4)


def test_a_change_to_what_the_station_never_ran_says_whose_trials_it_rests_on() -> None:
    plan = plan_changes(habitual(HABITS, similarity=ALIKE), {"a": Present({}, {"threshold_dbm": -98})})
    (change,) = plan.changes
    assert change.proposed == {"threshold_dbm": -96}
    assert "a never ran threshold_dbm=-96; this rests on 3 similar stations that did." in change.reason
    (own,) = plan_changes(habitual(HABITS, similarity=ALIKE), {"b": Present({}, {"threshold_dbm": -98})}).changes
    assert "never ran" not in own.reason


def test_a_setting_between_those_the_station_ran_says_so() -> None:
    habits = {"a": [-98, -94], "b": [-96], "c": [-97], "d": [-95]}
    (change,) = plan_changes(habitual(habits, similarity=ALIKE), {"a": Present({}, {"threshold_dbm": -98})}).changes
    assert change.proposed == {"threshold_dbm": -96}
    assert "a never ran threshold_dbm=-96, but settings on both sides of it; 1 similar station did." in change.reason


def test_playing_safe_proposes_nothing_beyond_what_anybody_tried() -> None:
    rising = {"a": [-100], "b": [-100, -99], "c": [-99], "d": [-99]}  # rewards rise towards -96, which nobody ran
    now = {"a": Present({}, {"threshold_dbm": -100})}
    (safe,) = plan_changes(habitual(rising, similarity=ALIKE), now).changes
    assert safe.proposed == {"threshold_dbm": -99}
    (bold,) = plan_changes(habitual(rising, similarity=ALIKE), now, explore=True, beta=3.0).changes
    assert bold.proposed["threshold_dbm"] > -99
    assert "and no similar station did: this is a guess from other settings." in bold.reason


@pytest.mark.parametrize("similarity", ["independent", ALIKE], ids=["independent", "alike"])
def test_without_trials_nothing_is_known_about_other_settings(similarity: Any) -> None:
    habits = {"a": [-98], "b": [-98], "c": [-98], "d": [-98]}
    plan = plan_changes(habitual(habits, similarity=similarity), {"a": Present({}, {"threshold_dbm": -98})})
    (left,) = plan.left_alone
    assert left.why == "never tried"
    assert "holds no trials" in left.reason
    assert "every row ran threshold_dbm=-98" in left.reason


def test_a_station_that_shares_with_nobody_knows_what_it_ran_itself() -> None:
    now = {name: Present({}, {"threshold_dbm": -98 if name < "c" else -95}) for name in HABITS}
    plan = plan_changes(habitual(HABITS, similarity="independent"), now)
    assert {change.station: change.proposed["threshold_dbm"] for change in plan.changes} == {"b": -96, "c": -96}
    assert {left.station: left.why for left in plan.left_alone}["a"] == "never tried"


def test_a_category_that_nobody_tried_is_not_proposed() -> None:
    space = ConfigurationSpace(scheduler=["rr", "pf", "edf"], tilt=[2, 4, 6])
    arms = np.array([space.index({"scheduler": s, "tilt": t}) for s, t in [("rr", 2), ("rr", 6), ("pf", 2)] * 20])
    n = len(arms)
    told = EvidenceRows(arms % 1, space.features[arms], np.zeros(n), np.ones(n), np.ones(n, dtype=np.int64))
    tried = SettingCoverage.of(ContextEncoder(StateScaler.identity([]), space), told)
    known = tried.within(tried.tasks == 0)
    assert [dict(space[arm]) for arm in np.flatnonzero(known).tolist()] == [
        {"scheduler": s, "tilt": t} for s in ("rr", "pf") for t in (2, 4, 6)
    ]


def test_exploring_drops_what_cannot_gain_enough_even_at_best() -> None:
    plan = plan_changes(taught(), everyone(), explore=True, least_gain=5.0)
    assert not plan.changes
    assert all("even at best" in left.reason for left in plan.left_alone)


def test_a_trial_that_may_lose_says_so() -> None:
    plan = plan_changes(taught(rows=4), everyone(-95), explore=True)
    trials = [change for change in plan.changes if change.gain.low <= 0]
    assert trials
    assert all(change.reason.startswith("A trial") for change in trials)


def test_a_limit_keeps_the_largest_gains() -> None:
    present = {"a": now(-100), "b": now(-98), "c": now(-93)}
    free, limited = plan_changes(taught(), present), plan_changes(taught(), present, max_changes=1)
    gains = [change.gain.value for change in free.changes]
    assert len(gains) == 3
    assert gains == sorted(gains, reverse=True)
    (kept,), first = limited.changes, free.changes[0]
    assert (kept.station, kept.proposed, kept.reason) == (first.station, first.proposed, first.reason)
    assert kept.gain.value == pytest.approx(first.gain.value)  # what is solved for together may differ in its last bits
    assert {left.station: left.why for left in limited.left_alone} == {
        change.station: "beyond the limit" for change in free.changes[1:]
    }


@pytest.mark.parametrize(("step", "proposed"), [(1, -99), (2.5, -98), (100, -96)])
def test_a_step_limits_how_far_a_knob_moves(step: float, proposed: int) -> None:
    plan = plan_changes(taught(), {"a": now(-100)}, steps={"threshold_dbm": step})
    assert plan.changes[0].proposed == {"threshold_dbm": proposed}


def test_a_step_of_nothing_leaves_no_choice() -> None:
    (left,) = plan_changes(taught(), {"a": now(-100)}, steps={"threshold_dbm": 0}).left_alone
    assert left.why == "no other choice"


def test_a_step_of_zero_keeps_a_category_and_moves_the_rest() -> None:
    space = ConfigurationSpace(tilt=[2, 4], scheduler=["rr", "pf"])
    rewards = {"rr": 0.2, "pf": 0.9}
    X, y = space.features, np.array([rewards[c["scheduler"]] + 0.1 * c["tilt"] for c in space])
    log = Samples(("a",), np.zeros(4, dtype=np.int64), X, y, None, ("tilt", "scheduler"), (1,))
    controller = Controller(space, ["a"], kernel=RBF([0.8, 0.3], variance=0.4), noise=1e-4, mean=0.5, log=log)
    present = {"a": Present({}, {"tilt": 2, "scheduler": "rr"})}
    assert plan_changes(controller, present).changes[0].proposed == {"tilt": 4, "scheduler": "pf"}
    kept = plan_changes(controller, present, steps={"scheduler": 0})
    assert kept.changes[0].proposed == {"tilt": 4, "scheduler": "rr"}
    (left,) = plan_changes(controller, present, steps={"scheduler": 0}, least_gain=0.5).left_alone
    assert left.reason.startswith("tilt=4 is expected")  # only what moves is named
    with pytest.raises(BadInputError, match="categories"):
        plan_changes(controller, present, steps={"scheduler": 1})


def test_a_feature_that_never_varied_must_have_its_one_value() -> None:
    with pytest.warns(UserWarning, match="never vary"):
        scaler = StateScaler.fit(["bandwidth"], [[20.0], [20.0]])
    seen = StateCoverage.of(scaler, np.zeros((2, 1)))
    assert seen.strange(np.array([20.0])) is None
    assert seen.strange(np.array([10.0])) == "its bandwidth is 10, the log has only ever 20"


def test_without_rows_every_state_is_familiar() -> None:
    assert StateCoverage.of(StateScaler.identity(["load"]), np.empty((0, 0))).strange(np.array([1e6])) is None


@pytest.mark.parametrize(
    "options",
    [
        {"least_gain": -0.1},
        {"least_gain": float("nan")},
        {"max_changes": 0},
        {"steps": {"threshold_dbm": -1}},
        {"steps": {"threshold_dbm": float("nan")}},
        {"steps": {"tilt": 1}},
        {"explore": True, "beta": -1.0},
    ],
)
def test_nonsense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(KinbandError):
        plan_changes(taught(), everyone(), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"controller": None, "now": None},
            r"plan_changes takes a Controller, got None: Controller.from_trace\(trace\)",
        ),
        ({"controller": "state"}, "plan_changes takes a Controller, got 'state'"),
        (
            {"now": None},
            "the table of present states is made from a pandas, polars or pyarrow table or a mapping .*NoneType",
        ),
        ({"now": [1]}, "the table of present states is made from"),
        ({"max_changes": True}, "max_changes must be a whole number of at least 1, got True"),
        ({"max_changes": "3"}, "max_changes must be a whole number of at least 1, got '3'"),
        ({"max_changes": 2.5}, "max_changes must be a whole number"),
        ({"least_gain": True}, "least_gain must be a number, got True"),
        ({"steps": [2]}, r"steps must map knobs to numbers, .* got \[2\]"),
        ({"steps": {"threshold_dbm": True}}, "the step of 'threshold_dbm' must be a number, got True"),
    ],
)
def test_things_of_another_kind_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"controller": taught(), "now": everyone(), **options}
    with pytest.raises(BadInputError, match=words):
        plan_changes(given.pop("controller"), given.pop("now"), **given)


def test_a_controller_of_context_rows_cannot_plan() -> None:
    controller = Controller(ConfigurationSpace(arm=[1, 2]), ["a"], features=["x"])
    with pytest.raises(BadInputError, match="context rows"):
        plan_changes(controller, everyone())


# --- The stations as they are now ---------------------------------------------------------------------------

COLUMNS = {
    "station": ["a", "b"],
    "load": [0.4, 0.5],
    "users": [20.0, 10.0],
    "threshold_dbm": [-100, -95],
    "x": ["?", ""],
}


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_present_states_come_as_any_table(frame: Any) -> None:
    expected = {"a": now(-100), "b": now(-95, load=0.5, users=10.0)}
    assert present_of(frame(COLUMNS), SPACE, state=["load", "users"]) == expected
    assert plan_changes(taught(), frame(COLUMNS)) == plan_changes(taught(), expected)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load": None}, r"lacks the column 'load' \(a state feature\)"),
        ({"threshold_dbm": None}, r"'threshold_dbm' \(a knob\)"),
        ({"station": None}, r"'station' \(the station\)"),
        ({"station": ["a", "a"]}, "lists station 'a' 2 times"),
        ({"load": ["low", "high"]}, "must hold numbers, got 'low'"),
        ({"load": [0.1, float("inf")]}, "infinite"),
        ({"load": [None, None]}, "'load' .* is empty"),
        ({name: [] for name in COLUMNS}, "no rows"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused(changes: dict[str, Any], words: str) -> None:
    table = {name: values for name, values in {**COLUMNS, **changes}.items() if values is not None}
    with pytest.raises(BadInputError, match=words):
        present_of(table, SPACE, state=["load", "users"])


def test_a_file_keeps_names_and_categories_that_look_like_numbers(tmp_path: Path) -> None:
    path = tmp_path / "now.csv"
    path.write_text("station;mode;load\n0012;01;0,5\n0013;;0,25\n", encoding="utf-8")
    space = ConfigurationSpace(mode=["01", "02"])
    found = read_present(path, space, state=["load"], delimiter=";", decimal_point=",")
    assert found == {"0012": Present({"load": 0.5}, {"mode": "01"}), "0013": Present({"load": 0.25}, {"mode": None})}


# --- Files --------------------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def carried_out(network: dict[str, dict[str, str]], path: Path) -> dict[str, dict[str, str]]:
    """Set what a file says: the same few lines for a plan and for its roll-back."""
    result = {station: dict(settings) for station, settings in network.items()}
    for row in rows_of(path):
        for name, value in row.items():
            if name.startswith("set_"):
                result[row["station"]][name.removeprefix("set_")] = value
    return result


def test_the_roll_back_restores_what_the_plan_changes(tmp_path: Path) -> None:
    plan = plan_changes(taught(), {"a": now(-100), "b": now(-98), "c": now(-96), "z": now()})
    plan.write(tmp_path)
    before = {"a": -100, "b": -98, "c": -96, "z": -100}
    network = {station: {"threshold_dbm": str(value)} for station, value in before.items()}
    changed = carried_out(network, tmp_path / "plan.csv")
    assert changed["a"] == {"threshold_dbm": "-96"}
    assert changed["z"] == network["z"]
    assert carried_out(changed, tmp_path / "rollback.csv") == network
    assert [row["station"] for row in rows_of(tmp_path / "rollback.csv")] == [c.station for c in plan.changes]


def test_the_plan_file_holds_the_numbers_and_the_reason(tmp_path: Path) -> None:
    plan = plan_changes(taught(), {"a": now(-100), "c": now(-80)})
    plan.write(tmp_path)
    (row,), (change,) = rows_of(tmp_path / "plan.csv"), plan.changes
    assert (row["present_threshold_dbm"], row["set_threshold_dbm"]) == ("-100", "-96")
    for name, value in {"expected_gain": change.gain.value, "gain_low": change.gain.low, "gain_high": change.gain.high,
                        "borrowed_share": change.borrowed, "std_alone": change.std_alone}.items():  # fmt: skip
        assert float(row[name]) == pytest.approx(value, rel=1e-5)
    assert row["lenders"].startswith("b ")
    assert row["reason"] == change.reason
    (left,) = rows_of(tmp_path / "left_alone.csv")
    assert (left["station"], left["present_threshold_dbm"], left["why"]) == ("c", "-80", "configuration unknown")


def test_a_plan_turns_into_json_and_back() -> None:
    plan = plan_changes(taught(), {"a": now(-100), "b": now(np.int64(-80))})
    saved = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert saved["changes"][0]["proposed"] == {"threshold_dbm": -96}
    assert saved["changes"][0]["lenders"][0]["station"] == "b"
    assert saved["left_alone"][0]["present"] == {"threshold_dbm": -80}


def test_a_plan_is_not_written_over_another_by_accident(tmp_path: Path) -> None:
    first, second = plan_changes(taught(), {"a": now()}), ChangePlan(("threshold_dbm",), (), ())
    first.write(tmp_path / "new" / "folder")
    with pytest.raises(BadInputError, match="already holds a plan"):
        second.write(tmp_path / "new" / "folder")
    assert len(rows_of(tmp_path / "new" / "folder" / "rollback.csv")) == 1
    second.write(tmp_path / "new" / "folder", replace=True)
    assert not rows_of(tmp_path / "new" / "folder" / "rollback.csv")


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd", "@SUM(A1)", "\tx", "\nx", "-1 =1", "- 1"])
def test_text_that_a_spreadsheet_would_run_is_defused(text: str) -> None:
    assert safe_text(text) == f"'{text}"


@pytest.mark.parametrize("mark", [";", ",", "|", "\t", "\n", "; ", ';"'])
@pytest.mark.parametrize("sign", ["=1+1", "@SUM(A1)", "-cmd|' /C calc'!A0", "+1+cmd", "＝1", "＋1", "－1", "＠a"])
def test_text_that_begins_a_cell_for_programs_that_part_cells_otherwise_is_defused(mark: str, sign: str) -> None:
    assert safe_text(f"a{mark}{sign}") == f"a{mark}'{sign}"
    assert safe_text(sign) == f"'{sign}"


@pytest.mark.parametrize(("text", "kept"), [("\r=1", "'\n'=1"), ("no\r=1", "no\n'=1"), ("two\r\nlines", "two\nlines")])
def test_a_carriage_return_ends_no_cell(text: str, kept: str) -> None:
    assert safe_text(text) == kept


@pytest.mark.parametrize(
    "text", ["3714", "-98", "+4.5", "a;-98", '{"x":[1,-2.5e3,-4],"y":-5}', "cell=4", "a-b", "", "-1e-3"]
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert safe_text(text) == text


def test_names_from_outside_are_defused_in_every_file_and_numbers_are_not(tmp_path: Path) -> None:
    plan = plan_changes(taught(), {"a": now(-100), "=HYPERLINK(1)": now("@x")})
    for path in plan.write(tmp_path)[:3]:
        for row in rows_of(path):
            assert not row["station"].startswith("=")
    assert rows_of(tmp_path / "rollback.csv")[0]["set_threshold_dbm"] == "-100"
    (left,) = rows_of(tmp_path / "left_alone.csv")
    assert (left["station"], left["present_threshold_dbm"]) == ("'=HYPERLINK(1)", "'@x")


def test_unknown_knobs_of_steps_are_named() -> None:
    with pytest.raises(NotFoundError, match="no knob 'tilt'"):
        plan_changes(taught(), everyone(), steps={"tilt": 1})


# --- Stations that are gone -------------------------------------------------------------------------------------------


def log_of(hours: dict[str, list[int]]) -> Trace:
    """A log by the hour in which every station runs two tilts in turn, and one earns more."""
    rows = [(name, hour) for name, at in hours.items() for hour in at]
    begin = np.datetime64("2026-11-01T00:00", "us")
    tilt = np.array([2 + 2 * (hour // 3 % 2) for _, hour in rows])
    frame = {
        "station": [name for name, _ in rows],
        "time": begin + np.array([hour for _, hour in rows]) * np.timedelta64(1, "h"),
        "tilt": tilt,
        "reward": 0.5 + 0.1 * (tilt == 2) + 0.01 * np.random.default_rng(0).normal(size=len(rows)),
    }
    return Trace.from_frame(frame, {"configuration": ["tilt"]})


def test_a_station_whose_rows_end_long_before_the_log_does_is_left_alone() -> None:
    whole = list(range(101))
    trace = log_of({"a": whole, "b": whole, "dead": whole[:40], "late": whole[:60]})
    plan = plan_network(learn_network(trace), planned_for(latest(trace), periods_of(trace)), workers=1)
    (left,) = [one for one in plan.left_alone if one.station == "dead"]
    assert left.why == "silent"
    assert left.reason.startswith("The log has no row of it after 2026-11-02 15:00, and goes on to 2026-11-05 04:00")
    assert "late" not in {one.station for one in plan.left_alone if one.why == "silent"}  # 41 hours are no two days
    assert {change.station for change in plan.changes} & {"a", "b", "late"}


def test_long_pauses_are_no_end_and_one_wrong_date_ends_no_log() -> None:
    whole = list(range(200))
    often = [*range(20), *range(60, 80), *range(120, 130)]  # pauses of 40 hours
    assert not silent_since(log_of({"a": whole, "b": whole, "often": often}))
    wrong = silent_since(log_of({"a": [*whole, 50_000], "b": whole, "c": whole, "d": whole[:100]}))
    assert list(wrong) == ["d"]
