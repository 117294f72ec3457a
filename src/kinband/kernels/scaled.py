"""The base of kernels with length-scales: one for all columns, one per column, or one per group of columns.

All are k(x, y) = variance · g(r²) with r² = Σ_j δ_j(x, y)/l_j², where δ_j is the squared difference in column j,
or for categories 1 where they differ. Since ∂r²/∂log l_j = −2 δ_j/l_j², one weight h = −2 ∂k/∂r² serves the
gradients to all length-scales: ∂k/∂log l_j = h δ_j/l_j².
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from kinband.arrays import FloatArray, IntArray, positive_number
from kinband.kernels.base import Column, KernelBase, Limits, Parameter, Pullback, limits
from kinband.kernels.columns import (
    Columns,
    bind_columns,
    clean_columns,
    clean_fixed,
    clean_groups,
    clean_scales,
    labels_of,
    pick,
    spread_scales,
)

LENGTH_SCALE_BOUNDS: Limits = (1e-3, 1e3)
VARIANCE_BOUNDS: Limits = (1e-6, 1e4)


@dataclass(frozen=True, repr=False)
class Scaled(KernelBase):
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

    Example:
        >>> from kinband.kernels import RBF
        >>> RBF([0.5, 2.0], columns=["x", "y", "load"], groups=[0, 0, 1]).names
        ('rbf.length_scale[x+y]', 'rbf.length_scale[load]', 'rbf.variance')
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
        cleaned: dict[str, Any] = {
            "length_scale": clean_scales(self.length_scale, groups=groups),
            "variance": positive_number(self.variance, name="variance"),
            "columns": columns,
            "groups": groups,
            "fixed": clean_fixed(self.fixed, known=("length_scale", "variance")),
            "length_scale_bounds": limits(self.length_scale_bounds, name="length_scale_bounds"),
            "variance_bounds": limits(self.variance_bounds, name="variance_bounds"),
            "labels": tuple(self.labels),
        }
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)
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
        columns, labels = bind_columns(self._columns, features)
        bound = replace(self, columns=columns, labels=labels)
        bound.scales_of(len(labels))
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

    @property
    def _columns(self) -> Columns:
        return self.columns  # type: ignore[return-value]  # cleaned by __post_init__

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
