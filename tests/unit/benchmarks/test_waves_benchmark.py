"""What the benchmark of first waves plays: the rewards of the truth, and pairs that differ in the wave alone."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import waves
from benchmarks.evening.worlds import REWARD, WEEK, draw

from kinband.planning import Change, ChangePlan
from kinband.stats import Estimate


def test_hours_after_the_log_earn_what_the_truth_of_the_week_says() -> None:
    world = draw(waves.RECIPE, np.random.default_rng(5))
    run = np.random.default_rng(6).integers(0, 9, len(world.names))
    expected = waves.expected_after(world, run, WEEK).mean(axis=1)
    assert expected == pytest.approx(world.own[np.arange(len(run)), run])


def test_the_log_is_that_of_the_network() -> None:
    world = draw(waves.RECIPE, np.random.default_rng(5))
    log, frame = waves.log_of(world), world.frame()
    assert log.station.tolist() == frame["cell"].tolist()
    assert log.reward == pytest.approx(frame[REWARD].to_numpy(), abs=1e-4)
    assert log.configuration["tilt"].tolist() == frame["tilt"].tolist()
    assert str(log.time[-1]).startswith("2024-03-04T11:00")  # type: ignore[index]


def test_a_plan_is_carried_out_where_it_says_and_nowhere_else() -> None:
    world = draw(waves.RECIPE, np.random.default_rng(5))
    change = Change(world.names[3], {"tilt": 0}, {"tilt": 7}, 1.0, 0.0, Estimate(1.0), 0.1, 0.1, 9, 0.0, (), "because")
    runs = waves.carried_out(world, ChangePlan(("tilt",), (change,), ()), world.present)
    assert runs[3] == 7
    assert np.delete(runs, 3).tolist() == np.delete(world.present, 3).tolist()


def test_a_network_is_compared_after_both_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "RECIPE", replace(waves.RECIPE, stations=16, hours=24, tried=(5, 9), noise=0.2))
    monkeypatch.setattr(waves, "HOURS", 4)
    found = waves.compared(3)
    assert found is not None
    assert found == waves.compared(3)
    assert found.size >= 1
    assert found.chosen <= 1
    assert min(found.told, found.told_random) > 0
    monkeypatch.setattr(waves, "WAVES", 1)
    assert waves.compared(3) is None  # all changes are in the first wave
