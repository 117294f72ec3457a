"""The paper's theory as functions of a run: widths, log g, and the bounds of Theorems 1 and 3 to 5.

A run is what was played: the task of each decision (T,), the context of the arm it played (T, d), and the model it
was played under: context kernel, task matrix K_Z and noise λ. Everything hangs on log g = log det(I + K̃/λ), twice
the information that the T rewards hold about f: the regret of Algorithm 4 grows like √(T log g) (23), and log g is
small where contexts or tasks are alike (Theorems 4 and 5).

Departures from the print (docs/paper.md gives the reasons): Theorem 1's std carries 1/√λ; in (23) c bounds ‖f*‖,
c_k̃ bounds k̃(x̃, x̃) and d = max(1, c_k̃/λ); a run of T points has a T-point K̃, so g and Theorem 4 use T where T + 1
is printed. Theorem 5 needs no order of tasks, but it does need one run on both sides and μ₁ ≥ 0.
"""

from math import ceil, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array, finite_number, positive_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import Kernel, MultiTaskKernel, as_kernel, components
from kinband.policies.exploration import Theorem1, theorem1_alpha
from kinband.posterior.base import checked_contexts

__all__ = [
    "gram",
    "information_gain",
    "largest_prior_variance",
    "log_g",
    "log_g_uniform",
    "numerical_rank",
    "rank_bound",
    "regret_bound",
    "theorem1_width",
    "uniform_similarity",
]

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest count as zero."""


def gram(tasks: ArrayLike, X: ArrayLike, *, kernel: Kernel, K_Z: ArrayLike) -> FloatArray:
    """Return K̃ (T, T), the product kernel (7) among the tasks (T,) and contexts X (T, d) of a run.

    Example:
        >>> from kinband.kernels import RBF
        >>> gram([0, 1], [[0.2], [0.2]], kernel=RBF(0.5, variance=2.0), K_Z=[[1.0, 0.8], [0.8, 1.0]])
        array([[2. , 1.6],
               [1.6, 2. ]])
    """
    index, X, model = _checked_run(tasks, X, kernel, K_Z)
    return model.cross(index, X, index, X)


def log_g(tasks: ArrayLike, X: ArrayLike, *, kernel: Kernel, K_Z: ArrayLike, noise: float) -> float:
    """Return log g = log det(K̃ + λI) − T log λ of a run, tasks (T,) and contexts X (T, d), as in Theorem 3.

    Groups of tasks that share nothing are factorised apart.

    Example:
        >>> from kinband.kernels import RBF
        >>> model = {"kernel": RBF(0.5), "noise": 0.5}
        >>> alone = log_g([0, 1], [[0.2], [0.2]], K_Z=[[1.0, 0.0], [0.0, 1.0]], **model)
        >>> together = log_g([0, 1], [[0.2], [0.2]], K_Z=[[1.0, 1.0], [1.0, 1.0]], **model)
        >>> np.exp([alone, together]).round(6)
        array([9., 5.])
    """
    index, X, model = _checked_run(tasks, X, kernel, K_Z)
    noise = positive_number(noise, name="noise")
    groups = [np.isin(index, members) for members in components(model.K_Z)]
    parts = (model.cross(index[rows], X[rows], index[rows], X[rows]) for rows in groups if rows.any())
    return sum((_log_det(K, noise) for K in parts), start=0.0)


def information_gain(tasks: ArrayLike, X: ArrayLike, *, kernel: Kernel, K_Z: ArrayLike, noise: float) -> float:
    """Return ½ log g: the mutual information, in nats, of f and the T rewards of a run under Gaussian noise λ.

    Example:
        >>> from kinband.kernels import RBF
        >>> round(information_gain([0], [[0.2]], kernel=RBF(0.5), K_Z=[[1.0]], noise=0.25), 4)  # ½ log 5
        0.8047
    """
    return 0.5 * log_g(tasks, X, kernel=kernel, K_Z=K_Z, noise=noise)


def largest_prior_variance(tasks: ArrayLike, X: ArrayLike, *, kernel: Kernel, K_Z: ArrayLike) -> float:
    """Return the largest k̃(x̃, x̃) of a run: the c_k̃ of Theorems 3 and 4, which need it only where was played.

    Example:
        >>> from kinband.kernels import RBF
        >>> largest_prior_variance([0, 1], [[0.1], [0.7]], kernel=RBF(0.5, variance=2.0), K_Z=[[1.0, 0.5], [0.5, 1.5]])
        3.0
    """
    index, X, model = _checked_run(tasks, X, kernel, K_Z)
    if not len(index):
        raise BadInputError("the run holds no decision, so its prior variance has no largest value")
    return float(model.diag(index, X).max())


def theorem1_width(
    std: ArrayLike, *, known: int, arms: int, noise: float, delta: float, norm: float, printed: bool = False
) -> FloatArray:
    """Return the radius (m,) by which Theorem 1 bounds |f̂ − f*|, from widths σ (11), (m,).

    The radius is (α + c√λ)/√λ · σ, as printed (α + c√λ) · σ. With w = (K̃ + λI)⁻¹k̃, rewards in [0, 1] that do not
    depend on each other give |f̂ − E f̂| ≤ α‖w‖ (Hoeffding) and ‖w‖ ≤ σ/√λ; the bias |E f̂ − f*| is at most cσ.

    Args:
        std: Widths σ of f.
        known: Rewards learned from, (T − 1)M of the paper.
        arms: N.
        noise: λ.
        delta: δ; all arms of one decision are covered with probability 1 − δ/T, for M, T > 1.
        norm: c, a bound on the norm of f* (of f* − mean where a prior mean is set).
        printed: Whether to leave out 1/√λ, as the print does.

    Example:
        >>> theorem1_width([0.1], known=10, arms=5, noise=0.01, delta=0.05, norm=1.0).round(2)
        array([2.05])
    """
    sigma = finite_array(std, name="std", ndim=1)
    rule = Theorem1(delta=delta, norm=norm, printed=printed)
    return sigma * rule.beta(
        known=_whole(known, name="known", least=0),
        arms=_whole(arms, name="arms"),
        noise=positive_number(noise, name="noise"),
    )


def regret_bound(
    log_g: float, *, horizon: int, arms: int, noise: float, delta: float, norm: float, kernel_bound: float
) -> float:
    """Return the right-hand side of (23), which bounds the pseudo-regret of Algorithm 4 with probability 1 − δ.

    2√T + 10 (α + c√λ) √(2d log g) √(T⌈ln T⌉) with α = √(log(2TN(ln T + 1)/δ)/2) and d = max(1, c_k̃/λ).

    It stands as printed for the corrected β = (α + c√λ)/√λ, not for the printed one: while all widths hold, a
    decision of level s loses at most 8·2⁻ˢ < 8βσ, an exploiting one 2/√T. As x ≤ 2d log(1 + x) for 0 ≤ x ≤ d,
    Σσ² ≤ 2λd log g over the decisions of a level, so that Σβσ ≤ β√(2λd|Ψ| log g): this √λ takes up the 1/√λ
    of β. Summing the levels by Cauchy-Schwarz gives (23) with an 8 in place of the 10.

    The constants are large: as a rule the bound exceeds T, and so says nothing about a single run, until T is in the
    millions. What it tells is how regret grows.

    Args:
        log_g: log g of the run.
        horizon: T.
        arms: N.
        noise: λ.
        delta: δ.
        norm: c, a bound on the norm of f* (of f* − mean where a prior mean is set); rewards lie in [0, 1].
        kernel_bound: c_k̃, a bound on k̃(x̃, x̃).

    Example:
        >>> run = {"arms": 5, "noise": 0.5, "delta": 0.05, "norm": 2.0, "kernel_bound": 1.0}
        >>> one = regret_bound(3.0, horizon=1000, **run) - 2 * 1000**0.5
        >>> four = regret_bound(12.0, horizon=1000, **run) - 2 * 1000**0.5
        >>> round(four / one, 6)
        2.0
    """
    T, N = _whole(horizon, name="horizon"), _whole(arms, name="arms")
    lam, c_k = positive_number(noise, name="noise"), positive_number(kernel_bound, name="kernel_bound")
    rule = Theorem1(delta=delta, norm=norm)
    if finite_number(log_g, name="log_g") < 0:
        raise BadInputError(f"log_g is never negative, got {log_g:g}: take it from kinband.theory.log_g")
    alpha = theorem1_alpha(1, delta=rule.delta / (T * N * (log(T) + 1.0)))
    d = max(1.0, c_k / lam)
    spread = sqrt(2.0 * d * log_g) * sqrt(T * ceil(log(T)))
    return 2.0 * sqrt(T) + 10.0 * (alpha + rule.norm * sqrt(lam)) * spread  # (23)


def numerical_rank(matrix: ArrayLike, *, tolerance: float = RANK_TOLERANCE) -> int:
    """Return how many eigenvalues of a symmetric matrix (n, n) exceed `tolerance` times the largest in size.

    Example:
        >>> numerical_rank([[1.0, 1.0], [1.0, 1.0]]), numerical_rank([[1.0, 0.9], [0.9, 1.0]])
        (1, 2)
    """
    K = finite_array(matrix, name="matrix", ndim=2)
    if K.shape[0] != K.shape[1] or not np.allclose(K, K.T):
        raise BadInputError(f"matrix must be symmetric, got shape {K.shape}: pass a Gram or task matrix")
    sizes = np.abs(np.linalg.eigvalsh(K))
    return int(np.count_nonzero(sizes > tolerance * sizes.max(initial=0.0)))


def rank_bound(
    rank_x: int, rank_z: int, *, horizon: int, kernel_bound: float, noise: float, printed: bool = False
) -> float:
    """Return Theorem 4's bound on log g, r_z r_x log((T c_k̃ + λ)/λ).

    K̃ is an entrywise product, so its rank is at most r_z r_x, and none of its eigenvalues exceeds its trace,
    T c_k̃ at most. The print has T + 1 for T, the number of points of its K̃; ours has T points.

    Args:
        rank_x: Rank of the Gram matrix of the contexts.
        rank_z: Rank of the task matrix.
        horizon: T.
        kernel_bound: c_k̃, a bound on k̃(x̃, x̃).
        noise: λ.
        printed: Whether to count T + 1 points, as the print does.

    Example:
        >>> round(rank_bound(2, 1, horizon=4, kernel_bound=1.0, noise=0.5), 4)  # 2 log 9
        4.3944
    """
    ranks = _whole(rank_x, name="rank_x", least=0) * _whole(rank_z, name="rank_z", least=0)
    points = _whole(horizon, name="horizon") + (1 if printed else 0)
    lam = positive_number(noise, name="noise")
    return ranks * log((points * positive_number(kernel_bound, name="kernel_bound") + lam) / lam)


def uniform_similarity(tasks: int, mu: float) -> FloatArray:
    """Return the task matrix (M, M) of M tasks that are all alike by μ, as in Theorem 5.

    Example:
        >>> uniform_similarity(3, 0.4)
        array([[1. , 0.4, 0.4],
               [0.4, 1. , 0.4],
               [0.4, 0.4, 1. ]])
    """
    M, mu = _whole(tasks, name="tasks"), finite_number(mu, name="mu")
    least = -1.0 / (M - 1) if M > 1 else -1.0
    if not least <= mu <= 1.0:
        raise BadInputError(f"a similarity common to {M} tasks lies between {least:g} and 1, got {mu:g}")
    return np.where(np.eye(M, dtype=np.bool_), 1.0, mu)


def log_g_uniform(tasks: ArrayLike, X: ArrayLike, *, kernel: Kernel, mu: float, noise: float) -> float:
    """Return log g_μ: that of a run, tasks (T,) and contexts X (T, d), were all tasks alike by μ.

    Theorem 5: it does not grow with μ from 0 to 1. That holds for every run, whatever the order of its tasks
    and whether or not they see the same contexts: K̃_μ = (1 − μ)K̃₀ + μK̃₁ is linear in μ, so log g_μ is concave, and
    its slope at 0 is tr((K̃₀ + λI)⁻¹(K̃₁ − K̃₀)) = 0, since the one factor has blocks only within tasks, the other
    only between them. For the same reason it grows with μ below 0. The run must be the same on both sides: a policy
    that is given another μ plays other arms, and the theorem does not compare those runs.

    Example:
        >>> from kinband.kernels import RBF
        >>> tasks, X = [0, 1, 2, 0], [[0.1], [0.4], [0.2], [0.9]]
        >>> g = [log_g_uniform(tasks, X, kernel=RBF(0.5), mu=mu, noise=0.2) for mu in (0.0, 0.5, 1.0)]
        >>> g[0] > g[1] > g[2]
        True
    """
    index = np.asarray(tasks)
    M = int(index.max()) + 1 if index.size and np.issubdtype(index.dtype, np.integer) else 1
    return log_g(tasks, X, kernel=kernel, K_Z=uniform_similarity(max(M, 1), mu), noise=noise)


def _log_det(K: FloatArray, noise: float) -> float:
    """Return log det(I + K/λ) of a Gram matrix (n, n)."""
    try:
        L = np.linalg.cholesky(np.eye(len(K)) + K / noise)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError(
            f"the kernel matrix is not positive definite at noise {noise:g}: increase `noise`, or use a kernel "
            "that is positive semi-definite"
        ) from error
    return max(0.0, 2.0 * float(np.log(L.diagonal()).sum()))  # below 0 by rounding alone


def _checked_run(
    tasks: ArrayLike, X: ArrayLike, kernel: Kernel, K_Z: ArrayLike
) -> tuple[IntArray, FloatArray, MultiTaskKernel]:
    """Return tasks (T,), contexts (T, d) and the model of a run, or say what is wrong with them."""
    model = MultiTaskKernel(as_kernel(kernel), np.asarray(K_Z, dtype=np.float64))
    index = np.asarray(tasks)
    index = index if index.size else index.astype(np.int64)  # an empty list has no whole numbers
    return *checked_contexts(index, X, size=len(model.K_Z), width=None), model


def _whole(value: int, *, name: str, least: int = 1) -> int:
    number = finite_number(value, name=name)
    if number != int(number) or number < least:
        raise BadInputError(f"{name} must be a whole number, at least {least}, got {number:g}")
    return int(number)
