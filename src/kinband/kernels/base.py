"""What a context kernel is, and what the kernels of this package share.

A kernel is an immutable value: called on two sets of rows it gives their covariances, and it lays its free
parameters open as one vector `theta` so that a fit can move them. Gradients run in reverse: `vjp` returns the
matrix together with a function that turns the sensitivity W of any objective to that matrix into the
sensitivity to theta, so that no array of shape (n, n, p) is ever made.

Each entry k(x, y) is a function of its two rows alone, down to the last bit: kernels use no matrix product in
the forward direction, whose rounding would depend on the shape of the batch. Replaying a log relies on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from kinband.arrays import FloatArray, finite_array, positive_number
from kinband.errors import BadInputError

Pullback = Callable[[FloatArray], FloatArray]
"""W (n, n), symmetric → the vector of Σ_ij W_ij ∂K_ij/∂θ_p, (p,)."""

Column = int | str
Limits = tuple[float, float]


class Kernel(Protocol):
    """A covariance function of contexts with parameters that can be fitted.

    Example:
        >>> from kinband.kernels import RBF
        >>> kernel: Kernel = RBF(0.5)
        >>> kernel.names
        ('rbf.length_scale', 'rbf.variance')
    """

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free parameters, (p,)."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Readable names of the free parameters, p of them, all different."""
        ...

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper limit of each entry of theta, (p, 2)."""
        ...

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d) as a new array (n, m)."""
        ...

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        ...

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the kernel with other free parameters, theta (p,)."""
        ...

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K = k(X, X) (n, n) and the function that pulls a gradient back from K to theta."""
        ...

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as JSON-able values; `kernel_from_dict` reads them."""
        ...


@dataclass(frozen=True)
class Parameter:
    """One field of a kernel: its positive values, a label for each of them, and limits common to all.

    Example:
        >>> Parameter("variance", (2.0,), ("",), (1e-4, 1e4)).values
        (2.0,)
    """

    name: str
    values: tuple[float, ...]
    labels: tuple[str, ...]
    bounds: Sequence[float]


class KernelBase:
    """What the kernels of this package share: operators, theta from `parameters()`, a short repr.

    A kernel of your own may derive from it, as a frozen dataclass with a `kind` and a field `fixed`, or
    simply offer the methods of `Kernel`.

    Example:
        >>> from kinband.kernels import RBF, Linear
        >>> RBF(0.5) * Linear(2.0) + RBF(3.0)
        RBF(length_scale=0.5) * Linear(variance=2.0) + RBF(length_scale=3.0)
    """

    kind: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def parameters(self) -> list[Parameter]:
        """Return every parameter, fixed ones included, in the order of theta."""
        raise NotImplementedError

    def __call__(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the covariances of the rows of X (n, d) and of Y (m, d): (n, m)."""
        raise NotImplementedError

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        raise NotImplementedError

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K = k(X, X) (n, n) and the function that pulls a gradient back from K to theta."""
        raise NotImplementedError

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        raise NotImplementedError

    def _free(self) -> list[Parameter]:
        fixed: tuple[str, ...] = getattr(self, "fixed", ())
        return [parameter for parameter in self.parameters() if parameter.name not in fixed]

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free parameters, (p,)."""
        return np.log([value for parameter in self._free() for value in parameter.values], dtype=np.float64)

    @property
    def names(self) -> tuple[str, ...]:
        """Readable names of the free parameters, p of them."""
        return tuple(
            f"{self.kind}.{parameter.name}" + (f"[{label}]" if label else "")
            for parameter in self._free()
            for label in parameter.labels
        )

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper limit of each entry of theta, (p, 2)."""
        limits = [parameter.bounds for parameter in self._free() for _ in parameter.values]
        return np.log(np.reshape(np.array(limits, dtype=np.float64), (-1, 2)))

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the kernel with other free parameters, theta (p,)."""
        values = np.exp(theta_like(theta, len(self.theta))).tolist()
        changes: dict[str, Any] = {}
        for parameter in self._free():
            own = [values.pop(0) for _ in parameter.values]
            scalar = np.ndim(getattr(self, parameter.name)) == 0
            changes[parameter.name] = own[0] if scalar else tuple(own)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as JSON-able values; `kernel_from_dict` reads them."""
        return {"kind": self.kind} | {f.name: _plain(value) for f, value in self._given()}

    def _given(self) -> list[tuple[Field[Any], Any]]:
        """Fields that differ from their default, so that text and files stay short."""
        pairs = [(f, getattr(self, f.name)) for f in fields(self)]
        return [(f, value) for f, value in pairs if f.default is MISSING or value != f.default]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={value!r}" for f, value in self._given() if f.repr)
        return f"{type(self).__name__}({shown})"

    def __add__(self, other: object) -> "KernelBase":
        from kinband.kernels.algebra import add

        return add(self, other)

    def __mul__(self, other: object) -> "KernelBase":
        from kinband.kernels.algebra import multiply

        return multiply(self, other)


def theta_like(theta: FloatArray, size: int) -> FloatArray:
    """Return theta as a vector of `size` finite numbers, or say how many came."""
    theta = finite_array(theta, name="theta", ndim=1)
    if len(theta) != size:
        raise BadInputError(f"theta must have {size} entries, one for each free parameter, got {len(theta)}")
    return theta


def limits(low_high: Sequence[float], *, name: str) -> Limits:
    """Return two limits above zero in ascending order, or say what came instead.

    Example:
        >>> limits([0.1, 10], name="variance_bounds")
        (0.1, 10.0)
    """
    if len(low_high) != 2:
        raise BadInputError(f"{name} must be a lower and an upper limit, got {low_high!r}")
    low, high = (positive_number(value, name=name) for value in low_high)
    if low >= high:
        raise BadInputError(f"{name} must ascend, got {low:g} and {high:g}")
    return low, high


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
