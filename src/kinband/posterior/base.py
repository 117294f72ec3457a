"""What every posterior can be asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array
from kinband.errors import BadInputError
from kinband.kernels import MultiTaskKernel, check_task_matrix
from kinband.posterior.factor import Column

# --- What a posterior is: the contract every engine keeps, and the checks at its door -------------------------------
#
# The core is small, predict and update; what only some engines can do (correct a reward, forget one, draw joint
# samples) stands beside it as capabilities. Widths are standard deviations of f, observation noise excluded.


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is believed about f at m contexts.

    Attributes:
        mean: f̂ (9), (m,).
        width: σ (11), (m,).
        column_of: Gives the half-done work on a context that an update can take up, where the engine keeps it.
        covariance_of: Gives the covariance of f among some of the contexts, by position, from the same work, as long as
            nothing has been learned since.

    Example:
        >>> Prediction(np.array([0.5]), np.array([0.1])).column(0) is None
        True
    """

    mean: FloatArray
    width: FloatArray
    column_of: Callable[[int], Column] | None = field(default=None, repr=False)
    covariance_of: Callable[[IntArray], FloatArray] | None = field(default=None, repr=False)

    def column(self, index: int) -> Column | None:
        """Return what an update at this context can take up, if the engine keeps any."""
        return self.column_of(index) if self.column_of else None

    def covariance(self, positions: IntArray) -> FloatArray | None:
        """Return the covariance of f at contexts by their positions (p,), (p, p), if the engine keeps what it takes."""
        return self.covariance_of(positions) if self.covariance_of else None

    def split(self, questions: Sequence["Question"]) -> list["Prediction"]:
        """Return the predictions of the arms of several questions, asked one after the other, by question."""
        ends = np.cumsum([len(q.arms) for q in questions])[:-1]
        pairs = zip(np.split(self.mean, ends), np.split(self.width, ends), strict=True)
        return [Prediction(mean, width) for mean, width in pairs]


@dataclass(frozen=True, eq=False)
class Question:
    """All arms of one decision, and which of them matter.

    Attributes:
        task: Whom it is for.
        X: One context per arm, (N, d).
        arms: The arms to predict, (m,).
    """

    task: int
    X: FloatArray
    arms: IntArray


class Posterior(Protocol):
    """The core that every engine has.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior: Posterior = ExactPosterior(RBF(0.5), [[1.0, 0.8], [0.8, 1.0]], noise=0.05)
        >>> posterior.update([0], [[0.2, 0.4]], [0.9])
        >>> posterior.predict([1], [[0.2, 0.4]]).mean.round(3)
        array([0.686])
    """

    def __len__(self) -> int:
        """Return how many rewards are known."""

    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean and width of f for tasks (m,) at contexts X (m, d)."""

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
        engine's default. `column`, for a single row, is work kept from the prediction.
        """


