"""A controller with shards: stations of a shard learn together, and nobody learns from another shard."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.errors import BadInputError
from kinband.kernels import RBF, BlockMatrix, components, in_blocks, same_matrix
from kinband.records import Decision
from kinband.similarity import TaskMatrix

SPACE = ConfigurationSpace(tilt=range(7))
STATIONS = [f"s{m}" for m in range(9)]
GIVEN: dict[str, Any] = {"kernel": RBF(0.8, variance=0.3), "noise": 0.02, "mean": 0.5, "beta": 0.7}


def similarity() -> Any:
    Z = np.random.default_rng(4).normal(size=(9, 2))
    return np.exp(-0.4 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))


def make(**changes: Any) -> Controller:
    given = {"shards": 4, "similarity": similarity()} | GIVEN | changes
    return Controller(SPACE, STATIONS, state=["load"], **given)


def reward(station: str, arm: int, load: float) -> float:
    return float(np.cos(arm - 3 + load) + 0.1 * int(station[1:]))


def play(controller: Controller, rounds: int) -> list[Decision]:
    made: list[Decision] = []
    for t in range(rounds):
        states = {s: {"load": 0.1 * ((t + m) % 10)} for m, s in enumerate(STATIONS) if s in controller.stations}
        allowed = dict.fromkeys(states, (0, 6)) if t else dict.fromkeys(states, (t,))  # the first picks are no ties
        decided = controller.ask_all(states, allowed=allowed if t < 2 else None)
        controller.tell_all({d.id: reward(s, d.arm, states[s]["load"]) for s, d in decided.items()})
        made += decided.values()
    return made


def shards_of(controller: Controller) -> list[list[str]]:
    return [[controller.current.stations[m] for m in shard] for shard in components(controller.current.K_Z)]


def scores(decisions: list[Decision], station: str) -> list[tuple[int, float | None, float | None]]:
    return [(d.arm, d.mean, d.std) for d in decisions if d.station == station]


def test_every_shard_decides_as_a_controller_of_its_own_would() -> None:
    together = make()
    made, whole = play(together, 6), similarity()
    assert len(shards_of(together)) > 1
    assert max(map(len, shards_of(together))) <= 4
    for shard in shards_of(together):
        at = [STATIONS.index(name) for name in shard]
        alone = Controller(SPACE, shard, state=["load"], similarity=whole[np.ix_(at, at)], **GIVEN)
        apart = play(alone, 6)
        for name in shard:
            for one, other in zip(scores(made, name), scores(apart, name), strict=True):
                assert one == pytest.approx(other, abs=1e-9)


def test_shards_that_hold_everybody_change_nothing() -> None:
    plain, sharded = play(make(shards=None), 3), play(make(shards=9), 3)
    assert [(d.arm, d.mean, d.std) for d in plain] == [(d.arm, d.mean, d.std) for d in sharded]


def test_a_newcomer_joins_the_shard_of_the_station_it_is_most_like() -> None:
    controller = make()
    play(controller, 2)
    before = shards_of(controller)
    home, elsewhere = before[0][0], before[1][0]
    controller.add_station("n0", similarity={home: 0.8, elsewhere: 0.3})
    controller.add_station("n1")
    after = shards_of(controller)
    assert len(after) == len(before)
    assert "n0" in next(shard for shard in after if home in shard)
    assert sum("n1" in shard for shard in after) == 1
    similarity = controller.current.K_Z[-1, :-1]
    assert 0 < similarity.max() < 0.5  # nothing says that it belongs to the shard it joins
    controller.tell(controller.ask("n0", {"load": 0.2}).id, 0.4)


def test_shards_are_part_of_what_is_saved(tmp_path: Path) -> None:
    controller = make()
    play(controller, 2)
    controller.save(tmp_path / "state")
    again = Controller.load(tmp_path / "state")
    assert again.setup.config.shards == 4
    assert shards_of(again) == shards_of(controller)
    one, other = (c.ask("s3", {"load": 0.3}) for c in (again, controller))
    assert (one.arm, one.mean, one.std) == pytest.approx((other.arm, other.mean, other.std))


def test_shards_learned_from_a_log_hold_similar_stations() -> None:
    rng = np.random.default_rng(0)
    kinds, rows = np.arange(12) % 2, 60
    station = np.repeat([f"c{m:02d}" for m in range(12)], rows)
    load, tilt = rng.random(12 * rows), rng.integers(0, 7, 12 * rows)
    earned = 0.5 - 0.05 * (tilt - np.repeat(np.where(kinds == 1, 1, 5), rows)) ** 2 + 0.02 * rng.normal(size=12 * rows)
    log = {"station": station, "load": load, "tilt": tilt, "reward": earned}
    controller = Controller.from_trace(Trace.from_frame(log, {"configuration": ["tilt"]}), shards=6)
    assert sorted(map(sorted, shards_of(controller))) == [
        [f"c{m:02d}" for m in range(0, 12, 2)],
        [f"c{m:02d}" for m in range(1, 12, 2)],
    ]
    assert "12 stations in 2 shards of 6" in controller.setup.notes["shards"]


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "many"])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(BadInputError, match="whole number of stations") as caught:
        make(shards=size)
    assert caught.value.argument == "shards"


def test_the_paper_has_no_shards() -> None:
    with pytest.raises(BadInputError, match="paper"):
        make(paper=True, mean=None)


# --- The task matrix of shards is kept in blocks --------------------------------------------------------------------


def in_both_forms(seed: int, **changes: Any) -> list[Controller]:
    """Two controllers of the same scattered shards: one with the whole task matrix, one with its blocks alone."""
    rng = np.random.default_rng(seed)
    of, Z = rng.integers(0, 3, len(STATIONS)), rng.normal(size=(len(STATIONS), 2))
    apart = np.exp(-0.4 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2)) * np.equal.outer(of, of)
    sites = {name: {"x": float(x), "kind": "ab"[int(y > 0)]} for name, (x, y) in zip(STATIONS, Z, strict=True)}
    both = (apart, TaskMatrix(STATIONS, in_blocks(apart), "given"))
    return [
        Controller(SPACE, STATIONS, state=["load"], similarity=K, descriptors=sites, **GIVEN, **changes) for K in both
    ]


def test_blocks_decide_as_the_whole_matrix_does_whoever_comes_and_goes(tmp_path: Path) -> None:
    for seed, engine in enumerate(("exact", "sparse", "exact", "schur")):
        lives = in_both_forms(seed, engine=engine)
        assert isinstance(lives[1].current.K_Z, BlockMatrix)
        made = [play(one, 3) for one in lives]
        for number, one in enumerate(lives):
            one.add_station("n0", similarity={"s0": 0.5})
            one.add_station("n1", descriptors={"x": 0.1, "kind": "a"})
            one.add_station("n2")
            if engine != "sparse":  # which has kept no rows to join
                one.add_station("n3", similarity={"s1": 0.3, "s2": 0.2, "s4": 0.1})
            one.remove_station("s5")
            made[number] += play(one, 2)
            one.save(tmp_path / f"{seed}-{number}")
            for rebuild in (False, True):
                again = Controller.load(tmp_path / f"{seed}-{number}", rebuild=rebuild)
                asked = [again.ask(name, {"load": 0.4}) for name in ("n0", "n1", "n2", "s0", "s8")]
                made[number] += asked
                assert isinstance(again.current.K_Z, BlockMatrix) == (number == 1)
            assert shards_of(one) == shards_of(lives[0])
            assert set(map(frozenset, one.similarity.groups())) == set(map(frozenset, lives[0].similarity.groups()))
        for name in (*STATIONS, "n0", "n1", "n2"):
            for one_, other in zip(scores(made[1], name), scores(made[0], name), strict=True):
                assert one_ == pytest.approx(other, abs=1e-12)


def test_whatever_was_found_of_shards_is_kept_in_blocks() -> None:
    controller = make()
    assert isinstance(controller.setup.K_Z, BlockMatrix)
    again = make(similarity=controller.similarity)
    assert same_matrix(again.setup.K_Z, controller.setup.K_Z)


def test_nothing_grows_with_the_square_of_the_stations(tmp_path: Path) -> None:
    count, size = 3000, 50
    names = [f"s{m:04d}" for m in range(count)]
    alike = 0.5 + 0.5 * np.eye(size)
    groups = np.arange(count) % (count // size)
    similarity = TaskMatrix(names, BlockMatrix(groups, np.tile(alike.ravel(), count // size)), "given")
    tracemalloc.start()
    try:
        controller = Controller(SPACE, names, state=["load"], similarity=similarity, **GIVEN)
        controller.tell(controller.ask("s0001", {"load": 0.2}).id, 0.4)
        controller.add_station("new", similarity={"s0001": 0.6})
        controller.remove_station("s0002")
        controller.explain(controller.ask("new", {"load": 0.2}).id)
        controller.save(tmp_path / "state")
        again = Controller.load(tmp_path / "state")
        again.similarity.save(tmp_path / "similarity.npz")
        assert len(TaskMatrix.load(tmp_path / "similarity.npz").groups(alike=0.1)) == count // size
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * count**2 / 3
