"""The sparse posterior: beliefs about f through a bounded number of points, at the same cost per reward for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, CannotCorrectError, NotPositiveDefiniteError
from kinband.kernels import Kernel, MultiTaskKernel
from kinband.posterior.base import Column, Posterior, Prediction, Rows, SolvedJoint, State, SummedContexts

# --- Coordinates in which a prior is white, and what to say when rounding has made that impossible ------------------


def whitening(K: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L with L Lᵀ = K (m, m) and Q = L⁻¹, each (m, m)."""
    try:
        L: FloatArray = np.asarray(np.linalg.cholesky(K), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise lost_definiteness() from error
    return L, np.tril(np.linalg.inv(L))


def lost_definiteness() -> NotPositiveDefiniteError:
    """Return the error that says what to do when rounding has swallowed a variance."""
    return NotPositiveDefiniteError(
        "the sparse posterior is no longer positive definite: the noise is too small for so many rewards",
        hint="increase `noise` (1e-6 of the kernel's variance is usually enough)",
        argument="noise",
    )


# --- How much of what is forgotten may be taken as independent: what keeps the widths of a sparse posterior honest
#
# A row that does not become a point tells y = (what the points see) + (a residual of variance r) + noise. Taking
# residuals of different rows as independent, as FITC does, makes a sparse belief far too sure: a thousand rows at one
# place share one residual, and averaging does not remove it. Write A for the information of all rows and S for what the
# belief keeps. If a direction e (unit, of the row's residual or of a dropped point) is marginalised with prior
# precision κ instead of 1,
#
#     A + Σ κ e eᵀ ≥ S   in the order of positive semi-definite matrices,
#
# because a Schur complement is what is left. With N = Σ κ e eᵀ, I + A ≥ (I + S)/(1 + ‖N‖), and so the exact variance is
# at most 1 + ‖N‖ times the sparse one. ‖N‖ ≤ Σκ, which is what `Allowance.total` holds: a certificate, though a loose
# one, since directions forgotten in different places are nearly orthogonal and do not add up. So every point answers
# for the rows next to it, its *cell*, and for each task there: the κ of directions that may be the same sum to at most
# `SHARE`, those of another task counting by the square of its correlation. A full cell teaches nothing more; by then
# the points see it about as finely as they can, since the information it has given is `SHARE`/r and r stays in every
# std anyway.
#
# κ → noise: a row with residual r is learned with the noise λ + r/κ (κ = 1 is FITC). The first rows of a cell get more,
# and where r is small against λ the sum lasts for about λ/r rows; after that, information per κ is 1/r whatever the
# schedule.

SHARE = 1.0
"""What κ of one direction may sum to; where cells do not overlap, σ²_exact ≤ (1 + SHARE) σ²_sparse."""

STEP = 0.5
"""The share of what is left that one row or point takes at most."""


def kappa(spent: float, information: float) -> float:
    """Return the κ of a direction with `information` (signal to noise) of which so much is spent already.

    Spending √(2·SHARE·Σ information) in all keeps weights near 1 as long as the allowance is wide.
    """
    wanted = 2.0 * SHARE * information
    free = wanted / (sqrt(spent**2 + wanted) + spent) if wanted > 0.0 else 0.0
    return max(0.0, min(free, STEP * (SHARE - spent)))


class Allowance:
    """What every task has spent in the cell of every point, and what all ever have.

    Args:
        K_Z: Task matrix, (M, M).
        spent: One row per cell, (m, M); none to start with.
        total: The sum of all κ.
    """

    def __init__(self, K_Z: FloatArray, spent: FloatArray | None = None, total: float = 0.0) -> None:
        scale = np.sqrt(np.diagonal(K_Z))
        self._similarity = (K_Z / np.multiply.outer(scale, scale)) ** 2
        self.spent = np.zeros((0, len(K_Z))) if spent is None else spent
        self.total = total

    def extended(self, K_Z: FloatArray) -> "Allowance":
        """Return the same with further tasks, which have spent nothing; K_Z (M', M') begins with the present matrix."""
        spent = np.zeros((len(self.spent), len(K_Z)))
        spent[:, : self.spent.shape[1]] = self.spent
        return Allowance(K_Z, spent, self.total)

    def take(self, cell: int, *, task: int, information: float) -> float:
        """Spend in a cell, and return the κ."""
        share = kappa(float(self.spent[cell] @ self._similarity[task]), information)
        self.spent[cell, task] += share
        self.total += share
        return share

    def found(self, parent: int | None, *, novelty: float) -> None:
        """Add the cell of a new point; `novelty` is the share of its variance that the others left open."""
        inherited = np.zeros_like(self._similarity[0]) if parent is None else (1.0 - novelty) * self.spent[parent]
        self.spent = np.concatenate([self.spent, inherited[None]])

    def merge(self, cell: int, *, into: int, task: int, information: float) -> float:
        """Give up a cell in favour of another and return the κ of its point; the last cell takes its number."""
        self.spent[into] = np.maximum(self.spent[into], self.spent[cell])
        share = self.take(into, task=task, information=information)
        self.spent[cell] = self.spent[-1]
        self.spent = self.spent[:-1].copy()
        return share


# --- What is believed about f at a few inducing points, in coordinates in which the prior is white ------------------
#
# Let z₁ … z_m be the points, K their kernel matrix and Q any matrix with Q K Qᵀ = I. The coordinates of a context x are
# v = Q k(x), with vᵀv ≤ k(x, x); what is missing, r = k(x, x) − vᵀv, is the variance that the points leave open. The
# belief is N(μ, C) over coordinates, I being the prior, so that f has mean vᵀμ and variance r + vᵀCv at x: the residual
# is always added in full. Four steps change it, each in O(m²) and matrix-vector products:
#
# - *absorb* a row: condition on y = vᵀf + error, the error being of the noise and of what the points do not see;
# - *admit* a row: its context becomes a point and is conditioned on exactly;
# - *weaken* a direction e: replace its prior precision 1 by κ < 1, as if less had been known of it beforehand;
# - *drop* a point: marginalise its own direction, which returns to its prior (a reflection brings it to the end).
#
# Exact Bayesian conditioning on the points and one row, then marginalising a point, is the online Gaussian process of
# Csató and Opper (2002), there in the coordinates of the points themselves; white coordinates keep more digits. For
# every point `precision` holds (K⁻¹)ⱼⱼ, `learned` (K⁻¹ − K⁻¹ Σ K⁻¹)ⱼⱼ with Σ the covariance of f at the points, and
# `weight` (K⁻¹ f̂)ⱼ.

_FIRST = 16  # points that the smallest arrays hold
_LANES = 8
ROUNDING = 1e-9
"""This share of the prior variance cannot be told from zero."""

_NOTHING = 1e-10  # a direction whose variance fell by less than this share has nothing to weaken


@dataclass(frozen=True, eq=False)
class Sight:
    """A row as the points see it.

    Attributes:
        task: Its task.
        x: Its context, (d,).
        k: Its covariance with every point, (m,).
        v: Its coordinates, (m,).
        w: C v, (m,).
        prior: k(x, x).
        residual: r, zero where it is rounding.
        spread: vᵀ C v.
        surprise: y − f̂(x).
        a: Qᵀ v, (m,): what it weighs the points with.
        b: Qᵀ w, (m,).
    """

    task: int
    x: FloatArray
    k: FloatArray
    v: FloatArray
    w: FloatArray
    prior: float
    residual: float
    spread: float
    surprise: float
    a: FloatArray
    b: FloatArray


class InducedBelief:
    """A Gaussian belief about f through at most `inducing_points` of them, and one more while points change places.

    Attributes:
        size: How many points there are, m.
        tasks: Tasks of the points, (m,).
        X: Their contexts, (m, d).
        mu: Mean of the coordinates, (m,).
        Q: What whitens the points, (m, m).
        C: Covariance of the coordinates, (m, m).
        prior: k(z, z) of the points, (m,).
        precision: Diagonal of K⁻¹, (m,); its inverse is the prior variance of a point given all others.
        learned: Diagonal of K⁻¹ − K⁻¹ΣK⁻¹, (m,).
        weight: K⁻¹ f̂ at the points, (m,).
    """

    def __init__(self, kernel: MultiTaskKernel, *, inducing_points: int, width: int) -> None:
        self.kernel, self.inducing_points, self._width = kernel, inducing_points, width
        self._allocate(self._capacity(0))
        self._resize(0)

    def _capacity(self, size: int) -> int:
        """Return how many points the arrays hold; of the size alone, so that restored arrays have the same layout."""
        full = -(-(self.inducing_points + 1) // _LANES) * _LANES
        if size >= self.inducing_points:
            return full
        return min(full, max(_FIRST, 1 << (size - 1).bit_length()))

    def _allocate(self, capacity: int) -> None:
        self._tasks, self._X = np.zeros(capacity, dtype=np.int64), np.zeros((capacity, self._width))
        self._Q, self._C = np.zeros((capacity, capacity)), np.zeros((capacity, capacity))
        self._mu = np.zeros(capacity)
        self._vectors = np.zeros((4, capacity))  # of the points: prior, precision, learned, weight

    def _resize(self, size: int) -> None:
        """View what so many points fill of the arrays."""
        m = self.size = size
        self.tasks, self.X, self.mu = self._tasks[:m], self._X[:m], self._mu[:m]
        self.Q, self.C = self._Q[:m, :m], self._C[:m, :m]
        self.prior, self.precision, self.learned, self.weight = self._vectors[:, :m]

    def predict(self, tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return mean and variance (n,) of f for tasks (n,) at contexts X (n, d), their coordinates V and CV (m, n)."""
        return self.seen(self.kernel.cross(self.tasks, self.X, tasks, X), self.kernel.diag(tasks, X))

    def seen(self, K: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the same of what has covariances K (m, n) with f at the points and these prior variances (n,)."""
        V = self.Q @ K
        CV = self.C @ V
        seen, spread = np.einsum("ij,ij->j", V, V), np.einsum("ij,ij->j", V, CV)
        return self.mu @ V, np.maximum(prior - seen, 0.0) + np.maximum(spread, 0.0), V, CV

    def look(self, task: int, x: FloatArray, y: float) -> Sight:
        """Return how the points see a row with context x (d,) and reward y."""
        at, X = np.array([task]), x[None]
        prior = float(self.kernel.diag(at, X)[0])
        k = self.kernel.cross(self.tasks, self.X, at, X)[:, 0] if self.size else np.empty(0)
        v = self.Q @ k
        w = self.C @ v
        a, b = np.stack([v, w]) @ self.Q
        spread = float(v @ w)
        if spread < -ROUNDING * prior:
            raise lost_definiteness()
        residual = prior - float(v @ v)
        residual = residual if residual > ROUNDING * prior else 0.0
        return Sight(task, x, k, v, w, prior, residual, max(spread, 0.0), y - float(v @ self.mu), a, b)

    def absorb(self, sight: Sight, noise: float) -> None:
        """Learn a row that does not become a point; `noise` is the variance of all that the points do not see."""
        total = noise + sight.spread
        self.mu[:] += sight.w * (sight.surprise / total)
        self.weight[:] += sight.b * (sight.surprise / total)
        self.learned[:] += sight.b**2 / total
        u = sight.w / np.sqrt(total)
        self.C[:] -= np.multiply.outer(u, u)

    def admit(self, sight: Sight, noise: float) -> None:
        """Learn a row whose context becomes a point; `noise` is the variance of its reward."""
        m, root = self.size, np.sqrt(sight.residual)
        total = noise + sight.residual + sight.spread
        self._make_room(m + 1)
        self._resize(m + 1)
        self._tasks[m], self._X[m] = sight.task, sight.x
        self._Q[m, :m], self._Q[:m, m], self._Q[m, m] = sight.a / -root, 0.0, 1.0 / root
        self._C[m, :m], self._C[:m, m], self._C[m, m] = 0.0, 0.0, 1.0
        self._mu[m], self._vectors[:, m] = 0.0, (sight.prior, 0.0, 0.0, 0.0)
        self.precision[:] += self._Q[m, : m + 1] ** 2
        w, b = np.append(sight.w, root), np.append(sight.b - sight.a, 1.0)  # C v and QᵀC v of the longer coordinates
        self.mu[:] += w * (sight.surprise / total)
        self.weight[:] += b * (sight.surprise / total)
        self.learned[:] += b**2 / total
        u = w / np.sqrt(total)
        self.C[:] -= np.multiply.outer(u, u)

    def direction(self, point: int) -> tuple[FloatArray, FloatArray, float]:
        """Return the unit vector e of what only this point sees, C e, and eᵀCe: (m,), (m,) and a number."""
        e = self.Q[:, point] / np.sqrt(self.precision[point])
        f = self.C @ e
        return e, f, float(e @ f)

    def forget(self, point: int, *, kappa: float) -> None:
        """Drop a point whose own direction is taken to have had prior precision κ, 0 ≤ κ ≤ 1."""
        e, f, g = self.direction(point)
        p, q = np.stack([e, f]) @ self.Q
        if 1.0 - g > _NOTHING:
            # Λ − (1−κ)eeᵀ has the inverse C + t f fᵀ; information Cμ⁻¹ stays, so the mean moves.
            t = (1.0 - kappa) / (1.0 - (1.0 - kappa) * g)
            shift = t * float(e @ self.mu)
            self.mu[:] += shift * f
            self.weight[:] += shift * q
            self.learned[:] -= t * q**2
            self.C[:] += np.multiply.outer(t * f, f)
            q, f, g = (1.0 + t * g) * q, (1.0 + t * g) * f, (1.0 + t * g) * g
        self.weight[:] -= float(e @ self.mu) * p
        self.learned[:] -= 2.0 * p * (p - q) - (1.0 - g) * p**2
        self.precision[:] -= p**2
        self._reflect(e)
        self._take_out(point)

    def refresh(self) -> None:
        """Whiten the points anew, so that rounding does not pile up."""
        K = self.kernel.cross(self.tasks, self.X, self.tasks, self.X)
        L, Q = whitening(K)
        turn = L.T @ self.Q.T  # orthogonal: from the old coordinates to the new
        C = turn @ self.C @ turn.T
        self.begin(self.tasks.copy(), self.X.copy(), Q=Q, C=0.5 * (C + C.T), mu=turn @ self.mu)

    def begin(self, tasks: IntArray, X: FloatArray, *, Q: FloatArray, C: FloatArray, mu: FloatArray) -> None:
        """Take up points, tasks (m,) and contexts (m, d), with the belief N(mu (m,), C (m, m))."""
        m = len(mu)
        if self._capacity(m) != len(self._tasks):
            self._allocate(self._capacity(m))
        self._resize(m)
        self._tasks[:m], self._X[:m] = tasks, X
        self.Q[:], self.C[:], self.mu[:] = Q, C, mu
        self.prior[:] = self.kernel.diag(tasks, X)
        self.precision[:] = np.einsum("ij,ij->j", Q, Q)
        self.learned[:] = self.precision - np.einsum("ij,ij->j", Q, C @ Q)
        self.weight[:] = mu @ Q

    def state(self) -> State:
        """Return points and belief as plain arrays."""
        arrays = {"whitening": self.Q, "covariance": self.C, "mu": self.mu, "vectors": self._vectors[:, : self.size]}
        return {"tasks": self.tasks.copy(), "X": self.X.copy(), **{name: a.copy() for name, a in arrays.items()}}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self._fill(state, self._capacity(len(state["tasks"])))

    def _fill(self, state: Mapping[str, FloatArray | IntArray], capacity: int) -> None:
        m = len(state["tasks"])
        self._allocate(capacity)
        self._resize(m)
        self._tasks[:m], self._X[:m], self._vectors[:, :m] = state["tasks"], state["X"], state["vectors"]
        self.Q[:], self.C[:], self.mu[:] = state["whitening"], state["covariance"], state["mu"]

    def _make_room(self, size: int) -> None:
        capacity = self._capacity(size)
        if capacity > len(self._tasks):
            self._fill(self.state(), capacity)

    def _reflect(self, e: FloatArray) -> None:
        """Reflect coordinates so that the unit vector e (m,) becomes the last axis, up to its sign."""
        h = e.copy()
        h[-1] += 1.0 if e[-1] >= 0 else -1.0
        h /= np.linalg.norm(h)
        self.Q[:] -= np.multiply.outer(2.0 * h, h @ self.Q)
        self.mu[:] -= 2.0 * float(h @ self.mu) * h
        c = self.C @ h
        c -= float(h @ c) * h
        self.C[:] -= np.multiply.outer(2.0 * h, c)
        self.C[:] -= np.multiply.outer(c, 2.0 * h)

    def _take_out(self, point: int) -> None:
        """Take out the last coordinate, and a point that no other coordinate sees; the last point takes its place."""
        last = self.size - 1
        self._Q[:, point] = self._Q[:, last]
        self._tasks[point], self._X[point] = self._tasks[last], self._X[last]
        self._vectors[:, point] = self._vectors[:, last]
        self._resize(last)


# --- The first points, chosen from a block of rows, and all that the block tells through them -----------------------
#
# Rows are taken one after the other, each time the one that changes most: the same worth by which points are kept later
# (`posterior`), of a row given the ones taken before, r²/(r + λ) of variance and (r e/(r + λ))² of the mean, where r is
# what the rows taken leave open of it and e its distance from what they predict. That is a Cholesky factor with pivots
# of its own kind, O(n m²). Then every row of the block is learned through the points at once.

CANDIDATES = 8192
"""Points of a longer block are chosen among so many of its rows, evenly spaced."""

_CHUNK = 1024


def choose_points(
    kernel: MultiTaskKernel, rows: Rows, *, inducing_points: int, tolerance: float, mean: float
) -> IntArray:
    """Return which rows become points, at most `inducing_points`, in order of their worth.

    Rows of which less than `tolerance` of the prior variance is left open are never taken.
    """
    some = np.unique(np.linspace(0, len(rows.y) - 1, min(len(rows.y), CANDIDATES)).round().astype(np.int64))
    tasks, X, noise = rows.tasks[some], rows.X[some], rows.noise[some]
    prior = kernel.diag(tasks, X)
    left, error = prior.copy(), rows.y[some] - mean
    F = np.zeros((min(inducing_points, len(some)), len(some)))
    taken: list[int] = []
    for j in range(len(F)):
        gain = np.where(left > tolerance * prior, left / (left + noise), 0.0)
        p = int(np.argmax(gain * left + (gain * error) ** 2))
        if gain[p] == 0.0:
            break
        column = kernel.cross(tasks, X, tasks[p : p + 1], X[p : p + 1])[:, 0] - F[:j, p] @ F[:j]
        error -= column * (error[p] / (left[p] + noise[p]))
        F[j] = column / np.sqrt(left[p])
        left = np.maximum(left - F[j] ** 2, 0.0)
        left[p] = 0.0
        taken.append(p)
    return some[taken]


@dataclass(frozen=True, eq=False)
class _Information:
    """What rows tell of white coordinates: information S (m, m) and its mean's part b (m,)."""

    S: FloatArray
    b: FloatArray


def learn_block(belief: InducedBelief, rows: Rows, points: IntArray, *, mean: float) -> Allowance:
    """Give an empty belief its points and all rows of a block; returns what the cells have spent."""
    tasks, X = rows.tasks[points], rows.X[points]
    _, Q = whitening(belief.kernel.cross(tasks, X, tasks, X))
    belief.begin(tasks, X, Q=Q, C=np.eye(len(points)), mu=np.zeros(len(points)))
    allowance = Allowance(np.asarray(belief.kernel.K_Z), np.zeros((len(points), len(belief.kernel.K_Z))))
    told = _tell(belief, rows, points, allowance, mean)
    try:
        root = np.linalg.inv(np.linalg.cholesky(np.eye(len(points)) + told.S))
    except np.linalg.LinAlgError as error:
        raise lost_definiteness() from error
    C = root.T @ root
    belief.begin(tasks, X, Q=Q, C=C, mu=C @ told.b)
    return allowance


def _tell(belief: InducedBelief, rows: Rows, points: IntArray, allowance: Allowance, mean: float) -> _Information:
    S, b = np.zeros((len(points), len(points))), np.zeros(len(points))
    is_point = np.zeros(len(rows.y), dtype=np.bool_)
    is_point[points] = True
    scale = np.sqrt(belief.prior)[:, None]
    for start in range(0, len(rows.y), _CHUNK):
        part = slice(start, start + _CHUNK)
        k = belief.kernel.cross(belief.tasks, belief.X, rows.tasks[part], rows.X[part])
        V = belief.Q @ k
        prior = belief.kernel.diag(rows.tasks[part], rows.X[part])
        residual = prior - np.einsum("ij,ij->j", V, V)
        residual[is_point[part] | (residual <= ROUNDING * prior)] = 0.0
        cells = np.argmax(np.abs(k) / scale, axis=0)
        weight = _weights(residual, rows.noise[part], rows.tasks[part], cells, allowance)
        S += (V * weight) @ V.T
        b += V @ (weight * (rows.y[part] - mean))
    return _Information(S, b)


def _weights(
    residual: FloatArray, noise: FloatArray, tasks: IntArray, cells: IntArray, allowance: Allowance
) -> FloatArray:
    """Return the information of each row, 1/(λ + r/κ), in the order in which the cells are spent, (n,)."""
    weights = 1.0 / noise
    for i in np.flatnonzero(residual):
        share = allowance.take(int(cells[i]), task=int(tasks[i]), information=float(residual[i] / noise[i]))
        weights[i] = share / (noise[i] * share + residual[i])
    return weights


# --- The sparse posterior: bounded memory, the same time for the millionth reward as for the thousandth -------------
#
# It keeps at most so many *inducing points*, rows (task, context) among those it was told, and a Gaussian belief about
# f at them (`belief`); rows themselves are not kept. While there is room, every new context becomes a point and the
# posterior is the exact one. After that each row brings one point too many, and what is worth least goes: the row
# itself, which is then *absorbed* by the points, or an old point in whose place it comes. The **worth** of a point is
# what would be forgotten of the part of f there that no other point sees: how far its variance would grow, and the
# square of how far its mean would move,
#
#     worth_j = (learned_j + weight_j²) / precision_j²,
#
# known for all points in O(m²) per row. Nothing is drawn at random, and asking changes nothing: beliefs depend on the
# order of updates alone.
#
# **Widths stay honest.** The residual k(x, x) − kᵀK⁻¹k of what the points do not see is added to every variance, as in
# BKB (Calandriello et al. 2019), and information is never counted twice: `allowance` has the argument and the
# inequality σ²_exact ≤ slack · σ²_sparse, which always holds; `SparsePosterior.slack` is the number. In random problems
# the sparse std is practically never below the exact one (tests/property/test_sparse.py).
#
# Cost: O(m²) per update and per predicted context, two m × m matrices of memory; every `REFRESH` rows the points are
# whitened anew in O(m³). Csató and Opper (2002) forget by the same projection, with their own worth and with κ = 1
# throughout; EK-UCB (Zenati et al. 2022) and BKB grow their dictionaries instead and choose them by chance.

INDUCING_POINTS = 512
"""Inducing points unless another number is given."""

REFRESH = 1024
"""After so many rows the points are whitened anew."""

TOLERANCE = 1e-6
"""A context of which less than this share of the prior variance is left open never becomes a point."""

_CERTAIN = 1e-12  # variances below this share of the prior's are rounding


class SparsePosterior(Posterior):
    """What is believed about f after every reward told so far, through a bounded number of points.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
        inducing_points: How many inducing points are kept.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = SparsePosterior(RBF(0.5), [[1.0, 0.9], [0.9, 1.0]], noise=0.1, mean=0.5, inducing_points=20)
        >>> rng = np.random.default_rng(0)
        >>> for x in rng.random(300):
        ...     posterior.update([0], [[x]], [np.sin(x) + 0.3 * rng.normal()])
        >>> len(posterior), posterior.points <= 20
        (300, True)
        >>> bool(abs(posterior.predict([0], [[0.5]]).mean[0] - np.sin(0.5)) < 0.1)
        True
    """

    def __init__(
        self, kernel: Kernel, K_Z: ArrayLike, *, noise: float, mean: float = 0.0, inducing_points: int = INDUCING_POINTS
    ) -> None:
        super().__init__(kernel, K_Z, noise=noise, mean=mean)
        self.inducing_points = checked_inducing_points(inducing_points)
        self._rows = 0
        self._belief: InducedBelief | None = None
        self._allowance = Allowance(np.asarray(self.kernel.K_Z))

    def __len__(self) -> int:
        return self._rows

    @property
    def points(self) -> int:
        """How many inducing points there are."""
        return self._belief.size if self._belief else 0

    @property
    def slack(self) -> float:
        """By which factor at most the exact variance exceeds the sparse one, anywhere; 1 while nothing is forgotten."""
        return 1.0 + self._allowance.total

    def _predict(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column | None]) -> Prediction:
        del columns  # of no use here, as is the one of an update
        if self._belief is None:
            V, std = np.empty((0, len(X))), np.sqrt(self.kernel.diag(tasks, X))
            return Prediction(np.full(len(X), self.mean), std, SolvedJoint(self.kernel, tasks, X, V, V))
        mean, variance, V, CV = self._belief.predict(tasks, X)
        return Prediction(self.mean + mean, np.sqrt(variance), SolvedJoint(self.kernel, tasks, X, V, V - CV))

    def sums(self, tasks: IntArray, X: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and std of weighted sums of f; see `Posterior.sums`."""
        if self._belief is None:
            return super().sums(tasks, X, W)
        summed = SummedContexts.of(self.kernel, (self._belief.tasks, self._belief.X), (tasks, X, W))
        mean, variance, _, _ = self._belief.seen(summed.R, summed.prior)
        return self.mean * W.sum(axis=1) + mean, np.sqrt(variance)

    def _learn(self, rows: Rows, column: Column | None) -> None:
        """Learn checked rows; a first block of many chooses its points with all of them in view."""
        del column
        before = self.state() if len(rows.y) > 1 else None
        try:
            self._learn_all(rows)
        except NotPositiveDefiniteError:
            if before is not None:
                self.restore(before)
            raise

    def correct(self, index: int, y: float) -> NoReturn:
        """Refuse: the row is not kept."""
        del index, y
        raise CannotCorrectError("a sparse posterior keeps no rows: learn the corrected log again")

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; points and belief stay as they are."""
        super().extend_tasks(K_Z)
        self._allowance = self._allowance.extended(np.asarray(self.kernel.K_Z))
        if self._belief is not None:
            self._belief.kernel = self.kernel

    def state(self) -> State:
        """Return points and belief as plain arrays."""
        counts = np.array([self._rows], dtype=np.int64)
        if self._belief is None:
            return {"rows": counts}
        allowance = {"spent": self._allowance.spent.copy(), "total": np.array([self._allowance.total])}
        return {**self._belief.state(), **allowance, "rows": counts}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self._rows = int(state["rows"][0])
        self._belief, self._features, self._allowance = None, None, Allowance(np.asarray(self.kernel.K_Z))
        if self._rows:
            self._features = state["X"].shape[1]
            self._belief = InducedBelief(self.kernel, inducing_points=self.inducing_points, width=self._features)
            self._belief.restore(state)
            spent = np.array(state["spent"], dtype=np.float64)
            self._allowance = Allowance(np.asarray(self.kernel.K_Z), spent, float(state["total"][0]))

    def _learn_all(self, rows: Rows) -> None:
        if self._belief is None:
            width = rows.X.shape[1]
            self._belief = InducedBelief(self.kernel, inducing_points=self.inducing_points, width=width)
            if len(rows.y) > 1:
                self._begin(rows, self._belief)
                return
        for i in range(len(rows.y)):
            self._learn_row(self._belief, int(rows.tasks[i]), rows.X[i], float(rows.y[i]), float(rows.noise[i]))

    def _begin(self, rows: Rows, belief: InducedBelief) -> None:
        points = choose_points(
            self.kernel, rows, inducing_points=self.inducing_points, tolerance=TOLERANCE, mean=self.mean
        )
        self._allowance = learn_block(belief, rows, points, mean=self.mean)
        self._rows = len(rows.y)

    def _learn_row(self, belief: InducedBelief, task: int, x: FloatArray, y: float, noise: float) -> None:
        sight = belief.look(task, x, y - self.mean)
        if sight.residual <= TOLERANCE * sight.prior:
            self._absorb(belief, sight, noise)
        elif belief.size < self.inducing_points:
            self._admit(belief, sight, noise)
        else:
            point = int(np.argmin(_worths(belief, sight, noise)))
            if point == belief.size:
                self._absorb(belief, sight, noise)
            else:
                self._admit(belief, sight, noise)
                self._forget(belief, point)
        self._rows += 1
        if self._rows % REFRESH == 0:
            belief.refresh()

    def _absorb(self, belief: InducedBelief, sight: Sight, noise: float) -> None:
        if not sight.residual > 0.0:
            belief.absorb(sight, noise)
        elif sight.residual < sight.prior:
            cell, information = _nearest(belief, sight.k), sight.residual / noise
            share = self._allowance.take(cell, task=sight.task, information=information)
            if share > 0.0:
                belief.absorb(sight, noise + sight.residual / share)

    def _admit(self, belief: InducedBelief, sight: Sight, noise: float) -> None:
        parent = _nearest(belief, sight.k) if belief.size else None
        belief.admit(sight, noise)
        self._allowance.found(parent, novelty=sight.residual / sight.prior)

    def _forget(self, belief: InducedBelief, point: int) -> None:
        at = slice(point, point + 1)
        k = self.kernel.cross(belief.tasks, belief.X, belief.tasks[at], belief.X[at])[:, 0]
        k[point] = 0.0
        _, _, variance = belief.direction(point)
        information = max(1.0 / max(variance, _CERTAIN) - 1.0, 0.0)
        into, task = _nearest(belief, k, other_than=point), int(belief.tasks[point])
        share = self._allowance.merge(point, into=into, task=task, information=information)
        belief.forget(point, kappa=share)


def _worths(belief: InducedBelief, sight: Sight, noise: float) -> FloatArray:
    """Return what every point is worth once the row is known, and last the row itself, (m + 1,)."""
    total = noise + sight.residual + sight.spread
    b = sight.b - sight.a
    precision = belief.precision + sight.a**2 / sight.residual
    learned = belief.learned + b**2 / total
    weight = belief.weight + b * (sight.surprise / total)
    own = (1.0 / total + (sight.surprise / total) ** 2) * sight.residual**2
    return np.append((learned + weight**2) / precision**2, own)


def _nearest(belief: InducedBelief, k: FloatArray, *, other_than: int | None = None) -> int:
    """Return the point most correlated with what has covariances k (m,)."""
    similarity = np.abs(k) / np.sqrt(belief.prior)
    if other_than is not None:
        similarity[other_than] = -1.0
    return int(np.argmax(similarity))


def checked_inducing_points(inducing_points: Any) -> int:
    """Return how many inducing points to keep, a whole number from 2 on, or say what came instead.

    Example:
        >>> checked_inducing_points(1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: inducing_points must be a whole number from 2 on, got 1: 512 suits most
    """
    whole = isinstance(inducing_points, int | np.integer) and not isinstance(inducing_points, bool)
    if not whole or inducing_points < 2:
        raise BadInputError(
            f"inducing_points must be a whole number from 2 on, got {inducing_points!r}",
            hint="512 suits most",
            argument="inducing_points",
            value=inducing_points,
        )
    return int(inducing_points)
