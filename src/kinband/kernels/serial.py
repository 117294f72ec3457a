"""Kernels from elsewhere and kernels on disk."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.kernels.base import (
    Column,
    Kernel,
    KernelBase,
    OnColumns,
    Product,
    Pullback,
    Sum,
    bind_columns,
    clean_columns,
    pick,
    set_fields,
    theta_like,
)
from kinband.kernels.functions import RBF, Categorical, Constant, Forgetting, Linear, Matern32, Matern52, Scaled

# --- scikit-learn's kernel objects as context kernels ---------------------------------------------------------------
#
# Whatever scikit-learn's Gaussian process takes as a kernel can be handed to kinband: parameters, bounds and
# gradients are read through scikit-learn's own interface. One thing differs from our kernels: a gradient needs an
# array of shape (n, n, p).

_MODULE = "sklearn.gaussian_process.kernels"


@dataclass(frozen=True, repr=False)
class SklearnKernel(OnColumns):
    """A kernel object of scikit-learn, on all columns of a context or on some.

    Attributes:
        obj: The kernel; a copy is kept. Noise is given apart, so it must hold no `WhiteKernel`.
        columns: Positions or names of the columns that count; None for all.
        labels: Names of the columns, filled in by `bind`; for reports only.

    Example:
        >>> from sklearn.gaussian_process.kernels import ConstantKernel, RationalQuadratic
        >>> SklearnKernel(ConstantKernel(2.0) * RationalQuadratic(0.5, 3.0)).names
        ('sklearn.k1.constant_value', 'sklearn.k2.alpha', 'sklearn.k2.length_scale')
    """

    obj: Any
    columns: Sequence[Column] | IntArray | None = field(default=None, kw_only=True)
    labels: Sequence[str] = field(default=(), kw_only=True, compare=False, repr=False)
    kind: ClassVar[str] = "sklearn"

    def __post_init__(self) -> None:
        from sklearn.base import clone

        _check(self.obj)
        set_fields(self, obj=clone(self.obj), columns=clean_columns(self.columns), labels=tuple(self.labels))

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free parameters, (p,)."""
        return np.asarray(self.obj.theta, dtype=np.float64).reshape(-1)

    @property
    def names(self) -> tuple[str, ...]:
        """scikit-learn's names, with a number behind each entry of a vector."""
        out = []
        for h in self.obj.hyperparameters:
            name = f"{self.kind}.{h.name.replace('__', '.')}"
            if not h.fixed:
                out += [name] if h.n_elements == 1 else [f"{name}[{i}]" for i in range(h.n_elements)]
        return tuple(out)

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper limit of each entry of theta, (p, 2)."""
        return np.asarray(self.obj.bounds, dtype=np.float64).reshape(-1, 2)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the kernel with other free parameters, theta (p,)."""
        return replace(self, obj=self.obj.clone_with_theta(theta_like(theta, len(self.theta))))

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        return np.array(self.obj(pick(X, self._columns), pick(Y, self._columns)), dtype=np.float64)

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return np.array(self.obj.diag(pick(X, self._columns)), dtype=np.float64)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back to theta, through scikit-learn's gradient (n, n, p)."""
        K, slopes = self.obj(pick(X, self._columns), eval_gradient=True)
        return K, lambda W: np.einsum("ij,ijp->p", W, slopes)

    def to_dict(self) -> dict[str, Any]:
        """Return class names and parameters, JSON-able; kernel classes must be scikit-learn's own."""
        extra: dict[str, Any] = {} if self._columns is None else {"columns": list(self._columns)}
        if self.labels:
            extra["labels"] = list(self.labels)
        return {"kind": self.kind, "obj": _encode(self.obj)} | extra

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the kernel that `to_dict` described; only scikit-learn's kernel classes are built."""
        return cls(_decode(data.get("obj")), columns=data.get("columns"), labels=data.get("labels", ()))

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", columns={self.columns!r}"
        return f"SklearnKernel({self.obj!r}{columns})"


