"""How well a kernel, a task model, a noise level and a mean explain a log, and the search for the best of them.

The model of a log is y ~ N(mean · 1, K̃ + D), K̃_ij = K_Z[m_i, m_j] k_X(x_i, x_j) as in (7), D diagonal: one common
level, what the context does not explain, plus what is known of the variance of each reward. Its log density, the
log marginal likelihood, trades fit against complexity, so that maximising it over length-scales, noise and the
parameters of K_Z needs no validation set (Rasmussen and Williams 2006, chapter 5). With a = (K̃ + D)⁻¹(y − mean)
the gradient to any entry of K̃ is W = ½(aaᵀ − (K̃ + D)⁻¹), and kernels pull W back to their parameters.

Stations that share nothing are factorised apart. Where the log is long, the search also takes stations apart that do
share: the sum of the log densities of groups of stations, each with its own likeness inside, is a composite likelihood
(Varin, Reid and Firth 2011), with its maximum at the same parameters but for sampling, at a fraction of the work. The
paper prints no such fit; it names the idea for its hyper-parameter method, after Bonilla et al. (2008).
"""

from collections.abc import Sequence

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import Kernel, TaskModel, components
from kinband.records import Samples

_STRIP = 64


def log_marginal_likelihood(samples: Samples, kernel: Kernel, *, tasks: TaskModel, noise: float, mean: float) -> float:
    """Return log N(y; mean, K̃ + D) of a log.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> log = Samples(("a",), np.array([0]), np.array([[0.3]]), np.array([1.5]), None, ("load",))
        >>> value = log_marginal_likelihood(log, RBF(variance=3.0), tasks=FixedTasks(np.eye(1)), noise=1.0, mean=0.5)
        >>> bool(np.isclose(value, -0.5 * (1.0**2 / 4.0 + np.log(2 * np.pi * 4.0))))
        True
    """
    kernel = check_problem(samples, kernel, tasks, noise, mean)
    K_Z = tasks.K_Z
    D = variances(samples, noise)
    value = 0.0
    for rows in row_blocks(samples.tasks, tasks):
        m = samples.tasks[rows]
        K = kernel(samples.X[rows], samples.X[rows]) * K_Z[np.ix_(m, m)]
        value += _Block(K, D[rows], samples.y[rows] - mean).value
    return value


def value_and_gradient(
    samples: Samples, kernel: Kernel, *, tasks: TaskModel, noise: float, mean: float
) -> tuple[float, FloatArray]:
    """Return the log marginal likelihood and its gradient to kernel theta, task theta, log noise and mean.

    The gradient is (p + q + 2,), in this order.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> log = Samples(("a",), np.array([0]), np.array([[0.3]]), np.array([1.5]), None, ("load",))
        >>> kernel = RBF(0.5, variance=3.0, fixed=["variance", "length_scale"])
        >>> value_and_gradient(log, kernel, tasks=FixedTasks(np.eye(1)), noise=1.0, mean=0.5)[1]
        array([-0.09375,  0.25   ])
    """
    kernel, blocks = check_problem(samples, kernel, tasks, noise, mean), row_blocks(samples.tasks, tasks)
    return unchecked_value_and_gradient(samples, kernel, tasks, noise, mean, blocks=blocks)


class _Block:
    """The factorised covariance of rows that hang together: value, a and W. The matrix handed in is overwritten."""

    def __init__(self, K: FloatArray, D: FloatArray, r: FloatArray) -> None:
        from scipy.linalg.lapack import dpotrf, dpotrs

        K[np.diag_indices_from(K)] += D
        # LAPACK counts by columns: to it the transpose is the same matrix, and needs no copy.
        self.L, failed = dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            raise NotPositiveDefiniteError(
                f"the covariance of {len(r)} rows is not positive definite with noise {D.min():g}: "
                "raise the noise or its lower bound"
            )
        self.a, _ = dpotrs(self.L, r, lower=1)
        half_log_det = np.log(np.diag(self.L)).sum()
        self.value = float(-0.5 * r @ self.a - half_log_det - 0.5 * len(r) * np.log(2.0 * np.pi))

    def minus_twice_W(self) -> FloatArray:
        """(K̃ + D)⁻¹ − aaᵀ, (n, n): the gradient W to K̃, times −2, which saves passes over the matrix."""
        from scipy.linalg.blas import dsyr
        from scipy.linalg.lapack import dpotri

        inverse, _ = dpotri(self.L, lower=1, overwrite_c=1)
        return _mirrored(dsyr(-1.0, self.a, a=inverse, lower=1, overwrite_a=1).T)


