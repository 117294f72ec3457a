"""Attribution: whose evidence an estimate rests on, and how many rewards' worth of it came from others.

Everything is worked out anew from the journal, by an exact posterior of the rows that were known when a decision was
made: what has been told since changes nothing about a decision of the past.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.controller.journal import Journal, ToldRows
from kinband.controller.memory import starting_rows
from kinband.controller.setup import Setup
from kinband.kernels import BlockMatrix, Kernel, MultiTaskKernel, TaskCovariance, components
from kinband.posterior.base import LearnedRows, Rows, cholesky_factor
from kinband.records import Observation

# --- Beliefs as they were: one factor of all rows, in the order of telling, holds the beliefs after any number of
# them
#
# The leading block of a Cholesky factor L of K̃ + diag(noise) is the factor of the leading rows. With v = L⁻¹k̃(x̃)
# set to zero from row `known` on, mean and variance (9), (11) come out as they were when only the first `known` rows
# were there, and so do the weights a = L⁻ᵀv of the rewards in the mean, which are zero for the rows to come. A
# thousand decisions of the past take one factor and two triangular solves, whatever each of them knew.
#
# Widths and weights do not depend on rewards; a mean takes rewards as they stand, corrections included.


class Hindsight:
    """What an exact posterior believed after any number of its rows.

    Args:
        kernel: Kernel over tasks and contexts.
        rows: The rows in the order of telling, with the whole variance of each reward.
        mean: Constant prior mean.

    Example:
        >>> from kinband.kernels import RBF
        >>> rows = Rows(np.array([0, 1]), np.zeros((2, 1)), np.array([0.9, 0.7]), np.array([0.25, 0.25]))
        >>> past = Hindsight(MultiTaskKernel(RBF(0.5), np.array([[1.0, 0.5], [0.5, 1.0]])), rows, mean=0.0)
        >>> mean, variance = past.predict(np.array([0, 0, 0]), np.zeros((3, 1)), known=[0, 1, 2])
        >>> mean.round(3), variance.round(3)
        (array([0.   , 0.72 , 0.752]), array([1.  , 0.2 , 0.19]))
    """

    def __init__(self, kernel: MultiTaskKernel, rows: Rows, *, mean: float = 0.0) -> None:
        from scipy.linalg import solve_triangular

        self.kernel, self.rows, self.mean = kernel, rows, mean
        self._L, self._w = np.empty((0, 0)), np.empty(0)
        if not len(rows.y):
            return
        K = kernel.cross(rows.tasks, rows.X, rows.tasks, rows.X)
        K[np.diag_indices_from(K)] += rows.noise
        self._L = cholesky_factor(K, "the weights of an estimate cannot be solved for")
        self._w = solve_triangular(self._L, rows.y - mean, lower=True, check_finite=False)

    def __len__(self) -> int:
        return len(self.rows.y)

    def predict(self, tasks: IntArray, X: FloatArray, *, known: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f for tasks (m,) at contexts X (m, d), after `known` rows each, (m,) or one."""
        V = self._solved(tasks, X, known)
        variance = self.kernel.diag(tasks, X) - np.einsum("ij,ij->j", V, V)
        return self.mean + self._w @ V, np.maximum(variance, 0.0)

    def weights(self, tasks: IntArray, X: FloatArray, *, known: ArrayLike) -> FloatArray:
        """Return the weights of all rows in the means of `predict`, (n, m); 0 for rows that were not known."""
        from scipy.linalg import cho_solve, solve_triangular

        if len(self) and np.min(known) >= len(self):
            k = self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X)
            return np.asarray(cho_solve((self._L, True), k, check_finite=False))
        V = self._solved(tasks, X, known)
        if not len(self):
            return V
        found: FloatArray = solve_triangular(self._L, V, lower=True, trans="T", check_finite=False)
        return found

    def covariance(self, tasks: IntArray, X: FloatArray, *, known: int) -> FloatArray:
        """Return the covariance of f at contexts X (m, d) after so many rows, (m, m)."""
        V = self._solved(tasks, X, known)
        found: FloatArray = self.kernel.cross(tasks, X, tasks, X) - V.T @ V
        return found

    def _solved(self, tasks: IntArray, X: FloatArray, known: ArrayLike) -> FloatArray:
        """L⁻¹k̃, (n, m), each column cut off at what was known."""
        from scipy.linalg import solve_triangular

        if not len(self):
            return np.empty((0, len(X)))
        k = self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X)
        V: FloatArray = solve_triangular(self._L, k, lower=True, check_finite=False)
        V[np.arange(len(V))[:, None] >= np.broadcast_to(np.asarray(known), len(X))] = 0.0
        return V


