"""The trace environment: values by hand, agreement with a plain scan, and refusals; and the splits of a log."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller, Trace
from kinband.arrays import FloatArray
from kinband.environments import Environment, TraceEnvironment, split_by_group, split_trace
from kinband.environments.trace import NearestRows
from kinband.errors import BadInputError, NotFoundError
from kinband.experiments.runner import Mode, play
from kinband.space import Categories

# --- By hand ------------------------------------------------------------------------------------------------


def made(columns: dict[str, Any], *knobs: str) -> Trace:
    return Trace.from_frame(columns, {"configuration": list(knobs)})


def square(**more: Any) -> Trace:
    """Four rows at the corners of a square: load and tilt are ±1 after standardising."""
    rewards = [0.1, 0.2, 0.4, 0.9]
    return made({"station": ["a"] * 4, "load": [0, 0, 2, 2], "tilt": [0, 2, 0, 2], "reward": rewards} | more, "tilt")


def rewards_by_load(environment: TraceEnvironment, station: str, slots: int = 60) -> dict[float, list[float]]:
    """What the arms earn in each state that comes up in so many slots."""
    seen: dict[float, list[float]] = {}
    for _ in range(slots):
        seen[environment.slot.states[station]["load"]] = environment.truth(station).rewards.tolist()
        environment.play({})
    return seen


@pytest.mark.parametrize("neighbours", [2, 3])
def test_rows_as_near_as_the_last_neighbour_count_with_it(neighbours: int) -> None:
    """Around each corner: the corner, two neighbours 2 away, and the opposite corner 2√2 away."""
    seen = rewards_by_load(TraceEnvironment(square(), neighbours=neighbours), "a")
    around = {(0, 0): [0.1, 0.2, 0.4], (0, 2): [0.2, 0.1, 0.9], (2, 0): [0.4, 0.1, 0.9], (2, 2): [0.9, 0.2, 0.4]}
    for (load, tilt), near in around.items():
        assert seen[load][tilt // 2] == pytest.approx(sum(near) / 3)


def categories() -> dict[str, Any]:
    """Load ±1 after standardising; rr was run at both loads, wf and pf at one each."""
    return {
        "station": ["a"] * 4,
        "load": [0, 2, 0, 2],
        "scheduler": ["rr", "rr", "wf", "pf"],
        "reward": [0.1, 0.2, 0.4, 0.9],
    }


def test_categories_are_by_default_as_far_apart_as_random_quantities() -> None:
    """√2 is less than 2: pf at load 0 is answered by rr and wf at load 0."""
    space = ConfigurationSpace(scheduler=["pf", "rr", "wf"])
    environment = TraceEnvironment(made(categories(), "scheduler"), space, neighbours=1)
    assert rewards_by_load(environment, "a")[0.0][0] == pytest.approx((0.1 + 0.4) / 2)


def test_without_a_state_all_rows_of_a_configuration_are_averaged() -> None:
    columns = {"station": ["a"] * 5, "tilt": [1, 1, 1, 3, 3], "reward": [0.1, 0.2, 0.6, 0.5, 0.7]}
    environment = TraceEnvironment(made(columns, "tilt"), neighbours=2)
    assert environment.slot.states["a"] == {}
    assert environment.truth("a").rewards.tolist() == pytest.approx([0.3, 0.6])


def two_stations() -> Trace:
    """Station b earns 0.5 more than a in the same rows."""
    columns = {"station": ["a"] * 4 + ["b"] * 4, "load": [0, 0, 2, 2] * 2, "tilt": [0, 2] * 4}
    return made(columns | {"reward": [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]}, "tilt")


def test_pooled_rows_may_be_of_stations_that_do_not_play() -> None:
    environment = TraceEnvironment(two_stations(), neighbours=2, pooled=True, stations=["b"])
    assert environment.stations == ("b",)
    assert rewards_by_load(environment, "b")[0.0] == pytest.approx([0.35, 0.45])


def test_stations_play_in_the_order_asked_for() -> None:
    environment = TraceEnvironment(two_stations(), neighbours=1, stations=["b", "a"])
    assert environment.stations == ("b", "a")
    assert rewards_by_load(environment, "a")[0.0] == [0.1, 0.2]


def test_variance_of_a_mean_is_told_where_every_row_knows_its_own() -> None:
    """Three rows count around (0, 0) and (0, 2): the variance of their mean is the sum of theirs over 9."""
    environment = TraceEnvironment(square(noise=[0.01, 0.02, 0.06, None]), neighbours=2)
    while environment.slot.states["a"]["load"] != 0:
        environment.play({})
    known = environment.play({"a": 0})["a"]
    assert known.noise == pytest.approx((0.01 + 0.02 + 0.06) / 9)
    while environment.slot.states["a"]["load"] != 0:
        environment.play({})
    assert environment.play({"a": 1})["a"].noise is None


def test_variance_of_a_mean_without_ties() -> None:
    """At load 0 and tilt 0 the row itself and load 1 are averaged; load 9 and the other tilt are farther."""
    columns = {"station": ["a"] * 4, "load": [0, 1, 9, 0], "tilt": [0, 0, 0, 2], "reward": [0.1, 0.3, 0.5, 0.8]}
    environment = TraceEnvironment(made(columns | {"noise": [0.02, 0.04, 1, 1]}, "tilt"), neighbours=2)
    while environment.slot.states["a"]["load"] != 0:
        environment.play({})
    outcome = environment.play({"a": 0})["a"]
    assert outcome.reward == pytest.approx(0.2)
    assert outcome.noise == pytest.approx((0.02 + 0.04) / 4)


def test_sample_counts_give_the_variance_of_a_single_neighbour() -> None:
    environment = TraceEnvironment(square(samples=[8, 8, 8, 8]), neighbours=1)
    while environment.slot.states["a"]["load"] != 0:
        environment.play({})
    p = (0.1 * 8 + 1) / 10
    assert environment.play({"a": 0})["a"].noise == pytest.approx(p * (1 - p) / 8)


def test_nothing_is_said_of_variance_where_nothing_is_known() -> None:
    assert TraceEnvironment(square(), neighbours=1).play({"a": 0})["a"].noise is None


def test_equal_rewards_do_not_leave_their_range_by_rounding() -> None:
    """The sum of three 0.1 is 0.30000000000000004."""
    columns = {"station": ["a"] * 4, "tilt": [0, 0, 0, 2], "reward": [0.1] * 4, "time": range(4)}
    environment = TraceEnvironment(made(columns, "tilt"), neighbours=3)
    assert environment.reward_range == (0.1, 0.1)
    assert environment.truth("a").rewards[0] == 0.1


# --- Against a plain scan -----------------------------------------------------------------------------------


def scanned(
    trace: Trace, space: ConfigurationSpace, station: str | None, state: FloatArray, *, k: int, category_distance: float
) -> list[float]:
    """The definition, row by row: squared distances summed over features, all rows up to the k-th."""
    scales, knobs = trace.state.std(axis=0), space.knobs
    rewards = []
    for configuration in space:
        near = []
        for row in range(len(trace)):
            if station is not None and trace.station[row] != station:
                continue
            squared = sum(((a - b) / s) ** 2 for a, b, s in zip(trace.state[row], state, scales, strict=True) if s > 0)
            for knob in knobs:
                there, here = trace.configuration[knob][row], configuration[knob]
                if isinstance(here, str):
                    squared += category_distance**2 * (there != here)
                else:
                    spread = np.std([c[knob] for c in space])
                    squared += ((there - here) / spread) ** 2 if spread else 0.0
            near.append((math.sqrt(squared), trace.reward[row]))
        near.sort()
        reach = near[k - 1][0] * (1 + 1e-9) + 1e-12
        rewards.append(float(np.mean([reward for distance, reward in near if distance <= reach])))
    return rewards


@st.composite
def traces(draw: st.DrawFn, coarse: bool) -> Trace:
    """Three stations with two state features, a quantity and a category; a coarse one is full of ties."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(20, 45))
    columns: dict[str, Any] = {"station": np.r_[["a", "b", "c"] * 3, rng.choice(["a", "b", "c"], n - 9)]}
    columns |= {"load": rng.integers(0, 3, n) if coarse else rng.normal(5, 3, n)}
    columns |= {"users": rng.integers(0, 2, n) * 40.0 if coarse else rng.gamma(2, 100, n)}
    columns |= {"tilt": rng.choice([1, 2, 5], n), "scheduler": rng.choice(["rr", "pf", "wf"], n)}
    columns |= {"reward": rng.random(n), "time": np.arange(n)}
    return made(columns, "tilt", "scheduler")


