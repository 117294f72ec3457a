"""How well a kernel, a task model, a noise level and a mean explain a log, and the search for the best of them.

The model of a log is y ~ N(mean · 1, K̃ + D), K̃_ij = K_Z[m_i, m_j] k_X(x_i, x_j) as in (7), D diagonal: one common
level, what the context does not explain, plus what is known of the variance of each reward. Its log density, the
log marginal likelihood, trades fit against complexity, so that maximising it over length-scales, noise and the
parameters of K_Z needs no validation set (Rasmussen and Williams 2006, chapter 5). With a = (K̃ + D)⁻¹(y − mean)
the gradient to any entry of K̃ is W = ½(aaᵀ − (K̃ + D)⁻¹), and kernels pull W back to their parameters.

Stations that share nothing are factorised apart. The paper prints no such fit; it names the idea for its
hyper-parameter method, after Bonilla et al. (2008).
"""

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import Kernel, TaskModel, components
from kinband.records import Samples


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
    for rows in _blocks(samples.tasks, K_Z):
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
    return unchecked_value_and_gradient(samples, check_problem(samples, kernel, tasks, noise, mean), tasks, noise, mean)


class _Block:
    """The factorised covariance of rows that hang together: value, a and W."""

    def __init__(self, K: FloatArray, D: FloatArray, r: FloatArray) -> None:
        from scipy.linalg import cho_solve, cholesky

        K[np.diag_indices_from(K)] += D
        try:
            self.L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                f"the covariance of {len(r)} rows is not positive definite with noise {D.min():g}: "
                "raise the noise or its lower bound"
            ) from None
        self.a = cho_solve((self.L, True), r, check_finite=False)
        half_log_det = np.log(np.diag(self.L)).sum()
        self.value = float(-0.5 * r @ self.a - half_log_det - 0.5 * len(r) * np.log(2.0 * np.pi))

    def W(self) -> FloatArray:
        """½(aaᵀ − (K̃ + D)⁻¹), (n, n)."""
        from scipy.linalg.lapack import dpotri

        inverse, _ = dpotri(self.L, lower=1, overwrite_c=1)
        inverse = np.tril(inverse)
        inverse += np.tril(inverse, -1).T
        W: FloatArray = np.outer(self.a, self.a)
        W -= inverse
        W *= 0.5
        return W


def unchecked_value_and_gradient(
    samples: Samples, kernel: Kernel, tasks: TaskModel, noise: float, mean: float
) -> tuple[float, FloatArray]:
    """Return what `value_and_gradient` does, for arguments that have been checked."""
    K_Z, pull_tasks = tasks.vjp()
    D = variances(samples, noise)
    value, to_kernel, to_noise, to_mean = 0.0, np.zeros(len(kernel.theta)), 0.0, 0.0
    W_Z = np.zeros_like(K_Z)
    # A free K_Z may leave zero behind, and then rows hang together that its present entries hold apart.
    free = len(tasks.theta) > 0
    for rows in [np.arange(len(samples))] if free else _blocks(samples.tasks, K_Z):
        K_X, pull_kernel = kernel.vjp(samples.X[rows])
        m = samples.tasks[rows]
        Z = K_Z[np.ix_(m, m)]
        block = _Block(K_X * Z, D[rows], samples.y[rows] - mean)
        W = block.W()
        value += block.value
        to_kernel += pull_kernel(W * Z)
        to_noise += float(np.trace(W))
        to_mean += float(block.a.sum())
        if free:
            W_Z += _by_task(W * K_X, m, len(K_Z))
    return value, np.concatenate([to_kernel, pull_tasks(W_Z), [noise * to_noise, to_mean]])


def _by_task(A: FloatArray, tasks: IntArray, size: int) -> FloatArray:
    """Sum A (n, n) over the rows of each pair of tasks: (M, M)."""
    members = np.zeros((len(tasks), size))
    members[np.arange(len(tasks)), tasks] = 1.0
    out: FloatArray = members.T @ (A @ members)
    return out


def _blocks(tasks: IntArray, K_Z: FloatArray) -> list[IntArray]:
    """The rows of each group of stations that share evidence, stations without rows left aside."""
    present, position = np.unique(tasks, return_inverse=True)
    group = np.empty(len(present), dtype=np.int64)
    found = components(K_Z[np.ix_(present, present)])
    for number, members in enumerate(found):
        group[members] = number
    by_row = group[position]
    order = np.argsort(by_row, kind="stable")
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
