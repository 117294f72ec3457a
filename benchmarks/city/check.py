"""Does the simulated city behave? The engineer's checks of the radio network, run in one go.

At a few hours of the day the calibration asks whether the network has an interior best threshold, whether sectors agree
with themselves between traffic seeds, and what a choice per sector gains on traffic that nobody chose on. At the
busy hour the distributions and counts behind the check figures are taken. `figures` draws them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kinband.environments.radio import Calibration, Parameters, build_map, calibrate, check_figures, draw_layout
from kinband.environments.radio.checks import GRID_DBM

QUIET_HOUR, BUSY_HOUR = 5.0, 18.0
HOURS = (QUIET_HOUR, 14.0, BUSY_HOUR, 21.0)
"""Hours that are checked: nearly nobody, offices, everybody, homes."""

HELD_OUT = 3
"""Traffic seeds on which choices are compared and on which none was made."""

_KINDS = (0, 0, 1, 1, 3, 3)  # land use of the six named sectors, in the order of `check_figures`


@dataclass(frozen=True, eq=False)
class CityCheck:
    """What the checks of one city found.

    Attributes:
        stations: Number of sectors.
        seed: What the city was drawn from.
        seconds: Simulated time of each run.
        seeds: Traffic seeds that thresholds are chosen on.
        calibrations: The answers at each hour of HOURS.
        data: What `check_figures` returns for the busy hour.
        kinds: Kind of place of each of the six named sectors, by station name.
        parameters: The network that was checked.

    Example:
        >>> answers = Calibration((-104.0, -100.0), (0.8, 0.9), -100.0, False, math.nan, (0.8,), (0.9,))
        >>> check = CityCheck(6, 0, 300.0, 4, {BUSY_HOUR: answers}, {"thresholds": [-104.0, -100.0]}, {})
        >>> check.to_dict()["hours"]["18"]["correlation"] is None
        True
    """

    stations: int
    seed: int
    seconds: float
    seeds: int
    calibrations: dict[float, Calibration]
    data: dict[str, Any]
    kinds: dict[str, str]
    parameters: Parameters = field(default_factory=Parameters)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON-able values; a correlation that does not exist is None."""
        hours = {f"{hour:g}": asdict(answers) | {"gain": answers.gain} for hour, answers in self.calibrations.items()}
        for values in hours.values():
            values["correlation"] = None if math.isnan(values["correlation"]) else values["correlation"]
        run = {"stations": self.stations, "seed": self.seed, "seconds": self.seconds, "seeds": self.seeds}
        layers = {layer.name: layer.frequency_ghz for layer in self.parameters.layers}
        network = {"load": self.parameters.load, "layers_ghz": layers}
        return run | network | {"hours": hours, "figures": self.data, "sector_kinds": self.kinds}


def count_stages() -> int:
    """Return how often `check_city` calls its `tick`.

    Example:
        >>> count_stages()
        6
    """
    return len(HOURS) + 2


def check_city(
    stations: int = 105,
    *,
    seed: int = 0,
    seconds: float = 300.0,
    seeds: int = 4,
    thresholds: Sequence[float] = GRID_DBM,
    parameters: Parameters | None = None,
    tick: Callable[[str], None] | None = None,
) -> CityCheck:
    """Draw a city and run all checks on it.

    Args:
        stations: Number of sectors, six at least: as many are named in the figures.
        seed: Draws the city; traffic seeds count from 0 in every city.
        seconds: Simulated time of each run after a minute of warm-up.
        seeds: Traffic seeds that thresholds are chosen on, two at least.
        thresholds: What to sweep.
        parameters: Everything else about the network.
        tick: Called with the name of every stage as it starts; the last is drawing the figures.

    Example:
        >>> check_city(6, seconds=5, seeds=2, thresholds=[-104, -92]).calibrations[18.0].thresholds
        (-104.0, -92.0)
    """
    say = tick or (lambda _: None)
    parameters = parameters or Parameters()
    map_ = build_map(draw_layout(stations, seed=seed), parameters)
    calibrations = {}
    for hour in HOURS:
        say(f"thresholds at {hour:g} h")
        calibrations[hour] = calibrate(
            map_, parameters, hour=hour, seconds=seconds, training=seeds, held_out=HELD_OUT, thresholds=thresholds
        )
    say("distributions and handovers")
    data = check_figures(map_, parameters, hour=BUSY_HOUR, seconds=seconds, seeds=range(seeds), thresholds=thresholds)
    names = (parameters.land_uses[kind].name for kind in _KINDS)
    say("figures")
    kinds = dict(zip(data["sectors"], names, strict=True))
    return CityCheck(stations, seed, seconds, seeds, calibrations, data, kinds, parameters)
