"""The paper's methods written out slowly: the witness that every fast path must agree with.

Nothing here comes from the package. Kernels are functions of two rows, Gram matrices are double loops,
every prediction solves the whole system again, and every algorithm is a loop one can read beside the paper.
Equation numbers are the paper's; where its print slips, the reading implemented is stated beside the line.
The regularisation λ of the paper is one variance per observation here, and rewards are measured from a
constant prior mean; equal noises and a mean of 0 give the paper's formulas to the letter.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Row = Sequence[float] | FloatArray
Kernel = Callable[[Row, Row], float]
Beta = float | Callable[[int], float]  # a constant, or a function of the slot t = 1, 2, …


class Data(NamedTuple):
    """Observations: task indices (n,), contexts (n, d), rewards (n,) and noise variances (n,)."""

    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noise: FloatArray


class Run(NamedTuple):
    """The arms an algorithm chose, and the smallest margin by which any of its choices was made."""

    arms: IntArray
    margin: float


class SuperRun(NamedTuple):
    """What Algorithm 4 did: the arms, the smallest margin of any comparison, and its sets of slots Ψ⁽ˢ⁾."""

    arms: IntArray
    margin: float
    sets: list[list[int]]


# --- Kernels of two contexts ------------------------------------------------------------------------------


def rbf(length_scale: float, variance: float) -> Kernel:
    """Gaussian kernel with one length-scale: v·exp(−‖x − x′‖² / 2ℓ²)."""

    def k(x: Row, y: Row) -> float:
        squared = 0.0
        for a, b in zip(x, y, strict=True):
            squared += (float(a) - float(b)) ** 2
        return variance * math.exp(-squared / (2.0 * length_scale**2))

    return k


def ard_rbf(length_scales: Sequence[float], variance: float) -> Kernel:
    """Gaussian kernel with a length-scale for each column."""
    return lambda x, y: variance * math.exp(-0.5 * scaled_distance(x, y, length_scales) ** 2)


def matern32(length_scales: Sequence[float], variance: float) -> Kernel:
    """Matérn kernel of smoothness 3/2, a length-scale for each column: v·(1 + √3 r)·exp(−√3 r)."""

    def k(x: Row, y: Row) -> float:
        r = math.sqrt(3.0) * scaled_distance(x, y, length_scales)
        return variance * (1.0 + r) * math.exp(-r)

    return k


def matern52(length_scales: Sequence[float], variance: float) -> Kernel:
    """Matérn kernel of smoothness 5/2, a length-scale for each column: v·(1 + √5 r + 5r²/3)·exp(−√5 r)."""

    def k(x: Row, y: Row) -> float:
        r = math.sqrt(5.0) * scaled_distance(x, y, length_scales)
        return variance * (1.0 + r + r * r / 3.0) * math.exp(-r)

    return k


def linear(variance: float, bias: float = 0.0) -> Kernel:
    """Linear kernel with an optional constant: b + v·xᵀx′."""

    def k(x: Row, y: Row) -> float:
        inner = 0.0
        for a, b in zip(x, y, strict=True):
            inner += float(a) * float(b)
        return bias + variance * inner

    return k


def categorical(length_scale: float, variance: float) -> Kernel:
    """Kernel of category codes: v times exp(−1/ℓ²) for every column in which the two rows differ."""

    def k(x: Row, y: Row) -> float:
        value = variance
        for a, b in zip(x, y, strict=True):
            if a != b:
                value *= math.exp(-1.0 / length_scale**2)
        return value

    return k


def on_columns(kernel: Kernel, columns: Sequence[int]) -> Kernel:
    """The kernel applied to some columns of the contexts."""
    return lambda x, y: kernel([float(x[c]) for c in columns], [float(y[c]) for c in columns])


def sum_of(first: Kernel, second: Kernel) -> Kernel:
    """The sum of two kernels."""
    return lambda x, y: first(x, y) + second(x, y)


def product_of(first: Kernel, second: Kernel) -> Kernel:
    """The product of two kernels."""
    return lambda x, y: first(x, y) * second(x, y)


def scaled_distance(x: Row, y: Row, length_scales: Sequence[float]) -> float:
    """Euclidean distance after dividing each column by its length-scale."""
    squared = 0.0
    for a, b, length in zip(x, y, length_scales, strict=True):
        squared += ((float(a) - float(b)) / length) ** 2
    return math.sqrt(squared)


# --- Gram matrices ----------------------------------------------------------------------------------------


def gram(kernel: Kernel, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Kernel of every row of X (n, d) with every row of Y (m, d): (n, m)."""
    rows, columns = X.tolist(), Y.tolist()
    K = np.zeros((len(rows), len(columns)))
    for i, x in enumerate(rows):
        for j, y in enumerate(columns):
            K[i, j] = kernel(x, y)
    return K


