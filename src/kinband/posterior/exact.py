"""The exact posterior: kernel ridge regression over tasks, (9) and (11), on a growing Cholesky factor.

With L Lᵀ = K̃ + diag(noise), v = L⁻¹k̃(x̃) and w = L⁻¹(y − mean), the prediction is f̂ = mean + v·w and
σ² = k̃(x̃, x̃) − ‖v‖². Scoring all arms of a decision is one sweep, and the solved column of the arm that is played *is*
the next row of the factor: an update takes it up, extended by the rows that came between. Cost: O(n²) per column, no n²
copy. Told which configurations there are, the posterior solves as many columns as their kernel has rank, not one per
arm (`shared_state`).

Departures from the paper: noise may differ per observation (λI becomes a diagonal), the prior mean is a constant rather
than 0, and the inverse (13) is never formed (see `schur` for the paper's own way).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import Kernel
from kinband.posterior.base import (
    Column,
    LearnedRows,
    Posterior,
    Prediction,
    Rows,
    SolvedJoint,
    State,
    SummedContexts,
)
from kinband.posterior.shared_state import SharedRows, Shares

LARGEST_LOG = 20_000
"""Rows that an exact posterior can start from at most: the factor takes 4n² bytes, here 1.6 GB."""

# --- A Cholesky factor that grows: L Lᵀ = K̃ + diag(noise), one row or one block at a time ----------------------------
#
# It is kept in panels of `PANEL` rows. A panel is one contiguous array that ends at its diagonal block, so growing
# never copies what is there and takes half the memory of a square. Next to each panel lies the inverse of its diagonal
# block, so that a forward substitution is matrix products alone: panel times what is solved, then a small inverse. The
# inverse of a lower right part of a triangle is that part of its inverse, so a substitution can begin at any row. All
# of it stays on NumPy's BLAS; mixing in SciPy's would make two thread pools fight.

PANEL = 128
_FIRST_ROWS = 8  # small posteriors (a station that learns alone) should stay small
_FEW = 32  # columns


class GrowingFactor:
    """The lower Cholesky factor of a matrix that gains rows."""

    def __init__(self) -> None:
        self._rows = 0
        self.identity = object()  # renewed whenever rows are lost
        self._panels: list[FloatArray] = []
        self._inverses: list[FloatArray] = []

    def __len__(self) -> int:
        return self._rows

    def solve(self, R: FloatArray, known: FloatArray | None = None) -> FloatArray:
        """Return V = L⁻¹R, (n, m).

        Args:
            R: Right-hand sides of all rows, (n, m), or of those that are not known, (n − s, m).
            known: The first rows of V, (s, m), where they are known already.
        """
        first = 0 if known is None else len(known)
        V = np.empty((self._rows, R.shape[1]))
        if known is not None:
            V[:first] = known
        for p in range(first // PANEL, len(self._panels)):
            top, bottom = max(first, p * PANEL), min((p + 1) * PANEL, self._rows)
            part, rest = slice(top - p * PANEL, bottom - p * PANEL), R[top - first : bottom - first]
            if top:
                product = _product(self._panels[p][part, :top], V[:top])
                rest = np.subtract(rest, product, out=product)
            np.matmul(self._inverses[p][part, part], rest, out=V[top:bottom])
        return V

    def append(self, v: FloatArray, diagonal: float) -> float:
        """Add a row whose solved column is v (n,) and whose diagonal entry of the matrix is `diagonal`.

        Returns the new pivot, the last diagonal entry of the factor.
        """
        pivot = _pivot(diagonal - float(v @ v), diagonal)
        self._append_row(v, pivot)
        return pivot

    def extend(self, cross: FloatArray, block: FloatArray) -> None:
        """Add b rows at once, all or nothing: `cross` (n, b) against those there are, `block` (b, b) among them."""
        before = self._rows
        done = 0
        try:
            while done < len(block):
                step = min(PANEL - self._rows % PANEL, len(block) - done)
                new = slice(done, done + step)
                V = self.solve(np.concatenate([cross[:, new], block[:done, new]]))
                self._append_block(V, block[new, new])
                done += step
        except NotPositiveDefiniteError:
            self.truncate(before)
            raise

    def truncate(self, rows: int) -> None:
        """Forget every row from `rows` on."""
        self._rows, self.identity = rows, object()
        panels = -(-rows // PANEL)
        del self._panels[panels:], self._inverses[panels:]

    def state(self) -> State:
        """Return the factor as flat arrays, for storage."""
        empty = np.empty(0)
        return {
            "rows": np.array([self._rows], dtype=np.int64),
            "panels": np.concatenate([empty, *(self._panels[p][:rows].ravel() for p, rows in self._used())]),
            "inverses": np.concatenate([empty, *(self._inverses[p][:rows].ravel() for p, rows in self._used())]),
        }

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self.truncate(0)
        self._rows = int(state["rows"][0])
        panels, inverses = np.asarray(state["panels"], np.float64), np.asarray(state["inverses"], np.float64)
        at = at_inverse = 0
        for p in range(-(-self._rows // PANEL)):
            used, width = min(PANEL, self._rows - p * PANEL), (p + 1) * PANEL
            self._panels.append(panels[at : at + used * width].reshape(used, width).copy())
            self._inverses.append(inverses[at_inverse : at_inverse + used * PANEL].reshape(used, PANEL).copy())
            at, at_inverse = at + used * width, at_inverse + used * PANEL

    def _used(self) -> list[tuple[int, int]]:
        """Return each panel's number with how many of its rows are filled."""
        return [(p, min(PANEL, self._rows - p * PANEL)) for p in range(len(self._panels))]

    def _append_row(self, v: FloatArray, pivot: float) -> None:
        p, row = divmod(self._rows, PANEL)
        self._make_room(p, row + 1)
        panel, inverse = self._panels[p], self._inverses[p]
        start = p * PANEL
        panel[row, : start + row] = v
        panel[row, start + row] = pivot
        inverse[row, :row] = (v[start:] @ inverse[:row, :row]) / -pivot
        inverse[row, row] = 1.0 / pivot
        self._rows += 1

    def _append_block(self, V: FloatArray, block: FloatArray) -> None:
        """Add rows that all fall into the last panel; V (n, b) is their solved part."""
        S = block - V.T @ V
        _pivot(float(np.diagonal(S).min()), float(np.diagonal(block).max()))
        try:
            D = np.linalg.cholesky(S)
        except np.linalg.LinAlgError as error:
            raise _lost_definiteness() from error
        p, row = divmod(self._rows, PANEL)
        stop, start = row + len(D), p * PANEL
        self._make_room(p, stop)
        panel, inverse = self._panels[p], self._inverses[p]
        panel[row:stop, : start + row] = V.T
        panel[row:stop, start + row : start + stop] = D
        D_inverse = np.tril(np.linalg.inv(D))
        inverse[row:stop, :row] = -D_inverse @ (V[start:].T @ inverse[:row, :row])
        inverse[row:stop, row:stop] = D_inverse
        self._rows += len(D)

    def _make_room(self, p: int, rows: int) -> None:
        if p == len(self._panels):
            self._panels.append(np.zeros((0, (p + 1) * PANEL)))
            self._inverses.append(np.zeros((0, PANEL)))
        if len(self._panels[p]) < rows:
            capacity = min(PANEL, max(_FIRST_ROWS, 2 * len(self._panels[p]), rows))
            self._panels[p] = _taller(self._panels[p], capacity)
            self._inverses[p] = _taller(self._inverses[p], capacity)


