"""Whether intervals hold what they promise, station by station.

If model and noise are right, the rewards of a station, each less its prediction and over its standard deviation, are
independent and standard normal (Rosenblatt 1952, Dawid 1984), though the policy chose where to look: it chose by what
was known. It takes rewards that are told before the station is asked again; where several are awaited at once, what one
of them teaches comes too late for the others. Between stations of a round they depend on each other, so that intervals
over all stations are taken over rounds.

A station is flagged where Σz² is too large or too small for χ², at a false discovery rate of 5 % over all stations
(Benjamini and Hochberg 1995), and the share of rewards inside the 80 % interval says the same; one wild reward does
not make an interval too narrow. All stations together are judged by the same two, the mean of z² by its interval over
rounds. Rewards that run above or below their predictions are flagged likewise, by Σz.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.counting import counted
from kinband.trust.statistics import Interval, discoveries, mean_of, mean_square_of, p_of_bias, p_of_spread, share_of
from kinband.trust.told import Predictions

LEVELS = (0.5, 0.8, 0.95)
"""The intervals that are looked at."""
BINS = 10
"""Of the histogram."""
RATE = 0.05
"""Share of flags that may be false, on average."""

NARROW, WIDE, FITS = "too narrow", "too wide", "fits"
ABOVE, BELOW = "above predictions", "below predictions"


@dataclass(frozen=True, eq=False)
class Calibrated:
    """How well the predictions of one station, or of all, held.

    Attributes:
        name: The station, or "all".
        rewards: How many were told.
        coverage: Share of rewards inside the 50, 80 and 95 % intervals, by level.
        bias: Mean of z.
        spread: Mean of z²; 1 if widths are right.
        histogram: Rewards by their place in the predicted distribution, in ten parts of equal probability, (10,).
        p_spread: Of the test that the spread is right.
        p_bias: Of the test that there is no bias.
        verdict: "fits", "too narrow" or "too wide".
        drift: "above predictions" or "below predictions" where rewards run so, else empty.

    Example:
        >>> calibrated("a", np.array([0.3, -1.4, 0.8]))
        a: 3 rewards, 67 % inside 80 % intervals, mean z² 0.90, fits
    """

    name: str
    rewards: int
    coverage: dict[float, Interval]
    bias: Interval
    spread: Interval
    histogram: IntArray
    p_spread: float
    p_bias: float
    verdict: str = FITS
    drift: str = ""

    def __repr__(self) -> str:
        if not self.rewards:
            return f"{self.name}: no rewards"
        inside = f"{self.coverage[0.8].value:.0%}".replace("%", " %")
        numbers = f"{counted(self.rewards, 'reward')}, {inside} inside 80 % intervals, mean z² {self.spread.value:.2f}"
        return f"{self.name}: {numbers}, {' and '.join(filter(None, [self.verdict, self.drift]))}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        if not self.rewards:
            return {"station": self.name, "rewards": 0}
        return {
            "station": self.name,
            "rewards": self.rewards,
            "coverage": {f"{level:g}": share.to_dict() for level, share in self.coverage.items()},
            "mean_z": self.bias.to_dict(),
            "mean_z2": self.spread.to_dict(),
            "histogram": self.histogram.tolist(),
            "p_spread": self.p_spread,
            "p_bias": self.p_bias,
            "verdict": self.verdict,
            "drift": self.drift,
        }


def calibrated(name: str, z: FloatArray, *, clusters: IntArray | None = None) -> Calibrated:
    """Return how well predictions held whose errors in standard deviations are z (n,); no flags yet.

    Args:
        name: Whose they are.
        z: Rewards less predictions, over standard deviations.
        clusters: Which of them may depend on each other, (n,); none by default.
    """
    from scipy.special import ndtr, ndtri

    coverage = {level: share_of(int((np.abs(z) <= ndtri(0.5 + level / 2)).sum()), len(z)) for level in LEVELS}
    places = np.minimum((ndtr(z) * BINS).astype(np.int64), BINS - 1)
    return Calibrated(
        name,
        len(z),
        coverage,
        bias=mean_of(z, clusters),
        spread=mean_square_of(z, clusters),
        histogram=np.bincount(places, minlength=BINS),
        p_spread=p_of_spread(z),
        p_bias=p_of_bias(z),
    )


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far predictions can be trusted.

    Attributes:
        overall: All stations together.
        stations: Every station, in the controller's order.
    """

    overall: Calibrated
    stations: tuple[Calibrated, ...]

    def flagged(self, verdict: str) -> list[Calibrated]:
        """Return the stations of a verdict or drift, the clearest first."""
        found = [s for s in self.stations if verdict in (s.verdict, s.drift)]
        by_bias = verdict in (ABOVE, BELOW)
        return sorted(found, key=lambda s: s.p_bias if by_bias else s.p_spread)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"overall": self.overall.to_dict(), "stations": [station.to_dict() for station in self.stations]}


def calibration_of(parts: Sequence[tuple[Sequence[str], Predictions]]) -> Calibration:
    """Return the calibration of all stations, from the names of each controller and its predictions.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.trust.told import predictions_of
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25, mean=0.5)
        >>> controller.tell(controller.ask("a").id, 1.0)
        >>> calibration_of([(controller.stations, predictions_of(controller))]).stations
        (a: 1 reward, 100 % inside 80 % intervals, mean z² 0.20, fits, b: no rewards)
    """
    stations = [
        calibrated(name, made.z[made.tasks == task]) for names, made in parts for task, name in enumerate(names)
    ]
    z = np.concatenate([made.z for _, made in parts])
    together = calibrated("all", z, clusters=_clusters([made.rounds for _, made in parts]))
    return Calibration(_over_rounds(together), tuple(_flags(stations)))


def _clusters(rounds: Sequence[IntArray]) -> IntArray:
    """Number the rounds of several controllers so that no two have one in common, (n,)."""
    labelled = [np.column_stack([np.full(len(one), number), one]) for number, one in enumerate(rounds)]
    _, place = np.unique(np.concatenate(labelled), axis=0, return_inverse=True)
    return np.asarray(place.ravel(), dtype=np.int64)


def _flags(stations: Sequence[Calibrated]) -> list[Calibrated]:
    """Return stations with their verdicts, at one false discovery rate for each kind of flag."""
    told = [s for s in stations if s.rewards]
    spread = discoveries(np.array([s.p_spread for s in told]), rate=RATE)
    bias = discoveries(np.array([s.p_bias for s in told]), rate=RATE)
    flagged = {
        s.name: _flag(s, spread=bool(wrong), bias=bool(off)) for s, wrong, off in zip(told, spread, bias, strict=True)
    }
    return [flagged.get(s.name, s) for s in stations]


def _flag(station: Calibrated, *, spread: bool, bias: bool) -> Calibrated:
    """Return a station, or all of them, with verdicts: where tests say so, and the share inside says the same."""
    verdict, drift = FITS, ""
    inside = station.coverage[0.8].value
    if spread and station.spread.value > 1.0 and inside < 0.8:
        verdict = NARROW
    elif spread and station.spread.value < 1.0 and inside > 0.8:
        verdict = WIDE
    if bias:
        drift = ABOVE if station.bias.value > 0 else BELOW
    return replace(station, verdict=verdict, drift=drift)


def _over_rounds(all_: Calibrated) -> Calibrated:
    """Return the whole with verdicts by intervals over rounds."""
    return _flag(all_, spread=all_.spread.side(1.0) != 0, bias=all_.bias.side(0.0) != 0)
