"""The first points, chosen from a block of rows, and all that the block tells through them.

Rows are taken one after the other, each time the one that changes most: the same worth by which points are kept later
(`posterior`), of a row given the ones taken before, r²/(r + λ) of variance and (r e/(r + λ))² of the mean, where r is
what the rows taken leave open of it and e its distance from what they predict. That is a Cholesky factor with pivots
of its own kind, O(n m²). Then every row of the block is learned through the points at once.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import MultiTaskKernel
from kinband.posterior.contract import Rows
from kinband.posterior.sparse.allowance import Allowance
from kinband.posterior.sparse.belief import ROUNDING, InducedBelief
from kinband.posterior.sparse.whitening import lost_definiteness, whitening

CANDIDATES = 8192
"""Points of a longer block are chosen among so many of its rows, evenly spaced."""

_CHUNK = 1024


def choose_points(kernel: MultiTaskKernel, rows: Rows, *, budget: int, tolerance: float, mean: float) -> IntArray:
    """Return which rows become points, at most `budget`, in order of their worth.

    Rows of which less than `tolerance` of the prior variance is left open are never taken.

    Example:
        >>> from kinband.kernels import RBF
        >>> X = np.array([[0.0], [0.0], [5.0]])
        >>> rows = Rows(np.zeros(3, dtype=np.int64), X, np.array([0.1, 0.1, 2.0]), np.full(3, 0.1))
        >>> choose_points(MultiTaskKernel(RBF(0.5), np.eye(1)), rows, budget=3, tolerance=1e-6, mean=0.0).tolist()
        [2, 0]
    """
    some = np.unique(np.linspace(0, len(rows.y) - 1, min(len(rows.y), CANDIDATES)).round().astype(np.int64))
    tasks, X, noise = rows.tasks[some], rows.X[some], rows.noise[some]
    prior = kernel.diag(tasks, X)
    left, error = prior.copy(), rows.y[some] - mean
    F = np.zeros((min(budget, len(some)), len(some)))
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
class _Told:
    """What rows tell of white coordinates: information S (m, m) and its mean's part b (m,)."""

    S: FloatArray
    b: FloatArray


def learn_block(belief: InducedBelief, rows: Rows, points: IntArray, *, mean: float) -> Allowance:
    """Give an empty belief its points and all rows of a block; returns what the cells have spent."""
    tasks, X = rows.tasks[points], rows.X[points]
    _, Q = whitening(belief.kernel.cross(tasks, X, tasks, X))
    belief.begin(tasks, X, Q=Q, C=np.eye(len(points)), mu=np.zeros(len(points)))
    allowance = Allowance(belief.kernel.K_Z, np.zeros((len(points), len(belief.kernel.K_Z))))
    told = _tell(belief, rows, points, allowance, mean)
    try:
        root = np.linalg.inv(np.linalg.cholesky(np.eye(len(points)) + told.S))
    except np.linalg.LinAlgError as error:
        raise lost_definiteness() from error
    C = root.T @ root
    belief.begin(tasks, X, Q=Q, C=C, mu=C @ told.b)
    return allowance


def _tell(belief: InducedBelief, rows: Rows, points: IntArray, allowance: Allowance, mean: float) -> _Told:
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
    return _Told(S, b)


def _weights(
    residual: FloatArray, noise: FloatArray, tasks: IntArray, cells: IntArray, allowance: Allowance
) -> FloatArray:
    """Return the information of each row, 1/(λ + r/κ), in the order in which the cells are spent, (n,)."""
    weights = 1.0 / noise
    for i in np.flatnonzero(residual):
        share = allowance.take(int(cells[i]), task=int(tasks[i]), information=float(residual[i] / noise[i]))
        weights[i] = share / (noise[i] * share + residual[i])
    return weights
