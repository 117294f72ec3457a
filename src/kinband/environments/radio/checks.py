"""Is it a problem worth learning? The satisfied share against the threshold, for the network and for each sector.

Three questions, asked with traffic seeds that share one city. Has the network's share an interior optimum at a busy
hour? Do sectors agree with themselves: is a sector's best threshold on some traffic seeds its best on others? And
does choosing per sector on some seeds beat the best single threshold on other seeds, with the chosen mixture really
running, neighbours included? Everything is run, nothing is interpolated; people and their wishes are the same for
all thresholds of a seed, which keeps the comparison in pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio.counters import Report
from kinband.environments.radio.maps import PowerMap
from kinband.environments.radio.network import Network
from kinband.environments.radio.parameters import Parameters

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
