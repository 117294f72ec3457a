"""Kernels from plain values: the counterpart of every kernel's `to_dict`, and the default kernel of a log.

Only the kinds listed here are ever built, each through its own constructor and its checks; nothing is
imported by a name that a file holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from kinband.errors import BadInputError
from kinband.kernels.algebra import Product, Sum
from kinband.kernels.base import Column, Kernel
from kinband.kernels.columns import bind_columns, clean_columns
from kinband.kernels.foreign import SklearnKernel
from kinband.kernels.forgetting import Forgetting
from kinband.kernels.simple import Categorical, Constant, Linear
from kinband.kernels.stationary import RBF, Matern32, Matern52

_LEAVES: dict[str, type[RBF | Matern32 | Matern52 | Linear | Constant | Categorical | Forgetting]] = {
    cls.kind: cls for cls in (RBF, Matern32, Matern52, Linear, Constant, Categorical, Forgetting)
}
_PAIRS: dict[str, type[Sum | Product]] = {cls.kind: cls for cls in (Sum, Product)}


def kernel_from_dict(data: Mapping[str, Any]) -> Kernel:
    """Return the kernel that `to_dict` described.

    Example:
        >>> kernel_from_dict({"kind": "rbf", "length_scale": [0.5, 2.0], "variance": 3.0})
        RBF(length_scale=(0.5, 2.0), variance=3.0)
    """
    if not isinstance(data, Mapping) or "kind" not in data:
        raise BadInputError(f"a stored kernel must be a mapping with a kind, got {data!r}")
    kind = str(data["kind"])
    if kind in _PAIRS:
        left, right = (kernel_from_dict(data.get(side, {})) for side in ("left", "right"))
        return _PAIRS[kind](left, right)
    if kind == SklearnKernel.kind:
        return SklearnKernel.from_dict(data)
    if kind not in _LEAVES:
        known = ", ".join([*_LEAVES, *_PAIRS, SklearnKernel.kind])
        raise BadInputError(f"unknown kind of kernel {kind!r}, known are {known}")
    given = {name: value for name, value in data.items() if name != "kind"}
    unknown = sorted(set(given) - {f.name for f in fields(_LEAVES[kind])})
    if unknown:
        raise BadInputError(f"a stored {kind} kernel has no field {', '.join(unknown)}")
    return _LEAVES[kind](**given)


def default_kernel(
    features: Sequence[str],
    *,
    categorical: Sequence[Column] = (),
    variance: float = 1.0,
    fixed: Sequence[str] = (),
) -> Kernel:
    """Return RBF with one length-scale per numeric column, times Categorical over the other columns.

    Args:
        features: Names of all columns of a context.
        categorical: Positions or names of the columns that hold category codes.
        variance: Variance to start from; the variance of the rewards is a good one.
        fixed: Parameters of the first factor left out of theta, such as ("variance",).

    Example:
        >>> k = default_kernel(["load", "threshold", "vendor"], categorical=["vendor"])
        >>> k.names
        ('rbf.length_scale[load]', 'rbf.length_scale[threshold]', 'rbf.variance',
         'categorical.length_scale[vendor]')
    """
    if not len(features):
        raise BadInputError("a kernel needs at least one feature, got none")
    codes = bind_columns(clean_columns(categorical), features)[0] if len(categorical) else ()
    numeric = tuple(column for column in range(len(features)) if column not in (codes or ()))
    if not codes:
        return RBF([1.0] * len(numeric), variance=variance, columns=numeric, fixed=fixed).bind(features)
    scales = [1.0] * len(codes)
    if not numeric:
        return Categorical(scales, variance=variance, columns=codes, fixed=fixed).bind(features)
    rbf = RBF([1.0] * len(numeric), variance=variance, columns=numeric, fixed=fixed)
    return (rbf * Categorical(scales, columns=codes, fixed=("variance",))).bind(features)
