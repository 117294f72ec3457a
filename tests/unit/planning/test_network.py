"""Networks of any size: who learns together, every row counts, and processes change nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden.record import same

from kinband import ConfigurationSpace, Trace
from kinband.errors import BadInputError, KinbandError, NotFoundError
from kinband.guardrails import Rails
from kinband.planning import NetworkModel, Present, latest, learn_network, periods_of, plan_network, planned_for
from kinband.planning import network as module
from kinband.planning.making import Group, plan_group
from kinband.planning.network import planning_cost, shards_of, similar_groups
from kinband.similarity.shards import Shards, load_similarity

BEST = (1, 4)  # best tilt of the two kinds of stations


def log(stations: int = 12, hours: int = 24, *, seed: int = 0) -> Trace:
    """Stations of two kinds, which ran a tilt at random every hour and at last 2."""
    rng = np.random.default_rng(seed)
    tilt = rng.integers(0, 6, (stations, hours))
    tilt[:, -1] = 2
    best = np.array(BEST)[np.arange(stations) % 2]
    reward = 1.0 - 0.1 * (tilt - best[:, None]) ** 2 + 0.02 * rng.normal(size=tilt.shape)
    names = [f"s{m:03d}" for m in range(stations)]
    time = np.datetime64("2024-03-04T00:00") + np.arange(hours).astype("m8[h]")
    table = {"station": np.repeat(names, hours), "time": np.tile(time, stations), "tilt": tilt.ravel()}
    return Trace.from_frame({**table, "reward": reward.ravel()}, {"configuration": ["tilt"]})


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of at most four stations, learned from six."""
    for name, value in {"GROUP_STATIONS": 4, "SMALLEST": 3, "GROUP_ROWS": 96, "_SOME": 6}.items():
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> NetworkModel:
    small(monkeypatch)
    return learn_network(log())


def test_stations_that_answer_alike_learn_together(network: NetworkModel) -> None:
    assert [len(group) for group in network.groups] == [4, 4, 4]
    assert sorted(np.concatenate(network.groups).tolist()) == list(range(12))
    kinds = [set((group % 2).tolist()) for group in network.groups]
    assert sum(len(kind) == 1 for kind in kinds) >= 2  # six of a kind fill one group and a half


def test_every_station_gets_the_best_setting_of_its_kind(network: NetworkModel) -> None:
    now = latest(log())
    plan = plan_network(network, now, workers=1)
    assert {change.station: change.proposed["tilt"] for change in plan.changes} == {
        name: BEST[m % 2] for m, name in enumerate(network.stations)
    }
    assert all(change.own_rows == 24 for change in plan.changes)  # every row counts


