"""How alike stations are, as matrices: given, or with parameters that a likelihood finds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array, positive_number
from kinband.errors import BadInputError
from kinband.kernels.base import Kernel, Limits, limits, set_fields, theta_like
from kinband.kernels.blocks import BlockMatrix, TaskCovariance, as_task_covariance, check_task_matrix, same_matrix

# --- The product kernel (7) of tasks and contexts -------------------------------------------------------------------


def frozen(array: FloatArray) -> FloatArray:
    """Return a copy that cannot be written to, for use in values."""
    array = array.copy()
    array.setflags(write=False)
    return array


def _kept(K_Z: ArrayLike) -> TaskCovariance:
    """Return a task matrix, checked, that cannot be written to."""
    found = as_task_covariance(K_Z)
    return found if isinstance(found, BlockMatrix) else frozen(found)


@dataclass(frozen=True, eq=False)
class MultiTaskKernel:
    """The product kernel (7): k̃((m, x), (m', x')) = K_Z[m, m'] · k_X(x, x').

    Attributes:
        context: The kernel k_X of contexts.
        K_Z: Similarities of tasks, (M, M).

    Example:
        >>> from kinband.kernels import RBF
        >>> k = MultiTaskKernel(RBF(0.5, variance=2.0), np.array([[1.0, 0.8], [0.8, 1.0]]))
        >>> x = np.zeros((1, 2))
        >>> k.cross(np.array([0]), x, np.array([1]), x)
        array([[1.6]])
    """

    context: Kernel
    K_Z: TaskCovariance

    def __post_init__(self) -> None:
        object.__setattr__(self, "K_Z", _kept(self.K_Z))

    def cross(self, tasks_a: IntArray, X_a: FloatArray, tasks_b: IntArray, X_b: FloatArray) -> FloatArray:
        """Return the covariances of rows a and b, tasks (n,), (m,) and contexts (n, d), (m, d): (n, m)."""
        K = self.context(X_a, X_b)
        if len(tasks_b) and (tasks_b == tasks_b[0]).all():  # the arms of one station: one column will do
            K *= self.K_Z[:, tasks_b[0]].take(tasks_a)[:, None]
        elif isinstance(self.K_Z, BlockMatrix):
            K *= self.K_Z[np.ix_(tasks_a, tasks_b)]
        else:
            K *= self.K_Z.take(tasks_b, axis=1).take(tasks_a, axis=0)
        return K

    def diag(self, tasks: IntArray, X: FloatArray) -> FloatArray:
        """Return the variance of each row, tasks (n,) and contexts (n, d): (n,)."""
        return self.K_Z.diagonal()[tasks] * self.context.diag(X)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultiTaskKernel) and self.context == other.context and same_matrix(self.K_Z, other.K_Z)

    __hash__ = None  # type: ignore[assignment]


# --- Task models: where the matrix K_Z of station similarities in (7) comes from, and how a fit may move it ---------
#
# A task model gives K_Z (M, M) and, as context kernels do, a vector of free parameters with a pull-back of
# gradients. `FixedTasks` has none; `GaussianTasks` is (18), K_Z = exp(−D²/(2σ_Z²)) for given squared distances,
# with σ_Z free; `PartialPooling` is a common part and a part of one's own, as in the random effects of statistics, with
# their shares free; `FactorTasks` is the intrinsic coregionalisation of Bonilla et al. (2008), K_Z = BBᵀ + diag(v).

MOST_SHARED = 0.95
"""The most that a fit lets stations have in common: a station's own rewards must be able to overrule all others."""

TaskPullback = Callable[[FloatArray], FloatArray]
"""W_Z (M, M), symmetric → the vector of Σ W_Z ∘ ∂K_Z/∂θ_p, (p,)."""


