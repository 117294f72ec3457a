"""Placebo changes and losses of a known size, judged by kinband, by simpler ways, and by the rule of guard rails."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.guardrails import Fallback
from kinband.judging import Comparison, Verdict, Watch, mean_verdict, nearest
from kinband.stats import Estimate

LOSS = 0.03
RULES = tuple(
    Fallback(drop=drop, slots=slots) for drop in (0.015, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3) for slots in (3, 6, 12, 24)
)
"""Settings of the rule of own slots that are tried; the one of the guard rails' page is among them."""


@dataclass(frozen=True)
class Spot:
    """A station and a slot at which nothing happened: B slots before it, A after."""

    station: int
    slot: int
    before: int
    after: int

    def parts(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rewards before, (B, N), and after, (A, N)."""
        return Y[self.slot - self.before : self.slot], Y[self.slot : self.slot + self.after]


def stations_once(Y: FloatArray, *, before: int, after: int) -> Iterator[Spot]:
    """Yield each station once, after so many slots, where it is known throughout."""
    for station in range(Y.shape[1]):
        if np.isfinite(Y[: before + after, station]).all():
            yield Spot(station, before, before, after)


def spots(Y: FloatArray, rng: np.random.Generator, *, count: int, before: int, after: int) -> Iterator[Spot]:
    """Yield spots drawn at random from those where the station is known throughout."""
    while count:
        spot = Spot(int(rng.integers(Y.shape[1])), int(rng.integers(before, len(Y) - after + 1)), before, after)
        if all(np.isfinite(part[:, spot.station]).all() for part in spot.parts(Y)):
            count -= 1
            yield spot


def compared(Y: FloatArray, spot: Spot, others: IntArray) -> tuple[Comparison, IntArray]:
    """Return how a station is compared, and with whom of the others."""
    before, _ = spot.parts(Y)
    chosen = others[nearest(before[:, spot.station], before[:, others])]
    return Comparison.of(before[:, spot.station], before[:, chosen]), chosen


def others_of(Y: FloatArray, *stations: int) -> IntArray:
    """Return all stations but these."""
    return np.setdiff1d(np.arange(Y.shape[1]), stations)


def judged(Y: FloatArray, spot: Spot) -> tuple[Verdict, dict[str, float]]:
    """Judge nothing, and say what simpler ways would have: what the truth is 0 of."""
    found, chosen = compared(Y, spot, others_of(Y, spot.station))
    before, after = spot.parts(Y)
    verdict = found.judged(after[:, spot.station], after[:, chosen])
    moved = np.nanmean(after, axis=0) - np.nanmean(before, axis=0)
    own = float(moved[spot.station])
    simple = {
        "own hours before": own,
        "mean of all others": own - float(np.nanmean(moved[others_of(Y, spot.station)])),
        "mean of the nearest ten": own
        - float(np.nanmean(moved[chosen[nearest(before[:, spot.station], before[:, chosen], most=10)]])),
        "weighted (kinband)": verdict.gain.value,
    }
    return verdict, simple


def judged_together(Y: FloatArray, rng: np.random.Generator, *, changes: int, before: int, after: int) -> Estimate:
    """Judge so many placebo changes of one night together."""
    slot = int(rng.integers(before, len(Y) - after + 1))
    treated = rng.permutation(Y.shape[1])[:changes]
    rest = others_of(Y, *treated.tolist())
    verdicts, weights = [], np.zeros((changes, Y.shape[1]))
    for k, station in enumerate(treated.tolist()):
        spot = Spot(station, slot, before, after)
        found, chosen = compared(Y, spot, rest)
        later = spot.parts(Y)[1]
        verdicts.append(found.judged(later[:, station], later[:, chosen]))
        weights[k, chosen] = found.weights[0]
    return mean_verdict(verdicts, weights, np.tile([slot, slot + after], (changes, 1)).astype(np.float64))


# --- While a change is under way -------------------------------------------------------------------------------------


def watched(Y: FloatArray, spot: Spot, *, loss: float) -> float:
    """Return after how many slots a change with such a loss is taken for one; infinity if it is not."""
    found, chosen = compared(Y, spot, others_of(Y, spot.station))
    watch = Watch.begin(found, horizon=spot.after)
    for row in spot.parts(Y)[1]:
        watch = watch.told(float(row[spot.station]) - loss, row[chosen])
        if watch.lost:
            return float(watch.lost)
    return inf


def rolled_back(Y: FloatArray, spot: Spot, rule: Fallback, *, loss: float) -> float:
    """Return after how many slots the rule of own slots takes a change back; infinity if it does not."""
    before, after = spot.parts(Y)
    earned, own = float(before[-rule.before :, spot.station].mean()), after[:, spot.station] - loss
    if len(own) < rule.slots:
        return inf
    best = np.lib.stride_tricks.sliding_window_view(own, rule.slots).max(axis=1)
    fell = np.flatnonzero(earned - best > rule.allowance(earned))
    return float(fell[0] + rule.slots) if len(fell) else inf
