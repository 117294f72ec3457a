"""Distances between conditional kernel embeddings, from kernel values alone.

The operator that a station's rows estimate is O_m = Ψ_m (K_m + λI)⁻¹ Φ_mᵀ (17), and with A_m = (K_m + λI)⁻¹ all three
terms of the squared distance (20) are inner products ⟨O_m, O_m′⟩ = tr(A_m K_mm′ A_m′ L_m′m).

The outcome kernel L of one number has a low numerical rank r: with L = GGᵀ over all rewards and C_m = A_m G_m
(n_m, r), the inner product is Σ C_m ∘ (K_mm′ C_m′), so a pair of stations costs its kernel matrix and one thin
product. Outcome kernels whose rank is not low take the full product.
"""

from collections.abc import Sequence

import numpy as np

from kinband.arrays import FloatArray, positive_number
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
    sizes = np.cumsum([len(x) for x, _ in rows])[:-1]
    G = low_rank_factor(outcome_kernel, np.concatenate([y for _, y in rows]), most=_low(rows))
    if G is None:
        return _full_products(rows, kernel, regularisation=regularisation, outcome_kernel=outcome_kernel)
    P = np.zeros((len(rows), len(rows)))
    C = []
    for m, ((X_m, _), G_m) in enumerate(zip(rows, np.split(G, sizes), strict=True)):
        K_m = kernel(X_m, X_m)
        C.append(_solve(K_m, G_m, regularisation))
        P[m, m] = np.vdot(C[m], K_m @ C[m])
    stacked = np.concatenate(C)
    for block in kernel_blocks([x for x, _ in rows], kernel):
        by_row = np.einsum("ir,ir->i", block.K.T @ C[block.station], stacked[block.rows])
        P[block.station, block.others] = np.add.reduceat(by_row, block.starts)
    return _mirrored(P)


def low_rank_factor(kernel: Kernel, Y: FloatArray, *, most: int) -> FloatArray | None:
    """Return G (N, r) with GGᵀ = kernel(Y, Y) to rounding, Y (N, e), or None if r would exceed `most`.

    Cholesky with pivoting: the next column is that of the row explained worst.

    Example:
        >>> from kinband.kernels import RBF
        >>> Y = np.linspace(0.0, 1.0, 50)[:, None]
        >>> G = low_rank_factor(RBF(0.8), Y, most=20)
        >>> bool(np.allclose(G @ G.T, RBF(0.8)(Y, Y), atol=1e-12))
        True
    """
    left = kernel.diag(Y).copy()
    enough = RANK_TOLERANCE * float(left.max())
    G = np.zeros((len(Y), min(most, len(Y))))
    for r in range(G.shape[1] + 1):
        p = int(np.argmax(left))
        if left[p] <= enough:
            return G[:, :r]
        if r == G.shape[1]:
            break
        G[:, r] = (kernel(Y, Y[p : p + 1])[:, 0] - G[:, :r] @ G[p, :r]) / np.sqrt(left[p])
        left -= G[:, r] ** 2
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


def _low(rows: Rows) -> int:
    """The rank up to which thin products beat full ones."""
    return max(20, int(np.mean([len(x) for x, _ in rows])))


def _full_products(rows: Rows, kernel: Kernel, *, regularisation: float, outcome_kernel: Kernel) -> FloatArray:
    """The same inner products with no use of rank: tr(A_m K_mm′ A_m′ L_m′m), the cross term of (20)."""
    A = [_solve(kernel(X, X), np.eye(len(X)), regularisation) for X, _ in rows]
    P = np.zeros((len(rows), len(rows)))
    for m, (X_m, Y_m) in enumerate(rows):
        for other in range(m, len(rows)):
            X_o, Y_o = rows[other]
            P[m, other] = np.vdot(A[m] @ kernel(X_m, X_o), outcome_kernel(Y_m, Y_o) @ A[other])
    return _mirrored(P)


def _solve(K: FloatArray, B: FloatArray, regularisation: float) -> FloatArray:
    from scipy.linalg import cho_factor, cho_solve

    try:
        factor = cho_factor(K + regularisation * np.eye(len(K)), lower=True)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(
            f"K + λI of a station cannot be factorised with λ = {regularisation:g}: raise `regularisation`"
        ) from None
    return np.asarray(cho_solve(factor, B))


def _mirrored(upper: FloatArray) -> FloatArray:
    return upper + np.triu(upper, 1).T


def sums_of_norms(P: FloatArray) -> FloatArray:
    """Return ‖O_m‖² + ‖O_m′‖² from the inner products P (M, M): (M, M), the scale of rounding in a distance.

    Example:
        >>> sums_of_norms(np.array([[1.0, 0.5], [0.5, 2.0]]))
        array([[2., 3.],
               [3., 4.]])
    """
    return np.asarray(np.add.outer(np.diag(P), np.diag(P)))
