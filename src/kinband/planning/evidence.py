"""What stations that learn together have told, and what it says of the mean of f over a period.

A setting runs for a night or a week, in many states. What a plan needs of f is linear in it: the mean over the rows of
a period, f̄(a) = Σ_t w_t f(s_t, a), the gain f̄(a) − f̄(a₀), the gain of one hour of the day: linear functionals of f.
The posterior of such a sum is as exact as that of f itself: its covariance with the rows told is the same sum of
kernels, so it costs one solve, whatever the length of the period. Where the kernel is a product over state and setting,
the sum over states is worked out once for all settings.

Rows of one day or spell hang together (`kinband.likelihood.Shocks`). What such an hour does it would do to any setting:
it is no part of a gain, but of the noise that a gain is known through.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.controller.attribution import shares_of
from kinband.kernels import Kernel, MultiTaskKernel
from kinband.kernels.serial import Split, split_kernel
from kinband.likelihood import Shocks, even_share
from kinband.posterior.base import cholesky_factor
from kinband.records import Samples

_ROWS_AT_ONCE = 512  # of a covariance that is being filled: temporaries stay small


@dataclass(frozen=True, eq=False)
class EvidenceRows:
    """Rows that a group of stations learned from; a row may be the mean of several of a log.

    Attributes:
        tasks: Station of each row, (n,).
        X: Context, (n, d).
        y: Reward, (n,).
        noise: Variance of the reward around f and shocks, (n,).
        count: Of how many rows of the log it is the mean, (n,).
        days, spells: Share of each day and of each spell in it, sparse, (n, D) and (n, S); None where not known.

    Example:
        >>> tasks, count = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
        >>> len(EvidenceRows(tasks, np.zeros((2, 1)), np.ones(2), np.ones(2), count))
        2
    """

    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noise: FloatArray
    count: IntArray
    days: Any = None
    spells: Any = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: IntArray | BoolArray) -> "EvidenceRows":
        """Return the chosen rows."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        days, spells = (None if of is None else of[rows] for of in (self.days, self.spells))
        return EvidenceRows(
            self.tasks[rows], self.X[rows], self.y[rows], self.noise[rows], self.count[rows], days, spells
        )


def evidence_rows(samples: Samples, noise: float) -> EvidenceRows:
    """Return rows of a log with the whole variance of each."""
    known = np.zeros(len(samples)) if samples.noise is None else np.nan_to_num(samples.noise)
    days, spells = (None if of is None else _shares(of) for of in (samples.days, samples.spells))
    ones = np.ones(len(samples), dtype=np.int64)
    return EvidenceRows(samples.tasks, samples.X, samples.y, noise + known, ones, days, spells)


def _shares(of_rows: IntArray) -> Any:
    """What each row is of, (n,), as shares, (n, k): one in a row."""
    from scipy.sparse import csr_array

    found, number = np.unique(of_rows, return_inverse=True)
    n = len(of_rows)
    return csr_array((np.ones(n), number.ravel(), np.arange(n + 1)), shape=(n, len(found)))


# --- More rows than an exact posterior takes: means of like rows ----------------------------------------------------
#
# Rows of one station at one setting in nearly the same state say nearly the same. Their mean, with its smaller noise,
# says what they say together, exactly where the states are the same. Groups of rows are halved where they spread most
# until there are as many as can be taken. No row is dropped.


def averaged(told: EvidenceRows, *, most: int, columns: Sequence[int]) -> EvidenceRows:
    """Return at most about `most` rows that say what all say: means of like rows of a station.

    Args:
        told: The rows.
        most: How many may remain; at least one for each setting of each station does.
        columns: Columns of X in which rows of a mean must agree: the setting.

    Example:
        >>> X = np.array([[0.1, 2.0], [0.2, 2.0], [0.9, 2.0], [0.5, 4.0]])
        >>> told = EvidenceRows(np.zeros(4, dtype=np.int64), X, np.arange(4.0), np.ones(4), np.ones(4, dtype=np.int64))
        >>> few = averaged(told, most=3, columns=[1])
        >>> few.X.round(9).tolist(), few.count.tolist(), few.noise.tolist()
        ([[0.15, 2.0], [0.9, 2.0], [0.5, 4.0]], [2, 1, 1], [0.5, 1.0, 1.0])
    """
    if len(told) <= most:
        return told
    counts = np.bincount(told.tasks)
    share = even_share(counts[counts > 0].tolist(), most=most)
    cells: list[IntArray] = []
    for own in np.split(np.argsort(told.tasks, kind="stable"), np.cumsum(counts)[:-1]):
        cells += (
            _halved(told, own, most=share, columns=columns)
            if len(own) > share
            else [own[i : i + 1] for i in range(len(own))]
        )
    cells.sort(key=lambda cell: int(cell[0]))
    return _means(told, cells)


