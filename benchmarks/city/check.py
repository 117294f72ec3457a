"""Does the simulated city behave? The engineer's checks of the radio network, run in one go.

At a few hours of the day the calibration asks whether the network has an interior best threshold, whether sectors agree
with themselves between traffic seeds, and what a choice per sector gains on traffic that nobody chose on. At the
busy hour the distributions and counts behind the check figures are taken. `figures` draws them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio import Network, Parameters, PowerMap, Report, build_map, draw_layout
from kinband.environments.radio.parameters import CQI_EFFICIENCIES
from kinband.environments.radio.traffic import cqi_of

# --- Is it a problem worth learning? The satisfied share against the threshold --------------------------------------
#
# Three questions, asked with traffic seeds that share one city. Has the network's share an interior optimum at a busy
# hour? Do sectors agree with themselves: is a sector's best threshold on some traffic seeds its best on others? And
# does choosing per sector on some seeds beat the best single threshold on other seeds, with the chosen mixture really
# running, neighbours included? Everything is run, nothing is interpolated; people and their wishes are the same for
# all thresholds of a seed, which keeps the comparison in pairs.

GRID_DBM = tuple(range(-112, -83, 4))
"""Thresholds that the checks sweep: every fourth."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Satisfied and all sessions of each sector when all sectors run one threshold.

    Attributes:
        thresholds: In dBm, (k,).
        satisfied: By traffic seed, threshold and sector, (seeds, k, S).
        sessions: The same, (seeds, k, S).

    Example:
        >>> sweep = Sweep(np.array([-100.0, -90.0]), np.array([[[9], [5]]]), np.array([[[10], [10]]]))
        >>> sweep.network().tolist(), sweep.best().tolist()
        ([0.9, 0.5], [-100.0])
    """

    thresholds: FloatArray
    satisfied: IntArray
    sessions: IntArray

    def network(self) -> FloatArray:
        """Share of satisfied sessions of the network at each threshold, over all seeds, (k,)."""
        share: FloatArray = self.satisfied.sum(axis=(0, 2)) / np.maximum(self.sessions.sum(axis=(0, 2)), 1)
        return share

    def sectors(self) -> FloatArray:
        """Share of satisfied sessions of each sector at each threshold, over all seeds, (k, S)."""
        share: FloatArray = self.satisfied.sum(axis=0) / np.maximum(self.sessions.sum(axis=0), 1)
        return share

    def best(self) -> FloatArray:
        """Best threshold of each sector, (S,), after smoothing over neighbouring thresholds by (1, 2, 1)/4."""
        padded = np.pad(self.sectors(), ((1, 1), (0, 0)), mode="edge")
        smooth = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
        return np.asarray(self.thresholds[smooth.argmax(axis=0)], dtype=np.float64)

    def seeds(self, picked: slice) -> "Sweep":
        """The sweep of some of the seeds."""
        return Sweep(self.thresholds, self.satisfied[picked], self.sessions[picked])


@dataclass(frozen=True)
class Calibration:
    """Answers to the three questions.

    Attributes:
        thresholds: What was swept, in dBm.
        network_share: Share of satisfied sessions at each.
        best_single: The threshold with the largest share on the training seeds.
        interior: Whether it is neither the lowest nor the highest.
        correlation: Between sectors' best thresholds on the two halves of the training seeds; nan where all agree.
        single_share: Share on each held-out seed with the best single threshold.
        sector_share: Share on each held-out seed with the thresholds chosen per sector.

    Example:
        >>> answers = Calibration((-104.0, -100.0, -96.0), (0.8, 0.9, 0.8), -100.0, True, 0.6, (0.8, 0.9), (0.9, 0.9))
        >>> round(answers.gain, 3)
        0.05
    """

    thresholds: tuple[float, ...]
    network_share: tuple[float, ...]
    best_single: float
    interior: bool
    correlation: float
    single_share: tuple[float, ...]
    sector_share: tuple[float, ...]

    @property
    def gain(self) -> float:
        """Mean gain of choosing per sector on held-out seeds."""
        return float(np.mean(self.sector_share) - np.mean(self.single_share))


def measure(
    map_: PowerMap, parameters: Parameters, thresholds: ArrayLike, *, seed: int, hour: float, seconds: float
) -> Report:
    """Run a fresh network with fixed thresholds, (S,), for a minute of warm-up, then report on `seconds`.

    Example:
        >>> from kinband.environments.radio import build_map, draw_layout
        >>> city = build_map(draw_layout(3), Parameters())
        >>> measure(city, Parameters(), [-104, -100, -96], seed=1, hour=20.0, seconds=10).seconds
        10.0
    """
    network = Network(map_, parameters, seed=seed, hour=hour)
    network.run_period(thresholds, seconds=60)
    return network.run_period(thresholds, seconds=seconds)


def sweep_thresholds(
    map_: PowerMap,
    parameters: Parameters,
    *,
    seeds: Sequence[int],
    hour: float,
    seconds: float,
    thresholds: Sequence[float] = GRID_DBM,
) -> Sweep:
    """Run every threshold, the same for all sectors, on every traffic seed.

    Example:
        >>> from kinband.environments.radio import build_map, draw_layout
        >>> city = build_map(draw_layout(3), Parameters())
        >>> sweep = sweep_thresholds(
        ...     city, Parameters(), seeds=[0, 1], hour=20.0, seconds=10, thresholds=[-104, -96]
        ... )
        >>> sweep.satisfied.shape
        (2, 2, 3)
    """
    S = len(map_.layout.names)
    reports = [
        [measure(map_, parameters, np.full(S, float(t)), seed=seed, hour=hour, seconds=seconds) for t in thresholds]
        for seed in seeds
    ]
    satisfied, sessions = (
        np.array([[getattr(report, name) for report in row] for row in reports]) for name in ("satisfied", "sessions")
    )
    return Sweep(np.array(thresholds, dtype=np.float64), satisfied, sessions)


def calibrate(
    map_: PowerMap,
    parameters: Parameters,
    *,
    hour: float = 18.0,
    seconds: float = 600.0,
    training: int = 4,
    held_out: int = 3,
    thresholds: Sequence[float] = GRID_DBM,
) -> Calibration:
    """Answer the three questions for one city at one hour.

    Args:
        map_: The city.
        parameters: The network.
        hour: Hour of the day at which all runs start.
        seconds: Simulated time of each run after a minute of warm-up.
        training: Number of traffic seeds to choose thresholds on, two at least.
        held_out: Number of traffic seeds to compare on.
        thresholds: What to sweep.

    Example:
        >>> from kinband.environments.radio import build_map, draw_layout
        >>> city = build_map(draw_layout(3), Parameters())
        >>> answers = calibrate(city, Parameters(), seconds=10, training=2, held_out=1, thresholds=[-104, -96, -88])
        >>> len(answers.network_share), len(answers.sector_share)
        (3, 1)
    """
    seeds = range(training + held_out)
    sweep = sweep_thresholds(
        map_, parameters, seeds=seeds[:training], hour=hour, seconds=seconds, thresholds=thresholds
    )
    one, other = (sweep.seeds(part).best() for part in (slice(None, training // 2), slice(training // 2, None)))
    share = sweep.network()
    single = float(sweep.thresholds[share.argmax()])
    choices = (np.full(len(map_.layout.names), single), sweep.best())
    held = [
        [measure(map_, parameters, c, seed=seed, hour=hour, seconds=seconds).network_share for c in choices]
        for seed in seeds[training:]
    ]
    return Calibration(
        thresholds=tuple(float(t) for t in thresholds),
        network_share=tuple(share.tolist()),
        best_single=single,
        interior=bool(0 < share.argmax() < len(share) - 1),
        correlation=_correlation(one, other),
        single_share=tuple(row[0] for row in held),
        sector_share=tuple(row[1] for row in held),
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


# --- Numbers behind the check figures -------------------------------------------------------------------------------
#
# Coupling loss and SINR distributions to lay beside published calibration curves, CQI and load histograms, handovers
# and ping-pongs per user-hour, and the satisfied share against the threshold for the network and for six named sectors
# (the two busiest of each of the three kinds of sector that matter most).

QUANTILES = tuple(np.linspace(0, 1, 101).tolist())


def check_figures(
    map_: PowerMap,
    parameters: Parameters,
    *,
    hour: float = 18.0,
    seconds: float = 300.0,
    seeds: Sequence[int] = (0,),
    thresholds: Sequence[float] = GRID_DBM,
) -> dict[str, Any]:
    """Run the network and return the data of all check figures, JSON-able.

    Returns:
        "quantiles": 0, 0.01, …, 1; "coupling_loss_db" and "sinr_db": values at these, for each layer's users;
        "cqi_histogram": share of CQI 0 to 15; "load_histogram": for each layer, cells per tenth of utilisation;
        "thresholds"; against them "handovers_per_user_hour" (down, up, within), "ping_pong_share" of all handovers,
        "network_share", "own_cell_share" and "sectors", a mapping from six station names to shares.

    Example:
        >>> from kinband.environments.radio.city import draw_layout
        >>> from kinband.environments.radio.city import build_map
        >>> data = check_figures(
        ...     build_map(draw_layout(6), Parameters()), Parameters(), seconds=10, thresholds=[-104, -92]
        ... )
        >>> len(data["network_share"]), len(data["sectors"])
        (2, 6)
    """
    S = len(map_.layout.names)
    middle = float(parameters.start_threshold_dbm)
    network = Network(map_, parameters, seed=seeds[0], hour=hour)
    report = network.run_period(np.full(S, middle), seconds=seconds)
    runs = [
        [measure(map_, parameters, np.full(S, float(t)), seed=s, hour=hour, seconds=seconds) for s in seeds]
        for t in thresholds
    ]
    return _snapshot(network, report) | _against_threshold(map_, runs, thresholds)


def _snapshot(network: Network, report: Report) -> dict[str, Any]:
    """Distributions over the users that are connected at the end of a run."""
    p, alive = network.parameters, network.people.alive
    sinr = network.sinr()[alive]
    layer = network.layer[alive]
    loss, quality = {}, {}
    for number, carrier in enumerate(p.layers):
        received = network.serving_dbm()[alive][layer == number]
        loss[carrier.name] = _quantiles(carrier.element_power_dbm - received)
        quality[carrier.name] = _quantiles(10 * np.log10(sinr[layer == number]))
    cqi = np.bincount(cqi_of(sinr, radio=p.radio), minlength=len(CQI_EFFICIENCIES) + 1)
    histogram = [np.histogram(used, bins=10, range=(0, 1.0001))[0].tolist() for used in report.utilisation]
    return {
        "quantiles": list(QUANTILES),
        "coupling_loss_db": loss,
        "sinr_db": quality,
        "cqi_histogram": (cqi / max(1, cqi.sum())).tolist(),
        "load_histogram": dict(zip((layer.name for layer in p.layers), histogram, strict=True)),
    }


def _against_threshold(map_: PowerMap, runs: list[list[Report]], thresholds: Sequence[float]) -> dict[str, Any]:
    hours = np.array([sum(r.users.sum() * r.seconds / 3600 for r in row) for row in runs])
    handovers = np.array([sum(r.handovers.sum(axis=1) for r in row) for row in runs])
    back = np.array([sum(int(r.ping_pongs.sum()) for r in row) for row in runs])
    named = _six_sectors(map_)
    share = [_share([r.satisfied for r in row], [r.sessions for r in row]) for row in runs]
    return {
        "thresholds": [float(t) for t in thresholds],
        "handovers_per_user_hour": {
            kind: (handovers[:, k] / np.maximum(hours, 1e-9)).tolist()
            for k, kind in enumerate(("down", "up", "within"))
        },
        "ping_pong_share": (back / np.maximum(handovers.sum(axis=1), 1)).tolist(),
        "network_share": [_total(row, "satisfied", "sessions") for row in runs],
        "own_cell_share": [_total(row, "capacity_satisfied", "capacity_sessions") for row in runs],
        "sectors": {map_.layout.names[s]: [float(shares[s]) for shares in share] for s in named},
    }


def _total(row: list[Report], part: str, whole: str) -> float:
    return float(sum(getattr(r, part).sum() for r in row) / max(1, sum(getattr(r, whole).sum() for r in row)))


def _share(part: list[Any], whole: list[Any]) -> FloatArray:
    return np.asarray(np.sum(part, axis=0) / np.maximum(np.sum(whole, axis=0), 1), dtype=np.float64)


def _six_sectors(map_: PowerMap) -> list[int]:
    """The two sectors with the most demand of business, homes and hot spots, (6,) all different where possible."""
    demand, chosen = map_.sector_demand(), list[int]()
    for use in (0, 1, 3):
        order = [int(s) for s in np.argsort(-demand[use], kind="stable") if int(s) not in chosen]
        chosen += order[:2]
    return chosen


def _quantiles(values: Any) -> list[float]:
    return [float(v) for v in np.quantile(values, QUANTILES)] if len(values) else []


# --- All checks in one go -------------------------------------------------------------------------------------------

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
