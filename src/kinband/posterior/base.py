"""What a posterior is, and what it answers.

One contract: `predict` gives what is believed about f at contexts, and that one object tells mean and std, how the
contexts hang together, draws from it all, and what an update at one of them can take up; `update` learns rewards,
`correct` puts one right, `extend_tasks` takes in stations, `state` and `restore` are for storage. Widths
are standard deviations of f, observation noise excluded.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array, finite_number, positive_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import (
    Kernel,
    MultiTaskKernel,
    TaskCovariance,
    as_kernel,
    as_task_covariance,
    leading,
    same_matrix,
)

State = dict[str, FloatArray | IntArray]
"""Everything learned, as plain arrays by name."""

Positions = IntArray | slice
"""Some of the contexts of a prediction."""

# --- What is believed at some contexts ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """L⁻¹k of a context over the rows known when it was solved: an update there takes it up.

    Attributes:
        solved: Its entries, (n,); rows that came since are solved on top.
        factor: Identity of the factor that it was solved with; with any other it is solved anew.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0]], noise=0.1)
        >>> posterior.update([0], [[0.2]], [0.9])
        >>> kept = posterior.predict([0], [[0.4]]).column(0)  # of a context that may be played
        >>> posterior.update([0], [[0.4]], [0.7], column=kept)  # nothing is solved twice
        >>> len(kept.solved), len(posterior)
        (1, 2)
    """

    solved: FloatArray
    factor: object


class JointBelief(Protocol):
    """How f hangs together at the contexts of a prediction."""

    def covariance(self, a: IntArray, b: IntArray) -> FloatArray:
        """Return the covariances of f at contexts a (p,) and b (q,), by position: (p, q)."""

    def column(self, position: int) -> Column | None:
        """Return what an update at a context can take up, if the engine keeps any."""

    def at(self, positions: Positions) -> "JointBelief":
        """Return the same for some of the contexts."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is believed about f at m contexts; it holds as long as nothing is learned.

    Attributes:
        mean: f̂ (9), (m,).
        std: σ (11), (m,).
        joint: How the contexts hang together; None where nobody will ask.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> found = ExactPosterior(RBF(0.5), [[1.0]], noise=0.1).predict([0, 0], [[0.0], [0.5]])
        >>> found.covariance().round(3).tolist()
        [[1.0, 0.607], [0.607, 1.0]]
    """

    mean: FloatArray
    std: FloatArray
    joint: JointBelief | None = field(default=None, repr=False)

    def covariance(self, a: IntArray | None = None, b: IntArray | None = None) -> FloatArray:
        """Return the covariances of f at contexts a (p,) and b (q,), by position: (p, q); all by default."""
        if self.joint is None:
            raise AssertionError("this prediction does not say how its contexts hang together")
        everything = np.arange(len(self.mean))
        return self.joint.covariance(everything if a is None else a, everything if b is None else b)

    def column(self, position: int) -> Column | None:
        """Return what an update at a context can take up, if the engine keeps any."""
        return None if self.joint is None else self.joint.column(position)

    def at(self, positions: Positions) -> "Prediction":
        """Return the prediction at some of the contexts, by their positions."""
        joint = None if self.joint is None else self.joint.at(positions)
        return Prediction(self.mean[positions], self.std[positions], joint)

    def split(self, sizes: Sequence[int]) -> Iterator["Prediction"]:
        """Yield the predictions of contexts that were asked for one group after the other, by group."""
        stop = 0
        for size in sizes:
            start, stop = stop, stop + size
            yield self if size == len(self.mean) else self.at(slice(start, stop))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f, (size, m); the covariance may be singular, as it is for equal contexts."""
        values, vectors = np.linalg.eigh(self.covariance())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws: FloatArray = self.mean + rng.standard_normal((size, len(self.mean))) @ root.T
        return draws