def _halved(told: EvidenceRows, own: IntArray, *, most: int, columns: Sequence[int]) -> list[IntArray]:
    """The rows of a station in at most so many cells of one setting each, the widest halved first."""
    _, setting = np.unique(told.X[own][:, list(columns)], axis=0, return_inverse=True)
    states = [c for c in range(told.X.shape[1]) if c not in set(columns)]
    open_cells: list[tuple[float, int, IntArray]] = []
    for number in range(int(setting.max()) + 1):
        cell = own[setting.ravel() == number]
        open_cells.append((-_width(told, cell, states), int(cell[0]), cell))
    heapify(open_cells)
    while len(open_cells) < most and open_cells[0][0] < 0:
        _, _, cell = heappop(open_cells)
        S = told.X[cell][:, list(states)]
        widest = S[:, int(S.var(axis=0).argmax())]
        below = widest <= np.clip(widest.mean(), widest.min(), np.nextafter(widest.max(), -np.inf))
        for half in (cell[below], cell[~below]):
            heappush(open_cells, (-_width(told, half, states), int(half[0]), half))
    return [cell for _, _, cell in open_cells]


def _width(told: EvidenceRows, cell: IntArray, states: Sequence[int]) -> float:
    """What is lost by taking the rows of a cell for one: their sum of squares around their mean."""
    S = told.X[cell][:, list(states)]
    return float(S.var(axis=0).sum()) * len(cell) if np.ptp(S, axis=0).any() else 0.0


def _means(told: EvidenceRows, cells: Sequence[IntArray]) -> EvidenceRows:
    """The mean of each cell, rows of little noise counting more."""
    order, sizes = np.concatenate(cells), np.array([len(cell) for cell in cells])
    starts = np.cumsum(sizes) - sizes
    precision = 1.0 / told.noise[order]
    total = np.add.reduceat(precision, starts)
    weight = precision / np.repeat(total, sizes)
    from scipy.sparse import csr_array

    gather = csr_array((weight, order, np.append(starts, len(order))), shape=(len(cells), len(told)))
    days, spells = (None if of is None else gather @ of for of in (told.days, told.spells))
    return EvidenceRows(
        told.tasks[order[starts]],
        np.add.reduceat(weight[:, None] * told.X[order], starts, axis=0),
        np.add.reduceat(weight * told.y[order], starts),
        1.0 / total,
        np.add.reduceat(told.count[order], starts),
        days,
        spells,
    )


# --- Covariances ----------------------------------------------------------------------------------------------------


def _shock_covariance(told: EvidenceRows, rows: slice, shocks: Shocks) -> FloatArray | float:
    """What shocks add to the covariance of some rows with all, (m, n)."""
    parts = [(told.days, shocks.day), (told.spells, shocks.spell)]
    found = [size * (of[rows] @ of.T).toarray() for of, size in parts if of is not None and size > 0]
    return np.asarray(sum(found)) if found else 0.0


def _covariance(kernel: MultiTaskKernel, told: EvidenceRows, shocks: Shocks) -> FloatArray:
    """Covariance of the rewards, (n, n)."""
    n = len(told)
    C = np.empty((n, n))
    for begin in range(0, n, _ROWS_AT_ONCE):
        rows = slice(begin, min(begin + _ROWS_AT_ONCE, n))
        C[rows] = kernel.cross(told.tasks[rows], told.X[rows], told.tasks, told.X)
        C[rows] += _shock_covariance(told, rows, shocks)
    C[np.diag_indices(n)] += told.noise
    return C


