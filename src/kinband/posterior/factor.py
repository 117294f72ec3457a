"""A Cholesky factor that grows: L Lᵀ = K̃ + diag(noise), one row or one block at a time.

The factor is kept in panels of `PANEL` rows. A panel is one contiguous array that ends at its diagonal block, so
growing never copies what is there and takes half the memory of a square. Next to each panel lies the inverse of
its diagonal block, so that a forward substitution is matrix products alone: panel times what is solved, then a
small inverse. All of it stays on NumPy's BLAS; mixing in SciPy's would make two thread pools fight.

**The same bits every time.** BLAS may round a column differently in a product of another shape, so a row of the
factor is always made in the same way, whether its column was solved among all arms while asking, alone while
telling, or in a replay: over complete panels in a product of a fixed number of *lanes*, the column in its own
lane; over the last, incomplete panel as a matrix-vector product when the row is appended. A `Column` remembers
its lane, which belongs into the log, and how far it has been solved, which does not. Where arms share a state
(`shared_state`), the lanes are the pivots and the column is their combination, panel by panel: then the arm is what
must be remembered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import NotPositiveDefiniteError

PANEL = 128
LANES = (8, 16, 32)
_FIRST_ROWS = 8  # small posteriors (a station that learns alone) should stay small


def _nothing() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Column:
    """A column L⁻¹k on its way to becoming a row of the factor.

    Attributes:
        lane: Its place among the lanes of a product.
        lanes: How many lanes that product has.
        solved: Its first entries, as many as were in complete panels when it was last looked at.
        era: The state of the factor that `solved` belongs to; in any other it is solved anew.
        arm: The arm whose column it is, where it was combined from those of the pivots; then lanes say nothing.
        upto: As far as it was solved when its reward was told; None before.

    Example:
        >>> Column.recall({"lane": 3, "lanes": 8}).lane
        3
    """

    lane: int = 0
    lanes: int = LANES[0]
    solved: FloatArray = field(default_factory=_nothing, repr=False)
    era: object = field(default=None, repr=False)
    arm: int | None = None
    upto: int | None = None

    @property
    def memo(self) -> dict[str, Any]:
        """What must be remembered for a bit-exact replay."""
        return {"lane": self.lane, "lanes": self.lanes} if self.arm is None else {"arm": self.arm}

    @classmethod
    def recall(cls, memo: Mapping[str, Any]) -> "Column":
        """Return the unsolved column of a memo; an empty memo gives the first lane."""
        arm = memo.get("arm")
        return cls(int(memo.get("lane", 0)), int(memo.get("lanes", LANES[0])), arm=None if arm is None else int(arm))


def lanes_for(columns: int) -> int:
    """Return the number of lanes for so many columns; beyond the widest, the widest.

    Example:
        >>> lanes_for(5), lanes_for(29), lanes_for(500)
        (8, 32, 32)
    """
    return next((lanes for lanes in LANES if columns <= lanes), LANES[-1])


class GrowingFactor:
    """The lower Cholesky factor of a matrix that gains rows.

    Example:
        >>> factor = GrowingFactor()
        >>> factor.append(np.empty(0), 4.0), factor.append(np.array([1.0]), 5.0)
        (2.0, 2.0)
        >>> factor.dense()
        array([[2., 0.],
               [1., 2.]])
    """

    def __init__(self) -> None:
        self._rows = 0
        self.era = object()  # renewed whenever rows are lost
        self._panels: list[FloatArray] = []
        self._inverses: list[FloatArray] = []

    def __len__(self) -> int:
        return self._rows

    @property
    def complete(self) -> int:
        """How many rows lie in complete panels."""
        return self._rows - self._rows % PANEL

    @property
    def log_determinant(self) -> float:
        """Log-determinant of the factorised matrix."""
        return 2.0 * float(sum(np.log(np.diagonal(block)).sum() for block in self._diagonal_blocks()))

    def sweep(self, R: FloatArray) -> FloatArray:
        """Return V = L⁻¹R for right-hand sides R (n, m), as (n, m); fewer rows give the first rows of V."""
        V = np.empty_like(R)
        for p in range(-(-len(R) // PANEL)):
            self._sweep_panel(p, R, V)
        return V

    def solved(self, column: Column) -> int:
        """Return how many entries of a column are solved."""
        return len(column.solved) if column.era is self.era else 0

    def solve(self, k: FloatArray, column: Column) -> FloatArray:
        """Return L⁻¹k (n,); its bits depend on k, the lane of the column and the factor alone.

        Entries of k whose own are solved already are not looked at.
        """
        solved = self._solve_complete_panels(k, column)
        start, tail = self.complete, self._rows % PANEL
        if not tail:
            return solved
        panel, inverse = self._panels[-1], self._inverses[-1]
        rest = k[start:] - panel[:tail, :start] @ solved
        return np.concatenate([solved, inverse[:tail, :tail] @ rest])

    def finish(self, K: FloatArray, columns: Sequence[Column]) -> FloatArray:
        """Return L⁻¹K (n, m); its bits depend on K, the lanes of its columns and the factor alone."""
        V = np.empty_like(K)
        for i, column in enumerate(columns):
            V[: self.complete, i] = self._solve_complete_panels(K[:, i], column)
        if self._rows % PANEL:
            self._sweep_panel(len(self._panels) - 1, K, V)
        return V

    def append(self, v: FloatArray, diagonal: float) -> float:
        """Add a row whose solved column is v (n,) and whose diagonal entry of the matrix is `diagonal`.

        Returns the new pivot, the last diagonal entry of the factor.
        """
        pivot = _pivot(diagonal - float(v @ v), diagonal)
        self._append_row(v, pivot)
        return pivot

    def extend(self, cross: FloatArray, block: FloatArray) -> None:
        """Add b rows at once: `cross` (n, b) against the rows there are, `block` (b, b) among themselves.

        All or nothing. The bits depend on where the block starts and on its size.
        """
        before = self._rows
        done = 0
        try:
            while done < len(block):
                step = min(PANEL - self._rows % PANEL, len(block) - done)
                new = slice(done, done + step)
                V = self.sweep(np.concatenate([cross[:, new], block[:done, new]]))
                self._append_block(V, block[new, new])
                done += step
        except NotPositiveDefiniteError:
            self.truncate(before)
            raise

    def truncate(self, rows: int) -> None:
        """Forget every row from `rows` on."""
        self._rows, self.era = rows, object()
        panels = -(-rows // PANEL)
        del self._panels[panels:], self._inverses[panels:]

    def remove(self, index: int) -> None:
        """Take out one row and column of the factorised matrix; later rows move up."""
        L = self.dense()
        x = L[index + 1 :, index].copy()
        L = np.delete(np.delete(L, index, axis=0), index, axis=1)
        _rank_one_update(L[index:, index:], x)
        self.truncate(index)
        for i in range(index, len(L)):
            self._append_row(L[i, :i], float(L[i, i]))

    def dense(self) -> FloatArray:
        """Return the factor as one square array, (n, n)."""
        L = np.zeros((self._rows, self._rows))
        for p, panel in enumerate(self._panels):
            rows = min(PANEL, self._rows - p * PANEL)
            width = p * PANEL + rows
            L[p * PANEL : width, :width] = panel[:rows, :width]
        return L

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return the factor as flat arrays, for storage."""
        used = [min(PANEL, self._rows - p * PANEL) for p in range(len(self._panels))]
        empty = np.empty(0)
        return {
            "rows": np.array([self._rows], dtype=np.int64),
            "panels": np.concatenate([empty, *(a[:r].ravel() for a, r in zip(self._panels, used, strict=True))]),
            "inverses": np.concatenate([empty, *(a[:r].ravel() for a, r in zip(self._inverses, used, strict=True))]),
        }

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        self.truncate(0)
        rows = int(state["rows"][0])
        panels, inverses = np.asarray(state["panels"], np.float64), np.asarray(state["inverses"], np.float64)
        at = at_inverse = 0
        for p in range(-(-rows // PANEL)):
            used, width = min(PANEL, rows - p * PANEL), (p + 1) * PANEL
            self._panels.append(panels[at : at + used * width].reshape(used, width).copy())
            self._inverses.append(inverses[at_inverse : at_inverse + used * PANEL].reshape(used, PANEL).copy())
            at, at_inverse = at + used * width, at_inverse + used * PANEL
        self._rows = rows

    def _diagonal_blocks(self, first: int = 0) -> list[FloatArray]:
        found = []
        for p in range(first, len(self._panels)):
            start, rows = p * PANEL, min(PANEL, self._rows - p * PANEL)
            found.append(self._panels[p][:rows, start : start + rows])
        return found

    def _sweep_panel(self, p: int, R: FloatArray, V: FloatArray) -> None:
        start, stop = p * PANEL, min((p + 1) * PANEL, len(R))
        rows = stop - start
        rest = R[start:stop]
        if start:
            product = _product(self._panels[p][:rows, :start], V[:start])
            rest = np.subtract(rest, product, out=product)
        np.matmul(self._inverses[p][:rows, :rows], rest, out=V[start:stop])

    def _solve_complete_panels(self, k: FloatArray, column: Column) -> FloatArray:
        start, stop = self.solved(column), self.complete
        solved = column.solved[:start]
        if start == stop:
            return solved
        R, V = np.zeros((stop, column.lanes)), np.zeros((stop, column.lanes))
        R[:, column.lane] = k[:stop]
        V[:start, column.lane] = solved
        for p in range(start // PANEL, stop // PANEL):
            self._sweep_panel(p, R, V)
        return V[:, column.lane].copy()  # contiguous, as a cached column is: products round by layout too

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
    return (B.T @ A.T).T if 2 < B.shape[1] <= LANES[-1] else np.asarray(A @ B)


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
        "the kernel matrix is no longer positive definite: the noise is too small for contexts this close; "
        "increase `noise` (1e-6 of the kernel's variance is usually enough)"
    )


def _rank_one_update(L: FloatArray, x: FloatArray) -> None:
    """Turn the factor of A into that of A + x xᵀ, in place; L (n, n) lower, x (n,) is used up."""
    for j in range(len(x)):
        r = float(np.hypot(L[j, j], x[j]))
        c, s = r / L[j, j], x[j] / L[j, j]
        L[j, j] = r
        L[j + 1 :, j] = (L[j + 1 :, j] + s * x[j + 1 :]) / c
        x[j + 1 :] = c * x[j + 1 :] - s * L[j + 1 :, j]
