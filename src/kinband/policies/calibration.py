"""Bounds that rewards miss no more often than stated, whatever the model: online conformal calibration.

A rule with a rate δ takes what is predicted, with its standard deviation, and multiplies that by a quantile q. At first
q is the normal one, z. Each reward that is told then moves it, by whether it fell below its own bound, f̂ − q√(σ² + λ)
with the q of when it was asked:

    q = z + s·e,    e ← max(e + missed − δ, −z/s).

This is the recursion of Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift" (2021), on the
quantile itself. Zhang, Park and Simeone, "Bayesian Optimization with Formal Safety Guarantees via Online Conformal
Prediction" (2024), calibrate the safe set of SafeOpt with it. Two departures. They count every round, and one in which
the safe seed is played cannot miss; a station that stays where it is cannot either, so that trials could miss at will
as long as there are few of them. Here a reward of what a station ran anyway is held against its own bound, which it
can miss; and trials are counted a second time by themselves, with an e of their own: q takes the larger of the two.
And their rounds have one reward each; ours come late and in any order, so the q that counts is that of the asking.

*What holds.* Let no reward ever lie more than B of its √(σ² + λ) below its prediction, and no more than P rewards be
told between a decision and its own. Then of any n rewards told in a row at most

    δn + B/s + (P + 1)(1 − δ)

are missed, and of any n of trials likewise. For a reward is missed only if its q was below B, and so e below (B − z)/s
when it was asked; since then e has grown by P + 1 misses at most; so e is never above (B − z)/s + (P + 1)(1 − δ), nor
below −z/s, and misses less δn are what it has grown by at most. Nothing is assumed of model, noise or order. That is
what a long run divides by n; how soon, B and P decide. It is a promise of rewards and of their own bounds. What it
means for a floor: docs/learning.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

STEP = 0.25
"""s: by how much a missed bound moves the quantile; on development seeds 0.2 to 1 differed by little."""

NOTE = "calibrated"
"""Where a decision's policy_state keeps the quantiles it was made with."""


@dataclass(frozen=True)
class Tally:
    """How many rewards were told, how many of them missed their bound, and e, by how much those were too many."""

    rows: int = 0
    missed: int = 0
    excess: float = 0.0

    def told(self, missed: bool, *, delta: float, least: float) -> "Tally":
        """Return the tally with one reward more."""
        return Tally(self.rows + 1, self.missed + missed, max(self.excess + missed - delta, least))

    def corrected(self, by: int, *, least: float) -> "Tally":
        """Return the tally with one bound more missed, or one less."""
        return replace(self, missed=self.missed + by, excess=max(self.excess + by, least))


@dataclass(frozen=True)
class Calibration:
    """How a rule with a rate has fared, and the quantile that follows.

    Attributes:
        delta: The share of rewards that may miss their bound.
        sides: 1 where only what falls short counts, 2 where what exceeds does as well.
        every: Of all rewards.
        trials: Of those of trials.

    Example:
        >>> rule = Calibration(0.05)
        >>> [round(one.quantile, 3) for one in (rule, rule.told(True, trial=False), rule.told(False, trial=True))]
        [1.645, 1.882, 1.632]
        >>> rule.told(False, trial=False).quantile == rule.quantile  # nothing is known of trials
        True
    """

    delta: float
    sides: int = 1
    every: Tally = field(default_factory=Tally)
    trials: Tally = field(default_factory=Tally)

    @property
    def usual(self) -> float:
        """z: the quantile of the normal distribution."""
        return max(NormalDist().inv_cdf(1.0 - self.delta / self.sides), 0.0)

    @property
    def quantile(self) -> float:
        """q: what standard deviations are multiplied by."""
        return max(self.usual + STEP * max(self.every.excess, self.trials.excess), 0.0)

    @property
    def stretch(self) -> float:
        """By how much bounds of another shape are to be widened: never less than the model's own."""
        return max(self.quantile / self.usual, 1.0) if self.usual else 1.0

    @property
    def seeded(self) -> bool:
        """Whether 1/δ rewards are known; before, nothing is proposed but what has run."""
        return self.every.rows * self.delta >= 1.0 - 1e-9

    def told(self, missed: bool, *, trial: bool) -> "Calibration":
        """Return the calibration with one reward more."""
        how: Mapping[str, float] = {"delta": self.delta, "least": self._least}
        trials = self.trials.told(missed, **how) if trial else self.trials
        return replace(self, every=self.every.told(missed, **how), trials=trials)

    def corrected(self, by: int, *, trial: bool) -> "Calibration":
        """Return the calibration after a correction: 1 where a bound was missed after all, -1 where it was kept."""
        trials = self.trials.corrected(by, least=self._least) if trial else self.trials
        return replace(self, every=self.every.corrected(by, least=self._least), trials=trials)

    @property
    def _least(self) -> float:
        return -self.usual / STEP

    def to_dict(self) -> dict[str, Any]:
        """Return what a decision notes of it.

        Example:
            >>> Calibration(0.5).told(True, trial=False).to_dict()
            {'quantile': 0.125, 'rows': 1, 'missed': 1, 'trials': 0, 'trials_missed': 0}
        """
        every, trials = self.every, self.trials
        return {
            "quantile": self.quantile, "rows": every.rows, "missed": every.missed,
            "trials": trials.rows, "trials_missed": trials.missed,
        }  # fmt: skip

    def stored(self) -> list[Any]:
        """Return plain values that `taken_up` takes."""
        return [[one.rows, one.missed, one.excess] for one in (self.every, self.trials)]

    def taken_up(self, values: Sequence[Any]) -> "Calibration":
        """Return the calibration that `stored` told."""
        every, trials = (Tally(*one) for one in values)
        return replace(self, every=every, trials=trials)