def multitask_gram(
    kernel: Kernel, K_Z: FloatArray, tasks_a: IntArray, X_a: FloatArray, tasks_b: IntArray, X_b: FloatArray
) -> FloatArray:
    """Product kernel (7), k̃ = k_Z·k_X, of (n,) tasks and (n, d) contexts with (m,) and (m, d): (n, m)."""
    K = gram(kernel, X_a, X_b)
    for i in range(len(tasks_a)):
        for j in range(len(tasks_b)):
            K[i, j] = K_Z[tasks_a[i], tasks_b[j]] * K[i, j]
    return K


# --- Multi-task kernel ridge regression: (9) and (11) -----------------------------------------------------


def posterior_mean(
    data: Data, kernel: Kernel, K_Z: FloatArray, tasks: IntArray, X: FloatArray, *, mean: float = 0.0
) -> FloatArray:
    """f̂ of (9) at (m,) tasks and (m, d) contexts, around a constant prior mean: (m,)."""
    K = multitask_gram(kernel, K_Z, data.tasks, data.X, data.tasks, data.X)
    k = multitask_gram(kernel, K_Z, data.tasks, data.X, tasks, X)
    weights = np.linalg.solve(K + np.diag(data.noise), data.y - mean)
    return np.asarray(mean + k.T @ weights)


def posterior_covariance(data: Data, kernel: Kernel, K_Z: FloatArray, tasks: IntArray, X: FloatArray) -> FloatArray:
    """Joint covariance of f at (m,) tasks and (m, d) contexts, noise excluded: (m, m)."""
    K = multitask_gram(kernel, K_Z, data.tasks, data.X, data.tasks, data.X)
    k = multitask_gram(kernel, K_Z, data.tasks, data.X, tasks, X)
    prior = multitask_gram(kernel, K_Z, tasks, X, tasks, X)
    return np.asarray(prior - k.T @ np.linalg.solve(K + np.diag(data.noise), k))


def posterior_variance(data: Data, kernel: Kernel, K_Z: FloatArray, tasks: IntArray, X: FloatArray) -> FloatArray:
    """σ² of (11), one point at a time, as rounding leaves it (it may miss zero by a hair): (m,)."""
    K = multitask_gram(kernel, K_Z, data.tasks, data.X, data.tasks, data.X)
    k = multitask_gram(kernel, K_Z, data.tasks, data.X, tasks, X)
    solved = np.linalg.solve(K + np.diag(data.noise), k)
    variances = np.zeros(len(tasks))
    for j in range(len(tasks)):
        prior = K_Z[tasks[j], tasks[j]] * kernel(X[j], X[j])
        variances[j] = prior - k[:, j] @ solved[:, j]
    return variances


def posterior_width(data: Data, kernel: Kernel, K_Z: FloatArray, tasks: IntArray, X: FloatArray) -> FloatArray:
    """σ of (11): (m,)."""
    return np.sqrt(np.maximum(posterior_variance(data, kernel, K_Z, tasks, X), 0.0))


