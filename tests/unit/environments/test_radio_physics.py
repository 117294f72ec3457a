"""Radio physics against arithmetic done by hand from the printed formulas."""

import math

import numpy as np
import pytest

from kinband.environments.radio.city import build_map, draw_layout
from kinband.environments.radio.parameters import CAPACITY, COVERAGE, CQI_EFFICIENCIES, Parameters, Radio
from kinband.environments.radio.propagation import (
    antenna_gain_db,
    correlated_field,
    line_of_sight_probability,
    path_loss_db,
    planned_tilt_deg,
    wall_loss_db,
)
from kinband.environments.radio.traffic import bits_per_hz, cqi_of, interference_mw, share_cells

RADIO = Radio()


def loss(distance: float, sight: bool, frequency: float) -> float:
    at = path_loss_db(
        np.array([distance]), np.array([sight]), frequency_ghz=frequency, base_height_m=25.0, user_height_m=1.5
    )
    return float(at[0])


def test_line_of_sight_loss_at_200_m_is_the_first_slope() -> None:
    # Break point at 2.6 GHz: 4·24·0.5·2.6e9/c = 416 m; 28 + 22·log10(√(200² + 23.5²)) + 20·log10(2.6).
    assert loss(200, True, 2.6) == pytest.approx(28 + 22 * math.log10(201.376) + 8.2995, abs=1e-3)


def test_line_of_sight_loss_beyond_the_break_point_falls_with_the_fourth_power() -> None:
    # At 0.8 GHz the break point lies at 128 m: ten times the (large) distance costs 40 dB.
    assert loss(5000, True, 0.8) - loss(500, True, 0.8) == pytest.approx(40.0, abs=0.05)


def test_the_two_slopes_meet_at_the_break_point() -> None:
    at = 4 * 24 * 0.5 * 2.6e9 / 299_792_458
    assert loss(at - 1e-6, True, 2.6) == pytest.approx(loss(at + 1e-6, True, 2.6), abs=0.02)


def test_loss_without_sight_at_300_m() -> None:
    # 13.54 + 39.08·log10(300.92) + 20·log10(0.8)
    assert loss(300, False, 0.8) == pytest.approx(13.54 + 39.08 * 2.47845 - 1.93820, abs=1e-3)


def test_no_sight_never_helps() -> None:
    d = np.geomspace(10, 5000, 60)
    for frequency in (0.8, 2.6):
        keys = {"frequency_ghz": frequency, "base_height_m": 25.0, "user_height_m": 1.5}
        hidden, seen = (path_loss_db(d, np.full(60, sight), **keys) for sight in (False, True))
        assert (hidden >= seen).all()


def test_line_of_sight_is_certain_nearby_and_rare_far_away() -> None:
    p = line_of_sight_probability(np.array([5.0, 18.0, 63.0, 1000.0]))
    assert p[:2].tolist() == [1.0, 1.0]
    assert p[2] == pytest.approx(18 / 63 + math.exp(-1) * (1 - 18 / 63))
    assert p[3] == pytest.approx(0.018, abs=1e-6)


def test_wall_losses_follow_the_material_table() -> None:
    # At 2 GHz: glass 2.4 dB, concrete 13 dB, coated glass 23.6 dB.
    low = 5 - 10 * math.log10(0.3 * 10**-0.24 + 0.7 * 10**-1.3)
    high = 5 - 10 * math.log10(0.7 * 10**-2.36 + 0.3 * 10**-1.3)
    assert wall_loss_db(2.0, high=False) == pytest.approx(low)
    assert wall_loss_db(2.0, high=True) == pytest.approx(high)


def test_antenna_gain_at_boresight_half_power_and_behind() -> None:
    at = np.array([0.0, 35.0, -35.0, 70.0, 360.0 - 70.0, 180.0])
    gain = antenna_gain_db(at, np.full(6, 7.0), tilt_deg=7.0, radio=RADIO)
    np.testing.assert_allclose(gain, [0, -3, -3, -12, -12, -25])


def test_antenna_loses_three_decibel_at_half_the_vertical_beam_and_never_more_than_25() -> None:
    up = antenna_gain_db(np.zeros(3), np.array([2.0, 12.0, 80.0]), tilt_deg=7.0, radio=RADIO)
    np.testing.assert_allclose(up, [-3, -3, -20])
    assert antenna_gain_db(np.array([180.0]), np.array([80.0]), tilt_deg=7.0, radio=RADIO)[0] == -25


def test_tilt_falls_with_distance_between_sites() -> None:
    # atan(23.5/(2/3·600)) = 3.36°, plus half of 10°.
    assert planned_tilt_deg(600.0, radio=RADIO) == pytest.approx(math.degrees(math.atan(23.5 / 400)) + 5)
    assert planned_tilt_deg(1200.0, radio=RADIO) < planned_tilt_deg(600.0, radio=RADIO)


