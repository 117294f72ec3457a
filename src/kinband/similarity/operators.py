"""Distances between conditional kernel embeddings, from kernel values alone.

The operator that a station's rows estimate is O_m = Ψ_m (K_m + λI)⁻¹ Φ_mᵀ (17), and with A_m = (K_m + λI)⁻¹ all three
terms of the squared distance (20) are inner products ⟨O_m, O_m′⟩ = tr(A_m K_mm′ A_m′ L_m′m).

The outcome kernel L of one number has a low numerical rank r: with L = GGᵀ over all rewards and C_m = A_m G_m
(n_m, r), the inner product is Σ C_m ∘ (K_mm′ C_m′), so a pair of stations costs its kernel matrix and one thin
product. Outcome kernels whose rank is not low take the full product. What is too much for all pairs of a large network
is in `landmarks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray, positive_number
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import Kernel
from kinband.similarity.rows import kernel_blocks

Rows = Sequence[tuple[FloatArray, FloatArray]]
"""For each station its contexts (n_m, d) and outcomes (n_m, e)."""

RANK_TOLERANCE = 1e-13
"""Share of the largest variance that a low-rank factor may leave unexplained."""


def embedding_distances(rows: Rows, kernel: Kernel, *, regularisation: float, outcome_kernel: Kernel) -> FloatArray:
    """Return the squared distance (20) of every two stations' operators, (M, M).

    Args:
        rows: Contexts (n_m, d) and outcomes (n_m, e) of each of M stations.
        kernel: Context kernel k.
        regularisation: λ.
        outcome_kernel: Outcome kernel l.

    Example:
        >>> from kinband.kernels import RBF
        >>> x, y = np.array([[0.0], [1.0]]), np.array([[0.3], [0.9]])
        >>> D2 = embedding_distances([(x, y), (x, y)], RBF(0.5), regularisation=0.1, outcome_kernel=RBF(0.4))
        >>> D2.tolist()
        [[0.0, 0.0], [0.0, 0.0]]
    """
    return squared_distances(
        embedding_products(rows, kernel, regularisation=regularisation, outcome_kernel=outcome_kernel)
    )


def embedding_products(rows: Rows, kernel: Kernel, *, regularisation: float, outcome_kernel: Kernel) -> FloatArray:
    """Return the inner products ⟨O_m, O_m′⟩ of all stations' operators, (M, M); arguments as above.

    Example:
        >>> from kinband.kernels import RBF
        >>> one = (np.array([[0.0]]), np.array([[0.3]]))  # one row: O has norm 1 / (1 + λ)
        >>> embedding_products([one], RBF(0.5), regularisation=0.25, outcome_kernel=RBF(0.4)).round(12)
        array([[0.64]])
    """
    regularisation = positive_number(regularisation, name="regularisation")
    G = low_rank_factor(outcome_kernel, np.concatenate([y for _, y in rows]), most=low_rank(rows))
    if G is None:
        return _full_products(rows, kernel, regularisation=regularisation, outcome_kernel=outcome_kernel)
    own = weights(rows, kernel, G, regularisation=regularisation)
    return cross_products([x for x, _ in rows], kernel, own)


@dataclass(frozen=True, eq=False)
class Weights:
    """What is known of each operator before any two are compared.

    Attributes:
        C: C_mᵀ = (A_m G_m)ᵀ of all stations side by side, (r, N).
        ends: Where each station's columns of C end, (M,).
        norms: ⟨O_m, O_m⟩, (M,).

    Example:
        >>> Weights(np.array([[1.0, 2.0, 3.0]]), np.array([2, 3]), np.array([0.5, 0.6])).of(1)
        array([[3.]])
    """

    C: FloatArray
    ends: IntArray
    norms: FloatArray

    def rows(self, station: int) -> slice:
        """Return which rows of the log sorted by station, and columns of C, are a station's."""
        return slice(int(self.ends[station - 1]) if station else 0, int(self.ends[station]))

    def of(self, station: int) -> FloatArray:
        """Return C_mᵀ of one station, (r, n_m)."""
        return self.C[:, self.rows(station)]

    def take(self, stations: Sequence[int] | IntArray) -> "Weights":
        """Return the weights of some stations, in the order given."""
        C = [self.of(int(m)) for m in stations]
        return Weights(np.concatenate(C, axis=1), np.cumsum([c.shape[1] for c in C]), self.norms[stations])


def weights(rows: Rows, kernel: Kernel, G: FloatArray, *, regularisation: float) -> Weights:
    """Return C_m = (K_m + λI)⁻¹ G_m and the norms of all stations, G (N, r) with GGᵀ the outcome kernel.

    Example:
        >>> from kinband.kernels import RBF
        >>> one = (np.array([[0.0]]), np.array([[0.3]]))
        >>> weights([one], RBF(0.5), np.array([[1.0]]), regularisation=0.25).C
        array([[0.8]])
    """
    C, norms, begin = np.empty((G.shape[1], len(G))), np.empty(len(rows)), 0
    ends = np.cumsum([len(x) for x, _ in rows])
    for m, (X_m, _) in enumerate(rows):
        K_m = kernel(X_m, X_m)
        C_m = _solve(K_m, G[begin : ends[m]], regularisation)
        norms[m] = np.vdot(C_m, K_m @ C_m)
        C[:, begin : ends[m]] = C_m.T
        begin = int(ends[m])
    return Weights(C, ends, norms)


