"""Two or more frequency layers: who is on which, how users move between them, and what the reward counts."""

import dataclasses

import numpy as np
import pytest

from kinband.environments.radio import (
    Layer,
    Network,
    Parameters,
    PowerMap,
    RadioEnvironment,
    build_map,
    draw_layout,
    layers_at,
    layers_named,
)
from kinband.environments.radio.city import Float32Array
from kinband.environments.radio.handover import HandoverEvents, Measurements
from kinband.environments.radio.network import Counters
from kinband.environments.radio.parameters import CAPACITY, COVERAGE, Mobility
from kinband.errors import BadInputError

SECTORS = 8
THREE = Parameters(load=1.6, layers=layers_at([2.6, 1.8, 0.8]))


@pytest.fixture(scope="module")
def city() -> PowerMap:
    return build_map(draw_layout(SECTORS, seed=4), THREE)


def network(city: PowerMap, seed: int = 1) -> Network:
    return Network(city, THREE, seed=seed, hour=19.0)


def strongest_dbm(running: Network) -> Float32Array:
    """RSRP of the strongest cell of each layer at every slot, (n, 3)."""
    people = running.people
    power = running.map.at(people.x, people.y) * people.wall[:, :, None]
    return np.asarray(10 * np.log10(power.max(axis=2)), dtype=np.float32)


def test_the_default_layers_can_be_named_by_their_frequencies() -> None:
    assert layers_named("2.6,0.8") == layers_at([2.6, 0.8]) == Parameters().layers == (CAPACITY, COVERAGE)


def test_wide_carriers_lie_above_one_gigahertz_and_narrow_ones_below() -> None:
    layers = layers_named("3.5, 1.8,.9,0.7")
    assert [layer.frequency_ghz for layer in layers] == [3.5, 1.8, 0.9, 0.7]
    assert [layer.resource_blocks for layer in layers] == [100, 100, 50, 50]
    assert [layer.name for layer in layers] == ["capacity", "1.8 GHz", "0.9 GHz", "coverage"]
    assert [layer.threshold_offset_db for layer in layers] == [0.0, -4.0, -8.0, 0.0]
    # Twice the power in twice the band: the reference symbols of all layers have the same power.
    assert np.ptp([layer.element_power_dbm for layer in layers]) < 0.02


@pytest.mark.parametrize("text", ["2.6", "0.8,2.6", "2.6,2.6", "2.6,,0.8", "2.6;0.8", "", "2.6,-0.8", "1e1,0.8"])
def test_layers_that_are_none_or_not_in_falling_order_are_refused(text: str) -> None:
    with pytest.raises(BadInputError, match=r"2\.6"):
        layers_named(text)


def test_layers_of_a_network_are_checked() -> None:
    with pytest.raises(BadInputError, match="give two or more, got 1"):
        Parameters(layers=(CAPACITY,))
    with pytest.raises(BadInputError, match="names of their own"):
        Parameters(layers=(CAPACITY, CAPACITY))
    with pytest.raises(BadInputError, match="must be Layer records"):
        Parameters(layers=(2.6, 0.8))  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match=r"between 0.5 and 100 GHz, got 0.3"):
        dataclasses.replace(COVERAGE, frequency_ghz=0.3)
    with pytest.raises(BadInputError, match="resource_blocks"):
        Layer("half", frequency_ghz=2.1, resource_blocks=0, power_dbm=46.0, antenna_gain_dbi=17.0)
    with pytest.raises(BadInputError, match="threshold_offset_db must be finite"):
        dataclasses.replace(CAPACITY, threshold_offset_db=float("nan"))


def test_a_map_of_other_layers_is_refused(city: PowerMap) -> None:
    with pytest.raises(BadInputError, match="the map has 3 layers, the parameters have 2"):
        Network(city, Parameters(), seed=1)
    with pytest.raises(BadInputError, match="the map has 3 layers"):
        RadioEnvironment(map_=city)


