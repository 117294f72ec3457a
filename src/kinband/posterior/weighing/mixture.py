"""How predictions hang together where every station is, with its own probability, one of those that share.

Let b_z say whether station z is one of those whose f is the shared posterior's, with probability w_z and independently
of the others. Then f has the moments of a mixture:

    mean       m = w m_s + (1 − w) m_o
    same z     cov = w C_s + (1 − w) C_o + w (1 − w) d dᵀ,  d = m_s − m_o
    others     cov = w_z w_z' C_s

The last summand of the second line is what keeps intervals honest while it is not known which of the two is right:
where they disagree, the width is at least a share of their distance.
"""

from collections.abc import Sequence

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.posterior.contract import Prediction, Question
from kinband.posterior.together import Joint


def mixed(shared: Prediction, own: Prediction, weight: FloatArray | float) -> Prediction:
    """Return the prediction of the mixture; `weight` is that of sharing, one number or (m,).

    Example:
        >>> shared, own = (Prediction(np.array([mean]), np.array([0.1])) for mean in (0.9, 0.5))
        >>> found = mixed(shared, own, 0.5)
        >>> found.mean.round(2), found.width.round(2)
        (array([0.7]), array([0.22]))
    """
    apart = shared.mean - own.mean
    mean, variance = own.mean + weight * apart, mixed_variance(shared.width**2, own.width**2, apart, weight)
    if np.ndim(weight):
        return Prediction(mean, np.sqrt(variance), shared.column_of)
    w, (C_s, C_o) = float(weight), (shared.covariance_of, own.covariance_of)
    return Prediction(
        mean,
        np.sqrt(variance),
        shared.column_of,
        sharing=w,
        covariance_of=C_s and C_o and (lambda p: mixed_covariance(C_s(p), C_o(p), apart[p], w)),
    )


def mixed_variance(shared: FloatArray, own: FloatArray, apart: FloatArray, weight: FloatArray | float) -> FloatArray:
    """Return the variances of f at m contexts, (m,), whose two means lie `apart` (m,).

    Example:
        >>> mixed_variance(np.array([0.01]), np.array([0.01]), np.array([0.4]), 0.5)
        array([0.05])
    """
    variance: FloatArray = weight * shared + (1.0 - weight) * own + weight * (1.0 - weight) * apart**2
    return variance


def mixed_covariance(shared: FloatArray, own: FloatArray, apart: FloatArray, weight: float) -> FloatArray:
    """Return the covariance of f at m contexts of one station, (m, m), whose two means lie `apart` (m,).

    Example:
        >>> mixed_covariance(np.array([[0.01]]), np.array([[0.01]]), np.array([0.4]), 0.5)
        array([[0.05]])
    """
    C: FloatArray = weight * shared + (1.0 - weight) * own + weight * (1.0 - weight) * np.outer(apart, apart)
    return C


class Mixture:
    """Predictions of several decisions by the mixture, and their covariances.

    Args:
        questions: What was asked.
        shared: What the shared posterior answers.
        own: What the stations' own posteriors answer.
        weights: Weight of sharing for each question, (q,).
    """

    def __init__(self, questions: Sequence[Question], shared: Joint, own: Joint, weights: FloatArray) -> None:
        self._shared, self._own, self._weights = shared, own, weights
        pairs = zip(shared.predictions, own.predictions, weights.tolist(), strict=True)
        self.predictions = [mixed(s, o, w) for s, o, w in pairs]
        self.ends: IntArray = shared.ends
        self._tasks = np.array([q.task for q in questions])
        self._apart = [s.mean - o.mean for s, o in zip(shared.predictions, own.predictions, strict=True)]

    def within(self, i: int) -> FloatArray:
        """Return the covariance of f among the arms of one question, (m, m)."""
        return mixed_covariance(
            self._shared.within(i), self._own.within(i), self._apart[i], weight=float(self._weights[i])
        )

    def with_all(self, i: int, position: int) -> FloatArray:
        """Return the covariance of f at one arm, by its position, with f at all arms of all questions, (total,)."""
        w, at = self._weights[i], self._apart[i][position]
        sizes = np.diff(self.ends, prepend=0)
        same = np.repeat(self._tasks == self._tasks[i], sizes)
        shared, own = self._shared.with_all(i, position), self._own.with_all(i, position)
        d = np.concatenate(self._apart)
        alike = w * shared + (1.0 - w) * own + w * (1.0 - w) * at * d
        found: FloatArray = np.where(same, alike, w * np.repeat(self._weights, sizes) * shared)
        return found
