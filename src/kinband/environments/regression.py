"""Two-task regression: how the similarity used in training decides the error (the paper's first synthetic study).

Rewards of two tasks are drawn from one Gaussian process, y ~ N(0, K_Z ⊗ K_X + noise·I), with a known similarity
off the diagonal of K_Z. Whoever trains (9) on a few points of each task with some other similarity should do worse:
for any fixed points, the posterior mean under the true covariance has the smallest expected squared error there is,
so the expected curve of error against training similarity has its minimum at the true one.

What the paper leaves open is an argument here. The printed Kronecker product needs one set of x for both tasks (the
default); with two sets the covariance is the Hadamard product K_Z[t_i, t_j]·k(x_i, x_j), of which the Kronecker
product is the special case. Training points are drawn separately for each task, or common to both. The paper samples
y 100 times for one set of x; `draws` does so, with a fresh training set each time, and can be told otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number, positive_number
from kinband.environments.contract import whole_number
from kinband.errors import BadInputError, NotPositiveDefiniteError


@dataclass(frozen=True, eq=False)
class RegressionDraw:
    """One sampled data set of both tasks: P rows of task 0, then P rows of task 1.

    Attributes:
        X: Points, (2P, 2).
        tasks: Task of each row, 0 or 1, (2P,).
        y: Rewards, noise included, (2P,).
        train: Rows to learn from, first those of task 0, then those of task 1, (2n,).
        test: All other rows, ascending, (2P − 2n,).

    Example:
        >>> draw = TwoTaskRegression().draw(np.random.default_rng(0))
        >>> draw.X.shape, draw.y.shape, draw.train.shape, draw.test.shape
        ((200, 2), (200,), (10,), (190,))
    """

    X: FloatArray
    tasks: IntArray
    y: FloatArray
    train: IntArray
    test: IntArray


@dataclass(frozen=True)
class TwoTaskRegression:
    """Two tasks of known similarity, sampled from one Gaussian process; the defaults are the paper's.

    Attributes:
        similarity: True similarity of the tasks, −1 to 1.
        points: Points per task, P.
        length_scale: Length-scale ℓ of the kernel exp(−‖x − x′‖²/2ℓ²).
        noise: Variance of the noise on y.
        training: Training points per task, n.
        shared_points: One set of x for both tasks (Kronecker, as printed), or one set each (Hadamard).
        common_training: The same training points in both tasks, or drawn separately. Points common to both need
            not be the same x: with one set of x each, the row numbers are common.

    Example:
        >>> tasks = TwoTaskRegression(similarity=0.8, training=3)
        >>> draw = tasks.draw(np.random.default_rng(0))
        >>> draw.tasks[draw.train].tolist()
        [0, 0, 0, 1, 1, 1]
        >>> bool((draw.X[:100] == draw.X[100:]).all())
        True
    """

    similarity: float = 0.8
    points: int = 100
    length_scale: float = 0.5
    noise: float = 0.05
    training: int = 5
    shared_points: bool = True
    common_training: bool = False

    def __post_init__(self) -> None:
        if not -1 <= finite_number(self.similarity, name="similarity") <= 1:
            raise BadInputError(f"similarity must lie between -1 and 1, got {self.similarity:g}")
        positive_number(self.length_scale, name="length_scale")
        positive_number(self.noise, name="noise")
        whole_number(self.training, name="training", least=1)
        whole_number(self.points, name="points", least=2)
        if self.training >= self.points:
            raise BadInputError(
                f"{self.training} training points out of {self.points} leave none to test: train on fewer"
            )

    @property
    def K_Z(self) -> FloatArray:
        """The true task matrix, (2, 2)."""
        return np.array([[1.0, self.similarity], [self.similarity, 1.0]])

    @property
    def tasks(self) -> IntArray:
        """Task of each row, (2P,)."""
        return np.repeat(np.arange(2), self.points)

    def draw(self, rng: np.random.Generator) -> RegressionDraw:
        """Draw points, rewards and a training set."""
        return next(self.draws(1, rng))

    def draws(
        self, count: int, rng: np.random.Generator, *, fresh_points: bool = False, fresh_training: bool = True
    ) -> Iterator[RegressionDraw]:
        """Yield `count` draws of the rewards; points cost a Cholesky factor and stay unless told otherwise.

        Args:
            count: How many draws.
            rng: Where points, rewards and training sets come from.
            fresh_points: Draw new x each time; the paper samples y many times for one set of x.
            fresh_training: Draw new training sets each time.

        Example:
            >>> first, second = TwoTaskRegression().draws(2, np.random.default_rng(0))
            >>> first.X is second.X, bool((first.y == second.y).any())
            (True, False)
        """
        whole_number(count, name="count", least=0)
        for number in range(count):
            if fresh_points or not number:
                X = self._points(rng)
                L = self._factor(X)
            if fresh_training or not number:
                train = self._training(rng)
            y = L @ rng.standard_normal(len(X))
            test = np.delete(np.arange(len(X)), train)
            yield RegressionDraw(X, self.tasks, y, train, test)

    def covariance(self, X: FloatArray) -> FloatArray:
        """Return K_Z[t_i, t_j]·k(x_i, x_j) + noise·I of points X (2P, 2), (2P, 2P)."""
        d2 = sum(np.subtract.outer(x, x) ** 2 for x in X.T)
        K_X = np.exp(-d2 / (2 * self.length_scale**2))
        covariance: FloatArray = self.K_Z[np.ix_(self.tasks, self.tasks)] * K_X + self.noise * np.eye(len(X))
        return covariance

    def _points(self, rng: np.random.Generator) -> FloatArray:
        if self.shared_points:
            return np.tile(rng.random((self.points, 2)), (2, 1))
        return rng.random((2 * self.points, 2))

    def _training(self, rng: np.random.Generator) -> IntArray:
        first = rng.choice(self.points, self.training, replace=False)
        second = first if self.common_training else rng.choice(self.points, self.training, replace=False)
        return np.concatenate([first, self.points + second])

    def _factor(self, X: FloatArray) -> FloatArray:
        try:
            return np.asarray(np.linalg.cholesky(self.covariance(X)), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(
                f"the covariance of {len(X)} rewards is singular to machine precision: "
                f"raise the noise above {self.noise:g}, or draw fewer points"
            ) from error