def test_a_lower_frequency_gains_twenty_decibels_a_decade(city: PowerMap) -> None:
    """Nearer than the lowest break point (288 m at 1.8 GHz) path loss differs between layers by 20·log10 f alone."""
    layout = city.layout
    sector = 0
    distance = np.hypot(*(layout.pixel_centres() - layout.sites[layout.site[sector]]).T)
    high, middle = city.power[distance < 250, 0, sector], city.power[distance < 250, 1, sector]
    gain_db = 10 * np.log10(middle / high)
    # Single precision keeps seven digits: a millionth of a power ratio is 4·10⁻⁶ dB.
    np.testing.assert_allclose(gain_db, 20 * np.log10(2.6 / 1.8), atol=1e-5)


def level(values: list[float]) -> Float32Array:
    return np.array(values, dtype=np.float32)


def seen(layer: int, levels: list[float], *, threshold: float) -> Measurements:
    """One user on the strongest cell of a layer, with the levels of the strongest cell of every layer."""
    return Measurements(
        serving=level([levels[layer]]),
        best=level(levels)[None],
        best_changed=np.zeros((1, len(levels)), dtype=bool),
        is_best=np.array([True]),
        layer=np.array([layer]),
        threshold=level([threshold]),
        target_threshold=level([threshold]),
        connected=np.array([True]),
    )


def walked(levels: list[float], *, start: int, threshold: float, steps: int) -> list[int]:
    """Layers of a user whose phone measures the same levels all the time."""
    rules = Mobility(sample_error_db=0.0, time_to_trigger_s=1.28)  # two steps after the first measurement
    events, layer = HandoverEvents(1, rules, step_s=1.0, layers=len(levels)), start
    passed, rng = [], np.random.default_rng(3)
    for _ in range(steps):
        down, up, _ = events.evaluate(seen(layer, levels, threshold=threshold), rng)
        layer += int(down[0]) - int(up[0])
        if down[0] or up[0]:
            events.restart(np.array([0]))
        passed.append(layer)
    return passed


def test_event_a2_goes_down_one_layer_at_a_time_and_stops_at_the_last() -> None:
    assert walked([-120, -118, -115, -113], start=0, threshold=-101, steps=12) == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3]


def test_event_a2_stops_at_the_first_layer_that_is_strong_enough() -> None:
    assert walked([-112, -108, -99, -97], start=0, threshold=-101, steps=9) == [0, 0, 1, 1, 1, 2, 2, 2, 2]


def test_event_a4_goes_up_one_layer_at_a_time_from_threshold_plus_margin_and_hysteresis() -> None:
    # Back at −101 + 4 dB plus a hysteresis of 1 dB: −95.9 dBm is above, −96.1 is not.
    assert walked([-95.9, -95.9, -80], start=2, threshold=-101, steps=7) == [2, 2, 1, 1, 1, 0, 0]
    assert walked([-96.1, -95.9, -80], start=2, threshold=-101, steps=7) == [2, 2, 1, 1, 1, 1, 1]


def test_new_users_start_on_the_first_layer_that_is_strong_enough(city: PowerMap) -> None:
    running = network(city)
    strong = strongest_dbm(running)[:, :2] >= THREE.start_threshold_dbm + np.array([0.0, -8.0])
    expected = np.where(strong[:, 0], 0, np.where(strong[:, 1], 1, 2))
    alive = running.people.alive
    np.testing.assert_array_equal(running.layer[alive], expected[alive])