def told_rows_of(setup: Setup, journal: Journal, *, known: int | None = None) -> Rows:
    """Return every row that a controller has learned from, in the order of learning, with its whole variance.

    Args:
        setup: Of the controller, every station that ever joined among them.
        journal: Its log.
        known: Only so many of the first; a decision knew the first `Decision.known`.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25)
        >>> controller.tell(controller.ask("b").id, 0.5, noise=0.05)
        >>> rows = told_rows_of(controller.setup, controller.journal)
        >>> rows.tasks, rows.y, rows.noise
        (array([1]), array([0.5]), array([0.3]))
    """
    start = starting_rows(setup.start)
    told = journal.rows.part(0, None if known is None else max(known - len(start), 0))
    return _joined(_rows_of(start[:known], setup), _rows_told(told, setup))


def _rows_told(told: ToldRows, setup: Setup) -> Rows:
    return Rows(told.task, told.X, told.y, setup.noise + np.nan_to_num(told.noise))


def _joined(rows: Rows, further: Rows) -> Rows:
    """Return rows, then further ones."""
    if not len(rows.y) or not len(further.y):
        return further if len(further.y) else rows
    pairs = ((getattr(rows, name), getattr(further, name)) for name in ("tasks", "X", "y", "noise"))
    return Rows(*map(np.concatenate, pairs))


def _rows_of(learned: Sequence[Observation], setup: Setup) -> Rows:
    width = len(learned[0].x) if learned else 0
    return Rows(
        np.array([o.task for o in learned], dtype=np.int64),
        np.array([o.x for o in learned], dtype=np.float64).reshape(len(learned), width),
        np.array([o.reward for o in learned], dtype=np.float64),
        setup.noise + np.array([o.noise or 0.0 for o in learned], dtype=np.float64),
    )