@dataclass(frozen=True, eq=False)
class SolvedJoint:
    """cov(f_i, f_j) = k̃(x̃_i, x̃_j) − v_iᵀ u_j from the columns that a prediction was made of.

    For the exact posterior v = u = L⁻¹k̃, for a sparse one u = (I − C)v with C the covariance of its coordinates, for
    the paper's own v = k̃ and u = (K̃ + diag(noise))⁻¹k̃. Where arms share a state (`shared_state`), V and U hold the
    columns of a few pivots for each state, and a context's is their weighted sum.

    Attributes:
        kernel: The product kernel (7).
        tasks: Of the contexts, (m,).
        X: The contexts, (m, d).
        V: Columns, (n, m), or (n, s·r) for the r pivots of s states.
        U: The other side, of the same shape.
        factor: Identity of the factor whose update can take up columns; None where none can.
        states: Which state a context belongs to, (m,); None where every context has its own column.
        weights: Weights of the pivots in each context, (m, r).
    """

    kernel: MultiTaskKernel
    tasks: IntArray
    X: FloatArray
    V: FloatArray
    U: FloatArray
    factor: object = None
    states: IntArray | None = None
    weights: FloatArray | None = None

    def covariance(self, a: IntArray, b: IntArray) -> FloatArray:
        """Return the covariances of f at contexts a (p,) and b (q,), by position: (p, q)."""
        prior = self.kernel.cross(self.tasks[a], self.X[a], self.tasks[b], self.X[b])
        if self.states is None or self.weights is None:
            return np.asarray(prior - self.V[:, a].T @ self.U[:, b])
        first, r = int(self.states[b].min()), self.weights.shape[1]
        U = self.U[:, first * r : (int(self.states[b].max()) + 1) * r]
        products = (self._columns(a).T @ U).reshape(len(a), -1, r)
        return np.asarray(prior - np.einsum("abr,br->ab", products[:, self.states[b] - first], self.weights[b]))

    def column(self, position: int) -> Column | None:
        """Return what an update at a context can take up."""
        return None if self.factor is None else Column(self._columns(np.array([position]))[:, 0].copy(), self.factor)

    def at(self, positions: Positions) -> "SolvedJoint":
        """Return the same for some of the contexts."""
        some = replace(self, tasks=self.tasks[positions], X=self.X[positions])
        if self.states is None or self.weights is None:
            V = self.V[:, positions]
            return replace(some, V=V, U=V if self.U is self.V else self.U[:, positions])
        return replace(some, states=self.states[positions], weights=self.weights[positions])

    def _columns(self, positions: IntArray) -> FloatArray:
        """Return v of some contexts, (n, p)."""
        if self.states is None or self.weights is None:
            return self.V[:, positions]
        r = self.weights.shape[1]
        found = [
            self.V[:, s * r : (s + 1) * r] @ w
            for s, w in zip(self.states[positions].tolist(), self.weights[positions], strict=True)
        ]
        return np.stack(found, axis=1)


