"""A controller with shards: stations of a shard learn together, and nobody learns from another shard."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.errors import BadInputError
from kinband.kernels import RBF, components
from kinband.records import Decision

SPACE = ConfigurationSpace(tilt=range(7))
STATIONS = [f"s{m}" for m in range(9)]
GIVEN: dict[str, Any] = {"kernel": RBF(0.8, variance=0.3), "noise": 0.02, "mean": 0.5, "beta": 0.7}


def similarity() -> Any:
    Z = np.random.default_rng(4).normal(size=(9, 2))
    return np.exp(-0.4 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))


def make(**changes: Any) -> Controller:
    return Controller(SPACE, STATIONS, state=["load"], similarity=similarity(), **({"shards": 4} | GIVEN | changes))


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