def test_users_are_found_on_all_three_layers_and_at_rest_where_the_threshold_says(city: PowerMap) -> None:
    running = network(city)
    report = running.run_period([-97.0] * SECTORS, seconds=40)
    assert report.utilisation.shape == (3, SECTORS)
    assert (report.utilisation.mean(axis=1) > 0.05).all()
    resting = running.people.alive & running.people.indoor
    assert (np.bincount(running.layer[resting], minlength=3) > 10).all()
    # Hysteresis 1 dB and five times what the filter leaves of an error of 1 dB, √(1/3), on either side.
    slack, best, serving = 1 + 5 * np.sqrt(1 / 3), strongest_dbm(running), running.serving_dbm()
    for layer, threshold in ((0, -97.0), (1, -97.0 - 8.0)):
        assert serving[resting & (running.layer == layer)].min() > threshold - slack
        assert best[resting & (running.layer == layer + 1), layer].max() < threshold + 4 + slack
    assert serving[resting & (running.layer == 1)].min() < -97 - slack  # kept there by the layer's offset


def test_a_running_network_takes_users_through_every_layer_on_their_way_down(city: PowerMap) -> None:
    running = network(city)
    running.run_period([-112.0] * SECTORS, seconds=20)
    running.thresholds[:] = -80.0
    people, path = running.people, [running.layer.copy()]
    keys, staying = people.key.copy(), people.alive.copy()
    for _ in range(15):
        running.step()
        staying &= people.alive & (people.key == keys)
        path.append(running.layer.copy())
    layers = np.array(path)[:, staying]
    assert np.abs(np.diff(layers, axis=0)).max() == 1
    from_top_to_bottom = (layers[0] == 0) & (layers[-1] == 2)
    assert from_top_to_bottom.sum() > 10
    assert (layers[:, from_top_to_bottom] == 1).any(axis=0).all()


def test_users_come_back_up_to_a_layer_at_its_own_level(city: PowerMap) -> None:
    exact = dataclasses.replace(THREE, mobility=Mobility(sample_error_db=0.0))
    running = Network(city, exact, seed=1, hour=19.0)
    running.run_period([-60.0] * SECTORS, seconds=20)
    staying, keys = running.people.alive & running.people.indoor & (running.layer == 2), running.people.key.copy()
    running.run_period([-97.0] * SECTORS, seconds=20)
    staying &= running.people.alive & (running.people.key == keys)
    best = strongest_dbm(running)
    # Up to 1.8 GHz above −97 − 8 + 4 dBm and the hysteresis of 1 dB; up to 2.6 GHz only above −92 dBm.
    back = staying & (best[:, 1] > -99.9) & (best[:, 1] < -92.1) & (best[:, 0] < -92.1)
    assert back.sum() > 5
    assert (running.layer[back] == 1).all()
    assert (running.layer[staying & (best[:, 1] < -100.1)] == 2).all()


def test_the_reward_counts_the_sessions_of_all_layers_of_the_sector() -> None:
    rng = np.random.default_rng(8)
    layer, sector, satisfied = rng.integers(4, size=300), rng.integers(5, size=300), rng.random(300) < 0.7
    counters = Counters(5, layers=4)
    counters.verdicts(layer, sector, satisfied)
    report = counters.report()
    for s in range(5):
        mine = sector == s
        assert report.sessions[s] == mine.sum()
        assert report.good_share[s] == pytest.approx(satisfied[mine].mean())
        assert report.capacity_sessions[s] == (mine & (layer == 0)).sum()


def test_users_of_the_lower_layers_alone_still_make_the_sectors_reward(city: PowerMap) -> None:
    running = network(city)
    running.run_period([-20.0] * SECTORS, seconds=30)  # nobody receives that much: all go to the last layer
    report = running.run_period([-20.0] * SECTORS, seconds=30)
    assert (running.layer[running.people.alive] == 2).mean() > 0.95
    assert report.capacity_sessions.sum() == 0
    assert report.sessions.sum() > 50


def test_an_environment_plays_on_three_layers() -> None:
    environment = RadioEnvironment(6, layout_seed=3, period_s=20, parameters=THREE)
    outcomes = environment.play(dict.fromkeys(environment.stations, 12))
    assert environment.report.utilisation.shape == (3, 6)
    assert all(0 <= outcome.reward <= 1 for outcome in outcomes.values())
