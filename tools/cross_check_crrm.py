"""Lay the radio numbers of the simulated city beside those of CRRM, a system-level simulator of other authors.

CRRM (PyPI: CRRM, by Keith Briggs and Ibrahim Nur) has the urban macro path loss of TR 38.901, three-sector antennas,
SINR, CQI and throughput, with all users on their strongest cell. Both simulators are brought to one set of assumptions,
that of CRRM wherever it cannot be changed: one carrier, no shadowing, line of sight everywhere or nowhere, its antenna
(8 dBi, 65 degrees, 30 dB, no vertical cut), all cells sending all the time, users outdoors who stand still. What then
differs is printed. CRRM is not needed for anything else.

Run it: python -m pip install CRRM, then python tools/cross_check_crrm.py
"""

# ruff: noqa: T201  (a report on the screen is all it does)

import os
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio import Layout, Network, Parameters, PowerMap, build_map, draw_layout
from kinband.environments.radio.parameters import (
    CAPACITY,
    COVERAGE,
    CQI_EFFICIENCIES,
    GOOD_CQI,
    THERMAL_NOISE_DBM_HZ,
    Radio,
    Traffic,
)
from kinband.environments.radio.propagation import path_loss_db
from kinband.environments.radio.traffic import bits_per_hz, cqi_of, share_cells

STATIONS, SEED = 105, 0
NEAR_M = 50.0  # two pixels of our map
ELEMENTS_DB = 10 * np.log10(12 * CAPACITY.resource_blocks)  # from the power of the band to that of a resource element


def assumptions() -> Parameters:
    """Our parameters with what CRRM assumes."""
    radio = Radio(
        shadowing_los_db=0.0,
        shadowing_nlos_db=0.0,
        horizontal_beam_deg=65.0,
        front_to_back_db=30.0,
        vertical_beam_deg=1e9,  # no vertical cut
        idle_load=1.0,  # every cell sends all the time
    )
    everywhere = tuple(replace(use, indoor=0.0, vehicles=0.0) for use in Parameters().land_uses)
    return Parameters(
        layers=(replace(CAPACITY, antenna_gain_dbi=8.0), COVERAGE),
        radio=radio,
        land_uses=everywhere,
        traffic=replace(Traffic(), pedestrian_kmh=1e-9),
        start_threshold_dbm=-200.0,  # nobody is sent to the other carrier
    )


def city(parameters: Parameters, *, sight: bool) -> PowerMap:
    """Our map of a city whose sectors look where CRRM's do, with line of sight everywhere or nowhere."""
    layout = draw_layout(STATIONS, seed=SEED)
    layout = replace(layout, azimuth_deg=np.tile([0.0, 120.0, 240.0], len(layout.sites)))
    everywhere = mock.Mock(side_effect=lambda distance: np.full_like(distance, float(sight)))
    with mock.patch("kinband.environments.radio.city.line_of_sight_probability", everywhere):
        return build_map(layout, parameters)


def simulator(layout: Layout, places: FloatArray, *, sight: bool) -> Any:
    """CRRM's simulator of the same sites and users, (n, 2), brought up to date."""
    tool, radio = import_module("CRRM"), Radio()
    sites = np.column_stack([layout.sites, np.full(len(layout.sites), radio.base_height_m)])
    users = np.column_stack([places, np.full(len(places), radio.user_height_m)])
    asked = tool.Parameters(
        cell_locations=sites,
        ue_initial_locations=users,
        n_sectors=3,
        fc_GHz=CAPACITY.frequency_ghz,
        bw_MHz=CAPACITY.occupied_hz / 1e6,
        p_W=10 ** (CAPACITY.power_dbm / 10) / 1000,
        σ2=10 ** ((THERMAL_NOISE_DBM_HZ + radio.noise_figure_db) / 10) / 1000,
        pathloss_model_name="UMa",
        LOS=sight,
        h_UT_default=radio.user_height_m,
        h_BS_default=radio.base_height_m,
    )
    made = tool.Simulator(asked)
    made.get_UE_throughputs()
    made.get_spectral_efficiency()
    return made


def element_dbm(made: Any) -> FloatArray:
    """What CRRM's users receive per resource element, (n, cells)."""
    return np.asarray(10 * np.log10(made.rsrp.data[:, :, 0]) + 30 - ELEMENTS_DB, dtype=np.float64)


def spread(difference: FloatArray, unit: str = "dB") -> str:
    """Differences, (n,), in words."""
    size = np.abs(np.asarray(difference, dtype=np.float64))
    middle, most = np.median(size), np.quantile(size, 0.95)
    return f"median {middle:.2g} {unit}, 95 of 100 below {most:.2g} {unit}, largest {size.max():.2g} {unit}"


def compare_path_loss() -> None:
    """The formulas of TR 38.901 table 7.4.1-1 at three carriers, 10 m to 5 km."""
    model = import_module("CRRM.UMa_pathloss_model_06").UMa_pathloss
    distance, radio = np.geomspace(10, 5000, 2000), Radio()
    heights = {"base_height_m": radio.base_height_m, "user_height_m": radio.user_height_m}
    user, cell = np.array([[0.0, 0.0, radio.user_height_m]]), np.array([[0.0, 0.0, radio.base_height_m]])
    far = np.hypot(distance, radio.base_height_m - radio.user_height_m)
    for ghz in (2.6, 1.8, 0.8):
        for sight in (True, False):
            theirs = model(fc_GHz=ghz, LOS=sight).get_pathloss_dB(distance, far, user, cell).ravel()
            ours = path_loss_db(distance, np.full(len(distance), sight), frequency_ghz=ghz, **heights)
            print(f"  path loss, {ghz} GHz, {'LOS' if sight else 'NLOS'}: {spread(ours - theirs)}")


