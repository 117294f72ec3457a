"""The kernel of a clock: what was learned long ago counts less, at a rate that has a half-life.

`Forgetting` multiplies the kernel of all other columns. With everything faded, k(t, t') = 2^(−|t − t'|/h) is the
covariance of an Ornstein-Uhlenbeck process (Uhlenbeck and Ornstein 1930; Rasmussen and Williams 2006, section 4.2.1,
Matérn ν = 1/2): given the present, the past says nothing more, and forgetting is exactly geometric. As a time kernel of
a bandit it is that of Bogunovic, Scarlett and Cevher (2016, "Time-varying Gaussian process bandit optimization"), whose
(1 − ε)^(|t − t'|/2) has ε = 1 − 4^(−1/h). A share `keep` of what is known may be exempt: a part of f that never changes
beside one that drifts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import ClassVar

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.errors import BadInputError
from kinband.kernels.base import Limits
from kinband.kernels.scaled import Scaled
from kinband.kernels.stationary import Stationary

HALF_LIFE_BOUNDS: Limits = (1e-9, 1e12)
"""No more than what numbers bear: half-lives are in the unit of the clock, whatever that is."""


@dataclass(frozen=True, repr=False)
class Forgetting(Stationary):
    """k(t, t') = variance · (keep + (1 − keep) · 2^(−|t − t'|/half-life)), for one column that holds a time.

    Arguments: see `Scaled`; the length-scale is the half-life, in the unit of the column.

    Attributes:
        keep: Share of the variance that never fades, from 0 on and below 1.

    Example:
        >>> Forgetting(10.0)(np.array([[0.0]]), np.array([[0.0], [10.0], [30.0]]))
        array([[1.   , 0.5  , 0.125]])
        >>> Forgetting(10.0, keep=0.5)(np.array([[0.0]]), np.array([[10.0]]))
        array([[0.75]])
    """

    keep: float = field(default=0.0, kw_only=True)
    length_scale_bounds: Sequence[float] = field(default=HALF_LIFE_BOUNDS, kw_only=True)
    kind: ClassVar[str] = "forgetting"

    def __post_init__(self) -> None:
        Scaled.__post_init__(self)
        keep = finite_number(self.keep, name="keep")
        if not 0.0 <= keep < 1.0:
            raise BadInputError(f"keep is the share that never fades, from 0 on and below 1, got {keep:g}")
        if self.columns is not None and len(self.columns) != 1:
            raise BadInputError(f"a clock is one column, got {len(self.columns)}")
        object.__setattr__(self, "keep", keep)

    def _profile(self, r2: FloatArray) -> FloatArray:
        K = np.sqrt(r2, out=r2)
        K *= -log(2.0)
        np.exp(K, out=K)
        K *= 1.0 - self.keep
        K += self.keep
        K *= self.variance
        return K

    def _profile_and_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        r = np.sqrt(r2)
        # h = −2 ∂k/∂r² has no limit at r = 0, where it only ever multiplies r² = 0.
        faded = np.divide(np.exp(-log(2.0) * r), r, out=np.zeros_like(r), where=r > 0)
        return self._profile(r2), log(2.0) * (1.0 - self.keep) * self.variance * faded

    def _sum_r2(self, A: FloatArray, X: FloatArray) -> FloatArray:
        # Over pairs: with h large near r = 0, the sums of `Stationary` would cancel badly.
        return np.array([np.vdot(A, self._r2(X, X))])
