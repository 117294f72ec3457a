"""Did a change help: a station against unchanged ones in the same slots. Arrays in, numbers with intervals out.

**What would have been.** A mixture of the unchanged stations, the *controls*, that followed the station before the
change: weights from 0 that sum to 1, found by least squares on what each earned beyond its own mean (the synthetic
control of Abadie, Diamond and Hainmueller 2010, with a level of its own as in Doudchenko and Imbens 2016). What all
share (evenings, days, weather, an outage in the core) cancels in the difference. Where similarity of stations is
given, it is dear to put weight on those unlike the station.

**How certain.** Every control is given a *placebo*: the same change at the same moment, which did nothing, judged by
the other controls. How far placebos end from zero, in units of what their differences scattered before, is how far an
honest difference may be; autocorrelation, shocks and the error of the weights are all in it, since they are in the
placebos. The scale comes from placebos and the tails from Student's distribution.

**Slot by slot.** `Watch` asks the same question after 1, 2, 3, 4, 6, 8, 12, … slots and spends an equal part of a rate
of false alarms on each look (Bonferroni), so that the rate holds over all looks together. How far chance goes it takes
from the placebos that lost alone: rewards near their ceiling fall further than they rise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.stats import LEVEL, Estimate

CONTROLS = 40
"""The most controls of a station: those that followed it best before."""
LEAST_CONTROLS = 8
"""Fewer leave too few placebos to know what is usual."""
LEAST_BEFORE = 24
"""Slots before a change that controls are found from, at least."""
LEAST_AFTER = 4
"""Slots after a change from which something is said, at least."""
KNOWN = 0.8
"""Share of the slots that a control must have, before the change and after."""
LEAST_SCATTER = 0.2
"""The scatter of a difference is at least this share of the median control's: a quiet week is no promise."""
_ROUNDING = 1e-12  # a scatter below this share of what is earned is that of floating-point numbers