@settings(deadline=None, max_examples=40)
@given(data=st.data(), coarse=st.booleans(), pooled=st.booleans(), k=st.integers(1, 2), seed=st.integers(0, 99))
def test_rewards_agree_with_a_plain_scan(data: st.DataObject, coarse: bool, pooled: bool, k: int, seed: int) -> None:
    trace = data.draw(traces(coarse))
    distance = data.draw(st.floats(0.1, 4))
    space = ConfigurationSpace(scheduler=["pf", "wf", "rr"], tilt=[1, 2, 3, 5])
    environment = TraceEnvironment(
        trace, space, neighbours=k, pooled=pooled, category_distance=distance, seed=seed, cache=bool(seed % 2)
    )
    for station in environment.stations:
        state = np.array(list(environment.slot.states[station].values()))
        expected = scanned(trace, space, None if pooled else station, state, k=k, category_distance=distance)
        np.testing.assert_allclose(environment.truth(station).rewards, expected, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(data=st.data(), seed=st.integers(0, 99))
def test_order_of_the_rows_does_not_matter(data: st.DataObject, seed: int) -> None:
    trace = data.draw(traces(coarse=True))
    shuffled = trace.select(np.random.default_rng(seed).permutation(len(trace)))
    answers: list[dict[tuple[Any, ...], FloatArray]] = []
    for rows in (trace, shuffled):
        environment, seen = TraceEnvironment(rows, neighbours=2), {}
        for _ in range(20):
            for station in environment.stations:
                key = (station, *environment.slot.states[station].values())
                seen[key] = environment.truth(station).rewards
            environment.play({})
        answers.append(seen)
    both = answers[0].keys() & answers[1].keys()
    assert both
    for key in both:
        np.testing.assert_allclose(answers[0][key], answers[1][key], atol=1e-12)


# --- Slots --------------------------------------------------------------------------------------------------


def smooth_trace(seed: int = 0, rows: int = 80) -> Trace:
    """Two stations that like a tilt of about 2 and of about 3, the more the higher the load."""
    rng = np.random.default_rng(seed)
    station, load, tilt = np.repeat(["a", "b"], rows), rng.random(2 * rows), rng.integers(0, 5, 2 * rows)
    best = np.where(station == "a", 2, 3) + load
    columns = {"station": station, "load": load, "users": 100 * rng.random(2 * rows), "tilt": tilt}
    return made(columns | {"reward": 1 - ((tilt - best) / 5) ** 2, "time": rng.permutation(2 * rows)}, "tilt")


def test_states_are_the_stations_own_rows_and_come_up_evenly() -> None:
    trace = smooth_trace(rows=10)
    environment, slots = TraceEnvironment(trace, neighbours=3, seed=3), 4000
    counts: dict[str, dict[tuple[float, ...], int]] = {"a": {}, "b": {}}
    for _ in range(slots):
        for station, count in counts.items():
            state = tuple(environment.slot.states[station].values())
            count[state] = count.get(state, 0) + 1
        environment.play({})
    for station, count in counts.items():
        assert set(count) == set(map(tuple, trace.state[trace.station == station].tolist()))
        standard_error = math.sqrt(slots * 0.1 * 0.9)
        assert max(abs(seen - slots / 10) for seen in count.values()) < 4 * standard_error


def test_contexts_are_the_encoded_states() -> None:
    environment = TraceEnvironment(smooth_trace(), seed=5)
    for station, state in environment.slot.states.items():
        np.testing.assert_array_equal(environment.slot.contexts[station], environment.encoder.contexts(state))


def test_a_slot_shows_the_same_after_the_next_was_entered() -> None:
    kept, watched = TraceEnvironment(smooth_trace(), seed=5), TraceEnvironment(smooth_trace(), seed=5)
    expected = {station: dict(state) for station, state in watched.slot.states.items()}
    slot = kept.slot
    for _ in range(3):
        kept.play({"a": 0})
    assert dict(slot.states) == expected
    assert "c" not in slot.states
    assert slot.states.get("c") is None


@pytest.mark.parametrize("cache", [True, False])
def test_a_second_run_searches_again_only_without_a_cache(cache: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    average = NearestRows.average

    def counted(rows: NearestRows, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        searches.append(len(points))
        return average(rows, points)

    monkeypatch.setattr(NearestRows, "average", counted)
    environment = TraceEnvironment(smooth_trace(), cache=cache)
    counts = []
    for _ in range(2):
        searches.clear()
        environment.reset(7)
        for _ in range(20):
            environment.truth("a")
            environment.play({"a": 2})
        assert set(searches) <= {environment.arms}  # all arms of a state in one search
        counts.append(len(searches))
    assert counts == ([len(set(states_shown(environment, 7, 20))), 0] if cache else [20, 20])


def states_shown(environment: TraceEnvironment, seed: int, slots: int) -> list[tuple[float, ...]]:
    """The states of station a in so many slots."""
    environment.reset(seed)
    states = []
    for _ in range(slots):
        states.append(tuple(environment.slot.states["a"].values()))
        environment.play({})
    return states


def test_truth_is_certain_and_cannot_be_changed() -> None:
    truth = TraceEnvironment(smooth_trace()).truth("a")
    assert truth.rewards is truth.expected
    with pytest.raises(ValueError, match="read-only"):
        truth.rewards[0] = 1.0


def test_ranges_are_those_of_the_rows() -> None:
    trace = smooth_trace()
    environment = TraceEnvironment(trace)
    assert environment.reward_range == (trace.reward.min(), trace.reward.max())
    assert environment.state_ranges["users"] == (trace.state[:, 1].min(), trace.state[:, 1].max())
    Controller(environment.space, environment.stations, state=environment.state_ranges)  # in the form it takes


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_controller_that_learned_the_log_beats_chance_on_the_rest(mode: Mode) -> None:
    log, rest = split_trace(smooth_trace(), rows_per_station=20)
    environment: Environment = TraceEnvironment(rest, neighbours=3)
    assert environment.space is not None
    regrets = {}
    for policy in ("ucb", "random"):
        controller = Controller.from_trace(log, environment.space, similarity="independent", policy=policy, seed=1)
        regrets[policy] = play(TraceEnvironment(rest, neighbours=3), controller, slots=60, seed=4, mode=mode).realised
    gap = regrets["random"] - regrets["ucb"]
    assert gap.mean() > 3 * gap.std() / math.sqrt(len(gap))


# --- Refusals -----------------------------------------------------------------------------------------------


def test_too_few_rows_name_the_station_its_rows_and_the_remedy() -> None:
    trace = smooth_trace().select([*range(5), *range(80, 100)])
    with pytest.raises(
        BadInputError, match=r"station 'a' has 5 row\(s\), 5 neighbour\(s\) need at least 6.*give more rows"
    ):
        TraceEnvironment(trace)
    TraceEnvironment(trace, stations=["b"])
    TraceEnvironment(trace, neighbours=4)
    TraceEnvironment(trace, pooled=True)


def test_one_row_per_station_is_refused_even_for_one_neighbour() -> None:
    with pytest.raises(BadInputError, match=r"station 'a' has 1 row\(s\).*every configuration would earn the same"):
        TraceEnvironment(smooth_trace().select([0, 80]), neighbours=1)
    with pytest.raises(BadInputError, match=r"the trace has 2 row\(s\), 2 neighbour\(s\) need at least 3"):
        TraceEnvironment(smooth_trace().select([0, 80]), neighbours=2, pooled=True)


def test_a_station_that_is_not_in_the_trace_is_refused() -> None:
    with pytest.raises(NotFoundError, match="the trace has no row of station 'c': leave it out of stations"):
        TraceEnvironment(smooth_trace(), stations=["a", "c"])
    for stations in ([], ["a", "a"]):
        with pytest.raises(BadInputError, match="stations must be different names"):
            TraceEnvironment(smooth_trace(), stations=stations)


def test_rows_outside_the_space_are_refused() -> None:
    with pytest.raises(NotFoundError, match=r"row\(s\) hold a configuration outside the space.*no value 4"):
        TraceEnvironment(smooth_trace(), ConfigurationSpace(tilt=range(4)))
    with pytest.raises(BadInputError, match=r"the configuration columns are \['tilt'\], the space has .*power"):
        TraceEnvironment(smooth_trace(), ConfigurationSpace(power=range(4)))


@pytest.mark.parametrize("neighbours", [0, 2.5, True])
def test_neighbours_must_be_a_positive_whole_number(neighbours: Any) -> None:
    with pytest.raises(BadInputError, match="neighbours must be a whole number of at least 1"):
        TraceEnvironment(smooth_trace(), neighbours=neighbours)


def test_categories_need_a_positive_distance() -> None:
    with pytest.raises(BadInputError, match="category_distance must be above zero"):
        TraceEnvironment(smooth_trace(), ConfigurationSpace(tilt=Categories(range(5))), category_distance=0)


# --- Splits -------------------------------------------------------------------------------------------------


def test_the_log_is_earlier_than_the_rest_station_by_station() -> None:
    trace = smooth_trace()
    log, rest = split_trace(trace, rows_per_station=13)
    assert len(log) + len(rest) == len(trace)
    assert trace.time is not None
    assert log.time is not None
    assert rest.time is not None
    for station in trace.stations:
        early, late = log.time[log.station == station], rest.time[rest.station == station]
        assert len(early) == 13
        assert early.max() < late.min()
        assert sorted([*early, *late]) == sorted(trace.time[trace.station == station])


def test_splitting_at_a_time_is_the_traces_own_split() -> None:
    trace = smooth_trace()
    assert split_trace(trace, at=70) == trace.split(70)


def test_rows_of_one_group_stay_together() -> None:
    trace = smooth_trace()
    groups = np.tile(np.repeat([f"run {run}" for run in range(16)], 5), 2)
    run_of = dict(zip(trace.reward.tolist(), groups.tolist(), strict=True))
    log, rest = split_by_group(trace, groups, share=0.25, rng=np.random.default_rng(8))
    logged, left = ({run_of[reward] for reward in part.reward.tolist()} for part in (log, rest))
    assert len(logged) == 4
    assert len(left) == 12
    assert not logged & left
    assert len(log) == 4 * 10
    again, _ = split_by_group(trace, groups, share=0.25, rng=np.random.default_rng(8))
    assert again == log


@pytest.mark.parametrize(("share", "expected"), [(1e-6, 1), (0.999, 2)])
def test_either_side_gets_at_least_one_group(share: float, expected: int) -> None:
    trace = smooth_trace(rows=9)
    log, _ = split_by_group(trace, np.tile(np.repeat([1, 2, 3], 3), 2), share=share, rng=np.random.default_rng(0))
    assert len(log) == 6 * expected


def test_bad_splits_are_refused() -> None:
    trace, rng = smooth_trace(), np.random.default_rng(0)
    timeless = made({"station": ["a"] * 3, "tilt": [1, 2, 3], "reward": [0.1, 0.2, 0.3]}, "tilt")
    for arguments in ({}, {"rows_per_station": 3, "at": 7}):
        with pytest.raises(BadInputError, match="give one of them"):
            split_trace(trace, **arguments)
    with pytest.raises(BadInputError, match="the trace has no time to be split by"):
        split_trace(timeless, rows_per_station=1)
    with pytest.raises(BadInputError, match=r"station 'a' has 80 row\(s\), a log of 80 leaves none to play on"):
        split_trace(trace, rows_per_station=80)
    with pytest.raises(BadInputError, match="rows_per_station must be a whole number of at least 1"):
        split_trace(trace, rows_per_station=0)
    with pytest.raises(BadInputError, match="groups must be 160 labels, one per row"):
        split_by_group(trace, ["run"], share=0.5, rng=rng)
    with pytest.raises(BadInputError, match="all rows are of one group, 7"):
        split_by_group(trace, [7] * 160, share=0.5, rng=rng)
    for share in (0, 1, 1.5):
        with pytest.raises(BadInputError, match="share must lie between 0 and 1"):
            split_by_group(trace, [7] * 160, share=share, rng=rng)


def test_a_split_that_loses_a_station_is_refused() -> None:
    trace, rng = smooth_trace(), np.random.default_rng(0)
    with pytest.raises(BadInputError, match=r"all rows of station '.' fall into the (log|rest): change share"):
        split_by_group(trace, trace.station, share=0.5, rng=rng)
    columns = {"station": ["a", "a", "b"], "time": [1, 5, 6], "tilt": [1, 2, 3], "reward": [0.1, 0.2, 0.3]}
    with pytest.raises(BadInputError, match="all rows of station 'b' fall into the rest: choose another time"):
        split_trace(made(columns, "tilt"), at=4)