class GroupPosterior:
    """Everything that a group of stations told, as one exact posterior of sums of f.

    Args:
        kernel: Of contexts.
        K_Z: How alike the stations are, (M, M).
        rows: What they told.
        mean: Constant prior mean.
        shocks: What the rows of a day have in common.

    Attributes:
        weights: Of the rows, (n,): their product with covariances is what is expected.

    Example:
        >>> from kinband.kernels import RBF
        >>> tasks, count = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
        >>> rows = EvidenceRows(tasks, np.array([[0.0], [0.5]]), np.array([0.2, 0.6]), np.full(2, 0.01), count)
        >>> evidence = GroupPosterior(RBF(1.0), np.ones((1, 1)), rows)
        >>> C = evidence.kernel.cross(rows.tasks, rows.X, np.zeros(1, dtype=np.int64), np.array([[0.5]]))
        >>> evidence.means(C).round(2)
        array([0.58])
    """

    def __init__(
        self, kernel: Kernel, K_Z: FloatArray, rows: EvidenceRows, *, mean: float = 0.0, shocks: Shocks | None = None
    ) -> None:
        from scipy.linalg import cho_solve

        self.kernel, self.rows, self.mean, self.shocks = MultiTaskKernel(kernel, K_Z), rows, mean, shocks or Shocks()
        C = _covariance(self.kernel, rows, self.shocks)
        self._L = cholesky_factor(C, "the rows of the log cannot be told apart")
        self.weights = cho_solve((self._L, True), rows.y - mean, check_finite=False) if len(rows) else rows.y

    def means(self, C: FloatArray) -> FloatArray:
        """Return what is expected of sums of f with covariances C (n, q) with the rows, prior mean left out: (q,)."""
        return np.asarray(self.weights @ C)

    def solved(self, C: FloatArray) -> FloatArray:
        """Return L⁻¹C, (n, q): its columns' squares are what the rows take from the variance of the sums."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._L, C, lower=True, check_finite=False)) if len(self.rows) else C

    def shares(self, V: FloatArray) -> FloatArray:
        """Return the share of every station's rows in sums of f with L⁻¹C = V (n, q): (q, M)."""
        from scipy.linalg import solve_triangular

        if not len(self.rows):
            return np.zeros((V.shape[1], len(self.kernel.K_Z)))
        a = solve_triangular(self._L, V, lower=True, trans="T", check_finite=False)
        return shares_of(np.asarray(a), self.rows.tasks, size=len(self.kernel.K_Z))

    def alone(self, task: int) -> "GroupPosterior":
        """Return what a station's own rows say without the others, as station 0."""
        own = self.rows.take(self.rows.tasks == task)
        K_Z = self.kernel.K_Z[task : task + 1, task : task + 1]
        own = replace(own, tasks=np.zeros(len(own), dtype=np.int64))
        return GroupPosterior(self.kernel.context, K_Z, own, mean=self.mean, shocks=self.shocks)


