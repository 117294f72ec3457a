"""Sums and products of context kernels.

Both are kernels again. A sum pulls a gradient back to both terms; a product pulls it back to each factor
multiplied by the other, so that nothing larger than (n, n) is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from kinband.arrays import FloatArray
from kinband.kernels.base import Kernel, KernelBase, Pullback, theta_like
from kinband.kernels.foreign import as_kernel


class Pair(KernelBase):
    """Two kernels whose parameters stand one after the other; the base of `Sum` and `Product`."""

    left: Kernel
    right: Kernel

    @property
    def theta(self) -> FloatArray:
        """Theta of the left kernel, then of the right one, (p,)."""
        return np.concatenate([self.left.theta, self.right.theta])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of both; the second of two equal names carries a number."""
        return unique(self._all_names())

    def _all_names(self) -> tuple[str, ...]:
        sides = (self.left, self.right)
        return tuple(n for k in sides for n in (k._all_names() if isinstance(k, Pair) else k.names))

    @property
    def bounds(self) -> FloatArray:
        """Bounds of both, (p, 2)."""
        return np.concatenate([self.left.bounds, self.right.bounds])

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the pair with other free parameters, theta (p,)."""
        cut = len(self.left.theta)
        theta = theta_like(theta, cut + len(self.right.theta))
        return self._rebuilt(self.left.with_theta(theta[:cut]), self.right.with_theta(theta[cut:]))

    def bind(self, features: Sequence[str]) -> Self:
        """Return the pair with column names turned into positions among `features`."""
        return self._rebuilt(self.left.bind(features), self.right.bind(features))

    def to_dict(self) -> dict[str, Any]:
        """Return both kernels as JSON-able values."""
        return {"kind": self.kind, "left": self.left.to_dict(), "right": self.right.to_dict()}

    def _rebuilt(self, left: Kernel, right: Kernel) -> Self:
        changes: dict[str, Any] = {"left": left, "right": right}
        return replace(self, **changes)


@dataclass(frozen=True, repr=False)
class Sum(Pair):
    """k(x, y) = left(x, y) + right(x, y), usually written `left + right`.

    Example:
        >>> from kinband.kernels import RBF, Linear
        >>> (RBF(0.5, variance=2.0) + Linear(3.0))(np.array([[1.0]]), np.array([[1.0]]))
        array([[5.]])
    """

    left: Kernel
    right: Kernel
    kind: ClassVar[str] = "sum"

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        K = self.left(X, Y)
        K += self.right(X, Y)
        return K

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return self.left.diag(X) + self.right.diag(X)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back: W goes to both terms."""
        K_left, pull_left = self.left.vjp(X)
        K_right, pull_right = self.right.vjp(X)
        return K_left + K_right, lambda W: np.concatenate([pull_left(W), pull_right(W)])

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True, repr=False)
class Product(Pair):
    """k(x, y) = left(x, y) · right(x, y), usually written `left * right`.

    Fix the variance of all factors but one: only their product can be told from data.

    Example:
        >>> from kinband.kernels import RBF, Categorical
        >>> k = RBF(0.5, variance=2.0, columns=[0]) * Categorical(1.0, columns=[1], fixed=["variance"])
        >>> k.names
        ('rbf.length_scale', 'rbf.variance', 'categorical.length_scale')
    """

    left: Kernel
    right: Kernel
    kind: ClassVar[str] = "product"

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        K = self.left(X, Y)
        K *= self.right(X, Y)
        return K

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return self.left.diag(X) * self.right.diag(X)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back: W reaches a factor multiplied by the other one."""
        K_left, pull_left = self.left.vjp(X)
        K_right, pull_right = self.right.vjp(X)

        def pullback(W: FloatArray) -> FloatArray:
            return np.concatenate([pull_left(W * K_right), pull_right(W * K_left)])

        return K_left * K_right, pullback

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in (self.left, self.right))


def add(left: object, right: object) -> Sum:
    """Return the sum of two kernels, ours or scikit-learn's.

    Example:
        >>> from kinband.kernels import RBF, Linear
        >>> add(RBF(0.5), Linear(2.0))
        RBF(length_scale=0.5) + Linear(variance=2.0)
    """
    return Sum(as_kernel(left), as_kernel(right))


def multiply(left: object, right: object) -> Product:
    """Return the product of two kernels, ours or scikit-learn's.

    Example:
        >>> from kinband.kernels import RBF, Linear
        >>> multiply(RBF(0.5), Linear(2.0))
        RBF(length_scale=0.5) * Linear(variance=2.0)
    """
    return Product(as_kernel(left), as_kernel(right))


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with (2), (3)... behind repeated ones.

    Example:
        >>> unique(("rbf.variance", "rbf.variance"))
        ('rbf.variance', 'rbf.variance(2)')
    """
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}({seen[name]})")
    return tuple(out)
