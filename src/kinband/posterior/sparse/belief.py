"""What is believed about f at a few inducing points, in coordinates in which the prior is white.

Let z₁ … z_m be the points, K their kernel matrix and Q any matrix with Q K Qᵀ = I. The coordinates of a context x are
v = Q k(x), with vᵀv ≤ k(x, x); what is missing, r = k(x, x) − vᵀv, is the variance that the points leave open. The
belief is N(μ, C) over coordinates, I being the prior, so that f has mean vᵀμ and variance r + vᵀCv at x: the residual
is always added in full. Four steps change it, each in O(m²) and matrix-vector products:

- *absorb* a row: condition on y = vᵀf + error, the error being of the noise and of what the points do not see;
- *admit* a row: its context becomes a point and is conditioned on exactly;
- *weaken* a direction e: replace its prior precision 1 by κ < 1, as if less had been known of it beforehand;
- *drop* a point: marginalise its own direction, which returns to its prior (a reflection brings it to the end).

Exact Bayesian conditioning on the points and one row, then marginalising a point, is the online Gaussian process of
Csató and Opper (2002), there in the coordinates of the points themselves; white coordinates keep more digits. For
every point `precision` holds (K⁻¹)ⱼⱼ, `learned` (K⁻¹ − K⁻¹ Σ K⁻¹)ⱼⱼ with Σ the covariance of f at the points, and
`weight` (K⁻¹ f̂)ⱼ.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import MultiTaskKernel
from kinband.posterior.sparse.whitening import lost_definiteness, whitening

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
    """A Gaussian belief about f through at most `budget` points, and one more while points change places.

    Example:
        >>> from kinband.kernels import RBF
        >>> belief = InducedBelief(MultiTaskKernel(RBF(0.5), np.eye(1)), budget=2, width=1)
        >>> sight = belief.look(0, np.array([0.0]), 1.1)
        >>> belief.admit(sight, 0.1)
        >>> mean, variance, _ = belief.predict(np.array([0]), np.array([[0.0]]))
        >>> round(float(mean[0]), 6), round(float(variance[0]), 6)
        (1.0, 0.090909)
    """

    def __init__(self, kernel: MultiTaskKernel, *, budget: int, width: int) -> None:
        self.kernel, self.budget, self.size = kernel, budget, 0
        self._width = width
        self._allocate(self._capacity(0))

    def _capacity(self, size: int) -> int:
        """Return how many points the arrays hold; of the size alone, so that restored arrays have the same layout."""
        full = -(-(self.budget + 1) // _LANES) * _LANES
        if size >= self.budget:
            return full
        return min(full, max(_FIRST, 1 << (size - 1).bit_length()))

    def _allocate(self, capacity: int) -> None:
        self._tasks, self._X = np.zeros(capacity, dtype=np.int64), np.zeros((capacity, self._width))
        self._Q, self._C = np.zeros((capacity, capacity)), np.zeros((capacity, capacity))
        self._mu = np.zeros(capacity)
        self._vectors = np.zeros((4, capacity))  # of the points: prior, precision, learned, weight

    @property
    def tasks(self) -> IntArray:
        """Tasks of the points, (m,)."""
        return self._tasks[: self.size]

    @property
    def X(self) -> FloatArray:
        """Contexts of the points, (m, d)."""
        return self._X[: self.size]

    @property
    def prior(self) -> FloatArray:
        """k(z, z) of the points, (m,)."""
        return self._vectors[0, : self.size]

    @property
    def mu(self) -> FloatArray:
        """Mean of the coordinates, (m,)."""
        return self._mu[: self.size]

    @property
    def precision(self) -> FloatArray:
        """Diagonal of K⁻¹, (m,); its inverse is the prior variance of a point given all others."""
        return self._vectors[1, : self.size]

    @property
    def learned(self) -> FloatArray:
        """Diagonal of K⁻¹ − K⁻¹ΣK⁻¹, (m,)."""
        return self._vectors[2, : self.size]

    @property
    def weight(self) -> FloatArray:
        """K⁻¹ f̂ at the points, (m,)."""
        return self._vectors[3, : self.size]

    @property
    def Q(self) -> FloatArray:
        """What whitens the points, (m, m)."""
        return self._Q[: self.size, : self.size]

    @property
    def C(self) -> FloatArray:
        """Covariance of the coordinates, (m, m)."""
        return self._C[: self.size, : self.size]

    def predict(self, tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean, variance and coordinates of f for tasks (n,) at contexts X (n, d): (n,), (n,), (m, n)."""
        prior = self.kernel.diag(tasks, X)
        if not self.size:
            return np.zeros(len(X)), prior, np.empty((0, len(X)))
        V = self.Q @ self.kernel.cross(self.tasks, self.X, tasks, X)
        seen = np.einsum("ij,ij->j", V, V)
        spread = np.einsum("ij,ij->j", V, self.C @ V)
        return self.mu @ V, np.maximum(prior - seen, 0.0) + np.maximum(spread, 0.0), V

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
        self.size = m + 1
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
        m = self.size = len(mu)
        if self._capacity(m) != len(self._tasks):
            self._allocate(self._capacity(m))
        self._tasks[:m], self._X[:m] = tasks, X
        self.Q[:], self.C[:], self.mu[:] = Q, C, mu
        self.prior[:] = self.kernel.diag(tasks, X)
        self.precision[:] = np.einsum("ij,ij->j", Q, Q)
        self.learned[:] = self.precision - np.einsum("ij,ij->j", Q, C @ Q)
        self.weight[:] = mu @ Q

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return points and belief as plain arrays."""
        arrays = {"whitening": self.Q, "covariance": self.C, "mu": self.mu, "vectors": self._vectors[:, : self.size]}
        return {"tasks": self.tasks.copy(), "X": self.X.copy(), **{name: a.copy() for name, a in arrays.items()}}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        self.size = len(state["tasks"])
        self._allocate(self._capacity(self.size))
        self._fill(state)

    def _fill(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        m = self.size
        self._tasks[:m], self._X[:m], self._vectors[:, :m] = state["tasks"], state["X"], state["vectors"]
        self.Q[:], self.C[:], self.mu[:] = state["whitening"], state["covariance"], state["mu"]

    def _make_room(self, size: int) -> None:
        capacity = self._capacity(size)
        if capacity > len(self._tasks):
            before = self.state()
            self._allocate(capacity)
            self._fill(before)

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
        self.size = last
