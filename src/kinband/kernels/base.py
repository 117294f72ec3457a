"""What a kernel is, and how kernels are put together."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from kinband.arrays import FloatArray, finite_array, positive_number
from kinband.errors import BadInputError

# --- What a context kernel is, and what the kernels of this package share -------------------------------------------
#
# A kernel is an immutable value: called on two sets of rows it gives their covariances, and it lays its free
# parameters open as one vector `theta` so that a fit can move them. Gradients run in reverse: `vjp` returns the
# matrix together with a function that turns the sensitivity W of any objective to that matrix into the
# sensitivity to theta, so that no array of shape (n, n, p) is ever made.

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
        raise NotImplementedError

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the variance at each row of X (n, d): (n,)."""
        raise NotImplementedError

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the kernel with other free parameters, theta (p,)."""
        raise NotImplementedError

    def vjp(self, X: FloatArray) -> tuple[FloatArray, Pullback]:
        """Return K = k(X, X) (n, n) and the function that pulls a gradient back from K to theta."""
        raise NotImplementedError

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as JSON-able values; `kernel_from_dict` reads them."""
        raise NotImplementedError


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


class KernelBase(Kernel):
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
        return Sum(*_pair(self, other))

    def __mul__(self, other: object) -> "KernelBase":
        return Product(*_pair(self, other))


def set_fields(record: object, **values: Any) -> None:
    """Set fields of a frozen record while it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def theta_like(theta: FloatArray, size: int) -> FloatArray:
    """Return theta as a vector of `size` finite numbers, or say how many came."""
    theta = finite_array(theta, name="theta", ndim=1)
    if len(theta) != size:
        raise BadInputError(f"theta must have {size} entries, one for each free parameter, got {len(theta)}")
    return theta


def limits(low_high: Sequence[float], *, name: str) -> Limits:
    """Return two limits above zero in ascending order, or say what came instead."""
    if len(low_high) != 2:
        raise BadInputError(f"{name} must be a lower and an upper limit, got {low_high!r}")
    low, high = (positive_number(value, name=name) for value in low_high)
    if low >= high:
        raise BadInputError(f"{name} must ascend, got {low:g} and {high:g}")
    return low, high


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# --- Which columns of a context a kernel looks at, and which of its length-scales belongs to which column -----------
#
# Users name columns; numerical code wants positions. `bind` of a kernel turns one into the other once, and
# keeps the names for reports.

Columns = tuple[Column, ...] | None
Scales = float | tuple[float, ...]


def clean_columns(columns: Sequence[Column] | Any | None) -> Columns:
    """Return columns as a tuple of positions and names without repetition; None stands for all."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise BadInputError(f"columns must be a list of columns, got the text {columns!r}: write [{columns!r}]")
    cleaned = tuple(column if isinstance(column, str) else int(column) for column in columns)
    if not cleaned or len(set(cleaned)) != len(cleaned) or any(isinstance(c, int) and c < 0 for c in cleaned):
        raise BadInputError(f"columns must be one or more different names or positions from 0, got {cleaned}")
    return cleaned


def clean_groups(groups: Sequence[int] | Any | None) -> tuple[int, ...] | None:
    """Return group numbers 0, 1, 2... without gaps as a tuple; None if columns are not grouped."""
    if groups is None:
        return None
    cleaned = tuple(int(group) for group in groups)
    if not cleaned or set(cleaned) != set(range(max(cleaned) + 1)):
        raise BadInputError(f"groups must be numbered 0, 1, 2... without gaps, got {cleaned}")
    return cleaned


def clean_scales(length_scale: Any, *, groups: tuple[int, ...] | None) -> Scales:
    """Return one positive float, or a tuple of them; with groups always one for each."""
    if np.ndim(length_scale) > 1 or np.size(length_scale) == 0:
        raise BadInputError(f"length_scale must be a number or a list of numbers, got {length_scale!r}")
    scales = tuple(positive_number(value, name="length_scale") for value in np.atleast_1d(length_scale))
    if groups is None:
        return scales[0] if np.ndim(length_scale) == 0 else scales
    count = max(groups) + 1
    if len(scales) not in (1, count):
        raise BadInputError(f"length_scale must be one number or one for each of {count} groups, got {len(scales)}")
    return scales if len(scales) == count else scales * count


