"""The paper's first figure: how the error of a two-task regression depends on the similarity it is trained with."""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray
from kinband.environments import RegressionDraw, TwoTaskRegression
from kinband.experiments.metrics import Estimate, mean_of


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Test error of the two-task regression against the similarity trained with.

    Attributes:
        similarity: Trained with, (s,).
        error: Mean squared error of every draw, (draws, s).
    """

    similarity: FloatArray
    error: FloatArray

    @property
    def lowest(self) -> Estimate:
        """Where the mean curve is lowest, with a bootstrap interval over draws."""
        rng = np.random.default_rng(0)
        picks = rng.integers(len(self.error), size=(1000, len(self.error)))
        places = np.array([self.similarity[self.error[p].mean(axis=0).argmin()] for p in picks])
        low, high = np.quantile(places, [0.025, 0.975])
        return Estimate(float(self.similarity[self.error.mean(axis=0).argmin()]), float(low), float(high))

    def at(self, similarity: float) -> Estimate:
        """Return the error at one similarity, with its interval."""
        return mean_of(self.error[:, int(np.abs(self.similarity - similarity).argmin())])


def error_curve(*, draws: int, seed: int = 1) -> ErrorCurve:
    """Return the paper's first figure: the error of (9) when trained with similarities from 0 to 1.

    Example:
        >>> error_curve(draws=3).error.shape
        (3, 101)
    """
    problem, similarity = TwoTaskRegression(), np.linspace(0.0, 1.0, 101)
    rng = np.random.default_rng(seed)
    errors = [_errors(problem, draw, similarity) for draw in problem.draws(draws, rng)]
    return ErrorCurve(similarity, np.array(errors))


def _errors(problem: TwoTaskRegression, draw: RegressionDraw, similarity: FloatArray) -> FloatArray:
    """Return the error of one draw for every similarity at once, (s,)."""
    train, test, s = draw.train, draw.test, similarity[:, None, None]
    K_X = np.exp(-((draw.X[:, None] - draw.X[train]) ** 2).sum(axis=-1) / (2 * problem.length_scale**2))
    own = draw.tasks[:, None] == draw.tasks[train]
    K = np.where(own, 1.0, s) * K_X  # (s, 2P, 2n), (7) with K_Z = [[1, s], [s, 1]]
    regularised = K[:, train] + problem.noise * np.eye(len(train))
    alpha = np.linalg.solve(regularised, np.broadcast_to(draw.y[train, None], (len(similarity), len(train), 1)))
    squared = ((K[:, test] @ alpha)[..., 0] - draw.y[test]) ** 2
    errors: FloatArray = squared.mean(axis=1)
    return errors
