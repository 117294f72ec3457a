"""scikit-learn's kernel objects as context kernels.

Whatever scikit-learn's Gaussian process takes as a kernel can be handed to kinband: parameters, bounds and
gradients are read through scikit-learn's own interface. Two things differ from our kernels: a gradient needs an
array of shape (n, n, p), and kernels that use a matrix product (DotProduct, PairwiseKernel) are evaluated in tiles of
one shape, which is slow but gives an entry the same bits whatever it is computed with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.kernels.base import Column, Kernel, KernelBase, Pullback, theta_like
from kinband.kernels.columns import Columns, bind_columns, clean_columns, pick

_MODULE = "sklearn.gaussian_process.kernels"


_TILE = 64
_ELEMENTWISE = {
    "ConstantKernel",
    "Exponentiation",
    "ExpSineSquared",
    "Matern",
    "Product",
    "RBF",
    "RationalQuadratic",
    "Sum",
}
"""scikit-learn's kernels that go by pairwise distances; the others take matrix products."""


@dataclass(frozen=True, repr=False)
class SklearnKernel(KernelBase):
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
        object.__setattr__(self, "obj", clone(self.obj))
        object.__setattr__(self, "columns", clean_columns(self.columns))
        object.__setattr__(self, "labels", tuple(self.labels))

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
        X, Y = pick(X, self._columns), pick(Y, self._columns)
        if self._is_elementwise:
            return np.array(self.obj(X, Y), dtype=np.float64)
        return _in_tiles(self.obj, X, Y)

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        return np.array(self.obj.diag(pick(X, self._columns)), dtype=np.float64)

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K (n, n) and its pull-back to theta, through scikit-learn's gradient (n, n, p)."""
        K, slopes = self.obj(pick(X, self._columns), eval_gradient=True)
        return K, lambda W: np.einsum("ij,ijp->p", W, slopes)

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        columns, labels = bind_columns(self._columns, features)
        return replace(self, columns=columns, labels=labels)

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

    @cached_property
    def _is_elementwise(self) -> bool:
        """Whether every entry is computed from its two rows alone, without a matrix product."""
        parts = [self.obj, *self.obj.get_params(deep=True).values()]
        return all(type(part).__name__ in _ELEMENTWISE for part in parts if hasattr(part, "clone_with_theta"))

    @property
    def _columns(self) -> Columns:
        return self.columns  # type: ignore[return-value]  # cleaned by __post_init__

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


def _in_tiles(kernel: Any, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Return kernel(X, Y) of X (n, d) and Y (m, d), (n, m), from calls that all have one shape.

    A matrix product rounds an entry by the shape of the whole; in tiles of a fixed shape the bits of an entry depend
    on its rows and on the number of its row alone, so that a replay gives them again. Slow, and the price of exactness.
    """
    K = np.empty((len(X), len(Y)))
    for start in range(0, len(X), _TILE):
        rows = X[start : start + _TILE]
        tile = np.concatenate([rows, np.repeat(rows[-1:], _TILE - len(rows), axis=0)])
        for j in range(len(Y)):
            K[start : start + len(rows), j] = kernel(tile, Y[j : j + 1])[: len(rows), 0]
    return K


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
