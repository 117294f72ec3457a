"""What similarities are measured with: rows by station, a kernel, its values in pieces, and operators of embeddings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray, positive_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import RBF, Constant, FixedTasks, Kernel, Linear, Product, Sum, as_kernel
from kinband.kernels.base import Columns, pick
from kinband.kernels.functions import Scaled
from kinband.likelihood import BLOCK_ROWS, MAX_ROWS, Fit, fit, starting_kernel
from kinband.records import Samples
from kinband.trace import Trace

# --- Many kernel values at once, by matrix products where the kernel allows it --------------------------------------
#
# Context kernels compute each entry from its two rows alone, which keeps all its digits. Measuring stations needs the
# kernel between all rows of all stations, and not all digits. Here an RBF is exp(ΛPᵀ): with z = (x − centre)/l, the
# rows of Λ are (z, 1, log v − |z|²/2) and those of P are (z, −|z|²/2, 1), so squared distances, factor ½ and variance
# together are one thin matrix product.
#
# The product rounds −r²/2 by about |z|² times the machine's precision. Contexts that are many length-scales from their
# centre are therefore left to the kernel itself, as are all other kernels.

Gram = Callable[[slice, slice], FloatArray]
"""Ranges of rows of X and of Y → the kernel between them."""

FARTHEST = 1e4
"""Largest |z|² for which products are used: entries are then right to about 1e-12 of themselves."""


def gram(kernel: Kernel, X: FloatArray, Y: FloatArray) -> Gram:
    """Return the function that gives the kernel between any ranges of the rows of X (n, d) and of Y (m, d)."""
    if isinstance(kernel, Product):
        return _times(gram(kernel.left, X, Y), gram(kernel.right, X, Y))
    factors = _factors(kernel, X, Y) if isinstance(kernel, RBF) else None
    if factors is None:
        return lambda rows, others: kernel(X[rows], Y[others])
    Lambda, P = factors

    def between(rows: slice, others: slice) -> FloatArray:
        exponent = Lambda[rows] @ P[others].T
        return np.exp(exponent, out=exponent)

    return between


def _times(left: Gram, right: Gram) -> Gram:
    def between(rows: slice, others: slice) -> FloatArray:
        K = left(rows, others)
        K *= right(rows, others)
        return K

    return between


def _factors(kernel: RBF, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Λ (n, d + 2) and P (m, d + 2), or None if rows lie too far out for products."""
    columns: Columns = kernel.columns  # type: ignore[assignment]  # cleaned by the kernel
    X, Y = pick(X, columns), pick(Y, columns)
    if not len(X) or not len(Y):
        return None
    centre = 0.5 * (np.minimum(X.min(axis=0), Y.min(axis=0)) + np.maximum(X.max(axis=0), Y.max(axis=0)))
    scales = kernel.scales_of(X.shape[1])
    X, Y = (X - centre) / scales, (Y - centre) / scales
    half_X, half_Y = 0.5 * np.sum(X * X, axis=1), 0.5 * np.sum(Y * Y, axis=1)
    if 2.0 * max(half_X.max(), half_Y.max()) > FARTHEST:
        return None
    log_variance = float(np.log(kernel.variance))
    Lambda = np.column_stack([X, np.ones(len(X)), log_variance - half_X])
    P = np.column_stack([Y, -half_Y, np.ones(len(Y))])
    return Lambda, P


# --- The rows of a log, station by station, and the kernel between every pair of stations ---------------------------
#
# Both the embedding and the prediction estimator need k(x, x′) between the rows of all pairs of stations.
# `kernel_blocks` hands them over one piece at a time: a station against a few others, few enough for the piece to stay
# in the processor's cache, so that memory does not grow with the log.

BLOCK_ENTRIES = 2**18
"""Numbers in one piece of the kernel matrix: two megabytes."""


Log = Samples | Trace
"""What estimators learn from."""


def samples_of(log: Log) -> Samples:
    """Return the numbers of a log."""
    if isinstance(log, Samples):
        return log
    if not hasattr(log, "samples"):
        raise BadInputError(f"similarity is learned from a Trace or from Samples, got {type(log).__name__}")
    return log.samples()


