"""When rewards have left their bounds: a sequential test with a stated rate of false alarms.

A reward less its prediction, in standard deviations of the prediction (noise included), is a residual z. If the model
holds, z is standard normal given everything before it. Had the station changed at some decision, residuals since then
would be off by some λ, and their likelihood ratio against no change would be Π exp(λz − λ²/2). The test adds these up
over all moments at which the change may have come (Shiryaev 1963, Roberts 1966) and averages over a few shifts λ up and
down, which makes for one recursion a shift:

    R ← (R + 1) · exp(λz − λ²/2),   evidence = mean of R over the shifts.

Whatever the model holds for, the evidence less the number of residuals is a martingale. Hence, at the first time the
evidence reaches A, E[number of residuals] = E[evidence] ≥ A: false alarms are A decisions apart on average or more, and
come within n decisions with a chance of n/A at most (Doob). Shin, Ramdas and Rinaldo (2024, "E-detectors: a
nonparametric framework for sequential change detection") prove this for all residuals with E exp(λz − λ²/2) ≤ 1, not
only normal ones. After a shift of δ the evidence grows by about δ²/2 in its logarithm a decision.

Two precautions keep to that condition, where models are never quite right. Residuals are cut off at `CLIP`, so that one
odd reward proves nothing: a cut-off normal is less spread than a normal one (in convex order). And a station whose
residuals have been wider than they should be is judged by its own spread: z is divided by the root mean square of the
residuals before it, `PRIOR` residuals of size 1 among them, where that is above 1; never below, which would only make
for alarms that the model does not account for.
"""

from math import sqrt

import numpy as np

from kinband.arrays import FloatArray

SHIFTS: FloatArray = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
"""How far a change is thought to move rewards, in standard deviations of their prediction."""

CLIP = 4.0
"""Residuals count up to this many standard deviations."""

PRIOR = 10.0
"""How many residuals of size 1 a station's own spread starts from."""


class Evidence:
    """How much speaks for a change of one station since it began.

    Attributes:
        value: The evidence; a change is taken for granted when it reaches the run length.

    Example:
        >>> evidence = Evidence()
        >>> for z in (0.3, -0.8, 1.1):
        ...     evidence.add(z)
        >>> evidence.value < 5
        True
        >>> for z in (-2.9, -3.4, -2.2, -3.1):
        ...     evidence.add(z)
        >>> evidence.value > 2000
        True
    """

    def __init__(self) -> None:
        self.value = 0.0
        self._R = np.zeros(len(SHIFTS))
        self._squares, self._count = PRIOR, PRIOR

    def add(self, z: float) -> None:
        """Take in a residual in standard deviations of its prediction."""
        spread = max(1.0, sqrt(self._squares / self._count))
        scaled = min(max(z / spread, -CLIP), CLIP)
        self._squares += (scaled * spread) ** 2
        self._count += 1.0
        self._R = (self._R + 1.0) * np.exp(SHIFTS * scaled - 0.5 * SHIFTS**2)
        self.value = float(self._R.sum()) / len(SHIFTS)


def residual(reward: float, *, mean: float, width: float, noise: float) -> float:
    """Return a reward less its prediction, in standard deviations of f and noise together.

    Example:
        >>> residual(1.0, mean=0.5, width=0.6, noise=0.64)
        0.5
    """
    return (reward - mean) / sqrt(width * width + noise)