def test_stations_of_a_group_are_alike_halfway_from_what_their_rows_say_to_those_drawn_at_random(
    network: NetworkModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, seen = network.reward.model.similarity.details["shared"], []
    found = [shards.matrix for shards in shards_of(network, workers=1).parts]

    def planned(group: Group, *_: Any) -> list[Any]:
        seen.append(group.K_Z)
        return plan_group(group, *_)

    monkeypatch.setattr(module, "plan_group", planned)
    plan_network(network, latest(log()), workers=1)
    assert len(seen) == len(found) == 3
    for K_Z, own in zip(seen, found, strict=True):
        np.testing.assert_allclose(K_Z, (own + share + (1.0 - share) * np.eye(4)) / 2.0)


def test_processes_change_nothing(network: NetworkModel) -> None:
    now = planned_for(latest(log()), periods_of(log()))
    alone, spread = (plan_network(network, now, workers=workers).to_dict() for workers in (1, 2))
    assert same(spread, alone, tolerance=1e-9) == []  # BLAS may round otherwise with another number of threads


def test_each_group_is_told_of_when_it_is_done(network: NetworkModel) -> None:
    done: list[int] = []
    plan_network(network, latest(log()), workers=1, tick=done.append)
    assert done == [4, 4, 4]


def test_a_small_network_is_one_group() -> None:
    found = learn_network(log())
    assert [group.tolist() for group in found.groups] == [list(range(12))]
    assert found.method == "joint"


def test_stations_without_rows_are_left_alone(network: NetworkModel) -> None:
    plan = plan_network(network, {"nobody": Present({}, {"tilt": 2})}, workers=1)
    assert [(left.station, left.why) for left in plan.left_alone] == [("nobody", "not in the log")]


def test_neighbours_do_not_change_together_where_rails_say_so(network: NetworkModel) -> None:
    rails = Rails(neighbours={"s000": frozenset({"s001"})}, neighbours_together=False)
    plan = plan_network(network, latest(log()), rails=rails, workers=1)
    (left,) = plan.left_alone
    assert (left.station in ("s000", "s001"), left.why) == (True, "beside a change")
    assert "not both may at once" in left.reason


def test_rails_limit_how_many_change(network: NetworkModel) -> None:
    plan = plan_network(network, latest(log()), rails=Rails(per_round=5), max_changes=9, workers=1)
    assert len(plan.changes) == 5
    assert {left.why for left in plan.left_alone} == {"beyond the limit"}
    assert (
        min(change.gain.value for change in plan.changes)
        >= max(left.gain.value for left in plan.left_alone if left.gain is not None) - 1e-12
    )


def test_steps_and_stop_are_refused_before_any_work(network: NetworkModel) -> None:
    with pytest.raises(KinbandError, match="no knob 'power'"):
        plan_network(network, latest(log()), steps={"power": 1.0})
    with pytest.raises(BadInputError, match="stop switch"):
        plan_network(network, latest(log()), rails=Rails(stop=True))


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_about_as_large_as_each_other(seed: int) -> None:
    P = np.random.default_rng(seed).normal(size=(101, 3))
    sizes = [len(group) for group in similar_groups(P, size=20)]
    assert sum(sizes) == 101
    assert max(sizes) <= 20
    assert min(sizes) >= 15


def test_the_hour_of_the_day_is_a_state_of_logs_with_dates() -> None:
    rng = np.random.default_rng(5)
    hours = np.tile(np.arange(96), 2)
    tilt = rng.integers(0, 3, len(hours))
    night = hours % 24 < 12  # which no state column tells
    reward = 1.0 - 0.2 * np.abs(tilt - np.where(night, 0, 2)) + 0.02 * rng.normal(size=len(hours))
    time = np.datetime64("2024-03-04T00") + hours.astype("m8[h]")
    table = {"station": np.repeat(["a", "b"], 96), "time": time, "tilt": tilt, "reward": reward}
    trace = Trace.from_frame(table, {"configuration": ["tilt"]})
    found = learn_network(trace)
    for chosen, best in ((range(12), 0), (range(12, 24), 2)):
        now = {name: Present({}, {"tilt": 1}) for name in ("a", "b")}
        plan = plan_network(found, planned_for(now, periods_of(trace, list(chosen))), workers=1)
        assert [change.proposed["tilt"] for change in plan.changes] == [best, best]
    assert not plan_network(found, now, workers=1).changes  # at an hour that is not known


def test_settings_that_nobody_ran_may_be_in_the_space_but_are_not_proposed(network: NetworkModel) -> None:
    wide = learn_network(log(), ConfigurationSpace(tilt=range(9)))
    plan = plan_network(wide, latest(log()), workers=1)
    assert {change.proposed["tilt"] for change in plan.changes} == set(BEST)


# --- How alike stations are, group by group -------------------------------------------------------------------------


def test_every_group_is_compared_within_and_the_rest_estimated_from_some_stations(network: NetworkModel) -> None:
    shards = shards_of(network, workers=1)
    assert [part.stations for part in shards.parts] == [
        tuple(network.stations[m] for m in group) for group in network.groups
    ]
    assert shards.sampled
    assert shards.within > shards.between


def test_a_similarity_in_groups_is_read_back_and_planned_by(network: NetworkModel, tmp_path: Path) -> None:
    shards = shards_of(network, workers=1)
    shards.save(tmp_path / "similarity.npz")
    again = load_similarity(tmp_path / "similarity.npz")
    assert isinstance(again, Shards)
    assert [part.stations for part in again.parts] == [part.stations for part in shards.parts]
    assert all(np.array_equal(a.matrix, b.matrix) for a, b in zip(again.parts, shards.parts, strict=True))
    given = learn_network(log(), similarity=again)
    assert {tuple(group.tolist()) for group in given.groups} == {tuple(group.tolist()) for group in network.groups}
    assert given.method == "joint"
    plan = plan_network(given, latest(log()), workers=1)
    assert {change.proposed["tilt"] for change in plan.changes} == set(BEST)


def test_stations_that_a_file_does_not_know_are_refused(network: NetworkModel) -> None:
    with pytest.raises(NotFoundError, match="no station 's012'"):
        learn_network(log(13), similarity=shards_of(network, workers=1))


def test_a_few_stations_of_a_file_are_one_network_again(network: NetworkModel) -> None:
    few = learn_network(log(4), similarity=shards_of(network, workers=1))
    assert few.method == "joint"
    assert sorted(np.concatenate(few.groups).tolist()) == [0, 1, 2, 3]


def test_groups_have_the_size_that_is_asked_for(network: NetworkModel) -> None:
    del network  # which makes groups small
    assert [len(group) for group in learn_network(log(), together=6, size=6).groups] == [6, 6]
    assert [len(group) for group in learn_network(log(), together=12).groups] == [12]


def test_a_plan_costs_less_on_more_cores_and_more_memory(network: NetworkModel) -> None:
    (slow, small), (fast, large) = planning_cost(network, workers=1), planning_cost(network, workers=3)
    assert fast == pytest.approx(slow / 3)
    assert large == pytest.approx(3 * small)