def clean_fixed(fixed: Sequence[str], *, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of parameters to leave out of theta, all of them known."""
    fixed = (fixed,) if isinstance(fixed, str) else tuple(fixed)
    for name in fixed:
        if name not in known:
            raise BadInputError(f"fixed holds {name!r}, this kernel's parameters are {', '.join(known)}")
    return fixed


def bind_columns(columns: Columns, features: Sequence[str]) -> tuple[Columns, tuple[str, ...]]:
    """Return positions for columns, and the name of each of them."""
    names = tuple(features)
    if columns is None:
        return None, names
    for column in columns:
        if column not in names if isinstance(column, str) else column >= len(names):
            raise BadInputError(f"kernel uses column {column!r}, the contexts have {', '.join(names)}")
    positions = tuple(names.index(column) if isinstance(column, str) else column for column in columns)
    if len(set(positions)) != len(positions):
        raise BadInputError(f"kernel uses a column twice: {', '.join(names[p] for p in positions)}")
    return positions, tuple(names[position] for position in positions)


def pick(X: FloatArray, columns: Columns) -> FloatArray:
    """Return the chosen columns of X (n, d): (n, k)."""
    if columns is None:
        return X
    places, beyond = _places(columns)
    if beyond > X.shape[1]:
        raise BadInputError(f"kernel uses column {beyond - 1}, contexts have {X.shape[1]} columns")
    return X[:, places]


@lru_cache(maxsize=256)
def _places(columns: tuple[Column, ...]) -> tuple[slice | list[int], int]:
    """Return where columns stand, and how many there must be; neighbours are a slice, which copies nothing."""
    places = []
    for column in columns:
        if isinstance(column, str):
            raise BadInputError(f"kernel names the column {column!r}: call kernel.bind(features) before using it")
        places.append(column)
    first, beyond = min(places, default=0), max(places, default=-1) + 1
    return (slice(first, beyond) if places == list(range(first, beyond)) else places), beyond


@lru_cache(maxsize=256)
def spread_scales(scales: Scales, groups: tuple[int, ...] | None, d: int) -> FloatArray:
    """Return the length-scale of each of d columns, (d,), read only; a decision asks for it a dozen times."""
    found = np.asarray(scales, dtype=np.float64)
    if groups is not None and len(groups) != d:
        raise BadInputError(f"groups must name a group for each of {d} columns, got {len(groups)}")
    if groups is not None:
        found = found[list(groups)]
    if found.ndim and len(found) != d:
        raise BadInputError(f"kernel has {len(found)} length-scales for {d} columns: give one, or one each")
    found = np.broadcast_to(found, (d,)).copy()
    found.setflags(write=False)
    return found


def labels_of(columns: Columns, labels: tuple[str, ...], *, size: int) -> tuple[str, ...]:
    """Return a readable label for each of `size` columns: the feature's name if known, else the position."""
    if labels:
        return labels
    return tuple(map(str, columns if columns is not None else range(size)))


class OnColumns(KernelBase):
    """A kernel that looks at some columns of a context, by its fields `columns` and `labels`."""

    @property
    def _columns(self) -> Columns:
        columns: Columns = self.columns  # type: ignore[attr-defined]  # a field, cleaned by __post_init__
        return columns

    def bind(self, features: Sequence[str]) -> Self:
        """Return the kernel with column names turned into positions among `features`."""
        columns, labels = bind_columns(self._columns, features)
        changes: dict[str, Any] = {"columns": columns, "labels": labels}
        return replace(self, **changes)


# --- Sums and products of context kernels ---------------------------------------------------------------------------
#
# Both are kernels again. A sum pulls a gradient back to both terms; a product pulls it back to each factor
# multiplied by the other, so that nothing larger than (n, n) is made.


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


def _pair(left: object, right: object) -> tuple[Kernel, Kernel]:
    """Return two kernels, ours or scikit-learn's, as ours."""
    from kinband.kernels.serial import as_kernel  # knows scikit-learn's, which are made of ours

    return as_kernel(left), as_kernel(right)


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with (2), (3)... behind repeated ones."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}({seen[name]})")
    return tuple(out)