def cholesky_factor(K: FloatArray, problem: str) -> FloatArray:
    """Return the lower Cholesky factor of K (n, n), in whose memory it is; `problem` says what no factor means.

    Example:
        >>> cholesky_factor(np.array([[4.0, 2.0], [2.0, 2.0]]), "there is no factor")
        array([[2., 0.],
               [1., 1.]])
    """
    from scipy.linalg import cholesky

    try:  # .T: in place only column by column
        return np.asarray(cholesky(K.T, lower=True, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(f"{problem}: increase `noise`, or log fewer repeated rows") from None


# --- What every engine can be asked ---------------------------------------------------------------------------------


class Posterior(ABC):
    """What is believed about f after the rewards told so far.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import make_posterior
        >>> posterior: Posterior = make_posterior(RBF(0.5), [[1.0, 0.8], [0.8, 1.0]], noise=0.05)
        >>> posterior.update([0], [[0.2, 0.4]], [0.9])
        >>> posterior.predict([1], [[0.2, 0.4]]).mean.round(3)
        array([0.686])
    """

    def __init__(self, kernel: Kernel, K_Z: ArrayLike, *, noise: float, mean: float = 0.0) -> None:
        self.kernel = MultiTaskKernel(as_kernel(kernel), as_task_covariance(K_Z))
        self.noise = positive_number(noise, name="noise")
        self.mean = finite_number(mean, name="mean")
        self._features: int | None = None  # of a context; None before the first row

    @property
    def K_Z(self) -> TaskCovariance:
        """The task matrix, (M, M)."""
        return self.kernel.K_Z

    @abstractmethod
    def __len__(self) -> int:
        """Return how many rewards are known."""

    def predict(self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column | None] = ()) -> Prediction:
        """Return mean (9) and std (11) of f for tasks (m,), or one task, at contexts X (m, d).

        `columns`, one for each context, are work kept from earlier predictions there.
        """
        return self._predict(*self._checked_contexts(tasks, X), columns)

    def sums(self, tasks: IntArray, X: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and std of weighted sums of f: of tasks (q,), over contexts X (q, T, d) with weights W (q, T).

        Example:
            >>> from kinband.kernels import RBF
            >>> from kinband.posterior import ExactPosterior
            >>> posterior = ExactPosterior(RBF(0.5), [[1.0]], noise=0.1)
            >>> posterior.update([0, 0], [[0.0], [0.5]], [0.2, 0.6])
            >>> gain, std = posterior.sums(np.array([0]), np.array([[[0.5], [0.0]]]), np.array([[1.0, -1.0]]))
            >>> gain.round(2), std.round(2)  # what is unknown of both alike cancels
            (array([0.32]), array([0.4]))
        """
        mean, std = np.empty(len(W)), np.empty(len(W))
        for i, (task, contexts, w) in enumerate(zip(tasks, X, W, strict=True)):
            found = self.predict(np.full(len(w), task), contexts)
            mean[i], std[i] = w @ found.mean, np.sqrt(max(float(w @ found.covariance() @ w), 0.0))
        return mean, std

    def update(
        self,
        tasks: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        noise: ArrayLike | None = None,
        column: Column | None = None,
    ) -> None:
        """Learn rewards y (n,) of tasks (n,) at contexts X (n, d); all or nothing.

        `noise` is the variance of each reward, one number or (n,), nan where unknown; None and nan mean the
        engine's default. `column`, for a single row, is work kept from a prediction there.
        """
        rows = self._checked_rows(tasks, X, y, noise)
        if len(rows.y):
            self._learn(rows, column)
            self._features = rows.X.shape[1]

    def _predict(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column | None]) -> Prediction:
        """Return what `predict` does, for checked contexts."""
        raise NotImplementedError

    def _learn(self, rows: "Rows", column: Column | None) -> None:
        """Learn checked rows, one at least; all or nothing."""
        raise NotImplementedError

    @abstractmethod
    def correct(self, index: int, y: float) -> None:
        """Replace the reward of one row, counted in the order of updates.

        An engine that has not kept its rows raises `CannotCorrectError`; its log has to be learned anew.
        """

    def check_extension(self, K_Z: ArrayLike) -> None:
        """Raise `CannotCorrectError` where rows that were not kept would have to be joined for these tasks."""
        extended(K_Z, self.kernel.K_Z)

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; all or nothing.

        What is known stays as it is: covariances between rows do not depend on tasks that have none. An engine that
        would have to join rows that it has not kept raises `CannotCorrectError`.
        """
        self.kernel = MultiTaskKernel(self.kernel.context, extended(K_Z, self.kernel.K_Z))

    @abstractmethod
    def state(self) -> State:
        """Return everything learned as plain arrays."""

    @abstractmethod
    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""

    def _checked_contexts(self, tasks: ArrayLike, X: ArrayLike) -> tuple[IntArray, FloatArray]:
        return checked_contexts(tasks, X, size=len(self.K_Z), width=self._features)

    def _checked_rows(self, tasks: ArrayLike, X: ArrayLike, y: ArrayLike, noise: ArrayLike | None) -> "Rows":
        """Return the rows of an update as arrays, or say what is wrong with them."""
        index, X = self._checked_contexts(tasks, X)
        y = _finite(y, name="reward", ndim=1)
        if len(y) != len(X):
            raise BadInputError(f"got {len(y)} rewards for {len(X)} contexts", argument="y")
        if noise is None:
            return Rows(index, X, y, np.full(len(y), self.noise))
        given = np.asarray(noise, dtype=np.float64)
        if given.shape not in ((), y.shape):
            raise BadInputError(
                f"noise must be one variance or one per reward, {len(y)} in all, got shape {given.shape}",
                argument="noise",
            )
        variance = np.broadcast_to(given, y.shape)
        variance = np.where(np.isnan(variance), self.noise, variance)
        if not np.all((variance > 0) & np.isfinite(variance)):
            raise BadInputError(
                f"noise is a variance and must be above zero and finite, got {variance.min():g}", argument="noise"
            )
        return Rows(index, X, y, variance)

    def _check_row(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise BadInputError(f"there is no row {index}: {len(self)} rows are known", argument="index", value=index)


@dataclass(frozen=True, eq=False)
class SummedContexts:
    """Weighted sums of f as an engine that solves for columns needs them: one column a sum, not one a context.

    Attributes:
        R: Covariances of what the engine knows with the sums, (n, q).
        prior: Prior variances of the sums, (q,).
    """

    R: FloatArray
    prior: FloatArray

    @classmethod
    def of(
        cls, kernel: MultiTaskKernel, known: tuple[IntArray, FloatArray], asked: tuple[IntArray, FloatArray, FloatArray]
    ) -> "SummedContexts":
        """Return the sums `asked`, tasks (q,), X (q, T, d) and W (q, T), against known tasks (n,) and contexts (n, d).

        Memory is that of one sum at a time.
        """
        tasks, X, W = asked
        R, prior = np.empty((len(known[0]), len(W))), np.empty(len(W))
        for i, (task, contexts, w) in enumerate(zip(tasks, X, W, strict=True)):
            of = np.full(len(w), task)
            R[:, i] = kernel.cross(*known, of, contexts) @ w if len(R) else 0.0
            prior[i] = w @ kernel.cross(of, contexts, of, contexts) @ w
        return cls(R, prior)


def extended(K_Z: ArrayLike, present: TaskCovariance) -> TaskCovariance:
    """Return a task matrix (M', M') that begins with the present one (M, M), or say why it does not."""
    larger, M = as_task_covariance(K_Z), len(present)
    if len(larger) < M or not same_matrix(leading(larger, M), present):
        raise BadInputError(
            f"further tasks must leave the similarity of the {M} there are as it is",
            hint="learn the log again to change it",
            argument="K_Z",
        )
    return larger


# --- Rows, checked and kept -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows of an update: tasks (n,), contexts (n, d), rewards and noise (n,)."""

    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noise: FloatArray


def checked_contexts(tasks: ArrayLike, X: ArrayLike, *, size: int, width: int | None) -> tuple[IntArray, FloatArray]:
    """Return tasks (m,) and contexts (m, d) as arrays, or say what is wrong with them."""
    X = _finite(X, name="context", ndim=2)
    index = np.asarray(tasks)
    if index.ndim == 0:
        index = np.full(len(X), index)
    if index.shape != (len(X),) or index.dtype.kind not in "iu":
        raise BadInputError(
            f"expected one task number per context, {len(X)} in all, got {tasks!r}", argument="tasks", value=tasks
        )
    if len(index) and (index.min() < 0 or index.max() >= size):
        raise BadInputError(
            f"task numbers must lie between 0 and {size - 1}, got {index.min()} to {index.max()}", argument="tasks"
        )
    if width is not None and X.shape[1] != width:
        raise BadInputError(
            f"context has {X.shape[1]} features, posterior was built with {width}",
            hint="rebuild it or check the state mapping",
            argument="X",
        )
    return index.astype(np.int64, copy=False), X


def _finite(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """Return what `finite_array` does, sooner where nothing is wrong: a decision comes to this door a dozen times."""
    plain = type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == ndim
    if plain and np.isfinite(values).all():
        return np.asarray(values)
    return finite_array(values, name=name, ndim=ndim)


_NAMES = ("tasks", "X", "y", "noise")


class LearnedRows:
    """Tasks (n,), contexts (n, d), rewards (n,) and noise (n,) of all rows so far: views of arrays that grow."""

    def __init__(self) -> None:
        self._take(Rows(np.empty(0, dtype=np.int64), np.empty((0, 0)), np.empty(0), np.empty(0)), 0)

    def __len__(self) -> int:
        return len(self.y)

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        start, stop = len(self), len(self) + len(rows.y)
        room = self._room
        if stop > len(room.y) or not start:
            room = self._grown(max(stop, 2 * start, 16), rows.X.shape[1])
        room.tasks[start:stop], room.X[start:stop] = rows.tasks, rows.X
        room.y[start:stop], room.noise[start:stop] = rows.y, rows.noise
        self._take(room, stop)

    def state(self) -> State:
        """Return copies of the filled arrays by name."""
        return {name: getattr(self, name).copy() for name in _NAMES}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        X, y, noise = (np.array(state[name], dtype=np.float64) for name in ("X", "y", "noise"))
        self._take(Rows(np.array(state["tasks"], dtype=np.int64), X, y, noise), len(y))

    def _take(self, room: Rows, filled: int) -> None:
        """Keep arrays of which so many rows are filled."""
        self._room = room
        self.tasks, self.X = room.tasks[:filled], room.X[:filled]
        self.y, self.noise = room.y[:filled], room.noise[:filled]

    def _grown(self, capacity: int, width: int) -> Rows:
        n, y = len(self), np.zeros(capacity)
        room = Rows(np.zeros(capacity, dtype=np.int64), np.zeros((capacity, width)), y, y.copy())
        if n:
            room.tasks[:n], room.X[:n], room.y[:n], room.noise[:n] = self.tasks, self.X, self.y, self.noise
        return room
