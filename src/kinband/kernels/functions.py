"""The kernels of contexts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import ClassVar, Self

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError
from kinband.kernels.base import (
    Column,
    KernelBase,
    Limits,
    OnColumns,
    Parameter,
    Pullback,
    clean_columns,
    clean_fixed,
    clean_groups,
    clean_scales,
    labels_of,
    limits,
    pick,
    set_fields,
    spread_scales,
)

# --- The base of kernels with length-scales: one for all columns, one per column, or one per group of columns -------
#
# All are k(x, y) = variance · g(r²) with r² = Σ_j δ_j(x, y)/l_j², where δ_j is the squared difference in column j,
# or for categories 1 where they differ. Since ∂r²/∂log l_j = −2 δ_j/l_j², one weight h = −2 ∂k/∂r² serves the
# gradients to all length-scales: ∂k/∂log l_j = h δ_j/l_j².

LENGTH_SCALE_BOUNDS: Limits = (1e-3, 1e3)
VARIANCE_BOUNDS: Limits = (1e-6, 1e4)


@dataclass(frozen=True, repr=False)
class Scaled(OnColumns):
    """The arguments common to `RBF`, `Matern32`, `Matern52` and `Categorical`.

    Attributes:
        length_scale: One number for all columns, or one per column, or one per group.
        variance: k(x, x).
        columns: Positions or names of the columns of a context that count; None for all.
        groups: The group 0, 1, 2... of each column; the columns of a group share a length-scale.
        fixed: Parameters left out of theta, of "length_scale" and "variance".
        length_scale_bounds: Limits that a fit keeps to.
        variance_bounds: Limits that a fit keeps to.
        labels: Names of the columns, filled in by `bind`; for reports only.
    """

    length_scale: float | Sequence[float] | FloatArray = 1.0
    variance: float = field(default=1.0, kw_only=True)
    columns: Sequence[Column] | IntArray | None = field(default=None, kw_only=True)
    groups: Sequence[int] | IntArray | None = field(default=None, kw_only=True)
    fixed: Sequence[str] = field(default=(), kw_only=True)
    length_scale_bounds: Sequence[float] = field(default=LENGTH_SCALE_BOUNDS, kw_only=True)
    variance_bounds: Sequence[float] = field(default=VARIANCE_BOUNDS, kw_only=True)
    labels: Sequence[str] = field(default=(), kw_only=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        groups = clean_groups(self.groups)
        columns = clean_columns(self.columns)
        set_fields(
            self,
            length_scale=clean_scales(self.length_scale, groups=groups),
            variance=positive_number(self.variance, name="variance"),
            columns=columns,
            groups=groups,
            fixed=clean_fixed(self.fixed, known=("length_scale", "variance")),
            length_scale_bounds=limits(self.length_scale_bounds, name="length_scale_bounds"),
            variance_bounds=limits(self.variance_bounds, name="variance_bounds"),
            labels=tuple(self.labels),
        )
        if columns is not None:
            self.scales_of(len(columns))

    def parameters(self) -> list[Parameter]:
        """Return the length-scales, then the variance."""
        scales = tuple(np.atleast_1d(self.length_scale).tolist())
        return [
            Parameter("length_scale", scales, self._scale_labels(), self.length_scale_bounds),
            Parameter("variance", (self.variance,), ("",), self.variance_bounds),
        ]

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        bound = super().bind(features)
        bound.scales_of(len(bound.labels))
        return bound

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        return self._profile(self._r2(pick(X, self._columns), pick(Y, self._columns)))

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return np.full(len(X), self.variance)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back to theta."""
        X = pick(X, self._columns)
        K, h = self._profile_and_slope(self._r2(X, X))

        def pullback(W: FloatArray) -> FloatArray:
            gradient = []
            if "length_scale" not in self.fixed:
                gradient.append(self._sum_groups(self._sum_r2(W * h, X)))
            if "variance" not in self.fixed:
                gradient.append(np.array([np.vdot(W, K)]))
            return np.concatenate(gradient) if gradient else np.empty(0)

        return K, pullback

    def _r2(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Σ_j δ_j(x, y)/l_j² for the rows of X (n, d) and Y (m, d): (n, m)."""
        raise NotImplementedError

    def _sum_r2(self, A: FloatArray, X: FloatArray) -> FloatArray:
        """Σ_ik A_ik δ_j(x_i, x_k)/l_j² for each column j of X (n, d), A (n, n) symmetric: (d,)."""
        raise NotImplementedError

    def _profile(self, r2: FloatArray) -> FloatArray:
        """Turn r² (n, m) into covariances; may write over it."""
        raise NotImplementedError

    def _profile_and_slope(self, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Turn r² (n, m) into covariances k and h = −2 ∂k/∂r², both (n, m); may write over it."""
        raise NotImplementedError

    def scales_of(self, d: int) -> FloatArray:
        """The length-scale of each of d columns, (d,)."""
        return spread_scales(self.length_scale, self.groups, d)  # type: ignore[arg-type]  # cleaned by __post_init__

    def _sum_groups(self, by_column: FloatArray) -> FloatArray:
        """Add up (d,) over the columns that share a length-scale."""
        if isinstance(self.length_scale, float):
            return np.array([by_column.sum()])
        if self.groups is None:
            return by_column
        return np.asarray(np.bincount(self.groups, weights=by_column), dtype=np.float64)

    def _scale_labels(self) -> tuple[str, ...]:
        if isinstance(self.length_scale, float):
            return ("",)
        size = len(self.length_scale if self.groups is None else self.groups)
        labels = labels_of(self._columns, tuple(self.labels), size=size)
        if self.groups is None:
            return labels
        pairs = list(zip(labels, self.groups, strict=True))
        return tuple("+".join(label for label, g in pairs if g == i) for i in range(len(self.length_scale)))


# --- Kernels for levels, trends and categories: `Constant`, `Linear` and `Categorical` ------------------------------
#
# `Constant` gives every station a level of its own, so that rewards of another level are not taken for another shape.
# `Linear` adds straight-line effects to a stationary kernel. `Categorical` compares codes for equality alone,
# so that "vendor 3" is no nearer to "vendor 4" than to "vendor 9".

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
        set_fields(
            self,
            variance=positive_number(self.variance, name="variance"),
            fixed=clean_fixed(self.fixed, known=("variance",)),
            variance_bounds=limits(self.variance_bounds, name="variance_bounds"),
        )

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
class Linear(OnColumns):
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
        set_fields(
            self,
            variance=positive_number(self.variance, name="variance"),
            bias=bias,
            columns=clean_columns(self.columns),
            fixed=clean_fixed(self.fixed, known=("variance", "bias")),
            variance_bounds=limits(self.variance_bounds, name="variance_bounds"),
            labels=tuple(self.labels),
        )

    def parameters(self) -> list[Parameter]:
        """Return the variance, then the bias if there is one."""
        variance = Parameter("variance", (self.variance,), ("",), self.variance_bounds)
        bias = Parameter("bias", (self.bias,), ("",), self.variance_bounds)
        return [variance, bias] if self.bias else [variance]

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


# --- Stationary kernels of numeric columns: RBF and two Matérn kernels ----------------------------------------------
#
# Squared distances come from SciPy's `cdist`, which forms each entry by a plain sum over the columns. The
# gradient to a length-scale is Σ_ik A_ik (x_i − x_k)²/l², and for symmetric A this is
# 2 (Σ_i x_i² Σ_k A_ik − xᵀA x)/l²: one thin matrix product for all columns together.
# Formulas: Rasmussen and Williams (2006), chapter 4.


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


# --- The kernel of a clock: what was learned long ago counts less, at a rate that has a half-life -------------------
#
# `Forgetting` multiplies the kernel of all other columns. With everything faded, k(t, t') = 2^(−|t − t'|/h) is the
# covariance of an Ornstein-Uhlenbeck process (Uhlenbeck and Ornstein 1930; Rasmussen and Williams 2006, section 4.2.1,
# Matérn ν = 1/2): given the present, the past says nothing more, and forgetting is exactly geometric. As a time kernel
# of a bandit it is that of Bogunovic, Scarlett and Cevher (2016, "Time-varying Gaussian process bandit optimization"),
# whose (1 − ε)^(|t − t'|/2) has ε = 1 − 4^(−1/h). A share `keep` of what is known may be exempt: a part of f that
# never changes beside one that drifts.

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
        set_fields(self, keep=keep)

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
