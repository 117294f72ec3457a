"""Stationary kernels of numeric columns: RBF and two Matérn kernels.

Squared distances come from SciPy's `cdist`, which forms each entry by a plain sum over the columns. The
gradient to a length-scale is Σ_ik A_ik (x_i − x_k)²/l², and for symmetric A this is
2 (Σ_i x_i² Σ_k A_ik − xᵀA x)/l²: one thin matrix product for all columns together.
Formulas: Rasmussen and Williams (2006), chapter 4.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kinband.arrays import FloatArray
from kinband.kernels.scaled import Scaled


class Stationary(Scaled):
    """A function of r² = Σ_j (x_j − y_j)²/l_j², the scaled squared distance."""

    def _r2(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        scales = self.scales_of(X.shape[1])
        return cdist(X / scales, Y / scales, "sqeuclidean")

    def _sum_r2(self, A: FloatArray, X: FloatArray) -> FloatArray:
        # Moving the origin changes no difference, but keeps the two sums small and their rounding too.
        X = (X - X.mean(axis=0)) / self.scales_of(X.shape[1])
        totals: FloatArray = 2.0 * (A.sum(axis=1) @ (X * X) - np.sum(X * (A @ X), axis=0))
        return totals


@dataclass(frozen=True, repr=False)
class RBF(Stationary):
    """k(x, y) = variance · exp(−r²/2): smooth, and a product over its columns.

    Arguments: see `Scaled`.

    Example:
        >>> k = RBF([0.5, 2.0], variance=3.0)
        >>> bool(np.isclose(k(np.array([[0.0, 0.0]]), np.array([[0.5, 2.0]])), 3 * np.exp(-1)).all())
        True
        >>> RBF([0.5, 2.0], columns=["load", "threshold"]).names
        ('rbf.length_scale[load]', 'rbf.length_scale[threshold]', 'rbf.variance')
    """

    kind: ClassVar[str] = "rbf"

    def _profile(self, r2: FloatArray) -> FloatArray:
        r2 *= -0.5
        K = np.exp(r2, out=r2)
        K *= self.variance
        return K

    def _profile_and_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        K = self._profile(r2)
        return K, K


@dataclass(frozen=True, repr=False)
class Matern32(Stationary):
    """k(x, y) = variance · (1 + √3 r) exp(−√3 r): functions with one derivative.

    Arguments: see `Scaled`.

    Example:
        >>> float(Matern32(0.7, variance=2.5).diag(np.zeros((1, 2)))[0])
        2.5
    """

    kind: ClassVar[str] = "matern32"

    def _profile(self, r2: FloatArray) -> FloatArray:
        r2 *= 3.0
        s = np.sqrt(r2, out=r2)
        K = np.negative(s)
        np.exp(K, out=K)
        s += 1.0
        K *= s
        K *= self.variance
        return K

    def _profile_and_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        h = 3.0 * self.variance * np.exp(-np.sqrt(3.0 * r2))
        return self._profile(r2), h


@dataclass(frozen=True, repr=False)
class Matern52(Stationary):
    """k(x, y) = variance · (1 + √5 r + 5r²/3) exp(−√5 r): functions with two derivatives.

    Arguments: see `Scaled`.

    Example:
        >>> float(Matern52(0.7, variance=2.5).diag(np.zeros((1, 2)))[0])
        2.5
    """

    kind: ClassVar[str] = "matern52"

    def _profile(self, r2: FloatArray) -> FloatArray:
        r2 *= 5.0
        s = np.sqrt(r2)
        r2 /= 3.0
        r2 += s
        r2 += 1.0
        np.negative(s, out=s)
        K = np.exp(s, out=s)
        K *= r2
        K *= self.variance
        return K

    def _profile_and_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        s = np.sqrt(5.0 * r2)
        h = (5.0 / 3.0) * self.variance * (1.0 + s) * np.exp(-s)
        return self._profile(r2), h