class TaskModel:
    """A matrix of task similarities with parameters that can be fitted: none, unless a model says otherwise.

    Example:
        >>> model: TaskModel = FixedTasks(np.eye(2))
        >>> model.K_Z.shape, model.names
        ((2, 2), ())
    """

    @property
    def K_Z(self) -> TaskCovariance:
        """Task similarities, (M, M)."""
        return self.vjp()[0]

    @property
    def theta(self) -> FloatArray:
        """The free parameters, (p,)."""
        return np.empty(0)

    @property
    def names(self) -> tuple[str, ...]:
        """Readable names of the free parameters."""
        return ()

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper limit of each entry of theta, (p, 2)."""
        return np.empty((0, 2))

    @property
    def units(self) -> FloatArray:
        """Usual size of a change in each entry of theta, (p,): 1 for logarithms."""
        return np.ones(len(self.theta))

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the model with other free parameters, theta (p,)."""
        theta_like(theta, 0)
        return self

    def vjp(self) -> tuple[TaskCovariance, TaskPullback]:
        """Return K_Z (M, M) and the function that pulls a gradient back from K_Z to theta."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator) -> Self:  # noqa: ARG002
        """Return the model with random parameters, a further start for a fit."""
        return self

    def __repr__(self) -> str:
        numbers = "".join(f", {name}={value:.6g}" for name, value in vars(self).items() if isinstance(value, float))
        return f"{type(self).__name__}(<{len(self.K_Z)} tasks>{numbers})"

    def __eq__(self, other: object) -> bool:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True) if type(self) is type(other) else ()
        return type(self) is type(other) and all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False, repr=False)
class FixedTasks(TaskModel):
    """A given K_Z (M, M) with nothing to fit.

    Example:
        >>> FixedTasks([[1.0, 0.8], [0.8, 1.0]]).theta
        array([], dtype=float64)
    """

    matrix: TaskCovariance

    def __init__(self, K_Z: ArrayLike) -> None:
        set_fields(self, matrix=_kept(K_Z))

    def vjp(self) -> tuple[TaskCovariance, TaskPullback]:
        """Return K_Z (M, M) and a pull-back to nothing."""
        return self.matrix, lambda _: np.empty(0)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianTasks(TaskModel):
    """K_Z = exp(−D²/(2σ_Z²)) (18), with the width σ_Z free.

    Attributes:
        squared_distances: D² between stations, (M, M), as in (20).
        sigma: Width σ_Z; at distance σ_Z the similarity is exp(−1/2).
        sigma_bounds: Limits that a fit keeps to; by default 1/100 and 100 times the median distance.

    Example:
        >>> GaussianTasks([[0.0, 8.0], [8.0, 0.0]], 2.0).K_Z.round(4)
        array([[1.    , 0.3679],
               [0.3679, 1.    ]])
    """

    squared_distances: FloatArray
    sigma: float
    sigma_bounds: Limits

    def __init__(self, squared_distances: ArrayLike, sigma: float, *, sigma_bounds: Limits | None = None) -> None:
        D2 = _check_distances(squared_distances)
        sigma = positive_number(sigma, name="sigma")
        if sigma_bounds is None:
            apart = D2[D2 > 0]
            typical = float(np.sqrt(np.median(apart))) if len(apart) else sigma
            sigma_bounds = (1e-2 * typical, 1e2 * typical)
        bounds = limits(sigma_bounds, name="sigma_bounds")
        set_fields(self, squared_distances=frozen(D2), sigma=sigma, sigma_bounds=bounds)

    @property
    def theta(self) -> FloatArray:
        """The logarithm of σ_Z, (1,)."""
        return np.log([self.sigma])

    @property
    def names(self) -> tuple[str, ...]:
        """One name."""
        return ("tasks.sigma",)

    @property
    def bounds(self) -> FloatArray:
        """Limits of log σ_Z, (1, 2)."""
        return np.log([self.sigma_bounds])

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the model with another width, theta (1,)."""
        sigma = float(np.exp(theta_like(theta, 1)[0]))
        return type(self)(self.squared_distances, sigma, sigma_bounds=self.sigma_bounds)

    def vjp(self) -> tuple[FloatArray, TaskPullback]:
        """Return K_Z (M, M) and its pull-back: ∂K_Z/∂log σ_Z = K_Z ∘ D²/σ_Z²."""
        K_Z = np.exp(-self.squared_distances / (2.0 * self.sigma**2))
        slope = K_Z * self.squared_distances / self.sigma**2
        return K_Z, lambda W_Z: np.array([np.vdot(W_Z, slope)])

    def draw(self, rng: np.random.Generator) -> Self:
        """Return the model with a width up to five times smaller or larger, within bounds."""
        theta = self.theta + rng.uniform(-np.log(5), np.log(5), size=1)
        return self.with_theta(np.clip(theta, *self.bounds.T))


