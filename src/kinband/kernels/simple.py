"""Kernels for levels, trends and categories: `Constant`, `Linear` and `Categorical`.

`Constant` gives every station a level of its own, so that rewards of another level are not taken for another shape.
`Linear` adds straight-line effects to a stationary kernel. `Categorical` compares codes for equality alone,
so that "vendor 3" is no nearer to "vendor 4" than to "vendor 9".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError
from kinband.kernels.base import Column, KernelBase, Limits, Parameter, Pullback, limits
from kinband.kernels.columns import Columns, bind_columns, clean_columns, clean_fixed, pick
from kinband.kernels.scaled import VARIANCE_BOUNDS, Scaled

CATEGORY_BOUNDS: Limits = (0.2, 100.0)
"""exp(−1/l²) between 1e-11 and 0.9999: from strangers to the same."""


@dataclass(frozen=True, repr=False)
class Constant(KernelBase):
    """k(x, y) = variance: a level that does not depend on the context.

    Attributes:
        variance: Prior variance of the level.
        fixed: ("variance",) leaves it out of theta.
        variance_bounds: Limits that a fit keeps to.

    Example:
        >>> Constant(0.5)(np.zeros((1, 2)), np.ones((3, 2)))
        array([[0.5, 0.5, 0.5]])
    """

    variance: float = 1.0
    fixed: Sequence[str] = field(default=(), kw_only=True)
    variance_bounds: Sequence[float] = field(default=VARIANCE_BOUNDS, kw_only=True)
    kind: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        cleaned: dict[str, Any] = {
            "variance": positive_number(self.variance, name="variance"),
            "fixed": clean_fixed(self.fixed, known=("variance",)),
            "variance_bounds": limits(self.variance_bounds, name="variance_bounds"),
        }
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)

    def parameters(self) -> list[Parameter]:
        """Return the variance."""
        return [Parameter("variance", (self.variance,), ("",), self.variance_bounds)]

    def bind(self, features: Sequence[str]) -> Self:  # noqa: ARG002
        """Return the kernel itself: it looks at no column."""
        return self

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        return np.full((len(X), len(Y)), self.variance)

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return np.full(len(X), self.variance)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back to theta."""
        free = len(self._free())
        return self(X, X), lambda W: np.full(free, self.variance * W.sum())


@dataclass(frozen=True, repr=False)
class Linear(KernelBase):
    """k(x, y) = variance · Σ_j x_j y_j + bias.

    Attributes:
        variance: Prior variance of each slope.
        bias: Prior variance of the constant; at 0 there is none, and it is no parameter.
        columns: Positions or names of the columns that count; None for all.
        fixed: Parameters left out of theta, of "variance" and "bias".
        variance_bounds: Limits that a fit keeps to, for both.
        labels: Names of the columns, filled in by `bind`; for reports only.

    Example:
        >>> Linear(2.0, bias=0.5)(np.array([[1.0, 3.0]]), np.array([[4.0, 5.0]]))
        array([[38.5]])
    """

    variance: float = 1.0
    bias: float = field(default=0.0, kw_only=True)
    columns: Sequence[Column] | IntArray | None = field(default=None, kw_only=True)
    fixed: Sequence[str] = field(default=(), kw_only=True)
    variance_bounds: Sequence[float] = field(default=VARIANCE_BOUNDS, kw_only=True)
    labels: Sequence[str] = field(default=(), kw_only=True, compare=False, repr=False)
    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        bias = finite_number(self.bias, name="bias")
        if bias < 0:
            raise BadInputError(f"bias is a variance and must not be negative, got {bias:g}")
        cleaned: dict[str, Any] = {
            "variance": positive_number(self.variance, name="variance"),
            "bias": bias,
            "columns": clean_columns(self.columns),
            "fixed": clean_fixed(self.fixed, known=("variance", "bias")),
            "variance_bounds": limits(self.variance_bounds, name="variance_bounds"),
            "labels": tuple(self.labels),
        }
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)

    def parameters(self) -> list[Parameter]:
        """Return the variance, then the bias if there is one."""
        variance = Parameter("variance", (self.variance,), ("",), self.variance_bounds)
        bias = Parameter("bias", (self.bias,), ("",), self.variance_bounds)
        return [variance, bias] if self.bias else [variance]

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        columns, labels = bind_columns(self._columns, features)
        return replace(self, columns=columns, labels=labels)

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        X, Y = pick(X, self._columns), pick(Y, self._columns)
        K = X[:, :1] * Y[:, 0]
        term = np.empty_like(K)
        for j in range(1, X.shape[1]):  # not X @ Yᵀ: its rounding depends on the shape
            K += np.multiply(X[:, j : j + 1], Y[:, j], out=term)
        K *= self.variance
        K += self.bias
        return K

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        X = pick(X, self._columns)
        k = X[:, 0] * X[:, 0]
        for j in range(1, X.shape[1]):
            k += X[:, j] * X[:, j]
        return k * self.variance + self.bias

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back to theta."""
        K = self(X, X)
        free = [parameter.name for parameter in self._free()]

        def pullback(W: FloatArray) -> FloatArray:
            constant = self.bias * W.sum()
            gradient = {"variance": np.vdot(W, K) - constant, "bias": constant}
            return np.array([gradient[name] for name in free], dtype=np.float64)

        return K, pullback

    @property
    def _columns(self) -> Columns:
        return self.columns  # type: ignore[return-value]  # cleaned by __post_init__


@dataclass(frozen=True, repr=False)
class Categorical(Scaled):
    """k(x, y) = variance · Π_j (1 where x_j = y_j, else exp(−1/l_j²)), for columns of category codes.

    Arguments: see `Scaled`. The length-scale says how alike two different categories are.

    Example:
        >>> Categorical(0.5)(np.array([[3.0]]), np.array([[3.0], [4.0]])).round(4)
        array([[1.    , 0.0183]])
    """

    length_scale_bounds: Sequence[float] = field(default=CATEGORY_BOUNDS, kw_only=True)
    kind: ClassVar[str] = "categorical"

    def _r2(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        r2 = np.zeros((len(X), len(Y)))
        for j, scale in enumerate(self.scales_of(X.shape[1])):
            r2 += np.where(X[:, j : j + 1] != Y[:, j], scale**-2.0, 0.0)
        return r2

    def _sum_r2(self, A: FloatArray, X: FloatArray) -> FloatArray:
        rates = self.scales_of(X.shape[1]) ** -2.0
        return rates * [_sum_differing(A, codes) for codes in X.T]

    def _profile(self, r2: FloatArray) -> FloatArray:
        np.negative(r2, out=r2)
        K = np.exp(r2, out=r2)
        K *= self.variance
        return K

    def _profile_and_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        K = self._profile(r2)
        return K, 2.0 * K


def _sum_differing(A: FloatArray, codes: FloatArray) -> float:
    """Σ A_ij over pairs with different codes (n,), through one product with a membership matrix."""
    members = (codes[:, None] == np.unique(codes)).astype(np.float64)
    return float(A.sum() - np.vdot(members, A @ members))