def log_marginal_likelihood(data: Data, kernel: Kernel, K_Z: FloatArray, *, mean: float) -> float:
    """Log density of the rewards under N(mean·1, K̃ + diag(noise)), from the definition of that density."""
    C = multitask_gram(kernel, K_Z, data.tasks, data.X, data.tasks, data.X) + np.diag(data.noise)
    residual = data.y - mean
    sign, log_determinant = np.linalg.slogdet(C)
    assert sign > 0, "the covariance of the rewards is not positive definite"
    quadratic = float(residual @ np.linalg.solve(C, residual))
    return -0.5 * (quadratic + float(log_determinant) + len(residual) * math.log(2.0 * math.pi))


# --- Exploration weights: Theorems 1 and 3 ----------------------------------------------------------------


def theorem1_alpha(*, T: int, M: int, N: int, delta: float) -> float:
    """α of Theorem 1 at slot T with M tasks and N arms."""
    return math.sqrt(math.log(2.0 * ((T - 1) * M * N + 1) / delta) / 2.0)


def theorem3_alpha(*, T: int, N: int, delta: float) -> float:
    """α of Theorem 3, Algorithm 4's own, over T slots with N arms."""
    return math.sqrt(math.log(2.0 * T * N * (math.log(T) + 1.0) / delta) / 2.0)


def printed_beta(alpha: float, *, c: float, lam: float) -> float:
    """β as (10) prints it: α + c√λ."""
    return alpha + c * math.sqrt(lam)


def corrected_beta(alpha: float, *, c: float, lam: float) -> float:
    """β for which Theorem 1 holds with the width of (11): (α + c√λ)/√λ."""
    return (alpha + c * math.sqrt(lam)) / math.sqrt(lam)


def ucb(mean: FloatArray, width: FloatArray, beta: float) -> FloatArray:
    """Upper confidence bound (12): f̂ + βσ."""
    return np.asarray(mean + beta * width)


# --- Algorithms -------------------------------------------------------------------------------------------


def algorithm1(
    contexts: FloatArray,
    rewards: FloatArray,
    kernel: Kernel,
    K_Z: FloatArray,
    *,
    noise: float,
    beta: Beta,
    mean: float = 0.0,
    history: Data | None = None,
) -> Run:
    """Algorithm 1: in each slot every task chooses, then all rewards arrive together.

    `contexts` (T, M, N, d) holds a row for each slot, task and arm, `rewards` (T, M, N) what each would pay.
    """
    T, M, N, d = contexts.shape
    data = _start(history, d)
    arms = np.zeros((T, M), dtype=np.int64)
    margin = math.inf
    for t in range(T):
        for m in range(M):
            tasks = np.full(N, m)
            scores = _scores(data, kernel, K_Z, tasks, contexts[t, m], beta=_at_slot(beta, t + 1), mean=mean)
            arms[t, m] = np.argmax(scores)
            margin = min(margin, _lead(scores))
        for m in range(M):
            a = arms[t, m]
            data = _append(data, m, contexts[t, m, a], rewards[t, m, a], noise)
    return Run(arms, margin)


def algorithm2(
    stations: IntArray,
    contexts: FloatArray,
    rewards: FloatArray,
    kernel: Kernel,
    K_Z: FloatArray,
    *,
    noise: float,
    beta: Beta,
    mean: float = 0.0,
    history: Data | None = None,
) -> Run:
    """Algorithm 2: one task V_t a slot, learned from before the next slot.

    `stations` (T,) are the V_t, `contexts` (T, N, d) a row for each slot and arm, `rewards` (T, N).
    """
    T, N, d = contexts.shape
    data = _start(history, d)
    arms = np.zeros(T, dtype=np.int64)
    margin = math.inf
    for t in range(T):
        tasks = np.full(N, stations[t])
        scores = _scores(data, kernel, K_Z, tasks, contexts[t], beta=_at_slot(beta, t + 1), mean=mean)
        arms[t] = np.argmax(scores)
        margin = min(margin, _lead(scores))
        data = _append(data, int(stations[t]), contexts[t, arms[t]], rewards[t, arms[t]], noise)
    return Run(arms, margin)


