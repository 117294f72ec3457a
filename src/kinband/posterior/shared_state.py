"""All arms of one decision share a state, so their columns span far fewer dimensions than there are arms.

Where k_X = k_state · k_c, the column of arm a is K_Z[m_i, m] k_state(s_i, s) · k_c(c_i, a): one vector times a row of
the configuration kernel. That kernel on N configurations has a small numerical rank r (an RBF over 29 thresholds with a
length-scale of 10 dB: 12). A pivoted Cholesky factor finds r *pivot* configurations P and weights W (r, N) with
k_c(·, a) = Σ_p W_pa k_c(·, p) to rounding, so that L⁻¹ applied to the columns of the pivots gives those of all arms:
V = V_P W, means (w·V_P) W, squared norms diag(Wᵀ V_PᵀV_P W). Where k_X is a sum of such products, each has pivots of
its own, and a term that does not look at the configuration, as a constant, has one column for all arms. Rows whose
configuration is outside the space are not spanned; a posterior that holds one works without the structure.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.kernels import Kernel
from kinband.kernels.serial import Split, split_kernel

RESIDUAL = 1e-14
"""Share of the configuration kernel's variance that the pivots may leave unexplained.

It leaves predictions as they are to less than 1e-9, short length-scales and little noise included.
"""

_COLUMNS = 4  # BLAS multiplies by 12 columns faster than by 11, though not faster than by 9


@dataclass(frozen=True, eq=False)
class Term:
    """One product of the kernel, and the columns that span those of all arms.

    Attributes:
        split: State part times configuration part.
        pivots: The arms whose columns span those of all, (p,).
        weights: W, (p, N).
    """

    split: Split
    pivots: IntArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class SharedState:
    """What the arms of one decision have in common.

    Attributes:
        terms: The products that the context kernel is a sum of.
        configurations: Configuration features of the N arms, (N, f), the last columns of a context.
        weights: W of all terms, (r, N), with a row of zeros at the end where that makes them a multiple of four.
    """

    terms: tuple[Term, ...]
    configurations: FloatArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.weights)

    def arms(self, X: FloatArray) -> list[int] | None:
        """Return which configuration of the space each context X (n, d) has, (n,); None if any has another."""
        size = 8 * self.configurations.shape[1]
        packed = (X[:, X.shape[1] - self.configurations.shape[1] :] + 0.0).tobytes()
        found = [self._numbers.get(packed[i : i + size]) for i in range(0, len(packed), size)]
        known = [arm for arm in found if arm is not None]
        return known if len(known) == len(found) else None

    def shares(self, tasks: IntArray, X: FloatArray) -> "Shares | None":
        """Return how contexts X (m, d) of tasks (m,) are made of states and configurations; None if little is gained.

        Contexts of one task in one state count as its arms where they come one after the other.
        """
        states = X[:, : X.shape[1] - self.configurations.shape[1]]
        other = (tasks[1:] != tasks[:-1]) | (states[1:] != states[:-1]).any(axis=1)
        firsts = [0, *(np.flatnonzero(other) + 1).tolist()]
        if len(firsts) * len(self) >= len(X) or (arms := self.arms(X)) is None:
            return None
        return Shares(firsts, np.concatenate([[0], np.cumsum(other)]), self.weights.T[arms])

    def rows(self, X: FloatArray) -> FloatArray:
        """Return k_c of rows X (n, d) against the pivots, (n, r); a row keeps it as long as it is known."""
        rows, contexts = np.zeros((len(X), len(self))), _without_state(self.configurations, X.shape[1])
        for term, place in self.places:
            rows[:, place] = term.split.over_part(X, contexts[term.pivots])
        return rows

    @cached_property
    def places(self) -> list[tuple[Term, slice]]:
        """Return each term with the place of its pivots among all."""
        ends = np.cumsum([len(term.pivots) for term in self.terms]).tolist()
        return [(term, slice(end - len(term.pivots), end)) for term, end in zip(self.terms, ends, strict=True)]

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {row.tobytes(): arm for arm, row in enumerate(np.ascontiguousarray(self.configurations) + 0.0)}


@dataclass(frozen=True, eq=False)
class Shares:
    """Contexts as states with configurations.

    Attributes:
        firsts: Position of the first context of each state.
        states: Which state a context has, (m,).
        weights: Weights of the pivots in each context, (m, r).
    """

    firsts: list[int]
    states: IntArray
    weights: FloatArray

    def norms(self, V: FloatArray) -> FloatArray:
        """Return ‖v‖² of each context, (m,), from the columns V (n, s·r) of the pivots of each state."""
        r, ends = self.weights.shape[1], [*self.firsts[1:], len(self.states)]
        found = np.empty(len(self.states))
        for s, (first, end) in enumerate(zip(self.firsts, ends, strict=True)):
            own, W = V[:, s * r : (s + 1) * r], self.weights[first:end]
            np.einsum("ar,ar->a", W @ (own.T @ own), W, out=found[first:end])
        return found


def find_shared_state(kernel: Kernel, configurations: FloatArray, *, width: int) -> SharedState | None:
    """Return the structure of contexts with `width` columns, configurations (N, f) last; None if little is gained."""
    N, f = configurations.shape
    if not 0 < f <= width:
        return None
    splits = split_kernel(kernel, columns=range(width - f, width), width=width)
    if not any(split.part for split in splits):
        return None
    contexts = _without_state(configurations, width)
    terms = tuple(Term(split, *pivoted(split.over_part(contexts, contexts))) for split in splits)
    r = sum(len(term.pivots) for term in terms)
    if r > 0.7 * N:
        return None
    padded = np.zeros((r + ((r + 1) % _COLUMNS == 0), N))
    padded[:r] = np.concatenate([term.weights for term in terms])
    return SharedState(terms, configurations, padded)


def _without_state(configurations: FloatArray, width: int) -> FloatArray:
    """The N configurations (N, f) as contexts without a state, (N, width)."""
    N, f = configurations.shape
    return np.hstack([np.zeros((N, width - f)), configurations])


def pivoted(K: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return pivots P (r,) and weights W (r, N) with K = K[:, P] W to rounding, for K (N, N) positive semi-definite.

    A Cholesky factor that takes the largest remaining diagonal entry next, until what remains is rounding.
    """
    left, largest = np.diagonal(K).copy(), float(np.diagonal(K).max())
    F = np.zeros((len(K), 0))
    pivots: list[int] = []
    while len(pivots) < len(K) and left.max() > RESIDUAL * largest:
        p = int(left.argmax())
        column = (K[:, p] - F @ F[p]) / np.sqrt(left[p])
        F = np.column_stack([F, column])
        left = np.maximum(left - column**2, 0.0)
        left[[*pivots, p]] = 0.0
        pivots.append(p)
    chosen = np.array(pivots, dtype=np.int64)
    weights: FloatArray = np.linalg.solve(F[chosen].T, F.T).astype(np.float64)  # F[chosen] is lower triangular
    weights[:, chosen] = np.eye(len(chosen))
    return chosen, weights