def cross_products(contexts: Sequence[FloatArray], kernel: Kernel, own: Weights) -> FloatArray:
    """Return ⟨O_m, O_m′⟩ = Σ C_m ∘ (K_mm′ C_m′) for all pairs, (M, M); `contexts` are (n_m, d) each.

    Example:
        >>> from kinband.kernels import RBF
        >>> own = Weights(np.array([[0.5, 2.0]]), np.array([1, 2]), np.array([0.25, 4.0]))
        >>> cross_products([np.array([[0.0]]), np.array([[0.0]])], RBF(0.5), own)
        array([[0.25, 1.  ],
               [1.  , 4.  ]])
    """
    P = np.diag(own.norms)
    for block in kernel_blocks(contexts, kernel):
        by_row = np.einsum("ri,ri->i", own.of(block.station) @ block.K, own.C[:, block.rows])
        P[block.station, block.others] = np.add.reduceat(by_row, block.starts)
    return mirrored(P)


def low_rank_factor(
    kernel: Kernel, Y: FloatArray, *, most: int, tolerance: float = RANK_TOLERANCE
) -> FloatArray | None:
    """Return G (N, r) with GGᵀ = kernel(Y, Y), Y (N, e), or None if r would exceed `most`.

    Cholesky with pivoting: the next column is that of the row explained worst, until none lacks more than `tolerance`
    of the largest variance; by default that is rounding.

    Example:
        >>> from kinband.kernels import RBF
        >>> Y = np.linspace(0.0, 1.0, 50)[:, None]
        >>> G = low_rank_factor(RBF(0.8), Y, most=20)
        >>> bool(np.allclose(G @ G.T, RBF(0.8)(Y, Y), atol=1e-12))
        True
    """
    left = kernel.diag(Y).copy()
    enough = tolerance * float(left.max())
    G = np.empty((min(most, len(Y)), len(Y)))  # the columns of G are rows here; those never needed take no memory
    for r in range(len(G) + 1):
        p = int(np.argmax(left))
        if left[p] <= enough:
            return G[:r].T
        if r == len(G):
            break
        G[r] = (kernel(Y, Y[p : p + 1])[:, 0] - G[:r, p] @ G[:r]) / np.sqrt(left[p])
        left -= G[r] ** 2
        left[p] = 0.0
    return None


def squared_distances(P: FloatArray) -> FloatArray:
    """Return ‖O_m − O_m′‖² (19) from the inner products P (M, M): symmetric, zero diagonal, not negative.

    Example:
        >>> squared_distances(np.array([[1.0, 0.5], [0.5, 2.0]]))
        array([[0., 2.],
               [2., 0.]])
    """
    D2: FloatArray = np.clip(sums_of_norms(P) - 2.0 * P, 0.0, None)
    np.fill_diagonal(D2, 0.0)
    return D2


def low_rank(rows: Rows) -> int:
    """Return the rank of the outcome kernel up to which thin products beat full ones: a station's number of rows.

    Example:
        >>> low_rank([(np.zeros((50, 2)), np.zeros((50, 1))), (np.zeros((70, 2)), np.zeros((70, 1)))])
        60
    """
    return max(20, int(np.mean([len(x) for x, _ in rows])))


def _full_products(rows: Rows, kernel: Kernel, *, regularisation: float, outcome_kernel: Kernel) -> FloatArray:
    """The same inner products with no use of rank: tr(A_m K_mm′ A_m′ L_m′m), the cross term of (20)."""
    A = [_solve(kernel(X, X), np.eye(len(X)), regularisation) for X, _ in rows]
    P = np.zeros((len(rows), len(rows)))
    for m, (X_m, Y_m) in enumerate(rows):
        for other in range(m, len(rows)):
            X_o, Y_o = rows[other]
            P[m, other] = np.vdot(A[m] @ kernel(X_m, X_o), outcome_kernel(Y_m, Y_o) @ A[other])
    return mirrored(P)


def _solve(K: FloatArray, B: FloatArray, regularisation: float) -> FloatArray:
    from scipy.linalg import cho_factor, cho_solve

    try:
        factor = cho_factor(K + regularisation * np.eye(len(K)), lower=True)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(
            f"K + λI of a station cannot be factorised with λ = {regularisation:g}: raise `regularisation`"
        ) from None
    return np.asarray(cho_solve(factor, B))


def mirrored(upper: FloatArray) -> FloatArray:
    """Return the symmetric matrix (M, M) with this upper half.

    Example:
        >>> mirrored(np.array([[1.0, 0.5], [0.0, 2.0]]))
        array([[1. , 0.5],
               [0.5, 2. ]])
    """
    return upper + np.triu(upper, 1).T


def sums_of_norms(P: FloatArray) -> FloatArray:
    """Return ‖O_m‖² + ‖O_m′‖² from the inner products P (M, M): (M, M), the scale of rounding in a distance.

    Example:
        >>> sums_of_norms(np.array([[1.0, 0.5], [0.5, 2.0]]))
        array([[2., 3.],
               [3., 4.]])
    """
    return np.asarray(np.add.outer(np.diag(P), np.diag(P)))