def compare_map(*, sight: bool) -> None:
    """Our map at the middle of its pixels, where nothing is interpolated, for all sectors."""
    ours = city(assumptions(), sight=sight)
    centres = ours.layout.pixel_centres()
    nearest = np.min([np.hypot(*(centres - site).T) for site in ours.layout.sites], axis=0)
    there = nearest >= 10  # nearer than 10 m our path loss stays what it is at 10 m, theirs goes on
    theirs = element_dbm(simulator(ours.layout, centres[there], sight=sight))
    difference = 10 * np.log10(ours.power[there, 0].astype(np.float64)) - theirs
    print(f"  RSRP at {int(there.sum()):,} pixels from {STATIONS} sectors: {spread(difference)}")


def compare_users(*, sight: bool) -> None:
    """A running network of ours, its users one by one."""
    parameters = assumptions()
    network = Network(city(parameters, sight=sight), parameters, seed=1, hour=18.0)
    network.run_period(np.full(STATIONS, -200.0), seconds=5)
    people, sites = network.people, network.map.layout.sites
    nearest = np.min([np.hypot(people.x - site[0], people.y - site[1]) for site in sites], axis=0)
    at = np.flatnonzero(people.alive & (network.layer == 0) & (nearest >= 10))
    made = simulator(network.map.layout, np.column_stack([people.x[at], people.y[at]]), sight=sight)
    same = network.sector[at] == made.a.data
    print(f"  serving cell of {len(at):,} users: {same.mean():.2%} the same")
    at, rows = at[same], np.flatnonzero(same)
    sinr, theirs = network.sinr()[at].astype(np.float64), made.sinr.data[rows, 0]
    differences = {
        "RSRP of the serving cell": network.serving_dbm()[at] - element_dbm(made)[rows, network.sector[at]],
        "SINR": 10 * np.log10(sinr / theirs),
    }
    near = nearest[at] < NEAR_M
    for name, difference in differences.items():
        print(f"  {name}, {int((~near).sum()):,} users {NEAR_M:g} m from a site and more: {spread(difference[~near])}")
        print(f"  {name}, {int(near.sum())} users nearer than that: {spread(difference[near])}")
    print(
        f"  median SINR: ours {np.median(10 * np.log10(sinr)):.2f} dB, CRRM {np.median(10 * np.log10(theirs)):.2f} dB"
    )
    compare_rates(made, theirs, rows)


def compare_rates(made: Any, sinr: FloatArray, rows: IntArray) -> None:
    """What both make of the same SINR, (n,): CQI, efficiency and the share of a full cell."""
    radio = Radio()
    ours, theirs = cqi_of(sinr, radio=radio), made.cqi.data[rows, 0]
    apart = np.abs(ours - theirs)
    print(f"  CQI at the same SINR: {np.mean(apart == 0):.0%} the same, {np.mean(apart <= 1):.0%} within one level")
    print(f"  CQI of {GOOD_CQI} or more: ours {np.mean(ours >= GOOD_CQI):.1%}, CRRM {np.mean(theirs >= GOOD_CQI):.1%}")
    efficiency = bits_per_hz(sinr, radio=radio)
    busy = efficiency > 0
    shannon = np.median(efficiency[busy] / made.se_Shannon.data[rows, 0][busy])
    table = np.median(efficiency[busy] / np.maximum(made.se_from_mcs.data[rows, 0][busy], 1e-9))
    print(f"  efficiency over Shannon's: {shannon:.3f}; over that of CRRM's table: {table:.2f}, both in the median")
    rate = made.se_from_mcs.data[:, 0] * CAPACITY.occupied_hz
    endless = np.full(len(rate), 1e15)  # all of CRRM's users fetch, and nobody is ever done
    service = share_cells(made.a.data, rate, endless, free=np.ones(STATIONS), step_s=1.0)
    print(f"  throughput at the same efficiency: {spread(service.bits / 1e6 - made.tp.data[:, 0], 'Mbit/s')}")


def compare_levels() -> None:
    """From which SINR on a CQI is reported."""
    table = import_module("CRRM.CRRM_core_08").CQI().SINR90pc_linear
    levels = np.array([1, 4, 7, 10, 13, 15])
    ours = 10 * np.log10(Radio().cqi_gap * (2 ** np.array(CQI_EFFICIENCIES)[levels - 1] - 1))
    theirs = 10 * np.log10(table[levels])
    for name, values in (("ours", ours), ("CRRM", theirs)):
        print(f"  SINR for CQI {', '.join(map(str, levels))}, {name}: {', '.join(f'{v:.1f}' for v in values)} dB")


def main() -> None:
    """Print the comparison."""
    if find_spec("CRRM") is None:
        print("skipped: CRRM is not installed; python -m pip install CRRM brings it")
        return
    os.environ.setdefault("MPLBACKEND", "Agg")  # it imports its plots
    print(f"kinband's radio network beside CRRM {import_module('CRRM').get_version()}")
    compare_path_loss()
    for sight in (True, False):
        print(f"line of sight {'everywhere' if sight else 'nowhere'}, {CAPACITY.frequency_ghz} GHz")
        compare_map(sight=sight)
        compare_users(sight=sight)
    compare_levels()


if __name__ == "__main__":
    main()