def test_element_powers_and_noise_by_hand() -> None:
    assert CAPACITY.element_power_dbm == pytest.approx(49 - 10 * math.log10(1200))
    assert COVERAGE.element_power_dbm == pytest.approx(46 - 10 * math.log10(600))
    assert RADIO.noise_dbm == pytest.approx(-174 + 41.7609 + 9, abs=1e-3)


def test_received_power_is_the_link_budget() -> None:
    # Without shadowing and with sight decided by distance alone, the map must be P + G − PL at a pixel's centre.
    radio = Radio(shadowing_los_db=0.0, shadowing_nlos_db=0.0)
    layout = draw_layout(1, seed=3)
    power = build_map(layout, Parameters(radio=radio)).power[:, 0, 0]
    east, north = (layout.pixel_centres() - layout.sites[0]).T
    bearing = np.degrees(np.arctan2(north, east)) - layout.azimuth_deg[0]
    far = np.hypot(east, north)
    pixel = int(np.argmin(np.abs((bearing + 180) % 360 - 180) + np.abs(far - 300)))
    d = float(far[pixel])
    below = math.degrees(math.atan(23.5 / d)) - float(layout.tilt_deg[0])
    off = (float(bearing[pixel]) + 180) % 360 - 180
    pattern = -min(12 * (off / 70) ** 2 + min(12 * (below / 10) ** 2, 20), 25)
    budget = {s: 49 - 10 * math.log10(1200) + 17 + pattern - loss(d, s, 2.6) for s in (True, False)}
    level = 10 * math.log10(float(power[pixel]))
    assert min(abs(level - b) for b in budget.values()) < 1e-3


def test_truncated_shannon_by_hand() -> None:
    sinr = 10 ** (np.array([-10.01, -9.99, 0.0, 10.0, 40.0]) / 10)
    expected = [0, 0.6 * math.log2(1 + 10**-0.999), 0.6, 0.6 * math.log2(11), 4.4]
    np.testing.assert_allclose(bits_per_hz(sinr, radio=RADIO), expected, rtol=1e-6)


def test_cqi_counts_the_efficiencies_that_are_reached() -> None:
    just = RADIO.cqi_gap * (2 ** np.array(CQI_EFFICIENCIES) - 1)
    assert cqi_of(just * 1.001, radio=RADIO).tolist() == list(range(1, 16))
    assert cqi_of(just * 0.999, radio=RADIO).tolist() == list(range(15))


def test_interference_is_power_times_load() -> None:
    rng = np.random.default_rng(2)
    power, load = rng.random((4, 2, 5)).astype(np.float32), rng.random((2, 5)).astype(np.float32)
    expected = [[sum(power[n, l, s] * load[l, s] for s in range(5)) for l in range(2)] for n in range(4)]
    np.testing.assert_allclose(interference_mw(power, load), expected, rtol=1e-5)


def test_sessions_share_time_and_not_bits() -> None:
    # Two users of one cell with 30 and 10 Mbps get half the time each; the third is alone in its cell.
    service = share_cells(
        np.array([0, 0, 1]), np.array([30e6, 10e6, 8e6]), np.full(3, 1e9), free=np.array([1.0, 0.5]), step_s=1.0
    )
    np.testing.assert_allclose(service.bits, [15e6, 5e6, 4e6])
    np.testing.assert_allclose(service.airtime, [1.0, 0.5])
    assert not service.finished.any()


def test_a_cell_never_gives_more_time_than_it_has() -> None:
    rng = np.random.default_rng(8)
    for _ in range(50):
        n, cells = int(rng.integers(1, 30)), int(rng.integers(1, 6))
        free, cell = rng.uniform(0.2, 1, cells), rng.integers(cells, size=n)
        remaining = rng.uniform(0, 20e6, n)
        service = share_cells(cell, rng.uniform(0, 40e6, n), remaining, free=free, step_s=1.0)
        assert (service.airtime <= free + 1e-9).all()
        assert (service.bits <= remaining + 1e-6).all()
        assert ((service.elapsed >= 0) & (service.elapsed <= 1)).all()


def test_shadowing_has_unit_variance_and_exponential_correlation() -> None:
    fields = [
        correlated_field((80, 80), 50.0, resolution_m=25.0, rng=np.random.default_rng(seed)) for seed in range(40)
    ]
    F = np.stack(fields)
    # A field of 2 km has about (2000/100)² = 400 independent patches; 40 fields give 16,000, so a standard error of
    # a correlation of about 0.01: four of them.
    assert F.var() == pytest.approx(1.0, abs=0.05)
    for lag in (1, 2, 4):
        assert (F[:, :, lag:] * F[:, :, :-lag]).mean() == pytest.approx(math.exp(-lag * 25 / 50), abs=0.04)