def algorithm3(
    data: Data,
    Psi: Sequence[int],
    kernel: Kernel,
    K_Z: FloatArray,
    *,
    tasks: IntArray,
    X: FloatArray,
    beta: float,
    mean: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Algorithm 3, the base: widths and UCBs of all arms from the rewards of the slots in Ψ alone.

    The print has k̃ᵀ(K̃ + λI)k̃ and f̂(x); read k̃ᵀ(K̃ + λI)⁻¹k̃ as in (11), and f̂(x̃).
    """
    rows = np.array(sorted(Psi), dtype=np.int64)
    subset = Data(data.tasks[rows], data.X[rows], data.y[rows], data.noise[rows])
    sigma = posterior_width(subset, kernel, K_Z, tasks, X)
    return sigma, ucb(posterior_mean(subset, kernel, K_Z, tasks, X, mean=mean), sigma, beta)


def algorithm4(
    stations: IntArray,
    contexts: FloatArray,
    rewards: FloatArray,
    kernel: Kernel,
    K_Z: FloatArray,
    *,
    noise: float,
    beta: float,
    mean: float = 0.0,
) -> SuperRun:
    """Algorithm 4, the super: arms are eliminated stage by stage, each stage learning from its own slots.

    One family of sets Ψ⁽ˢ⁾, s = 1 … S with S = max(1, ⌈ln T⌉); thresholds 2⁻ˢ, elimination by 2¹⁻ˢ; among the
    arms over the threshold the widest is played. Shapes as in `algorithm2`; slots in the sets count from 0.
    """
    T, N, d = contexts.shape
    S = max(1, math.ceil(math.log(T)))
    Psi: list[list[int]] = [[] for _ in range(S + 1)]  # Psi[s] for s = 1 … S, Psi[0] unused
    data = _start(None, d)
    arms = np.zeros(T, dtype=np.int64)
    margin = math.inf
    for t in range(T):
        tasks = np.full(N, stations[t])
        candidates = list(range(N))
        s = 1
        while True:
            sigma, bounds = algorithm3(data, Psi[s], kernel, K_Z, tasks=tasks, X=contexts[t], beta=beta, mean=mean)
            omega = {a: beta * float(sigma[a]) for a in candidates}
            top = max(float(bounds[a]) for a in candidates)
            margin = min(margin, *(abs(omega[a] - 1.0 / math.sqrt(T)) for a in candidates))
            margin = min(margin, *(abs(omega[a] - 2.0**-s) for a in candidates))
            if all(omega[a] <= 1.0 / math.sqrt(T) for a in candidates):
                arms[t] = max(candidates, key=lambda a: float(bounds[a]))
                margin = min(margin, _lead(bounds[candidates]))
                break
            if all(omega[a] <= 2.0**-s for a in candidates):
                floor = top - 2.0 ** (1 - s)
                margin = min(margin, *(abs(float(bounds[a]) - floor) for a in candidates))
                candidates = [a for a in candidates if bounds[a] >= floor]
                s = s + 1
                continue
            wide = [a for a in candidates if omega[a] > 2.0**-s]
            arms[t] = max(wide, key=lambda a: omega[a])
            margin = min(margin, _lead(np.array([omega[a] for a in wide])))
            Psi[s].append(t)
            break
        data = _append(data, int(stations[t]), contexts[t, arms[t]], rewards[t, arms[t]], noise)
    return SuperRun(arms, margin, Psi[1:])


def kernel_ucb(contexts: FloatArray, rewards: FloatArray, kernel: Kernel, *, gamma: float, eta: float) -> Run:
    """Kernel-UCB of Valko et al. (2013) for one task: kᵀ(K + γI)⁻¹y + (η/√γ)·√(k(x, x) − kᵀ(K + γI)⁻¹k).

    `contexts` (T, N, d), `rewards` (T, N). Written without the multi-task functions above.
    """
    T, N, d = contexts.shape
    X = np.zeros((0, d))
    y = np.zeros(0)
    arms = np.zeros(T, dtype=np.int64)
    margin = math.inf
    for t in range(T):
        inverse = np.linalg.inv(gram(kernel, X, X) + gamma * np.eye(len(X)))
        scores = np.zeros(N)
        for a in range(N):
            x = contexts[t, a]
            k = np.array([kernel(row, x) for row in X])
            variance = kernel(x, x) - k @ inverse @ k
            scores[a] = k @ inverse @ y + eta / math.sqrt(gamma) * math.sqrt(max(variance, 0.0))
        arms[t] = np.argmax(scores)
        margin = min(margin, _lead(scores))
        X = np.vstack([X, contexts[t, arms[t]]])
        y = np.append(y, rewards[t, arms[t]])
    return Run(arms, margin)


def _scores(
    data: Data,
    kernel: Kernel,
    K_Z: FloatArray,
    tasks: IntArray,
    X: FloatArray,
    *,
    beta: float,
    mean: float,
) -> FloatArray:
    """UCB (12) of every arm from all the data."""
    width = posterior_width(data, kernel, K_Z, tasks, X)
    return ucb(posterior_mean(data, kernel, K_Z, tasks, X, mean=mean), width, beta)


def _at_slot(beta: Beta, t: int) -> float:
    return beta(t) if callable(beta) else beta


def _start(history: Data | None, d: int) -> Data:
    if history is not None:
        return history
    return Data(np.zeros(0, dtype=np.int64), np.zeros((0, d)), np.zeros(0), np.zeros(0))


def _append(data: Data, task: int, x: FloatArray, reward: float, noise: float) -> Data:
    return Data(
        np.append(data.tasks, task),
        np.vstack([data.X, x]),
        np.append(data.y, reward),
        np.append(data.noise, noise),
    )


def _lead(scores: FloatArray) -> float:
    """By how much the best score beats the second best (infinite when it stands alone)."""
    if len(scores) == 1:
        return math.inf
    ordered = np.sort(scores)
    return float(ordered[-1] - ordered[-2])


# --- Similarities: (17) to (21) ---------------------------------------------------------------------------


def embedding_distance(
    X_1: FloatArray,
    Y_1: FloatArray,
    X_2: FloatArray,
    Y_2: FloatArray,
    *,
    k: Kernel,
    l: Kernel,
    lam: float,
) -> float:
    """Squared distance (20) of two conditional embeddings, from contexts (n, d) and outcomes (n, p)."""

    def trace_term(Xa: FloatArray, Ya: FloatArray, Xb: FloatArray, Yb: FloatArray) -> float:
        inverse_a = np.linalg.inv(gram(k, Xa, Xa) + lam * np.eye(len(Xa)))
        inverse_b = np.linalg.inv(gram(k, Xb, Xb) + lam * np.eye(len(Xb)))
        return float(np.trace(inverse_a @ gram(k, Xa, Xb) @ inverse_b @ gram(l, Yb, Ya)))

    own_1 = trace_term(X_1, Y_1, X_1, Y_1)
    own_2 = trace_term(X_2, Y_2, X_2, Y_2)
    return own_1 - 2.0 * trace_term(X_1, Y_1, X_2, Y_2) + own_2


def conditional_operator(Phi: FloatArray, Psi: FloatArray, *, lam: float) -> FloatArray:
    """Ô of (17), read as Ψ(K + λI)⁻¹Φᵀ, from features of contexts Φ (q, n) and outcomes Ψ (p, n): (p, q)."""
    K = Phi.T @ Phi
    return np.asarray(Psi @ np.linalg.inv(K + lam * np.eye(len(K))) @ Phi.T)


def operator_distance(first: FloatArray, second: FloatArray) -> float:
    """Squared Frobenius distance (19) of two explicit operators."""
    total = 0.0
    for i in range(first.shape[0]):
        for j in range(first.shape[1]):
            total += float(first[i, j] - second[i, j]) ** 2
    return total


def gaussian_similarity(squared_distances: FloatArray, sigma: float) -> FloatArray:
    """Similarity (18) from squared distances (M, M)."""
    K_Z = np.zeros_like(squared_distances)
    for i in range(len(K_Z)):
        for j in range(len(K_Z)):
            K_Z[i, j] = math.exp(-squared_distances[i, j] / (2.0 * sigma**2))
    return K_Z


def r_squared(
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    y_test: FloatArray,
    *,
    kernel: Kernel,
    lam: float | FloatArray,
    mean: float = 0.0,
) -> float:
    """R² (21) on one task's data of the kernel ridge regression (5) trained on another's; λ may differ by row."""
    weights = np.linalg.solve(gram(kernel, X_train, X_train) + np.eye(len(X_train)) * lam, y_train - mean)
    predicted = mean + gram(kernel, X_test, X_train) @ weights
    squared_errors = sum(float(e) ** 2 for e in y_test - predicted)
    average = sum(float(v) for v in y_test) / len(y_test)
    variance = sum((float(v) - average) ** 2 for v in y_test) / len(y_test)
    return 1.0 - squared_errors / (variance * len(y_test))


def average_r_squared(
    datasets: Sequence[tuple[FloatArray, FloatArray]],
    *,
    kernel: Kernel,
    lam: float,
    threshold: float,
    means: Sequence[float] | None = None,
) -> FloatArray:
    """Average of the two R² of each pair of (X, y), 0 below the threshold, ones on the diagonal: (M, M)."""
    M = len(datasets)
    centre = [0.0] * M if means is None else list(means)
    similarity = np.eye(M)
    for i in range(M):
        for j in range(M):
            if i != j:
                there = r_squared(*datasets[i], *datasets[j], kernel=kernel, lam=lam, mean=centre[i])
                back = r_squared(*datasets[j], *datasets[i], kernel=kernel, lam=lam, mean=centre[j])
                average = (there + back) / 2.0
                similarity[i, j] = average if average >= threshold else 0.0
    return similarity


# --- Theory: log g, information gain, (23) and Theorem 4 --------------------------------------------------


def log_g(tasks: IntArray, X: FloatArray, *, kernel: Kernel, K_Z: FloatArray, lam: float) -> float:
    """log g of a run of T points: log det(K̃ + λI) − T log λ, by the eigenvalues of its T-point K̃."""
    K = multitask_gram(kernel, K_Z, tasks, X, tasks, X)
    total = 0.0
    for eigenvalue in np.linalg.eigvalsh(K):
        total += math.log(max(float(eigenvalue), 0.0) + lam) - math.log(lam)
    return total


def information_gain(tasks: IntArray, X: FloatArray, *, kernel: Kernel, K_Z: FloatArray, lam: float) -> float:
    """Mutual information of f and the T noisy rewards: ½ log det(I + K̃/λ), by the determinant."""
    K = multitask_gram(kernel, K_Z, tasks, X, tasks, X)
    return 0.5 * float(np.linalg.slogdet(np.eye(len(K)) + K / lam)[1])


def regret_bound(log_g_value: float, *, T: int, N: int, c: float, c_k: float, lam: float, delta: float) -> float:
    """Regret bound (23) of Algorithm 4: c bounds ‖f*‖, c_k bounds k̃(x̃, x̃), d = max(1, c_k/λ)."""
    d = max(1.0, c_k / lam)
    beta = theorem3_alpha(T=T, N=N, delta=delta) + c * math.sqrt(lam)
    spread = math.sqrt(2.0 * d * log_g_value) * math.sqrt(T * math.ceil(math.log(T)))
    return 2.0 * math.sqrt(T) + 10.0 * beta * spread


def rank_bound(*, rank_x: int, rank_z: int, T: int, c_k: float, lam: float) -> float:
    """Theorem 4's bound on log g: r_z r_x log(((T + 1) c_k + λ)/λ)."""
    return rank_z * rank_x * math.log(((T + 1) * c_k + lam) / lam)