def as_kernel(obj: object) -> Kernel:
    """Return a context kernel from one of ours or from a kernel object of scikit-learn.

    Example:
        >>> from sklearn.gaussian_process.kernels import Matern
        >>> as_kernel(Matern(0.5, nu=1.5))
        SklearnKernel(Matern(length_scale=0.5, nu=1.5))
    """
    methods = ("__call__", "diag", "vjp", "with_theta", "bind", "to_dict")
    if all(hasattr(type(obj), method) for method in methods):
        return cast(Kernel, obj)
    return SklearnKernel(obj)


def _check(obj: object) -> None:
    """Say what is wrong with a would-be kernel of scikit-learn."""
    from sklearn.gaussian_process import kernels

    if not isinstance(obj, kernels.Kernel):
        raise BadInputError(f"a kernel must be one of kinband.kernels or of {_MODULE}, got {type(obj).__name__}")
    parts = [obj, *obj.get_params(deep=True).values()]
    if any(isinstance(part, KernelBase) for part in parts):
        raise BadInputError("scikit-learn took a kernel of ours for a number: wrap its own by as_kernel first")
    if any(isinstance(part, kernels.WhiteKernel) for part in parts):
        raise BadInputError("the kernel holds a WhiteKernel: leave it out and give its level as noise=")
    if any(isinstance(part, kernels.CompoundKernel) for part in parts):
        raise BadInputError("the kernel holds a CompoundKernel, which is several kernels: give one of them")


def _encode(value: Any) -> Any:
    """Turn a kernel or one of its parameters into JSON-able values that `_decode` turns back exactly."""
    from sklearn.gaussian_process import kernels

    if isinstance(value, kernels.Kernel):
        if type(value).__module__ != _MODULE:
            raise BadInputError(f"cannot store {type(value).__name__}: only scikit-learn's own kernels can be")
        params = {name: _encode(param) for name, param in value.get_params(deep=False).items()}
        return {"class": type(value).__name__, "params": params}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_encode(item) for item in value]}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise BadInputError(f"cannot store a kernel parameter of type {type(value).__name__}")


def _decode(value: Any) -> Any:
    """Turn back what `_encode` made."""
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        return np.array(value["array"])
    if "tuple" in value:
        return tuple(_decode(item) for item in value["tuple"])
    if "list" in value:
        return [_decode(item) for item in value["list"]]
    cls = _class(value.get("class"))
    try:
        return cls(**{name: _decode(param) for name, param in value.get("params", {}).items()})
    except (TypeError, ValueError) as error:
        raise BadInputError(f"cannot rebuild the kernel {cls.__name__}: {error}") from error


def _class(name: object) -> Any:
    """The kernel class of that name, if scikit-learn's kernel module defines it."""
    from sklearn.gaussian_process import kernels

    cls = getattr(kernels, name, None) if isinstance(name, str) else None
    if not (isinstance(cls, type) and issubclass(cls, kernels.Kernel) and cls.__module__ == _MODULE):
        raise BadInputError(f"{name!r} is not a kernel class of {_MODULE}")
    return cls


# --- Kernels from plain values: the counterpart of every kernel's `to_dict`, and the default kernel of a log --------
#
# Only the kinds listed here are ever built, each through its own constructor and its checks; nothing is
# imported by a name that a file holds.

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


# --- Which part of a context kernel looks at which columns: k(x, y) = Σ_t k_rest,t(x, y) · k_part,t(x, y) -----------
#
# All arms of one decision share a state. Where the kernel is a product of a part that looks at the state and one that
# looks at the configuration, or a sum of such products, much of the work on one arm serves the others. An RBF splits
# between any columns, because a sum of squares does; so does a kernel of categories, and a constant looks at none. A
# joint Matérn does not split.


@dataclass(frozen=True)
class Split:
    """A product of kernels that look at two separate sets of columns; no kernels stand for 1.

    Attributes:
        rest: Factors that look at other columns only.
        part: Factors that look at the chosen columns only.
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
    """Return the kernel as a sum of products over `columns` and over the rest of `width` columns; () if it is none."""
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
