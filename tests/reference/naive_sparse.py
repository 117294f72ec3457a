"""A sparse posterior written out slowly: beliefs about function values at the points, every step a dense solve.

The witness for `kinband.posterior.sparse`, and nothing here comes from the package. The belief is N(m, S) over f at
the inducing points; f elsewhere follows by the prior's conditional. `batch` is the textbook's projected process with
given points and given noises, from all rows at once (Quiñonero-Candela and Rasmussen 2005, DTC with per-row noise);
`Stepwise` learns row by row and replaces points: condition exactly on the points and the row, then give one of them
up.
"""

import math

import numpy as np
from tests.reference.naive import Data, FloatArray, IntArray, Kernel, multitask_gram


def batch(
    data: Data,
    kernel: Kernel,
    K_Z: FloatArray,
    points: tuple[IntArray, FloatArray],
    tasks: IntArray,
    X: FloatArray,
    *,
    mean: float,
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance at (m,) tasks and (m, d) contexts from all rows, seen through the points; noise as in data."""
    K = multitask_gram(kernel, K_Z, *points, *points)
    U = multitask_gram(kernel, K_Z, *points, data.tasks, data.X)
    k = multitask_gram(kernel, K_Z, *points, tasks, X)
    A = K + (U / data.noise) @ U.T
    found = mean + k.T @ np.linalg.solve(A, U @ ((data.y - mean) / data.noise))
    prior = np.array([K_Z[t, t] * kernel(x, x) for t, x in zip(tasks, X, strict=True)])
    seen = np.einsum("ij,ij->j", k, np.linalg.solve(K, k))
    return found, prior - seen + np.einsum("ij,ij->j", k, np.linalg.solve(A, k))


def spend(spent: float, information: float, share: float = 1.0, step: float = 0.5) -> float:
    """The κ of a forgotten direction: √(s² + 2·share·information) − s, at most half of what is left."""
    wanted = math.sqrt(spent**2 + 2.0 * share * information) - spent
    return max(0.0, min(wanted, step * (share - spent)))


class Stepwise:
    """Rows one by one, at most `inducing_points` of them."""

    def __init__(
        self, kernel: Kernel, K_Z: FloatArray, *, inducing_points: int, mean: float, tolerance: float = 1e-6
    ) -> None:
        self.kernel, self.K_Z, self.inducing_points, self.mean, self.tolerance = (
            kernel,
            K_Z,
            inducing_points,
            mean,
            tolerance,
        )
        self.points: list[tuple[int, FloatArray]] = []
        self.m: FloatArray = np.zeros(0)
        self.S: FloatArray = np.zeros((0, 0))
        self.spent: list[dict[int, float]] = []  # by cell and task
        self.replaced = self.absorbed = 0

    def learn(self, task: int, x: FloatArray, y: float, noise: float) -> None:
        """Condition on one row."""
        prior = float(self.K_Z[task, task] * self.kernel(x, x))
        k = self._gram([(task, x)])[:, 0]
        A = np.asarray(np.linalg.solve(self._gram(self.points), k), dtype=np.float64)
        residual = prior - float(k @ A)
        residual = residual if residual > 1e-9 * prior else 0.0  # rounding
        cell = self._cell(k)
        if residual <= self.tolerance * prior:
            return self._absorb(A, residual, y, noise, (cell, task))
        m, S = self._joined(A, residual, y, noise)
        if len(self.points) < self.inducing_points:
            return self._admit(task, x, m, S, cell, residual / prior)
        worths = [self._worth(j, [*self.points, (task, x)], m, S) for j in range(len(m))]
        out = int(np.argmin(worths))
        if out == len(self.points):
            return self._absorb(A, residual, y, noise, (cell, task))
        self._admit(task, x, m, S, cell, residual / prior)
        return self._forget(out)

    def predict(self, tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of f."""
        asked = list(zip(tasks.tolist(), X, strict=True))
        k = self._gram(asked)
        A = np.linalg.solve(self._gram(self.points), k)
        prior = np.array([self.K_Z[t, t] * self.kernel(x, x) for t, x in asked])
        variance = prior - np.einsum("ij,ij->j", k, A) + np.einsum("ij,ij->j", A, self.S @ A)
        return self.mean + A.T @ self.m, variance

    def _gram(
        self, others: list[tuple[int, FloatArray]], points: list[tuple[int, FloatArray]] | None = None
    ) -> FloatArray:
        own = self.points if points is None else points
        if not own or not others:
            return np.zeros((len(own), len(others)))
        a, b = (np.array([t for t, _ in rows]) for rows in (own, others))
        return multitask_gram(
            self.kernel, self.K_Z, a, np.array([x for _, x in own]), b, np.array([x for _, x in others])
        )

    def _cell(self, k: FloatArray, leave_out: int | None = None) -> int:
        """The most correlated point."""
        best, cell = -1.0, 0
        for j, (t, z) in enumerate(self.points):
            similarity = abs(k[j]) / math.sqrt(self.K_Z[t, t] * self.kernel(z, z))
            if j != leave_out and similarity > best:
                best, cell = similarity, j
        return cell

    def _joined(self, A: FloatArray, residual: float, y: float, noise: float) -> tuple[FloatArray, FloatArray]:
        """Belief about the points and the row's own value, given its reward."""
        m = np.append(self.m, A @ self.m)
        S = np.zeros((len(m), len(m)))
        S[:-1, :-1] = self.S
        S[-1, :-1] = S[:-1, -1] = self.S @ A
        S[-1, -1] = residual + A @ self.S @ A
        c = S[:, -1]
        total = noise + c[-1]
        return m + c * ((y - self.mean - m[-1]) / total), S - np.outer(c, c) / total

    def _spend(self, cell: int, task: int, information: float) -> float:
        """The κ of a direction, where tasks count by the square of their correlation."""
        K_Z, here = self.K_Z, self.spent[cell]
        known = sum(K_Z[t, task] ** 2 / (K_Z[t, t] * K_Z[task, task]) * kappa for t, kappa in here.items())
        kappa = spend(known, information)
        here[task] = here.get(task, 0.0) + kappa
        return kappa

    def _absorb(self, A: FloatArray, residual: float, y: float, noise: float, place: tuple[int, int]) -> None:
        self.absorbed += 1
        if residual > 0:
            kappa = self._spend(*place, residual / noise)
            if kappa == 0:
                return
            noise += residual / kappa
        c = self.S @ A
        total = noise + A @ c
        self.m = self.m + c * ((y - self.mean - A @ self.m) / total)
        self.S = self.S - np.outer(c, c) / total

    def _admit(self, task: int, x: FloatArray, m: FloatArray, S: FloatArray, cell: int, novelty: float) -> None:
        parent = self.spent[cell] if self.spent else {}
        self.points.append((task, x))
        self.spent.append({t: (1.0 - novelty) * kappa for t, kappa in parent.items()})
        self.m, self.S = m, S

    def _own(self, j: int, points: list[tuple[int, FloatArray]]) -> tuple[FloatArray, float]:
        """What only point j sees of f: weights (m,) on all values, and its prior variance."""
        rest = points[:j] + points[j + 1 :]
        K = self._gram(rest, rest)
        k = self._gram([points[j]], rest)[:, 0]
        A = np.linalg.solve(K, k)
        t, z = points[j]
        return np.insert(-A, j, 1.0), float(self.K_Z[t, t] * self.kernel(z, z) - k @ A)

    def _worth(self, j: int, points: list[tuple[int, FloatArray]], m: FloatArray, S: FloatArray) -> float:
        c, prior = self._own(j, points)
        return float(prior - c @ S @ c + (c @ m) ** 2)

    def _forget(self, j: int) -> None:
        self.replaced += 1
        c, prior = self._own(j, self.points)
        into = self._cell(self._gram([self.points[j]])[:, 0], leave_out=j)
        information = max(prior / float(c @ self.S @ c) - 1.0, 0.0)
        for t, spent in self.spent[j].items():
            self.spent[into][t] = max(self.spent[into].get(t, 0.0), spent)
        kappa = self._spend(into, self.points[j][0], information)
        precision = np.linalg.inv(self.S)
        S = np.asarray(np.linalg.inv(precision - (1.0 - kappa) / prior * np.outer(c, c)), dtype=np.float64)
        m = S @ (precision @ self.m)
        keep = [i for i in range(len(m)) if i != j]
        self.m, self.S = m[keep], S[np.ix_(keep, keep)]
        del self.points[j], self.spent[j]