@runtime_checkable
class Correctable(Protocol):
    """A posterior in which a reward can be put right, or forgotten, as long as it keeps its rows.

    One that has given them up raises `CannotCorrectError`; its log has to be learned anew.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> isinstance(ExactPosterior(RBF(), [[1.0]], noise=0.1), Correctable)
        True
    """

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of one row, counted in the order of updates."""

    def remove(self, index: int) -> None:
        """Forget one row, counted in the order of updates; later rows move up."""


@runtime_checkable
class Samplable(Protocol):
    """A posterior that knows how its beliefs at several contexts hang together.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> isinstance(ExactPosterior(RBF(), [[1.0]], noise=0.1), Samplable)
        True
    """

    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at m contexts, (m, m)."""

    def sample(self, tasks: ArrayLike, X: ArrayLike, *, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f at m contexts, (size, m)."""


@runtime_checkable
class SolvesColumns(Protocol):
    """A posterior that can prepare the updates of a few contexts together.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> isinstance(ExactPosterior(RBF(), [[1.0]], noise=0.1), SolvesColumns)
        True
    """

    def columns(self, tasks: ArrayLike, X: ArrayLike) -> list[Column]:
        """Return the columns of contexts X (m, d), to be handed to their updates."""


@runtime_checkable
class ScoresArms(Protocol):
    """A posterior that can use that all arms of a decision share a state.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> isinstance(ExactPosterior(RBF(), [[1.0]], noise=0.1), ScoresArms)
        True
    """

    def predict_arms(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return for each question mean and width of f at its arms."""


@runtime_checkable
class Restorable(Protocol):
    """A posterior that can be put away as plain arrays and taken up again, bit for bit.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> isinstance(ExactPosterior(RBF(), [[1.0]], noise=0.1), Restorable)
        True
    """

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return everything learned as plain arrays."""

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""


class FullPosterior(Posterior, Correctable, Restorable, Protocol):
    """A posterior with the core and everything that a learner needs to be corrected, stored and taken up again."""

    noise: float
    """Variance of a reward where an update does not say."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows of an update or a prediction: tasks (n,), contexts (n, d), rewards and noise (n,)."""

    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noise: FloatArray


def checked_contexts(tasks: ArrayLike, X: ArrayLike, *, size: int, width: int | None) -> tuple[IntArray, FloatArray]:
    """Return tasks (m,) and contexts (m, d) as arrays, or say what is wrong with them."""
    X = _finite(X, name="context", ndim=2)
    index = np.asarray(tasks)
    if index.shape != (len(X),) or index.dtype.kind not in "iu":
        raise BadInputError(f"expected one task number per context, {len(X)} in all, got {tasks!r}")
    if len(index) and (index.min() < 0 or index.max() >= size):
        raise BadInputError(f"task numbers must lie between 0 and {size - 1}, got {index.min()} to {index.max()}")
    if width is not None and X.shape[1] != width:
        raise BadInputError(
            f"context has {X.shape[1]} features, posterior was built with {width}: "
            "rebuild it or check the state mapping"
        )
    return index.astype(np.int64, copy=False), X


def checked_rows(
    tasks: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    *,
    noise: ArrayLike | None,
    default_noise: float,
    size: int,
    width: int | None,
) -> Rows:
    """Return the rows of an update as arrays, or say what is wrong with them."""
    index, X = checked_contexts(tasks, X, size=size, width=width)
    y = _finite(y, name="reward", ndim=1)
    if len(y) != len(X):
        raise BadInputError(f"got {len(y)} rewards for {len(X)} contexts")
    if noise is None:
        return Rows(index, X, y, np.full(len(y), default_noise))
    given = np.asarray(noise, dtype=np.float64)
    if given.shape not in ((), y.shape):
        raise BadInputError(f"noise must be one variance or one per reward, {len(y)} in all, got shape {given.shape}")
    variance = np.broadcast_to(given, y.shape)
    variance = np.where(np.isnan(variance), default_noise, variance)
    if not np.all((variance > 0) & np.isfinite(variance)):
        raise BadInputError(f"noise is a variance and must be above zero and finite, got {variance.min():g}")
    return Rows(index, X, y, variance)


def _finite(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """Return what `finite_array` does, sooner where nothing is wrong: a decision comes to this door a dozen times."""
    plain = type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == ndim
    if plain and np.isfinite(values).all():
        return np.asarray(values)
    return finite_array(values, name=name, ndim=ndim)


def draw_joint(mean: FloatArray, covariance: FloatArray, *, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw from N(mean (m,), covariance (m, m)), which may be singular, as it is for equal contexts."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws: FloatArray = mean + rng.standard_normal((size, len(mean))) @ root.T
    return draws


# --- The rows an engine has learned, in arrays that grow without being copied at every step -------------------------

_NAMES = ("tasks", "X", "y", "noise")


class LearnedRows:
    """Tasks, contexts, rewards and noise of all rows so far; each property is a view of what is filled.

    Example:
        >>> rows = LearnedRows()
        >>> rows.append(Rows(np.array([0]), np.ones((1, 2)), np.array([0.5]), np.array([0.1])))
        >>> len(rows), rows.width, rows.y
        (1, 2, array([0.5]))
    """

    def __init__(self) -> None:
        self._filled = 0
        self._tasks = np.empty(0, dtype=np.int64)
        self._X = np.empty((0, 0))
        self._y, self._noise = np.empty(0), np.empty(0)

    def __len__(self) -> int:
        return self._filled

    @property
    def width(self) -> int | None:
        """Number of context features, None before the first row."""
        return self._X.shape[1] if self._filled else None

    @property
    def tasks(self) -> IntArray:
        """Task of each row, (n,)."""
        return self._tasks[: self._filled]

    @property
    def X(self) -> FloatArray:
        """Context of each row, (n, d)."""
        return self._X[: self._filled]

    @property
    def y(self) -> FloatArray:
        """Reward of each row, (n,)."""
        return self._y[: self._filled]

    @property
    def noise(self) -> FloatArray:
        """Variance of each reward, (n,)."""
        return self._noise[: self._filled]

    def append(self, rows: Rows) -> None:
        """Add rows at the end."""
        start, stop = self._filled, self._filled + len(rows.y)
        if stop > len(self._y) or not start:
            self._grow(max(stop, 2 * start, 16), rows.X.shape[1])
        self._tasks[start:stop], self._X[start:stop] = rows.tasks, rows.X
        self._y[start:stop], self._noise[start:stop] = rows.y, rows.noise
        self._filled = stop

    def remove(self, index: int) -> None:
        """Take out one row; later rows move up."""
        self.restore({name: np.delete(getattr(self, name), index, axis=0) for name in _NAMES})

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return copies of the filled arrays by name."""
        return {name: getattr(self, name).copy() for name in _NAMES}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self._tasks = np.array(state["tasks"], dtype=np.int64)
        self._X = np.array(state["X"], dtype=np.float64)
        self._y, self._noise = np.array(state["y"], np.float64), np.array(state["noise"], np.float64)
        self._filled = len(self._y)

    def _grow(self, capacity: int, width: int) -> None:
        tasks, X = np.zeros(capacity, dtype=np.int64), np.zeros((capacity, width))
        y, noise = np.zeros(capacity), np.zeros(capacity)
        if self._filled:
            tasks[: self._filled], X[: self._filled] = self.tasks, self.X
            y[: self._filled], noise[: self._filled] = self.y, self.noise
        self._tasks, self._X, self._y, self._noise = tasks, X, y, noise


# --- A posterior takes in further tasks: nothing that it knows changes, and nothing is learned anew -----------------
#
# Covariances between old rows do not depend on tasks that have no rows yet, so the factor of K̃ + diag(noise), an
# inverse or a belief at inducing points all stay as they are. What grows is the task matrix that later rows and
# questions look into. The present matrix must be the leading block of the new one: tasks come behind those there are,
# and how alike those are is not to change. (Changing it means learning the log anew, which is the business of whoever
# keeps the log.)


@runtime_checkable
class TakesTasks(Protocol):
    """A posterior that can take in further tasks; every engine of ours can.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0]], noise=0.05)
        >>> posterior.update([0], [[0.2]], [0.9])
        >>> posterior.extend_tasks([[1.0, 0.8], [0.8, 1.0]])
        >>> posterior.predict([1], [[0.2]]).mean.round(3)
        array([0.686])
    """

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; all or nothing.

        A posterior that would have to join rows that it no longer keeps raises `CannotCorrectError`; its log has to be
        learned anew.
        """


def extended(K_Z: ArrayLike, present: FloatArray) -> FloatArray:
    """Return a task matrix (M', M') that begins with the present one (M, M), or say why it does not.

    Example:
        >>> extended([[1.0, 0.5], [0.5, 1.0]], np.array([[2.0]]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: further tasks must leave the likeness of the 1 there are as it is: ...
    """
    larger, M = check_task_matrix(K_Z), len(present)
    if len(larger) < M or not np.array_equal(larger[:M, :M], present):
        raise BadInputError(
            f"further tasks must leave the likeness of the {M} there are as it is: learn the log anew to change it"
        )
    return larger


def extended_kernel(kernel: MultiTaskKernel, K_Z: ArrayLike) -> MultiTaskKernel:
    """Return the product kernel with further tasks.

    Example:
        >>> from kinband.kernels import RBF
        >>> len(extended_kernel(MultiTaskKernel(RBF(), np.eye(1)), np.eye(3)).K_Z)
        3
    """
    return MultiTaskKernel(kernel.context, extended(K_Z, kernel.K_Z))
