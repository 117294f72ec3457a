"""Which stations are alike by their descriptors: a product of one factor a column, and the weights it leads to.

A number contributes exp(−d²/(2ℓ²)), a category 1 where it is the same and ρ < 1 where it is not; a category that nobody
had is unlike all others. A missing value stands for any of the values that the network has: its factor is the mean of
theirs, which is the inner product of mean features, so that the product stays positive semi-definite. The kernel of
the regression is c + v·product: with v = 0 everybody counts alike, which is the network's average.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.similarity.newcomers.descriptors import Descriptors


@dataclass(frozen=True, eq=False)
class Column:
    """One descriptor as the stations have it.

    Attributes:
        name: Its name.
        numeric: Whether it is a quantity.
        values: What the stations have, as far as it is known.

    Example:
        >>> column = Column("land_use", False, ("office", "home", "home"))
        >>> column.factor(["office", "home", "harbour", None], 0.25).round(2).tolist()[0]
        [1.0, 0.25, 0.25, 0.5]
    """

    name: str
    numeric: bool
    values: tuple[Any, ...]

    @property
    def scale(self) -> float:
        """The unit of length-scales: the standard deviation of the values; 1 for categories."""
        return float(np.std(np.array(self.values, dtype=np.float64))) if self.numeric else 1.0

    @property
    def varies(self) -> bool:
        """Whether anything can be learned from a quantity that all stations have alike: it cannot."""
        return not self.numeric or self.scale > 0.0

    def factor(self, values: Sequence[Any], parameter: float) -> FloatArray:
        """Return the factors of n stations' values, None where missing, with a length-scale or ρ: (n, n)."""
        known = [value for value in values if value is not None]
        support, numbers = np.unique(np.array([*self.values, *known]), return_inverse=True)
        everybody, own = numbers[: len(self.values)], iter(numbers[len(self.values) :])
        index = np.array([-1 if value is None else next(own) for value in values], dtype=np.int64)
        if self.numeric:
            d = np.subtract.outer(support, support) / (parameter * self.scale)
            K = np.exp(-0.5 * d * d)
        else:
            K = np.where(np.eye(len(support), dtype=np.bool_), 1.0, parameter)
        F = _picked(_picked(K, index, everybody).T, index, everybody)
        np.fill_diagonal(F, 1.0)
        return F


@dataclass(frozen=True, eq=False)
class DescriptorKernel:
    """What resemblance of descriptors is worth.

    Attributes:
        columns: The descriptors that are looked at.
        parameters: One a column: a length-scale in standard deviations, or ρ of a category.
        constant: c, in units of the regression's noise.
        variance: v, likewise.

    Example:
        >>> kernel = DescriptorKernel((Column("x_m", True, (0.0, 100.0)),), (1.0,), constant=0.0, variance=4.0)
        >>> kernel.gram([{"x_m": 0.0}, {"x_m": 100.0}]).round(3).tolist()
        [[4.0, 0.541], [0.541, 4.0]]
    """

    columns: tuple[Column, ...]
    parameters: tuple[float, ...]
    constant: float
    variance: float

    def describes(self, descriptors: Descriptors) -> bool:
        """Whether anything that is looked at is known of a station."""
        return any(column.name in descriptors for column in self.columns)

    def gram(self, stations: Sequence[Descriptors]) -> FloatArray:
        """Return the kernel of n stations, (n, n)."""
        K = np.full((len(stations), len(stations)), self.variance)
        for column, parameter in zip(self.columns, self.parameters, strict=True):
            K *= column.factor([station.get(column.name) for station in stations], parameter)
        return K + self.constant

    def weights(self, stations: Sequence[Descriptors], newcomer: Descriptors) -> FloatArray:
        """Return what each of n stations weighs in a newcomer, (n,), none below zero."""
        G = self.gram([*stations, newcomer])
        w = np.linalg.solve(G[:-1, :-1] + np.eye(len(stations)), G[:-1, -1])
        return np.asarray(np.maximum(w, 0.0))


def columns_of(stations: Sequence[Descriptors], numeric: dict[str, bool]) -> tuple[Column, ...]:
    """Return the columns of n stations from which something can be learned.

    Example:
        >>> [c.name for c in columns_of([{"x": 1.0, "y": 5.0}, {"x": 2.0, "y": 5.0}], {"x": True, "y": True})]
        ['x']
    """
    found = (Column(name, kind, tuple(s[name] for s in stations if name in s)) for name, kind in numeric.items())
    return tuple(column for column in found if column.values and column.varies)


def _picked(K: FloatArray, index: IntArray, everybody: IntArray) -> FloatArray:
    """Return rows `index` (n,) of K (s, m), the mean of everybody's where it is −1: (n, m)."""
    rows = K[index]
    if (index < 0).any():
        rows[index < 0] = K[everybody].mean(axis=0)
    return rows
