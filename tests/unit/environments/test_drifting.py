"""A changing environment changes as it says; that it keeps the contract is shown with the others."""

from typing import Any

import numpy as np
import pytest
from tests.contract.test_environments import a_trace

from kinband.environments import SyntheticBandit, TraceEnvironment
from kinband.environments.drifting import Drifting, How
from kinband.errors import BadInputError


def inside(kind: str) -> Any:
    return SyntheticBandit(7, 4) if kind == "synthetic" else TraceEnvironment(a_trace())


HOWS: tuple[How, ...] = ("step", "slow", "none")


@pytest.mark.parametrize("kind", ["synthetic", "trace"])
@pytest.mark.parametrize("how", HOWS)
def test_a_third_of_the_stations_turn_round_when_they_should(kind: str, how: How) -> None:
    world, plain = Drifting(inside(kind), how, begin=3, lasts=4, seed=5), inside(kind)
    plain.reset(5)
    assert len(world.changing) == max(1, round(len(world.stations) / 3))
    for t in range(9):
        w = {"none": 0.0, "step": float(t >= 3), "slow": min(max((t - 2) / 4, 0.0), 1.0)}[how]
        for station in world.stations:
            ours, theirs = world.truth(station), plain.truth(station)
            share = w if station in world.changing else 0.0
            for name in ("rewards", "expected"):
                values = getattr(theirs, name)
                np.testing.assert_allclose(getattr(ours, name), (1 - share) * values + share * values[::-1], rtol=1e-12)
        arms = dict.fromkeys(world.stations, t % world.arms)
        truths = {station: world.truth(station).rewards[arm] for station, arm in arms.items()}
        assert {s: o.reward for s, o in world.play(arms).items()} == truths
        plain.play({})


def test_different_seeds_change_different_stations() -> None:
    world = Drifting(SyntheticBandit(9, 3), "step", begin=2)
    drawn = set()
    for seed in range(8):
        world.reset(seed)
        drawn.add(world.changing)
    assert len(drawn) > 1


def test_what_is_known_of_a_reward_is_that_of_the_arm_inside() -> None:
    inner, plain = (TraceEnvironment(a_trace(samples=np.arange(1, 121)), neighbours=3) for _ in range(2))
    world = Drifting(inner, "step", begin=0, seed=2)
    plain.reset(2)
    one = world.changing[0]
    assert world.play({one: 1})[one] == plain.play({one: world.arms - 2})[one]


@pytest.mark.parametrize(
    "bad", [{"how": "sudden"}, {"begin": -1}, {"lasts": 0}, {"share": 0.0}, {"share": 1.5}, {"begin": 1.5}]
)
def test_a_change_that_cannot_be_is_refused(bad: dict[str, Any]) -> None:
    given: dict[str, Any] = {"how": "step", "begin": 3} | bad
    with pytest.raises(BadInputError):
        Drifting(SyntheticBandit(), **given)
