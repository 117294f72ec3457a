"""A round that knows its own picks: what is already being tried this slot need not be tried again next door.

Stations of a parallel round decide from the same beliefs, so those that resemble each other try the same thing at the
same time, and only the first trial teaches much. A pending reward is not known, but how much it will narrow every width
is: variances of a Gaussian posterior do not depend on rewards. So stations decide one after the other, each with the
widths that the others' picks leave (Desautels, Krause and Burdick 2014, GP-BUCB, who call the pending rewards
hallucinated); means stay as they are.

With c the covariance of a pick with everything still open, given the data and earlier picks, and λ the noise, the
variances fall by c²/(c_pick + λ): one row of a Cholesky factor per pick, over all arms of the round.
"""

import numpy as np

from kinband.arrays import FloatArray
from kinband.posterior.together import Joint


class Pending:
    """The widths of a round as its picks narrow them.

    Args:
        together: The predictions of the round, with their covariances.
        noise: Variance of a reward, λ.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> from kinband.posterior.contract import Question
        >>> posterior = ExactPosterior(RBF(0.5), [[1.0, 1.0], [1.0, 1.0]], noise=0.25)
        >>> X, arms = np.array([[0.0], [9.0]]), np.array([0, 1])
        >>> pending = Pending(posterior.predict_together([Question(0, X, arms), Question(1, X, arms)]), noise=0.25)
        >>> pending.pick(0, 1)  # the first station tries the second arm
        >>> (pending.width(1) ** 2).round(2).tolist()
        [1.0, 0.2]
    """

    def __init__(self, together: Joint, *, noise: float) -> None:
        self._together, self._noise = together, noise
        self._left = np.concatenate([prediction.width for prediction in together.predictions]) ** 2
        self._rows: list[FloatArray] = []

    def width(self, i: int) -> FloatArray:
        """Return the widths of a question's arms that the picks so far leave, (m,)."""
        return np.asarray(np.sqrt(np.maximum(self._left[self._slice(i)], 0.0)))

    def pick(self, i: int, position: int) -> None:
        """Take in that a question was answered with the arm at a position."""
        at = self._slice(i).start + position
        c = self._together.with_all(i, position)
        for row in self._rows:
            c = c - row[at] * row
        row = c / np.sqrt(max(self._left[at], 0.0) + self._noise)
        self._left = self._left - row**2
        self._rows.append(row)

    def _slice(self, i: int) -> slice:
        ends = self._together.ends
        return slice(int(ends[i - 1]) if i else 0, int(ends[i]))