# --- Sums of f over the rows of a period ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Averages:
    """Weighted sums of f over the rows of a period (linear functionals), for whatever setting runs.

    Attributes:
        kernel: Of contexts.
        X: Contexts of the period's rows with any setting, (T, d).
        W: Weights of the q sums, (q, T).
        columns: Where the setting stands in a context.
        settings: Features of all settings, (N, f).

    Example:
        >>> from kinband.kernels import RBF
        >>> states, settings = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0], [2.0]])
        >>> week = Averages(RBF(1.0), states, np.full((1, 2), 0.5), (1,), settings)
        >>> week.with_rows(np.zeros((1, 2)), np.array([0, 1])).round(2).tolist()
        [[[0.8, 0.11]]]
        >>> week.between(0, 1).round(2)
        array([0.11])
    """

    kernel: Kernel
    X: FloatArray
    W: FloatArray
    columns: tuple[int, ...]
    settings: FloatArray

    @cached_property
    def _splits(self) -> tuple[Split, ...]:
        return split_kernel(self.kernel, columns=self.columns, width=self.X.shape[1])

    def with_setting(self, arm: int, X: FloatArray | None = None) -> FloatArray:
        """Return the period's contexts with a setting, (T, d)."""
        X = (self.X if X is None else X).copy()
        X[:, self.columns] = self.settings[arm]
        return X

    def with_rows(self, rows: FloatArray, arms: IntArray) -> FloatArray:
        """Return covariances, within a station, of rows (n, d) with the sums under each of some settings: (n, q, A)."""
        if not self._splits:
            parts = [self.kernel(rows, self.with_setting(int(arm))) @ self.W.T for arm in arms]
            return np.stack(parts, axis=2)
        found = np.zeros((len(rows), len(self.W), len(arms)))
        chosen = np.vstack([self.with_setting(int(arm), self.X[:1]) for arm in arms])
        for split in self._splits:
            over_states = split.over_rest(rows, self.X) @ self.W.T
            found += over_states[:, :, None] * split.over_part(rows, chosen)[:, None, :]
        return found

    def expected(self, rows: FloatArray, weights: FloatArray, arms: IntArray) -> FloatArray:
        """Return weighted sums (n,) of covariances of rows (n, d) with f in each state under some settings: (T, A)."""
        if not self._splits:
            return np.column_stack([weights @ self.kernel(rows, self.with_setting(int(arm))) for arm in arms])
        chosen = np.vstack([self.with_setting(int(arm), self.X[:1]) for arm in arms])
        parts = [
            split.over_rest(rows, self.X).T @ (weights[:, None] * split.over_part(rows, chosen))
            for split in self._splits
        ]
        return np.asarray(sum(parts))

    def between(self, a: int, b: int) -> FloatArray:
        """Return the prior covariance, within a station, of each sum under one setting and under another: (q,)."""
        if not self._splits:
            return np.asarray(
                np.einsum("qt,qt->q", self.W @ self.kernel(self.with_setting(a), self.with_setting(b)), self.W)
            )
        one, other = self.with_setting(a, self.X[:1]), self.with_setting(b, self.X[:1])
        return np.asarray(
            sum(
                inner * float(split.over_part(one, other)[0, 0])
                for inner, split in zip(self._inner, self._splits, strict=True)
            )
        )

    @cached_property
    def _inner(self) -> list[FloatArray]:
        """Of each product in the kernel, the part that is the same for all settings, (q,)."""
        found = []
        for split in self._splits:
            K = split.over_rest(self.X, self.X)
            found.append(np.einsum("qt,qt->q", self.W @ K, self.W))
        return found


def covariances(evidence: GroupPosterior, averages: Averages, task: int, arms: IntArray) -> FloatArray:
    """Return covariances of the rows told with the first sum of f under each of some settings, (n, A)."""
    alike = evidence.kernel.K_Z[task, evidence.rows.tasks]
    over = replace(averages, kernel=evidence.kernel.context, W=averages.W[:1])
    return np.asarray(over.with_rows(evidence.rows.X, arms)[:, 0] * alike[:, None])


def variances(evidence: GroupPosterior, averages: Averages, task: int, arms: IntArray, C: FloatArray) -> FloatArray:
    """Return the variance of the first sum of f under each of some settings, of covariances C (n, A): (A,)."""
    over = replace(averages, kernel=evidence.kernel.context, W=averages.W[:1])
    prior = evidence.kernel.K_Z[task, task] * np.array([over.between(int(a), int(a))[0] for a in arms])
    return np.asarray(np.maximum(prior - (evidence.solved(C) ** 2).sum(axis=0), 0.0))


def differences(evidence: GroupPosterior, averages: Averages, task: int, arms: IntArray, C: FloatArray) -> FloatArray:
    """Return the variance of what the first sum of f gains under each of some settings over the first of them, (A,)."""
    over = replace(averages, kernel=evidence.kernel.context, W=averages.W[:1])
    own = np.array([over.between(int(a), int(a))[0] for a in arms])
    shared = np.array([over.between(int(a), int(arms[0]))[0] for a in arms])
    prior = evidence.kernel.K_Z[task, task] * (own + own[0] - 2.0 * shared)
    return np.asarray(np.maximum(prior - (evidence.solved(C - C[:, :1]) ** 2).sum(axis=0), 0.0))
