"""A fleet speaks a controller's words for all its shards; a call happens as a whole or not at all."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Decision, Range, Trace
from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError, NotPositiveDefiniteError
from kinband.fleet import Fleet, FleetError, InProcess, OnRay, Shards, shard_stations
from kinband.fleet.engine import one_blas_thread
from kinband.fleet.shards import shard_seed
from kinband.kernels import RBF
from kinband.policies import Policy, Setting
from kinband.policies.ucb import UCB
from kinband.records import Observation, Samples

RNG = np.random.default_rng(31)
SPACE = ConfigurationSpace(threshold_dbm=range(-100, -90))
STATIONS = [f"st{m:02d}" for m in range(11)]


def shards(size: int = 4) -> Shards:
    Z = np.random.default_rng(5).normal(size=(len(STATIONS), 2))
    K_Z = np.exp(-0.3 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    return shard_stations(K_Z, stations=STATIONS, size=size)


def make(**changes: Any) -> Fleet:
    options: dict[str, Any] = {
        "state": {"load": (0.0, 1.3), "users": (0.0, 70.0)},
        "kernel": RBF(0.8, variance=0.31),
        "noise": 0.043,
        "mean": 0.61,
        "beta": 1.7,
        "seed": 12,
    }
    return Fleet(SPACE, changes.pop("shards", shards()), **(options | changes))


def states(seed: int, stations: list[str] = STATIONS) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    return {s: {"load": float(rng.uniform(0, 1.3)), "users": float(rng.uniform(0, 70))} for s in stations}


def rewards(decisions: Mapping[str, Decision]) -> dict[str, float]:
    return {d.id: float(np.sin(3.0 * d.arm + len(d.station))) for d in decisions.values()}


def play(fleet: Fleet, rounds: int, *, first: int = 0) -> list[dict[str, Decision]]:
    played = []
    for number in range(first, first + rounds):
        played.append(fleet.ask_all(states(number)))
        fleet.tell_all(rewards(played[-1]))
    return played


def raising(when: Callable[[Observation | None], bool], error: BaseException) -> Callable[[Setting], Policy]:
    """Return a UCB whose work fails when the test says so."""

    class Fragile(UCB):
        def choose_round(self, *arguments: Any) -> Any:
            if when(None):
                raise error
            return super().choose_round(*arguments)

        def learn(self, observation: Observation) -> None:
            if when(observation):
                raise error
            super().learn(observation)

    return Fragile.build


def test_every_shard_decides_as_its_controller_would_alone() -> None:
    fleet, parts = make(), shards()
    assert fleet.shards == tuple(part.stations for part in parts.parts)
    assert fleet.stations == parts.stations
    alone = [
        Controller(
            SPACE, part.stations, state={"load": (0.0, 1.3), "users": (0.0, 70.0)}, similarity=part, noise=0.043,
            kernel=RBF(0.8, variance=0.31), mean=0.61, beta=1.7, seed=shard_seed(12, shard),
        )
        for shard, part in enumerate(parts.parts)
    ]  # fmt: skip
    for number in range(4):
        given = states(number)
        together = fleet.ask_all(given)
        assert list(together) == list(given)
        fleet.tell_all(rewards(together))
        for shard, controller in enumerate(alone):
            apart = controller.ask_all({s: given[s] for s in given if s in controller.stations})
            for station, decision in apart.items():
                assert together[station].id == f"s{shard:03d}-{decision.id}"
                assert together[station].alternatives == decision.alternatives
                controller.tell(decision.id, rewards(together)[together[station].id])


def test_ids_are_unique_and_the_same_every_time() -> None:
    one, two = play(make(), 3), play(make(), 3)
    assert one == two
    ids = [decision.id for decided in one for decision in decided.values()]
    assert len(set(ids)) == len(ids) == 3 * len(STATIONS)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_decisions_do_not_depend_on_the_number_of_threads(threads: int) -> None:
    assert play(make(on=InProcess(threads=threads)), 3) == play(make(on=InProcess(threads=3)), 3)


def test_shards_draw_different_numbers() -> None:
    flat = make(policy="random", shards=shard_stations(np.eye(8), stations=STATIONS[:8], size=1))
    arms = {decision.arm for decision in flat.ask_all(states(0, STATIONS[:8])).values()}
    # Eight stations draw one of ten arms: that all draw the same has probability 1e-7.
    assert len(arms) > 1


def test_one_station_and_one_reward_at_a_time() -> None:
    fleet = make()
    decision = fleet.ask("st03", states(1)["st03"], allowed={"threshold_dbm": Range(-95, -93)})
    assert fleet.pending == [decision.id]
    assert decision.configuration is not None
    assert -95 <= decision.configuration["threshold_dbm"] <= -93
    fleet.tell(decision.id, 0.4, noise=0.02)
    assert (len(fleet), fleet.pending, fleet.reward(decision.id)) == (1, [], 0.4)
    assert fleet.decision(decision.id) == decision


def test_a_round_may_be_of_some_stations_with_some_configurations() -> None:
    fleet = make()
    decided = fleet.ask_all(states(3, ["st07", "st00"]), allowed={"st00": [2]})
    assert list(decided) == ["st07", "st00"]
    assert decided["st00"].arm == 2


def test_context_rows_are_another_way_to_ask() -> None:
    fleet = make(state=(), features=["x", "y"], kernel=RBF(0.4))
    rows = {station: RNG.normal(size=(len(SPACE), 2)) for station in STATIONS}
    decided = fleet.ask_all(contexts=rows)
    assert set(decided) == set(STATIONS)
    assert fleet.ask("st01", contexts=rows["st01"]).station == "st01"


def test_explanations_are_a_controllers_under_the_fleets_id() -> None:
    fleet = make()
    decision = fleet.ask("st05", states(2)["st05"])
    fleet.tell(decision.id, 0.875)
    reason = fleet.explain(decision.id)
    assert reason.id == reason.decision.id == decision.id
    assert str(reason).startswith("st05 should run threshold_dbm=")
    assert str(reason).endswith("It earned 0.875.")


def test_corrections_and_calls_off_reach_their_shard() -> None:
    wrong, right = make(), make()
    for fleet in (wrong, right):
        decided = fleet.ask_all(states(0))
        told = rewards(decided)
        dropped = decided["st09"].id
        fleet.call_off(dropped)
        fleet.call_off(dropped)
        assert dropped not in fleet.pending
        del told[dropped]
        first = decided["st01"].id
        fleet.tell_all(told | ({first: told[first] + 3.0} if fleet is wrong else {}))
        if fleet is wrong:
            fleet.correct(first, told[first])
    for one, two in zip(wrong.ask_all(states(1)).values(), right.ask_all(states(1)).values(), strict=True):
        assert one.arm == two.arm
        assert one.mean == pytest.approx(two.mean)
        assert one.std == pytest.approx(two.std)


def test_a_log_is_split_among_the_shards() -> None:
    parts = shards()
    stations = parts.stations[::-1]
    n = 60
    log = Samples(
        stations, RNG.integers(0, len(stations), n), RNG.normal(size=(n, 3)), RNG.random(n), None,
        ("load", "users", "threshold_dbm"), arms=RNG.integers(0, 10, n),
    )  # fmt: skip
    fleet = make(log=log)
    for part in parts.parts:
        mine = np.isin(np.array(stations)[log.tasks], part.stations)
        decision = fleet.ask(part.stations[0], states(0)[part.stations[0]])
        assert decision.known == mine.sum()
    with pytest.raises(NotFoundError, match=r"1 station\(s\) that are in no shard, such as 'zz'"):
        make(log=Samples(("zz",), np.zeros(1, dtype=np.int64), np.zeros((1, 3)), np.zeros(1), None, log.features))


def test_a_bad_state_in_one_shard_leaves_all_shards_as_they_were() -> None:
    asked = 0

    def count(seen: Observation | None) -> bool:
        nonlocal asked
        asked += seen is None
        return False

    fleet, twin = make(policy=raising(count, RuntimeError("never"))), make()
    play(fleet, 2)
    play(twin, 2)
    before = asked
    bad = states(7) | {"st10": {"load": 0.3}}
    with pytest.raises(BadInputError, match="lacks 'users'"):
        fleet.ask_all(bad)
    with pytest.raises(NotFoundError, match="unknown station 'nowhere'"):
        fleet.ask_all(states(7) | {"nowhere": {}})
    assert fleet.pending == []
    assert asked == before  # found at the door: no shard had begun
    assert play(fleet, 2, first=2) == play(twin, 2, first=2)


def test_rewards_are_told_all_or_none() -> None:
    fleet, twin = make(reward_range=(-1.0, 1.0)), make(reward_range=(-1.0, 1.0))
    decided = fleet.ask_all(states(0))
    twin.ask_all(states(0))
    good = rewards(decided)
    last = decided["st10"].id
    with pytest.raises(BadInputError, match="outside the declared range"):
        fleet.tell_all(good | {last: 17.0})
    with pytest.raises(BadInputError, match="noise must be above zero"):
        fleet.tell_all(good, noise={last: -1.0})
    assert len(fleet) == 0
    fleet.tell_all(good)
    twin.tell_all(good)
    assert play(fleet, 1, first=1) == play(twin, 1, first=1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "error", [NotPositiveDefiniteError("lost"), RuntimeError("a bug"), KeyboardInterrupt("Ctrl-C")]
)
def test_a_failure_in_the_middle_of_telling_is_as_if_nothing_had_been_told(threads: int, error: BaseException) -> None:
    failing = False
    policy = raising(lambda seen: failing and seen is not None and seen.task == 1, error)
    fleet, twin = make(policy=policy, on=InProcess(threads=threads)), make()
    play(fleet, 2)
    play(twin, 2)
    told = rewards(fleet.ask_all(states(2)))
    twin.ask_all(states(2))
    failing = True
    with pytest.raises(type(error), match=str(error)):
        fleet.tell_all(told)
    failing = False
    assert len(fleet) == len(twin)
    assert sorted(fleet.pending) == sorted(told)
    for both in (fleet, twin):
        both.tell_all(told)
    assert play(fleet, 2, first=3) == play(twin, 2, first=3)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_in_the_middle_of_a_round_is_as_if_nothing_had_been_asked(threads: int) -> None:
    asked = learned = 0

    def third_of_a_round(seen: Observation | None) -> bool:
        nonlocal asked, learned
        asked, learned = asked + (seen is None), learned + (seen is not None)
        return seen is None and asked in (9, 12)

    fleet, twin = make(policy=raising(third_of_a_round, RuntimeError("a bug")), on=InProcess(threads=threads)), make()
    assert len(fleet.shards) == 3
    assert play(fleet, 2) == play(twin, 2)
    before = learned
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a bug"):
            fleet.ask_all(states(2))
    assert fleet.pending == []
    decided = fleet.ask_all(states(2))
    assert decided == twin.ask_all(states(2))
    assert learned == before  # asking teaches nothing, so there was nothing to learn anew
    for both in (fleet, twin):
        both.tell_all(rewards(decided))
    assert play(fleet, 2, first=3) == play(twin, 2, first=3)


def test_blas_has_one_thread_meanwhile_and_what_it_had_afterwards() -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    def counts() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        assert counts() == {2}
        with one_blas_thread():
            with one_blas_thread():
                assert counts() == {1}
            assert counts() == {1}
        assert counts() == {2}


def test_a_fleet_learns_from_a_log_block_by_block() -> None:
    n = 240
    stations = np.array([f"n{m}" for m in range(4)] + [f"s{m}" for m in range(4)])[np.arange(n) % 8]
    best = np.where(np.char.startswith(stations, "n"), 1, 3)
    tilt = RNG.integers(0, 5, n)
    columns = {"station": stations, "load": RNG.random(n), "tilt": tilt, "reward": 0.9 - 0.1 * (tilt - best) ** 2}
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    blocks = {name: name[0] for name in trace.stations}
    fleet = Fleet.from_trace(trace, similarity="pooled", blocks=blocks, size=3, noise=0.01, beta=0.1, seed=4)
    assert [len(shard) for shard in fleet.shards] == [3, 1, 3, 1]
    assert all(len({name[0] for name in shard}) == 1 for shard in fleet.shards)
    assert fleet.lost is None
    decided = fleet.ask_all({name: {"load": 0.4} for name in fleet.stations})
    assert {name: decision.arm for name, decision in decided.items()} == {
        name: 1 if name[0] == "n" else 3 for name in fleet.stations
    }
    whole = Fleet.from_trace(trace, similarity="pooled", size=4, start=False, noise=0.01)
    assert whole.lost == pytest.approx(1 - 12 / 28)
    assert whole.ask("n0", {"load": 0.2}).known == 0
    with pytest.raises(NotFoundError, match="does not say where station 'n0' belongs"):
        Fleet.from_trace(trace, blocks={})


def test_what_is_not_known_is_named_as_the_caller_knows_it() -> None:
    fleet = make()
    decision = fleet.ask("st02", states(0)["st02"])
    shard = decision.id.partition("-")[0]
    for bad in ("d000001", f"{shard}-d000099", "s999-d000001", "", None):
        with pytest.raises(NotFoundError, match=f"no decision has the id {bad!r}"):
            fleet.explain(bad)  # type: ignore[arg-type]
    with pytest.raises(ConflictError, match=f"decision {decision.id} has no reward yet"):
        fleet.correct(decision.id, 0.5)
    fleet.tell(decision.id, 0.5)
    with pytest.raises(ConflictError, match=f"decision {decision.id} was already told the reward 0.5"):
        fleet.tell(decision.id, 0.6)


def test_nonsense_is_refused_with_a_sentence() -> None:
    fleet = make()
    with pytest.raises(BadInputError, match="either states or contexts"):
        fleet.ask_all()
    with pytest.raises(BadInputError, match="for no station"):
        fleet.ask_all({})
    with pytest.raises(BadInputError, match="states must be given by station"):
        fleet.ask_all(["st01"])  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="allowed names stations that are not asked for: st09"):
        fleet.ask_all(states(0, ["st01"]), allowed={"st09": [1]})
    with pytest.raises(BadInputError, match="as mappings"):
        fleet.tell_all([("s000-d000001", 0.5)])  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="noise names decisions that have no reward here: s000-d000001"):
        fleet.tell_all({}, noise={"s000-d000001": 0.1})
    with pytest.raises(BadInputError, match="shards must be Shards, got list"):
        make(shards=[["a"]])
    with pytest.raises(BadInputError, match="at least one shard"):
        Fleet.from_settings([])
    with pytest.raises(BadInputError, match="named twice"):
        Fleet.from_settings([Controller(SPACE, ["a"]).settings] * 2)
    with pytest.raises(BadInputError, match="threads must be at least 1"):
        InProcess(threads=0)
    with pytest.raises(BadInputError, match="seed must be a whole number"):
        make(seed=-1)


def test_a_fleet_that_cannot_work_fails_when_it_is_made() -> None:
    with pytest.raises(BadInputError, match="no option 'horizont'"):
        make(options={"horizont": 3})


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FleetError, match=r"Ray is not installed: pip install 'kinband\[ray\]'"):
        make(on=OnRay())


def test_a_closed_fleet_can_be_read_but_not_asked() -> None:
    with make() as fleet:
        decision = fleet.ask("st02", states(0)["st02"])
    assert fleet.decision(decision.id) == decision
    with pytest.raises(FleetError, match="has been closed"):
        fleet.tell(decision.id, 0.5)
    assert isinstance(FleetError("x"), KinbandError)  # which the command line turns into a sentence and exit code 2