def _mirrored(A: FloatArray) -> FloatArray:
    """Write the upper half of A (n, n) over the lower one, a strip at a time, so that both stay in the cache."""
    for start in range(0, len(A), _STRIP):
        stop = start + _STRIP
        A[start:stop, :start] = A[:start, start:stop].T
        corner = A[start:stop, start:stop]
        below = np.tril_indices(len(corner), -1)
        corner[below] = corner.T[below]
    return A


def unchecked_value_and_gradient(
    samples: Samples,
    kernel: Kernel,
    tasks: TaskModel,
    noise: float,
    mean: float,
    *,
    blocks: Sequence[IntArray],
) -> tuple[float, FloatArray]:
    """Return what `value_and_gradient` does, for checked arguments and the `blocks` that `row_blocks` makes."""
    K_Z, pull_tasks = tasks.vjp()
    D = variances(samples, noise)
    value, to_kernel, to_noise, to_mean = 0.0, np.zeros(len(kernel.theta)), 0.0, 0.0
    W_Z = np.zeros_like(K_Z)
    for rows in blocks:
        K_X, pull_kernel = kernel.vjp(samples.X[rows])
        present, starts, counts = np.unique(samples.tasks[rows], return_index=True, return_counts=True)
        Z = K_Z[np.ix_(present, present)].repeat(counts, axis=1).repeat(counts, axis=0)
        block = _Block(K_X * Z, D[rows], samples.y[rows] - mean)
        W = block.minus_twice_W()
        value += block.value
        to_noise -= 0.5 * float(np.trace(W))
        to_mean += float(block.a.sum())
        if len(kernel.theta):
            to_kernel -= 0.5 * pull_kernel(np.multiply(Z, W, out=Z))
        if len(tasks.theta):
            W *= K_X
            by_pair = np.add.reduceat(np.add.reduceat(W, starts, axis=1), starts, axis=0)
            W_Z[np.ix_(present, present)] -= 0.5 * by_pair
    return value, np.concatenate([to_kernel, pull_tasks(W_Z), [noise * to_noise, to_mean]])


def row_blocks(of_rows: IntArray, tasks: TaskModel, *, groups: IntArray | None = None) -> list[IntArray]:
    """Return the rows that hang together, block by block, sorted by station; `of_rows` is each row's station, (n,).

    With the group of each station in `groups` (M,), rows of different groups are held apart.

    Example:
        >>> from kinband.kernels import FixedTasks
        >>> blocks = row_blocks(np.array([0, 1, 2, 0]), FixedTasks(np.eye(3) + 0.1), groups=np.array([5, 7, 5]))
        >>> [rows.tolist() for rows in blocks]
        [[0, 3, 2], [1]]
    """
    # A free K_Z may leave zero behind, and then rows hang together that its present entries hold apart.
    K_Z = np.ones_like(tasks.K_Z) if len(tasks.theta) else tasks.K_Z
    return _blocks(of_rows, K_Z if groups is None else K_Z * (groups[:, None] == groups))


def _blocks(tasks: IntArray, K_Z: FloatArray) -> list[IntArray]:
    """The rows of each group of stations that share evidence, stations without rows left aside."""
    present, position = np.unique(tasks, return_inverse=True)
    group = np.empty(len(present), dtype=np.int64)
    found = components(K_Z[np.ix_(present, present)])
    for number, members in enumerate(found):
        group[members] = number
    by_row = group[position]
    order = np.lexsort((tasks, by_row))
    return np.split(order, np.cumsum(np.bincount(by_row))[:-1])


def variances(samples: Samples, noise: float) -> FloatArray:
    """The noise variance of each row, (n,): the common one and what is known of the row's own."""
    if samples.noise is None:
        return np.full(len(samples), noise)
    return noise + np.where(np.isfinite(samples.noise), samples.noise, 0.0)


def check_problem(samples: Samples, kernel: Kernel, tasks: TaskModel, noise: float, mean: float) -> Kernel:
    """Say what is wrong, or return the kernel bound to the features of the log."""
    positive_number(noise, name="noise")
    finite_number(mean, name="mean")
    if not len(samples):
        raise BadInputError("the log has no rows: a likelihood needs at least one")
    if len(tasks.K_Z) != len(samples.stations):
        raise BadInputError(f"the log has {len(samples.stations)} stations, the task model {len(tasks.K_Z)}")
    if samples.noise is not None and (samples.noise < 0).any():
        raise BadInputError(f"noise is a variance and must not be negative, got {np.nanmin(samples.noise):g}")
    return kernel.bind(samples.features)
