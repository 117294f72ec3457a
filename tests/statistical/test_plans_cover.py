"""Intervals of gains hold the truth where the rows of a day hang together, and changes do not harm."""

from functools import cache

import numpy as np
import pytest
from benchmarks.evening.worlds import Recipe, World, draw, settings_of

from kinband import Trace
from kinband.planning import ChangePlan, latest, learn_network, periods_of, plan_network, planned_for

NETWORKS, STATIONS, DAYS = 4, 24, 5


@cache
def judged(kind: str) -> tuple[list[bool], list[float]]:
    """Of several networks, which intervals of gains hold the true one, and the true gains of the changes made."""
    days, stations = (1.5, 0.0) if kind == "days" else (0.0, 1.5)
    recipe = Recipe(STATIONS, 24 * DAYS, hold=24, day_shock=days, station_shock=stations)
    held, made = list[bool](), list[float]()
    for seed in range(NETWORKS):
        world = draw(recipe, np.random.default_rng([77, seed]))
        names = {"station": "cell", "time": "time", "reward": "rate_mbps", "configuration": ["tilt"]}
        trace = Trace.from_frame(world.frame(), names)
        plan = plan_network(learn_network(trace), planned_for(latest(trace), periods_of(trace)), workers=1)
        for gain, low, high in gains(world, plan):
            held.append(low <= gain <= high)
        made += [truth(world, change.station, change.proposed["tilt"]) for change in plan.changes]
    return held, made


def gains(world: World, plan: ChangePlan) -> list[tuple[float, float, float]]:
    """The true gain and the interval of every change that was made or looked at."""
    stated = [(one.station, one.proposed, one.gain) for one in plan.changes]
    stated += [(one.station, one.proposed, one.gain) for one in plan.left_alone if one.proposed and one.gain]
    found = []
    for station, proposed, gain in stated:
        assert gain.low is not None
        assert gain.high is not None
        found.append((truth(world, station, proposed["tilt"]), gain.low, gain.high))
    return found


def truth(world: World, station: str, tilt: float) -> float:
    m, arm = world.names.index(station), settings_of(world.recipe.knobs).ravel().tolist().index(tilt)
    return float(world.own[m, arm] - world.own[m, world.present[m]])


@pytest.mark.parametrize("kind", ["days", "stations"])
def test_intervals_hold_under_shocks(kind: str) -> None:
    held, _ = judged(kind)
    assert len(held) > 50
    # 93 % at least is promised; intervals of one network hang together, so half of them count as independent.
    assert np.mean(held) > 0.93 - 3 * np.sqrt(0.93 * 0.07 / (len(held) / 2))


@pytest.mark.parametrize("kind", ["days", "stations"])
def test_changes_gain_under_shocks(kind: str) -> None:
    _, made = judged(kind)
    assert len(made) > 3
    assert np.mean(np.array(made) < -0.05) <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / len(made))
