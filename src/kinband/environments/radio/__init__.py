"""A radio network to learn in: a city, its users and sectors, simulated second by second.

`parameters` has every number with its source, `propagation` how signals travel, `city` where sites stand and what is
received there, `demand` the users, `handover` who changes cell, `traffic` what files they get, `sleeping` which
carriers sleep, `network` the loop and what it counts. `environment` is the door for learners, `trace_writer` makes logs
and `network_files` what a network would export.
"""

from kinband.environments.radio.city import Layout, PowerMap, build_map, draw_layout
from kinband.environments.radio.environment import (
    KNOB,
    SLEEP_KNOB,
    SLEEP_THRESHOLDS_PERCENT,
    THRESHOLDS_DBM,
    RadioEnvironment,
)
from kinband.environments.radio.network import STATE_NAMES, Network, Report
from kinband.environments.radio.network_files import write_network_files
from kinband.environments.radio.parameters import EnergySaving, Layer, Parameters, layers_at, layers_named
from kinband.environments.radio.trace_writer import SimulatedTrace, simulate_trace

__all__ = [
    "KNOB",
    "SLEEP_KNOB",
    "SLEEP_THRESHOLDS_PERCENT",
    "STATE_NAMES",
    "THRESHOLDS_DBM",
    "EnergySaving",
    "Layer",
    "Layout",
    "Network",
    "Parameters",
    "PowerMap",
    "RadioEnvironment",
    "Report",
    "SimulatedTrace",
    "build_map",
    "draw_layout",
    "layers_at",
    "layers_named",
    "simulate_trace",
    "write_network_files",
]