def with_rows(log: Log) -> Samples:
    """Return the numbers of a log in which every station has at least one row, or name one that has none."""
    samples = samples_of(log)
    rows = np.bincount(samples.tasks, minlength=len(samples.stations))
    if not rows.all():
        name = samples.stations[int(np.argmin(rows))]
        raise BadInputError(
            f"the log has no rows of station {name!r}: log some, leave the station out, or give its similarity yourself"
        )
    return samples


def by_station(samples: Samples) -> list[Samples]:
    """Return the rows of each station, in the order of the stations."""
    order = np.argsort(samples.tasks, kind="stable")
    ends = np.cumsum(np.bincount(samples.tasks, minlength=len(samples.stations)))
    return [samples.take(rows) for rows in np.split(order, ends[:-1])]


@dataclass(frozen=True, eq=False)
class Block:
    """The kernel between the rows of one station and those of a run of later ones.

    Attributes:
        station: Index m of the one station.
        others: Indices of the others, a slice of consecutive stations m′ > m.
        rows: Their rows in the log sorted by station.
        starts: Where each of the others begins among these rows.
        K: K_mm′ side by side, (n_m, sum of n_m′).
    """

    station: int
    others: slice
    rows: slice
    starts: IntArray
    K: FloatArray


def kernel_blocks(contexts: Sequence[FloatArray], kernel: Kernel) -> Iterator[Block]:
    """Go through all pairs of stations m < m′; `contexts` holds one (n_m, d) array for each station."""
    X = np.concatenate(contexts)
    ends = np.cumsum([len(x) for x in contexts])
    begins = np.concatenate([[0], ends[:-1]])
    between = gram(kernel, X, X)
    for m, X_m in enumerate(contexts):
        first, most = m + 1, max(1, BLOCK_ENTRIES // len(X_m))
        while first < len(contexts):
            last = max(first + 1, int(np.searchsorted(ends, begins[first] + most, side="right")))
            rows = slice(int(begins[first]), int(ends[last - 1]))
            starts = begins[first:last] - begins[first]
            yield Block(m, slice(first, last), rows, starts, between(slice(int(begins[m]), int(ends[m])), rows))
            first = last


# --- The context kernel that an estimator works with: given by the user, or learned from the log ---------------------
#
# Estimators measure stations with one kernel for all. When none is given, the default kernel is fitted by marginal
# likelihood with independent stations: rows speak for the kernel, none for another station, so similarity is not
# assumed before it is measured. Of a long log a part is looked at. A kernel that is given is used as it is; only noise
# and mean are then learned.

STARTS = 3
"""Starts of the search for a kernel."""


def learn_kernel(samples: Samples, kernel: Kernel | None, *, noise: float | None, rng: np.random.Generator) -> Fit:
    """Return kernel, noise variance and mean for a log: what was given as it is, the rest by likelihood."""
    given = None if kernel is None else as_kernel(kernel).bind(samples.features)
    tasks = FixedTasks(np.eye(len(samples.stations)))
    if given is not None and noise is not None:
        return Fit(given, tasks, noise, float(samples.y.mean()), log_likelihood=np.nan)
    return fit(
        samples,
        starting_kernel(samples) if given is None else given,
        tasks=tasks,
        noise=noise,
        fit_kernel=given is None,
        fit_noise=noise is None,
        starts=STARTS if given is None else 1,
        max_rows=MAX_ROWS,
        block_rows=BLOCK_ROWS,
        rng=rng,
        quiet=True,
    )


def unit_rewards(samples: Samples) -> tuple[Samples, float, float]:
    """Return the log with rewards of mean 0 and variance 1, and the mean and scale they had.

    Limits and first guesses of a fit then suit any unit of the reward.
    """
    centre = float(samples.y.mean())
    scale = float(samples.y.std()) if np.ptp(samples.y) > 0 else 1.0
    noise = None if samples.noise is None else samples.noise / scale**2
    return replace(samples, y=(samples.y - centre) / scale, noise=noise), centre, scale


def with_variance(kernel: Kernel, factor: float, *, fixed: bool = False) -> Kernel:
    """Return the kernel with its variance multiplied by `factor`, or fixed at `factor`.

    Of a product the first factor carries the variance; the terms of a sum keep their ratio, where the first is fixed.
    Kernels without a variance of their own come back as they are.
    """
    if isinstance(kernel, Sum):
        first = with_variance(kernel.left, factor, fixed=fixed)
        ratio = factor / _variance_of(kernel.left) if fixed else factor
        return Sum(first, with_variance(kernel.right, ratio))
    if isinstance(kernel, Product):
        right = with_variance(kernel.right, 1.0, fixed=True) if fixed else kernel.right
        return Product(with_variance(kernel.left, factor, fixed=fixed), right)
    if not isinstance(kernel, Scaled | Linear | Constant):
        return kernel
    variance = factor if fixed else kernel.variance * factor
    low, high = kernel.variance_bounds
    bounds = (low, high) if low < variance < high else (low * factor, high * factor)
    names = tuple(dict.fromkeys([*kernel.fixed, "variance"])) if fixed else kernel.fixed
    return replace(kernel, variance=variance, variance_bounds=bounds, fixed=names)


def _variance_of(kernel: Kernel) -> float:
    """The variance that `with_variance` multiplies; 1 for kernels without one."""
    while isinstance(kernel, Product | Sum):
        kernel = kernel.left
    return kernel.variance if isinstance(kernel, Scaled | Linear | Constant) else 1.0


def without_level(kernel: Kernel) -> Kernel:
    """Return the kernel without a constant that is added to it: what compares the shape of rewards, not their level."""
    if isinstance(kernel, Product):
        return Product(without_level(kernel.left), without_level(kernel.right))
    return kernel.left if isinstance(kernel, Sum) and isinstance(kernel.right, Constant) else kernel


def fit_details(samples: Samples, learned: Fit) -> dict[str, Any]:
    """Return what every estimator writes into its details: rows used, kernel, noise and mean."""
    try:
        kernel: Any = learned.kernel.to_dict()
    except (NotImplementedError, ValueError):  # a kernel of the user's own that cannot be stored
        kernel = repr(learned.kernel)
    return {"rows": len(samples), "kernel": kernel, "noise": learned.noise, "mean": learned.mean}


# --- Distances between conditional kernel embeddings, from kernel values alone --------------------------------------
#
# The operator that a station's rows estimate is O_m = Ψ_m (K_m + λI)⁻¹ Φ_mᵀ (17), and with A_m = (K_m + λI)⁻¹ all three
# terms of the squared distance (20) are inner products ⟨O_m, O_m′⟩ = tr(A_m K_mm′ A_m′ L_m′m).
#
# The outcome kernel L of one number has a low numerical rank r: with L = GGᵀ over all rewards and C_m = A_m G_m (n_m,
# r), the inner product is Σ C_m ∘ (K_mm′ C_m′), so a pair of stations costs its kernel matrix and one thin product.
# Outcome kernels whose rank is not low take the full product. What is too much for all pairs of a large network is in
# `landmarks`.

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
    """Return the inner products ⟨O_m, O_m′⟩ of all stations' operators, (M, M); arguments as above."""
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
    """Return C_m = (K_m + λI)⁻¹ G_m and the norms of all stations, G (N, r) with GGᵀ the outcome kernel."""
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
    """Return ⟨O_m, O_m′⟩ = Σ C_m ∘ (K_mm′ C_m′) for all pairs, (M, M); `contexts` are (n_m, d) each."""
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
    """Return ‖O_m − O_m′‖² (19) from the inner products P (M, M): symmetric, zero diagonal, not negative."""
    D2: FloatArray = np.clip(sums_of_norms(P) - 2.0 * P, 0.0, None)
    np.fill_diagonal(D2, 0.0)
    return D2


def low_rank(rows: Rows) -> int:
    """Return the rank of the outcome kernel up to which thin products beat full ones: a station's number of rows."""
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
    """Return the symmetric matrix (M, M) with this upper half."""
    return upper + np.triu(upper, 1).T


def sums_of_norms(P: FloatArray) -> FloatArray:
    """Return ‖O_m‖² + ‖O_m′‖² from the inner products P (M, M): (M, M), the scale of rounding in a distance."""
    return np.asarray(np.add.outer(np.diag(P), np.diag(P)))