class SharedRows:
    """The structure of a posterior's rows: k_c of every row against the pivots, as long as all are spanned.

    Args:
        kernel: Context kernel k_X.
        configurations: Features of the arms, (N, f); None for a posterior that knows of none.
    """

    def __init__(self, kernel: Kernel, configurations: FloatArray | None) -> None:
        self._kernel, self._configurations = kernel, configurations
        self._found: SharedState | None = None
        self._looked = configurations is None
        self._rows, self._filled = np.empty((0, 0)), 0

    def append(self, X: FloatArray) -> None:
        """Take in further rows X (b, d); k_c of them is evaluated when it is first needed."""
        if not self._looked and self._configurations is not None:
            self._looked = True
            self._found = find_shared_state(self._kernel, self._configurations, width=X.shape[1])
        if self._found is not None and self._found.arms(X) is None:
            self._found = None

    def restore(self, X: FloatArray) -> None:
        """Forget all rows and take in X (n, d)."""
        self._found, self._looked, self._filled = None, self._configurations is None, 0
        self._rows = np.empty((0, 0))
        if len(X):
            self.append(X)

    def shares(self, tasks: IntArray, X: FloatArray) -> Shares | None:
        """Return how contexts X (m, d) of tasks (m,) share states, where that saves work and all rows are spanned."""
        return None if self._found is None else self._found.shares(tasks, X)

    def cross(self, X: FloatArray, x: FloatArray, similarity: FloatArray, *, out: FloatArray) -> None:
        """Write the pivots' columns in the state of x (d,) against all rows X (n, d), to (n, r).

        `similarity` is how like the task is to that of each row, (n,).
        """
        if len(X) > self._filled:
            self._fill(X)
        out[:, -1] = 0.0  # the row that pads them
        for term, place in self._structure.places:
            v = term.split.over_rest(X, x[None])[:, 0]
            v *= similarity
            np.multiply(v[:, None], self._rows[: len(X), place], out=out[:, place])

    def _fill(self, X: FloatArray) -> None:
        """Evaluate k_c for those of the rows X (n, d) that came since it was last asked for."""
        start, stop = self._filled, len(X)
        if stop > len(self._rows):
            grown = np.empty((max(2 * start, stop, 16), len(self._structure)))
            if start:
                grown[:start] = self._rows[:start]
            self._rows = grown
        self._rows[start:stop] = self._structure.rows(X[start:])
        self._filled = stop

    @property
    def _structure(self) -> SharedState:
        if self._found is None:
            raise AssertionError("asked for a structure that is not there")
        return self._found
