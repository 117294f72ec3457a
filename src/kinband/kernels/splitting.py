"""Which part of a context kernel looks at which columns: k(x, y) = Σ_t k_rest,t(x, y) · k_part,t(x, y).

All arms of one decision share a state. Where the kernel is a product of a part that looks at the state and one that
looks at the configuration, or a sum of such products, much of the work on one arm serves the others. An RBF splits
between any columns, because a sum of squares does; so does a kernel of categories, and a constant looks at none. A
joint Matérn does not split.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from kinband.arrays import FloatArray
from kinband.kernels.algebra import Product, Sum
from kinband.kernels.base import Kernel
from kinband.kernels.scaled import Scaled
from kinband.kernels.simple import Categorical, Constant
from kinband.kernels.stationary import RBF


@dataclass(frozen=True)
class Split:
    """A product of kernels that look at two separate sets of columns; no kernels stand for 1.

    Attributes:
        rest: Factors that look at other columns only.
        part: Factors that look at the chosen columns only.

    Example:
        >>> split, = split_kernel(RBF([0.5, 2.0], variance=3.0), columns=[1], width=2)
        >>> x, y = np.array([[0.1, 0.2]]), np.array([[0.3, 0.9]])
        >>> bool(np.isclose(split.over_rest(x, y) * split.over_part(x, y), RBF([0.5, 2.0], variance=3.0)(x, y)))
        True
    """

    rest: tuple[Kernel, ...]
    part: tuple[Kernel, ...]

    def over_rest(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return k_rest of the rows of X (n, d) and Y (m, d): (n, m)."""
        return _product(self.rest, X, Y)

    def over_part(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return k_part of the rows of X (n, d) and Y (m, d): (n, m)."""
        return _product(self.part, X, Y)


def split_kernel(kernel: Kernel, *, columns: Collection[int], width: int) -> tuple[Split, ...]:
    """Return the kernel as a sum of products over `columns` and over the rest of `width` columns; none if it is none.

    Example:
        >>> from kinband.kernels import Matern52
        >>> split_kernel(Matern52([0.5, 2.0]), columns=[1], width=2)
        ()
        >>> len(split_kernel(RBF([0.5, 2.0]) + Constant(0.3), columns=[1], width=2))
        2
    """
    if isinstance(kernel, Product | Sum):
        left = split_kernel(kernel.left, columns=columns, width=width)
        right = split_kernel(kernel.right, columns=columns, width=width)
        if not left or not right:
            return ()
        if isinstance(kernel, Sum):
            return (*left, *right)
        return tuple(Split((*a.rest, *b.rest), (*a.part, *b.part)) for a in left for b in right)
    if isinstance(kernel, Constant):
        return (Split((kernel,), ()),)
    return _split_scaled(kernel, columns, width) if isinstance(kernel, Scaled) else ()


def _split_scaled(kernel: Scaled, columns: Collection[int], width: int) -> tuple[Split, ...]:
    used = tuple(range(width)) if kernel.columns is None else tuple(kernel.columns)
    inside = [place for place, column in enumerate(used) if column in columns]
    if not inside:
        return (Split((kernel,), ()),)
    if len(inside) == len(used):
        return (Split((), (kernel,)),)
    if not isinstance(kernel, RBF | Categorical):
        return ()
    outside = [place for place in range(len(used)) if place not in inside]
    return (Split((_on(kernel, used, outside),), (replace(_on(kernel, used, inside), variance=1.0),)),)


def _on(kernel: RBF | Categorical, used: tuple[int | str, ...], places: list[int]) -> RBF | Categorical:
    """The factor of a kernel that looks at some of its columns."""
    scales = kernel.scales_of(len(used))[places]
    return replace(
        kernel, length_scale=tuple(scales.tolist()), columns=[used[i] for i in places], groups=None, labels=()
    )


def _product(kernels: tuple[Kernel, ...], X: FloatArray, Y: FloatArray) -> FloatArray:
    K = kernels[0](X, Y) if kernels else np.ones((len(X), len(Y)))
    for kernel in kernels[1:]:
        K *= kernel(X, Y)
    return K
