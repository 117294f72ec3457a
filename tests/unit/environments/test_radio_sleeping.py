"""Capacity carriers that sleep: when they do, what becomes of their users, what is taken, and the log of it."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from kinband.counters import join
from kinband.environments.radio import (
    SLEEP_KNOB,
    SLEEP_THRESHOLDS_PERCENT,
    EnergySaving,
    Network,
    Parameters,
    PowerMap,
    RadioEnvironment,
    SimulatedTrace,
    build_map,
    draw_layout,
    layers_at,
    simulate_trace,
    write_network_files,
)
from kinband.environments.radio.sleeping import Sleepers
from kinband.errors import BadInputError
from kinband.trace import Trace

SAVING = Parameters(load=0.6, saving=EnergySaving())
NEVER, ALWAYS = np.zeros(6), np.full(6, 1000.0)


@pytest.fixture(scope="module")
def city() -> PowerMap:
    return build_map(draw_layout(6, seed=2), SAVING)


def late(city: PowerMap, parameters: Parameters = SAVING) -> Network:
    return Network(city, parameters, seed=5, hour=22.0)


def test_a_network_that_never_sleeps_is_the_network_without_sleep_to_the_last_bit(city: PowerMap) -> None:
    plain, never = late(city, replace(SAVING, saving=None)), late(city)
    for _ in range(2):
        told = plain.run_period([-100.0] * 6, seconds=90), never.run_period(NEVER, seconds=90)
        for field in fields(told[0]):
            if field.name != "energy":
                np.testing.assert_array_equal(getattr(told[0], field.name), getattr(told[1], field.name))
    assert told[0].energy is None
    assert told[1].energy is not None
    assert (told[1].energy.asleep == 0).all()
    assert "saving" not in Parameters().to_dict()


def test_power_is_that_of_auers_table() -> None:
    parameters = Parameters(saving=EnergySaving(hold_s=0.0))
    assert parameters.saving is not None
    sleepers = Sleepers(2, parameters, parameters.saving)
    for used in ([[0.0, 1.0], [0.5, 1.0]], [[0.0, 1.0], [0.5, 1.0]]):
        sleepers.advance(np.array(used))
    energy = sleepers.energy()
    # Four transceivers of 20 W make 49 dBm, two make 46: at full load 4 (130 + 4.7 · 20) and half of that.
    assert energy.full_w.tolist() == pytest.approx([896.0, 448.0])
    assert energy.watts[:, 1].tolist() == pytest.approx([896.0, 448.0])
    # An empty carrier puts out its reference symbols, 0.095 of 20 W a transceiver.
    assert energy.watts[0, 0] == pytest.approx(4 * (130 + 4.7 * 1.9))
    assert energy.watts[1, 0] == pytest.approx(2 * (130 + 4.7 * 20 * (0.095 + 0.905 * 0.5)))
    assert energy.saved[1] == pytest.approx(0.0)


def test_asleep_is_75_watts_a_transceiver_whatever_the_load() -> None:
    parameters = Parameters(saving=EnergySaving(hold_s=0.0, memory_s=0.1))
    assert parameters.saving is not None
    sleepers = Sleepers(1, parameters, parameters.saving)
    sleepers.below[:] = 50
    assert sleepers.advance(np.array([[0.0], [0.2]])).tolist() == [True]
    sleepers.begin_period()
    sleepers.advance(np.array([[0.0], [0.2]]))
    energy = sleepers.energy()
    assert energy.watts[0, 0] == pytest.approx(300.0)
    assert energy.asleep.tolist() == [1.0]


def test_the_load_is_what_the_coverage_carrier_would_have_alone() -> None:
    parameters = Parameters(saving=EnergySaving(hold_s=0.0, memory_s=0.01))
    assert parameters.saving is not None
    sleepers = Sleepers(3, parameters, parameters.saving)
    sleepers.below[:] = 40
    # The capacity carrier is twice as wide: 10 % there are 20 % of the coverage carrier.
    used = np.array([[0.10, 0.10, 0.16], [0.15, 0.25, 0.10]])
    sleepers.advance(used)
    assert sleepers.asleep.tolist() == [True, False, False]
    assert sleepers.awake.tolist() == [[0, 1, 1], [1, 1, 1]]
    sleepers.advance(np.array([[0.0, 0.0, 0.0], [0.49, 0.49, 0.39]]))  # the margin keeps the first asleep
    assert sleepers.asleep.tolist() == [True, False, True]
    sleepers.advance(np.array([[0.0, 0.0, 0.0], [0.51, 0.39, 0.39]]))
    assert sleepers.asleep.tolist() == [False, True, True]
    sleepers.below[:] = 0
    assert sleepers.advance(np.array([[0.0, 0.0, 0.0], [0.01, 0.01, 0.01]])).tolist() == [False, True, True]


def test_it_must_be_quiet_for_some_time(city: PowerMap) -> None:
    network = late(city)
    assert network.sleepers is not None
    network.run_period(ALWAYS, seconds=59)
    assert not network.sleepers.asleep.any()
    network.run_period(ALWAYS, seconds=5)
    assert network.sleepers.asleep.all()


def test_users_of_a_sleeping_cell_are_served_elsewhere_and_it_disturbs_nobody(city: PowerMap) -> None:
    network, only = late(city), np.array([1000.0, 0, 0, 0, 0, 0])
    network.run_period(only, seconds=90)
    report = network.run_period(only, seconds=30)
    alive = network.people.alive
    assert not (alive & (network.layer == 0) & (network.sector == 0)).any()
    assert (alive & (network.layer == 0)).any()
    assert report.utilisation[0, 0] == 0
    assert (report.utilisation[0, 1:] > 0).all()
    users = alive & (network.layer == 0)
    before = network.sinr()[users]
    network._power[:, 0, 0] *= 1e6
    np.testing.assert_array_equal(network.sinr()[users], before)


def test_a_threshold_of_zero_wakes_and_users_come_back(city: PowerMap) -> None:
    network = late(city)
    network.run_period(ALWAYS, seconds=120)
    assert not (network.people.alive & (network.layer == 0)).any()
    report = network.run_period(NEVER, seconds=60)
    assert (network.people.alive & (network.layer == 0)).any()
    assert report.energy is not None
    assert report.energy.asleep.tolist() == [1 / 60] * 6  # the step after which they wake


def test_sleep_saves_energy_and_costs_satisfied_users(city: PowerMap) -> None:
    told = {}
    for below in (0.0, 40.0, 1000.0):
        network = late(city)
        network.run_period(np.full(6, below), seconds=120)
        told[below] = network.run_period(np.full(6, below), seconds=300)
    saved = [report.energy.saved.mean() for report in told.values() if report.energy is not None]
    assert saved[0] < saved[1] < saved[2]
    assert told[1000.0].network_share < told[0.0].network_share


def test_all_layers_but_the_last_sleep() -> None:
    parameters = replace(SAVING, layers=layers_at([2.6, 1.8, 0.8]))
    network = Network(build_map(draw_layout(3, seed=2), parameters), parameters, seed=1, hour=3.0)
    network.run_period(ALWAYS[:3], seconds=120)
    assert (network.layer[network.people.alive] == 2).all()
    energy = network.run_period(ALWAYS[:3], seconds=10).energy
    assert energy is not None
    assert energy.watts[:2].tolist() == [[pytest.approx(300.0)] * 3] * 2


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(BadInputError, match="hold_s must be 0 or more"):
        EnergySaving(hold_s=-1)
    with pytest.raises(BadInputError, match="asleep_w"):
        EnergySaving(asleep_w=0)


# --- The log and its files ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> SimulatedTrace:
    make = {"days": 2, "hours": (22.0, 22.1), "period_minutes": 1.0, "changes_per_day": 3, "seed": 11}
    return simulate_trace(6, parameters=SAVING, **make)  # type: ignore[arg-type]


def test_the_log_has_the_energy_saved_and_the_satisfied_users(made: SimulatedTrace, tmp_path: Path) -> None:
    made.write(tmp_path / "city.csv")
    trace = Trace.read(tmp_path / "city.csv")
    assert trace == made.trace
    assert trace.reward_name == "energy_saved"
    assert list(trace.configuration) == [SLEEP_KNOB]
    assert set(trace.configuration[SLEEP_KNOB].tolist()) <= set(SLEEP_THRESHOLDS_PERCENT)
    assert list(trace.kpis) == ["satisfied_users"]
    assert made.metadata["parameters"]["saving"]["asleep_w"] == 75.0
    last = made.periods[-1].report
    assert last.energy is not None
    assert trace.reward[-6:].tolist() == last.energy.saved.tolist()
    assert trace.kpis["satisfied_users"][-6:].tolist() == last.good_share.tolist()


def test_the_log_comes_back_from_its_files(made: SimulatedTrace, tmp_path: Path) -> None:
    cm, mapping = tmp_path / "cm.csv", tmp_path / "map.yaml"
    write_network_files(made, tmp_path / "pm", cm, mapping=mapping)
    back, log = join(tmp_path / "pm", mapping, cm=cm).trace, made.trace
    assert log.time is not None
    rows = np.lexsort((log.time, log.station))
    assert back.reward_name == "energy_saved"
    np.testing.assert_allclose(back.reward, log.reward[rows], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(back.kpis["satisfied_users"], log.kpis["satisfied_users"][rows])
    np.testing.assert_array_equal(back.configuration[SLEEP_KNOB], log.configuration[SLEEP_KNOB][rows])
    assert cm.read_text(encoding="utf-8").startswith("DN,time,esLoadThreshold\n")


def test_the_live_city_pays_the_energy_that_was_saved(city: PowerMap) -> None:
    environment = RadioEnvironment(map_=city, parameters=SAVING, seed=3, period_s=150, hours=(22, 23))
    assert environment.space.feature_names == (SLEEP_KNOB,)
    paid = environment.play(dict.fromkeys(environment.stations[:3], environment.arms - 1))
    energy = environment.earned.energy
    assert energy is not None
    assert [one.reward for one in paid.values()] == energy.saved[:3].tolist()
    assert energy.asleep[:3].max() > 0
    assert (energy.asleep[3:] == 0).all()