@dataclass(frozen=True, eq=False, repr=False)
class PartialPooling(TaskModel):
    """K_Z = share · 1 + (1 − share) · S: what all stations have in common, and how the rest of each is related.

    Attributes:
        own: S, (M, M), with ones on its diagonal: the identity, or the similarity of what is not common to all.
        share: The part that is common to all, above 0 and below 1.

    Example:
        >>> PartialPooling(np.eye(2), 0.3).K_Z
        array([[1. , 0.3],
               [0.3, 1. ]])
    """

    own: FloatArray
    share: float

    def __init__(self, own: ArrayLike, share: float) -> None:
        share = positive_number(share, name="share")
        if share >= 1.0:
            raise BadInputError(f"share must lie between 0 and 1, got {share:g}")
        set_fields(self, own=frozen(check_task_matrix(own)), share=share)

    @property
    def theta(self) -> FloatArray:
        """The logit of the share, (1,)."""
        return np.array([np.log(self.share / (1.0 - self.share))])

    @property
    def names(self) -> tuple[str, ...]:
        """One name."""
        return ("tasks.share",)

    @property
    def bounds(self) -> FloatArray:
        """Shares from a thousandth to `MOST_SHARED`, (1, 2)."""
        return np.log([[1e-3 / (1.0 - 1e-3), MOST_SHARED / (1.0 - MOST_SHARED)]])

    @property
    def units(self) -> FloatArray:
        """Two logits, (1,): a share of 0.5 may well be one of 0.1 or 0.9."""
        return np.full(1, 2.0)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the model with another share, theta (1,)."""
        return type(self)(self.own, float(1.0 / (1.0 + np.exp(-theta_like(theta, 1)[0]))))

    def vjp(self) -> tuple[FloatArray, TaskPullback]:
        """Return K_Z (M, M) and its pull-back: ∂K_Z/∂logit = share (1 − share) (1 − S)."""
        slope = self.share * (1.0 - self.share) * (1.0 - self.own)
        K_Z = self.share + (1.0 - self.share) * self.own
        return K_Z, lambda W_Z: np.array([np.vdot(W_Z, slope)])

    def draw(self, rng: np.random.Generator) -> Self:
        """Return the model with a share drawn evenly between its bounds."""
        return type(self)(self.own, rng.uniform(0.02, MOST_SHARED))


@dataclass(frozen=True, eq=False, repr=False)
class FactorTasks(TaskModel):
    """K_Z = BBᵀ + diag(v), the intrinsic coregionalisation of Bonilla et al. (2008).

    All entries of B are free, and the logarithms of v. K_Z carries the scale of the rewards: fix the variance of
    the context kernel, and start from a diagonal of about the variance of the rewards. B is determined only up to
    rotation and sign; K_Z is not affected.

    Attributes:
        B: What each station has of each of q common factors, (M, q).
        v: Variance of what is a station's own, (M,).
        v_bounds: Limits that a fit keeps to; by default 1e-6 and 1e4 times the mean diagonal of K_Z.

    Example:
        >>> FactorTasks([[1.0], [2.0]], [0.5, 0.25]).K_Z
        array([[1.5 , 2.  ],
               [2.  , 4.25]])
    """

    B: FloatArray
    v: FloatArray
    v_bounds: Limits

    def __init__(self, B: ArrayLike, v: ArrayLike, *, v_bounds: Limits | None = None) -> None:
        B = finite_array(B, name="B", ndim=2)
        v = finite_array(v, name="v", ndim=1)
        if len(B) != len(v) or not B.size:
            raise BadInputError(f"B and v must have one row for each station, got shapes {B.shape} and {v.shape}")
        if (v <= 0).any():
            raise BadInputError(f"v holds variances and must be above zero, got {v.min():g}")
        if v_bounds is None:
            typical = float(np.mean(v) + np.sum(B * B) / len(B))
            v_bounds = (1e-6 * typical, 1e4 * typical)
        set_fields(self, B=frozen(B), v=frozen(v), v_bounds=limits(v_bounds, name="v_bounds"))

    @property
    def theta(self) -> FloatArray:
        """The entries of B row by row, then log v, (Mq + M,)."""
        return np.concatenate([self.B.ravel(), np.log(self.v)])

    @property
    def names(self) -> tuple[str, ...]:
        """Names with task and factor numbers."""
        M, q = self.B.shape
        factors = tuple(f"tasks.B[{m},{c}]" for m in range(M) for c in range(q))
        return factors + tuple(f"tasks.v[{m}]" for m in range(M))

    @property
    def bounds(self) -> FloatArray:
        """Limits, (Mq + M, 2); B is held within ten times the square root of the largest v allowed."""
        reach = 10.0 * np.sqrt(self.v_bounds[1])
        return np.array([(-reach, reach)] * self.B.size + [tuple(np.log(self.v_bounds))] * len(self.v))

    @property
    def units(self) -> FloatArray:
        """For B the square root of the mean diagonal of K_Z, 1 for log v, (Mq + M,)."""
        typical = np.sqrt(np.mean(np.diag(self.K_Z)))
        return np.concatenate([np.full(self.B.size, typical), np.ones(len(self.v))])

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the model with other factors and variances, theta (Mq + M,)."""
        theta = theta_like(theta, self.B.size + len(self.v))
        B = theta[: self.B.size].reshape(self.B.shape)
        return type(self)(B, np.exp(theta[self.B.size :]), v_bounds=self.v_bounds)

    def vjp(self) -> tuple[FloatArray, TaskPullback]:
        """Return K_Z (M, M) and its pull-back: 2 W_Z B to B, diag(W_Z) ∘ v to log v."""

        def pullback(W_Z: FloatArray) -> FloatArray:
            return np.concatenate([(2.0 * W_Z @ self.B).ravel(), np.diag(W_Z) * self.v])

        return self.B @ self.B.T + np.diag(self.v), pullback

    def draw(self, rng: np.random.Generator) -> Self:
        """Return the model with random factors and variances, on the scale of the present diagonal of K_Z."""
        scale = float(np.mean(np.diag(self.K_Z)))
        shared = rng.uniform(0.2, 0.95)
        M, q = self.B.shape
        B = np.sqrt(scale * shared / q) * rng.standard_normal((M, q))
        v = scale * (1.0 - shared) * rng.uniform(0.5, 2.0, size=M)
        return type(self)(B, np.clip(v, *self.v_bounds), v_bounds=self.v_bounds)

    def __repr__(self) -> str:
        return f"FactorTasks(<{self.B.shape[0]} tasks, {self.B.shape[1]} factors>)"


def _check_distances(squared_distances: ArrayLike) -> FloatArray:
    """Return D² (M, M): symmetric, no entry below zero, zeros on the diagonal; or say what is wrong."""
    D2 = finite_array(squared_distances, name="squared_distances", ndim=2)
    if D2.shape[0] != D2.shape[1] or not D2.size:
        raise BadInputError(f"squared_distances must be square, got shape {D2.shape}")
    if not np.allclose(D2, D2.T) or (D2 < 0).any() or np.diag(D2).any():
        raise BadInputError(
            "squared_distances must be symmetric, not negative, and zero on the diagonal: clip rounding"
        )
    return 0.5 * (D2 + D2.T)