class KnownRows:
    """Every row that a controller has learned from, as arrays that grow with its journal; threads may share it.

    Widths and weights rest on where rows lie and not on what they earned, so that corrections change nothing here: of
    `y` nothing is to be made.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller, known = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], noise=0.25), KnownRows()
        >>> controller.tell(controller.ask("b").id, 0.5, noise=0.05)
        >>> rows = known.of(controller.setup, controller.journal, known=1)
        >>> rows.tasks, rows.noise
        (array([1]), array([0.3]))
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: Journal | None = None
        self._rows, self._told = LearnedRows(), 0

    def of(self, setup: Setup, journal: Journal, *, known: int) -> Rows:
        """Return the first rows, so many of them."""
        with self._lock:
            if self._of is not journal:
                self._of, self._rows, self._told = journal, LearnedRows(), 0
                if start := starting_rows(setup.start):
                    self._rows.append(_rows_of(start, setup))
            told = journal.rows  # at once: others may tell meanwhile
            if len(told) > self._told:
                self._rows.append(_rows_told(told.part(self._told, None), setup))
            self._told = len(told)
            rows = self._rows
            return Rows(rows.tasks[:known], rows.X[:known], rows.y[:known], rows.noise[:known])


def closest_rows(rows: Rows, task: int, x: FloatArray, *, most: int, setup: Setup, K_Z: TaskCovariance) -> Rows:
    """Return those rows that f at a context (d,) of a task hangs together with most, in their order.

    What an estimate rests on is weighed from these where there are too many to weigh all: the others are seen through
    them (Vecchia 1988; Gramacy and Apley 2015 predict from such neighbourhoods). Of rows alike the later ones count.

    Args:
        rows: The rows.
        task: Number of the station.
        x: Its context.
        most: How many are wanted.
        setup: For the kernel.
        K_Z: The task matrix to share by, (M, M).
    """
    nearness = np.abs(MultiTaskKernel(setup.kernel, K_Z).cross(rows.tasks, rows.X, np.array([task]), x[None])[:, 0])
    own = np.sqrt(K_Z.diagonal()[rows.tasks])  # how far f goes at all, by station
    order = np.argsort((nearness / own)[::-1], kind="stable")
    chosen = np.sort(len(nearness) - 1 - order[-most:])
    return Rows(rows.tasks[chosen], rows.X[chosen], rows.y[chosen], rows.noise[chosen])


class Part:
    """The rows of a few tasks, numbered 0, 1, ... in the order given, and where they stood among all.

    Args:
        rows: All rows, in the order of learning.
        members: The tasks wanted, ascending.

    Example:
        >>> rows = Rows(np.array([2, 0, 2]), np.zeros((3, 1)), np.array([0.1, 0.2, 0.3]), np.ones(3))
        >>> part = Part(rows, [1, 2])
        >>> part.rows.tasks, part.rows.y, part.known([0, 1, 3])
        (array([1, 1]), array([0.1, 0.3]), array([0, 1, 2]))
    """

    def __init__(self, rows: Rows, members: Sequence[int] | IntArray) -> None:
        self.members = np.asarray(members, dtype=np.int64)
        self._index = np.flatnonzero(np.isin(rows.tasks, self.members))
        chosen = self._index
        self.rows = Rows(self.local(rows.tasks[chosen]), rows.X[chosen], rows.y[chosen], rows.noise[chosen])

    def __len__(self) -> int:
        return len(self._index)

    def local(self, tasks: ArrayLike) -> IntArray:
        """Return the numbers that tasks (m,) have here."""
        return np.searchsorted(self.members, np.asarray(tasks)).astype(np.int64)

    def known(self, known: ArrayLike) -> IntArray:
        """Return how many of these rows were among the first `known` of all, (m,)."""
        return np.searchsorted(self._index, np.asarray(known)).astype(np.int64)

    def hindsight(self, kernel: Kernel, K_Z: TaskCovariance, *, mean: float) -> Hindsight:
        """Return the beliefs of a model of these tasks alone, K_Z (M, M) being that of all."""
        return Hindsight(MultiTaskKernel(kernel, K_Z[np.ix_(self.members, self.members)]), self.rows, mean=mean)


# --- Whose evidence an estimate rests on, and how many rewards' worth of it was borrowed ----------------------------
#
# The posterior mean is linear in the rewards, f̂(x̃) = mean + a·(y − mean) with the weights a = (K̃ + diag(noise))⁻¹
# k̃(x̃) of (9). A station's *share* is that of Σ|a| which lies on its rows.
#
# What evidence is *worth* is counted in rewards. A further reward of the station itself, in the very context x and
# with noise λ, adds 1/λ to the precision 1/σ² of f(x), whatever else is known. So the rows that narrow σ₀ to σ are
# worth λ(1/σ² − 1/σ₀²) such rewards: with σ₀ from the prior and σ from the station's own rows it is what its own rows
# are worth here, with σ₀ from its own rows and σ from all rows what it borrowed, and the two add up to the worth of
# all.


@dataclass(frozen=True)
class Evidence:
    """What an estimate rested on when its decision was made.

    Attributes:
        station: Whose estimate it is.
        shares: Share of every station that has one, its own among them, largest first; they add up to 1, and there are
            none where nothing told says anything about the context.
        own_rows: Rewards of the station that were known.
        other_rows: Rewards of all stations that it shares with.
        prior_std: Standard deviation of f before any reward.
        std_alone: The same from the station's own rewards alone.
        std: The same from all rewards.
        own_worth: What its own rewards are worth here, in rewards of its own in the same context.
        borrowed_worth: What the others' rewards add, in the same measure.

    Example:
        >>> evidence = Evidence("a", {"a": 0.75, "b": 0.25}, 8, 40, 1.0, 0.2, 0.1, own_worth=6.0, borrowed_worth=18.75)
        >>> evidence.own_share, evidence.lenders
        (0.75, {'b': 0.25})
    """

    station: str
    shares: Mapping[str, float]
    own_rows: int
    other_rows: int
    prior_std: float
    std_alone: float
    std: float
    own_worth: float
    borrowed_worth: float

    @property
    def own_share(self) -> float:
        """The station's own share."""
        return self.shares.get(self.station, 0.0)

    @property
    def lenders(self) -> dict[str, float]:
        """The shares of the other stations, largest first."""
        return {name: share for name, share in self.shares.items() if name != self.station}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "shares": dict(self.shares), "own_share": self.own_share}


