"""What safe trials compare: lower bounds of what a trial earns beside what it replaces.

Two beliefs at once need their covariance. Where f at two configurations is uncertain for a common reason, such as a
load seldom seen, the difference between them is known far better than either, and its std is

    σ(a − b)² = σ(a)² + σ(b)² − 2 cov(a, b).

Theorem 1 and the Bayesian bounds hold for a difference as they do for a single f(x): both bound a linear function of
f by β times its standard deviation.
"""

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.policies.safety.rules import Conservative
from kinband.posterior import Posterior
from kinband.records import Choice

TOGETHER = 32
"""Contexts whose covariance is asked for at once: memory and time stay linear in their number."""


def own_beta(choice: Choice) -> float:
    """Return the β that a UCB policy multiplied its widths by, read off its scores f̂ + βσ.

    Example:
        >>> mean, std = np.array([0.5, 0.2]), np.array([0.1, 0.4])
        >>> round(own_beta(Choice(0, np.arange(2), mean, std, mean + 1.5 * std)), 12)
        1.5
    """
    mean, std, score = scores_of(choice)
    widest = int(std.argmax())
    return float((score[widest] - mean[widest]) / std[widest]) if std[widest] > 0 else 0.0


def lower_differences(
    posterior: Posterior, task: int, X: FloatArray, *, against: FloatArray, beta: float
) -> FloatArray:
    """Return f̂(x) − f̂(b) − βσ(x − b) of contexts X (m, d) of a task, against its context b (d,): (m,).

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0]], noise=0.1)
        >>> posterior.update([0], [[0.0]], [1.0])
        >>> lower_differences(posterior, 0, np.array([[0.0], [0.1]]), against=np.array([0.0]), beta=2.0).round(2)
        array([ 0.  , -0.41])
    """
    bounds = np.empty(len(X))
    for start in range(0, len(X), TOGETHER - 1):
        part = slice(start, start + TOGETHER - 1)
        found = posterior.predict(task, np.vstack([against, X[part]]))
        mean, C = found.mean, found.covariance()
        variance = np.diagonal(C)[1:] + C[0, 0] - 2.0 * C[0, 1:]
        bounds[part] = mean[1:] - mean[0] - beta * np.sqrt(np.maximum(variance, 0.0))
    return bounds


def margins(
    posterior: Posterior,
    tasks: ArrayLike,
    X: FloatArray,
    *,
    against: FloatArray,
    beta: FloatArray,
    rule: Conservative,
) -> FloatArray:
    """Return lower bounds of f(x) − (1 − α)f(b), rewards counted from `rule.least`: what a trial adds to a budget.

    The bound is that of the difference, or that of x earning nothing and b its upper bound, whichever is larger.

    Args:
        posterior: What is believed.
        tasks: Whose trials, (m,).
        X: Contexts tried, (m, d).
        against: Contexts of the declared configurations, (m, d).
        beta: Weight of each standard deviation, (m,).
        rule: α, and what rewards are counted from.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0]], noise=0.1, mean=0.8)
        >>> X, b, beta = np.array([[0.0], [9.0]]), np.array([[0.0], [0.0]]), np.array([0.5, 0.5])
        >>> margins(posterior, [0, 0], X, against=b, beta=beta, rule=Conservative(0.1)).round(3)
        array([ 0.03 , -0.593])
    """
    index: IntArray = np.asarray(tasks, dtype=np.int64)
    lower = np.empty(len(X))
    for start in range(0, len(X), TOGETHER):
        part = slice(start, start + TOGETHER)
        lower[part] = _margins(posterior, index[part], X[part], against[part], beta[part], rule)
    return lower


def _margins(
    posterior: Posterior, tasks: IntArray, X: FloatArray, against: FloatArray, beta: FloatArray, rule: Conservative
) -> FloatArray:
    m, rest = len(X), 1.0 - rule.alpha
    both, stacked = np.concatenate([tasks, tasks]), np.vstack([X, against])
    found = posterior.predict(both, stacked)
    mean, C = found.mean - rule.least, found.covariance()
    mine, its = np.arange(m), np.arange(m, 2 * m)
    variance = C[mine, mine] + rest**2 * C[its, its] - 2.0 * rest * C[mine, its]
    joint = mean[:m] - rest * mean[m:] - beta * np.sqrt(np.maximum(variance, 0.0))
    upper = mean[m:] + beta * np.sqrt(np.maximum(C[its, its], 0.0))
    same = np.equal(X, against).all(axis=1)  # what runs today cannot earn less than nothing either
    worst: FloatArray = np.where(same, 0.0, -rest * np.maximum(upper, 0.0))
    return np.maximum(joint, worst)


def scores_of(choice: Choice) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, std and score (m,) each of a UCB policy's choice."""
    if choice.mean is None or choice.std is None or choice.score is None:
        raise AssertionError("a UCB policy scores every arm")
    return choice.mean, choice.std, choice.score
