"""A radio network to learn in: a city, its users and sectors, simulated second by second.

`layout` draws the city, `layers` are the carriers of its sectors, `maps` the received powers (`propagation`,
`antenna`), `people` and `sessions` the demand (`hashing` makes it independent of the controls), `measurement` and
`handover` the events, `sharing` rates and load, `network` the loop, `counters` the reports. `environment` is the door
for learners, `trace_writer` makes logs, `checks` and `figures_data` show an engineer that it behaves. All numbers with
their sources are in `parameters`.
"""

from kinband.environments.radio.checks import Calibration, Sweep, calibrate, sweep_thresholds
from kinband.environments.radio.counters import STATE_NAMES, Report
from kinband.environments.radio.environment import KNOB, THRESHOLDS_DBM, RadioEnvironment
from kinband.environments.radio.figures_data import check_figures
from kinband.environments.radio.layers import Layer, layers_at, layers_named
from kinband.environments.radio.layout import Layout, draw_layout
from kinband.environments.radio.maps import PowerMap, build_map
from kinband.environments.radio.network import Network
from kinband.environments.radio.parameters import Parameters
from kinband.environments.radio.trace_writer import SimulatedTrace, simulate_trace

__all__ = [
    "KNOB",
    "STATE_NAMES",
    "THRESHOLDS_DBM",
    "Calibration",
    "Layer",
    "Layout",
    "Network",
    "Parameters",
    "PowerMap",
    "RadioEnvironment",
    "Report",
    "SimulatedTrace",
    "Sweep",
    "build_map",
    "calibrate",
    "check_figures",
    "draw_layout",
    "layers_at",
    "layers_named",
    "simulate_trace",
    "sweep_thresholds",
]
