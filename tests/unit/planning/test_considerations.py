"""What a plan considers beside the reward: rests, neighbours and floors, ages and units by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Trace
from kinband.drift import Drift
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.likelihood import Shocks
from kinband.model import Model
from kinband.planning import Considerations, Period, Present, learn_network, plan_network
from kinband.planning.considerations import (
    ages,
    around,
    breaks,
    everybody_alike,
    keeping,
    kpi_rows,
    unexplained,
    weight_around,
)
from kinband.planning.evidence import Averages, EvidenceRows, GroupPosterior
from kinband.planning.network import _newcomers
from kinband.records import Samples
from kinband.similarity import TaskMatrix

KEPT = ("drop stays at most 0.0135, with 95 % probability; where it is not so now, it becomes no worse.",)
STATIONS = ("a", "b", "c", "d")
RULE = NeighbourReward({"a": {"b": 3.0, "c": 1.0}, "b": ["a"], "d": ["c"]}, weight={"a": 0.5, "b": 0.75, "d": 0.25})


def drawn(seed: int, rows: int = 40) -> tuple[Samples, np.ndarray[Any, Any], Model]:
    """A log with times at which not every station has a row, and some have two; its model away from all defaults."""
    rng = np.random.default_rng(seed)
    tasks, X = rng.integers(0, 4, rows), rng.normal(size=(rows, 2))
    kernel = RBF(rng.uniform(0.5, 2.0, 2), variance=rng.uniform(0.3, 2.0))
    model = Model(
        kernel,
        TaskMatrix(STATIONS, np.eye(4), "given"),
        noise=rng.uniform(0.1, 0.5),
        mean=rng.normal(),
        shocks=Shocks(day=0.05, spell=0.02),
    )
    samples = Samples(STATIONS, tasks, X, rng.normal(1.0, 2.0, rows), None, ("load", "tilt"))
    return samples, rng.integers(0, 12, rows), model


# --- What neighbours earn beyond what their own contexts explain ------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_is_unexplained_is_what_the_stations_other_rows_do_not_foretell(seed: int) -> None:
    samples, _, model = drawn(seed)
    found = unexplained(samples, model)
    noise = model.noise + 0.07
    for row in range(len(samples)):
        others = np.flatnonzero((samples.tasks == samples.tasks[row]) & (np.arange(len(samples)) != row))
        K = model.kernel(samples.X[others], samples.X[others]) + noise * np.eye(len(others))
        k = model.kernel(samples.X[row : row + 1], samples.X[others])[0]
        expected = model.mean + k @ np.linalg.inv(K) @ (samples.y[others] - model.mean)
        assert found[row] == pytest.approx(samples.y[row] - expected)


def test_a_station_with_one_row_has_nothing_to_be_held_against() -> None:
    samples, _, model = drawn(1)
    lonely = samples.take(np.append(np.flatnonzero(samples.tasks == 0), np.flatnonzero(samples.tasks == 1)[0]))
    assert np.isnan(unexplained(lonely, model)).tolist() == [False] * (len(lonely) - 1) + [True]


@pytest.mark.parametrize("seed", range(3))
def test_rests_of_neighbours_are_those_of_a_loop_over_rows(seed: int) -> None:
    samples, time, model = drawn(seed)
    rest = unexplained(samples, model)
    found = around(samples, model, time, RULE)
    rows, values, wide = [], [], []
    for row, task in enumerate(samples.tasks.tolist()):
        there = {
            name: rest[(time == time[row]) & (samples.tasks == STATIONS.index(name))]
            for name in RULE.of(STATIONS[task])
        }
        known = {name: here.mean() for name, here in there.items() if len(here)}
        counts = {name: RULE.of(STATIONS[task])[name] for name in known}
        if not known:
            continue
        total = sum(counts.values())
        rows.append(row)
        values.append(sum(counts[name] * known[name] for name in known) / total)
        wide.append(sum(count**2 for count in counts.values()) / total**2)
    assert found.y == pytest.approx(np.array(values))
    np.testing.assert_array_equal(found.X, samples.X[rows])
    np.testing.assert_array_equal(found.tasks, samples.tasks[rows])
    assert found.noise == pytest.approx(rest.var() * (np.array(wide) - min(wide)))


def test_every_neighbour_counts_as_the_station_does_unless_a_share_is_given() -> None:
    alike = everybody_alike({"a": ["b", "c", "d"], "d": ["a"]})
    assert weight_around(alike, STATIONS).tolist() == [3.0, 0.0, 0.0, 1.0]
    assert weight_around(RULE, STATIONS) == pytest.approx([1.0, 3.0, 0.0, 1 / 3])
    with pytest.raises(BadInputError, match="some weight on a station's own reward"):
        weight_around(NeighbourReward({"a": ["b"]}, 1.0), STATIONS)


def test_neighbours_need_times_and_rows_of_the_same_time() -> None:
    samples, _, model = drawn(0)
    with pytest.raises(BadInputError, match="matched by time, and the log has none"):
        around(samples, model, None, RULE)
    with pytest.raises(BadInputError, match="no two neighbours have rows of the same time"):
        around(samples, model, np.arange(len(samples)), RULE)


def selfish(rows: int = 120, seed: int = 0) -> Trace:
    """Two pairs of neighbours: a setting of 1 gains 0.2 for the station itself and costs its neighbour 0.5."""
    rng = np.random.default_rng(seed)
    setting = rng.integers(0, 2, (4, rows))
    other = setting[[1, 0, 3, 2]]
    reward = 1.0 + 0.2 * setting - 0.5 * other + 0.05 * rng.normal(size=(4, rows))
    log = {"station": np.repeat(STATIONS, rows), "time": np.tile(np.arange(rows), 4), "on": setting.ravel()}
    return Trace.from_frame({**log, "reward": reward.ravel()}, {"configuration": ["on"]})


PAIRS = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}


def test_what_gains_at_its_neighbours_expense_is_not_proposed() -> None:
    now = {name: Present({}, {"on": 0}) for name in STATIONS}
    alone = plan_network(learn_network(selfish()), now, workers=1)
    assert len(alone.changes) == 4
    assert all(one.around is None and one.gain.low <= 0.2 <= one.gain.high for one in alone.changes)
    network = learn_network(selfish(), considered=Considerations(neighbours=everybody_alike(PAIRS)))
    assert not plan_network(network, now, workers=1).changes
    back = plan_network(network, {name: Present({}, {"on": 1}) for name in STATIONS}, workers=1)
    assert len(back.changes) == 4
    for one in back.changes:
        assert one.around is not None
        assert one.around.low <= 0.5 <= one.around.high
        assert one.gain.low <= 0.3 <= one.gain.high
        assert one.expected - one.expected_unchanged + one.around.value == pytest.approx(one.gain.value)
        assert "its neighbours gain 0." in one.reason


def test_the_weight_of_neighbours_says_how_much_of_their_gain_counts() -> None:
    little = NeighbourReward(PAIRS, weight=0.1)  # of 0.5 that they lose a ninth counts, less than the 0.2 it gains
    network = learn_network(selfish(), considered=Considerations(neighbours=little))
    plan = plan_network(network, {name: Present({}, {"on": 0}) for name in STATIONS}, workers=1)
    assert len(plan.changes) == 4
    assert all(one.around is not None and one.around.low <= -0.5 / 9 <= one.around.high for one in plan.changes)


# --- Floors -------------------------------------------------------------------------------------------------------


def believed(y0: float, y1: float, *, noise: float, variance: float, scale: float) -> tuple[GroupPosterior, Averages]:
    """What two rows of a KPI say of a station with settings at -1 and 1, and a period without states."""
    X = np.array([[-1.0], [1.0]])
    told = EvidenceRows(
        np.zeros(2, dtype=np.int64), X, np.array([y0, y1]), np.full(2, noise), np.ones(2, dtype=np.int64)
    )
    kernel = RBF(scale, variance=variance)
    return GroupPosterior(kernel, np.ones((1, 1)), told), Averages(kernel, np.zeros((1, 1)), np.ones((1, 1)), (0,), X)


@pytest.mark.parametrize("seed", range(5))
def test_a_kpi_and_its_difference_are_those_found_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, scale, s = rng.uniform(0.5, 2), rng.uniform(0.8, 2), rng.uniform(0.01, 0.2)
    y0, y1 = rng.normal(size=2)
    evidence, week = believed(y0, y1, noise=s, variance=v, scale=scale)
    # Sum and difference of f at -1 and 1 are independent a priori, with variances 2(v + c) and 2(v - c).
    c = v * np.exp(-2 / scale**2)
    plus, minus = (v + c) / (v + c + s), (v - c) / (v - c + s)
    mean1 = 0.5 * ((y0 + y1) * plus + (y1 - y0) * minus)
    var1 = 0.25 * (2 * (v + c) * (1 - plus) + 2 * (v - c) * (1 - minus))
    _, mean, std = keeping(KpiFloor("k", at_most=0), evidence, week, 0, arms=np.array([1]), present=0)
    assert (mean[1], std[0]) == pytest.approx((mean1, np.sqrt(var1)))
    gain, sd = (y1 - y0) * minus, np.sqrt(2 * (v - c) * (1 - minus))
    broken = KpiFloor("k", at_most=float(mean[0]) - 10 * (v + abs(mean1)))  # by both settings, wherever they are
    kept, _, _ = keeping(broken, evidence, week, 0, arms=np.array([1, 0]), present=0)
    assert kept.tolist() == [gain + 1.6448536 * sd <= 0, True]  # what runs is no worse than itself


def test_a_floor_is_kept_with_its_probability_and_not_merely_expected_to_be() -> None:
    evidence, week = believed(0.0, 1.0, noise=0.04, variance=1.0, scale=0.1)  # the two settings share nothing
    mean, std = 1.0 / 1.04, np.sqrt(1.0 - 1.0 / 1.04)
    for limit, wanted in ((mean + 1.7 * std, True), (mean + 1.6 * std, False)):
        kept, _, _ = keeping(KpiFloor("k", at_most=limit), evidence, week, 0, arms=np.array([1]), present=0)
        assert kept.tolist() == [wanted]
    for limit, wanted in ((mean - 1.7 * std, True), (mean - 1.6 * std, False)):
        floor = KpiFloor("k", at_least=limit)
        kept, _, _ = keeping(floor, evidence, week, 0, arms=np.array([1]), present=1)
        assert kept.tolist() == [wanted]


def test_a_value_breaks_a_floor_on_either_side() -> None:
    floor = KpiFloor("k", at_least=1.0, at_most=2.0)
    assert [breaks(floor, value) for value in (0.9, 1.0, 2.0, 2.1)] == [True, False, False, True]


def dropping(*, floor: KpiFloor | None = None) -> Any:
    """A plan for stations at tilt 0 of four: rewards and drop rates grow with tilt, those of b from above 0.02 on."""
    rng = np.random.default_rng(4)
    tilt, station = rng.integers(0, 4, 240), np.array(["a", "b"])[np.arange(240) % 2]
    reward = 0.5 + 0.1 * tilt + 0.02 * rng.normal(size=240)
    drop = 0.004 + 0.004 * tilt + 0.02 * (station == "b") + 0.0005 * rng.normal(size=240)
    drop[::7] = np.nan  # not always measured
    log = {"station": station, "tilt": tilt, "reward": reward, "drop": drop}
    trace = Trace.from_frame(log, {"configuration": ["tilt"], "kpis": ["drop"]})
    network = learn_network(trace, considered=Considerations(floors=() if floor is None else (floor,)))
    return plan_network(network, {"a": Present({}, {"tilt": 0}), "b": Present({}, {"tilt": 0})}, workers=1)


def test_the_best_change_that_keeps_a_floor_is_made_and_says_what_is_expected() -> None:
    assert {one.station: one.moves["tilt"] for one in dropping().changes} == {"a": 3, "b": 3}
    plan = dropping(floor=KpiFloor("drop", at_most=0.0135))
    assert plan.limits == KEPT
    (change,) = plan.changes
    assert (change.station, change.moves) == ("a", {"tilt": 2})
    assert change.kpis["drop"].low <= 0.012 <= change.kpis["drop"].high
    assert "drop is then expected to be 0.01" in change.reason
    assert change.reason.count("at most 0.0135") == 1
    (left,) = plan.left_alone
    assert (left.station, left.why) == ("b", "a floor would be broken")
    assert "today it is 0.02" in left.reason
    assert "might become worse" in left.reason


def test_a_change_that_makes_a_broken_floor_better_is_made() -> None:
    plan = dropping(floor=KpiFloor("drop", at_least=0.5))
    for change in plan.changes:
        assert change.moves == {"tilt": 3}
        assert "no worse than today, but not yet at least 0.5" in change.reason
    assert len(plan.changes) == 2


def test_a_kpi_that_the_log_hardly_has_cannot_have_a_floor() -> None:
    samples, _, _ = drawn(0)
    with pytest.raises(BadInputError, match="fewer than two rows"):
        kpi_rows(samples, "drop")


def test_floors_and_neighbours_reach_the_files(tmp_path: Any) -> None:
    plan = dropping(floor=KpiFloor("drop", at_most=0.0135))
    header = plan.write(tmp_path)[1].read_text().splitlines()[0].split(",")
    assert [name for name in header if name.startswith("kpi_")] == ["kpi_drop", "kpi_drop_low", "kpi_drop_high"]
    (answer,) = plan.to_dict()["changes"]
    assert set(answer["kpis"]["drop"]) == {"value", "low", "high"}
    assert answer["around"] is None


# --- The age of rows --------------------------------------------------------------------------------------------------


def test_what_was_true_long_ago_counts_less() -> None:
    rng = np.random.default_rng(1)
    n = 400
    tilt, then = rng.integers(0, 3, n), np.arange(n) < 280  # most rows are from before the change
    reward = np.where(then, 0.2 * (tilt == 0), 0.2 * (tilt == 2)) + 0.02 * rng.normal(size=n)
    day = np.datetime64("2024-03-01T00") + np.arange(n).astype("m8[h]")
    log = {"station": np.array(["a", "b"])[np.arange(n) % 2], "time": day, "tilt": tilt, "reward": reward}
    trace = Trace.from_frame(log, {"configuration": ["tilt"]})
    now = {name: Present({}, {"tilt": 1}, Period(np.zeros((1, 0)))) for name in "ab"}
    drift = Drift(np.timedelta64(1, "D"), reset=False)
    settings = []
    for fading in (None, drift, Drift(12.0, reset=False, clock="decisions")):
        plan = plan_network(learn_network(trace, considered=Considerations(drift=fading)), now, workers=1)
        settings.append([one.moves["tilt"] for one in plan.changes])
    assert settings == [[0, 0], [2, 2], [2, 2]]


def test_a_half_life_in_another_unit_than_times_is_refused() -> None:
    trace = selfish(6)
    tasks = np.repeat(np.arange(4), 6)
    with pytest.raises(BadInputError, match="counts dates, and the log has times that are numbers"):
        ages(trace, tasks, Drift(np.timedelta64(1, "D")))
    with pytest.raises(BadInputError, match="does not learn one"):
        ages(trace, tasks, Drift("learned"))


def test_a_space_is_kept_with_all_that_is_heeded() -> None:
    considered = Considerations(drift=Drift(50.0, reset=False, clock="numbers"), neighbours=everybody_alike(PAIRS))
    network = learn_network(selfish(40), ConfigurationSpace(on=[0, 1]), considered=considered)
    assert network.encoder.state.names == ("clock",)
    assert network.around is not None
    assert network.around.samples.features == ("clock", "on")


# --- What describes a station -----------------------------------------------------------------------------------------


def offices_and_homes(rows: int = 60) -> tuple[Trace, dict[str, dict[str, Any]]]:
    """Ten offices that are best at tilt 4 and ten homes that are best at 0, and what describes them and two more."""
    rng = np.random.default_rng(6)
    names = [f"s{m}" for m in range(20)]
    tilt = rng.integers(0, 5, (20, rows))
    best = np.where(np.arange(20) < 10, 4, 0)[:, None]
    reward = 1.0 - 0.05 * (tilt - best) ** 2 + 0.05 * rng.normal(size=(20, rows))
    log = {"station": np.repeat(names, rows), "tilt": tilt.ravel(), "reward": reward.ravel()}
    sites = {name: {"use": "office" if m < 10 else "home", "x_m": float(m % 10)} for m, name in enumerate(names)}
    sites |= {"new office": {"use": "office", "x_m": 3.0}, "new home": {"use": "home"}}
    return Trace.from_frame(log, {"configuration": ["tilt"]}), sites


def test_a_newcomer_is_set_as_those_that_resemble_it_and_its_interval_is_wider() -> None:
    trace, sites = offices_and_homes()
    wrong = {"s0": 0, "s10": 4, "new office": 0, "new home": 4, "nobody knows": 2}
    now = {name: Present({}, {"tilt": tilt}) for name, tilt in wrong.items()}
    plan = plan_network(learn_network(trace, considered=Considerations(descriptors=sites)), now, workers=1)
    made = {one.station: one for one in plan.changes}
    assert {name: one.moves["tilt"] for name, one in made.items()} == {
        "s0": 4, "s10": 0, "new office": 4, "new home": 0
    }  # fmt: skip
    for new, old in (("new office", "s0"), ("new home", "s10")):
        assert made[new].std > 2 * made[old].std
        assert made[new].gain.high - made[new].gain.low > 2 * (made[old].gain.high - made[old].gain.low)
        assert made[new].gain.low <= 0.8 <= made[new].gain.high
        assert made[new].own_rows == 0
        assert made[new].borrowed == pytest.approx(1.0)
        assert "no rows of its own" in made[new].reason
    assert [(one.station, one.why) for one in plan.left_alone] == [("nobody knows", "not in the log")]


def test_a_newcomer_has_neighbours_floors_and_an_age_of_rows_as_others_do() -> None:
    sites: Any = {name: {"x": float(m)} for m, name in enumerate(("a", "b", "c", "d", "e"))}
    rule = NeighbourReward({**PAIRS, "e": ["a"]}, 0.5, others=["e"])
    considered = Considerations(neighbours=rule, drift=Drift(200.0, reset=False, clock="decisions"), descriptors=sites)
    plan = plan_network(learn_network(selfish(), considered=considered), {"e": Present({}, {"on": 1})}, workers=1)
    (one,) = plan.changes
    assert one.around is not None
    assert one.gain.low <= 0.3 <= one.gain.high
    assert one.users is None


def test_in_a_large_network_a_newcomer_joins_the_group_that_it_resembles() -> None:
    trace, sites = offices_and_homes(20)
    network = learn_network(trace, similarity="pooled", considered=Considerations(descriptors=sites))
    halves = (np.arange(10), np.arange(10, 20))
    wanted = {name: Present({}, {"tilt": 2}) for name in ("new office", "new home")}
    found = _newcomers(replace(network, groups=halves), wanted)
    assert found == {0: ["new office"], 1: ["new home"]}


def test_descriptors_say_who_is_alike_where_a_log_cannot() -> None:
    trace, sites = offices_and_homes()
    number = np.unique(trace.station, return_inverse=True)[1]
    one_each = trace.select(np.flatnonzero(trace.configuration["tilt"] == number % 5))
    alone = learn_network(one_each).reward.similarity
    described = learn_network(one_each, considered=Considerations(descriptors=sites)).reward.similarity
    assert isinstance(alone, TaskMatrix)
    assert isinstance(described, TaskMatrix)
    assert alone.between("s0", "s1") == pytest.approx(alone.between("s0", "s11"))
    assert described.between("s0", "s1") > described.between("s0", "s11")
    assert described.between("s10", "s11") > described.between("s0", "s11")