# --- One station and its controls ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """A station's controls, learned before its change, and the same for every control in the station's place.

    Attributes:
        weights: What each unit is compared with, (1 + K, K): the station first, then the controls, each by the others.
        levels: How far each is above its comparison, (1 + K,).
        scatter: Standard deviation of the difference before the change, (1 + K,).
        means: Of the controls before the change, (K,).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> city = np.sin(np.arange(60) / 4)[:, None] + 0.1 * rng.normal(size=(60, 13))
        >>> found = Comparison.of(city[:48, 0], city[:48, 1:])
        >>> found.judged(city[48:, 0] - 0.5, city[48:, 1:]).gain.side(0.0)  # a loss for certain
        -1
    """

    weights: FloatArray
    levels: FloatArray
    scatter: FloatArray
    means: FloatArray

    @classmethod
    def of(cls, station: FloatArray, controls: FloatArray, *, alike: FloatArray | None = None) -> "Comparison":
        """Learn what a station is compared with from what was earned before its change.

        Args:
            station: What it earned, (B,), known in every slot.
            controls: What unchanged stations earned in the same slots, (B, K); nan where not known.
            alike: Similarity of the station and the controls with each other, (1 + K, 1 + K), 1 for the same.
        """
        B, K = controls.shape
        if B < LEAST_BEFORE or K < LEAST_CONTROLS:
            raise BadInputError(
                f"a comparison takes {LEAST_BEFORE} slots before and {LEAST_CONTROLS} controls at least, got {B} and "
                f"{K}"
            )
        means = np.nanmean(controls, axis=0)
        units = np.column_stack([station - station.mean(), _filled(controls, means) - means])
        weights = np.zeros((K + 1, K))
        for unit in range(K + 1):
            others = np.array([j for j in range(1, K + 1) if j != unit])
            unlike = None if alike is None else 1.0 - np.clip(alike[unit, others], 0.0, 1.0)
            weights[unit, others - 1] = mixture(units[:, unit], units[:, others], unlike=unlike)
        rest = units - units[:, 1:] @ weights.T
        own = np.concatenate([[station.mean()], means])
        scatter = rest.std(axis=0)
        scatter = np.maximum(scatter, LEAST_SCATTER * np.median(scatter[1:]))
        if not scatter.min() > _ROUNDING * max(float(np.abs(own).max()), float(np.abs(units).max())):
            raise BadInputError("most controls never vary, so that nothing can be said of what is usual")
        return cls(weights, own - weights @ means, scatter, means)

    def differences(self, station: FloatArray, controls: FloatArray) -> FloatArray:
        """Return how far each unit is above what it is compared with, slot by slot, (A, 1 + K)."""
        known = _filled(controls, self.means)
        return np.asarray(np.column_stack([station, known]) - known @ self.weights.T - self.levels)

    def errors(self, means: FloatArray) -> FloatArray:
        """Return by how much the station may be off by chance, as each placebo has it, (K,), from mean differences."""
        return np.asarray(self.scatter[0] * means[1:] / self.scatter[1:])

    def judged(self, station: FloatArray, controls: FloatArray) -> "Verdict":
        """Return what a change brought, on average over the slots after it, (A,) and (A, K)."""
        means = self.differences(station, controls).mean(axis=0)
        errors = self.errors(means)
        size = float(np.sqrt(np.mean(errors**2)))
        own = float(np.sqrt(np.mean(errors**2 / (1.0 + np.sum(self.weights[1:] ** 2, axis=1)))))
        earned = float(station.mean())
        return Verdict(_estimate(float(means[0]), size, len(errors)), earned, size, own, len(errors))


@dataclass(frozen=True)
class Verdict:
    """What a change brought.

    Attributes:
        gain: By how much the station earned more than it would have.
        earned: What it earned, on average.
        size: Standard deviation of the gain's error, controls included.
        own: That of the station alone, without what its controls add.
        placebos: How many these were found from.
    """

    gain: Estimate
    earned: float
    size: float
    own: float
    placebos: int

    @property
    def otherwise(self) -> float:
        """What it would have earned without the change."""
        return self.earned - self.gain.value


def mean_verdict(verdicts: Sequence[Verdict], weights: FloatArray, windows: FloatArray) -> Estimate:
    """Return what changes brought on average, with an interval that counts whom and which hours they share.

    The errors of two changes hang together as far as they are compared with the same stations in the same hours: the
    covariance of changes i and k is s_i s_k Σ_j w_ij w_kj, times how much of their hours they share.

    Args:
        verdicts: Of each change, (C,).
        weights: What each was compared with, (C, N), by station.
        windows: The first slot after each change and the first that is not counted any more, (C, 2).
    """
    from scipy.sparse import csr_array

    C = len(verdicts)
    own, size = (np.array([getattr(one, name) for one in verdicts]) for name in ("own", "size"))
    total = float(np.sum(size**2))
    sparse = csr_array(weights)
    first, last = windows[:, 0], windows[:, 1]
    for k in range(C - 1):
        later = slice(k + 1, C)
        shared = np.clip(np.minimum(last[k], last[later]) - np.maximum(first[k], first[later]), 0, None)
        shared = shared / np.sqrt((last[k] - first[k]) * (last[later] - first[later]))
        alike = sparse[later] @ weights[k]
        total += 2.0 * own[k] * float(np.sum(own[later] * alike * shared))
    value = float(np.mean([one.gain.value for one in verdicts]))
    return _estimate(value, float(total) ** 0.5 / C, min(one.placebos for one in verdicts))


def _estimate(value: float, size: float, placebos: int) -> Estimate:
    reach = quantile(LEVEL / 2 + 0.5, placebos) * size
    return Estimate(value, value - reach, value + reach)


def mixture(target: FloatArray, controls: FloatArray, *, unlike: FloatArray | None = None) -> FloatArray:
    """Return the weights (K,), from 0 and with sum 1, with which controls (B, K) follow a target (B,) best.

    Args:
        target: What is to be followed.
        controls: What follows.
        unlike: How unlike each control is, (K,), from 0 to 1: its weight costs as much as so great a share of the
            target's own scatter from slot to slot would.

    Example:
        >>> waves = np.sin(np.arange(40)[:, None] * [0.3, 0.7, 1.1])
        >>> mixture(0.25 * waves[:, 0] + 0.75 * waves[:, 2], waves).round(3)
        array([0.25, 0.  , 0.75])
    """
    from scipy.optimize import nnls

    B, K = controls.shape
    sure = 1e3 * np.sqrt(B) * max(float(np.abs(controls).max(initial=0.0)), float(np.abs(target).max()), 1e-12)
    rows, ends = [controls, np.full((1, K), sure)], [target, np.array([sure])]
    if unlike is not None:
        rows.append(np.diag(unlike) * np.sqrt(B) * np.diff(target).std())
        ends.append(np.zeros(K, dtype=np.float64))
    found = np.asarray(nnls(np.vstack(rows), np.concatenate(ends))[0])
    total = float(found.sum())
    return found / total if total > 0 else np.full(K, 1.0 / K)


def nearest(station: FloatArray, others: FloatArray, *, most: int = CONTROLS) -> IntArray:
    """Return the numbers of those of the others (B, N) that followed a station (B,) best, each from its own mean."""
    apart = np.nanmean((others - np.nanmean(others, axis=0) - (station - station.mean())[:, None]) ** 2, axis=0)
    return np.sort(np.argsort(apart, kind="stable")[:most])


def _filled(controls: FloatArray, means: FloatArray) -> FloatArray:
    """Controls (A, K) with what is not known put as far from its mean as the others are at that moment."""
    unknown = np.isnan(controls)
    if not unknown.any():
        return controls
    rest = np.where(unknown, 0.0, controls - means)
    moment = rest.sum(axis=1) / np.maximum((~unknown).sum(axis=1), 1)
    return np.where(unknown, means + moment[:, None], controls)


@cache
def quantile(share: float, placebos: int) -> float:
    """Return how many times its usual size a difference may have, with so many placebos to know that from."""
    from scipy.stats import t

    return float(t.ppf(share, placebos))


# --- Slot by slot -----------------------------------------------------------------------------------------------------

RATE = 0.05
"""How often a change that does nothing may be taken for a loss, over all looks together."""
HORIZON = 96
"""Slots over which a change is watched, if nothing else is said."""


@cache
def looks(horizon: int) -> tuple[int, ...]:
    """Return after how many slots one looks: 1, 2, 3, then four times before each number is doubled twice.

    Example:
        >>> looks(40)
        (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    """
    steps = sorted({1, 3} | {2**k for k in range(1, 40)} | {3 * 2**k for k in range(40)})
    return tuple(step for step in steps if step <= horizon)


@dataclass(frozen=True, eq=False)
class Watch:
    """A change under way: what is known of it after some slots, and whether it is a loss for certain.

    Attributes:
        comparison: The station and its controls, learned before.
        rate: How often a change that does nothing may be taken for a loss, over all looks together.
        horizon: Slots after which nobody looks any more.
        slots: Slots so far.
        sums: Of the differences, (1 + K,).
        lost: After how many slots it was a loss for certain; 0 if it was not, so far.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> city = np.sin(np.arange(60) / 4)[:, None] + 0.1 * rng.normal(size=(60, 13))
        >>> watch = Watch.begin(Comparison.of(city[:48, 0], city[:48, 1:]))
        >>> for slot in city[48:]:
        ...     watch = watch.told(slot[0] - 0.3, slot[1:])
        >>> watch.lost
        3
    """

    comparison: Comparison
    rate: float
    horizon: int
    slots: int
    sums: FloatArray
    lost: int = 0

    @classmethod
    def begin(cls, comparison: Comparison, *, rate: float = RATE, horizon: int = HORIZON) -> "Watch":
        """Begin to watch a change."""
        return cls(comparison, rate, horizon, 0, np.zeros(len(comparison.levels)))

    def told(self, reward: float, controls: FloatArray) -> "Watch":
        """Return what is known after one more slot: the station's reward, and its controls', (K,), nan if not known."""
        return self.through(np.array([reward]), controls[None, :])

    def through(self, rewards: FloatArray, controls: FloatArray) -> "Watch":
        """Return what is known after more slots: the station's rewards, (A,), and its controls', (A, K)."""
        sums = self.sums + np.cumsum(self.comparison.differences(rewards, controls), axis=0)
        lost = self.lost
        for look in looks(self.horizon):
            if not lost and self.slots < look <= self.slots + len(sums):
                seen = replace(self, slots=look, sums=sums[look - self.slots - 1])
                lost = look if seen.loss > seen.bound else 0
        return replace(self, slots=self.slots + len(sums), sums=sums[-1], lost=lost)

    @property
    def loss(self) -> float:
        """What the change has lost on average so far; below zero for a gain."""
        return -float(self.sums[0]) / self.slots if self.slots else 0.0

    @property
    def bound(self) -> float:
        """How large a loss may be by chance at this look, as placebos that lost have it; infinite where none did."""
        errors = self.comparison.errors(self.sums / max(self.slots, 1))
        lost = errors[errors < 0]
        if not len(lost):
            return inf
        share = 1.0 - self.rate / len(looks(self.horizon))
        return quantile(share, len(lost)) * float(np.sqrt(np.mean(lost**2)))