def _product(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return A (p, n) times B (n, m); BLAS is faster by a quarter if the few columns of B come first."""
    return (B.T @ A.T).T if 2 < B.shape[1] <= _FEW else np.asarray(A @ B)


def _taller(array: FloatArray, rows: int) -> FloatArray:
    grown = np.zeros((rows, array.shape[1]))
    grown[: len(array)] = array
    return grown


def _pivot(square: float, scale: float) -> float:
    """Return the root of a squared pivot, which rounding must not have swallowed."""
    if not square > 1e-14 * scale:
        raise _lost_definiteness()
    return float(np.sqrt(square))


def _lost_definiteness() -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        "the kernel matrix is no longer positive definite: the noise is too small for contexts this close",
        hint="increase `noise` (1e-6 of the kernel's variance is usually enough)",
        argument="noise",
    )


# --- The posterior --------------------------------------------------------------------------------------------------


class ExactPosterior(Posterior):
    """What is believed about f after every reward told so far, exactly.

    Args:
        kernel: Context kernel k_X, ours or scikit-learn's.
        K_Z: Task matrix, (M, M).
        noise: Variance of a reward where the update does not say, λ of the paper.
        mean: Constant prior mean; 0 follows the paper to the letter.
        configurations: Features of the arms, (N, f), where contexts are a state followed by one of these.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0, 0.9], [0.9, 1.0]], noise=0.1, mean=0.5)
        >>> posterior.update([0, 0], [[0.0], [1.0]], [0.9, 0.2])
        >>> posterior.predict([1, 1], [[0.0], [1.0]]).mean.round(2)
        array([0.82, 0.26])
    """

    def __init__(
        self,
        kernel: Kernel,
        K_Z: ArrayLike,
        *,
        noise: float,
        mean: float = 0.0,
        configurations: FloatArray | None = None,
    ) -> None:
        super().__init__(kernel, K_Z, noise=noise, mean=mean)
        self.rows = LearnedRows()
        self._factor = GrowingFactor()
        self._w = np.empty(0)
        self._shared = SharedRows(self.kernel.context, configurations)

    def __len__(self) -> int:
        return len(self.rows)

    def _predict(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column | None]) -> Prediction:
        prior = self.kernel.diag(tasks, X)
        # Below a panel of rows there is nothing to gain from what arms share.
        shares = self._shared.shares(tasks, X) if len(self) >= PANEL and not columns else None
        if shares is not None:
            return self._predict_shared(shares, tasks, X, prior)
        V = self._solved(tasks, X, columns)
        variance = prior - np.einsum("ij,ij->j", V, V)
        joint = SolvedJoint(self.kernel, tasks, X, V, V, self._factor.identity)
        return Prediction(self.mean + self._w @ V, np.sqrt(np.maximum(variance, 0.0)), joint)

    def sums(self, tasks: IntArray, X: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and std of weighted sums of f; see `Posterior.sums`."""
        summed = SummedContexts.of(self.kernel, (self.rows.tasks, self.rows.X), (tasks, X, W))
        V = self._factor.solve(summed.R)
        variance = summed.prior - np.einsum("ij,ij->j", V, V)
        return self.mean * W.sum(axis=1) + self._w @ V, np.sqrt(np.maximum(variance, 0.0))

    def _learn(self, rows: Rows, column: Column | None) -> None:
        if len(rows.y) == 1:
            self._append(rows, column)
        else:
            self._extend(rows)

    def correct(self, index: int, y: float) -> None:
        """Replace the reward of row `index`; the factor does not depend on rewards and stays."""
        self._check_row(index)
        self.rows.y[index] = finite_number(y, name="reward")
        self._w = self._solved_rewards()

    def state(self) -> State:
        """Return rows, factor and solved rewards as plain arrays."""
        return {**self.rows.state(), **self._factor.state(), "w": self._w.copy()}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned."""
        self.rows.restore(state)
        self._factor.restore(state)
        self._shared.restore(self.rows.X)
        self._w = np.array(state["w"], dtype=np.float64)
        self._features = self.rows.X.shape[1] if len(self) else None

    def _predict_shared(self, shares: Shares, tasks: IntArray, X: FloatArray, prior: FloatArray) -> Prediction:
        """Return the prediction from the solved columns of the pivots of every state."""
        r = shares.weights.shape[1]
        R = np.empty((len(self), r * len(shares.firsts)))
        for s, first in enumerate(shares.firsts):
            similarity = self.kernel.K_Z[tasks[first]].take(self.rows.tasks)
            self._shared.cross(self.rows.X, X[first], similarity, out=R[:, s * r : (s + 1) * r])
        V = self._factor.solve(R)
        means = (self._w @ V).reshape(-1, r)[shares.states]
        mean = self.mean + np.einsum("ar,ar->a", means, shares.weights)
        joint = SolvedJoint(self.kernel, tasks, X, V, V, self._factor.identity, shares.states, shares.weights)
        variance = prior - shares.norms(V)
        return Prediction(mean, np.sqrt(np.maximum(variance, 0.0)), joint)

    def _solved(self, tasks: IntArray, X: FloatArray, columns: Sequence[Column | None] = ()) -> FloatArray:
        """Return L⁻¹k̃ of contexts X (m, d), (n, m), from where columns that are still good leave off."""
        known = [c.solved for c in columns if c is not None and c.factor is self._factor.identity]
        first = min(map(len, known)) if len(known) == len(X) > 0 else 0
        if first == len(self) > 0:
            return np.stack(known, axis=1)
        rest = slice(first, None)
        R = self.kernel.cross(self.rows.tasks[rest], self.rows.X[rest], tasks, X) if len(self) else _none(len(X))
        return self._factor.solve(R, np.stack([c[:first] for c in known], axis=1) if first else None)

    def _append(self, rows: Rows, column: Column | None) -> None:
        v = self._solved(rows.tasks, rows.X, [column])[:, 0]
        diagonal = float(self.kernel.diag(rows.tasks, rows.X)[0] + rows.noise[0])
        pivot = self._factor.append(v, diagonal)
        self._take_in(rows)
        # The rewards' own column grows with the factor: w_n = (y_n − mean − v·w) / pivot.
        self._w = np.append(self._w, (rows.y[0] - self.mean - v @ self._w) / pivot)

    def _extend(self, rows: Rows) -> None:
        block = self.kernel.cross(rows.tasks, rows.X, rows.tasks, rows.X)
        block[np.diag_indices_from(block)] += rows.noise
        known = self.kernel.cross(self.rows.tasks, self.rows.X, rows.tasks, rows.X) if len(self) else _none(len(block))
        self._factor.extend(known, block)
        self._take_in(rows)
        self._w = self._solved_rewards()

    def _take_in(self, rows: Rows) -> None:
        self.rows.append(rows)
        self._shared.append(rows.X)

    def _solved_rewards(self) -> FloatArray:
        return self._factor.solve((self.rows.y - self.mean)[:, None])[:, 0]


def _none(columns: int) -> FloatArray:
    """What no row has to say of so many contexts."""
    return np.empty((0, columns))