def worth_of(variance: ArrayLike, before: ArrayLike, *, noise: float) -> FloatArray:
    """Return how many rewards with this noise narrow a variance `before` (m,) to `variance` (m,).

    Example:
        >>> worth_of([0.2, 1.0], [1.0, 1.0], noise=0.25)
        array([1., 0.])
    """
    after, first = np.atleast_1d(np.asarray(variance, float)), np.atleast_1d(np.asarray(before, float))
    sure = np.minimum(after, first) <= 0.0  # known without any reward: nothing is left to be worth something
    worth = noise * (1.0 / np.where(sure, 1.0, after) - 1.0 / np.where(sure, 1.0, first))
    return np.where(sure, 0.0, np.maximum(worth, 0.0))


def shares_of(weights: FloatArray, tasks: IntArray, *, size: int) -> FloatArray:
    """Return the share of each of `size` tasks in m estimates, (m, size), from the weights (n, m) of its rows.

    Example:
        >>> shares_of(np.array([[0.3], [-0.1]]), np.array([1, 0]), size=2)
        array([[0.25, 0.75]])
    """
    totals = np.equal.outer(np.arange(size), tasks) @ np.abs(weights)
    whole = totals.sum(axis=0)
    found: FloatArray = (totals / np.where(whole > 0, whole, 1.0)).T
    return found


def task_matrix_of(setup: Setup) -> TaskCovariance | None:
    """Return the task matrix that a controller's policy shares by, (M, M); None where it has no such posterior.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> alone = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], similarity="pooled", policy="kernel-ucb")
        >>> task_matrix_of(alone.setup)
        BlockMatrix(<2 tasks in 2 groups>)
    """
    match setup.config.policy:
        case "ucb" | "thompson":
            return setup.K_Z
        case "pooled":
            return np.ones(setup.K_Z.shape)
        case "kernel-ucb" | "cgp-ucb":
            return BlockMatrix.apart(len(setup.K_Z))
    return None


def related(K_Z: TaskCovariance, task: int) -> IntArray:
    """Return the tasks that share evidence with one, itself among them, ascending.

    Example:
        >>> related(np.array([[1, 0, 0.5], [0, 1, 0], [0.5, 0, 1]]), 2)
        array([0, 2])
    """
    return next(members for members in components(K_Z) if task in members)


def evidence_of(
    rows: Rows, task: int, *, X: FloatArray, setup: Setup, K_Z: TaskCovariance
) -> tuple[Evidence, FloatArray]:
    """Return what the estimate for a task at the first context of X (m, d) rests on, and the covariance of f at all.

    Args:
        rows: The rows known, of all tasks.
        task: Number of the station.
        X: Its contexts.
        setup: For the kernel, the noise, the prior mean and the names.
        K_Z: The task matrix to share by, (M, M).
    """
    kin = related(K_Z, task)
    part, alone = Part(rows, kin[np.isin(kin, rows.tasks) | (kin == task)]), Part(rows, [task])
    past, own = (one.hindsight(setup.kernel, K_Z, mean=setup.mean) for one in (part, alone))
    here, self_ = np.full(len(X), part.local(task)), np.zeros(1, dtype=np.int64)
    C = past.covariance(here, X, known=len(part))
    a = past.weights(here[:1], X[:1], known=len(part))
    before = float(own.predict(self_, X[:1], known=len(alone))[1][0])
    prior = float(own.predict(self_, X[:1], known=0)[1][0])
    lent = shares_of(a, part.rows.tasks, size=len(part.members))[0]
    # Rounding put right: rows never widen, and without others' rows nothing changes.
    variance = min(max(float(C[0, 0]), 0.0), before) if len(part) > len(alone) else before
    names = [setup.stations[m] for m in part.members]
    order = [int(i) for i in np.argsort(-lent, kind="stable") if lent[i] > 0]
    evidence = Evidence(
        setup.stations[task],
        {names[i]: float(lent[i]) for i in order},
        own_rows=len(alone),
        other_rows=len(part) - len(alone),
        prior_std=prior**0.5,
        std_alone=before**0.5,
        std=variance**0.5,
        own_worth=float(worth_of(before, prior, noise=setup.noise)[0]),
        borrowed_worth=float(worth_of(variance, before, noise=setup.noise)[0]),
    )
    return evidence, C
