"""Which knobs matter: shares of variation against the truth, and the arithmetic on points that one can do by hand."""

from typing import Any

import numpy as np
import pytest

from kinband import Trace
from kinband.planning.variation import Grid, explained_variation, share_in
from kinband.trace.table import station_numbers


def log(rows: int = 60, *, seed: int = 0, **effects: float) -> Trace:
    rng = np.random.default_rng(seed)
    n = 6 * rows
    columns: dict[str, Any] = {"station": np.repeat([f"s{m}" for m in range(6)], rows), "load": rng.random(n)}
    columns |= {"tilt": rng.choice([0, 1, 2], n), "power": rng.choice([40, 41], n)}
    reward = 0.5 + effects.get("tilt", 0) * (columns["tilt"] - 1) + effects.get("power", 0) * (columns["power"] - 40)
    columns["reward"] = reward + effects.get("load", 0) * columns["load"] + 0.02 * rng.normal(size=n)
    return Trace.from_frame(columns, {"configuration": ["tilt", "power"], "state": ["load"]})


def test_shares_are_those_of_the_truth() -> None:
    trace = log(tilt=0.05, power=0.02)
    found = {one.name: one.share for one in explained_variation(trace)}
    station = station_numbers(trace)
    level = np.bincount(station, trace.reward) / np.bincount(station)
    total = np.mean((trace.reward - level[station]) ** 2)
    for knob, size in (("tilt", 0.05), ("power", 0.02)):
        values = trace.configuration[knob].astype(float)
        own = np.mean([size**2 * values[station == m].var() for m in range(6)]) / total
        assert found[knob].low < own < found[knob].high, knob
    assert found["state"].value < 0.02


def test_knobs_come_in_order_and_the_state_last() -> None:
    assert [one.name for one in explained_variation(log(power=0.05, tilt=0.01, load=0.3))] == ["power", "tilt", "state"]


def test_of_a_knob_that_no_station_varied_nothing_is_said() -> None:
    trace = log(tilt=0.05)
    power = (40 + station_numbers(trace) % 2).astype(np.int64)
    columns = {"station": trace.station, "tilt": trace.configuration["tilt"], "power": power, "reward": trace.reward}
    fixed = Trace.from_frame(columns, {"configuration": ["tilt", "power"]})
    found = {one.name: one for one in explained_variation(fixed)}
    assert (found["power"].varied, found["power"].share.high) == (0, 0.0)
    assert found["tilt"].varied == 6


def test_a_grid_varies_one_factor_with_the_values_and_shares_of_the_station() -> None:
    X = np.array([[0.1, 2.0], [0.2, 4.0], [0.3, 4.0], [0.9, 2.0]])
    grid = Grid.of(np.array([0, 0, 0, 1]), X, np.array([1]), np.random.default_rng(0))
    assert (grid.varied, grid.blocks) == (1, 4)
    assert grid.weight.reshape(-1, 2).tolist() == [[1 / 3, 2 / 3]] * 3
    assert grid.X.reshape(-1, 2, 2)[:, :, 1].tolist() == [[2.0, 4.0]] * 3
    assert sorted(grid.X[::2, 0].tolist()) == [0.1, 0.2, 0.3]


def test_rewards_that_never_vary_are_explained_by_nothing() -> None:
    assert share_in(0.0, np.zeros(9), total=0.0).high == 0.0


def test_the_interval_reaches_from_below_the_mean_to_above_the_draws() -> None:
    draws = np.linspace(0.3, 0.5, 1001)
    found = share_in(0.35, draws, total=2.0)
    assert found.value == pytest.approx(0.375 / 2)
    assert found.low == pytest.approx((0.35 - 0.095) / 2)
    assert found.high == pytest.approx(0.495 / 2)
